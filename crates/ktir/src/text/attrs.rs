//! Reads dictionaries of attributes.

use super::parser::{KtirParser, Result};
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirMemorySpace, KtirValue};
use zellige_notation::Diagnostic;

impl KtirParser<'_> {
    /// Reads `{key = value, ..}` if it is the next token.
    pub(super) fn parse_dict(&mut self) -> Result<Vec<(String, KtirAttr)>> {
        if !self.eat_token("{") {
            return Ok(Vec::new());
        }
        let mut seen: Vec<String> = Vec::new();
        self.parse_list("}", |p| {
            let Some(key) = p.c.read_dotted_word() else {
                return Err(p.c.refuse_next_token("the name of an attribute"));
            };
            if seen.iter().any(|k| k == key.value) {
                let message = format!("attribute `{}` is given twice", key.value);
                return p.syntax_error(key.span, message, "already given");
            }
            // MLIR refuses duplicate keys; taking the first or the last of two would be a guess.
            seen.push(key.value.into());
            let value = if p.eat_token("=") {
                p.parse_attr(key.value)?
            } else {
                KtirAttr::Raw(String::new())
            };
            Ok((key.value.to_string(), value))
        })
    }

    fn parse_attr(&mut self, key: &str) -> Result<KtirAttr> {
        match key {
            "coordinate_set" | "access_tile_set" | "variables_space_set" => {
                return Ok(KtirAttr::Set(self.parse_set()?.value));
            }
            "base_map" | "access_tile_order" | "variables_space_order" => {
                return Ok(KtirAttr::Map(self.parse_map()?.value));
            }
            "indexing_maps" => {
                self.expect_token("[")?;
                return Ok(KtirAttr::Maps(self.parse_list("]", |p| Ok(p.parse_map()?.value))?));
            }
            "iterator_types" => {
                self.expect_token("[")?;
                return Ok(KtirAttr::Words(self.parse_list("]", Self::parse_quoted)?));
            }
            "memory_space" => return Ok(KtirAttr::Space(self.parse_memory_space()?)),
            "dim" | "dimension" => {
                let n = self.c.read_integer("a dimension")?.value;
                if self.eat_token(":") {
                    self.parse_type()?;
                }
                return Ok(KtirAttr::Int(n));
            }
            _ => {}
        }
        let at = self.c.next_token_start();
        // Attributes that no rule looks at are kept word for word, so that a text from upstream
        // survives being read and printed.
        let len = self.balanced_length(at, &[',', '}']);
        let text = self.text[at..at + len].trim();
        if text.is_empty() {
            return Err(self.c.refuse_next_token("the value of the attribute"));
        }
        self.c.skip_to_place(at + len);
        Ok(KtirAttr::Raw(text.to_string()))
    }

    fn parse_quoted(&mut self) -> Result<String> {
        let at = self.c.next_token_start();
        let tail = self.text[at..].strip_prefix('"');
        let Some((word, _)) = tail.and_then(|t| t.split_once('"')) else {
            return Err(self.c.refuse_next_token("a text, such as \"parallel\""));
        };
        self.c.skip_to_place(at + word.len() + 2);
        Ok(word.to_string())
    }

    /// Reads both spellings of a memory space.
    pub(super) fn parse_memory_space(&mut self) -> Result<KtirMemorySpace> {
        let start = self.c.next_token_start();
        let names = if self.eat_token("#ktdp.memory_space") {
            ("global", "ct_local", "ct_id")
        } else if self.eat_token("#ktdp.spyre_memory_space") {
            ("HBM", "LX", "core")
        } else {
            let what = "`#ktdp.memory_space<..>` or `#ktdp.spyre_memory_space<..>`";
            return Err(self.c.refuse_next_token(what));
        };
        self.expect_token("<")?;
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token(&format!("`{}` or `{}`", names.0, names.1)));
        };
        let space = if word.value == names.0 {
            KtirMemorySpace::Global
        } else if word.value == names.1 {
            let mut core = None;
            if self.eat_token(",") {
                self.expect_word(names.2)?;
                self.expect_token("=")?;
                let n = self.c.read_integer("a core")?;
                core = Some(u32::try_from(n.value).map_err(|_| {
                    Diagnostic::syntax_error(n.span, "a core is a number from 0 on", "not a core")
                })?);
            }
            KtirMemorySpace::Local(core)
        } else {
            let message = format!("unknown memory space `{}`", word.value);
            let d = Diagnostic::syntax_error(start..word.span.end, message, "no such space");
            return Err(d.with_help(format!("write `{}` or `{}`", names.0, names.1)));
        };
        self.expect_token(">")?;
        Ok(space)
    }

    /// Reads `[4, %n, 8]`: the numbers, and the values in their order.
    pub(super) fn parse_mixed_list(&mut self) -> Result<(Vec<i64>, Vec<KtirValue>)> {
        let mut values = Vec::new();
        self.expect_token("[")?;
        let list = self.parse_list("]", |p| {
            if p.c.peek_char() == Some('%') {
                values.push(p.parse_value()?);
                return Ok(DYNAMIC_SIZE);
            }
            let n = p.c.read_integer("a number or a value")?;
            // This number is the mark for an operand and would silently become one.
            if n.value == DYNAMIC_SIZE {
                return p.syntax_error(n.span, "the number is too small", "here");
            }
            Ok(n.value)
        })?;
        Ok((list, values))
    }

    /// `[1, 0]`.
    pub(super) fn parse_ints(&mut self, what: &str) -> Result<Vec<i64>> {
        self.expect_token("[")?;
        self.parse_list("]", |p| Ok(p.c.read_integer(what)?.value))
    }
}
