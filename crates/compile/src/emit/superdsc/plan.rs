//! Which kernels do a step.
//!
//! Most steps are one function. What is not becomes several kernels, in this order of attempts:
//!
//! 1. **Moves** (`cat`, `pad`, `slice_scatter`, restickifies): copies into slices of the result.
//! 2. **Rows by index** (`embedding`, `index_select`, `index_copy`): copies through an index tensor.
//! 3. **Everything else** is decomposed into operations (`decompose`), which are compiled as a program of their own, by
//!    the rules of torch-spyre (`baseline`) and without scratchpads; its steps are planned the same way.
//!
//! What the kernels of a step pass to each other is in the *workspace*, a block of memory beside the program's own.
//! Numbers that kernels need, and tensors that follow from no input (the mask of a causal attention), are *tables* of
//! the workspace, written once when the program is loaded. Operands in scratchpads, and results there, are copied from
//! and to the workspace by the cores that have them.

use super::copy::{KernelWorkspace, MemoryTensor, list_other_layouts};
use super::kernel::SdscKernel;
use super::op_func::{OpFunc, SdscFamily, find_op_func};
use super::rows::plan_rows_by_index;
use super::staging::{StagedOperands, add_part_input, dense_layout, stage_operands};
use super::work::{KernelWork, SdscLoops, WorkCores, WorkMemory, WorkTensor};
use crate::compile::compile_graph;
use crate::decompose::decompose_all_ops;
use crate::emit::host::number_json;
use crate::options::{CompilePolicy, CompilerOptions, OutputLayoutRule, WeightLayoutRule};
use crate::program::{
    BufferId, BufferLocation, BufferRead, CompiledProgram, ElementOrigin, ProgramStep, StepAction,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use zellige_device::{ElementMove, OpLoops, PieceOwner, PlanOp, TensorLayout};
use zellige_graph::{GraphBuilder, GraphOperand, InputRole, TensorId, TensorOrigin};
use zellige_machine::Key;
use zellige_op::{CoverageProfile, HostScalar, TensorOp};
use zellige_stick::{LayoutRequest, StickLayout};

/// How deep decompositions may be nested.
// A limit, because a decomposition could lead back to the operation it began with.
const MAX_DECOMPOSITION_DEPTH: usize = 6;

/// The kernels of every step of a program, and the memory that they need beside the program's.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelPlan {
    /// Per step its kernels, or why there are none.
    pub(super) steps: Vec<Result<Vec<SdscKernel>, String>>,
    /// Bytes between kernels.
    pub(crate) scratch: u64,
    /// What is written when the program is loaded.
    pub(crate) tables: Vec<WorkspaceTable>,
}

/// Numbers of the workspace that are there before anything runs.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceTable {
    /// Their layout.
    pub(crate) laid: TensorLayout,
    /// What they are: a number, or operations that follow from no input.
    pub(crate) made: Value,
}

impl WorkspaceTable {
    /// Its bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs)
    }
}

impl KernelPlan {
    /// Plans all steps.
    pub(crate) fn new(program: &CompiledProgram) -> KernelPlan {
        let mut planner = SdscPlanner { tables: Vec::new(), known: HashMap::new() };
        let (mut steps, mut scratch) = (Vec::with_capacity(program.steps.len()), 0);
        let mut wave: Option<(bool, usize, u64)> = None;
        for step in &program.steps {
            // Steps of one wave may run at the same time, so that each has memory of its own.
            let used = match wave {
                Some((load, number, used)) if (load, number) == (step.load, step.wave) => used,
                _ => 0,
            };
            let cores = step.division.core_count().max(step.work.cores.len()).max(1);
            let cores = cores.min(program.options.cores);
            let mut bench = KernelWorkspace {
                used,
                first_core: step.first_core,
                cores,
                span: program.options.hardware.figure_count(Key::Span),
            };
            let made = planner.plan_step(program, step, &mut bench, MAX_DECOMPOSITION_DEPTH);
            // A step without kernels is done by someone else and needs no workspace.
            let end = if made.is_ok() { bench.used } else { used };
            wave = Some((step.load, step.wave, end));
            scratch = scratch.max(end);
            steps.push(made);
        }
        KernelPlan { steps, scratch, tables: planner.tables }
    }

