//! Any bytes: they are refused with a message, or they are a graph that is written and read back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use zellige_graph::text;
use zellige_onnx::Model;

fuzz_target!(|file: &[u8]| {
    let Ok(model) = Model::read(file) else { return };
    let bind: BTreeMap<String, i64> = model.symbols().into_iter().map(|s| (s, 3)).collect();
    match model.import(&bind) {
        Err(e) => assert!(!e.to_string().is_empty()),
        Ok(imported) => {
            let printed = text::print(&imported.graph);
            assert!(text::parse(&printed).is_ok_and(|g| g == imported.graph), "changed:\n{printed}");
        }
    }
});
