//! Kernels in steps of 32 elements: one driver, and what an instruction set has to give for it.
//!
//! An instruction set ([`VectorIsa`]) reads and writes every format in registers ([`ReadFormat`], [`WriteFormat`]) and
//! has a few operations on 16-bit elements. From these come all pairs: those that meet in binary32 ([`ThroughF32`]) and
//! those that stay in 16 bits ([`direct`]). Loops here are `#[inline(always)]` and called by functions of the instruction set
//! that carry its target features, because only code inlined into such a function may use its instructions.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{KernelPair, RowStrides, direct};
use crate::element::{Bool, Element};
use crate::format::Format;
use crate::small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};

/// Elements per step: those of a cache line of bytes for two stores of AVX2, and of one register of 16-bit elements
/// with AVX-512, so that every pair of formats moves whole registers.
pub(super) const STEP_ELEMENTS: usize = 32;

/// 32 elements at once.
pub(super) trait ConvertStep {
    /// Bytes of a source element.
    const IN: usize;
    /// Bytes of a destination element.
    const OUT: usize;

    /// Converts 32 elements. With `STREAM` the stores bypass the cache, and the bytes that it writes begin at a multiple
    /// of 64, or of 32 where elements have one byte.
    ///
    /// # Safety
    /// The machine has the instructions of the step; `src` and `dst` are valid for 32 elements.
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8);
}

/// An instruction set that reads a format as binary32: exactly, or rounded to odd (64-bit floats, 32- and 64-bit
/// integers).
pub(super) trait ReadFormat<F: Element>: LaneRegisters {
    /// # Safety
    /// The machine has the instructions, and `src` is valid for 32 elements.
    unsafe fn read_lanes(src: *const u8) -> Self::Lanes;
}

/// An instruction set that writes binary32 numbers in a format.
pub(super) trait WriteFormat<F: Element>: LaneRegisters {
    /// # Safety
    /// The machine has the instructions, and `dst` is valid for 32 elements and aligned as [`ConvertStep`] says.
    unsafe fn write_lanes<const STREAM: bool>(dst: *mut u8, lanes: Self::Lanes);
}

/// The registers of an instruction set that hold 32 binary32 numbers.
pub(super) trait LaneRegisters {
    /// 32 binary32 numbers, as bits.
    type Lanes;
}

/// Every source that all instruction sets read exactly.
pub(super) trait ReadExactFormats:
    ReadFormat<f32>
    + ReadFormat<F16>
    + ReadFormat<Bf16>
    + ReadFormat<Dl16>
    + ReadFormat<Dl16Inf>
    + ReadFormat<F8E4M3Fn>
    + ReadFormat<F8E5M2>
    + ReadFormat<F8E5M2Fnuz>
    + ReadFormat<i16>
    + ReadFormat<i8>
    + ReadFormat<u8>
    + ReadFormat<Bool>
{
}

/// Every destination that all instruction sets write.
pub(super) trait WriteFloatFormats:
    WriteFormat<f32>
    + WriteFormat<F16>
    + WriteFormat<Bf16>
    + WriteFormat<Dl16>
    + WriteFormat<Dl16Inf>
    + WriteFormat<F8E4M3Fn>
    + WriteFormat<F8E5M2>
    + WriteFormat<F8E5M2Fnuz>
{
}

/// An instruction set with kernels that are written by hand.
///
/// Its functions are `unsafe` because the machine has to have the instructions; callers promise nothing else but
/// valid pointers where there are some.
pub(super) trait VectorIsa: Sized + ReadExactFormats + WriteFloatFormats {
    /// 32 elements of 16 bits.
    type Words: Copy;
    /// A truth for each of 32 elements.
    type WordMask: Copy;

    /// Bytes of source that a kernel prefetches before it reads them; none where that was slower.
    const PREFETCH_BYTES: Option<usize>;

    /// Prefetches a line of an array that is streamed once.
    unsafe fn prefetch_array_line(at: *const u8);
    /// Prefetches a line of the rows that follow.
    unsafe fn prefetch_row_line(at: *const u8);

