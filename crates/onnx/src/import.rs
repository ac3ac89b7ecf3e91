//! From a model to a graph, node by node.

use crate::error::{OnnxError, Result, quote};
use crate::literal::{Literal, number};
use crate::names::Names;
use crate::node::Node;
use crate::ops;
use crate::proto::{self, Decoder, Dim, ValueInfo};
use crate::tensor::{Data, dtype_of};
use serde_json::{Map, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{Builder, Graph, GraphSource, Operand, Role, TensorId};

/// The oldest version of the operations that is read.
const OLDEST: i64 = 13;

/// Elements that are known without running at most: shapes have a few each.
const MOST_KNOWN: usize = 1 << 24;

/// An ONNX model, read and checked as far as it can be without the values of its symbols.
#[derive(Debug)]
pub struct Model<'a> {
    file: &'a [u8],
    proto: proto::Model<'a>,
    opset: i64,
}

/// A model as a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The graph: inputs of the model, weights, operations.
    pub graph: Graph,
    /// The elements of its weights.
    pub weights: Vec<Weight>,
}

/// A weight of an imported graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// The name of its input in the graph.
    pub name: String,
    /// Extents.
    pub size: Vec<i64>,
    /// Dtype.
    pub dtype: Dtype,
    /// Where its elements are.
    pub data: Data,
}

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

impl<'a> Model<'a> {
    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// Bytes that are no model, with the place; operations older than opset 13.
    pub fn read(file: &'a [u8]) -> Result<Model<'a>> {
        let proto = Decoder::model(file)?;
        let ours = |d: &str| d.is_empty() || d == "ai.onnx";
        let opset = proto.opsets.iter().filter(|(d, _)| ours(d)).map(|(_, v)| *v).max();
        let Some(opset) = opset else {
            let have: Vec<String> = proto.opsets.iter().map(|(d, _)| quote(d)).collect();
            let have = if have.is_empty() { "none".into() } else { have.join(", ") };
            let message = format!("it imports no operations of ai.onnx; it has: {have}");
            return Err(OnnxError::new("bad_opset", message));
        };
        if opset < OLDEST {
            let message = format!(
                "opset {opset} of ai.onnx; accepted: {OLDEST} and newer. Export it anew, or convert \
                 it with onnx.version_converter"
            );
            return Err(OnnxError::new("bad_opset", message));
        }
        if proto.graph.sparse > 0 {
            let message = "it has sparse initializers; store them as dense ones";
            return Err(OnnxError::new("bad_tensor", message));
        }
        Ok(Model { file, proto, opset })
    }

    /// The version of its operations.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// The symbols of its inputs, in their order. A dimension without a size and a name is called after
    /// its input: `x.0`.
    pub fn symbols(&self) -> Vec<String> {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for input in self.inputs() {
            for (d, dim) in input.dims.iter().flatten().enumerate() {
                let name = symbol(input, d, dim);
                all.extend(name.filter(|n| seen.insert(n.clone())));
            }
        }
        all
    }

    /// Inputs that are no initializers: older files list those too.
    fn inputs(&self) -> impl Iterator<Item = &ValueInfo<'a>> {
        let weights: HashSet<&str> = self.proto.graph.initializers.iter().map(|t| t.name).collect();
        self.proto.graph.inputs.iter().filter(move |i| !weights.contains(i.name))
    }

    /// The graph for these values of its symbols.
    ///
    /// # Errors
    /// Symbols without a value, operations and attributes without an equivalent, shapes that do not fit:
    /// each names the node and the operand.
    pub fn import(&self, bind: &BTreeMap<String, i64>) -> Result<Imported> {
        let graph = &self.proto.graph;
        self.check_bindings(bind)?;
        let mut import = Import {
            file: self.file,
            proto: &self.proto,
            opset: self.opset,
            builder: Builder::new(crate::names::plain(if graph.name.is_empty() {
                "model"
            } else {
                graph.name
            })),
            names: Names::default(),
            values: HashMap::new(),
            tensors: HashMap::new(),
            weights: Vec::new(),
            made: HashMap::new(),
            literals: HashMap::new(),
            left: MOST_KNOWN,
        };
        for input in self.inputs() {
            import.input(input, bind)?;
        }
        for output in &graph.outputs {
            import.names.of(output.name);
        }
        for (k, t) in graph.initializers.iter().enumerate() {
            import
                .define(t.name, Value::Initializer(k))
                .map_err(|e| OnnxError { at: Some(t.at), ..e })?;
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut node = Node::new(&mut import, node, index);
            let made = ops::lower(&mut node)?;
            node.finish(&made)?;
        }
        import.finish(&graph.outputs)
    }

