//! The walk over the nodes of a model: what every name stands for, and the graph as it grows.

use crate::carried::carrier;
use crate::error::{OnnxError, Result, quote};
use crate::import::Weight;
use crate::literal::{Literal, number};
use crate::names::Names;
use crate::node::Node;
use crate::ops;
use crate::proto::{self, Dim, Given, ValueInfo};
use crate::scope::Scope;
use crate::tensor::{Data, dtype_of};
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{
    Graph, GraphBuilder, GraphOperand, GraphSource, InputRole, TensorId, TensorOrigin,
};

/// Elements that are known without running at most: shapes have a few each.
pub(crate) const MOST_KNOWN: usize = 1 << 24;

/// Nodes at most, those of loops and functions counted every time.
pub(crate) const MOST_NODES: usize = 1 << 20;

/// Scopes inside of each other at most: functions may call functions.
const DEEPEST: usize = 24;

/// What a name of the model stands for.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Elements that are known now.
    Known(Rc<Literal>),
    /// An initializer that nothing has asked for yet.
    Initializer(usize),
    /// A tensor of the graph.
    Tensor(TensorId),
}

/// A graph in the making.
pub(crate) struct Import<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) proto: &'a proto::Model<'a>,
    pub(crate) builder: GraphBuilder,
    pub(crate) names: Names<'a>,
    /// The names of the model, and of what is inside on the way to the node.
    pub(crate) scopes: Vec<Scope<'a>>,
    /// Initializers of all graphs that were entered.
    pub(crate) initializers: Vec<&'a proto::Tensor<'a>>,
    pub(crate) weights: Vec<Weight>,
    /// The tensors of initializers that an operation needed.
    pub(crate) weights_of: HashMap<usize, TensorId>,
    /// The operations that patterns are made of, by their results.
    pub(crate) made: HashMap<TensorId, (String, Vec<GraphOperand>)>,
    /// Elements of initializers that were asked for.
    pub(crate) literals: HashMap<usize, Option<Rc<Literal>>>,
    /// The inputs of the model, by their tensors.
    pub(crate) inputs: HashMap<TensorId, &'a str>,
    /// The dtypes of tensors that a wider one carries.
    pub(crate) carried: HashMap<TensorId, Dtype>,
    /// Elements that may still become known.
    pub(crate) left: usize,
    /// Nodes that may still come.
    pub(crate) nodes_left: usize,
}

impl<'a> Import<'a> {
    /// Defines the initializers of a graph.
    pub(crate) fn initializers(&mut self, graph: &'a proto::Graph<'a>) -> Result<()> {
        for t in &graph.initializers {
            let k = self.initializers.len();
            self.initializers.push(t);
            self.define(t.name, Value::Initializer(k))
                .map_err(|e| OnnxError { at: Some(t.at), ..e })?;
        }
        Ok(())
    }

