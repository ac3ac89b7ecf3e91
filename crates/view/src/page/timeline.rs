//! Cores over time, and bytes of memory over time, on one axis.

use super::repeated_steps::FoldedSteps;
use super::units::{format_bytes, format_time};
use crate::svg::escape_xml;
use std::fmt::Write;
use zellige_report::{MemoryOccupancy, Report, ReportedStep, StepFamily, StepKind};

/// Room for the axis, for the names on its left, and for one core.
const WIDTH: f64 = 1040.0;
const LEFT: f64 = 92.0;
const LANE: f64 = 6.0;
/// Steps narrower than this are drawn together.
const THIN: f64 = 0.6;

pub(super) fn render_timeline(report: &Report, folded: &FoldedSteps) -> String {
    let steps: Vec<&ReportedStep> = folded.run.iter().map(|i| &report.steps[*i]).collect();
    if steps.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    let whole = TimeAxis { from: 0.0, to: report.summary.latency_us };
    out.push_str(&render_charts("The whole run", report, &steps, whole));
    // In the whole run a layer may be a few pixels wide; one block is enough, as the others are equal.
    if let Some(block) = folded.blocks.iter().max_by_key(|b| b.period * b.times) {
        let part = &steps[block.start..block.start + block.period];
        let from = part.iter().map(|s| s.start_us).fold(f64::MAX, f64::min);
        let to = part.iter().map(|s| s.start_us + s.us).fold(0.0, f64::max);
        let title = format!("The first of {} equal blocks", block.times);
        out.push_str(&render_charts(&title, report, part, TimeAxis { from, to }));
    }
    out
}

/// A stretch of time over the width of a drawing.
#[derive(Clone, Copy)]
struct TimeAxis {
    from: f64,
    to: f64,
}

impl TimeAxis {
    fn x_position(self, us: f64) -> f64 {
        let length = (self.to - self.from).max(1e-9);
        LEFT + ((us - self.from) / length).clamp(0.0, 1.0) * WIDTH
    }

    fn tick_times(self) -> Vec<f64> {
        let length = (self.to - self.from).max(1e-9);
        let raw = length / 8.0;
        let power = 10f64.powf(raw.log10().floor());
        // Round steps, so that a time can be read off between two ticks.
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
        let step = step.unwrap_or(raw);
        let first = (self.from / step).ceil();
        (0..12u8)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|t| *t <= self.to * 1.000_001)
            .collect()
    }
}

fn render_charts(title: &str, report: &Report, steps: &[&ReportedStep], axis: TimeAxis) -> String {
    let cores = report.options.cores.clamp(1, 1024);
    let host = steps.iter().any(|s| s.kind == StepKind::Host);
    let lanes = cores as f64 * LANE;
    let top = 8.0;
    let host_top = top + lanes + 6.0;
    let after = if host { host_top + 16.0 } else { top + lanes };
    let graphs: Vec<(&str, &MemoryOccupancy)> =
        [("LX per core", &report.lx), ("pool", &report.pool)]
            .into_iter()
            .filter(|(_, o)| o.peak > 0)
            .collect();
    let bottom = after + graphs.len() as f64 * 86.0 + 6.0;
    let mut out = format!(
        "<h3>{}</h3><div class=\"scroll\"><svg class=\"time\" width=\"{:.0}\" height=\"{:.0}\">",
        escape_xml(title),
        LEFT + WIDTH + 40.0,
        bottom + 26.0
    );
    for t in axis.tick_times() {
        let x = axis.x_position(t);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick mid\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            format_time(t)
        );
    }
    let _ = write!(
        out,
        "<text class=\"tick end\" x=\"{:.0}\" y=\"{:.1}\">core 0</text>\
         <text class=\"tick end\" x=\"{:.0}\" y=\"{:.1}\">core {}</text>",
        LEFT - 8.0,
        top + 8.0,
        LEFT - 8.0,
        top + lanes,
        cores - 1
    );
    if host {
        let _ = write!(
            out,
            "<text class=\"tick end\" x=\"{:.0}\" y=\"{:.1}\">host</text>",
            LEFT - 8.0,
            host_top + 10.0
        );
    }
    draw_bars(&mut out, steps, axis, top, host_top);
    let mut y = after + 14.0;
    for (name, occupancy) in graphs {
        draw_memory_area(&mut out, name, occupancy, axis, y);
        y += 86.0;
    }
    out.push_str("</svg></div>");
    out
}

