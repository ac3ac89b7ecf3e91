//! What cores tell each other.

use super::budget::{self, Meter};
use super::core::Core;
use super::error::{Fault, RunError, Waits};
use super::flow::What;
use super::value::{Data, Val, count};
use crate::affine::Set;
use crate::ir::Op;
use crate::op::Kind;
use crate::types::Type;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// Groups that an operation may have.
const GROUPS: i64 = 1 << 16;

/// A produce that was run: which one, for which time.
#[derive(Debug)]
pub(super) struct Handle {
    key: (usize, u64),
    producers: Set,
    groups: Set,
}

/// Which produce, for which time, of which group.
type Key = (usize, u64, i64);

/// The partials of every group, by the core that contributed them.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    posted: HashMap<Key, BTreeMap<usize, Vec<Rc<Data>>>>,
}

/// The report of cores that all wait.
pub(super) fn deadlock(cores: &[Core<'_>]) -> RunError {
    let waits = cores.iter().filter(|c| !c.is_done()).map(|c| Waits {
        core: c.id,
        for_cores: c.waits.clone(),
        ended: c.waits.iter().copied().filter(|w| cores[*w].is_done()).collect(),
    });
    let waits: Vec<Waits> = waits.collect();
    let first = cores.iter().find(|c| !c.is_done());
    let op = first
        .and_then(|c| c.calls.last())
        .and_then(|c| c.frames.last())
        .map(|f| &f.block.ops[f.pc]);
    RunError {
        fault: Fault::Deadlock(waits),
        core: first.map(|c| c.id),
        op: op.map(|op| op.kind.name()),
        span: op.map_or(0..0, Op::span),
    }
}

fn groups_of(set: &Set, groups: &Set, core: usize, meter: &Meter) -> Result<Option<i64>, Fault> {
    let count = groups.bounds(&[]).and_then(|b| b.points()).filter(|n| *n <= GROUPS);
    let count = count.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    meter.elements(count * (1 + (set.nodes() + groups.nodes()) as u64))?;
    let all = groups
        .points(&[], GROUPS)
        .ok_or_else(|| Fault::Groups(format!("more than {GROUPS} groups")))?;
    let at = [i64::try_from(core).unwrap_or(i64::MAX)];
    let mut mine = all.iter().filter(|g| set.contains(&at, g)).map(|g| g[0]);
    let first = mine.next();
    match (first, mine.next()) {
        (Some(a), Some(b)) => {
            Err(Fault::Groups(format!("core {core} is in group {a} and in group {b}")))
        }
        _ => Ok(first),
    }
}

fn members(set: &Set, symbols: &[i64], cores: usize, meter: &Meter) -> Result<Vec<usize>, Fault> {
    meter.elements((cores * (1 + set.nodes())) as u64)?;
    let inside = |c: &usize| set.contains(&[i64::try_from(*c).unwrap_or(i64::MAX)], symbols);
    Ok((0..cores).filter(inside).collect())
}

impl<'m> Core<'m> {
    pub(super) fn produce(&mut self, op: &'m Op) -> Result<(), Fault> {
        let (Some(producers), Type::TileFuture(_, Some(groups))) =
            (op.set("producer_tiles_per_group"), self.ty(op.results[0]))
        else {
            return Err(Fault::Groups("a produce without its groups".into()));
        };
        let turn = self.turns.entry(std::ptr::from_ref(op)).or_insert(0);
        *turn += 1;
        let key = (std::ptr::from_ref(op).addr(), *turn);
        let handle = Handle { key, producers: producers.clone(), groups: groups.clone() };
        let handle = Rc::new(handle);
        match groups_of(producers, groups, self.id, &self.meter)? {
            Some(group) => {
                let what = What::Produce { op, handle, group };
                self.push(&op.regions[0], vec![Val::I(group)], what);
            }
            None => self.leave(op, vec![Val::Future(handle)]),
        }
        Ok(())
    }

    /// Partials of this core for its group.
    pub(super) fn post(
        &mut self,
        exchange: &mut Exchange,
        handle: &Handle,
        group: i64,
        values: &[Val],
    ) -> Result<(), Fault> {
        let key = (handle.key.0, handle.key.1, group);
        let partials: Vec<Rc<Data>> = values.iter().map(Val::data).collect();
        // Who still comes for them is not known, so they stay.
        let bytes = partials.iter().map(|d| 64 + 8 * d.len() as u64).sum();
        self.meter.keep(bytes)?;
        exchange.posted.entry(key).or_default().insert(self.id, partials);
        Ok(())
    }

    /// Receives, or waits: whether it went on.
    pub(super) fn deliver(&mut self, op: &'m Op, exchange: &Exchange) -> Result<bool, Fault> {
        let Val::Future(handle) = self.get(op.operands[0])? else {
            return Err(Fault::Groups("a delivery without a future".into()));
        };
        let Type::TileFuture(types, _) = self.ty(op.operands[0]) else {
            return Err(Fault::Groups("a delivery without a future".into()));
        };
        let Some(consumers) = op.set("consumer_tiles_per_group") else {
            return Err(Fault::Groups("a delivery without consumers".into()));
        };
        let Some(group) = groups_of(consumers, &handle.groups, self.id, &self.meter)? else {
            return self.nothing(op).map(|()| true);
        };
        let mut from = members(&handle.producers, &[group], self.cores, &self.meter)?;
        if let Some(needs) = op.set("producer_dependency_per_consumer") {
            let me = i64::try_from(self.id).unwrap_or(i64::MAX);
            let wanted = members(needs, &[me, group], self.cores, &self.meter)?;
            from.retain(|p| wanted.binary_search(p).is_ok());
        }
        let posted = exchange.posted.get(&(handle.key.0, handle.key.1, group));
        let has = |p: &usize| posted.is_some_and(|all| all.contains_key(p));
        self.waits = from.iter().copied().filter(|p| !has(p)).collect();
        if !self.waits.is_empty() {
            return Ok(false);
        }
        let partials: Vec<Vec<Rc<Data>>> =
            from.iter().filter_map(|p| posted.and_then(|all| all.get(p)).cloned()).collect();
        let place = members(consumers, &[group], self.cores, &self.meter)?;
        let position = place.iter().position(|c| *c == self.id).unwrap_or(0);
        let sent = types.iter().map(super::value::bytes).fold(0, u64::saturating_add);
        let arrived = types.iter().map(budget::elements).fold(0, u64::saturating_add);
        self.meter.elements(arrived.saturating_mul(partials.len() as u64))?;
        self.ledger.begin(op.kind.name());
        self.ledger.send(sent, partials.len());
        self.ledger.end();
        let shapes: Vec<&[i64]> = types.iter().map(|t| t.shape().unwrap_or(&[])).collect();
        let dim = |key: &str| {
            op.ints(key).and_then(|d| d.first()).and_then(|d| usize::try_from(*d).ok()).unwrap_or(0)
        };
        match op.kind {
            Kind::InterReduce | Kind::ReduceScatter => {
                let share = (place.len(), position);
                let mut rest = VecDeque::from(partials);
                match rest.pop_front() {
                    None => self.nothing(op)?,
                    Some(first) => self.combine(op, &first, rest, share)?,
                }
            }
            Kind::Consume | Kind::Scatter => {
                let [only] = partials.as_slice() else {
                    let n = partials.len();
                    let me = self.id;
                    return Err(Fault::Groups(format!(
                        "core {me} receives from {n} producers of group {group}, needs one"
                    )));
                };
                let mut out = Vec::new();
                for (data, shape) in only.iter().zip(&shapes) {
                    out.push(if op.kind == Kind::Scatter {
                        Rc::new(part(
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
                self.receive(op, out)?;
            }
            _ => {
                let mut out = Vec::new();
                for (role, shape) in shapes.iter().enumerate() {
                    let mut pieces = Vec::new();
                    let mut each = shape.to_vec();
                    for p in &partials {
                        let data = &p[role];
                        if op.kind == Kind::AllToAll {
                            let d = dim("split_dimensions");
                            pieces.push(Rc::new(part(data, shape, d, place.len(), position)?));
                            each[d] = shape[d] / i64::try_from(place.len()).unwrap_or(1).max(1);
                        } else {
                            pieces.push(data.clone());
                        }
                    }
                    let result = self.ty(op.results[role]);
                    self.room(result)?;
                    let arrive = pieces.iter().map(|p: &Rc<Data>| p.len()).sum();
                    self.arrives(arrive, result)?;
                    let along = if op.kind == Kind::Gather {
                        "gather_dimensions"
                    } else {
                        "concat_dimensions"
                    };
                    out.push(Rc::new(join(&pieces, &each, dim(along))));
                }
                self.receive(op, out)?;
            }
        }
        Ok(true)
    }

    /// What a core that receives nothing holds: the identity, or zeros.
    fn nothing(&mut self, op: &'m Op) -> Result<(), Fault> {
        let mut out = Vec::new();
        for (i, v) in op.results.iter().enumerate() {
            let ty = self.ty(*v);
            self.room(ty)?;
            let n = count(ty.shape().unwrap_or(&[]));
            let data = match op.operands.get(1 + i) {
                Some(identity) => self.get(*identity)?.data(),
                None => Rc::new(Data::zeros(self.elem(*v), n)),
            };
            out.push(if data.len() == n { data } else { Rc::new(Data::zeros(self.elem(*v), n)) });
        }
        self.receive(op, out)
    }

    /// Refuses another number of elements than a result has.
    fn arrives(&self, have: usize, ty: &Type) -> Result<(), Fault> {
        let n = count(ty.shape().unwrap_or(&[]));
        if have == n {
            return Ok(());
        }
        Err(Fault::Groups(format!("{have} elements arrive for the {n} of {ty}")))
    }

    /// Results of a delivery.
    fn receive(&mut self, op: &'m Op, data: Vec<Rc<Data>>) -> Result<(), Fault> {
        let mut out = Vec::new();
        for (v, data) in op.results.iter().zip(data) {
            let ty = self.ty(*v);
            self.arrives(data.len(), ty)?;
            out.push(self.tile_of(ty, data)?);
        }
        self.waits.clear();
        self.leave(op, out);
        Ok(())
    }

    /// Combines what is there with the next partial, or ends.
    pub(super) fn combine(
        &mut self,
        op: &'m Op,
        so_far: &[Rc<Data>],
        mut rest: VecDeque<Vec<Rc<Data>>>,
        share: (usize, usize),
    ) -> Result<(), Fault> {
        let Type::TileFuture(types, _) = self.ty(op.operands[0]) else {
            return Err(Fault::Groups("a delivery without a future".into()));
        };
        let Some(next) = rest.pop_front() else {
            let mut out = Vec::new();
            for (data, ty) in so_far.iter().zip(types) {
                let dims = op.ints("scatter_dimensions").and_then(|d| d.first());
                out.push(match dims.and_then(|d| usize::try_from(*d).ok()) {
                    Some(d) => Rc::new(part(data, ty.shape().unwrap_or(&[]), d, share.0, share.1)?),
                    None => data.clone(),
                });
            }
            return self.receive(op, out);
        };
        let mut args = Vec::new();
        for (data, ty) in so_far.iter().chain(&next).zip(types.iter().chain(types)) {
            args.push(self.tile_of(ty, data.clone())?);
        }
        self.push(&op.regions[0], args, What::Combine { op, rest, share });
        Ok(())
    }
}

/// Piece `index` of `parts` along a dimension.
fn part(data: &Data, shape: &[i64], dim: usize, parts: usize, index: usize) -> Result<Data, Fault> {
    let n = usize::try_from(shape[dim]).unwrap_or(0);
    if parts == 0 || !n.is_multiple_of(parts) {
        return Err(Fault::Groups(format!("{n} elements do not divide among {parts} cores")));
    }
    let inner: usize = count(&shape[dim + 1..]);
    let outer: usize = count(&shape[..dim]);
    let each = n / parts * inner;
    // An empty piece may be cut out of a huge number of places.
    let outer = if each == 0 { 0 } else { outer };
    let at = (0..outer).flat_map(|o| {
        let from = o * n * inner + index * each;
        from..from + each
    });
    Ok(data.gather(at))
}

/// Pieces of one shape joined along a dimension.
fn join(pieces: &[Rc<Data>], shape: &[i64], dim: usize) -> Data {
    let Some(first) = pieces.first() else { return Data::I(Vec::new()) };
    let chunk: usize = count(&shape[dim..]);
    let mut out = first.slice(0..0);
    let outer = if chunk == 0 { 0 } else { count(&shape[..dim]) };
    for o in 0..outer {
        for p in pieces {
            out.append(&p.slice(o * chunk..(o + 1) * chunk));
        }
    }
    out
}
