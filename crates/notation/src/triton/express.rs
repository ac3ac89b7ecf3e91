//! Writing a layout of the algebra as an attribute: the most specific one that has the same bases over the shape.
//!
//! Candidates are built and compared. The linear layout of the layout is proved equal to it, and a
//! candidate is the answer if its own bases over the shape equal those.

use super::attribute::{
    AmdMfma, BlockedEncoding, DimBases, NvidiaMma, NvmmaShared, PaddedShared, SwizzledShared,
    TensorMemory, TritonAttribute,
};
use super::distributed::matrix_order;
use crate::convert::{ConversionRefusal, not_expressible, without_window};
use crate::{WrittenLayout, linear};
use zellige_layout::{Axis, Layout, LinearLayout};

/// The attribute of a layout over a shape, or why there is none.
pub(super) fn express_as_triton(
    layout: &Layout,
    shape: &[i64],
) -> Result<String, ConversionRefusal> {
    // Padding is left out where that is possible; the gaps that remain may be those of padded shared memory.
    let elements = without_window(layout, shape, "an attribute has no padding");
    let layout = elements.as_deref().unwrap_or(layout);
    let bases = match linear::linear_of_layout(layout, shape) {
        Ok(bases) => bases,
        Err(refused) => {
            return express_padded_shared(layout, shape)
                .map_or(Err(refused), |found| Ok(found.to_string()));
        }
    };
    let dims: Vec<&str> = bases.in_dims().collect();
    let found = match dims.as_slice() {
        ["register", "lane", "warp", "block"] => express_distributed(&bases, shape),
        ["offset", "block"] => express_shared(&bases, shape),
        ["row", "col"] => express_tensor_memory(&bases, shape),
        _ => {
            let mut reason = format!("Triton has no layout over {}", dims.join(", "));
            if dims.contains(&"tx") {
                reason += "; it counts lanes and warps apart: write the layout on laneid and warpid, tx being laneid + 32 warpid";
            }
            return not_expressible(reason, None);
        }
    };
    // Triton refuses some attributes, such as those with only zero bases, so the candidate is parsed.
    let legal =
        |attribute: &TritonAttribute| super::parse_attribute(&attribute.to_string()).is_ok();
    match found.filter(legal) {
        Some(attribute) => Ok(attribute.to_string()),
        None => {
            let witness = find_non_unit_basis(&bases);
            let reason = match dims[0] {
                "row" => "no encoding of tensor memory has these bases",
                "offset" => {
                    "an attribute of shared memory has one place for every element, or copies in whole bits of its offsets"
                }
                _ => {
                    "an attribute for registers moves every bit of the index along one dimension, and here two meet by XOR"
                }
            };
            not_expressible(reason, witness)
        }
    }
}

/// Whether an attribute has these bases over the shape.
fn has_bases_over_shape(attribute: &TritonAttribute, bases: &LinearLayout, shape: &[i64]) -> bool {
    attribute.to_linear_layout(shape).is_ok_and(|found| found == *bases)
}

/// The flat index of an element whose index has several bits although its place has a single one.
fn find_non_unit_basis(bases: &LinearLayout) -> Option<i64> {
    let sizes: Vec<i64> = bases.out_sizes().map(|(_, s)| s).collect();
    let all = bases.bases_of_all_dims();
    let many = all
        .iter()
        .flat_map(|(_, b)| b)
        .find(|b| b.iter().map(|v| v.count_ones()).sum::<u32>() > 1)?;
    zellige_layout::flatten_coordinate(&sizes, many).ok()
}

/// Every order of up to 4 dimensions, the row-major one first.
fn dimension_orders(rank: usize) -> Vec<Vec<usize>> {
    let first = matrix_order(rank, true);
    let mut all = vec![first.clone()];
    // All orders of more dimensions would be hundreds of candidates, and such tensors have the
    // row-major order in practice.
    if rank > 4 {
        return all;
    }
    let mut stack = vec![Vec::new()];
    while let Some(prefix) = stack.pop() {
        if prefix.len() == rank && prefix != first {
            all.push(prefix);
            continue;
        }
        for d in (0..rank).filter(|d| !prefix.contains(d)) {
            let mut longer = prefix.clone();
            longer.push(d);
            stack.push(longer);
        }
    }
    all
}