    /// Where a table begins in the workspace.
    pub(crate) fn table_offset(&self, table: usize) -> u64 {
        let bytes = |t: &WorkspaceTable| t.table_bytes().next_multiple_of(128);
        self.scratch.next_multiple_of(128) + self.tables[..table].iter().map(bytes).sum::<u64>()
    }

    /// Bytes of the workspace.
    pub(crate) fn workspace_bytes(&self) -> u64 {
        match self.tables.last() {
            Some(last) => self.table_offset(self.tables.len() - 1) + last.table_bytes(),
            None => self.scratch,
        }
    }
}

/// Kernels, or why there are none.
pub(super) type PlannedKernels = Result<Vec<SdscKernel>, String>;

/// The plan of an operation for all tensors of the same layouts.
#[derive(Debug, Clone)]
struct SdscTemplate {
    kernels: Vec<SdscKernel>,
    bytes: u64,
}

struct SdscPlanner {
    tables: Vec<WorkspaceTable>,
    known: HashMap<String, Result<SdscTemplate, String>>,
}

impl SdscPlanner {
    fn plan_step(
        &mut self,
        program: &CompiledProgram,
        step: &ProgramStep,
        bench: &mut KernelWorkspace,
        depth: usize,
    ) -> PlannedKernels {
        let op = match &step.action {
            StepAction::Host(..) => return Err("the host does it".into()),
            StepAction::Move { .. } => {
                let made = restickify_step(program, step, bench)?;
                // Rows that its target has past the end are filled last: where they come from a padded stick, the copy
                // goes through them, and what is in that padding is anything.
                let (id, laid) = (step.writes[0], &program.buffer(step.writes[0]).laid);
                let rows = laid.rows_past_the_end().map(|laid| {
                    self.plan_fill(
                        &MemoryTensor { memory: WorkMemory::Buffer(id), laid },
                        HostScalar::Float(0.0),
                        bench,
                    )
                });
                return Ok([made, rows.transpose()?.unwrap_or_default()].concat());
            }
            StepAction::Op(_, op) => op,
        };
        let direct = match plan_direct(program, step, op, None) {
            Ok(made) => return Ok(made),
            Err(reason) => reason,
        };
        let Some(depth) = depth.checked_sub(1) else { return Err(direct) };
        // Attempts allocate workspace as they go, so that a failed one is undone before the next.
        let before = bench.clone();
        let staged = stage_operands(program, step, op, bench)?;
        // What kept the step from being one kernel may be where its operands are: in memory it is one.
        let again = match staged.before.is_empty() {
            true => None,
            false => plan_direct(program, step, op, Some(&staged)).ok(),
        };
        let made = again.map(Ok).or_else(|| self.plan_moves(op, &staged, bench));
        let made = made.or_else(|| plan_rows_by_index(op, &staged, bench));
        let made = match made {
            Some(made) => made,
            None => self.plan_parts(program, step, &staged, bench, depth),
        };
        match made {
            Ok(kernels) => Ok([staged.before, kernels, staged.after].concat()),
            Err(reason) => {
                *bench = before;
                // The reason of the direct attempt names the operation that the reader wrote; the reasons of its
                // parts are of use only where there are parts.
                Err(if reason.starts_with("no parts of") { direct } else { reason })
            }
        }
    }

    /// A number as a tensor of one element.
    fn add_table(&mut self, laid: &TensorLayout, made: Value) -> WorkMemory {
        let known = self.tables.iter().position(|t| t.laid == *laid && t.made == made);
        WorkMemory::Table(known.unwrap_or_else(|| {
            self.tables.push(WorkspaceTable { laid: laid.clone(), made });
            self.tables.len() - 1
        }))
    }

