//! Device memory: an address space in segments, given out in sticks.
//!
//! Addresses are simulated: a segment's base plus an offset. Each block is backed by host memory
//! of its own, mapped when the block is made and touched page by page, so an empty card of
//! 128 GiB costs nothing, and a limit on the host's address space matters only to blocks that
//! exceed it. Host memory of freed blocks is kept for a while and zeroed before it is given out
//! again; only operations of this crate that write every byte of their result get it as it is.
//!
//! Laws: every address is a multiple of 128; no two live blocks overlap; no block spans segments; the same
//! requests in the same order get the same addresses.

mod allocator;
mod block;
mod pool;
mod segment;
mod stats;

pub use allocator::GRANULE_BYTES;
pub use block::{BlockGuards, BlockRead, BlockWrite, MemoryBlock, WriteStamp};
pub use stats::{MemoryStats, SegmentStats};

use self::pool::BackingPool;
use crate::error::{DeviceError, Result};
use segment::MemorySegment;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zellige_host::LazyMemory;
use zellige_machine::{Hardware, SegmentPurpose, SegmentSpec};

/// An address space. Clones are the same memory; blocks keep it alive.
#[derive(Clone)]
pub struct DeviceMemory(Arc<MemoryInner>);

#[derive(Debug)]
struct MemoryInner {
    state: Mutex<MemoryState>,
    pool: Mutex<BackingPool>,
}

#[derive(Debug)]
struct MemoryState {
    segments: Vec<MemorySegment>,
    peak: u64,
    peak_reserved: u64,
}

/// The addresses of one block.
#[derive(Debug, Clone, Copy)]
struct BlockRegion {
    segment: usize,
    address: u64,
    bytes: u64,
    rounded: u64,
}

impl DeviceMemory {
    /// A memory of these segments, all free.
    pub fn new(segments: &[SegmentSpec]) -> Result<DeviceMemory> {
        let segments = MemorySegment::from_specs(segments)?;
        let state = Mutex::new(MemoryState { segments, peak: 0, peak_reserved: 0 });
        Ok(DeviceMemory(Arc::new(MemoryInner { state, pool: Mutex::default() })))
    }

    /// The memory of a card: 112 GiB for tensors, 16 GiB for programs.
    pub fn with_card_segments() -> DeviceMemory {
        DeviceMemory::new(&Hardware::card_preset().address_segments())
            .expect("the card's segments are disjoint")
    }

    /// A block in the first segment for tensors that has room.
    pub fn alloc_block(&self, bytes: usize) -> Result<MemoryBlock> {
        let region = self.lock_state().take_any(SegmentPurpose::Tensors, bytes as u64)?;
        MemoryBlock::new(self.clone(), region)
    }

    /// A block in this segment, which must not be one for programs.
    pub fn alloc_in(&self, segment: usize, bytes: usize) -> Result<MemoryBlock> {
        let region = self.lock_state().take_in(segment, bytes as u64)?;
        MemoryBlock::new(self.clone(), region)
    }

    /// A block in this segment, called `place` in errors.
    pub(crate) fn alloc_at(
        &self,
        segment: usize,
        bytes: usize,
        place: impl FnOnce() -> String,
    ) -> Result<MemoryBlock> {
        let region = self.lock_state().take_first(&[segment], place, bytes as u64)?;
        MemoryBlock::new(self.clone(), region)
    }

    /// A block for a program, in the segment reserved for them.
    pub fn alloc_program(&self, bytes: usize) -> Result<MemoryBlock> {
        let region = self.lock_state().take_any(SegmentPurpose::Programs, bytes as u64)?;
        MemoryBlock::new(self.clone(), region)
    }

    /// The memory at this moment.
    pub fn stats(&self) -> MemoryStats {
        let state = self.lock_state();
        MemoryStats::from_segments(&state.segments, state.peak, state.peak_reserved)
    }

    /// Forgets the peaks: they begin again at what is allocated now.
    pub fn reset_peak(&self) {
        self.lock_state().reset_peak();
    }

    /// Gives host memory of freed blocks that is kept for later back to the system.
    pub fn trim_pool(&self) {
        let kept = self.lock_pool().drain_backings();
        drop(kept);
    }

    /// Host memory for a block.
    fn take_backing(&self, len: usize) -> Result<LazyMemory> {
        let kept =
            if BackingPool::may_serve(len) { self.lock_pool().take_backing(len) } else { None };
        // Kept memory is returned to the system first when the host has no more.
        pool::zeroed_backing(kept, len).or_else(|_| {
            self.trim_pool();
            pool::map_fresh(len)
        })
    }

    fn recycle_backing(&self, backing: LazyMemory) {
        // Freed after the lock is released, because freeing is a system call.
        let excess = self.lock_pool().keep_backing(backing);
        drop(excess);
    }

