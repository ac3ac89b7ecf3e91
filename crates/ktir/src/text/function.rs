//! Reading modules and functions.

use super::parser::{Parser, Result};
use crate::ir::{Alias, Block, Function, Module, Op, Place};
use crate::op::Kind;
use crate::types::Type;
use std::collections::HashSet;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl Parser<'_> {
    pub(super) fn module(mut self) -> Result<Module> {
        let mut module = Module::default();
        let mut names = HashSet::new();
        let mut wrapped = false;
        while self.c.peek_char().is_some() {
            if self.c.peek_char() == Some('#') {
                self.define_alias()?;
            } else if self.eat_word("module") {
                if wrapped {
                    return Err(self.c.refuse_next_token("one module"));
                }
                wrapped = true;
                if self.c.peek_char() == Some('@') {
                    module.name = Some(self.name_after('@', "a name")?.value.into());
                }
                if self.eat_word("attributes") {
                    self.dict()?;
                }
                self.expect("{")?;
                while !self.eat("}") {
                    self.function_into(&mut module, &mut names)?;
                }
            } else {
                self.function_into(&mut module, &mut names)?;
            }
        }
        if module.functions.is_empty() {
            return Err(self
                .c
                .refuse_next_token("`module { .. }` with a function, or `func.func @name(..)`"));
        }
        module.aliases = self.aliases;
        Ok(module)
    }

    fn define_alias(&mut self) -> Result<()> {
        let name = self.name_after('#', "an alias")?;
        if self.alias_index.insert(name.value, self.aliases.len()).is_some() {
            let message = format!("`#{}` is defined already", name.value);
            let d = Diagnostic::syntax_error(name.span, message, "a second definition");
            return Err(d.with_id("Z203"));
        }
        self.expect("=")?;
        let alias = if self.eat_word("affine_set") {
            Alias::Set(self.set_body()?)
        } else if self.eat_word("affine_map") {
            Alias::Map(self.map_body()?)
        } else {
            return Err(self.c.refuse_next_token("`affine_set<..>` or `affine_map<..>`"));
        };
        self.aliases.push((name.value.into(), alias));
        Ok(())
    }

    fn function_into(&mut self, module: &mut Module, names: &mut HashSet<String>) -> Result<()> {
        let function = self.function()?;
        if !names.insert(function.name.clone()) {
            let message = format!("`@{}` is defined already", function.name);
            let d =
                Diagnostic::syntax_error(function.span.0.clone(), message, "a second definition");
            return Err(d.with_id("Z203"));
        }
        module.functions.push(function);
        Ok(())
    }

    fn function(&mut self) -> Result<Function> {
        let at = self.c.next_token_start();
        match self.c.read_dotted_word() {
            Some(w) if w.value == "func.func" => {}
            _ => {
                self.c = {
                    let mut c =
                        zellige_notation::cursor::TextCursor::with_comments_from(self.text, "//");
                    c.skip_to_place(at);
                    c
                };
                return Err(self.c.refuse_next_token("`func.func @name(..)`"));
            }
        }
        for word in ["public", "private"] {
            self.eat_word(word);
        }
        let name = self.name_after('@', "the name of the function, such as @add")?;
        self.values.clear();
        let (span, name) = (Place(name.span), name.value.to_string());
        self.scoped(|p| {
            p.expect("(")?;
            let args = p.list(")", Self::argument)?;
            let results = if p.eat("->") { p.type_list()? } else { Vec::new() };
            let grid = if p.eat_word("attributes") { p.function_attributes()? } else { Vec::new() };
            p.expect("{")?;
            let mut body = Block { args, ops: p.ops_until_brace()? };
            if !body.ops.last().is_some_and(|op| op.kind.is_terminator()) {
                body.ops.push(implicit(Kind::Return));
            }
            let values = std::mem::take(&mut p.values);
            Ok(Function { name, grid, results, values, body, span }.canonical())
        })
    }

    fn function_attributes(&mut self) -> Result<Vec<i64>> {
        let mut grid = Vec::new();
        self.expect("{")?;
        self.list("}", |p| {
            let Some(key) = p.c.read_dotted_word() else {
                return Err(p.c.refuse_next_token("the name of an attribute, such as grid"));
            };
            if key.value != "grid" {
                let message = format!("unknown attribute `{}` of a function", key.value);
                let d = Diagnostic::syntax_error(key.span, message, "not known");
                return Err(d.with_help("a function has `grid = [x, y, z]`"));
            }
            p.expect("=")?;
            let at = p.c.next_token_start();
            grid = p.ints("a number of cores")?;
            let span = at..p.c.last_token_end();
            if grid.is_empty() || grid.len() > 3 || grid.iter().any(|n| *n < 1) {
                return p.syntax(span, "a grid has 1 to 3 sizes of 1 or more", "not a grid");
            }
            if grid.iter().try_fold(1_i64, |n, d| n.checked_mul(*d)).is_none_or(|n| n > 4096) {
                return p.syntax(span, "a grid has at most 4096 cores", "too many cores");
            }
            Ok(())
        })?;
        Ok(grid)
    }

    /// `%a: T`.
    pub(super) fn argument(&mut self) -> Result<crate::ir::Value> {
        let name = self.value_name()?;
        self.expect(":")?;
        let ty = self.ty()?;
        self.define(&name, ty.value)
    }

    pub(super) fn ops_until_brace(&mut self) -> Result<Vec<Op>> {
        let mut ops: Vec<Op> = Vec::new();
        while !self.eat("}") {
            if self.c.peek_char().is_none() {
                return Err(self.c.refuse_next_token("an operation or `}`"));
            }
            if let Some(last) = ops.last().filter(|op| op.kind.is_terminator()) {
                let message = format!("nothing follows `{}`", last.kind.name());
                let (span, _) = self.c.next_token();
                return self.syntax(span, message, "after the end of the block");
            }
            ops.push(self.op()?);
        }
        Ok(ops)
    }

    /// `{ ops }` with arguments from the outside and those of a `^bb0(..):`, ending in `end`.
    pub(super) fn region(
        &mut self,
        given: &[(Spanned<String>, Type)],
        end: Option<Kind>,
    ) -> Result<Block> {
        self.scoped(|p| {
            let mut args =
                given.iter().map(|(n, t)| p.define(n, t.clone())).collect::<Result<Vec<_>>>()?;
            p.expect("{")?;
            if p.c.peek_char() == Some('^') {
                p.name_after('^', "a label")?;
                if p.eat("(") {
                    args.extend(p.list(")", Self::argument)?);
                }
                p.expect(":")?;
            }
            let mut ops = p.ops_until_brace()?;
            if let Some(end) = end
                && !ops.last().is_some_and(|op| op.kind.is_terminator())
            {
                ops.push(implicit(end));
            }
            Ok(Block { args, ops })
        })
    }
}

/// An end that the text may leave out.
fn implicit(kind: Kind) -> Op {
    let (operands, results, attrs, regions) = (vec![], vec![], vec![], vec![]);
    Op { kind, operands, results, attrs, regions, span: Place::default() }
}
