//! Cutting a range of indices into pieces on which two layouts are both linear.
//!
//! Each side of a move is piecewise linear in the flat index. It has *breaks*, where its slope changes: where a
//! dimension of its window ends, and inside a dimension at the multiples of its weights, counted from where the
//! padded dimension begins. Breaks of the same distance form a *level*. Between two breaks of one level there are
//! those of the smaller levels alone, and they repeat after their least common multiple: whole periods become one
//! loop, and the two ends are cut by themselves.
//!
//! Where tilings nest the period is the distance, and a level gives one body and a remainder. Where they do not
//! (2x3 against 3x2), one period is cut at every break and the loop repeats that.

use smallvec::SmallVec;

/// Breaks of a function of the index, where it stops being linear: inside every stretch of `stretch` indices,
/// those that are `phase` modulo `modulus`, counted from the first index of the stretch.
///
/// A dimension of 100 in sticks of 64 has breaks at 64, 100, 164, 200 and so on: distance 64 in stretches
/// of 100, and distance 100. Invariant: `0 < modulus <= stretch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinearBreaks {
    pub(crate) modulus: i64,
    pub(crate) stretch: i64,
    pub(crate) phase: i64,
}

impl LinearBreaks {
    /// Every multiple of a number.
    pub(crate) fn at_multiples(modulus: i64) -> LinearBreaks {
        LinearBreaks { modulus, stretch: modulus, phase: 0 }
    }
}

/// All breaks of one distance, and the period after which they and all smaller levels repeat.
#[derive(Debug)]
struct BreakLevel {
    modulus: i64,
    period: i64,
    breaks: SmallVec<[LinearBreaks; 2]>,
}

/// The loops of a piece as (count, weight), outermost first.
pub(crate) type PieceLoops = SmallVec<[(i64, i64); 8]>;

/// Gives the pieces of `[0, size)` to `emit`: a start and loops, which stand for the indices
/// `start + sum c_k * weight_k`, `c_k < count_k`.
///
/// **Law**: every index is in one piece; functions that are linear between `breaks` are linear in the
/// digits `c_k` of a piece. Every stretch of one entry must be the modulus of an entry of its own,
/// or no smaller than `size`.
///
/// False as soon as `emit` returns false.
pub(crate) fn emit_linear_pieces(
    size: i64,
    breaks: &mut [LinearBreaks],
    mut emit: impl FnMut(i64, &[(i64, i64)]) -> bool,
) -> bool {
    descend_levels(0, size, &order_levels(breaks), &mut PieceLoops::new(), &mut emit)
}

/// The levels, smallest distance first.
fn order_levels(breaks: &mut [LinearBreaks]) -> SmallVec<[BreakLevel; 8]> {
    breaks.sort_unstable();
    let mut levels: SmallVec<[BreakLevel; 8]> = SmallVec::new();
    for b in breaks.iter().filter(|b| b.modulus > 1) {
        match levels.last_mut() {
            Some(l) if l.modulus == b.modulus => {
                if !l.breaks.contains(b) {
                    l.breaks.push(*b);
                }
            }
            _ => levels.push(BreakLevel {
                modulus: b.modulus,
                period: 1,
                breaks: smallvec::smallvec![*b],
            }),
        }
    }
    for i in 0..levels.len() {
        // Breaks that begin anew with every stretch repeat with the stretch, which is a level itself; so they do not
        // lengthen the period of larger levels.
        let modulus = levels[i].modulus;
        let inner = levels[..=i].iter().filter(|l| {
            l.modulus == modulus
                || l.breaks.iter().any(|b| b.stretch > modulus || b.stretch == b.modulus)
        });
        levels[i].period = inner.fold(1, |period, l| lcm(period, l.modulus));
    }
    levels
}

fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

type EmitPiece<'a> = dyn FnMut(i64, &[(i64, i64)]) -> bool + 'a;

