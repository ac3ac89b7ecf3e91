//! Bank conflicts of a register layout and a shared memory layout, and the shared memory layout between two register
//! layouts that has the fewest.
//!
//! Shared memory has 32 banks of 32 bits. A warp reads or writes vectors of up to 128 bits per lane; the
//! lanes that share one pass are those whose vectors make up 1024 bits. Two lanes of a pass conflict where
//! they touch one bank in different rows. As vector spaces over GF(2): with `segment` the tensor
//! coordinates that differ only in the row, and `tile` those of the lanes of a pass,
//! `2^dim(segment ∩ tile)` passes are needed instead of one. This is the method of Zhou et al., "Linear
//! Layouts: Robust Code Generation of Efficient Tensor Computation Using F2", which Triton's
//! `optimalSwizzling` implements.

use super::gf2::{Gf2Span, complement_basis, intersection_basis, rank_of_vectors};
use super::{InDim, LinearLayout};
use crate::error::{LayoutError, Result};

/// Bits of a row: 32 banks of 32 bits.
// The CUDA C++ Programming Guide: successive 32-bit words map to successive banks, and there are 32
// banks.
const ROW_BITS: u64 = 32 * 32;
/// Bits of one bank.
const BANK_BITS: u64 = 32;
/// The widest access of a lane, in bits.
const WIDEST_BITS: u64 = 128;

/// A shared memory layout between a store and a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSwizzle {
    /// From `vector`, `bank`, `segment`, `block` and `reps` to the tensor: the offset in shared memory from its low
    /// bits to its high ones. `reps` are rounds that may share the same memory.
    pub layout: LinearLayout,
    /// Extra passes of the store for each access.
    pub store_conflicts: i64,
    /// Extra passes of the load for each access.
    pub load_conflicts: i64,
}

/// Extra passes of each access between registers and shared memory, for elements of `bits` bits; accesses are as
/// wide as both layouts allow.
///
/// # Errors
/// Layouts without `register` and `lane`, or without `offset`; an element width that is not a power of two from 1 to
/// 128 bits; a shared memory layout that leaves out an element.
pub fn count_bank_conflicts(
    registers: &LinearLayout,
    shared: &LinearLayout,
    bits: i64,
) -> Result<i64> {
    let bits = checked_element_bits(bits)?;
    require_dims(registers, &["register", "lane"])?;
    require_dims(shared, &["offset"])?;
    let registers = registers.remove_zero_bases_along_dim("register")?;
    let across = registers.invert_and_compose(shared)?;
    let vector = log2_vector_elements(&across, bits);
    // Offsets of one row and of one vector, in elements.
    let row = (ROW_BITS / bits).max(1).trailing_zeros() as usize;
    let shared = registers.align_outs_of(shared)?;
    let offsets: Vec<u64> = shared.matrix_columns().collect();
    let segment = &offsets[row.min(offsets.len())..];
    let lanes = lanes_of_one_pass(registers.flat_bases("lane"), vector, bits);
    Ok(count_extra_passes(segment, lanes))
}

