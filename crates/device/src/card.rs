//! A card.

use crate::format::Mode;
use crate::memory::Memory;
use std::sync::Arc;

/// A simulated card. Clones are the same card.
#[derive(Debug, Clone)]
pub struct Card(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    index: usize,
    memory: Memory,
    mode: Mode,
    hardware: crate::Hardware,
}

impl Card {
    /// A card with the published figures.
    pub fn new(index: usize) -> Card {
        Card(Arc::new(Inner {
            index,
            memory: Memory::card(),
            mode: Mode::Dl16,
            hardware: crate::Hardware::card(),
        }))
    }
    /// Its number.
    pub fn index(&self) -> usize {
        self.0.index
    }
    /// Its figures.
    pub fn hardware(&self) -> &crate::Hardware {
        &self.0.hardware
    }
    /// Its memory.
    pub fn memory(&self) -> &Memory {
        &self.0.memory
    }
    /// How it encodes 16-bit floats.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }
    /// Whether float32 tensors keep their format by default.
    pub fn keeps_fp32(&self) -> bool {
        false
    }
    /// Host threads that simulate it.
    pub fn host_threads(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
    /// Refuses a number of cores that the card does not have.
    pub(crate) fn check_cores(&self, cores: usize) -> crate::error::Result<()> {
        if (1..=self.cores()).contains(&cores) {
            return Ok(());
        }
        let accepted = format!("1 to {} cores", self.cores());
        Err(crate::DeviceError::BadDivision { splits: vec![cores], dim: None, accepted })
    }
    /// Cores.
    pub fn cores(&self) -> usize {
        32
    }
}
