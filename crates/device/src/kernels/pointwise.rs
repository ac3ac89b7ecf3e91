//! Element by element: one function of the operands at every place.
//!
//! Operands broadcast as in PyTorch and meet in one dtype. Floats widen to float32, integers and truth
//! values compute in 32 bits, or in 64 where one of the tensors has them. A bool result holds 0 or 1 (so that bool addition is `or` and
//! multiplication `and`), a uint8 result its lowest 8 bits.

use super::io::{Load, Number, Store};
use super::share::{Share, moves_along};
use super::table::CodeTable;
use super::walk::Walk;
use super::{
    Follows, Kernel, KernelLayouts, LayoutNeed, Pointers, Task, charge, dims, streamed_with,
};
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::like;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_float::{Format, Isa, PAIR_STEP, PairArithmetic, PairKernel, select_pair_kernel};
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{LoopCharge, OperationCharges, SumGroup};
use zellige_math::{Binary, FloatFunction, WrappingInteger};
use zellige_op::{Pointwise, TensorType, Yields};
use zellige_stick::StickLayout;

/// A function over slices of equal length: the operands, then the result.
pub(crate) type Function<T> = Arc<dyn Fn(&[&[T]], &mut [T]) + Send + Sync>;

/// Numbers computed at a time: what operands and result take of the first-level cache.
const CHUNK: usize = 1024;
/// Elements taken at a time where nothing is unpacked.
const AT_ONCE: usize = 1 << 14;
/// Numbers computed at a time in the memory of their tensors.
const IN_MEMORY: usize = 1 << 12;
/// Numbers that need no allocation: a stick of each of four tensors.
const ON_STACK: usize = 256;

impl Kernel for Pointwise {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        lay_around(inputs, like(inputs, &outputs[0])?)
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(inputs, &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        Some(by_element(&outputs[0], self.transcendental))
    }

    fn suit(&self, inputs: &[TensorLayout], outputs: &[Sticks]) -> Option<Vec<LayoutNeed>> {
        Some(wants(inputs, &outputs[0]))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let cut = cut(self.name, inputs, &[], out, division, self.transcendental)?;
        let formats: Vec<Format> = inputs.iter().map(|i| i.format).collect();
        let float = |(i, t): (usize, &Sticks)| self.counts(i) && !t.truth && t.format.is_float();
        let ints = !inputs.iter().enumerate().any(float);
        let long = out.format == Format::I64 || formats.contains(&Format::I64);
        match (self.int, self.float) {
            (Some(f), _) if ints && long => {
                let run = Arc::new(move |x: &[&[i64]], out: &mut [i64]| f.apply_i64(x, out));
                Ok(Box::new(Work::new(run, finish(self, out), &formats, out.format, cut)))
            }
            (Some(f), _) if ints => {
                let run = Arc::new(move |x: &[&[i32]], out: &mut [i32]| f.apply_i32(x, out));
                Ok(Box::new(Work::new(run, finish(self, out), &formats, out.format, cut)))
            }
            (_, Some(f)) => {
                let run: Function<f32> = if self.infinities && inputs.iter().any(|t| t.float16) {
                    let halves: Vec<bool> = inputs.iter().map(|t| t.float16).collect();
                    Arc::new(move |x, out| apply_as_read(f, &halves, x, out))
                } else {
                    Arc::new(move |x, out| f.apply_to_slices(x, out))
                };
                let work = Work::new(run, None, &formats, out.format, cut);
                let work = if self.infinities { work.exact(&formats) } else { work };
                let costly = self.transcendental && formats.len() == 1;
                Ok(Box::new(if costly { work.by_table(f, out.numel()) } else { work.in_pairs(f) }))
            }
            _ => Err(refuse(self.name, None, "it is for integers and bool only")),
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
fn finish<T: WrappingInteger>(op: &Pointwise, out: &Sticks) -> Option<fn(&mut [T])> {
    match op.yields {
        Yields::Bool => None,
        _ if out.truth && op.flips => Some(lowest),
        _ if out.truth => Some(truths),
        _ if out.format == Format::U32 => Some(bytes),
        _ => None,
    }
}

/// Truth values are 0 and 1.
pub(crate) fn truths<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = <T as From<bool>>::from(*x != T::ZERO));
}

/// The lowest bit.
fn lowest<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & T::ONE);
}

/// A uint8 has 8 bits.
pub(crate) fn bytes<T: WrappingInteger>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & <T as From<u8>>::from(0xff));
}

/// A result in this layout, and operands that lie with it.
pub(crate) fn lay_around(inputs: &[TensorLayout], layout: StickLayout) -> Result<KernelLayouts> {
    let inputs = wants(inputs, &crate::tensor::result_layout::form(&layout)?);
    Ok(KernelLayouts { inputs, outputs: vec![layout] })
}

