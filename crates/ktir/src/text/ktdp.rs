//! Parses the operations of the dialect ktdp.

use super::affine::AffineScope;
use super::parser::{KtirOpParts, KtirParser, Result};
use crate::affine::{KtirAffineExpr, KtirAffineMap, KtirAffineSet};
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

/// Whether dimension `dim` is 0 at every point of a set.
///
/// Only conditions on a single dimension are used, so `false` can also mean that this is not known.
fn is_always_zero(set: &KtirAffineSet, dim: usize) -> bool {
    let Some(bounds) = set.bounding_box(&[]) else { return false };
    // In an empty set every statement about its points is true.
    let empty = bounds.extents.contains(&0);
    empty || (bounds.low.get(dim), bounds.extents.get(dim)) == (Some(&0), Some(&1))
}

impl KtirParser<'_> {
    pub(super) fn parse_tile_id(&mut self) -> Result<KtirOpParts> {
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let types = self.parse_one_or_more(|p| Ok(p.parse_type()?.value))?;
        Ok(KtirOpParts::new(vec![], types).with_attrs(attrs))
    }

    /// `%x, %y : index`: the coordinates of a core.
    pub(super) fn parse_core_id(&mut self) -> Result<KtirOpParts> {
        let operands = self.parse_one_or_more(Self::parse_value)?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(operands, vec![ty]).with_attrs(attrs))
    }

    /// `value from %arg : !ktdp.runtime_arg<index> -> index`; the type may be written without its name.
    pub(super) fn parse_runtime_arg_extract(&mut self) -> Result<KtirOpParts> {
        let what = "value, granularity or upperbound";
        let Some(field) = self.c.read_word() else {
            return Err(self.c.refuse_next_token(what));
        };
        if !matches!(field.value, "value" | "granularity" | "upperbound") {
            let message = format!("a runtime argument has no `{}`", field.value);
            return self.syntax_error(
                field.span,
                message,
                "write value, granularity or upperbound",
            );
        }
        self.expect_word("from")?;
        let argument = self.parse_value()?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let written = if self.is_next("<") {
            let start = self.c.next_token_start();
            let value = self.parse_runtime_arg_type()?;
            Spanned { value, span: start..self.c.last_token_end() }
        } else {
            self.parse_type()?
        };
        self.check_written_type(argument, &written)?;
        self.expect_token("->")?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(vec![argument], vec![ty])
            .with_attr("field", KtirAttr::Word(field.value.into()))
            .with_attrs(attrs))
    }

    pub(super) fn parse_memory_view(&mut self) -> Result<KtirOpParts> {
        let ptr = self.parse_value()?;
        self.expect_token(",")?;
        self.expect_word("sizes")?;
        self.expect_token(":")?;
        let (sizes, dynamic) = self.parse_mixed_list()?;
        self.expect_token(",")?;
        self.expect_word("strides")?;
        self.expect_token(":")?;
        let (strides, more) = self.parse_mixed_list()?;
        let mut attrs = self.parse_dict()?;
        self.expect_token(":")?;
        self.written_space = None;
        let ty = self.parse_type()?.value;
        // Some texts say the space in the type of the view.
        if let Some(space) = self.written_space.take()
            && !attrs.iter().any(|(name, _)| name == "memory_space")
        {
            attrs.push(("memory_space".into(), KtirAttr::Space(space)));
        }
        Ok(KtirOpParts::new([vec![ptr], dynamic, more].concat(), vec![ty])
            .with_attr("sizes", KtirAttr::Ints(sizes))
            .with_attr("strides", KtirAttr::Ints(strides))
            .with_attrs(attrs))
    }

    pub(super) fn parse_distributed_view(&mut self) -> Result<KtirOpParts> {
        let views = self.parse_typed_operands()?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(views, vec![ty]).with_attrs(attrs))
    }

    pub(super) fn parse_access(&mut self) -> Result<KtirOpParts> {
        let view = self.parse_value()?;
        self.expect_token("[")?;
        let mut values = Vec::new();
        let exprs =
            self.parse_list("]", |p| p.parse_expr(&mut AffineScope::Values(&[], &mut values)))?;
        let attrs = self.parse_dict()?;
        // The type of the view may be left out, because the view has it.
        if self.eat_token(":") && !self.is_next("->") {
            let from = self.parse_type()?;
            self.check_written_type(view, &from)?;
        }
        self.expect_token("->")?;
        let ty = self.parse_type()?;
        let ty = self.complete_access_type(ty, &attrs, "access_tile_set")?;
        let indices = self.build_index_map(values.len(), exprs)?;
        Ok(KtirOpParts::new([vec![view], values].concat(), vec![ty])
            .with_attr("indices", KtirAttr::Map(indices))
            .with_attrs(attrs))
    }

    /// The type of an access tile, with the sizes that its text leaves out: those of its set.
    fn complete_access_type(
        &self,
        ty: Spanned<KtirType>,
        attrs: &[(String, KtirAttr)],
        key: &str,
    ) -> Result<KtirType> {
        let KtirType::AccessTile(sizes) = &ty.value else { return Ok(ty.value) };
        if !sizes.contains(&DYNAMIC_SIZE) {
            return Ok(ty.value);
        }
        let set = attrs.iter().find_map(|(name, attr)| match attr {
            KtirAttr::Set(set) if name == key => Some(set),
            _ => None,
        });
        let bounds = set.and_then(|set| set.bounding_box(&[])).filter(|b| b.exact);
        let found = bounds.map(|b| b.extents).filter(|of| {
            let same = |(size, n): (&i64, &i64)| *size == DYNAMIC_SIZE || size == n;
            // One unknown size alone stands for a type without brackets.
            sizes[..] == [DYNAMIC_SIZE] || of.len() == sizes.len() && sizes.iter().zip(of).all(same)
        });
        match found {
            Some(sizes) => Ok(KtirType::AccessTile(sizes)),
            None => self.syntax_error(
                ty.span,
                format!("sizes are left out, and {key} is no box that has them"),
                "write the sizes",
            ),
        }
    }

    fn build_index_map(
        &mut self,
        dims: usize,
        results: Vec<KtirAffineExpr>,
    ) -> Result<KtirAffineMap> {
        let at = self.c.next_token_start();
        KtirAffineMap::new(dims, 0, results)
            .map_err(|e| Diagnostic::syntax_error(at..at, e.to_string(), "here"))
    }

    pub(super) fn parse_indirect(&mut self) -> Result<KtirOpParts> {
        self.expect_word("intermediate_variables")?;
        self.expect_token("(")?;
        let mut names: Vec<String> = Vec::new();
        let listed = self.parse_list(")", |p| {
            let name = p.parse_value_name()?;
            if names.contains(&name.value) {
                let message = format!("variable `%{}` is given twice", name.value);
                return p.syntax_error(name.span, message, "already given");
            }
            names.push(name.value.clone());
            Ok(name)
        })?;
        // Some texts also list names of values that are defined before the access. Such a name refers to
        // the value and is no variable, so its entry in `variables` is empty.
        let fixed: Vec<bool> = listed.iter().map(|n| self.is_outer_index(n)).collect();
        let own = |(n, fixed): (&Spanned<String>, &bool)| match fixed {
            true => String::new(),
            false => n.value.clone(),
        };
        let variables: Vec<String> = listed.iter().zip(&fixed).map(own).collect();
        let view = self.parse_value()?;
        self.expect_token("[")?;
        let mut captured: Vec<KtirValue> = Vec::new();
        let mut sources: Vec<KtirValue> = Vec::new();
        let mut indirect: Vec<i64> = Vec::new();
        let subscripts: Vec<Vec<KtirAffineExpr>> = self.parse_list("]", |p| {
            let mut scope = AffineScope::Values(&variables, &mut captured);
            if p.eat_word("ind") {
                p.expect_token("(")?;
                sources.push(p.parse_value()?);
                p.expect_token("[")?;
                let exprs = p.parse_list("]", |p| p.parse_expr(&mut scope))?;
                p.expect_token(")")?;
                indirect.push(1);
                return Ok(exprs);
            }
            indirect.push(0);
            Ok(vec![p.parse_expr(&mut scope)?])
        })?;
        let dims = variables.len() + captured.len();
        let maps: Vec<KtirAffineMap> =
            subscripts.into_iter().map(|e| self.build_index_map(dims, e)).collect::<Result<_>>()?;
        let attrs = self.parse_dict()?;
        let space = attrs.iter().find_map(|(name, attr)| match attr {
            KtirAttr::Set(set) if name == "variables_space_set" => Some(set),
            _ => None,
        });
        for (i, name) in listed.iter().enumerate().filter(|(i, _)| fixed[*i]) {
            // A value that is defined before the access does not change during it. If the set has points
            // at which this dimension is not 0, the text may mean the value or a variable of the same
            // name.
            if space.is_some_and(|set| !is_always_zero(set, i)) {
                return self.refuse_moving_outer_value(name);
            }
        }
        self.expect_token(":")?;
        let operands = [vec![view], sources].concat();
        self.parse_agreeing_types(&operands)?;
        self.expect_token("->")?;
        let ty = self.parse_type()?;
        let ty = self.complete_access_type(ty, &attrs, "variables_space_set")?;
        Ok(KtirOpParts::new([operands, captured].concat(), vec![ty])
            .with_attr("variables", KtirAttr::Words(names))
            .with_attr("indirect", KtirAttr::Ints(indirect))
            .with_attr("subscripts", KtirAttr::Maps(maps))
            .with_attrs(attrs))
    }

    /// Whether a variable of an indirect access has the name of an integer value that is defined
    /// before the access.
    fn is_outer_index(&self, name: &Spanned<String>) -> bool {
        let value = self.look_up_value(&name.value, name.span.clone());
        let ty = value.ok().map(|v| &self.values[v.index()].ty);
        match ty {
            Some(KtirType::Scalar(elem)) => !elem.is_float(),
            Some(KtirType::RuntimeArg(_)) => true,
            _ => false,
        }
    }

    fn refuse_moving_outer_value(&self, name: &Spanned<String>) -> Result<KtirOpParts> {
        let message = format!(
            "`%{}` is defined before this access, but variables_space_set has points where it is not 0",
            name.value
        );
        Err(Diagnostic::syntax_error(name.span.clone(), message, "a fixed value, not a variable")
            .with_help(format!(
                "list a variable with another name, and write `%{} + %variable`",
                name.value
            )))
    }

    pub(super) fn parse_load(&mut self) -> Result<KtirOpParts> {
        let tile = self.parse_value()?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        let from = self.parse_type()?;
        self.check_written_type(tile, &from)?;
        self.expect_token("->")?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(vec![tile], vec![ty]).with_attrs(attrs))
    }

    pub(super) fn parse_store(&mut self) -> Result<KtirOpParts> {
        let operands = self.parse_values(2)?;
        let attrs = self.parse_dict()?;
        self.expect_token(":")?;
        self.parse_agreeing_types(&operands)?;
        Ok(KtirOpParts::new(operands, vec![]).with_attrs(attrs))
    }

    pub(super) fn parse_produce(&mut self) -> Result<KtirOpParts> {
        self.expect_word("producer_tiles_per_group")?;
        self.expect_token("=")?;
        let tiles = self.parse_set()?.value;
        let mut groups = None;
        if self.eat_token(",") {
            self.expect_word("groups")?;
            self.expect_token("=")?;
            groups = Some(self.parse_set()?.value);
        }
        let attrs = self.parse_dict()?;
        let mut written = None;
        if self.eat_token(":") {
            let at = self.c.next_token_start();
            let types = self.parse_one_or_more(|p| Ok(p.parse_type()?.value))?;
            written = Some((types, at..self.c.last_token_end()));
        }
        self.expect_token("->")?;
        let future = self.parse_type()?;
        let KtirType::TileFuture(types, own) = future.value else {
            let message =
                "the result of inter_tile_produce is a future: !ktdp.tile_future<T, groups = S>";
            return self.syntax_error(future.span, message, "not a future");
        };
        if let Some((written, span)) = written.filter(|(w, _)| *w != types) {
            let (have, count) = (types.len(), written.len());
            let message =
                format!("the types of the {have} partials of the future are not the {count} here");
            return self.syntax_error(span, message, "they must be equal");
        }
        // The text has the groups as a part of the operation or of the type. They are kept in the type,
        // because consumers read them there.
        let ty = KtirType::TileFuture(types, own.or(groups));
        let region = self.parse_region(&[], Some(KtirOpKind::YieldPartial))?;
        Ok(KtirOpParts::new(vec![], vec![ty])
            .with_attr("producer_tiles_per_group", KtirAttr::Set(tiles))
            .with_attrs(attrs)
            .with_region(region))
    }

    pub(super) fn parse_delivery(&mut self, kind: KtirOpKind) -> Result<KtirOpParts> {
        self.expect_token("(")?;
        let future = self.parse_value()?;
        self.expect_token(")")?;
        let mut operands = vec![future];
        let mut attrs: Vec<(String, KtirAttr)> = Vec::new();
        loop {
            let Some(word) = self.c.read_word() else {
                return Err(self.c.refuse_next_token("consumer_tiles_per_group = S"));
            };
            match word.value {
                key @ ("consumer_tiles_per_group" | "producer_dependency_per_consumer") => {
                    self.expect_token("=")?;
                    let set = self.parse_set()?.value;
                    attrs.push((key.into(), KtirAttr::Set(set)));
                }
                "groups" => {
                    // Older texts repeat the groups here. They are ignored, because the type of the future
                    // has them.
                    self.expect_token("=")?;
                    self.parse_set()?;
                }
                key @ ("scatter_dimensions" | "gather_dimensions" | "split_dimensions"
                | "concat_dimensions") => {
                    self.expect_token("=")?;
                    let dims = self.parse_ints("a dimension")?;
                    attrs.push((key.into(), KtirAttr::Ints(dims)));
                }
                "identity" => operands.extend(self.parse_typed_operands()?),
                other => {
                    let message = format!("`{}` has no `{other}`", kind.name());
                    return self.syntax_error(word.span, message, "unknown");
                }
            }
            if !self.eat_token(",") {
                break;
            }
        }
        attrs.extend(self.parse_dict()?);
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        self.check_written_type(future, &ty)?;
        self.expect_token("->")?;
        let results = self.parse_type_list()?;
        let mut parts = KtirOpParts::new(operands, results).with_attrs(attrs);
        if matches!(kind, KtirOpKind::InterReduce | KtirOpKind::ReduceScatter) {
            let region = self.parse_region(&[], Some(KtirOpKind::YieldReduced))?;
            parts = parts.with_region(region);
        }
        Ok(parts)
    }
}