/// The shared memory layout for a store from `src` and a load to `dst`, of elements of `bits` bits, with
/// the fewest bank conflicts: its vectors are elements that both layouts keep in registers, and its rows
/// exchange elements that one of them keeps in lanes.
///
/// # Errors
/// As [`count_bank_conflicts`]; tensors of different shapes; layouts that do not reach every element;
/// blocks that differ.
pub fn find_optimal_swizzle(
    src: &LinearLayout,
    dst: &LinearLayout,
    bits: i64,
) -> Result<SharedSwizzle> {
    let bits = checked_element_bits(bits)?;
    for layout in [src, dst] {
        require_dims(layout, &["register", "lane"])?;
        if let Some(missing) = layout.uncovered_witness() {
            let reason = format!("a layout of registers never reaches {missing:?}");
            return Err(LayoutError::NotInvertible { reason });
        }
    }
    let src = src.remove_zero_bases_along_dim("register")?;
    let dst = src.align_outs_of(&dst.remove_zero_bases_along_dim("register")?)?;
    if src.flat_bases("block") != dst.flat_bases("block") {
        let reason = "a block reads what it wrote itself: the bases of `block` must be equal";
        return Err(LayoutError::LinearDims { call: "optimalSwizzling", reason: reason.into() });
    }
    let dim = src.out_bits();
    let block = src.flat_bases("block");
    // Bits are assigned in the order vector, block, segment, bank: only the first three constrain
    // each other, and the banks take what remains.
    let vector = choose_vector_bases(&src, &dst, bits, dim);
    let wide = vector.len();
    let tiles = [&src, &dst].map(|l| lanes_of_one_pass(l.flat_bases("lane"), wide, bits));
    let banked = tiles.map(|lanes| {
        let mut all: Vec<u64> = lanes.iter().copied().filter(|b| *b != 0).collect();
        all.retain(|b| !vector.contains(b));
        all
    });
    let in_row = (ROW_BITS / (bits << wide)).max(1).trailing_zeros() as usize;
    let fixed = rank_of_vectors(vector.iter().chain(block).copied());
    let left = (dim as usize).saturating_sub(fixed);
    let rows = left.saturating_sub(in_row.min(left));
    let mut held: Vec<u64> = vector.clone();
    held.extend(block);
    let segment = choose_segment_bases(&held, &banked, dim, rows);
    held.extend(&segment);
    let bank = complement_basis(&held, dim);
    // A row bit that both layouts keep in registers separates the conversion into rounds, which can reuse
    // the same memory one after the other.
    let (src_regs, dst_regs) = (src.flat_bases("register"), dst.flat_bases("register"));
    let (reps, segment): (Vec<u64>, Vec<u64>) =
        segment.iter().partition(|b| src_regs.contains(b) && dst_regs.contains(b));
    let conflicts = tiles.map(|lanes| count_extra_passes(&segment, lanes));
    let dims = [
        ("vector", vector),
        ("bank", bank),
        ("segment", segment),
        ("block", block.to_vec()),
        ("reps", reps),
    ];
    let ins = dims.map(|(name, bases)| InDim { name: name.into(), bases }).into();
    let layout = LinearLayout::from_flat_bases(ins, src.outs.clone())?;
    Ok(SharedSwizzle { layout, store_conflicts: conflicts[0], load_conflicts: conflicts[1] })
}

impl LinearLayout {
    /// The other layout with its out dimensions in the order of this one.
    fn align_outs_of(&self, other: &LinearLayout) -> Result<LinearLayout> {
        let order: Vec<&str> = self.out_dims().collect();
        let other = other.transpose_outs(&order)?;
        if self.outs == other.outs {
            return Ok(other);
        }
        let reason = "the tensors have different shapes".to_string();
        Err(LayoutError::LinearDims { call: "bank conflicts", reason })
    }
}

fn checked_element_bits(bits: i64) -> Result<u64> {
    match u64::try_from(bits) {
        Ok(b) if b.is_power_of_two() && b <= WIDEST_BITS => Ok(b),
        _ => {
            let accepted = "widths are powers of two from 1 to 128".to_string();
            Err(LayoutError::BadParameter {
                what: "the element width in bits",
                value: bits,
                accepted,
            })
        }
    }
}

fn require_dims(layout: &LinearLayout, dims: &[&str]) -> Result<()> {
    match dims.iter().find(|d| layout.in_size(d).is_none()) {
        None => Ok(()),
        Some(missing) => {
            let known = super::list_some_names(&layout.in_dims().collect::<Vec<_>>());
            let reason = format!("the layout has no dimension `{missing}`, only {known}");
            Err(LayoutError::LinearDims { call: "bank conflicts", reason })
        }
    }
}

/// Log2 of the elements that a lane moves at once: registers that are neighbours in shared memory, aligned.
fn log2_vector_elements(across: &LinearLayout, bits: u64) -> usize {
    let offset = across.out_dims().take_while(|d| *d != "offset");
    let at: u32 = offset.map(|d| across.out_size(d).unwrap_or(1).trailing_zeros()).sum();
    let registers = across.flat_bases("register");
    let most = (WIDEST_BITS / bits).trailing_zeros() as usize;
    let fits = |wide: usize| {
        let unit = |k: usize| 1u64 << (at as usize + k);
        let vector: Vec<u64> = (0..wide).map(unit).collect();
        let low: u64 = vector.iter().sum();
        let others = across.matrix_columns().filter(|b| !vector.contains(b));
        vector.iter().all(|v| registers.contains(v)) && others.fold(0, |all, b| all | b) & low == 0
    };
    (0..=most).rev().find(|w| fits(*w)).unwrap_or(0)
}

