//! XLA shapes and layouts: `f32[3,5]{1,0:T(2,2)}`, or the layout alone, `{1,0:T(8,128)(2,1)}`.
//!
//! ```text
//! text   := [ dtype "[" dims "]" ] [ layout ]          one of the two at least
//! dims   := [ dim { "," dim } ]      dim := int | "<=" int
//! layout := "{" [ int { "," int } ] [ ":" { field } ] "}"
//! field  := tiles | "L(" int ")" | "E(" int ")" | "S(" int ")" | others of XLA, in the order of XLA
//! tiles  := "T" tile { tile }        tile := "(" [ (int | "*") { "," (int | "*") } ] ")"
//! ```
//!
//! `{1,0}` names the dimensions from the fastest to the slowest (minor to major). Each tile acts on a
//! suffix of the dimensions in their order in memory at that point: an extent `d` becomes
//! `(ceil(d / t), t)`, all quotients before all remainders. The OpenXLA documentation defines this on its
//! page "Tiled layout". `*` first merges a dimension into the next faster one. `<=5` is the bound of a
//! dynamic dimension, whose memory is that of the bound. `L` rounds the number of elements up, `E` gives
//! the bits of an element in memory and `S` the memory space: neither moves an element. `SC` splits the
//! elements between memories, and so gives no position in one. A shape without a layout has the default
//! one, slowest dimension first.
//!
//! **Law**: `parse(print(x)) == x`; the layout in the algebra is [`XlaLayout::element_position`] as a function.

mod dtype;
mod express;
mod fields;
mod lower;

use crate::blocked::BlockedDigits;
use crate::convert::ConversionRefusal;
use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::parsed::{StoredElements, positions_in_order};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use std::fmt::Write;
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Layout, LayoutError};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "xla",
    doc: "XLA minor-to-major with tiles",
    example: "f32[3,5]{1,0:T(2,2)}",
    recognises: recognises_xla,
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::XLA, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_xla(layout, shape),
    needs_dtype: false,
};

/// The most tiles and dimensions of a text, because each tile doubles the dimensions that it acts on.
const MAX_DIMS: usize = 1 << 10;

/// The most elements that are evaluated if tiles cut one another unevenly.
const MAX_LISTED_ELEMENTS: i64 = 1 << 20;

/// An XLA layout, with the shape if the text states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XlaLayout {
    shape: Option<XlaShape>,
    minor_to_major: Vec<usize>,
    tiles: Vec<Vec<Option<i64>>>,
    tail_alignment: i64,
    element_bits: Option<i64>,
    memory_space: i64,
    others: fields::UnmovingFields,
}

/// The element type and the dimensions of an XLA array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XlaShape {
    dtype: &'static str,
    dims: Vec<i64>,
    dynamic: Vec<bool>,
}

fn recognises_xla(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    if let Some(word) = c.read_word() {
        // `S[..]` and `R[..]` are TIRx.
        return c.eat_char('[') && !matches!(word.value, "S" | "R");
    }
    // A layout alone: `{1,0}`, `{1,0:T(..)}`, `{}` or `{:T(128)}`.
    c.eat_char('{') && c.peek_char().is_some_and(|ch| ch.is_ascii_digit() || ch == '}' || ch == ':')
}

/// Reads a shape, a layout or both.
pub fn parse(text: &str) -> Result<XlaLayout> {
    let mut c = TextCursor::new(text);
    let shape = match c.peek_char() {
        Some('{') => None,
        _ => Some(read_xla_shape(&mut c)?),
    };
    let rank = shape.as_ref().map(|(s, _)| s.dims.len());
    let mut layout = XlaLayout {
        minor_to_major: (0..rank.unwrap_or(0)).rev().collect(),
        shape: shape.as_ref().map(|(s, _)| s.clone()),
        tiles: Vec::new(),
        tail_alignment: 1,
        element_bits: None,
        memory_space: 0,
        others: fields::UnmovingFields::default(),
    };
    let start = c.next_token_start();
    if c.eat_char('{') {
        read_layout_braces(&mut c, rank, &mut layout)?;
        if rank == Some(0) && layout.print_fields().is_empty() {
            let message = "XLA writes no layout after a scalar";
            let span = start..c.last_token_end();
            return Err(
                Diagnostic::syntax_error(span, message, "nothing here").with_help("write f32[]")
            );
        }
    }
    c.expect_end("the layout")?;
    if let Some((s, span)) = shape {
        // A shape whose positions do not fit in 64 bits is refused here, where its span is known.
        layout.count_stored_positions(&s.dims).map_err(|e| Diagnostic { span, ..e })?;
    }
    Ok(layout)
}

