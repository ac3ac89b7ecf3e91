//! What the cores do under a division: the plan that the hardware's latency is computed from.
//!
//! A core streams its slice of every tensor through its scratchpad, once. Of the two operands of a product one stays
//! resident, as much of it as fits at a time, and the other passes by once per such part; the core keeps the one that
//! makes it read less. Cores that differ in loops which a tensor does not follow have the same slice of it, and what
//! they read is marked as shared. Partial sums of a split reduction travel along the ring in the order of the cores,
//! four bytes each; the last core of a group adds up, is charged the hops it waits for, reads operands that are not
//! summed over, and writes the result.

use super::iteration_space::IterationSpace;
use super::span::{TermReach, find_term_reach, slice_range};
use super::tensor_access::{AccessRole, TensorAccess};
use crate::solve::memory::{LX_RESERVED, lx_limit};
use smallvec::SmallVec;
use zellige_device::core_order;
use zellige_machine::account::{MemoryTraffic, SharedReads};
use zellige_machine::{
    CoreWork, Hardware, Key, OperationWork, ProductOperand, ProductTile, STREAMED_TENSOR_BYTES,
    SumGroup, TileOperand, WorkKind, plan_product_reads, sum_unit_work,
};

/// The slices of one dimension.
struct LoopSlices {
    /// Iterations of every slice.
    lengths: Vec<u64>,
    /// Per slice, the first one that is like it in every respect.
    class: Vec<usize>,
    /// Per term of every tensor that runs over this dimension, what it does in each slice.
    reaches: Vec<Vec<TermReach>>,
}

/// What each core does under these splits; core numbers are those of
/// [`WorkDivision`](zellige_device::WorkDivision).
pub fn plan_core_work(
    space: &IterationSpace,
    hardware: &Hardware,
    splits: &[u64],
) -> OperationWork {
    let cuts: Vec<LoopSlices> = (0..splits.len()).map(|d| cut_loop(space, d, splits[d])).collect();
    let cores: u64 = splits.iter().product();
    // Two tiles of every streamed tensor are in the scratchpad, one in use and one on its way; what is left is for
    // the operand that stays.
    let room = lx_limit(hardware, LX_RESERVED).saturating_sub(2 * STREAMED_TENSOR_BYTES).max(1);
    let sharings: SmallVec<[SliceSharing; 4]> =
        space.tensors().iter().map(|t| SliceSharing::for_tensor(space, t, splits)).collect();
    let order = core_order(space.dims().iter().map(|d| d.reduced));
    let mut done: Vec<(SmallVec<[usize; 8]>, CoreSlice)> = Vec::new();
    let mut list = Vec::with_capacity(usize::try_from(cores).unwrap_or(0));
    for core in 0..cores {
        let digits = core_digits(splits, &order, core);
        let group = ReductionGroup::for_core(space, splits, &digits);
        let mut key: SmallVec<[usize; 8]> =
            digits.iter().zip(&cuts).map(|(i, cut)| cut.class[*i]).collect();
        // Cores whose slices are alike in length, reach and place in a reduction do the same work. It is computed
        // once for each kind of core, because the search prices thousands of divisions.
        key.push(group.ring_role());
        let seen = done.iter().position(|(k, _)| *k == key);
        let at = seen.unwrap_or_else(|| {
            done.push((key, plan_core_slice(space, &cuts, &digits, group, room, &sharings)));
            done.len() - 1
        });
        let CoreSlice { work, reads } = &done[at].1;
        let mut work = work.clone();
        for (tensor, bursts) in reads {
            let sharing = &sharings[*tensor];
            // Reads that several cores share are served by one read of memory and a multicast on the ring, so that
            // they are priced together later.
            if sharing.cores > 1 {
                let place = sharing.position_of_core(splits, &digits);
                work.shared.push(SharedReads {
                    bursts: bursts.clone(),
                    cores: sharing.cores,
                    place,
                });
            }
        }
        list.push(work);
    }
    OperationWork::new("divided", space.point_cost().kind, list)
}

/// The cores that have the same slice of a tensor: those that differ in these loops alone.
struct SliceSharing {
    loops: SmallVec<[usize; 4]>,
    cores: u64,
}

