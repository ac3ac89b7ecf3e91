//! Moving tensors: to the card, from it, and on it. Every one is a plan between two layouts.

use crate::card::Card;
use crate::error::refuse_operand;
use crate::error::{DeviceError, Result};
use crate::tensor::Tensor;
use crate::tensor::format::{default_layout, host_format};
use crate::tensor::out_of_range::{self, OutOfRangeNumbers};
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::{Arc, LazyLock};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_host::{AlignedBuffer, try_zeroed_vec};
use zellige_layout::{Layout, StridedLayout, unflatten_index};
use zellige_machine::account::{CoreWork, MemoryTraffic, OperationWork, WorkKind};
use zellige_movement::{MoveDtypes, MoveError, MovePlan, Mover, PaddingFill, PlanCache};
use zellige_op::HostScalar;
use zellige_stick::StickLayout;
use zellige_stick::{PlannedTransfer, TransferDirection};

/// What a move did, for the accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveTraffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Lengths in bytes of adjacent reads, with their numbers, longest first.
    pub read_runs: Vec<(u64, u64)>,
    /// The same of the writes.
    pub write_runs: Vec<(u64, u64)>,
    /// Bytes of the tensor in device memory that is read; 0 where the host is.
    pub read_block: u64,
    /// The same of the tensor that is written.
    pub write_block: u64,
}

/// Bytes that a core moves at once when it gathers short runs in its scratchpad: 32 sticks, a burst at
/// the full rate.
const TILE_BYTES: u64 = 32 * 128;

/// One side of a move.
pub(super) struct TransferSide {
    pub(super) layout: Layout,
    pub(super) format: Format,
}

impl MoveTraffic {
    fn from_runs(elements: i64, lengths: &[(i64, i64)], from: Format, to: Format) -> MoveTraffic {
        let runs = |size: usize| -> Vec<(u64, u64)> {
            let run = |(n, c): &(i64, i64)| (n.unsigned_abs() * size as u64, c.unsigned_abs());
            lengths.iter().map(run).collect()
        };
        let elements = elements.unsigned_abs();
        MoveTraffic {
            read: elements * from.byte_size() as u64,
            written: elements * to.byte_size() as u64,
            read_runs: runs(from.byte_size()),
            write_runs: runs(to.byte_size()),
            read_block: 0,
            write_block: 0,
        }
    }
}

impl MoveTraffic {
    /// The move as work of the device: of a transfer, that of its engine; on the device, its bursts
    /// shared by up to `cores` cores.
    ///
    /// A run shorter than a stick still moves the stick. Runs that would move more than the whole
    /// tensor are gathered in the scratchpad instead: every stick of the tensor once, tile by tile.
    pub fn device_work(
        &self,
        name: impl Into<String>,
        kind: WorkKind,
        cores: usize,
    ) -> OperationWork {
        let (read_bursts, write_bursts) = (
            round_to_bursts(&self.read_runs, self.read_block),
            round_to_bursts(&self.write_runs, self.write_block),
        );
        let sticks = |bursts: &[(u64, u64)], share: &dyn Fn(u64) -> u64| {
            let mut traffic = MemoryTraffic::new();
            bursts.iter().for_each(|(bytes, count)| traffic.add_bursts(*bytes, share(*count)));
            traffic
        };
        let whole = |n: u64| n;
        let mut one = CoreWork {
            reads: sticks(&read_bursts, &whole),
            writes: sticks(&write_bursts, &whole),
            ..CoreWork::default()
        };
        let moved = one.reads.total_bytes() + one.writes.total_bytes();
        // A transfer is the work of its engine and of no core. Its host side is counted in elements, because the
        // link carries no padding.
        if kind.is_transfer() {
            if kind == WorkKind::Upload {
                (one.host_in, one.reads) = (self.read, MemoryTraffic::new());
                one.padding_bytes = one.writes.total_bytes().saturating_sub(self.written);
            } else {
                (one.host_out, one.writes) = (self.written, MemoryTraffic::new());
                one.padding_bytes = one.reads.total_bytes().saturating_sub(self.read);
            }
            return OperationWork::new(name, kind, vec![one]);
        }
        let cores = cores.max(1) as u64;
        let padding = moved.saturating_sub(self.read + self.written);
        let slices = (0..cores).map(|core| {
            // The first cores take one burst more, so that the division neither loses a burst nor counts one twice.
            let share = |n: u64| n / cores + u64::from(core < n % cores);
            let reads = sticks(&read_bursts, &share);
            let writes = sticks(&write_bursts, &share);
            let lx_bytes = reads.total_bytes() + writes.total_bytes();
            let lx_peak = lx_bytes.min(64 * 1024);
            CoreWork {
                reads,
                writes,
                lx_bytes,
                lx_peak,
                padding_bytes: share(padding),
                ..CoreWork::default()
            }
        });
        OperationWork::new(name, kind, slices.collect())
    }
}

