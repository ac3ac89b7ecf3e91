//! The constructors of a stick layout.

use crate::error::{Result, StickError};
use crate::{DataFormat, LaneArrangement, StickLayout};
use zellige_float::Dtype;
use zellige_layout::LayoutError;
use zellige_layout::int::{checked_product, div_ceil, row_major_strides};
use zellige_layout::{StridedLayout, check_nonnegative_sizes};

impl StickLayout {
    /// The default layout of a contiguous host tensor: its last dimension is cut into sticks and its first
    /// one is the device dimension right above them. Dimensions of size 1 do not contribute, so `[512, 1]`
    /// has the layout of `[512]`.
    pub fn default_for_dtype(size: &[i64], dtype: Dtype) -> Result<StickLayout> {
        StickLayout::default_in_format(size, None, DataFormat::device_format_of(dtype)?)
    }

    /// The default layout in a named device format, for a host with the given strides (row-major
    /// ones where none are given); for a host that is not dense, its own strides are used.
    ///
    /// This is the constructor for a tensor that is stored in another format than its dtype's own, such as
    /// float32 that is down-cast on its way to the device.
    pub fn default_in_format(
        size: &[i64],
        stride: Option<&[i64]>,
        format: DataFormat,
    ) -> Result<StickLayout> {
        let host = build_host_layout(size, stride)?;
        // A slice of a larger tensor has row-major strides of its own.
        let own = StridedLayout::new(size, &host.own_strides()?, 0)?;
        // torch-spyre's design documents leave dimensions of size 1 out of the default layout; its
        // code keeps them, which `with_dim_order` does.
        let inner = own.canonical_form();
        let order: Vec<i64> = (0..).take(inner.rank()).collect();
        let layout = from_checked_order(&inner, format, &order)?;
        Ok(StickLayout { host: Some(own), ..layout })
    }

    /// The layout for an order of the host dimensions, of which the last is cut into sticks.
    ///
    /// Device dimensions are the order rotated left by one, then its last entry again. Dimensions of size 1
    /// stay, as device dimensions of extent 1 without a stride. A trailing -1 requests a sparse layout,
    /// with one element in each stick.
    pub fn with_dim_order(
        size: &[i64],
        stride: Option<&[i64]>,
        dtype: Dtype,
        dim_order: &[i64],
    ) -> Result<StickLayout> {
        StickLayout::with_dim_order_in_format(
            size,
            stride,
            DataFormat::device_format_of(dtype)?,
            dim_order,
        )
    }

    /// The same as [`StickLayout::with_dim_order`], in a named device format.
    pub fn with_dim_order_in_format(
        size: &[i64],
        stride: Option<&[i64]>,
        format: DataFormat,
        dim_order: &[i64],
    ) -> Result<StickLayout> {
        let host = build_host_layout(size, stride)?;
        check_dim_order(size.len(), dim_order)?;
        let layout = from_checked_order(&host, format, dim_order)?;
        Ok(StickLayout { host: Some(host), ..layout })
    }

    /// A layout from its fields, bound to no host.
    pub fn from_size_and_stride_map(
        device_size: &[i64],
        stride_map: &[i64],
        format: DataFormat,
    ) -> Result<StickLayout> {
        StickLayout::with_stick_dims(device_size, stride_map, format, 1)
    }