    fn check_bindings(&self, bind: &BTreeMap<String, i64>) -> Result<()> {
        let symbols = self.symbols();
        let known: HashSet<&String> = symbols.iter().collect();
        if let Some(name) = bind.keys().find(|n| !known.contains(n)) {
            let known = if symbols.is_empty() { "none".into() } else { symbols.join(", ") };
            let message = format!("there is no symbol `{}`; known: {known}", quote(name));
            return Err(OnnxError::new("bad_binding", message));
        }
        if let Some((name, value)) = bind.iter().find(|(_, v)| **v < 0) {
            let message = format!("{name} = {value} is out of range; accepted are 0 and more");
            return Err(OnnxError::new("bad_binding", message));
        }
        let free: Vec<&str> =
            symbols.iter().filter(|s| !bind.contains_key(*s)).map(String::as_str).collect();
        if free.is_empty() {
            return Ok(());
        }
        let binds: Vec<String> = free.iter().take(8).map(|s| format!("--bind {s}=N")).collect();
        let message = format!(
            "sizes of its inputs are open: {}; say what they are, as in {}",
            quote(&free.join(", ")),
            binds.join(" ")
        );
        Err(OnnxError::new("unbound", message))
    }
}

/// The symbol of an open dimension.
fn symbol(input: &ValueInfo<'_>, d: usize, dim: &Dim<'_>) -> Option<String> {
    match dim {
        Dim::Fixed(_) => None,
        Dim::Symbol(name) => Some((*name).to_string()),
        Dim::Unknown => Some(format!("{}.{d}", input.name)),
    }
}

/// A graph in the making.
pub(crate) struct Import<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) proto: &'a proto::Model<'a>,
    pub(crate) opset: i64,
    pub(crate) builder: Builder,
    pub(crate) names: Names<'a>,
    values: HashMap<&'a str, Value>,
    /// The tensors of what is known, where an operation needed one.
    tensors: HashMap<&'a str, TensorId>,
    weights: Vec<Weight>,
    /// The operations that patterns are made of, by their results.
    pub(crate) made: HashMap<TensorId, (String, Vec<Operand>)>,
    /// Elements of initializers that were asked for.
    literals: HashMap<usize, Option<Rc<Literal>>>,
    /// Elements that may still become known.
    left: usize,
}

impl<'a> Import<'a> {
    fn input(&mut self, input: &ValueInfo<'a>, bind: &BTreeMap<String, i64>) -> Result<()> {
        let bad = |message: String| {
            OnnxError::new("bad_input", format!("input `{}`: {message}", quote(input.name)))
        };
        if let Some(other) = input.other {
            return Err(bad(format!("it is {other}; accepted: tensors")));
        }
        let dtype = dtype_of(input.dtype).map_err(bad)?;
        let Some(dims) = &input.dims else {
            return Err(
                bad("its rank is not said; export it with the shapes of its inputs".into()),
            );
        };
        let size: Vec<i64> = dims
            .iter()
            .enumerate()
            .map(|(d, dim)| match dim {
                Dim::Fixed(n) => *n,
                other => symbol(input, d, other).and_then(|s| bind.get(&s).copied()).unwrap_or(-1),
            })
            .collect();
        let name = self.names.of(input.name);
        let made = self.builder.input(&name, &size, dtype, Role::Input);
        let id = made.map_err(|e| bad(e.message))?;
        self.define(input.name, Value::Tensor(id))
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
        if self.values.insert(name, value).is_some() {
            let message = format!("the name `{}` is given twice", quote(name));
            return Err(OnnxError::new("duplicate_name", message));
        }
        Ok(())
    }

    /// What a name stands for.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The known elements of a name: of a value that was computed, or of a small initializer.
    pub(crate) fn literal(&mut self, name: &'a str) -> Result<Option<Rc<Literal>>> {
        Ok(match self.values.get(name) {
            Some(Value::Known(literal)) => Some(literal.clone()),
            Some(Value::Initializer(k)) => match self.literals.get(k) {
                Some(known) => known.clone(),
                None => {
                    let read = self.proto.graph.initializers[*k].literal(self.file)?.map(Rc::new);
                    self.literals.insert(*k, read.clone());
                    read
                }
            },
            _ => None,
        })
    }

