//! Moves: blocks are loaded, transposed where the lanes change, and stored.

use super::frame::{Frame, int, place};
use zellige_ktir::{Kind, Value};

/// Adds the body of a move between two layouts.
pub(super) fn body(f: &mut Frame) -> Result<(), String> {
    let (from, to) = (f.tensors[0].form.stick, f.tensors[1].form.stick);
    if f.tensors[0].elem != f.tensors[1].elem {
        return Err("its sides have different elements".into());
    }
    let eps = int(f.tensors[0].form.eps);
    let blocked = |l: &usize| Some(*l) == from || Some(*l) == to;
    let outer: Vec<usize> = (0..f.spans.len()).filter(|l| !blocked(l)).collect();
    f.nest(&outer, &mut Vec::new(), &mut |f, at| match (from, to) {
        (Some(a), Some(b)) if a == b => f.blocks(a, eps, |f, i, n| copy(f, at, a, (i, n))),
        (Some(a), Some(b)) => f.blocks(a, eps, |f, i, n| {
            f.blocks(b, eps, |f, j, m| transpose(f, at, (a, i, n), (b, j, m), eps))
        }),
        (Some(d), None) | (None, Some(d)) => {
            f.blocks(d, eps, |f, i, n| gather(f, at, (d, i, n), eps))
        }
        (None, None) => {
            let zero = f.zero;
            let spot = |d: usize| (place(at, Some(d), zero), 1);
            let (source, _) = f.tile(0, &spot, (zero, 1), None);
            let data = f.load_shaped(source, &[1]);
            let (target, _) = f.tile(1, &spot, (zero, 1), None);
            f.store_shaped(data, target);
            Ok(())
        }
    })
}

/// Elements that are a stick on one side, and the first lanes of as many sticks on the other.
fn gather(
    f: &mut Frame,
    at: &[(usize, Value)],
    (dim, i, n): (usize, Value, i64),
    eps: i64,
) -> Result<(), String> {
    let zero = f.zero;
    let width = f.index(eps);
    let rows = f.b.binary(Kind::MulI, i, width);
    let spot = |d: usize| if d == dim { (rows, n) } else { (place(at, Some(d), zero), 1) };
    let (source, _) = f.tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[n]);
    let (target, _) = f.tile(1, &spot, (i, 1), Some(n));
    f.store_shaped(data, target);
    Ok(())
}

/// A stick, or what is valid of the last one, to its place in the other layout.
fn copy(
    f: &mut Frame,
    at: &[(usize, Value)],
    dim: usize,
    (i, n): (Value, i64),
) -> Result<(), String> {
    let zero = f.zero;
    let spot = |d: usize| (if d == dim { zero } else { place(at, Some(d), zero) }, 1);
    let (source, _) = f.tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[n]);
    let (target, _) = f.tile(1, &spot, (i, 1), Some(n));
    f.store_shaped(data, target);
    Ok(())
}

/// A block of `n` along the lanes of the source and `m` along those of the target.
fn transpose(
    f: &mut Frame,
    at: &[(usize, Value)],
    (a, i, n): (usize, Value, i64),
    (b, j, m): (usize, Value, i64),
    eps: i64,
) -> Result<(), String> {
    let zero = f.zero;
    let width = f.index(eps);
    let first = |f: &mut Frame, block: Value| f.b.binary(Kind::MulI, block, width);
    let rows = first(f, j);
    let spot = |d: usize| if d == b { (rows, m) } else { (place(at, Some(d), zero), 1) };
    let (source, _) = f.tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[m, n]);
    let turned = f.b.transpose(data, &[1, 0]);
    let rows = first(f, i);
    let spot = |d: usize| if d == a { (rows, n) } else { (place(at, Some(d), zero), 1) };
    let (target, _) = f.tile(1, &spot, (j, 1), Some(m));
    f.store_shaped(turned, target);
    Ok(())
}

impl Frame {
    /// A loop over the blocks of a core along a loop: whole ones, then the last one where it is shorter.
    /// The body gets the number of the block and its length.
    fn blocks(
        &mut self,
        l: usize,
        eps: i64,
        body: impl Fn(&mut Frame, Value, i64) -> Result<(), String>,
    ) -> Result<(), String> {
        let size = int(self.spans[l].size);
        let (full, rest) = (size / eps, size % eps);
        let slice = self.slices[l];
        if full > 0 {
            let most = self.index(full);
            let last = self.b.binary(Kind::MinSI, slice.last, most);
            self.each((slice.first, last, self.one), |f, i| body(f, i, eps))?;
        }
        if rest > 0 {
            let tail = self.index(full);
            // The slice that holds the last block has it as its only iteration here.
            let from = self.b.binary(Kind::MaxSI, slice.first, tail);
            self.each((from, slice.last, self.one), |f, i| body(f, i, rest))?;
        }
        Ok(())
    }
}
