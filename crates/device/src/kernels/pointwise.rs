//! Element by element: one function of the operands at every place.
//!
//! Operands broadcast as in PyTorch and are promoted to one dtype. Floats widen to float32, integers and truth
//! values compute in 32 bits, or in 64 where one of the tensors has them. A bool result holds 0 or 1 (so that bool addition is `or` and
//! multiplication `and`), a uint8 result its lowest 8 bits.

use super::io::{ElementLoader, ElementStorer, KernelNumber};
use super::share::{CoreShare, moves_along};
use super::table::CodeTable;
use super::walk::StickWalk;
use super::{
    FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers,
    charge_shared_streams, charge_units, dims,
};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::layout_like;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_float::{Format, Isa, PAIR_STEP, PairArithmetic, PairKernel, select_pair_kernel};
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{LoopCharge, OperationCharges, SumGroup};
use zellige_math::{Binary, FloatFunction, WrappingInteger};
use zellige_op::{PointwiseOp, ResultDtype, TensorType};
use zellige_stick::StickLayout;

/// A function over slices of equal length: the operands, then the result.
pub(crate) type SliceFunction<T> = Arc<dyn Fn(&[&[T]], &mut [T]) + Send + Sync>;

/// Numbers computed at a time: what operands and result take of the first-level cache.
const CHUNK_NUMBERS: usize = 1024;
/// Elements taken at a time where nothing is unpacked.
const AT_ONCE: usize = 1 << 14;
/// Numbers computed at a time in the memory of their tensors.
const IN_MEMORY: usize = 1 << 12;
/// Numbers that need no allocation: a stick of each of four tensors.
const ON_STACK: usize = 256;

impl OpKernel for PointwiseOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        layouts_for_result(inputs, layout_like(inputs, &outputs[0])?)
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        result_spans(inputs, &outputs[0])
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        Some(dims::follow_result_loops(inputs, outputs))
    }

    fn unit_charges(&self, _: &[StickForm], outputs: &[StickForm]) -> Option<OperationCharges> {
        Some(elementwise_charges(&outputs[0], self.transcendental))
    }

    fn operand_needs(
        &self,
        inputs: &[TensorLayout],
        outputs: &[StickForm],
    ) -> Option<Vec<LayoutNeed>> {
        Some(broadcast_needs(inputs, &outputs[0]))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let out = &outputs[0];
        let cut = cut_walks(self.name, inputs, &[], out, division, self.transcendental)?;
        let formats: Vec<Format> = inputs.iter().map(|i| i.format).collect();
        let float = |(i, t): (usize, &StickForm)| {
            self.counts_for_dtype(i) && !t.truth && t.format.is_float()
        };
        // One float operand makes the arithmetic float, as promotion did with the dtype of the result. A truth
        // value holds 0 or 1 in any format, so that it does not count.
        let ints = !inputs.iter().enumerate().any(float);
        let long = out.format == Format::I64 || formats.contains(&Format::I64);
        match (self.int, self.float) {
            // Integers are computed with 64 bits only where a tensor has them: 32 bits are what the card has, and
            // give twice the numbers per register.
            (Some(f), _) if ints && long => {
                let run = Arc::new(move |x: &[&[i64]], out: &mut [i64]| f.apply_i64(x, out));
                Ok(Box::new(PointwiseTask::new(
                    run,
                    integer_finish(self, out),
                    &formats,
                    out.format,
                    cut,
                )))
            }
            (Some(f), _) if ints => {
                let run = Arc::new(move |x: &[&[i32]], out: &mut [i32]| f.apply_i32(x, out));
                Ok(Box::new(PointwiseTask::new(
                    run,
                    integer_finish(self, out),
                    &formats,
                    out.format,
                    cut,
                )))
            }
            (_, Some(f)) => {
                // DLFloat16 has exponents past those of float16, so only a tensor that the host sees as float16 can
                // hold finite numbers that the host would read as infinities.
                let run: SliceFunction<f32> = if self.infinities && inputs.iter().any(|t| t.float16)
                {
                    let halves: Vec<bool> = inputs.iter().map(|t| t.float16).collect();
                    Arc::new(move |x, out| apply_as_read(f, &halves, x, out))
                } else {
                    Arc::new(move |x, out| f.apply_to_slices(x, out))
                };
                let work = PointwiseTask::new(run, None, &formats, out.format, cut);
                let work = if self.infinities { work.with_infinities(&formats) } else { work };
                // A table is for one operand, because two of 16 bits would need 2^32 entries; and a cheap function
                // does not earn the time that making the table takes.
                let costly = self.transcendental && formats.len() == 1;
                Ok(Box::new(if costly {
                    work.with_table(f, out.numel())
                } else {
                    work.with_pair_kernel(f)
                }))
            }
            _ => Err(refuse_operand(self.name, None, "it is for integers and bool only")),
        }
    }
}

