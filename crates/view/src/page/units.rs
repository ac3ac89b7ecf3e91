//! Times, bytes and counts with a unit and three digits.

/// A time with three digits: `12.3 us`.
pub(super) fn format_time(us: f64) -> String {
    let units = [("s", 1e6), ("ms", 1e3), ("us", 1.0), ("ns", 1e-3)];
    format_scaled(us, &units, "0 us")
}

/// Bytes of traffic, decimal: `4.19 MB`.
pub(super) fn format_bytes(n: u64) -> String {
    if n < 1000 {
        return format!("{n} B");
    }
    format_scaled(n as f64, &[("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)], "0 B")
}

/// A count: `8.39 GFLOP`.
pub(super) fn format_flops(n: u64) -> String {
    let units = [("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)];
    if n < 1000 { format!("{n} FLOP") } else { format_scaled(n as f64, &units, "0 FLOP") }
}

/// A share: `12.5%`.
pub(super) fn format_percent(share: f64) -> String {
    let p = share * 100.0;
    if p == 0.0 || p >= 99.95 { format!("{p:.0}%") } else { format!("{}%", format_digits(p)) }
}

fn format_scaled(x: f64, units: &[(&str, f64)], zero: &str) -> String {
    if x <= 0.0 || !x.is_finite() {
        return zero.into();
    }
    let (unit, size) =
        units.iter().find(|(_, size)| x >= *size).or(units.last()).copied().unwrap_or(("", 1.0));
    format!("{} {unit}", format_digits(x / size))
}

/// Three digits, or all of those before the point.
pub(super) fn format_digits(x: f64) -> String {
    match x.abs() {
        // Where rounding would give a fourth digit: 9.995 is printed as 10.0 and not as 10.00.
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// A size: `64×512`; a scalar has none.
pub(super) fn format_size(size: &[i64]) -> String {
    if size.is_empty() {
        return "scalar".into();
    }
    size.iter().map(ToString::to_string).collect::<Vec<_>>().join("×")
}

/// The beginning of a text, with an ellipsis where something is left out.
pub(super) fn shorten_end(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The end of a name: names of one layer begin alike and differ at their end.
pub(super) fn shorten_start(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.into();
    }
    let end: String = text.chars().skip(count + 1 - most.max(1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        assert_eq!(
            [format_time(0.0), format_time(0.5), format_time(12.34), format_time(969_000.0)],
            ["0 us", "500 ns", "12.3 us", "969 ms"]
        );
        assert_eq!([format_bytes(999), format_bytes(4_194_304)], ["999 B", "4.19 MB"]);
        assert_eq!(
            [format_percent(0.0), format_percent(0.125), format_percent(1.0)],
            ["0%", "12.5%", "100%"]
        );
        assert_eq!(
            [shorten_end("layer0.attention", 6), shorten_start("layer0.attention", 6)],
            ["layer…", "…ntion"]
        );
    }
}
