//! The errors of the algebra: one variant per violated precondition, each with its witness.

use crate::axis::Axis;
use crate::layout::PhysicalCoordinate;
use std::fmt;

/// The result of every fallible operation of this crate.
pub type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// The reason why an operation of this crate has no result.
///
/// Every variant names what fails (an iter, a dimension, an index, an axis), and its message states what
/// would have been accepted. [`LayoutError::kind`] is a stable identifier for programs;
/// [`LayoutError::witness`] returns the index, dimension or name that fails as data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An axis name that no table declares.
    #[error("unknown axis `{name}`; known axes: {known}")]
    UnknownAxis {
        /// The name as written.
        name: String,
        /// The names that would be accepted.
        known: String,
    },
    /// A text that is not allowed as the name of an axis.
    #[error("`{name}` cannot name an axis: {reason}")]
    BadAxisName {
        /// The name as written.
        name: String,
        /// What a name must be.
        reason: &'static str,
    },
    /// One name with two meanings inside one layout or table.
    #[error("axis `{name}` is declared twice with different kinds")]
    AxisConflict {
        /// The name declared twice.
        name: String,
    },
    /// An extent below zero.
    #[error("{what} {index} has negative extent {extent}; extents are 0 or more")]
    NegativeExtent {
        /// What the index counts: `iter`, `dimension`, `device dimension`.
        what: &'static str,
        /// Which one.
        index: usize,
        /// The extent given.
        extent: i64,
    },
    /// A quantity that does not fit in 64 bits.
    #[error("{what} does not fit in 64 bits")]
    Overflow {
        /// The quantity.
        what: String,
    },
    /// Two counts that must agree.
    #[error("{what} has {found} elements, but the layout has {expected}")]
    SizeMismatch {
        /// The value that has the wrong size, such as `shape [2, 3]`.
        what: String,
        /// The size that would be accepted.
        expected: i64,
        /// The size given (saturated when it does not fit).
        found: i128,
    },
    /// Two lengths that must agree.
    #[error("{what} has {found} entries, expected {expected}")]
    LengthMismatch {
        /// The list that has the wrong length.
        what: &'static str,
        /// The length that would be accepted.
        expected: usize,
        /// The length given.
        found: usize,
    },
    /// A coordinate outside its dimension.
    #[error("coordinate {value} in dimension {dim} is outside [0, {extent})")]
    CoordinateOutOfRange {
        /// The dimension.
        dim: usize,
        /// The coordinate given.
        value: i64,
        /// The extent of that dimension.
        extent: i64,
    },
    /// A flat index outside the layout.
    #[error("index {index} is outside [0, {size})")]
    IndexOutOfRange {
        /// The index given.
        index: i64,
        /// The number of elements.
        size: i64,
    },
    /// A slice outside its dimension.
    #[error(
        "region [{begin}, {end}) of dimension {dim} is not inside [0, {extent}] with begin <= end"
    )]
    RegionOutOfRange {
        /// The dimension.
        dim: usize,
        /// First element.
        begin: i64,
        /// One past the last element.
        end: i64,
        /// The extent of that dimension.
        extent: i64,
    },
    /// A shape with a boundary inside an iter, at a position where the iter cannot be split into two iters.
    #[error(
        "the layout cannot be grouped by {shape:?}: the boundary of dimension {dim} (every {boundary} \
         elements) would split iter {iter} of extent {extent} unevenly"
    )]
    NotGroupable {
        /// The requested shape.
        shape: Vec<i64>,
        /// The dimension whose boundary fails.
        dim: usize,
        /// Elements between two such boundaries.
        boundary: i64,
        /// The iter that the boundary would split.
        iter: usize,
        /// Its extent.
        extent: i64,
    },
    /// Shapes without a common refinement.
    #[error(
        "no common refinement: boundaries every {a} and every {b} elements do not divide one another"
    )]
    NoCommonRefinement {
        /// One boundary, in elements.
        a: i64,
        /// The other boundary, in elements.
        b: i64,
    },
    /// A list that is not a permutation.
    #[error("{perm:?} is not a permutation of 0..{len}: {reason}")]
    BadPermutation {
        /// The list given.
        perm: Vec<usize>,
        /// How many entries there should be.
        len: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Separators that do not delimit groups.
    #[error("separators {seps:?} must rise from 0 to {len}")]
    BadSeparators {
        /// The list given.
        seps: Vec<usize>,
        /// The number of iters.
        len: usize,
    },
    /// A swizzle outside its bounds.
    #[error("Swizzle({per_element},{swizzle_len},{atom_len}) is not well-formed: {reason}")]
    BadSwizzle {
        /// M.
        per_element: i64,
        /// B.
        swizzle_len: i64,
        /// S.
        atom_len: i64,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A swizzle of a layout whose addresses on `m` are negative, or that does not use `m`.
    #[error("a swizzle needs addresses on `m` that are 0 or more: {reason}")]
    SwizzleDomain {
        /// What was found instead.
        reason: String,
    },
    /// An operator that is defined only on layouts without padding.
    #[error(
        "`{op}` is not defined on a layout with padding; take its padded layout or its slice first"
    )]
    Padded {
        /// The operator.
        op: &'static str,
    },
    /// An operator that is defined only on layouts without a swizzle.
    #[error("`{op}` is not defined here on a swizzled layout; {help}")]
    Swizzled {
        /// The operator.
        op: &'static str,
        /// What would be accepted.
        help: &'static str,
    },
    /// An operator that needs one memory axis.
    #[error("`{op}` needs a layout on the single axis `{axis}`; this one also uses {found}")]
    NotOneAxis {
        /// The operator.
        op: &'static str,
        /// The axis it may use.
        axis: String,
        /// The axes in the way.
        found: String,
    },
    /// No layout of the model has the requested mapping.
    #[error("not expressible: {reason} (witness: index {index})")]
    NotExpressible {
        /// Why.
        reason: String,
        /// The first flat index for which no layout has the right physical coordinates at it and at all
        /// indices before it.
        index: i64,
    },
    /// The image of the right layout leaves the domain of the left one.
    #[error("index {index} maps to {value}, outside the domain [0, {size}) of the left layout")]
    OutsideDomain {
        /// A flat index of the right layout.
        index: i64,
        /// The value it maps to.
        value: i64,
        /// The size of the left layout.
        size: i64,
    },
    /// Two elements at one physical coordinate where that is not allowed.
    #[error("elements {a} and {b} share the physical coordinate {place}")]
    Aliased {
        /// A flat index.
        a: i64,
        /// Another flat index.
        b: i64,
        /// The physical coordinate both map to.
        place: Box<PhysicalCoordinate>,
    },
    /// A physical coordinate without an element, where every physical coordinate must have one.
    #[error("no element maps to the physical coordinate {place}")]
    NotCovered {
        /// The physical coordinate without an element.
        place: Box<PhysicalCoordinate>,
    },
    /// Elements that cannot be packed into wider ones, because they are not neighbours in memory.
    #[error(
        "cannot pack {num} elements: the {num} elements from {index} on are not neighbours on `{axis}` \
         that begin at a multiple of {num}"
    )]
    NotPackable {
        /// Elements per packed element.
        num: i64,
        /// The flat index of the first element of the group that fails.
        index: i64,
        /// The axis on which they would be neighbours.
        axis: Axis,
    },
    /// A parameter outside its range.
    #[error("{what} is {value}; {accepted}")]
    BadParameter {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: i64,
        /// What would be accepted.
        accepted: String,
    },
    /// A size that is not a power of two where the layout is linear over GF(2).
    #[error("{what} has size {value}, which is not a power of two")]
    NotPowerOfTwo {
        /// The dimension.
        what: String,
        /// Its size.
        value: i64,
    },
    /// A basis of a linear layout with the wrong number of entries, or with an entry outside its out dimension.
    #[error("basis {index} of `{dim}` is not valid: {reason}")]
    BadBasis {
        /// The in dimension.
        dim: String,
        /// Which of its bases, counted from 0.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Dimensions of linear layouts that an operation does not accept.
    #[error("{call}: {reason}")]
    LinearDims {
        /// The operation.
        call: &'static str,
        /// Which dimensions, and what would be accepted.
        reason: String,
    },
    /// A linear layout without the requested inverse.
    #[error("not invertible: {reason}")]
    NotInvertible {
        /// Two inputs that map to one output, or an output that no input maps to.
        reason: String,
    },
    /// An operation whose exact result would need more steps than allowed.
    #[error("{what} would take more than {limit} steps")]
    TooLarge {
        /// The operation.
        what: &'static str,
        /// The number of steps allowed.
        limit: u64,
    },
    /// A property that the algorithms of this crate cannot decide.
    #[error("not decided: {reason}")]
    Undecided {
        /// The property, and why it was not decided.
        reason: String,
    },
    /// The thread axes of a layout do not form one chain of scopes.
    #[error("the thread axes form no chain of scopes: {reason}")]
    NoScope {
        /// The scope that no axis counts, or the two axes that count the same scope.
        reason: String,
    },
    /// A view that strides cannot express.
    #[error("{call} needs a copy: {reason}")]
    NeedsCopy {
        /// The requested view.
        call: &'static str,
        /// The dimension, and the rule of views that it breaks.
        reason: String,
    },
}

