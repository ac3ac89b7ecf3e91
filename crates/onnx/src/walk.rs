//! Traverses the nodes of a model: the value of every name, and the graph under construction.

use crate::carried::carrier_dtype;
use crate::error::{OnnxError, Result, quote_start};
use crate::import::ImportedWeight;
use crate::literal::TensorLiteral;
use crate::names::GraphNames;
use crate::node::NodeLowering;
use crate::ops;
use crate::proto::{self, AttributeValue, DeclaredDim, ValueInfo};
use crate::scope::NameScope;
use crate::tensor::{WeightData, dtype_of_code};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{
    Graph, GraphBuilder, GraphOperand, GraphSource, InputRole, OpCall, TensorId, TensorOrigin,
};

/// The largest number of elements that may be computed while importing; a shape has a few.
// 16 million elements are 128 MB. A loop of a few nodes could otherwise compute constants until
// memory ends.
pub(crate) const MOST_KNOWN: usize = 1 << 24;

/// The largest number of nodes, with those of loops and functions counted each time.
// Loops are unrolled and functions inlined, so a file of a few kilobytes can stand for any number
// of nodes.
pub(crate) const MOST_NODES: usize = 1 << 20;

/// The largest depth of nested graphs and function calls.
// The importer recurses here, and nothing in the format forbids that a function calls itself.
const MAX_SCOPE_DEPTH: usize = 24;

/// The value of a name of the model.
#[derive(Debug, Clone)]
pub(crate) enum ModelValue {
    /// Known elements.
    Known(Rc<TensorLiteral>),
    /// An initializer that no operation has used yet.
    Initializer(usize),
    /// A tensor of the graph.
    Tensor(TensorId),
}

/// A graph that is being imported.
pub(crate) struct GraphImport<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) proto: &'a proto::ModelProto<'a>,
    pub(crate) builder: GraphBuilder,
    pub(crate) names: GraphNames<'a>,
    /// The scopes from the model down to the current node.
    pub(crate) scopes: Vec<NameScope<'a>>,
    /// The initializers of all graphs that were entered.
    pub(crate) initializers: Vec<&'a proto::TensorProto<'a>>,
    pub(crate) weights: Vec<ImportedWeight>,
    /// The tensors of initializers that an operation needed.
    pub(crate) weights_of: HashMap<usize, TensorId>,
    /// The operations that patterns consist of, by their results.
    pub(crate) made: HashMap<TensorId, (String, Vec<GraphOperand>)>,
    /// The elements of initializers that were read.
    pub(crate) literals: HashMap<usize, Option<Rc<TensorLiteral>>>,
    /// The inputs of the model, by their tensors.
    pub(crate) inputs: HashMap<TensorId, &'a str>,
    /// The dtypes of tensors that are stored in a wider dtype.
    pub(crate) carried: HashMap<TensorId, Dtype>,
    /// The remaining budget of known elements.
    pub(crate) left: usize,
    /// The remaining budget of nodes.
    pub(crate) nodes_left: usize,
}

impl<'a> GraphImport<'a> {
    /// Defines the initializers of a graph.
    pub(crate) fn define_initializers(&mut self, graph: &'a proto::GraphProto<'a>) -> Result<()> {
        for t in &graph.initializers {
            let k = self.initializers.len();
            self.initializers.push(t);
            self.define_value(t.name, ModelValue::Initializer(k))
                .map_err(|e| OnnxError { at: Some(t.at), ..e })?;
        }
        Ok(())
    }

