//! Errors about files, one variant per violated expectation.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of every fallible operation of this crate.
pub type Result<T, E = FileError> = std::result::Result<T, E>;

/// A refused file or request.
///
/// Every variant names the file; [`FileError::byte_position`] is the position of the problem, and
/// the message says what would have been accepted. [`FileError::kind`] is a stable identifier.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", show_path(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted action, with its position if it has one.
        action: String,
        /// The reason that the system gave.
        source: Arc<io::Error>,
        /// Whether it was to be written.
        writing: bool,
    },
    /// A folder, a pipe or a device, which cannot be read by position.
    #[error(
        "{}: not a regular file; tensors are read from and written to regular files",
        show_path(path)
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// Whether it was to be written.
        writing: bool,
    },
    /// Neither the first bytes nor the name identify the format.
    #[error(
        "{}: {found}; accepted are .npy (first bytes \\x93NUMPY), .npz (PK\\x03\\x04) and \
         .safetensors (a length of 8 bytes, then {{)",
        show_path(path)
    )]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// The beginning of the file.
        found: String,
    },
    /// The file ends before a part that its header announces.
    #[error(
        "{}: byte {at}: {what} takes {need} bytes and {have} are there: {} missing, \
         the file is truncated or its header is wrong", show_path(path), format_byte_count(need.saturating_sub(*have))
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The position of the part.
        at: u64,
        /// The part.
        what: String,
        /// The number of bytes of the part.
        need: u64,
        /// The available bytes from its beginning on; fewer than `need`.
        have: u64,
    },
    /// The file was changed while it was read.
    #[error(
        "{}: byte {at}: the file was changed while it was read: it had {before} bytes when it was opened \
         and has {now} now; read it when nobody writes to it, or write a new file under its name",
        show_path(path)
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The byte that was to be read, or the end of the shorter version.
        at: u64,
        /// The length when it was opened.
        before: u64,
        /// The current length.
        now: u64,
    },
    /// Bytes that the format does not allow here.
    #[error("{}: byte {at}: {what}; accepted: {accepted}", show_path(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
        /// What was found.
        what: String,
        /// What would be accepted.
        accepted: String,
    },
    /// An element type that is not a dtype of Zellige, or that the container cannot name.
    #[error("{}: byte {at}: dtype {dtype}: {help}", show_path(path))]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The position of the dtype, or 0 for a file that is being written.
        at: u64,
        /// The dtype as written.
        dtype: String,
        /// Why it is refused and what to do.
        help: String,
    },
    /// One name for two tensors or texts.
    #[error(
        "{}: byte {at}: the name `{name}` occurs twice; each tensor or text needs its own",
        show_path(path)
    )]
    DuplicateName {
        /// The file.
        path: PathBuf,
        /// The position of the second one.
        at: u64,
        /// The name.
        name: String,
    },
    /// Two tensors share bytes.
    #[error(
        "{}: byte {at}: `{second}` begins before the end of `{first}`; tensors may not overlap",
        show_path(path)
    )]
    Overlap {
        /// The file.
        path: PathBuf,
        /// The position of the second one.
        at: u64,
        /// The first tensor.
        first: String,
        /// The tensor that begins inside of it.
        second: String,
    },
    /// A tensor that the file does not have.
    #[error("{}: no tensor `{name}`; the file has {known}", show_path(path))]
    NoSuchTensor {
        /// The file.
        path: PathBuf,
        /// The requested name.
        name: String,
        /// The names that would be accepted.
        known: String,
    },
    /// A tensor must be chosen by name.
    #[error(
        "{}: holds {count} tensors where one is expected; choose one of {known}",
        show_path(path)
    )]
    NotOne {
        /// The file.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// Their names.
        known: String,
    },
    /// A compressed tensor was to be read by position.
    #[error(
        "{}: byte {at}: `{name}` is compressed and can only be read from start to end; write it \
         with np.savez instead of np.savez_compressed, or read it whole",
        show_path(path)
    )]
    Compressed {
        /// The file.
        path: PathBuf,
        /// The position of its compressed bytes.
        at: u64,
        /// The tensor.
        name: String,
    },
    /// The checksum of an archive entry does not match its bytes.
    #[error(
        "{}: byte {at}: the bytes of `{name}` have CRC-32 {computed:08x} and the archive says \
         {stored:08x}; the file is damaged",
        show_path(path)
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The position of the entry.
        at: u64,
        /// The tensor.
        name: String,
        /// The checksum in the archive.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// Bytes outside of a tensor.
    #[error(
        "{}: bytes {offset}..{} of `{name}`, which has {bytes}; a range inside it is accepted",
        show_path(path), offset.saturating_add(*len)
    )]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The first requested byte, counted from the start of the tensor.
        offset: u64,
        /// The number of requested bytes.
        len: u64,
        /// The number of bytes of the tensor.
        bytes: u64,
    },
    /// A request that a file cannot fulfil.
    #[error("{}: {what}; accepted: {accepted}", show_path(path))]
    Request {
        /// The file.
        path: PathBuf,
        /// The request.
        what: String,
        /// What would be accepted.
        accepted: String,
    },
}

