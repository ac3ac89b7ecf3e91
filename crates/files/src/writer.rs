//! A file of tensors that is being written.

use crate::error::{FileError, Result, quote_start};
use crate::info::{
    ByteOrder, ContainerKind, DimensionOrder, FileExtent, FileMetadata, NewTensor, TensorInfo,
};
use crate::npy;
use crate::partial;
use crate::safetensors;
use crate::source::check_inside;
use crate::temporary::{FileAccess, NamedFile, TemporaryFile};
use crate::zip_writer::{self, NewZipEntry};
use crate::{disk, dtype};
use std::collections::HashSet;
use std::path::Path;

/// The number of bytes that are read at once for a checksum.
const CHECKSUM_BYTES: usize = 1 << 20;

/// A file whose headers are written and whose tensors are being filled.
///
/// Everything goes into a temporary file beside the final name.
/// [`ContainerWriter::finish_and_settle`] renames it in one step; otherwise nothing changes under
/// the final name, and the temporary file is removed. Bytes that are never written are zero.
#[derive(Debug)]
pub struct ContainerWriter {
    temporary: TemporaryFile,
    tensors: Vec<TensorInfo>,
    entries: Vec<NewZipEntry>,
    /// The key of the contents and the final length, if the file can be resumed after a kill.
    resumed: Option<(String, u64)>,
}

/// The plan of a file: headers with their positions, the extent of each tensor, and the final
/// length.
struct FilePlan {
    headers: Vec<(u64, Vec<u8>)>,
    extents: Vec<FileExtent>,
    entries: Vec<NewZipEntry>,
    length: u64,
}

impl ContainerWriter {
    /// Begins a file with these tensors. The whole request is checked before anything is created,
    /// and the file has its full length from the start.
    pub fn create(
        path: impl AsRef<Path>,
        tensors: &[NewTensor],
        kind: ContainerKind,
    ) -> Result<ContainerWriter> {
        ContainerWriter::create_with_metadata(path, tensors, kind, &FileMetadata::new())
    }

    /// Begins a file with metadata, which only `.safetensors` can hold.
    pub fn create_with_metadata(
        path: impl AsRef<Path>,
        tensors: &[NewTensor],
        kind: ContainerKind,
        metadata: &FileMetadata,
    ) -> Result<ContainerWriter> {
        ContainerWriter::begin_file(path.as_ref(), tensors, kind, metadata, None)
            .map(|(writer, _)| writer)
    }

    /// Begins a `.safetensors` file as `NAME.partial`, or resumes the one that a killed process
    /// left. Also returns the number of its last note ([`ContainerWriter::note_progress`]), 0 at
    /// the beginning. `key` identifies the contents: a partial file with another key is
    /// overwritten. The partial file stays when this writer is dropped, so that the next process
    /// finds it.
    ///
    /// # Errors
    /// Besides those of [`ContainerWriter::create`]: another process that is writing it.
    pub fn resume_partial(
        path: impl AsRef<Path>,
        tensors: &[NewTensor],
        metadata: &FileMetadata,
        key: &str,
    ) -> Result<(ContainerWriter, u64)> {
        ContainerWriter::begin_file(
            path.as_ref(),
            tensors,
            ContainerKind::Safetensors,
            metadata,
            Some(key),
        )
    }

