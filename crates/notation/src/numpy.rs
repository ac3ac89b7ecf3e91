//! NumPy arrays: `{'shape': (4, 6), 'strides': (48, 8), 'typestr': '<f8', 'data': (140, False), 'version': 3}`, and
//! `shape=(4, 6) order='F'`.
//!
//! The dictionary is `__array_interface__`, as NumPy's "The array interface protocol" defines it. Its
//! strides and its `offset` are in bytes and have to be multiples of the item size, which `typestr` ends
//! in: a field of a record is not at a multiple of it and has no layout in elements. Without strides, or
//! with `None`, the array is row-major. `descr`, which NumPy always prints, describes the inside of an
//! item; it is parsed and not kept. The address in `data` does not matter, because a layout begins at the
//! first element.
//!
//! In the short form the elements follow one another, the last dimension fastest (`'C'`) or the first (`'F'`).
//!
//! A layout is written in the short form if that is possible; else as a dictionary whose items have the
//! type of the elements, if that is known. Otherwise the items have one byte (`'|V1'`), so that strides are
//! counted in elements, because a layout does not state how large an element is.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::sharding::python;
use crate::torch::express_as_strided_layout;
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use zellige_float::Dtype;
use zellige_layout::int::{checked_product, row_major_strides};
use zellige_layout::{Layout, LayoutError, StridedLayout, check_nonnegative_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "numpy",
    doc: "NumPy `__array_interface__`",
    example: "{'shape': (4, 6), 'strides': (8, 32), 'typestr': '<f8', 'version': 3}",
    recognises: recognises_numpy,
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::NUMPY, x)),
    print: ParsedText::written_notation_text,
    express: express_as_numpy,
    needs_dtype: false,
};

/// The layout of a NumPy array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyLayout {
    shape: Vec<i64>,
    form: NumpyForm,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NumpyForm {
    /// `order='C'` or `'F'`.
    Order(char),
    Interface {
        /// In bytes; `None` is row-major.
        strides: Option<Vec<i64>>,
        typestr: String,
        offset: i64,
        /// Address, and whether it is read-only.
        data: Option<(i64, bool)>,
    },
}

const KEYS: &str = "shape, typestr, strides, offset, data, descr and version";

fn recognises_numpy(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    if c.clone().read_word().is_some_and(|w| w.value == "shape") {
        let _ = c.read_word();
        return c.eat_char('=') && c.peek_char() == Some('(');
    }
    c.eat_char('{') && matches!(c.peek_char(), Some('\'' | '"')) && text.contains("typestr")
}

/// Reads an array interface, or a shape and an order.
pub fn parse(text: &str) -> Result<NumpyLayout> {
    let mut c = TextCursor::new(text);
    let found = if c.peek_char() == Some('{') {
        read_array_interface(&mut c, text)?
    } else {
        read_shape_and_order(&mut c, text)?
    };
    c.expect_end("the layout")?;
    Ok(found)
}

fn read_shape_and_order(c: &mut TextCursor<'_>, text: &str) -> Result<NumpyLayout> {
    if !c.eat_word("shape") {
        return Err(c.refuse_next_token("an array interface, or shape=(..) order='C'"));
    }
    c.expect_char('=', "after `shape`")?;
    let shape = read_int_tuple(c, "extents")?;
    check_array_shape(&shape)?;
    let _ = c.eat_char(',');
    let mut order = 'C';
    if c.eat_word("order") {
        c.expect_char('=', "after `order`")?;
        let given = python::read_python_string(c, text, "'C' or 'F'")?;
        order = match given.value.as_str() {
            "C" => 'C',
            "F" => 'F',
            "A" | "K" => {
                let message = format!("order='{}' depends on another array", given.value);
                return Err(Diagnostic::syntax_error(given.span, message, "'C' or 'F'"));
            }
            _ => {
                let message = "an unknown order";
                return Err(Diagnostic::syntax_error(given.span, message, "expected 'C' or 'F'"));
            }
        };
    }
    Ok(NumpyLayout { shape: shape.value, form: NumpyForm::Order(order) })
}

/// A tuple of integers: `(4,)` has a comma.
fn read_int_tuple(c: &mut TextCursor<'_>, what: &str) -> Result<Spanned<Vec<i64>>> {
    if c.peek_char() == Some('(') {
        c.read_int_list(what)
    } else {
        Err(c.refuse_next_token(&format!("a tuple of {what}")))
    }
}

