//! Models, and their graphs for given sizes.

use crate::carried::{self, carrier_dtype};
use crate::error::{OnnxError, Result, quote_start};
use crate::literal::{self, TensorLiteral};
use crate::names::GraphNames;
use crate::proto::{self, DeclaredDim, ProtoDecoder, ValueInfo};
use crate::scope::{NameScope, onnx_opset};
use crate::tensor::{WeightData, dtype_of_code, stored_dtype_of_code};
use crate::walk::{GraphImport, ModelValue};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, InputRole};

/// The oldest opset that is read.
// Before opset 7 elementwise operations broadcast only if an attribute allowed it, and along an
// axis given by another attribute.
const MIN_OPSET: i64 = 7;

/// An ONNX model, read and checked as far as possible without the values of its symbols.
#[derive(Debug)]
pub struct OnnxModel<'a> {
    file: &'a [u8],
    proto: proto::ModelProto<'a>,
    opset: i64,
}

/// A model as a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedModel {
    /// The graph: inputs of the model, weights, operations.
    pub graph: Graph,
    /// The elements of its weights.
    pub weights: Vec<ImportedWeight>,
    /// Inputs of the model that became constants, because sizes depend on their elements.
    pub bound: Vec<String>,
}

/// A weight of an imported graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedWeight {
    /// The name of its input in the graph.
    pub name: String,
    /// Extents.
    pub size: Vec<i64>,
    /// Dtype.
    pub dtype: Dtype,
    /// The dtype of its elements in the file, which may be narrower than `dtype`.
    pub(crate) stored: Dtype,
    /// Where its elements are.
    pub data: WeightData,
}

impl ImportedWeight {
    /// The elements of the weight, from the bytes that [`ImportedWeight::data`] names: elements of
    /// a type that the card does not store are widened.
    ///
    /// # Errors
    /// Bytes whose number differs from that of the elements.
    pub fn carried_elements<'a>(&self, stored: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        if self.stored == self.dtype {
            return Ok(stored);
        }
        let count =
            literal::element_count(&self.size).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let wide = carried::unpack_elements(&stored, self.stored, count);
        wide.map(Cow::Owned).ok_or_else(|| {
            let message =
                format!("`{}` does not have the bytes of its elements", quote_start(&self.name));
            OnnxError::new("bad_file", message)
        })
    }
}

/// The elements of an input, known before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputConstant {
    /// Extents.
    pub size: Vec<i64>,
    /// Dtype.
    pub dtype: Dtype,
    /// Elements, row-major and little-endian.
    pub bytes: Vec<u8>,
}

impl<'a> OnnxModel<'a> {
    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// Bytes that are not a model, with their position; opsets older than 7.
    pub fn read_model(file: &'a [u8]) -> Result<OnnxModel<'a>> {
        let proto = ProtoDecoder::decode_model(file)?;
        let Some(opset) = onnx_opset(&proto.opsets) else {
            let have: Vec<String> = proto.opsets.iter().map(|(d, _)| quote_start(d)).collect();
            let have = if have.is_empty() { "none".into() } else { have.join(", ") };
            let message = format!("it imports no operations of ai.onnx; it has: {have}");
            return Err(OnnxError::new("bad_opset", message));
        };
        if opset < MIN_OPSET {
            let message = format!(
                "opset {opset} of ai.onnx; accepted: {MIN_OPSET} and newer. Export it anew, or convert \
                 it with onnx.version_converter"
            );
            return Err(OnnxError::new("bad_opset", message));
        }
        // Refused when the model is read: an initializer that is left out would otherwise be
        // reported as a missing name.
        if proto.graph.sparse > 0 {
            let message = "it has sparse initializers; store them as dense ones";
            return Err(OnnxError::new("bad_tensor", message));
        }
        Ok(OnnxModel { file, proto, opset })
    }

    /// Its opset.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// The symbols of its inputs, in their order. A dimension without a size and a name is named
    /// after its input: `x.0`.
    pub fn input_symbols(&self) -> Vec<String> {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        for input in self.graph_inputs() {
            for (d, dim) in input.dims.iter().flatten().enumerate() {
                let name = dim_symbol(input, d, dim);
                all.extend(name.filter(|n| seen.insert(n.clone())));
            }
        }
        all
    }

    /// The inputs that are not initializers; older files list both.
    fn graph_inputs(&self) -> impl Iterator<Item = &ValueInfo<'a>> {
        // Before IR version 4 every initializer had to be listed as an input too. Such an input has
        // a default value, which is what a run uses.
        let weights: HashSet<&str> = self.proto.graph.initializers.iter().map(|t| t.name).collect();
        self.proto.graph.inputs.iter().filter(move |i| !weights.contains(i.name))
    }

