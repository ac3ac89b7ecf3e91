//! Single numbers as operands.
//!
//! A number of Python meets tensors as PyTorch's rules say: it only decides the dtype of a result
//! where it is of a higher category than every tensor. Numbers that were used before are kept on the
//! card, up to a limit.

use super::held::holding_integers;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use zellige_device::{Card, DeviceError, KeptDtypes, Tensor};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_op::HostScalar;
use zellige_op::OpError;
use zellige_stick::{DataFormat, StickLayout};

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NumberOperand {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl NumberOperand {
    pub(super) fn from_object(object: &Bound<'_, PyAny>) -> Option<NumberOperand> {
        if let Ok(b) = object.cast::<PyBool>() {
            return Some(NumberOperand::Bool(b.is_true()));
        }
        if object.is_instance_of::<PyInt>() {
            return object.extract().ok().map(NumberOperand::Int);
        }
        object.cast::<PyFloat>().ok().map(|x| NumberOperand::Float(x.value()))
    }

    fn number_category(self) -> u8 {
        match self {
            NumberOperand::Bool(_) => 0,
            NumberOperand::Int(_) => 1,
            NumberOperand::Float(_) => 2,
        }
    }

    /// Without its category.
    pub(super) fn to_scalar(self) -> HostScalar {
        match self {
            NumberOperand::Bool(b) => HostScalar::Int(i64::from(b)),
            NumberOperand::Int(n) => HostScalar::Int(n),
            NumberOperand::Float(x) => HostScalar::Float(x),
        }
    }

    /// The number as an operand beside tensors. In a comparison it rounds as the tensor's elements
    /// did, so that a number equals itself.
    pub(super) fn operand_beside(
        self,
        card: &Card,
        tensors: &[Tensor],
        compared: bool,
    ) -> Result<Tensor, DeviceError> {
        let wide = tensors.iter().filter(|t| !t.size().is_empty());
        let wide: Vec<&Tensor> = wide.collect();
        let all: Vec<&Tensor> =
            if wide.is_empty() { tensors.iter().collect() } else { wide.clone() };
        let lead = all.into_iter().max_by_key(|t| dtype_category(t.dtype()));
        // An int64 number is as wide as the tensors beside it, or as those that the card makes.
        let mut longs = tensors.iter().filter(|t| t.dtype() == Dtype::Int64).peekable();
        let long = match longs.peek() {
            Some(_) => longs.any(|t| t.format() == Format::I64),
            None => card.kept_dtypes().int64,
        };
        let int64 = KeptDtypes { int64: long, ..KeptDtypes::NONE }.default_format(Dtype::Int64)?;
        let (dtype, format) = match lead {
            Some(t) if dtype_category(t.dtype()) >= self.number_category() => {
                match dtype_category(t.dtype()) {
                    // Beside tensors a float number keeps its fraction; alone it is one of them.
                    2 if wide.is_empty() || compared => {
                        (t.dtype(), t.stick_layout().device_dtype())
                    }
                    2 => (Dtype::Float32, DataFormat::IEEE_FP32),
                    _ if t.dtype() == Dtype::Int64 => (Dtype::Int64, int64),
                    _ => (t.dtype(), DataFormat::device_format_of(t.dtype())?),
                }
            }
            _ => match self {
                NumberOperand::Bool(_) => (Dtype::Bool, DataFormat::device_format_of(Dtype::Bool)?),
                NumberOperand::Int(_) => (Dtype::Int64, int64),
                NumberOperand::Float(_) => (Dtype::Float32, DataFormat::IEEE_FP32),
            },
        };
        let number = match self {
            NumberOperand::Int(n) if dtype_category(dtype) == 1 => {
                NumberOperand::Int(wrap_integer(n, dtype))
            }
            other => other,
        };
        if let NumberOperand::Int(n) = number
            && dtype_category(dtype) < 2
            && format != DataFormat::IEEE_INT64
            && i32::try_from(n).is_err()
        {
            return Err(OpError::BadOperand {
                op: "a number".into(),
                operand: None,
                reason: format!("{n} does not fit in the 32 bits of the device's integers"),
            }
            .into());
        }
        number.kept_tensor(card, dtype, format)
    }

    /// The element of a tensor of the host as an operand beside tensors of the card. It has a dtype of its own, which
    /// decides where no tensor with dimensions has one of its category or a higher one.
    pub(super) fn host_operand_beside(
        self,
        card: &Card,
        tensors: &[Tensor],
        dtype: Dtype,
        compared: bool,
    ) -> Result<Tensor, DeviceError> {
        let mut wide = tensors.iter().filter(|t| !t.size().is_empty());
        let decided = wide.any(|t| dtype_category(t.dtype()) >= dtype_category(dtype));
        if decided || holding_integers(dtype).is_some() {
            return self.operand_beside(card, tensors, compared);
        }
        let format = match dtype {
            Dtype::Float32 => DataFormat::IEEE_FP32,
            other => card.kept_dtypes().default_format(other)?,
        };
        self.kept_tensor(card, dtype, format)
    }

    /// An integer as a float32 of the card.
    pub(super) fn float_tensor(n: i64, card: &Card) -> Result<Tensor, DeviceError> {
        // The nearest float64; float32 rounds it again.
        #[allow(clippy::cast_precision_loss)]
        NumberOperand::Float(n as f64).kept_tensor(card, Dtype::Float32, DataFormat::IEEE_FP32)
    }

    fn kept_tensor(
        self,
        card: &Card,
        dtype: Dtype,
        format: DataFormat,
    ) -> Result<Tensor, DeviceError> {
        let bits = match self {
            NumberOperand::Float(x) => x.to_bits(),
            NumberOperand::Int(n) => n.cast_unsigned(),
            NumberOperand::Bool(b) => u64::from(b),
        };
        let key = (card.index(), dtype, format.value(), self.number_category(), bits);
        let mut kept = KEPT_NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tensor) = kept.get(&key) {
            return Ok(tensor.clone());
        }
        let layout = StickLayout::default_in_format(&[], None, format)?;
        let tensor = Tensor::zeros(card, dtype, &layout)?;
        let one = StridedLayout::new_contiguous(&[])?;
        let (bytes, from) = self.to_scalar().host_bytes();
        tensor.write_from(&bytes, &one, from)?;
        if kept.len() >= MAX_KEPT_NUMBERS {
            kept.clear();
        }
        kept.insert(key, tensor.clone());
        Ok(tensor)
    }
}

