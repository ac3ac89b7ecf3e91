//! From attributes to linear layouts: shared memory and tensor memory.

use super::attribute::{DimBases, NvmmaShared, PartitionedShared, SwizzledShared, TensorMemory};
use super::distributed::{
    fit_cta_to_shape, identity_along_dim, order_out_dims, product_of_layouts, tensor_dim_name,
};
use zellige_layout::{LayoutError, LinearLayout};

type Result<T> = std::result::Result<T, LayoutError>;

/// The part of a shape that one CTA holds.
fn shape_per_cta(cga: &DimBases, shape: &[i64]) -> Vec<i64> {
    let split = |d: usize| {
        cga.iter().filter_map(|b| b.get(d)).fold(1i64, |n, v| n.max(v.saturating_mul(2)))
    };
    shape.iter().enumerate().map(|(d, size)| (size / split(d)).max(1)).collect()
}

/// Rows of the two fastest dimensions, each XORed by its phase; other dimensions after them. Rotating, the phase also
/// changes from one block of rows with all phases to the next.
pub(super) fn swizzled_shared_layout(
    s: &SwizzledShared,
    rotating: bool,
    shape: &[i64],
) -> Result<LinearLayout> {
    let held = shape_per_cta(&s.cga, shape);
    let parameter = |what: &'static str, value: i64| {
        let accepted = "a swizzle is linear where it is a power of two".to_string();
        match is_power_of_two(value) {
            true => Ok(value),
            false => Err(LayoutError::BadParameter { what, value, accepted }),
        }
    };
    // A swizzle needs rows; Triton ignores its parameters for vectors.
    if shape.len() < 2 {
        let cta =
            product_of_layouts(s.order.iter().map(|d| identity_along_dim("offset", held[*d], *d)))?;
        return fit_cta_to_shape(&cta, &s.cga, shape, None);
    }
    let vec = parameter("vec", s.vec)?;
    let (per_phase, max_phase) =
        (parameter("perPhase", s.per_phase)?, parameter("maxPhase", s.max_phase)?);
    let (col, row) = (s.order[0], s.order[1]);
    let (cols, rows) = (held[col], held[row]);
    let mut bases: DimBases = powers_of_two_below(cols).map(|c| vec![0, c]).collect();
    // `phase = (row / perPhase) % maxPhase` and XOR of `vec * phase` into the column, as
    // `TritonGPUAttrDefs.td` defines swizzled shared memory. Powers of two make both linear over
    // GF(2), so the rows 1, 2, 4, .. determine all others.
    for r in powers_of_two_below(rows) {
        let mut phase = (r / per_phase) % max_phase;
        if rotating {
            phase ^= r / max_phase / per_phase % max_phase;
        }
        bases.push(vec![r, vec.saturating_mul(phase) % cols]);
    }
    let ins = [("offset".to_string(), bases)];
    let rows =
        LinearLayout::new(&ins, &[(tensor_dim_name(row), rows), (tensor_dim_name(col), cols)])?;
    let others = s.order[2..].iter().map(|d| identity_along_dim("offset", held[*d], *d));
    let cta = product_of_layouts([Ok(rows)].into_iter().chain(others))?;
    fit_cta_to_shape(&cta, &s.cga, shape, None)
}

fn is_power_of_two(value: i64) -> bool {
    value > 0 && value.cast_unsigned().is_power_of_two()
}

/// 1, 2, 4, .. below a size.
fn powers_of_two_below(size: i64) -> impl Iterator<Item = i64> {
    (0..62).map(|k| 1i64 << k).take_while(move |p| *p < size)
}

/// The block of one bulk copy (PTX ISA, `cp.async.bulk.tensor`): at most 256 elements along a dimension,
/// and along the fastest one as wide as the swizzle.
fn bulk_copy_block(s: &NvmmaShared, held: &[i64]) -> Vec<i64> {
    let mut block: Vec<i64> = held.iter().map(|size| (*size).min(256)).collect();
    let packing = if s.fp4_padded { 2 } else { 1 };
    let inner = if s.transposed { 0 } else { held.len() - 1 };
    if s.swizzling_byte_width > 0 {
        let widest = 8 * s.swizzling_byte_width / s.element_bit_width / packing;
        block[inner] = block[inner].min(widest.max(1));
    }
    block
}

