//! Reordering, splitting, joining, cutting and growing dimensions.

use super::{InDim, LinearLayout, OutDim, check_same_names, log2_of_size};
use crate::error::{LayoutError, Result};

impl LinearLayout {
    /// The same with its in dimensions in another order.
    pub fn transpose_ins(&self, order: &[&str]) -> Result<LinearLayout> {
        check_same_names("transposeIns", "the order", order.iter().copied(), self.in_dims())?;
        let find = |name: &&str| self.ins.iter().find(|d| d.name == **name).cloned();
        Ok(LinearLayout { ins: order.iter().filter_map(find).collect(), outs: self.outs.clone() })
    }

    /// The same with its out dimensions in another order.
    pub fn transpose_outs(&self, order: &[&str]) -> Result<LinearLayout> {
        check_same_names("transposeOuts", "the order", order.iter().copied(), self.out_dims())?;
        let find = |name: &&str| self.outs.iter().find(|d| d.name == **name).cloned();
        let outs: Vec<OutDim> = order.iter().filter_map(find).collect();
        let ins = self.map_flat_bases(|b| self.spread_out_bits(b, &outs, |_| 0));
        Ok(LinearLayout { ins, outs })
    }

    fn map_flat_bases(&self, f: impl Fn(u64) -> u64) -> Vec<InDim> {
        let dim = |d: &InDim| InDim {
            name: d.name.clone(),
            bases: d.bases.iter().map(|b| f(*b)).collect(),
        };
        self.ins.iter().map(dim).collect()
    }

    /// The flat number of its inputs split over other dimensions of the same total size, the first one minor.
    pub fn reshape_ins(&self, dims: &[(String, i64)]) -> Result<LinearLayout> {
        let bits = bits_of_sizes("reshapeIns", dims, self.in_bits() as u64)?;
        let mut columns = self.matrix_columns();
        let ins = dims.iter().zip(bits).map(|((name, _), bits)| InDim {
            name: name.clone(),
            bases: columns.by_ref().take(bits as usize).collect(),
        });
        LinearLayout::from_flat_bases(ins.collect(), self.outs.clone())
    }

    /// The flat number of its outputs split over other dimensions of the same total size, the first one minor.
    pub fn reshape_outs(&self, dims: &[(String, i64)]) -> Result<LinearLayout> {
        let bits = bits_of_sizes("reshapeOuts", dims, u64::from(self.out_bits()))?;
        let outs =
            dims.iter().zip(bits).map(|((name, _), bits)| OutDim { name: name.clone(), bits });
        LinearLayout::from_flat_bases(self.ins.clone(), outs.collect())
    }

    /// All in dimensions as one, with the name of the first.
    pub fn flatten_ins(&self) -> LinearLayout {
        let Some(first) = self.ins.first() else { return self.clone() };
        let dim = InDim { name: first.name.clone(), bases: self.matrix_columns().collect() };
        LinearLayout { ins: vec![dim], outs: self.outs.clone() }
    }

    /// All out dimensions as one, with the name of the first.
    pub fn flatten_outs(&self) -> LinearLayout {
        let Some(first) = self.outs.first() else { return self.clone() };
        let dim = OutDim { name: first.name.clone(), bits: self.out_bits() };
        LinearLayout { ins: self.ins.clone(), outs: vec![dim] }
    }

    /// The restriction to some in dimensions and the projection onto some out dimensions, in the order they
    /// have here.
    pub fn sublayout(&self, in_dims: &[&str], out_dims: &[&str]) -> Result<LinearLayout> {
        for (names, known, side) in [
            (in_dims, self.in_dims().collect::<Vec<_>>(), "in"),
            (out_dims, self.out_dims().collect::<Vec<_>>(), "out"),
        ] {
            super::check_distinct_names("given", names.iter().copied())?;
            if let Some(unknown) = names.iter().find(|d| !known.contains(d)) {
                let reason = format!(
                    "there is no {side} dimension `{unknown}` in {}",
                    super::list_some_names(&known)
                );
                return Err(LayoutError::LinearDims { call: "sublayout", reason });
            }
        }
        let kept = |d: &&OutDim| out_dims.contains(&d.name.as_str());
        let outs: Vec<OutDim> = self.outs.iter().filter(kept).cloned().collect();
        let gather = |basis: u64| {
            let (mut rest, mut own, mut at) = (basis, 0, 0);
            for out in &self.outs {
                let value = rest & ((1 << out.bits) - 1);
                rest >>= out.bits;
                if kept(&out) {
                    own |= value << at;
                    at += out.bits;
                }
            }
            own
        };
        let mut ins = self.map_flat_bases(gather);
        ins.retain(|d| in_dims.contains(&d.name.as_str()));
        Ok(LinearLayout { ins, outs })
    }

