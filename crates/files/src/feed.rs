//! A tensor of a file as the source of plans that are larger than memory.

use crate::error::{FileError, Result, quote_start};
use crate::relayout::RelayoutError;
use crate::source::TensorSource;
use crate::{Container, TensorInfo, disk, runs, stale, touched};
use std::fs::File;
use std::path::{Path, PathBuf};
use zellige_host::AlignedBuffer;
use zellige_movement::{MoveDtypes, MoveError, MovePlan, Mover};

/// The number of bytes that are decompressed at once.
const DECOMPRESS_BYTES: u64 = 1 << 20;

/// The largest gap between two parts, in bytes, that is read rather than skipped: about as many
/// bytes as are copied in the time of a system call.
const READ_GAP_BYTES: usize = 1 << 14;

/// The average length of runs, in bytes, from which on they are read directly into the target.
const DIRECT_RUN_BYTES: usize = 1 << 10;

/// The elements of a tensor in the byte order of this machine, of which only a window is in memory.
///
/// A compressed tensor cannot be read by position. If it fits in the window, it is kept in memory;
/// a larger one is decompressed once into a file without a name, in the folder of the output, whose
/// disk has to hold as much anyway. Plans can then read it in any order.
pub struct TensorFeed<'a> {
    info: &'a TensorInfo,
    elements: FileElements<'a>,
    width: usize,
    /// A part of the source, for the plan that is being run.
    window: AlignedBuffer,
}

enum FileElements<'a> {
    Stored(TensorSource<'a>),
    Spooled { file: File, folder: PathBuf },
    Held(AlignedBuffer),
}

impl<'a> TensorFeed<'a> {
    /// The elements of a tensor, each of `width` bytes, with windows of up to `memory` bytes;
    /// `folder` is that of the output.
    ///
    /// # Errors
    /// A tensor that cannot be read, or no memory for a window.
    pub fn new(
        from: &'a Container,
        info: &'a TensorInfo,
        width: usize,
        memory: usize,
        folder: &Path,
    ) -> Result<TensorFeed<'a>> {
        let held = |e| {
            let action = format!("hold a window of `{}` in memory", quote_start(info.name()));
            FileError::from_io(from.path(), action, e)
        };
        let width = width.max(1);
        // At least 64 KiB, whatever the caller allows: smaller windows would make each element a
        // call to the system.
        let most = (memory as u64).max(1 << 16).min(info.byte_len()).next_multiple_of(width as u64);
        if info.data_offset().is_some() {
            let elements = FileElements::Stored(from.tensor_source(info)?);
            return Ok(TensorFeed {
                info,
                elements,
                width,
                window: disk::aligned_buffer(most).map_err(held)?,
            });
        }
        if most >= info.byte_len() {
            let mut whole = disk::aligned_buffer(info.byte_len()).map_err(held)?;
            from.tensor_reader(info)?.fill_buffer(&mut whole)?;
            info.swap_bytes(&mut whole);
            let window = disk::aligned_buffer(0).map_err(held)?;
            return Ok(TensorFeed { info, elements: FileElements::Held(whole), width, window });
        }
        let elements = spool_tensor(from, info, folder)?;
        Ok(TensorFeed { info, elements, width, window: disk::aligned_buffer(most).map_err(held)? })
    }

    /// A feed with a given window, for a tensor that is not compressed; [`TensorFeed::into_window`]
    /// returns the window.
    ///
    /// # Errors
    /// A compressed tensor.
    pub fn with_window(
        from: &'a Container,
        info: &'a TensorInfo,
        width: usize,
        window: AlignedBuffer,
    ) -> Result<TensorFeed<'a>> {
        let elements = FileElements::Stored(from.tensor_source(info)?);
        Ok(TensorFeed { info, elements, width: width.max(1), window })
    }

    /// The memory of the window.
    pub fn into_window(self) -> AlignedBuffer {
        self.window
    }

    /// Runs a plan from this tensor. Long runs of elements that are not converted are read directly
    /// into the target.
    ///
    /// # Errors
    /// Failed reads, and a plan that does not fit the tensor or the target.
    pub fn run_plan(
        &mut self,
        plan: &MovePlan,
        dtypes: MoveDtypes,
        target: &mut [u8],
        fill: Option<&[u8]>,
        threads: usize,
    ) -> Result<(), RelayoutError> {
        if let FileElements::Held(whole) = &self.elements {
            return Ok(
                Mover::with_dtypes(plan, dtypes)?.run_on_slices(whole, target, fill, threads)?
            );
        }
        // Bytes that go from the file to their place without a change need no window in between,
        // which saves one copy.
        let plain = dtypes == MoveDtypes::Bytes(self.width) && plan.fills().is_empty();
        if plain && elements_to_bytes(runs::mean_run_length(plan), self.width) >= DIRECT_RUN_BYTES {
            let (needed, found) = (elements_to_bytes(plan.dst_len(), self.width), target.len());
            // The engine checks this itself; the direct path does not go through it.
            if needed > found {
                return Err(MoveError::Short { what: "destination", needed, found }.into());
            }
            return runs::for_each_run(plan, |from, to, len| {
                let part = &mut target
                    [elements_to_bytes(to, self.width)..elements_to_bytes(to + len, self.width)];
                Ok(load_bytes(
                    &self.elements,
                    self.info,
                    part,
                    elements_to_bytes(from, self.width) as u64,
                )?)
            });
        }
        let most = i64::try_from(self.window.len() / self.width).unwrap_or(i64::MAX);
        for part in plan.split_by_source(most) {
            let (low, high) = part.source_window();
            let part = part.with_source_at(low)?;
            let gap = i64::try_from(READ_GAP_BYTES / self.width).unwrap_or(1);
            for (from, to) in touched::source_ranges(&part, gap) {
                self.read_elements(low, from, to)?;
            }
            let window = &self.window[..elements_to_bytes(high - low, self.width)];
            Mover::with_dtypes(&part, dtypes)?.run_on_slices(window, target, fill, threads)?;
        }
        Ok(())
    }

    /// Reads the elements `low..high`, which have to fit in the window.
    pub(crate) fn read_window(&mut self, low: i64, high: i64) -> Result<&[u8]> {
        self.read_elements(low, 0, high - low)?;
        Ok(match &self.elements {
            FileElements::Held(whole) => {
                &whole[elements_to_bytes(low, self.width)..elements_to_bytes(high, self.width)]
            }
            _ => &self.window[..elements_to_bytes(high - low, self.width)],
        })
    }

    /// Reads elements `from..to` of a window that begins at element `low`.
    fn read_elements(&mut self, low: i64, from: i64, to: i64) -> Result<()> {
        if matches!(self.elements, FileElements::Held(_)) {
            return Ok(());
        }
        let part = &mut self.window
            [elements_to_bytes(from, self.width)..elements_to_bytes(to, self.width)];
        load_bytes(
            &self.elements,
            self.info,
            part,
            elements_to_bytes(low + from, self.width) as u64,
        )
    }
}

