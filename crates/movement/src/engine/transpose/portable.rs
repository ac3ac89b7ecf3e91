//! One lane of plain bytes: what every machine has, and compilers know how to widen.
use super::super::cell::Plain;
use super::{Lanes, Tile, body};

#[derive(Clone, Copy)]
struct Bytes([u8; 16]);

impl Lanes for Bytes {
    const COUNT: usize = 1;
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Bytes {
        // SAFETY: by the contract of `Lanes`; the access is unaligned.
        Bytes(unsafe { p.cast::<[u8; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn interleave<const E: usize>(a: Bytes, b: Bytes) -> (Bytes, Bytes) {
        let half = |from: usize| {
            let mut out = [0u8; 16];
            for (k, pair) in out.chunks_exact_mut(2 * E).enumerate() {
                pair[..E].copy_from_slice(&a.0[from + k * E..][..E]);
                pair[E..].copy_from_slice(&b.0[from + k * E..][..E]);
            }
            Bytes(out)
        };
        (half(0), half(8))
    }
    #[inline(always)]
    unsafe fn scatter(self, p: *mut u8, _: isize) {
        // SAFETY: by the contract of `Lanes`; the access is unaligned.
        unsafe { p.cast::<[u8; 16]>().write_unaligned(self.0) };
    }
}

/// # Safety
/// As [`super::sized`].
pub(super) unsafe fn plain<const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: Tile,
) {
    // SAFETY: the caller's contract is that of `body`.
    unsafe { body::<Bytes, Plain, E, STREAM>(src, dst, t) };
}

#[cfg(test)]
mod tests {
    use super::super::{ROW, Scratch, Tile};
    use super::plain;

    /// The portable kernels give what the machine's own do; elsewhere only they run.
    #[test]
    fn portable_tiles_are_transposes() {
        fn check<const E: usize>() {
            let (na, nb) = (37, 45);
            let src: Vec<u8> = (0..na * nb * E).map(|i| (i % 251).to_le_bytes()[0]).collect();
            for stream in [false, true] {
                let mut dst = vec![0u8; na * nb * E];
                let mut scratch = Scratch::new(true);
                let t = Tile {
                    na,
                    sa: (nb * E).cast_signed(),
                    nb,
                    db: (na * E).cast_signed(),
                    next: src.as_ptr(),
                    next_step: (nb * E).cast_signed(),
                    scratch: &raw mut scratch,
                };
                // SAFETY: both buffers hold the whole tile, `na * E <= ROW`, and the scratch lives
                // until it is finished.
                unsafe {
                    if na * E > ROW {
                        return;
                    }
                    if stream {
                        plain::<E, true>(src.as_ptr(), dst.as_mut_ptr(), t);
                    } else {
                        plain::<E, false>(src.as_ptr(), dst.as_mut_ptr(), t);
                    }
                    scratch.finish();
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
