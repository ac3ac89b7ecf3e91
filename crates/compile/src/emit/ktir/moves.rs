//! Moves: blocks are loaded, transposed where the lanes change, and stored.

use super::frame::{KtirKernelFrame, loop_index_or_zero, size_to_i64};
use zellige_ktir::{KtirOpKind, KtirValue};

/// Adds the body of a move between two layouts.
pub(super) fn build_move_body(f: &mut KtirKernelFrame) -> Result<(), String> {
    let (from, to) = (f.tensors[0].form.stick, f.tensors[1].form.stick);
    // A move copies bits; only a cast converts them.
    if f.tensors[0].elem != f.tensors[1].elem {
        return Err("its sides have different elements".into());
    }
    let eps = size_to_i64(f.tensors[0].form.eps);
    let blocked = |l: &usize| Some(*l) == from || Some(*l) == to;
    let outer: Vec<usize> = (0..f.spans.len()).filter(|l| !blocked(l)).collect();
    f.add_loop_nest(&outer, &mut Vec::new(), &mut |f, at| match (from, to) {
        (Some(a), Some(b)) if a == b => {
            f.add_block_loop(a, eps, |f, i, n| copy_stick(f, at, a, (i, n)))
        }
        (Some(a), Some(b)) => f.add_block_loop(a, eps, |f, i, n| {
            f.add_block_loop(b, eps, |f, j, m| transpose_block(f, at, (a, i, n), (b, j, m), eps))
        }),
        (Some(d), None) | (None, Some(d)) => {
            f.add_block_loop(d, eps, |f, i, n| gather_lanes(f, at, (d, i, n), eps))
        }
        (None, None) => {
            let zero = f.zero;
            let spot = |d: usize| (loop_index_or_zero(at, Some(d), zero), 1);
            let (source, _) = f.operand_access_tile(0, &spot, (zero, 1), None);
            let data = f.load_shaped(source, &[1]);
            let (target, _) = f.operand_access_tile(1, &spot, (zero, 1), None);
            f.store_shaped(data, target);
            Ok(())
        }
    })
}

/// Elements that are a stick on one side, and the first lanes of as many sticks on the other.
fn gather_lanes(
    f: &mut KtirKernelFrame,
    at: &[(usize, KtirValue)],
    (dim, i, n): (usize, KtirValue, i64),
    eps: i64,
) -> Result<(), String> {
    let zero = f.zero;
    let width = f.index_constant(eps);
    let rows = f.b.binary_op(KtirOpKind::MulI, i, width);
    let spot =
        |d: usize| if d == dim { (rows, n) } else { (loop_index_or_zero(at, Some(d), zero), 1) };
    let (source, _) = f.operand_access_tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[n]);
    let (target, _) = f.operand_access_tile(1, &spot, (i, 1), Some(n));
    f.store_shaped(data, target);
    Ok(())
}

/// A stick, or what is valid of the last one, to its place in the other layout.
fn copy_stick(
    f: &mut KtirKernelFrame,
    at: &[(usize, KtirValue)],
    dim: usize,
    (i, n): (KtirValue, i64),
) -> Result<(), String> {
    let zero = f.zero;
    let spot = |d: usize| (if d == dim { zero } else { loop_index_or_zero(at, Some(d), zero) }, 1);
    let (source, _) = f.operand_access_tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[n]);
    let (target, _) = f.operand_access_tile(1, &spot, (i, 1), Some(n));
    f.store_shaped(data, target);
    Ok(())
}

/// A block of `n` along the lanes of the source and `m` along those of the target.
fn transpose_block(
    f: &mut KtirKernelFrame,
    at: &[(usize, KtirValue)],
    (a, i, n): (usize, KtirValue, i64),
    (b, j, m): (usize, KtirValue, i64),
    eps: i64,
) -> Result<(), String> {
    let zero = f.zero;
    let width = f.index_constant(eps);
    let first =
        |f: &mut KtirKernelFrame, block: KtirValue| f.b.binary_op(KtirOpKind::MulI, block, width);
    let rows = first(f, j);
    let spot =
        |d: usize| if d == b { (rows, m) } else { (loop_index_or_zero(at, Some(d), zero), 1) };
    let (source, _) = f.operand_access_tile(0, &spot, (i, 1), Some(n));
    let data = f.load_shaped(source, &[m, n]);
    // A tile of whole sticks on both sides: lanes of the source become rows of the target, which is what a restickify
    // is.
    let turned = f.b.transpose_tile(data, &[1, 0]);
    let rows = first(f, i);
    let spot =
        |d: usize| if d == a { (rows, n) } else { (loop_index_or_zero(at, Some(d), zero), 1) };
    let (target, _) = f.operand_access_tile(1, &spot, (j, 1), Some(m));
    f.store_shaped(turned, target);
    Ok(())
}

impl KtirKernelFrame {
    /// A loop over the blocks of a core along a loop: whole ones, then the last one where it is shorter.
    /// The body gets the number of the block and its length.
    fn add_block_loop(
        &mut self,
        l: usize,
        eps: i64,
        body: impl Fn(&mut KtirKernelFrame, KtirValue, i64) -> Result<(), String>,
    ) -> Result<(), String> {
        let size = size_to_i64(self.spans[l].size);
        let (full, rest) = (size / eps, size % eps);
        let slice = self.slices[l];
        if full > 0 {
            // Tiles have fixed shapes, so that the last, shorter block needs code of its own, which only the core
            // that has the block runs.
            let most = self.index_constant(full);
            let last = self.b.binary_op(KtirOpKind::MinSI, slice.last, most);
            self.add_loop((slice.first, last, self.one), |f, i| body(f, i, eps))?;
        }
        if rest > 0 {
            let tail = self.index_constant(full);
            // The slice that holds the last block has it as its only iteration here.
            let from = self.b.binary_op(KtirOpKind::MaxSI, slice.first, tail);
            self.add_loop((from, slice.last, self.one), |f, i| body(f, i, rest))?;
        }
        Ok(())
    }
}
