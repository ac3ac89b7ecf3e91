//! The way through shared memory: an address for every element, such that neither side has bank conflicts.

use crate::error::{BlockError, Result};
use crate::fragment::{BlockFragment, THREADS_OF_WARP};
use crate::linear::conflict_free_columns;

/// Bytes that the banks of shared memory give in one wavefront: 32 banks of 4 bytes.
const WAVEFRONT_BYTES: usize = 128;
const BANKS: usize = 32;
/// The widest access of a thread.
const WIDEST_BYTES: usize = 16;

/// Where an element is in shared memory, by the number that the source or the destination gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedAddressing {
    /// The XOR of one number for every bit that is set: a change of basis, of which a swizzle is a special case.
    Linear {
        /// By bit of the number.
        columns: Vec<usize>,
    },
    /// Rows of `row` elements, with `padding` elements behind each.
    Padded {
        /// Elements of a row.
        row: usize,
        /// Elements behind a row that are not used.
        padding: usize,
    },
    /// `address ^ ((address >> shift) & mask)`, in elements.
    Swizzled {
        /// The distance of the bits that are read from those that are changed.
        shift: u32,
        /// The bits that are changed.
        mask: usize,
    },
}

impl SharedAddressing {
    /// The address of a number, in elements.
    pub fn address(&self, number: usize) -> usize {
        match self {
            SharedAddressing::Padded { row, padding } => number + number / row * padding,
            SharedAddressing::Swizzled { shift, mask } => number ^ (number >> shift & mask),
            SharedAddressing::Linear { columns } => {
                let bits = columns.iter().enumerate().filter(|(b, _)| number >> b & 1 == 1);
                bits.fold(0, |address, (_, column)| address ^ column)
            }
        }
    }
}

/// An order of the elements in shared memory, before padding or a swizzle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedOrder {
    /// The row-major order of the tensor.
    RowMajor,
    /// The registers of a thread of the source one after the other, thread after thread.
    Source,
    /// The same of the destination.
    Destination,
}

/// Accesses of one side: registers of every thread that one instruction moves, at adjacent addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedAccesses {
    /// Registers of an instruction.
    pub vector: usize,
    /// The first register of every instruction.
    pub firsts: Vec<usize>,
}

/// A round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPlan {
    /// The order of the elements.
    pub order: SharedOrder,
    /// How numbers in that order become addresses.
    pub addressing: SharedAddressing,
    /// What threads write.
    pub writes: SharedAccesses,
    /// What they read.
    pub reads: SharedAccesses,
    /// Wavefronts of all writes.
    pub write_wavefronts: usize,
    /// Wavefronts of all reads.
    pub read_wavefronts: usize,
    /// Wavefronts that the bytes of both sides take at least.
    pub least_wavefronts: usize,
    /// Bytes of shared memory.
    pub bytes: usize,
    /// By element, the address in elements.
    pub(crate) addresses: Vec<usize>,
}

impl SharedPlan {
    pub(crate) fn between(
        source: &BlockFragment,
        wanted: &BlockFragment,
        unit: usize,
    ) -> Result<SharedPlan> {
        let mut best: Option<SharedPlan> = None;
        let least_wavefronts = least_of(source, unit) + least_of(wanted, unit);
        let elements = usize::try_from(source.elements()).unwrap_or(0);
        for order in [SharedOrder::RowMajor, SharedOrder::Source, SharedOrder::Destination] {
            let numbers = match order {
                SharedOrder::RowMajor => (0..elements).collect(),
                SharedOrder::Source => number_by_registers(source, elements),
                SharedOrder::Destination => number_by_registers(wanted, elements),
            };
            let linear = match order {
                SharedOrder::RowMajor => linear_addressings(source, wanted, unit),
                _ => Vec::new(),
            };
            for addressing in linear.into_iter().chain(addressings(elements, unit)) {
                let addresses: Vec<usize> =
                    numbers.iter().map(|n| addressing.address(*n)).collect();
                let plan = count_plan(source, wanted, unit, order, addressing, addresses);
                let total = |p: &SharedPlan| {
                    let instructions = p.writes.firsts.len() + p.reads.firsts.len();
                    (p.write_wavefronts + p.read_wavefronts, instructions, p.bytes)
                };
                if best.as_ref().is_none_or(|b| total(&plan) < total(b)) {
                    best = Some(plan);
                }
            }
            // Nothing is below the bound, so the first plan that reaches it with the widest vectors is kept.
            if best
                .as_ref()
                .is_some_and(|b| b.write_wavefronts + b.read_wavefronts == least_wavefronts)
            {
                break;
            }
        }
        let mut plan = best.ok_or_else(|| BlockError::Route("there is nothing to move".into()))?;
        plan.least_wavefronts = least_wavefronts;
        Ok(plan)
    }

    /// The address of an element, in elements.
    pub fn address(&self, element: usize) -> usize {
        self.addresses.get(element).copied().unwrap_or(0)
    }
}

/// Changes of basis without conflicts, the widest vectors first.
fn linear_addressings(
    source: &BlockFragment,
    wanted: &BlockFragment,
    unit: usize,
) -> Vec<SharedAddressing> {
    let widest = (WIDEST_BYTES * 8 / unit).ilog2() as usize;
    let in_word = (32 / unit).ilog2() as usize;
    let columns = (0..=widest).rev().filter_map(|vector_bits| {
        // Of vectors of 16 bytes 8 lanes are served together, of 8 bytes 16, of less all 32.
        let lane_bits = 5 - vector_bits.saturating_sub(in_word);
        conflict_free_columns(source, wanted, vector_bits, in_word, lane_bits)
    });
    columns.map(|columns| SharedAddressing::Linear { columns }).collect()
}

