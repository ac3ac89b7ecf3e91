//! Calls that end, whatever happens inside of them.

use crate::budget::within;
use crate::limits::Limits;
use crate::stopped::Stopped;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside of a call.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic inside of a call was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work` inside of limits. A limit that it passes, or a panic, ends it and is the answer.
///
/// `work` may not leave shared state half changed when it unwinds; what it owns is dropped.
///
/// # Errors
/// [`Stopped`].
pub fn call<T>(limits: Limits, work: impl FnOnce() -> T) -> Result<T, Stopped> {
    let outer = INSIDE.replace(true);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| within(limits, work)));
    INSIDE.set(outer);
    outcome.map_err(why)
}

fn why(payload: Box<dyn Any + Send>) -> Stopped {
    let payload = match payload.downcast::<Stopped>() {
        Ok(stopped) => return *stopped,
        Err(other) => other,
    };
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "a panic without words".to_string(),
        },
    };
    Stopped::Panic { message, place: PLACE.take() }
}

/// Makes panics inside of a [`call`] silent, as their words are in the answer, and notes where they
/// were. Other panics are reported as before.
///
/// A library should leave this to the program: the hook of panics is one for the whole process.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if INSIDE.get() {
                PLACE.set(info.location().map(|l| format!("{}:{}", l.file(), l.line())));
            } else {
                before(info);
            }
        }));
    });
}