    fn lock_pool(&self) -> MutexGuard<'_, BackingPool> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_region(&self, region: &BlockRegion) {
        if region.rounded > 0 {
            let segment = &mut self.lock_state().segments[region.segment];
            segment.give_back(region.address, region.bytes, region.rounded);
        }
    }

    // No call-out happens while the state is locked, so a poisoned lock is still consistent.
    fn lock_state(&self) -> MutexGuard<'_, MemoryState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        write!(f, "Memory({} of {} bytes reserved)", stats.reserved, stats.capacity)
    }
}

impl MemoryState {
    fn take_any(&mut self, purpose: SegmentPurpose, bytes: u64) -> Result<BlockRegion> {
        let place = match purpose {
            SegmentPurpose::Programs => "program memory",
            SegmentPurpose::Tensors | SegmentPurpose::Scratchpad => "device memory",
        };
        let wanted: Vec<usize> = (0..self.segments.len())
            .filter(|i| self.segments[*i].spec.purpose == purpose)
            .collect();
        if wanted.is_empty() && purpose == SegmentPurpose::Programs {
            return Err(DeviceError::NoProgramSegment { place: "this memory".into() });
        }
        self.take_first(&wanted, || place.into(), bytes)
    }

    fn take_in(&mut self, segment: usize, bytes: u64) -> Result<BlockRegion> {
        let count = self.segments.len();
        let spec = match self.segments.get(segment) {
            Some(s) => s.spec,
            None => return Err(DeviceError::NoSuchSegment { segment, count }),
        };
        if spec.purpose == SegmentPurpose::Programs {
            return Err(DeviceError::ProgramSegment {
                segment,
                base: spec.base,
                accepted: self.tensor_segments(),
            });
        }
        self.take_first(&[segment], || format!("segment {segment}"), bytes)
    }

    /// Takes from the first of these segments that has room; `place` names them in errors.
    fn take_first(
        &mut self,
        wanted: &[usize],
        place: impl FnOnce() -> String,
        bytes: u64,
    ) -> Result<BlockRegion> {
        // A tensor without elements takes no address, so that any number of them fits.
        if bytes == 0 {
            return Ok(BlockRegion { segment: 0, address: 0, bytes: 0, rounded: 0 });
        }
        // A request that not even an empty memory could serve is another error than one for which something would
        // have to be freed.
        let limit = wanted.iter().map(|i| self.segments[*i].spec.bytes).max().unwrap_or(0);
        if bytes > limit {
            return Err(DeviceError::TooLarge { place: place(), asked: bytes, limit });
        }
        // `limit` is a multiple of the granule, so rounding up stays below it.
        // Every block begins with a stick, because the card transfers sticks.
        let rounded = bytes.next_multiple_of(GRANULE_BYTES);
        // The first that has room and not the fullest, so that addresses depend on the order of requests alone.
        for &segment in wanted {
            if let Some(address) = self.segments[segment].take_range(bytes, rounded) {
                let (allocated, reserved) = self.taken_bytes();
                self.peak = self.peak.max(allocated);
                self.peak_reserved = self.peak_reserved.max(reserved);
                return Ok(BlockRegion { segment, address, bytes, rounded });
            }
        }
        let sum = |f: fn(&MemorySegment) -> u64| wanted.iter().map(|i| f(&self.segments[*i])).sum();
        let largest = wanted.iter().map(|i| self.segments[*i].holes.largest_hole()).max();
        Err(DeviceError::OutOfMemory {
            place: place(),
            asked: bytes,
            used: sum(MemorySegment::reserved_bytes),
            free: sum(|s| s.holes.free_bytes()),
            largest_hole: largest.unwrap_or(0),
        })
    }

    /// Bytes that were requested for live blocks, and bytes that they take.
    fn taken_bytes(&self) -> (u64, u64) {
        let sum = |f: fn(&MemorySegment) -> u64| self.segments.iter().map(f).sum();
        (sum(|s| s.allocated), sum(MemorySegment::reserved_bytes))
    }

    fn reset_peak(&mut self) {
        (self.peak, self.peak_reserved) = self.taken_bytes();
        for segment in &mut self.segments {
            segment.peak = segment.allocated;
            segment.peak_reserved = segment.reserved_bytes();
        }
    }

    fn tensor_segments(&self) -> String {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (i, segment) in self.segments.iter().enumerate() {
            match runs.last_mut() {
                _ if segment.spec.purpose != SegmentPurpose::Tensors => {}
                Some(run) if run.end == i => run.end = i + 1,
                _ => runs.push(i..i + 1),
            }
        }
        let runs = runs.iter().map(|r| match r.len() {
            1 => format!("segment {}", r.start),
            _ => format!("segments {} to {}", r.start, r.end - 1),
        });
        runs.collect::<Vec<_>>().join(", ")
    }
}