/// Elements in the order of threads and registers; those that the fragment does not hold come last.
fn number_by_registers(fragment: &BlockFragment, elements: usize) -> Vec<usize> {
    let mut numbers = vec![usize::MAX; elements];
    let mut next = 0;
    for thread in 0..fragment.threads() {
        for register in 0..fragment.registers() {
            if let Some(element) = fragment.element(thread, register) {
                let number = &mut numbers[element as usize];
                if *number == usize::MAX {
                    *number = next;
                    next += 1;
                }
            }
        }
    }
    for number in numbers.iter_mut().filter(|n| **n == usize::MAX) {
        *number = next;
        next += 1;
    }
    numbers
}

/// Paddings behind rows, and swizzles of a few bits: both leave vectors of up to 16 bytes together.
fn addressings(elements: usize, unit: usize) -> Vec<SharedAddressing> {
    let mut list = vec![SharedAddressing::Padded { row: elements.max(1), padding: 0 }];
    let widest = WIDEST_BYTES * 8 / unit;
    for vector in (0..=widest.ilog2()).rev().map(|b| 1_usize << b) {
        // The bits above a vector are exchanged with those above a line of all banks.
        for bits in 1..=5_u32 {
            for shift in 1..=9_u32 {
                let mask = ((1_usize << bits) - 1) * vector;
                if shift >= bits && mask << shift < elements.next_power_of_two() {
                    list.push(SharedAddressing::Swizzled { shift, mask });
                }
            }
        }
        for row in (4..=10).map(|b| 1_usize << b).filter(|r| *r < elements && *r >= vector) {
            list.push(SharedAddressing::Padded { row, padding: vector });
        }
    }
    list
}

fn count_plan(
    source: &BlockFragment,
    wanted: &BlockFragment,
    unit: usize,
    order: SharedOrder,
    addressing: SharedAddressing,
    addresses: Vec<usize>,
) -> SharedPlan {
    let (writes, write_wavefronts) = count_side(source, unit, &addresses);
    let (reads, read_wavefronts) = count_side(wanted, unit, &addresses);
    let bytes = addresses.iter().max().map_or(0, |last| ((last + 1) * unit).div_ceil(8));
    SharedPlan {
        order,
        addressing,
        writes,
        reads,
        write_wavefronts,
        read_wavefronts,
        least_wavefronts: 0,
        bytes,
        addresses,
    }
}

/// The widest vectors that every thread can use, and their wavefronts.
fn count_side(
    fragment: &BlockFragment,
    unit: usize,
    addresses: &[usize],
) -> (SharedAccesses, usize) {
    let at = |thread: usize, register: usize| {
        fragment.element(thread, register).map(|e| addresses[e as usize])
    };
    let widest = WIDEST_BYTES * 8 / unit;
    let fits = |vector: usize| {
        fragment.registers().is_multiple_of(vector)
            && (0..fragment.threads()).all(|thread| {
                (0..fragment.registers()).step_by(vector).all(|first| {
                    let start = at(thread, first);
                    (0..vector).all(|i| match (start, at(thread, first + i)) {
                        // A vector is whole or left out: half of one would write what is not there.
                        (None, found) => found.is_none(),
                        (Some(start), Some(found)) => found == start + i,
                        (Some(_), None) => false,
                    }) && start.is_none_or(|start| start % vector == 0)
                })
            })
    };
    let vectors = (0..=widest.ilog2()).rev().map(|b| 1_usize << b);
    let vector = vectors.clone().find(|v| fits(*v)).unwrap_or(1);
    let firsts: Vec<usize> = (0..fragment.registers()).step_by(vector).collect();
    let bytes = (vector * unit).div_ceil(8);
    // Lanes that are served together: 8 of 16 bytes, 16 of 8 bytes, 32 of less.
    let together = (WAVEFRONT_BYTES / bytes.max(4)).min(THREADS_OF_WARP);
    let mut wavefronts = 0;
    for warp in 0..fragment.threads() / THREADS_OF_WARP {
        for first in &firsts {
            for group in (0..THREADS_OF_WARP).step_by(together) {
                let mut words: Vec<usize> = (group..group + together)
                    .filter_map(|lane| at(warp * THREADS_OF_WARP + lane, *first))
                    .flat_map(|start| {
                        let byte = start * unit / 8;
                        (byte / 4)..(byte + bytes).div_ceil(4)
                    })
                    .collect();
                words.sort_unstable();
                // The same word is read once and given to all; of writes one lane's value stays.
                words.dedup();
                let mut ways = [0_usize; BANKS];
                words.iter().for_each(|w| ways[w % BANKS] += 1);
                wavefronts += ways.into_iter().max().unwrap_or(0);
            }
        }
    }
    (SharedAccesses { vector, firsts }, wavefronts)
}

/// Wavefronts that the distinct bytes of every warp take.
fn least_of(fragment: &BlockFragment, unit: usize) -> usize {
    let warps = 0..fragment.threads() / THREADS_OF_WARP;
    warps
        .map(|warp| {
            let mut held: Vec<u32> = (0..THREADS_OF_WARP)
                .flat_map(|lane| {
                    let thread = warp * THREADS_OF_WARP + lane;
                    (0..fragment.registers()).filter_map(move |r| fragment.element(thread, r))
                })
                .collect();
            held.sort_unstable();
            held.dedup();
            (held.len() * unit).div_ceil(8).div_ceil(WAVEFRONT_BYTES)
        })
        .sum()
}
