//! Reads the operations of the dialect linalg.

use super::parser::{KtirOpParts, KtirParser, Result};
use crate::ir::{KtirAttr, KtirBlock, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl KtirParser<'_> {
    /// `ins(..) outs(..)`.
    fn parse_ins_outs(&mut self) -> Result<(Vec<KtirValue>, Vec<KtirValue>)> {
        let ins = if self.eat_word("ins") { self.parse_typed_operands()? } else { Vec::new() };
        self.expect_word("outs")?;
        let outs = self.parse_typed_operands()?;
        Ok((ins, outs))
    }

    /// Reads `-> T` if it is there; the results have the types of the outputs either way.
    fn parse_arrow_types(&mut self, outs: &[KtirValue]) -> Result<Vec<KtirType>> {
        if self.eat_token("->") {
            if self.eat_token("(") {
                self.parse_agreeing_types(outs)?;
                self.expect_token(")")?;
            } else {
                self.parse_agreeing_types(outs)?;
            }
        }
        // On tensors every result replaces an output and has its type.
        Ok(outs.iter().map(|v| self.value_type(*v).clone()).collect())
    }

    pub(super) fn parse_structured(&mut self, inputs: usize) -> Result<KtirOpParts> {
        let mut attrs = self.parse_dict()?;
        let at = self.c.next_token_start();
        let (ins, outs) = self.parse_ins_outs()?;
        if (ins.len(), outs.len()) != (inputs, 1) {
            let message = format!("{inputs} inputs and 1 output are needed");
            let label = format!("{} and {} are given", ins.len(), outs.len());
            return self.syntax_error(at..self.c.last_token_end(), message, label);
        }
        attrs.extend(self.parse_dict()?);
        let results = self.parse_arrow_types(&outs)?;
        Ok(KtirOpParts::new([ins, outs].concat(), results).with_attrs(attrs))
    }

    pub(super) fn parse_generic(&mut self) -> Result<KtirOpParts> {
        let attrs = self.parse_dict()?;
        let (ins, outs) = self.parse_ins_outs()?;
        let region = self.parse_region(&[], None)?;
        let results = self.parse_arrow_types(&outs)?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        Ok(KtirOpParts::new([ins, outs].concat(), results)
            .with_attr("inputs", KtirAttr::Int(count))
            .with_attrs(attrs)
            .with_region(region))
    }

    /// Reads `{ arith.addf }` if it is there: one operation that is the whole body.
    fn parse_combiner(&mut self) -> Result<Option<String>> {
        if !self.eat_token("{") {
            return Ok(None);
        }
        let Some(word) = self.c.read_dotted_word() else {
            return Err(self.c.refuse_next_token("an operation, such as arith.addf"));
        };
        match KtirOpKind::from_name(word.value) {
            // Only an operation on elements can be the whole body of a reduction.
            Some(kind) if kind.is_pointwise() => {}
            _ => {
                let message = format!("`{}` combines no elements", word.value);
                let mut d =
                    Diagnostic::syntax_error(word.span, message, "not a combiner").with_id("Z202");
                if let Some(near) = KtirOpKind::nearest_by_name(word.value) {
                    d = d.with_help(format!("did you mean `{}`?", near.name()));
                }
                return Err(d);
            }
        }
        self.expect_token("}")?;
        Ok(Some(word.value.to_string()))
    }

    /// Reads `(%in: f16, %out: f16) { .. }`: a body whose arguments stand in front of it.
    fn parse_body(&mut self) -> Result<KtirBlock> {
        self.expect_token("(")?;
        let args = self.parse_list(")", |p| {
            let name = p.parse_value_name()?;
            p.expect_token(":")?;
            let ty = p.parse_type()?.value;
            Ok((Spanned { value: name.value, span: name.span }, ty))
        })?;
        self.parse_region(&args, None)
    }

    pub(super) fn parse_reduce(&mut self) -> Result<KtirOpParts> {
        let combiner = self.parse_combiner()?;
        let (ins, outs) = self.parse_ins_outs()?;
        self.expect_word("dimensions")?;
        self.expect_token("=")?;
        let dims = self.parse_ints("a dimension")?;
        let results = self.parse_arrow_types(&outs)?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        let mut parts = KtirOpParts::new([ins, outs].concat(), results)
            .with_attr("inputs", KtirAttr::Int(count))
            .with_attr("dimensions", KtirAttr::Ints(dims));
        parts = match combiner {
            Some(name) => parts.with_attr("combiner", KtirAttr::Word(name)),
            None => {
                let body = self.parse_body()?;
                parts.with_region(body)
            }
        };
        Ok(parts)
    }

    pub(super) fn parse_linalg_map(&mut self) -> Result<KtirOpParts> {
        let combiner = self.parse_combiner()?;
        let (ins, outs) = self.parse_ins_outs()?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        let results: Vec<KtirType> = outs.iter().map(|v| self.value_type(*v).clone()).collect();
        let mut parts = KtirOpParts::new([ins, outs].concat(), results)
            .with_attr("inputs", KtirAttr::Int(count));
        parts = match combiner {
            Some(name) => parts.with_attr("combiner", KtirAttr::Word(name)),
            None => {
                let body = self.parse_body()?;
                parts.with_region(body)
            }
        };
        Ok(parts)
    }

    /// Broadcast and transpose: `ins(..) outs(..) KEY = [..]`.
    pub(super) fn parse_rearranged(&mut self, key: &str) -> Result<KtirOpParts> {
        let at = self.c.next_token_start();
        let (ins, outs) = self.parse_ins_outs()?;
        if (ins.len(), outs.len()) != (1, 1) {
            return self.syntax_error(
                at..self.c.last_token_end(),
                "one input and one output are needed",
                "here",
            );
        }
        self.expect_word(key)?;
        self.expect_token("=")?;
        let dims = self.parse_ints("a dimension")?;
        let results = self.parse_arrow_types(&outs)?;
        Ok(KtirOpParts::new([ins, outs].concat(), results).with_attr(key, KtirAttr::Ints(dims)))
    }

    pub(super) fn parse_linalg_index(&mut self) -> Result<KtirOpParts> {
        let dim = self.c.read_integer("a dimension")?.value;
        self.expect_token(":")?;
        let ty = self.parse_type()?.value;
        Ok(KtirOpParts::new(vec![], vec![ty]).with_attr("dim", KtirAttr::Int(dim)))
    }
}
