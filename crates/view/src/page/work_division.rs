//! Which part of an operation each core takes: the result as a rectangle, cut as the plan cuts it.

use super::repeated_steps::FoldedSteps;
use super::units::{format_percent, format_time, shorten_end, shorten_start};
use crate::svg::escape_xml;
use std::fmt::Write;
use zellige_report::{LoopDimension, Report, ReportedStep};

/// Pictures on a page, the longest steps first.
const MAX_PICTURES: usize = 18;
const WIDE: f64 = 196.0;
const HIGH: f64 = 112.0;

pub(super) fn render_work_division(report: &Report, folded: &FoldedSteps) -> String {
    let mut shown = folded.shown_steps(report);
    shown.retain(|(i, _)| !report.steps[*i].dims.is_empty());
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    // One picture of steps that are cut alike.
    let mut kinds: Vec<(usize, f64, usize)> = Vec::new();
    for (i, us) in shown {
        let s = &report.steps[i];
        let alike = |k: &&mut (usize, f64, usize)| {
            let other = &report.steps[k.0];
            other.op == s.op && other.dims == s.dims
        };
        match kinds.iter_mut().find(alike) {
            Some(k) => {
                k.1 += us;
                k.2 += folded.repeat_count(i);
            }
            None => kinds.push((i, us, folded.repeat_count(i))),
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut out = String::from(
        "<p class=\"soft\">A rectangle is the result: rows and columns are the two dimensions that are \
         cut most, a cell is what one core computes, and its number is the core's. Where a sum is split \
         as well, a cell has the cores that share it.</p><div class=\"divisions\">",
    );
    for (i, us, times) in kinds.iter().take(MAX_PICTURES) {
        draw_picture(&mut out, report, &report.steps[*i], *us, *times);
    }
    out.push_str("</div>");
    if kinds.len() > MAX_PICTURES {
        let _ = write!(
            out,
            "<p class=\"soft\">and {} more ways, of shorter steps</p>",
            kinds.len() - MAX_PICTURES
        );
    }
    out
}

fn draw_picture(out: &mut String, report: &Report, s: &ReportedStep, us: f64, times: usize) {
    let share = us / report.summary.latency_us.max(1e-9);
    let count = if times > 1 { format!(" ×{times}") } else { String::new() };
    let words: Vec<String> = s
        .dims
        .iter()
        .map(|d| {
            let sum = if d.reduced { " (summed)" } else { "" };
            format!("{} {}{sum} / {}", d.name, d.size, d.split)
        })
        .collect();
    let _ = write!(
        out,
        "<figure><figcaption><b>{}{count}</b> {} <em>{}, {}</em></figcaption>",
        escape_xml(&s.op),
        escape_xml(&shorten_start(&s.name, 24)),
        format_time(us),
        format_percent(share)
    );
    draw_cells(out, s);
    let _ = write!(
        out,
        "<p>{}</p><p class=\"soft\" title=\"{}\">{}: {}</p></figure>",
        escape_xml(&words.join(", ")),
        escape_xml(&s.reason),
        escape_xml(&s.decided_by),
        escape_xml(&shorten_end(&s.reason, 90))
    );
}

fn draw_cells(out: &mut String, s: &ReportedStep) {
    // The two result dimensions that are cut most, in their own order; the caption names the others.
    let mut outputs: Vec<usize> = (0..s.dims.len()).filter(|d| !s.dims[*d].reduced).collect();
    outputs.sort_by_key(|d| std::cmp::Reverse(s.dims[*d].split));
    outputs.truncate(2);
    outputs.sort_unstable();
    let one = LoopDimension { split: 1, size: 1, ..LoopDimension::default() };
    let (rows, columns) = match outputs.as_slice() {
        [] => (&one, &one),
        [c] => (&one, &s.dims[*c]),
        [r, c, ..] => (&s.dims[*r], &s.dims[*c]),
    };
    // Sixty-four cells on a side are still visible in a picture of this size.
    let (nr, nc) = (rows.split.clamp(1, 64), columns.split.clamp(1, 64));
    let used: usize = s.dims.iter().map(|d| d.split.max(1)).product();
    let _ = write!(out, "<svg width=\"{:.0}\" height=\"{:.0}\">", WIDE + 2.0, HIGH + 2.0);
    let (w, h) = (WIDE / nc as f64, HIGH / nr as f64);
    for r in 0..nr {
        for c in 0..nc {
            let cores = cell_owners(s, &outputs, (r, c), nr > 0 && outputs.len() == 2);
            let label = match cores.as_slice() {
                [] => String::new(),
                [one] => one.to_string(),
                [first, .., last] => format!("{first}-{last}"),
            };
            let share = cores.first().map_or(0.0, |c| *c as f64 / used.max(1) as f64);
            let _ = write!(
                out,
                "<rect class=\"cell\" style=\"--h:{:.0}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"><title>core {label}</title></rect>",
                200.0 + 300.0 * share,
                1.0 + c as f64 * w,
                1.0 + r as f64 * h,
                (w - 1.0).max(0.5),
                (h - 1.0).max(0.5)
            );
            if w > label.chars().count() as f64 * 6.0 + 2.0 && h >= 10.0 {
                let _ = write!(
                    out,
                    "<text class=\"tick mid\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                    1.0 + (c as f64 + 0.5) * w,
                    1.0 + (r as f64 + 0.5) * h + 3.5
                );
            }
        }
    }
    out.push_str("</svg>");
}

/// The cores whose slices are in a cell: their numbers are mixed radix over the splits, what is summed
/// over fastest, then the other dimensions from the first on.
fn cell_owners(s: &ReportedStep, axes: &[usize], (r, c): (usize, usize), two: bool) -> Vec<usize> {
    let used: usize = s.dims.iter().map(|d| d.split.max(1)).product();
    let mut list = Vec::new();
    // No preset has as many cores; a report from elsewhere may claim any number.
    for core in 0..used.min(1024) {
        let mut rest = core;
        let mut digits = vec![0; s.dims.len()];
        let of = |reduced: bool| (0..s.dims.len()).filter(move |d| s.dims[*d].reduced == reduced);
        for d in of(true).chain(of(false)) {
            digits[d] = rest % s.dims[d].split.max(1);
            rest /= s.dims[d].split.max(1);
        }
        let here = match axes {
            [] => true,
            [x] => digits[*x] == c,
            [y, x, ..] => (!two || digits[*y] == r) && digits[*x] == c,
        };
        if here {
            list.push(core + s.first_core);
        }
    }
    list
}
