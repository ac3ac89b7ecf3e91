//! Functions of one 16-bit operand, by a table of what every code gives.
//!
//! **Law**: the entry of a code is what loading it, the function and storing the result give, so a result by the
//! table has the bits of one by the formula.
//!
//! A table has 65,536 entries, and making it takes as long as the function of so many numbers; a large tensor has
//! its results several times sooner then, whatever the function costs. Tables are kept for the next tensor.

use super::io::{ElementLoader, ElementStorer};
use std::sync::{Arc, Mutex, PoisonError};
use zellige_float::Format;
use zellige_math::FloatFunction;

/// Codes of 16 bits.
const CODE_COUNT: usize = 1 << 16;
/// Elements from which a table saves more time than it takes to make.
pub(crate) const MIN_TABLE_ELEMENTS: usize = 1 << 20;
/// Tables that are kept: 4 MiB.
const MAX_KEPT_TABLES: usize = 32;

/// What every code of a format gives.
#[derive(Debug, Clone)]
pub(crate) struct CodeTable(Arc<[u16]>);

/// A function between two formats.
type TableKey = (FloatFunction, Format, Format);

/// The tables in use, the latest last.
static KEPT_TABLES: Mutex<Vec<(TableKey, CodeTable)>> = Mutex::new(Vec::new());

impl CodeTable {
    /// The table of a function between these formats, where both have 16 bits and so many elements are worth it.
    pub(crate) fn for_function(
        f: FloatFunction,
        load: &ElementLoader<f32>,
        store: &ElementStorer<f32>,
        elements: usize,
    ) -> Option<CodeTable> {
        let key = (f, load.format(), store.format());
        let small = |format: Format| format.is_float() && format.byte_size() == 2;
        if elements < MIN_TABLE_ELEMENTS || !small(key.1) || !small(key.2) {
            return None;
        }
        // A table is whole before it is kept, so that a panic elsewhere leaves good ones.
        let lock = || KEPT_TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = lock().iter().find(|(k, _)| *k == key) {
            return Some(table.clone());
        }
        // Made without the lock: two threads may make the same table, which costs time, while a lock would stop
        // every other operation meanwhile.
        let table = CodeTable::new(f, load, store);
        let mut kept = lock();
        if kept.len() >= MAX_KEPT_TABLES {
            // The oldest goes: a program that alternates between more functions than this pays for each anew, but
            // memory stays bounded.
            kept.remove(0);
        }
        kept.push((key, table.clone()));
        Some(table)
    }

    fn new(f: FloatFunction, load: &ElementLoader<f32>, store: &ElementStorer<f32>) -> CodeTable {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        let (mut numbers, mut results) = (vec![0.0; CODE_COUNT], vec![0.0; CODE_COUNT]);
        let mut table = vec![0_u16; CODE_COUNT];
        // SAFETY: as many codes of 16 bits as numbers.
        unsafe { load.load_adjacent(codes.as_ptr().cast(), 0, &mut numbers) };
        f.apply_to_slices(&[&numbers], &mut results);
        // SAFETY: as above.
        unsafe { store.store_adjacent(table.as_mut_ptr().cast(), 0, &results) };
        CodeTable(table.into())
    }

    /// Looks up adjacent elements; the two ranges may be the same one.
    ///
    /// # Safety
    /// `count` elements are readable from `src` on and writable from `dst` on.
    pub(crate) unsafe fn look_up_codes(&self, src: *const u16, dst: *mut u16, count: usize) {
        // A slice of known length, so that a 16-bit index needs no check of bounds.
        let table = &self.0[..CODE_COUNT];
        for i in 0..count {
            // SAFETY: by the contract of this function.
            unsafe {
                let code = src.add(i).read_unaligned();
                dst.add(i).write_unaligned(table[usize::from(code)]);
            }
        }
    }
}