impl FileError {
    /// A stable identifier of the variant, for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            FileError::Io { .. } => "io",
            FileError::NotAFile { .. } => "not_a_file",
            FileError::UnknownKind { .. } => "unknown_kind",
            FileError::Truncated { .. } => "truncated",
            FileError::Changed { .. } => "changed",
            FileError::Malformed { .. } => "malformed",
            FileError::Dtype { .. } => "dtype",
            FileError::DuplicateName { .. } => "duplicate_name",
            FileError::Overlap { .. } => "overlap",
            FileError::NoSuchTensor { .. } => "no_such_tensor",
            FileError::NotOne { .. } => "not_one",
            FileError::Compressed { .. } => "compressed",
            FileError::Checksum { .. } => "checksum",
            FileError::OutOfRange { .. } => "out_of_range",
            FileError::Request { .. } => "request",
        }
    }

    /// Whether a file that was being written is the problem.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            FileError::Io { writing: true, .. } | FileError::NotAFile { writing: true, .. }
        )
    }

    /// The file that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            FileError::Io { path, .. }
            | FileError::NotAFile { path, .. }
            | FileError::UnknownKind { path, .. }
            | FileError::Truncated { path, .. }
            | FileError::Changed { path, .. }
            | FileError::Malformed { path, .. }
            | FileError::Dtype { path, .. }
            | FileError::DuplicateName { path, .. }
            | FileError::Overlap { path, .. }
            | FileError::NoSuchTensor { path, .. }
            | FileError::NotOne { path, .. }
            | FileError::Compressed { path, .. }
            | FileError::Checksum { path, .. }
            | FileError::OutOfRange { path, .. }
            | FileError::Request { path, .. } => path,
        }
    }

    /// The position of the problem in the file, if it has one.
    pub fn byte_position(&self) -> Option<u64> {
        match self {
            FileError::Truncated { at, .. }
            | FileError::Changed { at, .. }
            | FileError::Malformed { at, .. }
            | FileError::Dtype { at, .. }
            | FileError::DuplicateName { at, .. }
            | FileError::Overlap { at, .. }
            | FileError::Compressed { at, .. }
            | FileError::Checksum { at, .. } => Some(*at),
            _ => None,
        }
    }

    pub(crate) fn from_io(path: &Path, action: impl Into<String>, source: io::Error) -> FileError {
        let (path, action) = (path.to_path_buf(), action.into());
        FileError::Io { path, action, source: Arc::new(source), writing: false }
    }

    /// An error about a file that is being written.
    pub(crate) fn from_write(
        path: &Path,
        action: impl Into<String>,
        source: io::Error,
    ) -> FileError {
        let (path, action) = (path.to_path_buf(), action.into());
        FileError::Io { path, action, source: Arc::new(source), writing: true }
    }

    pub(crate) fn refused_request(
        path: &Path,
        what: impl Into<String>,
        accepted: impl Into<String>,
    ) -> FileError {
        FileError::Request {
            path: path.to_path_buf(),
            what: what.into(),
            accepted: accepted.into(),
        }
    }
}

fn format_byte_count(bytes: u64) -> String {
    if bytes == 1 { "1 is".to_string() } else { format!("{bytes} are") }
}

/// The beginning of a text of any length, enough to recognize it in a message, without characters
/// that a terminal would interpret.
pub(crate) fn quote_start(text: &str) -> String {
    zellige_notation::quote_beginning(text, 64)
}

/// A path for a message.
pub(crate) fn show_path(path: &Path) -> String {
    zellige_notation::make_visible(&path.to_string_lossy()).into_owned()
}

/// Lists names for a message: the first few, and the number of the others.
pub(crate) fn list_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let total = names.len();
    if total == 0 {
        return "no tensors".to_string();
    }
    let mut out =
        names.take(8).map(|n| format!("`{}`", quote_start(n))).collect::<Vec<_>>().join(", ");
    if total > 8 {
        out.push_str(&format!(" and {} more", total - 8));
    }
    out
}
