//! The time of a product by the mechanisms that were measured on cards.
//!
//! A core computes a tile of the result, `rows x columns` of depth `depth`, once per batch. Presets with the section
//! `product` use these terms; their constants are fitted to measured kernels by `bench/fidelity/fit_kernel_times.py`,
//! whose `kernel_time_model.py` has the same formulas.
//!
//! - **blocks**: the sums of a block of the tile stay in the accumulators. Every block of columns reads the rows of A
//!   again, and every block of rows the columns of B ([`plan_tile_passes`]).
//! - **read**: all passes over both operands, one read of memory for all cores that have the same slice; passes after the
//!   first reach a little less of the bandwidth. Few cores do
//!   not reach the bandwidth of all, even less where no two have the same slice.
//! - **intake**: no core takes in more than so much of one operand.
//! - **interleaved batches**: memory is read in pieces of four sticks. Where the batches of an operand alternate stick by
//!   stick, a core needs a part of each piece only, unless all four batches fit in its staging area. Such pieces enter a
//!   core more slowly, less so where its slice is the whole operand, which is read from one end to the other.
//! - **first chunk**: the operands of the first part of the depth are read before the PT array begins; the rest is read
//!   while it works. With a split depth nothing was seen to be exposed.
//! - **compute**: multiply-adds at the sustained rate, at about half of it where the depth is split.
//! - **epilogue**: element operations on the result, such as a bias or scales, and what they read besides A and B.
//! - **partial sums**: per element of the tile and doubling of the cores that split the depth.
//! - **write**: the result, after all of that.
//!
//! **Law**: a core takes `fixed + first chunk + max(compute, rest of the reads) + partial sums + epilogue + write`.

use super::latency::interpolate_curve;
use super::work::{CoreWork, OperationWork};
use crate::hardware::{Hardware, Key};
use crate::ratio::Ratio;
use serde::Serialize;

/// The elements of a stick of two-byte elements: the width of blocks counts in them.
const STICK_COLUMNS: u64 = 64;
/// Sticks of one access of memory: 512 bytes. Batches that alternate with more others waste no more than that.
const STICKS_PER_PIECE: u64 = 4;
/// Shares are counted in units of 1/65536, so that all machines round alike.
const SHARE_ONE: u128 = 1 << 16;

/// The part of a product that one core has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProductTile {
    /// Rows of one matrix of the result on this core.
    pub rows: u64,
    /// Its columns, in whole sticks.
    pub columns: u64,
    /// The depth on this core, in whole sticks.
    pub depth: u64,
    /// The matrices on this core.
    pub batches: u64,
    /// The matrices of the operation.
    pub all_batches: u64,
    /// Whether all matrices have the same B.
    pub shared_weight: bool,
    /// How many cores split the depth.
    pub depth_split: u64,
    /// A and B.
    pub operands: [TileOperand; 2],
}

impl ProductTile {
    /// Whether the elements of B have 8 bits: its slice then has one byte for each of them, and two otherwise.
    fn is_narrow(&self) -> bool {
        let elements = super::work::saturating_product([self.columns, self.depth, self.batches]);
        self.operands[1].bytes < elements.saturating_add(elements / 2)
    }
}

/// What a core reads of one operand of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TileOperand {
    /// Bytes of its slice for all matrices on this core, each counted.
    pub bytes: u64,
    /// Cores that have the same slice, this one included.
    pub cores: u64,
    /// Whether matrices alternate stick by stick in memory.
    pub interleaved: bool,
    /// Whether the slice is in the scratchpad already, so that nothing of it is read.
    pub resident: bool,
}

/// The terms of a product on one core, in cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ProductCycles {
    /// A kernel without work.
    pub fixed: u64,
    /// Reads before the PT array begins.
    pub first_chunk: u64,
    /// Multiply-adds.
    pub compute: u64,
    /// Reads of A by all cores.
    pub read_a: u64,
    /// Reads of B by all cores.
    pub read_b: u64,
    /// What this core takes in of the larger operand.
    pub intake: u64,
    /// Reads while the PT array works.
    pub rest_of_reads: u64,
    /// Sums that cores pass on.
    pub partial_sums: u64,
    /// Element operations on the result, and what they read.
    pub epilogue: u64,
    /// Writing the result.
    pub write: u64,
}

