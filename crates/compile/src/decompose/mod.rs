//! Decomposition of operations that the card has no instruction for into those it has.
//!
//! What torch-spyre decomposes too ([`OpDecomposition::Parts`]) becomes native and
//! custom operations here; the parts of `y` are named `y.part`, and the last one keeps the name, the pin and the place
//! in the source.
//!
//! **Law**: the new graph computes the same function of finite numbers. Every part rounds its result to
//! the stored format, where the whole operation rounds once, so that the two agree within a few roundings
//! of the numbers on the way. What would lose more than that stays whole, with the reason.
//!
//! | file | decomposes |
//! |---|---|
//! | `products` | linear, addmm, baddbmm, mv, dot, vecdot, outer |
//! | `attention` | scaled_dot_product_attention |
//! | `rows` | softmax, log_softmax, max and min along a dimension |
//! | `pointwise` | activations, rounding, tests, arithmetic |
//! | `shape` | stack, repeat, repeat_interleave |
//! | `functions` | what programs keep whole and the form of kernels has no function for |

mod attention;
mod functions;
mod pointwise;
mod products;
mod recipe;
mod rows;
mod shape;

use crate::error::Result;
use crate::rebuild::GraphRebuild;
use recipe::{DecompositionRecipe, DecompositionRefusal, PartBuilder, RecipeInput};
use zellige_device::StoragePolicy;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, GraphNode, GraphOperand, TensorOrigin};
use zellige_op::OpDecomposition;
use zellige_op::is_float;

/// A graph without composite operations, and what was done.
#[derive(Debug, Clone, PartialEq)]
pub struct DecomposedGraph {
    /// The new graph.
    pub graph: Graph,
    /// What was decomposed.
    pub taken: Vec<DecomposedOp>,
    /// What was not.
    pub whole: Vec<UndecomposedOp>,
}

/// An operation that was decomposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecomposedOp {
    /// Its first result.
    pub result: String,
    /// Its name.
    pub op: &'static str,
    /// The operations and views that it became.
    pub parts: Vec<&'static str>,
}

/// A composite operation that stays whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecomposedOp {
    /// Its first result.
    pub result: String,
    /// Its name.
    pub op: &'static str,
    /// Why.
    pub reason: String,
}

/// Decomposes composite operations, for tensors under this storage policy.
///
/// # Errors
/// Names of parts that are taken.
pub fn decompose_graph(graph: &Graph, storage: StoragePolicy) -> Result<DecomposedGraph> {
    let mut to = GraphRebuild::new(graph)?;
    let (mut taken, mut whole) = (Vec::new(), Vec::new());
    for (id, t) in graph.tensors() {
        match &t.def {
            TensorOrigin::Result(node, 0) => {
                let node = graph.node(*node);
                let (result, op) = (t.name.clone(), node.op.name());
                let reason = match find_working_recipe(graph, node, storage) {
                    None => None,
                    Some(Ok(recipe)) => {
                        let operands = to.successor_operands(node)?;
                        let given = RecipeInput::new(graph, node, operands, storage);
                        let mut parts = PartBuilder::new(&mut to.builder, graph, node);
                        let made =
                            recipe(&mut parts, &given).map_err(DecompositionRefusal::into_error)?;
                        let parts = parts.into_added_names();
                        for (id, made) in node.outputs.iter().zip(made) {
                            to.set_successor(*id, made)?;
                        }
                        taken.push(DecomposedOp { result, op, parts });
                        continue;
                    }
                    Some(Err(reason)) => Some(reason),
                };
                whole.extend(reason.map(|reason| UndecomposedOp { result, op, reason }));
                to.copy_node(node)?;
            }
            TensorOrigin::View { .. } => to.copy_view(id, t)?,
            _ => {}
        }
    }
    Ok(DecomposedGraph { graph: to.finish_graph()?, taken, whole })
}

