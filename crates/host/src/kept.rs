//! Large memory that was freed, kept for the next buffer of its size.
//!
//! Fresh pages are zeroed by the system, which takes longer than a move that writes them.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Memory from this many bytes on is kept; allocators keep smaller memory themselves. When it was set (17 November 2026)
/// no other values were recorded, as for the next two.
pub(crate) const MIN_KEPT_BYTES: usize = 4 << 20;
/// Bytes that are kept, at most.
const MAX_KEPT_BYTES: usize = 512 << 20;
/// Time after which memory that was not taken again is freed.
const MAX_KEPT_TIME: Duration = Duration::from_secs(10);

/// An allocation.
#[derive(Debug)]
pub(crate) struct FreeMemory {
    /// As the allocator gave it.
    pub(crate) raw: NonNull<u8>,
    /// Bytes of it that are used.
    pub(crate) len: usize,
}

// SAFETY: it is the only way to the bytes.
unsafe impl Send for FreeMemory {}

/// The memory that is kept, oldest first.
struct FreeMemoryCache(Vec<(FreeMemory, Instant)>);

static FREE_MEMORY: Mutex<FreeMemoryCache> = Mutex::new(FreeMemoryCache(Vec::new()));

/// Memory of at least `len` bytes and not much more, if some is kept. Its contents are arbitrary.
pub(crate) fn take_free_memory(len: usize) -> Option<FreeMemory> {
    if len < MIN_KEPT_BYTES {
        return None;
    }
    // Without waiting: the lock is held for a moment, or forever in a forked process whose parent had another thread
    // that held it. Fresh memory is then the answer.
    FREE_MEMORY.try_lock().ok()?.take_fitting_memory(len)
}

/// Keeps memory; returns what there is no room for, and what was not taken again in time.
pub(crate) fn keep_free_memory(memory: FreeMemory) -> Vec<FreeMemory> {
    match FREE_MEMORY.try_lock() {
        Ok(mut kept) => kept.keep_and_evict(memory, Instant::now()),
        Err(_) => vec![memory],
    }
}

impl FreeMemoryCache {
    fn take_fitting_memory(&mut self, len: usize) -> Option<FreeMemory> {
        // At most a quarter more, so that a small result does not hold a large allocation.
        let fits = |m: &FreeMemory| m.len >= len && m.len - len <= len / 4;
        // The youngest, because its bytes are most likely still in a cache.
        let at = self.0.iter().rposition(|(m, _)| fits(m))?;
        Some(self.0.remove(at).0)
    }

    fn keep_and_evict(&mut self, memory: FreeMemory, now: Instant) -> Vec<FreeMemory> {
        self.0.push((memory, now));
        let mut bytes: usize = self.0.iter().map(|(m, _)| m.len).sum();
        let mut gone = 0;
        for (m, since) in &self.0 {
            if bytes <= MAX_KEPT_BYTES && now.duration_since(*since) <= MAX_KEPT_TIME {
                break;
            }
            bytes -= m.len;
            gone += 1;
        }
        self.0.drain(..gone).map(|(m, _)| m).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(len: usize) -> FreeMemory {
        FreeMemory { raw: NonNull::dangling(), len }
    }

    #[test]
    fn what_is_kept_is_bounded_by_bytes_and_age() {
        let mut kept = FreeMemoryCache(Vec::new());
        let now = Instant::now();
        let lens = |gone: Vec<FreeMemory>| gone.iter().map(|m| m.len).collect::<Vec<_>>();
        assert!(kept.keep_and_evict(memory(MIN_KEPT_BYTES), now).is_empty());
        assert!(kept.keep_and_evict(memory(MAX_KEPT_BYTES - MIN_KEPT_BYTES), now).is_empty());
        assert_eq!(
            lens(kept.keep_and_evict(memory(2 * MIN_KEPT_BYTES), now)),
            [MIN_KEPT_BYTES, MAX_KEPT_BYTES - MIN_KEPT_BYTES]
        );
        assert_eq!(
            lens(kept.keep_and_evict(memory(MAX_KEPT_BYTES + 1), now)),
            [2 * MIN_KEPT_BYTES, MAX_KEPT_BYTES + 1]
        );
        assert!(kept.keep_and_evict(memory(MIN_KEPT_BYTES), now).is_empty());
        let later = now + MAX_KEPT_TIME + Duration::from_secs(1);
        assert_eq!(lens(kept.keep_and_evict(memory(3 * MIN_KEPT_BYTES), later)), [MIN_KEPT_BYTES]);
        // Not much longer than what is requested, the youngest first.
        assert!(kept.keep_and_evict(memory(3 * MIN_KEPT_BYTES + 64), later).is_empty());
        assert!(kept.take_fitting_memory(MIN_KEPT_BYTES).is_none());
        assert_eq!(
            kept.take_fitting_memory(3 * MIN_KEPT_BYTES).map(|m| m.len),
            Some(3 * MIN_KEPT_BYTES + 64)
        );
        assert_eq!(
            kept.take_fitting_memory(3 * MIN_KEPT_BYTES - 5).map(|m| m.len),
            Some(3 * MIN_KEPT_BYTES)
        );
        assert!(kept.take_fitting_memory(3 * MIN_KEPT_BYTES).is_none());
    }
}
