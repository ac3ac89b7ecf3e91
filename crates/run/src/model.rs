//! A program on a card.

mod resident;

use crate::error::{ProgramRunError, Result};
use crate::host_array::HostArray;
use crate::numbers::{NumberLoss, NumberLossKind};
use std::sync::Arc;
use zellige_compile::{
    BufferId, BufferLocation, BufferRead, BundleId, CompiledProgram, ElementOrigin, ProgramStep,
    StepAction, StepId, check_program,
};
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, LaunchOutcome, PreparedLaunch, PreparedWave};
use zellige_device::{Tensor, TensorLayout};
use zellige_graph::InputRole;
use zellige_machine::{OperationWork, SimulatedTime, WorkKind};

/// Gives the tensor of a weight, and how long it took to get there.
type WeightSource<'a> =
    dyn FnMut(&mut LoadedModel, BufferId) -> Result<(Tensor, SimulatedTime)> + 'a;

/// A program loaded onto a card.
#[derive(Debug)]
pub struct LoadedModel {
    program: Arc<CompiledProgram>,
    card: Card,
    /// Whether states are its own, or come with every run.
    owns: bool,
    tensors: Vec<Option<Tensor>>,
    /// The layout of every buffer, shared by its tensors of all runs.
    layouts: Vec<Arc<TensorLayout>>,
    /// For every step and every tensor that it reads, the view of the buffer; none where it reads the whole buffer.
    views: Vec<Vec<Option<Arc<TensorLayout>>>>,
    /// For every step that has run, what the next run need not settle again.
    prepared: Vec<Option<PreparedLaunch>>,
    /// For every step that ends a wave which has run, the accounts of the wave.
    waves: Vec<Option<PreparedWave>>,
    /// For every step, the buffers that no later step uses.
    released: Vec<Vec<usize>>,
    load: SimulatedTime,
    /// Whether the results of steps are searched for NaNs.
    watches: bool,
    /// Numbers that were lost so far, a tensor at most once.
    losses: Vec<NumberLoss>,
    /// Of every bundle, how often it was launched.
    launches: Vec<usize>,
}

/// What became of the bundles of a loaded program so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BundleCounts {
    /// Bundles that were prepared: each at its first launch and never again, as their addresses are arguments.
    pub prepared: usize,
    /// Launches, the first ones included.
    pub launched: usize,
}

/// What a run gave.
#[derive(Debug)]
pub struct RunOutcome {
    /// The outputs, as the host sees them.
    pub outputs: Vec<HostArray>,
    /// How long it took on the card, transfers not counted.
    pub latency: SimulatedTime,
    /// How long the transfers of inputs took.
    pub upload: SimulatedTime,
    /// The same of outputs.
    pub download: SimulatedTime,
}

impl LoadedModel {
    /// Loads a program: constants and weights are written, and what depends on them alone is computed.
    /// `weight` gives the weight of a name; states begin as zeros unless `weight` knows them.
    ///
    /// # Errors
    /// Weights that are not what the graph says, a card of other hardware or storage, no room. With
    /// [`ZELLIGE_CHECK=1`](CHECK_VARIABLE) in the environment, a program that the independent check refuses.
    pub fn load_program(
        program: impl Into<Arc<CompiledProgram>>,
        card: &Card,
        mut weight: impl FnMut(&str) -> Result<HostArray>,
    ) -> Result<LoadedModel> {
        LoadedModel::load_with_weights(program.into(), card, true, &mut |model, id| {
            let host = weight(&model.program.buffer(id).name)?;
            model.upload_buffer(id, &host)
        })
    }

