//! Matrix products: blocks of rows times one stick of columns, stick by stick along the sum.

use super::frame::{Frame, int, place};
use zellige_ktir::{Elem, Kind, Value};

/// Rows of a block at most.
const ROWS: i64 = 64;

/// Adds the body of a product `C[m, n] = A[m, k] B[k, n]`, with an addend where there is one.
pub(super) fn body(f: &mut Frame) -> Result<(), String> {
    let depth = f.spans.len() - 1;
    let column = depth.checked_sub(1).ok_or("its result has no columns")?;
    let lanes = |f: &Frame, t: usize| {
        let t = &f.tensors[t];
        t.form.stick.and_then(|d| t.follows[d])
    };
    let out = f.tensors.len() - 1;
    let wanted = [(0, depth), (1, column), (out, column)];
    if let Some((t, _)) = wanted.iter().find(|(t, l)| lanes(f, *t) != Some(*l)) {
        return Err(format!("operand {t} does not lie as products want it"));
    }
    if out == 3 && lanes(f, 2) != Some(column) {
        return Err("its addend does not lie along the columns".into());
    }
    let eps = f.tensors[0].form.eps;
    if f.tensors.iter().any(|t| t.form.eps != eps) {
        return Err("its tensors have sticks of different lengths".into());
    }
    // The rows are the loop before the columns, where the left matrix follows it.
    let left = &f.tensors[0].follows;
    let row = column
        .checked_sub(1)
        .filter(|l| left.contains(&Some(*l)) && !f.tensors[1].follows.contains(&Some(*l)));
    let high = row
        .and_then(|l| f.slices[l].units)
        .map_or(1, |n| (1..=n.min(ROWS)).rev().find(|r| n % r == 0).unwrap_or(1));
    let outer: Vec<usize> = (0..column).filter(|l| Some(*l) != row).collect();
    let k = f.spans[depth].size;
    let (full, rest) = (int(k / eps), int(k % eps));
    let (eps, group) = (int(eps), f.splits[depth]);
    f.nest(&outer, &mut Vec::new(), &mut |f, at| {
        let block = |f: &mut Frame, first: Value| -> Result<(), String> {
            let slice = f.slices[column];
            f.each((slice.first, slice.last, f.one), |f, stick| {
                let mut at = at.to_vec();
                at.extend(row.map(|l| (l, first)));
                let parts = ProductTile { at: &at, row, column, depth, high, stick, eps };
                let zero = f.b.float_tile(0.0, &[high, eps], Elem::F32);
                let mut acc = parts.sum(f, zero, (full, rest));
                if group > 1 {
                    acc = f.join(Kind::AddF, acc, zero, group);
                }
                if out == 3 {
                    let (tile, n) = parts.tile(f, 2);
                    let elem = f.tensors[2].elem;
                    let addend = f.load(tile, &[n / eps, eps], elem);
                    let addend = if n == high * eps {
                        addend
                    } else {
                        let flat = f.b.reassociate(addend, &[vec![0, 1]], &[eps]);
                        f.b.broadcast(flat, &[high, eps], &[0])
                    };
                    acc = f.b.binary(Kind::AddF, acc, addend);
                }
                f.first_core(&[depth], |f| {
                    let (tile, _) = parts.tile(f, out);
                    f.store(acc, tile);
                });
                Ok(())
            })
        };
        let Some(l) = row else { return block(f, f.zero) };
        let slice = f.slices[l];
        let step = f.index(high);
        f.each((slice.first, slice.last, step), block)
    })
}

/// Where a block is.
struct ProductTile<'a> {
    at: &'a [(usize, Value)],
    row: Option<usize>,
    column: usize,
    depth: usize,
    high: i64,
    stick: Value,
    eps: i64,
}

impl ProductTile<'_> {
    /// A block of rows of one stick of columns, and how many elements it has.
    fn tile(&self, f: &mut Frame, t: usize) -> (Value, i64) {
        let (follows, zero) = (f.tensors[t].follows.clone(), f.zero);
        let at = |d: usize| {
            let l = follows[d];
            let extent = if l.is_some() && l == self.row { self.high } else { 1 };
            (place(self.at, l, zero), extent)
        };
        let (tile, extents) = f.tile(t, &at, (self.stick, 1), None);
        (tile, extents.iter().product())
    }

    /// The sum of a core: whole sticks, then what is valid of the last one where the core has it.
    fn sum(&self, f: &mut Frame, zero: Value, (full, rest): (i64, i64)) -> Value {
        let slice = f.slices[self.depth];
        let mut acc = zero;
        if full > 0 {
            let mut last = slice.last;
            if rest > 0 {
                let most = f.index(full);
                last = f.b.binary(Kind::MinSI, last, most);
            }
            acc = f.carry((slice.first, last, f.one), &[acc], |f, i, inner| {
                vec![self.add(f, i, self.eps, inner[0])]
            })[0];
        }
        if rest > 0 {
            let tail = f.index(full);
            let from = f.b.binary(Kind::MaxSI, slice.first, tail);
            acc = f.carry((from, slice.last, f.one), &[acc], |f, i, inner| {
                vec![self.add(f, i, rest, inner[0])]
            })[0];
        }
        acc
    }

    /// Adds the product of stick `i` of the sum, of which `n` are valid.
    fn add(&self, f: &mut Frame, i: Value, n: i64, acc: Value) -> Value {
        let (follows, zero, elem) = (f.tensors[0].follows.clone(), f.zero, f.tensors[0].elem);
        let at = |d: usize| {
            let l = follows[d];
            let extent = if l.is_some() && l == self.row { self.high } else { 1 };
            (place(self.at, l, zero), extent)
        };
        let (tile, _) = f.tile(0, &at, (i, 1), Some(n));
        let a = f.load(tile, &[self.high, n], elem);
        let width = f.index(self.eps);
        let first = f.b.binary(Kind::MulI, i, width);
        let (follows, elem) = (f.tensors[1].follows.clone(), f.tensors[1].elem);
        let at = |d: usize| match follows[d] {
            Some(l) if l == self.depth => (first, n),
            Some(l) if l == self.column => (zero, 1),
            l => (place(self.at, l, zero), 1),
        };
        let (tile, _) = f.tile(1, &at, (self.stick, 1), None);
        let b = f.load(tile, &[n, self.eps], elem);
        f.b.matmul(a, b, acc)
    }
}
