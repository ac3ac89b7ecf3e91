//! The cheapest way from one fragment to another.

use crate::error::{BlockError, Result};
use crate::fragment::{BlockFragment, THREADS_OF_WARP};
use crate::rounds::{LaneNeed, plan_rounds};
use crate::shared::SharedPlan;
use crate::steps::{ConversionStep, LaneMask, WordPart};
use std::collections::HashMap;

/// How elements get to their registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConversionRoute {
    /// Every word is there already: registers get other names, and no instruction is needed.
    Nothing,
    /// Inside a thread: byte permutations and selects.
    Registers,
    /// Between the lanes of a warp.
    Shuffles,
    /// Through shared memory.
    SharedMemory,
}

impl ConversionRoute {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ConversionRoute::Nothing => "nothing",
            ConversionRoute::Registers => "registers",
            ConversionRoute::Shuffles => "shuffles",
            ConversionRoute::SharedMemory => "shared memory",
        }
    }
}

/// What a conversion takes: instructions of one thread, and wavefronts of all warps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConversionCounts {
    /// Shuffles of a thread.
    pub shuffles: usize,
    /// Words that no plan of shuffles can do without: what the lane that receives most needs from others, in words
    /// of 32 bits from one lane each.
    pub least_shuffles: usize,
    /// Selects of a thread: one chooses between two words by the lane.
    pub selects: usize,
    /// Byte permutations of a thread: one takes bytes from two words.
    pub permutes: usize,
    /// Wavefronts of shared memory over all warps.
    pub wavefronts: usize,
    /// Wavefronts that the bytes alone take.
    pub least_wavefronts: usize,
    /// Barriers of the block.
    pub barriers: usize,
    /// Bytes of shared memory.
    pub shared_bytes: usize,
}

impl ConversionCounts {
    /// Quarters of a cycle that one warp takes, an estimate that only chooses between routes. Measured on an H200 by
    /// `bench/gpu_block.py`: a shuffle waits for the one before it, 16 cycles; a select or a permutation takes 1.25; a
    /// round trip through shared memory has a latency of 45 cycles with its barrier, and 2 for each wavefront.
    fn quarter_cycles(&self, warps: usize) -> usize {
        let wavefronts = self.wavefronts.div_ceil(warps.max(1));
        64 * self.shuffles
            + 5 * (self.selects + self.permutes)
            + 8 * wavefronts
            + 180 * self.barriers
    }
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockConversion {
    pub(crate) bits: usize,
    pub(crate) threads: usize,
    /// Words of 32 bits of the source, and elements of a word.
    pub(crate) source_words: usize,
    pub(crate) per_word: usize,
    route: ConversionRoute,
    counts: ConversionCounts,
    pub(crate) steps: Vec<ConversionStep>,
    /// The value that each word of the destination is; none of a word that holds nothing.
    pub(crate) results: Vec<Option<usize>>,
    pub(crate) shared: Option<SharedPlan>,
}

/// Makes the steps of a plan, each value once.
pub(crate) struct StepWriter {
    pub(crate) steps: Vec<ConversionStep>,
    first: usize,
    known: HashMap<Vec<Option<WordPart>>, usize>,
    per_word: usize,
    pub(crate) selects: usize,
    pub(crate) permutes: usize,
}

impl StepWriter {
    pub(crate) fn new(source_words: usize, per_word: usize) -> StepWriter {
        let known = HashMap::new();
        StepWriter {
            steps: Vec::new(),
            first: source_words,
            known,
            per_word,
            selects: 0,
            permutes: 0,
        }
    }

    fn push(&mut self, step: ConversionStep) -> usize {
        self.steps.push(step);
        self.first + self.steps.len() - 1
    }

    /// The word of these parts: one that is there, or a permutation.
    pub(crate) fn pack(&mut self, parts: &[Option<WordPart>]) -> usize {
        let mut words: Vec<usize> = parts.iter().flatten().map(|p| p.word).collect();
        words.sort_unstable();
        words.dedup();
        // Parts that nobody needs fit any word, so a word whose needed parts are at their places is taken as it is.
        let in_place = parts.iter().enumerate().all(|(i, p)| p.is_none_or(|p| p.part == i));
        if let ([only], true) = (words.as_slice(), in_place) {
            return *only;
        }
        if let Some(found) = self.known.get(parts) {
            return *found;
        }
        // One instruction takes bytes of two words.
        self.permutes += words.len().saturating_sub(1).max(1);
        let made = self.push(ConversionStep::Pack { parts: parts.to_vec() });
        self.known.insert(parts.to_vec(), made);
        made
    }

