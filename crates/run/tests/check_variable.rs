//! `ZELLIGE_CHECK=1`: whoever loads a program has it checked first, the PyTorch backend too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use zellige_compile::{BufferLocation, CompiledProgram, CompilerOptions, compile_graph};
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_run::{CHECK_VARIABLE, LoadedModel, ProgramRunError};

/// Two results that live at the same time, in the pool.
fn program() -> CompiledProgram {
    let text = "graph g(x: float16[128, 256], w: float16[256, 256] @weight) {
        a = matmul(x, w)
        b = relu(x)
        c = add(a, b)
        d = mul(a, b)
        return c, d
    }";
    let graph = zellige_graph::text::parse(text).unwrap();
    compile_graph(&graph, &CompilerOptions { scratchpads: None, ..CompilerOptions::default() })
        .unwrap()
}

/// The same with both in the same bytes.
fn damaged_program() -> CompiledProgram {
    let mut program = program();
    let mut damaged = 0;
    for buffer in &mut program.buffers {
        if let BufferLocation::Pool(address) = &mut buffer.place {
            *address = 0;
            damaged += 1;
        }
    }
    assert!(damaged > 1, "{damaged} buffers in the pool");
    program
}

/// Loads a program as the PyTorch backend does, with its weights on the card.
fn load(program: CompiledProgram) -> Result<LoadedModel, ProgramRunError> {
    let card = Card::builder().build().unwrap();
    LoadedModel::load_resident(program, &card, |_, laid| {
        Ok(Tensor::zeros(&card, Dtype::Float16, laid.stick_layout())?)
    })
}

/// What the child process does; alone it has no variable, and nothing is checked.
#[test]
fn loads_under_the_variable_of_this_process() {
    let checks = std::env::var(CHECK_VARIABLE).ok();
    match checks.as_deref() {
        None | Some("" | "0") => {
            load(damaged_program()).unwrap();
        }
        Some("1") => {
            load(program()).unwrap();
            let refused = load(damaged_program()).unwrap_err();
            assert!(matches!(refused, ProgramRunError::Refused { .. }), "{refused}");
            assert!(refused.to_string().contains("has its bytes of the pool"), "{refused}");
        }
        Some(other) => {
            let refused = load(program()).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("`{other}` is not accepted; `0` or `1`")),
                "{refused}"
            );
        }
    }
}

/// A test cannot change its own environment safely, so that the one above runs again in processes of its own.
#[test]
fn a_damaged_program_is_refused_under_the_variable() {
    for value in ["0", "1", "yes"] {
        let ran = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "loads_under_the_variable_of_this_process"])
            .env(CHECK_VARIABLE, value)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && text.contains("1 passed"), "{value}: {text}");
    }
}