    /// A layout from its fields whose last `stick_dims` device dimensions together are the stick: a stick may
    /// hold a piece of several rows.
    ///
    /// ```
    /// use zellige_stick::{DataFormat, StickLayout};
    /// // [32, 48] in squares of 8 by 8: four rows of six sticks.
    /// let (sizes, map) = ([4, 6, 8, 8], [8 * 48, 8, 48, 1]);
    /// let l = StickLayout::with_stick_dims(&sizes, &map, DataFormat::SEN169_FP16, 2)?;
    /// let l = l.with_host(&[32, 48], None)?;
    /// let place = l.build_padding_map()?.device_coordinate_of(&[9, 17])?;
    /// assert_eq!(place, [1, 2, 1, 1]);
    /// # Ok::<(), zellige_stick::StickError>(())
    /// ```
    pub fn with_stick_dims(
        device_size: &[i64],
        stride_map: &[i64],
        format: DataFormat,
        stick_dims: usize,
    ) -> Result<StickLayout> {
        if let Some(dim) = device_size.iter().position(|n| *n < 0) {
            return Err(StickError::NegativeDeviceSize { dim, size: device_size[dim] });
        }
        let (expected, found) = (device_size.len(), stride_map.len());
        if expected != found {
            return Err(LayoutError::LengthMismatch { what: "stride_map", expected, found }.into());
        }
        let eps = format.require_elems_per_stick()?;
        let Some(last) = device_size.len().checked_sub(1) else {
            let reason = format!("it is missing; the last one is the stick, of size {eps}");
            return Err(StickError::BadStick { dim: 0, reason });
        };
        let Some(first) = device_size.len().checked_sub(stick_dims).filter(|_| stick_dims > 0)
        else {
            let reason =
                format!("stick_dims is {stick_dims}; 1 to {} dimensions are there", last + 1);
            return Err(StickError::BadStick { dim: last, reason });
        };
        let n = checked_product(device_size[first..].iter().copied(), "the size of a stick")?;
        if n != eps {
            let reason = format!("the stick has size {n}; a stick of {format} holds {eps}");
            return Err(StickError::BadStick { dim: last, reason });
        }
        // -1 is the mark of the interchange form for "no host stride", so other negative numbers
        // are mistakes and not backward steps.
        if let Some(dim) = stride_map.iter().position(|w| *w < -1) {
            let reason = format!(
                "stride {} is below -1; strides are 0 or more, and -1 marks a dimension without one",
                stride_map[dim]
            );
            return Err(StickError::BadStick { dim, reason });
        }
        checked_product(device_size.iter().copied(), "the number of device positions")?;
        row_major_strides(device_size)?;
        let layout = StickLayout {
            device_size: device_size.to_vec(),
            stride_map: stride_map.to_vec(),
            format,
            arrangement: LaneArrangement::Standard,
            stick_dims,
            storage: None,
            host: None,
        };
        layout.device_bytes()?;
        Ok(layout)
    }

    /// The same with device strides that leave gaps: positions that belong to no dimension, as between
    /// tensors that are interleaved in one block.
    ///
    /// Strides fall from the first dimension to the last; each is a multiple of the next one, and at least as
    /// long as that one's dimension. A stick has no gaps inside.
    ///
    /// ```
    /// use zellige_stick::{DataFormat, StickLayout};
    /// // Two tensors [40, 128] whose rows of sticks alternate: this is the first.
    /// let format = DataFormat::SEN169_FP16;
    /// let plain = StickLayout::from_size_and_stride_map(&[2, 40, 64], &[64, 128, 1], format)?;
    /// let l = plain.with_device_strides(&[5120, 128, 1])?.with_host(&[40, 128], None)?;
    /// let map = l.build_padding_map()?;
    /// assert_eq!(map.element_at(128)?, Some(128), "row 1 comes after the other tensor's row 0");
    /// assert_eq!(map.element_at(64)?, None);
    /// # Ok::<(), zellige_stick::StickError>(())
    /// ```
    pub fn with_device_strides(&self, strides: &[i64]) -> Result<StickLayout> {
        let (expected, found) = (self.device_rank(), strides.len());
        if expected != found {
            return Err(
                LayoutError::LengthMismatch { what: "device_stride", expected, found }.into()
            );
        }
        // Gaps are kept as larger extents of the dimensions inside them, over which device strides
        // are row-major again. With that, one rule computes every stride.
        let mut storage = self.device_size.clone();
        let mut inner = 1;
        for dim in (0..expected).rev() {
            let stride = strides[dim];
            let bad = |reason: String| Err(StickError::BadStick { dim, reason });
            // The smallest stride that does not overlap the next dimension.
            let least = match self.device_size.get(dim + 1) {
                None => 1,
                Some(n) => inner * (*n).max(1),
            };
            if stride < least || stride % inner != 0 {
                return bad(format!(
                    "device stride {stride}: it is {least} or more, and a multiple of {inner}, the \
                     stride of the next dimension"
                ));
            }
            let in_stick = dim + self.stick_dims >= expected;
            if in_stick && stride != least {
                return bad(format!("device stride {stride} inside a stick: it is {least}"));
            }
            if let Some(next) = storage.get_mut(dim + 1).filter(|_| stride != least) {
                *next = stride / inner;
            }
            inner = stride;
        }
        let storage = Some(storage).filter(|s| *s != self.device_size);
        let layout = StickLayout { storage, ..self.clone() };
        checked_product(layout.storage_size().iter().copied(), "the number of device positions")?;
        layout.device_strides()?;
        layout.device_bytes()?;
        Ok(layout)
    }
}