    /// The word that each lane wants, where lanes may want different ones; none of lanes that want nothing.
    pub(crate) fn select(&mut self, wanted: &[Option<Vec<Option<WordPart>>>]) -> Option<usize> {
        let mut options: Vec<(LaneMask, usize)> = Vec::new();
        // Lanes that want nothing may take anything.
        for (lane, parts) in wanted.iter().enumerate() {
            let Some(parts) = parts else { continue };
            let word = self.pack(parts);
            match options.iter_mut().find(|(_, w)| *w == word) {
                Some((mask, _)) => *mask |= 1 << lane,
                None => options.push((1 << lane, word)),
            }
        }
        match options.as_slice() {
            [] => None,
            [(_, only)] => Some(*only),
            _ => {
                self.selects += options.len() - 1;
                Some(self.push(ConversionStep::Select { options }))
            }
        }
    }

    pub(crate) fn shuffle(&mut self, word: usize, lanes: [u8; 32]) -> usize {
        self.push(ConversionStep::Shuffle { word, lanes })
    }

    pub(crate) fn per_word(&self) -> usize {
        self.per_word
    }
}

impl BlockConversion {
    /// The cheapest conversion.
    ///
    /// Errors: tensors of different sizes, elements of other than 8, 16, 32 or 64 bits.
    pub fn between(from: &BlockFragment, to: &BlockFragment, bits: i64) -> Result<BlockConversion> {
        let plans = BlockConversion::all_routes(from, to, bits)?;
        let warps = from.threads().max(to.threads()) / THREADS_OF_WARP;
        let cost = |plan: &BlockConversion| (plan.counts.quarter_cycles(warps), plan.route);
        plans.into_iter().min_by_key(cost).ok_or_else(|| {
            // Shared memory does everything, so there is always one.
            BlockError::Route("no route converts between these layouts".into())
        })
    }

    /// The conversion by one route, or why it cannot do it.
    pub fn by_route(
        from: &BlockFragment,
        to: &BlockFragment,
        bits: i64,
        route: ConversionRoute,
    ) -> Result<BlockConversion> {
        let plans = BlockConversion::all_routes(from, to, bits)?;
        let names: Vec<&str> = plans.iter().map(|p| p.route.name()).collect();
        let message = format!(
            "{} cannot convert between these layouts; {} can",
            route.name(),
            names.join(" and ")
        );
        let found = plans.into_iter().find(|p| p.route == route);
        found.ok_or(BlockError::Route(message))
    }

    /// The plans of the routes that can do it.
    fn all_routes(
        from: &BlockFragment,
        to: &BlockFragment,
        bits: i64,
    ) -> Result<Vec<BlockConversion>> {
        if from.elements() != to.elements() {
            let (from, to) = (from.elements(), to.elements());
            return Err(BlockError::OtherTensor { from, to });
        }
        let accepted = usize::try_from(bits).ok().filter(|b| matches!(b, 8 | 16 | 32 | 64));
        let bits = accepted.ok_or(BlockError::ElementBits(bits))?;
        let threads = from.threads().max(to.threads());
        // Registers have 32 bits, so a wide element is two narrow ones that travel side by side.
        let cut = |fragment: &BlockFragment| {
            let parts = bits.div_ceil(32);
            fragment.split_elements(parts).with_threads(threads)
        };
        let (source, wanted) = (cut(from), cut(to));
        let unit = bits.min(32);
        let mut plans: Vec<BlockConversion> = Vec::new();
        plans.extend(plan_warp(&source, &wanted, bits, unit));
        if plans.first().is_none_or(|p| p.route > ConversionRoute::Registers) {
            let per_word = 32 / unit;
            let shared = SharedPlan::between(&source, &wanted, unit)?;
            let counts = ConversionCounts {
                wavefronts: shared.write_wavefronts + shared.read_wavefronts,
                least_wavefronts: shared.least_wavefronts,
                barriers: 1,
                shared_bytes: shared.bytes,
                ..ConversionCounts::default()
            };
            plans.push(BlockConversion {
                bits,
                threads,
                source_words: source.registers().div_ceil(per_word),
                per_word,
                route: ConversionRoute::SharedMemory,
                counts,
                steps: Vec::new(),
                results: vec![None; wanted.registers().div_ceil(per_word)],
                shared: Some(shared),
            });
        }
        Ok(plans)
    }

