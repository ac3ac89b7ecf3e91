//! Calls on the threads of an OpenMP runtime, in every situation that a process can be in with one.
//!
//! Each situation has a process of its own, because a runtime that was loaded once stays: the test begins its own
//! program again with the name of the situation.
#![cfg(all(target_os = "linux", not(miri)))]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zellige_host::crew::{self, ThreadPool, openmp_use, share_piece_ranges, share_pieces};

const SITUATION: &str = "ZELLIGE_TEST_SITUATION";

/// Runs `body` in a process of its own, whose only thread with Rust code at its beginning is that of the test.
fn in_own_process(name: &str, body: impl FnOnce()) {
    // The threads of the runtime sleep as soon as they have no work, so that tests leave cores to each other.
    in_own_process_waiting(name, "passive", body);
}

/// As [`in_own_process`], with a way for threads without work to wait: `passive` or `active`.
fn in_own_process_waiting(name: &str, policy: &str, body: impl FnOnce()) {
    if std::env::var(SITUATION).is_ok_and(|asked| asked == name) {
        return body();
    }
    if find_runtime_file().is_none() {
        // A machine that tests for others has to have a runtime; elsewhere there may be none to test with.
        assert!(
            std::env::var("CI").is_err(),
            "no OpenMP runtime to test with: install libgomp1, or name one by ZELLIGE_TEST_OPENMP"
        );
        eprintln!("{name}: not tested, because this machine has no OpenMP runtime");
        return;
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(SITUATION, name)
        // Four threads on any machine.
        .env("OMP_NUM_THREADS", "4")
        .env("OMP_WAIT_POLICY", policy)
        .env_remove(crew::POOL_VARIABLE)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}\n{out}\n{err}", done.status);
    assert!(out.contains("1 passed"), "{out}\n{err}");
}

/// The file of a runtime: that of a variable, or one that the system finds by name.
fn find_runtime_file() -> Option<CString> {
    let named = std::env::var("ZELLIGE_TEST_OPENMP").ok().and_then(|path| CString::new(path).ok());
    let usual = ["libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"];
    let all = named.into_iter().chain(usual.into_iter().filter_map(|name| CString::new(name).ok()));
    all.into_iter().find(|name| {
        // A file whose code can be loaded; it is closed again so that the process has none so far.
        let probe = Command::new(std::env::current_exe().unwrap())
            .args(["probe_of_a_runtime", "--exact", "--ignored"])
            .env("ZELLIGE_TEST_PROBE", name.to_str().unwrap())
            .output();
        probe.is_ok_and(|done| done.status.success())
    })
}

/// No test: the process in which a file is tried.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn probe_of_a_runtime() {
    let name = CString::new(std::env::var("ZELLIGE_TEST_PROBE").unwrap()).unwrap();
    assert!(Runtime::load(&name).is_some());
}

/// A runtime as another library of the process would use it.
struct Runtime {
    handle: *mut c_void,
    parallel: unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint),
    set_threads: unsafe extern "C" fn(c_int),
}

impl Runtime {
    fn load(name: &CStr) -> Option<Runtime> {
        // SAFETY: a runtime may be loaded at any time.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: the handle is open, or null, which no name is found in.
        let find = |name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
        if handle.is_null() || find(c"GOMP_parallel").is_null() {
            return None;
        }
        // SAFETY: the functions of these names have these types.
        unsafe {
            Some(Runtime {
                handle,
                parallel: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint),
                >(find(c"GOMP_parallel")),
                set_threads: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int)>(find(
                    c"omp_set_num_threads",
                )),
            })
        }
    }

    fn load_any() -> Runtime {
        let name = find_runtime_file().unwrap();
        Runtime::load(&name).unwrap()
    }

    fn set_threads(&self, threads: i32) {
        // SAFETY: it sets a variable of this thread.
        unsafe { (self.set_threads)(threads) }
    }

    /// Runs `work` on every thread of the team, as a parallel operation of another library does.
    fn run_region<F: Fn() + Sync>(&self, work: &F) {
        extern "C" fn member<F: Fn() + Sync>(work: *mut c_void) {
            // SAFETY: the region ends before the borrow does.
            unsafe { (*work.cast::<F>())() }
        }
        let work = std::ptr::from_ref(work).cast_mut().cast();
        // SAFETY: `work` may be called by several threads, and lives until the region ends.
        unsafe { (self.parallel)(member::<F>, work, 0, 0) }
    }

    /// The threads of the team.
    fn team(&self) -> HashSet<i32> {
        let all = Mutex::new(HashSet::new());
        self.run_region(&|| {
            all.lock().unwrap().insert(thread_id());
        });
        all.into_inner().unwrap()
    }

    fn close(self) {
        // SAFETY: nothing of it is used any more by this handle.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn thread_id() -> i32 {
    // SAFETY: it has no preconditions.
    unsafe { libc::gettid() }
}

