//! Quotients of direct sums, and layouts that are trivial over some dimensions.

use super::{InDim, LinearLayout, OutDim};
use crate::error::{LayoutError, Result};

impl LinearLayout {
    /// `c` with `self == b * c`, if there is one.
    pub fn divide_left(&self, b: &LinearLayout) -> Option<LinearLayout> {
        self.quotient_by(b, true)
    }

    /// `c` with `self == c * b`, where there is one.
    pub fn divide_right(&self, b: &LinearLayout) -> Option<LinearLayout> {
        self.quotient_by(b, false)
    }

    /// The only candidate has the bits of every dimension that `b` does not have: the high ones where `b` has the low
    /// ones, and the other way round. It is the quotient if its product with `b` is this layout.
    fn quotient_by(&self, b: &LinearLayout, low: bool) -> Option<LinearLayout> {
        let known = b.ins.iter().all(|d| self.in_size(&d.name).is_some())
            && b.outs.iter().all(|d| self.out_size(&d.name).is_some());
        if !known {
            return None;
        }
        let outs: Vec<OutDim> = self
            .outs
            .iter()
            .map(|d| {
                let taken = b.outs.iter().find(|o| o.name == d.name).map_or(0, |o| o.bits);
                let bits = d.bits.checked_sub(taken)?;
                Some(OutDim { name: d.name.clone(), bits })
            })
            .collect::<Option<_>>()?;
        // The part of a basis that is the candidate's.
        let own = |basis: u64| {
            let (mut rest, mut own, mut at) = (basis, 0, 0);
            for (whole, out) in self.outs.iter().zip(&outs) {
                let value = rest & ((1 << whole.bits) - 1);
                rest >>= whole.bits;
                let part = if low { value >> (whole.bits - out.bits) } else { value };
                own |= (part & ((1 << out.bits) - 1)) << at;
                at += out.bits;
            }
            own
        };
        let dim = |d: &InDim| {
            let taken = b.flat_bases(&d.name).len();
            let left = d.bases.len().checked_sub(taken)?;
            let kept = if low { &d.bases[taken..] } else { &d.bases[..left] };
            Some(InDim { name: d.name.clone(), bases: kept.iter().map(|x| own(*x)).collect() })
        };
        let ins = self.ins.iter().map(dim).collect::<Option<_>>()?;
        let candidate = LinearLayout { ins, outs };
        let product = if low { b.direct_sum(&candidate) } else { candidate.direct_sum(b) };
        // The product lists the dimensions of `b` first, so it is brought into this layout's order before
        // the comparison.
        let product = product.ok()?;
        let ins: Vec<&str> = self.in_dims().collect();
        let outs: Vec<&str> = self.out_dims().collect();
        let product = product.transpose_ins(&ins).and_then(|p| p.transpose_outs(&outs)).ok()?;
        (product == *self).then_some(candidate)
    }

    /// Whether it is the identity on some dimensions that no other dimension affects: each is an in and an
    /// out dimension of the same size.
    pub fn is_trivial_over(&self, dims: &[&str]) -> bool {
        let unit = |name: &str| {
            let (Some(ins), Some(outs)) = (self.in_size(name), self.out_size(name)) else {
                return false;
            };
            let at = self.out_dim_shift(name);
            let bases = self.flat_bases(name);
            ins == outs && bases.iter().zip(at..).all(|(b, k)| *b == 1 << k)
        };
        let mask = |name: &str| match self.out_size(name) {
            Some(size) => (size.cast_unsigned() - 1) << self.out_dim_shift(name),
            None => 0,
        };
        let taken: u64 = dims.iter().fold(0, |all, d| all | mask(d));
        let others = self.ins.iter().filter(|d| !dims.contains(&d.name.as_str()));
        dims.iter().all(|d| unit(d)) && others.flat_map(|d| &d.bases).all(|b| b & taken == 0)
    }

    /// The lowest bit of an out dimension in flat numbers.
    fn out_dim_shift(&self, name: &str) -> u32 {
        self.outs.iter().take_while(|d| d.name != name).map(|d| d.bits).sum()
    }

    /// The layout without some dimensions, where it is [trivial over](LinearLayout::is_trivial_over) them.
    ///
    /// # Errors
    /// A name that is no dimension.
    pub fn quotient_without_dims(&self, dims: &[&str]) -> Result<Option<LinearLayout>> {
        let known = |d: &str| self.in_size(d).is_some() || self.out_size(d).is_some();
        if let Some(unknown) = dims.iter().find(|d| !known(d)) {
            let reason = format!("there is no dimension `{unknown}`");
            return Err(LayoutError::LinearDims { call: "quotient", reason });
        }
        if !self.is_trivial_over(dims) {
            return Ok(None);
        }
        let ins: Vec<&str> = self.in_dims().filter(|d| !dims.contains(d)).collect();
        let outs: Vec<&str> = self.out_dims().filter(|d| !dims.contains(d)).collect();
        self.sublayout(&ins, &outs).map(Some)
    }
}
