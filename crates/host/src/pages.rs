//! Huge pages: fewer faults for memory that is touched for the first time, and fewer TLB misses later.

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory of at least this many bytes contains a whole huge page, wherever it begins.
const MIN_ADVISED_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// Requests huge pages for memory that is about to be written for the first time. Nothing happens for small memory, on
/// systems without huge pages, or when the system refuses; contents never change.
pub fn prefer_huge_pages(start: *mut u8, len: usize) {
    if len >= MIN_ADVISED_BYTES {
        advise_huge_pages(start, len);
    }
}

/// As [`prefer_huge_pages`], for memory of any length that begins on a huge page.
pub(crate) fn advise_huge_pages(start: *mut u8, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let (skip, inside) = whole_pages(start.addr(), len, system_page_bytes());
        // SAFETY: the advice changes no contents, wherever it points, and the system refuses what is not
        // mapped.
        unsafe {
            libc::madvise(start.wrapping_add(skip).cast(), inside, libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, len);
}

/// Lets the system take pages back when it is short of memory; until then they stay as they are. Afterwards they hold
/// what they held, or zeros (`MADV_FREE`, madvise(2)). Pages that are only in part of this memory are left out, because
/// the rest of them may belong to somebody else.
pub(crate) fn lend_pages_to_system(start: *mut u8, len: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let (skip, inside) = whole_pages(start.addr(), len, system_page_bytes());
        // SAFETY: the caller of this function in this crate owns the range, and nobody reads it before it is
        // written anew. A refusal changes nothing.
        unsafe {
            libc::madvise(start.wrapping_add(skip).cast(), inside, libc::MADV_FREE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, len);
}

/// Bytes of a page of this system: 4096 on x86-64; 4, 16 or 64 KiB on AArch64.
#[cfg(all(target_os = "linux", not(miri)))]
fn system_page_bytes() -> usize {
    // SAFETY: `sysconf` has no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // Where the system does not report the size, the largest in use: its multiples are multiples of every other.
    usize::try_from(bytes).ok().filter(|b| b.is_power_of_two()).unwrap_or(64 << 10)
}

/// The whole pages inside some memory: the bytes before the first one, and the bytes of the pages. The system rounds
/// lengths up to pages, so that a length in bytes would include memory of others behind the end.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
fn whole_pages(start: usize, len: usize, page: usize) -> (usize, usize) {
    let skip = start.wrapping_neg() % page;
    if len < skip { (0, 0) } else { (skip, (len - skip) / page * page) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_lie_inside() {
        for page in [4096, 16 << 10, 64 << 10] {
            for start in
                [0, 1, page - 1, page, 5 * page + 16, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 4096]
            {
                for len in
                    [0, 1, page - 1, page, page + 1, 2 * page, 3 * page + 17, HUGE_PAGE_BYTES - 1]
                {
                    let (skip, inside) = whole_pages(start, len, page);
                    assert!(skip + inside <= len && inside.is_multiple_of(page));
                    assert!(inside == 0 || (start + skip).is_multiple_of(page));
                    // No whole page is left out on either side.
                    let first = start.next_multiple_of(page);
                    let end = (start + len) / page * page;
                    assert_eq!(inside, end.saturating_sub(first), "{start} {len} {page}");
                }
            }
        }
    }

    /// Memory right before and behind what is lent keeps its contents when the system takes pages back.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn what_is_lent_ends_with_its_pages() {
        let page = system_page_bytes();
        assert!(page.is_power_of_two() && HUGE_PAGE_BYTES.is_multiple_of(page));
        for (skip, len) in [(0, 2 * page + page / 2), (page / 2, 3 * page), (1, page - 1), (9, 5)] {
            let mut memory = vec![7u8; 6 * page];
            let begin = memory.as_ptr().align_offset(page) + skip;
            lend_pages_to_system(memory[begin..].as_mut_ptr(), len);
            let first = memory.as_ptr().align_offset(page);
            // SAFETY: pages of the vector, whose contents the advice does not change.
            unsafe {
                let first = memory.as_mut_ptr().add(first);
                libc::madvise(first.cast(), 5 * page, libc::MADV_PAGEOUT);
            }
            let outside = memory[..begin].iter().chain(&memory[begin + len..]);
            assert!(outside.into_iter().all(|b| *b == 7), "{len} bytes at {skip}");
        }
    }

    #[test]
    fn advice_changes_no_contents() {
        let mut memory = vec![7u8; 2 * MIN_ADVISED_BYTES];
        for (skip, len) in [
            (0, 0),
            (1, MIN_ADVISED_BYTES),
            (0, 2 * MIN_ADVISED_BYTES),
            (4097, MIN_ADVISED_BYTES + 3),
            (5, 10),
        ] {
            prefer_huge_pages(memory[skip..].as_mut_ptr(), len);
            advise_huge_pages(memory[skip..].as_mut_ptr(), len);
        }
        assert!(memory.iter().all(|b| *b == 7));
        prefer_huge_pages(std::ptr::without_provenance_mut(64), MIN_ADVISED_BYTES);
    }
}
