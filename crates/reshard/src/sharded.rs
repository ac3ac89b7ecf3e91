//! One side of a reshard: a layout over a mesh.

use crate::error::{ReshardError, Result};
use crate::mesh::DeviceMesh;
use zellige_layout::{Axis, AxisKind, AxisTable, Iter, Layout, PhysicalCoordinate, TileLayout};

/// A tensor over the ranks of a mesh.
///
/// **Invariants**, checked by [`ShardedLayout::new`]: every element is on ranks of the mesh and at
/// addresses from 0 up; the iters over devices are digits of the rank, so that a rank determines
/// all of them: which part it holds and which copy of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardedLayout {
    layout: Layout,
    mesh: DeviceMesh,
    /// The digits of the rank, sorted by decreasing step.
    digits: Vec<RankDigit>,
    /// The lowest rank that holds elements.
    lowest: i64,
    /// The number of addresses in a shard.
    span: i64,
    memory: Axis,
    chunked: Option<ChunkedTensor>,
}

/// A tensor with a dimension that is divided unevenly and then divided again, as in DTensor: every
/// mesh axis in turn cuts each chunk into chunks of `ceil(length / size)`, of which the last ones
/// are shorter or empty. No layout describes this. The layout is then that of a longer tensor all
/// of whose shards are as long as the longest one, and addresses are those in such a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkedTensor {
    /// The shape of the tensor.
    pub(crate) shape: Vec<i64>,
    /// The shape of the layout.
    pub(crate) even: Vec<i64>,
}

/// A digit of the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankDigit {
    pub(crate) extent: i64,
    /// The number of ranks from one value to the next; never 0.
    pub(crate) stride: i64,
    /// Whether it counts copies.
    pub(crate) copy: bool,
    /// The index of its iter, in the shard or in the replica.
    pub(crate) iter: usize,
}

/// The holding of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankHolding {
    /// The rank of the first copy of the same part.
    pub(crate) first: i64,
    /// Which copy, from 0.
    pub(crate) copy: i64,
}

impl ShardedLayout {
    /// A layout over a mesh. The mesh may have more axes than the layout mentions; the layout is at
    /// coordinate 0 of those.
    ///
    /// # Errors
    /// Thread axes, several memory axes, addresses below 0, coordinates outside of the mesh, and
    /// device iters that are not digits of the rank.
    pub fn new(layout: Layout, mesh: DeviceMesh) -> Result<ShardedLayout> {
        let refuse = |reason| Err(ReshardError::NotSharded { mesh: mesh.to_string(), reason });
        let tile = layout.tile();
        let memory = layout.memory_axis();
        for axis in tile.axes() {
            let bounds = layout.axis_bounds(*axis)?;
            match axis.kind() {
                AxisKind::Thread { .. } => {
                    return refuse(format!("`{axis}` counts threads, not devices"));
                }
                AxisKind::Memory if *axis != memory => {
                    return refuse(format!("two memory axes, `{memory}` and `{axis}`"));
                }
                AxisKind::Memory if bounds.min < 0 && tile.size() > 0 => {
                    return refuse(format!("a shard begins at address {}, not 0", bounds.min));
                }
                AxisKind::Memory => {}
                AxisKind::Device => {
                    let known = mesh.axes().iter().find(|(a, _)| a == axis);
                    let Some((_, size)) = known else {
                        return refuse(format!("the layout uses `{axis}`"));
                    };
                    if tile.size() > 0 && (bounds.min < 0 || bounds.max >= *size) {
                        return refuse(format!(
                            "the layout reaches from {} to {} on `{axis}`",
                            bounds.min, bounds.max
                        ));
                    }
                }
            }
        }
        let mut digits = Vec::new();
        // An empty tensor has no elements, whatever its iters are. Iters of the shard choose the
        // part and those of the replica the copy; both move the rank.
        let sides = [(false, tile.shard()), (true, tile.replica())];
        for (copy, iters) in sides.into_iter().filter(|_| tile.size() > 0) {
            let moving = |(_, it): &(usize, &Iter)| it.extent > 1 && it.stride != 0;
            for (iter, it) in iters.iter().enumerate().filter(moving) {
                if let Some(step) = mesh.axis_stride(it.axis) {
                    let stride = it.stride * step;
                    digits.push(RankDigit { extent: it.extent, stride, copy, iter });
                }
            }
        }
        digits.sort_by_key(|d| std::cmp::Reverse(d.stride.abs()));
        let mut reach = 0;
        for d in digits.iter().rev() {
            // Otherwise two different combinations of digits would be one rank, and the rank would
            // hold two parts at the same addresses.
            if d.stride.abs() <= reach {
                return refuse(format!(
                    "a step of {} ranks and smaller ones that reach {reach} ranks: a rank does not tell which part it holds",
                    d.stride
                ));
            }
            reach += (d.extent - 1) * d.stride.abs();
        }
        let offset: i64 = mesh
            .axes()
            .iter()
            .filter(|_| tile.size() > 0)
            .filter_map(|(a, _)| Some(tile.offset_on(*a) * mesh.axis_stride(*a)?))
            .sum();
        let down: i64 = digits.iter().map(|d| ((d.extent - 1) * d.stride).min(0)).sum();
        let span = layout.axis_span(memory)?.max(1);
        Ok(ShardedLayout {
            lowest: offset + down,
            digits,
            span,
            memory,
            layout,
            mesh,
            chunked: None,
        })
    }

