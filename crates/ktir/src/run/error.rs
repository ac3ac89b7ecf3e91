//! Faults of a running kernel, each with its witness.

use std::fmt;
use std::ops::Range;
use zellige_notation::Diagnostic;

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KtirRunError {
    /// What happened.
    pub fault: KtirFault,
    /// The core that failed, if one did.
    pub core: Option<usize>,
    /// The operation.
    pub op: Option<&'static str>,
    /// The place in the text that the operation was read from; empty for a module that was built.
    pub span: Range<usize>,
}

/// A core that waits, for which cores, and which of those have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCore {
    /// The waiting core.
    pub core: usize,
    /// The cores that it waits for.
    pub for_cores: Vec<usize>,
    /// Those of them that have already ended.
    pub ended: Vec<usize>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KtirFault {
    /// The module breaks a rule.
    #[error("{0}")]
    Invalid(String),
    /// No such kernel.
    #[error("there is no kernel `@{name}`; there are {}", known.join(", "))]
    UnknownKernel {
        /// The name given.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// An argument that does not fit.
    #[error("argument `{name}` {reason}")]
    BadArgument {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A coordinate outside a view.
    #[error("index {index:?} is outside the view of shape {shape:?}")]
    OutOfBounds {
        /// The coordinate.
        index: Vec<i64>,
        /// The sizes of the view.
        shape: Vec<i64>,
    },
    /// A coordinate of a distributed view that no partition has.
    #[error("index {index:?} is in no partition of the distributed view")]
    NoPartition {
        /// The coordinate.
        index: Vec<i64>,
    },
    /// An address range outside of every array.
    #[error("bytes {start}..{end} belong to no array{near}")]
    Address {
        /// The first byte.
        start: i64,
        /// One past the last.
        end: i64,
        /// The nearest array before them, if there is one.
        near: String,
    },
    /// An index view holds a negative index.
    #[error("the index view holds {value} at {at:?}; an index is 0 or more")]
    NegativeIndex {
        /// The negative index.
        value: i64,
        /// Where.
        at: Vec<i64>,
    },
    /// A scratchpad is full.
    #[error("LX overflow: {tile} takes {bytes} bytes, {used} of {capacity} bytes are in use")]
    LxOverflow {
        /// The type of the tile.
        tile: String,
        /// What it takes.
        bytes: u64,
        /// The bytes in use.
        used: u64,
        /// What there is.
        capacity: u64,
    },
    /// Two cores write one element.
    #[error("race: core {other} has already written element {element} of `{array}`")]
    Race {
        /// Who wrote first.
        other: usize,
        /// The array.
        array: String,
        /// Its element, counted from the first.
        element: usize,
    },
    /// Cores wait for each other, or for one that has ended.
    #[error("deadlock: {}", format_waits(.0))]
    Deadlock(Vec<WaitingCore>),
    /// A division of integers by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A loop that does not advance.
    #[error("a step of {0} does not advance")]
    Step(i64),
    /// A number that does not fit in 64 bits.
    #[error("{0} does not fit in 64 bits")]
    Overflow(&'static str),
    /// Groups of cores that make no sense for the operation.
    #[error("{0}")]
    Groups(String),
    /// More steps than were allowed.
    #[error(
        "the run takes more than {0} steps; a step is an operation of a core, or {each} elements of one",
        each = super::budget::ELEMENTS_PER_STEP
    )]
    TooLong(u64),
    /// More bytes than were allowed.
    #[error("the run needs {bytes} bytes more, {used} of {limit} bytes are in use")]
    OutOfMemory {
        /// Bytes requested.
        bytes: u64,
        /// The bytes in use.
        used: u64,
        /// What there is.
        limit: u64,
    },
    /// The run was asked to stop.
    #[error("the run was stopped")]
    Stopped,
    /// A tile with too many pieces.
    #[error("{0}")]
    TooLarge(String),
}

fn format_waits(waits: &[WaitingCore]) -> String {
    let one = |w: &WaitingCore| {
        let list = |cores: &[usize]| {
            // Eight are enough to see the pattern; a grid of 4096 cores that wait for each other
            // would fill megabytes.
            cores.iter().take(8).map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("core {} waits for {}", w.core, list(&w.for_cores));
        if w.for_cores.len() > 8 {
            text += &format!(" and {} more", w.for_cores.len() - 8);
        }
        if !w.ended.is_empty() {
            text += &format!(" (ended: {})", list(&w.ended));
        }
        text
    };
    let mut shown: Vec<String> = waits.iter().take(8).map(one).collect();
    if waits.len() > 8 {
        shown.push(format!("and {} more cores wait", waits.len() - 8));
    }
    shown.join("; ")
}

impl KtirFault {
    /// A stable identifier.
    pub fn kind(&self) -> &'static str {
        match self {
            KtirFault::Invalid(_) => "invalid",
            KtirFault::UnknownKernel { .. } => "unknown_kernel",
            KtirFault::BadArgument { .. } => "bad_argument",
            KtirFault::OutOfBounds { .. }
            | KtirFault::NoPartition { .. }
            | KtirFault::Address { .. } => "out_of_bounds",
            KtirFault::NegativeIndex { .. } => "negative_index",
            KtirFault::LxOverflow { .. } => "lx_overflow",
            KtirFault::Race { .. } => "race",
            KtirFault::Deadlock(_) => "deadlock",
            KtirFault::DivisionByZero => "division_by_zero",
            KtirFault::Step(_) => "step",
            KtirFault::Overflow(_) => "overflow",
            KtirFault::Groups(_) => "groups",
            KtirFault::TooLong(_) => "too_long",
            KtirFault::OutOfMemory { .. } => "out_of_memory",
            KtirFault::TooLarge(_) => "too_large",
            KtirFault::Stopped => "stopped",
        }
    }
}

impl KtirRunError {
    pub(super) fn before_start(fault: KtirFault) -> KtirRunError {
        KtirRunError { fault, core: None, op: None, span: 0..0 }
    }

    /// Turns the error into a diagnostic of the module's text.
    pub fn to_diagnostic(&self) -> Diagnostic {
        let label = match (self.core, self.op) {
            (Some(core), _) => format!("on core {core}"),
            _ => "here".into(),
        };
        Diagnostic::syntax_error(self.span.clone(), self.to_string(), label).with_id("Z210")
    }
}

impl fmt::Display for KtirRunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(core) = self.core {
            write!(f, "core {core}, ")?;
        }
        if let Some(op) = self.op {
            write!(f, "`{op}`: ")?;
        }
        write!(f, "{}", self.fault)
    }
}

impl std::error::Error for KtirRunError {}
