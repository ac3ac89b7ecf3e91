//! What can go wrong on a card, one variant per violated precondition, each with its witness.

use crate::units::Bytes;

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
            DeviceError::UnknownPreset { .. } => "unknown_preset",
            DeviceError::Preset { .. } => "preset",
            DeviceError::Layout(e) => e.kind(),
            DeviceError::Move(_) => "move",
        }
    }
}