/// Runs as bursts of whole sticks, or the whole block where that is less.
fn round_to_bursts(runs: &[(u64, u64)], block: u64) -> Vec<(u64, u64)> {
    let rounded: Vec<(u64, u64)> =
        runs.iter().map(|(n, c)| (n.next_multiple_of(128), *c)).collect();
    let bytes = rounded.iter().fold(0u64, |sum, (n, c)| sum.saturating_add(n.saturating_mul(*c)));
    // Elements that are scattered over sticks would read each stick many times; gathering in the scratchpad reads
    // the whole tensor once instead.
    if block == 0 || bytes <= block {
        return rounded;
    }
    vec![(TILE_BYTES, block / TILE_BYTES), (block % TILE_BYTES, 1)]
}

/// Plans of moves that this process keeps.
const MAX_KEPT_MOVES: usize = 256;

/// The mover of a move: a kept one, or a newly planned one.
pub(super) fn find_mover(
    from: &TransferSide,
    to: &TransferSide,
    shape: &[i64],
) -> Result<Arc<Mover>> {
    // For the process and not per card, because a plan depends on layouts and formats alone.
    static MOVES: LazyLock<PlanCache> = LazyLock::new(|| PlanCache::new(MAX_KEPT_MOVES));
    let formats = MoveDtypes::Formats { from: from.format, to: to.format };
    let mover = MOVES.plan_or_reuse(&from.layout, &to.layout, shape, formats, PaddingFill::Leave);
    mover.map_err(|e| match e {
        MoveError::Plan(e) => DeviceError::from(e),
        other => other.into(),
    })
}

/// The move of the whole storage of a view into a buffer with every element at the offset that the strides of the storage
/// give it, and the bytes of that buffer: every view is strides over such a buffer.
pub(super) fn plan_unfolding(view: &TensorLayout) -> Result<(Arc<Mover>, usize)> {
    let (base, format) = (view.base_layout(), view.format());
    let last = base.view().address_range().map_or(0, |r| r.max + 1);
    let bytes = usize::try_from(last).unwrap_or(usize::MAX) * format.byte_size();
    let from = TransferSide { layout: base.element_layout()?, format };
    let to = TransferSide { layout: base.view().to_layout()?, format };
    Ok((find_mover(&from, &to, base.size())?, bytes))
}

/// Whether a copy stores the same integers in fewer bits, so that one of them might not fit.
pub(super) fn narrows_integers(from: &TensorLayout, to: &TensorLayout) -> bool {
    from.dtype() == to.dtype() && from.format() == Format::I64 && to.format() == Format::I32
}

/// Calls `run` with the mover of a move.
fn run_between(
    from: &TransferSide,
    to: &TransferSide,
    shape: &[i64],
    run: impl FnOnce(&Mover) -> Result<()>,
) -> Result<MoveTraffic> {
    let mover = find_mover(from, to, shape)?;
    run(&mover)?;
    Ok(MoveTraffic::from_runs(mover.elements(), mover.run_length_counts(), from.format, to.format))
}