/// The threads that ran pieces, each of which runs once and waits for another thread to come, for a moment.
fn threads_of_call(threads: usize, pieces: usize) -> HashSet<i32> {
    let ran: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
    let doers = Mutex::new(HashSet::new());
    let begin = Instant::now();
    share_pieces(threads, pieces, &|piece| {
        ran[piece].fetch_add(1, Ordering::Relaxed);
        doers.lock().unwrap().insert(thread_id());
        while doers.lock().unwrap().len() < threads.min(2)
            && begin.elapsed() < Duration::from_millis(500)
        {
            std::thread::yield_now();
        }
    });
    assert!(ran.iter().all(|n| n.load(Ordering::Relaxed) == 1), "{ran:?}");
    doers.into_inner().unwrap()
}

fn team_calls() -> u64 {
    openmp_use().map_or(0, |used| used.calls)
}

#[test]
fn a_call_runs_on_the_team_and_leaves_it_whole() {
    in_own_process("a_call_runs_on_the_team_and_leaves_it_whole", || {
        let runtime = Runtime::load_any();
        assert_eq!(openmp_use().map(|used| (used.threads, used.calls)), Some((4, 0)));
        let team = runtime.team();
        assert_eq!(team.len(), 4);
        ThreadPool::OpenMp.use_in_process();
        let doers = threads_of_call(4, 64);
        assert!(doers.is_subset(&team) && doers.len() > 1, "{doers:?} of {team:?}");
        // Fewer threads of the same team: none of it ends.
        let doers = threads_of_call(2, 64);
        assert!(doers.is_subset(&team) && doers.len() == 2, "{doers:?} of {team:?}");
        assert_eq!(runtime.team(), team);
        assert_eq!(team_calls(), 2);
        // And with our own threads as soon as that is asked for.
        ThreadPool::Own.use_in_process();
        let doers = crew::insist_on_helpers(|| threads_of_call(4, 64));
        assert_eq!(doers.intersection(&team).count(), 1, "the caller alone");
        assert_eq!(team_calls(), 2);
    });
}

/// `torch.set_num_threads` is this function of the runtime.
#[test]
fn the_number_of_threads_is_that_of_the_runtime() {
    in_own_process("the_number_of_threads_is_that_of_the_runtime", || {
        let runtime = Runtime::load_any();
        for pool in [ThreadPool::Auto, ThreadPool::OpenMp] {
            pool.use_in_process();
            runtime.set_threads(1);
            assert_eq!(openmp_use().unwrap().threads, 1);
            assert_eq!(threads_of_call(8, 100), HashSet::from([thread_id()]));
            runtime.set_threads(3);
            assert!(threads_of_call(8, 100).len() <= 3);
        }
        ThreadPool::OpenMp.use_in_process();
        runtime.set_threads(6);
        let doers = threads_of_call(6, 100);
        assert!((2..=6).contains(&doers.len()), "{doers:?}");
    });
}

