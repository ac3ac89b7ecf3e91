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
//! `{1,0}` names the dimensions from the fastest to the slowest (minor to major). Each tile acts on a suffix of the
//! dimensions as they then lie in memory: an extent `d` becomes `(ceil(d / t), t)`, all quotients before all remainders.
//! `*` first merges a dimension into the next faster one. `<=5` is the bound of a dynamic dimension, whose memory is that of the
//! bound. `L` rounds the number of elements up, `E` gives the bits of an element in memory and `S` the memory space:
//! neither moves an element. `SC` splits memory between units, and so has no positions in one. A shape without a layout has the default one, slowest dimension first.
//!
//! **Law**: `parse(print(x)) == x`; the layout in the algebra is [`XlaLayout::position`] as a function.

mod dtype;
mod express;
mod fields;
mod lower;

use crate::blocked::Digits;
use crate::convert::Refusal;
use crate::cursor::{Cursor, Spanned};
use crate::notation::NotationRow;
use crate::parsed::{Stored, stored_order};
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use std::fmt::Write;
use zellige_layout::int::{div_ceil, product};
use zellige_layout::{Error, Layout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "xla",
    doc: "XLA minor-to-major with tiles",
    example: "f32[3,5]{1,0:T(2,2)}",
    recognises,
    parse: |text, _| parse(text).map(|x| Parsed::of_written(Notation::XLA, x)),
    print: Parsed::written_text,
    express: |layout, shape, _| express(layout, shape),
    needs_dtype: false,
};

/// Tiles and dimensions of a text; more are refused, because each tile doubles the dimensions that it acts on.
const MAX_DIMS: usize = 1 << 10;

/// Elements that are looked at where tiles cut one another unevenly.
const LISTED: i64 = 1 << 20;

/// An XLA layout, with the shape where the text says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XlaLayout {
    shape: Option<XlaShape>,
    minor_to_major: Vec<usize>,
    tiles: Vec<Vec<Option<i64>>>,
    tail_alignment: i64,
    element_bits: Option<i64>,
    memory_space: i64,
    others: fields::Others,
}

/// The element type and the dimensions of an XLA array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XlaShape {
    dtype: &'static str,
    dims: Vec<i64>,
    dynamic: Vec<bool>,
}

fn recognises(text: &str) -> bool {
    let mut c = Cursor::new(text);
    if let Some(word) = c.word() {
        // `S[..]` and `R[..]` are TIRx.
        return c.eat('[') && !matches!(word.value, "S" | "R");
    }
    // A layout alone: `{1,0}`, `{1,0:T(..)}`, `{}` or `{:T(128)}`.
    c.eat('{') && c.peek().is_some_and(|ch| ch.is_ascii_digit() || ch == '}' || ch == ':')
}

/// Reads a shape, a layout or both.
pub fn parse(text: &str) -> Result<XlaLayout> {
    let mut c = Cursor::new(text);
    let shape = match c.peek() {
        Some('{') => None,
        _ => Some(xla_shape(&mut c)?),
    };
    let rank = shape.as_ref().map(|(s, _)| s.dims.len());
    let mut layout = XlaLayout {
        minor_to_major: (0..rank.unwrap_or(0)).rev().collect(),
        shape: shape.as_ref().map(|(s, _)| s.clone()),
        tiles: Vec::new(),
        tail_alignment: 1,
        element_bits: None,
        memory_space: 0,
        others: fields::Others::default(),
    };
    let start = c.at();
    if c.eat('{') {
        layout_fields(&mut c, rank, &mut layout)?;
        if rank == Some(0) && layout.fields_text().is_empty() {
            let message = "XLA writes no layout after a scalar";
            let span = start..c.here();
            return Err(Diagnostic::syntax(span, message, "nothing here").help("write f32[]"));
        }
    }
    c.finish("the layout")?;
    if let Some((s, span)) = shape {
        // What does not fit is refused where it is written.
        layout.storage(&s.dims).map_err(|e| Diagnostic { span, ..e })?;
    }
    Ok(layout)
}

