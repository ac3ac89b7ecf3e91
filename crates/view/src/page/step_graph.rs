//! The graph: steps as boxes, layouts on the edges, moves with their cost and reason.

use super::layered_drawing::{self, BoxSize, PlacedBoxes};
use super::repeated_steps::FoldedSteps;
use super::units::{self, format_time, shorten_end, shorten_start};
use crate::svg::escape_xml;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use zellige_report::{
    BufferOrigin, BufferPlace, LayoutSummary, Report, ReportedStep, StepFamily, StepKind,
};

/// Boxes that are drawn; a sentence counts what is left out.
// Placing boxes takes time that grows with their square, and a graph of more is not read as a picture.
const MAX_BOXES: usize = 420;
/// Width of a character and height of a line of small text.
const CHAR: f64 = 6.35;
const LINE: f64 = 14.5;
const CHIP: f64 = 17.0;

/// What a box shows.
struct StepBox {
    class: String,
    lines: Vec<(String, &'static str)>,
    chips: Vec<(String, String, usize)>,
    tooltip: String,
    step: Option<usize>,
    pill: bool,
}

pub(super) fn render_step_graph(report: &Report, folded: &FoldedSteps) -> String {
    let shown = folded.shown_steps(report);
    if shown.is_empty() {
        return "<p class=\"soft\">No steps run: the results are there when weights are loaded.</p>"
            .into();
    }
    let drawn: Vec<(usize, f64)> = shown.iter().take(MAX_BOXES).copied().collect();
    let (boxes, edges) = boxes_and_edges(report, folded, &drawn);
    let sizes: Vec<BoxSize> = boxes.iter().map(StepBox::box_size).collect();
    let pairs: Vec<(usize, usize)> = edges.iter().map(|e| (e.from, e.to)).collect();
    let placed = layered_drawing::place_boxes(&sizes, &pairs);
    let mut out = stick_legend(report);
    let (width, height) = (placed.width + 24.0, placed.height + 48.0);
    let _ = write!(
        out,
        "<div class=\"scroll\"><svg class=\"flow\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"-12 -32 {width:.0} {height:.0}\">\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" \
         markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" class=\"tip\"/></marker></defs>"
    );
    draw_frames(&mut out, folded, &boxes, &placed, &sizes);
    for (i, edge) in edges.iter().enumerate() {
        draw_edge(&mut out, edge, &placed, &placed.bends[i], &sizes);
    }
    for (i, b) in boxes.iter().enumerate() {
        b.draw_box(&mut out, i, placed.boxes[i], sizes[i]);
    }
    out.push_str("</svg></div>");
    if shown.len() > MAX_BOXES {
        let _ = write!(
            out,
            "<p class=\"soft\">The first {MAX_BOXES} of {} different steps; the list below has all.</p>",
            shown.len()
        );
    }
    out
}

/// A line from one box to another; the size that the reader sees, where it is another one.
struct StepEdge {
    from: usize,
    to: usize,
    seen: String,
    class: &'static str,
}

fn boxes_and_edges(
    report: &Report,
    folded: &FoldedSteps,
    drawn: &[(usize, f64)],
) -> (Vec<StepBox>, Vec<StepEdge>) {
    let mut sources: Vec<usize> = Vec::new();
    for (step, _) in drawn {
        for read in &report.steps[*step].reads {
            let Some(t) = report.tensors.get(read.buffer) else { continue };
            let written = t.written_by.and_then(|w| folded.stand_in(w));
            if written.is_none()
                && t.origin != BufferOrigin::Constant
                && !sources.contains(&read.buffer)
            {
                sources.push(read.buffer);
            }
        }
    }
    let mut boxes: Vec<StepBox> = sources.iter().map(|b| StepBox::source_box(report, *b)).collect();
    let source = |b: usize| sources.iter().position(|s| *s == b);
    let at: HashMap<usize, usize> =
        drawn.iter().enumerate().map(|(i, (step, _))| (*step, i + sources.len())).collect();
    boxes.extend(
        drawn
            .iter()
            .map(|(i, us)| StepBox::place_step_box(report, *i, *us, folded.repeat_count(*i))),
    );
    let (mut edges, mut known) = (Vec::new(), BTreeSet::new());
    for (step, _) in drawn {
        let to = at[step];
        for read in &report.steps[*step].reads {
            let Some(t) = report.tensors.get(read.buffer) else { continue };
            let writer = t.written_by.and_then(|w| folded.stand_in(w));
            let from = match writer {
                Some(writer) => at.get(&writer).copied(),
                None => source(read.buffer),
            };
            // A block's later copies read what its earlier ones wrote: that line would go up.
            let Some(from) = from.filter(|f| *f < to && known.insert((*f, to))) else { continue };
            let seen = if read.size == t.layout.size {
                String::new()
            } else {
                units::format_size(&read.size)
            };
            let class = if read.lx { "edge lx" } else { "edge" };
            edges.push(StepEdge { from, to, seen, class });
        }
    }
    add_outputs(report, folded, &at, &mut boxes, &mut edges);
    (boxes, edges)
}

/// A pill for every result that the caller gets, those of one shown step together.
fn add_outputs(
    report: &Report,
    folded: &FoldedSteps,
    at: &HashMap<usize, usize>,
    boxes: &mut Vec<StepBox>,
    edges: &mut Vec<StepEdge>,
) {
    let mut by: Vec<(usize, Vec<&str>)> = Vec::new();
    for t in report.tensors.iter().filter(|t| t.output) {
        let Some(from) = t.written_by.and_then(|w| folded.stand_in(w)).and_then(|s| at.get(&s))
        else {
            continue;
        };
        match by.iter_mut().find(|(f, _)| f == from) {
            Some((_, names)) => names.push(&t.name),
            None => by.push((*from, vec![&t.name])),
        }
    }
    for (from, names) in by {
        let name = shorten_start(names[0], 28);
        let count = if names.len() > 1 { format!(" ×{}", names.len()) } else { String::new() };
        boxes.push(StepBox {
            class: "pill out".into(),
            lines: vec![(format!("output {name}{count}"), "name")],
            chips: Vec::new(),
            tooltip: names.join(", "),
            step: None,
            pill: true,
        });
        edges.push(StepEdge { from, to: boxes.len() - 1, seen: String::new(), class: "edge" });
    }
}

/// The colour of a stick dimension.
fn stick_class(shape: &LayoutSummary) -> usize {
    // The style sheet has nine classes, and dimensions past the eighth share the last colour.
    shape.stick.map_or(9, |d| d.min(8))
}

fn layout_chip(shape: &LayoutSummary, dtype: &str, place: BufferPlace) -> (String, String, usize) {
    let lx = if place == BufferPlace::Lx { " · LX" } else { "" };
    let text = format!("{} · {}{lx}", units::format_size(&shape.size), shape.order);
    let note = format!(
        "{dtype} {:?} as device_size={:?} stride_map={:?} {}",
        shape.size, shape.device_size, shape.stride_map, shape.format
    );
    (shorten_end(&text, 46), note, stick_class(shape))
}

impl StepBox {
    fn source_box(report: &Report, buffer: usize) -> StepBox {
        let t = &report.tensors[buffer];
        let what = if t.origin == BufferOrigin::Copy { "moved at load" } else { t.origin.name() };
        StepBox {
            class: format!("pill {}", if t.loaded { "weight" } else { "in" }),
            lines: vec![(format!("{what} {}", shorten_start(&t.name, 28)), "name")],
            chips: vec![layout_chip(&t.layout, &t.dtype, t.place)],
            tooltip: format!(
                "{}: {} {:?}, {}",
                t.name,
                t.dtype,
                t.layout.size,
                units::format_bytes(t.bytes)
            ),
            step: None,
            pill: true,
        }
    }

