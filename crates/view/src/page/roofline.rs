//! What steps reach beside what the hardware allows: operations per second over operations per byte.

use super::repeated_steps::FoldedSteps;
use super::units::{format_digits, format_percent, format_time};
use crate::svg::escape_xml;
use std::fmt::Write;
use zellige_report::{Report, StepKind};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 18.0;

/// Both axes by powers of ten: from, to.
struct RooflineFrame {
    x: (f64, f64),
    y: (f64, f64),
}

impl RooflineFrame {
    fn x_position(&self, x: f64) -> f64 {
        LEFT + (x.log10() - self.x.0) / (self.x.1 - self.x.0) * WIDTH
    }

    fn y_position(&self, y: f64) -> f64 {
        TOP + HEIGHT - (y.log10() - self.y.0) / (self.y.1 - self.y.0) * HEIGHT
    }
}

pub(super) fn render_roofline(report: &Report, folded: &FoldedSteps) -> String {
    let m = &report.machine;
    let points: Vec<(usize, f64, f64)> = folded
        .shown_steps(report)
        .into_iter()
        .filter_map(|(i, us)| {
            let s = &report.steps[i];
            // The axes are logarithmic and have no place for zero; moves do no arithmetic and belong to another
            // table.
            let x = s.intensity.filter(|x| *x > 0.0 && s.tflops > 0.0 && s.kind == StepKind::Op)?;
            Some((i, x, us))
        })
        .collect();
    if points.is_empty() || m.peak_tflops <= 0.0 || m.memory_gb_s <= 0.0 {
        return String::new();
    }
    let ridge = m.peak_tflops * 1e3 / m.memory_gb_s;
    let xs = points.iter().map(|p| p.1).chain([ridge]);
    let x0 = xs.clone().fold(f64::MAX, f64::min).log10().floor();
    let x1 = (xs.fold(0.0, f64::max) * 2.0).log10().ceil();
    let ys = points.iter().map(|p| report.steps[p.0].tflops);
    let y0 = ys.fold(f64::MAX, f64::min).log10().floor();
    let y1 = (m.peak_tflops * 1.3).log10().ceil();
    let frame = RooflineFrame { x: (x0, x1.max(x0 + 1.0)), y: (y0.min(y1 - 1.0), y1) };
    let mut out = format!(
        "<p class=\"soft\">A step below the slanted roof waits for memory, below the flat one for \
         arithmetic; areas of circles are times. The ridge is at {} FLOP per byte.</p>\
         <div class=\"scroll\"><svg class=\"roof\" width=\"{:.0}\" height=\"{:.0}\">",
        format_digits(ridge),
        LEFT + WIDTH + 30.0,
        TOP + HEIGHT + 46.0
    );
    draw_grid(&mut out, &frame);
    draw_roof(
        &mut out,
        &frame,
        m.peak_tflops,
        m.memory_gb_s,
        "roof",
        &format!("{} GB/s peak", format_digits(m.memory_gb_s)),
        &format!("{} TFLOP/s peak", format_digits(m.peak_tflops)),
    );
    // The second roof is what measured kernels reach; where it is the first, two lines would cover each other.
    if m.sustained_gb_s < m.memory_gb_s || m.matmul_tflops < m.peak_tflops {
        draw_roof(
            &mut out,
            &frame,
            m.matmul_tflops,
            m.sustained_gb_s,
            "roof soft",
            &format!("{} GB/s sustained", format_digits(m.sustained_gb_s)),
            &format!("{} TFLOP/s sustained by products", format_digits(m.matmul_tflops)),
        );
    }
    let total: f64 = report.summary.latency_us.max(1e-9);
    let mut sorted = points;
    // The longest first, so that small circles are drawn over large ones and stay reachable by the pointer.
    sorted.sort_by(|a, b| b.2.total_cmp(&a.2));
    for (i, x, us) in &sorted {
        let s = &report.steps[*i];
        // The area is proportional to the time, and so the radius to its root; three pixels keep the shortest
        // visible.
        let r = 3.0 + 34.0 * (us / total).clamp(0.0, 1.0).sqrt();
        let times = folded.repeat_count(*i);
        let each = if times > 1 { format!(" in {times} blocks") } else { String::new() };
        let _ = write!(
            out,
            "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{r:.1}\"><title>{}</title></circle>",
            s.family,
            frame.x_position(*x),
            frame.y_position(s.tflops),
            escape_xml(&format!(
                "{} = {}: {} FLOP/B, {} TFLOP/s, {}{each}, {} of the run, {}",
                s.name,
                s.op,
                format_digits(*x),
                format_digits(s.tflops),
                format_time(*us),
                format_percent(us / total),
                s.bottleneck
            ))
        );
    }
    draw_labels(&mut out, report, &frame, &sorted);
    out.push_str("</svg></div>");
    out
}

