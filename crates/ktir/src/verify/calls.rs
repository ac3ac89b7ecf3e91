//! Calls between functions: none comes back to where it began, and none goes too deep.

use super::{KtirFunctionTable, Result, broken_rule};
use crate::ir::{KtirFunction, KtirModule, KtirOp};
use crate::op::KtirOpKind;
use std::collections::HashMap;

/// Functions that may be waiting for each other at once.
// Inlining is what compilers do with kernels, so real texts are one or two calls deep. The
// interpreter keeps a table of values for every call that is open, and each core has its own.
const MAX_CALL_DEPTH: usize = 32;

/// How many calls deep a function goes, itself counted; none while it is being looked at.
type CallDepths<'m> = HashMap<&'m str, Option<usize>>;

/// Calls that come back to their own function would never end on a core.
///
/// Every function is looked at once: two calls in each of many functions make many more paths.
pub(super) fn refuse_recursion<'m>(
    module: &'m KtirModule,
    functions: &KtirFunctionTable<'m>,
) -> Result {
    let mut depths = CallDepths::new();
    for f in &module.functions {
        visit_calls(f, functions, &mut depths, 1)?;
    }
    Ok(())
}

fn visit_calls<'m>(
    f: &'m KtirFunction,
    functions: &KtirFunctionTable<'m>,
    depths: &mut CallDepths<'m>,
    above: usize,
) -> Result<usize> {
    // Without this memory a chain of functions that each call the next one twice would take 2^n
    // visits.
    if let Some(Some(known)) = depths.get(f.name.as_str()) {
        return Ok(*known);
    }
    // Marked as open: meeting the mark again below means that the call graph has a cycle.
    depths.insert(&f.name, None);
    let mut calls: Vec<&'m KtirOp> = Vec::new();
    f.body.visit_ops(&mut |op| {
        if op.kind == KtirOpKind::Call {
            calls.push(op);
        }
    });
    let mut deepest = 1;
    for op in calls {
        let callee = op.word_attr("callee").unwrap_or_default();
        // An unknown callee was refused when the call itself was checked.
        let Some(next) = functions.get(callee) else { continue };
        if depths.get(callee) == Some(&None) {
            return broken_rule(op, format!("`@{callee}` would call itself"));
        }
        // What is above may be less than the longest way here, so that both are looked at; it keeps
        // this walk itself from going deeper.
        if above > MAX_CALL_DEPTH {
            return refuse_too_deep(op);
        }
        deepest = deepest.max(1 + visit_calls(next, functions, depths, above + 1)?);
        if deepest > MAX_CALL_DEPTH + 1 {
            return refuse_too_deep(op);
        }
    }
    depths.insert(&f.name, Some(deepest));
    Ok(deepest)
}

fn refuse_too_deep<T>(op: &KtirOp) -> Result<T> {
    broken_rule(op, format!("more than {MAX_CALL_DEPTH} calls deep"))
}