impl ProductCycles {
    /// The time of the core.
    pub fn total(&self) -> u64 {
        let streamed = self.compute.max(self.rest_of_reads);
        [self.fixed, self.first_chunk, streamed, self.partial_sums, self.epilogue, self.write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// What limits the blocks of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLimits {
    /// Elements of a block.
    pub area: u64,
    /// Its rows.
    pub rows: u64,
    /// Its columns.
    pub columns: u64,
    /// Whether, of divisions into blocks with equal bytes, those count more that spare the operand of more cores. In a
    /// batch it is the operand of fewer cores, whose slices are the larger part of what memory delivers.
    pub spare_shared: bool,
}

/// How often a tile reads its slices of A and B: once per block of columns, and once per block of rows.
///
/// Blocks divide the tile evenly. Of those that fit, the ones with the fewest bytes into the core are taken; passes
/// of A count `fan_weight` times where more than twice as many cores share A as share B, and the other way round.
pub fn plan_tile_passes(
    [rows, columns]: [u64; 2],
    [share_a, share_b]: [u64; 2],
    limits: BlockLimits,
    fan_weight: Ratio,
) -> [u64; 2] {
    let rows = match rows {
        // Rows that no number divides would otherwise be computed one by one.
        0..=64 => rows.max(1),
        65..=256 => rows.next_multiple_of(8),
        _ => rows.next_multiple_of(64),
    };
    let sticks = columns.div_ceil(STICK_COLUMNS).max(1);
    let (weigh_a, weigh_b) = match () {
        () if !limits.spare_shared => (Ratio::ONE, Ratio::ONE),
        () if share_a > 2 * share_b => (fan_weight, Ratio::ONE),
        () if share_b > 2 * share_a => (Ratio::ONE, fan_weight),
        () => (Ratio::ONE, Ratio::ONE),
    };
    let mut best: Option<((u64, u64), [u64; 2])> = None;
    for height in (1..=rows.min(limits.rows)).rev().filter(|h| rows.is_multiple_of(*h)) {
        let widths = (1..=sticks).rev().filter(|w| sticks.is_multiple_of(*w));
        let fits = |w: &u64| {
            let width = w * STICK_COLUMNS;
            width <= limits.columns.max(STICK_COLUMNS)
                && width.saturating_mul(height) <= limits.area
        };
        // The widest block of this height: narrower ones only read A more often.
        let Some(width) = widths.into_iter().find(fits) else { continue };
        let passes = [sticks / width, rows / height];
        let moved = weigh_a
            .ceil_product(rows.saturating_mul(passes[0]).saturating_mul(1 << 10))
            .saturating_add(weigh_b.ceil_product(
                (sticks * STICK_COLUMNS).saturating_mul(passes[1]).saturating_mul(1 << 10),
            ));
        let spared = usize::from((share_a < share_b) == limits.spare_shared);
        let rank = (moved, passes[spared]);
        if best.is_none_or(|(known, _)| rank < known) {
            best = Some((rank, passes));
        }
    }
    best.map_or([sticks, rows], |(_, passes)| passes)
}

/// What one operation's product takes per unit of work, and what all its cores read and write.
pub(super) struct ProductRates<'h> {
    hardware: &'h Hardware,
    /// Cycles per multiply-add, whole depth and split depth.
    compute: [Ratio; 2],
    /// Cycles per byte that all cores read: slices that several cores have, that one core has, interleaved ones.
    shared: Ratio,
    own: Ratio,
    mixed: Ratio,
    /// What a pass after the first costs, against the first one.
    again: Ratio,
    write: Ratio,
    intake: Ratio,
    gather: Ratio,
    /// How much faster a slice comes in that is the whole operand.
    whole_intake: Ratio,
    partial_sum: Ratio,
    /// Cycles per element operation, plain and transcendental.
    sfu: [Ratio; 2],
    narrow: Ratio,
    fixed: u64,
    first_chunk: u64,
    /// The squares of the staging areas for A and B in bytes.
    staging: [u128; 2],
    shared_weight: Ratio,
    written: u64,
    tiles: Vec<ProductTile>,
}

impl<'h> ProductRates<'h> {
    /// None where the hardware has no such figures, or the work is no product.
    pub(super) fn for_operation(
        hardware: &'h Hardware,
        work: &OperationWork,
        others: usize,
    ) -> Option<ProductRates<'h>> {
        hardware.find_figure(Key::ProductRate)?;
        let tiles: Vec<ProductTile> = work.cores.iter().filter_map(|core| core.tile).collect();
        let busy = work.cores.iter().filter(|core| !core.is_idle()).count();
        if tiles.is_empty() || tiles.len() < busy {
            return None;
        }
        let number = |key| hardware.figure_number(key);
        let clock = number(Key::Clock);
        let cores = tiles.len() as u64;
        // Cores that are busy with other work take their share of the bandwidth.
        let beside = Ratio::new(cores + others as u64, cores);
        let per_byte = |rate: Ratio| clock.divided_by(rate);
        let of_all = |key| interpolate_curve(hardware.figure_curve(key), cores, |x| x << 16);
        let read = per_byte(number(Key::ProductRead)).multiplied_by(beside);
        let rate = per_byte(number(Key::ProductRate));
        let area = |key| {
            // The staging area was fitted at a share of 0.2 of the scratchpad; what it holds grows with its square.
            let share = number(Key::ProductScratchpadShare).divided_by(Ratio::new(1, 5));
            let room = number(key).multiplied_by(share).multiplied_by(share);
            u128::from(room.ceil_product(1_000_000)).pow(2)
        };
        Some(ProductRates {
            hardware,
            compute: [rate, rate.divided_by(number(Key::ProductSplitRate))],
            shared: read.divided_by(of_all(Key::ProductSharedShare)),
            own: read.divided_by(of_all(Key::ProductOwnShare)),
            mixed: read.divided_by(of_all(Key::ProductMixedShare)),
            again: Ratio::ONE.divided_by(number(Key::ProductReadAgain)),
            write: per_byte(number(Key::ProductWrite)).multiplied_by(beside),
            intake: per_byte(number(Key::ProductIntake)),
            gather: per_byte(number(Key::ProductGatherIntake)),
            whole_intake: number(Key::ProductWholeIntake),
            partial_sum: clock.multiplied_by(number(Key::ProductPartialSum)),
            sfu: {
                let lanes = number(Key::Lanes).multiplied_by(number(Key::Corelets));
                [Ratio::ONE.divided_by(lanes), number(Key::Transcendental).divided_by(lanes)]
            },
            // 1 where the preset has no such figure.
            narrow: number(Key::ProductNarrowRate),
            fixed: number(Key::ProductFixed).multiplied_by(clock).ceil_product(1000),
            first_chunk: hardware.figure_count(Key::ProductFirstChunk),
            staging: [area(Key::ProductStagingA), area(Key::ProductStagingB)],
            shared_weight: number(Key::ProductSharedWeight),
            written: work.sum_over_cores().bytes_out,
            tiles,
        })
    }

