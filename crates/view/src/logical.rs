//! The logical tensor: grids of its last two dimensions.

use crate::cell_label;
use crate::clip;
use crate::scene::{CellKind, SceneCell, ScenePanel};
use crate::scene_builder::SceneContext;
use zellige_layout::{Result, unflatten_index};

/// Columns of a one-dimensional tensor that is folded into a grid.
pub(crate) const FOLDED_COLS: i64 = 32;

/// One panel per index of the leading dimensions, and what they leave out.
pub(crate) fn logical_panels(context: &SceneContext<'_>) -> Result<Vec<ScenePanel>> {
    let shape = context.shape;
    let (lead, rows, cols) = match shape {
        [] => (&[][..], 1, 1),
        [n] => (&[][..], n / FOLDED_COLS + i64::from(n % FOLDED_COLS != 0), (*n).min(FOLDED_COLS)),
        [lead @ .., rows, cols] => (lead, *rows, *cols),
    };
    let folded = shape.len() == 1 && rows > 1;
    // 128 bits, because the product of leading extents beside an empty dimension may pass 64.
    let slabs: i128 = lead.iter().map(|e| i128::from(*e)).product();
    let shown = clip::fit_extents(slabs, rows.into(), cols.into(), context.options.max_cells);
    let rank = shape.len();
    let (row_name, col_name) =
        (format!("dim {}", rank.max(2) - 2), format!("dim {}", rank.max(1) - 1));
    let clipped = if folded {
        let whole = shown.cols as i64 == cols;
        let elements =
            (shown.rows * shown.cols).min(usize::try_from(shape[0]).unwrap_or(usize::MAX));
        // A fold that is itself clipped would leave holes in every row; it keeps its first row.
        let elements = if whole { elements } else { shown.cols };
        clip::clip_sentence([clip::clip_phrase("elements", 0, elements, shape[0].into())])
    } else {
        clip::clip_sentence([
            clip::clip_phrase("slabs", 0, shown.panels, slabs),
            clip::clip_phrase("rows", 0, shown.rows, rows.into()),
            clip::clip_phrase("columns", 0, shown.cols, cols.into()),
        ])
    };
    let rows_shown = if folded && (shown.cols as i64) < cols { 1 } else { shown.rows };

    let mut panels = Vec::new();
    for slab in 0..shown.panels as i64 {
        let leading = unflatten_index(lead, slab);
        let mut panel = ScenePanel {
            caption: slab_caption(&leading),
            row_title: if rank < 2 { String::new() } else { row_name.clone() },
            col_title: if rank == 0 { String::new() } else { col_name.clone() },
            col_labels: (0..shown.cols)
                .map(|c| if rank == 0 { String::new() } else { c.to_string() })
                .collect(),
            col_group: 1,
            clip: clipped.clone(),
            ..ScenePanel::default()
        };
        for row in 0..rows_shown as i64 {
            panel.row_labels.push(match rank {
                0 => String::new(),
                1 if folded => format!("{}+", row * cols),
                1 => String::new(),
                _ => row.to_string(),
            });
            for col in 0..shown.cols as i64 {
                let flat = (slab * rows + row) * cols + col;
                if folded && flat >= shape[0] {
                    break;
                }
                panel.cells.push(logical_cell(context, flat, row, col)?);
            }
        }
        panels.push(panel);
    }
    Ok(panels)
}

pub(crate) fn logical_cell(
    context: &SceneContext<'_>,
    flat: i64,
    row: i64,
    col: i64,
) -> Result<SceneCell> {
    let places = context.element_places(flat)?;
    Ok(SceneCell {
        row: usize::try_from(row).unwrap_or(0),
        col: usize::try_from(col).unwrap_or(0),
        span: 1,
        kind: CellKind::Element,
        label: cell_label::label_places(&places, context.axes()),
        colors: context.place_colors(&places),
        elements: vec![unflatten_index(context.shape, flat)],
        places,
    })
}

/// `[1, 0, :, :]`; nothing for a single grid.
pub(crate) fn slab_caption(leading: &[i64]) -> String {
    if leading.is_empty() {
        return String::new();
    }
    let digits: Vec<_> = leading.iter().map(i64::to_string).collect();
    format!("[{}, :, :]", digits.join(", "))
}
