//! Operations that come again: what was settled for operands that lie one way is kept.
//!
//! A small operation takes longer to settle (layouts, division, what every core does and what that
//! costs) than to compute. None of that depends on the elements, so a card remembers it.

use crate::card::Card;
use crate::error::Result;
use crate::kernels::Task;
use crate::kernels::kernel;
use crate::run::division::Division;
use crate::run::eager::run_in;
use crate::run::eager::{Ran, SMALL, laid};
use crate::run::host_fallback::charged;
use crate::run::in_place::run_into;
use crate::run::plan::lay;
use crate::run::prepared::{have_layouts, run_task, shared_operands};
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use zellige_machine::account::{Cost, Work};
use zellige_op::Op;

/// What is kept at most; then all of it goes.
const MOST: usize = 4096;

/// What a card remembers.
#[derive(Default)]
pub(crate) struct Recalled(Mutex<HashMap<u64, Arc<Settled>>>);

/// An operation, settled for operands and results that lie one way.
struct Settled {
    /// Keeps the kernel, whose address names the operation.
    op: Op,
    inputs: Vec<Arc<TensorLayout>>,
    outputs: Vec<Arc<TensorLayout>>,
    /// Which operands share the block of a result that exists.
    shared: Option<u64>,
    division: Division,
    task: Box<dyn Task>,
    work: Work,
    cost: Cost,
    threads: usize,
}

/// As [`RunOp::run_in`](super::RunOp::run_in) on all cores, or [`RunOp::run_into`](super::RunOp::run_into) where results go into tensors that exist;
/// what is settled on the way is kept for the next time that this operation meets operands that
/// lie the same way.
///
/// **Law**: results, receipts and errors are those of the other two.
///
/// # Errors
/// As the other two.
pub(super) fn run_again(
    op: &Op,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    into: Option<&[Tensor]>,
) -> Result<Ran> {
    let shared = into.map(|outputs| shared_operands(inputs, outputs));
    let key = key(op, inputs, into, shared);
    let found = card.recalled().get(key).filter(|s| s.is_for(op, card, inputs, into, shared));
    if let Some(settled) = found {
        return settled.run(card, stream, inputs, into);
    }
    let ran = match into {
        Some(outputs) => run_into(op, card, inputs, outputs)?,
        None => run_in(op, card, stream, inputs, card.cores())?,
    };
    if let Some(settled) = settled(op, card, inputs, into, shared, &ran) {
        card.recalled().put(key, settled);
    }
    Ok(ran)
}

fn key(op: &Op, inputs: &[Tensor], into: Option<&[Tensor]>, shared: Option<u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (op.address(), shared).hash(&mut hasher);
    for t in inputs.iter().chain(into.unwrap_or_default()) {
        (t.layout().device_size(), t.view(), t.dtype()).hash(&mut hasher);
    }
    hasher.finish()
}

/// What there is to keep: nothing where operands were moved, elements only move, or a result was
/// computed beside its place.
fn settled(
    op: &Op,
    card: &Card,
    inputs: &[Tensor],
    into: Option<&[Tensor]>,
    shared: Option<u64>,
    ran: &Ran,
) -> Option<Settled> {
    let [receipt] = ran.receipts.as_slice() else { return None };
    let (ins, outs) = (laid(inputs), laid(&ran.outputs));
    if kernel(op).moves(&ins, &outs).ok()?.is_some() || outs.iter().any(|o| o.numel() == 0) {
        return None;
    }
    let forms = |list: &[TensorLayout]| {
        list.iter().map(TensorLayout::sticks).collect::<Result<Vec<Sticks>>>()
    };
    let (in_forms, out_forms) = (forms(&ins).ok()?, forms(&outs).ok()?);
    let wants = match into {
        Some(_) => kernel(op).suit(&ins, &out_forms)?,
        None => lay(op, &ins).ok()?.1.inputs,
    };
    if !wants.iter().zip(&ins).all(|(want, t)| want.fits(t)) {
        return None;
    }
    let task = kernel(op).task(&in_forms, &out_forms, &ran.division).ok()?;
    if !task.keeps_nothing() {
        return None;
    }
    let slices = (0..ran.division.cores()).map(|core| task.work(core)).collect();
    let work = Work::new(op.name(), task.kind(), slices);
    let work = charged(op, card, work, inputs, &ran.outputs).ok()?;
    let elements: usize = in_forms.iter().chain(&out_forms).map(Sticks::numel).sum();
    Some(Settled {
        op: op.clone(),
        inputs: inputs.iter().map(|t| t.shared_laid().clone()).collect(),
        outputs: ran.outputs.iter().map(|t| t.shared_laid().clone()).collect(),
        shared,
        division: ran.division.clone(),
        task,
        work,
        cost: receipt.cost.clone(),
        threads: if elements < SMALL { 1 } else { card.host_threads() },
    })
}

impl Settled {
    fn is_for(
        &self,
        op: &Op,
        card: &Card,
        inputs: &[Tensor],
        into: Option<&[Tensor]>,
        shared: Option<u64>,
    ) -> bool {
        self.op.address() == op.address()
            && self.shared == shared
            && have_layouts(&self.inputs, inputs, card)
            && into.is_none_or(|outputs| have_layouts(&self.outputs, outputs, card))
    }

    fn run(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        into: Option<&[Tensor]>,
    ) -> Result<Ran> {
        let outputs: Vec<Tensor> = match into {
            Some(outputs) => outputs.to_vec(),
            None => {
                let made = self.outputs.iter().map(|laid| Tensor::made(card, laid));
                made.collect::<Result<_>>()?
            }
        };
        // SAFETY: the task was made for tensors of these layouts; results are blocks of their own, or share those of
        // operands as they did when the operation was settled.
        unsafe {
            run_task(self.task.as_ref(), self.division.cores(), self.threads, inputs, &outputs)?;
        };
        let receipt = card.enter(stream, &self.work, &self.cost);
        Ok(Ran { outputs, division: self.division.clone(), receipts: vec![receipt] })
    }
}

impl Recalled {
    fn get(&self, key: u64) -> Option<Arc<Settled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    fn put(&self, key: u64, settled: Settled) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MOST {
            map.clear();
        }
        map.insert(key, Arc::new(settled));
    }
}
