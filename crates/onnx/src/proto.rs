//! Decodes the messages of ONNX that describe graphs. Texts and elements are not copied: they
//! borrow from the file.

use crate::error::{OnnxError, Result, quote_start};
use crate::wire::{WireField, WireMessage};
use std::ops::Range;

/// The largest number of messages in one file. No exporter writes more.
// A message takes two bytes of the file and about a hundred of memory, so a file of a gigabyte
// could ask for fifty. The largest exported models have some hundred thousand nodes.
const MAX_MESSAGES: usize = 1 << 22;

/// A model.
#[derive(Debug, Default)]
pub(crate) struct ModelProto<'a> {
    pub(crate) graph: GraphProto<'a>,
    /// The imported domains with their opsets.
    pub(crate) opsets: Vec<(&'a str, i64)>,
    /// The functions that the model defines.
    pub(crate) functions: Vec<FunctionProto<'a>>,
}

/// A function of the model: the nodes that replace a node of its name.
#[derive(Debug, Default)]
pub(crate) struct FunctionProto<'a> {
    pub(crate) name: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    /// The default values of attributes that a call may leave out.
    pub(crate) defaults: Vec<AttributeProto<'a>>,
    pub(crate) nodes: Vec<NodeProto<'a>>,
    pub(crate) opsets: Vec<(&'a str, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct GraphProto<'a> {
    pub(crate) name: &'a str,
    pub(crate) nodes: Vec<NodeProto<'a>>,
    pub(crate) initializers: Vec<TensorProto<'a>>,
    pub(crate) sparse: usize,
    pub(crate) inputs: Vec<ValueInfo<'a>>,
    pub(crate) outputs: Vec<ValueInfo<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeProto<'a> {
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) op: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) attributes: Vec<AttributeProto<'a>>,
}

#[derive(Debug)]
pub(crate) struct AttributeProto<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Debug)]
pub(crate) enum AttributeValue<'a> {
    Float(f32),
    Int(i64),
    Text(&'a [u8]),
    Tensor(Box<TensorProto<'a>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<&'a [u8]>),
    Graph(Box<GraphProto<'a>>),
    /// A reference to the attribute of this name of the function call.
    Reference(&'a str),
    /// A kind of value without a use here, by its name.
    Other(&'static str),
}

impl AttributeValue<'_> {
    /// The kind of the value, for messages.
    pub(crate) fn value_kind(&self) -> &'static str {
        match self {
            AttributeValue::Float(_) => "a float",
            AttributeValue::Int(_) => "an integer",
            AttributeValue::Text(_) => "a text",
            AttributeValue::Tensor(_) => "a tensor",
            AttributeValue::Floats(_) => "a list of floats",
            AttributeValue::Ints(_) => "a list of integers",
            AttributeValue::Texts(_) => "a list of texts",
            AttributeValue::Graph(_) => "a graph",
            AttributeValue::Reference(_) => "a reference to an attribute of a function",
            AttributeValue::Other(kind) => kind,
        }
    }
}

/// A tensor with its elements.
#[derive(Debug, Default)]
pub(crate) struct TensorProto<'a> {
    pub(crate) name: &'a str,
    pub(crate) dims: Vec<i64>,
    pub(crate) dtype: i64,
    /// The bytes of the file that hold the elements as they are in memory.
    pub(crate) raw: Option<Range<usize>>,
    /// Fields that hold the elements one by one: number and value.
    pub(crate) typed: Vec<WireField<'a>>,
    pub(crate) external: bool,
    pub(crate) entries: Vec<(&'a str, &'a str)>,
    /// The byte at which it begins.
    pub(crate) at: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ValueInfo<'a> {
    pub(crate) name: &'a str,
    /// The kind of value, if it is not a tensor.
    pub(crate) other: Option<&'static str>,
    pub(crate) dtype: i64,
    /// `None` if the file does not give its rank.
    pub(crate) dims: Option<Vec<DeclaredDim<'a>>>,
}

/// A dimension of a declared shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeclaredDim<'a> {
    Fixed(i64),
    Symbol(&'a str),
    Unknown,
}