    fn place_step_box(report: &Report, i: usize, us: f64, times: usize) -> StepBox {
        let s = &report.steps[i];
        let each = if times > 1 {
            format!("{} ×{times}", format_time(us / times as f64))
        } else {
            format_time(us)
        };
        let mut lines = vec![
            (format!("{}  {each}", s.op), "op"),
            (
                // The end of a name is kept: names of one layer begin alike.
                shorten_start(s.writes.first().map_or(s.name.as_str(), |w| w.name.as_str()), 34),
                "name",
            ),
        ];
        if s.kind == StepKind::Move {
            lines.extend(
                crate::text_width::wrap_text(&s.reason, 36).into_iter().take(3).map(|l| (l, "why")),
            );
        } else {
            lines.push((step_facts(s), "fact"));
        }
        let chips = s.writes.iter().filter_map(|w| report.tensors.get(w.buffer));
        StepBox {
            class: format!("step {}", s.family),
            lines,
            chips: chips.map(|t| layout_chip(&t.layout, &t.dtype, t.place)).collect(),
            tooltip: step_tooltip(s),
            step: Some(i),
            pill: false,
        }
    }

    fn box_size(&self) -> BoxSize {
        let line = |t: &str| t.chars().count() as f64 * CHAR + 18.0;
        let text = self.lines.iter().map(|(t, _)| line(t)).fold(70.0, f64::max);
        let chips = self.chips.iter().map(|(t, ..)| line(t)).fold(0.0, f64::max);
        let height = self.lines.len() as f64 * LINE + 9.0 + self.chips.len() as f64 * CHIP;
        BoxSize { width: text.max(chips), height }
    }

