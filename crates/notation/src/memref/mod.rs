//! MLIR memrefs: `memref<4x6xf32, strided<[6, 1], offset: 2>>`, and the layouts alone.
//!
//! ```text
//! text    := { "#" name "=" layout } ( "memref" "<" { int "x" } type [ "," layout ] [ "," space ] ">" | layout )
//! layout  := "strided" "<" "[" ints "]" [ "," "offset" ":" int ] ">"
//!          | "affine_map" "<" "(" dims ")" "->" "(" exprs ")" ">" | "#" name
//! type    := name | ( "vector" | "complex" ) "<" .. ">"
//! space   := int | "#" name [ "<" name ">" ]
//! ```
//!
//! A name such as `#map` stands for its definition before the type, which MLIR prints at the top of a
//! module, and is replaced by it when the text is printed. A name without a definition may be a layout or a
//! memory space, so it is refused where a layout is allowed.
//!
//! A memref without a layout is row-major. The results of an affine map are the coordinates of memory,
//! slowest first: memory is row-major over the smallest extents that hold them, where `mod 16` always
//! counts as 16 values and may therefore pad. A map with one result gives addresses. Expressions have `+`,
//! `-`, `*` by constants, `floordiv`, `ceildiv` and `mod` by positive constants. Dynamic extents, strides
//! and offsets (`?`) have no layout.
//!
//! **Laws**: `parse(print(x)) == x`; the layout in the algebra is [`MemrefLayout::element_position`] as a function.

mod affine;
mod express;

use crate::blocked::BlockedDigits;
use crate::cursor::{Spanned, TextCursor};
use crate::notation::{NotationRow, first_word};
use crate::parsed::{StoredElements, positions_in_order};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use affine::AffineMap;
use zellige_layout::int::{checked_product, row_major_strides};
use zellige_layout::{Layout, LayoutError, StridedLayout, TileLayout, check_nonnegative_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "memref",
    doc: "MLIR memrefs: `strided<[..]>` and affine maps",
    example: "memref<4x6xf32, strided<[6, 1], offset: 2>>",
    recognises: |text| {
        let ours = |word| matches!(word, Some("memref" | "strided" | "affine_map"));
        let mut c = TextCursor::new(text);
        // A module begins with its aliases, so the keyword comes after `#map =`.
        let defines = c.eat_char('#') && c.read_word().is_some() && c.eat_char('=');
        ours(first_word(text)) || (defines && ours(c.read_word().map(|w| w.value)))
    },
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::MEMREF, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| {
        express::express_as_memref(layout, shape).map(|x| x.notation_text())
    },
    needs_dtype: false,
};

/// The layout of a memref, with its type if the text states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemrefLayout {
    /// Shape and element type.
    shaped: Option<(Vec<i64>, String)>,
    form: MemrefForm,
    space: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MemrefForm {
    RowMajor,
    Strided(Vec<i64>, i64),
    Map(AffineMap),
}

/// The most elements that are evaluated if a map is not a sum of functions of single dimensions.
const MAX_LISTED_ELEMENTS: i64 = 1 << 20;

