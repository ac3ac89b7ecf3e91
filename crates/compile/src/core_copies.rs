//! Copies between the scratchpads of cores: where a reader divides a result otherwise than its producer does, the parts
//! travel over the ring and nothing goes through device memory.
//!
//! **Idea.** The part of a tensor that every core has is a division of the tensor, for the producer and for a reader
//! alike; a copy is the [`CoreExchange`] between the two. Of a producer that splits a sum, the last core of each group has
//! the finished sums, so that it alone is a source and nothing is added again.
//!
//! **Invariant.** Parts are cut by whole sticks, so that a copy moves sticks and no core writes a part of another's.
//!
//! **Cost.** Planning one copy compares the parts of at most all cores with each other: some tens of microseconds.

use crate::divide::LaidOutOp;
use crate::options::CompilerOptions;
use std::ops::Range;
use std::rc::Rc;
use zellige_device::{StickForm, TensorLayout, WorkDivision};
use zellige_exchange::{CoreExchange, CoreNumber, TensorBox, TensorDivision};
use zellige_machine::account::{CoreWork, ExchangeCarrier, ExchangeSide, ExchangeWork, WorkKind};
use zellige_machine::{Key, OperationWork};

/// A copy of a tensor between the scratchpads of two divisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchpadCopy {
    /// Who sends which box to whom, in dimensions of the tensor.
    pub exchange: CoreExchange,
    /// What each core holds before.
    pub source: TensorDivision,
    /// What each core needs.
    pub destination: TensorDivision,
    /// Bytes that go to other cores, in whole sticks.
    pub remote_bytes: u64,
    /// Bytes that stay on their core.
    pub local_bytes: u64,
}

/// A copy with what it asks of the cores.
pub(crate) struct PlannedCopy {
    pub(crate) copy: ScratchpadCopy,
    pub(crate) work: Rc<OperationWork>,
}

/// A tensor of a step: the operation, its division, and the number of the tensor.
#[derive(Clone, Copy)]
pub(crate) struct CopyEnd<'a> {
    pub(crate) op: &'a LaidOutOp,
    pub(crate) division: &'a WorkDivision,
    pub(crate) tensor: usize,
}

/// Bytes of a stick.
const STICK_BYTES: u64 = 128;

impl CopyEnd<'_> {
    /// The cores that have the tensor complete, with their parts. Where the step splits a sum, the last core of each
    /// group finishes it.
    fn complete_parts(&self, writes: bool) -> Option<Vec<(CoreNumber, TensorBox)>> {
        let regions = self.op.core_regions(self.tensor, self.division)?;
        let reduced = self.op.loops.as_ref()?.loop_spans().iter().zip(self.division.splits());
        let group: usize = reduced.filter(|(s, _)| s.reduced).map(|(_, n)| *n).product();
        // Core numbers count sums fastest, so that the cores of a group follow one another.
        let holds = |core: usize| !writes || core % group.max(1) == group.max(1) - 1;
        let parts = regions
            .iter()
            .enumerate()
            .filter(|(core, part)| holds(*core) && part.iter().all(|range| !range.is_empty()));
        let part = |(core, part): (usize, &Vec<Range<usize>>)| {
            Some((CoreNumber::try_from(core).ok()?, to_box(part)?))
        };
        parts.map(part).collect()
    }
}

