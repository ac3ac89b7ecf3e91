//! One core: its calls and frames, the values that are alive, and its ledger.

use super::budget::{self, KtirHeldBytes, KtirRunBudget, host_bytes};
use super::cost::KtirCoreLedger;
use super::error::{KtirFault, KtirRunError};
use super::exchange::PartialExchange;
use super::flow::{KtirFrame, KtirFrameKind};
use super::memory::KtirMemory;
use super::value::{KtirElements, KtirRunValue, KtirTile, ScratchpadCharge, bytes_in_scratchpad};
use crate::ir::{KtirBlock, KtirFunction, KtirModule, KtirOp, KtirValue};
use crate::types::{KtirElem, KtirType};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use zellige_machine::CycleModel;

/// For each block, the values that are dead after each of its operations.
// Keyed by address: the module does not change during a run, and blocks have no number of their
// own.
pub(super) type LastUseDrops = HashMap<*const KtirBlock, Vec<Vec<KtirValue>>>;

/// Computes where values die: after the last operation of their block that mentions them, directly
/// or in a region. A value without a use dies at once.
pub(super) fn compute_liveness(module: &KtirModule) -> LastUseDrops {
    let mut drops = LastUseDrops::new();
    for f in &module.functions {
        let mut last = HashMap::new();
        collect_block_liveness(&f.body, &mut last, &mut drops);
    }
    drops
}

fn collect_block_liveness(
    block: &KtirBlock,
    last: &mut HashMap<KtirValue, usize>,
    drops: &mut LastUseDrops,
) {
    let mut uses: HashMap<KtirValue, usize> = HashMap::new();
    for (i, op) in block.ops.iter().enumerate() {
        for v in &op.operands {
            uses.insert(*v, i);
        }
        for region in &op.regions {
            let mut inner = HashMap::new();
            collect_block_liveness(region, &mut inner, drops);
            // A region uses a value from outside at the operation that holds the region: it must
            // stay alive for all rounds of a loop, not only until its last use in the first round.
            for v in inner.keys() {
                uses.insert(*v, i);
            }
        }
    }
    // At least one entry, because arguments of an empty block have to end somewhere.
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
        // What is not defined here belongs to a block further out, which learns of the use.
        if !mine.contains(&v) {
            last.insert(v, i);
        }
    }
    drops.insert(std::ptr::from_ref(block), dies);
}

/// A module prepared for the cores.
#[derive(Debug)]
pub(super) struct KtirRunProgram<'m> {
    functions: HashMap<&'m str, &'m KtirFunction>,
    drops: LastUseDrops,
}

impl<'m> KtirRunProgram<'m> {
    pub(super) fn new(module: &'m KtirModule) -> KtirRunProgram<'m> {
        let functions = module.functions.iter().map(|f| (f.name.as_str(), f)).collect();
        KtirRunProgram { functions, drops: compute_liveness(module) }
    }
}

/// An open call of a function.
#[derive(Debug)]
pub(super) struct KtirCall<'m> {
    pub(super) f: &'m KtirFunction,
    pub(super) env: Vec<Option<KtirRunValue>>,
    pub(super) frames: Vec<KtirFrame<'m>>,
    /// The operation that called it.
    pub(super) from: Option<&'m KtirOp>,
    _held: KtirHeldBytes,
}

#[derive(Debug)]
pub(super) struct KtirCore<'m> {
    program: &'m KtirRunProgram<'m>,
    pub(super) id: usize,
    pub(super) grid: Vec<i64>,
    pub(super) cores: usize,
    pub(super) calls: Vec<KtirCall<'m>>,
    pub(super) used: Rc<Cell<u64>>,
    pub(super) capacity: u64,
    pub(super) ledger: KtirCoreLedger,
    /// How often this core has run each produce.
    pub(super) turns: HashMap<*const KtirOp, u64>,
    /// The cores that it waits for.
    pub(super) waits: Vec<usize>,
    /// The budget of all cores together.
    pub(super) meter: Rc<KtirRunBudget>,
}

