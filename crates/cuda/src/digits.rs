//! A nest of a plan in bytes: digits with a stride on each side, and a table of the addresses at which they begin.

use crate::description::{MoveElement, TensorSide};
use crate::gpu::LaunchAlignment;
use crate::padded::PaddedNest;
use zellige_movement::FillNest;

/// A digit: `range` steps of so many bytes on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteDigit {
    pub(crate) range: i64,
    pub(crate) src: i64,
    pub(crate) dst: i64,
    /// The amount that a step adds to the sum which a [`PaddingLimit`] bounds; 0 where it adds nothing.
    pub(crate) weight: i64,
}

/// The end of the data in a box: positions whose digits times their weights sum up to `end` or more are padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaddingLimit {
    pub(crate) end: i64,
    /// The bytes of padding, repeated to 16.
    pub(crate) fill: [u8; 16],
}

impl ByteDigit {
    pub(crate) fn side_stride(&self, side: TensorSide) -> i64 {
        match side {
            TensorSide::Src => self.src,
            TensorSide::Dst => self.dst,
        }
    }
}

/// A nest in bytes: for every entry `(a, b)` of the table and every combination of digits, the unit at
/// `src + a + sum i * src` goes to `dst + b + sum i * dst`.
///
/// Strides of the destination are positive and rise; digits that continue one another on both sides are one digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteNest {
    /// Innermost in the destination first.
    pub(crate) digits: Vec<ByteDigit>,
    /// The addresses at which the digits begin: sums that digits cannot express. Never empty.
    pub(crate) table: Vec<(i64, i64)>,
    /// The unit that is moved at once.
    pub(crate) unit: MoveElement,
    /// The bytes of which the two addresses are multiples.
    pub(crate) align: LaunchAlignment,
    /// The end of the data, where some positions are padding. The table has one entry then.
    pub(crate) limit: Option<PaddingLimit>,
}

/// The bytes of a fill, repeated to 16.
pub(crate) fn repeat_fill(fill: &[u8]) -> [u8; 16] {
    std::array::from_fn(|k| fill.get(k % fill.len().max(1)).copied().unwrap_or(0))
}

impl ByteNest {
    /// The digits of a nest, whose padding gets `fill`. Elements that stay as they are become single bytes, the
    /// innermost digit: [`ByteNest::widen_units`] finds the widest unit.
    pub(crate) fn from_padded_nest(
        padded: &PaddedNest,
        unit: MoveElement,
        align: LaunchAlignment,
        fill: [u8; 16],
    ) -> ByteNest {
        let (ws, wd) = (i64::from(unit.src), i64::from(unit.dst));
        let nest = &padded.nest;
        let weight = |k: usize| padded.bound.as_ref().map_or(0, |b| b.weights[k]);
        let digit = |(k, l): (usize, &zellige_movement::CopyLoop)| ByteDigit {
            range: l.range,
            src: l.src * ws,
            dst: l.dst * wd,
            weight: weight(k),
        };
        let loops = nest.loops.iter().enumerate().map(digit);
        let starts = nest.starts.iter().map(|(a, b)| (a * ws, b * wd)).collect();
        let limit = padded.bound.as_ref().map(|b| PaddingLimit { end: b.end, fill });
        ByteNest::new(loops, starts, unit, align, limit)
    }

    /// The digits of a fill, which reads nothing.
    pub(crate) fn from_fill_nest(
        fill: &FillNest,
        unit: MoveElement,
        align: LaunchAlignment,
    ) -> ByteNest {
        let wd = i64::from(unit.dst);
        let digit = |l: &(i64, i64)| ByteDigit { range: l.0, src: 0, dst: l.1 * wd, weight: 0 };
        let starts = fill.starts.iter().map(|b| (0, b * wd)).collect();
        ByteNest::new(fill.loops.iter().map(digit), starts, unit, align, None)
    }

    fn new(
        loops: impl Iterator<Item = ByteDigit>,
        mut table: Vec<(i64, i64)>,
        unit: MoveElement,
        align: LaunchAlignment,
        limit: Option<PaddingLimit>,
    ) -> ByteNest {
        let mut digits: Vec<ByteDigit> = loops.collect();
        digits.extend(factor_table(&mut table));
        let mut all = ByteNest { digits, table, unit, align, limit };
        all.normalize_digits();
        all
    }

