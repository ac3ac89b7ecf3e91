//! Reading affine sets, maps and expressions.

use super::parser::{Parser, Result};
use crate::affine::{Constraint, Expr, Map, Set};
use crate::ir::{Alias, Value};
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

/// What the names of an expression stand for.
pub(super) enum Scope<'s> {
    /// Those of a set or map: dimensions, then symbols.
    Listed(&'s [String], &'s [String]),
    /// Values; each new one becomes a dimension. The first ones may be given names of their own.
    Values(&'s [String], &'s mut Vec<Value>),
}

/// Nodes of one expression, at most; it is walked recursively.
const NODES: usize = 2048;

/// Names and numbers of one expression or condition, at most. An expression that has no more than
/// `NODES` is written with fewer.
const LEAVES: usize = 4 * NODES;

/// Dimensions and symbols of one set or map, at most.
const NAMES: usize = 256;

impl Parser<'_> {
    /// `affine_set<..>` or an alias of one.
    pub(super) fn set(&mut self) -> Result<Spanned<Set>> {
        let start = self.c.next_token_start();
        let value = if self.sees("#") {
            match self.alias()? {
                (_, Alias::Set(set)) => set,
                (span, Alias::Map(_)) => {
                    return self.syntax(span, "a set is needed here", "this is a map");
                }
            }
        } else if self.eat_word("affine_set") {
            self.set_body()?
        } else {
            return Err(self.c.refuse_next_token("a set: `affine_set<..>` or `#name`"));
        };
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    /// `affine_map<..>` or an alias of one.
    pub(super) fn map(&mut self) -> Result<Spanned<Map>> {
        let start = self.c.next_token_start();
        let value = if self.sees("#") {
            match self.alias()? {
                (_, Alias::Map(map)) => map,
                (span, Alias::Set(_)) => {
                    return self.syntax(span, "a map is needed here", "this is a set");
                }
            }
        } else if self.eat_word("affine_map") {
            self.map_body()?
        } else {
            return Err(self.c.refuse_next_token("a map: `affine_map<..>` or `#name`"));
        };
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    fn alias(&mut self) -> Result<(std::ops::Range<usize>, Alias)> {
        let name = self.name_after('#', "an alias, such as #set")?;
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

    fn heads(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        let name = |p: &mut Self| match p.c.read_word() {
            Some(w) => Ok(w.value.to_string()),
            None => Err(p.c.refuse_next_token("the name of a dimension, such as d0")),
        };
        let start = self.c.next_token_start();
        self.expect("(")?;
        let dims = self.list(")", name)?;
        let symbols = if self.eat("[") { self.list("]", name)? } else { Vec::new() };
        if dims.len() + symbols.len() > NAMES {
            let message = format!("more than {NAMES} dimensions and symbols");
            return self.syntax(start..self.c.last_token_end(), message, "too many");
        }
        Ok((dims, symbols))
    }

    pub(super) fn set_body(&mut self) -> Result<Set> {
        self.expect("<")?;
        let start = self.c.next_token_start();
        let (dims, symbols) = self.heads()?;
        self.expect(":")?;
        self.expect("(")?;
        let constraints = self.list(")", |p| {
            let from = p.c.next_token_start();
            p.leaves = 0;
            let left = p.sum(&mut Scope::Listed(&dims, &symbols))?;
            let op = ["==", ">=", "<="].into_iter().find(|op| p.eat(op));
            let Some(op) = op else { return Err(p.c.refuse_next_token("`>=`, `<=` or `==`")) };
            let right = p.sum(&mut Scope::Listed(&dims, &symbols))?;
            let minus = |a: Expr, b: Expr| if b.as_constant() == Some(0) { a } else { a - b };
            let expr = if op == "<=" { minus(right, left) } else { minus(left, right) };
            p.bounded(from, &expr)?;
            Ok(Constraint { expr, equal: op == "==" })
        })?;
        self.expect(">")?;
        let span = start..self.c.last_token_end();
        Set::new(dims.len(), symbols.len(), constraints)
            .map_err(|e| Diagnostic::syntax_error(span, e.to_string(), "here"))
    }

    pub(super) fn map_body(&mut self) -> Result<Map> {
        self.expect("<")?;
        let start = self.c.next_token_start();
        let (dims, symbols) = self.heads()?;
        self.expect("->")?;
        self.expect("(")?;
        let results = self.list(")", |p| p.expr(&mut Scope::Listed(&dims, &symbols)))?;
        self.expect(">")?;
        let span = start..self.c.last_token_end();
        Map::new(dims.len(), symbols.len(), results)
            .map_err(|e| Diagnostic::syntax_error(span, e.to_string(), "here"))
    }

    /// A whole expression.
    pub(super) fn expr(&mut self, scope: &mut Scope<'_>) -> Result<Expr> {
        let from = self.c.next_token_start();
        self.leaves = 0;
        let sum = self.sum(scope)?;
        self.bounded(from, &sum)?;
        Ok(sum)
    }

    fn bounded(&mut self, from: usize, e: &Expr) -> Result<()> {
        if e.nodes() <= NODES {
            return Ok(());
        }
        let message = format!("an expression of more than {NODES} terms and operators");
        self.syntax(from..self.c.last_token_end(), message, "too long")
    }

    fn sum(&mut self, scope: &mut Scope<'_>) -> Result<Expr> {
        self.deeper(|p| {
            let mut sum = p.term(scope)?;
            loop {
                if p.eat("+") {
                    sum = sum + p.term(scope)?;
                } else if p.c.peek_char() == Some('-') && !p.sees("->") {
                    p.expect("-")?;
                    sum = sum - p.term(scope)?;
                } else {
                    return Ok(sum);
                }
            }
        })
    }

    fn term(&mut self, scope: &mut Scope<'_>) -> Result<Expr> {
        let mut product = self.unary(scope)?;
        loop {
            let start = self.c.next_token_start();
            if self.eat("*") {
                let right = self.unary(scope)?;
                product = match (product.as_constant(), right.as_constant()) {
                    (_, Some(k)) => product * k,
                    (Some(k), None) => right * k,
                    (None, None) => {
                        let span = start..self.c.last_token_end();
                        let message = "a product of two unknowns is not affine";
                        return self.syntax(span, message, "one factor must be a number");
                    }
                };
                continue;
            }
            let op = ["floordiv", "ceildiv", "mod"].into_iter().find(|op| self.eat_word(op));
            let Some(op) = op else { return Ok(product) };
            let right = self.unary(scope)?;
            let by = right.as_constant();
            let quotient = by.and_then(|k| match op {
                "floordiv" => product.clone().floor_div(k),
                "ceildiv" => product.clone().ceil_div(k),
                _ => product.clone().modulo(k),
            });
            let Some(quotient) = quotient else {
                let message = format!("the right side of `{op}` is a positive number");
                return self.syntax(start..self.c.last_token_end(), message, "not this");
            };
            product = quotient;
        }
    }

    fn unary(&mut self, scope: &mut Scope<'_>) -> Result<Expr> {
        let start = self.c.next_token_start();
        // Every name and number is counted while it is read: a tree that is too deep must not even
        // be dropped.
        self.leaves += 1;
        if self.leaves > LEAVES {
            let message = format!("an expression of more than {LEAVES} names and numbers");
            return self.syntax(start..start, message, "too long");
        }
        let rest = &self.text[start..];
        let digit = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        if digit(rest) || rest.strip_prefix('-').is_some_and(digit) {
            return Ok(Expr::constant(self.c.read_integer("a number")?.value));
        }
        if self.eat("-") {
            return Ok(-self.deeper(|p| p.unary(scope))?);
        }
        if self.eat("(") {
            let inner = self.sum(scope)?;
            self.expect(")")?;
            return Ok(inner);
        }
        match scope {
            Scope::Listed(dims, symbols) => {
                let Some(word) = self.c.read_word() else {
                    return Err(self.c.refuse_next_token("a dimension, a symbol or a number"));
                };
                let place = |list: &[String]| list.iter().position(|n| n == word.value);
                match (place(dims), place(symbols)) {
                    (Some(d), _) => Ok(Expr::dim(d)),
                    (_, Some(s)) => Ok(Expr::symbol(s)),
                    _ => {
                        let message = format!("`{}` is no dimension or symbol here", word.value);
                        let known = [*dims, *symbols].concat().join(", ");
                        let d = Diagnostic::syntax_error(word.span, message, "unknown");
                        Err(d.with_id("Z203").with_help(format!("declared are {known}")))
                    }
                }
            }
            Scope::Values(own, values) => {
                let name = self.value_name()?;
                if let Some(i) = own.iter().position(|n| *n == name.value) {
                    return Ok(Expr::dim(i));
                }
                let value = self.lookup(&name.value, name.span)?;
                let at = values.iter().position(|v| *v == value).unwrap_or_else(|| {
                    values.push(value);
                    values.len() - 1
                });
                Ok(Expr::dim(own.len() + at))
            }
        }
    }
}