    /// The terms of a core that has this tile of a product and does this work in all.
    pub(super) fn tile_cycles(&self, tile: &ProductTile, work: &CoreWork) -> ProductCycles {
        let split = tile.depth_split > 1;
        let macs =
            super::work::saturating_product([tile.rows, tile.columns, tile.depth, tile.batches]);
        let [a, b] = tile.operands;
        let limits = self.block_limits(tile);
        let passes = plan_tile_passes(
            [tile.rows, tile.columns],
            [a.cores, b.cores],
            limits,
            self.hardware.figure_number(Key::ProductFanWeight),
        );
        let [read_a, read_b] = [0, 1].map(|i| self.operand_cycles(tile, i, passes[i]));
        let taken = [0, 1].map(|i| match tile.operands[i] {
            TileOperand { resident: true, .. } => 0,
            operand => self.intake.ceil_product(operand.bytes.saturating_mul(passes[i])),
        });
        let intake = taken[0].max(taken[1]);
        let read = read_a.saturating_add(read_b).max(intake);
        let first_chunk = match split || tile.depth == 0 {
            true => 0,
            false => Ratio::new(self.first_chunk.min(tile.depth), tile.depth).ceil_product(read),
        };
        let doublings = u64::from(tile.depth_split.max(1).ilog2());
        let sums =
            super::work::saturating_product([tile.rows, tile.columns, tile.batches, doublings]);
        let rate = match tile.is_narrow() {
            true => self.compute[usize::from(split)].divided_by(self.narrow),
            false => self.compute[usize::from(split)],
        };
        ProductCycles {
            fixed: self.fixed,
            first_chunk: first_chunk.min(read),
            compute: rate.ceil_product(macs),
            read_a,
            read_b,
            intake,
            rest_of_reads: read.saturating_sub(first_chunk),
            partial_sums: match sums {
                0 => 0,
                sums => self.partial_sum.ceil_product(sums),
            },
            // The sums that a split depth adds are element operations too, and have a term of their own.
            epilogue: match split {
                true => 0,
                false => self.sfu[0]
                    .ceil_product(work.sfu)
                    .saturating_add(self.sfu[1].ceil_product(work.sfu_transcendental)),
            },
            write: self.write.ceil_product(self.written),
        }
    }

