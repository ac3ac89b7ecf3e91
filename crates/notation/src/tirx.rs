//! TIRx text: `Swizzle(M,B,S) o S[..] + R[..] + n@axis`, and `valid[..]` for padding.
//!
//! ```text
//! layout  := body [ valid ] [ axes ] [ "where" symbol "=" int { "," symbol "=" int } ]
//! body    := [ swizzle ("o" | "∘") ] tile | swizzle | "ComposeLayout" "(" swizzle "," tile ")"
//!          | "ComposeLayout" "(" M "," B "," S "," tile [ "," [ "swizzle_inner" "=" ] bool ] ")"
//! swizzle := ("Swizzle" | "SwizzleLayout") "(" M "," B "," S [ "," ("inner" | "outer") ] ")"
//! tile    := term { ("+" | "-") term } | "TileLayout" "(" term { ("+" | "-") term } ")"
//! term    := "S" "[" iters "]" | "R" "[" iters "]" | offset
//! iters   := [ extents [ ":" strides ] ]
//! extents := int | int { "," int } | "(" int { "," int } ")"
//! strides := stride | "(" stride { "," stride } ")"
//! stride  := int [ "@" axis ]
//! offset  := int [ "@" axis ]
//! valid   := "valid" "[" dim { "," dim } "]"
//! dim     := extent | valid "/" padded | begin ".." end "/" padded
//! axes    := "axes" "[" axis "=" kind { "," axis "=" kind } "]"
//! kind    := "memory" | "device" | scope "/" scope
//! ```
//!
//! A name in the place of an integer is a symbol, and `where` gives its value:
//! `S[(32,k):(1@TLane,1@TCol)] where k=4`. A swizzle alone is a layout of `m`: the addresses of one of its
//! periods, `2^(M+B+S)` of them, permuted.
//!
//! The numbers of a swizzle may be named: `Swizzle(M=3, B=3, S=3)`, or with TVM's names, `per_element`,
//! `swizzle_len`, `atom_len` and `swizzle_inner=True`. `S` occurs once; without strides it is row-major on
//! `m`; an axis left out is `m`. `valid` gives the logical shape: of each padded extent, the part that
//! holds elements. `axes` declares axes that are not built in, such as those of a mesh of devices. As TVM
//! prints them, names may have the prefix `T.` and axes the prefix `Axis.`:
//! `T.TileLayout(T.S[(8, 4):(4 @ Axis.laneid, 1)])`. `axes` is printed if a layout has such axes, so that
//! its text can be parsed by itself.
//!
//! **Law**: `parse(print(layout)) == layout`.

use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::symbols::resolve_symbols;
use crate::{Diagnostic, ParsedText};
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use zellige_layout::{
    Axis, AxisKind, AxisTable, ExecutionScope, Iter, Layout, LayoutError, PaddedExtent, Swizzle,
    TileLayout, ValidWindow,
};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "tirx",
    doc: "TIRx and Axe: shard, replica and offset on named axes",
    example: "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid",
    recognises: |text| {
        // `S<..>` and `Swizzle<..>` are CuTe's.
        let cute = ["S", "Swizzle"].iter().any(|w| TextCursor::new(text).word_follows(w, '<'));
        // `R` is included so that a text that begins with a replica gets an error about TIRx
        // instead of a guess.
        let words = ["S", "R", "Swizzle", "SwizzleLayout", "ComposeLayout", "TileLayout"];
        let mut c = TextCursor::new(text);
        skip_module_prefix(&mut c);
        c.read_word().is_some_and(|w| words.contains(&w.value)) && !cute
    },
    parse: |text, axes| parse(text, axes).map(ParsedText::from),
    print: |parsed| parsed.algebra_layout().map_or_else(String::new, print_tirx),
    express: |layout, _, _| Ok(print_tirx(layout)),
    needs_dtype: false,
};

/// Reads a layout; axis names are looked up in `axes` and in the declarations of the text.
pub fn parse(text: &str, axes: &AxisTable) -> Result<Layout> {
    let resolved = resolve_symbols(text)?;
    parse_without_symbols(&resolved.text, axes).map_err(|e| resolved.place_in_written_text(e))
}

/// Reads a layout without symbols.
fn parse_without_symbols(text: &str, axes: &AxisTable) -> Result<Layout> {
    let (end, axes) = read_axis_declarations(text, axes)?;
    let mut c = TextCursor::new(&text[..end]);
    let layout = read_layout(&mut c, &axes)?;
    c.expect_end("the layout")?;
    Ok(layout)
}

