//! Where windows begin and end along one dimension.

use std::ops::Range;

/// Windows of `kernel` places, `dilation` apart, at every `stride` of a dimension that is widened by
/// `padding` at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelWindow {
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    /// Whether a last window may reach past the padding.
    pub ceil: bool,
}

impl KernelWindow {
    /// How many windows there are; none where not even the first fits.
    pub fn window_count(&self, size: usize) -> Option<usize> {
        // A reach past 64 bits fits nowhere.
        let reach = self.dilation.checked_mul(self.kernel.checked_sub(1)?)?.checked_add(1)?;
        let padded = self.padding.checked_mul(2)?.checked_add(size)?;
        // Checked throughout, because extents and attributes come from the caller.
        let room = padded.checked_sub(reach)?;
        if !self.ceil {
            return Some(room / self.stride + 1);
        }
        let steps = room.div_ceil(self.stride);
        // A window that begins past the dimension and its padding in front has nothing in it.
        let begins_inside =
            steps.checked_mul(self.stride).is_some_and(|at| at < size + self.padding);
        Some(steps + usize::from(begins_inside))
    }

    /// Whether window `i` is place `i` and nothing else.
    pub fn is_identity(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// The place of a kernel position in window `i`, if it is inside of the dimension.
    pub fn kernel_place(&self, i: usize, position: usize, size: usize) -> Option<usize> {
        let at = (i * self.stride + position * self.dilation).checked_sub(self.padding)?;
        (at < size).then_some(at)
    }

    /// Kernel positions of window `i` that are inside of the dimension.
    pub fn positions_inside(&self, i: usize, size: usize) -> Range<usize> {
        let begin = i * self.stride;
        // The first position at or behind the padding in front, and the first one behind the elements.
        let first = self.padding.saturating_sub(begin).div_ceil(self.dilation);
        let past = (size + self.padding).saturating_sub(begin).div_ceil(self.dilation);
        first.min(self.kernel)..past.min(self.kernel).max(first.min(self.kernel))
    }

    /// Kernel positions of all these windows together that are inside, by a formula: there may be as
    /// many windows as elements.
    pub fn count_positions_inside(&self, windows: &Range<usize>, size: usize) -> u128 {
        // Positions before a bound, of window `i`: `ceil((bound - i * stride) / dilation)`, at most all.
        let before = |bound: usize| {
            let (stride, dilation) = (self.stride as u128, self.dilation as u128);
            let (bound, reach) = (bound as u128, (self.kernel as u128 - 1) * dilation);
            let within = |i: u128| i.clamp(windows.start as u128, windows.end as u128);
            // Windows up to `whole` have all their positions before the bound, those from `none` on none.
            let whole = within(bound.saturating_sub(reach).div_ceil(stride));
            let none = within(bound.div_ceil(stride));
            let all = (whole - windows.start as u128) * self.kernel as u128;
            let some = none - whole;
            match some {
                0 => all,
                _ => {
                    all + floor_sum(
                        some,
                        dilation,
                        stride,
                        bound - (none - 1) * stride + dilation - 1,
                    )
                }
            }
        };
        before(size + self.padding) - before(self.padding)
    }

    /// Places of the dimension that these windows reach.
    pub fn window_reach(&self, windows: &Range<usize>, size: usize) -> Range<usize> {
        if windows.is_empty() {
            return 0..0;
        }
        let begin = (windows.start * self.stride).saturating_sub(self.padding).min(size);
        let last = (windows.end - 1) * self.stride + (self.kernel - 1) * self.dilation + 1;
        begin..last.saturating_sub(self.padding).clamp(begin, size)
    }
}

/// The sum of `floor((a * i + b) / m)` over `i` below `n`, by Euclid's algorithm: points below a line
/// are counted by columns and by rows in turn, with the slope's remainder each time.
pub(super) fn floor_sum(n: u128, m: u128, a: u128, b: u128) -> u128 {
    let (mut n, mut m, mut a, mut b) = (n, m, a, b);
    let mut sum = 0u128;
    while n > 0 {
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        (a, b) = (a % m, b % m);
        let top = a * n + b;
        if top < m {
            break;
        }
        // The axes change places: what was counted by columns is counted by rows next.
        (n, b) = (top / m, top % m);
        (m, a) = (a, m);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_floors_are_those_of_enumeration() {
        for n in 0..9 {
            for m in 1..8 {
                for a in 0..12 {
                    for b in 0..12 {
                        let sum = (0..n).map(|i| (a * i + b) / m).sum();
                        assert_eq!(floor_sum(n, m, a, b), sum, "{n} {m} {a} {b}");
                    }
                }
            }
        }
        assert_eq!(floor_sum(1 << 62, 3, 0, 7), 2 << 62);
    }

    #[test]
    fn positions_inside_are_counted_without_visiting_them() {
        for kernel in 1..5 {
            for stride in 1..4 {
                for padding in 0..5 {
                    for dilation in 1..4 {
                        let w = KernelWindow { kernel, stride, padding, dilation, ceil: false };
                        for size in 0..12 {
                            let count = w.window_count(size).unwrap_or(0);
                            for begin in 0..=count {
                                let all = begin..count;
                                let sum = all
                                    .clone()
                                    .map(|i| w.positions_inside(i, size).len() as u128)
                                    .sum();
                                assert_eq!(
                                    w.count_positions_inside(&all, size),
                                    sum,
                                    "{w:?} {size} {all:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
        let w = KernelWindow { kernel: 3, stride: 1, padding: 1, dilation: 1, ceil: false };
        assert_eq!(w.count_positions_inside(&(0..1 << 50), 1 << 50), (3 << 50) - 2);
    }

    #[test]
    fn inside_is_what_has_a_place() {
        for (kernel, stride, padding, dilation) in
            [(3, 1, 1, 1), (3, 2, 0, 2), (5, 3, 4, 1), (1, 1, 0, 1), (2, 5, 1, 3)]
        {
            for ceil in [false, true] {
                let w = KernelWindow { kernel, stride, padding, dilation, ceil };
                for size in 0..20 {
                    for i in 0..w.window_count(size).unwrap_or(0) {
                        let has: Vec<usize> =
                            (0..kernel).filter(|p| w.kernel_place(i, *p, size).is_some()).collect();
                        assert_eq!(
                            has,
                            w.positions_inside(i, size).collect::<Vec<_>>(),
                            "{w:?} {size} {i}"
                        );
                        let reach = w.window_reach(&(i..i + 1), size);
                        assert!(
                            has.iter()
                                .all(|p| reach.contains(&w.kernel_place(i, *p, size).unwrap()))
                        );
                    }
                }
            }
        }
        let w = KernelWindow { kernel: 3, stride: 2, padding: 1, dilation: 1, ceil: false };
        assert_eq!((w.window_count(224), w.window_count(0)), (Some(112), None));
        let far = KernelWindow { kernel: 1 << 61, dilation: 1 << 31, ..w };
        assert_eq!(far.window_count(224), None);
    }
}
