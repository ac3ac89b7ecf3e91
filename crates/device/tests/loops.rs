//! Which loop each dimension of each tensor follows: shown by changing what lies outside of regions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, read, tensor, values};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zellige_device::PlanOp;
use zellige_device::RunOp;
use zellige_device::{Card, KeptDtypes, OpLoops, Tensor, TensorLayout, WorkDivision};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::{OpError, OpRow, TensorOp};

/// Operations that do not say: groups of channels are parts of a dimension, and moves have no loops.
const SILENT: [&str; 10] = [
    "cat",
    "diag",
    "flip",
    "group_norm",
    "pad",
    "repeat",
    "repeat_interleave",
    "roll",
    "slice_scatter",
    "stack",
];

/// Operations whose loops are needed to keep tensors in the scratchpads.
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
    "matmul",
    "linear",
    "addmm",
    "bmm",
    "scaled_dot_product_attention",
    "embedding",
];

/// Operands of an operation with their numbers.
struct Case {
    op: TensorOp,
    inputs: Vec<(Tensor, Vec<f64>)>,
    outputs: Vec<Tensor>,
}

/// Few extents, so that sizes often fit each other.
struct Extents([i64; 4]);

impl Extents {
    fn new(rng: &mut Rng) -> Extents {
        let small = |rng: &mut Rng| 2 + i64::try_from(rng.below(3)).unwrap();
        let long = 60 + i64::try_from(rng.below(90)).unwrap();
        Extents([small(rng), small(rng), long, 1])
    }

    fn size(&self, rng: &mut Rng) -> Vec<i64> {
        let rank = rng.below(5);
        let mut size: Vec<i64> = (0..rank).map(|_| self.0[rng.below(2)]).collect();
        for _ in 0..2 {
            if rank > 0 && rng.chance(2) {
                size[rng.below(rank)] = self.0[2 + usize::from(rng.chance(3))];
            }
        }
        size
    }

    fn attribute(&self, rng: &mut Rng) -> Value {
        let n = |rng: &mut Rng| self.0[rng.below(3)];
        match rng.below(9) {
            0 => json!(0),
            1 => json!(1),
            2 => json!(-1),
            3 => json!([n(rng)]),
            4 => json!([n(rng), n(rng)]),
            5 => json!(n(rng)),
            6 => json!(true),
            7 => json!("float32"),
            _ => json!([0]),
        }
    }
}