    /// How elements get to their registers.
    pub fn route(&self) -> ConversionRoute {
        self.route
    }

    /// What it takes.
    pub fn counts(&self) -> ConversionCounts {
        self.counts
    }

    /// The steps of a thread, of a conversion inside a warp.
    pub fn steps(&self) -> &[ConversionStep] {
        &self.steps
    }

    /// The plan of shared memory, of a conversion through it.
    pub fn shared(&self) -> Option<&SharedPlan> {
        self.shared.as_ref()
    }

    /// Why no plan of its route takes less, or none where that is not known.
    pub fn least_argument(&self) -> Option<String> {
        let c = self.counts;
        match self.route {
            ConversionRoute::Nothing => Some("no instruction: every word is in its thread".into()),
            ConversionRoute::Shuffles if c.shuffles == c.least_shuffles => Some(format!(
                "a shuffle gives a lane 32 bits of one other lane, and some lane needs {} such words",
                c.least_shuffles
            )),
            ConversionRoute::SharedMemory if c.wavefronts == c.least_wavefronts => Some(format!(
                "a wavefront moves 128 bytes, and the warps write and read {} times as much",
                c.least_wavefronts
            )),
            _ => None,
        }
    }
}

/// A plan without shared memory, where every element that a thread needs is in its warp.
fn plan_warp(
    source: &BlockFragment,
    wanted: &BlockFragment,
    bits: usize,
    unit: usize,
) -> Option<BlockConversion> {
    let per_word = 32 / unit;
    let warps = source.threads() / THREADS_OF_WARP;
    let needs: Vec<Vec<LaneNeed>> =
        (0..warps).map(|warp| warp_needs(source, wanted, warp)).collect::<Option<_>>()?;
    // All warps run one code. Where they need different registers, tables would have to know the warp.
    let merged = merge_warps(&needs)?;
    let source_words = source.registers().div_ceil(per_word);
    let mut writer = StepWriter::new(source_words, per_word);
    let result_words = wanted.registers().div_ceil(per_word);
    let planned = plan_rounds(&mut writer, &merged, result_words);
    let route = if planned.shuffles > 0 {
        ConversionRoute::Shuffles
    } else if writer.steps.is_empty() {
        ConversionRoute::Nothing
    } else {
        ConversionRoute::Registers
    };
    let counts = ConversionCounts {
        shuffles: planned.shuffles,
        least_shuffles: planned.least_shuffles,
        selects: writer.selects,
        permutes: writer.permutes,
        ..ConversionCounts::default()
    };
    Some(BlockConversion {
        bits,
        threads: source.threads(),
        source_words,
        per_word,
        route,
        counts,
        steps: writer.steps,
        results: planned.results,
        shared: None,
    })
}

/// What each lane of a warp needs for each register, if the warp has it all.
fn warp_needs(
    source: &BlockFragment,
    wanted: &BlockFragment,
    warp: usize,
) -> Option<Vec<LaneNeed>> {
    let mut holders: HashMap<u32, Vec<(usize, usize)>> = HashMap::new();
    for lane in 0..THREADS_OF_WARP {
        for register in 0..source.registers() {
            if let Some(element) = source.element(warp * THREADS_OF_WARP + lane, register) {
                holders.entry(element).or_default().push((lane, register));
            }
        }
    }
    let lanes = (0..THREADS_OF_WARP).map(|lane| {
        let slots = (0..wanted.registers()).map(|register| {
            let Some(element) = wanted.element(warp * THREADS_OF_WARP + lane, register) else {
                return Some(None);
            };
            let held = holders.get(&element)?;
            // A copy in the own lane costs no shuffle; else the nearest lane by XOR, so that lanes that differ in one
            // bit read copies that differ in one bit.
            held.iter().min_by_key(|(l, r)| (*l ^ lane, *r)).copied().map(Some)
        });
        slots.collect::<Option<Vec<_>>>()
    });
    lanes.collect()
}

/// The needs of all warps as one. A register that one warp does not need follows the others.
fn merge_warps(needs: &[Vec<LaneNeed>]) -> Option<Vec<LaneNeed>> {
    let mut merged = needs.first()?.clone();
    for other in &needs[1..] {
        for (lane, slots) in other.iter().enumerate() {
            for (register, need) in slots.iter().enumerate() {
                match (&mut merged[lane][register], need) {
                    (_, None) => {}
                    (here @ None, need) => *here = *need,
                    (Some(a), Some(b)) if a == b => {}
                    _ => return None,
                }
            }
        }
    }
    Some(merged)
}