/// Reads a memref type or a layout.
pub fn parse(text: &str) -> Result<MemrefLayout> {
    let mut c = TextCursor::new(text);
    let names = read_definitions(&mut c)?;
    let start = c.next_token_start();
    if !c.eat_word("memref") {
        let form = read_layout_form(&mut c, &names)?;
        let form =
            form.ok_or_else(|| c.refuse_next_token("memref<..>, strided<..> or affine_map<..>"))?;
        c.expect_end("the layout")?;
        return Ok(MemrefLayout { shaped: None, form, space: None });
    }
    c.expect_char('<', "after `memref`")?;
    let (dims, element) = read_shaped_type(&mut c)?;
    check_nonnegative_sizes(&dims)
        .map_err(|e| Diagnostic::meaning_error(start..c.last_token_end(), e))?;
    let mut found = MemrefLayout {
        shaped: Some((dims.clone(), element.value)),
        form: MemrefForm::RowMajor,
        space: None,
    };
    if c.eat_char(',') {
        let at = c.next_token_start();
        match read_layout_form(&mut c, &names)? {
            Some(form) => {
                found.form = form;
                let checked = found.layout_over_shape(None).and(Ok(())).or_else(|d| match d.id {
                    // The text is valid; that the algebra has no layout for it is reported when the layout
                    // is requested.
                    "Z008" => Ok(()),
                    _ => Err(Diagnostic { span: at..c.last_token_end(), ..d }),
                });
                checked?;
                if c.eat_char(',') {
                    found.space = Some(read_memory_space(&mut c, text)?);
                }
            }
            None => {
                let name = read_memory_space(&mut c, text)?;
                // Attributes of dialects have a dot in their names and are memory spaces here; other names
                // are aliases of a module.
                if name.starts_with('#') && !name.contains('.') {
                    let message = format!("`{name}` is defined elsewhere, and may be the layout");
                    return Err(Diagnostic::syntax_error(at..c.last_token_end(), message, "which layout?")
                        .with_help("write strided<[..]> or affine_map<..> in its place, or define it before the type: #map = affine_map<..>"));
                }
                found.space = Some(name);
            }
        }
    }
    c.expect_char('>', "at the end of the type")?;
    c.expect_end("the type")?;
    found
        .element_position(&dims, &vec![0; dims.len()])
        .map_err(|d| Diagnostic { span: start..c.last_token_end(), ..d })?;
    Ok(found)
}

/// The inside of a shaped type: `4x6xf32`, the extents and the element type.
pub(crate) fn read_shaped_type(c: &mut TextCursor<'_>) -> Result<(Vec<i64>, Spanned<String>)> {
    let (dims, element) = read_named_element_type(c)?;
    let mut span = element.span;
    if matches!(element.value.as_str(), "vector" | "complex") {
        c.expect_char('<', "after the name of the type")?;
        // A vector or a complex number has elements of a named type, so this does not recurse.
        read_named_element_type(c)?;
        c.expect_char('>', "at the end of the element type")?;
        span.end = c.last_token_end();
    }
    let value: String = c.text_since(span.start).split_whitespace().collect();
    Ok((dims, Spanned { value, span }))
}

/// The same, with an element type that is a name.
fn read_named_element_type(c: &mut TextCursor<'_>) -> Result<(Vec<i64>, Spanned<String>)> {
    let mut dims = Vec::new();
    loop {
        let at = c.next_token_start();
        if c.eat_char('?') {
            let message = "a dynamic extent has no layout";
            return Err(Diagnostic::syntax_error(at..at + 1, message, "how large?")
                .with_help("write the extent in place of `?`"));
        }
        if c.peek_char() == Some('*') {
            let message = "an unranked type has no layout";
            return Err(Diagnostic::syntax_error(at..at + 1, message, "of which shape?"));
        }
        if !c.peek_char().is_some_and(|ch| ch.is_ascii_digit()) {
            break;
        }
        let extent = c.read_integer("an extent")?;
        dims.push(extent.value);
        // `x6xf32` is one token of the cursor, so the cursor is set back to the byte after `x`.
        let here = c.last_token_end();
        let Some(word) = c.read_word() else {
            return Err(c.refuse_next_token("`x` after an extent"));
        };
        if !word.value.starts_with('x') || word.span.start != here {
            let message = format!("expected `x` after an extent, found `{}`", word.value);
            return Err(Diagnostic::syntax_error(word.span, message, "expected `x`"));
        }
        c.return_to_place(here + 1);
    }
    let Some(element) = c.read_word() else {
        return Err(c.refuse_next_token("an element type such as f32"));
    };
    Ok((dims, Spanned { value: element.value.to_string(), span: element.span }))
}

