//! Tile kernels: refused with a place inside of the text, or printed and read back unchanged; every
//! kernel then ends within a small budget, with arrays or with a fault.

use crate::budget::run_bounded;
use crate::notation::check_refusal;
use zellige_ktir::{KtirArray, KtirElem, KtirModule, KtirRun, KtirScalar, KtirType, text};

/// The budget of a run.
// Small enough that one input takes milliseconds: a fuzzer learns from many inputs, not from long
// ones.
const MAX_STEPS: u64 = 20_000;
const MAX_BYTES: u64 = 16 << 20;

pub(crate) fn fuzz_ktir_text(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    // The points of a set may be counted, up to a million of them.
    let bytes = (1 << 28) + 2000 * source.len();
    match run_bounded("reading a module", bytes, || text::parse(source)) {
        Err(d) => check_refusal(source, &d),
        Ok(module) => {
            let printed = text::print_module(&module);
            assert!(text::parse(&printed).as_ref() == Ok(&module), "changed:\n{printed}");
            check_runs(&module);
        }
    }
}

fn check_runs(module: &KtirModule) {
    // A text can hold thousands of functions, each of which would be run.
    for f in module.functions.iter().take(4) {
        let mut run =
            KtirRun::new(module, f.name()).with_max_steps(MAX_STEPS).with_max_bytes(MAX_BYTES);
        let names: Vec<&str> = f.args().iter().map(|v| f.value_def(*v).name.as_str()).collect();
        let declared = module.view_elements(f.name(), &names);
        for v in f.args() {
            let name = &f.value_def(*v).name;
            run = match f.value_type(*v) {
                KtirType::Scalar(e) if e.is_float() => {
                    run.with_scalar(name, KtirScalar::Float(0.5))
                }
                KtirType::Scalar(KtirElem::Index) | KtirType::RuntimeArg(_) => {
                    let elem = declared.get(name).map_or(KtirElem::F16, |elems| elems[0]);
                    let bytes = vec![0; 4096 * elem.byte_size()];
                    run.with_array(name, KtirArray { elem, shape: vec![4096], bytes })
                }
                _ => run.with_scalar(name, KtirScalar::Int(3)),
            };
        }
        // The budget covers what is kept; one operation may hold as much again in intermediate
        // results.
        let allowed = usize::try_from(4 * MAX_BYTES).expect("64 MiB");
        let outcome = run_bounded("a kernel", allowed, || run.execute_kernel());
        if let Err(error) = outcome {
            assert!(!error.to_string().is_empty() && !error.fault.kind().is_empty());
        }
    }
}
