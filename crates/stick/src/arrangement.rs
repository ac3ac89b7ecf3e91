//! Element arrangements: orders of lanes other than the plain one.
//!
//! Conversion between 16-bit and 32-bit elements on the device leaves groups of four elements interleaved,
//! and 8-bit weights pair two rows in one stick. Each is an ordinary layout: the digits of the stick are
//! split and given other device strides, and are then lowered like any others.

use crate::error::{Result, StickError};
use crate::lower::StickDigit;
use crate::{DataFormat, StickLayout};
use std::fmt;
use zellige_layout::LayoutError;
use zellige_layout::int::div_ceil;

/// The order of the elements inside a stick, or inside a pair of sticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneArrangement {
    /// Lane `i` holds element `i`.
    #[default]
    Standard,
    /// 32-bit elements converted from 16-bit ones: column `64p + 8g + 4s + e` is at lane `4g + e` of stick `2p + s`.
    Dl16ToFp32,
    /// 16-bit elements converted from 32-bit ones: column `64t + 32h + 4g + e` is at lane
    /// `8g + 4h + e` of stick `t`.
    Fp32ToDl16,
    /// 8-bit weights `[K, N]`: a stick holds 64 columns of two neighbouring rows, the rows
    /// alternating.
    Qfp8Wt,
    /// 8-bit activations converted from 16-bit ones. Its order of lanes is not published, so it
    /// can be named, sized and compared, but not lowered.
    Qfp8Ch,
}

impl LaneArrangement {
    /// Every arrangement.
    pub const ALL: [LaneArrangement; 5] = [
        LaneArrangement::Standard,
        LaneArrangement::Dl16ToFp32,
        LaneArrangement::Fp32ToDl16,
        LaneArrangement::Qfp8Wt,
        LaneArrangement::Qfp8Ch,
    ];

    /// The upper-case name of the field.
    pub fn name(self) -> &'static str {
        match self {
            LaneArrangement::Standard => "STANDARD",
            LaneArrangement::Dl16ToFp32 => "DL16_TO_FP32",
            LaneArrangement::Fp32ToDl16 => "FP32_TO_DL16",
            LaneArrangement::Qfp8Wt => "QFP8WT",
            LaneArrangement::Qfp8Ch => "QFP8CH",
        }
    }

    /// The arrangement of that name.
    pub fn from_name(name: &str) -> Option<LaneArrangement> {
        LaneArrangement::ALL.into_iter().find(|a| a.name() == name)
    }
}

impl fmt::Display for LaneArrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl StickLayout {
    /// The same sizes and strides with another order of lanes, checked to fit the stick.
    pub fn with_arrangement(&self, arrangement: LaneArrangement) -> Result<StickLayout> {
        let layout = StickLayout { arrangement, ..self.clone() };
        if arrangement != LaneArrangement::Standard {
            self.require_plain_sticks("an element arrangement")?;
        }
        if arrangement != LaneArrangement::Qfp8Ch {
            layout.lane_order_digits()?;
        } else if layout.elems_per_stick() != 128 {
            return Err(layout.arrangement_misfit("sticks of 128 elements"));
        }
        Ok(layout)
    }

    /// The layout of 8-bit weights `[K, N]`, stored row-major on the host, for the matrix unit.
    ///
    /// Law, for `K` even and `N` a multiple of 64: element `(k, n)` is at device element
    /// `k % 2 + 2 * (n % 64) + 128 * (k / 2) + 64 * K * (n / 64)`.
    pub fn qfp8_weights(k: i64, n: i64) -> Result<StickLayout> {
        let host = crate::build::build_host_layout(&[k, n], None)?;
        let sizes = [div_ceil(n, 64), div_ceil(k, 2), 128];
        let rows =
            n.checked_mul(2).ok_or_else(|| LayoutError::overflow_of("a stride of stride_map"))?;
        let plain =
            StickLayout::from_size_and_stride_map(&sizes, &[64, rows, 1], DataFormat::SEN143_FP8)?;
        StickLayout { host: Some(host), ..plain }.with_arrangement(LaneArrangement::Qfp8Wt)
    }

    /// The device dimensions as the lowering reads them: the digits of the stick in their order.
    pub(super) fn lane_order_digits(&self) -> Result<Vec<StickDigit>> {
        let device = self.device_strides()?;
        let fields = self.device_size.iter().zip(&self.stride_map).zip(&device);
        let mut slots: Vec<StickDigit> = fields
            .enumerate()
            .map(|(dim, ((extent, step), stride))| StickDigit {
                dim,
                extent: *extent,
                step: *step,
                stride: *stride,
            })
            .collect();
        let Some(stick) = slots.last().copied() else { return Ok(slots) };
        let times = |step: i64, k: i64| {
            if step <= 0 {
                return Ok(step);
            }
            step.checked_mul(k)
                .ok_or_else(|| LayoutError::overflow_of("a stride of the stick's digits"))
        };
        let digit = |extent, k, stride| -> Result<StickDigit> {
            Ok(StickDigit { dim: stick.dim, extent, step: times(stick.step, k)?, stride })
        };
        match self.arrangement {
            LaneArrangement::Standard => {}
            LaneArrangement::Dl16ToFp32 => {
                // A 16-bit stick of 64 elements becomes two 32-bit sticks, so the number of sticks
                // must be even.
                let count = self.stick_count_dim().filter(|j| slots[*j].extent % 2 == 0);
                let (32, Some(count)) = (stick.extent, count) else {
                    return Err(self.arrangement_misfit("pairs of sticks of 32 elements"));
                };
                let pairs = slots[count];
                slots.pop();
                slots[count] = StickDigit {
                    extent: pairs.extent / 2,
                    step: times(pairs.step, 2)?,
                    stride: times(pairs.stride, 2)?,
                    ..pairs
                };
                // The digit `s` of a column chooses between the two sticks of a pair, so its device
                // stride is that of the stick count.
                slots.extend([digit(8, 8, 4)?, digit(2, 4, pairs.stride)?, digit(4, 1, 1)?]);
            }
            LaneArrangement::Fp32ToDl16 => {
                if stick.extent != 64 {
                    return Err(self.arrangement_misfit("sticks of 64 elements"));
                }
                slots.pop();
                slots.extend([digit(2, 32, 4)?, digit(8, 4, 8)?, digit(4, 1, 1)?]);
            }
            LaneArrangement::Qfp8Wt => {
                let rows = slots.len().checked_sub(2).map(|j| slots[j]);
                let (128, Some(rows)) = (stick.extent, rows.filter(|r| r.step % 2 == 0)) else {
                    return Err(self.arrangement_misfit(
                        "sticks of 128 elements below a dimension of row pairs",
                    ));
                };
                slots.pop();
                slots.extend([
                    digit(64, 1, 2)?,
                    StickDigit { dim: stick.dim, extent: 2, step: rows.step / 2, stride: 1 },
                ]);
            }
            LaneArrangement::Qfp8Ch => {
                let reason = "the order of lanes of QFP8CH is not published, so no element has a known position; only its size and stride_map are known";
                return Err(StickError::BadStick { dim: stick.dim, reason: reason.into() });
            }
        }
        Ok(slots)
    }

    fn arrangement_misfit(&self, needs: &str) -> StickError {
        let dim = self.device_rank().saturating_sub(1);
        let reason = format!(
            "arrangement {} needs {needs}; the device size is {:?} with stride_map {:?}",
            self.arrangement, self.device_size, self.stride_map
        );
        StickError::BadStick { dim, reason }
    }
}
