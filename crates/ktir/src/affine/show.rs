//! Prints affine expressions, maps and sets so that reading the text gives the same tree.

use super::{KtirAffineExpr, KtirAffineMap, KtirAffineNode, KtirAffineSet};
use std::fmt::{self, Display, Write};

/// The names under which dimensions and symbols are printed.
pub trait KtirAffineNames {
    /// Dimension `i`.
    fn dim_name(&self, i: usize) -> String;
    /// Symbol `i`.
    fn symbol_name(&self, i: usize) -> String;
}

struct NumberedAffineNames;

impl KtirAffineNames for NumberedAffineNames {
    fn dim_name(&self, i: usize) -> String {
        format!("d{i}")
    }
    fn symbol_name(&self, i: usize) -> String {
        format!("s{i}")
    }
}

/// Prints an expression with the given names.
pub(crate) fn format_expr_with(e: &KtirAffineExpr, names: &dyn KtirAffineNames) -> String {
    let mut out = String::new();
    write_sum(&mut out, e, names);
    out
}

/// Prints a sum; a whole expression needs no parentheses around it.
fn write_sum(out: &mut String, e: &KtirAffineExpr, names: &dyn KtirAffineNames) {
    // Reading associates to the left, so only the left operand of a sum may be a sum without
    // parentheses. Otherwise `a + (b + c)` would be read back as another tree.
    let KtirAffineNode::Add(a, b) = &e.0 else { return write_term(out, e, names) };
    write_sum(out, a, names);
    match &b.0 {
        // The smallest number has no positive counterpart; it is written after a plus sign.
        KtirAffineNode::Const(c) if *c < 0 && *c > i64::MIN => {
            let _ = write!(out, " - {}", -c);
        }
        // `a - b` is held as `a + b * -1`; the minus sign is what people write and what reads back
        // to the same tree.
        KtirAffineNode::Mul(b, -1) => {
            out.push_str(" - ");
            write_term(out, b, names);
        }
        _ => {
            out.push_str(" + ");
            write_term(out, b, names);
        }
    }
}

/// Prints a product or quotient; sums inside of it get parentheses.
fn write_term(out: &mut String, e: &KtirAffineExpr, names: &dyn KtirAffineNames) {
    let (a, op, k) = match &e.0 {
        KtirAffineNode::Mul(a, -1) => {
            out.push('-');
            return write_primary(out, a, names);
        }
        KtirAffineNode::Mul(a, k) => (a, "*", k),
        KtirAffineNode::FloorDiv(a, k) => (a, "floordiv", k),
        KtirAffineNode::CeilDiv(a, k) => (a, "ceildiv", k),
        KtirAffineNode::Mod(a, k) => (a, "mod", k),
        _ => return write_primary(out, e, names),
    };
    write_term(out, a, names);
    let _ = write!(out, " {op} {k}");
}

fn write_primary(out: &mut String, e: &KtirAffineExpr, names: &dyn KtirAffineNames) {
    match &e.0 {
        KtirAffineNode::Const(c) => {
            let _ = write!(out, "{c}");
        }
        KtirAffineNode::Dim(d) => out.push_str(&names.dim_name(*d)),
        KtirAffineNode::Symbol(s) => out.push_str(&names.symbol_name(*s)),
        _ => {
            out.push('(');
            write_sum(out, e, names);
            out.push(')');
        }
    }
}

impl Display for KtirAffineExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_expr_with(self, &NumberedAffineNames))
    }
}

fn format_header(dims: usize, symbols: usize) -> String {
    let list = |n: usize, c: char| (0..n).map(|i| format!("{c}{i}")).collect::<Vec<_>>().join(", ");
    let mut out = format!("({})", list(dims, 'd'));
    if symbols > 0 {
        let _ = write!(out, "[{}]", list(symbols, 's'));
    }
    out
}

impl Display for KtirAffineMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results: Vec<String> = self.results.iter().map(ToString::to_string).collect();
        let head = format_header(self.dims, self.symbols);
        write!(f, "affine_map<{head} -> ({})>", results.join(", "))
    }
}

impl Display for KtirAffineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let constraints: Vec<String> = self
            .constraints
            .iter()
            .map(|c| format!("{} {} 0", c.expr, if c.equal { "==" } else { ">=" }))
            .collect();
        let head = format_header(self.dims, self.symbols);
        write!(f, "affine_set<{head} : ({})>", constraints.join(", "))
    }
}
