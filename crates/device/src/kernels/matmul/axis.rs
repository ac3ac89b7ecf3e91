//! Where rows, columns and depths of a matrix lie in a tensor.

use crate::tensor::sticks::Sticks;
use smallvec::SmallVec;
use std::ops::Range;
use zellige_op::Dims;

/// One dimension of a tensor: `eps` elements side by side, then `stride` to the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    /// The element of the dimension that is number 0 here.
    pub(crate) first: usize,
    pub(crate) size: usize,
    pub(crate) eps: usize,
    pub(crate) stride: usize,
}

impl Axis {
    /// A dimension of a tensor; one that is not the stick has one element at each step.
    pub(crate) fn of(t: &Sticks, dim: usize) -> Axis {
        let eps = if t.stick == Some(dim) { t.eps } else { 1 };
        Axis { first: 0, size: t.size[dim], eps, stride: t.stride[dim] }
    }

    /// Where element `i` is.
    pub(crate) fn place(&self, i: usize) -> usize {
        let i = self.first + i;
        i / self.eps * self.stride + i % self.eps
    }

    /// A part of it.
    pub(crate) fn part(&self, range: Range<usize>) -> Axis {
        Axis { first: self.first + range.start, size: range.len(), ..*self }
    }

    /// Whether sticks are `width` wide, and element `i` is the first of one.
    pub(crate) fn is_whole(&self, i: usize, width: usize) -> bool {
        self.eps == width && (self.first + i).is_multiple_of(width)
    }

    /// Whether every element is the same one.
    pub(crate) fn is_still(&self) -> bool {
        self.eps == 1 && self.stride == 0
    }

    /// Calls `f(i, place, count)` for the elements of a range, in pieces that lie side by side.
    pub(crate) fn pieces(&self, range: Range<usize>, mut f: impl FnMut(usize, usize, usize)) {
        let mut i = range.start;
        while i < range.end {
            let count = (self.eps - (self.first + i) % self.eps).min(range.end - i);
            f(i, self.place(i), count);
            i += count;
        }
    }
}

/// Several dimensions counted as one, the last fastest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lines(SmallVec<[Axis; 3]>);

/// Places of some lines.
pub(crate) type Places = SmallVec<[usize; 64]>;

impl Lines {
    /// These dimensions of a tensor.
    pub(crate) fn of(t: &Sticks, dims: &[usize]) -> Lines {
        Lines(dims.iter().map(|d| Axis::of(t, *d)).collect())
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|a| a.size).product()
    }

    /// The number of a line in each dimension.
    pub(crate) fn digits(&self, line: usize) -> Dims<usize> {
        let mut rest = line;
        let mut digits: Dims<usize> = SmallVec::from_elem(0, self.0.len());
        for (digit, axis) in digits.iter_mut().zip(&self.0).rev() {
            *digit = rest % axis.size.max(1);
            rest /= axis.size.max(1);
        }
        digits
    }

    /// Where a line begins.
    pub(crate) fn place(&self, line: usize) -> usize {
        self.digits(line).iter().zip(&self.0).map(|(i, a)| a.place(*i)).sum()
    }

    /// Where some lines begin, from `base` on.
    pub(crate) fn places(&self, base: usize, lines: Range<usize>) -> Places {
        let Some((last, outer)) = self.0.split_last() else {
            return lines.map(|_| base).collect();
        };
        let mut places = Places::with_capacity(lines.len());
        let mut at = lines.start;
        while at < lines.end {
            let inner = at % last.size;
            let rest = Lines(outer.into());
            let start = base + rest.place(at / last.size);
            let count = (last.size - inner).min(lines.end - at);
            places.extend((inner..inner + count).map(|i| start + last.place(i)));
            at += count;
        }
        places
    }
}

/// Calls `f(first, count)` for lines that follow each other at `step`.
pub(crate) fn runs(places: &[usize], step: usize, mut f: impl FnMut(usize, usize)) {
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
        let axis = |size, eps, stride| Axis { first: 0, size, eps, stride };
        let lines = Lines(SmallVec::from_slice(&[axis(2, 1, 1000), axis(3, 1, 10)]));
        assert_eq!(lines.count(), 6);
        let all = lines.places(5, 0..6);
        assert_eq!(all.as_slice(), [5, 15, 25, 1005, 1015, 1025]);
        assert_eq!(lines.places(5, 2..5).as_slice(), &all[2..5]);
        let mut seen = Vec::new();
        runs(&all, 10, |first, count| seen.push((first, count)));
        assert_eq!(seen, [(0, 3), (3, 3)]);
        let mut seen = Vec::new();
        axis(100, 64, 640).pieces(10..100, |i, place, n| seen.push((i, place, n)));
        assert_eq!(seen, [(10, 10, 54), (64, 640, 36)]);
        let mut seen = Vec::new();
        axis(100, 64, 640).part(10..70).pieces(0..60, |i, place, n| seen.push((i, place, n)));
        assert_eq!(seen, [(0, 10, 54), (54, 640, 6)]);
    }
}