fn xla_shape(c: &mut Cursor<'_>) -> Result<(XlaShape, std::ops::Range<usize>)> {
    let start = c.at();
    let Some(word) = c.word() else {
        return Err(c.expected("a shape such as f32[3,5] or a layout such as {1,0}"));
    };
    let Some(dtype) = dtype::find(word.value) else {
        let name: String = word.value.chars().take(40).collect();
        let (message, label) = if dtype::NOT_ARRAYS.contains(&word.value) {
            (format!("`{name}` is not an array: it has no layout"), "not an element type")
        } else {
            (format!("unknown element type `{name}`"), "expected such as f32, bf16 or s8")
        };
        return Err(Diagnostic::syntax(word.span, message, label).help(dtype::known()));
    };
    c.expect('[', "after the element type")?;
    let (mut dims, mut dynamic) = (Vec::new(), Vec::new());
    while !c.eat(']') {
        if !dims.is_empty() && !c.eat(',') {
            return Err(c.expected("`,` or `]`"));
        }
        let at = c.at();
        if c.eat('?') {
            let message = "an unbounded dimension has no layout";
            return Err(Diagnostic::syntax(at..c.here(), message, "how large at most?")
                .help("write its bound, such as <=8"));
        }
        let bounded = c.eat('<');
        if bounded {
            c.expect('=', "after `<`")?;
        }
        let extent = c.int("an extent")?;
        if extent.value < 0 {
            let message = format!("extent {} is negative", extent.value);
            return Err(Diagnostic::syntax(extent.span, message, "0 or more"));
        }
        limit(dims.len(), &extent)?;
        dims.push(extent.value);
        dynamic.push(bounded);
    }
    let span = start..c.here();
    product(dims.iter().copied(), "the number of elements")
        .map_err(|e| Diagnostic::meaning(span.clone(), e))?;
    Ok((XlaShape { dtype, dims, dynamic }, span))
}

fn limit<T>(have: usize, next: &Spanned<T>) -> Result<()> {
    if have < MAX_DIMS {
        return Ok(());
    }
    let message = format!("more than {MAX_DIMS} dimensions");
    Err(Diagnostic::syntax(next.span.clone(), message, "too many"))
}

/// The inside of the braces.
fn layout_fields(c: &mut Cursor<'_>, rank: Option<usize>, layout: &mut XlaLayout) -> Result<()> {
    let start = c.at();
    layout.minor_to_major.clear();
    while c.peek() != Some('}') && c.peek() != Some(':') {
        if !layout.minor_to_major.is_empty() {
            c.expect(',', "between dimensions")?;
        }
        let dim = c.int("a dimension")?;
        limit(layout.minor_to_major.len(), &dim)?;
        let Ok(d) = usize::try_from(dim.value) else {
            let message = format!("dimension {} is negative", dim.value);
            return Err(Diagnostic::syntax(dim.span, message, "0 or more"));
        };
        if layout.minor_to_major.contains(&d) {
            let message = format!("dimension {d} is listed twice");
            return Err(Diagnostic::syntax(dim.span, message, "already listed")
                .help("each dimension is listed once, fastest first"));
        }
        if rank.is_some_and(|rank| d >= rank) {
            let message = format!("dimension {d} of a shape with {} dimensions", rank.unwrap_or(0));
            return Err(Diagnostic::syntax(dim.span, message, "there is none of this number"));
        }
        layout.minor_to_major.push(d);
    }
    let count = layout.minor_to_major.len();
    let span = start..c.here();
    if let Some(rank) = rank.filter(|rank| *rank != count) {
        let message = format!("the layout lists {count} dimensions, and the shape has {rank}");
        return Err(Diagnostic::syntax(span, message, "each dimension once, fastest first"));
    }
    if let Some(d) = layout.minor_to_major.iter().find(|d| **d >= count) {
        let message = format!("dimension {d} is listed, and {count} dimensions are in all");
        return Err(Diagnostic::syntax(span, message, "not a permutation of 0, 1, .."));
    }
    if c.eat(':') {
        fields::fields(c, layout)?;
    }
    c.expect('}', "at the end of the layout")
}

