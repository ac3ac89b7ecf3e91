//! What the host launches at once, and what that costs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "other tests use the rest of what they share")]

mod common;
#[path = "common/random.rs"]
mod random;

use common::input;
use zellige_compile::report::{report_program, sum_run_time};
use zellige_compile::{
    BundleKind, CompiledProgram, CompilerOptions, StepAction, check_program, compile_graph,
};
use zellige_device::{Card, KeptDtypes};
use zellige_graph::{Graph, text};
use zellige_machine::{Hardware, SimulatedTime};
use zellige_op::CoverageProfile;
use zellige_run::{LoadedModel, program_timeline, run_graph_eagerly};

/// What falls back on the host, on a stack of the card.
fn options(stack: &str, baseline: bool) -> CompilerOptions {
    let base = if baseline { CompilerOptions::baseline() } else { CompilerOptions::default() };
    let hardware = Hardware::built_in_preset(stack).unwrap();
    let mut options = CompilerOptions { hardware, coverage: CoverageProfile::Card, ..base };
    // As the card stores them: two orders of a sum in 32 bits differ by their rounding.
    options.storage.keep = KeptDtypes::NONE;
    options
}

fn card(program: &CompiledProgram) -> Card {
    let hardware = program.options.hardware.clone();
    Card::builder().hardware(hardware).keep_dtypes(KeptDtypes::NONE).build().unwrap()
}

fn is_host(program: &CompiledProgram, step: usize) -> bool {
    matches!(program.steps[step].action, StepAction::Host(..))
}

/// Two steps are launched at once exactly if everything from one to the other is done by the card and runs when they
/// do: that is the definition, asked for every pair.
fn assert_bundles_by_definition(program: &CompiledProgram) {
    let steps = &program.steps;
    let bundle = |step: usize| {
        let mut own =
            (0..program.bundles.len()).filter(|b| program.bundles[*b].steps.contains(&step));
        let found = own.next().unwrap();
        assert_eq!(own.next(), None, "step {step} is in one bundle");
        found
    };
    for i in 0..steps.len() {
        for j in i..steps.len() {
            let together =
                i == j || (i..=j).all(|k| !is_host(program, k) && steps[k].load == steps[i].load);
            assert_eq!(bundle(i) == bundle(j), together, "steps {i} and {j}");
        }
        let kind = program.bundles[bundle(i)].kind;
        assert_eq!(kind == BundleKind::Host, is_host(program, i));
        assert_eq!(program.bundle_of(zellige_compile::StepId(i)).0, bundle(i));
    }
}

/// The time of a run is that of its steps, one after the other, and one launch for every bundle of the card: in the
/// program, the report, its sum of terms and the timeline alike.
fn assert_launches_counted_once(program: &CompiledProgram) {
    let each = program.options.hardware.launch_time();
    assert!(each > SimulatedTime::ZERO);
    let steps: SimulatedTime = program.run_steps().map(|(_, s)| s.duration).sum();
    let bundles = program.run_bundles().filter(|(_, b)| b.kind == BundleKind::Device).count();
    let launches: SimulatedTime = (0..bundles).map(|_| each).sum();
    assert_eq!(program.latency(), steps + launches);
    assert_eq!((program.launch_time(), program.launch_count()), (launches, bundles));
    let summary = report_program(program).summary;
    assert_eq!(summary.launches, bundles);
    assert!((summary.launch_us - launches.microseconds()).abs() < 1e-6);
    assert!((summary.latency_us - program.latency().microseconds()).abs() < 1e-6);
    let sum = sum_run_time(program);
    assert_eq!((sum.total, sum.launches), (program.latency(), bundles));
    let timeline = program_timeline(program);
    let drawn: Vec<_> = timeline.events().iter().filter(|e| &*e.name == "launch").collect();
    assert_eq!(drawn.len(), bundles);
    assert_eq!(drawn.iter().map(|e| e.duration).sum::<SimulatedTime>(), launches);
    let end = timeline.events().iter().map(|e| e.end_time()).max().unwrap_or(SimulatedTime::ZERO);
    assert_eq!(end, program.latency());
}

fn divides_sums(program: &CompiledProgram) -> bool {
    program.steps.iter().any(|s| {
        let space = s.space.iter().flatten();
        s.division.splits().iter().zip(space).any(|(n, span)| span.reduced && *n > 1)
    })
}

#[test]
fn random_graphs_with_steps_of_the_host_are_cut_at_them_alone() {
    let (mut cut, mut exact) = (0, 0);
    for seed in 0..60 {
        let graph = random::graph(seed, 12);
        for baseline in [true, false] {
            let program = compile_graph(&graph, &options("card-2026-09", baseline)).unwrap();
            check_program(&program).unwrap();
            assert_bundles_by_definition(&program);
            assert_launches_counted_once(&program);
            cut += usize::from(program.run_bundles().count() > 1);
            let (same, latency) = (!divides_sums(&program), program.latency());
            let (left, card) = (program.graph.clone(), card(&program));
            let want = run_graph_eagerly(&left, &card, |n| Ok(input(&left, n))).unwrap();
            let mut model =
                LoadedModel::load_program(program, &card, |n| Ok(input(&left, n))).unwrap();
            let run = model.run_program(|n| Ok(input(&left, n))).unwrap();
            assert_eq!(run.latency, latency);
            // Where a sum is divided over cores its parts meet in another order; `random_graphs` compares those.
            if same {
                exact += 1;
                assert_eq!(run.outputs, want, "graph {seed}:\n{}", text::print_graph(&left));
            }
        }
    }
    assert!(cut > 20 && exact > 60, "{cut} programs have several bundles, {exact} were compared");
}

