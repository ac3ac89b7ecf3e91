//! Affine maps: `affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)>`.

use crate::Diagnostic;
use crate::cursor::Cursor;
use std::fmt;

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// An affine expression of dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    Dim(usize),
    Constant(i64),
    Add(Box<Expr>, Box<Expr>),
    /// By a constant.
    Mul(Box<Expr>, i64),
    /// By a positive constant.
    FloorDiv(Box<Expr>, i64),
    CeilDiv(Box<Expr>, i64),
    Mod(Box<Expr>, i64),
}

/// A map from dimensions to the coordinates of memory, slowest first; one coordinate is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AffineMap {
    pub(super) rank: usize,
    pub(super) results: Vec<Expr>,
}

/// Parts of expressions in expressions, and results, that are read.
const MAX_DEPTH: usize = 64;
const MAX_RESULTS: usize = 256;

impl Expr {
    /// Its value at a coordinate; `None` past 64 bits.
    pub(super) fn value(&self, at: &[i64]) -> Option<i64> {
        match self {
            Expr::Dim(d) => at.get(*d).copied(),
            Expr::Constant(c) => Some(*c),
            Expr::Add(a, b) => a.value(at)?.checked_add(b.value(at)?),
            Expr::Mul(a, c) => a.value(at)?.checked_mul(*c),
            Expr::FloorDiv(a, c) => Some(a.value(at)?.div_euclid(*c)),
            Expr::CeilDiv(a, c) => a.value(at)?.checked_add(c - 1).map(|v| v.div_euclid(*c)),
            Expr::Mod(a, c) => Some(a.value(at)?.rem_euclid(*c)),
        }
    }

    /// The least interval that the rules of each operation give, over a shape; `None` past 64 bits or without elements.
    pub(super) fn range(&self, shape: &[i64]) -> Option<(i64, i64)> {
        Some(match self {
            Expr::Dim(d) => (0, shape.get(*d)?.checked_sub(1).filter(|m| *m >= 0)?),
            Expr::Constant(c) => (*c, *c),
            Expr::Add(a, b) => {
                let ((al, ah), (bl, bh)) = (a.range(shape)?, b.range(shape)?);
                (al.checked_add(bl)?, ah.checked_add(bh)?)
            }
            Expr::Mul(a, c) => {
                let (low, high) = a.range(shape)?;
                let (x, y) = (low.checked_mul(*c)?, high.checked_mul(*c)?);
                (x.min(y), x.max(y))
            }
            Expr::FloorDiv(a, c) => {
                let (low, high) = a.range(shape)?;
                (low.div_euclid(*c), high.div_euclid(*c))
            }
            Expr::CeilDiv(a, c) => {
                let (low, high) = a.range(shape)?;
                (low.checked_add(c - 1)?.div_euclid(*c), high.checked_add(c - 1)?.div_euclid(*c))
            }
            Expr::Mod(_, c) => (0, c - 1),
        })
    }

    /// Whether it is a sum of functions of one dimension each.
    pub(super) fn is_separable(&self) -> bool {
        match self {
            Expr::Dim(_) | Expr::Constant(_) => true,
            Expr::Add(a, b) => a.is_separable() && b.is_separable(),
            Expr::Mul(a, _) => a.is_separable(),
            Expr::FloorDiv(a, _) | Expr::CeilDiv(a, _) | Expr::Mod(a, _) => {
                let mut dims = Vec::new();
                a.dims(&mut dims);
                dims.dedup();
                dims.len() <= 1
            }
        }
    }

    fn dims(&self, all: &mut Vec<usize>) {
        match self {
            Expr::Dim(d) => all.push(*d),
            Expr::Constant(_) => {}
            Expr::Add(a, b) => {
                a.dims(all);
                b.dims(all);
                all.sort_unstable();
            }
            Expr::Mul(a, _) | Expr::FloorDiv(a, _) | Expr::CeilDiv(a, _) | Expr::Mod(a, _) => {
                a.dims(all);
            }
        }
    }

