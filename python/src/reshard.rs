//! Plans between shardings, as one process carries them out. `zellige.distributed` runs them.

use crate::array::LibraryArray;
use crate::dlpack::DlDevice;
use crate::error::{self, LayoutError};
use crate::layout::PyLayout;
use crate::plain::ArrayUse;
use crate::relayout::check_disjoint;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::sync::OnceLock;
use zellige_layout::{Axis, AxisKind, AxisTable};
use zellige_movement::{MovePlan, Mover};
use zellige_notation::sharding;
use zellige_reshard::{
    ExchangeRound, RankProcess, Reshard, RoundPlan, ShardBox, ShardedLayout, Topology, certify_plan,
};

/// A mesh: names of axes with their sizes, slowest first.
type GivenMesh = Vec<(String, i64)>;

/// How devices are numbered: the rank of the first one, and the ranks of a step along each axis.
type DeviceNumbering = (i64, Vec<i64>);

/// Loops (steps, step in the source, step in the destination) and starts, in elements.
type NestList = Vec<(Vec<(i64, i64, i64)>, Vec<(i64, i64)>)>;

fn refuse_plan(e: &dyn std::fmt::Display) -> PyErr {
    LayoutError::new_err(e.to_string())
}

/// A layout of devices, as a side of a plan.
fn read_side(
    what: &str,
    value: &Bound<'_, PyAny>,
    mesh: Option<GivenMesh>,
    shape: Option<&[i64]>,
) -> PyResult<(ShardedLayout, Vec<i64>)> {
    let named = |e: &dyn std::fmt::Display| LayoutError::new_err(format!("`{what}`: {e}"));
    let mesh = mesh.map(|axes| {
        let axis = |(name, size): (String, i64)| {
            let axis = AxisTable::new().declare_axis(&name, AxisKind::Device);
            axis.map(|a| (a, size)).map_err(|e| named(&e))
        };
        let axes = axes.into_iter().map(axis).collect::<PyResult<Vec<(Axis, i64)>>>()?;
        zellige_reshard::DeviceMesh::new(axes).map_err(|e| named(&e))
    });
    let mesh = mesh.transpose()?;
    let says_its_mesh = |text: &str| {
        let read = PyLayout::read_text(text, shape.map(<[i64]>::to_vec), None);
        ["mesh=", "Mesh(", "@mesh"].iter().any(|word| text.contains(word))
            || read.is_ok_and(|l| sharding::device_mesh_of_parsed(&l.parsed, &l.shape).is_some())
    };
    if let (Ok(text), Some(mesh)) = (value.cast::<PyString>(), &mesh)
        && !says_its_mesh(&text.to_string())
    {
        let Some(shape) = shape else {
            return Err(PyValueError::new_err(format!(
                "`{what}` does not say the shape of the whole tensor: give shape=(..)"
            )));
        };
        let read =
            ShardedLayout::read_sharding(&text.to_string(), mesh, shape).map_err(|e| named(&e))?;
        return Ok((read, shape.to_vec()));
    }
    if let Ok(text) = value.cast::<PyString>()
        && let Some(made) = ShardedLayout::parse_chunked(&text.to_string(), shape)
    {
        return made.map_err(|e| named(&e));
    }
    let layout = match value.cast::<PyString>() {
        // A text that contains its shape needs no other.
        Ok(text) => {
            let text = text.to_string();
            let own = PyLayout::read_text(&text, None, None);
            own.or_else(|e| match shape {
                Some(shape) => PyLayout::read_text(&text, Some(shape.to_vec()), None),
                None => Err(e),
            })?
        }
        Err(_) => PyLayout::from_any(value, None)?,
    };
    let shape = layout.shape.clone();
    let mesh = match (mesh, sharding::device_mesh_of_parsed(&layout.parsed, &shape)) {
        (_, Some(axes)) => {
            zellige_reshard::DeviceMesh::new(axes.map_err(|e| named(&e))?).map_err(|e| named(&e))?
        }
        (Some(mesh), None) => mesh,
        (None, None) => {
            zellige_reshard::DeviceMesh::from_layout(&layout.layout).map_err(|e| named(&e))?
        }
    };
    let sharded = ShardedLayout::new(layout.layout, mesh).map_err(|e| named(&e))?;
    Ok((sharded, shape))
}

/// What a rank does to bring a tensor from one sharding to another.
///
/// `src` and `dst` are layouts over devices: a `Layout`, or a text in any notation. Texts on a mesh that they do not say, such as
/// `P('tp', None)`, take it from `src_mesh` and `dst_mesh`, names and sizes.
#[pyclass(name = "ReshardPlan", module = "zellige._native", frozen)]
pub(crate) struct ReshardPlan {
    plan: Reshard,
    shape: Vec<i64>,
    rank: i64,
    width: u64,
    rounds: RoundPlan,
    boxes: [Option<ShardBox>; 2],
    digest: OnceLock<[u8; 32]>,
}

