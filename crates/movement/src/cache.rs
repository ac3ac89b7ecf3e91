//! A cache of planned moves.

use crate::between::PaddingFill;
use crate::dtypes::MoveDtypes;
use crate::engine::{MoveError, Mover};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zellige_layout::Layout;

/// Movers by what they were planned from: both layouts, the shape, the elements, the fill.
///
/// It holds at most its capacity; a new move replaces the one of its set that was used least recently.
/// Threads share it: one waits for another only where their moves belong to the same set.
/// A hit compares the layouts as they are written, so two spellings of one layout are two entries.
///
/// ```
/// use zellige_float::Format;
/// use zellige_layout::StridedLayout;
/// use zellige_movement::{PaddingFill, PlanCache};
/// let cache = PlanCache::new(64);
/// let row = StridedLayout::new_contiguous(&[8, 6])?.to_layout()?;
/// let column = StridedLayout::new(&[8, 6], &[1, 8], 0)?.to_layout()?;
/// for _ in 0..3 {
///     let mover = cache.plan_or_reuse(&row, &column, &[8, 6], Format::F16, PaddingFill::Leave)?;
///     assert_eq!(mover.dst_bytes(), 96);
/// }
/// assert_eq!((cache.stats().hits, cache.stats().misses), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PlanCache {
    sets: Box<[Mutex<CacheSet>]>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Counts of the uses of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// Moves that were found.
    pub hits: u64,
    /// Moves that had to be planned, refused ones included.
    pub misses: u64,
    /// Moves that it holds.
    pub len: usize,
    /// Moves that it can hold.
    pub capacity: usize,
}

/// Entries whose hashes share their low bits, and a clock of their uses.
#[derive(Debug, Default)]
struct CacheSet {
    entries: Vec<CachedMover>,
    clock: u64,
}

#[derive(Debug)]
struct CachedMover {
    hash: u64,
    used: u64,
    key: MoveKey,
    mover: Arc<Mover>,
}

#[derive(Debug)]
struct MoveKey {
    src: Layout,
    dst: Layout,
    shape: Vec<i64>,
    dtypes: MoveDtypes,
    fill: PaddingFill,
}

/// Entries in a set.
const SET_WAYS: usize = 8;

impl PlanCache {
    /// A cache of about `capacity` moves: rounded up to whole sets.
    pub fn new(capacity: usize) -> PlanCache {
        let sets = capacity.div_ceil(SET_WAYS).max(1);
        PlanCache {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The mover of [`Mover::between`], planned at most once while it stays here.
    ///
    /// # Errors
    /// Those of [`Mover::between`], which are not kept: asking again plans again.
    pub fn plan_or_reuse(
        &self,
        src: &Layout,
        dst: &Layout,
        shape: &[i64],
        dtypes: impl Into<MoveDtypes>,
        fill: PaddingFill,
    ) -> Result<Arc<Mover>, MoveError> {
        let dtypes = dtypes.into();
        let hash = hash_move(src, dst, shape, dtypes, fill);
        let same = |e: &CachedMover| {
            let k = &e.key;
            e.hash == hash
                && k.dtypes == dtypes
                && k.fill == fill
                && k.shape == shape
                && k.src == *src
                && k.dst == *dst
        };
        if let Some(found) = self.lock_set_of(hash).find_entry(same) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(found);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        // Planned outside the lock, so that other moves of this set need not wait; at worst two threads plan the
        // same move.
        let mover = Arc::new(Mover::between(src, dst, shape, dtypes, fill)?);
        let mut set = self.lock_set_of(hash);
        if let Some(found) = set.find_entry(same) {
            return Ok(found);
        }
        let key =
            MoveKey { src: src.clone(), dst: dst.clone(), shape: shape.to_vec(), dtypes, fill };
        set.insert_entry(CachedMover { hash, used: 0, key, mover: Arc::clone(&mover) });
        Ok(mover)
    }

    /// Counts of its uses.
    pub fn stats(&self) -> CacheStats {
        let len = self.sets.iter().map(|s| lock_set(s).entries.len()).sum();
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            len,
            capacity: self.sets.len() * SET_WAYS,
        }
    }

    /// Forgets every move; the counts stay.
    pub fn forget_moves(&self) {
        for set in &self.sets {
            lock_set(set).entries.clear();
        }
    }

    fn lock_set_of(&self, hash: u64) -> MutexGuard<'_, CacheSet> {
        // The high half: the multiplications of the hash mix it best.
        let index = usize::try_from(hash >> 32).unwrap_or(0) % self.sets.len();
        lock_set(&self.sets[index])
    }
}

/// Locks a set, also one whose lock a panic has poisoned: it is consistent between any two statements.
fn lock_set(set: &Mutex<CacheSet>) -> MutexGuard<'_, CacheSet> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CacheSet {
    fn find_entry(&mut self, same: impl Fn(&CachedMover) -> bool) -> Option<Arc<Mover>> {
        self.clock += 1;
        let entry = self.entries.iter_mut().find(|e| same(e))?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.mover))
    }

    fn insert_entry(&mut self, mut entry: CachedMover) {
        entry.used = self.clock;
        if self.entries.len() < SET_WAYS {
            self.entries.push(entry);
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|e| e.used) {
            *oldest = entry;
        }
    }
}

/// A hash of the numbers of a move.
fn hash_move(
    src: &Layout,
    dst: &Layout,
    shape: &[i64],
    dtypes: MoveDtypes,
    fill: PaddingFill,
) -> u64 {
    // Names of axes are left to the comparison: moves that differ in these alone are rare. The hash need not resist
    // chosen keys, as the standard one does, because a collision costs a comparison and nothing else.
    // The multiplier is the golden ratio in 64 bits (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    let mut hash = 0u64;
    let mut add = |value: i64| {
        hash = (hash.rotate_left(5) ^ value.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    };
    for layout in [src, dst] {
        let tile = layout.tile();
        for it in tile.shard() {
            add(it.extent);
            add(it.stride);
        }
        // A separator: no extent is negative, so shard and replica cannot be mistaken for one another.
        add(-1);
        for it in tile.replica() {
            add(it.extent);
            add(it.stride);
        }
        for (_, value) in tile.offset() {
            add(*value);
        }
        if let Some(sw) = layout.swizzle() {
            add(i64::from(sw.affected_low_bits()) << 8 | i64::from(sw.per_element()));
        }
        for e in layout.window().map_or(&[][..], |w| w.dims()) {
            add(e.valid);
            add(e.padded);
        }
    }
    shape.iter().for_each(|n| add(*n));
    add(match dtypes {
        MoveDtypes::Bytes(width) => i64::try_from(width).unwrap_or(0),
        MoveDtypes::Formats { from, to } => (from as i64 + 1) << 8 | to as i64,
    });
    add(match fill {
        PaddingFill::Leave => 0,
        PaddingFill::Padding => 1,
        PaddingFill::Rest { len } => len.wrapping_add(2),
    });
    hash
}
