//! Large memory that was freed, kept for the next who wants as much.
//!
//! Fresh pages are zeroed by the system, which takes longer than a move that writes them.

use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Memory from this many bytes on is kept; allocators keep smaller memory themselves.
pub(crate) const FROM: usize = 4 << 20;
/// At most this much is kept,
const MOST: usize = 512 << 20;
/// and nothing that nobody has wanted for this long.
const LONGEST: Duration = Duration::from_secs(10);

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
struct Kept(Vec<(FreeMemory, Instant)>);

static KEPT: Mutex<Kept> = Mutex::new(Kept(Vec::new()));

/// Memory of at least `len` bytes and not much more, if some is kept. It holds anything.
pub(crate) fn take(len: usize) -> Option<FreeMemory> {
    if len < FROM {
        return None;
    }
    // Whoever holds the lock does so for a moment, or was another thread of a process that was forked.
    KEPT.try_lock().ok()?.take(len)
}

/// Keeps memory; gives back what there is no room for, and what nobody wanted.
pub(crate) fn keep(memory: FreeMemory) -> Vec<FreeMemory> {
    match KEPT.try_lock() {
        Ok(mut kept) => kept.keep(memory, Instant::now()),
        Err(_) => vec![memory],
    }
}

impl Kept {
    fn take(&mut self, len: usize) -> Option<FreeMemory> {
        let fits = |m: &FreeMemory| m.len >= len && m.len - len <= len / 4;
        // The youngest: its bytes are most likely still in a cache.
        let at = self.0.iter().rposition(|(m, _)| fits(m))?;
        Some(self.0.remove(at).0)
    }

    fn keep(&mut self, memory: FreeMemory, now: Instant) -> Vec<FreeMemory> {
        self.0.push((memory, now));
        let mut bytes: usize = self.0.iter().map(|(m, _)| m.len).sum();
        let mut gone = 0;
        for (m, since) in &self.0 {
            if bytes <= MOST && now.duration_since(*since) <= LONGEST {
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
        let mut kept = Kept(Vec::new());
        let now = Instant::now();
        let lens = |gone: Vec<FreeMemory>| gone.iter().map(|m| m.len).collect::<Vec<_>>();
        assert!(kept.keep(memory(FROM), now).is_empty());
        assert!(kept.keep(memory(MOST - FROM), now).is_empty());
        assert_eq!(lens(kept.keep(memory(2 * FROM), now)), [FROM, MOST - FROM]);
        assert_eq!(lens(kept.keep(memory(MOST + 1), now)), [2 * FROM, MOST + 1]);
        assert!(kept.keep(memory(FROM), now).is_empty());
        let later = now + LONGEST + Duration::from_secs(1);
        assert_eq!(lens(kept.keep(memory(3 * FROM), later)), [FROM]);
        // Not much longer than what is asked for, the youngest first.
        assert!(kept.keep(memory(3 * FROM + 64), later).is_empty());
        assert!(kept.take(FROM).is_none());
        assert_eq!(kept.take(3 * FROM).map(|m| m.len), Some(3 * FROM + 64));
        assert_eq!(kept.take(3 * FROM - 5).map(|m| m.len), Some(3 * FROM));
        assert!(kept.take(3 * FROM).is_none());
    }
}
