//! The rule for Einsum. Operands are multiplied in pairs, each pair as one product of matrices with
//! views around it.

use super::RuleTable;
use crate::error::Result;
use crate::literal::element_count;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[("Einsum", lower_einsum)];

/// The largest number of operands: every step compares all remaining pairs.
// Every pair costs a pass over the letters, and there are as many steps as operands: cubic in this
// number.
const MOST_OPERANDS: usize = 64;

/// An intermediate tensor, and the letter of each of its dimensions.
struct EinsumTerm {
    id: TensorId,
    letters: Vec<char>,
}

impl EinsumTerm {
    fn letter_extent(&self, n: &NodeLowering<'_, '_>, letter: char) -> i64 {
        let at = self.letters.iter().position(|l| *l == letter);
        at.map_or(1, |d| n.tensor_size(self.id)[d])
    }

    /// Sums over the letters that are not kept.
    fn sum_letters(
        self,
        n: &mut NodeLowering<'_, '_>,
        kept: impl Fn(char) -> bool,
    ) -> Result<EinsumTerm> {
        let gone: Vec<usize> =
            (0..self.letters.len()).filter(|d| !kept(self.letters[*d])).collect();
        if gone.is_empty() {
            return Ok(self);
        }
        let over = OpCall::reduce("sum", gone, false);
        let id = n.emit_part("sum", over, &[GraphOperand::Tensor(self.id)])?;
        Ok(EinsumTerm { id, letters: self.letters.into_iter().filter(|l| kept(*l)).collect() })
    }

    /// Permutes its dimensions.
    fn reorder_letters(self, n: &mut NodeLowering<'_, '_>, order: &[char]) -> Result<EinsumTerm> {
        if self.letters == order {
            return Ok(self);
        }
        let at = |l: &char| self.letters.iter().position(|m| m == l).unwrap_or(0);
        let dims: Vec<usize> = order.iter().map(at).collect();
        let id = n.emit_part("turned", OpCall::permute(dims), &[GraphOperand::Tensor(self.id)])?;
        Ok(EinsumTerm { id, letters: order.to_vec() })
    }

    fn reshape_term(self, n: &mut NodeLowering<'_, '_>, size: &[i64]) -> Result<TensorId> {
        if n.tensor_size(self.id) == size {
            return Ok(self.id);
        }
        n.emit_part("shaped", OpCall::reshape(size), &[GraphOperand::Tensor(self.id)])
    }
}

/// Parses the letters of the operands and of the result.
fn parse_equation(n: &mut NodeLowering<'_, '_>) -> Result<(Vec<Vec<char>>, Vec<char>)> {
    let text: String =
        n.word_attribute("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let bad = |n: &NodeLowering<'_, '_>, why: &str| {
        let shown: String = text.chars().take(60).collect();
        n.refuse_node("bad_attribute", format!("attribute `equation` is `{shown}`: {why}"))
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
        // Without an arrow the result has the letters that occur once, in alphabetical order.
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
            return Err(bad(
                n,
                "accepted are letters; replace `...` by the letters of its dimensions",
            ));
        }
        if list.iter().enumerate().any(|(k, l)| list[..k].contains(l)) {
            return Err(bad(n, "a letter occurs twice in one operand, or in the result"));
        }
    }
    if result.iter().any(|l| !terms.concat().contains(l)) {
        return Err(bad(n, "a letter of the result occurs in no operand"));
    }
    n.check_arity(terms.len(), terms.len())?;
    Ok((terms, result))
}

fn lower_einsum(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let (terms, result) = parse_equation(n)?;
    let dtype = n.operand_dtype(0)?;
    for (k, letters) in terms.iter().enumerate() {
        let size = n.operand_size(k)?;
        if size.len() != letters.len() {
            return Err(n.refuse_operand(k, format!("{size:?} for {} letters", letters.len())));
        }
    }
    check_extents_agree(n, &terms)?;
    let mut left = Vec::new();
    for (k, letters) in terms.into_iter().enumerate() {
        left.push(EinsumTerm { id: n.operand_tensor(k)?, letters });
    }
    // Greedy by the size of the next product. The best order is a problem whose search grows
    // exponentially with the number of operands, and equations of models have two or three.
    while let Some((i, j)) = choose_next_pair(n, &left, &result) {
        let b = left.remove(j);
        let a = left.remove(i);
        let kept = needed_letters(&left, &result);
        let both = multiply_terms(n, a, b, &kept)?;
        left.insert(i, both);
    }
    // `left` is never empty, because an equation has at least one operand.
    let Some(last) = left.pop() else { return Ok(Vec::new()) };
    let y = last.sum_letters(n, |l| result.contains(&l))?.reorder_letters(n, &result)?;
    Ok(vec![n.convert_result(y.id, dtype)?])
}