    /// Size and dtype of a name.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<(Vec<i64>, Dtype)>> {
        Ok(Some(match self.values.get(name) {
            Some(Value::Known(l)) => (l.shape.clone(), l.dtype),
            Some(Value::Initializer(k)) => {
                let t = &self.proto.graph.initializers[*k];
                t.numel()?;
                (t.dims.clone(), t.element()?)
            }
            Some(Value::Tensor(id)) => {
                let t = self.builder.tensor(*id);
                (t.size.clone(), t.dtype)
            }
            None => return Ok(None),
        }))
    }

    /// The tensor of a name: an initializer becomes a weight, and so does what is known, unless one
    /// number fills it.
    pub(crate) fn tensor(&mut self, name: &'a str) -> Result<Option<TensorId>> {
        if let Some(id) = self.tensors.get(name) {
            return Ok(Some(*id));
        }
        let id = match self.values.get(name).cloned() {
            None => return Ok(None),
            Some(Value::Tensor(id)) => return Ok(Some(id)),
            Some(Value::Initializer(k)) => {
                let t = &self.proto.graph.initializers[k];
                t.numel()?;
                let (size, dtype, data) = (t.dims.clone(), t.element()?, t.data()?);
                let name = self.names.of(name);
                self.weight(name, size, dtype, data)?
            }
            Some(Value::Known(literal)) => {
                let name = self.names.of(name);
                let name =
                    if self.builder.id(&name).is_some() { self.names.free(&name) } else { name };
                self.materialize(&literal, name)?
            }
        };
        self.tensors.insert(name, id);
        Ok(Some(id))
    }

    pub(crate) fn weight(
        &mut self,
        name: String,
        size: Vec<i64>,
        dtype: Dtype,
        data: Data,
    ) -> Result<TensorId> {
        let id = self.builder.input(&name, &size, dtype, Role::Weight).map_err(|e| {
            OnnxError::new("bad_tensor", format!("tensor `{}`: {}", quote(&name), e.message))
        })?;
        self.weights.push(Weight { name, size, dtype, data });
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
                    "size": literal.shape, "value": number(x), "dtype": literal.dtype.name(),
                });
                let attributes = attributes.as_object().cloned().unwrap_or_default();
                let made = self.builder.op("full", &[], &attributes, &[&name]);
                made.map(|ids| ids[0]).map_err(|e| bad(e.message))
            }
            _ => {
                let bytes = literal.encode();
                let bytes = bytes.ok_or_else(|| bad(format!("no bytes of {}", literal.dtype)))?;
                self.weight(name, literal.shape.clone(), literal.dtype, Data::Owned(bytes))
            }
        }
    }

    fn finish(mut self, outputs: &[ValueInfo<'a>]) -> Result<Imported> {
        let (mut ids, mut given) = (Vec::new(), HashSet::new());
        for output in outputs {
            let bad = |message: String| {
                OnnxError::new("bad_output", format!("output `{}`: {message}", quote(output.name)))
            };
            let wanted = self.names.of(output.name);
            let Some(mut id) = self.tensor(output.name)? else {
                return Err(bad("no node makes it".into()));
            };
            if self.builder.tensor(id).name != wanted || given.contains(&id) {
                let name = if self.builder.id(&wanted).is_some() {
                    self.names.free(&wanted)
                } else {
                    wanted
                };
                let made =
                    self.builder.op("identity", &[Operand::Tensor(id)], &Map::new(), &[&name]);
                id = made.map_err(|e| bad(e.message))?[0];
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
            if output.dtype != 0 && dtype_of(output.dtype).is_ok_and(|d| d != t.dtype) {
                let said = dtype_of(output.dtype).map_err(bad)?;
                return Err(bad(format!("its nodes make {}, and the file says {said}", t.dtype)));
            }
            given.insert(id);
            ids.push(id);
        }
        // Built anew with its inputs first, as a text of it would be: weights were met on the way.
        let graph = self.builder.finish(&ids).and_then(|g| {
            let mut source = g.source();
            let needed = prune(&mut source);
            self.weights.retain(|w| needed.contains(&w.name));
            source.bind(&BTreeMap::new())
        });
        let graph = graph.map_err(|e| OnnxError::new("bad_graph", e.message))?;
        Ok(Imported { graph, weights: self.weights })
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
    source.inputs.retain(|i| i.role != Role::Weight || needed.contains(&i.name));
    needed
}
