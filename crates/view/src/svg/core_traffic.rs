//! What cores send to each other, as a standalone SVG document.

use super::canvas::{SvgCanvas, TextAnchor};
use super::{GAP, INK, MARGIN, SOFT, TextMode};
use crate::core_traffic::CoreTraffic;

/// The side of a cell.
const CELL: f64 = 18.0;

/// What stays on its core is grey, because it does not cross the ring.
const LOCAL: &str = "#c9d1d9";

/// Shades from little to much.
const SHADES: [&str; 5] = ["#dbeafe", "#a5c8f5", "#6ba3e8", "#3a7bd0", "#1d4f9b"];

/// The table as an SVG document: senders are rows, receivers columns; each cell carries a tooltip with its bytes.
pub fn render_core_traffic_svg(traffic: &CoreTraffic) -> String {
    let mut canvas = SvgCanvas::new(TextMode::Font);
    #[allow(clippy::cast_precision_loss, reason = "a table of some cores")]
    let side = traffic.cores.len() as f64 * CELL;
    let left = MARGIN + 62.0;
    let width = side.max(420.0);
    let mut y = canvas.draw_paragraph(&traffic.title, MARGIN, MARGIN, width, 18.0, INK, true) + 2.0;
    y = canvas.draw_paragraph(&traffic.caption, MARGIN, y, width, 12.0, SOFT, false);
    y += GAP;
    canvas.draw_text("to core", left, y - 14.0, 11.0, TextAnchor::Start, SOFT, false);
    canvas.draw_text("from", MARGIN, y + CELL, 11.0, TextAnchor::Start, SOFT, false);
    canvas.draw_text("core", MARGIN, y + CELL + 13.0, 11.0, TextAnchor::Start, SOFT, false);
    let most = traffic.most_remote_bytes().max(1);
    let mut x = left;
    for core in &traffic.cores {
        canvas.draw_text(
            &core.to_string(),
            x + CELL / 2.0,
            y - 3.0,
            9.0,
            TextAnchor::Middle,
            INK,
            false,
        );
        x += CELL;
    }
    for (from, (core, row)) in traffic.cores.iter().zip(&traffic.bytes).enumerate() {
        let label = core.to_string();
        canvas.draw_text(&label, left - 5.0, y + 13.0, 9.0, TextAnchor::End, INK, false);
        let mut x = left;
        for (to, bytes) in row.iter().enumerate() {
            let receiver = traffic.cores.get(to).copied().unwrap_or(0);
            let (fill, verb) = match *bytes {
                0 => ("#ffffff", "nothing goes"),
                _ if from == to => (LOCAL, "stay"),
                n => (SHADES[shade_of(n, most)], "go"),
            };
            let tooltip = match (*bytes, from == to) {
                (0, _) => format!("{verb} from core {core} to core {receiver}"),
                (n, true) => format!("{n} bytes {verb} on core {core}"),
                (n, false) => format!("{n} bytes {verb} from core {core} to core {receiver}"),
            };
            canvas.open_group(&tooltip);
            canvas.draw_rect(x, y, CELL, CELL, fill);
            canvas.close_group();
            x += CELL;
        }
        y += CELL;
    }
    canvas.finish_document(left + width + MARGIN, y + MARGIN, &traffic.title)
}

fn shade_of(bytes: i64, most: i64) -> usize {
    let steps = SHADES.len() as i128;
    let shade = (i128::from(bytes) * steps + i128::from(most) - 1) / i128::from(most) - 1;
    usize::try_from(shade).unwrap_or(0).min(SHADES.len() - 1)
}
