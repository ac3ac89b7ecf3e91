//! A file with a known length: reads inside of it, and errors that name it.

use crate::disk;
use crate::error::{FileError, Result};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open regular file with its length at the time of opening.
#[derive(Debug)]
pub(crate) struct InputFile {
    file: File,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    /// The time of its last change when it was opened.
    modified: (i64, i64),
}

impl InputFile {
    pub(crate) fn open(path: &Path) -> Result<InputFile> {
        // The kind is checked by name first, because opening a device can have effects.
        let kind = disk::stat_path(path).map_err(|e| FileError::from_io(path, "open it", e))?;
        if !kind.is_file() {
            return Err(FileError::NotAFile { path: path.to_path_buf(), writing: false });
        }
        InputFile::from_open_file(
            disk::open_file(path).map_err(|e| FileError::from_io(path, "open it", e))?,
            path,
        )
    }

    /// Takes a file that was opened under this name.
    pub(crate) fn from_open_file(file: File, path: &Path) -> Result<InputFile> {
        let known = disk::stat_file(&file)
            .map_err(|e| FileError::from_io(path, "ask for its length", e))?;
        // Another file may have taken the name since the check.
        if !known.is_file() {
            return Err(FileError::NotAFile { path: path.to_path_buf(), writing: false });
        }
        let (len, modified) = (known.len(), modification_time(&known));
        Ok(InputFile { file, path: path.to_path_buf(), len, modified })
    }

    /// Checks that the file is not longer than a limit.
    pub(crate) fn check_max_len(&self, most: u64) -> Result<()> {
        if self.len <= most {
            return Ok(());
        }
        let what = format!("a file of {} bytes", self.len);
        Err(FileError::refused_request(&self.path, what, format!("at most {most} bytes")))
    }

    /// Reads `need` bytes from `at`. The caller bounds `need`; whether the file has them is checked
    /// here.
    pub(crate) fn read_bytes(&self, at: u64, need: u64, what: &str) -> Result<Vec<u8>> {
        self.start_spot().check_fits(at, need, self.len, what)?;
        let mut bytes = disk::zeroed_memory(need)
            .map_err(|e| FileError::from_io(&self.path, format!("hold {what} in memory"), e))?;
        self.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        disk::read_exact_at(&self.file, bytes, at).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.shortened_error(at),
            _ => FileError::from_io(
                &self.path,
                format!("read {} bytes at byte {at}", bytes.len()),
                e,
            ),
        })
    }

    /// The error for a file that ended before a byte that it had when it was opened.
    fn shortened_error(&self, at: u64) -> FileError {
        let now = disk::stat_file(&self.file).map_or(0, |now| now.len());
        FileError::Changed { path: self.path.clone(), at, before: self.len, now }
    }

    /// Checks that the file has not changed since it was opened, so that everything read from it is
    /// consistent.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let now = disk::stat_file(&self.file)
            .map_err(|e| FileError::from_io(&self.path, "see whether it has changed", e))?;
        // Length and time do not prove that nothing was written, but every writer that is not
        // hostile changes one of them; comparing contents would mean reading the file twice.
        if (now.len(), modification_time(&now)) == (self.len, self.modified) {
            return Ok(());
        }
        let at = now.len().min(self.len);
        Err(FileError::Changed { path: self.path.clone(), at, before: self.len, now: now.len() })
    }

    /// The bytes `start..start + length` as a stream.
    pub(crate) fn range_stream(&self, start: u64, length: u64) -> FileWindow<'_> {
        FileWindow { input: self, at: start, left: length }
    }

    pub(crate) fn start_spot(&self) -> FileSpot<'_> {
        FileSpot { path: &self.path, base: 0, skip: 0, entry: None }
    }
}

fn modification_time(known: &Metadata) -> (i64, i64) {
    (known.mtime(), known.mtime_nsec())
}

/// A stream over a range of a file that does not use the position of the file.
#[derive(Debug)]
pub(crate) struct FileWindow<'a> {
    input: &'a InputFile,
    at: u64,
    left: u64,
}

impl Read for FileWindow<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 {
            return Ok(0);
        }
        // By position: several threads read one handle, and a shared position would mix up their
        // reads.
        let got = disk::read_at(&self.input.file, &mut bytes[..most], self.at)?;
        if got == 0 {
            return Err(io::Error::other(self.input.shortened_error(self.at)));
        }
        self.at += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}

/// The origin of positions in error messages: a byte of the file, or a byte of a compressed entry,
/// for which only the beginning of the entry has a position in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSpot<'a> {
    pub(crate) path: &'a Path,
    /// The byte of the file where the part begins.
    pub(crate) base: u64,
    /// The number of bytes of the part before position 0.
    pub(crate) skip: u64,
    /// The name of the part, if it is compressed.
    pub(crate) entry: Option<&'a str>,
}

impl FileSpot<'_> {
    fn locate_byte(&self, at: u64, what: String) -> (u64, String) {
        let at = self.skip.saturating_add(at);
        match self.entry {
            None => (self.base.saturating_add(at), what),
            Some(name) => (
                self.base,
                format!(
                    "compressed entry `{}`, byte {at} inside it: {what}",
                    crate::error::quote_start(name)
                ),
            ),
        }
    }

    pub(crate) fn malformed_error(
        &self,
        at: u64,
        what: impl Into<String>,
        accepted: impl Into<String>,
    ) -> FileError {
        let (at, what) = self.locate_byte(at, what.into());
        FileError::Malformed { path: self.path.to_path_buf(), at, what, accepted: accepted.into() }
    }

    pub(crate) fn dtype_error(&self, at: u64, dtype: String, help: String) -> FileError {
        let (at, dtype) = self.locate_byte(at, dtype);
        FileError::Dtype { path: self.path.to_path_buf(), at, dtype, help }
    }

    pub(crate) fn duplicate_error(&self, at: u64, name: &str) -> FileError {
        let at = self.base.saturating_add(self.skip).saturating_add(at);
        let name = crate::error::quote_start(name);
        FileError::DuplicateName { path: self.path.to_path_buf(), at, name }
    }

    /// Checks that `need` bytes from `at` on end at or before `total`.
    pub(crate) fn check_fits(&self, at: u64, need: u64, total: u64, what: &str) -> Result<()> {
        let have = total.saturating_sub(at);
        if need <= have {
            return Ok(());
        }
        let (at, what) = self.locate_byte(at, what.to_string());
        Err(FileError::Truncated { path: self.path.to_path_buf(), at, what, need, have })
    }
}