/// The least magnitude that float16 rounds to an infinity.
const FLOAT16_OVERFLOW: f32 = 65520.0;

/// Applies a function to operands as the host reads them: DLFloat16 has numbers past those of float16, and a float16
/// tensor reads them back as infinities.
fn apply_as_read(f: FloatFunction, halves: &[bool], x: &[&[f32]], out: &mut [f32]) {
    let overflow =
        |v: &f32| if v.abs() >= FLOAT16_OVERFLOW { f32::INFINITY.copysign(*v) } else { *v };
    let read: Vec<Vec<f32>> = x
        .iter()
        .zip(halves)
        .map(|(x, half)| if *half { x.iter().map(overflow).collect() } else { x.to_vec() })
        .collect();
    let read: Vec<&[f32]> = read.iter().map(Vec::as_slice).collect();
    f.apply_to_slices(&read, out);
}

/// What makes integers those of the result.
fn integer_finish<T: WrappingInteger>(op: &PointwiseOp, out: &StickForm) -> Option<fn(&mut [T])> {
    match op.yields {
        ResultDtype::Bool => None,
        _ if out.truth && op.flips => Some(keep_lowest_bit),
        _ if out.truth => Some(normalize_truths),
        _ if out.format == Format::U32 => Some(keep_lowest_byte),
        _ => None,
    }
}

/// Truth values are 0 and 1.
pub(crate) fn normalize_truths<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = <T as From<bool>>::from(*x != T::ZERO));
}

/// The lowest bit.
fn keep_lowest_bit<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & T::ONE);
}

/// A uint8 has 8 bits.
pub(crate) fn keep_lowest_byte<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & <T as From<u8>>::from(0xff));
}

/// A result in this layout, and the layouts that operands need for it.
pub(crate) fn layouts_for_result(
    inputs: &[TensorLayout],
    layout: StickLayout,
) -> Result<KernelLayouts> {
    let inputs = broadcast_needs(inputs, &crate::tensor::result_layout::bound_form(&layout)?);
    Ok(KernelLayouts { inputs, outputs: vec![layout] })
}

/// The layouts that operands need for a result of this layout.
pub(crate) fn broadcast_needs(inputs: &[TensorLayout], out: &StickForm) -> Vec<LayoutNeed> {
    let want = |t: &TensorLayout| {
        let lead = out.rank() - t.size().len();
        match out.stick {
            Some(s) if s >= lead && t.size()[s - lead] != 1 => LayoutNeed::Along(s - lead),
            // Nothing of it runs along the lanes: each element has a stick, or it is one.
            _ if t.numel() == 1 => LayoutNeed::AsIs,
            _ => LayoutNeed::Sparse,
        }
    };
    inputs.iter().map(want).collect()
}

/// The dimensions of the output; its sticks stay whole in every operand.
pub(crate) fn result_spans(inputs: &[StickForm], out: &StickForm) -> Vec<LoopSpan> {
    // A core gets whole sticks of the operand with the longest ones, because a slice cannot begin inside of a
    // stick. Lengths of sticks divide each other, so that those of the others are whole too.
    let widest = inputs.iter().chain([out]).map(|t| t.eps).max().unwrap_or(1);
    let unit = |d: usize| if out.stick == Some(d) { widest } else { 1 };
    (0..out.rank()).map(|d| LoopSpan::for_output(out.size[d], unit(d))).collect()
}

