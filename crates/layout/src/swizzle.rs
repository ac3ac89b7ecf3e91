//! XOR swizzles of memory addresses.

use crate::error::{LayoutError, Result};
use std::fmt;

/// An XOR permutation of addresses: `Swizzle(M, B, S)`.
///
/// With `x = m >> M` and `mask = 2^B - 1`, the inner variant is `x ^= (x & (mask << S)) >> S`, the
/// outer one `x ^= (x & mask) << S`; the low `M` bits stay.
///
/// **Law**: for all `m >= 0`, `apply_to_address(apply_to_address(m)) == m`. The inner variant is CuTe's
/// `Swizzle<B, M, S>` (its documentation, "Swizzle"), the outer one the same with a negative shift.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    per_element: u32,
    swizzle_len: u32,
    atom_len: u32,
    inner: bool,
}

impl Swizzle {
    /// M = `per_element`, B = `swizzle_len`, S = `atom_len`; well-formed when `S >= B >= 0`,
    /// `M >= 0`, and the highest bit touched stays below 62.
    pub fn new(per_element: i64, swizzle_len: i64, atom_len: i64, inner: bool) -> Result<Swizzle> {
        let bad =
            |reason| Err(LayoutError::BadSwizzle { per_element, swizzle_len, atom_len, reason });
        if per_element < 0 || swizzle_len < 0 || atom_len < 0 {
            return bad("M, B and S are 0 or more");
        }
        // With overlapping fields the XOR would change bits that it reads, and the map would no
        // longer be its own inverse.
        if atom_len < swizzle_len {
            return bad("S must be at least B, or the two bit fields overlap");
        }
        if per_element.saturating_add(swizzle_len).saturating_add(atom_len) > 62 {
            return bad("M + B + S must be at most 62, the bits of an address");
        }
        let bits = |v: i64| u32::try_from(v).expect("at most 62");
        Ok(Swizzle {
            per_element: bits(per_element),
            swizzle_len: bits(swizzle_len),
            atom_len: bits(atom_len),
            inner,
        })
    }

    /// The shared-memory mode of that many bytes (0, 32, 64 or 128) for elements of `bits` bits.
    pub fn shared_memory_mode(bytes: i64, bits: i64) -> Result<Swizzle> {
        // The swizzle modes of the CUDA tensor map and of the PTX ISA's shared-memory descriptors
        // XOR 16-byte chunks of a row with the row number: over 2, 4 or 8 chunks.
        let len = match bytes {
            0 => 0,
            32 => 1,
            64 => 2,
            128 => 3,
            _ => {
                return Err(LayoutError::BadParameter {
                    what: "the swizzle mode in bytes",
                    value: bytes,
                    accepted: "modes are 0 (none), 32, 64 and 128".into(),
                });
            }
        };
        if bits <= 0
            || bits > 128
            || 128 % bits != 0
            || !(128 / bits).cast_unsigned().is_power_of_two()
        {
            return Err(LayoutError::BadParameter {
                what: "the element width in bits",
                value: bits,
                accepted: "a swizzle mode moves 16-byte units, so widths divide 128".into(),
            });
        }
        // S = 3 because the bits that are read begin above a row of
        // 128 bytes, 8 chunks of 16 bytes, whatever the width of the mode.
        Swizzle::new(i64::from((128 / bits).trailing_zeros()), len, 3, true)
    }

    /// M: low bits that never change.
    pub fn per_element(&self) -> u32 {
        self.per_element
    }

    /// B: bits that are XORed.
    pub fn swizzle_len(&self) -> u32 {
        self.swizzle_len
    }

    /// S: distance between the two bit fields.
    pub fn atom_len(&self) -> u32 {
        self.atom_len
    }

    /// Whether the high field is XORed into the low one (the usual variant).
    pub fn is_inner(&self) -> bool {
        self.inner
    }

    /// Whether it moves nothing.
    pub fn is_identity(&self) -> bool {
        self.swizzle_len == 0
    }

    /// The number of low bits it reads or writes: adding a multiple of `2^bits` commutes with it.
    pub fn affected_low_bits(&self) -> u32 {
        if self.is_identity() { 0 } else { self.per_element + self.swizzle_len + self.atom_len }
    }

    /// The swizzled address. `m` must be 0 or more; [`crate::Layout`] guarantees it.
    #[inline]
    pub fn apply_to_address(&self, m: i64) -> i64 {
        let bits = m.cast_unsigned();
        let field = ((1u64 << self.swizzle_len) - 1) << self.per_element;
        // One of the two shifts is 0. Without a branch, the compiler vectorises loops over whole tables.
        let (right, left) = if self.inner { (self.atom_len, 0) } else { (0, self.atom_len) };
        (bits ^ (((bits >> right) & field) << left)).cast_signed()
    }

    /// The same permutation of elements `2^log2` times narrower: `sw'(n m + j) = n sw(m) + j`.
    pub fn unpack_elements(&self, log2: u32) -> Result<Swizzle> {
        let [m, b, s] = [self.per_element + log2, self.swizzle_len, self.atom_len].map(i64::from);
        Swizzle::new(m, b, s, self.inner)
    }
}

impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = if self.inner { "" } else { ",outer" };
        write!(f, "Swizzle({},{},{}{outer})", self.per_element, self.swizzle_len, self.atom_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of the specification, step by step.
    fn by_definition(m: i64, per_element: i64, b: i64, s: i64, inner: bool) -> i64 {
        let mask = (1 << b) - 1;
        let mut x = m >> per_element;
        if inner {
            x ^= (x & (mask << s)) >> s;
        } else {
            x ^= (x & mask) << s;
        }
        (x << per_element) + m % (1 << per_element)
    }

    #[test]
    fn swizzle_is_its_definition_and_an_involution() {
        for m in 0..4 {
            for s in 0..5 {
                for b in 0..=s {
                    for inner in [true, false] {
                        let sw = Swizzle::new(m, b, s, inner).expect("well-formed");
                        for a in 0..1024 {
                            assert_eq!(sw.apply_to_address(a), by_definition(a, m, b, s, inner));
                            assert_eq!(sw.apply_to_address(sw.apply_to_address(a)), a);
                            let high = 1 << sw.affected_low_bits();
                            assert_eq!(
                                sw.apply_to_address(a + high),
                                sw.apply_to_address(a) + high
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_are_checked() {
        assert!(Swizzle::new(3, 3, 2, true).is_err());
        assert!(Swizzle::new(-1, 0, 0, true).is_err());
        assert!(Swizzle::new(60, 1, 2, true).is_err());
        assert!(Swizzle::new(i64::MAX, 1, i64::MAX, true).is_err());
        assert!(Swizzle::shared_memory_mode(48, 16).is_err());
        assert!(Swizzle::shared_memory_mode(32, 24).is_err());
        let modes: Vec<_> = [64, 32, 16, 8, 4]
            .map(|bits| Swizzle::shared_memory_mode(128, bits).map(|s| s.per_element()))
            .into_iter()
            .collect::<Result<_>>()
            .expect("the five widths");
        assert_eq!(modes, [1, 2, 3, 4, 5]);
    }
}
