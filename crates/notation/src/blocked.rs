//! Blocked layouts: the common part of the notations of tiles and blocks (XLA, oneDNN, `linalg.pack`, memrefs).
//!
//! In each of them the address of an element is a sum of one function per dimension, and each of those
//! functions splits its index over **digits**: `extent` steps of `stride`, as
//! `floor(i / inner) mod extent`. A text is lowered by stating the digits ([`build_blocked_layout`]); a
//! layout is written by recovering them ([`BlockedDigits::from_layout`]) and sorting them into the order of
//! memory ([`BlockedDigits::dense_block_order`]).

use crate::Diagnostic;
use crate::convert::{ConversionRefusal, not_expressible};
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{
    Axis, Iter, Layout, LayoutDifference, LayoutError, PaddedExtent, TileLayout, ValidWindow,
};

/// `extent` steps of `stride` in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockedDigit {
    pub(crate) extent: i64,
    pub(crate) stride: i64,
}

/// A dimension whose index is split over digits, slowest first; if their product is larger than `valid`,
/// the rest is padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedDim {
    pub(crate) valid: i64,
    pub(crate) digits: Vec<BlockedDigit>,
}

/// The layout of dimensions that are split over digits, at address `base`.
///
/// **Law**: the address of the element at coordinate `c` is `base` plus, for every dimension, the digits of
/// `c` times their strides.
pub(crate) fn build_blocked_layout(dims: &[BlockedDim], base: i64) -> Result<Layout, LayoutError> {
    let mut shard = Vec::new();
    let mut window = Vec::new();
    for dim in dims {
        let padded = checked_product(dim.digits.iter().map(|d| d.extent), "a padded extent")?;
        let before = shard.len();
        let says = |d: &&BlockedDigit| d.extent != 1;
        shard.extend(dim.digits.iter().filter(says).map(|d| Iter::in_memory(d.extent, d.stride)));
        // A dimension of extent 1 keeps one iter, so that the layout prints with as many dimensions
        // as the text has.
        if shard.len() == before {
            shard.push(Iter::in_memory(1, dim.digits.last().map_or(1, |d| d.stride)));
        }
        window.push(PaddedExtent::padded_to(dim.valid, padded));
    }
    let tile = TileLayout::new(shard, Vec::new(), (base != 0).then_some((Axis::M, base)))?;
    Layout::from(tile).with_window(ValidWindow::new(window)?)
}

/// A layout in one memory as a sum of functions of its dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockedDigits {
    /// The address of the first element.
    pub(crate) base: i64,
    /// For each dimension its digits, slowest first: none of extent 1, and no two neighbours that could be fused.
    pub(crate) dims: Vec<Vec<BlockedDigit>>,
}

/// A run of one dimension in the order of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DigitBlock {
    pub(crate) dim: usize,
    /// Which digit of the dimension, from the slowest.
    pub(crate) digit: usize,
    /// The values of the digit.
    pub(crate) count: i64,
    /// The same with padding.
    pub(crate) extent: i64,
    /// Whether it may be one of the outer dimensions: it is the slowest digit of its dimension, and not padded.
    pub(crate) outer: bool,
}

/// The largest dimension whose function is evaluated at every index.
const MAX_TABULATED_EXTENT: i64 = 1 << 20;

