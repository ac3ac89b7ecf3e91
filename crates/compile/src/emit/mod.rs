//! A program as files that other tools read.
//!
//! | module | writes |
//! |---|---|
//! | [`superdsc`] | a folder for every bundle: its SuperDSC kernels, and the text that runs them in order |
//! | [`dci`] | the transfer descriptor of every input and output |
//! | [`ktir`] | tile programs of the kernels that have one |
//! | [`host`] | the host program: allocations, loads, transfers, launches |
//!
//! [`emit_program`] adds the report of the program and its graph, so that a folder of these files says what was
//! decided, and can be compiled and run again.
//!
//! Every function is a pure one from a [`CompiledProgram`] to text; who calls it writes the files. What a form
//! cannot express is listed with the reason and never left out silently.
//!
//! ```
//! use zellige_compile::{CompilerOptions, compile_graph, emit};
//! let graph = zellige_graph::text::parse(
//!     "graph g(x: float16[512, 256], y: float16[512, 256]) { z = add(x, y) return z }",
//! ).unwrap();
//! let program = compile_graph(&graph, &CompilerOptions::baseline())?;
//! let emitted = emit::emit_program(&program, &emit::EmitOptions::default())?;
//! assert!(emitted.refused.is_empty());
//! assert!(emitted.file_text("superdsc/bundle_0/bundle.mlir").unwrap().contains("sdsc_0.json"));
//! # Ok::<(), zellige_compile::CompileError>(())
//! ```

pub mod dci;
pub mod host;
pub mod ktir;
mod memory;
mod order;
pub mod superdsc;

use crate::error::Result;
use crate::program::{CompiledProgram, StepId};
pub use memory::{BufferAddress, MemoryMap, SEGMENT_BYTES};

/// Choices of an emission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmitOptions {
    /// How kernels name device memory.
    pub addresses: KernelAddressing,
    /// How tile programs write the card's own 16-bit float.
    pub card_float: CardFloat,
}

/// How tile programs write the card's own 16-bit float (1 sign, 6 exponent, 9 fraction bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CardFloat {
    /// As `f16`, as torch-spyre does: other tools read it and run it in binary16.
    #[default]
    F16,
    /// As `df16`: interpreted, a kernel rounds as the card does. The reference interpreter does not
    /// know this type.
    Df16,
}

/// How kernels name device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KernelAddressing {
    /// By numbers: the memory is planned before the program is loaded.
    #[default]
    Concrete,
    /// By arguments of the bundle, bound at every launch.
    Symbolic,
}

/// A file of an emission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmittedFile {
    /// Where it belongs, below the folder of the emission, with `/` between folders.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A step that a form cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmitRefusal {
    /// The form.
    pub target: &'static str,
    /// The step.
    pub step: StepId,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// All files of a program, and what they leave out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmittedProgram {
    /// The files, in the order of the table above.
    pub files: Vec<EmittedFile>,
    /// What could not be expressed, step by step in each form.
    pub refused: Vec<EmitRefusal>,
}

impl EmittedProgram {
    /// The path and the text of every file.
    pub fn paths_and_texts(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|f| (f.path.as_str(), f.text.as_bytes()))
    }

    /// The text of a file.
    pub fn file_text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|f| f.path == path).map(|f| f.text.as_str())
    }
}

/// Every form of a program.
///
/// # Errors
/// Tensors that no plan moves to the card, or from it.
pub fn emit_program(program: &CompiledProgram, options: &EmitOptions) -> Result<EmittedProgram> {
    // One map for all forms: the bundles, the host program and the tile programs have to agree about every address.
    let map = MemoryMap::new(program);
    let mut emitted = EmittedProgram::default();
    let bundles = superdsc::build_bundles(program, &map, options.addresses);
    for bundle in &bundles {
        emitted.refused.extend(bundle.refused.iter().cloned());
        emitted.files.extend(bundle.emitted_files());
    }
    emitted.files.extend(dci::write_dci_files(program)?);
    let kernels = ktir::build_kernels(program, options.card_float);
    emitted.refused.extend(kernels.refused.iter().cloned());
    emitted.files.extend(kernels.emitted_files(program));
    emitted.files.push(host::write_host_file(program, &map, &bundles, &kernels, options)?);
    let report = serde_json::to_value(crate::report::report_program(program));
    let text = superdsc::pretty_json(&report.expect("a report is JSON"));
    emitted.files.push(EmittedFile { path: "report.json".into(), text });
    let text = zellige_graph::json::print_graph(&program.graph);
    emitted.files.push(EmittedFile { path: "graph.json".into(), text });
    Ok(emitted)
}

/// A name that files and identifiers may have: other characters become `_`.
pub fn sanitize_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}