fn express_distributed(bases: &LinearLayout, shape: &[i64]) -> Option<TritonAttribute> {
    let of = |name: &str| bases.bases(name);
    for order in dimension_orders(shape.len()) {
        let candidate = TritonAttribute::Blocked(blocked_candidate(bases, shape, order)?);
        if has_bases_over_shape(&candidate, bases, shape) {
            return Some(candidate);
        }
    }
    if let Some(found) =
        matrix_candidates(bases, shape).into_iter().find(|c| has_bases_over_shape(c, bases, shape))
    {
        return Some(found);
    }
    let unit = |b: &Vec<i64>| b.iter().map(|v| v.count_ones()).sum::<u32>() <= 1;
    let all: [DimBases; 4] = [of("register"), of("lane"), of("warp"), of("block")];
    let units = all.iter().flatten().next().is_some() && all.iter().flatten().all(unit);
    let attribute = TritonAttribute::Linear { bases: all, rank: shape.len() };
    (units && has_bases_over_shape(&attribute, bases, shape)).then_some(attribute)
}

/// The size of an in dimension along each tensor dimension. Bits with zero bases are past the shape; they
/// are counted along the dimension of the bit before them.
fn counts_per_dim(bases: &[Vec<i64>], order: &[usize], rank: usize) -> Option<Vec<i64>> {
    let mut counts = vec![1i64; rank];
    let mut at = order.first().copied();
    for basis in bases {
        at = basis.iter().position(|v| *v != 0).or(at);
        let count = counts.get_mut(at?)?;
        *count = count.checked_mul(2)?;
    }
    Some(counts)
}

/// The only blocked attribute of an order that can have these bases: as many threads and warps along a
/// dimension as the bases give, and per thread the elements below them.
fn blocked_candidate(
    bases: &LinearLayout,
    shape: &[i64],
    order: Vec<usize>,
) -> Option<BlockedEncoding> {
    let along = |name: &str, d: usize| -> Vec<i64> {
        bases.bases(name).iter().map(|b| b[d]).filter(|v| *v != 0).collect()
    };
    let count = |name: &str, d: usize| 1i64.checked_shl(u32::try_from(along(name, d).len()).ok()?);
    let threads_per_warp = counts_per_dim(&bases.bases("lane"), &order, shape.len())?;
    let warps_per_cta = counts_per_dim(&bases.bases("warp"), &order, shape.len())?;
    let mut size_per_thread = Vec::with_capacity(shape.len());
    for (d, extent) in shape.iter().enumerate() {
        let (lanes, warps) = (along("lane", d), along("warp", d));
        let lowest = lanes.iter().chain(&warps).min().copied();
        let per_cta = (extent / count("block", d)?).max(1);
        // If neither lanes nor warps run along the dimension, the attribute does not determine how many
        // registers belong to one thread's part; the first consecutive ones are taken.
        let own = along("register", d);
        let run = (0..own.len()).take_while(|k| own[*k] == 1i64 << k).count();
        let run = 1i64.checked_shl(u32::try_from(run).ok()?)?;
        size_per_thread.push(lowest.unwrap_or(run).clamp(1, per_cta));
    }
    let cga = cga_bases_of(bases, shape);
    Some(BlockedEncoding { size_per_thread, threads_per_warp, warps_per_cta, order, cga })
}

/// The CTAs of a cluster in units of what one holds: they take the high bits of every dimension.
fn cga_bases_of(bases: &LinearLayout, shape: &[i64]) -> DimBases {
    let blocks = bases.bases("block");
    let split = |d: usize| 1i64 << blocks.iter().filter(|b| b[d] != 0).count().min(62);
    let held: Vec<i64> =
        shape.iter().enumerate().map(|(d, size)| (size / split(d)).max(1)).collect();
    blocks.iter().map(|b| b.iter().zip(&held).map(|(v, size)| v / size).collect()).collect()
}

