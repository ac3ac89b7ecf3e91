//! From tiles to digits: a tiled layout (OpenXLA documentation, "Tiled layout") in the algebra.
//!
//! Every dimension in memory is a number written in digits of logical dimensions. A tile cuts such a
//! number: the fast digits stay below the cut, and one digit is cut in two. A digit that is cut unevenly is
//! padded. If it is the slowest digit of its logical dimension, the padding is at the end of the dimension:
//! a window. Otherwise the padding is **inside** every earlier tile and begins a new **group** of digits:
//! the window has a dimension of its own for it, if the earlier tile divides the dimension. Other cases are
//! not layouts of the algebra and are refused.

use super::XlaLayout;
use crate::Diagnostic;
use crate::blocked::{BlockedDigit, BlockedDim, build_blocked_layout};
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Layout, LayoutError, TileLayout};

/// The index of a digit in [`TileCuts::memory_extents`].
type DigitId = usize;

/// A number in memory: its extent, and the digits that it is written in, slowest first.
#[derive(Clone)]
struct MemoryDim {
    extent: i64,
    digits: Vec<DigitId>,
}

/// A run of digits of one logical dimension. With the groups after it they count `valid` values; their
/// other combinations are padding.
struct DigitGroup {
    valid: i64,
    digits: Vec<DigitId>,
}

/// One logical dimension, or several neighbours that a tile cuts as one: its groups, slowest first.
struct LogicalDim {
    groups: Vec<DigitGroup>,
}

struct TileCuts {
    extents: Vec<i64>,
    logical: Vec<LogicalDim>,
}

/// The layout in the algebra, over a shape of the layout's rank whose positions fit in 64 bits.
pub(super) fn lower_to_layout(xla: &XlaLayout, shape: &[i64]) -> Result<Layout, Diagnostic> {
    if shape.contains(&0) {
        return Ok(TileLayout::from_strides(shape, &vec![0; shape.len()], 0)?.into());
    }
    let one = |(d, extent): (usize, &i64)| LogicalDim {
        groups: vec![DigitGroup { valid: *extent, digits: vec![d] }],
    };
    let mut cuts =
        TileCuts { extents: shape.to_vec(), logical: shape.iter().enumerate().map(one).collect() };
    let order = xla.minor_to_major.iter().rev();
    let mut memory: Vec<MemoryDim> =
        order.map(|d| MemoryDim { extent: shape[*d], digits: vec![*d] }).collect();
    for tile in &xla.tiles {
        zellige_guard::count_step();
        let missing = tile.len().saturating_sub(memory.len());
        memory
            .splice(..0, std::iter::repeat_n(MemoryDim { extent: 1, digits: Vec::new() }, missing));
        let (mut quotients, mut remainders) = (Vec::new(), Vec::new());
        let mut merged: Option<MemoryDim> = None;
        for (t, dim) in tile.iter().zip(memory.split_off(memory.len() - tile.len())) {
            let joined = match merged.take() {
                None => dim,
                Some(slow) => cuts.join_numbers(slow, dim)?,
            };
            match t {
                None => merged = Some(joined),
                Some(t) => {
                    let (quotient, remainder) = cuts.cut_number(joined, *t)?;
                    quotients.push(quotient);
                    remainders.push(remainder);
                }
            }
        }
        memory.extend(quotients);
        memory.extend(remainders);
    }
    cuts.finish_layout(&memory)
}

impl TileCuts {
    /// Joins two numbers: `slow * extent(fast) + fast`. If the fast one is padded, the digits do not give
    /// that number.
    fn join_numbers(&self, slow: MemoryDim, fast: MemoryDim) -> Result<MemoryDim, Diagnostic> {
        let counted: i64 = fast.digits.iter().map(|d| self.extents[*d]).product();
        if counted != fast.extent && !slow.digits.is_empty() {
            return Err(refuse_lowering(
                "`*` merges into a dimension that an earlier tile has padded",
            ));
        }
        let extent = slow.extent.checked_mul(fast.extent);
        let extent = extent.ok_or_else(|| LayoutError::overflow_of("a merged extent"))?;
        let digits = slow.digits.into_iter().chain(fast.digits).collect();
        Ok(MemoryDim { extent, digits })
    }

    /// `floor(i / t)` and `i mod t` of a number.
    fn cut_number(&mut self, dim: MemoryDim, t: i64) -> Result<(MemoryDim, MemoryDim), Diagnostic> {
        let quotient = div_ceil(dim.extent, t);
        // A tile at least as large as the number leaves nothing to divide, and only pads it.
        if t >= dim.extent {
            // The quotient is always 0.
            let nothing = MemoryDim { extent: quotient, digits: Vec::new() };
            self.pad_slowest_digit(&dim.digits, t);
            return Ok((nothing, MemoryDim { extent: t, digits: dim.digits }));
        }
        let mut slow = dim.digits.clone();
        let mut fast: Vec<DigitId> = Vec::new();
        let mut count = 1i64;
        while count < t {
            let Some(digit) = slow.pop() else { break };
            let extent = self.extents[digit];
            let need = t / count;
            if t % count == 0 && extent <= need {
                fast.push(digit);
                count *= extent;
                continue;
            }
            // The slowest digit of a number may be cut anywhere, because no digit above it receives a
            // carry. A faster digit that is cut unevenly would carry at values that are no multiples of the
            // cut, so the dimensions are joined to one digit first.
            if t % count != 0 || (extent % need != 0 && !slow.is_empty()) {
                let whole = self.join_logical_dims(&dim.digits, t)?;
                return self.cut_number(MemoryDim { extent: dim.extent, digits: vec![whole] }, t);
            }
            let (above, below) = self.cut_digit_in_two(digit, need);
            slow.push(above);
            fast.push(below);
            count = t;
        }
        fast.reverse();
        Ok((MemoryDim { extent: quotient, digits: slow }, MemoryDim { extent: t, digits: fast }))
    }

