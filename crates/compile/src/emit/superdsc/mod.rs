//! SuperDSC: one JSON per kernel, and the bundle that runs them in order.
//!
//! A kernel is described by labelled loops, by tensors that follow some of them, and by the slice that every core has.
//! Which kernels do a step is decided in `plan` (with `copy` for elements that only move, `rows` for rows by index,
//! `staging` for scratchpads); what decides each field is in `kernel`; `json` writes them down; `bundle` writes the
//! program around the kernels.
//!
//! # Choices where the form leaves room
//! - `scale_`, `maxDimSizes_` and `coordInfo` go by the dimension order of the tensor's label, and
//!   `layoutDimOrder_` of an allocation by the tensor's own.
//! - A gap is what the device's dimension has more than the loop; it is negative where a move's padded
//!   loop goes past a dimension that is not padded.
//! - A device dimension that no loop follows (a selected index) is part of the gap of the loop inside
//!   it.
//! - Cores that share the bursts of a move get slices of its loops here, by the default distribution.
//! - Slices of different lengths are kernels of their own, as all cores of a kernel have one description.
//! - Rows that are written by an index have the fields that the form documents for rows that are read by one.
//! - Steps are in the order of the program; there are no loops around kernels.

mod bundle;
mod copy;
mod json;
mod kernel;
mod op_func;
mod plan;
mod rows;
mod staging;
mod symbols;
mod work;

pub(crate) use plan::{KernelPlan, WorkspaceTable};
pub(crate) use work::WorkMemory;

use super::{BundlePhase, EmitRefusal, EmittedFile, KernelAddressing, MemoryMap};
use crate::program::{CompiledProgram, StepId};
use serde_json::Value;
use symbols::SdscSymbols;

/// A kernel of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct SdscFile {
    /// The step it does.
    pub step: StepId,
    /// Its file.
    pub file: String,
    /// The content of the file.
    pub json: Value,
}

/// The kernels of a phase, the program that runs them, and the steps it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct SdscBundle {
    /// When it runs.
    pub phase: BundlePhase,
    /// The kernels, in order.
    pub kernels: Vec<SdscFile>,
    /// `bundle.mlir`.
    pub mlir: String,
    /// Steps that are no kernels.
    pub refused: Vec<EmitRefusal>,
}

impl SdscBundle {
    /// Its folder.
    pub fn folder_name(&self) -> &'static str {
        phase_folder(self.phase)
    }

    /// Its files; none of a phase without steps.
    pub fn emitted_files(&self) -> Vec<EmittedFile> {
        if self.kernels.is_empty() && self.refused.is_empty() {
            return Vec::new();
        }
        let file = |name: &str, text: String| EmittedFile {
            path: format!("{}/{name}", self.folder_name()),
            text,
        };
        let kernels = self.kernels.iter().map(|k| file(&k.file, pretty_json(&k.json)));
        [file("bundle.mlir", self.mlir.clone())].into_iter().chain(kernels).collect()
    }
}

pub(super) fn phase_folder(phase: BundlePhase) -> &'static str {
    match phase {
        BundlePhase::Load => "superdsc-load",
        BundlePhase::Run => "superdsc",
    }
}

pub(super) fn pretty_json(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a value is JSON");
    text.push('\n');
    text
}

/// The bundle of the steps of a phase.
pub fn build_bundle(
    program: &CompiledProgram,
    map: &MemoryMap,
    phase: BundlePhase,
    addresses: KernelAddressing,
) -> SdscBundle {
    let (mut kernels, mut refused) = (Vec::new(), Vec::new());
    let mut symbols = SdscSymbols::new(addresses);
    let mut body = bundle::BundleBody::default();
    for (i, step) in program.steps.iter().enumerate() {
        if !phase.matches_load(step.load) {
            continue;
        }
        let begin = symbols.all_symbols().len();
        let made = map.kernel_plan().steps[i].clone().and_then(|own| {
            let first = kernels.len();
            let file = |(k, kernel)| json::kernel_json(kernel, first + k, map, &mut symbols);
            own.iter().enumerate().map(file).collect::<Result<Vec<_>, _>>()
        });
        match made {
            Ok(made) => {
                for (json, ids) in made {
                    let file = format!("sdsc_{}.json", kernels.len());
                    body.push_execute(&file, &ids);
                    kernels.push(SdscFile { step: StepId(i), file, json });
                }
            }
            Err(reason) => {
                symbols.truncate(begin);
                body.push_left_out(i, &step.name, &reason);
                let (step, name) = (StepId(i), step.name.clone());
                refused.push(EmitRefusal { target: phase_folder(phase), step, name, reason });
            }
        }
    }
    let mlir = body.print_bundle(&symbols);
    SdscBundle { phase, kernels, mlir, refused }
}
