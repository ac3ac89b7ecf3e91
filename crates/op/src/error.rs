//! What can be wrong with an operation, each with its witness.

/// The result of every fallible operation of this crate.
pub type Result<T, E = OpError> = std::result::Result<T, E>;

/// An operation that cannot be, or operands that it does not take.
///
/// [`OpError::kind`] is a stable identifier for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Operands that an operation cannot take.
    #[error("{op}: {reason}")]
    BadOperand {
        /// The operation.
        op: String,
        /// The operand at fault, from 0, where it is one.
        operand: Option<usize>,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// An attribute that an operation cannot take.
    #[error("{op}: attribute `{name}`: {reason}")]
    BadAttribute {
        /// The operation.
        op: String,
        /// The attribute.
        name: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// An operation that is not in the table.
    #[error("there is no operation `{name}`{}", hint.as_ref().map(|h| format!("; did you mean `{h}`?")).unwrap_or_default())]
    NoSuchOp {
        /// The requested name.
        name: String,
        /// The nearest name.
        hint: Option<String>,
    },
    /// A coverage profile that does not exist.
    #[error("unknown coverage profile `{profile}`; accepted are `card` and `full`")]
    UnknownProfile {
        /// The requested profile.
        profile: String,
    },
    /// An integer that 32 bits do not hold.
    #[error(
        "the integer {value} does not fit in the 32 bits of the device's integers; accepted are \
         -2147483648 to 2147483647"
    )]
    Wide {
        /// The integer.
        value: String,
    },
    /// A dtype that no host tensor has.
    #[error(
        "{dtype} is no dtype of host tensors here; accepted are float64/32/16, bfloat16, float8, \
         int64/32/16/8, uint8, uint32 and bool"
    )]
    HostDtype {
        /// The dtype.
        dtype: zellige_float::Dtype,
    },
    /// A layout or a dtype that cannot be.
    #[error(transparent)]
    Layout(#[from] zellige_stick::StickError),
}

impl OpError {
    /// A stable identifier of the variant.
    pub fn kind(&self) -> &'static str {
        match self {
            OpError::BadOperand { .. } => "bad_operand",
            OpError::BadAttribute { .. } => "bad_attribute",
            OpError::NoSuchOp { .. } => "no_such_op",
            OpError::UnknownProfile { .. } => "unknown_profile",
            OpError::Wide { .. } => "wide",
            OpError::HostDtype { .. } => "unsupported_dtype",
            OpError::Layout(e) => e.kind(),
        }
    }
}

impl From<zellige_layout::LayoutError> for OpError {
    fn from(e: zellige_layout::LayoutError) -> OpError {
        OpError::Layout(e.into())
    }
}

impl From<zellige_float::UnknownDtype> for OpError {
    fn from(e: zellige_float::UnknownDtype) -> OpError {
        OpError::Layout(e.into())
    }
}

/// The error of operands that an operation does not take.
pub fn refuse_operand(op: &str, operand: Option<usize>, reason: impl Into<String>) -> OpError {
    OpError::BadOperand { op: op.into(), operand, reason: reason.into() }
}
