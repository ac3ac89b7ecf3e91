//! Layouts bound to their host tensor: the strides in which `stride_map` is read.

use crate::StickLayout;
use crate::build::build_host_layout;
use crate::error::Result;
use zellige_layout::StridedLayout;

impl StickLayout {
    /// The layout bound to a host tensor of that size, whose memory has those strides (row-major
    /// ones where none are given).
    ///
    /// `stride_map` is read in the host's own strides where it names them all. Where it does not, it was
    /// written for a host with gaps between its rows: the strides of the memory where the map names those,
    /// else the strides of the padded box that the device dimensions form, where the host fits into it. So
    /// a tensor `[100, 200, 500]` in `[256, 8, 128, 64]` with the map `[512, 64, 131072, 1]` is a corner of
    /// the box `[128, 256, 512]`, and has the strides `[131072, 512, 1]` of that box. In all other cases it
    /// is read in the own strides, which it need not name, because a tensor may be folded over the sticks.
    /// [`StickLayout::with_own_strides`] states the strides instead of finding them.
    ///
    /// A layout that is bound to a host of that size keeps the strides it was given if they have gaps, or
    /// if they are the requested ones.
    ///
    /// A host that is broadcast (stride 0) keeps its strides if the device dimensions of stride 0 have room
    /// for it. Otherwise these are replicas, and the host has row-major strides of its own like any other
    /// that is not dense.
    pub fn with_host(&self, size: &[i64], stride: Option<&[i64]>) -> Result<StickLayout> {
        let host = match stride {
            Some(stride) => StridedLayout::new(size, stride, 0)?,
            None => build_host_layout(size, None)?,
        };
        let own = self.with_own_strides(size, &host.own_strides()?)?;
        let kept = |h: &&StridedLayout| {
            h.size() == size
                && !is_broadcast_host(h)
                && (!h.is_dense_non_overlapping() || own.host() == Some(h))
        };
        // Strides with gaps were stated explicitly and cannot be found again from the size, so a
        // second binding must not lose them.
        if self.host.as_ref().filter(kept).is_some() {
            return Ok(self.clone());
        }
        if self.stride_map.contains(&0) && is_broadcast_host(&host) {
            let without = host.sizes_and_strides().filter(|(n, s)| *s != 0 || *n == 1);
            let (n, s): (Vec<i64>, Vec<i64>) = without.unzip();
            if !StridedLayout::new(&n, &s, 0)?.is_dense_non_overlapping() {
                return Ok(own);
            }
            let broadcast = self.with_own_strides(size, host.stride())?;
            // Both readings of stride 0 exist: one element of the host that is repeated, or device
            // replicas. Lowering decides which of them the device dimensions can hold.
            let only_own = broadcast.lower_to_layout().is_err() && own.lower_to_layout().is_ok();
            return Ok(if only_own { own } else { broadcast });
        }
        let Some(dense) =
            own.host.as_ref().filter(|h| h.numel() > 0 && !self.map_names_strides_of(h))
        else {
            return Ok(own);
        };
        let in_memory =
            Some(&host).filter(|h| self.map_names_strides_of(h)).map(|h| h.stride().to_vec());
        for strides in in_memory.into_iter().chain(self.strides_of_host_box(dense)) {
            let gapped = self.with_own_strides(size, &strides)?;
            // A candidate counts only if every element has a position with it.
            if gapped.lower_to_layout().is_ok() {
                return Ok(gapped);
            }
        }
        Ok(own)
    }

    /// The layout bound to a host tensor whose own strides are named, whatever its memory is:
    /// also ones with gaps between the rows.
    pub fn with_own_strides(&self, size: &[i64], own: &[i64]) -> Result<StickLayout> {
        Ok(StickLayout { host: Some(build_host_layout(size, Some(own))?), ..self.clone() })
    }

    /// Whether the strides in which the map is read follow from the map and the strides of the host's
    /// memory. Otherwise a text of the layout has to state them.
    pub fn tells_its_strides(&self) -> bool {
        let Some(host) = self.host.as_ref() else { return true };
        let unbound = StickLayout { host: None, ..self.clone() };
        let found = unbound.with_host(host.size(), Some(host.stride()));
        host.is_dense_non_overlapping() && found.is_ok_and(|l| l.host() == Some(host))
    }

    /// Whether every stride along which the host steps is one of the map.
    fn map_names_strides_of(&self, host: &StridedLayout) -> bool {
        host.sizes_and_strides().all(|(n, s)| n == 1 || s > 0 && self.stride_map.contains(&s))
    }

    /// The strides of a host that is a corner of the box of the device dimensions.
    ///
    /// The dimensions with strides have to nest without gaps from stride 1 on. Each host dimension,
    /// the fastest first, takes as many of them as it needs.
    fn strides_of_host_box(&self, host: &StridedLayout) -> Option<Vec<i64>> {
        let fields = self.stride_map.iter().zip(&self.device_size);
        let mut digits: Vec<(i64, i64)> =
            fields.filter(|(w, n)| **w > 0 && **n > 1).map(|(w, n)| (*w, *n)).collect();
        digits.sort_unstable();
        let mut end = 1i64;
        for (step, extent) in &digits {
            // A gap between the device dimensions would leave it open how large the box is.
            if *step != end {
                return None;
            }
            end = end.checked_mul(*extent)?;
        }
        let mut fastest: Vec<usize> = (0..host.rank()).filter(|d| host.size()[*d] > 1).collect();
        // The sort is stable, so that of dimensions with one stride the later one counts as the faster.
        fastest.reverse();
        fastest.sort_by_key(|d| host.stride()[*d]);
        let mut strides = host.stride().to_vec();
        let mut digits = digits.into_iter().peekable();
        for d in fastest {
            strides[d] = digits.peek()?.0;
            let mut room = 1i64;
            while room < host.size()[d] {
                // A factor of the number of device positions, which fits.
                room *= digits.next()?.1;
            }
        }
        Some(strides)
    }
}

/// Whether a dimension repeats its elements.
fn is_broadcast_host(host: &StridedLayout) -> bool {
    host.sizes_and_strides().any(|(n, s)| n != 1 && s == 0)
}
