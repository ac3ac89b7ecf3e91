//! What the threads of a block do with a tile: source rows into shared memory, destination rows out of it.

use crate::description::{Cond, Expr, Frame, Part, Reg, Side, Space, Stmt, when};
use crate::digits::Digits;
use crate::rows::THREADS;
use crate::tile::Tile;
use std::ops::Range;

/// The part that moves tile by tile. `readable` are the bytes of the source that may be read.
pub(crate) fn part(all: &Digits, tile: &Tile, readable: &Range<i64>) -> Part {
    let mut w = Writer { all, tile, frame: Frame::default(), rest: Vec::new() };
    let mut body = Vec::new();
    let blocks = (0..all.digits.len()).map(|i| i128::from(tile.tiles(all, i))).product::<i128>()
        * all.table.len() as i128;
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
    let (from, to) = w.origin(&mut body, blocks);
    let flight = w.load(&mut body, &from, readable);
    body.push(Stmt::Sync);
    w.store(&mut body, &from, &to);
    let tables = if all.table.len() > 1 {
        vec![all.table.iter().map(|t| t.0).collect(), all.table.iter().map(|t| t.1).collect()]
    } else {
        Vec::new()
    };
    let shared = tile.src.count * tile.pitch();
    Part {
        title: title(all, tile),
        blocks,
        threads: THREADS,
        shared: u32::try_from(shared).unwrap_or(u32::MAX),
        registers: vec![("v", u32::try_from(flight).unwrap_or(u32::MAX)), ("out", 1)],
        tables,
        body,
        slots: w.frame.slots(),
    }
}

fn title(all: &Digits, tile: &Tile) -> Vec<String> {
    let unit = all.unit;
    let mut lines = vec![format!(
        "Tiles of {} rows of {} bytes in the source, {} rows of {} bytes in the destination,",
        tile.src.count,
        tile.src.length * i64::from(unit.src),
        tile.dst.count,
        tile.dst.length * i64::from(unit.dst)
    )];
    let s = tile.swizzle;
    lines.push(match (s.bits, s.padding) {
        (0, 0) => "turned in shared memory.".into(),
        (0, p) => format!("turned in shared memory with {p} unused bytes after each row."),
        (bits, _) => format!(
            "turned in shared memory: vector v of row r lies at v ^ (r / {} % {}).",
            s.divide,
            1 << bits
        ),
    });
    lines
}

struct Writer<'a> {
    all: &'a Digits,
    tile: &'a Tile,
    frame: Frame,
    /// For each digit the values that this tile has of it, where that differs from tile to tile.
    rest: Vec<Option<Expr>>,
}

