//! The planner: two layouts in, loop nests out.

use crate::address_function::{AddressFunction, find_memory_axis};
use crate::builder::{MAX_STARTS, NestBuilder, build_nests};
use crate::gaps::{MAX_PIECES, fill_gaps};
use crate::plan::{CopyNest, FillNest, MovePlan};
use std::cmp::Ordering;
use std::collections::HashSet;
use zellige_layout::{Axis, Layout, LayoutError, PaddedExtent, Result};

/// What to write into the padding of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaddingFill {
    /// Nothing: padding keeps what it holds.
    Leave,
    /// The executor writes its fill value to every padding position.
    Padding,
    /// The executor writes its fill value to everything that holds no element in a destination of
    /// this many elements: padding, the gaps between elements, and what is before and behind them.
    Rest {
        /// Elements that the destination holds.
        len: i64,
    },
}

impl MovePlan {
    /// The plan that moves a tensor of `shape` from `src` to `dst`.
    ///
    /// Both layouts map to one memory each. All addresses of an element are written (replicas of `dst`), one is
    /// read. Two elements that share an address of `dst` are [`LayoutError::Aliased`] with both: the result would
    /// depend on the order of the copies.
    ///
    /// [`PaddingFill::Rest`] is [`LayoutError::TooLarge`] where the gaps are too scattered to list;
    /// [`Mover::between`](crate::Mover::between) then fills the destination before it copies.
    pub fn between(
        src: &Layout,
        dst: &Layout,
        shape: &[i64],
        fill: PaddingFill,
    ) -> Result<MovePlan> {
        zellige_calls::record_call!();
        src.check_shape_size(shape)?;
        dst.check_shape_size(shape)?;
        find_memory_axis(src)?;
        find_memory_axis(dst)?;
        // Elements are a part of the padded domain, so addresses that are distinct there are distinct here. The
        // answer also decides how padding is listed.
        let apart = dst.padded_domain().find_clash()?.is_none();
        if !apart && let Some((a, b, place)) = dst.find_clash()? {
            return Err(LayoutError::Aliased { a, b, place: Box::new(place) });
        }
        let mut copies = match dst.size() {
            0 => Vec::new(),
            _ => build_nests(Some(&AddressFunction::new(src)?), &AddressFunction::new(dst)?)?
                .into_nests(),
        };
        // The nest that moves most comes first, so that threads begin with it; a stable sort keeps the others in the
        // order of the index.
        copies.sort_by_key(|n| std::cmp::Reverse(n.element_count()));
        let fills = match fill {
            PaddingFill::Leave => Vec::new(),
            PaddingFill::Padding if apart => plan_padding_fills(dst)?,
            PaddingFill::Padding => list_padding_fills(dst)?,
            // Where everything that is no element is padding, the loops of the padding are those of the layout. The
            // gaps between copies are the same addresses in loops that belong to no dimension, which a kernel on a
            // GPU cannot fuse with the copies.
            PaddingFill::Rest { len } => match plan_padding_fills(dst) {
                Ok(padding) if apart && covers_buffer(&copies, &padding, len) => padding,
                _ => fill_unwritten(&copies, len)?,
            },
        };
        assemble_plan(copies, fills, dst.size())
    }
}

/// The padding of the destination: in each dimension in turn what is outside its valid part,
/// earlier dimensions valid, later ones padded.
fn plan_padding_fills(dst: &Layout) -> Result<Vec<FillNest>> {
    let Some(window) = dst.window() else { return Ok(Vec::new()) };
    let mut all = NestBuilder::default();
    let dims = window.dims();
    for (d, dim) in dims.iter().enumerate() {
        let end = dim.begin + dim.valid;
        for (begin, valid) in [(0, dim.begin), (end, dim.padded - end)] {
            let outside: Vec<PaddedExtent> = (0..dims.len())
                .map(|k| match k.cmp(&d) {
                    Ordering::Less => dims[k],
                    Ordering::Equal => PaddedExtent { begin, valid, padded: dim.padded },
                    Ordering::Greater => PaddedExtent::without_padding(dims[k].padded),
                })
                .collect();
            if outside.iter().any(|e| e.valid == 0) {
                continue;
            }
            for CopyNest { loops, starts } in
                build_nests(None, &AddressFunction::of_window(dst, &outside)?)?.into_nests()
            {
                if !all.add_nest(loops, &starts) {
                    let limit = MAX_STARTS as u64;
                    return Err(LayoutError::TooLarge { what: "filling scattered padding", limit });
                }
            }
        }
    }
    let fill = |n: CopyNest| FillNest {
        loops: n.loops.iter().map(|l| (l.range, l.dst)).collect(),
        starts: n.starts.iter().map(|s| s.1).collect(),
    };
    Ok(all.into_nests().into_iter().map(fill).collect())
}

