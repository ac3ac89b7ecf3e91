//! Scale factors of block-scaled matrix instructions in tensor memory (`tcgen05.mma` of Blackwell).
//!
//! Tensor memory has 128 lanes and 512 columns of 32-bit cells. An instruction reads the factors of 32 rows
//! from 32 lanes, and every quarter of the lanes holds a copy of them (PTX ISA, "Scale factor layouts" of
//! `tcgen05.mma`). `TCol` counts factors, so the factor at `TCol` `c` is in column `c / epc` and begins at
//! bit `c % epc * bits` of its cell, where `epc = 32 / bits` factors fit in a cell.

use zellige_layout::{AxisTable, Iter, Layout, LayoutError, Result, TileLayout};

/// Rows whose factors one block of lanes holds, and lanes from one copy to the next.
const ROWS_PER_BLOCK: i64 = 32;

/// Copies of every factor: one for each quarter of the 128 lanes.
const COPIES: i64 = 4;

/// Columns of tensor memory, of 32 bits each.
const MAX_COLUMNS: i64 = 512;

/// How many scale factors there are, and how instructions read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleFactors {
    /// Rows of the operand, a multiple of 32.
    pub rows: i64,
    /// Distinct factors of a row, a multiple of `sf_per_mma`.
    pub groups: i64,
    /// Bits of a factor: 8 for `float8_e8m0fnu` and `float8_e4m3fn`.
    pub bits: i64,
    /// Factors of a row that one instruction reads, in one cell: 4 for nvfp4, 2 for mxfp4, 1 for mxfp8.
    pub sf_per_mma: i64,
    /// Instructions in a row that read the same factors.
    pub reuse: i64,
    /// Stages of a pipeline, as the first dimension of the shape; none for a shape without it.
    pub pipe_depth: Option<i64>,
}

impl ScaleFactors {
    /// Factors of 8 bits, one for each instruction, each read once and without a pipeline.
    pub fn new(rows: i64, groups: i64) -> ScaleFactors {
        ScaleFactors { rows, groups, bits: 8, sf_per_mma: 1, reuse: 1, pipe_depth: None }
    }
}

/// A layout of scale factors, with the shape that it is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleFactorLayout {
    /// The layout, on `TLane` and `TCol`.
    pub layout: Layout,
    /// `[rows, groups * reuse]`, after the stages of a pipeline where it has these.
    pub shape: Vec<i64>,
    /// Elements per 32-bit cell that there is room for.
    pub epc: i64,
    /// Columns of 32 bits that all stages take together.
    pub columns: i64,
}

/// The layout of scale factors in tensor memory.
///
/// Element `(stage, row, j)` is the factor `g = j / (sf_per_mma * reuse) * sf_per_mma + j % sf_per_mma` of
/// its row: `sf_per_mma` neighbours belong to one instruction, and `reuse` instructions in a row read the
/// same ones. A cell holds `packed` neighbouring factors of a row: `sf_per_mma` times the largest power of
/// two with which `packed` is at most `epc` and every cell of a row holds as many. The factor is in the
/// lanes `row % 32 + 32 q` for `q` in `0..4`, at position `g % packed` of the column
/// `(stage * groups / packed + g / packed) * rows / 32 + row / 32`. Stages, cells and blocks of rows have
/// columns of their own, so two elements share a place only if they are the same factor.
///
/// ```
/// use zellige_notation::preset::{ScaleFactors, build_scale_factor_layout};
/// let nvfp4 = ScaleFactors { sf_per_mma: 4, ..ScaleFactors::new(128, 16) };
/// let found = build_scale_factor_layout(&nvfp4)?;
/// let text = zellige_notation::tirx::print_tirx(&found.layout);
/// assert_eq!(text, "S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]");
/// assert_eq!((found.epc, found.columns), (4, 16));
/// # Ok::<(), zellige_layout::LayoutError>(())
/// ```
pub fn build_scale_factor_layout(given: &ScaleFactors) -> Result<ScaleFactorLayout> {
    let ScaleFactors { rows, groups, bits, sf_per_mma, reuse, pipe_depth } = *given;
    check("bits", bits, bits > 0 && 32 % bits == 0, "a factor has 1, 2, 4, 8, 16 or 32 bits")?;
    let epc = 32 / bits;
    let whole = |count: i64, of: i64| count > 0 && count % of == 0;
    check("rows", rows, whole(rows, ROWS_PER_BLOCK), "rows are a multiple of 32, at least 32")?;
    check("sf_per_mma", sf_per_mma, sf_per_mma > 0 && epc % sf_per_mma == 0, &{
        format!("the factors that an instruction reads divide the {epc} of a cell")
    })?;
    check("groups", groups, whole(groups, sf_per_mma), &{
        format!("the factors of a row are a multiple of sf_per_mma, which is {sf_per_mma}")
    })?;
    check("reuse", reuse, reuse > 0, "1 or more instructions read a factor")?;
    let stages = pipe_depth.unwrap_or(1);
    check("pipe_depth", stages, stages > 0, "there are 1 or more stages")?;

    let blocks = rows / ROWS_PER_BLOCK;
    let mut packed = sf_per_mma;
    while packed < epc && groups % (2 * packed) == 0 {
        packed *= 2;
    }
    let cells = groups / packed;
    let columns = [cells, stages].iter().try_fold(blocks, |all, n| all.checked_mul(*n));
    let columns = columns.unwrap_or(i64::MAX);
    check("the number of columns", columns, columns <= MAX_COLUMNS, &{
        format!(
            "tensor memory has {MAX_COLUMNS} columns of 32 bits for the stages, cells and blocks of 32 rows"
        )
    })?;
    let width = groups.checked_mul(reuse).ok_or_else(|| LayoutError::overflow_of("the shape"))?;

    let axes = AxisTable::new();
    let (lane, column) = (axes.get("TLane")?, axes.get("TCol")?);
    let per_cell = blocks * epc;
    // If each factor is read once, the factors of a cell are consecutive elements and need one iter.
    let inner = if reuse == 1 { packed } else { sf_per_mma };
    let shard = [
        Iter::new(stages, cells * per_cell, column),
        Iter::new(blocks, epc, column),
        Iter::new(ROWS_PER_BLOCK, 1, lane),
        Iter::new(cells, per_cell, column),
        Iter::new(packed / inner, inner, column),
        Iter::new(reuse, 0, column),
        Iter::new(inner, 1, column),
    ];
    let shard = shard.into_iter().filter(|it| it.extent > 1).collect();
    let layout = TileLayout::new(shard, vec![Iter::new(COPIES, ROWS_PER_BLOCK, lane)], [])?;
    let shape = pipe_depth.into_iter().chain([rows, width]).collect();
    Ok(ScaleFactorLayout { layout: layout.into(), shape, epc, columns })
}

