//! SuperDSC: one JSON per kernel, and for every bundle of the program the text that runs its kernels in order.
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

use super::{EmitRefusal, EmittedFile, KernelAddressing, MemoryMap};
use crate::program::{BundleId, BundleKind, CompiledProgram, StepId};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use symbols::SdscSymbols;

/// A kernel of a bundle, as often as the bundle executes it.
#[derive(Debug, Clone, PartialEq)]
pub struct SdscFile {
    /// The step it does.
    pub step: StepId,
    /// Its file. Kernels with the same content have one file, that of the first.
    pub file: String,
    /// The content of the file.
    pub json: Value,
}

/// The kernels of a bundle, the program that runs them, and the steps it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct SdscBundle {
    /// Which bundle of the program it is.
    pub id: BundleId,
    /// Whether it runs when weights are loaded.
    pub load: bool,
    /// The kernels, in the order in which they are executed.
    pub kernels: Vec<SdscFile>,
    /// `bundle.mlir`.
    pub mlir: String,
    /// Steps that are no kernels.
    pub refused: Vec<EmitRefusal>,
}

impl SdscBundle {
    /// Its folder.
    pub fn folder_name(&self) -> String {
        bundle_folder(self.id)
    }

    /// Its files; none of a step of the host.
    pub fn emitted_files(&self) -> Vec<EmittedFile> {
        if self.mlir.is_empty() {
            return Vec::new();
        }
        let file = |name: &str, text: String| EmittedFile {
            path: format!("{}/{name}", self.folder_name()),
            text,
        };
        let mut files = vec![file("bundle.mlir", self.mlir.clone())];
        let mut written = HashSet::new();
        for kernel in self.kernels.iter().filter(|k| written.insert(&k.file)) {
            files.push(file(&kernel.file, pretty_json(&kernel.json)));
        }
        files
    }
}

/// The form, as refusals name it.
const TARGET: &str = "superdsc";

pub(super) fn bundle_folder(id: BundleId) -> String {
    format!("superdsc/bundle_{}", id.0)
}

pub(super) fn pretty_json(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a value is JSON");
    text.push('\n');
    text
}

/// All bundles of a program, in order. Those of the host have no kernels and no program.
pub fn build_bundles(
    program: &CompiledProgram,
    map: &MemoryMap,
    addresses: KernelAddressing,
) -> Vec<SdscBundle> {
    let ids = (0..program.bundles.len()).map(BundleId);
    ids.map(|id| build_bundle(program, map, id, addresses)).collect()
}

fn build_bundle(
    program: &CompiledProgram,
    map: &MemoryMap,
    id: BundleId,
    addresses: KernelAddressing,
) -> SdscBundle {
    let bundle = &program.bundles[id.0];
    let (mut kernels, mut refused) = (Vec::<SdscFile>::new(), Vec::new());
    let mut symbols = SdscSymbols::new(addresses);
    let mut body = bundle::BundleBody::default();
    // Of every content, the kernel that had it first.
    let mut known: HashMap<String, usize> = HashMap::new();
    for i in bundle.steps.clone() {
        let step = &program.steps[i];
        let begin = symbols.all_symbols().len();
        let made = map.kernel_plan().steps[i].clone().and_then(|own| {
            let first = kernels.len();
            let file = |(k, kernel)| json::kernel_json(kernel, first + k, map, &mut symbols);
            own.iter().enumerate().map(file).collect::<Result<Vec<_>, _>>()
        });
        match made {
            Ok(made) => {
                for (json, ids) in made {
                    let next = kernels.len();
                    // The content without its number, which is the one field that says where in the bundle it is.
                    let first = *known.entry(kernel_content(&json)).or_insert(next);
                    let file = format!("sdsc_{first}.json");
                    body.push_execute(&file, &ids);
                    let json = if first == next { json } else { kernels[first].json.clone() };
                    kernels.push(SdscFile { step: StepId(i), file, json });
                }
            }
            Err(reason) => {
                symbols.truncate(begin);
                body.push_left_out(i, &step.name, &reason);
                let (step, name) = (StepId(i), step.name.clone());
                refused.push(EmitRefusal { target: TARGET, step, name, reason });
            }
        }
    }
    let mlir = match bundle.kind {
        BundleKind::Device => body.print_bundle(&symbols),
        BundleKind::Host => String::new(),
    };
    SdscBundle { id, load: bundle.load, kernels, mlir, refused }
}

/// What a kernel's file says, but for the number in front of its name.
fn kernel_content(json: &Value) -> String {
    let named = json.as_object().into_iter().flatten();
    let plain = |name: &String| name.split_once('_').map_or(name.clone(), |(_, own)| own.into());
    named.map(|(name, top)| format!("{} {top}\n", plain(name))).collect()
}