/// One operation for every lane of the result.
pub(crate) fn elementwise_charges(out: &StickForm, transcendental: bool) -> OperationCharges {
    let unit = |d: usize| if out.stick == Some(d) { out.eps } else { 1 };
    // A stick with a single element has all lanes too.
    let lanes = if out.stick.is_some() { 1 } else { out.eps as u64 };
    let charge = LoopCharge {
        loops: (0..out.rank()).map(|d| (d, unit(d))).collect(),
        macs: 0,
        sfu: if transcendental { 0 } else { lanes },
        transcendental: if transcendental { lanes } else { 0 },
        finishing: false,
    };
    OperationCharges::single_charge(WorkKind::Pointwise, charge)
}

/// The walks of a kernel that computes each element of its result from the elements at the same coordinates.
pub(crate) struct CoreWalks {
    /// The walk of every core, and what the core does.
    cores: Vec<(StickWalk, CoreWork)>,
    /// The walk over the whole result.
    whole: StickWalk,
}

/// A task whose elements do not depend on the division of the work: any walk over a part of the result computes that
/// part.
pub(crate) trait WalkTask: Send + Sync {
    /// The walks of the task.
    fn core_walks(&self) -> &CoreWalks;

    /// Computes the part of the result that a walk covers.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`]; the walk is one of [`WalkTask::core_walks`].
    unsafe fn run_walk(&self, walk: &StickWalk, memory: &TensorPointers);
}

impl<W: WalkTask> KernelTask for W {
    fn work_kind(&self) -> WorkKind {
        WorkKind::Pointwise
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.core_walks().cores[core].1.clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        // SAFETY: by the contract of this function.
        unsafe { self.run_walk(&self.core_walks().cores[core].0, memory) }
    }

    // To begin a walk takes longer than the few rows that a core has of a small tensor, and rows of neighbouring cores
    // are often adjacent.
    unsafe fn run_slices(&self, _: usize, memory: &TensorPointers) {
        // SAFETY: by the contract of this function.
        unsafe { self.run_walk(&self.core_walks().whole, memory) }
    }
}

/// The walk of every core and what it does: operands that are read once, then counters, which are
/// walked along and cost nothing.
pub(crate) fn cut_walks(
    name: &'static str,
    inputs: &[StickForm],
    counters: &[StickForm],
    out: &StickForm,
    division: &WorkDivision,
    transcendental: bool,
) -> Result<CoreWalks> {
    let refuse = |operand: usize, reason: String| refuse_operand(name, Some(operand), reason);
    let mut wide = Vec::with_capacity(inputs.len() + counters.len());
    for (operand, i) in inputs.iter().enumerate() {
        wide.push(i.expand_to(&out.size).ok_or_else(|| {
            let reason = format!("size {:?} does not broadcast to {:?}", i.size, out.size);
            refuse(operand, reason)
        })?);
    }
    wide.extend_from_slice(counters);
    let space = result_spans(inputs, out);
    let charges = elementwise_charges(out, transcendental);
    let walk = |out: &StickForm, operands: &[StickForm]| {
        StickWalk::new(out, operands).map_err(|m| {
            refuse(m.operand, "its lanes run along another dimension than the result's".into())
        })
    };
    // Also made where the cores run on their own, so that an operand that does not fit is refused before anything
    // is written.
    let whole = walk(out, &wide)?;
    let mut cores = Vec::with_capacity(division.core_count());
    for core in 0..division.core_count() {
        let ranges = division.core_slice(core, &space);
        let cut = |t: &StickForm| {
            let dims = ranges.iter().enumerate();
            dims.fold(t.clone(), |t, (d, range)| t.slice_dim(d, range.clone()))
        };
        let (ins, to): (Vec<StickForm>, _) = (wide.iter().map(cut).collect(), cut(out));
        let walk = walk(&to, &ins)?;
        let shares: SmallVec<[CoreShare; 4]> = wide[..inputs.len()]
            .iter()
            .map(|t| CoreShare::from_division(division, core, |l| !moves_along(t, l)))
            .collect();
        let mut work = charge_shared_streams(&ins[..inputs.len()], &shares, &[to]);
        charge_units(&mut work, &charges, &ranges, SumGroup::ALONE);
        cores.push((walk, work));
    }
    Ok(CoreWalks { cores, whole })
}

