//! Iteration spaces: what an operation loops over.

use super::tensor::{Role, Tensor};
use crate::error::{CompileError, Result};
use zellige_device::{Division, Kind, Span};

/// Dimensions of an iteration space at most.
pub(super) const MOST_DIMS: usize = 64;

/// One loop of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dim {
    /// What hints and reports call it.
    pub name: String,
    /// Iterations; of a symbolic dimension the most there can be.
    pub size: u64,
    /// Whether results of different slices have to be combined.
    pub reduced: bool,
    /// Of a symbolic dimension: every size it takes is a multiple of this, so splits divide it.
    pub granularity: Option<u64>,
    /// The only splits that are accepted, where not all are; `[1]` blocks a dimension.
    pub allowed: Option<Vec<u64>>,
}

impl Dim {
    /// A dimension of the result.
    pub fn output(name: impl Into<String>, size: u64) -> Dim {
        Dim { name: name.into(), size, reduced: false, granularity: None, allowed: None }
    }

    /// A dimension that is summed over.
    pub fn reduced(name: impl Into<String>, size: u64) -> Dim {
        Dim { reduced: true, ..Dim::output(name, size) }
    }
}

/// What one point of an iteration space costs the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// What the operation is, for the hardware's figures.
    pub kind: Kind,
    /// Multiply-adds per point.
    pub macs: u64,
    /// Plain element operations per point.
    pub sfu: u64,
    /// Transcendental element operations per point.
    pub transcendental: u64,
}

/// What an operation loops over: dimensions of the result, then reduced ones, and its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    dims: Vec<Dim>,
    /// Per dimension, the iterations that stay together.
    units: Vec<u64>,
    tensors: Vec<Tensor>,
    effort: Effort,
}

impl Space {
    /// Checks the parts against each other. A dimension that runs along lanes counts in sticks, of
    /// the longest ones of the tensors that share it.
    pub fn new(dims: Vec<Dim>, tensors: Vec<Tensor>, effort: Effort) -> Result<Space> {
        if dims.len() > MOST_DIMS {
            let reason = format!("an operation has at most {MOST_DIMS} dimensions");
            return Err(CompileError::BadDim { dim: dims[MOST_DIMS].name.clone(), reason });
        }
        let mut units = vec![1; dims.len()];
        for t in &tensors {
            let terms = t.coordinates.iter().flat_map(|e| &e.terms);
            if let Some(term) = terms.into_iter().find(|term| term.var >= dims.len()) {
                let reason = format!("loop {} of {} is past the last", term.var, dims.len());
                return Err(CompileError::BadTensor { tensor: t.name.clone(), reason });
            }
            let Some(d) = t.stick() else { continue };
            if dims[d].granularity.is_some() {
                let (dim, tensor) = (dims[d].name.clone(), t.name.clone());
                return Err(CompileError::SymbolicStick { dim, tensor });
            }
            units[d] = t.eps().max(units[d]);
        }
        let mut volume = 1_u64;
        for (i, (d, unit)) in dims.iter().zip(&units).enumerate() {
            let bad = |reason: String| CompileError::BadDim { dim: d.name.clone(), reason };
            if dims[..i].iter().any(|e| e.name == d.name) {
                return Err(bad("its name occurs twice; names are different".into()));
            }
            if !d.reduced && dims[..i].iter().any(|e| e.reduced) {
                return Err(bad("dimensions of the result come before reduced ones".into()));
            }
            if d.granularity.is_some_and(|g| g == 0 || d.size % g != 0) {
                let g = d.granularity.unwrap_or(0);
                return Err(bad(format!("granularity {g} must divide max {}", d.size)));
            }
            if d.allowed.as_ref().is_some_and(|a| a.is_empty() || a.contains(&0)) {
                return Err(bad("the accepted splits are 1 or more, and at least one".into()));
            }
            let padded = d.size.div_ceil(*unit).max(1).checked_mul(*unit);
            volume = padded.and_then(|p| volume.checked_mul(p)).ok_or_else(|| {
                CompileError::Overflow { what: format!("the iteration space up to `{}`", d.name) }
            })?;
        }
        let each = [effort.macs, effort.sfu, effort.transcendental].into_iter().max().unwrap_or(0);
        if volume.checked_mul(each.max(8)).is_none() {
            return Err(CompileError::Overflow { what: "the work of the iteration space".into() });
        }
        Ok(Space { dims, units, tensors, effort })
    }

    /// The loops.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// The tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// What a point costs.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Iterations of a dimension that stay together: the lanes of a stick, or 1.
    pub fn unit(&self, dim: usize) -> u64 {
        self.units[dim]
    }

    /// How many units a dimension has: what is split.
    pub fn count(&self, dim: usize) -> u64 {
        self.dims[dim].size.div_ceil(self.units[dim])
    }

    /// Whether a dimension runs along lanes.
    pub fn is_stick(&self, dim: usize) -> bool {
        self.tensors.iter().any(|t| t.stick() == Some(dim))
    }

    /// The number whose divisors cut a dimension evenly.
    pub fn basis(&self, dim: usize) -> u64 {
        self.dims[dim].granularity.unwrap_or_else(|| self.count(dim)).max(1)
    }

    /// The splits up to `most` that cut a dimension evenly and are accepted, ascending.
    pub fn divisors(&self, dim: usize, most: u64) -> Vec<u64> {
        let basis = self.basis(dim);
        let accepted = |s: &u64| self.dims[dim].allowed.as_ref().is_none_or(|a| a.contains(s));
        (1..=most.min(basis)).filter(|s| basis.is_multiple_of(*s)).filter(accepted).collect()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(|d| d.size == 0)
    }

    /// Whether an operand is no part of the sums that the others make, but of what becomes of them:
    /// of the cores that split a sum, only the one that finishes it reads the operand.
    pub fn finishes(&self, tensor: &Tensor) -> bool {
        let summed = |t: &Tensor| (0..self.dims.len()).any(|d| self.dims[d].reduced && t.uses(d));
        tensor.role == Role::Read
            && !summed(tensor)
            && self.tensors.iter().any(|t| t.role == Role::Read && summed(t))
    }

    /// The dimensions as the device divides them.
    pub fn spans(&self) -> Vec<Span> {
        let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let span = |(d, unit): (&Dim, &u64)| Span {
            size: narrow(d.size),
            unit: narrow(*unit),
            reduced: d.reduced,
        };
        self.dims.iter().zip(&self.units).map(span).collect()
    }

    /// The division with these splits, as the device takes it.
    pub fn division(&self, splits: &[u64], cores: usize) -> Result<Division> {
        let narrow = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
        let narrow: Vec<usize> = splits.iter().map(narrow).collect();
        Division::new(&narrow, &self.spans(), cores).map_err(|e| CompileError::BadDim {
            dim: self.dims.first().map_or_else(String::new, |d| d.name.clone()),
            reason: e.to_string(),
        })
    }

    /// Splits with their names, for people.
    pub fn show(&self, splits: &[u64]) -> String {
        let pairs = self.dims.iter().zip(splits).map(|(d, s)| format!("{}={s}", d.name));
        pairs.collect::<Vec<_>>().join(" ")
    }
}
