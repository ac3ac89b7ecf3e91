//! One side of a move: the address of an element as a function of its flat index.

use crate::linear_pieces::LinearBreaks;
use smallvec::SmallVec;
use zellige_layout::{Axis, Iter, Layout, LayoutError, PaddedExtent, Result, Swizzle};

/// A layout that maps to one memory, before its swizzle.
///
/// The index is split over the valid extents, moved into the padded ones and flattened; the padded
/// index is split over the digits, each of which adds its steps to the address.
#[derive(Debug, Clone)]
pub(crate) struct AddressFunction {
    /// Fastest first. A dimension without padding is fused with the next slower one, and one with a single valid
    /// index with the next faster one: neither has an end inside of which anything could change.
    window: SmallVec<[PaddedExtent; 4]>,
    /// (extent, stride), fastest first. Digits that continue one another are fused.
    digits: SmallVec<[(i64, i64); 8]>,
    pub(crate) swizzle: Option<Swizzle>,
    /// The constant address.
    pub(crate) offset: i64,
    /// Replicas as (extent, stride).
    pub(crate) replica: SmallVec<[(i64, i64); 2]>,
}

impl AddressFunction {
    /// The function of a layout that is not empty.
    pub(crate) fn new(layout: &Layout) -> Result<AddressFunction> {
        match layout.window() {
            Some(window) => AddressFunction::of_window(layout, window.dims()),
            None => {
                AddressFunction::of_window(layout, &[PaddedExtent::without_padding(layout.size())])
            }
        }
    }

    /// The elements of a box, not empty, in the padded domain of a layout.
    pub(crate) fn of_window(layout: &Layout, valid: &[PaddedExtent]) -> Result<AddressFunction> {
        let axis = find_memory_axis(layout)?;
        let mut window: SmallVec<[PaddedExtent; 4]> = SmallVec::new();
        for outer in valid.iter().rev() {
            match window.last_mut() {
                Some(inner) if inner.valid == inner.padded || outer.valid == 1 => {
                    *inner = PaddedExtent {
                        begin: outer.begin * inner.padded + inner.begin,
                        valid: outer.valid * inner.valid,
                        padded: outer.padded * inner.padded,
                    };
                }
                _ => window.push(*outer),
            }
        }
        let tile = layout.tile();
        let mut digits: SmallVec<[(i64, i64); 8]> = SmallVec::new();
        for it in tile.shard().iter().rev().filter(|it| it.extent != 1) {
            match digits.last_mut() {
                Some((e, s)) if e.checked_mul(*s) == Some(it.stride) => *e *= it.extent,
                _ => digits.push((it.extent, it.stride)),
            }
        }
        let moving = |it: &&Iter| it.extent > 1 && it.stride != 0;
        let replica = tile.replica().iter().filter(moving).map(|it| (it.extent, it.stride));
        Ok(AddressFunction {
            window,
            digits,
            swizzle: layout.swizzle().filter(|s| !s.is_identity()),
            offset: axis.map_or(0, |a| tile.offset_on(a)),
            replica: replica.collect(),
        })
    }

    /// The number of elements.
    pub(crate) fn element_count(&self) -> i64 {
        self.window.iter().map(|d| d.valid).product()
    }

    fn to_padded_index(&self, index: i64) -> i64 {
        let (mut rest, mut weight, mut padded) = (index, 1, 0);
        for d in &self.window {
            padded += (rest % d.valid + d.begin) * weight;
            rest /= d.valid;
            weight *= d.padded;
        }
        padded
    }

    /// The address of an index, without the constant.
    pub(crate) fn linear_address(&self, index: i64) -> i64 {
        let mut rest = self.to_padded_index(index);
        let mut address = 0;
        for (i, (extent, stride)) in self.digits.iter().enumerate() {
            let last = i + 1 == self.digits.len();
            address += if last { rest } else { rest % extent } * stride;
            rest = if last { 0 } else { rest / extent };
        }
        address
    }