/// Two operations that the card leaves to the host, with others around them.
const TWO_FALLBACKS: &str = "graph g(x: float16[64, 256], w: float16[256, 256] @weight) {
    a = linear(x, w)
    b = gelu(a)
    c = cumsum(b, dim=1)
    d = mul(c, x)
    e = relu(d)
    f = sin(e)
    h = add(f, x)
    return h
}";

fn two_fallbacks(stack: &str) -> (Graph, CompiledProgram) {
    let graph = text::parse(TWO_FALLBACKS).unwrap();
    let program = compile_graph(&graph, &options(stack, false)).unwrap();
    check_program(&program).unwrap();
    (graph, program)
}

#[test]
fn a_step_of_the_host_ends_a_bundle_and_is_not_launched() {
    let (_, program) = two_fallbacks("card-2026-09");
    let kinds: Vec<BundleKind> = program.run_bundles().map(|(_, b)| b.kind).collect();
    use BundleKind::{Device, Host};
    assert_eq!(kinds, [Device, Host, Device, Host, Device]);
    assert_eq!(program.launch_count(), 3);
    assert!(program.run_bundles().all(|(_, b)| b.launch.is_some() == (b.kind == Device)));
    assert_bundles_by_definition(&program);
    assert_launches_counted_once(&program);
}

#[test]
fn every_wave_is_a_bundle_where_the_host_launches_waves() {
    let (_, program) = two_fallbacks("card-2026-05");
    let waves: Vec<Vec<usize>> =
        program.steps.iter().enumerate().fold(Vec::new(), |mut all, (i, s)| {
            match all.last_mut() {
                Some(wave) if program.steps[wave[0]].wave == s.wave => wave.push(i),
                _ => all.push(vec![i]),
            }
            all
        });
    let bundles: Vec<Vec<usize>> =
        program.bundles.iter().map(|b| b.steps.clone().collect()).collect();
    assert_eq!(bundles, waves);
    assert!(
        program.bundles.iter().all(|b| b.launch.is_some()),
        "the host's steps are counted, too"
    );
}

/// A change of the bundles that makes them wrong.
type BundleFault = fn(&mut CompiledProgram);

#[test]
fn the_independent_check_refuses_other_bundles() {
    let (_, program) = two_fallbacks("card-2026-09");
    let at = program.bundles.iter().position(|b| !b.load && b.steps.len() > 1).unwrap();
    assert_eq!(program.bundles[at].kind, BundleKind::Device);
    let faults: [(&str, BundleFault); 6] = [
        ("cut in two", |p| {
            let at = p.bundles.iter().position(|b| !b.load && b.steps.len() > 1).unwrap();
            let mut rest = p.bundles[at].clone();
            rest.steps.start += 1;
            p.bundles[at].steps.end = rest.steps.start;
            p.bundles.insert(at + 1, rest);
        }),
        ("one too few", |p| p.bundles.truncate(p.bundles.len() - 1)),
        ("launched for nothing", |p| {
            for b in &mut p.bundles {
                b.launch = None;
            }
        }),
        ("launched early", |p| {
            let last = p.bundles.last_mut().unwrap();
            last.start = SimulatedTime::ZERO;
        }),
        ("done by another", |p| p.bundles.iter_mut().for_each(|b| b.kind = BundleKind::Host)),
        ("run when weights are loaded", |p| p.bundles.iter_mut().for_each(|b| b.load = !b.load)),
    ];
    for (name, fault) in faults {
        let mut broken = program.clone();
        fault(&mut broken);
        let error = check_program(&broken).expect_err(name).to_string();
        assert!(error.contains("bundle"), "{name}: {error}");
    }
}

#[test]
fn a_model_prepares_its_bundles_once() {
    let (graph, program) = two_fallbacks("card-2026-09");
    let (each, loads) = (program.launch_count(), program.bundles.iter().filter(|b| b.load).count());
    let card = card(&program);
    let mut model = LoadedModel::load_program(program, &card, |n| Ok(input(&graph, n))).unwrap();
    let counts = model.bundle_counts();
    assert_eq!((counts.prepared, counts.launched), (loads, loads));
    for run in 1..=3 {
        model.run_program(|n| Ok(input(&graph, n))).unwrap();
        let counts = model.bundle_counts();
        assert_eq!((counts.prepared, counts.launched), (loads + each, loads + run * each));
    }
}
