//! Which engine this is.
//!
//! A result that is kept for later is a result of one engine: another build may decide otherwise. So its key
//! holds [`ENGINE`]. It is computed when the engine is built (`build.rs`), and costs nothing at run time.

#![forbid(unsafe_code)]

/// The version, and a BLAKE3 hash of the sources of all crates, the versions of their dependencies, the
/// compiler, the target and its flags.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("ZELLIGE_SOURCES"));

#[cfg(test)]
mod tests {
    #[test]
    fn an_engine_has_a_version_and_a_hash() {
        let (version, hash) = super::ENGINE.split_once(' ').expect("two words");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    }
}
