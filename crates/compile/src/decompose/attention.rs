//! Attention: `softmax(scale Q K^T + mask) V` by products, a mask and a softmax.
//!
//! A score that a mask of truth values or the causal rule excludes is [`LOWEST_SCORE`]; a mask of numbers is
//! added. A row without any key left gives zeros, as the whole operation does: its largest score counts
//! as a floor, so that every exponential is 0, and a sum of them counts as 1. The floor is [`SCORE_FLOOR`], or
//! beside a mask of numbers the lowest finite number of the stored format, which is above minus infinity
//! and above its encoding in 16 bits. Where a row has a key, the largest exponential is 1
//! and neither changes anything, for scores above the floor.

use super::recipe::{
    DecompositionRecipe, DecompositionRefusal, DecompositionResult, PartBuilder, RecipeInput,
};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall};

/// A score that no key has: the lowest float16.
const LOWEST_SCORE: f64 = -65504.0;
/// Below all scores, and far above [`LOWEST_SCORE`].
// A masked score less the floor is -35504: a finite float16 whose exponential is 0.
const SCORE_FLOOR: f64 = -30000.0;

/// The decomposition of an attention.
pub(crate) fn find_attention_recipe(op: &str) -> Option<DecompositionRecipe> {
    (op == "scaled_dot_product_attention").then_some(decompose_attention as DecompositionRecipe)
}

fn decompose_attention(p: &mut PartBuilder<'_>, g: &RecipeInput<'_>) -> DecompositionResult {
    let (q, k) = (g.operand_size(0), g.operand_size(1));
    let (rows, e) = (q[q.len() - 2], q[q.len() - 1]);
    let keys = k[k.len() - 2];
    if (0..g.operand_count()).any(|i| g.operand_size(i).contains(&0)) {
        return Err(DecompositionRefusal::Whole("it has no elements"));
    }
    let (masked, causal) = (g.operand_count() > 3, g.flag_attribute("is_causal"));
    // PyTorch refuses the two together.
    if masked && causal {
        return Err(DecompositionRefusal::Whole("it has a mask and is causal"));
    }
    let heads = SharedHeadGroups::from_operands(g);
    // The scale goes to the query, which is smaller than the scores wherever there are more keys than elements of a
    // head.
    let scale = g.number_attribute("scale", 1.0 / (e as f64).sqrt())?;
    let mut query = g.operand(0);
    if scale != 1.0 {
        query = p.add_part("scaled", "mul", &[query, GraphOperand::Number(scale)])?;
    }
    let query = heads.split_heads(p, "queries", query, q)?;
    let key = heads.share_heads(p, "keys", g.operand(1), k.len())?;
    let value = heads.share_heads(p, "values", g.operand(2), g.operand_size(2).len())?;
    let turned = p.add_part("keys_t", OpCall::transpose(-1, -2), &[key])?;
    let mut scores = p.add_part("scores", "matmul", &[query, turned])?;
    let mut floor = None;
    if causal {
        let all = OpCall::new("ones").with("size", [rows, keys]).with("dtype", "bool");
        let ones = p.add_part("all", all, &[])?;
        let mask = p.add_part("causal", "tril", &[ones])?;
        let lowest = GraphOperand::Number(LOWEST_SCORE);
        scores = p.add_part("masked", "where", &[mask, scores, lowest])?;
    } else if masked {
        let size = g.operand_size(3);
        let own = size.len().checked_sub(3).map(|d| size[d]);
        let mask = match own {
            None => g.operand(3),
            Some(1) => heads.share_heads(p, "mask", g.operand(3), size.len())?,
            Some(_) => heads.split_heads(p, "mask", g.operand(3), size)?,
        };
        if g.operand_dtype(3) == Dtype::Bool {
            let lowest = GraphOperand::Number(LOWEST_SCORE);
            scores = p.add_part("masked", "where", &[mask, scores, lowest])?;
            floor = Some(GraphOperand::Number(SCORE_FLOOR));
        } else {
            scores = p.add_part("masked", "add", &[scores, mask])?;
            floor = Some(g.lowest_stored(0));
        }
    }
    let along_keys = |op: &'static str| OpCall::reduce_dim(op, -1, true);
    let mut most = p.add_part("max", along_keys("amax"), &[scores.clone()])?;
    if let Some(floor) = floor.clone() {
        most = p.add_part("floor", "maximum", &[most, floor])?;
    }
    let below = p.add_part("below", "sub", &[scores, most])?;
    let exp = p.add_part("exp", "exp", &[below])?;
    let mut sum = p.add_part("sum", along_keys("sum"), std::slice::from_ref(&exp))?;
    if floor.is_some() {
        sum = p.add_part("least", "maximum", &[sum, GraphOperand::Number(1.0)])?;
    }
    let weights = p.add_part("weights", "div", &[exp, sum])?;
    if heads.group == 1 {
        return Ok(vec![p.add_result(0, "matmul", &[weights, value])?]);
    }
    let grouped = p.add_part("grouped", "matmul", &[weights, value])?;
    Ok(vec![p.add_result(0, OpCall::reshape(g.result_size()), &[grouped])?])
}

/// Heads of Q in groups that share one of K and V: a dimension more, along which K and V repeat.
struct SharedHeadGroups {
    group: i64,
    shared: i64,
}

impl SharedHeadGroups {
    fn from_operands(g: &RecipeInput<'_>) -> SharedHeadGroups {
        let head = |size: &[i64]| size.len().checked_sub(3).map_or(1, |d| size[d]);
        let (all, shared) = (head(g.operand_size(0)), head(g.operand_size(1)));
        let group = if g.flag_attribute("enable_gqa") && shared > 0 { all / shared } else { 1 };
        SharedHeadGroups { group, shared }
    }

    /// `[.., heads, l, e]` as `[.., shared, group, l, e]`.
    fn split_heads(
        &self,
        p: &mut PartBuilder<'_>,
        part: &str,
        x: GraphOperand,
        size: &[i64],
    ) -> Result<GraphOperand, DecompositionRefusal> {
        if self.group == 1 {
            return Ok(x);
        }
        let at = size.len() - 3;
        let size = [&size[..at], &[self.shared, self.group], &size[at + 1..]].concat();
        p.add_part(part, OpCall::reshape(size), &[x])
    }

    /// `[.., shared, l, e]` as `[.., shared, 1, l, e]`.
    fn share_heads(
        &self,
        p: &mut PartBuilder<'_>,
        part: &str,
        x: GraphOperand,
        rank: usize,
    ) -> Result<GraphOperand, DecompositionRefusal> {
        if self.group == 1 {
            return Ok(x);
        }
        p.add_part(part, OpCall::unsqueeze(rank - 2), &[x])
    }
}
