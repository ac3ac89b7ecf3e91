//! Random graphs, compiled in many ways and run: the numbers of the operations one by one.
//!
//! **When bits are equal.** A program runs the graph that its passes left (`Program::graph`): composite
//! operations are decomposed where the options say so, and everything else is folded without changing
//! a bit. Its numbers are those of that graph, operation by operation with default divisions, bit for
//! bit, unless some step divides a reduction over cores: then partial sums meet in another order. Default
//! divisions never do that. So bits are compared where no step of the program divides a reduction, and
//! numbers otherwise.
//!
//! Each operation is also computed in float64 from what the device stored before it, so that a mistake
//! that both paths share would show.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "other tests use the rest of what they share")]

mod common;
#[path = "common/random.rs"]
mod random;
#[path = "common/read.rs"]
mod read;
#[path = "common/reference.rs"]
mod reference;

use common::values;
use reference::{Nd, evaluate};
use std::collections::BTreeMap;
use zellige_compile::solve::memory::PlacementPolicy;
use zellige_compile::{
    CompiledProgram, CompilerOptions, OutputLayoutRule, check_program, compile_again, compile_graph,
};
use zellige_device::{Card, KeptDtypes};
use zellige_float::Dtype;
use zellige_graph::{Graph, SourceInput, SourceOutput, TensorOrigin, text};
use zellige_op::CoverageProfile;
use zellige_run::{HostArray, LoadedModel, run_graph_eagerly};

fn input(graph: &Graph, name: &str) -> HostArray {
    values(graph.tensor(name).unwrap(), 1)
}

/// The ways in which graph number `seed` is compiled.
fn ways(seed: u64) -> Vec<(String, CompilerOptions)> {
    let full = CompilerOptions::default;
    let cores = [1, 2, 3, 7, 16, 31][usize::try_from(seed % 6).unwrap()];
    let mut list = vec![
        ("best".to_string(), full()),
        ("baseline".to_string(), CompilerOptions::baseline()),
        (format!("best, {cores} cores"), CompilerOptions { cores, ..full() }),
    ];
    list.push(match seed % 5 {
        0 => ("card".into(), CompilerOptions { coverage: CoverageProfile::Card, ..full() }),
        1 => (
            "baseline card".into(),
            CompilerOptions { coverage: CoverageProfile::Card, ..CompilerOptions::baseline() },
        ),
        2 => ("decomposed".into(), CompilerOptions { decompose: Some(true), ..full() }),
        3 => (
            "as computed".into(),
            CompilerOptions { outputs: OutputLayoutRule::AsComputed, ..full() },
        ),
        _ => {
            let scratchpads =
                [None, Some(PlacementPolicy::Greedy)][usize::try_from(seed % 2).unwrap()];
            ("one by one".into(), CompilerOptions { scratchpads, concurrent: false, ..full() })
        }
    });
    // As the card stores them: two orders of a sum in 32 bits differ by their rounding.
    list.iter_mut().for_each(|(_, options)| options.storage.keep = KeptDtypes::NONE);
    list
}

/// Whether some step divides a reduction.
fn divides_sums(program: &CompiledProgram) -> bool {
    program.steps.iter().any(|s| {
        let space = s.space.iter().flatten();
        s.division.splits().iter().zip(space).any(|(n, span)| span.reduced && *n > 1)
    })
}

/// Whether a small change of an operand is a small change of the result.
fn is_smooth(graph: &Graph) -> bool {
    graph.nodes().all(|(_, n)| {
        let steps = [
            "floor",
            "ceil",
            "round",
            "trunc",
            "frac",
            "sign",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "max",
            "min",
            "argmax",
            "argmin",
            "sort",
            "topk",
            "any",
            "all",
            "count_nonzero",
            "fmod",
            "remainder",
            "floor_divide",
            "copysign",
            "cast",
            "logical_not",
            "pow",
            "cummax",
            "cummin",
            "reciprocal",
            "div",
            "atan2",
            "exp",
            "exp2",
            "sinh",
            "cumprod",
            "prod",
            "log2",
            "sqrt",
            "log1p",
            "where",
            "isnan",
            "isinf",
            "isfinite",
        ];
        !steps.contains(&n.op.name())
    })
}

