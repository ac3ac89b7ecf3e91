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
const MILLISECOND_UNITS: &[(&str, u64)] = &[("ms", 1)];
const MICROSECOND_UNITS: &[(&str, u64)] = &[("us", 1)];
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
    HostLink "host.link" GB_S, FigureKind::Rate, Needed Needed, "Rate of the link to the host.";
    Launch "host.launch" MICROSECOND_UNITS, FigureKind::Rate, Used Unused, "What the host takes to launch a step, before the card begins it.";
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
