//! Counts of what the accesses of a kernel touch: sectors of global memory, banks of shared memory.
//!
//! The interpreter runs the first block without data. Accesses that the lanes of a warp make at once are one access
//! of the hardware. It touches sectors of 32 bytes of global memory; of shared memory it needs a pass for every word
//! of the bank with the most words (CUDA C++ Programming Guide, "Device Memory Accesses").

use crate::description::{AddressSpace, BlockProgram};
use crate::interpret::{self, InterpretedMemory, ThreadAccess};
use crate::swizzle::count_passes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

/// All accesses of one kind in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessTotals {
    /// The memory that is accessed.
    pub space: AddressSpace,
    /// Whether it is written.
    pub store: bool,
    /// Bytes of each lane.
    pub bytes: u32,
    /// Accesses of whole warps.
    pub count: usize,
    /// Sectors of 32 bytes that they touch, or passes over the banks of shared memory.
    pub found: usize,
    /// The fewest that can transfer as many bytes.
    pub least: usize,
}

/// The accesses of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAccesses {
    /// By memory, direction and width.
    pub accesses: Vec<AccessTotals>,
    trace: Vec<ThreadAccess>,
}

/// The accesses of the first block of a part.
///
/// # Errors
/// An access that the interpreter refuses: a mistake of this crate.
pub fn analyze_first_block(
    part: &BlockProgram,
    readable: Range<i64>,
) -> Result<BlockAccesses, String> {
    // One block is enough: the others do the same at other addresses, and tiles at the edge of a tensor are few.
    let mut memory = InterpretedMemory {
        src: &[],
        dst: &mut [],
        written: &mut [],
        readable,
        low: (0, 0),
        dry: true,
    };
    let mut trace = Vec::new();
    interpret::interpret_block(part, 0, &mut memory, &mut |a| trace.push(a))?;
    let mut all: BTreeMap<(AddressSpace, bool, u32), AccessTotals> = BTreeMap::new();
    for warp in interpret::group_by_warp(&trace) {
        let ThreadAccess { space, store, bytes, .. } = warp[0];
        let lanes: Vec<i64> = warp.iter().map(|a| a.at).collect();
        let (found, least) = match space {
            AddressSpace::Shared => count_passes(&lanes, i64::from(bytes)),
            _ => count_sectors(&lanes, i64::from(bytes)),
        };
        let entry = all.entry((space, store, bytes)).or_insert(AccessTotals {
            space,
            store,
            bytes,
            count: 0,
            found: 0,
            least: 0,
        });
        entry.count += 1;
        entry.found += found;
        entry.least += least;
    }
    Ok(BlockAccesses { accesses: all.into_values().collect(), trace })
}

/// Sectors that the lanes of an access touch, and the fewest that hold as many bytes.
fn count_sectors(lanes: &[i64], bytes: i64) -> (usize, usize) {
    let touched: BTreeSet<i64> =
        lanes.iter().flat_map(|at| at.div_euclid(32)..=(at + bytes - 1).div_euclid(32)).collect();
    // Lanes that read the same bytes are served by one transfer.
    let distinct: BTreeSet<i64> = lanes.iter().copied().collect();
    let least = distinct.len() * usize::try_from(bytes).unwrap_or(1);
    (touched.len(), least.div_ceil(32))
}

impl AccessTotals {
    /// In one line.
    pub fn summary_line(&self) -> String {
        let (what, unit) = match (self.space, self.store) {
            (AddressSpace::Src, _) => ("source loads", "sectors of 32 bytes"),
            (AddressSpace::Dst, _) => ("destination stores", "sectors of 32 bytes"),
            (AddressSpace::Shared, true) => ("shared stores", "passes over the banks"),
            (AddressSpace::Shared, false) => ("shared loads", "passes over the banks"),
        };
        let free = match self.space {
            AddressSpace::Shared if self.found == self.least => ": no bank conflict",
            AddressSpace::Shared => ": bank conflicts",
            _ if self.found == self.least => ": coalesced",
            _ => "",
        };
        format!(
            "{} {what} of {} bytes a lane touch {} {unit}, {} would do{free}",
            self.count, self.bytes, self.found, self.least
        )
    }
}

