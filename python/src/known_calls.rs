//! Calls of `relayout` that were made before, found by their arguments.
//!
//! A call is found before any layout is read or compared: a small move takes less time than that. The key holds what
//! decides about a move: shapes, strides, dtypes, which layouts, and what padding gets. It does not hold addresses of
//! memory, so that calls for new tensors of one form are one entry.

use crate::array::LibraryArray;
use pyo3::prelude::*;
use pyo3::types::PyString;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zellige_movement::PaddingValue;

/// The arguments of a call as numbers.
pub(crate) type CallKey = SmallVec<[i64; 48]>;

/// Layouts whose addresses are part of a key: nothing else gets these addresses while they are held.
pub(crate) type HeldLayouts = SmallVec<[Py<PyAny>; 2]>;

/// Calls that are kept; with one more, all are forgotten and prepared again.
const MAX_KNOWN_CALLS: usize = 4096;

/// What was prepared for calls, by their arguments.
pub(crate) struct KnownCalls<T> {
    calls: Mutex<CallTable<T>>,
}

type CallTable<T> = HashMap<CallKey, Arc<T>, BuildHasherDefault<KeyHasher>>;

impl<T> KnownCalls<T> {
    pub(crate) fn new() -> KnownCalls<T> {
        KnownCalls { calls: Mutex::default() }
    }

    /// The table, whose lock must not be held while Python code runs.
    fn lock_table(&self) -> MutexGuard<'_, CallTable<T>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find_call(&self, key: &CallKey) -> Option<Arc<T>> {
        self.lock_table().get(key).cloned()
    }

    pub(crate) fn keep_call(&self, key: CallKey, prepared: &Arc<T>) {
        let mut calls = self.lock_table();
        let all = if calls.len() < MAX_KNOWN_CALLS {
            CallTable::default()
        } else {
            std::mem::take(&mut *calls)
        };
        let one = calls.insert(key, Arc::clone(prepared));
        drop(calls);
        // Python objects go without the lock: their end may run any code.
        drop((all, one));
    }

    /// Runs something with the lock held, for tests of what a panic leaves behind.
    pub(crate) fn with_lock(&self, work: impl FnOnce()) {
        let _calls = self.lock_table();
        work();
    }
}

/// A hash of the numbers of a key. It need not resist chosen keys, as the standard one does, because whoever chooses
/// the tensors of a process has the process anyway; and it takes a tenth of the time for some thirty numbers.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // Tables use the low bits for the place and the high ones for a first comparison, and a product mixes upwards.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys are whole numbers of eight bytes; a remainder would be left to the comparison.
        for word in bytes.as_chunks::<8>().0 {
            self.write_u64(u64::from_ne_bytes(*word));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio in 64 bits (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// The key of a call, and the layouts that are recognised by their address.
pub(crate) fn call_key(
    from: &LibraryArray<'_>,
    layouts: [Option<&Bound<'_, PyAny>>; 2],
    out: Option<&LibraryArray<'_>>,
    choice: PaddingValue,
) -> PyResult<(CallKey, HeldLayouts)> {
    let (mut key, mut held) = (CallKey::new(), SmallVec::new());
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    key.push(from.device.index.into());
    for array in [Some(from), out] {
        let Some(array) = array else {
            key.push(-1);
            continue;
        };
        key.push(number(array.shape.len()));
        key.push(array.dtype as i64);
        key.extend_from_slice(&array.shape);
        key.extend_from_slice(&array.stride);
    }
    for layout in layouts {
        match layout {
            None => key.push(0),
            Some(value) => match value.cast::<PyString>() {
                Ok(text) => {
                    let text = text.to_str()?.as_bytes();
                    key.push(number(text.len()) + 1);
                    for chunk in text.chunks(8) {
                        let mut word = [0; 8];
                        word[..chunk.len()].copy_from_slice(chunk);
                        key.push(i64::from_le_bytes(word));
                    }
                }
                // Layouts do not change.
                Err(_) => {
                    key.extend_from_slice(&[-1, value.as_ptr() as i64]);
                    held.push(value.clone().unbind());
                }
            },
        }
    }
    key.extend_from_slice(&match choice {
        PaddingValue::Leave => [0, 0],
        PaddingValue::Zero | PaddingValue::Sum => [1, 0],
        PaddingValue::Max => [2, 0],
        PaddingValue::Min => [3, 0],
        PaddingValue::Integer(n) => [4, n],
        PaddingValue::Real(x) => [5, x.to_bits().cast_signed()],
    });
    Ok((key, held))
}
