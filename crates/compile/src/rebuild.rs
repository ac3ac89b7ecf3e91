//! A graph rebuilt tensor by tensor: the part that all passes which change graphs share.

use crate::error::Result;
use zellige_graph::{
    Graph, GraphBuilder, GraphNode, GraphOperand, GraphTensor, TensorId, TensorOrigin,
};
use zellige_layout::StridedLayout;

/// A graph and its successor so far.
pub(crate) struct GraphRebuild<'g> {
    graph: &'g Graph,
    /// The successor.
    pub(crate) builder: GraphBuilder,
    map: Vec<Option<TensorId>>,
}

impl<'g> GraphRebuild<'g> {
    /// The successor with the same name and inputs.
    pub(crate) fn new(graph: &'g Graph) -> Result<GraphRebuild<'g>> {
        let mut to = GraphRebuild {
            graph,
            builder: GraphBuilder::new(graph.name()),
            map: vec![None; graph.tensors().count()],
        };
        // Inputs come first and all of them, used or not: the caller gives them by position.
        for id in graph.inputs() {
            let t = graph.get(*id);
            let TensorOrigin::Input(role) = t.def else { continue };
            let made = to.builder.add_input(&t.name, &t.size, t.dtype, role)?;
            to.set_successor(*id, made)?;
        }
        Ok(to)
    }

    /// What a tensor is in the successor; constants come with their first reader.
    pub(crate) fn successor_tensor(&mut self, id: TensorId) -> Result<TensorId> {
        if let Some(made) = self.map[id.0] {
            return Ok(made);
        }
        let t = self.graph.get(id);
        let TensorOrigin::Constant(value) = t.def else {
            unreachable!("each tensor comes after what it depends on");
        };
        let made = self.builder.add_constant(value, t.dtype)?;
        self.map[id.0] = Some(made);
        Ok(made)
    }

    /// The size of the tensor behind a tensor of the successor, and how that is seen; none of the tensor itself.
    pub(crate) fn base_and_view(&self, id: TensorId) -> (Vec<i64>, Option<StridedLayout>) {
        let Some(made) = self.map[id.0] else {
            // Constants come with their first reader.
            return (self.graph.get(id).size.clone(), None);
        };
        let t = self.builder.tensor(made);
        match &t.def {
            TensorOrigin::View { base, map, .. } => {
                (self.builder.tensor(*base).size.clone(), Some(map.clone()))
            }
            _ => (t.size.clone(), None),
        }
    }

    /// The name, or one like it that no tensor of either graph has.
    pub(crate) fn free_name(&self, name: &str) -> String {
        let taken =
            |n: &str| self.graph.tensor_id(n).is_some() || self.builder.tensor_id(n).is_some();
        let more = (2..).map(|k| format!("{name}.{k}"));
        std::iter::once(name.to_string()).chain(more).find(|n| !taken(n)).unwrap_or_default()
    }

    /// The operands of an operation in the successor.
    pub(crate) fn successor_operands(&mut self, node: &GraphNode) -> Result<Vec<GraphOperand>> {
        node.inputs.iter().map(|i| Ok(GraphOperand::Tensor(self.successor_tensor(*i)?))).collect()
    }

    /// Says what a tensor is in the successor, with the pin and the place that it had.
    pub(crate) fn set_successor(&mut self, id: TensorId, made: TensorId) -> Result<()> {
        // Requests of the programmer belong to the tensor and not to the operation that makes it, so that they
        // survive every rewrite.
        if let Some(pin) = &self.graph.get(id).pin {
            self.builder.pin_layout(made, pin.clone())?;
        }
        if let Some(place) = self.graph.get(id).place {
            self.builder.place_tensor(made, place)?;
        }
        self.map[id.0] = Some(made);
        Ok(())
    }

    /// Says that a tensor is another one of the successor.
    pub(crate) fn alias_tensor(&mut self, id: TensorId, made: TensorId) {
        self.map[id.0] = Some(made);
    }

    /// The same operation on the successors of its operands.
    pub(crate) fn copy_node(&mut self, node: &GraphNode) -> Result<()> {
        let operands = self.successor_operands(node)?;
        let names: Vec<&str> =
            node.outputs.iter().map(|o| self.graph.get(*o).name.as_str()).collect();
        let made = self.builder.add_op(node.op.name(), &operands, &node.attributes, &names)?;
        for (id, made) in node.outputs.iter().zip(&made) {
            self.set_successor(*id, *made)?;
        }
        if !node.hint.is_empty() {
            self.builder.hint_splits(made[0], node.hint.clone())?;
        }
        if let Some(at) = &node.at {
            self.builder.set_source_location(made[0], at.clone());
        }
        Ok(())
    }

    /// The same view of the successor of what it looks at.
    pub(crate) fn copy_view(&mut self, id: TensorId, t: &GraphTensor) -> Result<()> {
        let TensorOrigin::View { made: (op, of, attributes), .. } = &t.def else { return Ok(()) };
        let of = self.successor_tensor(*of)?;
        let made = self.builder.add_op(op, &[GraphOperand::Tensor(of)], attributes, &[&t.name])?;
        self.set_successor(id, made[0])
    }

    /// The successor with the successors of the outputs.
    pub(crate) fn finish_graph(mut self) -> Result<Graph> {
        let outputs: Vec<TensorId> = self
            .graph
            .outputs()
            .iter()
            .map(|o| self.successor_tensor(*o))
            .collect::<Result<_>>()?;
        Ok(self.builder.finish_graph(&outputs)?)
    }
}
