//! Simulated time.

use serde::Serialize;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment or a duration of the simulated card, in whole picoseconds.
///
/// Sums and differences stay in range: they end at 0 and at 213 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
pub struct SimulatedTime {
    picoseconds: u64,
}

impl SimulatedTime {
    /// The beginning, and no time at all.
    pub const ZERO: SimulatedTime = SimulatedTime { picoseconds: 0 };

    /// This many picoseconds.
    pub fn from_picoseconds(picoseconds: u64) -> SimulatedTime {
        SimulatedTime { picoseconds }
    }

    /// This many nanoseconds.
    pub fn from_nanoseconds(nanoseconds: u64) -> SimulatedTime {
        SimulatedTime { picoseconds: nanoseconds.saturating_mul(1000) }
    }

    /// In picoseconds.
    pub fn picoseconds(self) -> u64 {
        self.picoseconds
    }

    /// In nanoseconds, for printing and drawing.
    pub fn nanoseconds(self) -> f64 {
        self.picoseconds as f64 / 1e3
    }

    /// In microseconds, for printing and drawing.
    pub fn microseconds(self) -> f64 {
        self.picoseconds as f64 / 1e6
    }

    /// In seconds, for printing and drawing.
    pub fn seconds(self) -> f64 {
        self.picoseconds as f64 / 1e12
    }
}

impl Add for SimulatedTime {
    type Output = SimulatedTime;
    fn add(self, other: SimulatedTime) -> SimulatedTime {
        SimulatedTime { picoseconds: self.picoseconds.saturating_add(other.picoseconds) }
    }
}

impl AddAssign for SimulatedTime {
    fn add_assign(&mut self, other: SimulatedTime) {
        *self = *self + other;
    }
}

impl Sub for SimulatedTime {
    type Output = SimulatedTime;
    fn sub(self, other: SimulatedTime) -> SimulatedTime {
        SimulatedTime { picoseconds: self.picoseconds.saturating_sub(other.picoseconds) }
    }
}

impl std::iter::Sum for SimulatedTime {
    fn sum<I: Iterator<Item = SimulatedTime>>(times: I) -> SimulatedTime {
        times.fold(SimulatedTime::ZERO, Add::add)
    }
}

impl fmt::Display for SimulatedTime {
    /// Three digits and a unit: `12.6 us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, f64); 4] = [("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)];
        let ps = self.picoseconds as f64;
        let (unit, size) = UNITS.into_iter().find(|(_, size)| ps >= *size).unwrap_or(("ps", 1.0));
        crate::units::write_three_digits(f, ps / size)?;
        write!(f, " {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_three_digits() {
        for (ps, text) in [
            (0, "0 ps"),
            (999, "999 ps"),
            (1000, "1.00 ns"),
            (12_600_000, "12.6 us"),
            (969_000_000_000, "969 ms"),
            (u64::MAX, "18446744 s"),
        ] {
            assert_eq!(SimulatedTime::from_picoseconds(ps).to_string(), text);
        }
        assert_eq!(SimulatedTime::ZERO - SimulatedTime::from_nanoseconds(1), SimulatedTime::ZERO);
    }
}
