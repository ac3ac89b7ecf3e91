//! Sizes, dtypes and layouts of results, from those of the operands.

use crate::error::Result;
use crate::tensor::kept::KeptDtypes;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_op::TensorType;
use zellige_stick::{DataFormat, StickLayout};

/// The format in which a result is stored: float32 and int64 stay wide where an operand of that dtype
/// is.
pub(crate) fn result_format(operands: &[TensorLayout], dtype: Dtype) -> Result<DataFormat> {
    let own = match dtype {
        Dtype::Float32 => Format::F32,
        Dtype::Int64 => Format::I64,
        other => return Ok(DataFormat::device_format_of(other)?),
    };
    // A single number beside tensors does not decide in which width results are stored.
    let wider: Vec<&TensorLayout> = operands.iter().filter(|t| !t.size().is_empty()).collect();
    let operands = if wider.is_empty() { operands.iter().collect() } else { wider };
    let keeps = operands.first().is_some_and(|t| t.storage_policy().keep.keeps_dtype(dtype));
    let wide = |t: &&TensorLayout| t.dtype() == dtype && t.format() == own;
    let any = operands.iter().any(|t| t.dtype() == dtype);
    let wide = operands.iter().any(wide) || (keeps && !any);
    if wide { KeptDtypes::ALL } else { KeptDtypes::NONE }.default_format(dtype)
}

/// The form of a bound layout, whatever its format.
pub(crate) fn bound_form(layout: &StickLayout) -> Result<StickForm> {
    let view = layout.host().cloned().expect("layouts of results are bound");
    StickForm::from_layout(layout, &view, Format::F32)
}

/// The layout of a result like that of its largest operand; dense ones are preferred to sparse ones, so
/// that a result is sparse only where every operand is.
pub(crate) fn layout_like(operands: &[TensorLayout], out: &TensorType) -> Result<StickLayout> {
    layout_like_in(operands, out, result_format(operands, out.dtype)?)
}

/// The same in a format.
pub(crate) fn layout_like_in(
    operands: &[TensorLayout],
    out: &TensorType,
    format: DataFormat,
) -> Result<StickLayout> {
    let forms = operands.iter().filter_map(|t| t.stick_form().ok().map(|s| (t, s)));
    let Some((tensor, lead)) = forms.max_by_key(|(t, s)| (s.stick.is_some(), t.numel())) else {
        return Ok(StickLayout::default_in_format(&out.size, None, format)?);
    };
    let same = tensor.is_base() && tensor.size() == out.size;
    if same && tensor.stick_layout().device_dtype() == format {
        return Ok(tensor.stick_layout().clone());
    }
    let size: Vec<usize> = out.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    match lead.expand_to(&size) {
        Some(wide) => layout_in_form_order(&wide, format),
        None => Ok(StickLayout::default_in_format(&out.size, None, format)?),
    }
}

/// A dense layout with the dimension order of a form: its slowest dimension first.
///
/// Dimensions along which the form does not move come first. A stick dimension of one stick has no place
/// in the form: it goes where default layouts have it, before the fastest other one. A form without
/// lanes gives a sparse layout.
pub(crate) fn layout_in_form_order(form: &StickForm, format: DataFormat) -> Result<StickLayout> {
    let size: Vec<i64> = form.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect();
    let own = StridedLayout::new_contiguous(&size)?;
    let mut order: Vec<usize> = (0..size.len()).collect();
    let fastest = form.stride.iter().filter(|s| **s > 0).min();
    let key = |d: &usize| match form.stride[*d] {
        0 if Some(*d) == form.stick => fastest.map_or(0, |f| f + 1),
        0 => usize::MAX,
        stride => stride,
    };
    order.sort_by_key(|d| std::cmp::Reverse(key(d)));
    layout_in_order(&own, &order, form.stick, format)
}

/// A layout with its dimensions in `order`, slowest first, and lanes along `stick`; without one it is sparse, with
/// the place of the stick count where the constructor has it.
pub(crate) fn layout_in_order(
    host: &StridedLayout,
    order: &[usize],
    stick: Option<usize>,
    format: DataFormat,
) -> Result<StickLayout> {
    let eps = format.elems_per_stick().unwrap_or(1);
    let (mut device, mut map) = (Vec::new(), Vec::new());
    for d in order {
        let (n, stride) = (host.size()[*d], host.stride()[*d]);
        let lanes = if stick == Some(*d) { eps } else { 1 };
        device.push(n / lanes + i64::from(n % lanes != 0));
        map.push(if n == 1 { -1 } else { stride * lanes });
    }
    match device.len().checked_sub(1) {
        None => (device, map) = (vec![1], vec![-1]),
        Some(fastest) if stick.is_none() => {
            device.insert(fastest, 1);
            map.insert(fastest, -1);
        }
        Some(_) => {}
    }
    device.push(eps);
    map.push(stick.filter(|d| host.size()[*d] != 1).map_or(-1, |d| host.stride()[d]));
    let layout = StickLayout::from_size_and_stride_map(&device, &map, format)?;
    Ok(layout.with_host(host.size(), Some(host.stride()))?)
}
