//! LX: the scratchpad of each core.
//!
//! Each core has addresses of its own from 0 on, with the rules of device memory: sticks of 128
//! bytes, coalescing, zeroed, freed with the last clone. What does not fit is an error that names the core.

use crate::error::{DeviceError, Result};
use crate::memory::{DeviceMemory, MemoryBlock, MemoryStats, SegmentStats};
use std::fmt;
use zellige_machine::{SegmentPurpose, SegmentSpec};

/// The scratchpads of a card. Clones are the same scratchpads.
#[derive(Debug, Clone)]
pub struct LxScratchpads {
    pads: DeviceMemory,
    cores: usize,
}

impl LxScratchpads {
    /// `cores` scratchpads of `bytes` each, a positive multiple of 128.
    pub fn new(cores: usize, bytes: u64) -> Result<LxScratchpads> {
        let spec = SegmentSpec { base: 0, bytes, purpose: SegmentPurpose::Scratchpad };
        Ok(LxScratchpads { pads: DeviceMemory::new(&vec![spec; cores])?, cores })
    }

    /// How many cores there are.
    pub fn core_count(&self) -> usize {
        self.cores
    }

    /// A block in the scratchpad of a core.
    pub fn alloc_block(&self, core: usize, bytes: usize) -> Result<MemoryBlock> {
        self.check_core(core)?;
        self.pads.alloc_at(core, bytes, || format!("LX of core {core}"))
    }

    /// A block in the scratchpad of a core for `what` (a tile, an operation), which errors name.
    pub fn alloc_for(
        &self,
        core: usize,
        bytes: usize,
        what: &dyn fmt::Display,
    ) -> Result<MemoryBlock> {
        self.check_core(core)?;
        self.pads.alloc_at(core, bytes, || format!("LX of core {core}, {what}"))
    }

    /// All scratchpads at this moment; `segments` are the cores.
    pub fn stats(&self) -> MemoryStats {
        self.pads.stats()
    }

    /// The scratchpad of one core at this moment.
    pub fn core_stats(&self, core: usize) -> Result<SegmentStats> {
        self.check_core(core)?;
        Ok(self.pads.stats().segments.swap_remove(core))
    }

    /// Forgets the peaks: they begin again at what is allocated now.
    pub fn reset_peak(&self) {
        self.pads.reset_peak();
    }

    fn check_core(&self, core: usize) -> Result<()> {
        if core < self.cores {
            return Ok(());
        }
        Err(DeviceError::NoSuchCore { core, count: self.cores })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_has_its_own_two_mebibytes() {
        let lx = LxScratchpads::new(32, 2 << 20).unwrap();
        let whole: Vec<MemoryBlock> =
            (0..32).map(|c| lx.alloc_block(c, 2 << 20).unwrap()).collect();
        assert!(whole.iter().all(|b| b.address() == 0));
        assert_eq!(lx.stats().free, 0);
        drop(whole);
        assert_eq!(lx.stats().free, 64 << 20);
        assert_eq!(lx.core_stats(31).unwrap().peak, 2 << 20);
    }

    #[test]
    fn what_does_not_fit_names_the_core_and_the_tile() {
        let lx = LxScratchpads::new(2, 1 << 20).unwrap();
        let _tile = lx.alloc_block(1, 1 << 19).unwrap();
        assert_eq!(
            lx.alloc_for(1, 600_000, &"tile %b of linalg.matmul").unwrap_err().to_string(),
            "LX of core 1, tile %b of linalg.matmul: out of memory: asked 585.93 KiB (600000 \
             bytes); used 512 KiB, free 512 KiB, largest hole 512 KiB; free tensors or ask for at \
             most the largest hole"
        );
        assert!(lx.alloc_block(0, 600_000).is_ok(), "the other core has room");
        let error = lx.alloc_block(0, 3 << 20).unwrap_err().to_string();
        assert!(error.starts_with("LX of core 0: asked 3 MiB, more than"), "{error}");
        assert_eq!(
            lx.alloc_block(2, 1).unwrap_err().to_string(),
            "core 2 does not exist; cores are 0 to 1"
        );
        assert!(LxScratchpads::new(1, 100).is_err());
    }
}
