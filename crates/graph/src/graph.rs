//! The graph itself.

use crate::error::{GraphError, Result};
use serde_json::{Map, Value};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::{HostScalar, TensorOp};
use zellige_stick::{DataFormat, LayoutRequest, StickLayout};

/// A tensor of a graph, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub usize);

/// An operation of a graph, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// What an input is to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InputRole {
    /// Given at every run.
    #[default]
    Input,
    /// The same at every run; on the device before the first.
    Weight,
    /// Kept on the device from run to run, and changed there.
    State,
}

impl InputRole {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            InputRole::Input => "input",
            InputRole::Weight => "weight",
            InputRole::State => "state",
        }
    }

    /// The role of a word.
    pub fn from_name(name: &str) -> Option<InputRole> {
        [InputRole::Input, InputRole::Weight, InputRole::State]
            .into_iter()
            .find(|r| r.name() == name)
    }
}

/// A memory of the card that a tensor can be in while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestedMemory {
    /// The scratchpads of the cores, a part of the tensor in each.
    Lx,
    /// Device memory.
    Memory,
}

impl RequestedMemory {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            RequestedMemory::Lx => "lx",
            RequestedMemory::Memory => "memory",
        }
    }

    /// The memory of a word.
    pub fn from_name(name: &str) -> Option<RequestedMemory> {
        [RequestedMemory::Lx, RequestedMemory::Memory].into_iter().find(|m| m.name() == name)
    }
}

/// How many slices the programmer wants of each dimension of an operation's iteration space.
pub type SliceHints = Vec<(String, usize)>;

/// Where a tensor comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorOrigin {
    /// Outside.
    Input(InputRole),
    /// A number that the program contains, the same in all elements.
    Constant(HostScalar),
    /// Result `1` of an operation.
    Result(NodeId, usize),
    /// Another tensor, seen through strides over its row-major index.
    View {
        /// The tensor that has the elements: never a view itself.
        base: TensorId,
        /// Size, strides and offset in row-major elements of the base.
        map: StridedLayout,
        /// How it was written: the view operation, its operand and its attributes.
        made: (String, TensorId, Map<String, Value>),
    },
}

impl TensorOrigin {
    /// A constant.
    pub fn from_constant(value: impl Into<HostScalar>) -> TensorOrigin {
        TensorOrigin::Constant(value.into().to_exact_float())
    }
}

/// A tensor: name, size, dtype, origin, and what the programmer asks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphTensor {
    /// Its name, unique in the graph.
    pub name: String,
    /// Extents.
    pub size: Vec<i64>,
    /// Dtype.
    pub dtype: Dtype,
    /// Origin.
    pub def: TensorOrigin,
    /// The layout it must have.
    pub pin: Option<LayoutRequest>,
    /// The memory it must be in.
    pub place: Option<RequestedMemory>,
}

impl GraphTensor {
    /// Pins the layout; the rules are those of [`GraphBuilder::pin_layout`](crate::GraphBuilder::pin_layout).
    pub(crate) fn set_pin(&mut self, pin: LayoutRequest) -> Result<()> {
        let bad = |message: String| {
            Err(GraphError::new("bad_pin", format!("`{}`: {message}", self.name)))
        };
        if let TensorOrigin::View { .. } = self.def {
            return bad("a view has the layout of its base; pin that, or a clone".into());
        }
        if let Some(other) = self.pin.as_ref().filter(|p| **p != pin) {
            let (first, second) = (crate::text::print_pin(other), crate::text::print_pin(&pin));
            return bad(format!("two pins contradict each other: {first}, {second}"));
        }
        let rank = self.size.len();
        // A pin is checked in the device format of the dtype, because a stick of 16-bit elements holds twice as many
        // as one of 32 bits.
        let format = DataFormat::device_format_of(self.dtype)?;
        match &pin {
            LayoutRequest::Stick(d) if usize::try_from(*d).is_ok_and(|d| d < rank) => {}
            LayoutRequest::Stick(d) => {
                return bad(format!("there is no dimension {d}; it has {rank}"));
            }
            LayoutRequest::Sparse => {}
            LayoutRequest::Order(order) => {
                StickLayout::with_dim_order_in_format(&self.size, None, format, order)?;
            }
            // Lowered here although the result is not needed: a layout that has no mapping would be refused by the
            // compiler much later, without the place in the text.
            LayoutRequest::Exactly(layout) => {
                layout.with_host(&self.size, None)?.lower_to_layout()?;
            }
        }
        self.pin = Some(pin);
        Ok(())
    }
}

