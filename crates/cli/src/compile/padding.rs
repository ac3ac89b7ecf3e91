//! What is padded in a program, as text.

use std::fmt::Write;
use zellige_compile::CompiledProgram;
use zellige_compile::padding::{FilledBy, StepTensor, analyze_padding};

/// The dimensions of every step that are longer in memory than in the tensor.
pub(super) fn format_padding(program: &CompiledProgram) -> String {
    let mut out = String::new();
    for p in analyze_padding(program) {
        let step = &program.steps[p.step.0];
        let _ = writeln!(out, "{}: {} bytes of padding moved", step.name, p.bytes);
        for e in &p.extents {
            let side = match e.side {
                StepTensor::Operand(k) => format!("operand {k}"),
                StepTensor::Result(k) => format!("result {k}"),
            };
            let fill = match e.fill {
                Some(value) => {
                    let by = match e.by {
                        Some(FilledBy::Mask) => " by the mask of the kernel".into(),
                        Some(FilledBy::Step(s)) => format!(" by {}", program.steps[s.0].name),
                        Some(FilledBy::Transfer) => " by its transfer".into(),
                        None => String::new(),
                    };
                    format!("filled with {value}{by}")
                }
                None => "holding anything".into(),
            };
            let _ = writeln!(
                out,
                "    {side}, dimension {}: {} of {}, {fill}",
                e.dim, e.valid, e.padded
            );
        }
    }
    if out.is_empty() {
        out.push_str("nothing is padded\n");
    }
    out
}
