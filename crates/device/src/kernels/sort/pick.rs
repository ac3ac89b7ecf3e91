//! The elements of a line in order: all, the first few, or one.

use super::{Keyed, places};
use crate::error::{DeviceError, Result};
use crate::kernels::rows::{Charge, Gives, Line, LineOp, operands, refuse};
use crate::kernels::{Meta, dims};
use crate::sticks::Dims;
use std::sync::Arc;
use zellige_layout::Dtype;

/// Which elements of the sorted line are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All.
    All,
    /// The first `k`.
    First(usize),
    /// The k-th, from 1.
    Kth(usize),
    /// The lower one of those in the middle; the first NaN where there is one.
    Median,
}

/// An operation that sorts lines and gives elements with their indices.
#[derive(Debug, Clone)]
pub(crate) struct Pick {
    pub(crate) name: &'static str,
    /// None: the whole tensor is one line, and only the value is given.
    pub(crate) dim: Option<i64>,
    pub(crate) which: Which,
    pub(crate) descending: bool,
    pub(crate) keepdim: bool,
    pub(crate) gives: Gives,
}

impl LineOp for Pick {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        operands(self.name, inputs, 1, 1)?;
        let Meta { mut size, dtype } = inputs[0].clone();
        let n = match self.dim {
            None => size.iter().product(),
            Some(dim) => dims::one(self.name, "dim", dim, size.len())?.map_or(1, |d| size[d]),
        };
        let (k, named) = match self.which {
            Which::First(k) | Which::Kth(k) => (i64::try_from(k).unwrap_or(i64::MAX), "k"),
            Which::All | Which::Median => (0, ""),
        };
        let least = i64::from(matches!(self.which, Which::Kth(_)));
        if k > n || k < least {
            let reason = format!("{k} is not among the {n} elements; accepted are {least} to {n}");
            return Err(DeviceError::BadAttribute {
                op: self.name.into(),
                name: named.into(),
                reason,
            });
        }
        if self.which == Which::Median && n == 0 {
            return Err(refuse(self.name, Some(0), "it has no elements, and of none no median"));
        }
        if i32::try_from(n).is_err() {
            let reason = format!("a line of {n} elements has indices past 32 bits");
            return Err(refuse(self.name, Some(0), reason));
        }
        match (self.dim, self.which) {
            (None, _) => size.clear(),
            (_, Which::All) => {}
            (Some(dim), which) => {
                if let Some(d) = dims::one(self.name, "dim", dim, size.len())? {
                    match which {
                        Which::First(_) => size[d] = k,
                        _ if self.keepdim => size[d] = 1,
                        _ => drop(size.remove(d)),
                    }
                }
            }
        }
        let of = |dtype| Meta { size: size.clone(), dtype };
        Ok(match self.gives {
            Gives::Values => vec![of(dtype)],
            Gives::Indices => vec![of(Dtype::Int64)],
            Gives::Both => vec![of(dtype), of(Dtype::Int64)],
        })
    }

    fn along(&self, size: &[usize]) -> Result<Dims<usize>> {
        Ok(match self.dim {
            None => (0..size.len()).collect(),
            Some(dim) => dims::one(self.name, "dim", dim, size.len())?.into_iter().collect(),
        })
    }

    fn drops(&self) -> bool {
        !self.keepdim
    }

    fn gives(&self) -> Gives {
        self.gives
    }

    fn charge(&self, n: usize) -> Charge {
        // A sorting network along the lanes: n log2 n comparisons.
        let levels = u64::from(usize::BITS - n.leading_zeros());
        Charge { plain: n as u64 * levels, transcendental: 0 }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }

    fn int(&self) -> Option<Arc<dyn Line<i32>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }

    fn long(&self) -> Option<Arc<dyn Line<i64>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }
}

struct Row {
    which: Which,
    descending: bool,
}

impl<T: Keyed> Line<T> for Row {
    fn run(&self, x: &mut [T], _: &[&[T]], values: &mut [T], indices: &mut [i32]) {
        let (first, k) = match self.which {
            Which::All => (0, x.len()),
            Which::First(k) => (0, k),
            Which::Kth(k) => (k - 1, k),
            Which::Median => {
                let half = x.len().div_ceil(2);
                match x.iter().position(|x| Keyed::is_nan(*x)) {
                    Some(at) => {
                        give(x, &[at], values, indices);
                        return;
                    }
                    None => (half - 1, half),
                }
            }
        };
        let places = places(x, self.descending, k);
        give(x, &places[first..], values, indices);
    }
}

/// Values and indices, where they are wanted.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "lines are shorter")]
fn give<T: Copy>(x: &[T], places: &[usize], values: &mut [T], indices: &mut [i32]) {
    values.iter_mut().zip(places).for_each(|(v, p)| *v = x[*p]);
    indices.iter_mut().zip(places).for_each(|(i, p)| *i = *p as i32);
}
