//! Zeroed vectors of lengths that may be refused.

use std::alloc::{Layout, alloc_zeroed};

/// `len` zeroed bytes, or none where the system has not so many.
///
/// For lengths that come from files: a length that no memory holds is then an error, where `vec!` would end the program.
/// Pages that are never touched take no memory; long vectors have huge pages where the system has them.
pub fn try_zeroed_vec(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout has a nonzero size.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    crate::prefer_huge_pages(start, len);
    // SAFETY: `start` was just allocated by the global allocator with the layout of `len` bytes, all of
    // them are initialised to zero, and nothing else owns them.
    Some(unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_nobody_holds_are_refused() {
        assert_eq!(try_zeroed_vec(0), Some(vec![]));
        assert_eq!(try_zeroed_vec(4097), Some(vec![0; 4097]));
        assert_eq!(try_zeroed_vec(usize::MAX), None);
        assert_eq!(try_zeroed_vec(isize::MAX.unsigned_abs()), None);
    }
}