impl TensorLayout {
    /// What copying these elements into a tensor of the same size takes, without doing it.
    ///
    /// **Law**: equal to what [`Tensor::copy_from`] between two tensors of these layouts returns.
    ///
    /// # Errors
    /// Sizes that differ, views with two elements in one place.
    pub fn plan_copy_to(&self, to: &TensorLayout) -> Result<MoveTraffic> {
        check_same_size("a copy", self.size(), to.size())?;
        let plan = MovePlan::between(
            &self.addressed_layout()?,
            &to.addressed_layout()?,
            self.size(),
            PaddingFill::Leave,
        )?;
        let lengths = plan.run_lengths();
        let moved =
            MoveTraffic::from_runs(plan.element_count(), &lengths, self.format(), to.format());
        Ok(MoveTraffic { read_block: self.base_bytes()?, write_block: to.base_bytes()?, ..moved })
    }

    /// What setting every element takes.
    ///
    /// # Errors
    /// Views that form no layout.
    pub(crate) fn plan_fill(&self) -> Result<MoveTraffic> {
        let one = StridedLayout::new(self.size(), &vec![0; self.size().len()], 0)?;
        let plan = MovePlan::between(
            &one.to_layout()?,
            &self.addressed_layout()?,
            self.size(),
            PaddingFill::Leave,
        )?;
        let lengths = plan.run_lengths();
        let moved =
            MoveTraffic::from_runs(plan.element_count(), &lengths, self.format(), self.format());
        Ok(MoveTraffic { read: 0, read_runs: Vec::new(), write_block: self.base_bytes()?, ..moved })
    }

    /// The layout from which its elements are read or written: in the block, or for a view that
    /// forms no layout of that, in the base as its own strides say.
    fn addressed_layout(&self) -> Result<Layout> {
        match self.element_layout() {
            Err(_) if !self.is_base() => Ok(self.view().to_layout()?),
            other => other,
        }
    }

    /// Bytes of its base in device memory.
    fn base_bytes(&self) -> Result<u64> {
        Ok(self.stick_layout().device_bytes()?.unsigned_abs())
    }
}

/// The part of host memory that a tensor touches, checked.
fn host_side(
    host: &StridedLayout,
    dtype: Dtype,
    found: usize,
    what: &'static str,
) -> Result<TransferSide> {
    let format = host_format(dtype)?;
    if let Some(range) = host.address_range() {
        // A view with negative strides may begin in the middle of the memory, but must not reach in front of it.
        if range.min < 0 {
            return Err(refuse_operand(
                "a host tensor",
                None,
                format!("its first element would lie {} before its memory", -range.min),
            ));
        }
        // In 128 bits, because an address times a width may not fit in 64.
        let needed = (range.max.unsigned_abs() as u128 + 1) * format.byte_size() as u128;
        if (found as u128) < needed {
            let needed = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(DeviceError::HostBytes { what, needed, found });
        }
    }
    Ok(TransferSide { layout: host.to_layout()?, format })
}

fn check_same_size(what: &str, left: &[i64], right: &[i64]) -> Result<()> {
    if left == right {
        return Ok(());
    }
    let (left, right) = (left.to_vec(), right.to_vec());
    Err(DeviceError::SizeMismatch { what: what.into(), left, right })
}

impl Tensor {
    /// A tensor with the elements of a host tensor, in `layout` or in the default one of its size.
    ///
    /// # Errors
    /// Host memory too short, dtypes that the device does not store, integers past 32 bits, layouts
    /// that do not hold the tensor, no room on the card. Nothing is left behind.
    pub fn upload(
        card: &Card,
        bytes: &[u8],
        host: &StridedLayout,
        dtype: Dtype,
        layout: Option<&StickLayout>,
    ) -> Result<(Tensor, MoveTraffic)> {
        host_side(host, dtype, bytes.len(), "source")?;
        let layout = match layout {
            Some(l) if l.host().is_some() => l.clone(),
            Some(l) => l.with_host(host.size(), Some(host.stride()))?,
            None => {
                // A reversed host steps forward on the device, in row-major order.
                let forward = host.stride().iter().all(|s| *s >= 0);
                let stride = Some(host.stride()).filter(|_| forward);
                default_layout(host.size(), stride, dtype, card.kept_dtypes())?
            }
        };
        let tensor = Tensor::zeros(card, dtype, &layout)?;
        check_same_size("the layout and the host tensor", tensor.size(), host.size())?;
        let moved = tensor.write_from(bytes, host, dtype)?;
        Ok((tensor, moved))
    }

