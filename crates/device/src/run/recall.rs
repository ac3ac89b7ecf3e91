//! Operations that come again: what was settled for operands of one layout is kept.
//!
//! A small operation takes longer to settle (layouts, copies of operands, division, what every core does and what that
//! costs) than to compute. None of that depends on the elements, so a card remembers it.

use crate::card::Card;
use crate::error::Result;
use crate::run::division::Division;
use crate::run::eager::{Ran, run_in};
use crate::run::in_place::run_into;
use crate::run::prepared::{have_layouts, shared_operands};
use crate::run::recording::{KnownWork, Recording};
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use zellige_op::Op;

/// Operations that a card remembers at most; then it forgets all of them.
const MAX_REMEMBERED_OPERATIONS: usize = 4096;

/// What a card remembers.
#[derive(Default)]
pub(crate) struct Recalled(Mutex<HashMap<u64, Arc<Settled>>>);

/// An operation, settled for operands and results of these layouts.
struct Settled {
    /// Keeps the kernel, whose address names the operation.
    op: Op,
    inputs: Vec<Arc<TensorLayout>>,
    outputs: Vec<Arc<TensorLayout>>,
    /// Which operands share the block of a result that exists.
    shared: Option<u64>,
    division: Division,
    recording: Recording,
    works: Vec<KnownWork>,
}

/// As [`RunOp::run_in`](super::RunOp::run_in) on all cores, or [`RunOp::run_into`](super::RunOp::run_into) where results go into tensors that exist;
/// what is settled on the way is kept for the next time that this operation meets operands of the
/// same layouts.
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
    let mut ran = match into {
        Some(outputs) => run_into(op, card, stream, inputs, outputs)?,
        None => run_in(op, card, stream, inputs, card.cores())?,
    };
    if let Some(recording) = ran.recording.take() {
        let layouts = |list: &[Tensor]| list.iter().map(|t| t.shared_laid().clone()).collect();
        let works = KnownWork::list(std::mem::take(&mut ran.works), &ran.receipts);
        let settled = Settled {
            op: op.clone(),
            inputs: layouts(inputs),
            outputs: layouts(&ran.outputs),
            shared,
            division: ran.division.clone(),
            recording,
            works,
        };
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
        // SAFETY: `is_for` found the layouts of the recorded operation, and that results share the blocks of operands
        // as they did there.
        let outputs = unsafe { self.recording.repeat(card, inputs, into.unwrap_or_default())? };
        let receipts = self.works.iter().map(|work| work.enter(card, stream)).collect();
        let division = self.division.clone();
        Ok(Ran { outputs, division, receipts, works: Vec::new(), recording: None })
    }
}

impl Recalled {
    fn get(&self, key: u64) -> Option<Arc<Settled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    fn put(&self, key: u64, settled: Settled) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MAX_REMEMBERED_OPERATIONS {
            map.clear();
        }
        map.insert(key, Arc::new(settled));
    }
}