/// The bits of an element type of MLIR: `f32`, `bf16`, `i8`, `f8E4M3FN`; `index` depends on the machine.
pub(crate) fn bits_of_mlir_type(element: &str) -> Option<i64> {
    if let Some(inside) = element.strip_prefix("complex<").and_then(|e| e.strip_suffix('>')) {
        return bits_of_mlir_type(inside)?.checked_mul(2);
    }
    if let Some(inside) = element.strip_prefix("vector<").and_then(|e| e.strip_suffix('>')) {
        let (dims, element) = read_named_element_type(&mut TextCursor::new(inside)).ok()?;
        let count = checked_product(dims, "the elements of a vector").ok()?;
        return bits_of_mlir_type(&element.value)?.checked_mul(count);
    }
    let digits = element.trim_start_matches(|ch: char| !ch.is_ascii_digit());
    let end = digits.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(digits.len());
    let name = &element[..element.len() - digits.len()];
    // Names such as `f8E4M3FN` list their bit fields after the number of bits.
    let known = match &digits[end..] {
        "" => ["f", "bf", "i", "si", "ui", "tf"].contains(&name),
        fields => name == "f" && fields.starts_with('E'),
    };
    digits[..end].parse().ok().filter(|bits| known && (1..=1 << 16).contains(bits))
}

/// Layouts by the names that a text defines: `#map = affine_map<..>`.
type NamedForms<'a> = Vec<(&'a str, MemrefForm)>;

fn read_definitions<'a>(c: &mut TextCursor<'a>) -> Result<NamedForms<'a>> {
    let mut names = NamedForms::new();
    loop {
        let mut ahead = c.clone();
        let name = ahead.eat_char('#').then(|| ahead.read_word()).flatten();
        let Some(name) = name.filter(|_| ahead.eat_char('=')) else { return Ok(names) };
        if names.iter().any(|(known, _)| *known == name.value) {
            let message = format!("`#{}` is defined twice", name.value);
            return Err(Diagnostic::syntax_error(name.span, message, "already defined"));
        }
        *c = ahead;
        let meant = read_layout_form(c, &names)?;
        names.push((
            name.value,
            meant.ok_or_else(|| c.refuse_next_token("strided<..> or affine_map<..>"))?,
        ));
    }
}

fn read_layout_form(c: &mut TextCursor<'_>, names: &NamedForms<'_>) -> Result<Option<MemrefForm>> {
    let mut ahead = c.clone();
    if ahead.eat_char('#')
        && let Some(word) = ahead.read_dotted_word()
        && let Some((_, meant)) = names.iter().find(|(name, _)| *name == word.value)
    {
        *c = ahead;
        return Ok(Some(meant.clone()));
    }
    if c.eat_word("affine_map") {
        return affine::read_affine_map(c).map(|m| Some(MemrefForm::Map(m)));
    }
    if !c.eat_word("strided") {
        return Ok(None);
    }
    c.expect_char('<', "after `strided`")?;
    c.expect_char('[', "before the strides")?;
    let mut strides = Vec::new();
    while !c.eat_char(']') {
        if !strides.is_empty() {
            c.expect_char(',', "between strides")?;
        }
        strides.push(read_static_int(c, "a stride")?);
    }
    let mut offset = 0;
    if c.eat_char(',') {
        if !c.eat_word("offset") {
            return Err(c.refuse_next_token("`offset:`"));
        }
        c.expect_char(':', "after `offset`")?;
        offset = read_static_int(c, "an offset")?;
    }
    c.expect_char('>', "at the end of the layout")?;
    Ok(Some(MemrefForm::Strided(strides, offset)))
}

fn read_static_int(c: &mut TextCursor<'_>, what: &str) -> Result<i64> {
    let at = c.next_token_start();
    if c.eat_char('?') {
        let message = format!("{what} that is known at run time only has no layout");
        return Err(Diagnostic::syntax_error(at..at + 1, message, "which number?")
            .with_help("write the number in place of `?`"));
    }
    Ok(c.read_integer(what)?.value)
}

