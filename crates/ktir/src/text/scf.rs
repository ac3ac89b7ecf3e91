//! Reading loops and branches.

use super::parser::{Parser, Parts, Result};
use crate::ir::{Attr, Value};
use crate::op::Kind;
use crate::types::Type;
use zellige_notation::cursor::Spanned;

impl Parser<'_> {
    pub(super) fn scf_for(&mut self) -> Result<Parts> {
        let iv = self.value_name()?;
        self.expect("=")?;
        let mut operands = vec![self.value()?];
        self.expect_word("to")?;
        operands.push(self.value()?);
        self.expect_word("step")?;
        operands.push(self.value()?);
        let mut names = vec![(iv, self.ty_of(operands[0]).clone())];
        let mut results = Vec::new();
        if self.eat_word("iter_args") {
            let carried = self.carried()?;
            self.expect("->")?;
            let at = self.c.next_token_start();
            results = self.type_list()?;
            if results.len() != carried.len() {
                let message = format!("{} values are carried", carried.len());
                let label = format!("{} types are written", results.len());
                return self.syntax(at..self.c.last_token_end(), message, label);
            }
            for ((name, value), ty) in carried.into_iter().zip(&results) {
                let written = Spanned { value: ty.clone(), span: at..self.c.last_token_end() };
                self.agree(value, &written)?;
                names.push((name, ty.clone()));
                operands.push(value);
            }
        }
        if self.eat(":") {
            let ty = self.ty()?;
            operands[..3].iter().try_for_each(|v| self.agree(*v, &ty))?;
        }
        let region = self.region(&names, Some(Kind::ScfYield))?;
        Ok(Parts::new(operands, results).region(region))
    }

    /// `(%a = %x, ..)`.
    fn carried(&mut self) -> Result<Vec<(Spanned<String>, Value)>> {
        self.expect("(")?;
        self.list(")", |p| {
            let name = p.value_name()?;
            p.expect("=")?;
            let value = p.value()?;
            Ok((name, value))
        })
    }

    pub(super) fn scf_if(&mut self) -> Result<Parts> {
        let condition = self.value()?;
        let results = if self.eat("->") { self.type_list()? } else { Vec::new() };
        let then = self.region(&[], Some(Kind::ScfYield))?;
        let mut parts = Parts::new(vec![condition], results).region(then);
        if self.eat_word("else") {
            let other = self.region(&[], Some(Kind::ScfYield))?;
            parts = parts.region(other);
        }
        Ok(parts)
    }

    pub(super) fn scf_while(&mut self) -> Result<Parts> {
        let carried = if self.sees("(") { self.carried()? } else { Vec::new() };
        self.expect(":")?;
        self.expect("(")?;
        let operands: Vec<Value> = carried.iter().map(|(_, v)| *v).collect();
        self.agree_all(&operands)?;
        self.expect(")")?;
        self.expect("->")?;
        let results = self.type_list()?;
        let names: Vec<(Spanned<String>, Type)> =
            carried.into_iter().map(|(n, v)| (n, self.ty_of(v).clone())).collect();
        let before = self.region(&names, None)?;
        self.expect_word("do")?;
        let after = self.region(&[], Some(Kind::ScfYield))?;
        Ok(Parts::new(operands, results).region(before).region(after))
    }

    pub(super) fn scf_condition(&mut self) -> Result<Parts> {
        self.expect("(")?;
        let mut operands = vec![self.value()?];
        self.expect(")")?;
        if self.c.peek_char() == Some('%') {
            let more = self.some(Self::value)?;
            self.expect(":")?;
            self.agree_all(&more)?;
            operands.extend(more);
        }
        Ok(Parts::new(operands, vec![]))
    }

    pub(super) fn scf_parallel(&mut self) -> Result<Parts> {
        self.expect("(")?;
        let names = self.list(")", |p| Ok((p.value_name()?, Type::INDEX)))?;
        let n = names.len();
        let mut operands = Vec::new();
        for word in ["=", "to", "step"] {
            if word == "=" {
                self.expect(word)?;
            } else {
                self.expect_word(word)?;
            }
            self.expect("(")?;
            let at = self.c.next_token_start();
            let list = self.list(")", Self::value)?;
            if list.len() != n {
                let message = format!("the loop has {n} variables");
                let label = format!("{} values are given", list.len());
                return self.syntax(at..self.c.last_token_end(), message, label);
            }
            operands.extend(list);
        }
        let rank = i64::try_from(n).unwrap_or(i64::MAX);
        let region = self.region(&names, Some(Kind::ScfYield))?;
        Ok(Parts::new(operands, vec![]).attr("rank", Attr::Int(rank)).region(region))
    }
}
