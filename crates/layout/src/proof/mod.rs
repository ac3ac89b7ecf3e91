//! What can be proved about a layout without enumerating it.

mod bounds;

pub(crate) use bounds::swizzled_bounds;
