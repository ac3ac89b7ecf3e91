//! A tensor of a file as the source of plans that are larger than memory.

use crate::error::{Error, Result, quote};
use crate::relayout::RelayoutError;
use crate::source::Source;
use crate::{Container, TensorInfo, disk, runs, stale, touched};
use std::fs::File;
use std::path::{Path, PathBuf};
use zellige_host::AlignedBuffer;
use zellige_movement::{Dtypes, MoveError, Mover, Plan};

/// Bytes that are decompressed at once.
const CHUNK: u64 = 1 << 20;

/// Bytes between two parts that are read too rather than skipped: about as many as are copied in the time
/// of a call to the system.
const GAP: usize = 1 << 14;

/// Bytes in a run, on average, from which on runs are read straight to where they go.
const STRAIGHT: usize = 1 << 10;

/// The elements of a tensor in the byte order of this machine, of which no more than a window is in memory.
///
/// A compressed tensor has no positions. One that fits in the window is held; a larger one is decompressed
/// once, into a file without a name beside the output, where it has room as the output has. Plans then
/// read it in whatever order they like.
pub struct Feed<'a> {
    info: &'a TensorInfo,
    elements: FileElements<'a>,
    width: usize,
    /// A part of the source, for the plan that is run.
    window: AlignedBuffer,
}

enum FileElements<'a> {
    Stored(Source<'a>),
    Spooled { file: File, folder: PathBuf },
    Held(AlignedBuffer),
}

impl<'a> Feed<'a> {
    /// The elements of a tensor, each of `width` bytes, with windows of up to `memory` bytes; `folder` is
    /// the one that the output is in.
    ///
    /// # Errors
    /// A tensor that cannot be read, or no memory for a window.
    pub fn new(
        from: &'a Container,
        info: &'a TensorInfo,
        width: usize,
        memory: usize,
        folder: &Path,
    ) -> Result<Feed<'a>> {
        let held = |e| {
            let action = format!("hold a window of `{}` in memory", quote(info.name()));
            Error::io(from.path(), action, e)
        };
        let width = width.max(1);
        let most = (memory as u64).max(1 << 16).min(info.bytes()).next_multiple_of(width as u64);
        if info.data_offset().is_some() {
            let elements = FileElements::Stored(from.source(info)?);
            return Ok(Feed { info, elements, width, window: disk::buffer(most).map_err(held)? });
        }
        if most >= info.bytes() {
            let mut whole = disk::buffer(info.bytes()).map_err(held)?;
            from.reader(info)?.fill(&mut whole)?;
            info.swap(&mut whole);
            let window = disk::buffer(0).map_err(held)?;
            return Ok(Feed { info, elements: FileElements::Held(whole), width, window });
        }
        let elements = spool(from, info, folder)?;
        Ok(Feed { info, elements, width, window: disk::buffer(most).map_err(held)? })
    }

    /// The same with a window that somebody had before, of a tensor that is not compressed; [`Feed::into_window`] gives it back.
    ///
    /// # Errors
    /// A compressed tensor.
    pub fn with_window(
        from: &'a Container,
        info: &'a TensorInfo,
        width: usize,
        window: AlignedBuffer,
    ) -> Result<Feed<'a>> {
        let elements = FileElements::Stored(from.source(info)?);
        Ok(Feed { info, elements, width: width.max(1), window })
    }

    /// The memory of the window.
    pub fn into_window(self) -> AlignedBuffer {
        self.window
    }

    /// Runs a plan from this tensor. Where elements are not converted, runs that are long are read straight into the target.
    ///
    /// # Errors
    /// What cannot be read, and a plan that does not fit the tensor or the target.
    pub fn run(
        &mut self,
        plan: &Plan,
        dtypes: Dtypes,
        target: &mut [u8],
        fill: Option<&[u8]>,
        threads: usize,
    ) -> Result<(), RelayoutError> {
        if let FileElements::Held(whole) = &self.elements {
            return Ok(Mover::with_dtypes(plan, dtypes)?.run(whole, target, fill, threads)?);
        }
        let plain = dtypes == Dtypes::Bytes(self.width) && plan.fills().is_empty();
        if plain && bytes(runs::mean_run(plan), self.width) >= STRAIGHT {
            let (needed, found) = (bytes(plan.dst_len(), self.width), target.len());
            if needed > found {
                return Err(MoveError::Short { what: "destination", needed, found }.into());
            }
            return runs::each_run(plan, |from, to, len| {
                let part = &mut target[bytes(to, self.width)..bytes(to + len, self.width)];
                Ok(load(&self.elements, self.info, part, bytes(from, self.width) as u64)?)
            });
        }
        let most = i64::try_from(self.window.len() / self.width).unwrap_or(i64::MAX);
        for part in plan.split_source(most) {
            let (low, high) = part.src_window();
            let part = part.with_source_at(low)?;
            let gap = i64::try_from(GAP / self.width).unwrap_or(1);
            for (from, to) in touched::ranges(&part, gap) {
                self.read(low, from, to)?;
            }
            let window = &self.window[..bytes(high - low, self.width)];
            Mover::with_dtypes(&part, dtypes)?.run(window, target, fill, threads)?;
        }
        Ok(())
    }

    /// The elements `low..high`, which fit in the window.
    pub(crate) fn elements(&mut self, low: i64, high: i64) -> Result<&[u8]> {
        self.read(low, 0, high - low)?;
        Ok(match &self.elements {
            FileElements::Held(whole) => &whole[bytes(low, self.width)..bytes(high, self.width)],
            _ => &self.window[..bytes(high - low, self.width)],
        })
    }

    /// Reads elements `from..to` of a window that begins at element `low`.
    fn read(&mut self, low: i64, from: i64, to: i64) -> Result<()> {
        if matches!(self.elements, FileElements::Held(_)) {
            return Ok(());
        }
        let part = &mut self.window[bytes(from, self.width)..bytes(to, self.width)];
        load(&self.elements, self.info, part, bytes(low + from, self.width) as u64)
    }
}

