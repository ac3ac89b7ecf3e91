//! Where windows begin and end along one dimension.

use std::ops::Range;

/// Windows of `kernel` places, `dilation` apart, at every `stride` of a dimension that is widened by
/// `padding` at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    /// Whether a last window may reach past the padding.
    pub(crate) ceil: bool,
}

impl Window {
    /// How many windows there are; none where not even the first fits.
    pub(crate) fn count(&self, size: usize) -> Option<usize> {
        // A reach past 64 bits fits nowhere.
        let reach = self.dilation.checked_mul(self.kernel.checked_sub(1)?)?.checked_add(1)?;
        let room = (size + 2 * self.padding).checked_sub(reach)?;
        if !self.ceil {
            return Some(room / self.stride + 1);
        }
        let count = room.div_ceil(self.stride) + 1;
        // A window that begins past the dimension and its padding in front has nothing in it.
        let begins_outside = (count - 1) * self.stride >= size + self.padding;
        Some(count - usize::from(begins_outside))
    }

    /// Whether window `i` is place `i` and nothing else.
    pub(crate) fn is_place(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// The place of a kernel position in window `i`, where it lies inside.
    pub(crate) fn place(&self, i: usize, position: usize, size: usize) -> Option<usize> {
        let at = (i * self.stride + position * self.dilation).checked_sub(self.padding)?;
        (at < size).then_some(at)
    }

    /// Kernel positions of window `i` that lie inside.
    pub(crate) fn inside(&self, i: usize, size: usize) -> Range<usize> {
        let begin = i * self.stride;
        let first = self.padding.saturating_sub(begin).div_ceil(self.dilation);
        let past = (size + self.padding).saturating_sub(begin).div_ceil(self.dilation);
        first.min(self.kernel)..past.min(self.kernel).max(first.min(self.kernel))
    }

    /// Places of the dimension that these windows reach.
    pub(crate) fn reach(&self, windows: &Range<usize>, size: usize) -> Range<usize> {
        if windows.is_empty() {
            return 0..0;
        }
        let begin = (windows.start * self.stride).saturating_sub(self.padding).min(size);
        let last = (windows.end - 1) * self.stride + (self.kernel - 1) * self.dilation + 1;
        begin..last.saturating_sub(self.padding).clamp(begin, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_what_has_a_place() {
        for (kernel, stride, padding, dilation) in
            [(3, 1, 1, 1), (3, 2, 0, 2), (5, 3, 4, 1), (1, 1, 0, 1), (2, 5, 1, 3)]
        {
            for ceil in [false, true] {
                let w = Window { kernel, stride, padding, dilation, ceil };
                for size in 0..20 {
                    for i in 0..w.count(size).unwrap_or(0) {
                        let has: Vec<usize> =
                            (0..kernel).filter(|p| w.place(i, *p, size).is_some()).collect();
                        assert_eq!(has, w.inside(i, size).collect::<Vec<_>>(), "{w:?} {size} {i}");
                        let reach = w.reach(&(i..i + 1), size);
                        assert!(has.iter().all(|p| reach.contains(&w.place(i, *p, size).unwrap())));
                    }
                }
            }
        }
        let w = Window { kernel: 3, stride: 2, padding: 1, dilation: 1, ceil: false };
        assert_eq!((w.count(224), w.count(0)), (Some(112), None));
        let far = Window { kernel: 1 << 61, dilation: 1 << 31, ..w };
        assert_eq!(far.count(224), None);
    }
}
