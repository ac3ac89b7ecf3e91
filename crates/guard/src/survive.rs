//! Calls that return, whatever happens inside of them.

use crate::budget::run_within_limits;
use crate::limits::CallLimits;
use crate::stopped::StopReason;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside of a call.
    static INSIDE_CALL: Cell<bool> = const { Cell::new(false) };
    /// The file and line of the last panic inside of a call.
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` inside of limits. A limit that it exceeds, or a panic, ends it and is the result.
///
/// `work` may not leave shared state half changed when it unwinds; its own values are dropped.
///
/// # Errors
/// [`StopReason`].
pub fn run_guarded_call<T>(limits: CallLimits, work: impl FnOnce() -> T) -> Result<T, StopReason> {
    let outer = INSIDE_CALL.replace(true);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run_within_limits(limits, work)));
    INSIDE_CALL.set(outer);
    outcome.map_err(stop_reason_of_panic)
}

fn stop_reason_of_panic(payload: Box<dyn Any + Send>) -> StopReason {
    let payload = match payload.downcast::<StopReason>() {
        Ok(stopped) => return *stopped,
        Err(other) => other,
    };
    // `panic!` has a payload of one of these two types; `panic_any` may have any other.
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "a panic without words".to_string(),
        },
    };
    StopReason::Panic { message, place: PANIC_PLACE.take() }
}

/// Makes panics inside of a [`run_guarded_call`] silent, because the result has their message, and notes their file and
/// line. Other panics are reported as before.
///
/// A library should leave this to the program: the hook of panics is one for the whole process.
pub fn silence_call_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if INSIDE_CALL.get() {
                PANIC_PLACE.set(info.location().map(|l| format!("{}:{}", l.file(), l.line())));
            } else {
                before(info);
            }
        }));
    });
}
