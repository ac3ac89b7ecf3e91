//! Tensors as the Python DSL prints them: `tensor<ptr<f16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>`.
//!
//! ```text
//! tensor  := "tensor" "<" ( pointer | value ) "o" [ swizzle "o" int "o" ] layout ">"
//! pointer := "ptr" "<" type "," space [ "," "align" "<" int ">" ] [ "," swizzle ] ">"
//! ```
//!
//! A swizzle of the pointer acts on byte addresses. A value is the coordinate that a coordinate tensor begins at.

use super::parse::{Reader, Term};
use super::text::{CuteText, Engine, LayoutText, SwizzleOf, SwizzleText};
use crate::Diagnostic;
use crate::memref::mlir_bits;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A pointer of the DSL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DslPointer {
    /// The type of an element, in MLIR's words: `f16`.
    pub element: String,
    /// The bits of an element.
    pub bits: i64,
    /// The memory: `gmem`, `smem`, `rmem`, `tmem` or `generic`.
    pub space: &'static str,
    /// The bytes that the address is a multiple of, where they are said.
    pub align: Option<i64>,
    /// The swizzle of its byte addresses.
    pub swizzle: Option<SwizzleText>,
}

impl DslPointer {
    /// Its text.
    pub fn text(&self) -> String {
        let align = self.align.map_or_else(String::new, |n| format!(", align<{n}>"));
        let swizzle = self.swizzle.map_or_else(String::new, |sw| format!(", {}", sw.text()));
        format!("ptr<{}, {}{align}{swizzle}>", self.element, self.space)
    }
}

const SPACES: [&str; 5] = ["gmem", "smem", "rmem", "tmem", "generic"];

impl Reader<'_> {
    /// What follows `tensor`.
    pub(super) fn dsl_tensor(&mut self) -> Result<CuteText> {
        self.c.word();
        self.c.expect('<', "after `tensor`")?;
        let engine = if self.c.clone().follows("ptr", '<') {
            Engine::Dsl(self.dsl_pointer()?)
        } else {
            match self.term(0)? {
                Term::Value(read) => Engine::DslCoordinates(read.value()),
                Term::Modes(_, span) => {
                    let message = "a tensor begins with a pointer or a coordinate";
                    return Err(Diagnostic::syntax(span, message, "this is a layout"));
                }
            }
        };
        self.then("after the pointer, and the layout")?;
        let mut swizzle = None;
        let start = self.c.at();
        if self.swizzle_comes() {
            let (sw, _) = self.swizzle()?;
            self.then("after the swizzle")?;
            let offset = self.int()?;
            self.then("after the offset, and the layout")?;
            swizzle = Some((sw, SwizzleOf::Elements(Some(offset))));
        }
        if let (Engine::Dsl(pointer), true) = (&engine, swizzle.is_some())
            && pointer.swizzle.is_some()
        {
            let message = "a swizzle of the pointer, and one of the layout";
            return Err(Diagnostic::syntax(start..self.c.here(), message, "a second swizzle"));
        }
        let modes = self.modes()?;
        self.c.expect('>', "at the end of the tensor")?;
        Ok(CuteText::Layout(Box::new(LayoutText { engine: Some(engine), swizzle, modes })))
    }

    fn dsl_pointer(&mut self) -> Result<DslPointer> {
        self.c.word();
        self.c.expect('<', "after `ptr`")?;
        let Some(element) = self.c.word() else {
            return Err(self.c.expected("the type of an element, such as f16"));
        };
        let Some(bits) = mlir_bits(element.value) else {
            let shown: String = element.value.chars().take(40).collect();
            let message = format!("unknown type of elements `{shown}`");
            return Err(Diagnostic::syntax(element.span, message, "expected such as f16 or i8"));
        };
        let element = element.value.to_string();
        self.c.expect(',', "after the type of an element")?;
        let Some(space) = self.c.word() else { return Err(self.c.expected("a memory")) };
        let Some(space) = SPACES.into_iter().find(|s| *s == space.value) else {
            let shown: String = space.value.chars().take(40).collect();
            let message = format!("unknown memory `{shown}`");
            let label = "expected gmem, smem, rmem, tmem or generic";
            return Err(Diagnostic::syntax(space.span, message, label));
        };
        let mut found = DslPointer { element, bits, space, align: None, swizzle: None };
        while self.c.eat(',') {
            if found.swizzle.is_none() && self.swizzle_comes() {
                found.swizzle = Some(self.swizzle()?.0);
            } else if found.align.is_none() && found.swizzle.is_none() && self.c.eat_word("align") {
                self.c.expect('<', "after `align`")?;
                let align = self.c.int("bytes")?;
                if align.value < 1 {
                    let message = format!("an alignment of {} bytes", align.value);
                    return Err(Diagnostic::syntax(align.span, message, "1 or more"));
                }
                self.c.expect('>', "after the bytes")?;
                found.align = Some(align.value);
            } else {
                return Err(self.c.expected("`align<16>`, a swizzle or `>`"));
            }
        }
        self.c.expect('>', "at the end of the pointer")?;
        Ok(found)
    }
}
