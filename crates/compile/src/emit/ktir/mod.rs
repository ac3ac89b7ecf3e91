//! KTIR: kernels as tile programs that every core runs on its own slice.
//!
//! A kernel takes a pointer for each operand and for the result, finds its slice from the number of its
//! core, and goes over it tile by tile: a row of whole sticks, or a block of a matrix. Numbers are
//! float32 inside a kernel and round once when they are stored. All operands are in device memory: which
//! of them stay in scratchpads is the host program's to say. Kernels use what the reference interpreter knows:
//! what is loaded has the shape of its access tile and is reshaped by operations of its own.
//!
//! | file | kernels |
//! |---|---|
//! | `frame` | what all have: memory views, slices of cores, loops |
//! | `math` | functions of elements |
//! | `pointwise` | element by element, and casts |
//! | `reduce` | sums, means, extremes |
//! | `rows` | softmax and norms along the lanes |
//! | `product` | matrix products |
//! | `moves` | elements into other layouts |

mod frame;
mod math;
mod moves;
mod pointwise;
mod product;
mod reduce;
mod rows;

use super::{CardFloat, EmitRefusal, EmittedFile, sanitize_name};
use crate::program::{CompiledProgram, ProgramStep, StepId};
use frame::KtirKernelFrame;
use zellige_ktir::{KtirFunction, KtirModule, text};
use zellige_op::TileProgram;

/// A kernel in KTIR.
#[derive(Debug, Clone, PartialEq)]
pub struct KtirKernel {
    /// The step it does.
    pub step: StepId,
    /// Its file.
    pub file: String,
    /// What the file holds: one function, whose arguments are the operands and then the result.
    pub module: KtirModule,
}

/// The kernels of a program, and the steps that have none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KtirKernels {
    /// In the order of the steps.
    pub kernels: Vec<KtirKernel>,
    /// The others, with the reason.
    pub refused: Vec<EmitRefusal>,
}

impl KtirKernels {
    /// Their files.
    pub fn emitted_files(&self, program: &CompiledProgram) -> Vec<EmittedFile> {
        let file = |k: &KtirKernel| {
            let step = &program.steps[k.step.0];
            let reads = step.reads.iter().map(|r| program.buffer(r.buffer).name.as_str());
            let writes = step.writes.iter().map(|b| program.buffer(*b).name.as_str());
            let operands: Vec<&str> = reads.chain(writes).collect();
            let note = format!("// Step {}: {}\n", k.step.0, operands.join(", "));
            EmittedFile { path: k.file.clone(), text: note + &text::print_module(&k.module) }
        };
        self.kernels.iter().map(file).collect()
    }
}

/// Every step that is a kernel.
pub fn build_kernels(program: &CompiledProgram, card_float: CardFloat) -> KtirKernels {
    let mut all = KtirKernels::default();
    for (i, step) in program.steps.iter().enumerate() {
        match build_kernel_function(program, step, card_float) {
            Ok(f) => all.kernels.push(KtirKernel {
                step: StepId(i),
                file: format!("ktir/step_{i}_{}.mlir", sanitize_name(&step.name)),
                module: KtirModule::new(vec![f]),
            }),
            Err(reason) => {
                let (step, name) = (StepId(i), step.name.clone());
                all.refused.push(EmitRefusal { target: "ktir", step, name, reason });
            }
        }
    }
    all
}

fn build_kernel_function(
    program: &CompiledProgram,
    step: &ProgramStep,
    card_float: CardFloat,
) -> Result<KtirFunction, String> {
    let mut frame = KtirKernelFrame::new(program, step, card_float)?;
    let Some(op) = step.op() else {
        moves::build_move_body(&mut frame)?;
        return frame.finish_kernel();
    };
    // Bodies are chosen by name: the forms of the table tell reductions and products apart, but not which of them
    // have a tile program.
    match op.name() {
        "sum" | "mean" | "amax" | "amin" => reduce::build_reduction_body(&mut frame, op.name())?,
        "softmax" | "log_softmax" | "rms_norm" | "layer_norm" => {
            rows::build_row_body(&mut frame, op.name())?;
        }
        "matmul" | "mm" | "bmm" | "linear" => product::build_product_body(&mut frame)?,
        name if op.row().ktir == TileProgram::None => {
            return Err(format!("there is no tile program of {name}"));
        }
        _ => pointwise::build_pointwise_body(&mut frame, op.row())?,
    }
    frame.finish_kernel()
}