/// Bars of the steps; neighbouring steps that are too thin to be seen share one bar.
fn draw_bars(out: &mut String, steps: &[&ReportedStep], axis: TimeAxis, top: f64, host_top: f64) {
    let mut thin: Vec<&ReportedStep> = Vec::new();
    let flush = |out: &mut String, thin: &mut Vec<&ReportedStep>| {
        let (Some(first), Some(last)) = (thin.first(), thin.last()) else { return };
        let longest = thin.iter().max_by(|a, b| a.us.total_cmp(&b.us)).map_or(*first, |s| *s);
        let end = last.start_us + last.us;
        let cores = thin.iter().map(|s| s.cores).max().unwrap_or(1).max(1);
        let note = match thin.len() {
            1 => format!("{} = {}, {}", first.name, first.op, format_time(first.us)),
            n => format!(
                "{n} steps in {}, the longest {} = {}",
                format_time(end - first.start_us),
                longest.name,
                longest.op
            ),
        };
        let x = axis.x_position(first.start_us);
        let h = cores as f64 * LANE;
        draw_bar(
            out,
            longest.family,
            (x, top + first.first_core as f64 * LANE),
            ((axis.x_position(end) - x).max(0.4), h),
            &note,
        );
        thin.clear();
    };
    for s in steps {
        let x = axis.x_position(s.start_us);
        let width = axis.x_position(s.start_us + s.us) - x;
        if s.kind == StepKind::Host {
            flush(out, &mut thin);
            let note = format!("{} = {} on the host, {}", s.name, s.op, format_time(s.us));
            draw_bar(out, StepFamily::Host, (x, host_top), (width.max(0.6), 13.0), &note);
            continue;
        }
        if width < THIN {
            // Thousands of steps of a tenth of a pixel would make a file of megabytes in which nothing can be seen.
            let begun = thin.first().map_or(x, |f| axis.x_position(f.start_us));
            thin.push(s);
            if x + width - begun >= THIN {
                flush(out, &mut thin);
            }
            continue;
        }
        flush(out, &mut thin);
        let mut lane = s.first_core as f64;
        for group in &s.busy {
            let w = (axis.x_position(s.start_us + group.us.min(s.us)) - x).max(0.0);
            let note = format!(
                "{} = {}: {} cores busy {} of {}, {}",
                s.name,
                s.op,
                group.cores,
                format_time(group.us),
                format_time(s.us),
                s.bottleneck
            );
            let at = (x, top + lane * LANE);
            if w > 0.0 {
                draw_bar(out, s.family, at, (w, group.cores as f64 * LANE), &note);
            }
            lane += group.cores as f64;
        }
    }
    flush(out, &mut thin);
}

fn draw_bar(
    out: &mut String,
    family: StepFamily,
    (x, y): (f64, f64),
    (w, h): (f64, f64),
    note: &str,
) {
    let _ = write!(
        out,
        "<rect class=\"run {}\" x=\"{x:.2}\" y=\"{:.1}\" width=\"{w:.2}\" height=\"{:.1}\"><title>{}</title></rect>",
        family,
        y + 0.5,
        (h - 1.0).max(1.0),
        escape_xml(note)
    );
}

/// Bytes in use as steps of a stair, below their limit.
fn draw_memory_area(out: &mut String, name: &str, o: &MemoryOccupancy, axis: TimeAxis, y: f64) {
    const HIGH: f64 = 62.0;
    // A limit far above what is used would flatten the curve.
    let most = if o.limit > 0 && o.peak * 8 > o.limit { o.limit.max(o.peak) } else { o.peak };
    let at = |n: u64| y + HIGH - HIGH * (n as f64 / most.max(1) as f64).min(1.0);
    let mut path = format!("M{:.2} {:.2}", axis.x_position(axis.from), y + HIGH);
    let mut last = 0;
    for (us, n) in &o.points {
        // The occupancy at the left edge is that of the last change before it.
        if *us < axis.from {
            last = *n;
            continue;
        }
        if *us > axis.to {
            break;
        }
        let x = axis.x_position(*us);
        let _ = write!(path, "L{x:.2} {:.2}L{x:.2} {:.2}", at(last), at(*n));
        last = *n;
    }
    let _ = write!(
        path,
        "L{:.2} {:.2}L{:.2} {:.2}z",
        axis.x_position(axis.to),
        at(last),
        axis.x_position(axis.to),
        y + HIGH
    );
    let limit = if o.limit > 0 { format!(" of {}", format_bytes(o.limit)) } else { String::new() };
    let _ = write!(
        out,
        "<path class=\"area\" d=\"{path}\"><title>{}: at most {}{limit}</title></path>\
         <text class=\"tick end\" x=\"{:.0}\" y=\"{:.1}\">{}</text>\
         <text class=\"tick end soft\" x=\"{:.0}\" y=\"{:.1}\">peak {}</text>",
        escape_xml(name),
        format_bytes(o.peak),
        LEFT - 8.0,
        y + HIGH / 2.0,
        escape_xml(name),
        LEFT - 8.0,
        y + HIGH / 2.0 + 13.0,
        format_bytes(o.peak)
    );
    if most == o.limit {
        let _ = write!(
            out,
            "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\">{}</text>",
            LEFT + WIDTH,
            LEFT + 4.0,
            y - 3.0,
            format_bytes(o.limit)
        );
    }
}