/// Fills memory with the bytes of elements from byte `at` on.
fn load_bytes(
    elements: &FileElements<'_>,
    info: &TensorInfo,
    part: &mut [u8],
    at: u64,
) -> Result<()> {
    match elements {
        FileElements::Stored(source) => {
            source.read_at(part, at)?;
            info.swap_bytes(part);
        }
        FileElements::Spooled { file, folder } => disk::read_exact_at(file, part, at)
            .map_err(|e| FileError::from_io(folder, spool_action("read back", info), e))?,
        FileElements::Held(_) => {}
    }
    Ok(())
}

fn elements_to_bytes(elements: i64, width: usize) -> usize {
    usize::try_from(elements).unwrap_or(0).saturating_mul(width)
}

fn spool_action(what: &str, info: &TensorInfo) -> String {
    let (name, bytes) = (quote_start(info.name()), info.byte_len());
    format!(
        "{what} the {bytes} decompressed bytes of `{name}` in a file without a name in this folder"
    )
}

/// Decompresses a tensor into a file without a name; the last byte checks its checksum.
fn spool_tensor<'a>(
    from: &Container,
    info: &TensorInfo,
    folder: &Path,
) -> Result<FileElements<'a>> {
    let failed = |e| FileError::from_write(folder, spool_action("keep", info), e);
    let fallback = stale::next_temporary_name(folder, "decompressed");
    let file = disk::create_unnamed(folder, 0o600, &fallback).map_err(failed)?;
    let mut reader = from.tensor_reader(info)?;
    let mut chunk = disk::zeroed_memory(DECOMPRESS_BYTES.min(info.byte_len())).map_err(failed)?;
    // Chunks hold whole elements, so that byte orders can be swapped.
    let mut at = 0;
    while reader.bytes_left() > 0 {
        let part = usize::try_from(reader.bytes_left()).unwrap_or(usize::MAX).min(chunk.len());
        reader.fill_buffer(&mut chunk[..part])?;
        info.swap_bytes(&mut chunk[..part]);
        disk::write_all_at(&file, &chunk[..part], at).map_err(failed)?;
        at += part as u64;
    }
    Ok(FileElements::Spooled { file, folder: folder.to_path_buf() })
}
