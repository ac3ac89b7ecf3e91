//! Numbers that the card cannot hold, from weights and constants to results, and NaNs that steps make.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_compile::{CompilerOptions, check_program, compile_graph};
use zellige_device::{Card, KeptDtypes, StoragePolicy};
use zellige_op::CoverageProfile;
use zellige_run::{HostArray, LoadedModel, NumberLoss, NumberLossKind};

const INF: f32 = f32::INFINITY;

/// Every way to run: float32 in 16 bits or kept, composite operations whole or decomposed.
fn ways() -> impl Iterator<Item = CompilerOptions> {
    let keeps = [KeptDtypes::NONE, KeptDtypes::ALL];
    keeps.into_iter().flat_map(|keep| {
        [CoverageProfile::Full, CoverageProfile::Card].map(|coverage| {
            let storage = StoragePolicy { keep, ..StoragePolicy::default() };
            CompilerOptions { coverage, storage, ..CompilerOptions::default() }
        })
    })
}

/// The outputs of a graph, and what was lost on the way.
fn run(
    graph: &str,
    options: &CompilerOptions,
    input: impl Fn(&str) -> HostArray,
) -> (Vec<Vec<f32>>, Vec<NumberLoss>) {
    let graph = zellige_graph::text::parse(graph).unwrap();
    let program = compile_graph(&graph, options).unwrap();
    check_program(&program).unwrap();
    let card = Card::builder()
        .keep_dtypes(options.storage.keep)
        .float_mode(options.storage.mode)
        .profile(options.coverage)
        .build()
        .unwrap();
    let mut model = LoadedModel::load_program(program, &card, |n| Ok(input(n))).unwrap();
    let ran = model.run_program(|n| Ok(input(n))).unwrap();
    (ran.outputs.iter().map(|o| o.to_f32().unwrap()).collect(), model.number_losses().to_vec())
}

fn near(found: &[f32], wanted: &[f32]) -> bool {
    let same = |(a, b): (&f32, &f32)| (a.is_nan() && b.is_nan()) || (a - b).abs() <= 0.01;
    found.len() == wanted.len() && found.iter().zip(wanted).all(same)
}

/// A causal mask as exporters write it.
fn causal(rows: usize, columns: usize, masked: f32) -> Vec<f32> {
    let at = |i: usize| if i % columns > i / columns { masked } else { 0.0 };
    (0..rows * columns).map(at).collect()
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 37) % 19) as f32 / 8.0 - 1.0).collect()
}

fn softmax(x: &[f32], columns: usize) -> Vec<f32> {
    let row = |row: &[f32]| {
        let most = row.iter().copied().fold(-INF, f32::max);
        let exp: Vec<f32> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f32 = exp.iter().sum();
        exp.into_iter().map(|e| e / sum).collect::<Vec<f32>>()
    };
    x.chunks(columns).flat_map(row).collect()
}

#[test]
fn the_mask_of_an_exported_model_masks_once_and_twice() {
    let graph = "graph masks(x: float32[4, 70], m: float32[4, 70] @weight) {
        a = add(x, m)
        once = softmax(a, dim=-1)
        b = add(a, m)
        twice = softmax(b, dim=-1)
        return once, twice, b
    }";
    let (x, m) = (numbers(280), causal(4, 70, -3.4e38));
    let wanted = softmax(&x.iter().zip(&m).map(|(x, m)| x + m).collect::<Vec<f32>>(), 70);
    for options in ways() {
        let (y, losses) =
            run(graph, &options, |n| HostArray::from_f32(&[4, 70], if n == "x" { &x } else { &m }));
        assert!(near(&y[0], &wanted), "{options:?}: {:?}", y[0]);
        assert!(near(&y[1], &wanted), "{options:?}: {:?}", y[1]);
        // Twice -3.4e38 is past float32 too.
        assert!(y[2].iter().zip(&m).all(|(b, m)| (*b == -INF) == (*m < 0.0)), "{:?}", y[2]);
        let past = NumberLoss {
            tensor: "m".into(),
            count: 270,
            first: vec![0, 1],
            kind: NumberLossKind::Past { value: f64::from(-3.4e38f32) },
        };
        let narrow = !options.storage.keep.float32;
        assert_eq!(losses, if narrow { vec![past] } else { Vec::new() });
    }
}