/// Fills memory with the bytes of elements from byte `at` on.
fn load(elements: &FileElements<'_>, info: &TensorInfo, part: &mut [u8], at: u64) -> Result<()> {
    match elements {
        FileElements::Stored(source) => {
            source.read_at(part, at)?;
            info.swap(part);
        }
        FileElements::Spooled { file, folder } => disk::read_exact_at(file, part, at)
            .map_err(|e| Error::io(folder, spooled("read back", info), e))?,
        FileElements::Held(_) => {}
    }
    Ok(())
}

fn bytes(elements: i64, width: usize) -> usize {
    usize::try_from(elements).unwrap_or(0).saturating_mul(width)
}

fn spooled(what: &str, info: &TensorInfo) -> String {
    let (name, bytes) = (quote(info.name()), info.bytes());
    format!(
        "{what} the {bytes} decompressed bytes of `{name}` in a file without a name in this folder"
    )
}

/// Decompresses a tensor once; the last byte checks its checksum.
fn spool<'a>(from: &Container, info: &TensorInfo, folder: &Path) -> Result<FileElements<'a>> {
    let failed = |e| Error::write(folder, spooled("keep", info), e);
    let fallback = stale::next_name(folder, "decompressed");
    let file = disk::create_unnamed(folder, 0o600, &fallback).map_err(failed)?;
    let mut reader = from.reader(info)?;
    let mut chunk = disk::zeroed(CHUNK.min(info.bytes())).map_err(failed)?;
    // Whole elements, so that each is swapped in one piece.
    let mut at = 0;
    while reader.left() > 0 {
        let part = usize::try_from(reader.left()).unwrap_or(usize::MAX).min(chunk.len());
        reader.fill(&mut chunk[..part])?;
        info.swap(&mut chunk[..part]);
        disk::write_all_at(&file, &chunk[..part], at).map_err(failed)?;
        at += part as u64;
    }
    Ok(FileElements::Spooled { file, folder: folder.to_path_buf() })
}
