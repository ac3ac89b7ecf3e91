//! Exact positive rationals: what rates and derates are computed with.

use std::fmt;

/// A positive rational number in lowest terms.
///
/// Products and quotients are exact while numerator and denominator fit in 64 bits, and lose their
/// lowest bits beyond, the same ones on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    num: u64,
    den: u64,
}

impl Ratio {
    /// One.
    pub const ONE: Ratio = Ratio { num: 1, den: 1 };

    /// `num / den`; both are taken as at least 1.
    pub fn new(num: u64, den: u64) -> Ratio {
        Ratio::reduce_terms(u128::from(num.max(1)), u128::from(den.max(1)))
    }

    /// A decimal number such as `204.8`, exactly: digits, at most one point, underscores between
    /// digits. None if it is anything else, not positive, or has more than 18 digits.
    pub fn parse_decimal(text: &str) -> Option<Ratio> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = whole.chars().chain(part.chars()).filter(|c| *c != '_').collect();
        if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let decimals = part.bytes().filter(u8::is_ascii_digit).count();
        let num: u64 = digits.parse().ok().filter(|n| *n > 0)?;
        Some(Ratio::new(num, 10_u64.pow(u32::try_from(decimals).ok()?)))
    }

    /// `self * other`.
    pub fn multiplied_by(self, other: Ratio) -> Ratio {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        Ratio::reduce_terms(product(self.num, other.num), product(self.den, other.den))
    }

    /// `self / other`.
    pub fn divided_by(self, other: Ratio) -> Ratio {
        self.multiplied_by(Ratio { num: other.den, den: other.num })
    }

    /// The smallest integer not below `self * n`, or the largest of 64 bits.
    pub fn ceil_product(self, n: u64) -> u64 {
        let product = u128::from(self.num) * u128::from(n);
        u64::try_from(product.div_ceil(u128::from(self.den))).unwrap_or(u64::MAX)
    }

    /// The number, if it is an integer.
    pub fn as_integer(self) -> Option<u64> {
        (self.den == 1).then_some(self.num)
    }

    /// For printing and drawing.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// The point `at / of` of the way from `self` to `other`, for `at <= of`.
    pub fn interpolate_to(self, other: Ratio, at: u64, of: u64) -> Ratio {
        if at == 0 || of == 0 {
            return self;
        }
        let (a, b) =
            (self.multiplied_by(Ratio::new(of - at, of)), other.multiplied_by(Ratio::new(at, of)));
        if at == of { other } else { a.rounded_sum(b) }
    }

    fn rounded_sum(self, other: Ratio) -> Ratio {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (a, b) = (product(self.num, other.den), product(other.num, self.den));
        // Halved, as the sum of two products may need one bit more than there is.
        let den = product(self.den, other.den);
        match a.checked_add(b) {
            Some(sum) => Ratio::reduce_terms(sum, den),
            None => Ratio::reduce_terms(a / 2 + b / 2, (den / 2).max(1)),
        }
    }

    fn reduce_terms(num: u128, den: u128) -> Ratio {
        let divisor = gcd(num, den).max(1);
        let (mut num, mut den) = (num / divisor, den / divisor);
        while num > u128::from(u64::MAX) || den > u128::from(u64::MAX) {
            num = num.div_ceil(2);
            den = den.div_ceil(2);
        }
        let narrow = |x| u64::try_from(x).expect("shifted below 64 bits");
        Ratio { num: narrow(num.max(1)), den: narrow(den.max(1)) }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> std::cmp::Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.num, other.den).cmp(&product(other.num, self.den))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f64().fmt(f)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Ratio::parse_decimal("204.8"), Some(Ratio::new(1024, 5)));
        assert_eq!(Ratio::parse_decimal("1_140"), Some(Ratio::new(1140, 1)));
        assert_eq!(Ratio::parse_decimal("0.35"), Some(Ratio::new(7, 20)));
        for bad in ["", ".", "0", "0.0", "-1", "1e3", "inf", "1.2.3", "1234567890123456789"] {
            assert_eq!(Ratio::parse_decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn products_round_up_once_and_never_overflow() {
        let rate = Ratio::new(3, 2).divided_by(Ratio::new(1024, 5));
        assert_eq!(rate, Ratio::new(15, 2048));
        assert_eq!(rate.ceil_product(2048), 15);
        assert_eq!(rate.ceil_product(2049), 16);
        let huge = Ratio::new(u64::MAX, 1);
        assert_eq!(huge.multiplied_by(huge).ceil_product(2), u64::MAX);
        assert!(
            Ratio::new(1, u64::MAX).multiplied_by(Ratio::new(1, u64::MAX)).ceil_product(1) == 1
        );
        assert_eq!(Ratio::new(1, 3).interpolate_to(Ratio::new(2, 3), 1, 2), Ratio::new(1, 2));
        assert!(Ratio::new(1, 3) < Ratio::new(1, 2));
    }
}
