//! Writing by index: `scatter`, `index_add`, `index_copy`, `index_put`.

use super::{Indices, iterations, step};
use crate::error::Result;
use crate::error::refuse;
use crate::kernels::io::{Load, Number, Store};
use crate::kernels::{Follows, Kernel, KernelLayouts, LayoutNeed, Pointers, Task, streamed};
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::like;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use zellige_float::Format;
use zellige_machine::account::{CoreWork, MemoryTraffic, WorkKind};
use zellige_math::WrappingInteger;
use zellige_op::{Combine, IndexSource, IndexWrite, TensorType};

impl Kernel for IndexWrite {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let out = like(&inputs[..1], &outputs[0])?;
        Ok(KernelLayouts { inputs: vec![LayoutNeed::AsIs; inputs.len()], outputs: vec![out] })
    }

    /// Dimensions that are looked up stay whole: any core could be pointed at.
    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let out = &outputs[0];
        let looked_up = self.parts(inputs).ok().and_then(|(x, indices, _)| {
            iterations(&self.pattern, self.name, x, indices).ok().map(|s| s.from)
        });
        let unit = |d: usize| match looked_up.as_ref().map(|f| f[d]) {
            Some(IndexSource::Dim(_)) if out.stick == Some(d) => out.eps,
            Some(IndexSource::Dim(_)) => 1,
            _ => out.size[d].max(1),
        };
        (0..out.rank()).map(|d| Span::output(out.size[d], unit(d))).collect()
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let (x, indices, values) = self.parts(inputs).ok()?;
        let shape = iterations(&self.pattern, self.name, x, indices).ok()?;
        let out = &outputs[0];
        // An iteration dimension that the result shares is cut with it, if it is as long.
        let of = |t: &Sticks, d: usize, iteration: usize| {
            let shared = shape.from.iter().position(|f| *f == IndexSource::Dim(iteration));
            shared.filter(|at| t.size[d] == out.size[*at])
        };
        let own = |t: &Sticks| -> Follows { (0..t.rank()).map(Some).collect() };
        let index = |(k, t): (usize, &Sticks)| -> Follows {
            (0..t.rank()).map(|d| of(t, d, shape.dims[k][d])).collect()
        };
        let lead = shape.size.len().saturating_sub(values.rank());
        let mut all = vec![own(x)];
        all.extend(indices.iter().enumerate().map(index));
        all.push((0..values.rank()).map(|d| of(values, d, lead + d)).collect());
        all.push(own(out));
        Some(all)
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let (x, indices, values) = self.parts(inputs)?;
        let shape = iterations(&self.pattern, self.name, x, indices)?;
        let out = &outputs[0];
        if x.stick != out.stick || x.format != out.format || x.size != out.size {
            return Err(refuse(self.name, Some(0), "the result does not lie as the tensor"));
        }
        if self.over && (x.stride != out.stride || x.offset != out.offset) {
            return Err(refuse(self.name, Some(0), "the result is not the tensor itself"));
        }
        let mut narrow = values.clone();
        let lead = shape.size.len().saturating_sub(values.rank());
        for (d, n) in narrow.size.iter_mut().enumerate() {
            *n = (*n).min(usize::try_from(shape.size[lead + d]).unwrap_or(0));
        }
        let size: Vec<usize> =
            shape.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let wide = narrow.expand(&size).ok_or_else(|| {
            refuse(self.name, Some(inputs.len() - 1), "values do not fit the positions")
        })?;
        let space = self.space(inputs, outputs);
        let ranges = (0..division.cores()).map(|core| division.slice(core, &space));
        let scatter = Scatter {
            name: self.name,
            combine: self.combine,
            over: self.over,
            indices: Indices::new(&shape, x, indices),
            from: shape.from,
            size,
            x: x.clone(),
            out: out.clone(),
            values: wide,
            ranges: ranges.map(|r| r.iter().map(|r| (r.start, r.end)).collect()).collect(),
        };
        Ok(scatter.boxed())
    }
}

/// A write on core slices.
struct Scatter {
    name: &'static str,
    combine: Combine,
    over: bool,
    indices: Indices,
    from: Vec<IndexSource>,
    /// Extents of the iterations.
    size: Vec<usize>,
    x: Sticks,
    out: Sticks,
    values: Sticks,
    /// Per core, its part of every dimension of the result.
    ranges: Vec<SmallVec<[(usize, usize); 6]>>,
}

impl Scatter {
    fn boxed(self) -> Box<dyn Task> {
        if self.out.format.is_float() {
            Box::new(Typed::<f32>::new(self))
        } else if self.out.format == Format::I64 {
            Box::new(Typed::<i64>::new(self))
        } else {
            Box::new(Typed::<i32>::new(self))
        }
    }