/// The operation with attributes that it accepts.
fn build(entry: &OpRow, rng: &mut Rng, extents: &Extents) -> Option<TensorOp> {
    let mut attributes = Map::new();
    for (name, _) in entry.attributes {
        if rng.chance(3) {
            attributes.insert((*name).into(), extents.attribute(rng));
        }
    }
    for _ in 0..4 {
        match TensorOp::new(entry.name, &Value::Object(attributes.clone())) {
            Ok(op) => return Some(op),
            Err(OpError::BadAttribute { name, .. }) => {
                attributes.insert(name, extents.attribute(rng));
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

/// Numbers of an operand; indices point into every dimension that there is.
fn numbers(rng: &mut Rng, name: &str, size: &[i64], dtype: Dtype) -> Vec<f64> {
    let n: i64 = size.iter().product();
    if name.starts_with("ind") {
        return (0..n).map(|_| rng.below(2) as f64).collect();
    }
    values(rng, n, dtype)
}

/// Some operands that the operation takes, and its results.
fn find(entry: &OpRow, rng: &mut Rng, card: &Card) -> Option<Case> {
    let extents = Extents::new(rng);
    let op = build(entry, rng, &extents)?;
    let dtype = [
        Dtype::Float16,
        Dtype::Float16,
        Dtype::Float32,
        Dtype::Int64,
        Dtype::Bool,
        Dtype::Float8E4m3fn,
    ][rng.below(6)];
    let (least, most) = entry.arity();
    let most = most.unwrap_or(entry.operands.len() + 1);
    for _ in 0..40 {
        let count = least + rng.below(most - least + 1);
        let names: Vec<&str> =
            (0..count).map(|i| entry.operands[i.min(entry.operands.len() - 1)]).collect();
        let metas: Vec<zellige_op::TensorType> = names
            .iter()
            .map(|n| zellige_op::TensorType { size: extents.size(rng), dtype: dtype_of(n, dtype) })
            .collect();
        let Ok(results) = op.infer_types(&metas) else { continue };
        let volume = |m: &zellige_op::TensorType| m.size.iter().product::<i64>();
        if metas.iter().chain(&results).any(|m| volume(m) > 40_000 || volume(m) == 0) {
            continue;
        }
        let made = names.iter().zip(&metas).map(|(name, m)| {
            let held = numbers(rng, name, &m.size, m.dtype);
            (tensor(rng, card, &m.size, m.dtype, &held), held)
        });
        let inputs: Vec<(Tensor, Vec<f64>)> = made.collect();
        let tensors: Vec<Tensor> = inputs.iter().map(|t| t.0.clone()).collect();
        if let Ok(ran) = op.run_op(card, &tensors) {
            return Some(Case { op, inputs, outputs: ran.outputs });
        }
    }
    None
}

/// Whether an element, by its row-major number, is in a region.
fn inside(flat: usize, size: &[i64], region: &[Range<usize>]) -> bool {
    let mut rest = flat;
    size.iter().zip(region).rev().all(|(n, range)| {
        let n = usize::try_from(*n).unwrap();
        let c = rest % n;
        rest /= n;
        range.contains(&c)
    })
}

/// Splits of the loops at random, reduced ones whole.
fn division(rng: &mut Rng, loops: &OpLoops) -> WorkDivision {
    let mut room = 32;
    let splits: Vec<usize> = loops
        .loop_spans()
        .iter()
        .map(|span| {
            let most = if span.reduced { 1 } else { span.unit_count().clamp(1, room) };
            let split = 1 + rng.below(most);
            room /= split;
            split
        })
        .collect();
    WorkDivision::new(&splits, loops.loop_spans(), 32).unwrap()
}

fn laid(tensors: &[Tensor]) -> Vec<TensorLayout> {
    tensors.iter().map(|t| t.tensor_layout().clone()).collect()
}

/// What an operand holds outside of a region: anything else.
fn poison(rng: &mut Rng, name: &str, dtype: Dtype, held: f64) -> f64 {
    if name.starts_with("ind") {
        return 1.0 - held;
    }
    match dtype {
        Dtype::Bool => 1.0 - held,
        Dtype::Float16 | Dtype::Float32 if rng.chance(2) => f64::NAN,
        Dtype::Int64 => held + 1.0 + rng.below(50) as f64,
        _ => 5.0 - held,
    }
}

/// The results' regions partition them, and the elements of a core's region keep their bits whatever
/// operands hold outside of its regions.
fn check(rng: &mut Rng, card: &Card, case: &Case, loops: &OpLoops) {
    let Case { op, inputs, outputs } = case;
    let division = division(rng, loops);
    let what = format!(
        "{op:?} of {inputs:?} divided {division:?}",
        inputs = inputs.iter().map(|t| t.0.size().to_vec()).collect::<Vec<_>>()
    );
    assert_eq!(loops.tensor_count(), inputs.len() + outputs.len(), "{what}");
    let sizes = inputs.iter().map(|t| t.0.size()).chain(outputs.iter().map(|t| t.size()));
    for (t, size) in sizes.enumerate() {
        assert_eq!(loops.followed_loops(t).len(), size.len(), "{what}: tensor {t}");
        for (follows, n) in loops.followed_loops(t).iter().zip(size) {
            let same = |l: usize| loops.loop_spans()[l].size == usize::try_from(*n).unwrap();
            assert!(follows.is_none_or(same), "{what}: tensor {t} is not as long as its loop");
        }
    }
    for (i, out) in outputs.iter().enumerate() {
        let mut written = vec![0u8; usize::try_from(out.numel()).unwrap()];
        for core in 0..division.core_count() {
            let region = loops.core_region(inputs.len() + i, core, &division);
            let own = (0..written.len()).filter(|f| inside(*f, out.size(), &region));
            own.collect::<Vec<_>>().into_iter().for_each(|f| written[f] += 1);
        }
        let wrong = written.iter().position(|n| *n != 1);
        assert_eq!(wrong, None, "{what}: result {i}, an element with no core or several");
    }
    let core = rng.below(division.core_count());
    let names = op.row().operands;
    for (i, (t, held)) in inputs.iter().enumerate() {
        let region = loops.core_region(i, core, &division);
        let name = names[i.min(names.len() - 1)];
        let changed: Vec<f64> = (0..held.len())
            .map(|f| match inside(f, t.size(), &region) {
                true => held[f],
                false => poison(rng, name, t.dtype(), held[f]),
            })
            .collect();
        let host = StridedLayout::new_contiguous(t.size()).unwrap();
        t.write_from(&bytes_of(&changed, t.dtype()), &host, t.dtype()).unwrap();
    }
    let tensors: Vec<Tensor> = inputs.iter().map(|t| t.0.clone()).collect();
    let again = op.run_op(card, &tensors).unwrap_or_else(|e| panic!("{what}: {e}")).outputs;
    for (i, (was, is)) in outputs.iter().zip(&again).enumerate() {
        let region = loops.core_region(inputs.len() + i, core, &division);
        let (was, is) = (read(was), read(is));
        let differs = |f: &usize| {
            inside(*f, outputs[i].size(), &region) && was[*f].to_bits() != is[*f].to_bits()
        };
        let first = (0..was.len()).find(differs);
        assert_eq!(
            first, None,
            "{what}: result {i} of core {core} depends on more than its region"
        );
    }
    for (t, held) in inputs {
        let host = StridedLayout::new_contiguous(t.size()).unwrap();
        t.write_from(&bytes_of(held, t.dtype()), &host, t.dtype()).unwrap();
    }
}

#[test]
fn what_a_core_writes_depends_on_its_regions_alone() {
    let card = Card::builder().keep_dtypes(KeptDtypes::NONE).host_threads(1).build().unwrap();
    let mut rng = Rng::new(2024);
    let (mut silent, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    let mut cut: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in TensorOp::all_rows() {
        let mut seen = 0;
        for _ in 0..400 {
            let Some(case) = find(entry, &mut rng, &card) else { continue };
            let inputs: Vec<Tensor> = case.inputs.iter().map(|t| t.0.clone()).collect();
            // What kernels cannot read as it lies is moved first; its copy has loops.
            let Ok(found) = case.op.tensor_loops(&laid(&inputs), &laid(&case.outputs)) else {
                continue;
            };
            seen += 1;
            match found {
                None => {
                    silent.insert(entry.name);
                }
                Some(loops) => {
                    for _ in 0..3 {
                        check(&mut rng, &card, &case, &loops);
                    }
                    let whole = |t: usize| loops.followed_loops(t).iter().all(Option::is_none);
                    let follows = (0..case.inputs.len()).any(|t| !whole(t));
                    *cut.entry(entry.name).or_default() += usize::from(follows);
                }
            }
            if seen == 20 {
                break;
            }
        }
        if seen == 0 {
            unseen.insert(entry.name);
        }
    }
    assert_eq!(unseen, BTreeSet::new(), "no operands were found for these");
    assert_eq!(silent.iter().copied().collect::<Vec<_>>(), SILENT);
    for name in NEEDED {
        assert!(!silent.contains(name), "{name} does not say its loops");
        assert!(cut.get(name).is_some_and(|n| *n > 0), "{name}: no operand is ever cut");
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let card = Card::builder().build().unwrap();
    let make = |size: &[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let op = TensorOp::new("matmul", &Value::Null).unwrap();
    let (a, b) = (make(&[4, 128]), make(&[128, 64]));
    let both = laid(&[a, b]);
    let error = op.tensor_loops(&both, &laid(&[make(&[4, 65])])).unwrap_err();
    assert_eq!(error.to_string(), "matmul: its results have sizes [[4, 64]], not [[4, 65]]");
    assert!(op.tensor_loops(&both[..1], &[]).is_err());
    assert!(op.tensor_loops(&[], &[]).is_err());
    let loops = op.tensor_loops(&both, &laid(&[make(&[4, 64])])).unwrap().unwrap();
    assert_eq!(loops.followed_loops(0), [Some(0), Some(2)]);
    assert_eq!(loops.followed_loops(1), [Some(2), Some(1)]);
    assert_eq!(loops.followed_loops(2), [Some(0), Some(1)]);
    let division = WorkDivision::new(&[2, 1, 2], loops.loop_spans(), 32).unwrap();
    assert_eq!(loops.core_region(0, 3, &division), [2..4, 64..128]);
}
