//! What names mean, in a graph and in the graphs and functions inside of it.

use crate::proto::AttributeValue;
use crate::walk::ModelValue;
use std::collections::HashMap;
use zellige_graph::TensorId;

/// The names of one graph: of the model, of a branch, of one turn of a loop, of one call of a function.
#[derive(Debug)]
pub(crate) struct NameScope<'a> {
    pub(crate) values: HashMap<&'a str, ModelValue>,
    /// The tensors of what is known, where an operation needed one.
    pub(crate) tensors: HashMap<&'a str, TensorId>,
    /// Names in the graph that is built; those of the outermost scope are kept by `GraphNames`.
    pub(crate) names: HashMap<&'a str, String>,
    /// Whether names of the scope around it are seen: not in a function.
    pub(crate) open: bool,
    /// The attributes of a function's call.
    pub(crate) attributes: Vec<(&'a str, &'a AttributeValue<'a>)>,
    /// The version of the operations.
    pub(crate) opset: i64,
}

impl<'a> NameScope<'a> {
    /// A scope that sees nothing around it.
    pub(crate) fn new(opset: i64) -> NameScope<'a> {
        NameScope {
            values: HashMap::new(),
            tensors: HashMap::new(),
            names: HashMap::new(),
            open: false,
            attributes: Vec::new(),
            opset,
        }
    }
}

/// The version of ONNX's own operations among those that are imported.
pub(crate) fn onnx_opset(opsets: &[(&str, i64)]) -> Option<i64> {
    let ours = |d: &str| d.is_empty() || d == "ai.onnx";
    // The empty domain and `ai.onnx` are one domain, so a model may import it under both names; the
    // newer version counts.
    opsets.iter().filter(|(d, _)| ours(d)).map(|(_, v)| *v).max()
}
