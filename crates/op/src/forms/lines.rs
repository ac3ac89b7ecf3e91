//! Operations on whole lines: softmax, norms and scans. A line is the elements along some dimensions.

use super::reduce::sum_dtype;
use crate::dims::{self, PerDimension};
use crate::dtype::is_float;
use crate::error::{OpError, Result, refuse_operand};
use crate::tensor_type::TensorType;
use smallvec::SmallVec;
use std::fmt;
use zellige_float::Dtype;

/// Which results an operation has, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineResults {
    /// Values.
    Values,
    /// Indices.
    Indices,
    /// Values, then indices.
    Both,
}

/// An operation on lines.
pub trait LineOperation: fmt::Debug + Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Sizes and dtypes of the results; everything wrong is refused here.
    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>>;

    /// The dimensions of a line in a tensor of this size.
    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>>;

    /// Whether a result lacks the dimensions of the line.
    fn drops_line(&self) -> bool {
        false
    }

    /// Its results.
    fn line_results(&self) -> LineResults {
        LineResults::Values
    }
}

/// An operation on lines as an operation of the table.
#[derive(Debug, Clone)]
pub struct LineForm<K>(pub K);

/// Refuses another number of operands than those accepted.
pub(super) fn check_operand_count(
    op: &str,
    inputs: &[TensorType],
    most: usize,
    least: usize,
) -> Result<()> {
    if (least..=most).contains(&inputs.len()) {
        return Ok(());
    }
    let accepted = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let s = if most == 1 { "" } else { "s" };
    Err(refuse_operand(op, None, format!("it takes {accepted} operand{s}, not {}", inputs.len())))
}

/// Along one dimension, with m the largest and s the sum of exp(x - m), in the order of
/// `math::reduce` over the line: exp(x - m) * (1 / s), or x - m - log s.
///
/// A line with an infinity or NaN among its largest is NaN.
#[derive(Debug, Clone)]
pub struct SoftmaxOp {
    pub name: &'static str,
    pub dim: i64,
    pub log: bool,
}

impl LineOperation for SoftmaxOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        check_operand_count(self.name, inputs, 1, 1)?;
        let x = &inputs[0];
        dims::resolve_dim(self.name, "dim", self.dim, x.size.len())?;
        if !is_float(x.dtype) {
            let reason = format!("it is for floats, not {}; convert the operand first", x.dtype);
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        Ok(vec![x.clone()])
    }

    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>> {
        Ok(dims::resolve_dim(self.name, "dim", self.dim, size.len())?.into_iter().collect())
    }
}

/// Which norm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NormKind {
    /// `layer_norm` over trailing dimensions of these extents.
    Layer(Vec<i64>),
    /// `rms_norm` over trailing dimensions of these extents: the mean is taken as 0.
    Rms(Vec<i64>),
    /// `group_norm`: dimension 1 in so many groups, each with all dimensions after it.
    Groups(usize),
    /// `batch_norm` with given means and variances along dimension 1.
    Batch,
}

/// A norm. With sums in the order of `math::reduce` over the line (row-major) of n numbers:
/// mean = sum x / n, var = sum (x - mean)^2 / n, rstd = 1 / sqrt(var + eps), and the result is
/// (x - mean) * rstd * weight + bias, each step rounded to float32, from left to right.
#[derive(Debug, Clone)]
pub struct NormOp {
    pub name: &'static str,
    pub over: NormKind,
    pub eps: f32,
}

impl NormOp {
    pub fn min_operands(&self) -> usize {
        if self.over == NormKind::Batch { 3 } else { 1 }
    }

    pub fn trailing_shape(&self) -> Option<&[i64]> {
        match &self.over {
            NormKind::Layer(shape) | NormKind::Rms(shape) => Some(shape),
            NormKind::Groups(_) | NormKind::Batch => None,
        }
    }

    fn bad_attribute(&self, name: &str, reason: String) -> OpError {
        OpError::BadAttribute { op: self.name.into(), name: name.into(), reason }
    }
}