    fn block_limits(&self, tile: &ProductTile) -> BlockLimits {
        let count = |key| self.hardware.figure_count(key);
        match tile.all_batches > 1 && !tile.shared_weight {
            true => BlockLimits {
                area: count(Key::ProductBatchBlockArea),
                rows: count(Key::ProductBatchBlockRows),
                columns: count(Key::ProductBatchBlockColumns),
                spare_shared: false,
            },
            false => BlockLimits {
                area: count(Key::ProductBlockArea),
                rows: count(Key::ProductBlockRows),
                columns: count(Key::ProductBlockColumns),
                spare_shared: true,
            },
        }
    }

    /// Reads of one operand by all cores, and by this one where that takes longer.
    fn operand_cycles(&self, tile: &ProductTile, which: usize, passes: u64) -> u64 {
        let operand = tile.operands[which];
        if operand.resident {
            return 0;
        }
        // Cores share evenly, so that their shares are added before they are rounded.
        let all = self.tiles.iter().map(|t| {
            let own = t.operands[which];
            (u128::from(own.bytes) << 16) / u128::from(own.cores.max(1))
        });
        let sum = all.fold(0_u128, u128::saturating_add).saturating_add(SHARE_ONE / 2) >> 16;
        let once = u64::try_from(sum).unwrap_or(u64::MAX);
        let own = operand.bytes.saturating_mul(passes);
        if !operand.interleaved || tile.all_batches <= 1 {
            let rate = match operand.cores {
                0 | 1 => self.own.max(self.shared),
                _ => self.shared,
            };
            let further = once.saturating_mul(passes.saturating_sub(1));
            let again = rate.multiplied_by(self.again).ceil_product(further);
            return rate.ceil_product(once).saturating_add(again);
        }
        let excess = self.excess_share(tile, which);
        let with_excess = |bytes: u64| {
            let product = u128::from(bytes).saturating_mul(excess);
            u64::try_from(product.div_ceil(SHARE_ONE)).unwrap_or(u64::MAX)
        };
        let memory = self.mixed.ceil_product(with_excess(once.saturating_mul(passes)));
        // An operand that all cores have whole is read from one end to the other, not in rows of pieces.
        let whole = once == operand.bytes && self.tiles.len() > 1;
        let gather = if whole { self.gather.divided_by(self.whole_intake) } else { self.gather };
        memory.max(gather.ceil_product(with_excess(own)))
    }

    /// How many bytes of memory an interleaved operand costs per byte that is needed, in units of [`SHARE_ONE`].
    fn excess_share(&self, tile: &ProductTile, which: usize) -> u128 {
        let together = tile.all_batches.clamp(1, STICKS_PER_PIECE);
        let used = together.min(tile.batches.max(1));
        // Batches of a piece that are on other cores are read here too.
        let least = u128::from(together) * SHARE_ONE / u128::from(used);
        let most = match tile.shared_weight && which == 0 {
            true => {
                SHARE_ONE
                    + u128::from(together - 1)
                        * u128::from(self.shared_weight.ceil_product(1 << 16))
            }
            false => u128::from(together) * SHARE_ONE,
        };
        // The geometric mean of the slices of all batches and of those of one piece is compared with the staging area.
        let bytes = u128::from(tile.operands[which].bytes);
        let piece = bytes / u128::from(tile.batches.max(1))
            * u128::from(tile.batches.clamp(1, STICKS_PER_PIECE));
        let square = bytes.saturating_mul(piece).min(u128::MAX >> 18);
        let sum = square.saturating_add(self.staging[which]).max(1);
        least + most.saturating_sub(least) * (square * SHARE_ONE / sum) / SHARE_ONE
    }
}