impl BlockAccesses {
    /// The first warp drawn: the rows of adjacent bytes that its first accesses touch, and the thread that fills each
    /// 16 bytes of the first lines of shared memory.
    pub fn draw_first_warp(&self) -> String {
        let mut text = String::new();
        for (space, store, what) in [
            (AddressSpace::Src, false, "the first load of warp 0"),
            (AddressSpace::Dst, true, "the first store of warp 0"),
        ] {
            let mut warps = interpret::group_by_warp(&self.trace).into_iter();
            let warp =
                warps.find(|w| w[0].space == space && w[0].store == store && w[0].thread < 32);
            let Some(warp) = warp else { continue };
            let _ = writeln!(text, "{what}, {} bytes a lane:", warp[0].bytes);
            for (lanes, at, bytes) in adjacent_lane_runs(&warp) {
                let _ = writeln!(
                    text,
                    "  lanes {:>5}  |{}| bytes {at} to {}",
                    lanes,
                    draw_byte_bar(bytes),
                    at + bytes
                );
            }
        }
        let filled: BTreeMap<i64, u32> = self
            .trace
            .iter()
            .filter(|a| a.space == AddressSpace::Shared && a.store)
            .map(|a| (a.at, a.thread))
            .collect();
        if !filled.is_empty() {
            text.push_str("shared memory, a line of 32 banks each, and the thread that fills each 16 bytes:\n");
            // A skewed tile at the edge of the tensor has no first rows, so the drawing begins at the first line that is
            // filled.
            let first = filled.keys().next().map_or(0, |at| at / 128);
            for line in first..first + 12 {
                let cells: Vec<String> = (0..8)
                    .map(|c| match filled.get(&(line * 128 + c * 16)) {
                        Some(t) => format!("{t:>4}"),
                        None => "   .".into(),
                    })
                    .collect();
                let _ = writeln!(text, "  {:>5}  |{} |", line * 128, cells.join(""));
            }
        }
        text
    }
}

/// A bar with one mark for 16 bytes, at most 64 marks.
fn draw_byte_bar(bytes: i64) -> String {
    "#".repeat(usize::try_from((bytes + 15) / 16).unwrap_or(1).min(64))
}

/// Runs of lanes whose bytes follow one another: the numbers of the lanes, the first byte, the number of bytes.
fn adjacent_lane_runs(warp: &[ThreadAccess]) -> Vec<(String, i64, i64)> {
    let mut all: Vec<(u32, u32, i64, i64)> = Vec::new();
    for a in warp {
        match all.last_mut() {
            Some((_, last, at, bytes)) if *at + *bytes == a.at => {
                *last = a.thread % 32;
                *bytes += i64::from(a.bytes);
            }
            _ => all.push((a.thread % 32, a.thread % 32, a.at, i64::from(a.bytes))),
        }
    }
    all.into_iter().map(|(first, last, at, bytes)| (format!("{first}-{last}"), at, bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CudaProgram, Gpu, LaunchAlignment};
    use zellige_layout::{LaneAccessPattern as Lanes, Layout, TileLayout};
    use zellige_movement::{MoveDtypes, MovePlan, PaddingFill};

    /// Every vector of a tile is loaded once and put into shared memory once, without a conflict.
    #[test]
    fn vectors_of_a_tile_are_counted_once() {
        let layout = |stride: &[i64]| {
            Layout::from(TileLayout::from_strides(&[16384, 16384], stride, 0).expect("small"))
        };
        let (src, dst) = (layout(&[16384, 1]), layout(&[1, 16384]));
        let plan =
            MovePlan::between(&src, &dst, &[16384, 16384], PaddingFill::Leave).expect("a plan");
        let program =
            CudaProgram::new(&plan, MoveDtypes::Bytes(2), None, LaunchAlignment::FULL, &Gpu::H200)
                .expect("a kernel");
        let piece = &program.pieces()[0];
        assert_eq!(piece.kind, "tile");
        let block = analyze_first_block(&piece.part, program.readable_range()).expect("runs");
        let find = |space, store| {
            let all = &block.accesses;
            all.iter()
                .find(|a| a.space == space && a.store == store && a.bytes == 16)
                .expect("some")
        };
        let (read, put) = (find(AddressSpace::Src, false), find(AddressSpace::Shared, true));
        let vectors = 16384 * 16384 * 2 / 16 / usize::try_from(piece.part.blocks).expect("few");
        assert_eq!((read.count * 32, put.count * 32), (vectors, vectors));
        assert_eq!((read.found, put.found), (read.least, put.least));
    }

    /// Passes as the analysis of layouts counts them.
    #[test]
    fn passes_are_those_of_the_analysis_of_layouts() {
        for (rows, pitch, bits) in
            [(32, 32, 32), (32, 33, 32), (32, 64, 16), (16, 72, 16), (32, 128, 8), (16, 16, 64)]
        {
            let tile = TileLayout::from_strides(&[rows, pitch], &[pitch, 1], 0).expect("small");
            let layout = Layout::from(tile);
            let ours: Vec<i64> = (0..rows).map(|r| r * pitch * bits / 8).collect();
            let (found, _) = count_passes(&ours, bits / 8);
            let lanes = Lanes::Lanes((0..rows).map(|r| vec![r, 0]).collect());
            let theirs =
                layout.find_bank_conflicts(&[rows, pitch], bits, &lanes, 1).expect("small");
            let theirs: usize = theirs.phases.iter().map(|p| p.ways).sum();
            assert_eq!(found, theirs, "{rows} rows of {pitch} elements of {bits} bits");
        }
    }
}