impl LineOperation for NormOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let most = self.min_operands() + if matches!(self.over, NormKind::Rms(_)) { 1 } else { 2 };
        check_operand_count(self.name, inputs, most, self.min_operands())?;
        let size = &inputs[0].size;
        for (operand, t) in inputs.iter().enumerate() {
            if !is_float(t.dtype) {
                let reason = format!("operand {operand} is {}, and it is for floats", t.dtype);
                return Err(refuse_operand(self.name, Some(operand), reason));
            }
        }
        let expected = match (self.trailing_shape(), &self.over) {
            (Some(shape), _) => {
                // PyTorch takes the extents and not only how many there are, so that a wrong operand is found here.
                if shape.is_empty() || !size.ends_with(shape) {
                    let reason =
                        format!("{shape:?} are not the last extents of an operand of {size:?}");
                    return Err(self.bad_attribute("normalized_shape", reason));
                }
                shape.to_vec()
            }
            (None, over) => {
                // Dimension 1 by PyTorch's convention: batch, channels, image.
                let Some(channels) = size.get(1) else {
                    let reason = format!("its operand has channels in dimension 1, not {size:?}");
                    return Err(refuse_operand(self.name, Some(0), reason));
                };
                if let NormKind::Groups(groups) = over {
                    let groups = i64::try_from(*groups).unwrap_or(i64::MAX);
                    if groups == 0 || channels % groups != 0 {
                        let reason = format!("{groups} groups do not divide {channels} channels");
                        return Err(self.bad_attribute("num_groups", reason));
                    }
                }
                vec![*channels]
            }
        };
        for (operand, t) in inputs.iter().enumerate().skip(1) {
            if t.size != expected {
                let reason = format!("operand {operand} has size {:?}, not {expected:?}", t.size);
                return Err(refuse_operand(self.name, Some(operand), reason));
            }
        }
        Ok(vec![inputs[0].clone()])
    }

    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>> {
        let rank = size.len();
        Ok(match &self.over {
            NormKind::Layer(shape) | NormKind::Rms(shape) => {
                (rank - shape.len().min(rank)..rank).collect()
            }
            // All dimensions but the batch; the kernel splits the channels into groups.
            NormKind::Groups(_) => (1..rank).collect(),
            // Without other dimensions, a line is a batch of one channel.
            NormKind::Batch if rank == 2 => SmallVec::from_slice(&[0]),
            NormKind::Batch => (2..rank).collect(),
        })
    }
}

/// What is carried along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanCarry {
    /// The sum so far.
    Sum,
    /// The product so far.
    Product,
    /// The largest so far, and the highest index that has it; NaN stays.
    Largest,
    /// The smallest so far, and the highest index that has it; NaN stays.
    Smallest,
}

/// A scan along one dimension, one element after the other from the first; each sum or product is
/// rounded to float32 (integers wrap at 32 or 64 bits), and stored rounded once more.
#[derive(Debug, Clone)]
pub struct ScanOp {
    pub name: &'static str,
    pub dim: i64,
    pub carry: ScanCarry,
}

impl ScanOp {
    pub fn is_accumulation(&self) -> bool {
        matches!(self.carry, ScanCarry::Sum | ScanCarry::Product)
    }
}

impl LineOperation for ScanOp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        check_operand_count(self.name, inputs, 1, 1)?;
        let TensorType { size, dtype } = inputs[0].clone();
        dims::resolve_dim(self.name, "dim", self.dim, size.len())?;
        let of = |dtype| TensorType { size: size.clone(), dtype };
        let adds = self.is_accumulation();
        Ok(if adds { vec![of(sum_dtype(dtype))] } else { vec![of(dtype), of(Dtype::Int64)] })
    }

    fn line_dims(&self, size: &[usize]) -> Result<PerDimension<usize>> {
        Ok(dims::resolve_dim(self.name, "dim", self.dim, size.len())?.into_iter().collect())
    }

    fn line_results(&self) -> LineResults {
        if self.is_accumulation() { LineResults::Values } else { LineResults::Both }
    }
}