/// The layouts that operands need for a result of this layout.
pub(crate) fn wants(inputs: &[TensorLayout], out: &Sticks) -> Vec<LayoutNeed> {
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
pub(crate) fn spans(inputs: &[Sticks], out: &Sticks) -> Vec<Span> {
    let widest = inputs.iter().chain([out]).map(|t| t.eps).max().unwrap_or(1);
    let unit = |d: usize| if out.stick == Some(d) { widest } else { 1 };
    (0..out.rank()).map(|d| Span::output(out.size[d], unit(d))).collect()
}

/// One operation for every lane of the result.
pub(crate) fn by_element(out: &Sticks, transcendental: bool) -> OperationCharges {
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
pub(crate) struct Walks {
    /// The walk of every core, and what the core does.
    cores: Vec<(Walk, CoreWork)>,
    /// The walk over the whole result.
    whole: Walk,
}

/// A task whose elements do not depend on the division of the work: any walk over a part of the result computes that
/// part.
pub(crate) trait WalkTask: Send + Sync {
    /// The walks of the task.
    fn walks(&self) -> &Walks;

    /// Computes the part of the result that a walk covers.
    ///
    /// # Safety
    /// As [`Task::run`]; the walk is one of [`WalkTask::walks`].
    unsafe fn run_walk(&self, walk: &Walk, memory: &Pointers);
}

impl<W: WalkTask> Task for W {
    fn kind(&self) -> WorkKind {
        WorkKind::Pointwise
    }

    fn work(&self, core: usize) -> CoreWork {
        self.walks().cores[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        // SAFETY: by the contract of this function.
        unsafe { self.run_walk(&self.walks().cores[core].0, memory) }
    }

    // To begin a walk takes longer than the few rows that a core has of a small tensor, and rows of neighbouring cores
    // are often adjacent.
    unsafe fn run_all(&self, _: usize, memory: &Pointers) {
        // SAFETY: by the contract of this function.
        unsafe { self.run_walk(&self.walks().whole, memory) }
    }
}

/// The walk of every core and what it does: operands that are read once, then counters, which are
/// walked along and cost nothing.
pub(crate) fn cut(
    name: &'static str,
    inputs: &[Sticks],
    counters: &[Sticks],
    out: &Sticks,
    division: &Division,
    transcendental: bool,
) -> Result<Walks> {
    let refuse = |operand: usize, reason: String| refuse(name, Some(operand), reason);
    let mut wide = Vec::with_capacity(inputs.len() + counters.len());
    for (operand, i) in inputs.iter().enumerate() {
        wide.push(i.expand(&out.size).ok_or_else(|| {
            let reason = format!("size {:?} does not broadcast to {:?}", i.size, out.size);
            refuse(operand, reason)
        })?);
    }
    wide.extend_from_slice(counters);
    let space = spans(inputs, out);
    let charges = by_element(out, transcendental);
    let walk = |out: &Sticks, operands: &[Sticks]| {
        Walk::new(out, operands).map_err(|m| {
            refuse(m.operand, "its lanes run along another dimension than the result's".into())
        })
    };
    let whole = walk(out, &wide)?;
    let mut cores = Vec::with_capacity(division.cores());
    for core in 0..division.cores() {
        let ranges = division.slice(core, &space);
        let cut = |t: &Sticks| {
            let dims = ranges.iter().enumerate();
            dims.fold(t.clone(), |t, (d, range)| t.slice(d, range.clone()))
        };
        let (ins, to): (Vec<Sticks>, _) = (wide.iter().map(cut).collect(), cut(out));
        let walk = walk(&to, &ins)?;
        let shares: SmallVec<[Share; 4]> = wide[..inputs.len()]
            .iter()
            .map(|t| Share::of(division, core, |l| !moves_along(t, l)))
            .collect();
        let mut work = streamed_with(&ins[..inputs.len()], &shares, &[to]);
        charge(&mut work, &charges, &ranges, SumGroup::ALONE);
        cores.push((walk, work));
    }
    Ok(Walks { cores, whole })
}

/// A pointwise function on core slices.
pub(crate) struct Work<T> {
    f: Function<T>,
    finish: Option<fn(&mut [T])>,
    loads: Vec<Load<T>>,
    store: Store<T>,
    walks: Walks,
    /// What every code of the only operand gives.
    table: Option<CodeTable>,
    /// What does it to pairs of elements in registers.
    pair: Option<PairKernel>,
}

impl<T: Number> Work<T> {
    /// `finish` is applied to results before they are stored.
    pub(crate) fn new(
        f: Function<T>,
        finish: Option<fn(&mut [T])>,
        formats: &[Format],
        out: Format,
        walks: Walks,
    ) -> Work<T> {
        let loads = formats.iter().map(|f| Load::new(*f, out)).collect();
        Work { f, finish, loads, store: Store::new(out), walks, table: None, pair: None }
    }

    /// The same on elements as the host reads them, with infinities.
    pub(crate) fn exact(self, formats: &[Format]) -> Work<T> {
        Work { loads: formats.iter().map(|f| Load::exact(*f)).collect(), ..self }
    }
}

impl Work<f32> {
    /// The same by a table, where so many elements are worth one. `f` is the function of the only operand.
    fn by_table(self, f: FloatFunction, elements: usize) -> Work<f32> {
        let table = CodeTable::of(f, &self.loads[0], &self.store, elements);
        Work { table, ..self }
    }

    /// The same in registers, where there is a kernel for the formats. `f` is the function.
    fn in_pairs(self, f: FloatFunction) -> Work<f32> {
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
        Work { pair, ..self }
    }
}

impl<T: Number> Work<T> {
    /// Looks up the elements of a slice, if its lanes lie alike on both sides.
    ///
    /// # Safety
    /// That of [`Task::run`].
    unsafe fn look_up(&self, table: &CodeTable, walk: &Walk, memory: &Pointers) -> bool {
        let (from, to) = (memory.inputs[0].cast::<u16>(), memory.outputs[0].cast::<u16>());
        walk.whole_lanes(AT_ONCE, |at, count| {
            // SAFETY: by the contract of this function; the walk stays inside its tensors, whose formats have 16 bits
            // where there is a table.
            unsafe { table.run(from.add(at[1]), to.add(at[0]), count) };
        })
    }

    /// Takes pairs of elements of a slice, if its lanes lie alike everywhere.
    ///
    /// # Safety
    /// That of [`Task::run`].
    unsafe fn take_pairs(&self, run: PairKernel, walk: &Walk, memory: &Pointers) -> bool {
        let size = self.store.format().byte_size();
        let (a, b, to) = (memory.inputs[0], memory.inputs[1], memory.outputs[0]);
        walk.lanes.is_multiple_of(PAIR_STEP)
            && walk.whole_lanes(AT_ONCE, |at, count| {
                // SAFETY: as in `look_up`; a result in the block of an operand is in its very place.
                unsafe {
                    run(a.add(at[1] * size), b.add(at[2] * size), to.add(at[0] * size), count);
                }
            })
    }

    /// Computes in the memory of the tensors, if they hold the numbers themselves and their lanes lie alike.
    ///
    /// # Safety
    /// That of [`Task::run`].
    unsafe fn in_memory(&self, walk: &Walk, memory: &Pointers) -> bool {
        let to = memory.outputs[0].cast::<T>();
        let aligned = |at: *const u8| at.cast::<T>().is_aligned();
        let numbers = self.store.format() == T::FORMAT
            && self.loads.iter().all(|load| load.format() == T::FORMAT)
            && memory.inputs.iter().all(|from| aligned(*from) && *from != to.cast_const().cast())
            && aligned(to.cast());
        numbers
            && walk.whole_lanes(IN_MEMORY, |at, count| {
                // SAFETY: as in `look_up`; elements are numbers of this type, and the result has a block of its own.
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

impl<T: Number> WalkTask for Work<T> {
    fn walks(&self) -> &Walks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &Walk, memory: &Pointers) {
        if let Some(table) = &self.table
            // SAFETY: by the contract of `Task::run`.
            && unsafe { self.look_up(table, walk, memory) }
        {
            return;
        }
        if let Some(run) = self.pair
            // SAFETY: by the contract of `Task::run`.
            && unsafe { self.take_pairs(run, walk, memory) }
        {
            return;
        }
        // SAFETY: by the contract of `Task::run`.
        if unsafe { self.in_memory(walk, memory) } {
            return;
        }
        let rows = walk.rows(CHUNK);
        let wide = rows * walk.lanes;
        let mut scratch: SmallVec<[T; ON_STACK]> =
            SmallVec::from_elem(T::default(), wide * (self.loads.len() + 1));
        let (result, operands) = scratch.split_at_mut(wide);
        walk.run(rows, |rows| {
            let n = rows.count * rows.lanes;
            for (i, into) in operands.chunks_mut(wide).enumerate() {
                // SAFETY: by the contract of `Task::run`; the walk was made for these tensors.
                unsafe { rows.load(&self.loads[i], memory.inputs[i], i, walk.kind(i + 1), into) };
            }
            let views: SmallVec<[&[T]; 4]> = operands.chunks(wide).map(|o| &o[..n]).collect();
            let result = &mut result[..n];
            (self.f)(&views, result);
            if let Some(finish) = self.finish {
                finish(result);
            }
            // SAFETY: as above; slices of other cores are disjoint.
            unsafe { rows.store(&self.store, memory.outputs[0], walk.kind(0), result) };
        });
    }
}