    fn begin_file(
        path: &Path,
        tensors: &[NewTensor],
        kind: ContainerKind,
        metadata: &FileMetadata,
        key: Option<&str>,
    ) -> Result<(ContainerWriter, u64)> {
        if kind != ContainerKind::Safetensors && !metadata.is_empty() {
            let what = format!(".{} has no place for metadata", kind.file_extension());
            return Err(FileError::refused_request(path, what, "none, or a .safetensors file"));
        }
        let mut names = HashSet::new();
        let mut sized = Vec::new();
        for tensor in tensors {
            if !names.insert(&tensor.name) {
                let name = quote_start(&tensor.name);
                return Err(FileError::refused_request(
                    path,
                    format!("two tensors `{name}`"),
                    "unique names",
                ));
            }
            let bytes = dtype::bytes_of_shape(tensor.dtype, &tensor.shape).map_err(|what| {
                let what = format!("the shape of `{}`: {what}", quote_start(&tensor.name));
                FileError::refused_request(path, what, "a shape that fits")
            })?;
            sized.push((tensor, bytes));
        }
        let plan = match kind {
            ContainerKind::Npy => plan_npy(&sized, path)?,
            ContainerKind::Npz => plan_npz(&sized, path)?,
            ContainerKind::Safetensors => plan_safetensors(&sized, metadata, path)?,
        };

        // Everything that can be wrong with the request has been found by now, so a refused request
        // leaves no file.
        let temporary = match key {
            None => TemporaryFile::create_beside(path, FileAccess::AsUsual)?,
            Some(_) => TemporaryFile::resume_partial(path)?,
        };
        let failed =
            |action: &str, e| FileError::from_write(temporary.target_path(), action.to_string(), e);
        let done = match key {
            None => {
                // The full length from the start: threads may then write any part in any order, and
                // what is not written is zero.
                disk::set_len(&temporary.file, plan.length)
                    .map_err(|e| failed("reserve its length", e))?;
                disk::reserve_space(&temporary.file, plan.length)
                    .map_err(|e| failed("reserve disk space for it", e))?;
                0
            }
            Some(key) => read_begun_note(&temporary, plan.length, key)?,
        };
        for (at, header) in &plan.headers {
            disk::write_all_at(&temporary.file, header, *at)
                .map_err(|e| failed("write a header", e))?;
        }
        let info = |((tensor, bytes), extent): (&(&NewTensor, u64), FileExtent)| TensorInfo {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            order: DimensionOrder::RowMajor,
            endian: ByteOrder::Little,
            bytes: *bytes,
            extent,
        };
        let tensors = sized.iter().zip(plan.extents).map(info).collect();
        let resumed = key.map(|key| (key.to_string(), plan.length));
        Ok((ContainerWriter { temporary, tensors, entries: plan.entries, resumed }, done))
    }

    /// Notes the progress of the caller in the file, for the next process that resumes it after a
    /// kill. Everything up to `done` must have been written.
    ///
    /// # Errors
    /// Failed writes.
    pub fn note_progress(&self, done: u64) -> Result<()> {
        let Some((key, length)) = &self.resumed else { return Ok(()) };
        self.write_bytes_at(&partial::encode_note(key, done), *length)
    }

