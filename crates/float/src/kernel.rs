//! The kernels: one function per pair of formats and instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod direct;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

use crate::arithmetic::{PairArithmetic, PairKernel};
use crate::element::{Bool, Element};
use crate::format::Format;
use crate::row::RowKernel;
use crate::small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};
use zellige_isa::Isa;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::IsaKind;

/// Reads `count` elements at the first pointer and writes as many at the second.
///
/// Safety: the ranges are valid and do not overlap, and the machine has the kernel's instructions.
pub type ConvertKernel = unsafe fn(*const u8, *mut u8, usize);

/// Places of rows: how many, and the bytes from one to the next on either side.
#[derive(Clone, Copy, Debug)]
pub struct RowStrides {
    /// How many rows.
    pub count: usize,
    /// Bytes from one row of the source to the next.
    pub src: isize,
    /// Bytes from one row of the destination to the next.
    pub dst: isize,
}

/// A kernel at every row.
pub(crate) type ConvertRowsKernel = unsafe fn(*const u8, *mut u8, usize, RowStrides);

/// The two ways to write a destination, and the second of them for rows.
#[derive(Clone, Copy)]
pub(crate) struct KernelPair {
    /// With ordinary stores.
    pub(crate) cached: ConvertKernel,
    /// With non-temporal stores where such a kernel exists, otherwise the same function.
    pub(crate) streaming: ConvertKernel,
    /// With non-temporal stores, for short rows that are whole steps; others are left to `streaming`.
    pub(crate) streaming_rows: Option<ConvertRowsKernel>,
}

impl KernelPair {
    fn from_single_kernel(kernel: ConvertKernel) -> KernelPair {
        KernelPair { cached: kernel, streaming: kernel, streaming_rows: None }
    }
}

/// The kernels of a pair: written by hand for this instruction set where that pays, else the
/// portable loop compiled for it.
pub(crate) fn select_kernels(src: Format, dst: Format, isa: Isa) -> KernelPair {
    #[cfg(target_arch = "x86_64")]
    if let Some(pair) = match isa.kind() {
        IsaKind::Avx2 => vector::select_kernels::<avx2::Avx2>(src, dst),
        IsaKind::Avx512 => vector::select_kernels::<avx512::Avx512>(src, dst),
        IsaKind::Baseline | IsaKind::Neon => None,
    } {
        return pair;
    }
    #[cfg(target_arch = "aarch64")]
    if isa.kind() == IsaKind::Neon
        && let Some(pair) = vector::select_kernels::<neon::Neon>(src, dst)
    {
        return pair;
    }
    if src == dst {
        return KernelPair::from_single_kernel(match src.byte_size() {
            1 => copy_elements::<1>,
            2 => copy_elements::<2>,
            4 => copy_elements::<4>,
            _ => copy_elements::<8>,
        });
    }
    KernelPair::from_single_kernel(match src {
        Format::F64 => select_for_dst::<f64>(dst, isa),
        Format::F32 => select_for_dst::<f32>(dst, isa),
        Format::F16 => select_for_dst::<F16>(dst, isa),
        Format::BF16 => select_for_dst::<Bf16>(dst, isa),
        Format::DL16 => select_for_dst::<Dl16>(dst, isa),
        Format::DL16INF => select_for_dst::<Dl16Inf>(dst, isa),
        Format::F8E4M3FN => select_for_dst::<F8E4M3Fn>(dst, isa),
        Format::F8E5M2 => select_for_dst::<F8E5M2>(dst, isa),
        Format::F8E5M2FNUZ => select_for_dst::<F8E5M2Fnuz>(dst, isa),
        Format::I64 => select_for_dst::<i64>(dst, isa),
        Format::I32 => select_for_dst::<i32>(dst, isa),
        Format::I16 => select_for_dst::<i16>(dst, isa),
        Format::I8 => select_for_dst::<i8>(dst, isa),
        Format::U8 => select_for_dst::<u8>(dst, isa),
        Format::U32 => select_for_dst::<u32>(dst, isa),
        Format::Bool => select_for_dst::<Bool>(dst, isa),
    })
}

fn select_for_dst<S: Element>(dst: Format, isa: Isa) -> ConvertKernel {
    match dst {
        Format::F64 => select_for_isa::<S, f64>(isa),
        Format::F32 => select_for_isa::<S, f32>(isa),
        Format::F16 => select_for_isa::<S, F16>(isa),
        Format::BF16 => select_for_isa::<S, Bf16>(isa),
        Format::DL16 => select_for_isa::<S, Dl16>(isa),
        Format::DL16INF => select_for_isa::<S, Dl16Inf>(isa),
        Format::F8E4M3FN => select_for_isa::<S, F8E4M3Fn>(isa),
        Format::F8E5M2 => select_for_isa::<S, F8E5M2>(isa),
        Format::F8E5M2FNUZ => select_for_isa::<S, F8E5M2Fnuz>(isa),
        Format::I64 => select_for_isa::<S, i64>(isa),
        Format::I32 => select_for_isa::<S, i32>(isa),
        Format::I16 => select_for_isa::<S, i16>(isa),
        Format::I8 => select_for_isa::<S, i8>(isa),
        Format::U8 => select_for_isa::<S, u8>(isa),
        Format::U32 => select_for_isa::<S, u32>(isa),
        Format::Bool => select_for_isa::<S, Bool>(isa),
    }
}

fn select_for_isa<S: Element, D: Element>(isa: Isa) -> ConvertKernel {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => avx512::run_portable_loop::<S, D>,
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => avx2::run_portable_loop::<S, D>,
        _ => portable::convert_portably::<S, D>,
    }
}

/// The kernel of a row times a panel, where it is written by hand.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "only x86-64 has some"))]
pub(crate) fn select_row_kernel(format: Format, isa: Isa) -> Option<RowKernel> {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => avx512::row::select_row_kernel(format),
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => avx2::row::select_row_kernel(format),
        _ => None,
    }
}

/// The kernel of an operation on pairs, where it is written by hand.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "only x86-64 has some"))]
pub(crate) fn select_arithmetic_kernel(
    f: PairArithmetic,
    from: Format,
    to: Format,
    isa: Isa,
) -> Option<PairKernel> {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => avx512::arithmetic::select_arithmetic_kernel(f, from, to),
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => avx2::arithmetic::select_arithmetic_kernel(f, from, to),
        _ => None,
    }
}

/// A format to itself.
///
/// # Safety
/// As for every [`ConvertKernel`].
unsafe fn copy_elements<const SIZE: usize>(src: *const u8, dst: *mut u8, count: usize) {
    // SAFETY: the caller promises two valid ranges of `count` elements that do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, count * SIZE) }
}