/// Plans the copy of a result from its producer's division into a reader's; none where the parts are not whole sticks, or
/// where some part has no holder.
pub(crate) fn plan_scratchpad_copy(
    options: &CompilerOptions,
    laid: &TensorLayout,
    from: CopyEnd<'_>,
    to: CopyEnd<'_>,
) -> Option<PlannedCopy> {
    let form = laid.stick_form().ok().filter(|form| form.numel() > 0)?;
    let (held, needed) = (from.complete_parts(true)?, to.complete_parts(false)?);
    if !held.iter().chain(&needed).all(|(_, part)| is_whole_sticks(&form, part)) {
        return None;
    }
    let shape: Vec<i64> =
        form.size.iter().map(|n| i64::try_from(*n).ok()).collect::<Option<_>>()?;
    let source = TensorDivision::new(&shape, held).ok()?;
    let destination = TensorDivision::new(&shape, needed).ok()?;
    let exchange = CoreExchange::between(&source, &destination).ok()?;
    let bytes = |part: &TensorBox| count_stick_bytes(&form, part);
    let (mut local_bytes, mut remote_bytes) = (0, 0);
    let cores =
        [&source, &destination].into_iter().flat_map(|d| d.parts()).map(|(c, _)| c).max()?;
    let mut works = vec![CoreWork::default(); cores as usize + 1];
    for send in exchange.sends() {
        let size = bytes(&send.elements);
        works[send.source as usize].lx_bytes += size;
        for to in &send.destinations {
            let work = &mut works[*to as usize];
            work.lx_bytes += size;
            if *to == send.source {
                local_bytes += size;
            } else {
                work.ring_in += size;
                remote_bytes += size;
            }
        }
    }
    let mut boxes: Vec<&TensorBox> = exchange.sends().iter().map(|s| &s.elements).collect();
    boxes.sort();
    boxes.dedup();
    let ring = CoreNumber::try_from(options.hardware.figure_count(Key::Cores)).ok()?;
    // Elements on the busiest link as bytes of sticks: padding at the ends of sticks travels along.
    let elements = exchange.distinct_elements().unsigned_abs().max(1);
    let all = boxes.into_iter().map(bytes).sum::<u64>();
    let busiest = u128::from(exchange.ring_loads(ring).busiest().unsigned_abs());
    let link = (busiest * u128::from(all)).div_ceil(u128::from(elements));
    let work = ExchangeWork {
        carrier: ExchangeCarrier::Shuffle,
        bytes: all,
        source: measure_side(&form, &source),
        destination: measure_side(&form, &destination),
        link_bytes: u64::try_from(link).unwrap_or(u64::MAX),
    };
    let work = Rc::new(OperationWork::new("copy", WorkKind::Exchange(work), works));
    let copy = ScratchpadCopy { exchange, source, destination, remote_bytes, local_bytes };
    Some(PlannedCopy { copy, work })
}

fn to_box(part: &[Range<usize>]) -> Option<TensorBox> {
    let bound = |n: usize| i64::try_from(n).ok();
    let ranges = part.iter().map(|r| Some((bound(r.start)?, bound(r.end)?)));
    ranges.collect::<Option<Vec<_>>>().map(TensorBox::new)
}

/// Whether a part begins and ends with a whole stick, or ends with the tensor.
fn is_whole_sticks(form: &StickForm, part: &TensorBox) -> bool {
    let Some(stick) = form.stick else { return true };
    let (begin, end) = part.ranges()[stick];
    let (eps, size) = (form.eps as i64, form.size[stick] as i64);
    begin % eps == 0 && (end % eps == 0 || end == size)
}

/// Bytes of a part in whole sticks. A tensor without a stick dimension has one element in each.
pub(crate) fn count_stick_bytes(form: &StickForm, part: &TensorBox) -> u64 {
    let count = |(d, (begin, end)): (usize, &(i64, i64))| {
        let length = (end - begin).unsigned_abs();
        if form.stick == Some(d) { length.div_ceil(form.eps.max(1) as u64) } else { length }
    };
    part.ranges().iter().enumerate().map(count).product::<u64>() * STICK_BYTES
}

/// How the cores of a division cut the bytes of the tensor: the shortest run of consecutive bytes of a core, and of
/// equally short ones that of the most slices.
fn measure_side(form: &StickForm, division: &TensorDivision) -> ExchangeSide {
    let of_box = |part: &TensorBox| -> (u64, u64) {
        // Steps along the dimensions, the shortest first, each with the whole extent and that of the part.
        let mut steps: Vec<(u64, u64, u64)> = (0..form.size.len())
            .map(|d| {
                let (begin, end) = part.ranges()[d];
                let length = (end - begin).unsigned_abs();
                let (whole, own) = match form.stick == Some(d) {
                    true => {
                        let eps = form.eps.max(1) as u64;
                        ((form.size[d] as u64).div_ceil(eps), length.div_ceil(eps))
                    }
                    false => (form.size[d] as u64, length),
                };
                (form.stride[d] as u64, whole, own)
            })
            .filter(|(stride, whole, _)| *stride > 0 && *whole > 1)
            .collect();
        steps.sort_unstable();
        let mut run = form.eps.max(1) as u64;
        let mut adjacent = true;
        for (stride, whole, own) in steps {
            adjacent &= stride == run;
            if adjacent {
                run *= own;
            }
            // The first dimension of which the core has a part ends the run.
            if own < whole {
                return (run, whole.div_ceil(own.max(1)));
            }
        }
        (run, 1)
    };
    let boxes = division.parts().flat_map(|(_, own)| own);
    let shortest = boxes.map(of_box).min_by_key(|(run, split)| (*run, std::cmp::Reverse(*split)));
    let (run, split) = shortest.unwrap_or((1, 1));
    ExchangeSide {
        cores: division.parts().count() as u64,
        run_bytes: run * form.format.byte_size() as u64,
        split,
    }
}