    /// Reads DTensor placements with their mesh over a shape, or over the shape that they name,
    /// where a dimension is divided unevenly and then divided again; also a `PartitionSpec` with
    /// its mesh over a shape that it divides unevenly, which JAX refuses but checkpoints contain.
    /// `None` for texts with an exact layout, and for other texts. Also returns the shape.
    pub fn parse_chunked(
        text: &str,
        shape: Option<&[i64]>,
    ) -> Option<Result<(ShardedLayout, Vec<i64>)>> {
        // A spec that divides evenly has an exact layout, which the ordinary readers give; only the
        // others come here.
        if let Some((layout, axes)) = shape.and_then(|shape| parse_padded_spec(text, shape)) {
            let made = DeviceMesh::new(axes).and_then(|mesh| ShardedLayout::new(layout, mesh));
            return Some(made.map(|made| (made, shape.unwrap_or_default().to_vec())));
        }
        let evened = zellige_notation::dtensor::even_out_placements(text, shape)?;
        let made =
            DeviceMesh::new(evened.axes).and_then(|mesh| ShardedLayout::new(evened.layout, mesh));
        let (shape, even) = (evened.shape, evened.even);
        Some(made.map(|made| (made.with_chunks(shape.clone(), even), shape)))
    }

    /// The same sharding as chunks of a tensor of this shape; `even` is the shape of the layout.
    pub(crate) fn with_chunks(self, shape: Vec<i64>, even: Vec<i64>) -> ShardedLayout {
        ShardedLayout { chunked: Some(ChunkedTensor { shape, even }), ..self }
    }

    pub(crate) fn chunked_tensor(&self) -> Option<&ChunkedTensor> {
        self.chunked.as_ref()
    }

    /// Per dimension, the sizes of the mesh axes that divide the chunks of this tensor one after
    /// the other, each with its iter.
    pub(crate) fn chunk_cuts(&self, chunked: &ChunkedTensor) -> Option<Vec<Vec<(usize, i64)>>> {
        let dims = self.sharded_dimensions(&chunked.shape)?;
        let mut cuts = vec![Vec::new(); chunked.shape.len()];
        for (k, it) in self.layout.tile().shard().iter().enumerate() {
            if !it.axis.is_memory() && it.extent > 1 {
                cuts[dims[k]].push((k, it.extent));
            }
        }
        Some(cuts)
    }

    /// Checks that it is a sharding of this shape.
    ///
    /// # Errors
    /// Another shape, or another number of elements.
    pub fn check_shape(&self, shape: &[i64]) -> Result<()> {
        match &self.chunked {
            Some(chunked) if chunked.shape == shape => Ok(()),
            _ => Ok(self.layout.check_shape_size(shape)?),
        }
    }

