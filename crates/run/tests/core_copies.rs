//! Copies between scratchpads in programs: the numbers of the same program without them, of the operations one by one,
//! and of float64; never slower; and a wrong plan is seen by the check and in the numbers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "other tests use the rest of what they share")]

mod common;
#[path = "common/random.rs"]
mod random;
#[path = "common/read.rs"]
mod read;
#[path = "common/reference.rs"]
mod reference;

use common::input;
use reference::{Nd, evaluate};
use std::fmt::Write;
use zellige_compile::{
    CompiledProgram, CompilerOptions, ScratchpadCopy, StepAction, check_program, compile_again,
    compile_graph,
};
use zellige_device::{Card, KeptDtypes};
use zellige_exchange::{CoreExchange, TensorBox, TensorDivision};
use zellige_graph::{Graph, TensorOrigin, text};
use zellige_machine::Hardware;
use zellige_run::{HostArray, LoadedModel, run_graph_eagerly};

fn hardware() -> Hardware {
    Hardware::built_in_preset("card-2026-09").unwrap()
}

fn card() -> Card {
    Card::builder().hardware(hardware()).keep_dtypes(KeptDtypes::NONE).build().unwrap()
}

fn options(base: &CompilerOptions, copies: bool) -> CompilerOptions {
    let mut options = CompilerOptions { hardware: hardware(), copies, ..base.clone() };
    options.storage.keep = KeptDtypes::NONE;
    options
}

fn copies_of(program: &CompiledProgram) -> Vec<&ScratchpadCopy> {
    program.steps.iter().filter_map(|s| s.scratchpad_copy()).collect()
}

fn divides_sums(program: &CompiledProgram) -> bool {
    program.steps.iter().any(|s| {
        let space = s.space.iter().flatten();
        s.division.splits().iter().zip(space).any(|(n, span)| span.reduced && *n > 1)
    })
}

fn run(program: CompiledProgram, card: &Card) -> Vec<HostArray> {
    let graph = program.graph.clone();
    let latency = program.latency();
    let mut model = LoadedModel::load_program(program, card, |n| Ok(input(&graph, n))).unwrap();
    let first = model.run_program(|n| Ok(input(&graph, n))).unwrap();
    assert_eq!(first.latency, latency);
    let second = model.run_program(|n| Ok(input(&graph, n))).unwrap();
    assert_eq!(first.outputs, second.outputs);
    second.outputs
}

/// A numbers generator with a state of its own, the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A chain of products, sums and element by element operations on matrices, where neighbours are divided best in different
/// ways: rows for one, columns or the depth for the next.
fn chain(seed: u64) -> Graph {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let size = |dice: &mut Dice| [64_i64, 128, 128, 256][usize::try_from(dice.roll(4)).unwrap()];
    let (rows, mut columns) = (size(&mut dice), size(&mut dice));
    let mut inputs = format!("x: float16[{rows}, {columns}]");
    let mut body = String::new();
    let mut last = "x".to_string();
    let mut earlier: Vec<(String, i64, i64)> = Vec::new();
    for i in 0..3 + dice.roll(4) {
        let name = format!("t{i}");
        match dice.roll(6) {
            0 | 1 => {
                let n = size(&mut dice);
                write!(inputs, ", w{i}: float16[{columns}, {n}]").unwrap();
                writeln!(body, "    p{i} = matmul({last}, w{i})").unwrap();
                // Back to numbers of the size of one, so that a float16 holds every product of the chain.
                let scale = 1.0 / columns as f64;
                writeln!(body, "    {name} = mul(p{i}, {scale})").unwrap();
                columns = n;
            }
            2 => writeln!(body, "    {name} = relu({last})").unwrap(),
            3 => {
                write!(inputs, ", b{i}: float16[{rows}, {columns}]").unwrap();
                writeln!(body, "    {name} = add({last}, b{i})").unwrap();
            }
            4 => {
                writeln!(body, "    s{i} = mean({last}, dim=[1], keepdim=true)").unwrap();
                writeln!(body, "    {name} = sub({last}, s{i})").unwrap();
            }
            _ => {
                let same = earlier.iter().find(|(_, r, c)| (*r, *c) == (rows, columns));
                let other = same.map_or(last.clone(), |(name, ..)| name.clone());
                writeln!(body, "    {name} = add({last}, {other})").unwrap();
            }
        }
        earlier.push((name.clone(), rows, columns));
        last = name;
    }
    let source = format!("graph chain({inputs}) {{\n{body}    return {last}\n}}\n");
    text::parse(&source).unwrap_or_else(|d| panic!("{}\n{source}", d.message))
}

