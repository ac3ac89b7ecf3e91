//! Reads and writes tensors and texts that fit in memory, in one call.

use crate::container::Container;
use crate::disk;
use crate::error::{FileError, Result, quote_start};
use crate::info::{ContainerKind, NewTensor, TensorInfo};
use crate::input::InputFile;
use crate::temporary::{FileAccess, TemporaryFile};
use crate::writer::ContainerWriter;
use std::path::Path;

/// Reads a tensor and its bytes as they are in the file; without a name, the only tensor of the
/// file.
///
/// Compressed tensors are read too, and the checksums of archives are checked.
pub fn read_tensor_file(
    path: impl AsRef<Path>,
    name: Option<&str>,
) -> Result<(TensorInfo, Vec<u8>)> {
    let container = Container::open(path)?;
    let info = container.tensor_or_only(name)?;
    Ok((info.clone(), container.read_tensor(info)?))
}

impl Container {
    /// Reads the bytes of a tensor of this file, as they are in the file.
    ///
    /// # Errors
    /// Bytes that cannot be read or do not fit in memory, wrong checksums, and a file that was changed
    /// since it was opened.
    pub fn read_tensor(&self, info: &TensorInfo) -> Result<Vec<u8>> {
        let full = |e| {
            let action = format!(
                "hold {} bytes of `{}` in memory",
                info.byte_len(),
                quote_start(info.name())
            );
            FileError::from_io(self.path(), action, e)
        };
        let mut reader = self.tensor_reader(info)?;
        let bytes = if info.data_offset().is_some() {
            let mut bytes = disk::zeroed_memory(info.byte_len()).map_err(full)?;
            reader.fill_buffer(&mut bytes)?;
            bytes
        } else {
            // A compressed tensor may claim more bytes than it has, so memory is allocated as they
            // arrive. 64 KiB at a time: the decompressor's own window is 32 KiB, so larger parts
            // save nothing.
            let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
            while reader.bytes_left() > 0 {
                let most =
                    usize::try_from(reader.bytes_left()).unwrap_or(part.len()).min(part.len());
                reader.fill_buffer(&mut part[..most])?;
                disk::append_bytes(&mut bytes, &part[..most]).map_err(full)?;
            }
            bytes
        };
        // Checked after the last byte was read, or a change between two reads would go unnoticed.
        self.check_unchanged()?;
        Ok(bytes)
    }
}

/// Reads the bytes of a file, at most `most`.
///
/// # Errors
/// Besides those of reading: paths that are not regular files, and longer files.
pub fn read_bytes(path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>> {
    let input = InputFile::open(path.as_ref())?;
    input.check_max_len(most)?;
    let bytes = input.read_bytes(0, input.len, "the file")?;
    input.check_unchanged()?;
    Ok(bytes)
}

/// Reads a text in UTF-8, at most `most` bytes.
///
/// # Errors
/// Besides those of [`read_bytes`]: bytes that are not UTF-8, with their position.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> Result<String> {
    let path = path.as_ref();
    String::from_utf8(read_bytes(path, most)?).map_err(|e| FileError::Malformed {
        path: path.to_path_buf(),
        at: e.utf8_error().valid_up_to() as u64,
        what: "bytes that are not text".into(),
        accepted: "UTF-8".into(),
    })
}

/// Writes a file with these tensors, whose bytes are row-major and little-endian.
///
/// # Errors
/// Besides those of [`ContainerWriter`]: bytes whose number does not match dtype and shape.
pub fn write_tensor_file(
    path: impl AsRef<Path>,
    tensors: &[(NewTensor, &[u8])],
    kind: ContainerKind,
) -> Result<()> {
    let path = path.as_ref();
    let requests: Vec<NewTensor> = tensors.iter().map(|(tensor, _)| tensor.clone()).collect();
    let writer = ContainerWriter::create(path, &requests, kind)?;
    for (index, (_, bytes)) in tensors.iter().enumerate() {
        let info = &writer.tensors()[index];
        if bytes.len() as u64 != info.byte_len() {
            let what = format!("{} bytes for `{}`", bytes.len(), quote_start(info.name()));
            return Err(FileError::refused_request(
                path,
                what,
                format!("{} bytes", info.byte_len()),
            ));
        }
        writer.write_at(index, 0, bytes)?;
    }
    writer.finish_and_settle()
}

/// Writes a file with these bytes, which appears under its name only when it is complete.
pub fn write_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_with_access(path.as_ref(), bytes, FileAccess::AsUsual)
}

/// Creates a folder and its parents, if they do not exist yet.
///
/// # Errors
/// What the system refuses.
pub fn make_folder(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    disk::make_folders(path, 0o777).map_err(|e| FileError::from_write(path, "make the folder", e))
}

/// Writes a file with these permissions.
pub(crate) fn write_with_access(path: &Path, bytes: &[u8], access: FileAccess) -> Result<()> {
    let temporary = TemporaryFile::create_beside(path, access)?;
    disk::write_all_at(&temporary.file, bytes, 0)
        .map_err(|e| FileError::from_write(temporary.target_path(), "write to it", e))?;
    temporary.rename_into_place()
}
