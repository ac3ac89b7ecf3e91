//! Reading the operations of ktdp.

use super::affine::Scope;
use super::parser::{Parser, Parts, Result};
use crate::affine::{Expr, Map, Set};
use crate::ir::{Attr, Value};
use crate::op::Kind;
use crate::types::Type;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

/// Whether the conditions on a dimension alone make it 0 at every point of a set.
fn is_always_zero(set: &Set, dim: usize) -> bool {
    let Some(bounds) = set.bounds(&[]) else { return false };
    let empty = bounds.extents.contains(&0);
    empty || (bounds.low.get(dim), bounds.extents.get(dim)) == (Some(&0), Some(&1))
}

impl Parser<'_> {
    pub(super) fn tile_id(&mut self) -> Result<Parts> {
        let attrs = self.dict()?;
        self.expect(":")?;
        let types = self.some(|p| Ok(p.ty()?.value))?;
        Ok(Parts::new(vec![], types).attrs(attrs))
    }

    pub(super) fn memory_view(&mut self) -> Result<Parts> {
        let ptr = self.value()?;
        self.expect(",")?;
        self.expect_word("sizes")?;
        self.expect(":")?;
        let (sizes, dynamic) = self.mixed()?;
        self.expect(",")?;
        self.expect_word("strides")?;
        self.expect(":")?;
        let (strides, more) = self.mixed()?;
        let attrs = self.dict()?;
        self.expect(":")?;
        let ty = self.ty()?.value;
        Ok(Parts::new([vec![ptr], dynamic, more].concat(), vec![ty])
            .attr("sizes", Attr::Ints(sizes))
            .attr("strides", Attr::Ints(strides))
            .attrs(attrs))
    }

    pub(super) fn distributed_view(&mut self) -> Result<Parts> {
        let views = self.typed_operands()?;
        let attrs = self.dict()?;
        self.expect(":")?;
        let ty = self.ty()?.value;
        Ok(Parts::new(views, vec![ty]).attrs(attrs))
    }

    pub(super) fn access(&mut self) -> Result<Parts> {
        let view = self.value()?;
        self.expect("[")?;
        let mut values = Vec::new();
        let exprs = self.list("]", |p| p.expr(&mut Scope::Values(&[], &mut values)))?;
        let attrs = self.dict()?;
        self.expect(":")?;
        let from = self.ty()?;
        self.agree(view, &from)?;
        self.expect("->")?;
        let ty = self.ty()?.value;
        let indices = self.index_map(values.len(), exprs)?;
        Ok(Parts::new([vec![view], values].concat(), vec![ty])
            .attr("indices", Attr::Map(indices))
            .attrs(attrs))
    }

    fn index_map(&mut self, dims: usize, results: Vec<Expr>) -> Result<Map> {
        let at = self.c.next_token_start();
        Map::new(dims, 0, results)
            .map_err(|e| Diagnostic::syntax_error(at..at, e.to_string(), "here"))
    }

    pub(super) fn indirect(&mut self) -> Result<Parts> {
        self.expect_word("intermediate_variables")?;
        self.expect("(")?;
        let mut names: Vec<String> = Vec::new();
        let listed = self.list(")", |p| {
            let name = p.value_name()?;
            if names.contains(&name.value) {
                let message = format!("variable `%{}` is given twice", name.value);
                return p.syntax(name.span, message, "already given");
            }
            names.push(name.value.clone());
            Ok(name)
        })?;
        // Texts also list values from outside here, and mean those: a name without a variable behind it
        // is looked up like any other.
        let fixed: Vec<bool> = listed.iter().map(|n| self.is_outer_index(n)).collect();
        let own = |(n, fixed): (&Spanned<String>, &bool)| match fixed {
            true => String::new(),
            false => n.value.clone(),
        };
        let variables: Vec<String> = listed.iter().zip(&fixed).map(own).collect();
        let view = self.value()?;
        self.expect("[")?;
        let mut captured: Vec<Value> = Vec::new();
        let mut sources: Vec<Value> = Vec::new();
        let mut indirect: Vec<i64> = Vec::new();
        let subscripts: Vec<Vec<Expr>> = self.list("]", |p| {
            let mut scope = Scope::Values(&variables, &mut captured);
            if p.eat_word("ind") {
                p.expect("(")?;
                sources.push(p.value()?);
                p.expect("[")?;
                let exprs = p.list("]", |p| p.expr(&mut scope))?;
                p.expect(")")?;
                indirect.push(1);
                return Ok(exprs);
            }
            indirect.push(0);
            Ok(vec![p.expr(&mut scope)?])
        })?;
        let dims = variables.len() + captured.len();
        let maps: Vec<Map> =
            subscripts.into_iter().map(|e| self.index_map(dims, e)).collect::<Result<_>>()?;
        let attrs = self.dict()?;
        let space = attrs.iter().find_map(|(name, attr)| match attr {
            Attr::Set(set) if name == "variables_space_set" => Some(set),
            _ => None,
        });
        for (i, name) in listed.iter().enumerate().filter(|(i, _)| fixed[*i]) {
            if space.is_some_and(|set| !is_always_zero(set, i)) {
                return self.moving_outer_value(name);
            }
        }
        self.expect(":")?;
        let operands = [vec![view], sources].concat();
        self.agree_all(&operands)?;
        self.expect("->")?;
        let ty = self.ty()?.value;
        Ok(Parts::new([operands, captured].concat(), vec![ty])
            .attr("variables", Attr::Words(names))
            .attr("indirect", Attr::Ints(indirect))
            .attr("subscripts", Attr::Maps(maps))
            .attrs(attrs))
    }

    /// Whether a variable of an indirect access has the name of a number that is defined outside.
    fn is_outer_index(&self, name: &Spanned<String>) -> bool {
        let value = self.lookup(&name.value, name.span.clone());
        let ty = value.ok().map(|v| &self.values[v.index()].ty);
        match ty {
            Some(Type::Scalar(elem)) => !elem.is_float(),
            Some(Type::RuntimeArg(_)) => true,
            _ => false,
        }
    }

    fn moving_outer_value(&self, name: &Spanned<String>) -> Result<Parts> {
        let message = format!(
            "`%{}` is a value from outside, and variables_space_set gives it other places than 0",
            name.value
        );
        Err(Diagnostic::syntax_error(name.span.clone(), message, "one value, not a variable")
            .with_help(format!(
                "list a variable with a name of its own, and write `%{} + %variable`",
                name.value
            )))
    }

    pub(super) fn load(&mut self) -> Result<Parts> {
        let tile = self.value()?;
        let attrs = self.dict()?;
        self.expect(":")?;
        let from = self.ty()?;
        self.agree(tile, &from)?;
        self.expect("->")?;
        let ty = self.ty()?.value;
        Ok(Parts::new(vec![tile], vec![ty]).attrs(attrs))
    }

    pub(super) fn store(&mut self) -> Result<Parts> {
        let operands = self.values(2)?;
        let attrs = self.dict()?;
        self.expect(":")?;
        self.agree_all(&operands)?;
        Ok(Parts::new(operands, vec![]).attrs(attrs))
    }

    pub(super) fn produce(&mut self) -> Result<Parts> {
        self.expect_word("producer_tiles_per_group")?;
        self.expect("=")?;
        let tiles = self.set()?.value;
        let mut groups = None;
        if self.eat(",") {
            self.expect_word("groups")?;
            self.expect("=")?;
            groups = Some(self.set()?.value);
        }
        let attrs = self.dict()?;
        let mut written = None;
        if self.eat(":") {
            let at = self.c.next_token_start();
            let types = self.some(|p| Ok(p.ty()?.value))?;
            written = Some((types, at..self.c.last_token_end()));
        }
        self.expect("->")?;
        let future = self.ty()?;
        let Type::TileFuture(types, own) = future.value else {
            let message = "a produce gives a future: !ktdp.tile_future<T, groups = S>";
            return self.syntax(future.span, message, "not a future");
        };
        if let Some((written, span)) = written.filter(|(w, _)| *w != types) {
            let message = format!("the future has {} partials of other types", types.len());
            let label = format!("{} written here", written.len());
            return self.syntax(span, message, label);
        }
        let ty = Type::TileFuture(types, own.or(groups));
        let region = self.region(&[], Some(Kind::YieldPartial))?;
        Ok(Parts::new(vec![], vec![ty])
            .attr("producer_tiles_per_group", Attr::Set(tiles))
            .attrs(attrs)
            .region(region))
    }

    pub(super) fn delivery(&mut self, kind: Kind) -> Result<Parts> {
        self.expect("(")?;
        let future = self.value()?;
        self.expect(")")?;
        let mut operands = vec![future];
        let mut attrs: Vec<(String, Attr)> = Vec::new();
        loop {
            let Some(word) = self.c.read_word() else {
                return Err(self.c.refuse_next_token("consumer_tiles_per_group = S"));
            };
            match word.value {
                key @ ("consumer_tiles_per_group" | "producer_dependency_per_consumer") => {
                    self.expect("=")?;
                    let set = self.set()?.value;
                    attrs.push((key.into(), Attr::Set(set)));
                }
                "groups" => {
                    // Older texts say again what the future knows.
                    self.expect("=")?;
                    self.set()?;
                }
                key @ ("scatter_dimensions" | "gather_dimensions" | "split_dimensions"
                | "concat_dimensions") => {
                    self.expect("=")?;
                    let dims = self.ints("a dimension")?;
                    attrs.push((key.into(), Attr::Ints(dims)));
                }
                "identity" => operands.extend(self.typed_operands()?),
                other => {
                    let message = format!("`{}` has no `{other}`", kind.name());
                    return self.syntax(word.span, message, "unknown");
                }
            }
            if !self.eat(",") {
                break;
            }
        }
        attrs.extend(self.dict()?);
        self.expect(":")?;
        let ty = self.ty()?;
        self.agree(future, &ty)?;
        self.expect("->")?;
        let results = self.type_list()?;
        let mut parts = Parts::new(operands, results).attrs(attrs);
        if matches!(kind, Kind::InterReduce | Kind::ReduceScatter) {
            let region = self.region(&[], Some(Kind::YieldReduced))?;
            parts = parts.region(region);
        }
        Ok(parts)
    }
}
