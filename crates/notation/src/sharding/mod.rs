//! Shardings: tensors divided over a mesh of devices. The common part of JAX, HLO, Shardy and DTensor.
//!
//! A mesh is a list of named axes. Each dimension of a tensor is split over **pieces**, slowest first: a
//! factor of a mesh axis, whose value is a device coordinate, or a part that stays inside the shard. In the
//! algebra a mesh axis is a device axis of its name, a shard is row-major on `m`, and a mesh axis that no
//! dimension uses holds copies. A shard is `ceil(extent / parts)` long; if the parts do not divide the
//! extent, the last shards are padded.
//!
//! HLO numbers devices instead of naming axes: there is one axis, `pid`. `MeshSharding::on_devices` numbers
//! those of a mesh, its last axis fastest.

pub(crate) mod python;

use crate::blocked::prove_candidate;
use crate::convert::{ConversionRefusal, not_expressible};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{
    Axis, AxisKind, AxisTable, Iter, Layout, LayoutError, PaddedExtent, TileLayout, ValidWindow,
    check_nonnegative_sizes,
};

/// The axes of a mesh of devices, slowest first: their names and sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeshAxes {
    axes: Vec<(String, i64)>,
}

impl MeshAxes {
    /// Checks that names differ and sizes are positive, and that the number of devices fits in 64 bits.
    pub fn new(axes: Vec<(String, i64)>) -> Result<MeshAxes, String> {
        for (k, (name, size)) in axes.iter().enumerate() {
            if axes[..k].iter().any(|(other, _)| other == name) {
                return Err(format!("the mesh has two axes named `{name}`"));
            }
            if *size < 1 {
                return Err(format!("mesh axis `{name}` has {size} devices"));
            }
            device_axis_of(name)?;
        }
        checked_product(axes.iter().map(|a| a.1), "the number of devices")
            .map_err(|e| e.to_string())?;
        if axes.len() > MAX_AXES {
            return Err(format!("a mesh of more than {MAX_AXES} axes"));
        }
        Ok(MeshAxes { axes })
    }

    /// Names and sizes, slowest first.
    pub fn named_sizes(&self) -> &[(String, i64)] {
        &self.axes
    }

    /// The number of devices.
    pub fn device_count(&self) -> i64 {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// The axis of that name.
    pub fn find_axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|(n, _)| n == name)
    }

    /// The weights of the axes in the number of a device, the last axis fastest.
    fn device_strides(&self) -> Vec<i64> {
        let mut strides = vec![1; self.axes.len()];
        for k in (1..strides.len()).rev() {
            strides[k - 1] = strides[k] * self.axes[k].1;
        }
        strides
    }
}

// A device count of 64 bits has at most 63 axes of more than one device; the others would only cost
// time.
const MAX_AXES: usize = 64;

/// The device axis of a mesh axis. A name that the algebra uses for another axis, such as `m`, gets the
/// prefix `mesh_`, because one name has one kind in the algebra.
pub(crate) fn device_axis_of(name: &str) -> Result<Axis, String> {
    let other =
        AxisTable::new().get(name).is_ok_and(|a| a.kind() != AxisKind::Device || a.name() != name);
    let own = if other { format!("mesh_{name}") } else { name.to_string() };
    Axis::new(&own, AxisKind::Device).map_err(|e| format!("mesh axis `{name}`: {e}"))
}

/// `size` steps of `stride` along an axis of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeshFactor {
    pub(crate) axis: usize,
    pub(crate) size: i64,
    pub(crate) stride: i64,
}

/// A part of the index of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexPiece {
    /// Which device.
    Device(MeshFactor),
    /// Which element of the shard.
    Local(i64),
    /// The pieces after it count this many elements; the rest of their combinations is padding, repeated
    /// for every piece before.
    Valid(i64),
}

