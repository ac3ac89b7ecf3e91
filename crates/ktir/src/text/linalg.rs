//! Reading the operations of linalg.

use super::parser::{Parser, Parts, Result};
use crate::ir::{Attr, Block, Value};
use crate::op::Kind;
use crate::types::Type;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl Parser<'_> {
    /// `ins(..) outs(..)`.
    fn ins_outs(&mut self) -> Result<(Vec<Value>, Vec<Value>)> {
        let ins = if self.eat_word("ins") { self.typed_operands()? } else { Vec::new() };
        self.expect_word("outs")?;
        let outs = self.typed_operands()?;
        Ok((ins, outs))
    }

    /// `-> T` if it comes; the results are the outputs either way.
    fn arrow(&mut self, outs: &[Value]) -> Result<Vec<Type>> {
        if self.eat("->") {
            if self.eat("(") {
                self.agree_all(outs)?;
                self.expect(")")?;
            } else {
                self.agree_all(outs)?;
            }
        }
        Ok(outs.iter().map(|v| self.ty_of(*v).clone()).collect())
    }

    pub(super) fn structured(&mut self, inputs: usize) -> Result<Parts> {
        let mut attrs = self.dict()?;
        let at = self.c.next_token_start();
        let (ins, outs) = self.ins_outs()?;
        if (ins.len(), outs.len()) != (inputs, 1) {
            let message = format!("{inputs} inputs and 1 output are needed");
            let label = format!("{} and {} are given", ins.len(), outs.len());
            return self.syntax(at..self.c.last_token_end(), message, label);
        }
        attrs.extend(self.dict()?);
        let results = self.arrow(&outs)?;
        Ok(Parts::new([ins, outs].concat(), results).attrs(attrs))
    }

    pub(super) fn generic(&mut self) -> Result<Parts> {
        let attrs = self.dict()?;
        let (ins, outs) = self.ins_outs()?;
        let region = self.region(&[], None)?;
        let results = self.arrow(&outs)?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        Ok(Parts::new([ins, outs].concat(), results)
            .attr("inputs", Attr::Int(count))
            .attrs(attrs)
            .region(region))
    }

    /// `{ arith.addf }` if it comes: one operation for the whole body.
    fn combiner(&mut self) -> Result<Option<String>> {
        if !self.eat("{") {
            return Ok(None);
        }
        let Some(word) = self.c.read_dotted_word() else {
            return Err(self.c.refuse_next_token("an operation, such as arith.addf"));
        };
        match Kind::from_name(word.value) {
            Some(kind) if kind.is_pointwise() => {}
            _ => {
                let message = format!("`{}` combines no elements", word.value);
                let mut d =
                    Diagnostic::syntax_error(word.span, message, "not a combiner").with_id("Z202");
                if let Some(near) = Kind::nearest(word.value) {
                    d = d.with_help(format!("did you mean `{}`?", near.name()));
                }
                return Err(d);
            }
        }
        self.expect("}")?;
        Ok(Some(word.value.to_string()))
    }

    /// `(%in: f16, %out: f16) { .. }`, the body with its arguments outside.
    fn body(&mut self) -> Result<Block> {
        self.expect("(")?;
        let args = self.list(")", |p| {
            let name = p.value_name()?;
            p.expect(":")?;
            let ty = p.ty()?.value;
            Ok((Spanned { value: name.value, span: name.span }, ty))
        })?;
        self.region(&args, None)
    }

    pub(super) fn reduce(&mut self) -> Result<Parts> {
        let combiner = self.combiner()?;
        let (ins, outs) = self.ins_outs()?;
        self.expect_word("dimensions")?;
        self.expect("=")?;
        let dims = self.ints("a dimension")?;
        let results = self.arrow(&outs)?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        let mut parts = Parts::new([ins, outs].concat(), results)
            .attr("inputs", Attr::Int(count))
            .attr("dimensions", Attr::Ints(dims));
        parts = match combiner {
            Some(name) => parts.attr("combiner", Attr::Word(name)),
            None => {
                let body = self.body()?;
                parts.region(body)
            }
        };
        Ok(parts)
    }

    pub(super) fn linalg_map(&mut self) -> Result<Parts> {
        let combiner = self.combiner()?;
        let (ins, outs) = self.ins_outs()?;
        let count = i64::try_from(ins.len()).unwrap_or(i64::MAX);
        let results: Vec<Type> = outs.iter().map(|v| self.ty_of(*v).clone()).collect();
        let mut parts = Parts::new([ins, outs].concat(), results).attr("inputs", Attr::Int(count));
        parts = match combiner {
            Some(name) => parts.attr("combiner", Attr::Word(name)),
            None => {
                let body = self.body()?;
                parts.region(body)
            }
        };
        Ok(parts)
    }

    /// Broadcast and transpose: `ins(..) outs(..) KEY = [..]`.
    pub(super) fn rearranged(&mut self, key: &str) -> Result<Parts> {
        let at = self.c.next_token_start();
        let (ins, outs) = self.ins_outs()?;
        if (ins.len(), outs.len()) != (1, 1) {
            return self.syntax(
                at..self.c.last_token_end(),
                "one input and one output are needed",
                "here",
            );
        }
        self.expect_word(key)?;
        self.expect("=")?;
        let dims = self.ints("a dimension")?;
        let results = self.arrow(&outs)?;
        Ok(Parts::new([ins, outs].concat(), results).attr(key, Attr::Ints(dims)))
    }

    pub(super) fn linalg_index(&mut self) -> Result<Parts> {
        let dim = self.c.read_integer("a dimension")?.value;
        self.expect(":")?;
        let ty = self.ty()?.value;
        Ok(Parts::new(vec![], vec![ty]).attr("dim", Attr::Int(dim)))
    }
}
