//! A number that is no tensor: a whole one stays exact, whatever its size.

use zellige_float::Dtype;

/// A number of an attribute or of a host, before it is an element.
#[derive(Debug, Clone, Copy)]
pub enum HostScalar {
    /// A whole number.
    Int(i64),
    /// Any other.
    Float(f64),
}

/// By the bits, so that it can be a key: one NaN is another where its bits are.
impl PartialEq for HostScalar {
    fn eq(&self, other: &HostScalar) -> bool {
        self.equality_key() == other.equality_key()
    }
}

impl Eq for HostScalar {}

impl std::hash::Hash for HostScalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.equality_key().hash(state);
    }
}

impl From<f64> for HostScalar {
    fn from(value: f64) -> HostScalar {
        HostScalar::Float(value)
    }
}

impl From<i64> for HostScalar {
    fn from(value: i64) -> HostScalar {
        HostScalar::Int(value)
    }
}

impl std::fmt::Display for HostScalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostScalar::Int(n) => n.fmt(f),
            HostScalar::Float(x) => x.fmt(f),
        }
    }
}

impl HostScalar {
    fn equality_key(self) -> (bool, u64) {
        match self {
            HostScalar::Int(n) => (false, n.cast_unsigned()),
            HostScalar::Float(x) => (true, x.to_bits()),
        }
    }

    /// The number as a float, where that is exact.
    #[must_use]
    pub fn to_exact_float(self) -> HostScalar {
        match self {
            // Up to 2^53 every integer is a float64.
            HostScalar::Int(n) if n.unsigned_abs() <= 1 << 53 => HostScalar::Float(self.to_f64()),
            other => other,
        }
    }

    /// The nearest float64.
    #[allow(clippy::cast_precision_loss, reason = "rounding is asked for")]
    pub fn to_f64(self) -> f64 {
        match self {
            HostScalar::Int(n) => n as f64,
            HostScalar::Float(x) => x,
        }
    }

    /// The number as a tensor of the dtype holds it before rounding: 0 or 1 for bool, the lowest 8 bits
    /// for uint8, no fraction for integers.
    pub fn held_as_dtype(self, dtype: Dtype) -> HostScalar {
        match (self, dtype) {
            (HostScalar::Int(n), Dtype::Bool) => HostScalar::Int(i64::from(n != 0)),
            (HostScalar::Float(x), Dtype::Bool) => HostScalar::Int(i64::from(x != 0.0)),
            (HostScalar::Int(n), Dtype::Uint8 | Dtype::Quint8) => {
                // The remainder of Euclid, because a negative number wraps to a positive byte.
                HostScalar::Int(n.rem_euclid(256))
            }
            (HostScalar::Float(x), Dtype::Uint8 | Dtype::Quint8) => {
                HostScalar::Float(x.trunc().rem_euclid(256.0))
            }
            (HostScalar::Float(x), d) if !crate::dtype::is_float(d) => HostScalar::Float(x.trunc()),
            _ => self,
        }
    }

    /// The number as an integer: none with a fraction, what is past 64 bits saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturation is meant")]
    pub fn to_whole(self) -> Option<i64> {
        match self {
            HostScalar::Int(n) => Some(n),
            // An infinity saturates as a bound would; NaN has a fraction that is NaN, and is refused.
            HostScalar::Float(x) => (x.is_infinite() || x.fract() == 0.0).then_some(x as i64),
        }
    }

    /// The number without its fraction; NaN is 0, what is past 64 bits saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturation is meant")]
    pub fn trunc(self) -> i64 {
        match self {
            HostScalar::Int(n) => n,
            HostScalar::Float(x) => x as i64,
        }
    }

    /// Its bytes in host memory, and their dtype.
    pub fn host_bytes(self) -> ([u8; 8], Dtype) {
        match self {
            HostScalar::Int(n) => (n.to_le_bytes(), Dtype::Int64),
            HostScalar::Float(x) => (x.to_le_bytes(), Dtype::Float64),
        }
    }
}
