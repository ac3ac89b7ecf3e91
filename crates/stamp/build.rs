//! Hashes everything that determines the answers of the engine.

#[path = "src/parts.rs"]
mod parts;

use parts::PARTS;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of the environment by which Cargo passes settings on to the compiler.
const SETTINGS: [&str; 6] = [
    "TARGET",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "CARGO_CFG_TARGET_FEATURE",
    "CARGO_ENCODED_RUSTFLAGS",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut crates = list_folder(&root.join("crates"));
    crates.push(root.join("python"));
    let mut places = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    places.extend(crates.iter().flat_map(|c| PARTS.map(|part| c.join(part))));
    places.retain(|place| place.exists());

    // Each part with its length, so that no two lists of parts give the hash the same bytes.
    let mut hash = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    for place in &places {
        println!("cargo::rerun-if-changed={}", place.display());
        for file in list_files(place) {
            // Relative names: the same sources in another folder are the same engine.
            let name = file.strip_prefix(&root).unwrap_or(&file);
            add(name.as_os_str().as_encoded_bytes());
            match std::fs::read(&file) {
                Ok(bytes) => add(&bytes),
                Err(e) => println!("cargo::error={}: {e}", file.display()),
            }
        }
    }
    for name in SETTINGS {
        println!("cargo::rerun-if-env-changed={name}");
        add(std::env::var(name).unwrap_or_default().as_bytes());
    }
    // Another compiler may round or order differently where a program leaves it the choice.
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-vV").output();
    add(&version.map(|out| out.stdout).unwrap_or_default());
    println!("cargo::rustc-env=ZELLIGE_SOURCES={}", hash.finalize().to_hex());
}

/// Lists a file, or all files below a folder, in the same order on every machine.
fn list_files(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        return vec![place.to_path_buf()];
    }
    list_folder(place).iter().flat_map(|inner| list_files(inner)).collect()
}

fn list_folder(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    // File systems list in their own orders, and the hash must not depend on them.
    paths.sort();
    paths
}
