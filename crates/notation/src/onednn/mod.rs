//! oneDNN format tags: `aBcd16b`, by its alias `nChw16c`, with dimensions `dims=[2, 3, 4, 5] tag=nChw16c`,
//! or as a verbose line of the library has it, `src_f32::blocked:aBcd16b::f0`.
//!
//! ```text
//! text := tag | "dims" "=" list "tag" "=" tag        the two fields in any order
//!       | [ word "_" ] type ":" [ word ] ":" "blocked" ":" tag ":" [ ":" ] flags
//! tag  := letter { letter } { int letter }
//! ```
//!
//! The letters before the first number are the dimensions from the slowest to the fastest, `a` the first
//! dimension. A dimension with blocks has a capital; its blocks follow, from the slowest to the fastest
//! (oneDNN documentation, "Understanding Memory Formats"). The product of the blocks of a dimension divides
//! its padded extent, and oneDNN keeps the padding zero. The file `alias` resolves names such as `nChw16c`.
//!
//! **Laws**: `parse(print(x)) == x`; the layout in the algebra is [`MemoryDescriptor::element_position`] as
//! a function.

mod alias;

use crate::blocked::{
    BlockedDigit, BlockedDigits, BlockedDim, build_blocked_layout, outer_dim_order,
    prove_candidate, split_outer_and_inner,
};
use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::{NotationRow, first_word};
use crate::parsed::{StoredElements, positions_in_order};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use std::fmt::Write;
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Layout, LayoutError, TileLayout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "onednn",
    doc: "oneDNN format tags",
    example: "dims=[2, 3, 4, 5] tag=nChw16c",
    recognises: |text| match first_word(text) {
        Some("dims" | "tag") => true,
        _ => looks_like_tag(text.trim()) || find_verbose_tag(text).is_some(),
    },
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::ONEDNN, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_onednn(layout, shape).map(|x| x.notation_text()),
    needs_dtype: false,
};

/// The most dimensions, and the most inner blocks, that a oneDNN memory descriptor has.
// `DNNL_MAX_NDIMS` of oneDNN's headers.
const MAX_DIMS: usize = 12;

/// A format tag: the physical order of the dimensions, and inner blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatTag {
    name: String,
    /// Dimensions from the slowest to the fastest.
    outer: Vec<usize>,
    /// Inner blocks from the slowest to the fastest: dimension and size.
    blocks: Vec<(usize, i64)>,
}

/// A format tag, with dimensions if the text states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnednnLayout {
    tag: FormatTag,
    /// The text before and after the tag in a verbose line.
    around: Option<(String, String)>,
    dims: Option<Vec<i64>>,
}

/// A blocked tensor with the field names of oneDNN's memory descriptor (`dnnl_blocking_desc_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryDescriptor {
    /// The logical extents.
    pub dims: Vec<i64>,
    /// The extents rounded up to whole blocks.
    pub padded_dims: Vec<i64>,
    /// The distance of one block, per dimension.
    pub strides: Vec<i64>,
    /// The sizes of the inner blocks, slowest first.
    pub inner_blks: Vec<i64>,
    /// The dimensions of the inner blocks.
    pub inner_idxs: Vec<usize>,
}

