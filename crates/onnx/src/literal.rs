//! Small tensors whose elements are known when a model is read: shapes, axes, numbers.

use crate::carried::{carrier, fit};
use crate::error::{OnnxError, Result};
use zellige_float::Dtype;
use zellige_float::{Converter, Format};

/// Elements of a literal at most: what has more is computed by the graph.
pub(crate) const MOST: usize = 4096;
/// Floats of an initializer that count as literal at most: what has more is a weight.
pub(crate) const MOST_FLOATS: usize = 64;

/// A tensor with its elements in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Literal {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i64>,
    pub(crate) data: Numbers,
}

/// Elements; truth values are 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Numbers {
    Int(Vec<i64>),
    Float(Vec<f64>),
}

pub(crate) fn is_float(dtype: Dtype) -> bool {
    carrier(dtype).number_format().is_some_and(Format::is_float)
}

impl Literal {
    /// Whole numbers in a row.
    pub(crate) fn ints(list: Vec<i64>) -> Literal {
        let shape = vec![i64::try_from(list.len()).unwrap_or(i64::MAX)];
        Literal { dtype: Dtype::Int64, shape, data: Numbers::Int(list) }
    }

    /// From elements in the formats of a file: floats as float64, others as int64.
    pub(crate) fn decode(dtype: Dtype, shape: &[i64], bytes: &[u8]) -> Option<Literal> {
        let format = carrier(dtype).number_format()?;
        let count = bytes.len() / format.byte_size();
        let mut wide = vec![0; count * 8];
        let to = if format.is_float() { Format::F64 } else { Format::I64 };
        Converter::new(format, to).convert(bytes, &mut wide, count).ok()?;
        let eights = wide.as_chunks::<8>().0;
        let data = if format.is_float() {
            Numbers::Float(eights.iter().map(|b| f64::from_le_bytes(*b)).collect())
        } else {
            Numbers::Int(eights.iter().map(|b| i64::from_le_bytes(*b)).collect())
        };
        Some(Literal { dtype, shape: shape.to_vec(), data })
    }

    /// Its elements as they lie in memory.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let format = carrier(self.dtype).number_format()?;
        let (from, wide): (Format, Vec<u8>) = match &self.data {
            Numbers::Int(v) => {
                let fitting = v.iter().map(|x| fit(self.dtype, *x));
                (Format::I64, fitting.flat_map(i64::to_le_bytes).collect())
            }
            Numbers::Float(v) => (Format::F64, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let mut out = vec![0; self.len() * format.byte_size()];
        Converter::new(from, format).convert(&wide, &mut out, self.len()).ok()?;
        Some(out)
    }

    /// Elements.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Numbers::Int(v) => v.len(),
            Numbers::Float(v) => v.len(),
        }
    }

    /// Element `i` as a number.
    pub(crate) fn number(&self, i: usize) -> f64 {
        match &self.data {
            Numbers::Int(v) => v[i] as f64,
            Numbers::Float(v) => v[i],
        }
    }

    /// Its whole numbers; none of floats.
    pub(crate) fn whole(&self) -> Option<&[i64]> {
        match &self.data {
            Numbers::Int(v) => Some(v),
            Numbers::Float(_) => None,
        }
    }

    /// The value of all elements, where they are equal.
    pub(crate) fn uniform(&self) -> Option<f64> {
        let first = (self.len() > 0).then(|| self.number(0))?;
        (1..self.len()).all(|i| self.number(i) == first).then_some(first)
    }

    /// The literal of this shape whose elements are those of `self` at `places`.
    pub(crate) fn pick(&self, shape: Vec<i64>, places: impl Iterator<Item = usize>) -> Literal {
        let data = match &self.data {
            Numbers::Int(v) => Numbers::Int(places.map(|i| v[i]).collect()),
            Numbers::Float(v) => Numbers::Float(places.map(|i| v[i]).collect()),
        };
        Literal { dtype: self.dtype, shape, data }
    }

    /// The elements in another shape of as many.
    pub(crate) fn reshaped(&self, shape: Vec<i64>) -> Literal {
        Literal { shape, ..self.clone() }
    }

    /// The same numbers in another dtype, as PyTorch converts them.
    pub(crate) fn cast(&self, dtype: Dtype) -> Option<Literal> {
        let truth = |x: bool| i64::from(x);
        let data = match (&self.data, is_float(dtype)) {
            (Numbers::Int(v), _) if dtype == Dtype::Bool => {
                Numbers::Int(v.iter().map(|x| truth(*x != 0)).collect())
            }
            (Numbers::Float(v), _) if dtype == Dtype::Bool => {
                Numbers::Int(v.iter().map(|x| truth(*x != 0.0)).collect())
            }
            (Numbers::Int(v), true) => Numbers::Float(v.iter().map(|x| *x as f64).collect()),
            #[allow(clippy::cast_possible_truncation, reason = "saturates, as the card does")]
            (Numbers::Float(v), false) => Numbers::Int(v.iter().map(|x| *x as i64).collect()),
            (same, _) => same.clone(),
        };
        Literal { dtype, shape: self.shape.clone(), data }.rounded()
    }

    /// Elements rounded to the dtype.
    pub(crate) fn rounded(self) -> Option<Literal> {
        let bytes = self.encode()?;
        Literal::decode(self.dtype, &self.shape, &bytes)
    }
}

