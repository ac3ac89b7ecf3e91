//! Exact integer helpers: checked products, greatest common divisors, congruences.

use crate::error::{LayoutError, Result};

/// Narrows a wide intermediate, or returns an error that names the quantity.
pub fn narrow_to_i64(value: i128, what: &str) -> Result<i64> {
    i64::try_from(value).map_err(|_| LayoutError::overflow_of(what))
}

/// The product of extents; zero wins over overflow, so that empty tensors stay legal.
pub fn checked_product(extents: impl IntoIterator<Item = i64>, what: &str) -> Result<i64> {
    let mut total: Option<i64> = Some(1);
    for extent in extents {
        // A later 0 must win over an overflow that the extents before it cause, so an overflow is
        // remembered and not returned at once.
        if extent == 0 {
            return Ok(0);
        }
        total = total.and_then(|t| t.checked_mul(extent));
    }
    total.ok_or_else(|| LayoutError::overflow_of(what))
}

/// Row-major strides of a shape, in elements. An extent of 0 counts as 1, as PyTorch does.
pub fn row_major_strides(shape: &[i64]) -> Result<Vec<i64>> {
    let mut strides = vec![1i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d]
            .checked_mul(shape[d].max(1))
            .ok_or_else(|| LayoutError::overflow_of("a row-major stride"))?;
    }
    Ok(strides)
}

/// The quotient rounded towards negative infinity, for any signs.
pub(crate) fn div_floor(a: i64, b: i64) -> i64 {
    let q = a / b;
    if a % b != 0 && ((a < 0) != (b < 0)) { q - 1 } else { q }
}

/// The quotient rounded towards positive infinity, for any signs.
pub fn div_ceil(a: i64, b: i64) -> i64 {
    let q = a / b;
    if a % b != 0 && ((a < 0) == (b < 0)) { q + 1 } else { q }
}

/// Quotient and remainder with the remainder in `[0, m)`, for `m >= 1`.
///
/// Intermediates are 128 bits wide so that they cannot overflow, but nearly all fit in 64, where a
/// division is one instruction instead of a call.
#[inline]
pub(crate) fn euclidean_div_rem(a: i128, m: i128) -> (i128, i128) {
    if let (Ok(a), Ok(m)) = (i64::try_from(a), i64::try_from(m)) {
        return (a.div_euclid(m).into(), a.rem_euclid(m).into());
    }
    (a.div_euclid(m), a.rem_euclid(m))
}

/// The remainder in `[0, m)`, for `m >= 1`.
#[inline]
pub(crate) fn euclidean_rem(a: i128, m: i128) -> i128 {
    if let (Ok(a), Ok(m)) = (i64::try_from(a), i64::try_from(m)) {
        return a.rem_euclid(m).into();
    }
    a.rem_euclid(m)
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    // 128-bit division is a library call; nearly all operands fit in 64 bits.
    if let (Ok(mut a), Ok(mut b)) = (u64::try_from(a), u64::try_from(b)) {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        return a.into();
    }
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Least common multiple of two positive numbers, saturating: past `i128` it only has to stay
/// "larger than any index", which saturation keeps true.
pub(crate) fn lcm(a: i128, b: i128) -> i128 {
    (a / gcd(a, b)).saturating_mul(b)
}

/// All `t` with `t = residue (mod modulus)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CongruenceClass {
    pub(crate) residue: i128,
    pub(crate) modulus: i128,
}

impl CongruenceClass {
    /// `modulus >= 1`; the residue is reduced.
    pub(crate) fn new(residue: i128, modulus: i128) -> CongruenceClass {
        CongruenceClass { residue: euclidean_rem(residue, modulus), modulus }
    }

    /// The numbers in both classes, or none.
    pub(crate) fn intersect_classes(self, other: CongruenceClass) -> Option<CongruenceClass> {
        let (mut a, mut b) = (self, other);
        if a.modulus < b.modulus {
            (a, b) = (b, a);
        }
        if euclidean_rem(a.modulus, b.modulus) == 0 {
            // The usual case: boundaries of one layout divide one another.
            return b.contains(a.residue).then_some(a);
        }
        let g = gcd(a.modulus, b.modulus);
        let delta = b.residue - a.residue;
        if delta % g != 0 {
            return None;
        }
        let step = b.modulus / g;
        // a.residue + a.modulus * k = b.residue (mod b.modulus)
        // The Chinese remainder theorem for moduli that need not be coprime: a solution exists
        // exactly when their greatest common divisor divides the difference of the residues, and it
        // is unique modulo their least common multiple.
        let k = mul_mod(delta / g, modular_inverse((a.modulus / g).rem_euclid(step), step), step);
        let modulus = lcm(a.modulus, b.modulus);
        Some(CongruenceClass {
            // Saturation keeps a residue that does not fit beyond every index, as for `lcm`.
            residue: a.residue.saturating_add(a.modulus.saturating_mul(k)),
            modulus,
        })
    }

    /// The smallest member that is at least `from`.
    pub(crate) fn first_member_from(self, from: i128) -> i128 {
        from.saturating_add(euclidean_rem(self.residue - from, self.modulus))
    }

    pub(crate) fn contains(self, t: i128) -> bool {
        euclidean_rem(t - self.residue, self.modulus) == 0
    }
}

/// `a * b mod m` without leaving `i128` (moduli are products of 64-bit extents).
fn mul_mod(a: i128, b: i128, m: i128) -> i128 {
    let (a, mut b) = (a.rem_euclid(m), b.rem_euclid(m));
    if let Some(p) = a.checked_mul(b) {
        return p % m;
    }
    let (mut acc, mut base) = (0i128, a);
    // Double and add: the sums stay below `2 m`, far inside 128 bits.
    while b > 0 {
        if b & 1 == 1 {
            acc = (acc + base) % m;
        }
        base = (base << 1) % m;
        b >>= 1;
    }
    acc
}

/// The inverse of `a` modulo `m`, for coprime `a` and `m`.
fn modular_inverse(a: i128, m: i128) -> i128 {
    let (mut r0, mut r1, mut x0, mut x1) = (m, a.rem_euclid(m), 0i128, 1i128);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (x0, x1) = (x1, x0 - q * x1);
    }
    x0.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congruences_meet_where_enumeration_says() {
        for (m1, m2) in (1..10).flat_map(|a| (1..10).map(move |b| (a, b))) {
            for (r1, r2) in (0..m1).flat_map(|a| (0..m2).map(move |b| (a, b))) {
                let (a, b) = (CongruenceClass::new(r1, m1), CongruenceClass::new(r2, m2));
                let brute = (0..m1 * m2).find(|t| a.contains(*t) && b.contains(*t));
                let both = a.intersect_classes(b);
                assert_eq!(
                    both.map(|c| c.first_member_from(0)),
                    brute,
                    "{r1} mod {m1}, {r2} mod {m2}"
                );
            }
        }
    }

    #[test]
    fn products_refuse_to_wrap_but_zero_wins() {
        assert!(checked_product([i64::MAX, 2], "p").is_err());
        assert_eq!(checked_product([i64::MAX, 2, 0], "p"), Ok(0));
        assert_eq!(checked_product([], "p"), Ok(1));
    }
}