/// Shared memory as tensor cores and bulk copies read it: 8 rows as wide as the swizzle, XORed in units of
/// 16 bytes; then the rest of one copy's block, then the other blocks.
pub(super) fn nvmma_shared_layout(s: &NvmmaShared, shape: &[i64]) -> Result<LinearLayout> {
    if !is_power_of_two(s.element_bit_width) || s.element_bit_width > 128 {
        let accepted = "elements have 8, 16, 32 or 64 bits".to_string();
        let what = "the element width in bits";
        return Err(LayoutError::BadParameter { what, value: s.element_bit_width, accepted });
    }
    let held = shape_per_cta(&s.cga, shape);
    let rank = held.len();
    let block = bulk_copy_block(s, &held);
    let names: Vec<(String, i64)> =
        held.iter().enumerate().map(|(d, size)| (tensor_dim_name(d), *size)).collect();
    if s.swizzling_byte_width == 0 {
        let part = |i: usize| match (s.transposed, i) {
            (false, d) => identity_along_dim("offset", block[d], d),
            // Triton rotates the dimensions forth and not back. With two dimensions this has no effect.
            // With three, a dimension has offsets for the size of another one, and those past its own size
            // repeat elements. Its layouts are reproduced as they are.
            (true, 0) => identity_along_dim("offset", block[1 % rank], rank - 1),
            (true, i) => identity_along_dim("offset", block[(i + 1) % rank], i - 1),
        };
        let fastest_first: Vec<usize> = (0..rank).rev().collect();
        let cta = order_out_dims(&product_of_layouts((0..rank).rev().map(part))?, &fastest_first)?;
        return fit_cta_to_shape(&cta.ensure_not_smaller_than(&names)?, &s.cga, shape, None);
    }
    if rank < 2 {
        let accepted = "a swizzle needs rows and columns".to_string();
        let value = i64::try_from(rank).unwrap_or(i64::MAX);
        return Err(LayoutError::BadParameter {
            what: "the number of dimensions",
            value,
            accepted,
        });
    }
    // The last dimension is the columns and all others together are the rows; transposed, the last one is
    // the rows. Triton takes the numbers of rows and columns from the dimensions in the order of the
    // untransposed tensor, which matters for three or more dimensions.
    let inner = if s.transposed { 0 } else { rank - 1 };
    let outer: Vec<usize> =
        if s.transposed { (1..rank).collect() } else { (0..rank - 1).collect() };
    let others = block[..rank - 1].iter().fold(1i64, |n, size| n.saturating_mul(*size));
    let (rows, cols) =
        if s.transposed { (block[rank - 1], others) } else { (others, block[rank - 1]) };
    let tile = nvmma_core_matrix(s)?;
    let packing = if s.fp4_padded { 2 } else { 1 };
    let width = 8 * s.swizzling_byte_width / s.element_bit_width / packing;
    if rows < 8 || block[inner] < width {
        let (what, value, least) = if rows < 8 {
            ("the number of rows in shared memory", rows, 8)
        } else {
            ("the width of a row in shared memory", block[inner], width)
        };
        let accepted =
            format!("a swizzle of {} bytes needs {least} or more", s.swizzling_byte_width);
        return Err(LayoutError::BadParameter { what, value, accepted });
    }
    let flat = [("row".to_string(), rows), ("col".to_string(), cols)];
    let layout = tile.ensure_not_smaller_than(&flat)?.transpose_outs(&["col", "row"])?;
    // Rows are the other dimensions, the last of them fastest.
    let mut dims: Vec<(String, i64)> = vec![(tensor_dim_name(inner), block[inner])];
    dims.extend(outer.iter().rev().map(|d| (tensor_dim_name(*d), block[*d])));
    let all: Vec<usize> = (0..rank).collect();
    let cta =
        order_out_dims(&layout.reshape_outs(&dims)?, &all)?.ensure_not_smaller_than(&names)?;
    fit_cta_to_shape(&cta, &s.cga, shape, None)
}

