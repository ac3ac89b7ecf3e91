//! Rules of calls: no function calls itself, directly or through others, and calls nest to a
//! bounded depth.

use super::{KtirFunctionTable, Result, broken_rule};
use crate::ir::{KtirFunction, KtirModule, KtirOp};
use crate::op::KtirOpKind;
use std::collections::HashMap;

/// The largest number of calls that may be open at once.
// Inlining is what compilers do with kernels, so real texts are one or two calls deep. The
// interpreter keeps a table of values for every call that is open, and each core has its own.
const MAX_CALL_DEPTH: usize = 32;

/// The depth of calls below each function, the function itself included; `None` while it is being
/// analyzed.
type CallDepths<'m> = HashMap<&'m str, Option<usize>>;

/// Refuses recursion, which would never end on a core.
///
/// Every function is analyzed once, because the number of paths through the call graph can be
/// exponential.
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
        // `above` is the depth of this path and not of the longest one, so the depth below is
        // checked as well; the first check bounds the recursion of this function.
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
