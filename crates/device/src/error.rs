//! What can go wrong on a card, one variant per violated precondition, each with its witness.

use zellige_float::Dtype;
use zellige_machine::SimulatedTime;
use zellige_machine::units::BinaryBytes;
use zellige_op::OpError;
use zellige_stick::DataFormat;

/// The result of every fallible operation of this crate.
pub type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// A refused request. The card stays usable, and nothing was changed.
///
/// Every variant carries the request, and its message says what would have been accepted.
/// [`DeviceError::kind`] is a stable identifier for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// One allocation longer than the longest piece of the memory.
    #[error(
        "{}: asked {}, more than one allocation can take: at most {}, as none spans two segments or \
         two cores; split the tensor", place, BinaryBytes(*asked), BinaryBytes(*limit)
    )]
    TooLarge {
        /// The memory: device memory, a segment, a core's LX.
        place: String,
        /// The requested bytes.
        asked: u64,
        /// The longest allocation there.
        limit: u64,
    },
    /// No hole is long enough.
    #[error(
        "{}: out of memory: asked {}; used {}, free {}, largest hole {}; free tensors or ask for \
         at most the largest hole", place, BinaryBytes(*asked), BinaryBytes(*used), BinaryBytes(*free),
        BinaryBytes(*largest_hole)
    )]
    OutOfMemory {
        /// The memory: device memory, a segment, a core's LX.
        place: String,
        /// The requested bytes.
        asked: u64,
        /// Bytes taken by live blocks.
        used: u64,
        /// Bytes not taken.
        free: u64,
        /// The longest allocation that would succeed.
        largest_hole: u64,
    },
    /// The simulated memory has room, but the machine that simulates it has not.
    #[error(
        "the host machine has no {} for a block of the simulated card or a copy of it ({reason}); free host \
         memory or raise the limit on address space (ulimit -v)", BinaryBytes(*asked)
    )]
    HostMemory {
        /// The requested bytes.
        asked: u64,
        /// The error of the system.
        reason: String,
    },
    /// A segment number past the last one.
    #[error("segment {segment} does not exist; segments are 0 to {}", count.saturating_sub(1))]
    NoSuchSegment {
        /// The requested number.
        segment: usize,
        /// How many there are.
        count: usize,
    },
    /// A core number past the last one.
    #[error("core {core} does not exist; cores are 0 to {}", count.saturating_sub(1))]
    NoSuchCore {
        /// The requested number.
        core: usize,
        /// How many there are.
        count: usize,
    },
    /// An operation divided over more cores than the card uses.
    #[error("`{op}` is divided over {asked} cores; this card uses at most {most}")]
    TooManyCores {
        /// The operation.
        op: String,
        /// Cores of its division.
        asked: usize,
        /// Cores in use.
        most: usize,
    },
    /// A number of cores that a card cannot use.
    #[error("a card cannot use {cores} cores; accepted are 1 to {most}")]
    BadCoreCount {
        /// The requested number.
        cores: usize,
        /// How many there are.
        most: usize,
    },
    /// A device mode that does not exist.
    #[error("unknown device mode `{mode}`; accepted are `dl16` and `ieee`")]
    UnknownMode {
        /// The requested mode.
        mode: String,
    },
    /// A tensor was to be put into the segment for programs.
    #[error(
        "segment {segment} (base {base:#x}) is reserved for programs; tensors go to {accepted}"
    )]
    ProgramSegment {
        /// The requested segment.
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
    /// A tensor that kernels cannot read in its layout.
    #[error("dimension {dim} is not in whole sticks: {reason}; copy the tensor first")]
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
    /// Tensors of different cards in one operation.
    #[error(
        "{op}: operand {operand} is on {}card {found}, and the operation runs on card {expected}",
        if found == expected { "another " } else { "" }
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
    /// An integer that the card's 32 bits do not hold.
    #[error(
        "the integer {value}{} does not fit in the 32 bits of the device's integers; accepted are \
         -2147483648 to 2147483647",
        if at.is_empty() { String::new() } else { format!(" at {at:?}") }
    )]
    Wide {
        /// The integer.
        value: String,
        /// The coordinates of its element; empty for a number.
        at: Vec<i64>,
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
    /// A stream number past the last one.
    #[error(
        "stream {stream} does not exist; streams are 0 (default), 1 to 32 (low priority) and 33 to 64 \
         (high priority)"
    )]
    NoSuchStream {
        /// The requested number.
        stream: u32,
    },
    /// A card number past the last one.
    #[error("Device index {index} out of range [0, {count})")]
    NoSuchCard {
        /// The requested number.
        index: usize,
        /// How many cards there are.
        count: usize,
    },
    /// Work in the background failed; raised when its stream is synchronized.
    #[error(
        "stream {stream}: `{op}` failed: {error}{}", match skipped {
            0 => String::new(),
            1 => "; the operation after it was skipped".into(),
            n => format!("; the {n} operations after it were skipped"),
        }
    )]
    StreamFailed {
        /// The stream.
        stream: u32,
        /// The operation.
        op: String,
        /// Later operations of the stream that were skipped.
        skipped: u64,
        /// Its message.
        error: Box<DeviceError>,
    },
    /// Work in the background panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// Work of a card wanted to wait for the worker that it runs on.
    #[error(
        "work running on card {card} cannot wait for stream {stream} of the same card; wait outside of it"
    )]
    WaitsForItself {
        /// The card.
        card: usize,
        /// The stream to be waited for.
        stream: u32,
    },
    /// An event of one card used with another.
    #[error(
        "an event of card {event} means nothing to card {card}; synchronize it on the host, then submit"
    )]
    EventOfAnotherCard {
        /// The card of the event.
        event: usize,
        /// The card it was used with.
        card: usize,
    },
    /// Time from a later event to an earlier one.
    #[error("the first event is at {first}, after the second at {second}; swap them")]
    EventsReversed {
        /// When the first happens.
        first: SimulatedTime,
        /// When the second happens.
        second: SimulatedTime,
    },
    /// The system gave no thread for a card.
    #[error(
        "card {card}: the host gave no thread to work on ({reason}); raise the limit (ulimit -u)"
    )]
    NoWorker {
        /// The card.
        card: usize,
        /// The error of the system.
        reason: String,
    },
    /// An operation that cannot be, or operands that it does not take.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A hardware preset or a number of cores that cannot be used.
    #[error(transparent)]
    Machine(#[from] zellige_machine::MachineError),
    /// The algebra refused a layout.
    #[error(transparent)]
    Layout(#[from] zellige_stick::StickError),
    /// The engine refused a move.
    #[error(transparent)]
    Move(#[from] zellige_movement::MoveError),
}

impl From<zellige_layout::LayoutError> for DeviceError {
    fn from(e: zellige_layout::LayoutError) -> DeviceError {
        DeviceError::Layout(e.into())
    }
}

impl From<zellige_float::UnknownDtype> for DeviceError {
    fn from(e: zellige_float::UnknownDtype) -> DeviceError {
        DeviceError::Layout(e.into())
    }
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
            DeviceError::TooManyCores { .. } => "too_many_cores",
            DeviceError::BadCoreCount { .. } => "bad_core_count",
            DeviceError::UnknownMode { .. } => "unknown_mode",
            DeviceError::ProgramSegment { .. } => "program_segment",
            DeviceError::NoProgramSegment { .. } => "no_program_segment",
            DeviceError::BadSegment { .. } => "bad_segment",
            DeviceError::Unstored { .. } => "unsupported_dtype",
            DeviceError::Irregular { .. } => "irregular",
            DeviceError::BadDivision { .. } => "bad_division",
            DeviceError::MixedCards { .. } => "mixed_cards",
            DeviceError::HostBytes { .. } => "host_bytes",
            DeviceError::Wide { .. } => "wide",
            DeviceError::SizeMismatch { .. } => "size_mismatch",
            DeviceError::NoSuchStream { .. } => "no_such_stream",
            DeviceError::NoSuchCard { .. } => "no_such_card",
            DeviceError::StreamFailed { .. } => "stream_failed",
            DeviceError::Panicked { .. } => "panicked",
            DeviceError::WaitsForItself { .. } => "waits_for_itself",
            DeviceError::EventOfAnotherCard { .. } => "event_of_another_card",
            DeviceError::EventsReversed { .. } => "events_reversed",
            DeviceError::NoWorker { .. } => "no_worker",
            DeviceError::Op(e) => e.kind(),
            DeviceError::Machine(e) => e.kind(),
            DeviceError::Layout(e) => e.kind(),
            DeviceError::Move(_) => "move",
        }
    }
}

/// The error of operands that an operation does not take.
pub(crate) fn refuse_operand(
    op: &str,
    operand: Option<usize>,
    reason: impl Into<String>,
) -> DeviceError {
    zellige_op::refuse_operand(op, operand, reason).into()
}