/// The lanes of one pass: if each lane moves more than one bank's width, fewer lanes fill a row.
fn lanes_of_one_pass(lanes: &[u64], vector: usize, bits: u64) -> &[u64] {
    let banks = ((bits << vector) / BANK_BITS).max(1).trailing_zeros() as usize;
    &lanes[..lanes.len().saturating_sub(banks)]
}

/// Extra passes: by the dimension formula, `dim(A ∩ B) = dim A + dim B - dim(A + B)`.
fn count_extra_passes(segment: &[u64], lanes: &[u64]) -> i64 {
    let (a, b) = (rank_of_vectors(segment.iter().copied()), rank_of_vectors(lanes.iter().copied()));
    let both = Gf2Span::from_vectors(segment.iter().chain(lanes).copied()).rank();
    (1i64 << (a + b - both)) - 1
}

/// The bases of a vector: those that both layouts keep in registers, up to 128 bits. Up to the width of one
/// bank also bases that one of them keeps in registers and the other does not keep in lanes, because
/// narrower vectors leave part of a bank unused.
fn choose_vector_bases(src: &LinearLayout, dst: &LinearLayout, bits: u64, dim: u32) -> Vec<u64> {
    let most = (WIDEST_BITS / bits).trailing_zeros() as usize;
    let bank = (BANK_BITS / bits.min(BANK_BITS)).trailing_zeros() as usize;
    let (a, b) = (src.flat_bases("register"), dst.flat_bases("register"));
    let block = src.flat_bases("block");
    let mut vector = intersection_basis(a, b, dim);
    vector.retain(|v| !block.contains(v));
    vector.truncate(most);
    let warps = |l: &LinearLayout| -> Vec<u64> {
        l.flat_bases("warp").iter().copied().filter(|v| *v != 0).collect()
    };
    let (wa, wb) = (warps(src), warps(dst));
    let fill = [
        intersection_basis(a, &wb, dim),
        intersection_basis(b, &wa, dim),
        intersection_basis(&wa, &wb, dim),
        wa,
        wb,
    ];
    let mut span = Gf2Span::from_vectors(vector.iter().chain(block).copied());
    for v in fill.into_iter().flatten() {
        if vector.len() < bank && !span.contains(v) {
            span.add_vector(v);
            vector.push(v);
        }
    }
    vector
}

/// The bases that change with the row. First those that neither layout keeps in the lanes of a pass; then
/// sums of a lane of one and a lane of the other, which neither of them reaches alone; then, where these
/// are too few, lanes, which conflict.
fn choose_segment_bases(held: &[u64], banked: &[Vec<u64>; 2], dim: u32, rows: usize) -> Vec<u64> {
    let mut span = Gf2Span::from_vectors(held.iter().copied());
    let mut segment = Vec::new();
    let mut take = |v: u64, segment: &mut Vec<u64>| {
        if segment.len() < rows && !span.contains(v) {
            span.add_vector(v);
            segment.push(v);
        }
    };
    let [a, b] = banked;
    for v in (0..dim).map(|k| 1u64 << k) {
        if !a.contains(&v) && !b.contains(&v) {
            take(v, &mut segment);
        }
    }
    let mut only_a: Vec<u64> = a.iter().copied().filter(|v| !b.contains(v)).collect();
    let mut only_b: Vec<u64> = b.iter().copied().filter(|v| !a.contains(v)).collect();
    only_a.sort_unstable();
    only_b.sort_unstable();
    if only_a.len() > only_b.len() {
        std::mem::swap(&mut only_a, &mut only_b);
    }
    // Each pair uses up one lane of both layouts, so some pairs are left out if the remaining rows need their lanes.
    let missing = rows.saturating_sub(segment.len());
    let given_up = missing.saturating_sub(only_a.len()).min(only_a.len());
    for (x, y) in only_a.iter().zip(&only_b).skip(given_up) {
        take(x ^ y, &mut segment);
    }
    for v in only_a.iter().chain(&only_b).chain(a).chain(b) {
        take(*v, &mut segment);
    }
    segment
}
