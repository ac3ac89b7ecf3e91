//! Transfers as the device's tools write them: one loop for every device dimension.
//!
//! In the strides of its own, a dense tensor's elements are the numbers `0..n`, and the device dimensions
//! that have strides are the digits of such a number, the largest stride first. If a stride does not divide
//! the block above it, the block ends inside a digit: the whole steps are one nest, and the rest is
//! another. A tensor whose own strides leave gaps is several such blocks, nested in one another.

use crate::NamedNest;
use crate::{LaneArrangement, StickLayout};
use zellige_layout::StridedLayout;

/// The most nests of one transfer. Each dimension that ends inside a digit doubles their number, and beyond
/// this limit the nests of the planner are fewer.
const MOST_NESTS: usize = 256;

/// The nests between a host tensor and a device layout that is bound to it, with as many loops as there are
/// device dimensions, outermost first: whole sticks, then the partial ones.
///
/// A device dimension of stride 0 holds replicas: on the way to the device its loop writes them all, on the
/// way back the first is read.
///
/// `None` where the digits alone do not describe the transfer: the tensor's own strides overlap or are
/// broadcasts, a digit steps over a gap of theirs, the elements of a stick are rearranged, or the host's
/// memory changes direction inside a digit.
///
/// **Law**: where there are nests, they are the mapping of the plan.
pub(crate) fn plan_dimension_nests(
    host: &StridedLayout,
    device: &StickLayout,
    to_device: bool,
) -> Option<Vec<NamedNest>> {
    let own = device.host()?;
    if device.arrangement() != LaneArrangement::Standard {
        return None;
    }
    let numel: i64 = own.size().iter().product();
    if numel == 0 {
        return Some(Vec::new());
    }
    let sizes = device.device_size();
    let strides = device.device_strides().ok()?;
    let map = device.stride_map();
    let mut order: Vec<usize> = (0..sizes.len()).filter(|j| sizes[*j] > 1 && map[*j] > 0).collect();
    order.sort_by_key(|j| std::cmp::Reverse(map[*j]));
    let digits =
        DigitDimensions { order, sizes, strides, map, blocks: blocks_of_own_strides(own)? };
    let mut parts = Vec::new();
    let copies = |j: usize| if to_device && map[j] == 0 { sizes[j] } else { 1 };
    let counts = (0..sizes.len()).map(copies).collect();
    let whole = DigitBox { counts, own: 0, device: 0, left: Vec::new() };
    digits.cut_into_boxes((0, 0), digits.blocks.first().map_or(1, |b| b.end), whole, &mut parts)?;
    // The device's own tools write the nests of whole sticks before those of the rest.
    parts.sort_by(|a, b| a.left.iter().rev().cmp(b.left.iter().rev()));
    let places = HostPlaces { host, own };
    parts.iter().map(|part| places.nest_of_box(part, &digits)).collect()
}

/// Numbers without gaps: those below `end` that `unit` divides.
#[derive(Debug, Clone, Copy)]
struct NumberBlock {
    unit: i64,
    end: i64,
}

/// The blocks of a tensor's own strides, the largest first; `None` where elements share a number.
fn blocks_of_own_strides(own: &StridedLayout) -> Option<Vec<NumberBlock>> {
    let mut dims: Vec<(i64, i64)> = own.sizes_and_strides().filter(|(n, _)| *n > 1).collect();
    dims.sort_by_key(|(_, s)| *s);
    let mut blocks: Vec<NumberBlock> = Vec::new();
    for (n, unit) in dims {
        let end = n.checked_mul(unit)?;
        match blocks.last_mut() {
            Some(below) if below.end == unit => below.end = end,
            Some(below) if below.end > unit => return None,
            _ if unit < 1 => return None,
            _ => blocks.push(NumberBlock { unit, end }),
        }
    }
    blocks.reverse();
    Some(blocks)
}

/// The device dimensions that are digits, the largest stride first, and all of them.
struct DigitDimensions<'d> {
    /// What they are digits of.
    blocks: Vec<NumberBlock>,
    order: Vec<usize>,
    sizes: &'d [i64],
    strides: Vec<i64>,
    map: &'d [i64],
}

/// A box of device coordinates.
#[derive(Clone)]
struct DigitBox {
    /// Per device dimension, how many steps.
    counts: Vec<i64>,
    /// The number of its first element.
    own: i64,
    /// The device position of its first element.
    device: i64,
    /// Per digit, whether the box is the rest after the whole steps.
    left: Vec<bool>,
}