impl ReshardPlan {
    fn plan_side(&self, target: bool) -> &ShardedLayout {
        if target { self.plan.destination() } else { self.plan.source() }
    }

    fn byte_count(&self, elements: i64) -> u64 {
        u64::try_from(elements).unwrap_or(0).saturating_mul(self.width)
    }
}

#[pymethods]
impl ReshardPlan {
    #[new]
    #[pyo3(signature = (src, dst, width, rank, *, shape=None, src_mesh=None, dst_mesh=None, src_numbers=None,
                        dst_numbers=None, ranks=None, memory=None, topology=None))]
    #[allow(clippy::too_many_arguments, reason = "all by name, from one caller")]
    fn new(
        py: Python<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
        width: u64,
        rank: i64,
        shape: Option<Vec<i64>>,
        src_mesh: Option<GivenMesh>,
        dst_mesh: Option<GivenMesh>,
        src_numbers: Option<DeviceNumbering>,
        dst_numbers: Option<DeviceNumbering>,
        ranks: Option<i64>,
        memory: Option<u64>,
        topology: Option<&str>,
    ) -> PyResult<ReshardPlan> {
        // Either side may say the shape for both.
        let first = read_side("src", src, src_mesh.clone(), shape.as_deref());
        let (mut from, mut to) = match first {
            Ok((from, found)) => {
                let given = shape.as_deref().unwrap_or(&found);
                let to = read_side("dst", dst, dst_mesh, Some(given))?;
                ((from, found), to)
            }
            Err(e) if shape.is_none() => {
                let (to, found) = read_side("dst", dst, dst_mesh, None).map_err(|_| e)?;
                (read_side("src", src, src_mesh, Some(&found))?, (to, found))
            }
            Err(e) => return Err(e),
        };
        let count = |s: &[i64]| s.iter().product::<i64>();
        let shape = shape.unwrap_or_else(|| from.1.clone());
        for (what, found) in [("src", &from.1), ("dst", &to.1)] {
            if count(found) != count(&shape) || (found.len() == shape.len() && *found != shape) {
                return Err(PyValueError::new_err(format!(
                    "both sides are layouts of one tensor: `{what}` is of the shape {found:?}, and the tensor has {shape:?}"
                )));
            }
        }
        for (side, numbers) in [(&mut from, src_numbers), (&mut to, dst_numbers)] {
            if let (Some((first, steps)), Some(ranks)) = (numbers, ranks) {
                side.0 =
                    side.0.with_rank_numbers(first, &steps, ranks).map_err(|e| refuse_plan(&e))?;
            }
        }
        // Shards of elements in a row are rows too.
        let flat = [src, dst].map(|side| {
            let text = side.cast::<PyString>().map(|t| t.to_string()).unwrap_or_default();
            text.split_whitespace().next() == Some("flat")
        });
        let topology =
            topology.map(|t| Topology::parse(t).map_err(|e| refuse_plan(&e))).transpose()?;
        py.detach(move || {
            let mut plan = Reshard::between(&from.0, &to.0, &shape).map_err(|e| refuse_plan(&e))?;
            if let Some(topology) = topology {
                plan = plan.balance_links(&topology).map_err(|e| refuse_plan(&e))?;
            }
            let rounds = match memory {
                Some(most) => plan.choose_rounds(width, most).map_err(|e| refuse_plan(&e))?,
                None => RoundPlan { count: 1, staging: 0 },
            };
            let row = [shape.iter().product()];
            let boxed = |side: &ShardedLayout, flat: bool| {
                let of_shape = ShardBox::of_rank(side, &shape, rank).filter(|_| !flat);
                of_shape.or_else(|| ShardBox::of_rank(side, &row, rank))
            };
            let boxes = [boxed(plan.source(), flat[0]), boxed(plan.destination(), flat[1])];
            let digest = OnceLock::new();
            Ok(ReshardPlan { plan, shape, rank, width, rounds, boxes, digest })
        })
    }

    /// Ranks that take part.
    #[getter]
    fn ranks(&self) -> i64 {
        self.plan.rank_count()
    }

    /// The rank that this is about.
    #[getter]
    fn rank(&self) -> i64 {
        self.rank
    }

    /// The shape of the whole tensor.
    #[getter]
    fn shape(&self) -> Vec<i64> {
        self.shape.clone()
    }

    /// How many rounds there are.
    #[getter]
    fn rounds(&self) -> i64 {
        self.rounds.count
    }

    /// Bytes that the rank sends.
    #[getter]
    fn sent(&self) -> u64 {
        self.byte_count(self.plan.elements_sent(self.rank))
    }

    /// Bytes that the rank receives: what it needs and does not have.
    #[getter]
    fn received(&self) -> u64 {
        self.byte_count(self.plan.elements_received(self.rank))
    }

    /// Bytes that the rank has and needs.
    #[getter]
    fn kept(&self) -> u64 {
        self.byte_count(self.plan.elements_kept(self.rank))
    }

    /// Bytes that all ranks receive together.
    #[getter]
    fn traffic(&self) -> u64 {
        self.byte_count(self.plan.received_and_sent().iter().map(|(received, _)| received).sum())
    }

    /// A hash of all that ranks must agree on.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let made = self.digest.get_or_init(|| self.plan.plan_digest(self.width, self.rounds.count));
        PyBytes::new(py, made)
    }

    /// The shapes that the shard of the rank may have, the usual one first: the extents of what it has, those of the longest shard,
    /// the memory of the layout in a row. None where it holds nothing.
    fn shapes(&self, target: bool) -> Option<Vec<Vec<i64>>> {
        let sharded = self.plan_side(target);
        if !sharded.holds_elements(self.rank) {
            return None;
        }
        let row = vec![sharded.shard_len()];
        Some(match &self.boxes[usize::from(target)] {
            Some(b) => vec![b.actual.clone(), b.padded.clone(), row],
            None => vec![row],
        })
    }

    /// Whether every place of the new shard is written, in a shape of `shapes`.
    fn fills(&self, elements: i64) -> bool {
        let places: i64 = self
            .plan
            .destination()
            .layout()
            .tile()
            .replica()
            .iter()
            .filter(|it| it.axis.is_memory() && it.stride != 0)
            .map(|it| it.extent)
            .product();
        self.plan.elements_needed(self.rank).saturating_mul(places) == elements
    }

    /// Elements of the whole plan: what every rank receives and sends, and how that compares with the least that is possible; found
    /// by looking at every element.
    fn certificate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| certify_plan(&self.plan, None)).map_err(|e| refuse_plan(&e))?;
        let dict = PyDict::new(py);
        dict.set_item("received", &found.received)?;
        dict.set_item("sent", &found.sent)?;
        dict.set_item("messages", found.messages)?;
        dict.set_item("busiest_sender", found.busiest_sender)?;
        dict.set_item("sender_bound", found.sender_bound)?;
        dict.set_item("sender_factor", found.sender_factor())?;
        Ok(dict)
    }

    /// The copies and rounds of the rank, for shards that are boxes, or as long as the longest one.
    fn process(
        &self,
        py: Python<'_>,
        padded_source: bool,
        padded_target: bool,
    ) -> PyResult<ReshardProcess> {
        let [src, dst] = &self.boxes;
        let (src, dst) =
            (src.clone().filter(|_| !padded_source), dst.clone().filter(|_| !padded_target));
        let made = py.detach(|| RankProcess::of_rank(&self.plan, self.rank, src, dst));
        let process = made.map_err(|e| refuse_plan(&e))?;
        let width = usize::try_from(self.width).unwrap_or(usize::MAX);
        let kept = Mover::new(process.kept_copies(), width).map_err(|e| error::move_error(&e))?;
        Ok(ReshardProcess { process, kept, width, count: self.rounds.count })
    }
}

