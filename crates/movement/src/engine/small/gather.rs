//! Gathers: a stretch of the destination that is put together from registers of the source.
//!
//! **Idea.** Inside a nest the same few dozen bytes of the source go to the same few dozen of the destination
//! at every step, at another address each time. A [`StretchGather`] plans one such stretch: it is cut into
//! registers of 32 bytes, and every half of one is made of *windows*, loads of 16 adjacent source bytes
//! that are shuffled by a constant mask and joined by OR. How many windows a half needs is the price of
//! the plan, and is known before it runs.
//!
//! **Law**: running a gather copies every element of its loops, and reads no byte before the first or
//! behind the last of the stretch: a window that would reach outside is moved inside.

use super::super::job::ByteLoop;
use crate::engine::tuning::{MAX_GATHER_REGISTERS, MAX_GATHER_WINDOWS};

/// Bytes of a register, and of a window.
pub(super) const REGISTER_BYTES: usize = 32;
pub(super) const WINDOW_BYTES: usize = 16;

/// A mask byte that gives zero.
const ZERO_MASK: u8 = 0x80;

/// A load for either half of a register, and where its bytes go.
#[derive(Debug, Clone)]
pub(super) struct GatherWindow {
    pub(super) low: isize,
    pub(super) high: isize,
    pub(super) mask: [u8; REGISTER_BYTES],
}

/// A stretch of some steps of one loop, with the loops inside it.
#[derive(Debug, Clone)]
pub(super) struct StretchGather {
    /// Offsets of the registers in the destination; the last register may overlap the one before.
    pub(super) at: Vec<usize>,
    /// The windows of each register, one after the other.
    pub(super) windows: Vec<GatherWindow>,
    /// Windows of each register.
    pub(super) each: usize,
    /// Steps of the loop.
    pub(super) steps: isize,
    /// The source of every element of the stretch, in the order of the destination.
    elements: Vec<isize>,
    width: usize,
}

impl StretchGather {
    /// Plans for elements of `width` bytes in `inner` loops, innermost first, that fill a stretch of the
    /// destination without gaps, and in `along`, whose steps follow one another there.
    ///
    /// None where there are fewer bytes than a register has, or too many windows.
    pub(super) fn plan_stretch(
        inner: &[ByteLoop],
        along: ByteLoop,
        width: usize,
    ) -> Option<StretchGather> {
        let (steps, _) = choose_stretch(along)?;
        let mut elements = vec![0];
        let part = ByteLoop { n: steps.cast_signed(), ..along };
        for l in inner.iter().chain([&part]) {
            let so_far = elements.len();
            for i in 1..l.n {
                elements.extend_from_within(..so_far);
                let end = elements.len();
                elements[end - so_far..].iter_mut().for_each(|a| *a += i * l.src);
            }
        }
        let bytes: Vec<isize> = elements
            .iter()
            .flat_map(|first| (0..width.cast_signed()).map(move |k| first + k))
            .collect();
        let (first, last) = (*bytes.iter().min()?, *bytes.iter().max()?);
        // A window could not stay inside of fewer bytes.
        if last - first + 1 < WINDOW_BYTES.cast_signed() {
            return None;
        }
        let most_start = last + 1 - WINDOW_BYTES.cast_signed();
        let at: Vec<usize> = (0..bytes.len().div_ceil(REGISTER_BYTES))
            .map(|r| (r * REGISTER_BYTES).min(bytes.len() - REGISTER_BYTES))
            .collect();
        let halves: Vec<Vec<isize>> = at
            .iter()
            .flat_map(|at| [*at, at + WINDOW_BYTES])
            .map(|at| cover_with_windows(&bytes[at..][..WINDOW_BYTES], most_start))
            .collect();
        // All registers have as many windows as the worst, so that their number is a constant of the kernel; what
        // a register does not need has a mask of zeros.
        let each = halves.iter().map(Vec::len).max()?;
        if each > MAX_GATHER_WINDOWS {
            return None;
        }
        let mut windows = Vec::with_capacity(at.len() * each);
        for (at, pair) in at.iter().zip(halves.chunks_exact(2)) {
            for k in 0..each {
                let mut mask = [ZERO_MASK; REGISTER_BYTES];
                let mut half = |h: usize| {
                    let Some(start) = pair[h].get(k) else { return pair[h][0] };
                    for i in h * WINDOW_BYTES..(h + 1) * WINDOW_BYTES {
                        let from = bytes[at + i];
                        // The first window that has a byte gives it.
                        let owner = pair[h].iter().position(|s| window_contains(*s, from));
                        if owner == Some(k) {
                            mask[i] = u8::try_from(from - start).unwrap_or(ZERO_MASK);
                        }
                    }
                    *start
                };
                let (low, high) = (half(0), half(1));
                windows.push(GatherWindow { low, high, mask });
            }
        }
        Some(StretchGather { at, windows, each, steps: steps.cast_signed(), elements, width })
    }

