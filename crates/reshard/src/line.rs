//! Divides the requests for a part among its holders.
//!
//! All requests for the elements of one part form a line, in the order of nests, starts and ranks
//! of the receivers. Requests of ranks that hold the part themselves are removed; the rest is cut
//! into as many equal shares as there are copies, and each holder sends its share. The busiest
//! holder then sends no more than the average rounded up, which is optimal. A request that crosses
//! a cut is served by two holders. The positions of requests on the line are computed and not
//! listed.

use crate::pieces::{RankNest, ReachedStart, ReshardSide};
use crate::sharded::ShardedLayout;

/// The requests for the part of one first copy.
pub(crate) struct RequestLine {
    /// The blocks of one start of a nest, each repeated for every copy of its receiver.
    entries: Vec<LineEntry>,
    /// The requests of holders, as increasing ranges of the line.
    own: Vec<(i64, i64)>,
    /// The number of elements to send.
    pub(crate) length: i64,
    copies: i64,
}

pub(crate) struct LineEntry {
    pub(crate) found: ReachedStart,
    /// The beginning of its requests on the line.
    begin: i64,
    /// The number of its requests.
    requests: i64,
    block: i64,
}

/// A request on the line.
#[derive(Debug, Clone)]
pub(crate) struct BlockRequest {
    pub(crate) nest: usize,
    pub(crate) start: usize,
    pub(crate) steps: Vec<i64>,
    /// The copy of the receiver.
    pub(crate) copy: i64,
    /// Its number among the requests of its start.
    pub(crate) index: i64,
}

/// A digit of the number of a request among those of its start.
#[derive(Clone, Copy)]
enum RequestDigit {
    Loop(usize),
    Copy,
}

/// The digits of requests, sorted by decreasing step of the receiver, so that neighbours on the
/// line are neighbouring ranks.
fn request_digits(nest: &RankNest, dst: &ShardedLayout) -> Vec<(RequestDigit, i64)> {
    let mut all: Vec<(i64, RequestDigit, i64)> = nest
        .free_loops(ReshardSide::Src)
        .map(|k| (nest.outer[k].step.dst_rank.abs(), RequestDigit::Loop(k), nest.outer[k].range))
        .collect();
    all.extend(dst.copy_digits().iter().map(|d| (d.stride.abs(), RequestDigit::Copy, d.extent)));
    // Neighbouring ranks then ask the same holder, and neighbours are often in one node.
    all.sort_by_key(|d| std::cmp::Reverse(d.0));
    all.into_iter().map(|(_, digit, extent)| (digit, extent)).collect()
}

/// The number of a request among those of its start.
pub(crate) fn request_number(
    nest: &RankNest,
    dst: &ShardedLayout,
    steps: &[i64],
    copy: i64,
) -> i64 {
    let digits = request_digits(nest, dst);
    // The digits of copies are in the order in which copies are numbered, the last one fastest.
    let mut values = vec![0; digits.len()];
    let mut rest = copy;
    for (value, (digit, extent)) in values.iter_mut().zip(&digits).rev() {
        *value = match digit {
            RequestDigit::Loop(k) => steps[*k],
            RequestDigit::Copy => {
                let own = rest % extent;
                rest /= extent;
                own
            }
        };
    }
    values.iter().zip(&digits).fold(0, |n, (value, (_, extent))| n * extent + value)
}

impl RequestLine {
    /// Builds the line of the part of a first copy.
    pub(crate) fn new(
        nests: &[RankNest],
        src: &ShardedLayout,
        dst: &ShardedLayout,
        first: i64,
    ) -> RequestLine {
        let mut found = Vec::new();
        for (k, nest) in nests.iter().enumerate() {
            nest.find_starts(k, ReshardSide::Src, first, &mut found);
        }
        let (mut entries, mut begin) = (Vec::with_capacity(found.len()), 0);
        for found in found {
            let nest = &nests[found.nest];
            let requests = nest.free_block_count(ReshardSide::Src) * dst.copy_count();
            entries.push(LineEntry { found, begin, requests, block: nest.block });
            begin += requests * nest.block;
        }
        let mut line =
            RequestLine { entries, own: Vec::new(), length: begin, copies: src.copy_count() };
        let mut own = Vec::new();
        for copy in 0..src.copy_count() {
            let Some(held) = dst.holding_of_rank(first + src.copy_offset(copy)) else { continue };
            for entry in &line.entries {
                let nest = &nests[entry.found.nest];
                let from = nest.block_begin(entry.found.start, &entry.found.steps).dst_rank;
                if let Some(steps) = steps_to_receiver(nest, &entry.found, held.first - from) {
                    let number = request_number(nest, dst, &steps, held.copy);
                    let at = entry.begin + number * entry.block;
                    own.push((at, at + entry.block));
                }
            }
        }
        own.sort_unstable();
        // Requests of the holders themselves are no traffic, so they must not count in the shares.
        line.length -= own.iter().map(|(a, b)| b - a).sum::<i64>();
        line.own = own;
        line
    }