    /// Loads 32 elements of 16 bits.
    unsafe fn load_words(src: *const u8) -> Self::Words;
    /// Stores 32 elements of 16 bits, with `STREAM` at a multiple of 64 and bypassing the cache.
    unsafe fn store_words<const STREAM: bool>(dst: *mut u8, words: Self::Words);
    /// The same element everywhere.
    unsafe fn splat_word(word: u16) -> Self::Words;
    /// The bits that both have.
    unsafe fn and_words(a: Self::Words, b: Self::Words) -> Self::Words;
    /// The bits that either has.
    unsafe fn or_words(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Sums, wrapping.
    unsafe fn add_words(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Differences, 0 where they would be negative.
    unsafe fn subtract_saturating(a: Self::Words, b: Self::Words) -> Self::Words;
    /// The smaller ones, unsigned.
    unsafe fn min_words(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Halves, rounded up.
    unsafe fn halve_rounding_up(words: Self::Words) -> Self::Words;
    /// Shifted up by 1, 2 or 3 bits.
    unsafe fn shift_left<const BITS: u32>(words: Self::Words) -> Self::Words;
    /// Shifted down by 2 or 3 bits.
    unsafe fn shift_right<const BITS: u32>(words: Self::Words) -> Self::Words;
    /// Which magnitudes, of at most 15 bits, are at least `low`, which is not 0.
    unsafe fn at_least(magnitude: Self::Words, low: u16) -> Self::WordMask;
    /// Which elements are this one.
    unsafe fn equal_to(words: Self::Words, word: u16) -> Self::WordMask;
    /// Which magnitudes, of at most 15 bits, are at least `low`, which is not 0, and below `high`.
    unsafe fn within(magnitude: Self::Words, low: u16, high: u16) -> Self::WordMask;
    /// Which elements are in either.
    unsafe fn either(a: Self::WordMask, b: Self::WordMask) -> Self::WordMask;
    /// Whether there is any.
    unsafe fn is_any(mask: Self::WordMask) -> bool;
    /// `yes` where the mask holds, else `no`.
    unsafe fn select_words(mask: Self::WordMask, yes: Self::Words, no: Self::Words) -> Self::Words;
    /// The words, and 0 where the magnitude is 0.
    unsafe fn keep_zero(magnitude: Self::Words, words: Self::Words) -> Self::Words;

    /// [`run_steps`] with the instructions.
    unsafe fn run_steps<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize);
    /// Fewer than 32 elements.
    unsafe fn run_short_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize);
    /// [`run_non_temporal`] with the instructions.
    unsafe fn run_non_temporal<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize);
    /// [`run_rows_non_temporal`] with the instructions.
    unsafe fn run_rows_non_temporal<K: ConvertStep>(
        src: *const u8,
        dst: *mut u8,
        count: usize,
        rows: RowStrides,
    );
    /// A step outside of the loop that calls it. It is rare, and inlined it would take registers from the common step.
    unsafe fn run_rare_step<K: ConvertStep, const STREAM: bool>(src: *const u8, dst: *mut u8);

    /// Whether rows are written by [`VectorIsa::run_rows_non_temporal`].
    const STREAMS_ROWS: bool;

    /// A format to itself.
    fn copy_kernels(size: usize) -> KernelPair;
    /// Pairs with steps of the instruction set's own.
    fn select_own_kernels(src: Format, dst: Format) -> Option<KernelPair>;
    /// Further pairs that go through binary32.
    fn select_further_kernels(_src: Format, _dst: Format) -> Option<KernelPair> {
        None
    }
}

/// The pairs of an instruction set that are written by hand.
pub(super) fn select_kernels<I: VectorIsa>(src: Format, dst: Format) -> Option<KernelPair> {
    if src == dst {
        return Some(I::copy_kernels(src.byte_size()));
    }
    // What moves bits in 16-bit elements is faster than the way through binary32, and so is looked up first.
    direct::select_direct_kernels::<I>(src, dst)
        .or_else(|| I::select_own_kernels(src, dst))
        .or_else(|| select_through_kernels::<I>(src, dst))
        .or_else(|| I::select_further_kernels(src, dst))
}

/// The kernels of a step.
pub(super) fn step_kernels<I: VectorIsa, K: ConvertStep>() -> KernelPair {
    KernelPair {
        cached: I::run_steps::<K>,
        streaming: I::run_non_temporal::<K>,
        streaming_rows: if I::STREAMS_ROWS { Some(I::run_rows_non_temporal::<K>) } else { None },
    }
}

/// The step that reads one format and writes another: whatever they are, 32 numbers meet in binary32. That takes a
/// reader and a writer per format, where a step per pair would take their product.
pub(super) struct ThroughF32<I, S, D>(PhantomData<(I, S, D)>);

impl<I, S, D> ConvertStep for ThroughF32<I, S, D>
where
    I: ReadFormat<S> + WriteFormat<D>,
    S: Element,
    D: Element,
{
    const IN: usize = size_of::<S>();
    const OUT: usize = size_of::<D>();

    #[inline(always)]
    unsafe fn convert_step<const STREAM: bool>(src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            let lanes = <I as ReadFormat<S>>::read_lanes(src);
            <I as WriteFormat<D>>::write_lanes::<STREAM>(dst, lanes);
        }
    }
}