/// What is wrong with a graph that is compiled this way; whether bits were compared.
fn wrong(graph: &Graph, options: &CompilerOptions, card: &Card) -> Result<bool, String> {
    let program = compile_graph(graph, options).map_err(|e| format!("it does not compile: {e}"))?;
    let again = compile_again(graph, options, &program.decisions)
        .map_err(|e| format!("it does not compile again: {e}"))?;
    let describe = |p: &CompiledProgram| format!("{:?} {:?}", p.buffers, p.steps);
    if describe(&program) != describe(&again) {
        return Err("the same decisions make another program".into());
    }
    check_program(&program).map_err(|e| format!("the check refuses its plan: {e}"))?;
    let (exact, latency) = (!divides_sums(&program), program.latency());
    let left = program.graph.clone();
    let expected = run_graph_eagerly(&left, card, |n| Ok(input(&left, n)))
        .map_err(|e| format!("eager: {e}"))?;
    let mut model = LoadedModel::load_program(program, card, |n| Ok(input(&left, n)))
        .map_err(|e| format!("it does not load: {e}"))?;
    for _ in 0..2 {
        let run = model
            .run_program(|n| Ok(input(&left, n)))
            .map_err(|e| format!("it does not run: {e}"))?;
        if run.latency != latency {
            return Err(format!("it takes {} instead of {latency}", run.latency));
        }
        for (k, (a, b)) in run.outputs.iter().zip(&expected).enumerate() {
            let why = match exact {
                true if a == b => None,
                true => Some(read::differ(a, b, 0.0).unwrap_or("bits of zeros or NaNs".into())),
                false if is_smooth(&left) => read::differ(a, b, 0.03),
                false => None,
            };
            if let Some(why) = why {
                return Err(format!("output {k} differs: {why}"));
            }
        }
    }
    Ok(exact)
}

/// Elements of a size.
fn elements(size: &[i64]) -> usize {
    usize::try_from(size.iter().product::<i64>()).unwrap_or(0)
}

/// The graph of a source, with what no output needs left out.
fn pruned(source: &zellige_graph::GraphSource) -> Option<Graph> {
    let mut source = source.clone();
    let mut needed: Vec<String> = source.outputs.iter().map(|o| o.name.clone()).collect();
    let mut ops = Vec::new();
    for op in source.ops.iter().rev() {
        if op.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(op.inputs.iter().filter_map(|v| v.as_str().map(str::to_string)));
            ops.push(op.clone());
        }
    }
    ops.reverse();
    source.ops = ops;
    source.inputs.retain(|i| needed.contains(&i.name));
    source.bind_symbols(&BTreeMap::new()).ok()
}

/// A smaller graph that is wrong, too: one output, inputs in the place of results, no pins.
fn shrunk(graph: &Graph, fails: &dyn Fn(&Graph) -> bool) -> Graph {
    let mut graph = graph.clone();
    loop {
        let source = graph.to_source();
        let mut smaller = Vec::new();
        if source.outputs.len() > 1 {
            for o in &source.outputs {
                let outputs = vec![SourceOutput { name: o.name.clone(), span: 0..0 }];
                smaller.push(zellige_graph::GraphSource { outputs, ..source.clone() });
            }
        }
        for (i, op) in source.ops.iter().enumerate().rev() {
            let mut cut = source.clone();
            cut.ops.remove(i);
            for name in &op.outputs {
                let t = graph.tensor(name).unwrap();
                let given = SourceInput {
                    name: name.clone(),
                    dtype: t.dtype,
                    size: t.size.iter().map(|n| zellige_graph::SymbolicSize::Fixed(*n)).collect(),
                    role: zellige_graph::InputRole::Input,
                    pin: None,
                    place: None,
                    span: 0..0,
                };
                cut.inputs.push(given);
            }
            if !cut.ops.is_empty() {
                smaller.push(cut);
            }
            let mut last = source.clone();
            last.outputs = vec![SourceOutput { name: op.outputs[0].clone(), span: 0..0 }];
            if source.outputs.len() > 1 || source.outputs[0].name != op.outputs[0] {
                smaller.push(last);
            }
            if op.pin.is_some() {
                let mut free = source.clone();
                free.ops[i].pin = None;
                smaller.push(free);
            }
        }
        let size = |g: &Graph| (g.tensors().count(), text::print_graph(g).len());
        let next = smaller.iter().filter_map(pruned).find(|g| size(g) < size(&graph) && fails(g));
        match next {
            Some(next) => graph = next,
            None => return graph,
        }
    }
}

fn card() -> Card {
    Card::builder().keep_dtypes(KeptDtypes::NONE).build().unwrap()
}

