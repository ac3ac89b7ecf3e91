//! Blocks: shared pieces of memory, and the locks that exclude threads from each other.

use super::{BlockRegion, DeviceMemory};
use crate::error::Result;
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use zellige_host::LazyMemory;

/// A piece of a memory. Clones share it; it is freed with the last one.
///
/// Fresh blocks read as zero. One operation locks all its blocks at once by [`BlockGuards::lock_blocks`]; a
/// thread that holds a guard of a block and locks the same block again waits for itself.
/// A panic while a guard is held leaves the bytes as they are and the block usable.
///
/// **Law**: between two equal results of [`MemoryBlock::write_stamp`] nothing has written the block. Every writer
/// needs a guard, and every guard for writing moves the counter, so no writer can forget to.
#[derive(Clone)]
pub struct MemoryBlock(Arc<BlockInner>);

/// A block at one moment: its number, and how often it was locked for writing until then.
///
/// Numbers of blocks are never used again, so memory that was freed and given out anew has another stamp even at the
/// same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteStamp {
    /// [`MemoryBlock::id`].
    pub block: u64,
    /// Guards for writing so far.
    pub writes: u64,
}

struct BlockInner {
    id: u64,
    memory: DeviceMemory,
    region: BlockRegion,
    backing: LazyMemory,
    lock: RwLock<()>,
    writes: AtomicU64,
}

impl Drop for BlockInner {
    fn drop(&mut self) {
        self.memory.release_region(&self.region);
        self.memory.recycle_backing(std::mem::take(&mut self.backing));
    }
}

impl MemoryBlock {
    /// A block of these addresses, all zeros.
    pub(super) fn new(memory: DeviceMemory, region: BlockRegion) -> Result<MemoryBlock> {
        static NEXT_BLOCK_ID: AtomicU64 = AtomicU64::new(1);
        let backing = match usize::try_from(region.rounded) {
            Ok(len) => memory.take_backing(len),
            Err(_) => Err(crate::DeviceError::HostMemory {
                asked: region.rounded,
                reason: "longer than an address of this machine".into(),
            }),
        };
        let backing = backing.inspect_err(|_| memory.release_region(&region))?;
        let id = NEXT_BLOCK_ID.fetch_add(1, Ordering::Relaxed);
        let (lock, writes) = (RwLock::new(()), AtomicU64::new(0));
        Ok(MemoryBlock(Arc::new(BlockInner { id, memory, region, backing, lock, writes })))
    }

    /// Its address on the device, a multiple of 128; 0 for a block of no bytes.
    pub fn address(&self) -> u64 {
        self.0.region.address
    }

    /// The requested bytes.
    pub fn requested_bytes(&self) -> usize {
        usize::try_from(self.0.region.bytes).expect("a block has host memory behind all its bytes")
    }

    /// The bytes it takes: [`MemoryBlock::requested_bytes`] rounded up to sticks. All of them may be touched.
    pub fn capacity(&self) -> usize {
        usize::try_from(self.0.region.rounded).expect("as above")
    }

    /// The segment that it is in; none for a block of no bytes.
    pub fn segment(&self) -> Option<usize> {
        (self.0.region.rounded > 0).then_some(self.0.region.segment)
    }

    /// A number that no other block of this process has or had.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Which block it is, and how often it was written. A cache of something that was computed from its bytes
    /// reads the stamp first and the bytes afterwards: a write in between then only costs a second computation.
    pub fn write_stamp(&self) -> WriteStamp {
        WriteStamp { block: self.0.id, writes: self.0.writes.load(Ordering::Acquire) }
    }

    /// The memory it is a piece of.
    pub fn memory(&self) -> &DeviceMemory {
        &self.0.memory
    }

    /// Waits for writers, and keeps them out while the guard lives.
    pub fn lock_for_read(&self) -> BlockRead<'_> {
        BlockRead { block: self, _guard: self.read_guard() }
    }

    /// Waits for everybody else, and keeps them out while the guard lives.
    pub fn lock_for_write(&self) -> BlockWrite<'_> {
        BlockWrite { block: self, _guard: self.write_guard() }
    }

    // The lock guards no invariant of ours that a panic could break: bytes are bytes.
    fn read_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.0.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_guard(&self) -> RwLockWriteGuard<'_, ()> {
        let guard = self.0.lock.write().unwrap_or_else(PoisonError::into_inner);
        // Inside the lock, and before the first byte changes: a reader that sees the old counter cannot have seen
        // bytes of this writer.
        self.0.writes.fetch_add(1, Ordering::Release);
        guard
    }

    fn start_pointer(&self) -> *mut u8 {
        self.0.backing.start_address()
    }
}