fn read_xla_shape(c: &mut TextCursor<'_>) -> Result<(XlaShape, std::ops::Range<usize>)> {
    let start = c.next_token_start();
    let Some(word) = c.read_word() else {
        return Err(c.refuse_next_token("a shape such as f32[3,5] or a layout such as {1,0}"));
    };
    let Some(dtype) = dtype::find_xla_type(word.value) else {
        let name: String = word.value.chars().take(40).collect();
        let (message, label) = if dtype::NOT_ARRAYS.contains(&word.value) {
            (format!("`{name}` is not an array: it has no layout"), "not an element type")
        } else {
            (format!("unknown element type `{name}`"), "expected such as f32, bf16 or s8")
        };
        return Err(Diagnostic::syntax_error(word.span, message, label)
            .with_help(dtype::list_known_types()));
    };
    c.expect_char('[', "after the element type")?;
    let (mut dims, mut dynamic) = (Vec::new(), Vec::new());
    while !c.eat_char(']') {
        if !dims.is_empty() && !c.eat_char(',') {
            return Err(c.refuse_next_token("`,` or `]`"));
        }
        let at = c.next_token_start();
        if c.eat_char('?') {
            let message = "an unbounded dimension has no layout";
            return Err(Diagnostic::syntax_error(
                at..c.last_token_end(),
                message,
                "how large at most?",
            )
            .with_help("write its bound, such as <=8"));
        }
        let bounded = c.eat_char('<');
        if bounded {
            c.expect_char('=', "after `<`")?;
        }
        let extent = c.read_integer("an extent")?;
        if extent.value < 0 {
            let message = format!("extent {} is negative", extent.value);
            return Err(Diagnostic::syntax_error(extent.span, message, "0 or more"));
        }
        check_dimension_count(dims.len(), &extent)?;
        dims.push(extent.value);
        dynamic.push(bounded);
    }
    let span = start..c.last_token_end();
    checked_product(dims.iter().copied(), "the number of elements")
        .map_err(|e| Diagnostic::meaning_error(span.clone(), e))?;
    Ok((XlaShape { dtype, dims, dynamic }, span))
}

fn check_dimension_count<T>(have: usize, next: &Spanned<T>) -> Result<()> {
    if have < MAX_DIMS {
        return Ok(());
    }
    let message = format!("more than {MAX_DIMS} dimensions");
    Err(Diagnostic::syntax_error(next.span.clone(), message, "too many"))
}

/// The inside of the braces.
fn read_layout_braces(
    c: &mut TextCursor<'_>,
    rank: Option<usize>,
    layout: &mut XlaLayout,
) -> Result<()> {
    let start = c.next_token_start();
    layout.minor_to_major.clear();
    while c.peek_char() != Some('}') && c.peek_char() != Some(':') {
        if !layout.minor_to_major.is_empty() {
            c.expect_char(',', "between dimensions")?;
        }
        let dim = c.read_integer("a dimension")?;
        check_dimension_count(layout.minor_to_major.len(), &dim)?;
        let Ok(d) = usize::try_from(dim.value) else {
            let message = format!("dimension {} is negative", dim.value);
            return Err(Diagnostic::syntax_error(dim.span, message, "0 or more"));
        };
        if layout.minor_to_major.contains(&d) {
            let message = format!("dimension {d} is listed twice");
            return Err(Diagnostic::syntax_error(dim.span, message, "already listed")
                .with_help("each dimension is listed once, fastest first"));
        }
        if rank.is_some_and(|rank| d >= rank) {
            let message = format!("dimension {d} of a shape with {} dimensions", rank.unwrap_or(0));
            return Err(Diagnostic::syntax_error(
                dim.span,
                message,
                "there is none of this number",
            ));
        }
        layout.minor_to_major.push(d);
    }
    let count = layout.minor_to_major.len();
    let span = start..c.last_token_end();
    if let Some(rank) = rank.filter(|rank| *rank != count) {
        let message = format!("the layout lists {count} dimensions, and the shape has {rank}");
        return Err(Diagnostic::syntax_error(span, message, "each dimension once, fastest first"));
    }
    if let Some(d) = layout.minor_to_major.iter().find(|d| **d >= count) {
        let message = format!("dimension {d} is listed, and {count} dimensions are in all");
        return Err(Diagnostic::syntax_error(span, message, "not a permutation of 0, 1, .."));
    }
    if c.eat_char(':') {
        fields::read_layout_fields(c, layout)?;
    }
    c.expect_char('}', "at the end of the layout")
}