/// Multiply-adds of a product that is computed in float64: its definition lists every coordinate.
const MAX_LISTED_PRODUCT: i64 = 1 << 21;

/// All numbers of a graph in float64, from its inputs on; none where an operation has no definition there, or is too large
/// to list.
fn in_float64(graph: &Graph) -> Option<Vec<Nd>> {
    let work = |node: &zellige_graph::GraphNode| {
        let depth = graph.get(node.inputs[0]).size.last().copied().unwrap_or(1);
        graph.get(node.outputs[0]).size.iter().product::<i64>() * depth
    };
    if graph.nodes().any(|(_, n)| n.op.name() == "matmul" && work(n) > MAX_LISTED_PRODUCT) {
        return None;
    }
    let mut known: Vec<Option<Nd>> = graph.tensors().map(|_| None).collect();
    for (id, t) in graph.tensors() {
        match t.def {
            TensorOrigin::Input(_) => {
                let data = read::numbers(&input(graph, &t.name));
                known[id.0] = Some(Nd { size: t.size.clone(), data });
            }
            TensorOrigin::Constant(value) => {
                known[id.0] = Some(Nd { size: vec![], data: vec![value.to_f64()] });
            }
            _ => {}
        }
    }
    let value = |known: &Vec<Option<Nd>>, id| -> Option<Nd> {
        let (base, view) = graph.base_and_view(id);
        let whole = known[base.0].clone()?;
        Some(view.map_or_else(|| whole.clone(), |v| whole.seen(v)))
    };
    for (_, node) in graph.nodes() {
        let operands: Option<Vec<Nd>> = node.inputs.iter().map(|i| value(&known, *i)).collect();
        let size = graph.get(node.outputs[0]).size.clone();
        let expected = evaluate(node.op.name(), &node.attributes, &operands?, &size)?;
        known[node.outputs[0].0] = Some(Nd { size, data: expected.data });
    }
    graph.outputs().iter().map(|o| value(&known, *o)).collect()
}

