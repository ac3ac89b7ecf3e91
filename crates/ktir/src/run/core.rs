//! One core: its calls, its frames, what is alive, what it did.

use super::budget::{self, Held, Meter, host_bytes};
use super::cost::Ledger;
use super::error::{Fault, RunError};
use super::exchange::Exchange;
use super::flow::{Frame, What};
use super::memory::Memory;
use super::value::{Charge, Data, Tile, Val, bytes};
use crate::ir::{Block, Function, Module, Op, Value};
use crate::types::{Elem, Type};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// For each block, what dies after each of its operations.
type Drops = HashMap<*const Block, Vec<Vec<Value>>>;

/// What dies where: a value dies after the last operation of its block that mentions it, itself or
/// in a region; one that nobody mentions dies at once.
fn liveness(module: &Module) -> Drops {
    let mut drops = Drops::new();
    for f in &module.functions {
        let mut last = HashMap::new();
        block_liveness(&f.body, &mut last, &mut drops);
    }
    drops
}

fn block_liveness(block: &Block, last: &mut HashMap<Value, usize>, drops: &mut Drops) {
    let mut uses: HashMap<Value, usize> = HashMap::new();
    for (i, op) in block.ops.iter().enumerate() {
        for v in &op.operands {
            uses.insert(*v, i);
        }
        for region in &op.regions {
            let mut inner = HashMap::new();
            block_liveness(region, &mut inner, drops);
            for v in inner.keys() {
                uses.insert(*v, i);
            }
        }
    }
    let mut dies = vec![Vec::new(); block.ops.len().max(1)];
    let own = block.args.iter().map(|v| (*v, 0));
    let made =
        block.ops.iter().enumerate().flat_map(|(i, op)| op.results.iter().map(move |v| (*v, i)));
    let mut mine = HashSet::new();
    for (v, born) in own.chain(made) {
        dies[uses.get(&v).copied().unwrap_or(born)].push(v);
        mine.insert(v);
    }
    for (v, i) in uses {
        if !mine.contains(&v) {
            last.insert(v, i);
        }
    }
    drops.insert(std::ptr::from_ref(block), dies);
}

/// A module as cores run it.
#[derive(Debug)]
pub(super) struct Program<'m> {
    functions: HashMap<&'m str, &'m Function>,
    drops: Drops,
}

impl<'m> Program<'m> {
    pub(super) fn new(module: &'m Module) -> Program<'m> {
        let functions = module.functions.iter().map(|f| (f.name.as_str(), f)).collect();
        Program { functions, drops: liveness(module) }
    }
}

/// A function that is being run.
#[derive(Debug)]
pub(super) struct Call<'m> {
    pub(super) f: &'m Function,
    pub(super) env: Vec<Option<Val>>,
    pub(super) frames: Vec<Frame<'m>>,
    /// The call that waits for it.
    pub(super) from: Option<&'m Op>,
    _held: Held,
}

#[derive(Debug)]
pub(super) struct Core<'m> {
    program: &'m Program<'m>,
    pub(super) id: usize,
    pub(super) grid: Vec<i64>,
    pub(super) cores: usize,
    pub(super) calls: Vec<Call<'m>>,
    pub(super) used: Rc<Cell<u64>>,
    pub(super) capacity: u64,
    pub(super) ledger: Ledger,
    /// How often each produce was run.
    pub(super) turns: HashMap<*const Op, u64>,
    /// Cores that it waits for.
    pub(super) waits: Vec<usize>,
    /// What all cores together may take.
    pub(super) meter: Rc<Meter>,
}

