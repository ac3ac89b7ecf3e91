//! Affine maps: `affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)>`, with the expressions that MLIR's
//! Affine dialect documentation defines.

use crate::Diagnostic;
use crate::cursor::TextCursor;
use std::fmt;

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// An affine expression of dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AffineMapExpr {
    Dim(usize),
    Constant(i64),
    Add(Box<AffineMapExpr>, Box<AffineMapExpr>),
    /// By a constant.
    Mul(Box<AffineMapExpr>, i64),
    /// By a positive constant.
    FloorDiv(Box<AffineMapExpr>, i64),
    CeilDiv(Box<AffineMapExpr>, i64),
    Mod(Box<AffineMapExpr>, i64),
}

/// A map from dimensions to the coordinates of memory, slowest first; one coordinate is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AffineMap {
    pub(super) rank: usize,
    pub(super) results: Vec<AffineMapExpr>,
}

/// The deepest nesting of expressions, because the parser recurses, and the most results of a map.
const MAX_DEPTH: usize = 64;
const MAX_RESULTS: usize = 256;

impl AffineMapExpr {
    /// Its value at a coordinate; `None` past 64 bits.
    pub(super) fn evaluate_at(&self, at: &[i64]) -> Option<i64> {
        match self {
            AffineMapExpr::Dim(d) => at.get(*d).copied(),
            AffineMapExpr::Constant(c) => Some(*c),
            AffineMapExpr::Add(a, b) => a.evaluate_at(at)?.checked_add(b.evaluate_at(at)?),
            AffineMapExpr::Mul(a, c) => a.evaluate_at(at)?.checked_mul(*c),
            // The divisor is positive, so Euclidean division rounds towards negative infinity as
            // `floordiv` does.
            AffineMapExpr::FloorDiv(a, c) => Some(a.evaluate_at(at)?.div_euclid(*c)),
            AffineMapExpr::CeilDiv(a, c) => {
                a.evaluate_at(at)?.checked_add(c - 1).map(|v| v.div_euclid(*c))
            }
            AffineMapExpr::Mod(a, c) => Some(a.evaluate_at(at)?.rem_euclid(*c)),
        }
    }

    /// The interval of values over a shape by the rules of interval arithmetic; `None` past 64 bits or
    /// without elements. `mod c` always gives `0..c`, because MLIR's memref normalization sizes tiled
    /// layouts that way.
    pub(super) fn value_range(&self, shape: &[i64]) -> Option<(i64, i64)> {
        Some(match self {
            AffineMapExpr::Dim(d) => (0, shape.get(*d)?.checked_sub(1).filter(|m| *m >= 0)?),
            AffineMapExpr::Constant(c) => (*c, *c),
            AffineMapExpr::Add(a, b) => {
                let ((al, ah), (bl, bh)) = (a.value_range(shape)?, b.value_range(shape)?);
                (al.checked_add(bl)?, ah.checked_add(bh)?)
            }
            AffineMapExpr::Mul(a, c) => {
                let (low, high) = a.value_range(shape)?;
                let (x, y) = (low.checked_mul(*c)?, high.checked_mul(*c)?);
                (x.min(y), x.max(y))
            }
            AffineMapExpr::FloorDiv(a, c) => {
                let (low, high) = a.value_range(shape)?;
                (low.div_euclid(*c), high.div_euclid(*c))
            }
            AffineMapExpr::CeilDiv(a, c) => {
                let (low, high) = a.value_range(shape)?;
                (low.checked_add(c - 1)?.div_euclid(*c), high.checked_add(c - 1)?.div_euclid(*c))
            }
            AffineMapExpr::Mod(_, c) => (0, c - 1),
        })
    }

    /// Whether it is a sum of functions of one dimension each.
    pub(super) fn is_separable(&self) -> bool {
        match self {
            AffineMapExpr::Dim(_) | AffineMapExpr::Constant(_) => true,
            AffineMapExpr::Add(a, b) => a.is_separable() && b.is_separable(),
            AffineMapExpr::Mul(a, _) => a.is_separable(),
            AffineMapExpr::FloorDiv(a, _)
            | AffineMapExpr::CeilDiv(a, _)
            | AffineMapExpr::Mod(a, _) => {
                let mut dims = Vec::new();
                a.collect_dims(&mut dims);
                dims.dedup();
                dims.len() <= 1
            }
        }
    }

