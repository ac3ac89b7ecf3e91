//! Reading constants: numbers, bit patterns, dense tiles.

use super::parser::{Parser, Parts, Result};
use crate::ir::{Attr, Literal};
use crate::types::{Elem, Type};

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Result<Parts> {
        let start = self.c.next_token_start();
        let attrs = self.dict()?;
        if self.eat_word("true") || self.eat_word("false") {
            let yes = self.text[start..self.c.last_token_end()].ends_with("true");
            if self.eat(":") {
                self.ty()?;
            }
            let attr = Attr::Literal(Literal::Int(i64::from(yes)));
            return Ok(Parts::new(vec![], vec![Type::Scalar(Elem::I1)])
                .attr("value", attr)
                .attrs(attrs));
        }
        if self.eat_word("dense") {
            self.expect("<")?;
            let mut literals = Vec::new();
            self.dense(&mut literals)?;
            self.expect(">")?;
            self.expect(":")?;
            let ty = self.ty()?;
            let Type::Tensor(_, elem) = &ty.value else {
                return self.syntax(ty.span, "a dense constant is a tensor", "not a tensor");
            };
            let literals = literals.into_iter().map(|l| settle(l, *elem)).collect();
            return Ok(Parts::new(vec![], vec![ty.value])
                .attr("value", Attr::Dense(literals))
                .attrs(attrs));
        }
        let literal = self.literal()?;
        let span = start..self.c.last_token_end();
        self.expect(":")?;
        let ty = self.ty()?;
        let Type::Scalar(elem) = ty.value else {
            return self.syntax(ty.span, "write `dense<..>` for a constant tile", "not one number");
        };
        if !elem.is_float() && matches!(literal, Literal::Float(_)) {
            return self.syntax(span, format!("a constant of type {elem} is whole"), "a fraction");
        }
        Ok(Parts::new(vec![], vec![ty.value])
            .attr("value", Attr::Literal(settle(literal, elem)))
            .attrs(attrs))
    }

    fn dense(&mut self, out: &mut Vec<Literal>) -> Result<()> {
        if self.eat("[") {
            self.list("]", |p| p.deeper(|p| p.dense(out)))?;
            return Ok(());
        }
        if self.eat_word("true") {
            out.push(Literal::Int(1));
        } else if self.eat_word("false") {
            out.push(Literal::Int(0));
        } else {
            out.push(self.literal()?);
        }
        Ok(())
    }

    /// `-1`, `0.5`, `1.0e-3`, `0xFC00`.
    pub(super) fn literal(&mut self) -> Result<Literal> {
        let start = self.c.next_token_start();
        let rest = &self.text[start..];
        let ok = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let sign = usize::from(rest.starts_with(['-', '+']));
        let mut len = sign;
        let mut before = ' ';
        for ch in rest[sign..].chars() {
            let exponent = matches!(ch, '-' | '+') && matches!(before, 'e' | 'E');
            if !(ok(ch) || exponent) {
                break;
            }
            before = ch;
            len += ch.len_utf8();
        }
        let token = &rest[..len];
        let literal = if let Some(hex) = token.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok().map(Literal::Bits)
        } else if token[sign..].bytes().all(|b| b.is_ascii_digit()) && len > sign {
            token.parse().ok().map(Literal::Int)
        } else if token[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            token.parse::<f64>().ok().and_then(Literal::float)
        } else {
            None
        };
        match literal {
            Some(literal) => {
                self.c.skip_to_place(start + len);
                Ok(literal)
            }
            None if len > sign => {
                self.syntax(start..start + len, format!("`{token}` is no number"), "not a number")
            }
            None => Err(self.c.refuse_next_token("a number")),
        }
    }
}

/// Bit patterns of integers are their numbers.
fn settle(literal: Literal, elem: Elem) -> Literal {
    match literal {
        Literal::Bits(bits) if !elem.is_float() => {
            let unused = 64 - elem.bits();
            #[allow(clippy::cast_possible_wrap, reason = "the bits of a two's complement number")]
            let value = ((bits << unused) as i64) >> unused;
            Literal::Int(if elem == Elem::I1 { value & 1 } else { value })
        }
        Literal::Int(n) if elem.is_float() => {
            #[allow(clippy::cast_precision_loss, reason = "a float was asked for")]
            let value = n as f64;
            Literal::Float(value.to_bits())
        }
        other => other,
    }
}