    /// All coordinates of an element: its devices and its address on each.
    ///
    /// # Errors
    /// An index out of range, and more copies than can be listed.
    pub(crate) fn points_of_element(&self, element: i64) -> Result<Vec<PhysicalCoordinate>> {
        let mut index = element;
        if let Some((chunked, cuts)) =
            self.chunked.as_ref().and_then(|c| Some((c, self.chunk_cuts(c)?)))
        {
            let (mut rest, mut weight) = (element, 1);
            index = 0;
            for (d, extent) in chunked.shape.iter().enumerate().rev() {
                let (mut at, mut left) = (rest % extent.max(&1), *extent);
                rest /= extent.max(&1);
                let parts: i64 = cuts[d].iter().map(|(_, n)| n).product();
                let mut even = 0;
                for (_, n) in &cuts[d] {
                    let step = (left + n - 1) / n;
                    // The index of the chunk within chunks, as a mixed-radix number of the cuts so
                    // far.
                    even = even * n + at / step;
                    left = step.min(left - at / step * step);
                    at %= step;
                }
                index += (even * (chunked.even[d] / parts) + at) * weight;
                weight *= chunked.even[d];
            }
        }
        Ok(self.layout.physical_coordinates(index)?.sorted_coordinates())
    }

    /// The same sharding with other rank numbers: a step along axis `k` of the mesh adds `steps[k]`
    /// ranks, the device at coordinate 0 of all axes has rank `first`, and there are `ranks` ranks.
    ///
    /// # Errors
    /// Numbers that are the same for two devices, or outside of the ranks.
    pub fn with_rank_numbers(
        &self,
        first: i64,
        steps: &[i64],
        ranks: i64,
    ) -> Result<ShardedLayout> {
        let (tile, mesh) = (self.layout.tile(), DeviceMesh::new(vec![(Axis::PID, ranks)])?);
        let too_large =
            || zellige_layout::LayoutError::Overflow { what: "numbers of devices".into() };
        if steps.len() != self.mesh.axes().len() {
            let reason = format!("{} steps for its axes", steps.len());
            return Err(ReshardError::NotSharded { mesh: self.mesh.to_string(), reason });
        }
        let step = |axis: Axis| {
            let at = self.mesh.axes().iter().position(|(a, _)| *a == axis)?;
            Some(steps[at])
        };
        let moved = |it: &Iter| match step(it.axis) {
            Some(step) => {
                let stride = it.stride.checked_mul(step).ok_or_else(too_large)?;
                Ok(Iter::new(it.extent, stride, Axis::PID))
            }
            None => Ok(*it),
        };
        let shard = tile.shard().iter().map(moved).collect::<Result<Vec<Iter>>>()?;
        let replica = tile.replica().iter().map(moved).collect::<Result<Vec<Iter>>>()?;
        let mut rank = first;
        let mut offset = Vec::new();
        for (axis, at) in tile.offset() {
            match step(*axis) {
                Some(step) => {
                    let more = at.checked_mul(step).and_then(|n| n.checked_add(rank));
                    rank = more.ok_or_else(too_large)?;
                }
                None => offset.push((*axis, *at)),
            }
        }
        offset.push((Axis::PID, rank));
        let tile = TileLayout::new(shard, replica, offset)?;
        let mut layout = match self.layout.swizzle() {
            Some(swizzle) => Layout::from_swizzled_tile(swizzle, tile)?,
            None => Layout::from(tile),
        };
        if let Some(window) = self.layout.window() {
            layout = layout.with_window(window.clone())?;
        }
        Ok(ShardedLayout { chunked: self.chunked.clone(), ..ShardedLayout::new(layout, mesh)? })
    }

    /// The layout. For repeated chunks it is that of a longer tensor all of whose shards are as
    /// long as the longest one.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// The length of the buffer of a shard in elements, with padding and gaps; the same on every
    /// rank.
    pub fn shard_len(&self) -> i64 {
        if self.layout.tile().size() == 0 { 0 } else { self.span }
    }

    /// The number of ranks that hold each element.
    pub fn copy_count(&self) -> i64 {
        self.digits.iter().filter(|d| d.copy).map(|d| d.extent).product()
    }

    /// The axis of addresses.
    pub(crate) fn memory_axis(&self) -> Axis {
        self.memory
    }