    /// Writes the elements of a host tensor of the same size into this tensor or view: only its own
    /// elements change.
    ///
    /// **Law**: an integer arrives as it is, or is refused: none is cut to 32 bits.
    ///
    /// # Errors
    /// As [`Tensor::upload`].
    pub fn write_from(
        &self,
        bytes: &[u8],
        host: &StridedLayout,
        dtype: Dtype,
    ) -> Result<MoveTraffic> {
        check_same_size("a write", host.size(), self.size())?;
        let from = host_side(host, dtype, bytes.len(), "source")?;
        out_of_range::check_elements_fit(bytes, host, from.format, self.format())?;
        self.receive_from(&from, bytes)
    }

    /// The elements of a host tensor that are past the numbers of the format of this one, and would come
    /// back as infinities.
    ///
    /// # Errors
    /// As [`Tensor::write_from`].
    pub fn find_out_of_range(
        &self,
        bytes: &[u8],
        host: &StridedLayout,
        dtype: Dtype,
    ) -> Result<Option<OutOfRangeNumbers>> {
        let from = host_side(host, dtype, bytes.len(), "source")?;
        out_of_range::find_out_of_range(bytes, host, from.format, self.format())
    }

    /// Whether setting every element to this finite number would store infinities.
    pub fn is_out_of_range(&self, value: impl Into<HostScalar>) -> bool {
        out_of_range::is_number_out_of_range(value.into(), self.format())
    }