    fn draw_box(&self, out: &mut String, index: usize, (x, y): (f64, f64), size: BoxSize) {
        let body = size.height - self.chips.len() as f64 * CHIP;
        let round = if self.pill { body / 2.0 } else { 6.0 };
        let _ = write!(
            out,
            "<g class=\"box {}\" data-box=\"{index}\" data-step=\"{}\"><title>{}</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{body:.1}\" rx=\"{round:.1}\"/>",
            self.class,
            self.step.map_or(String::new(), |s| s.to_string()),
            escape_xml(&self.tooltip),
            size.width,
        );
        let mut line = y + LINE - 0.5;
        for (text, class) in &self.lines {
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{line:.1}\">{}</text>",
                x + 9.0,
                escape_xml(text)
            );
            line += LINE;
        }
        let mut top = y + body;
        for (text, note, stick) in &self.chips {
            let width = text.chars().count() as f64 * CHAR + 12.0;
            let left = x + (size.width - width) / 2.0;
            let _ = write!(
                out,
                "<g class=\"chip s{stick}\"><title>{}</title><rect x=\"{left:.1}\" y=\"{:.1}\" \
                 width=\"{width:.1}\" height=\"{:.1}\" rx=\"3\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                escape_xml(note),
                top + 1.5,
                CHIP - 3.0,
                left + 6.0,
                top + 12.0,
                escape_xml(text)
            );
            top += CHIP;
        }
        out.push_str("</g>");
    }
}

/// Cores, splits and what bounds a step, in one line.
fn step_facts(s: &ReportedStep) -> String {
    if s.kind == StepKind::Host {
        return format!(
            "on the host, {} to and fro",
            units::format_bytes(s.bytes_in + s.bytes_out)
        );
    }
    let splits: Vec<String> =
        s.dims.iter().filter(|d| d.split > 1).map(|d| format!("{}/{}", d.name, d.split)).collect();
    let splits = if splits.is_empty() { String::new() } else { format!(" {}", splits.join(" ")) };
    let cores = if s.cores == 1 { "1 core".into() } else { format!("{} cores", s.cores) };
    format!("{cores}{splits}, {}", s.bottleneck)
}

fn step_tooltip(s: &ReportedStep) -> String {
    let at = s.at.as_ref().map(|a| format!(" at {a}")).unwrap_or_default();
    format!(
        "{} = {}({}) {}{at}; {} in, {} out, {}; division by {}: {}",
        s.name,
        s.op,
        s.reads.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", "),
        s.attributes,
        units::format_bytes(s.bytes_in),
        units::format_bytes(s.bytes_out),
        units::format_flops(s.flops),
        s.decided_by,
        s.reason
    )
}