impl<'m> KtirCore<'m> {
    pub(super) fn new(
        program: &'m KtirRunProgram<'m>,
        f: &'m KtirFunction,
        id: usize,
        args: &[KtirRunValue],
        capacity: u64,
        (traced, model): (usize, CycleModel),
        meter: &Rc<KtirRunBudget>,
    ) -> Result<KtirCore<'m>, KtirFault> {
        let mut core = KtirCore {
            program,
            id,
            grid: f.grid.clone(),
            cores: f.core_count(),
            calls: Vec::new(),
            used: Rc::default(),
            capacity,
            ledger: KtirCoreLedger::new(traced, model),
            turns: HashMap::new(),
            waits: Vec::new(),
            meter: meter.clone(),
        };
        core.enter_function(f, args.to_vec(), None)?;
        Ok(core)
    }

    pub(super) fn enter_function(
        &mut self,
        f: &'m KtirFunction,
        args: Vec<KtirRunValue>,
        from: Option<&'m KtirOp>,
    ) -> Result<(), KtirFault> {
        // A text with a million unused values would take their slots once per core and per open
        // call.
        let slots = f.values.len() * size_of::<Option<KtirRunValue>>();
        let _held = self.meter.hold_bytes((slots + size_of::<KtirCore<'_>>()) as u64)?;
        let mut env = vec![None; f.values.len()];
        for (v, value) in f.body.args.iter().zip(args) {
            env[v.index()] = Some(value);
        }
        let frames = vec![KtirFrame { block: &f.body, pc: 0, what: KtirFrameKind::Body }];
        self.calls.push(KtirCall { f, env, frames, from, _held });
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls.is_empty()
    }

    /// Runs until the core has ended or has to wait; returns whether it did anything.
    pub(super) fn run_until_blocked(
        &mut self,
        memory: &mut KtirMemory,
        exchange: &mut PartialExchange,
    ) -> Result<bool, KtirRunError> {
        let mut moved = false;
        while let Some(call) = self.calls.last() {
            let Some(frame) = call.frames.last() else { break };
            let op = &frame.block.ops[frame.pc];
            let id = self.id;
            let (name, span) = (op.kind.name(), op.span());
            // Charged before the operation runs, and again each time a waiting operation is tried.
            let steps = budget::op_steps(call.f, op);
            let stepped = self.meter.take_steps(steps).and_then(|()| {
                let moved = self.run_op(op, memory, exchange)?;
                // The ledger's lists grow by what the kernel does; charging afterwards is safe,
                // because one operation adds little.
                self.meter.take_bytes(self.ledger.take_grown_bytes())?;
                Ok(moved)
            });
            match stepped {
                Ok(true) => moved = true,
                // This core waits. Whether it did anything before decides if the whole grid has
                // come to a standstill.
                Ok(false) => return Ok(moved),
                Err(fault) => {
                    return Err(KtirRunError { fault, core: Some(id), op: Some(name), span });
                }
            }
        }
        Ok(moved)
    }

    pub(super) fn current_call(&mut self) -> &mut KtirCall<'m> {
        let at = self.calls.len() - 1;
        &mut self.calls[at]
    }

    pub(super) fn current_function(&self) -> &'m KtirFunction {
        self.calls[self.calls.len() - 1].f
    }

    pub(super) fn read_value(&self, v: KtirValue) -> Result<KtirRunValue, KtirFault> {
        let call = &self.calls[self.calls.len() - 1];
        let value = call.env.get(v.index()).and_then(Clone::clone);
        value.ok_or_else(|| {
            KtirFault::Invalid(format!("`%{}` has no value", call.f.value_def(v).name))
        })
    }

    pub(super) fn read_ints(&self, values: &[KtirValue]) -> Result<Vec<i64>, KtirFault> {
        values.iter().map(|v| Ok(self.read_value(*v)?.as_int())).collect()
    }

    pub(super) fn write_value(&mut self, v: KtirValue, value: KtirRunValue) {
        if let Some(slot) = self.current_call().env.get_mut(v.index()) {
            *slot = Some(value);
        }
    }

    pub(super) fn value_type(&self, v: KtirValue) -> &'m KtirType {
        self.current_function().value_type(v)
    }

    /// Drops the values that the current operation was the last to use, and advances to the next
    /// one.
    pub(super) fn advance_to_next_op(&mut self) {
        let drops = &self.program.drops;
        let call = self.current_call();
        let Some(frame) = call.frames.last_mut() else { return };
        if let Some(dead) =
            drops.get(&std::ptr::from_ref(frame.block)).and_then(|d| d.get(frame.pc))
        {
            for v in dead {
                // Dropping the value releases its charge: upstream counts every live tile against
                // the scratchpad, so a tile that was used for the last time must not count on.
                call.env[v.index()] = None;
            }
        }
        frame.pc += 1;
    }

    /// Makes a tile of a type and charges it to the scratchpad.
    pub(super) fn make_tile(
        &mut self,
        ty: &KtirType,
        data: KtirElements,
    ) -> Result<KtirRunValue, KtirFault> {
        self.make_shared_tile(ty, Rc::new(data))
    }

    pub(super) fn make_shared_tile(
        &mut self,
        ty: &KtirType,
        data: Rc<KtirElements>,
    ) -> Result<KtirRunValue, KtirFault> {
        // Operations on scalars share this path; a scalar takes no room in the scratchpad.
        let KtirType::Tensor(shape, elem) = ty else { return Ok(data.first_value()) };
        let bytes = self.check_tile_room(ty)?;
        let _held = self.meter.hold_bytes(host_bytes(*elem, data.len() as u64))?;
        self.used.set(self.used.get() + bytes);
        self.ledger.record_peak(self.used.get());
        let _charge = ScratchpadCharge { bytes, used: self.used.clone() };
        Ok(KtirRunValue::Tile(Rc::new(KtirTile { shape: shape.clone(), data, _charge, _held })))
    }

    /// The bytes that a tile takes; refused where the scratchpad has not enough.
    pub(super) fn check_tile_room(&self, ty: &KtirType) -> Result<u64, KtirFault> {
        let (bytes, used) =
            // Allocations are in whole sticks of 128 bytes, as on the device.
            (bytes_in_scratchpad(ty).div_ceil(128).saturating_mul(128), self.used.get());
        if used.saturating_add(bytes) > self.capacity {
            let (tile, capacity) = (ty.to_string(), self.capacity);
            return Err(KtirFault::LxOverflow { tile, bytes, used, capacity });
        }
        // The host needs room for the elements and for intermediate results: four times the tile.
        let host = host_bytes(ty.elem().unwrap_or(KtirElem::Index), budget::count_elements(ty));
        self.meter.check_room(host.saturating_mul(4))?;
        Ok(bytes)
    }

    /// A function of the module.
    pub(super) fn find_function(&self, name: &str) -> Option<&'m KtirFunction> {
        self.program.functions.get(name).copied()
    }

    /// The coordinate of the core along dimension `d` of the grid.
    pub(super) fn grid_coordinate(&self, d: usize) -> i64 {
        let size = |d: usize| self.grid.get(d).copied().unwrap_or(1);
        let before: i64 = (0..d).map(size).product();
        // Core id = z * nx * ny + y * nx + x, so the coordinates are the digits of the id in base
        // (nx, ny, nz).
        i64::try_from(self.id).unwrap_or(0) / before % size(d)
    }

    /// The number of the core at some coordinates; those that are left out are 0.
    pub(super) fn find_core(&self, at: &[i64]) -> Result<i64, KtirFault> {
        let size = |d: usize| self.grid.get(d).copied().unwrap_or(1);
        let inside = at.iter().enumerate().all(|(d, i)| (0..size(d)).contains(i));
        if !inside {
            let shape = (0..at.len()).map(size).collect();
            return Err(KtirFault::OutOfBounds { index: at.to_vec(), shape });
        }
        Ok(at.iter().enumerate().rev().fold(0, |id, (d, i)| id * size(d) + i))
    }

    pub(super) fn value_elem(&self, v: KtirValue) -> KtirElem {
        self.value_type(v).elem().unwrap_or(KtirElem::Index)
    }
}
