//! Huge pages: fewer faults for memory that is touched for the first time, and fewer TLB misses later.

/// Bytes of a huge page.
pub(crate) const HUGE: usize = 2 << 20;

/// From this many bytes on memory holds a huge page wherever it begins.
const FROM: usize = 2 * HUGE;

/// Asks for huge pages under memory that is about to be written for the first time; small memory, systems
/// without them and a refusal change nothing. Nor do the contents.
pub fn prefer_huge_pages(start: *mut u8, len: usize) {
    if len >= FROM {
        advise(start, len);
    }
}

/// The same for memory that begins on a huge page.
pub(crate) fn advise(start: *mut u8, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 4096;
        let skip = start.addr().wrapping_neg() % PAGE;
        let Some(inside) = len.checked_sub(skip) else { return };
        // SAFETY: the advice changes no contents, wherever it points, and the system refuses what is not
        // mapped or does not begin on one of its pages.
        unsafe {
            libc::madvise(
                start.wrapping_add(skip).cast(),
                inside / PAGE * PAGE,
                libc::MADV_HUGEPAGE,
            );
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, len);
}

/// Lets the system take pages back whenever it is short of memory; until then they stay as they are. What
/// they hold afterwards is what they held, or zeros.
pub(crate) fn lend(start: *mut u8, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the caller of this function in this crate owns the range, which begins on a page, and nobody
    // reads it before it is written anew. A refusal changes nothing.
    unsafe {
        libc::madvise(start.cast(), len, libc::MADV_FREE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_no_contents() {
        let mut memory = vec![7u8; 2 * FROM];
        for (skip, len) in [(0, 0), (1, FROM), (0, 2 * FROM), (4097, FROM + 3), (5, 10)] {
            prefer_huge_pages(memory[skip..].as_mut_ptr(), len);
            advise(memory[skip..].as_mut_ptr(), len);
        }
        assert!(memory.iter().all(|b| *b == 7));
        prefer_huge_pages(std::ptr::without_provenance_mut(64), FROM);
    }
}