/// A tensor over a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MeshSharding {
    pub(crate) mesh: MeshAxes,
    /// The device of the first shard, per axis of the mesh; all 0 unless the text names a device.
    pub(crate) first: Vec<i64>,
    /// The pieces of every dimension, slowest first.
    pub(crate) dims: Vec<Vec<IndexPiece>>,
    /// Whether axes that no dimension uses hold copies; false if one named device has the whole tensor.
    pub(crate) copies: bool,
    /// The factors that hold copies, if these are not all unused ones: a list of devices may leave some out.
    pub(crate) replicas: Option<Vec<MeshFactor>>,
}

impl MeshSharding {
    /// Every dimension over whole factors, then the shard.
    pub(crate) fn from_even_factors(
        mesh: MeshAxes,
        factors: &[Vec<MeshFactor>],
        shape: &[i64],
    ) -> Result<MeshSharding, Diagnostic> {
        check_nonnegative_sizes(shape)?;
        checked_product(shape.iter().copied(), "the number of elements")?;
        let mut dims = Vec::with_capacity(shape.len());
        for (d, extent) in shape.iter().enumerate() {
            let own = factors.get(d).map_or(&[][..], Vec::as_slice);
            let parts = checked_product(own.iter().map(|f| f.size), "the number of shards")?;
            let mut pieces: Vec<IndexPiece> = own.iter().map(|f| IndexPiece::Device(*f)).collect();
            pieces.push(IndexPiece::Local(div_ceil(*extent, parts)));
            dims.push(pieces);
        }
        let first = vec![0; mesh.axes.len()];
        Ok(MeshSharding { mesh, first, dims, copies: true, replicas: None })
    }

    /// The shape of a shard.
    pub(crate) fn shard_shape(&self) -> Vec<i64> {
        let local = |pieces: &Vec<IndexPiece>| {
            pieces.iter().map(|p| if let IndexPiece::Local(n) = p { *n } else { 1 }).product()
        };
        self.dims.iter().map(local).collect()
    }

    fn axis_of_mesh(&self, k: usize) -> Result<Axis, LayoutError> {
        let name = &self.mesh.axes[k].0;
        device_axis_of(name).map_err(|_| LayoutError::BadAxisName {
            name: name.clone(),
            reason: "no name of an axis",
        })
    }

    /// The layout in the algebra, over a shape.
    pub(crate) fn layout_over_shape(&self, shape: &[i64]) -> Result<Layout, LayoutError> {
        let mut stride = 1i64;
        let mut shard: Vec<Iter> = Vec::new();
        let mut window = Vec::with_capacity(shape.len());
        // From the last dimension backwards, because a shard is row-major: the stride of a local
        // piece is the size of all local pieces behind it.
        for (pieces, valid) in self.dims.iter().zip(shape).rev() {
            let (mut padded, mut valid) = (1i64, *valid);
            for piece in pieces.iter().rev() {
                let it = match piece {
                    // The pieces so far become a dimension of the window by themselves. With that
                    // their padding is repeated for every value of the slower pieces.
                    IndexPiece::Valid(n) => {
                        window.push(PaddedExtent::padded_to(*n, padded));
                        (padded, valid) = (1, valid / (*n).max(1));
                        continue;
                    }
                    IndexPiece::Device(f) => {
                        Iter::new(f.size, f.stride, self.axis_of_mesh(f.axis)?)
                    }
                    IndexPiece::Local(n) => {
                        let it = Iter::in_memory(*n, stride);
                        stride = stride
                            .checked_mul((*n).max(1))
                            .ok_or_else(|| LayoutError::overflow_of("the elements of a shard"))?;
                        it
                    }
                };
                padded = checked_product([padded, it.extent], "a padded extent")?;
                shard.push(it);
            }
            window.push(PaddedExtent::padded_to(valid, padded));
        }
        shard.reverse();
        window.reverse();
        let mut replica = Vec::new();
        if let Some(all) = &self.replicas {
            for f in all {
                replica.push(Iter::new(f.size, f.stride, self.axis_of_mesh(f.axis)?));
            }
        } else if self.copies {
            for k in 0..self.mesh.axes.len() {
                let axis = self.axis_of_mesh(k)?;
                replica.extend(
                    self.unused_factors(k).into_iter().map(|(size, s)| Iter::new(size, s, axis)),
                );
            }
        }
        let mut offset = Vec::new();
        // A zero offset would mention an axis that the layout does not otherwise have.
        for (k, first) in self.first.iter().enumerate().filter(|(_, first)| **first != 0) {
            offset.push((self.axis_of_mesh(k)?, *first));
        }
        let tile = TileLayout::new(shard, replica, offset)?;
        Layout::from(tile).with_window(ValidWindow::new(window)?)
    }

