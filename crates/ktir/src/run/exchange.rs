//! Exchanges of partial results between cores.

use super::budget::{self, KtirRunBudget};
use super::core::KtirCore;
use super::error::{KtirFault, KtirRunError, WaitingCore};
use super::flow::KtirFrameKind;
use super::value::{KtirElements, KtirRunValue, element_count};
use crate::affine::KtirAffineSet;
use crate::ir::KtirOp;
use crate::op::KtirOpKind;
use crate::types::KtirType;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// The largest number of groups of an operation.
// There are 4096 cores at most, so groups beyond this number could only be empty.
const MAX_GROUPS: i64 = 1 << 16;

/// An executed produce: which operation, and how often the core has run it.
#[derive(Debug)]
pub(super) struct ProduceHandle {
    // The same operation runs again in every round of a loop, so its address alone would mix the
    // partials of different rounds; the second number counts the rounds of this core.
    key: (usize, u64),
    producers: KtirAffineSet,
    groups: KtirAffineSet,
}

/// Which produce operation, which execution of it, and which group.
type PartialKey = (usize, u64, i64);

/// The partials of every group, by the core that contributed them.
#[derive(Debug, Default)]
pub(super) struct PartialExchange {
    // Ordered by core, so that a reduction adds up in the order of the cores' numbers, not of their
    // arrival.
    posted: HashMap<PartialKey, BTreeMap<usize, Vec<Rc<KtirElements>>>>,
}

