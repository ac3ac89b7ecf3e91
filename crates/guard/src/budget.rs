//! The limits of the call that a thread is in, and how much of them is used.

use crate::allocator::CountingAllocator;
use crate::limits::CallLimits;
use crate::stopped::StopReason;
use std::cell::Cell;
use std::time::Instant;

/// Steps between two looks at the clock and at the allocator. A look costs about as much as fifty plain steps, so that
/// a fifth of a step is added to each; and a step is at most some microseconds of work, so that a limit of time is
/// exceeded by a millisecond or so.
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

/// Counts one iteration of a loop over something that a request can make large.
///
/// Unwinds to the [`run_guarded_call`](crate::run_guarded_call) that this thread is in, where that call has used up its
/// limits; does nothing outside of one.
#[inline]
pub fn count_step() {
    STEPS_LEFT.with(|left| match left.get() {
        u32::MAX => {}
        0 => check_limits(0),
        n => left.set(n - 1),
    });
}

/// Counts many iterations at once.
#[inline]
pub fn count_many_steps(count: usize) {
    STEPS_LEFT.with(|left| match (left.get(), u32::try_from(count)) {
        (u32::MAX, _) => {}
        (n, Ok(count)) if count <= n => left.set(n - count),
        _ => check_limits(0),
    });
}

/// Announces that so many bytes are allocated next, in one piece or soon after one another.
///
/// Unwinds to the [`run_guarded_call`](crate::run_guarded_call) that this thread is in where they would exceed its memory limit.
pub fn reserve_memory(bytes: usize) {
    if STEPS_LEFT.get() != u32::MAX {
        check_limits(bytes);
    }
}

/// Compares what was used, and `bytes` more, with the limits.
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

/// Unwinds to the call, without a message on the terminal.
fn unwind_to_call(why: StopReason) -> ! {
    // Not `panic!`, which would run the hook of panics and print a backtrace for a request that is merely too large.
    std::panic::resume_unwind(Box::new(why))
}

/// Runs `work` with these limits, and restores those from before, also when `work` unwinds.
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
    // A call inside of another may not outlive it, so it has what the outer one has left.
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
