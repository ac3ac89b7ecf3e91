//! The part of a kernel that stores the destination rows of a tile: every thread gathers the elements of aligned vectors
//! from shared memory.

use crate::description::{
    AddressSpace, KernelCond, KernelExpr, KernelStmt, TensorSide, VectorRegister, guard_statements,
};
use crate::digits::ByteNest;
use crate::rows::BLOCK_THREADS;
use crate::tile::RowSkew;
use crate::tile_part::TileWriter;

/// Writes the address of an element of a vector in shared memory, and its weighted sum, which the end of the data bounds.
type ElementAddressing<'a, W> =
    dyn Fn(&mut W, &mut Vec<KernelStmt>, &KernelExpr) -> (KernelExpr, KernelExpr) + 'a;

impl TileWriter<'_> {
    /// Writes the stores of destination rows.
    pub(crate) fn write_stores(
        &mut self,
        body: &mut Vec<KernelStmt>,
        to: &KernelExpr,
        src_low: &KernelExpr,
    ) {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.dst;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(BLOCK_THREADS);
        let rounds = (slots + threads - 1) / threads;
        // Rows of a skewed tile have the length of a whole one: their ends are tested against the row of the tensor.
        let length = match tile.skew {
            None => self.row_length(TensorSide::Dst),
            Some(_) => KernelExpr::Int(rows.length),
        };
        let length = self.frame.bind_expression(body, "row_length", length);
        let per_vector = (16 / rows.width).max(1);
        let dst_low = self.write_low_bits(body, TensorSide::Dst, to);
        let modulus = tile.skew.map_or(16, |s| s.bytes);
        let lead = tile.skew.map_or(0, |s| s.lead * s.inner);

        let mut inside = Vec::new();
        let u = self.frame.new_variable("u", 0, rounds - 1);
        let slot = KernelExpr::Thread(threads - 1) + KernelExpr::Var(u.clone()) * threads;
        let slot = self.frame.bind_expression(&mut inside, "slot", slot);
        let (vector, row) = match tile.lane_groups() {
            None => (&slot % rows.vectors, &slot / rows.vectors),
            // A warp is 8 vectors along a row by 4 rows: whole lines of 128 bytes, gathered from more banks than one row.
            Some(groups) => {
                (&slot % 8 + &slot / 32 % groups * 8, &slot / 8 % 4 + &slot / (32 * groups) * 4)
            }
        };
        let vector = self
            .frame
            .new_variable("vector", 0, rows.vectors - 1)
            .assign_value(&mut inside, vector);
        let row = self.frame.bind_expression(&mut inside, "row", row);
        let mut one = Vec::new();
        let mut values: Vec<KernelExpr> = vec![KernelExpr::Int(0); all.digits.len()];
        let mut start = to.clone();
        let mut residue = dst_low;
        let mut valid = KernelCond::less_than(slot, slots);
        for (i, weight) in rows.row_weights(&tile.steps) {
            let value = &row / weight % tile.steps[i];
            let value = self.frame.bind_expression(&mut one, &format!("t{i}"), value);
            start = start + &value * all.digits[i].dst;
            residue = residue + &value * all.digits[i].dst.rem_euclid(modulus);
            valid = valid.and_also(self.inside_tile_cond(i, &value));
            values[i] = value;
        }
        // `valid` uses digits that are named inside of `one`, so the condition on the slot alone is tested outside.
        let (outer, inner) = split_condition(valid);
        let shift = if rows.aligned {
            KernelExpr::Int(0)
        } else {
            let shift = residue % modulus;
            self.frame.bind_expression(&mut one, "shift", shift / rows.width)
        };
        let at = start - &shift * rows.width + &vector * 16;
        let at = self.frame.bind_expression(&mut one, "at", at);

        let first = self.frame.bind_expression(&mut one, "first", &vector * per_vector);
        // The elements of the row that exist: those of this tile, and where rows are skewed all of the row of the tensor,
        // because the block has loaded those in front of its box too.
        let (begin, end) = match tile.skew {
            None => (shift.clone(), &shift + &length),
            Some(skew) => {
                let box_begin = &self.skewed * skew.inner;
                (
                    &shift - &box_begin,
                    &shift + (KernelExpr::Int(row_elements(all, skew)) - box_begin),
                )
            }
        };
        let begin = self.frame.bind_expression(&mut one, "begin", begin);
        let end = self.frame.bind_expression(&mut one, "end", end);
        let whole = KernelCond::at_most(begin.clone(), first.clone())
            .and_also(KernelCond::at_most(&first + per_vector, end.clone()));
        let stored = |w: &mut Self, padding: bool| {
            let mut body = Vec::new();
            let place = |w: &mut Self, body: &mut Vec<KernelStmt>, e: &KernelExpr| {
                w.shared_element_address(body, &values, &(&first + e - &shift + lead), src_low)
            };
            let full = w.write_gather(&at, padding, &place);
            if rows.whole {
                body.extend(guard_statements(
                    KernelCond::less_than(first.clone(), length.clone()),
                    full,
                ));
            } else {
                let single = w.write_single_elements(&at, &first, (&begin, &end), padding, &place);
                body.push(KernelStmt::If(whole.clone(), full, single));
            }
            body
        };
        // A block whose tile has no padding branches once, and does not test each element.
        let most = all.digits.iter().zip(&tile.steps).map(|(d, s)| d.weight * (s - 1)).sum::<i64>();
        let stored = match all.limit {
            None => stored(self, false),
            Some(_) => {
                let without = KernelCond::less_than(KernelExpr::Int(most), self.data.clone());
                vec![KernelStmt::If(without, stored(self, false), stored(self, true))]
            }
        };
        one.extend(guard_statements(inner, stored));
        inside.extend(guard_statements(outer, one));
        body.push(KernelStmt::For(u, rounds, inside));
    }

    /// A whole vector of the destination, gathered from shared memory. With `padding` some of its elements may be padding.
    fn write_gather(
        &mut self,
        at: &KernelExpr,
        padding: bool,
        place: &ElementAddressing<'_, Self>,
    ) -> Vec<KernelStmt> {
        let (kind, per_vector) = (self.all.unit, (16 / self.tile.dst.width).max(1));
        let into = VectorRegister { array: 1, index: KernelExpr::Int(0) };
        // Elements are put into cleared registers by OR, which is one instruction for each.
        let mut body = vec![KernelStmt::Set(into.clone(), [0; 16])];
        let e = self.frame.new_variable("e", 0, per_vector - 1);
        let element = KernelExpr::Var(e.clone());
        let mut one = Vec::new();
        let (from, count) = place(self, &mut one, &element);
        let put = KernelStmt::Put {
            into: into.clone(),
            element: element.clone(),
            from: AddressSpace::Shared,
            at: from,
            kind,
        };
        one.push(match self.all.limit.filter(|_| padding) {
            None => put,
            Some(limit) => {
                let (fill, width) = (limit.fill, kind.dst);
                let fill = KernelStmt::PutFill { into: into.clone(), element, fill, width };
                KernelStmt::If(
                    KernelCond::less_than(count, self.data.clone()),
                    vec![put],
                    vec![fill],
                )
            }
        });
        body.push(KernelStmt::For(e, per_vector, one));
        let (to, at) = (AddressSpace::Dst, at.clone());
        body.push(KernelStmt::Store { from: into, to, at, bytes: 16, piece: 16 });
        body
    }

    /// The elements of a vector of the destination that exist, one by one: those from `begin` to `end` of its row.
    fn write_single_elements(
        &mut self,
        at: &KernelExpr,
        first: &KernelExpr,
        (begin, end): (&KernelExpr, &KernelExpr),
        padding: bool,
        place: &ElementAddressing<'_, Self>,
    ) -> Vec<KernelStmt> {
        let (kind, width) = (self.all.unit, self.tile.dst.width);
        let per_vector = (16 / width).max(1);
        let e = self.frame.new_variable("e", 0, per_vector - 1);
        let element = KernelExpr::Var(e.clone());
        let here = first + &element;
        let to = at + &element * width;
        let mut one = Vec::new();
        let (from, count) = place(self, &mut one, &element);
        let copy = KernelStmt::Copy { from: AddressSpace::Shared, at: from, to: to.clone(), kind };
        match self.all.limit.filter(|_| padding) {
            None => one.push(copy),
            Some(limit) => {
                let value = VectorRegister { array: 1, index: KernelExpr::Int(0) };
                let (bytes, piece) = (kind.dst, kind.dst);
                let store = KernelStmt::Store {
                    from: value.clone(),
                    to: AddressSpace::Dst,
                    at: to,
                    bytes,
                    piece,
                };
                let fill = vec![KernelStmt::Set(value, limit.fill), store];
                one.push(KernelStmt::If(
                    KernelCond::less_than(count, self.data.clone()),
                    vec![copy],
                    fill,
                ));
            }
        }
        // A loop and not unrolled: few threads write single elements, and the machine code stays short.
        let there = KernelCond::at_most(begin.clone(), here.clone())
            .and_also(KernelCond::less_than(here, end.clone()));
        vec![KernelStmt::Loop(e, per_vector, guard_statements(there, one))]
    }

    /// The address in shared memory of element `place` of a destination row, counted from the first that the block loads;
    /// and its weighted sum, which the end of the data bounds.
    fn shared_element_address(
        &mut self,
        body: &mut Vec<KernelStmt>,
        values: &[KernelExpr],
        place: &KernelExpr,
        src_low: &KernelExpr,
    ) -> (KernelExpr, KernelExpr) {
        let (all, tile) = (self.all, self.tile);
        let spans = tile.loaded_spans();
        // Elements that a partial tile lacks are never addressed, so the bound is that of a whole tile.
        let most = tile.dst.chain.iter().map(|i| spans[*i]).product::<i64>() - 1;
        let place = self.frame.new_variable("p", 0, most).assign_value(body, place.clone());
        let mut values = values.to_vec();
        for (i, weight) in tile.dst.chain_weights(&spans) {
            values[i] = &place / weight % spans[i];
        }
        let count = self.weighted_position(&values);
        let mut byte = KernelExpr::Int(0);
        for (i, weight) in tile.src.chain_weights(&spans) {
            byte = byte + &values[i] * (weight * tile.src.width);
        }
        if !tile.src.aligned {
            let mut at = src_low + byte;
            for (i, pitch) in tile.row_pitches(all) {
                at = at + &values[i] * pitch;
            }
            return (at, count);
        }
        let mut row = KernelExpr::Int(0);
        for (i, weight) in tile.src.row_weights(&spans) {
            row = row + &values[i] * weight;
        }
        let row = self.frame.bind_expression(body, "r", row);
        let byte = self.frame.bind_expression(body, "b", byte);
        let pattern = self.write_swizzle_pattern(&row);
        (row * tile.swizzle.row_pitch(tile.src.vectors * 16) + (byte ^ (pattern * 16)), count)
    }
}

/// Elements of a row of the tensor, along the digits of a row of the tile.
fn row_elements(all: &ByteNest, skew: RowSkew) -> i64 {
    all.digits[skew.digit].range * skew.inner
}

/// The condition on the slot alone, and the other conditions.
fn split_condition(cond: KernelCond) -> (KernelCond, KernelCond) {
    match cond {
        KernelCond::All(mut all) if !all.is_empty() => {
            let about_slot = matches!(&all[0], KernelCond::Less(KernelExpr::Var(v), _) if v.name == "slot")
                || matches!(&all[0], KernelCond::Less(KernelExpr::Thread(_), _));
            if about_slot {
                let first = all.remove(0);
                (first, KernelCond::All(all))
            } else {
                (KernelCond::always_true(), KernelCond::All(all))
            }
        }
        one @ KernelCond::Less(..) => (one, KernelCond::always_true()),
        other => (KernelCond::always_true(), other),
    }
}