/// What one process does: its copies, and its rounds.
#[pyclass(name = "ReshardProcess", module = "zellige._native", frozen)]
pub(crate) struct ReshardProcess {
    process: RankProcess,
    kept: Mover,
    width: usize,
    count: i64,
}

#[pymethods]
impl ReshardProcess {
    /// Copies what the process has and needs from its old shard to its new one, both as bytes.
    fn keep(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<()> {
        if self.kept.elements() == 0 {
            return Ok(());
        }
        DisjointBytes::from_arrays(local, out)?.run_mover(py, &self.kept, (0, 0), threads)
    }

    /// The copies as loops.
    fn kept_nests(&self) -> NestList {
        list_nests(self.process.kept_copies())
    }

    /// The messages of a round, counted from 0. Those that fit go into slots, one of `slot` bytes for each process, behind the first
    /// `header` bytes of it.
    #[pyo3(signature = (index, slot=0, header=0))]
    fn round(
        &self,
        py: Python<'_>,
        index: i64,
        slot: usize,
        header: usize,
    ) -> PyResult<ReshardRound> {
        if !(0..self.count).contains(&index) {
            return Err(PyIndexError::new_err(format!("round {index} of {}", self.count)));
        }
        let round = py
            .detach(|| self.process.plan_round(index, self.count))
            .map_err(|e| refuse_plan(&e))?;
        let list = |messages: &[zellige_reshard::PeerMessage]| -> PyResult<Vec<PackedMessage>> {
            let mut end = 0usize;
            let mut all = Vec::with_capacity(messages.len());
            for message in messages {
                let mover =
                    Mover::new(&message.plan, self.width).map_err(|e| error::move_error(&e))?;
                let bytes = usize::try_from(message.elements).unwrap_or(0) * self.width;
                let direct = message.direct.and_then(|d| usize::try_from(d).ok());
                let peer = usize::try_from(message.peer).unwrap_or(0);
                let (kind, place) = match direct {
                    _ if header + bytes <= slot => (MessageTransport::Slot, peer * slot + header),
                    Some(begin) => (MessageTransport::Shard, begin * self.width),
                    None => (MessageTransport::Buffer, end),
                };
                if kind == MessageTransport::Buffer {
                    // Each begins at a line of its own.
                    end += bytes.next_multiple_of(64);
                }
                all.push(PackedMessage { mover, place, bytes, kind });
            }
            Ok(all)
        };
        let (sends, receives) = (list(&round.sends)?, list(&round.receives)?);
        Ok(ReshardRound { round, sends, receives })
    }
}

/// Where a message is while it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageTransport {
    Buffer = 0,
    /// In the shard itself, whose elements are contiguous.
    Shard = 1,
    /// Behind the digest that all processes exchange first.
    Slot = 2,
}

