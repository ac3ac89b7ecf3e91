//! What is left of the limits of the call that this thread is in.

use crate::allocator::Counting;
use crate::limits::Limits;
use crate::stopped::Stopped;
use std::cell::Cell;
use std::time::Instant;

/// Steps between two looks at the clock and at the allocator: a look costs about as much as fifty
/// plain steps, and a step is at most some microseconds of work.
const LOOK: u32 = 256;

/// The limits of a running call.
#[derive(Clone, Copy)]
struct Budget {
    limits: Limits,
    /// When it began; none on a platform without a clock.
    begin: Option<Instant>,
    /// Bytes in use when it began.
    before: usize,
}

thread_local! {
    /// Steps until the next look; `u32::MAX` outside of a call, where nobody looks.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    static BUDGET: Cell<Option<Budget>> = const { Cell::new(None) };
}

/// One turn of a loop over something that a request can make large.
///
/// Unwinds to the [`call`](crate::call) that this thread is in where that has used up its limits; does
/// nothing outside of one.
#[inline]
pub fn step() {
    LEFT.with(|left| match left.get() {
        u32::MAX => {}
        0 => look(0),
        n => left.set(n - 1),
    });
}

/// Many turns at once, of which none is visited one by one.
#[inline]
pub fn steps(count: usize) {
    LEFT.with(|left| match (left.get(), u32::try_from(count)) {
        (u32::MAX, _) => {}
        (n, Ok(count)) if count <= n => left.set(n - count),
        _ => look(0),
    });
}

/// Says that so many bytes are taken next, in one piece or soon after one another.
///
/// Unwinds to the [`call`](crate::call) that this thread is in where they would pass its memory limit.
pub fn reserve(bytes: usize) {
    if LEFT.get() != u32::MAX {
        look(bytes);
    }
}

/// Compares what was used, and what is asked for, with the limits.
#[cold]
fn look(bytes: usize) {
    let Some(Budget { limits, begin, before }) = BUDGET.get() else { return };
    LEFT.set(LOOK);
    if let (Some(limit), Some(begin)) = (limits.time, begin)
        && begin.elapsed() > limit
    {
        stop(Stopped::Time { limit });
    }
    if let Some(limit) = limits.memory {
        let used = Counting::in_use().saturating_sub(before).saturating_add(bytes);
        let needed = u64::try_from(used).unwrap_or(u64::MAX);
        if needed > limit {
            stop(Stopped::Memory { limit, needed });
        }
    }
}

/// Unwinds to the call, without a word on the terminal.
fn stop(why: Stopped) -> ! {
    std::panic::resume_unwind(Box::new(why))
}

/// Runs with these limits, then with those from before; also when `work` unwinds.
pub(crate) fn within<T>(limits: Limits, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Budget>, u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUDGET.set(self.0);
            LEFT.set(self.1);
        }
    }
    let outer = BUDGET.get();
    let _restore = Restore(outer, LEFT.get());
    let limits = outer.map_or(limits, |outer| limits.inside(outer.limits, elapsed(&outer)));
    let begin = if cfg!(target_family = "wasm") { None } else { Some(Instant::now()) };
    BUDGET.set(Some(Budget { limits, begin, before: Counting::in_use() }));
    LEFT.set(LOOK);
    work()
}

fn elapsed(budget: &Budget) -> std::time::Duration {
    budget.begin.map_or(std::time::Duration::ZERO, |begin| begin.elapsed())
}