/// A pointwise function on core slices.
pub(crate) struct PointwiseTask<T> {
    f: SliceFunction<T>,
    finish: Option<fn(&mut [T])>,
    loads: Vec<ElementLoader<T>>,
    store: ElementStorer<T>,
    walks: CoreWalks,
    /// What every code of the only operand gives.
    table: Option<CodeTable>,
    /// What does it to pairs of elements in registers.
    pair: Option<PairKernel>,
}

impl<T: KernelNumber> PointwiseTask<T> {
    /// `finish` is applied to results before they are stored.
    pub(crate) fn new(
        f: SliceFunction<T>,
        finish: Option<fn(&mut [T])>,
        formats: &[Format],
        out: Format,
        walks: CoreWalks,
    ) -> PointwiseTask<T> {
        let loads = formats.iter().map(|f| ElementLoader::new(*f, out)).collect();
        PointwiseTask {
            f,
            finish,
            loads,
            store: ElementStorer::new(out),
            walks,
            table: None,
            pair: None,
        }
    }

    /// The same on elements as the host reads them, with infinities.
    pub(crate) fn with_infinities(self, formats: &[Format]) -> PointwiseTask<T> {
        PointwiseTask {
            loads: formats.iter().map(|f| ElementLoader::with_infinities(*f)).collect(),
            ..self
        }
    }
}

impl PointwiseTask<f32> {
    /// The same by a table, where so many elements are worth one. `f` is the function of the only operand.
    fn with_table(self, f: FloatFunction, elements: usize) -> PointwiseTask<f32> {
        let table = CodeTable::for_function(f, &self.loads[0], &self.store, elements);
        PointwiseTask { table, ..self }
    }

    /// The same in registers, where there is a kernel for the formats. `f` is the function.
    fn with_pair_kernel(self, f: FloatFunction) -> PointwiseTask<f32> {
        let f = match f {
            FloatFunction::Binary(Binary::Add) => PairArithmetic::Add,
            FloatFunction::Binary(Binary::Sub) => PairArithmetic::Sub,
            FloatFunction::Binary(Binary::Mul) => PairArithmetic::Mul,
            // A product with 1 or -1 is exact.
            FloatFunction::AddScaled(1.0) => PairArithmetic::Add,
            FloatFunction::AddScaled(-1.0) => PairArithmetic::Sub,
            _ => return self,
        };
        let pair = match self.loads.as_slice() {
            [a, b] if a.format() == b.format() => {
                select_pair_kernel(f, a.format(), self.store.format(), Isa::process_isa())
            }
            _ => None,
        };
        PointwiseTask { pair, ..self }
    }
}

impl<T: KernelNumber> PointwiseTask<T> {
    /// Looks up the elements of a slice, if lanes are adjacent in operand and result.
    ///
    /// # Safety
    /// That of [`KernelTask::run_slice`].
    unsafe fn run_by_table(
        &self,
        table: &CodeTable,
        walk: &StickWalk,
        memory: &TensorPointers,
    ) -> bool {
        let (from, to) = (memory.inputs[0].cast::<u16>(), memory.outputs[0].cast::<u16>());
        walk.for_whole_lanes(AT_ONCE, |at, count| {
            // SAFETY: by the contract of this function; the walk stays inside its tensors, whose formats have 16 bits
            // where there is a table.
            unsafe { table.look_up_codes(from.add(at[1]), to.add(at[0]), count) };
        })
    }

