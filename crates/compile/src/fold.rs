//! A smaller graph that computes the same.
//!
//! - What no output needs goes; inputs stay, as the caller gives them.
//! - Equal operations on equal operands are one, and so are equal views. All operations give the same for
//!   the same, random ones too: their seed is an attribute.
//! - A copy, and a conversion to the dtype it has, is its operand; a view of everything is its base.
//! - Arithmetic on numbers is a number where every format of the dtype holds it exactly.
//!
//! Outputs keep their names and their own memory, and what is pinned or divided by the programmer stays
//! as it is: a copy that is returned, that is seen through a returned view, or that has a pin is a copy
//! still.
//!
//! **Laws**: the outputs have the same bits, and `fold(fold(g)) == fold(g)`.

use crate::error::Result;
use crate::rebuild::GraphRebuild;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use zellige_device::host_format;
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphNode, TensorId, TensorOrigin};
use zellige_layout::StridedLayout;

/// Folds a graph until nothing is left to fold.
///
/// # Errors
/// None for a well-typed graph; the errors of its builder otherwise.
pub fn fold_graph(graph: &Graph) -> Result<Graph> {
    let mut graph = fold_once(graph)?;
    loop {
        let next = fold_once(&graph)?;
        // Folding only removes tensors, so that an equal count means that nothing was folded; and it ends, because
        // the count falls.
        if next.tensors().count() == graph.tensors().count() {
            return Ok(next);
        }
        graph = next;
    }
}

