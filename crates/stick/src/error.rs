//! The errors of device layouts.

use zellige_float::UnknownDtype;
use zellige_layout::{LayoutError, LayoutWitness};

/// The result of every fallible operation of this crate.
pub type Result<T, E = StickError> = std::result::Result<T, E>;

/// A refused device layout: a refusal of the algebra, or the violation of a rule of the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StickError {
    /// A refusal of the algebra.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A name that is no dtype.
    #[error(transparent)]
    UnknownDtype(#[from] UnknownDtype),
    /// A dtype that the device does not store.
    #[error("dtype `{dtype}` is not stored on the device; supported: {supported}")]
    UnsupportedDtype {
        /// The dtype.
        dtype: String,
        /// The list of dtypes that are.
        supported: String,
    },
    /// A stick layout that contradicts itself or its host tensor.
    #[error("device dimension {dim}: {reason}")]
    BadStick {
        /// The device dimension.
        dim: usize,
        /// What is wrong.
        reason: String,
    },
    /// A device dimension of a size below zero.
    #[error("device dimension {dim} has negative size {size}; sizes are 0 or more")]
    NegativeDeviceSize {
        /// The device dimension.
        dim: usize,
        /// Its size.
        size: i64,
    },
    /// A host element that no device position holds.
    #[error("host element {index} has no place on the device: {reason}")]
    HostNotCovered {
        /// Offset of the host element in the tensor's own strides.
        index: i64,
        /// The gap.
        reason: String,
    },
}

impl StickError {
    /// A stable identifier for programs, in snake case.
    pub fn kind(&self) -> &'static str {
        match self {
            StickError::Layout(e) => e.kind(),
            StickError::UnknownDtype(e) => e.kind(),
            StickError::UnsupportedDtype { .. } => "unsupported_dtype",
            StickError::BadStick { .. } => "bad_stick",
            StickError::NegativeDeviceSize { .. } => "negative_extent",
            StickError::HostNotCovered { .. } => "host_not_covered",
        }
    }

    /// What it points at, if there is something.
    pub fn witness(&self) -> Option<LayoutWitness> {
        match self {
            StickError::Layout(e) => e.witness(),
            StickError::UnknownDtype(UnknownDtype { dtype, .. })
            | StickError::UnsupportedDtype { dtype, .. } => {
                Some(LayoutWitness::Name(dtype.clone()))
            }
            StickError::BadStick { dim, .. } | StickError::NegativeDeviceSize { dim, .. } => {
                Some(LayoutWitness::Dim(*dim))
            }
            StickError::HostNotCovered { index, .. } => Some(LayoutWitness::Index(*index)),
        }
    }
}
