//! Collecting the nests of a plan, piece by piece.

use crate::address_function::AddressFunction;
use crate::linear_pieces::emit_linear_pieces;
use crate::plan::{CopyLoop, CopyNest};
use crate::tabulate::tabulate_swizzled;
use std::collections::HashMap;
use zellige_layout::{LayoutError, Result};

/// Starts listed before a move is refused as too irregular.
pub(crate) const MAX_STARTS: usize = 1 << 22;

/// The nests that copy every element of `src` to its addresses in `dst`; without a source the addresses
/// alone, as nests that read nothing.
///
/// Neither side is empty, and both have the same number of elements.
pub(crate) fn build_nests(
    src: Option<&AddressFunction>,
    dst: &AddressFunction,
) -> Result<NestBuilder> {
    let mut builder = NestBuilder::default();
    let mut breaks = Vec::with_capacity(16);
    let regular =
        src.is_none_or(|s| s.append_breaks(&mut breaks)) && dst.append_breaks(&mut breaks);
    if regular
        && emit_linear_pieces(dst.element_count(), &mut breaks, |start, counts| {
            builder.add_piece(src, dst, start, counts)
        })
    {
        return Ok(builder);
    }
    // The last resort, where padding cuts digits: runs of elements that are evenly spaced on both sides, one start
    // each. Such plans are large, but so is what they describe.
    builder = NestBuilder::default();
    let mut at = 0;
    while at < dst.element_count() {
        let run = src.map_or(i64::MAX, |s| s.even_run_length(at)).min(dst.even_run_length(at));
        if !builder.add_piece(src, dst, at, &[(run, 1)]) {
            let limit = MAX_STARTS as u64;
            return Err(LayoutError::TooLarge { what: "a move of scattered elements", limit });
        }
        at += run;
    }
    Ok(builder)
}

/// Nests with equal loops share one table of starts.
#[derive(Default)]
pub(crate) struct NestBuilder {
    nests: Vec<CopyNest>,
    /// The index of the nest with these loops, behind the first [`LINEAR_SEARCH_NESTS`].
    index: HashMap<Vec<CopyLoop>, usize>,
    starts: usize,
}

/// Nests that are compared one by one. Most plans have no more, and a hash of the loops would take longer.
const LINEAR_SEARCH_NESTS: usize = 8;

impl NestBuilder {
    /// Adds a piece of the index; false where the starts become too many.
    fn add_piece(
        &mut self,
        src: Option<&AddressFunction>,
        dst: &AddressFunction,
        start: i64,
        counts: &[(i64, i64)],
    ) -> bool {
        let from = |at: i64| src.map_or(0, |s| s.linear_address(at));
        let (a, b) = (from(start), dst.linear_address(start));
        let mut loops = Vec::with_capacity(counts.len() + dst.replica.len());
        for (range, weight) in counts.iter().filter(|(count, _)| *count > 1) {
            let next = start + weight;
            loops.push(CopyLoop {
                range: *range,
                src: from(next) - a,
                dst: dst.linear_address(next) - b,
            });
        }
        let copy = |(range, stride): &(i64, i64)| CopyLoop { range: *range, src: 0, dst: *stride };
        loops.extend(dst.replica.iter().map(copy));
        // Strides come from the addresses of neighbours alone: the caller has cut the index where they change.
        let (a, b) = (src.map_or(0, |s| s.offset + a), dst.offset + b);
        match tabulate_swizzled(loops, a, b, src.and_then(|s| s.swizzle), dst.swizzle) {
            Some((loops, starts)) => self.add_nest(normalize_loops(loops), &starts),
            None => false,
        }
    }

    /// Adds a nest, or its starts to the nest with the same loops; false where they are too many.
    pub(crate) fn add_nest(&mut self, loops: Vec<CopyLoop>, starts: &[(i64, i64)]) -> bool {
        // Starts may be millions, so a request with a limit on its work has to count them.
        zellige_guard::count_many_steps(1 + starts.len());
        self.starts += starts.len();
        if self.starts > MAX_STARTS {
            return false;
        }
        let few = &self.nests[..self.nests.len().min(LINEAR_SEARCH_NESTS)];
        let found = few.iter().position(|n| n.loops == loops);
        match found.or_else(|| self.index.get(&loops).copied()) {
            Some(k) => self.nests[k].starts.extend_from_slice(starts),
            None => {
                if self.nests.len() >= LINEAR_SEARCH_NESTS {
                    self.index.insert(loops.clone(), self.nests.len());
                }
                self.nests.push(CopyNest { loops, starts: starts.to_vec() });
            }
        }
        true
    }

    /// The nests, in the order of the index.
    pub(crate) fn into_nests(self) -> Vec<CopyNest> {
        self.nests
    }
}

/// Drops unit loops, sorts by falling destination stride, fuses loops that continue one another.
fn normalize_loops(mut loops: Vec<CopyLoop>) -> Vec<CopyLoop> {
    loops.retain(|l| l.range != 1);
    // In the order of the destination, because a line that is written in parts costs more than one that is read so.
    loops.sort_by_key(|l| std::cmp::Reverse((l.dst.abs(), l.src.abs())));
    // A loop continues the next outer one where that one's step is its whole reach, on both sides: then the two
    // count as one loop.
    let mut kept = 0;
    for i in 0..loops.len() {
        let inner = loops[i];
        match loops[..kept].last_mut() {
            Some(outer)
                if outer.src == inner.range * inner.src && outer.dst == inner.range * inner.dst =>
            {
                *outer = CopyLoop { range: outer.range * inner.range, ..inner };
            }
            _ => {
                loops[kept] = inner;
                kept += 1;
            }
        }
    }
    loops.truncate(kept);
    loops
}
