//! The print form of a Spyre device layout:
//! `SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240, 1], device_dtype=DataFormats.SEN169_FP16)`.
//!
//! Two fields of ours extend the device's own form: `device_stride` for strides that leave gaps,
//! `stick_dims` for the number of last dimensions that together are the stick.
//!
//! `dim_map`, the legacy form, may replace `stride_map`: per device dimension the host dimension that it
//! came from. It needs `host_size`, and is printed as the equivalent `stride_map`.
//!
//! The form does not describe the host tensor, and therefore does not determine which positions are
//! padding. Two more fields may follow, `host_size` and `host_stride`; [`print_with_bound_host`] writes
//! them. `host_stride` are the strides in which `stride_map` is read, which may leave gaps; without this
//! field they are found as [`StickLayout::with_host`] describes.

use crate::convert::{ConversionRefusal, first_memory_coordinate, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::{NotationRow, first_word};
use crate::{Diagnostic, ParsedText};
use zellige_layout::{Axis, Layout, LayoutDifference, StridedLayout};
use zellige_stick::{DataFormat, LaneArrangement, StickLayout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

const FIELDS: &str = "device_size, stride_map or dim_map, device_dtype, element_arrangement, device_stride, \
                      stick_dims, host_size and host_stride";

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "spyre",
    doc: "IBM Spyre device layouts",
    example: "SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240, 1], \
                  device_dtype=DataFormats.SEN169_FP16, host_size=[40, 240], host_stride=[240, 1])",
    recognises: |text| first_word(text) == Some("SpyreTensorLayout"),
    parse: |text, _| parse(text).map(ParsedText::from),
    print: |parsed| parsed.stick_layout().map_or_else(String::new, print_with_bound_host),
    express: |layout, shape, dtype| match dtype {
        Some(dtype) => Ok(print_spyre_layout(&express_as_stick(
            layout,
            shape,
            DataFormat::device_format_of(dtype)?,
        )?)),
        None => not_expressible(
            "a device layout needs a dtype, which gives the elements of a stick",
            None,
        ),
    },
    needs_dtype: true,
};

/// Reads a device layout.
pub fn parse(text: &str) -> Result<StickLayout> {
    let mut c = TextCursor::new(text);
    if !c.eat_word("SpyreTensorLayout") {
        return Err(c.refuse_next_token("`SpyreTensorLayout(..)`"));
    }
    c.expect_char('(', "after `SpyreTensorLayout`")?;
    let (mut size, mut map, mut host, mut host_stride) = (None, None, None, None);
    let (mut device_stride, mut stick_dims, mut dim_map) = (None, None, None);
    let (mut format, mut arrangement) = (None, LaneArrangement::Standard);
    while !c.eat_char(')') {
        let Some(key) = c.read_word() else {
            return Err(c.refuse_next_token(&format!("one of {FIELDS}")));
        };
        c.expect_char('=', "after the name of a field")?;
        let slot: &mut Option<Spanned<Vec<i64>>> = match key.value {
            "device_size" => &mut size,
            "stride_map" => &mut map,
            "dim_map" => &mut dim_map,
            "host_size" => &mut host,
            "host_stride" => &mut host_stride,
            "device_stride" => &mut device_stride,
            "stick_dims" if stick_dims.is_none() => {
                let given = c.read_integer("the number of stick dimensions")?;
                stick_dims = Some(usize::try_from(given.value).map_err(|_| {
                    let message = "stick_dims is 1 or more";
                    Diagnostic::syntax_error(given.span, message, "not this many")
                })?);
                read_separator(&mut c)?;
                continue;
            }
            "device_dtype" => {
                format = Some(read_data_format(&mut c)?);
                read_separator(&mut c)?;
                continue;
            }
            "element_arrangement" => {
                let mut name = c.read_word();
                if name.as_ref().is_some_and(|n| n.value == "ElementArrangement") {
                    c.expect_char('.', "after `ElementArrangement`")?;
                    name = c.read_word();
                }
                let Some(name) = name else {
                    return Err(c.refuse_next_token("an element arrangement"));
                };
                arrangement = LaneArrangement::from_name(name.value).ok_or_else(|| {
                    let message =
                        format!("unknown element arrangement `{}`", shorten_name(name.value));
                    Diagnostic::syntax_error(name.span, message, "such as STANDARD or QFP8WT")
                })?;
                read_separator(&mut c)?;
                continue;
            }
            other => {
                let message = format!("unknown field `{}`", shorten_name(other));
                return Err(Diagnostic::syntax_error(key.span, message, "unknown")
                    .with_help(format!("known: {FIELDS}")));
            }
        };
        if slot.is_some() {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax_error(key.span, message, "already given"));
        }
        *slot = Some(c.read_int_list("integers")?);
        read_separator(&mut c)?;
    }
    c.expect_end("the layout")?;
    let end = text.len()..text.len();
    let missing = |what: &str| {
        Diagnostic::syntax_error(
            end.clone(),
            format!("`{what}` is missing"),
            format!("expected `{what}`"),
        )
    };
    let size = size.ok_or_else(|| missing("device_size"))?;
    if map.is_none() && dim_map.is_none() {
        return Err(missing("stride_map"));
    }
    let format = format.ok_or_else(|| missing("device_dtype"))?;
    if let Some(dims) = &dim_map {
        if let Some(map) = map {
            let message = "both `stride_map` and `dim_map`";
            return Err(Diagnostic::syntax_error(map.span, message, "either of them"));
        }
        let Some(host) = &host else {
            let message = "`dim_map` names dimensions of the host, and there is no `host_size`";
            return Err(Diagnostic::syntax_error(dims.span.clone(), message, "of which host?")
                .with_help(
                    "write host_size=[..], and host_stride=[..] where it is not row-major",
                ));
        };
        let strides = host_stride.as_ref().map(|s| s.value.as_slice());
        let meant =
            StickLayout::from_dim_map(&host.value, strides, &size.value, &dims.value, format)
                .map_err(|e| Diagnostic::meaning_error(dims.span.clone(), e))?;
        map = Some(Spanned { value: meant.stride_map().to_vec(), span: dims.span.clone() });
    }
    let map = map.ok_or_else(|| missing("stride_map"))?;
    let stick_dims = stick_dims.unwrap_or(1);
    let layout = StickLayout::with_stick_dims(&size.value, &map.value, format, stick_dims)
        .and_then(|l| {
            if arrangement == LaneArrangement::Standard {
                Ok(l)
            } else {
                l.with_arrangement(arrangement)
            }
        })
        .map_err(|e| {
            Diagnostic::meaning_error(size.span.start..map.span.end.max(size.span.end), e)
        })?;
    let layout = match device_stride {
        None => layout,
        Some(strides) => layout
            .with_device_strides(&strides.value)
            .map_err(|e| Diagnostic::meaning_error(strides.span, e))?,
    };
    match (host, host_stride) {
        (None, None) => Ok(layout),
        (None, Some(stride)) => {
            let message = "`host_stride` without `host_size`";
            Err(Diagnostic::syntax_error(stride.span, message, "the strides of which size?")
                .with_help("write host_size=[..] too, or leave the strides out"))
        }
        (Some(size), None) => {
            layout.with_host(&size.value, None).map_err(|e| Diagnostic::meaning_error(size.span, e))
        }
        (Some(size), Some(stride)) => {
            // Stride 0 may be a broadcast of the host or replicas of the device, which only binding decides.
            let bound = match stride.value.contains(&0) {
                true => layout.with_host(&size.value, Some(&stride.value)),
                false => layout.with_own_strides(&size.value, &stride.value),
            };
            bound.map_err(|e| Diagnostic::meaning_error(stride.span, e))
        }
    }
}