impl DigitDimensions<'_> {
    /// Cuts the numbers below `end` of a block by a digit and the faster digits; `None` where these do not
    /// reach all of it.
    fn cut_into_boxes(
        &self,
        (digit, block): (usize, usize),
        end: i64,
        part: DigitBox,
        found: &mut Vec<DigitBox>,
    ) -> Option<()> {
        let unit = self.blocks.get(block).map_or(1, |b| b.unit);
        let Some(j) = self.order.get(digit).copied() else {
            found.push(part);
            let last = block + 1 >= self.blocks.len();
            return (end == unit && last && found.len() <= MOST_NESTS).then_some(());
        };
        if self.map[j] < unit {
            let next = self.blocks.get(block + 1).filter(|_| end == unit)?;
            return self.cut_into_boxes((digit, block + 1), next.end, part, found);
        }
        if self.map[j] % unit != 0 {
            return None;
        }
        let (steps, rest) = (end / self.map[j], end % self.map[j]);
        // The device dimension is too short for this block, so some elements would have no loop.
        if steps + i64::from(rest > 0) > self.sizes[j] {
            return None;
        }
        if steps > 0 {
            let mut whole = part.clone();
            whole.counts[j] = steps;
            whole.left.push(false);
            self.cut_into_boxes((digit + 1, block), self.map[j], whole, found)?;
        }
        if rest > 0 {
            let mut last = part;
            last.own += steps * self.map[j];
            last.device += steps * self.strides[j];
            last.left.push(true);
            self.cut_into_boxes((digit + 1, block), rest, last, found)?;
        }
        Some(())
    }
}

/// The addresses of numbers in host memory.
struct HostPlaces<'h> {
    host: &'h StridedLayout,
    own: &'h StridedLayout,
}

impl HostPlaces<'_> {
    /// The coordinate of a number.
    fn coordinate_of_number(&self, mut number: i64) -> Vec<i64> {
        let (size, own) = (self.own.size(), self.own.stride());
        let mut order: Vec<usize> = (0..size.len()).filter(|d| size[*d] > 1).collect();
        order.sort_by_key(|d| std::cmp::Reverse(own[*d]));
        let mut coordinate = vec![0; size.len()];
        for d in order {
            coordinate[d] = number / own[d];
            number %= own[d];
        }
        coordinate
    }

    /// Size, own stride and host stride of every dimension.
    fn host_dims(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        let (own, host) = (self.own.stride(), self.host.stride());
        self.own.size().iter().zip(own).zip(host).map(|((n, own), host)| (*n, *own, *host))
    }

    /// The distance in host memory of a step of a coordinate.
    fn memory_step(&self, coordinate: &[i64]) -> Option<i64> {
        let terms = coordinate.iter().zip(self.host.stride());
        i64::try_from(terms.map(|(c, s)| i128::from(*c) * i128::from(*s)).sum::<i128>()).ok()
    }

    fn nest_of_box(&self, part: &DigitBox, digits: &DigitDimensions<'_>) -> Option<NamedNest> {
        let first = self.coordinate_of_number(part.own);
        let mut last = first.clone();
        let mut host_strides = Vec::with_capacity(part.counts.len());
        for (j, count) in part.counts.iter().enumerate() {
            let stride = digits.map[j];
            if *count > 1 {
                let step = self.coordinate_of_number(stride);
                last.iter_mut().zip(&step).for_each(|(l, s)| *l += s * (count - 1));
                host_strides.push(self.memory_step(&step)?);
            } else {
                // The loop has one iteration, so its stride has no effect. The device's tools print the
                // stride that a step would have.
                let same = self.host_dims().find(|(n, own, _)| *n > 1 && *own == stride);
                let none = if stride == -1 { 1 } else { stride };
                host_strides.push(same.map_or(none, |(_, _, host)| host));
            }
        }
        // A step that carries into the next dimension has another distance in memory, unless the memory has
        // the tensor's own strides.
        let as_own = self.host_dims().all(|(n, own, host)| n == 1 || own == host);
        if !as_own && last.iter().zip(self.own.size()).any(|(l, n)| l >= n) {
            return None;
        }
        Some(NamedNest {
            ranges: part.counts.clone(),
            host_strides,
            device_strides: digits.strides.clone(),
            host_offset: self.host.element_address(&first).ok()?,
            device_offset: part.device,
        })
    }
}
