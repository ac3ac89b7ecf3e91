//! Products of matrices.

use super::Table;
use crate::error::Result;
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[("MatMul", matmul), ("Gemm", gemm)];

fn matmul(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let (a, b) = (n.tensor(0)?, n.tensor(1)?);
    Ok(vec![n.emit("matmul", &[GraphOperand::Tensor(a), GraphOperand::Tensor(b)], Json::Null)?])
}

fn transposed(n: &mut Node<'_, '_>, k: usize, turn: bool, name: &str) -> Result<TensorId> {
    let x = n.tensor(k)?;
    if turn {
        n.part(name, "transpose", &[GraphOperand::Tensor(x)], json!({"dim0": 0, "dim1": 1}))
    } else {
        Ok(x)
    }
}

/// `alpha * A' * B' + beta * C`: a linear layer where it is written as one.
fn gemm(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 3)?;
    let (alpha, beta) = (n.float("alpha", 1.0)?, n.float("beta", 1.0)?);
    let (turn_a, turn_b) = (n.flag("transA", false)?, n.flag("transB", false)?);
    for k in [0, 1] {
        if n.size(k)?.len() != 2 {
            return Err(n.bad_operand(k, format!("{:?} is no matrix", n.size(k)?)));
        }
    }
    let columns = n.size(1)?[usize::from(!turn_b)];
    let added = n.has(2) && beta != 0.0;
    let a = GraphOperand::Tensor(transposed(n, 0, turn_a, "left")?);
    let is_bias = !added || (n.size(2)? == [columns] && beta == 1.0);
    if turn_b && alpha == 1.0 && is_bias {
        let mut operands = vec![a, GraphOperand::Tensor(n.tensor(1)?)];
        if added {
            operands.push(GraphOperand::Tensor(n.tensor(2)?));
        }
        return Ok(vec![n.emit("linear", &operands, Json::Null)?]);
    }
    let b = GraphOperand::Tensor(transposed(n, 1, turn_b, "right")?);
    if added {
        let c = GraphOperand::Tensor(n.tensor(2)?);
        let attributes = json!({"alpha": alpha, "beta": beta});
        return Ok(vec![n.emit("addmm", &[c, a, b], attributes)?]);
    }
    if alpha == 1.0 {
        return Ok(vec![n.emit("mm", &[a, b], Json::Null)?]);
    }
    let product = n.part("product", "mm", &[a, b], Json::Null)?;
    Ok(vec![n.emit(
        "mul",
        &[GraphOperand::Tensor(product), GraphOperand::Number(alpha)],
        Json::Null,
    )?])
}