    /// Lowers nodes, in their order.
    pub(crate) fn nodes(&mut self, nodes: &'a [proto::Node<'a>]) -> Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            self.nodes_left = self.nodes_left.checked_sub(1).ok_or_else(|| {
                let message = format!("more than {MOST_NODES} nodes, with loops written out");
                OnnxError::new("too_large", message)
            })?;
            let mut node = Node::new(self, node, index);
            let made = ops::lower(&mut node)?;
            node.finish(&made)?;
        }
        Ok(())
    }

    /// Lowers a graph inside of the present one; the values of its outputs. Names around it are seen.
    pub(crate) fn inside(
        &mut self,
        graph: &'a proto::Graph<'a>,
        given: &[Value],
    ) -> Result<Vec<Value>> {
        if graph.sparse > 0 {
            return Err(OnnxError::new(
                "bad_tensor",
                "it has sparse initializers; store them as dense ones",
            ));
        }
        let scope = Scope { open: true, ..Scope::new(self.opset()) };
        let inputs: Vec<&'a str> = graph.inputs.iter().map(|i| i.name).collect();
        let outputs: Vec<&'a str> = graph.outputs.iter().map(|o| o.name).collect();
        self.scoped(scope, &inputs, given, &outputs, |import| {
            import.initializers(graph)?;
            import.nodes(&graph.nodes)
        })
    }

    /// Lowers the nodes of a function; the values of its outputs.
    pub(crate) fn call(
        &mut self,
        function: &'a proto::Function<'a>,
        attributes: Vec<(&'a str, &'a Given<'a>)>,
        given: &[Value],
    ) -> Result<Vec<Value>> {
        let opset = crate::scope::opset_of(&function.opsets).unwrap_or_else(|| self.opset());
        let scope = Scope { attributes, ..Scope::new(opset) };
        let inputs: Vec<&'a str> = function.inputs.iter().take(given.len()).copied().collect();
        self.scoped(scope, &inputs, given, &function.outputs, |import| {
            import.nodes(&function.nodes)
        })
    }

    fn scoped(
        &mut self,
        scope: Scope<'a>,
        inputs: &[&'a str],
        given: &[Value],
        outputs: &[&'a str],
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<Value>> {
        if self.scopes.len() >= DEEPEST {
            let message = format!("more than {DEEPEST} graphs and functions inside of each other");
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
            .try_for_each(|(name, value)| self.define(name, value.clone()))
            .and_then(|()| work(self))
            .and_then(|()| {
                let value = |name: &&str| {
                    self.value(name).cloned().ok_or_else(|| {
                        let message = format!("output `{}`: no node makes it", quote(name));
                        OnnxError::new("bad_output", message)
                    })
                };
                outputs.iter().map(value).collect()
            });
        self.scopes.pop();
        made
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// The version of the operations where the walk is.
    pub(crate) fn opset(&self) -> i64 {
        self.scopes.last().map_or(0, |s| s.opset)
    }

    /// The attribute of the function's call that the walk is in.
    pub(crate) fn attribute(&self, name: &str) -> Option<&'a Given<'a>> {
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

    /// The name in the graph of a value of the model: the same every time.
    pub(crate) fn name_of(&mut self, name: &'a str) -> String {
        if self.scopes.len() == 1 {
            return self.names.of(name);
        }
        if let Some(known) = self.scope().names.get(name) {
            return known.clone();
        }
        let made = self.names.free(&crate::names::plain(name));
        self.scope().names.insert(name, made.clone());
        made
    }

    /// Says what a name stands for.
    pub(crate) fn define(&mut self, name: &'a str, value: Value) -> Result<()> {
        if let Value::Known(literal) = &value {
            self.left = self.left.checked_sub(literal.len()).ok_or_else(|| {
                let message =
                    format!("more than {MOST_KNOWN} elements are computed from constants");
                OnnxError::new("too_large", message)
            })?;
        }
        if self.scope().values.insert(name, value).is_some() {
            let message = format!("the name `{}` is given twice", quote(name));
            return Err(OnnxError::new("duplicate_name", message));
        }
        Ok(())
    }

    /// The scope that has a name, and what it stands for there.
    fn find(&self, name: &str) -> Option<(usize, &Value)> {
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

    /// What a name stands for.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.find(name).map(|(_, value)| value)
    }

    /// The known elements of a value: of one that was computed, or of a small initializer.
    pub(crate) fn elements(&mut self, value: &Value) -> Result<Option<Rc<Literal>>> {
        Ok(match value {
            Value::Known(literal) => Some(literal.clone()),
            Value::Initializer(k) => match self.literals.get(k) {
                Some(known) => known.clone(),
                None => {
                    let read = self.initializers[*k].literal(self.file)?.map(Rc::new);
                    self.literals.insert(*k, read.clone());
                    read
                }
            },
            Value::Tensor(_) => None,
        })
    }

    /// The known elements of a name.
    pub(crate) fn literal(&mut self, name: &'a str) -> Result<Option<Rc<Literal>>> {
        match self.value(name).cloned() {
            Some(value) => self.elements(&value),
            None => Ok(None),
        }
    }

    /// Size and dtype of a value.
    pub(crate) fn meta_of(&self, value: &Value) -> Result<(Vec<i64>, Dtype)> {
        Ok(match value {
            Value::Known(l) => (l.shape.clone(), l.dtype),
            Value::Initializer(k) => {
                let t = self.initializers[*k];
                t.numel()?;
                (t.dims.clone(), t.element()?)
            }
            Value::Tensor(id) => (self.builder.tensor(*id).size.clone(), self.dtype_of(*id)),
        })
    }

    /// The dtype of a tensor of the graph, as the model has it.
    pub(crate) fn dtype_of(&self, id: TensorId) -> Dtype {
        self.carried.get(&id).copied().unwrap_or(self.builder.tensor(id).dtype)
    }

    /// Says which dtype a tensor carries.
    pub(crate) fn carry(&mut self, id: TensorId, dtype: Dtype) {
        if carrier(dtype) != dtype {
            self.carried.insert(id, dtype);
        }
    }

    /// Size and dtype of a name.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<(Vec<i64>, Dtype)>> {
        self.value(name).map(|v| self.meta_of(v)).transpose()
    }

    /// The tensor of a name: an initializer becomes a weight, and so does what is known, unless one
    /// number fills it.
    pub(crate) fn tensor(&mut self, name: &'a str) -> Result<Option<TensorId>> {
        let Some((at, value)) = self.find(name).map(|(k, v)| (k, v.clone())) else {
            return Ok(None);
        };
        if let Some(id) = self.scopes[at].tensors.get(name) {
            return Ok(Some(*id));
        }
        let id = match value {
            Value::Tensor(id) => return Ok(Some(id)),
            Value::Initializer(k) => return self.initializer(k).map(Some),
            Value::Known(literal) => {
                let name = self.name_of(name);
                let name = if self.builder.tensor_id(&name).is_some() {
                    self.names.free(&name)
                } else {
                    name
                };
                self.materialize(&literal, name)?
            }
        };
        self.scopes[at].tensors.insert(name, id);
        Ok(Some(id))
    }

    /// The weight of an initializer, one for all names that it has.
    pub(crate) fn initializer(&mut self, k: usize) -> Result<TensorId> {
        if let Some(id) = self.weights_of.get(&k) {
            return Ok(*id);
        }
        let t = self.initializers[k];
        t.numel()?;
        let (size, dtype, stored, data) = (t.dims.clone(), t.element()?, t.stored()?, t.data()?);
        // Those of the model keep their names; an inner graph may have the same ones.
        let name = if k < self.proto.graph.initializers.len() {
            self.names.of(t.name)
        } else {
            self.names.free(&crate::names::plain(t.name))
        };
        let id = self.weight(name, size, dtype, stored, data)?;
        self.weights_of.insert(k, id);
        Ok(id)
    }

    /// The inputs of the model that a value follows from.
    pub(crate) fn roots(&self, value: &Value) -> Vec<String> {
        let Value::Tensor(id) = value else { return Vec::new() };
        let (mut open, mut seen, mut found) = (vec![*id], HashSet::new(), BTreeSet::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.builder.tensor(id).def {
                TensorOrigin::Input(_) => {
                    found.extend(self.inputs.get(&id).map(|n| (*n).to_string()))
                }
                TensorOrigin::Constant(_) => {}
                TensorOrigin::Result(node, _) => {
                    open.extend(self.builder.node_operands(*node).iter().copied())
                }
                TensorOrigin::View { base, .. } => open.push(*base),
            }
        }
        found.into_iter().collect()
    }

    pub(crate) fn weight(
        &mut self,
        name: String,
        size: Vec<i64>,
        dtype: Dtype,
        stored: Dtype,
        data: Data,
    ) -> Result<TensorId> {
        let id = self.builder.add_input(&name, &size, carrier(dtype), InputRole::Weight).map_err(
            |e| OnnxError::new("bad_tensor", format!("tensor `{}`: {}", quote(&name), e.message)),
        )?;
        self.carry(id, dtype);
        let dtype = carrier(dtype);
        self.weights.push(Weight { name, size, dtype, stored, data });
        Ok(id)
    }

    /// A tensor of the graph with the elements of a literal.
    pub(crate) fn materialize(&mut self, literal: &Literal, name: String) -> Result<TensorId> {
        let bad = |message: String| OnnxError::new("bad_tensor", format!("`{name}`: {message}"));
        let held = |x: &i64| i32::try_from(*x).is_ok();
        if let Some(x) = literal.whole().and_then(|v| v.iter().find(|x| !held(x))) {
            return Err(bad(format!("{x} does not fit into the 32 bits of the card's integers")));
        }
        match literal.uniform() {
            Some(x) if !x.is_nan() && literal.dtype != Dtype::Float64 => {
                let attributes = json!({
                    "size": literal.shape, "value": number(x),
                    "dtype": carrier(literal.dtype).name(),
                });
                let attributes = attributes.as_object().cloned().unwrap_or_default();
                let made = self.builder.add_op("full", &[], &attributes, &[&name]);
                let id = made.map(|ids| ids[0]).map_err(|e| bad(e.message))?;
                self.carry(id, literal.dtype);
                Ok(id)
            }
            _ => {
                let bytes = literal.encode();
                let bytes = bytes.ok_or_else(|| bad(format!("no bytes of {}", literal.dtype)))?;
                let (dtype, stored) = (literal.dtype, carrier(literal.dtype));
                self.weight(name, literal.shape.clone(), dtype, stored, Data::Owned(bytes))
            }
        }
    }

    pub(crate) fn finish(mut self, outputs: &[ValueInfo<'a>]) -> Result<(Graph, Vec<Weight>)> {
        let (mut ids, mut given) = (Vec::new(), HashSet::new());
        for output in outputs {
            let bad = |message: String| {
                OnnxError::new("bad_output", format!("output `{}`: {message}", quote(output.name)))
            };
            let wanted = self.name_of(output.name);
            let Some(mut id) = self.tensor(output.name)? else {
                return Err(bad("no node makes it".into()));
            };
            if self.builder.tensor(id).name != wanted || given.contains(&id) {
                let name = if self.builder.tensor_id(&wanted).is_some() {
                    self.names.free(&wanted)
                } else {
                    wanted
                };
                let made = self.builder.add_op(
                    "identity",
                    &[GraphOperand::Tensor(id)],
                    &Map::new(),
                    &[&name],
                );
                let copy = made.map_err(|e| bad(e.message))?[0];
                self.carry(copy, self.dtype_of(id));
                id = copy;
            }
            let t = self.builder.tensor(id);
            if let Some(dims) = &output.dims {
                let fits = |(d, n): (&Dim<'_>, &i64)| !matches!(d, Dim::Fixed(m) if m != n);
                if dims.len() != t.size.len() || !dims.iter().zip(&t.size).all(fits) {
                    let said: Vec<String> = dims
                        .iter()
                        .map(|d| match d {
                            Dim::Fixed(n) => n.to_string(),
                            Dim::Symbol(s) => quote(s),
                            Dim::Unknown => "?".into(),
                        })
                        .collect();
                    let said = said.join(", ");
                    return Err(bad(format!(
                        "its nodes make {:?}, and the file says [{said}]",
                        t.size
                    )));
                }
            }
            let made = self.dtype_of(id);
            if output.dtype != 0 && dtype_of(output.dtype).is_ok_and(|d| d != made) {
                let said = dtype_of(output.dtype).map_err(bad)?;
                return Err(bad(format!("its nodes make {made}, and the file says {said}")));
            }
            given.insert(id);
            ids.push(id);
        }
        // Built anew with its inputs first, as a text of it would be: weights were met on the way.
        let graph = self.builder.finish_graph(&ids).and_then(|g| {
            let mut source = g.to_source();
            let needed = prune(&mut source);
            self.weights.retain(|w| needed.contains(&w.name));
            source.bind_symbols(&BTreeMap::new())
        });
        let graph = graph.map_err(|e| OnnxError::new("bad_graph", e.message))?;
        Ok((graph, self.weights))
    }
}

/// Takes out operations and weights that no output needs; the names of what is left.
fn prune(source: &mut GraphSource) -> HashSet<String> {
    let mut needed: HashSet<String> = source.outputs.iter().map(|o| o.name.clone()).collect();
    let mut kept = Vec::new();
    for op in std::mem::take(&mut source.ops).into_iter().rev() {
        if op.outputs.iter().any(|o| needed.contains(o)) {
            needed.extend(op.inputs.iter().filter_map(|i| i.as_str()).map(str::to_string));
            kept.push(op);
        }
    }
    kept.reverse();
    source.ops = kept;
    source.inputs.retain(|i| i.role != InputRole::Weight || needed.contains(&i.name));
    needed
}
