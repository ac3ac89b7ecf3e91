//! NumPy arrays: `{'shape': (4, 6), 'strides': (48, 8), 'typestr': '<f8', 'data': (140, False), 'version': 3}`, and
//! `shape=(4, 6) order='F'`.
//!
//! The dictionary is `__array_interface__`. Its strides and its `offset` are in bytes and have to be multiples of the item size, which
//! `typestr` ends in: a field of a record is read at other places and has no layout in elements. Without strides, or with
//! `None`, the array is row-major. `descr`, which NumPy always prints, says what is inside of an item; it is read and not kept. The address in `data` says nothing of the layout, which begins at the first element.
//!
//! In the short form the elements follow one another, the last dimension fastest (`'C'`) or the first (`'F'`).
//!
//! A layout is written in the short form where that is it; else as a dictionary, of items of the type of the elements where that is
//! known. Otherwise the items have one byte (`'|V1'`), so that strides are counted in elements, because a layout does not say
//! how large an element is.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{Refusal, no};
use crate::cursor::{Cursor, Spanned};
use crate::notation::NotationRow;
use crate::sharding::python;
use crate::torch::to_strided;
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use zellige_float::Dtype;
use zellige_layout::int::{product, row_major};
use zellige_layout::{Error, Layout, Strided, check_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "numpy",
    doc: "NumPy `__array_interface__`",
    example: "{'shape': (4, 6), 'strides': (8, 32), 'typestr': '<f8', 'version': 3}",
    recognises,
    parse: |text, _| parse(text).map(|x| Parsed::of_written(Notation::NUMPY, x)),
    print: Parsed::written_text,
    express,
    needs_dtype: false,
};

/// The layout of a NumPy array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumpyLayout {
    shape: Vec<i64>,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
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

fn recognises(text: &str) -> bool {
    let mut c = Cursor::new(text);
    if c.clone().word().is_some_and(|w| w.value == "shape") {
        let _ = c.word();
        return c.eat('=') && c.peek() == Some('(');
    }
    c.eat('{') && matches!(c.peek(), Some('\'' | '"')) && text.contains("typestr")
}

/// Reads an array interface, or a shape and an order.
pub fn parse(text: &str) -> Result<NumpyLayout> {
    let mut c = Cursor::new(text);
    let found = if c.peek() == Some('{') { interface(&mut c, text)? } else { short(&mut c, text)? };
    c.finish("the layout")?;
    Ok(found)
}

fn short(c: &mut Cursor<'_>, text: &str) -> Result<NumpyLayout> {
    if !c.eat_word("shape") {
        return Err(c.expected("an array interface, or shape=(..) order='C'"));
    }
    c.expect('=', "after `shape`")?;
    let shape = tuple(c, "extents")?;
    check(&shape)?;
    let _ = c.eat(',');
    let mut order = 'C';
    if c.eat_word("order") {
        c.expect('=', "after `order`")?;
        let given = python::string(c, text, "'C' or 'F'")?;
        order = match given.value.as_str() {
            "C" => 'C',
            "F" => 'F',
            "A" | "K" => {
                let message = format!("order='{}' depends on another array", given.value);
                return Err(Diagnostic::syntax(given.span, message, "'C' or 'F'"));
            }
            _ => {
                let message = "an unknown order";
                return Err(Diagnostic::syntax(given.span, message, "expected 'C' or 'F'"));
            }
        };
    }
    Ok(NumpyLayout { shape: shape.value, form: Form::Order(order) })
}

/// A tuple of integers: `(4,)` has a comma.
fn tuple(c: &mut Cursor<'_>, what: &str) -> Result<Spanned<Vec<i64>>> {
    if c.peek() == Some('(') {
        c.int_list(what)
    } else {
        Err(c.expected(&format!("a tuple of {what}")))
    }
}

fn check(shape: &Spanned<Vec<i64>>) -> Result<()> {
    check_sizes(&shape.value)
        .and_then(|()| product(shape.value.iter().copied(), "the number of elements"))
        .map_err(|e| Diagnostic::meaning(shape.span.clone(), e))?;
    Ok(())
}

