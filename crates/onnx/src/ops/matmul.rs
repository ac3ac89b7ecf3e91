//! Rules for products of matrices.

use super::RuleTable;
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[("MatMul", lower_matmul), ("Gemm", lower_gemm)];

fn lower_matmul(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let (a, b) = (n.operand_tensor(0)?, n.operand_tensor(1)?);
    Ok(vec![n.emit_result("matmul", &[GraphOperand::Tensor(a), GraphOperand::Tensor(b)])?])
}

fn transpose_operand(
    n: &mut NodeLowering<'_, '_>,
    k: usize,
    turn: bool,
    name: &str,
) -> Result<TensorId> {
    let x = n.operand_tensor(k)?;
    if turn {
        n.emit_part(name, OpCall::transpose(0, 1), &[GraphOperand::Tensor(x)])
    } else {
        Ok(x)
    }
}

/// `alpha * A' * B' + beta * C`, as a linear layer where it has that form.
fn lower_gemm(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 3)?;
    let (alpha, beta) = (n.float_attribute("alpha", 1.0)?, n.float_attribute("beta", 1.0)?);
    let (turn_a, turn_b) = (n.flag_attribute("transA", false)?, n.flag_attribute("transB", false)?);
    for k in [0, 1] {
        if n.operand_size(k)?.len() != 2 {
            return Err(n.refuse_operand(k, format!("{:?} is not a matrix", n.operand_size(k)?)));
        }
    }
    // With `transB` the rows of B are the columns of the product.
    let columns = n.operand_size(1)?[usize::from(!turn_b)];
    let added = n.has_operand(2) && beta != 0.0;
    let a = GraphOperand::Tensor(transpose_operand(n, 0, turn_a, "left")?);
    // C may broadcast from any shape; only one number per column is the bias of a linear layer.
    let is_bias = !added || (n.operand_size(2)? == [columns] && beta == 1.0);
    // This is how exporters write `torch.nn.Linear`: transB = 1 and a bias. One operation keeps the
    // weight as it is stored and adds the bias before rounding.
    if turn_b && alpha == 1.0 && is_bias {
        let mut operands = vec![a, GraphOperand::Tensor(n.operand_tensor(1)?)];
        if added {
            operands.push(GraphOperand::Tensor(n.operand_tensor(2)?));
        }
        return Ok(vec![n.emit_result("linear", &operands)?]);
    }
    let b = GraphOperand::Tensor(transpose_operand(n, 1, turn_b, "right")?);
    if added {
        let c = GraphOperand::Tensor(n.operand_tensor(2)?);
        let call = OpCall::new("addmm").with("alpha", alpha).with("beta", beta);
        return Ok(vec![n.emit_result(call, &[c, a, b])?]);
    }
    if alpha == 1.0 {
        return Ok(vec![n.emit_result("mm", &[a, b])?]);
    }
    let product = n.emit_part("product", "mm", &[a, b])?;
    Ok(vec![n.emit_result("mul", &[GraphOperand::Tensor(product), GraphOperand::Number(alpha)])?])
}
