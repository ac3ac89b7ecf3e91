//! The bytes of one tensor, by position or as a stream.

use crate::error::{FileError, Result, quote_start};
use crate::info::TensorInfo;
use crate::input::{FileWindow, InputFile};
use flate2::read::DeflateDecoder;
use std::io::{self, Read};

/// The bytes of a tensor, readable at any position and from any number of threads.
///
/// Positions count from the first element. Bytes are returned as they are in the file: their order
/// is [`TensorInfo::byte_order`].
#[derive(Debug, Clone, Copy)]
pub struct TensorSource<'a> {
    input: &'a InputFile,
    info: &'a TensorInfo,
    start: u64,
}

impl<'a> TensorSource<'a> {
    pub(crate) fn new(input: &'a InputFile, info: &'a TensorInfo) -> Result<TensorSource<'a>> {
        let start = info.data_offset().ok_or_else(|| FileError::Compressed {
            path: input.path.clone(),
            at: info.extent.start,
            name: quote_start(&info.name),
        })?;
        Ok(TensorSource { input, info, start })
    }

    /// The number of bytes of the tensor.
    pub fn byte_len(&self) -> u64 {
        self.info.bytes
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let len = buffer.len() as u64;
        check_inside(self.info, offset, len, &self.input.path)?;
        self.input.read_exact_at(buffer, self.start + offset)
    }
}

/// Checks that `offset..offset + len` is inside of a tensor.
pub(crate) fn check_inside(
    info: &TensorInfo,
    offset: u64,
    len: u64,
    path: &std::path::Path,
) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= info.bytes) {
        return Ok(());
    }
    let (path, name) = (path.to_path_buf(), quote_start(&info.name));
    Err(FileError::OutOfRange { path, name, offset, len, bytes: info.bytes })
}

/// The bytes of a tensor from start to end, decompressed where they are compressed.
///
/// The read that returns the last byte also checks the whole: the CRC-32 of a `.npz` entry, and
/// that its compressed stream ends there. If every byte was returned without an error, the bytes
/// are therefore the right ones.
pub struct TensorReader<'a> {
    input: &'a InputFile,
    info: &'a TensorInfo,
    stream: EntryStream<'a>,
    hash: Option<crc32fast::Hasher>,
    left: u64,
}

enum EntryStream<'a> {
    Plain(FileWindow<'a>),
    Deflated(Box<DeflateDecoder<FileWindow<'a>>>),
}

impl Read for EntryStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            EntryStream::Plain(window) => window.read(buffer),
            EntryStream::Deflated(decoder) => decoder.read(buffer),
        }
    }
}

impl<'a> TensorReader<'a> {
    pub(crate) fn new(input: &'a InputFile, info: &'a TensorInfo) -> Result<TensorReader<'a>> {
        let extent = info.extent;
        let window = input.range_stream(extent.start, extent.length);
        let stream = if extent.deflated {
            EntryStream::Deflated(Box::new(DeflateDecoder::new(window)))
        } else {
            EntryStream::Plain(window)
        };
        // Only zip archives have checksums; hashing the others would cost time and compare with
        // nothing.
        let hash = extent.crc.map(|_| crc32fast::Hasher::new());
        let mut reader = TensorReader { input, info, stream, hash, left: extent.head + info.bytes };
        // The header is part of what the checksum covers.
        let head = reader.by_ref().take(extent.head);
        io::copy(&mut { head }, &mut io::sink()).map_err(|e| reader.convert_io_error(e))?;
        Ok(reader)
    }

    /// The number of bytes that are still to be read.
    pub fn bytes_left(&self) -> u64 {
        self.left
    }

    /// Fills `buffer`; as many bytes must still be [`bytes_left`](TensorReader::bytes_left).
    pub fn fill_buffer(&mut self, buffer: &mut [u8]) -> Result<()> {
        let offset = self.info.bytes.saturating_sub(self.left);
        check_inside(self.info, offset, buffer.len() as u64, &self.input.path)?;
        self.read_exact(buffer).map_err(|e| self.convert_io_error(e))
    }

    /// Reads the remaining bytes only to check them.
    pub fn read_to_end_checked(mut self) -> Result<()> {
        io::copy(&mut self, &mut io::sink()).map(|_| ()).map_err(|e| self.convert_io_error(e))
    }

    /// The error inside of an `io::FileError` that `read` gave, or one around it.
    fn convert_io_error(&self, error: io::Error) -> FileError {
        match error.downcast::<FileError>() {
            Ok(error) => error,
            Err(error) => {
                let action = format!("read `{}`", quote_start(&self.info.name));
                FileError::from_io(&self.input.path, action, error)
            }
        }
    }

    fn check_container_end(&mut self) -> Result<()> {
        let extent = self.info.extent;
        if let EntryStream::Deflated(decoder) = &mut self.stream {
            let more =
                // One more byte is requested: a stream that continues holds more than the directory
                // says, and one that has ended has used exactly its bytes of the file.
                decoder.read(&mut [0]).map_err(|e| unpack_error(self.input, self.info, &e))?;
            if more != 0 || decoder.total_in() != extent.length {
                let error = io::Error::other("it does not end with its last element");
                return Err(unpack_error(self.input, self.info, &error));
            }
        }
        let computed = self.hash.take().map(crc32fast::Hasher::finalize);
        match extent.crc.zip(computed) {
            Some((stored, computed)) if stored != computed => Err(FileError::Checksum {
                path: self.input.path.clone(),
                at: extent.start,
                name: quote_start(&self.info.name),
                stored,
                computed,
            }),
            _ => Ok(()),
        }
    }
}

fn unpack_error(input: &InputFile, info: &TensorInfo, error: &io::Error) -> FileError {
    // A file that was changed is reported as such and not as a broken stream.
    if let Some(inner) = error.get_ref().and_then(|e| e.downcast_ref::<FileError>()) {
        return inner.clone();
    }
    let what = format!("the compressed bytes of `{}`: {error}", quote_start(&info.name));
    input.start_spot().malformed_error(
        info.extent.start,
        what,
        "a whole deflate stream of the array",
    )
}

impl Read for TensorReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let got = match self.stream.read(&mut buffer[..most]) {
            Ok(got) => got,
            // Callers such as `read_exact` try again on this kind, so it must not be wrapped.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) if self.info.extent.deflated => {
                return Err(io::Error::other(unpack_error(self.input, self.info, &error)));
            }
            Err(error) => return Err(error),
        };
        if got == 0 {
            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
            let error = match self.info.extent.deflated {
                true => unpack_error(self.input, self.info, &error),
                false => return Err(error),
            };
            return Err(io::Error::other(error));
        }
        if let Some(hash) = &mut self.hash {
            hash.update(&buffer[..got]);
        }
        self.left -= got as u64;
        if self.left == 0 {
            self.check_container_end().map_err(io::Error::other)?;
        }
        Ok(got)
    }
}
