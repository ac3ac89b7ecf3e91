//! The part of a kernel that finds the tile of a block and copies its source rows into shared memory.
//! `tile_store.rs` has the stores.

use crate::description::{
    AddressSpace, BlockProgram, KernelCond, KernelExpr, KernelStmt, TensorSide, VariableFrame,
    VectorRegister, guard_statements,
};
use crate::digits::ByteNest;
use crate::rows::BLOCK_THREADS;
use crate::tile::SharedTile;
use std::ops::Range;

/// The part that moves one tile for each block. `readable` are the bytes of the source that may be read.
pub(crate) fn describe_tile_move(
    all: &ByteNest,
    tile: &SharedTile,
    readable: &Range<i64>,
) -> BlockProgram {
    let rest = vec![None; all.digits.len()];
    let (skewed, data) = (KernelExpr::Int(0), KernelExpr::Int(0));
    let mut w = TileWriter { all, tile, frame: VariableFrame::default(), rest, skewed, data };
    let mut body = Vec::new();
    let blocks =
        (0..all.digits.len()).map(|i| i128::from(tile.tiles_along(all, i))).product::<i128>()
            * all.table.len() as i128;
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
    let (from, to) = w.write_origin(&mut body, blocks);
    let src_low = w.write_low_bits(&mut body, TensorSide::Src, &from);
    w.write_loads(&mut body, &from, &src_low, readable);
    body.push(KernelStmt::Sync);
    w.write_stores(&mut body, &to, &src_low);
    let tables = if all.table.len() > 1 {
        vec![all.table.iter().map(|t| t.0).collect(), all.table.iter().map(|t| t.1).collect()]
    } else {
        Vec::new()
    };
    let shared = tile.shared_bytes(all);
    BlockProgram {
        title: describe_tile(all, tile),
        blocks,
        threads: BLOCK_THREADS,
        shared: u32::try_from(shared).unwrap_or(u32::MAX),
        registers: vec![("edge", 1), ("out", 1)],
        tables,
        body,
        slots: w.frame.slot_count(),
    }
}

fn describe_tile(all: &ByteNest, tile: &SharedTile) -> Vec<String> {
    let unit = all.unit;
    let mut lines = vec![format!(
        "Tiles of {} rows of {} bytes in the source, {} rows of {} bytes in the destination,",
        tile.src.count,
        tile.src.length * i64::from(unit.src),
        tile.dst.count,
        tile.dst.length * i64::from(unit.dst)
    )];
    if let Some(skew) = tile.skew {
        lines.push(format!("which begin at multiples of {} bytes,", skew.bytes));
    }
    if all.limit.is_some() {
        lines.push("of which the source has a part and the rest is filled,".into());
    }
    let s = tile.swizzle;
    lines.push(match (s.bits, s.padding) {
        _ if !tile.src.aligned => {
            "transposed in shared memory, where each row has its address in the source modulo 16 bytes.".into()
        }
        (0, 0) => "transposed in shared memory.".into(),
        (0, p) => format!("transposed in shared memory with {p} unused bytes after each row."),
        (bits, _) => format!(
            "transposed in shared memory: vector v of row r is at v ^ (r / {} % {}).",
            s.divide,
            1 << bits
        ),
    });
    lines
}

/// The state while a part is written.
pub(crate) struct TileWriter<'a> {
    pub(crate) all: &'a ByteNest,
    pub(crate) tile: &'a SharedTile,
    pub(crate) frame: VariableFrame,
    /// For each digit the number of values that this tile has of it, where that differs from tile to tile.
    pub(crate) rest: Vec<Option<KernelExpr>>,
    /// The first value that this tile has of the digit along which rows are skewed.
    pub(crate) skewed: KernelExpr,
    /// The sum that digits of this tile may reach before padding begins; less than 0 where the tile is all padding.
    pub(crate) data: KernelExpr,
}

