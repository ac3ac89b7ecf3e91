use super::*;
use crate::cores::RunningThreads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::thread::{ThreadId, current};

/// The thread that ran each piece; every piece is run once.
fn doers(
    crew: &'static ThreadCrew,
    threads: usize,
    pieces: usize,
    inside: impl Fn(usize) + Sync,
) -> Vec<ThreadId> {
    let doers: Vec<Mutex<Vec<ThreadId>>> = (0..pieces).map(|_| Mutex::default()).collect();
    crew.share_with_helpers(threads, pieces, 1, &|range| {
        for piece in range {
            inside(piece);
            doers[piece].lock().expect("no thread panics").push(current().id());
        }
    });
    let one = |doers: Mutex<Vec<ThreadId>>| match doers.into_inner().expect("no thread panics")[..]
    {
        [one] => one,
        ref other => panic!("a piece was done by {other:?}"),
    };
    doers.into_iter().map(one).collect()
}

#[test]
fn every_piece_runs_once() {
    insist_on_helpers(|| {
        for (threads, pieces) in
            [(1, 0), (4, 0), (0, 3), (1, 3), (2, 1), (2, 2), (3, 7), (300, 300), (4, 5000)]
        {
            assert_eq!(doers(&CREW, threads, pieces, |_| ()).len(), pieces);
        }
    });
    // Also with as many helpers as the machine has cores for.
    assert_eq!(doers(&CREW, 8, 1000, |_| ()).len(), 1000);
}

#[test]
fn ranges_are_all_pieces_once_and_shrink_towards_the_end() {
    for (threads, pieces, together) in
        [(1, 5, 3), (2, 0, 4), (2, 1, 4), (2, 100, 8), (3, 17, 100), (7, 1000, 4), (4, 64, 0)]
    {
        let taken = Mutex::new(Vec::new());
        insist_on_helpers(|| {
            share_piece_ranges(threads, pieces, together, &|range| {
                taken.lock().expect("no thread panics").push(range);
            });
        });
        let mut taken = taken.into_inner().expect("no thread panics");
        taken.sort_by_key(|range| range.start);
        let all: Vec<usize> = taken.iter().cloned().flatten().collect();
        assert_eq!(all, (0..pieces).collect::<Vec<_>>());
        if threads > 1 && pieces > 1 {
            assert!(taken.iter().all(|range| range.len() <= together.max(1)), "{taken:?}");
            assert!(taken.is_sorted_by_key(|range| std::cmp::Reverse(range.len())), "{taken:?}");
            assert_eq!(taken.last().map(Range::len), Some(1));
        }
    }
}

#[test]
fn helpers_help() {
    static QUIET: ThreadCrew = ThreadCrew::new(CoreOutlook::new(|| None));
    QUIET.insist_while_running(|| {
        // Each piece waits until another thread has begun one; the caller gives up after a while, for a machine
        // that has no more threads.
        let come = AtomicUsize::new(0);
        let begin = Instant::now();
        let doers = doers(&QUIET, 2, 2, |_| {
            come.fetch_add(1, Ordering::Relaxed);
            while come.load(Ordering::Relaxed) < 2 && begin.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
        });
        assert_ne!(doers[0], doers[1]);
    });
}

#[test]
fn a_caller_does_not_wait_for_helpers_that_have_not_begun_a_piece() {
    static HELD: ThreadCrew = ThreadCrew::new(CoreOutlook::new(|| None));
    HELD.insist_while_running(|| {
        HELD.outlook.held.store(true, Ordering::Relaxed);
        for pieces in [2, 3, 100] {
            let doers = doers(&HELD, 3, pieces, |_| ());
            assert_eq!(doers, vec![current().id(); pieces]);
        }
        // The helpers find no piece, and wait for the next call.
        HELD.outlook.held.store(false, Ordering::Relaxed);
        assert_eq!(doers(&HELD, 3, 100, |_| ()).len(), 100);
        let started = HELD.idle.lock().expect("no thread panics").started_threads();
        assert!(started <= 2, "{started} threads for two helpers");
    });
}

#[test]
fn no_helper_is_called_where_the_cores_are_taken() {
    static BUSY: ThreadCrew =
        ThreadCrew::new(CoreOutlook::new(|| Some(RunningThreads { threads: 9, cores: 2 })));
    let doers = doers(&BUSY, 64, 100, |_| ());
    assert_eq!(doers, vec![current().id(); 100]);
    assert_eq!(BUSY.idle.lock().expect("no thread panics").started_threads(), 0);
}

#[test]
fn helpers_leave_where_others_come_and_come_again() {
    /// The caller runs, then eight others as well, then the caller alone.
    static OTHERS: AtomicUsize = AtomicUsize::new(0);
    static CHANGING: ThreadCrew = ThreadCrew::new(CoreOutlook::new(|| {
        let ours = CHANGING.outlook.awake.load(Ordering::Relaxed);
        Some(RunningThreads { threads: 1 + ours + OTHERS.load(Ordering::Relaxed), cores: 2 })
    }));
    if available_cores() < 2 {
        return;
    }
    let (caller, helped) = (current().id(), AtomicUsize::new(0));
    // Waits until a helper has begun, because the machine may be busy.
    let meet = |after: usize| {
        let begin = Instant::now();
        while helped.load(Ordering::Relaxed) <= after && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    let before_end = AtomicUsize::new(0);
    let doers = doers(&CHANGING, 2, 1200, |piece| {
        if current().id() != caller {
            helped.fetch_add(1, Ordering::Relaxed);
        }
        match piece {
            1 => meet(0),
            400 => OTHERS.store(8, Ordering::Relaxed),
            800 => {
                before_end.store(helped.load(Ordering::Relaxed), Ordering::Relaxed);
                OTHERS.store(0, Ordering::Relaxed);
            }
            1100 => meet(before_end.load(Ordering::Relaxed)),
            _ => {}
        }
        std::thread::sleep(Duration::from_micros(100));
    });
    let helped = |range: std::ops::Range<usize>| {
        doers[range].iter().filter(|id| **id != current().id()).count()
    };
    let (before, between, after) = (helped(0..400), helped(500..800), helped(800..1200));
    assert!(before > 0 && after > 0, "{before}, {between}, {after}");
    // A helper notices within a millisecond or so, which is a few pieces.
    assert!(between < 30, "{before}, {between}, {after}");
}

#[test]
fn calls_inside_of_calls_and_beside_them_end() {
    let ran = AtomicUsize::new(0);
    insist_on_helpers(|| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        share_pieces(3, 3, &|_| {
                            share_pieces(3, 3, &|_| {
                                ran.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
    });
    assert_eq!(ran.into_inner(), 4 * 200 * 9);
}

#[test]
fn a_panic_reaches_the_caller_after_the_others_and_the_threads_go_on() {
    insist_on_helpers(|| {
        for bad in 0..4 {
            let (ran, under_way) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                share_pieces(4, 4, &|piece| {
                    under_way.fetch_add(1, Ordering::Relaxed);
                    ran.fetch_add(1, Ordering::Relaxed);
                    let bad = piece == bad;
                    std::thread::sleep(Duration::from_micros(if bad { 0 } else { 300 }));
                    under_way.fetch_sub(1, Ordering::Relaxed);
                    assert!(!bad, "piece {piece}");
                });
            }));
            let cause = outcome.expect_err("a piece panicked");
            let text = cause.downcast_ref::<String>().expect("a message");
            assert_eq!(*text, format!("piece {bad}"));
            assert_eq!(under_way.into_inner(), 0);
            assert!((1..=4).contains(&ran.into_inner()));
        }
    });
    every_piece_runs_once();
}
