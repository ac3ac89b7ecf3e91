//! Tensors that the programmer places in the scratchpads or in device memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_compile::{
    BufferLocation, CompileError, CompiledProgram, CompilerOptions, check_program, compile_graph,
};
use zellige_graph::text;

fn compiled(graph: &str, options: &CompilerOptions) -> Result<CompiledProgram, CompileError> {
    let program = compile_graph(&text::parse(graph).unwrap(), options)?;
    check_program(&program).unwrap();
    Ok(program)
}

fn is_in_lx(program: &CompiledProgram, name: &str) -> bool {
    let buffer = program.buffers.iter().find(|b| b.name == name).unwrap();
    matches!(buffer.place, BufferLocation::Lx(_))
}

fn chain(place: &str) -> String {
    format!(
        "graph g(x: float16[512, 256]) {{ a = add(x, 1) {place} b = relu(a) c = mul(b, 2) return c }}"
    )
}

#[test]
fn a_tensor_in_memory_is_never_in_the_scratchpads() {
    let options = CompilerOptions::default();
    let free = compiled(&chain(""), &options).unwrap();
    assert!(is_in_lx(&free, "a") && is_in_lx(&free, "b"));
    let placed = compiled(&chain("place memory"), &options).unwrap();
    assert!(!is_in_lx(&placed, "a") && is_in_lx(&placed, "b"));
    assert!(placed.latency() > free.latency(), "it is written and read again");
}

/// Sums along both dimensions divide a tensor in different ways; left alone, it goes through memory.
#[test]
fn a_tensor_in_lx_is_there_where_the_compiler_would_not_keep_it() {
    let graph = |place: &str| {
        format!(
            "graph g(x: float16[33, 1000]) {{ y = add(x, 1) {place} a = sum(y, dim=[0]) b = sum(y, dim=[1]) \
             return a, b }}"
        )
    };
    // Where reading a tensor again costs less than another division.
    let hardware = zellige_machine::Hardware::built_in_preset("card-2026-05").unwrap();
    let options = CompilerOptions { hardware, ..CompilerOptions::default() };
    assert!(!is_in_lx(&compiled(&graph(""), &options).unwrap(), "y"));
    assert!(is_in_lx(&compiled(&graph("place lx"), &options).unwrap(), "y"));
}

#[test]
fn a_tensor_that_cannot_be_in_lx_is_refused_with_the_reason() {
    let refused = |graph: &str, options: &CompilerOptions| {
        let e = compiled(graph, options).err().unwrap();
        assert_eq!(e.kind(), "bad_place");
        e.to_string()
    };
    let options = CompilerOptions::default();
    let why =
        refused("graph g(x: float16[512, 256]) { y = add(x, 1) place lx return y }", &options);
    assert!(why.contains("`y` is placed in lx") && why.contains("the program returns it"), "{why}");
    let why = refused(
        "graph g(x: float16[512, 256]) { y = add(x, 1) place lx v = slice(y, dim=0, start=0, end=100, step=1) \
         z = relu(v) return z }",
        &options,
    );
    assert!(why.contains("view of it"), "{why}");
    let why = refused(
        "graph g(x: float16[65536, 2048]) { y = add(x, 1) place lx z = relu(y) return z }",
        &options,
    );
    assert!(why.contains("a scratchpad has room for"), "{why}");
    let without = CompilerOptions { scratchpads: None, ..CompilerOptions::default() };
    let why = refused(&chain("place lx"), &without);
    assert!(why.contains("not planned"), "{why}");
}
