//! Operations on merged views read their operands in place.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Map, Value, json};
use zellige_compile::{CompiledProgram, CompilerOptions, check_program, compile_graph};
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, GraphOperand, InputRole, TensorId};

fn view(b: &mut GraphBuilder, op: &str, of: TensorId, given: Value, name: &str) -> TensorId {
    let attributes = if let Value::Object(map) = given { map } else { Map::new() };
    b.add_op(op, &[GraphOperand::Tensor(of)], &attributes, &[name]).unwrap()[0]
}

fn compiled(graph: &Graph) -> CompiledProgram {
    let program = compile_graph(graph, &CompilerOptions::default()).unwrap();
    check_program(&program).unwrap();
    program
}

fn moves(program: &CompiledProgram) -> Vec<String> {
    program.run_steps().filter(|(_, s)| s.is_move()).map(|(_, s)| s.name.clone()).collect()
}

#[test]
fn a_flattened_operand_is_read_in_place() {
    let mut b = GraphBuilder::new("flat");
    let x = b.add_input("x", &[8, 128, 256], Dtype::Float16, InputRole::Input).unwrap();
    let y = b.add_input("y", &[1024, 256], Dtype::Float16, InputRole::Input).unwrap();
    let flat = view(&mut b, "flatten", x, json!({"start_dim": 0, "end_dim": 1}), "flat");
    let sum = b.add_op(
        "add",
        &[GraphOperand::Tensor(flat), GraphOperand::Tensor(y)],
        &Map::new(),
        &["z"],
    );
    let graph = b.finish_graph(&[sum.unwrap()[0]]).unwrap();
    let program = compiled(&graph);
    assert_eq!(moves(&program), Vec::<String>::new());
    // The caller gets the size and the name of the graph.
    let output = program.graph.outputs()[0];
    assert_eq!(program.graph.get(output).name, "z");
    assert_eq!(program.graph.get(output).size, [1024, 256]);
    assert_eq!(program.outputs[0].laid.size(), [1024, 256]);
}

#[test]
fn a_chain_on_a_merged_view_stays_split_and_ends_merged() {
    let mut b = GraphBuilder::new("chain");
    let x = b.add_input("x", &[4, 64, 128], Dtype::Float16, InputRole::Input).unwrap();
    let y = b.add_input("y", &[128], Dtype::Float16, InputRole::Input).unwrap();
    let w = b.add_input("w", &[128, 64], Dtype::Float16, InputRole::Weight).unwrap();
    let flat = view(&mut b, "reshape", x, json!({"size": [256, 128]}), "flat");
    let sum = b.add_op(
        "add",
        &[GraphOperand::Tensor(flat), GraphOperand::Tensor(y)],
        &Map::new(),
        &["s"],
    );
    let act =
        b.add_op("gelu", &[GraphOperand::Tensor(sum.unwrap()[0])], &Map::new(), &["g"]).unwrap()[0];
    let out = b.add_op(
        "matmul",
        &[GraphOperand::Tensor(act), GraphOperand::Tensor(w)],
        &Map::new(),
        &["m"],
    );
    let graph = b.finish_graph(&[out.unwrap()[0]]).unwrap();
    // The product reads 256 rows; the operation before it writes them so.
    assert_eq!(moves(&compiled(&graph)), Vec::<String>::new());
}

#[test]
fn splits_that_do_not_divide_each_other_leave_the_operation_as_it_is() {
    let mut b = GraphBuilder::new("odd");
    let x = b.add_input("x", &[6, 4, 64], Dtype::Float16, InputRole::Input).unwrap();
    let y = b.add_input("y", &[4, 6, 64], Dtype::Float16, InputRole::Input).unwrap();
    let a = view(&mut b, "flatten", x, json!({"start_dim": 0, "end_dim": 1}), "a");
    let c = view(&mut b, "flatten", y, json!({"start_dim": 0, "end_dim": 1}), "c");
    let sum =
        b.add_op("add", &[GraphOperand::Tensor(a), GraphOperand::Tensor(c)], &Map::new(), &["z"]);
    let graph = b.finish_graph(&[sum.unwrap()[0]]).unwrap();
    let program = compiled(&graph);
    assert_eq!(program.graph.nodes().count(), 1);
    assert!(program.graph.tensor_id("z.split").is_none());
}
