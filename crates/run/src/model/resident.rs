//! Runs whose weights, inputs and outputs are tensors on the card.

use super::Model;
use crate::error::{Result, RunError};
use std::sync::Arc;
use zellige_compile::{BufferId, Origin, Program};
use zellige_device::{Card, StreamId, Tensor, TensorLayout};
use zellige_graph::Role;
use zellige_machine::{OperationWork, SimulatedTime, WorkKind};

impl Model {
    /// As [`Model::load`], with weights that are on the card already: one that lies as the program wants
    /// it is used where it is, so it must not change while the model lives. `weight` is told how it will
    /// lie.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_resident(
        program: impl Into<Arc<Program>>,
        card: &Card,
        mut weight: impl FnMut(&str, &TensorLayout) -> Result<Tensor>,
    ) -> Result<Model> {
        Model::loaded(program.into(), card, false, &mut |model, id| {
            let buffer = model.program.buffer(id);
            let tensor = weight(&buffer.name, &buffer.laid)?;
            let (fitted, work) = model.fit(id, &tensor)?;
            let time = work
                .map_or(SimulatedTime::ZERO, |w| model.card.hardware().operation_latency(&w).time);
            Ok((fitted, time))
        })
    }

    /// The weights as the program reads them: models that want the same can share them.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let all = self.program.buffers.iter().zip(&self.tensors);
        let weights = all.filter(|(b, _)| b.origin == Origin::Input(Role::Weight));
        weights.filter_map(|(b, t)| Some((b.name.as_str(), t.as_ref()?)))
    }

    /// One run on tensors of the card, entered into its accounts in a stream. An input that does not lie
    /// as the program wants it is moved; none is changed but states: `states` names those that take the
    /// value of an output, which is written in their place where the program can, or copied there. The
    /// other outputs are tensors of their own, in order. `go_on` is asked before every step, and ends the
    /// run where it says no.
    ///
    /// # Errors
    /// As [`Model::run`]; states of other sizes than their outputs; a run that was ended.
    pub fn run_resident(
        &mut self,
        stream: StreamId,
        states: &[(String, usize)],
        input: impl FnMut(&str) -> Result<Tensor>,
        go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Tensor>> {
        let outputs = self.resident(stream, states, input, go_on);
        // Whatever happened, only what stays is left.
        self.clear();
        outputs
    }

    fn resident(
        &mut self,
        stream: StreamId,
        states: &[(String, usize)],
        mut input: impl FnMut(&str) -> Result<Tensor>,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Vec<Tensor>> {
        let mut changed: Vec<(Tensor, usize)> = Vec::with_capacity(states.len());
        for id in self.program.inputs.clone() {
            let buffer = self.program.buffer(id);
            if matches!(buffer.origin, Origin::Input(Role::Input | Role::State)) {
                let given = input(&buffer.name)?;
                let next = states.iter().find(|(name, _)| *name == buffer.name);
                changed.extend(next.map(|(_, output)| (given.clone(), *output)));
                let (fitted, work) = self.fit(id, &given)?;
                if let Some(work) = work {
                    self.card.account(stream, &work)?;
                }
                self.tensors[id.0] = Some(fitted);
            }
        }
        let kept: Vec<BufferId> = self.program.outputs.iter().map(|o| o.buffer).collect();
        let program = Arc::clone(&self.program);
        let mut wave: Vec<(&OperationWork, usize)> = Vec::new();
        for (i, step) in program.steps.iter().enumerate().filter(|(_, step)| !step.load) {
            if !go_on() {
                return Err(RunError::Ended { step: step.name.clone() });
            }
            self.step(i)?;
            wave.push((&step.work, step.first_core));
            if program.steps.get(i + 1).is_none_or(|next| next.wave != step.wave) {
                let prepared = match self.waves[i].take() {
                    Some(prepared) => prepared,
                    None => self.card.prepare_wave(&wave, &program.options.hardware)?,
                };
                self.card.enter_wave(stream, &prepared);
                self.waves[i] = Some(prepared);
                wave.clear();
            }
            self.release(i, &kept);
        }
        let mut outputs: Vec<Tensor> = Vec::with_capacity(self.program.outputs.len());
        for (k, read) in self.program.outputs.iter().enumerate() {
            if changed.iter().any(|(_, output)| *output == k) {
                continue;
            }
            let found = self.tensor(read)?;
            // What others hold too, or is a part of something larger, is not given away.
            let made = &self.program.buffer(read.buffer).origin;
            let mine = matches!(made, Origin::Result | Origin::Copy(_))
                && !self.stays(read.buffer.0)
                && !outputs
                    .iter()
                    .chain(changed.iter().map(|(t, _)| t))
                    .any(|o| o.block() == found.block());
            outputs.push(if mine && found.is_base() { found } else { apart(&found)? });
        }
        for (state, output) in &changed {
            self.become_next(stream, state, *output)?;
        }
        Ok(outputs)
    }

    /// Gives a state the value of an output, unless the output was written there.
    fn become_next(&self, stream: StreamId, state: &Tensor, output: usize) -> Result<()> {
        let Some(read) = self.program.outputs.get(output) else {
            let count = self.program.outputs.len();
            let reason = format!("its next value is output {output}, and there are {count}");
            return Err(RunError::NoInput { name: "a state".into(), reason });
        };
        let next = self.tensor(read)?;
        if next.block() == state.block() && next.laid() == state.laid() {
            return Ok(());
        }
        let name = &self.program.buffer(read.buffer).name;
        let at = |source| RunError::Step { step: name.clone(), source };
        let moved = state.copy_from(&next).map_err(at)?;
        let work = moved.work(name.as_str(), WorkKind::Restickify, self.program.options.cores);
        self.card.account(stream, &work)?;
        Ok(())
    }

    /// A tensor as a buffer holds it, and the work of moving it there.
    fn fit(&self, id: BufferId, tensor: &Tensor) -> Result<(Tensor, Option<OperationWork>)> {
        let buffer = self.program.buffer(id);
        let wanted = &buffer.laid;
        if (tensor.size(), tensor.dtype()) != (wanted.size(), wanted.dtype())
            || tensor.card() != &self.card
        {
            let tell = |dtype, size: &[i64]| format!("{dtype}{size:?}");
            return Err(RunError::BadInput {
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
        if tensor.is_base() && tensor.laid() == wanted {
            return Ok((tensor.clone(), None));
        }
        let (made, moved) = tensor.to_layout(wanted.layout())?;
        let work = moved.work(buffer.name.as_str(), WorkKind::Restickify, self.card.cores());
        Ok((made, Some(work)))
    }
}

/// A copy in memory of its own: a whole tensor as it lies, a part in the default layout of its size.
fn apart(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_base() {
        return Ok(tensor.to_layout(tensor.layout())?.0);
    }
    let format = tensor.layout().device_dtype();
    let layout = zellige_stick::StickLayout::default_in_format(tensor.size(), None, format)
        .map_err(zellige_device::DeviceError::from)?;
    Ok(tensor.to_layout(&layout)?.0)
}
