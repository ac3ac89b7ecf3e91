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
//! A name such as `#map` is what the text defines it to be before the type, as MLIR prints it at the top of a module, and is printed as that. One that
//! is not defined may be a layout or a memory space, so it is refused where a layout may stand.
//!
//! A memref without a layout is row-major. The results of an affine map are the coordinates of memory, slowest first: it is row-major over
//! the least extents that hold them, where `mod 16` always has 16 values, so that it pads. A map with one result gives
//! addresses. Expressions have `+`, `-`, `*` by constants, `floordiv`, `ceildiv` and `mod` by positive constants. Dynamic extents,
//! strides and offsets (`?`) have no layout.
//!
//! **Laws**: `parse(print(x)) == x`; the layout in the algebra is [`MemrefLayout::position`] as a function.

mod affine;
mod express;

use crate::blocked::Digits;
use crate::cursor::{Cursor, Spanned};
use crate::notation::{NotationRow, first_word};
use crate::parsed::{Stored, stored_order};
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use affine::AffineMap;
use zellige_layout::int::{product, row_major};
use zellige_layout::{Error, Layout, Strided, TileLayout, check_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "memref",
    doc: "MLIR memrefs: `strided<[..]>` and affine maps",
    example: "memref<4x6xf32, strided<[6, 1], offset: 2>>",
    recognises: |text| {
        let ours = |word| matches!(word, Some("memref" | "strided" | "affine_map"));
        let mut c = Cursor::new(text);
        let defines = c.eat('#') && c.word().is_some() && c.eat('=');
        ours(first_word(text)) || (defines && ours(c.word().map(|w| w.value)))
    },
    parse: |text, _| parse(text).map(|x| Parsed::of_written(Notation::MEMREF, x)),
    print: Parsed::written_text,
    express: |layout, shape, _| express::express(layout, shape).map(|x| x.text()),
    needs_dtype: false,
};

/// The layout of a memref, with its type where the text says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemrefLayout {
    /// Shape and element type.
    shaped: Option<(Vec<i64>, String)>,
    form: Form,
    space: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    RowMajor,
    Strided(Vec<i64>, i64),
    Map(AffineMap),
}

/// Elements that are looked at where a map is no sum of functions of dimensions.
const LISTED: i64 = 1 << 20;

/// Reads a memref type or a layout.
pub fn parse(text: &str) -> Result<MemrefLayout> {
    let mut c = Cursor::new(text);
    let names = definitions(&mut c)?;
    let start = c.at();
    if !c.eat_word("memref") {
        let form = form(&mut c, &names)?;
        let form = form.ok_or_else(|| c.expected("memref<..>, strided<..> or affine_map<..>"))?;
        c.finish("the layout")?;
        return Ok(MemrefLayout { shaped: None, form, space: None });
    }
    c.expect('<', "after `memref`")?;
    let (dims, element) = shaped(&mut c)?;
    check_sizes(&dims).map_err(|e| Diagnostic::meaning(start..c.here(), e))?;
    let mut found = MemrefLayout {
        shaped: Some((dims.clone(), element.value)),
        form: Form::RowMajor,
        space: None,
    };
    if c.eat(',') {
        let at = c.at();
        match form(&mut c, &names)? {
            Some(form) => {
                found.form = form;
                let checked = found.layout(None).and(Ok(())).or_else(|d| match d.id {
                    // Said where the layout is asked for: the text itself is fine.
                    "Z008" => Ok(()),
                    _ => Err(Diagnostic { span: at..c.here(), ..d }),
                });
                checked?;
                if c.eat(',') {
                    found.space = Some(space(&mut c, text)?);
                }
            }
            None => {
                let name = space(&mut c, text)?;
                // Attributes of dialects are named with a dot; other names are defined in a module.
                if name.starts_with('#') && !name.contains('.') {
                    let message = format!("`{name}` is defined elsewhere, and may be the layout");
                    return Err(Diagnostic::syntax(at..c.here(), message, "which layout?")
                        .help("write strided<[..]> or affine_map<..> in its place, or define it before the type: #map = affine_map<..>"));
                }
                found.space = Some(name);
            }
        }
    }
    c.expect('>', "at the end of the type")?;
    c.finish("the type")?;
    found
        .position(&dims, &vec![0; dims.len()])
        .map_err(|d| Diagnostic { span: start..c.here(), ..d })?;
    Ok(found)
}