/// Reads a tag, with or without dimensions.
pub fn parse(text: &str) -> Result<OnednnLayout> {
    let mut c = TextCursor::new(text);
    if let Some(place) = find_verbose_tag(text) {
        return read_verbose_line(text, place);
    }
    if !matches!(first_word(text), Some("dims" | "tag")) {
        let tag = read_format_tag(&mut c, text)?;
        c.expect_end("the tag")?;
        return Ok(OnednnLayout { tag, around: None, dims: None });
    }
    let (mut dims, mut tag): (Option<Spanned<Vec<i64>>>, Option<FormatTag>) = (None, None);
    while let Some(key) = c.read_word() {
        let repeated = match key.value {
            "dims" => dims.is_some(),
            "tag" => tag.is_some(),
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("unknown field `{shown}`");
                return Err(Diagnostic::syntax_error(
                    key.span,
                    message,
                    "expected `dims` or `tag`",
                ));
            }
        };
        if repeated {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax_error(key.span, message, "already given"));
        }
        c.expect_char('=', "after the name of a field")?;
        if key.value == "dims" {
            dims = Some(c.read_int_list("dimensions")?);
        } else {
            tag = Some(read_format_tag(&mut c, text)?);
        }
        let _ = c.eat_char(',');
    }
    c.expect_end("the layout")?;
    let Some(tag) = tag else { return Err(c.refuse_next_token("`tag=..`, such as tag=nChw16c")) };
    if let Some(dims) = &dims {
        tag.memory_descriptor(&dims.value)
            .map_err(|d| Diagnostic { span: dims.span.clone(), ..d })?;
    }
    Ok(OnednnLayout { tag, around: None, dims: dims.map(|d| d.value) })
}

/// The range of the tag in a verbose line: after the third colon, if the part before that is the kind of
/// format `blocked`.
fn find_verbose_tag(text: &str) -> Option<std::ops::Range<usize>> {
    let start = text.find(":blocked:")? + ":blocked:".len();
    let end = text[start..].find(':').map_or(text.len(), |len| start + len);
    text[..start].chars().filter(|ch| *ch == ':').eq([':'; 3]).then_some(start..end)
}

fn read_verbose_line(text: &str, place: std::ops::Range<usize>) -> Result<OnednnLayout> {
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let word = |part: &str| part.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '_');
    let known = before.split(':').all(word) && !before.starts_with(':');
    let (strides, flags) = match after.split(':').collect::<Vec<_>>().as_slice() {
        [] | [_] => ("", None),
        ["", flags] => ("", Some(*flags)),
        ["", strides, flags] => (*strides, Some(*flags)),
        _ => ("", None),
    };
    let flags = flags.filter(|f| f.starts_with('f') && word(f));
    if !known || flags.is_none() {
        let message = "no memory descriptor of a verbose line";
        return Err(Diagnostic::syntax_error(
            0..text.len(),
            message,
            "read as one for its `:blocked:`",
        )
        .with_help("write the tag alone, or such as src_f32::blocked:aBcd16b::f0"));
    }
    // A memory descriptor with strides of its own prints the tag of its blocks alone, which would
    // be read as the dense tensor.
    if !strides.is_empty() {
        let at = place.end + 1;
        let message = "strides of its own: the tag does not say where elements are";
        return Err(Diagnostic::syntax_error(
            at..at + strides.len(),
            message,
            "not those of the tag",
        ));
    }
    let tag = FormatTag::new(&text[place.clone()]).map_err(|d| {
        let span = d.span.start + place.start..d.span.end + place.start;
        Diagnostic { span, ..d }
    })?;
    Ok(OnednnLayout { tag, around: Some((before.into(), after.into())), dims: None })
}

