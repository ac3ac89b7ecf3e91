//! Meshes of devices, and the numbering of their ranks.

use crate::error::{ReshardError, Result};
use std::fmt;
use zellige_layout::int::checked_product;
use zellige_layout::{Axis, AxisKind, AxisTable, Layout};

/// Device axes with their sizes, slowest first: the rank of a device counts the last axis fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMesh {
    axes: Vec<(Axis, i64)>,
    ranks: i64,
}

impl DeviceMesh {
    /// Checks that the axes are distinct device axes, and that the number of ranks fits in 64 bits.
    pub fn new(axes: Vec<(Axis, i64)>) -> Result<DeviceMesh> {
        for (k, (axis, size)) in axes.iter().enumerate() {
            if axis.kind() != AxisKind::Device {
                let kind = axis.kind().name();
                return Err(ReshardError::Mesh(format!(
                    "`{axis}` is a {kind} axis; the axes of a mesh are device axes"
                )));
            }
            if *size < 1 {
                return Err(ReshardError::Mesh(format!(
                    "mesh axis `{axis}` has {size} devices; at least 1"
                )));
            }
            if axes[..k].iter().any(|(other, _)| other == axis) {
                return Err(ReshardError::Mesh(format!("the mesh has two axes `{axis}`")));
            }
        }
        // Ranks are 64-bit numbers everywhere below, so their count is checked once, here.
        let ranks = checked_product(axes.iter().map(|a| a.1), "the number of devices")?;
        Ok(DeviceMesh { axes, ranks })
    }

    /// Reads `pp=2, tp=4`; a text without an axis is the mesh of one rank.
    ///
    /// # Errors
    /// Parts of the text that are not a name and a size.
    pub fn parse(text: &str) -> Result<DeviceMesh> {
        let mut axes = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let entry = part.split_once('=').and_then(|(name, size)| {
                let size = size.trim().parse::<i64>().ok()?;
                let axis = AxisTable::new().declare_axis(name.trim(), AxisKind::Device).ok()?;
                Some((axis, size))
            });
            let accepted =
                || ReshardError::Mesh(format!("`{part}`: accepted is name=size, as tp=4"));
            axes.push(entry.ok_or_else(accepted)?);
        }
        DeviceMesh::new(axes)
    }

    /// The device axes that a layout mentions, in the order of their names, each as large as the
    /// layout needs.
    pub fn from_layout(layout: &Layout) -> Result<DeviceMesh> {
        let device = |a: &&Axis| a.kind() == AxisKind::Device;
        // A layout does not know the sizes of its axes; the largest coordinate gives the smallest
        // mesh that holds it.
        let size = |a: &Axis| (*a, layout.tile().axis_bounds(*a).max.saturating_add(1).max(1));
        DeviceMesh::new(layout.tile().axes().iter().filter(device).map(size).collect())
    }

    /// The axes and their sizes, slowest first.
    pub fn axes(&self) -> &[(Axis, i64)] {
        &self.axes
    }

    /// The number of ranks.
    pub fn rank_count(&self) -> i64 {
        self.ranks
    }

    /// The number of ranks that one step along an axis adds, if the mesh has the axis.
    pub fn axis_stride(&self, axis: Axis) -> Option<i64> {
        let at = self.axes.iter().position(|(a, _)| *a == axis)?;
        Some(self.axes[at + 1..].iter().map(|(_, n)| n).product())
    }

    /// The coordinates of a rank, in the order of the axes.
    pub fn coordinates_of(&self, rank: i64) -> Vec<i64> {
        let sizes: Vec<i64> = self.axes.iter().map(|(_, n)| *n).collect();
        zellige_layout::unflatten_index(&sizes, rank)
    }
}

impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(|(a, n)| format!("{a}={n}")).collect();
        write!(f, "the mesh [{}]", axes.join(", "))
    }
}
