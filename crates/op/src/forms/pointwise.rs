//! Element by element: one function of the operands at every place.
//!
//! Operands broadcast as in PyTorch and meet in one dtype.

use crate::dtype::is_float;
use crate::error::{OpError, Result, refuse};
use crate::promotion::{broadcast, promote};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;
use zellige_math::{FloatFunction, IntFunction};

/// Which dtype a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yields {
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
pub struct Pointwise {
    /// Its name.
    pub name: &'static str,
    /// How many operands it has.
    pub arity: usize,
    /// Its function of float32, if it takes floats.
    pub float: Option<FloatFunction>,
    /// Its function of integers, if it takes them as they are.
    pub int: Option<IntFunction>,
    /// Which dtype its result has.
    pub yields: Yields,
    /// Whether it is one of the slow functions of the vector unit.
    pub transcendental: bool,
    /// An operand that is a condition, which says nothing about the dtype.
    pub condition: Option<usize>,
    /// Whether the bits of a truth value are its own, so that the lowest one is the result.
    pub flips: bool,
    /// Whether floats that do not promote may meet, as the dtype of the result is given.
    pub mixes: bool,
    /// Whether it tells infinities from numbers, also of a format where numbers stand for them.
    pub infinities: bool,
}

impl Pointwise {
    /// An operation that so far computes nothing.
    pub(crate) fn new(name: &'static str, arity: usize) -> Pointwise {
        Pointwise {
            name,
            arity,
            float: None,
            int: None,
            yields: Yields::Promoted,
            transcendental: false,
            condition: None,
            flips: false,
            mixes: false,
            infinities: false,
        }
    }

    pub(crate) fn float(self, function: FloatFunction) -> Pointwise {
        Pointwise { float: Some(function), ..self }
    }

    pub(crate) fn int(self, function: IntFunction) -> Pointwise {
        Pointwise { int: Some(function), ..self }
    }

    /// With a function of integers where its parameters are whole numbers.
    pub(crate) fn maybe_int(self, int: Option<IntFunction>) -> Pointwise {
        Pointwise { int, ..self }
    }

    pub(crate) fn yields(self, yields: Yields) -> Pointwise {
        Pointwise { yields, ..self }
    }

    pub(crate) fn transcendental(self) -> Pointwise {
        Pointwise { transcendental: true, ..self }
    }

    pub(crate) fn condition(self, operand: usize) -> Pointwise {
        Pointwise { condition: Some(operand), ..self }
    }

    pub(crate) fn flipping(self) -> Pointwise {
        Pointwise { flips: true, ..self }
    }

    pub(crate) fn mixing(self) -> Pointwise {
        Pointwise { mixes: true, ..self }
    }

    pub(crate) fn infinities(self) -> Pointwise {
        Pointwise { infinities: true, ..self }
    }

    /// Whether an operand has a say in the dtype.
    pub fn counts(&self, operand: usize) -> bool {
        self.condition != Some(operand)
    }

    fn refuse(&self, operand: Option<usize>, reason: String) -> OpError {
        refuse(self.name, operand, reason)
    }

    /// Size and dtype of the result.
    pub(crate) fn infer(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if inputs.len() != self.arity {
            let reason = format!("it takes {} operands, not {}", self.arity, inputs.len());
            return Err(self.refuse(None, reason));
        }
        let size = broadcast(inputs).map_err(|r| self.refuse(None, r))?;
        if let Some(c) = self.condition
            && !matches!(inputs[c].dtype, Dtype::Bool | Dtype::Uint8)
        {
            let reason =
                format!("operand {c} is a condition: bool or uint8, not {}", inputs[c].dtype);
            return Err(self.refuse(Some(c), reason));
        }
        let counted = inputs.iter().enumerate().filter(|(i, _)| self.counts(*i));
        let counted: Vec<TensorType> = counted.map(|(_, m)| m.clone()).collect();
        let computes = match inputs {
            [x, ..] if self.mixes && is_float(x.dtype) => x.dtype,
            _ => promote(&counted).map_err(|r| self.refuse(None, r))?,
        };
        let float = is_float(computes);
        if float && self.float.is_none() {
            return Err(self.refuse(None, format!("it is for integers and bool, not {computes}")));
        }
        if !float && self.int.is_none() && self.yields == Yields::Promoted {
            let reason = format!("it is for floating-point numbers here, not {computes}");
            return Err(self.refuse(None, reason));
        }
        let dtype = match self.yields {
            Yields::Bool => Dtype::Bool,
            Yields::Fixed(dtype) => dtype,
            Yields::Promoted => computes,
            Yields::Float if float => computes,
            Yields::Float => Dtype::Float32,
        };
        Ok(vec![TensorType { size, dtype }])
    }
}
