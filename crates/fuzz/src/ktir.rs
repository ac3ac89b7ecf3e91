//! Tile kernels: refused with a place inside of the text, or written and read back the same; every
//! kernel then ends within a small budget, with arrays or with a fault.

use crate::budget::bounded;
use crate::notation::refused;
use zellige_ktir::{Array, Elem, Module, Run, Scalar, Type, text};

/// What a run may take here.
const STEPS: u64 = 20_000;
const BYTES: u64 = 16 << 20;

pub(crate) fn text(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    // A set of a million points is counted point by point.
    let bytes = (1 << 28) + 2000 * source.len();
    match bounded("reading a module", bytes, || text::parse(source)) {
        Err(d) => refused(source, &d),
        Ok(module) => {
            let printed = text::print(&module);
            assert!(text::parse(&printed).as_ref() == Ok(&module), "changed:\n{printed}");
            runs(&module);
        }
    }
}

fn runs(module: &Module) {
    for f in module.functions.iter().take(4) {
        let mut run = Run::new(module, f.name()).max_steps(STEPS).max_bytes(BYTES);
        let names: Vec<&str> = f.args().iter().map(|v| f.value(*v).name.as_str()).collect();
        let declared = module.view_elements(f.name(), &names);
        for v in f.args() {
            let name = &f.value(*v).name;
            run = match f.ty(*v) {
                Type::Scalar(e) if e.is_float() => run.scalar(name, Scalar::Float(0.5)),
                Type::Scalar(Elem::Index) | Type::RuntimeArg(_) => {
                    let elem = declared.get(name).map_or(Elem::F16, |elems| elems[0]);
                    let bytes = vec![0; 4096 * elem.size()];
                    run.array(name, Array { elem, shape: vec![4096], bytes })
                }
                _ => run.scalar(name, Scalar::Int(3)),
            };
        }
        // The budget is what is kept; one operation may have as much in its hands.
        let allowed = usize::try_from(4 * BYTES).expect("64 MiB");
        let outcome = bounded("a kernel", allowed, || run.execute());
        if let Err(error) = outcome {
            assert!(!error.to_string().is_empty() && !error.fault.kind().is_empty());
        }
    }
}
