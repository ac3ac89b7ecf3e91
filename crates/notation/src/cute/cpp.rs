//! CuTe layouts as C++ writes them: types and the functions that make values of them.
//!
//! ```text
//! source   := "Layout" "<" shape [ "," stride ] ">" [ "{}" ]
//!           | "make_layout" "(" shape [ "," stride ] ")"
//!           | "ComposedLayout" "<" swizzle "," offset "," source ">" [ "{}" ]
//!           | ( "composition" | "make_composed_layout" ) "(" swizzle "," [ offset "," ] source ")"
//! shape    := int | ( "Shape" | "tuple" ) "<" shape { "," shape } ">" [ "{}" ]
//!           | ( "make_shape" | "make_tuple" ) "(" shape { "," shape } ")"
//! stride   := as a shape, with "Stride" or "Step" and "make_stride"
//!           | ( "LayoutLeft" | "GenColMajor" | "LayoutRight" | "GenRowMajor" ) [ "{}" ]
//! offset   := int | "smem_ptr_flag" | "smem_ptr_flag_bits" "<" bits ">" [ "{}" ]
//! ```
//!
//! Every name may begin with `cute::`. The result is the text that CuTe prints for the value.

use super::parse::CuteReader;
use super::read::{SpannedTerm, pair_shape_and_stride};
use super::text::{
    CuteInt, CuteText, CuteValue, LayoutText, SwizzleTarget, TensorEngine, WrittenModes,
};
use crate::Diagnostic;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Shapes nested deeper than this are refused, as the reader recurses.
const MAX_DEPTH: usize = 64;

/// The words that begin a layout, each with the bracket that follows.
const LAYOUT_WORDS: [(&str, char); 5] = [
    ("Layout", '<'),
    ("make_layout", '('),
    ("ComposedLayout", '<'),
    ("composition", '('),
    ("make_composed_layout", '('),
];

/// The order in which strides are made for a shape without any.
#[derive(Clone, Copy)]
enum CompactOrder {
    /// `LayoutLeft`: the first mode is adjacent.
    Left,
    /// `LayoutRight`: the last one is.
    Right,
}

const ORDER_WORDS: [(&str, CompactOrder); 4] = [
    ("LayoutLeft", CompactOrder::Left),
    ("GenColMajor", CompactOrder::Left),
    ("LayoutRight", CompactOrder::Right),
    ("GenRowMajor", CompactOrder::Right),
];

/// Whether a text begins as a layout in C++.
pub(super) fn recognises_cpp(text: &str) -> bool {
    let mut reader = CuteReader::new(text);
    reader.eat_namespace();
    reader.cpp_layout_word().is_some()
}

