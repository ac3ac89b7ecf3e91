//! Spaces of the device's operations: a division costs what the device's own account says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use zellige_compile::CompilePolicy;
use zellige_compile::solve::division::{
    IterationSpace, check_division, divide_iterations, division_latency, plan_core_work,
};
use zellige_device::PlanOp;
use zellige_device::{KeptDtypes, StoragePolicy, TensorLayout, WorkDivision};
use zellige_float::Dtype;
use zellige_machine::Hardware;
use zellige_op::OpError;
use zellige_op::{OpRow, TensorOp, TensorType};
use zellige_stick::StickLayout;

/// Operations that have a space.
const NEEDED: [&str; 16] = [
    "add",
    "mul",
    "where",
    "gelu",
    "silu",
    "cast",
    "softmax",
    "layer_norm",
    "rms_norm",
    "sum",
    "amax",
    "matmul",
    "linear",
    "addmm",
    "bmm",
    "cumsum",
];

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % n.max(1)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Few extents, so that sizes often fit each other.
fn extents(rng: &mut Rng) -> [i64; 4] {
    let small = |rng: &mut Rng| 2 + i64::try_from(rng.below(7)).unwrap();
    let long = |rng: &mut Rng| rng.pick(&[64, 100, 130, 256, 512, 1000, 1100, 2048]);
    [small(rng), small(rng), long(rng), long(rng)]
}

fn attribute(rng: &mut Rng, e: [i64; 4]) -> Value {
    let n = rng.pick(&e);
    match rng.below(8) {
        0 => json!(0),
        1 => json!(1),
        2 => json!(-1),
        3 => json!([n]),
        4 => json!([rng.pick(&e), n]),
        5 => json!(n),
        6 => json!(true),
        _ => json!("float32"),
    }
}

fn build(entry: &OpRow, rng: &mut Rng, e: [i64; 4]) -> Option<TensorOp> {
    let mut attributes = Map::new();
    for (name, _) in entry.attributes {
        if rng.below(3) == 0 {
            attributes.insert((*name).into(), attribute(rng, e));
        }
    }
    for _ in 0..4 {
        match TensorOp::new(entry.name, &Value::Object(attributes.clone())) {
            Ok(op) => return Some(op),
            Err(OpError::BadAttribute { name, .. }) => {
                attributes.insert(name, attribute(rng, e));
            }
            Err(_) => return None,
        }
    }
    None
}

fn dtype_of(name: &str, dtype: Dtype) -> Dtype {
    match name {
        n if n.starts_with("ind") => Dtype::Int64,
        n if n.starts_with("cond") || n.starts_with("mask") => Dtype::Bool,
        n if n.contains("scale") => Dtype::Float32,
        _ => dtype,
    }
}

/// Operands as the kernel wants them, and results; without memory.
fn find(entry: &OpRow, rng: &mut Rng) -> Option<(TensorOp, Vec<TensorLayout>, Vec<TensorLayout>)> {
    let e = extents(rng);
    let op = build(entry, rng, e)?;
    let dtype = rng.pick(&[Dtype::Float16, Dtype::Float16, Dtype::Float32, Dtype::Int64]);
    let storage = StoragePolicy {
        keep: KeptDtypes { float32: rng.below(2) == 0, int64: rng.below(2) == 0 },
        ..StoragePolicy::default()
    };
    let (least, most) = entry.arity();
    let most = most.unwrap_or(entry.operands.len());
    for _ in 0..40 {
        let count = least + rng.below(most - least + 1);
        let metas: Vec<TensorType> = (0..count)
            .map(|i| {
                let rank = rng.below(4) + usize::from(rng.below(4) > 0);
                let mut size: Vec<i64> = (0..rank).map(|_| rng.pick(&e)).collect();
                if rank > 0 && rng.below(4) == 0 {
                    size[rng.below(rank)] = 1;
                }
                let name = entry.operands[i.min(entry.operands.len() - 1)];
                TensorType { size, dtype: dtype_of(name, dtype) }
            })
            .collect();
        let Ok(results) = op.infer_types(&metas) else { continue };
        let volume = |m: &TensorType| m.size.iter().product::<i64>();
        if metas.iter().chain(&results).any(|m| volume(m) > 1 << 24 || volume(m) == 0) {
            continue;
        }
        let laid = |m: &TensorType, rng: &mut Rng| {
            let mut order: Vec<i64> = (0..).take(m.size.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i + 1));
            }
            let layout = match rng.below(2) {
                0 => StickLayout::default_for_dtype(&m.size, m.dtype),
                _ => StickLayout::with_dim_order(&m.size, None, m.dtype, &order),
            };
            TensorLayout::new(storage, m.dtype, &layout.ok()?).ok()
        };
        let inputs: Option<Vec<TensorLayout>> = metas.iter().map(|m| laid(m, rng)).collect();
        let Some(inputs) = inputs else { continue };
        let Ok((results, lay)) = op.plan_layouts(&inputs) else { continue };
        let conform = |(t, want): (&TensorLayout, &zellige_device::LayoutNeed)| match want
            .accepts_layout(t)
        {
            true => t.clone(),
            false => {
                TensorLayout::new(storage, t.dtype(), &want.fitting_layout(t).unwrap()).unwrap()
            }
        };
        let inputs: Vec<TensorLayout> = inputs.iter().zip(&lay.inputs).map(conform).collect();
        let outputs = results.iter().zip(&lay.outputs);
        let outputs: Vec<TensorLayout> =
            outputs.map(|(m, l)| TensorLayout::new(storage, m.dtype, l).unwrap()).collect();
        return Some((op, inputs, outputs));
    }
    None
}