type KeptNumberKey = (usize, Dtype, i64, u8, u64);

/// Numbers that stay on their card.
static KEPT_NUMBERS: LazyLock<Mutex<HashMap<KeptNumberKey, Tensor>>> =
    LazyLock::new(Mutex::default);
/// How many of them.
const MAX_KEPT_NUMBERS: usize = 1024;

/// Bytes that kept numbers take on a card.
pub(super) fn kept_bytes(card: usize) -> u64 {
    let kept = KEPT_NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().filter(|(k, _)| k.0 == card).map(|(_, t)| t.block().requested_bytes() as u64).sum()
}

/// Runs something with the lock of the kept numbers held.
pub(super) fn with_lock(work: impl FnOnce()) {
    let _kept = KEPT_NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    work();
}

/// The value of an integer in a dtype of fewer bits: it wraps.
fn wrap_integer(n: i64, dtype: Dtype) -> i64 {
    // Each cast keeps the low bits, which is what wrapping means.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    match dtype {
        Dtype::Uint8 => i64::from(n as u8),
        Dtype::Int8 => i64::from(n as i8),
        Dtype::Int16 => i64::from(n as i16),
        Dtype::Int32 => i64::from(n as i32),
        _ => n,
    }
}

/// The integer dtype that holds the values of two.
fn promote_integers(a: Dtype, b: Dtype) -> Dtype {
    match (a, b) {
        (Dtype::Uint8, Dtype::Int8) | (Dtype::Int8, Dtype::Uint8) => Dtype::Int16,
        _ if a.bits() >= b.bits() => a,
        _ => b,
    }
}

/// The dtype of the integers among the operands with dimensions; none where there are none, or where floats decide.
pub(super) fn common_integer(tensors: &[Tensor]) -> Option<Dtype> {
    let wide = tensors.iter().filter(|t| !t.size().is_empty() && t.dtype() != Dtype::Bool);
    let mut common = None;
    for tensor in wide {
        if dtype_category(tensor.dtype()) != 1 {
            return None;
        }
        common = Some(common.map_or(tensor.dtype(), |c| promote_integers(c, tensor.dtype())));
    }
    common
}

/// Whether a tensor is one integer without dimensions that may not fit into a dtype.
pub(super) fn is_wider(tensor: &Tensor, common: Option<Dtype>) -> bool {
    let one = tensor.size().is_empty() && dtype_category(tensor.dtype()) == 1;
    one && common.is_some_and(|c| promote_integers(c, tensor.dtype()) != c)
}

/// Whether an operand is an integer that may not fit into the integers beside it; `numbers` are those operands that were
/// numbers, as they were.
pub(super) fn needs_narrowing(
    all: &[Tensor],
    numbers: impl Iterator<Item = Option<NumberOperand>>,
) -> bool {
    let lost = |(tensor, number): (&Tensor, Option<NumberOperand>)| match number {
        Some(NumberOperand::Int(n)) => {
            dtype_category(tensor.dtype()) == 1 && wrap_integer(n, tensor.dtype()) != n
        }
        _ => false,
    };
    if all.iter().any(|t| t.size().is_empty()) {
        let common = common_integer(all);
        return all.iter().any(|t| is_wider(t, common)) || all.iter().zip(numbers).any(lost);
    }
    false
}

/// 0 for bool, 1 for integers, 2 for floats.
pub(super) fn dtype_category(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Bool => 0,
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 | Dtype::Uint8 => 1,
        _ => 2,
    }
}
