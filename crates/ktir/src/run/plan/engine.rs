//! Runs the steps of a planned kernel on one core.

use super::super::access::{KtirByteSpace, KtirView, KtirViewPart, resolve_space};
use super::super::budget::{KtirRunBudget, host_bytes};
use super::super::cost::KtirCoreLedger;
use super::super::error::KtirFault;
use super::super::exchange::{find_group, list_group_members, order_around_ring};
use super::super::pointwise;
use super::super::value::{KtirElements, nest_offsets, row_major_strides};
use super::arena::{NO_TILE, TileArena, TileData};
use super::lanes::{self, LaneBinary, LaneOperand};
use super::program::{
    Body, BodyOperand, BodyWork, ExchangeOp, Place, Pointwise, Program, SliceOffset, Step,
    TileKind, TreeFold,
};
use super::store::{SharedMemory, WrittenRows};
use crate::affine::KtirSetBounds;
use crate::op::KtirOpKind;
use crate::types::KtirElem;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use zellige_math::map1;

/// A view while a kernel runs.
#[derive(Debug, Clone)]
pub(super) struct ViewSlot {
    pub(super) view: Arc<KtirView>,
    /// The exact box of each part's coordinates, where it is one.
    pub(super) bounds: Vec<Option<KtirSetBounds>>,
}

/// A produce that was executed: which one, and how often.
#[derive(Debug, Clone, Copy)]
struct FutureSlot {
    op: u32,
    turn: u64,
}

/// Which produce, which execution of it, and which group.
type PartialKey = (u32, u64, i64);

/// Partial results by the core that contributed them.
#[derive(Debug, Default)]
pub(super) struct PlannedExchange {
    posted: HashMap<PartialKey, BTreeMap<usize, Vec<Arc<KtirElements>>>>,
}

/// A reduction that is being combined.
#[derive(Debug)]
struct Combining {
    rest: VecDeque<Vec<Arc<KtirElements>>>,
}

/// The state of a core.
#[derive(Debug)]
pub(super) struct PlannedCore {
    pub(super) id: usize,
    pub(super) pc: usize,
    pub(super) done: bool,
    pub(super) ints: Vec<i64>,
    pub(super) floats: Vec<f32>,
    slots: Vec<u32>,
    pub(super) views: Vec<Option<ViewSlot>>,
    pub(super) bases: Vec<Vec<i64>>,
    futures: Vec<Option<FutureSlot>>,
    turns: Vec<u64>,
    groups: Vec<i64>,
    combining: Vec<Combining>,
    used: u64,
    pub(super) capacity: u64,
    pub(super) ledger: KtirCoreLedger,
    pub(super) waits: Vec<usize>,
}

impl PlannedCore {
    pub(super) fn new(
        program: &Program,
        id: usize,
        capacity: u64,
        ledger: KtirCoreLedger,
    ) -> PlannedCore {
        PlannedCore {
            id,
            pc: 0,
            done: false,
            ints: vec![0; program.ints as usize],
            floats: vec![0.0; program.floats as usize],
            slots: vec![NO_TILE; program.tiles as usize],
            views: vec![None; program.views as usize],
            bases: vec![Vec::new(); program.accesses.len()],
            futures: vec![None; program.futures as usize],
            turns: vec![0; program.exchanges.len()],
            groups: vec![0; program.exchanges.len()],
            combining: Vec::new(),
            used: 0,
            capacity,
            ledger,
            waits: Vec::new(),
        }
    }

    fn grid_coordinate(&self, grid: &[i64], d: usize) -> i64 {
        let size = |d: usize| grid.get(d).copied().unwrap_or(1);
        let before: i64 = (0..d).map(size).product();
        i64::try_from(self.id).unwrap_or(0) / before % size(d)
    }
}

/// An operand of an operation on elements.
#[derive(Debug, Clone, Copy)]
enum Source {
    Data(u32),
    Float(f32),
    Int(i64),
}

/// Scratch lists of the accesses.
#[derive(Debug, Default)]
pub(super) struct TransferScratch {
    pub(super) pieces: Vec<super::store::Piece>,
    pub(super) sticks: Vec<(i64, i64)>,
    pub(super) index: Vec<Vec<(KtirByteSpace, i64)>>,
}

/// Everything that one core works with.
pub(super) struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) memory: &'a SharedMemory,
    pub(super) meter: &'a Rc<KtirRunBudget>,
    pub(super) arena: &'a mut TileArena,
    pub(super) core: &'a mut PlannedCore,
    pub(super) exchange: &'a mut PlannedExchange,
    pub(super) written: &'a mut Vec<WrittenRows>,
    pub(super) scratch: &'a mut TransferScratch,
    /// The element types of the index views of the last access.
    pub(super) scratch_elems: Vec<KtirElem>,
    /// Whether the lengths of bursts matter.
    pub(super) exact_bursts: bool,
}

