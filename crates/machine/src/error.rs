//! What can be wrong with a description of hardware, each with its witness.

/// The result of every fallible operation of this crate.
pub type Result<T, E = MachineError> = std::result::Result<T, E>;

/// A description of hardware that cannot be used.
///
/// [`MachineError::kind`] is a stable identifier for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// A number of cores from the environment that is none.
    #[error("SENCORES is `{value}`; accepted are 1 to 32")]
    BadSencores {
        /// What it is.
        value: String,
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
    /// A file of a hardware preset that cannot be used.
    #[error("{path}: {reason}")]
    PresetFile {
        /// The file.
        path: String,
        /// What is wrong with it, with the line.
        reason: String,
    },
}

impl MachineError {
    /// A stable identifier of the variant.
    pub fn kind(&self) -> &'static str {
        match self {
            MachineError::BadSencores { .. } => "bad_sencores",
            MachineError::UnknownPreset { .. } => "unknown_preset",
            MachineError::Preset { .. } => "preset",
            MachineError::PresetFile { .. } => "preset_file",
        }
    }
}
