//! Reading types.

use super::parser::{Parser, Result};
use crate::types::{Elem, Type};
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl Parser<'_> {
    /// A type; `<64xindex>` alone is an access tile and `<(T), groups = S>` a future, as MLIR may
    /// leave the name out.
    pub(super) fn ty(&mut self) -> Result<Spanned<Type>> {
        let start = self.c.next_token_start();
        let value = self.deeper(Self::bare_type)?;
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    fn bare_type(&mut self) -> Result<Type> {
        if self.eat("!ktdp.access_tile") {
            return self.access_tile();
        }
        if self.eat("!ktdp.tile_future") {
            return self.tile_future();
        }
        if self.eat("!ktdp.runtime_arg") {
            self.expect("<")?;
            let at = self.c.next_token_start();
            let len = self.balanced(at, &['>']);
            let text = self.text[at..at + len].trim().to_string();
            self.c.skip_to_place(at + len);
            self.expect(">")?;
            return Ok(Type::RuntimeArg(text));
        }
        if self.sees("<") {
            let at = self.c.next_token_start();
            let tail = self.text[at + 1..].trim_start();
            return if tail.starts_with(|c: char| c.is_ascii_digit() || c == 'i') {
                self.access_tile()
            } else {
                self.tile_future()
            };
        }
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("a type, such as tensor<4x64xf16>"));
        };
        match word.value {
            "tensor" => {
                let (shape, elem) = self.shaped()?;
                let fixed: Option<Vec<i64>> = shape.iter().copied().collect();
                match fixed {
                    Some(shape) => Ok(Type::Tensor(shape, elem)),
                    None => {
                        let span = word.span.start..self.c.last_token_end();
                        self.syntax(span, "tiles have sizes that are known", "a size is `?`")
                    }
                }
            }
            "memref" => {
                let (shape, elem) = self.shaped()?;
                Ok(Type::MemRef(shape, elem))
            }
            name => match Elem::from_name(name) {
                Some(elem) => Ok(Type::Scalar(elem)),
                None => {
                    let message = format!("unknown type `{name}`");
                    let names: Vec<&str> = Elem::ALL.iter().map(|e| e.name()).collect();
                    let d = Diagnostic::syntax_error(word.span, message, "not a type");
                    Err(d.with_help(format!("tensor<..>, memref<..>, {}", names.join(", "))))
                }
            },
        }
    }

    fn access_tile(&mut self) -> Result<Type> {
        let start = self.c.next_token_start();
        let (shape, elem) = self.shaped()?;
        let fixed: Option<Vec<i64>> = shape.iter().copied().collect();
        match fixed {
            Some(shape) if elem == Elem::Index => Ok(Type::AccessTile(shape)),
            _ => {
                let message = "an access tile has known sizes and elements of type index";
                self.syntax(start..self.c.last_token_end(), message, "write <4x64xindex>")
            }
        }
    }

    fn tile_future(&mut self) -> Result<Type> {
        self.expect("<")?;
        let (mut types, mut groups) = (Vec::new(), None);
        while !self.eat(">") {
            if (!types.is_empty() || groups.is_some()) && !self.eat(",") {
                return Err(self.c.refuse_next_token("`,` or `>`"));
            }
            if self.eat("(") {
                types.extend(self.list(")", |p| Ok(p.ty()?.value))?);
            } else if self.eat_word("groups") {
                self.expect("=")?;
                groups = Some(self.set()?.value);
            } else if self.sees("#") || self.sees("affine_set") {
                groups = Some(self.set()?.value);
            } else {
                types.push(self.ty()?.value);
            }
        }
        Ok(Type::TileFuture(types, groups))
    }

    /// `<4x?xf16>`; what follows a comma there is a layout, which only the plain one is accepted for.
    fn shaped(&mut self) -> Result<(Vec<Option<i64>>, Elem)> {
        self.expect("<")?;
        let mut shape = Vec::new();
        loop {
            let start = self.c.next_token_start();
            let rest = &self.text[start..];
            if rest.starts_with('?') {
                self.c.skip_to_place(start + 1);
                shape.push(None);
                self.expect("x")?;
                continue;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                break;
            }
            let span = start..start + digits;
            let Ok(n) = rest[..digits].parse::<i64>() else {
                return self.syntax(span, "a size does not fit in 64 bits", "too large");
            };
            self.c.skip_to_place(span.end);
            shape.push(Some(n));
            self.expect("x")?;
        }
        if let Err(reason) = crate::types::countable(shape.iter().flatten().copied(), shape.len()) {
            let at = self.c.next_token_start();
            return self.syntax(at..at, reason, "here");
        }
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("an element type, such as f16"));
        };
        let Some(elem) = Elem::from_name(word.value) else {
            let message = format!("unknown element type `{}`", word.value);
            let names: Vec<&str> = Elem::ALL.iter().map(|e| e.name()).collect();
            let d = Diagnostic::syntax_error(word.span, message, "not an element type");
            return Err(d.with_help(format!("element types are {}", names.join(", "))));
        };
        if self.sees(",") {
            let at = self.c.next_token_start();
            let message = "layouts and spaces belong to the view, not to its type";
            return self.syntax(at..at + 1, message, "expected `>`");
        }
        self.expect(">")?;
        Ok((shape, elem))
    }

    /// `T`, or `(T, U)`, or `()`.
    pub(super) fn type_list(&mut self) -> Result<Vec<Type>> {
        if self.eat("(") {
            return self.list(")", |p| Ok(p.ty()?.value));
        }
        self.some(|p| Ok(p.ty()?.value))
    }

    /// Bytes up to a stop at the same depth of brackets, texts skipped.
    pub(super) fn balanced(&self, at: usize, stops: &[char]) -> usize {
        let (mut depth, mut quoted, mut before) = (0_usize, false, ' ');
        for (i, ch) in self.text[at..].char_indices() {
            if quoted {
                quoted = ch != '"' || before == '\\';
            } else if depth == 0 && stops.contains(&ch) && !(ch == '>' && before == '-') {
                return i;
            } else {
                match ch {
                    '"' => quoted = true,
                    '(' | '[' | '{' | '<' => depth += 1,
                    '>' if before == '-' || before == '=' => {}
                    ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            before = ch;
        }
        self.text.len() - at
    }
}