impl BlockedDigits {
    /// The digits of a layout over a shape. `what` names the notation in refusals.
    pub(crate) fn from_layout(
        layout: &Layout,
        shape: &[i64],
        what: &str,
    ) -> Result<BlockedDigits, ConversionRefusal> {
        if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
            return not_expressible(
                format!("{what} addresses one memory; the layout also uses `{axis}`"),
                None,
            );
        }
        if layout.size() == 0 {
            return Ok(BlockedDigits { base: 0, dims: vec![Vec::new(); shape.len()] });
        }
        if layout.tile().replica_count() > 1 && layout.analyze_image()?.copies > 1 {
            return not_expressible(
                format!("an element has several places, and {what} gives each one"),
                Some(0),
            );
        }
        let at = |flat: i64| -> Result<i64, ConversionRefusal> {
            Ok(layout
                .physical_coordinates(flat)?
                .sorted_coordinates()
                .first()
                .map_or(0, |p| p.get(Axis::M)))
        };
        let base = at(0)?;
        // Iters that follow the dimensions are the digits already. Otherwise each dimension is
        // evaluated along its axis, which is the only function it can have; the caller compares the
        // result with the layout.
        if let Some(dims) = digits_from_iters(layout, shape) {
            return Ok(BlockedDigits { base, dims });
        }
        let mut weight = 1;
        let mut dims = Vec::with_capacity(shape.len());
        for (d, extent) in shape.iter().enumerate().rev() {
            if *extent > MAX_TABULATED_EXTENT {
                let limit = MAX_TABULATED_EXTENT.cast_unsigned();
                return Err(LayoutError::TooLarge { what: "reading a dimension", limit }.into());
            }
            match digits_of_function(*extent, |k| Ok(at(k * weight)? - base))? {
                Ok(digits) => dims.push(digits),
                Err(k) => {
                    let reason = format!(
                        "the index of dimension {d} is not split over blocks: element {k} of it breaks the pattern"
                    );
                    return not_expressible(reason, Some(k * weight));
                }
            }
            weight *= extent;
        }
        dims.reverse();
        Ok(BlockedDigits { base, dims })
    }

    /// The digits of a list of positions, one for every element in row-major order; `None` where the
    /// positions are no sum of functions of the dimensions that are split over digits.
    pub(crate) fn from_positions(shape: &[i64], order: &[i64]) -> Option<BlockedDigits> {
        let at = |flat: i64| usize::try_from(flat).ok().and_then(|i| order.get(i)).copied();
        let base = at(0)?;
        let mut weight = 1;
        let mut dims = Vec::with_capacity(shape.len());
        for extent in shape.iter().rev() {
            dims.push(
                digits_of_function(*extent, |k| Ok(at(k * weight).unwrap_or(0) - base))
                    .ok()?
                    .ok()?,
            );
            weight *= extent;
        }
        dims.reverse();
        let found = BlockedDigits { base, dims };
        let table = found.build_layout(shape).ok()?.offset_table(Axis::M).ok()?;
        (table == order).then_some(found)
    }

    /// The digits of a sum of functions of the dimensions, from its value at a coordinate; `None` where one
    /// of them is not split over digits.
    pub(crate) fn from_position_function(
        shape: &[i64],
        at: impl Fn(&[i64]) -> Result<i64, Diagnostic>,
    ) -> Result<Option<BlockedDigits>, Diagnostic> {
        let mut coordinate = vec![0; shape.len()];
        let base = at(&coordinate)?;
        let mut dims = Vec::with_capacity(shape.len());
        for (d, extent) in shape.iter().enumerate() {
            if *extent > MAX_TABULATED_EXTENT {
                let limit = MAX_TABULATED_EXTENT.cast_unsigned();
                return Err(LayoutError::TooLarge { what: "reading a dimension", limit }.into());
            }
            let mut values = Vec::new();
            for k in 0..*extent {
                zellige_guard::count_step();
                coordinate[d] = k;
                let value = at(&coordinate)?.checked_sub(base);
                values.push(value.ok_or_else(|| LayoutError::overflow_of("an address"))?);
            }
            coordinate[d] = 0;
            let value = |k: i64| usize::try_from(k).ok().and_then(|k| values.get(k)).copied();
            match digits_of_function(*extent, |k| Ok(value(k).unwrap_or(0))) {
                Ok(Ok(digits)) => dims.push(digits),
                _ => return Ok(None),
            }
        }
        Ok(Some(BlockedDigits { base, dims }))
    }

    /// The layout that these digits describe.
    pub(crate) fn build_layout(&self, shape: &[i64]) -> Result<Layout, LayoutError> {
        let dim = |(valid, digits): (&i64, &Vec<BlockedDigit>)| BlockedDim {
            valid: *valid,
            digits: digits.clone(),
        };
        build_blocked_layout(&shape.iter().zip(&self.dims).map(dim).collect::<Vec<_>>(), self.base)
    }

    /// The first element that a digit moves.
    pub(crate) fn first_moved_element(
        &self,
        shape: &[i64],
        dim: usize,
        digit: usize,
    ) -> Option<i64> {
        let faster = self.dims[dim].iter().skip(digit + 1).map(|d| d.extent);
        let after = shape.iter().skip(dim + 1).copied();
        checked_product(faster.chain(after), "an index").ok()
    }

    /// The digits in the order of memory, outermost first, where each steps exactly over the blocks inside
    /// it. The slowest digit of a dimension is padded, or a block of padding added to a dimension that
    /// counts nothing more, where that closes a gap.
    pub(crate) fn dense_block_order(
        &self,
        shape: &[i64],
        inside: bool,
        name: impl Fn(usize) -> String,
    ) -> Result<Vec<DigitBlock>, (String, Option<i64>)> {
        if self.base != 0 {
            let reason = format!("the first element is at {}, and blocks begin at 0", self.base);
            return Err((reason, Some(0)));
        }
        let mut all: Vec<(BlockedDigit, usize, usize)> = Vec::new();
        for (d, digits) in self.dims.iter().enumerate() {
            all.extend(digits.iter().enumerate().map(|(k, digit)| (*digit, d, k)));
        }
        if let Some((digit, d, k)) = all.iter().find(|(digit, _, _)| digit.stride <= 0) {
            let reason = match digit.stride {
                0 => format!("dimension {} is a broadcast", name(*d)),
                s => format!("dimension {} runs backwards, by {s}", name(*d)),
            };
            return Err((reason, self.first_moved_element(shape, *d, *k)));
        }
        // Dense blocks of rising stride can be assembled from the innermost outwards: each stride
        // must be the size of all blocks inside it, or padding must fill the difference.
        all.sort_by_key(|(digit, _, _)| digit.stride);
        let mut order: Vec<DigitBlock> = Vec::new();
        let mut run = 1i64;
        for (digit, dim, k) in all {
            if digit.stride != run {
                // A dimension whose elements are all counted by the blocks so far may get a block of
                // padding that fills the gap. One without any block is preferred, because it keeps the
                // blocks of the others together.
                let used = |d: &usize| order.iter().any(|b| b.dim == *d);
                let whole = |d: &usize| {
                    self.dims[*d].is_empty() || order.iter().any(|b| b.dim == *d && b.digit == 0)
                };
                let mut all_spent = (0..shape.len()).filter(whole);
                let spent = all_spent.clone().find(|d| !used(d)).or_else(|| all_spent.next());
                match order.last_mut() {
                    // Padding of the block before.
                    Some(last)
                        if (last.outer || inside)
                            && digit.stride % (run / last.extent) == 0
                            && digit.stride > run =>
                    {
                        *last = DigitBlock {
                            extent: digit.stride / (run / last.extent),
                            outer: false,
                            ..*last
                        };
                    }
                    _ if digit.stride > run && digit.stride % run == 0 && spent.is_some() => {
                        let dim = spent.unwrap_or(0);
                        let extent = digit.stride / run;
                        order.push(DigitBlock { dim, digit: 0, count: 1, extent, outer: false });
                    }
                    // Padding of every element of a dimension by itself.
                    _ if inside && digit.stride > run && digit.stride % run == 0 => {
                        let (extent, digit) = (digit.stride / run, self.dims[dim].len());
                        order.push(DigitBlock { dim, digit, count: 1, extent, outer: false });
                    }
                    _ => {
                        let (name, step) = (name(dim), digit.stride);
                        let reason = if step < run {
                            format!(
                                "dimension {name} steps by {step}, inside a block of {run} positions"
                            )
                        } else {
                            format!(
                                "dimension {name} steps by {step} over a block of {run}, and no padding fills the gap"
                            )
                        };
                        return Err((reason, self.first_moved_element(shape, dim, k)));
                    }
                }
            }
            let BlockedDigit { extent, .. } = digit;
            order.push(DigitBlock { dim, digit: k, count: extent, extent, outer: k == 0 });
            run = digit
                .stride
                .checked_mul(digit.extent)
                .ok_or(("an address does not fit in 64 bits".to_string(), None))?;
        }
        order.reverse();
        Ok(order)
    }
}

