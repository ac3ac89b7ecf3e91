//! With the feature `explorer` the page must have been built before the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_EXPLORER").is_none() {
        return;
    }
    let page = "../../explorer/dist/index.html";
    println!("cargo::rerun-if-changed={page}");
    if !std::path::Path::new(page).exists() {
        println!("cargo::error=explorer/dist/index.html is not there: run ./explorer/build first");
    }
}
