//! Products of matrices in float32, in the order of the inner dimension.

#![allow(clippy::inline_always, reason = "a formula must join the loop to be vectorised with it")]

use zellige_float::{Isa, IsaKind};
use zellige_math::{IsaLoop, run_for_isa};

/// A product `rows x depth` times `depth x columns`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProductShape {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    /// Whether products of two elements are exact in float32, so that a fused multiply-add has the same bits as a
    /// product and a sum.
    pub(super) exact: bool,
}

/// The columns of the widest block.
pub(super) const MAX_BLOCK_COLUMNS: usize = 32;

/// `sums[i, j] = sum over l of a[i, l] * b[l, j]`, each sum in float32 and in the order of `l`.
///
/// `panel` is room that is reused between products.
pub(super) fn multiply(
    a: &[f32],
    b: &[f32],
    sums: &mut [f32],
    shape: ProductShape,
    panel: &mut Vec<f32>,
) {
    if shape.rows == 0 || shape.columns == 0 {
        return;
    }
    if shape.depth == 0 {
        sums.fill(0.0);
        return;
    }
    let isa = Isa::process_isa();
    // A fused multiply-add is a function call on machines without the instruction, and there two steps have the same
    // bits where products are exact.
    let fused = shape.exact && isa.kind() >= IsaKind::Avx2;
    match (isa.kind(), fused) {
        (IsaKind::Avx512, true) => {
            run_for_isa(isa, ProductLoop::<8, 32, true> { a, b, sums, shape, panel });
        }
        (IsaKind::Avx512, false) => {
            run_for_isa(isa, ProductLoop::<8, 32, false> { a, b, sums, shape, panel });
        }
        (_, true) => run_for_isa(isa, ProductLoop::<4, 16, true> { a, b, sums, shape, panel }),
        (_, false) => run_for_isa(isa, ProductLoop::<4, 16, false> { a, b, sums, shape, panel }),
    }
}

/// Blocks of `M` rows and `N` columns, whose sums stay in registers.
struct ProductLoop<'a, const M: usize, const N: usize, const FUSED: bool> {
    a: &'a [f32],
    b: &'a [f32],
    sums: &'a mut [f32],
    shape: ProductShape,
    panel: &'a mut Vec<f32>,
}

impl<const M: usize, const N: usize, const FUSED: bool> IsaLoop for ProductLoop<'_, M, N, FUSED> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        let ProductShape { rows, depth, columns, .. } = self.shape;
        let panel = self.panel;
        panel.clear();
        panel.resize(depth * N, 0.0);
        let mut from = 0;
        while from < columns {
            let width = N.min(columns - from);
            // The columns of a block one below the other: rows of a wide matrix are whole pages apart, and would share
            // a few sets of the cache.
            for (to, row) in
                panel.as_chunks_mut::<N>().0.iter_mut().zip(self.b.chunks_exact(columns))
            {
                to[..width].copy_from_slice(&row[from..from + width]);
            }
            let panel = panel.as_chunks::<N>().0;
            let mut first = 0;
            while first + M <= rows {
                let block = block_sums::<M, N, FUSED>(&self.a[first * depth..], depth, panel);
                for (i, sums) in block.iter().enumerate() {
                    let at = (first + i) * columns + from;
                    self.sums[at..at + width].copy_from_slice(&sums[..width]);
                }
                first += M;
            }
            while first + 4 <= rows {
                let block = block_sums::<4, N, FUSED>(&self.a[first * depth..], depth, panel);
                for (i, sums) in block.iter().enumerate() {
                    let at = (first + i) * columns + from;
                    self.sums[at..at + width].copy_from_slice(&sums[..width]);
                }
                first += 4;
            }
            while first < rows {
                let [sums] = block_sums::<1, N, FUSED>(&self.a[first * depth..], depth, panel);
                let at = first * columns + from;
                self.sums[at..at + width].copy_from_slice(&sums[..width]);
                first += 1;
            }
            from += width;
        }
    }
}

/// The sums of `M` rows with one panel.
#[inline(always)]
fn block_sums<const M: usize, const N: usize, const FUSED: bool>(
    a: &[f32],
    depth: usize,
    panel: &[[f32; N]],
) -> [[f32; N]; M] {
    let mut sums = [[0.0_f32; N]; M];
    let rows: [&[f32]; M] = std::array::from_fn(|i| &a[i * depth..(i + 1) * depth]);
    for (l, b) in panel.iter().enumerate().take(depth) {
        for i in 0..M {
            let x = rows[i][l];
            for j in 0..N {
                sums[i][j] =
                    if FUSED { x.mul_add(b[j], sums[i][j]) } else { sums[i][j] + x * b[j] };
            }
        }
    }
    sums
}
