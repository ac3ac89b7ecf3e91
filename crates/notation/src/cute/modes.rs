//! Modes as numbers: the operands of CuTe's operators.

use super::nest::NestedTuple;
use super::text::{CuteInt, CuteStride, WrittenMode, WrittenModes};
use zellige_layout::int::{checked_product, narrow_to_i64};
use zellige_layout::{Axis, AxisKind, Iter, LayoutError, Result, TileLayout};

/// An extent and its stride.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuteMode {
    /// How many steps.
    pub extent: i64,
    /// The distance of one step.
    pub stride: i64,
    /// The mode of a coordinate that it steps along, outermost first; empty in memory.
    pub basis: Vec<usize>,
}

impl CuteMode {
    /// A mode in memory.
    pub fn new(extent: i64, stride: i64) -> CuteMode {
        CuteMode { extent, stride, basis: Vec::new() }
    }

    /// `1:0`, the mode without a choice.
    pub fn unit_mode() -> CuteMode {
        CuteMode::new(1, 0)
    }
}

/// Nested modes, the first fastest.
pub type CuteModes = NestedTuple<CuteMode>;

/// Whether integers are printed as static ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntegerStyle {
    /// `8`.
    Bare,
    /// `_8`.
    Static,
}

impl CuteModes {
    /// The number of coordinates.
    pub fn size(&self) -> Result<i64> {
        checked_product(self.leaves().iter().map(|m| m.extent), "the number of elements")
    }

    /// One more than the largest offset by CuTe's definition of `cosize`, which counts strides below 0 as 0.
    pub fn cosize(&self) -> Result<i64> {
        if self.size()? == 0 {
            return Ok(0);
        }
        let reach = |m: &&CuteMode| i128::from(m.extent - 1) * i128::from(m.stride.max(0));
        let last: i128 = self.leaves().iter().map(reach).fold(0, i128::saturating_add);
        narrow_to_i64(last.saturating_add(1), "the cosize")
    }

    /// The size of each mode at the top level.
    pub fn mode_sizes(&self) -> Result<Vec<i64>> {
        self.top_modes().iter().map(CuteModes::size).collect()
    }

    /// The text with bare or static integers.
    pub fn print_cute_text(&self, look: IntegerStyle) -> String {
        super::text::print_modes(&self.written_in_style(look))
    }

    /// As it would be written.
    pub fn written_in_style(&self, look: IntegerStyle) -> WrittenModes {
        let int = |v: i64| match look {
            IntegerStyle::Bare => CuteInt::Bare(v),
            IntegerStyle::Static => CuteInt::Static(v),
        };
        self.map_leaves(&mut |m| WrittenMode {
            extent: int(m.extent),
            stride: CuteStride { scale: int(m.stride), basis: m.basis.clone() },
        })
    }

    /// The iters of the algebra: one coordinate per mode at the top level, the first slowest, as a
    /// row-major index has it; inside a mode the first sub-mode is fastest.
    pub(super) fn iters_by_coordinate(&self) -> Result<Vec<Iter>> {
        let axis = self.axis_of_basis()?;
        let mut iters = Vec::new();
        for mode in self.top_modes() {
            for m in mode.leaves().into_iter().rev() {
                iters.push(Iter::new(m.extent, m.stride, axis(&m.basis)?));
            }
        }
        Ok(iters)
    }

    /// The iters of the algebra over coordinates of another shape, which CuTe's index is split over:
    /// the first dimension is fastest.
    pub(super) fn iters_by_shape(&self, shape: &[i64]) -> Result<Vec<Iter>> {
        let turned: Vec<i64> = shape.iter().rev().copied().collect();
        // Errors are about the shape in the caller's order.
        let turned_back = |e: LayoutError| match e {
            LayoutError::SizeMismatch { expected, found, .. } => {
                LayoutError::SizeMismatch { what: format!("shape {shape:?}"), expected, found }
            }
            LayoutError::NotGroupable { dim, boundary, iter, extent, .. } => {
                let dim = shape.len().saturating_sub(dim + 1);
                LayoutError::NotGroupable { shape: shape.to_vec(), dim, boundary, iter, extent }
            }
            other => other,
        };
        let (grouped, seps) =
            self.tile_layout_by_index()?.canonical_form().group(&turned).map_err(turned_back)?;
        let dims = seps.windows(2).rev().map(|ends| &grouped.shard()[ends[0]..ends[1]]);
        Ok(dims.flatten().copied().collect())
    }

