//! Properties of a linear layout: surjective, injective, free bits, witnesses.

use super::{LinearLayout, gf2};

impl LinearLayout {
    /// Whether every out coordinate is reached.
    pub fn is_surjective(&self) -> bool {
        gf2::rank_of_vectors(self.matrix_columns()) == self.out_bits() as usize
    }

    /// Whether no two inputs have one output.
    pub fn is_injective(&self) -> bool {
        gf2::rank_of_vectors(self.matrix_columns()) == self.in_bits()
    }

    /// Whether it is both.
    // Surjective with as many input bits as output bits: by the rank theorem also injective.
    pub fn is_invertible(&self) -> bool {
        self.is_surjective() && self.in_bits() == self.out_bits() as usize
    }

    /// Per in dimension, the bits that may be set to 0 without losing an output: those whose basis is a sum of
    /// the bases before it.
    pub fn free_variable_masks(&self) -> Vec<(&str, i64)> {
        let mut span = gf2::Gf2Span::default();
        let mut mask = |bases: &[u64]| {
            let free = bases.iter().enumerate().filter(|(_, b)| !span.add_vector(**b));
            free.fold(0i64, |mask, (k, _)| mask | 1 << k)
        };
        self.ins.iter().map(|d| (d.name.as_str(), mask(&d.bases))).collect()
    }

    /// How many neighbours of the first in dimension are neighbours in the first out dimension, aligned: the
    /// vector width.
    ///
    /// **Law**: with this `n`, `L(x + i) == L(x) + i` on the first out dimension for all `i < n` and `x` a
    /// multiple of `n` on the first in dimension, whatever the other in dimensions.
    pub fn num_consecutive_in_out(&self) -> i64 {
        let (Some(first), Some(out)) = (self.ins.first(), self.outs.first()) else { return 1 };
        let low = |b: u64| b & ((1 << out.bits) - 1);
        let run = (0u32..).zip(&first.bases).take_while(|(k, b)| **b == 1 << k && *k < out.bits);
        let run = run.count();
        let others = self.matrix_columns().skip(run).fold(0, |all, b| all | low(b));
        let aligned = if others == 0 { out.bits } else { others.trailing_zeros() };
        1i64 << (u32::try_from(run).unwrap_or(0)).min(aligned)
    }

    /// An input other than 0 whose output is 0, where there is one, as one entry per in dimension.
    pub fn kernel_witness(&self) -> Option<Vec<i64>> {
        let mut span = gf2::Gf2Span::default();
        for (k, column) in (0u32..).zip(self.matrix_columns()) {
            let (rest, sum) = span.reduce_vector(column);
            if rest == 0 {
                return Some(self.input_entries(sum | 1 << k));
            }
            span.add_vector(column);
        }
        None
    }

    /// An out coordinate that is not reached, where there is one.
    pub fn uncovered_witness(&self) -> Option<Vec<i64>> {
        let span = gf2::Gf2Span::from_vectors(self.matrix_columns());
        // If the span lacked a vector but contained every unit vector, it would contain their sums,
        // so looking at unit vectors is enough.
        let missing = (0..self.out_bits()).map(|k| 1 << k).find(|v| !span.contains(*v));
        missing.map(|v| self.split_flat_number(v))
    }

    /// A flat input as one entry per in dimension.
    pub(super) fn input_entries(&self, flat: u64) -> Vec<i64> {
        let mut rest = flat;
        let entry = |bits: usize| {
            let value = rest & ((1 << bits) - 1);
            rest >>= bits;
            value.cast_signed()
        };
        self.ins.iter().map(|d| d.bases.len()).map(entry).collect()
    }
}