    /// The digits that count copies, sorted by decreasing step.
    pub(crate) fn copy_digits(&self) -> Vec<RankDigit> {
        self.digits.iter().copied().filter(|d| d.copy).collect()
    }

    /// The copies inside of one shard: (extent, stride).
    pub(crate) fn copies_in_shard(&self) -> Vec<(i64, i64)> {
        let moving = |it: &&Iter| it.axis.is_memory() && it.extent > 1 && it.stride != 0;
        self.layout
            .tile()
            .replica()
            .iter()
            .filter(moving)
            .map(|it| (it.extent, it.stride))
            .collect()
    }

    /// The holding of a rank, if the rank can hold elements.
    pub(crate) fn holding_of_rank(&self, rank: i64) -> Option<RankHolding> {
        let mut rest = rank - self.lowest;
        if rest < 0 {
            return None;
        }
        let (mut copy, mut first) = (0, rank);
        for d in &self.digits {
            let step = d.stride.abs();
            let steps = (rest / step).min(d.extent - 1);
            rest -= steps * step;
            if d.copy {
                let value = if d.stride > 0 { steps } else { d.extent - 1 - steps };
                copy = copy * d.extent + value;
                // Going back over all copy digits leads to the first holder of the same part, which
                // names the part.
                first -= value * d.stride;
            }
        }
        (rest == 0).then_some(RankHolding { first, copy })
    }

    /// The digits of the shard's iters that a rank fixes, 0 for the others; `None` if the rank
    /// holds nothing.
    pub fn digits_of(&self, rank: i64) -> Option<Vec<i64>> {
        self.holding_of_rank(rank)?;
        let mut values = vec![0; self.layout.tile().shard().len()];
        let mut rest = rank - self.lowest;
        for d in &self.digits {
            let steps = (rest / d.stride.abs()).min(d.extent - 1);
            rest -= steps * d.stride.abs();
            if !d.copy {
                values[d.iter] = if d.stride > 0 { steps } else { d.extent - 1 - steps };
            }
        }
        Some(values)
    }