    /// The iters of the algebra whose flat index is CuTe's: the first leaf is fastest.
    pub(super) fn iters_by_index(&self) -> Result<Vec<Iter>> {
        let axis = self.axis_of_basis()?;
        let leaves = self.leaves();
        leaves.iter().rev().map(|m| Ok(Iter::new(m.extent, m.stride, axis(&m.basis)?))).collect()
    }

    /// The layout of [`CuteModes::iters_by_index`].
    pub(super) fn tile_layout_by_index(&self) -> Result<TileLayout> {
        TileLayout::from_shard(self.iters_by_index()?)
    }

    /// The axis of each basis; a stride of 0 without a basis steps nowhere, and is on the axis of the others.
    fn axis_of_basis(&self) -> Result<impl Fn(&[usize]) -> Result<Axis>> {
        let leaves = self.leaves();
        let first = leaves.iter().find(|m| !m.basis.is_empty()).map(|m| m.basis.clone());
        if first.is_some() {
            let plain =
                leaves.iter().find(|m| m.basis.is_empty() && m.stride != 0 && m.extent != 1);
            if let Some(m) = plain {
                return Err(LayoutError::BadParameter {
                    what: "a stride without a basis, beside strides with one,",
                    value: m.stride,
                    accepted: format!("write it on a mode of the coordinate: {}@0", m.stride),
                });
            }
            // A coordinate that is a number in one stride and a tuple in another would have two
            // axes for one mode.
            for a in &leaves {
                let Some(mode) = a.basis.last() else { continue };
                let below =
                    |b: &&&CuteMode| b.basis.len() > a.basis.len() && b.basis.starts_with(&a.basis);
                if let Some(b) = leaves.iter().find(below) {
                    return Err(LayoutError::BadParameter {
                        what: "the mode that is a number in one stride and a tuple in another",
                        value: i64::try_from(*mode).unwrap_or(i64::MAX),
                        accepted: format!(
                            "one stride is on {}, another on its part {}: write both on parts",
                            print_basis(&a.basis),
                            print_basis(&b.basis)
                        ),
                    });
                }
            }
        }
        Ok(move |basis: &[usize]| match (&first, basis) {
            (None, _) => Ok(Axis::M),
            (Some(first), []) => axis_of_mode_basis(first),
            (Some(_), basis) => axis_of_mode_basis(basis),
        })
    }
}

fn print_basis(basis: &[usize]) -> String {
    let modes: Vec<String> = basis.iter().rev().map(|m| format!("@{m}")).collect();
    modes.concat()
}

/// The axis that counts along a mode of a coordinate: `crd0`, and `crd0_1` for mode 1 of mode 0.
pub fn axis_of_mode_basis(basis: &[usize]) -> Result<Axis> {
    let parts: Vec<String> = basis.iter().map(usize::to_string).collect();
    Axis::new(&format!("crd{}", parts.join("_")), AxisKind::Memory)
}

/// The mode of a coordinate that an axis counts along; empty for `m`.
pub(super) fn mode_basis_of_axis(axis: Axis) -> Option<Vec<usize>> {
    if axis == Axis::M {
        return Some(Vec::new());
    }
    if !axis.is_memory() {
        return None;
    }
    let basis: Option<Vec<usize>> =
        axis.name().strip_prefix("crd")?.split('_').map(|p| p.parse().ok()).collect();
    basis.filter(|b| axis_of_mode_basis(b).ok() == Some(axis))
}
