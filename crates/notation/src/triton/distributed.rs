//! From attributes to linear layouts: the tensors that threads hold.
//!
//! Every layout is a product of identities, from the innermost to the outermost: the elements of one
//! thread, the lanes of a warp, the warps of a CTA. [`fit_cta_to_shape`] fits that to a shape: registers
//! repeat it if the shape is larger, bits past the shape become broadcasts, and CTAs take the high bits of
//! every dimension. The constructions follow Triton's `LinearLayoutConversions.cpp`.

use super::attribute::{BlockedEncoding, DimBases, NvidiaMma};
use zellige_layout::{LayoutError, LinearLayout};

type Result<T> = std::result::Result<T, LayoutError>;

/// The name of a tensor dimension.
pub(super) fn tensor_dim_name(d: usize) -> String {
    format!("dim{d}")
}

/// One in dimension over several tensor dimensions, the first of `order` innermost.
pub(super) fn identity_nd(name: &str, sizes: &[i64], order: &[usize]) -> Result<LinearLayout> {
    broadcast_nd(name, sizes, order, None)
}

/// The same with zeros along one dimension, whose threads all hold the same elements.
pub(super) fn broadcast_nd(
    name: &str,
    sizes: &[i64],
    order: &[usize],
    along: Option<usize>,
) -> Result<LinearLayout> {
    let mut all = LinearLayout::empty();
    for d in order {
        let size = sizes.get(*d).copied().unwrap_or(1);
        let part = if along == Some(*d) {
            LinearLayout::zeros_1d(size, name, &tensor_dim_name(*d), 1)?
        } else {
            LinearLayout::identity_1d(size, name, &tensor_dim_name(*d))?
        };
        all = all.direct_sum(&part)?;
    }
    Ok(all)
}

/// Several products, from the inside out.
pub(super) fn product_of_layouts(
    parts: impl IntoIterator<Item = Result<LinearLayout>>,
) -> Result<LinearLayout> {
    parts.into_iter().try_fold(LinearLayout::empty(), |all, part| all.direct_sum(&part?))
}

/// One identity: `size` of an in dimension along a tensor dimension.
pub(super) fn identity_along_dim(name: &str, size: i64, d: usize) -> Result<LinearLayout> {
    LinearLayout::identity_1d(size, name, &tensor_dim_name(d))
}