/// A graph whose operations are decomposed wherever parts are known, whether or not programs decompose them; the reason
/// where one of them has no parts.
///
/// # Errors
/// The reason.
pub(crate) fn decompose_all_ops(
    graph: &Graph,
    storage: StoragePolicy,
) -> std::result::Result<Graph, String> {
    let said = |e: crate::error::CompileError| e.to_string();
    let mut to = GraphRebuild::new(graph).map_err(said)?;
    for (id, t) in graph.tensors() {
        match &t.def {
            TensorOrigin::Result(node, 0) => {
                let node = graph.node(*node);
                let name = node.op.name();
                let known = functions::find_function_recipe(name).or_else(|| find_recipe(name));
                let recipe = known.ok_or_else(|| format!("no parts of {name} are known"))?;
                let recipe = try_recipe(graph, node, recipe, storage)?;
                let operands = to.successor_operands(node).map_err(said)?;
                let given = RecipeInput::new(graph, node, operands, storage);
                let mut parts = PartBuilder::new(&mut to.builder, graph, node);
                let made = recipe(&mut parts, &given).map_err(|s| s.to_string())?;
                for (id, made) in node.outputs.iter().zip(made) {
                    to.set_successor(*id, made).map_err(said)?;
                }
            }
            TensorOrigin::View { .. } => to.copy_view(id, t).map_err(said)?,
            _ => {}
        }
    }
    to.finish_graph().map_err(said)
}

/// The decomposition of an operation, tried on tensors of the same sizes and dtypes; none of an operation
/// that is not composite.
fn find_working_recipe(
    graph: &Graph,
    node: &GraphNode,
    storage: StoragePolicy,
) -> Option<Result<DecompositionRecipe, String>> {
    match node.op.row().decomposition {
        OpDecomposition::None => return None,
        OpDecomposition::Whole(reason) => return Some(Err(reason.into())),
        OpDecomposition::Parts => {}
    }
    let Some(recipe) = find_recipe(node.op.name()) else {
        return Some(Err("no parts are known".into()));
    };
    Some(try_recipe(graph, node, recipe, storage))
}

/// The recipe, tried on tensors of the same sizes and dtypes; why where it does not serve.
fn try_recipe(
    graph: &Graph,
    node: &GraphNode,
    recipe: DecompositionRecipe,
    storage: StoragePolicy,
) -> Result<DecompositionRecipe, String> {
    // A hint names the loops of the whole operation.
    if !node.hint.is_empty() {
        return Err("its division is given, and its parts have other loops".into());
    }
    if node.inputs.iter().any(|i| is_narrow(graph.get(*i).dtype)) {
        return Err("parts in 8 bits would lose digits".into());
    }
    // Tried on a graph of its own first: a recipe that fails in the middle would leave its first parts in the real
    // one.
    let mut scratch = GraphBuilder::new("scratch");
    let operands = node.inputs.iter().enumerate().map(|(k, i)| {
        let t = graph.get(*i);
        let made = match t.def {
            TensorOrigin::Constant(value) => scratch.add_constant(value, t.dtype)?,
            _ => {
                scratch.add_input(&format!("operand.{k}"), &t.size, t.dtype, Default::default())?
            }
        };
        Ok(GraphOperand::Tensor(made))
    });
    let tried = operands
        .collect::<zellige_graph::Result<Vec<GraphOperand>>>()
        .map_err(DecompositionRefusal::from);
    let made = tried.and_then(|operands| {
        let given = RecipeInput::new(graph, node, operands, storage);
        recipe(&mut PartBuilder::new(&mut scratch, graph, node), &given)
    });
    let made = match made {
        Ok(made) => made,
        Err(stop) => return Err(stop.to_string()),
    };
    let Ok(trial) = scratch.finish_graph(&made) else { return Err("it gives nothing".into()) };
    // Type promotion of the parts may differ from that of the whole: such an operation stays whole.
    let same = node.outputs.iter().zip(trial.outputs()).all(|(a, b)| {
        let (a, b) = (graph.get(*a), trial.get(*b));
        (&a.size, a.dtype) == (&b.size, b.dtype)
    });
    if same { Ok(recipe) } else { Err("its parts would give another size or dtype".into()) }
}

fn is_narrow(dtype: Dtype) -> bool {
    dtype.bits() == 8 && is_float(dtype)
}

fn find_recipe(op: &str) -> Option<DecompositionRecipe> {
    products::find_product_recipe(op)
        .or_else(|| attention::find_attention_recipe(op))
        .or_else(|| rows::find_row_recipe(op))
        .or_else(|| pointwise::find_pointwise_recipe(op))
        .or_else(|| shape::find_shape_recipe(op))
}

#[cfg(test)]
mod tests {
    use zellige_op::{OpDecomposition, TensorOp};

    #[test]
    fn a_row_says_parts_where_a_recipe_exists() {
        for row in TensorOp::all_rows() {
            let parts = row.decomposition == OpDecomposition::Parts;
            assert_eq!(parts, super::find_recipe(row.name).is_some(), "{}", row.name);
        }
    }
}
