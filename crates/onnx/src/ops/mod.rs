//! The rules that lower the operations of ONNX. Each family has a file with its table.

mod attention;
mod constant;
mod control;
mod einsum;
mod gelu;
mod index;
mod loss;
mod matmul;
mod norm;
mod pointwise;
mod quantize;
mod rearrange;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shape;
mod transposed;
mod unfold;
mod window;

use crate::error::{Result, quote_start};
use crate::node::NodeLowering;
use crate::walk::ModelValue;

pub(crate) use rearrange::take_along_dim;

/// Lowers a node and returns its results.
type LoweringRule = fn(&mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>>;
/// The operations of a family with their rules.
type RuleTable = &'static [(&'static str, LoweringRule)];

const TABLES: &[RuleTable] = &[
    pointwise::TABLE,
    matmul::TABLE,
    einsum::TABLE,
    attention::TABLE,
    loss::TABLE,
    sequence::TABLE,
    recurrent::TABLE,
    resize::TABLE,
    reduce::TABLE,
    norm::TABLE,
    window::TABLE,
    transposed::TABLE,
    quantize::TABLE,
    shape::TABLE,
    rearrange::TABLE,
    index::TABLE,
    constant::TABLE,
    control::TABLE,
];

/// The names of the operations of ONNX that are supported.
pub fn supported_operations() -> Vec<&'static str> {
    let tables = TABLES.iter().flat_map(|t| t.iter().map(|(name, _)| *name));
    let mut all: Vec<&str> = tables.chain(pointwise::plain_operations()).collect();
    all.sort_unstable();
    all
}

/// Lowers a node and returns its results.
pub(crate) fn lower_node(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let op = n.op();
    // First, because a file may bring its own definition of a node, under a domain that no one else
    // knows.
    if let Some(function) = n.called_function() {
        return control::lower_call(n, function);
    }
    if !matches!(n.domain(), "" | "ai.onnx") {
        let message = format!(
            "it is of the domain `{}`; accepted: operations of ai.onnx and functions of the file; export \
             without fused or custom operations",
            quote_start(n.domain())
        );
        return Err(n.refuse_node("no_such_op", message));
    }
    // The names in the table of operations need no rule here, which keeps one list of them.
    if let Some(made) = pointwise::lower_plain(n)? {
        return Ok(made);
    }
    let rule = TABLES.iter().flat_map(|t| t.iter()).find(|(name, _)| *name == op);
    match rule {
        Some((_, rule)) => rule(n),
        None => Err(n.refuse_node("no_such_op", refusal_reason(op))),
    }
}

fn refusal_reason(op: &str) -> String {
    let why = match op {
        "NonZero" | "Compress" | "Unique" | "NonMaxSuppression" => {
            "the size of its result depends on data; sizes are known before a run here"
        }
        _ => {
            let shared = |name: &str| {
                name.chars().zip(op.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
            };
            // Names of ONNX share prefixes (`Reduce..`, `Conv..`), so a common beginning finds
            // relatives that an edit distance would miss.
            let near = supported_operations().into_iter().filter(|name| shared(name) >= 4);
            return match near.max_by_key(|name| shared(name)) {
                Some(name) => format!(
                    "no operation of the card does this; did you mean {name}? docs/compiler.md lists \
                     those that are read"
                ),
                None => {
                    "no operation of the card does this; docs/compiler.md lists those that are read"
                        .into()
                }
            };
        }
    };
    format!("no operation of the card does this: {why}")
}