/// The order of memory split into the outer dimensions, each with one block, and the inner blocks.
pub(crate) fn split_outer_and_inner(order: &[DigitBlock]) -> (&[DigitBlock], &[DigitBlock]) {
    let cut = order.iter().position(|b| !b.outer).unwrap_or(order.len());
    order.split_at(cut)
}

/// Outer dimensions in the order of memory. Dimensions without a block of their own, which may be anywhere,
/// follow the dimension before them.
pub(crate) fn outer_dim_order(outer: &[DigitBlock], rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = outer.iter().map(|b| b.dim).collect();
    for d in 0..rank {
        if !order.contains(&d) {
            let at = d.checked_sub(1).and_then(|left| order.iter().position(|o| *o == left));
            order.insert(at.map_or(0, |at| at + 1), d);
        }
    }
    order
}

/// Whether a candidate is the layout; where it is not, a refusal with the element that shows it.
pub(crate) fn prove_candidate(
    candidate: &Layout,
    layout: &Layout,
    text: &str,
) -> Result<(), ConversionRefusal> {
    match candidate.find_difference(layout)? {
        None => Ok(()),
        Some(LayoutDifference::Size(a, b)) => {
            not_expressible(format!("{text} has {a} elements, not {b}"), None)
        }
        Some(LayoutDifference::At { index, left, right }) => {
            let show = |points: &[zellige_layout::PhysicalCoordinate]| {
                points.first().map_or_else(String::new, ToString::to_string)
            };
            let (left, right) = (show(&left), show(&right));
            let reason = format!(
                "the nearest is {text}, which puts the element at {left}, but it is at {right}"
            );
            not_expressible(reason, Some(index))
        }
    }
}

