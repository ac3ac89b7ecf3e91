//! Elements looked up by index, and written by index.
//!
//! One form covers `embedding`, `index_select`, `gather`, `index`, and the writes `scatter`,
//! `index_add`, `index_put`: there is a box of iterations, a *plain* tensor that has an element for
//! every iteration (the result of a read, the values of a write), and an *indexed* tensor of which
//! every dimension is either an iteration dimension or looked up in an index tensor. Index tensors
//! are exempt from the rules about sticks.

mod read;
mod write;

use super::TensorPointers;
use super::io::ElementLoader;
use crate::error::Result;
use crate::error::refuse_operand;
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use zellige_float::Dtype;
use zellige_op::{IndexPattern, IndexShape, IndexSource, TensorType};

/// The iterations of a task.
pub(crate) fn resolve_iterations(
    pattern: &IndexPattern,
    op: &str,
    x: &StickForm,
    indices: &[StickForm],
) -> Result<IndexShape> {
    let meta = |s: &StickForm| TensorType {
        size: s.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect(),
        dtype: Dtype::Int64,
    };
    Ok(pattern.resolve_shape(op, &meta(x), &indices.iter().map(meta).collect::<Vec<_>>())?)
}

/// The index tensors on the iterations.
#[derive(Debug, Clone)]
pub(crate) struct IndexTensors {
    /// Expanded to the iterations.
    wide: Vec<StickForm>,
    /// In their own dimensions.
    own: Vec<StickForm>,
    loads: Vec<ElementLoader<i64>>,
    /// Per index tensor, the extent it points into.
    limit: Vec<usize>,
    wraps: bool,
}

impl IndexTensors {
    pub(crate) fn new(shape: &IndexShape, x: &StickForm, indices: &[StickForm]) -> IndexTensors {
        let rank = shape.size.len();
        let mut wide = Vec::new();
        let mut limit = Vec::new();
        for (k, i) in indices.iter().enumerate() {
            let mut w = i.clone();
            w.size = shape.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
            w.stride = SmallVec::from_elem(0, rank);
            w.stick = None;
            for (d, at) in shape.dims[k].iter().enumerate() {
                if i.size[d] == w.size[*at] || i.size[d] > 1 {
                    w.stride[*at] = i.stride[d];
                    // An index tensor of extent 1 along an iteration broadcasts: its stride there stays zero.
                    w.stick = if i.stick == Some(d) { Some(*at) } else { w.stick };
                }
            }
            wide.push(w);
            let pointed = shape.from.iter().position(|f| *f == IndexSource::Index(k));
            limit.push(pointed.map_or(0, |d| x.size[d]));
        }
        let loads = indices.iter().map(|i| ElementLoader::new(i.format, i.format)).collect();
        IndexTensors { wide, own: indices.to_vec(), loads, limit, wraps: shape.wraps }
    }

    /// Whether any of them varies along an iteration dimension.
    pub(crate) fn varies_along(&self, dim: usize) -> bool {
        self.wide.iter().any(|w| w.stride[dim] > 0 || w.stick == Some(dim))
    }

    pub(crate) fn index_forms(&self) -> &[StickForm] {
        &self.own
    }

    /// The position that index tensor `k` holds for an iteration.
    ///
    /// # Safety
    /// `memory` holds the tensors of the operation: the indexed one first, then the indices.
    pub(crate) unsafe fn position_at(
        &self,
        k: usize,
        c: &[usize],
        memory: &TensorPointers,
    ) -> usize {
        // SAFETY: by the contract of this function; the place is inside the index tensor.
        let value = unsafe {
            self.loads[k].load_element(memory.inputs[k + 1], self.wide[k].element_offset(c))
        };
        let n = i64::try_from(self.limit[k]).unwrap_or(i64::MAX);
        // Only some operations count negative indices from the end, as in PyTorch; others have refused them by now.
        let value = if value < 0 && self.wraps { value + n } else { value };
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    /// Refuses the first position that is out of range.
    ///
    /// # Safety
    /// As [`IndexTensors::position_at`].
    pub(crate) unsafe fn check_positions(&self, op: &str, memory: &TensorPointers) -> Result<()> {
        for (k, own) in self.own.iter().enumerate() {
            let n = i64::try_from(self.limit[k]).unwrap_or(i64::MAX);
            let low = if self.wraps { -n } else { 0 };
            let mut c: SmallVec<[usize; 6]> = SmallVec::from_elem(0, own.rank());
            // Every index once, in its own tensor and not in the iterations, in which a broadcast index comes many
            // times.
            for _ in 0..own.numel() {
                // SAFETY: by the contract of this function; `c` is inside the tensor.
                let value = unsafe {
                    self.loads[k].load_element(memory.inputs[k + 1], own.element_offset(&c))
                };
                if value < low || value >= n {
                    let at: Vec<usize> = c.to_vec();
                    let reason = format!(
                        "index {value} at {at:?} is out of range; accepted are {low} to {}",
                        n - 1
                    );
                    return Err(refuse_operand(op, Some(k + 1), reason));
                }
                advance_coordinate(&mut c, &own.size);
            }
        }
        Ok(())
    }
}

/// The next coordinate in row-major order.
pub(crate) fn advance_coordinate(c: &mut [usize], size: &[usize]) {
    for (c, n) in c.iter_mut().zip(size).rev() {
        *c += 1;
        if *c < *n {
            return;
        }
        *c = 0;
    }
}