    /// An operation that only moves elements; none for one that computes.
    fn plan_moves(
        &mut self,
        op: &TensorOp,
        staged: &StagedOperands,
        bench: &mut KernelWorkspace,
    ) -> Option<PlannedKernels> {
        let ins: Vec<TensorLayout> = staged.reads.iter().map(|p| p.laid.clone()).collect();
        let outs: Vec<TensorLayout> = staged.writes.iter().map(|p| p.laid.clone()).collect();
        let list = match op.plan_moves(&ins, &outs) {
            Ok(list) => list?,
            Err(e) => return Some(Err(e.to_string())),
        };
        Some(self.plan_all_moves(&list, staged, bench))
    }

    fn plan_all_moves(
        &mut self,
        list: &[ElementMove],
        staged: &StagedOperands,
        bench: &mut KernelWorkspace,
    ) -> PlannedKernels {
        let begin = bench.clone();
        let reason = match self.plan_moves_into(list, staged, &staged.writes[0], bench) {
            Ok(made) => return Ok(made),
            Err(reason) => reason,
        };
        // Slices of the result begin inside sticks: it is made with its sticks along another dimension.
        let out = &staged.writes[0];
        let own = out.laid.stick_form().map_err(|e| e.to_string())?;
        for laid in list_other_layouts(&out.laid, out.laid.view(), own.stick) {
            *bench = begin.clone();
            let between = bench.allocate_tensor(&laid);
            // Copying the result there and back is needed only where the moves leave some of its elements as they
            // were.
            let over = !list.iter().any(|m| writes_whole_result(m, &staged.writes[0].laid));
            let mut attempt = || -> PlannedKernels {
                // What the moves do not write stays as it is.
                let load = if over && count_written_elements(list) < out.laid.numel() {
                    build_sdsc_kernels(&bench.plan_copy(out, &between)?)?
                } else {
                    Vec::new()
                };
                let moved = self.plan_moves_into(list, staged, &between, bench)?;
                let back = build_sdsc_kernels(&bench.plan_copy(&between, out)?)?;
                Ok([load, moved, back].concat())
            };
            if let Ok(made) = attempt() {
                return Ok(made);
            }
        }
        *bench = begin;
        Err(reason)
    }

    /// The moves with another tensor of the same size in the place of the result.
    fn plan_moves_into(
        &mut self,
        list: &[ElementMove],
        staged: &StagedOperands,
        out: &MemoryTensor,
        bench: &mut KernelWorkspace,
    ) -> PlannedKernels {
        let mut scratch: HashMap<usize, WorkMemory> = HashMap::new();
        let mut made = Vec::new();
        for step in list {
            let mut place = |piece: &zellige_device::TensorPiece, bench: &mut KernelWorkspace| {
                let laid = piece.laid.clone();
                Ok::<MemoryTensor, String>(match piece.of {
                    PieceOwner::Input(k) => MemoryTensor { memory: staged.reads[k].memory, laid },
                    PieceOwner::Output(_) => {
                        let view = piece.laid.view().clone();
                        let laid = out.laid.view_layout(|_| Ok(view)).map_err(|e| e.to_string())?;
                        MemoryTensor { memory: out.memory, laid }
                    }
                    PieceOwner::Scratch(n) => {
                        let memory = *scratch.entry(n).or_insert_with(|| {
                            bench.allocate_tensor(&piece.laid.base_layout()).memory
                        });
                        MemoryTensor { memory, laid }
                    }
                })
            };
            match step {
                ElementMove::Copy { from, to } => {
                    let (from, to) = (place(from, bench)?, place(to, bench)?);
                    made.extend(build_sdsc_kernels(&bench.plan_copy(&from, &to)?)?);
                }
                ElementMove::Fill { to, value } => {
                    let to = place(to, bench)?;
                    made.extend(self.plan_fill(&to, *value, bench)?);
                }
            }
        }
        Ok(made)
    }

    /// A number into every element.
    fn plan_fill(
        &mut self,
        to: &MemoryTensor,
        value: HostScalar,
        bench: &KernelWorkspace,
    ) -> PlannedKernels {
        let format = to.laid.stick_layout().device_dtype();
        let one = StickLayout::default_in_format(&[], None, format).map_err(|e| e.to_string())?;
        let one = TensorLayout::new(to.laid.storage_policy(), to.laid.dtype(), &one)
            .map_err(|e| e.to_string())?;
        let memory = self.add_table(&one, json!({"number": number_json(value)}));
        let tensors = vec![WorkTensor::new(memory, &one)?, WorkTensor::new(to.memory, &to.laid)?];
        let mut loops = SdscLoops::for_copy(&[&tensors[1].form], None, bench.cores, false);
        loops.follows.insert(0, Vec::new());
        let func = copy_function();
        let cores = WorkCores::From(bench.first_core);
        SdscKernel::from_work(&KernelWork { func, tensors, loops, cores, indexed: None })
    }