    /// Imports the graph for these values of its symbols.
    ///
    /// # Errors
    /// Symbols without a value, operations and attributes without an equivalent, shapes that do not
    /// fit. The error names the node and the operand.
    pub fn import_graph(&self, bind: &BTreeMap<String, i64>) -> Result<ImportedModel> {
        self.import_graph_with(bind, &BTreeMap::new())
    }

    /// Imports the graph with the elements of some inputs. An input stays an input of the graph
    /// unless something that must be known before a run (a shape, axes, a number of iterations)
    /// depends on it. It then becomes a constant, and [`ImportedModel::bound`] names it. The
    /// symbols of these inputs need no values, because their sizes are known.
    ///
    /// # Errors
    /// As [`OnnxModel::import_graph`]; [`OnnxError::needed_inputs`] lists the inputs whose elements
    /// would help.
    pub fn import_graph_with(
        &self,
        bind: &BTreeMap<String, i64>,
        given: &BTreeMap<String, InputConstant>,
    ) -> Result<ImportedModel> {
        let mut sizes = bind.clone();
        for input in self.graph_inputs() {
            let Some(constant) = given.get(input.name) else { continue };
            for (d, dim) in input.dims.iter().flatten().enumerate() {
                if let (Some(name), Some(n)) = (dim_symbol(input, d, dim), constant.size.get(d)) {
                    // What the caller bound by hand wins over what an array's shape says, so that a
                    // contradiction is reported for the array.
                    sizes.entry(name).or_insert(*n);
                }
            }
        }
        self.check_bindings(&sizes)?;
        let mut bound = BTreeSet::new();
        // Whether an input has to be constant is known only when a rule asks for its elements.
        // Trying again with one more constant keeps every other input dynamic; marking all given
        // inputs as constant would compile a program for one set of values.
        loop {
            let refused = match self.attempt_import(&sizes, given, &bound) {
                Ok(made) => return Ok(made),
                Err(e) => e,
            };
            // Each round makes at least one more input constant, so the loop ends.
            let more: Vec<String> =
                refused.needed_inputs().iter().filter(|n| !bound.contains(*n)).cloned().collect();
            if more.is_empty() || !refused.needed_inputs().iter().all(|n| given.contains_key(n)) {
                return Err(refused);
            }
            bound.extend(more);
        }
    }

