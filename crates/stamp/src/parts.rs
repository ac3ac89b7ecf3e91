//! What a crate is compiled from, for the build script and for the test that holds it against the sources.

/// Folders and files of a crate whose contents decide what the engine answers.
// `presets` are the hardware figures that `zellige-machine` includes as text: a changed figure
// changes every predicted time, so results that were kept for another figure must not be found.
pub const PARTS: [&str; 4] = ["src", "presets", "Cargo.toml", "build.rs"];
