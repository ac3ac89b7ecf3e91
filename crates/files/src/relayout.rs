//! A tensor of one file, moved into another file slab by slab.

use crate::{Container, Error, TensorInfo, Writer};
use std::sync::Arc;
use zellige_movement::{Buffer, Mapped, MoveError, Mover, Plan};

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
    /// Elements that are not whole bytes.
    #[error("elements of {0} bits are not moved between files; whole bytes are")]
    Bits(i64),
}

/// How to move.
#[derive(Debug, Clone, Copy)]
pub struct Relayout<'a> {
    /// The element written to padding, in the byte order of the machine; without one it is zero.
    pub fill: Option<&'a [u8]>,
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
        let bits = info.dtype().bits();
        let width = usize::try_from(bits / 8).ok().filter(|w| *w > 0 && bits % 8 == 0);
        let width = width.ok_or(RelayoutError::Bits(bits))?;
        let total = usize::try_from(plan.dst_len()).unwrap_or(usize::MAX).saturating_mul(width);
        let slab = (self.memory / 2).clamp(1 << 16, 1 << 30) / width * width;
        // A compressed entry has no positions: it is read whole.
        let inflated = match info.data_offset() {
            Some(_) => None,
            None => {
                let bytes = usize::try_from(info.bytes()).unwrap_or(usize::MAX);
                let mut whole = Buffer::zeroed(bytes);
                from.reader(info)?.fill(&mut whole)?;
                Some(whole)
            }
        };
        let mut fill = self.fill.map(<[u8]>::to_vec);
        if let Some(f) = &mut fill {
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
                    Mover::new(&part, width)?.run(whole, target, fill.as_deref(), self.threads)?;
                }
                (None, offset) => {
                    for part in part.split_source(elements(slab)) {
                        let (low, high) = part.src_window();
                        let bytes = usize::try_from(high - low).unwrap_or(0) * width;
                        let at =
                            offset.unwrap_or(0) + u64::try_from(low).unwrap_or(0) * width as u64;
                        let map = Mapped::new(from.file(), at, bytes)
                            .map_err(|e| RelayoutError::Map(Arc::new(e)))?;
                        let mover = Mover::new(&part.with_source_at(low)?, width)?;
                        mover.run(&map, target, fill.as_deref(), self.threads)?;
                    }
                }
            }
            info.swap(target);
            to.write_at(index, done as u64, target)?;
            done += len;
            progress(done as u64, total as u64);
        }
        Ok(())
    }
}
