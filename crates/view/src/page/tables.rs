//! Lists: moves, steps, tensors, collectives, notes.

use super::repeated_steps::FoldedSteps;
use super::units::{self, bytes, digits, percent, time};
use crate::svg::escape;
use std::fmt::Write;
use zellige_report::{BufferPlace, LayoutSummary, Report, ReportedBuffer, ReportedCollective};

/// Rows of one table; what is left out is said.
const MOST: usize = 600;

/// A table that can be sorted and searched in the browser.
struct HtmlTable {
    head: &'static [(&'static str, bool)],
    rows: Vec<Vec<HtmlCell>>,
    total: usize,
}

/// What a cell shows, and by what it is sorted.
struct HtmlCell(String, String);

fn text(t: &str) -> HtmlCell {
    HtmlCell(escape(t), escape(t))
}

fn number(shown: &str, value: f64) -> HtmlCell {
    HtmlCell(escape(shown), value.to_string())
}

impl HtmlTable {
    /// Columns with a name, and whether they hold numbers.
    fn new(head: &'static [(&'static str, bool)]) -> HtmlTable {
        HtmlTable { head, rows: Vec::new(), total: 0 }
    }

    fn row(&mut self, cells: Vec<HtmlCell>) {
        self.total += 1;
        if self.rows.len() < MOST {
            self.rows.push(cells);
        }
    }

    fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (name, number) in self.head {
            let class = if *number { " class=\"num\"" } else { "" };
            let _ = write!(out, "<th{class}>{name}</th>");
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (HtmlCell(shown, key), (_, number)) in row.iter().zip(self.head) {
                if *number {
                    let _ = write!(out, "<td class=\"num\" data-key=\"{key}\">{shown}</td>");
                } else {
                    let _ = write!(out, "<td>{shown}</td>");
                }
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        if self.total > self.rows.len() {
            let _ = write!(
                out,
                "<p class=\"soft\">{} more rows; <code>--json</code> has them all</p>",
                self.total - self.rows.len()
            );
        }
        out
    }
}

fn layout(shape: &LayoutSummary) -> HtmlCell {
    let tip = format!("device_size={:?} stride_map={:?}", shape.device_size, shape.stride_map);
    let shown = format!("<code title=\"{}\">{}</code>", escape(&tip), escape(&shape.order));
    HtmlCell(shown, escape(&shape.order))
}

pub(super) fn moves(report: &Report, folded: &FoldedSteps) -> String {
    if report.moves.is_empty() {
        return "<p class=\"soft\">None: every operation reads its operands in the layouts that they have.</p>"
            .into();
    }
    let mut table = HtmlTable::new(&[
        ("tensor", false),
        ("size", false),
        ("from", false),
        ("to", false),
        ("why", false),
        ("first reader", false),
        ("readers", true),
        ("times", true),
        ("bytes", true),
        ("cost", true),
        ("when", false),
    ]);
    let mut list: Vec<_> = report.moves.iter().collect();
    list.sort_by(|a, b| {
        (a.load, b.us).partial_cmp(&(b.load, a.us)).unwrap_or(std::cmp::Ordering::Equal)
    });
    for m in list {
        if !m.load && folded.stand_in(m.step) != Some(m.step) {
            continue;
        }
        let times = if m.load { 1 } else { folded.times(m.step) };
        table.row(vec![
            text(&m.tensor),
            text(&units::size(&m.to.layout.size)),
            layout(&m.from.layout),
            layout(&m.to.layout),
            text(&m.reason),
            text(m.reader.as_deref().unwrap_or("the caller")),
            number(&m.readers.to_string(), m.readers as f64),
            number(&times.to_string(), times as f64),
            number(&bytes(m.bytes), m.bytes as f64),
            number(&time(m.us * times as f64), m.us * times as f64),
            text(if m.load { "once, at loading" } else { "every run" }),
        ]);
    }
    table.html()
}

pub(super) fn lists(report: &Report, folded: &FoldedSteps) -> String {
    let shown = folded.shown(report);
    let mut out = String::from(
        "<p><input class=\"search\" type=\"search\" placeholder=\"search steps and tensors\"></p><h3>Steps</h3>",
    );
    let mut table = HtmlTable::new(&[
        ("step", false),
        ("operation", false),
        ("times", true),
        ("start", true),
        ("time", true),
        ("share", true),
        ("bound by", false),
        ("cores", true),
        ("splits", false),
        ("read", true),
        ("written", true),
        ("saved by LX", true),
        ("FLOP", true),
        ("TFLOP/s", true),
    ]);
    for (i, us) in &shown {
        let s = &report.steps[*i];
        let splits: Vec<String> = s.dims.iter().map(|d| d.split.to_string()).collect();
        let share = us / report.summary.latency_us.max(1e-9);
        let times = folded.times(*i);
        let op = format!("<i class=\"key {}\"></i>{}", s.family, escape(&s.op));
        table.row(vec![
            text(&s.name),
            HtmlCell(op, escape(&s.op)),
            number(&times.to_string(), times as f64),
            number(&time(s.start_us), s.start_us),
            number(&time(*us), *us),
            number(&percent(share), share),
            text(&s.bottleneck),
            number(&s.cores.to_string(), s.cores as f64),
            text(&splits.join("×")),
            number(&bytes(s.bytes_in), s.bytes_in as f64),
            number(&bytes(s.bytes_out), s.bytes_out as f64),
            number(&bytes(s.lx_saved_bytes), s.lx_saved_bytes as f64),
            number(&units::flops(s.flops), s.flops as f64),
            number(&digits(s.tflops), s.tflops),
        ]);
    }
    out.push_str(&table.html());
    out.push_str("<h3>Tensors</h3>");
    let mut table = HtmlTable::new(&[
        ("tensor", false),
        ("is", false),
        ("dtype", false),
        ("size", false),
        ("layout", false),
        ("lives", false),
        ("bytes", true),
        ("padding", true),
        ("readers", true),
    ]);
    let used = |i: usize, t: &ReportedBuffer| {
        let writer = t.written_by.map(|w| folded.stand_in(w));
        match writer {
            Some(Some(stands)) => Some(stands) == t.written_by,
            // What is given is listed where a step that is shown reads it.
            _ => shown.iter().any(|(s, _)| report.steps[*s].reads.iter().any(|r| r.buffer == i)),
        }
    };
    for (i, t) in report.tensors.iter().enumerate() {
        if !used(i, t) {
            continue;
        }
        let place = match (t.place, t.address, &t.over) {
            (BufferPlace::Over, _, Some(other)) => format!("in the place of {other}"),
            (BufferPlace::Own, ..) => "a block of its own".into(),
            (BufferPlace::Lx, Some(at), _) => format!("LX at {at}"),
            (place, Some(at), _) => format!("{place} at {at}"),
            (place, ..) => place.to_string(),
        };
        let is = if t.output { format!("{}, output", t.origin) } else { t.origin.to_string() };
        table.row(vec![
            text(&t.name),
            text(&is),
            text(&t.dtype),
            text(&units::size(&t.layout.size)),
            layout(&t.layout),
            text(&place),
            number(&bytes(t.bytes), t.bytes as f64),
            number(&percent(t.padding), t.padding),
            number(&t.read_by.len().to_string(), t.read_by.len() as f64),
        ]);
    }
    out.push_str(&table.html());
    out
}

