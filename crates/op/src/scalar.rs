//! A number that is no tensor: a whole one stays exact, whatever its size.

use zellige_float::Dtype;

/// A number of an attribute or of a host, before it is an element.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// A whole number.
    Int(i64),
    /// Any other.
    Float(f64),
}

/// By the bits, so that it can be a key: one NaN is another where its bits are.
impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Scalar {
        Scalar::Float(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Scalar {
        Scalar::Int(value)
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Int(n) => n.fmt(f),
            Scalar::Float(x) => x.fmt(f),
        }
    }
}

impl Scalar {
    fn key(self) -> (bool, u64) {
        match self {
            Scalar::Int(n) => (false, n.cast_unsigned()),
            Scalar::Float(x) => (true, x.to_bits()),
        }
    }

    /// The number as a float, where that is exact.
    #[must_use]
    pub fn plain(self) -> Scalar {
        match self {
            Scalar::Int(n) if n.unsigned_abs() <= 1 << 53 => Scalar::Float(self.float()),
            other => other,
        }
    }

    /// The nearest float64.
    #[allow(clippy::cast_precision_loss, reason = "rounding is asked for")]
    pub fn float(self) -> f64 {
        match self {
            Scalar::Int(n) => n as f64,
            Scalar::Float(x) => x,
        }
    }

    /// The number as a tensor of the dtype holds it before rounding: 0 or 1 for bool, the lowest 8 bits
    /// for uint8, no fraction for integers.
    pub fn held(self, dtype: Dtype) -> Scalar {
        match (self, dtype) {
            (Scalar::Int(n), Dtype::Bool) => Scalar::Int(i64::from(n != 0)),
            (Scalar::Float(x), Dtype::Bool) => Scalar::Int(i64::from(x != 0.0)),
            (Scalar::Int(n), Dtype::Uint8 | Dtype::Quint8) => Scalar::Int(n.rem_euclid(256)),
            (Scalar::Float(x), Dtype::Uint8 | Dtype::Quint8) => {
                Scalar::Float(x.trunc().rem_euclid(256.0))
            }
            (Scalar::Float(x), d) if !crate::dtype::is_float(d) => Scalar::Float(x.trunc()),
            _ => self,
        }
    }

    /// The number as an integer: none with a fraction, what is past 64 bits saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturation is meant")]
    pub fn whole(self) -> Option<i64> {
        match self {
            Scalar::Int(n) => Some(n),
            Scalar::Float(x) => (x.is_infinite() || x.fract() == 0.0).then_some(x as i64),
        }
    }

    /// The number without its fraction; NaN is 0, what is past 64 bits saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturation is meant")]
    pub fn trunc(self) -> i64 {
        match self {
            Scalar::Int(n) => n,
            Scalar::Float(x) => x as i64,
        }
    }

    /// Its bytes in host memory, and their dtype.
    pub fn bytes(self) -> ([u8; 8], Dtype) {
        match self {
            Scalar::Int(n) => (n.to_le_bytes(), Dtype::Int64),
            Scalar::Float(x) => (x.to_le_bytes(), Dtype::Float64),
        }
    }
}