/// The out dimensions in an order of tensor dimensions.
pub(super) fn order_out_dims(layout: &LinearLayout, order: &[usize]) -> Result<LinearLayout> {
    let names: Vec<String> = order.iter().map(|d| tensor_dim_name(*d)).collect();
    layout.transpose_outs(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The layout of one CTA fitted to a shape, with the CTAs of a cluster on the high bits of every dimension.
///
/// The out dimensions of `cta` are in the order in which it is repeated. `drop` names an in dimension whose
/// bits past the shape are removed instead of broadcast.
pub(super) fn fit_cta_to_shape(
    cta: &LinearLayout,
    cga: &DimBases,
    shape: &[i64],
    drop: Option<&str>,
) -> Result<LinearLayout> {
    let names: Vec<String> = (0..shape.len()).map(tensor_dim_name).collect();
    let labelled: Vec<(String, i64)> = names.iter().cloned().zip(shape.iter().copied()).collect();
    let order: Vec<&str> = cta.out_dims().collect();
    let blocks = LinearLayout::with_inferred_sizes(&[("block".to_string(), cga.clone())], &names)?
        .ensure_not_larger_than(&labelled, None)?
        .transpose_outs(&order)?;
    // A CTA has the low bits: its part of a dimension is what the cluster leaves.
    let part = |(name, size): &(String, i64)| {
        let split = blocks.out_size(name).unwrap_or(1);
        (name.clone(), (size / split).max(1))
    };
    let per_cta: Vec<(String, i64)> = labelled.iter().map(part).collect();
    let whole = cta
        .ensure_not_smaller_than(&per_cta)?
        .ensure_not_larger_than(&per_cta, drop)?
        .direct_sum(&blocks)?;
    whole.transpose_outs(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The dimensions of a matrix, or of a batch of them, fastest first: along rows, or along columns.
pub(super) fn matrix_order(rank: usize, row_major: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).rev().collect();
    if !row_major && rank >= 2 {
        order.swap(0, 1);
    }
    order
}

/// The dimensions of an operand, K fastest.
pub(super) fn operand_order(op_idx: usize, rank: usize) -> Vec<usize> {
    matrix_order(rank, op_idx == 0)
}

/// The dimension along K of an operand.
pub(super) fn k_dim_of_operand(op_idx: usize, rank: usize) -> usize {
    if op_idx == 0 { rank.saturating_sub(1) } else { rank.saturating_sub(2) }
}

pub(super) fn blocked_layout(b: &BlockedEncoding, shape: &[i64]) -> Result<LinearLayout> {
    let cta = product_of_layouts([
        identity_nd("register", &b.size_per_thread, &b.order),
        identity_nd("lane", &b.threads_per_warp, &b.order),
        identity_nd("warp", &b.warps_per_cta, &b.order),
    ])?;
    // Only blocked layouts drop registers past a smaller shape; Triton keeps them for matrix
    // instructions, whose registers are fixed by the hardware.
    fit_cta_to_shape(&cta, &b.cga, shape, Some("register"))
}

/// The tile of a tensor core: `k_width` registers and 4 lanes along the inner dimension, 8 lanes along the outer one,
/// then registers to the rest of the tile.
fn mma_tile_layout(
    tile: &[i64],
    k_width: i64,
    (inner, outer): (usize, usize),
    repeat: &[usize],
) -> Result<LinearLayout> {
    let rest = |size: i64, by: i64| if size > by { size / by } else { 1 };
    product_of_layouts([
        identity_nd("register", &vec![1; tile.len()], repeat),
        identity_along_dim("register", k_width, inner),
        identity_along_dim("lane", 4, inner),
        identity_along_dim("lane", 8, outer),
        identity_along_dim("register", rest(tile[outer], 8), outer),
        identity_along_dim("register", rest(tile[inner], k_width * 4), inner),
    ])
}

pub(super) fn nvidia_mma_layout(m: &NvidiaMma, shape: &[i64]) -> Result<LinearLayout> {
    let rank = m.warps_per_cta.len();
    let tile = if m.version_major == 3 { &m.instr_shape[..2] } else { &m.instr_shape[..] };
    let order = matrix_order(rank, true);
    let tile = mma_tile_layout(tile, 2, (order[0], order[1]), &order)?;
    let warps = identity_nd("warp", &m.warps_per_cta, &matrix_order(rank, m.version_major != 3))?;
    let cta = tile.direct_sum(&order_out_dims(&warps, &order)?)?;
    fit_cta_to_shape(&cta, &m.cga, shape, None)
}

/// An operand of a tensor core instruction. Warps that divide the other dimension of the result are along K
/// here and hold the same elements, because each multiplies them by its own part of the other operand.
pub(super) fn nvidia_operand_layout(
    m: &NvidiaMma,
    op_idx: usize,
    k_width: i64,
    shape: &[i64],
) -> Result<LinearLayout> {
    let rank = m.warps_per_cta.len();
    let order = operand_order(op_idx, rank);
    let k = k_dim_of_operand(op_idx, rank);
    let mut tile = vec![1; rank];
    tile[order[1]] = if op_idx == 0 { 16 } else { 8 };
    tile[k] = k_width.saturating_mul(8);
    let tile = mma_tile_layout(&tile, k_width, (order[0], order[1]), &order)?;
    // Version 3 (wgmma) numbers warps along M first, because a warpgroup is four warps along M.
    let warp_order = matrix_order(rank, m.version_major != 3);
    let warps = broadcast_nd("warp", &m.warps_per_cta, &warp_order, Some(k))?;
    let cta = tile.direct_sum(&order_out_dims(&warps, &order)?)?;
    fit_cta_to_shape(&cta, &bases_without_dim(&m.cga, k), shape, None)
}

/// Bases with zeros along one dimension.
pub(super) fn bases_without_dim(bases: &DimBases, d: usize) -> DimBases {
    let zero = |basis: &Vec<i64>| {
        basis.iter().enumerate().map(|(e, v)| if e == d { 0 } else { *v }).collect()
    };
    bases.iter().map(zero).collect()
}

/// An operand of a product without tensor cores: every thread holds all of K for its part of the result.
/// Registers past a smaller shape are kept, and hold the same elements as others.
pub(super) fn blocked_operand_layout(
    b: &BlockedEncoding,
    op_idx: usize,
    shape: &[i64],
) -> Result<LinearLayout> {
    let k = k_dim_of_operand(op_idx, shape.len());
    // Without tensor cores each thread multiplies whole rows by whole columns, so it needs all of K.
    let mut registers = b.size_per_thread.clone();
    registers[k] = shape[k];
    let cta = product_of_layouts([
        identity_nd("register", &registers, &b.order),
        broadcast_nd("lane", &b.threads_per_warp, &b.order, Some(k)),
        broadcast_nd("warp", &b.warps_per_cta, &b.order, Some(k)),
    ])?;
    fit_cta_to_shape(&cta, &bases_without_dim(&b.cga, k), shape, None)
}

/// The parent's layout over a shape with one more dimension of size 1, without that dimension and without
/// the registers that were only along it.
pub(super) fn slice_parent_layout(
    parent: &LinearLayout,
    d: usize,
    rank: usize,
) -> Result<LinearLayout> {
    let kept: Vec<String> = (0..=rank).filter(|e| *e != d).map(tensor_dim_name).collect();
    let ins: Vec<&str> = parent.in_dims().collect();
    let outs: Vec<&str> = kept.iter().map(String::as_str).collect();
    let sub = parent.sublayout(&ins, &outs)?.remove_zero_bases_along_dim("register")?;
    let sizes: Vec<(String, i64)> =
        sub.out_sizes().enumerate().map(|(e, (_, size))| (tensor_dim_name(e), size)).collect();
    sub.reshape_outs(&sizes)
}

/// The bases themselves over a shape: registers repeat them, first along the dimension that their first
/// basis is on, then along the next.
pub(super) fn linear_bases_layout(bases: &[DimBases; 4], shape: &[i64]) -> Result<LinearLayout> {
    let names = ["register", "lane", "warp", "block"];
    let ins: Vec<(String, DimBases)> =
        names.iter().zip(bases).map(|(n, b)| ((*n).to_string(), b.clone())).collect();
    let dims: Vec<String> = (0..shape.len()).map(tensor_dim_name).collect();
    let written = LinearLayout::with_inferred_sizes(&ins, &dims)?;
    let mut order: Vec<usize> = Vec::new();
    for basis in &bases[0] {
        order.extend(basis.iter().position(|v| *v != 0).filter(|d| !order.contains(d)));
    }
    let rest: Vec<usize> = (0..shape.len()).rev().filter(|d| !order.contains(d)).collect();
    order.extend(rest);
    let labelled: Vec<(String, i64)> = dims.iter().cloned().zip(shape.iter().copied()).collect();
    let all: Vec<usize> = (0..shape.len()).collect();
    let whole = order_out_dims(&written, &order)?
        .ensure_not_smaller_than(&labelled)?
        .ensure_not_larger_than(&labelled, Some("register"))?;
    order_out_dims(&whole, &all)
}