impl PartialEq for MemoryBlock {
    /// Whether both are the same piece of memory.
    fn eq(&self, other: &MemoryBlock) -> bool {
        self.id() == other.id()
    }
}

impl Eq for MemoryBlock {}

impl fmt::Debug for MemoryBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:#x}, {} bytes)", self.address(), self.requested_bytes())
    }
}

/// The bytes of a block, for reading.
pub struct BlockRead<'a> {
    block: &'a MemoryBlock,
    _guard: RwLockReadGuard<'a, ()>,
}

impl Deref for BlockRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block owns that many initialised bytes, and nobody writes them while the
        // read guard lives.
        unsafe {
            std::slice::from_raw_parts(self.block.start_pointer(), self.block.requested_bytes())
        }
    }
}

/// The bytes of a block, for writing.
pub struct BlockWrite<'a> {
    block: &'a MemoryBlock,
    _guard: RwLockWriteGuard<'a, ()>,
}

impl Deref for BlockWrite<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block owns that many initialised bytes, and the write guard is exclusive.
        unsafe {
            std::slice::from_raw_parts(self.block.start_pointer(), self.block.requested_bytes())
        }
    }
}

impl DerefMut for BlockWrite<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed mutably with the guard.
        unsafe {
            std::slice::from_raw_parts_mut(self.block.start_pointer(), self.block.requested_bytes())
        }
    }
}

/// Several blocks locked for one operation.
///
/// Locks are taken in the order of [`MemoryBlock::id`], which all threads share, so operations never wait
/// for each other in a circle. A block that is both read and written is taken for writing, once.
///
/// # Aliasing
/// Pointers are good for [`MemoryBlock::capacity`] bytes as long as the guards live. Of a block held for
/// writing, [`BlockGuards::read_pointer`] and [`BlockGuards::write_pointer`] are the same bytes: code that makes references of
/// them must ensure that no `&mut` range overlaps another live reference, on any thread.
pub struct BlockGuards<'a> {
    held: SmallVec<[(&'a MemoryBlock, HeldGuard<'a>); 4]>,
}

enum HeldGuard<'a> {
    Read { _guard: RwLockReadGuard<'a, ()> },
    Write { _guard: RwLockWriteGuard<'a, ()> },
}

impl<'a> BlockGuards<'a> {
    /// Locks all of them; a block may occur several times and in both lists.
    pub fn lock_blocks(reads: &[&'a MemoryBlock], writes: &[&'a MemoryBlock]) -> BlockGuards<'a> {
        let mut wanted: SmallVec<[(&'a MemoryBlock, bool); 8]> = SmallVec::new();
        wanted.extend(writes.iter().map(|b| (*b, true)));
        wanted.extend(reads.iter().map(|b| (*b, false)));
        // Stable: a block's writing entry stays before its reading one and survives `dedup`.
        wanted.sort_by_key(|(block, _)| block.id());
        wanted.dedup_by_key(|(block, _)| block.id());
        let held = wanted.into_iter().map(|(block, write)| {
            let held = if write {
                HeldGuard::Write { _guard: block.write_guard() }
            } else {
                HeldGuard::Read { _guard: block.read_guard() }
            };
            (block, held)
        });
        BlockGuards { held: held.collect() }
    }

    /// The first byte of a block in either list.
    ///
    /// # Panics
    /// If the block is in neither: that is a mistake of the caller, not of a user.
    pub fn read_pointer(&self, block: &MemoryBlock) -> *const u8 {
        assert!(self.find_held(block).is_some(), "{block:?} is not locked for this operation");
        block.start_pointer()
    }

    /// The first byte of a block in the list of writes.
    ///
    /// # Panics
    /// If it is not there.
    pub fn write_pointer(&self, block: &MemoryBlock) -> *mut u8 {
        let held = self.find_held(block);
        assert!(
            matches!(held, Some(HeldGuard::Write { .. })),
            "{block:?} is not locked for writing"
        );
        block.start_pointer()
    }

    /// The bytes of a block that is only read.
    ///
    /// # Panics
    /// If the block is not locked, or also locked for writing.
    pub fn locked_bytes(&self, block: &MemoryBlock) -> &[u8] {
        let held = self.find_held(block);
        assert!(
            matches!(held, Some(HeldGuard::Read { .. })),
            "{block:?} is not locked for reading only"
        );
        // SAFETY: the block owns that many initialised bytes, and the read guard that `self` holds
        // keeps writers out for as long as the result is borrowed.
        unsafe { std::slice::from_raw_parts(block.start_pointer(), block.requested_bytes()) }
    }

    fn find_held(&self, block: &MemoryBlock) -> Option<&HeldGuard<'a>> {
        self.held.iter().find(|(b, _)| *b == block).map(|(_, held)| held)
    }
}
