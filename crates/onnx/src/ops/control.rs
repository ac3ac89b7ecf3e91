//! Rules for branches, loops and function calls. All are unrolled, because the conditions are
//! known.

use super::RuleTable;
use crate::error::{OnnxError, Result};
use crate::literal::TensorLiteral;
use crate::node::NodeLowering;
use crate::proto::{AttributeValue, FunctionProto, GraphProto};
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_float::Dtype;

pub(super) const TABLE: RuleTable = &[("If", lower_if), ("Loop", lower_loop), ("Scan", lower_scan)];

/// The largest number of iterations of a loop, each of which is unrolled.
// Each iteration adds the nodes of the body to the graph; compiling takes time for every node.
// Sequences of language models have up to some thousand steps.
const MOST_TURNS: i64 = 1 << 14;

impl<'a> NodeLowering<'_, 'a> {
    /// The function of the model that this node calls.
    pub(super) fn called_function(&self) -> Option<&'a FunctionProto<'a>> {
        let proto = self.import.proto;
        let (op, domain, overload) = (self.op(), self.domain(), self.overload());
        proto
            .functions
            .iter()
            .find(|f| f.name == op && f.domain == domain && f.overload == overload)
    }

    /// Reads an attribute that is a graph.
    fn graph_attribute(&mut self, name: &'static str) -> Result<&'a GraphProto<'a>> {
        match self.any_attribute(name) {
            Some(AttributeValue::Graph(graph)) => Ok(graph),
            Some(_) => Err(self.wrong_attribute(name, "a graph")),
            None => Err(self
                .refuse_node("bad_attribute", format!("attribute `{name}` is missing; a graph"))),
        }
    }

    fn lower_subgraph(
        &mut self,
        graph: &'a GraphProto<'a>,
        given: &[ModelValue],
    ) -> Result<Vec<ModelValue>> {
        self.import.lower_inner_graph(graph, given).map_err(|e| self.with_node_place(e))
    }
}

/// Inlines the nodes of a function at its call.
pub(super) fn lower_call<'a>(
    n: &mut NodeLowering<'_, 'a>,
    function: &'a FunctionProto<'a>,
) -> Result<Vec<ModelValue>> {
    // The call's own attributes come first, so a default never replaces one that is given.
    let mut attributes = n.all_attributes();
    for default in &function.defaults {
        if !attributes.iter().any(|(name, _)| *name == default.name) {
            attributes.push((default.name, &default.value));
        }
    }
    let count = n.operand_count();
    if count > function.inputs.len() {
        let message = format!("it has {count} operands; accepted: {}", function.inputs.len());
        return Err(n.refuse_node("bad_operand", message));
    }
    let given = (0..count).map(|k| n.operand_value(k)).collect::<Result<Vec<_>>>()?;
    n.import.lower_function_call(function, attributes, &given).map_err(|e| n.with_node_place(e))
}

/// Lowers one of two graphs, chosen by a known condition.
fn lower_if(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let (yes, no) = (n.graph_attribute("then_branch")?, n.graph_attribute("else_branch")?);
    // The card runs a fixed sequence of operations, so a branch has to be decided before; the other
    // one is not even looked at, because it may hold operations that do not exist here.
    let taken = if n.require_number(0, "the condition")? != 0.0 { yes } else { no };
    n.lower_subgraph(taken, &[])
}

/// Unrolls a loop with a known number of iterations: operand 0 bounds it, and operand 1 and the
/// first result of the body may end it.
fn lower_loop(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let body = n.graph_attribute("body")?;
    let most = if n.has_operand(0) {
        Some(n.require_number(0, "the number of iterations")?)
    } else {
        None
    };
    let mut going = !n.has_operand(1) || n.require_number(1, "the condition")? != 0.0;
    // Operands are the maximal number of iterations, the initial condition, and then the carried
    // values.
    let carried = n.operand_count().max(2) - 2;
    let mut state = (0..carried).map(|k| n.operand_value(k + 2)).collect::<Result<Vec<_>>>()?;
    let scans = body.outputs.len().checked_sub(carried + 1).ok_or_else(|| {
        let message = format!(
            "attribute `body` has {} outputs; accepted: a condition, {carried} carried values and the stacked ones",
            body.outputs.len()
        );
        n.refuse_node("bad_attribute", message)
    })?;
    let mut rows: Vec<Vec<ModelValue>> = vec![Vec::new(); scans];
    let mut turn = 0i64;
    while going && most.is_none_or(|m| (turn as f64) < m) {
        if turn == MOST_TURNS {
            let message = format!("more than {MOST_TURNS} iterations; each is unrolled");
            return Err(n.refuse_node("too_large", message));
        }
        let truth = TensorLiteral::from_ints(vec![1]).with_shape(vec![]).cast_to(Dtype::Bool);
        // The body's inputs are the number of the iteration, the condition (true, or it would not
        // run), and what is carried.
        let mut given = vec![
            ModelValue::Known(Rc::new(TensorLiteral::from_ints(vec![turn]).with_shape(vec![]))),
            ModelValue::Known(Rc::new(
                truth.ok_or_else(|| n.refuse_node("bad_operand", "no truth value"))?,
            )),
        ];
        given.append(&mut state);
        let mut made = n.lower_subgraph(body, &given)?.into_iter();
        if let Some(condition) = made.next() {
            let known = n.import.known_elements(&condition)?;
            let Some(known) = known.filter(|l| l.len() == 1) else {
                return Err(n.refuse_undecided("the condition for the next iteration", &condition));
            };
            going = known.number_at(0) != 0.0;
        }
        state = made.by_ref().take(carried).collect();
        made.zip(&mut rows).for_each(|(value, row)| row.push(value));
        turn += 1;
    }
    let mut results = state;
    // Stacked results follow the carried ones, and so do their names.
    n.named = carried;
    for row in rows {
        results.push(n.stack_values(&row, 0)?);
    }
    Ok(results)
}