fn interface(c: &mut Cursor<'_>, text: &str) -> Result<NumpyLayout> {
    let start = c.at();
    c.expect('{', "at the beginning")?;
    let (mut shape, mut strides, mut typestr, mut data) = (None, None, None, None);
    let (mut offset, mut version, mut descr) = (None, None, None);
    let mut seen: Vec<String> = Vec::new();
    while !c.eat('}') {
        if !seen.is_empty() {
            c.expect(',', "between entries")?;
            if c.eat('}') {
                break;
            }
        }
        let key = python::string(c, text, "a key in quotes")?;
        if seen.contains(&key.value) {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax(key.span, message, "already given"));
        }
        c.expect(':', "after a key")?;
        match key.value.as_str() {
            "shape" => shape = Some(tuple(c, "extents")?),
            "strides" if c.eat_word("None") => {}
            "strides" => strides = Some(tuple(c, "strides")?),
            "typestr" => typestr = Some(python::string(c, text, "a type such as '<f8'")?),
            "offset" => offset = Some(c.int("an offset")?),
            "version" => version = Some(c.int("a version")?),
            "data" if c.eat_word("None") => {}
            "data" => {
                c.expect('(', "before the address")?;
                let address = c.int("an address")?.value;
                c.expect(',', "after the address")?;
                let read_only = c.eat_word("True");
                if !read_only && !c.eat_word("False") {
                    return Err(c.expected("True or False"));
                }
                c.expect(')', "after the address")?;
                data = Some((address, read_only));
            }
            "descr" => descr = Some(fields(c, text)?),
            "mask" => {
                let message = "`mask` says which items are valid, one by one: that is no layout";
                return Err(Diagnostic::syntax(key.span, message, "not supported")
                    .help(format!("keys: {KEYS}")));
            }
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("unknown key `{shown}`");
                return Err(
                    Diagnostic::syntax(key.span, message, "unknown").help(format!("keys: {KEYS}"))
                );
            }
        }
        seen.push(key.value);
    }
    let span = start..c.here();
    let missing = |what: &str| {
        let message = format!("`{what}` is missing");
        Diagnostic::syntax(
            span.clone(),
            message,
            "an array interface has shape, typestr and version",
        )
    };
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let typestr = typestr.ok_or_else(|| missing("typestr"))?;
    let version = version.ok_or_else(|| missing("version"))?;
    if version.value != 3 {
        let message = format!("version {} of the array interface", version.value);
        return Err(Diagnostic::syntax(version.span, message, "version 3 is read"));
    }
    check(&shape)?;
    let bytes = item_size(&typestr)?;
    if let Some(Spanned { value: Some(item), span }) = descr
        && item != typestr.value
    {
        let message = format!("items of `{}`, and typestr says `{}`", cut(&item), typestr.value);
        return Err(Diagnostic::syntax(span, message, "another type"));
    }
    let whole = |values: &[i64], span: &std::ops::Range<usize>, what: &str| match values
        .iter()
        .find(|v| **v % bytes != 0)
    {
        None => Ok(()),
        Some(v) => {
            let message =
                format!("{what} of {v} bytes is no multiple of the item size, {bytes} bytes");
            Err(Diagnostic::syntax(span.clone(), message, "not a whole number of items")
                .help("a field of a record lies between items: give the array of the records"))
        }
    };
    if let Some(strides) = &strides {
        if strides.value.len() != shape.value.len() {
            let message =
                format!("{} extents and {} strides", shape.value.len(), strides.value.len());
            return Err(Diagnostic::syntax(
                strides.span.clone(),
                message,
                "one stride for every extent",
            )
            .id("Z004"));
        }
        whole(&strides.value, &strides.span, "a stride")?;
    }
    if let Some(offset) = &offset {
        whole(&[offset.value], &offset.span, "an offset")?;
    }
    let place = strides.as_ref().map_or(shape.span.clone(), |s| s.span.clone());
    let found = NumpyLayout {
        shape: shape.value,
        form: Form::Interface {
            strides: strides.map(|s| s.value),
            typestr: typestr.value,
            offset: offset.map_or(0, |o| o.value),
            data,
        },
    };
    found.strided().map_err(|d| Diagnostic { span: place, ..d })?;
    Ok(found)
}

/// What `descr` says is inside of an item: the type of items that have no fields, `[('', '<f8')]`; none for records, of which
/// a layout places whole items.
fn fields(c: &mut Cursor<'_>, text: &str) -> Result<Spanned<Option<String>>> {
    let start = c.at();
    if c.peek() != Some('[') {
        return Err(c.expected("a list of fields such as [('', '<f8')]"));
    }
    let mut ahead = c.clone();
    if ahead.eat('[')
        && ahead.eat('(')
        && python::string(&mut ahead, text, "a name").is_ok_and(|name| name.value.is_empty())
        && ahead.eat(',')
        && let Ok(item) = python::string(&mut ahead, text, "a type")
        && ahead.eat(')')
        && (ahead.eat(']') || ahead.eat(',') && ahead.eat(']'))
    {
        *c = ahead;
        return Ok(Spanned { value: Some(item.value), span: start..c.here() });
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
            c.skip_to(start + i + 1);
            return Ok(Spanned { value: None, span: start..c.here() });
        }
    }
    let message = "a list of fields without an end";
    Err(Diagnostic::syntax(start..text.len(), message, "expected `]`"))
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The bytes of an item, from the end of a type string: `<f8`.
fn item_size(typestr: &Spanned<String>) -> Result<i64> {
    let bad = |message: String| {
        Err(Diagnostic::syntax(typestr.span.clone(), message, "such as '<f8' or '|u1'")
            .help("the order of bytes (<, > or |), a kind (b, i, u, f, c, m, M, O, S, U, V) and the bytes of an item"))
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
            // A character of `U` has four bytes.
            let n = if k == 'U' { n.checked_mul(4) } else { Some(n) };
            n.map_or_else(|| bad(format!("`{text}` is too large")), Ok)
        }
        _ => bad(format!("`{}` is no type string", text.chars().take(40).collect::<String>())),
    }
}