    /// The tensors in the order of the request, with the positions of their elements.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        self.temporary.target_path()
    }

    /// The folder of the file.
    pub(crate) fn parent_folder(&self) -> &Path {
        disk::parent_folder(self.temporary.target_path())
    }

    /// The temporary file's name.
    pub fn temporary_path(&self) -> &Path {
        self.temporary.path()
    }

    /// Writes bytes of tensor number `tensor`, from its byte `offset` on. Threads may write
    /// different parts at the same time.
    ///
    /// # Errors
    /// There is no such tensor, or the bytes are not inside of it; nothing is written then.
    pub fn write_at(&self, tensor: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = self.file_position(tensor, offset, bytes.len() as u64)?;
        disk::write_all_at(&self.temporary.file, bytes, at).map_err(|e| {
            let action = format!("write {} bytes at byte {at}", bytes.len());
            FileError::from_write(self.temporary.target_path(), action, e)
        })
    }

    /// The position in the file of byte `offset` of a tensor, if the tensor has `len` bytes from
    /// there on.
    fn file_position(&self, tensor: usize, offset: u64, len: u64) -> Result<u64> {
        let info = self.tensors.get(tensor).ok_or_else(|| {
            let accepted = format!("indices below {}", self.tensors.len());
            FileError::refused_request(
                self.temporary.target_path(),
                format!("tensor {tensor}"),
                accepted,
            )
        })?;
        check_inside(info, offset, len, self.temporary.target_path())?;
        Ok(info.extent.start + info.extent.head + offset)
    }

    /// Completes the file, flushes it to the disk and gives it its final name.
    ///
    /// For `.npz` this reads every byte once more to compute the checksums.
    pub fn finish_and_settle(self) -> Result<()> {
        NamedFile::settle_names([self.finish_unsettled()?])
    }

    /// Completes the file without waiting until its name is on the disk, for callers that settle
    /// many files together.
    pub fn finish_unsettled(self) -> Result<NamedFile> {
        if let Some(last) = self.entries.last() {
            // The checksum stands in front of the content in a zip archive, and parts may have been
            // written in any order by any thread, so it is computed when all of them are there.
            let crcs = self
                .entries
                .iter()
                .map(|e| self.entry_checksum(e))
                .collect::<Result<Vec<u32>>>()?;
            let end = last.start + last.size;
            for (entry, crc) in self.entries.iter().zip(&crcs) {
                self.write_bytes_at(&entry.local_header(*crc), entry.header_position())?;
            }
            self.write_bytes_at(&zip_writer::write_directory(&self.entries, &crcs, end), end)?;
        }
        self.temporary.rename_unsettled(self.resumed.map(|(_, length)| length))
    }

    fn write_bytes_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        let failed = |e| {
            FileError::from_write(self.temporary.target_path(), format!("write at byte {at}"), e)
        };
        disk::write_all_at(&self.temporary.file, bytes, at).map_err(failed)
    }

    fn entry_checksum(&self, entry: &NewZipEntry) -> Result<u32> {
        let mut hash = crc32fast::Hasher::new();
        let mut buffer = vec![0; CHECKSUM_BYTES];
        let mut at = entry.start;
        let mut left = entry.size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(CHECKSUM_BYTES).min(CHECKSUM_BYTES);
            let failed = |e| {
                FileError::from_write(
                    self.temporary.target_path(),
                    format!("read back byte {at}"),
                    e,
                )
            };
            disk::read_exact_at(&self.temporary.file, &mut buffer[..part], at).map_err(failed)?;
            hash.update(&buffer[..part]);
            at += part as u64;
            left -= part as u64;
        }
        Ok(hash.finalize())
    }
}

/// Reads the last note of a partial file whose final length is `length`. Without a valid note the
/// file is cleared, and a note of 0 is written.
fn read_begun_note(temporary: &TemporaryFile, length: u64, key: &str) -> Result<u64> {
    let failed =
        |action: &str, e| FileError::from_write(temporary.target_path(), action.to_string(), e);
    let whole = length
        .checked_add(partial::NOTE_BYTES as u64)
        .ok_or_else(|| too_long_error(temporary.target_path()))?;
    let file = &temporary.file;
    let known = disk::stat_file(file).map_err(|e| failed("examine it", e))?;
    // The length is the first test of whether the partial file is of this plan: another set of
    // tensors has another.
    if known.len() == whole {
        let mut bytes = [0; partial::NOTE_BYTES];
        disk::read_exact_at(file, &mut bytes, length).map_err(|e| failed("read its note", e))?;
        if let Some(done) = partial::decode_note(key, &bytes) {
            return Ok(done);
        }
    }
    // Truncating to 0 first makes all bytes zero when the file grows again.
    for len in [0, whole] {
        disk::set_len(file, len).map_err(|e| failed("reserve its length", e))?;
    }
    // A checkpoint of hundreds of gigabytes should not fail for lack of room after an hour of
    // writing.
    disk::reserve_space(file, whole).map_err(|e| failed("reserve disk space for it", e))?;
    disk::write_all_at(file, &partial::encode_note(key, 0), length)
        .map_err(|e| failed("note that it is begun", e))?;
    Ok(0)
}