/// The position at which the layout ends and `axes[..]` begins, and the table with the axes that it declares.
fn read_axis_declarations<'t>(
    text: &str,
    axes: &'t AxisTable,
) -> Result<(usize, Cow<'t, AxisTable>)> {
    let none = (text.len(), Cow::Borrowed(axes));
    // Declarations are at the end of the text, but the layout before them needs the axes, so they
    // are parsed first.
    let Some(start) = text.rfind("axes") else { return Ok(none) };
    let mut c = TextCursor::new(text);
    c.skip_to_place(start);
    let inside_a_word = text[..start].ends_with(|p: char| p.is_alphanumeric() || p == '_');
    // The letters may also be the end of the name of an axis.
    if inside_a_word || !c.eat_word("axes") || !c.eat_char('[') {
        return Ok(none);
    }
    let mut table = axes.clone();
    let mut first = true;
    while !c.eat_char(']') {
        if !first && !c.eat_char(',') {
            return Err(c.refuse_next_token("`,` or `]`"));
        }
        first = false;
        let Some(name) = c.read_word() else {
            return Err(c.refuse_next_token("the name of an axis"));
        };
        c.expect_char('=', "between an axis and its kind")?;
        let kind = read_axis_kind(&mut c)?;
        table
            .declare_axis(name.value, kind)
            .map_err(|e| Diagnostic::meaning_error(name.span, e))?;
    }
    c.expect_end("the axes")?;
    Ok((start, Cow::Owned(table)))
}

/// `memory`, `device`, or for a thread axis the counted scope and the scope around it, `thread/warp`.
fn read_axis_kind(c: &mut TextCursor<'_>) -> Result<AxisKind> {
    let known = || {
        let scopes: Vec<&str> = ExecutionScope::ALL.iter().map(|s| s.name()).collect();
        format!("kinds are memory, device, and scope/scope with {}", scopes.join(", "))
    };
    let Some(word) = c.read_word() else {
        return Err(c.refuse_next_token("the kind of an axis").with_help(known()));
    };
    let unknown = |word: &Spanned<&str>| {
        let message = format!("`{}` is not a kind of axis", shorten_name(word.value));
        Diagnostic::syntax_error(word.span.clone(), message, "unknown").with_help(known())
    };
    match word.value {
        "memory" => Ok(AxisKind::Memory),
        "device" => Ok(AxisKind::Device),
        name => {
            let of = ExecutionScope::from_name(name).ok_or_else(|| unknown(&word))?;
            c.expect_char('/', "between what is counted and in what")?;
            let Some(within) = c.read_word() else {
                return Err(c.refuse_next_token("a scope").with_help(known()));
            };
            let within = ExecutionScope::from_name(within.value).ok_or_else(|| unknown(&within))?;
            Ok(AxisKind::Thread { of, within })
        }
    }
}

/// The text of a layout.
pub fn print_tirx(layout: &Layout) -> String {
    let mut out = String::new();
    if let Some(sw) = layout.swizzle() {
        let _ = write!(out, "{sw:?} o ");
    }
    out += &print_tile_layout(layout.tile());
    if let Some(w) = layout.window() {
        let dims: Vec<String> = w.dims().iter().map(print_window_dim).collect();
        let _ = write!(out, " valid[{}]", dims.join(","));
    }
    let known = AxisTable::new();
    let own = layout.tile().axes().iter().filter(|a| known.get(a.name()) != Ok(**a));
    let declared: Vec<String> = own.map(|a| print_declared_axis(*a)).collect();
    if !declared.is_empty() {
        let _ = write!(out, " axes[{}]", declared.join(", "));
    }
    out
}

/// An axis with its kind, as it is declared.
fn print_declared_axis(axis: Axis) -> String {
    match axis.kind() {
        AxisKind::Memory => format!("{axis}=memory"),
        AxisKind::Device => format!("{axis}=device"),
        AxisKind::Thread { of, within } => format!("{axis}={of}/{within}"),
    }
}

/// The text of a tile layout.
pub fn print_tile_layout(tile: &TileLayout) -> String {
    let mut out = print_iters('S', tile.shard());
    if !tile.replica().is_empty() {
        out += " + ";
        out += &print_iters('R', tile.replica());
    }
    for (axis, value) in tile.offset() {
        let _ = write!(out, " + {}", print_on_axis(*value, *axis));
    }
    out
}

fn print_on_axis(value: i64, axis: Axis) -> String {
    if axis == Axis::M { value.to_string() } else { format!("{value}@{axis}") }
}

