//! A row of numbers times a panel of stored ones, without a detour through memory.
//!
//! A product with one row does nothing but read its right operand: unpacking it to memory first costs more than the
//! product. Here elements become float32 in registers and meet the row there.

use crate::format::Format;
use crate::kernel;
use zellige_isa::Isa;

/// Columns of a panel: a stick of 16-bit elements.
pub const PANEL_COLUMNS: usize = 64;

/// Depth, the row, the panel (depth by depth, [`PANEL_COLUMNS`] elements each) and the sums, one for each column.
///
/// **Law**: for every column `x`, in the order of `p`: `sums[x] = fma(row[p], panel[p][x], sums[x])`, and the result is
/// true; or the result is false and nothing has changed, because the panel has a code that is read by a slower way (an
/// infinity or NaN of DL16). A NaN has any payload.
///
/// Safety: the row, the panel and the sums are as long as the parameters say, and the machine has the kernel's instructions.
pub type RowKernel = unsafe fn(usize, *const f32, *const u8, *mut f32) -> bool;

/// The kernel for panels of a format, where the instruction set has one.
#[must_use]
pub fn select_panel_kernel(format: Format, isa: Isa) -> Option<RowKernel> {
    kernel::select_row_kernel(format, isa)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Converter;

    /// Codes of every kind, but for those at or past `limit`.
    fn codes(depth: usize, limit: u16) -> Vec<u16> {
        let mut state = 12_345_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let code = u16::try_from(state >> 16).expect("16 bits");
            match code % 11 {
                0 => code & 0x8000,
                1 => code & 0x81ff,
                _ if code & 0x7fff >= limit => code & 0xbfff,
                _ => code,
            }
        };
        std::iter::repeat_with(next).take(depth * PANEL_COLUMNS).collect()
    }

    fn agrees(isa: Isa, format: Format, row: &[f32], panel: &[u16]) -> bool {
        let Some(kernel) = select_panel_kernel(format, isa) else { return true };
        let mut wide = vec![0_f32; panel.len()];
        let convert = Converter::with_isa(format, Format::F32, Isa::BASELINE);
        // SAFETY: as many numbers as codes.
        unsafe {
            convert.convert_raw(panel.as_ptr().cast(), wide.as_mut_ptr().cast(), panel.len());
        }
        let start: Vec<f32> = (0..PANEL_COLUMNS).map(|x| x as f32 / 3.0 - 7.0).collect();
        let mut sums = start.clone();
        // SAFETY: the lengths are those of the contract.
        let done =
            unsafe { kernel(row.len(), row.as_ptr(), panel.as_ptr().cast(), sums.as_mut_ptr()) };
        for x in 0..PANEL_COLUMNS {
            let steps = row.iter().enumerate();
            let due = steps.fold(start[x], |s, (p, a)| a.mul_add(wide[p * PANEL_COLUMNS + x], s));
            let due = if done { due } else { start[x] };
            let same = sums[x].to_bits() == due.to_bits() || sums[x].is_nan() && due.is_nan();
            assert!(same, "{isa:?} {format}, column {x}: {} for {due}", sums[x]);
        }
        done
    }

    #[test]
    fn kernels_follow_the_law() {
        for isa in Isa::all_available() {
            for depth in [0, 1, 2, 7, 64] {
                let row: Vec<f32> = (0..depth).map(|p| (p * 37 % 19) as f32 / 4.0 - 2.0).collect();
                for format in [Format::F16, Format::BF16] {
                    assert!(agrees(isa, format, &row, &codes(depth, 0x7fff)));
                }
                assert!(agrees(isa, Format::DL16, &row, &codes(depth, 0x7fff)));
                assert!(agrees(isa, Format::DL16INF, &row, &codes(depth, 0x7dfe)));
            }
        }
    }

    /// The encodings of infinity and NaN of DL16 are left to the caller, wherever they are.
    #[test]
    fn special_codes_are_refused() {
        let row = [1.0, -2.0, 0.5];
        for isa in Isa::all_available() {
            for (format, special) in [(Format::DL16, 0x7fff), (Format::DL16INF, 0x7dfe)] {
                if select_panel_kernel(format, isa).is_none() {
                    continue;
                }
                for (at, sign) in [(0, 0), (63, 0x8000), (64 + 17, 0), (191, 0x8000)] {
                    let mut panel = codes(3, special);
                    panel[at] = special | sign;
                    assert!(!agrees(isa, format, &row, &panel), "{isa:?} {format} at {at}");
                }
            }
        }
    }
}