fn tensor_error(path: &Path, tensor: &NewTensor, help: String) -> FileError {
    let dtype = format!("{} of `{}`", tensor.dtype, quote_start(&tensor.name));
    FileError::Dtype { path: path.to_path_buf(), at: 0, dtype, help }
}

fn too_long_error(path: &Path) -> FileError {
    FileError::refused_request(path, "the file would pass 2^64 bytes", "smaller tensors")
}

fn plan_npy(tensors: &[(&NewTensor, u64)], path: &Path) -> Result<FilePlan> {
    let [(tensor, bytes)] = tensors else {
        let what = format!("{} tensors in one .npy file", tensors.len());
        return Err(FileError::refused_request(
            path,
            what,
            "exactly one; .npz and .safetensors hold several",
        ));
    };
    let header = npy::write_header(tensor.dtype, &tensor.shape)
        .map_err(|help| tensor_error(path, tensor, help))?;
    let head = header.len() as u64;
    let length = head.checked_add(*bytes).ok_or_else(|| too_long_error(path))?;
    let extents = vec![FileExtent { head, ..FileExtent::uncompressed(0, length) }];
    Ok(FilePlan { headers: vec![(0, header)], extents, entries: Vec::new(), length })
}

fn plan_npz(tensors: &[(&NewTensor, u64)], path: &Path) -> Result<FilePlan> {
    let mut plan = FilePlan { headers: vec![], extents: vec![], entries: vec![], length: 0 };
    for (tensor, bytes) in tensors {
        let name = format!("{}.npy", tensor.name);
        if name.len() > usize::from(u16::MAX) || name.contains('\0') {
            let what = format!("the name `{}`", quote_start(&tensor.name));
            return Err(FileError::refused_request(path, what, "names below 64 KiB without a NUL"));
        }
        let head = npy::write_header(tensor.dtype, &tensor.shape)
            .map_err(|help| tensor_error(path, tensor, help))?;
        let size = bytes.checked_add(head.len() as u64);
        let entry = size.and_then(|size| NewZipEntry::new(name, plan.length, size));
        let entry = entry.ok_or_else(|| too_long_error(path))?;
        let extent = FileExtent {
            head: head.len() as u64,
            ..FileExtent::uncompressed(entry.start, entry.size)
        };
        plan.length = entry.content_end().ok_or_else(|| too_long_error(path))?;
        plan.headers.push((entry.start, head));
        plan.extents.push(extent);
        plan.entries.push(entry);
    }
    // Checksums do not change the directory's length, so zeros stand in for them while the file is
    // planned.
    let none = vec![0; plan.entries.len()];
    let directory = zip_writer::write_directory(&plan.entries, &none, plan.length);
    // Nothing fills in the checksums of an archive without entries, so its directory is written at
    // once.
    if plan.entries.is_empty() {
        plan.headers.push((0, directory.clone()));
    }
    let length = plan.length.checked_add(directory.len() as u64);
    plan.length = length.ok_or_else(|| too_long_error(path))?;
    Ok(plan)
}

fn plan_safetensors(
    tensors: &[(&NewTensor, u64)],
    metadata: &FileMetadata,
    path: &Path,
) -> Result<FilePlan> {
    for (tensor, _) in tensors {
        dtype::to_safetensors(tensor.dtype).map_err(|help| tensor_error(path, tensor, help))?;
    }
    let (header, offsets) = safetensors::write_header(tensors, metadata)
        .map_err(|what| FileError::refused_request(path, what, "less, or other names"))?;
    let total = tensors.iter().try_fold(header.len() as u64, |sum, (_, n)| sum.checked_add(*n));
    let length = total.ok_or_else(|| too_long_error(path))?;
    let extents =
        offsets.iter().zip(tensors).map(|(at, (_, n))| FileExtent::uncompressed(*at, *n)).collect();
    Ok(FilePlan { headers: vec![(0, header)], extents, entries: Vec::new(), length })
}