#[test]
fn programs_with_copies_give_the_same_numbers_and_are_never_slower() {
    let card = card();
    let count = std::env::var("ZELLIGE_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(30_u64);
    let (mut copied, mut compared, mut kinds) = (0, 0, std::collections::BTreeSet::new());
    for seed in 0..count {
        let graphs = [chain(seed), random::graph(seed, 8)];
        let (chains, bases) =
            (&graphs[0], [CompilerOptions::default(), CompilerOptions::baseline()]);
        for graph in &graphs {
            for (way, base) in bases.iter().enumerate() {
                let with = compile_graph(graph, &options(base, true)).unwrap();
                let without = compile_graph(graph, &options(base, false)).unwrap();
                assert!(copies_of(&without).is_empty());
                assert!(with.latency() <= without.latency(), "{seed} {way}");
                if copies_of(&with).is_empty() {
                    // Nothing was gained, so that it is the same program.
                    assert_eq!(with.latency(), without.latency(), "{seed} {way}");
                    continue;
                }
                copied += 1;
                check_program(&with).unwrap_or_else(|e| panic!("{seed} {way}: {e}"));
                for copy in copies_of(&with) {
                    kinds.insert(copy.exchange.class().to_string());
                    copy.exchange.certify(&copy.source, &copy.destination).unwrap();
                }
                let again = compile_again(graph, &options(base, true), &with.decisions);
                let describe = |p: &CompiledProgram| format!("{:?} {:?}", p.buffers, p.steps);
                assert_eq!(describe(&again.unwrap()), describe(&with), "{seed} {way}");
                let exact = !divides_sums(&with);
                let left = with.graph.clone();
                let eager = run_graph_eagerly(&left, &card, |n| Ok(input(&left, n))).unwrap();
                let found = run(with, &card);
                for (a, b) in found.iter().zip(&eager) {
                    let why = if exact && a == b { None } else { read::differ(a, b, 0.03) };
                    assert!(why.is_none() && (!exact || a == b), "{seed} {way}: {why:?}");
                }
                if !std::ptr::eq(graph, chains) {
                    continue;
                }
                let Some(expected) = in_float64(&left) else { continue };
                compared += 1;
                for (a, e) in found.iter().zip(&expected) {
                    for (f, e) in read::numbers(a).iter().zip(&e.data) {
                        assert!((f - e).abs() < 0.02 + 0.02 * e.abs(), "{seed} {way}: {f} {e}");
                    }
                }
            }
        }
    }
    assert!(copied >= 10, "{copied} programs have copies");
    assert!(compared >= 5, "{compared} programs are compared with float64");
    assert!(kinds.len() >= 2, "{kinds:?}");
}

/// A program with a copy, and the step of it.
fn program_with_copy() -> (CompiledProgram, usize) {
    for seed in 0..200 {
        for base in [CompilerOptions::default(), CompilerOptions::baseline()] {
            let program = compile_graph(&chain(seed), &options(&base, true)).unwrap();
            let remote = |s: &zellige_compile::ProgramStep| {
                s.scratchpad_copy().is_some_and(|copy| copy.remote_bytes > 0)
            };
            if let Some(at) = program.steps.iter().position(remote)
                && !divides_sums(&program)
            {
                return (program, at);
            }
        }
    }
    panic!("no program has a copy");
}

#[test]
fn wrong_copies_are_refused_and_give_wrong_numbers() {
    let card = card();
    let (program, at) = program_with_copy();
    check_program(&program).unwrap();
    let right = run(program.clone(), &card);
    let change = |edit: &dyn Fn(&mut ScratchpadCopy)| {
        let mut wrong = program.clone();
        let StepAction::Exchange(copy) = &mut wrong.steps[at].action else { unreachable!() };
        edit(copy);
        wrong
    };
    // Every core sends what the next one holds, by a plan that fits a source with its cores turned round.
    let turned = change(&|copy| {
        let cores: Vec<u32> = copy.source.parts().map(|(core, _)| core).collect();
        let table = copy.source.parts().enumerate().flat_map(|(i, (_, boxes))| {
            let core = cores[(i + 1) % cores.len()];
            boxes.iter().map(move |b| (core, b.clone())).collect::<Vec<_>>()
        });
        let other = TensorDivision::new(copy.source.shape(), table.collect::<Vec<_>>()).unwrap();
        copy.exchange = CoreExchange::between(&other, &copy.destination).unwrap();
    });
    // A plan for half of what is needed: some cores get nothing.
    let half = change(&|copy| {
        let parts =
            copy.destination.parts().flat_map(|(c, b)| b.iter().map(move |b| (c, b.clone())));
        let parts: Vec<(u32, TensorBox)> = parts.collect();
        let some = parts[..parts.len().div_ceil(2)].to_vec();
        let less = TensorDivision::new(copy.destination.shape(), some).unwrap();
        copy.exchange = CoreExchange::between(&copy.source, &less).unwrap();
    });
    for (name, wrong) in [("turned", turned), ("half", half)] {
        let refused = check_program(&wrong).unwrap_err().to_string();
        assert!(refused.contains("core"), "{name}: {refused}");
        assert_ne!(run(wrong, &card), right, "{name}");
    }
    let charged = {
        let mut wrong = program.clone();
        wrong.steps[at].work.cores[0].ring_in += 128;
        check_program(&wrong).unwrap_err().to_string()
    };
    assert!(charged.contains("accounts") || charged.contains("charged"), "{charged}");
}
