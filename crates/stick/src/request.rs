//! Requests for a device layout, made before the tensor is known.

use crate::StickLayout;

/// The requested properties of a device layout; without a request a tensor has the default layout.
///
/// A pin of a graph and the layout of an upload are both such requests, and each binds it to a tensor in
/// its own way: an upload keeps the order of the default layout, a pin has the stick dimension last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutRequest {
    /// Sticks along this dimension; negative ones count from the end.
    Stick(i64),
    /// One element in each stick.
    Sparse,
    /// The dimensions in this order, the last one in sticks; a trailing -1 is sparse.
    Order(Vec<i64>),
    /// Exactly this layout.
    Exactly(StickLayout),
}

impl LayoutRequest {
    /// The order of dimensions that requests one element in each stick.
    pub fn sparse_dim_order(rank: usize) -> Vec<i64> {
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        (0..rank).chain([-1]).collect()
    }
}
