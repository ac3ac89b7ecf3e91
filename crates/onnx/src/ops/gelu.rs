//! Recognizes GELU as exporters write it before opset 20: `x * (1 + erf(x / sqrt 2)) * 0.5`.
//!
//! One operation rounds once, and the card has a GELU and no `erf`.

use crate::node::NodeLowering;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use zellige_graph::{GraphOperand, TensorId};

/// The `x` of which this product is the GELU, whatever the order of its three factors.
pub(super) fn match_written_gelu(
    n: &NodeLowering<'_, '_>,
    operands: &[GraphOperand; 2],
) -> Option<TensorId> {
    let apart = |k: usize| {
        let (op, inner) = producing_operation(n, &operands[k])?;
        (op == "mul").then(|| [inner, &operands[1 - k..2 - k]].concat())
    };
    let of = |factors: Vec<GraphOperand>| {
        // Exporters multiply in either order: `(x * gate) * 0.5`, `x * (gate * 0.5)` or `(x * 0.5)
        // * gate`. Looking for the half among three factors covers all of them.
        let half = factors.iter().position(|f| *f == GraphOperand::Number(0.5))?;
        let rest: Vec<&GraphOperand> =
            factors.iter().enumerate().filter(|(k, _)| *k != half).map(|(_, f)| f).collect();
        match rest[..] {
            [a, b] => match_gelu_gate(n, a, b).or_else(|| match_gelu_gate(n, b, a)),
            _ => None,
        }
    };
    [0, 1].into_iter().find_map(|k| apart(k).and_then(of))
}

fn producing_operation<'n>(
    n: &'n NodeLowering<'_, '_>,
    of: &GraphOperand,
) -> Option<(&'n str, &'n [GraphOperand])> {
    let GraphOperand::Tensor(id) = of else { return None };
    n.import.made.get(id).map(|(op, operands)| (op.as_str(), operands.as_slice()))
}

/// Returns `x` if `gate` is `1 + erf(x / sqrt 2)`. Constants may be rounded to 16 bits.
fn match_gelu_gate(
    n: &NodeLowering<'_, '_>,
    x: &GraphOperand,
    gate: &GraphOperand,
) -> Option<TensorId> {
    let ("add", [a, b]) = producing_operation(n, gate)? else { return None };
    let one = GraphOperand::Number(1.0);
    let erf = if *b == one { a } else { Some(b).filter(|_| *a == one)? };
    let ("erf", [inner]) = producing_operation(n, erf)? else { return None };
    // In bfloat16 the constants are 0.70703125 and 1.4140625, both off by one part in nine
    // thousand.
    let close = |v: &GraphOperand, to: f64| matches!(v, GraphOperand::Number(v) if (v / to - 1.0).abs() < 1e-3);
    let scaled = match producing_operation(n, inner)? {
        ("div", [a, b]) => a == x && close(b, SQRT_2),
        ("mul", [a, b]) => {
            (a == x && close(b, FRAC_1_SQRT_2)) || (b == x && close(a, FRAC_1_SQRT_2))
        }
        _ => false,
    };
    match x {
        GraphOperand::Tensor(id) if scaled => Some(*id),
        _ => None,
    }
}