/// The text of a layout, or why there is none.
pub fn express(layout: &Layout, shape: &[i64]) -> Result<String, Refusal> {
    express::express(layout, shape).map(|x| x.text())
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
            others: fields::Others::default(),
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

    /// The element type and the dimensions, where the text says them.
    pub fn shape(&self) -> Option<&XlaShape> {
        self.shape.as_ref()
    }

    /// The extents in memory after all tiles, slowest first.
    pub fn tiled_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let tiled = self.tiled(shape, &vec![0; shape.len()])?;
        Ok(tiled.into_iter().map(|(extent, _)| extent).collect())
    }

    /// The number of positions in memory, padding and the rounding of the end counted.
    pub fn storage(&self, shape: &[i64]) -> Result<i64> {
        let dims = self.tiled_shape(shape)?;
        let all = product(dims, "the number of positions")?;
        let rest = all % self.tail_alignment;
        let pad = if rest == 0 { 0 } else { self.tail_alignment - rest };
        all.checked_add(pad).ok_or_else(|| Error::overflow("the number of positions").into())
    }

    /// The position of an element, by the definition of tiles. The coordinate is inside the shape.
    ///
    /// # Errors
    /// A shape of another rank, or one whose positions do not fit in 64 bits.
    pub fn position(&self, shape: &[i64], coordinate: &[i64]) -> Result<i64> {
        let tiled = self.tiled(shape, coordinate)?;
        let add = |flat: i64, (d, i): &(i64, i64)| flat.checked_mul(*d)?.checked_add(*i);
        let flat = tiled.iter().try_fold(0, add);
        flat.ok_or_else(|| Error::overflow("a position").into())
    }

    /// Extent and index of every dimension in memory, slowest first, after all tiles.
    fn tiled(&self, shape: &[i64], coordinate: &[i64]) -> Result<Vec<(i64, i64)>> {
        self.check_rank(shape)?;
        let order = self.minor_to_major.iter().rev();
        let mut dims: Vec<(i64, i64)> = order.map(|d| (shape[*d], coordinate[*d])).collect();
        for tile in &self.tiles {
            zellige_guard::step();
            // A tile over more dimensions than there are acts on dimensions of extent 1 in front.
            let missing = tile.len().saturating_sub(dims.len());
            dims.splice(..0, std::iter::repeat_n((1, 0), missing));
            let mut quotients = Vec::with_capacity(tile.len());
            let mut remainders = Vec::with_capacity(tile.len());
            let (mut extent, mut index) = (1i64, 0i64);
            for (t, (e, i)) in tile.iter().zip(dims.split_off(dims.len() - tile.len())) {
                let merged = extent.checked_mul(e);
                extent = merged.ok_or_else(|| Error::overflow("a merged extent"))?;
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

    /// What stands after the colon.
    fn fields_text(&self) -> String {
        let mut fields = String::new();
        if !self.tiles.is_empty() {
            fields.push('T');
        }
        for tile in &self.tiles {
            let size = |t: &Option<i64>| t.map_or_else(|| "*".into(), |t| t.to_string());
            zellige_guard::steps(tile.len());
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

    fn check_rank(&self, shape: &[i64]) -> Result<()> {
        let rank = self.minor_to_major.len();
        if shape.len() == rank {
            return Ok(());
        }
        let message = format!(
            "the layout is of {rank} dimensions, and the shape {shape:?} has {}",
            shape.len()
        );
        Err(Diagnostic::syntax(0..0, message, "of another rank").id("Z005"))
    }

    /// The dimensions of the text, or the shape that is given.
    fn dims<'a>(&'a self, shape: Option<&'a [i64]>) -> Result<&'a [i64]> {
        match (&self.shape, shape) {
            (Some(own), _) => Ok(&own.dims),
            (None, Some(shape)) => Ok(shape),
            (None, None) => Err(Diagnostic::syntax(
                0..0,
                "the layout does not say how large its dimensions are",
                "of which shape?",
            )
            .id("Z005")
            .help("give the shape, or write it before the layout: f32[3,5]{1,0:T(2,2)}")),
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
    fn text(&self) -> String {
        let mut out = String::new();
        if let Some(shape) = &self.shape {
            let dim = |(d, bound): (&i64, &bool)| format!("{}{d}", if *bound { "<=" } else { "" });
            let dims: Vec<String> = shape.dims.iter().zip(&shape.dynamic).map(dim).collect();
            let _ = write!(out, "{}[{}]", shape.dtype, dims.join(","));
        }
        let order: Vec<String> = self.minor_to_major.iter().map(ToString::to_string).collect();
        let fields = self.fields_text();
        // XLA writes no braces for a scalar without fields.
        if self.shape.is_some() && order.is_empty() && fields.is_empty() {
            return out;
        }
        let colon = if fields.is_empty() { "" } else { ":" };
        let _ = write!(out, "{{{}{colon}{fields}}}", order.join(","));
        out
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let dims = self.dims(shape)?;
        self.others.one_memory()?;
        self.storage(dims)?;
        lower::lower(self, dims).or_else(|refused| {
            // Cuts that do not follow the digits may still cancel: look at the elements.
            if product(dims.iter().copied(), "the number of elements")? > LISTED {
                return Err(refused);
            }
            let order = stored_order(dims, |c| self.position(dims, c))?;
            match Digits::of_order(dims, &order) {
                Some(digits) => Ok(digits.layout(dims)?),
                None => Err(refused),
            }
        })
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.as_ref().map(|s| s.dims.clone())
    }

    fn stored(&self, shape: Option<&[i64]>) -> Option<Result<Stored>> {
        Some((|| {
            let dims = self.dims(shape)?;
            self.others.one_memory()?;
            let positions = self.storage(dims)?;
            Ok(Stored { order: stored_order(dims, |c| self.position(dims, c))?, positions })
        })())
    }

    fn positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        Some(self.dims(shape).and_then(|dims| self.storage(dims)))
    }

    fn element_bits(&self) -> Option<i64> {
        self.element_bits.or_else(|| self.shape.as_ref().and_then(|s| dtype::bits(s.dtype)))
    }
}
