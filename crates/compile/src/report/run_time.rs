//! The time of a run as a sum of named terms.

use super::steps::report_dimensions;
use crate::program::{CompiledProgram, ProgramStep, StepAction};
use zellige_machine::{SimulatedTime, TimeTerm};
use zellige_report::LoopDimension;

/// The time of a run, whose steps come one after the other.
///
/// **Law**: `counted` of all terms add up to `total`, and `kernels` is the same without the launches.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTime {
    /// All steps and their launches.
    pub total: SimulatedTime,
    /// All steps.
    pub kernels: SimulatedTime,
    /// How often the host launches something.
    pub launches: usize,
    /// The terms of all steps, those of one name added up, and of the launches.
    pub terms: Vec<TimeTerm>,
    /// Every step of a run.
    pub steps: Vec<StepTime>,
}

/// The time of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Its name.
    pub name: String,
    /// The operation; `move` for a move.
    pub op: String,
    /// Its time.
    pub time: SimulatedTime,
    /// What limits it.
    pub bound: String,
    /// Cores that do something.
    pub cores: usize,
    /// Its loops and their splits.
    pub division: Vec<LoopDimension>,
    /// Who decided the splits.
    pub decided_by: String,
    /// Bytes of device memory, read and written.
    pub bytes: [u64; 2],
    /// The terms of its time.
    pub terms: Vec<TimeTerm>,
}

impl RunTime {
    /// The term that counts most, and of equals the first; none where nothing takes time.
    pub fn largest_term(&self) -> Option<&TimeTerm> {
        let longest = self.terms.iter().map(|t| t.counted).max()?;
        self.terms.iter().find(|t| t.counted == longest && longest > SimulatedTime::ZERO)
    }
}

/// The time of a run of a program, steps one after the other whether or not some of them may overlap.
pub fn sum_run_time(program: &CompiledProgram) -> RunTime {
    let steps: Vec<StepTime> = program.run_steps().map(|(_, s)| time_step(program, s)).collect();
    let kernels = steps.iter().map(|s| s.time).sum();
    let mut terms: Vec<TimeTerm> = Vec::new();
    for term in steps.iter().flat_map(|s| &s.terms) {
        match terms.iter_mut().find(|t| t.name == term.name) {
            Some(sum) => {
                sum.alone += term.alone;
                sum.counted += term.counted;
            }
            None => terms.push(*term),
        }
    }
    let (launches, launch) = (program.launch_count(), program.launch_time());
    if launch > SimulatedTime::ZERO {
        let meaning = "launches by the host";
        terms.push(TimeTerm { name: "launch", meaning, alone: launch, counted: launch });
    }
    RunTime { total: kernels + launch, kernels, launches, terms, steps }
}

fn time_step(program: &CompiledProgram, step: &ProgramStep) -> StepTime {
    let totals = super::sum_work_totals(program, &step.work);
    StepTime {
        name: step.name.clone(),
        op: step.op().map_or("move", zellige_op::TensorOp::name).into(),
        time: step.duration,
        bound: step.latency.bottleneck.to_string(),
        cores: if matches!(step.action, StepAction::Host(..)) { 0 } else { totals.cores },
        division: report_dimensions(step),
        decided_by: step.decided.0.clone(),
        bytes: [totals.bytes_in, totals.bytes_out],
        terms: program.options.hardware.list_time_terms(&step.latency),
    }
}
