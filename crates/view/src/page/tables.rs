//! Lists: moves, bundles, steps, tensors, collectives, notes.

use super::repeated_steps::FoldedSteps;
use super::units::{self, format_bytes, format_digits, format_percent, format_time};
use crate::svg::escape_xml;
use std::fmt::Write;
use zellige_report::{
    BufferPlace, BundleWorker, LaunchUnitName, LayoutSummary, Report, ReportedBuffer,
    ReportedCollective, ReportedStep,
};

/// Rows of one table; a sentence counts what is left out.
const MAX_ROWS: usize = 600;

/// A table that can be sorted and searched in the browser.
struct HtmlTable {
    head: &'static [(&'static str, bool)],
    rows: Vec<Vec<HtmlCell>>,
    total: usize,
}

/// What a cell shows, and by what it is sorted.
struct HtmlCell(String, String);

fn text_cell(t: &str) -> HtmlCell {
    HtmlCell(escape_xml(t), escape_xml(t))
}

/// What limits a step; its tooltip has the terms of its time, the hidden ones in parentheses.
fn bound_cell(step: &ReportedStep) -> HtmlCell {
    let bound = escape_xml(&step.bottleneck);
    if step.terms.is_empty() {
        return HtmlCell(bound.clone(), bound);
    }
    let terms = step.terms.iter().map(|t| match t.counted_us > 0.0 {
        true => format!("{} {}", t.name, format_time(t.counted_us)),
        false => format!("({} {})", t.name, format_time(t.alone_us)),
    });
    let terms = escape_xml(&terms.collect::<Vec<_>>().join(", "));
    HtmlCell(format!("<span title=\"{terms}\">{bound}</span>"), bound)
}

fn number_cell(shown: &str, value: f64) -> HtmlCell {
    // Sorted by the number: `9 us` stands before `10 ns` as a text.
    HtmlCell(escape_xml(shown), value.to_string())
}

impl HtmlTable {
    /// Columns with a name, and whether they hold numbers.
    fn new(head: &'static [(&'static str, bool)]) -> HtmlTable {
        HtmlTable { head, rows: Vec::new(), total: 0 }
    }

    fn add_row(&mut self, cells: Vec<HtmlCell>) {
        self.total += 1;
        if self.rows.len() < MAX_ROWS {
            self.rows.push(cells);
        }
    }

    fn to_html(&self) -> String {
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

fn layout_cell(shape: &LayoutSummary) -> HtmlCell {
    let tip = format!("device_size={:?} stride_map={:?}", shape.device_size, shape.stride_map);
    let shown = format!("<code title=\"{}\">{}</code>", escape_xml(&tip), escape_xml(&shape.order));
    HtmlCell(shown, escape_xml(&shape.order))
}

pub(super) fn render_moves(report: &Report, folded: &FoldedSteps) -> String {
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
        // Moves of repeated layers are one row with a count.
        if !m.load && folded.stand_in(m.step) != Some(m.step) {
            continue;
        }
        let times = if m.load { 1 } else { folded.repeat_count(m.step) };
        table.add_row(vec![
            text_cell(&m.tensor),
            text_cell(&units::format_size(&m.to.layout.size)),
            layout_cell(&m.from.layout),
            layout_cell(&m.to.layout),
            text_cell(&m.reason),
            text_cell(m.reader.as_deref().unwrap_or("the caller")),
            number_cell(&m.readers.to_string(), m.readers as f64),
            number_cell(&times.to_string(), times as f64),
            number_cell(&format_bytes(m.bytes), m.bytes as f64),
            number_cell(&format_time(m.us * times as f64), m.us * times as f64),
            text_cell(if m.load { "once, at loading" } else { "every run" }),
        ]);
    }
    table.to_html()
}

/// What the host launches in a run, where it launches bundles of steps; waves are steps, which have a list of their own.
pub(super) fn render_bundles(report: &Report) -> String {
    let bundles = report.bundles.iter().enumerate().filter(|(_, b)| !b.load);
    if report.machine.launch_unit != LaunchUnitName::Bundle || bundles.clone().next().is_none() {
        return String::new();
    }
    let mut table = HtmlTable::new(&[
        ("bundle", true),
        ("done by", false),
        ("first step", false),
        ("steps", true),
        ("start", true),
        ("launch", true),
        ("time", true),
        ("arguments", true),
        ("own pool", true),
        ("shared pool", true),
    ]);
    for (number, b) in bundles {
        let worker = match b.worker {
            BundleWorker::Device => "the card",
            BundleWorker::Host => "the host",
        };
        let first = report.steps.get(b.first_step).map_or("", |s| &s.name);
        table.add_row(vec![
            number_cell(&number.to_string(), number as f64),
            text_cell(worker),
            text_cell(first),
            number_cell(&b.steps.to_string(), b.steps as f64),
            number_cell(&format_time(b.start_us), b.start_us),
            number_cell(&format_time(b.launch_us), b.launch_us),
            number_cell(&format_time(b.us), b.us),
            number_cell(&b.arguments.len().to_string(), b.arguments.len() as f64),
            number_cell(&format_bytes(b.pool_bytes), b.pool_bytes as f64),
            number_cell(&format_bytes(b.shared_pool_bytes), b.shared_pool_bytes as f64),
        ]);
    }
    let text = "<p>A bundle is one program of the card: its steps run one after the other, and the host launches \
         it once. It is prepared at its first launch; later launches only give it the addresses of its \
         arguments. Its own pool is memory for results that no other bundle uses.</p>";
    format!("{text}{}", table.to_html())
}