    fn slice(&self, t: &Sticks, core: usize) -> Sticks {
        let ranges = self.ranges[core].iter().enumerate();
        ranges.fold(t.clone(), |t, (d, (a, b))| t.slice(d, *a..*b))
    }
}

struct Typed<T> {
    scatter: Scatter,
    load_x: Load<T>,
    load: Load<T>,
    store: Store<T>,
}

impl<T: Number> Typed<T> {
    fn new(scatter: Scatter) -> Typed<T> {
        let (x, v) = (scatter.out.format, scatter.values.format);
        Typed { load_x: Load::new(x, x), load: Load::new(v, x), store: Store::new(x), scatter }
    }

    /// Copies the indexed tensor into the result, stick by stick.
    ///
    /// # Safety
    /// As [`Task::run`].
    unsafe fn copy(&self, core: usize, memory: &Pointers) {
        let (x, out) = (
            self.scatter.slice(&self.scatter.x, core),
            self.scatter.slice(&self.scatter.out, core),
        );
        let width = out.format.byte_size();
        let mut box_size = out.size.clone();
        if let Some(s) = out.stick {
            box_size[s] = out.count();
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
                let from = memory.inputs[0].add(x.place(&at) * width);
                let to = memory.outputs[0].add(out.place(&at) * width);
                std::ptr::copy_nonoverlapping(from, to, lanes * width);
            }
            step(&mut c, &box_size);
        }
    }
}

impl<T: Number + Meets> Task for Typed<T> {
    fn kind(&self) -> WorkKind {
        WorkKind::Copy
    }

    fn work(&self, core: usize) -> CoreWork {
        let s = &self.scatter;
        let (x, out) = (s.slice(&s.x, core), [s.slice(&s.out, core)]);
        let mut work = streamed(s.indices.tensors(), if s.over { &[] } else { &out });
        if !s.over {
            work.reads.merge_traffic(&x.traffic().0);
        }
        let share = (s.size.iter().product::<usize>() / self.scatter.ranges.len().max(1)) as u64;
        let (reads, writes) =
            (MemoryTraffic::from_bursts(128, share), MemoryTraffic::from_bursts(128, share));
        work.reads.merge_traffic(&reads);
        work.writes.merge_traffic(&writes);
        work.sfu = share;
        work
    }

    unsafe fn check(&self, memory: &Pointers) -> Result<()> {
        // SAFETY: by the contract of `Task::check`.
        unsafe { self.scatter.indices.check(self.scatter.name, memory) }
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let s = &self.scatter;
        if !s.over {
            // SAFETY: by the contract of this function; the result is a block of its own.
            unsafe { self.copy(core, memory) };
        }
        let last = memory.inputs.len() - 1;
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
                IndexSource::Index(k) => unsafe { s.indices.at(*k, &at, memory) },
            });
            let place = s.out.place(&to.collect::<SmallVec<[usize; 6]>>());
            // SAFETY: both places are inside their tensors.
            unsafe {
                let value = self.load.one(memory.inputs[last], s.values.place(&at));
                let have = || self.load_x.one(memory.outputs[0], place);
                let old = touched.entry(place).or_insert_with(have);
                *old = T::meet(s.combine, *old, value);
            }
            step(&mut c, &count);
        }
        for (place, value) in touched {
            // SAFETY: the place is inside the slice of this core.
            unsafe { self.store.run(memory.outputs[0], place, &[value]) };
        }
    }
}

/// Numbers that meet at one place.
pub(crate) trait Meets: Sized {
    /// The value there now and the one that comes.
    fn meet(combine: Combine, old: Self, new: Self) -> Self;
}

impl Meets for f32 {
    fn meet(combine: Combine, old: f32, new: f32) -> f32 {
        match combine {
            Combine::Replace => new,
            Combine::Add => old + new,
            Combine::Multiply => old * new,
            Combine::Max if old.is_nan() || old >= new => old,
            Combine::Min if old.is_nan() || old <= new => old,
            Combine::Max | Combine::Min => new,
        }
    }
}

/// The same of integers, which wrap.
fn met<T: WrappingInteger>(combine: Combine, old: T, new: T) -> T {
    match combine {
        Combine::Replace => new,
        Combine::Add => old.add_wrapping(new),
        Combine::Multiply => old.multiply_wrapping(new),
        Combine::Max => old.max(new),
        Combine::Min => old.min(new),
    }
}

impl Meets for i32 {
    fn meet(combine: Combine, old: i32, new: i32) -> i32 {
        met(combine, old, new)
    }
}

impl Meets for i64 {
    fn meet(combine: Combine, old: i64, new: i64) -> i64 {
        met(combine, old, new)
    }
}
