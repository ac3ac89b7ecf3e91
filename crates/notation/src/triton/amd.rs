//! From attributes to linear layouts: the matrix instructions of AMD, as Triton's
//! `LinearLayoutConversions.cpp` builds them and AMD's instruction set architecture guides define them.

use super::attribute::{AmdMfma, AmdWmma};
use super::distributed::{
    bases_without_dim, broadcast_nd, fit_cta_to_shape, identity_along_dim, identity_nd,
    k_dim_of_operand, matrix_order, operand_order, order_out_dims, product_of_layouts,
    tensor_dim_name,
};
use zellige_layout::{LayoutError, LinearLayout};

type Result<T> = std::result::Result<T, LayoutError>;

/// Lanes of a wave of CDNA.
const CDNA_WAVE: i64 = 64;
/// Lanes of a wave of RDNA.
const RDNA_WAVE: i64 = 32;
/// Rows and columns of the least matrix of RDNA.
const WMMA_TILE: i64 = 16;

/// The result of a matrix instruction of CDNA: each lane holds 4 rows (1 for 64-bit elements) of a column,
/// lanes run along columns and then rows, and further registers along the rest of the tile; transposed,
/// rows and columns are exchanged.
pub(super) fn mfma_result_layout(m: &AmdMfma, shape: &[i64]) -> Result<LinearLayout> {
    let rank = m.warps_per_cta.len();
    let (row, col) = (rank - 2, rank - 1);
    let (rows, cols) = (m.instr_shape[0], m.instr_shape[1]);
    if (rows, cols) == (64, 4) && !m.is_transposed {
        let accepted = "the result of the instruction of 64 by 4 is transposed".to_string();
        return Err(LayoutError::BadParameter { what: "isTransposed", value: 0, accepted });
    }
    let held = if m.element_bit_width == 64 { 1 } else { 4 };
    let (long, wide, lanes) = if m.is_transposed { (col, row, rows) } else { (row, col, cols) };
    let tiles = (rows * cols / (CDNA_WAVE * held)).max(1);
    let tile = product_of_layouts([
        identity_along_dim("register", held, long),
        identity_along_dim("lane", lanes, wide),
        identity_along_dim("lane", CDNA_WAVE / lanes, long),
        identity_along_dim("register", tiles, long),
    ])?;
    let mut order = matrix_order(rank, true);
    order.truncate(2);
    let tile = order_out_dims(&tile, &order)?;
    let (tiles_m, tiles_n) = (m.tiles_per_warp[row], m.tiles_per_warp[col]);
    let (warps_m, warps_n) = (m.warps_per_cta[row], m.warps_per_cta[col]);
    // Tiles repeat along the whole row of the tensor before they repeat along its columns, even if several
    // CTAs share the row. Triton does so, and the order of registers depends on it.
    let width = shape[col];
    let wide = cols.saturating_mul(warps_n).saturating_mul(tiles_n);
    let mut parts = vec![
        Ok(tile),
        identity_along_dim("register", tiles_n, col),
        identity_along_dim("warp", warps_n, col),
        identity_along_dim("register", (width / wide).max(1), col),
        identity_along_dim("register", tiles_m, row),
        identity_along_dim("warp", warps_m, row),
    ];
    if rank == 3 {
        parts.extend([
            identity_along_dim("register", 1, 0),
            identity_along_dim("lane", 1, 0),
            identity_along_dim("warp", m.warps_per_cta[0], 0),
        ]);
    }
    fit_cta_to_shape(&product_of_layouts(parts)?, &m.cga, shape, None)
}

/// An operand of a matrix instruction of CDNA: `k_width` registers along K, lanes across K and then along it.
pub(super) fn mfma_operand_layout(
    m: &AmdMfma,
    op_idx: usize,
    k_width: i64,
    shape: &[i64],
) -> Result<LinearLayout> {
    let rank = m.warps_per_cta.len();
    let order = operand_order(op_idx, rank);
    let (k, other) = (order[0], order[1]);
    let (rows, cols) = (m.instr_shape[0], m.instr_shape[1]);
    let lanes = if op_idx == 0 { rows } else { cols };
    let mut parts = vec![
        identity_along_dim("register", k_width, k),
        identity_along_dim("lane", lanes, other),
        identity_along_dim("lane", (CDNA_WAVE / lanes).max(1), k),
    ];
    let mut depth = k_width.saturating_mul((CDNA_WAVE / lanes).max(1));
    // For the 64x4 and 4x64 instructions, the operand with 64 rows or columns is 16 times as deep.
    if (rows, cols, op_idx) == (64, 4, 0) || (rows, cols, op_idx) == (4, 64, 1) {
        parts.push(identity_along_dim("register", 16, k));
        depth = depth.saturating_mul(16);
    }
    if shape[k] > depth {
        parts.push(identity_along_dim("register", shape[k] / depth, k));
    }
    parts.push(identity_along_dim("register", m.tiles_per_warp[other], other));
    let tile = order_out_dims(&product_of_layouts(parts)?, &order[..2])?;
    let mut all = vec![Ok(tile)];
    if rank == 3 {
        all.extend([identity_along_dim("register", 1, 0), identity_along_dim("lane", 1, 0)]);
    }
    let warps = broadcast_nd("warp", &m.warps_per_cta, &matrix_order(rank, true), Some(k))?;
    all.push(order_out_dims(&warps, &order));
    // CTAs along K hold different elements here; for operands of other instructions Triton broadcasts them.
    fit_cta_to_shape(&product_of_layouts(all)?, &m.cga, shape, None)
}

