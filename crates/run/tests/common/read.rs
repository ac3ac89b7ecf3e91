//! Numbers of host tensors.

use zellige_float::Dtype;
use zellige_run::HostArray;

/// The elements as float64.
pub(crate) fn numbers(host: &HostArray) -> Vec<f64> {
    let bytes = host.bytes();
    match host.dtype() {
        Dtype::Float32 => bytes
            .chunks_exact(4)
            .map(|c| f64::from(f32::from_le_bytes(c.try_into().unwrap())))
            .collect(),
        Dtype::Float16 => {
            bytes.chunks_exact(2).map(|c| half(u16::from_le_bytes([c[0], c[1]]))).collect()
        }
        Dtype::Int64 => bytes
            .chunks_exact(8)
            .map(|c| i64::from_le_bytes(c.try_into().unwrap()) as f64)
            .collect(),
        Dtype::Int32 => bytes
            .chunks_exact(4)
            .map(|c| f64::from(i32::from_le_bytes(c.try_into().unwrap())))
            .collect(),
        Dtype::Bool => bytes.iter().map(|b| f64::from(*b)).collect(),
        other => panic!("no numbers of {other}"),
    }
}

/// The value of a float16.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// The first element at which two tensors differ by more than `tolerance` of their size, or not at all
/// for dtypes without fractions.
pub(crate) fn differ(a: &HostArray, b: &HostArray, tolerance: f64) -> Option<String> {
    if (a.size(), a.dtype()) != (b.size(), b.dtype()) {
        return Some(format!("{}{:?} and {}{:?}", a.dtype(), a.size(), b.dtype(), b.size()));
    }
    let float = matches!(a.dtype(), Dtype::Float16 | Dtype::Float32);
    let tolerance = if float { tolerance } else { 0.0 };
    let close = |x: f64, y: f64| {
        x == y
            || (x.is_nan() && y.is_nan())
            || (x - y).abs() <= tolerance * (1.0 + x.abs().max(y.abs()))
    };
    let (x, y) = (numbers(a), numbers(b));
    let at = (0..x.len()).find(|i| !close(x[*i], y[*i]))?;
    Some(format!("element {at} of {:?}: {} and {}", a.size(), x[at], y[at]))
}
