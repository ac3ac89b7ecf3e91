//! Models and what they become for given sizes.

use crate::carried::{self, carrier};
use crate::error::{OnnxError, Result, quote};
use crate::literal::{self, Literal};
use crate::names::Names;
use crate::proto::{self, Decoder, Dim, ValueInfo};
use crate::scope::{Scope, opset_of};
use crate::tensor::{Data, dtype_of, stored_as};
use crate::walk::{Import, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, InputRole};

/// The oldest version of the operations that is read.
const OLDEST: i64 = 7;

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
    /// Inputs of the model that are no inputs of the graph: sizes depend on their elements, which were given.
    pub bound: Vec<String>,
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
    /// The dtype of its elements in the file, where another one carries it.
    pub(crate) stored: Dtype,
    /// Where its elements are.
    pub data: Data,
}

impl Weight {
    /// The elements of the weight, from the bytes that [`Weight::data`] names: those of a type that the card
    /// does not store become wider.
    ///
    /// # Errors
    /// Bytes of another number.
    pub fn elements<'a>(&self, stored: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        if self.stored == self.dtype {
            return Ok(stored);
        }
        let count = literal::numel(&self.size).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let wide = carried::unpack(&stored, self.stored, count);
        wide.map(Cow::Owned).ok_or_else(|| {
            let message = format!("`{}` has not the bytes of its elements", quote(&self.name));
            OnnxError::new("bad_file", message)
        })
    }
}

/// The elements of an input that are known before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Extents.
    pub size: Vec<i64>,
    /// Dtype.
    pub dtype: Dtype,
    /// Elements, row-major and little-endian.
    pub bytes: Vec<u8>,
}

impl<'a> Model<'a> {
    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// Bytes that are no model, with the place; operations older than opset 7.
    pub fn read(file: &'a [u8]) -> Result<Model<'a>> {
        let proto = Decoder::model(file)?;
        let Some(opset) = opset_of(&proto.opsets) else {
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
        self.import_with(bind, &BTreeMap::new())
    }

    /// The same where elements of inputs are at hand. An input stays an input of the graph, unless
    /// something that has to be known before a run (a shape, axes, a number of iterations) follows from
    /// it: then it becomes a constant, and [`Imported::bound`] names it. Open sizes of inputs that are at
    /// hand need no value of their symbols.
    ///
    /// # Errors
    /// As [`Model::import`]; [`OnnxError::needs`] has the inputs that could be bound and are not at hand.
    pub fn import_with(
        &self,
        bind: &BTreeMap<String, i64>,
        given: &BTreeMap<String, Constant>,
    ) -> Result<Imported> {
        let mut sizes = bind.clone();
        for input in self.inputs() {
            let Some(constant) = given.get(input.name) else { continue };
            for (d, dim) in input.dims.iter().flatten().enumerate() {
                if let (Some(name), Some(n)) = (symbol(input, d, dim), constant.size.get(d)) {
                    sizes.entry(name).or_insert(*n);
                }
            }
        }
        self.check_bindings(&sizes)?;
        let mut bound = BTreeSet::new();
        loop {
            let refused = match self.attempt(&sizes, given, &bound) {
                Ok(made) => return Ok(made),
                Err(e) => e,
            };
            // What is asked for and at hand becomes constant, one more of a finite number every time.
            let more: Vec<String> =
                refused.needs().iter().filter(|n| !bound.contains(*n)).cloned().collect();
            if more.is_empty() || !refused.needs().iter().all(|n| given.contains_key(n)) {
                return Err(refused);
            }
            bound.extend(more);
        }
    }

    fn attempt(
        &self,
        bind: &BTreeMap<String, i64>,
        given: &BTreeMap<String, Constant>,
        bound: &BTreeSet<String>,
    ) -> Result<Imported> {
        let graph = &self.proto.graph;
        let name = if graph.name.is_empty() { "model" } else { graph.name };
        let mut import = Import {
            file: self.file,
            proto: &self.proto,
            builder: GraphBuilder::new(crate::names::plain(name)),
            names: Names::default(),
            scopes: vec![Scope::new(self.opset)],
            initializers: Vec::new(),
            weights: Vec::new(),
            weights_of: HashMap::new(),
            made: HashMap::new(),
            literals: HashMap::new(),
            inputs: HashMap::new(),
            carried: HashMap::new(),
            left: crate::walk::MOST_KNOWN,
            nodes_left: crate::walk::MOST_NODES,
        };
        for input in self.inputs() {
            let constant = given.get(input.name).filter(|_| bound.contains(input.name));
            import.input(input, bind, constant)?;
        }
        for output in &graph.outputs {
            import.name_of(output.name);
        }
        import.initializers(graph)?;
        import.nodes(&graph.nodes)?;
        let (graph, weights) = import.finish(&graph.outputs)?;
        Ok(Imported { graph, weights, bound: bound.iter().cloned().collect() })
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

impl<'a> Import<'a> {
    fn input(
        &mut self,
        input: &ValueInfo<'a>,
        bind: &BTreeMap<String, i64>,
        constant: Option<&Constant>,
    ) -> Result<()> {
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
        if let Some(constant) = constant {
            let literal = known(constant, stored_as(input.dtype).unwrap_or(dtype), dtype, &size)
                .map_err(bad)?;
            return self.define(input.name, Value::Known(Rc::new(literal)));
        }
        let name = self.name_of(input.name);
        let made = self.builder.add_input(&name, &size, carrier(dtype), InputRole::Input);
        let id = made.map_err(|e| bad(e.message))?;
        self.carry(id, dtype);
        self.inputs.insert(id, input.name);
        self.define(input.name, Value::Tensor(id))
    }
}

/// The elements of an input that is bound.
fn known(
    constant: &Constant,
    stored: Dtype,
    dtype: Dtype,
    size: &[i64],
) -> Result<Literal, String> {
    if constant.dtype != stored || constant.size != size {
        return Err(format!(
            "{} {:?} is given, and the model has {stored} {size:?}",
            constant.dtype, constant.size
        ));
    }
    let count = literal::numel(size).and_then(|n| usize::try_from(n).ok());
    let Some(count) = count.filter(|c| *c <= literal::MOST) else {
        return Err(format!(
            "sizes follow from its elements, and it has too many for that: {size:?}; accepted: at most {}",
            literal::MOST
        ));
    };
    let wide = carried::carry(&constant.bytes, stored);
    let literal = wide.and_then(|wide| Literal::decode(dtype, size, &wide));
    literal.filter(|l| l.len() == count).ok_or_else(|| {
        format!("{} bytes are no {count} elements of {stored}", constant.bytes.len())
    })
}