fn print_iters(letter: char, iters: &[Iter]) -> String {
    match iters {
        [] => format!("{letter}[]"),
        [it] => format!("{letter}[{}:{}]", it.extent, print_on_axis(it.stride, it.axis)),
        many => {
            let extents: Vec<_> = many.iter().map(|it| it.extent.to_string()).collect();
            let strides: Vec<_> = many.iter().map(|it| print_on_axis(it.stride, it.axis)).collect();
            format!("{letter}[({}):({})]", extents.join(","), strides.join(","))
        }
    }
}

fn print_window_dim(d: &PaddedExtent) -> String {
    match d {
        d if d.begin == 0 && d.valid == d.padded => d.valid.to_string(),
        d if d.begin == 0 => format!("{}/{}", d.valid, d.padded),
        d => format!("{}..{}/{}", d.begin, d.begin + d.valid, d.padded),
    }
}

/// `T.` before a name, the module that upstream prints.
fn skip_module_prefix(c: &mut TextCursor<'_>) {
    let mut ahead = c.clone();
    if ahead.eat_word("T") && ahead.eat_char('.') {
        *c = ahead;
    }
}

/// The three numbers of a swizzle before the layout, as TVM prints a composition.
fn read_leading_numbers(c: &mut TextCursor<'_>) -> Result<[i64; 3]> {
    let m = c.read_integer(SWIZZLE[0].0)?.value;
    c.expect_char(',', "after M")?;
    let b = c.read_integer(SWIZZLE[1].0)?.value;
    c.expect_char(',', "after B")?;
    Ok([m, b, c.read_integer(SWIZZLE[2].0)?.value])
}

/// `, swizzle_inner=True` after the layout of a composition, or nothing.
fn read_trailing_variant(c: &mut TextCursor<'_>) -> Result<bool> {
    if !c.eat_char(',') {
        return Ok(true);
    }
    if c.eat_word("swizzle_inner") {
        c.expect_char('=', "after `swizzle_inner`")?;
    }
    match (c.eat_word("True"), c.eat_word("False")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(c.refuse_next_token("True or False")),
    }
}

fn read_layout(c: &mut TextCursor<'_>, axes: &AxisTable) -> Result<Layout> {
    let start = c.next_token_start();
    skip_module_prefix(c);
    let composed = c.eat_word("ComposeLayout");
    if composed {
        c.expect_char('(', "after `ComposeLayout`")?;
    }
    let first = c.next_token_start();
    let numbers = match composed && c.peek_char().is_some_and(|ch| ch.is_ascii_digit()) {
        true => Some((read_leading_numbers(c)?, first..c.last_token_end())),
        false => None,
    };
    let mut swizzle = if numbers.is_some() { None } else { read_swizzle(c)? };
    if composed {
        if swizzle.is_none() && numbers.is_none() {
            return Err(c.refuse_next_token("a swizzle such as Swizzle(3,3,3)"));
        }
        c.expect_char(',', "between the swizzle and the layout")?;
    } else if let Some(sw) = swizzle
        && c.peek_char().is_none()
    {
        return layout_of_swizzle_alone(sw)
            .map_err(|e| Diagnostic::meaning_error(start..c.last_token_end(), e));
    } else if swizzle.is_some() && !c.eat_char('∘') && !c.eat_word("o") {
        return Err(c.refuse_next_token("`o` and the layout that is swizzled"));
    }
    let body = c.next_token_start();
    let tile = read_tile_layout(c, axes)?;
    if let Some(([m, b, s], span)) = numbers {
        let found = Swizzle::new(m, b, s, read_trailing_variant(c)?);
        swizzle = Some(found.map_err(|e| Diagnostic::meaning_error(span, e))?);
    }
    if composed {
        c.expect_char(')', "at the end of `ComposeLayout(..)`")?;
    }
    let end = c.next_token_start();
    let layout = match swizzle {
        Some(sw) => Layout::from_swizzled_tile(sw, tile)
            .map_err(|e| Diagnostic::meaning_error(start..end, e))?,
        None => tile.into(),
    };
    let at = c.next_token_start();
    if !c.eat_word("valid") {
        return Ok(layout);
    }
    let window = read_valid_window(c)?;
    let span = at..c.last_token_end();
    let window =
        ValidWindow::new(window).map_err(|e| Diagnostic::meaning_error(span.clone(), e))?;
    layout.with_window(window).map_err(|e| {
        let help = format!("the layout before it (byte {body}) says how many positions there are");
        Diagnostic::meaning_error(span, e).with_help(help)
    })
}

