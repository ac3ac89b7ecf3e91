//! The device's functions, by operation.

use crate::program::{CompiledProgram, ProgramStep, StepAction};
use serde_json::{Map, Value};
use zellige_op::{OpForm, OpRow, UpstreamLayer};
use zellige_stick::DataFormat;

/// The unit that runs a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SdscUnit {
    /// The matrix engine.
    Pt,
    /// The vector engine.
    Sfp,
}

impl SdscUnit {
    pub(super) fn name(self) -> &'static str {
        match self {
            SdscUnit::Pt => "pt",
            SdscUnit::Sfp => "sfp",
        }
    }
}

/// What kind of iteration a function has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SdscFamily {
    /// Every result from the elements of its own place.
    Pointwise,
    /// The same between two formats.
    Convert,
    /// Many elements to one; the padding of a reduced stick is masked with this number.
    Reduction {
        /// The number that changes no result.
        neutral: f64,
    },
    /// A matrix product.
    Product,
    /// Elements to other places.
    Restickify,
}

/// The function of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpFunc {
    /// Its name; a reduction over other dimensions than the stick adds `nonstick`.
    pub(super) name: &'static str,
    pub(super) family: SdscFamily,
    /// Numbers that it takes beside its operands.
    pub(super) constants: Vec<(&'static str, f64)>,
    /// The operands, by number: a square multiplies one operand by itself.
    pub(super) operands: Vec<usize>,
}

impl OpFunc {
    pub(super) fn unit(&self) -> SdscUnit {
        if self.family == SdscFamily::Product { SdscUnit::Pt } else { SdscUnit::Sfp }
    }
}

/// The function of a step; why where there is none.
pub(super) fn find_op_func(
    program: &CompiledProgram,
    step: &ProgramStep,
) -> Result<OpFunc, String> {
    let op = match &step.action {
        StepAction::Host(..) => return Err("the host does it".into()),
        StepAction::Exchange(_) => {
            return Err(
                "copies between scratchpads are not emitted; the launch lists their sends".into()
            );
        }
        StepAction::Move { .. } => {
            return Ok(OpFunc {
                name: "ReStickifyOpHBM",
                family: SdscFamily::Restickify,
                constants: Vec::new(),
                operands: vec![0],
            });
        }
        StepAction::Op(_, op) => op,
    };
    let attributes = step.node().map(|n| &program.graph.node(n).attributes);
    let (row, count) = (op.row(), step.reads.len());
    let from = step.reads.first().map(|r| r.laid.stick_layout().device_dtype());
    let none = |format: &str| Err(format!("there is no function of {} on {format}", row.name));
    let whole = from == Some(DataFormat::IEEE_INT32);
    // No function of the device takes integers of 64 bits.
    if from == Some(DataFormat::IEEE_INT64) {
        return none("IEEE_INT64");
    }
    if let OpForm::Cast(_) = op.form() {
        return find_conversion(program, step, from);
    }
    let Some(function) = row.superdsc else {
        return if whole { none("IEEE_INT32") } else { Err(explain_unavailable(row)) };
    };
    let copies = function.function == "identity";
    // A copy moves bits of any format; arithmetic on int32 has functions of its own where it has any.
    if whole && function.int32.is_none() && !copies {
        return none("IEEE_INT32");
    }
    if let Some((name, only, reason)) = function.only
        && !has_only_value(attributes, name, only)
    {
        return Err(reason.into());
    }
    let family = match op.form() {
        // The function adds no bias: with one, the operation is decomposed into a product and a sum.
        OpForm::Product(_) if row.name == "linear" && count != 2 => {
            return Err(explain_unavailable(row));
        }
        OpForm::Product(_) => SdscFamily::Product,
        OpForm::Reduce(_) => SdscFamily::Reduction { neutral: row.neutral.unwrap_or(0.0) },
        _ => SdscFamily::Pointwise,
    };
    let constant = |(name, attribute): &(&'static str, &str)| {
        // The table has the defaults in PyTorch's own text form, so that an attribute that is not given means here
        // what it means there.
        let default = row.attributes.iter().find(|(n, _)| n == attribute);
        let default = default.and_then(|(_, d)| d.parse().ok()).unwrap_or(0.0);
        (*name, number_attribute(attributes, attribute).unwrap_or(default))
    };
    Ok(OpFunc {
        name: if whole { function.int32.unwrap_or(function.function) } else { function.function },
        family,
        constants: function.constants.iter().map(constant).collect(),
        operands: function.operands.map_or_else(|| (0..count).collect(), <[usize]>::to_vec),
    })
}

/// An attribute that is a number.
fn number_attribute(attributes: Option<&Map<String, Value>>, name: &str) -> Option<f64> {
    match attributes.and_then(|a| a.get(name)) {
        Some(Value::String(s)) => s.parse().ok(),
        other => other.and_then(Value::as_f64),
    }
}

/// Whether an attribute has its only value with which the function computes the operation, or is not given.
fn has_only_value(attributes: Option<&Map<String, Value>>, name: &str, only: &str) -> bool {
    match attributes.and_then(|a| a.get(name)) {
        None | Some(Value::Null) => true,
        Some(Value::String(word)) if word == only => true,
        _ => number_attribute(attributes, name).is_some_and(|n| only.parse() == Ok(n)),
    }
}

/// A change of the dtype: a copy, or a function between two formats.
fn find_conversion(
    program: &CompiledProgram,
    step: &ProgramStep,
    from: Option<DataFormat>,
) -> Result<OpFunc, String> {
    use DataFormat::{IEEE_FP32, IEEE_INT32, SEN143_FP8, SEN169_FP16};
    let to = step.writes.first().map(|b| program.buffer(*b).laid.stick_layout().device_dtype());
    let (name, family) = match (from, to) {
        // Two dtypes may be stored in one format: the conversion is then a copy.
        (Some(a), Some(b)) if a == b => ("identity", SdscFamily::Pointwise),
        (Some(SEN169_FP16), Some(IEEE_FP32)) => ("dl16tofp32", SdscFamily::Convert),
        (Some(IEEE_FP32), Some(SEN169_FP16)) => ("fp32todl16", SdscFamily::Convert),
        (Some(SEN143_FP8), Some(SEN169_FP16)) => ("fp8todl16", SdscFamily::Convert),
        (Some(IEEE_FP32), Some(IEEE_INT32)) => ("fp32toint32", SdscFamily::Convert),
        (Some(IEEE_INT32), Some(IEEE_FP32)) => ("int32tofp32", SdscFamily::Convert),
        (Some(a), Some(b)) => {
            return Err(format!("there is no conversion of {} to {}", a.name(), b.name()));
        }
        _ => return Err("it has no operand".into()),
    };
    Ok(OpFunc { name, family, constants: Vec::new(), operands: vec![0] })
}

/// Why an operation has no function.
fn explain_unavailable(row: &OpRow) -> String {
    let name = row.name;
    match row.layer {
        _ if matches!(name, "cat" | "pad" | "slice_scatter") => {
            "it writes slices of its result one by one, and a kernel writes one".into()
        }
        UpstreamLayer::Native => format!("{name} is native, and has no function of one output"),
        UpstreamLayer::Custom => format!("{name} is a custom kernel of several functions"),
        UpstreamLayer::Decomposed => format!("{name} is made of other operations; decompose it"),
        UpstreamLayer::Fallback => format!("the card leaves {name} to the host"),
        UpstreamLayer::Missing => format!("the card does not have {name}"),
    }
}