    /// Lowers nodes in their order.
    pub(crate) fn lower_nodes(&mut self, nodes: &'a [proto::NodeProto<'a>]) -> Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            self.nodes_left = self.nodes_left.checked_sub(1).ok_or_else(|| {
                let message = format!("more than {MOST_NODES} nodes, with loops unrolled");
                OnnxError::new("too_large", message)
            })?;
            let mut node = NodeLowering::new(self, node, index);
            let made = ops::lower_node(&mut node)?;
            node.define_results(&made)?;
        }
        Ok(())
    }

    /// Lowers a graph inside of the current one and returns the values of its outputs. It sees the
    /// names around it.
    pub(crate) fn lower_inner_graph(
        &mut self,
        graph: &'a proto::GraphProto<'a>,
        given: &[ModelValue],
    ) -> Result<Vec<ModelValue>> {
        if graph.sparse > 0 {
            return Err(OnnxError::new(
                "bad_tensor",
                "it has sparse initializers; store them as dense ones",
            ));
        }
        // The specification lets a subgraph read every name of the graphs around it, and a function
        // none.
        let scope = NameScope { open: true, ..NameScope::new(self.current_opset()) };
        let inputs: Vec<&'a str> = graph.inputs.iter().map(|i| i.name).collect();
        let outputs: Vec<&'a str> = graph.outputs.iter().map(|o| o.name).collect();
        self.lower_in_scope(scope, &inputs, given, &outputs, |import| {
            import.define_initializers(graph)?;
            import.lower_nodes(&graph.nodes)
        })
    }

    /// Lowers the nodes of a function and returns the values of its outputs.
    pub(crate) fn lower_function_call(
        &mut self,
        function: &'a proto::FunctionProto<'a>,
        attributes: Vec<(&'a str, &'a AttributeValue<'a>)>,
        given: &[ModelValue],
    ) -> Result<Vec<ModelValue>> {
        let opset =
            // A function brings its own opset imports, so the same node can mean different things
            // inside and outside of it.
            crate::scope::onnx_opset(&function.opsets).unwrap_or_else(|| self.current_opset());
        let scope = NameScope { attributes, ..NameScope::new(opset) };
        // Trailing inputs of a function are optional; a name that is not given is missing inside
        // too.
        let inputs: Vec<&'a str> = function.inputs.iter().take(given.len()).copied().collect();
        self.lower_in_scope(scope, &inputs, given, &function.outputs, |import| {
            import.lower_nodes(&function.nodes)
        })
    }

    fn lower_in_scope(
        &mut self,
        scope: NameScope<'a>,
        inputs: &[&'a str],
        given: &[ModelValue],
        outputs: &[&'a str],
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<ModelValue>> {
        if self.scopes.len() >= MAX_SCOPE_DEPTH {
            let message =
                format!("more than {MAX_SCOPE_DEPTH} graphs and functions inside of each other");
            return Err(OnnxError::new("too_large", message));
        }
        if inputs.len() != given.len() {
            let message = format!("{} inputs, and {} are given", inputs.len(), given.len());
            return Err(OnnxError::new("bad_operand", message));
        }
        self.scopes.push(scope);
        let made = inputs
            .iter()
            .zip(given)
            .try_for_each(|(name, value)| self.define_value(name, value.clone()))
            .and_then(|()| work(self))
            .and_then(|()| {
                let value = |name: &&str| {
                    self.find_value(name).cloned().ok_or_else(|| {
                        let message = format!("output `{}`: no node makes it", quote_start(name));
                        OnnxError::new("bad_output", message)
                    })
                };
                outputs.iter().map(value).collect()
            });
        // Popped on errors too, so that code that reports the error resolves names in the scope of
        // the calling node.
        self.scopes.pop();
        made
    }

    fn current_scope(&mut self) -> &mut NameScope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// The opset of the current scope.
    pub(crate) fn current_opset(&self) -> i64 {
        self.scopes.last().map_or(0, |s| s.opset)
    }

    /// An attribute of the function call that is being lowered.
    pub(crate) fn call_attribute(&self, name: &str) -> Option<&'a AttributeValue<'a>> {
        for scope in self.scopes.iter().rev() {
            if let Some((_, given)) = scope.attributes.iter().find(|(n, _)| *n == name) {
                return Some(given);
            }
            if !scope.open {
                return None;
            }
        }
        None
    }

    /// The name that a value of the model has in the graph: the same every time.
    pub(crate) fn graph_name(&mut self, name: &'a str) -> String {
        // Names of the model itself stay the same in every attempt; those inside of loops are
        // numbered per iteration.
        if self.scopes.len() == 1 {
            return self.names.name_for(name);
        }
        if let Some(known) = self.current_scope().names.get(name) {
            return known.clone();
        }
        let made = self.names.unused_name(&crate::names::sanitize_name(name));
        self.current_scope().names.insert(name, made.clone());
        made
    }

    /// Defines the value of a name.
    pub(crate) fn define_value(&mut self, name: &'a str, value: ModelValue) -> Result<()> {
        if let ModelValue::Known(literal) = &value {
            // Every definition is charged, because it may keep its elements alive until its scope
            // ends.
            self.left = self.left.checked_sub(literal.len()).ok_or_else(|| {
                let message =
                    format!("more than {MOST_KNOWN} elements are computed from constants");
                OnnxError::new("too_large", message)
            })?;
        }
        // ONNX graphs are in SSA form: each name is defined once per graph. A second definition
        // would change what earlier nodes meant.
        if self.current_scope().values.insert(name, value).is_some() {
            let message = format!("the name `{}` is given twice", quote_start(name));
            return Err(OnnxError::new("duplicate_name", message));
        }
        Ok(())
    }

    /// The scope that defines a name, and its value there.
    fn find_in_scopes(&self, name: &str) -> Option<(usize, &ModelValue)> {
        for (k, scope) in self.scopes.iter().enumerate().rev() {
            if let Some(value) = scope.values.get(name) {
                return Some((k, value));
            }
            if !scope.open {
                return None;
            }
        }
        None
    }

    /// The value of a name.
    pub(crate) fn find_value(&self, name: &str) -> Option<&ModelValue> {
        self.find_in_scopes(name).map(|(_, value)| value)
    }

    /// The known elements of a value, which was computed or is a small initializer.
    pub(crate) fn known_elements(
        &mut self,
        value: &ModelValue,
    ) -> Result<Option<Rc<TensorLiteral>>> {
        Ok(match value {
            ModelValue::Known(literal) => Some(literal.clone()),
            ModelValue::Initializer(k) => match self.literals.get(k) {
                Some(known) => known.clone(),
                // An initializer is decoded at its first use, since most of them are weights whose
                // numbers no rule needs.
                None => {
                    let read = self.initializers[*k].read_literal(self.file)?.map(Rc::new);
                    self.literals.insert(*k, read.clone());
                    read
                }
            },
            ModelValue::Tensor(_) => None,
        })
    }

    /// The known elements of a name.
    pub(crate) fn find_literal(&mut self, name: &'a str) -> Result<Option<Rc<TensorLiteral>>> {
        match self.find_value(name).cloned() {
            Some(value) => self.known_elements(&value),
            None => Ok(None),
        }
    }

    /// Size and dtype of a value.
    pub(crate) fn value_meta(&self, value: &ModelValue) -> Result<(Vec<i64>, Dtype)> {
        Ok(match value {
            ModelValue::Known(l) => (l.shape.clone(), l.dtype),
            ModelValue::Initializer(k) => {
                let t = self.initializers[*k];
                t.element_count()?;
                (t.dims.clone(), t.element_dtype()?)
            }
            ModelValue::Tensor(id) => {
                (self.builder.tensor(*id).size.clone(), self.tensor_dtype(*id))
            }
        })
    }

    /// The dtype that a tensor of the graph has in the model.
    pub(crate) fn tensor_dtype(&self, id: TensorId) -> Dtype {
        self.carried.get(&id).copied().unwrap_or(self.builder.tensor(id).dtype)
    }

    /// Records the dtype of the model that a tensor stores.
    pub(crate) fn set_carried_dtype(&mut self, id: TensorId, dtype: Dtype) {
        // Only types that differ from their carrier are listed, so that the table stays empty for
        // most models.
        if carrier_dtype(dtype) != dtype {
            self.carried.insert(id, dtype);
        }
    }

    /// Size and dtype of a name.
    pub(crate) fn find_meta(&self, name: &str) -> Result<Option<(Vec<i64>, Dtype)>> {
        self.find_value(name).map(|v| self.value_meta(v)).transpose()
    }

    /// The tensor of a name. An initializer becomes a weight; known elements become a weight too,
    /// unless they are all equal.
    pub(crate) fn find_tensor(&mut self, name: &'a str) -> Result<Option<TensorId>> {
        let Some((at, value)) = self.find_in_scopes(name).map(|(k, v)| (k, v.clone())) else {
            return Ok(None);
        };
        // The tensor belongs to the scope of the definition: an outer constant that a loop uses
        // becomes one weight and not one per iteration.
        if let Some(id) = self.scopes[at].tensors.get(name) {
            return Ok(Some(*id));
        }
        let id = match value {
            ModelValue::Tensor(id) => return Ok(Some(id)),
            ModelValue::Initializer(k) => return self.initializer_weight(k).map(Some),
            ModelValue::Known(literal) => {
                let name = self.graph_name(name);
                let name = if self.builder.tensor_id(&name).is_some() {
                    self.names.unused_name(&name)
                } else {
                    name
                };
                self.materialize_literal(&literal, name)?
            }
        };
        self.scopes[at].tensors.insert(name, id);
        Ok(Some(id))
    }

    /// The weight of an initializer, made once for all its names.
    pub(crate) fn initializer_weight(&mut self, k: usize) -> Result<TensorId> {
        if let Some(id) = self.weights_of.get(&k) {
            return Ok(*id);
        }
        let t = self.initializers[k];
        t.element_count()?;
        let (size, dtype, stored, data) =
            (t.dims.clone(), t.element_dtype()?, t.stored_dtype()?, t.locate_data()?);
        // Initializers of the model keep their names; those of an inner graph may repeat them.
        let name = if k < self.proto.graph.initializers.len() {
            self.names.name_for(t.name)
        } else {
            self.names.unused_name(&crate::names::sanitize_name(t.name))
        };
        let id = self.add_weight(name, size, dtype, stored, data)?;
        self.weights_of.insert(k, id);
        Ok(id)
    }

    /// The inputs of the model that a value depends on.
    pub(crate) fn root_inputs(&self, value: &ModelValue) -> Vec<String> {
        let ModelValue::Tensor(id) = value else { return Vec::new() };
        // A search and no recursion: a chain of views and nodes can be a million long.
        let (mut open, mut seen, mut found) = (vec![*id], HashSet::new(), BTreeSet::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.builder.tensor(id).def {
                TensorOrigin::Input(_) => {
                    found.extend(self.inputs.get(&id).map(|n| (*n).to_string()));
                }
                TensorOrigin::Constant(_) => {}
                TensorOrigin::Result(node, _) => {
                    open.extend(self.builder.node_operands(*node).iter().copied());
                }
                TensorOrigin::View { base, .. } => open.push(*base),
            }
        }
        found.into_iter().collect()
    }

    pub(crate) fn add_weight(
        &mut self,
        name: String,
        size: Vec<i64>,
        dtype: Dtype,
        stored: Dtype,
        data: WeightData,
    ) -> Result<TensorId> {
        let id = self
            .builder
            .add_input(&name, &size, carrier_dtype(dtype), InputRole::Weight)
            .map_err(|e| {
                OnnxError::new(
                    "bad_tensor",
                    format!("tensor `{}`: {}", quote_start(&name), e.message),
                )
            })?;
        self.set_carried_dtype(id, dtype);
        let dtype = carrier_dtype(dtype);
        self.weights.push(ImportedWeight { name, size, dtype, stored, data });
        Ok(id)
    }

    /// Adds a tensor with the elements of a literal to the graph.
    pub(crate) fn materialize_literal(
        &mut self,
        literal: &TensorLiteral,
        name: String,
    ) -> Result<TensorId> {
        let bad = |message: String| OnnxError::new("bad_tensor", format!("`{name}`: {message}"));
        // The card's integers have 32 bits. A constant beyond would be wrapped without a word when
        // it is loaded.
        let held = |x: &i64| i32::try_from(*x).is_ok();
        if let Some(x) = literal.whole_numbers().and_then(|v| v.iter().find(|x| !held(x))) {
            return Err(bad(format!("{x} does not fit into the 32 bits of the card's integers")));
        }
        match literal.uniform_number() {
            // One number is an operation without data, which saves a weight. NaN has no form in
            // JSON, and float64 constants are rounded when they are stored.
            Some(x) if !x.is_nan() && literal.dtype != Dtype::Float64 => {
                let full = OpCall::new("full")
                    .with("size", literal.shape.as_slice())
                    .with_number("value", x)
                    .with("dtype", carrier_dtype(literal.dtype).name());
                let made = self.builder.add_call(&full, &[], &[&name]);
                let id = made.map(|ids| ids[0]).map_err(|e| bad(e.message))?;
                self.set_carried_dtype(id, literal.dtype);
                Ok(id)
            }
            _ => {
                let bytes = literal.encode_elements();
                let bytes = bytes.ok_or_else(|| bad(format!("no bytes of {}", literal.dtype)))?;
                let (dtype, stored) = (literal.dtype, carrier_dtype(literal.dtype));
                self.add_weight(
                    name,
                    literal.shape.clone(),
                    dtype,
                    stored,
                    WeightData::Owned(bytes),
                )
            }
        }
    }

    pub(crate) fn finish_graph(
        mut self,
        outputs: &[ValueInfo<'a>],
    ) -> Result<(Graph, Vec<ImportedWeight>)> {
        let (mut ids, mut given) = (Vec::new(), HashSet::new());
        for output in outputs {
            let bad = |message: String| {
                OnnxError::new(
                    "bad_output",
                    format!("output `{}`: {message}", quote_start(output.name)),
                )
            };
            let wanted = self.graph_name(output.name);
            let Some(mut id) = self.find_tensor(output.name)? else {
                return Err(bad("no node makes it".into()));
            };
            // A graph's output is a tensor of the right name. A copy is needed where a node passed
            // an operand through under another name, or where two outputs are one tensor.
            if self.builder.tensor(id).name != wanted || given.contains(&id) {
                let name = if self.builder.tensor_id(&wanted).is_some() {
                    self.names.unused_name(&wanted)
                } else {
                    wanted
                };
                let operands = [GraphOperand::Tensor(id)];
                let made = self.builder.add_call(&OpCall::new("identity"), &operands, &[&name]);
                let copy = made.map_err(|e| bad(e.message))?[0];
                self.set_carried_dtype(copy, self.tensor_dtype(id));
                id = copy;
            }
            let t = self.builder.tensor(id);
            // The declared shape is compared, because a wrong rule would show here first and would
            // otherwise be a wrong result.
            if let Some(dims) = &output.dims {
                let fits = |(d, n): (&DeclaredDim<'_>, &i64)| !matches!(d, DeclaredDim::Fixed(m) if m != n);
                if dims.len() != t.size.len() || !dims.iter().zip(&t.size).all(fits) {
                    let said: Vec<String> = dims
                        .iter()
                        .map(|d| match d {
                            DeclaredDim::Fixed(n) => n.to_string(),
                            DeclaredDim::Symbol(s) => quote_start(s),
                            DeclaredDim::Unknown => "?".into(),
                        })
                        .collect();
                    let said = said.join(", ");
                    return Err(bad(format!(
                        "its nodes make {:?}, and the file declares [{said}]",
                        t.size
                    )));
                }
            }
            let made = self.tensor_dtype(id);
            if output.dtype != 0 && dtype_of_code(output.dtype).is_ok_and(|d| d != made) {
                let said = dtype_of_code(output.dtype).map_err(bad)?;
                return Err(bad(format!("its nodes make {made}, and the file declares {said}")));
            }
            given.insert(id);
            ids.push(id);
        }
        // The graph is built anew with all inputs first, as its text has them, because weights were
        // added between the operations.
        let graph = self.builder.finish_graph(&ids).and_then(|g| {
            let mut source = g.to_source();
            let needed = prune_unused(&mut source);
            self.weights.retain(|w| needed.contains(&w.name));
            source.bind_symbols(&BTreeMap::new())
        });
        let graph = graph.map_err(|e| OnnxError::new("bad_graph", e.message))?;
        Ok((graph, self.weights))
    }
}

/// Removes operations and weights that no output needs, and returns the names that remain.
fn prune_unused(source: &mut GraphSource) -> HashSet<String> {
    let mut needed: HashSet<String> = source.outputs.iter().map(|o| o.name.clone()).collect();
    let mut kept = Vec::new();
    // Backwards, since a node is needed exactly when something after it needs one of its results.
    for op in std::mem::take(&mut source.ops).into_iter().rev() {
        if op.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(op.inputs.iter().filter_map(|i| i.as_str()).map(str::to_string));
            kept.push(op);
        }
    }
    kept.reverse();
    source.ops = kept;
    // Inputs of the model stay even when nothing uses them: they are its signature.
    source.inputs.retain(|i| i.role != InputRole::Weight || needed.contains(&i.name));
    needed
}
