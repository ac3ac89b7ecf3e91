//! Reads types.

use super::parser::{KtirParser, Result};
use crate::ir::{DYNAMIC_SIZE, KtirMemorySpace};
use crate::types::{KtirElem, KtirType};
use zellige_notation::Diagnostic;
use zellige_notation::cursor::Spanned;

impl KtirParser<'_> {
    /// Reads a type; `<64xindex>` alone is an access tile and `<(T), groups = S>` a future, because
    /// MLIR may leave the name out.
    pub(super) fn parse_type(&mut self) -> Result<Spanned<KtirType>> {
        let start = self.c.next_token_start();
        let value = self.parse_deeper(Self::parse_bare_type)?;
        Ok(Spanned { value, span: start..self.c.last_token_end() })
    }

    fn parse_bare_type(&mut self) -> Result<KtirType> {
        if self.eat_token("!ktdp.access_tile") {
            return self.parse_access_tile_type();
        }
        if self.eat_token("!ktdp.tile_future") {
            return self.parse_tile_future_type();
        }
        if self.eat_token("!ktdp.runtime_arg") {
            return self.parse_runtime_arg_type();
        }
        if self.is_next("<") {
            let at = self.c.next_token_start();
            let tail = self.text[at + 1..].trim_start();
            // An access tile's shape begins with a digit, or directly with `index` when it has rank
            // 0; a future begins with a type in parentheses or with `tensor`.
            return if tail.starts_with(|c: char| c.is_ascii_digit() || c == 'i' || c == '?') {
                self.parse_access_tile_type()
            } else {
                self.parse_tile_future_type()
            };
        }
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("a type, such as tensor<4x64xf16>"));
        };
        match word.value {
            "tensor" => {
                let (shape, elem) = self.parse_shaped()?;
                let fixed: Option<Vec<i64>> = shape.iter().copied().collect();
                match fixed {
                    Some(shape) => Ok(KtirType::Tensor(shape, elem)),
                    None => {
                        let span = word.span.start..self.c.last_token_end();
                        self.syntax_error(span, "tiles have constant sizes", "a size is `?`")
                    }
                }
            }
            "memref" => {
                let (shape, elem) = self.parse_shaped()?;
                Ok(KtirType::MemRef(shape, elem))
            }
            name => match KtirElem::from_name(name) {
                Some(elem) => Ok(KtirType::Scalar(elem)),
                None => {
                    let message = format!("unknown type `{name}`");
                    let names: Vec<&str> = KtirElem::ALL.iter().map(|e| e.name()).collect();
                    let d = Diagnostic::syntax_error(word.span, message, "not a type");
                    Err(d.with_help(format!("tensor<..>, memref<..>, {}", names.join(", "))))
                }
            },
        }
    }

    /// `<index, granularity = 4>`, word for word.
    pub(super) fn parse_runtime_arg_type(&mut self) -> Result<KtirType> {
        self.expect_token("<")?;
        let at = self.c.next_token_start();
        let len = self.balanced_length(at, &['>']);
        let text = self.text[at..at + len].trim().to_string();
        self.c.skip_to_place(at + len);
        self.expect_token(">")?;
        Ok(KtirType::RuntimeArg(text))
    }

    fn parse_access_tile_type(&mut self) -> Result<KtirType> {
        let start = self.c.next_token_start();
        if !self.is_next("<") {
            return Ok(KtirType::AccessTile(vec![DYNAMIC_SIZE]));
        }
        let (shape, elem) = self.parse_shaped()?;
        // Sizes that are left out come from the set of the access.
        let fixed: Option<Vec<i64>> =
            shape.iter().map(|n| Some(n.unwrap_or(DYNAMIC_SIZE))).collect();
        match fixed {
            Some(shape) if elem == KtirElem::Index => Ok(KtirType::AccessTile(shape)),
            _ => {
                let message = "an access tile has known sizes and elements of type index";
                self.syntax_error(start..self.c.last_token_end(), message, "write <4x64xindex>")
            }
        }
    }

    fn parse_tile_future_type(&mut self) -> Result<KtirType> {
        self.expect_token("<")?;
        let (mut types, mut groups) = (Vec::new(), None);
        while !self.eat_token(">") {
            if (!types.is_empty() || groups.is_some()) && !self.eat_token(",") {
                return Err(self.c.refuse_next_token("`,` or `>`"));
            }
            if self.eat_token("(") {
                types.extend(self.parse_list(")", |p| Ok(p.parse_type()?.value))?);
            } else if self.eat_word("groups") {
                self.expect_token("=")?;
                groups = Some(self.parse_set()?.value);
            } else if self.is_next("#") || self.is_next("affine_set") {
                groups = Some(self.parse_set()?.value);
            } else {
                types.push(self.parse_type()?.value);
            }
        }
        Ok(KtirType::TileFuture(types, groups))
    }

    /// Reads `<4x?xf16>`. MLIR allows a layout after a comma, which is refused here.
    fn parse_shaped(&mut self) -> Result<(Vec<Option<i64>>, KtirElem)> {
        self.expect_token("<")?;
        let mut shape = Vec::new();
        loop {
            let start = self.c.next_token_start();
            let rest = &self.text[start..];
            if rest.starts_with('?') {
                self.c.skip_to_place(start + 1);
                shape.push(None);
                self.expect_token("x")?;
                continue;
            }
            // Shapes are read by character: `4x64xf16` is one word to a tokenizer.
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                break;
            }
            let span = start..start + digits;
            let Ok(n) = rest[..digits].parse::<i64>() else {
                return self.syntax_error(span, "a size does not fit in 64 bits", "too large");
            };
            self.c.skip_to_place(span.end);
            shape.push(Some(n));
            self.expect_token("x")?;
        }
        if let Err(reason) =
            crate::types::check_countable(shape.iter().flatten().copied(), shape.len())
        {
            let at = self.c.next_token_start();
            return self.syntax_error(at..at, reason, "here");
        }
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("an element type, such as f16"));
        };
        let Some(elem) = KtirElem::from_name(word.value) else {
            let message = format!("unknown element type `{}`", word.value);
            let names: Vec<&str> = KtirElem::ALL.iter().map(|e| e.name()).collect();
            let d = Diagnostic::syntax_error(word.span, message, "not an element type");
            return Err(d.with_help(format!("element types are {}", names.join(", "))));
        };
        if self.is_next(",") {
            if let Some(space) = self.parse_type_space()? {
                self.written_space = Some(space);
                self.expect_token(">")?;
                return Ok((shape, elem));
            }
            let at = self.c.next_token_start();
            let message = "layouts and spaces belong to the view, not to its type";
            return self.syntax_error(at..at + 1, message, "expected `>`");
        }
        self.expect_token(">")?;
        Ok((shape, elem))
    }

    /// `, "HBM"` or `, #ktdp.memory_space<..>` in the type of a view; none where something else follows the comma.
    fn parse_type_space(&mut self) -> Result<Option<KtirMemorySpace>> {
        let at = self.c.next_token_start();
        let rest = self.text[at + 1..].trim_start();
        let known = [
            ("\"HBM\"", KtirMemorySpace::Global),
            ("\"global\"", KtirMemorySpace::Global),
            ("\"LX\"", KtirMemorySpace::Local(None)),
            ("\"ct_local\"", KtirMemorySpace::Local(None)),
        ];
        let quoted = known.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, space)) = quoted {
            self.c.skip_to_place(self.text.len() - rest.len() + name.len());
            return Ok(Some(*space));
        }
        if rest.starts_with("#ktdp.") {
            self.expect_token(",")?;
            return Ok(Some(self.parse_memory_space()?));
        }
        Ok(None)
    }

    /// `T`, or `(T, U)`, or `()`.
    pub(super) fn parse_type_list(&mut self) -> Result<Vec<KtirType>> {
        if self.eat_token("(") {
            return self.parse_list(")", |p| Ok(p.parse_type()?.value));
        }
        self.parse_one_or_more(|p| Ok(p.parse_type()?.value))
    }

    /// The number of bytes up to one of `stops` outside of all brackets and quoted texts.
    pub(super) fn balanced_length(&self, at: usize, stops: &[char]) -> usize {
        let (mut depth, mut quoted, mut before) = (0_usize, false, ' ');
        for (i, ch) in self.text[at..].char_indices() {
            if quoted {
                quoted = ch != '"' || before == '\\';
            // The `>` of an arrow closes nothing.
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
