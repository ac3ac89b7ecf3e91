//! The innermost product: a few rows times the columns of some vectors, in registers.
//!
//! **Law**: for `r < rows`, `x < width`, in this order of `p`:
//! `c[r][x] = fma(a[r][p], b[p][x], c[r][x])` for `p` from 0 to `k - 1`; integers wrap. Every
//! instruction set gives these bits (but for the payload of a NaN).

#[cfg(target_arch = "x86_64")]
mod x86;

use super::super::io::KernelNumber;
use zellige_float::Format;
pub(crate) use zellige_isa::Isa;
#[cfg(target_arch = "x86_64")]
use zellige_isa::IsaKind;

/// Elements between rows of a tile of the left operand, and its largest depth.
pub(crate) const DEPTH: usize = 64;

/// A product of fixed shape: depth, left tile, right panel, its width, result, its width.
type MicroKernel<T> = unsafe fn(usize, *const T, *const T, usize, *mut T, usize);

/// A row times a panel as it is stored, as [`zellige_float::RowKernel`] says.
type RowPanelKernel<T> = unsafe fn(usize, *const T, *const u8, *mut T) -> bool;

/// Numbers that are multiplied and added.
pub(crate) trait ProductNumber: KernelNumber + PartialEq + std::fmt::Debug {
    /// The neutral sum.
    const ZERO: Self;
    /// A number of the host.
    fn from_f64(value: f64) -> Self;
    /// The sum, rounded or wrapped.
    fn add_rounded(self, other: Self) -> Self;
    /// The product, rounded or wrapped.
    fn multiply_rounded(self, other: Self) -> Self;
    /// `self * b + c`, rounded once or wrapped.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The value to store in a format: one NaN for all, and a byte of what is an unsigned byte.
    fn stored_value(self, format: Format) -> Self;
    /// Columns of a strip, the most rows, and the product of `rows` rows with such a strip.
    fn pick_kernel(isa: Isa, width: usize, rows: usize) -> (usize, usize, MicroKernel<Self>);
    /// One row times a panel of [`zellige_float::PANEL_COLUMNS`] columns in a format, where there is a kernel.
    fn row_kernel(_: Isa, _: Format) -> Option<RowPanelKernel<Self>> {
        None
    }
}

/// Adds the product of `rows` rows of a tile and a panel of `width` columns to `c`.
///
/// # Safety
/// `a` is readable for `rows` rows of [`DEPTH`], `b` for `k` rows of `width`, `c` writable for
/// `rows` rows of `width`; `k` is at most `DEPTH` and `width` a multiple of 32.
pub(crate) unsafe fn multiply_panel<T: ProductNumber>(
    isa: Isa,
    rows: usize,
    k: usize,
    a: *const T,
    b: *const T,
    width: usize,
    c: *mut T,
) {
    let mut done = 0;
    while done < rows {
        // First how many rows at most, then the kernel for exactly so many: accumulators are registers, so that
        // their number is a constant of a kernel's code.
        let (_, most, _) = T::pick_kernel(isa, width, rows - done);
        let now = most.min(rows - done);
        let (strip, _, micro) = T::pick_kernel(isa, width, now);
        for x in (0..width).step_by(strip) {
            // SAFETY: the rows and columns of the strip are among those of the caller.
            unsafe {
                let c = c.add(done * width + x);
                micro(k, a.add(done * DEPTH), b.add(x), width, c, width);
            }
        }
        done += now;
    }
}

/// The plain loop.
unsafe fn multiply_portable<T: ProductNumber, const M: usize, const V: usize>(
    k: usize,
    a: *const T,
    b: *const T,
    ldb: usize,
    c: *mut T,
    ldc: usize,
) {
    // SAFETY: by the contract of `multiply`.
    unsafe {
        // Sums stay in registers over the whole depth and are loaded and stored once per tile.
        let mut acc = [[T::ZERO; V]; M];
        for (r, row) in acc.iter_mut().enumerate() {
            for (v, x) in row.iter_mut().enumerate() {
                *x = *c.add(r * ldc + v);
            }
        }
        for p in 0..k {
            for (r, row) in acc.iter_mut().enumerate() {
                let left = *a.add(r * DEPTH + p);
                for (v, x) in row.iter_mut().enumerate() {
                    *x = left.mul_add(*b.add(p * ldb + v), *x);
                }
            }
        }
        for (r, row) in acc.iter().enumerate() {
            for (v, x) in row.iter().enumerate() {
                *c.add(r * ldc + v) = *x;
            }
        }
    }
}

