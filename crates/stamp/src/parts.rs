//! The parts of a crate that it is compiled from, for the build script and for the test that
//! compares them with the sources.

/// Folders and files of a crate whose contents determine the answers of the engine.
// `presets` are the hardware figures that `zellige-machine` includes as text: a changed figure
// changes every predicted time, so results that were kept for another figure must not be found.
pub(crate) const PARTS: [&str; 4] = ["src", "presets", "Cargo.toml", "build.rs"];
