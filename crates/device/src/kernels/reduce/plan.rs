//! Where a reduction reads and writes: every core's slice of the result, and the numbers of each.

use crate::kernels::charge_streams;
use crate::kernels::dims;
use crate::kernels::walk::{LaneMismatch, StickWalk};
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{LoopCharge, OperationCharges, PartialSums, SumGroup};
use zellige_op::PerDimension;

/// A reduction cut over cores.
#[derive(Debug)]
pub(super) struct ReductionPlan {
    pub(super) slices: Vec<ReductionSlice>,
    /// Cores that share a result, neighbours in the order of their numbers.
    pub(super) group: usize,
    /// Numbers that one result takes.
    pub(super) n: usize,
    pub(super) kind: WorkKind,
}

/// The part of one core.
#[derive(Debug)]
pub(super) struct ReductionSlice {
    /// Over the first result; then every operand at the first reduced place, then further results.
    pub(super) walk: StickWalk,
    /// Loops over the reduced places, but those along the lanes.
    pub(super) levels: Vec<ReducedLoop>,
    /// The lanes, where they are reduced.
    pub(super) line: Option<ReducedLine>,
    /// The number of the first reduced place.
    pub(super) first: i32,
    pub(super) work: CoreWork,
}

/// One loop over reduced places.
#[derive(Debug, Clone)]
pub(super) struct ReducedLoop {
    pub(super) n: usize,
    /// Elements that a step moves, for every operand.
    pub(super) step: SmallVec<[usize; 2]>,
    /// How much the number of a place grows.
    pub(super) count: i32,
}

/// A line along reduced lanes.
#[derive(Debug, Clone)]
pub(super) struct ReducedLine {
    pub(super) n: usize,
    /// Lanes of a stick and elements to the next stick, for every operand.
    pub(super) sticks: SmallVec<[(usize, usize); 2]>,
    /// How much the number of a place grows.
    pub(super) count: i32,
}

/// What a reduction costs beside its streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassCost {
    pub(super) passes: usize,
    /// Bytes of a partial result.
    pub(super) partial: usize,
    pub(super) transcendental: bool,
}

impl PassCost {
    /// The cost of one pass, as charges of the loops: those of the result, then those that are reduced.
    pub(super) fn pass_charges(
        self,
        kind: WorkKind,
        outer: usize,
        reduced: usize,
    ) -> OperationCharges {
        let slow = u64::from(self.transcendental);
        let partial = (0..outer).map(|l| (l, 1)).collect();
        OperationCharges {
            kind,
            each: vec![LoopCharge {
                loops: (0..outer + reduced).map(|l| (l, 1)).collect(),
                macs: 0,
                sfu: 1 - slow,
                transcendental: slow,
                finishing: false,
            }],
            partial: PartialSums { loops: partial, bytes: self.partial as u64 },
            product: None,
            sides: [None; 2],
            unread: Vec::new(),
        }
    }
}

/// Half of a scratchpad: what one result takes stays there for a second pass if it fits.
const MAX_RESIDENT_BYTES: u64 = 1 << 20;

/// The iteration space: dimensions of the result, then those that are reduced.
pub(super) fn reduction_space(
    inputs: &[StickForm],
    outputs: &[StickForm],
    gone: &[usize],
) -> Vec<LoopSpan> {
    let rank = inputs[0].rank();
    let wide: Vec<StickForm> = outputs.iter().map(|o| dims::restore_dims(o, gone, rank)).collect();
    let span = |d: usize, reduced: bool| {
        let unit = dims::lanes_per_unit(inputs.iter().chain(&wide), d);
        LoopSpan { size: inputs[0].size[d], unit, reduced }
    };
    let kept = |d: &usize| !gone.contains(d);
    let mut space: Vec<LoopSpan> = if outputs[0].rank() == rank {
        (0..rank)
            .map(|d| if kept(&d) { span(d, false) } else { LoopSpan::for_output(1, 1) })
            .collect()
    } else {
        (0..rank).filter(kept).map(|d| span(d, false)).collect()
    };
    space.extend(gone.iter().map(|d| span(*d, true)));
    space
}

/// The kind of work for the accounts: whether the lanes are reduced.
pub(super) fn reduction_work_kind(x: &StickForm, gone: &[usize]) -> WorkKind {
    let along = x.stick.is_some_and(|s| gone.contains(&s));
    if along { WorkKind::RowReduction } else { WorkKind::CrossRowReduction }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "indices wrap")]
fn wrap_index(n: usize) -> i32 {
    n as i32
}

