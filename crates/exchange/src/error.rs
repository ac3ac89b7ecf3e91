//! Why a division or an exchange is refused.

use crate::division::CoreNumber;

/// The result of every fallible operation of this crate.
pub type Result<T, E = ExchangeError> = std::result::Result<T, E>;

/// A refused division, exchange or certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A shape with an extent below 1, or with more elements than a 64-bit integer counts.
    #[error(
        "the shape {shape:?} has no elements or too many: every extent must be at least 1, and their product below 2^63"
    )]
    Shape {
        /// The shape.
        shape: Vec<i64>,
    },
    /// A number that no core has.
    #[error("core {core}: cores have numbers from 0 to {}", crate::MAX_CORES - 1)]
    NoSuchCore {
        /// The number.
        core: CoreNumber,
    },
    /// A box that is not inside the tensor.
    #[error(
        "core {core}: [{begin}, {end}) is no part of dimension {dim}, whose extent is {extent}; a part begins at 0 or \
         later, has at least one element and ends at {extent} or before"
    )]
    OutsideTensor {
        /// The core that holds the box.
        core: CoreNumber,
        /// The dimension.
        dim: usize,
        /// Where the box begins.
        begin: i64,
        /// One past its end.
        end: i64,
        /// The extent of the dimension.
        extent: i64,
    },
    /// A box with another number of dimensions than the tensor.
    #[error("core {core}: a box of {found} dimensions in a tensor of {expected}")]
    Rank {
        /// The core that holds the box.
        core: CoreNumber,
        /// Its dimensions.
        found: usize,
        /// Those of the tensor.
        expected: usize,
    },
    /// Slices that do not divide a dimension.
    #[error(
        "dimension {dim} of extent {extent} does not divide into {slices} equal slices; a divisor of {extent} is needed"
    )]
    UnevenSlices {
        /// The dimension.
        dim: usize,
        /// Its extent.
        extent: i64,
        /// The number of slices.
        slices: i64,
    },
    /// A layout that does not say for each element which cores hold it.
    #[error("the layout is no division over cores: {0}")]
    NotADivision(String),
    /// Divisions of two tensors.
    #[error(
        "the source divides a tensor of {source_shape:?} and the destination one of {destination:?}"
    )]
    ShapesDiffer {
        /// The shape of the source.
        source_shape: Vec<i64>,
        /// The shape of the destination.
        destination: Vec<i64>,
    },
    /// An element that is needed and that no core holds.
    #[error("core {core} needs element {element:?}, which no core of the source holds")]
    NoHolder {
        /// The core that needs it.
        core: CoreNumber,
        /// The first such element.
        element: Vec<i64>,
    },
    /// A sum of no layers, or of more than are added.
    #[error("a sum of {found} layers; 1 to {most} are accepted")]
    Layers {
        /// How many there are.
        found: usize,
        /// The most.
        most: usize,
    },
    /// More than is listed.
    #[error("{what}: {count}, and at most {limit} are listed")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: u128,
        /// The most.
        limit: u128,
    },
    /// A plan that does not do what it says.
    #[error("certificate: {0}")]
    Certificate(String),
}
