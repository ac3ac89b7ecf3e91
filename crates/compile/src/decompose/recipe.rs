//! How an operation is taken apart: its recipe, the operation that it is given, and the parts that it makes.

use crate::error::CompileError;
use serde_json::{Map, Value};
use std::fmt;
use zellige_device::StoragePolicy;
use zellige_float::{Dtype, Format, largest_finite};
use zellige_graph::{
    Graph, GraphBuilder, GraphError, GraphNode, GraphOperand, TensorId, TensorOrigin, VIEW_OPS,
};
use zellige_op::TensorOp;
use zellige_op::is_float;

/// How an operation is taken apart: its results, made of parts.
pub(crate) type Recipe = fn(&mut Parts<'_>, &Given<'_>) -> Made;

/// Results, or why there are none.
pub(crate) type Made = Result<Vec<TensorId>, Stop>;

/// Why an operation stays whole.
#[derive(Debug)]
pub(crate) enum Stop {
    /// By the rules of this pass.
    Whole(&'static str),
    /// By those of the graph.
    Refused(GraphError),
}

impl Stop {
    pub(crate) fn into_error(self) -> CompileError {
        match self {
            Stop::Whole(reason) => CompileError::bad_problem(reason.into()),
            Stop::Refused(e) => e.into(),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Whole(reason) => f.write_str(reason),
            Stop::Refused(e) => e.fmt(f),
        }
    }
}

impl From<GraphError> for Stop {
    fn from(e: GraphError) -> Stop {
        Stop::Refused(e)
    }
}

/// The operation that is taken apart.
pub(crate) struct Given<'a> {
    graph: &'a Graph,
    node: &'a GraphNode,
    operands: Vec<GraphOperand>,
    storage: StoragePolicy,
}

impl<'a> Given<'a> {
    /// An operation of a graph, on these operands, which are stored so.
    pub(crate) fn new(
        graph: &'a Graph,
        node: &'a GraphNode,
        operands: Vec<GraphOperand>,
        storage: StoragePolicy,
    ) -> Given<'a> {
        Given { graph, node, operands, storage }
    }

    /// The lowest finite number of the format in which operand `k` is stored: every other number is
    /// above it, and what stands for minus infinity below.
    pub(crate) fn lowest(&self, k: usize) -> GraphOperand {
        GraphOperand::Number(-largest_finite(self.stored(k).unwrap_or(Format::F16)))
    }

    /// Whether operand `k` is stored in a format where a number stands for an infinity.
    pub(crate) fn stands(&self, k: usize) -> bool {
        self.stored(k) == Some(Format::DL16INF)
    }

    /// The format in which operand `k` is stored.
    fn stored(&self, k: usize) -> Option<Format> {
        let (dtype, StoragePolicy { mode, keep }) = (self.dtype(k), self.storage);
        mode.stored_format(keep.default_format(dtype).ok()?, dtype).ok()
    }

    /// Operand `k`.
    pub(crate) fn operand(&self, k: usize) -> GraphOperand {
        self.operands[k].clone()
    }

    /// How many operands there are.
    pub(crate) fn count(&self) -> usize {
        self.operands.len()
    }

    /// The extents of an operand.
    pub(crate) fn size(&self, k: usize) -> &'a [i64] {
        &self.graph.get(self.node.inputs[k]).size
    }

    /// The dtype of an operand.
    pub(crate) fn dtype(&self, k: usize) -> Dtype {
        self.graph.get(self.node.inputs[k]).dtype
    }

    /// Whether an operand has floats.
    pub(crate) fn is_float(&self, k: usize) -> bool {
        is_float(self.dtype(k))
    }

    /// The number that an operand is.
    pub(crate) fn constant(&self, k: usize) -> Option<f64> {
        match self.graph.get(self.node.inputs[k]).def {
            TensorOrigin::Constant(value) => Some(value.to_f64()),
            _ => None,
        }
    }

    /// The extents of the first result.
    pub(crate) fn result(&self) -> &'a [i64] {
        &self.graph.get(self.node.outputs[0]).size
    }

    /// An attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a Value> {
        self.node.attributes.get(name).filter(|v| !v.is_null())
    }

    /// A finite number among the attributes.
    pub(crate) fn number(&self, name: &str, default: f64) -> Result<f64, Stop> {
        match self.attribute(name) {
            None => Ok(default),
            Some(v) => v.as_f64().ok_or(Stop::Whole("no constant is infinite")),
        }
    }

    /// A finite number among the attributes as an operand; a whole one is exact.
    pub(crate) fn constant_of(&self, name: &str) -> Result<GraphOperand, Stop> {
        match self.attribute(name).and_then(Value::as_i64) {
            Some(n) => Ok(GraphOperand::Whole(n)),
            None => Ok(GraphOperand::Number(self.number(name, 0.0)?)),
        }
    }

    /// A truth value among the attributes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.attribute(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A dimension among the attributes, counted from the front.
    pub(crate) fn dim(&self, name: &str, default: i64, rank: usize) -> Result<usize, Stop> {
        let d = self.attribute(name).map_or(Some(default), Value::as_i64);
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        let front = d.map(|d| if d < 0 { d + rank } else { d }).filter(|d| (0..rank).contains(d));
        front.and_then(|d| usize::try_from(d).ok()).ok_or(Stop::Whole("it has no such dimension"))
    }

    /// Stays whole where integers are met.
    pub(crate) fn floats_only(&self) -> Result<(), Stop> {
        let floats = (0..self.count()).all(|k| self.is_float(k));
        if floats { Ok(()) } else { Err(Stop::Whole("integers are not taken apart")) }
    }
}

