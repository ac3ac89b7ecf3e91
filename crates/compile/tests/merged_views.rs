//! Operations on merged views read their operands where they lie.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Map, Value, json};
use zellige_compile::{Options, Program, check, compile};
use zellige_float::Dtype;
use zellige_graph::{Builder, Graph, Operand, Role, TensorId};

fn view(b: &mut Builder, op: &str, of: TensorId, given: Value, name: &str) -> TensorId {
    let attributes = if let Value::Object(map) = given { map } else { Map::new() };
    b.op(op, &[Operand::Tensor(of)], &attributes, &[name]).unwrap()[0]
}

fn compiled(graph: &Graph) -> Program {
    let program = compile(graph, &Options::default()).unwrap();
    check(&program).unwrap();
    program
}

fn moves(program: &Program) -> Vec<String> {
    program.run_steps().filter(|(_, s)| s.is_move()).map(|(_, s)| s.name.clone()).collect()
}

#[test]
fn a_flattened_operand_is_read_in_place() {
    let mut b = Builder::new("flat");
    let x = b.input("x", &[8, 128, 256], Dtype::Float16, Role::Input).unwrap();
    let y = b.input("y", &[1024, 256], Dtype::Float16, Role::Input).unwrap();
    let flat = view(&mut b, "flatten", x, json!({"start_dim": 0, "end_dim": 1}), "flat");
    let sum = b.op("add", &[Operand::Tensor(flat), Operand::Tensor(y)], &Map::new(), &["z"]);
    let graph = b.finish(&[sum.unwrap()[0]]).unwrap();
    let program = compiled(&graph);
    assert_eq!(moves(&program), Vec::<String>::new());
    // The caller gets the size and the name it asked for.
    let output = program.graph.outputs()[0];
    assert_eq!(program.graph.get(output).name, "z");
    assert_eq!(program.graph.get(output).size, [1024, 256]);
    assert_eq!(program.outputs[0].laid.size(), [1024, 256]);
}

#[test]
fn a_chain_on_a_merged_view_stays_split_and_ends_merged() {
    let mut b = Builder::new("chain");
    let x = b.input("x", &[4, 64, 128], Dtype::Float16, Role::Input).unwrap();
    let y = b.input("y", &[128], Dtype::Float16, Role::Input).unwrap();
    let w = b.input("w", &[128, 64], Dtype::Float16, Role::Weight).unwrap();
    let flat = view(&mut b, "reshape", x, json!({"size": [256, 128]}), "flat");
    let sum = b.op("add", &[Operand::Tensor(flat), Operand::Tensor(y)], &Map::new(), &["s"]);
    let act = b.op("gelu", &[Operand::Tensor(sum.unwrap()[0])], &Map::new(), &["g"]).unwrap()[0];
    let out = b.op("matmul", &[Operand::Tensor(act), Operand::Tensor(w)], &Map::new(), &["m"]);
    let graph = b.finish(&[out.unwrap()[0]]).unwrap();
    // The product reads 256 rows; the operation before it writes them so.
    assert_eq!(moves(&compiled(&graph)), Vec::<String>::new());
}

#[test]
fn splits_that_do_not_divide_each_other_leave_the_operation_as_it_is() {
    let mut b = Builder::new("odd");
    let x = b.input("x", &[6, 4, 64], Dtype::Float16, Role::Input).unwrap();
    let y = b.input("y", &[4, 6, 64], Dtype::Float16, Role::Input).unwrap();
    let a = view(&mut b, "flatten", x, json!({"start_dim": 0, "end_dim": 1}), "a");
    let c = view(&mut b, "flatten", y, json!({"start_dim": 0, "end_dim": 1}), "c");
    let sum = b.op("add", &[Operand::Tensor(a), Operand::Tensor(c)], &Map::new(), &["z"]);
    let graph = b.finish(&[sum.unwrap()[0]]).unwrap();
    let program = compiled(&graph);
    assert_eq!(program.graph.nodes().count(), 1);
    assert!(program.graph.id("z.split").is_none());
}