    /// The factors of a mesh axis that no dimension uses: size and stride, slowest first. The used ones are
    /// digits of the axis, so the unused ones are the gaps between them.
    pub(crate) fn unused_factors(&self, axis: usize) -> Vec<(i64, i64)> {
        let mut used: Vec<MeshFactor> =
            self.used_factors().filter(|f| f.axis == axis && f.size > 1).collect();
        used.sort_by_key(|f| f.stride);
        let mut free = Vec::new();
        let mut next = 1;
        for f in used {
            if f.stride > next {
                free.push((f.stride / next, next));
            }
            next = f.stride * f.size;
        }
        let size = self.mesh.axes[axis].1;
        if size > next {
            free.push((size / next, next));
        }
        free.reverse();
        free
    }

    fn used_factors(&self) -> impl Iterator<Item = MeshFactor> + '_ {
        self.dims.iter().flatten().filter_map(|p| match p {
            IndexPiece::Device(f) => Some(*f),
            IndexPiece::Local(_) | IndexPiece::Valid(_) => None,
        })
    }

    /// Whether every device has the whole tensor. Such a text need not state how many devices there are.
    fn is_everywhere(&self) -> bool {
        self.used_factors().all(|f| f.size == 1) && self.copies
    }

    /// The factors of every dimension, which must all be slower than the shard's own index.
    pub(crate) fn leading_factors(&self) -> Result<Vec<Vec<MeshFactor>>, ConversionRefusal> {
        let mut all = Vec::with_capacity(self.dims.len());
        for (d, pieces) in self.dims.iter().enumerate() {
            let mut factors = Vec::new();
            let mut inside = false;
            for piece in pieces {
                match piece {
                    IndexPiece::Local(1) | IndexPiece::Valid(_) => {}
                    IndexPiece::Local(_) => inside = true,
                    IndexPiece::Device(f) if f.size == 1 && inside => {}
                    IndexPiece::Device(_) if inside => {
                        let reason = format!(
                            "dimension {d} is distributed over devices in turns: a shard is not one interval of it"
                        );
                        return not_expressible(reason, None);
                    }
                    IndexPiece::Device(f) => factors.push(*f),
                }
            }
            all.push(factors);
        }
        Ok(all)
    }

    /// The same over one axis `pid` of numbered devices, the last axis of the mesh fastest.
    pub(crate) fn on_devices(&self) -> Result<MeshSharding, ConversionRefusal> {
        let strides = self.mesh.device_strides();
        let mesh = MeshAxes::new(vec![("pid".into(), self.mesh.device_count())]);
        let Ok(mesh) = mesh else { return not_expressible("too many devices", None) };
        let number = |f: &MeshFactor| MeshFactor {
            axis: 0,
            stride: f.stride * strides[f.axis],
            size: f.size,
        };
        let moved = |p: &IndexPiece| match p {
            IndexPiece::Device(f) => IndexPiece::Device(number(f)),
            IndexPiece::Local(_) | IndexPiece::Valid(_) => *p,
        };
        let dims = self.dims.iter().map(|d| d.iter().map(moved).collect()).collect();
        let first = vec![self.first.iter().zip(&strides).map(|(f, s)| f * s).sum()];
        let replicas = self.replicas.as_ref().map(|all| all.iter().map(number).collect());
        Ok(MeshSharding { mesh, first, dims, copies: self.copies, replicas })
    }

    /// Refuses factors that are no digits of the device number, because no mesh has them as axes.
    fn check_divides(&self) -> Result<(), ConversionRefusal> {
        for (axis, (name, size)) in self.mesh.axes.iter().enumerate() {
            let mut used: Vec<MeshFactor> =
                self.used_factors().filter(|f| f.axis == axis && f.size > 1).collect();
            used.sort_by_key(|f| f.stride);
            let mut next = 1;
            for f in &used {
                if f.stride < next || f.stride % next != 0 {
                    let reason = format!("devices on `{name}` are not numbered along a mesh");
                    return not_expressible(reason, None);
                }
                next = f.stride.saturating_mul(f.size);
            }
            if size % next != 0 {
                let reason = format!("the {size} devices on `{name}` do not form a whole mesh");
                return not_expressible(reason, None);
            }
        }
        Ok(())
    }

    /// The same with a mesh axis for every factor, named `d0`, `d1`, .. from the slowest, where an axis is
    /// used in parts.
    pub(crate) fn on_whole_axes(&self) -> Result<MeshSharding, ConversionRefusal> {
        self.check_divides()?;
        let mut cuts: Vec<(usize, i64, i64)> = self
            .used_factors()
            .filter(|f| f.size > 1)
            .map(|f| (f.axis, f.stride, f.size))
            .collect();
        for k in 0..self.mesh.axes.len() {
            cuts.extend(self.unused_factors(k).into_iter().map(|(size, stride)| (k, stride, size)));
        }
        cuts.sort_by_key(|(axis, stride, _)| (*axis, std::cmp::Reverse(*stride)));
        // The target notation divides over whole axes only, so each factor becomes an axis. Its
        // name is new, as no text names it.
        let axes = cuts.iter().enumerate().map(|(k, cut)| (format!("d{k}"), cut.2)).collect();
        let mesh = match MeshAxes::new(axes) {
            Ok(mesh) => mesh,
            Err(reason) => return not_expressible(reason, None),
        };
        let moved = |p: &IndexPiece| match p {
            IndexPiece::Device(f) => {
                let at =
                    cuts.iter().position(|(a, s, n)| (*a, *s, *n) == (f.axis, f.stride, f.size));
                at.map_or(IndexPiece::Local(1), |axis| {
                    IndexPiece::Device(MeshFactor { axis, size: f.size, stride: 1 })
                })
            }
            IndexPiece::Local(_) | IndexPiece::Valid(_) => *p,
        };
        if self.first.iter().any(|f| *f != 0) || !self.copies {
            return not_expressible("the sharding does not say which devices there are", None);
        }
        let first = vec![0; mesh.axes.len()];
        let dims = self.dims.iter().map(|d| d.iter().map(moved).collect()).collect();
        Ok(MeshSharding { mesh, first, dims, copies: true, replicas: None })
    }

    /// The same with the axes of the mesh in the order in which dimensions use them. A layout does not say
    /// how a mesh is ordered.
    pub(crate) fn in_order_of_use(&self) -> MeshSharding {
        let mut order: Vec<usize> = Vec::new();
        for axis in self.used_factors().map(|f| f.axis).chain(0..self.mesh.axes.len()) {
            if !order.contains(&axis) {
                order.push(axis);
            }
        }
        let place = |axis: usize| order.iter().position(|o| *o == axis).unwrap_or(axis);
        let moved = |p: &IndexPiece| match p {
            IndexPiece::Device(f) => IndexPiece::Device(MeshFactor { axis: place(f.axis), ..*f }),
            IndexPiece::Local(_) | IndexPiece::Valid(_) => *p,
        };
        MeshSharding {
            mesh: MeshAxes { axes: order.iter().map(|k| self.mesh.axes[*k].clone()).collect() },
            first: order.iter().map(|k| self.first[*k]).collect(),
            dims: self.dims.iter().map(|d| d.iter().map(moved).collect()).collect(),
            copies: self.copies,
            replicas: None,
        }
    }

    /// Whether dimensions use whole axes of the mesh only.
    pub(crate) fn uses_whole_axes(&self) -> bool {
        self.used_factors()
            .all(|f| f.size == 1 || (f.stride == 1 && f.size == self.mesh.axes[f.axis].1))
    }

    /// The sharding that a layout is, over a mesh whose axes are the device axes of the layout by their names.
    pub(crate) fn from_layout(
        layout: &Layout,
        shape: &[i64],
    ) -> Result<MeshSharding, ConversionRefusal> {
        let axes: Vec<Axis> =
            layout.tile().axes().iter().copied().filter(|a| *a != Axis::M).collect();
        if let Some(axis) = axes.iter().find(|a| a.kind() != AxisKind::Device) {
            return not_expressible(
                format!(
                    "a sharding is over devices; the layout also uses `{axis}`, a {} axis",
                    axis.kind().name()
                ),
                None,
            );
        }
        if layout.effective_swizzle().is_some() {
            return not_expressible("a shard has no swizzle", None);
        }
        let mut mesh = Vec::new();
        for axis in &axes {
            let bounds = layout.axis_bounds(*axis)?;
            if bounds.min < 0 {
                return not_expressible(
                    format!("device numbers on `{axis}` are negative"),
                    Some(0),
                );
            }
            mesh.push((axis.name().to_string(), bounds.max + 1));
        }
        let mesh = MeshAxes::new(mesh).or_else(|reason| not_expressible(reason, None))?;
        // A window may have several dimensions for one of the tensor: parts that are padded by themselves.
        let window: Vec<PaddedExtent> = match layout.window() {
            None => shape.iter().map(|n| PaddedExtent::without_padding(*n)).collect(),
            Some(w) => w.dims().to_vec(),
        };
        let Some(parts) = split_window_by_shape(shape, &window) else {
            return not_expressible("the padding does not follow the dimensions", None);
        };
        let padded: Vec<i64> = window.iter().map(|d| d.padded).collect();
        let (grouped, seps) = match layout.tile().canonical_form().group(&padded) {
            Ok(found) => found,
            Err(e) => return not_expressible(e.to_string(), None),
        };
        let piece = |it: &Iter| match axes.iter().position(|a| *a == it.axis) {
            // Grouping gives a unit dimension an iter on the axis of its neighbour, which is no device factor.
            Some(axis) if it.extent != 1 => {
                IndexPiece::Device(MeshFactor { axis, size: it.extent, stride: it.stride })
            }
            _ => IndexPiece::Local(it.extent),
        };
        let mut dims: Vec<Vec<IndexPiece>> = Vec::with_capacity(shape.len());
        for part in parts {
            let mut pieces = Vec::new();
            for w in part.clone() {
                if w > part.start {
                    pieces.push(IndexPiece::Valid(
                        window[w..part.end].iter().map(|d| d.valid).product(),
                    ));
                }
                pieces.extend(grouped.shard()[seps[w]..seps[w + 1]].iter().map(piece));
            }
            dims.push(pieces);
        }
        let first: Vec<i64> = axes.iter().map(|a| layout.tile().offset_on(*a)).collect();
        let copies = first.iter().all(|f| *f == 0);
        let found = MeshSharding { mesh, first, dims, copies, replicas: None };
        if found.used_factors().any(|f| f.size > 1 && f.stride < 1) {
            return not_expressible("devices are counted backwards or not at all", None);
        }
        Ok(found)
    }
}