impl<'m> Core<'m> {
    pub(super) fn new(
        program: &'m Program<'m>,
        f: &'m Function,
        id: usize,
        args: &[Val],
        capacity: u64,
        traced: usize,
        meter: &Rc<Meter>,
    ) -> Result<Core<'m>, Fault> {
        let mut core = Core {
            program,
            id,
            grid: f.grid.clone(),
            cores: f.cores(),
            calls: Vec::new(),
            used: Rc::default(),
            capacity,
            ledger: Ledger::new(traced),
            turns: HashMap::new(),
            waits: Vec::new(),
            meter: meter.clone(),
        };
        core.enter(f, args.to_vec(), None)?;
        Ok(core)
    }

    pub(super) fn enter(
        &mut self,
        f: &'m Function,
        args: Vec<Val>,
        from: Option<&'m Op>,
    ) -> Result<(), Fault> {
        let slots = f.values.len() * size_of::<Option<Val>>();
        let _held = self.meter.hold((slots + size_of::<Core<'_>>()) as u64)?;
        let mut env = vec![None; f.values.len()];
        for (v, value) in f.body.args.iter().zip(args) {
            env[v.index()] = Some(value);
        }
        let frames = vec![Frame { block: &f.body, pc: 0, what: What::Body }];
        self.calls.push(Call { f, env, frames, from, _held });
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.is_empty()
    }

    /// Runs until the end or until it has to wait; whether anything was done.
    pub(super) fn go(
        &mut self,
        memory: &mut Memory,
        exchange: &mut Exchange,
    ) -> Result<bool, RunError> {
        let mut moved = false;
        while let Some(call) = self.calls.last() {
            let Some(frame) = call.frames.last() else { break };
            let op = &frame.block.ops[frame.pc];
            let id = self.id;
            let (name, span) = (op.kind.name(), op.span());
            let steps = budget::steps(call.f, op);
            let stepped = self.meter.steps(steps).and_then(|()| {
                let moved = self.step(op, memory, exchange)?;
                self.meter.keep(self.ledger.grown())?;
                Ok(moved)
            });
            match stepped {
                Ok(true) => moved = true,
                Ok(false) => return Ok(moved),
                Err(fault) => {
                    return Err(RunError { fault, core: Some(id), op: Some(name), span });
                }
            }
        }
        Ok(moved)
    }

    pub(super) fn call(&mut self) -> &mut Call<'m> {
        let at = self.calls.len() - 1;
        &mut self.calls[at]
    }

    pub(super) fn f(&self) -> &'m Function {
        self.calls[self.calls.len() - 1].f
    }

    pub(super) fn get(&self, v: Value) -> Result<Val, Fault> {
        let call = &self.calls[self.calls.len() - 1];
        let value = call.env.get(v.index()).and_then(Clone::clone);
        value.ok_or_else(|| Fault::Invalid(format!("`%{}` has no value", call.f.value(v).name)))
    }

    pub(super) fn ints(&self, values: &[Value]) -> Result<Vec<i64>, Fault> {
        values.iter().map(|v| Ok(self.get(*v)?.int())).collect()
    }

    pub(super) fn set(&mut self, v: Value, value: Val) {
        if let Some(slot) = self.call().env.get_mut(v.index()) {
            *slot = Some(value);
        }
    }

    pub(super) fn ty(&self, v: Value) -> &'m Type {
        self.f().ty(v)
    }

    /// What the current operation was the last to use goes, and the next one comes.
    pub(super) fn advance(&mut self) {
        let drops = &self.program.drops;
        let call = self.call();
        let Some(frame) = call.frames.last_mut() else { return };
        if let Some(dead) =
            drops.get(&std::ptr::from_ref(frame.block)).and_then(|d| d.get(frame.pc))
        {
            for v in dead {
                call.env[v.index()] = None;
            }
        }
        frame.pc += 1;
    }

    /// A tile of a type, charged to the scratchpad.
    pub(super) fn tile(&mut self, ty: &Type, data: Data) -> Result<Val, Fault> {
        self.tile_of(ty, Rc::new(data))
    }

    pub(super) fn tile_of(&mut self, ty: &Type, data: Rc<Data>) -> Result<Val, Fault> {
        let Type::Tensor(shape, elem) = ty else { return Ok(data.first()) };
        let bytes = self.room(ty)?;
        let _held = self.meter.hold(host_bytes(*elem, data.len() as u64))?;
        self.used.set(self.used.get() + bytes);
        self.ledger.peak(self.used.get());
        let _charge = Charge { bytes, used: self.used.clone() };
        Ok(Val::Tile(Rc::new(Tile { shape: shape.clone(), data, _charge, _held })))
    }

    /// What a tile takes; refused where the scratchpad does not have it.
    pub(super) fn room(&self, ty: &Type) -> Result<u64, Fault> {
        let (bytes, used) = (bytes(ty).div_ceil(128).saturating_mul(128), self.used.get());
        if used.saturating_add(bytes) > self.capacity {
            let (tile, capacity) = (ty.to_string(), self.capacity);
            return Err(Fault::LxOverflow { tile, bytes, used, capacity });
        }
        // The elements, and what the host needs to compute them.
        let host = host_bytes(ty.elem().unwrap_or(Elem::Index), budget::elements(ty));
        self.meter.fits(host.saturating_mul(4))?;
        Ok(bytes)
    }

    /// A function of the module.
    pub(super) fn function(&self, name: &str) -> Option<&'m Function> {
        self.program.functions.get(name).copied()
    }

    /// Coordinates in the grid.
    pub(super) fn coordinate(&self, d: usize) -> i64 {
        let size = |d: usize| self.grid.get(d).copied().unwrap_or(1);
        let before: i64 = (0..d).map(size).product();
        i64::try_from(self.id).unwrap_or(0) / before % size(d)
    }

    pub(super) fn elem(&self, v: Value) -> Elem {
        self.ty(v).elem().unwrap_or(Elem::Index)
    }
}
