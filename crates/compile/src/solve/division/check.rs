//! A second look at a division, which shares no code with the passes that found it.
//!
//! Slices come from the device's own [`Division`](zellige_device::Division). For each core, places
//! of tensors are asked of the layout's expressions at the corners of its slice, where coordinates that
//! only grow are smallest and largest. The latency is the hardware's for the plan's [`plan_core_work`], a function
//! of the splits alone that the tests compare with all points of small spaces.

use super::{DivisionPlan, IterationSpace, work};
use crate::error::{CompileError, RefusalWitness, Result};
use zellige_machine::{Hardware, Key};

fn broken_division(witness: RefusalWitness, reason: String) -> CompileError {
    CompileError::Broken { witness, reason }
}

/// Whether a plan is what it says: whole sticks for each core, every point on one core, no more cores
/// than there are, spans as stated and under the limit, at most one split reduction, the latency that
/// the hardware gives.
pub fn check_division(
    space: &IterationSpace,
    hardware: &Hardware,
    cores: usize,
    plan: &DivisionPlan,
) -> Result<()> {
    let dim = |d: usize| RefusalWitness::Dim(space.dims()[d].name.clone());
    if plan.splits.len() != space.dims().len() {
        let reason = format!("{} splits for {} dims", plan.splits.len(), space.dims().len());
        return Err(broken_division(RefusalWitness::Core(0), reason));
    }
    let division = space.division_with(&plan.splits, cores)?;
    if division.core_count() as u64 != plan.cores_used {
        let reason = format!("{} cores are used, not {}", division.core_count(), plan.cores_used);
        return Err(broken_division(RefusalWitness::Core(division.core_count()), reason));
    }
    let summed: Vec<usize> = (0..plan.splits.len())
        .filter(|d| space.dims()[*d].reduced && plan.splits[*d] > 1)
        .collect();
    if let [_, second, ..] = summed[..] {
        return Err(broken_division(dim(second), "two reduced dimensions are split".into()));
    }
    let spans = space.spans();
    let mut points = 0_u128;
    let mut largest = vec![0_u64; space.tensors().len()];
    for core in 0..division.core_count() {
        let slices = division.core_slice(core, &spans);
        for (d, s) in slices.iter().enumerate() {
            let unit = usize::try_from(space.unit_iterations(d)).unwrap_or(usize::MAX);
            let whole = s.start % unit == 0 && (s.end % unit == 0 || s.end == spans[d].size);
            if !whole || (s.is_empty() && !space.is_empty()) {
                let reason = format!("core {core} has {s:?} of it, no whole sticks of {unit}");
                return Err(broken_division(dim(d), reason));
            }
        }
        points += slices.iter().map(|s| s.len() as u128).product::<u128>();
        if space.is_empty() {
            continue;
        }
        let corner = |last: bool| -> Vec<i64> {
            let at = |s: &std::ops::Range<usize>| if last { s.end - 1 } else { s.start };
            slices.iter().map(|s| i64::try_from(at(s)).unwrap_or(i64::MAX)).collect()
        };
        // Coordinates never fall along a loop, so that two corners are enough: the rule is the constructor's, and the
        // expressions are asked and not the code that computes spans.
        let (low, high) = (corner(false), corner(true));
        for (bytes, t) in largest.iter_mut().zip(space.tensors()) {
            *bytes = (*bytes).max(corner_span(t, &low, &high));
        }
    }
    let all: u128 = space.dims().iter().map(|d| u128::from(d.size)).product();
    // Slices of a box are disjoint where their points add up to all of them and each is inside; the device's own
    // division guarantees the latter.
    if points != all {
        let reason = format!("the slices have {points} points, the space {all}");
        return Err(broken_division(RefusalWitness::Core(0), reason));
    }
    let limit = hardware.figure_count(Key::Span);
    for ((t, stated), found) in space.tensors().iter().zip(&plan.span_bytes).zip(largest) {
        let found = if space.is_empty() { *stated } else { found };
        if *stated != found || *stated > limit {
            let reason = format!("its span is {found}, stated {stated}, at most {limit}");
            return Err(broken_division(RefusalWitness::Tensor(t.name.clone()), reason));
        }
    }
    let priced = if space.is_empty() {
        0.0
    } else {
        work::division_latency(space, hardware, &plan.splits).1
    };
    if (priced - plan.latency_us).abs() > 1e-9 {
        let reason = format!("it takes {priced} us, stated {}", plan.latency_us);
        return Err(broken_division(RefusalWitness::Core(0), reason));
    }
    Ok(())
}

/// The span between two corners of a slice, by the outermost device dimension that moves.
fn corner_span(t: &super::TensorAccess, low: &[i64], high: &[i64]) -> u64 {
    let sticks = t.device_size.len() - 1;
    for j in 0..sticks {
        let moved: i128 = t.coordinates[j]
            .terms
            .iter()
            .map(|term| {
                let (a, b) = (low[term.var], high[term.var]);
                // A modulus makes a coordinate begin again: then the largest value is not at the corner.
                let wraps = term.modulus.is_some_and(|m| b - a >= m - 1 || a % m > b % m);
                let value = |x| i128::from(term.evaluate_term(x));
                match term.modulus {
                    Some(m) if wraps => value(m - 1),
                    _ => value(b) - value(a),
                }
            })
            .sum::<i128>()
            + i128::from(t.whole[j].extent);
        if moved > 0 {
            let inside: u128 =
                t.device_size[j + 1..sticks].iter().map(|n| u128::from(*n)).product();
            let bytes = (u128::try_from(moved).unwrap_or(0) + 1) * inside * 128;
            return u64::try_from(bytes).unwrap_or(u64::MAX);
        }
    }
    128
}