impl SliceSharing {
    fn for_tensor(space: &IterationSpace, tensor: &TensorAccess, splits: &[u64]) -> SliceSharing {
        // Of the cores that split a sum, one reads what is not summed over.
        let once = space.is_finishing_operand(tensor);
        let apart = |d: &usize| {
            splits[*d] > 1 && !tensor.depends_on(*d) && !(once && space.dims()[*d].reduced)
        };
        let loops: SmallVec<[usize; 4]> = (0..splits.len()).filter(apart).collect();
        SliceSharing { cores: loops.iter().map(|d| splits[*d]).product(), loops }
    }

    /// Which of them a core is.
    fn position_of_core(&self, splits: &[u64], digits: &[usize]) -> u64 {
        self.loops.iter().fold(0, |place, d| place * splits[*d] + digits[*d] as u64)
    }
}

/// What a core does, and what it reads of which tensor.
struct CoreSlice {
    work: CoreWork,
    reads: SmallVec<[(usize, MemoryTraffic); 4]>,
}

/// The latency of a division in cycles and in microseconds.
pub fn division_latency(space: &IterationSpace, hardware: &Hardware, splits: &[u64]) -> (u64, f64) {
    let latency = hardware.operation_latency(&plan_core_work(space, hardware, splits));
    (latency.cycles, latency.time.microseconds())
}

/// Cycles that the units alone take on the core with the largest slices: no division is faster.
pub(super) fn unit_cycles_bound(
    space: &IterationSpace,
    hardware: &Hardware,
    splits: &[u64],
) -> u64 {
    // The first slice is never shorter than another one: the first slices get the remainder.
    let largest = |d: usize| {
        let slice = slice_range(space, d, splits[d], 0);
        slice.end - slice.start
    };
    let mut core = CoreWork::default();
    // Work that one core of a group does to finish a sum is left out: a bound may be too low, never too high.
    for charge in space.charges().iter().filter(|c| !c.finishing) {
        let rounded =
            |(d, unit): &(usize, usize)| largest(*d).next_multiple_of((*unit).max(1) as u64);
        let points: u64 = charge.loops.iter().map(rounded).product();
        core.macs += points * charge.macs;
        core.sfu += points * charge.sfu;
        core.sfu_transcendental += points * charge.transcendental;
    }
    let alone = OperationWork::new(String::new(), space.point_cost().kind, vec![core]);
    hardware.operation_latency(&alone).cycles
}

/// Cycles that memory takes for everything once, in bursts as long as can be: no division is faster, as
/// cores share the bandwidth evenly and the one with most bytes has no less than the average.
pub(super) fn memory_cycles_bound(space: &IterationSpace, hardware: &Hardware) -> u64 {
    let alone = plan_core_work(space, hardware, &vec![1; space.dims().len()]);
    let Some(core) = alone.cores.first() else { return 0 };
    if core.tile.is_some() && hardware.find_figure(Key::ProductRate).is_some() {
        // Reads and writes of a product have rates of their own, which no turn of the bus slows down.
        let bytes = core.reads.total_bytes().saturating_add(core.writes.total_bytes());
        let once = core.unique_sticks.map_or(bytes, |n| n.saturating_mul(128));
        return hardware.lower_bound_cycles(&CoreWork::default(), once, 1);
    }
    let out = core.writes.total_bytes();
    let all = core.reads.total_bytes().saturating_add(out);
    // A product that streams an operand several times on one core may stream it once on many: the bound counts every
    // stick once.
    let once = core.unique_sticks.map_or(all, |n| n.saturating_mul(128));
    let reads = MemoryTraffic::from_bursts(once.saturating_sub(out), 1);
    let core =
        CoreWork { reads, writes: MemoryTraffic::from_bursts(out, 1), ..CoreWork::default() };
    // Few cores do not reach the rate of a reduction within rows nor that of a stream, and all of them do.
    let hardware = hardware.with_full_streams();
    let kind = match alone.kind {
        WorkKind::RowReduction => WorkKind::Pointwise,
        kind => kind,
    };
    hardware.operation_latency(&OperationWork::new(String::new(), kind, vec![core])).cycles
}

/// The place of a core in every dimension, these from the fastest on.
fn core_digits(splits: &[u64], order: &[usize], core: u64) -> SmallVec<[usize; 8]> {
    let mut rest = core;
    let mut digits: SmallVec<[usize; 8]> = SmallVec::from_elem(0, splits.len());
    for d in order {
        digits[*d] = usize::try_from(rest % splits[*d]).unwrap_or(0);
        rest /= splits[*d];
    }
    digits
}

