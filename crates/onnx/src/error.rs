//! Errors about ONNX models.

/// The result of every fallible function of this crate.
pub type Result<T, E = OnnxError> = std::result::Result<T, E>;

/// A refused model: what is wrong, in which node and operand, at which byte of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", error_place(self))]
pub struct OnnxError {
    /// A stable identifier for programs.
    pub kind: &'static str,
    /// What is wrong and what would be accepted.
    pub message: String,
    /// The node: its number, its name and its operation.
    pub node: Option<String>,
    /// The operand, from 0, and its name.
    pub operand: Option<(usize, String)>,
    /// The byte of the file that it is about.
    pub at: Option<usize>,
    /// Inputs whose elements would have to be known before a run.
    pub(crate) needs: Option<Box<NeededInputs>>,
}

/// Inputs of a model, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededInputs(pub(crate) Vec<String>);

fn error_place(e: &OnnxError) -> String {
    let mut place = String::new();
    if let Some(at) = e.at {
        place += &format!("byte {at}: ");
    }
    match (&e.node, &e.operand) {
        (Some(node), Some((k, name))) => place += &format!("{node}, operand {k} `{name}`: "),
        (Some(node), None) => place += &format!("{node}: "),
        _ => {}
    }
    place
}

impl OnnxError {
    /// Inputs whose elements would have to be known before a run. With them `import_graph_with` may
    /// accept the model.
    pub fn needed_inputs(&self) -> &[String] {
        self.needs.as_ref().map_or(&[], |n| &n.0)
    }

    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> OnnxError {
        let (node, operand, at, needs) = (None, None, None, None);
        OnnxError { kind, message: message.into(), node, operand, at, needs }
    }

    /// An error about a file that violates its format.
    pub(crate) fn malformed_file(at: usize, message: impl Into<String>) -> OnnxError {
        OnnxError { at: Some(at), ..OnnxError::new("malformed", message) }
    }
}

impl From<zellige_files::FileError> for OnnxError {
    fn from(e: zellige_files::FileError) -> OnnxError {
        OnnxError::new("bad_file", e.to_string())
    }
}

/// The beginning of a text of any length, enough to recognize it in a message.
pub(crate) fn quote_start(text: &str) -> String {
    zellige_notation::quote_beginning(text, 80)
}