/// The pieces of `[lo, hi)`, which has no break of a larger level inside, under `outer` loops.
fn descend_levels(
    lo: i64,
    hi: i64,
    levels: &[BreakLevel],
    outer: &mut PieceLoops,
    emit: &mut EmitPiece<'_>,
) -> bool {
    if lo >= hi {
        return true;
    }
    let Some((level, below)) = levels.split_last() else {
        outer.push((hi - lo, 1));
        let go_on = emit(lo, outer);
        outer.pop();
        return go_on;
    };
    // The range is inside one stretch of each entry, so that its breaks are one progression here.
    let phases: SmallVec<[i64; 4]> =
        level.breaks.iter().map(|b| lo - lo % b.stretch + b.phase).collect();
    let next = |at: i64| {
        phases.iter().map(|p| at + (p - at).rem_euclid(level.modulus)).min().unwrap_or(hi).min(hi)
    };
    let first = next(lo);
    if !descend_levels(lo, first, below, outer, emit) {
        return false;
    }
    let mut cut = |from: i64, to: i64, outer: &mut PieceLoops| {
        let mut at = from;
        while at < to {
            let end = next(at + 1).min(to);
            if !descend_levels(at, end, below, outer, emit) {
                return false;
            }
            at = end;
        }
        true
    };
    let whole = (hi - first) / level.period;
    // A loop of one step is no loop: the pieces are emitted as they are.
    if whole < 2 {
        return cut(first, hi, outer);
    }
    outer.push((whole, level.period));
    let go_on = cut(first, first + level.period, outer);
    outer.pop();
    go_on && cut(first + whole * level.period, hi, outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Piece = (i64, Vec<(i64, i64)>);

    fn pieces(size: i64, breaks: &[LinearBreaks]) -> Vec<Piece> {
        let mut all = Vec::new();
        let listed = emit_linear_pieces(size, &mut breaks.to_vec(), |start, loops| {
            all.push((start, loops.to_vec()));
            true
        });
        assert!(listed);
        all
    }

    fn indices((start, loops): &Piece) -> Vec<i64> {
        let mut all = vec![*start];
        for (count, weight) in loops {
            all = all.iter().flat_map(|i| (0..*count).map(move |c| i + c * weight)).collect();
        }
        all
    }

    fn breaks(list: &[(i64, i64, i64)]) -> Vec<LinearBreaks> {
        let one = |(modulus, stretch, phase): &(i64, i64, i64)| LinearBreaks {
            modulus: *modulus,
            stretch: *stretch,
            phase: *phase,
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn pieces_cover_once_and_repeat_what_the_breaks_do() {
        for list in [
            vec![(4, 4, 0), (8, 8, 0)],
            vec![(2, 2, 0), (3, 3, 0)],
            vec![(4, 4, 1), (8, 8, 3)],
            vec![(6, 6, 5), (4, 4, 0), (24, 24, 7)],
            vec![(5, 5, 2), (7, 7, 3)],
            vec![(6, 10, 0), (10, 10, 0)],
            vec![(6, 10, 0), (10, 10, 0), (4, 25, 3), (25, 25, 0)],
            vec![(2, 6, 1), (6, 6, 0), (3, 12, 1), (4, 12, 1), (12, 12, 0)],
            vec![],
        ] {
            let list = breaks(&list);
            let is_break = |t: i64| {
                let at = |b: &LinearBreaks| (t % b.stretch - b.phase).rem_euclid(b.modulus) == 0;
                // The beginning of a stretch is a break of its own entry, not of the smaller one.
                list.iter().any(|b| at(b) && (t % b.stretch != 0 || b.stretch == b.modulus))
            };
            for size in [0, 1, 24, 50, 100, 200, 301] {
                let pieces = pieces(size, &list);
                let mut seen: Vec<i64> = pieces.iter().flat_map(indices).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..size).collect::<Vec<_>>(), "{list:?} [0, {size})");
                for (start, loops) in &pieces {
                    let ((run, weight), outer) = loops.split_last().expect("one loop at least");
                    assert_eq!(*weight, 1);
                    assert!((start + 1..start + run).all(|t| !is_break(t)), "{list:?}");
                    // Two steps of a loop pass over the same breaks.
                    for (count, weight) in outer {
                        for t in start + 1..=start + (count - 2) * weight {
                            assert_eq!(is_break(t), is_break(t + weight), "{list:?} {t} {weight}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn nesting_tilings_give_few_pieces() {
        let sticks = breaks(&[(64, 64, 0), (8, 8, 0)]);
        assert_eq!(pieces(4096, &sticks).len(), 1);
        assert_eq!(pieces(4097, &sticks).len(), 2);
        // 1000 rows of 100, in sticks of 64 and of 32.
        let ragged = breaks(&[(64, 100, 0), (100, 100, 0), (32, 100, 0)]);
        assert_eq!(pieces(100_000, &ragged).len(), 3);
    }
}