/// A frame around every block that repeats.
fn draw_frames(
    out: &mut String,
    folded: &FoldedSteps,
    boxes: &[StepBox],
    placed: &PlacedBoxes,
    sizes: &[BoxSize],
) {
    for block in &folded.blocks {
        let steps = &folded.run[block.start..block.start + block.period];
        let inside =
            (0..boxes.len()).filter(|i| boxes[*i].step.is_some_and(|s| steps.contains(&s)));
        let (mut x0, mut y0, mut x1, mut y1) = (f64::MAX, f64::MAX, 0.0f64, 0.0f64);
        for i in inside {
            let (x, y) = placed.boxes[i];
            (x0, y0) = (x0.min(x), y0.min(y));
            (x1, y1) = (x1.max(x + sizes[i].width), y1.max(y + sizes[i].height));
        }
        if x1 == 0.0 {
            continue;
        }
        let _ = write!(
            out,
            "<g class=\"frame\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"12\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">these {} steps ×{}</text></g>",
            x0 - 10.0,
            y0 - 12.0,
            x1 - x0 + 20.0,
            y1 - y0 + 24.0,
            x0 - 4.0,
            y0 - 17.0,
            block.period,
            block.times
        );
    }
}

fn draw_edge(
    out: &mut String,
    edge: &StepEdge,
    placed: &PlacedBoxes,
    bends: &[(f64, f64)],
    sizes: &[BoxSize],
) {
    let (from, to) = (placed.boxes[edge.from], placed.boxes[edge.to]);
    let start = (from.0 + sizes[edge.from].width / 2.0, from.1 + sizes[edge.from].height);
    let end = (to.0 + sizes[edge.to].width / 2.0, to.1 - 2.0);
    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    let mut last = start;
    for point in bends.iter().chain([&end]) {
        let middle = (last.1 + point.1) / 2.0;
        if (point.0 - last.0).abs() < 0.5 {
            let _ = write!(path, "L{:.1} {:.1}", point.0, point.1);
        } else {
            let _ = write!(
                path,
                "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}",
                last.0, point.0, point.0, point.1
            );
        }
        last = *point;
    }
    let (class, a, b) = (edge.class, edge.from, edge.to);
    let _ = write!(
        out,
        "<path class=\"{class}\" data-from=\"{a}\" data-to=\"{b}\" d=\"{path}\" marker-end=\"url(#tip)\"/>"
    );
    if !edge.seen.is_empty() {
        // Near the reader, because the size is what the reader sees, and several readers may see several sizes.
        let near = bends.last().copied().unwrap_or(start);
        let x = end.0 * 0.72 + near.0 * 0.28;
        let y = end.1 * 0.72 + near.1 * 0.28;
        let _ = write!(
            out,
            "<text class=\"seen\" x=\"{:.1}\" y=\"{:.1}\">as {}</text>",
            x + 5.0,
            y,
            escape_xml(&edge.seen)
        );
    }
}

fn stick_legend(report: &Report) -> String {
    let mut out = String::from("<p class=\"legend\">");
    use StepFamily::{Host, Matmul, Move, Other, Pointwise, Reduction};
    let families = [Matmul, Pointwise, Reduction, Other, Move, Host];
    for family in families.into_iter().filter(|f| report.steps.iter().any(|s| s.family == *f)) {
        let word = if family == Move { "inserted move" } else { family.name() };
        let _ = write!(out, "<span><i class=\"key {family}\"></i>{word}</span>");
    }
    let mut sticks: Vec<usize> = report
        .tensors
        .iter()
        .filter(|t| t.written_by.is_some())
        .map(|t| stick_class(&t.layout))
        .collect();
    sticks.sort_unstable();
    sticks.dedup();
    for stick in sticks {
        let word = match stick {
            9 => "one element in each stick".into(),
            d => format!("sticks along dimension {d}"),
        };
        let _ = write!(out, "<span><i class=\"key s{stick}\"></i>{word}</span>");
    }
    out.push_str(
        "</p><p class=\"soft\">Below a box is the layout of its result: size, then the device dimensions \
         from the slowest to the fastest. <code>d1/64 d0 d1%64</code> are the sticks of dimension 1, \
         in each of them all of dimension 0, then the 64 lanes of a stick. An arrow that says \
         <code>as</code> reads through a view of another size.</p>",
    );
    out
}