/// Parts that are added to a graph.
pub(crate) struct Parts<'b> {
    builder: &'b mut GraphBuilder,
    graph: &'b Graph,
    node: &'b GraphNode,
    made: Vec<&'static str>,
}

impl<'b> Parts<'b> {
    /// No parts yet.
    pub(crate) fn new(
        builder: &'b mut GraphBuilder,
        graph: &'b Graph,
        node: &'b GraphNode,
    ) -> Parts<'b> {
        Parts { builder, graph, node, made: Vec::new() }
    }

    /// The names of all operations and views that were added.
    pub(crate) fn done(self) -> Vec<&'static str> {
        self.made
    }

    /// A part on the way, named `<result>.<part>`.
    pub(crate) fn part(
        &mut self,
        part: &str,
        op: &str,
        operands: &[GraphOperand],
        attributes: Value,
    ) -> Result<GraphOperand, Stop> {
        let base = format!("{}.{part}", self.graph.get(self.node.outputs[0]).name);
        let free =
            |n: &String| self.graph.tensor_id(n).is_none() && self.builder.tensor_id(n).is_none();
        let name = std::iter::once(base.clone())
            .chain((2..).map(|k| format!("{base}{k}")))
            .find(free)
            .expect("some name is free");
        Ok(GraphOperand::Tensor(self.add(op, operands, attributes, &[&name])?[0]))
    }

    /// The part that gives result `k`, under its name. A pin or a place does not hold for a view: then a copy has it.
    pub(crate) fn last(
        &mut self,
        k: usize,
        op: &str,
        operands: &[GraphOperand],
        attributes: Value,
    ) -> Result<TensorId, Stop> {
        let t = self.graph.get(self.node.outputs[k]);
        let is_view = VIEW_OPS.iter().any(|(name, _)| *name == op);
        if is_view && (t.pin.is_some() || t.place.is_some()) {
            let seen = self.part("seen", op, operands, attributes)?;
            return Ok(self.add("clone", &[seen], Value::Null, &[&t.name])?[0]);
        }
        Ok(self.add(op, operands, attributes, &[&t.name])?[0])
    }

    /// A part with several results, all on the way.
    pub(crate) fn several(
        &mut self,
        names: &[&str],
        op: &str,
        operands: &[GraphOperand],
        attributes: Value,
    ) -> Result<Vec<GraphOperand>, Stop> {
        let result = &self.graph.get(self.node.outputs[0]).name;
        let names: Vec<String> = names.iter().map(|n| format!("{result}.{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self
            .add(op, operands, attributes, &names)?
            .into_iter()
            .map(GraphOperand::Tensor)
            .collect())
    }

    fn add(
        &mut self,
        op: &str,
        operands: &[GraphOperand],
        attributes: Value,
        names: &[&str],
    ) -> Result<Vec<TensorId>, Stop> {
        let attributes = match attributes {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let made = self.builder.add_op(op, operands, &attributes, names)?;
        if let Some(at) = &self.node.at {
            self.builder.set_source_location(made[0], at.clone());
        }
        let known = TensorOp::all_rows().map(|e| e.name).chain(VIEW_OPS.iter().map(|(n, _)| *n));
        self.made.extend(known.into_iter().find(|n| *n == op));
        Ok(made)
    }
}
