//! Nested tuples: the shape of CuTe's shapes, strides and tilers.

/// A tuple of tuples with leaves of one type, as CuTe's `IntTuple`.
///
/// A leaf and a tuple of one leaf are different: `8` is not `(8)`, though both have 8 coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedTuple<T> {
    /// One entry.
    Leaf(T),
    /// Entries side by side, the first fastest.
    Tuple(Vec<NestedTuple<T>>),
}

impl<T> NestedTuple<T> {
    /// The entries at the top level; a leaf is the only entry of itself.
    pub fn top_modes(&self) -> &[NestedTuple<T>] {
        match self {
            // CuTe treats a leaf as a tuple of itself wherever modes are counted.
            NestedTuple::Leaf(_) => std::slice::from_ref(self),
            NestedTuple::Tuple(modes) => modes,
        }
    }

    /// The entries at the top level.
    pub fn into_top_modes(self) -> Vec<NestedTuple<T>> {
        match self {
            NestedTuple::Leaf(_) => vec![self],
            NestedTuple::Tuple(modes) => modes,
        }
    }

    /// Every leaf, in order.
    pub fn leaves(&self) -> Vec<&T> {
        let mut found = Vec::new();
        self.visit_leaves(&mut |leaf| found.push(leaf));
        found
    }

    fn visit_leaves<'a>(&'a self, f: &mut impl FnMut(&'a T)) {
        match self {
            NestedTuple::Leaf(leaf) => f(leaf),
            NestedTuple::Tuple(modes) => modes.iter().for_each(|m| m.visit_leaves(f)),
        }
    }

    /// The same nesting with other leaves.
    pub fn map_leaves<U>(&self, f: &mut impl FnMut(&T) -> U) -> NestedTuple<U> {
        match self {
            NestedTuple::Leaf(leaf) => NestedTuple::Leaf(f(leaf)),
            NestedTuple::Tuple(modes) => {
                NestedTuple::Tuple(modes.iter().map(|m| m.map_leaves(f)).collect())
            }
        }
    }

    /// The same nesting with other leaves, or the first refusal.
    pub fn try_map_leaves<U, E>(
        &self,
        f: &mut impl FnMut(&T) -> Result<U, E>,
    ) -> Result<NestedTuple<U>, E> {
        Ok(match self {
            NestedTuple::Leaf(leaf) => NestedTuple::Leaf(f(leaf)?),
            NestedTuple::Tuple(modes) => NestedTuple::Tuple(
                modes.iter().map(|m| m.try_map_leaves(f)).collect::<Result<_, E>>()?,
            ),
        })
    }

    /// The same nesting where every leaf may become a nest of its own.
    pub fn expand_leaves<U>(&self, f: &mut impl FnMut(&T) -> NestedTuple<U>) -> NestedTuple<U> {
        match self {
            NestedTuple::Leaf(leaf) => f(leaf),
            NestedTuple::Tuple(modes) => {
                NestedTuple::Tuple(modes.iter().map(|m| m.expand_leaves(f)).collect())
            }
        }
    }

    /// The text with parentheses and commas, without a space.
    pub fn print_nested(&self, leaf: &impl Fn(&T) -> String) -> String {
        let mut out = String::new();
        self.write_nested(leaf, &mut out);
        out
    }

    fn write_nested(&self, leaf: &impl Fn(&T) -> String, out: &mut String) {
        match self {
            NestedTuple::Leaf(value) => out.push_str(&leaf(value)),
            NestedTuple::Tuple(modes) => {
                out.push('(');
                for (i, mode) in modes.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    mode.write_nested(leaf, out);
                }
                out.push(')');
            }
        }
    }
}

/// One leaf by itself, several as a tuple, and `empty` for none.
pub(super) fn tuple_of_leaves<T>(mut leaves: Vec<T>, empty: T) -> NestedTuple<T> {
    match leaves.len() {
        0 => NestedTuple::Leaf(empty),
        1 => NestedTuple::Leaf(leaves.swap_remove(0)),
        _ => NestedTuple::Tuple(leaves.into_iter().map(NestedTuple::Leaf).collect()),
    }
}
