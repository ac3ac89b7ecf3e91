//! Writing by index: `scatter`, `index_add`, `index_copy`, `index_put`.

use super::{IndexTensors, advance_coordinate, resolve_iterations};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::kernels::io::{ElementLoader, ElementStorer, KernelNumber};
use crate::kernels::{
    FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers, charge_streams,
};
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::layout_like;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use zellige_float::Format;
use zellige_machine::account::{CoreWork, MemoryTraffic, WorkKind};
use zellige_math::WrappingInteger;
use zellige_op::{CombineRule, IndexSource, IndexWrite, TensorType};

impl OpKernel for IndexWrite {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let out = layout_like(&inputs[..1], &outputs[0])?;
        Ok(KernelLayouts { inputs: vec![LayoutNeed::AsIs; inputs.len()], outputs: vec![out] })
    }

    /// Dimensions that are looked up are not divided, because an index may lead to any part of them.
    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let out = &outputs[0];
        let looked_up = self.split_operands(inputs).ok().and_then(|(x, indices, _)| {
            resolve_iterations(&self.pattern, self.name, x, indices).ok().map(|s| s.from)
        });
        let unit = |d: usize| match looked_up.as_ref().map(|f| f[d]) {
            Some(IndexSource::Dim(_)) if out.stick == Some(d) => out.eps,
            Some(IndexSource::Dim(_)) => 1,
            _ => out.size[d].max(1),
        };
        (0..out.rank()).map(|d| LoopSpan::for_output(out.size[d], unit(d))).collect()
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let (x, indices, values) = self.split_operands(inputs).ok()?;
        let shape = resolve_iterations(&self.pattern, self.name, x, indices).ok()?;
        let out = &outputs[0];
        // An iteration dimension that the result shares is cut with it, if it is as long.
        let of = |t: &StickForm, d: usize, iteration: usize| {
            let shared = shape.from.iter().position(|f| *f == IndexSource::Dim(iteration));
            shared.filter(|at| t.size[d] == out.size[*at])
        };
        let own = |t: &StickForm| -> FollowedLoops { (0..t.rank()).map(Some).collect() };
        let index = |(k, t): (usize, &StickForm)| -> FollowedLoops {
            (0..t.rank()).map(|d| of(t, d, shape.dims[k][d])).collect()
        };
        let lead = shape.size.len().saturating_sub(values.rank());
        let mut all = vec![own(x)];
        all.extend(indices.iter().enumerate().map(index));
        all.push((0..values.rank()).map(|d| of(values, d, lead + d)).collect());
        all.push(own(out));
        Some(all)
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let (x, indices, values) = self.split_operands(inputs)?;
        let shape = resolve_iterations(&self.pattern, self.name, x, indices)?;
        let out = &outputs[0];
        if x.stick != out.stick || x.format != out.format || x.size != out.size {
            return Err(refuse_operand(
                self.name,
                Some(0),
                "the result does not lie as the tensor",
            ));
        }
        // The rest of the result is not written then, so that it has to be there already.
        if self.over && (x.stride != out.stride || x.offset != out.offset) {
            return Err(refuse_operand(self.name, Some(0), "the result is not the tensor itself"));
        }
        let mut narrow = values.clone();
        let lead = shape.size.len().saturating_sub(values.rank());
        for (d, n) in narrow.size.iter_mut().enumerate() {
            // `scatter` allows values that are larger than the index tensor; only as many as there are positions
            // are used.
            *n = (*n).min(usize::try_from(shape.size[lead + d]).unwrap_or(0));
        }
        let size: Vec<usize> =
            shape.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let wide = narrow.expand_to(&size).ok_or_else(|| {
            refuse_operand(self.name, Some(inputs.len() - 1), "values do not fit the positions")
        })?;
        let space = self.iteration_space(inputs, outputs);
        let ranges = (0..division.core_count()).map(|core| division.core_slice(core, &space));
        let scatter = ScatterSlices {
            name: self.name,
            combine: self.combine,
            over: self.over,
            indices: IndexTensors::new(&shape, x, indices),
            from: shape.from,
            size,
            x: x.clone(),
            out: out.clone(),
            values: wide,
            ranges: ranges.map(|r| r.iter().map(|r| (r.start, r.end)).collect()).collect(),
        };
        Ok(scatter.into_task())
    }
}

