//! What is left of the limits of the call that this thread is in.

use crate::allocator::CountingAllocator;
use crate::limits::CallLimits;
use crate::stopped::StopReason;
use std::cell::Cell;
use std::time::Instant;

/// Steps between two looks at the clock and at the allocator: a look costs about as much as fifty
/// plain steps, and a step is at most some microseconds of work.
const STEPS_PER_CHECK: u32 = 256;

/// The limits of a running call.
#[derive(Clone, Copy)]
struct CallBudget {
    limits: CallLimits,
    /// When it began; none on a platform without a clock.
    begin: Option<Instant>,
    /// Bytes in use when it began.
    before: usize,
}

thread_local! {
    /// Steps until the next look; `u32::MAX` outside of a call, where nobody looks.
    static STEPS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    static BUDGET: Cell<Option<CallBudget>> = const { Cell::new(None) };
}

/// One turn of a loop over something that a request can make large.
///
/// Unwinds to the [`run_guarded_call`](crate::run_guarded_call) that this thread is in where that has used up its limits; does
/// nothing outside of one.
#[inline]
pub fn count_step() {
    STEPS_LEFT.with(|left| match left.get() {
        u32::MAX => {}
        0 => check_limits(0),
        n => left.set(n - 1),
    });
}

/// Many turns at once, of which none is visited one by one.
#[inline]
pub fn count_many_steps(count: usize) {
    STEPS_LEFT.with(|left| match (left.get(), u32::try_from(count)) {
        (u32::MAX, _) => {}
        (n, Ok(count)) if count <= n => left.set(n - count),
        _ => check_limits(0),
    });
}

/// Says that so many bytes are taken next, in one piece or soon after one another.
///
/// Unwinds to the [`run_guarded_call`](crate::run_guarded_call) that this thread is in where they would pass its memory limit.
pub fn reserve_memory(bytes: usize) {
    if STEPS_LEFT.get() != u32::MAX {
        check_limits(bytes);
    }
}

/// Compares what was used, and what is asked for, with the limits.
#[cold]
fn check_limits(bytes: usize) {
    let Some(CallBudget { limits, begin, before }) = BUDGET.get() else { return };
    STEPS_LEFT.set(STEPS_PER_CHECK);
    if let (Some(limit), Some(begin)) = (limits.time, begin)
        && begin.elapsed() > limit
    {
        unwind_to_call(StopReason::Time { limit });
    }
    if let Some(limit) = limits.memory {
        let used = CountingAllocator::bytes_in_use().saturating_sub(before).saturating_add(bytes);
        let needed = u64::try_from(used).unwrap_or(u64::MAX);
        if needed > limit {
            unwind_to_call(StopReason::Memory { limit, needed });
        }
    }
}

/// Unwinds to the call, without a word on the terminal.
fn unwind_to_call(why: StopReason) -> ! {
    std::panic::resume_unwind(Box::new(why))
}

/// Runs with these limits, then with those from before; also when `work` unwinds.
pub(crate) fn run_within_limits<T>(limits: CallLimits, work: impl FnOnce() -> T) -> T {
    struct RestoreBudget(Option<CallBudget>, u32);
    impl Drop for RestoreBudget {
        fn drop(&mut self) {
            BUDGET.set(self.0);
            STEPS_LEFT.set(self.1);
        }
    }
    let outer = BUDGET.get();
    let _restore = RestoreBudget(outer, STEPS_LEFT.get());
    let limits = outer
        .map_or(limits, |outer| limits.restrict_to_outer(outer.limits, elapsed_in_call(&outer)));
    let begin = if cfg!(target_family = "wasm") { None } else { Some(Instant::now()) };
    BUDGET.set(Some(CallBudget { limits, begin, before: CountingAllocator::bytes_in_use() }));
    STEPS_LEFT.set(STEPS_PER_CHECK);
    work()
}

fn elapsed_in_call(budget: &CallBudget) -> std::time::Duration {
    budget.begin.map_or(std::time::Duration::ZERO, |begin| begin.elapsed())
}