/// The cores that sum into the same slice of the result.
#[derive(Clone, Copy)]
struct ReductionGroup {
    size: u64,
    place: u64,
}

impl ReductionGroup {
    fn for_core(space: &IterationSpace, splits: &[u64], digits: &[usize]) -> ReductionGroup {
        let reduced = (0..splits.len()).filter(|d| space.dims()[*d].reduced);
        reduced.fold(ReductionGroup { size: 1, place: 0 }, |g, d| ReductionGroup {
            size: g.size * splits[d],
            place: g.place * splits[d] + digits[d] as u64,
        })
    }

    /// First, in between, last.
    fn ring_role(self) -> usize {
        if self.place + 1 == self.size { 2 } else { usize::from(self.place > 0) }
    }
}

fn cut_loop(space: &IterationSpace, dim: usize, n: u64) -> LoopSlices {
    let slices: Vec<_> = (0..n).map(|i| slice_range(space, dim, n, i)).collect();
    let lengths: Vec<u64> = slices.iter().map(|s| s.end - s.start).collect();
    let expressions = space.tensors().iter().flat_map(|t| &t.coordinates);
    let terms = expressions.flat_map(|e| &e.terms).filter(|t| t.var == dim);
    let reaches: Vec<Vec<TermReach>> =
        terms.map(|t| slices.iter().map(|s| find_term_reach(t, s)).collect()).collect();
    let like =
        |i: usize, j: usize| lengths[i] == lengths[j] && reaches.iter().all(|r| r[i] == r[j]);
    let class = (0..slices.len()).map(|i| (0..i).find(|j| like(i, *j)).unwrap_or(i)).collect();
    LoopSlices { lengths, class, reaches }
}

/// Bursts of one tensor's slice: their length in bytes, and how many.
struct SliceTraffic {
    burst: u64,
    count: u64,
}

impl SliceTraffic {
    fn total_bytes(&self) -> u64 {
        self.burst.saturating_mul(self.count)
    }
}

fn plan_core_slice(
    space: &IterationSpace,
    cuts: &[LoopSlices],
    digits: &[usize],
    group: ReductionGroup,
    room: u64,
    sharings: &[SliceSharing],
) -> CoreSlice {
    let mut next = vec![0; cuts.len()];
    let parts: SmallVec<[SliceTraffic; 4]> =
        space.tensors().iter().map(|t| count_slice_traffic(t, cuts, digits, &mut next)).collect();
    let length = |d: usize| cuts[d].lengths[digits[d]];
    let padded = |d: usize| length(d).div_ceil(space.unit_iterations(d)) * space.unit_iterations(d);
    let dims = 0..space.dims().len();
    let last = group.place + 1 == group.size;
    let sums = SumGroup { size: group.size, place: group.place };
    let mut work = sum_unit_work(space.charges(), space.partial_sums(), length, sums);

    let mut times: SmallVec<[u64; 4]> = SmallVec::from_elem(1, parts.len());
    if let Some([a, b]) = space.product_operands() {
        let tensors = [&space.tensors()[a], &space.tensors()[b]];
        let only = |own: &TensorAccess, other: &TensorAccess, padding: bool| -> u64 {
            let dims = dims.clone().filter(|d| own.depends_on(*d) && !other.depends_on(*d));
            dims.map(|d| if padding { padded(d) } else { length(d) }).product()
        };
        let depth: u64 = dims.clone().filter(|d| space.dims()[*d].reduced).map(padded).product();
        let (rows, columns) =
            (only(tensors[0], tensors[1], false), only(tensors[1], tensors[0], true));
        let bytes = [parts[a].total_bytes(), parts[b].total_bytes()];
        let factor =
            |i: usize| ProductOperand { width: 128 / tensors[i].eps().max(1), bytes: bytes[i] };
        let factors = [factor(0), factor(1)];
        let reads = plan_product_reads([rows, columns, depth], factors, tensors[1].eps(), room);
        (times[a], times[b]) = (reads.times[0], reads.times[1]);
        let sharers = [sharings[a].cores, sharings[b].cores];
        work.tile = plan_product_tile(space, [a, b], &length, bytes, sharers, group.size);
    }
    let mut unique = 0_u64;
    let mut read = SmallVec::new();
    for (i, (part, tensor)) in parts.iter().zip(space.tensors()).enumerate() {
        match tensor.role {
            AccessRole::Read if !last && space.is_finishing_operand(tensor) => continue,
            AccessRole::Read => {
                let bursts =
                    MemoryTraffic::from_bursts(part.burst, part.count.saturating_mul(times[i]));
                work.reads.merge_traffic(&bursts);
                read.push((i, bursts));
            }
            AccessRole::Write if last => work.writes.add_bursts(part.burst, part.count),
            AccessRole::Write => continue,
        }
        unique = unique.saturating_add(part.total_bytes() / 128);
    }
    work.unique_sticks = times.iter().any(|t| *t > 1).then_some(unique);
    work.lx_bytes = work.reads.total_bytes().saturating_add(work.writes.total_bytes());
    CoreSlice { work, reads: read }
}

