//! Which element every register of every thread holds.

use crate::error::{BlockError, Result};
use zellige_layout::Layout;

/// Threads that exchange values by shuffles.
pub const THREADS_OF_WARP: usize = 32;

/// Registers over all threads that are planned.
// A block has at most 1024 threads of 255 registers; a plan holds a few words for each.
pub const MAX_SLOTS: usize = 1 << 18;

/// A tensor in the registers of a thread block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockFragment {
    threads: usize,
    registers: usize,
    elements: i64,
    /// By thread, then register; none of a register that holds no element.
    slots: Vec<Option<u32>>,
}

impl BlockFragment {
    /// The fragment of a layout on the axes of threads (`laneid`, `warpid` or `wid_in_wg`, `tid`) and `m`, whose
    /// coordinate is the number of a register.
    ///
    /// Errors: another axis, a coordinate outside of a block, two elements in one register, with that element.
    pub fn from_layout(layout: &Layout) -> Result<BlockFragment> {
        let axes = layout.tile().axes();
        for axis in axes {
            if !matches!(axis.name(), "laneid" | "warpid" | "wid_in_wg" | "tid" | "m") {
                return Err(BlockError::UnknownAxis(axis.name().to_string()));
            }
        }
        if layout.size() > i64::try_from(MAX_SLOTS).unwrap_or(i64::MAX) {
            return Err(BlockError::TooLarge(layout.size().unsigned_abs().into()));
        }
        let mut held: Vec<(usize, usize, u32)> = Vec::new();
        for flat in 0..layout.size() {
            let element = u32::try_from(flat).unwrap_or(u32::MAX);
            for place in layout.physical_coordinates(flat)?.coordinate_rows() {
                let (mut thread, mut register) = (0_usize, 0_usize);
                for (axis, value) in axes.iter().zip(place) {
                    let outside = |accepted| BlockError::OutsideBlock {
                        element,
                        axis: axis.name().to_string(),
                        value: *value,
                        accepted,
                    };
                    let within = |most: usize, accepted| {
                        let number = usize::try_from(*value).ok().filter(|v| *v < most);
                        number.ok_or_else(|| outside(accepted))
                    };
                    match axis.name() {
                        "laneid" => {
                            thread += within(THREADS_OF_WARP, "a warp has lanes 0 to 31")?;
                        }
                        "tid" => thread += within(1024, "a block has threads 0 to 1023")?,
                        "m" => register += within(MAX_SLOTS, "registers are counted from 0")?,
                        _ => {
                            let warp = within(32, "a block has warps 0 to 31")?;
                            thread += warp * THREADS_OF_WARP;
                        }
                    }
                }
                held.push((thread, register, element));
                if held.len() > MAX_SLOTS {
                    return Err(BlockError::TooLarge(held.len() as u128));
                }
            }
        }
        // Whole warps: a shuffle is executed by all lanes of one.
        let last = held.iter().map(|(thread, _, _)| *thread).max().unwrap_or(0);
        let threads = (last / THREADS_OF_WARP + 1) * THREADS_OF_WARP;
        let registers = held.iter().map(|(_, register, _)| register + 1).max().unwrap_or(0);
        let slots = threads as u128 * registers as u128;
        if slots > MAX_SLOTS as u128 {
            return Err(BlockError::TooLarge(slots));
        }
        let mut fragment = BlockFragment {
            threads,
            registers,
            elements: layout.size(),
            slots: vec![None; threads * registers],
        };
        for (thread, register, element) in held {
            match fragment.slots[thread * registers + register].replace(element) {
                Some(other) if other != element => {
                    let (first, second) = (other.min(element), other.max(element));
                    return Err(BlockError::SharedRegister { thread, register, first, second });
                }
                _ => {}
            }
        }
        Ok(fragment)
    }

    /// Threads, a multiple of a warp's.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Registers of a thread, each of one element.
    pub fn registers(&self) -> usize {
        self.registers
    }

    /// Elements of the tensor.
    pub fn elements(&self) -> i64 {
        self.elements
    }

    /// The element of a register, if it holds one.
    pub fn element(&self, thread: usize, register: usize) -> Option<u32> {
        self.slots.get(thread * self.registers + register).copied().flatten()
    }

    /// The same tensor with every element cut into `parts` elements side by side.
    pub(crate) fn split_elements(&self, parts: usize) -> BlockFragment {
        let scale = u32::try_from(parts).unwrap_or(1);
        let slots = self.slots.iter().flat_map(|slot| {
            (0..scale).map(move |part| slot.map(|element| element * scale + part))
        });
        BlockFragment {
            threads: self.threads,
            registers: self.registers * parts,
            elements: self.elements * i64::from(scale),
            slots: slots.collect(),
        }
    }

    /// The same with threads that hold nothing behind the last.
    pub(crate) fn with_threads(mut self, threads: usize) -> BlockFragment {
        self.slots.resize(threads.max(self.threads) * self.registers, None);
        self.threads = threads.max(self.threads);
        self
    }
}