/// One word of the letters of dimensions and families, and numbers after them.
fn looks_like_tag(text: &str) -> bool {
    // The letters a to l of dimensions, and those of the families of aliases. Other words cannot be
    // tags.
    let letter = |c: char| "abcdefghijklnotwx".contains(c.to_ascii_lowercase());
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn read_format_tag(c: &mut TextCursor<'_>, text: &str) -> Result<FormatTag> {
    let start = c.next_token_start();
    if c.read_word().is_none() {
        return Err(c.refuse_next_token("a format tag such as aBcd16b or nChw16c"));
    }
    FormatTag::new(&text[start..c.last_token_end()]).map_err(|d| {
        let span = d.span.start + start..d.span.end + start;
        Diagnostic { span, ..d }
    })
}

impl FormatTag {
    /// Reads a tag, in the letters of dimensions or as an alias. Places in refusals are counted from its
    /// first character.
    pub fn new(name: &str) -> Result<FormatTag> {
        let letters = alias::resolve_tag_alias(name)?;
        let head = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
        if head == 0 {
            let message = "a format tag without dimensions";
            return Err(Diagnostic::syntax_error(
                0..0,
                message,
                "expected such as aBcd16b or nChw16c",
            ));
        }
        let mut tag = FormatTag { name: name.to_string(), outer: Vec::new(), blocks: Vec::new() };
        let mut split = Vec::new();
        for (at, c) in letters.char_indices().take(head) {
            let dim = dim_of_letter(c, at)?;
            if tag.outer.contains(&dim) {
                let message = format!("dimension `{}` stands twice", written_char_at(name, at));
                return Err(Diagnostic::syntax_error(at..at + 1, message, "already in the order"));
            }
            tag.outer.push(dim);
            split.push(c.is_ascii_uppercase());
        }
        let rank = tag.outer.len();
        if let Some(missing) = (0..rank).find(|d| !tag.outer.contains(d)) {
            let message = format!("dimension `{}` is missing", letter_of_dim(missing));
            return Err(Diagnostic::syntax_error(
                0..head,
                message,
                "each dimension once, from `a` on",
            ));
        }
        let mut at = head;
        while at < letters.len() {
            let digits = letters[at..].bytes().take_while(u8::is_ascii_digit).count();
            let size = letters[at..at + digits].parse::<i64>().unwrap_or(0);
            let end = at + digits;
            // A block of 1 would change nothing, and oneDNN has no such tag.
            if size < 2 || letters[at..].starts_with('0') {
                let message = format!("a block of {}", &letters[at..end]);
                return Err(Diagnostic::syntax_error(at..end, message, "2 or more, of 64 bits"));
            }
            let Some(c) = letters[end..].chars().next() else {
                let message = format!("a block of {size}, of which dimension?");
                return Err(Diagnostic::syntax_error(at..end, message, "the letter is missing"));
            };
            let dim = dim_of_letter(c, end)?;
            let place = outer_place_of(&tag.outer, dim);
            match place.map(|k| split[k]) {
                Some(true) if c.is_ascii_lowercase() => {}
                Some(_) | None => {
                    let message =
                        format!("a block of `{}`, which is not split", written_char_at(name, end));
                    return Err(Diagnostic::syntax_error(at..end + 1, message, "its letter is not a capital")
                        .with_help("a dimension with blocks has a capital before the numbers, and small letters after: aBcd16b"));
                }
            }
            if tag.blocks.len() == MAX_DIMS {
                let message = format!("more than {MAX_DIMS} inner blocks");
                return Err(Diagnostic::syntax_error(at..end + 1, message, "too many"));
            }
            tag.blocks.push((dim, size));
            at = end + 1;
        }
        for (k, dim) in tag.outer.iter().enumerate() {
            if split[k] && !tag.blocks.iter().any(|(d, _)| d == dim) {
                let message =
                    format!("`{}` is a capital, and has no block", written_char_at(name, k));
                return Err(Diagnostic::syntax_error(k..k + 1, message, "which block?").with_help(
                    "a small letter is a dimension in one piece; a capital needs a block: 16b",
                ));
            }
        }
        Ok(tag)
    }

    /// The tag in the letters of dimensions.
    pub fn dimension_letters(&self) -> String {
        let mut out = String::new();
        for d in &self.outer {
            let c = letter_of_dim(*d);
            let split = self.blocks.iter().any(|(b, _)| b == d);
            out.push(if split { c.to_ascii_uppercase() } else { c });
        }
        for (d, size) in &self.blocks {
            let _ = write!(out, "{size}{}", letter_of_dim(*d));
        }
        out
    }

    /// The tag as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memory descriptor of a tensor of these dimensions.
    pub fn memory_descriptor(&self, dims: &[i64]) -> Result<MemoryDescriptor> {
        if dims.len() != self.outer.len() {
            let (rank, found) = (self.outer.len(), dims.len());
            let message = format!("the tag `{}` is of {rank} dimensions, not {found}", self.name);
            return Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"));
        }
        zellige_layout::check_nonnegative_sizes(dims)?;
        checked_product(dims.iter().copied(), "the number of elements")?;
        let block = |d: usize| {
            checked_product(self.blocks.iter().filter(|b| b.0 == d).map(|b| b.1), "a block")
        };
        let overflow = || LayoutError::overflow_of("the number of positions");
        let mut padded_dims = Vec::with_capacity(dims.len());
        for (d, extent) in dims.iter().enumerate() {
            let block = block(d)?;
            padded_dims.push(div_ceil(*extent, block).checked_mul(block).ok_or_else(overflow)?);
        }
        let mut run = checked_product(self.blocks.iter().map(|b| b.1), "a block")?;
        let mut strides = vec![1; dims.len()];
        for d in self.outer.iter().rev() {
            strides[*d] = run;
            // A dimension of size 0 must not make the strides of the others 0.
            let count = (padded_dims[*d] / block(*d)?).max(1);
            run = run.checked_mul(count).ok_or_else(overflow)?;
        }
        Ok(MemoryDescriptor {
            dims: dims.to_vec(),
            padded_dims,
            strides,
            inner_blks: self.blocks.iter().map(|b| b.1).collect(),
            inner_idxs: self.blocks.iter().map(|b| b.0).collect(),
        })
    }
}

fn outer_place_of(outer: &[usize], dim: usize) -> Option<usize> {
    outer.iter().position(|d| *d == dim)
}

/// The character of a tag at a position, as it was written.
fn written_char_at(name: &str, at: usize) -> char {
    name[at..].chars().next().unwrap_or('?')
}

fn letter_of_dim(d: usize) -> char {
    u8::try_from(d).map_or('?', |d| char::from(b'a' + d.min(25)))
}

/// The dimension of a letter.
fn dim_of_letter(c: char, at: usize) -> Result<usize> {
    let dim = usize::from(u8::try_from(c.to_ascii_lowercase()).unwrap_or(0).wrapping_sub(b'a'));
    if c.is_ascii_alphabetic() && dim < MAX_DIMS {
        return Ok(dim);
    }
    let message = format!("`{c}` is not a dimension");
    Err(Diagnostic::syntax_error(at..at + c.len_utf8(), message, "expected a letter from a to l"))
}

impl MemoryDescriptor {
    /// The position of an element: inner blocks from the fastest, then the remaining quotients of the
    /// coordinate times the strides. This is oneDNN's definition of a blocked format.
    pub fn element_position(&self, coordinate: &[i64]) -> i64 {
        // Blocks of one dimension are nested, so each takes the remainder of what the faster ones
        // have left.
        let mut rest = coordinate.to_vec();
        let (mut position, mut run) = (0, 1);
        for (size, d) in self.inner_blks.iter().zip(&self.inner_idxs).rev() {
            position += rest[*d] % size * run;
            rest[*d] /= size;
            run *= size;
        }
        position + rest.iter().zip(&self.strides).map(|(c, s)| c * s).sum::<i64>()
    }

    /// The number of positions, padding counted.
    pub fn count_positions(&self) -> Result<i64, LayoutError> {
        checked_product(self.padded_dims.iter().copied(), "the number of positions")
    }

    /// The layout in the algebra, with a window for the padding.
    pub fn to_padded_layout(&self) -> Result<Layout, LayoutError> {
        if self.dims.contains(&0) {
            return Ok(TileLayout::from_strides(&self.dims, &vec![0; self.dims.len()], 0)?.into());
        }
        let mut dims: Vec<BlockedDim> = Vec::with_capacity(self.dims.len());
        for (d, valid) in self.dims.iter().enumerate() {
            let mut digits =
                vec![BlockedDigit { extent: self.padded_dims[d], stride: self.strides[d] }];
            let mut run = checked_product(self.inner_blks.iter().copied(), "a block")?;
            for (size, idx) in self.inner_blks.iter().zip(&self.inner_idxs) {
                run /= size;
                if *idx == d {
                    digits[0].extent /= size;
                    digits.push(BlockedDigit { extent: *size, stride: run });
                }
            }
            dims.push(BlockedDim { valid: *valid, digits });
        }
        build_blocked_layout(&dims, 0)
    }
}

impl OnednnLayout {
    /// The tag.
    pub fn format_tag(&self) -> &FormatTag {
        &self.tag
    }

    /// The memory descriptor; `dims` where the text does not say them.
    pub fn memory_descriptor(&self, dims: Option<&[i64]>) -> Result<MemoryDescriptor> {
        match self.dims.as_deref().or(dims) {
            Some(dims) => self.tag.memory_descriptor(dims),
            None => Err(Diagnostic::syntax_error(
                0..0,
                "the tag does not say the dimensions",
                "of which tensor?",
            )
            .with_id("Z005")
            .with_help("give the shape, or write it: dims=[2, 3, 4, 5] tag=nChw16c")),
        }
    }
}

impl WrittenLayout for OnednnLayout {
    fn notation_text(&self) -> String {
        match (&self.dims, &self.around) {
            (Some(dims), _) => format!("dims={dims:?} tag={}", self.tag.name),
            (None, Some((before, after))) => format!("{before}{}{after}", self.tag.name),
            (None, None) => self.tag.name.clone(),
        }
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        Ok(self.memory_descriptor(shape)?.to_padded_layout()?)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.dims.clone()
    }

    fn stored_elements(&self, shape: Option<&[i64]>) -> Option<Result<StoredElements>> {
        Some((|| {
            let descriptor = self.memory_descriptor(shape)?;
            let order =
                positions_in_order(&descriptor.dims, |c| Ok(descriptor.element_position(c)))?;
            Ok(StoredElements { order, positions: descriptor.count_positions()? })
        })())
    }

    fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        Some(self.memory_descriptor(shape).and_then(|d| Ok(d.count_positions()?)))
    }
}

