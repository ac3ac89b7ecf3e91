//! Streams: order, priorities, sticky errors, events, threads, and never a hang.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zellige_device::{CardStreams, DeviceError, StreamId};
use zellige_machine::SimulatedTime;

fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("a stream that exists")
}

fn failure() -> DeviceError {
    DeviceError::NoSuchCore { core: 40, count: 32 }
}

/// Runs a test in a thread of its own: a hang is a failure, not a test that never ends.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    if wait.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
    {
        panic!("hangs");
    }
    thread.join().expect("the test failed");
}

/// A log that jobs append to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn job(&self, text: &str) -> impl FnOnce() -> Result<(), DeviceError> + Send + 'static {
        let (log, text) = (self.clone(), text.to_owned());
        move || {
            log.0.lock().expect("jobs do not panic under it").push(text);
            Ok(())
        }
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().expect("jobs do not panic under it")).join(" ")
    }
}

/// Occupies the worker until told to go on.
fn plug(streams: &CardStreams, stream: u32) -> Sender<()> {
    let (go, wait): (Sender<()>, Receiver<()>) = channel();
    let (started, is_started) = channel();
    let job = move || {
        let _ = started.send(());
        let _ = wait.recv();
        Ok(())
    };
    streams.submit_job(id(stream), "plug", job).expect("a thread");
    is_started.recv().expect("the worker starts");
    go
}

#[test]
fn streams_are_first_in_first_out_and_priorities_go_first() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        let go = plug(&streams, 0);
        for (stream, text) in
            [(1, "low1"), (0, "mid1"), (33, "high1"), (32, "low2"), (64, "high2"), (33, "high3")]
        {
            streams.submit_job(id(stream), text, log.job(text)).unwrap();
        }
        go.send(()).unwrap();
        streams.synchronize_all().unwrap();
        assert_eq!(log.take(), "high1 high2 high3 mid1 low1 low2");
    });
}

#[test]
fn an_error_sticks_until_the_next_synchronize_of_its_stream() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        streams.submit_job(id(1), "good", log.job("before")).unwrap();
        streams.submit_job(id(1), "matmul", || Err(failure())).unwrap();
        streams.submit_job(id(1), "add", log.job("skipped")).unwrap();
        streams.submit_job(id(1), "add", || panic!("never runs")).unwrap();
        streams.submit_job(id(2), "other", log.job("other")).unwrap();
        streams.synchronize_stream(id(2)).unwrap();
        let error = streams.synchronize_stream(id(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stream 1: `matmul` failed: core 40 does not exist; cores are 0 to 31; the 2 \
             operations after it were skipped"
        );
        streams.synchronize_stream(id(1)).unwrap();
        streams.submit_job(id(1), "add", log.job("after")).unwrap();
        streams.synchronize_stream(id(1)).unwrap();
        assert_eq!(log.take(), "before other after");
    });
}

#[test]
fn synchronizing_all_raises_one_error_at_a_time_and_loses_none() {
    within_a_minute(|| {
        let streams = CardStreams::new(0);
        for stream in [40, 3] {
            streams.submit_job(id(stream), "op", || Err(failure())).unwrap();
        }
        let failed = |r: Result<(), DeviceError>| match r {
            Err(DeviceError::StreamFailed { stream, .. }) => Some(stream),
            _ => None,
        };
        let found: Vec<_> = (0..3).map(|_| failed(streams.synchronize_all())).collect();
        assert_eq!(found, [Some(3), Some(40), None]);
    });
}

#[test]
fn a_panic_is_an_error_and_the_worker_goes_on() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        streams.submit_job(StreamId::DEFAULT, "bad", || panic!("index {}", 7)).unwrap();
        let error = streams.synchronize_stream(StreamId::DEFAULT).unwrap_err();
        assert_eq!(error.to_string(), "stream 0: `bad` failed: panicked: index 7");
        streams.submit_job(StreamId::DEFAULT, "good", log.job("still there")).unwrap();
        streams.synchronize_stream(StreamId::DEFAULT).unwrap();
        assert_eq!(log.take(), "still there");
        let panicked = streams.run_job(StreamId::DEFAULT, || -> Result<(), _> { panic!("here") });
        assert_eq!(panicked.unwrap_err().kind(), "panicked");
        streams.synchronize_all().unwrap();
    });
}

