//! The shipped graphs, compiled and run, beside the same operations one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::input;
use zellige_compile::{CompiledProgram, CompilerOptions, compile_graph};
use zellige_device::{Card, WorkDivision};
use zellige_graph::Graph;
use zellige_run::{LoadedModel, run_graph_eagerly};

fn graph(name: &str) -> Graph {
    let path = format!("{}/../../examples/{name}.graph", env!("CARGO_MANIFEST_DIR"));
    zellige_graph::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn card() -> Card {
    Card::builder().build().unwrap()
}

/// Whether some step splits a reduction, so that sums meet in another order.
fn splits_reductions(program: &CompiledProgram) -> bool {
    let split = |d: &WorkDivision, space: &[zellige_device::LoopSpan]| {
        d.splits().iter().zip(space).any(|(n, s)| s.reduced && *n > 1)
    };
    program.steps.iter().any(|s| s.space.as_ref().is_some_and(|sp| split(&s.division, sp)))
}

fn agree(name: &str, options: &CompilerOptions) {
    let graph = graph(name);
    let program = compile_graph(&graph, options).unwrap();
    zellige_compile::check_program(&program).unwrap();
    let exact = !splits_reductions(&program) && !options.decomposes_ops();
    let planned = program.latency();
    let card = card();
    let mut model = LoadedModel::load_program(program, &card, |n| Ok(input(&graph, n))).unwrap();
    let expected = run_graph_eagerly(&graph, &card, |n| {
        // States begin as zeros in a model.
        let host = input(&graph, n);
        let state = graph.tensor(n).unwrap().def
            == zellige_graph::TensorOrigin::Input(zellige_graph::InputRole::State);
        Ok(if state {
            zellige_run::HostArray::from_contiguous(
                vec![0; host.bytes().len()],
                host.size(),
                host.dtype(),
            )?
        } else {
            host
        })
    })
    .unwrap();
    for _ in 0..2 {
        let run = model.run_program(|n| Ok(input(&graph, n))).unwrap();
        assert_eq!(run.latency, planned, "{name}");
        assert_eq!(run.outputs.len(), expected.len());
        for (k, (a, b)) in run.outputs.iter().zip(&expected).enumerate() {
            if exact {
                assert!(a == b, "{name}: output {k} differs");
            }
        }
    }
}

#[test]
fn examples_give_the_bits_of_their_operations_one_by_one() {
    for name in [
        "matmul-bias-gelu",
        "softmax",
        "layer-norm",
        "transposed-sum",
        "attention",
        "conv-net",
        "llama-block",
        "llama-block-decode",
    ] {
        for options in [CompilerOptions::baseline(), CompilerOptions::default()] {
            agree(name, &options);
        }
    }
}