/// The pairs that go through binary32 with every instruction set: sources that are exact in it.
fn select_through_kernels<I: VectorIsa>(src: Format, dst: Format) -> Option<KernelPair> {
    match src {
        Format::F32 => select_to_float::<I, f32>(dst),
        Format::F16 => select_to_float::<I, F16>(dst),
        Format::BF16 => select_to_float::<I, Bf16>(dst),
        Format::DL16 => select_to_float::<I, Dl16>(dst),
        Format::DL16INF => select_to_float::<I, Dl16Inf>(dst),
        Format::F8E4M3FN => select_to_float::<I, F8E4M3Fn>(dst),
        Format::F8E5M2 => select_to_float::<I, F8E5M2>(dst),
        Format::F8E5M2FNUZ => select_to_float::<I, F8E5M2Fnuz>(dst),
        Format::I16 => select_to_float::<I, i16>(dst),
        Format::I8 => select_to_float::<I, i8>(dst),
        Format::U8 => select_to_float::<I, u8>(dst),
        Format::Bool => select_to_float::<I, Bool>(dst),
        Format::F64 | Format::I64 | Format::I32 | Format::U32 => None,
    }
}

fn select_to_float<I, S>(dst: Format) -> Option<KernelPair>
where
    I: VectorIsa + ReadFormat<S>,
    S: Element,
{
    if dst == Format::F32 {
        return Some(step_kernels::<I, ThroughF32<I, S, f32>>());
    }
    select_to_small_float::<I, S>(dst)
}

/// Any numbers to floats of 16 and 8 bits: those that were rounded to odd are rounded once there.
pub(super) fn select_to_small_float<I, S>(dst: Format) -> Option<KernelPair>
where
    I: VectorIsa + ReadFormat<S>,
    S: Element,
{
    Some(match dst {
        Format::F16 => step_kernels::<I, ThroughF32<I, S, F16>>(),
        Format::BF16 => step_kernels::<I, ThroughF32<I, S, Bf16>>(),
        Format::DL16 => step_kernels::<I, ThroughF32<I, S, Dl16>>(),
        Format::DL16INF => step_kernels::<I, ThroughF32<I, S, Dl16Inf>>(),
        Format::F8E4M3FN => step_kernels::<I, ThroughF32<I, S, F8E4M3Fn>>(),
        Format::F8E5M2 => step_kernels::<I, ThroughF32<I, S, F8E5M2>>(),
        Format::F8E5M2FNUZ => step_kernels::<I, ThroughF32<I, S, F8E5M2Fnuz>>(),
        _ => return None,
    })
}

/// Steps over the array; the last one is pulled back so that it ends where the array ends. It does
/// some elements twice, to the same result, as source and destination are apart.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel).
#[inline(always)]
pub(super) unsafe fn run_steps<I: VectorIsa, K: ConvertStep>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    if count < STEP_ELEMENTS {
        // SAFETY: the caller's promise is passed on.
        return unsafe { I::run_short_array::<K>(src, dst, count) };
    }
    let last = count - STEP_ELEMENTS;
    let mut at = 0;
    loop {
        // SAFETY: `at + 32 <= count`.
        unsafe { K::convert_step::<false>(src.add(at * K::IN), dst.add(at * K::OUT)) };
        if at == last {
            return;
        }
        at = (at + STEP_ELEMENTS).min(last);
    }
}

/// Room for the elements of a step, of at most 8 bytes each, aligned for every store.
#[repr(align(64))]
struct StepBuffer([MaybeUninit<u8>; STEP_ELEMENTS * 8]);

/// Fewer than 32 elements go through buffers of a whole step.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel), and `count` is less than a step.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "AVX-512 has masks instead"))]
pub(super) unsafe fn run_short_array<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
    if count == 0 {
        return;
    }
    // Any bits are a number to convert, so that nothing is left uninitialised.
    let mut input = StepBuffer([MaybeUninit::zeroed(); STEP_ELEMENTS * 8]);
    let mut output = StepBuffer([MaybeUninit::uninit(); STEP_ELEMENTS * 8]);
    let (input, output) = (input.0.as_mut_ptr().cast::<u8>(), output.0.as_mut_ptr().cast::<u8>());
    // SAFETY: the buffers hold 32 elements of at most 8 bytes, and `count` is less; the arrays hold
    // `count` by the caller's promise. The step writes what is then copied.
    unsafe {
        input.copy_from_nonoverlapping(src, count * K::IN);
        K::convert_step::<false>(input, output);
        dst.copy_from_nonoverlapping(output, count * K::OUT);
    }
}

