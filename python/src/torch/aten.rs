//! Which operator of ATen is which operation of the card: the column `torch` of the table of operations, read.

use std::sync::Arc;
use zellige_op::TensorOp;

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
    let all = TensorOp::all_rows()
        .flat_map(|op| op.torch.iter().map(|text| Arc::new(parse_row(op.name, text))));
    all.collect()
}

fn parse_row(op: &str, text: &str) -> AtenRow {
    let (names, arguments) = text.split_once('(').expect("a row has an argument list");
    let arguments = arguments.trim_end_matches(')').split(',').map(str::trim);
    let argument = |text: &str| {
        let (name, role) = match text.split_once('=') {
            Some((name, "")) => (name, ArgumentRole::Attribute(name.into())),
            Some((name, other)) => (name, ArgumentRole::Attribute(other.into())),
            None => match (text.trim_end_matches(['!', '?', '~', '#', '^']), text.chars().last()) {
                (name, Some('!')) => (name, ArgumentRole::Ignored),
                (name, Some('?')) => (name, ArgumentRole::Refused(true)),
                (name, Some('~')) => (name, ArgumentRole::Refused(false)),
                (name, Some('#')) => (name, ArgumentRole::One),
                (name, Some('^')) => (name, ArgumentRole::Dtype),
                _ => (text, ArgumentRole::Operand),
            },
        };
        AtenArgument { name: name.into(), role }
    };
    let form = |name: &str| {
        let (base, overload) = name.split_once('.').unwrap_or((name, ""));
        if base.ends_with('_') && !base.ends_with("__") {
            ResultForm::InPlace
        } else if overload.contains("out") || overload.contains("values") {
            ResultForm::Out
        } else {
            ResultForm::New
        }
    };
    let (names, constant) = match names.trim().trim_end_matches(']').split_once('[') {
        Some((names, pair)) => (names, pair.split_once('=')),
        None => (names, None),
    };
    AtenRow {
        constant: constant.map(|(name, value)| (name.into(), value.into())),
        overloads: names.split_whitespace().map(|n| (n.to_string(), form(n))).collect(),
        op: op.into(),
        arguments: arguments.filter(|a| !a.is_empty()).map(argument).collect(),
    }
}
