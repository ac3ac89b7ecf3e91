//! Changes of a stick layout: another stick dimension, another format.

use crate::error::{Result, StickError};
use crate::{DataFormat, LaneArrangement, StickLayout};
use zellige_layout::LayoutError;
use zellige_layout::int::div_ceil;
use zellige_layout::wrap_negative_dim;

impl StickLayout {
    /// The layout whose stick runs along host dimension `to_dim`.
    ///
    /// The stick count becomes that of the new dimension, the slot where the new dimension was takes the
    /// size and stride of the old one, and the stick takes the new stride. A layout whose stick runs along
    /// that dimension already is returned unchanged.
    pub fn restickify_along(&self, to_dim: i64) -> Result<StickLayout> {
        self.require_standard_arrangement()?;
        self.require_plain_sticks("another stick dimension")?;
        let host = self.require_bound_host("restickifying")?;
        let to = wrap_negative_dim(to_dim, host.rank())?;
        let last = self.device_rank() - 1;
        let (old_step, eps) = (self.stride_map[last], self.device_size[last]);
        let (new_size, new_step) = match host.size()[to] {
            1 => (1, -1),
            n => (n, host.stride()[to]),
        };
        // Equal host strides are the same dimension, or both none.
        if new_step == old_step {
            return Ok(self.clone());
        }
        let count = self.stick_count_dim().ok_or_else(|| StickError::BadStick {
            dim: last,
            reason: format!("no device dimension counts its sticks (stride {old_step} x {eps})"),
        })?;
        let fits = |j: &usize| {
            // The slot must hold the whole new dimension; a slot that holds only a digit of it
            // cannot be exchanged with the stick.
            *j != count && self.stride_map[*j] == new_step && self.device_size[*j] >= new_size
        };
        let slot = (0..last).find(fits).ok_or_else(|| StickError::BadStick {
            dim: last,
            reason: format!(
                "host dimension {to} (size {new_size}, stride {new_step}) has no device dimension \
                 of its own to change places with"
            ),
        })?;
        let old_size = match old_step {
            -1 => 1,
            _ => self.host_stick_extent().ok_or_else(|| StickError::BadStick {
                dim: last,
                reason: format!(
                    "its stride {old_step} is that of no single host dimension, which would take the place of dimension {slot}"
                ),
            })?,
        };
        let (mut size, mut map) = (self.device_size.clone(), self.stride_map.clone());
        (size[count], map[count]) = match new_step {
            -1 => (1, -1),
            _ => (div_ceil(new_size, eps), checked_stride_product(new_step, eps)?),
        };
        (size[slot], map[slot]) = (old_size, old_step);
        map[last] = new_step;
        let changed = StickLayout::from_size_and_stride_map(&size, &map, self.format)?;
        Ok(StickLayout { host: self.host.clone(), ..changed })
    }

    /// The layout of the same tensor in another format.
    ///
    /// The stick count follows from the extent of the stick's host dimension: the one given, else
    /// that of the bound host, else all positions of the present sticks, which must then fill
    /// whole new sticks. Down-conversion from 16-bit floats to 8-bit ones leaves the lanes in the
    /// arrangement QFP8CH, except in a sparse layout, which has no lanes to arrange.
    pub fn with_device_format(
        &self,
        format: DataFormat,
        stick_extent: Option<i64>,
    ) -> Result<StickLayout> {
        self.require_plain_sticks("another format")?;
        let new_eps = format.require_elems_per_stick()?;
        let last = self.device_rank() - 1;
        let (step, eps) = (self.stride_map[last], self.device_size[last]);
        let (mut size, mut map) = (self.device_size.clone(), self.stride_map.clone());
        size[last] = new_eps;
        if !self.is_sparse() && new_eps != eps {
            let count = self.stick_count_dim().ok_or_else(|| StickError::BadStick {
                dim: last,
                reason: format!("no device dimension counts its sticks (stride {step} x {eps})"),
            })?;
            let present = checked_stride_product(self.device_size[count], eps)?;
            size[count] = match stick_extent.or_else(|| self.host_stick_extent()) {
                Some(n) if (0..=present).contains(&n) => div_ceil(n, new_eps),
                Some(n) => {
                    let accepted = format!("the present sticks hold 0 to {present} elements");
                    return Err(LayoutError::BadParameter {
                        what: "the stick extent",
                        value: n,
                        accepted,
                    }
                    .into());
                }
                None if present % new_eps == 0 => present / new_eps,
                None => {
                    let reason = format!(
                        "{} stick(s) of {eps} elements are not a whole number of {new_eps}-element \
                         sticks; name the extent of the stick's host dimension",
                        self.device_size[count]
                    );
                    return Err(StickError::BadStick { dim: count, reason });
                }
            };
            map[count] = checked_stride_product(step, new_eps)?;
        }
        // Only this conversion of the device leaves lanes staggered.
        let staggers = (self.format, format) == (DataFormat::SEN169_FP16, DataFormat::SEN143_FP8);
        let changed = StickLayout::from_size_and_stride_map(&size, &map, format)?;
        let arrangement = match staggers && !self.is_sparse() {
            true => LaneArrangement::Qfp8Ch,
            false => LaneArrangement::Standard,
        };
        Ok(StickLayout { host: self.host.clone(), arrangement, ..changed })
    }

    /// The extent of the one host dimension that the stick runs along, where there is one and the
    /// stick count agrees with it.
    pub(super) fn host_stick_extent(&self) -> Option<i64> {
        let host = self.host.as_ref()?;
        let last = self.device_rank().checked_sub(1)?;
        let (step, eps) = (self.stride_map[last], self.device_size[last]);
        let count = self.device_size[self.stick_count_dim()?];
        let mut along =
            host.sizes_and_strides().filter(|(n, s)| *n != 1 && *s == step).map(|(n, _)| n);
        let n = along.next().filter(|_| along.next().is_none())?;
        (n <= count.checked_mul(eps)?).then_some(n)
    }
}

fn checked_stride_product(a: i64, b: i64) -> Result<i64> {
    Ok(a.checked_mul(b).ok_or_else(|| LayoutError::overflow_of("a stride of stride_map"))?)
}
