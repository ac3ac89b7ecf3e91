//! The box of a tensor that the shard of a rank holds, in a file or in a process.
//!
//! A layout pads every shard to the longest one, while files and processes hold only existing
//! elements. If a shard is a row-major box of the tensor, it is stored with the extents of the box,
//! and addresses in the padded shard are converted to addresses in the box.

use crate::sharded::{ChunkedTensor, ShardedLayout};
use zellige_layout::PaddedExtent;
use zellige_layout::int::div_ceil;
use zellige_movement::{CopyLoop, CopyNest};

/// The extents of a shard, padded and actual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardBox {
    /// The extents of the longest shard.
    pub padded: Vec<i64>,
    /// The extents of the shard of this rank.
    pub actual: Vec<i64>,
    /// Per dimension, the index of the shard's part and the number of parts.
    pub(crate) part: Vec<(i64, i64)>,
    /// The coordinates of the first element, if the shard is an interval in every dimension.
    pub(crate) begin: Option<Vec<i64>>,
}

impl ShardBox {
    /// The box of a rank, if shards are boxes of a tensor of this shape.
    pub fn of_rank(sharded: &ShardedLayout, shape: &[i64], rank: i64) -> Option<ShardBox> {
        if let Some(chunked) = sharded.chunked_tensor() {
            return ShardBox::of_chunk(sharded, chunked, shape, rank);
        }
        let dims = sharded.sharded_dimensions(shape)?;
        let digits = sharded.digits_of(rank)?;
        let iters = sharded.layout().tile().shard();
        let count = shape.len();
        let mut next = 1;
        for it in iters.iter().rev().filter(|it| it.axis.is_memory() && it.extent != 1) {
            // Row-major without gaps: only then is the shard the box as a file holds it.
            if it.stride != next {
                return None;
            }
            next *= it.extent;
        }
        if sharded.layout().tile().offset_on(sharded.memory_axis()) != 0 {
            return None;
        }
        let (mut padded, mut actual, mut part) =
            (vec![1; count], vec![1; count], vec![(0, 1); count]);
        let (mut begin, mut interval) = (vec![0; count], true);
        // The iters are assigned to windows in order.
        let windows: Vec<PaddedExtent> = match sharded.layout().window() {
            Some(window) => window.dims().to_vec(),
            None => shape.iter().map(|n| PaddedExtent::without_padding(*n)).collect(),
        };
        let mut at = 0;
        for window in windows {
            let (mut rest, mut local, mut index, mut inside) = (window.padded, 1, 0, false);
            let mut dim = None;
            let first = at;
            while at < iters.len() && (rest > 1 || iters[at].extent == 1 || at == first) {
                let it = &iters[at];
                if it.extent > rest {
                    break;
                }
                if it.extent > 1 {
                    dim = dim.or(Some(dims[at]));
                }
                if it.axis.is_memory() {
                    local *= it.extent;
                    inside |= it.extent > 1;
                } else if it.extent > 1 {
                    // A device iter inside of a memory iter interleaves elements of several ranks;
                    // with padding in between, the lengths of shards no longer follow from the
                    // index of the part.
                    if inside && window.valid != window.padded {
                        return None;
                    }
                    // Only when all device iters of a dimension stand in front of its memory iters
                    // is the shard an interval.
                    interval &= !inside && padded[dims[at]] == 1;
                    index = index * it.extent + digits[at];
                    let (k, n) = part[dims[at]];
                    part[dims[at]] = (k * it.extent + digits[at], n * it.extent);
                }
                rest /= it.extent.max(1);
                at += 1;
            }
            if window.begin != 0 {
                return None;
            }
            let held = match window.valid == window.padded {
                true => local,
                false => (window.valid - index * local).clamp(0, local),
            };
            if let Some(d) = dim {
                begin[d] = begin[d] * window.valid + (index * local).min(window.valid);
                padded[d] *= local;
                actual[d] *= held;
            }
        }
        Some(ShardBox { padded, actual, part, begin: interval.then_some(begin) })
    }

    /// The box of a rank of a tensor that is chunked repeatedly.
    fn of_chunk(
        sharded: &ShardedLayout,
        chunked: &ChunkedTensor,
        shape: &[i64],
        rank: i64,
    ) -> Option<ShardBox> {
        let (cuts, digits) = (sharded.chunk_cuts(chunked)?, sharded.digits_of(rank)?);
        if chunked.shape != shape {
            return None;
        }
        let count = shape.len();
        let mut found = ShardBox {
            padded: vec![1; count],
            actual: shape.to_vec(),
            part: vec![(0, 1); count],
            begin: None,
        };
        let mut begin = vec![0; count];
        for (d, cuts) in cuts.iter().enumerate() {
            for (k, n) in cuts {
                // DTensor's rule: chunks of ceil(length / size), the last ones shorter or empty.
                let step = div_ceil(found.actual[d], *n);
                let first = (digits[*k] * step).min(found.actual[d]);
                begin[d] += first;
                found.actual[d] = step.min(found.actual[d] - first);
                let (index, parts) = found.part[d];
                found.part[d] = (index * n + digits[*k], parts * n);
            }
            found.padded[d] = chunked.even[d] / found.part[d].1;
        }
        Some(ShardBox { begin: Some(begin), ..found })
    }

    /// Converts an address of the padded shard to one in the box.
    pub(crate) fn address_in_box(&self, address: i64) -> i64 {
        let (mut rest, mut weight, mut out) = (address, 1, 0);
        for (padded, actual) in self.padded.iter().zip(&self.actual).rev() {
            // The address is read as a mixed-radix number of the padded extents and written with
            // the actual ones.
            out += rest % padded.max(&1) * weight;
            rest /= padded.max(&1);
            weight *= actual;
        }
        out
    }
}

/// Converts nests between padded shards to nests between boxes, on the sides that have a box.
pub(crate) fn map_nests_to_boxes(
    nests: Vec<CopyNest>,
    from: Option<&ShardBox>,
    to: Option<&ShardBox>,
) -> Vec<CopyNest> {
    let place = |b: Option<&ShardBox>, a: i64| b.map_or(a, |b| b.address_in_box(a));
    // A step stays inside of one digit, so it converts like an address; negative ones run backwards
    // over the same digit.
    let step = |b: Option<&ShardBox>, s: i64| s.signum() * place(b, s.abs());
    nests
        .into_iter()
        .map(|nest| CopyNest {
            loops: nest
                .loops
                .iter()
                .map(|l| CopyLoop { range: l.range, src: step(from, l.src), dst: step(to, l.dst) })
                .collect(),
            starts: nest.starts.iter().map(|(a, b)| (place(from, *a), place(to, *b))).collect(),
        })
        .collect()
}