/// Results and operands of matrix instructions over these lanes, warps and CTAs; the most common come
/// first, because several may have the same bases.
fn matrix_candidates(bases: &LinearLayout, shape: &[i64]) -> Vec<TritonAttribute> {
    let rank = shape.len();
    let lanes = bases.in_size("lane").unwrap_or(1);
    let warps = bases.in_size("warp").unwrap_or(1);
    // A CTA takes the high bits of a dimension.
    let split =
        |d: usize| 1i64 << bases.bases("block").iter().filter(|b| b[d] != 0).count().min(62);
    let unit = |b: &Vec<i64>| (0..rank).map(|d| b[d] / (shape[d] / split(d)).max(1)).collect();
    let cga: DimBases = bases.bases("block").iter().map(unit).collect();
    let mut found = Vec::new();
    if !matches!(rank, 2 | 3) {
        return found;
    }
    for warps_per_cta in power_of_two_factorings(warps, rank) {
        let with_operands =
            |found: &mut Vec<TritonAttribute>, parent: TritonAttribute, widths: &[i64]| {
                found.push(parent.clone());
                for k_width in widths {
                    for op_idx in [0, 1] {
                        let parent = Box::new(parent.clone());
                        found.push(TritonAttribute::DotOp { op_idx, parent, k_width: *k_width });
                    }
                }
            };
        let nvidia = |version_major: i64, instr_shape: Vec<i64>| {
            TritonAttribute::NvidiaMma(NvidiaMma {
                version_major,
                version_minor: 0,
                warps_per_cta: warps_per_cta.clone(),
                cga: cga.clone(),
                instr_shape,
            })
        };
        if lanes == 32 {
            let instr = if rank == 2 { vec![16, 8] } else { vec![1, 16, 8] };
            with_operands(&mut found, nvidia(2, instr), &[1, 2, 4, 8]);
            // Several instructions of version 3 beside one another.
            if rank == 2 && warps_per_cta[0] % 4 == 0 {
                let sizes = [256, 128, 64, 32, 16, 8];
                found.extend(sizes.into_iter().map(|n| nvidia(3, vec![16, n, 16])));
            }
        }
        if lanes == 64 {
            for (instr, is_transposed) in [
                ([32, 32, 8], false),
                ([16, 16, 16], false),
                ([32, 32, 8], true),
                ([16, 16, 16], true),
            ] {
                let mfma = TritonAttribute::AmdMfma(AmdMfma {
                    version: 3,
                    warps_per_cta: warps_per_cta.clone(),
                    instr_shape: instr.to_vec(),
                    is_transposed,
                    cga: cga.clone(),
                    tiles_per_warp: vec![1; rank],
                    element_bit_width: 32,
                });
                with_operands(&mut found, mfma, &[4, 8, 1, 2, 16]);
            }
        }
    }
    found
}