/// A memory space: a number, or an attribute of a dialect.
fn read_memory_space(c: &mut TextCursor<'_>, text: &str) -> Result<String> {
    let start = c.next_token_start();
    if c.eat_char('#') {
        if c.read_dotted_word().is_none() {
            return Err(c.refuse_next_token("the name of a memory space"));
        }
        if c.eat_char('<') {
            if c.read_word().is_none() {
                return Err(c.refuse_next_token("a memory space"));
            }
            c.expect_char('>', "after the memory space")?;
        }
    } else {
        c.read_integer("a layout or a memory space")?;
        if c.eat_char(':') && c.read_word().is_none() {
            return Err(c.refuse_next_token("the type of the memory space"));
        }
    }
    Ok(text[start..c.last_token_end()].to_string())
}

impl MemrefLayout {
    /// A layout alone.
    fn without_type(form: MemrefForm) -> MemrefLayout {
        MemrefLayout { shaped: None, form, space: None }
    }

    fn dims_or_shape<'a>(&'a self, shape: Option<&'a [i64]>) -> Result<&'a [i64]> {
        let own = self.shaped.as_ref().map(|(dims, _)| dims.as_slice());
        own.or(shape).ok_or_else(|| {
            Diagnostic::syntax_error(0..0, "the layout does not say the shape", "of which memref?")
                .with_id("Z005")
                .with_help("give the shape, or write the type: memref<4x6xf32, strided<[6, 1]>>")
        })
    }

    fn check_rank(&self, shape: &[i64]) -> Result<()> {
        let rank = match &self.form {
            MemrefForm::RowMajor => shape.len(),
            MemrefForm::Strided(strides, _) => strides.len(),
            MemrefForm::Map(map) => map.rank,
        };
        if rank == shape.len() {
            return Ok(());
        }
        let message = format!(
            "the layout is of {rank} dimensions, and the shape {shape:?} has {}",
            shape.len()
        );
        Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"))
    }

    /// The extents of the coordinates of memory, for a map with several; `None` for one that gives addresses.
    fn memory_extents(map: &AffineMap, shape: &[i64]) -> Result<Option<Vec<i64>>> {
        if map.results.len() == 1 {
            return Ok(None);
        }
        let mut extents = Vec::with_capacity(map.results.len());
        for expr in &map.results {
            let (low, high) = expr
                .value_range(shape)
                .ok_or_else(|| LayoutError::overflow_of("a coordinate of memory"))?;
            // Coordinates of memory count from 0. A negative one would be an address before the
            // buffer.
            if low < 0 {
                let message = format!("the coordinate {expr} of memory reaches {low}, below 0");
                return Err(
                    Diagnostic::syntax_error(0..0, message, "not a coordinate").with_id("Z005")
                );
            }
            extents.push(high.checked_add(1).ok_or_else(|| LayoutError::overflow_of("an extent"))?);
        }
        checked_product(extents.iter().copied(), "the number of positions")?;
        Ok(Some(extents))
    }

    /// The number of positions that the coordinates of memory have.
    fn positions_of_map(map: &AffineMap, shape: &[i64]) -> Result<i64> {
        if shape.contains(&0) {
            return Ok(0);
        }
        let extents = MemrefLayout::memory_extents(map, shape)?.unwrap_or_default();
        Ok(checked_product(extents, "the number of positions")?)
    }

    /// The address of an element. The coordinate is inside the shape.
    pub fn element_position(&self, shape: &[i64], coordinate: &[i64]) -> Result<i64> {
        self.check_rank(shape)?;
        let overflow = || LayoutError::overflow_of("an address");
        let dot = |strides: &[i64], offset: i64| {
            let mut pairs = strides.iter().zip(coordinate);
            pairs.try_fold(offset, |sum, (s, i)| sum.checked_add(s.checked_mul(*i)?))
        };
        let found = match &self.form {
            MemrefForm::RowMajor => dot(&row_major_strides(shape)?, 0),
            MemrefForm::Strided(strides, offset) => dot(strides, *offset),
            MemrefForm::Map(map) => {
                if shape.contains(&0) {
                    return Ok(0);
                }
                let values: Option<Vec<i64>> =
                    map.results.iter().map(|e| e.evaluate_at(coordinate)).collect();
                let values = values.ok_or_else(overflow)?;
                match MemrefLayout::memory_extents(map, shape)? {
                    None => values.first().copied(),
                    Some(extents) => values
                        .iter()
                        .zip(extents)
                        .try_fold(0i64, |flat, (v, e)| flat.checked_mul(e)?.checked_add(*v)),
                }
            }
        };
        Ok(found.ok_or_else(overflow)?)
    }
}

