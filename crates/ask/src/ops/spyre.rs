//! Device layouts.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::json;
use zellige_stick::{DataFormat, StickLayout};

fn stick_layout_json(layout: &StickLayout) -> OpAnswer {
    Ok(json!({
        "device_size": layout.device_size(),
        "stride_map": layout.stride_map(),
        "device_dtype": layout.device_dtype().name(),
        "bytes": layout.device_bytes()?,
        "text": layout.to_string(),
    }))
}

pub(super) fn answer_spyre_layout(r: &Request) -> OpAnswer {
    let (size, stride) = (r.require_ints("size")?, r.optional_ints("stride")?);
    let dtype = r.require_dtype()?;
    let found = match r.optional_ints("dim_order")? {
        Some(order) => StickLayout::with_dim_order(&size, stride.as_deref(), dtype, &order)?,
        None => StickLayout::default_in_format(
            &size,
            stride.as_deref(),
            DataFormat::device_format_of(dtype)?,
        )?,
    };
    stick_layout_json(&found)
}

/// The device format: that of `dtype`, or the usual one with sticks as long as the last dimension.
fn format_of(r: &Request, device_size: &[i64]) -> Result<DataFormat, RequestFault> {
    if let Some(dtype) = r.optional_dtype()? {
        return Ok(DataFormat::device_format_of(dtype)?);
    }
    let eps = device_size.last().copied().unwrap_or(0);
    // Several formats have sticks of one length and differ in nothing that a dim_map depends on, so the first will
    // do.
    let fits = |f: &DataFormat| !f.is_held_only() && f.elems_per_stick() == Some(eps) && eps > 0;
    DataFormat::ALL.into_iter().find(fits).ok_or_else(|| {
        let message = format!("no format has sticks of {eps} elements; give `dtype`");
        RequestFault { kind: "bad_stick", message, witness: json!({"field": "device_size"}) }
    })
}

/// The answer of `ask` for a layout read in the given strides, with their gaps between rows; where the layout does not
/// fit them, for the layout read in the host's own strides.
///
/// A host (100, 200, 500) with strides (131072, 512, 1) has the first reading for a layout that names these
/// strides, and the second one for the default layout of its size.
fn read_in_strides<T>(
    layout: &StickLayout,
    size: &[i64],
    stride: Option<&[i64]>,
    ask: impl Fn(&StickLayout) -> zellige_stick::Result<T>,
) -> zellige_stick::Result<T> {
    let given = stride.map(|s| layout.with_own_strides(size, s).and_then(|l| ask(&l)));
    match given {
        Some(Ok(found)) => Ok(found),
        _ => ask(&layout.with_host(size, stride)?),
    }
}

pub(super) fn answer_dim_map(r: &Request) -> OpAnswer {
    let (size, stride) = (r.require_ints("size")?, r.optional_ints("stride")?);
    let device_size = r.require_ints("device_size")?;
    let format = format_of(r, &device_size)?;
    match (r.optional_ints("stride_map")?, r.optional_ints("dim_map")?) {
        (Some(stride_map), None) => {
            let layout = StickLayout::from_size_and_stride_map(&device_size, &stride_map, format)?;
            let dim_map =
                read_in_strides(&layout, &size, stride.as_deref(), StickLayout::recover_dim_map)?;
            Ok(json!({"dim_map": dim_map}))
        }
        (None, Some(dim_map)) => {
            let layout = StickLayout::from_dim_map(
                &size,
                stride.as_deref(),
                &device_size,
                &dim_map,
                format,
            )?;
            Ok(json!({"stride_map": layout.stride_map()}))
        }
        _ => Err(RequestFault::new(
            "bad_request",
            "give either `stride_map` or `dim_map`; the answer is the other",
        )),
    }
}

pub(super) fn answer_restickify(r: &Request) -> OpAnswer {
    let (size, stride) = (r.require_ints("size")?, r.optional_ints("stride")?);
    let format = DataFormat::device_format_of(r.require_dtype()?)?;
    let layout = StickLayout::from_size_and_stride_map(
        &r.require_ints("device_size")?,
        &r.require_ints("stride_map")?,
        format,
    )?;
    let to = r.require_int("to_dim")?;
    stick_layout_json(&read_in_strides(&layout, &size, stride.as_deref(), |l| {
        l.restickify_along(to)
    })?)
}

/// The layout of the same elements in another format.
pub(super) fn answer_spyre_dtype(r: &Request) -> OpAnswer {
    let from = DataFormat::device_format_of(r.require_dtype()?)?;
    let to =
        DataFormat::device_format_of(zellige_float::Dtype::from_name(r.require_str("to_dtype")?)?)?;
    let layout = StickLayout::from_size_and_stride_map(
        &r.require_ints("device_size")?,
        &r.require_ints("stride_map")?,
        from,
    )?;
    stick_layout_json(&layout.with_device_format(to, r.optional_int("stick_extent")?)?)
}
