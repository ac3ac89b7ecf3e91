//! Every pin of a single result, tried.
//!
//! **Idea.** The search for layouts changes one tensor at a time from the least sum of costs, and so it may miss a
//! program in which two tensors change together. A programmer who pins one of them would find it. So a small graph is
//! compiled once for every such pin, by the same search, and the fastest program is taken.
//!
//! **Law.** Where [`TriedPins::complete`] holds, no graph with one of [`pins_of`] on one result that the caller does
//! not get compiles to a faster program, but for those that [`TriedPins::faster`] names. It holds because graphs with
//! such a pin are searched and get their copies between scratchpads, and nothing more: what is compiled here is what the
//! programmer would get.
//!
//! **Cost.** A pin costs about what the search without it does, less what is known from there ([`KnownPrograms`]). A
//! graph with more than [`MAX_PINS`] is not compiled with any, and no pin is tried once [`MAX_PINNED_STEPS`] steps of
//! programs were planned for them. The counts do not depend on the machine: the result is the same everywhere.

use crate::chain::CopyPolicy;
use crate::choose::SearchRecord;
use crate::compile::{searched, with_layouts_of, with_wanted_copies};
use crate::error::Result;
use crate::evaluate::KnownPrograms;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::program::CompiledProgram;
use crate::propagate::resolve_pin;
use serde::{Deserialize, Serialize};
use zellige_graph::{Graph, TensorId, TensorOrigin, text};
use zellige_machine::SimulatedTime;
use zellige_stick::{LayoutRequest, StickLayout};

/// Steps that are planned for graphs with a pin, in all.
const MAX_PINNED_STEPS: usize = 1 << 11;
/// Graphs of at most this many pins are compiled with them.
const MAX_PINS: usize = 64;
/// Graphs of at most this many operations are compiled with pins.
// The limit of `propagate` for listing every order of the dimensions: without those candidates a pin could name a
// layout that the search without it never had.
const MAX_OPERATIONS: usize = 12;
/// Results of at most this many dimensions are pinned to every order of them.
const MAX_RANK: usize = 3;

/// What is known about the pins of single results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedPins {
    /// Pins with which the graph was compiled; those that mean the same layout count once.
    pub tried: usize,
    /// Whether these are all of them.
    pub complete: bool,
    /// A pin with which the graph takes less time, where there is one: the graph without it has no such program.
    #[serde(default)]
    pub faster: Option<String>,
}

/// The fastest of a program and of those with one result pinned, as a program of the graph without the pin.
///
/// # Errors
/// None of a graph that was compiled; the errors of its builder otherwise.
pub(crate) fn fastest_with_pins(
    graph: &Graph,
    options: &CompilerOptions,
    first: CompiledProgram,
    known: &mut KnownPrograms,
) -> Result<CompiledProgram> {
    let Some(list) = every_pin(graph, options)? else { return Ok(first) };
    let mut pins = TriedPins { complete: true, ..TriedPins::default() };
    let proof = first.assignment.clone();
    let mut best = first;
    let mut faster: Option<(SimulatedTime, String)> = None;
    let limit = known.planned_steps() + MAX_PINNED_STEPS;
    for (id, pin) in list {
        if known.planned_steps() >= limit {
            pins.complete = false;
            break;
        }
        pins.tried += 1;
        // A pin with which the graph does not compile is refused for the programmer too.
        let pinned = graph.with_pin(id, pin.clone())?;
        let Ok(program) = searched(&pinned, options, known) else { continue };
        // What the programmer would get has its copies between scratchpads too.
        let program = with_wanted_copies(&pinned, options, program, known);
        let time = program.latency();
        if time >= best.latency() {
            continue;
        }
        // The pinned program may be faster only because of the pin, whose move the graph without it need not make: so
        // the same layouts are compiled without the pin, and only that program is an answer.
        let free = with_layouts_of(graph, options, &program, known, CopyPolicy::Never);
        if let Ok(Some(free)) = free {
            let free = with_wanted_copies(graph, options, free, known);
            if free.latency() < best.latency() {
                best = free.proved_as(&proof);
            }
        }
        if time < best.latency() && faster.as_ref().is_none_or(|(least, _)| time < *least) {
            let name = &graph.get(id).name;
            faster = Some((time, format!("`{name}` {} takes {time}", text::print_pin(&pin))));
        }
    }
    pins.faster = faster.filter(|(time, _)| *time < best.latency()).map(|(_, text)| text);
    // The record of the first search stands: what was tried with pins is counted beside it.
    let complete = proof.search.complete;
    let search = SearchRecord { programs: known.programs(), complete, pins };
    best.set_search(search);
    Ok(best)
}

/// Every pin of a single result; none of a graph with more than are tried, with results of more dimensions than all
/// orders are listed of, or with a pinned result.
fn every_pin(
    graph: &Graph,
    options: &CompilerOptions,
) -> Result<Option<Vec<(TensorId, LayoutRequest)>>> {
    let results = free_results(graph);
    let small = graph.nodes().count() <= MAX_OPERATIONS
        && results
            .iter()
            .map(|id| graph.get(*id))
            .all(|t| t.pin.is_none() && t.size.len() <= MAX_RANK);
    if options.policy == CompilePolicy::Baseline || !small {
        return Ok(None);
    }
    let mut list = Vec::new();
    for id in results {
        list.extend(pins_of(options, graph, id)?.into_iter().map(|pin| (id, pin)));
    }
    Ok(Some(list).filter(|list| list.len() <= MAX_PINS))
}

/// Results that the caller does not get: a pin there changes how fast the program is, and nothing that the caller sees.
fn free_results(graph: &Graph) -> Vec<TensorId> {
    let returned = |id: TensorId| graph.outputs().iter().any(|o| graph.base_and_view(*o).0 == id);
    let results = graph.tensors().filter(|(_, t)| matches!(t.def, TensorOrigin::Result(..)));
    results.map(|(id, _)| id).filter(|id| !returned(*id)).collect()
}

/// Sticks along each dimension, one element a stick, and every order of the dimensions: each layout once.
fn pins_of(options: &CompilerOptions, graph: &Graph, id: TensorId) -> Result<Vec<LayoutRequest>> {
    let t = graph.get(id);
    let dims = 0..i64::try_from(t.size.len()).unwrap_or(i64::MAX);
    let mut orders: Vec<Vec<i64>> = vec![Vec::new()];
    // All orders of the dimensions, built by appending a dimension that is not there yet.
    for _ in dims.clone() {
        let longer = |order: &Vec<i64>| -> Vec<Vec<i64>> {
            let free = dims.clone().filter(|d| !order.contains(d));
            free.map(|d| [order.as_slice(), &[d]].concat()).collect()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    let sticks = dims.map(LayoutRequest::Stick);
    let all = sticks.chain([LayoutRequest::Sparse]);
    let all = all.chain(orders.into_iter().map(LayoutRequest::Order));
    let default = zellige_device::default_layout(&t.size, None, t.dtype, options.storage.keep)?;
    let mut known: Vec<StickLayout> = Vec::new();
    let mut pins = Vec::new();
    for pin in all {
        // A pin that fits no layout is refused wherever it is written.
        let Ok(layout) = resolve_pin(&pin, &t.size, &default) else { continue };
        if !known.contains(&layout) {
            known.push(layout);
            pins.push(pin);
        }
    }
    Ok(pins)
}