/// A swizzle by itself: the permuted addresses of one of its periods, as a layout of memory.
fn layout_of_swizzle_alone(sw: Swizzle) -> zellige_layout::Result<Layout> {
    let period =
        1i64.checked_shl(sw.per_element() + sw.swizzle_len() + sw.atom_len()).filter(|n| *n > 0);
    let period = period.ok_or_else(|| LayoutError::overflow_of("the period of the swizzle"))?;
    Layout::from_swizzled_tile(sw, TileLayout::row_major(&[period])?)
}

/// A layout without swizzle, by itself or inside `TileLayout(..)`.
fn read_tile_layout(c: &mut TextCursor<'_>, axes: &AxisTable) -> Result<TileLayout> {
    skip_module_prefix(c);
    if !c.eat_word("TileLayout") {
        return read_terms(c, axes);
    }
    c.expect_char('(', "after `TileLayout`")?;
    let tile = read_terms(c, axes)?;
    c.expect_char(')', "at the end of `TileLayout(..)`")?;
    Ok(tile)
}

/// The numbers of a swizzle in their order: the description of each, and its names.
const SWIZZLE: [(&str, [&str; 2]); 3] = [
    ("M, the number of low bits that stay", ["M", "per_element"]),
    ("B, the number of bits that are XORed", ["B", "swizzle_len"]),
    ("S, the distance between the two bit fields", ["S", "atom_len"]),
];

fn read_swizzle(c: &mut TextCursor<'_>) -> Result<Option<Swizzle>> {
    let start = c.next_token_start();
    let mut ahead = c.clone();
    skip_module_prefix(&mut ahead);
    if !ahead.eat_word("Swizzle") && !ahead.eat_word("SwizzleLayout") {
        return Ok(None);
    }
    *c = ahead;
    c.expect_char('(', "after `Swizzle`")?;
    let mut numbers: [Option<i64>; 3] = [None; 3];
    let mut inner = None;
    let mut named = false;
    for k in 0..4 {
        if k > 0 && c.peek_char() == Some(')') && numbers.iter().all(Option::is_some) {
            break;
        }
        if k > 0 {
            let after = ["", "after M", "after B", "after S"][k];
            c.expect_char(',', if named { "between the numbers of a swizzle" } else { after })?;
        }
        let mut ahead = c.clone();
        let key = ahead.read_word().filter(|_| ahead.eat_char('='));
        let slot = match &key {
            None if named => return Err(c.refuse_next_token("a named number, such as S=3")),
            None if k < 3 => k,
            None => {
                inner = Some(read_swizzle_variant(c)?);
                break;
            }
            Some(w) if matches!(w.value, "swizzle_inner" | "inner") && inner.is_none() => {
                *c = ahead;
                let yes = c.eat_word("True");
                if !yes && !c.eat_word("False") {
                    return Err(c.refuse_next_token("True or False"));
                }
                inner = Some(yes);
                named = true;
                continue;
            }
            Some(w) => {
                let found = SWIZZLE.iter().position(|(_, names)| names.contains(&w.value));
                let Some(slot) = found.filter(|slot| numbers[*slot].is_none()) else {
                    let message = format!(
                        "`{}` of a swizzle is unknown or given twice",
                        shorten_name(w.value)
                    );
                    let label = "expected M, B and S, each once";
                    return Err(Diagnostic::syntax_error(w.span.clone(), message, label));
                };
                *c = ahead;
                named = true;
                slot
            }
        };
        numbers[slot] = Some(c.read_integer(SWIZZLE[slot].0)?.value);
    }
    let missing = numbers.iter().position(Option::is_none);
    let [Some(m), Some(b), Some(s)] = numbers else {
        let what = SWIZZLE[missing.unwrap_or(0)].0;
        return Err(c.refuse_next_token(what));
    };
    c.expect_char(')', "at the end of the swizzle")?;
    let span = start..c.last_token_end();
    let swizzle = Swizzle::new(m, b, s, inner.unwrap_or(true));
    swizzle.map(Some).map_err(|e| Diagnostic::meaning_error(span, e))
}

/// `inner` or `outer`.
fn read_swizzle_variant(c: &mut TextCursor<'_>) -> Result<bool> {
    match c.read_word() {
        Some(w) if w.value == "inner" => Ok(true),
        Some(w) if w.value == "outer" => Ok(false),
        Some(w) => {
            let message = format!("unknown swizzle variant `{}`", w.value);
            Err(Diagnostic::syntax_error(w.span, message, "expected `inner` or `outer`"))
        }
        None => Err(c.refuse_next_token("`inner` or `outer`")),
    }
}

