//! Numbers with their units, as people write them.

use std::fmt;

/// Bytes: exact below 1 KiB, with three digits and a binary unit above.
pub struct BinaryBytes(pub u64);

impl fmt::Display for BinaryBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in UNITS {
            let one = 1_u64 << shift;
            if self.0 < one {
                continue;
            }
            return if self.0.is_multiple_of(one) {
                write!(f, "{} {unit}", self.0 >> shift)
            } else {
                // Rounded down, so that a printed free space is never more than there is.
                let hundredths = (u128::from(self.0) * 100) >> shift;
                write!(f, "{}.{:02} {unit} ({} bytes)", hundredths / 100, hundredths % 100, self.0)
            };
        }
        write!(f, "{} bytes", self.0)
    }
}

/// Three significant digits, or all of those before the point.
pub fn write_three_digits(f: &mut fmt::Formatter<'_>, x: f64) -> fmt::Result {
    match x {
        x if x == x.trunc() && x < 1.0 => write!(f, "{x:.0}"),
        x if x < 9.995 => write!(f, "{x:.2}"),
        x if x < 99.95 => write!(f, "{x:.1}"),
        x => write!(f, "{x:.0}"),
    }
}

/// Bytes of traffic, three digits and a decimal unit, as bandwidths have them: `4.19 MB`.
pub struct DecimalBytes(pub u64);

impl fmt::Display for DecimalBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
        let bytes = self.0 as f64;
        match UNITS.into_iter().find(|(_, size)| bytes >= *size) {
            None => write!(f, "{} B", self.0),
            Some((unit, size)) => {
                write_three_digits(f, bytes / size)?;
                write!(f, " {unit}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_exact_or_say_the_exact_number() {
        assert_eq!(BinaryBytes(0).to_string(), "0 bytes");
        assert_eq!(BinaryBytes(1023).to_string(), "1023 bytes");
        assert_eq!(BinaryBytes(16 << 30).to_string(), "16 GiB");
        assert_eq!(BinaryBytes((1 << 20) + 128).to_string(), "1.00 MiB (1048704 bytes)");
        assert_eq!(
            BinaryBytes(u64::MAX).to_string(),
            "16777215.99 TiB (18446744073709551615 bytes)"
        );
    }

    #[test]
    fn traffic_has_three_digits() {
        assert_eq!(DecimalBytes(999).to_string(), "999 B");
        assert_eq!(DecimalBytes(4_194_304).to_string(), "4.19 MB");
        assert_eq!(DecimalBytes(9_999_000).to_string(), "10.0 MB");
    }
}
