//! The cost model with which torch-spyre (summer 2026) divides matrix products (`cost_model_matmul_division`).
//!
//! Microseconds of `C[b, m, n] = A[b, m, k] B[b, k, n]` on `b * m * n * k` cores:
//! `(compute + memory + partial sums + preference) * b^1.4`. The figures are torch-spyre's
//! own, fitted to its measurements; they are no figures of [`Hardware`](zellige_machine::Hardware), and the
//! latency that a plan reports does not come from here.

use super::iteration_space::IterationSpace;
use super::tensor_access::AccessRole;

/// Rows that the PT array takes at once, and passes from which it is busy.
const PT_ROWS: f64 = 8.0;
const FULL_PASSES: f64 = 8.0;
/// Multiply-adds per microsecond and core at the peak.
const PEAK_MACS_PER_US: f64 = 1_536_000.0;
/// Bytes per microsecond of memory at the peak, and bytes of an element.
const PEAK_MEMORY_BYTES_PER_US: f64 = 204_800.0;
const ELEMENT_BYTES: f64 = 2.0;
/// Cores that share an operand before they get in each other's way.
const COHORT_CORES: f64 = 8.0;
/// Per element of the result and hop of a split reduction.
const PARTIAL_SUM: f64 = 1.4e-4;
/// Per halving of the passes below the full ones.
const PASS_HALVING_PENALTY: f64 = 50.0;
const BATCH_EXPONENT: f64 = 1.4;

/// A dimension: its size in elements and its split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitAxis {
    /// Elements, whole sticks of a stick dimension.
    pub size: u64,
    /// Slices.
    pub split: u64,
}

/// The cost in microseconds of a batch of matrix products, divided so.
pub fn matmul_cost(b: SplitAxis, m: SplitAxis, n: SplitAxis, k: SplitAxis) -> f64 {
    let f = |n: u64| n as f64;
    let cores = f(b.split * m.split * n.split * k.split);
    // A core takes its rows eight at a time. With fewer than eight passes the pipeline of the array is not filled,
    // and the model lets the rate fall with the square root.
    let passes = (f(m.size / m.split) / PT_ROWS).max(1.0);
    let efficiency = (passes / FULL_PASSES).sqrt().min(1.0);
    let (bs, ms, ns, ks) = (f(b.size), f(m.size), f(n.size), f(k.size));
    let compute = bs * ms * ns * ks / cores / (PEAK_MACS_PER_US * efficiency);
    // A row split makes several cores read the same columns, and a column split the same rows. Up to eight readers
    // share one read; past that the model charges them.
    let contention = (f(m.split.max(n.split)) / COHORT_CORES).max(1.0);
    let memory = ELEMENT_BYTES * (bs * ms * ks + bs * ks * ns + bs * ms * ns)
        / PEAK_MEMORY_BYTES_PER_US
        * contention;
    // Every core of a split reduction but one passes its partial sum on.
    let sums = f(k.split - 1) * bs * ms * ns * PARTIAL_SUM;
    // A second price for few passes, which breaks ties towards more rows per core: without it the model would split
    // rows as gladly as columns.
    let preference = if passes < FULL_PASSES {
        PASS_HALVING_PENALTY * (FULL_PASSES / passes).log2()
    } else {
        0.0
    };
    (compute + memory + sums + preference) * f(b.split).powf(BATCH_EXPONENT)
}

/// What the model found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CostModelChoice {
    pub(super) splits: Vec<u64>,
    pub(super) cost_us: f64,
    pub(super) tried: usize,
}

/// The cheapest even division of a matrix product, or why the model says nothing.
///
/// Declined where splits are committed already, for anything that is no single product (one stick
/// dimension of the result, one row dimension that a single operand has, one reduced dimension),
/// and where the cheapest division has fewer cores than the default one.
pub(super) fn choose_by_cost_model(
    space: &IterationSpace,
    cores: u64,
    committed: &[u64],
    default: &[u64],
) -> Result<CostModelChoice, &'static str> {
    if space.point_cost().macs == 0 {
        return Err("no matrix product");
    }
    if committed.iter().any(|s| *s > 1) {
        return Err("the span limit committed splits already");
    }
    // Each refusal below is one of torch-spyre's own: where its model declines, its default distribution decides, and
    // so must the baseline.
    // Dimensions of size 1 are no loops.
    let real: Vec<usize> = (0..space.dims().len()).filter(|d| space.dims()[*d].size > 1).collect();
    let reduced: Vec<usize> = real.iter().copied().filter(|d| space.dims()[*d].reduced).collect();
    let outputs = || real.iter().copied().filter(|d| !space.dims()[*d].reduced);
    let lanes: Vec<usize> = outputs().filter(|d| space.is_stick(*d)).collect();
    let rows: Vec<usize> = outputs().filter(|d| !space.is_stick(*d)).collect();
    let reads = || space.tensors().iter().filter(|t| t.role() == AccessRole::Read);
    let single: Vec<usize> = rows
        .iter()
        .copied()
        .filter(|d| reads().filter(|t| t.depends_on(*d)).count() == 1)
        .collect();
    let [n] = lanes[..] else { return Err("the result has no single stick dimension") };
    let [m] = single[..] else {
        return Err(if single.is_empty() {
            "no row dimension belongs to a single operand"
        } else {
            "two row dimensions belong to a single operand, so M is ambiguous"
        });
    };
    let [k] = reduced[..] else { return Err("not one reduced dimension") };
    let batch: Vec<usize> = rows.iter().copied().filter(|d| *d != m).collect();

    // The model counts whole sticks: a dimension of 67 along lanes costs as much as one of 128.
    let whole = |d: usize, split: u64| SplitAxis {
        size: space.unit_count(d) * space.unit_iterations(d),
        split,
    };
    let batches: u64 = batch.iter().map(|d| space.unit_count(*d)).product();
    let order: Vec<usize> = batch.iter().copied().chain([m, n, k]).collect();
    let mut best: Option<CostModelChoice> = None;
    let mut tried = 0;
    let mut splits = vec![1; space.dims().len()];
    visit_even_divisions(space, cores, &order, &mut splits, &mut |splits| {
        tried += 1;
        let b = SplitAxis { size: batches, split: batch.iter().map(|d| splits[*d]).product() };
        let cost_us = matmul_cost(b, whole(m, splits[m]), whole(n, splits[n]), whole(k, splits[k]));
        // The first of equals stays, in the order in which torch-spyre enumerates them.
        if best.as_ref().is_none_or(|c| cost_us < c.cost_us) {
            best = Some(CostModelChoice { splits: splits.to_vec(), cost_us, tried: 0 });
        }
    });
    let best = best.ok_or("no division")?;
    // The model prices what one operation takes alone and may prefer few cores for a small one. torch-spyre does not
    // follow it there.
    if best.splits.iter().product::<u64>() < default.iter().product() {
        return Err("the cheapest division leaves cores idle that the default one uses");
    }
    Ok(CostModelChoice { tried, ..best })
}

/// Every even division over some dimensions, the last one fastest.
fn visit_even_divisions(
    space: &IterationSpace,
    room: u64,
    order: &[usize],
    splits: &mut Vec<u64>,
    visit: &mut impl FnMut(&[u64]),
) {
    let Some((d, rest)) = order.split_first() else {
        visit(splits);
        return;
    };
    for s in space.even_splits(*d, room) {
        splits[*d] = s;
        visit_even_divisions(space, room / s, rest, splits, visit);
    }
    splits[*d] = 1;
}
