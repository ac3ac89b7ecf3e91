//! Runs whose weights, inputs and outputs are tensors on the card.

use super::LoadedModel;
use crate::error::{ProgramRunError, Result};
use std::sync::Arc;
use zellige_compile::{BufferId, CompiledProgram, ElementOrigin};
use zellige_device::{Card, StreamId, Tensor, TensorLayout};
use zellige_graph::InputRole;
use zellige_machine::{OperationWork, SimulatedTime, WorkKind};

impl LoadedModel {
    /// As [`LoadedModel::load_program`], with weights that are on the card already: one that has the layout of the
    /// program is used where it is, so that it must not change while the model lives. `weight` gets the layout that the
    /// program needs.
    ///
    /// # Errors
    /// As [`LoadedModel::load_program`].
    pub fn load_resident(
        program: impl Into<Arc<CompiledProgram>>,
        card: &Card,
        mut weight: impl FnMut(&str, &TensorLayout) -> Result<Tensor>,
    ) -> Result<LoadedModel> {
        zellige_calls::record_call!();
        LoadedModel::load_with_weights(program.into(), card, false, &mut |model, id| {
            let buffer = model.program.buffer(id);
            let tensor = weight(&buffer.name, &buffer.laid)?;
            let (fitted, work) = model.fit_to_buffer(id, &tensor)?;
            let time = work
                .map_or(SimulatedTime::ZERO, |w| model.card.hardware().operation_latency(&w).time);
            Ok((fitted, time))
        })
    }

    /// The weights as the program reads them: models that want the same can share them.
    pub fn weight_tensors(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let all = self.program.buffers.iter().zip(&self.tensors);
        let weights = all.filter(|(b, _)| b.origin == ElementOrigin::Input(InputRole::Weight));
        weights.filter_map(|(b, t)| Some((b.name.as_str(), t.as_ref()?)))
    }