#[test]
fn attention_over_no_key_is_zero_and_softmax_of_nothing_is_nan() {
    let graph = "graph rows(q: float32[1, 3, 64], k: float32[1, 8, 64], v: float32[1, 8, 64],
                            m: float32[3, 8]) {
        y = scaled_dot_product_attention(q, k, v, m)
        s = softmax(m, dim=-1)
        l = log_softmax(m, dim=-1)
        return y, s, l
    }";
    let mut mask = vec![0.0; 24];
    mask[..8].fill(-INF);
    mask[13..16].fill(-INF);
    let v = numbers(512);
    for options in ways() {
        let (y, losses) = run(graph, &options, |n| match n {
            "m" => HostArray::from_f32(&[3, 8], &mask),
            "v" => HostArray::from_f32(&[1, 8, 64], &v),
            // Equal scores: attention is the mean of the values that are left.
            "q" => HostArray::from_f32(&[1, 3, 64], &[0.0; 192]),
            _ => HostArray::from_f32(&[1, 8, 64], &[1.0; 512]),
        });
        let mean = |keys: usize| -> Vec<f32> {
            (0..64).map(|c| (0..keys).map(|k| v[k * 64 + c]).sum::<f32>() / keys as f32).collect()
        };
        let wanted = [vec![0.0; 64], mean(5), mean(8)].concat();
        assert!(near(&y[0], &wanted), "{options:?}: {:?}", y[0]);
        assert!(y[1][..8].iter().all(|x| x.is_nan()) && near(&y[1][8..13], &[0.2; 5]));
        assert_eq!(y[1][13..16], [0.0; 3]);
        assert!(y[2][..8].iter().all(|x| x.is_nan()), "{options:?}: {:?}", y[2]);
        assert!(near(&y[2][8..13], &[-1.6094; 5]) && near(&y[2][16..], &[-2.0794; 8]));
        // What was masked in a log_softmax is minus infinity still, or far below all else.
        assert!(y[2][13..16].iter().all(|x| *x < -1e9), "{:?}", y[2]);
        let nans: Vec<&str> = losses
            .iter()
            .filter(|l| matches!(l.kind, NumberLossKind::Nan { .. }))
            .map(|l| l.tensor.as_str())
            .collect();
        // Parts of both softmaxes that are equal are one, so that one of them may have made all.
        assert!(!nans.is_empty() && nans.iter().all(|n| n.starts_with(['s', 'l'])), "{losses:?}");
    }
}

#[test]
fn a_step_that_makes_nans_is_named_once_and_what_follows_is_not() {
    let graph = "graph nans(x: float32[2, 70]) {
        l = log(x)
        y = add(l, x)
        z = exp(x)
        return y, z
    }";
    let mut x = vec![1.0; 140];
    (x[73], x[100]) = (-1.0, -2.0);
    for options in ways() {
        let (y, losses) = run(graph, &options, |_| HostArray::from_f32(&[2, 70], &x));
        assert_eq!(y[0].iter().filter(|y| y.is_nan()).count(), 2);
        let kind = NumberLossKind::Nan { op: "log".into() };
        let made = NumberLoss { tensor: "l".into(), count: 2, first: vec![1, 3], kind };
        assert_eq!(losses, [made]);
        assert_eq!(
            losses[0].to_string(),
            "`l` has 2 NaNs, the first at [1, 3]: log made them of numbers"
        );
        // A NaN of an input is the fault of no step.
        let (_, losses) = run(graph, &options, |_| HostArray::from_f32(&[2, 70], &[f32::NAN; 140]));
        assert_eq!(losses, []);
    }
}

#[test]
fn constants_follow_the_same_rule() {
    let graph = "graph fill(x: float32[4, 70], m: bool[4, 70]) {
        a = where(m, -3.4e38, x)
        b = add(a, -3.4e38)
        y = softmax(a, dim=-1)
        return y, b
    }";
    let m = causal(4, 70, 1.0);
    let x = numbers(280);
    let storage = StoragePolicy { keep: KeptDtypes::NONE, ..StoragePolicy::default() };
    let options = CompilerOptions { storage, ..CompilerOptions::default() };
    let (y, losses) = run(graph, &options, |n| match n {
        "x" => HostArray::from_f32(&[4, 70], &x),
        _ => {
            let bytes = m.iter().map(|m| u8::from(*m != 0.0)).collect();
            HostArray::from_contiguous(bytes, &[4, 70], zellige_float::Dtype::Bool).unwrap()
        }
    });
    let masked: Vec<f32> =
        x.iter().zip(&m).map(|(x, m)| if *m != 0.0 { -INF } else { *x }).collect();
    assert!(near(&y[0], &softmax(&masked, 70)));
    assert!(y[1].iter().all(|b| *b == -INF), "{:?}", y[1]);
    let said: Vec<String> = losses.iter().map(NumberLoss::to_string).collect();
    assert!(
        said.len() == 1 && said[0].contains("past what its format on the card holds"),
        "{said:?}"
    );
    assert!(said[0].contains("the first is -3.4e38 at []"), "{said:?}");
}