/// The text of a layout, or why there is none.
pub fn express_as_xla(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    express::express_with_tiles(layout, shape).map(|x| x.notation_text())
}

impl XlaLayout {
    /// A layout alone: the dimensions from the fastest to the slowest, and tiles, where `None` is `*`.
    pub(crate) fn new(minor_to_major: Vec<usize>, tiles: Vec<Vec<Option<i64>>>) -> XlaLayout {
        XlaLayout {
            shape: None,
            minor_to_major,
            tiles,
            tail_alignment: 1,
            element_bits: None,
            memory_space: 0,
            others: fields::UnmovingFields::default(),
        }
    }

    /// The dimensions from the fastest to the slowest.
    pub fn minor_to_major(&self) -> &[usize] {
        &self.minor_to_major
    }

    /// The tiles, each over a suffix of the dimensions in memory; `None` is `*`.
    pub fn tiles(&self) -> &[Vec<Option<i64>>] {
        &self.tiles
    }

    /// The element type and the dimensions, if the text states them.
    pub fn shape(&self) -> Option<&XlaShape> {
        self.shape.as_ref()
    }

    /// The extents in memory after all tiles, slowest first.
    pub fn tiled_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let tiled = self.tiled_coordinate(shape, &vec![0; shape.len()])?;
        Ok(tiled.into_iter().map(|(extent, _)| extent).collect())
    }

    /// The number of positions in memory, padding and the rounding of the end counted.
    pub fn count_stored_positions(&self, shape: &[i64]) -> Result<i64> {
        let dims = self.tiled_shape(shape)?;
        let all = checked_product(dims, "the number of positions")?;
        let rest = all % self.tail_alignment;
        let pad = if rest == 0 { 0 } else { self.tail_alignment - rest };
        all.checked_add(pad)
            .ok_or_else(|| LayoutError::overflow_of("the number of positions").into())
    }

    /// The position of an element, by the definition of tiles. The coordinate is inside the shape.
    ///
    /// # Errors
    /// A shape of another rank, or one whose positions do not fit in 64 bits.
    pub fn element_position(&self, shape: &[i64], coordinate: &[i64]) -> Result<i64> {
        let tiled = self.tiled_coordinate(shape, coordinate)?;
        let add = |flat: i64, (d, i): &(i64, i64)| flat.checked_mul(*d)?.checked_add(*i);
        let flat = tiled.iter().try_fold(0, add);
        flat.ok_or_else(|| LayoutError::overflow_of("a position").into())
    }

    /// Extent and index of every dimension in memory, slowest first, after all tiles.
    fn tiled_coordinate(&self, shape: &[i64], coordinate: &[i64]) -> Result<Vec<(i64, i64)>> {
        self.check_shape_rank(shape)?;
        let order = self.minor_to_major.iter().rev();
        let mut dims: Vec<(i64, i64)> = order.map(|d| (shape[*d], coordinate[*d])).collect();
        for tile in &self.tiles {
            zellige_guard::count_step();
            // A tile over more dimensions than there are acts on dimensions of extent 1 in front.
            let missing = tile.len().saturating_sub(dims.len());
            dims.splice(..0, std::iter::repeat_n((1, 0), missing));
            let mut quotients = Vec::with_capacity(tile.len());
            let mut remainders = Vec::with_capacity(tile.len());
            let (mut extent, mut index) = (1i64, 0i64);
            for (t, (e, i)) in tile.iter().zip(dims.split_off(dims.len() - tile.len())) {
                let merged = extent.checked_mul(e);
                extent = merged.ok_or_else(|| LayoutError::overflow_of("a merged extent"))?;
                index = index * e + i;
                if let Some(t) = t {
                    quotients.push((div_ceil(extent, *t), index / t));
                    remainders.push((*t, index % t));
                    (extent, index) = (1, 0);
                }
            }
            dims.extend(quotients);
            dims.extend(remainders);
        }
        Ok(dims)
    }

    /// The text after the colon.
    fn print_fields(&self) -> String {
        let mut fields = String::new();
        if !self.tiles.is_empty() {
            fields.push('T');
        }
        for tile in &self.tiles {
            let size = |t: &Option<i64>| t.map_or_else(|| "*".into(), |t| t.to_string());
            zellige_guard::count_many_steps(tile.len());
            let sizes: Vec<String> = tile.iter().map(size).collect();
            let _ = write!(fields, "({})", sizes.join(","));
        }
        if self.tail_alignment != 1 {
            let _ = write!(fields, "L({})", self.tail_alignment);
        }
        self.others.write_types(&mut fields);
        if let Some(bits) = self.element_bits {
            let _ = write!(fields, "E({bits})");
        }
        if self.memory_space != 0 {
            let _ = write!(fields, "S({})", self.memory_space);
        }
        self.others.write_end(&mut fields);
        fields
    }

    fn check_shape_rank(&self, shape: &[i64]) -> Result<()> {
        let rank = self.minor_to_major.len();
        if shape.len() == rank {
            return Ok(());
        }
        let message = format!(
            "the layout is of {rank} dimensions, and the shape {shape:?} has {}",
            shape.len()
        );
        Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"))
    }

    /// The dimensions of the text, or the shape that is given.
    fn dims_or_shape<'a>(&'a self, shape: Option<&'a [i64]>) -> Result<&'a [i64]> {
        match (&self.shape, shape) {
            (Some(own), _) => Ok(&own.dims),
            (None, Some(shape)) => Ok(shape),
            (None, None) => Err(Diagnostic::syntax_error(
                0..0,
                "the layout does not say how large its dimensions are",
                "of which shape?",
            )
            .with_id("Z005")
            .with_help("give the shape, or write it before the layout: f32[3,5]{1,0:T(2,2)}")),
        }
    }
}