/// The sum of the parsed terms, before the algebra checks it.
#[derive(Default)]
struct TermSum {
    shard: Option<(Vec<Iter>, Vec<Range<usize>>)>,
    replica: Option<(Vec<Iter>, Vec<Range<usize>>)>,
    offset: Vec<(Axis, i64)>,
}

fn read_terms(c: &mut TextCursor<'_>, axes: &AxisTable) -> Result<TileLayout> {
    let start = c.next_token_start();
    let mut parts = TermSum::default();
    let mut negative = false;
    loop {
        read_term(c, axes, negative, &mut parts)?;
        if c.eat_char('+') {
            negative = false;
        } else if c.eat_char('-') {
            negative = true;
        } else {
            break;
        }
    }
    let span = start..c.last_token_end();
    let Some((shard, shard_spans)) = parts.shard else {
        let message = "the layout has no shard `S[..]`";
        return Err(Diagnostic::syntax_error(span, message, "expected `S[..]` among these terms"));
    };
    let (replica, replica_spans) = parts.replica.unwrap_or_default();
    TileLayout::new(shard, replica, parts.offset).map_err(|e| {
        // Underline the iter that the algebra's error names.
        let place = match &e {
            zellige_layout::LayoutError::NegativeExtent { what, index, .. } => {
                if what.starts_with('s') {
                    shard_spans.get(*index)
                } else {
                    replica_spans.get(*index)
                }
            }
            _ => None,
        };
        Diagnostic::meaning_error(place.cloned().unwrap_or(span), e)
    })
}

fn read_term(
    c: &mut TextCursor<'_>,
    axes: &AxisTable,
    negative: bool,
    parts: &mut TermSum,
) -> Result<()> {
    let start = c.next_token_start();
    if c.peek_char().is_some_and(|ch| ch.is_ascii_digit() || ch == '-' || ch == '+') {
        let value = c.read_integer("an offset")?;
        let axis = read_axis_suffix(c, axes)?;
        let signed = if negative { value.value.checked_neg() } else { Some(value.value) };
        let signed = signed.ok_or_else(|| {
            Diagnostic::syntax_error(value.span, "the offset does not fit in 64 bits", "too large")
                .with_id("Z003")
        })?;
        parts.offset.push((axis, signed));
        return Ok(());
    }
    skip_module_prefix(c);
    let word = c.read_word();
    let letter = match &word {
        Some(w) if w.value == "S" || w.value == "R" => w.value,
        Some(w) => {
            let message = format!("unexpected name `{}`", shorten_name(w.value));
            let label = "expected `S[..]`, `R[..]` or an offset such as 5@warpid";
            return Err(Diagnostic::syntax_error(w.span.clone(), message, label));
        }
        None => return Err(c.refuse_next_token("`S[..]`, `R[..]` or an offset")),
    };
    let (after, at_end) = match letter {
        "S" => ("after `S`", "at the end of `S[..]`"),
        _ => ("after `R`", "at the end of `R[..]`"),
    };
    c.expect_char('[', after)?;
    let iters = read_iters(c, axes)?;
    c.expect_char(']', at_end)?;
    let span = start..c.last_token_end();
    // A set has no negative, so only offsets can be subtracted.
    if negative {
        let message = format!("`{letter}[..]` cannot be subtracted");
        return Err(Diagnostic::syntax_error(span, message, "write + before it"));
    }
    let slot = if letter == "S" { &mut parts.shard } else { &mut parts.replica };
    if slot.is_some() {
        let message = format!("a second `{letter}[..]`");
        let help = format!("write all iters in one: {letter}[(4,2):(8,1)]");
        return Err(Diagnostic::syntax_error(span, message, "one is already given").with_help(help));
    }
    *slot = Some(iters);
    Ok(())
}

fn shorten_name(name: &str) -> String {
    name.chars().take(40).collect()
}