/// A message, ready to be packed or unpacked.
struct PackedMessage {
    mover: Mover,
    kind: MessageTransport,
    /// From which byte on.
    place: usize,
    bytes: usize,
}

/// The messages of one round.
#[pyclass(name = "ReshardRound", module = "zellige._native", frozen)]
pub(crate) struct ReshardRound {
    round: ExchangeRound,
    sends: Vec<PackedMessage>,
    receives: Vec<PackedMessage>,
}

fn list_messages(
    packed: &[PackedMessage],
    messages: &[zellige_reshard::PeerMessage],
) -> Vec<(i64, usize, u8, usize)> {
    let one = |(p, m): (&PackedMessage, &zellige_reshard::PeerMessage)| {
        (m.peer, p.bytes, p.kind as u8, p.place)
    };
    packed.iter().zip(messages).map(one).collect()
}

fn staging_bytes(packed: &[PackedMessage]) -> usize {
    let ends =
        packed.iter().filter(|p| p.kind == MessageTransport::Buffer).map(|p| p.place + p.bytes);
    ends.max().unwrap_or(0)
}

#[pymethods]
impl ReshardRound {
    /// Messages to send: peer, bytes, where the bytes are (0 a buffer, 1 the shard, 2 a slot), and the first byte there.
    #[getter]
    fn sends(&self) -> Vec<(i64, usize, u8, usize)> {
        list_messages(&self.sends, &self.round.sends)
    }

    /// The same of messages that come in.
    #[getter]
    fn receives(&self) -> Vec<(i64, usize, u8, usize)> {
        list_messages(&self.receives, &self.round.receives)
    }

    /// Bytes of the buffers to send from and to receive into.
    #[getter]
    fn staging(&self) -> (usize, usize) {
        (staging_bytes(&self.sends), staging_bytes(&self.receives))
    }

    /// Packs the messages of the buffer into it; with `slots` those of the slots.
    fn pack(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        threads: usize,
        slots: bool,
    ) -> PyResult<()> {
        let kind = if slots { MessageTransport::Slot } else { MessageTransport::Buffer };
        let mut messages = self.sends.iter().filter(|m| m.kind == kind).peekable();
        if messages.peek().is_none() {
            return Ok(());
        }
        let ends = DisjointBytes::from_arrays(local, buffer)?;
        messages.try_for_each(|m| ends.run_mover(py, &m.mover, (0, m.place), threads))
    }

    /// Unpacks the messages of the slots.
    fn unpack_slots(
        &self,
        py: Python<'_>,
        slots: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut messages =
            self.receives.iter().filter(|m| m.kind == MessageTransport::Slot).peekable();
        if messages.peek().is_none() {
            return Ok(());
        }
        let ends = DisjointBytes::from_arrays(slots, out)?;
        messages.try_for_each(|m| ends.run_mover(py, &m.mover, (m.place, 0), 1))
    }

