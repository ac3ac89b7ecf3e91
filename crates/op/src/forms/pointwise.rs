//! Element by element: one function of the operands at every place.
//!
//! Operands broadcast as in PyTorch and are promoted to one dtype.

use crate::dtype::is_float;
use crate::error::{OpError, Result, refuse_operand};
use crate::promotion::{broadcast_sizes, promote_dtypes};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;
use zellige_math::{FloatFunction, IntFunction};

/// Which dtype a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultDtype {
    /// That of the operands together.
    Promoted,
    /// The same, but integers become float32.
    Float,
    /// True or false; the function gives 0 and 1.
    Bool,
    /// This one.
    Fixed(Dtype),
}

/// A pointwise operation.
#[derive(Debug, Clone, PartialEq)]
pub struct PointwiseOp {
    /// Its name.
    pub name: &'static str,
    /// How many operands it has.
    pub arity: usize,
    /// Its function of float32, if it takes floats.
    pub float: Option<FloatFunction>,
    /// Its function of integers, if it takes them as they are.
    pub int: Option<IntFunction>,
    /// Which dtype its result has.
    pub yields: ResultDtype,
    /// Whether it is one of the slow functions of the vector unit.
    pub transcendental: bool,
    /// An operand that is a condition, which says nothing about the dtype.
    pub condition: Option<usize>,
    /// Whether the bits of a truth value are its own, so that the lowest one is the result.
    pub flips: bool,
    /// Whether operands may be floats that do not promote, because the dtype of the result is given.
    pub mixes: bool,
    /// Whether operands are read with infinities, also in a format that encodes them as its largest numbers.
    pub infinities: bool,
}

impl PointwiseOp {
    /// An operation without a function yet.
    pub(crate) fn new(name: &'static str, arity: usize) -> PointwiseOp {
        PointwiseOp {
            name,
            arity,
            float: None,
            int: None,
            yields: ResultDtype::Promoted,
            transcendental: false,
            condition: None,
            flips: false,
            mixes: false,
            infinities: false,
        }
    }

    pub(crate) fn with_float(self, function: FloatFunction) -> PointwiseOp {
        PointwiseOp { float: Some(function), ..self }
    }

    pub(crate) fn with_int(self, function: IntFunction) -> PointwiseOp {
        PointwiseOp { int: Some(function), ..self }
    }

    /// With a function of integers where its parameters are whole numbers.
    pub(crate) fn with_maybe_int(self, int: Option<IntFunction>) -> PointwiseOp {
        PointwiseOp { int, ..self }
    }

    pub(crate) fn with_result_dtype(self, yields: ResultDtype) -> PointwiseOp {
        PointwiseOp { yields, ..self }
    }

    pub(crate) fn mark_transcendental(self) -> PointwiseOp {
        PointwiseOp { transcendental: true, ..self }
    }

    pub(crate) fn with_condition(self, operand: usize) -> PointwiseOp {
        PointwiseOp { condition: Some(operand), ..self }
    }

    pub(crate) fn with_sign_flip(self) -> PointwiseOp {
        PointwiseOp { flips: true, ..self }
    }

    pub(crate) fn with_mixed_dtypes(self) -> PointwiseOp {
        PointwiseOp { mixes: true, ..self }
    }

    pub(crate) fn with_infinities(self) -> PointwiseOp {
        PointwiseOp { infinities: true, ..self }
    }

    /// Whether an operand counts for the dtype of the result.
    pub fn counts_for_dtype(&self, operand: usize) -> bool {
        self.condition != Some(operand)
    }

    fn refuse_operand(&self, operand: Option<usize>, reason: String) -> OpError {
        refuse_operand(self.name, operand, reason)
    }

    /// Size and dtype of the result.
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if inputs.len() != self.arity {
            let reason = format!("it takes {} operands, not {}", self.arity, inputs.len());
            return Err(self.refuse_operand(None, reason));
        }
        let size = broadcast_sizes(inputs).map_err(|r| self.refuse_operand(None, r))?;
        if let Some(c) = self.condition
            // PyTorch still takes uint8 as a condition.
            && !matches!(inputs[c].dtype, Dtype::Bool | Dtype::Uint8)
        {
            let reason =
                format!("operand {c} is a condition: bool or uint8, not {}", inputs[c].dtype);
            return Err(self.refuse_operand(Some(c), reason));
        }
        let counted = inputs.iter().enumerate().filter(|(i, _)| self.counts_for_dtype(*i));
        let counted: Vec<TensorType> = counted.map(|(_, m)| m.clone()).collect();
        // Some operations have a result of a fixed dtype and take any mixture of floats: the first operand then
        // says in which dtype they compute.
        let computes = match inputs {
            [x, ..] if self.mixes && is_float(x.dtype) => x.dtype,
            _ => promote_dtypes(&counted).map_err(|r| self.refuse_operand(None, r))?,
        };
        let float = is_float(computes);
        if float && self.float.is_none() {
            return Err(
                self.refuse_operand(None, format!("it is for integers and bool, not {computes}"))
            );
        }
        // Other integers are converted to float32 (a result of that dtype), or compared as floats (a truth value).
        if !float && self.int.is_none() && self.yields == ResultDtype::Promoted {
            let reason = format!("it is for floating-point numbers here, not {computes}");
            return Err(self.refuse_operand(None, reason));
        }
        let dtype = match self.yields {
            ResultDtype::Bool => Dtype::Bool,
            ResultDtype::Fixed(dtype) => dtype,
            ResultDtype::Promoted => computes,
            ResultDtype::Float if float => computes,
            ResultDtype::Float => Dtype::Float32,
        };
        Ok(vec![TensorType { size, dtype }])
    }
}