/// The part of a product that a core with slices of these lengths has; none where it has nothing to do.
///
/// All loops of the result but its rows and columns are batches, those of one operand alone too.
fn plan_product_tile(
    space: &IterationSpace,
    operands: [usize; 2],
    length: &impl Fn(usize) -> u64,
    bytes: [u64; 2],
    sharers: [u64; 2],
    depth_split: u64,
) -> Option<ProductTile> {
    let [a, b] = operands.map(|i| &space.tensors()[i]);
    let padded = |d: usize| length(d).next_multiple_of(space.unit_iterations(d).max(1));
    let outer = || (0..space.dims().len()).filter(|d| !space.dims()[*d].reduced);
    let [rows, columns] = space.product_sides();
    let batches: SmallVec<[usize; 4]> =
        outer().filter(|d| Some(*d) != rows && Some(*d) != columns).collect();
    let here = |follows: &dyn Fn(usize) -> bool| -> u64 {
        batches.iter().filter(|d| follows(**d)).map(|d| length(*d)).product()
    };
    let real = |d: &&usize| space.dims()[**d].size > 1;
    let operand = |i: usize, tensor: &TensorAccess| TileOperand {
        bytes: bytes[i].saturating_mul(here(&|d| !tensor.depends_on(d))),
        cores: sharers[i],
        interleaved: batches.iter().filter(real).any(|d| tensor.is_next_to_stick(*d)),
        resident: false,
    };
    let tile = ProductTile {
        rows: rows.map_or(1, length),
        columns: columns.map_or(1, padded),
        depth: (0..space.dims().len()).filter(|d| space.dims()[*d].reduced).map(padded).product(),
        batches: here(&|_| true),
        all_batches: batches.iter().map(|d| space.dims()[*d].size).product(),
        shared_weight: batches.iter().filter(real).any(|d| !b.depends_on(*d)),
        depth_split,
        operands: [operand(0, a), operand(1, b)],
    };
    let points = [tile.rows, tile.columns, tile.depth, tile.batches];
    points.iter().all(|n| *n > 0).then_some(tile)
}

/// The bursts of one tensor; `next` counts the terms of every dimension that were used up.
fn count_slice_traffic(
    tensor: &TensorAccess,
    cuts: &[LoopSlices],
    digits: &[usize],
    next: &mut [usize],
) -> SliceTraffic {
    let last = tensor.device_size.len() - 1;
    let mut visited: SmallVec<[(u64, u64); 6]> = SmallVec::new();
    for (e, whole) in tensor.coordinates.iter().zip(&tensor.whole) {
        let mut here = (whole.extent, whole.distinct);
        for t in &e.terms {
            let reach = cuts[t.var].reaches[next[t.var]][digits[t.var]];
            next[t.var] += 1;
            here = (here.0.saturating_add(reach.extent), here.1.saturating_mul(reach.distinct));
        }
        visited.push((here.0.saturating_add(1), here.1));
    }
    let (mut run, mut count, mut joined) = (1_u64, 1_u64, true);
    for j in (0..last).rev() {
        let (extent, distinct) = visited[j];
        // A burst continues through a dimension as long as its visited coordinates have no gaps, and into the next
        // outer one only if the whole dimension was visited.
        joined &= extent == distinct;
        if joined {
            run = run.saturating_mul(distinct);
        } else {
            count = count.saturating_mul(distinct);
        }
        joined &= distinct == tensor.device_size[j];
    }
    SliceTraffic { burst: run.saturating_mul(128), count }
}
