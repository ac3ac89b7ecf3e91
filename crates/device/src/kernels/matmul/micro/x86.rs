//! Products in vector registers.

use super::{DEPTH, ProductNumber};
use std::arch::x86_64::*;

/// `M` rows and `V` vectors of `$lanes` columns.
macro_rules! tile {
    ($name:ident, $t:ty, $lanes:literal, $features:literal, $load:expr, $store:expr, $splat:expr, $fma:expr) => {
        #[target_feature(enable = $features)]
        unsafe fn $name<const M: usize, const V: usize>(
            k: usize,
            a: *const $t,
            b: *const $t,
            ldb: usize,
            c: *mut $t,
            ldc: usize,
        ) {
            // SAFETY: by the contract of `multiply`; the instructions were detected.
            unsafe {
                let mut acc = [[$splat(<$t>::ZERO); V]; M];
                for (r, row) in acc.iter_mut().enumerate() {
                    for (v, x) in row.iter_mut().enumerate() {
                        *x = $load(c.add(r * ldc + v * $lanes));
                    }
                }
                for p in 0..k {
                    // The columns of one depth are loaded once and used by every row.
                    let mut columns = [$splat(<$t>::ZERO); V];
                    for (v, x) in columns.iter_mut().enumerate() {
                        *x = $load(b.add(p * ldb + v * $lanes));
                    }
                    for (r, row) in acc.iter_mut().enumerate() {
                        let left = $splat(*a.add(r * DEPTH + p));
                        for (x, column) in row.iter_mut().zip(&columns) {
                            *x = $fma(left, *column, *x);
                        }
                    }
                }
                for (r, row) in acc.iter().enumerate() {
                    for (v, x) in row.iter().enumerate() {
                        $store(c.add(r * ldc + v * $lanes), *x);
                    }
                }
            }
        }
    };
}

tile!(
    float512,
    f32,
    16,
    "avx512f",
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps
);
tile!(
    float256,
    f32,
    8,
    "avx2,fma",
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps
);
tile!(
    int512,
    i32,
    16,
    "avx512f",
    |p: *const i32| _mm512_loadu_si512(p.cast()),
    |p: *mut i32, x| _mm512_storeu_si512(p.cast(), x),
    _mm512_set1_epi32,
    |a, b, c| _mm512_add_epi32(_mm512_mullo_epi32(a, b), c)
);
tile!(
    int256,
    i32,
    8,
    "avx2,fma",
    |p: *const i32| _mm256_loadu_si256(p.cast()),
    |p: *mut i32, x| _mm256_storeu_si256(p.cast(), x),
    _mm256_set1_epi32,
    |a, b, c| _mm256_add_epi32(_mm256_mullo_epi32(a, b), c)
);

macro_rules! by_rows {
    ($rows:expr, $name:ident, $v:literal, $last:literal, $($m:literal)*) => {
        match $rows {
            $($m => $name::<$m, $v>,)*
            _ => $name::<$last, $v>,
        }
    };
}

/// 24 accumulators of 512 bits, or 12 of 256.
macro_rules! pick {
    ($pick512:ident, $pick256:ident, $t:ty, $wide:ident, $narrow:ident) => {
        pub(super) fn $pick512(width: usize, rows: usize) -> (usize, usize, super::MicroKernel<$t>) {
            // Of 32 registers 24 hold sums, the others columns and a number of the row. Six rows of four vectors
            // load 10 values for 24 products, 12 rows of two vectors 14, so that wide panels take the first shape.
            if width.is_multiple_of(64) {
                (64, 6, by_rows!(rows, $wide, 4, 6, 1 2 3 4 5))
            } else {
                (32, 12, by_rows!(rows, $wide, 2, 12, 1 2 3 4 5 6 7 8 9 10 11))
            }
        }

        pub(super) fn $pick256(rows: usize) -> (usize, usize, super::MicroKernel<$t>) {
            // Of 16 registers 12 hold sums: three rows of four vectors, or six rows of two.
            if rows <= 3 {
                (32, 3, by_rows!(rows, $narrow, 4, 3, 1 2))
            } else {
                (16, 6, by_rows!(rows, $narrow, 2, 6, 4 5))
            }
        }
    };
}

pick!(float_512, float_256, f32, float512, float256);
pick!(int_512, int_256, i32, int512, int256);
