//! Calls between functions: none comes back to where it began, and none goes too deep.

use super::{Functions, Result, broken};
use crate::ir::{Function, Module, Op};
use crate::op::Kind;
use std::collections::HashMap;

/// Functions that may be waiting for each other at once.
const DEPTH: usize = 32;

/// How many calls deep a function goes, itself counted; none while it is being looked at.
type Depths<'m> = HashMap<&'m str, Option<usize>>;

/// Calls that come back to their own function would never end on a core.
///
/// Every function is looked at once: two calls in each of many functions make many more paths.
pub(super) fn no_recursion<'m>(module: &'m Module, functions: &Functions<'m>) -> Result {
    let mut depths = Depths::new();
    for f in &module.functions {
        visit(f, functions, &mut depths, 1)?;
    }
    Ok(())
}

fn visit<'m>(
    f: &'m Function,
    functions: &Functions<'m>,
    depths: &mut Depths<'m>,
    above: usize,
) -> Result<usize> {
    if let Some(Some(known)) = depths.get(f.name.as_str()) {
        return Ok(*known);
    }
    depths.insert(&f.name, None);
    let mut calls: Vec<&'m Op> = Vec::new();
    f.body.visit(&mut |op| {
        if op.kind == Kind::Call {
            calls.push(op);
        }
    });
    let mut deepest = 1;
    for op in calls {
        let callee = op.word("callee").unwrap_or_default();
        let Some(next) = functions.get(callee) else { continue };
        if depths.get(callee) == Some(&None) {
            return broken(op, format!("`@{callee}` would call itself"));
        }
        // What is above may be less than the longest way here, so that both are looked at; it keeps
        // this walk itself from going deeper.
        if above > DEPTH {
            return too_deep(op);
        }
        deepest = deepest.max(1 + visit(next, functions, depths, above + 1)?);
        if deepest > DEPTH + 1 {
            return too_deep(op);
        }
    }
    depths.insert(&f.name, Some(deepest));
    Ok(deepest)
}

fn too_deep<T>(op: &Op) -> Result<T> {
    broken(op, format!("more than {DEPTH} calls deep"))
}