/// The part of the input that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutWitness {
    /// A flat index of the layout.
    Index(i64),
    /// A coordinate, one entry per dimension.
    Coordinate(Vec<i64>),
    /// Two flat indices, or two boundaries, that contradict each other.
    Pair(i64, i64),
    /// A dimension or iter, counted from 0.
    Dim(usize),
    /// A physical coordinate on named axes.
    Place(PhysicalCoordinate),
    /// A name.
    Name(String),
}

impl LayoutError {
    /// A stable identifier for programs, in snake case.
    pub fn kind(&self) -> &'static str {
        match self {
            LayoutError::UnknownAxis { .. } => "unknown_axis",
            LayoutError::BadAxisName { .. } => "bad_axis_name",
            LayoutError::AxisConflict { .. } => "axis_conflict",
            LayoutError::NegativeExtent { .. } => "negative_extent",
            LayoutError::Overflow { .. } => "overflow",
            LayoutError::SizeMismatch { .. } => "size_mismatch",
            LayoutError::LengthMismatch { .. } => "length_mismatch",
            LayoutError::CoordinateOutOfRange { .. } | LayoutError::IndexOutOfRange { .. } => {
                "out_of_range"
            }
            LayoutError::RegionOutOfRange { .. } => "region_out_of_range",
            LayoutError::NotGroupable { .. } => "not_groupable",
            LayoutError::NoCommonRefinement { .. } => "no_common_refinement",
            LayoutError::BadPermutation { .. } => "bad_permutation",
            LayoutError::BadSeparators { .. } => "bad_separators",
            LayoutError::BadSwizzle { .. } => "bad_swizzle",
            LayoutError::SwizzleDomain { .. } => "swizzle_domain",
            LayoutError::Padded { .. } => "padded",
            LayoutError::Swizzled { .. } => "swizzled",
            LayoutError::NotOneAxis { .. } => "not_one_axis",
            LayoutError::NotExpressible { .. } => "not_expressible",
            LayoutError::OutsideDomain { .. } => "outside_domain",
            LayoutError::Aliased { .. } => "aliased",
            LayoutError::NotCovered { .. } => "not_covered",
            LayoutError::NotPackable { .. } => "not_packable",
            LayoutError::BadParameter { .. } => "bad_parameter",
            LayoutError::NotPowerOfTwo { .. } => "not_power_of_two",
            LayoutError::BadBasis { .. } => "bad_basis",
            LayoutError::LinearDims { .. } => "linear_dims",
            LayoutError::NotInvertible { .. } => "not_invertible",
            LayoutError::TooLarge { .. } => "too_large",
            LayoutError::Undecided { .. } => "undecided",
            LayoutError::NoScope { .. } => "no_scope",
            LayoutError::NeedsCopy { .. } => "needs_copy",
        }
    }

    /// The part of the input that the error is about, if there is one.
    pub fn witness(&self) -> Option<LayoutWitness> {
        Some(match self {
            LayoutError::UnknownAxis { name, .. }
            | LayoutError::BadAxisName { name, .. }
            | LayoutError::AxisConflict { name }
            | LayoutError::BadBasis { dim: name, .. } => LayoutWitness::Name(name.clone()),
            LayoutError::NegativeExtent { index, .. } => LayoutWitness::Dim(*index),
            LayoutError::CoordinateOutOfRange { dim, .. }
            | LayoutError::RegionOutOfRange { dim, .. }
            | LayoutError::NotGroupable { dim, .. } => LayoutWitness::Dim(*dim),
            LayoutError::IndexOutOfRange { index, .. }
            | LayoutError::NotExpressible { index, .. }
            | LayoutError::OutsideDomain { index, .. }
            | LayoutError::NotPackable { index, .. } => LayoutWitness::Index(*index),
            LayoutError::Aliased { a, b, .. } => LayoutWitness::Pair(*a, *b),
            LayoutError::NotCovered { place } => LayoutWitness::Place((**place).clone()),
            LayoutError::NoCommonRefinement { a, b } => LayoutWitness::Pair(*a, *b),
            _ => return None,
        })
    }

    /// The error for a quantity that does not fit in 64 bits.
    pub fn overflow_of(what: impl fmt::Display) -> LayoutError {
        LayoutError::Overflow { what: what.to_string() }
    }

    pub(crate) fn not_on_one_axis(op: &'static str, axis: Axis, all: &[Axis]) -> LayoutError {
        let others: Vec<_> =
            all.iter().filter(|a| **a != axis).map(|a| format!("`{}`", a.name())).collect();
        let found = if others.is_empty() { "no memory axis".into() } else { others.join(", ") };
        LayoutError::NotOneAxis { op, axis: axis.name().to_string(), found }
    }
}
