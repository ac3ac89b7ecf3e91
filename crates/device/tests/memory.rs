//! Memory against a plain model: a list of live ranges.

use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use zellige_device::memory::GRANULE_BYTES;
use zellige_device::{BlockGuards, DeviceError, DeviceMemory, MemoryBlock};
use zellige_machine::SegmentPurpose;
use zellige_machine::SegmentSpec;

const KIB: u64 = 1 << 10;

fn small(segments: u64, bytes: u64) -> DeviceMemory {
    let spec = |i| SegmentSpec { base: i * bytes, bytes, purpose: SegmentPurpose::Tensors };
    DeviceMemory::new(&(0..segments).map(spec).collect::<Vec<_>>()).expect("disjoint segments")
}

/// The holes between live blocks of one segment, by walking them.
fn holes(live: &[MemoryBlock], segment: usize, base: u64, bytes: u64) -> Vec<u64> {
    let mut taken: Vec<(u64, u64)> = live
        .iter()
        .filter(|b| b.segment() == Some(segment))
        .map(|b| (b.address(), (b.requested_bytes() as u64).next_multiple_of(GRANULE_BYTES)))
        .collect();
    taken.sort_unstable();
    let mut holes = Vec::new();
    let mut at = base;
    for (start, length) in taken {
        assert!(start >= at, "blocks overlap at {start:#x}");
        if start > at {
            holes.push(start - at);
        }
        at = start + length;
    }
    assert!(at <= base + bytes, "a block leaves its segment");
    if at < base + bytes {
        holes.push(base + bytes - at);
    }
    holes
}