    /// The in dimensions of both, over the out dimensions that both have.
    ///
    /// **Law**: `concat(x, y) == self(x) xor other(y)`.
    pub fn concat_ins(&self, other: &LinearLayout) -> Result<LinearLayout> {
        if self.outs != other.outs {
            let shown = |l: &LinearLayout| {
                let sizes: Vec<String> = l.out_sizes().map(|(d, s)| format!("{d}: {s}")).collect();
                sizes.join(", ")
            };
            let reason =
                format!("the out dimensions differ: [{}] and [{}]", shown(self), shown(other));
            return Err(LayoutError::LinearDims { call: "concatIns", reason });
        }
        let ins = self.ins.iter().chain(&other.ins).cloned().collect();
        LinearLayout::from_flat_bases(ins, self.outs.clone())
    }

    /// The out dimensions of both, over the in dimensions that both have.
    ///
    /// **Law**: `concat(x) == (self(x), other(x))`.
    pub fn concat_outs(&self, other: &LinearLayout) -> Result<LinearLayout> {
        if !self.in_sizes().eq(other.in_sizes()) {
            let shown = |l: &LinearLayout| {
                let sizes: Vec<String> = l.in_sizes().map(|(d, s)| format!("{d}: {s}")).collect();
                sizes.join(", ")
            };
            let reason =
                format!("the in dimensions differ: [{}] and [{}]", shown(self), shown(other));
            return Err(LayoutError::LinearDims { call: "concatOuts", reason });
        }
        let outs: Vec<OutDim> = self.outs.iter().chain(&other.outs).cloned().collect();
        super::check_within_bits("out", outs.iter().map(|d| u64::from(d.bits)))?;
        let up = self.out_bits();
        let both = |(a, b): (&InDim, &InDim)| InDim {
            name: a.name.clone(),
            bases: a.bases.iter().zip(&b.bases).map(|(a, b)| a | b << up).collect(),
        };
        LinearLayout::from_flat_bases(self.ins.iter().zip(&other.ins).map(both).collect(), outs)
    }

    /// Without the bases of one in dimension that are all zeros: each was a broadcast.
    pub fn remove_zero_bases_along_dim(&self, dim: &str) -> Result<LinearLayout> {
        let mut layout = self.clone();
        layout.in_dim_mut("removeZeroBasesAlongDim", dim)?.bases.retain(|b| *b != 0);
        Ok(layout)
    }

    fn in_dim_mut(&mut self, call: &'static str, dim: &str) -> Result<&mut InDim> {
        let known = super::list_some_names(&self.in_dims().collect::<Vec<_>>());
        self.ins.iter_mut().find(|d| d.name == dim).ok_or_else(|| {
            let reason = format!("there is no in dimension `{dim}` in {known}");
            LayoutError::LinearDims { call, reason }
        })
    }

    /// An in dimension of another size: the first `size` of it, or with broadcasts after its last.
    pub fn resize_in_dim(&self, dim: &str, size: i64) -> Result<LinearLayout> {
        let bits = log2_of_size(size, dim)? as usize;
        let mut layout = self.clone();
        layout.in_dim_mut("resizeInDim", dim)?.bases.resize(bits, 0);
        LinearLayout::from_flat_bases(layout.ins, layout.outs)
    }

    /// An out dimension of another size: an entry past a smaller one is 0.
    pub fn resize_out_dim(&self, dim: &str, size: i64) -> Result<LinearLayout> {
        let bits = log2_of_size(size, dim)?;
        if !self.outs.iter().any(|d| d.name == dim) {
            let known = super::list_some_names(&self.out_dims().collect::<Vec<_>>());
            let reason = format!("there is no out dimension `{dim}` in {known}");
            return Err(LayoutError::LinearDims { call: "resizeOutDim", reason });
        }
        let others = self.outs.iter().filter(|d| d.name != dim).map(|d| u64::from(d.bits));
        super::check_within_bits("out", others.chain([u64::from(bits)]))?;
        self.cut_out_dim(dim, bits, |entry| if entry >> bits == 0 { entry } else { 0 })
    }

