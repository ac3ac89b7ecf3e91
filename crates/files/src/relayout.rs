//! Moves a tensor of one file into another file, slab by slab.

use crate::error::{quote_start, show_path};
use crate::feed::TensorFeed;
use crate::{Container, ContainerWriter, FileError, TensorInfo, disk};
use zellige_float::Dtype;
use zellige_movement::{CopyNest, MoveDtypes, MoveError, MovePlan};

/// The errors of a move between files.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayoutError {
    /// A file could not be read or written. The file error is also the source of this error, so
    /// that a chain of sources contains it.
    #[error("{0}")]
    File(#[from] FileError),
    /// The plan does not fit the tensors.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// A file whose contents differ from what was written to it.
    #[error("verify: {what} differs in {}", show_path(path))]
    Differs {
        /// The file.
        path: std::path::PathBuf,
        /// The first difference.
        what: String,
    },
    /// Buffers that are too short for the comparison.
    #[error(transparent)]
    Length(#[from] zellige_float::ConvertError),
    /// A source tensor with fewer elements than the plan reads.
    #[error("the plan reads {needed} elements, but `{name}` holds {held}")]
    Source {
        /// The tensor.
        name: String,
        /// Elements that the plan reads.
        needed: i64,
        /// Elements of the tensor.
        held: u64,
    },
}

/// The options of a move.
#[derive(Debug, Clone, Copy)]
pub struct Relayout<'a> {
    /// The element that is written wherever the plan writes none (padding, gaps, space before and
    /// after the elements), in the dtype of the output; zero by default, as in a new file.
    pub fill: Option<&'a [u8]>,
    /// The dtype of the output; elements are converted if it differs.
    pub dtype: Dtype,
    /// The largest number of threads.
    pub threads: usize,
    /// The approximate number of bytes for buffers.
    pub memory: usize,
}

impl Relayout<'_> {
    /// Moves a tensor into tensor `index` of a writer, and calls `progress` with the bytes done and
    /// the total.
    ///
    /// The destination is written in slabs that fit in half of `memory`; the other half holds the
    /// part of the source that a slab reads. A compressed tensor that does not fit there is
    /// decompressed once, into a file without a name in the folder of the output. The writer is not
    /// finished here: until it is, no file has the final name.
    ///
    /// **Law**: every element of the tensor in the writer is an element of the source or the fill.
    ///
    /// # Errors
    /// Besides those of files and plans: a source that changed meanwhile.
    pub fn move_tensor(
        &self,
        from: &Container,
        info: &TensorInfo,
        plan: &MovePlan,
        to: &ContainerWriter,
        index: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), RelayoutError> {
        zellige_calls::record_call!();
        let dtypes = MoveDtypes::between(info.dtype(), self.dtype)?;
        let (read, width) = (dtypes.src_bytes(), dtypes.dst_bytes());
        let held = info.byte_len() / read as u64;
        if u64::try_from(plan.src_len()).is_ok_and(|needed| needed > held) {
            let (name, needed) = (quote_start(info.name()), plan.src_len());
            return Err(RelayoutError::Source { name, needed, held });
        }
        let planned = usize::try_from(plan.dst_len()).unwrap_or(usize::MAX).saturating_mul(width);
        let held = to.tensors().get(index).map_or(0, TensorInfo::byte_len);
        let total = usize::try_from(held).unwrap_or(usize::MAX).max(planned);
        // Half for the slab and half for the window of the source. More than a gigabyte gains
        // nothing, and less than 64 KiB makes every slab a call to the system; a slab holds whole
        // elements.
        let slab = (self.memory / 2).clamp(1 << 16, 1 << 30) / width * width;
        let mut feed = TensorFeed::new(from, info, read, slab, to.parent_folder())?;
        let mut buffer = disk::aligned_buffer(slab.min(total) as u64)
            .map_err(|e| FileError::from_write(to.path(), "hold a part of it in memory", e))?;
        let mut done = 0usize;
        while done < total {
            let len = slab.min(total - done);
            let elements = |bytes: usize| i64::try_from(bytes / width).unwrap_or(i64::MAX);
            let part = plan.clip_destination(elements(done), elements(done + len));
            let target = &mut buffer[..len];
            let written: i64 = part.nests().iter().map(CopyNest::element_count).sum();
            // Filling is skipped where the plan writes every element, which is the usual case
            // without padding.
            if written != elements(len) {
                repeat_element(self.fill.unwrap_or(&[0]), target);
            }
            feed.run_plan(&part, dtypes, target, self.fill, self.threads)?;
            to.write_at(index, done as u64, target)?;
            done += len;
            progress(done as u64, total as u64);
        }
        Ok(from.check_unchanged()?)
    }
}

/// Fills memory with copies of an element; the memory holds a whole number of elements.
fn repeat_element(element: &[u8], target: &mut [u8]) {
    if let Some(byte) = element.first().filter(|b| element.iter().all(|e| e == *b)) {
        target.fill(*byte);
        return;
    }
    let mut done = element.len().min(target.len());
    target[..done].copy_from_slice(&element[..done]);
    while done < target.len() {
        // Doubling what is filled: each step is one large copy instead of one small one per
        // element.
        let part = done.min(target.len() - done);
        target.copy_within(..part, done);
        done += part;
    }
}
