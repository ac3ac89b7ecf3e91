//! The layout of a view: the device positions of the elements of a slice, a transpose or an expansion of a tensor.

use crate::error::{Result, StickError};
use crate::{AccessTerm, DeviceAccess, StickLayout, ViewLoop};
use zellige_layout::Axis;
use zellige_layout::Layout;
use zellige_layout::LayoutError;
use zellige_layout::StridedLayout;
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Iter, TileLayout};
use zellige_layout::{PaddedExtent, ValidWindow};

impl StickLayout {
    /// The layout of a view on the axis `m`, in device elements, over the view's row-major index.
    ///
    /// The view is described in the tensor's own strides, as for [`StickLayout::view_access`].
    ///
    /// Law: for every coordinate `c` of the view, the device position splits row-major over `device_size`
    /// into a device coordinate whose [`StickLayout::own_stride_offset`] is the offset of `c` in the view.
    ///
    /// A view may begin inside a stick: the loop over it then starts inside the padded extent.
    pub fn lower_view(&self, view: &StridedLayout) -> Result<Layout> {
        if view.numel() == 0 {
            return Ok(TileLayout::from_shard(vec![Iter::in_memory(0, 1)])?.into());
        }
        let (begins, offset) = self.split_loop_starts(view)?;
        let mut loops = Vec::new();
        for ((range, step), begin) in view.sizes_and_strides().zip(&begins) {
            let range =
                begin.checked_add(range).ok_or_else(|| LayoutError::overflow_of("a view"))?;
            loops.push(ViewLoop { range, step });
        }
        let access = self.decompose_access(&loops, offset)?;
        let strides = self.device_strides()?;
        let constants = access.coordinates().iter().map(|e| i128::from(e.constant));
        let mut top: Vec<i128> = constants.clone().collect();
        let offset: i128 = constants.zip(&strides).map(|(c, s)| c * i128::from(*s)).sum();
        let (mut shard, mut window) = (Vec::new(), Vec::new());
        for (var, (l, begin)) in loops.iter().zip(&begins).enumerate() {
            let first = shard.len();
            let mut rest = l.range;
            for (dim, term) in terms_of_loop(&access, var) {
                let step = term.multiplier.checked_mul(strides[dim]);
                let step =
                    step.ok_or_else(|| LayoutError::overflow_of("a stride on the device"))?;
                // The slowest term counts the blocks that the loop enters, the last of which may be
                // partial; the faster terms count whole blocks, whose excess is outside the window.
                let extent = div_ceil(rest, term.divisor);
                shard.push(Iter::in_memory(extent, step));
                top[dim] += i128::from(extent - 1) * i128::from(term.multiplier);
                rest = term.divisor;
            }
            if shard.len() == first {
                // No device dimension steps along this loop: it is an expansion, and its elements share positions.
                shard.push(Iter::in_memory(rest, 0));
            }
            let padded =
                checked_product(shard[first..].iter().map(|d| d.extent), "a padded extent")?;
            window.push(PaddedExtent { begin: *begin, valid: l.range - begin, padded });
        }
        let over = |dim: &usize| top[*dim] >= i128::from(self.device_size[*dim]);
        if let Some(dim) = (0..self.device_rank()).find(over) {
            let reason = format!(
                "the view reaches step {} of it, and it has {}",
                top[dim], self.device_size[dim]
            );
            return Err(StickError::BadStick { dim, reason });
        }
        if let Some((dim, top)) = self.first_outside_dim(&access) {
            let reason = format!(
                "loops of the view together reach index {top} of dimension {dim} of the tensor, past \
                 its end: the next elements of the host are elsewhere on the device"
            );
            return Err(StickError::BadStick { dim: self.device_rank() - 1, reason });
        }
        let offset = zellige_layout::int::narrow_to_i64(offset, "the first place of a view")?;
        let tile = TileLayout::new(shard, vec![], vec![(Axis::M, offset)])?;
        Ok(Layout::from(tile).with_window(ValidWindow::new(window)?)?)
    }

    /// The start of each loop of a view, in its steps, and the rest of the offset.
    ///
    /// The offset is split over the host's dimensions. A loop along one of them starts counting there, so
    /// that it carries into the next stick where the host's index does.
    fn split_loop_starts(&self, view: &StridedLayout) -> Result<(Vec<i64>, i64)> {
        let host = self.require_bound_host("the layout of a view")?;
        let mut dims: Vec<i64> =
            host.sizes_and_strides().filter(|(n, s)| *n > 1 && *s > 0).map(|d| d.1).collect();
        dims.sort_unstable_by(|a, b| b.cmp(a));
        let mut begins = vec![0; view.rank()];
        let mut offset = 0;
        let mut rest = view.offset();
        for own in dims {
            let (steps, left) = (rest / own, rest % own);
            rest = left;
            // The loop that runs along this dimension is the one for which this is the largest stride not
            // above its step.
            let along = |(n, s): &(i64, i64)| *n > 1 && *s >= own && s % own == 0;
            let nearest = view
                .sizes_and_strides()
                .enumerate()
                .filter(|(_, d)| along(d))
                .min_by_key(|(_, d)| d.1);
            match nearest {
                Some((var, (_, step)))
                    if begins[var] == 0 && self.nearest_own_stride(step) == Some(own) =>
                {
                    let k = step / own;
                    begins[var] = steps / k;
                    offset += steps % k * own;
                }
                _ => offset += steps * own,
            }
        }
        Ok((begins, offset + rest))
    }

    /// The largest own stride that is not above `step`.
    fn nearest_own_stride(&self, step: i64) -> Option<i64> {
        let host = self.host.as_ref()?;
        let below = host.sizes_and_strides().filter(|(n, s)| *n > 1 && *s > 0 && *s <= step);
        below.map(|d| d.1).max()
    }
}

/// The terms of one loop with the device dimensions they are in, slowest first.
fn terms_of_loop(access: &DeviceAccess, var: usize) -> Vec<(usize, AccessTerm)> {
    let all = access.coordinates().iter().enumerate();
    let mine = all.flat_map(|(dim, e)| e.terms.iter().map(move |t| (dim, *t)));
    let mut chain: Vec<(usize, AccessTerm)> = mine.filter(|(_, t)| t.var == var).collect();
    chain.sort_by_key(|(_, t)| std::cmp::Reverse(t.divisor));
    chain
}
