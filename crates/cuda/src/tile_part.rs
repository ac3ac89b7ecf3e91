//! What the threads of a block do with a tile: where it begins, and its source rows into shared memory.
//! `tile_store.rs` has the way out.

use crate::description::{Cond, Expr, Frame, Part, Reg, Side, Space, Stmt, when};
use crate::digits::Digits;
use crate::rows::THREADS;
use crate::tile::Tile;
use std::ops::Range;

/// The part that moves tile by tile. `readable` are the bytes of the source that may be read.
pub(crate) fn part(all: &Digits, tile: &Tile, readable: &Range<i64>) -> Part {
    let rest = vec![None; all.digits.len()];
    let (skewed, data) = (Expr::Int(0), Expr::Int(0));
    let mut w = Writer { all, tile, frame: Frame::default(), rest, skewed, data };
    let mut body = Vec::new();
    let blocks = (0..all.digits.len()).map(|i| i128::from(tile.tiles(all, i))).product::<i128>()
        * all.table.len() as i128;
    let blocks = u64::try_from(blocks).unwrap_or(u64::MAX);
    let (from, to) = w.origin(&mut body, blocks);
    let src_low = w.low(&mut body, Side::Src, &from);
    w.load(&mut body, &from, &src_low, readable);
    body.push(Stmt::Sync);
    w.store(&mut body, &to, &src_low);
    let tables = if all.table.len() > 1 {
        vec![all.table.iter().map(|t| t.0).collect(), all.table.iter().map(|t| t.1).collect()]
    } else {
        Vec::new()
    };
    let shared = tile.shared_bytes(all);
    Part {
        title: title(all, tile),
        blocks,
        threads: THREADS,
        shared: u32::try_from(shared).unwrap_or(u32::MAX),
        registers: vec![("edge", 1), ("out", 1)],
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
    if let Some(skew) = tile.skew {
        lines.push(format!("which begin at multiples of {} bytes,", skew.bytes));
    }
    if all.limit.is_some() {
        lines.push("of which the source has a part and the rest is filled,".into());
    }
    let s = tile.swizzle;
    lines.push(match (s.bits, s.padding) {
        _ if !tile.src.aligned => {
            "turned in shared memory, where each row lies as in the source, modulo 16 bytes.".into()
        }
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

/// What is known while a part is written.
pub(crate) struct Writer<'a> {
    pub(crate) all: &'a Digits,
    pub(crate) tile: &'a Tile,
    pub(crate) frame: Frame,
    /// For each digit the values that this tile has of it, where that differs from tile to tile.
    pub(crate) rest: Vec<Option<Expr>>,
    /// The first value that the box of this tile has of the digit that rows are skewed along.
    pub(crate) skewed: Expr,
    /// What digits of this tile may count up to until padding begins; it may be less than 0.
    pub(crate) data: Expr,
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
        let cut = tile.cut_digits(all);
        let mut data = Expr::Int(all.limit.map_or(0, |l| l.end));
        for (k, i) in cut.iter().enumerate() {
            let (d, step, count) = (all.digits[*i], tile.steps[*i], tile.tiles(all, *i));
            let last = k + 1 == cut.len() && !many;
            let g = if last { left.clone() } else { &left % count };
            let g = self.frame.name(body, &format!("tile{i}"), g);
            let (span, lead) = (tile.span(*i), tile.span(*i) - step);
            from = from + (&g * (d.src * step) - d.src * lead);
            to = to + &g * (d.dst * step);
            if tile.partial(all, *i) || lead > 0 {
                let rest = (Expr::Int(d.range + lead) - &g * step).min(span);
                let rest = self.frame.var(format!("left{i}"), 1, span).let_be(body, rest);
                self.rest[*i] = Some(rest);
            }
            data = data - &g * (d.weight * step);
            if lead > 0 {
                self.skewed = g * step;
            }
            if !last {
                left = self.frame.name(body, &format!("tiles{i}"), left / count);
            }
        }
        if many {
            from = Expr::Entry(0, Box::new(left.clone())) + from;
            to = Expr::Entry(1, Box::new(left)) + to;
        }
        self.data = self.frame.name(body, "data", data);
        (self.frame.name(body, "from", from), self.frame.name(body, "to", to))
    }

    /// What the digits of a place in this tile count towards the end of the data.
    pub(crate) fn count(&self, values: &[Expr]) -> Expr {
        let weighed = self.all.digits.iter().zip(values).filter(|(d, _)| d.weight > 0);
        weighed.fold(Expr::Int(0), |sum, (d, value)| sum + value * d.weight)
    }

    /// Whether the digits of a row of the source count one after the other, so that padding ends it.
    fn ends_rows(&self) -> bool {
        let weights = self.tile.src.chain_weights(&self.tile.spans());
        weights.iter().all(|(i, weight)| self.all.digits[*i].weight == *weight)
    }

    /// The remainder by the bytes of a sector, or of a vector, of the address where the tile begins on a side.
    pub(crate) fn low(&mut self, body: &mut Vec<Stmt>, side: Side, begin: &Expr) -> Expr {
        let (all, tile) = (self.all, self.tile);
        let (rows, align, modulus, name) = match side {
            Side::Src => (&tile.src, all.align.src(), 16, "src_low"),
            Side::Dst => (&tile.dst, all.align.dst(), tile.skew.map_or(16, |s| s.bytes), "dst_low"),
        };
        if rows.aligned {
            return Expr::Int(0);
        }
        // The tiles that come first may begin in front of the source.
        let ahead = match (side, tile.skew) {
            (Side::Src, Some(skew)) => (skew.lead * all.digits[skew.digit].src).max(0),
            _ => 0,
        };
        let above = (ahead + 15) / 16 * 16;
        let low = Expr::low(side, align, u32::try_from(modulus).unwrap_or(16));
        let value = (low + (begin + above)) % modulus;
        self.frame.var(name, 0, modulus - 1).let_be(body, value)
    }

    /// The elements of a row of this tile, as an expression and at most.
    pub(crate) fn length(&self, side: Side) -> Expr {
        let rows = if side == Side::Src { &self.tile.src } else { &self.tile.dst };
        match rows.chain.last() {
            Some(i) => match &self.rest[*i] {
                Some(rest) => rest * (rows.length / self.tile.span(*i)),
                None => Expr::Int(rows.length),
            },
            None => Expr::Int(1),
        }
    }

    /// Whether a value of a digit is one of this tile.
    pub(crate) fn inside(&self, i: usize, value: &Expr) -> Cond {
        let below = match &self.rest[i] {
            Some(rest) => Cond::less(value.clone(), rest.clone()),
            None => Cond::always(),
        };
        match self.tile.skew {
            // Values in front of the first tile are none of the tensor.
            Some(skew) if skew.digit == i => {
                Cond::at_most(skew.lead, &self.skewed + value).and(below)
            }
            _ => below,
        }
    }

    /// Source rows into shared memory.
    fn load(&mut self, body: &mut Vec<Stmt>, from: &Expr, src_low: &Expr, readable: &Range<i64>) {
        let (all, tile) = (self.all, self.tile);
        let rows = &tile.src;
        let slots = rows.count * rows.vectors;
        let threads = i64::from(THREADS);
        let rounds = (slots + threads - 1) / threads;
        let length = self.length(Side::Src);
        let bytes = self.frame.name(body, "row_bytes", length * rows.width);
        let mut loads = Vec::new();
        let u = self.frame.var("u", 0, rounds - 1);
        let (slot, vector, row) = self.slot(&mut loads, &u, rows.vectors);
        let mut one = Vec::new();
        let mut values: Vec<Expr> = vec![Expr::Int(0); all.digits.len()];
        let mut start = from.clone();
        let mut valid = Cond::always();
        for (i, weight) in rows.row_weights(&tile.spans()) {
            let value = &row / weight % tile.span(i);
            let value = self.frame.name(&mut one, &format!("s{i}"), value);
            start = start + &value * all.digits[i].src;
            valid = valid.and(self.inside(i, &value));
            values[i] = value;
        }
        // Rows that a smaller tile does not have may lie in front of the tensor, and skewed rows may begin there.
        let mut here = Vec::new();
        let ahead = match tile.skew {
            Some(skew) if rows.chain.contains(&skew.digit) => {
                skew.lead * all.digits[skew.digit].src
            }
            _ => 0,
        };
        let high = start.range().1;
        let start = self.frame.var("start", -ahead, high).let_be(&mut here, start);
        let shift = if rows.aligned {
            Expr::Int(0)
        } else {
            let low = Expr::low(Side::Src, all.align.src(), 16);
            let shift = (low + (&start + (ahead + 15) / 16 * 16)) % 16;
            self.frame.var("shift", 0, 15).let_be(&mut here, shift)
        };
        let at = self.frame.name(&mut here, "at", &start - &shift + &vector * 16);
        let mut within = Cond::less(&vector * 16, &shift + &bytes);
        if all.limit.is_some() {
            let count = self.count(&values);
            if self.ends_rows() {
                let end = &shift + (&self.data - &count) * rows.width;
                within = within.and(Cond::less(&vector * 16, end));
            }
            valid = valid.and(Cond::less(count, self.data.clone()));
        }
        let to = self.shared_vector(&vector, &row, &values, src_low);
        let bring = Stmt::Bring { from: at.clone(), to: to.clone() };
        let load = if rows.whole {
            vec![bring]
        } else {
            let mut inside = Cond::at_most(at.clone(), readable.end - 16);
            if !rows.aligned || ahead > 0 {
                inside = Cond::at_most(readable.start, at.clone()).and(inside);
            }
            let into = Reg { array: 0, index: Expr::Int(0) };
            let mut edge = self.edge(&into, &at, readable);
            edge.push(Stmt::Store { from: into, to: Space::Shared, at: to, bytes: 16, piece: 16 });
            vec![Stmt::If(inside, vec![bring], edge)]
        };
        here.extend(when(within, load));
        one.extend(when(valid, here));
        let enough = Cond::less(slot, slots);
        loads.extend(when(enough, one));
        body.push(Stmt::For(u, rounds, loads));
    }

    /// Where a vector of a source row lies in shared memory.
    fn shared_vector(&self, vector: &Expr, row: &Expr, values: &[Expr], src_low: &Expr) -> Expr {
        let tile = self.tile;
        if tile.src.aligned {
            let pattern = self.pattern(row);
            return row * tile.swizzle.pitch(tile.src.vectors * 16) + (vector ^ pattern) * 16;
        }
        let mut begin = src_low.clone();
        for (i, pitch) in tile.pitches(self.all) {
            begin = begin + &values[i] * pitch;
        }
        (begin / 16 + vector) * 16
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

    pub(crate) fn pattern(&self, row: &Expr) -> Expr {
        let s = self.tile.swizzle;
        if s.bits == 0 { Expr::Int(0) } else { row / s.divide % (1i64 << s.bits) }
    }
}

impl crate::description::Var {
    /// Gives the variable its value.
    pub(crate) fn let_be(self, body: &mut Vec<Stmt>, value: Expr) -> Expr {
        if matches!(value, Expr::Int(_)) {
            return value;
        }
        body.push(Stmt::Let(self.clone(), value));
        Expr::Var(self)
    }
}