impl CuteReader<'_> {
    /// `cute::`, which may stand before every name.
    fn eat_namespace(&mut self) {
        let mut ahead = self.c.clone();
        if ahead.eat_word("cute") && ahead.eat_char(':') && ahead.eat_char(':') {
            self.c = ahead;
        }
    }

    fn cpp_layout_word(&self) -> Option<(&'static str, char)> {
        LAYOUT_WORDS.into_iter().find(|(word, open)| self.c.clone().word_follows(word, *open))
    }

    /// The layout of a C++ expression or type.
    pub(super) fn read_cpp_source(&mut self) -> Result<CuteText> {
        self.eat_namespace();
        match self.cpp_layout_word() {
            Some(("Layout" | "make_layout", _)) => {
                let modes = self.read_cpp_layout()?;
                Ok(CuteText::Layout(Box::new(LayoutText { engine: None, swizzle: None, modes })))
            }
            Some((_, open)) => self.read_cpp_composition(if open == '<' { '>' } else { ')' }),
            None => Err(self.c.refuse_next_token("Layout<..> or make_layout(..)")),
        }
    }

    /// `composition(Swizzle<B,M,S>{}, layout)`, with an offset or a pointer's flag between them where there is one.
    fn read_cpp_composition(&mut self, close: char) -> Result<CuteText> {
        self.c.read_word();
        self.c.expect_char(if close == '>' { '<' } else { '(' }, "after the name")?;
        self.eat_namespace();
        if !self.swizzle_follows() {
            return Err(self.c.refuse_next_token("Swizzle<B,M,S>").with_help(
                "only a swizzle is composed here; `zellige` has `compose` for other layouts",
            ));
        }
        let (swizzle, _) = self.read_swizzle()?;
        self.c.expect_char(',', "after the swizzle, and the layout")?;
        self.eat_namespace();
        let target = if self.cpp_layout_word().is_some() {
            SwizzleTarget::Elements(None)
        } else {
            let target = self.read_cpp_offset()?;
            self.c.expect_char(',', "after the offset, and the layout")?;
            target
        };
        let modes = self.read_cpp_layout()?;
        self.c.expect_char(close, "after the layout")?;
        self.read_empty_braces()?;
        let swizzle = Some((swizzle, target));
        Ok(CuteText::Layout(Box::new(LayoutText { engine: None, swizzle, modes })))
    }

    /// What is between a swizzle and its layout.
    fn read_cpp_offset(&mut self) -> Result<SwizzleTarget> {
        let pointer =
            |bits| TensorEngine::Pointer { word: "smem_ptr".into(), bits, address: "unset".into() };
        if self.c.clone().word_follows("smem_ptr_flag_bits", '<') {
            self.c.read_word();
            self.c.expect_char('<', "after the name")?;
            let bits = self.read_cpp_bits()?;
            self.c.expect_char('>', "after the bits of an element")?;
            self.read_empty_braces()?;
            return Ok(SwizzleTarget::UnsetPointer(pointer(bits)));
        }
        if self.c.eat_word("smem_ptr_flag") {
            self.read_empty_braces()?;
            // CuTe's flag without a width stands for elements of one bit.
            return Ok(SwizzleTarget::UnsetPointer(pointer(1)));
        }
        let start = self.c.next_token_start();
        let offset = self.read_cute_int()?;
        if offset.known_value().is_some_and(|v| v < 0) {
            let span = start..self.c.last_token_end();
            let message = "the offset before a swizzle is below 0";
            return Err(Diagnostic::syntax_error(span, message, "offsets are 0 or more"));
        }
        Ok(SwizzleTarget::Elements(Some(offset)))
    }

    fn read_cpp_bits(&mut self) -> Result<i64> {
        let bits = self.c.read_integer("the bits of an element")?;
        if !(1..=1 << 20).contains(&bits.value) {
            let message = format!("an element of {} bits", bits.value);
            let label = "an element has 1 bit or more";
            return Err(Diagnostic::syntax_error(bits.span, message, label));
        }
        Ok(bits.value)
    }

    /// `Layout<Shape<..>, Stride<..>>` or `make_layout(make_shape(..), ..)`.
    fn read_cpp_layout(&mut self) -> Result<WrittenModes> {
        self.eat_namespace();
        let Some((word, open)) = self.cpp_layout_word().filter(|(w, _)| w.ends_with("ayout"))
        else {
            return Err(self.c.refuse_next_token("Layout<..> or make_layout(..)"));
        };
        if !matches!(word, "Layout" | "make_layout") {
            return Err(self.c.refuse_next_token("a layout without a swizzle of its own"));
        }
        self.c.read_word();
        self.c.expect_char(open, "after the name")?;
        let close = if open == '<' { '>' } else { ')' };
        let shape = self.read_cpp_tuple(0, &["Shape", "tuple"], &["make_shape", "make_tuple"])?;
        let modes = if self.c.eat_char(',') {
            self.eat_namespace();
            match self.eat_compact_order()? {
                Some(order) => make_compact(shape, order)?,
                None => {
                    let types = ["Stride", "Step", "tuple"];
                    let stride = self.read_cpp_tuple(0, &types, &["make_stride", "make_tuple"])?;
                    pair_shape_and_stride(shape, stride)?
                }
            }
        } else {
            // CuTe's default is the first mode adjacent.
            make_compact(shape, CompactOrder::Left)?
        };
        self.c.expect_char(close, "at the end of the layout")?;
        self.read_empty_braces()?;
        Ok(modes)
    }

    fn eat_compact_order(&mut self) -> Result<Option<CompactOrder>> {
        for (word, order) in ORDER_WORDS {
            if self.c.eat_word(word) {
                self.read_empty_braces()?;
                return Ok(Some(order));
            }
        }
        Ok(None)
    }

    /// A number, or a tuple: a type with one of the first names, or a call of one of the second.
    fn read_cpp_tuple(
        &mut self,
        depth: usize,
        types: &[&str],
        calls: &[&str],
    ) -> Result<SpannedTerm> {
        self.eat_namespace();
        let start = self.c.next_token_start();
        let open = if types.iter().any(|w| self.c.clone().word_follows(w, '<')) {
            Some(('<', '>'))
        } else if calls.iter().any(|w| self.c.clone().word_follows(w, '(')) {
            Some(('(', ')'))
        } else {
            None
        };
        let Some((open, close)) = open else {
            let value = self.read_cute_int().map_err(|e| {
                e.with_help(format!("write {}<_8, Int<64>> or {}(8, 64)", types[0], calls[0]))
            })?;
            let span = start..self.c.last_token_end();
            return Ok(SpannedTerm::Leaf(CuteValue::Int(value), span));
        };
        if depth >= MAX_DEPTH {
            let message = format!("tuples are nested more than {MAX_DEPTH} deep");
            return Err(Diagnostic::syntax_error(start..start + 1, message, "too deep"));
        }
        self.c.read_word();
        self.c.expect_char(open, "after the name")?;
        let mut entries = Vec::new();
        while !self.c.eat_char(close) {
            if !entries.is_empty() {
                self.c.expect_char(',', &format!("or `{close}`"))?;
            }
            entries.push(self.read_cpp_tuple(depth + 1, types, calls)?);
        }
        let span = start..self.c.last_token_end();
        self.read_empty_braces()?;
        Ok(SpannedTerm::Tuple(entries, span))
    }
}

