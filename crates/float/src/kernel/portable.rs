//! The plain loop over [`Element::cast_from`], which compilers turn into SIMD code.

use std::mem::MaybeUninit;

use crate::element::Element;

/// An element at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct UnalignedElement<T: Copy>(T);

/// Converts with the instructions of the enclosing function: the compiler inlines this loop into
/// functions that may use more than the baseline.
///
/// # Safety
/// As for every [`ConvertKernel`](super::ConvertKernel).
#[inline(always)]
pub(super) unsafe fn convert_portably<S: Element, D: Element>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
) {
    // SAFETY: the caller promises `count` elements at `src`. An `UnalignedElement` has no padding, needs
    // no alignment, and every bit pattern is one of its values, as elements are plain numbers.
    let src = unsafe { std::slice::from_raw_parts(src.cast::<UnalignedElement<S>>(), count) };
    // SAFETY: likewise for `dst`, which does not overlap `src` and need not be initialised.
    let dst = unsafe {
        std::slice::from_raw_parts_mut(dst.cast::<MaybeUninit<UnalignedElement<D>>>(), count)
    };
    convert_slices(src, dst);
}

#[inline(always)]
fn convert_slices<S: Element, D: Element>(
    src: &[UnalignedElement<S>],
    dst: &mut [MaybeUninit<UnalignedElement<D>>],
) {
    for (src, dst) in src.iter().zip(dst) {
        dst.write(UnalignedElement(D::cast_from(src.0)));
    }
}