    /// Unpacks a message that was received into the buffer.
    fn unpack(
        &self,
        py: Python<'_>,
        index: usize,
        buffer: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        threads: usize,
    ) -> PyResult<()> {
        let message = self
            .receives
            .get(index)
            .ok_or_else(|| PyIndexError::new_err(format!("message {index}")))?;
        DisjointBytes::from_arrays(buffer, out)?.run_mover(
            py,
            &message.mover,
            (message.place, 0),
            threads,
        )
    }

    /// The loops that pack a message to send, from the shard to the message.
    fn pack_nests(&self, index: usize) -> NestList {
        self.round.sends.get(index).map_or_else(Vec::new, |m| list_nests(&m.plan))
    }

    /// What a message that comes in is unpacked by, as loops from the message to the shard.
    fn unpack_nests(&self, index: usize) -> NestList {
        self.round.receives.get(index).map_or_else(Vec::new, |m| list_nests(&m.plan))
    }
}

fn list_nests(plan: &MovePlan) -> NestList {
    let all = plan.nests().iter();
    all.map(|n| (n.loops.iter().map(|l| (l.range, l.src, l.dst)).collect(), n.starts.clone()))
        .collect()
}

/// Whether each of the slots, all of so many bytes, begins with the digest of this process.
#[pyfunction]
pub(crate) fn slots_say(slots: &Bound<'_, PyAny>, slot: usize, said: &[u8]) -> PyResult<bool> {
    let array = bytes_of(slots, ArrayUse::Read, slots)?;
    let (start, len) = array.memory_range();
    // SAFETY: the memory of a live array, from its first byte to its last, whose owner lives until the end of this function.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast_const(), len) };
    Ok(bytes.chunks(slot.max(1)).all(|slot| slot.starts_with(said)))
}

/// Asks for huge pages under an array that is about to be written for the first time.
#[pyfunction]
pub(crate) fn is_new(array: &Bound<'_, PyAny>) -> PyResult<()> {
    let (start, len) = LibraryArray::from_object(array, ArrayUse::Written, array)?.memory_range();
    zellige_host::prefer_huge_pages(start, len);
    Ok(())
}

/// An array of bytes of the host, in a row.
fn bytes_of<'py>(
    array: &Bound<'py, PyAny>,
    used: ArrayUse,
    lead: &Bound<'py, PyAny>,
) -> PyResult<LibraryArray<'py>> {
    let array = LibraryArray::from_object(array, used, lead)?;
    if array.device.kind != DlDevice::CPU || !array.is_contiguous() || array.element_width() != 1 {
        return Err(PyValueError::new_err("shards and buffers are bytes of the host, in a row"));
    }
    Ok(array)
}

/// Two arrays of bytes, apart from each other: one is read, the other one written.
struct DisjointBytes<'py> {
    source: LibraryArray<'py>,
    target: LibraryArray<'py>,
}

impl<'py> DisjointBytes<'py> {
    fn from_arrays(
        from: &Bound<'py, PyAny>,
        to: &Bound<'py, PyAny>,
    ) -> PyResult<DisjointBytes<'py>> {
        let source = bytes_of(from, ArrayUse::Read, to)?;
        let target = bytes_of(to, ArrayUse::Written, to)?;
        if target.read_only {
            return Err(PyValueError::new_err("`out` is read-only"));
        }
        check_disjoint(source.memory_range(), target.memory_range())?;
        Ok(DisjointBytes { source, target })
    }

    /// Runs a mover from these places on.
    fn run_mover(
        &self,
        py: Python<'_>,
        mover: &Mover,
        (read_at, write_at): (usize, usize),
        threads: usize,
    ) -> PyResult<()> {
        let ((read, read_bytes), (write, write_bytes)) =
            (self.source.memory_range(), self.target.memory_range());
        if read_at > read_bytes || write_at > write_bytes {
            return Err(PyValueError::new_err("a message that begins behind its buffer"));
        }
        // SAFETY: both are the memory of live arrays, from their first byte to their last, apart from each other as `of` has checked;
        // their owners live as long as this, and the places are inside of them. No other slice of them lives.
        let (read, write) = unsafe {
            (
                std::slice::from_raw_parts(read.cast_const(), read_bytes),
                std::slice::from_raw_parts_mut(write, write_bytes),
            )
        };
        let (read, write) = (&read[read_at..], &mut write[write_at..]);
        let small = mover.elements() < 1 << 13;
        let mut work =
            || mover.run_on_slices(read, write, None, if small { 1 } else { threads.max(1) });
        let moved = if small { work() } else { py.detach(work) };
        moved.map_err(|e| error::move_error(&e))
    }
}