    /// Registers that all steps of a loop take.
    pub(super) fn register_count(along: ByteLoop) -> Option<usize> {
        choose_stretch(along).map(|(_, registers)| registers)
    }

    /// Copies `n` steps one element at a time, `n` at most those of the stretch.
    ///
    /// # Safety
    /// The elements are readable at `src`, as many bytes writable at `dst`, and they do not overlap.
    pub(super) unsafe fn copy_by_element(&self, src: *const u8, dst: *mut u8, n: isize) {
        let count = self.elements.len() / self.steps.unsigned_abs() * n.unsigned_abs();
        for (k, from) in self.elements.iter().take(count).enumerate() {
            // SAFETY: by the contract of this function.
            unsafe {
                let to = dst.add(k * self.width);
                src.offset(*from).copy_to_nonoverlapping(to, self.width);
            }
        }
    }
}

/// Steps of a loop to plan together, such that the whole loop takes the fewest registers, and how many it
/// takes then; the last stretch may overlap the one before.
fn choose_stretch(along: ByteLoop) -> Option<(usize, usize)> {
    let (step, n) = (along.dst.unsigned_abs(), along.n.unsigned_abs());
    // Longer stretches waste less of their last register, until their windows would not stay in the first level
    // cache.
    let (least, most) =
        (REGISTER_BYTES.div_ceil(step), (MAX_GATHER_REGISTERS * REGISTER_BYTES / step).min(n));
    let registers = |steps: usize| n.div_ceil(steps) * (steps * step).div_ceil(REGISTER_BYTES);
    (least..=most).map(|steps| (steps, registers(steps))).min_by_key(|(_, registers)| *registers)
}

fn window_contains(start: isize, byte: isize) -> bool {
    (start..start + WINDOW_BYTES.cast_signed()).contains(&byte)
}

/// The fewest windows that hold some bytes, none of them beginning behind `most`.
fn cover_with_windows(bytes: &[isize], most: isize) -> Vec<isize> {
    // From the lowest byte on, each window as far to the right as it may begin: no choice has fewer windows.
    let mut sorted = bytes.to_vec();
    sorted.sort_unstable();
    let mut starts: Vec<isize> = Vec::new();
    for byte in sorted {
        if starts.last().is_none_or(|s| !window_contains(*s, byte)) {
            starts.push(byte.min(most));
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the masks say, one byte at a time.
    fn simulate(g: &StretchGather, source: impl Fn(isize) -> u8, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        for (at, windows) in g.at.iter().zip(g.windows.chunks_exact(g.each)) {
            for i in 0..REGISTER_BYTES {
                out[at + i] = windows.iter().fold(0, |all, w| {
                    let start = if i < WINDOW_BYTES { w.low } else { w.high };
                    let picked = w.mask[i];
                    if picked == ZERO_MASK {
                        all
                    } else {
                        all | source(start + isize::from(picked))
                    }
                });
            }
        }
        out
    }

    /// Every plan of small loops gives the bytes that its loops name, from windows inside of the stretch.
    #[test]
    fn planned_registers_are_the_elements_of_the_loops() {
        let source = |at: isize| (at.wrapping_mul(37).unsigned_abs() % 251).to_le_bytes()[0];
        let (mut plans, mut refused) = (0, 0);
        for width in [1usize, 2, 3, 4, 6, 8, 12, 16] {
            let w = width.cast_signed();
            for (n, a) in
                [(1, 0), (2, w), (2, 64), (3, -w), (3, 1000), (4, 0), (5, 2 * w), (7, 100)]
            {
                for (m, b) in [(9, w), (33, 3 * w), (40, -2 * w), (64, 16), (100, 7 * w), (48, 0)] {
                    let inner = ByteLoop { n, src: a, dst: w };
                    let along = ByteLoop { n: m, src: b, dst: n * w };
                    let Some(g) = StretchGather::plan_stretch(&[inner], along, width) else {
                        refused += 1;
                        continue;
                    };
                    plans += 1;
                    assert!(g.steps >= 1 && g.steps <= m);
                    let mut want = Vec::new();
                    let (mut first, mut last) = (isize::MAX, isize::MIN);
                    for j in 0..g.steps {
                        for i in 0..n {
                            let at = i * a + j * b;
                            (first, last) = (first.min(at), last.max(at + w));
                            want.extend((at..at + w).map(source));
                        }
                    }
                    assert_eq!(
                        simulate(&g, source, want.len()),
                        want,
                        "{inner:?} {along:?} {width}"
                    );
                    for start in g.windows.iter().flat_map(|w| [w.low, w.high]) {
                        assert!(start >= first && start + WINDOW_BYTES.cast_signed() <= last);
                    }
                }
            }
        }
        assert!(plans > 250 && refused > 0, "{plans} plans, {refused} refused");
    }
}
