//! Cutting one dimension into pieces on which two layouts are both linear.
//!
//! Each side of a move is a mixed-radix function of the index of a dimension: it is linear between
//! the multiples of its weights, shifted by where its window begins. Both sides together are linear
//! between the union of these breakpoints. The breakpoints of modulus `W` repeat; a level of the
//! hierarchy therefore has a period, the least common multiple of its own modulus and the period
//! below, and whole periods become one loop. Where the tilings nest the period is the modulus, and
//! a dimension gives one piece plus one per partial tile; where they do not (2x3 against 3x2), one
//! period is cut at every breakpoint and the loop repeats that.

/// A part of a dimension: the indices `start + sum c_k * weight_k`, `c_k < count_k`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: i64,
    /// (count, weight), outermost first.
    pub(crate) loops: Vec<(i64, i64)>,
}

/// Breakpoints at every `t` with `t = phase (mod modulus)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Breaks {
    pub(crate) modulus: i64,
    pub(crate) phase: i64,
}

/// More pieces of one dimension than this are not listed.
pub(crate) const MAX_PIECES: usize = 1 << 16;

/// The pieces of `[from, to)`, or `None` where there are more than [`MAX_PIECES`].
pub(crate) fn cover(from: i64, to: i64, breaks: &[Breaks]) -> Option<Vec<Piece>> {
    let mut breaks: Vec<Breaks> = breaks.iter().copied().filter(|b| b.modulus > 1).collect();
    for b in &mut breaks {
        b.phase = b.phase.rem_euclid(b.modulus);
    }
    breaks.sort_unstable();
    breaks.dedup();
    let mut levels = Vec::new();
    let mut period = 1i64;
    for b in breaks {
        period = lcm(period, b.modulus);
        levels.push((b, period));
    }
    let mut pieces = Vec::new();
    descend(from, to, &levels, &mut pieces).then_some(pieces)
}

fn lcm(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

/// Appends the pieces of `[lo, hi)`; false when there are too many.
fn descend(lo: i64, hi: i64, levels: &[(Breaks, i64)], out: &mut Vec<Piece>) -> bool {
    if lo >= hi {
        return true;
    }
    if out.len() > MAX_PIECES {
        return false;
    }
    let Some(((breaks, period), below)) = levels.split_last() else {
        out.push(Piece { start: lo, loops: vec![(hi - lo, 1)] });
        return true;
    };
    let step = breaks.modulus;
    let mut at = lo + (breaks.phase - lo).rem_euclid(step);
    if at >= hi {
        return descend(lo, hi, below, out);
    }
    if !descend(lo, at, below, out) {
        return false;
    }
    let whole = (hi - at) / period;
    if whole > 0 {
        let first = out.len();
        for sub in 0..period / step {
            if !descend(at + sub * step, at + (sub + 1) * step, below, out) {
                return false;
            }
        }
        if whole > 1 {
            for piece in &mut out[first..] {
                piece.loops.insert(0, (whole, *period));
            }
        }
        at += whole * period;
    }
    while at < hi {
        let end = (at + step).min(hi);
        if !descend(at, end, below, out) {
            return false;
        }
        at = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(p: &Piece) -> Vec<i64> {
        let mut all = vec![p.start];
        for (count, weight) in &p.loops {
            all = all.iter().flat_map(|i| (0..*count).map(move |c| i + c * weight)).collect();
        }
        all
    }

    #[test]
    fn pieces_cover_once_and_never_straddle_a_break() {
        let breaks = |list: &[(i64, i64)]| -> Vec<Breaks> {
            list.iter()
                .map(|(modulus, phase)| Breaks { modulus: *modulus, phase: *phase })
                .collect()
        };
        for list in [
            vec![(4, 0), (8, 0)],
            vec![(2, 0), (3, 0)],
            vec![(4, 1), (8, 3)],
            vec![(6, 5), (4, 0), (24, 7)],
            vec![(5, 2), (7, 3)],
            vec![],
        ] {
            let b = breaks(&list);
            for (from, to) in [(0, 24), (3, 50), (0, 0), (7, 8), (1, 200)] {
                let pieces = cover(from, to, &b).expect("few pieces");
                let mut seen: Vec<i64> = pieces.iter().flat_map(indices).collect();
                seen.sort_unstable();
                assert_eq!(seen, (from..to).collect::<Vec<_>>(), "{list:?} [{from}, {to})");
                for p in &pieces {
                    // The innermost run holds no break inside.
                    let (run, weight) = *p.loops.last().expect("one loop at least");
                    assert_eq!(weight, 1);
                    for t in p.start + 1..p.start + run {
                        assert!(b.iter().all(|b| (t - b.phase).rem_euclid(b.modulus) != 0));
                    }
                }
            }
        }
    }

    #[test]
    fn nesting_tilings_give_few_pieces() {
        let b = [Breaks { modulus: 64, phase: 0 }, Breaks { modulus: 8, phase: 0 }];
        assert_eq!(cover(0, 4096, &b).expect("few").len(), 1);
        assert_eq!(cover(0, 4097, &b).expect("few").len(), 2);
    }
}