/// Operations by name, attributes and operands, with their results.
type MadeOps = HashMap<(&'static str, String, Vec<TensorId>), (NodeFacts, Vec<TensorId>)>;

/// The pins, places and hints of an operation.
type NodeFacts = (Vec<TensorFacts>, zellige_graph::SliceHints);

/// The pin and the place of a tensor.
type TensorFacts = (Option<zellige_stick::LayoutRequest>, Option<zellige_graph::RequestedMemory>);

/// One traversal from the first tensor to the last.
fn fold_once(graph: &Graph) -> Result<Graph> {
    let facts = FoldFacts::from_graph(graph);
    let mut to = GraphRebuild::new(graph)?;
    let mut made: MadeOps = HashMap::new();
    let mut seen: HashMap<(TensorId, StridedLayout), TensorId> = HashMap::new();
    for (id, t) in graph.tensors() {
        if !facts.live[id.0] {
            continue;
        }
        match &t.def {
            TensorOrigin::Input(_) | TensorOrigin::Constant(_) => {}
            TensorOrigin::View { base, map, .. } => {
                let whole = StridedLayout::new_contiguous(&graph.get(*base).size).ok();
                let base = to.successor_tensor(*base)?;
                let key = (base, map.clone());
                let known = if whole.as_ref() == Some(map) { Some(&base) } else { seen.get(&key) };
                match known.filter(|_| !facts.returned[id.0]) {
                    Some(known) => to.alias_tensor(id, *known),
                    None => {
                        to.copy_view(id, t)?;
                        let made = to.successor_tensor(id)?;
                        seen.entry(key).or_insert(made);
                    }
                }
            }
            TensorOrigin::Result(node, _) => {
                let node = graph.node(*node);
                let first = node.outputs.iter().find(|o| facts.live[o.0]);
                if first != Some(&id) {
                    continue;
                }
                if let Some(same) = facts.find_copied_tensor(graph, node) {
                    let same = to.successor_tensor(same)?;
                    to.alias_tensor(node.outputs[0], same);
                } else if let Some(value) = facts.fold_numbers(graph, node) {
                    let dtype = graph.get(node.outputs[0]).dtype;
                    let constant = to.builder.add_constant(value, dtype)?;
                    to.alias_tensor(node.outputs[0], constant);
                } else {
                    fold_operation(graph, &facts, node, &mut to, &mut made)?;
                }
            }
        }
    }
    to.finish_graph()
}

/// An operation, or the equal one that is there already.
fn fold_operation(
    graph: &Graph,
    facts: &FoldFacts,
    node: &GraphNode,
    to: &mut GraphRebuild<'_>,
    made: &mut MadeOps,
) -> Result<()> {
    let operands: Vec<TensorId> =
        node.inputs.iter().map(|i| to.successor_tensor(*i)).collect::<Result<_>>()?;
    // Attributes are a map in the order in which they were written, which has no meaning.
    let sorted: BTreeMap<&String, &Value> = node.attributes.iter().collect();
    let attributes = serde_json::to_string(&sorted).unwrap_or_default();
    let key = (node.op.name(), attributes, operands);
    let of_tensor = |o: &TensorId| (graph.get(*o).pin.clone(), graph.get(*o).place);
    let asked: NodeFacts = (node.outputs.iter().map(of_tensor).collect(), node.hint.clone());
    let free = asked.0.iter().all(|of| *of == (None, None)) && asked.1.is_empty();
    let returned = node.outputs.iter().any(|o| facts.returned[o.0] || facts.returned_view[o.0]);
    // Of two equal operations the second goes, unless it is returned, because an output has a name and memory of its
    // own, or unless it has a pin, a place or a hint that the first does not have.
    if let Some((theirs, results)) = made.get(&key)
        && !returned
        && (free || asked == *theirs)
    {
        for (id, known) in node.outputs.iter().zip(results) {
            to.alias_tensor(*id, *known);
        }
        return Ok(());
    }
    to.copy_node(node)?;
    let results = node.outputs.iter().map(|o| to.successor_tensor(*o)).collect::<Result<_>>()?;
    made.entry(key).or_insert((asked, results));
    Ok(())
}

/// What has to be known of tensors before the traversal.
struct FoldFacts {
    /// Whether some output needs it.
    live: Vec<bool>,
    /// Whether it is an output.
    returned: Vec<bool>,
    /// Whether it has views, and whether one of them is returned.
    viewed: Vec<bool>,
    returned_view: Vec<bool>,
}

impl FoldFacts {
    fn from_graph(graph: &Graph) -> FoldFacts {
        let none = vec![false; graph.tensors().count()];
        let mut facts = FoldFacts {
            live: none.clone(),
            returned: none.clone(),
            viewed: none.clone(),
            returned_view: none,
        };
        for output in graph.outputs() {
            facts.returned[output.0] = true;
            facts.live[output.0] = true;
        }
        let tensors: Vec<_> = graph.tensors().collect();
        for (id, t) in tensors.into_iter().rev() {
            if !facts.live[id.0] {
                continue;
            }
            match &t.def {
                TensorOrigin::Input(_) | TensorOrigin::Constant(_) => {}
                TensorOrigin::View { base, made: (_, of, _), .. } => {
                    facts.live[base.0] = true;
                    facts.live[of.0] = true;
                    facts.viewed[base.0] = true;
                    facts.returned_view[base.0] |= facts.returned[id.0];
                }
                TensorOrigin::Result(node, _) => {
                    for input in &graph.node(*node).inputs {
                        facts.live[input.0] = true;
                    }
                }
            }
        }
        facts
    }

    /// The result of an operation that can be removed: it is returned under no name, and has no pin, place or hint.
    fn find_removable_result(&self, graph: &Graph, node: &GraphNode) -> Option<TensorId> {
        let [id] = node.outputs[..] else { return None };
        let kept = self.returned[id.0]
            || self.returned_view[id.0]
            || graph.get(id).pin.is_some()
            || graph.get(id).place.is_some()
            || !node.hint.is_empty();
        (!kept).then_some(id)
    }

    /// The tensor that an operation copies. Views of a copy are views of row-major elements, so that
    /// such a copy of a view stays.
    fn find_copied_tensor(&self, graph: &Graph, node: &GraphNode) -> Option<TensorId> {
        let id = self.find_removable_result(graph, node)?;
        let [x] = node.inputs[..] else { return None };
        let copies = match node.op.name() {
            "clone" | "identity" => true,
            // `wide` stores float32 and int64 in all of their bits, so that the result may have another format on the
            // device than the operand.
            "cast" | "to" => {
                let wide = node.attributes.get("wide").and_then(Value::as_bool) == Some(true);
                !wide && graph.get(id).dtype == graph.get(x).dtype
            }
            _ => false,
        };
        let is_view = matches!(graph.get(x).def, TensorOrigin::View { .. });
        (copies && !(is_view && self.viewed[id.0])).then_some(x)
    }

    /// The number that an operation on numbers gives, where all of them are exact.
    fn fold_numbers(&self, graph: &Graph, node: &GraphNode) -> Option<f64> {
        let id = self.find_removable_result(graph, node)?;
        if self.viewed[id.0] || !graph.get(id).size.is_empty() {
            return None;
        }
        let mut values = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            let t = graph.get(*input);
            let TensorOrigin::Constant(value) = t.def else { return None };
            // Only numbers that every stored format holds exactly: the card may store float16 in a format with fewer
            // digits, and a folded constant must have the bits that the operation would have given.
            values.push(Some(value.to_f64()).filter(|v| is_exact(*v, t.dtype))?);
        }
        let plain = node.attributes.is_empty();
        let value = match (node.op.name(), &values[..]) {
            ("add", [a, b]) if plain => a + b,
            ("sub", [a, b]) if plain => a - b,
            ("mul", [a, b]) if plain => a * b,
            ("maximum", [a, b]) => a.max(*b),
            ("minimum", [a, b]) => a.min(*b),
            ("neg", [a]) => -a,
            ("abs", [a]) => a.abs(),
            ("square", [a]) => a * a,
            ("cast" | "to", [a]) => *a,
            _ => return None,
        };
        is_exact(value, graph.get(id).dtype).then_some(value)
    }
}

/// Whether every format in which the device may store the dtype holds the number.
fn is_exact(value: f64, dtype: Dtype) -> bool {
    let bits: u32 = match dtype {
        Dtype::Float16 | Dtype::Float32 => 10,
        Dtype::Bfloat16 => 8,
        Dtype::Int32 | Dtype::Int64 => {
            return value.fract() == 0.0
                && value.abs() < f64::from(i32::MAX)
                && value.to_bits() != (-0.0f64).to_bits();
        }
        _ => return false,
    };
    // The range in which all 16-bit formats have normal numbers, so that no digit is lost to a subnormal.
    let moderate = value == 0.0 || (6.2e-5..=65504.0).contains(&value.abs());
    host_format(dtype).is_ok() && moderate && value.to_bits().trailing_zeros() >= 53 - bits
}
