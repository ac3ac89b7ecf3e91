//! Calls that pass their limits or panic, with the counting allocator installed.

use std::time::{Duration, Instant};
use zellige_guard::{
    CallLimits, CountingAllocator, StopReason, count_many_steps, count_step, reserve_memory,
    run_guarded_call, silence_call_panics,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SECOND: Duration = Duration::from_secs(1);
const SHORT: CallLimits = CallLimits { time: Some(Duration::from_millis(30)), memory: None };
const SMALL: CallLimits = CallLimits { time: None, memory: Some(1 << 20) };

fn endless() {
    loop {
        count_step();
    }
}

#[test]
fn a_call_that_takes_too_long_is_stopped_soon() {
    let begin = Instant::now();
    let stopped = run_guarded_call(SHORT, endless);
    assert_eq!(stopped, Err(StopReason::Time { limit: Duration::from_millis(30) }));
    assert!(begin.elapsed() < SECOND);
    // Steps that are not visited one by one count too.
    let stopped = run_guarded_call(SHORT, || {
        loop {
            count_many_steps(1 << 20);
        }
    });
    assert!(matches!(stopped, Err(StopReason::Time { .. })));
}

#[test]
fn memory_that_grows_is_stopped_at_the_limit() {
    let grown = std::cell::Cell::new(0);
    let stopped = run_guarded_call(SMALL, || {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            count_step();
            all.push(vec![1; 512]);
            grown.set(all.len() * 512);
        }
    });
    assert!(matches!(stopped, Err(StopReason::Memory { limit: 1048576, .. })), "{stopped:?}");
    // Limits are checked every so many steps, so a little more than the limit is used.
    assert!((1 << 19..2 << 20).contains(&grown.get()), "{}", grown.get());
}

#[test]
fn what_is_reserved_is_refused_before_it_is_taken() {
    let stopped = run_guarded_call(SMALL, || {
        reserve_memory(1 << 40);
        unreachable!("it is refused");
    });
    let Err(StopReason::Memory { needed, .. }) = stopped else { panic!("{stopped:?}") };
    assert!(needed >= 1 << 40);
    assert_eq!(run_guarded_call(SMALL, || reserve_memory(1 << 10)), Ok(()));
    // Nothing is refused outside of a call.
    reserve_memory(usize::MAX);
    count_many_steps(usize::MAX);
}

#[test]
fn a_panic_is_an_answer_and_the_next_call_runs() {
    silence_call_panics();
    for _ in 0..3 {
        let Err(StopReason::Panic { message, place }) =
            run_guarded_call(CallLimits::NONE, || panic!("{} things", 3))
        else {
            panic!("it panicked")
        };
        assert_eq!(message, "3 things");
        assert!(place.is_some_and(|p| p.contains("calls.rs:")));
        assert_eq!(run_guarded_call(CallLimits::NONE, || 7), Ok(7));
    }
    let words = run_guarded_call(CallLimits::NONE, || panic!("no")).unwrap_err().to_string();
    assert!(words.contains("mistake in the engine") && words.contains("report"), "{words}");
}

#[test]
fn the_stricter_limit_of_nested_calls_holds_and_the_outer_one_comes_back() {
    let inner = run_guarded_call(SHORT, || run_guarded_call(CallLimits::NONE, endless));
    assert!(matches!(inner, Ok(Err(StopReason::Time { .. }))), "{inner:?}");
    let outer = run_guarded_call(CallLimits { time: Some(SECOND / 10), memory: None }, || {
        assert!(run_guarded_call(SHORT, endless).is_err());
        endless();
    });
    assert_eq!(outer, Err(StopReason::Time { limit: SECOND / 10 }));
    // Outside of calls a loop may count any number of steps.
    (0..1 << 20).for_each(|_| count_step());
}

#[test]
fn what_a_stopped_call_owned_is_dropped() {
    struct Held<'a>(&'a std::cell::Cell<bool>);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = std::cell::Cell::new(false);
    let stopped = run_guarded_call(SHORT, || {
        let _held = Held(&dropped);
        endless();
    });
    assert!(stopped.is_err() && dropped.get());
}
