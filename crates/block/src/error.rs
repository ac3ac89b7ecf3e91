//! Why two layouts cannot be converted into each other.

use zellige_layout::LayoutError;

/// A conversion that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// An axis that no thread or register of a block is numbered by.
    #[error(
        "axis `{0}` numbers no thread or register of a block; a fragment is on laneid, warpid, wid_in_wg, tid and m"
    )]
    UnknownAxis(String),
    /// Two elements in one register.
    #[error(
        "elements {first} and {second} are both in register {register} of thread {thread}; a register holds one"
    )]
    SharedRegister {
        /// The thread.
        thread: usize,
        /// The register.
        register: usize,
        /// One element, by its row-major index.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// A negative coordinate, or a lane past the last of a warp.
    #[error("element {element} is at {axis} {value}; {accepted}")]
    OutsideBlock {
        /// The element, by its row-major index.
        element: u32,
        /// The axis.
        axis: String,
        /// The coordinate.
        value: i64,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// Two tensors of different sizes.
    #[error(
        "the source has {from} elements and the destination {to}; a conversion keeps every element"
    )]
    OtherTensor {
        /// Elements of the source.
        from: i64,
        /// Elements of the destination.
        to: i64,
    },
    /// An element width for which there is no plan.
    #[error("elements of {0} bits; conversions are planned for 8, 16, 32 and 64 bits")]
    ElementBits(i64),
    /// More than the planner goes through.
    #[error("a fragment of {0} registers over all threads; at most {MAX} are planned", MAX = crate::MAX_SLOTS)]
    TooLarge(u128),
    /// No addressing of shared memory fits the bytes that are given.
    #[error("the tensor needs {needed} bytes of shared memory, and {given} are given")]
    SharedMemory {
        /// Bytes that the smallest addressing needs.
        needed: usize,
        /// Bytes that are given.
        given: usize,
    },
    /// A route that was asked for and cannot do it.
    #[error("{0}")]
    Route(String),
    /// The layout itself is refused.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A plan that does not do what it says: a mistake of the planner.
    #[error(
        "register {register} of thread {thread} should hold element {wanted} and holds {found}"
    )]
    WrongPlan {
        /// The thread.
        thread: usize,
        /// The register.
        register: usize,
        /// The element that belongs there.
        wanted: u32,
        /// What is there, in words.
        found: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, BlockError>;
