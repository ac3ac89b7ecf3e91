//! Operations that repeat or join tensors.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use serde_json::Value;
use zellige_graph::{GraphOperand, OpCall};

/// The decomposition of an operation of this family.
pub(crate) fn find_shape_recipe(op: &str) -> Option<DecompositionRecipe> {
    Some(match op {
        "stack" => decompose_stack,
        "repeat" => decompose_repeat,
        "repeat_interleave" => decompose_interleave,
        _ => return None,
    })
}

/// The most dimensions of a tensor on the way.
const MAX_INTERMEDIATE_RANK: usize = 8;

/// A `cat` of the tensors along a new dimension.
fn decompose_stack(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let dim = g.dim_attribute("dim", 0, g.result_size().len())?;
    let mut list = Vec::with_capacity(g.operand_count());
    for k in 0..g.operand_count() {
        list.push(p.add_part(&format!("part{k}"), OpCall::unsqueeze(dim), &[g.operand(k)])?);
    }
    Ok(vec![p.add_result(0, OpCall::cat(dim), &list)?])
}

/// A view of the tensor with a repeated dimension before or behind each, copied and merged.
fn merge_repeated(
    p: &mut PartBuilder<'_>,
    g: &RecipeInput<'_>,
    x: GraphOperand,
    ones: &[i64],
    times: &[i64],
) -> DecompositionResult {
    if times.len() > MAX_INTERMEDIATE_RANK {
        return Err(DecompositionRefusal::Whole("it would have too many dimensions on the way"));
    }
    if g.result_size().contains(&0) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let wide = p.add_part("wide", OpCall::reshape(ones), &[x])?;
    let seen = p.add_part("times", OpCall::expand(times), &[wide])?;
    let copy = p.add_part("copied", "clone", &[seen])?;
    Ok(vec![p.add_result(0, OpCall::reshape(g.result_size()), &[copy])?])
}

fn decompose_repeat(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let repeats: Vec<i64> = match g.attribute("repeats") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_i64).collect(),
        Some(v) => v.as_i64().into_iter().collect(),
        None => Vec::new(),
    };
    let size = g.operand_size(0);
    let lead = repeats
        .len()
        .checked_sub(size.len())
        .ok_or(DecompositionRefusal::Whole("too few repeats"))?;
    let (mut ones, mut times) = (Vec::new(), Vec::new());
    for (d, r) in repeats.iter().enumerate() {
        let n = d.checked_sub(lead).map_or(1, |d| size[d]);
        // A dimension that is not repeated, or of one element, needs no second one.
        match (*r, n) {
            (1, n) => (ones.push(n), times.push(n)),
            (r, 1) => (ones.push(1), times.push(r)),
            (r, n) => (ones.extend([1, n]), times.extend([r, n])),
        };
    }
    merge_repeated(p, g, g.operand(0), &ones, &times)
}

fn decompose_interleave(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let times = g.number_attribute("repeats", 1.0)?;
    #[allow(clippy::cast_possible_truncation, reason = "an integer, as the operation was checked")]
    let times = times as i64;
    let size = g.operand_size(0);
    let (size, dim) = match g.attribute("dim") {
        None => (vec![size.iter().product()], 0),
        Some(_) => (size.to_vec(), g.dim_attribute("dim", 0, size.len())?),
    };
    let with = |n: i64| [&size[..=dim], &[n], &size[dim + 1..]].concat();
    merge_repeated(p, g, g.operand(0), &with(1), &with(times))
}
