//! Plans that are read from a file: they are checked before they are plans again.
//!
//! The engine trusts a plan with memory: its addresses stay inside the buffers that it requires, and
//! threads write disjoint addresses. A file can claim anything, so both are proved anew.

use crate::plan::{CopyLoop, CopyNest, FillNest, MovePlan};
use serde::Deserialize;

/// The fields of a plan, not yet checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UncheckedPlan {
    nests: Vec<CopyNest>,
    fills: Vec<FillNest>,
    elements: i64,
    copies: i64,
    src_range: Option<(i64, i64)>,
    dst_range: Option<(i64, i64)>,
}

/// Addresses that are listed one by one to see that none is written twice, at most: 32 MiB of bits.
const MAX_PLACES: i128 = 1 << 28;

impl TryFrom<UncheckedPlan> for MovePlan {
    type Error = String;

    fn try_from(claimed: UncheckedPlan) -> Result<MovePlan, String> {
        let UncheckedPlan { nests, fills, elements, copies, src_range, dst_range } = claimed;
        for (what, range) in [("src_range", src_range), ("dst_range", dst_range)] {
            if range.is_some_and(|(low, high)| low < 0 || high < low || high == i64::MAX) {
                return Err(format!("{what}: {range:?} are not addresses from 0 up"));
            }
        }
        let mut written = 0i128;
        let mut walks: Vec<FillNest> = Vec::new();
        for (i, nest) in nests.iter().enumerate() {
            let what = format!("nest {i}");
            let side = |stride: fn(&CopyLoop) -> i64, start: fn(&(i64, i64)) -> i64| FillNest {
                loops: nest.loops.iter().map(|l| (l.range, stride(l))).collect(),
                starts: nest.starts.iter().map(start).collect(),
            };
            let (src, dst) = (side(|l| l.src, |s| s.0), side(|l| l.dst, |s| s.1));
            check_inside(&what, "source", &src, src_range)?;
            written += check_inside(&what, "destination", &dst, dst_range)?;
            walks.push(dst);
        }
        if written != i128::from(elements) * i128::from(copies) || elements < 0 || copies < 0 {
            return Err(format!("the nests write {written} places, not {elements} x {copies}"));
        }
        for (i, fill) in fills.iter().enumerate() {
            let what = format!("fill {i}");
            written += check_inside(&what, "destination", fill, dst_range)?;
            walks.push(fill.clone());
        }
        // The proof by strides holds for almost every plan and takes no time; the list decides what it leaves open.
        if !strides_prove_disjoint(&walks) {
            let places = dst_range.map_or(0, |(_, high)| i128::from(high) + 1);
            if places.max(written) > MAX_PLACES {
                return Err(format!(
                    "{written} places are too many to see that none is written twice; at most \
                     {MAX_PLACES}: plan the move anew"
                ));
            }
            check_disjoint_by_list(&walks, usize::try_from(places).unwrap_or(0))?;
        }
        Ok(MovePlan { nests, fills, elements, copies, src_range, dst_range })
    }
}

impl MovePlan {
    /// The plan of these nests and nothing else, each address of which is written once.
    ///
    /// # Errors
    /// Addresses below 0, and addresses that are written twice or that are too many to see that they are not.
    pub fn from_disjoint_nests(nests: Vec<CopyNest>) -> Result<MovePlan, String> {
        let written: i128 = nests.iter().map(|n| i128::from(n.element_count())).sum();
        let elements = i64::try_from(written).map_err(|_| "more than 2^63 places".to_string())?;
        let src_range = MovePlan::address_range(&nests, |s| s.0, |l| l.src);
        let dst_range = MovePlan::address_range(&nests, |s| s.1, |l| l.dst);
        let claimed =
            UncheckedPlan { nests, fills: Vec::new(), elements, copies: 1, src_range, dst_range };
        MovePlan::try_from(claimed)
    }
}

/// The number of addresses that loops visit, all of them inside the claimed range.
fn check_inside(
    what: &str,
    side: &str,
    walk: &FillNest,
    range: Option<(i64, i64)>,
) -> Result<i128, String> {
    // In 128 bits, because a file may name any numbers and their products must not wrap around.
    let (mut down, mut up, mut count) = (0i128, 0i128, 1i128);
    let size = range.map_or(0, |(_, high)| i128::from(high) + 1);
    for (n, stride) in &walk.loops {
        // A loop of a single step has a stride too, which the engine multiplies by the bytes of an element.
        if *n < 1 || i128::from(*stride).abs() > size {
            return Err(format!("{what}: a loop of {n} steps of {stride} in the {side}"));
        }
        let reach = i128::from(n - 1) * i128::from(*stride);
        (down, up) = (down + reach.min(0), up + reach.max(0));
        count = count.saturating_mul(i128::from(*n));
    }
    for start in &walk.starts {
        let (low, high) = (i128::from(*start) + down, i128::from(*start) + up);
        let fits = range.is_some_and(|(a, b)| low >= i128::from(a) && high <= i128::from(b));
        if !fits {
            return Err(format!("{what}: {side} addresses {low} to {high} are outside {range:?}"));
        }
    }
    let total = count.saturating_mul(walk.starts.len() as i128);
    if total > i128::from(i64::MAX) {
        return Err(format!("{what}: more than 2^63 places"));
    }
    Ok(total)
}

/// Whether strides alone show that no address is written twice: every stride is larger than the reach of the loops
/// of smaller strides, and the ranges of no two starts overlap.
fn strides_prove_disjoint(walks: &[FillNest]) -> bool {
    let mut ranges = Vec::new();
    for FillNest { loops, starts } in walks {
        let mut steps: Vec<(i128, i128)> = loops
            .iter()
            .filter(|(n, _)| *n > 1)
            .map(|(n, stride)| (i128::from(*n), i128::from(*stride).abs()))
            .collect();
        steps.sort_by_key(|(_, stride)| *stride);
        let mut reach = 0;
        for (n, stride) in steps {
            if stride <= reach {
                return false;
            }
            reach += (n - 1) * stride;
        }
        let down: i128 =
            loops.iter().map(|(n, s)| (i128::from(n - 1) * i128::from(*s)).min(0)).sum();
        let low = |start: &i64| i128::from(*start) + down;
        ranges.extend(starts.iter().map(|start| (low(start), low(start) + reach)));
    }
    ranges.sort_unstable();
    ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
}

/// Sets a bit for every address, and refuses one that is set already.
fn check_disjoint_by_list(walks: &[FillNest], places: usize) -> Result<(), String> {
    let mut seen = vec![0u64; places.div_ceil(64)];
    for FillNest { loops, starts } in walks {
        for start in starts {
            let mut digits = vec![0i64; loops.len()];
            let mut at = *start;
            loop {
                let place = usize::try_from(at).map_err(|_| format!("the place {at}"))?;
                let (word, bit) = (&mut seen[place / 64], 1u64 << (place % 64));
                if *word & bit != 0 {
                    return Err(format!("the place {at} is written twice"));
                }
                *word |= bit;
                let mut turned = false;
                for ((n, stride), digit) in loops.iter().zip(&mut digits).rev() {
                    *digit += 1;
                    at += stride;
                    if *digit < *n {
                        turned = true;
                        break;
                    }
                    at -= n * stride;
                    *digit = 0;
                }
                if !turned {
                    break;
                }
            }
        }
    }
    Ok(())
}
