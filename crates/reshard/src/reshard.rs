//! The plan between two shardings.

use crate::balance::ListedSenders;
use crate::error::{ReshardError, Result};
use crate::line::{RequestLine, request_number};
use crate::part::TransferPart;
use crate::pieces::{RankNest, ReachedStart, ReshardSide, advance_steps, plan_rank_nests};
use crate::sharded::ShardedLayout;
use zellige_movement::{CopyNest, MovePlan};

/// The plan that moves a tensor from one sharding to another.
///
/// Ranks of both meshes are the same processes: rank 3 of the source and rank 3 of the destination are one. Each mesh may have more.
///
/// **Law**: every rank receives, once, each element that it needs and does not have, into every
/// position where the destination needs it, and from a rank that has it; it copies the elements
/// that it already has. [`certify_plan`](crate::certify_plan) checks that.
#[derive(Debug)]
pub struct Reshard {
    shape: Vec<i64>,
    pub(crate) src: ShardedLayout,
    pub(crate) dst: ShardedLayout,
    pub(crate) nests: Vec<RankNest>,
    senders: SenderChoice,
}

/// The choice of senders among replicas.
#[derive(Debug)]
pub(crate) enum SenderChoice {
    /// The holders of a part share the requests for it evenly.
    Even,
    /// The senders are listed.
    Listed(ListedSenders),
}