#[test]
fn events_order_streams_whatever_their_priority() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        let go = plug(&streams, 5);
        streams.submit_job(id(1), "a", log.job("low")).unwrap();
        let event = streams.record_event(id(1), SimulatedTime::from_nanoseconds(10));
        streams.wait_for_event(id(50), &event).unwrap();
        streams.submit_job(id(50), "b", log.job("high")).unwrap();
        assert!(!event.query());
        go.send(()).unwrap();
        event.synchronize().unwrap();
        assert!(event.query());
        streams.synchronize_all().unwrap();
        assert_eq!(log.take(), "low high");
        let later = streams.record_event(id(2), SimulatedTime::from_nanoseconds(35));
        assert_eq!(event.elapsed_until(&later).unwrap(), SimulatedTime::from_nanoseconds(25));
        assert_eq!(
            later.elapsed_until(&event).unwrap_err().to_string(),
            "the first event is at 35.0 ns, after the second at 10.0 ns; swap them"
        );
        assert!(later.query(), "nothing was before it");
    });
}

#[test]
fn waiting_for_a_failed_stream_fails_and_says_why() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        streams.submit_job(id(1), "load", || Err(failure())).unwrap();
        let event = streams.record_event(id(1), SimulatedTime::ZERO);
        streams.wait_for_event(id(2), &event).unwrap();
        streams.submit_job(id(2), "use", log.job("used what was never written")).unwrap();
        let error = streams.synchronize_stream(id(2)).unwrap_err().to_string();
        assert_eq!(
            error,
            "stream 2: `wait for an event` failed: stream 1: `load` failed: core 40 does not \
             exist; cores are 0 to 31; the operation after it was skipped"
        );
        assert_eq!(event.synchronize().unwrap_err().kind(), "stream_failed");
        streams.synchronize_all().unwrap();
        assert_eq!(log.take(), "");
    });
}

#[test]
fn waits_that_would_be_circles_cannot_be_written_or_are_refused() {
    within_a_minute(|| {
        let streams = Arc::new(CardStreams::new(0));
        // Two streams that wait for each other again and again: each event is older than its wait.
        let (mut a, mut b) = (
            streams.record_event(id(1), SimulatedTime::ZERO),
            streams.record_event(id(40), SimulatedTime::ZERO),
        );
        for _ in 0..200 {
            streams.wait_for_event(id(1), &b).unwrap();
            streams.wait_for_event(id(40), &a).unwrap();
            streams.submit_job(id(1), "x", || Ok(())).unwrap();
            streams.submit_job(id(40), "y", || Ok(())).unwrap();
            (a, b) = (
                streams.record_event(id(1), SimulatedTime::ZERO),
                streams.record_event(id(40), SimulatedTime::ZERO),
            );
        }
        streams.wait_for_event(id(1), &a).unwrap();
        streams.synchronize_all().unwrap();

        let inner = streams.clone();
        let job = move || {
            inner.submit_job(id(3), "later", || Ok(()))?;
            assert_eq!(inner.run_job(id(3), || Ok(())).unwrap_err().kind(), "waits_for_itself");
            inner.synchronize_all()
        };
        streams.submit_job(id(2), "waits", job).unwrap();
        let error = streams.synchronize_stream(id(2)).unwrap_err().to_string();
        assert!(error.contains("cannot wait for stream 2 of the same card"), "{error}");
        streams.synchronize_all().unwrap();

        let other = CardStreams::new(1);
        assert_eq!(
            other.wait_for_event(id(0), &a).unwrap_err().to_string(),
            "an event of card 0 means nothing to card 1; synchronize it on the host, then submit"
        );
        assert!(a.elapsed_until(&other.record_event(id(0), SimulatedTime::ZERO)).is_err());
    });
}

