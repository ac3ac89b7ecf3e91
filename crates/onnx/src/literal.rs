//! Small tensors whose elements are known when a model is read: shapes, axes, numbers.

use crate::carried::{carrier_dtype, fit_integer};
use crate::error::{OnnxError, Result};
use zellige_float::Dtype;
use zellige_float::{Converter, Format};

/// The largest number of elements of a literal; larger tensors are computed by the graph.
// Shapes have a few elements. Tables of positions, which exporters also compute with constants,
// have a few thousand; beyond that the graph computes them like any other tensor.
pub(crate) const MAX_LITERAL_ELEMENTS: usize = 4096;
/// The largest number of floats of an initializer that is read as a literal; a larger one is a
/// weight.
pub(crate) const MOST_FLOATS: usize = 64;

/// A tensor with its elements in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorLiteral {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i64>,
    pub(crate) data: LiteralNumbers,
}

/// The elements of a literal; truth values are 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LiteralNumbers {
    Int(Vec<i64>),
    Float(Vec<f64>),
}

pub(crate) fn is_float(dtype: Dtype) -> bool {
    carrier_dtype(dtype).number_format().is_some_and(Format::is_float)
}

impl TensorLiteral {
    /// A list of integers.
    pub(crate) fn from_ints(list: Vec<i64>) -> TensorLiteral {
        let shape = vec![i64::try_from(list.len()).unwrap_or(i64::MAX)];
        TensorLiteral { dtype: Dtype::Int64, shape, data: LiteralNumbers::Int(list) }
    }

    /// Decodes elements in the formats of a file: floats as float64, others as int64.
    pub(crate) fn decode_elements(
        dtype: Dtype,
        shape: &[i64],
        bytes: &[u8],
    ) -> Option<TensorLiteral> {
        let format = carrier_dtype(dtype).number_format()?;
        let count = bytes.len() / format.byte_size();
        let mut wide = vec![0; count * 8];
        let to = if format.is_float() { Format::F64 } else { Format::I64 };
        Converter::new(format, to).convert(bytes, &mut wide, count).ok()?;
        let eights = wide.as_chunks::<8>().0;
        let data = if format.is_float() {
            LiteralNumbers::Float(eights.iter().map(|b| f64::from_le_bytes(*b)).collect())
        } else {
            LiteralNumbers::Int(eights.iter().map(|b| i64::from_le_bytes(*b)).collect())
        };
        Some(TensorLiteral { dtype, shape: shape.to_vec(), data })
    }

