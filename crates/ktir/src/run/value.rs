//! Values while a kernel runs.

use super::access::{KtirAccess, KtirView};
use super::budget::KtirHeldBytes;
use super::exchange::ProduceHandle;
use crate::types::{KtirElem, KtirType};
use std::cell::Cell;
use std::rc::Rc;

/// A value of a core.
#[derive(Debug, Clone)]
pub(super) enum KtirRunValue {
    F(f32),
    I(i64),
    Tile(Rc<KtirTile>),
    View(Rc<KtirView>),
    Access(Rc<KtirAccess>),
    Future(Rc<ProduceHandle>),
}

/// The elements of a tile: floats as float32, integers as 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KtirElements {
    // Every float type of the dialect is exact in float32, and every integer type in 64 bits, so
    // two representations serve all twelve element types; operations round their results to the
    // type.
    F(Vec<f32>),
    I(Vec<i64>),
}

/// A tile, charged to a scratchpad as long as it is referenced.
#[derive(Debug)]
pub(super) struct KtirTile {
    pub(super) shape: Vec<i64>,
    pub(super) data: Rc<KtirElements>,
    pub(super) _charge: ScratchpadCharge,
    pub(super) _held: KtirHeldBytes,
}

/// Bytes of a scratchpad, which are released when this value is dropped.
#[derive(Debug)]
pub(super) struct ScratchpadCharge {
    pub(super) bytes: u64,
    pub(super) used: Rc<Cell<u64>>,
}

impl Drop for ScratchpadCharge {
    fn drop(&mut self) {
        // The charge follows the value and not the operation: a tile that is carried around a loop
        // occupies the scratchpad as long as any name refers to it.
        self.used.set(self.used.get().saturating_sub(self.bytes));
    }
}

impl KtirElements {
    pub(super) fn zeros(elem: KtirElem, n: usize) -> KtirElements {
        if elem.is_float() { KtirElements::F(vec![0.0; n]) } else { KtirElements::I(vec![0; n]) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            KtirElements::F(v) => v.len(),
            KtirElements::I(v) => v.len(),
        }
    }

    /// The elements at these positions.
    pub(super) fn gather(&self, at: impl Iterator<Item = usize>) -> KtirElements {
        match self {
            KtirElements::F(v) => KtirElements::F(at.map(|i| v[i]).collect()),
            KtirElements::I(v) => KtirElements::I(at.map(|i| v[i]).collect()),
        }
    }

    /// Writes the elements of another list to these positions.
    pub(super) fn scatter(&mut self, from: &KtirElements, at: impl Iterator<Item = usize>) {
        match (self, from) {
            (KtirElements::F(to), KtirElements::F(from)) => {
                at.zip(from).for_each(|(i, x)| to[i] = *x);
            }
            (KtirElements::I(to), KtirElements::I(from)) => {
                at.zip(from).for_each(|(i, x)| to[i] = *x);
            }
            _ => {}
        }
    }

    pub(super) fn slice_range(&self, range: std::ops::Range<usize>) -> KtirElements {
        match self {
            KtirElements::F(v) => KtirElements::F(v[range].to_vec()),
            KtirElements::I(v) => KtirElements::I(v[range].to_vec()),
        }
    }

    pub(super) fn append(&mut self, other: &KtirElements) {
        match (self, other) {
            (KtirElements::F(a), KtirElements::F(b)) => a.extend_from_slice(b),
            (KtirElements::I(a), KtirElements::I(b)) => a.extend_from_slice(b),
            _ => {}
        }
    }

    /// Repeats a single element `n` times.
    pub(super) fn broadcast_to(self, n: usize) -> KtirElements {
        match self {
            // Only single elements are repeated; anything else already has the length of the
            // result.
            KtirElements::F(v) if v.len() == 1 && n != 1 => KtirElements::F(vec![v[0]; n]),
            KtirElements::I(v) if v.len() == 1 && n != 1 => KtirElements::I(vec![v[0]; n]),
            other => other,
        }
    }

    pub(super) fn as_floats(&self) -> &[f32] {
        if let KtirElements::F(v) = self { v } else { &[] }
    }

    pub(super) fn as_ints(&self) -> &[i64] {
        if let KtirElements::I(v) = self { v } else { &[] }
    }

    pub(super) fn first_value(&self) -> KtirRunValue {
        match self {
            KtirElements::F(v) => KtirRunValue::F(v.first().copied().unwrap_or(0.0)),
            KtirElements::I(v) => KtirRunValue::I(v.first().copied().unwrap_or(0)),
        }
    }
}

impl KtirRunValue {
    /// Its elements; one for a scalar.
    pub(super) fn to_elements(&self) -> Rc<KtirElements> {
        match self {
            KtirRunValue::F(x) => Rc::new(KtirElements::F(vec![*x])),
            KtirRunValue::I(n) => Rc::new(KtirElements::I(vec![*n])),
            KtirRunValue::Tile(tile) => tile.data.clone(),
            _ => Rc::new(KtirElements::I(Vec::new())),
        }
    }

    pub(super) fn as_int(&self) -> i64 {
        if let KtirRunValue::I(n) = self { *n } else { 0 }
    }

    /// Its shape; empty for a scalar.
    pub(super) fn shape(&self) -> &[i64] {
        if let KtirRunValue::Tile(tile) = self { &tile.shape } else { &[] }
    }
}

/// The number of elements of a shape. The product of all sizes above 0 fits in 64 bits
/// (`check_countable`), and so does the product of some of them.
pub(super) fn element_count(shape: &[i64]) -> usize {
    shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).product()
}

/// Row-major strides.
pub(super) fn row_major_strides(shape: &[i64]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * usize::try_from(shape[d]).unwrap_or(0);
    }
    out
}

/// The offsets that a nest of loops visits: `base + sum(stride * index)`, the last loop innermost.
pub(super) fn nest_offsets(base: usize, loops: &[(usize, usize)]) -> Vec<usize> {
    // An empty loop may stand inside of a huge one.
    // Otherwise the outer loops would allocate their offsets before the empty one removes them all.
    if loops.iter().any(|(n, _)| *n == 0) {
        return Vec::new();
    }
    let mut out = vec![base];
    for (n, stride) in loops {
        let mut next = Vec::with_capacity(out.len() * n);
        for at in &out {
            next.extend((0..*n).map(|i| at + i * stride));
        }
        out = next;
    }
    out
}

/// The bytes that a value of a type takes in a scratchpad.
pub(super) fn bytes_in_scratchpad(ty: &KtirType) -> u64 {
    match ty {
        // Scalars live in registers and views in the kernel's code; only tiles take part of the
        // scratchpad.
        KtirType::Tensor(shape, elem) => {
            (element_count(shape) as u64).saturating_mul(elem.byte_size() as u64)
        }
        _ => 0,
    }
}
