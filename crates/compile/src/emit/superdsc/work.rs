//! Work for kernels: a function on tensors in memory, with its loops and how the cores share them.

use super::kernel::{LOOP_LABELS, PRODUCT_LOOP_LABELS, SdscDim};
use super::op_func::{OpFunc, SdscFamily};
use crate::program::BufferId;
use std::ops::Range;
use zellige_device::{LoopSpan, StickForm, TensorLayout, WorkDivision, core_order};

/// Memory that a kernel reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WorkMemory {
    /// A buffer of the program.
    Buffer(BufferId),
    /// The workspace from this byte on, which the kernels of one step use.
    Scratch(u64),
    /// Numbers of the workspace that are there before anything runs.
    Table(usize),
    /// An operand of a step that is several kernels, before it is known which.
    Operand(usize),
    /// A result of such a step.
    Result(usize),
}

/// A tensor as a kernel sees it.
#[derive(Debug, Clone)]
pub(super) struct WorkTensor {
    pub(super) memory: WorkMemory,
    pub(super) laid: TensorLayout,
    pub(super) form: StickForm,
    /// Whether it is in the scratchpads.
    pub(super) scratchpad: bool,
}

impl WorkTensor {
    /// A tensor in device memory; why where kernels cannot read its layout.
    pub(super) fn new(memory: WorkMemory, laid: &TensorLayout) -> Result<WorkTensor, String> {
        let form = laid.stick_form().map_err(|e| e.to_string())?;
        Ok(WorkTensor { memory, laid: laid.clone(), form, scratchpad: false })
    }
}

/// A dimension of a tensor that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexedDim {
    /// The tensor with the indices.
    pub(super) index: usize,
    /// The tensor that they look up.
    pub(super) value: usize,
    /// Its dimension.
    pub(super) dim: usize,
    /// The loop over the indices.
    pub(super) along: usize,
}

/// Which cores have the slices of some work, in the order of the slices.
#[derive(Debug, Clone)]
pub(super) enum WorkCores {
    /// This one and the next ones.
    From(usize),
    /// These.
    These(Vec<usize>),
}

impl WorkCores {
    /// The core of a slice.
    pub(super) fn core_of_slice(&self, slice: usize) -> usize {
        match self {
            WorkCores::From(first) => first + slice,
            WorkCores::These(list) => list[slice],
        }
    }
}

/// A function on tensors: operands in order, the result last.
#[derive(Debug, Clone)]
pub(super) struct KernelWork {
    pub(super) func: OpFunc,
    pub(super) tensors: Vec<WorkTensor>,
    pub(super) loops: SdscLoops,
    pub(super) cores: WorkCores,
    pub(super) indexed: Option<IndexedDim>,
}

impl KernelWork {
    /// The same work with a loop of one iteration around it, which a tensor may step along.
    pub(super) fn with_unit_row(&self) -> KernelWork {
        let mut work = self.clone();
        let loops = &mut work.loops;
        loops.spans.insert(0, LoopSpan::for_output(1, 1));
        loops.splits.insert(0, 1);
        for follows in &mut loops.follows {
            follows.iter_mut().for_each(|l| *l = l.map(|l| l + 1));
        }
        // Every number of a loop shifts by one, because the new loop is the first.
        loops.rounds = loops.rounds.map(|(l, n)| (l + 1, n));
        loops.keep = loops.keep.map(|l| l + 1);
        if let Some(indexed) = &mut work.indexed {
            indexed.along += 1;
        }
        loops.row = true;
        work
    }

    /// A tensor as a piece of the loops has it.
    pub(super) fn piece_sticks(&self, t: usize, piece: &LoopPiece) -> Result<StickForm, String> {
        let tensor = &self.tensors[t];
        let mut form = tensor.form.clone();
        for (d, follows) in self.loops.follows[t].iter().enumerate() {
            let Some(l) = *follows else { continue };
            let range = &piece.ranges[l];
            let whole = range.start == 0 && range.end == self.loops.spans[l].size;
            if whole || form.size[d] != self.loops.spans[l].size {
                continue;
            }
            // A kernel addresses whole sticks, and this slice would begin in the middle of one.
            if form.stick == Some(d) && !range.start.is_multiple_of(form.eps) {
                return Err(format!("a slice of operand {t} would begin inside a stick"));
            }
            form = form.slice_dim(d, range.clone());
        }
        Ok(form)
    }
}