impl ReductionPlan {
    /// The plan of a reduction over `gone` of operands in one form.
    ///
    /// # Errors
    /// A tensor, results counted after operands, whose lanes run along another dimension than those of the first.
    pub(super) fn new(
        inputs: &[StickForm],
        outputs: &[StickForm],
        gone: &[usize],
        division: &WorkDivision,
        cost: PassCost,
    ) -> Result<ReductionPlan, LaneMismatch> {
        let space = reduction_space(inputs, outputs, gone);
        let rank = inputs[0].rank();
        let outer = outputs[0].rank();
        let lanes = inputs[0].stick.filter(|s| gone.contains(s));
        if let Some(operand) = inputs.iter().position(|i| i.stick != inputs[0].stick) {
            return Err(LaneMismatch { operand });
        }
        // Cores that share a result have consecutive numbers, and so are neighbours on the ring.
        let group: usize = division.splits()[outer..].iter().product();
        let n = gone.iter().map(|d| inputs[0].size[*d]).product();
        let kind = reduction_work_kind(&inputs[0], gone);
        let charges = cost.pass_charges(kind, outer, gone.len());
        let mut slices = Vec::with_capacity(division.core_count());
        for core in 0..division.core_count() {
            let ranges = division.core_slice(core, &space);
            let cut_out = |t: &StickForm| {
                let cut = (0..outer).fold(t.clone(), |t, d| t.slice_dim(d, ranges[d].clone()));
                dims::restore_dims(&cut, gone, rank)
            };
            let kept = (0..rank).filter(|d| !gone.contains(d));
            let positions: PerDimension<usize> =
                if outer == rank { kept.collect() } else { (0..outer).collect() };
            let cut_in = |t: &StickForm| {
                let kept = (0..rank).filter(|d| !gone.contains(d)).zip(&positions);
                let cut = kept.fold(t.clone(), |t, (d, at)| t.slice_dim(d, ranges[*at].clone()));
                let reduced = gone.iter().zip(&ranges[outer..]);
                reduced.fold(cut, |t, (d, range)| t.slice_dim(*d, range.clone()))
            };
            let ins: Vec<StickForm> = inputs.iter().map(cut_in).collect();
            let outs: Vec<StickForm> = outputs.iter().map(cut_out).collect();
            let starts: Vec<StickForm> =
                ins.iter().map(|t| dims::remove_dims(t, gone, true)).collect();
            let all: Vec<StickForm> = starts.iter().chain(&outs[1..]).cloned().collect();
            let walk = StickWalk::new(&outs[0], &all)?;
            let (mut levels, mut line) = (Vec::new(), None);
            let (mut count, mut first) = (1, 0);
            // From the last dimension to the first, because the number of a place grows by the extents behind it.
            for (d, range) in gone.iter().zip(&ranges[outer..]).rev() {
                first += range.start * count;
                if lanes == Some(*d) {
                    let sticks = ins.iter().map(|t| (t.eps, t.stride[*d])).collect();
                    line = Some(ReducedLine { n: range.len(), sticks, count: wrap_index(count) });
                // A loop of one place would only cost its overhead.
                } else if range.len() != 1 {
                    let step = ins.iter().map(|t| t.stride[*d]).collect();
                    levels.push(ReducedLoop { n: range.len(), step, count: wrap_index(count) });
                }
                count *= inputs[0].size[*d];
            }
            levels.reverse();
            let place = GroupMember { core, group, last: core % group == group - 1 };
            let work = charge_reduction(&ins, &outs, cost, (&charges, &ranges), &place);
            slices.push(ReductionSlice { walk, levels, line, first: wrap_index(first), work });
        }
        Ok(ReductionPlan { slices, group, n, kind })
    }
}

/// A core among those that share its results.
struct GroupMember {
    core: usize,
    group: usize,
    last: bool,
}

/// What a core does: it streams its operands, once per pass unless those of one result stay in the
/// scratchpad, and the last of a group writes. Partial results go along the group, each core joins
/// its own; for a second pass, what they joined to is sent back the same way. The last core is charged the
/// hops, as it waits for all of them.
fn charge_reduction(
    ins: &[StickForm],
    outs: &[StickForm],
    cost: PassCost,
    (charges, ranges): (&OperationCharges, &[Range<usize>]),
    place: &GroupMember,
) -> CoreWork {
    let mut work = charge_streams(ins, if place.last { outs } else { &[] });
    let read = work.reads.clone();
    let results = outs[0].numel() as u64;
    let per_result: u64 = ins.iter().map(|t| t.stick_traffic().0.total_bytes()).sum::<u64>()
        / (results / outs[0].stick.map_or(1, |s| outs[0].size[s] as u64)).max(1);
    // Within a group the second pass waits for the sums of other cores, and has to read its whole part again. A
    // core of its own reads again only what does not fit.
    if cost.passes > 1 && (place.group > 1 || per_result > MAX_RESIDENT_BYTES) {
        for _ in 1..cost.passes {
            work.reads.merge_traffic(&read);
            work.lx_bytes += read.total_bytes();
        }
    } else if cost.passes > 1 {
        work.lx_bytes += read.total_bytes();
        work.lx_peak = work.lx_peak.max(per_result);
    }
    let group = SumGroup { size: place.group as u64, place: (place.core % place.group) as u64 };
    let mut units = charges.core_unit_work(|l| ranges[l].len() as u64, group);
    // Further passes are of plain operations; each sends its sums along the group, and all but the last one send them back.
    let further = cost.passes as u64 - 1;
    units.sfu += ins[0].numel() as u64 * further;
    units.ring.iter_mut().for_each(|step| step.hops *= 2 * further + 1);
    work.sfu = units.sfu;
    work.sfu_transcendental = units.sfu_transcendental;
    work.ring = units.ring;
    work
}