    /// Constant expressions are read as constants, so that `2 * 3` divides like `6`.
    fn constant(&self) -> Option<i64> {
        match self {
            Expr::Constant(c) => Some(*c),
            _ => None,
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Brackets around a sum, and around whatever else is the left side of an operation, as MLIR prints them.
        let inner = |e: &Expr| match e {
            Expr::Dim(_) | Expr::Constant(_) => e.to_string(),
            _ => format!("({e})"),
        };
        match self {
            Expr::Dim(d) => write!(f, "d{d}"),
            Expr::Constant(c) => write!(f, "{c}"),
            Expr::Add(a, b) => match b.as_ref() {
                Expr::Constant(c) if *c < 0 && *c != i64::MIN => write!(f, "{a} - {}", -c),
                Expr::Mul(x, -1) => write!(f, "{a} - {}", inner(x)),
                Expr::Add(..) => write!(f, "{a} + ({b})"),
                _ => write!(f, "{a} + {b}"),
            },
            Expr::Mul(a, -1) => write!(f, "-{}", inner(a)),
            Expr::Mul(a, c) => write!(f, "{} * {c}", inner(a)),
            Expr::FloorDiv(a, c) => write!(f, "{} floordiv {c}", inner(a)),
            Expr::CeilDiv(a, c) => write!(f, "{} ceildiv {c}", inner(a)),
            Expr::Mod(a, c) => write!(f, "{} mod {c}", inner(a)),
        }
    }
}

impl fmt::Display for AffineMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = (0..self.rank).map(|d| format!("d{d}")).collect();
        let results: Vec<String> = self.results.iter().map(ToString::to_string).collect();
        write!(f, "affine_map<({}) -> ({})>", dims.join(", "), results.join(", "))
    }
}

/// Reads `<(d0, d1) -> (..)>` after `affine_map`.
pub(super) fn map(c: &mut Cursor<'_>) -> Result<AffineMap> {
    c.expect('<', "after `affine_map`")?;
    c.expect('(', "before the dimensions")?;
    let mut names: Vec<String> = Vec::new();
    while !c.eat(')') {
        if !names.is_empty() {
            c.expect(',', "between dimensions")?;
        }
        let Some(word) = c.word() else { return Err(c.expected("a dimension such as d0")) };
        if names.iter().any(|n| n == word.value) || names.len() == MAX_RESULTS {
            let message = format!(
                "dimension `{}` is named twice, or one too many",
                word.value.chars().take(40).collect::<String>()
            );
            return Err(Diagnostic::syntax(word.span, message, "another name"));
        }
        names.push(word.value.to_string());
    }
    if c.peek() == Some('[') {
        let (span, _) = c.next_token();
        let message = "symbols have no value here";
        return Err(Diagnostic::syntax(span, message, "constants only")
            .help("write the number in place of the symbol"));
    }
    c.expect('-', "in `->`")?;
    c.expect('>', "in `->`")?;
    c.expect('(', "before the results")?;
    let mut results = Vec::new();
    while !c.eat(')') {
        if !results.is_empty() {
            c.expect(',', "between results")?;
        }
        let at = c.at();
        results.push(sum(c, &names, 0)?);
        if results.len() > MAX_RESULTS {
            return Err(Diagnostic::syntax(at..c.here(), "too many results", "one too many"));
        }
    }
    c.expect('>', "at the end of the map")?;
    Ok(AffineMap { rank: names.len(), results })
}

fn sum(c: &mut Cursor<'_>, names: &[String], depth: usize) -> Result<Expr> {
    let mut left = term(c, names, depth)?;
    loop {
        let at = c.at();
        let minus = c.peek() == Some('-');
        // `->` does not occur inside of brackets.
        if !c.eat('+') && !c.eat('-') {
            return Ok(left);
        }
        let right = term(c, names, depth)?;
        let right = if minus { times(right, -1, at..c.here())? } else { right };
        left = match (left.constant(), right.constant()) {
            (Some(a), Some(b)) => {
                Expr::Constant(a.checked_add(b).ok_or_else(|| too_large(at..c.here()))?)
            }
            _ => Expr::Add(Box::new(left), Box::new(right)),
        };
    }
}