/// The loops of some work, before they have labels.
#[derive(Debug, Clone)]
pub(super) struct SdscLoops {
    pub(super) spans: Vec<LoopSpan>,
    pub(super) splits: Vec<usize>,
    /// Per tensor and dimension, the loop that it follows.
    pub(super) follows: Vec<Vec<Option<usize>>>,
    /// Whether the first loop is one iteration around the others that stays.
    pub(super) row: bool,
    /// A loop that stays although it may be one iteration.
    pub(super) keep: Option<usize>,
    /// Into how many rounds a loop is cut, one after the other; none for loops that run at once.
    pub(super) rounds: Option<(usize, usize)>,
}

/// A part of all loops whose slices have one length.
#[derive(Debug, Clone)]
pub(super) struct LoopPiece {
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) splits: Vec<usize>,
    /// The cores, by their number among those of the work, in the order of their slices.
    pub(super) cores: Vec<usize>,
}

impl SdscLoops {
    /// A loop for every dimension of tensors of one size, in whole sticks of all of them. One that is padded is not
    /// divided under `restickify`.
    pub(super) fn for_copy(
        forms: &[&StickForm],
        given: Option<&[usize]>,
        cores: usize,
        restickify: bool,
    ) -> SdscLoops {
        let rank = forms[0].rank();
        let unit = |d: usize| {
            let lanes = forms.iter().filter(|f| f.stick == Some(d)).map(|f| f.eps);
            lanes.max().unwrap_or(1)
        };
        let spans: Vec<LoopSpan> =
            (0..rank).map(|d| LoopSpan::for_output(forms[0].size[d], unit(d))).collect();
        // A restickify transposes whole blocks of sticks; a core with the padded end alone would have a block that
        // the others do not have.
        let padded = |s: &LoopSpan| restickify && !s.size.is_multiple_of(s.unit);
        let splits = match given {
            Some(given) => {
                spans.iter().zip(given).map(|(s, n)| if padded(s) { 1 } else { *n }).collect()
            }
            None => {
                // A padded loop counts as one unit, which nothing divides.
                let units = spans
                    .iter()
                    .map(|s| LoopSpan { unit: if padded(s) { s.size } else { s.unit }, ..*s });
                let units: Vec<LoopSpan> = units.collect();
                WorkDivision::distribute_units(&units, cores, false).splits().to_vec()
            }
        };
        let follows = forms.iter().map(|_| (0..rank).map(Some).collect()).collect();
        SdscLoops { spans, splits, follows, row: false, keep: None, rounds: None }
    }

    /// The parts whose slices have one length. A sum that is cut into slices of different lengths is cut into fewer:
    /// what cores add up is one kernel.
    pub(super) fn equal_slice_pieces(&self, family: SdscFamily) -> Result<Vec<LoopPiece>, String> {
        let mut per_loop: Vec<Vec<LoopPart>> = Vec::with_capacity(self.spans.len());
        for (l, span) in self.spans.iter().enumerate() {
            let split = self.splits.get(l).copied().unwrap_or(1);
            let mut parts = LoopPart::from_span(span, split);
            // Partial sums are added across the cores of one kernel, and a restickify is one kernel: both need slices
            // of one length.
            if parts.len() > 1 && (span.reduced || family == SdscFamily::Restickify) {
                let units = span.unit_count();
                let even = (1..=split).rev().find(|n| units.is_multiple_of(*n)).unwrap_or(1);
                parts = LoopPart::from_span(span, even);
            }
            if let Some((_, rounds)) = self.rounds.filter(|(at, _)| *at == l) {
                parts = LoopPart::rounds_of_span(span, split, rounds);
            }
            per_loop.push(parts);
        }
        let mut pieces = vec![Vec::<&LoopPart>::new()];
        for parts in &per_loop {
            pieces = pieces
                .into_iter()
                .flat_map(|p| parts.iter().map(move |part| [p.as_slice(), &[part]].concat()))
                .collect();
        }
        let all: Vec<usize> =
            (0..self.spans.len()).map(|l| self.splits.get(l).copied().unwrap_or(1)).collect();
        let order = core_order(self.spans.iter().map(|s| s.reduced));
        Ok(pieces
            .into_iter()
            .map(|parts| LoopPiece {
                ranges: parts.iter().map(|p| p.range.clone()).collect(),
                splits: parts.iter().map(|p| p.split).collect(),
                cores: find_piece_cores(&parts, &all, &order),
            })
            .collect())
    }

    /// The loops of a piece.
    pub(super) fn restrict_to_piece(&self, piece: &LoopPiece) -> SdscLoops {
        let spans = self.spans.iter().zip(&piece.ranges);
        SdscLoops {
            spans: spans.map(|(s, r)| LoopSpan { size: r.len(), ..*s }).collect(),
            splits: piece.splits.clone(),
            follows: self.follows.clone(),
            row: self.row,
            keep: self.keep,
            rounds: None,
        }
    }

