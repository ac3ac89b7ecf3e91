//! What a decomposition is: its recipe, the operation that the recipe gets, and the parts that it makes.

use crate::error::CompileError;
use serde_json::Value;
use std::fmt;
use zellige_device::StoragePolicy;
use zellige_float::{Dtype, Format, largest_finite};
use zellige_graph::{
    Graph, GraphBuilder, GraphError, GraphNode, GraphOperand, OpCall, TensorId, TensorOrigin,
    VIEW_OPS,
};
use zellige_op::TensorOp;
use zellige_op::is_float;

/// The decomposition of an operation: makes its results from parts.
pub(crate) type DecompositionRecipe =
    fn(&mut PartBuilder<'_>, &RecipeInput<'_>) -> DecompositionResult;

/// Results, or why there are none.
pub(crate) type DecompositionResult = Result<Vec<TensorId>, DecompositionRefusal>;

/// Why an operation stays whole.
#[derive(Debug)]
pub(crate) enum DecompositionRefusal {
    /// A rule of this pass.
    Whole(&'static str),
    /// A rule of the graph.
    Refused(GraphError),
}

impl DecompositionRefusal {
    pub(crate) fn into_error(self) -> CompileError {
        match self {
            DecompositionRefusal::Whole(reason) => CompileError::bad_problem(reason.into()),
            DecompositionRefusal::Refused(e) => e.into(),
        }
    }
}

impl fmt::Display for DecompositionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecompositionRefusal::Whole(reason) => f.write_str(reason),
            DecompositionRefusal::Refused(e) => e.fmt(f),
        }
    }
}

impl From<GraphError> for DecompositionRefusal {
    fn from(e: GraphError) -> DecompositionRefusal {
        DecompositionRefusal::Refused(e)
    }
}

/// The operation that is decomposed.
pub(crate) struct RecipeInput<'a> {
    graph: &'a Graph,
    node: &'a GraphNode,
    operands: Vec<GraphOperand>,
    storage: StoragePolicy,
}

impl<'a> RecipeInput<'a> {
    /// An operation of a graph, on these operands, which are stored so.
    pub(crate) fn new(
        graph: &'a Graph,
        node: &'a GraphNode,
        operands: Vec<GraphOperand>,
        storage: StoragePolicy,
    ) -> RecipeInput<'a> {
        RecipeInput { graph, node, operands, storage }
    }

    /// The lowest finite number of the format in which operand `k` is stored: every other number is
    /// above it, and the encoding of minus infinity below.
    pub(crate) fn lowest_stored(&self, k: usize) -> GraphOperand {
        GraphOperand::Number(-largest_finite(self.stored_format(k).unwrap_or(Format::F16)))
    }

    /// Whether operand `k` is stored in a format that encodes infinities as numbers.
    pub(crate) fn encodes_infinity(&self, k: usize) -> bool {
        self.stored_format(k) == Some(Format::DL16INF)
    }

    /// The format in which operand `k` is stored.
    fn stored_format(&self, k: usize) -> Option<Format> {
        let (dtype, StoragePolicy { mode, keep }) = (self.operand_dtype(k), self.storage);
        mode.stored_format(keep.default_format(dtype).ok()?, dtype).ok()
    }

    /// Operand `k`.
    pub(crate) fn operand(&self, k: usize) -> GraphOperand {
        self.operands[k].clone()
    }

    /// How many operands there are.
    pub(crate) fn operand_count(&self) -> usize {
        self.operands.len()
    }

    /// The extents of an operand.
    pub(crate) fn operand_size(&self, k: usize) -> &'a [i64] {
        &self.graph.get(self.node.inputs[k]).size
    }

    /// The dtype of an operand.
    pub(crate) fn operand_dtype(&self, k: usize) -> Dtype {
        self.graph.get(self.node.inputs[k]).dtype
    }

    /// Whether an operand has floats.
    pub(crate) fn is_float(&self, k: usize) -> bool {
        is_float(self.operand_dtype(k))
    }

    /// The number that an operand is.
    pub(crate) fn constant_operand(&self, k: usize) -> Option<f64> {
        match self.graph.get(self.node.inputs[k]).def {
            TensorOrigin::Constant(value) => Some(value.to_f64()),
            _ => None,
        }
    }

    /// The extents of the first result.
    pub(crate) fn result_size(&self) -> &'a [i64] {
        &self.graph.get(self.node.outputs[0]).size
    }

    /// An attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a Value> {
        self.node.attributes.get(name).filter(|v| !v.is_null())
    }

    /// A finite number among the attributes.
    pub(crate) fn number_attribute(
        &self,
        name: &str,
        default: f64,
    ) -> Result<f64, DecompositionRefusal> {
        match self.attribute(name) {
            None => Ok(default),
            Some(v) => v.as_f64().ok_or(DecompositionRefusal::Whole("no constant is infinite")),
        }
    }

    /// A finite number among the attributes as an operand; a whole one is exact.
    pub(crate) fn attribute_operand(
        &self,
        name: &str,
    ) -> Result<GraphOperand, DecompositionRefusal> {
        match self.attribute(name).and_then(Value::as_i64) {
            Some(n) => Ok(GraphOperand::Whole(n)),
            None => Ok(GraphOperand::Number(self.number_attribute(name, 0.0)?)),
        }
    }

    /// A truth value among the attributes.
    pub(crate) fn flag_attribute(&self, name: &str) -> bool {
        self.attribute(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A dimension among the attributes, counted from the front.
    pub(crate) fn dim_attribute(
        &self,
        name: &str,
        default: i64,
        rank: usize,
    ) -> Result<usize, DecompositionRefusal> {
        let d = self.attribute(name).map_or(Some(default), Value::as_i64);
        let rank = i64::try_from(rank).unwrap_or(i64::MAX);
        let front = d.map(|d| if d < 0 { d + rank } else { d }).filter(|d| (0..rank).contains(d));
        front
            .and_then(|d| usize::try_from(d).ok())
            .ok_or(DecompositionRefusal::Whole("it has no such dimension"))
    }

    /// Stays whole where integers are met.
    pub(crate) fn require_floats(&self) -> Result<(), DecompositionRefusal> {
        let floats = (0..self.operand_count()).all(|k| self.is_float(k));
        if floats {
            Ok(())
        } else {
            Err(DecompositionRefusal::Whole("integers are not decomposed"))
        }
    }
}

/// Parts that are added to a graph.
pub(crate) struct PartBuilder<'b> {
    builder: &'b mut GraphBuilder,
    graph: &'b Graph,
    node: &'b GraphNode,
    made: Vec<&'static str>,
}

