//! Sums of products by letters: the operands are multiplied two by two, each time as views around one product of
//! matrices.

use super::Table;
use crate::error::Result;
use crate::literal::numel;
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[("Einsum", einsum)];

/// Operands at most: every step looks at every pair of those that are left.
const MOST_OPERANDS: usize = 64;

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
        let id = n.part("sum", "sum", &[GraphOperand::Tensor(self.id)], over)?;
        Ok(Term { id, letters: self.letters.into_iter().filter(|l| kept(*l)).collect() })
    }

    /// With its dimensions in another order.
    fn ordered(self, n: &mut Node<'_, '_>, order: &[char]) -> Result<Term> {
        if self.letters == order {
            return Ok(self);
        }
        let at = |l: &char| self.letters.iter().position(|m| m == l).unwrap_or(0);
        let dims: Vec<usize> = order.iter().map(at).collect();
        let id =
            n.part("turned", "permute", &[GraphOperand::Tensor(self.id)], json!({"dims": dims}))?;
        Ok(Term { id, letters: order.to_vec() })
    }

    fn shaped(self, n: &mut Node<'_, '_>, size: &[i64]) -> Result<TensorId> {
        if n.size_of(self.id) == size {
            return Ok(self.id);
        }
        n.part("shaped", "reshape", &[GraphOperand::Tensor(self.id)], json!({"size": size}))
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
    if terms.len() > MOST_OPERANDS {
        let why = format!("{} operands; accepted: at most {MOST_OPERANDS}", terms.len());
        return Err(bad(n, &why));
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
    agree(n, &terms)?;
    let mut left = Vec::new();
    for (k, letters) in terms.into_iter().enumerate() {
        left.push(Term { id: n.tensor(k)?, letters });
    }
    while let Some((i, j)) = next_pair(n, &left, &result) {
        let b = left.remove(j);
        let a = left.remove(i);
        let kept = needed(&left, &result);
        let both = product(n, a, b, &kept)?;
        left.insert(i, both);
    }
    // The equation has one operand or more.
    let Some(last) = left.pop() else { return Ok(Vec::new()) };
    let y = last.summed(n, |l| result.contains(&l))?.ordered(n, &result)?;
    Ok(vec![n.converted(y.id, dtype)?])
}

/// That a letter has one extent in all operands.
fn agree(n: &mut Node<'_, '_>, terms: &[Vec<char>]) -> Result<()> {
    let mut extents: Vec<(char, i64, usize)> = Vec::new();
    for (k, letters) in terms.iter().enumerate() {
        for (letter, extent) in letters.iter().zip(n.size(k)?) {
            match extents.iter().find(|(l, ..)| l == letter) {
                Some((_, known, first)) if *known != extent => {
                    let message =
                        format!("`{letter}` is {extent} here and {known} in operand {first}");
                    return Err(n.bad_operand(k, message));
                }
                Some(_) => {}
                None => extents.push((*letter, extent, k)),
            }
        }
    }
    Ok(())
}

/// The letters of the result, then those that other operands have too.
fn needed(others: &[Term], result: &[char]) -> Vec<char> {
    let mut kept = result.to_vec();
    for letter in others.iter().flat_map(|t| &t.letters) {
        if !kept.contains(letter) {
            kept.push(*letter);
        }
    }
    kept
}

/// The two operands to multiply next: those whose product is smallest, so that what is on the way stays small.
fn next_pair(n: &Node<'_, '_>, left: &[Term], result: &[char]) -> Option<(usize, usize)> {
    let mut best: Option<(f64, (usize, usize))> = None;
    for j in 1..left.len() {
        for i in 0..j {
            let elsewhere = |letter: &char| {
                result.contains(letter)
                    || left
                        .iter()
                        .enumerate()
                        .any(|(k, t)| k != i && k != j && t.letters.contains(letter))
            };
            let own = left[i].letters.iter().map(|l| (l, &left[i]));
            let more = left[j].letters.iter().filter(|l| !left[i].letters.contains(l));
            let all = own.chain(more.map(|l| (l, &left[j])));
            // As a float, which has no largest number that a product passes.
            let size: f64 =
                all.filter(|(l, _)| elsewhere(l)).map(|(l, t)| t.extent(n, *l) as f64).product();
            if best.is_none_or(|(least, _)| size < least) {
                best = Some((size, (i, j)));
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// The product of two operands, summed over the letters that are not in `result`. Letters have one extent in both.
fn product(n: &mut Node<'_, '_>, a: Term, b: Term, result: &[char]) -> Result<Term> {
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
    let operands = [GraphOperand::Tensor(a), GraphOperand::Tensor(b)];
    let id = n.part("product", "matmul", &operands, Json::Null)?;
    let letters = [&batch[..], &rows, &columns].concat();
    let id = Term { id, letters: Vec::new() }.shaped(n, &[batches, heights, widths].concat())?;
    Ok(Term { id, letters })
}
