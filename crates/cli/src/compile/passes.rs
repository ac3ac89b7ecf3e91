//! What each pass made, as text that can be compared.

use crate::graph::Loaded;
use anyhow::{Context, Result};
use std::fmt::Write;
use zellige_compile::pad::{Side, padding};
use zellige_compile::propagate::propagate;
use zellige_compile::report::{describe, report};
use zellige_compile::{Options, Program, decompose, fold};
use zellige_device::Laid;
use zellige_graph::{Graph, text};

/// The passes in the order they run.
pub(super) const NAMES: [&str; 9] =
    ["read", "decompose", "fold", "propagate", "choose", "pad", "divide", "place", "schedule"];

pub(super) fn print(pass: &str, loaded: &Loaded, options: &Options) -> Result<String> {
    let decomposed = || -> Result<Graph> {
        let graph = &loaded.graph;
        let apart = options.decomposes() || pass == "decompose";
        Ok(if apart {
            decompose(graph).map_err(|e| loaded.refused(&e))?.graph
        } else {
            graph.clone()
        })
    };
    let folded = || fold(&decomposed()?).map_err(|e| loaded.refused(&e));
    Ok(match pass {
        "read" => text::print(&loaded.graph),
        "decompose" => text::print(&decomposed()?),
        "fold" => text::print(&folded()?),
        "propagate" => {
            let graph = folded()?;
            candidates(&graph, options).map_err(|e| match e.downcast_ref() {
                Some(refused) => loaded.refused(refused),
                None => e,
            })?
        }
        "pad" => padded(&loaded.compile(options)?),
        _ => lists(pass, &report(&loaded.compile(options)?)),
    })
}

/// The dimensions of every step that are longer in memory than in the tensor.
fn padded(program: &Program) -> String {
    let mut out = String::new();
    for p in padding(program) {
        let step = &program.steps[p.step.0];
        let _ = writeln!(out, "{}: {} bytes of padding moved", step.name, p.bytes);
        for e in &p.extents {
            let side = match e.side {
                Side::Operand(k) => format!("operand {k}"),
                Side::Result(k) => format!("result {k}"),
            };
            let fill = match e.fill {
                Some(value) => format!("filled with {value}"),
                None => "holding anything".into(),
            };
            let _ = writeln!(
                out,
                "    {side}, dimension {}: {} of {}, {fill}",
                e.dim, e.valid, e.padded
            );
        }
    }
    if out.is_empty() {
        out.push_str("nothing is padded\n");
    }
    out
}

fn candidates(graph: &Graph, options: &Options) -> Result<String> {
    let found = propagate(graph, options)?;
    let mut out = String::new();
    for (id, t) in graph.tensors() {
        if found.tensors[id.0].is_empty() {
            continue;
        }
        let _ = writeln!(out, "{} {}{:?}", t.name, t.dtype, t.size);
        for layout in &found.tensors[id.0] {
            let laid = Laid::new(options.storage, t.dtype, layout).context("a candidate")?;
            let _ = writeln!(out, "    {}", describe(&laid));
        }
    }
    for (id, node) in graph.nodes() {
        let name = &graph.get(node.outputs[0]).name;
        let list = &found.nodes[id.0];
        let best = list.iter().map(|a| a.cycles).min().unwrap_or(0);
        let _ = writeln!(
            out,
            "{name} = {}: {} alternatives, the cheapest {best} cycles",
            node.op.name(),
            list.len()
        );
    }
    Ok(out)
}

fn lists(pass: &str, r: &zellige_compile::report::Report) -> String {
    let mut out = String::new();
    match pass {
        "choose" => {
            for t in &r.tensors {
                let _ =
                    writeln!(out, "{} {}{:?} {}", t.name, t.dtype, t.layout.size, t.layout.order);
            }
            for m in &r.moves {
                let when = if m.load { "once" } else { "every run" };
                let _ = writeln!(
                    out,
                    "move {} to {} ({when}, {:.3} us): {}",
                    m.from.buffer, m.to.buffer, m.us, m.reason
                );
            }
            let _ = writeln!(out, "{}", r.certificate.text);
        }
        "divide" => {
            for s in &r.steps {
                let dims: Vec<String> =
                    s.dims.iter().map(|d| format!("{}={}/{}", d.name, d.size, d.split)).collect();
                let _ = writeln!(
                    out,
                    "{} = {}: {} on {} cores by {}: {}",
                    s.name,
                    s.op,
                    if dims.is_empty() { "undivided".into() } else { dims.join(" ") },
                    s.cores,
                    s.decided_by,
                    s.reason
                );
            }
        }
        "place" => {
            for t in &r.tensors {
                let at = match (t.address, &t.over) {
                    (Some(at), _) => format!("{} {at}", t.place),
                    (None, Some(other)) => format!("over {other}"),
                    (None, None) => t.place.into(),
                };
                let _ = writeln!(out, "{} {} bytes: {at}", t.name, t.bytes);
            }
            let _ = writeln!(
                out,
                "LX peak {} of {} bytes, pool peak {} bytes",
                r.lx.peak, r.lx.limit, r.pool.peak
            );
        }
        _ => {
            for s in &r.steps {
                let when = if s.load { "load" } else { "run" };
                let last = (s.first_core + s.cores).saturating_sub(1);
                let _ = writeln!(
                    out,
                    "{when} {:.3} us + {:.3} us, cores {} to {last}: {} = {}, {}",
                    s.start_us, s.us, s.first_core, s.name, s.op, s.bottleneck
                );
            }
        }
    }
    out
}