/// The inside of a shaped type: `4x6xf32`, the extents and the element type.
pub(crate) fn shaped(c: &mut Cursor<'_>) -> Result<(Vec<i64>, Spanned<String>)> {
    let (dims, element) = plain(c)?;
    let mut span = element.span;
    if matches!(element.value.as_str(), "vector" | "complex") {
        c.expect('<', "after the name of the type")?;
        // Neither holds the other, nor itself.
        plain(c)?;
        c.expect('>', "at the end of the element type")?;
        span.end = c.here();
    }
    let value: String = c.since(span.start).split_whitespace().collect();
    Ok((dims, Spanned { value, span }))
}

/// The same, with an element type that is a name.
fn plain(c: &mut Cursor<'_>) -> Result<(Vec<i64>, Spanned<String>)> {
    let mut dims = Vec::new();
    loop {
        let at = c.at();
        if c.eat('?') {
            let message = "a dynamic extent has no layout";
            return Err(Diagnostic::syntax(at..at + 1, message, "how large?")
                .help("write the extent in place of `?`"));
        }
        if c.peek() == Some('*') {
            let message = "an unranked type has no layout";
            return Err(Diagnostic::syntax(at..at + 1, message, "of which shape?"));
        }
        if !c.peek().is_some_and(|ch| ch.is_ascii_digit()) {
            break;
        }
        let extent = c.int("an extent")?;
        dims.push(extent.value);
        // `x` and what follows it are one word: an extent, or the element type.
        let here = c.here();
        let Some(word) = c.word() else { return Err(c.expected("`x` after an extent")) };
        if !word.value.starts_with('x') || word.span.start != here {
            let message = format!("expected `x` after an extent, found `{}`", word.value);
            return Err(Diagnostic::syntax(word.span, message, "expected `x`"));
        }
        c.back_to(here + 1);
    }
    let Some(element) = c.word() else { return Err(c.expected("an element type such as f32")) };
    Ok((dims, Spanned { value: element.value.to_string(), span: element.span }))
}

/// The bits of an element type of MLIR: `f32`, `bf16`, `i8`, `f8E4M3FN`; `index` depends on the machine.
pub(crate) fn mlir_bits(element: &str) -> Option<i64> {
    if let Some(inside) = element.strip_prefix("complex<").and_then(|e| e.strip_suffix('>')) {
        return mlir_bits(inside)?.checked_mul(2);
    }
    if let Some(inside) = element.strip_prefix("vector<").and_then(|e| e.strip_suffix('>')) {
        let (dims, element) = plain(&mut Cursor::new(inside)).ok()?;
        let count = product(dims, "the elements of a vector").ok()?;
        return mlir_bits(&element.value)?.checked_mul(count);
    }
    let digits = element.trim_start_matches(|ch: char| !ch.is_ascii_digit());
    let end = digits.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(digits.len());
    let name = &element[..element.len() - digits.len()];
    // `f8E4M3FN` and the like say their fields after their bits.
    let known = match &digits[end..] {
        "" => ["f", "bf", "i", "si", "ui", "tf"].contains(&name),
        fields => name == "f" && fields.starts_with('E'),
    };
    digits[..end].parse().ok().filter(|bits| known && (1..=1 << 16).contains(bits))
}

/// Layouts by the names that a text defines: `#map = affine_map<..>`.
type Names<'a> = Vec<(&'a str, Form)>;

fn definitions<'a>(c: &mut Cursor<'a>) -> Result<Names<'a>> {
    let mut names = Names::new();
    loop {
        let mut ahead = c.clone();
        let name = ahead.eat('#').then(|| ahead.word()).flatten();
        let Some(name) = name.filter(|_| ahead.eat('=')) else { return Ok(names) };
        if names.iter().any(|(known, _)| *known == name.value) {
            let message = format!("`#{}` is defined twice", name.value);
            return Err(Diagnostic::syntax(name.span, message, "already defined"));
        }
        *c = ahead;
        let meant = form(c, &names)?;
        names.push((name.value, meant.ok_or_else(|| c.expected("strided<..> or affine_map<..>"))?));
    }
}