    /// The same with weights from anywhere: `weight` gives a tensor in the buffer's layout, and how long
    /// that took. States are the model's own, or come with every run.
    fn load_with_weights(
        program: Arc<CompiledProgram>,
        card: &Card,
        owns: bool,
        weight: &mut WeightSource<'_>,
    ) -> Result<LoadedModel> {
        check_if_requested(&program)?;
        let options = &program.options;
        // Figures of another hardware change times and not elements: runs on tensors of the card are accounted with
        // them.
        let same = (!owns || card.hardware().name() == options.hardware.name())
            && card.storage_policy() == options.storage
            && card.core_count() >= options.cores;
        if !same {
            let tell =
                |hardware: &str, cores, storage| format!("{hardware}, {cores} cores, {storage:?}");
            return Err(ProgramRunError::OtherCard {
                expected: tell(options.hardware.name(), options.cores, options.storage),
                found: tell(card.hardware().name(), card.core_count(), card.storage_policy()),
            });
        }
        // Everything that depends on the program alone is computed when it is loaded, so that a run allocates tensors
        // and launches steps, and nothing else.
        let released = released_buffers(&program);
        let tensors = vec![None; program.buffers.len()];
        let layouts = program.buffers.iter().map(|b| Arc::new(b.laid.clone())).collect();
        let view = |read: &BufferRead| {
            let whole = program.buffer(read.buffer).laid == read.laid;
            (!whole).then(|| Arc::new(read.laid.clone()))
        };
        let views = program.steps.iter().map(|s| s.reads.iter().map(view).collect()).collect();
        let prepared = program.steps.iter().map(|_| None).collect();
        let waves = program.steps.iter().map(|_| None).collect();
        let load = SimulatedTime::ZERO;
        let bundles = program.bundles.len();
        let mut model = LoadedModel {
            program,
            card: card.clone(),
            owns,
            tensors,
            layouts,
            views,
            prepared,
            waves,
            released,
            load,
            // A model on tensors of PyTorch does not search them: PyTorch's own operations do not either, and it
            // would read every result once more.
            watches: owns,
            losses: Vec::new(),
            launches: vec![0; bundles],
        };
        let program = Arc::clone(&model.program);
        for (i, buffer) in program.buffers.iter().enumerate() {
            let made = match &buffer.origin {
                ElementOrigin::Constant(value) => {
                    let t = Tensor::zeros(card, buffer.laid.dtype(), buffer.laid.stick_layout())?;
                    t.fill(*value)?;
                    if t.is_out_of_range(*value) {
                        let (count, first) = (t.numel().unsigned_abs(), vec![0; t.size().len()]);
                        let kind = NumberLossKind::Past { value: value.to_f64() };
                        let tensor = buffer.name.clone();
                        model.note_loss(NumberLoss { tensor, count, first, kind });
                    }
                    t
                }
                ElementOrigin::Input(InputRole::Weight) => {
                    let (t, time) = weight(&mut model, BufferId(i))?;
                    model.load += time;
                    t
                }
                ElementOrigin::Input(InputRole::State) if owns => {
                    Tensor::zeros(card, buffer.laid.dtype(), buffer.laid.stick_layout())?
                }
                _ => continue,
            };
            model.tensors[i] = Some(made);
        }
        for i in 0..model.program.steps.len() {
            if model.program.steps[i].load {
                model.run_step(i)?;
            }
        }
        Ok(model)
    }

    /// The program.
    pub fn program(&self) -> &CompiledProgram {
        &self.program
    }

