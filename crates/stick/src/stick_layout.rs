//! A device layout: its fields, and what follows from them.

use crate::error::{Result, StickError};
use crate::{DataFormat, LaneArrangement, STICK_BYTES};
use std::fmt;
use std::hash::{Hash, Hasher};
use zellige_layout::LayoutError;
use zellige_layout::StridedLayout;
use zellige_layout::int::{checked_product, narrow_to_i64};

/// A device layout: sizes, the host stride of one step in each device dimension, and the format.
///
/// Device strides are row-major over `device_size`, unless strides that leave gaps were given
/// ([`StickLayout::with_device_strides`]). The last dimension is the stick, or the last ones together
/// ([`StickLayout::with_stick_dims`]). An entry of `stride_map` is a stride in the tensor's own strides
/// ([`StridedLayout::own_strides`]); -1 marks a synthetic dimension or one of host size 1, and 0 a
/// broadcast host dimension.
///
/// **The identity**: the element at device coordinates `c` is the one at own-stride offset
/// `dot(c, stride_map)`, entries of -1 left out. The identity does not determine which positions are
/// padding, because the lanes past the end of a row have the offsets of the next row. That needs the host's
/// sizes, which a layout knows once it is bound to its host (the constructors from a size bind;
/// [`StickLayout::with_host`] binds an explicit one).
///
/// Equality and hash look at the fields that describe the device side. The binding is
/// knowledge about one tensor, not part of the layout: an explicit layout equals a derived one
/// with the same fields.
///
/// ```
/// use zellige_float::Dtype;
/// use zellige_layout::Axis;
/// use zellige_stick::StickLayout;
/// let l = StickLayout::default_for_dtype(&[5, 100, 150], Dtype::Float16)?;
/// assert_eq!(l.device_size(), [100, 3, 5, 64]);
/// assert_eq!(l.stride_map(), [150, 64, 15000, 1]);
/// let lowered = l.lower_to_layout()?;
/// let found = lowered.apply_to_coordinate(&[5, 100, 150], &[4, 7, 130])?.sorted_coordinates();
/// let position = found[0].get(Axis::M);
/// assert_eq!(position, ((7 * 3 + 2) * 5 + 4) * 64 + 2);
/// let map = l.build_padding_map()?;
/// assert_eq!(map.element_at(position)?, Some((4 * 100 + 7) * 150 + 130));
/// assert_eq!(map.count_padding(), 100 * 3 * 5 * 64 - 5 * 100 * 150);
/// # Ok::<(), zellige_stick::StickError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StickLayout {
    pub(crate) device_size: Vec<i64>,
    pub(crate) stride_map: Vec<i64>,
    pub(crate) format: DataFormat,
    pub(crate) arrangement: LaneArrangement,
    /// How many of the last device dimensions are the stick; 1 or more.
    pub(crate) stick_dims: usize,
    /// The device dimensions with the gaps behind them, where there are gaps.
    pub(crate) storage: Option<Vec<i64>>,
    pub(crate) host: Option<StridedLayout>,
}

impl StickLayout {
    /// The extents of the device dimensions.
    pub fn device_size(&self) -> &[i64] {
        &self.device_size
    }

    /// Per device dimension, the own stride of one step; -1 is none, 0 a broadcast.
    pub fn stride_map(&self) -> &[i64] {
        &self.stride_map
    }

    /// The format of the elements on the device.
    pub fn device_dtype(&self) -> DataFormat {
        self.format
    }

    /// The order of the lanes.
    pub fn arrangement(&self) -> LaneArrangement {
        self.arrangement
    }

    /// Size and own strides of the tensor it is bound to.
    pub fn host(&self) -> Option<&StridedLayout> {
        self.host.as_ref()
    }

    /// The number of device dimensions.
    pub fn device_rank(&self) -> usize {
        self.device_size.len()
    }

    /// Elements in a stick.
    pub fn elems_per_stick(&self) -> i64 {
        // The number of a format, which the constructors check.
        self.device_size[self.device_rank().saturating_sub(self.stick_dims)..].iter().product()
    }

    /// How many of the last device dimensions together are the stick.
    pub fn stick_dims(&self) -> usize {
        self.stick_dims
    }

    /// The device dimensions with the gaps behind them: device strides are row-major over these.
    ///
    /// Law: each is the device size where there are no gaps, and never less.
    pub fn storage_size(&self) -> &[i64] {
        self.storage.as_deref().unwrap_or(&self.device_size)
    }

    /// Whether there are positions between its dimensions that belong to none of them.
    pub fn has_gaps(&self) -> bool {
        self.storage.is_some()
    }

    /// Whether every stick holds one element: its stick dimensions have no host stride.
    pub fn is_sparse(&self) -> bool {
        let stick = self.stride_map.iter().rev().take(self.stick_dims);
        self.device_rank() > 0 && stick.into_iter().all(|w| *w == -1)
    }

    /// The number of positions on the device, padding and gaps included.
    pub fn count_positions(&self) -> i64 {
        // The constructors check that it fits.
        checked_product(self.storage_size().iter().copied(), "the device size").unwrap_or(i64::MAX)
    }