/// A number as an attribute; what JSON has no number for is a text.
pub(crate) fn number(x: f64) -> serde_json::Value {
    match x {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        x => x.into(),
    }
}

/// Elements of a shape; none where its extents that are not 0 make 2^63 or more, as strides are built on
/// them too.
pub(crate) fn numel(shape: &[i64]) -> Option<i64> {
    let extent = |d: &i64| (*d >= 0).then_some((*d).max(1));
    let all = shape.iter().try_fold(1i64, |n, d| n.checked_mul(extent(d)?))?;
    Some(if shape.contains(&0) { 0 } else { all })
}

/// The shape that two broadcast to.
pub(crate) fn broadcast(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
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

/// For every coordinate of `shape` in row-major order, the row-major index in a tensor of which each
/// dimension of `shape` advances by a stride, from `start` on.
pub(crate) fn places(shape: &[i64], strides: &[i64], start: i64) -> Vec<usize> {
    let count = numel(shape).and_then(|n| usize::try_from(n).ok()).unwrap_or(0).min(MOST);
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
pub(crate) fn strides(shape: &[i64]) -> Vec<i64> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * shape[d].max(1);
    }
    out
}

/// Strides of a tensor seen through a shape that it broadcasts to.
pub(crate) fn broadcast_strides(of: &[i64], to: &[i64]) -> Vec<i64> {
    let own = strides(of);
    let lead = to.len() - of.len();
    let stride = |d: usize| if d < lead || of[d - lead] == 1 { 0 } else { own[d - lead] };
    (0..to.len()).map(stride).collect()
}

/// Literals of one shape and dtype as the rows of one; none where they are too many together.
pub(crate) fn stack(rows: &[std::rc::Rc<Literal>]) -> Option<Literal> {
    let first = rows.first()?;
    if first.len().saturating_mul(rows.len()) > MOST {
        return None;
    }
    let whole: Option<Vec<&[i64]>> = rows.iter().map(|l| l.whole()).collect();
    let data = match whole {
        Some(parts) => Numbers::Int(parts.concat()),
        None => {
            Numbers::Float(rows.iter().flat_map(|l| (0..l.len()).map(|i| l.number(i))).collect())
        }
    };
    let shape = [&[i64::try_from(rows.len()).ok()?], &first.shape[..]].concat();
    Some(Literal { dtype: first.dtype, shape, data })
}

/// One result of two literals, element by element.
pub(crate) fn zip(
    a: &Literal,
    b: &Literal,
    dtype: Dtype,
    int: impl Fn(i64, i64) -> Option<i64>,
    float: impl Fn(f64, f64) -> f64,
) -> Result<Option<Literal>> {
    let Some(shape) = broadcast(&a.shape, &b.shape) else {
        let message = format!("{:?} and {:?} do not broadcast", a.shape, b.shape);
        return Err(OnnxError::new("bad_operand", message));
    };
    if numel(&shape).is_none_or(|n| n > MOST as i64) {
        return Ok(None);
    }
    let left = places(&shape, &broadcast_strides(&a.shape, &shape), 0);
    let right = places(&shape, &broadcast_strides(&b.shape, &shape), 0);
    let pairs = left.into_iter().zip(right);
    let data = match (&a.data, &b.data) {
        (Numbers::Int(x), Numbers::Int(y)) => {
            let all: Option<Vec<i64>> = pairs.map(|(i, j)| int(x[i], y[j])).collect();
            let Some(all) = all else { return Ok(None) };
            Numbers::Int(all)
        }
        _ => Numbers::Float(pairs.map(|(i, j)| float(a.number(i), b.number(j))).collect()),
    };
    let made = Literal { dtype: a.dtype, shape, data };
    Ok(if dtype == a.dtype { made.rounded() } else { made.cast(dtype) })
}