    /// One run on tensors of the card, entered into its accounts in a stream. An input in another layout
    /// than the program needs is moved; none is changed but states: `states` names those that take the
    /// value of an output, which is written in their place where the program can, or copied there. The
    /// other outputs are tensors of their own, in order. `go_on` is called before every step, and ends the
    /// run where it returns false.
    ///
    /// # Errors
    /// As [`LoadedModel::run_program`]; states of other sizes than their outputs; a run that was ended.
    pub fn run_resident(
        &mut self,
        stream: StreamId,
        states: &[(String, usize)],
        input: impl FnMut(&str) -> Result<Tensor>,
        go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Tensor>> {
        zellige_calls::record_call!();
        let outputs = self.run_on_tensors(stream, states, input, go_on);
        // Whatever happened, only what stays is left.
        self.clear_buffers();
        outputs
    }

    fn run_on_tensors(
        &mut self,
        stream: StreamId,
        states: &[(String, usize)],
        mut input: impl FnMut(&str) -> Result<Tensor>,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Tensor>> {
        let mut changed: Vec<(Tensor, usize)> = Vec::with_capacity(states.len());
        for id in self.program.inputs.clone() {
            let buffer = self.program.buffer(id);
            if matches!(buffer.origin, ElementOrigin::Input(InputRole::Input | InputRole::State)) {
                let given = input(&buffer.name)?;
                let next = states.iter().find(|(name, _)| *name == buffer.name);
                changed.extend(next.map(|(_, output)| (given.clone(), *output)));
                let (fitted, work) = self.fit_to_buffer(id, &given)?;
                if let Some(work) = work {
                    self.card.account_work(stream, &work)?;
                }
                self.tensors[id.0] = Some(fitted);
            }
        }
        let kept: Vec<BufferId> = self.program.outputs.iter().map(|o| o.buffer).collect();
        let program = Arc::clone(&self.program);
        let mut wave: Vec<(&OperationWork, usize)> = Vec::new();
        for (i, step) in program.steps.iter().enumerate().filter(|(_, step)| !step.load) {
            // Between steps and not within one: a step that began leaves its results whole.
            if !go_on() {
                return Err(ProgramRunError::Ended { step: step.name.clone() });
            }
            self.run_step(i)?;
            wave.push((&step.work, step.first_core));
            if program.steps.get(i + 1).is_none_or(|next| next.wave != step.wave) {
                // The accounts of a wave depend on the program alone, so that they are computed in the first run.
                let prepared = match self.waves[i].take() {
                    Some(prepared) => prepared,
                    None => self.card.prepare_wave(&wave, &program.options.hardware)?,
                };
                self.card.enter_wave(stream, &prepared);
                self.waves[i] = Some(prepared);
                wave.clear();
            }
            self.release_buffers(i, &kept);
        }
        let mut outputs: Vec<Tensor> = Vec::with_capacity(self.program.outputs.len());
        for (k, read) in self.program.outputs.iter().enumerate() {
            if changed.iter().any(|(_, output)| *output == k) {
                continue;
            }
            let found = self.read_tensor(read)?;
            // A tensor that somebody else holds too, or that is a part of a larger one, is copied: the caller may write
            // into what it gets.
            let made = &self.program.buffer(read.buffer).origin;
            let mine = matches!(made, ElementOrigin::Result | ElementOrigin::Copy(_))
                && !self.stays_on_card(read.buffer.0)
                && !outputs
                    .iter()
                    .chain(changed.iter().map(|(t, _)| t))
                    .any(|o| o.block() == found.block());
            outputs.push(if mine && found.is_base() { found } else { copy_to_own_block(&found)? });
        }
        for (state, output) in &changed {
            self.advance_state(stream, state, *output)?;
        }
        Ok(outputs)
    }

    /// Gives a state the value of an output, unless the output was written there.
    fn advance_state(&self, stream: StreamId, state: &Tensor, output: usize) -> Result<()> {
        let Some(read) = self.program.outputs.get(output) else {
            let count = self.program.outputs.len();
            let reason = format!("its next value is output {output}, and there are {count}");
            return Err(ProgramRunError::NoInput { name: "a state".into(), reason });
        };
        let next = self.read_tensor(read)?;
        if next.block() == state.block() && next.tensor_layout() == state.tensor_layout() {
            return Ok(());
        }
        let name = &self.program.buffer(read.buffer).name;
        let at = |source| ProgramRunError::Step { step: name.clone(), source };
        let moved = state.copy_from(&next).map_err(at)?;
        let work =
            moved.device_work(name.as_str(), WorkKind::Restickify, self.program.options.cores);
        self.card.account_work(stream, &work)?;
        Ok(())
    }

    /// A tensor as a buffer holds it, and the work of moving it there.
    fn fit_to_buffer(
        &self,
        id: BufferId,
        tensor: &Tensor,
    ) -> Result<(Tensor, Option<OperationWork>)> {
        let buffer = self.program.buffer(id);
        let wanted = &buffer.laid;
        if (tensor.size(), tensor.dtype()) != (wanted.size(), wanted.dtype())
            // Two cards have memories of their own, and a copy between them is the caller's decision.
            || tensor.card() != &self.card
        {
            let tell = |dtype, size: &[i64]| format!("{dtype}{size:?}");
            return Err(ProgramRunError::BadInput {
                name: buffer.name.clone(),
                found: format!(
                    "{} on card {}",
                    tell(tensor.dtype(), tensor.size()),
                    tensor.card().index()
                ),
                expected: format!(
                    "{} on card {}",
                    tell(wanted.dtype(), wanted.size()),
                    self.card.index()
                ),
            });
        }
        if tensor.is_base() && tensor.tensor_layout() == wanted {
            return Ok((tensor.clone(), None));
        }
        let (made, moved) = tensor.to_layout(wanted.stick_layout())?;
        let work =
            moved.device_work(buffer.name.as_str(), WorkKind::Restickify, self.card.core_count());
        Ok((made, Some(work)))
    }
}

/// A copy in memory of its own: a whole tensor in its layout, a part in the default layout of its size.
fn copy_to_own_block(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_base() {
        return Ok(tensor.to_layout(tensor.stick_layout())?.0);
    }
    let format = tensor.stick_layout().device_dtype();
    let layout = zellige_stick::StickLayout::default_in_format(tensor.size(), None, format)
        .map_err(zellige_device::DeviceError::from)?;
    Ok(tensor.to_layout(&layout)?.0)
}
