//! Products, compositions and inverses of linear layouts.

use super::gf2::Gf2Span;
use super::{InDim, LinearLayout, OutDim, check_same_names, list_some_names};
use crate::error::{LayoutError, Result};

impl LinearLayout {
    /// The direct sum, written `self * outer`: `self` has the low bits of every dimension that both have,
    /// `outer` the high ones (Triton's `operator*`, documented in its `LinearLayout.h`).
    ///
    /// **Law**: with `n(d)` and `m(d)` the sizes of `self`,
    /// `mul(x + n * y) == self(x) + m * outer(y)` for all inputs `x` of `self` and `y` of `outer`.
    ///
    /// # Errors
    /// Dimensions that both have, in different orders.
    pub fn direct_sum(&self, outer: &LinearLayout) -> Result<LinearLayout> {
        let (a, b): (Vec<&str>, Vec<&str>) = (self.in_dims().collect(), outer.in_dims().collect());
        check_same_order("in", &a, &b)?;
        let (a, b): (Vec<&str>, Vec<&str>) =
            (self.out_dims().collect(), outer.out_dims().collect());
        check_same_order("out", &a, &b)?;
        let mut outs = self.outs.clone();
        for dim in &outer.outs {
            match outs.iter_mut().find(|d| d.name == dim.name) {
                Some(both) => both.bits += dim.bits,
                None => outs.push(dim.clone()),
            }
        }
        super::check_within_bits("out", outs.iter().map(|d| u64::from(d.bits)))?;
        // The first bit of each out dimension of an operand in the result.
        let low = |_: &str| 0;
        let high = |name: &str| self.outs.iter().find(|d| d.name == name).map_or(0, |d| d.bits);
        let mut ins: Vec<InDim> = Vec::with_capacity(self.ins.len() + outer.ins.len());
        for dim in &self.ins {
            let bases = dim.bases.iter().map(|b| self.spread_out_bits(*b, &outs, low)).collect();
            ins.push(InDim { name: dim.name.clone(), bases });
        }
        for dim in &outer.ins {
            let more = dim.bases.iter().map(|b| outer.spread_out_bits(*b, &outs, high));
            match ins.iter_mut().find(|d| d.name == dim.name) {
                Some(both) => both.bases.extend(more),
                None => ins.push(InDim { name: dim.name.clone(), bases: more.collect() }),
            }
        }
        LinearLayout::from_flat_bases(ins, outs)
    }

    /// A flat number of this layout's out dimensions as one of other out dimensions that include them, each entry
    /// shifted up.
    pub(super) fn spread_out_bits(
        &self,
        flat: u64,
        outs: &[OutDim],
        up: impl Fn(&str) -> u32,
    ) -> u64 {
        let mut rest = flat;
        let mut spread = 0;
        for out in &self.outs {
            let value = rest & ((1 << out.bits) - 1);
            rest >>= out.bits;
            let at: u32 = outs.iter().take_while(|d| d.name != out.name).map(|d| d.bits).sum();
            spread |= value << (at + up(&out.name));
        }
        spread
    }

    /// `outer` after `self`.
    ///
    /// **Law**: `compose(x) == outer(self(x))`.
    ///
    /// # Errors
    /// Out dimensions that are not the in dimensions of `outer`, or are larger than they.
    pub fn compose(&self, outer: &LinearLayout) -> Result<LinearLayout> {
        check_same_names("compose", "the first layout", self.out_dims(), outer.in_dims())?;
        for (name, size) in self.out_sizes() {
            let limit = outer.in_size(name).unwrap_or(1);
            if size > limit {
                let reason = format!("`{name}` has size {size} there, and size {limit} here");
                return Err(LayoutError::LinearDims { call: "compose", reason });
            }
        }
        let image = |basis: u64| {
            let coordinate = self.split_flat_number(basis);
            let value = |dim: &InDim| {
                let entry = self.outs.iter().position(|d| d.name == dim.name);
                let value = entry.map_or(0, |i| coordinate[i]);
                let bits = dim.bases.iter().enumerate();
                bits.fold(0, |sum, (k, b)| if value >> k & 1 == 1 { sum ^ b } else { sum })
            };
            outer.ins.iter().fold(0, |sum, dim| sum ^ value(dim))
        };
        let dim = |d: &InDim| InDim {
            name: d.name.clone(),
            bases: d.bases.iter().map(|b| image(*b)).collect(),
        };
        LinearLayout::from_flat_bases(self.ins.iter().map(dim).collect(), outer.outs.clone())
    }

    /// The layout `X` with `self(X(y)) == b(y)` for all `y`, from the in dimensions of `b` to those of
    /// `self`, with every free bit of `self` at 0; `None` if `b` has an output that `self` does not have.
    ///
    /// # Errors
    /// Out dimensions that differ in name or size.
    pub fn lstsq(&self, b: &LinearLayout) -> Result<Option<LinearLayout>> {
        let b = self.align_out_dims("lstsq", b)?;
        let span = Gf2Span::from_vectors(self.matrix_columns());
        let mut ins = Vec::with_capacity(b.ins.len());
        for dim in &b.ins {
            let mut bases = Vec::with_capacity(dim.bases.len());
            for basis in &dim.bases {
                match span.reduce_vector(*basis) {
                    // Linear maps are determined by their bases, so solving for each basis of `b`
                    // solves for all inputs.
                    (0, sum) => bases.push(sum),
                    _ => return Ok(None),
                }
            }
            ins.push(InDim { name: dim.name.clone(), bases });
        }
        LinearLayout::from_flat_bases(ins, self.ins_as_outs()).map(Some)
    }