/// The tag of a layout, or why there is none.
pub fn express_as_onednn(
    layout: &Layout,
    shape: &[i64],
) -> Result<OnednnLayout, ConversionRefusal> {
    if shape.is_empty() || shape.len() > MAX_DIMS {
        let rank = shape.len();
        return not_expressible(
            format!("no oneDNN tag: {rank} dimensions, and a tag has 1 to {MAX_DIMS}"),
            None,
        );
    }
    let digits = BlockedDigits::from_layout(layout, shape, "a oneDNN tag")?;
    let order = match digits.dense_block_order(shape, false, |d| letter_of_dim(d).to_string()) {
        Ok(order) => order,
        Err((reason, witness)) => {
            return not_expressible(format!("no oneDNN tag: {reason}"), witness);
        }
    };
    let (outer, inner) = split_outer_and_inner(&order);
    let mut blocks: Vec<(usize, i64)> = Vec::new();
    for (k, block) in inner.iter().enumerate() {
        // A tag splits a dimension by its blocks from the fastest on, so a slower block cannot be
        // inside a faster one.
        let slow = inner[k + 1..].iter().find(|b| b.dim == block.dim && b.digit < block.digit);
        if let Some(slow) = slow {
            let letter = letter_of_dim(slow.dim);
            let reason = format!(
                "no oneDNN tag: dimension {letter} needs two outer strides: its slower blocks of {} are inside faster ones",
                slow.extent
            );
            return not_expressible(
                reason,
                digits.first_moved_element(shape, slow.dim, slow.digit),
            );
        }
        blocks.push((block.dim, block.extent));
    }
    if blocks.len() > MAX_DIMS {
        return not_expressible(
            format!("no oneDNN tag: {} inner blocks, and at most {MAX_DIMS}", blocks.len()),
            None,
        );
    }
    let mut tag =
        FormatTag { name: String::new(), outer: outer_dim_order(outer, shape.len()), blocks };
    tag.name = tag.dimension_letters();
    let found = OnednnLayout { tag, around: None, dims: None };
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_candidate(&lowered, layout, &found.tag.name)?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found)
}