fn times(e: Expr, by: i64, span: std::ops::Range<usize>) -> Result<Expr> {
    Ok(match e {
        Expr::Constant(c) => Expr::Constant(c.checked_mul(by).ok_or_else(|| too_large(span))?),
        Expr::Mul(inner, c) => Expr::Mul(inner, c.checked_mul(by).ok_or_else(|| too_large(span))?),
        other => Expr::Mul(Box::new(other), by),
    })
}

fn too_large(span: std::ops::Range<usize>) -> Diagnostic {
    Diagnostic::syntax(span, "a constant does not fit in 64 bits", "too large").id("Z003")
}

fn term(c: &mut Cursor<'_>, names: &[String], depth: usize) -> Result<Expr> {
    let start = c.at();
    let mut left = factor(c, names, depth)?;
    loop {
        let word = c.clone().word().map(|w| w.value.to_string());
        let star = c.eat('*');
        if !star && !matches!(word.as_deref(), Some("floordiv" | "ceildiv" | "mod")) {
            return Ok(left);
        }
        if !star {
            let _ = c.word();
        }
        let at = c.at();
        let right = factor(c, names, depth)?;
        let span = at..c.here();
        if star {
            left = match (right.constant(), left.constant()) {
                (Some(by), _) => times(left, by, start..c.here())?,
                (None, Some(by)) => times(right, by, start..c.here())?,
                (None, None) => {
                    let message = "a product of two dimensions is not affine";
                    return Err(Diagnostic::syntax(
                        start..c.here(),
                        message,
                        "one side is a constant",
                    ));
                }
            };
            continue;
        }
        let by = right.constant().filter(|by| *by > 0).ok_or_else(|| {
            let message = format!(
                "the right side of {} is no positive constant",
                word.as_deref().unwrap_or_default()
            );
            Diagnostic::syntax(span, message, "a positive constant")
        })?;
        let value = Box::new(left);
        left = match word.as_deref() {
            Some("floordiv") => Expr::FloorDiv(value, by),
            Some("ceildiv") => Expr::CeilDiv(value, by),
            _ => Expr::Mod(value, by),
        };
        if let Expr::FloorDiv(v, _) | Expr::CeilDiv(v, _) | Expr::Mod(v, _) = &left
            && v.constant().is_some()
        {
            left = Expr::Constant(left.value(&[]).unwrap_or(0));
        }
    }
}

fn factor(c: &mut Cursor<'_>, names: &[String], depth: usize) -> Result<Expr> {
    let start = c.at();
    if depth > MAX_DEPTH {
        return Err(Diagnostic::syntax(start..start, "brackets in brackets, too deep", "too deep"));
    }
    if c.eat('(') {
        let inner = sum(c, names, depth + 1)?;
        c.expect(')', "at the end of the brackets")?;
        return Ok(inner);
    }
    if c.peek() == Some('-') {
        c.eat('-');
        let inner = factor(c, names, depth + 1)?;
        return times(inner, -1, start..c.here());
    }
    if let Some(word) = c.word() {
        return names.iter().position(|n| n == word.value).map(Expr::Dim).ok_or_else(|| {
            let shown: String = word.value.chars().take(40).collect();
            let message = format!("`{shown}` is no dimension of the map");
            Diagnostic::syntax(word.span, message, "unknown")
                .help(format!("dimensions: {}", names.join(", ")))
        });
    }
    if !c.peek().is_some_and(|ch| ch.is_ascii_digit()) {
        return Err(c.expected("a dimension, a constant or `(`"));
    }
    Ok(Expr::Constant(c.int("a constant")?.value))
}
