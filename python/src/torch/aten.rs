//! Which operator of ATen is which operation of the card: the column `torch` of the table of operations, read.

use std::sync::Arc;
use zellige_op::{TensorOp, TorchArgument, TorchOperator, TorchRole};

/// What an argument of ATen is to the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArgumentRole {
    Operand,
    Attribute(String),
    Ignored,
    /// Refused where its truth is this.
    Refused(bool),
    /// Refused where it is another number than 1.
    One,
    /// The dtype of the first operand, and of the result.
    Dtype,
}

/// An argument.
#[derive(Debug, Clone)]
pub(super) struct AtenArgument {
    pub(super) name: String,
    pub(super) role: ArgumentRole,
}

/// Where results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultForm {
    /// Into new tensors.
    New,
    /// Into the first argument.
    InPlace,
    /// Into the arguments that come after all others.
    Out,
}

/// One row.
#[derive(Debug)]
pub(super) struct AtenRow {
    pub(super) overloads: Vec<(String, ResultForm)>,
    pub(super) op: String,
    /// An attribute with its value that every call has.
    pub(super) constant: Option<(String, String)>,
    pub(super) arguments: Vec<AtenArgument>,
}

/// Every operator that is an operation of the table. [`OpRow`](zellige_op::OpRow) describes the form of these rows.
pub(super) fn aten_rows() -> Vec<Arc<AtenRow>> {
    let all = TensorOp::all_rows().flat_map(|row| {
        row.torch.iter().map(|operator| Arc::new(AtenRow::from_operator(row.name, operator)))
    });
    all.collect()
}

impl AtenRow {
    fn from_operator(op: &str, operator: &TorchOperator) -> AtenRow {
        let argument = |argument: &TorchArgument| AtenArgument {
            name: argument.name.into(),
            role: match argument.role {
                TorchRole::Operand => ArgumentRole::Operand,
                TorchRole::Attribute(name) => ArgumentRole::Attribute(name.into()),
                TorchRole::Ignored => ArgumentRole::Ignored,
                TorchRole::RefusedIf(truth) => ArgumentRole::Refused(truth),
                TorchRole::One => ArgumentRole::One,
                TorchRole::Dtype => ArgumentRole::Dtype,
            },
        };
        AtenRow {
            constant: operator.constant.map(|(name, value)| (name.into(), value.into())),
            overloads: operator
                .overloads
                .iter()
                .map(|name| ((*name).to_string(), ResultForm::from_overload(name)))
                .collect(),
            op: op.into(),
            arguments: operator.arguments.iter().map(argument).collect(),
        }
    }
}

impl ResultForm {
    /// By ATen's convention: an underscore ends the names of in-place operators, and overloads with `out` or `values`
    /// write into arguments.
    fn from_overload(name: &str) -> ResultForm {
        let (base, overload) = name.split_once('.').unwrap_or((name, ""));
        if base.ends_with('_') && !base.ends_with("__") {
            ResultForm::InPlace
        } else if overload.contains("out") || overload.contains("values") {
            ResultForm::Out
        } else {
            ResultForm::New
        }
    }
}
