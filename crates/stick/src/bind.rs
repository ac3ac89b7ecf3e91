//! Layouts bound to their host tensor: the strides in which `stride_map` is read.

use crate::StickLayout;
use crate::build::build_host_layout;
use crate::error::Result;
use zellige_layout::StridedLayout;

impl StickLayout {
    /// The layout bound to a host tensor of that size, whose memory has those strides (row-major
    /// ones where none are given).
    ///
    /// `stride_map` is read in the host's own strides where it names them all. Where it does not,
    /// it was written for a host with gaps between its rows: the strides of the memory where the
    /// map names those, else the strides of the padded box that the device dimensions form, where
    /// the host fits into it. So a tensor `[100, 200, 500]` in `[256, 8, 128, 64]` with the map
    /// `[512, 64, 131072, 1]` is a corner of the box `[128, 256, 512]`, and has the strides
    /// `[131072, 512, 1]` of that box. What is none of these is read in the own strides, which need
    /// not be named: a tensor may be folded over the sticks. [`StickLayout::with_own_strides`] says
    /// the strides and leaves nothing to be found out.
    ///
    /// A layout that is bound to a host of that size keeps the strides it was given where they have gaps, and
    /// where they are the ones asked for.
    ///
    /// A host that is broadcast (stride 0) keeps its strides where the device dimensions of stride 0
    /// have room for it; where they have not, they are replicas, and the host has row-major strides
    /// of its own like any other that is not dense.
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

    /// Whether the map and the strides of a host's memory say in which strides the map is read; where they do
    /// not, a text of the layout has to name those.
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
            if *step != end {
                return None;
            }
            end = end.checked_mul(*extent)?;
        }
        let mut fastest: Vec<usize> = (0..host.rank()).filter(|d| host.size()[*d] > 1).collect();
        // Stable, and later dimensions of one stride are the faster ones.
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