/// Exchanges with other cards; those that differ in nothing but their times are one row.
pub(super) fn collectives(all: &[ReportedCollective]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let total = |of: fn(&ReportedCollective) -> f64| all.iter().map(of).sum::<f64>();
    let mut out = format!(
        "<p>{} {} in a run, between programs: {} over the busiest link, {}; this card waited {} for others, which is not part of that.</p>",
        all.len(),
        if all.len() == 1 { "collective" } else { "collectives" },
        bytes(all.iter().map(|c| c.bytes).sum()),
        time(total(|c| c.us)),
        time(total(|c| c.waited_us)),
    );
    let mut table = HtmlTable::new(&[
        ("operation", false),
        ("dtype", false),
        ("size", false),
        ("cards", true),
        ("times", true),
        ("messages", true),
        ("bytes", true),
        ("time", true),
        ("waited", true),
    ]);
    let what = |c: &ReportedCollective| (c.op.clone(), c.dtype.clone(), c.size.clone(), c.ranks);
    let mut seen = Vec::new();
    for first in all {
        if seen.contains(&what(first)) {
            continue;
        }
        seen.push(what(first));
        let same: Vec<_> = all.iter().filter(|c| what(c) == what(first)).collect();
        let sum = |of: fn(&ReportedCollective) -> f64| same.iter().map(|c| of(c)).sum::<f64>();
        let (messages, carried): (u64, u64) =
            same.iter().fold((0, 0), |(m, b), c| (m + c.messages, b + c.bytes));
        let (took, waited) = (sum(|c| c.us), sum(|c| c.waited_us));
        table.row(vec![
            text(&first.op),
            text(&first.dtype),
            text(&units::size(&first.size)),
            number(&first.ranks.to_string(), first.ranks as f64),
            number(&same.len().to_string(), same.len() as f64),
            number(&messages.to_string(), messages as f64),
            number(&bytes(carried), carried as f64),
            number(&time(took), took),
            number(&time(waited), waited),
        ]);
    }
    out.push_str(&table.html());
    out
}

pub(super) fn notes(report: &Report) -> String {
    let mut out = String::new();
    if !report.fallbacks.is_empty() {
        let total: f64 = report.fallbacks.iter().map(|f| f.us).sum();
        let _ = write!(out, "<h3>Done by the host: {}</h3>", time(total));
        let mut table = HtmlTable::new(&[
            ("result", false),
            ("operation", false),
            ("at", false),
            ("bytes", true),
            ("round trip", true),
            ("remedy", false),
        ]);
        for f in &report.fallbacks {
            table.row(vec![
                text(&f.name),
                text(&f.op),
                text(f.at.as_deref().unwrap_or("")),
                number(&bytes(f.bytes), f.bytes as f64),
                number(&time(f.us), f.us),
                text(&f.remedy),
            ]);
        }
        out.push_str(&table.html());
    }
    if !report.casts.is_empty() {
        out.push_str("<h3>Narrower on the card</h3>");
        let mut table =
            HtmlTable::new(&[("tensor", false), ("what is lost", false), ("remedy", false)]);
        for c in &report.casts {
            table.row(vec![text(&c.tensor), text(&c.loss), text(&c.remedy)]);
        }
        out.push_str(&table.html());
    }
    if !report.notes.is_empty() {
        out.push_str("<h3>Worth knowing</h3><ul>");
        for n in &report.notes {
            let who = match (&n.name, &n.op) {
                (Some(name), Some(op)) => {
                    format!("<code>{} = {}</code> ", escape(name), escape(op))
                }
                (Some(name), None) => format!("<code>{}</code> ", escape(name)),
                _ => String::new(),
            };
            let at = n.at.as_ref().map(|a| format!(" at {}", escape(a))).unwrap_or_default();
            let remedy = n.remedy.as_ref().map(|r| format!(" <em>{}</em>", escape(r)));
            let _ =
                write!(out, "<li>{who}{}{at}.{}</li>", escape(&n.text), remedy.unwrap_or_default());
        }
        out.push_str("</ul>");
    }
    out
}