/// Applies a body to the slices of its operands, one after the other.
fn lower_scan(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let body = n.graph_attribute("body")?;
    let over = n.int_attribute("num_scan_inputs", 0)?;
    // Scan of opset 8 had another operand in front, the lengths of sequences, and a batch dimension
    // everywhere.
    let first = usize::from(n.opset() < 9);
    if first == 1 {
        return Err(
            n.refuse_node("bad_opset", "Scan of opset 8 has a batch; accepted: opset 9 and newer")
        );
    }
    let count = n.operand_count();
    let over = usize::try_from(over).ok().filter(|o| (1..=count).contains(o)).ok_or_else(|| {
        n.refuse_node(
            "bad_attribute",
            format!("attribute `num_scan_inputs` is {over}; accepted: 1 to {count}"),
        )
    })?;
    let carried = count - over;
    let scans = body.outputs.len().checked_sub(carried).ok_or_else(|| {
        n.refuse_node(
            "bad_attribute",
            format!("attribute `body` has {} outputs", body.outputs.len()),
        )
    })?;
    let mut lists = Vec::new();
    for (name, length) in [
        ("scan_input_axes", over),
        ("scan_input_directions", over),
        ("scan_output_axes", scans),
        ("scan_output_directions", scans),
    ] {
        let list = n.ints_attribute(name)?.unwrap_or_else(|| vec![0; length]);
        if list.len() != length {
            let message = format!("attribute `{name}` is {list:?}; accepted: {length} integers");
            return Err(n.refuse_node("bad_attribute", message));
        }
        lists.push(list);
    }
    let mut state = (0..carried).map(|k| n.operand_value(k)).collect::<Result<Vec<_>>>()?;
    let mut dims = Vec::new();
    let mut length = None;
    for (k, axis) in lists[0].iter().enumerate() {
        let size = n.operand_size(carried + k)?;
        let dim = n.normalize_dim(*axis, size.len())?;
        if *length.get_or_insert(size[dim]) != size[dim] {
            return Err(
                n.refuse_operand(carried + k, format!("{size:?} is not as long as the others"))
            );
        }
        dims.push(dim);
    }
    let length = length.unwrap_or(0);
    if length > MOST_TURNS {
        let message = format!(
            "{length} iterations; accepted: at most {MOST_TURNS}, because each is unrolled"
        );
        return Err(n.refuse_node("too_large", message));
    }
    let mut rows: Vec<Vec<ModelValue>> = vec![Vec::new(); scans];
    for turn in 0..length {
        let mut given = std::mem::take(&mut state);
        for k in 0..over {
            let at = if lists[1][k] == 0 { turn } else { length - 1 - turn };
            given.push(n.slice_at(carried + k, dims[k], at)?);
        }
        let mut made = n.lower_subgraph(body, &given)?.into_iter();
        state = made.by_ref().take(carried).collect();
        made.zip(&mut rows).for_each(|(value, row)| row.push(value));
    }
    let mut results = state;
    n.named = carried;
    for (k, mut row) in rows.into_iter().enumerate() {
        // Direction 1 prepends each row instead of appending it.
        if lists[3][k] != 0 {
            row.reverse();
        }
        results.push(n.stack_values(&row, lists[2][k])?);
    }
    Ok(results)
}

impl NodeLowering<'_, '_> {
    fn refuse_undecided(&self, what: &str, value: &ModelValue) -> OnnxError {
        self.refuse_unknown_value(what, value, None)
    }
}