/// How many graphs; more by the environment, for a long search.
fn seeds() -> std::ops::Range<u64> {
    let number =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(or);
    let first = number("ZELLIGE_FIRST_GRAPH", 0);
    first..first + number("ZELLIGE_GRAPHS", 240)
}

#[test]
fn compiled_graphs_give_the_numbers_of_their_operations() {
    let card = card();
    let (mut bits, mut numbers) = (0, 0);
    let mut failures = Vec::new();
    for seed in seeds() {
        let graph = random::graph(seed, 12);
        for (way, options) in ways(seed) {
            match wrong(&graph, &options, &card) {
                Ok(true) => bits += 1,
                Ok(false) => numbers += 1,
                Err(_) => {
                    let small = shrunk(&graph, &|g| wrong(g, &options, &card).is_err());
                    let why = wrong(&small, &options, &card).unwrap_err();
                    failures
                        .push(format!("graph {seed}, {way}: {why}\n{}", text::print_graph(&small)));
                }
            }
        }
    }
    let count = failures.len();
    failures.truncate(6);
    assert!(failures.is_empty(), "{count} fail, such as\n{}", failures.join("\n"));
    assert!(bits > 2 * numbers, "bits are compared in {bits} runs, numbers in {numbers}");
}

/// Every operation against float64, from the operands that the device had.
#[test]
fn operations_of_graphs_are_near_their_definitions() {
    let card = card();
    let mut compared = BTreeMap::new();
    for seed in seeds() {
        let graph = random::graph(seed, 12);
        let mut source = graph.to_source();
        let stored = graph.tensors().filter(|(_, t)| {
            matches!(t.def, TensorOrigin::Input(_) | TensorOrigin::Result(..))
                && !matches!(t.dtype, Dtype::Int32)
        });
        let names: Vec<String> = stored.map(|(_, t)| t.name.clone()).collect();
        source.outputs =
            names.iter().map(|n| SourceOutput { name: n.clone(), span: 0..0 }).collect();
        let graph = source.bind_symbols(&BTreeMap::new()).unwrap();
        let all = run_graph_eagerly(&graph, &card, |n| Ok(input(&graph, n))).unwrap();
        let value = |id| -> Option<Nd> {
            let (base, view) = graph.base_and_view(id);
            let t = graph.get(base);
            let whole = match t.def {
                TensorOrigin::Constant(value) => {
                    // The device stores it rounded; where that matters nothing is compared.
                    let v = value.to_f64();
                    let short = v.to_bits().trailing_zeros() >= 43;
                    Nd { size: vec![], data: short.then_some(vec![v])? }
                }
                _ => {
                    let host = &all[names.iter().position(|n| *n == t.name)?];
                    Nd { size: t.size.clone(), data: read::numbers(host) }
                }
            };
            Some(view.map_or_else(|| whole.clone(), |v| whole.seen(v)))
        };
        for (_, node) in graph.nodes() {
            let out = graph.get(node.outputs[0]);
            let Some(inputs) = node.inputs.iter().map(|i| value(*i)).collect::<Option<Vec<Nd>>>()
            else {
                continue;
            };
            let floats = matches!(out.dtype, Dtype::Float16 | Dtype::Float32 | Dtype::Bool);
            let small = inputs.iter().all(|t| t.data.iter().all(|v| v.abs() < 1000.0));
            if !floats || !small || out.size.contains(&0) {
                continue;
            }
            let op = node.op.name();
            // A long product leaves the range of float32 on its way, and comes back as no number.
            if op == "prod" && inputs[0].data.len() > 64 * elements(&out.size) {
                continue;
            }
            let Some(expected) = evaluate(op, &node.attributes, &inputs, &out.size) else {
                continue;
            };
            let Some(found) = value(node.outputs[0]) else { continue };
            for (i, (f, e)) in found.data.iter().zip(&expected.data).enumerate() {
                // Past what 16 bits hold there is nothing to compare.
                if !e.is_finite() || e.abs() > 60000.0 {
                    continue;
                }
                let far = (f - e).abs();
                assert!(
                    far <= expected.slack[i],
                    "graph {seed}, {} = {op}{:?} of {:?}: element {i} is {f} instead of {e}",
                    out.name,
                    node.attributes,
                    inputs.iter().map(|t| &t.size).collect::<Vec<_>>()
                );
            }
            *compared.entry(op).or_insert(0) += 1;
        }
    }
    assert!(compared.len() > 40, "only {} operations are compared", compared.len());
    assert!(compared.values().sum::<i32>() > 500, "{compared:?}");
}
