//! The launches that an operation was made of, kept so that they can be repeated on other tensors of the same layouts.
//!
//! One operation may be several launches: operands that the kernel cannot read are copied first, and a result that has
//! to go into an existing tensor of another layout or dtype is copied there afterwards. Each launch reads and writes
//! *slots*: operands of the caller, tensors of the caller that results go into, and tensors that are made on the way.
//!
//! **Law**: which launches an operation consists of follows from the layouts of its tensors and from which of them share
//! memory, never from elements. So a recording may be repeated wherever those are the same.

use crate::card::{Card, WorkReceipt};
use crate::error::Result;
use crate::run::prepared::PreparedLaunch;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_machine::account::{OperationCost, OperationWork};

/// A tensor of a recording.
#[derive(Debug, Clone)]
enum TensorSlot {
    /// An operand, by number.
    Operand(usize),
    /// A tensor of the caller that a result is written into, by number.
    Target(usize),
    /// A new tensor of this layout.
    New(Arc<TensorLayout>),
}

/// One launch and the slots of its tensors.
#[derive(Debug)]
struct RecordedLaunch {
    launch: PreparedLaunch,
    reads: SmallVec<[usize; 4]>,
    writes: SmallVec<[usize; 2]>,
}

/// What an operation did.
#[derive(Debug, Default)]
pub(crate) struct LaunchRecording {
    slots: Vec<TensorSlot>,
    launches: Vec<RecordedLaunch>,
    /// The slots of the results.
    results: SmallVec<[usize; 2]>,
}

impl LaunchRecording {
    /// Begins with so many operands.
    pub(super) fn new(operands: usize) -> LaunchRecording {
        let slots = (0..operands).map(TensorSlot::Operand).collect();
        LaunchRecording { slots, launches: Vec::new(), results: SmallVec::new() }
    }

    /// Adds slots for the tensors that results go into.
    pub(super) fn add_targets(&mut self, count: usize) -> SmallVec<[usize; 2]> {
        (0..count).map(|i| self.add_slot(TensorSlot::Target(i))).collect()
    }

    fn add_slot(&mut self, slot: TensorSlot) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }

    /// Adds a launch whose results are new tensors; their slots.
    pub(super) fn launch_into_new(
        &mut self,
        launch: PreparedLaunch,
        reads: &[usize],
    ) -> SmallVec<[usize; 2]> {
        let made = launch.output_layouts().to_vec();
        let writes: SmallVec<[usize; 2]> =
            made.into_iter().map(|l| self.add_slot(TensorSlot::New(l))).collect();
        self.launch_into(launch, reads, &writes);
        writes
    }

    /// Adds a launch with results in slots that exist.
    pub(super) fn launch_into(
        &mut self,
        launch: PreparedLaunch,
        reads: &[usize],
        writes: &[usize],
    ) {
        let (reads, writes) = (SmallVec::from_slice(reads), SmallVec::from_slice(writes));
        self.launches.push(RecordedLaunch { launch, reads, writes });
    }

    /// Sets which slots are the results.
    pub(super) fn set_results(&mut self, slots: &[usize]) {
        self.results = SmallVec::from_slice(slots);
    }

    /// The slots of the results.
    pub(super) fn result_slots(&self) -> &[usize] {
        &self.results
    }

    /// Appends another operation, whose only operand is the tensor of this slot; the slots of its results.
    pub(super) fn append_recording(
        &mut self,
        next: LaunchRecording,
        operand: usize,
    ) -> SmallVec<[usize; 2]> {
        let places: Vec<usize> = next
            .slots
            .into_iter()
            .map(|slot| match slot {
                TensorSlot::Operand(_) => operand,
                other => self.add_slot(other),
            })
            .collect();
        for step in next.launches {
            let reads = step.reads.iter().map(|s| places[*s]).collect();
            let writes = step.writes.iter().map(|s| places[*s]).collect();
            self.launches.push(RecordedLaunch { launch: step.launch, reads, writes });
        }
        next.results.iter().map(|s| places[*s]).collect()
    }

    /// Repeats the launches on these operands; the results.
    ///
    /// # Safety
    /// The operands and targets have the layouts of the operation that was recorded, and share blocks as its tensors did.
    ///
    /// # Errors
    /// No room, indices out of range.
    pub(super) unsafe fn repeat_launches(
        &self,
        card: &Card,
        operands: &[Tensor],
        targets: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        let mut tensors: SmallVec<[Tensor; 8]> = SmallVec::with_capacity(self.slots.len());
        for slot in &self.slots {
            tensors.push(match slot {
                TensorSlot::Operand(i) => operands[*i].clone(),
                TensorSlot::Target(i) => targets[*i].clone(),
                TensorSlot::New(layout) => Tensor::with_shared_layout(card, layout)?,
            });
        }
        for step in &self.launches {
            let list = |slots: &[usize]| -> SmallVec<[Tensor; 4]> {
                slots.iter().map(|s| tensors[*s].clone()).collect()
            };
            // SAFETY: new tensors have the layouts that the launch was prepared for and blocks of their own; for the
            // tensors of the caller the contract of this function says the same.
            unsafe { step.launch.run_unchecked(&list(&step.reads), &list(&step.writes))? };
        }
        Ok(self.results.iter().map(|s| tensors[*s].clone()).collect())
    }
}

/// Work that is entered into the accounts of a card, with its cost there.
#[derive(Debug)]
pub(super) struct KnownWork {
    work: OperationWork,
    cost: OperationCost,
}

impl KnownWork {
    /// Work with the receipts that it got when it was entered first.
    pub(super) fn from_receipts(
        works: Vec<OperationWork>,
        receipts: &[WorkReceipt],
    ) -> Vec<KnownWork> {
        let known = |(work, receipt): (OperationWork, &WorkReceipt)| KnownWork {
            work,
            cost: receipt.cost.clone(),
        };
        works.into_iter().zip(receipts).map(known).collect()
    }

    /// Enters it once more.
    pub(super) fn enter_again(&self, card: &Card, stream: StreamId) -> WorkReceipt {
        card.enter_work(stream, &self.work, &self.cost)
    }
}
