//! Reductions over any set of dimensions.

use crate::dims::{PerDimension, resolve_dims};
use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// A reduction. NaN makes the result of each of them NaN, unless its description says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReductionKind {
    /// From 0.
    Sum,
    /// The sum divided by the number of elements.
    Mean,
    /// From 1.
    Prod,
    /// The largest; NaN is larger than all.
    Amax,
    /// The smallest; NaN is smaller than all.
    Amin,
    /// The largest, and its lowest place along the dimension.
    Max,
    /// The smallest, and its lowest place along the dimension.
    Min,
    /// The lowest place of the largest, among all reduced elements in row-major order.
    ArgMax,
    /// The lowest place of the smallest, as above.
    ArgMin,
    /// Whether one is not 0; NaN is not 0.
    Any,
    /// Whether none is 0.
    All,
    /// How many are not 0.
    CountNonzero,
    /// The sum of what is not NaN.
    NanSum,
    /// That sum divided by how many there are.
    NanMean,
    /// The variance about the mean, or its root.
    Var {
        /// Taken from the number of elements.
        correction: f32,
        /// The standard deviation.
        root: bool,
        /// With the mean as second result.
        mean: bool,
    },
    /// The mean, and the mean of the squares.
    Exx2,
    /// The logarithm of the sum of exponentials.
    LogSumExp,
    /// The p-th root of the sum of p-th powers of absolute values: for infinity the largest, for
    /// minus infinity the smallest of them, for 0 how many are not 0, for 2 the root of the squares.
    Norm {
        /// p.
        p: f32,
    },
}

impl ReductionKind {
    /// Whether there is no result of no elements.
    pub fn needs_elements(self) -> bool {
        use ReductionKind::{Amax, Amin, ArgMax, ArgMin, Max, Min, Norm};
        // Sums and products of nothing are 0 and 1; an extreme of nothing would be an invented number.
        matches!(self, Amax | Amin | Max | Min | ArgMax | ArgMin)
            || matches!(self, Norm { p } if p.is_infinite() || p < 0.0)
    }

    /// Whether results are places among the reduced elements, or a number of them.
    pub fn yields_counts(self) -> bool {
        use ReductionKind::{ArgMax, ArgMin, CountNonzero, Max, Min};
        matches!(self, Max | Min | ArgMax | ArgMin | CountNonzero)
    }

    pub fn floats_only(self) -> bool {
        use ReductionKind::{Exx2, LogSumExp, Mean, NanMean, Norm, Var};
        matches!(self, Mean | NanMean | Var { .. } | Exx2 | LogSumExp | Norm { .. })
    }

    /// The dtypes of the results.
    pub fn result_dtypes(self, x: Dtype) -> Vec<Dtype> {
        match self {
            ReductionKind::Sum | ReductionKind::Prod | ReductionKind::NanSum => vec![sum_dtype(x)],
            ReductionKind::Max | ReductionKind::Min => vec![x, Dtype::Int64],
            ReductionKind::ArgMax | ReductionKind::ArgMin | ReductionKind::CountNonzero => {
                vec![Dtype::Int64]
            }
            // PyTorch keeps uint8 here.
            ReductionKind::Any | ReductionKind::All if x != Dtype::Uint8 => vec![Dtype::Bool],
            ReductionKind::Var { mean: true, .. } | ReductionKind::Exx2 => vec![x, x],
            _ => vec![x],
        }
    }
}

/// The dtype of sums and products: integers and bool add up in int64.
pub(super) fn sum_dtype(dtype: Dtype) -> Dtype {
    if is_float(dtype) { dtype } else { Dtype::Int64 }
}

/// A reduction with its dimensions.
#[derive(Debug, Clone)]
pub struct ReduceOp {
    pub name: &'static str,
    pub what: ReductionKind,
    /// None: all of them.
    pub dims: Option<Vec<i64>>,
    pub keepdim: bool,
}

impl ReduceOp {
    /// The dimensions that are reduced.
    pub fn reduced_dims(&self, rank: usize) -> Result<PerDimension<usize>> {
        resolve_dims(self.name, self.dims.as_deref(), rank)
    }

    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let reason = format!("it takes 1 operand, not {}", inputs.len());
            return Err(refuse_operand(self.name, None, reason));
        };
        let gone = self.reduced_dims(x.size.len())?;
        if self.what.needs_elements()
            && let Some(d) = gone.iter().find(|d| x.size[**d] == 0)
        {
            let reason = format!("dimension {d} has no elements, and of none there is no result");
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        let reduced = gone.iter().try_fold(1i64, |all, d| all.checked_mul(x.size[*d]));
        // Places are counted in 32 bits on the card, although their dtype is int64: a larger one would wrap without
        // anybody noticing.
        if self.what.yields_counts() && reduced.is_none_or(|n| i32::try_from(n).is_err()) {
            let line = gone.iter().map(|d| x.size[*d]).collect::<Vec<_>>();
            let reason = format!("among {line:?} elements there are places past 32 bits");
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        if self.what.floats_only() && !is_float(x.dtype) {
            let reason = format!("it is for floats, not {}; convert the operand first", x.dtype);
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        let kept = x.size.iter().enumerate().filter(|(d, _)| self.keepdim || !gone.contains(d));
        let size: Vec<i64> = kept.map(|(d, n)| if gone.contains(&d) { 1 } else { *n }).collect();
        let dtypes = self.what.result_dtypes(x.dtype);
        Ok(dtypes.into_iter().map(|dtype| TensorType { size: size.clone(), dtype }).collect())
    }
}
