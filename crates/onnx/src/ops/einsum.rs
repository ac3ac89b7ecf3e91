//! Sums of products by letters, of one or two operands: views around one product of matrices.

use super::Table;
use crate::error::Result;
use crate::literal::numel;
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_graph::{Operand, TensorId};

pub(super) const TABLE: Table = &[("Einsum", einsum)];

/// A tensor on its way, and the letter of each of its dimensions.
struct Term {
    id: TensorId,
    letters: Vec<char>,
}

impl Term {
    fn extent(&self, n: &Node<'_, '_>, letter: char) -> i64 {
        let at = self.letters.iter().position(|l| *l == letter);
        at.map_or(1, |d| n.size_of(self.id)[d])
    }

    /// Summed over the letters that nothing else has.
    fn summed(self, n: &mut Node<'_, '_>, kept: impl Fn(char) -> bool) -> Result<Term> {
        let gone: Vec<usize> =
            (0..self.letters.len()).filter(|d| !kept(self.letters[*d])).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let over = json!({"dim": gone, "keepdim": false});
        let id = n.part("sum", "sum", &[Operand::Tensor(self.id)], over)?;
        Ok(Term { id, letters: self.letters.into_iter().filter(|l| kept(*l)).collect() })
    }

    /// With its dimensions in another order.
    fn ordered(self, n: &mut Node<'_, '_>, order: &[char]) -> Result<Term> {
        if self.letters == order {
            return Ok(self);
        }
        let at = |l: &char| self.letters.iter().position(|m| m == l).unwrap_or(0);
        let dims: Vec<usize> = order.iter().map(at).collect();
        let id = n.part("turned", "permute", &[Operand::Tensor(self.id)], json!({"dims": dims}))?;
        Ok(Term { id, letters: order.to_vec() })
    }

    fn shaped(self, n: &mut Node<'_, '_>, size: &[i64]) -> Result<TensorId> {
        if n.size_of(self.id) == size {
            return Ok(self.id);
        }
        n.part("shaped", "reshape", &[Operand::Tensor(self.id)], json!({"size": size}))
    }
}

/// The letters of the operands and of the result.
fn equation(n: &mut Node<'_, '_>) -> Result<(Vec<Vec<char>>, Vec<char>)> {
    let text: String = n.word("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let bad = |n: &Node<'_, '_>, why: &str| {
        let shown: String = text.chars().take(60).collect();
        n.bad("bad_attribute", format!("attribute `equation` is `{shown}`: {why}"))
    };
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    if terms.len() > 2 {
        return Err(bad(n, "more than two operands; write it as several"));
    }
    let result: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        // Letters that stand once, in the order of the alphabet.
        None => {
            let all: Vec<char> = terms.concat();
            let mut once: Vec<char> = all
                .iter()
                .filter(|l| all.iter().filter(|m| m == l).count() == 1)
                .copied()
                .collect();
            once.sort_unstable();
            once
        }
    };
    for list in terms.iter().chain([&result]) {
        if list.iter().any(|l| !l.is_ascii_alphabetic()) {
            return Err(bad(n, "accepted are letters; write out what `...` stands for"));
        }
        if list.iter().enumerate().any(|(k, l)| list[..k].contains(l)) {
            return Err(bad(n, "a letter stands twice in one operand, or in the result"));
        }
    }
    if result.iter().any(|l| !terms.concat().contains(l)) {
        return Err(bad(n, "a letter of the result stands in no operand"));
    }
    n.arity(terms.len(), terms.len())?;
    Ok((terms, result))
}

fn einsum(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (terms, result) = equation(n)?;
    let dtype = n.dtype(0)?;
    for (k, letters) in terms.iter().enumerate() {
        let size = n.size(k)?;
        if size.len() != letters.len() {
            return Err(n.bad_operand(k, format!("{size:?} for {} letters", letters.len())));
        }
    }
    let a = Term { id: n.tensor(0)?, letters: terms[0].clone() };
    let y = match terms.get(1) {
        None => a.summed(n, |l| result.contains(&l))?,
        Some(letters) => {
            let b = Term { id: n.tensor(1)?, letters: letters.clone() };
            product(n, a, b, &result)?
        }
    };
    let y = y.ordered(n, &result)?;
    Ok(vec![n.converted(y.id, dtype)?])
}

fn product(n: &mut Node<'_, '_>, a: Term, b: Term, result: &[char]) -> Result<Term> {
    for l in &b.letters {
        if a.letters.contains(l) && a.extent(n, *l) != b.extent(n, *l) {
            let (x, y) = (a.extent(n, *l), b.extent(n, *l));
            return Err(n.bad_operand(1, format!("`{l}` is {y} here and {x} in the first operand")));
        }
    }
    let (first, second) = (a.letters.clone(), b.letters.clone());
    let a = a.summed(n, |l| second.contains(&l) || result.contains(&l))?;
    let b = b.summed(n, |l| first.contains(&l) || result.contains(&l))?;
    let both = |l: &char| a.letters.contains(l) && b.letters.contains(l);
    let batch: Vec<char> = result.iter().filter(|l| both(l)).copied().collect();
    let summed: Vec<char> =
        a.letters.iter().filter(|l| both(l) && !result.contains(l)).copied().collect();
    let rows: Vec<char> = a.letters.iter().filter(|l| !both(l)).copied().collect();
    let columns: Vec<char> = b.letters.iter().filter(|l| !both(l)).copied().collect();
    let sizes = |of: &Term, list: &[char], n: &Node<'_, '_>| -> Vec<i64> {
        list.iter().map(|l| of.extent(n, *l)).collect()
    };
    let count = |size: &[i64]| numel(size).unwrap_or(0);
    let (batches, heights) = (sizes(&a, &batch, n), sizes(&a, &rows, n));
    let (depth, widths) = (count(&sizes(&a, &summed, n)), sizes(&b, &columns, n));
    // One dimension for each group of letters, and none for a batch that is not there.
    let matrix = |height: i64, width: i64| -> Vec<i64> {
        let lead = if batches.is_empty() { None } else { Some(count(&batches)) };
        lead.into_iter().chain([height, width]).collect()
    };
    let a = a.ordered(n, &[&batch[..], &rows, &summed].concat())?;
    let a = a.shaped(n, &matrix(count(&heights), depth))?;
    let b = b.ordered(n, &[&batch[..], &summed, &columns].concat())?;
    let b = b.shaped(n, &matrix(depth, count(&widths)))?;
    let operands = [Operand::Tensor(a), Operand::Tensor(b)];
    let id = n.part("product", "matmul", &operands, Json::Null)?;
    let letters = [&batch[..], &rows, &columns].concat();
    let id = Term { id, letters: Vec::new() }.shaped(n, &[batches, heights, widths].concat())?;
    Ok(Term { id, letters })
}
