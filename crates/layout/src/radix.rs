//! Mixed-radix linear functions of one index, decided without enumeration.
//!
//! The shard of a layout is a function `F` of a flat index: split the index over the extents, add
//! `digit * stride`. Such a function is determined by its **jumps**: with `P_j` the product of the `j`
//! innermost extents, `F(t) - F(t - 1)` depends only on the carry depth of `t`, the largest `j` with
//! `P_j | t`. Two functions agree on a range exactly when they start equal and their jumps agree on every
//! pair of depths that some `t` of the range has; whether some `t` has a given pair is a question about
//! congruences. That gives exact answers, and the first index at which two functions differ, in time that
//! depends on the number of iters and not on the number of elements. `docs/proofs.md` works through an
//! example.
//!
//! **Invariant.** No digit has extent 1, and no two neighbours could be one digit. Then the jump changes at
//! every product `P_j`, and where it changes is determined by the function alone: equal functions on equal
//! ranges have equal digits.
//!
//! **Cost.** With `k` and `l` digits a comparison asks about `k * l` pairs of carry depths, each of which
//! takes two greatest common divisors. Only [`scan_for_digits`] evaluates the function at every index; it
//! is called where the exact rules do not apply, and refuses ranges past [`SCAN_LIMIT`].

use crate::axis::Axis;
use crate::int::{CongruenceClass, euclidean_div_rem, euclidean_rem};
use crate::tile::Iter;
use smallvec::SmallVec;

/// A value on several axes, in the order of a list of axes kept by the caller.
pub(crate) type AxisVector = SmallVec<[i128; 4]>;

/// One digit: `extent` steps of `stride`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RadixDigit {
    pub(crate) extent: i128,
    pub(crate) stride: AxisVector,
}

/// A mixed-radix linear function, digits innermost first, no unit digit, adjacent digits fused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RadixFunction {
    digits: Vec<RadixDigit>,
    width: usize,
}

/// Indices that [`scan_for_digits`] may evaluate before the question is refused as too large.
// A count and not a time, so that the same question has the same answer on every machine.
pub(crate) const SCAN_LIMIT: i128 = 1 << 22;

/// Why a function is not mixed-radix linear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLinear {
    /// The smallest index whose value contradicts the digits that the values before it determine.
    At(i128),
    /// The step to this index moves on several axes at once.
    TwoAxes(i128),
    /// Deciding would take more than [`SCAN_LIMIT`] steps.
    TooLarge,
}

impl RadixFunction {
    /// The shard iters (slowest first) as a function onto `axes`.
    pub(crate) fn from_iters(iters: &[Iter], axes: &[Axis]) -> RadixFunction {
        let digits = iters.iter().rev().map(|it| {
            let mut stride: AxisVector = SmallVec::from_elem(0, axes.len());
            if let Some(slot) = axes.iter().position(|a| *a == it.axis) {
                stride[slot] = it.stride.into();
            }
            RadixDigit { extent: it.extent.into(), stride }
        });
        RadixFunction::from_digits(digits, axes.len())
    }

    /// Digits innermost first; unit digits are dropped and adjacent ones fused.
    pub(crate) fn from_digits(
        digits: impl IntoIterator<Item = RadixDigit>,
        width: usize,
    ) -> RadixFunction {
        let mut fused: Vec<RadixDigit> = Vec::new();
        for digit in digits {
            // A unit digit is always 0, so its stride is arbitrary. Two equal functions could
            // differ in it, which would break the invariant of this file.
            if digit.extent == 1 {
                continue;
            }
            match fused.last_mut() {
                Some(last)
                    if last
                        .stride
                        .iter()
                        .zip(&digit.stride)
                        .all(|(s, t)| s * last.extent == *t) =>
                {
                    last.extent *= digit.extent;
                }
                _ => fused.push(digit),
            }
        }
        RadixFunction { digits: fused, width }
    }