    /// One out dimension with other bits, its entries made to fit.
    fn cut_out_dim(&self, dim: &str, bits: u32, fit: impl Fn(u64) -> u64) -> Result<LinearLayout> {
        let narrow = |d: &OutDim| OutDim {
            name: d.name.clone(),
            bits: if d.name == dim { bits } else { d.bits },
        };
        let outs: Vec<OutDim> = self.outs.iter().map(narrow).collect();
        let ins = self.map_flat_bases(|basis| {
            let (mut rest, mut own, mut at) = (basis, 0, 0);
            for (whole, out) in self.outs.iter().zip(&outs) {
                let value = rest & ((1 << whole.bits) - 1);
                rest >>= whole.bits;
                own |= if whole.name == dim { fit(value) } else { value } << at;
                at += out.bits;
            }
            own
        });
        LinearLayout::from_flat_bases(ins, outs)
    }

    /// The layout with every out dimension of at most the size that `shape` gives it: the bits past it are
    /// dropped, so that what counted them becomes a broadcast.
    ///
    /// With `drop_in_dim`, a basis of that in dimension that becomes a broadcast by this is removed.
    pub fn ensure_not_larger_than(
        &self,
        shape: &[(String, i64)],
        drop_in_dim: Option<&str>,
    ) -> Result<LinearLayout> {
        let call = "ensureLayoutNotLargerThan";
        self.check_sizes_of_outs(call, shape)?;
        let mut layout = self.clone();
        for (name, size) in shape {
            let bits = log2_of_size(*size, name)?;
            if layout.outs.iter().any(|d| d.name == *name && d.bits > bits) {
                layout = layout.cut_out_dim(name, bits, |entry| entry & ((1 << bits) - 1))?;
            }
        }
        if let Some(dim) = drop_in_dim {
            let before = self.flat_bases(dim).to_vec();
            let kept = layout.in_dim_mut(call, dim)?;
            let mut became_zero = before.iter().zip(&kept.bases).map(|(b, a)| *b != 0 && *a == 0);
            // Only bases that the cut made zero are removed: one that was a broadcast before still
            // holds copies.
            let keep: Vec<bool> = became_zero.by_ref().map(|zero| !zero).collect();
            let mut keep = keep.into_iter();
            kept.bases.retain(|_| keep.next().unwrap_or(true));
        }
        Ok(layout)
    }

    /// The layout repeated along its first in dimension until every out dimension has at least the size that `shape`
    /// gives it, out dimensions in order.
    pub fn ensure_not_smaller_than(&self, shape: &[(String, i64)]) -> Result<LinearLayout> {
        let call = "ensureLayoutNotSmallerThan";
        self.check_sizes_of_outs(call, shape)?;
        let Some(first) = self.ins.first() else {
            let reason = "a layout without in dimensions cannot be repeated".to_string();
            return Err(LayoutError::LinearDims { call, reason });
        };
        let mut layout = self.clone();
        for out in &self.outs {
            let wanted = shape.iter().find(|(name, _)| *name == out.name);
            let bits = wanted.map_or(Ok(0), |(name, size)| log2_of_size(*size, name))?;
            let more = 1i64 << bits.saturating_sub(out.bits);
            layout =
                layout.direct_sum(&LinearLayout::identity_1d(more, &first.name, &out.name)?)?;
        }
        Ok(layout)
    }

    /// A shape gives a size to every out dimension.
    fn check_sizes_of_outs(&self, call: &'static str, shape: &[(String, i64)]) -> Result<()> {
        check_same_names(call, "the shape", shape.iter().map(|(d, _)| d.as_str()), self.out_dims())
    }
}

/// The bits of dimensions whose sizes multiply to `2^total`.
fn bits_of_sizes(call: &'static str, dims: &[(String, i64)], total: u64) -> Result<Vec<u32>> {
    let bits =
        dims.iter().map(|(name, size)| log2_of_size(*size, name)).collect::<Result<Vec<u32>>>()?;
    let found: u64 = bits.iter().map(|b| u64::from(*b)).sum();
    if found == total {
        return Ok(bits);
    }
    let reason =
        format!("the new sizes multiply to 2^{found}, and there are 2^{total} coordinates");
    Err(LayoutError::LinearDims { call, reason })
}
