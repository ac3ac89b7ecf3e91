//! Operations that only move elements: tensors side by side, tensors written into others, borders.

use crate::error::{OpError, Result};
use crate::promotion::promote_dtypes;
use crate::scalar::HostScalar;
use crate::tensor_type::TensorType;
use std::fmt;

/// What is wrong with the operands, and which one.
pub(super) type OperandRefusal = (Option<usize>, String);

/// The dimension that a number counted from either end names.
pub fn resolve_axis(dim: i64, rank: usize) -> Result<usize, OperandRefusal> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    match usize::try_from(if dim < 0 { dim + n } else { dim }) {
        Ok(d) if d < rank => Ok(d),
        _ => {
            Err((None, format!("there is no dimension {dim}; dimensions are {} to {}", -n, n - 1)))
        }
    }
}

/// The only operand.
pub(super) fn only_operand(inputs: &[TensorType]) -> Result<&TensorType, OperandRefusal> {
    match inputs {
        [x] => Ok(x),
        _ => Err((None, format!("it takes 1 operand, not {}", inputs.len()))),
    }
}

/// The rule of an operation that only moves elements.
pub trait MoveRule: fmt::Debug + Send + Sync + 'static {
    /// Size and dtype of the result; a reason where operands do not fit, with the operand.
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal>;

    /// Which dimension of the result dimension `dim` of an operand of that rank becomes.
    fn result_dim(&self, dim: usize, _rank: usize) -> usize {
        dim
    }
}

/// Such an operation.
#[derive(Debug, Clone)]
pub struct MoveForm<M> {
    pub name: &'static str,
    pub rule: M,
}

impl<M: MoveRule> MoveForm<M> {
    /// Size and dtype of the result.
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let refuse =
            |(operand, reason)| OpError::BadOperand { op: self.name.into(), operand, reason };
        let result = self.rule.infer_type(inputs).map_err(refuse)?;
        // A dtype without a format on the device is refused here, because nothing is computed that would refuse it
        // later.
        zellige_stick::DataFormat::device_format_of(result.dtype)?;
        Ok(vec![result])
    }
}

/// Operands one after the other along a dimension; with `new`, along a dimension of their own.
#[derive(Debug, Clone)]
pub struct ConcatOp {
    pub dim: i64,
    pub new: bool,
}

impl ConcatOp {
    /// The dimension in the result; operands have been checked.
    pub fn concat_dim(&self, rank: usize) -> Result<usize, OperandRefusal> {
        resolve_axis(self.dim, rank + usize::from(self.new))
    }
}

impl MoveRule for ConcatOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let Some(first) = inputs.first() else {
            return Err((None, "it takes at least 1 operand".into()));
        };
        // PyTorch promotes the operands of a concatenation as those of a sum.
        let dtype = promote_dtypes(inputs).map_err(|r| (None, r))?;
        let at = self.concat_dim(first.size.len())?;
        let mut size = first.size.clone();
        if self.new {
            size.insert(at, i64::try_from(inputs.len()).unwrap_or(i64::MAX));
        } else {
            // Summed up in the loop below, which checks the other dimensions as well.
            size[at] = 0;
        }
        for (operand, m) in inputs.iter().enumerate() {
            let differ = |d: &usize| (self.new || *d != at) && m.size[*d] != first.size[*d];
            let same = m.size.len() == first.size.len() && !(0..m.size.len()).any(|d| differ(&d));
            if !same {
                let but = if self.new { String::new() } else { format!(" but for dimension {at}") };
                let reason = format!(
                    "operand {operand} has size {:?}, and operand 0 has {:?}; sizes agree{but}",
                    m.size, first.size
                );
                return Err((Some(operand), reason));
            }
            if !self.new {
                size[at] += m.size[at];
            }
        }
        Ok(TensorType { size, dtype })
    }

    fn result_dim(&self, dim: usize, rank: usize) -> usize {
        match self.concat_dim(rank) {
            Ok(at) if self.new && dim >= at => dim + 1,
            _ => dim,
        }
    }
}

/// Operand 0 with operand 1 in a slice of it.
#[derive(Debug, Clone)]
pub struct SliceScatterOp {
    pub dim: i64,
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub step: i64,
    /// Whether the result is operand 0 itself.
    pub over: bool,
}

impl MoveRule for SliceScatterOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let [x, src] = inputs else {
            return Err((None, format!("it takes 2 operands, not {}", inputs.len())));
        };
        let refuse = |e: zellige_layout::LayoutError| (None, e.to_string());
        // The slice of a contiguous tensor has the size of any slice, so that negative and open bounds are read by
        // the same code as in a view.
        let whole = zellige_layout::StridedLayout::new_contiguous(&x.size).map_err(refuse)?;
        let slice = whole.slice_dim(self.dim, self.start, self.end, self.step).map_err(refuse)?;
        if slice.size() != src.size {
            let reason =
                format!("operand 1 has size {:?}, and the slice {:?}", src.size, slice.size());
            return Err((Some(1), reason));
        }
        // PyTorch would convert; here that is a step of its own, so that its cost is visible.
        if x.dtype != src.dtype {
            return Err((
                Some(1),
                format!("operand 1 is {}, and operand 0 {}", src.dtype, x.dtype),
            ));
        }
        Ok(x.clone())
    }
}

/// What a border holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BorderFill {
    /// A number.
    Constant(HostScalar),
    /// The inside mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The nearest element of the inside.
    Replicate,
    /// The other end of the inside.
    Circular,
}

/// Borders before and after the last dimensions, the last dimension first, as PyTorch lists them.
/// Negative ones crop; that is for constant borders.
#[derive(Debug, Clone)]
pub struct PadOp {
    pub widths: Vec<i64>,
    pub border: BorderFill,
}

impl PadOp {
    /// Before and after a dimension.
    pub fn border_widths(&self, dim: usize, rank: usize) -> (i64, i64) {
        // Widths are listed from the last dimension on, two for each.
        let k = 2 * (rank - 1 - dim);
        let at = |k: usize| self.widths.get(k).copied().unwrap_or(0);
        (at(k), at(k + 1))
    }

    /// What fits into a dimension of `n`.
    pub fn fits_extent(&self, n: i64, width: i64) -> bool {
        match self.border {
            BorderFill::Constant(_) => true,
            // The element at the edge is not repeated, so that one element less than the extent is there to mirror.
            BorderFill::Reflect => (0..n.max(1)).contains(&width),
            BorderFill::Replicate => width >= 0 && (n > 0 || width == 0),
            // At most once around: a border is one copy of the other end.
            BorderFill::Circular => (0..=n).contains(&width),
        }
    }
}

impl MoveRule for PadOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        let rank = x.size.len();
        if self.widths.len() > 2 * rank {
            let reason = format!("pad has {} numbers for {rank} dimensions", self.widths.len());
            return Err((Some(0), reason));
        }
        let mut size = x.size.clone();
        for (d, n) in size.iter_mut().enumerate() {
            let (before, after) = self.border_widths(d, rank);
            // Widths come from the caller and may be any int64.
            let padded = n.checked_add(before).and_then(|n| n.checked_add(after));
            match padded {
                Some(p)
                    if p >= 0 && self.fits_extent(*n, before) && self.fits_extent(*n, after) =>
                {
                    *n = p;
                }
                _ => {
                    let reason = format!(
                        "dimension {d} has {n} elements; borders of {before} and {after} do not \
                         fit it ({:?})",
                        self.border
                    );
                    return Err((Some(0), reason));
                }
            }
        }
        Ok(TensorType { size, dtype: x.dtype })
    }
}