    pub(crate) fn digits(&self) -> &[RadixDigit] {
        &self.digits
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn size(&self) -> i128 {
        self.digits.iter().map(|d| d.extent).product()
    }

    /// The value at an index; past the size the outermost digit continues to count.
    pub(crate) fn evaluate_at(&self, index: i128) -> AxisVector {
        let mut rest = index;
        let mut value: AxisVector = SmallVec::from_elem(0, self.width);
        for (i, d) in self.digits.iter().enumerate() {
            let last = i + 1 == self.digits.len();
            // The outermost digit takes all that is left. With that the function is defined past
            // its size too, which lets `restrict_to_range` compare a candidate whose last extent is
            // not known yet.
            let (carry, digit) = if last { (0, rest) } else { euclidean_div_rem(rest, d.extent) };
            rest = carry;
            for (v, s) in value.iter_mut().zip(&d.stride) {
                *v += digit * s;
            }
        }
        value
    }

    fn carry_jumps(&self) -> CarryJumps {
        let mut weights = Vec::with_capacity(self.digits.len());
        let mut jumps: Vec<AxisVector> = Vec::with_capacity(self.digits.len());
        let mut weight = 1i128;
        let mut below: AxisVector = SmallVec::from_elem(0, self.width);
        for d in &self.digits {
            weights.push(weight);
            // A carry into this digit resets every digit below it from its last value to 0, so the
            // step is this stride less all that the lower digits had added up.
            jumps.push(d.stride.iter().zip(&below).map(|(s, b)| s - b).collect());
            for (b, s) in below.iter_mut().zip(&d.stride) {
                *b += (d.extent - 1) * s;
            }
            // Saturation is harmless: a weight past `i128` is larger than every index, so no `t` of
            // a range is a multiple of it other than 0, which ranges leave out.
            weight = weight.saturating_mul(d.extent);
        }
        // The constant function has no digit. One jump of 0 stands for it, so that callers need no
        // case for it.
        if weights.is_empty() {
            weights.push(1);
            jumps.push(SmallVec::from_elem(0, self.width));
        }
        CarryJumps { weights, jumps }
    }

    /// The smallest `t` in `[1, n)` with `F(b + t) - F(b) != G(c + t) - G(c)`, if there is one.
    pub(crate) fn first_difference(
        &self,
        b: i128,
        other: &RadixFunction,
        c: i128,
        n: i128,
    ) -> Option<i128> {
        let (f, g) = (self.carry_jumps(), other.carry_jumps());
        let mut first: Option<i128> = None;
        let classes_g: SmallVec<[_; 8]> = (0..g.jumps.len()).map(|l| g.carry_class(l, c)).collect();
        for (j, jump_f) in f.jumps.iter().enumerate() {
            let (in_f, out_f) = f.carry_class(j, b);
            for (jump_g, (in_g, out_g)) in g.jumps.iter().zip(&classes_g) {
                // Where the jumps are equal, it does not matter whether some `t` has this pair of
                // depths.
                if jump_f == jump_g {
                    continue;
                }
                // Only an earlier difference than the best one is of interest. The shrinking range
                // also rejects most later pairs before their congruences are solved.
                let to = first.map_or(n - 1, |t| t - 1);
                if let Some(t) = first_member_between([in_f, *in_g], &[out_f, *out_g], 1, to) {
                    first = Some(t);
                }
            }
        }
        first
    }

    /// `i -> F(b + i) - F(b)` for `i` in `[0, n)` as digits (innermost first), where that is again
    /// a mixed-radix linear function.
    ///
    /// Its canonical boundaries are forced: the innermost run ends at the first jump that differs
    /// from the jump at 1, the next at the first multiple of that boundary whose jump differs, and
    /// so on. One pass finds them, a comparison with `F` proves or refutes the result.
    pub(crate) fn restrict_to_range(&self, b: i128, n: i128) -> Result<Vec<RadixDigit>, NotLinear> {
        let steps = self.carry_jumps();
        let base = self.evaluate_at(b);
        let mut digits = Vec::new();
        let mut weight = 1i128;
        // Invariant: the digits so far describe the function on `[0, weight)`.
        while weight < n {
            let value = self.evaluate_at(b + weight);
            let stride = value.iter().zip(&base).map(|(v, o)| v - o).collect();
            let jump = steps.jump_at_depth(b + weight);
            let mut boundary = n;
            for (j, other) in steps.jumps.iter().enumerate() {
                if other != jump {
                    let (inside, outside) = steps.carry_class(j, b);
                    // The next digit can end only at a multiple of `weight`, where all lower digits
                    // are 0. Other jumps below `weight` belong to digits that are known already.
                    let multiples = CongruenceClass::new(0, weight);
                    let found = first_member_between(
                        [inside, multiples],
                        &[outside],
                        weight + 1,
                        boundary - 1,
                    );
                    boundary = found.unwrap_or(boundary);
                }
            }
            if n % boundary != 0 {
                // No extent fits here. The digit is continued past `boundary`, so that the comparison finds
                // the first index at which the function differs from it, or from the digits below it.
                digits.push(RadixDigit { extent: n.div_euclid(weight) + 1, stride });
                let tried = RadixFunction { digits, width: self.width };
                let first = tried.first_difference(0, self, b, n);
                return Err(NotLinear::At(first.unwrap_or(boundary)));
            }
            digits.push(RadixDigit { extent: boundary / weight, stride });
            weight = boundary;
        }
        let result = RadixFunction { digits, width: self.width };
        match result.first_difference(0, self, b, n) {
            Some(t) => Err(NotLinear::At(t)),
            None => Ok(result.digits),
        }
    }

    /// `i -> F(b + i) - F(b)` as digits (innermost first) on the longest range `[0, n)` on which it is
    /// a mixed-radix linear function, `1 <= n <= most`.
    ///
    /// Each digit continues until the function differs from it. A longer range must have a digit boundary
    /// at that index, so no range is longer where the index is no multiple of the boundaries before.
    pub(crate) fn longest_range_from(&self, b: i128, most: i128) -> Vec<RadixDigit> {
        let base = self.evaluate_at(b);
        let mut digits: Vec<RadixDigit> = Vec::new();
        let mut weight = 1i128;
        // A further digit has at least two values, each of them a full block of `weight` indices.
        while 2 * weight <= most {
            let value = self.evaluate_at(b + weight);
            let stride = value.iter().zip(&base).map(|(v, o)| v - o).collect();
            digits.push(RadixDigit { extent: most / weight, stride });
            let tried = RadixFunction { digits, width: self.width };
            let end = tried.first_difference(0, self, b, most).unwrap_or(most);
            digits = tried.digits;
            let last = digits.last_mut().expect("one was pushed");
            last.extent = end / weight;
            if last.extent < 2 {
                digits.pop();
                break;
            }
            // A boundary of a mixed-radix function is a multiple of the boundaries below it, so
            // nothing can follow a partial block.
            if end % weight != 0 || end == most {
                break;
            }
            weight = end;
        }
        digits
    }

    /// `i -> F(o + i s) - F(o)` for `i` in `[0, e)` as digits, innermost first.
    ///
    /// All arguments must stay inside the domain. Digits that the stride steps over whole stay
    /// constant and are dropped; a stride that divides the innermost extent turns the question
    /// into [`RadixFunction::restrict_to_range`]; all other cases are scanned.
    pub(crate) fn restrict_to_progression(
        &self,
        o: i128,
        s: i128,
        e: i128,
    ) -> Result<Vec<RadixDigit>, NotLinear> {
        if e <= 1 {
            return Ok(Vec::new());
        }
        // The stride is a divisor below.
        if s == 0 {
            return Ok(vec![RadixDigit { extent: e, stride: SmallVec::from_elem(0, self.width) }]);
        }
        if s < 0 {
            // The same progression from its other end: every digit runs backwards.
            let mut digits = self.restrict_to_progression(o + (e - 1) * s, -s, e)?;
            for v in digits.iter_mut().flat_map(|d| d.stride.iter_mut()) {
                *v = -*v;
            }
            return Ok(digits);
        }
        let (mut o, mut s, mut skip) = (o, s, 0);
        // A stride that is a multiple of the innermost extent never changes that digit and never
        // carries out of it: dividing offset and stride by the extent removes the digit exactly.
        while skip + 1 < self.digits.len() && s % self.digits[skip].extent == 0 {
            o /= self.digits[skip].extent;
            s /= self.digits[skip].extent;
            skip += 1;
        }
        let rest = RadixFunction { digits: self.digits[skip..].to_vec(), width: self.width };
        let Some(first) = rest.digits.first() else {
            return Ok(vec![RadixDigit { extent: e, stride: SmallVec::from_elem(0, self.width) }]);
        };
        // With one digit left, or without a carry out of the first one, all steps are equal.
        let scaled: AxisVector = first.stride.iter().map(|t| t * s).collect();
        if rest.digits.len() == 1 || o % first.extent + (e - 1) * s < first.extent {
            return Ok(vec![RadixDigit { extent: e, stride: scaled }]);
        }
        // The progression visits every `s`-th value of the first digit and returns to the same
        // residue after each carry, so it is a range of a function whose first digit is coarser.
        if first.extent % s == 0 {
            let mut digits = rest.digits.clone();
            digits[0] = RadixDigit { extent: first.extent / s, stride: scaled };
            return RadixFunction::from_digits(digits, self.width).restrict_to_range(o / s, e);
        }
        // The stride and the innermost extent have no common structure (such as stride 2 on extent
        // 3): the digits of the result are not among those of the function, and only the values
        // tell.
        scan_for_digits(e, self.width, |i| rest.evaluate_at(o + i * s))
    }
}

/// The jumps of a [`RadixFunction`], by carry depth.
struct CarryJumps {
    weights: Vec<i128>,
    jumps: Vec<AxisVector>,
}

impl CarryJumps {
    /// The `t` whose `b + t` has carry depth `j`: members of the first class outside the second.
    fn carry_class(&self, j: usize, b: i128) -> (CongruenceClass, Option<CongruenceClass>) {
        let inside = CongruenceClass::new(-b, self.weights[j]);
        let outside = self.weights.get(j + 1).map(|w| CongruenceClass::new(-b, *w));
        (inside, outside)
    }

