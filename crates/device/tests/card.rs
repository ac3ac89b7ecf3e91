//! Cards: times that follow from submissions, timelines, and several cards at once.

use proptest::prelude::*;
use zellige_device::{Card, CardSet, DeviceError, FloatMode, StreamId};
use zellige_machine::account::MemoryTraffic;
use zellige_machine::timeline::{TimelineTrack, chrome_trace};
use zellige_machine::{
    CardCollective, CoreWork, Hardware, OperationWork, SimulatedTime, Timeline, WorkKind,
};

fn id(number: u32) -> StreamId {
    StreamId::new(number).expect("a stream that exists")
}

/// Work of some cores, `nanoseconds` long on the ktir model.
fn busy(name: &str, cores: std::ops::Range<usize>, nanoseconds: u64) -> OperationWork {
    let each = CoreWork { sfu: 64 * nanoseconds, ..CoreWork::default() };
    let of = |i| if cores.contains(&i) { each.clone() } else { CoreWork::default() };
    OperationWork::new(name, WorkKind::Pointwise, (0..cores.end).map(of).collect())
}

#[test]
fn a_card_has_what_its_hardware_says() {
    let card = Card::new(3, Hardware::card_preset()).unwrap();
    assert_eq!((card.index(), card.core_count(), card.float_mode()), (3, 32, FloatMode::Dl16));
    assert_eq!(card.memory().stats().capacity, 128 << 30);
    assert_eq!(
        (card.lx_scratchpads().core_count(), card.lx_scratchpads().stats().capacity),
        (32, 64 << 20)
    );
    assert_eq!(format!("{card:?}"), "Card(3, card, dl16)");
    let limited = Card::builder().core_count(4).float_mode(FloatMode::Ieee).build().unwrap();
    assert_eq!((limited.core_count(), limited.float_mode()), (4, FloatMode::Ieee));
    assert_eq!(
        limited.run_work(id(0), &busy("add", 0..5, 1), || Ok(())).unwrap_err().to_string(),
        "`add` is divided over 5 cores; this card uses at most 4"
    );
    for cores in [0, 33] {
        let error = Card::builder().core_count(cores).build().unwrap_err().to_string();
        assert_eq!(error, format!("a card cannot use {cores} cores; accepted are 1 to 32"));
    }
    assert_eq!("ieee".parse::<FloatMode>().unwrap(), FloatMode::Ieee);
    assert_eq!(
        "fp16".parse::<FloatMode>().unwrap_err().to_string(),
        "unknown device mode `fp16`; accepted are `dl16` and `ieee`"
    );
}

#[test]
fn cards_of_a_process_are_numbered_and_separate() {
    let cards = CardSet::new(2, &Card::builder()).unwrap();
    assert_eq!(cards.get(2).unwrap_err().to_string(), "Device index 2 out of range [0, 2)");
    let (one, two) = (cards.get(0).unwrap(), cards.get(1).unwrap());
    assert_ne!(one, two);
    let _block = one.memory().alloc_block(1 << 20).unwrap();
    one.submit_work(id(0), &busy("a", 0..32, 10), || Ok(())).unwrap();
    assert_eq!((two.stats().memory.blocks, two.stats().operations), (0, 0));
    assert_eq!(two.stream_time(id(0)), SimulatedTime::ZERO);
    let event = one.record_event(id(0));
    assert_eq!(two.wait_for_event(id(0), &event).unwrap_err().kind(), "event_of_another_card");
    one.synchronize_all().unwrap();
}

#[test]
fn events_carry_simulated_time_between_streams() {
    let card = Card::new(0, Hardware::ktir_preset()).unwrap();
    let before = card.record_event(id(1));
    card.submit_work(id(1), &busy("a", 0..8, 100), || Ok(())).unwrap();
    let after = card.record_event(id(1));
    card.wait_for_event(id(2), &after).unwrap();
    let receipt = card.submit_work(id(2), &busy("b", 8..16, 10), || Ok(())).unwrap();
    assert_eq!(before.elapsed_until(&after).unwrap(), SimulatedTime::from_nanoseconds(100));
    assert_eq!(receipt.span.start, SimulatedTime::from_nanoseconds(100));
    assert_eq!(card.stats().end, SimulatedTime::from_nanoseconds(110));
    card.synchronize_all().unwrap();
    assert_eq!(card.stats().busy, SimulatedTime::from_nanoseconds(110));
}

