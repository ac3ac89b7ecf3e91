//! Planned kernels: what does not depend on the data is computed once, and tiles are computed by loops over their
//! elements. The plain interpreter beside it is the definition; both give the same arrays, costs and faults.

mod arena;
mod engine;
mod lanes;
mod product;
mod program;
mod store;
mod transfer;

use super::budget::{KtirRunBudget, KtirStopFlag};
use super::cost::KtirCoreLedger;
use super::error::{KtirFault, KtirRunError, WaitingCore};
use super::value::KtirRunValue;
use super::{BTreeMap, KtirArray};
use crate::ir::{KtirFunction, KtirModule};
use arena::TileArena;
use engine::{Machine, PlannedCore, PlannedExchange, TransferScratch};
use program::{Place, Program};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use store::{SharedMemory, WrittenRows};
use zellige_machine::CycleModel;

/// A kernel that was planned once and can be run many times.
#[derive(Debug, Clone)]
pub(super) struct KtirPlan(Program);

/// What a run is limited to.
#[derive(Debug, Clone)]
pub(super) struct PlanLimits {
    pub(super) stop: KtirStopFlag,
    pub(super) capacity: u64,
    pub(super) steps: u64,
    pub(super) bytes: u64,
    pub(super) threads: usize,
    pub(super) model: CycleModel,
}

/// The end of a core that ran alone.
struct CoreEnd {
    ledger: KtirCoreLedger,
    written: Vec<WrittenRows>,
    steps: u64,
    fault: Option<(KtirFault, usize)>,
}

/// Buffers of a thread, which the next core on it uses again.
#[derive(Default)]
struct ThreadRoom {
    arena: TileArena,
    scratch: TransferScratch,
}

impl KtirPlan {
    /// Plans a function of a verified module; `None` where only the plain interpreter runs one of its operations.
    pub(super) fn new(module: &KtirModule, f: &KtirFunction) -> Option<KtirPlan> {
        program::plan_function(module, f).map(KtirPlan)
    }

    /// Runs the kernel, and returns the ledgers of the cores; the arrays are changed in their place.
    pub(super) fn execute(
        &self,
        arrays: &mut BTreeMap<String, KtirArray>,
        args: &[(String, Option<KtirRunValue>)],
        limits: &PlanLimits,
    ) -> Result<Vec<KtirCoreLedger>, KtirRunError> {
        let start = KtirRunError::before_start;
        let bytes: u64 = arrays.values().map(|a| a.bytes.len() as u64).sum();
        let meter = KtirRunBudget::new(limits.steps, limits.bytes, &limits.stop);
        meter.take_bytes(bytes).map_err(start)?;
        let pad = usize::try_from(limits.capacity).unwrap_or(usize::MAX);
        let mut memory = SharedMemory::new(self.0.cores, pad);
        let mut values = Vec::with_capacity(args.len());
        for (name, value) in args {
            values.push(match (value, arrays.get_mut(name)) {
                (Some(value), _) => value.clone(),
                (None, Some(array)) => {
                    KtirRunValue::I(memory.place_array(name, array).map_err(start)?)
                }
                (None, None) => KtirRunValue::I(0),
            });
        }
        let outcome = if self.0.independent && self.0.cores > 1 {
            self.run_independent_cores(&memory, &values, bytes, limits)
        } else {
            self.run_cores_in_turn(&memory, &values, &meter, limits)
        };
        memory.return_arrays(arrays);
        outcome
    }

    fn new_core(&self, id: usize, values: &[KtirRunValue], limits: &PlanLimits) -> PlannedCore {
        let ledger = KtirCoreLedger::new(0, limits.model);
        let mut core = PlannedCore::new(&self.0, id, limits.capacity, ledger);
        for (place, value) in self.0.arguments.iter().zip(values) {
            match (place, value) {
                (Place::Int(r), KtirRunValue::I(n)) => core.ints[*r as usize] = *n,
                (Place::Float(r), KtirRunValue::F(x)) => core.floats[*r as usize] = *x,
                _ => {}
            }
        }
        core
    }

    /// Charges the places of a core's values, as the plain interpreter does.
    fn charge_core(&self, meter: &Rc<KtirRunBudget>) -> Result<(), KtirFault> {
        let p = &self.0;
        let slots = p.ints as usize + p.floats as usize + p.tiles as usize + p.views as usize;
        let slots = slots + 2 * p.accesses.len() + 2 * p.exchanges.len();
        meter.take_bytes((slots * 16 + size_of::<PlannedCore>()) as u64)
    }

    fn fault_at(&self, fault: KtirFault, core: usize, step: usize) -> KtirRunError {
        let site = &self.0.sites[step];
        KtirRunError { fault, core: Some(core), op: Some(site.name), span: site.span.clone() }
    }

    /// The fault of a core, or the race that a core before it ran into.
    fn first_fault(
        &self,
        memory: &SharedMemory,
        written: &[WrittenRows],
        other: Option<KtirRunError>,
    ) -> Option<KtirRunError> {
        match memory.find_race(written) {
            Some((fault, row)) => Some(self.fault_at(fault, row.core, row.step)),
            None => other,
        }
    }

