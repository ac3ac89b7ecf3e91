//! Reading dictionaries of attributes.

use super::parser::{Parser, Result};
use crate::ir::{Attr, DYNAMIC, Space, Value};
use zellige_notation::Diagnostic;

impl Parser<'_> {
    /// `{key = value, ..}` if it comes next.
    pub(super) fn dict(&mut self) -> Result<Vec<(String, Attr)>> {
        if !self.eat("{") {
            return Ok(Vec::new());
        }
        let mut seen: Vec<String> = Vec::new();
        self.list("}", |p| {
            let Some(key) = p.c.read_dotted_word() else {
                return Err(p.c.refuse_next_token("the name of an attribute"));
            };
            if seen.iter().any(|k| k == key.value) {
                let message = format!("attribute `{}` is given twice", key.value);
                return p.syntax(key.span, message, "already given");
            }
            seen.push(key.value.into());
            let value = if p.eat("=") { p.attr(key.value)? } else { Attr::Raw(String::new()) };
            Ok((key.value.to_string(), value))
        })
    }

    fn attr(&mut self, key: &str) -> Result<Attr> {
        match key {
            "coordinate_set" | "access_tile_set" | "variables_space_set" => {
                return Ok(Attr::Set(self.set()?.value));
            }
            "base_map" | "access_tile_order" | "variables_space_order" => {
                return Ok(Attr::Map(self.map()?.value));
            }
            "indexing_maps" => {
                self.expect("[")?;
                return Ok(Attr::Maps(self.list("]", |p| Ok(p.map()?.value))?));
            }
            "iterator_types" => {
                self.expect("[")?;
                return Ok(Attr::Words(self.list("]", Self::quoted)?));
            }
            "memory_space" => return Ok(Attr::Space(self.space()?)),
            "dim" | "dimension" => {
                let n = self.c.read_integer("a dimension")?.value;
                if self.eat(":") {
                    self.ty()?;
                }
                return Ok(Attr::Int(n));
            }
            _ => {}
        }
        let at = self.c.next_token_start();
        let len = self.balanced(at, &[',', '}']);
        let text = self.text[at..at + len].trim();
        if text.is_empty() {
            return Err(self.c.refuse_next_token("the value of the attribute"));
        }
        self.c.skip_to_place(at + len);
        Ok(Attr::Raw(text.to_string()))
    }

    fn quoted(&mut self) -> Result<String> {
        let at = self.c.next_token_start();
        let tail = self.text[at..].strip_prefix('"');
        let Some((word, _)) = tail.and_then(|t| t.split_once('"')) else {
            return Err(self.c.refuse_next_token("a text, such as \"parallel\""));
        };
        self.c.skip_to_place(at + word.len() + 2);
        Ok(word.to_string())
    }

    /// Both spellings of a memory space.
    fn space(&mut self) -> Result<Space> {
        let start = self.c.next_token_start();
        let names = if self.eat("#ktdp.memory_space") {
            ("global", "ct_local", "ct_id")
        } else if self.eat("#ktdp.spyre_memory_space") {
            ("HBM", "LX", "core")
        } else {
            let what = "`#ktdp.memory_space<..>` or `#ktdp.spyre_memory_space<..>`";
            return Err(self.c.refuse_next_token(what));
        };
        self.expect("<")?;
        let Some(word) = self.c.read_word() else {
            return Err(self.c.refuse_next_token(&format!("`{}` or `{}`", names.0, names.1)));
        };
        let space = if word.value == names.0 {
            Space::Global
        } else if word.value == names.1 {
            let mut core = None;
            if self.eat(",") {
                self.expect_word(names.2)?;
                self.expect("=")?;
                let n = self.c.read_integer("a core")?;
                core = Some(u32::try_from(n.value).map_err(|_| {
                    Diagnostic::syntax_error(n.span, "a core is a number from 0 on", "not a core")
                })?);
            }
            Space::Local(core)
        } else {
            let message = format!("unknown memory space `{}`", word.value);
            let d = Diagnostic::syntax_error(start..word.span.end, message, "no such space");
            return Err(d.with_help(format!("write `{}` or `{}`", names.0, names.1)));
        };
        self.expect(">")?;
        Ok(space)
    }

    /// `[4, %n, 8]`: numbers, with the values among them.
    pub(super) fn mixed(&mut self) -> Result<(Vec<i64>, Vec<Value>)> {
        let mut values = Vec::new();
        self.expect("[")?;
        let list = self.list("]", |p| {
            if p.c.peek_char() == Some('%') {
                values.push(p.value()?);
                return Ok(DYNAMIC);
            }
            let n = p.c.read_integer("a number or a value")?;
            if n.value == DYNAMIC {
                return p.syntax(n.span, "the number is too small", "here");
            }
            Ok(n.value)
        })?;
        Ok((list, values))
    }

    /// `[1, 0]`.
    pub(super) fn ints(&mut self, what: &str) -> Result<Vec<i64>> {
        self.expect("[")?;
        self.list("]", |p| Ok(p.c.read_integer(what)?.value))
    }
}
