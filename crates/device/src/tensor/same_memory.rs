//! The memory of a tensor, read in another layout over the same device positions.

use crate::error::{Result, refuse_operand};
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_stick::StickLayout;

impl Tensor {
    /// The same memory as a tensor in `layout`, which is bound to a host of its own: an element of the result is what
    /// is at its device position. Nothing is moved.
    ///
    /// The device dimensions of the two layouts agree where one list splits the dimensions of the other and both
    /// are dense, so that equal positions are equal addresses.
    ///
    /// # Errors
    /// Views; layouts of another format or order in the stick; other device dimensions, or gaps between them.
    pub fn same_memory_in(&self, layout: &StickLayout) -> Result<Tensor> {
        let own = self.stick_layout();
        let no = |reason: String| Err(refuse_operand("a tensor in another layout", None, reason));
        if !self.is_base() {
            return no("it is a view: make it contiguous first".into());
        }
        let (a, b) = (own.device_dtype(), layout.device_dtype());
        if a != b {
            return no(format!("it is stored as {}, and {} is wanted", a.name(), b.name()));
        }
        let (a, b) = (own.arrangement(), layout.arrangement());
        if a != b {
            return no(format!("its sticks are in the order {a}, and {b} is wanted"));
        }
        if !is_dense(own)? || !is_dense(layout)? {
            return no("a layout with gaps between its device dimensions".into());
        }
        let (a, b) = (positions_inside(own), positions_inside(layout));
        if a.last() != b.last() || !(subset(&a, &b) || subset(&b, &a)) {
            let (a, b) = (own.device_size(), layout.device_size());
            return no(format!("its device dimensions are {a:?}, and {b:?} are wanted"));
        }
        let laid = TensorLayout::new(self.storage_policy(), self.dtype(), layout)?;
        Ok(Tensor { laid: Arc::new(laid), ..self.clone() })
    }
}

fn is_dense(layout: &StickLayout) -> Result<bool> {
    let mut inside = 1_i64;
    for (n, stride) in layout.device_size().iter().zip(layout.device_strides()?).rev() {
        if *n != 1 && stride != inside {
            return Ok(false);
        }
        inside = inside.saturating_mul(*n);
    }
    Ok(true)
}

/// The positions that one step of each device dimension passes, innermost first, and all of them last.
fn positions_inside(layout: &StickLayout) -> Vec<i64> {
    let mut inside = 1_i64;
    let long = layout.device_size().iter().rev().filter(|n| **n != 1);
    let steps = long.map(|n| {
        inside = inside.saturating_mul(*n);
        inside
    });
    steps.collect()
}

fn subset(few: &[i64], many: &[i64]) -> bool {
    few.iter().all(|n| many.contains(n))
}
