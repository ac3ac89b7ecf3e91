//! Boxes of elements.

/// The elements whose index is inside a half-open range in every dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorBox {
    ranges: Vec<(i64, i64)>,
}

impl TensorBox {
    /// The box of these ranges, `(begin, end)` by dimension. Whether it is inside a tensor is checked where it becomes
    /// part of a [`TensorDivision`](crate::TensorDivision), which knows the shape.
    pub fn new(ranges: Vec<(i64, i64)>) -> TensorBox {
        TensorBox { ranges }
    }

    /// The whole tensor.
    pub fn whole(shape: &[i64]) -> TensorBox {
        TensorBox { ranges: shape.iter().map(|n| (0, *n)).collect() }
    }

    /// Begin and end in every dimension.
    pub fn ranges(&self) -> &[(i64, i64)] {
        &self.ranges
    }

    /// The number of elements.
    pub fn element_count(&self) -> i64 {
        self.ranges.iter().map(|(begin, end)| end - begin).product()
    }

    /// Those dimensions in which the box is a part of the tensor, with their ranges.
    pub fn partial_ranges<'a>(
        &'a self,
        shape: &'a [i64],
    ) -> impl Iterator<Item = (usize, i64, i64)> + 'a {
        let parts = self.ranges.iter().zip(shape).enumerate();
        parts.filter(|(_, (r, n))| **r != (0, **n)).map(|(d, (r, _))| (d, r.0, r.1))
    }

    /// Whether an element is inside.
    pub fn contains(&self, element: &[i64]) -> bool {
        self.ranges.iter().zip(element).all(|((begin, end), i)| begin <= i && i < end)
    }
}