fn check_array_shape(shape: &Spanned<Vec<i64>>) -> Result<()> {
    check_nonnegative_sizes(&shape.value)
        .and_then(|()| checked_product(shape.value.iter().copied(), "the number of elements"))
        .map_err(|e| Diagnostic::meaning_error(shape.span.clone(), e))?;
    Ok(())
}

fn read_array_interface(c: &mut TextCursor<'_>, text: &str) -> Result<NumpyLayout> {
    let start = c.next_token_start();
    c.expect_char('{', "at the beginning")?;
    let (mut shape, mut strides, mut typestr, mut data) = (None, None, None, None);
    let (mut offset, mut version, mut descr) = (None, None, None);
    let mut seen: Vec<String> = Vec::new();
    while !c.eat_char('}') {
        if !seen.is_empty() {
            c.expect_char(',', "between entries")?;
            if c.eat_char('}') {
                break;
            }
        }
        let key = python::read_python_string(c, text, "a key in quotes")?;
        if seen.contains(&key.value) {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax_error(key.span, message, "already given"));
        }
        c.expect_char(':', "after a key")?;
        match key.value.as_str() {
            "shape" => shape = Some(read_int_tuple(c, "extents")?),
            // `None` means row-major in the protocol, as if the key were missing.
            "strides" if c.eat_word("None") => {}
            "strides" => strides = Some(read_int_tuple(c, "strides")?),
            "typestr" => {
                typestr = Some(python::read_python_string(c, text, "a type such as '<f8'")?);
            }
            "offset" => offset = Some(c.read_integer("an offset")?),
            "version" => version = Some(c.read_integer("a version")?),
            // NumPy exports `None` for objects that provide the buffer elsewhere; a layout does not
            // need the address.
            "data" if c.eat_word("None") => {}
            "data" => {
                c.expect_char('(', "before the address")?;
                let address = c.read_integer("an address")?.value;
                c.expect_char(',', "after the address")?;
                let read_only = c.eat_word("True");
                if !read_only && !c.eat_word("False") {
                    return Err(c.refuse_next_token("True or False"));
                }
                c.expect_char(')', "after the address")?;
                data = Some((address, read_only));
            }
            "descr" => descr = Some(read_item_fields(c, text)?),
            "mask" => {
                let message =
                    "`mask` says which items are valid, one by one, which is not a layout";
                return Err(Diagnostic::syntax_error(key.span, message, "not supported")
                    .with_help(format!("keys: {KEYS}")));
            }
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("unknown key `{shown}`");
                return Err(Diagnostic::syntax_error(key.span, message, "unknown")
                    .with_help(format!("keys: {KEYS}")));
            }
        }
        seen.push(key.value);
    }
    let span = start..c.last_token_end();
    let missing = |what: &str| {
        let message = format!("`{what}` is missing");
        Diagnostic::syntax_error(
            span.clone(),
            message,
            "an array interface has shape, typestr and version",
        )
    };
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let typestr = typestr.ok_or_else(|| missing("typestr"))?;
    let version = version.ok_or_else(|| missing("version"))?;
    // Version 3 is the only one that NumPy documents; older ones lack fields.
    if version.value != 3 {
        let message = format!("version {} of the array interface", version.value);
        return Err(Diagnostic::syntax_error(version.span, message, "version 3 is read"));
    }
    check_array_shape(&shape)?;
    let bytes = parse_item_bytes(&typestr)?;
    // The two describe one item. A contradiction means that the dictionary was edited by hand.
    if let Some(Spanned { value: Some(item), span }) = descr
        && item != typestr.value
    {
        let message =
            format!("items of `{}`, and typestr says `{}`", shorten_text(&item), typestr.value);
        return Err(Diagnostic::syntax_error(span, message, "another type"));
    }
    let whole = |values: &[i64], span: &std::ops::Range<usize>, what: &str| match values
        .iter()
        .find(|v| **v % bytes != 0)
    {
        None => Ok(()),
        Some(v) => {
            let message =
                format!("{what} of {v} bytes is not a multiple of the item size, {bytes} bytes");
            Err(Diagnostic::syntax_error(span.clone(), message, "not a whole number of items")
                .with_help("a field of a record is between items: give the array of the records"))
        }
    };
    if let Some(strides) = &strides {
        if strides.value.len() != shape.value.len() {
            let message =
                format!("{} extents and {} strides", shape.value.len(), strides.value.len());
            return Err(Diagnostic::syntax_error(
                strides.span.clone(),
                message,
                "one stride for every extent",
            )
            .with_id("Z004"));
        }
        whole(&strides.value, &strides.span, "a stride")?;
    }
    if let Some(offset) = &offset {
        whole(&[offset.value], &offset.span, "an offset")?;
    }
    let place = strides.as_ref().map_or(shape.span.clone(), |s| s.span.clone());
    let found = NumpyLayout {
        shape: shape.value,
        form: NumpyForm::Interface {
            strides: strides.map(|s| s.value),
            typestr: typestr.value,
            offset: offset.map_or(0, |o| o.value),
            data,
        },
    };
    found.to_strided_layout().map_err(|d| Diagnostic { span: place, ..d })?;
    Ok(found)
}

