//! What the table says of an operation: one row, with a column for everything that is decided by its name.

use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::{Result, refuse_operand};
use crate::forms::OpForm;
use crate::torch_operator::TorchOperator;

/// One operation.
#[derive(Clone, Copy)]
pub struct OpRow {
    /// Its name.
    pub name: &'static str,
    /// Its operands; `x?` may be left out, `x...` is one operand or more.
    pub operands: &'static [&'static str],
    /// Its attributes with their defaults.
    pub attributes: &'static [(&'static str, &'static str)],
    /// How torch-spyre runs it.
    pub layer: UpstreamLayer,
    /// Its form with attributes.
    pub(crate) form: fn(&mut OpAttributes) -> Result<OpForm>,
    /// The number that changes no result where it fills the padding of operand 0 along the dimensions that the
    /// operation works along; none where padding is never read.
    pub neutral: Option<f64>,
    /// Whether the compiler decomposes it.
    pub decomposition: OpDecomposition,
    /// The function of the device that runs it, in SuperDSC.
    pub superdsc: Option<SuperDsc>,
    /// What a tile kernel computes for it, in KTIR.
    pub ktir: TileProgram,
    /// The operation of ONNX that is this one, with the same operands and without attributes.
    pub onnx: Option<&'static str>,
    /// The operators of ATen that are this one.
    pub torch: &'static [TorchOperator],
}

/// Whether an operation is decomposed into others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpDecomposition {
    /// It is one instruction or one kernel.
    None,
    /// The compiler decomposes it (`compile::decompose`).
    Parts,
    /// torch-spyre decomposes it, and the compiler leaves it whole for this reason.
    Whole(&'static str),
}

/// A function of SuperDSC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SuperDsc {
    /// Its name.
    pub function: &'static str,
    /// The function of 32-bit integers, where there is one.
    pub int32: Option<&'static str>,
    /// Numbers that it takes beside its operands: the name there, and the attribute.
    pub constants: &'static [(&'static str, &'static str)],
    /// The operands by number, where they are not all of them in order.
    pub operands: Option<&'static [usize]>,
    /// An attribute, the only value with which the function computes the operation, and why.
    pub only: Option<(&'static str, &'static str, &'static str)>,
}

impl SuperDsc {
    /// A function that computes the operation of all its operands.
    pub(crate) const fn from_function(function: &'static str) -> SuperDsc {
        SuperDsc { function, int32: None, constants: &[], operands: None, only: None }
    }

    pub(crate) const fn with_int32(self, function: &'static str) -> SuperDsc {
        SuperDsc { int32: Some(function), ..self }
    }

    pub(crate) const fn with_constants(
        self,
        list: &'static [(&'static str, &'static str)],
    ) -> SuperDsc {
        SuperDsc { constants: list, ..self }
    }

    pub(crate) const fn with_operands(self, list: &'static [usize]) -> SuperDsc {
        SuperDsc { operands: Some(list), ..self }
    }

    pub(crate) const fn only_where(
        self,
        attribute: &'static str,
        value: &'static str,
        reason: &'static str,
    ) -> SuperDsc {
        SuperDsc { only: Some((attribute, value, reason)), ..self }
    }
}

/// What a tile kernel computes: an expression of operands, attributes, numbers and operations of KTIR.
///
/// `maximumf(x, 0)` is the operation `arith.maximumf` of the operand `x` and a tile of zeros. An attribute is the
/// number that the operation has, `mulf` by an attribute that is 1 is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileProgram {
    /// There is none.
    None,
    /// One expression.
    Expression(&'static str),
    /// An expression for some values of an attribute that is a word; the first one is the default.
    By(&'static str, &'static [(&'static str, &'static str)]),
}

/// A row with its name, operands, layer and form, and nothing in the other columns.
pub(crate) const fn row(
    name: &'static str,
    operands: &'static [&'static str],
    layer: UpstreamLayer,
    form: fn(&mut OpAttributes) -> Result<OpForm>,
) -> OpRow {
    OpRow {
        name,
        operands,
        attributes: &[],
        layer,
        form,
        neutral: None,
        decomposition: match layer {
            // The rule; a row that the compiler leaves whole says so and why.
            UpstreamLayer::Decomposed => OpDecomposition::Parts,
            _ => OpDecomposition::None,
        },
        superdsc: None,
        ktir: TileProgram::None,
        onnx: None,
        torch: &[],
    }
}

impl OpRow {
    pub(crate) const fn attributes(
        self,
        attributes: &'static [(&'static str, &'static str)],
    ) -> OpRow {
        OpRow { attributes, ..self }
    }

    pub(crate) const fn neutral(self, number: f64) -> OpRow {
        OpRow { neutral: Some(number), ..self }
    }

    /// It stays whole, although torch-spyre decomposes it.
    pub(crate) const fn whole(self, reason: &'static str) -> OpRow {
        OpRow { decomposition: OpDecomposition::Whole(reason), ..self }
    }

    pub(crate) const fn superdsc(self, function: &'static str) -> OpRow {
        self.superdsc_as(SuperDsc::from_function(function))
    }

    pub(crate) const fn superdsc_as(self, function: SuperDsc) -> OpRow {
        OpRow { superdsc: Some(function), ..self }
    }

    pub(crate) const fn ktir(self, expression: &'static str) -> OpRow {
        OpRow { ktir: TileProgram::Expression(expression), ..self }
    }

    pub(crate) const fn ktir_by(
        self,
        attribute: &'static str,
        programs: &'static [(&'static str, &'static str)],
    ) -> OpRow {
        OpRow { ktir: TileProgram::By(attribute, programs), ..self }
    }

    pub(crate) const fn onnx(self, name: &'static str) -> OpRow {
        OpRow { onnx: Some(name), ..self }
    }

    pub(crate) const fn torch(self, operators: &'static [TorchOperator]) -> OpRow {
        OpRow { torch: operators, ..self }
    }

    /// The fewest operands and, unless there may be any number, the most.
    pub fn arity(&self) -> (usize, Option<usize>) {
        let optional = self.operands.iter().filter(|o| o.ends_with('?')).count();
        // An operand that may be repeated makes the number of operands unbounded.
        let open = self.operands.iter().any(|o| o.ends_with("..."));
        let most = self.operands.len();
        (most - optional, (!open).then_some(most))
    }

    /// Refuses a number of operands that the operation does not take.
    ///
    /// # Errors
    /// [`OpError::BadOperand`](crate::OpError::BadOperand), which lists the operands.
    pub fn check_count(&self, count: usize) -> Result<()> {
        let (least, most) = self.arity();
        if count >= least && most.is_none_or(|most| count <= most) {
            return Ok(());
        }
        let names = if self.operands.is_empty() { "none".into() } else { self.operands.join(", ") };
        let reason = format!("its operands are {names}, and {count} were given");
        Err(refuse_operand(self.name, None, reason))
    }
}
