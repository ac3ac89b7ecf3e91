//! Large memory that was freed, kept for the next who wants as much.
//!
//! Fresh pages are zeroed by the system, which takes longer than a move that writes them.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Memory from this many bytes on is kept; allocators keep smaller memory themselves.
pub(crate) const MIN_KEPT_BYTES: usize = 4 << 20;
/// At most this much is kept,
const MAX_KEPT_BYTES: usize = 512 << 20;
/// and nothing that nobody has wanted for this long.
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

/// What is kept, oldest first.
struct FreeMemoryCache(Vec<(FreeMemory, Instant)>);

static FREE_MEMORY: Mutex<FreeMemoryCache> = Mutex::new(FreeMemoryCache(Vec::new()));

/// Memory of at least `len` bytes and not much more, if some is kept. It holds anything.
pub(crate) fn take_free_memory(len: usize) -> Option<FreeMemory> {
    if len < MIN_KEPT_BYTES {
        return None;
    }
    // Whoever holds the lock does so for a moment, or was another thread of a process that was forked.
    FREE_MEMORY.try_lock().ok()?.take_fitting_memory(len)
}

/// Keeps memory; gives back what there is no room for, and what nobody wanted.
pub(crate) fn keep_free_memory(memory: FreeMemory) -> Vec<FreeMemory> {
    match FREE_MEMORY.try_lock() {
        Ok(mut kept) => kept.keep_and_evict(memory, Instant::now()),
        Err(_) => vec![memory],
    }
}

impl FreeMemoryCache {
    fn take_fitting_memory(&mut self, len: usize) -> Option<FreeMemory> {
        let fits = |m: &FreeMemory| m.len >= len && m.len - len <= len / 4;
        // The youngest: its bytes are most likely still in a cache.
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
        // Not much longer than what is asked for, the youngest first.
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
