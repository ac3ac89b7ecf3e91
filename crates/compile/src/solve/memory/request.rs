//! What is to be placed, checked once.

use crate::error::{CompileError, Result};
use std::collections::HashMap;
use std::ops::Range;

/// A buffer: how large, and which operations use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBuffer {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Numbers of the operations that use it, ascending; it lives from the first through the last.
    pub uses: Vec<u64>,
    /// Buffers that it may be written over, as they die where it begins.
    pub in_place_parents: Vec<String>,
    /// Whether its first use reads what was there before, so that no write is saved by placing it.
    pub first_use_is_read: bool,
}

impl LiveBuffer {
    /// A buffer that its first use writes.
    pub fn new(name: impl Into<String>, size: u64, uses: &[u64]) -> LiveBuffer {
        LiveBuffer {
            name: name.into(),
            size,
            uses: uses.to_vec(),
            in_place_parents: Vec::new(),
            first_use_is_read: false,
        }
    }

    /// The same, written over one of these where that helps.
    pub fn written_over(self, parents: &[&str]) -> LiveBuffer {
        LiveBuffer { in_place_parents: parents.iter().map(|p| (*p).into()).collect(), ..self }
    }
}

/// Buffers and the memory they share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRequest {
    limit: u64,
    alignment: u64,
    buffers: Vec<LiveBuffer>,
    lives: Vec<Range<u64>>,
    parents: Vec<Vec<usize>>,
}

impl MemoryRequest {
    /// Checks sizes, uses and in-place relations.
    ///
    /// # Errors
    /// Names that occur twice; buffers without uses or with uses out of order; parents that do not exist,
    /// are smaller than the child, or do not die where it begins; sums past 64 bits.
    pub fn new(limit: u64, alignment: u64, buffers: Vec<LiveBuffer>) -> Result<MemoryRequest> {
        if alignment == 0 {
            return Err(CompileError::BadAlignment { alignment: 0 });
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut lives = Vec::with_capacity(buffers.len());
        let mut total = 0_u64;
        for (i, b) in buffers.iter().enumerate() {
            let bad = |reason: &str| {
                Err(CompileError::BadBuffer { buffer: b.name.clone(), reason: reason.into() })
            };
            if names.insert(&b.name, i).is_some() {
                return bad("its name occurs twice; names are different");
            }
            let (Some(first), Some(last)) = (b.uses.first(), b.uses.last()) else {
                return bad("it has no uses; a buffer has at least one");
            };
            if b.uses.windows(2).any(|w| w[0] > w[1]) {
                return bad("its uses are not in ascending order");
            }
            let Some(end) = last.checked_add(1) else { return bad("its last use is past 64 bits") };
            lives.push(*first..end);
            // All addresses are below the sum of the rounded sizes, so that no later addition can overflow.
            let room = b.size.checked_add(alignment).and_then(|n| total.checked_add(n));
            total = room.ok_or_else(|| CompileError::Overflow {
                what: format!("the bytes of all buffers up to `{}`", b.name),
            })?;
        }
        let mut parents = Vec::with_capacity(buffers.len());
        for (i, b) in buffers.iter().enumerate() {
            let mut list: Vec<usize> = Vec::new();
            for name in &b.in_place_parents {
                let bad = |reason: String| {
                    let (child, parent) = (b.name.clone(), name.clone());
                    Err(CompileError::BadParent { child, parent, reason })
                };
                let Some(p) = names.get(name.as_str()).copied() else {
                    return bad("there is no buffer of that name".into());
                };
                if p == i || list.contains(&p) {
                    return bad("a parent is another buffer, named once".into());
                }
                let (child, parent) = (b.size, buffers[p].size);
                // A child reuses the address of its parent and needs no new bytes only if it is not larger.
                if child > parent {
                    return bad(format!(
                        "child.size must be <= parent.size, and {child} > {parent}"
                    ));
                }
                let (begins, dies) = (lives[i].start, lives[p].end - 1);
                // A parent whose first use reads it was there before that use, so that it may begin with the child.
                let before = lives[p].start < begins || buffers[p].first_use_is_read;
                if begins != dies || !before {
                    return bad(format!(
                        "the parent is last used by {dies} and the child first by {begins}; a \
                         parent lives before and dies at the child's first use"
                    ));
                }
                if b.first_use_is_read {
                    return bad(
                        "the child's first use is a read, and it would read the parent".into()
                    );
                }
                list.push(p);
            }
            parents.push(list);
        }
        Ok(MemoryRequest { limit, alignment, buffers, lives, parents })
    }

    /// Bytes of the memory.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What addresses are multiples of.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// The buffers.
    pub fn buffers(&self) -> &[LiveBuffer] {
        &self.buffers
    }

    /// The operations during which a buffer lives.
    pub fn live_range(&self, buffer: usize) -> Range<u64> {
        self.lives[buffer].clone()
    }

    /// The buffers that one may be written over.
    pub fn parents(&self, buffer: usize) -> &[usize] {
        &self.parents[buffer]
    }

    /// Where a buffer comes in the order of time: at one operation, what was there before comes first,
    /// so that parents come before their children.
    pub(super) fn time_order(&self, buffer: usize) -> (u64, bool) {
        (self.lives[buffer].start, !self.buffers[buffer].first_use_is_read)
    }

    pub(super) fn buffer_size(&self, buffer: usize) -> u64 {
        self.buffers[buffer].size
    }

    /// The next address that a buffer may have.
    pub(super) fn align_up(&self, address: u64) -> u64 {
        address.next_multiple_of(self.alignment)
    }

    /// Whether two buffers live at the same time and both have bytes.
    pub(super) fn are_live_together(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.lives[a], &self.lives[b]);
        x.start < y.end && y.start < x.end && self.buffer_size(a) > 0 && self.buffer_size(b) > 0
    }
}
