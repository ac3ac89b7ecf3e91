//! Linear algebra over GF(2): vectors are the bits of a word, addition is XOR.

/// The span of vectors that were added in order, each expressed in those that were independent.
#[derive(Debug, Clone, Default)]
pub(super) struct Gf2Span {
    /// Reduced vectors with distinct highest bits, each with the set of added vectors that sum to it.
    rows: Vec<(u64, u64)>,
    added: u32,
}

impl Gf2Span {
    pub(super) fn from_vectors(vectors: impl IntoIterator<Item = u64>) -> Gf2Span {
        let mut span = Gf2Span::default();
        for v in vectors {
            span.add_vector(v);
        }
        span
    }

    /// Adds a vector; whether it was independent of those before it. At most 64 are added.
    pub(super) fn add_vector(&mut self, vector: u64) -> bool {
        let (rest, sum) = self.reduce_vector(vector);
        let own = 1u64.checked_shl(self.added).unwrap_or(0);
        self.added += 1;
        if rest != 0 {
            self.rows.push((rest, sum | own));
            // Highest leading bit first: a row cannot bring back a bit that an earlier row has
            // cleared.
            self.rows.sort_unstable_by_key(|(v, _)| std::cmp::Reverse(*v));
        }
        rest != 0
    }

    /// The remainder of a vector, and the independent vectors (by number of addition) whose sum was subtracted.
    ///
    /// **Law**: `vector == rest ^ sum of those`; `rest` is 0 exactly where the vector is in the span.
    pub(super) fn reduce_vector(&self, vector: u64) -> (u64, u64) {
        let (mut rest, mut sum) = (vector, 0);
        for (row, made_of) in &self.rows {
            let leading = 63 - row.leading_zeros();
            if rest >> leading & 1 == 1 {
                rest ^= row;
                sum ^= made_of;
            }
        }
        (rest, sum)
    }

    pub(super) fn contains(&self, vector: u64) -> bool {
        self.reduce_vector(vector).0 == 0
    }

    /// The number of independent vectors.
    pub(super) fn rank(&self) -> usize {
        self.rows.len()
    }
}

/// The number of independent vectors.
pub(super) fn rank_of_vectors(vectors: impl IntoIterator<Item = u64>) -> usize {
    Gf2Span::from_vectors(vectors).rank()
}

/// Vectors in reduced row echelon form: each has a lowest bit that no other has, sorted by it.
pub(super) fn row_echelon(vectors: &[u64]) -> Vec<u64> {
    let mut rows: Vec<u64> = Vec::new();
    for v in vectors {
        let mut rest = *v;
        for row in &rows {
            if rest >> row.trailing_zeros() & 1 == 1 {
                rest ^= row;
            }
        }
        if rest == 0 {
            continue;
        }
        let pivot = rest.trailing_zeros();
        for row in &mut rows {
            if *row >> pivot & 1 == 1 {
                *row ^= rest;
            }
        }
        rows.push(rest);
        rows.sort_unstable_by_key(|r| r.trailing_zeros());
    }
    rows
}

/// All vectors of `bits` bits with an even overlap with each of the given ones: a basis of them.
pub(super) fn orthogonal_basis(vectors: &[u64], bits: u32) -> Vec<u64> {
    let rows = row_echelon(vectors);
    let pivots: u64 = rows.iter().map(|r| 1u64 << r.trailing_zeros()).sum();
    let free = (0..bits).filter(|c| pivots >> c & 1 == 0);
    let solution = |c: u32| {
        let holding = rows.iter().filter(|r| **r >> c & 1 == 1);
        holding.fold(1u64 << c, |v, r| v ^ 1 << r.trailing_zeros())
    };
    free.map(solution).collect()
}

/// A basis of the intersection of both spans. Of unit vectors, those in both lists in the order of the first one.
pub(super) fn intersection_basis(a: &[u64], b: &[u64], bits: u32) -> Vec<u64> {
    if a.iter().chain(b).all(|v| v.is_power_of_two()) {
        return a.iter().copied().filter(|v| b.contains(v)).collect();
    }
    // The intersection of two spaces is the orthogonal complement of the sum of their complements.
    let mut joint = orthogonal_basis(a, bits);
    joint.extend(orthogonal_basis(b, bits));
    orthogonal_basis(&joint, bits)
}

/// Unit vectors that complete the given ones to a basis of all vectors of `bits` bits.
pub(super) fn complement_basis(vectors: &[u64], bits: u32) -> Vec<u64> {
    let pivots: u64 = row_echelon(vectors).iter().map(|r| 1u64 << r.trailing_zeros()).sum();
    (0..bits).filter(|c| pivots >> c & 1 == 0).map(|c| 1 << c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sum of some of the vectors.
    fn sums(vectors: &[u64]) -> Vec<u64> {
        let of = |set: u32| {
            let chosen = vectors.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            chosen.fold(0, |s, (_, v)| s ^ v)
        };
        let mut all: Vec<u64> = (0..1u32 << vectors.len()).map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn spans_are_the_sums() {
        let mut seed = 7u64;
        for _ in 0..300 {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed >> 59
            };
            let a: Vec<u64> = (0..4).map(|_| next()).collect();
            let b: Vec<u64> = (0..3).map(|_| next()).collect();
            let (in_a, in_b) = (sums(&a), sums(&b));
            let span = Gf2Span::from_vectors(a.iter().copied());
            assert_eq!(1 << span.rank(), in_a.len());
            for v in 0..32 {
                assert_eq!(span.contains(v), in_a.contains(&v));
                let (rest, made_of) = span.reduce_vector(v);
                let chosen = a.iter().enumerate().filter(|(i, _)| made_of >> i & 1 == 1);
                assert_eq!(chosen.fold(rest, |s, (_, x)| s ^ x), v);
            }
            let both: Vec<u64> = in_a.iter().copied().filter(|v| in_b.contains(v)).collect();
            assert_eq!(sums(&intersection_basis(&a, &b, 5)), both);
            let mut whole = a.clone();
            whole.extend(complement_basis(&a, 5));
            assert_eq!(rank_of_vectors(whole.iter().copied()), 5);
            assert_eq!(complement_basis(&a, 5).len(), 5 - span.rank());
            assert_eq!(sums(&row_echelon(&a)), in_a);
        }
    }
}