/// Names of the longest steps, where they do not cover one another.
fn draw_labels(
    out: &mut String,
    report: &Report,
    frame: &RooflineFrame,
    sorted: &[(usize, f64, f64)],
) {
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for (i, x, _) in sorted.iter().take(14) {
        let s = &report.steps[*i];
        let (px, py) = (frame.x_position(*x) + 8.0, frame.y_position(s.tflops) - 8.0);
        let width = s.op.chars().count() as f64 * 6.4;
        let free =
            |t: &(f64, f64, f64)| (t.1 - py).abs() > 12.0 || px > t.0 + t.2 || px + width < t.0;
        if taken.iter().all(free) && taken.len() < 9 {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{px:.1}\" y=\"{py:.1}\">{}</text>",
                escape_xml(&s.op)
            );
            taken.push((px, py, width));
        }
    }
}

fn draw_grid(out: &mut String, f: &RooflineFrame) {
    let bottom = TOP + HEIGHT;
    let mut e = f.x.0;
    while e <= f.x.1 + 0.01 {
        let x = f.x_position(10f64.powf(e));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"tick mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 16.0,
            format_power(e)
        );
        e += 1.0;
    }
    let mut e = f.y.0;
    while e <= f.y.1 + 0.01 {
        let y = f.y_position(10f64.powf(e));
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            y + 4.0,
            format_power(e)
        );
        e += 1.0;
    }
    let _ = write!(
        out,
        "<text class=\"tick mid\" x=\"{:.1}\" y=\"{:.1}\">FLOP per byte of device memory</text>\
         <text class=\"tick mid\" transform=\"translate(14 {:.1}) rotate(-90)\">TFLOP/s</text>",
        LEFT + WIDTH / 2.0,
        bottom + 36.0,
        TOP + HEIGHT / 2.0
    );
}

/// A power of ten as a number.
fn format_power(e: f64) -> String {
    let x = 10f64.powf(e);
    if x >= 1.0 { format!("{x:.0}") } else { format!("{x}").chars().take(8).collect() }
}

fn draw_roof(
    out: &mut String,
    f: &RooflineFrame,
    tflops: f64,
    gb_s: f64,
    class: &str,
    slope: &str,
    flat: &str,
) {
    let reach = |x: f64| (x * gb_s / 1e3).min(tflops);
    let ridge = tflops * 1e3 / gb_s;
    let (x0, x1) = (10f64.powf(f.x.0), 10f64.powf(f.x.1));
    // The slanted part enters the frame where it is high enough.
    let start = x0.max(10f64.powf(f.y.0) * 1e3 / gb_s);
    let points = [(start, reach(start)), (ridge, tflops), (x1, tflops)];
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{:.1},{:.1}", f.x_position(*x), f.y_position(*y)))
        .collect();
    let _ = write!(out, "<polyline class=\"{class}\" points=\"{}\"/>", path.join(" "));
    let shift = if class == "roof" { -6.0 } else { 13.0 };
    let _ = write!(
        out,
        "<text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT + WIDTH - 4.0,
        f.y_position(tflops) + shift,
        escape_xml(flat)
    );
    // Along the slope, from its middle.
    let middle = 10f64.powf((start.log10() + ridge.log10()) / 2.0);
    let (dx, dy) = (
        f.x_position(ridge) - f.x_position(start),
        f.y_position(tflops) - f.y_position(reach(start)),
    );
    let angle = dy.atan2(dx).to_degrees();
    let _ = write!(
        out,
        "<text class=\"tick mid\" transform=\"translate({:.1} {:.1}) rotate({angle:.1})\" dy=\"{shift:.0}\">{}</text>",
        f.x_position(middle),
        f.y_position(reach(middle)),
        escape_xml(slope)
    );
}