impl<'b> PartBuilder<'b> {
    /// No parts yet.
    pub(crate) fn new(
        builder: &'b mut GraphBuilder,
        graph: &'b Graph,
        node: &'b GraphNode,
    ) -> PartBuilder<'b> {
        PartBuilder { builder, graph, node, made: Vec::new() }
    }

    /// The names of all operations and views that were added.
    pub(crate) fn into_added_names(self) -> Vec<&'static str> {
        self.made
    }

    /// A part on the way, named `<result>.<part>`.
    pub(crate) fn add_part(
        &mut self,
        part: &str,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<GraphOperand, DecompositionRefusal> {
        let base = format!("{}.{part}", self.graph.get(self.node.outputs[0]).name);
        let free =
            |n: &String| self.graph.tensor_id(n).is_none() && self.builder.tensor_id(n).is_none();
        // Parts of two operations may want one name, where a graph was decomposed before: the second gets a number.
        let name = std::iter::once(base.clone())
            .chain((2..).map(|k| format!("{base}{k}")))
            .find(free)
            .expect("some name is free");
        Ok(GraphOperand::Tensor(self.add_named(&call.into(), operands, &[&name])?[0]))
    }

    /// The part that gives result `k`, under its name. A pin or a place does not hold for a view: then a copy has it.
    pub(crate) fn add_result(
        &mut self,
        k: usize,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<TensorId, DecompositionRefusal> {
        let call = call.into();
        let t = self.graph.get(self.node.outputs[k]);
        let is_view = VIEW_OPS.iter().any(|(name, _)| *name == call.name());
        // A view has the layout and the place of its base, which may have other readers.
        if is_view && (t.pin.is_some() || t.place.is_some()) {
            let seen = self.add_part("seen", call, operands)?;
            return Ok(self.add_named(&"clone".into(), &[seen], &[&t.name])?[0]);
        }
        Ok(self.add_named(&call, operands, &[&t.name])?[0])
    }

    /// A part with several results, all on the way.
    pub(crate) fn add_parts(
        &mut self,
        names: &[&str],
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<Vec<GraphOperand>, DecompositionRefusal> {
        let result = &self.graph.get(self.node.outputs[0]).name;
        let names: Vec<String> = names.iter().map(|n| format!("{result}.{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self
            .add_named(&call.into(), operands, &names)?
            .into_iter()
            .map(GraphOperand::Tensor)
            .collect())
    }

    fn add_named(
        &mut self,
        call: &OpCall,
        operands: &[GraphOperand],
        names: &[&str],
    ) -> Result<Vec<TensorId>, DecompositionRefusal> {
        let made = self.builder.add_call(call, operands, names)?;
        if let Some(at) = &self.node.at {
            self.builder.set_source_location(made[0], at.clone());
        }
        let known = TensorOp::all_rows().map(|e| e.name).chain(VIEW_OPS.iter().map(|(n, _)| *n));
        self.made.extend(known.into_iter().find(|n| *n == call.name()));
        Ok(made)
    }
}