fn pick_portable<T: ProductNumber>(rows: usize) -> (usize, usize, MicroKernel<T>) {
    match rows {
        // 16 columns are one register of 512 bits, two of 256 or four of 128, so that the compiler can use any of
        // them.
        1 => (16, 4, multiply_portable::<T, 1, 16>),
        2 => (16, 4, multiply_portable::<T, 2, 16>),
        3 => (16, 4, multiply_portable::<T, 3, 16>),
        _ => (16, 4, multiply_portable::<T, 4, 16>),
    }
}

impl ProductNumber for f32 {
    const ZERO: f32 = 0.0;

    #[allow(clippy::cast_possible_truncation, reason = "factors are rounded to float32 once")]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }

    fn add_rounded(self, other: f32) -> f32 {
        self + other
    }

    fn multiply_rounded(self, other: f32) -> f32 {
        self * other
    }

    fn mul_add(self, b: f32, c: f32) -> f32 {
        f32::mul_add(self, b, c)
    }

    fn stored_value(self, _: Format) -> f32 {
        zellige_math::canonicalize_nan(self)
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "AVX-512 asks"))]
    fn pick_kernel(isa: Isa, width: usize, rows: usize) -> (usize, usize, MicroKernel<f32>) {
        match isa.kind() {
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => x86::float_256(rows),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => x86::float_512(width, rows),
            _ => pick_portable(rows),
        }
    }

    fn row_kernel(isa: Isa, format: Format) -> Option<RowPanelKernel<f32>> {
        zellige_float::select_panel_kernel(format, isa)
    }
}

impl ProductNumber for i32 {
    const ZERO: i32 = 0;

    #[allow(clippy::cast_possible_truncation, reason = "factors were checked to be int32")]
    fn from_f64(value: f64) -> i32 {
        value as i32
    }

    fn add_rounded(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }

    fn multiply_rounded(self, other: i32) -> i32 {
        self.wrapping_mul(other)
    }

    fn mul_add(self, b: i32, c: i32) -> i32 {
        self.wrapping_mul(b).wrapping_add(c)
    }

    fn stored_value(self, format: Format) -> i32 {
        if format == Format::U32 { self & 0xff } else { self }
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "AVX-512 asks"))]
    fn pick_kernel(isa: Isa, width: usize, rows: usize) -> (usize, usize, MicroKernel<i32>) {
        match isa.kind() {
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => x86::int_256(rows),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => x86::int_512(width, rows),
            _ => pick_portable(rows),
        }
    }
}

impl ProductNumber for i64 {
    const ZERO: i64 = 0;

    #[allow(clippy::cast_possible_truncation, reason = "factors were checked to be whole")]
    fn from_f64(value: f64) -> i64 {
        value as i64
    }

    fn add_rounded(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    fn multiply_rounded(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }

    fn mul_add(self, b: i64, c: i64) -> i64 {
        self.wrapping_mul(b).wrapping_add(c)
    }

    fn stored_value(self, _: Format) -> i64 {
        self
    }

    // Only tensors that are stored with 64 bits come here, which is too rare for kernels by hand.
    fn pick_kernel(_: Isa, _: usize, rows: usize) -> (usize, usize, MicroKernel<i64>) {
        pick_portable(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares every instruction set with the law.
    fn follows_the_law<T: ProductNumber>(number: impl Fn(usize) -> T) {
        for isa in Isa::all_available() {
            for width in [32, 64, 128] {
                for (rows, k) in [(1, 64), (2, 5), (7, 64), (12, 1), (13, 0), (25, 63)] {
                    let a: Vec<T> = (0..rows * DEPTH).map(&number).collect();
                    let b: Vec<T> = (0..k * width).map(|i| number(i * 7 + 3)).collect();
                    let start: Vec<T> = (0..rows * width).map(|i| number(i * 5 + 1)).collect();
                    let mut c = start.clone();
                    // SAFETY: the lengths are those of the contract.
                    unsafe {
                        multiply_panel(isa, rows, k, a.as_ptr(), b.as_ptr(), width, c.as_mut_ptr());
                    };
                    for r in 0..rows {
                        for x in 0..width {
                            let mut want = start[r * width + x];
                            for p in 0..k {
                                want = a[r * DEPTH + p].mul_add(b[p * width + x], want);
                            }
                            assert!(c[r * width + x] == want, "{isa:?} {rows}x{width}x{k}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn all_instruction_sets_follow_the_law() {
        follows_the_law(|i| ((i * 2_654_435_761) % 1009) as f32 / 37.0 - 13.0);
        follows_the_law(|i| i32::try_from((i * 2_654_435_761) % (1 << 31)).unwrap());
        follows_the_law(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).cast_signed());
    }
}
