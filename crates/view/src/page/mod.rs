//! A compiled program as one web page: no network, no fonts, nothing beside the file itself.
//!
//! The page is drawn from a [`Model`], which reads the published JSON of a report
//! (`docs/schemas/report.schema.json`); what draws it knows nothing of graphs or compilers.
//!
//! | file | draws |
//! |---|---|
//! | `fold` | nothing: finds blocks of steps that repeat, so that forty equal layers are one |
//! | `dag` | nothing: places boxes and lines of a graph in layers |
//! | `cards` | the summary, and where the time goes |
//! | `flow` | the graph: steps, layouts on the edges, moves with cost and reason |
//! | `time` | cores over time, and bytes of memory over time |
//! | `roofline` | what steps reach beside what the hardware allows |
//! | `division` | which part of an operation each core takes |
//! | `tables` | moves, steps, tensors, notes |
//!
//! # Rules
//! * Whatever a name contains, it stays text: all of it is escaped.
//! * The page stays small: repeated layers are drawn once, long lists end with what is left out.

mod cards;
mod dag;
mod division;
mod flow;
mod fold;
mod model;
mod roofline;
mod tables;
mod time;
mod words;

pub use model::{
    Certificate, Comparison, Cores, Dim, Machine, Model, Move, Note, Occupancy, Operand, Options,
    Remark, Shape, Side, Step, Summary, Tensor, Unit,
};

use crate::svg::escape;
use fold::Folded;

/// The page of a report.
pub fn html(model: &Model) -> String {
    let folded = Folded::of(model);
    let title = escape(&model.graph);
    let mut body = String::new();
    let sections: [(&str, &str, String); 8] = [
        ("summary", "Summary", cards::render(model)),
        ("graph", "Graph", flow::render(model, &folded)),
        ("moves", "Moves", tables::moves(model, &folded)),
        ("time", "Time and memory", time::render(model, &folded)),
        ("roofline", "Roofline", roofline::render(model, &folded)),
        ("division", "Work division", division::render(model, &folded)),
        ("lists", "Steps and tensors", tables::lists(model, &folded)),
        ("notes", "Notes", tables::notes(model)),
    ];
    let mut nav = String::new();
    for (id, name, content) in &sections {
        if content.is_empty() {
            continue;
        }
        nav.push_str(&format!("<a href=\"#{id}\">{name}</a>"));
        body.push_str(&format!("<section id=\"{id}\"><h2>{name}</h2>{content}</section>\n"));
    }
    let (style, script) = (include_str!("style.css"), include_str!("script.js"));
    let subtitle = escape(&format!(
        "compiled for {} ({} cores), policy {}, coverage {}",
        model.machine.name, model.options.cores, model.options.policy, model.options.coverage
    ));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title} - zellige</title><style>{style}</style></head><body>\
         <header><div><h1>{title}</h1><p>{subtitle}</p></div>\
         <nav>{nav}<button id=\"theme\" title=\"light or dark\">&#9681;</button></nav></header>\
         <main>{body}</main>\
         <footer>Times are simulated: they follow from the plan and the figures of the hardware \
         (<code>zellige device</code>). <code>zellige compile --json</code> has every number of \
         this page.</footer><script>{script}</script></body></html>\n"
    )
}
