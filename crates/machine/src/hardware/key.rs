//! The figures that describe hardware: their names, units and who uses them.

/// Whether a latency model uses a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureUse {
    /// A preset without it is refused.
    Needed,
    /// Used where a preset has it.
    Used,
    /// Kept for the reader.
    Told,
    /// A preset with it is refused, as it would change nothing.
    Unused,
}
use FigureUse::{Needed, Told, Unused, Used};

/// What kind of value a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FigureKind {
    /// A positive number up to a billion.
    Rate,
    /// A whole number in this range, counted in the first unit.
    Count(u64, u64),
    /// Fractions of one over a growing number of `by`.
    Curve(&'static str),
}

pub(crate) struct FigureRow {
    pub(crate) key: Key,
    pub(crate) path: &'static str,
    /// Accepted units with their size in the first one.
    pub(crate) units: &'static [(&'static str, u64)],
    pub(crate) kind: FigureKind,
    /// Used by the model `card`, by the model `ktir`.
    pub(crate) uses: [FigureUse; 2],
}

macro_rules! keys {
    ($($key:ident $path:literal $units:expr, $kind:expr, $card:ident $ktir:ident, $doc:literal;)*) => {
        /// A figure of a [`Hardware`](super::Hardware).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Key { $(#[doc = $doc] $key,)* }

        pub(crate) static ROWS: &[FigureRow] = &[
            $(FigureRow { key: Key::$key, path: $path, units: $units, kind: $kind, uses: [$card, $ktir] },)*
        ];
    };
}

const BYTE_UNITS: &[(&str, u64)] =
    &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
const LX_BYTES: &[(&str, u64)] = &[("B/core", 1), ("KiB/core", 1 << 10), ("MiB/core", 1 << 20)];
const GB_S: &[(&str, u64)] = &[("GB/s", 1), ("TB/s", 1000)];
/// Of a launch: what one launch covers is a part of the unit, see [`LaunchUnit`](super::LaunchUnit).
const LAUNCH_UNITS: &[(&str, u64)] = &[("us/wave", 1), ("us/bundle", 1)];
const MILLISECOND_UNITS: &[(&str, u64)] = &[("ms", 1)];
const MICROSECOND_UNITS: &[(&str, u64)] = &[("us", 1)];
const SHARE_OF_ALL: &[(&str, u64)] = &[("of the rate of all cores", 1)];
const GB_S_CORE: &[(&str, u64)] = &[("GB/s/core", 1)];
const MEGABYTES: &[(&str, u64)] = &[("MB", 1)];
const TIMES: &[(&str, u64)] = &[("times", 1)];
const ELEMENTS: &[(&str, u64)] = &[("elements", 1)];
const MAC_NS: &[(&str, u64)] = &[("MAC/ns/core", 1)];
const LANE_UNITS: &[(&str, u64)] = &[("elements/cycle/corelet", 1), ("elements/cycle/core", 1)];

