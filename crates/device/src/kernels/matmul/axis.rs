//! Where the rows, columns and depths of a matrix are in a tensor.

use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use std::ops::Range;
use zellige_op::PerDimension;

/// One dimension of a tensor: `eps` elements side by side, then `stride` to the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixAxis {
    /// The element of the dimension that is number 0 here.
    pub(crate) first: usize,
    pub(crate) size: usize,
    pub(crate) eps: usize,
    pub(crate) stride: usize,
}

impl MatrixAxis {
    /// A dimension of a tensor; one that is not the stick has one element at each step.
    pub(crate) fn from_dim(t: &StickForm, dim: usize) -> MatrixAxis {
        let eps = if t.stick == Some(dim) { t.eps } else { 1 };
        MatrixAxis { first: 0, size: t.size[dim], eps, stride: t.stride[dim] }
    }

    /// Where element `i` is.
    pub(crate) fn element_offset(&self, i: usize) -> usize {
        let i = self.first + i;
        i / self.eps * self.stride + i % self.eps
    }

    /// A part of it.
    pub(crate) fn slice_range(&self, range: Range<usize>) -> MatrixAxis {
        MatrixAxis { first: self.first + range.start, size: range.len(), ..*self }
    }

    /// Whether sticks are `width` wide, and element `i` is the first of one.
    pub(crate) fn begins_stick(&self, i: usize, width: usize) -> bool {
        self.eps == width && (self.first + i).is_multiple_of(width)
    }

    /// Whether every element is the same one.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.eps == 1 && self.stride == 0
    }

    /// Calls `f(i, place, count)` for the elements of a range, in pieces of adjacent elements.
    pub(crate) fn for_each_piece(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(usize, usize, usize),
    ) {
        let mut i = range.start;
        while i < range.end {
            // Up to the end of the stick, behind which the next element is a stride away.
            let count = (self.eps - (self.first + i) % self.eps).min(range.end - i);
            f(i, self.element_offset(i), count);
            i += count;
        }
    }
}

/// Several dimensions counted as one, the last fastest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MatrixLines(SmallVec<[MatrixAxis; 3]>);

/// Places of some lines.
pub(crate) type LineOffsets = SmallVec<[usize; 64]>;

impl MatrixLines {
    /// These dimensions of a tensor.
    pub(crate) fn from_dims(t: &StickForm, dims: &[usize]) -> MatrixLines {
        MatrixLines(dims.iter().map(|d| MatrixAxis::from_dim(t, *d)).collect())
    }

    /// How many lines there are.
    pub(crate) fn line_count(&self) -> usize {
        self.0.iter().map(|a| a.size).product()
    }

    /// The number of a line in each dimension.
    pub(crate) fn line_digits(&self, line: usize) -> PerDimension<usize> {
        let mut rest = line;
        let mut digits: PerDimension<usize> = SmallVec::from_elem(0, self.0.len());
        for (digit, axis) in digits.iter_mut().zip(&self.0).rev() {
            *digit = rest % axis.size.max(1);
            rest /= axis.size.max(1);
        }
        digits
    }

    /// Where a line begins.
    pub(crate) fn line_offset(&self, line: usize) -> usize {
        self.line_digits(line).iter().zip(&self.0).map(|(i, a)| a.element_offset(*i)).sum()
    }

    /// Where some lines begin, from `base` on.
    pub(crate) fn line_offsets(&self, base: usize, lines: Range<usize>) -> LineOffsets {
        let Some((last, outer)) = self.0.split_last() else {
            return lines.map(|_| base).collect();
        };
        let mut places = LineOffsets::with_capacity(lines.len());
        let mut at = lines.start;
        while at < lines.end {
            let inner = at % last.size;
            // The outer digits are the same for a whole run of the last dimension, so that they are worked out once
            // per run and not once per line.
            let rest = MatrixLines(outer.into());
            let start = base + rest.line_offset(at / last.size);
            let count = (last.size - inner).min(lines.end - at);
            places.extend((inner..inner + count).map(|i| start + last.element_offset(i)));
            at += count;
        }
        places
    }
}

/// Calls `f(first, count)` for lines that follow each other at `step`.
pub(crate) fn for_adjacent_lines(places: &[usize], step: usize, mut f: impl FnMut(usize, usize)) {
    let mut first = 0;
    while first < places.len() {
        let follows = |pair: &[usize]| pair[1] == pair[0] + step;
        let count = 1 + places[first..].windows(2).take_while(|p| follows(p)).count();
        f(first, count);
        first += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_last_dimension_first() {
        let axis = |size, eps, stride| MatrixAxis { first: 0, size, eps, stride };
        let lines = MatrixLines(SmallVec::from_slice(&[axis(2, 1, 1000), axis(3, 1, 10)]));
        assert_eq!(lines.line_count(), 6);
        let all = lines.line_offsets(5, 0..6);
        assert_eq!(all.as_slice(), [5, 15, 25, 1005, 1015, 1025]);
        assert_eq!(lines.line_offsets(5, 2..5).as_slice(), &all[2..5]);
        let mut seen = Vec::new();
        for_adjacent_lines(&all, 10, |first, count| seen.push((first, count)));
        assert_eq!(seen, [(0, 3), (3, 3)]);
        let mut seen = Vec::new();
        axis(100, 64, 640).for_each_piece(10..100, |i, place, n| seen.push((i, place, n)));
        assert_eq!(seen, [(10, 10, 54), (64, 640, 36)]);
        let mut seen = Vec::new();
        axis(100, 64, 640)
            .slice_range(10..70)
            .for_each_piece(0..60, |i, place, n| seen.push((i, place, n)));
        assert_eq!(seen, [(0, 10, 54), (54, 640, 6)]);
    }
}
