//! A program on its way through the passes that follow the choice of layouts: one context with a column for each pass.
//!
//! **Idea.** Each of these passes decides one thing about every step or every buffer, and all later ones read it. So
//! the decisions stand side by side, as columns of one [`ProgramDraft`], and not one inside the other. The type of a
//! column says whether its pass has run: it is [`Undecided`] before.
//!
//! **Invariant.** A column is filled once, by the pass that owns it, and no later pass replaces it; only `waves`
//! removes results from the list that `work_distribution` offers to the scratchpads. A pass that needs a column takes a
//! draft that has it, so that running it too early does not compile.
//!
//! | draft | made by |
//! |---|---|
//! | [`LoweredProgram`] | `lower` |
//! | [`CandidateDraft`] | `span_reduction` |
//! | [`DividedDraft`] | `work_distribution` |
//! | [`WavedDraft`] | `waves` |
//! | [`ResidentDraft`] | `scratchpads` |
//! | [`PlacedDraft`] | `pool` |

use crate::divide::{DividedSteps, DivisionCandidates};
use crate::lower::LoweredProgram;
use crate::program::BufferLocation;
use crate::scratchpads::ScratchpadPlan;
use crate::waves::StepSlot;

/// The column of a pass that has not run.
pub(crate) struct Undecided;

/// The steps and buffers of a program with what the passes so far decided of them.
pub(crate) struct ProgramDraft<
    Divisions,
    Slots = Undecided,
    Residents = Undecided,
    Places = Undecided,
> {
    pub(crate) lowered: LoweredProgram,
    /// How the steps are divided, or may be.
    pub(crate) divisions: Divisions,
    /// Of every step, when and where it runs.
    pub(crate) slots: Slots,
    /// What stays in the scratchpads.
    pub(crate) residents: Residents,
    /// Of every buffer, where it is.
    pub(crate) places: Places,
}

/// Every step may have some divisions.
pub(crate) type CandidateDraft = ProgramDraft<DivisionCandidates>;
/// Every step has one division.
pub(crate) type DividedDraft = ProgramDraft<DividedSteps>;
/// Every step has its wave and its cores.
pub(crate) type WavedDraft = ProgramDraft<DividedSteps, Vec<StepSlot>>;
/// Some results have addresses in the scratchpads.
pub(crate) type ResidentDraft = ProgramDraft<DividedSteps, Vec<StepSlot>, ScratchpadPlan>;
/// All buffers have addresses.
pub(crate) type PlacedDraft =
    ProgramDraft<DividedSteps, Vec<StepSlot>, ScratchpadPlan, Vec<BufferLocation>>;

impl<Divisions> ProgramDraft<Divisions> {
    /// A lowered program whose steps have these divisions.
    pub(crate) fn new(lowered: LoweredProgram, divisions: Divisions) -> ProgramDraft<Divisions> {
        ProgramDraft {
            lowered,
            divisions,
            slots: Undecided,
            residents: Undecided,
            places: Undecided,
        }
    }

    /// The same with the slots of the steps.
    pub(crate) fn with_slots(self, slots: Vec<StepSlot>) -> ProgramDraft<Divisions, Vec<StepSlot>> {
        let ProgramDraft { lowered, divisions, residents, places, .. } = self;
        ProgramDraft { lowered, divisions, slots, residents, places }
    }
}

impl WavedDraft {
    /// The same with what stays in the scratchpads.
    pub(crate) fn with_residents(self, residents: ScratchpadPlan) -> ResidentDraft {
        let ProgramDraft { lowered, divisions, slots, places, .. } = self;
        ProgramDraft { lowered, divisions, slots, residents, places }
    }
}

impl ResidentDraft {
    /// The same with a place for every buffer.
    pub(crate) fn with_places(self, places: Vec<BufferLocation>) -> PlacedDraft {
        let ProgramDraft { lowered, divisions, slots, residents, .. } = self;
        ProgramDraft { lowered, divisions, slots, residents, places }
    }
}
