//! Values while a kernel runs.

use super::access::{Access, View};
use super::budget::Held;
use super::exchange::Handle;
use crate::types::{Elem, Type};
use std::cell::Cell;
use std::rc::Rc;

/// A value of a core.
#[derive(Debug, Clone)]
pub(super) enum Val {
    F(f32),
    I(i64),
    Tile(Rc<Tile>),
    View(Rc<View>),
    Access(Rc<Access>),
    Future(Rc<Handle>),
}

/// Elements: floats as float32, integers as 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    F(Vec<f32>),
    I(Vec<i64>),
}

/// A tile, charged to a scratchpad while it lives.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) shape: Vec<i64>,
    pub(super) data: Rc<Data>,
    pub(super) _charge: Charge,
    pub(super) _held: Held,
}

/// Bytes of a scratchpad, given back in the end.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) bytes: u64,
    pub(super) used: Rc<Cell<u64>>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.set(self.used.get().saturating_sub(self.bytes));
    }
}

impl Data {
    pub(super) fn zeros(elem: Elem, n: usize) -> Data {
        if elem.is_float() { Data::F(vec![0.0; n]) } else { Data::I(vec![0; n]) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Data::F(v) => v.len(),
            Data::I(v) => v.len(),
        }
    }

    /// Elements at places.
    pub(super) fn gather(&self, at: impl Iterator<Item = usize>) -> Data {
        match self {
            Data::F(v) => Data::F(at.map(|i| v[i]).collect()),
            Data::I(v) => Data::I(at.map(|i| v[i]).collect()),
        }
    }

    /// Puts the elements of another at places.
    pub(super) fn scatter(&mut self, from: &Data, at: impl Iterator<Item = usize>) {
        match (self, from) {
            (Data::F(to), Data::F(from)) => at.zip(from).for_each(|(i, x)| to[i] = *x),
            (Data::I(to), Data::I(from)) => at.zip(from).for_each(|(i, x)| to[i] = *x),
            _ => {}
        }
    }

    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> Data {
        match self {
            Data::F(v) => Data::F(v[range].to_vec()),
            Data::I(v) => Data::I(v[range].to_vec()),
        }
    }

    pub(super) fn append(&mut self, other: &Data) {
        match (self, other) {
            (Data::F(a), Data::F(b)) => a.extend_from_slice(b),
            (Data::I(a), Data::I(b)) => a.extend_from_slice(b),
            _ => {}
        }
    }

    /// One element everywhere.
    pub(super) fn spread(self, n: usize) -> Data {
        match self {
            Data::F(v) if v.len() == 1 && n != 1 => Data::F(vec![v[0]; n]),
            Data::I(v) if v.len() == 1 && n != 1 => Data::I(vec![v[0]; n]),
            other => other,
        }
    }

    pub(super) fn floats(&self) -> &[f32] {
        if let Data::F(v) = self { v } else { &[] }
    }

    pub(super) fn ints(&self) -> &[i64] {
        if let Data::I(v) = self { v } else { &[] }
    }

    pub(super) fn first(&self) -> Val {
        match self {
            Data::F(v) => Val::F(v.first().copied().unwrap_or(0.0)),
            Data::I(v) => Val::I(v.first().copied().unwrap_or(0)),
        }
    }
}

impl Val {
    /// Its elements; one for a scalar.
    pub(super) fn data(&self) -> Rc<Data> {
        match self {
            Val::F(x) => Rc::new(Data::F(vec![*x])),
            Val::I(n) => Rc::new(Data::I(vec![*n])),
            Val::Tile(tile) => tile.data.clone(),
            _ => Rc::new(Data::I(Vec::new())),
        }
    }

    pub(super) fn int(&self) -> i64 {
        if let Val::I(n) = self { *n } else { 0 }
    }

    /// Its shape; empty for a scalar.
    pub(super) fn shape(&self) -> &[i64] {
        if let Val::Tile(tile) = self { &tile.shape } else { &[] }
    }
}

/// How many elements a shape has. The product of sizes above 0 fits in 64 bits (`countable`), so
/// that of some of them does.
pub(super) fn count(shape: &[i64]) -> usize {
    shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).product()
}

/// Row-major strides.
pub(super) fn strides(shape: &[i64]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * usize::try_from(shape[d]).unwrap_or(0);
    }
    out
}

/// The places of a nest of loops: `base + sum(stride * index)`, the last loop innermost.
pub(super) fn nest(base: usize, loops: &[(usize, usize)]) -> Vec<usize> {
    // An empty loop may stand inside of a huge one.
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

/// Bytes of a type in a scratchpad.
pub(super) fn bytes(ty: &Type) -> u64 {
    match ty {
        Type::Tensor(shape, elem) => (count(shape) as u64).saturating_mul(elem.size() as u64),
        _ => 0,
    }
}