keys! {
    Cores "cores.count" &[("cores", 1)], FigureKind::Count(1, 1024), Needed Needed, "Cores of the card.";
    Corelets "cores.corelets" &[("corelets/core", 1)], FigureKind::Count(1, 64), Needed Unused, "Corelets of a core.";
    PeRows "cores.pe_rows" &[("rows", 1)], FigureKind::Count(1, 1024), Told Told, "Rows of a corelet's PE array.";
    PeColumns "cores.pe_columns" &[("columns", 1)], FigureKind::Count(1, 1024), Told Told, "Columns of a corelet's PE array.";
    Clock "cores.clock" &[("GHz", 1)], FigureKind::Rate, Needed Needed, "Clock of the cores.";
    Flops "pt.flops" &[("FLOP/cycle/core", 1)], FigureKind::Rate, Needed Needed, "Peak of the PT array.";
    Matmul "pt.matmul" MAC_NS, FigureKind::Rate, Needed Unused, "Sustained multiply-adds of a matmul.";
    BatchMatmul "pt.batch_matmul" MAC_NS, FigureKind::Rate, Needed Unused, "Sustained multiply-adds of a batch matmul in the default layout.";
    BatchMatmulFrom "pt.batch_matmul_from" &[("matrices", 1)], FigureKind::Count(1, 1 << 32), Needed Unused, "The batch from which `BatchMatmul` holds.";
    Lanes "sfu.lanes" LANE_UNITS, FigureKind::Rate, Needed Needed, "Elements of one operation per cycle.";
    Transcendental "sfu.transcendental" &[("times a plain operation", 1)], FigureKind::Rate, Needed Needed, "Cost of exp, log, tanh and the like.";
    MemoryPeak "memory.peak" GB_S, FigureKind::Rate, Needed Needed, "Peak of the device memory.";
    MemoryOneWay "memory.one_way" GB_S, FigureKind::Rate, Needed Unused, "Sustained, reading or writing.";
    MemoryBalanced "memory.balanced" GB_S, FigureKind::Rate, Needed Unused, "Sustained, reading and writing alike.";
    MemoryRestickify "memory.restickify" GB_S, FigureKind::Rate, Needed Unused, "Sustained by a restickify.";
    MemoryCrossRow "memory.cross_row" GB_S, FigureKind::Rate, Needed Unused, "Sustained by a reduction across rows.";
    Granule "memory.granule" &[("B", 1)], FigureKind::Count(1, 1 << 20), Needed Needed, "Bytes of the smallest request.";
    Bursts "memory.bursts" &[("of peak", 1)], FigureKind::Curve("B"), Needed Unused, "Share of the peak by length of burst.";
    Segments "memory.segments" &[("segments", 1)], FigureKind::Count(2, 1024), Needed Needed, "Segments of the address space; the last is for programs.";
    Segment "memory.segment" BYTE_UNITS, FigureKind::Count(128, 1 << 44), Needed Needed, "Bytes of a segment.";
    Span "memory.span" BYTE_UNITS, FigureKind::Count(128, 1 << 44), Needed Needed, "Bytes of a tensor that one core can address.";
    LxSize "lx.size" LX_BYTES, FigureKind::Count(128, 1 << 40), Needed Needed, "Bytes of a core's scratchpad.";
    LxBandwidth "lx.bandwidth" &[("B/cycle/core", 1)], FigureKind::Rate, Needed Unused, "Rate of a core's scratchpad.";
    Ring "ring.bandwidth" &[("B/cycle", 1)], FigureKind::Rate, Needed Needed, "Rate of the ring, per direction.";
    Multicast "ring.multicast" &[("cores", 1)], FigureKind::Count(1, 1024), Needed Unused, "Cores that one read of memory serves over the ring.";
    Derate "reduction.derate" &[("of the rate of all cores", 1)], FigureKind::Curve("cores"), Needed Unused, "Share of the memory's rate that a row reduction reaches, by cores in use.";
    KernelFixed "memory.fixed" MICROSECOND_UNITS, FigureKind::Rate, Used Unused, "What a kernel takes that has no work; products have a figure of their own.";
    StreamShare "memory.few_cores" SHARE_OF_ALL, FigureKind::Curve("cores"), Used Unused, "Share of the memory's rate that few cores reach where they stream tensors.";
    ProductRate "product.rate" MAC_NS, FigureKind::Rate, Used Unused, "Multiply-adds that a core sustains in a product; with it, all figures of this section are needed.";
    ProductSplitRate "product.split_depth" TIMES, FigureKind::Rate, Used Unused, "Rate where the depth is split, of the rate where it is whole.";
    ProductRead "product.read" GB_S, FigureKind::Rate, Used Unused, "Rate at which all cores read the operands of a product.";
    ProductReadAgain "product.read_again" TIMES, FigureKind::Rate, Used Unused, "Rate of every pass over an operand after the first, of that of the first.";
    ProductWrite "product.write" GB_S, FigureKind::Rate, Used Unused, "Rate at which the result is written.";
    ProductFixed "product.fixed" MICROSECOND_UNITS, FigureKind::Rate, Used Unused, "What a product takes that has no work.";
    ProductFirstChunk "product.first_chunk" ELEMENTS, FigureKind::Count(1, 1 << 20), Used Unused, "Depth that is read before the PT array begins.";
    ProductIntake "product.intake" GB_S_CORE, FigureKind::Rate, Used Unused, "Most that a core takes in of one operand.";
    ProductGatherIntake "product.gather_intake" GB_S_CORE, FigureKind::Rate, Used Unused, "The same of an operand whose batches alternate stick by stick.";
    ProductPartialSum "product.partial_sum" &[("ns/element", 1)], FigureKind::Rate, Used Unused, "A partial sum, per doubling of the cores that split the depth.";
    ProductSharedShare "product.shared_share" SHARE_OF_ALL, FigureKind::Curve("cores"), Used Unused, "Share of the read rate that so many cores reach on slices that several have.";
    ProductOwnShare "product.own_share" SHARE_OF_ALL, FigureKind::Curve("cores"), Used Unused, "The same on slices that one core has alone.";
    ProductMixedShare "product.interleaved_share" SHARE_OF_ALL, FigureKind::Curve("cores"), Used Unused, "The same on slices whose batches alternate stick by stick.";
    ProductStagingA "product.staging_a" MEGABYTES, FigureKind::Rate, Used Unused, "Staging area for alternating batches of A, at a fifth of the scratchpad.";
    ProductStagingB "product.staging_b" MEGABYTES, FigureKind::Rate, Used Unused, "The same of B.";
    ProductScratchpadShare "product.scratchpad_share" TIMES, FigureKind::Rate, Used Unused, "Share of the scratchpad that kernels may stage operands in.";
    ProductSharedWeight "product.shared_weight" TIMES, FigureKind::Rate, Used Unused, "Excess of alternating batches where all have the same B, of the excess where each has its own.";
    ProductBlockArea "product.block_area" ELEMENTS, FigureKind::Count(64, 1 << 30), Used Unused, "Elements of a block of a product.";
    ProductBlockColumns "product.block_columns" ELEMENTS, FigureKind::Count(64, 1 << 20), Used Unused, "Columns of a block.";
    ProductBlockRows "product.block_rows" ELEMENTS, FigureKind::Count(1, 1 << 20), Used Unused, "Rows of a block.";
    ProductBatchBlockArea "product.batch_block_area" ELEMENTS, FigureKind::Count(64, 1 << 30), Used Unused, "Elements of a block of a batch of products.";
    ProductBatchBlockColumns "product.batch_block_columns" ELEMENTS, FigureKind::Count(64, 1 << 20), Used Unused, "Columns of a block of a batch of products.";
    ProductFanWeight "product.fan_weight" TIMES, FigureKind::Rate, Used Unused, "What a pass over the operand counts that more than twice as many cores share.";
    HostLink "host.link" GB_S, FigureKind::Rate, Needed Needed, "Rate of the link to the host.";
    Launch "host.launch" LAUNCH_UNITS, FigureKind::Rate, Used Unused, "What the host takes to launch a wave or a bundle of steps, before the card begins it; the unit says which.";
    LinkBandwidth "link.bandwidth" GB_S, FigureKind::Rate, Used Used, "Rate of a card's link to other cards, per direction.";
    LinkLatency "link.latency" MICROSECOND_UNITS, FigureKind::Rate, Used Used, "What a message between cards takes before its first byte arrives.";
    FirstToken "published.first_token" MILLISECOND_UNITS, FigureKind::Rate, Told Told, "Published time to the first token.";
    NextToken "published.next_token" MILLISECOND_UNITS, FigureKind::Rate, Told Told, "Published time of each further token.";
    TokenFloor "published.token_floor" MILLISECOND_UNITS, FigureKind::Rate, Told Told, "Time of a token at the memory's peak.";
}

impl Key {
    pub(crate) fn figure_row(self) -> &'static FigureRow {
        &ROWS[self as usize]
    }

    /// Its name in a preset: section and key.
    pub fn preset_path(self) -> &'static str {
        self.figure_row().path
    }

    /// Every figure, in the order they are listed.
    pub fn all_keys() -> impl Iterator<Item = Key> {
        ROWS.iter().map(|row| row.key)
    }
}
