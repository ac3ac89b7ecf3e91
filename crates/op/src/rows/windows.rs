//! Attributes of windows: convolutions and pooling.

use super::Built;
use crate::attributes::Attributes;
use crate::error::Result;
use crate::forms::{Convolution, Form, Pool, Pooled, Window};

/// One number for each of `rank` dimensions, or one for all, none below `least`.
fn each(
    attrs: &mut Attributes,
    name: &str,
    rank: usize,
    least: i64,
    default: Option<&[usize]>,
) -> Result<Vec<usize>> {
    let Some(list) = attrs.ints(name)? else {
        return match default {
            Some(list) => Ok(list.to_vec()),
            None => Err(attrs.bad(name, format!("it is missing; one integer or {rank}"))),
        };
    };
    let fits = |n: &i64| (least..=i64::from(i32::MAX)).contains(n);
    if !(list.len() == 1 || list.len() == rank) || !list.iter().all(fits) {
        let reason = format!("{list:?}; one integer or {rank}, each {least} to {}", i32::MAX);
        return Err(attrs.bad(name, reason));
    }
    let at = |d: usize| usize::try_from(list[d.min(list.len() - 1)]).unwrap_or(0);
    Ok((0..rank).map(at).collect())
}

pub(super) fn convolution(attrs: &mut Attributes, name: &'static str, rank: usize) -> Built {
    let ones = vec![1; rank];
    let stride = each(attrs, "stride", rank, 1, Some(&ones))?;
    let padding = each(attrs, "padding", rank, 0, Some(&vec![0; rank]))?;
    let dilation = each(attrs, "dilation", rank, 1, Some(&ones))?;
    let groups = each(attrs, "groups", 1, 1, Some(&[1]))?[0];
    let window = |d: usize| Window {
        kernel: 1,
        stride: stride[d],
        padding: padding[d],
        dilation: dilation[d],
        ceil: false,
    };
    Ok(Form::Convolution(Convolution {
        name,
        rank,
        windows: (0..rank).map(window).collect(),
        groups,
    }))
}

/// The windows of a pooling; `dilation` where it has one.
fn pooling(attrs: &mut Attributes, dilated: bool) -> Result<[Window; 2]> {
    let kernel = each(attrs, "kernel_size", 2, 1, None)?;
    let stride = each(attrs, "stride", 2, 1, Some(&kernel))?;
    let padding = each(attrs, "padding", 2, 0, Some(&[0, 0]))?;
    let dilation = if dilated { each(attrs, "dilation", 2, 1, Some(&[1, 1]))? } else { vec![1, 1] };
    let ceil = attrs.flag("ceil_mode", false)?;
    if let Some(d) = (0..2).find(|d| padding[*d] > kernel[*d] / 2) {
        let reason = format!("{}; at most half of the kernel of {}", padding[d], kernel[d]);
        return Err(attrs.bad("padding", reason));
    }
    Ok([0, 1].map(|d| Window {
        kernel: kernel[d],
        stride: stride[d],
        padding: padding[d],
        dilation: dilation[d],
        ceil,
    }))
}

pub(super) fn max_pool(attrs: &mut Attributes) -> Built {
    let pooled = Pooled::Max(pooling(attrs, true)?);
    Ok(Form::Pool(Pool { name: "max_pool2d", pooled }))
}

pub(super) fn avg_pool(attrs: &mut Attributes) -> Built {
    let windows = pooling(attrs, false)?;
    let pooled = Pooled::Mean(windows, attrs.flag("count_include_pad", true)?);
    Ok(Form::Pool(Pool { name: "avg_pool2d", pooled }))
}

pub(super) fn adaptive_avg_pool(attrs: &mut Attributes) -> Built {
    let size = each(attrs, "output_size", 2, 1, None)?;
    let pooled = Pooled::Adaptive([size[0], size[1]]);
    Ok(Form::Pool(Pool { name: "adaptive_avg_pool2d", pooled }))
}