fn read_separator(c: &mut TextCursor<'_>) -> Result<()> {
    if c.eat_char(',') || c.peek_char() == Some(')') {
        Ok(())
    } else {
        Err(c.refuse_next_token("`,` or `)`"))
    }
}

fn shorten_name(name: &str) -> String {
    name.chars().take(40).collect()
}

fn read_data_format(c: &mut TextCursor<'_>) -> Result<DataFormat> {
    let mut name = c.read_word();
    if name.as_ref().is_some_and(|n| n.value == "DataFormats") {
        c.expect_char('.', "after `DataFormats`")?;
        name = c.read_word();
    }
    let Some(name) = name else {
        return Err(c.refuse_next_token("a format such as DataFormats.SEN169_FP16"));
    };
    DataFormat::from_name(name.value).ok_or_else(|| {
        let message = format!("unknown data format `{}`", shorten_name(name.value));
        Diagnostic::syntax_error(name.span, message, "such as SEN169_FP16, IEEE_FP32 or SENINT8")
    })
}

/// The print form, which users compare.
pub fn print_spyre_layout(layout: &StickLayout) -> String {
    layout.to_string()
}

/// The print form, with its host if it was given strides that cannot be found otherwise, such as those that
/// leave gaps.
pub fn print_with_given_host(layout: &StickLayout) -> String {
    if layout.tells_its_strides() {
        print_spyre_layout(layout)
    } else {
        print_with_bound_host(layout)
    }
}

