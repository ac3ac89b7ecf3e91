//! Host memory of freed blocks, kept for the next ones.
//!
//! Fresh pages cost a fault each, several times what writing them costs; an operation that makes a
//! tensor of megabytes would spend most of its time there.

use super::allocator::GRANULE;
use crate::error::{DeviceError, Result};
use zellige_host::LazyMemory;

const _: () = assert!(LazyMemory::ALIGNMENT_BYTES as u64 == GRANULE);

/// At most this much is kept,
const KEPT: usize = 512 << 20;
/// and nothing longer than this: up to it zeroing kept memory is cheaper than fresh pages, beyond it
/// a fresh mapping is better, as its pages exist only once touched.
const LONGEST: usize = 32 << 20;

/// Kept backings, oldest first.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: Vec<LazyMemory>,
    bytes: usize,
}

impl Pool {
    /// A backing of at least `len` bytes whose contents are anything, if one is kept that is not
    /// much longer.
    pub(super) fn take(&mut self, len: usize) -> Option<LazyMemory> {
        let fits = |b: &LazyMemory| b.len() >= len && b.len() - len <= len / 4;
        // The youngest: its bytes are most likely still in a cache.
        let at = self.kept.iter().rposition(fits)?;
        let backing = self.kept.remove(at);
        self.bytes -= backing.len();
        Some(backing)
    }

    /// Keeps a backing; gives out those that there is no room for, to be freed without a lock.
    pub(super) fn keep(&mut self, backing: LazyMemory) -> Vec<LazyMemory> {
        if backing.len() < LazyMemory::MIN_MAPPED_BYTES || backing.len() > LONGEST {
            return vec![backing];
        }
        self.bytes += backing.len();
        self.kept.push(backing);
        let mut excess = 0;
        while self.bytes > KEPT {
            self.bytes -= self.kept[excess].len();
            excess += 1;
        }
        self.kept.drain(..excess).collect()
    }

    /// Gives out everything.
    pub(super) fn empty(&mut self) -> Vec<LazyMemory> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }

    /// Whether kept memory may serve a request for `len` bytes.
    pub(super) fn serves(len: usize) -> bool {
        (LazyMemory::MIN_MAPPED_BYTES..=LONGEST).contains(&len)
    }
}

/// `len` bytes of zeros, from the pool or fresh.
pub(super) fn backing(kept: Option<LazyMemory>, len: usize) -> Result<LazyMemory> {
    match kept {
        None => fresh(len),
        Some(mut backing) => {
            backing.zero_prefix(len);
            Ok(backing)
        }
    }
}

/// `len` bytes that nobody has used before.
pub(super) fn fresh(len: usize) -> Result<LazyMemory> {
    LazyMemory::new_zeroed(len)
        .map_err(|e| DeviceError::HostMemory { asked: len as u64, reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_is_taken_and_the_oldest_goes_first() {
        let mib = 1 << 20;
        let mut pool = Pool::default();
        for len in [mib, 10 * mib] {
            assert!(pool.keep(LazyMemory::new_zeroed(len).unwrap()).is_empty());
        }
        assert!(pool.take(7 * mib).is_none(), "10 MiB are too much for 7");
        assert_eq!(pool.take(9 * mib).unwrap().len(), 10 * mib);
        assert!(pool.take(9 * mib).is_none());
        assert_eq!(pool.keep(LazyMemory::new_zeroed(mib - 128).unwrap()).len(), 1, "the heap's");
        assert_eq!(pool.keep(LazyMemory::new_zeroed(33 * mib).unwrap()).len(), 1, "better fresh");
        // Untouched, so they take no memory: the first, small one makes room for the last.
        let gone: usize =
            (0..16).map(|_| pool.keep(LazyMemory::new_zeroed(32 * mib).unwrap()).len()).sum();
        assert_eq!((gone, pool.kept.len(), pool.bytes), (1, 16, KEPT));
        assert_eq!(pool.empty().len(), 16);
    }

    #[test]
    fn kept_memory_is_zeroed() {
        let memory = crate::Memory::card();
        let host = |block: &crate::Block| block.read().as_ptr().addr();
        for len in [LazyMemory::MIN_MAPPED_BYTES, 3 << 20, LONGEST] {
            let first = memory.alloc(len).unwrap();
            first.write().fill(0xEE);
            let at = host(&first);
            drop(first);
            let again = memory.alloc(len - 100).unwrap();
            assert_eq!(host(&again), at, "the same pages, without a fault");
            drop(again);
            let zeroed = memory.alloc(len).unwrap();
            assert_eq!(host(&zeroed), at);
            assert!(zeroed.read().iter().all(|b| *b == 0));
        }
        memory.trim();
        assert_eq!(memory.pool().bytes, 0);
    }
}