    /// Makes strides in the destination positive and rising, and fuses digits that continue one another.
    fn normalize_digits(&mut self) {
        self.digits.retain(|d| d.range != 1);
        // A digit that falls in the destination is counted from its other end, which moves every start: neighbouring
        // threads then write rising addresses. Digits that a limit counts rise already (`padded`).
        for d in self.digits.iter_mut().filter(|d| d.dst < 0) {
            let (a, b) = (d.src * (d.range - 1), d.dst * (d.range - 1));
            for (from, to) in &mut self.table {
                (*from, *to) = (*from + a, *to + b);
            }
            (d.src, d.dst) = (-d.src, -d.dst);
        }
        self.digits.sort_by_key(|d| (d.dst, d.src));
        let mut kept: Vec<ByteDigit> = Vec::new();
        for d in &self.digits {
            match kept.last_mut() {
                Some(k)
                    if d.src == k.src * k.range
                        && d.dst == k.dst * k.range
                        && d.weight == k.weight * k.range =>
                {
                    k.range *= d.range;
                }
                _ => kept.push(*d),
            }
        }
        self.digits = kept;
    }

    /// The power of two, up to 16, of which every address of a side is a multiple, without the digits in `aside`.
    pub(crate) fn address_alignment(&self, side: TensorSide, aside: &[usize]) -> u32 {
        let base = match side {
            TensorSide::Src => self.align.src_alignment(),
            TensorSide::Dst => self.align.dst_alignment(),
        };
        let strides = self.digits.iter().enumerate().filter(|(i, _)| !aside.contains(i));
        let strides = strides.map(|(_, d)| d.side_stride(side));
        let starts = self.table.iter().map(|(a, b)| if side == TensorSide::Src { *a } else { *b });
        // The lowest bit that is set in any of them is the largest power of two that divides them all.
        let all = strides.chain(starts).fold(i64::from(base), |all, s| all | s);
        1 << all.trailing_zeros().min(4)
    }

    /// The same bytes in the widest units, up to 16 bytes, that are adjacent and aligned on both sides. A converting
    /// move keeps its elements.
    pub(crate) fn widen_units(&self) -> ByteNest {
        if self.unit.convert.is_some() {
            return self.clone();
        }
        let mut bytes = self.clone();
        let width = i64::from(self.unit.src);
        // Where padding follows in the row of adjacent elements, its limit is counted in bytes as long as units are bytes.
        let counts = self.digits.iter().any(|d| d.src == width && d.dst == width && d.weight > 0);
        if counts {
            bytes.scale_weights(|n| n * width);
        }
        // Bytes first, and then the widest unit that divides the run and both addresses: whatever an element is, a row of
        // them is bytes, so that a copy at odd addresses works too.
        bytes.digits.push(ByteDigit { range: width, src: 1, dst: 1, weight: i64::from(counts) });
        bytes.normalize_digits();
        let run = match bytes.digits.first() {
            Some(d) if d.src == 1 && d.dst == 1 => d.range,
            _ => return bytes,
        };
        let whole = 1u32 << bytes.whole_step_divisor(0).trailing_zeros().min(4);
        let unit = whole
            .min(bytes.address_alignment(TensorSide::Src, &[0]))
            .min(bytes.address_alignment(TensorSide::Dst, &[0]));
        let wide = i64::from(unit);
        if counts {
            bytes.scale_weights(|n| n / wide);
        }
        bytes.digits[0] =
            ByteDigit { range: run / wide, src: wide, dst: wide, weight: i64::from(counts) };
        bytes.digits.retain(|d| d.range != 1);
        bytes.unit = MoveElement { src: unit, dst: unit, convert: None };
        bytes
    }

    /// Changes the weights of digits and the end that they count towards.
    pub(crate) fn scale_weights(&mut self, by: impl Fn(i64) -> i64) {
        for d in &mut self.digits {
            d.weight = by(d.weight);
        }
        if let Some(limit) = &mut self.limit {
            limit.end = by(limit.end);
        }
    }

    /// A number with this property: where a power of two divides it, groups of so many adjacent steps of a digit are all
    /// data or all padding, because it divides the range and the end of the data.
    pub(crate) fn whole_step_divisor(&self, i: usize) -> i64 {
        let d = self.digits[i];
        match self.limit {
            Some(limit) if d.weight > 0 => d.range | limit.end,
            _ => d.range,
        }
    }

