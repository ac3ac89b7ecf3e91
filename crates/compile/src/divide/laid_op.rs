//! An operation on tensors whose layouts are known: what each core has of them under a division.

use super::StepDivision;
use crate::error::Result;
use crate::lower::{LoweredProgram, LoweredStep};
use crate::options::CompilerOptions;
use crate::program::StepAction;
use crate::solve::division::{IterationSpace, SplitHint};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{LoopSpan, OpLoops, StickForm, TensorLayout, WorkDivision};
use zellige_machine::OperationWork;
use zellige_machine::account::SharedReads;
use zellige_op::TensorOp;

/// An operation with the layouts of its tensors: everything that its divisions depend on.
#[derive(Debug)]
pub(crate) struct LaidOutOp {
    op: TensorOp,
    inputs: Vec<TensorLayout>,
    outputs: Vec<TensorLayout>,
    pub(crate) loops: Option<OpLoops>,
    pub(super) spans: Vec<LoopSpan>,
    pub(super) space: Option<IterationSpace>,
    pub(super) hints: Vec<SplitHint>,
    answered: RefCell<LaidOutOpCache>,
}

/// Splits of all loops, and the tensors that stay in the scratchpads.
type SplitsAndResidents = (Vec<usize>, Vec<usize>);

/// What was computed before: the programs of one graph have mostly the same operations.
#[derive(Debug, Default)]
struct LaidOutOpCache {
    /// By splits.
    divided: HashMap<Vec<usize>, Option<(WorkDivision, Rc<OperationWork>)>>,
    /// By splits and the tensors in the scratchpads: cycles, none where that cannot be.
    cycles: HashMap<SplitsAndResidents, Option<u64>>,
    /// By splits and the tensors in the scratchpads: the work, none where that cannot be.
    works: HashMap<SplitsAndResidents, Option<Rc<OperationWork>>>,
    /// By tensor and splits.
    parts: HashMap<(usize, Vec<usize>), Rc<CoreParts>>,
    /// By tensor and splits: bytes of the largest part.
    bytes: HashMap<(usize, Vec<usize>), u64>,
}

/// Of every core, the part of a tensor that it has: a range of each dimension.
pub(crate) type CoreParts = Vec<Vec<Range<usize>>>;

impl LaidOutOp {
    /// The operation of a step that has loops; none of a move, and of what the host does.
    pub(crate) fn from_step(
        lowered: &LoweredProgram,
        step: &LoweredStep,
    ) -> Result<Option<LaidOutOp>> {
        let StepAction::Op(node, op) = &step.action else { return Ok(None) };
        let Some(spans) = step.space.clone() else { return Ok(None) };
        let inputs: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
        let outputs: Vec<TensorLayout> =
            step.writes.iter().map(|b| lowered.buffer(*b).laid.clone()).collect();
        let loops = op.tensor_loops(&inputs, &outputs)?;
        // Without elements there is nothing to divide.
        let empty = inputs.iter().chain(&outputs).any(|t| t.numel() == 0);
        let space = match &loops {
            Some(_) if !empty => IterationSpace::from_op(op, &inputs, &outputs)?,
            _ => None,
        };
        let hint = |(dim, n): &(String, usize)| SplitHint {
            dim: dim.clone(),
            split: i64::try_from(*n).unwrap_or(i64::MAX),
        };
        // A hint for an empty tensor cannot hold, and a program for a batch of size 0 is no error.
        let hints = match empty {
            true => Vec::new(),
            false => lowered.graph.node(*node).hint.iter().map(hint).collect(),
        };
        let answered = RefCell::default();
        Ok(Some(LaidOutOp {
            op: op.clone(),
            inputs,
            outputs,
            loops,
            spans,
            space,
            hints,
            answered,
        }))
    }

    /// What the operation does under these splits; none where they cannot be, or the kernel refuses them.
    pub(super) fn divide_by(
        &self,
        options: &CompilerOptions,
        splits: &[usize],
        decided: (impl Into<String>, String),
    ) -> Option<StepDivision> {
        let compute = || {
            let division = WorkDivision::new(splits, &self.spans, options.cores).ok()?;
            let cores = options.cores;
            let made = self.op.plan_work(&self.inputs, &self.outputs, Some(&division), cores).ok();
            made.map(|(division, work)| (division, Rc::new(work)))
        };
        // The cache is in a `RefCell`, because steps of repeated layers share one operation and the search asks it
        // again for every program.
        let known = self.answered.borrow().divided.get(splits).cloned();
        let made = known.unwrap_or_else(|| {
            let made = compute();
            self.answered.borrow_mut().divided.insert(splits.to_vec(), made.clone());
            made
        });
        let (division, work) = made?;
        let decided = (decided.0.into(), decided.1);
        Some(StepDivision { division, work, decided, rounds: None })
    }

    /// Cycles of the operation in a division with some tensors kept in the scratchpads; none where that cannot be.
    pub(super) fn division_cycles(
        &self,
        options: &CompilerOptions,
        divided: &StepDivision,
        tensors: &[usize],
    ) -> Option<u64> {
        let key = (divided.division.splits().to_vec(), tensors.to_vec());
        if let Some(known) = self.answered.borrow().cycles.get(&key) {
            return *known;
        }
        let cycles = match tensors {
            // An operation without loops has its work, but keeps nothing.
            [] => Some(options.hardware.operation_latency(&divided.work).cycles),
            _ => {
                let work = self.work_with_residents(divided, tensors);
                work.map(|w| options.hardware.operation_latency(&w).cycles)
            }
        };
        self.answered.borrow_mut().cycles.insert(key, cycles);
        cycles
    }

