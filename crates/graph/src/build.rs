//! Building a graph: every operation is checked when it is added.

use crate::error::{GraphError, Result};
use crate::graph::{
    Graph, GraphNode, GraphTensor, InputRole, NodeId, RequestedMemory, SliceHints, TensorId,
    TensorOrigin,
};
use crate::op_call::OpCall;
use crate::view;
use serde_json::{Map, Value};
use std::collections::HashMap;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::{HostScalar, TensorOp, TensorType};
use zellige_stick::LayoutRequest;

/// An operand as it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphOperand {
    /// A tensor.
    Tensor(TensorId),
    /// A number.
    Number(f64),
    /// A whole number, which float64 may not hold.
    Whole(i64),
}

/// A graph that grows.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    name: String,
    tensors: Vec<GraphTensor>,
    nodes: Vec<GraphNode>,
    inputs: Vec<TensorId>,
    by_name: HashMap<String, TensorId>,
    constants: HashMap<(HostScalar, Dtype), TensorId>,
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> GraphBuilder {
        GraphBuilder { name: name.into(), ..GraphBuilder::default() }
    }

    fn push_tensor(&mut self, tensor: GraphTensor) -> Result<TensorId> {
        zellige_guard::count_step();
        let id = TensorId(self.tensors.len());
        if self.by_name.insert(tensor.name.clone(), id).is_some() {
            let message = format!("the name `{}` is already taken", tensor.name);
            return Err(GraphError::new("duplicate_name", message));
        }
        self.tensors.push(tensor);
        Ok(id)
    }

    /// The number of a name.
    pub fn tensor_id(&self, name: &str) -> Option<TensorId> {
        self.by_name.get(name).copied()
    }

    /// A tensor so far.
    pub fn tensor(&self, id: TensorId) -> &GraphTensor {
        &self.tensors[id.0]
    }

    /// The operands of an operation so far.
    pub fn node_operands(&self, id: NodeId) -> &[TensorId] {
        &self.nodes[id.0].inputs
    }

    /// A tensor from outside.
    pub fn add_input(
        &mut self,
        name: &str,
        size: &[i64],
        dtype: Dtype,
        role: InputRole,
    ) -> Result<TensorId> {
        // The three checks refuse what the device could not store, at the line that writes it, and not where some
        // operation first reads it.
        StridedLayout::new_contiguous(size)?;
        zellige_op::check_host_dtype(dtype)?;
        zellige_stick::DataFormat::device_format_of(dtype)?;
        let (name, size) = (name.to_string(), size.to_vec());
        let id = self.push_tensor(GraphTensor {
            name,
            size,
            dtype,
            def: TensorOrigin::Input(role),
            pin: None,
            place: None,
        })?;
        self.inputs.push(id);
        Ok(id)
    }

    /// A number as a tensor of one element; equal ones are one. Its name is no name that a text can
    /// give, so that it is never taken.
    pub fn add_constant(&mut self, value: impl Into<HostScalar>, dtype: Dtype) -> Result<TensorId> {
        let value = match value.into().to_exact_float() {
            // All NaNs are one constant: their bits differ, and a map would otherwise never find the one that is
            // there.
            HostScalar::Float(x) if x.is_nan() => HostScalar::Float(f64::NAN),
            other => other,
        };
        let key = (value, dtype);
        if let Some(id) = self.constants.get(&key) {
            return Ok(*id);
        }
        // Parentheses are in no name of a text, so that this one never collides with a name that somebody chose.
        let name = format!("{dtype}({value})");
        let def = TensorOrigin::from_constant(value);
        let id = self.push_tensor(GraphTensor {
            name,
            size: vec![],
            dtype,
            def,
            pin: None,
            place: None,
        })?;
        self.constants.insert(key, id);
        Ok(id)
    }

    /// Adds an operation or a view and names its results.
    ///
    /// # Errors
    /// Unknown operations, operands that do not fit, attributes of the wrong kind, the wrong number
    /// of results. The operation is named by its first result.
    pub fn add_op(
        &mut self,
        op: &str,
        operands: &[GraphOperand],
        attributes: &Map<String, Value>,
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        let what = format!("{} = {op}", results.first().copied().unwrap_or("_"));
        self.add_checked_op(op, operands, attributes, results).map_err(|e| e.with_op(what))
    }

    /// Adds an operation or a view that code makes, and names its results.
    ///
    /// # Errors
    /// As [`GraphBuilder::add_op`].
    pub fn add_call(
        &mut self,
        call: &OpCall,
        operands: &[GraphOperand],
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        self.add_op(call.name(), operands, call.attributes(), results)
    }

    fn add_checked_op(
        &mut self,
        op: &str,
        operands: &[GraphOperand],
        attributes: &Map<String, Value>,
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        if view::is_view(op) {
            return self.add_view(op, operands, attributes, results).map(|id| vec![id]);
        }
        let attributes = attributes.clone();
        let kernel = TensorOp::new(op, &Value::Object(attributes.clone()))?;
        // A number takes the dtype of its category, which never widens the tensors beside it.
        let tensors = operands.iter().filter_map(|o| match o {
            GraphOperand::Tensor(t) => Some(self.tensors[t.0].dtype),
            GraphOperand::Number(_) | GraphOperand::Whole(_) => None,
        });
        // As in PyTorch: a number beside a float tensor has its dtype, and beside integers it is an integer if it is
        // whole.
        let float = tensors.clone().find(|d| zellige_op::is_float(*d));
        let mut inputs = Vec::with_capacity(operands.len());
        for operand in operands {
            inputs.push(match operand {
                GraphOperand::Tensor(t) => *t,
                GraphOperand::Number(v) => {
                    let whole = v.fract() == 0.0 && float.is_none();
                    let dtype = if whole { Dtype::Int64 } else { float.unwrap_or(Dtype::Float32) };
                    self.add_constant(*v, dtype)?
                }
                GraphOperand::Whole(n) => self.add_constant(*n, float.unwrap_or(Dtype::Int64))?,
            });
        }
        let metas: Vec<TensorType> = inputs
            .iter()
            .map(|t| &self.tensors[t.0])
            .map(|t| TensorType { size: t.size.clone(), dtype: t.dtype })
            .collect();
        let made = kernel.infer_types(&metas)?;
        // Every result needs a name even if nobody reads it, because reports and errors name tensors.
        if made.len() != results.len() {
            let message = format!("it has {} results, and {} are named", made.len(), results.len());
            return Err(GraphError::new("bad_results", message));
        }
        let node = NodeId(self.nodes.len());
        let mut outputs = Vec::with_capacity(made.len());
        for (k, (meta, name)) in made.into_iter().zip(results).enumerate() {
            let def = TensorOrigin::Result(node, k);
            let name = (*name).to_string();
            outputs.push(self.push_tensor(GraphTensor {
                name,
                size: meta.size,
                dtype: meta.dtype,
                def,
                pin: None,
                place: None,
            })?);
        }
        let outputs_of = outputs.clone();
        self.nodes.push(GraphNode {
            op: kernel,
            attributes,
            inputs,
            outputs,
            hint: SliceHints::new(),
            at: None,
        });
        Ok(outputs_of)
    }

    fn add_view(
        &mut self,
        op: &str,
        operands: &[GraphOperand],
        attributes: &Map<String, Value>,
        results: &[&str],
    ) -> Result<TensorId> {
        let ([GraphOperand::Tensor(of)], [name]) = (operands, results) else {
            let message = "a view has one tensor as operand and one result";
            return Err(GraphError::new("bad_operand", message));
        };
        let t = &self.tensors[of.0];
        let (base, map) = match &t.def {
            // A view of a view is a view of the base: passes then look through one map and never through a chain.
            TensorOrigin::View { base, map, .. } => (*base, map.clone()),
            _ => (*of, StridedLayout::new_contiguous(&t.size)?),
        };
        let dtype = t.dtype;
        let made = (op.to_string(), *of, attributes.clone());
        let elements = self.tensors[base.0].size.iter().product();
        let (base, map) = match view::apply_view(op, &map, elements, attributes)? {
            Some(seen) => (base, seen),
            None => {
                // The elements have to be in row-major order first, as in PyTorch.
                let copy = format!("{name}.copy");
                let copied = self.add_checked_op(
                    "clone",
                    &[GraphOperand::Tensor(*of)],
                    &Map::new(),
                    &[&copy],
                )?[0];
                let plain = StridedLayout::new_contiguous(&self.tensors[copied.0].size)?;
                let seen = view::apply_view(op, &plain, plain.numel(), attributes)?;
                let made = (op.to_string(), copied, attributes.clone());
                let map = seen.ok_or_else(|| GraphError::new("bad_view", "it needs a copy"))?;
                let size = map.size().to_vec();
                let def = TensorOrigin::View { base: copied, map, made };
                return self.push_tensor(GraphTensor {
                    name: (*name).into(),
                    size,
                    dtype,
                    def,
                    pin: None,
                    place: None,
                });
            }
        };
        let size = map.size().to_vec();
        let def = TensorOrigin::View { base, map, made };
        self.push_tensor(GraphTensor {
            name: (*name).to_string(),
            size,
            dtype,
            def,
            pin: None,
            place: None,
        })
    }

    /// Pins the layout of a tensor.
    ///
    /// # Errors
    /// Pins that do not fit the size, a second pin that is another one, and pins on views, which have the layout of
    /// their base.
    pub fn pin_layout(&mut self, id: TensorId, pin: LayoutRequest) -> Result<()> {
        self.tensors[id.0].set_pin(pin)
    }

    /// Places a tensor in a memory of the card.
    ///
    /// # Errors
    /// A second place that is another one, views, which are where their base is, and inputs and constants in
    /// the scratchpads, which nothing writes there.
    pub fn place_tensor(&mut self, id: TensorId, place: RequestedMemory) -> Result<()> {
        let t = &mut self.tensors[id.0];
        let name = &t.name;
        let bad = |message: &str| GraphError::new("bad_place", format!("`{name}`: {message}"));
        match (&t.def, place) {
            (TensorOrigin::View { .. }, _) => {
                return Err(bad("a view is where its base is; place that, or a clone"));
            }
            (TensorOrigin::Input(_), RequestedMemory::Lx) => {
                return Err(bad("an input is in device memory; place a clone of it in lx"));
            }
            (TensorOrigin::Constant(_), RequestedMemory::Lx) => {
                return Err(bad(
                    "a constant is in device memory; place the result of a `full` in lx",
                ));
            }
            _ => {}
        }
        if t.place.is_some_and(|p| p != place) {
            return Err(bad("it is placed twice, in lx and in memory"));
        }
        t.place = Some(place);
        Ok(())
    }

    /// Says into how many slices the programmer wants the dimensions of an operation.
    pub fn hint_splits(&mut self, result: TensorId, hint: SliceHints) -> Result<()> {
        let TensorOrigin::Result(node, _) = self.tensors[result.0].def else {
            let message = "only the result of an operation has a work division";
            return Err(GraphError::new("bad_hint", message));
        };
        if let Some((dim, n)) = hint.iter().find(|(_, n)| *n == 0) {
            return Err(GraphError::new("bad_hint", format!("{n} slices of `{dim}`; 1 or more")));
        }
        self.nodes[node.0].hint = hint;
        Ok(())
    }

    /// Says where the model's source has an operation.
    pub fn set_source_location(&mut self, result: TensorId, at: impl Into<String>) {
        if let TensorOrigin::Result(node, _) = self.tensors[result.0].def {
            self.nodes[node.0].at = Some(zellige_notation::make_visible(&at.into()).into_owned());
        }
    }

    /// The graph with these outputs.
    ///
    /// # Errors
    /// No outputs.
    pub fn finish_graph(self, outputs: &[TensorId]) -> Result<Graph> {
        if outputs.is_empty() {
            return Err(GraphError::new("no_outputs", "a graph returns at least one tensor"));
        }
        let GraphBuilder { name, tensors, nodes, inputs, .. } = self;
        Ok(Graph { name, tensors, nodes, inputs, outputs: outputs.to_vec() })
    }
}
