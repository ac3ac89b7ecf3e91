//! A tensor of one file, moved into another file slab by slab.

use crate::{Container, Error, TensorInfo, Writer};
use std::sync::Arc;
use zellige_layout::Dtype;
use zellige_movement::{Buffer, Dtypes, Mapped, MoveError, Mover, Plan};

/// Why a move between files stopped.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayoutError {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] Error),
    /// The plan does not fit the tensors.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The source could not be mapped.
    #[error("cannot map the source: {0}")]
    Map(#[source] Arc<std::io::Error>),
    /// A file that does not hold what was written to it.
    #[error("verify: {what} differs in {}", path.display())]
    Differs {
        /// The file.
        path: std::path::PathBuf,
        /// What differs first.
        what: String,
    },
    /// Buffers that do not hold what is compared.
    #[error(transparent)]
    Length(#[from] zellige_float::Error),
    /// A source tensor that is not what the plan reads.
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

/// How to move.
#[derive(Debug, Clone, Copy)]
pub struct Relayout<'a> {
    /// The element written to padding, of the dtype that is written; without one it is zero, as
    /// everything is in a file that was just made.
    pub fill: Option<&'a [u8]>,
    /// The dtype to write: elements are converted on the way.
    pub dtype: Dtype,
    /// Threads at most.
    pub threads: usize,
    /// Bytes of memory for buffers, about.
    pub memory: usize,
}

impl Relayout<'_> {
    /// Moves a tensor into tensor `index` of a writer, calling `progress` with the bytes done and
    /// the bytes in all.
    ///
    /// The destination is written in slabs that fit in `memory`; of the source only what a slab
    /// reads is mapped. The writer is not finished: until it is, nothing has the final name.
    pub fn run(
        &self,
        from: &Container,
        info: &TensorInfo,
        plan: &Plan,
        to: &Writer,
        index: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), RelayoutError> {
        let dtypes = Dtypes::of(info.dtype(), self.dtype)?;
        let (read, width) = (dtypes.src_bytes(), dtypes.dst_bytes());
        let held = info.bytes() / read as u64;
        if u64::try_from(plan.src_len()).is_ok_and(|needed| needed > held) {
            let (name, needed) = (info.name().to_string(), plan.src_len());
            return Err(RelayoutError::Source { name, needed, held });
        }
        let total = usize::try_from(plan.dst_len()).unwrap_or(usize::MAX).saturating_mul(width);
        let slab = (self.memory / 2).clamp(1 << 16, 1 << 30) / width * width;
        // Bytes that stay as they are can be swapped at the end, numbers must be swapped to be read.
        let converts = matches!(dtypes, Dtypes::Formats { .. });
        // A compressed entry has no positions: it is read whole.
        let inflated = match info.data_offset() {
            Some(_) => None,
            None => {
                let bytes = usize::try_from(info.bytes()).unwrap_or(usize::MAX);
                let mut whole = Buffer::zeroed(bytes);
                from.reader(info)?.fill(&mut whole)?;
                if converts {
                    info.swap(&mut whole);
                }
                Some(whole)
            }
        };
        let mut fill = self.fill.map(<[u8]>::to_vec);
        if let Some(f) = fill.as_mut().filter(|_| !converts) {
            // Slabs are swapped as a whole when the source has the other byte order.
            info.swap(f);
        }
        let mut buffer = Buffer::zeroed(slab.min(total));
        let mut done = 0usize;
        while done < total {
            let len = slab.min(total - done);
            let elements = |bytes: usize| i64::try_from(bytes / width).unwrap_or(i64::MAX);
            let part = plan.clip(elements(done), elements(done + len));
            let target = &mut buffer[..len];
            target.fill(0);
            match (&inflated, info.data_offset()) {
                (Some(whole), _) => {
                    let mover = Mover::with_dtypes(&part, dtypes)?;
                    mover.run(whole, target, fill.as_deref(), self.threads)?;
                }
                (None, offset) => {
                    let most = i64::try_from(slab / read).unwrap_or(i64::MAX);
                    for part in part.split_source(most) {
                        let (low, high) = part.src_window();
                        let bytes = usize::try_from(high - low).unwrap_or(0) * read;
                        let at =
                            offset.unwrap_or(0) + u64::try_from(low).unwrap_or(0) * read as u64;
                        let map = Mapped::new(from.file(), at, bytes)
                            .map_err(|e| RelayoutError::Map(Arc::new(e)))?;
                        let mover = Mover::with_dtypes(&part.with_source_at(low)?, dtypes)?;
                        let swapped = (converts && info.swap_unit().is_some()).then(|| {
                            let mut own = map.to_vec();
                            info.swap(&mut own);
                            own
                        });
                        let bytes = swapped.as_deref().unwrap_or(&map);
                        mover.run(bytes, target, fill.as_deref(), self.threads)?;
                    }
                }
            }
            if !converts {
                info.swap(target);
            }
            to.write_at(index, done as u64, target)?;
            done += len;
            progress(done as u64, total as u64);
        }
        Ok(())
    }
}
