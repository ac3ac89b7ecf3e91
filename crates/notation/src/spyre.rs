//! The print form of a Spyre device layout:
//! `SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240, 1], device_dtype=DataFormats.SEN169_FP16)`.
//!
//! The form says nothing of the host tensor, and so not which positions are padding. Two more
//! fields may follow, `host_size` and `host_stride`; [`print_bound`] writes them.

use crate::Diagnostic;
use crate::cursor::{Cursor, Spanned};
use zellige_layout::{Arrangement, DataFormat, StickLayout};

type Result<T> = std::result::Result<T, Diagnostic>;

const FIELDS: &str =
    "device_size, stride_map, device_dtype, element_arrangement, host_size and host_stride";

/// Reads a device layout.
pub fn parse(text: &str) -> Result<StickLayout> {
    let mut c = Cursor::new(text);
    if !c.eat_word("SpyreTensorLayout") {
        return Err(c.expected("`SpyreTensorLayout(..)`"));
    }
    c.expect('(', "after `SpyreTensorLayout`")?;
    let (mut size, mut map, mut host, mut host_stride) = (None, None, None, None);
    let (mut format, mut arrangement) = (None, Arrangement::Standard);
    while !c.eat(')') {
        let Some(key) = c.word() else { return Err(c.expected(&format!("one of {FIELDS}"))) };
        c.expect('=', "after the name of a field")?;
        let slot: &mut Option<Spanned<Vec<i64>>> = match key.value {
            "device_size" => &mut size,
            "stride_map" => &mut map,
            "host_size" => &mut host,
            "host_stride" => &mut host_stride,
            "device_dtype" => {
                format = Some(data_format(&mut c)?);
                separator(&mut c)?;
                continue;
            }
            "element_arrangement" => {
                let Some(name) = c.word() else { return Err(c.expected("an element arrangement")) };
                arrangement = Arrangement::from_name(name.value).ok_or_else(|| {
                    let message = format!("unknown element arrangement `{}`", short(name.value));
                    Diagnostic::syntax(name.span, message, "such as STANDARD or QFP8WT")
                })?;
                separator(&mut c)?;
                continue;
            }
            other => {
                let message = format!("unknown field `{}`", short(other));
                return Err(Diagnostic::syntax(key.span, message, "unknown")
                    .help(format!("known: {FIELDS}")));
            }
        };
        if slot.is_some() {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax(key.span, message, "already given"));
        }
        *slot = Some(c.int_list("integers")?);
        separator(&mut c)?;
    }
    c.finish("the layout")?;
    let end = text.len()..text.len();
    let missing = |what: &str| {
        Diagnostic::syntax(
            end.clone(),
            format!("`{what}` is missing"),
            format!("expected `{what}`"),
        )
    };
    let size = size.ok_or_else(|| missing("device_size"))?;
    let map = map.ok_or_else(|| missing("stride_map"))?;
    let format = format.ok_or_else(|| missing("device_dtype"))?;
    let layout = StickLayout::explicit(&size.value, &map.value, format)
        .and_then(|l| {
            if arrangement == Arrangement::Standard {
                Ok(l)
            } else {
                l.with_arrangement(arrangement)
            }
        })
        .map_err(|e| Diagnostic::meaning(size.span.start..map.span.end.max(size.span.end), e))?;
    match host {
        None => Ok(layout),
        Some(h) => layout
            .with_host(&h.value, host_stride.as_ref().map(|s| s.value.as_slice()))
            .map_err(|e| Diagnostic::meaning(h.span, e)),
    }
}

fn separator(c: &mut Cursor<'_>) -> Result<()> {
    if c.eat(',') || c.peek() == Some(')') { Ok(()) } else { Err(c.expected("`,` or `)`")) }
}

fn short(name: &str) -> String {
    name.chars().take(40).collect()
}

fn data_format(c: &mut Cursor<'_>) -> Result<DataFormat> {
    let mut name = c.word();
    if name.as_ref().is_some_and(|n| n.value == "DataFormats") {
        c.expect('.', "after `DataFormats`")?;
        name = c.word();
    }
    let Some(name) = name else {
        return Err(c.expected("a format such as DataFormats.SEN169_FP16"));
    };
    DataFormat::from_name(name.value).ok_or_else(|| {
        let message = format!("unknown data format `{}`", short(name.value));
        Diagnostic::syntax(name.span, message, "such as SEN169_FP16, IEEE_FP32 or SENINT8")
    })
}

/// The print form, which users compare.
pub fn print(layout: &StickLayout) -> String {
    layout.to_string()
}

/// The print form with the size and own strides of its host, from which padding is known.
pub fn print_bound(layout: &StickLayout) -> String {
    let text = layout.to_string();
    match layout.host() {
        None => text,
        Some(h) => format!(
            "{}, host_size={:?}, host_stride={:?})",
            text.strip_suffix(')').unwrap_or(&text),
            h.size(),
            h.stride()
        ),
    }
}