    /// The ranks that hold the element with that flat index, in order.
    ///
    /// # Errors
    /// An index out of range, and more copies than can be listed.
    pub fn ranks_of(&self, flat: i64) -> Result<Vec<i64>> {
        let rank = |point: PhysicalCoordinate| {
            let axes = self.mesh.axes().iter();
            axes.fold(0, |rank, (axis, size)| rank * size + point.get(*axis))
        };
        let mut ranks: Vec<i64> = self.points_of_element(flat)?.into_iter().map(rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Ok(ranks)
    }

    /// Whether a rank can hold elements.
    pub fn holds_elements(&self, rank: i64) -> bool {
        self.holding_of_rank(rank).is_some()
    }

    /// The rank of the first copy of the part that a rank holds.
    pub fn first_copy_of(&self, rank: i64) -> Option<i64> {
        self.holding_of_rank(rank).map(|h| h.first)
    }

    /// The dimension of a shape that each iter of the shard belongs to, if no iter belongs to two.
    pub fn sharded_dimensions(&self, shape: &[i64]) -> Option<Vec<usize>> {
        let tile = self.layout.tile();
        let shape = match &self.chunked {
            Some(chunked) if chunked.shape == shape => &chunked.even,
            Some(_) => return None,
            None => shape,
        };
        // The padded extents, each with the dimension that it belongs to. A window may cut one
        // dimension of the shape into several padded ones; the list keeps which dimension each is
        // of.
        let mut extents: Vec<(i64, usize)> = Vec::new();
        match self.layout.window() {
            None => extents.extend(shape.iter().enumerate().map(|(d, n)| (*n, d))),
            Some(window) => {
                let mut dims = window.dims().iter().peekable();
                for (d, n) in shape.iter().enumerate() {
                    let mut valid = 1;
                    loop {
                        let dim = dims.next()?;
                        valid *= dim.valid;
                        extents.push((dim.padded, d));
                        // A window with a single valid element continues this dimension, as long as
                        // enough windows remain for the other dimensions.
                        let more = dims.len() > shape.len() - d - 1;
                        if valid == *n && !dims.peek().is_some_and(|w| more && w.valid == 1) {
                            break;
                        }
                        if valid > *n {
                            return None;
                        }
                    }
                }
                if dims.any(|d| d.padded != 1) {
                    return None;
                }
            }
        }
        let mut owner = vec![0; tile.shard().len()];
        let mut left = extents.iter();
        let (mut rest, mut dim) = left.next().copied().unwrap_or((1, 0));
        for (k, it) in tile.shard().iter().enumerate() {
            if it.extent == 1 {
                owner[k] = dim;
                continue;
            }
            // The dimension is used up; dimensions of extent 1 are passed over on the way to the
            // next.
            while rest == 1 {
                (rest, dim) = *left.next()?;
            }
            if it.extent == 0 || rest % it.extent != 0 {
                return None;
            }
            (rest, owner[k]) = (rest / it.extent, dim);
        }
        Some(owner)
    }

    /// The distance of a copy from the first one, in ranks.
    pub(crate) fn copy_offset(&self, copy: i64) -> i64 {
        let mut rest = copy;
        let mut offset = 0;
        for d in self.digits.iter().rev().filter(|d| d.copy) {
            offset += rest % d.extent * d.stride;
            rest /= d.extent;
        }
        offset
    }

    /// The layout of the first copies over addresses `rank * unit + address in the shard`, and the
    /// unit.
    ///
    /// The unit is more than twice as long as a shard, so that steps too can be split into ranks
    /// and addresses, and it is a power of two above the bits of any swizzle.
    pub(crate) fn with_ranks_in_addresses(&self) -> Result<(Layout, i64)> {
        let tile = self.layout.tile();
        let too_long =
            || zellige_layout::LayoutError::Overflow { what: "addresses of all ranks".into() };
        let bits = self.layout.swizzle().map_or(0, |s| s.affected_low_bits());
        let unit = u64::try_from(self.span).unwrap_or(0).checked_mul(2).and_then(|n| {
            // A swizzle exchanges low bits of the address. With a unit above its highest bit the
            // rank stays out of its reach.
            (n + 2).checked_next_power_of_two()?.max(1 << bits.min(62)).try_into().ok()
        });
        let unit: i64 = unit.ok_or_else(too_long)?;
        let mut shard = Vec::with_capacity(tile.shard().len());
        for it in tile.shard() {
            let stride = match self.mesh.axis_stride(it.axis) {
                Some(step) => it.stride.checked_mul(step).and_then(|s| s.checked_mul(unit)),
                None => Some(it.stride),
            };
            shard.push(Iter::in_memory(it.extent, stride.ok_or_else(too_long)?));
        }
        let mut offset = tile.offset_on(self.memory);
        for (axis, _) in self.mesh.axes() {
            let ranks =
                tile.offset_on(*axis).checked_mul(self.mesh.axis_stride(*axis).unwrap_or(0));
            let more = ranks.and_then(|r| r.checked_mul(unit)).and_then(|r| r.checked_add(offset));
            offset = more.ok_or_else(too_long)?;
        }
        let tile = TileLayout::new(shard, Vec::new(), [(Axis::M, offset)])?;
        let layout = match self.layout.swizzle() {
            Some(swizzle) => Layout::from_swizzled_tile(swizzle, tile)?,
            None => Layout::from(tile),
        };
        match self.layout.window() {
            Some(window) => Ok((layout.with_window(window.clone())?, unit)),
            None => Ok((layout, unit)),
        }
    }
}

/// The layout of a `PartitionSpec` with its mesh that divides a shape unevenly, with shorter shards
/// padded, and the axes of the mesh; `None` for every other text.
pub(crate) fn parse_padded_spec(text: &str, shape: &[i64]) -> Option<(Layout, Vec<(Axis, i64)>)> {
    let spec = zellige_notation::jax::parse(text).ok()?;
    if spec.shard_shape(shape).is_ok() {
        return None;
    }
    let layout = spec.padded_layout(shape).ok()?;
    let axis = |(name, size): &(String, i64)| {
        AxisTable::new().declare_axis(name, AxisKind::Device).ok().map(|axis| (axis, *size))
    };
    Some((layout, spec.mesh().named_sizes().iter().map(axis).collect::<Option<_>>()?))
}