/// Registers and warps beyond one instruction, in units of it: the out dimensions in `order`. `zero` is the
/// dimension K of an operand.
fn wmma_cta_layout(m: &AmdWmma, order: &[usize], zero: Option<usize>) -> Result<LinearLayout> {
    // Warps along K hold the same elements, and registers along K belong to the instruction itself, so
    // neither is repeated.
    let along = |b: &Vec<i64>| zero.is_some_and(|d| b[d] != 0);
    let registers = m.cta_register.iter().filter(|b| !along(b)).cloned().collect();
    let warps = zero.map_or_else(|| m.cta_warp.clone(), |d| bases_without_dim(&m.cta_warp, d));
    let names: Vec<String> = (0..m.rank).map(tensor_dim_name).collect();
    let ins = [
        ("register".to_string(), registers),
        ("lane".to_string(), Vec::new()),
        ("warp".to_string(), warps),
    ];
    order_out_dims(&LinearLayout::with_inferred_sizes(&ins, &names)?, order)
}

/// The result of a matrix instruction of RDNA: 8 registers and 2 groups of lanes along the rows, 16 lanes along the
/// columns; in version 1 the groups of lanes alternate rows. Instructions of 32 rows have two such matrices.
pub(super) fn wmma_result_layout(m: &AmdWmma, shape: &[i64]) -> Result<LinearLayout> {
    let (row, col) = (m.rank - 2, m.rank - 1);
    let (long, wide) = if m.is_transpose { (col, row) } else { (row, col) };
    let tiles = m.instr_shape[0] / WMMA_TILE;
    let groups = RDNA_WAVE / WMMA_TILE;
    let held = WMMA_TILE / groups;
    let tile = match m.version {
        1 => product_of_layouts([
            identity_along_dim("lane", WMMA_TILE, wide),
            identity_along_dim("lane", groups, long),
            identity_along_dim("register", held, long),
        ])?,
        _ => product_of_layouts([
            identity_along_dim("register", held, long),
            identity_along_dim("lane", WMMA_TILE, wide),
            identity_along_dim("lane", groups, long),
            identity_along_dim("register", tiles, long),
        ])?,
    };
    let tile = tile.transpose_ins(&["register", "lane"])?;
    let order = matrix_order(m.rank, true);
    let batch = if m.rank == 3 {
        identity_nd("register", &[1, 1, 1], &[0])?
    } else {
        LinearLayout::empty()
    };
    let tile = order_out_dims(&tile.direct_sum(&batch)?, &order)?;
    let cta = tile.direct_sum(&wmma_cta_layout(m, &order, None)?)?;
    fit_cta_to_shape(&cta, &m.cga, shape, None)
}

/// An operand of a matrix instruction of RDNA: `k_width` registers along K, 16 lanes across it, then the
/// other lanes along it; in version 1 those hold the same.
pub(super) fn wmma_operand_layout(
    m: &AmdWmma,
    op_idx: usize,
    k_width: i64,
    shape: &[i64],
) -> Result<LinearLayout> {
    let order = operand_order(op_idx, m.rank);
    let (k, other) = (order[0], order[1]);
    let depth = RDNA_WAVE / WMMA_TILE;
    // A transposed instruction computes the transposed product, so its rows belong to the right operand.
    let across = m.instr_shape[usize::from((op_idx == 0) == m.is_transpose)];
    let groups = if m.version == 1 {
        LinearLayout::zeros_1d(depth, "lane", &tensor_dim_name(k), 1)
    } else {
        identity_along_dim("lane", depth, k)
    };
    let reached = k_width.saturating_mul(depth);
    let tile = product_of_layouts([
        identity_along_dim("register", k_width, k),
        identity_along_dim("lane", WMMA_TILE, other),
        groups,
        identity_along_dim("register", (m.instr_shape[2] / reached.max(1)).max(1), k),
        identity_along_dim("register", across / WMMA_TILE, other),
    ])?;
    let batch = if m.rank == 3 {
        identity_nd("register", &[1, 1, 1], &[0])?
    } else {
        LinearLayout::empty()
    };
    let repeat = matrix_order(m.rank, true);
    let repeat = if op_idx == 0 { repeat } else { order.clone() };
    let tile = order_out_dims(&tile.direct_sum(&batch)?, &repeat)?;
    let kk = k_dim_of_operand(op_idx, m.rank);
    let cta = tile.direct_sum(&wmma_cta_layout(m, &repeat, Some(kk))?)?;
    fit_cta_to_shape(&cta, &bases_without_dim(&m.cga, kk), shape, None)
}
