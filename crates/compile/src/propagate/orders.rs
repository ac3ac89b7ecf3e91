//! Layouts of a tensor that differ in the order of its dimensions.

use crate::error::Result;
use zellige_device::{LayoutNeed, TensorLayout};
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

/// Tensors of at most this many dimensions are ordered in every way: two ways for each stick dimension. A fourth
/// dimension would make it six, and every way is a column in the tables of the least sum.
const MAX_ORDERED_DIMS: usize = 3;

/// The orders of a tensor's dimensions with sticks along one of them: the stick dimension last, as a pin has it, and
/// the logical one with batches outermost.
pub(super) fn orders_along(t: &TensorLayout, stick: usize) -> Vec<StickLayout> {
    let along = LayoutNeed::Along(stick).fitting_layout(t).ok();
    // torch-spyre measured a batched product with all three tensors batch-outermost 8.3 times faster than in the
    // default order (32 cores, 2026), so that this order is always among the candidates.
    let outermost = along.as_ref().and_then(|layout| {
        let laid = TensorLayout::new(t.storage_policy(), t.dtype(), layout).ok()?;
        batches_outermost(&laid).ok().flatten()
    });
    along.into_iter().chain(outermost).collect()
}

/// The same stick with the dimensions in their logical order, slowest first; none where that is its layout.
pub(super) fn batches_outermost(t: &TensorLayout) -> Result<Option<StickLayout>> {
    let Ok(form) = t.stick_form() else { return Ok(None) };
    let rank = t.size().len();
    let Some(stick) = form.stick.filter(|_| rank > 2) else { return Ok(None) };
    let format = t.stick_layout().device_dtype();
    let Some(eps) = format.elems_per_stick() else { return Ok(None) };
    let host = StridedLayout::new_contiguous(t.size())?;
    let (mut device, mut map) = (Vec::new(), Vec::new());
    for d in 0..rank {
        let (n, stride) = (host.size()[d], host.stride()[d]);
        let lanes = if d == stick { eps } else { 1 };
        device.push(n / lanes + i64::from(n % lanes != 0));
        // A stride of -1 marks a device dimension without a logical one, as default layouts write size 1.
        map.push(if n == 1 { -1 } else { stride * lanes });
    }
    device.push(eps);
    map.push(if host.size()[stick] == 1 { -1 } else { host.stride()[stick] });
    let layout = StickLayout::from_size_and_stride_map(&device, &map, format)?
        .with_host(host.size(), None)?;
    Ok((layout != *t.stick_layout()).then_some(layout))
}

/// Every layout with sticks along one dimension that a pin may name by an order; none where there are too many.
pub(super) fn every_order_along(t: &TensorLayout, stick: usize) -> Vec<StickLayout> {
    if t.size().len() > MAX_ORDERED_DIMS {
        return Vec::new();
    }
    let mut orders: Vec<Vec<usize>> = vec![vec![stick]];
    for d in (0..t.size().len()).filter(|d| *d != stick) {
        let with_it = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            (0..order.len())
                .map(|at| {
                    let mut longer = order.clone();
                    longer.insert(at, d);
                    longer
                })
                .collect()
        };
        orders = orders.iter().flat_map(with_it).collect();
    }
    let format = t.stick_layout().device_dtype();
    let laid = |order: Vec<usize>| {
        let order: Option<Vec<i64>> = order.iter().map(|d| i64::try_from(*d).ok()).collect();
        StickLayout::with_dim_order_in_format(t.size(), None, format, &order?).ok()
    };
    orders.into_iter().filter_map(laid).collect()
}