impl WrittenLayout for MemrefLayout {
    fn notation_text(&self) -> String {
        let form = match &self.form {
            MemrefForm::RowMajor => None,
            MemrefForm::Strided(strides, 0) => Some(format!("strided<{strides:?}>")),
            MemrefForm::Strided(strides, offset) => {
                Some(format!("strided<{strides:?}, offset: {offset}>"))
            }
            MemrefForm::Map(map) => Some(map.to_string()),
        };
        let Some((dims, element)) = &self.shaped else { return form.unwrap_or_default() };
        let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
        let fields = form.iter().chain(&self.space).fold(String::new(), |s, f| s + ", " + f);
        format!("memref<{dims}{element}{fields}>")
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let shape = self.dims_or_shape(shape)?;
        self.check_rank(shape)?;
        check_nonnegative_sizes(shape)?;
        let size = checked_product(shape.iter().copied(), "the number of elements")?;
        let map = match &self.form {
            MemrefForm::RowMajor => return Ok(StridedLayout::new_contiguous(shape)?.to_layout()?),
            MemrefForm::Strided(strides, offset) => {
                return Ok(StridedLayout::new(shape, strides, *offset)?.to_layout()?);
            }
            MemrefForm::Map(map) => map,
        };
        if size == 0 {
            return Ok(TileLayout::from_strides(shape, &vec![0; shape.len()], 0)?.into());
        }
        MemrefLayout::memory_extents(map, shape)?;
        // A separable map is determined by its values along each axis, which takes the sum of the
        // extents instead of their product.
        let found = if map.results.iter().all(affine::AffineMapExpr::is_separable) {
            let at = |c: &[i64]| self.element_position(shape, c);
            BlockedDigits::from_position_function(shape, at)?
        } else if size <= MAX_LISTED_ELEMENTS {
            BlockedDigits::from_positions(
                shape,
                &positions_in_order(shape, |c| self.element_position(shape, c))?,
            )
        } else {
            None
        };
        match found {
            Some(digits) => Ok(digits.build_layout(shape)?),
            None => {
                let message = "no layout of the algebra: the map is not a sum of functions of dimensions that are split over digits";
                Err(Diagnostic::syntax_error(0..0, message, "not expressible").with_id("Z008"))
            }
        }
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shaped.as_ref().map(|(dims, _)| dims.clone())
    }

    fn stored_elements(&self, shape: Option<&[i64]>) -> Option<Result<StoredElements>> {
        let MemrefForm::Map(map) = &self.form else { return None };
        if map.results.len() == 1 {
            return None;
        }
        Some((|| {
            let shape = self.dims_or_shape(shape)?;
            self.check_rank(shape)?;
            let order = positions_in_order(shape, |c| self.element_position(shape, c))?;
            Ok(StoredElements { order, positions: MemrefLayout::positions_of_map(map, shape)? })
        })())
    }

    fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        let MemrefForm::Map(map) = &self.form else { return None };
        if map.results.len() == 1 {
            return None;
        }
        Some((|| {
            let shape = self.dims_or_shape(shape)?;
            self.check_rank(shape)?;
            MemrefLayout::positions_of_map(map, shape)
        })())
    }

    fn element_bits(&self) -> Option<i64> {
        self.shaped.as_ref().and_then(|(_, element)| bits_of_mlir_type(element))
    }
}
