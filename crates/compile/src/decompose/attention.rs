//! Attention: `softmax(scale Q K^T + mask) V` by products, a mask and a softmax.
//!
//! A score that a mask of truth values or the causal rule takes out is [`LOWEST`]; a mask of numbers is
//! added. A row without any key left gives zeros, as the whole operation does: its largest score counts
//! as a floor, so that every exponential is 0, and a sum of them counts as 1. The floor is [`FLOOR`], or
//! beside a mask of numbers the lowest finite number of the stored format, which is above minus infinity
//! and above the number that stands for it in 16 bits. Where a row has a key, the largest exponential is 1
//! and neither changes anything, for scores above the floor.

use super::recipe::{Given, Made, Parts, Recipe, Stop};
use serde_json::{Value, json};
use zellige_float::Dtype;
use zellige_graph::GraphOperand;

/// A score that no key has: the lowest float16.
const LOWEST: f64 = -65504.0;
/// Below all scores, and far above [`LOWEST`].
const FLOOR: f64 = -30000.0;

/// How an attention is taken apart.
pub(crate) fn recipe(op: &str) -> Option<Recipe> {
    (op == "scaled_dot_product_attention").then_some(attention as Recipe)
}

fn attention(p: &mut Parts<'_>, g: &Given<'_>) -> Made {
    let (q, k) = (g.size(0), g.size(1));
    let (rows, e) = (q[q.len() - 2], q[q.len() - 1]);
    let keys = k[k.len() - 2];
    if (0..g.count()).any(|i| g.size(i).contains(&0)) {
        return Err(Stop::Whole("it has no elements"));
    }
    let (masked, causal) = (g.count() > 3, g.flag("is_causal"));
    if masked && causal {
        return Err(Stop::Whole("it has a mask and is causal"));
    }
    let heads = Heads::of(g);
    let scale = g.number("scale", 1.0 / (e as f64).sqrt())?;
    let mut query = g.operand(0);
    if scale != 1.0 {
        query = p.part("scaled", "mul", &[query, GraphOperand::Number(scale)], Value::Null)?;
    }
    let query = heads.split(p, "queries", query, q)?;
    let key = heads.share(p, "keys", g.operand(1), k.len())?;
    let value = heads.share(p, "values", g.operand(2), g.size(2).len())?;
    let turned = p.part("keys_t", "transpose", &[key], json!({"dim0": -1, "dim1": -2}))?;
    let mut scores = p.part("scores", "matmul", &[query, turned], Value::Null)?;
    let mut floor = None;
    if causal {
        let all = json!({"size": [rows, keys], "dtype": "bool"});
        let ones = p.part("all", "ones", &[], all)?;
        let mask = p.part("causal", "tril", &[ones], Value::Null)?;
        let lowest = GraphOperand::Number(LOWEST);
        scores = p.part("masked", "where", &[mask, scores, lowest], Value::Null)?;
    } else if masked {
        let size = g.size(3);
        let own = size.len().checked_sub(3).map(|d| size[d]);
        let mask = match own {
            None => g.operand(3),
            Some(1) => heads.share(p, "mask", g.operand(3), size.len())?,
            Some(_) => heads.split(p, "mask", g.operand(3), size)?,
        };
        if g.dtype(3) == Dtype::Bool {
            let lowest = GraphOperand::Number(LOWEST);
            scores = p.part("masked", "where", &[mask, scores, lowest], Value::Null)?;
            floor = Some(GraphOperand::Number(FLOOR));
        } else {
            scores = p.part("masked", "add", &[scores, mask], Value::Null)?;
            floor = Some(g.lowest(0));
        }
    }
    let last = || json!({"dim": -1, "keepdim": true});
    let mut most = p.part("max", "amax", &[scores.clone()], last())?;
    if let Some(floor) = floor.clone() {
        most = p.part("floor", "maximum", &[most, floor], Value::Null)?;
    }
    let below = p.part("below", "sub", &[scores, most], Value::Null)?;
    let exp = p.part("exp", "exp", &[below], Value::Null)?;
    let mut sum = p.part("sum", "sum", std::slice::from_ref(&exp), last())?;
    if floor.is_some() {
        sum = p.part("least", "maximum", &[sum, GraphOperand::Number(1.0)], Value::Null)?;
    }
    let weights = p.part("weights", "div", &[exp, sum], Value::Null)?;
    if heads.group == 1 {
        return Ok(vec![p.last(0, "matmul", &[weights, value], Value::Null)?]);
    }
    let grouped = p.part("grouped", "matmul", &[weights, value], Value::Null)?;
    Ok(vec![p.last(0, "reshape", &[grouped], json!({"size": g.result()}))?])
}

/// Heads of Q in groups that share one of K and V: a dimension more, along which K and V repeat.
struct Heads {
    group: i64,
    shared: i64,
}

impl Heads {
    fn of(g: &Given<'_>) -> Heads {
        let head = |size: &[i64]| size.len().checked_sub(3).map_or(1, |d| size[d]);
        let (all, shared) = (head(g.size(0)), head(g.size(1)));
        let group = if g.flag("enable_gqa") && shared > 0 { all / shared } else { 1 };
        Heads { group, shared }
    }

    /// `[.., heads, l, e]` as `[.., shared, group, l, e]`.
    fn split(
        &self,
        p: &mut Parts<'_>,
        part: &str,
        x: GraphOperand,
        size: &[i64],
    ) -> Result<GraphOperand, Stop> {
        if self.group == 1 {
            return Ok(x);
        }
        let at = size.len() - 3;
        let size = [&size[..at], &[self.shared, self.group], &size[at + 1..]].concat();
        p.part(part, "reshape", &[x], json!({ "size": size }))
    }

    /// `[.., shared, l, e]` as `[.., shared, 1, l, e]`.
    fn share(
        &self,
        p: &mut Parts<'_>,
        part: &str,
        x: GraphOperand,
        rank: usize,
    ) -> Result<GraphOperand, Stop> {
        if self.group == 1 {
            return Ok(x);
        }
        p.part(part, "unsqueeze", &[x], json!({"dim": rank - 2}))
    }
}