    fn run_cores_in_turn(
        &self,
        memory: &SharedMemory,
        values: &[KtirRunValue],
        meter: &Rc<KtirRunBudget>,
        limits: &PlanLimits,
    ) -> Result<Vec<KtirCoreLedger>, KtirRunError> {
        let program = &self.0;
        let mut arena = TileArena::new(&program.classes, &program.constants);
        let mut scratch = TransferScratch::default();
        let mut exchange = PlannedExchange::default();
        let mut written = Vec::new();
        let mut cores = Vec::with_capacity(program.cores);
        for id in 0..program.cores {
            self.charge_core(meter).map_err(|fault| KtirRunError {
                fault,
                core: Some(id),
                op: None,
                span: 0..0,
            })?;
            cores.push(self.new_core(id, values, limits));
        }
        loop {
            let mut moved = false;
            for core in &mut cores {
                let id = core.id;
                let mut machine = Machine {
                    program,
                    memory,
                    meter,
                    arena: &mut arena,
                    core,
                    exchange: &mut exchange,
                    written: &mut written,
                    scratch: &mut scratch,
                    scratch_elems: Vec::new(),
                    exact_bursts: limits.model == CycleModel::Card,
                };
                match machine.run_until_blocked() {
                    Ok(did) => moved |= did,
                    Err((fault, step)) => {
                        let fault = self.fault_at(fault, id, step);
                        return Err(self
                            .first_fault(memory, &written, Some(fault.clone()))
                            .unwrap_or(fault));
                    }
                }
            }
            let waits = cores.iter().any(|c| !c.done);
            let deadlock = (waits && !moved).then(|| self.report_deadlock(&cores));
            if !waits || deadlock.is_some() {
                return match self.first_fault(memory, &written, deadlock) {
                    Some(fault) => Err(fault),
                    None => Ok(cores.into_iter().map(|c| c.ledger).collect()),
                };
            }
        }
    }

    fn report_deadlock(&self, cores: &[PlannedCore]) -> KtirRunError {
        let waits: Vec<WaitingCore> = cores
            .iter()
            .filter(|c| !c.done)
            .map(|c| WaitingCore {
                core: c.id,
                for_cores: c.waits.clone(),
                ended: c.waits.iter().copied().filter(|w| cores[*w].done).collect(),
            })
            .collect();
        let (core, step) = cores.iter().find(|c| !c.done).map_or((0, 0), |c| (c.id, c.pc));
        self.fault_at(KtirFault::Deadlock(waits), core, step)
    }

    /// Runs cores that see nothing of each other, on as many threads as there are processors.
    fn run_independent_cores(
        &self,
        memory: &SharedMemory,
        values: &[KtirRunValue],
        bytes: u64,
        limits: &PlanLimits,
    ) -> Result<Vec<KtirCoreLedger>, KtirRunError> {
        let program = &self.0;
        let plain: Vec<PlainValue> = values.iter().map(PlainValue::from).collect();
        let rooms: Mutex<Vec<ThreadRoom>> = Mutex::new(Vec::new());
        let ends: Vec<Mutex<Option<CoreEnd>>> =
            (0..program.cores).map(|_| Mutex::new(None)).collect();
        let run_one = |id: usize| {
            let room = rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut room = room.unwrap_or_else(|| ThreadRoom {
                arena: TileArena::new(&program.classes, &program.constants),
                scratch: TransferScratch::default(),
            });
            // A budget for each core, and their sum afterwards: which core comes first must not decide.
            let meter = KtirRunBudget::new(limits.steps, limits.bytes, &limits.stop);
            let values: Vec<KtirRunValue> = plain.iter().map(|v| v.to_value()).collect();
            let mut core = self.new_core(id, &values, limits);
            let (mut exchange, mut written) = (PlannedExchange::default(), Vec::new());
            let charged = meter.take_bytes(bytes).and_then(|()| self.charge_core(&meter));
            let fault = match charged {
                Err(fault) => Some((fault, 0)),
                Ok(()) => {
                    let mut machine = Machine {
                        program,
                        memory,
                        meter: &meter,
                        arena: &mut room.arena,
                        core: &mut core,
                        exchange: &mut exchange,
                        written: &mut written,
                        scratch: &mut room.scratch,
                        scratch_elems: Vec::new(),
                        exact_bursts: limits.model == CycleModel::Card,
                    };
                    machine.run_until_blocked().err()
                }
            };
            let failed = fault.is_some();
            let end = CoreEnd { ledger: core.ledger, written, steps: meter.steps_taken(), fault };
            *ends[id].lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            // The tiles of a core that failed are still named, so its room is left behind.
            if !failed {
                rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room);
            }
        };
        zellige_host::crew::share_pieces(limits.threads.max(1), program.cores, &run_one);
        let (mut ledgers, mut written, mut steps) = (Vec::new(), Vec::new(), 0_u64);
        for (id, end) in ends.into_iter().enumerate() {
            let Some(end) = end.into_inner().unwrap_or_else(PoisonError::into_inner) else {
                continue;
            };
            written.extend(end.written);
            steps = steps.saturating_add(end.steps);
            let fault = end.fault.map(|(fault, step)| self.fault_at(fault, id, step));
            let spent = (steps > limits.steps).then(|| {
                self.fault_at(KtirFault::TooLong(limits.steps), id, program.steps.len() - 1)
            });
            if let Some(fault) = fault.or(spent) {
                return Err(self
                    .first_fault(memory, &written, Some(fault.clone()))
                    .unwrap_or(fault));
            }
            ledgers.push(end.ledger);
        }
        match self.first_fault(memory, &written, None) {
            Some(fault) => Err(fault),
            None => Ok(ledgers),
        }
    }
}

/// An argument that threads can share: arguments are numbers.
#[derive(Debug, Clone, Copy)]
enum PlainValue {
    Float(f32),
    Int(i64),
}

impl From<&KtirRunValue> for PlainValue {
    fn from(value: &KtirRunValue) -> PlainValue {
        match value {
            KtirRunValue::F(x) => PlainValue::Float(*x),
            other => PlainValue::Int(other.as_int()),
        }
    }
}

impl PlainValue {
    fn to_value(self) -> KtirRunValue {
        match self {
            PlainValue::Float(x) => KtirRunValue::F(x),
            PlainValue::Int(n) => KtirRunValue::I(n),
        }
    }
}