/// Refuses a count with what would be accepted.
fn check(what: &'static str, value: i64, fits: bool, accepted: &str) -> Result<()> {
    if fits {
        Ok(())
    } else {
        Err(LayoutError::BadParameter { what, value, accepted: accepted.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The cell and the position in it of every factor, filled as instructions read them: each reads
    /// a cell of every row, and a cell is filled with further factors of a row before the next begins.
    fn fill_cells(given: &ScaleFactors) -> BTreeMap<(i64, i64, i64), (i64, i64, i64)> {
        let per_cell = (1..=32 / given.bits)
            .rev()
            .find(|n| {
                let times = n / given.sf_per_mma;
                n % given.sf_per_mma == 0 && times & (times - 1) == 0 && given.groups % n == 0
            })
            .expect("one instruction");
        let (mut at, mut column) = (BTreeMap::new(), 0);
        for stage in 0..given.pipe_depth.unwrap_or(1) {
            for first in (0..given.groups).filter(|g| g % per_cell == 0) {
                for block in 0..given.rows / 32 {
                    for lane in 0..32 {
                        for k in 0..per_cell {
                            let factor = (stage, block * 32 + lane, first + k);
                            assert_eq!(at.insert(factor, (lane, column, k)), None);
                        }
                    }
                    column += 1;
                }
            }
        }
        at
    }

    fn small() -> Vec<ScaleFactors> {
        let mut all = Vec::new();
        for (bits, sf_per_mma) in
            [(8, 1), (8, 2), (8, 4), (4, 1), (4, 8), (16, 1), (16, 2), (32, 1), (1, 4)]
        {
            for rows in [32, 64, 96, 128, 256] {
                for times in 1..=8 {
                    for reuse in [1, 2, 3, 4] {
                        for pipe_depth in [None, Some(1), Some(2), Some(3)] {
                            let groups = times * sf_per_mma;
                            all.push(ScaleFactors {
                                rows,
                                groups,
                                bits,
                                sf_per_mma,
                                reuse,
                                pipe_depth,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    /// The factors of a row in the order in which instructions read them.
    fn read_order(given: &ScaleFactors) -> Vec<i64> {
        let mut order = Vec::new();
        for first in (0..given.groups).filter(|g| g % given.sf_per_mma == 0) {
            for _instruction in 0..given.reuse {
                order.extend(first..first + given.sf_per_mma);
            }
        }
        order
    }

    /// The (lane, column) pairs of an element.
    fn places_of(found: &ScaleFactorLayout, at: &[i64]) -> BTreeSet<(i64, i64)> {
        let axis = |name| AxisTable::new().get(name).expect("built in");
        let (lane, column) = (axis("TLane"), axis("TCol"));
        let places = found.layout.apply_to_coordinate(&found.shape, at).expect("inside");
        places.sorted_coordinates().iter().map(|p| (p.get(lane), p.get(column))).collect()
    }

    #[test]
    fn every_factor_is_where_instructions_read_it() {
        for given in small() {
            let found = build_scale_factor_layout(&given).expect("small");
            let cells = fill_cells(&given);
            let columns = cells.values().map(|(_, column, _)| column + 1).max();
            assert_eq!(columns, Some(found.columns), "{given:?}");
            let order = read_order(&given);
            let mut shape = vec![given.rows, given.groups * given.reuse];
            shape.splice(0..0, given.pipe_depth);
            assert_eq!(found.shape, shape);
            for ((stage, row, g), (lane, column, k)) in cells {
                // The first and the last lane of each block of rows.
                if ![0, 31].contains(&(row % 32)) {
                    continue;
                }
                let want: BTreeSet<(i64, i64)> =
                    (0..4).map(|q| (lane + 32 * q, column * found.epc + k)).collect();
                for (j, _) in (0..).zip(&order).filter(|(_, read)| **read == g) {
                    let mut at = vec![row, j];
                    at.splice(0..0, given.pipe_depth.map(|_| stage));
                    assert_eq!(places_of(&found, &at), want, "{given:?} {at:?}");
                }
            }
        }
    }

    /// Elements share a place only where instructions reuse a factor.
    #[test]
    fn factors_never_alias() {
        for given in small() {
            let found = build_scale_factor_layout(&given).expect("small");
            let injective = found.layout.is_injective().expect("small");
            assert_eq!(injective, given.reuse == 1, "{given:?}");
            assert_eq!(found.layout.count_used_places().expect("small"), {
                given.rows * given.groups * given.pipe_depth.unwrap_or(1) * 4
            });
        }
    }

    /// TVM's layouts: nvfp4, mxfp4 and mxfp8 with a factor for four instructions.
    #[test]
    fn layouts_of_the_documents_are_built() {
        let cases = [
            (
                ScaleFactors { sf_per_mma: 4, ..ScaleFactors::new(128, 16) },
                "S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]",
            ),
            (
                ScaleFactors { sf_per_mma: 2, ..ScaleFactors::new(128, 4) },
                "S[(4,32,4):(4@TCol,1@TLane,1@TCol)] + R[4:32@TLane]",
            ),
            (
                ScaleFactors { reuse: 4, ..ScaleFactors::new(128, 4) },
                "S[(4,32,4,4):(4@TCol,1@TLane,1@TCol,0@TCol)] + R[4:32@TLane]",
            ),
            // Three factors do not fill cells of four: each has a cell of its own.
            (ScaleFactors::new(32, 3), "S[(32,3):(1@TLane,4@TCol)] + R[4:32@TLane]"),
            // A stage begins where all cells of the one before end.
            (
                ScaleFactors { pipe_depth: Some(2), ..ScaleFactors::new(128, 8) },
                "S[(2,4,32,2,4):(32@TCol,4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]",
            ),
        ];
        for (given, text) in cases {
            let found = build_scale_factor_layout(&given).expect(text);
            let want = crate::parse(text, &AxisTable::new()).expect(text);
            let want = want.layout_over_shape(None).expect(text);
            assert_eq!(found.layout, want, "{given:?}");
        }
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let good = ScaleFactors { sf_per_mma: 2, ..ScaleFactors::new(128, 4) };
        let cases = [
            (ScaleFactors { bits: 6, ..good }, "bits is 6; a factor has 1, 2, 4, 8, 16 or 32 bits"),
            (ScaleFactors { rows: 48, ..good }, "rows is 48; rows are a multiple of 32"),
            (ScaleFactors { rows: 0, ..good }, "rows is 0; "),
            (
                ScaleFactors { groups: 5, ..good },
                "groups is 5; the factors of a row are a multiple",
            ),
            (ScaleFactors { groups: 0, ..good }, "groups is 0; "),
            (ScaleFactors { sf_per_mma: 3, ..good }, "sf_per_mma is 3; the factors that an "),
            (ScaleFactors { sf_per_mma: 8, groups: 8, ..good }, "sf_per_mma is 8; "),
            (ScaleFactors { reuse: 0, ..good }, "reuse is 0; "),
            (ScaleFactors { pipe_depth: Some(0), ..good }, "pipe_depth is 0; "),
            (
                ScaleFactors { rows: 32 * 513, ..good },
                "the number of columns is 513; tensor memory",
            ),
            (ScaleFactors { pipe_depth: Some(i64::MAX), ..good }, "the number of columns is "),
            (
                ScaleFactors { rows: i64::MAX - 31, groups: 1 << 62, ..good },
                "the number of columns",
            ),
            (ScaleFactors { reuse: i64::MAX, ..good }, "the shape does not fit in 64 bits"),
        ];
        for (given, begin) in cases {
            let why = build_scale_factor_layout(&given).expect_err(begin).to_string();
            assert!(why.starts_with(begin), "{why}");
        }
    }
}
