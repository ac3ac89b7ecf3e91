//! Conversion in bulk: a pair of formats, resolved once to the machine's best kernel.

use std::fmt;

use crate::format::Format;
use crate::kernel::{self, ConvertKernel, KernelPair, RowStrides};
use zellige_isa::Isa;

/// Destinations of at least this many bytes get non-temporal stores from [`Converter::convert`]:
/// they would not stay in the cache, and ordinary stores read every line before they write it.
const STREAM_FROM: usize = 4 << 20;

/// Converts arrays from one format to another.
///
/// Every pair of formats has a meaning (see the [crate documentation](crate)), so construction
/// cannot fail. It looks at the processor once; a call is one indirect jump.
///
/// Law: for every `i < count`, element `i` of the destination is
/// [`D::cast_from`](crate::Element::cast_from) of element `i` of the source, bit for bit, whatever
/// the kernel, the alignment and the count; no other byte is touched.
#[derive(Clone, Copy)]
pub struct Converter {
    src: Format,
    dst: Format,
    isa: Isa,
    pair: KernelPair,
}

/// Why [`Converter::convert`] refused its buffers. Nothing has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConvertError {
    /// A buffer holds fewer bytes than the requested elements.
    TooShort {
        /// Which buffer: "source" or "destination".
        buffer: &'static str,
        /// The format of its elements.
        format: Format,
        /// The requested elements.
        count: usize,
        /// Bytes that it holds.
        bytes: usize,
    },
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConvertError::TooShort { buffer, format, count, bytes } = *self;
        write!(
            f,
            "the {buffer} holds {bytes} bytes, but {count} elements of {format} need {}",
            count as u128 * format.byte_size() as u128
        )
    }
}

impl std::error::Error for ConvertError {}

impl Converter {
    /// The kernels of the instruction set of this process for a pair of formats.
    #[must_use]
    pub fn new(src: Format, dst: Format) -> Converter {
        Self::with_isa(src, dst, Isa::process_isa())
    }

    /// The kernels of one instruction set. For tests and measurements: all of them give the same bits.
    #[must_use]
    pub fn with_isa(src: Format, dst: Format, isa: Isa) -> Converter {
        Converter { src, dst, isa, pair: kernel::select_kernels(src, dst, isa) }
    }

    /// The format that is read.
    #[must_use]
    pub fn src_format(&self) -> Format {
        self.src
    }

    /// The format that is written.
    #[must_use]
    pub fn dst_format(&self) -> Format {
        self.dst
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Converts the first `count` elements of `src` into the first `count` of `dst`.
    ///
    /// # Errors
    /// [`ConvertError::TooShort`] where a buffer does not hold `count` elements; nothing is written then.
    pub fn convert(&self, src: &[u8], dst: &mut [u8], count: usize) -> Result<(), ConvertError> {
        check_buffer_len("source", self.src, src.len(), count)?;
        check_buffer_len("destination", self.dst, dst.len(), count)?;
        let (src, dst, large) =
            (src.as_ptr(), dst.as_mut_ptr(), STREAM_FROM / self.dst.byte_size());
        // SAFETY: both slices hold `count` elements, and a shared and an exclusive borrow do not
        // overlap.
        unsafe {
            if count < large {
                self.convert_raw(src, dst, count);
            } else {
                self.convert_streaming_raw(src, dst, count);
                fence_stores();
            }
        }
        Ok(())
    }

    /// That a source holds `count` elements.
    pub(crate) fn check_source_len(&self, src: &[u8], count: usize) -> Result<(), ConvertError> {
        check_buffer_len("source", self.src, src.len(), count)
    }

    /// Converts `count` elements without any check, through the cache. For callers that have
    /// checked a whole plan and convert row by row; use [`convert`](Converter::convert) otherwise.
    ///
    /// # Safety
    /// `src` must be valid for reads of `count` elements of [`src_format`](Converter::src_format), `dst` for
    /// writes of `count` elements of [`dst_format`](Converter::dst_format), and the two ranges must not overlap.
    /// Any alignment will do.
    #[inline]
    pub unsafe fn convert_raw(&self, src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: the caller promises what kernels ask for; the instruction set was checked when
        // the converter was built.
        unsafe { (self.pair.cached)(src, dst, count) }
    }

    /// Like [`convert_raw`](Converter::convert_raw), with non-temporal stores where the
    /// pair has such a kernel and `dst` is a multiple of 64 or soon gets there: faster for rows of a
    /// destination that is larger than the cache, slower for anything that is read again soon.
    ///
    /// Such stores are not ordered with others: call [`fence_stores`] after the last row, before another
    /// thread may learn of them.
    ///
    /// # Safety
    /// As for [`convert_raw`](Converter::convert_raw).
    #[inline]
    pub unsafe fn convert_streaming_raw(&self, src: *const u8, dst: *mut u8, count: usize) {
        // SAFETY: as in `convert_raw`.
        unsafe { (self.pair.streaming)(src, dst, count) }
    }

    /// [`convert_streaming_raw`](Converter::convert_streaming_raw) at every row.
    ///
    /// # Safety
    /// As for [`convert_raw`](Converter::convert_raw), at every row.
    #[inline]
    pub unsafe fn convert_streaming_rows_raw(
        &self,
        src: *const u8,
        dst: *mut u8,
        count: usize,
        rows: RowStrides,
    ) {
        let whole = (dst.addr() | rows.dst.unsigned_abs()).is_multiple_of(64);
        // SAFETY: as in `convert_raw`; rows of whole steps begin on lines.
        unsafe {
            match self.pair.streaming_rows {
                Some(run) if whole && count.is_multiple_of(32) => run(src, dst, count, rows),
                _ => {
                    for i in 0..rows.count.cast_signed() {
                        let (from, to) = (src.offset(i * rows.src), dst.offset(i * rows.dst));
                        self.convert_streaming_raw(from, to, count);
                    }
                }
            }
        }
    }

    /// The function behind [`convert_raw`](Converter::convert_raw), for a caller that keeps its own
    /// table. It has that function's safety conditions.
    #[must_use]
    pub fn raw_kernel(&self) -> ConvertKernel {
        self.pair.cached
    }
}

/// Orders the stores of [`Converter::convert_streaming_raw`] before all later ones.
#[inline]
pub fn fence_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it only waits.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

fn check_buffer_len(
    buffer: &'static str,
    format: Format,
    bytes: usize,
    count: usize,
) -> Result<(), ConvertError> {
    if count > bytes / format.byte_size() {
        return Err(ConvertError::TooShort { buffer, format, count, bytes });
    }
    Ok(())
}

impl fmt::Debug for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Converter({} -> {}, {:?})", self.src, self.dst, self.isa)
    }
}
