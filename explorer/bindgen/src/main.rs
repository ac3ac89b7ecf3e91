//! `zellige-bindgen MODULE.wasm FOLDER`: the bindings of a compiled module, for a web page.

use anyhow::{Context, Result};
use std::path::PathBuf;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let usage = "usage: zellige-bindgen MODULE.wasm FOLDER";
    let (module, folder) = arguments.next().zip(arguments.next()).context(usage)?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(&module).typescript(true).omit_default_module_path(true).remove_name_section(true);
    bindgen.web(true)?.generate(&folder).context("cannot write the bindings")
}