    /// How many bundles were prepared and launched so far. Only the first launch of a bundle prepares it.
    pub fn bundle_counts(&self) -> BundleCounts {
        BundleCounts {
            prepared: self.launches.iter().filter(|n| **n > 0).count(),
            launched: self.launches.iter().fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }

    /// Counts the launch of the bundle that begins with a step, if one does.
    fn count_launch(&mut self, step: usize) {
        let BundleId(number) = self.program.bundle_of(StepId(step));
        let bundle = &self.program.bundles[number];
        if bundle.steps.start == step && bundle.launch.is_some() {
            self.launches[number] = self.launches[number].saturating_add(1);
        }
    }

    /// The card.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// How long loading took: the transfer of the weights, and the steps on them.
    pub fn load_time(&self) -> SimulatedTime {
        self.load + self.program.load_latency()
    }

    /// Writes the state of a name.
    ///
    /// # Errors
    /// Names that are no states, tensors that do not fit.
    pub fn set_state(&mut self, name: &str, host: &HostArray) -> Result<()> {
        let state = |b: &zellige_compile::ProgramBuffer| {
            b.name == name && b.origin == ElementOrigin::Input(InputRole::State)
        };
        let Some(i) = self.program.buffers.iter().position(state) else {
            let reason = "the graph has no state of that name".into();
            return Err(ProgramRunError::NoInput { name: name.into(), reason });
        };
        let (tensor, _) = self.upload_buffer(BufferId(i), host)?;
        self.tensors[i] = Some(tensor);
        Ok(())
    }

    /// The numbers that were lost since the program was loaded, by loading and by runs: what was given to
    /// the card and is past its formats, and NaNs that steps made of numbers. A tensor is there once.
    pub fn number_losses(&self) -> &[NumberLoss] {
        &self.losses
    }

    /// Notes a loss, the first of its tensor.
    fn note_loss(&mut self, loss: NumberLoss) {
        if self.losses.iter().all(|l| l.tensor != loss.tensor) {
            self.losses.push(loss);
        }
    }

    fn upload_buffer(&mut self, id: BufferId, host: &HostArray) -> Result<(Tensor, SimulatedTime)> {
        let program = Arc::clone(&self.program);
        let buffer = program.buffer(id);
        let expected = (buffer.laid.size(), buffer.laid.dtype());
        if (host.size(), host.dtype()) != expected {
            return Err(ProgramRunError::BadInput {
                name: buffer.name.clone(),
                found: format!("{}{:?}", host.dtype(), host.size()),
                expected: format!("{}{:?}", expected.1, expected.0),
            });
        }
        let (tensor, moved) = Tensor::upload(
            &self.card,
            host.bytes(),
            host.view(),
            host.dtype(),
            Some(buffer.laid.stick_layout()),
        )?;
        if let Some(past) = tensor.find_out_of_range(host.bytes(), host.view(), host.dtype())? {
            let (tensor, kind) = (buffer.name.clone(), NumberLossKind::Past { value: past.value });
            self.note_loss(NumberLoss { tensor, count: past.count, first: past.first, kind });
        }
        let work = moved.device_work(buffer.name.as_str(), WorkKind::Upload, 1);
        Ok((tensor, self.card.hardware().operation_latency(&work).time))
    }

    /// One run: `input` gives the input of a name.
    ///
    /// # Errors
    /// Inputs that are not what the graph says, indices out of range, no room. States are as they were
    /// before, unless a step that changes one in place has already run.
    pub fn run_program(
        &mut self,
        mut input: impl FnMut(&str) -> Result<HostArray>,
    ) -> Result<RunOutcome> {
        let mut upload = SimulatedTime::ZERO;
        for id in self.program.inputs.clone() {
            if self.program.buffer(id).origin == ElementOrigin::Input(InputRole::Input) {
                let host = input(&self.program.buffer(id).name)?;
                let (tensor, time) = self.upload_buffer(id, &host)?;
                self.tensors[id.0] = Some(tensor);
                upload += time;
            }
        }
        // Outputs are downloaded after the last step, so that their last use is not their end.
        let kept: Vec<BufferId> = self.program.outputs.iter().map(|o| o.buffer).collect();
        for i in 0..self.program.steps.len() {
            if self.program.steps[i].load {
                continue;
            }
            self.run_step(i)?;
            self.release_buffers(i, &kept);
        }
        let (mut outputs, mut download) = (Vec::new(), SimulatedTime::ZERO);
        for read in &self.program.outputs {
            let tensor = self.read_tensor(read)?;
            let (bytes, moved) = tensor.download_with_traffic(tensor.dtype())?;
            let name = &self.program.buffer(read.buffer).name;
            let work = moved.device_work(name.as_str(), WorkKind::Download, 1);
            download += self.card.hardware().operation_latency(&work).time;
            outputs.push(HostArray::from_contiguous(bytes, tensor.size(), tensor.dtype())?);
        }
        for (state, output) in self.program.states.clone() {
            let next = self.read_tensor(&self.program.outputs[output])?;
            let layout = self.program.buffer(state).laid.stick_layout();
            // Written in place it is the state already; otherwise it becomes it.
            let same = next.is_base() && next.stick_layout() == layout;
            self.tensors[state.0] = Some(if same { next } else { next.to_layout(layout)?.0 });
        }
        self.clear_buffers();
        let latency = self.program.latency();
        Ok(RunOutcome { outputs, latency, upload, download })
    }

    /// Whether a buffer stays on the card from run to run.
    fn stays_on_card(&self, i: usize) -> bool {
        let buffer = &self.program.buffers[i];
        let held = match buffer.origin {
            ElementOrigin::Input(InputRole::State) => self.owns,
            ElementOrigin::Input(InputRole::Weight) | ElementOrigin::Constant(_) => true,
            _ => false,
        };
        held || buffer.loaded
    }

    /// Buffers whose last step is done go back.
    fn release_buffers(&mut self, step: usize, kept: &[BufferId]) {
        for k in 0..self.released[step].len() {
            let i = self.released[step][k];
            if !self.stays_on_card(i) && !kept.contains(&BufferId(i)) {
                self.tensors[i] = None;
            }
        }
    }

    /// After a run only what stays is left.
    fn clear_buffers(&mut self) {
        for i in 0..self.tensors.len() {
            if !self.stays_on_card(i) {
                self.tensors[i] = None;
            }
        }
    }

    /// The tensor of a buffer.
    fn buffer_tensor(&self, buffer: BufferId) -> Result<&Tensor> {
        self.tensors[buffer.0].as_ref().ok_or_else(|| ProgramRunError::NoInput {
            name: self.program.buffer(buffer).name.clone(),
            reason: "it is not there".into(),
        })
    }

    /// The tensor that a step reads.
    fn step_operand(&self, read: &BufferRead, view: Option<&Arc<TensorLayout>>) -> Result<Tensor> {
        let whole = self.buffer_tensor(read.buffer)?;
        Ok(match view {
            None => whole.clone(),
            Some(view) => whole.view_as(view)?,
        })
    }

    fn read_tensor(&self, read: &BufferRead) -> Result<Tensor> {
        let whole = self.buffer_tensor(read.buffer)?;
        if *whole.tensor_layout() == read.laid {
            return Ok(whole.clone());
        }
        Ok(whole.view_with(|_| Ok(read.laid.view().clone()))?)
    }

    fn run_step(&mut self, number: usize) -> Result<()> {
        zellige_calls::record_call!();
        self.count_launch(number);
        let program = Arc::clone(&self.program);
        let step = &program.steps[number];
        let at = |source: DeviceError| ProgramRunError::Step { step: step.name.clone(), source };
        let reads = step.reads.iter().zip(&self.views[number]);
        let inputs: Vec<Tensor> = reads
            .map(|(read, view)| self.step_operand(read, view.as_ref()))
            .collect::<Result<_>>()?;
        let mut outputs = Vec::with_capacity(step.writes.len());
        for id in &step.writes {
            let buffer = self.program.buffer(*id);
            let tensor = match buffer.place {
                BufferLocation::Over(of) => {
                    self.read_tensor(&BufferRead { buffer: of, laid: buffer.laid.clone() })?
                }
                _ => Tensor::with_shared_layout(&self.card, &self.layouts[id.0]).map_err(at)?,
            };
            outputs.push(tensor);
        }
        // An operand that is written over is examined before the step, because it is gone afterwards. Where it had a
        // NaN, the NaNs of the result are nothing new.
        let over = |t: &Tensor| outputs.iter().any(|o| o.block() == t.block());
        let held = self.watches && any_nan(inputs.iter().filter(|t| over(t)))?;
        let cores = self.program.options.cores;
        let again = match &self.prepared[number] {
            Some(prepared) => prepared.run_launch(&self.card, &inputs, &outputs).map_err(at)?,
            None => false,
        };
        let done = match &step.action {
            // The work is that of the run in which it was prepared, which was compared with the plan.
            _ if again => None,
            StepAction::Move { .. } => {
                let moved = outputs[0].copy_and_pad(&inputs[0], 0.0).map_err(at)?;
                // Planning a copy costs more than doing a small one; the plan is kept for the next run, whose tensors
                // have the same layouts.
                let prepared = PreparedLaunch::from_padded_copy(&inputs[0], &outputs[0], 0.0);
                self.prepared[number] = prepared.map_err(at)?.filter(|_| !step.load);
                Some(moved.device_work(step.name.as_str(), WorkKind::Restickify, cores))
            }
            StepAction::Op(_, op) => {
                let division = step.space.is_some().then_some(&step.division);
                let launched = op.launch_op(&self.card, &inputs, &outputs, division, cores);
                let LaunchOutcome { work, prepared, .. } = launched.map_err(at)?;
                // What loading runs does not come again.
                self.prepared[number] = prepared.filter(|_| !step.load);
                Some(work)
            }
            StepAction::Host(_, op) => {
                // The host needs no layouts: operands are moved for the kernel, and nothing is charged here, as the
                // round trip is the work of the step.
                let made = op.compute_results(&self.card, &inputs, cores).map_err(at)?;
                for (made, to) in made.iter().zip(&outputs) {
                    to.copy_from(made).map_err(at)?;
                }
                None
            }
        };
        if let Some(done) = done {
            check_work(step, &done)?;
        }
        if self.watches && !held {
            self.note_new_nans(step, &inputs, &outputs)?;
        }
        for (id, tensor) in step.writes.iter().zip(outputs) {
            self.tensors[id.0] = Some(tensor);
        }
        Ok(())
    }
}

impl LoadedModel {
    /// Notes the NaNs that a step made of numbers. Where an operand has one, they are nothing new.
    fn note_new_nans(
        &mut self,
        step: &ProgramStep,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<()> {
        for (id, made) in step.writes.iter().zip(outputs) {
            let Some((count, first)) = made.find_nans()? else { continue };
            if any_nan(inputs.iter().filter(|t| t.block() != made.block()))? {
                continue;
            }
            let tensor = self.program.buffer(*id).name.clone();
            let op = step.op().map_or("a move", |op| op.name()).into();
            self.note_loss(NumberLoss { tensor, count, first, kind: NumberLossKind::Nan { op } });
        }
        Ok(())
    }
}

/// The environment variable that asks for the independent check of every program that is loaded.
pub const CHECK_VARIABLE: &str = "ZELLIGE_CHECK";

/// Checks a program before it is loaded, where the environment asks for that.
fn check_if_requested(program: &CompiledProgram) -> Result<()> {
    // Read at every load and not once: a test or a debugger may set it for a part of a process.
    let refused = |value: String| ProgramRunError::BadVariable {
        name: CHECK_VARIABLE,
        value,
        accepted: "`0` or `1`",
    };
    match std::env::var_os(CHECK_VARIABLE).map(|v| v.to_string_lossy().into_owned()) {
        None => Ok(()),
        Some(value) => match value.as_str() {
            "" | "0" => Ok(()),
            // Not by default: the check plans every step on the device again, which takes a good part of the time of a
            // compilation, and every program that the passes make is checked in the tests.
            "1" => check_program(program)
                .map_err(|e| ProgramRunError::Refused { reason: e.to_string() }),
            _ => Err(refused(value)),
        },
    }
}

/// For every step of a program, the buffers whose last use it is.
fn released_buffers(program: &CompiledProgram) -> Vec<Vec<usize>> {
    let mut last = vec![None; program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        let used = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
        used.for_each(|b| last[b.0] = Some(i));
    }
    let mut released = vec![Vec::new(); program.steps.len()];
    for (buffer, step) in last.into_iter().enumerate() {
        if let Some(step) = step {
            released[step].push(buffer);
        }
    }
    released
}

fn any_nan<'t>(mut tensors: impl Iterator<Item = &'t Tensor>) -> Result<bool> {
    tensors.try_fold(false, |any, t| Ok(any || t.find_nans()?.is_some()))
}

/// The work that was done is the work that was planned.
fn check_work(step: &ProgramStep, done: &OperationWork) -> Result<()> {
    let planned = &step.full;
    let unplanned =
        |reason: String| Err(ProgramRunError::Unplanned { step: step.name.clone(), reason });
    if planned.kind != done.kind {
        return unplanned(format!("it is {:?}, planned as {:?}", done.kind, planned.kind));
    }
    if planned.cores.len() != done.cores.len() {
        let (found, expected) = (done.cores.len(), planned.cores.len());
        return unplanned(format!("it ran on {found} cores, planned for {expected}"));
    }
    let pairs = planned.cores.iter().zip(&done.cores).enumerate();
    // The work is compared exactly, core by core: the planned time is only worth something if every launch does what
    // was planned.
    match pairs.into_iter().find(|(_, (p, d))| p != d) {
        Some((core, _)) => unplanned(format!("core {core} did other work than planned")),
        None => Ok(()),
    }
}