impl XlaShape {
    /// The element type: `f32`.
    pub fn dtype(&self) -> &'static str {
        self.dtype
    }

    /// The extents; of a dynamic dimension its bound.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }
}

impl WrittenLayout for XlaLayout {
    fn notation_text(&self) -> String {
        let mut out = String::new();
        if let Some(shape) = &self.shape {
            let dim = |(d, bound): (&i64, &bool)| format!("{}{d}", if *bound { "<=" } else { "" });
            let dims: Vec<String> = shape.dims.iter().zip(&shape.dynamic).map(dim).collect();
            let _ = write!(out, "{}[{}]", shape.dtype, dims.join(","));
        }
        let order: Vec<String> = self.minor_to_major.iter().map(ToString::to_string).collect();
        let fields = self.print_fields();
        // XLA writes no braces for a scalar without fields.
        if self.shape.is_some() && order.is_empty() && fields.is_empty() {
            return out;
        }
        let colon = if fields.is_empty() { "" } else { ":" };
        let _ = write!(out, "{{{}{colon}{fields}}}", order.join(","));
        out
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let dims = self.dims_or_shape(shape)?;
        self.others.check_one_memory()?;
        self.count_stored_positions(dims)?;
        lower::lower_to_layout(self, dims).or_else(|refused| {
            // Cuts that do not follow the digits may still cancel in the result, so small layouts are
            // decided by listing their elements.
            if checked_product(dims.iter().copied(), "the number of elements")?
                > MAX_LISTED_ELEMENTS
            {
                return Err(refused);
            }
            let order = positions_in_order(dims, |c| self.element_position(dims, c))?;
            match BlockedDigits::from_positions(dims, &order) {
                Some(digits) => Ok(digits.build_layout(dims)?),
                None => Err(refused),
            }
        })
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.as_ref().map(|s| s.dims.clone())
    }

    fn stored_elements(&self, shape: Option<&[i64]>) -> Option<Result<StoredElements>> {
        Some((|| {
            let dims = self.dims_or_shape(shape)?;
            self.others.check_one_memory()?;
            let positions = self.count_stored_positions(dims)?;
            Ok(StoredElements {
                order: positions_in_order(dims, |c| self.element_position(dims, c))?,
                positions,
            })
        })())
    }

    fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        Some(self.dims_or_shape(shape).and_then(|dims| self.count_stored_positions(dims)))
    }

    fn element_bits(&self) -> Option<i64> {
        self.element_bits
            .or_else(|| self.shape.as_ref().and_then(|s| dtype::bits_of_xla_type(s.dtype)))
    }
}
