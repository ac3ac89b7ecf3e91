//! Operations that come again: what was settled for operands of one layout is kept.
//!
//! A small operation takes longer to settle (layouts, copies of operands, division, what every core does and what that
//! costs) than to compute. None of that depends on the elements, so a card remembers it.

use crate::card::Card;
use crate::error::Result;
use crate::run::compute::OpOutcome;
use crate::run::division::WorkDivision;
use crate::run::in_place::run_into;
use crate::run::prepared::{PreparedLaunch, have_layouts, shared_operands};
use crate::run::recording::{KnownWork, LaunchRecording};
use crate::run::run_op::RunOp;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use zellige_machine::account::WorkKind;
use zellige_op::TensorOp;

/// Operations that a card remembers at most; then it forgets all of them.
const MAX_REMEMBERED_OPERATIONS: usize = 4096;

/// What a card remembers.
#[derive(Default)]
pub(crate) struct RecalledOps(Mutex<HashMap<u64, Arc<SettledOp>>>);

/// An operation, settled for operands and results of these layouts.
struct SettledOp {
    /// Keeps the kernel, whose address names the operation; none for a copy into a tensor that exists.
    op: Option<TensorOp>,
    inputs: Vec<Arc<TensorLayout>>,
    outputs: Vec<Arc<TensorLayout>>,
    /// Which operands share the block of a result that exists.
    shared: Option<u64>,
    division: WorkDivision,
    recording: LaunchRecording,
    works: Vec<KnownWork>,
}

/// As [`RunOp::run_in_stream`] on all cores, or [`RunOp::run_into`] where results go into tensors that exist;
/// what is settled on the way is kept for the next time that this operation meets operands of the
/// same layouts.
///
/// **Law**: results, receipts and errors are those of the other two.
///
/// # Errors
/// As the other two.
pub(super) fn run_again(
    op: &TensorOp,
    card: &Card,
    stream: StreamId,
    inputs: &[Tensor],
    into: Option<&[Tensor]>,
) -> Result<OpOutcome> {
    let call = CardCall::new(Some(op), inputs, into);
    if let Some(settled) = call.find_settled(card) {
        return settled.run_settled(card, stream, inputs, into);
    }
    let mut ran = match into {
        Some(outputs) => run_into(op, card, stream, inputs, outputs)?,
        None => op.run_in_stream(card, stream, inputs, card.core_count())?,
    };
    if let Some(recording) = ran.recording.take() {
        let works = KnownWork::from_receipts(std::mem::take(&mut ran.works), &ran.receipts);
        call.keep_settled(card, &ran.outputs, ran.division.clone(), recording, works);
    }
    Ok(ran)
}

/// Copies the elements of a tensor into another one of the same size on the same card, and enters that into the
/// accounts; the plan is kept for the next copy between tensors of these layouts.
///
/// **Law**: elements, accounts and errors are those of [`Tensor::copy_from`].
///
/// # Errors
/// As [`Tensor::copy_from`].
pub fn copy_again(stream: StreamId, source: &Tensor, target: &Tensor) -> Result<()> {
    let card = target.card();
    let (inputs, outputs) = (slice::from_ref(source), slice::from_ref(target));
    let call = CardCall::new(None, inputs, Some(outputs));
    if let Some(settled) = call.find_settled(card) {
        return settled.run_settled(card, stream, inputs, Some(outputs)).map(|_| ());
    }
    let moved = target.copy_from(source)?;
    let work = moved.device_work("copy", WorkKind::Copy, card.core_count());
    let receipt = card.account_work(stream, &work)?;
    // A copy between cards is no launch of one card.
    let launch =
        if source.card() == card { PreparedLaunch::from_copy(source, target)? } else { None };
    if let Some(launch) = launch {
        let mut recording = LaunchRecording::new(1);
        let targets = recording.add_targets(1);
        recording.launch_into(launch, &[0], &targets);
        recording.set_results(&targets);
        let works = KnownWork::from_receipts(vec![work], slice::from_ref(&receipt));
        call.keep_settled(
            card,
            outputs,
            WorkDivision::on_one_core(target.size().len()),
            recording,
            works,
        );
    }
    Ok(())
}

/// A request to a card: an operation, or a copy where there is none, on these tensors.
struct CardCall<'a> {
    op: Option<&'a TensorOp>,
    inputs: &'a [Tensor],
    into: Option<&'a [Tensor]>,
    /// Which operands share the block of a result that exists.
    shared: Option<u64>,
    key: u64,
}

impl<'a> CardCall<'a> {
    fn new(
        op: Option<&'a TensorOp>,
        inputs: &'a [Tensor],
        into: Option<&'a [Tensor]>,
    ) -> CardCall<'a> {
        let shared = into.map(|outputs| shared_operands(inputs, outputs));
        let mut hasher = DefaultHasher::new();
        // By the address of the operation, because hashing its attributes would take longer. The entry keeps the
        // operation, so that no other one can get this address meanwhile.
        (op.map(TensorOp::unique_address), shared).hash(&mut hasher);
        for t in inputs.iter().chain(into.unwrap_or_default()) {
            // Only a part of the layout: where two calls share a key, `matches_call` compares the layouts
            // themselves.
            (t.stick_layout().device_size(), t.view(), t.dtype()).hash(&mut hasher);
        }
        CardCall { op, inputs, into, shared, key: hasher.finish() }
    }

    /// What the card remembers of it.
    fn find_settled(&self, card: &Card) -> Option<Arc<SettledOp>> {
        card.recalled_ops().get(self.key).filter(|settled| settled.matches_call(self, card))
    }

    fn keep_settled(
        &self,
        card: &Card,
        outputs: &[Tensor],
        division: WorkDivision,
        recording: LaunchRecording,
        works: Vec<KnownWork>,
    ) {
        let layouts = |list: &[Tensor]| list.iter().map(|t| t.shared_layout().clone()).collect();
        let settled = SettledOp {
            op: self.op.cloned(),
            inputs: layouts(self.inputs),
            outputs: layouts(outputs),
            shared: self.shared,
            division,
            recording,
            works,
        };
        card.recalled_ops().put_settled(self.key, settled);
    }
}

impl SettledOp {
    fn matches_call(&self, call: &CardCall<'_>, card: &Card) -> bool {
        self.op.as_ref().map(TensorOp::unique_address) == call.op.map(TensorOp::unique_address)
            && self.shared == call.shared
            && have_layouts(&self.inputs, call.inputs, card)
            && call.into.is_none_or(|outputs| have_layouts(&self.outputs, outputs, card))
    }

    fn run_settled(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        into: Option<&[Tensor]>,
    ) -> Result<OpOutcome> {
        // SAFETY: `matches_call` found the layouts of the recorded operation, and that results share the blocks of operands
        // as they did there.
        let outputs =
            unsafe { self.recording.repeat_launches(card, inputs, into.unwrap_or_default())? };
        let receipts = self.works.iter().map(|work| work.enter_again(card, stream)).collect();
        let division = self.division.clone();
        Ok(OpOutcome { outputs, division, receipts, works: Vec::new(), recording: None })
    }
}

impl RecalledOps {
    fn get(&self, key: u64) -> Option<Arc<SettledOp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    fn put_settled(&self, key: u64, settled: SettledOp) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MAX_REMEMBERED_OPERATIONS {
            // All of them: to forget the oldest alone, every call would have to keep an order up to date.
            map.clear();
        }
        map.insert(key, Arc::new(settled));
    }
}
