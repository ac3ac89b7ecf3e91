//! Which of the engine's main functions a run calls, in which order.
//!
//! ARCHITECTURE.md shows two runs as lists of functions. Such a list is only true as long as somebody compares it
//! with a run, so the functions that it names begin with [`record_call!`], and a test compares the recording of a
//! run with the list. With `ZELLIGE_CALLS=FILE` in the environment every process appends a line
//! `file function` to FILE when it first calls such a function; `ZELLIGE_CALLS=-` writes the lines to standard
//! error. Without the variable a recorded call costs one load and one branch. Even so it stays out of functions that
//! are called for every row or tile of a tensor: there the branch would be measurable.
//!
//! The name of the function is the one that the compiler gives to it, and the file the one that holds the macro:
//! neither is typed by hand, so neither can be stale.
//!
//! ```
//! fn plan_nests() {
//!     zellige_calls::record_call!();
//! }
//! plan_nests();
//! ```

#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable that names the file of the recording.
pub const RECORDING_VARIABLE: &str = "ZELLIGE_CALLS";

/// Records that the function around it was called.
#[macro_export]
macro_rules! record_call {
    () => {{
        // The type of a function item is named after the path to it, which goes through the function around it.
        fn marker() {}
        if $crate::may_be_recording() {
            $crate::record_marked_call(file!(), std::any::type_name_of_val(&marker));
        }
    }};
}

/// Where lines are written, and the functions that already have one.
struct CallRecording {
    sink: Box<dyn Write + Send>,
    recorded: HashSet<&'static str>,
}

/// The recording of this process; none unless the environment asks for one.
static RECORDING: OnceLock<Option<Mutex<CallRecording>>> = OnceLock::new();

/// Whether the environment may ask for a recording: true until somebody has looked.
static MAY_BE_RECORDING: AtomicBool = AtomicBool::new(true);

/// Whether a call has to be looked at. Use [`record_call!`].
#[inline(always)]
pub fn may_be_recording() -> bool {
    // Relaxed, because a thread that still sees `true` only asks `RECORDING`, which has the right answer.
    MAY_BE_RECORDING.load(Ordering::Relaxed)
}

/// Opens what the environment variable names. A file that cannot be opened is reported once, and the run goes on
/// without a recording: a diagnostic must not change what a program does.
fn open_recording() -> Option<Mutex<CallRecording>> {
    let target = std::env::var_os(RECORDING_VARIABLE).filter(|t| !t.is_empty())?;
    let sink: Box<dyn Write + Send> = if target == "-" {
        Box::new(std::io::stderr())
    } else {
        // Appended line by line, so that the lines of several processes, and of the Python around the engine, keep
        // the order in which they were written.
        match OpenOptions::new().create(true).append(true).open(&target) {
            Ok(file) => Box::new(file),
            Err(e) => {
                eprintln!("{RECORDING_VARIABLE}: {}: {e}", target.display());
                return None;
            }
        }
    };
    Some(Mutex::new(CallRecording { sink, recorded: HashSet::new() }))
}

/// Writes the line of a function that was called for the first time. Use [`record_call!`].
pub fn record_marked_call(file: &'static str, marker: &'static str) {
    let Some(recording) = RECORDING.get_or_init(open_recording) else {
        MAY_BE_RECORDING.store(false, Ordering::Relaxed);
        return;
    };
    let mut recording = recording.lock().unwrap_or_else(PoisonError::into_inner);
    // Only the first call of a function is written: a move of many slabs calls its copy thousands of times.
    if recording.recorded.insert(marker) {
        let line = format!("{file} {}\n", function_name(marker));
        // A full disk ends the recording, not the run.
        let _ = recording.sink.write_all(line.as_bytes());
    }
}

/// The name of the function that holds a marker, from the marker's path: `a::b::f::marker` is in `f`, and so is
/// `a::b::f::{{closure}}::marker`, since a closure has no name of its own.
fn function_name(marker: &str) -> &str {
    marker.rsplit("::").skip(1).find(|part| *part != "{{closure}}").unwrap_or(marker)
}

#[cfg(test)]
mod tests {
    use super::function_name;

    struct Recorder;

    impl Recorder {
        fn name_of_method() -> &'static str {
            fn marker() {}
            function_name(std::any::type_name_of_val(&marker))
        }
    }

    #[test]
    fn a_marker_names_the_function_around_it() {
        fn marker() {}
        assert_eq!(
            function_name(std::any::type_name_of_val(&marker)),
            "a_marker_names_the_function_around_it"
        );
        assert_eq!(Recorder::name_of_method(), "name_of_method");
        let in_a_closure = || {
            fn marker() {}
            function_name(std::any::type_name_of_val(&marker))
        };
        assert_eq!(in_a_closure(), "a_marker_names_the_function_around_it");
    }
}