    /// The holders that serve a request, with their shares of the block: copy, first element, one
    /// past the last.
    pub(crate) fn senders_of_request(
        &self,
        nest: usize,
        start: usize,
        number: i64,
    ) -> Vec<(i64, i64, i64)> {
        let key = |e: &LineEntry| (e.found.nest, e.found.start);
        let Ok(at) = self.entries.binary_search_by_key(&(nest, start), key) else {
            return Vec::new();
        };
        let entry = &self.entries[at];
        let begin = self.skip_own_requests(entry.begin + number * entry.block);
        let end = begin + entry.block;
        let mut out = Vec::new();
        let mut copy = self.copy_at_position(begin);
        while copy < self.copies && self.share_start(copy) < end {
            let (low, high) =
                (self.share_start(copy).max(begin), self.share_start(copy + 1).min(end));
            if low < high {
                out.push((copy, low - begin, high - begin));
            }
            copy += 1;
        }
        out
    }

    /// The requests that a copy serves, each with its share of the block.
    pub(crate) fn requests_served_by(
        &self,
        nests: &[RankNest],
        dst: &ShardedLayout,
        copy: i64,
    ) -> Vec<(BlockRequest, (i64, i64))> {
        let (low, high) = (self.share_start(copy), self.share_start(copy + 1));
        let mut out = Vec::new();
        let mut own = self.own.iter().peekable();
        // The length of the removed requests so far.
        let mut taken = 0;
        for entry in &self.entries {
            let nest = &nests[entry.found.nest];
            let mut number = 0;
            while number < entry.requests {
                let at = entry.begin + number * entry.block;
                while let Some((a, b)) = own.peek().filter(|(a, _)| *a < at) {
                    taken += b - a;
                    own.next();
                }
                if own.peek().is_some_and(|(a, _)| *a == at) {
                    number += 1;
                    continue;
                }
                let begin = at - taken;
                if begin >= high {
                    return out;
                }
                if begin + entry.block <= low {
                    // Skips directly to the first request that reaches into the share, or to the
                    // next removed one.
                    let skip = ((low - begin) / entry.block.max(1)).max(1);
                    let next = own.peek().map_or(i64::MAX, |(a, _)| *a);
                    let until = ((next - at).max(0) / entry.block.max(1)).max(1);
                    number += skip.min(until);
                    continue;
                }
                let part = (low.max(begin) - begin, high.min(begin + entry.block) - begin);
                if part.0 < part.1 {
                    out.push((decode_request(nest, dst, &entry.found, number), part));
                }
                number += 1;
            }
        }
        out
    }

    /// The number of elements that a copy sends.
    pub(crate) fn elements_sent_by(&self, copy: i64) -> i64 {
        self.share_start(copy + 1) - self.share_start(copy)
    }

    /// The beginning of the share of a copy.
    fn share_start(&self, copy: i64) -> i64 {
        // The product of two 64-bit numbers needs 128 bits; floor division spreads the remainder
        // evenly.
        let at = i128::from(self.length) * i128::from(copy) / i128::from(self.copies);
        i64::try_from(at).unwrap_or(i64::MAX)
    }

    /// The last copy whose share begins at or before a position.
    fn copy_at_position(&self, place: i64) -> i64 {
        let guess = i128::from(place) * i128::from(self.copies) / i128::from(self.length.max(1));
        let mut copy = i64::try_from(guess).unwrap_or(0).clamp(0, self.copies - 1);
        // The guess is off by at most one from rounding; both loops correct it.
        while copy > 0 && self.share_start(copy) > place {
            copy -= 1;
        }
        while copy + 1 < self.copies && self.share_start(copy + 1) <= place {
            copy += 1;
        }
        copy
    }

    fn skip_own_requests(&self, place: i64) -> i64 {
        let before = self.own.partition_point(|(a, _)| *a < place);
        place - self.own[..before].iter().map(|(a, b)| b - a).sum::<i64>()
    }
}

/// The steps of the free loops of a sender that reach the receiver at a distance of `ranks`.
fn steps_to_receiver(nest: &RankNest, found: &ReachedStart, ranks: i64) -> Option<Vec<i64>> {
    let mut free: Vec<usize> = nest.free_loops(ReshardSide::Src).collect();
    free.sort_by_key(|k| std::cmp::Reverse(nest.outer[*k].step.dst_rank.abs()));
    let reach = |k: &usize| ((nest.outer[*k].range - 1) * nest.outer[*k].step.dst_rank).min(0);
    let mut rest = ranks - free.iter().map(reach).sum::<i64>();
    if rest < 0 {
        return None;
    }
    let mut steps = found.steps.clone();
    for k in free {
        let by = nest.outer[k].step.dst_rank;
        let count = (rest / by.abs()).min(nest.outer[k].range - 1);
        rest -= count * by.abs();
        steps[k] = if by > 0 { count } else { nest.outer[k].range - 1 - count };
    }
    (rest == 0).then_some(steps)
}

/// Decodes the request with this number.
fn decode_request(
    nest: &RankNest,
    dst: &ShardedLayout,
    found: &ReachedStart,
    number: i64,
) -> BlockRequest {
    let mut steps = found.steps.clone();
    let (mut rest, mut copy, mut weight) = (number, 0, 1);
    for (digit, extent) in request_digits(nest, dst).iter().rev() {
        let value = rest % extent;
        rest /= extent;
        match digit {
            RequestDigit::Loop(k) => steps[*k] = value,
            RequestDigit::Copy => {
                copy += value * weight;
                weight *= extent;
            }
        }
    }
    BlockRequest { nest: found.nest, start: found.start, steps, copy, index: number }
}
