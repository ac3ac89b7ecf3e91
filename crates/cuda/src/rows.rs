//! Rows that are adjacent on both sides, single elements and fills: one thread loads and stores a unit.
//!
//! Threads follow the destination, so that neighbouring threads write neighbouring units. A thread has several units
//! in flight before it stores the first.

use crate::description::TensorSide;
use crate::description::{
    AddressSpace, BlockProgram, KernelCond, KernelExpr, KernelStmt, MoveElement, VariableFrame,
    VectorRegister, guard_statements,
};
use crate::digits::{ByteDigit, ByteNest, repeat_fill};

/// Threads of a block of every kernel. Not recorded beside other numbers.
pub(crate) const BLOCK_THREADS: u32 = 256;

/// The part that copies units one by one, `flight` of them in flight in each thread. Where `fill` is given, the kernel
/// writes that and reads nothing.
pub(crate) fn describe_unit_copies(
    all: &ByteNest,
    flight: u32,
    fill: Option<&[u8]>,
) -> BlockProgram {
    let (digits, unit, count) = vectors_per_thread(all);
    let total = digits.unit_count();
    let per_block = i128::from(BLOCK_THREADS * flight);
    let blocks = total.div_euclid(per_block) + i128::from(total.rem_euclid(per_block) > 0);
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
    let most = i64::try_from(total.min(i128::from(i64::MAX))).unwrap_or(i64::MAX);

    let mut frame = VariableFrame::default();
    let mut body = Vec::new();
    let high = i64::try_from(blocks).unwrap_or(i64::MAX).saturating_sub(1);
    let first = KernelExpr::Block(high) * i64::from(BLOCK_THREADS * flight)
        + KernelExpr::Thread(i64::from(BLOCK_THREADS) - 1);
    let first = frame.bind_expression(&mut body, "first", first);
    let mut tables = Vec::new();
    // A unit wider than its alignment is loaded and stored in pieces, so that unaligned elements can be moved too.
    let piece = |side| digits.address_alignment(side, &[]);
    let [src_piece, dst_piece] =
        [unit.src.min(piece(TensorSide::Src)), unit.dst.min(piece(TensorSide::Dst))];
    let (bytes_in, bytes_out) = (unit.src, unit.dst);
    let reg = |array: usize, index: &KernelExpr| VectorRegister { array, index: index.clone() };

    if digits.table.len() > 1 {
        tables = vec![
            digits.table.iter().map(|t| t.0).collect(),
            digits.table.iter().map(|t| t.1).collect(),
        ];
    }
    let each = |frame: &mut VariableFrame,
                then: &dyn Fn(&KernelExpr, UnitAddress) -> Vec<KernelStmt>| {
        let u = frame.new_variable("u", 0, i64::from(flight) - 1);
        let mut inside = Vec::new();
        // The units of a thread are a block's width apart, so that the lanes of a warp access adjacent units each time.
        let at = &first + KernelExpr::Var(u.clone()) * i64::from(BLOCK_THREADS);
        let at = frame.bind_expression(&mut inside, "i", at);
        let mut one = Vec::new();
        let place = decode_unit_number(frame, &mut one, at.clone(), &digits.digits, &digits.table);
        one.extend(then(&KernelExpr::Var(u.clone()), place));
        inside.extend(guard_statements(KernelCond::less_than(at, most), one));
        KernelStmt::For(u, i64::from(flight), inside)
    };
    let store = |from: VectorRegister, at: KernelExpr| KernelStmt::Store {
        from,
        to: AddressSpace::Dst,
        at,
        bytes: bytes_out,
        piece: dst_piece,
    };
    // A statement for data, or the padding value where the position is behind the end of the data.
    let either = |place: &UnitAddress, data: KernelStmt, padding: VectorRegister| match digits.limit
    {
        Some(limit) => {
            let inside = KernelCond::less_than(place.count.clone(), limit.end);
            vec![KernelStmt::If(inside, vec![data], vec![KernelStmt::Set(padding, limit.fill)])]
        }
        None => vec![data],
    };
    if let Some(value) = fill {
        let constant = reg(0, &KernelExpr::Int(0));
        body.push(KernelStmt::Set(constant.clone(), repeat_fill(value)));
        body.push(each(&mut frame, &|_, place| vec![store(constant.clone(), place.to)]));
    } else {
        // All loads of a thread come before its stores in the text: the compiler may not move a load over a store that
        // could write what it reads.
        body.push(each(&mut frame, &|u, place| {
            let (into, from, at) = (reg(0, u), AddressSpace::Src, place.from.clone());
            let load = KernelStmt::Load {
                into: into.clone(),
                from,
                at,
                bytes: bytes_in,
                piece: src_piece,
            };
            either(&place, load, into)
        }));
        body.push(each(&mut frame, &|u, place| {
            let from = reg(0, u);
            if all.unit.convert.is_none() {
                return vec![store(from, place.to)];
            }
            let into = reg(1, &KernelExpr::Int(0));
            let convert = KernelStmt::Convert { from, into: into.clone(), count, kind: all.unit };
            let mut body = either(&place, convert, into.clone());
            body.push(store(into, place.to));
            body
        }));
    }
    let mut registers = vec![("v", if fill.is_some() { 1 } else { flight })];
    if all.unit.convert.is_some() && fill.is_none() {
        registers.push(("converted", 1));
    }
    let title = if fill.is_some() {
        format!("Fills {total} units of {bytes_out} bytes.")
    } else {
        format!(
            "Copies {total} units of {bytes_in} bytes, {flight} of them in flight in each thread."
        )
    };
    let mut title = vec![title];
    if all.limit.is_some() && fill.is_none() {
        title.push("Units behind the end of the source's rows are filled.".into());
    }
    BlockProgram {
        title,
        blocks,
        threads: BLOCK_THREADS,
        shared: 0,
        registers,
        tables,
        body,
        slots: frame.slot_count(),
    }
}

