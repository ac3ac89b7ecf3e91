//! One lane of plain bytes: what every machine has, and compilers know how to widen.
use super::super::cell::PortableLane;
use super::{TransposeLanes, TransposeTile, transpose_width};

#[derive(Clone, Copy)]
struct PortableLanes([u8; 16]);

impl TransposeLanes for PortableLanes {
    const COUNT: usize = 1;
    #[inline(always)]
    unsafe fn load_lanes(p: *const u8) -> PortableLanes {
        // SAFETY: by the contract of `TransposeLanes`; the access is unaligned.
        PortableLanes(unsafe { p.cast::<[u8; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn interleave_elements<const E: usize>(
        a: PortableLanes,
        b: PortableLanes,
    ) -> (PortableLanes, PortableLanes) {
        let half = |from: usize| {
            let mut out = [0u8; 16];
            for (k, pair) in out.chunks_exact_mut(2 * E).enumerate() {
                pair[..E].copy_from_slice(&a.0[from + k * E..][..E]);
                pair[E..].copy_from_slice(&b.0[from + k * E..][..E]);
            }
            PortableLanes(out)
        };
        (half(0), half(8))
    }
    #[inline(always)]
    unsafe fn scatter_lanes(self, p: *mut u8, _: isize) {
        // SAFETY: by the contract of `TransposeLanes`; the access is unaligned.
        unsafe { p.cast::<[u8; 16]>().write_unaligned(self.0) };
    }
}

/// # Safety
/// As [`super::transpose_sized`].
pub(super) unsafe fn transpose_portable<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: TransposeTile,
) {
    // The blocks are those of the machines with registers, of which the compiler makes what the target has.
    // SAFETY: by the contract of this function.
    unsafe { transpose_width::<PortableLanes, PortableLane, E, STREAM>(src, dst, t) };
}

#[cfg(test)]
mod tests {
    use super::super::{Scratch, TransposeTile};
    use super::transpose_portable;
    use crate::engine::tuning::MAX_TILE_ROW_BYTES;

    /// The portable kernels give what the machine's own do; elsewhere only they run.
    #[test]
    fn portable_tiles_are_transposes() {
        fn check<const E: usize>() {
            let (na, nb) = (37, 45);
            let src: Vec<u8> = (0..na * nb * E).map(|i| (i % 251).to_le_bytes()[0]).collect();
            for stream in [false, true] {
                let mut dst = vec![0u8; na * nb * E];
                let mut scratch = Scratch::new(true);
                let t = TransposeTile {
                    na,
                    sa: (nb * E).cast_signed(),
                    nb,
                    db: (na * E).cast_signed(),
                    next: src.as_ptr(),
                    next_step: (nb * E).cast_signed(),
                    scratch: &raw mut scratch,
                };
                // SAFETY: both buffers hold the whole tile, `na * E <= MAX_TILE_ROW_BYTES`, and the scratch lives
                // until it is finished.
                unsafe {
                    if na * E > MAX_TILE_ROW_BYTES {
                        return;
                    }
                    if stream {
                        transpose_portable::<E, true>(src.as_ptr(), dst.as_mut_ptr(), t);
                    } else {
                        transpose_portable::<E, false>(src.as_ptr(), dst.as_mut_ptr(), t);
                    }
                    scratch.flush_pending();
                }
                for a in 0..na {
                    for b in 0..nb {
                        assert_eq!(dst[(b * na + a) * E..][..E], src[(a * nb + b) * E..][..E]);
                    }
                }
            }
        }
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
    }
}
