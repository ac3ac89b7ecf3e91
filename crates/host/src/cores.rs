//! How many cores a process has, and how many of them are wanted at the moment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cores that this process may use: those it is bound to, and no more than its share of time is worth (the
/// quota of its control group).
///
/// A process that is bound to other cores later has those; the quota is that of the first call with as many.
pub fn available_cores() -> usize {
    /// Cores that it was bound to when it was last asked for the quota, and what came out.
    static LAST_BOUND_CORES: AtomicUsize = AtomicUsize::new(usize::MAX);
    static LAST_AVAILABLE_CORES: AtomicUsize = AtomicUsize::new(1);
    let bound = bound_cores();
    if bound != LAST_BOUND_CORES.load(Ordering::Acquire) {
        // It reads the files of the control groups, which takes longer than many a move.
        let found = std::thread::available_parallelism().map_or(1, usize::from);
        LAST_AVAILABLE_CORES.store(found, Ordering::Relaxed);
        LAST_BOUND_CORES.store(bound, Ordering::Release);
    }
    LAST_AVAILABLE_CORES.load(Ordering::Relaxed)
}

/// Threads of the whole machine that run or would run, this one among them.
///
/// Nothing where the system does not say so, or where the process is bound to some of the cores: who runs on
/// the others is of no account.
pub(crate) fn count_running_threads() -> Option<RunningThreads> {
    let cores = *ONLINE_CORES.get_or_init(online_cores);
    if bound_cores() < cores {
        return None;
    }
    Some(RunningThreads { threads: read_running_threads()?, cores })
}

/// Who runs on how many cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningThreads {
    pub(crate) threads: usize,
    pub(crate) cores: usize,
}

static ONLINE_CORES: OnceLock<usize> = OnceLock::new();

/// Cores that this thread is bound to; 0 where the system does not tell.
#[cfg(all(target_os = "linux", not(miri)))]
fn bound_cores() -> usize {
    // SAFETY: all zeros is a set of cores, the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for the length that is given.
    let done = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if done != 0 {
        return 0;
    }
    // SAFETY: it only reads the set.
    usize::try_from(unsafe { libc::CPU_COUNT(&set) }).unwrap_or(0)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn bound_cores() -> usize {
    0
}

/// Cores of the machine that are in use.
#[cfg(all(target_os = "linux", not(miri)))]
fn online_cores() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(usize::MAX)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn online_cores() -> usize {
    usize::MAX
}

/// The fourth field of `/proc/loadavg`: the threads that run, before those that there are.
///
/// The file stays open: opening it takes four times as long as reading it. Where somebody has closed it all
/// the same, what is read instead is not such a line.
#[cfg(all(target_os = "linux", not(miri)))]
fn read_running_threads() -> Option<usize> {
    use std::os::unix::fs::FileExt;
    static LOADAVG_FILE: OnceLock<Option<std::fs::File>> = OnceLock::new();
    let file = LOADAVG_FILE.get_or_init(|| std::fs::File::open("/proc/loadavg").ok()).as_ref()?;
    let mut text = [0u8; 80];
    let read = file.read_at(&mut text, 0).ok()?;
    parse_running_threads(std::str::from_utf8(&text[..read]).ok()?)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn read_running_threads() -> Option<usize> {
    None
}

/// Whoever asks runs, so a count of none is no answer.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has such a file"))]
fn parse_running_threads(text: &str) -> Option<usize> {
    let mut fields = text.split(' ');
    let averages = fields.by_ref().take(3).filter(|f| f.parse::<f64>().is_ok()).count();
    let (running, all) = fields.next()?.split_once('/')?;
    let (running, all): (usize, usize) = (running.parse().ok()?, all.parse().ok()?);
    (averages == 3 && (1..=all).contains(&running)).then_some(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_core_and_runs_on_it() {
        assert!(available_cores() >= 1);
        assert_eq!(available_cores(), std::thread::available_parallelism().map_or(1, usize::from));
        if let Some(now) = count_running_threads() {
            assert!(now.threads >= 1 && now.cores >= available_cores(), "{now:?}");
        }
    }

    #[test]
    fn running_threads_are_read() {
        assert_eq!(parse_running_threads("2.66 1.89 1.00 3/115 16834\n"), Some(3));
        for text in ["", "0.00 0.00 0.00 0/0 0\n", "a b c d e", "1 2 3 -1/5 6", "1 2 3 7"] {
            assert_eq!(parse_running_threads(text), None, "{text}");
        }
    }
}