    /// Its elements that are NaN: how many, and where the first one is; none where no element is. The
    /// memory is searched in the order of its addresses; elements are only read where that finds a NaN, because
    /// padding may be anything.
    ///
    /// # Errors
    /// As [`Tensor::read_into`].
    pub fn find_nans(&self) -> Result<Option<(u64, Vec<i64>)>> {
        if self.numel() == 0 || !out_of_range::has_nan(&self.block().lock_for_read(), self.format())
        {
            return Ok(None);
        }
        let bytes = self.download(Dtype::Float32)?;
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap_or_default());
        let is_nan = |(i, b): (i64, &[u8])| number(b).is_nan().then_some(i);
        let mut found = (0..).zip(bytes.chunks_exact(4)).filter_map(is_nan);
        let Some(first) = found.next() else { return Ok(None) };
        Ok(Some((1 + found.count() as u64, unflatten_index(self.size(), first))))
    }

    /// Reads the elements into a host tensor of the same size, whatever its strides.
    ///
    /// # Errors
    /// Host memory too short or with two elements in one place, sizes that differ.
    pub fn read_into(
        &self,
        bytes: &mut [u8],
        host: &StridedLayout,
        dtype: Dtype,
    ) -> Result<MoveTraffic> {
        check_same_size("a read", host.size(), self.size())?;
        let to = host_side(host, dtype, bytes.len(), "destination")?;
        let threads = self.card().host_threads();
        let moved = self.with_side(|from, memory| {
            run_between(from, &to, self.size(), |m| {
                Ok(m.run_on_slices(memory, bytes, None, threads)?)
            })
        })?;
        Ok(MoveTraffic { read_block: self.base_bytes()?, ..moved })
    }

    /// Its elements as a contiguous host tensor.
    ///
    /// # Errors
    /// As [`Tensor::read_into`].
    pub fn download(&self, dtype: Dtype) -> Result<Vec<u8>> {
        Ok(self.download_with_traffic(dtype)?.0)
    }

    /// The same, and the traffic of the transfer.
    ///
    /// # Errors
    /// As [`Tensor::read_into`].
    pub fn download_with_traffic(&self, dtype: Dtype) -> Result<(Vec<u8>, MoveTraffic)> {
        let host = StridedLayout::new_contiguous(self.size())?;
        let size = host_format(dtype)?.byte_size();
        // A view may have any number of elements.
        let asked = u64::try_from(self.numel()).unwrap_or(u64::MAX).saturating_mul(size as u64);
        let held = usize::try_from(asked).ok().and_then(try_zeroed_vec);
        let mut bytes = held.ok_or_else(|| DeviceError::HostMemory {
            asked,
            reason: "the elements of a tensor that is downloaded".into(),
        })?;
        let moved = self.read_into(&mut bytes, &host, dtype)?;
        Ok((bytes, moved))
    }

    /// Copies the elements of another tensor of the same size: restickify, another tiling, sparse to
    /// dense, another format.
    ///
    /// # Errors
    /// Sizes that differ, views with two elements in one place.
    pub fn copy_from(&self, src: &Tensor) -> Result<MoveTraffic> {
        check_same_size("a copy", src.size(), self.size())?;
        if narrows_integers(src.tensor_layout(), self.tensor_layout()) {
            // The same integers in fewer bits: as from the host, none is cut.
            let host = StridedLayout::new_contiguous(src.size())?;
            out_of_range::check_elements_fit(
                &src.download(Dtype::Int64)?,
                &host,
                Format::I64,
                Format::I32,
            )?;
        }
        if src.block() == self.block() {
            // The two may overlap: read everything first.
            let held = src.read_dense()?;
            let (buffer, host) = (&held.0, &held.1);
            let from = TransferSide { layout: host.to_layout()?, format: src.format() };
            self.receive_from(&from, buffer)?;
            // What the detour through the host takes is not charged, because the card would copy directly.
            return src.tensor_layout().plan_copy_to(self.tensor_layout());
        }
        let moved = src.with_side(|from, memory| self.receive_from(from, memory))?;
        Ok(MoveTraffic { read_block: src.base_bytes()?, ..moved })
    }

    /// The same elements in another layout of the same size.
    ///
    /// # Errors
    /// As [`Tensor::zeros`] and [`Tensor::copy_from`].
    pub fn to_layout(&self, layout: &StickLayout) -> Result<(Tensor, MoveTraffic)> {
        self.to_dtype(self.dtype(), layout)
    }

    /// The same elements in another layout and dtype.
    ///
    /// # Errors
    /// As [`Tensor::to_layout`].
    pub fn to_dtype(&self, dtype: Dtype, layout: &StickLayout) -> Result<(Tensor, MoveTraffic)> {
        let bound = match layout.host() {
            Some(_) => layout.clone(),
            None => layout.with_host(self.size(), None)?,
        };
        let to = Tensor::zeros(self.card(), dtype, &bound)?;
        let moved = to.copy_from(self)?;
        Ok((to, moved))
    }

    /// Sets every element of the tensor or view; of bool, whether the number is not 0.
    ///
    /// # Errors
    /// Views that form no layout, numbers that the integers of the device do not hold.
    pub fn fill(&self, value: impl Into<HostScalar>) -> Result<MoveTraffic> {
        let value = value.into().held_as_dtype(self.dtype());
        out_of_range::check_number_fits(value, self.format())?;
        let one = StridedLayout::new(self.size(), &vec![0; self.size().len()], 0)?;
        let (bytes, dtype) = value.host_bytes();
        self.write_from(&bytes, &one, dtype)
    }

    /// A tensor of another size whose elements are the first ones of this tensor in row-major order;
    /// what there is no element for is zero.
    ///
    /// # Errors
    /// As [`Tensor::zeros`].
    pub fn resized_to(&self, size: &[i64]) -> Result<Tensor> {
        let layout =
            StickLayout::default_in_format(size, None, self.stick_layout().device_dtype())?;
        let to = Tensor::zeros(self.card(), self.dtype(), &layout)?;
        let kept = self.numel().min(to.numel());
        let (mut buffer, _) = self.read_dense()?;
        let bytes = |n: i64| usize::try_from(n).unwrap_or(usize::MAX) * self.format().byte_size();
        if to.numel() > kept {
            let mut longer = AlignedBuffer::new_zeroed(bytes(to.numel()));
            longer[..bytes(kept)].copy_from_slice(&buffer[..bytes(kept)]);
            buffer = longer;
        }
        let host = StridedLayout::new_contiguous(size)?;
        to.receive_from(&TransferSide { layout: host.to_layout()?, format: to.format() }, &buffer)?;
        Ok(to)
    }

    /// The planned transfer to or from a host tensor, with its descriptor.
    ///
    /// # Errors
    /// Views, which have no descriptor of their own, and sizes that differ.
    pub fn plan_transfer(
        &self,
        host: &StridedLayout,
        direction: TransferDirection,
    ) -> Result<PlannedTransfer> {
        check_same_size("a transfer", host.size(), self.size())?;
        Ok(PlannedTransfer::new(host, self.stick_layout(), self.dtype(), direction)?)
    }

    /// Elements in the stored format, row-major without gaps.
    fn read_dense(&self) -> Result<(AlignedBuffer, StridedLayout)> {
        let host = StridedLayout::new_contiguous(self.size())?;
        let bytes = usize::try_from(self.numel()).unwrap_or(usize::MAX) * self.format().byte_size();
        let mut buffer = AlignedBuffer::new_zeroed(bytes);
        let to = TransferSide { layout: host.to_layout()?, format: self.format() };
        let threads = self.card().host_threads();
        self.with_side(|from, memory| {
            run_between(from, &to, self.size(), |m| {
                Ok(m.run_on_slices(memory, &mut buffer, None, threads)?)
            })
        })?;
        Ok((buffer, host))
    }

    /// Calls `f` with the layout of this tensor and the bytes that it describes: the block itself, or
    /// for a view that forms no layout of the block, the base laid out as its own strides say.
    fn with_side<T>(&self, f: impl FnOnce(&TransferSide, &[u8]) -> Result<T>) -> Result<T> {
        let format = self.format();
        match self.element_layout() {
            Ok(layout) => f(&TransferSide { layout, format }, &self.block().lock_for_read()),
            Err(_) if !self.is_base() => {
                let base = self.unfold_base()?;
                f(&TransferSide { layout: self.view().to_layout()?, format }, &base)
            }
            Err(e) => Err(e),
        }
    }

    /// The base, every element at its own-stride offset.
    fn unfold_base(&self) -> Result<AlignedBuffer> {
        let (mover, bytes) = plan_unfolding(self.tensor_layout())?;
        let mut buffer = AlignedBuffer::new_zeroed(bytes);
        mover.run_on_slices(&self.block().lock_for_read(), &mut buffer, None, 1)?;
        Ok(buffer)
    }

    /// Writes every element from another side of the same size.
    fn receive_from(&self, from: &TransferSide, bytes: &[u8]) -> Result<MoveTraffic> {
        let (format, threads) = (self.format(), self.card().host_threads());
        let moved = match self.element_layout() {
            Ok(layout) => {
                let to = TransferSide { layout, format };
                let mut memory = self.block().lock_for_write();
                run_between(from, &to, self.size(), |m| {
                    Ok(m.run_on_slices(bytes, &mut memory, None, threads)?)
                })
            }
            Err(_) if !self.is_base() => {
                let mut base = self.unfold_base()?;
                let to = TransferSide { layout: self.view().to_layout()?, format };
                let moved = run_between(from, &to, self.size(), |m| {
                    Ok(m.run_on_slices(bytes, &mut base, None, threads)?)
                })?;
                let whole = self.base();
                whole.receive_from(
                    &TransferSide { layout: whole.view().to_layout()?, format },
                    &base,
                )?;
                Ok(moved)
            }
            Err(e) => Err(e),
        }?;
        Ok(MoveTraffic { write_block: self.base_bytes()?, ..moved })
    }
}