    fn collect_dims(&self, all: &mut Vec<usize>) {
        match self {
            AffineMapExpr::Dim(d) => all.push(*d),
            AffineMapExpr::Constant(_) => {}
            AffineMapExpr::Add(a, b) => {
                a.collect_dims(all);
                b.collect_dims(all);
                all.sort_unstable();
            }
            AffineMapExpr::Mul(a, _)
            | AffineMapExpr::FloorDiv(a, _)
            | AffineMapExpr::CeilDiv(a, _)
            | AffineMapExpr::Mod(a, _) => {
                a.collect_dims(all);
            }
        }
    }

    /// The value of a constant expression. Constants are folded while parsing, so that `2 * 3` divides like `6`.
    fn constant_value(&self) -> Option<i64> {
        match self {
            AffineMapExpr::Constant(c) => Some(*c),
            _ => None,
        }
    }
}

impl fmt::Display for AffineMapExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every left side of an operation that is not a single dimension or constant is put in brackets, as
        // MLIR prints it.
        let inner = |e: &AffineMapExpr| match e {
            AffineMapExpr::Dim(_) | AffineMapExpr::Constant(_) => e.to_string(),
            _ => format!("({e})"),
        };
        match self {
            AffineMapExpr::Dim(d) => write!(f, "d{d}"),
            AffineMapExpr::Constant(c) => write!(f, "{c}"),
            AffineMapExpr::Add(a, b) => match b.as_ref() {
                AffineMapExpr::Constant(c) if *c < 0 && *c != i64::MIN => write!(f, "{a} - {}", -c),
                AffineMapExpr::Mul(x, -1) => write!(f, "{a} - {}", inner(x)),
                AffineMapExpr::Add(..) => write!(f, "{a} + ({b})"),
                _ => write!(f, "{a} + {b}"),
            },
            AffineMapExpr::Mul(a, -1) => write!(f, "-{}", inner(a)),
            AffineMapExpr::Mul(a, c) => write!(f, "{} * {c}", inner(a)),
            AffineMapExpr::FloorDiv(a, c) => write!(f, "{} floordiv {c}", inner(a)),
            AffineMapExpr::CeilDiv(a, c) => write!(f, "{} ceildiv {c}", inner(a)),
            AffineMapExpr::Mod(a, c) => write!(f, "{} mod {c}", inner(a)),
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
pub(super) fn read_affine_map(c: &mut TextCursor<'_>) -> Result<AffineMap> {
    c.expect_char('<', "after `affine_map`")?;
    c.expect_char('(', "before the dimensions")?;
    let mut names: Vec<String> = Vec::new();
    while !c.eat_char(')') {
        if !names.is_empty() {
            c.expect_char(',', "between dimensions")?;
        }
        let Some(word) = c.read_word() else {
            return Err(c.refuse_next_token("a dimension such as d0"));
        };
        if names.iter().any(|n| n == word.value) || names.len() == MAX_RESULTS {
            let message = format!(
                "dimension `{}` is named twice, or one too many",
                word.value.chars().take(40).collect::<String>()
            );
            return Err(Diagnostic::syntax_error(word.span, message, "another name"));
        }
        names.push(word.value.to_string());
    }
    if c.peek_char() == Some('[') {
        let (span, _) = c.next_token();
        let message = "symbols have no value here";
        return Err(Diagnostic::syntax_error(span, message, "constants only")
            .with_help("write the number in place of the symbol"));
    }
    c.expect_char('-', "in `->`")?;
    c.expect_char('>', "in `->`")?;
    c.expect_char('(', "before the results")?;
    let mut results = Vec::new();
    while !c.eat_char(')') {
        if !results.is_empty() {
            c.expect_char(',', "between results")?;
        }
        let at = c.next_token_start();
        results.push(read_sum(c, &names, 0)?);
        if results.len() > MAX_RESULTS {
            return Err(Diagnostic::syntax_error(
                at..c.last_token_end(),
                "too many results",
                "one too many",
            ));
        }
    }
    c.expect_char('>', "at the end of the map")?;
    Ok(AffineMap { rank: names.len(), results })
}

fn read_sum(c: &mut TextCursor<'_>, names: &[String], depth: usize) -> Result<AffineMapExpr> {
    let mut left = read_term(c, names, depth)?;
    loop {
        let at = c.next_token_start();
        let minus = c.peek_char() == Some('-');
        // A minus cannot be the beginning of `->` here, because that never follows an expression in brackets.
        if !c.eat_char('+') && !c.eat_char('-') {
            return Ok(left);
        }
        let right = read_term(c, names, depth)?;
        let right =
            if minus { multiply_by_constant(right, -1, at..c.last_token_end())? } else { right };
        left = match (left.constant_value(), right.constant_value()) {
            (Some(a), Some(b)) => AffineMapExpr::Constant(
                a.checked_add(b).ok_or_else(|| too_large_error(at..c.last_token_end()))?,
            ),
            _ => AffineMapExpr::Add(Box::new(left), Box::new(right)),
        };
    }
}

fn multiply_by_constant(
    e: AffineMapExpr,
    by: i64,
    span: std::ops::Range<usize>,
) -> Result<AffineMapExpr> {
    Ok(match e {
        AffineMapExpr::Constant(c) => {
            AffineMapExpr::Constant(c.checked_mul(by).ok_or_else(|| too_large_error(span))?)
        }
        AffineMapExpr::Mul(inner, c) => {
            AffineMapExpr::Mul(inner, c.checked_mul(by).ok_or_else(|| too_large_error(span))?)
        }
        other => AffineMapExpr::Mul(Box::new(other), by),
    })
}

fn too_large_error(span: std::ops::Range<usize>) -> Diagnostic {
    Diagnostic::syntax_error(span, "a constant does not fit in 64 bits", "too large")
        .with_id("Z003")
}

fn read_term(c: &mut TextCursor<'_>, names: &[String], depth: usize) -> Result<AffineMapExpr> {
    let start = c.next_token_start();
    let mut left = read_factor(c, names, depth)?;
    loop {
        let word = c.clone().read_word().map(|w| w.value.to_string());
        let star = c.eat_char('*');
        if !star && !matches!(word.as_deref(), Some("floordiv" | "ceildiv" | "mod")) {
            return Ok(left);
        }
        if !star {
            let _ = c.read_word();
        }
        let at = c.next_token_start();
        let right = read_factor(c, names, depth)?;
        let span = at..c.last_token_end();
        if star {
            left = match (right.constant_value(), left.constant_value()) {
                (Some(by), _) => multiply_by_constant(left, by, start..c.last_token_end())?,
                (None, Some(by)) => multiply_by_constant(right, by, start..c.last_token_end())?,
                (None, None) => {
                    let message = "a product of two dimensions is not affine";
                    return Err(Diagnostic::syntax_error(
                        start..c.last_token_end(),
                        message,
                        "one side is a constant",
                    ));
                }
            };
            continue;
        }
        let by = right.constant_value().filter(|by| *by > 0).ok_or_else(|| {
            let message = format!(
                "the right side of {} is not a positive constant",
                word.as_deref().unwrap_or_default()
            );
            Diagnostic::syntax_error(span, message, "a positive constant")
        })?;
        let value = Box::new(left);
        left = match word.as_deref() {
            Some("floordiv") => AffineMapExpr::FloorDiv(value, by),
            Some("ceildiv") => AffineMapExpr::CeilDiv(value, by),
            _ => AffineMapExpr::Mod(value, by),
        };
        if let AffineMapExpr::FloorDiv(v, _)
        | AffineMapExpr::CeilDiv(v, _)
        | AffineMapExpr::Mod(v, _) = &left
            && v.constant_value().is_some()
        {
            left = AffineMapExpr::Constant(left.evaluate_at(&[]).unwrap_or(0));
        }
    }
}

fn read_factor(c: &mut TextCursor<'_>, names: &[String], depth: usize) -> Result<AffineMapExpr> {
    let start = c.next_token_start();
    if depth > MAX_DEPTH {
        return Err(Diagnostic::syntax_error(
            start..start,
            "brackets in brackets, too deep",
            "too deep",
        ));
    }
    if c.eat_char('(') {
        let inner = read_sum(c, names, depth + 1)?;
        c.expect_char(')', "at the end of the brackets")?;
        return Ok(inner);
    }
    if c.peek_char() == Some('-') {
        c.eat_char('-');
        let inner = read_factor(c, names, depth + 1)?;
        return multiply_by_constant(inner, -1, start..c.last_token_end());
    }
    if let Some(word) = c.read_word() {
        return names.iter().position(|n| n == word.value).map(AffineMapExpr::Dim).ok_or_else(
            || {
                let shown: String = word.value.chars().take(40).collect();
                let message = format!("`{shown}` is not a dimension of the map");
                Diagnostic::syntax_error(word.span, message, "unknown")
                    .with_help(format!("dimensions: {}", names.join(", ")))
            },
        );
    }
    if !c.peek_char().is_some_and(|ch| ch.is_ascii_digit()) {
        return Err(c.refuse_next_token("a dimension, a constant or `(`"));
    }
    Ok(AffineMapExpr::Constant(c.read_integer("a constant")?.value))
}
