//! The time and the memory that a request may use.

use std::fmt;
use std::time::Duration;

/// The time and the memory that a request may use; `None` is without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall-clock time.
    pub time: Option<Duration>,
    /// Bytes of memory beyond what the process had before.
    pub memory: Option<u64>,
}

impl CallLimits {
    /// No limit at all.
    pub const NONE: CallLimits = CallLimits { time: None, memory: None };

    /// The limits of a request where the user has set none: a minute and 2 GiB.
    pub const REQUEST: CallLimits =
        CallLimits { time: Some(Duration::from_secs(60)), memory: Some(2 << 30) };

    /// The stricter of both limits, for a call inside of another that has run for some time.
    pub(crate) fn restrict_to_outer(self, outer: CallLimits, spent: Duration) -> CallLimits {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let left = outer.time.map(|t| t.saturating_sub(spent));
        CallLimits {
            time: self.time.into_iter().chain(left).min(),
            memory: least(self.memory, outer.memory),
        }
    }

    /// Reads a time limit: seconds, `500ms`, `2m` or `1h`; `none` is no limit.
    ///
    /// # Errors
    /// Anything else, and times that are not positive.
    pub fn parse_time_limit(text: &str) -> Result<Option<Duration>, LimitError> {
        let accepted = "seconds such as `30` or `0.5`, `500ms`, `2m`, `1h`, or `none`";
        let bad = || LimitError { text: text.chars().take(40).collect(), accepted };
        // `ms` stands before `s`, because the first suffix that fits is taken.
        let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
        let Some((number, unit)) = split_number_and_unit(text, &units) else { return Ok(None) };
        let seconds = number.parse::<f64>().map_err(|_| bad())? * unit;
        if seconds <= 0.0 {
            return Err(bad());
        }
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| bad())
    }

    /// Reads a memory limit: bytes, or a number with `KiB`, `MiB` or `GiB` behind it; `none` is no limit.
    ///
    /// # Errors
    /// Anything else, and sizes of 0.
    pub fn parse_memory_limit(text: &str) -> Result<Option<u64>, LimitError> {
        let accepted = "bytes, or a number with `KiB`, `MiB` or `GiB`, such as `512MiB`, or `none`";
        let bad = || LimitError { text: text.chars().take(40).collect(), accepted };
        let units = [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)];
        let Some((number, unit)) = split_number_and_unit(text, &units) else { return Ok(None) };
        let count = number.parse::<u64>().map_err(|_| bad())?;
        count.checked_mul(unit).filter(|bytes| *bytes > 0).map(Some).ok_or_else(bad)
    }
}

/// The number of a text and its unit; `None` for the text `none`. The last unit is the empty one.
fn split_number_and_unit<'a, U: Copy>(text: &'a str, units: &[(&str, U)]) -> Option<(&'a str, U)> {
    let text = text.trim();
    if text == "none" {
        return None;
    }
    let found =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit)));
    Some(found.expect("every text ends with the empty unit"))
}

/// A limit that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitError {
    text: String,
    accepted: &'static str,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no limit; accepted: {}", self.text, self.accepted)
    }
}

impl std::error::Error for LimitError {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_with_their_units() {
        for (text, seconds) in [
            ("30", 30.0),
            ("0.5", 0.5),
            ("500ms", 0.5),
            ("2m", 120.0),
            ("1h", 3600.0),
            ("3 s", 3.0),
        ] {
            let read = CallLimits::parse_time_limit(text).unwrap().unwrap();
            assert!((read.as_secs_f64() - seconds).abs() < 1e-9, "{text}");
        }
        for (text, bytes) in
            [("4096", 4096), ("1KiB", 1024), ("512MiB", 512 << 20), ("2 GiB", 2 << 30)]
        {
            assert_eq!(CallLimits::parse_memory_limit(text), Ok(Some(bytes)), "{text}");
        }
        assert_eq!(CallLimits::parse_time_limit("none"), Ok(None));
        assert_eq!(CallLimits::parse_memory_limit("none"), Ok(None));
        for text in ["", "0", "-1", "soon", "1d", "nan", "inf", "1e400"] {
            assert!(CallLimits::parse_time_limit(text).is_err(), "{text}");
        }
        for text in ["", "0", "-1", "1.5GiB", "1GB", "99999999999GiB", "much"] {
            assert!(CallLimits::parse_memory_limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_stricter_limit_holds_inside() {
        let second = Duration::from_secs(1);
        let outer = CallLimits { time: Some(3 * second), memory: None };
        let inner = CallLimits { time: Some(5 * second), memory: Some(7) };
        assert_eq!(
            inner.restrict_to_outer(outer, second),
            CallLimits { time: Some(2 * second), memory: Some(7) }
        );
        assert_eq!(
            CallLimits::NONE.restrict_to_outer(outer, 9 * second).time,
            Some(Duration::ZERO)
        );
    }
}
