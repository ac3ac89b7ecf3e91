//! Sorted lines, and what they give: the first few elements, one of them, medians and quantiles.

use super::lines::{LineOperation, LineResults, check_operand_count};
use crate::dims::{self, PerDimension};
use crate::dtype::is_float;
use crate::error::{OpError, Result, refuse_operand};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// The dimensions of a line along `dim`; without one the whole tensor is a line.
fn line_dims(op: &str, dim: Option<i64>, rank: usize) -> Result<PerDimension<usize>> {
    Ok(match dim {
        None => (0..rank).collect(),
        Some(dim) => dims::resolve_dim(op, "dim", dim, rank)?.into_iter().collect(),
    })
}

/// Which elements of the sorted line are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickRule {
    /// All.
    All,
    /// The first `k`.
    First(usize),
    /// The k-th, from 1.
    Kth(usize),
    /// The lower one of those in the middle; the first NaN where there is one.
    Median,
}

/// An operation that sorts lines and gives elements with their indices.
#[derive(Debug, Clone)]
pub struct PickOp {
    pub name: &'static str,
    /// None: the whole tensor is one line, and only the value is given.
    pub dim: Option<i64>,
    pub which: PickRule,
    pub descending: bool,
    pub keepdim: bool,
    pub gives: LineResults,
}

impl LineOperation for PickOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        check_operand_count(self.name, inputs, 1, 1)?;
        let TensorType { mut size, dtype } = inputs[0].clone();
        let n = match self.dim {
            None => size.iter().product(),
            Some(dim) => {
                dims::resolve_dim(self.name, "dim", dim, size.len())?.map_or(1, |d| size[d])
            }
        };
        let (k, named) = match self.which {
            PickRule::First(k) | PickRule::Kth(k) => (i64::try_from(k).unwrap_or(i64::MAX), "k"),
            PickRule::All | PickRule::Median => (0, ""),
        };
        // The k-th is counted from 1, as in PyTorch; the first 0 elements are an empty result.
        let least = i64::from(matches!(self.which, PickRule::Kth(_)));
        if k > n || k < least {
            let reason = format!("{k} is not among the {n} elements; accepted are {least} to {n}");
            return Err(OpError::BadAttribute { op: self.name.into(), name: named.into(), reason });
        }
        if self.which == PickRule::Median && n == 0 {
            return Err(refuse_operand(
                self.name,
                Some(0),
                "it has no elements, and of none no median",
            ));
        }
        // Indices are computed in 32 bits on the card.
        if i32::try_from(n).is_err() {
            let reason = format!("a line of {n} elements has indices past 32 bits");
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        match (self.dim, self.which) {
            // The whole tensor is one line, so that the result is a single number.
            (None, _) => size.clear(),
            (_, PickRule::All) => {}
            (Some(dim), which) => {
                if let Some(d) = dims::resolve_dim(self.name, "dim", dim, size.len())? {
                    match which {
                        PickRule::First(_) => size[d] = k,
                        _ if self.keepdim => size[d] = 1,
                        _ => drop(size.remove(d)),
                    }
                }
            }
        }
        let of = |dtype| TensorType { size: size.clone(), dtype };
        Ok(match self.gives {
            LineResults::Values => vec![of(dtype)],
            LineResults::Indices => vec![of(Dtype::Int64)],
            LineResults::Both => vec![of(dtype), of(Dtype::Int64)],
        })
    }

    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>> {
        line_dims(self.name, self.dim, size.len())
    }

    fn drops_line(&self) -> bool {
        !self.keepdim
    }

    fn line_results(&self) -> LineResults {
        self.gives
    }
}

/// The value of a rank between two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantileInterpolation {
    /// On the line between them.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The nearer one; halfway, the one with the even rank.
    Nearest,
    /// Their mean.
    Midpoint,
}

/// The element of rank q (n - 1) in the sorted line of n, with `between` where that is no integer:
/// low + (high - low) * fraction in float32. A line with a NaN gives NaN; with `skip`, NaN is left
/// out, and a line of nothing else gives NaN.
#[derive(Debug, Clone)]
pub struct QuantileOp {
    pub name: &'static str,
    pub q: f64,
    pub dim: Option<i64>,
    pub keepdim: bool,
    pub between: QuantileInterpolation,
    pub skip: bool,
}

impl LineOperation for QuantileOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        check_operand_count(self.name, inputs, 1, 1)?;
        let TensorType { mut size, dtype } = inputs[0].clone();
        if !(0.0..=1.0).contains(&self.q) {
            let reason = format!("{} is not between 0 and 1", self.q);
            return Err(OpError::BadAttribute { op: self.name.into(), name: "q".into(), reason });
        }
        if !is_float(dtype) {
            let reason = format!("it is for floats, not {dtype}; convert the operand first");
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        let whole: Vec<usize> = size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let along = self.line_dims(&whole)?;
        if along.iter().any(|d| size[*d] == 0) {
            return Err(refuse_operand(
                self.name,
                Some(0),
                "it has no elements, and of none no quantile",
            ));
        }
        // From the last dimension on, so that removing one leaves the numbers of the others.
        for d in along.iter().rev() {
            if self.keepdim {
                size[*d] = 1;
            } else {
                size.remove(*d);
            }
        }
        Ok(vec![TensorType { size, dtype }])
    }

    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>> {
        line_dims(self.name, self.dim, size.len())
    }

    fn drops_line(&self) -> bool {
        !self.keepdim
    }
}
