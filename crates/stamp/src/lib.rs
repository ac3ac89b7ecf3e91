//! Identifies this build of the engine.
//!
//! A cached result belongs to one build of the engine, because another build may decide
//! differently. Its key therefore contains [`ENGINE`], which is computed when the engine is built
//! (`build.rs`) and costs nothing at run time.

#![forbid(unsafe_code)]

/// The version, and a BLAKE3 hash of the sources of all crates, the versions of their dependencies, the
/// compiler, the target and its flags.
pub const ENGINE: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("ZELLIGE_SOURCES"));

#[cfg(test)]
mod parts;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    #[test]
    fn an_engine_has_a_version_and_a_hash() {
        let (version, hash) = super::ENGINE.split_once(' ').expect("two words");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    }

    fn list_sources(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let nested = entries.map(|e| e.path()).map(|path| match path.is_dir() {
            true => list_sources(&path),
            false => vec![path],
        });
        nested.flatten().filter(|p| p.extension().is_some_and(|e| e == "rs")).collect()
    }

    /// A text that a source of a crate includes is a part of the engine, so the hash has to cover it.
    #[test]
    fn every_included_file_of_a_crate_is_hashed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("crates");
        let (mut inside, mut presets) = (0, 0);
        for folder in std::fs::read_dir(&root).expect("the folder of all crates") {
            let folder = folder.expect("a crate").path();
            for source in list_sources(&folder.join("src")) {
                let text = std::fs::read_to_string(&source).expect("a source is text");
                for part in ["include_str!(\"", "include_bytes!(\""] {
                    for name in text.split(part).skip(1).filter_map(|rest| rest.split('"').next()) {
                        let file = source.parent().expect("a folder").join(name);
                        let Ok(file) = file.canonicalize() else { continue };
                        // What is outside of the crates, such as the licences, is shown and decides nothing.
                        let Ok(below) = file.strip_prefix(&root) else { continue };
                        let part = below.components().nth(1).expect("a part of a crate");
                        let part = part.as_os_str().to_str().expect("a plain name");
                        assert!(super::parts::PARTS.contains(&part), "{}", below.display());
                        inside += 1;
                        presets += usize::from(part == "presets");
                    }
                }
            }
        }
        assert!(inside >= 4 && presets >= 2, "{inside} included files, {presets} presets");
    }
}