    /// The number of sticks.
    pub fn count_sticks(&self) -> i64 {
        self.count_positions() / self.elems_per_stick().max(1)
    }

    /// The bytes it takes on the device: 128 for every stick.
    pub fn device_bytes(&self) -> Result<i64> {
        let total = i128::from(self.count_sticks()) * i128::from(STICK_BYTES);
        Ok(narrow_to_i64(total, "the number of bytes on the device")?)
    }

    /// Strides of the device dimensions, in elements.
    pub fn device_strides(&self) -> Result<Vec<i64>> {
        Ok(zellige_layout::int::row_major_strides(self.storage_size())?)
    }

    /// The own-stride offset of the element at device coordinates; the identity. It is defined for the
    /// standard order of lanes and refused for any other.
    pub fn own_stride_offset(&self, device: &[i64]) -> Result<i64> {
        self.require_standard_arrangement()?;
        zellige_layout::flatten_coordinate(&self.device_size, device)?;
        let steps = device.iter().zip(&self.stride_map).filter(|(_, w)| **w >= 0);
        let dot: i128 = steps.map(|(c, w)| i128::from(*c) * i128::from(*w)).sum();
        Ok(narrow_to_i64(dot, "the offset of a device position")?)
    }

    /// The bound host, or an error that names the operation that needs it.
    pub(crate) fn require_bound_host(&self, what: &'static str) -> Result<&StridedLayout> {
        self.host.as_ref().ok_or_else(|| {
            let accepted = "the layout first has to be bound to its host's size and strides".into();
            LayoutError::BadParameter { what, value: 0, accepted }.into()
        })
    }

    /// Refuses sticks of several dimensions, and gaps, for operations that are defined on one dimension cut
    /// into sticks.
    pub(crate) fn require_plain_sticks(&self, what: &str) -> Result<()> {
        if self.stick_dims == 1 && self.storage.is_none() {
            return Ok(());
        }
        let dim = self.device_rank().saturating_sub(1);
        let reason = format!("{what} is for layouts without gaps whose stick is one dimension");
        Err(StickError::BadStick { dim, reason })
    }

    /// Refuses an order of lanes in which the number of a lane is not that of its element.
    pub(crate) fn require_standard_arrangement(&self) -> Result<()> {
        if self.arrangement == LaneArrangement::Standard {
            return Ok(());
        }
        let dim = self.device_rank().saturating_sub(1);
        let reason = format!(
            "in arrangement {} a lane's number is not its element's; ask the lowered layout",
            self.arrangement
        );
        Err(StickError::BadStick { dim, reason })
    }

    /// The device dimension that counts the sticks of the stick's host dimension: by convention
    /// the third from the end (the first of two), where its stride agrees.
    pub(crate) fn stick_count_dim(&self) -> Option<usize> {
        if self.stick_dims != 1 {
            return None;
        }
        let last = self.device_rank().checked_sub(1)?;
        // The position that the constructors give it. An explicit layout may have it elsewhere, and is then
        // recognised by its stride.
        let usual = last.checked_sub(2).or(last.checked_sub(1))?;
        let (stick, eps) = (self.stride_map[last], self.device_size[last]);
        if stick == -1 {
            let free = self.stride_map[usual] == -1 && self.device_size[usual] == 1;
            return free.then_some(usual);
        }
        let stride = stick.checked_mul(eps)?;
        let agrees = |j: &usize| self.stride_map[*j] == stride;
        Some(usual).filter(agrees).or_else(|| {
            let mut all = (0..last).filter(agrees);
            all.next().filter(|_| all.next().is_none())
        })
    }
}

impl PartialEq for StickLayout {
    fn eq(&self, other: &Self) -> bool {
        self.device_size == other.device_size
            && self.stride_map == other.stride_map
            && self.format == other.format
            && self.arrangement == other.arrangement
            && self.stick_dims == other.stick_dims
            && self.storage == other.storage
    }
}

impl Eq for StickLayout {}

impl Hash for StickLayout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.device_size, &self.stride_map, self.format, self.arrangement).hash(state);
        (self.stick_dims, &self.storage).hash(state);
    }
}

impl fmt::Display for StickLayout {
    /// torch-spyre's print form, which users compare, with its space before the second `=`. Default values
    /// (the standard arrangement, one stick dimension, no gaps) are not printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SpyreTensorLayout(device_size={:?}, stride_map ={:?}, device_dtype=DataFormats.{}",
            self.device_size, self.stride_map, self.format
        )?;
        if self.arrangement != LaneArrangement::Standard {
            write!(f, ", element_arrangement=ElementArrangement.{}", self.arrangement)?;
        }
        if let (true, Ok(strides)) = (self.has_gaps(), self.device_strides()) {
            write!(f, ", device_stride={strides:?}")?;
        }
        if self.stick_dims != 1 {
            write!(f, ", stick_dims={}", self.stick_dims)?;
        }
        f.write_str(")")
    }
}