/// The digits of the vectors that one thread moves at once, the unit, and the number of elements in it. Of a converting
/// move a vector has several adjacent elements, where they are aligned on both sides.
fn vectors_per_thread(all: &ByteNest) -> (ByteNest, MoveElement, u32) {
    let widest = all.unit.src.max(all.unit.dst);
    let adjacent = all
        .digits
        .iter()
        .position(|d| d.src == i64::from(all.unit.src) && d.dst == i64::from(all.unit.dst));
    let (Some(_), Some(i)) = (all.unit.convert, adjacent) else {
        return (all.clone(), all.unit, 1);
    };
    // Doubling until the wider side has 16 bytes, the widest access of a thread.
    let mut count = 1u32;
    let grains = (
        all.address_alignment(TensorSide::Src, &[i]),
        all.address_alignment(TensorSide::Dst, &[i]),
    );
    while count * 2 * widest <= 16
        && all.whole_step_divisor(i) % i64::from(count * 2) == 0
        && all.unit.src * count * 2 <= grains.0
        && all.unit.dst * count * 2 <= grains.1
    {
        count *= 2;
    }
    let mut wide = all.clone();
    let d = wide.digits[i];
    let n = i64::from(count);
    if d.weight > 0 {
        wide.scale_weights(|weight| weight / n);
    }
    wide.digits[i] =
        ByteDigit { range: d.range / n, src: d.src * n, dst: d.dst * n, weight: d.weight };
    let unit = MoveElement { src: all.unit.src * count, dst: all.unit.dst * count, ..all.unit };
    wide.unit = unit;
    (wide, unit, count)
}

/// The addresses of a unit on both sides, and its weighted sum, which the end of the data bounds.
pub(crate) struct UnitAddress {
    pub(crate) from: KernelExpr,
    pub(crate) to: KernelExpr,
    pub(crate) count: KernelExpr,
}

/// Writes the digits of a number, and the addresses that they give.
pub(crate) fn decode_unit_number(
    frame: &mut VariableFrame,
    body: &mut Vec<KernelStmt>,
    number: KernelExpr,
    digits: &[ByteDigit],
    table: &[(i64, i64)],
) -> UnitAddress {
    let mut rest = number;
    let entries = i64::try_from(table.len()).unwrap_or(i64::MAX);
    let (a, b) = if entries > 1 { (0, 0) } else { table[0] };
    let (mut from, mut to, mut count) =
        (KernelExpr::Int(a), KernelExpr::Int(b), KernelExpr::Int(0));
    let last = digits.iter().filter(|d| d.range > 1).count();
    for (k, d) in digits.iter().filter(|d| d.range > 1).enumerate() {
        // The slowest digit is what is left, so it needs no remainder.
        let only = k + 1 == last && entries == 1;
        let digit = if only { rest.clone() } else { &rest % d.range };
        let digit = frame.bind_expression(body, &format!("d{k}"), digit);
        from = from + &digit * d.src;
        count = count + &digit * d.weight;
        to = to + digit * d.dst;
        if !only {
            rest = frame.bind_expression(body, &format!("rest{k}"), rest / d.range);
        }
    }
    if entries > 1 {
        from = KernelExpr::Entry(0, Box::new(rest.clone())) + from;
        to = KernelExpr::Entry(1, Box::new(rest)) + to;
    }
    UnitAddress { from, to, count }
}