/// Whether addresses that are all distinct are everything from 0 to `len`.
fn covers_buffer(copies: &[CopyNest], fills: &[FillNest], len: i64) -> bool {
    let inside = |range: Option<(i64, i64)>| range.is_none_or(|(lo, hi)| lo >= 0 && hi < len);
    let written = copies.iter().map(CopyNest::element_count).sum::<i64>();
    let filled = fills.iter().map(FillNest::element_count).sum::<i64>();
    written + filled == len
        && inside(MovePlan::address_range(copies, |s| s.1, |l| l.dst))
        && inside(address_bounds(fills))
}

/// The lowest and the highest address of some fills.
fn address_bounds(fills: &[FillNest]) -> Option<(i64, i64)> {
    let ranges = fills.iter().flat_map(|f| {
        let reach: i64 = f.loops.iter().map(|(r, s)| ((r - 1) * s).max(0)).sum();
        let back: i64 = f.loops.iter().map(|(r, s)| ((r - 1) * s).min(0)).sum();
        f.starts.iter().map(move |s| (s + back, s + reach))
    });
    ranges.reduce(|(a, b), (lo, hi)| (a.min(lo), b.max(hi)))
}

/// Everything that no copy writes, up to `len` or to the last element, whichever is further.
fn fill_unwritten(copies: &[CopyNest], len: i64) -> Result<Vec<FillNest>> {
    let (low, high) = MovePlan::address_range(copies, |s| s.1, |l| l.dst).unwrap_or((0, -1));
    if low < 0 {
        // `assemble_plan` refuses the address, and can name it.
        return Ok(Vec::new());
    }
    let limit = MAX_PIECES as u64;
    fill_gaps(copies, len.max(high + 1))
        .ok_or(LayoutError::TooLarge { what: "listing scattered gaps", limit })
}

/// Lists every padding position, for padding that shares addresses with itself or with elements.
fn list_padding_fills(dst: &Layout) -> Result<Vec<FillNest>> {
    let whole = dst.padded_domain();
    let places = whole.size().saturating_mul(whole.tile().replica_count());
    if usize::try_from(places).map_or(true, |n| n > MAX_STARTS) {
        let limit = MAX_STARTS as u64;
        return Err(LayoutError::TooLarge { what: "listing the padding", limit });
    }
    let elements: HashSet<i64> = list_addresses(dst)?.into_iter().collect();
    let mut starts = list_addresses(&whole)?;
    starts.retain(|p| !elements.contains(p));
    starts.sort_unstable();
    starts.dedup();
    if starts.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![FillNest { loops: Vec::new(), starts }])
}

/// All addresses of all elements.
fn list_addresses(layout: &Layout) -> Result<Vec<i64>> {
    let axis = find_memory_axis(layout)?.unwrap_or(Axis::M);
    if layout.tile().replica_count() == 1 {
        return layout.offset_table(axis);
    }
    let mut all = Vec::new();
    for flat in 0..layout.size() {
        all.extend(
            layout.physical_coordinates(flat)?.sorted_coordinates().iter().map(|p| p.get(axis)),
        );
    }
    Ok(all)
}

/// The plan of these nests, which must begin at address 0 or above.
fn assemble_plan(nests: Vec<CopyNest>, fills: Vec<FillNest>, elements: i64) -> Result<MovePlan> {
    let src_range = MovePlan::address_range(&nests, |s| s.0, |l| l.src);
    let dst_range =
        match (MovePlan::address_range(&nests, |s| s.1, |l| l.dst), address_bounds(&fills)) {
            (Some((a, b)), Some((lo, hi))) => Some((a.min(lo), b.max(hi))),
            (one, other) => one.or(other),
        };
    let lowest =
        [("the lowest source address", src_range), ("the lowest destination address", dst_range)];
    for (what, range) in lowest {
        if let Some((low, _)) = range.filter(|(low, _)| *low < 0) {
            return Err(LayoutError::BadParameter {
                what,
                value: low,
                accepted: "buffers begin at address 0; give the layout an offset".into(),
            });
        }
    }
    Ok(MovePlan {
        elements,
        copies: nests.iter().map(CopyNest::element_count).sum::<i64>() / elements.max(1),
        nests,
        fills,
        src_range,
        dst_range,
    })
}
