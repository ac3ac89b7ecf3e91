//! What can go wrong on a card, one variant per violated precondition, each with its witness.

use crate::units::Bytes;
use zellige_layout::{DataFormat, Dtype};

/// The result of every fallible operation of this crate.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A refused request. The card stays usable, and nothing was changed.
///
/// Every variant carries what was asked and its message says what would have been accepted.
/// [`DeviceError::kind`] is a stable identifier for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// One allocation longer than the longest piece of the memory.
    #[error(
        "{}: asked {}, more than one allocation can take: at most {}, as none spans two segments or \
         two cores; split the tensor", place, Bytes(*asked), Bytes(*limit)
    )]
    TooLarge {
        /// The memory: device memory, a segment, a core's LX.
        place: String,
        /// Bytes asked.
        asked: u64,
        /// The longest allocation there.
        limit: u64,
    },
    /// No hole is long enough.
    #[error(
        "{}: out of memory: asked {}; used {}, free {}, largest hole {}; free tensors or ask for \
         at most the largest hole", place, Bytes(*asked), Bytes(*used), Bytes(*free),
        Bytes(*largest_hole)
    )]
    OutOfMemory {
        /// The memory: device memory, a segment, a core's LX.
        place: String,
        /// Bytes asked.
        asked: u64,
        /// Bytes taken by live blocks.
        used: u64,
        /// Bytes not taken.
        free: u64,
        /// The longest allocation that would succeed.
        largest_hole: u64,
    },
    /// The simulated memory has room and the machine that simulates it has not.
    #[error(
        "the host machine has no {} for a block of the simulated card ({reason}); free host \
         memory or raise the limit on address space (ulimit -v)", Bytes(*asked)
    )]
    HostMemory {
        /// Bytes asked.
        asked: u64,
        /// What the system said.
        reason: String,
    },
    /// A segment number past the last one.
    #[error("segment {segment} does not exist; segments are 0 to {}", count.saturating_sub(1))]
    NoSuchSegment {
        /// The number asked for.
        segment: usize,
        /// How many there are.
        count: usize,
    },
    /// A core number past the last one.
    #[error("core {core} does not exist; cores are 0 to {}", count.saturating_sub(1))]
    NoSuchCore {
        /// The number asked for.
        core: usize,
        /// How many there are.
        count: usize,
    },
    /// A tensor was to be put where programs live.
    #[error(
        "segment {segment} (base {base:#x}) is reserved for programs; tensors go to {accepted}"
    )]
    ProgramSegment {
        /// The segment asked for.
        segment: usize,
        /// Its base address.
        base: u64,
        /// The segments that hold tensors.
        accepted: String,
    },
    /// A memory without a segment for programs.
    #[error("{place} has no segment for programs; give one the purpose `programs`")]
    NoProgramSegment {
        /// The memory.
        place: String,
    },
    /// A description of a memory that cannot be one.
    #[error("segment {segment} (base {base:#x}, {bytes} bytes): {reason}")]
    BadSegment {
        /// The segment described.
        segment: usize,
        /// Its base.
        base: u64,
        /// Its length.
        bytes: u64,
        /// What is wrong and what is accepted.
        reason: &'static str,
    },
    /// A format that no tensor of the simulated device holds.
    #[error(
        "the simulated device does not store {dtype} as {format}; it stores 8-, 16- and 32-bit \
         formats"
    )]
    Unstored {
        /// The device format.
        format: DataFormat,
        /// The dtype of the tensor.
        dtype: Dtype,
    },
    /// A host dtype that cannot be moved.
    #[error(
        "{dtype} is no dtype of host tensors here; accepted are float64/32/16, bfloat16, float8, \
         int64/32/16/8, uint8, uint32 and bool"
    )]
    HostDtype {
        /// The dtype.
        dtype: Dtype,
    },
    /// A tensor that kernels cannot read as it lies.
    #[error("dimension {dim} does not lie in whole sticks: {reason}; copy the tensor first")]
    Irregular {
        /// The logical dimension.
        dim: usize,
        /// Why.
        reason: String,
    },
    /// A work division that does not fit.
    #[error("splits {splits:?} do not divide the work{}: accepted are {accepted}",
        dim.map(|d| format!(" in dimension {d}")).unwrap_or_default())]
    BadDivision {
        /// The splits.
        splits: Vec<usize>,
        /// The dimension at fault, where it is one.
        dim: Option<usize>,
        /// What would be accepted.
        accepted: String,
    },
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
    /// An operation that the device does not have.
    #[error("there is no operation `{name}`{}", hint.as_ref().map(|h| format!("; did you mean `{h}`?")).unwrap_or_default())]
    NoSuchOp {
        /// The name asked for.
        name: String,
        /// The nearest name.
        hint: Option<String>,
    },
    /// Tensors of different cards in one operation.
    #[error(
        "{op}: operand {operand} is on card {found}, and the operation runs on card {expected}"
    )]
    MixedCards {
        /// The operation.
        op: String,
        /// The operand.
        operand: usize,
        /// Its card.
        found: usize,
        /// The card of the operation.
        expected: usize,
    },
    /// Host memory of another size than the tensor.
    #[error("the host {what} holds {found} bytes, and the tensor needs {needed}")]
    HostBytes {
        /// `source` or `destination`.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        found: usize,
    },
    /// Two tensors that have to have one size.
    #[error("{what}: sizes {left:?} and {right:?} differ")]
    SizeMismatch {
        /// What needs them equal.
        what: String,
        /// One size.
        left: Vec<i64>,
        /// The other.
        right: Vec<i64>,
    },
    /// A name of a preset that is not built in.
    #[error("no hardware preset is called `{name}`; built in are {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A hardware preset that cannot be one.
    #[error("hardware preset, line {line}{}: {reason}", if key.is_empty() { String::new() } else { format!(", `{key}`") })]
    Preset {
        /// The line, counted from 1.
        line: usize,
        /// Section and key.
        key: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// The algebra refused a layout.
    #[error(transparent)]
    Layout(#[from] zellige_layout::Error),
    /// The engine refused a move.
    #[error(transparent)]
    Move(#[from] zellige_movement::MoveError),
}

impl DeviceError {
    /// A stable identifier of the variant.
    pub fn kind(&self) -> &'static str {
        match self {
            DeviceError::TooLarge { .. } => "too_large",
            DeviceError::OutOfMemory { .. } => "out_of_memory",
            DeviceError::HostMemory { .. } => "host_memory",
            DeviceError::NoSuchSegment { .. } => "no_such_segment",
            DeviceError::NoSuchCore { .. } => "no_such_core",
            DeviceError::ProgramSegment { .. } => "program_segment",
            DeviceError::NoProgramSegment { .. } => "no_program_segment",
            DeviceError::BadSegment { .. } => "bad_segment",
            DeviceError::Unstored { .. } | DeviceError::HostDtype { .. } => "unsupported_dtype",
            DeviceError::Irregular { .. } => "irregular",
            DeviceError::BadDivision { .. } => "bad_division",
            DeviceError::BadOperand { .. } => "bad_operand",
            DeviceError::BadAttribute { .. } => "bad_attribute",
            DeviceError::NoSuchOp { .. } => "no_such_op",
            DeviceError::MixedCards { .. } => "mixed_cards",
            DeviceError::HostBytes { .. } => "host_bytes",
            DeviceError::SizeMismatch { .. } => "size_mismatch",
            DeviceError::UnknownPreset { .. } => "unknown_preset",
            DeviceError::Preset { .. } => "preset",
            DeviceError::Layout(e) => e.kind(),
            DeviceError::Move(_) => "move",
        }
    }
}
