//! The messages of ONNX that graphs are made of. Texts and elements stay where they are in the file.

use crate::error::{OnnxError, Result, quote};
use crate::wire::{Field, Message};
use std::ops::Range;

/// Messages of one file: beyond, it is none that a program wrote.
const MOST: usize = 1 << 22;

/// A model.
#[derive(Debug, Default)]
pub(crate) struct Model<'a> {
    pub(crate) graph: Graph<'a>,
    /// Domains with their versions.
    pub(crate) opsets: Vec<(&'a str, i64)>,
    /// Functions that it brings along.
    pub(crate) functions: Vec<Function<'a>>,
}

/// A function of the model: nodes that stand for one node of its name.
#[derive(Debug, Default)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    /// Attributes that a call may leave out.
    pub(crate) defaults: Vec<Attribute<'a>>,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) opsets: Vec<(&'a str, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) name: &'a str,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) initializers: Vec<Tensor<'a>>,
    pub(crate) sparse: usize,
    pub(crate) inputs: Vec<ValueInfo<'a>>,
    pub(crate) outputs: Vec<ValueInfo<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct Node<'a> {
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) op: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) attributes: Vec<Attribute<'a>>,
}

#[derive(Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: Given<'a>,
}

/// The value of an attribute.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    Float(f32),
    Int(i64),
    Text(&'a [u8]),
    Tensor(Box<Tensor<'a>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<&'a [u8]>),
    Graph(Box<Graph<'a>>),
    /// The attribute of the function's call that has this name.
    Reference(&'a str),
    /// Something without a use here: its name.
    Other(&'static str),
}

impl Given<'_> {
    /// What kind of value it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Given::Float(_) => "a float",
            Given::Int(_) => "an integer",
            Given::Text(_) => "a text",
            Given::Tensor(_) => "a tensor",
            Given::Floats(_) => "a list of floats",
            Given::Ints(_) => "a list of integers",
            Given::Texts(_) => "a list of texts",
            Given::Graph(_) => "a graph",
            Given::Reference(_) => "a reference to an attribute of a function",
            Given::Other(kind) => kind,
        }
    }
}

/// A tensor with its elements.
#[derive(Debug, Default)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) dims: Vec<i64>,
    pub(crate) dtype: i64,
    /// Where in the file the elements lie, as they are in memory.
    pub(crate) raw: Option<Range<usize>>,
    /// Fields with the elements one by one: number and value.
    pub(crate) typed: Vec<Field<'a>>,
    pub(crate) external: bool,
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    /// The byte at which it begins.
    pub(crate) at: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ValueInfo<'a> {
    pub(crate) name: &'a str,
    /// What it is, where it is no tensor.
    pub(crate) other: Option<&'static str>,
    pub(crate) dtype: i64,
    /// None where nothing is said of its rank.
    pub(crate) dims: Option<Vec<Dim<'a>>>,
}

/// An extent of a declared shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dim<'a> {
    Fixed(i64),
    Symbol(&'a str),
    Unknown,
}

/// What is read, and how much of it there was.
pub(crate) struct Decoder {
    left: usize,
    /// Graphs inside of graphs that may still follow.
    depth: usize,
}

/// Graphs inside of each other at most.
const DEEPEST: usize = 16;

