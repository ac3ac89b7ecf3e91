//! Tensors as the Python DSL prints them: `tensor<ptr<f16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>`.
//!
//! ```text
//! tensor  := "tensor" "<" ( pointer | value ) "o" [ swizzle "o" int "o" ] layout ">"
//! pointer := "ptr" "<" type "," space [ "," "align" "<" int ">" ] [ "," swizzle ] ">"
//! ```
//!
//! A swizzle of the pointer acts on byte addresses. A value is the coordinate that a coordinate tensor begins at.

use super::parse::{CuteReader, CuteTerm};
use super::text::{CuteText, LayoutText, SwizzleTarget, SwizzleText, TensorEngine};
use crate::Diagnostic;
use crate::memref::bits_of_mlir_type;

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
    /// The bytes that the address is a multiple of, if they are given.
    pub align: Option<i64>,
    /// The swizzle of its byte addresses.
    pub swizzle: Option<SwizzleText>,
}

impl DslPointer {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        let align = self.align.map_or_else(String::new, |n| format!(", align<{n}>"));
        let swizzle =
            self.swizzle.map_or_else(String::new, |sw| format!(", {}", sw.print_cute_text()));
        format!("ptr<{}, {}{align}{swizzle}>", self.element, self.space)
    }
}

const SPACES: [&str; 5] = ["gmem", "smem", "rmem", "tmem", "generic"];

impl CuteReader<'_> {
    /// What follows `tensor`.
    pub(super) fn read_dsl_tensor(&mut self) -> Result<CuteText> {
        self.c.read_word();
        self.c.expect_char('<', "after `tensor`")?;
        let engine = if self.c.clone().word_follows("ptr", '<') {
            TensorEngine::Dsl(self.read_dsl_pointer()?)
        } else {
            match self.read_term(0)? {
                CuteTerm::Value(read) => TensorEngine::DslCoordinates(read.into_nested_value()),
                CuteTerm::Modes(_, span) => {
                    let message = "a tensor begins with a pointer or a coordinate";
                    return Err(Diagnostic::syntax_error(span, message, "this is a layout"));
                }
            }
        };
        self.expect_composition_sign("after the pointer, and the layout")?;
        let mut swizzle = None;
        let start = self.c.next_token_start();
        if self.swizzle_follows() {
            let (sw, _) = self.read_swizzle()?;
            self.expect_composition_sign("after the swizzle")?;
            let offset = self.read_cute_int()?;
            self.expect_composition_sign("after the offset, and the layout")?;
            swizzle = Some((sw, SwizzleTarget::Elements(Some(offset))));
        }
        // One swizzle of bytes and one of elements would compose to something that is no swizzle in
        // general.
        if let (TensorEngine::Dsl(pointer), true) = (&engine, swizzle.is_some())
            && pointer.swizzle.is_some()
        {
            let message = "a swizzle of the pointer, and one of the layout";
            return Err(Diagnostic::syntax_error(
                start..self.c.last_token_end(),
                message,
                "a second swizzle",
            ));
        }
        let modes = self.read_modes()?;
        self.c.expect_char('>', "at the end of the tensor")?;
        Ok(CuteText::Layout(Box::new(LayoutText { engine: Some(engine), swizzle, modes })))
    }

    fn read_dsl_pointer(&mut self) -> Result<DslPointer> {
        self.c.read_word();
        self.c.expect_char('<', "after `ptr`")?;
        let Some(element) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("the type of an element, such as f16"));
        };
        let Some(bits) = bits_of_mlir_type(element.value) else {
            let shown: String = element.value.chars().take(40).collect();
            let message = format!("unknown type of elements `{shown}`");
            return Err(Diagnostic::syntax_error(
                element.span,
                message,
                "expected such as f16 or i8",
            ));
        };
        let element = element.value.to_string();
        self.c.expect_char(',', "after the type of an element")?;
        let Some(space) = self.c.read_word() else {
            return Err(self.c.refuse_next_token("a memory"));
        };
        let Some(space) = SPACES.into_iter().find(|s| *s == space.value) else {
            let shown: String = space.value.chars().take(40).collect();
            let message = format!("unknown memory `{shown}`");
            let label = "expected gmem, smem, rmem, tmem or generic";
            return Err(Diagnostic::syntax_error(space.span, message, label));
        };
        let mut found = DslPointer { element, bits, space, align: None, swizzle: None };
        while self.c.eat_char(',') {
            if found.swizzle.is_none() && self.swizzle_follows() {
                found.swizzle = Some(self.read_swizzle()?.0);
            } else if found.align.is_none() && found.swizzle.is_none() && self.c.eat_word("align") {
                self.c.expect_char('<', "after `align`")?;
                let align = self.c.read_integer("bytes")?;
                if align.value < 1 {
                    let message = format!("an alignment of {} bytes", align.value);
                    return Err(Diagnostic::syntax_error(align.span, message, "1 or more"));
                }
                self.c.expect_char('>', "after the bytes")?;
                found.align = Some(align.value);
            } else {
                return Err(self.c.refuse_next_token("`align<16>`, a swizzle or `>`"));
            }
        }
        self.c.expect_char('>', "at the end of the pointer")?;
        Ok(found)
    }
}