pub(super) fn render_lists(report: &Report, folded: &FoldedSteps) -> String {
    let shown = folded.shown_steps(report);
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
        let times = folded.repeat_count(*i);
        let op = format!("<i class=\"key {}\"></i>{}", s.family, escape_xml(&s.op));
        table.add_row(vec![
            text_cell(&s.name),
            HtmlCell(op, escape_xml(&s.op)),
            number_cell(&times.to_string(), times as f64),
            number_cell(&format_time(s.start_us), s.start_us),
            number_cell(&format_time(*us), *us),
            number_cell(&format_percent(share), share),
            bound_cell(s),
            number_cell(&s.cores.to_string(), s.cores as f64),
            text_cell(&splits.join("×")),
            number_cell(&format_bytes(s.bytes_in), s.bytes_in as f64),
            number_cell(&format_bytes(s.bytes_out), s.bytes_out as f64),
            number_cell(&format_bytes(s.lx_saved_bytes), s.lx_saved_bytes as f64),
            number_cell(&units::format_flops(s.flops), s.flops as f64),
            number_cell(&format_digits(s.tflops), s.tflops),
        ]);
    }
    out.push_str(&table.to_html());
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
        table.add_row(vec![
            text_cell(&t.name),
            text_cell(&is),
            text_cell(&t.dtype),
            text_cell(&units::format_size(&t.layout.size)),
            layout_cell(&t.layout),
            text_cell(&place),
            number_cell(&format_bytes(t.bytes), t.bytes as f64),
            number_cell(&format_percent(t.padding), t.padding),
            number_cell(&t.read_by.len().to_string(), t.read_by.len() as f64),
        ]);
    }
    out.push_str(&table.to_html());
    out
}

/// Exchanges with other cards; those that differ in nothing but their times are one row.
pub(super) fn render_collectives(all: &[ReportedCollective]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let total = |of: fn(&ReportedCollective) -> f64| all.iter().map(of).sum::<f64>();
    let mut out = format!(
        "<p>{} {} in a run, between programs: {} over the busiest link, {}; this card waited {} for others, which is not part of that.</p>",
        all.len(),
        if all.len() == 1 { "collective" } else { "collectives" },
        format_bytes(all.iter().map(|c| c.bytes).sum()),
        format_time(total(|c| c.us)),
        format_time(total(|c| c.waited_us)),
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
    // Not by their times, which differ between equal exchanges when cards wait for each other.
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
        table.add_row(vec![
            text_cell(&first.op),
            text_cell(&first.dtype),
            text_cell(&units::format_size(&first.size)),
            number_cell(&first.ranks.to_string(), first.ranks as f64),
            number_cell(&same.len().to_string(), same.len() as f64),
            number_cell(&messages.to_string(), messages as f64),
            number_cell(&format_bytes(carried), carried as f64),
            number_cell(&format_time(took), took),
            number_cell(&format_time(waited), waited),
        ]);
    }
    out.push_str(&table.to_html());
    out
}

pub(super) fn render_notes(report: &Report) -> String {
    let mut out = String::new();
    if !report.fallbacks.is_empty() {
        let total: f64 = report.fallbacks.iter().map(|f| f.us).sum();
        let _ = write!(out, "<h3>Done by the host: {}</h3>", format_time(total));
        let mut table = HtmlTable::new(&[
            ("result", false),
            ("operation", false),
            ("at", false),
            ("bytes", true),
            ("round trip", true),
            ("remedy", false),
        ]);
        for f in &report.fallbacks {
            table.add_row(vec![
                text_cell(&f.name),
                text_cell(&f.op),
                text_cell(f.at.as_deref().unwrap_or("")),
                number_cell(&format_bytes(f.bytes), f.bytes as f64),
                number_cell(&format_time(f.us), f.us),
                text_cell(&f.remedy),
            ]);
        }
        out.push_str(&table.to_html());
    }
    if !report.casts.is_empty() {
        out.push_str("<h3>Narrower on the card</h3>");
        let mut table =
            HtmlTable::new(&[("tensor", false), ("what is lost", false), ("remedy", false)]);
        for c in &report.casts {
            table.add_row(vec![text_cell(&c.tensor), text_cell(&c.loss), text_cell(&c.remedy)]);
        }
        out.push_str(&table.to_html());
    }
    if !report.notes.is_empty() {
        out.push_str("<h3>Worth knowing</h3><ul>");
        for n in &report.notes {
            let who = match (&n.name, &n.op) {
                (Some(name), Some(op)) => {
                    format!("<code>{} = {}</code> ", escape_xml(name), escape_xml(op))
                }
                (Some(name), None) => format!("<code>{}</code> ", escape_xml(name)),
                _ => String::new(),
            };
            let at = n.at.as_ref().map(|a| format!(" at {}", escape_xml(a))).unwrap_or_default();
            let remedy = n.remedy.as_ref().map(|r| format!(" <em>{}</em>", escape_xml(r)));
            let _ = write!(
                out,
                "<li>{who}{}{at}.{}</li>",
                escape_xml(&n.text),
                remedy.unwrap_or_default()
            );
        }
        out.push_str("</ul>");
    }
    out
}
