//! Reads loops and branches.

use super::parser::{KtirOpParts, KtirParser, Result};
use crate::ir::{KtirAttr, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use zellige_notation::cursor::Spanned;

impl KtirParser<'_> {
    pub(super) fn parse_scf_for(&mut self) -> Result<KtirOpParts> {
        let iv = self.parse_value_name()?;
        self.expect_token("=")?;
        let mut operands = vec![self.parse_value()?];
        self.expect_word("to")?;
        operands.push(self.parse_value()?);
        self.expect_word("step")?;
        operands.push(self.parse_value()?);
        let mut names = vec![(iv, self.value_type(operands[0]).clone())];
        let mut results = Vec::new();
        if self.eat_word("iter_args") {
            let carried = self.parse_carried()?;
            self.expect_token("->")?;
            let at = self.c.next_token_start();
            results = self.parse_type_list()?;
            if results.len() != carried.len() {
                let message = format!("{} values are carried", carried.len());
                let label = format!("{} types are written", results.len());
                return self.syntax_error(at..self.c.last_token_end(), message, label);
            }
            for ((name, value), ty) in carried.into_iter().zip(&results) {
                let written = Spanned { value: ty.clone(), span: at..self.c.last_token_end() };
                self.check_written_type(value, &written)?;
                names.push((name, ty.clone()));
                operands.push(value);
            }
        }
        if self.eat_token(":") {
            let ty = self.parse_type()?;
            operands[..3].iter().try_for_each(|v| self.check_written_type(*v, &ty))?;
        }
        let region = self.parse_region(&names, Some(KtirOpKind::ScfYield))?;
        Ok(KtirOpParts::new(operands, results).with_region(region))
    }

    /// `(%a = %x, ..)`.
    fn parse_carried(&mut self) -> Result<Vec<(Spanned<String>, KtirValue)>> {
        self.expect_token("(")?;
        self.parse_list(")", |p| {
            let name = p.parse_value_name()?;
            p.expect_token("=")?;
            let value = p.parse_value()?;
            Ok((name, value))
        })
    }

    pub(super) fn parse_scf_if(&mut self) -> Result<KtirOpParts> {
        let condition = self.parse_value()?;
        let results = if self.eat_token("->") { self.parse_type_list()? } else { Vec::new() };
        let then = self.parse_region(&[], Some(KtirOpKind::ScfYield))?;
        let mut parts = KtirOpParts::new(vec![condition], results).with_region(then);
        if self.eat_word("else") {
            let other = self.parse_region(&[], Some(KtirOpKind::ScfYield))?;
            parts = parts.with_region(other);
        }
        Ok(parts)
    }

    pub(super) fn parse_scf_while(&mut self) -> Result<KtirOpParts> {
        let carried = if self.is_next("(") { self.parse_carried()? } else { Vec::new() };
        self.expect_token(":")?;
        self.expect_token("(")?;
        let operands: Vec<KtirValue> = carried.iter().map(|(_, v)| *v).collect();
        self.parse_agreeing_types(&operands)?;
        self.expect_token(")")?;
        self.expect_token("->")?;
        let results = self.parse_type_list()?;
        let names: Vec<(Spanned<String>, KtirType)> =
            carried.into_iter().map(|(n, v)| (n, self.value_type(v).clone())).collect();
        let before = self.parse_region(&names, None)?;
        self.expect_word("do")?;
        let after = self.parse_region(&[], Some(KtirOpKind::ScfYield))?;
        Ok(KtirOpParts::new(operands, results).with_region(before).with_region(after))
    }

    pub(super) fn parse_scf_condition(&mut self) -> Result<KtirOpParts> {
        self.expect_token("(")?;
        let mut operands = vec![self.parse_value()?];
        self.expect_token(")")?;
        if self.c.peek_char() == Some('%') {
            let more = self.parse_one_or_more(Self::parse_value)?;
            self.expect_token(":")?;
            self.parse_agreeing_types(&more)?;
            operands.extend(more);
        }
        Ok(KtirOpParts::new(operands, vec![]))
    }

    pub(super) fn parse_scf_parallel(&mut self) -> Result<KtirOpParts> {
        self.expect_token("(")?;
        let names = self.parse_list(")", |p| Ok((p.parse_value_name()?, KtirType::INDEX)))?;
        let n = names.len();
        let mut operands = Vec::new();
        for word in ["=", "to", "step"] {
            if word == "=" {
                self.expect_token(word)?;
            } else {
                self.expect_word(word)?;
            }
            self.expect_token("(")?;
            let at = self.c.next_token_start();
            let list = self.parse_list(")", Self::parse_value)?;
            if list.len() != n {
                let message = format!("the loop has {n} variables");
                let label = format!("{} values are given", list.len());
                return self.syntax_error(at..self.c.last_token_end(), message, label);
            }
            operands.extend(list);
        }
        let rank = i64::try_from(n).unwrap_or(i64::MAX);
        let region = self.parse_region(&names, Some(KtirOpKind::ScfYield))?;
        Ok(KtirOpParts::new(operands, vec![])
            .with_attr("rank", KtirAttr::Int(rank))
            .with_region(region))
    }
}
