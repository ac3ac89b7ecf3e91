//! Signals that stop the program.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Ends the program on a signal, without leaving half-written files behind.
///
/// The status is 128 and the number of the signal, as shells have it: 130 after Ctrl-C.
pub(crate) fn watch_signals() {
    // Without handlers a signal still ends the program, and only a temporary file stays.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let waiting = move || {
        if let Some(signal) = signals.forever().next() {
            // This thread may lock and allocate, which removing files needs and a signal handler must not do.
            zellige_files::remove_unfinished();
            std::process::exit(128 + signal);
        }
    };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(waiting);
}

/// Makes a file that passes the process's limit of size an error of the call that writes it. The signal would end
/// the program without a message.
pub(crate) fn survive_size_limits() {
    // If registering fails, the program ends as without it. The flag is never read, because the call reports the error.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}
