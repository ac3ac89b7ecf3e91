//! Operations that repeat or join tensors.

use super::recipe::{Given, Made, Parts, Recipe, Stop};
use serde_json::{Value, json};
use zellige_graph::GraphOperand;

/// How such an operation is taken apart.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    Some(match op {
        "stack" => stack,
        "repeat" => repeat,
        "repeat_interleave" => interleave,
        _ => return None,
    })
}

/// The most dimensions of a tensor on the way.
const RANK: usize = 8;

/// Tensors with a dimension more, one behind the other along it.
fn stack(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let dim = g.dim("dim", 0, g.result().len())?;
    let mut list = Vec::with_capacity(g.count());
    for k in 0..g.count() {
        list.push(p.part(
            &format!("part{k}"),
            "unsqueeze",
            &[g.operand(k)],
            json!({"dim": dim}),
        )?);
    }
    Ok(vec![p.last(0, "cat", &list, json!({"dim": dim}))?])
}

/// A view of the tensor with a repeated dimension before or behind each, copied and merged.
fn merged(p: &mut Parts<'_>, g: &Given<'_>, x: GraphOperand, ones: &[i64], times: &[i64]) -> Made {
    if times.len() > RANK {
        return Err(Stop::Whole("it would have too many dimensions on the way"));
    }
    if g.result().contains(&0) {
        return Err(Stop::Whole("it has no elements"));
    }
    let wide = p.part("wide", "reshape", &[x], json!({ "size": ones }))?;
    let seen = p.part("times", "expand", &[wide], json!({ "size": times }))?;
    let copy = p.part("copied", "clone", &[seen], Value::Null)?;
    Ok(vec![p.last(0, "reshape", &[copy], json!({"size": g.result()}))?])
}

fn repeat(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let repeats: Vec<i64> = match g.attribute("repeats") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_i64).collect(),
        Some(v) => v.as_i64().into_iter().collect(),
        None => Vec::new(),
    };
    let size = g.size(0);
    let lead = repeats.len().checked_sub(size.len()).ok_or(Stop::Whole("too few repeats"))?;
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
    merged(p, g, g.operand(0), &ones, &times)
}

fn interleave(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let times = g.number("repeats", 1.0)?;
    #[allow(clippy::cast_possible_truncation, reason = "an integer, as the operation was checked")]
    let times = times as i64;
    let size = g.size(0);
    let (size, dim) = match g.attribute("dim") {
        None => (vec![size.iter().product()], 0),
        Some(_) => (size.to_vec(), g.dim("dim", 0, size.len())?),
    };
    let with = |n: i64| [&size[..=dim], &[n], &size[dim + 1..]].concat();
    merged(p, g, g.operand(0), &with(1), &with(times))
}
