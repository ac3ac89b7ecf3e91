//! Attributes of windows: convolutions and pooling.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::error::Result;
use crate::forms::{ConvolutionOp, KernelWindow, OpForm, PoolingKind, PoolingOp};

/// One number for each of `rank` dimensions, or one for all, none below `least`.
fn take_per_dim(
    attrs: &mut OpAttributes,
    name: &str,
    rank: usize,
    least: i64,
    default: Option<&[usize]>,
) -> Result<Vec<usize>> {
    let Some(list) = attrs.take_ints(name)? else {
        return match default {
            Some(list) => Ok(list.to_vec()),
            None => Err(attrs.bad_attribute(name, format!("it is missing; one integer or {rank}"))),
        };
    };
    // Bounded, so that a product of two of these numbers cannot overflow.
    let fits = |n: &i64| (least..=i64::from(i32::MAX)).contains(n);
    if !(list.len() == 1 || list.len() == rank) || !list.iter().all(fits) {
        let reason = format!("{list:?}; one integer or {rank}, each {least} to {}", i32::MAX);
        return Err(attrs.bad_attribute(name, reason));
    }
    // One number is that of every dimension, as in PyTorch.
    let at = |d: usize| usize::try_from(list[d.min(list.len() - 1)]).unwrap_or(0);
    Ok((0..rank).map(at).collect())
}

pub(super) fn build_convolution(
    attrs: &mut OpAttributes,
    name: &'static str,
    rank: usize,
) -> BuiltForm {
    let ones = vec![1; rank];
    let stride = take_per_dim(attrs, "stride", rank, 1, Some(&ones))?;
    let padding = take_per_dim(attrs, "padding", rank, 0, Some(&vec![0; rank]))?;
    let dilation = take_per_dim(attrs, "dilation", rank, 1, Some(&ones))?;
    let groups = take_per_dim(attrs, "groups", 1, 1, Some(&[1]))?[0];
    let window = |d: usize| KernelWindow {
        kernel: 1,
        stride: stride[d],
        padding: padding[d],
        dilation: dilation[d],
        ceil: false,
    };
    Ok(OpForm::Convolution(ConvolutionOp {
        name,
        rank,
        windows: (0..rank).map(window).collect(),
        groups,
    }))
}

/// The windows of a pooling; `dilation` where it has one.
fn take_windows(attrs: &mut OpAttributes, dilated: bool) -> Result<[KernelWindow; 2]> {
    let kernel = take_per_dim(attrs, "kernel_size", 2, 1, None)?;
    let stride = take_per_dim(attrs, "stride", 2, 1, Some(&kernel))?;
    let padding = take_per_dim(attrs, "padding", 2, 0, Some(&[0, 0]))?;
    let dilation =
        if dilated { take_per_dim(attrs, "dilation", 2, 1, Some(&[1, 1]))? } else { vec![1, 1] };
    let ceil = attrs.take_flag("ceil_mode", false)?;
    if let Some(d) = (0..2).find(|d| padding[*d] > kernel[*d] / 2) {
        let reason = format!("{}; at most half of the kernel of {}", padding[d], kernel[d]);
        return Err(attrs.bad_attribute("padding", reason));
    }
    Ok([0, 1].map(|d| KernelWindow {
        kernel: kernel[d],
        stride: stride[d],
        padding: padding[d],
        dilation: dilation[d],
        ceil,
    }))
}

pub(super) fn build_max_pool(attrs: &mut OpAttributes) -> BuiltForm {
    let pooled = PoolingKind::Max(take_windows(attrs, true)?);
    Ok(OpForm::Pool(PoolingOp { name: "max_pool2d", pooled }))
}

pub(super) fn build_avg_pool(attrs: &mut OpAttributes) -> BuiltForm {
    let windows = take_windows(attrs, false)?;
    let pooled = PoolingKind::Mean(windows, attrs.take_flag("count_include_pad", true)?);
    Ok(OpForm::Pool(PoolingOp { name: "avg_pool2d", pooled }))
}

pub(super) fn build_adaptive_avg_pool(attrs: &mut OpAttributes) -> BuiltForm {
    let size = take_per_dim(attrs, "output_size", 2, 1, None)?;
    let pooled = PoolingKind::Adaptive([size[0], size[1]]);
    Ok(OpForm::Pool(PoolingOp { name: "adaptive_avg_pool2d", pooled }))
}