    /// Takes pairs of elements of a slice, if lanes are adjacent in every tensor.
    ///
    /// # Safety
    /// That of [`KernelTask::run_slice`].
    unsafe fn run_in_pairs(
        &self,
        run: PairKernel,
        walk: &StickWalk,
        memory: &TensorPointers,
    ) -> bool {
        let size = self.store.format().byte_size();
        let (a, b, to) = (memory.inputs[0], memory.inputs[1], memory.outputs[0]);
        walk.lanes.is_multiple_of(PAIR_STEP)
            && walk.for_whole_lanes(AT_ONCE, |at, count| {
                // SAFETY: as in `run_by_table`; a result in the block of an operand is in its very place.
                unsafe {
                    run(a.add(at[1] * size), b.add(at[2] * size), to.add(at[0] * size), count);
                }
            })
    }

    /// Computes in the memory of the tensors, if they hold the numbers themselves and lanes are adjacent in all of them.
    ///
    /// # Safety
    /// That of [`KernelTask::run_slice`].
    unsafe fn run_in_memory(&self, walk: &StickWalk, memory: &TensorPointers) -> bool {
        let to = memory.outputs[0].cast::<T>();
        let aligned = |at: *const u8| at.cast::<T>().is_aligned();
        // Rust's slices have to be aligned, and a mutable one may not overlap the others, which a result in the
        // block of an operand would.
        let numbers = self.store.format() == T::FORMAT
            && self.loads.iter().all(|load| load.format() == T::FORMAT)
            && memory.inputs.iter().all(|from| aligned(*from) && *from != to.cast_const().cast())
            && aligned(to.cast());
        numbers
            && walk.for_whole_lanes(IN_MEMORY, |at, count| {
                // SAFETY: as in `run_by_table`; elements are numbers of this type, and the result has a block of its own.
                let views: SmallVec<[&[T]; 4]> = (memory.inputs.iter().zip(&at[1..]))
                    .map(|(from, at)| unsafe {
                        std::slice::from_raw_parts(from.cast::<T>().add(*at), count)
                    })
                    .collect();
                // SAFETY: as above; slices of other cores are disjoint.
                let result = unsafe { std::slice::from_raw_parts_mut(to.add(at[0]), count) };
                (self.f)(&views, result);
                if let Some(finish) = self.finish {
                    finish(result);
                }
            })
    }
}

impl<T: KernelNumber> WalkTask for PointwiseTask<T> {
    fn core_walks(&self) -> &CoreWalks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &StickWalk, memory: &TensorPointers) {
        if let Some(table) = &self.table
            // SAFETY: by the contract of `KernelTask::run_slice`.
            && unsafe { self.run_by_table(table, walk, memory) }
        {
            return;
        }
        if let Some(run) = self.pair
            // SAFETY: by the contract of `KernelTask::run_slice`.
            && unsafe { self.run_in_pairs(run, walk, memory) }
        {
            return;
        }
        // SAFETY: by the contract of `KernelTask::run_slice`.
        if unsafe { self.run_in_memory(walk, memory) } {
            return;
        }
        let rows = walk.rows_for_numbers(CHUNK_NUMBERS);
        // A few rows at a time, so that the unpacked numbers stay in the first-level cache from the load to the
        // store.
        let wide = rows * walk.lanes;
        let mut scratch: SmallVec<[T; ON_STACK]> =
            SmallVec::from_elem(T::default(), wide * (self.loads.len() + 1));
        let (result, operands) = scratch.split_at_mut(wide);
        walk.for_each_rows(rows, |rows| {
            let n = rows.count * rows.lanes;
            for (i, into) in operands.chunks_mut(wide).enumerate() {
                // SAFETY: by the contract of `KernelTask::run_slice`; the walk was made for these tensors.
                unsafe {
                    rows.load_rows(
                        &self.loads[i],
                        memory.inputs[i],
                        i,
                        walk.row_lanes(i + 1),
                        into,
                    );
                };
            }
            let views: SmallVec<[&[T]; 4]> = operands.chunks(wide).map(|o| &o[..n]).collect();
            let result = &mut result[..n];
            (self.f)(&views, result);
            if let Some(finish) = self.finish {
                finish(result);
            }
            // SAFETY: as above; slices of other cores are disjoint.
            unsafe { rows.store_rows(&self.store, memory.outputs[0], walk.row_lanes(0), result) };
        });
    }
}