/// For each dimension of a shape the range of window dimensions that it consists of; `None` if the window
/// does not follow the shape, or begins with padding.
fn split_window_by_shape(
    shape: &[i64],
    window: &[PaddedExtent],
) -> Option<Vec<std::ops::Range<usize>>> {
    let mut parts = Vec::with_capacity(shape.len());
    let mut at = 0;
    for (d, extent) in shape.iter().enumerate() {
        let (start, mut count) = (at, 1i64);
        while at < window.len() && (at == start || count != *extent || d + 1 == shape.len()) {
            count = count.checked_mul(window[at].valid)?;
            at += 1;
        }
        if count != *extent {
            return None;
        }
        parts.push(start..at);
    }
    (at == window.len() && window.iter().all(|d| d.begin == 0)).then_some(parts)
}

/// A text that describes a sharding.
pub(crate) trait ShardingText: WrittenLayout {
    /// The sharding of a tensor of this shape.
    fn sharding_over_shape(&self, shape: &[i64]) -> Result<MeshSharding, Diagnostic>;

    /// The shape, if the text states it.
    fn own_shape(&self) -> Option<&[i64]>;
}

/// The layout of a text that describes a sharding.
pub(crate) fn layout_of_sharding_text(
    text: &impl ShardingText,
    shape: Option<&[i64]>,
) -> Result<Layout, Diagnostic> {
    if text.own_shape().or(shape).is_none() {
        // A missing mesh is reported before a missing shape, because the mesh is needed first.
        text.sharding_over_shape(&[])
            .err()
            .filter(|d| d.label == "which mesh?")
            .map_or(Ok(()), Err)?;
    }
    let shape = text.own_shape().or(shape).ok_or_else(|| {
        Diagnostic::syntax_error(
            0..0,
            "the sharding does not say the shape of the tensor",
            "of which tensor?",
        )
        .with_id("Z005")
        .with_help("give the shape, or write shape=[..] after the sharding")
    })?;
    Ok(text.sharding_over_shape(shape)?.layout_over_shape(shape)?)
}