impl Machine<'_> {
    /// Runs until the core has ended or has to wait; returns whether it did anything.
    pub(super) fn run_until_blocked(&mut self) -> Result<bool, (KtirFault, usize)> {
        let mut moved = false;
        let program = self.program;
        while !self.core.done {
            let pc = self.core.pc;
            let fail = |fault: KtirFault| (fault, pc);
            self.meter.take_steps(program.sites[pc].steps).map_err(fail)?;
            match self.run_step(&program.steps[pc], pc) {
                Ok(true) => moved = true,
                Ok(false) => return Ok(moved),
                Err(fault) => return Err((fault, pc)),
            }
            let grown = self.core.ledger.take_grown_bytes();
            if grown > 0 {
                self.meter.take_bytes(grown).map_err(fail)?;
            }
        }
        Ok(moved)
    }

    /// Goes on with the next step, after dropping what dies here.
    #[inline]
    fn finish(&mut self, pc: usize) {
        self.drop_dead(pc);
        self.core.pc = pc + 1;
    }

    fn drop_dead(&mut self, pc: usize) {
        for slot in &self.program.sites[pc].dead {
            self.clear_slot(*slot);
        }
    }

    fn clear_slot(&mut self, slot: u32) {
        let tile = std::mem::replace(&mut self.core.slots[slot as usize], NO_TILE);
        self.release(tile);
    }

    fn release(&mut self, tile: u32) {
        if tile != NO_TILE {
            let (charge, host) = self.arena.drop_tile(tile);
            self.core.used -= charge;
            self.meter.return_bytes(host);
        }
    }

    fn check_room(&self, tile: &TileKind) -> Result<(), KtirFault> {
        let (bytes, used) = (tile.charge, self.core.used);
        if used.saturating_add(bytes) > self.core.capacity {
            let capacity = self.core.capacity;
            return Err(KtirFault::LxOverflow { tile: tile.ty.to_string(), bytes, used, capacity });
        }
        // As the plain interpreter asks: four times the tile, for intermediate results.
        self.meter.check_room(host_bytes(tile.elem, tile.len as u64).saturating_mul(4))
    }

    /// Makes a tile of elements whose reference it takes over, and names it.
    fn bind(&mut self, to: u32, data: u32, tile: &TileKind) -> Result<(), KtirFault> {
        let handle = self.make_tile(data, tile)?;
        let before = std::mem::replace(&mut self.core.slots[to as usize], handle);
        self.release(before);
        Ok(())
    }

    fn make_tile(&mut self, data: u32, tile: &TileKind) -> Result<u32, KtirFault> {
        self.check_room(tile)?;
        let host = host_bytes(tile.elem, tile.len as u64);
        self.meter.take_bytes(host)?;
        self.core.used += tile.charge;
        self.core.ledger.record_peak(self.core.used);
        Ok(self.arena.make_tile(data, tile.charge, host))
    }

    pub(super) fn take_data(&mut self, class: u32) -> u32 {
        self.arena.take_data(class, self.program.classes[class as usize])
    }

    fn data_at(&self, slot: u32) -> u32 {
        self.arena.data_of(self.core.slots[slot as usize])
    }

    fn data(&self, at: u32) -> &TileData {
        &self.arena.data[at as usize]
    }

    /// Values that a block hands over: all are read before any is written, as names may be exchanged.
    fn move_values(&mut self, moves: &[(Place, Place)], dead: Option<usize>) {
        let mut ints = [0_i64; 8];
        let mut tiles = [NO_TILE; 8];
        let mut floats = [0.0_f32; 8];
        if moves.len() > 8 {
            return self.move_many(moves, dead);
        }
        for (i, (from, _)) in moves.iter().enumerate() {
            match from {
                Place::Int(r) => ints[i] = self.core.ints[*r as usize],
                Place::Float(r) => floats[i] = self.core.floats[*r as usize],
                Place::Tile(t) => {
                    tiles[i] = self.core.slots[*t as usize];
                    self.arena.keep_tile(tiles[i]);
                }
                _ => {}
            }
        }
        if let Some(pc) = dead {
            self.drop_dead(pc);
        }
        for (i, (_, to)) in moves.iter().enumerate() {
            self.set_moved(*to, ints[i], floats[i], tiles[i]);
        }
    }

    fn move_many(&mut self, moves: &[(Place, Place)], dead: Option<usize>) {
        let mut values = Vec::with_capacity(moves.len());
        for (from, _) in moves {
            values.push(match from {
                Place::Int(r) => (self.core.ints[*r as usize], 0.0, NO_TILE),
                Place::Float(r) => (0, self.core.floats[*r as usize], NO_TILE),
                Place::Tile(t) => {
                    let tile = self.core.slots[*t as usize];
                    self.arena.keep_tile(tile);
                    (0, 0.0, tile)
                }
                _ => (0, 0.0, NO_TILE),
            });
        }
        if let Some(pc) = dead {
            self.drop_dead(pc);
        }
        for ((_, to), (int, float, tile)) in moves.iter().zip(values) {
            self.set_moved(*to, int, float, tile);
        }
    }

    fn set_moved(&mut self, to: Place, int: i64, float: f32, tile: u32) {
        match to {
            Place::Int(r) => self.core.ints[r as usize] = int,
            Place::Float(r) => self.core.floats[r as usize] = float,
            Place::Tile(t) => {
                let before = std::mem::replace(&mut self.core.slots[t as usize], tile);
                self.release(before);
            }
            _ => {}
        }
    }

    fn offset(&self, n: &SliceOffset) -> i64 {
        match n {
            SliceOffset::Fixed(n) => *n,
            SliceOffset::Register(r) => self.core.ints[*r as usize],
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each step")]
    fn run_step(&mut self, step: &Step, pc: usize) -> Result<bool, KtirFault> {
        let site = &self.program.sites[pc];
        match step {
            Step::Int { to, value } => self.core.ints[*to as usize] = *value,
            Step::Float { to, value } => self.core.floats[*to as usize] = *value,
            Step::ConstantTile { to, constant, tile } => {
                self.check_room(tile)?;
                let data = self.arena.constants[*constant as usize];
                self.arena.keep_data(data);
                self.bind(*to, data, tile)?;
            }
            Step::TileId { to } => {
                for (r, d) in to {
                    self.core.ints[*r as usize] = self.core.grid_coordinate(&self.program.grid, *d);
                }
            }
            Step::IntPair { kind, elem, a, b, to } => {
                let (a, b) = (self.core.ints[*a as usize], self.core.ints[*b as usize]);
                self.core.ints[*to as usize] = pointwise::apply_integer_op(*kind, a, b, *elem)?;
                self.core.ledger.record_elements(*kind, 1, true);
            }
            Step::Point { work, operands, to, tile, cost } => {
                self.run_point(work, operands, *to, tile.as_ref(), *cost, site.lx_bytes)?;
            }
            Step::Apply { index, to } => {
                let value =
                    index.evaluate(&self.core.ints).ok_or(KtirFault::Overflow("an index"))?;
                self.core.ints[*to as usize] = value;
            }
            Step::MemoryView { base, to, elem, sizes, strides, space, set, bounds } => {
                let shape: Vec<i64> = sizes.iter().map(|n| self.offset(n)).collect();
                let strides = strides.iter().map(|n| self.offset(n)).collect();
                let dynamic = sizes.iter().filter(|n| matches!(n, SliceOffset::Register(_)));
                let symbols: Vec<i64> = dynamic.map(|n| self.offset(n)).collect();
                let bounds = match (bounds, set) {
                    (Some(bounds), _) => Some(bounds.clone()),
                    (None, Some(set)) => set.bounding_box(&symbols),
                    _ => None,
                };
                let coordinates = match (set, &bounds) {
                    (Some(set), Some(b)) => Some((set.clone(), symbols, b.low.clone())),
                    _ => None,
                };
                let place = resolve_space(*space, self.core.id);
                let base = self.core.ints[*base as usize];
                let part = KtirViewPart { base, strides, place, coordinates };
                let view = KtirView { elem: *elem, shape, parts: vec![part], joined: false };
                let bounds = vec![bounds.filter(|b| b.exact)];
                self.core.views[*to as usize] = Some(ViewSlot { view: Arc::new(view), bounds });
            }
            Step::JoinedView { parts, to, elem, shape } => {
                let (mut all, mut bounds) = (Vec::new(), Vec::new());
                for part in parts {
                    if let Some(slot) = &self.core.views[*part as usize] {
                        all.extend(slot.view.parts.iter().cloned());
                        bounds.extend(slot.bounds.iter().cloned());
                    }
                }
                let view = KtirView { elem: *elem, shape: shape.clone(), parts: all, joined: true };
                self.core.views[*to as usize] = Some(ViewSlot { view: Arc::new(view), bounds });
            }
            Step::Access { to, indices, base_map } => {
                let far = || KtirFault::Overflow("a coordinate");
                let mut base = std::mem::take(&mut self.core.bases[*to as usize]);
                base.clear();
                for index in indices {
                    base.push(index.evaluate(&self.core.ints).ok_or_else(far)?);
                }
                if let Some(map) = base_map {
                    base = map.evaluate_at(&base, &[]).ok_or_else(far)?;
                }
                self.core.bases[*to as usize] = base;
            }
            Step::IndirectAccess => {}
            Step::Load { access, shape, tile, to } => {
                self.check_room(tile)?;
                let data = self.take_data(tile.class);
                self.load(*access, *shape, tile, data)?;
                self.core.ledger.record_lx_bytes(site.lx_bytes);
                self.bind(*to, data, tile)?;
            }
            Step::Store { access, shape, from, tile, len } => {
                let data = self.data_at(*from);
                self.store(*access, *shape, data, (tile, *len), pc)?;
                self.core.ledger.record_lx_bytes(site.lx_bytes);
            }
            Step::Uniform { value, to, tile } => {
                self.check_room(tile)?;
                if site.name == "linalg.fill" {
                    self.core.ledger.record_lx_bytes(site.lx_bytes);
                }
                let data = self.take_data(tile.class);
                let of = &mut self.arena.data[data as usize];
                of.same = true;
                match value {
                    Place::Float(r) => of.one_float = self.core.floats[*r as usize],
                    Place::Int(r) => of.one_int = self.core.ints[*r as usize],
                    _ => {}
                }
                self.bind(*to, data, tile)?;
            }
            Step::Empty { to, tile } => {
                self.check_room(tile)?;
                let data = self.take_data(tile.class);
                let of = &mut self.arena.data[data as usize];
                (of.same, of.one_float, of.one_int) = (true, 0.0, 0);
                self.bind(*to, data, tile)?;
            }
            Step::Share { from, to, tile } => {
                self.check_room(tile)?;
                let data = self.data_at(*from);
                self.arena.keep_data(data);
                self.bind(*to, data, tile)?;
            }
            Step::Extract { from, indices, shape, to } => {
                self.extract(*from, indices, shape, *to)?;
            }
            Step::Rearrange { from, gather: (base, loops), to, tile } => {
                self.check_room(tile)?;
                let data = self.gather(self.data_at(*from), *base, loops, tile.class);
                self.core.ledger.record_lx_bytes(site.lx_bytes);
                self.bind(*to, data, tile)?;
            }
            Step::Slice { .. } => self.slice(step, site.lx_bytes)?,
            Step::Product { .. } => self.product(step, site.lx_bytes)?,
            Step::Generic { inputs, out, body, sizes, to, tile } => {
                self.check_room(tile)?;
                self.core.ledger.record_lx_bytes(site.lx_bytes);
                let mut args = Vec::with_capacity(inputs.len() + 1);
                for (slot, gather, class) in inputs {
                    let data = self.data_at(*slot);
                    args.push(match gather {
                        Some((base, loops)) => self.gather(data, *base, loops, *class),
                        None => {
                            self.arena.keep_data(data);
                            data
                        }
                    });
                }
                let data = self.data_at(*out);
                self.arena.keep_data(data);
                args.push(data);
                self.core.ledger.record_generic(tile.len);
                let data = self.run_body(body, args, sizes, tile)?;
                self.bind(*to, data, tile)?;
            }
            Step::Reduce { from, init, fold, scratch, to, tile } => {
                self.check_room(tile)?;
                self.core.ledger.record_lx_bytes(site.lx_bytes);
                let data =
                    self.reduce(self.data_at(*from), self.data_at(*init), fold, *scratch, tile)?;
                self.bind(*to, data, tile)?;
            }
            Step::For { bounds, state, at, moves, skip, exit } => {
                let [low, high, by] = bounds.map(|r| self.core.ints[r as usize]);
                if by < 1 {
                    return Err(KtirFault::Step(by));
                }
                if low >= high {
                    self.move_values(skip, None);
                    self.drop_dead(pc);
                    self.core.pc = *exit;
                    return Ok(true);
                }
                self.core.ints[state[0] as usize] = high;
                self.core.ints[state[1] as usize] = by;
                self.move_values(moves, None);
                self.core.ints[*at as usize] = low;
                self.core.pc = pc + 1;
                return Ok(true);
            }
            Step::Next { state, at, moves, leave, body, owner } => {
                let (high, by) =
                    (self.core.ints[state[0] as usize], self.core.ints[state[1] as usize]);
                match self.core.ints[*at as usize].checked_add(by).filter(|n| *n < high) {
                    Some(n) => {
                        self.move_values(moves, Some(pc));
                        self.core.ints[*at as usize] = n;
                        self.core.pc = *body;
                    }
                    None => {
                        self.move_values(leave, Some(pc));
                        self.drop_dead(*owner);
                        self.core.pc = pc + 1;
                    }
                }
                return Ok(true);
            }
            Step::If { condition, otherwise, lone } => {
                if self.core.ints[*condition as usize] != 0 {
                    self.core.pc = pc + 1;
                } else {
                    if *lone {
                        self.drop_dead(pc);
                    }
                    self.core.pc = *otherwise;
                }
                return Ok(true);
            }
            Step::Join { moves, exit, owner } => {
                self.move_values(moves, Some(pc));
                self.drop_dead(*owner);
                self.core.pc = *exit;
                return Ok(true);
            }
            Step::Produce { to, op, gid, end } => {
                let exchange = &self.program.exchanges[*op as usize];
                self.core.turns[*op as usize] += 1;
                let turn = self.core.turns[*op as usize];
                self.core.futures[*to as usize] = Some(FutureSlot { op: *op, turn });
                match find_group(&exchange.members, &exchange.groups, self.core.id, self.meter)? {
                    Some(group) => {
                        self.core.groups[*op as usize] = group;
                        if let Some(r) = gid {
                            self.core.ints[*r as usize] = group;
                        }
                        self.core.pc = pc + 1;
                    }
                    None => {
                        self.drop_dead(pc);
                        self.core.pc = *end;
                    }
                }
                return Ok(true);
            }
            Step::Post { values, owner } => {
                self.post(values, *owner)?;
                self.drop_dead(pc);
                self.drop_dead(*owner);
                self.core.pc = pc + 1;
                return Ok(true);
            }
            Step::Deliver { future, op } => return self.deliver(*future, *op, pc),
            Step::Combined { values, owner } => {
                let mut so_far = Vec::with_capacity(values.len());
                for v in values {
                    so_far.push(self.to_shared(*v));
                }
                self.drop_dead(pc);
                self.combine(&so_far, *owner)?;
                return Ok(true);
            }
            Step::Return => {
                self.drop_dead(pc);
                self.core.done = true;
                return Ok(true);
            }
        }
        self.finish(pc);
        Ok(true)
    }

    fn source(&self, place: Place) -> Source {
        match place {
            Place::Float(r) => Source::Float(self.core.floats[r as usize]),
            Place::Int(r) => Source::Int(self.core.ints[r as usize]),
            Place::Tile(t) => Source::Data(self.data_at(t)),
            _ => Source::Int(0),
        }
    }

    fn run_point(
        &mut self,
        work: &Pointwise,
        operands: &[Place],
        to: Place,
        tile: Option<&TileKind>,
        cost: KtirOpKind,
        lx_bytes: u64,
    ) -> Result<(), KtirFault> {
        let mut sources = [Source::Int(0); 3];
        for (source, place) in sources.iter_mut().zip(operands) {
            *source = self.source(*place);
        }
        let sources = &sources[..operands.len().min(3)];
        let Some(tile) = tile else {
            let value = self.apply_scalars(work, sources)?;
            match (to, value) {
                (Place::Float(r), Source::Float(x)) => self.core.ledger_float(r, x),
                (Place::Int(r), Source::Int(n)) => self.core.ints[r as usize] = n,
                _ => {}
            }
            self.core.ledger.record_elements(cost, 1, true);
            return Ok(());
        };
        self.check_room(tile)?;
        let data = self.apply_point(work, sources, tile.len, tile.class)?;
        self.core.ledger.record_elements(cost, tile.len, false);
        self.core.ledger.record_lx_bytes(lx_bytes);
        let Place::Tile(to) = to else { return Ok(()) };
        self.bind(to, data, tile)
    }

    /// One element of each operand; for a buffer, the one that all its elements are.
    fn apply_scalars(&self, work: &Pointwise, sources: &[Source]) -> Result<Source, KtirFault> {
        let float = |s: &Source| match s {
            Source::Float(x) => *x,
            Source::Data(at) => self.data(*at).one_float,
            Source::Int(_) => 0.0,
        };
        if let (Some(f), [a, b]) = (LaneBinary::from_kind(work.kind), sources) {
            let mut out = [0.0];
            let (a, b) = (LaneOperand::Same(float(a)), LaneOperand::Same(float(b)));
            lanes::apply_binary(f, a, b, &mut out, work.to);
            return Ok(Source::Float(out[0]));
        }
        let elements: Vec<KtirElements> = sources.iter().map(|s| self.elements(*s)).collect();
        let inputs: Vec<&KtirElements> = elements.iter().collect();
        let out = pointwise::apply_pointwise_kind(
            work.kind,
            &work.predicate,
            &inputs,
            work.from,
            work.to,
        )?;
        Ok(match out {
            KtirElements::F(v) => Source::Float(v.first().copied().unwrap_or(0.0)),
            KtirElements::I(v) => Source::Int(v.first().copied().unwrap_or(0)),
        })
    }

    fn elements(&self, source: Source) -> KtirElements {
        match source {
            Source::Float(x) => KtirElements::F(vec![x]),
            Source::Int(n) => KtirElements::I(vec![n]),
            Source::Data(at) => self.data(at).to_elements(),
        }
    }

    fn is_same(&self, source: &Source) -> bool {
        match source {
            Source::Data(at) => self.data(*at).same,
            _ => true,
        }
    }

    fn lane_operand(&self, source: Source) -> LaneOperand<'_> {
        match source {
            Source::Float(x) => LaneOperand::Same(x),
            Source::Int(_) => LaneOperand::Same(0.0),
            Source::Data(at) => {
                let data = self.data(at);
                if data.same {
                    LaneOperand::Same(data.one_float)
                } else {
                    LaneOperand::Each(&data.floats)
                }
            }
        }
    }

    /// Applies an operation to `n` elements and returns a buffer of the result.
    fn apply_point(
        &mut self,
        work: &Pointwise,
        sources: &[Source],
        n: usize,
        class: u32,
    ) -> Result<u32, KtirFault> {
        if n > 0 && sources.iter().all(|s| self.is_same(s)) {
            let value = self.apply_scalars(work, sources)?;
            let out = self.take_data(class);
            let data = &mut self.arena.data[out as usize];
            data.same = true;
            match value {
                Source::Float(x) => data.one_float = x,
                Source::Int(i) => data.one_int = i,
                Source::Data(_) => {}
            }
            return Ok(out);
        }
        let out = self.take_data(class);
        if let (Some(f), &[a, b]) = (LaneBinary::from_kind(work.kind), sources) {
            let mut floats = self.arena.take_floats(out);
            lanes::apply_binary(
                f,
                self.lane_operand(a),
                self.lane_operand(b),
                &mut floats,
                work.to,
            );
            self.arena.data[out as usize].floats = floats;
            return Ok(out);
        }
        if let (Some(f), &[Source::Data(a)]) = (pointwise::find_unary_function(work.kind), sources)
        {
            let mut floats = self.arena.take_floats(out);
            map1(f, &self.data(a).floats, &mut floats);
            lanes::round_lanes(&mut floats, work.to);
            self.arena.data[out as usize].floats = floats;
            return Ok(out);
        }
        if let (KtirOpKind::ExtF | KtirOpKind::TruncF | KtirOpKind::ConvertF, &[Source::Data(a)]) =
            (work.kind, sources)
        {
            let mut floats = self.arena.take_floats(out);
            floats.copy_from_slice(&self.data(a).floats);
            // A cast keeps the sign and the payload of a NaN.
            pointwise::round_elements(&mut floats, work.to);
            self.arena.data[out as usize].floats = floats;
            return Ok(out);
        }
        let elements: Vec<KtirElements> = sources.iter().map(|s| self.elements(*s)).collect();
        let wide: Vec<KtirElements> = elements
            .into_iter()
            .map(|e| if n == 0 { e.slice_range(0..0) } else { e.broadcast_to(n) })
            .collect();
        let inputs: Vec<&KtirElements> = wide.iter().collect();
        let done = pointwise::apply_pointwise_kind(
            work.kind,
            &work.predicate,
            &inputs,
            work.from,
            work.to,
        );
        let data = &mut self.arena.data[out as usize];
        match done {
            Ok(KtirElements::F(v)) => data.floats = v,
            Ok(KtirElements::I(v)) => data.ints = v,
            Err(fault) => {
                self.arena.drop_data(out);
                return Err(fault);
            }
        }
        Ok(out)
    }

    fn gather(&mut self, from: u32, base: usize, loops: &[(usize, usize)], class: u32) -> u32 {
        let out = self.take_data(class);
        let source = self.data(from);
        if source.same {
            let (float, int) = (source.one_float, source.one_int);
            let data = &mut self.arena.data[out as usize];
            (data.same, data.one_float, data.one_int) = (true, float, int);
            return out;
        }
        if source.is_float {
            let mut floats = self.arena.take_floats(out);
            gather_into(&self.data(from).floats, base, loops, &mut floats);
            self.arena.data[out as usize].floats = floats;
        } else {
            let mut ints = self.arena.take_ints(out);
            gather_into(&self.data(from).ints, base, loops, &mut ints);
            self.arena.data[out as usize].ints = ints;
        }
        out
    }

    fn extract(
        &mut self,
        from: u32,
        indices: &[u32],
        shape: &[i64],
        to: Place,
    ) -> Result<(), KtirFault> {
        let mut at = 0_usize;
        for (r, n) in indices.iter().zip(shape) {
            let i = self.core.ints[*r as usize];
            if !(0..*n).contains(&i) {
                let index = indices.iter().map(|r| self.core.ints[*r as usize]).collect();
                return Err(KtirFault::OutOfBounds { index, shape: shape.to_vec() });
            }
            at = at * usize::try_from(*n).unwrap_or(0) + usize::try_from(i).unwrap_or(0);
        }
        let data = self.data(self.data_at(from));
        match to {
            Place::Float(r) => {
                let x = if data.same { data.one_float } else { data.floats[at] };
                self.core.floats[r as usize] = x;
            }
            Place::Int(r) => {
                let n = if data.same { data.one_int } else { data.ints[at] };
                self.core.ints[r as usize] = n;
            }
            _ => {}
        }
        Ok(())
    }

    fn slice(&mut self, step: &Step, lx_bytes: u64) -> Result<(), KtirFault> {
        let Step::Slice { part, whole, shape, offsets, sizes, strides, to, tile } = step else {
            return Ok(());
        };
        self.check_room(tile)?;
        let places = row_major_strides(shape);
        let extent = |n: i64| usize::try_from(n).unwrap_or(0);
        let (mut base, mut loops) = (0, Vec::new());
        for d in 0..shape.len() {
            let offset = self.offset(&offsets[d]);
            let (n, by) = (sizes[d], strides[d]);
            let last = (n - 1).checked_mul(by).and_then(|x| x.checked_add(offset));
            if n > 0 && (offset < 0 || last.is_none_or(|last| last >= shape[d])) {
                let mut index = vec![0; shape.len()];
                index[d] = if offset < 0 { offset } else { last.unwrap_or(i64::MAX) };
                return Err(KtirFault::OutOfBounds { index, shape: shape.clone() });
            }
            base += extent(offset) * places[d];
            loops.push((extent(n), extent(by) * places[d]));
        }
        self.core.ledger.record_lx_bytes(lx_bytes);
        let whole = self.data_at(*whole);
        let data = match part {
            None => self.gather(whole, base, &loops, tile.class),
            Some(part) => {
                let part = self.data_at(*part);
                self.arena.data[part as usize].spread();
                self.arena.data[whole as usize].spread();
                let out = self.take_data(tile.class);
                let at = nest_offsets(base, &loops);
                if tile.elem.is_float() {
                    let mut floats = self.arena.take_floats(out);
                    floats.copy_from_slice(&self.data(whole).floats);
                    at.iter().zip(&self.data(part).floats).for_each(|(i, x)| floats[*i] = *x);
                    self.arena.data[out as usize].floats = floats;
                } else {
                    let mut ints = self.arena.take_ints(out);
                    ints.copy_from_slice(&self.data(whole).ints);
                    at.iter().zip(&self.data(part).ints).for_each(|(i, x)| ints[*i] = *x);
                    self.arena.data[out as usize].ints = ints;
                }
                out
            }
        };
        self.bind(*to, data, tile)
    }

    fn product(&mut self, step: &Step, lx_bytes: u64) -> Result<(), KtirFault> {
        let Step::Product { a, b, c, batch, shape, transposed, macs, charged, sums, to, tile } =
            step
        else {
            return Ok(());
        };
        self.check_room(tile)?;
        self.core.ledger.record_lx_bytes(lx_bytes);
        self.meter.take_element_steps(*macs)?;
        // The panel of the right operand is as wide as a block, also where the operand is narrower.
        let wide = shape.columns.saturating_add(super::product::MAX_BLOCK_COLUMNS);
        let room = (shape.depth as u64).saturating_mul(wide as u64).saturating_mul(4);
        self.meter.check_room(room)?;
        let (a, b, c) = (self.data_at(*a), self.data_at(*b), self.data_at(*c));
        self.arena.data[a as usize].spread();
        self.arena.data[b as usize].spread();
        let (m, k, n) = (shape.rows, shape.depth, shape.columns);
        let turned = transposed.then(|| {
            let mut turned = vec![0.0; k * n];
            gather_into(&self.data(b).floats, 0, &[(k, 1), (n, k)], &mut turned);
            turned
        });
        let out = self.take_data(*sums);
        let mut floats = self.arena.take_floats(out);
        let mut panel = std::mem::take(&mut self.arena.panel);
        for x in 0..*batch {
            let rows = &self.data(a).floats[x * m * k..(x + 1) * m * k];
            let right = turned.as_ref().unwrap_or(&self.data(b).floats);
            let columns = &right[x * k * n..(x + 1) * k * n];
            let sums = &mut floats[x * m * n..(x + 1) * m * n];
            super::product::multiply(rows, columns, sums, *shape, &mut panel);
        }
        self.arena.panel = panel;
        lanes::round_lanes(&mut floats, tile.elem);
        self.arena.data[out as usize].floats = floats;
        let add = Pointwise {
            kind: KtirOpKind::AddF,
            predicate: String::new(),
            from: tile.elem,
            to: tile.elem,
        };
        let data =
            self.apply_point(&add, &[Source::Data(c), Source::Data(out)], tile.len, tile.class)?;
        self.arena.drop_data(out);
        self.core.ledger.record_product(*macs, *charged);
        self.bind(*to, data, tile)
    }

    /// Runs a body on buffers, whose references it takes over, and returns a buffer of its result.
    fn run_body(
        &mut self,
        body: &Body,
        args: Vec<u32>,
        sizes: &[usize],
        tile: &TileKind,
    ) -> Result<u32, KtirFault> {
        let n = tile.len;
        let work = (n as u64).saturating_mul(body.ops);
        self.meter.take_element_steps(work)?;
        // Every operation of the body keeps a value for each lane.
        self.meter.check_room(work.saturating_mul(8))?;
        let mut lanes: Vec<Source> = vec![Source::Int(0); body.lanes as usize];
        let mut owned = args;
        for (lane, data) in owned.iter().enumerate() {
            lanes[lane] = Source::Data(*data);
        }
        for (lane, constant) in &body.indices {
            lanes[*lane as usize] = Source::Data(self.arena.constants[*constant as usize]);
        }
        let mut failed = None;
        for step in &body.steps {
            let mut sources = [Source::Int(0); 3];
            for (source, operand) in sources.iter_mut().zip(&step.operands) {
                *source = match operand {
                    BodyOperand::Lane(l) => lanes[*l as usize],
                    BodyOperand::Outside(place) => self.source(*place),
                };
            }
            let made = match &step.work {
                BodyWork::Constant(c) => {
                    lanes[step.to as usize] = Source::Data(self.arena.constants[*c as usize]);
                    continue;
                }
                BodyWork::Point(work) => {
                    self.apply_point(work, &sources[..step.operands.len().min(3)], n, step.class)
                }
            };
            match made {
                Ok(data) => {
                    owned.push(data);
                    lanes[step.to as usize] = Source::Data(data);
                    let each = || step.loops.iter().map(|d| sizes[*d]).product();
                    self.core.ledger.record_body_elements(step.cost, n, each);
                }
                Err(fault) => {
                    failed = Some(fault);
                    break;
                }
            }
        }
        let result = match body.result {
            BodyOperand::Lane(l) => lanes[l as usize],
            BodyOperand::Outside(place) => self.source(place),
        };
        let out = match result {
            Source::Data(data) => {
                self.arena.keep_data(data);
                data
            }
            value => {
                let out = self.take_data(tile.class);
                let data = &mut self.arena.data[out as usize];
                data.same = true;
                match value {
                    Source::Float(x) => data.one_float = x,
                    Source::Int(i) => data.one_int = i,
                    Source::Data(_) => {}
                }
                out
            }
        };
        for data in owned {
            self.arena.drop_data(data);
        }
        match failed {
            Some(fault) => {
                self.arena.drop_data(out);
                Err(fault)
            }
            None => Ok(out),
        }
    }

    fn reduce(
        &mut self,
        from: u32,
        init: u32,
        fold: &TreeFold,
        scratch: u32,
        tile: &TileKind,
    ) -> Result<u32, KtirFault> {
        let Some(f) = fold.fast else {
            return Err(KtirFault::Invalid("a reduction without a planned combiner".into()));
        };
        self.arena.data[from as usize].spread();
        let work = self.take_data(scratch);
        let mut floats = self.arena.take_floats(work);
        floats.copy_from_slice(&self.data(from).floats);
        let mut live = floats.len();
        for (outer, count, inner) in &fold.folds {
            lanes::fold_tree(f, &mut floats[..live], *count, *inner, tile.elem);
            // The first slices of all groups, one after the other.
            for o in 1..*outer {
                let from = o * count * inner;
                floats.copy_within(from..from + inner, o * inner);
            }
            live = outer * inner;
            let mut left = *count;
            while left > 1 {
                self.core.ledger.record_elements(fold.cost, outer * (left / 2) * inner, false);
                left = left / 2 + left % 2;
            }
        }
        let out = self.take_data(tile.class);
        let mut result = self.arena.take_floats(out);
        let init = self.lane_operand(Source::Data(init));
        lanes::apply_binary(f, LaneOperand::Each(&floats[..live]), init, &mut result, tile.elem);
        self.arena.data[out as usize].floats = result;
        self.arena.data[work as usize].floats = floats;
        self.arena.drop_data(work);
        self.core.ledger.record_elements(fold.cost, tile.len, false);
        Ok(out)
    }

    fn to_shared(&self, place: Place) -> Arc<KtirElements> {
        Arc::new(match self.source(place) {
            Source::Data(at) => {
                let data = self.data(at);
                match (data.is_float, data.same) {
                    (true, true) => KtirElements::F(vec![data.one_float; data.len]),
                    (false, true) => KtirElements::I(vec![data.one_int; data.len]),
                    _ => data.to_elements(),
                }
            }
            other => self.elements(other),
        })
    }

    fn post(&mut self, values: &[Place], owner: usize) -> Result<(), KtirFault> {
        let Step::Produce { op, to, .. } = &self.program.steps[owner] else { return Ok(()) };
        let Some(future) = self.core.futures[*to as usize] else { return Ok(()) };
        let partials: Vec<Arc<KtirElements>> = values.iter().map(|v| self.to_shared(*v)).collect();
        let bytes = partials.iter().map(|d| 64 + 8 * d.len() as u64).sum();
        self.meter.take_bytes(bytes)?;
        let key = (*op, future.turn, self.core.groups[*op as usize]);
        self.exchange.posted.entry(key).or_default().insert(self.core.id, partials);
        Ok(())
    }

    fn deliver(&mut self, future: u32, op: u32, pc: usize) -> Result<bool, KtirFault> {
        let exchange: &ExchangeOp = &self.program.exchanges[op as usize];
        let Some(future) = self.core.futures[future as usize] else {
            return Err(KtirFault::Groups("a delivery without a future".into()));
        };
        let cores = self.program.cores;
        let Some(group) =
            find_group(&exchange.members, &exchange.groups, self.core.id, self.meter)?
        else {
            let results: Vec<Arc<KtirElements>> =
                exchange.identities.iter().map(|t| self.to_shared(Place::Tile(*t))).collect();
            self.receive(op, &results, pc)?;
            return Ok(true);
        };
        let producers = &self.program.exchanges[future.op as usize].members;
        let mut from = list_group_members(producers, &[group], cores, self.meter)?;
        if let Some(needs) = &exchange.needs {
            let me = i64::try_from(self.core.id).unwrap_or(i64::MAX);
            let wanted = list_group_members(needs, &[me, group], cores, self.meter)?;
            from.retain(|p| wanted.binary_search(p).is_ok());
        }
        let posted = self.exchange.posted.get(&(future.op, future.turn, group));
        let has = |p: &usize| posted.is_some_and(|all| all.contains_key(p));
        self.core.waits = from.iter().copied().filter(|p| !has(p)).collect();
        if !self.core.waits.is_empty() {
            return Ok(false);
        }
        let order = order_around_ring(&from, self.core.id, cores);
        let mut rest: VecDeque<Vec<Arc<KtirElements>>> =
            order.iter().filter_map(|p| posted.and_then(|all| all.get(p)).cloned()).collect();
        let elements: u64 = exchange.partials.iter().map(|t| t.len as u64).sum();
        self.meter.take_element_steps(elements.saturating_mul(rest.len() as u64))?;
        let sent = exchange
            .partials
            .iter()
            .map(|t| super::super::value::bytes_in_scratchpad(&t.ty))
            .fold(0, u64::saturating_add);
        self.core.ledger.record_send(sent, rest.len());
        let first = if from.contains(&self.core.id) { rest.pop_front() } else { None };
        let first: Vec<Arc<KtirElements>> = first.unwrap_or_else(|| {
            exchange.identities.iter().map(|t| self.to_shared(Place::Tile(*t))).collect()
        });
        self.core.combining.push(Combining { rest });
        self.combine(&first, pc)?;
        Ok(true)
    }

    /// Combines the result so far with the next partial, or finishes the reduction.
    fn combine(&mut self, so_far: &[Arc<KtirElements>], owner: usize) -> Result<(), KtirFault> {
        let Step::Deliver { op, .. } = &self.program.steps[owner] else { return Ok(()) };
        let exchange = &self.program.exchanges[*op as usize];
        let next = self.core.combining.last_mut().and_then(|c| c.rest.pop_front());
        let Some(next) = next else {
            self.core.combining.pop();
            return self.receive(*op, so_far, owner);
        };
        let both = so_far.iter().chain(&next);
        let kinds = exchange.partials.iter().chain(&exchange.partials);
        for ((elements, tile), to) in both.zip(kinds).zip(&exchange.arguments) {
            let data = self.copy_shared(elements, tile);
            self.bind(*to, data, tile)?;
        }
        self.core.pc = exchange.body;
        Ok(())
    }

    fn copy_shared(&mut self, elements: &KtirElements, tile: &TileKind) -> u32 {
        let out = self.take_data(tile.class);
        match elements {
            KtirElements::F(v) => {
                let mut floats = self.arena.take_floats(out);
                floats.copy_from_slice(v);
                self.arena.data[out as usize].floats = floats;
            }
            KtirElements::I(v) => {
                let mut ints = self.arena.take_ints(out);
                ints.copy_from_slice(v);
                self.arena.data[out as usize].ints = ints;
            }
        }
        out
    }

    fn receive(
        &mut self,
        op: u32,
        results: &[Arc<KtirElements>],
        owner: usize,
    ) -> Result<(), KtirFault> {
        let exchange = &self.program.exchanges[op as usize];
        let mut made = Vec::with_capacity(results.len());
        for (elements, tile) in results.iter().zip(&exchange.partials) {
            let data = self.copy_shared(elements, tile);
            made.push(self.make_tile(data, tile)?);
        }
        for (tile, to) in made.into_iter().zip(&exchange.results) {
            let before = std::mem::replace(&mut self.core.slots[*to as usize], tile);
            self.release(before);
        }
        self.core.waits.clear();
        self.drop_dead(owner);
        // The step behind the delivery holds the end of its region.
        if let Step::Join { exit, .. } = &self.program.steps[owner + 1] {
            self.core.pc = *exit;
        }
        Ok(())
    }
}

impl PlannedCore {
    fn ledger_float(&mut self, r: u32, x: f32) {
        self.floats[r as usize] = x;
    }
}

/// Copies the elements that a nest of loops visits.
fn gather_into<T: Copy>(from: &[T], base: usize, loops: &[(usize, usize)], out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    let Some(((n, stride), outer)) = loops.split_last() else {
        out[0] = from[base];
        return;
    };
    let mut counts = vec![0_usize; outer.len()];
    let mut at = base;
    for row in out.chunks_exact_mut(*n) {
        match stride {
            0 => row.fill(from[at]),
            1 => row.copy_from_slice(&from[at..at + n]),
            _ => {
                for (i, to) in row.iter_mut().enumerate() {
                    *to = from[at + i * stride];
                }
            }
        }
        for d in (0..outer.len()).rev() {
            counts[d] += 1;
            at += outer[d].1;
            if counts[d] < outer[d].0 {
                break;
            }
            at -= outer[d].1 * outer[d].0;
            counts[d] = 0;
        }
    }
}
