//! Host memory of freed blocks, kept for the next ones.
//!
//! Fresh pages cost a fault each, several times what writing them costs; an operation that makes a
//! tensor of megabytes would spend most of its time there.

use super::allocator::GRANULE_BYTES;
use crate::error::{DeviceError, Result};
use zellige_host::LazyMemory;

const _: () = assert!(LazyMemory::ALIGNMENT_BYTES as u64 == GRANULE_BYTES);

/// The most host memory that is kept.
const MAX_KEPT_BYTES: usize = 512 << 20;
/// The longest backing that is kept. Up to here zeroing kept memory costs less than fresh pages; a longer block is
/// better mapped anew, because its pages exist only once they are touched.
const MAX_BACKING_BYTES: usize = 32 << 20;

/// Kept backings, oldest first.
#[derive(Debug, Default)]
pub(super) struct BackingPool {
    kept: Vec<LazyMemory>,
    bytes: usize,
}

impl BackingPool {
    /// A backing of at least `len` bytes whose contents are anything, if one is kept that is not
    /// much longer.
    pub(super) fn take_backing(&mut self, len: usize) -> Option<LazyMemory> {
        // A quarter too long at most: beyond that the pages would be missing for longer blocks.
        let fits = |b: &LazyMemory| b.len() >= len && b.len() - len <= len / 4;
        // The youngest: its bytes are most likely still in a cache.
        let at = self.kept.iter().rposition(fits)?;
        let backing = self.kept.remove(at);
        self.bytes -= backing.len();
        Some(backing)
    }

    /// Keeps a backing, and returns those that there is no room for, so that the caller frees them without the lock.
    pub(super) fn keep_backing(&mut self, backing: LazyMemory) -> Vec<LazyMemory> {
        // Shorter ones are from the heap, which keeps freed memory itself.
        if backing.len() < LazyMemory::MIN_MAPPED_BYTES || backing.len() > MAX_BACKING_BYTES {
            return vec![backing];
        }
        self.bytes += backing.len();
        self.kept.push(backing);
        let mut excess = 0;
        while self.bytes > MAX_KEPT_BYTES {
            self.bytes -= self.kept[excess].len();
            excess += 1;
        }
        self.kept.drain(..excess).collect()
    }

    /// Removes and returns everything.
    pub(super) fn drain_backings(&mut self) -> Vec<LazyMemory> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }

    /// Whether kept memory may serve a request for `len` bytes.
    pub(super) fn may_serve(len: usize) -> bool {
        (LazyMemory::MIN_MAPPED_BYTES..=MAX_BACKING_BYTES).contains(&len)
    }
}

/// `len` bytes of zeros, from the pool or fresh.
pub(super) fn zeroed_backing(kept: Option<LazyMemory>, len: usize) -> Result<LazyMemory> {
    match kept {
        None => map_fresh(len),
        Some(mut backing) => {
            backing.zero_prefix(len);
            Ok(backing)
        }
    }
}

/// `len` bytes of a new mapping.
pub(super) fn map_fresh(len: usize) -> Result<LazyMemory> {
    LazyMemory::new_zeroed(len)
        .map_err(|e| DeviceError::HostMemory { asked: len as u64, reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_is_taken_and_the_oldest_goes_first() {
        let mib = 1 << 20;
        let mut pool = BackingPool::default();
        for len in [mib, 10 * mib] {
            assert!(pool.keep_backing(LazyMemory::new_zeroed(len).unwrap()).is_empty());
        }
        assert!(pool.take_backing(7 * mib).is_none(), "10 MiB are too much for 7");
        assert_eq!(pool.take_backing(9 * mib).unwrap().len(), 10 * mib);
        assert!(pool.take_backing(9 * mib).is_none());
        assert_eq!(
            pool.keep_backing(LazyMemory::new_zeroed(mib - 128).unwrap()).len(),
            1,
            "the heap's"
        );
        assert_eq!(
            pool.keep_backing(LazyMemory::new_zeroed(33 * mib).unwrap()).len(),
            1,
            "better fresh"
        );
        // Untouched, so they take no memory: the first, small one makes room for the last.
        let gone: usize = (0..16)
            .map(|_| pool.keep_backing(LazyMemory::new_zeroed(32 * mib).unwrap()).len())
            .sum();
        assert_eq!((gone, pool.kept.len(), pool.bytes), (1, 16, MAX_KEPT_BYTES));
        assert_eq!(pool.drain_backings().len(), 16);
    }

    #[test]
    fn kept_memory_is_zeroed() {
        let memory = crate::DeviceMemory::with_card_segments();
        let host = |block: &crate::MemoryBlock| block.lock_for_read().as_ptr().addr();
        for len in [LazyMemory::MIN_MAPPED_BYTES, 3 << 20, MAX_BACKING_BYTES] {
            let first = memory.alloc_block(len).unwrap();
            first.lock_for_write().fill(0xEE);
            let at = host(&first);
            drop(first);
            let again = memory.alloc_block(len - 100).unwrap();
            assert_eq!(host(&again), at, "the same pages, without a fault");
            drop(again);
            let zeroed = memory.alloc_block(len).unwrap();
            assert_eq!(host(&zeroed), at);
            assert!(zeroed.lock_for_read().iter().all(|b| *b == 0));
        }
        memory.trim_pool();
        assert_eq!(memory.lock_pool().bytes, 0);
    }
}