/// 8 rows of the width of the swizzle. Packed 4-bit elements have 8 bytes of padding after every 8 bytes,
/// whose offsets repeat the elements before them.
fn nvmma_core_matrix(s: &NvmmaShared) -> Result<LinearLayout> {
    let unit = 128 / s.element_bit_width;
    let (per_phase, max_phase) = match s.swizzling_byte_width {
        // The hardware swizzles lines of 128 bytes. Rows of 32 or 64 bytes share a line, so their
        // phase changes only every 4 or 2 rows.
        32 => (4, 2),
        64 => (2, 4),
        _ => (1, 8),
    };
    let packed = |col: i64| if s.fp4_padded { col / 16 * 8 + col % 8 } else { col };
    let width = 8 * s.swizzling_byte_width / s.element_bit_width;
    let mut bases: DimBases = powers_of_two_below(width).map(|col| vec![0, packed(col)]).collect();
    for row in powers_of_two_below(8) {
        bases.push(vec![row, packed(unit * ((row / per_phase) % max_phase))]);
    }
    LinearLayout::with_inferred_sizes(
        &[("offset".to_string(), bases)],
        &["row".to_string(), "col".to_string()],
    )
}

/// Bases of offsets and blocks, which must be those of the shape.
pub(super) fn shared_bases_layout(
    offset: &DimBases,
    block: &DimBases,
    shape: &[i64],
) -> Result<LinearLayout> {
    let ins = [("offset".to_string(), offset.clone()), ("block".to_string(), block.clone())];
    let outs: Vec<(String, i64)> =
        shape.iter().enumerate().map(|(d, size)| (tensor_dim_name(d), *size)).collect();
    let names: Vec<String> = outs.iter().map(|(d, _)| d.clone()).collect();
    let own = LinearLayout::with_inferred_sizes(&ins, &names)?;
    let sizes: Vec<i64> = own.out_sizes().map(|(_, size)| size).collect();
    if sizes == shape {
        return Ok(own);
    }
    let reason = format!("the attribute is of the shape {sizes:?}, not {shape:?}");
    Err(LayoutError::LinearDims { call: "the shape of the tensor", reason })
}

/// Pieces along one dimension: neighbours in different partitions, and in each partition the pieces of all
/// groups one after the other.
pub(super) fn partitioned_shared_layout(
    p: &PartitionedShared,
    shape: &[i64],
    piece: impl Fn(&[i64]) -> Result<LinearLayout>,
) -> Result<LinearLayout> {
    let d = p.partition_dim;
    let pieces = p.num_partitions.saturating_mul(p.num_groups);
    if shape[d] < pieces {
        let accepted = format!("{pieces} pieces or more");
        let what = "the size of the dimension that is partitioned";
        return Err(LayoutError::BadParameter { what, value: shape[d], accepted });
    }
    let mut held = shape.to_vec();
    held[d] = shape[d] / pieces;
    let inner = piece(&held)?;
    if inner.in_size("block").is_some_and(|n| n > 1) {
        let reason = "how the pieces of several CTAs are partitioned".to_string();
        return Err(LayoutError::Undecided { reason });
    }
    let all: Vec<usize> = (0..shape.len()).collect();
    let parts = [
        Ok(inner),
        identity_along_dim("partition", p.num_partitions, d),
        identity_along_dim("offset", p.num_groups, d),
    ];
    order_out_dims(&product_of_layouts(parts)?, &all)?.transpose_ins(&[
        "offset",
        "partition",
        "block",
    ])
}