/// A write on core slices.
struct ScatterSlices {
    name: &'static str,
    combine: CombineRule,
    over: bool,
    indices: IndexTensors,
    from: Vec<IndexSource>,
    /// Extents of the iterations.
    size: Vec<usize>,
    x: StickForm,
    out: StickForm,
    values: StickForm,
    /// Per core, its part of every dimension of the result.
    ranges: Vec<SmallVec<[(usize, usize); 6]>>,
}

impl ScatterSlices {
    fn into_task(self) -> Box<dyn KernelTask> {
        if self.out.format.is_float() {
            Box::new(ScatterTask::<f32>::new(self))
        } else if self.out.format == Format::I64 {
            Box::new(ScatterTask::<i64>::new(self))
        } else {
            Box::new(ScatterTask::<i32>::new(self))
        }
    }

    fn core_slice(&self, t: &StickForm, core: usize) -> StickForm {
        let ranges = self.ranges[core].iter().enumerate();
        ranges.fold(t.clone(), |t, (d, (a, b))| t.slice_dim(d, *a..*b))
    }
}

struct ScatterTask<T> {
    scatter: ScatterSlices,
    load_x: ElementLoader<T>,
    load: ElementLoader<T>,
    store: ElementStorer<T>,
}

impl<T: KernelNumber> ScatterTask<T> {
    fn new(scatter: ScatterSlices) -> ScatterTask<T> {
        let (x, v) = (scatter.out.format, scatter.values.format);
        ScatterTask {
            load_x: ElementLoader::new(x, x),
            load: ElementLoader::new(v, x),
            store: ElementStorer::new(x),
            scatter,
        }
    }

    /// Copies the indexed tensor into the result, stick by stick.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`].
    unsafe fn copy_indexed(&self, core: usize, memory: &TensorPointers) {
        let (x, out) = (
            self.scatter.core_slice(&self.scatter.x, core),
            self.scatter.core_slice(&self.scatter.out, core),
        );
        let width = out.format.byte_size();
        let mut box_size = out.size.clone();
        if let Some(s) = out.stick {
            box_size[s] = out.stick_count();
        }
        let lanes = if out.stick.is_some() { out.eps } else { 1 };
        let mut c: SmallVec<[usize; 6]> = SmallVec::from_elem(0, out.rank());
        for _ in 0..box_size.iter().product::<usize>() {
            let mut at = c.clone();
            if let Some(s) = out.stick {
                at[s] *= out.eps;
            }
            // SAFETY: whole sticks of two tensors of the same form.
            unsafe {
                let from = memory.inputs[0].add(x.element_offset(&at) * width);
                let to = memory.outputs[0].add(out.element_offset(&at) * width);
                std::ptr::copy_nonoverlapping(from, to, lanes * width);
            }
            advance_coordinate(&mut c, &box_size);
        }
    }
}

impl<T: KernelNumber + CombineNumber> KernelTask for ScatterTask<T> {
    fn work_kind(&self) -> WorkKind {
        WorkKind::Copy
    }

    fn core_work(&self, core: usize) -> CoreWork {
        let s = &self.scatter;
        let (x, out) = (s.core_slice(&s.x, core), [s.core_slice(&s.out, core)]);
        let mut work = charge_streams(s.indices.index_forms(), if s.over { &[] } else { &out });
        if !s.over {
            work.reads.merge_traffic(&x.stick_traffic().0);
        }
        // How much a core writes follows from the indices, and an account may not depend on elements: every core is
        // charged an equal share.
        let share = (s.size.iter().product::<usize>() / self.scatter.ranges.len().max(1)) as u64;
        let (reads, writes) =
            (MemoryTraffic::from_bursts(128, share), MemoryTraffic::from_bursts(128, share));
        work.reads.merge_traffic(&reads);
        work.writes.merge_traffic(&writes);
        work.sfu = share;
        work
    }