/// An operation.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// The operation with its attributes.
    pub op: TensorOp,
    /// The attributes as written.
    pub attributes: Map<String, Value>,
    /// Operands.
    pub inputs: Vec<TensorId>,
    /// Results.
    pub outputs: Vec<TensorId>,
    /// Slices that the programmer wants.
    pub hint: SliceHints,
    /// Where the model's source says it.
    pub at: Option<String>,
}

impl PartialEq for GraphNode {
    fn eq(&self, other: &GraphNode) -> bool {
        // The form of an operation follows from its name and its attributes, so that these are what is compared.
        self.op.name() == other.op.name()
            && self.attributes == other.attributes
            && self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.hint == other.hint
            && self.at == other.at
    }
}

/// A well-typed graph with all sizes known.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) tensors: Vec<GraphTensor>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) inputs: Vec<TensorId>,
    pub(crate) outputs: Vec<TensorId>,
}

impl Graph {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tensors, each after what it depends on.
    pub fn tensors(&self) -> impl Iterator<Item = (TensorId, &GraphTensor)> {
        self.tensors.iter().enumerate().map(|(i, t)| (TensorId(i), t))
    }

    /// All operations, in an order in which they can run.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &GraphNode)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId(i), n))
    }

    /// A tensor of this graph.
    pub fn get(&self, id: TensorId) -> &GraphTensor {
        &self.tensors[id.0]
    }

    /// An operation of this graph.
    pub fn node(&self, id: NodeId) -> &GraphNode {
        &self.nodes[id.0]
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&GraphTensor> {
        // Linear, because only people and tests ask by name; passes have numbers.
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The number of a name.
    pub fn tensor_id(&self, name: &str) -> Option<TensorId> {
        self.tensors.iter().position(|t| t.name == name).map(TensorId)
    }

    /// The same graph with the layout of one tensor pinned.
    ///
    /// # Errors
    /// As [`GraphBuilder::pin_layout`](crate::GraphBuilder::pin_layout).
    pub fn with_pin(&self, id: TensorId, pin: LayoutRequest) -> Result<Graph> {
        let mut graph = self.clone();
        graph.tensors[id.0].set_pin(pin)?;
        Ok(graph)
    }

    /// The same graph without any pins.
    #[must_use]
    pub fn without_pins(&self) -> Graph {
        let mut graph = self.clone();
        graph.tensors.iter_mut().for_each(|t| t.pin = None);
        graph
    }

    /// What comes from outside.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// What goes out.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }

    /// The tensor that has the elements of another, and how the other sees it.
    pub fn base_and_view(&self, id: TensorId) -> (TensorId, Option<&StridedLayout>) {
        match &self.get(id).def {
            TensorOrigin::View { base, map, .. } => (*base, Some(map)),
            _ => (id, None),
        }
    }

    /// The operations that read a tensor or a view of it, with the number of the operand.
    pub fn uses_of_tensor(&self, id: TensorId) -> impl Iterator<Item = (NodeId, usize)> {
        self.nodes().flat_map(move |(n, node)| {
            let operands = node.inputs.iter().enumerate();
            operands.filter(move |(_, t)| self.base_and_view(**t).0 == id).map(move |(k, _)| (n, k))
        })
    }
}
