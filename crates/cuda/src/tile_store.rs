//! Destination rows of a tile out of shared memory: every thread gathers the elements of aligned vectors.

use crate::description::{Cond, Expr, Reg, Side, Space, Stmt, when};
use crate::digits::Digits;
use crate::rows::THREADS;
use crate::tile::Skew;
use crate::tile_part::Writer;

/// Writes where an element of a vector lies in shared memory, and what it counts towards the end of the data.
type Elements<'a, W> = dyn Fn(&mut W, &mut Vec<Stmt>, &Expr) -> (Expr, Expr) + 'a;

impl Writer<'_> {
    /// Destination rows out of shared memory.
    pub(crate) fn store(&mut self, body: &mut Vec<Stmt>, to: &Expr, src_low: &Expr) {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.dst;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(THREADS);
        let rounds = (slots + threads - 1) / threads;
        let length = match tile.skew {
            None => self.length(Side::Dst),
            Some(_) => Expr::Int(rows.length),
        };
        let length = self.frame.name(body, "row_length", length);
        let per_vector = (16 / rows.width).max(1);
        let dst_low = self.low(body, Side::Dst, to);
        let modulus = tile.skew.map_or(16, |s| s.bytes);
        let lead = tile.skew.map_or(0, |s| s.lead * s.inner);

        let mut inside = Vec::new();
        let u = self.frame.var("u", 0, rounds - 1);
        let slot = Expr::Thread(threads - 1) + Expr::Var(u.clone()) * threads;
        let slot = self.frame.name(&mut inside, "slot", slot);
        let (vector, row) = match tile.lanes() {
            None => (&slot % rows.vectors, &slot / rows.vectors),
            // A warp is 8 vectors along a row by 4 rows.
            Some(groups) => {
                (&slot % 8 + &slot / 32 % groups * 8, &slot / 8 % 4 + &slot / (32 * groups) * 4)
            }
        };
        let vector = self.frame.var("vector", 0, rows.vectors - 1).let_be(&mut inside, vector);
        let row = self.frame.name(&mut inside, "row", row);
        let mut one = Vec::new();
        let mut values: Vec<Expr> = vec![Expr::Int(0); all.digits.len()];
        let mut start = to.clone();
        let mut residue = dst_low;
        let mut valid = Cond::less(slot, slots);
        for (i, weight) in rows.row_weights(&tile.steps) {
            let value = &row / weight % tile.steps[i];
            let value = self.frame.name(&mut one, &format!("t{i}"), value);
            start = start + &value * all.digits[i].dst;
            residue = residue + &value * all.digits[i].dst.rem_euclid(modulus);
            valid = valid.and(self.inside(i, &value));
            values[i] = value;
        }
        // `valid` speaks of digits that are named in `one`: the slots are tested outside of it.
        let (outer, inner) = split(valid);
        let shift = if rows.aligned {
            Expr::Int(0)
        } else {
            let shift = residue % modulus;
            self.frame.name(&mut one, "shift", shift / rows.width)
        };
        let at = start - &shift * rows.width + &vector * 16;
        let at = self.frame.name(&mut one, "at", at);

        let first = self.frame.name(&mut one, "first", &vector * per_vector);
        // The elements of the row that are there: all of this tile, and of skewed rows all of the tensor's row.
        let (begin, end) = match tile.skew {
            None => (shift.clone(), &shift + &length),
            Some(skew) => {
                let box_begin = &self.skewed * skew.inner;
                (&shift - &box_begin, &shift + (Expr::Int(range_of(all, skew)) - box_begin))
            }
        };
        let begin = self.frame.name(&mut one, "begin", begin);
        let end = self.frame.name(&mut one, "end", end);
        let whole = Cond::at_most(begin.clone(), first.clone())
            .and(Cond::at_most(&first + per_vector, end.clone()));
        let stored = |w: &mut Self, padding: bool| {
            let mut body = Vec::new();
            let place = |w: &mut Self, body: &mut Vec<Stmt>, e: &Expr| {
                w.shared(body, &values, &(&first + e - &shift + lead), src_low)
            };
            let full = w.gather(&at, padding, &place);
            if rows.whole {
                body.extend(when(Cond::less(first.clone(), length.clone()), full));
            } else {
                let single = w.singles(&at, &first, (&begin, &end), padding, &place);
                body.push(Stmt::If(whole.clone(), full, single));
            }
            body
        };
        // Blocks whose tile has no padding do not ask for each element.
        let most = all.digits.iter().zip(&tile.steps).map(|(d, s)| d.weight * (s - 1)).sum::<i64>();
        let stored = match all.limit {
            None => stored(self, false),
            Some(_) => {
                let without = Cond::less(Expr::Int(most), self.data.clone());
                vec![Stmt::If(without, stored(self, false), stored(self, true))]
            }
        };
        one.extend(when(inner, stored));
        inside.extend(when(outer, one));
        body.push(Stmt::For(u, rounds, inside));
    }

    /// A whole vector of the destination, gathered from shared memory. With `padding` some of its elements may be.
    fn gather(&mut self, at: &Expr, padding: bool, place: &Elements<'_, Self>) -> Vec<Stmt> {
        let (kind, per_vector) = (self.all.unit, (16 / self.tile.dst.width).max(1));
        let into = Reg { array: 1, index: Expr::Int(0) };
        let mut body = vec![Stmt::Set(into.clone(), [0; 16])];
        let e = self.frame.var("e", 0, per_vector - 1);
        let element = Expr::Var(e.clone());
        let mut one = Vec::new();
        let (from, count) = place(self, &mut one, &element);
        let put = Stmt::Put {
            into: into.clone(),
            element: element.clone(),
            from: Space::Shared,
            at: from,
            kind,
        };
        one.push(match self.all.limit.filter(|_| padding) {
            None => put,
            Some(limit) => {
                let (fill, width) = (limit.fill, kind.dst);
                let fill = Stmt::PutFill { into: into.clone(), element, fill, width };
                Stmt::If(Cond::less(count, self.data.clone()), vec![put], vec![fill])
            }
        });
        body.push(Stmt::For(e, per_vector, one));
        let (to, at) = (Space::Dst, at.clone());
        body.push(Stmt::Store { from: into, to, at, bytes: 16, piece: 16 });
        body
    }

    /// The elements of a vector of the destination that are there, one by one: those from `begin` to `end` of its row.
    fn singles(
        &mut self,
        at: &Expr,
        first: &Expr,
        (begin, end): (&Expr, &Expr),
        padding: bool,
        place: &Elements<'_, Self>,
    ) -> Vec<Stmt> {
        let (kind, width) = (self.all.unit, self.tile.dst.width);
        let per_vector = (16 / width).max(1);
        let e = self.frame.var("e", 0, per_vector - 1);
        let element = Expr::Var(e.clone());
        let here = first + &element;
        let to = at + &element * width;
        let mut one = Vec::new();
        let (from, count) = place(self, &mut one, &element);
        let copy = Stmt::Copy { from: Space::Shared, at: from, to: to.clone(), kind };
        match self.all.limit.filter(|_| padding) {
            None => one.push(copy),
            Some(limit) => {
                let value = Reg { array: 1, index: Expr::Int(0) };
                let (bytes, piece) = (kind.dst, kind.dst);
                let store =
                    Stmt::Store { from: value.clone(), to: Space::Dst, at: to, bytes, piece };
                let fill = vec![Stmt::Set(value, limit.fill), store];
                one.push(Stmt::If(Cond::less(count, self.data.clone()), vec![copy], fill));
            }
        }
        let there = Cond::at_most(begin.clone(), here.clone()).and(Cond::less(here, end.clone()));
        vec![Stmt::Loop(e, per_vector, when(there, one))]
    }

    /// Where element `place` of a destination row, counted from the first that the block loads, lies in shared memory; and
    /// what it counts towards the end of the data.
    fn shared(
        &mut self,
        body: &mut Vec<Stmt>,
        values: &[Expr],
        place: &Expr,
        src_low: &Expr,
    ) -> (Expr, Expr) {
        let (all, tile) = (self.all, self.tile);
        let spans = tile.spans();
        let most = tile.dst.chain.iter().map(|i| spans[*i]).product::<i64>() - 1;
        let place = self.frame.var("p", 0, most).let_be(body, place.clone());
        let mut values = values.to_vec();
        for (i, weight) in tile.dst.chain_weights(&spans) {
            values[i] = &place / weight % spans[i];
        }
        let count = self.count(&values);
        let mut byte = Expr::Int(0);
        for (i, weight) in tile.src.chain_weights(&spans) {
            byte = byte + &values[i] * (weight * tile.src.width);
        }
        if !tile.src.aligned {
            let mut at = src_low + byte;
            for (i, pitch) in tile.pitches(all) {
                at = at + &values[i] * pitch;
            }
            return (at, count);
        }
        let mut row = Expr::Int(0);
        for (i, weight) in tile.src.row_weights(&spans) {
            row = row + &values[i] * weight;
        }
        let row = self.frame.name(body, "r", row);
        let byte = self.frame.name(body, "b", byte);
        let pattern = self.pattern(&row);
        (row * tile.swizzle.pitch(tile.src.vectors * 16) + (byte ^ (pattern * 16)), count)
    }
}

/// Elements of a row of the tensor, along the digits of a row of the tile.
fn range_of(all: &Digits, skew: Skew) -> i64 {
    all.digits[skew.digit].range * skew.inner
}

/// The condition on the slot alone, and the others.
fn split(cond: Cond) -> (Cond, Cond) {
    match cond {
        Cond::All(mut all) if !all.is_empty() => {
            let about_slot = matches!(&all[0], Cond::Less(Expr::Var(v), _) if v.name == "slot")
                || matches!(&all[0], Cond::Less(Expr::Thread(_), _));
            if about_slot {
                let first = all.remove(0);
                (first, Cond::All(all))
            } else {
                (Cond::always(), Cond::All(all))
            }
        }
        one @ Cond::Less(..) => (one, Cond::always()),
        other => (Cond::always(), other),
    }
}