    unsafe fn check_operands(&self, memory: &TensorPointers) -> Result<()> {
        // SAFETY: by the contract of `KernelTask::check_operands`.
        unsafe { self.scatter.indices.check_positions(self.scatter.name, memory) }
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let s = &self.scatter;
        if !s.over {
            // SAFETY: by the contract of this function; the result is a block of its own.
            unsafe { self.copy_indexed(core, memory) };
        }
        // Operands are the tensor, the indices, then the values.
        let last = memory.inputs.len() - 1;
        // Several iterations may write one place. What they combine to is kept in the wide numbers and rounded once
        // at the end, so that places are collected first. A tree and no hash map, so that stores go through memory
        // in order.
        let mut touched: BTreeMap<usize, T> = BTreeMap::new();
        let mut c: SmallVec<[usize; 6]> = SmallVec::from_elem(0, s.size.len());
        // Iterations of this core: the dimensions that it shares with the result are cut alike, and
        // those that are looked up are whole, so every position is this core's.
        let mut low: SmallVec<[usize; 6]> = SmallVec::from_elem(0, s.size.len());
        let mut count: SmallVec<[usize; 6]> = s.size.as_slice().into();
        for (f, (a, b)) in s.from.iter().zip(&s.ranges[core]) {
            if let IndexSource::Dim(d) = f {
                low[*d] = (*a).min(s.size[*d]);
                count[*d] = (*b).min(s.size[*d]) - low[*d];
            }
        }
        for _ in 0..count.iter().product::<usize>() {
            let at: SmallVec<[usize; 6]> = c.iter().zip(&low).map(|(c, l)| c + l).collect();
            let to = s.from.iter().map(|f| match f {
                IndexSource::Dim(d) => at[*d],
                // SAFETY: by the contract of this function; positions were checked.
                IndexSource::Index(k) => unsafe { s.indices.position_at(*k, &at, memory) },
            });
            let place = s.out.element_offset(&to.collect::<SmallVec<[usize; 6]>>());
            // SAFETY: both places are inside their tensors.
            unsafe {
                let value =
                    self.load.load_element(memory.inputs[last], s.values.element_offset(&at));
                let have = || self.load_x.load_element(memory.outputs[0], place);
                let old = touched.entry(place).or_insert_with(have);
                *old = T::combine_with(s.combine, *old, value);
            }
            advance_coordinate(&mut c, &count);
        }
        for (place, value) in touched {
            // SAFETY: the place is inside the slice of this core.
            unsafe { self.store.store_adjacent(memory.outputs[0], place, &[value]) };
        }
    }
}

/// Numbers of which several may be written to one place.
pub(crate) trait CombineNumber: Sized {
    /// The combination of the value that is there and a further one.
    fn combine_with(combine: CombineRule, old: Self, new: Self) -> Self;
}

impl CombineNumber for f32 {
    fn combine_with(combine: CombineRule, old: f32, new: f32) -> f32 {
        match combine {
            CombineRule::Replace => new,
            CombineRule::Add => old + new,
            CombineRule::Multiply => old * new,
            // A NaN stays, whichever comes first: with an old number and a new NaN the comparison is false, and the
            // NaN is taken.
            CombineRule::Max if old.is_nan() || old >= new => old,
            CombineRule::Min if old.is_nan() || old <= new => old,
            CombineRule::Max | CombineRule::Min => new,
        }
    }
}

/// The same of integers, which wrap.
fn combine_integers<T: WrappingInteger>(combine: CombineRule, old: T, new: T) -> T {
    match combine {
        CombineRule::Replace => new,
        CombineRule::Add => old.add_wrapping(new),
        CombineRule::Multiply => old.multiply_wrapping(new),
        CombineRule::Max => old.max(new),
        CombineRule::Min => old.min(new),
    }
}

impl CombineNumber for i32 {
    fn combine_with(combine: CombineRule, old: i32, new: i32) -> i32 {
        combine_integers(combine, old, new)
    }
}

impl CombineNumber for i64 {
    fn combine_with(combine: CombineRule, old: i64, new: i64) -> i64 {
        combine_integers(combine, old, new)
    }
}