/// Every way to write a power of two as a product, the first factors largest first.
fn power_of_two_factorings(product: i64, count: usize) -> Vec<Vec<i64>> {
    if count == 1 {
        return vec![vec![product]];
    }
    let mut all = Vec::new();
    for k in (0..=product.trailing_zeros()).rev() {
        let first = 1i64 << k;
        for mut rest in power_of_two_factorings(product / first, count - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

/// Shared memory as tensor cores read it, over these CTAs.
fn nvmma_shared_candidates(rank: usize, cga: &DimBases) -> Vec<TritonAttribute> {
    let mut found = Vec::new();
    for swizzling_byte_width in [128, 64, 32] {
        for element_bit_width in [16, 8, 32, 64] {
            for transposed in [false, true] {
                found.push(TritonAttribute::NvmmaShared(NvmmaShared {
                    swizzling_byte_width,
                    transposed,
                    element_bit_width,
                    fp4_padded: false,
                    cga: cga.clone(),
                    rank,
                }));
            }
        }
    }
    found
}

fn express_shared(bases: &LinearLayout, shape: &[i64]) -> Option<TritonAttribute> {
    let (offset, block) = (bases.bases("offset"), bases.bases("block"));
    let cga = cga_bases_of(bases, shape);
    for order in dimension_orders(shape.len()) {
        let cols = order.first().map_or(1, |d| shape[*d]);
        // The parameters are tried because several of them give one set of bases, and the smallest
        // are those that people write.
        for (vec, per_phase, max_phase) in swizzle_phase_parameters(cols, shape.len()) {
            let (order, cga) = (order.clone(), cga.clone());
            let candidate = SwizzledShared { vec, per_phase, max_phase, order, cga };
            let candidate = TritonAttribute::SwizzledShared(candidate);
            if has_bases_over_shape(&candidate, bases, shape) {
                return Some(candidate);
            }
        }
    }
    let tensor_core = nvmma_shared_candidates(shape.len(), &cga);
    if let Some(found) = tensor_core.into_iter().find(|c| has_bases_over_shape(c, bases, shape)) {
        return Some(found);
    }
    let attribute =
        TritonAttribute::SharedLinear { offset, block, alignment: 16, rank: shape.len() };
    has_bases_over_shape(&attribute, bases, shape).then_some(attribute)
}

/// Shared memory with padding: each bit of the offset has the address of a power of two plus the padding before it.
fn express_padded_shared(layout: &Layout, shape: &[i64]) -> Option<TritonAttribute> {
    let tile = layout.tile();
    let plain = layout.window().is_none() && layout.swizzle().is_none();
    if !plain || tile.axes() != [Axis::M] || tile.offset_on(Axis::M) != 0 {
        return None;
    }
    let (grouped, seps) = tile.group(shape).ok()?;
    // For every bit of the index its address, and its basis vector.
    let mut bits: Vec<(i64, Vec<i64>)> = Vec::new();
    for d in 0..shape.len() {
        let mut step = 1i64;
        for it in grouped.shard()[seps[d]..seps[d + 1]].iter().rev() {
            if it.extent < 1 || !it.extent.cast_unsigned().is_power_of_two() {
                return None;
            }
            for k in 0..it.extent.trailing_zeros() {
                let basis = (0..shape.len()).map(|e| if e == d { step << k } else { 0 }).collect();
                bits.push((it.stride.checked_mul(1i64 << k)?, basis));
            }
            step = step.checked_mul(it.extent)?;
        }
    }
    bits.sort();
    let mut padding: Vec<(i64, i64)> = Vec::new();
    for (k, (address, _)) in bits.iter().enumerate() {
        let offset = 1i64.checked_shl(u32::try_from(k).ok()?)?;
        let known: i64 = padding.iter().map(|(interval, pad)| offset / interval * pad).sum();
        // A jump beyond the padding that is known already must begin at this bit, so the list of
        // pads is forced.
        match address.checked_sub(offset)?.checked_sub(known)? {
            0 => {}
            pad if pad > 0 && pad.cast_unsigned().is_power_of_two() => padding.push((offset, pad)),
            _ => return None,
        }
    }
    if padding.is_empty() {
        return None;
    }
    let offset = bits.into_iter().map(|(_, basis)| basis).collect();
    let rank = shape.len();
    let found =
        TritonAttribute::PaddedShared(PaddedShared { padding, offset, block: Vec::new(), rank });
    let lowered = found.layout_over_shape(Some(shape)).ok()?;
    (lowered.find_difference(layout) == Ok(None)).then_some(found)
}

/// The parameters of a swizzle that differ over rows of that many columns.
fn swizzle_phase_parameters(cols: i64, rank: usize) -> Vec<(i64, i64, i64)> {
    let mut all = vec![(1, 1, 1)];
    if rank < 2 {
        return all;
    }
    for max_phase in [2, 4, 8, 16, 32] {
        for per_phase in [1, 2, 4, 8] {
            for vec in [1, 2, 4, 8, 16, 32, 64] {
                if vec < cols {
                    all.push((vec, per_phase, max_phase));
                }
            }
        }
    }
    all
}

fn express_tensor_memory(bases: &LinearLayout, shape: &[i64]) -> Option<TritonAttribute> {
    let [_, cols] = *shape else { return None };
    let scales = TritonAttribute::TensorMemoryScales { cga: Vec::new(), k_then_mn: false };
    if has_bases_over_shape(&scales, bases, shape) {
        return Some(scales);
    }
    for block_m in [128, 64] {
        for col_stride in [1, 2, 4] {
            for k in (0..=cols.trailing_zeros()).rev() {
                let candidate = TritonAttribute::TensorMemory(TensorMemory {
                    block_m,
                    block_n: 1 << k,
                    col_stride,
                    cga: Vec::new(),
                    two_ctas: false,
                    fp4_padded: false,
                });
                if has_bases_over_shape(&candidate, bases, shape) {
                    return Some(candidate);
                }
            }
        }
    }
    None
}