/// Builds the error of a run in which all cores wait.
pub(super) fn report_deadlock(cores: &[KtirCore<'_>]) -> KtirRunError {
    let waits = cores.iter().filter(|c| !c.is_done()).map(|c| WaitingCore {
        core: c.id,
        for_cores: c.waits.clone(),
        ended: c.waits.iter().copied().filter(|w| cores[*w].is_done()).collect(),
    });
    let waits: Vec<WaitingCore> = waits.collect();
    let first = cores.iter().find(|c| !c.is_done());
    let op = first
        .and_then(|c| c.calls.last())
        .and_then(|c| c.frames.last())
        .map(|f| &f.block.ops[f.pc]);
    KtirRunError {
        fault: KtirFault::Deadlock(waits),
        core: first.map(|c| c.id),
        op: op.map(|op| op.kind.name()),
        span: op.map_or(0..0, KtirOp::span),
    }
}

pub(super) fn find_group(
    set: &KtirAffineSet,
    groups: &KtirAffineSet,
    core: usize,
    meter: &KtirRunBudget,
) -> Result<Option<i64>, KtirFault> {
    let count = groups.bounding_box(&[]).and_then(|b| b.point_count()).filter(|n| *n <= MAX_GROUPS);
    let count = count.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    // Every group of the box is put into both sets below, so the work is charged before it is done.
    meter.take_element_steps(count * (1 + (set.count_nodes() + groups.count_nodes()) as u64))?;
    let all = groups
        .list_points(&[], MAX_GROUPS)
        .ok_or_else(|| KtirFault::Groups(format!("more than {MAX_GROUPS} groups")))?;
    let at = [i64::try_from(core).unwrap_or(i64::MAX)];
    let mut mine = all.iter().filter(|g| set.contains(&at, g)).map(|g| g[0]);
    let first = mine.next();
    // A second group would make the produce ambiguous; the dialect has one partial per core and
    // operation.
    match (first, mine.next()) {
        (Some(a), Some(b)) => {
            Err(KtirFault::Groups(format!("core {core} is in group {a} and in group {b}")))
        }
        _ => Ok(first),
    }
}

/// The order in which a core of a ring folds the partials of others: its own, then those that arrive from the core
/// before it, and so on around the ring.
pub(super) fn order_around_ring(from: &[usize], core: usize, cores: usize) -> Vec<usize> {
    let mut order = from.to_vec();
    order.sort_by_key(|p| (core + cores.max(1) - p) % cores.max(1));
    order
}

pub(super) fn list_group_members(
    set: &KtirAffineSet,
    symbols: &[i64],
    cores: usize,
    meter: &KtirRunBudget,
) -> Result<Vec<usize>, KtirFault> {
    meter.take_element_steps((cores * (1 + set.count_nodes())) as u64)?;
    let inside = |c: &usize| set.contains(&[i64::try_from(*c).unwrap_or(i64::MAX)], symbols);
    Ok((0..cores).filter(inside).collect())
}

impl<'m> KtirCore<'m> {
    pub(super) fn run_produce(&mut self, op: &'m KtirOp) -> Result<(), KtirFault> {
        let (Some(producers), KtirType::TileFuture(_, Some(groups))) =
            (op.set_attr("producer_tiles_per_group"), self.value_type(op.results[0]))
        else {
            return Err(KtirFault::Groups("a produce without its groups".into()));
        };
        let turn = self.turns.entry(std::ptr::from_ref(op)).or_insert(0);
        *turn += 1;
        let key = (std::ptr::from_ref(op).addr(), *turn);
        let handle = ProduceHandle { key, producers: producers.clone(), groups: groups.clone() };
        let handle = Rc::new(handle);
        match find_group(producers, groups, self.id, &self.meter)? {
            Some(group) => {
                let what = KtirFrameKind::Produce { op, handle, group };
                self.push_frame(&op.regions[0], vec![KtirRunValue::I(group)], what);
            }
            // A core that contributes nothing still gets the future, because it may be a consumer.
            None => self.leave_regions(op, vec![KtirRunValue::Future(handle)]),
        }
        Ok(())
    }

    /// Posts the partial results of this core for its group.
    pub(super) fn post_partials(
        &mut self,
        exchange: &mut PartialExchange,
        handle: &ProduceHandle,
        group: i64,
        values: &[KtirRunValue],
    ) -> Result<(), KtirFault> {
        let key = (handle.key.0, handle.key.1, group);
        let partials: Vec<Rc<KtirElements>> =
            values.iter().map(KtirRunValue::to_elements).collect();
        // It is not known which cores still need them, so they are kept until the run ends. 64
        // bytes stand for the entries of both maps and the counter of references.
        let bytes = partials.iter().map(|d| 64 + 8 * d.len() as u64).sum();
        self.meter.take_bytes(bytes)?;
        exchange.posted.entry(key).or_default().insert(self.id, partials);
        Ok(())
    }

    /// Receives partial results if all of them are there; returns false if the core has to wait.
    pub(super) fn run_delivery(
        &mut self,
        op: &'m KtirOp,
        exchange: &PartialExchange,
    ) -> Result<bool, KtirFault> {
        let KtirRunValue::Future(handle) = self.read_value(op.operands[0])? else {
            return Err(KtirFault::Groups("a delivery without a future".into()));
        };
        let KtirType::TileFuture(types, _) = self.value_type(op.operands[0]) else {
            return Err(KtirFault::Groups("a delivery without a future".into()));
        };
        let Some(consumers) = op.set_attr("consumer_tiles_per_group") else {
            return Err(KtirFault::Groups("a delivery without consumers".into()));
        };
        let Some(group) = find_group(consumers, &handle.groups, self.id, &self.meter)? else {
            return self.deliver_nothing(op).map(|()| true);
        };
        let mut from = list_group_members(&handle.producers, &[group], self.cores, &self.meter)?;
        if let Some(needs) = op.set_attr("producer_dependency_per_consumer") {
            let me = i64::try_from(self.id).unwrap_or(i64::MAX);
            let wanted = list_group_members(needs, &[me, group], self.cores, &self.meter)?;
            // Members are listed in increasing order, which is what the binary search needs.
            from.retain(|p| wanted.binary_search(p).is_ok());
        }
        let posted = exchange.posted.get(&(handle.key.0, handle.key.1, group));
        let has = |p: &usize| posted.is_some_and(|all| all.contains_key(p));
        self.waits = from.iter().copied().filter(|p| !has(p)).collect();
        // Nothing was changed yet, so the same operation simply runs again when this core has its
        // next turn.
        if !self.waits.is_empty() {
            return Ok(false);
        }
        let partials: Vec<Vec<Rc<KtirElements>>> =
            from.iter().filter_map(|p| posted.and_then(|all| all.get(p)).cloned()).collect();
        let place = list_group_members(consumers, &[group], self.cores, &self.meter)?;
        let position = place.iter().position(|c| *c == self.id).unwrap_or(0);
        let sent = types.iter().map(super::value::bytes_in_scratchpad).fold(0, u64::saturating_add);
        let arrived = types.iter().map(budget::count_elements).fold(0, u64::saturating_add);
        // Charged only now: a core that waits would otherwise pay at every attempt.
        self.meter.take_element_steps(arrived.saturating_mul(partials.len() as u64))?;
        self.ledger.begin_op(op.kind.name());
        self.ledger.record_send(sent, partials.len());
        self.ledger.end_op();
        let shapes: Vec<&[i64]> = types.iter().map(|t| t.shape().unwrap_or(&[])).collect();
        let dim = |key: &str| {
            op.ints_attr(key)
                .and_then(|d| d.first())
                .and_then(|d| usize::try_from(*d).ok())
                .unwrap_or(0)
        };
        match op.kind {
            KtirOpKind::InterReduce | KtirOpKind::ReduceScatter => {
                let share = (place.len(), position);
                let order = order_around_ring(&from, self.id, self.cores);
                let mut rest: VecDeque<Vec<Rc<KtirElements>>> = order
                    .iter()
                    .filter_map(|p| posted.and_then(|all| all.get(p)).cloned())
                    .collect();
                // A core begins with its own partial. One that has none begins with the identity, as upstream.
                let own = if from.contains(&self.id) { rest.pop_front() } else { None };
                match own {
                    Some(first) => self.combine_partials(op, &first, rest, share)?,
                    None if rest.is_empty() => self.deliver_nothing(op)?,
                    None => {
                        let first = op.operands[1..]
                            .iter()
                            .map(|v| Ok(self.read_value(*v)?.to_elements()))
                            .collect::<Result<Vec<_>, KtirFault>>()?;
                        self.combine_partials(op, &first, rest, share)?;
                    }
                }
            }
            KtirOpKind::Consume | KtirOpKind::Scatter => {
                // Consume and scatter deliver the values of a single producer; with several it
                // would not be defined which one.
                let [only] = partials.as_slice() else {
                    let n = partials.len();
                    let me = self.id;
                    return Err(KtirFault::Groups(format!(
                        "core {me} receives from {n} producers of group {group}, needs one"
                    )));
                };
                let mut out = Vec::new();
                for (data, shape) in only.iter().zip(&shapes) {
                    out.push(if op.kind == KtirOpKind::Scatter {
                        Rc::new(split_along(
                            data,
                            shape,
                            dim("scatter_dimensions"),
                            place.len(),
                            position,
                        )?)
                    } else {
                        data.clone()
                    });
                }
                self.receive_results(op, out)?;
            }
            _ => {
                let mut out = Vec::new();
                for (role, shape) in shapes.iter().enumerate() {
                    let mut pieces = Vec::new();
                    let mut each = shape.to_vec();
                    for p in &partials {
                        let data = &p[role];
                        if op.kind == KtirOpKind::AllToAll {
                            let d = dim("split_dimensions");
                            pieces.push(Rc::new(split_along(
                                data,
                                shape,
                                d,
                                place.len(),
                                position,
                            )?));
                            // Each consumer gets an equal piece of every partial, so the pieces
                            // that arrive have this shape.
                            each[d] = shape[d] / i64::try_from(place.len()).unwrap_or(1).max(1);
                        } else {
                            pieces.push(data.clone());
                        }
                    }
                    let result = self.value_type(op.results[role]);
                    self.check_tile_room(result)?;
                    let arrive = pieces.iter().map(|p: &Rc<KtirElements>| p.len()).sum();
                    self.check_delivered_size(arrive, result)?;
                    let along = if op.kind == KtirOpKind::Gather {
                        "gather_dimensions"
                    } else {
                        "concat_dimensions"
                    };
                    out.push(Rc::new(join_along(&pieces, &each, dim(along))));
                }
                self.receive_results(op, out)?;
            }
        }
        Ok(true)
    }

    /// Gives a core that receives nothing the identity, or zeros.
    fn deliver_nothing(&mut self, op: &'m KtirOp) -> Result<(), KtirFault> {
        let mut out = Vec::new();
        for (i, v) in op.results.iter().enumerate() {
            let ty = self.value_type(*v);
            self.check_tile_room(ty)?;
            let n = element_count(ty.shape().unwrap_or(&[]));
            // Reductions have an identity for each partial, and the other exchanges have none.
            let data = match op.operands.get(1 + i) {
                Some(identity) => self.read_value(*identity)?.to_elements(),
                None => Rc::new(KtirElements::zeros(self.value_elem(*v), n)),
            };
            // A reduce-scatter's result is one piece of the identity's shape, so the identity
            // itself may not fit.
            out.push(if data.len() == n {
                data
            } else {
                Rc::new(KtirElements::zeros(self.value_elem(*v), n))
            });
        }
        self.receive_results(op, out)
    }

    /// Refuses a delivery with another number of elements than the result has.
    fn check_delivered_size(&self, have: usize, ty: &KtirType) -> Result<(), KtirFault> {
        let n = element_count(ty.shape().unwrap_or(&[]));
        if have == n {
            return Ok(());
        }
        Err(KtirFault::Groups(format!("{have} elements arrive for the {n} of {ty}")))
    }

    /// Stores the results of a delivery.
    fn receive_results(
        &mut self,
        op: &'m KtirOp,
        data: Vec<Rc<KtirElements>>,
    ) -> Result<(), KtirFault> {
        let mut out = Vec::new();
        for (v, data) in op.results.iter().zip(data) {
            let ty = self.value_type(*v);
            self.check_delivered_size(data.len(), ty)?;
            out.push(self.make_shared_tile(ty, data)?);
        }
        // The list is what a deadlock is reported from, so it must not outlive the wait.
        self.waits.clear();
        self.leave_regions(op, out);
        Ok(())
    }

    /// Combines the result so far with the next partial, or finishes the reduction.
    pub(super) fn combine_partials(
        &mut self,
        op: &'m KtirOp,
        so_far: &[Rc<KtirElements>],
        mut rest: VecDeque<Vec<Rc<KtirElements>>>,
        share: (usize, usize),
    ) -> Result<(), KtirFault> {
        let KtirType::TileFuture(types, _) = self.value_type(op.operands[0]) else {
            return Err(KtirFault::Groups("a delivery without a future".into()));
        };
        let Some(next) = rest.pop_front() else {
            let mut out = Vec::new();
            for (data, ty) in so_far.iter().zip(types) {
                let dims = op.ints_attr("scatter_dimensions").and_then(|d| d.first());
                out.push(match dims.and_then(|d| usize::try_from(*d).ok()) {
                    Some(d) => {
                        Rc::new(split_along(data, ty.shape().unwrap_or(&[]), d, share.0, share.1)?)
                    }
                    None => data.clone(),
                });
            }
            return self.receive_results(op, out);
        };
        let mut args = Vec::new();
        for (data, ty) in so_far.iter().chain(&next).zip(types.iter().chain(types)) {
            args.push(self.make_shared_tile(ty, data.clone())?);
        }
        self.push_frame(&op.regions[0], args, KtirFrameKind::Combine { op, rest, share });
        Ok(())
    }
}

/// Piece `index` of `parts` along a dimension.
fn split_along(
    data: &KtirElements,
    shape: &[i64],
    dim: usize,
    parts: usize,
    index: usize,
) -> Result<KtirElements, KtirFault> {
    let n = usize::try_from(shape[dim]).unwrap_or(0);
    if parts == 0 || !n.is_multiple_of(parts) {
        return Err(KtirFault::Groups(format!("{n} elements do not divide among {parts} cores")));
    }
    let inner: usize = element_count(&shape[dim + 1..]);
    let outer: usize = element_count(&shape[..dim]);
    let each = n / parts * inner;
    // A piece without elements may still have a huge number of outer positions.
    let outer = if each == 0 { 0 } else { outer };
    let at = (0..outer).flat_map(|o| {
        let from = o * n * inner + index * each;
        from..from + each
    });
    Ok(data.gather(at))
}

/// Concatenates pieces of one shape along a dimension.
fn join_along(pieces: &[Rc<KtirElements>], shape: &[i64], dim: usize) -> KtirElements {
    let Some(first) = pieces.first() else { return KtirElements::I(Vec::new()) };
    let chunk: usize = element_count(&shape[dim..]);
    let mut out = first.slice_range(0..0);
    let outer = if chunk == 0 { 0 } else { element_count(&shape[..dim]) };
    for o in 0..outer {
        for p in pieces {
            out.append(&p.slice_range(o * chunk..(o + 1) * chunk));
        }
    }
    out
}
