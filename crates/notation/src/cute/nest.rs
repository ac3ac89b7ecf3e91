//! Nested tuples: the shape of CuTe's shapes, strides and tilers.

/// A tuple of tuples with leaves of one type, as CuTe's `IntTuple`.
///
/// A leaf and a tuple of one leaf are different: `8` is not `(8)`, though both have 8 coordinates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nest<T> {
    /// One entry.
    Leaf(T),
    /// Entries side by side, the first fastest.
    Tuple(Vec<Nest<T>>),
}

impl<T> Nest<T> {
    /// The entries at the top level; a leaf is the only entry of itself.
    pub fn modes(&self) -> &[Nest<T>] {
        match self {
            Nest::Leaf(_) => std::slice::from_ref(self),
            Nest::Tuple(modes) => modes,
        }
    }

    /// The entries at the top level.
    pub fn into_modes(self) -> Vec<Nest<T>> {
        match self {
            Nest::Leaf(_) => vec![self],
            Nest::Tuple(modes) => modes,
        }
    }

    /// Every leaf, in order.
    pub fn leaves(&self) -> Vec<&T> {
        let mut found = Vec::new();
        self.visit(&mut |leaf| found.push(leaf));
        found
    }

    fn visit<'a>(&'a self, f: &mut impl FnMut(&'a T)) {
        match self {
            Nest::Leaf(leaf) => f(leaf),
            Nest::Tuple(modes) => modes.iter().for_each(|m| m.visit(f)),
        }
    }

    /// The same nesting with other leaves.
    pub fn map<U>(&self, f: &mut impl FnMut(&T) -> U) -> Nest<U> {
        match self {
            Nest::Leaf(leaf) => Nest::Leaf(f(leaf)),
            Nest::Tuple(modes) => Nest::Tuple(modes.iter().map(|m| m.map(f)).collect()),
        }
    }

    /// The same nesting with other leaves, or the first refusal.
    pub fn try_map<U, E>(&self, f: &mut impl FnMut(&T) -> Result<U, E>) -> Result<Nest<U>, E> {
        Ok(match self {
            Nest::Leaf(leaf) => Nest::Leaf(f(leaf)?),
            Nest::Tuple(modes) => {
                Nest::Tuple(modes.iter().map(|m| m.try_map(f)).collect::<Result<_, E>>()?)
            }
        })
    }

    /// The same nesting where every leaf may become a nest of its own.
    pub fn expand<U>(&self, f: &mut impl FnMut(&T) -> Nest<U>) -> Nest<U> {
        match self {
            Nest::Leaf(leaf) => f(leaf),
            Nest::Tuple(modes) => Nest::Tuple(modes.iter().map(|m| m.expand(f)).collect()),
        }
    }

    /// The text with parentheses and commas, without a space.
    pub fn print(&self, leaf: &impl Fn(&T) -> String) -> String {
        let mut out = String::new();
        self.write(leaf, &mut out);
        out
    }

    fn write(&self, leaf: &impl Fn(&T) -> String, out: &mut String) {
        match self {
            Nest::Leaf(value) => out.push_str(&leaf(value)),
            Nest::Tuple(modes) => {
                out.push('(');
                for (i, mode) in modes.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    mode.write(leaf, out);
                }
                out.push(')');
            }
        }
    }
}

/// One leaf as it is, several as a tuple; none is what `empty` says.
pub(super) fn tuple_of<T>(mut leaves: Vec<T>, empty: T) -> Nest<T> {
    match leaves.len() {
        0 => Nest::Leaf(empty),
        1 => Nest::Leaf(leaves.swap_remove(0)),
        _ => Nest::Tuple(leaves.into_iter().map(Nest::Leaf).collect()),
    }
}
