//! Rules for resized images. Each axis is resized by itself, as a product with a matrix of
//! interpolation weights.

use super::RuleTable;
use super::pointwise::pass_operand;
use crate::error::Result;
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[("Resize", lower_resize), ("Upsample", lower_upsample)];

/// The resizing of one axis.
struct ResizedAxis {
    dim: usize,
    from: i64,
    to: i64,
    scale: f64,
    /// The cropped part of the axis, for `tf_crop_and_resize`.
    region: [f64; 2],
}

struct ResizeRule {
    mode: String,
    coordinates: String,
    nearest: String,
    cubic: f64,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

fn lower_upsample(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    let mode = n.word_attribute("mode", "nearest")?;
    let scales = match n.any_attribute("scales") {
        Some(crate::proto::AttributeValue::Floats(list)) => {
            list.iter().map(|f| f64::from(*f)).collect()
        }
        Some(_) => return Err(n.wrong_attribute("scales", "a list of floats")),
        None => require_floats(n, 1, "the scales")?,
    };
    let size = n.operand_size(0)?;
    if scales.len() != size.len() {
        return Err(n.refuse_node("bad_operand", format!("{} scales for {size:?}", scales.len())));
    }
    let axes = axes_from_scales(n, &size, &(0..size.len()).collect::<Vec<_>>(), &scales)?;
    // Some exporters write `bilinear`, an older name of the linear mode.
    let rule = ResizeRule::before_opset_11(if mode == "bilinear" { "linear".into() } else { mode });
    interpolate_axes(n, &axes, &rule)
}

impl ResizeRule {
    /// The only rule before opset 11, which introduced the choice of coordinates.
    fn before_opset_11(mode: String) -> ResizeRule {
        ResizeRule {
            mode,
            // Resize of opset 10 and Upsample know no choice: the coordinate is x / scale, rounded
            // down for `nearest`.
            coordinates: "asymmetric".into(),
            nearest: "floor".into(),
            cubic: -0.75,
            exclude_outside: false,
            antialias: false,
            extrapolation: 0.0,
        }
    }
}

/// Reads numbers that must be known.
fn require_floats(n: &mut NodeLowering<'_, '_>, k: usize, what: &str) -> Result<Vec<f64>> {
    let literal = n.require_literal(k, what)?;
    Ok((0..literal.len()).map(|i| literal.number_at(i)).collect())
}

fn axes_from_scales(
    n: &NodeLowering<'_, '_>,
    size: &[i64],
    dims: &[usize],
    scales: &[f64],
) -> Result<Vec<ResizedAxis>> {
    let one = |(dim, scale): (&usize, &f64)| {
        // The specification: output_dimension = floor(input_dimension * scale).
        let to = (size[*dim] as f64 * scale).floor();
        if !(*scale > 0.0 && to < 1e9) {
            return Err(
                n.refuse_node("bad_operand", format!("scale {scale}; accepted: more than 0"))
            );
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        let to = to as i64;
        Ok(ResizedAxis { dim: *dim, from: size[*dim], to, scale: *scale, region: [0.0, 1.0] })
    };
    dims.iter().zip(scales).map(one).collect()
}

fn lower_resize(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 4)?;
    if n.opset() < 11 {
        let size = n.operand_size(0)?;
        let scales = require_floats(n, 1, "the scales")?;
        let dims: Vec<usize> = (0..size.len()).collect();
        let axes = axes_from_scales(n, &size, &dims, &scales)?;
        let rule = ResizeRule::before_opset_11(n.word_attribute("mode", "nearest")?);
        return interpolate_axes(n, &axes, &rule);
    }
    let rule = ResizeRule {
        mode: n.word_attribute("mode", "nearest")?,
        coordinates: n.word_attribute("coordinate_transformation_mode", "half_pixel")?,
        nearest: n.word_attribute("nearest_mode", "round_prefer_floor")?,
        cubic: n.float_attribute("cubic_coeff_a", -0.75)?,
        exclude_outside: n.flag_attribute("exclude_outside", false)?,
        antialias: n.flag_attribute("antialias", false)?,
        extrapolation: n.float_attribute("extrapolation_value", 0.0)?,
    };
    let policy = n.word_attribute("keep_aspect_ratio_policy", "stretch")?;
    let size = n.operand_size(0)?;
    let listed = n.ints_attribute("axes")?;
    let dims: Vec<usize> = match listed {
        Some(list) => {
            list.iter().map(|a| n.normalize_dim(*a, size.len())).collect::<Result<_>>()?
        }
        None => (0..size.len()).collect(),
    };
    // The operand `roi` has a meaning in this mode only, and exporters leave it empty in the
    // others.
    let region = if rule.coordinates == "tf_crop_and_resize" {
        require_floats(n, 1, "the region")?
    } else {
        Vec::new()
    };
    let scales = if n.has_operand(2) { require_floats(n, 2, "the scales")? } else { Vec::new() };
    let mut axes = if scales.is_empty() {
        let sizes = n.require_ints(3, "the sizes")?;
        if sizes.len() != dims.len() || sizes.iter().any(|s| !(0..1 << 30).contains(s)) {
            let message = format!("{sizes:?}; accepted: {} sizes, 0 or more", dims.len());
            return Err(n.refuse_operand(3, message));
        }
        axes_from_sizes(n, &size, &dims, &sizes, &policy)?
    } else {
        if scales.len() != dims.len() {
            let message = format!("{} scales; accepted: {}", scales.len(), dims.len());
            return Err(n.refuse_operand(2, message));
        }
        axes_from_scales(n, &size, &dims, &scales)?
    };
    if !region.is_empty() {
        if region.len() != 2 * axes.len() {
            let message = format!("{} numbers; accepted: {}", region.len(), 2 * axes.len());
            return Err(n.refuse_operand(1, message));
        }
        // `roi` lists all starts before all ends.
        let half = axes.len();
        for (k, axis) in axes.iter_mut().enumerate() {
            axis.region = [region[k], region[k + half]];
        }
    }
    interpolate_axes(n, &axes, &rule)
}

/// Axes with given sizes, which a policy may change so that all axes have one scale.
fn axes_from_sizes(
    n: &NodeLowering<'_, '_>,
    size: &[i64],
    dims: &[usize],
    sizes: &[i64],
    policy: &str,
) -> Result<Vec<ResizedAxis>> {
    let ratio = |(dim, to): (&usize, &i64)| *to as f64 / size[*dim] as f64;
    let all = || dims.iter().zip(sizes).map(ratio);
    // With a policy other than `stretch` one scale serves all axes, so the given sizes are only
    // bounds.
    let common = match policy {
        "stretch" => None,
        "not_larger" => Some(all().fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(all().fold(0.0, f64::max)),
        other => {
            let message = format!(
                "attribute `keep_aspect_ratio_policy` is `{other}`; accepted: stretch, not_larger, not_smaller"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    Ok(dims
        .iter()
        .zip(sizes)
        .map(|(dim, to)| {
            let from = size[*dim];
            #[expect(clippy::cast_possible_truncation, reason = "between sizes that were given")]
            let (to, scale) = match common {
                None => (*to, *to as f64 / from as f64),
                Some(scale) => ((scale * from as f64 + 0.5).floor() as i64, scale),
            };
            ResizedAxis { dim: *dim, from, to, scale, region: [0.0, 1.0] }
        })
        .collect())
}

fn interpolate_axes(
    n: &mut NodeLowering<'_, '_>,
    axes: &[ResizedAxis],
    rule: &ResizeRule,
) -> Result<Vec<ModelValue>> {
    if !matches!(rule.mode.as_str(), "nearest" | "linear" | "cubic") {
        let message =
            format!("attribute `mode` is `{}`; accepted: nearest, linear, cubic", rule.mode);
        return Err(n.refuse_node("bad_attribute", message));
    }
    let mut x = n.operand_tensor(0)?;
    let dtype = n.operand_dtype(0)?;
    let mut changed = false;
    for axis in axes {
        // Equal extents are not enough: a scale of 1.02 keeps the extent of a short axis and still
        // moves its points.
        let still = axis.to == axis.from && axis.scale == 1.0 && axis.region == [0.0, 1.0];
        if still || axis.from == 0 {
            continue;
        }
        changed = true;
        x = interpolate_axis(n, x, axis, rule, dtype)?;
    }
    if changed {
        Ok(vec![n.emit_result("identity", &[GraphOperand::Tensor(x)])?])
    } else {
        Ok(vec![pass_operand(n, 0)?])
    }
}

/// Interpolates one axis.
fn interpolate_axis(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    axis: &ResizedAxis,
    rule: &ResizeRule,
    dtype: Dtype,
) -> Result<TensorId> {
    let mut at = Vec::new();
    for i in 0..axis.to {
        at.push(source_coordinate(n, i as f64, axis, rule)?);
    }
    let last = axis.from - 1;
    let outside: Vec<bool> = at.iter().map(|c| *c < 0.0 || *c > last as f64).collect();
    let rank = n.tensor_size(x).len();
    let mut made = if rule.mode == "nearest" {
        let index =
            at.iter().map(|c| round_nearest(n, *c, &rule.nearest)).collect::<Result<Vec<_>>>()?;
        let list: Vec<f64> = index.iter().map(|i| (*i).clamp(0, last) as f64).collect();
        let index = n.emit_numbers(&[axis.to], list, Dtype::Int64, "index")?;
        n.emit_step(OpCall::new("index_select").with("dim", axis.dim), &[x, index])?
    } else {
        // Interpolation is linear in the elements, so an axis is a product with a matrix of
        // weights. The card multiplies matrices, and it has no operation that resamples.
        let mut weights = vec![0.0; usize::try_from(axis.from * axis.to).unwrap_or(0)];
        for (i, c) in at.iter().enumerate() {
            for (j, weight) in interpolation_taps(*c, axis, rule) {
                let row = usize::try_from(j.clamp(0, last)).unwrap_or(0);
                // Added, because several taps beyond an end fall onto the same last element.
                weights[row * at.len() + i] += weight;
            }
        }
        let weights = n.emit_numbers(&[axis.from, axis.to], weights, dtype, "weights")?;
        let mut y = x;
        let transpose = OpCall::transpose(axis.dim, rank - 1);
        if axis.dim + 1 != rank {
            y = n.emit_step(transpose.clone(), &[y])?;
        }
        y = n.emit_step("matmul", &[y, weights])?;
        if axis.dim + 1 != rank { n.emit_step(transpose, &[y])? } else { y }
    };
    if rule.coordinates == "tf_crop_and_resize" && outside.contains(&true) {
        let mut shape = vec![1; rank];
        shape[axis.dim] = axis.to;
        let mask = outside.iter().map(|o| f64::from(u8::from(*o))).collect();
        let mask = n.emit_numbers(&shape, mask, Dtype::Bool, "outside")?;
        made = n.emit_step(
            OpCall::new("masked_fill").with("value", rule.extrapolation),
            &[made, mask],
        )?;
    }
    Ok(made)
}

/// The coordinate of element `i` of the result among the elements of the operand.
fn source_coordinate(
    n: &NodeLowering<'_, '_>,
    i: f64,
    axis: &ResizedAxis,
    rule: &ResizeRule,
) -> Result<f64> {
    let (from, scale) = (axis.from as f64, axis.scale);
    // The length before rounding, as in the reference implementation: the formulas below use it and
    // not the extent.
    let to = scale * from;
    Ok(match rule.coordinates.as_str() {
        "half_pixel" => (i + 0.5) / scale - 0.5,
        "pytorch_half_pixel" => {
            if to == 1.0 {
                -0.5
            } else {
                (i + 0.5) / scale - 0.5
            }
        }
        "half_pixel_symmetric" => {
            let offset = from / 2.0 * (1.0 - axis.to as f64 / to);
            offset + (i + 0.5) / scale - 0.5
        }
        "asymmetric" => i / scale,
        "align_corners" => {
            if to == 1.0 {
                0.0
            } else {
                i * (from - 1.0) / (to - 1.0)
            }
        }
        "tf_crop_and_resize" => {
            let [start, end] = axis.region;
            let within = if to == 1.0 {
                (end - start) * (from - 1.0) / 2.0
            } else {
                i * (end - start) * (from - 1.0) / (to - 1.0)
            };
            start * (from - 1.0) + within
        }
        other => {
            let message = format!(
                "attribute `coordinate_transformation_mode` is `{other}`; accepted: half_pixel, \
                 half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "coordinates are near the extent of an axis")]
fn round_nearest(n: &NodeLowering<'_, '_>, at: f64, how: &str) -> Result<i64> {
    Ok(match how {
        "floor" => at.floor(),
        "ceil" => at.ceil(),
        // Halves go down here and up in the next mode; everything else rounds to the nearest.
        "round_prefer_floor" => (at - 0.5).ceil(),
        "round_prefer_ceil" => (at + 0.5).floor(),
        other => {
            let message = format!(
                "attribute `nearest_mode` is `{other}`; accepted: floor, ceil, round_prefer_floor, \
                 round_prefer_ceil"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    } as i64)
}

/// The elements that contribute to one element of the result, with their weights, which add up to
/// 1. Elements past an end are replaced by the last one, unless they are excluded.
#[expect(clippy::cast_possible_truncation, reason = "coordinates are near the extent of an axis")]
fn interpolation_taps(at: f64, axis: &ResizedAxis, rule: &ResizeRule) -> Vec<(i64, f64)> {
    let cubic = rule.mode == "cubic";
    let reach = if cubic { 2.0 } else { 1.0 };
    // Antialiasing widens the window when the axis shrinks.
    let squeeze = if rule.antialias { axis.scale.min(1.0) } else { 1.0 };
    let kernel = |x: f64| {
        let (x, a) = (x.abs(), rule.cubic);
        match x {
            x if !cubic => (1.0 - x).max(0.0),
            x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            x if x < 2.0 => ((x - 5.0) * x + 8.0) * x * a - 4.0 * a,
            _ => 0.0,
        }
    };
    // The kernel is stretched by the scale, so it reaches over more elements.
    let wide = reach / squeeze;
    let (first, last) = ((at - wide).floor() as i64, (at + wide).ceil() as i64);
    let inside = |j: i64| !rule.exclude_outside || (0..axis.from).contains(&j);
    let mut all: Vec<(i64, f64)> = (first..=last)
        .map(|j| (j, kernel(squeeze * (j as f64 - at))))
        .filter(|(j, w)| *w != 0.0 && inside(*j))
        .collect();
    let total: f64 = all.iter().map(|(_, w)| w).sum();
    // Left-out taps and a stretched kernel no longer add up to 1, and the image would change its
    // brightness.
    if total != 0.0 && (rule.antialias || rule.exclude_outside) {
        all.iter_mut().for_each(|(_, w)| *w /= total);
    }
    all
}