impl NumpyLayout {
    /// The array in elements.
    pub fn strided(&self) -> Result<Strided> {
        match &self.form {
            Form::Order('C') => Ok(Strided::contiguous(&self.shape)?),
            Form::Order(_) => {
                let reversed: Vec<i64> = self.shape.iter().rev().copied().collect();
                let mut strides = row_major(&reversed)?;
                strides.reverse();
                Ok(Strided::new(&self.shape, &strides, 0)?)
            }
            Form::Interface { strides, typestr, offset, .. } => {
                let spanned = Spanned { value: typestr.clone(), span: 0..0 };
                let bytes = item_size(&spanned)?;
                let strides = match strides {
                    Some(strides) => strides.iter().map(|s| s / bytes).collect(),
                    None => row_major(&self.shape)?,
                };
                Ok(Strided::new(&self.shape, &strides, offset / bytes)?)
            }
        }
    }
}

/// A tuple, as Python prints it.
fn tuple_text(list: &[i64]) -> String {
    let comma = if list.len() == 1 { "," } else { "" };
    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("({}{comma})", list.join(", "))
}

impl WrittenLayout for NumpyLayout {
    fn element_bits(&self) -> Option<i64> {
        let Form::Interface { typestr, .. } = &self.form else { return None };
        let spanned = Spanned { value: typestr.clone(), span: 0..0 };
        item_size(&spanned).ok()?.checked_mul(8)
    }

    fn text(&self) -> String {
        let shape = tuple_text(&self.shape);
        match &self.form {
            Form::Order(order) => format!("shape={shape} order='{order}'"),
            Form::Interface { strides, typestr, offset, data } => {
                let mut out = format!("{{'shape': {shape}");
                if let Some(strides) = strides {
                    out += &format!(", 'strides': {}", tuple_text(strides));
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

    fn layout(&self, _: Option<&[i64]>) -> Result<Layout> {
        Ok(self.strided()?.to_layout()?)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.shape.clone())
    }
}

/// The type string of a dtype; those that NumPy has no number for are so many bytes. `None` where an element is less than a byte.
fn typestr_of(dtype: Dtype) -> Option<String> {
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
    // One byte, or bytes without a number, are in no order.
    let order = if bytes == 1 || kind == 'V' { '|' } else { '<' };
    (dtype.bits() % 8 == 0).then(|| format!("{order}{kind}{bytes}"))
}

/// A layout as an array interface: strides in bytes of the elements' type, or in elements where that is not known.
fn interface_of(host: &Strided, dtype: Option<Dtype>) -> Result<Form, Refusal> {
    let typestr = match dtype.map(|d| (d, typestr_of(d))) {
        None => "|V1".to_string(),
        Some((_, Some(typestr))) => typestr,
        Some((d, None)) => {
            let reason = format!("NumPy has no items of {} bits, as {} has", d.bits(), d.name());
            return no(reason, None);
        }
    };
    let bytes = dtype.map_or(1, |d| d.bits() / 8);
    let in_bytes =
        |n: i64| n.checked_mul(bytes).ok_or_else(|| Error::overflow("a stride in bytes"));
    let strides = host.stride().iter().map(|s| in_bytes(*s)).collect::<Result<_, _>>()?;
    let offset = in_bytes(host.offset())?;
    Ok(Form::Interface { strides: Some(strides), typestr, offset, data: None })
}

/// The text of a layout, or why there is none.
pub fn express(layout: &Layout, shape: &[i64], dtype: Option<Dtype>) -> Result<String, Refusal> {
    let host = to_strided(layout, shape)?;
    let form = match host.offset() {
        0 if host.is_row_major() => Form::Order('C'),
        0 if host.is_column_major() => Form::Order('F'),
        _ => interface_of(&host, dtype)?,
    };
    Ok(NumpyLayout { shape: shape.to_vec(), form }.text())
}
