//! A compiled program as one web page: no network, no fonts, nothing beside the file itself.
//!
//! The page is drawn from a [`Report`], which is plain data; what draws it knows nothing of graphs or compilers.
//!
//! | file | draws |
//! |---|---|
//! | `repeated_steps` | nothing: finds blocks of steps that repeat, so that forty equal layers are drawn once |
//! | `layered_drawing` | nothing: gives the boxes and lines of a graph their coordinates |
//! | `summary` | the summary, and the shares of the time |
//! | `step_graph` | the graph: steps, layouts on the edges, moves with cost and reason |
//! | `timeline` | cores over time, and bytes of memory over time |
//! | `roofline` | what steps reach beside what the hardware allows |
//! | `work_division` | which part of an operation each core takes |
//! | `tables` | moves, bundles, steps, tensors, collectives, notes |
//! | `units` | nothing: times, bytes and counts as people write them |
//!
//! # Rules
//! * Whatever a name contains, it stays text: all of it is escaped.
//! * The page stays small: repeated layers are drawn once, long lists end with what is left out.

mod layered_drawing;
mod repeated_steps;
mod roofline;
mod step_graph;
mod summary;
mod tables;
mod timeline;
mod units;
mod work_division;

use crate::svg::escape_xml;
use repeated_steps::FoldedSteps;
use zellige_report::Report;
pub use zellige_report::ReportedCollective;

/// The page of a report.
pub fn render_page(report: &Report) -> String {
    render_run_page(report, &[])
}

/// The same with what a run exchanged with other cards, between this program and others.
pub fn render_run_page(report: &Report, collectives: &[ReportedCollective]) -> String {
    let folded = FoldedSteps::fold_report(report);
    let title = escape_xml(&report.graph);
    let mut body = String::new();
    let sections: [(&str, &str, String); 10] = [
        ("summary", "Summary", summary::render_summary(report)),
        ("graph", "Graph", step_graph::render_step_graph(report, &folded)),
        ("moves", "Moves", tables::render_moves(report, &folded)),
        ("bundles", "Bundles", tables::render_bundles(report)),
        ("collectives", "Collectives", tables::render_collectives(collectives)),
        ("time", "Time and memory", timeline::render_timeline(report, &folded)),
        ("roofline", "Roofline", roofline::render_roofline(report, &folded)),
        ("division", "Work division", work_division::render_work_division(report, &folded)),
        ("lists", "Steps and tensors", tables::render_lists(report, &folded)),
        ("notes", "Notes", tables::render_notes(report)),
    ];
    let mut nav = String::new();
    for (id, name, content) in &sections {
        // A heading without content would be a link to nothing.
        if content.is_empty() {
            continue;
        }
        nav.push_str(&format!("<a href=\"#{id}\">{name}</a>"));
        body.push_str(&format!("<section id=\"{id}\"><h2>{name}</h2>{content}</section>\n"));
    }
    let (style, script) = (include_str!("style.css"), include_str!("script.js"));
    let subtitle = escape_xml(&format!(
        "compiled for {} ({} cores), policy {}, coverage {}",
        report.machine.name, report.options.cores, report.options.policy, report.options.coverage
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