impl Decoder {
    /// The model that a file is.
    pub(crate) fn model(file: &[u8]) -> Result<Model<'_>> {
        let mut d = Decoder { left: MOST, depth: DEEPEST };
        let mut model = Model::default();
        let mut m = Message::whole(file);
        let mut graph = None;
        while let Some(f) = m.next()? {
            match f.number {
                7 if graph.is_some() => {
                    return Err(OnnxError::malformed(f.at, "a second graph; a model has one"));
                }
                7 => graph = Some(d.graph(f.message("ModelProto.graph")?)?),
                8 => model.opsets.push(d.opset(f.message("ModelProto.opset_import")?)?),
                25 => model.functions.push(d.function(f.message("ModelProto.functions")?)?),
                _ => {}
            }
        }
        model.graph = graph.ok_or_else(|| {
            let message = "it has no graph; an ONNX model holds one in its field 7";
            OnnxError::new("malformed", message)
        })?;
        Ok(model)
    }

    fn count(&mut self, at: usize) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            OnnxError::malformed(at, format!("more than {MOST} nodes, tensors and values"))
        })?;
        Ok(())
    }

    fn opset<'a>(&mut self, mut m: Message<'a>) -> Result<(&'a str, i64)> {
        let (mut domain, mut version) = ("", 0);
        self.count(m.range().start)?;
        while let Some(f) = m.next()? {
            match f.number {
                1 => domain = f.text("OperatorSetIdProto.domain")?,
                2 => version = f.int("OperatorSetIdProto.version")?,
                _ => {}
            }
        }
        Ok((domain, version))
    }

    fn function<'a>(&mut self, mut m: Message<'a>) -> Result<Function<'a>> {
        self.count(m.range().start)?;
        let mut made = Function::default();
        while let Some(f) = m.next()? {
            self.count(f.at)?;
            match f.number {
                1 => made.name = f.text("FunctionProto.name")?,
                4 => made.inputs.push(f.text("FunctionProto.input")?),
                5 => made.outputs.push(f.text("FunctionProto.output")?),
                7 => made.nodes.push(self.node(f.message("FunctionProto.node")?)?),
                9 => made.opsets.push(self.opset(f.message("FunctionProto.opset_import")?)?),
                10 => made.domain = f.text("FunctionProto.domain")?,
                11 => {
                    let m = f.message("FunctionProto.attribute_proto")?;
                    made.defaults.push(self.attribute(m)?);
                }
                13 => made.overload = f.text("FunctionProto.overload")?,
                _ => {}
            }
        }
        Ok(made)
    }

    fn graph<'a>(&mut self, mut m: Message<'a>) -> Result<Graph<'a>> {
        let mut g = Graph::default();
        while let Some(f) = m.next()? {
            match f.number {
                1 => g.nodes.push(self.node(f.message("GraphProto.node")?)?),
                2 => g.name = f.text("GraphProto.name")?,
                5 => g.initializers.push(self.tensor(f.message("GraphProto.initializer")?)?),
                11 => g.inputs.push(self.value(f.message("GraphProto.input")?)?),
                12 => g.outputs.push(self.value(f.message("GraphProto.output")?)?),
                15 => g.sparse += 1,
                _ => {}
            }
        }
        Ok(g)
    }

    /// The graph of an attribute.
    fn inner<'a>(&mut self, m: Message<'a>) -> Result<Graph<'a>> {
        let at = m.range().start;
        self.depth = self.depth.checked_sub(1).ok_or_else(|| {
            OnnxError::malformed(at, format!("more than {DEEPEST} graphs inside of each other"))
        })?;
        let graph = self.graph(m);
        self.depth += 1;
        graph
    }

    fn node<'a>(&mut self, mut m: Message<'a>) -> Result<Node<'a>> {
        self.count(m.range().start)?;
        let mut n = Node::default();
        while let Some(f) = m.next()? {
            match f.number {
                1 => {
                    self.count(f.at)?;
                    n.inputs.push(f.text("NodeProto.input")?);
                }
                2 => {
                    self.count(f.at)?;
                    n.outputs.push(f.text("NodeProto.output")?);
                }
                3 => n.name = f.text("NodeProto.name")?,
                4 => n.op = f.text("NodeProto.op_type")?,
                5 => n.attributes.push(self.attribute(f.message("NodeProto.attribute")?)?),
                7 => n.domain = f.text("NodeProto.domain")?,
                8 => n.overload = f.text("NodeProto.overload")?,
                _ => {}
            }
        }
        Ok(n)
    }

    fn attribute<'a>(&mut self, mut m: Message<'a>) -> Result<Attribute<'a>> {
        let at = m.range().start;
        self.count(at)?;
        let (mut name, mut kind) = ("", 0);
        let (mut float, mut int, mut text, mut tensor) = (0.0, 0, &[][..], None);
        let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reference, mut graph) = (None, None);
        while let Some(f) = m.next()? {
            match f.number {
                1 => name = f.text("AttributeProto.name")?,
                2 => float = f.float("AttributeProto.f")?,
                3 => int = f.int("AttributeProto.i")?,
                4 => text = f.message("AttributeProto.s")?.bytes(),
                5 => tensor = Some(self.tensor(f.message("AttributeProto.t")?)?),
                6 => graph = Some(self.inner(f.message("AttributeProto.g")?)?),
                7 => f.fixed::<4>("AttributeProto.floats", &mut floats)?,
                8 => f.ints("AttributeProto.ints", &mut ints)?,
                9 => {
                    self.count(f.at)?;
                    texts.push(f.message("AttributeProto.strings")?.bytes());
                }
                20 => kind = f.int("AttributeProto.type")?,
                21 => reference = Some(f.text("AttributeProto.ref_attr_name")?),
                _ => {}
            }
        }
        let value = match kind {
            _ if reference.is_some_and(|r| !r.is_empty()) => {
                Given::Reference(reference.unwrap_or_default())
            }
            1 => Given::Float(float),
            2 => Given::Int(int),
            3 => Given::Text(text),
            4 => match tensor {
                Some(t) => Given::Tensor(Box::new(t)),
                None => {
                    let message = format!("attribute `{}` has no tensor", quote(name));
                    return Err(OnnxError::malformed(at, message));
                }
            },
            5 => Given::Graph(Box::new(graph.unwrap_or_default())),
            10 => Given::Other("a list of graphs"),
            6 => {
                Given::Floats(floats.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
            }
            7 => Given::Ints(ints),
            8 => Given::Texts(texts),
            9 => Given::Other("a list of tensors"),
            11 | 12 => Given::Other("a sparse tensor"),
            13 | 14 => Given::Other("a type"),
            other => {
                let message =
                    format!("attribute `{}` has type {other}; known: 1 to 14", quote(name));
                return Err(OnnxError::malformed(at, message));
            }
        };
        Ok(Attribute { name, value })
    }

    fn tensor<'a>(&mut self, mut m: Message<'a>) -> Result<Tensor<'a>> {
        let mut t = Tensor { at: m.range().start, ..Tensor::default() };
        self.count(t.at)?;
        while let Some(f) = m.next()? {
            match f.number {
                1 => f.ints("TensorProto.dims", &mut t.dims)?,
                2 => t.dtype = f.int("TensorProto.data_type")?,
                3 => {
                    return Err(OnnxError::malformed(f.at, "a tensor in segments; store it whole"));
                }
                4 | 5 | 6 | 7 | 10 | 11 => {
                    self.count(f.at)?;
                    t.typed.push(f);
                }
                8 => t.name = f.text("TensorProto.name")?,
                9 => t.raw = Some(f.message("TensorProto.raw_data")?.range()),
                13 => {
                    self.count(f.at)?;
                    t.entries.push(entry(f.message("TensorProto.external_data")?)?);
                }
                14 => t.external = f.int("TensorProto.data_location")? == 1,
                _ => {}
            }
        }
        Ok(t)
    }

    fn value<'a>(&mut self, mut m: Message<'a>) -> Result<ValueInfo<'a>> {
        self.count(m.range().start)?;
        let mut v = ValueInfo::default();
        while let Some(f) = m.next()? {
            match f.number {
                1 => v.name = f.text("ValueInfoProto.name")?,
                2 => self.kind(f.message("ValueInfoProto.type")?, &mut v)?,
                _ => {}
            }
        }
        Ok(v)
    }

    fn kind<'a>(&mut self, mut m: Message<'a>, v: &mut ValueInfo<'a>) -> Result<()> {
        while let Some(f) = m.next()? {
            match f.number {
                1 => {
                    let mut t = f.message("TypeProto.tensor_type")?;
                    while let Some(f) = t.next()? {
                        match f.number {
                            1 => v.dtype = f.int("TypeProto.Tensor.elem_type")?,
                            2 => v.dims = Some(self.shape(f.message("TypeProto.Tensor.shape")?)?),
                            _ => {}
                        }
                    }
                }
                4 => v.other = Some("a sequence"),
                5 => v.other = Some("a map"),
                8 => v.other = Some("a sparse tensor"),
                9 => v.other = Some("an optional"),
                _ => {}
            }
        }
        Ok(())
    }

    fn shape<'a>(&mut self, mut m: Message<'a>) -> Result<Vec<Dim<'a>>> {
        let mut dims = Vec::new();
        while let Some(f) = m.next()? {
            if f.number != 1 {
                continue;
            }
            self.count(f.at)?;
            let mut d = f.message("TensorShapeProto.dim")?;
            let mut dim = Dim::Unknown;
            while let Some(f) = d.next()? {
                match f.number {
                    1 => dim = Dim::Fixed(f.int("Dimension.dim_value")?),
                    2 => match f.text("Dimension.dim_param")? {
                        "" => {}
                        name => dim = Dim::Symbol(name),
                    },
                    _ => {}
                }
            }
            dims.push(dim);
        }
        Ok(dims)
    }
}

fn entry(mut m: Message<'_>) -> Result<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    while let Some(f) = m.next()? {
        match f.number {
            1 => key = f.text("StringStringEntryProto.key")?,
            2 => value = f.text("StringStringEntryProto.value")?,
            _ => {}
        }
    }
    Ok((key, value))
}