    /// Encodes its elements as they are in memory.
    pub(crate) fn encode_elements(&self) -> Option<Vec<u8>> {
        let format = carrier_dtype(self.dtype).number_format()?;
        let (from, wide): (Format, Vec<u8>) = match &self.data {
            LiteralNumbers::Int(v) => {
                // A carried type wraps in its own bits: 300 as uint4 is 12, while the 8 bits of its
                // carrier would give 44.
                let fitting = v.iter().map(|x| fit_integer(self.dtype, *x));
                (Format::I64, fitting.flat_map(i64::to_le_bytes).collect())
            }
            LiteralNumbers::Float(v) => {
                (Format::F64, v.iter().flat_map(|x| x.to_le_bytes()).collect())
            }
        };
        let mut out = vec![0; self.len() * format.byte_size()];
        Converter::new(from, format).convert(&wide, &mut out, self.len()).ok()?;
        Some(out)
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            LiteralNumbers::Int(v) => v.len(),
            LiteralNumbers::Float(v) => v.len(),
        }
    }

    /// Element `i` as a number.
    pub(crate) fn number_at(&self, i: usize) -> f64 {
        match &self.data {
            LiteralNumbers::Int(v) => v[i] as f64,
            LiteralNumbers::Float(v) => v[i],
        }
    }

    /// Its integers; `None` for floats.
    pub(crate) fn whole_numbers(&self) -> Option<&[i64]> {
        match &self.data {
            LiteralNumbers::Int(v) => Some(v),
            LiteralNumbers::Float(_) => None,
        }
    }

    /// The value of all elements, if they are equal.
    pub(crate) fn uniform_number(&self) -> Option<f64> {
        let first = (self.len() > 0).then(|| self.number_at(0))?;
        // NaN is unequal to itself, so a tensor of NaNs is not uniform and is stored element by
        // element.
        (1..self.len()).all(|i| self.number_at(i) == first).then_some(first)
    }

    /// The literal of this shape with the elements of `self` at these positions.
    pub(crate) fn pick_elements(
        &self,
        shape: Vec<i64>,
        places: impl Iterator<Item = usize>,
    ) -> TensorLiteral {
        let data = match &self.data {
            LiteralNumbers::Int(v) => LiteralNumbers::Int(places.map(|i| v[i]).collect()),
            LiteralNumbers::Float(v) => LiteralNumbers::Float(places.map(|i| v[i]).collect()),
        };
        TensorLiteral { dtype: self.dtype, shape, data }
    }

    /// The same elements in another shape.
    pub(crate) fn with_shape(&self, shape: Vec<i64>) -> TensorLiteral {
        TensorLiteral { shape, ..self.clone() }
    }

    /// The same numbers in another dtype, as PyTorch converts them.
    pub(crate) fn cast_to(&self, dtype: Dtype) -> Option<TensorLiteral> {
        let truth = |x: bool| i64::from(x);
        let data = match (&self.data, is_float(dtype)) {
            (LiteralNumbers::Int(v), _) if dtype == Dtype::Bool => {
                LiteralNumbers::Int(v.iter().map(|x| truth(*x != 0)).collect())
            }
            (LiteralNumbers::Float(v), _) if dtype == Dtype::Bool => {
                LiteralNumbers::Int(v.iter().map(|x| truth(*x != 0.0)).collect())
            }
            (LiteralNumbers::Int(v), true) => {
                LiteralNumbers::Float(v.iter().map(|x| *x as f64).collect())
            }
            #[allow(clippy::cast_possible_truncation, reason = "saturates, as the card does")]
            (LiteralNumbers::Float(v), false) => {
                LiteralNumbers::Int(v.iter().map(|x| *x as i64).collect())
            }
            (same, _) => same.clone(),
        };
        TensorLiteral { dtype, shape: self.shape.clone(), data }.round_to_dtype()
    }

    /// Rounds the elements to the dtype.
    pub(crate) fn round_to_dtype(self) -> Option<TensorLiteral> {
        let bytes = self.encode_elements()?;
        TensorLiteral::decode_elements(self.dtype, &self.shape, &bytes)
    }
}

/// The number of elements of a shape; `None` if the product of its nonzero sizes is 2^63 or more,
/// because strides are products of them.
pub(crate) fn element_count(shape: &[i64]) -> Option<i64> {
    let extent = |d: &i64| (*d >= 0).then_some((*d).max(1));
    let all = shape.iter().try_fold(1i64, |n, d| n.checked_mul(extent(d)?))?;
    // The product is checked without the zeros, because an empty tensor of a huge shape still has
    // strides.
    Some(if shape.contains(&0) { 0 } else { all })
}

/// The shape that two shapes broadcast to.
pub(crate) fn broadcast_shapes(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let at = |s: &[i64], d: usize| if d + s.len() < rank { 1 } else { s[d + s.len() - rank] };
    let one = |d: usize| match (at(a, d), at(b, d)) {
        (x, y) if x == y => Some(x),
        (1, y) => Some(y),
        (x, 1) => Some(x),
        _ => None,
    };
    (0..rank).map(one).collect()
}

