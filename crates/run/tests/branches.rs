//! Independent branches run at the same time, on cores of their own, where that is faster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::input;
use std::collections::BTreeSet;
use zellige_compile::{CompiledProgram, CompilerOptions, check_program, compile_graph};
use zellige_device::{Card, StreamId, Tensor};
use zellige_graph::Graph;
use zellige_machine::timeline::{TimelineEvent, TimelineTrack};
use zellige_machine::{Hardware, SimulatedTime};
use zellige_run::{LoadedModel, program_timeline};

/// The stack under which the host launches steps one by one, so that steps may run side by side.
fn by_waves() -> CompilerOptions {
    let hardware = Hardware::built_in_preset("card-2026-05").unwrap();
    CompilerOptions { hardware, ..CompilerOptions::default() }
}

fn example(name: &str) -> Graph {
    let path = format!("{}/../../examples/{name}.graph", env!("CARGO_MANIFEST_DIR"));
    zellige_graph::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn compiled(graph: &Graph, options: &CompilerOptions) -> CompiledProgram {
    let program = compile_graph(graph, options).unwrap();
    check_program(&program).unwrap();
    program
}

fn ran(graph: &Graph, program: CompiledProgram) -> Vec<zellige_run::HostArray> {
    let card = Card::builder().hardware(program.options.hardware.clone()).build().unwrap();
    let mut model = LoadedModel::load_program(program, &card, |n| Ok(input(graph, n))).unwrap();
    model.run_program(|n| Ok(input(graph, n))).unwrap().outputs
}

/// Whether the trace has both names at the same moment, on different cores.
fn overlap(events: &[TimelineEvent], a: &str, b: &str) -> bool {
    let of = |name: &str| -> Vec<TimelineEvent> {
        let cores =
            |e: &&TimelineEvent| &*e.name == name && matches!(e.track, TimelineTrack::Core(_));
        events.iter().filter(cores).cloned().collect()
    };
    let (a, b) = (of(a), of(b));
    assert!(!a.is_empty() && !b.is_empty(), "both are in the trace");
    let apart = a.iter().all(|x| b.iter().all(|y| x.track != y.track));
    apart && a.iter().any(|x| b.iter().any(|y| x.start < y.end_time() && y.start < x.end_time()))
}

#[test]
fn the_products_of_queries_keys_and_values_run_side_by_side() {
    for name in ["llama-block", "llama-block-decode"] {
        let graph = example(name);
        let together = compiled(&graph, &by_waves());
        let apart = compiled(&graph, &CompilerOptions { concurrent: false, ..by_waves() });
        assert!(together.latency() < apart.latency(), "{name}: {}", together.latency());
        // One after the other, every step has a launch of its own.
        let launch = together.options.hardware.launch_time();
        assert!(launch > SimulatedTime::ZERO && apart.latency() >= launch + launch, "{name}");
        let trace = program_timeline(&together);
        for (a, b) in [("layer0.qp", "layer0.kp"), ("layer0.kp", "layer0.vp")] {
            assert!(overlap(trace.events(), a, b), "{name}: {a} beside {b}");
            assert!(!overlap(program_timeline(&apart).events(), a, b), "{name}: {a} after {b}");
        }
        // Divisions are the same, so that sums are taken in the same order.
        assert_eq!(ran(&graph, together), ran(&graph, apart), "{name}");
    }
}

#[test]
fn the_clock_of_the_card_has_waves() {
    let graph = example("llama-block");
    let program = compiled(&graph, &by_waves());
    let card = Card::builder().hardware(program.options.hardware.clone()).build().unwrap();
    let on_card = |name: &str, layout: Option<&zellige_stick::StickLayout>| {
        let host = input(&graph, name);
        Ok(Tensor::upload(&card, host.bytes(), host.view(), host.dtype(), layout)?.0)
    };
    let layout = |name: &str| {
        let found = program.buffers.iter().find(|b| b.name == name).unwrap();
        found.laid.stick_layout().clone()
    };
    let mut model = LoadedModel::load_resident(program.clone(), &card, |n, l| {
        on_card(n, Some(l.stick_layout()))
    })
    .unwrap();
    let before = card.stream_time(StreamId::DEFAULT);
    let given = |name: &str| on_card(name, Some(&layout(name)));
    model.run_resident(StreamId::DEFAULT, &[], given, || true).unwrap();
    let waves: BTreeSet<usize> = program.run_steps().map(|(_, s)| s.wave).collect();
    assert!(waves.len() + 1 < program.run_steps().count(), "some steps share a wave");
    // As long as the plan says, without the launches, which are the host's.
    assert_eq!(
        card.stream_time(StreamId::DEFAULT) - before,
        program.latency() - program.launch_time()
    );
}

#[test]
fn nothing_runs_beside_another_where_that_is_no_faster() {
    // Without launches, products that wait for the memory take as long together as apart.
    let card = include_str!("../../machine/presets/card-2026-05.toml");
    let lines: Vec<&str> = card.lines().filter(|l| !l.starts_with("launch")).collect();
    let hardware = Hardware::from_toml(&lines.join("\n")).unwrap();
    assert_eq!(hardware.launch_time(), SimulatedTime::ZERO);
    let graph = example("llama-block");
    let options = CompilerOptions { hardware, ..by_waves() };
    let together = compiled(&graph, &options);
    let apart = compiled(&graph, &CompilerOptions { concurrent: false, ..options });
    assert!(together.latency() <= apart.latency());
    let trace = program_timeline(&together);
    for (a, b) in [("layer0.qp", "layer0.kp"), ("layer0.kp", "layer0.vp")] {
        assert!(!overlap(trace.events(), a, b), "{a} beside {b}");
    }
    assert!(trace.events().iter().all(|e| &*e.name != "launch"));
}

#[test]
fn no_example_takes_longer_than_one_by_one() {
    let names =
        ["attention", "conv-net", "granite-block", "llama-block", "swiglu", "transposed-sum"];
    for name in names {
        let graph = example(name);
        let together = compiled(&graph, &CompilerOptions::default()).latency();
        let apart =
            compiled(&graph, &CompilerOptions { concurrent: false, ..CompilerOptions::default() })
                .latency();
        assert!(together <= apart, "{name}: {together} beside {apart}");
    }
}

/// Where the host launches bundles, nothing runs beside anything: asking for it changes nothing.
#[test]
fn steps_of_a_bundle_follow_each_other() {
    for name in ["llama-block", "llama-block-decode"] {
        let graph = example(name);
        let program = compiled(&graph, &CompilerOptions::default());
        let mut end = program.options.hardware.launch_time();
        assert_eq!((program.launch_count(), program.launch_time()), (1, end), "{name}");
        for (_, step) in program.run_steps() {
            assert_eq!((step.start, step.first_core), (end, 0), "{name}: {}", step.name);
            end = step.end_time();
        }
        let apart = CompilerOptions { concurrent: false, ..CompilerOptions::default() };
        assert_eq!(compiled(&graph, &apart).latency(), end, "{name}");
    }
}

#[test]
fn times_are_the_same_every_time() {
    let graph = example("llama-block");
    let of = |p: &CompiledProgram| -> Vec<(String, SimulatedTime, SimulatedTime, usize)> {
        p.steps.iter().map(|s| (s.name.clone(), s.start, s.duration, s.first_core)).collect()
    };
    let first = compiled(&graph, &CompilerOptions::default());
    assert_eq!(of(&first), of(&compiled(&graph, &CompilerOptions::default())));
}
