//! What the cores do for a product: the plan that the accounts charge.
//!
//! A core works on its slices `A[b, m, k]` and `B[b, k, n]`. One of the two is **resident**: as many
//! of its rows (columns) as fit stay in the scratchpad, with the float32 sums they belong to. The
//! other one is **streamed** past it, two tiles at a time, once per such part: what does not fit is
//! the reason to read the streamed operand again. The core keeps the one that makes it read less;
//! where both give the same, A. Every batch has its turn: an operand that the batches share is read
//! again for each unless all of its slice is resident.
//!
//! Cores that differ in their columns only have the same slice of A, those that differ in their rows the
//! same of B: what they read is marked as shared.
//!
//! Where the summed dimension is split over `g` cores, each has the sums of its range; they travel
//! along the ring in the order of the cores, each adding its own, and the last core finishes and
//! writes the result. The last core is charged the `g - 1` hops it waits for.

use super::super::TILES;
use super::super::share::Share;
use crate::account::{CoreWork, RingMove, Traffic};
use crate::sticks::Sticks;

/// Bytes of a scratchpad that kernels use: 2 MiB less a fifth for the backend.
pub(crate) const LX: u64 = 1_677_721;

/// The slices of one core, as batches of matrices.
#[derive(Debug)]
pub(crate) struct Slices<'a> {
    pub(crate) a: &'a Sticks,
    pub(crate) b: &'a Sticks,
    pub(crate) c: &'a Sticks,
    pub(crate) extras: &'a [Sticks],
    /// Who shares A, B and the extras.
    pub(crate) shares: &'a [Share],
    /// Cores that share the result, and which of them this one is.
    pub(crate) group: (usize, usize),
    /// Element operations of the SFU per element of the result.
    pub(crate) steps: u64,
}

/// Extent of a dimension in whole sticks.
pub(crate) fn padded(t: &Sticks, dim: usize) -> u64 {
    let unit = if t.stick == Some(dim) { t.eps } else { 1 };
    (t.size[dim].div_ceil(unit) * unit) as u64
}

/// One operand: what all of it moves, and how often.
struct Reading {
    traffic: Traffic,
    padding: u64,
    times: u64,
}

impl Reading {
    /// A slice that is read `passes` times for each of the batches.
    fn of(t: &Sticks, passes: u64) -> Reading {
        let (traffic, padding) = t.traffic();
        let shared = |d: &usize| t.stride[*d] == 0 && t.stick != Some(*d);
        let batches: usize = (0..t.rank() - 2).filter(shared).map(|d| t.size[d]).product();
        let times = if passes == 0 { 1 } else { passes * batches as u64 };
        Reading { traffic, padding, times }
    }

    fn bytes(&self) -> u64 {
        self.traffic.bytes() * self.times
    }
}

impl Slices<'_> {
    /// What the core does.
    pub(crate) fn work(&self) -> CoreWork {
        let (a, b, c) = (self.a, self.b, self.c);
        let rank = c.rank();
        let (mi, ni) = (rank - 2, rank - 1);
        let batch: u64 = c.size[..mi].iter().map(|n| *n as u64).product();
        let (m, n, k) = (c.size[mi] as u64, c.size[ni] as u64, a.size[ni] as u64);
        let np = padded(b, ni).max(padded(c, ni));
        let kp = padded(a, ni).max(padded(b, mi));
        let mut work = CoreWork { macs: batch * m * np * kp, ..CoreWork::default() };
        work.macs_valid = batch * m * n * k;

        // Bytes of a resident row of A, or of a stick of columns of B, with its sums.
        let width = |t: &Sticks| t.format.size() as u64;
        let room = LX - 2 * TILES;
        let row = kp * width(a) + np.min(64) * 4;
        let lanes = np.min(b.eps as u64).max(1);
        let stick = lanes * (kp * width(b) + 4);
        let rows = (room / row.max(1)).clamp(1, m.max(1));
        let sticks = (room / stick.max(1)).clamp(1, np.div_ceil(lanes).max(1));
        let (row_parts, stick_parts) =
            (m.div_ceil(rows), np.div_ceil(lanes).div_ceil(sticks).max(1));
        // A resident slice that fits whole stays for all batches (`passes` 0).
        let kept = |parts: u64| u64::from(parts > 1);
        let keep_a = [Reading::of(a, kept(row_parts)), Reading::of(b, row_parts)];
        let keep_b = [Reading::of(a, stick_parts), Reading::of(b, kept(stick_parts))];
        let bytes = |r: &[Reading; 2]| r[0].bytes() + r[1].bytes();
        let (chosen, resident) = if bytes(&keep_a) <= bytes(&keep_b) {
            (keep_a, rows * row)
        } else {
            (keep_b, sticks * stick)
        };
        let mut again = false;
        let mut unique = 0;
        for (reading, share) in chosen.iter().zip(self.shares) {
            share.read(&mut work, &reading.traffic, reading.times);
            work.padding_bytes += reading.padding * reading.times;
            unique += reading.traffic.bytes();
            again |= reading.times > 1;
        }
        work.lx_peak = (resident + 2 * TILES).min(LX);

        let (group, place) = self.group;
        let sums = batch * m * np;
        if place > 0 {
            work.sfu += sums;
        }
        if place + 1 == group {
            for (t, share) in self.extras.iter().zip(&self.shares[2..]) {
                let (bursts, padding) = t.traffic();
                share.read(&mut work, &bursts, 1);
                work.padding_bytes += padding;
                unique += bursts.bytes();
            }
            let (bursts, padding) = c.traffic();
            work.writes.merge(&bursts);
            work.padding_bytes += padding;
            unique += bursts.bytes();
            work.sfu += sums * self.steps;
            if group > 1 {
                work.ring.push(RingMove { bytes: sums * 4, hops: group as u64 - 1 });
            }
        }
        work.unique_sticks = again.then_some(unique / 128);
        work.lx_bytes = work.reads.bytes() + work.writes.bytes();
        work
    }
}