    /// The loops that are more than one iteration; a product keeps its columns and its sum, a move its lanes.
    pub(super) fn kept_loops(&self, family: SdscFamily) -> Vec<usize> {
        let count = self.spans.len();
        // The labels of a product name its columns and its sum by their position from the end, so that these two stay
        // even as single iterations.
        let least = if family == SdscFamily::Product { 2 } else { 1 };
        let more = |l: usize| {
            self.spans[l].size > 1 || (family == SdscFamily::Restickify && self.spans[l].unit > 1)
        };
        let keep = |l: &usize| {
            let stays = self.keep == Some(*l) || (self.row && *l == 0);
            more(*l) || stays || (family == SdscFamily::Product && l + 2 >= count)
        };
        let kept: Vec<usize> = (0..count).filter(keep).collect();
        if kept.len() >= least { kept } else { (count.saturating_sub(least)..count).collect() }
    }

    /// The loops with their labels.
    pub(super) fn labelled_dims(
        &self,
        kept: &[usize],
        family: SdscFamily,
    ) -> Result<Vec<SdscDim>, String> {
        let rank = kept.len();
        if rank > 7 {
            return Err(format!("it has {rank} dimensions, and a kernel has 7 at most"));
        }
        let label = |i: usize| match family {
            SdscFamily::Product => PRODUCT_LOOP_LABELS[7 - rank + i],
            _ if i + 1 == rank => "out",
            _ => LOOP_LABELS[i],
        };
        let dim = |(i, l): (usize, &usize)| {
            let (span, split) = (self.spans[*l], self.splits[*l]);
            let padded = span.unit_count() * span.unit.max(1);
            SdscDim { label: label(i), size: span.size, padded, split, reduced: span.reduced }
        };
        Ok(kept.iter().enumerate().map(dim).collect())
    }
}

/// A range of a loop, cut into slices of one length.
#[derive(Debug, Clone)]
struct LoopPart {
    range: Range<usize>,
    split: usize,
    /// The first of its slices among those of the loop.
    first: usize,
}

impl LoopPart {
    /// The slices of a loop, the longer ones first, as [`WorkDivision`] has them.
    fn from_span(span: &LoopSpan, split: usize) -> Vec<LoopPart> {
        let split = split.max(1);
        let (base, longer) = (span.unit_count() / split, span.unit_count() % split);
        let end = ((base + 1) * longer * span.unit.max(1)).min(span.size);
        // The longer slices first, so that the slice number is the core number of the device's own division.
        let parts = [
            LoopPart { range: 0..end, split: longer, first: 0 },
            LoopPart { range: end..span.size, split: split - longer, first: longer },
        ];
        parts.into_iter().filter(|p| p.split > 0 && (!p.range.is_empty() || longer == 0)).collect()
    }

    /// Rounds of a loop, each of them over all of its slices.
    fn rounds_of_span(span: &LoopSpan, split: usize, rounds: usize) -> Vec<LoopPart> {
        let unit = span.unit.max(1);
        let outer = LoopSpan { unit, ..*span };
        let mut all = Vec::new();
        for part in LoopPart::from_span(&outer, rounds) {
            let length = part.range.len().div_ceil(part.split).next_multiple_of(unit).max(unit);
            for k in 0..part.split {
                let start = (part.range.start + k * length).min(span.size);
                let end = (start + length).min(span.size);
                let own = LoopSpan { size: end - start, unit, reduced: span.reduced };
                for mut p in LoopPart::from_span(&own, split.min(own.unit_count().max(1))) {
                    p.range = p.range.start + start..p.range.end + start;
                    all.push(p);
                }
            }
        }
        all
    }
}

/// The numbers of the cores of a piece in the order of its slices. `order` has the loops as the device counts them, the
/// fastest first.
fn find_piece_cores(parts: &[&LoopPart], all: &[usize], order: &[usize]) -> Vec<usize> {
    let mut list = vec![0];
    // From the slowest loop on, so that the fastest one varies fastest in the list too: the position in it is the
    // number of the slice among those of the piece. A result in the scratchpads is on the cores that the device gives
    // its slices, so that another numbering would read the scratchpads of other cores.
    for l in order.iter().rev() {
        let (part, of) = (parts[*l], all[*l]);
        list = list
            .into_iter()
            .flat_map(|core| (0..part.split).map(move |k| core * of + part.first + k))
            .collect();
    }
    list
}
