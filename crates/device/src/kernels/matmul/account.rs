//! What the cores do for a product: the plan that the accounts charge.
//!
//! A core works on its slices `A[b, m, k]` and `B[b, k, n]`. One of the two is **resident**: as many
//! of its rows (columns) as fit stay in the scratchpad, with the float32 sums they belong to. The
//! other one is **streamed** past it, two tiles at a time, once per such part: what does not fit is
//! the reason to read the streamed operand again. The core keeps the one that makes it read less;
//! where both give the same, A. Batches that B does not know are more rows of A, those that A does not know
//! more columns of B; every other batch has its turn.
//!
//! Cores that differ in their columns only have the same slice of A, those that differ in their rows the
//! same of B: what they read is marked as shared.
//!
//! Where the summed dimension is split over `g` cores, each has the sums of its range; they travel
//! along the ring in the order of the cores, each adding its own, and the last core finishes and
//! writes the result. The last core is charged the `g - 1` hops it waits for.

use super::super::TILES;
use super::super::share::{Share, moves_along};
use crate::tensor::sticks::Sticks;
use zellige_machine::account::{CoreWork, RingMove};

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
        let only = |own: &Sticks, other: &Sticks| -> u64 {
            let batches = (0..mi).filter(|d| moves_along(own, *d) && !moves_along(other, *d));
            batches.map(|d| c.size[d] as u64).product()
        };
        let (rows, columns) = (m * only(a, b), np * only(b, a));
        let room = LX - 2 * TILES;
        let row = kp * width(a) + columns.min(64) * 4;
        let lanes = columns.min(b.eps as u64).max(1);
        let stick = lanes * (kp * width(b) + 4);
        let held_rows = (room / row.max(1)).clamp(1, rows.max(1));
        let held_sticks = (room / stick.max(1)).clamp(1, columns.div_ceil(lanes).max(1));
        let row_parts = rows.div_ceil(held_rows).max(1);
        let stick_parts = columns.div_ceil(lanes).div_ceil(held_sticks).max(1);
        let (of_a, of_b) = (a.traffic(), b.traffic());
        let (bytes_a, bytes_b) = (of_a.0.bytes(), of_b.0.bytes());
        let keep_a = bytes_a + bytes_b * row_parts <= bytes_a * stick_parts + bytes_b;
        let (times, resident) = match keep_a {
            true => ([1, row_parts], held_rows * row),
            false => ([stick_parts, 1], held_sticks * stick),
        };
        let mut unique = 0;
        for (((bursts, padding), times), share) in [of_a, of_b].iter().zip(times).zip(self.shares) {
            share.read(&mut work, bursts, times);
            work.padding_bytes += padding * times;
            unique += bursts.bytes();
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
        work.unique_sticks = times.iter().any(|t| *t > 1).then_some(unique / 128);
        work.lx_bytes = work.reads.bytes() + work.writes.bytes();
        work
    }
}