fn splits(rng: &mut Rng, space: &IterationSpace) -> Vec<u64> {
    let (mut room, mut summed) = (32, false);
    let dims = 0..space.dims().len();
    let mut one = |d: usize| {
        let most =
            if space.dims()[d].reduced && summed { 1 } else { space.unit_count(d).min(room) };
        let split = 1 + rng.below(usize::try_from(most.max(1)).unwrap()) as u64;
        summed |= space.dims()[d].reduced && split > 1;
        room /= split;
        split
    };
    dims.map(&mut one).collect()
}

#[test]
fn a_division_costs_what_the_device_accounts_for() {
    let card = Hardware::card_preset();
    let measured = Hardware::built_in_preset("card-2026-09").unwrap();
    let mut rng = Rng(88_172_645_463_325_252);
    let (mut silent, mut has) = (BTreeSet::new(), BTreeMap::new());
    for entry in TensorOp::all_rows() {
        for _ in 0..30 {
            let Some((op, inputs, outputs)) = find(entry, &mut rng) else { continue };
            let Some(space) = IterationSpace::from_op(&op, &inputs, &outputs).unwrap() else {
                silent.insert(entry.name);
                continue;
            };
            *has.entry(entry.name).or_insert(0) += 1;
            assert_eq!(Some(space.spans()), op.iteration_space(&inputs, &outputs).unwrap());
            for _ in 0..4 {
                let splits = splits(&mut rng, &space);
                let narrow: Vec<usize> =
                    splits.iter().map(|s| usize::try_from(*s).unwrap()).collect();
                let division = WorkDivision::new(&narrow, &space.spans(), 32).unwrap();
                let (_, own) = op.plan_work(&inputs, &outputs, Some(&division), 32).unwrap();
                let found = plan_core_work(&space, &card, &splits);
                let what = || {
                    let sizes: Vec<_> =
                        inputs.iter().map(|t| (t.size(), t.stick_layout())).collect();
                    format!("{op:?} {splits:?} of {sizes:?} to {:?}", outputs[0].stick_layout())
                };
                assert_eq!(own.kind, found.kind, "{}", what());
                for (core, (a, b)) in own.cores.iter().zip(&found.cores).enumerate() {
                    let units = |w: &zellige_machine::CoreWork| {
                        (w.macs, w.sfu, w.sfu_transcendental, w.ring_bytes())
                    };
                    assert_eq!(units(a), units(b), "core {core} of {}", what());
                    assert_eq!(a.reads, b.reads, "core {core} reads of {}", what());
                    assert_eq!(a.writes, b.writes, "core {core} writes of {}", what());
                    assert_eq!(a.tile, b.tile, "core {core} part of {}", what());
                }
                let (served, other) = (card.share_ring_reads(&own), card.share_ring_reads(&found));
                assert_eq!(
                    served.sum_over_cores().bytes_in,
                    other.sum_over_cores().bytes_in,
                    "{}",
                    what()
                );
                for hardware in [&card, &measured] {
                    let cycles = hardware.operation_latency(&own).cycles;
                    assert_eq!(cycles, division_latency(&space, hardware, &splits).0, "{}", what());
                }
            }
            if let Ok(plan) = divide_iterations(&space, &card, 32, CompilePolicy::Best, &[]) {
                check_division(&space, &card, 32, &plan).unwrap();
            }
        }
    }
    for name in NEEDED {
        assert!(has.get(name).is_some_and(|n| *n > 2), "{name} has no space: {silent:?}");
    }
}