impl Writer<'_> {
    /// Where the tile of this block begins on both sides.
    fn origin(&mut self, body: &mut Vec<Stmt>, blocks: u64) -> (Expr, Expr) {
        let (all, tile) = (self.all, self.tile);
        let high = i64::try_from(blocks).unwrap_or(i64::MAX).saturating_sub(1);
        let mut left = Expr::Block(high);
        let many = all.table.len() > 1;
        let (a, b) = if many { (0, 0) } else { all.table[0] };
        let (mut from, mut to) = (Expr::Int(a), Expr::Int(b));
        self.rest = vec![None; all.digits.len()];
        let cut: Vec<usize> = (0..all.digits.len()).filter(|i| tile.tiles(all, *i) > 1).collect();
        for (k, i) in cut.iter().enumerate() {
            let (d, step, count) = (all.digits[*i], tile.steps[*i], tile.tiles(all, *i));
            let last = k + 1 == cut.len() && !many;
            let g = if last { left.clone() } else { &left % count };
            let g = self.frame.name(body, &format!("tile{i}"), g);
            from = from + &g * (d.src * step);
            to = to + &g * (d.dst * step);
            if tile.partial(all, *i) {
                let rest = (Expr::Int(d.range) - g * step).min(step);
                let rest = self.frame.var(format!("left{i}"), 1, step).let_be(body, rest);
                self.rest[*i] = Some(rest);
            }
            if !last {
                left = self.frame.name(body, &format!("tiles{i}"), left / count);
            }
        }
        if many {
            from = Expr::Entry(0, Box::new(left.clone())) + from;
            to = Expr::Entry(1, Box::new(left)) + to;
        }
        (self.frame.name(body, "from", from), self.frame.name(body, "to", to))
    }

    /// The elements of a row of this tile, as an expression and at most.
    fn length(&self, side: Side) -> Expr {
        let rows = if side == Side::Src { &self.tile.src } else { &self.tile.dst };
        match rows.chain.last() {
            Some(i) => match &self.rest[*i] {
                Some(rest) => rest * (rows.length / self.tile.steps[*i]),
                None => Expr::Int(rows.length),
            },
            None => Expr::Int(1),
        }
    }

    /// Whether a value of a digit is one of this tile.
    fn inside(&self, i: usize, value: &Expr) -> Cond {
        match &self.rest[i] {
            Some(rest) => Cond::less(value.clone(), rest.clone()),
            None => Cond::always(),
        }
    }

    /// Source rows into shared memory. The vectors that a thread has on the way.
    fn load(&mut self, body: &mut Vec<Stmt>, from: &Expr, readable: &Range<i64>) -> i64 {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.src;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(THREADS);
        let flight = (slots + threads - 1) / threads;
        let length = self.length(Side::Src);
        let bytes = self.frame.name(body, "row_bytes", length * rows.width);
        let mut loads = Vec::new();
        let u = self.frame.var("u", 0, flight - 1);
        let (slot, vector, row) = self.slot(&mut loads, &u, rows.vectors);
        let mut one = Vec::new();
        let mut start = from.clone();
        let mut valid = Cond::always();
        for (i, weight) in rows.row_weights(&tile.steps) {
            let value = &row / weight % tile.steps[i];
            let value = self.frame.name(&mut one, &format!("s{i}"), value);
            start = start + &value * all.digits[i].src;
            valid = valid.and(self.inside(i, &value));
        }
        // Rows that a smaller tile does not have may lie in front of the tensor.
        let mut here = Vec::new();
        let start = self.frame.name(&mut here, "start", start);
        let shift = if rows.aligned {
            Expr::Int(0)
        } else {
            let low = Expr::low(Side::Src, all.align.src());
            self.frame.var("shift", 0, 15).let_be(&mut here, (low + &start) % 16)
        };
        let at = self.frame.name(&mut here, "at", &start - &shift + &vector * 16);
        let within = Cond::less(&vector * 16, shift + &bytes);
        let into = Reg { array: 0, index: Expr::Var(u.clone()) };
        let (address, reg) = (at.clone(), into.clone());
        let load = Stmt::Load { into: reg, from: Space::Src, at: address, bytes: 16, piece: 16 };
        let load = if rows.whole {
            vec![load]
        } else {
            let mut inside = Cond::at_most(at.clone(), readable.end - 16);
            if !rows.aligned {
                inside = Cond::at_most(readable.start, at.clone()).and(inside);
            }
            vec![Stmt::If(inside, vec![load], self.edge(&into, &at, readable))]
        };
        here.extend(when(within, load));
        one.extend(when(valid, here));
        let enough = Cond::less(slot.clone(), slots);
        loads.extend(when(enough, one));
        body.push(Stmt::For(u, flight, loads));

        let mut stores = Vec::new();
        let u = self.frame.var("u", 0, flight - 1);
        let (slot, vector, row) = self.slot(&mut stores, &u, rows.vectors);
        let pattern = self.pattern(&row);
        let at = row * tile.pitch() + (vector ^ pattern) * 16;
        let from = Reg { array: 0, index: Expr::Var(u.clone()) };
        let store = Stmt::Store { from, to: Space::Shared, at, bytes: 16, piece: 16 };
        stores.extend(when(Cond::less(slot, slots), vec![store]));
        body.push(Stmt::For(u, flight, stores));
        flight
    }

    /// A vector that sticks out of the source: element by element.
    fn edge(&mut self, into: &Reg, at: &Expr, readable: &Range<i64>) -> Vec<Stmt> {
        let width = self.tile.src.width;
        let mut body = vec![Stmt::Set(into.clone(), [0; 16])];
        let count = 16 / width;
        let e = self.frame.var("e", 0, count - 1);
        let here = at + Expr::Var(e.clone()) * width;
        let inside = Cond::at_most(readable.start, here.clone())
            .and(Cond::at_most(here.clone(), readable.end - width));
        let w = u32::try_from(width).unwrap_or(16);
        let kind = crate::description::Element { src: w, dst: w, convert: None };
        let put = Stmt::Put {
            into: into.clone(),
            element: Expr::Var(e.clone()),
            from: Space::Src,
            at: here,
            kind,
        };
        body.push(Stmt::For(e, count, vec![Stmt::If(inside, vec![put], Vec::new())]));
        body
    }

    /// The slot of this thread in round `u`, and its vector and row.
    fn slot(
        &mut self,
        body: &mut Vec<Stmt>,
        u: &crate::description::Var,
        vectors: i64,
    ) -> (Expr, Expr, Expr) {
        let threads = i64::from(THREADS);
        let slot = Expr::Thread(threads - 1) + Expr::Var(u.clone()) * threads;
        let slot = self.frame.name(body, "slot", slot);
        let vector = self.frame.name(body, "vector", &slot % vectors);
        let row = self.frame.name(body, "row", &slot / vectors);
        (slot, vector, row)
    }

    fn pattern(&self, row: &Expr) -> Expr {
        let s = self.tile.swizzle;
        if s.bits == 0 { Expr::Int(0) } else { row / s.divide % (1i64 << s.bits) }
    }

    /// Destination rows out of shared memory.
    fn store(&mut self, body: &mut Vec<Stmt>, from: &Expr, to: &Expr) {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.dst;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(THREADS);
        let rounds = (slots + threads - 1) / threads;
        let length = self.length(Side::Dst);
        let length = self.frame.name(body, "row_length", length);
        let per_vector = (16 / rows.width).max(1);
        // The last four bits of where the tile begins, for shifts.
        let low = |side: Side, begin: &Expr, align: u32| (Expr::low(side, align) + begin) % 16;
        let src_low = if tile.src.aligned {
            Expr::Int(0)
        } else {
            let value = low(Side::Src, from, all.align.src());
            self.frame.var("src_low", 0, 15).let_be(body, value)
        };
        let dst_low = if rows.aligned {
            Expr::Int(0)
        } else {
            let value = low(Side::Dst, to, all.align.dst());
            self.frame.var("dst_low", 0, 15).let_be(body, value)
        };

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
            residue = residue + &value * all.digits[i].dst.rem_euclid(16);
            valid = valid.and(self.inside(i, &value));
            values[i] = value;
        }
        // `valid` speaks of digits that are named in `one`: the slots are tested outside of it.
        let (outer, inner) = split(valid);
        let shift = if rows.aligned {
            Expr::Int(0)
        } else {
            let shift = residue % 16;
            self.frame.name(&mut one, "shift", shift / rows.width)
        };
        let at = start - &shift * rows.width + &vector * 16;
        let at = self.frame.name(&mut one, "at", at);

        let first = self.frame.name(&mut one, "first", &vector * per_vector);
        let end = self.frame.name(&mut one, "end", &shift + &length);
        let whole = Cond::at_most(shift.clone(), first.clone())
            .and(Cond::at_most(&first + per_vector, end.clone()));
        let out = Reg { array: 1, index: Expr::Int(0) };

        let mut full = vec![Stmt::Set(out.clone(), [0; 16])];
        let e = self.frame.var("e", 0, per_vector - 1);
        let mut gather = Vec::new();
        let place =
            self.shared(&mut gather, &values, &(&first + Expr::Var(e.clone())), &shift, &src_low);
        let element = Expr::Var(e.clone());
        let kind = all.unit;
        gather.push(Stmt::Put { into: out.clone(), element, from: Space::Shared, at: place, kind });
        full.push(Stmt::For(e, per_vector, gather));
        full.push(Stmt::Store { from: out, to: Space::Dst, at: at.clone(), bytes: 16, piece: 16 });

        let stored = if rows.whole {
            let some = Cond::less(first, length);
            when(some, full)
        } else {
            let e = self.frame.var("e", 0, per_vector - 1);
            let here = &first + Expr::Var(e.clone());
            let mut copy = Vec::new();
            let place = self.shared(&mut copy, &values, &here, &shift, &src_low);
            let target = at + Expr::Var(e.clone()) * rows.width;
            copy.push(Stmt::Copy { from: Space::Shared, at: place, to: target, kind });
            let there = Cond::at_most(shift, here.clone()).and(Cond::less(here, end));
            let single = Stmt::For(e, per_vector, when(there, copy));
            vec![Stmt::If(whole, full, vec![single])]
        };
        one.extend(when(inner, stored));
        inside.extend(when(outer, one));
        body.push(Stmt::For(u, rounds, inside));
    }

    /// Where element `number` of a destination row, counted from the first vector that it touches, lies in shared
    /// memory.
    fn shared(
        &mut self,
        body: &mut Vec<Stmt>,
        values: &[Expr],
        number: &Expr,
        shift: &Expr,
        src_low: &Expr,
    ) -> Expr {
        let (all, tile) = (self.all, self.tile);
        let place = number - shift;
        let place = self.frame.var("p", 0, tile.dst.length - 1).let_be(body, place);
        let mut values = values.to_vec();
        for (i, weight) in tile.dst.chain_weights(&tile.steps) {
            values[i] = &place / weight % tile.steps[i];
        }
        let mut row = Expr::Int(0);
        let mut residue = src_low.clone();
        for (i, weight) in tile.src.row_weights(&tile.steps) {
            row = row + &values[i] * weight;
            residue = residue + &values[i] * all.digits[i].src.rem_euclid(16);
        }
        let row = self.frame.name(body, "r", row);
        let mut byte = if tile.src.aligned { Expr::Int(0) } else { residue % 16 };
        for (i, weight) in tile.src.chain_weights(&tile.steps) {
            byte = byte + &values[i] * (weight * tile.src.width);
        }
        let byte = self.frame.name(body, "b", byte);
        let pattern = self.pattern(&row);
        row * tile.pitch() + (byte ^ (pattern * 16))
    }
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

impl crate::description::Var {
    /// Gives the variable its value.
    fn let_be(self, body: &mut Vec<Stmt>, value: Expr) -> Expr {
        if matches!(value, Expr::Int(_)) {
            return value;
        }
        body.push(Stmt::Let(self.clone(), value));
        Expr::Var(self)
    }
}