    fn jump_at_depth(&self, t: i128) -> &AxisVector {
        let depth = self.weights.iter().rposition(|w| euclidean_rem(t, *w) == 0).unwrap_or(0);
        &self.jumps[depth]
    }
}

/// The smallest `t` in `[from, to]` that is a member of both classes `inside` and of none of `outside` (at most two).
fn first_member_between(
    inside: [CongruenceClass; 2],
    outside: &[Option<CongruenceClass>],
    from: i128,
    to: i128,
) -> Option<i128> {
    // Most pairs of depths are too sparse to occur in the range at all. This test is two
    // remainders, and saves the extended Euclid of the intersection.
    if inside.iter().any(|c| c.first_member_from(from) > to) {
        return None;
    }
    let all = inside[0].intersect_classes(inside[1])?;
    let mut t = all.first_member_from(from);
    // Two excluded classes either cover every member or leave one among four in a row: a class of
    // index 2 leaves every second member, and of two such members another class excludes at most
    // one unless it is the complementary class of index 2.
    for _ in 0..4 {
        if t > to {
            return None;
        }
        if !outside.iter().flatten().any(|c| c.contains(t)) {
            return Some(t);
        }
        t = t.saturating_add(all.modulus);
    }
    None
}

/// Any function of `[0, n)` as digits, by evaluating it at every index.
pub(crate) fn scan_for_digits(
    n: i128,
    width: usize,
    f: impl Fn(i128) -> AxisVector,
) -> Result<Vec<RadixDigit>, NotLinear> {
    if n > SCAN_LIMIT {
        return Err(NotLinear::TooLarge);
    }
    let base = f(0);
    let minus = |a: &AxisVector, b: &AxisVector| -> AxisVector {
        a.iter().zip(b).map(|(x, y)| x - y).collect()
    };
    let mut digits = Vec::new();
    let mut weight = 1;
    while weight < n {
        let mut previous = f(weight);
        let stride = minus(&previous, &base);
        // The digit continues as long as the values at multiples of `weight` rise by one stride.
        // What happens between these multiples is checked once for all digits, at the end.
        let mut boundary = 2 * weight;
        while boundary < n {
            zellige_guard::count_step();
            let value = f(boundary);
            if minus(&value, &previous) != stride {
                break;
            }
            previous = value;
            boundary += weight;
        }
        let boundary = boundary.min(n);
        digits.push(RadixDigit { extent: boundary / weight, stride });
        if n % boundary != 0 {
            break;
        }
        weight = boundary;
    }
    // The outermost digit continues to count, so a boundary that does not divide `n` is found here too.
    let result = RadixFunction { digits, width };
    match (0..n).find(|i| minus(&f(*i), &base) != result.evaluate_at(*i)) {
        Some(i) => Err(NotLinear::At(i)),
        None => Ok(result.digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn radix(digits: &[(i128, i128)]) -> RadixFunction {
        let digits = digits
            .iter()
            .map(|(e, s)| RadixDigit { extent: *e, stride: SmallVec::from_slice(&[*s]) });
        RadixFunction::from_digits(digits, 1)
    }

    fn functions() -> Vec<RadixFunction> {
        let mut all = Vec::new();
        for e0 in 1..5 {
            for e1 in 1..4 {
                for e2 in 1..4 {
                    for (s0, s1, s2) in [(1, 5, 2), (0, 1, 3), (2, 1, 1), (1, e0, 7), (-1, 4, 0)] {
                        all.push(radix(&[(e0, s0), (e1, s1), (e2, s2)]));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn first_difference_is_the_smallest_one() {
        let all = functions();
        for (i, f) in all.iter().enumerate() {
            for g in all.iter().skip(i % 7).step_by(7) {
                for (b, c) in [(0, 0), (1, 0), (2, 1)] {
                    let n = (f.size() - b).min(g.size() - c);
                    let brute = (1..n).find(|t| {
                        f.evaluate_at(b + t)[0] - f.evaluate_at(b)[0]
                            != g.evaluate_at(c + t)[0] - g.evaluate_at(c)[0]
                    });
                    assert_eq!(f.first_difference(b, g, c, n), brute, "{f:?} {g:?} {b} {c}");
                }
            }
        }
    }

    #[test]
    fn the_longest_range_is_that_of_enumeration() {
        for f in functions() {
            for b in 0..f.size() {
                let most = f.size() - b;
                let got = RadixFunction::from_digits(f.longest_range_from(b, most), 1);
                let want = (1..=most)
                    .rev()
                    .find(|n| scan_for_digits(*n, 1, |i| f.evaluate_at(b + i)).is_ok());
                assert_eq!(Some(got.size()), want, "{f:?} from {b}");
                for i in 0..got.size() {
                    assert_eq!(
                        got.evaluate_at(i)[0],
                        f.evaluate_at(b + i)[0] - f.evaluate_at(b)[0],
                        "{f:?} from {b}"
                    );
                }
            }
        }
    }

    #[test]
    fn restrict_and_progression_agree_with_a_scan() {
        for f in functions() {
            let size = f.size();
            for b in 0..size {
                for n in 1..=size - b {
                    let brute = scan_for_digits(n, 1, |i| f.evaluate_at(b + i));
                    let exact = f.restrict_to_range(b, n);
                    // The same digits, or the same smallest witness.
                    assert_eq!(exact, brute, "{f:?} [{b}, {b}+{n})");
                }
                for s in 1..size {
                    for (o, s) in [(b, s), (b, -s)] {
                        let e = if s > 0 { (size - o + s - 1) / s } else { o / -s + 1 };
                        let brute = scan_for_digits(e, 1, |i| f.evaluate_at(o + i * s));
                        match (f.restrict_to_progression(o, s, e), brute) {
                            (Ok(d), Ok(want)) => {
                                let got = RadixFunction::from_digits(d, 1);
                                let want = RadixFunction::from_digits(want, 1);
                                assert_eq!(got, want, "{f:?} {o} {s} {e}");
                            }
                            (got, want) => {
                                assert_eq!(got.is_ok(), want.is_ok(), "{f:?} {o} {s} {e}");
                            }
                        }
                    }
                }
            }
        }
    }
}
