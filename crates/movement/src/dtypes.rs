//! What the elements of a move are: bytes that stay as they are, or numbers that change format.

use crate::engine::MoveError;
use zellige_float::{Dtype, Format};

/// The elements of the two sides of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtypes {
    /// Elements of so many bytes, moved as they are: 1, 2, 4, 8 or 16.
    Bytes(usize),
    /// Numbers, converted on the way where the two differ.
    Formats {
        /// The format that is read.
        from: Format,
        /// The format that is written.
        to: Format,
    },
}

impl From<Format> for Dtypes {
    fn from(format: Format) -> Dtypes {
        Dtypes::Bytes(format.size())
    }
}

impl From<(Format, Format)> for Dtypes {
    fn from((from, to): (Format, Format)) -> Dtypes {
        if from == to { from.into() } else { Dtypes::Formats { from, to } }
    }
}

impl Dtypes {
    /// From one dtype into another; every dtype of whole bytes into itself.
    ///
    /// # Errors
    /// [`MoveError::Dtype`] where elements are parts of bytes, or numbers in a format without a
    /// conversion.
    pub fn of(from: Dtype, to: Dtype) -> Result<Dtypes, MoveError> {
        if from == to {
            let width = usize::try_from(from.bits() / 8).ok().filter(|w| *w > 0);
            return width.map(Dtypes::Bytes).ok_or_else(|| bad(from, "elements of whole bytes"));
        }
        let format = |dtype: Dtype| {
            dtype.number_format().ok_or_else(|| bad(dtype, "conversions are between these dtypes"))
        };
        Ok((format(from)?, format(to)?).into())
    }

    /// Bytes of an element of the source.
    pub fn src_bytes(self) -> usize {
        match self {
            Dtypes::Bytes(width) => width,
            Dtypes::Formats { from, .. } => from.size(),
        }
    }

    /// Bytes of an element of the destination.
    pub fn dst_bytes(self) -> usize {
        match self {
            Dtypes::Bytes(width) => width,
            Dtypes::Formats { to, .. } => to.size(),
        }
    }
}

fn bad(dtype: Dtype, what: &'static str) -> MoveError {
    let known = Dtype::ALL.iter().filter(|d| d.number_format().is_some());
    let known = known.map(|d| d.name()).collect::<Vec<_>>().join(", ");
    MoveError::Dtype { dtype: dtype.name(), what, known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_whole_bytes_or_numbers() {
        for dtype in Dtype::ALL {
            let same = Dtypes::of(*dtype, *dtype);
            assert_eq!(same.is_ok(), dtype.bits() >= 8, "{dtype}");
        }
        assert_eq!(Dtypes::of(Dtype::Complex128, Dtype::Complex128), Ok(Dtypes::Bytes(16)));
        let refused = Dtypes::of(Dtype::Uint16, Dtype::Float32).expect_err("no format");
        assert!(refused.to_string().contains("uint16"), "{refused}");
    }
}