/// Checks that a letter has one size in all operands.
fn check_extents_agree(n: &mut NodeLowering<'_, '_>, terms: &[Vec<char>]) -> Result<()> {
    let mut extents: Vec<(char, i64, usize)> = Vec::new();
    for (k, letters) in terms.iter().enumerate() {
        for (letter, extent) in letters.iter().zip(n.operand_size(k)?) {
            match extents.iter().find(|(l, ..)| l == letter) {
                Some((_, known, first)) if *known != extent => {
                    let message =
                        format!("`{letter}` is {extent} here and {known} in operand {first}");
                    return Err(n.refuse_operand(k, message));
                }
                Some(_) => {}
                None => extents.push((*letter, extent, k)),
            }
        }
    }
    Ok(())
}

/// The letters of the result, then those that other operands use.
fn needed_letters(others: &[EinsumTerm], result: &[char]) -> Vec<char> {
    let mut kept = result.to_vec();
    for letter in others.iter().flat_map(|t| &t.letters) {
        if !kept.contains(letter) {
            kept.push(*letter);
        }
    }
    kept
}

/// Chooses the two operands to multiply next: those with the smallest product, so that intermediate
/// tensors stay small.
fn choose_next_pair(
    n: &NodeLowering<'_, '_>,
    left: &[EinsumTerm],
    result: &[char],
) -> Option<(usize, usize)> {
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
            // As a float, because the product of the sizes may not fit in 64 bits.
            let size: f64 = all
                .filter(|(l, _)| elsewhere(l))
                .map(|(l, t)| t.letter_extent(n, *l) as f64)
                .product();
            if best.is_none_or(|(least, _)| size < least) {
                best = Some((size, (i, j)));
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// Multiplies two operands and sums over the letters that are not in `result`. A letter has the
/// same size in both.
fn multiply_terms(
    n: &mut NodeLowering<'_, '_>,
    a: EinsumTerm,
    b: EinsumTerm,
    result: &[char],
) -> Result<EinsumTerm> {
    let (first, second) = (a.letters.clone(), b.letters.clone());
    // A letter that stands in one operand only is summed before the product, which is then smaller
    // by its extent.
    let a = a.sum_letters(n, |l| second.contains(&l) || result.contains(&l))?;
    let b = b.sum_letters(n, |l| first.contains(&l) || result.contains(&l))?;
    let both = |l: &char| a.letters.contains(l) && b.letters.contains(l);
    // Each letter has one of four roles: in both operands and kept (batch), in both and summed (the
    // inner dimension), or in one of them (rows, columns). That is a batched product of matrices.
    let batch: Vec<char> = result.iter().filter(|l| both(l)).copied().collect();
    let summed: Vec<char> =
        a.letters.iter().filter(|l| both(l) && !result.contains(l)).copied().collect();
    let rows: Vec<char> = a.letters.iter().filter(|l| !both(l)).copied().collect();
    let columns: Vec<char> = b.letters.iter().filter(|l| !both(l)).copied().collect();
    let sizes = |of: &EinsumTerm, list: &[char], n: &NodeLowering<'_, '_>| -> Vec<i64> {
        list.iter().map(|l| of.letter_extent(n, *l)).collect()
    };
    let count = |size: &[i64]| element_count(size).unwrap_or(0);
    let (batches, heights) = (sizes(&a, &batch, n), sizes(&a, &rows, n));
    let (depth, widths) = (count(&sizes(&a, &summed, n)), sizes(&b, &columns, n));
    // One dimension for each group of letters, and none for an empty batch.
    let matrix = |height: i64, width: i64| -> Vec<i64> {
        let lead = if batches.is_empty() { None } else { Some(count(&batches)) };
        lead.into_iter().chain([height, width]).collect()
    };
    let a = a.reorder_letters(n, &[&batch[..], &rows, &summed].concat())?;
    let a = a.reshape_term(n, &matrix(count(&heights), depth))?;
    let b = b.reorder_letters(n, &[&batch[..], &summed, &columns].concat())?;
    let b = b.reshape_term(n, &matrix(depth, count(&widths)))?;
    let operands = [GraphOperand::Tensor(a), GraphOperand::Tensor(b)];
    let id = n.emit_part("product", "matmul", &operands)?;
    let letters = [&batch[..], &rows, &columns].concat();
    let id = EinsumTerm { id, letters: Vec::new() }
        .reshape_term(n, &[batches, heights, widths].concat())?;
    Ok(EinsumTerm { id, letters })
}