    /// Its in dimensions as out dimensions of another layout.
    fn ins_as_outs(&self) -> Vec<OutDim> {
        let bits = |d: &InDim| u32::try_from(d.bases.len()).unwrap_or(u32::MAX);
        self.ins.iter().map(|d| OutDim { name: d.name.clone(), bits: bits(d) }).collect()
    }

    /// The other layout with its out dimensions in the order of this one; they have the same names and sizes.
    fn align_out_dims(&self, call: &'static str, other: &LinearLayout) -> Result<LinearLayout> {
        check_same_names(call, "the second layout", other.out_dims(), self.out_dims())?;
        for (name, size) in self.out_sizes() {
            let found = other.out_size(name).unwrap_or(1);
            if found != size {
                let reason = format!("`{name}` has size {size} here, and size {found} there");
                return Err(LayoutError::LinearDims { call, reason });
            }
        }
        other.transpose_outs(&self.out_dims().collect::<Vec<_>>())
    }

    /// `C` with `self(x) == outer(C(x))`: how the in dimensions of `self` are found among those of `outer`.
    ///
    /// A dimension with the same name and bases in both is kept unchanged, also if it is a broadcast; every
    /// other free bit is 0.
    ///
    /// # Errors
    /// Out dimensions that differ; an `outer` that does not reach all of them, with a coordinate it leaves out.
    pub fn invert_and_compose(&self, outer: &LinearLayout) -> Result<LinearLayout> {
        let outer = self.align_out_dims("invertAndCompose", outer)?;
        if let Some(missing) = outer.uncovered_witness() {
            let reason = format!(
                "the second layout never reaches {missing:?} of {}, so it has no right inverse",
                list_some_names(&outer.out_dims().collect::<Vec<_>>())
            );
            return Err(LayoutError::NotInvertible { reason });
        }
        // Equal dimensions stay as they are, so that a conversion between layouts with the same
        // `block` moves nothing between blocks, although broadcasts admit other solutions.
        let same = |d: &&InDim| outer.ins.iter().any(|o| o == *d);
        let kept: Vec<&InDim> = self.ins.iter().filter(same).collect();
        let rest = |l: &LinearLayout| LinearLayout {
            ins: l.ins.iter().filter(|d| !kept.iter().any(|k| k.name == d.name)).cloned().collect(),
            outs: l.outs.clone(),
        };
        let mut found = rest(&outer).lstsq(&rest(self))?;
        if let Some(partial) = found {
            let identity = LinearLayout::identity(
                kept.iter().map(|d| (d.name.as_str(), 1i64 << d.bases.len())),
            )?;
            found = Some(partial.direct_sum(&identity)?);
        } else {
            // A kept dimension is also needed to reach other outputs, so it cannot be set aside: the system
            // is solved over all dimensions together.
            found = outer.lstsq(self)?;
        }
        let whole = found.ok_or_else(|| LayoutError::Undecided {
            reason: "a surjective layout has a right inverse".into(),
        })?;
        let ins: Vec<&str> = self.in_dims().collect();
        let outs: Vec<&str> = outer.in_dims().collect();
        whole.transpose_ins(&ins)?.transpose_outs(&outs)
    }

    /// A right inverse: `self(pseudoinvert(y)) == y` for all `y`, with every free bit of `self` at 0.
    ///
    /// # Errors
    /// A layout that does not reach every out coordinate, with one that it leaves out.
    pub fn pseudoinvert(&self) -> Result<LinearLayout> {
        if let Some(missing) = self.uncovered_witness() {
            let reason = format!(
                "nothing maps to {missing:?} of {}",
                list_some_names(&self.out_dims().collect::<Vec<_>>())
            );
            return Err(LayoutError::NotInvertible { reason });
        }
        LinearLayout::identity(self.out_sizes())?.invert_and_compose(self)
    }

    /// The inverse: `self(invert(y)) == y` and `invert(self(x)) == x`.
    ///
    /// # Errors
    /// A layout that is not one to one and onto, with two inputs of one output or a coordinate that is not reached.
    pub fn invert(&self) -> Result<LinearLayout> {
        if let Some(zero) = self.kernel_witness() {
            let reason = format!(
                "the inputs 0 and {zero:?} of {} have one output",
                list_some_names(&self.in_dims().collect::<Vec<_>>())
            );
            return Err(LayoutError::NotInvertible { reason });
        }
        self.pseudoinvert()
    }
}

/// Refuses two lists that have some names in common in different orders.
fn check_same_order(side: &'static str, a: &[&str], b: &[&str]) -> Result<()> {
    let first: Vec<&str> = a.iter().copied().filter(|d| b.contains(d)).collect();
    let second: Vec<&str> = b.iter().copied().filter(|d| a.contains(d)).collect();
    if first == second {
        return Ok(());
    }
    let reason = format!(
        "the {side} dimensions of both are in the order {} and {}",
        list_some_names(&first),
        list_some_names(&second)
    );
    Err(LayoutError::LinearDims { call: "mul", reason })
}