/// The item type in `descr`: that of items without fields, `[('', '<f8')]`; `None` for records, which a
/// layout treats as whole items.
fn read_item_fields(c: &mut TextCursor<'_>, text: &str) -> Result<Spanned<Option<String>>> {
    let start = c.next_token_start();
    if c.peek_char() != Some('[') {
        return Err(c.refuse_next_token("a list of fields such as [('', '<f8')]"));
    }
    let mut ahead = c.clone();
    if ahead.eat_char('[')
        && ahead.eat_char('(')
        && python::read_python_string(&mut ahead, text, "a name")
            .is_ok_and(|name| name.value.is_empty())
        && ahead.eat_char(',')
        && let Ok(item) = python::read_python_string(&mut ahead, text, "a type")
        && ahead.eat_char(')')
        && (ahead.eat_char(']') || ahead.eat_char(',') && ahead.eat_char(']'))
    {
        *c = ahead;
        return Ok(Spanned { value: Some(item.value), span: start..c.last_token_end() });
    }
    let (mut depth, mut quote) = (0usize, None);
    for (i, ch) in text[start..].char_indices() {
        match (quote, ch) {
            (Some(q), _) if ch == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(ch),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        if depth == 0 {
            c.skip_to_place(start + i + 1);
            return Ok(Spanned { value: None, span: start..c.last_token_end() });
        }
    }
    let message = "a list of fields without an end";
    Err(Diagnostic::syntax_error(start..text.len(), message, "expected `]`"))
}

fn shorten_text(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The bytes of an item, from the end of a type string: `<f8`.
fn parse_item_bytes(typestr: &Spanned<String>) -> Result<i64> {
    let bad = |message: String| {
        Err(Diagnostic::syntax_error(typestr.span.clone(), message, "such as '<f8' or '|u1'")
            .with_help("the order of bytes (<, > or |), a kind (b, i, u, f, c, m, M, O, S, U, V) and the bytes of an item"))
    };
    let text = typestr.value.as_str();
    let mut chars = text.chars();
    let (order, kind) = (chars.next(), chars.next());
    let size = chars.as_str().parse::<i64>().ok();
    match (order, kind, size) {
        (Some('<' | '>' | '|' | '='), Some('t'), Some(_)) => {
            bad("items of bits have no size in bytes".into())
        }
        (Some('<' | '>' | '|' | '='), Some(k), Some(n)) if "biufcmMOSUV".contains(k) && n > 0 => {
            // NumPy counts the size of `U` in characters of four bytes (UCS-4).
            let n = if k == 'U' { n.checked_mul(4) } else { Some(n) };
            n.map_or_else(|| bad(format!("`{text}` is too large")), Ok)
        }
        _ => bad(format!("`{}` is not a type string", text.chars().take(40).collect::<String>())),
    }
}

impl NumpyLayout {
    /// The array in elements.
    pub fn to_strided_layout(&self) -> Result<StridedLayout> {
        match &self.form {
            NumpyForm::Order('C') => Ok(StridedLayout::new_contiguous(&self.shape)?),
            // Column-major strides are the row-major ones of the reversed shape, reversed.
            NumpyForm::Order(_) => {
                let reversed: Vec<i64> = self.shape.iter().rev().copied().collect();
                let mut strides = row_major_strides(&reversed)?;
                strides.reverse();
                Ok(StridedLayout::new(&self.shape, &strides, 0)?)
            }
            NumpyForm::Interface { strides, typestr, offset, .. } => {
                let spanned = Spanned { value: typestr.clone(), span: 0..0 };
                let bytes = parse_item_bytes(&spanned)?;
                let strides = match strides {
                    Some(strides) => strides.iter().map(|s| s / bytes).collect(),
                    None => row_major_strides(&self.shape)?,
                };
                Ok(StridedLayout::new(&self.shape, &strides, offset / bytes)?)
            }
        }
    }
}

/// A tuple, as Python prints it.
fn print_int_tuple(list: &[i64]) -> String {
    let comma = if list.len() == 1 { "," } else { "" };
    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("({}{comma})", list.join(", "))
}

impl WrittenLayout for NumpyLayout {
    fn element_bits(&self) -> Option<i64> {
        let NumpyForm::Interface { typestr, .. } = &self.form else { return None };
        let spanned = Spanned { value: typestr.clone(), span: 0..0 };
        parse_item_bytes(&spanned).ok()?.checked_mul(8)
    }

    fn notation_text(&self) -> String {
        let shape = print_int_tuple(&self.shape);
        match &self.form {
            NumpyForm::Order(order) => format!("shape={shape} order='{order}'"),
            NumpyForm::Interface { strides, typestr, offset, data } => {
                let mut out = format!("{{'shape': {shape}");
                if let Some(strides) = strides {
                    out += &format!(", 'strides': {}", print_int_tuple(strides));
                }
                out += &format!(", 'typestr': '{typestr}'");
                if *offset != 0 {
                    out += &format!(", 'offset': {offset}");
                }
                if let Some((address, read_only)) = data {
                    let read_only = if *read_only { "True" } else { "False" };
                    out += &format!(", 'data': ({address}, {read_only})");
                }
                out + ", 'version': 3}"
            }
        }
    }

    fn layout_over_shape(&self, _: Option<&[i64]>) -> Result<Layout> {
        Ok(self.to_strided_layout()?.to_layout()?)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.shape.clone())
    }
}

/// The type string of a dtype; a dtype without a NumPy number type is written as uninterpreted bytes.
/// `None` if an element is less than a byte.
fn typestr_of_dtype(dtype: Dtype) -> Option<String> {
    let kind = match dtype {
        Dtype::Float64 | Dtype::Float32 | Dtype::Float16 => 'f',
        Dtype::Complex64 | Dtype::Complex128 => 'c',
        Dtype::Int64 | Dtype::Int32 | Dtype::Int16 | Dtype::Int8 => 'i',
        Dtype::Qint8 | Dtype::Qint32 => 'i',
        Dtype::Uint64 | Dtype::Uint32 | Dtype::Uint16 | Dtype::Uint8 | Dtype::Quint8 => 'u',
        Dtype::Bool => 'b',
        _ => 'V',
    };
    let bytes = dtype.bits() / 8;
    // Byte order has no meaning for one byte, nor for uninterpreted bytes.
    let order = if bytes == 1 || kind == 'V' { '|' } else { '<' };
    (dtype.bits() % 8 == 0).then(|| format!("{order}{kind}{bytes}"))
}

/// A layout as an array interface: strides in bytes of the elements' type, or in elements where that is not known.
fn array_interface_of(
    host: &StridedLayout,
    dtype: Option<Dtype>,
) -> Result<NumpyForm, ConversionRefusal> {
    let typestr = match dtype.map(|d| (d, typestr_of_dtype(d))) {
        None => "|V1".to_string(),
        Some((_, Some(typestr))) => typestr,
        Some((d, None)) => {
            let reason = format!("NumPy has no items of {} bits, as {} has", d.bits(), d.name());
            return not_expressible(reason, None);
        }
    };
    let bytes = dtype.map_or(1, |d| d.bits() / 8);
    let in_bytes =
        |n: i64| n.checked_mul(bytes).ok_or_else(|| LayoutError::overflow_of("a stride in bytes"));
    let strides = host.stride().iter().map(|s| in_bytes(*s)).collect::<Result<_, _>>()?;
    let offset = in_bytes(host.offset())?;
    Ok(NumpyForm::Interface { strides: Some(strides), typestr, offset, data: None })
}

/// The text of a layout, or why there is none.
pub fn express_as_numpy(
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
) -> Result<String, ConversionRefusal> {
    let host = express_as_strided_layout(layout, shape)?;
    let form = match host.offset() {
        0 if host.is_row_major() => NumpyForm::Order('C'),
        0 if host.is_column_major() => NumpyForm::Order('F'),
        _ => array_interface_of(&host, dtype)?,
    };
    Ok(NumpyLayout { shape: shape.to_vec(), form }.notation_text())
}
