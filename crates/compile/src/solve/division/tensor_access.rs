//! The tensors of an operation: the physical coordinates for every point of the iteration space.

use super::iteration_space::LoopDim;
use super::span::{TermReach, find_term_reach};
use crate::error::{CompileError, Result};
use zellige_device::TensorLayout;
use zellige_stick::{AccessExpr, StickLayout, ViewLoop};

/// Which way a tensor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRole {
    /// The operation reads it.
    Read,
    /// The operation writes it.
    Write,
}

/// A tensor of an operation: its physical coordinates for every point of the iteration space.
///
/// Device strides are row-major over `device_size`; the last dimension is the stick of 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorAccess {
    pub(super) name: String,
    pub(super) role: AccessRole,
    pub(super) device_size: Vec<u64>,
    pub(super) coordinates: Vec<AccessExpr>,
    /// Per device dimension, what every core visits of it whatever is split.
    pub(super) whole: Vec<TermReach>,
}

impl TensorAccess {
    /// A tensor in this layout; `steps` is how far one step of every loop moves in the
    /// tensor's own strides, 0 for loops it does not depend on.
    pub fn new(
        name: impl Into<String>,
        role: AccessRole,
        layout: &StickLayout,
        dims: &[LoopDim],
        steps: &[i64],
    ) -> Result<TensorAccess> {
        let name = name.into();
        let loops = dims.iter().zip(steps).map(|(d, step)| {
            let range = i64::try_from(d.size).map_err(|_| CompileError::Overflow {
                what: format!("the size of dimension `{}`", d.name),
            });
            Ok(ViewLoop { range: range?, step: *step })
        });
        let loops: Vec<ViewLoop> = loops.collect::<Result<_>>()?;
        let access = layout.device_access(&loops, 0)?;
        TensorAccess::from_coordinates(
            name,
            role,
            layout.storage_size(),
            access.coordinates().to_vec(),
        )
    }

    /// A tensor by its device sizes and the coordinate in each of them.
    pub fn from_coordinates(
        name: impl Into<String>,
        role: AccessRole,
        device_size: &[i64],
        coordinates: Vec<AccessExpr>,
    ) -> Result<TensorAccess> {
        let name = name.into();
        let bad = |reason: String| CompileError::BadTensor { tensor: name.clone(), reason };
        if device_size.len() != coordinates.len() || device_size.is_empty() {
            let (n, m) = (device_size.len(), coordinates.len());
            return Err(bad(format!("{n} device sizes and {m} coordinates; one each, at least 1")));
        }
        let terms = coordinates.iter().flat_map(|e| &e.terms);
        for t in terms {
            // Coordinates then never fall while a loop counts up, and the first and last point of a slice are the
            // ends of what it visits. Spans and bursts rely on it.
            if t.divisor < 1 || t.multiplier < 0 || t.modulus.is_some_and(|m| m < 1) {
                return Err(bad(format!("term {t}: divisors and moduli are 1 or more")));
            }
        }
        let sizes = device_size.iter().map(|n| u64::try_from(*n));
        let device_size: Vec<u64> = sizes
            .collect::<Result<_, _>>()
            .map_err(|_| bad(format!("device sizes {device_size:?} are 0 or more")))?;
        // A stick is 128 bytes whatever its elements are, so that the bytes of a tensor are those of its sticks.
        let mut sticks = device_size[..device_size.len() - 1].iter();
        let bytes = sticks.try_fold(128_u64, |n, s| n.checked_mul(*s));
        bytes.ok_or_else(|| CompileError::Overflow { what: format!("the bytes of `{name}`") })?;
        let whole = vec![TermReach { extent: 0, distinct: 1 }; device_size.len()];
        Ok(TensorAccess { name, role, device_size, coordinates, whole })
    }

    /// A tensor of an operation of the device: `follows` says which loop each of its dimensions runs along;
    /// one that follows none is visited whole by every core.
    pub(super) fn from_layout(
        name: String,
        role: AccessRole,
        laid: &TensorLayout,
        dims: &[LoopDim],
        follows: &[Option<usize>],
    ) -> Result<TensorAccess> {
        let view = laid.view();
        let extents = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let mut loops: Vec<ViewLoop> =
            dims.iter().map(|d| ViewLoop { range: extents(d.size), step: 0 }).collect();
        for ((follows, size), stride) in follows.iter().zip(view.size()).zip(view.stride()) {
            match follows {
                Some(l) => loops[*l].step += stride,
                // A dimension that no loop follows (the window of a convolution, the table of a gather) becomes a
                // loop of its own, so that the layout can be asked for its coordinates like any other.
                None => loops.push(ViewLoop { range: *size, step: *stride }),
            }
        }
        let access = laid.stick_layout().device_access(&loops, view.offset())?;
        let mut coordinates = access.coordinates().to_vec();
        let mut whole = Vec::with_capacity(coordinates.len());
        for coordinate in &mut coordinates {
            let still = coordinate.terms.iter().filter(|t| t.var >= dims.len());
            whole.push(still.fold(TermReach { extent: 0, distinct: 1 }, |sum, term| {
                let range = u64::try_from(loops[term.var].range).unwrap_or(0);
                let one = find_term_reach(term, &(0..range));
                TermReach {
                    extent: sum.extent.saturating_add(one.extent),
                    distinct: sum.distinct.saturating_mul(one.distinct),
                }
            }));
            // What every core visits whatever is split is counted in `whole`; the terms that stay are those that a
            // split can make smaller.
            coordinate.terms.retain(|t| t.var < dims.len());
        }
        let tensor = TensorAccess::from_coordinates(
            name,
            role,
            laid.stick_layout().storage_size(),
            coordinates,
        )?;
        Ok(TensorAccess { whole, ..tensor })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which way it goes.
    pub fn role(&self) -> AccessRole {
        self.role
    }

    /// Whether its coordinates depend on a loop.
    pub fn depends_on(&self, dim: usize) -> bool {
        self.coordinates.iter().any(|e| e.terms.iter().any(|t| t.var == dim))
    }

    /// Whether neighbouring sticks differ in this loop: its steps are the innermost ones of whole sticks.
    pub(super) fn is_next_to_stick(&self, dim: usize) -> bool {
        let inner = self.coordinates.len().checked_sub(2).map(|at| &self.coordinates[at]);
        inner.is_some_and(|e| e.terms.iter().any(|t| t.var == dim))
    }

    /// The loop that runs along its lanes.
    pub fn stick_loop(&self) -> Option<usize> {
        match self.coordinates.last()?.terms.as_slice() {
            [t] => Some(t.var),
            _ => None,
        }
    }

    /// The stick, in row-major order of the device, that holds the element for a point of the space.
    pub fn stick_index_at(&self, point: &[i64]) -> u64 {
        let last = self.device_size.len() - 1;
        let parts = self.coordinates[..last].iter().zip(&self.device_size);
        parts.fold(0_u64, |at, (e, size)| {
            at.wrapping_mul(*size).wrapping_add(u64::try_from(e.evaluate_at(point)).unwrap_or(0))
        })
    }

    /// Elements in a stick.
    pub fn eps(&self) -> u64 {
        self.device_size.last().copied().unwrap_or(1).max(1)
    }
}