/// Every statistic, counted again from the live blocks.
fn check(memory: &DeviceMemory, live: &[MemoryBlock], segments: u64, bytes: u64, peak: u64) {
    let stats = memory.stats();
    let asked: u64 = live.iter().map(|b| b.requested_bytes() as u64).sum();
    let taken: u64 =
        live.iter().map(|b| (b.requested_bytes() as u64).next_multiple_of(GRANULE_BYTES)).sum();
    assert_eq!((stats.allocated, stats.reserved, stats.peak), (asked, taken, peak));
    assert_eq!(stats.free, segments * bytes - taken);
    assert_eq!(stats.blocks, live.iter().filter(|b| b.requested_bytes() > 0).count());
    let (mut largest_all, mut sum_largest) = (0, 0);
    for (i, s) in stats.segments.iter().enumerate() {
        let holes = holes(live, i, i as u64 * bytes, bytes);
        let largest = holes.iter().copied().max().unwrap_or(0);
        assert_eq!((s.holes, s.largest_hole), (holes.len(), largest), "segment {i}");
        assert_eq!(s.free, holes.iter().sum::<u64>());
        largest_all = largest_all.max(largest);
        sum_largest += largest;
    }
    assert_eq!(stats.largest_hole, largest_all);
    let expected = if stats.free == 0 { 0.0 } else { 1.0 - sum_largest as f64 / stats.free as f64 };
    assert!((stats.fragmentation() - expected).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_allocations_agree_with_a_list_of_ranges(
        steps in prop::collection::vec((any::<bool>(), 0_usize..6000, any::<usize>()), 1..400),
    ) {
        let (segments, bytes) = (3, 32 * KIB);
        let memory = small(segments, bytes);
        let mut live: Vec<MemoryBlock> = Vec::new();
        let mut peak = 0;
        for (free, size, pick) in steps {
            if free && !live.is_empty() {
                live.swap_remove(pick % live.len());
            } else {
                match memory.alloc_block(size) {
                    Ok(block) => {
                        prop_assert!(block.address().is_multiple_of(GRANULE_BYTES));
                        prop_assert!(block.lock_for_read().iter().all(|b| *b == 0), "stale bytes");
                        block.lock_for_write().fill(0xA5);
                        live.push(block);
                    }
                    Err(DeviceError::OutOfMemory { asked, used, free, largest_hole, .. }) => {
                        prop_assert_eq!(asked, size as u64);
                        prop_assert_eq!(used + free, segments * bytes);
                        prop_assert!(asked > largest_hole, "refused although there is room");
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
            peak = peak.max(live.iter().map(|b| b.requested_bytes() as u64).sum());
            check(&memory, &live, segments, bytes, peak);
        }
        live.clear();
        check(&memory, &live, segments, bytes, peak);
        prop_assert!(memory.stats().segments.iter().all(|s| s.holes == 1));
    }
}

#[test]
fn an_empty_card_has_112_gib_for_tensors_and_one_segment_for_programs() {
    let memory = DeviceMemory::with_card_segments();
    let stats = memory.stats();
    assert_eq!((stats.capacity, stats.free, stats.blocks), (128 << 30, 128 << 30, 0));
    assert_eq!((stats.largest_hole, stats.fragmentation()), (16 << 30, 0.0));
    let program = memory.alloc_program(1000).unwrap();
    assert_eq!((program.address(), program.segment()), (0x1C_0000_0000, Some(7)));
    let whole = 16 << 30;
    let tensors: Vec<MemoryBlock> = (0..7).map(|_| memory.alloc_block(whole).unwrap()).collect();
    assert_eq!(tensors[6].address(), 6 << 34);
    // Blocks of 16 GiB are real: both ends can be touched, and nothing between exists.
    let mut bytes = tensors[6].lock_for_write();
    bytes[0] = 1;
    bytes[whole - 1] = 2;
    drop(bytes);
    let error = memory.alloc_block(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device memory: out of memory: asked 1 bytes; used 112 GiB, free 0 bytes, largest hole 0 \
         bytes; free tensors or ask for at most the largest hole"
    );
    drop(tensors);
    assert_eq!(memory.stats().reserved, 1024);
    assert_eq!(memory.stats().peak, (112 << 30) + 1000);
    memory.reset_peak();
    assert_eq!(memory.stats().peak, 1000);
}

#[test]
fn what_cannot_be_is_refused_with_the_limit() {
    let memory = DeviceMemory::with_card_segments();
    let error = memory.alloc_block(200_000_000_000).unwrap_err();
    assert_eq!(
        error.to_string(),
        "device memory: asked 186.26 GiB (200000000000 bytes), more than one allocation can take: \
         at most 16 GiB, as none spans two segments or two cores; split the tensor"
    );
    assert!(memory.alloc_block(usize::MAX).is_err());
    assert_eq!(
        memory.alloc_in(7, 128).unwrap_err().to_string(),
        "segment 7 (base 0x1c00000000) is reserved for programs; tensors go to segments 0 to 6"
    );
    assert_eq!(
        memory.alloc_in(8, 128).unwrap_err().to_string(),
        "segment 8 does not exist; segments are 0 to 7"
    );
    assert_eq!(memory.alloc_in(3, 1).unwrap().address(), 3 << 34);
    assert_eq!(small(1, 1024).alloc_program(1).unwrap_err().kind(), "no_program_segment");
    let tensors = SegmentPurpose::Tensors;
    for (base, bytes) in [(0, 0), (0, 100), (64, 128), (u64::MAX - 127, 256), (1024, 128)] {
        let first = SegmentSpec { base: 1024, bytes: 1024, purpose: tensors };
        let error = DeviceMemory::new(&[first, SegmentSpec { base, bytes, purpose: tensors }]);
        assert_eq!(error.unwrap_err().kind(), "bad_segment", "{base} {bytes}");
    }
    assert_eq!(memory.stats().blocks, 0);
}

#[test]
fn zero_bytes_take_nothing() {
    let memory = small(1, 128);
    let all = memory.alloc_block(128).unwrap();
    let none = memory.alloc_block(0).unwrap();
    assert_eq!((none.address(), none.requested_bytes(), none.segment()), (0, 0, None));
    assert!(none.lock_for_read().is_empty() && none.lock_for_write().is_empty());
    assert_eq!((memory.stats().blocks, memory.stats().reserved), (1, 128));
    drop((all, none));
    assert_eq!(memory.stats().free, 128);
}

#[test]
fn a_freed_byte_is_never_seen_again() {
    let memory = DeviceMemory::with_card_segments();
    for size in [1, 127, 128, 5000, 1 << 20, (2 << 20) + 1, 9 << 20] {
        for _ in 0..4 {
            let block = memory.alloc_block(size).unwrap();
            assert_eq!(block.address(), 0, "the same place every time");
            let guards = BlockGuards::lock_blocks(&[], &[&block]);
            let start = guards.write_pointer(&block);
            for at in 0..block.capacity() {
                // SAFETY: the block is locked for writing and has that many bytes.
                unsafe {
                    assert_eq!(start.add(at).read(), 0, "byte {at} of {size}");
                    start.add(at).write(0xFF);
                }
            }
        }
    }
}

#[test]
fn clones_share_a_block_and_the_last_one_frees_it() {
    let memory = small(1, 1024);
    let a = memory.alloc_block(100).unwrap();
    let b = a.clone();
    a.lock_for_write()[99] = 5;
    assert_eq!(a, b);
    drop(a);
    assert_eq!(memory.stats().blocks, 1);
    assert_eq!(b.lock_for_read()[99], 5);
    // A block outlives the handle of its memory.
    drop(memory);
    assert_eq!(b.lock_for_read()[99], 5);
}

#[test]
fn a_hundred_thousand_small_blocks_are_cheap() {
    let memory = DeviceMemory::with_card_segments();
    let start = std::time::Instant::now();
    let mut live: Vec<MemoryBlock> =
        (0..100_000).map(|i| memory.alloc_block(1 + i % 700).unwrap()).collect();
    assert_eq!(memory.stats().blocks, 100_000);
    live.retain(|b| b.id() % 2 == 0);
    live.clear();
    assert_eq!((memory.stats().blocks, memory.stats().fragmentation()), (0, 0.0));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn threads_share_a_memory_and_lock_in_any_order() {
    let memory = DeviceMemory::with_card_segments();
    let shared: Vec<MemoryBlock> = (0..4).map(|_| memory.alloc_block(8).unwrap()).collect();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for t in 0..4_usize {
            let (memory, shared, done) = (&memory, &shared, &done);
            scope.spawn(move || {
                for i in 0..2000_usize {
                    let own = memory.alloc_block(1 + (i * 37 + t) % 3000).unwrap();
                    assert!(own.lock_for_read().iter().all(|b| *b == 0));
                    own.lock_for_write().fill(0xEE);
                    // Both orders of the same two blocks, and one of them also read.
                    let (a, b) = (&shared[(i + t) % 4], &shared[(i * t) % 4]);
                    let guards = BlockGuards::lock_blocks(&[a, b], &[b, a, b]);
                    let at = guards.write_pointer(a).cast::<u64>();
                    // SAFETY: locked for writing, eight bytes, on a stick's boundary.
                    unsafe { at.write(at.read() + 1) };
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |b: &MemoryBlock| u64::from_ne_bytes(b.lock_for_read()[..8].try_into().unwrap());
    assert_eq!(shared.iter().map(count).sum::<u64>(), done.into_inner() as u64);
    assert_eq!(memory.stats().blocks, 4);
}

#[test]
fn a_panic_under_a_guard_leaves_the_block_usable() {
    let memory = small(1, 1024);
    let block = memory.alloc_block(8).unwrap();
    let other = block.clone();
    let panicked = std::thread::spawn(move || {
        let mut bytes = other.lock_for_write();
        bytes[0] = 1;
        panic!("inside");
    });
    assert!(panicked.join().is_err());
    assert_eq!(block.lock_for_read()[0], 1);
    block.lock_for_write()[0] = 2;
    assert_eq!(BlockGuards::lock_blocks(&[&block], &[]).locked_bytes(&block)[0], 2);
}

#[test]
fn cards_have_memories_of_their_own() {
    let (one, two) = (DeviceMemory::with_card_segments(), DeviceMemory::with_card_segments());
    let (a, b) = (one.alloc_block(64).unwrap(), two.alloc_block(64).unwrap());
    assert_eq!(a.address(), b.address());
    assert_ne!(a, b);
    a.lock_for_write().fill(1);
    let guards = BlockGuards::lock_blocks(&[&a], &[&b]);
    assert_eq!(guards.locked_bytes(&a)[0], 1);
    // SAFETY: locked for writing, 64 bytes.
    assert_eq!(unsafe { guards.write_pointer(&b).read() }, 0);
    assert_eq!((one.stats().blocks, two.stats().blocks), (1, 1));
}

#[test]
fn every_lock_for_writing_moves_the_stamp() {
    let memory = DeviceMemory::with_card_segments();
    let (a, b) = (memory.alloc_block(256).unwrap(), memory.alloc_block(256).unwrap());
    let fresh = a.write_stamp();
    assert_ne!(fresh, b.write_stamp(), "two blocks have no stamp in common");
    drop((a.lock_for_read(), BlockGuards::lock_blocks(&[&a, &b], &[])));
    assert_eq!(a.write_stamp(), fresh, "reading moves nothing");
    a.lock_for_write()[0] = 1;
    let once = a.write_stamp();
    assert_ne!(once, fresh);
    drop(BlockGuards::lock_blocks(&[&a], &[&b]));
    assert_eq!(a.write_stamp(), once, "another block was written");
    drop(BlockGuards::lock_blocks(&[&a], &[&a, &b]));
    assert_ne!(a.write_stamp(), once);
    assert_eq!(a.clone().write_stamp(), a.write_stamp(), "clones are the same block");
}

#[test]
fn memory_that_is_given_out_again_has_another_stamp() {
    let memory = DeviceMemory::with_card_segments();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..100 {
        let block = memory.alloc_block(512).unwrap();
        assert_eq!(block.address(), 0, "the same address every time");
        assert!(seen.insert(block.write_stamp()));
        block.lock_for_write()[0] = 1;
        assert!(seen.insert(block.write_stamp()));
    }
}
