//! The lock file, held against the committed notice and `deny.toml`.

use zellige_notices::deny::find_complaints;
use zellige_notices::graph::{CrateGraph, workspace_root};
use zellige_notices::notice;

/// `ZELLIGE_BLESS=1` writes it anew.
#[test]
fn the_notice_is_that_of_the_lock_file() {
    let made = notice::make_notice().expect("every crate has its text");
    let path = workspace_root().join("THIRD-PARTY-NOTICES");
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the notice can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let first = kept.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(
        kept == made,
        "THIRD-PARTY-NOTICES is not that of Cargo.lock, first at {first:?}; \
         ZELLIGE_BLESS=1 cargo test -p zellige-notices writes it anew"
    );
    for name in ["clap ", "serde_json ", "resvg ", "pyo3 ", "wasm-bindgen "] {
        assert!(kept.lines().any(|l| l.starts_with(name)), "{name}is not in the notice");
    }
    for name in ["proptest ", "serde_derive ", "criterion "] {
        assert!(!kept.lines().any(|l| l.starts_with(name)), "{name}is linked into nothing");
    }
}

#[test]
fn licences_sources_and_versions_are_those_of_deny_toml() {
    let deny = std::fs::read_to_string(workspace_root().join("deny.toml")).expect("deny.toml");
    let packages = CrateGraph::ask_cargo(None).expect("the lock file");
    assert_eq!(find_complaints(&deny, &packages), Ok(vec![]));
    // The check sees what it is for.
    let told = |from: &str, to: &str| -> Vec<String> {
        let changed = deny.replace(from, to);
        assert_ne!(changed, deny, "{from}");
        find_complaints(&changed, &packages).expect("the lists are there")
    };
    assert!(told("\"Zlib\",", "").iter().any(|c| c.contains("Zlib is not accepted")));
    assert!(told("https://github.com/rust-lang/", "https://example.org/").len() > 50);
    assert!(told("miniz_oxide@", "miniz_oxid@").iter().any(|c| c.contains("is there as")));
    assert!(find_complaints("[bans]", &packages).is_err());
}