/// The host tensor at offset 0; strides not given are products of the sizes to the right.
///
/// A size of 0 makes those strides 0, where PyTorch writes 1. No element depends on the difference, and the
/// device's own constructor prints 0.
pub(super) fn build_host_layout(size: &[i64], stride: Option<&[i64]>) -> Result<StridedLayout> {
    check_nonnegative_sizes(size)?;
    let Some(stride) = stride else {
        let mut plain = vec![1i64; size.len()];
        for d in (1..size.len()).rev() {
            plain[d - 1] = plain[d]
                .checked_mul(size[d])
                .ok_or_else(|| LayoutError::overflow_of("a host stride"))?;
        }
        return Ok(StridedLayout::new(size, &plain, 0)?);
    };
    // No element steps along a dimension of size 1, nor along any dimension of an empty tensor, so the sign
    // of such a stride does not matter.
    let empty = size.contains(&0);
    let steps = size.iter().zip(stride).filter(|(n, _)| **n > 1 && !empty);
    if let Some((_, s)) = steps.into_iter().find(|(_, s)| **s < 0) {
        let accepted = "a device layout steps forward through its host".into();
        return Err(LayoutError::BadParameter { what: "a host stride", value: *s, accepted }.into());
    }
    let stride: Vec<i64> = stride.iter().map(|s| (*s).max(0)).collect();
    Ok(StridedLayout::new(size, &stride, 0)?)
}

/// Checks that it is a permutation of the dimensions, with or without a trailing -1.
fn check_dim_order(rank: usize, order: &[i64]) -> Result<()> {
    let dims = match order.split_last() {
        Some((-1, dims)) if order.len() == rank + 1 => dims,
        _ => order,
    };
    let mut seen = vec![false; rank];
    for d in dims {
        let slot = usize::try_from(*d).ok().and_then(|d| seen.get_mut(d));
        match slot {
            Some(seen) if !*seen => *seen = true,
            Some(_) => {
                let accepted = "each dimension is named once".into();
                return Err(LayoutError::BadParameter {
                    what: "a dim_order entry",
                    value: *d,
                    accepted,
                }
                .into());
            }
            None => {
                let accepted = format!(
                    "entries are dimensions 0 to {} in some order; -1 may follow them all",
                    rank.saturating_sub(1)
                );
                return Err(LayoutError::BadParameter {
                    what: "a dim_order entry",
                    value: *d,
                    accepted,
                }
                .into());
            }
        }
    }
    if dims.len() != rank {
        let found = order.len();
        return Err(LayoutError::LengthMismatch { what: "dim_order", expected: rank, found }.into());
    }
    Ok(())
}

/// The layout for a checked order; not bound.
fn from_checked_order(
    host: &StridedLayout,
    format: DataFormat,
    order: &[i64],
) -> Result<StickLayout> {
    let eps = format.require_elems_per_stick()?;
    let Some((first, rest)) = order.split_first() else {
        return StickLayout::from_size_and_stride_map(&[1, eps], &[-1, -1], format);
    };
    let stick = *order.last().unwrap_or(first);
    let mut slots: Vec<i64> = rest.to_vec();
    slots.extend([*first, stick]);
    let dims: Vec<Option<usize>> = slots.iter().map(|d| usize::try_from(*d).ok()).collect();

    let last = dims.len() - 1;
    // The first dimension of the order is right above the stick, and the stick count above that; with a
    // single dimension only the slot above the stick is left.
    let count = last.saturating_sub(2);
    let mut sizes: Vec<i64> = dims.iter().map(|d| d.map_or(1, |d| host.size()[d])).collect();
    sizes[last] = eps;
    sizes[count] = div_ceil(sizes[count], if dims[count].is_some() { eps } else { 1 });

    let mut strides = vec![-1; dims.len()];
    let mut visited: Vec<Option<usize>> = vec![None; host.rank()];
    // From right to left, because the second slot of a dimension steps over what the first one
    // counts.
    for (j, dim) in dims.iter().enumerate().rev() {
        let Some(d) = dim.filter(|d| host.size()[*d] != 1) else { continue };
        strides[j] = match visited[d].replace(j) {
            None => host.stride()[d],
            Some(right) => strides[right]
                .checked_mul(sizes[right])
                .ok_or_else(|| LayoutError::overflow_of("a stride of stride_map"))?,
        };
    }
    StickLayout::from_size_and_stride_map(&sizes, &strides, format)
}
