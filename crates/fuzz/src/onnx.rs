//! ONNX models: refused with a message, or imported as a graph that is printed and read back
//! unchanged.

use crate::budget::run_bounded;
use std::collections::BTreeMap;
use zellige_graph::text;
use zellige_onnx::OnnxModel;

pub(crate) fn fuzz_onnx_file(data: &[u8]) {
    let bytes = (1 << 26) + 4000 * data.len();
    let imported = run_bounded("reading a model", bytes, || {
        let model = OnnxModel::read_model(data).ok()?;
        let bind: BTreeMap<String, i64> =
            // 3 differs from the sizes 1 and 2 of broadcasts and pairs, and keeps tensors small.
            model.input_symbols().into_iter().map(|s| (s, 3)).collect();
        Some(model.import_graph(&bind))
    });
    match imported {
        None => {}
        Some(Err(e)) => assert!(!e.to_string().is_empty()),
        Some(Ok(imported)) => {
            let printed = text::print_graph(&imported.graph);
            assert!(
                text::parse(&printed).is_ok_and(|g| g == imported.graph),
                "changed:\n{printed}"
            );
        }
    }
}