/// The sharding of a text that was parsed in any notation of shardings.
pub(crate) fn sharding_of_parsed(
    parsed: &ParsedText,
    shape: &[i64],
) -> Option<Result<MeshSharding, Diagnostic>> {
    if let Some(x) = parsed.written_layout::<crate::jax::JaxSharding>() {
        return Some(x.sharding_over_shape(shape));
    }
    if let Some(x) = parsed.written_layout::<crate::hlo::HloSharding>() {
        return Some(x.sharding_over_shape(shape));
    }
    if let Some(x) = parsed.written_layout::<crate::shardy::ShardySharding>() {
        // A layout has coordinates on the mesh, so it cannot keep another numbering of the devices.
        return x.is_numbered_in_order().then(|| x.sharding_over_shape(shape));
    }
    if let Some(x) = parsed.written_layout::<crate::dtensor::DTensorPlacements>() {
        return Some(x.sharding_over_shape(shape));
    }
    None
}

/// The device axes of the mesh of a sharding, parsed in any of their notations, with their sizes, slowest
/// first: devices are numbered with the last axis fastest.
///
/// # Errors
/// Devices that are numbered in another order, and a sharding that is none of this shape.
pub fn device_mesh_of_parsed(
    parsed: &ParsedText,
    shape: &[i64],
) -> Option<Result<Vec<(Axis, i64)>, String>> {
    if parsed
        .written_layout::<crate::shardy::ShardySharding>()
        .is_some_and(|x| !x.is_numbered_in_order())
    {
        let reason = "the devices of the mesh are not numbered in order, the last axis fastest";
        return Some(Err(reason.into()));
    }
    let axes = |sharding: MeshSharding| {
        sharding
            .mesh
            .named_sizes()
            .iter()
            .map(|(name, size)| Ok((device_axis_of(name)?, *size)))
            .collect()
    };
    Some(sharding_of_parsed(parsed, shape)?.map_err(|d| d.message).and_then(axes))
}