#[test]
fn failed_work_is_raised_later_and_the_card_stays_usable() {
    let card = Card::new(0, Hardware::ktir_preset()).unwrap();
    let memory = card.memory().clone();
    let job = move || memory.alloc_block(usize::MAX).map(drop);
    card.submit_work(id(4), &busy("huge", 0..1, 1), job).unwrap();
    let error = card.synchronize_all().unwrap_err();
    assert!(matches!(error, DeviceError::StreamFailed { stream: 4, .. }), "{error}");
    assert_eq!(card.run_work(id(4), &busy("fine", 0..1, 1), || Ok(5)).unwrap(), 5);
}

#[test]
fn the_timeline_shows_cores_streams_transfers_and_memory() {
    let card =
        Card::builder().hardware(Hardware::ktir_preset()).trace_events(1000).build().unwrap();
    let _block = card.memory().alloc_block(4096).unwrap();
    let upload = CoreWork {
        host_in: 6300,
        writes: MemoryTraffic::from_bursts(128, 50),
        ..CoreWork::default()
    };
    card.run_work(id(0), &OperationWork::new("upload", WorkKind::Upload, vec![upload]), || Ok(()))
        .unwrap();
    card.run_work(id(0), &busy("add", 0..2, 10), || Ok(())).unwrap();
    card.run_work(id(40), &busy("mul", 1..3, 10), || Ok(())).unwrap();
    let timeline = card.recorded_timeline();
    let row = |track| -> Vec<(String, f64, f64)> {
        let events = timeline.events().iter().filter(|e| e.track == track);
        events
            .map(|e| (e.name.to_string(), e.start.nanoseconds(), e.end_time().nanoseconds()))
            .collect()
    };
    assert_eq!(row(TimelineTrack::Transfer), [("upload".into(), 0.0, 100.0)]);
    assert_eq!(
        row(TimelineTrack::Core(1)),
        [("add".into(), 100.0, 110.0), ("mul".into(), 110.0, 120.0)]
    );
    assert_eq!(row(TimelineTrack::Stream(40)), [("mul".into(), 110.0, 120.0)]);
    let json: serde_json::Value = serde_json::from_str(&timeline.to_chrome_trace()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let memory = events.iter().find(|e| e["name"] == "device memory").unwrap();
    assert_eq!(memory["args"]["value"], 4096);
    let both =
        chrome_trace(&[&timeline, &Card::builder().index(1).build().unwrap().recorded_timeline()]);
    assert!(both.contains("card 1: streams"));
    assert!(Card::new(0, Hardware::ktir_preset()).unwrap().recorded_timeline().events().is_empty());
}

#[test]
fn recordings_begin_and_end_while_the_card_works() {
    let card = Card::new(0, Hardware::ktir_preset()).unwrap();
    let add = |name: &str| card.run_work(id(0), &busy(name, 0..2, 10), || Ok(())).unwrap();
    add("before");
    card.start_recording(1, 100, Vec::new);
    add("a");
    card.start_recording(2, 6, || vec![("host", 7.into())]);
    add("b");
    let outer = card.stop_recording(1).unwrap();
    add("c");
    let inner = card.stop_recording(2).unwrap();
    add("after");
    let names = |t: &Timeline| -> Vec<String> {
        let streams = t.events().iter().filter(|e| e.track == TimelineTrack::Stream(0));
        streams.map(|e| format!("{} {}", e.name, e.args.iter().any(|a| a.0 == "host"))).collect()
    };
    // An operation of two cores is three events.
    assert_eq!(
        (names(&outer), outer.dropped_count()),
        (vec!["a false".into(), "b false".into()], 0)
    );
    // Three of six are there when `c` comes, so its cores are left out.
    assert_eq!((names(&inner), inner.dropped_count()), (vec!["b true".into(), "c true".into()], 2));
    assert_eq!(inner.events().len(), 4);
    assert_eq!((card.stop_recording(1), card.recorded_timeline().events().len()), (None, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_order_of_submissions_has_one_timeline(
        steps in prop::collection::vec(
            (0_u32..65, 0_usize..4, 1_usize..4, 0_u64..50, 0_usize..4), 1..60),
    ) {
        let run = |in_background: bool| {
            let card = Card::builder().hardware(Hardware::ktir_preset()).trace_events(100_000).build().unwrap();
            let mut events = vec![card.record_event(id(0))];
            for (i, (stream, first, cores, time, what)) in steps.iter().enumerate() {
                let stream = id(*stream);
                let work = busy("op", *first..first + cores, *time);
                match what {
                    0 => events.push(card.record_event(stream)),
                    1 => card.wait_for_event(stream, &events[i % events.len()]).unwrap(),
                    _ if in_background => {
                        let job = move || { std::thread::yield_now(); Ok(()) };
                        card.submit_work(stream, &work, job).unwrap();
                    }
                    _ => card.run_work(stream, &work, || Ok(())).unwrap(),
                }
            }
            card.synchronize_all().unwrap();
            card.recorded_timeline()
        };
        let timeline = run(true);
        prop_assert_eq!(timeline.find_overlap(), None);
        prop_assert_eq!(&timeline, &run(true));
        prop_assert_eq!(&timeline, &run(false));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&timeline.to_chrome_trace()).is_ok());
    }
}

#[test]
fn threads_share_a_card() {
    let card = Card::builder().trace_events(10_000).build().unwrap();
    std::thread::scope(|scope| {
        for t in 0..4_u32 {
            let card = &card;
            scope.spawn(move || {
                for i in 0..100_usize {
                    let block = card.memory().alloc_block(1 + i * 50).unwrap();
                    let work = busy("fill", 0..4, 5);
                    let job = move || {
                        block.lock_for_write().fill(1);
                        Ok(())
                    };
                    match i % 3 {
                        0 => card.run_work(id(t), &work, job).unwrap(),
                        _ => card.submit_work(id(t + 40), &work, job).map(drop).unwrap(),
                    }
                }
                card.synchronize_stream(id(t + 40)).unwrap();
            });
        }
    });
    card.synchronize_all().unwrap();
    let stats = card.stats();
    assert_eq!((stats.operations, stats.memory.blocks), (400, 0));
    assert_eq!(card.recorded_timeline().find_overlap(), None);
}

#[test]
fn an_exchange_waits_for_the_other_cards_and_for_the_link() {
    let card =
        Card::builder().hardware(Hardware::ktir_preset()).trace_events(1000).build().unwrap();
    card.run_work(id(0), &busy("add", 0..2, 10), || Ok(())).unwrap();
    let cost = Hardware::ktir_preset().collective_cost(CardCollective::AllReduce, 2, 6300);
    let at = |ns| SimulatedTime::from_nanoseconds(ns);
    let args = vec![("ranks", 2.into())];
    let span = card.account_exchange(id(0), "all_reduce", cost, at(25), &args);
    assert_eq!(
        (span.start, span.end),
        (at(25), at(125)),
        "6300 bytes at 63 GB/s, once another card is there"
    );
    let span = card.account_exchange(id(3), "all_reduce", cost, at(0), &args);
    assert_eq!((span.start, span.end), (at(125), at(225)), "there is one link");
    card.run_work(id(0), &busy("mul", 0..2, 10), || Ok(())).unwrap();
    assert_eq!(card.stream_time(id(0)), at(135), "what follows waits");
    assert_eq!((card.stats().operations, card.stats().busy), (4, at(220)));
    let timeline = card.recorded_timeline();
    assert_eq!(timeline.find_overlap(), None);
    let links = timeline.events().iter().filter(|e| e.track == TimelineTrack::Link);
    assert_eq!(links.count(), 2);
    let event = timeline.events().iter().find(|e| &*e.name == "all_reduce").unwrap();
    let said = |name: &str| event.args.iter().find(|a| a.0 == name).unwrap().1.clone();
    assert_eq!((said("bytes"), said("messages"), said("ranks")), (6300.into(), 2.into(), 2.into()));
    assert_eq!(said("waited us"), 0.015);
}
