//! Operations element by element.

use super::{Entry, Layer};
use crate::kernels::Kernel;
use crate::kernels::pointwise::{Pointwise, Slices, Yields};
use smallvec::SmallVec;
use std::sync::Arc;

fn pointwise(
    name: &'static str,
    arity: usize,
    float: Option<Slices<f32>>,
    int: Option<Slices<i32>>,
    yields: Yields,
) -> Arc<dyn Kernel> {
    Arc::new(Pointwise {
        name,
        arity,
        float,
        int,
        yields,
        transcendental: false,
        extra: SmallVec::new(),
        silent: 0,
    })
}

pub(super) static TABLE: &[Entry] = &[Entry {
    name: "add",
    operands: &["a", "b"],
    attributes: &[],
    layer: Layer::Native,
    build: |_| {
        Ok(pointwise(
            "add",
            2,
            Some(|x, o| o.iter_mut().zip(x[0].iter().zip(x[1])).for_each(|(o, (a, b))| *o = a + b)),
            Some(|x, o| {
                o.iter_mut()
                    .zip(x[0].iter().zip(x[1]))
                    .for_each(|(o, (a, b))| *o = a.wrapping_add(*b));
            }),
            Yields::Promoted,
        ))
    },
}];