/// Decodes messages and counts them.
pub(crate) struct ProtoDecoder {
    left: usize,
    /// The remaining depth of nested graphs.
    depth: usize,
}

/// The largest depth of nested graphs.
const MAX_GRAPH_DEPTH: usize = 16;

impl ProtoDecoder {
    /// Decodes a file as a model.
    pub(crate) fn decode_model(file: &[u8]) -> Result<ModelProto<'_>> {
        let mut d = ProtoDecoder { left: MAX_MESSAGES, depth: MAX_GRAPH_DEPTH };
        let mut model = ModelProto::default();
        let mut m = WireMessage::whole_file(file);
        let mut graph = None;
        while let Some(f) = m.next_field()? {
            match f.number {
                // Protocol buffers merge a message that occurs twice. No exporter writes a model in
                // parts, and merging would make node numbers in messages wrong.
                7 if graph.is_some() => {
                    return Err(OnnxError::malformed_file(f.at, "a second graph; a model has one"));
                }
                7 => graph = Some(d.decode_graph(f.as_message("ModelProto.graph")?)?),
                8 => model.opsets.push(d.decode_opset(f.as_message("ModelProto.opset_import")?)?),
                25 => {
                    model.functions.push(d.decode_function(f.as_message("ModelProto.functions")?)?);
                }
                _ => {}
            }
        }
        model.graph = graph.ok_or_else(|| {
            let message = "it has no graph; an ONNX model holds one in its field 7";
            OnnxError::new("malformed", message)
        })?;
        Ok(model)
    }

    fn count_message(&mut self, at: usize) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            OnnxError::malformed_file(
                at,
                format!("more than {MAX_MESSAGES} nodes, tensors and values"),
            )
        })?;
        Ok(())
    }

    fn decode_opset<'a>(&mut self, mut m: WireMessage<'a>) -> Result<(&'a str, i64)> {
        let (mut domain, mut version) = ("", 0);
        self.count_message(m.remaining_range().start)?;
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => domain = f.as_text("OperatorSetIdProto.domain")?,
                2 => version = f.as_int("OperatorSetIdProto.version")?,
                _ => {}
            }
        }
        Ok((domain, version))
    }

    fn decode_function<'a>(&mut self, mut m: WireMessage<'a>) -> Result<FunctionProto<'a>> {
        self.count_message(m.remaining_range().start)?;
        let mut made = FunctionProto::default();
        while let Some(f) = m.next_field()? {
            self.count_message(f.at)?;
            match f.number {
                1 => made.name = f.as_text("FunctionProto.name")?,
                4 => made.inputs.push(f.as_text("FunctionProto.input")?),
                5 => made.outputs.push(f.as_text("FunctionProto.output")?),
                7 => made.nodes.push(self.decode_node(f.as_message("FunctionProto.node")?)?),
                9 => made
                    .opsets
                    .push(self.decode_opset(f.as_message("FunctionProto.opset_import")?)?),
                10 => made.domain = f.as_text("FunctionProto.domain")?,
                11 => {
                    let m = f.as_message("FunctionProto.attribute_proto")?;
                    made.defaults.push(self.decode_attribute(m)?);
                }
                13 => made.overload = f.as_text("FunctionProto.overload")?,
                _ => {}
            }
        }
        Ok(made)
    }

    fn decode_graph<'a>(&mut self, mut m: WireMessage<'a>) -> Result<GraphProto<'a>> {
        let mut g = GraphProto::default();
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => g.nodes.push(self.decode_node(f.as_message("GraphProto.node")?)?),
                2 => g.name = f.as_text("GraphProto.name")?,
                5 => g
                    .initializers
                    .push(self.decode_tensor(f.as_message("GraphProto.initializer")?)?),
                11 => g.inputs.push(self.decode_value_info(f.as_message("GraphProto.input")?)?),
                12 => g.outputs.push(self.decode_value_info(f.as_message("GraphProto.output")?)?),
                15 => g.sparse += 1,
                _ => {}
            }
        }
        Ok(g)
    }

    /// Decodes the graph of an attribute.
    fn decode_inner_graph<'a>(&mut self, m: WireMessage<'a>) -> Result<GraphProto<'a>> {
        let at = m.remaining_range().start;
        self.depth = self.depth.checked_sub(1).ok_or_else(|| {
            OnnxError::malformed_file(
                at,
                format!("more than {MAX_GRAPH_DEPTH} graphs inside of each other"),
            )
        })?;
        // Branches and bodies of loops are graphs in attributes of nodes, so decoding recurses
        // exactly here.
        let graph = self.decode_graph(m);
        self.depth += 1;
        graph
    }

    fn decode_node<'a>(&mut self, mut m: WireMessage<'a>) -> Result<NodeProto<'a>> {
        self.count_message(m.remaining_range().start)?;
        let mut n = NodeProto::default();
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => {
                    self.count_message(f.at)?;
                    n.inputs.push(f.as_text("NodeProto.input")?);
                }
                2 => {
                    self.count_message(f.at)?;
                    n.outputs.push(f.as_text("NodeProto.output")?);
                }
                3 => n.name = f.as_text("NodeProto.name")?,
                4 => n.op = f.as_text("NodeProto.op_type")?,
                5 => {
                    n.attributes.push(self.decode_attribute(f.as_message("NodeProto.attribute")?)?);
                }
                7 => n.domain = f.as_text("NodeProto.domain")?,
                8 => n.overload = f.as_text("NodeProto.overload")?,
                _ => {}
            }
        }
        Ok(n)
    }

    fn decode_attribute<'a>(&mut self, mut m: WireMessage<'a>) -> Result<AttributeProto<'a>> {
        let at = m.remaining_range().start;
        self.count_message(at)?;
        let (mut name, mut kind) = ("", 0);
        let (mut float, mut int, mut text, mut tensor) = (0.0, 0, &[][..], None);
        let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reference, mut graph) = (None, None);
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => name = f.as_text("AttributeProto.name")?,
                2 => float = f.as_float("AttributeProto.f")?,
                3 => int = f.as_int("AttributeProto.i")?,
                4 => text = f.as_message("AttributeProto.s")?.remaining_bytes(),
                5 => tensor = Some(self.decode_tensor(f.as_message("AttributeProto.t")?)?),
                6 => graph = Some(self.decode_inner_graph(f.as_message("AttributeProto.g")?)?),
                7 => f.append_fixed::<4>("AttributeProto.floats", &mut floats)?,
                8 => f.append_ints("AttributeProto.ints", &mut ints)?,
                9 => {
                    self.count_message(f.at)?;
                    texts.push(f.as_message("AttributeProto.strings")?.remaining_bytes());
                }
                20 => kind = f.as_int("AttributeProto.type")?,
                21 => reference = Some(f.as_text("AttributeProto.ref_attr_name")?),
                _ => {}
            }
        }
        let value = match kind {
            // Inside of a function an attribute may name one of the call instead of a value; its
            // `type` is then that of the attribute of the call.
            _ if reference.is_some_and(|r| !r.is_empty()) => {
                AttributeValue::Reference(reference.unwrap_or_default())
            }
            // The field `type` decides, as the ONNX specification requires since IR version 2: an
            // empty list and a missing one look the same otherwise, because protocol buffers do not
            // write empty lists.
            1 => AttributeValue::Float(float),
            2 => AttributeValue::Int(int),
            3 => AttributeValue::Text(text),
            4 => match tensor {
                Some(t) => AttributeValue::Tensor(Box::new(t)),
                None => {
                    let message = format!("attribute `{}` has no tensor", quote_start(name));
                    return Err(OnnxError::malformed_file(at, message));
                }
            },
            5 => AttributeValue::Graph(Box::new(graph.unwrap_or_default())),
            10 => AttributeValue::Other("a list of graphs"),
            6 => AttributeValue::Floats(
                floats.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            ),
            7 => AttributeValue::Ints(ints),
            8 => AttributeValue::Texts(texts),
            9 => AttributeValue::Other("a list of tensors"),
            11 | 12 => AttributeValue::Other("a sparse tensor"),
            13 | 14 => AttributeValue::Other("a type"),
            other => {
                let message =
                    format!("attribute `{}` has type {other}; known: 1 to 14", quote_start(name));
                return Err(OnnxError::malformed_file(at, message));
            }
        };
        Ok(AttributeProto { name, value })
    }

    fn decode_tensor<'a>(&mut self, mut m: WireMessage<'a>) -> Result<TensorProto<'a>> {
        let mut t = TensorProto { at: m.remaining_range().start, ..TensorProto::default() };
        self.count_message(t.at)?;
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => f.append_ints("TensorProto.dims", &mut t.dims)?,
                2 => t.dtype = f.as_int("TensorProto.data_type")?,
                3 => {
                    return Err(OnnxError::malformed_file(
                        f.at,
                        "a tensor in segments; store it whole",
                    ));
                }
                // Elements may stand in one of six typed fields, and which one depends on the
                // dtype, which may follow later in the file. The fields are kept and read when the
                // tensor is needed.
                4 | 5 | 6 | 7 | 10 | 11 => {
                    self.count_message(f.at)?;
                    t.typed.push(f);
                }
                8 => t.name = f.as_text("TensorProto.name")?,
                9 => t.raw = Some(f.as_message("TensorProto.raw_data")?.remaining_range()),
                13 => {
                    self.count_message(f.at)?;
                    t.entries.push(decode_entry(f.as_message("TensorProto.external_data")?)?);
                }
                // 1 is EXTERNAL in `TensorProto.DataLocation`.
                14 => t.external = f.as_int("TensorProto.data_location")? == 1,
                _ => {}
            }
        }
        Ok(t)
    }

    fn decode_value_info<'a>(&mut self, mut m: WireMessage<'a>) -> Result<ValueInfo<'a>> {
        self.count_message(m.remaining_range().start)?;
        let mut v = ValueInfo::default();
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => v.name = f.as_text("ValueInfoProto.name")?,
                2 => self.decode_type(f.as_message("ValueInfoProto.type")?, &mut v)?,
                _ => {}
            }
        }
        Ok(v)
    }

    fn decode_type<'a>(&mut self, mut m: WireMessage<'a>, v: &mut ValueInfo<'a>) -> Result<()> {
        while let Some(f) = m.next_field()? {
            match f.number {
                1 => {
                    let mut t = f.as_message("TypeProto.tensor_type")?;
                    while let Some(f) = t.next_field()? {
                        match f.number {
                            1 => v.dtype = f.as_int("TypeProto.Tensor.elem_type")?,
                            2 => {
                                v.dims = Some(
                                    self.decode_shape(f.as_message("TypeProto.Tensor.shape")?)?,
                                );
                            }
                            _ => {}
                        }
                    }
                }
                // The other kinds of `TypeProto` are kept as a name only: a refusal should say what
                // the input is.
                4 => v.other = Some("a sequence"),
                5 => v.other = Some("a map"),
                8 => v.other = Some("a sparse tensor"),
                9 => v.other = Some("an optional"),
                _ => {}
            }
        }
        Ok(())
    }

    fn decode_shape<'a>(&mut self, mut m: WireMessage<'a>) -> Result<Vec<DeclaredDim<'a>>> {
        let mut dims = Vec::new();
        while let Some(f) = m.next_field()? {
            if f.number != 1 {
                continue;
            }
            self.count_message(f.at)?;
            let mut d = f.as_message("TensorShapeProto.dim")?;
            let mut dim = DeclaredDim::Unknown;
            while let Some(f) = d.next_field()? {
                match f.number {
                    1 => dim = DeclaredDim::Fixed(f.as_int("Dimension.dim_value")?),
                    2 => match f.as_text("Dimension.dim_param")? {
                        // A dimension with an empty parameter is unknown, like one without a
                        // parameter.
                        "" => {}
                        name => dim = DeclaredDim::Symbol(name),
                    },
                    _ => {}
                }
            }
            dims.push(dim);
        }
        Ok(dims)
    }
}

fn decode_entry(mut m: WireMessage<'_>) -> Result<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    while let Some(f) = m.next_field()? {
        match f.number {
            1 => key = f.as_text("StringStringEntryProto.key")?,
            2 => value = f.as_text("StringStringEntryProto.value")?,
            _ => {}
        }
    }
    Ok((key, value))
}
