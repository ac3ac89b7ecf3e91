//! Loading and storing elements: formats become the numbers that kernels compute with, and back.

use zellige_float::{Converter, Format};

/// Where the lanes of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowLanes {
    /// Side by side in sticks of `eps`, which are `stride` elements apart.
    Along {
        /// Lanes of a stick.
        eps: usize,
        /// Elements from one stick to the next.
        stride: usize,
    },
    /// One element for the whole row.
    One,
}

/// The numbers that kernels compute with: float32, int32 and int64 for exact integers, float64
/// where a number of any float format has to pass unchanged.
pub(crate) trait KernelNumber: Copy + Default + Send + Sync + 'static {
    /// The format of the number itself.
    const FORMAT: Format;
}

impl KernelNumber for f32 {
    const FORMAT: Format = Format::F32;
}

impl KernelNumber for i32 {
    const FORMAT: Format = Format::I32;
}

impl KernelNumber for i64 {
    const FORMAT: Format = Format::I64;
}

impl KernelNumber for f64 {
    const FORMAT: Format = Format::F64;
}

/// Reads elements of one format as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementLoader<T> {
    convert: Converter,
    size: usize,
    number: std::marker::PhantomData<T>,
}

/// Writes numbers as elements of one format: one rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementStorer<T> {
    convert: Converter,
    size: usize,
    number: std::marker::PhantomData<T>,
}

impl<T: KernelNumber> ElementLoader<T> {
    /// Elements as the card computes with them for a result in `to`: in its arithmetic DLFloat16 has no infinity, and
    /// the encoding of infinity is the largest number. A result in float32 has infinities of its own and gets those of
    /// its operands, because that number would be read as a finite one there.
    pub(crate) fn new(format: Format, to: Format) -> ElementLoader<T> {
        // The host's float32 has infinities. If the number that encodes one were added up there, the result would
        // be finite and far too large without anybody noticing.
        let own = matches!(to, Format::F32 | Format::F64);
        ElementLoader::with_infinities(if own { format } else { format.arithmetic_format() })
    }

    /// Elements as the host reads them, with infinities.
    pub(crate) fn with_infinities(format: Format) -> ElementLoader<T> {
        let convert = Converter::new(format, T::FORMAT);
        ElementLoader { convert, size: format.byte_size(), number: std::marker::PhantomData }
    }

    /// The format that elements are read as.
    pub(crate) fn format(&self) -> Format {
        self.convert.src_format()
    }

    /// Reads `into.len()` adjacent elements.
    ///
    /// # Safety
    /// They are readable from element `at` of `base` on.
    #[inline]
    pub(crate) unsafe fn load_adjacent(&self, base: *const u8, at: usize, into: &mut [T]) {
        // SAFETY: by the contract of this function, and `into` is as long.
        unsafe {
            let from = base.add(at * self.size);
            // The converter chose its kernel when it was made, so that a row costs one indirect call whatever its
            // format is.
            self.convert.convert_raw(from, into.as_mut_ptr().cast(), into.len());
        }
    }

    /// Reads one element.
    ///
    /// # Safety
    /// It is readable.
    #[inline]
    pub(crate) unsafe fn load_element(&self, base: *const u8, at: usize) -> T {
        let mut value = [T::default()];
        // SAFETY: by the contract of this function.
        unsafe { self.load_adjacent(base, at, &mut value) };
        value[0]
    }

    /// Reads one row of lanes.
    ///
    /// # Safety
    /// Its lanes are readable.
    #[inline]
    pub(crate) unsafe fn load_row(
        &self,
        base: *const u8,
        at: usize,
        kind: RowLanes,
        into: &mut [T],
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            match kind {
                // A broadcast operand is converted once and not once per lane.
                RowLanes::One => into.fill(self.load_element(base, at)),
                RowLanes::Along { eps, stride } => {
                    for (q, piece) in into.chunks_mut(eps).enumerate() {
                        self.load_adjacent(base, at + q * stride, piece);
                    }
                }
            }
        }
    }
}

impl<T: KernelNumber> ElementStorer<T> {
    pub(crate) fn new(format: Format) -> ElementStorer<T> {
        let convert = Converter::new(T::FORMAT, format);
        ElementStorer { convert, size: format.byte_size(), number: std::marker::PhantomData }
    }

    /// The format of the elements.
    pub(crate) fn format(&self) -> Format {
        self.convert.dst_format()
    }

    /// Writes adjacent elements.
    ///
    /// # Safety
    /// They are writable from element `at` of `base` on.
    #[inline]
    pub(crate) unsafe fn store_adjacent(&self, base: *mut u8, at: usize, from: &[T]) {
        // SAFETY: by the contract of this function, and `from` is as long.
        unsafe {
            let to = base.add(at * self.size);
            self.convert.convert_raw(from.as_ptr().cast(), to, from.len());
        }
    }

    /// Writes one row of lanes; of a row of one element, the first.
    ///
    /// # Safety
    /// Its lanes are writable.
    #[inline]
    pub(crate) unsafe fn store_row(&self, base: *mut u8, at: usize, kind: RowLanes, from: &[T]) {
        // SAFETY: by the contract of this function.
        unsafe {
            match kind {
                RowLanes::One => self.store_adjacent(base, at, &from[..1]),
                RowLanes::Along { eps, stride } => {
                    for (q, piece) in from.chunks(eps).enumerate() {
                        self.store_adjacent(base, at + q * stride, piece);
                    }
                }
            }
        }
    }
}