fn read_iters(c: &mut TextCursor<'_>, axes: &AxisTable) -> Result<(Vec<Iter>, Vec<Range<usize>>)> {
    let start = c.next_token_start();
    let mut extents: Vec<Spanned<i64>> = Vec::new();
    // `S[8, 4]` without strides is accepted, because TVM prints row-major layouts that way; with
    // strides the brackets are needed to tell both lists apart.
    let bracketed = c.eat_char('(');
    let close = if bracketed { ')' } else { ']' };
    while c.peek_char() != Some(close) && c.peek_char() != Some(':') {
        if !extents.is_empty() {
            if !c.eat_char(',') {
                return Err(c.refuse_next_token(&format!("`,`, `:` or `{close}`")));
            }
            if c.peek_char() == Some(close) {
                break;
            }
        }
        extents.push(c.read_integer("an extent")?);
    }
    if bracketed {
        c.expect_char(')', "after the extents")?;
    }
    let spans = extents.iter().map(|e| e.span.clone()).collect();
    if !c.eat_char(':') {
        let values: Vec<i64> = extents.iter().map(|e| e.value).collect();
        let span = start..c.last_token_end();
        let tile = TileLayout::row_major(&values).map_err(|e| match e {
            zellige_layout::LayoutError::NegativeExtent { index, .. } => {
                Diagnostic::meaning_error(extents[index].span.clone(), e)
            }
            e => Diagnostic::meaning_error(span, e),
        })?;
        return Ok((tile.shard().to_vec(), spans));
    }
    if !bracketed && extents.len() > 1 {
        let message = "several extents with strides need brackets";
        let label = "write S[(8,4):(4,1)]";
        return Err(Diagnostic::syntax_error(start..c.last_token_end(), message, label));
    }
    let strides_start = c.next_token_start();
    let mut strides: Vec<(i64, Axis)> = Vec::new();
    let many = c.eat_char('(');
    loop {
        if many && c.peek_char() == Some(')') {
            break;
        }
        let value = c.read_integer("a stride")?.value;
        strides.push((value, read_axis_suffix(c, axes)?));
        if !(many && c.eat_char(',')) {
            break;
        }
    }
    if many {
        c.expect_char(')', "after the strides")?;
    }
    if strides.len() != extents.len() {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let message =
            format!("{} but {}", count(extents.len(), "extent"), count(strides.len(), "stride"));
        let label = format!("expected {}", count(extents.len(), "stride"));
        return Err(Diagnostic::syntax_error(strides_start..c.last_token_end(), message, label)
            .with_id("Z004"));
    }
    let iters = extents.iter().zip(strides).map(|(e, (s, a))| Iter::new(e.value, s, a)).collect();
    Ok((iters, spans))
}

/// `@axis`, or `m` where it is left out.
fn read_axis_suffix(c: &mut TextCursor<'_>, axes: &AxisTable) -> Result<Axis> {
    if !c.eat_char('@') {
        return Ok(Axis::M);
    }
    let mut ahead = c.clone();
    if ahead.eat_word("Axis") && ahead.eat_char('.') {
        *c = ahead;
    }
    let Some(name) = c.read_word() else { return Err(c.refuse_next_token("the name of an axis")) };
    axes.get(name.value).map_err(|e| {
        let known: Vec<String> = axes.iter().map(|a| a.name().to_string()).collect();
        let message = format!("unknown axis `{}`", shorten_name(name.value));
        Diagnostic { message, ..Diagnostic::meaning_error(name.span, e) }
            .with_help(format!(
                "known axes: {}, and the aliases tid (tx) and reg (m); others are declared, as in S[2:1@x] axes[x=device]",
                known.join(", ")
            ))
    })
}

fn read_valid_window(c: &mut TextCursor<'_>) -> Result<Vec<PaddedExtent>> {
    c.expect_char('[', "after `valid`")?;
    let mut dims = Vec::new();
    while !c.eat_char(']') {
        if !dims.is_empty() {
            if !c.eat_char(',') {
                return Err(c.refuse_next_token("`,` or `]`"));
            }
            if c.eat_char(']') {
                break;
            }
        }
        let first = c.read_integer("a valid extent")?;
        let (begin, valid) = if c.eat_char('.') {
            c.expect_char('.', "in `begin..end`")?;
            let end = c.read_integer("the end of the valid part")?;
            let valid = end.value.checked_sub(first.value).ok_or_else(|| {
                Diagnostic::syntax_error(end.span, "the valid part does not fit in 64 bits", "here")
                    .with_id("Z003")
            })?;
            (first.value, valid)
        } else {
            (0, first.value)
        };
        let padded = if c.eat_char('/') {
            c.read_integer("a padded extent")?.value
        } else {
            // Saturating, so that the constructor of the window reports the overflow with its
            // dimension.
            begin.saturating_add(valid)
        };
        dims.push(PaddedExtent { begin, valid, padded });
    }
    Ok(dims)
}
