//! Runs a graph without a compiler, one operation after the other with default divisions: the numbers that a compiled
//! program is compared with.

use crate::error::{ProgramRunError, Result};
use crate::host_array::HostArray;
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_graph::{Graph, TensorId, TensorOrigin};

/// The outputs of a graph, run without a compiler: every operation alone, with default divisions.
///
/// # Errors
/// Inputs that are not what the graph says, indices out of range, no room.
pub fn run_graph_eagerly(
    graph: &Graph,
    card: &Card,
    mut input: impl FnMut(&str) -> Result<HostArray>,
) -> Result<Vec<HostArray>> {
    let mut tensors: Vec<Option<Tensor>> = Vec::new();
    for (_, t) in graph.tensors() {
        tensors.push(match &t.def {
            TensorOrigin::Input(_) => {
                let host = input(&t.name)?;
                // Checked here, because the device would take a tensor of another size and give a result of another
                // size.
                if (host.size(), host.dtype()) != (&t.size[..], t.dtype) {
                    return Err(ProgramRunError::BadInput {
                        name: t.name.clone(),
                        found: format!("{}{:?}", host.dtype(), host.size()),
                        expected: format!("{}{:?}", t.dtype, t.size),
                    });
                }
                Some(Tensor::upload(card, host.bytes(), host.view(), host.dtype(), None)?.0)
            }
            TensorOrigin::Constant(value) => {
                let made = Tensor::empty(card, &t.size, t.dtype)?;
                // A constant has no layout of its own here: the default one of its size serves every operation.
                made.fill(*value)?;
                Some(made)
            }
            _ => None,
        });
    }
    for (_, node) in graph.nodes() {
        let operands: Vec<Tensor> =
            node.inputs.iter().map(|i| view_operand(graph, &tensors, *i)).collect::<Result<_>>()?;
        let name = || graph.get(node.outputs[0]).name.clone();
        let ran = node.op.run_op(card, &operands);
        let ran = ran.map_err(|source| ProgramRunError::Step { step: name(), source })?;
        for (id, made) in node.outputs.iter().zip(ran.outputs) {
            tensors[id.0] = Some(made);
        }
    }
    let outputs = graph.outputs().iter().map(|id| {
        let t = view_operand(graph, &tensors, *id)?;
        HostArray::from_contiguous(t.download(t.dtype())?, t.size(), t.dtype())
    });
    outputs.collect()
}

/// A tensor of the graph, through its view; operations give row-major own strides.
fn view_operand(graph: &Graph, tensors: &[Option<Tensor>], id: TensorId) -> Result<Tensor> {
    let (base, view) = graph.base_and_view(id);
    let whole = tensors[base.0].as_ref().ok_or_else(|| ProgramRunError::NoInput {
        name: graph.get(base).name.clone(),
        reason: "it is used before it is made".into(),
    })?;
    // Operations see the graph's views as strides over whole tensors, which the device follows by itself or refuses.
    match view {
        Some(view) => Ok(whole.view_with(|_| Ok(view.clone()))?),
        None => Ok(whole.clone()),
    }
}