/// Two shardings over numbered devices, so that they can be compared although their axes have different
/// names: a mesh is numbered with its last axis fastest. `None` if one of them is not a sharding, or has no
/// layout over the shape.
///
/// **Law**: a sharding and its translation by [`crate::convert::translate_notation`] into another notation
/// of shardings are equal.
pub fn on_numbered_devices(
    a: &ParsedText,
    b: &ParsedText,
    shape: &[i64],
) -> Option<(Layout, Layout)> {
    let (a, b) = (sharding_of_parsed(a, shape)?.ok()?, sharding_of_parsed(b, shape)?.ok()?);
    if a.is_everywhere() && b.is_everywhere() {
        let whole = a.layout_over_shape(shape).ok()?;
        return Some((whole.clone(), whole));
    }
    let numbered = |s: &MeshSharding| s.on_devices().ok()?.layout_over_shape(shape).ok();
    Some((numbered(&a)?, numbered(&b)?))
}

/// Writes a sharding in one notation.
type ShardingWriter = fn(&MeshSharding) -> Result<String, ConversionRefusal>;

/// As [`prove_candidate`] for a sharding. The refusal of a layout on no devices explains what a sharding can express.
pub(crate) fn prove_sharding(
    candidate: &Layout,
    layout: &Layout,
    text: &str,
) -> Result<(), ConversionRefusal> {
    let on_devices = layout.tile().axes().iter().any(|a| a.kind() == AxisKind::Device);
    match prove_candidate(candidate, layout, text) {
        Err(ConversionRefusal::NotExpressible(n)) if !on_devices => {
            let what = "the layout is on no devices, and a sharding only says which device has an element, row-major there";
            not_expressible(format!("{what}: {}", n.reason), n.witness)
        }
        other => other,
    }
}