#[test]
fn calls_inside_of_calls_and_of_regions_end() {
    in_own_process("calls_inside_of_calls_and_of_regions_end", || {
        let runtime = Runtime::load_any();
        for pool in [ThreadPool::OpenMp, ThreadPool::Auto, ThreadPool::Own] {
            pool.use_in_process();
            let ran = AtomicUsize::new(0);
            for _ in 0..20 {
                share_pieces(4, 5, &|_| {
                    share_piece_ranges(4, 7, 2, &|range| {
                        ran.fetch_add(range.len(), Ordering::Relaxed);
                    });
                });
                // A region of another library, each of whose members calls us.
                runtime.run_region(&|| {
                    share_pieces(4, 3, &|_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
            assert_eq!(ran.into_inner(), 20 * (5 * 7 + 4 * 3));
        }
        // In a region a call keeps to its thread, whose team has work already.
        ThreadPool::Auto.use_in_process();
        runtime.run_region(&|| {
            assert_eq!(threads_of_call(1, 10), HashSet::from([thread_id()]));
            let strangers = AtomicUsize::new(0);
            let own = thread_id();
            share_pieces(4, 10, &|_| {
                strangers.fetch_add(usize::from(thread_id() != own), Ordering::Relaxed);
            });
            assert_eq!(strangers.into_inner(), 0);
        });
    });
}

#[test]
fn calls_of_several_threads_at_once_end() {
    in_own_process("calls_of_several_threads_at_once_end", || {
        let runtime = Runtime::load_any();
        for pool in [ThreadPool::OpenMp, ThreadPool::Auto] {
            pool.use_in_process();
            let ran = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..6 {
                    scope.spawn(|| {
                        for _ in 0..50 {
                            share_pieces(4, 9, &|_| {
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                }
                for _ in 0..50 {
                    runtime.run_region(&|| ());
                }
            });
            assert_eq!(ran.into_inner(), 6 * 50 * 9);
        }
        assert!(team_calls() > 0);
    });
}

#[test]
fn a_forked_process_uses_threads_of_its_own() {
    in_own_process("a_forked_process_uses_threads_of_its_own", || {
        let runtime = Runtime::load_any();
        assert_eq!(runtime.team().len(), 4);
        ThreadPool::OpenMp.use_in_process();
        threads_of_call(4, 40);
        let before = team_calls();
        in_forked_copy(|| {
            // The team of the parent is not here: waiting for it would never end.
            for pool in [ThreadPool::OpenMp, ThreadPool::Auto] {
                pool.use_in_process();
                threads_of_call(4, 40);
            }
            in_forked_copy(|| {
                threads_of_call(4, 40);
            });
            assert_eq!(team_calls(), before);
        });
        // The parent goes on as before.
        threads_of_call(4, 40);
        assert_eq!(team_calls(), before + 1);
    });
}

/// Runs `body` in a forked copy of this process, which is killed after half a minute.
fn in_forked_copy(body: impl FnOnce()) {
    // SAFETY: the copy has this thread alone; what it calls takes no lock that another thread may have held, but for
    // that of the allocator, which the system's library keeps usable.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: it has no preconditions.
        unsafe { libc::alarm(30) };
        let good = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: it ends the copy at once, without the destructors of the runtime, which belong to the parent.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and the status is written.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
}

#[test]
fn a_runtime_that_is_loaded_later_is_found() {
    in_own_process("a_runtime_that_is_loaded_later_is_found", || {
        ThreadPool::OpenMp.use_in_process();
        threads_of_call(4, 40);
        assert_eq!(openmp_use(), None);
        let runtime = Runtime::load_any();
        let doers = threads_of_call(4, 40);
        assert_eq!(team_calls(), 1);
        assert!(doers.is_subset(&runtime.team()), "{doers:?}");
    });
}

#[test]
fn a_runtime_that_is_closed_stays_until_the_end() {
    in_own_process("a_runtime_that_is_closed_stays_until_the_end", || {
        ThreadPool::OpenMp.use_in_process();
        // Closed before it was ever used: it is gone, or stays because it asks for that itself.
        Runtime::load_any().close();
        threads_of_call(4, 40);
        let runtime = Runtime::load_any();
        let team = runtime.team();
        let before = team_calls();
        assert!(threads_of_call(4, 40).is_subset(&team));
        assert_eq!(team_calls(), before + 1);
        runtime.close();
        let doers = threads_of_call(4, 40);
        assert!(doers.is_subset(&team), "{doers:?} of {team:?}");
        assert_eq!(team_calls(), before + 2);
    });
}

#[test]
fn a_panic_reaches_the_caller_and_not_the_runtime() {
    in_own_process("a_panic_reaches_the_caller_and_not_the_runtime", || {
        let runtime = Runtime::load_any();
        let team = runtime.team();
        ThreadPool::OpenMp.use_in_process();
        for bad in 0..8 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                share_pieces(4, 8, &|piece| assert!(piece != bad, "piece {piece}"));
            }));
            let cause = outcome.expect_err("a piece panicked");
            assert_eq!(*cause.downcast_ref::<String>().unwrap(), format!("piece {bad}"));
        }
        assert_eq!(team_calls(), 8);
        assert!(threads_of_call(4, 40).is_subset(&team));
        assert_eq!(runtime.team(), team);
    });
}

/// What is chosen by itself: the team right behind a region, whose threads spin.
#[test]
fn a_call_behind_a_region_runs_on_its_team() {
    in_own_process_waiting("a_call_behind_a_region_runs_on_its_team", "active", || {
        let cores = zellige_host::available_cores();
        let runtime = Runtime::load_any();
        runtime.set_threads(2);
        ThreadPool::Auto.use_in_process();
        let work = || {
            std::hint::black_box((0..10_000u64).sum::<u64>());
        };
        // A call has the team where every thread has a core, which takes a while on a machine that others use.
        let (begin, mut tries, mut free) = (Instant::now(), 0u32, 0u32);
        while team_calls() < 3 {
            runtime.run_region(&work);
            share_pieces(2, 8, &|_| work());
            tries += 1;
            free += u32::from(count_running_threads().is_none_or(|running| running <= cores));
            if cores < 2 || begin.elapsed() > Duration::from_secs(5) {
                // One core is never enough for two threads; more have to have been taken by others.
                assert!(cores < 2 || free < tries / 2, "{free} of {tries} calls had free cores");
                eprintln!("the cores of this machine were busy, so no call had the team");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// The threads of the machine that run or wait for a core.
fn count_running_threads() -> Option<usize> {
    let line = std::fs::read_to_string("/proc/loadavg").ok()?;
    line.split(' ').nth(3)?.split('/').next()?.parse().ok()
}