impl Reshard {
    /// The plan whose busiest sender sends as little as possible: among the ranks that hold the
    /// same part, none sends more than the average rounded up to an element.
    ///
    /// # Errors
    /// Shapes that do not fit, a destination with two elements in one place, and pairs too irregular to plan.
    pub fn between(src: &ShardedLayout, dst: &ShardedLayout, shape: &[i64]) -> Result<Reshard> {
        let nests = plan_rank_nests(src, dst, shape)?;
        // Copies inside of one shard can fall onto another element; the plan would then write a
        // place twice.
        if !dst.copies_in_shard().is_empty()
            && let Some((a, b, place)) = dst.layout().find_clash()?
        {
            return Err(
                zellige_layout::LayoutError::Aliased { a, b, place: Box::new(place) }.into()
            );
        }
        // Checks that the number of elements of all ranks together fits in 64 bits. Sums over all
        // ranks are computed in 64 bits below without a check.
        let copies = [dst.layout().size(), src.copy_count(), dst.copy_count()];
        zellige_layout::int::checked_product(copies, "the elements of all copies")?;
        let (src, dst) = (src.clone(), dst.clone());
        Ok(Reshard { shape: shape.to_vec(), src, dst, nests, senders: SenderChoice::Even })
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn senders(&self) -> &SenderChoice {
        &self.senders
    }

    pub(crate) fn set_senders(&mut self, listed: ListedSenders) {
        self.senders = SenderChoice::Listed(listed);
    }

    /// The source.
    pub fn source(&self) -> &ShardedLayout {
        &self.src
    }

    /// The destination.
    pub fn destination(&self) -> &ShardedLayout {
        &self.dst
    }

    /// The logical shape.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The number of participating ranks: that of the larger mesh.
    pub fn rank_count(&self) -> i64 {
        self.src.mesh().rank_count().max(self.dst.mesh().rank_count())
    }

    /// The number of elements that a rank holds in the end.
    pub fn elements_needed(&self, rank: i64) -> i64 {
        self.elements_held_in(&self.dst, ReshardSide::Dst, rank)
    }

    /// The number of elements that a rank holds in the beginning.
    pub fn elements_held(&self, rank: i64) -> i64 {
        self.elements_held_in(&self.src, ReshardSide::Src, rank)
    }

    fn elements_held_in(&self, sharded: &ShardedLayout, side: ReshardSide, rank: i64) -> i64 {
        let Some(held) = sharded.holding_of_rank(rank) else { return 0 };
        let count = |f: &ReachedStart| {
            let nest = &self.nests[f.nest];
            nest.free_block_count(side) * nest.block
        };
        self.find_starts(side, held.first).iter().map(count).sum()
    }

    /// The number of elements that a rank needs and already has.
    pub fn elements_kept(&self, rank: i64) -> i64 {
        self.parts_kept_by(rank).iter().map(TransferPart::element_count).sum()
    }

    /// The number of elements that a rank receives: those that it needs and does not have.
    pub fn elements_received(&self, rank: i64) -> i64 {
        self.elements_needed(rank) - self.elements_kept(rank)
    }

    /// The number of elements that a rank sends.
    pub fn elements_sent(&self, rank: i64) -> i64 {
        let Some(held) = self.src.holding_of_rank(rank) else { return 0 };
        match &self.senders {
            SenderChoice::Even => self.request_line(held.first).elements_sent_by(held.copy),
            SenderChoice::Listed(_) => {
                self.listed_parts_of(rank).iter().map(TransferPart::element_count).sum()
            }
        }
    }

    /// The numbers of elements that every rank receives and sends, computed with a few operations
    /// per rank.
    pub fn received_and_sent(&self) -> Vec<(i64, i64)> {
        let mut lines: std::collections::HashMap<i64, RequestLine> =
            std::collections::HashMap::new();
        let mut sent = |rank: i64| match (&self.senders, self.src.holding_of_rank(rank)) {
            (SenderChoice::Even, Some(held)) => {
                let line = lines.entry(held.first).or_insert_with(|| self.request_line(held.first));
                line.elements_sent_by(held.copy)
            }
            _ => self.elements_sent(rank),
        };
        (0..self.rank_count()).map(|rank| (self.elements_received(rank), sent(rank))).collect()
    }

    /// The parts that a rank needs and already has, copied from its old shard to its new one.
    pub fn parts_kept_by(&self, rank: i64) -> Vec<TransferPart> {
        let (Some(has), Some(needs)) =
            (self.src.holding_of_rank(rank), self.dst.holding_of_rank(rank))
        else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for found in self.find_starts(ReshardSide::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.list_block_steps(&found, Some(has.first)) {
                let number = request_number(nest, &self.dst, &steps, needs.copy);
                // A kept block needs no sharing among senders: the rank itself has all of it.
                let whole = (0, nest.block);
                out.push(self.part_of_block(&found, &steps, number, (rank, rank), whole));
            }
        }
        out
    }

    /// The same copies as a plan of the engine.
    pub fn kept_plan(&self, rank: i64) -> Result<MovePlan> {
        let nests: Vec<CopyNest> =
            self.parts_kept_by(rank).iter().flat_map(TransferPart::copy_nests).collect();
        MovePlan::from_disjoint_nests(nests).map_err(ReshardError::Plan)
    }

    /// The parts that a rank receives, by rank of the sender, in the order in which they are
    /// packed.
    pub fn parts_received_by(&self, rank: i64) -> Result<Vec<TransferPart>> {
        self.check_rank(rank)?;
        let Some(needs) = self.dst.holding_of_rank(rank) else { return Ok(Vec::new()) };
        let own = self.src.holding_of_rank(rank).map(|h| h.first);
        let mut out = Vec::new();
        // The line of every holder is built once and used for each of its blocks.
        let mut lines: std::collections::HashMap<i64, RequestLine> =
            std::collections::HashMap::new();
        for found in self.find_starts(ReshardSide::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.list_block_steps(&found, None) {
                let first = nest.block_begin(found.start, &steps).src_rank;
                // The rank is one of the holders of this block, so it copies the block and receives
                // nothing.
                if own == Some(first) {
                    continue;
                }
                let number = request_number(nest, &self.dst, &steps, needs.copy);
                let senders = match &self.senders {
                    // Without replicas there is one holder and no line to divide.
                    SenderChoice::Even if self.src.copy_count() == 1 => vec![(0, 0, nest.block)],
                    SenderChoice::Even => lines
                        .entry(first)
                        .or_insert_with(|| self.request_line(first))
                        .senders_of_request(found.nest, found.start, number),
                    SenderChoice::Listed(listed) => listed.senders_of_block(
                        first,
                        rank,
                        (found.nest, found.start, number),
                        nest.block,
                    ),
                };
                for (copy, low, high) in senders {
                    let from = first + self.src.copy_offset(copy);
                    out.push(self.part_of_block(&found, &steps, number, (from, rank), (low, high)));
                }
            }
        }
        out.sort_by_key(|p| (p.from, p.order));
        Ok(out)
    }

    /// The parts that a rank sends, by rank of the receiver, in the order in which they are packed.
    pub fn parts_sent_by(&self, rank: i64) -> Result<Vec<TransferPart>> {
        self.check_rank(rank)?;
        let Some(held) = self.src.holding_of_rank(rank) else { return Ok(Vec::new()) };
        let mut out = match &self.senders {
            SenderChoice::Even => {
                let served = self.request_line(held.first).requests_served_by(
                    &self.nests,
                    &self.dst,
                    held.copy,
                );
                let part = |(r, range): (crate::line::BlockRequest, (i64, i64))| {
                    let found = ReachedStart { nest: r.nest, start: r.start, steps: r.steps };
                    let to = self.nests[r.nest].block_begin(r.start, &found.steps).dst_rank;
                    let to = to + self.dst.copy_offset(r.copy);
                    self.part_of_block(&found, &found.steps, r.index, (rank, to), range)
                };
                served.into_iter().map(part).collect()
            }
            SenderChoice::Listed(_) => self.listed_parts_of(rank),
        };
        out.sort_by_key(|p| (p.to, p.order));
        Ok(out)
    }

    fn listed_parts_of(&self, rank: i64) -> Vec<TransferPart> {
        let SenderChoice::Listed(listed) = &self.senders else { return Vec::new() };
        let mut out = Vec::new();
        for to in listed.receivers_of(rank) {
            // Derived from what the receivers do, so that the two sides cannot differ.
            if let Ok(parts) = self.parts_received_by(*to) {
                out.extend(parts.into_iter().filter(|p| p.from == rank));
            }
        }
        out
    }

    /// All parts that a rank needs, read from copy `copy` of the source, or from its last copy if
    /// it has fewer. The ranks of the two sides are different processes here; this is for shards in
    /// files.
    pub fn parts_gathered_by(&self, rank: i64, copy: i64) -> Vec<TransferPart> {
        let Some(needs) = self.dst.holding_of_rank(rank) else { return Vec::new() };
        let mut out = Vec::new();
        // A destination may have more copies than the source; those beyond read the last one.
        let offset = self.src.copy_offset(copy.clamp(0, self.src.copy_count() - 1));
        for found in self.find_starts(ReshardSide::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.list_block_steps(&found, None) {
                let from = nest.block_begin(found.start, &steps).src_rank + offset;
                let number = request_number(nest, &self.dst, &steps, needs.copy);
                out.push(self.part_of_block(&found, &steps, number, (from, rank), (0, nest.block)));
            }
        }
        out.sort_by_key(|p| (p.from, p.order));
        out
    }

    /// The requests for the part of a first copy.
    pub(crate) fn request_line(&self, first: i64) -> RequestLine {
        RequestLine::new(&self.nests, &self.src, &self.dst, first)
    }

    fn find_starts(&self, side: ReshardSide, first: i64) -> Vec<ReachedStart> {
        let mut found = Vec::new();
        for (k, nest) in self.nests.iter().enumerate() {
            nest.find_starts(k, side, first, &mut found);
        }
        found
    }

    /// The steps of every block of a receiver, or only those of the block of one holder.
    fn list_block_steps(&self, found: &ReachedStart, holder: Option<i64>) -> Vec<Vec<i64>> {
        let nest = &self.nests[found.nest];
        let mut free: Vec<usize> = nest.free_loops(ReshardSide::Dst).collect();
        // The largest step first: the named holder then fixes each step by division.
        free.sort_by_key(|k| std::cmp::Reverse(nest.outer[*k].step.src_rank.abs()));
        let mut steps = found.steps.clone();
        if let Some(holder) = holder {
            let reach =
                |k: &usize| ((nest.outer[*k].range - 1) * nest.outer[*k].step.src_rank).min(0);
            let at = nest.block_begin(found.start, &steps).src_rank;
            let mut rest = holder - at - free.iter().map(reach).sum::<i64>();
            for k in free {
                let by = nest.outer[k].step.src_rank;
                let count = (rest.max(0) / by.abs()).min(nest.outer[k].range - 1);
                rest -= count * by.abs();
                steps[k] = if by > 0 { count } else { nest.outer[k].range - 1 - count };
            }
            return if rest == 0 { vec![steps] } else { Vec::new() };
        }
        let mut out = vec![steps.clone()];
        while advance_steps(&mut steps, &free, |k| nest.outer[k].range) {
            out.push(steps.clone());
        }
        out
    }

    fn part_of_block(
        &self,
        found: &ReachedStart,
        steps: &[i64],
        number: i64,
        (from, to): (i64, i64),
        range: (i64, i64),
    ) -> TransferPart {
        let nest = &self.nests[found.nest];
        let at = nest.block_begin(found.start, steps);
        TransferPart {
            from,
            to,
            loops: nest.inner.clone(),
            begin: (at.src, at.dst),
            range,
            places: self.dst.copies_in_shard(),
            order: (found.nest, found.start, number, range.0),
        }
    }

    fn check_rank(&self, rank: i64) -> Result<()> {
        if (0..self.rank_count()).contains(&rank) {
            return Ok(());
        }
        Err(ReshardError::NoSuchRank { rank, ranks: self.rank_count() })
    }
}