    /// Extends the slowest digit of a number to the length of a tile that is longer than the number. If
    /// that digit is the slowest of its logical dimension, the added values are the padding of that
    /// dimension; otherwise the rest of the tile is a gap.
    fn pad_slowest_digit(&mut self, digits: &[DigitId], t: i64) {
        let Some((slowest, faster)) = digits.split_first() else { return };
        let count: i64 = faster.iter().map(|d| self.extents[*d]).product();
        let leads = |dim: &LogicalDim| {
            dim.groups.first().is_some_and(|g| g.digits.first() == Some(slowest))
        };
        if count > 0 && t % count == 0 && self.logical.iter().any(leads) {
            self.extents[*slowest] = self.extents[*slowest].max(t / count);
        }
    }

    /// Cuts a digit in two, of which the fast one has `below` values.
    fn cut_digit_in_two(&mut self, digit: DigitId, below: i64) -> (DigitId, DigitId) {
        let extent = self.extents[digit];
        let above = self.extents.len();
        self.extents.push(div_ceil(extent, below));
        self.extents.push(below);
        for dim in &mut self.logical {
            let held = |g: &DigitGroup| g.digits.iter().position(|d| *d == digit);
            let Some((k, at)) =
                dim.groups.iter().enumerate().find_map(|(k, g)| held(g).map(|at| (k, at)))
            else {
                continue;
            };
            let group = &mut dim.groups[k];
            if extent % below != 0 && at > 0 {
                let inner = group.digits.split_off(at);
                let valid: i64 = inner.iter().map(|d| self.extents[*d]).product();
                dim.groups.insert(k + 1, DigitGroup { valid, digits: inner });
                dim.groups[k + 1].digits.splice(..1, [above, above + 1]);
            } else {
                group.digits.splice(at..=at, [above, above + 1]);
            }
            break;
        }
        (above, above + 1)
    }

    /// Joins whole neighbouring logical dimensions, in their order, to one digit, because a tile cuts across them.
    fn join_logical_dims(&mut self, digits: &[DigitId], t: i64) -> Result<DigitId, Diagnostic> {
        let whole = |dim: &LogicalDim| match dim.groups.as_slice() {
            [DigitGroup { valid, digits }]
                if digits.len() == 1 && *valid == self.extents[digits[0]] =>
            {
                Some(digits[0])
            }
            _ => None,
        };
        let wholes: Vec<Option<DigitId>> = self.logical.iter().map(whole).collect();
        let first = wholes
            .windows(digits.len())
            .position(|w| w.iter().zip(digits).all(|(a, b)| *a == Some(*b)));
        let Some(first) = first else {
            return Err(refuse_lowering(&format!(
                "a tile of {t} cuts dimensions that are merged in another order than the logical one, or were cut before"
            )));
        };
        let valid = checked_product(digits.iter().map(|d| self.extents[*d]), "a merged extent")?;
        let id = self.extents.len();
        self.extents.push(valid);
        let joined = LogicalDim { groups: vec![DigitGroup { valid, digits: vec![id] }] };
        self.logical.splice(first..first + digits.len(), [joined]);
        Ok(id)
    }

    fn finish_layout(self, memory: &[MemoryDim]) -> Result<Layout, Diagnostic> {
        let mut strides = vec![0i64; self.extents.len()];
        let mut stride = 1i64;
        for dim in memory.iter().rev() {
            let mut weight = stride;
            for digit in dim.digits.iter().rev() {
                strides[*digit] = weight;
                weight = weight.saturating_mul(self.extents[*digit]);
            }
            // The product of all extents fits.
            stride = stride.saturating_mul(dim.extent);
        }
        let digit = |id: &DigitId| BlockedDigit { extent: self.extents[*id], stride: strides[*id] };
        let mut dims = Vec::new();
        for (d, logical) in self.logical.iter().enumerate() {
            // Fastest group first. `below` is what the group after counts.
            let mut groups: Vec<BlockedDim> = Vec::new();
            let mut inner: Vec<BlockedDigit> = Vec::new();
            let mut below = 1;
            for (k, group) in logical.groups.iter().enumerate().rev() {
                let mut digits: Vec<BlockedDigit> = group.digits.iter().map(digit).collect();
                digits.append(&mut inner);
                let counted = checked_product(digits.iter().map(|d| d.extent), "a padded extent")?;
                let steady = digits.windows(2).all(|w| w[0].stride == w[1].stride * w[1].extent);
                if k > 0 && steady && below == 1 {
                    // If the strides continue across the padding and no group follows, the group is one
                    // digit of `valid` values: the padding is past its end.
                    let stride = digits.last().map_or(1, |d| d.stride);
                    inner = vec![BlockedDigit { extent: group.valid, stride }];
                    continue;
                }
                if k > 0 && counted.checked_mul(below) == Some(group.valid) {
                    inner = digits;
                    continue;
                }
                if group.valid % below != 0 {
                    return Err(refuse_lowering(&format!(
                        "a tile cuts an earlier tile unevenly, and that one does not divide dimension {d}: {below} in {}",
                        group.valid
                    )));
                }
                groups.push(BlockedDim { valid: group.valid / below, digits });
                below = group.valid;
            }
            dims.extend(groups.into_iter().rev());
        }
        Ok(build_blocked_layout(&dims, 0)?)
    }
}

fn refuse_lowering(reason: &str) -> Diagnostic {
    let message = format!("no layout of the algebra: {reason}");
    Diagnostic::syntax_error(0..0, message, "its positions can still be listed").with_id("Z008")
}
