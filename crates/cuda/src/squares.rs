//! Transposes in registers: each thread loads a square of elements, transposes it, and stores it.
//!
//! The square has `V = 16 / width` rows of `V` elements. A thread loads each row of the square as 16 adjacent bytes of
//! the source, and stores each column as 16 adjacent bytes of the destination. A warp has 8 squares along the digit
//! that is adjacent in the source and 4 along the digit that is adjacent in the destination, so that it reads runs of
//! 128 bytes and writes runs of 64.

use crate::description::{
    AddressSpace, BlockProgram, KernelCond, KernelExpr, KernelStmt, TensorSide, VariableFrame,
    VectorRegister, guard_statements,
};
use crate::digits::{ByteDigit, ByteNest};
use crate::rows::{BLOCK_THREADS, decode_unit_number};

/// The squares of a warp along the digit that is adjacent in the source, and along the digit that is adjacent in the
/// destination; one for each of its 32 threads.
const WARP_SQUARES: (i64, i64) = (8, 4);
/// The warps of a block along the same digits: together `BLOCK_THREADS` threads.
const BLOCK_WARPS: (i64, i64) = (2, 4);

/// The two digits of a transpose: the one that is adjacent in the source, and the one that is adjacent in the
/// destination. None where the extent of one of them is not a multiple of `V`, where 16-byte accesses would not be aligned,
/// or where both are the same digit.
pub(crate) fn transposable_digits(all: &ByteNest) -> Option<(usize, usize)> {
    let width = i64::from(all.unit.src);
    // Conversions and padding act on single elements, so registers of 16 bytes would have to be unpacked. An element of
    // 16 bytes fills a register by itself, and there is nothing to transpose.
    if all.unit.convert.is_some() || all.limit.is_some() || width > 8 {
        return None;
    }
    let a = all.digits.iter().position(|d| d.src == width)?;
    let b = all.digits.iter().position(|d| d.dst == width)?;
    let vector = 16 / width;
    let whole = |i: usize| all.digits[i].range % vector == 0;
    let aligned = all.address_alignment(TensorSide::Src, &[a]) == 16
        && all.address_alignment(TensorSide::Dst, &[b]) == 16;
    (a != b && whole(a) && whole(b) && aligned).then_some((a, b))
}

/// The number of elements that a block moves along each of the two digits.
pub(crate) fn block_elements(width: u32) -> (i64, i64) {
    let vector = i64::from(16 / width);
    (WARP_SQUARES.0 * BLOCK_WARPS.0 * vector, WARP_SQUARES.1 * BLOCK_WARPS.1 * vector)
}

/// The program of the blocks that transpose squares along these digits.
pub(crate) fn describe_square_transpose(all: &ByteNest, (a, b): (usize, usize)) -> BlockProgram {
    let width = i64::from(all.unit.src);
    let vector = 16 / width;
    let (tile_a, tile_b) = block_elements(all.unit.src);
    let (da, db) = (all.digits[a], all.digits[b]);
    let tiles = |d: ByteDigit, tile: i64| ByteDigit {
        range: (d.range + tile - 1) / tile,
        src: d.src * tile,
        dst: d.dst * tile,
        weight: 0,
    };
    // Consecutive blocks write adjacent parts of the same destination rows: they run at about the same time, and complete
    // each other's cache lines.
    let mut outer = vec![tiles(db, tile_b), tiles(da, tile_a)];
    outer
        .extend(all.digits.iter().enumerate().filter(|(i, _)| *i != a && *i != b).map(|(_, d)| *d));
    let blocks =
        outer.iter().map(|d| i128::from(d.range)).product::<i128>() * all.table.len() as i128;
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);

    let mut frame = VariableFrame::default();
    let mut body = Vec::new();
    let thread = KernelExpr::Thread(i64::from(BLOCK_THREADS) - 1);
    let (lane, warp) = (&thread % 32, &thread / 32);
    let in_a = (&warp % BLOCK_WARPS.0 * WARP_SQUARES.0 + &lane % WARP_SQUARES.0) * vector;
    let in_b = (warp / BLOCK_WARPS.0 * WARP_SQUARES.1 + lane / WARP_SQUARES.0) * vector;
    let in_a = frame.bind_expression(&mut body, "a", in_a);
    let in_b = frame.bind_expression(&mut body, "b", in_b);
    let high = i64::try_from(blocks).unwrap_or(i64::MAX).saturating_sub(1);
    let number = KernelExpr::Block(high);
    let tile_of = |n: &KernelExpr, count: i64| n % count;
    // A square is inside the tensor or outside of it, never partly inside, because both ranges are multiples of `V`. So
    // one condition per square is enough.
    let inside = {
        let t_b = tile_of(&number, outer[0].range) * tile_b;
        let t_a = &number / outer[0].range % outer[1].range * tile_a;
        let fits = |d: ByteDigit, tile: i64, at: KernelExpr, within: &KernelExpr| {
            if d.range % tile == 0 {
                KernelCond::always_true()
            } else {
                KernelCond::less_than(at + within, d.range)
            }
        };
        fits(da, tile_a, t_a, &in_a).and_also(fits(db, tile_b, t_b, &in_b))
    };
    let place = decode_unit_number(&mut frame, &mut body, number, &outer, &all.table);
    let from = place.from + &in_a * da.src + &in_b * db.src;
    let to = place.to + &in_a * da.dst + &in_b * db.dst;
    let from = frame.bind_expression(&mut body, "from", from);
    let to = frame.bind_expression(&mut body, "to", to);
    // All rows are loaded before the first column is stored, so that V loads are in flight at the same time.
    let row = frame.new_variable("r", 0, vector - 1);
    let r = KernelExpr::Var(row.clone());
    let load = KernelStmt::Load {
        into: VectorRegister { array: 0, index: r.clone() },
        from: AddressSpace::Src,
        at: from + &r * db.src,
        bytes: 16,
        piece: 16,
    };
    let store = KernelStmt::Store {
        from: VectorRegister { array: 1, index: r.clone() },
        to: AddressSpace::Dst,
        at: to + &r * da.dst,
        bytes: 16,
        piece: 16,
    };
    let transpose = KernelStmt::Transpose { from: 0, into: 1, width: all.unit.src };
    body.extend(guard_statements(
        inside,
        vec![
            KernelStmt::For(row.clone(), vector, vec![load]),
            transpose,
            KernelStmt::For(row, vector, vec![store]),
        ],
    ));
    let tables = if all.table.len() > 1 {
        vec![all.table.iter().map(|t| t.0).collect(), all.table.iter().map(|t| t.1).collect()]
    } else {
        Vec::new()
    };
    let rows = u32::try_from(vector).unwrap_or(16);
    BlockProgram {
        title: vec![format!(
            "Squares of {vector} x {vector} elements of {width} bytes, transposed in registers."
        )],
        blocks,
        threads: BLOCK_THREADS,
        shared: 0,
        registers: vec![("v", rows), ("t", rows)],
        tables,
        body,
        slots: frame.slot_count(),
    }
}