    /// The kernels of the operations that a step is made of.
    fn plan_parts(
        &mut self,
        program: &CompiledProgram,
        step: &ProgramStep,
        staged: &StagedOperands,
        bench: &mut KernelWorkspace,
        depth: usize,
    ) -> PlannedKernels {
        let node = step.node().map(|n| program.graph.node(n));
        let attributes = node.map(|n| &n.attributes);
        let laid = |list: &[MemoryTensor]| list.iter().map(|p| p.laid.clone()).collect::<Vec<_>>();
        let constants: Vec<Option<HostScalar>> = node.map_or_else(Vec::new, |n| {
            let of = |i: &TensorId| match program.graph.get(*i).def {
                TensorOrigin::Constant(value) => Some(value),
                _ => None,
            };
            n.inputs.iter().map(of).collect()
        });
        // Repeated layers decompose the same operations on the same layouts: the plan is made once, for operands by
        // number, and moved to the memory of each.
        let key = format!(
            "{:?} {attributes:?} {constants:?} {:?} {:?} {}",
            step.op().map(TensorOp::name),
            laid(&staged.reads),
            laid(&staged.writes),
            bench.cores,
        );
        let template = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let made = self.plan_template(program, step, staged, bench, depth);
                self.known.insert(key, made.clone());
                made
            }
        }?;
        let base = bench.used;
        bench.used = (base + template.bytes).next_multiple_of(128);
        let place = |memory: WorkMemory| match memory {
            WorkMemory::Operand(k) => staged.reads[k].memory,
            WorkMemory::Result(k) => staged.writes[k].memory,
            WorkMemory::Scratch(at) => WorkMemory::Scratch(base + at),
            other => other,
        };
        let first = bench.first_core;
        Ok(template.kernels.iter().map(|k| k.relocated_to(place, first)).collect())
    }

    /// The same with operands and results by number, on cores from 0 on.
    fn plan_template(
        &mut self,
        program: &CompiledProgram,
        step: &ProgramStep,
        staged: &StagedOperands,
        bench: &KernelWorkspace,
        depth: usize,
    ) -> Result<SdscTemplate, String> {
        let said = |e: zellige_graph::GraphError| e.to_string();
        let mut own = KernelWorkspace { used: 0, first_core: 0, ..bench.clone() };
        let node = step.node().map(|n| program.graph.node(n)).ok_or("it is no operation")?;
        let mut builder = GraphBuilder::new("parts");
        let (mut operands, mut memory, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for (k, (id, read)) in node.inputs.iter().zip(&staged.reads).enumerate() {
            if let TensorOrigin::Constant(value) = program.graph.get(*id).def {
                let value =
                    builder.add_constant(value, program.graph.get(*id).dtype).map_err(said)?;
                operands.push(GraphOperand::Tensor(value));
                continue;
            }
            let name = format!("operand.{k}");
            let given = MemoryTensor { memory: WorkMemory::Operand(k), laid: read.laid.clone() };
            let seen = match add_part_input(&mut builder, &name, &program.graph, *id, &given.laid) {
                Some(seen) => {
                    memory.push(given.memory);
                    seen
                }
                None => {
                    // A view that no operations of a graph make: its elements are copied first.
                    let copied = own.allocate_tensor(&dense_layout(&given.laid)?);
                    made.extend(build_sdsc_kernels(&own.plan_copy(&given, &copied)?)?);
                    memory.push(copied.memory);
                    let (size, dtype) = (copied.laid.size(), copied.laid.dtype());
                    let name = format!("{name}.copied");
                    let id =
                        builder.add_input(&name, size, dtype, InputRole::Input).map_err(said)?;
                    let pin = LayoutRequest::Exactly(copied.laid.stick_layout().clone());
                    builder.pin_layout(id, pin).map_err(said)?;
                    id
                }
            };
            operands.push(GraphOperand::Tensor(seen));
        }
        let names: Vec<String> = (0..node.outputs.len()).map(|k| format!("result.{k}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let op = builder.add_op(node.op.name(), &operands, &node.attributes, &names);
        let results = op.map_err(said)?;
        for (id, write) in results.iter().zip(&staged.writes) {
            let layout = write.laid.stick_layout().clone();
            builder.pin_layout(*id, LayoutRequest::Exactly(layout)).map_err(said)?;
        }
        let graph = decompose_all_ops(
            &builder.finish_graph(&results).map_err(said)?,
            program.options.storage,
        )?;
        // The parts run as one step of the program that contains them: on its cores, one after the other, through
        // memory. A search for better layouts would price them as if they had the card for themselves.
        let options = CompilerOptions {
            policy: CompilePolicy::Baseline,
            coverage: CoverageProfile::Full,
            weights: WeightLayoutRule::Given,
            outputs: OutputLayoutRule::Default,
            decompose: Some(false),
            strict: false,
            scratchpads: None,
            concurrent: false,
            cores: bench.cores,
            ..program.options.clone()
        };
        let sub = compile_graph(&graph, &options).map_err(|e| e.to_string())?;
        made.extend(self.plan_program(&sub, &memory, staged, &mut own, depth)?);
        Ok(SdscTemplate { kernels: made, bytes: own.used })
    }

    /// The kernels of a program of parts, whose inputs are in this memory and whose outputs are the results.
    fn plan_program(
        &mut self,
        sub: &CompiledProgram,
        inputs: &[WorkMemory],
        staged: &StagedOperands,
        bench: &mut KernelWorkspace,
        depth: usize,
    ) -> PlannedKernels {
        let base = bench.used;
        let pool = sub.buffers.iter().filter_map(|b| match b.place {
            BufferLocation::Pool(at) => Some(at + b.bytes()),
            _ => None,
        });
        bench.used = (base + pool.max().unwrap_or(0)).next_multiple_of(128);
        let mut memory: Vec<WorkMemory> = Vec::with_capacity(sub.buffers.len());
        for (i, b) in sub.buffers.iter().enumerate() {
            let input = sub.inputs.iter().position(|id| id.0 == i);
            memory.push(match (&b.origin, b.place) {
                (ElementOrigin::Constant(value), _) => {
                    self.add_table(&b.laid, json!({"number": number_json(*value)}))
                }
                (_, _) if input.is_some() => inputs[input.unwrap_or(0)],
                (_, BufferLocation::Pool(at)) => WorkMemory::Scratch(base + at),
                (_, BufferLocation::Over(under)) if under.0 < i => memory[under.0],
                _ => bench.allocate_tensor(&b.laid).memory,
            });
        }
        let mut copied = Vec::new();
        for (k, (read, write)) in sub.outputs.iter().zip(&staged.writes).enumerate() {
            let b = sub.buffer(read.buffer);
            let alone = matches!(b.place, BufferLocation::Pool(_))
                && !matches!(b.origin, ElementOrigin::Input(_));
            let same = read.laid == b.laid && b.laid.stick_layout() == write.laid.stick_layout();
            let once = sub.outputs.iter().filter(|r| r.buffer == read.buffer).count() == 1;
            // Writing a part directly into the result saves a copy. It is allowed where nobody else needs the buffer
            // and no operand is overwritten before its last reader.
            // A result that takes the place of an operand is written last.
            let over = staged.reads.iter().any(|r| r.memory == write.memory);
            if alone && same && once && !over {
                memory[read.buffer.0] = WorkMemory::Result(k);
                for (i, b) in sub.buffers.iter().enumerate() {
                    if b.place == BufferLocation::Over(read.buffer) {
                        memory[i] = WorkMemory::Result(k);
                    }
                }
            } else {
                let to = MemoryTensor { memory: WorkMemory::Result(k), laid: write.laid.clone() };
                copied.push((read, to));
            }
        }
        // What follows from no input is computed once, by the host.
        let mut fixed: HashMap<usize, Value> = HashMap::new();
        for (i, b) in sub.buffers.iter().enumerate() {
            if let ElementOrigin::Constant(value) = b.origin {
                fixed.insert(i, json!({"number": number_json(value)}));
            }
        }
        let mut made = Vec::new();
        let (begin, mut peak) = (bench.used, bench.used);
        for step in &sub.steps {
            // Workspace of one step is free again for the next; the peak is what has to be reserved.
            bench.used = begin;
            let of: Option<Vec<Value>> =
                step.reads.iter().map(|r| view_fixed_value(&fixed, r)).collect();
            if let (Some(of), [write]) = (of, step.writes.as_slice()) {
                let expression = constant_expression(sub, step, of);
                let laid = &sub.buffer(*write).laid;
                memory[write.0] = self.add_table(laid, expression.clone());
                fixed.insert(write.0, expression);
                continue;
            }
            let kernels = self.plan_step(sub, step, bench, depth).map_err(|e| {
                let op = step.op().map_or("move", TensorOp::name);
                format!("its part {} ({op}): {e}", step.name)
            })?;
            let place = |m: WorkMemory| match m {
                WorkMemory::Buffer(id) => memory[id.0],
                other => other,
            };
            made.extend(kernels.iter().map(|k| k.relocated_to(place, 0)));
            peak = peak.max(bench.used);
        }
        bench.used = peak;
        for (read, to) in copied {
            let from = MemoryTensor { memory: memory[read.buffer.0], laid: read.laid.clone() };
            made.extend(build_sdsc_kernels(&bench.plan_copy(&from, &to)?)?);
        }
        Ok(made)
    }
}

/// A view of what follows from no input; none of anything else.
fn view_fixed_value(fixed: &HashMap<usize, Value>, read: &BufferRead) -> Option<Value> {
    let of = fixed.get(&read.buffer.0)?;
    if read.laid.is_base() {
        return Some(of.clone());
    }
    let v = read.laid.view();
    Some(
        json!({"view": {"size": v.size(), "stride": v.stride(), "offset": v.offset()}, "of": [of]}),
    )
}

/// What a step computes of tensors that follow from no input.
fn constant_expression(program: &CompiledProgram, step: &ProgramStep, of: Vec<Value>) -> Value {
    match (step.op(), step.node()) {
        (Some(op), Some(node)) => {
            json!({"op": op.name(), "attributes": program.graph.node(node).attributes, "of": of})
        }
        _ => of.into_iter().next().unwrap_or(Value::Null),
    }
}

pub(super) fn copy_function() -> OpFunc {
    OpFunc {
        name: "identity",
        family: SdscFamily::Pointwise,
        constants: Vec::new(),
        operands: vec![0],
    }
}

pub(super) fn build_sdsc_kernels(list: &[KernelWork]) -> PlannedKernels {
    let made: Vec<Vec<SdscKernel>> =
        list.iter().map(SdscKernel::from_work).collect::<Result<_, _>>()?;
    Ok(made.concat())
}

/// Whether a move writes all of a result.
fn writes_whole_result(m: &ElementMove, out: &TensorLayout) -> bool {
    let (ElementMove::Copy { to, .. } | ElementMove::Fill { to, .. }) = m;
    matches!(to.of, PieceOwner::Output(_)) && to.laid.view() == out.view()
}

/// The elements of a result that moves write; slices of one operation do not overlap.
fn count_written_elements(list: &[ElementMove]) -> i64 {
    let of = |m: &ElementMove| {
        let (ElementMove::Copy { to, .. } | ElementMove::Fill { to, .. }) = m;
        if matches!(to.of, PieceOwner::Output(_)) { to.laid.numel() } else { 0 }
    };
    list.iter().map(of).sum()
}

/// A step that is one function, on its own buffers or on staged ones.
fn plan_direct(
    program: &CompiledProgram,
    step: &ProgramStep,
    op: &TensorOp,
    staged: Option<&StagedOperands>,
) -> PlannedKernels {
    let func = find_op_func(program, step)?;
    let [result] = step.writes.as_slice() else {
        return Err(format!("it has {} results, and a kernel has one", step.writes.len()));
    };
    let in_memory = |tensor: &MemoryTensor| WorkTensor::new(tensor.memory, &tensor.laid);
    let operand = |i: &usize| match staged {
        Some(staged) => in_memory(&staged.reads[*i]),
        None => build_work_tensor(program, step.reads[*i].buffer, &step.reads[*i].laid),
    };
    let mut tensors: Vec<WorkTensor> =
        func.operands.iter().map(operand).collect::<Result<_, _>>()?;
    tensors.push(match staged {
        Some(staged) => in_memory(&staged.writes[0])?,
        None => build_work_tensor(program, *result, &program.buffer(*result).laid)?,
    });
    let inside = |t: &WorkTensor| t.scratchpad && t.form.offset > 0;
    if let Some(i) = tensors.iter().position(inside) {
        return Err(format!("operand {i} is a part of a tensor in the scratchpads"));
    }
    let found = find_step_loops(program, step, op)?;
    let last = found.tensor_count() - 1;
    let order = func.operands.iter().copied().chain([last]);
    let loops = SdscLoops {
        spans: found.loop_spans().to_vec(),
        splits: step.division.splits().to_vec(),
        follows: order.map(|t| found.followed_loops(t).to_vec()).collect(),
        row: false,
        keep: None,
        rounds: step.rounds,
    };
    // A sum is one kernel, which has slices of one length: it gets fewer of them than the step has, and then a core
    // needs what is in the scratchpad of another one.
    let uneven = |l: &usize| {
        loops.spans[*l].reduced && !loops.spans[*l].unit_count().is_multiple_of(loops.splits[*l])
    };
    let kept = tensors
        .iter()
        .zip(&loops.follows)
        .position(|(tensor, follows)| tensor.scratchpad && follows.iter().flatten().any(uneven));
    if let Some(i) = kept {
        return Err(format!(
            "operand {i} is in the scratchpads, summed over in slices of different lengths"
        ));
    }
    let cores = WorkCores::From(step.first_core);
    SdscKernel::from_work(&KernelWork { func, tensors, loops, cores, indexed: None })
}

pub(super) fn find_step_loops(
    program: &CompiledProgram,
    step: &ProgramStep,
    op: &TensorOp,
) -> Result<OpLoops, String> {
    let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
    let outs: Vec<TensorLayout> =
        step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
    let found = op.tensor_loops(&ins, &outs).map_err(|e| e.to_string())?;
    found.ok_or_else(|| "its slices are no boxes of its tensors".into())
}

pub(super) fn build_work_tensor(
    program: &CompiledProgram,
    id: BufferId,
    laid: &TensorLayout,
) -> Result<WorkTensor, String> {
    let scratchpad = matches!(program.buffer(id).place, BufferLocation::Lx(_));
    Ok(WorkTensor { scratchpad, ..WorkTensor::new(WorkMemory::Buffer(id), laid)? })
}

/// A restickify of the program, divided as it says.
fn restickify_step(
    program: &CompiledProgram,
    step: &ProgramStep,
    bench: &mut KernelWorkspace,
) -> PlannedKernels {
    let (read, write) = (&step.reads[0], step.writes[0]);
    let from = MemoryTensor { memory: WorkMemory::Buffer(read.buffer), laid: read.laid.clone() };
    let to = MemoryTensor {
        memory: WorkMemory::Buffer(write),
        laid: program.buffer(write).laid.clone(),
    };
    if from.laid.numel() == 0 {
        return Err("it has no elements".into());
    }
    bench.cores = program.options.cores;
    let mut list = bench.plan_copy(&from, &to)?;
    if let [only] = list.as_mut_slice() {
        let given = step.division.splits();
        if given.len() == only.loops.spans.len() && step.division.core_count() > 1 {
            let forms = [&only.tensors[0].form, &only.tensors[1].form];
            let moved = only.func.family == SdscFamily::Restickify;
            let rounds = only.loops.rounds;
            only.loops = SdscLoops::for_copy(&forms, Some(given), bench.cores, moved);
            only.loops.rounds = rounds;
        }
    }
    build_sdsc_kernels(&list)
}