fn form(c: &mut Cursor<'_>, names: &Names<'_>) -> Result<Option<Form>> {
    let mut ahead = c.clone();
    if ahead.eat('#')
        && let Some(word) = ahead.dotted()
        && let Some((_, meant)) = names.iter().find(|(name, _)| *name == word.value)
    {
        *c = ahead;
        return Ok(Some(meant.clone()));
    }
    if c.eat_word("affine_map") {
        return affine::map(c).map(|m| Some(Form::Map(m)));
    }
    if !c.eat_word("strided") {
        return Ok(None);
    }
    c.expect('<', "after `strided`")?;
    c.expect('[', "before the strides")?;
    let mut strides = Vec::new();
    while !c.eat(']') {
        if !strides.is_empty() {
            c.expect(',', "between strides")?;
        }
        strides.push(static_int(c, "a stride")?);
    }
    let mut offset = 0;
    if c.eat(',') {
        if !c.eat_word("offset") {
            return Err(c.expected("`offset:`"));
        }
        c.expect(':', "after `offset`")?;
        offset = static_int(c, "an offset")?;
    }
    c.expect('>', "at the end of the layout")?;
    Ok(Some(Form::Strided(strides, offset)))
}

fn static_int(c: &mut Cursor<'_>, what: &str) -> Result<i64> {
    let at = c.at();
    if c.eat('?') {
        let message = format!("{what} that is known at run time only has no layout");
        return Err(Diagnostic::syntax(at..at + 1, message, "which number?")
            .help("write the number in place of `?`"));
    }
    Ok(c.int(what)?.value)
}

/// A memory space: a number, or an attribute of a dialect.
fn space(c: &mut Cursor<'_>, text: &str) -> Result<String> {
    let start = c.at();
    if c.eat('#') {
        if c.dotted().is_none() {
            return Err(c.expected("the name of a memory space"));
        }
        if c.eat('<') {
            if c.word().is_none() {
                return Err(c.expected("a memory space"));
            }
            c.expect('>', "after the memory space")?;
        }
    } else {
        c.int("a layout or a memory space")?;
        if c.eat(':') && c.word().is_none() {
            return Err(c.expected("the type of the memory space"));
        }
    }
    Ok(text[start..c.here()].to_string())
}

impl MemrefLayout {
    /// A layout alone.
    fn alone(form: Form) -> MemrefLayout {
        MemrefLayout { shaped: None, form, space: None }
    }

    fn dims<'a>(&'a self, shape: Option<&'a [i64]>) -> Result<&'a [i64]> {
        let own = self.shaped.as_ref().map(|(dims, _)| dims.as_slice());
        own.or(shape).ok_or_else(|| {
            Diagnostic::syntax(0..0, "the layout does not say the shape", "of which memref?")
                .id("Z005")
                .help("give the shape, or write the type: memref<4x6xf32, strided<[6, 1]>>")
        })
    }

    fn check_rank(&self, shape: &[i64]) -> Result<()> {
        let rank = match &self.form {
            Form::RowMajor => shape.len(),
            Form::Strided(strides, _) => strides.len(),
            Form::Map(map) => map.rank,
        };
        if rank == shape.len() {
            return Ok(());
        }
        let message = format!(
            "the layout is of {rank} dimensions, and the shape {shape:?} has {}",
            shape.len()
        );
        Err(Diagnostic::syntax(0..0, message, "of another rank").id("Z005"))
    }

    /// The extents of the coordinates of memory, for a map with several; `None` for one that gives addresses.
    fn extents(map: &AffineMap, shape: &[i64]) -> Result<Option<Vec<i64>>> {
        if map.results.len() == 1 {
            return Ok(None);
        }
        let mut extents = Vec::with_capacity(map.results.len());
        for expr in &map.results {
            let (low, high) =
                expr.range(shape).ok_or_else(|| Error::overflow("a coordinate of memory"))?;
            if low < 0 {
                let message = format!("the coordinate {expr} of memory reaches {low}, below 0");
                return Err(Diagnostic::syntax(0..0, message, "not a coordinate").id("Z005"));
            }
            extents.push(high.checked_add(1).ok_or_else(|| Error::overflow("an extent"))?);
        }
        product(extents.iter().copied(), "the number of positions")?;
        Ok(Some(extents))
    }