#[test]
fn work_of_the_calling_thread_takes_its_turn() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        let slow = log.job("first");
        let job = move || {
            std::thread::sleep(Duration::from_millis(20));
            slow()
        };
        streams.submit_job(id(7), "slow", job).unwrap();
        // Borrowed data is fine, and the answer comes back.
        let mut seen = String::new();
        let answer = streams.run_job(id(7), || {
            seen = log.take();
            Ok(42)
        });
        assert_eq!((answer.unwrap(), seen.as_str()), (42, "first"));
        assert!(streams.run_job(id(7), || -> Result<(), _> { Err(failure()) }).is_err());
        streams.synchronize_stream(id(7)).unwrap();
        streams.submit_job(id(7), "bad", || Err(failure())).unwrap();
        let error = streams.run_job(id(7), || Ok(())).unwrap_err();
        assert_eq!(error.kind(), "stream_failed");
        assert_eq!(streams.run_job(id(7), || Ok(1)).unwrap(), 1);
    });
}

#[test]
fn dropping_finishes_the_work_even_from_within() {
    within_a_minute(|| {
        let (streams, log) = (CardStreams::new(0), Log::default());
        for _ in 0..10 {
            streams.submit_job(id(9), "x", log.job("x")).unwrap();
        }
        drop(streams);
        assert_eq!(log.take().len(), 19);

        // The last handle is dropped by the worker, in work that runs and in work that is skipped.
        for skipped in [false, true] {
            let streams = Arc::new(CardStreams::new(0));
            let go = plug(&streams, 1);
            if skipped {
                streams.submit_job(id(1), "bad", || Err(failure())).unwrap();
            }
            let (last, dropped) = (streams.clone(), Arc::new(AtomicBool::new(false)));
            let flag = SetOnDrop(dropped.clone());
            let job = move || {
                drop((last, flag));
                Ok(())
            };
            streams.submit_job(id(1), "last", job).unwrap();
            drop(streams);
            go.send(()).unwrap();
            while !dropped.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn what_skipped_work_holds_is_gone_when_its_stream_is_synchronized() {
    within_a_minute(|| {
        let streams = CardStreams::new(0);
        for _ in 0..200 {
            let held = Arc::new(AtomicBool::new(false));
            let flag = SetOnDrop(held.clone());
            streams.submit_job(id(1), "bad", || Err(failure())).unwrap();
            let job = move || {
                drop(flag);
                Ok(())
            };
            streams.submit_job(id(1), "holds", job).unwrap();
            assert!(streams.synchronize_stream(id(1)).is_err());
            assert!(held.load(Ordering::SeqCst));
        }
    });
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn threads_submit_synchronize_and_wait_at_once() {
    within_a_minute(|| {
        let streams = CardStreams::new(0);
        let ran = AtomicUsize::new(0);
        let ran = Arc::new(ran);
        let errors = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for t in 0..6_u32 {
                let (streams, ran, errors) = (&streams, &ran, &errors);
                scope.spawn(move || {
                    let last = Arc::new(AtomicU32::new(0));
                    for i in 0..300_u32 {
                        let (ran, last) = (ran.clone(), last.clone());
                        let job = move || {
                            // In order, whatever the other threads do.
                            assert_eq!(last.swap(i + 1, Ordering::SeqCst), i);
                            ran.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        };
                        streams.submit_job(id(10 * t + 1), "own", job).unwrap();
                        match i % 7 {
                            0 => {
                                let event = streams.record_event(id(i % 65), SimulatedTime::ZERO);
                                streams.wait_for_event(id(64), &event).unwrap();
                            }
                            3 => streams.run_job(id(63), || Ok(())).unwrap_or(()),
                            5 if i % 5 == 0 => {
                                streams
                                    .submit_job(id(60 + t % 2), "bad", || Err(failure()))
                                    .unwrap();
                                let failed = streams.synchronize_stream(id(60 + t % 2)).is_err();
                                errors.fetch_add(usize::from(failed), Ordering::SeqCst);
                            }
                            _ => {}
                        }
                    }
                    streams.synchronize_stream(id(10 * t + 1)).unwrap();
                });
            }
        });
        while streams.synchronize_all().is_err() {}
        assert_eq!(ran.load(Ordering::SeqCst), 6 * 300);
        assert!(errors.load(Ordering::SeqCst) > 0);
    });
}

#[test]
fn only_streams_0_to_64_exist() {
    assert_eq!(
        StreamId::new(65).unwrap_err().to_string(),
        "stream 65 does not exist; streams are 0 (default), 1 to 32 (low priority) and 33 to 64 \
         (high priority)"
    );
    assert!((0..65).all(|n| StreamId::new(n).unwrap().number() == n));
}
