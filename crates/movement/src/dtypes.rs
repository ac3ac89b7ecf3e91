//! The elements of a move: bytes that stay as they are, or numbers that change their format.

use crate::engine::MoveError;
use zellige_float::{Dtype, Format};

/// The elements of the source and of the destination of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveDtypes {
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

impl From<Format> for MoveDtypes {
    fn from(format: Format) -> MoveDtypes {
        MoveDtypes::Bytes(format.byte_size())
    }
}

impl From<(Format, Format)> for MoveDtypes {
    fn from((from, to): (Format, Format)) -> MoveDtypes {
        // Equal formats are moved as bytes, so that a NaN keeps its payload.
        if from == to { from.into() } else { MoveDtypes::Formats { from, to } }
    }
}

impl MoveDtypes {
    /// From one dtype into another; every dtype of whole bytes into itself.
    ///
    /// # Errors
    /// [`MoveError::Dtype`] where elements are parts of bytes, or numbers in a format without a
    /// conversion.
    pub fn between(from: Dtype, to: Dtype) -> Result<MoveDtypes, MoveError> {
        // A dtype without a number format (complex numbers, for one) may still be moved as bytes.
        if from == to {
            let width = usize::try_from(from.bits() / 8).ok().filter(|w| *w > 0);
            return width
                .map(MoveDtypes::Bytes)
                .ok_or_else(|| refused_dtype(from, "elements of whole bytes"));
        }
        let format = |dtype: Dtype| {
            dtype
                .number_format()
                .ok_or_else(|| refused_dtype(dtype, "conversions are between these dtypes"))
        };
        Ok((format(from)?, format(to)?).into())
    }

    /// Bytes of an element of the source.
    pub fn src_bytes(self) -> usize {
        match self {
            MoveDtypes::Bytes(width) => width,
            MoveDtypes::Formats { from, .. } => from.byte_size(),
        }
    }

    /// Bytes of an element of the destination.
    pub fn dst_bytes(self) -> usize {
        match self {
            MoveDtypes::Bytes(width) => width,
            MoveDtypes::Formats { to, .. } => to.byte_size(),
        }
    }
}

fn refused_dtype(dtype: Dtype, what: &'static str) -> MoveError {
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
            let same = MoveDtypes::between(*dtype, *dtype);
            assert_eq!(same.is_ok(), dtype.bits() >= 8, "{dtype}");
        }
        assert_eq!(
            MoveDtypes::between(Dtype::Complex128, Dtype::Complex128),
            Ok(MoveDtypes::Bytes(16))
        );
        let refused = MoveDtypes::between(Dtype::Uint16, Dtype::Float32).expect_err("no format");
        assert!(refused.to_string().contains("uint16"), "{refused}");
    }
}