    /// Appends the indices at which it stops being linear, and those at which its swizzle does.
    ///
    /// False where a padded dimension ends inside a digit, or a digit inside a padded dimension that
    /// continues: then these indices are no arithmetic progressions.
    pub(crate) fn append_breaks(&self, out: &mut Vec<LinearBreaks>) -> bool {
        let mut digits = self.digits.iter();
        // The next boundary of digits, in padded indices. Digits and dimensions are merged like two sorted lists.
        let mut boundary = 1i64;
        let mut digit = digits.next();
        let (mut weight, mut padded_weight) = (1i64, 1i64);
        for (d, dim) in self.window.iter().enumerate() {
            let outermost = d + 1 == self.window.len();
            let end = padded_weight.saturating_mul(dim.padded);
            let inner = WindowDimension { weight, padded_weight, dim };
            while let Some((extent, stride)) = digit {
                let next = boundary.saturating_mul(*extent);
                if let Some(swizzle) = self.swizzle {
                    inner.append_swizzle_breaks(boundary, *extent, *stride, swizzle, out);
                }
                if next > end {
                    break;
                }
                if next % padded_weight != 0 || !outermost && end % next != 0 {
                    return false;
                }
                if next < end {
                    inner.append_multiples(next, out);
                }
                (boundary, digit) = (next, digits.next());
            }
            weight *= dim.valid;
            padded_weight = end;
            // A digit that continues behind this dimension must hold it whole, or the breaks of the next dimension
            // would depend on the index in this one.
            if digit.is_some() && end % boundary != 0 {
                return false;
            }
            if dim.valid > 1 {
                out.push(LinearBreaks::at_multiples(weight));
            }
        }
        true
    }

    /// The number of elements from an index on, itself included, that are evenly spaced, also after the swizzle: as
    /// far as its fastest dimension and digit reach.
    pub(crate) fn even_run_length(&self, index: i64) -> i64 {
        let Some(fastest) = self.window.iter().position(|d| d.valid > 1) else { return 1 };
        let dim = &self.window[fastest];
        let mut step: i64 = self.window[..fastest].iter().map(|d| d.padded).product();
        let mut count = dim.valid - index % dim.valid;
        let mut rest = self.to_padded_index(index);
        for (i, (extent, stride)) in self.digits.iter().enumerate() {
            let last = i + 1 == self.digits.len();
            if !last && step % extent == 0 {
                (step, rest) = (step / extent, rest / extent);
                continue;
            }
            if !last {
                count = count.min((extent - rest % extent - 1) / step + 1);
            }
            let by = stride.saturating_mul(step);
            if let Some(unit) = self.swizzle.map(|sw| 1i64 << sw.per_element())
                && by != 0
            {
                // Until the low bits carry, the XOR adds one constant.
                let low = (self.offset + self.linear_address(index)).rem_euclid(unit);
                let room = if by > 0 { unit - 1 - low } else { low };
                count = count.min(room / by.abs() + 1);
            }
            break;
        }
        count
    }
}

/// A dimension of a window with the weights of one step in it.
struct WindowDimension<'a> {
    weight: i64,
    padded_weight: i64,
    dim: &'a PaddedExtent,
}

impl WindowDimension<'_> {
    /// Appends the multiples of a padded index of which one step is a divisor.
    fn append_multiples(&self, multiples: i64, out: &mut Vec<LinearBreaks>) {
        let PaddedExtent { begin, valid, .. } = *self.dim;
        let unit = multiples / self.padded_weight;
        if unit <= 1 || begin / unit == (begin + valid - 1) / unit {
            return;
        }
        let stretch = self.weight * valid;
        let phase = (-begin).rem_euclid(unit) * self.weight;
        // A unit longer than the dimension has at most one multiple in it.
        let modulus = if unit < valid { unit * self.weight } else { stretch };
        out.push(LinearBreaks { modulus, stretch, phase });
    }

    /// Appends where a swizzle acts along a digit: it keeps the low bits, moves the middle bits and keeps the high
    /// bits. Missing breaks cost size alone, because loops that a swizzle does not leave linear are tabulated.
    fn append_swizzle_breaks(
        &self,
        padded_weight: i64,
        extent: i64,
        stride: i64,
        swizzle: Swizzle,
        out: &mut Vec<LinearBreaks>,
    ) {
        let stride = stride.abs();
        for unit in [1i64 << swizzle.per_element(), 1i64 << swizzle.affected_low_bits()] {
            if stride > 0 && stride < unit && unit % stride == 0 && unit / stride < extent {
                let multiples = padded_weight.saturating_mul(unit / stride);
                if multiples % self.padded_weight == 0 {
                    self.append_multiples(multiples, out);
                }
            }
        }
    }
}

/// The one memory axis of a layout, if it mentions any axis at all.
pub(crate) fn find_memory_axis(layout: &Layout) -> Result<Option<Axis>> {
    match layout.tile().axes() {
        [] => Ok(None),
        [one] if one.is_memory() => Ok(Some(*one)),
        all => {
            let found: Vec<String> = all.iter().map(|a| format!("`{a}`")).collect();
            Err(LayoutError::NotOneAxis { op: "move", axis: "m".into(), found: found.join(", ") })
        }
    }
}
