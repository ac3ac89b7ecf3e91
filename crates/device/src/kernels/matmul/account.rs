//! What the cores do for a product: the plan that the accounts charge.
//!
//! A core works on its slices `A[b, m, k]` and `B[b, k, n]`, one of which stays in the scratchpad while the other is
//! streamed past it ([`plan_product_reads`]). Batch dimensions that B lacks are more rows of A, those that A lacks
//! are more columns of B; every other batch is a product of its own. What the units do follows from the charges of the product.
//!
//! Cores that differ in their columns only have the same slice of A, those that differ in their rows the
//! same of B: what they read is marked as shared.
//!
//! Where the summed dimension is split over `g` cores, each has the sums of its range; they travel
//! along the ring in the order of the cores, each adding its own, and the last core finishes and
//! writes the result. The last core is charged the `g - 1` hops it waits for.

use super::super::charge_units;
use super::super::share::{CoreShare, moves_along};
use crate::tensor::sticks::StickForm;
use std::ops::Range;
use zellige_machine::account::CoreWork;
use zellige_machine::{
    KERNEL_SCRATCHPAD, OperationCharges, ProductOperand, ProductReads, ProductTile,
    STREAMED_TENSOR_BYTES, SumGroup, TileOperand, plan_product_reads,
};

/// The slices of one core, as batches of matrices.
#[derive(Debug)]
pub(crate) struct ProductSlices<'a> {
    pub(crate) a: &'a StickForm,
    pub(crate) b: &'a StickForm,
    pub(crate) c: &'a StickForm,
    pub(crate) extras: &'a [StickForm],
    /// The cores that share A, B and the extras.
    pub(crate) shares: &'a [CoreShare],
    /// The core among those that share its result.
    pub(crate) group: SumGroup,
    /// What the units do, and the core's slices of the loops.
    pub(crate) charges: &'a OperationCharges,
    pub(crate) ranges: &'a [Range<usize>],
    /// The matrices of the whole product.
    pub(crate) all_batches: u64,
    /// Whether several of them have the same B.
    pub(crate) shared_weight: bool,
    /// Whether matrices of A and of B alternate stick by stick.
    pub(crate) interleaved: [bool; 2],
}

/// Extent of a dimension in whole sticks.
pub(crate) fn padded_extent(t: &StickForm, dim: usize) -> u64 {
    let unit = if t.stick == Some(dim) { t.eps } else { 1 };
    (t.size[dim].div_ceil(unit) * unit) as u64
}

impl ProductSlices<'_> {
    /// The part of the product that the core has; none where it has nothing to do.
    fn plan_tile(&self, bytes: [u64; 2], [columns, depth]: [u64; 2]) -> Option<ProductTile> {
        let outer = self.c.rank() - 2;
        let batches = |seen: &dyn Fn(usize) -> bool| -> u64 {
            (0..outer).filter(|d| seen(*d)).map(|d| self.c.size[d] as u64).product()
        };
        let operand = |i: usize, t: &StickForm| TileOperand {
            bytes: bytes[i].saturating_mul(batches(&|d| !moves_along(t, d))),
            cores: self.shares[i].cores,
            interleaved: self.interleaved[i],
            resident: false,
        };
        let tile = ProductTile {
            rows: self.c.size[outer] as u64,
            columns,
            depth,
            batches: batches(&|_| true),
            all_batches: self.all_batches,
            shared_weight: self.shared_weight,
            depth_split: self.group.size,
            operands: [operand(0, self.a), operand(1, self.b)],
        };
        let points = [tile.rows, tile.columns, tile.depth, tile.batches];
        points.iter().all(|n| *n > 0).then_some(tile)
    }

    /// What the core does.
    pub(crate) fn charge_product(&self) -> CoreWork {
        let (a, b, c) = (self.a, self.b, self.c);
        let rank = c.rank();
        let (mi, ni) = (rank - 2, rank - 1);
        let m = c.size[mi] as u64;
        let np = padded_extent(b, ni).max(padded_extent(c, ni));
        let kp = padded_extent(a, ni).max(padded_extent(b, mi));
        let mut work = CoreWork::default();
        charge_units(&mut work, self.charges, self.ranges, self.group);

        // Batches that only one operand has are more rows or columns of one large matrix.
        let only = |own: &StickForm, other: &StickForm| -> u64 {
            let batches = (0..mi).filter(|d| moves_along(own, *d) && !moves_along(other, *d));
            batches.map(|d| c.size[d] as u64).product()
        };
        let (rows, columns) = (m * only(a, b), np * only(b, a));
        // What the streamed operand and the result need is set aside; the rest may hold the resident operand.
        let room = KERNEL_SCRATCHPAD - 2 * STREAMED_TENSOR_BYTES;
        let (of_a, of_b) = (a.stick_traffic(), b.stick_traffic());
        let factor = |t: &StickForm, bytes: u64| ProductOperand {
            width: t.format.byte_size() as u64,
            bytes,
        };
        let factors = [factor(a, of_a.0.total_bytes()), factor(b, of_b.0.total_bytes())];
        let ProductReads { times, resident } =
            plan_product_reads([rows, columns, kp], factors, b.eps as u64, room);
        let bytes = [of_a.0.total_bytes(), of_b.0.total_bytes()];
        let mut unique = 0;
        for (((bursts, padding), times), share) in [of_a, of_b].iter().zip(times).zip(self.shares) {
            share.charge_reads(&mut work, bursts, times);
            work.padding_bytes += padding * times;
            unique += bursts.total_bytes();
        }
        work.tile = self.plan_tile(bytes, [np, kp]);
        work.lx_peak = (resident + 2 * STREAMED_TENSOR_BYTES).min(KERNEL_SCRATCHPAD);

        // The last core of a group has the whole sum, finishes and writes it.
        if self.group.is_last() {
            for (t, share) in self.extras.iter().zip(&self.shares[2..]) {
                let (bursts, padding) = t.stick_traffic();
                share.charge_reads(&mut work, &bursts, 1);
                work.padding_bytes += padding;
                unique += bursts.total_bytes();
            }
            let (bursts, padding) = c.stick_traffic();
            work.writes.merge_traffic(&bursts);
            work.padding_bytes += padding;
            unique += bursts.total_bytes();
        }
        // The cycle model `ktir` charges a stick that is read several times once.
        work.unique_sticks = times.iter().any(|t| *t > 1).then_some(unique / 128);
        work.lx_bytes = work.reads.total_bytes() + work.writes.total_bytes();
        work
    }
}
