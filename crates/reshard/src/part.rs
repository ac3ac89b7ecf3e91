//! The elements that one rank sends to another.

use zellige_movement::{CopyLoop, CopyNest};

/// Elements that one rank sends to another, or keeps: a range of the elements of a block, counted
/// with the last loop fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPart {
    /// The rank that has them.
    pub from: i64,
    /// The rank that needs them.
    pub to: i64,
    pub(crate) loops: Vec<CopyLoop>,
    /// The address of the first element of the block in the shard of the sender, and of the receiver.
    pub(crate) begin: (i64, i64),
    pub(crate) range: (i64, i64),
    /// Further positions of each element in the shard of the receiver: (extent, stride).
    pub(crate) places: Vec<(i64, i64)>,
    /// The order in which both ranks pack the parts of their pair: nest, start, steps, first
    /// element.
    pub(crate) order: (usize, usize, i64, i64),
}

impl TransferPart {
    /// The number of elements.
    pub fn element_count(&self) -> i64 {
        self.range.1 - self.range.0
    }

    /// The nests that copy the elements from the shard of the sender to that of the receiver.
    pub fn copy_nests(&self) -> Vec<CopyNest> {
        let mut nests = self.clip_to_range(&self.loops, self.begin);
        for nest in &mut nests {
            nest.loops.extend(self.copy_loops());
        }
        nests
    }

    /// The nests that pack the elements into a buffer from address `at` on.
    pub fn pack_nests(&self, at: i64) -> Vec<CopyNest> {
        let loops: Vec<CopyLoop> =
            self.packed_loops().map(|(l, step)| CopyLoop { dst: step, ..l }).collect();
        self.clip_to_range(&loops, (self.begin.0, at - self.range.0))
    }

    /// The nests that unpack the elements from a buffer where they begin at address `at`.
    pub fn unpack_nests(&self, at: i64) -> Vec<CopyNest> {
        let loops: Vec<CopyLoop> =
            self.packed_loops().map(|(l, step)| CopyLoop { src: step, ..l }).collect();
        let mut nests = self.clip_to_range(&loops, (at - self.range.0, self.begin.1));
        for nest in &mut nests {
            nest.loops.extend(self.copy_loops());
        }
        nests
    }

    /// Slice `index` of `count` nearly equal slices of the part.
    ///
    /// **Law**: together the slices are this part.
    pub fn slice_of(&self, index: i64, count: i64) -> TransferPart {
        let at = |k: i64| {
            // The product may not fit in 64 bits for a large tensor in many rounds.
            let (n, k, count) =
                (i128::from(self.element_count()), i128::from(k), i128::from(count));
            self.range.0 + i64::try_from(n * k / count.max(1)).unwrap_or(0)
        };
        let range = (at(index), at(index + 1));
        TransferPart {
            range,
            order: (self.order.0, self.order.1, self.order.2, range.0),
            ..self.clone()
        }
    }

    fn copy_loops(&self) -> impl Iterator<Item = CopyLoop> + '_ {
        self.places.iter().map(|(range, dst)| CopyLoop { range: *range, src: 0, dst: *dst })
    }

    /// Every loop with its step in a buffer that holds the whole block.
    fn packed_loops(&self) -> impl Iterator<Item = (CopyLoop, i64)> {
        let mut steps = vec![1; self.loops.len()];
        for k in (1..steps.len()).rev() {
            steps[k - 1] = steps[k] * self.loops[k].range;
        }
        self.loops.clone().into_iter().zip(steps)
    }

    fn clip_to_range(&self, loops: &[CopyLoop], begin: (i64, i64)) -> Vec<CopyNest> {
        let mut out = Vec::new();
        clip_loops(loops, begin, self.range, &mut out);
        out
    }
}

/// Clips loops to a range of their elements.
fn clip_loops(
    loops: &[CopyLoop],
    (a, b): (i64, i64),
    (low, high): (i64, i64),
    out: &mut Vec<CopyNest>,
) {
    if low >= high {
        return;
    }
    let total: i64 = loops.iter().map(|l| l.range).product();
    let Some((outer, inner)) = loops.split_first().filter(|_| (low, high) != (0, total)) else {
        let loops = loops.iter().copied().filter(|l| l.range != 1).collect();
        out.push(CopyNest { loops, starts: vec![(a, b)] });
        return;
    };
    let size = total / outer.range;
    let at = |i: i64| (a + i * outer.src, b + i * outer.dst);
    let (first, last) = (low / size, (high - 1) / size);
    if first == last {
        return clip_loops(inner, at(first), (low - first * size, high - first * size), out);
    }
    // A part of the first step, all whole steps as one nest, and a part of the last step.
    let (whole, end) = ((low + size - 1) / size, high / size);
    if whole > first {
        clip_loops(inner, at(first), (low - first * size, size), out);
    }
    if end > whole {
        let mut steps = loops.to_vec();
        steps[0].range = end - whole;
        steps.retain(|l| l.range != 1);
        out.push(CopyNest { loops: steps, starts: vec![at(whole)] });
    }
    // The rest of the last step; `clip_loops` returns at once where nothing is left.
    clip_loops(inner, at(end), (0, high - end * size), out);
}