    /// The sticks of a tensor, as kernels see them: operands, then results.
    fn tensor_sticks(&self, tensor: usize) -> Option<StickForm> {
        self.inputs.iter().chain(&self.outputs).nth(tensor).and_then(|l| l.stick_form().ok())
    }

    /// The part of a tensor that every core has.
    pub(crate) fn core_regions(
        &self,
        tensor: usize,
        division: &WorkDivision,
    ) -> Option<Rc<CoreParts>> {
        let loops = self.loops.as_ref()?;
        let mut answered = self.answered.borrow_mut();
        let parts =
            answered.parts.entry((tensor, division.splits().to_vec())).or_insert_with(|| {
                Rc::new(
                    (0..division.core_count())
                        .map(|c| loops.core_region(tensor, c, division))
                        .collect(),
                )
            });
        Some(parts.clone())
    }

    /// The work with some tensors kept in the scratchpads; none where what the account charges for
    /// them is not what their parts move.
    pub(crate) fn work_with_residents(
        &self,
        divided: &StepDivision,
        tensors: &[usize],
    ) -> Option<Rc<OperationWork>> {
        let key = (divided.division.splits().to_vec(), tensors.to_vec());
        if let Some(known) = self.answered.borrow().works.get(&key) {
            return known.clone();
        }
        let work = match tensors {
            [] => Some(divided.work.clone()),
            _ => self.work_without_traffic(divided, tensors).map(Rc::new),
        };
        self.answered.borrow_mut().works.insert(key, work.clone());
        work
    }

    fn work_without_traffic(
        &self,
        divided: &StepDivision,
        tensors: &[usize],
    ) -> Option<OperationWork> {
        let loops = self.loops.as_ref()?;
        let mut work = (*divided.work).clone();
        let charges = self.op.unit_charges(&self.inputs, &self.outputs).ok().flatten();
        let product = charges.and_then(|c| c.product);
        for tensor in tensors {
            let role = product.and_then(|both| both.iter().position(|i| i == tensor));
            if let Some(role) = role {
                let tiles = work.cores.iter_mut().filter_map(|core| core.tile.as_mut());
                tiles.for_each(|tile| tile.operands[role].resident = true);
            }
            let whole = self.tensor_sticks(*tensor)?;
            let regions = self.core_regions(*tensor, &divided.division)?;
            for (core, done) in work.cores.iter_mut().enumerate() {
                let mut part = whole.clone();
                for (d, range) in
                    loops.core_region(*tensor, core, &divided.division).into_iter().enumerate()
                {
                    // A part that begins inside a stick shares that stick with another core, so that what it saves
                    // cannot be subtracted from one of them.
                    if whole.stick == Some(d) && range.start % whole.eps != 0 {
                        return None;
                    }
                    part = part.slice_dim(d, range);
                }
                let (traffic, padding) = part.stick_traffic();
                let side =
                    if *tensor < self.inputs.len() { &mut done.reads } else { &mut done.writes };
                // Where the account charges other bursts than the part has (a kernel that reads an operand twice),
                // nothing is subtracted: the tensor is then no resident, which is slower and not wrong.
                *side = side.checked_subtract(&traffic)?;
                // What several cores have in their scratchpads is not read once for all of them either. Operands with
                // equal bursts are told apart by how many cores have the same part.
                if *tensor < self.inputs.len() {
                    let alike = regions.iter().filter(|r| Some(*r) == regions.get(core)).count();
                    let left = |s: &SharedReads| s.bursts.checked_subtract(&traffic);
                    let exact = |s: &&mut SharedReads| s.cores == alike as u64 && left(s).is_some();
                    let found = match done.shared.iter_mut().find(exact) {
                        Some(found) => Some(found),
                        None => done.shared.iter_mut().find(|s| left(s).is_some()),
                    };
                    if let Some(shared) = found
                        && let Some(rest) = left(shared)
                    {
                        shared.bursts = rest;
                    }
                    done.shared.retain(|s| !s.bursts.bursts().is_empty());
                }
                done.padding_bytes = done.padding_bytes.checked_sub(padding)?;
                let sticks = traffic.total_bytes() / 128;
                done.unique_sticks = done.unique_sticks.map(|n| n.saturating_sub(sticks));
            }
        }
        Some(work)
    }

    /// Bytes of the largest part of a tensor on one core.
    pub(crate) fn largest_part_bytes(&self, tensor: usize, division: &WorkDivision) -> u64 {
        let key = (tensor, division.splits().to_vec());
        if let Some(known) = self.answered.borrow().bytes.get(&key) {
            return *known;
        }
        let (Some(whole), Some(loops)) = (self.tensor_sticks(tensor), &self.loops) else {
            return 0;
        };
        let bytes = |core| {
            let region: Vec<Range<usize>> = loops.core_region(tensor, core, division);
            let cells: u64 = region
                .iter()
                .enumerate()
                .map(|(d, r)| {
                    let n = r.len() as u64;
                    if whole.stick == Some(d) { n.div_ceil(whole.eps as u64) } else { n }
                })
                .product();
            cells * 128
        };
        let most = (0..division.core_count()).map(bytes).max().unwrap_or(0);
        self.answered.borrow_mut().bytes.insert(key, most);
        most
    }
}