/// Like [`run_steps`] with non-temporal stores: ordinary stores up to a multiple of 64 bytes and for what is left
/// at the end. The caller fences.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel).
#[inline(always)]
pub(super) unsafe fn run_non_temporal<I: VectorIsa, K: ConvertStep>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    let head = dst.align_offset(64) / K::OUT;
    // An address that no whole number of elements leads to is left to ordinary stores.
    let aligned = dst.addr().wrapping_add(head * K::OUT).is_multiple_of(64);
    if !aligned || count < head + 2 * STEP_ELEMENTS {
        // SAFETY: the caller's promise is passed on.
        return unsafe { I::run_steps::<K>(src, dst, count) };
    }
    if head > 0 {
        // SAFETY: `head < count`.
        unsafe { I::run_steps::<K>(src, dst, head) };
    }
    let steps = (count - head) / STEP_ELEMENTS;
    let mut at = head;
    for _ in 0..steps {
        let from = src.wrapping_add(at * K::IN);
        if let Some(ahead) = I::PREFETCH_BYTES {
            for line in (0..STEP_ELEMENTS * K::IN).step_by(64) {
                // SAFETY: a prefetch of any address is harmless.
                unsafe { I::prefetch_array_line(from.wrapping_add(ahead + line)) };
            }
        }
        // SAFETY: `at + 32 <= count`. The first address is a multiple of 64, and 32 elements are
        // 32 bytes or a multiple of 64.
        unsafe { K::convert_step::<true>(from, dst.add(at * K::OUT)) };
        at += STEP_ELEMENTS;
    }
    if at < count {
        // SAFETY: what is left, inside both ranges.
        unsafe { I::run_steps::<K>(src.add(at * K::IN), dst.add(at * K::OUT), count - at) };
    }
}

/// Rows of whole steps with non-temporal stores, to addresses that are multiples of 64: what a row needs is set up once
/// for all of them. The caller fences.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel), at every row; `count` is a multiple of 32, `dst` and the distance of its rows
/// are multiples of 64.
#[inline(always)]
#[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "NEON streams no rows"))]
pub(super) unsafe fn run_rows_non_temporal<I: VectorIsa, K: ConvertStep>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
    rows: RowStrides,
) {
    // Rows that follow one another are prefetched. Those that are apart are read again a little further on, and the
    // hardware recognises that pattern itself.
    let ahead = I::PREFETCH_BYTES.filter(|_| rows.src == (count * K::IN).cast_signed());
    let (mut from, mut to) = (src, dst);
    for _ in 0..rows.count {
        for at in (0..count).step_by(STEP_ELEMENTS) {
            if let Some(ahead) = ahead {
                let soon = from.wrapping_add(at * K::IN + ahead);
                for line in (0..STEP_ELEMENTS * K::IN).step_by(64) {
                    // SAFETY: a prefetch of any address is harmless.
                    unsafe { I::prefetch_row_line(soon.wrapping_add(line)) };
                }
            }
            // SAFETY: the caller's promise: the step is inside a row.
            unsafe { K::convert_step::<true>(from.add(at * K::IN), to.add(at * K::OUT)) };
        }
        from = from.wrapping_offset(rows.src);
        to = to.wrapping_offset(rows.dst);
    }
}

/// The functions of an instruction set that hold the loops of this file, with its target features.
macro_rules! drivers {
    ($isa:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn run_steps<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
            // SAFETY: the caller's promise is passed on.
            unsafe { vector::run_steps::<$isa, K>(src, dst, count) }
        }

        #[target_feature(enable = $features)]
        unsafe fn run_non_temporal<K: ConvertStep>(src: *const u8, dst: *mut u8, count: usize) {
            // SAFETY: as above.
            unsafe { vector::run_non_temporal::<$isa, K>(src, dst, count) }
        }

        #[target_feature(enable = $features)]
        unsafe fn run_rows_non_temporal<K: ConvertStep>(
            src: *const u8,
            dst: *mut u8,
            count: usize,
            rows: RowStrides,
        ) {
            // SAFETY: as above.
            unsafe { vector::run_rows_non_temporal::<$isa, K>(src, dst, count, rows) }
        }

        #[cold]
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn run_rare_step<K: ConvertStep, const STREAM: bool>(src: *const u8, dst: *mut u8) {
            // SAFETY: as above.
            unsafe { K::convert_step::<STREAM>(src, dst) }
        }
    };
}
pub(super) use drivers;

/// The eight subnormals of E4M3, multiples of 2^-9, as numbers of a wider format: a table that a shuffle looks up.
pub(super) const fn e4m3_subnormals(fraction: u32, bias: u32) -> [u16; 8] {
    let mut table = [0; 8];
    let mut multiple = 1_u32;
    while multiple < 8 {
        let leading = multiple.ilog2();
        let rest = (multiple - (1 << leading)) << (fraction - leading);
        #[allow(clippy::cast_possible_truncation, reason = "a code has 16 bits")]
        let code = (((bias + leading - 9) << fraction) + rest) as u16;
        table[multiple as usize] = code;
        multiple += 1;
    }
    table
}
