//! Matrix products: blocks of rows times one stick of columns, stick by stick along the sum.

use super::frame::{KtirKernelFrame, loop_index_or_zero, size_to_i64};
use zellige_ktir::{KtirElem, KtirOpKind, KtirValue};

/// Rows of a block at most.
// A block of A, a stick of columns of B and the sums of both in float32 have to fit into the scratchpad together.
const MAX_BLOCK_ROWS: i64 = 64;

/// Adds the body of a product `C[m, n] = A[m, k] B[k, n]`, with an addend where there is one.
pub(super) fn build_product_body(f: &mut KtirKernelFrame) -> Result<(), String> {
    let depth = f.spans.len() - 1;
    let column = depth.checked_sub(1).ok_or("its result has no columns")?;
    let lanes = |f: &KtirKernelFrame, t: usize| {
        let t = &f.tensors[t];
        t.form.stick.and_then(|d| t.follows[d])
    };
    let out = f.tensors.len() - 1;
    // The rule of the matrix engine for `C[m, n] = A[m, k] B[k, n]`: A has its lanes along k, and B and C along n.
    let wanted = [(0, depth), (1, column), (out, column)];
    if let Some((t, _)) = wanted.iter().find(|(t, l)| lanes(f, *t) != Some(*l)) {
        return Err(format!("operand {t} is not in the layout that products need"));
    }
    if out == 3 && lanes(f, 2) != Some(column) {
        return Err("the lanes of its addend are not along the columns".into());
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
        // A divisor of the rows of a core, so that every block has the same shape.
        .map_or(1, |n| (1..=n.min(MAX_BLOCK_ROWS)).rev().find(|r| n % r == 0).unwrap_or(1));
    let outer: Vec<usize> = (0..column).filter(|l| Some(*l) != row).collect();
    let k = f.spans[depth].size;
    let (full, rest) = (size_to_i64(k / eps), size_to_i64(k % eps));
    let (eps, group) = (size_to_i64(eps), f.splits[depth]);
    f.add_loop_nest(&outer, &mut Vec::new(), &mut |f, at| {
        let block = |f: &mut KtirKernelFrame, first: KtirValue| -> Result<(), String> {
            let slice = f.slices[column];
            f.add_loop((slice.first, slice.last, f.one), |f, stick| {
                let mut at = at.to_vec();
                at.extend(row.map(|l| (l, first)));
                let parts = ProductTile { at: &at, row, column, depth, high, stick, eps };
                let zero = f.b.float_tile(0.0, &[high, eps], KtirElem::F32);
                let mut acc = parts.sum_sticks(f, zero, (full, rest));
                // The sum is split over cores: partial sums meet before the addend is added, which would otherwise be
                // counted once per core.
                if group > 1 {
                    acc = f.combine_across_cores(KtirOpKind::AddF, acc, zero, group);
                }
                if out == 3 {
                    let (tile, n) = parts.block_tile(f, 2);
                    let elem = f.tensors[2].elem;
                    let addend = f.load_float32(tile, &[n / eps, eps], elem);
                    let addend = if n == high * eps {
                        addend
                    } else {
                        let flat = f.b.reassociate_tile(addend, &[vec![0, 1]], &[eps]);
                        f.b.broadcast_tile(flat, &[high, eps], &[0])
                    };
                    acc = f.b.binary_op(KtirOpKind::AddF, acc, addend);
                }
                f.run_on_first_core(&[depth], |f| {
                    let (tile, _) = parts.block_tile(f, out);
                    f.store_rounded(acc, tile);
                });
                Ok(())
            })
        };
        let Some(l) = row else { return block(f, f.zero) };
        let slice = f.slices[l];
        let step = f.index_constant(high);
        f.add_loop((slice.first, slice.last, step), block)
    })
}

/// Where a block is.
struct ProductTile<'a> {
    at: &'a [(usize, KtirValue)],
    row: Option<usize>,
    column: usize,
    depth: usize,
    high: i64,
    stick: KtirValue,
    eps: i64,
}

impl ProductTile<'_> {
    /// A block of rows of one stick of columns, and how many elements it has.
    fn block_tile(&self, f: &mut KtirKernelFrame, t: usize) -> (KtirValue, i64) {
        let (follows, zero) = (f.tensors[t].follows.clone(), f.zero);
        let at = |d: usize| {
            let l = follows[d];
            let extent = if l.is_some() && l == self.row { self.high } else { 1 };
            (loop_index_or_zero(self.at, l, zero), extent)
        };
        let (tile, extents) = f.operand_access_tile(t, &at, (self.stick, 1), None);
        (tile, extents.iter().product())
    }

    /// The sum of a core: whole sticks, then what is valid of the last one where the core has it.
    fn sum_sticks(
        &self,
        f: &mut KtirKernelFrame,
        zero: KtirValue,
        (full, rest): (i64, i64),
    ) -> KtirValue {
        let slice = f.slices[self.depth];
        let mut acc = zero;
        if full > 0 {
            let mut last = slice.last;
            if rest > 0 {
                let most = f.index_constant(full);
                last = f.b.binary_op(KtirOpKind::MinSI, last, most);
            }
            acc = f.add_carrying_loop((slice.first, last, f.one), &[acc], |f, i, inner| {
                vec![self.add_stick_product(f, i, self.eps, inner[0])]
            })[0];
        }
        if rest > 0 {
            let tail = f.index_constant(full);
            let from = f.b.binary_op(KtirOpKind::MaxSI, slice.first, tail);
            acc = f.add_carrying_loop((from, slice.last, f.one), &[acc], |f, i, inner| {
                vec![self.add_stick_product(f, i, rest, inner[0])]
            })[0];
        }
        acc
    }

    /// Adds the product of stick `i` of the sum, of which `n` are valid.
    fn add_stick_product(
        &self,
        f: &mut KtirKernelFrame,
        i: KtirValue,
        n: i64,
        acc: KtirValue,
    ) -> KtirValue {
        let (follows, zero, elem) = (f.tensors[0].follows.clone(), f.zero, f.tensors[0].elem);
        let at = |d: usize| {
            let l = follows[d];
            let extent = if l.is_some() && l == self.row { self.high } else { 1 };
            (loop_index_or_zero(self.at, l, zero), extent)
        };
        let (tile, _) = f.operand_access_tile(0, &at, (i, 1), Some(n));
        let a = f.load_float32(tile, &[self.high, n], elem);
        let width = f.index_constant(self.eps);
        let first = f.b.binary_op(KtirOpKind::MulI, i, width);
        let (follows, elem) = (f.tensors[1].follows.clone(), f.tensors[1].elem);
        let at = |d: usize| match follows[d] {
            Some(l) if l == self.depth => (first, n),
            Some(l) if l == self.column => (zero, 1),
            l => (loop_index_or_zero(self.at, l, zero), 1),
        };
        let (tile, _) = f.operand_access_tile(1, &at, (self.stick, 1), None);
        // Only the valid rows of B: the tile of A has as many columns, so that padding meets no padding.
        let b = f.load_float32(tile, &[n, self.eps], elem);
        f.b.matmul(a, b, acc)
    }
}
