//! Reads affine sets, maps and expressions.

use super::parser::{KtirParser, Result};
use crate::affine::{KtirAffineConstraint, KtirAffineExpr, KtirAffineMap, KtirAffineSet};
use crate::ir::{KtirAlias, KtirValue};
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

/// The meaning of the names in an expression.
pub(super) enum AffineScope<'s> {
    /// The names of a set or map: dimensions, then symbols.
    Listed(&'s [String], &'s [String]),
    /// Values, of which each new one becomes a dimension. Variables with names of their own come
    /// first.
    Values(&'s [String], &'s mut Vec<KtirValue>),
}

/// The largest number of nodes of one expression; it is processed recursively.
// An expression of the texts has a handful of nodes. Evaluating, printing and dropping a tree
// recurse as deep as it is long to the left, and this depth fits on every stack.
const MAX_EXPR_NODES: usize = 2048;

/// The largest number of names and numbers of one expression or condition. An expression that has
/// no more than `MAX_EXPR_NODES` is written with fewer of them.
const MAX_EXPR_LEAVES: usize = 4 * MAX_EXPR_NODES;

/// The largest number of dimensions and symbols of one set or map.
// Names are looked up in a list, once per mention.
const MAX_AFFINE_NAMES: usize = 256;

impl KtirParser<'_> {
    /// `affine_set<..>` or an alias of one.
    pub(super) fn parse_set(&mut self) -> Result<Spanned<KtirAffineSet>> {
        let start = self.c.next_token_start();
        let value = if self.is_next("#") {
            match self.parse_alias()? {
                (_, KtirAlias::Set(set)) => set,
                (span, KtirAlias::Map(_)) => {
                    return self.syntax_error(span, "a set is needed here", "this is a map");
                }
            }
        } else if self.eat_word("affine_set") {
            self.parse_set_body()?
        } else {
            return Err(self.c.refuse_next_token("a set: `affine_set<..>` or `#name`"));
        };
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    /// `affine_map<..>` or an alias of one.
    pub(super) fn parse_map(&mut self) -> Result<Spanned<KtirAffineMap>> {
        let start = self.c.next_token_start();
        let value = if self.is_next("#") {
            match self.parse_alias()? {
                (_, KtirAlias::Map(map)) => map,
                (span, KtirAlias::Set(_)) => {
                    return self.syntax_error(span, "a map is needed here", "this is a set");
                }
            }
        } else if self.eat_word("affine_map") {
            self.parse_map_body()?
        } else {
            return Err(self.c.refuse_next_token("a map: `affine_map<..>` or `#name`"));
        };
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    fn parse_alias(&mut self) -> Result<(std::ops::Range<usize>, KtirAlias)> {
        let name = self.parse_name_after('#', "an alias, such as #set")?;
        match self.alias_index.get(name.value).map(|i| &self.aliases[*i]) {
            Some((_, alias)) => Ok((name.span, alias.clone())),
            None => {
                let message = format!("`#{}` is not defined", name.value);
                let known: Vec<String> =
                    self.aliases.iter().map(|(n, _)| format!("#{n}")).collect();
                let d =
                    Diagnostic::syntax_error(name.span, message, "no such alias").with_id("Z203");
                Err(if known.is_empty() {
                    d.with_help("aliases are defined before the module")
                } else {
                    d.with_help(format!("defined are {}", known.join(", ")))
                })
            }
        }
    }

    fn parse_dims_and_symbols(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        let name = |p: &mut Self| match p.c.read_word() {
            Some(w) => Ok(w.value.to_string()),
            None => Err(p.c.refuse_next_token("the name of a dimension, such as d0")),
        };
        let start = self.c.next_token_start();
        self.expect_token("(")?;
        let dims = self.parse_list(")", name)?;
        let symbols = if self.eat_token("[") { self.parse_list("]", name)? } else { Vec::new() };
        if dims.len() + symbols.len() > MAX_AFFINE_NAMES {
            let message = format!("more than {MAX_AFFINE_NAMES} dimensions and symbols");
            return self.syntax_error(start..self.c.last_token_end(), message, "too many");
        }
        Ok((dims, symbols))
    }

    pub(super) fn parse_set_body(&mut self) -> Result<KtirAffineSet> {
        self.expect_token("<")?;
        let start = self.c.next_token_start();
        let (dims, symbols) = self.parse_dims_and_symbols()?;
        self.expect_token(":")?;
        self.expect_token("(")?;
        let constraints = self.parse_list(")", |p| {
            let from = p.c.next_token_start();
            // Each condition is bounded by itself, because a set may have many short ones.
            p.leaves = 0;
            let left = p.parse_sum(&mut AffineScope::Listed(&dims, &symbols))?;
            let op = ["==", ">=", "<="].into_iter().find(|op| p.eat_token(op));
            let Some(op) = op else { return Err(p.c.refuse_next_token("`>=`, `<=` or `==`")) };
            let right = p.parse_sum(&mut AffineScope::Listed(&dims, &symbols))?;
            let minus = |a: KtirAffineExpr, b: KtirAffineExpr| {
                // `e >= 0` keeps the expression as it is written, so that printing gives the same
                // condition back.
                if b.as_constant() == Some(0) { a } else { a - b }
            };
            // One direction of inequality is enough for all later code.
            let expr = if op == "<=" { minus(right, left) } else { minus(left, right) };
            p.check_expr_size(from, &expr)?;
            Ok(KtirAffineConstraint { expr, equal: op == "==" })
        })?;
        self.expect_token(">")?;
        let span = start..self.c.last_token_end();
        KtirAffineSet::new(dims.len(), symbols.len(), constraints)
            .map_err(|e| Diagnostic::syntax_error(span, e.to_string(), "here"))
    }

    pub(super) fn parse_map_body(&mut self) -> Result<KtirAffineMap> {
        self.expect_token("<")?;
        let start = self.c.next_token_start();
        let (dims, symbols) = self.parse_dims_and_symbols()?;
        self.expect_token("->")?;
        self.expect_token("(")?;
        let results =
            self.parse_list(")", |p| p.parse_expr(&mut AffineScope::Listed(&dims, &symbols)))?;
        self.expect_token(">")?;
        let span = start..self.c.last_token_end();
        KtirAffineMap::new(dims.len(), symbols.len(), results)
            .map_err(|e| Diagnostic::syntax_error(span, e.to_string(), "here"))
    }

    /// Reads a whole expression.
    pub(super) fn parse_expr(&mut self, scope: &mut AffineScope<'_>) -> Result<KtirAffineExpr> {
        let from = self.c.next_token_start();
        self.leaves = 0;
        let sum = self.parse_sum(scope)?;
        self.check_expr_size(from, &sum)?;
        Ok(sum)
    }

    fn check_expr_size(&mut self, from: usize, e: &KtirAffineExpr) -> Result<()> {
        if e.count_nodes() <= MAX_EXPR_NODES {
            return Ok(());
        }
        let message = format!("an expression of more than {MAX_EXPR_NODES} terms and operators");
        self.syntax_error(from..self.c.last_token_end(), message, "too long")
    }

    fn parse_sum(&mut self, scope: &mut AffineScope<'_>) -> Result<KtirAffineExpr> {
        self.parse_deeper(|p| {
            let mut sum = p.parse_term(scope)?;
            loop {
                if p.eat_token("+") {
                    sum = sum + p.parse_term(scope)?;
                } else if p.c.peek_char() == Some('-') && !p.is_next("->") {
                    p.expect_token("-")?;
                    sum = sum - p.parse_term(scope)?;
                } else {
                    return Ok(sum);
                }
            }
        })
    }

    fn parse_term(&mut self, scope: &mut AffineScope<'_>) -> Result<KtirAffineExpr> {
        let mut product = self.parse_unary(scope)?;
        loop {
            let start = self.c.next_token_start();
            if self.eat_token("*") {
                let right = self.parse_unary(scope)?;
                // An affine product has a constant on one side; it is always held on the right,
                // which is how MLIR prints it.
                product = match (product.as_constant(), right.as_constant()) {
                    (_, Some(k)) => product * k,
                    (Some(k), None) => right * k,
                    (None, None) => {
                        let span = start..self.c.last_token_end();
                        let message = "a product of two unknowns is not affine";
                        return self.syntax_error(span, message, "one factor must be a number");
                    }
                };
                continue;
            }
            let op = ["floordiv", "ceildiv", "mod"].into_iter().find(|op| self.eat_word(op));
            let Some(op) = op else { return Ok(product) };
            let right = self.parse_unary(scope)?;
            let by = right.as_constant();
            let quotient = by.and_then(|k| match op {
                "floordiv" => product.clone().floor_div(k),
                "ceildiv" => product.clone().ceil_div(k),
                _ => product.clone().modulo(k),
            });
            let Some(quotient) = quotient else {
                let message = format!("the right side of `{op}` is a positive number");
                return self.syntax_error(start..self.c.last_token_end(), message, "not this");
            };
            product = quotient;
        }
    }

    fn parse_unary(&mut self, scope: &mut AffineScope<'_>) -> Result<KtirAffineExpr> {
        let start = self.c.next_token_start();
        // Every name and number is counted while it is read, because even dropping a tree that is
        // too deep would overflow the stack.
        self.leaves += 1;
        if self.leaves > MAX_EXPR_LEAVES {
            let message = format!("an expression of more than {MAX_EXPR_LEAVES} names and numbers");
            return self.syntax_error(start..start, message, "too long");
        }
        let rest = &self.text[start..];
        let digit = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        if digit(rest) || rest.strip_prefix('-').is_some_and(digit) {
            return Ok(KtirAffineExpr::constant(self.c.read_integer("a number")?.value));
        }
        if self.eat_token("-") {
            return Ok(-self.parse_deeper(|p| p.parse_unary(scope))?);
        }
        if self.eat_token("(") {
            let inner = self.parse_sum(scope)?;
            self.expect_token(")")?;
            return Ok(inner);
        }
        match scope {
            AffineScope::Listed(dims, symbols) => {
                let Some(word) = self.c.read_word() else {
                    return Err(self.c.refuse_next_token("a dimension, a symbol or a number"));
                };
                let place = |list: &[String]| list.iter().position(|n| n == word.value);
                match (place(dims), place(symbols)) {
                    (Some(d), _) => Ok(KtirAffineExpr::dim(d)),
                    (_, Some(s)) => Ok(KtirAffineExpr::symbol(s)),
                    _ => {
                        let message = format!("`{}` is not a dimension or symbol here", word.value);
                        let known = [*dims, *symbols].concat().join(", ");
                        let d = Diagnostic::syntax_error(word.span, message, "unknown");
                        Err(d.with_id("Z203").with_help(format!("declared are {known}")))
                    }
                }
            }
            AffineScope::Values(own, values) => {
                let name = self.parse_value_name()?;
                if let Some(i) = own.iter().position(|n| *n == name.value) {
                    return Ok(KtirAffineExpr::dim(i));
                }
                let value = self.look_up_value(&name.value, name.span)?;
                let at = values.iter().position(|v| *v == value).unwrap_or_else(|| {
                    values.push(value);
                    values.len() - 1
                });
                Ok(KtirAffineExpr::dim(own.len() + at))
            }
        }
    }
}
