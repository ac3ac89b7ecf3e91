//! Scopes of names: of a graph, and of the graphs and functions inside of it.

use crate::proto::AttributeValue;
use crate::walk::ModelValue;
use std::collections::HashMap;
use zellige_graph::TensorId;

/// The names of one graph: of the model, of a branch, of one iteration of a loop, of one call of a
/// function.
#[derive(Debug)]
pub(crate) struct NameScope<'a> {
    pub(crate) values: HashMap<&'a str, ModelValue>,
    /// The tensors of known values that an operation needed as tensors.
    pub(crate) tensors: HashMap<&'a str, TensorId>,
    /// The names in the built graph; those of the outermost scope are kept by `GraphNames`.
    pub(crate) names: HashMap<&'a str, String>,
    /// Whether names of the enclosing scope are visible, which is so except in a function.
    pub(crate) open: bool,
    /// The attributes of the function call.
    pub(crate) attributes: Vec<(&'a str, &'a AttributeValue<'a>)>,
    /// The opset.
    pub(crate) opset: i64,
}

impl<'a> NameScope<'a> {
    /// A scope that does not see the names around it.
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

/// The opset of ONNX's own domain among the imported ones.
pub(crate) fn onnx_opset(opsets: &[(&str, i64)]) -> Option<i64> {
    let ours = |d: &str| d.is_empty() || d == "ai.onnx";
    // The empty domain and `ai.onnx` are one domain, so a model may import it under both names; the
    // newer version counts.
    opsets.iter().filter(|(d, _)| ours(d)).map(|(_, v)| *v).max()
}