    fn attempt_import(
        &self,
        bind: &BTreeMap<String, i64>,
        given: &BTreeMap<String, InputConstant>,
        bound: &BTreeSet<String>,
    ) -> Result<ImportedModel> {
        let graph = &self.proto.graph;
        let name = if graph.name.is_empty() { "model" } else { graph.name };
        let mut import = GraphImport {
            file: self.file,
            proto: &self.proto,
            builder: GraphBuilder::new(crate::names::sanitize_name(name)),
            names: GraphNames::default(),
            scopes: vec![NameScope::new(self.opset)],
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
        for input in self.graph_inputs() {
            let constant = given.get(input.name).filter(|_| bound.contains(input.name));
            import.define_input(input, bind, constant)?;
        }
        // Outputs get their names before any node runs, so that an inner name cannot take the name
        // of an output.
        for output in &graph.outputs {
            import.graph_name(output.name);
        }
        import.define_initializers(graph)?;
        import.lower_nodes(&graph.nodes)?;
        let (graph, weights) = import.finish_graph(&graph.outputs)?;
        Ok(ImportedModel { graph, weights, bound: bound.iter().cloned().collect() })
    }

    fn check_bindings(&self, bind: &BTreeMap<String, i64>) -> Result<()> {
        let symbols = self.input_symbols();
        let known: HashSet<&String> = symbols.iter().collect();
        if let Some(name) = bind.keys().find(|n| !known.contains(n)) {
            let known = if symbols.is_empty() { "none".into() } else { symbols.join(", ") };
            let message = format!("there is no symbol `{}`; known: {known}", quote_start(name));
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
        // Eight arguments show the form; a model with hundreds of symbols would print a page.
        let binds: Vec<String> = free.iter().take(8).map(|s| format!("--bind {s}=N")).collect();
        let message = format!(
            "sizes of its inputs are open: {}; give them values, as in {}",
            quote_start(&free.join(", ")),
            binds.join(" ")
        );
        Err(OnnxError::new("unbound", message))
    }
}

/// The symbol of a dimension without a fixed size.
fn dim_symbol(input: &ValueInfo<'_>, d: usize, dim: &DeclaredDim<'_>) -> Option<String> {
    match dim {
        DeclaredDim::Fixed(_) => None,
        DeclaredDim::Symbol(name) => Some((*name).to_string()),
        DeclaredDim::Unknown => Some(format!("{}.{d}", input.name)),
    }
}

impl<'a> GraphImport<'a> {
    fn define_input(
        &mut self,
        input: &ValueInfo<'a>,
        bind: &BTreeMap<String, i64>,
        constant: Option<&InputConstant>,
    ) -> Result<()> {
        let bad = |message: String| {
            OnnxError::new("bad_input", format!("input `{}`: {message}", quote_start(input.name)))
        };
        if let Some(other) = input.other {
            return Err(bad(format!("it is {other}; accepted: tensors")));
        }
        let dtype = dtype_of_code(input.dtype).map_err(bad)?;
        let Some(dims) = &input.dims else {
            return Err(bad(
                "its rank is not given; export it with the shapes of its inputs".into()
            ));
        };
        let size: Vec<i64> = dims
            .iter()
            .enumerate()
            .map(|(d, dim)| match dim {
                DeclaredDim::Fixed(n) => *n,
                other => {
                    dim_symbol(input, d, other).and_then(|s| bind.get(&s).copied()).unwrap_or(-1)
                }
            })
            .collect();
        // A constant needs the elements as the file's type has them, which may be narrower than the
        // carrier.
        if let Some(constant) = constant {
            let literal = decode_input(
                constant,
                stored_dtype_of_code(input.dtype).unwrap_or(dtype),
                dtype,
                &size,
            )
            .map_err(bad)?;
            return self.define_value(input.name, ModelValue::Known(Rc::new(literal)));
        }
        let name = self.graph_name(input.name);
        let made = self.builder.add_input(&name, &size, carrier_dtype(dtype), InputRole::Input);
        let id = made.map_err(|e| bad(e.message))?;
        self.set_carried_dtype(id, dtype);
        self.inputs.insert(id, input.name);
        self.define_value(input.name, ModelValue::Tensor(id))
    }
}

/// Decodes the elements of an input that becomes a constant.
fn decode_input(
    constant: &InputConstant,
    stored: Dtype,
    dtype: Dtype,
    size: &[i64],
) -> Result<TensorLiteral, String> {
    // An array of another size would silently change which sizes follow from it.
    if constant.dtype != stored || constant.size != size {
        return Err(format!(
            "{} {:?} is given, and the model has {stored} {size:?}",
            constant.dtype, constant.size
        ));
    }
    let count = literal::element_count(size).and_then(|n| usize::try_from(n).ok());
    let Some(count) = count.filter(|c| *c <= literal::MAX_LITERAL_ELEMENTS) else {
        return Err(format!(
            "sizes follow from its elements, and it has too many for that: {size:?}; accepted: at most {}",
            literal::MAX_LITERAL_ELEMENTS
        ));
    };
    let wide = carried::carry_elements(&constant.bytes, stored);
    let literal = wide.and_then(|wide| TensorLiteral::decode_elements(dtype, size, &wide));
    literal.filter(|l| l.len() == count).ok_or_else(|| {
        format!("{} bytes are not {count} elements of {stored}", constant.bytes.len())
    })
}