/// The text of a sharding in another notation of shardings, where the algebra would lose how devices are numbered.
///
/// **Law**: over numbered devices, the text has the layout of the sharding.
pub(crate) fn write_sharding(
    sharding: &MeshSharding,
    shape: &[i64],
    to: Notation,
) -> Option<Result<String, ConversionRefusal>> {
    let writers: [(Notation, ShardingWriter); 4] = [
        (Notation::JAX, crate::jax::write_jax_sharding),
        (Notation::HLO, crate::hlo::write_hlo_sharding),
        (Notation::SHARDY, crate::shardy::write_shardy_sharding),
        (Notation::DTENSOR, crate::dtensor::write_placements),
    ];
    let (_, write) = writers.into_iter().find(|(notation, _)| *notation == to)?;
    Some(write(sharding).and_then(|text| {
        let again = crate::parse_as(&text, to, &AxisTable::new()).ok();
        let again = match again.and_then(|parsed| sharding_of_parsed(&parsed, shape)) {
            Some(Ok(again)) => again,
            Some(Err(refused)) => return not_expressible(refused.message, None),
            None => return not_expressible(format!("{text} is not a sharding of {shape:?}"), None),
        };
        if !(sharding.is_everywhere() && again.is_everywhere()) {
            let (found, wanted) = (again.on_devices()?, sharding.on_devices()?);
            prove_candidate(
                &found.layout_over_shape(shape)?,
                &wanted.layout_over_shape(shape)?,
                &text,
            )?;
        }
        Ok(text)
    }))
}

/// `shape=[8, 16]` at the end of a text, where it is there.
pub(crate) fn read_shape_field(
    c: &mut crate::cursor::TextCursor<'_>,
) -> Result<Option<Vec<i64>>, Diagnostic> {
    if !c.eat_word("shape") {
        return Ok(None);
    }
    c.expect_char('=', "after `shape`")?;
    let shape = c.read_int_list("extents")?;
    check_nonnegative_sizes(&shape.value)
        .map_err(|e| Diagnostic::meaning_error(shape.span.clone(), e))?;
    Ok(Some(shape.value))
}

/// ` shape=[8, 16]`, or nothing.
pub(crate) fn print_shape_field(shape: Option<&Vec<i64>>) -> String {
    shape.map_or_else(String::new, |s| format!(" shape={s:?}"))
}
