//! Windows of tensors as views, for pools and convolutions in any number of dimensions.

use crate::error::Result;
use crate::node::NodeLowering;
use zellige_graph::{OpCall, TensorId};

/// The value of the padding around windows.
#[derive(Debug, Clone, Copy)]
pub(super) enum WindowPadding {
    Whole(i64),
    NegativeInfinity,
}

/// The parameters of windows, one entry for each spatial dimension.
pub(super) struct SpatialWindows {
    pub(super) kernel: Vec<i64>,
    pub(super) stride: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) before: Vec<i64>,
    pub(super) after: Vec<i64>,
}

impl SpatialWindows {
    /// The number of elements from the first to the last element of a window.
    pub(super) fn window_reach(&self, d: usize) -> i64 {
        (self.kernel[d] - 1).saturating_mul(self.dilation[d]).saturating_add(1)
    }

    /// The number of windows along a dimension of this size. With `ceil` one more may reach past
    /// the end, if it begins before the padding there.
    pub(super) fn window_count(&self, d: usize, extent: i64, ceil: bool) -> i64 {
        let left = extent + self.before[d] + self.after[d] - self.window_reach(d);
        if left < 0 {
            return 0;
        }
        let whole = left / self.stride[d] + 1;
        let more =
            // As in PyTorch and in the text of AveragePool: a window that would begin in the
            // padding at the end is left out.
            ceil && left % self.stride[d] != 0 && whole * self.stride[d] < extent + self.before[d];
        whole + i64::from(more)
    }

    /// The windows of `[batch, channels, ..]` as `[batch, channels, windows.., elements of a
    /// window..]`. Positions outside of the tensor have the value `padding`.
    pub(super) fn unfold_windows(
        &self,
        n: &mut NodeLowering<'_, '_>,
        x: TensorId,
        padding: WindowPadding,
        ceil: bool,
    ) -> Result<TensorId> {
        let size = n.tensor_size(x);
        let rank = self.kernel.len();
        let mut pairs = Vec::new();
        for d in (0..rank).rev() {
            let extent = size[d + 2];
            let count = self.window_count(d, extent, ceil);
            if count == 0 {
                let message = format!("windows of {} in {extent} elements", self.window_reach(d));
                return Err(n.refuse_node("bad_operand", message));
            }
            let used = (count - 1) * self.stride[d] + self.window_reach(d);
            // Only as much padding as windows reach: the rest would be sliced off again.
            let after = (used - extent - self.before[d]).max(0);
            pairs.extend([self.before[d], after]);
        }
        let mut x = x;
        if pairs.iter().any(|p| *p != 0) {
            let pad = OpCall::new("pad").with("pad", pairs);
            let pad = match padding {
                WindowPadding::Whole(value) => pad.with("value", value),
                WindowPadding::NegativeInfinity => pad.with_number("value", f64::NEG_INFINITY),
            };
            x = n.emit_step(pad, &[x])?;
        }
        for d in 0..rank {
            let (reach, step) = (self.window_reach(d), self.stride[d]);
            // Elements past the last window belong to no window.
            let used = (self.window_count(d, size[d + 2], ceil) - 1) * step + reach;
            if n.tensor_size(x)[d + 2] != used {
                x = n.emit_step(OpCall::slice(d + 2, 0, used), &[x])?;
            }
            x = n.emit_step(
                OpCall::new("unfold").with("dim", d + 2).with("size", reach).with("step", step),
                &[x],
            )?;
            if self.dilation[d] != 1 {
                let every = OpCall::slice_by(rank + 2 + d, 0, reach, self.dilation[d]);
                x = n.emit_step(every, &[x])?;
            }
        }
        Ok(x)
    }

    /// The dimensions of a window's elements in what [`SpatialWindows::unfold_windows`] makes.
    pub(super) fn window_dims(&self) -> Vec<usize> {
        let rank = self.kernel.len();
        (rank + 2..2 * rank + 2).collect()
    }

    /// A convolution as a product of matrices; the weights are `[out, channels of a group, ..]`.
    pub(super) fn multiply_weights(
        &self,
        n: &mut NodeLowering<'_, '_>,
        x: TensorId,
        weight: TensorId,
        groups: i64,
    ) -> Result<TensorId> {
        let (size, kernel) = (n.tensor_size(x), n.tensor_size(weight));
        let rank = self.kernel.len();
        let (batch, channels, out) = (size[0], size[1], kernel[0]);
        if groups < 1 || channels != kernel[1] * groups || out % groups != 0 {
            let message = format!("{size:?} and weights {kernel:?} in {groups} groups");
            return Err(n.refuse_node("bad_operand", message));
        }
        // The card's own convolutions have one or two spatial dimensions. Windows and a product of
        // matrices do any number, at the price of repeating the elements that windows share.
        let windows = self.unfold_windows(n, x, WindowPadding::Whole(0), false)?;
        let counts: Vec<i64> = n.tensor_size(windows)[2..rank + 2].to_vec();
        let places: i64 = counts.iter().product();
        let inner: i64 = kernel[1..].iter().product();
        // The windows come first, then the summed dimensions: the channels of a group and the
        // elements of a window.
        let order: Vec<usize> =
            [vec![0], (2..rank + 2).collect(), vec![1], self.window_dims()].concat();
        let windows = n.emit_step(OpCall::permute(order), &[windows])?;
        let rows = n.emit_step(OpCall::reshape([batch, places, groups, inner]), &[windows])?;
        let mut parts = Vec::new();
        // Groups are independent products over different channels; one product for all would be
        // mostly zeros.
        for g in 0..groups {
            let rows = n.emit_step(OpCall::select(2, g), &[rows])?;
            let (start, end) = (g * (out / groups), (g + 1) * (out / groups));
            let own = n.emit_step(OpCall::slice(0, start, end), &[weight])?;
            let own = n.emit_step(OpCall::reshape([out / groups, inner]), &[own])?;
            let own = n.emit_step(OpCall::transpose(0, 1), &[own])?;
            parts.push(n.emit_step("matmul", &[rows, own])?);
        }
        let all = match parts[..] {
            [one] => one,
            _ => n.emit_step(OpCall::cat(2), &parts)?,
        };
        let all = n.emit_step(OpCall::transpose(1, 2), &[all])?;
        let shape = [vec![batch, out], counts].concat();
        n.emit_step(OpCall::reshape(shape), &[all])
    }
}
