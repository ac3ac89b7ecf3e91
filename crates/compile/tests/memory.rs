//! What the card's memory does not hold is refused with the tensor that is too much.

use zellige_compile::{CompileError, CompilerOptions, compile_graph};

fn refused(text: &str) -> CompileError {
    let graph = zellige_graph::text::parse(text).expect("a graph");
    compile_graph(&graph, &CompilerOptions::default()).expect_err("more than the card has")
}

#[test]
fn tensors_and_models_over_the_memory_are_named() {
    // 20 GB in one tensor: a segment has 16 GiB.
    let one = refused(
        "graph g(w: float16[100000, 100000] @weight, x: float16[4, 64]) {
            y = add(x, 1)
            z = slice(w, dim=0, start=0, end=4)
            u = slice(z, dim=1, start=0, end=64)
            v = add(y, u)
            return v
        }",
    );
    assert!(matches!(&one, CompileError::PoolFull { buffer, .. } if buffer == "w"), "{one}");
    // Seven of 16 GB each, where six segments are for them.
    let inputs: String = (0..7).map(|i| format!("w{i}: float16[8053063680] @weight, ")).collect();
    let sum: String = (0..7)
        .map(|i| format!("a{i} = slice(w{i}, dim=0, start=0, end=64)\nb{i} = add(a{i}, {i})\n"))
        .collect();
    let many = refused(&format!("graph g({inputs}) {{ {sum} return b0, b1, b2, b3, b4, b5, b6 }}"));
    assert!(matches!(&many, CompileError::PoolFull { buffer, .. } if buffer == "w6"), "{many}");
}
