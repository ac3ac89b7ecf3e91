//! The number of cores that a process has, and of threads that run on them at the moment.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cores that this process may use: those that it is bound to, and no more than the time quota of its control group
/// is worth.
///
/// The answer follows a process that is bound to other cores later. The quota is read again only when the number of
/// these cores has changed.
pub fn available_cores() -> usize {
    /// Cores that the process was bound to when the quota was last read, and the result of that.
    static LAST_BOUND_CORES: AtomicUsize = AtomicUsize::new(usize::MAX);
    static LAST_AVAILABLE_CORES: AtomicUsize = AtomicUsize::new(1);
    let bound = bound_cores();
    if bound != LAST_BOUND_CORES.load(Ordering::Acquire) {
        // This reads the files of the control groups, which takes longer than many a move.
        let found = std::thread::available_parallelism().map_or(1, usize::from);
        LAST_AVAILABLE_CORES.store(found, Ordering::Relaxed);
        LAST_BOUND_CORES.store(bound, Ordering::Release);
    }
    LAST_AVAILABLE_CORES.load(Ordering::Relaxed)
}

/// Threads of the whole machine that run or wait for a core, this one among them.
///
/// None where the system does not report it, or where the process is bound to some of the cores: the count would
/// include threads that run on the others.
pub(crate) fn count_running_threads() -> Option<RunningThreads> {
    let cores = *ONLINE_CORES.get_or_init(online_cores);
    if bound_cores() < cores {
        return None;
    }
    Some(RunningThreads { threads: read_running_threads()?, cores })
}

/// Threads that run, and the cores of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunningThreads {
    pub(crate) threads: usize,
    pub(crate) cores: usize,
}

static ONLINE_CORES: OnceLock<usize> = OnceLock::new();

/// Cores that this thread is bound to; 0 where the system does not report it.
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

/// Cores of the machine that are online.
#[cfg(all(target_os = "linux", not(miri)))]
fn online_cores() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(usize::MAX)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn online_cores() -> usize {
    usize::MAX
}

/// The fourth field of `/proc/loadavg` (proc(5)): the threads that run, of all threads.
///
/// The file stays open, because opening it takes four times as long as reading it. A process that closes all its
/// descriptors may get another file under this one; [`parse_running_threads`] then finds no such line in it.
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

/// The running threads in a line of `/proc/loadavg`. The thread that reads it runs, so a count of 0 is refused.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has such a file"))]
fn parse_running_threads(text: &str) -> Option<usize> {
    let mut fields = text.split(' ');
    let averages = fields.by_ref().take(3).filter(|f| f.parse::<f64>().is_ok()).count();
    let (running, all) = fields.next()?.split_once('/')?;
    let (running, all): (usize, usize) = (running.parse().ok()?, all.parse().ok()?);
    (averages == 3 && (1..=all).contains(&running)).then_some(running)
}

/// Threads of this process, asleep ones among them; none where the system does not report it.
///
/// The directory `/proc/self/task` has one entry for each thread, and links as a directory of that many has. Its status
/// takes a microsecond, where reading `/proc/self/stat` takes nine, because that adds up the times of all threads.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn count_own_threads() -> Option<usize> {
    use std::os::unix::fs::MetadataExt;
    let links = std::fs::metadata("/proc/self/task").ok()?.nlink();
    // Two links are those of the directory itself.
    usize::try_from(links.checked_sub(2)?).ok().filter(|threads| *threads > 0)
}

/// What the system keeps about how this process began.
#[cfg(all(target_os = "linux", not(miri)))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStatus {
    /// Whether it is a copy of another process that has not begun a program of its own.
    forked: bool,
}

#[cfg(all(target_os = "linux", not(miri)))]
impl ProcessStatus {
    /// From `/proc/self/stat` (proc_pid_stat(5)).
    fn read() -> Option<ProcessStatus> {
        ProcessStatus::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The name of the program may hold any characters, so fields are counted from its last parenthesis on.
    fn parse(text: &str) -> Option<ProcessStatus> {
        /// `PF_FORKNOEXEC` of the kernel.
        const FORKED: u64 = 0x40;
        let flags: u64 = text.rsplit_once(") ")?.1.split(' ').nth(6)?.parse().ok()?;
        Some(ProcessStatus { forked: flags & FORKED != 0 })
    }

    /// Whether this process was begun as a program, so that every thread that its libraries know of is there. `false`
    /// where the system does not report it.
    pub(crate) fn is_original() -> bool {
        use std::sync::atomic::{AtomicU64, Ordering};
        /// The process that was asked for, and the answer in the lowest bit.
        static ANSWER: AtomicU64 = AtomicU64::new(0);
        let process = u64::from(std::process::id());
        let last = ANSWER.load(Ordering::Relaxed);
        if last >> 1 == process {
            return last & 1 == 1;
        }
        // Asked once for each process: a fork changes the number, and only the beginning of a program the answer.
        let original = ProcessStatus::read().is_some_and(|status| !status.forked);
        ANSWER.store(process << 1 | u64::from(original), Ordering::Relaxed);
        original
    }
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

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn the_status_of_a_process_is_read() {
        let status = ProcessStatus::read().expect("Linux has /proc");
        assert!(!status.forked && ProcessStatus::is_original(), "tests are begun as programs");
        let line = "7 (a) b (c)) S 1 7 7 0 -1 4194368 1 0";
        assert_eq!(ProcessStatus::parse(line), Some(ProcessStatus { forked: true }));
        let line = line.replace("4194368", "4194304");
        assert_eq!(ProcessStatus::parse(&line), Some(ProcessStatus { forked: false }));
        for text in ["", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 x 1 0 0 0"] {
            assert_eq!(ProcessStatus::parse(text), None, "{text}");
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn threads_of_the_process_are_counted() {
        // Other tests begin and end threads meanwhile, so the number is only bounded.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                });
            }
            let counted = count_own_threads();
            stop.store(true, Ordering::Relaxed);
            // A system without the count reports none, and teams are then found by experience alone.
            assert!(counted.is_none_or(|threads| (6..10_000).contains(&threads)), "{counted:?}");
        });
    }
}