    /// The number of positions that the coordinates of memory have.
    fn count(map: &AffineMap, shape: &[i64]) -> Result<i64> {
        if shape.contains(&0) {
            return Ok(0);
        }
        let extents = MemrefLayout::extents(map, shape)?.unwrap_or_default();
        Ok(product(extents, "the number of positions")?)
    }

    /// The address of an element. The coordinate is inside the shape.
    pub fn position(&self, shape: &[i64], coordinate: &[i64]) -> Result<i64> {
        self.check_rank(shape)?;
        let overflow = || Error::overflow("an address");
        let dot = |strides: &[i64], offset: i64| {
            let mut pairs = strides.iter().zip(coordinate);
            pairs.try_fold(offset, |sum, (s, i)| sum.checked_add(s.checked_mul(*i)?))
        };
        let found = match &self.form {
            Form::RowMajor => dot(&row_major(shape)?, 0),
            Form::Strided(strides, offset) => dot(strides, *offset),
            Form::Map(map) => {
                if shape.contains(&0) {
                    return Ok(0);
                }
                let values: Option<Vec<i64>> =
                    map.results.iter().map(|e| e.value(coordinate)).collect();
                let values = values.ok_or_else(overflow)?;
                match MemrefLayout::extents(map, shape)? {
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
    fn text(&self) -> String {
        let form = match &self.form {
            Form::RowMajor => None,
            Form::Strided(strides, 0) => Some(format!("strided<{strides:?}>")),
            Form::Strided(strides, offset) => {
                Some(format!("strided<{strides:?}, offset: {offset}>"))
            }
            Form::Map(map) => Some(map.to_string()),
        };
        let Some((dims, element)) = &self.shaped else { return form.unwrap_or_default() };
        let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
        let fields = form.iter().chain(&self.space).fold(String::new(), |s, f| s + ", " + f);
        format!("memref<{dims}{element}{fields}>")
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let shape = self.dims(shape)?;
        self.check_rank(shape)?;
        check_sizes(shape)?;
        let size = product(shape.iter().copied(), "the number of elements")?;
        let map = match &self.form {
            Form::RowMajor => return Ok(Strided::contiguous(shape)?.to_layout()?),
            Form::Strided(strides, offset) => {
                return Ok(Strided::new(shape, strides, *offset)?.to_layout()?);
            }
            Form::Map(map) => map,
        };
        if size == 0 {
            return Ok(TileLayout::strided(shape, &vec![0; shape.len()], 0)?.into());
        }
        MemrefLayout::extents(map, shape)?;
        let found = if map.results.iter().all(affine::Expr::is_separable) {
            let at = |c: &[i64]| self.position(shape, c);
            Digits::of_dims(shape, at)?
        } else if size <= LISTED {
            Digits::of_order(shape, &stored_order(shape, |c| self.position(shape, c))?)
        } else {
            None
        };
        match found {
            Some(digits) => Ok(digits.layout(shape)?),
            None => {
                let message = "no layout of the algebra: the map is no sum of functions of dimensions that are split over digits";
                Err(Diagnostic::syntax(0..0, message, "not expressible").id("Z008"))
            }
        }
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shaped.as_ref().map(|(dims, _)| dims.clone())
    }

    fn stored(&self, shape: Option<&[i64]>) -> Option<Result<Stored>> {
        let Form::Map(map) = &self.form else { return None };
        if map.results.len() == 1 {
            return None;
        }
        Some((|| {
            let shape = self.dims(shape)?;
            self.check_rank(shape)?;
            let order = stored_order(shape, |c| self.position(shape, c))?;
            Ok(Stored { order, positions: MemrefLayout::count(map, shape)? })
        })())
    }

    fn positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        let Form::Map(map) = &self.form else { return None };
        if map.results.len() == 1 {
            return None;
        }
        Some((|| {
            let shape = self.dims(shape)?;
            self.check_rank(shape)?;
            MemrefLayout::count(map, shape)
        })())
    }

    fn element_bits(&self) -> Option<i64> {
        self.shaped.as_ref().and_then(|(_, element)| mlir_bits(element))
    }
}