/// The indices `start + sum(coordinate * stride)` for every coordinate of `shape` in row-major
/// order.
pub(crate) fn strided_indices(shape: &[i64], strides: &[i64], start: i64) -> Vec<usize> {
    let count = element_count(shape)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(0)
        // Callers check the number of elements first; the limit here keeps a mistake from
        // allocating without bound.
        .min(MAX_LITERAL_ELEMENTS);
    let mut coordinate = vec![0i64; shape.len()];
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        let at: i64 = coordinate.iter().zip(strides).map(|(c, s)| c * s).sum::<i64>() + start;
        out.push(usize::try_from(at).unwrap_or(0));
        for d in (0..shape.len()).rev() {
            coordinate[d] += 1;
            if coordinate[d] < shape[d] {
                break;
            }
            coordinate[d] = 0;
        }
    }
    out
}

/// Row-major strides.
pub(crate) fn row_major_strides(shape: &[i64]) -> Vec<i64> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * shape[d].max(1);
    }
    out
}

/// The strides of a tensor broadcast to a shape: 0 along broadcast dimensions.
pub(crate) fn broadcast_strides(of: &[i64], to: &[i64]) -> Vec<i64> {
    let own = row_major_strides(of);
    let lead = to.len() - of.len();
    let stride = |d: usize| if d < lead || of[d - lead] == 1 { 0 } else { own[d - lead] };
    (0..to.len()).map(stride).collect()
}

/// Stacks literals of one shape and dtype as rows; `None` if the result would be too large.
pub(crate) fn stack_literals(rows: &[std::rc::Rc<TensorLiteral>]) -> Option<TensorLiteral> {
    let first = rows.first()?;
    // Refused before anything is copied: the rows may be results of thousands of iterations.
    if first.len().saturating_mul(rows.len()) > MAX_LITERAL_ELEMENTS {
        return None;
    }
    let whole: Option<Vec<&[i64]>> = rows.iter().map(|l| l.whole_numbers()).collect();
    let data = match whole {
        Some(parts) => LiteralNumbers::Int(parts.concat()),
        None => LiteralNumbers::Float(
            rows.iter().flat_map(|l| (0..l.len()).map(|i| l.number_at(i))).collect(),
        ),
    };
    let shape = [&[i64::try_from(rows.len()).ok()?], &first.shape[..]].concat();
    Some(TensorLiteral { dtype: first.dtype, shape, data })
}

/// Combines two literals element by element, with broadcasting.
pub(crate) fn zip_literals(
    a: &TensorLiteral,
    b: &TensorLiteral,
    dtype: Dtype,
    int: impl Fn(i64, i64) -> Option<i64>,
    float: impl Fn(f64, f64) -> f64,
) -> Result<Option<TensorLiteral>> {
    let Some(shape) = broadcast_shapes(&a.shape, &b.shape) else {
        let message = format!("{:?} and {:?} do not broadcast", a.shape, b.shape);
        return Err(OnnxError::new("bad_operand", message));
    };
    if element_count(&shape).is_none_or(|n| n > MAX_LITERAL_ELEMENTS as i64) {
        return Ok(None);
    }
    let left = strided_indices(&shape, &broadcast_strides(&a.shape, &shape), 0);
    let right = strided_indices(&shape, &broadcast_strides(&b.shape, &shape), 0);
    let pairs = left.into_iter().zip(right);
    let data = match (&a.data, &b.data) {
        (LiteralNumbers::Int(x), LiteralNumbers::Int(y)) => {
            let all: Option<Vec<i64>> = pairs.map(|(i, j)| int(x[i], y[j])).collect();
            let Some(all) = all else { return Ok(None) };
            LiteralNumbers::Int(all)
        }
        _ => LiteralNumbers::Float(
            pairs.map(|(i, j)| float(a.number_at(i), b.number_at(j))).collect(),
        ),
    };
    let made = TensorLiteral { dtype: a.dtype, shape, data };
    // Folding must give what the card would: the result is rounded or wrapped to its dtype.
    Ok(if dtype == a.dtype { made.round_to_dtype() } else { made.cast_to(dtype) })
}