/// The print form with the size and own strides of its host, from which padding is known.
pub fn print_with_bound_host(layout: &StickLayout) -> String {
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

/// One digit of a device address: extent, device stride, stride in the row-major host (or -1).
type DeviceDigit = (i64, i64, i64);

/// The device layout of a layout in the algebra, if its digits form whole sticks.
pub fn express_as_stick(
    layout: &Layout,
    shape: &[i64],
    format: DataFormat,
) -> Result<StickLayout, ConversionRefusal> {
    let Some(eps) = format.elems_per_stick().filter(|e| *e > 0) else {
        return not_expressible(format!("the format {format} has no sticks"), None);
    };
    if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        return not_expressible(
            format!("a device tensor lives in one memory; the layout also uses `{axis}`"),
            None,
        );
    }
    if layout.swizzle().is_some_and(|s| !s.is_identity()) {
        return not_expressible("a device layout has no swizzle", None);
    }
    if layout.tile().replica().iter().any(|it| it.extent > 1)
        || layout.tile().offset_on(Axis::M) != 0
    {
        return not_expressible("a device layout has no replicas and no offset", Some(0));
    }
    let mut digits = find_device_digits(layout, shape)?;
    digits.retain(|(e, _, _)| *e != 1);
    digits.sort_by_key(|(_, s, _)| std::cmp::Reverse(*s));
    // A digit that crosses the boundary of a stick is two device dimensions, because the last dimension of
    // a device layout is always one stick.
    let mut sized: Vec<(i64, i64, i64)> = Vec::new();
    for (e, s, w) in digits {
        if s < eps && s * e > eps {
            if eps % s != 0 || e % (eps / s) != 0 {
                return not_expressible(
                    format!("extent {e} at device stride {s} straddles sticks of {eps}"),
                    None,
                );
            }
            let inside = eps / s;
            sized.push((e / inside, eps, if w < 0 { -1 } else { w * inside }));
            sized.push((inside, s, w));
        } else {
            sized.push((e, s, w));
        }
    }
    let inside = sized.iter().filter(|(_, s, _)| *s < eps).count();
    match (inside, sized.last().copied()) {
        // No digit inside a stick: each stick holds one element, so the stick dimension has no host
        // stride.
        (0, _) => sized.push((eps, 1, -1)),
        (1, Some((e, 1, w))) if e <= eps => {
            let last = sized.len() - 1;
            sized[last] = (eps, 1, w);
        }
        _ => {
            return not_expressible(
                format!("the last {eps} positions are not one run of one dimension"),
                None,
            );
        }
    }
    let device_size: Vec<i64> = sized.iter().map(|(e, _, _)| *e).collect();
    let stride_map: Vec<i64> = sized.iter().map(|(_, _, w)| *w).collect();
    let candidate = StickLayout::from_size_and_stride_map(&device_size, &stride_map, format)?
        .with_own_strides(shape, StridedLayout::new_contiguous(shape)?.stride())?;
    // The candidate ignores how padding is distributed, so it is lowered again and compared.
    let lowered = match candidate.lower_to_layout() {
        Ok(l) => l,
        Err(e) => return not_expressible(e.to_string(), None),
    };
    match lowered.find_difference(layout)? {
        None => Ok(candidate),
        Some(LayoutDifference::At { index, left, right }) => {
            let (left, right) = (first_memory_coordinate(&left), first_memory_coordinate(&right));
            let reason = format!(
                "the nearest device layout {candidate} puts the element at {left}, but it is at {right}"
            );
            not_expressible(reason, Some(index))
        }
        Some(LayoutDifference::Size(..)) => not_expressible("the sizes differ", None),
    }
}

fn find_device_digits(
    layout: &Layout,
    shape: &[i64],
) -> Result<Vec<DeviceDigit>, ConversionRefusal> {
    let padded: Vec<i64> = match layout.window() {
        Some(w) => {
            // Device dimensions begin at the first element, so padding can only follow it.
            if let Some(d) = w.dims().iter().find(|d| d.begin != 0) {
                return not_expressible(
                    format!("padding before the first element ({} positions)", d.begin),
                    None,
                );
            }
            w.padded_shape()
        }
        None => shape.to_vec(),
    };
    let valid = layout.window().map_or_else(|| shape.to_vec(), zellige_layout::ValidWindow::shape);
    let (grouped, seps) = match layout.padded_domain().group(&padded) {
        Ok(g) => g,
        Err(e) => return not_expressible(e.to_string(), None),
    };
    let mut digits = Vec::new();
    let mut weight = 1i64;
    for d in (0..padded.len()).rev() {
        let mut own = weight;
        for it in grouped.tile().shard()[seps[d]..seps[d + 1]].iter().rev() {
            if it.stride <= 0 && it.extent > 1 {
                return not_expressible(
                    format!("device stride {} is not positive", it.stride),
                    None,
                );
            }
            digits.push((it.extent, it.stride, if valid[d] == 1 { -1 } else { own }));
            own = own.saturating_mul(it.extent);
        }
        weight = weight.saturating_mul(valid[d]);
    }
    Ok(digits)
}