/// The digits of every dimension from the iters, if these follow the dimensions. No element is evaluated.
fn digits_from_iters(layout: &Layout, shape: &[i64]) -> Option<Vec<Vec<BlockedDigit>>> {
    if layout.effective_swizzle().is_some() {
        return None;
    }
    let padded: Vec<i64> = match layout.window() {
        None => shape.to_vec(),
        Some(w) if w.shape() == shape && w.dims().iter().all(|d| d.begin == 0) => w.padded_shape(),
        Some(_) => return None,
    };
    let (grouped, seps) = layout.tile().canonical_form().group(&padded).ok()?;
    let dims = seps.windows(2).zip(shape);
    Some(
        dims.map(|(s, valid)| {
            let mut left = *valid;
            let mut digits: Vec<BlockedDigit> = Vec::new();
            // Fastest first, up to the last digit that the valid elements use: larger ones are always 0.
            for it in grouped.shard()[s[0]..s[1]].iter().rev() {
                if left <= 1 {
                    break;
                }
                let extent = it.extent.min(left);
                left = div_ceil(left, it.extent);
                match digits.last_mut() {
                    _ if extent == 1 => {}
                    Some(inner) if inner.stride.checked_mul(inner.extent) == Some(it.stride) => {
                        inner.extent *= extent;
                    }
                    _ => digits.push(BlockedDigit { extent, stride: it.stride }),
                }
            }
            digits.reverse();
            digits
        })
        .collect(),
    )
}

/// The digits of a function of one index, slowest first, or the first index at which no digits have its value.
fn digits_of_function(
    extent: i64,
    at: impl Fn(i64) -> Result<i64, ConversionRefusal>,
) -> Result<Result<Vec<BlockedDigit>, i64>, ConversionRefusal> {
    let mut digits: Vec<BlockedDigit> = Vec::new();
    let mut weight = 1;
    while weight < extent {
        let stride = at(weight)?;
        let most = div_ceil(extent, weight);
        let mut steps = 2;
        while steps < most && Some(at(steps * weight)?) == steps.checked_mul(stride) {
            zellige_guard::count_step();
            steps += 1;
        }
        digits.push(BlockedDigit { extent: steps, stride });
        weight *= steps;
    }
    for k in 0..extent {
        zellige_guard::count_step();
        // If the function has no digits, the candidate's sum may exceed 64 bits.
        let (mut rest, mut sum) = (k, 0i128);
        for digit in &digits {
            sum += i128::from(rest % digit.extent) * i128::from(digit.stride);
            rest /= digit.extent;
        }
        if i128::from(at(k)?) != sum {
            return Ok(Err(k));
        }
    }
    digits.reverse();
    Ok(Ok(digits))
}
