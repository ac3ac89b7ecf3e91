//! What can go wrong in a run.

use zellige_device::DeviceError;
use zellige_float::Dtype;

/// The result of every fallible function of this crate.
pub type Result<T, E = ProgramRunError> = std::result::Result<T, E>;

/// A refused or failed run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramRunError {
    /// An input that is not what the graph says.
    #[error("input `{name}`: it is {found}; {expected} is expected")]
    BadInput {
        /// Its name.
        name: String,
        /// What came.
        found: String,
        /// What the graph says.
        expected: String,
    },
    /// An input that could not be got.
    #[error("input `{name}`: {reason}")]
    NoInput {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A card that is not the one that the program was compiled for.
    #[error("the program is for {expected}, and the card is {found}")]
    OtherCard {
        /// What the program was compiled for.
        expected: String,
        /// What the card is.
        found: String,
    },
    /// A program that the independent check refuses.
    #[error("the program is refused by the check before it runs: {reason}")]
    Refused {
        /// The rule that it breaks, with the step or the buffer.
        reason: String,
    },
    /// An environment variable with a value that is not accepted.
    #[error("the variable {name}: `{value}` is not accepted; {accepted}")]
    BadVariable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A step that did something else than planned.
    #[error("step `{step}` did not do what was planned: {reason}")]
    Unplanned {
        /// The step.
        step: String,
        /// What differs first.
        reason: String,
    },
    /// Refused by the device.
    #[error("step `{step}`: {source}")]
    Step {
        /// The step.
        step: String,
        /// Why.
        source: DeviceError,
    },
    /// The caller ended the run.
    #[error("the run was ended before step `{step}`")]
    Ended {
        /// The step that did not run any more.
        step: String,
    },
    /// Refused by the device, outside of a step.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A dtype that host memory is not read as.
    #[error("a {dtype} tensor is not read as float32")]
    Dtype {
        /// The dtype.
        dtype: Dtype,
    },
}
