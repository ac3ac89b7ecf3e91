//! Loops under a swizzle: those that it leaves linear stay, the others become a table of starts.

use crate::builder::MAX_STARTS;
use crate::plan::CopyLoop;
use smallvec::SmallVec;
use zellige_layout::Swizzle;

/// Source and destination addresses; one pair where there is no swizzle.
pub(crate) type StartAddresses = SmallVec<[(i64, i64); 1]>;

/// Lists the loops that a swizzle does not leave linear in a table of starts.
///
/// `a` and `b` are the addresses before the swizzle. A loop stays where the stride on a swizzled
/// side is a multiple of the period of the swizzle, or where it moves only the low bits that the
/// swizzle leaves alone and never carries out of them. `None` where the table would be too large.
pub(crate) fn tabulate_swizzled(
    loops: Vec<CopyLoop>,
    a: i64,
    b: i64,
    src: Option<Swizzle>,
    dst: Option<Swizzle>,
) -> Option<(Vec<CopyLoop>, StartAddresses)> {
    if src.is_none() && dst.is_none() {
        return Some((loops, StartAddresses::from_slice(&[(a, b)])));
    }
    // An XOR with bits of the address changes nothing in a loop whose steps leave all bits that take part alone.
    let free = |sw: Option<Swizzle>, stride: i64| {
        sw.is_none_or(|sw| stride % (1 << sw.affected_low_bits()) == 0)
    };
    let low = |sw: Option<Swizzle>, stride: i64| {
        sw.is_none_or(|sw| {
            stride % (1 << sw.affected_low_bits()) == 0
                || (stride > 0 && stride < 1 << sw.per_element())
        })
    };
    let (mut kept, mut listed): (Vec<CopyLoop>, Vec<CopyLoop>) = (Vec::new(), Vec::new());
    for l in loops {
        if low(src, l.src) && low(dst, l.dst) { kept.push(l) } else { listed.push(l) }
    }
    // The low bits of every start must leave room for what the kept loops add to them: a carry would reach the bits
    // that the swizzle moves.
    let fits = |sw: Option<Swizzle>, at: i64, stride: fn(&CopyLoop) -> i64| {
        let Some(sw) = sw else { return true };
        let unit = 1i64 << sw.per_element();
        let reach: i64 = kept
            .iter()
            .filter(|l| !free(Some(sw), stride(l)))
            .map(|l| (l.range - 1) * stride(l))
            .sum();
        at % unit + reach < unit && listed.iter().all(|l| stride(l) % unit == 0)
    };
    if !(fits(src, a, |l| l.src) && fits(dst, b, |l| l.dst)) {
        let all = std::mem::take(&mut kept);
        for l in all {
            if free(src, l.src) && free(dst, l.dst) { kept.push(l) } else { listed.push(l) }
        }
    }
    // The table is bounded before it is made, and counted against the memory of a request.
    let count = listed.iter().try_fold(1i64, |n, l| n.checked_mul(l.range))?;
    if usize::try_from(count).map_or(true, |n| n > MAX_STARTS) {
        return None;
    }
    zellige_guard::reserve_memory(
        size_of::<(i64, i64)>() * usize::try_from(count).unwrap_or(usize::MAX),
    );
    let mut starts = StartAddresses::from_slice(&[(a, b)]);
    for l in &listed {
        starts = starts
            .iter()
            .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
            .collect();
    }
    // Starts are listed in plain addresses and swizzled at last, when all loops have been added.
    let moved = |sw: Option<Swizzle>, at: i64| sw.map_or(at, |sw| sw.apply_to_address(at));
    for (a, b) in &mut starts {
        (*a, *b) = (moved(src, *a), moved(dst, *b));
    }
    Some((kept, starts))
}
