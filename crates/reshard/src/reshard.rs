//! The plan between two shardings.

use crate::balance::Listed;
use crate::error::{Error, Result};
use crate::line::{Line, number};
use crate::part::Part;
use crate::pieces::{Found, RankNest, Side, advance, rank_nests};
use crate::sharded::Sharded;
use zellige_movement::{Nest, Plan};

/// How a tensor goes from one sharding to another.
///
/// Ranks of both meshes are the same processes: rank 3 of the source and rank 3 of the destination are one. Each mesh may have more.
///
/// **Law**: every rank receives, once, each element that it needs and does not have, into every place where the destination wants
/// it, and from a rank that has it; what it has, it copies. [`certify`](crate::certify) checks that.
#[derive(Debug)]
pub struct Reshard {
    shape: Vec<i64>,
    pub(crate) src: Sharded,
    pub(crate) dst: Sharded,
    pub(crate) nests: Vec<RankNest>,
    senders: Senders,
}

/// Who sends where several could.
#[derive(Debug)]
pub(crate) enum Senders {
    /// Holders of the same share the requests for it evenly.
    Even,
    /// As a list says.
    Listed(Listed),
}

impl Reshard {
    /// The plan in which the busiest sender is the least busy that there can be: among the ranks that hold the same, none sends more
    /// than the average rounded up to an element.
    ///
    /// # Errors
    /// Shapes that do not fit, a destination with two elements in one place, and pairs too irregular to plan.
    pub fn between(src: &Sharded, dst: &Sharded, shape: &[i64]) -> Result<Reshard> {
        let nests = rank_nests(src, dst, shape)?;
        if !dst.places_in_shard().is_empty()
            && let Some((a, b, place)) = dst.layout().find_clash()?
        {
            return Err(
                zellige_layout::LayoutError::Aliased { a, b, place: Box::new(place) }.into()
            );
        }
        // Whatever all ranks need together can be counted.
        let copies = [dst.layout().size(), src.copies(), dst.copies()];
        zellige_layout::int::checked_product(copies, "the elements of all copies")?;
        let (src, dst) = (src.clone(), dst.clone());
        Ok(Reshard { shape: shape.to_vec(), src, dst, nests, senders: Senders::Even })
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn senders(&self) -> &Senders {
        &self.senders
    }

    pub(crate) fn set_senders(&mut self, listed: Listed) {
        self.senders = Senders::Listed(listed);
    }

    /// The source.
    pub fn source(&self) -> &Sharded {
        &self.src
    }

    /// The destination.
    pub fn destination(&self) -> &Sharded {
        &self.dst
    }

    /// The logical shape.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Ranks that take part: as many as the larger mesh has.
    pub fn ranks(&self) -> i64 {
        self.src.mesh().ranks().max(self.dst.mesh().ranks())
    }

    /// Elements that a rank holds in the end.
    pub fn needed(&self, rank: i64) -> i64 {
        self.held_in(&self.dst, Side::Dst, rank)
    }

    /// Elements that a rank holds in the beginning.
    pub fn held(&self, rank: i64) -> i64 {
        self.held_in(&self.src, Side::Src, rank)
    }

    fn held_in(&self, sharded: &Sharded, side: Side, rank: i64) -> i64 {
        let Some(held) = sharded.holding(rank) else { return 0 };
        let count = |f: &Found| {
            let nest = &self.nests[f.nest];
            nest.free_blocks(side) * nest.block
        };
        self.find(side, held.first).iter().map(count).sum()
    }

    /// Elements that a rank needs and has.
    pub fn kept(&self, rank: i64) -> i64 {
        self.kept_by(rank).iter().map(Part::elements).sum()
    }

    /// Elements that a rank receives: those that it needs and does not have.
    pub fn received(&self, rank: i64) -> i64 {
        self.needed(rank) - self.kept(rank)
    }

    /// Elements that a rank sends.
    pub fn sent(&self, rank: i64) -> i64 {
        let Some(held) = self.src.holding(rank) else { return 0 };
        match &self.senders {
            Senders::Even => self.line(held.first).share(held.copy),
            Senders::Listed(_) => self.listed_by(rank).iter().map(Part::elements).sum(),
        }
    }

    /// Elements that every rank receives and sends, in the time that a few operations per rank take.
    pub fn totals(&self) -> Vec<(i64, i64)> {
        let mut lines: std::collections::HashMap<i64, Line> = std::collections::HashMap::new();
        let mut sent = |rank: i64| match (&self.senders, self.src.holding(rank)) {
            (Senders::Even, Some(held)) => {
                let line = lines.entry(held.first).or_insert_with(|| self.line(held.first));
                line.share(held.copy)
            }
            _ => self.sent(rank),
        };
        (0..self.ranks()).map(|rank| (self.received(rank), sent(rank))).collect()
    }

    /// What a rank needs and has, from its old shard into its new one.
    pub fn kept_by(&self, rank: i64) -> Vec<Part> {
        let (Some(has), Some(needs)) = (self.src.holding(rank), self.dst.holding(rank)) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for found in self.find(Side::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.sources(&found, Some(has.first)) {
                let number = number(nest, &self.dst, &steps, needs.copy);
                let whole = (0, nest.block);
                out.push(self.part(&found, &steps, number, (rank, rank), whole));
            }
        }
        out
    }

    /// The same as a plan of the engine.
    pub fn kept_plan(&self, rank: i64) -> Result<Plan> {
        let nests: Vec<Nest> = self.kept_by(rank).iter().flat_map(Part::nests).collect();
        Plan::of_nests(nests).map_err(Error::Plan)
    }

    /// What a rank receives, by rank of the sender, in the order in which it is packed.
    pub fn received_by(&self, rank: i64) -> Result<Vec<Part>> {
        self.check(rank)?;
        let Some(needs) = self.dst.holding(rank) else { return Ok(Vec::new()) };
        let own = self.src.holding(rank).map(|h| h.first);
        let mut out = Vec::new();
        // The line of every holder is made once, and asked for each of its blocks.
        let mut lines: std::collections::HashMap<i64, Line> = std::collections::HashMap::new();
        for found in self.find(Side::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.sources(&found, None) {
                let first = nest.at(found.start, &steps).src_rank;
                if own == Some(first) {
                    continue;
                }
                let number = number(nest, &self.dst, &steps, needs.copy);
                let senders = match &self.senders {
                    Senders::Even if self.src.copies() == 1 => vec![(0, 0, nest.block)],
                    Senders::Even => lines
                        .entry(first)
                        .or_insert_with(|| self.line(first))
                        .senders(found.nest, found.start, number),
                    Senders::Listed(listed) => {
                        listed.senders(first, rank, (found.nest, found.start, number), nest.block)
                    }
                };
                for (copy, low, high) in senders {
                    let from = first + self.src.copy_offset(copy);
                    out.push(self.part(&found, &steps, number, (from, rank), (low, high)));
                }
            }
        }
        out.sort_by_key(|p| (p.from, p.order));
        Ok(out)
    }

    /// What a rank sends, by rank of the receiver, in the order in which it is packed.
    pub fn sent_by(&self, rank: i64) -> Result<Vec<Part>> {
        self.check(rank)?;
        let Some(held) = self.src.holding(rank) else { return Ok(Vec::new()) };
        let mut out = match &self.senders {
            Senders::Even => {
                let served = self.line(held.first).served(&self.nests, &self.dst, held.copy);
                let part = |(r, range): (crate::line::Request, (i64, i64))| {
                    let found = Found { nest: r.nest, start: r.start, steps: r.steps };
                    let to = self.nests[r.nest].at(r.start, &found.steps).dst_rank;
                    let to = to + self.dst.copy_offset(r.copy);
                    self.part(&found, &found.steps, r.index, (rank, to), range)
                };
                served.into_iter().map(part).collect()
            }
            Senders::Listed(_) => self.listed_by(rank),
        };
        out.sort_by_key(|p| (p.to, p.order));
        Ok(out)
    }

    fn listed_by(&self, rank: i64) -> Vec<Part> {
        let Senders::Listed(listed) = &self.senders else { return Vec::new() };
        let mut out = Vec::new();
        for to in listed.receivers(rank) {
            if let Ok(parts) = self.received_by(*to) {
                out.extend(parts.into_iter().filter(|p| p.from == rank));
            }
        }
        out
    }

    /// Everything that a rank needs, whoever has it: from a copy of the source as far as it has so many. Ranks of the two sides are
    /// not the same here; this is for shards in files.
    pub fn gathered_by(&self, rank: i64, copy: i64) -> Vec<Part> {
        let Some(needs) = self.dst.holding(rank) else { return Vec::new() };
        let mut out = Vec::new();
        let offset = self.src.copy_offset(copy.clamp(0, self.src.copies() - 1));
        for found in self.find(Side::Dst, needs.first) {
            let nest = &self.nests[found.nest];
            for steps in self.sources(&found, None) {
                let from = nest.at(found.start, &steps).src_rank + offset;
                let number = number(nest, &self.dst, &steps, needs.copy);
                out.push(self.part(&found, &steps, number, (from, rank), (0, nest.block)));
            }
        }
        out.sort_by_key(|p| (p.from, p.order));
        out
    }

    /// The requests for what a first copy holds.
    pub(crate) fn line(&self, first: i64) -> Line {
        Line::new(&self.nests, &self.src, &self.dst, first)
    }

    fn find(&self, side: Side, first: i64) -> Vec<Found> {
        let mut found = Vec::new();
        for (k, nest) in self.nests.iter().enumerate() {
            nest.find(k, side, first, &mut found);
        }
        found
    }

    /// The steps of every block of a receiver; only those of one holder, where it is named.
    fn sources(&self, found: &Found, holder: Option<i64>) -> Vec<Vec<i64>> {
        let nest = &self.nests[found.nest];
        let mut free: Vec<usize> = nest.free(Side::Dst).collect();
        free.sort_by_key(|k| std::cmp::Reverse(nest.outer[*k].step.src_rank.abs()));
        let mut steps = found.steps.clone();
        if let Some(holder) = holder {
            let reach =
                |k: &usize| ((nest.outer[*k].range - 1) * nest.outer[*k].step.src_rank).min(0);
            let at = nest.at(found.start, &steps).src_rank;
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
        while advance(&mut steps, &free, |k| nest.outer[k].range) {
            out.push(steps.clone());
        }
        out
    }

    fn part(
        &self,
        found: &Found,
        steps: &[i64],
        number: i64,
        (from, to): (i64, i64),
        range: (i64, i64),
    ) -> Part {
        let nest = &self.nests[found.nest];
        let at = nest.at(found.start, steps);
        Part {
            from,
            to,
            loops: nest.inner.clone(),
            begin: (at.src, at.dst),
            range,
            places: self.dst.places_in_shard(),
            order: (found.nest, found.start, number, range.0),
        }
    }

    fn check(&self, rank: i64) -> Result<()> {
        if (0..self.ranks()).contains(&rank) {
            return Ok(());
        }
        Err(Error::NoSuchRank { rank, ranks: self.ranks() })
    }
}