impl TileWriter<'_> {
    /// Writes the addresses at which the tile of this block begins on both sides.
    fn write_origin(
        &mut self,
        body: &mut Vec<KernelStmt>,
        blocks: u64,
    ) -> (KernelExpr, KernelExpr) {
        let (all, tile) = (self.all, self.tile);
        let high = i64::try_from(blocks).unwrap_or(i64::MAX).saturating_sub(1);
        let mut left = KernelExpr::Block(high);
        let many = all.table.len() > 1;
        let (a, b) = if many { (0, 0) } else { all.table[0] };
        let (mut from, mut to) = (KernelExpr::Int(a), KernelExpr::Int(b));
        let cut = tile.cut_digits(all);
        let mut data = KernelExpr::Int(all.limit.map_or(0, |l| l.end));
        // The number of the block is split into the numbers of the tile along each digit, by constants: the compiler
        // turns these divisions into multiplications.
        for (k, i) in cut.iter().enumerate() {
            let (d, step, count) = (all.digits[*i], tile.steps[*i], tile.tiles_along(all, *i));
            let last = k + 1 == cut.len() && !many;
            let g = if last { left.clone() } else { &left % count };
            let g = self.frame.bind_expression(body, &format!("tile{i}"), g);
            let (span, lead) = (tile.loaded_span(*i), tile.loaded_span(*i) - step);
            from = from + (&g * (d.src * step) - d.src * lead);
            to = to + &g * (d.dst * step);
            // Only where tiles differ in size is there a variable for it; otherwise every comparison with it folds.
            if tile.has_partial_tile(all, *i) || lead > 0 {
                let rest = (KernelExpr::Int(d.range + lead) - &g * step).smaller_of(span);
                let rest =
                    self.frame.new_variable(format!("left{i}"), 1, span).assign_value(body, rest);
                self.rest[*i] = Some(rest);
            }
            data = data - &g * (d.weight * step);
            if lead > 0 {
                self.skewed = g * step;
            }
            if !last {
                left = self.frame.bind_expression(body, &format!("tiles{i}"), left / count);
            }
        }
        if many {
            from = KernelExpr::Entry(0, Box::new(left.clone())) + from;
            to = KernelExpr::Entry(1, Box::new(left)) + to;
        }
        self.data = self.frame.bind_expression(body, "data", data);
        (self.frame.bind_expression(body, "from", from), self.frame.bind_expression(body, "to", to))
    }

    /// The weighted sum of the digits of a position in this tile, which the end of the data bounds.
    pub(crate) fn weighted_position(&self, values: &[KernelExpr]) -> KernelExpr {
        let weighed = self.all.digits.iter().zip(values).filter(|(d, _)| d.weight > 0);
        weighed.fold(KernelExpr::Int(0), |sum, (d, value)| sum + value * d.weight)
    }

    /// Whether the weights of the digits of a source row are those of its elements, so that the data is a prefix of it.
    fn padding_ends_rows(&self) -> bool {
        let weights = self.tile.src.chain_weights(&self.tile.loaded_spans());
        weights.iter().all(|(i, weight)| self.all.digits[*i].weight == *weight)
    }

    /// Writes the remainder of the address at which the tile begins on a side, by the bytes of a vector or of a sector.
    pub(crate) fn write_low_bits(
        &mut self,
        body: &mut Vec<KernelStmt>,
        side: TensorSide,
        begin: &KernelExpr,
    ) -> KernelExpr {
        let (all, tile) = (self.all, self.tile);
        let (rows, align, modulus, name) = match side {
            TensorSide::Src => (&tile.src, all.align.src_alignment(), 16, "src_low"),
            TensorSide::Dst => {
                (&tile.dst, all.align.dst_alignment(), tile.skew.map_or(16, |s| s.bytes), "dst_low")
            }
        };
        if rows.aligned {
            return KernelExpr::Int(0);
        }
        // The first tiles may begin in front of the source, and remainders are of numbers that are 0 or more.
        let ahead = match (side, tile.skew) {
            (TensorSide::Src, Some(skew)) => (skew.lead * all.digits[skew.digit].src).max(0),
            _ => 0,
        };
        let above = (ahead + 15) / 16 * 16;
        let low = KernelExpr::address_remainder(side, align, u32::try_from(modulus).unwrap_or(16));
        let value = (low + (begin + above)) % modulus;
        self.frame.new_variable(name, 0, modulus - 1).assign_value(body, value)
    }

    /// The elements of a row of this tile.
    pub(crate) fn row_length(&self, side: TensorSide) -> KernelExpr {
        let rows = if side == TensorSide::Src { &self.tile.src } else { &self.tile.dst };
        match rows.chain.last() {
            Some(i) => match &self.rest[*i] {
                Some(rest) => rest * (rows.length / self.tile.loaded_span(*i)),
                None => KernelExpr::Int(rows.length),
            },
            None => KernelExpr::Int(1),
        }
    }

    /// The condition that a value of a digit is one of this tile.
    pub(crate) fn inside_tile_cond(&self, i: usize, value: &KernelExpr) -> KernelCond {
        let below = match &self.rest[i] {
            Some(rest) => KernelCond::less_than(value.clone(), rest.clone()),
            None => KernelCond::always_true(),
        };
        match self.tile.skew {
            // The rows in front of the first tile are outside of the tensor.
            Some(skew) if skew.digit == i => {
                KernelCond::at_most(skew.lead, &self.skewed + value).and_also(below)
            }
            _ => below,
        }
    }

    /// Writes the loads of source rows into shared memory.
    fn write_loads(
        &mut self,
        body: &mut Vec<KernelStmt>,
        from: &KernelExpr,
        src_low: &KernelExpr,
        readable: &Range<i64>,
    ) {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.src;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(BLOCK_THREADS);
        let rounds = (slots + threads - 1) / threads;
        let length = self.row_length(TensorSide::Src);
        let bytes = self.frame.bind_expression(body, "row_bytes", length * rows.width);
        let mut loads = Vec::new();
        let u = self.frame.new_variable("u", 0, rounds - 1);
        let (slot, vector, row) = self.write_slot(&mut loads, &u, rows.vectors);
        let mut one = Vec::new();
        let mut values: Vec<KernelExpr> = vec![KernelExpr::Int(0); all.digits.len()];
        let mut start = from.clone();
        let mut valid = KernelCond::always_true();
        for (i, weight) in rows.row_weights(&tile.loaded_spans()) {
            let value = &row / weight % tile.loaded_span(i);
            let value = self.frame.bind_expression(&mut one, &format!("s{i}"), value);
            start = start + &value * all.digits[i].src;
            valid = valid.and_also(self.inside_tile_cond(i, &value));
            values[i] = value;
        }
        // Addresses are named inside of the condition that the row exists: those of rows that a smaller tile lacks may be
        // before the tensor, which the range of the variable does not allow. Skewed rows may begin there too.
        let mut here = Vec::new();
        let ahead = match tile.skew {
            Some(skew) if rows.chain.contains(&skew.digit) => {
                skew.lead * all.digits[skew.digit].src
            }
            _ => 0,
        };
        let high = start.value_range().1;
        let start = self.frame.new_variable("start", -ahead, high).assign_value(&mut here, start);
        // A row keeps its remainder modulo 16 in shared memory, so that aligned vectors of the source are aligned vectors
        // there.
        let shift = if rows.aligned {
            KernelExpr::Int(0)
        } else {
            let low = KernelExpr::address_remainder(TensorSide::Src, all.align.src_alignment(), 16);
            let shift = (low + (&start + (ahead + 15) / 16 * 16)) % 16;
            self.frame.new_variable("shift", 0, 15).assign_value(&mut here, shift)
        };
        let at = self.frame.bind_expression(&mut here, "at", &start - &shift + &vector * 16);
        let mut within = KernelCond::less_than(&vector * 16, &shift + &bytes);
        if all.limit.is_some() {
            let count = self.weighted_position(&values);
            // Vectors behind the data need not be loaded; where the data is no prefix of a row, elements are tested one by
            // one when they are stored.
            if self.padding_ends_rows() {
                let end = &shift + (&self.data - &count) * rows.width;
                within = within.and_also(KernelCond::less_than(&vector * 16, end));
            }
            valid = valid.and_also(KernelCond::less_than(count, self.data.clone()));
        }
        let to = self.shared_vector_address(&vector, &row, &values, src_low);
        let bring = KernelStmt::CopyAsync { from: at.clone(), to: to.clone() };
        // A vector may reach beyond the bytes that may be read at the two ends of the source alone; inside of it, such a
        // vector reads bytes of other rows, which are not used.
        let load = if rows.whole {
            vec![bring]
        } else {
            let mut inside = KernelCond::at_most(at.clone(), readable.end - 16);
            if !rows.aligned || ahead > 0 {
                inside = KernelCond::at_most(readable.start, at.clone()).and_also(inside);
            }
            let into = VectorRegister { array: 0, index: KernelExpr::Int(0) };
            let mut edge = self.write_edge_load(&into, &at, readable);
            edge.push(KernelStmt::Store {
                from: into,
                to: AddressSpace::Shared,
                at: to,
                bytes: 16,
                piece: 16,
            });
            vec![KernelStmt::If(inside, vec![bring], edge)]
        };
        here.extend(guard_statements(within, load));
        one.extend(guard_statements(valid, here));
        let enough = KernelCond::less_than(slot, slots);
        loads.extend(guard_statements(enough, one));
        body.push(KernelStmt::For(u, rounds, loads));
    }

    /// The address of a vector of a source row in shared memory.
    fn shared_vector_address(
        &self,
        vector: &KernelExpr,
        row: &KernelExpr,
        values: &[KernelExpr],
        src_low: &KernelExpr,
    ) -> KernelExpr {
        let tile = self.tile;
        if tile.src.aligned {
            let pattern = self.write_swizzle_pattern(row);
            return row * tile.swizzle.row_pitch(tile.src.vectors * 16) + (vector ^ pattern) * 16;
        }
        let mut begin = src_low.clone();
        for (i, pitch) in tile.row_pitches(self.all) {
            begin = begin + &values[i] * pitch;
        }
        (begin / 16 + vector) * 16
    }

    /// The load of a vector that reaches beyond the readable bytes: element by element.
    fn write_edge_load(
        &mut self,
        into: &VectorRegister,
        at: &KernelExpr,
        readable: &Range<i64>,
    ) -> Vec<KernelStmt> {
        let width = self.tile.src.width;
        let mut body = vec![KernelStmt::Set(into.clone(), [0; 16])];
        let count = 16 / width;
        let e = self.frame.new_variable("e", 0, count - 1);
        let here = at + KernelExpr::Var(e.clone()) * width;
        let inside = KernelCond::at_most(readable.start, here.clone())
            .and_also(KernelCond::at_most(here.clone(), readable.end - width));
        let w = u32::try_from(width).unwrap_or(16);
        let kind = crate::description::MoveElement { src: w, dst: w, convert: None };
        let put = KernelStmt::Put {
            into: into.clone(),
            element: KernelExpr::Var(e.clone()),
            from: AddressSpace::Src,
            at: here,
            kind,
        };
        body.push(KernelStmt::For(e, count, vec![KernelStmt::If(inside, vec![put], Vec::new())]));
        body
    }

    /// Writes the slot of this thread in round `u`, and its vector and row.
    fn write_slot(
        &mut self,
        body: &mut Vec<KernelStmt>,
        u: &crate::description::KernelVar,
        vectors: i64,
    ) -> (KernelExpr, KernelExpr, KernelExpr) {
        let threads = i64::from(BLOCK_THREADS);
        // Vectors of a row first, so that the lanes of a warp read adjacent bytes.
        let slot = KernelExpr::Thread(threads - 1) + KernelExpr::Var(u.clone()) * threads;
        let slot = self.frame.bind_expression(body, "slot", slot);
        let vector = self.frame.bind_expression(body, "vector", &slot % vectors);
        let row = self.frame.bind_expression(body, "row", &slot / vectors);
        (slot, vector, row)
    }

    pub(crate) fn write_swizzle_pattern(&self, row: &KernelExpr) -> KernelExpr {
        let s = self.tile.swizzle;
        if s.bits == 0 { KernelExpr::Int(0) } else { row / s.divide % (1i64 << s.bits) }
    }
}

impl crate::description::KernelVar {
    /// Gives the variable its value.
    pub(crate) fn assign_value(self, body: &mut Vec<KernelStmt>, value: KernelExpr) -> KernelExpr {
        // A constant needs no variable, and its uses fold.
        if matches!(value, KernelExpr::Int(_)) {
            return value;
        }
        body.push(KernelStmt::Let(self.clone(), value));
        KernelExpr::Var(self)
    }
}