/// The strides with which a shape has no gaps.
fn make_compact(shape: SpannedTerm, order: CompactOrder) -> Result<WrittenModes> {
    let mut next = (1_i64, true);
    let stride = compact_strides(&shape, order, &mut next)?;
    pair_shape_and_stride(shape, stride)
}

/// `next` is the stride of the next leaf, and whether all extents before it are static: a stride is static like
/// the product that it is.
fn compact_strides(
    shape: &SpannedTerm,
    order: CompactOrder,
    next: &mut (i64, bool),
) -> Result<SpannedTerm> {
    match shape {
        SpannedTerm::Leaf(value, span) => {
            let CuteValue::Int(extent) = value else {
                return Err(Diagnostic::syntax_error(
                    span.clone(),
                    "an extent is an integer",
                    "here",
                ));
            };
            let (stride, is_static) = *next;
            let grown = extent.known_value().and_then(|e| stride.checked_mul(e.max(1)));
            let Some(grown) = grown else {
                let message = "the strides of this shape need more than 63 bits, or are not known";
                return Err(Diagnostic::syntax_error(span.clone(), message, "write the strides"));
            };
            *next = (grown, is_static && matches!(extent, CuteInt::Static(_)));
            let own = if is_static { CuteInt::Static(stride) } else { CuteInt::Bare(stride) };
            Ok(SpannedTerm::Leaf(CuteValue::Int(own), span.clone()))
        }
        SpannedTerm::Tuple(entries, span) => {
            let mut made = Vec::with_capacity(entries.len());
            match order {
                CompactOrder::Left => {
                    for entry in entries {
                        made.push(compact_strides(entry, order, next)?);
                    }
                }
                CompactOrder::Right => {
                    for entry in entries.iter().rev() {
                        made.push(compact_strides(entry, order, next)?);
                    }
                    made.reverse();
                }
            }
            Ok(SpannedTerm::Tuple(made, span.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::super::parse;

    /// Each source, and the text that CuTe prints for it.
    #[test]
    fn sources_are_the_text_that_cute_prints() {
        let cases = [
            ("Layout<Shape<_8,_64>, Stride<_64,_1>>", "(_8,_64):(_64,_1)"),
            ("cute::Layout<cute::Shape<cute::_8,_64>>{}", "(_8,_64):(_1,_8)"),
            (
                "Layout<Shape<Shape<_2,_4>,Int<8>>,Stride<Stride<_1,_16>,_2>>",
                "((_2,_4),_8):((_1,_16),_2)",
            ),
            ("Layout<_8,_2>", "_8:_2"),
            ("make_layout(make_shape(8, 64), make_stride(64, 1))", "(8,64):(64,1)"),
            ("make_layout(make_shape(Int<8>{}, 64), LayoutRight{})", "(_8,64):(64,_1)"),
            (
                "make_layout(make_shape(_8{}, make_shape(_2{}, _3{})), GenRowMajor{})",
                "(_8,(_2,_3)):(_6,(_3,_1))",
            ),
            ("make_layout(Shape<_4,_6>{})", "(_4,_6):(_1,_4)"),
            (
                "composition(Swizzle<3,3,3>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{})",
                "Sw<3,3,3> o (_8,_64):(_64,_1)",
            ),
            (
                "make_composed_layout(Swizzle<3,3,3>{}, Int<0>{}, make_layout(make_shape(8,64)))",
                "Sw<3,3,3> o _0 o (8,64):(_1,8)",
            ),
            (
                "ComposedLayout<Swizzle<3,4,3>, smem_ptr_flag_bits<16>, Layout<Shape<_8,_64>,Stride<_64,_1>>>",
                "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)",
            ),
        ];
        for (source, printed) in cases {
            let read = parse(source).unwrap_or_else(|e| panic!("{source}: {e:?}"));
            assert_eq!(read, parse(printed).unwrap(), "{source}");
            assert!(super::super::parse::recognises_cute(source), "{source}");
        }
    }

    #[test]
    fn what_is_no_layout_is_refused_at_its_place() {
        for (source, at) in [
            ("Layout<Shape<_8,_64>, Stride<_64>>", "Stride<_64>"),
            ("Layout<Shape<_8,M>>", "M"),
            ("make_layout(make_shape(8, 64), make_stride(64, 1)", ""),
            ("composition(Layout<_8>{}, Layout<_8>{})", "Layout<_8>{}, Layout<_8>{})"),
            ("Layout<Shape<Int<4611686018427387904>,_4>>", "_4"),
        ] {
            let refused = parse(source).unwrap_err();
            let span = &refused.span;
            assert!(source[span.start..].starts_with(at), "{source}: {refused:?}");
        }
        let deep = "Shape<".repeat(100_000);
        assert!(parse(&format!("Layout<{deep}")).is_err());
    }
}
