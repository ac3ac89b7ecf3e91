//! A plan run thread by thread, with none of the planner's code.

use crate::error::{BlockError, Result};
use crate::fragment::{BlockFragment, THREADS_OF_WARP};
use crate::plan::BlockConversion;
use crate::steps::ConversionStep;

/// A word: of each of its parts, the element, or none of one that was never written.
type Word = Vec<Option<u32>>;

impl BlockConversion {
    /// Runs the plan on the numbers of the elements and looks at every register of the destination.
    ///
    /// Errors: the first register that does not hold its element.
    pub fn check(&self, from: &BlockFragment, to: &BlockFragment) -> Result<()> {
        let parts = self.bits.div_ceil(32);
        let source = from.split_elements(parts).with_threads(self.threads);
        let wanted = to.split_elements(parts).with_threads(self.threads);
        let compare = |thread: usize, register: usize, found: Option<u32>| match wanted
            .element(thread, register)
        {
            Some(element) if found != Some(element) => Err(BlockError::WrongPlan {
                thread,
                register,
                wanted: element,
                found: found.map_or("nothing".into(), |e| format!("element {e}")),
            }),
            _ => Ok(()),
        };
        if let Some(shared) = &self.shared {
            let cells = shared.addresses.iter().max().map_or(0, |last| last + 1);
            let mut memory: Vec<Option<u32>> = vec![None; cells];
            for thread in 0..source.threads() {
                for register in 0..source.registers() {
                    if let Some(element) = source.element(thread, register) {
                        let cell = &mut memory[shared.address(element as usize)];
                        // Two elements at one address would lose one of them.
                        if let Some(other) = cell.replace(element).filter(|other| *other != element)
                        {
                            let found = format!("element {other} at the same address");
                            let wanted = element;
                            return Err(BlockError::WrongPlan { thread, register, wanted, found });
                        }
                    }
                }
            }
            for thread in 0..wanted.threads() {
                for register in 0..wanted.registers() {
                    if let Some(element) = wanted.element(thread, register) {
                        compare(thread, register, memory[shared.address(element as usize)])?;
                    }
                }
            }
            return Ok(());
        }
        for warp in 0..self.threads / THREADS_OF_WARP {
            let thread = |lane: usize| warp * THREADS_OF_WARP + lane;
            let read = |lane: usize, word: usize| -> Word {
                let register = |part| word * self.per_word + part;
                let held =
                    |r: usize| (r < source.registers()).then(|| source.element(thread(lane), r));
                (0..self.per_word).map(|part| held(register(part)).flatten()).collect()
            };
            let mut values: Vec<Vec<Word>> = (0..self.source_words)
                .map(|word| (0..THREADS_OF_WARP).map(|lane| read(lane, word)).collect())
                .collect();
            for step in &self.steps {
                let made = (0..THREADS_OF_WARP).map(|lane| match step {
                    ConversionStep::Pack { parts } => {
                        parts.iter().map(|p| p.and_then(|p| values[p.word][lane][p.part])).collect()
                    }
                    ConversionStep::Select { options } => {
                        let mut taken = options.iter().filter(|(mask, _)| mask >> lane & 1 == 1);
                        let word = taken.next().or(options.last()).map_or(0, |(_, word)| *word);
                        values[word][lane].clone()
                    }
                    ConversionStep::Shuffle { word, lanes } => {
                        values[*word][usize::from(lanes[lane])].clone()
                    }
                });
                let made = made.collect();
                values.push(made);
            }
            for register in 0..wanted.registers() {
                let (word, part) = (register / self.per_word, register % self.per_word);
                let result = self.results[word].map(|value| &values[value]);
                (0..THREADS_OF_WARP).try_for_each(|lane| {
                    compare(thread(lane), register, result.and_then(|lanes| lanes[lane][part]))
                })?;
            }
        }
        Ok(())
    }
}