/// Tensor memory: 128 rows, or 64 of them in two halves of 16; then columns, then further blocks.
pub(super) fn tensor_memory_layout(t: &TensorMemory, shape: &[i64]) -> Result<LinearLayout> {
    if shape.len() != 2 {
        return Err(needs_two_dims(shape));
    }
    let held = shape_per_cta(&t.cga, shape);
    let (rows, cols) = (held[0], held[1]);
    let block_n = t.block_n.min(shape[1]).max(1);
    // Padded 4-bit elements use one byte each, so columns are twice as far apart.
    let apart = t.col_stride * if t.fp4_padded { 2 } else { 1 };
    let stride = LinearLayout::zeros_1d(apart, "col", "dim1", 1)?;
    let tile = if t.block_m == 64 && t.two_ctas && block_n > 1 {
        // A pair of CTAs stores the other half of the columns in the other 64 rows.
        let half = identity_along_dim("col", block_n / 2, 1);
        product_of_layouts([
            Ok(stride),
            identity_along_dim("row", 64, 0),
            half,
            identity_along_dim("row", 2, 1),
        ])?
    } else if t.block_m == 64 {
        let mut tile = product_of_layouts([
            Ok(stride),
            identity_along_dim("row", 16, 0),
            identity_along_dim("col", block_n, 1),
        ])?;
        // With 64 rows, the lanes from 16 on in each quarter hold another block below, one beside it, or nothing.
        if rows > 64 {
            // Lanes 16 to 31 hold the next block of 64 rows, so bit 6 of the row is bit 4 of the lane.
            tile = with_more_rows(&tile, vec![vec![64, 0], vec![16, 0], vec![32, 0]], 128)?;
        } else {
            let half = if cols > block_n {
                identity_along_dim("row", 2, 1)?
            } else {
                LinearLayout::zeros_1d(2, "row", "dim0", 1)?
            };
            tile = tile.direct_sum(&half)?.direct_sum(&identity_along_dim("row", 4, 0)?)?;
        }
        tile
    } else {
        product_of_layouts([
            Ok(stride),
            identity_along_dim("row", t.block_m, 0),
            identity_along_dim("col", block_n, 1),
        ])?
    };
    let tile = tile.transpose_ins(&["row", "col"])?.transpose_outs(&["dim0", "dim1"])?;
    let have = |d: &str| tile.out_size(d).unwrap_or(1);
    if rows < have("dim0") || cols < have("dim1") {
        let accepted = format!("a block holds {} by {}", have("dim0"), have("dim1"));
        return Err(LayoutError::BadParameter {
            what: "the number of rows of the tensor",
            value: rows,
            accepted,
        });
    }
    let cta = product_of_layouts([
        Ok(tile.clone()),
        identity_along_dim("col", rows / have("dim0"), 0),
        identity_along_dim("col", cols / have("dim1"), 1),
    ])?;
    repeat_over_cluster(cta, &t.cga, shape)
}

/// The same in the CTAs of a cluster, where there are several.
fn repeat_over_cluster(cta: LinearLayout, cga: &DimBases, shape: &[i64]) -> Result<LinearLayout> {
    if cga.is_empty() { Ok(cta) } else { fit_cta_to_shape(&cta, cga, shape, None) }
}

/// The same with more bases of `row`, in a tensor of that many rows.
fn with_more_rows(tile: &LinearLayout, more: DimBases, rows: i64) -> Result<LinearLayout> {
    let tile = tile.transpose_outs(&["dim0", "dim1"])?;
    let mut ins = tile.bases_of_all_dims();
    if let Some((_, bases)) = ins.iter_mut().find(|(name, _)| name == "row") {
        bases.extend(more);
    }
    let cols = tile.out_size("dim1").unwrap_or(1);
    LinearLayout::new(&ins, &[("dim0".to_string(), rows), ("dim1".to_string(), cols)])
}

fn needs_two_dims(shape: &[i64]) -> LayoutError {
    let value = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let accepted = "tensor memory has rows and columns".to_string();
    LayoutError::BadParameter { what: "the number of dimensions", value, accepted }
}

/// Block scales: 32 rows that all 4 quarters of tensor memory hold, 4 columns, 2 times 32 further rows;
/// then repeated.
pub(super) fn tensor_memory_scales_layout(
    cga: &DimBases,
    k_then_mn: bool,
    shape: &[i64],
) -> Result<LinearLayout> {
    if shape.len() != 2 {
        return Err(needs_two_dims(shape));
    }
    let held = shape_per_cta(cga, shape);
    let (rows, cols) = (held[0], held[1]);
    // The order of blocks along both dimensions at once is not known here, and a guess could be
    // wrong without anybody noticing.
    if k_then_mn && rows > 64 && cols > 4 {
        let reason = "blocks of scales in the order kThenMn, along both dimensions".to_string();
        return Err(LayoutError::Undecided { reason });
    }
    let tile = product_of_layouts([
        identity_along_dim("row", 32, 0),
        LinearLayout::zeros_1d(4, "row", "dim0", 1),
        identity_along_dim("col", 4, 1),
        identity_along_dim("col", 2, 0),
        identity_along_dim("col", (rows / 64).max(1), 0),
        identity_along_dim("col", (cols / 4).max(1), 1),
    ])?;
    let fitted = tile
        .ensure_not_larger_than(&[("dim0".to_string(), rows), ("dim1".to_string(), cols)], None)?;
    repeat_over_cluster(fitted, cga, shape)
}
