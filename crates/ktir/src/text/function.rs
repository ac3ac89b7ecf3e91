//! Reads modules and functions.

use super::parser::{KtirParser, Result};
use crate::ir::{KtirAlias, KtirBlock, KtirFunction, KtirModule, KtirOp, KtirSourceSpan};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use std::collections::HashSet;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl KtirParser<'_> {
    pub(super) fn parse_module(mut self) -> Result<KtirModule> {
        let mut module = KtirModule::default();
        let mut names = HashSet::new();
        let mut wrapped = false;
        while self.c.peek_char().is_some() {
            if self.c.peek_char() == Some('#') {
                self.parse_alias_definition()?;
            } else if self.eat_word("module") {
                // Nested or repeated modules have no meaning for a kernel, and names of functions
                // would no longer be unique.
                if wrapped {
                    return Err(self.c.refuse_next_token("one module"));
                }
                wrapped = true;
                if self.c.peek_char() == Some('@') {
                    module.name = Some(self.parse_name_after('@', "a name")?.value.into());
                }
                if self.eat_word("attributes") {
                    self.parse_dict()?;
                }
                self.expect_token("{")?;
                while !self.eat_token("}") {
                    self.parse_function_into(&mut module, &mut names)?;
                }
            } else {
                self.parse_function_into(&mut module, &mut names)?;
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

    fn parse_alias_definition(&mut self) -> Result<()> {
        let name = self.parse_name_after('#', "an alias")?;
        if self.alias_index.insert(name.value, self.aliases.len()).is_some() {
            let message = format!("`#{}` is defined already", name.value);
            let d = Diagnostic::syntax_error(name.span, message, "a second definition");
            return Err(d.with_id("Z203"));
        }
        self.expect_token("=")?;
        let alias = if self.eat_word("affine_set") {
            KtirAlias::Set(self.parse_set_body()?)
        } else if self.eat_word("affine_map") {
            KtirAlias::Map(self.parse_map_body()?)
        } else {
            return Err(self.c.refuse_next_token("`affine_set<..>` or `affine_map<..>`"));
        };
        self.aliases.push((name.value.into(), alias));
        Ok(())
    }

    fn parse_function_into(
        &mut self,
        module: &mut KtirModule,
        names: &mut HashSet<String>,
    ) -> Result<()> {
        let function = self.parse_function()?;
        if !names.insert(function.name.clone()) {
            let message = format!("`@{}` is defined already", function.name);
            let d =
                Diagnostic::syntax_error(function.span.0.clone(), message, "a second definition");
            return Err(d.with_id("Z203"));
        }
        module.functions.push(function);
        Ok(())
    }

    fn parse_function(&mut self) -> Result<KtirFunction> {
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
        // Visibility has no effect on a kernel that is run by its name.
        for word in ["public", "private"] {
            self.eat_word(word);
        }
        let name = self.parse_name_after('@', "the name of the function, such as @add")?;
        // Values are numbered per function.
        self.values.clear();
        let (span, name) = (KtirSourceSpan(name.span), name.value.to_string());
        self.parse_scoped(|p| {
            p.expect_token("(")?;
            let args = p.parse_list(")", Self::parse_argument)?;
            let results = if p.eat_token("->") { p.parse_type_list()? } else { Vec::new() };
            let grid =
                if p.eat_word("attributes") { p.parse_function_attributes()? } else { Vec::new() };
            p.expect_token("{")?;
            let mut body = KtirBlock { args, ops: p.parse_ops_until_brace()? };
            // Upstream's texts may leave `return` out of a function that returns nothing; MLIR
            // itself does not.
            if !body.ops.last().is_some_and(|op| op.kind.is_terminator()) {
                body.ops.push(implicit_terminator(KtirOpKind::Return));
            }
            let values = std::mem::take(&mut p.values);
            Ok(KtirFunction { name, grid, results, values, body, span }.renumber_canonically())
        })
    }

    fn parse_function_attributes(&mut self) -> Result<Vec<i64>> {
        let mut grid = Vec::new();
        self.expect_token("{")?;
        self.parse_list("}", |p| {
            let Some(key) = p.c.read_dotted_word() else {
                return Err(p.c.refuse_next_token("the name of an attribute, such as grid"));
            };
            if key.value != "grid" {
                let message = format!("unknown attribute `{}` of a function", key.value);
                let d = Diagnostic::syntax_error(key.span, message, "not known");
                return Err(d.with_help("a function has `grid = [x, y, z]`"));
            }
            p.expect_token("=")?;
            let at = p.c.next_token_start();
            grid = p.parse_ints("a number of cores")?;
            let span = at..p.c.last_token_end();
            if grid.is_empty() || grid.len() > 3 || grid.iter().any(|n| *n < 1) {
                return p.syntax_error(span, "a grid has 1 to 3 sizes of 1 or more", "not a grid");
            }
            // The verifier has the same bound; here the message can underline the grid itself.
            if grid.iter().try_fold(1_i64, |n, d| n.checked_mul(*d)).is_none_or(|n| n > 4096) {
                return p.syntax_error(span, "a grid has at most 4096 cores", "too many cores");
            }
            Ok(())
        })?;
        Ok(grid)
    }

    /// `%a: T`.
    pub(super) fn parse_argument(&mut self) -> Result<crate::ir::KtirValue> {
        let name = self.parse_value_name()?;
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        self.define_value(&name, ty.value)
    }

    pub(super) fn parse_ops_until_brace(&mut self) -> Result<Vec<KtirOp>> {
        let mut ops: Vec<KtirOp> = Vec::new();
        while !self.eat_token("}") {
            if self.c.peek_char().is_none() {
                return Err(self.c.refuse_next_token("an operation or `}`"));
            }
            if let Some(last) = ops.last().filter(|op| op.kind.is_terminator()) {
                let message = format!("nothing follows `{}`", last.kind.name());
                let (span, _) = self.c.next_token();
                return self.syntax_error(span, message, "after the end of the block");
            }
            ops.push(self.parse_op()?);
        }
        Ok(ops)
    }

    /// Reads `{ ops }` with the given arguments and those of a `^bb0(..):` label; a missing
    /// terminator becomes `end`.
    pub(super) fn parse_region(
        &mut self,
        given: &[(Spanned<String>, KtirType)],
        end: Option<KtirOpKind>,
    ) -> Result<KtirBlock> {
        self.parse_scoped(|p| {
            let mut args = given
                .iter()
                .map(|(n, t)| p.define_value(n, t.clone()))
                .collect::<Result<Vec<_>>>()?;
            p.expect_token("{")?;
            if p.c.peek_char() == Some('^') {
                p.parse_name_after('^', "a label")?;
                if p.eat_token("(") {
                    args.extend(p.parse_list(")", Self::parse_argument)?);
                }
                p.expect_token(":")?;
            }
            let mut ops = p.parse_ops_until_brace()?;
            if let Some(end) = end
                && !ops.last().is_some_and(|op| op.kind.is_terminator())
            {
                ops.push(implicit_terminator(end));
            }
            Ok(KtirBlock { args, ops })
        })
    }
}

/// A terminator that the text may leave out.
fn implicit_terminator(kind: KtirOpKind) -> KtirOp {
    let (operands, results, attrs, regions) = (vec![], vec![], vec![], vec![]);
    KtirOp { kind, operands, results, attrs, regions, span: KtirSourceSpan::default() }
}
