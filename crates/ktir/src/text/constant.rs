//! Reads constants: numbers, bit patterns, dense tiles.

use super::parser::{KtirOpParts, KtirParser, Result};
use crate::ir::{KtirAttr, KtirLiteral};
use crate::types::{KtirElem, KtirType};

impl KtirParser<'_> {
    pub(super) fn parse_constant(&mut self) -> Result<KtirOpParts> {
        if let Some(parts) = self.parse_braced_constant()? {
            return Ok(parts);
        }
        let start = self.c.next_token_start();
        let attrs = self.parse_dict()?;
        if self.eat_word("true") || self.eat_word("false") {
            let yes = self.text[start..self.c.last_token_end()].ends_with("true");
            if self.eat_token(":") {
                self.parse_type()?;
            }
            let attr = KtirAttr::Literal(KtirLiteral::Int(i64::from(yes)));
            return Ok(KtirOpParts::new(vec![], vec![KtirType::Scalar(KtirElem::I1)])
                .with_attr("value", attr)
                .with_attrs(attrs));
        }
        if self.eat_word("dense") {
            self.expect_token("<")?;
            let mut literals = Vec::new();
            self.parse_dense(&mut literals)?;
            self.expect_token(">")?;
            self.expect_token(":")?;
            let ty = self.parse_type()?;
            let KtirType::Tensor(_, elem) = &ty.value else {
                return self.syntax_error(ty.span, "a dense constant is a tensor", "not a tensor");
            };
            let literals = literals.into_iter().map(|l| resolve_literal(l, *elem)).collect();
            return Ok(KtirOpParts::new(vec![], vec![ty.value])
                .with_attr("value", KtirAttr::Dense(literals))
                .with_attrs(attrs));
        }
        let literal = self.parse_literal()?;
        let span = start..self.c.last_token_end();
        self.expect_token(":")?;
        let ty = self.parse_type()?;
        let KtirType::Scalar(elem) = ty.value else {
            return self.syntax_error(
                ty.span,
                "write `dense<..>` for a constant tile",
                "not one number",
            );
        };
        if !elem.is_float() && matches!(literal, KtirLiteral::Float(_)) {
            return self.syntax_error(
                span,
                format!("a constant of type {elem} is whole"),
                "a fraction",
            );
        }
        Ok(KtirOpParts::new(vec![], vec![ty.value])
            .with_attr("value", KtirAttr::Literal(resolve_literal(literal, elem)))
            .with_attrs(attrs))
    }

    /// `{value = 128 : index}` or `{128 : index}`, with or without `: index` behind it: the generic form of MLIR, and a
    /// short form of it. None where the braces hold something else.
    fn parse_braced_constant(&mut self) -> Result<Option<KtirOpParts>> {
        if !self.is_next("{") {
            return Ok(None);
        }
        let at = self.c.next_token_start();
        let inner = self.text[at + 1..].trim_start();
        let named = inner.strip_prefix("value").map(str::trim_start);
        let named = named.and_then(|rest| rest.strip_prefix('='));
        let literal = |c: char| c.is_ascii_digit() || c == '-' || c == '+';
        let short = inner.starts_with(literal)
            || ["true", "false", "dense"].iter().any(|word| inner.starts_with(word));
        if named.is_none() && !short {
            return Ok(None);
        }
        let rest = named.unwrap_or(inner);
        self.c.skip_to_place(self.text.len() - rest.len());
        let parts = self.parse_deeper(Self::parse_constant)?;
        self.expect_token("}")?;
        if self.eat_token(":") {
            let ty = self.parse_type()?;
            if parts.results.first() != Some(&ty.value) {
                let message = format!("the constant is not {}", ty.value);
                return self.syntax_error(ty.span, message, "another type");
            }
        }
        Ok(Some(parts))
    }

    fn parse_dense(&mut self, out: &mut Vec<KtirLiteral>) -> Result<()> {
        if self.eat_token("[") {
            self.parse_list("]", |p| p.parse_deeper(|p| p.parse_dense(out)))?;
            return Ok(());
        }
        if self.eat_word("true") {
            out.push(KtirLiteral::Int(1));
        } else if self.eat_word("false") {
            out.push(KtirLiteral::Int(0));
        } else {
            out.push(self.parse_literal()?);
        }
        Ok(())
    }

    /// `-1`, `0.5`, `1.0e-3`, `0xFC00`.
    pub(super) fn parse_literal(&mut self) -> Result<KtirLiteral> {
        let start = self.c.next_token_start();
        let rest = &self.text[start..];
        let ok = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let sign = usize::from(rest.starts_with(['-', '+']));
        let mut len = sign;
        let mut before = ' ';
        for ch in rest[sign..].chars() {
            // A sign belongs to a number only at its beginning and after the `e` of an exponent.
            let exponent = matches!(ch, '-' | '+') && matches!(before, 'e' | 'E');
            if !(ok(ch) || exponent) {
                break;
            }
            before = ch;
            len += ch.len_utf8();
        }
        let token = &rest[..len];
        let literal = if let Some(hex) = token.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok().map(KtirLiteral::Bits)
        } else if token[sign..].bytes().all(|b| b.is_ascii_digit()) && len > sign {
            token.parse().ok().map(KtirLiteral::Int)
        // Rust also reads `inf` and `nan` as floats, which are no numbers in MLIR's text.
        } else if token[sign..].starts_with(|c: char| c.is_ascii_digit()) {
            token.parse::<f64>().ok().and_then(KtirLiteral::from_finite_float)
        } else {
            None
        };
        match literal {
            Some(literal) => {
                self.c.skip_to_place(start + len);
                Ok(literal)
            }
            None if len > sign => self.syntax_error(
                start..start + len,
                format!("`{token}` is not a number"),
                "not a number",
            ),
            None => Err(self.c.refuse_next_token("a number")),
        }
    }
}

/// Turns the bit pattern of an integer into its number, and a whole number of a float type into a
/// float.
fn resolve_literal(literal: KtirLiteral, elem: KtirElem) -> KtirLiteral {
    match literal {
        KtirLiteral::Bits(bits) if !elem.is_float() => {
            // Shifting left and back copies the sign bit of the element: `0xFF : i8` is -1.
            let unused = 64 - elem.value_bits();
            #[allow(clippy::cast_possible_wrap, reason = "the bits of a two's complement number")]
            let value = ((bits << unused) as i64) >> unused;
            KtirLiteral::Int(if elem == KtirElem::I1 { value & 1 } else { value })
        }
        KtirLiteral::Int(n) if elem.is_float() => {
            #[allow(clippy::cast_precision_loss, reason = "a float was asked for")]
            let value = n as f64;
            KtirLiteral::Float(value.to_bits())
        }
        other => other,
    }
}
