//! A file whose length is known: reads inside it, and errors that name it.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An open regular file with its length at the time of opening.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Input> {
        // Looked at by name first: opening a pipe would wait for somebody to write into it.
        let kind = fs::metadata(path).map_err(|e| Error::io(path, "open it", e))?;
        if !kind.is_file() {
            return Err(Error::NotAFile { path: path.to_path_buf() });
        }
        let file = File::open(path).map_err(|e| Error::io(path, "open it", e))?;
        let len = file.metadata().map_err(|e| Error::io(path, "ask for its length", e))?.len();
        Ok(Input { file, path: path.to_path_buf(), len })
    }

    /// `need` bytes from `at`. The caller bounds `need`; that they exist is checked here.
    pub(crate) fn bytes(&self, at: u64, need: u64, what: &str) -> Result<Vec<u8>> {
        self.spot().fits(at, need, self.len, what)?;
        let size = usize::try_from(need)
            .map_err(|_| self.spot().malformed(at, format!("{what} of {need} bytes"), "less"))?;
        let mut bytes = vec![0; size];
        self.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    pub(crate) fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(bytes, at).map_err(|e| {
            Error::io(&self.path, format!("read {} bytes at byte {at}", bytes.len()), e)
        })
    }

    /// The bytes `start..start + length` as a stream.
    pub(crate) fn window(&self, start: u64, length: u64) -> Window<'_> {
        Window { file: &self.file, at: start, left: length }
    }

    pub(crate) fn spot(&self) -> Spot<'_> {
        Spot { path: &self.path, base: 0, skip: 0, entry: None }
    }
}

/// A stream over a range of a file that does not use the position of the file.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Window<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 {
            return Ok(0);
        }
        let got = self.file.read_at(&mut bytes[..most], self.at)?;
        self.at += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}

/// Where positions count from, and how to say it: a byte of the file, or a byte of a compressed
/// entry, for which the file only has the place where the entry begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) path: &'a Path,
    /// The byte of the file where the part begins.
    pub(crate) base: u64,
    /// Bytes of the part in front of those that positions count.
    pub(crate) skip: u64,
    /// The name of the part where it is compressed.
    pub(crate) entry: Option<&'a str>,
}

impl Spot<'_> {
    fn place(&self, at: u64, what: String) -> (u64, String) {
        let at = self.skip.saturating_add(at);
        match self.entry {
            None => (self.base.saturating_add(at), what),
            Some(name) => (
                self.base,
                format!(
                    "compressed entry `{}`, byte {at} inside it: {what}",
                    crate::error::quote(name)
                ),
            ),
        }
    }

    pub(crate) fn malformed(
        &self,
        at: u64,
        what: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Error {
        let (at, what) = self.place(at, what.into());
        Error::Malformed { path: self.path.to_path_buf(), at, what, accepted: accepted.into() }
    }

    pub(crate) fn dtype(&self, at: u64, dtype: String, help: String) -> Error {
        let (at, dtype) = self.place(at, dtype);
        Error::Dtype { path: self.path.to_path_buf(), at, dtype, help }
    }

    pub(crate) fn duplicate(&self, at: u64, name: &str) -> Error {
        let at = self.base.saturating_add(self.skip).saturating_add(at);
        let name = crate::error::quote(name);
        Error::DuplicateName { path: self.path.to_path_buf(), at, name }
    }

    /// That `need` bytes from `at` end by `total`.
    pub(crate) fn fits(&self, at: u64, need: u64, total: u64, what: &str) -> Result<()> {
        let have = total.saturating_sub(at);
        if need <= have {
            return Ok(());
        }
        let (at, what) = self.place(at, what.to_string());
        Err(Error::Truncated { path: self.path.to_path_buf(), at, what, need, have })
    }
}
