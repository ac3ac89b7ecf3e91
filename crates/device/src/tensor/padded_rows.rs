//! Rows of a tensor that its block has and its size has not.
//!
//! A dimension other than the stick may be longer on the device than in the tensor. The right operand of a product has
//! such rows where the summed dimension does not fill whole sticks: the lanes of the left operand past its end meet
//! them, so that they have to hold zeros.

use crate::error::Result;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use crate::tensor::transfer::MoveTraffic;
use std::sync::Arc;
use zellige_stick::StickLayout;

impl TensorLayout {
    /// The whole tensor with one of its dimensions that long on the device, at this step of the block: its layout, in
    /// which the dimension has that many places. None where no device dimension is that dimension.
    pub fn with_padded_rows(&self, step: usize, size: i64, rows: i64) -> Option<StickLayout> {
        let layout = self.stick_layout();
        let strides = layout.device_strides().ok()?;
        let last = layout.device_rank() - 1;
        let at = (0..last).find(|j| {
            usize::try_from(strides[*j]) == Ok(step) && layout.device_size()[*j] == size
        })?;
        let mut device = layout.device_size().to_vec();
        device[at] = rows;
        let made = StickLayout::from_size_and_stride_map(
            &device,
            layout.stride_map(),
            layout.device_dtype(),
        );
        let host = layout.host()?;
        let made = made.ok()?.with_own_strides(host.size(), host.stride()).ok()?;
        // A layout that cannot be lowered has no places for the rows.
        made.lower_to_layout().ok()?;
        Some(made)
    }

    /// The rows past the end of the first dimension that is longer on the device than in the tensor, as a tensor of the
    /// same block; none of a tensor without such rows. The stick does not count.
    pub fn rows_past_the_end(&self) -> Option<TensorLayout> {
        let layout = self.stick_layout();
        let host = layout.host()?;
        let eps = layout.elems_per_stick();
        let lanes = *layout.stride_map().last()?;
        let found = (0..layout.device_rank() - 1).find_map(|j| {
            let (step, rows) = (layout.stride_map()[j], layout.device_size()[j]);
            // The number of sticks may step as many elements as a row does, where a row is one stick.
            let along =
                host.sizes_and_strides().find(|(n, s)| *s == lanes && *n > 1).map_or(1, |(n, _)| n);
            let sticks = along.div_euclid(eps) + i64::from(along % eps != 0);
            if step < 1 || (lanes > 0 && step == lanes * eps && rows == sticks) {
                return None;
            }
            let stick = |n: i64, s: i64| s == lanes && n > 1;
            let fits = |(n, s): (i64, i64)| s == step && n > 1 && n < rows && !stick(n, s);
            let dim = host.sizes_and_strides().position(fits)?;
            Some((dim, rows))
        });
        let (dim, rows) = found?;
        let (n, step) = (host.size()[dim], host.stride()[dim]);
        // Everything outside of the dimension steps over more of it.
        let outside = |s: i64| if s >= n * step { s / n * rows } else { s };
        let map: Vec<i64> = layout.stride_map().iter().map(|s| outside(*s)).collect();
        let stride: Vec<i64> = host.stride().iter().map(|s| outside(*s)).collect();
        let mut size = host.size().to_vec();
        size[dim] = rows;
        let made = StickLayout::from_size_and_stride_map(
            layout.device_size(),
            &map,
            layout.device_dtype(),
        );
        let made = made.ok()?.with_own_strides(&size, &stride).ok()?;
        let whole = TensorLayout::new(self.storage_policy(), self.dtype(), &made).ok()?;
        let dim = i64::try_from(dim).ok()?;
        whole.view_layout(|v| v.slice_dim(dim, Some(n), Some(rows), 1)).ok()
    }

    /// What copying these elements into a tensor takes, and setting the rows that it has past its end.
    ///
    /// **Law**: equal to what [`Tensor::copy_and_pad`] between two tensors of these layouts returns.
    ///
    /// # Errors
    /// As [`TensorLayout::plan_copy_to`].
    pub fn plan_padded_copy_to(&self, to: &TensorLayout) -> Result<MoveTraffic> {
        let moved = self.plan_copy_to(to)?;
        match to.rows_past_the_end() {
            Some(rows) => Ok(moved.with_writes(rows.plan_fill()?)),
            None => Ok(moved),
        }
    }
}

impl Tensor {
    /// Copies the elements of another tensor, and sets the rows past the end to a number.
    ///
    /// # Errors
    /// As [`Tensor::copy_from`].
    pub fn copy_and_pad(&self, src: &Tensor, value: f64) -> Result<MoveTraffic> {
        let moved = self.copy_from(src)?;
        match self.tensor_layout().rows_past_the_end() {
            Some(rows) => {
                Tensor { laid: Arc::new(rows.clone()), ..self.clone() }.fill(value)?;
                Ok(moved.with_writes(rows.plan_fill()?))
            }
            None => Ok(moved),
        }
    }
}

impl MoveTraffic {
    /// Both moves, of which the other one only writes.
    fn with_writes(mut self, other: MoveTraffic) -> MoveTraffic {
        self.written += other.written;
        self.write_runs.extend(other.write_runs);
        self
    }
}