    /// As [`ByteNest::widen_units`] for a fill: only the destination counts, and what is written repeats its bytes.
    pub(crate) fn widen_fill_units(&self) -> ByteNest {
        let mut wide = self.clone();
        let width = i64::from(self.unit.dst);
        for d in &mut wide.digits {
            d.src = 0;
        }
        let adjacent = wide.digits.iter().position(|d| d.dst == width);
        let run = adjacent.map_or(width, |i| wide.digits[i].range * width);
        let whole = 1u32 << run.trailing_zeros().min(4);
        let aside: Vec<usize> = adjacent.into_iter().collect();
        // A unit is never less than an element: the bytes of an element may differ, so half of it would be another fill.
        let unit = whole.min(wide.address_alignment(TensorSide::Dst, &aside)).max(self.unit.dst);
        let n = i64::from(unit);
        match adjacent {
            Some(i) => wide.digits[i] = ByteDigit { range: run / n, src: 0, dst: n, weight: 0 },
            None => wide.digits.insert(0, ByteDigit { range: run / n, src: 0, dst: n, weight: 0 }),
        }
        wide.digits.retain(|d| d.range != 1);
        wide.unit = MoveElement { src: unit, dst: unit, convert: None };
        wide
    }

    /// The number of units that are moved.
    pub(crate) fn unit_count(&self) -> i128 {
        let table = self.table.len() as i128;
        self.digits.iter().map(|d| i128::from(d.range)).product::<i128>() * table
    }

    /// The digits that make up one run of adjacent bytes on a side, innermost first.
    pub(crate) fn adjacent_chain(&self, side: TensorSide) -> Vec<usize> {
        let mut next = i64::from(match side {
            TensorSide::Src => self.unit.src,
            TensorSide::Dst => self.unit.dst,
        });
        let mut chain = Vec::new();
        // Each digit whose step is the length of the run so far makes the run longer.
        while let Some(i) = (0..self.digits.len())
            .find(|i| self.digits[*i].side_stride(side) == next && !chain.contains(i))
        {
            next *= self.digits[i].range;
            chain.push(i);
        }
        chain
    }
}

/// Factors digits out of a table: entries at equal distances, outermost and innermost.
fn factor_table(table: &mut Vec<(i64, i64)>) -> Vec<ByteDigit> {
    let mut digits = Vec::new();
    loop {
        let n = table.len();
        let step =
            |from: usize, to: usize| (table[to].0 - table[from].0, table[to].1 - table[from].1);
        // The shortest period of the table is the longest outermost digit; only where there is none is an innermost one
        // looked for, because that takes longer to find. Kernels then have fewer constants, or none.
        let outer = (1..n).filter(|p| n.is_multiple_of(*p)).find(|p| {
            let d = step(0, *p);
            (0..n - p).all(|k| step(k, k + p) == d)
        });
        if let Some(p) = outer {
            let (src, dst) = step(0, p);
            digits.push(ByteDigit { range: count_as_i64(n / p), src, dst, weight: 0 });
            table.truncate(p);
            continue;
        }
        let inner = (2..n).rev().filter(|q| n.is_multiple_of(*q)).find(|q| {
            let d = step(0, 1);
            (0..n).all(|k| (k + 1).is_multiple_of(*q) || k + 1 == n || step(k, k + 1) == d)
        });
        let Some(q) = inner else { return digits };
        let (src, dst) = step(0, 1);
        digits.push(ByteDigit { range: count_as_i64(q), src, dst, weight: 0 });
        *table = table.iter().step_by(q).copied().collect();
    }
}

fn count_as_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(digits: &[ByteDigit], table: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut all = table.to_vec();
        for d in digits {
            all = all
                .iter()
                .flat_map(|(a, b)| (0..d.range).map(move |i| (a + i * d.src, b + i * d.dst)))
                .collect();
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn a_factored_table_says_the_same() {
        let xor: Vec<(i64, i64)> = (0..64).map(|k| (k * 8, (k ^ (k >> 3)) * 8)).collect();
        let grid: Vec<(i64, i64)> =
            (0..24).map(|k| (k % 4 * 7 + k / 4 * 100, k % 4 * 3 + k / 4 * 50)).collect();
        let odd = vec![(0, 5), (3, 1), (9, 9), (2, 30), (7, 22)];
        for table in [xor, grid.clone(), odd] {
            let mut left = table.clone();
            let digits = factor_table(&mut left);
            assert_eq!(addresses(&digits, &left), addresses(&[], &table));
        }
        let mut left = grid;
        factor_table(&mut left);
        assert_eq!(left.len(), 1, "a grid needs no table");
    }
}
