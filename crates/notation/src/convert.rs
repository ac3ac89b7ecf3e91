//! From one notation to another, or the reason why not.
//!
//! A conversion builds the only candidate that the target notation allows and then compares it
//! with the layout as a function: the answer is proved, and a refusal carries the first element
//! that the candidate would put elsewhere.

use crate::notation::Notation;
use crate::{spyre, tirx, torch};
use zellige_layout::{Axis, DataFormat, Difference, Error, Layout, StickLayout, Strided};

/// Why a layout has no text in a notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExpressible {
    /// The rule that fails.
    pub reason: String,
    /// A flat index that shows it, where there is one.
    pub witness: Option<i64>,
}

/// A conversion that was refused: bad input, or an honest no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The layout has no text in that notation.
    NotExpressible(NotExpressible),
    /// The notation is not supported yet.
    Unsupported(Notation),
    /// The request itself is wrong.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Refusal {
        Refusal::Error(e)
    }
}

fn no<T>(reason: impl Into<String>, witness: Option<i64>) -> Result<T, Refusal> {
    Err(Refusal::NotExpressible(NotExpressible { reason: reason.into(), witness }))
}

/// The text of a layout over a shape, in another notation. A Spyre text needs the device format.
pub fn convert(
    layout: &Layout,
    shape: &[i64],
    format: Option<DataFormat>,
    to: Notation,
) -> Result<String, Refusal> {
    layout.admit(shape)?;
    match to {
        Notation::Tirx => Ok(tirx::print(layout)),
        Notation::Torch => Ok(torch::print(&to_strided(layout, shape)?)),
        Notation::Spyre => {
            let Some(format) = format else {
                return no(
                    "a device layout needs a dtype, which gives the elements of a stick",
                    None,
                );
            };
            Ok(spyre::print(&to_stick(layout, shape, format)?))
        }
        other => Err(Refusal::Unsupported(other)),
    }
}

/// The host layout with one stride per dimension, where the layout is one.
pub fn to_strided(layout: &Layout, shape: &[i64]) -> Result<Strided, Refusal> {
    if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        return no(format!("strides address one memory; the layout also uses `{axis}`"), None);
    }
    if layout.size() == 0 {
        return Ok(Strided::contiguous(shape)?);
    }
    if layout.tile().copies() > 1 && layout.image()?.copies > 1 {
        return no("an element has several places, and a stride gives one", Some(0));
    }
    let at = |flat: i64| -> Result<i64, Refusal> {
        Ok(layout.places(flat)?.points().first().map_or(0, |p| p.get(Axis::M)))
    };
    let base = at(0)?;
    let mut stride = vec![1; shape.len()];
    let mut weight = 1;
    for d in (0..shape.len()).rev() {
        if shape[d] > 1 {
            stride[d] = at(weight)? - base;
        } else if let Some(next) = stride.get(d + 1) {
            stride[d] = next.saturating_mul(shape[d + 1].max(1));
        }
        weight *= shape[d];
    }
    let candidate = Strided::new(shape, &stride, base)?;
    match candidate.to_layout()?.difference(layout)? {
        None => Ok(candidate),
        Some(Difference::At { index, left, right }) => {
            let (left, right) = (first_m(&left), first_m(&right));
            let reason = format!(
                "one stride per dimension, {stride:?}, puts the element at {left}, but it is at {right}"
            );
            no(reason, Some(index))
        }
        Some(Difference::Size(..)) => no("the sizes differ", None),
    }
}

fn first_m(points: &[zellige_layout::Point]) -> i64 {
    points.first().map_or(0, |p| p.get(Axis::M))
}

/// One digit of a device address: extent, device stride, stride in the row-major host (or -1).
type DeviceDigit = (i64, i64, i64);

/// The device layout with those digits, where they form whole sticks.
pub fn to_stick(
    layout: &Layout,
    shape: &[i64],
    format: DataFormat,
) -> Result<StickLayout, Refusal> {
    let Some(eps) = format.elems_per_stick().filter(|e| *e > 0) else {
        return no(format!("the format {format} has no sticks"), None);
    };
    if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        return no(
            format!("a device tensor lives in one memory; the layout also uses `{axis}`"),
            None,
        );
    }
    if layout.swizzle().is_some_and(|s| !s.is_identity()) {
        return no("a device layout has no swizzle", None);
    }
    if layout.tile().replica().iter().any(|it| it.extent > 1)
        || layout.tile().offset_on(Axis::M) != 0
    {
        return no("a device layout has no replicas and no offset", Some(0));
    }
    let mut digits = device_digits(layout, shape)?;
    digits.retain(|(e, _, _)| *e != 1);
    digits.sort_by_key(|(_, s, _)| std::cmp::Reverse(*s));
    // Split at the boundary of a stick, and make room below where a stick holds one element.
    let mut sized: Vec<(i64, i64, i64)> = Vec::new();
    for (e, s, w) in digits {
        if s < eps && s * e > eps {
            if eps % s != 0 || e % (eps / s) != 0 {
                return no(
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
        (0, _) => sized.push((eps, 1, -1)),
        (1, Some((e, 1, w))) if e <= eps => {
            let last = sized.len() - 1;
            sized[last] = (eps, 1, w);
        }
        _ => return no(format!("the last {eps} positions are not one run of one dimension"), None),
    }
    let device_size: Vec<i64> = sized.iter().map(|(e, _, _)| *e).collect();
    let stride_map: Vec<i64> = sized.iter().map(|(_, _, w)| *w).collect();
    let candidate =
        StickLayout::explicit(&device_size, &stride_map, format)?.with_host(shape, None)?;
    let lowered = match candidate.lower() {
        Ok(l) => l,
        Err(e) => return no(e.to_string(), None),
    };
    match lowered.difference(layout)? {
        None => Ok(candidate),
        Some(Difference::At { index, left, right }) => {
            let (left, right) = (first_m(&left), first_m(&right));
            let reason = format!(
                "the nearest device layout {candidate} puts the element at {left}, but it is at {right}"
            );
            no(reason, Some(index))
        }
        Some(Difference::Size(..)) => no("the sizes differ", None),
    }
}

fn device_digits(layout: &Layout, shape: &[i64]) -> Result<Vec<DeviceDigit>, Refusal> {
    let padded: Vec<i64> = match layout.window() {
        Some(w) => {
            if let Some(d) = w.dims().iter().find(|d| d.begin != 0) {
                return no(
                    format!("padding before the first element ({} positions)", d.begin),
                    None,
                );
            }
            w.padded_shape()
        }
        None => shape.to_vec(),
    };
    let valid = layout.window().map_or_else(|| shape.to_vec(), zellige_layout::Window::shape);
    let (grouped, seps) = match layout.padded().group(&padded) {
        Ok(g) => g,
        Err(e) => return no(e.to_string(), None),
    };
    let mut digits = Vec::new();
    let mut weight = 1i64;
    for d in (0..padded.len()).rev() {
        let mut own = weight;
        for it in grouped.tile().shard()[seps[d]..seps[d + 1]].iter().rev() {
            if it.stride <= 0 && it.extent > 1 {
                return no(format!("device stride {} is not positive", it.stride), None);
            }
            digits.push((it.extent, it.stride, if valid[d] == 1 { -1 } else { own }));
            own = own.saturating_mul(it.extent);
        }
        weight = weight.saturating_mul(valid[d]);
    }
    Ok(digits)
}
