//! What the operating system knows and the standard library does not ask.

/// The user whose rights this process has: files that it makes belong to that one.
pub fn effective_user() -> u32 {
    // SAFETY: `geteuid` has no preconditions and always succeeds.
    unsafe { libc::geteuid() }
}
