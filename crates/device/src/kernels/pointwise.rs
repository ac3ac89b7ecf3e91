//! Element by element: one function of the operands at every place.
//!
//! Operands broadcast as in PyTorch and meet in one dtype. Floats widen to float32, integers and truth
//! values compute in 32 bits, or in 64 where one of the tensors has them. A bool result holds 0 or 1 (so that bool addition is `or` and
//! multiplication `and`), a uint8 result its lowest 8 bits.

use super::io::{Load, Number, Store};
use super::share::{Share, moves_along};
use super::walk::Walk;
use super::{Follows, Kernel, Lay, Meta, Pointers, Task, Want, dims, streamed_with};
use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::laid::Laid;
use crate::lay::{Promotion, is_float, like, promote};
use crate::sticks::Sticks;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use zellige_float::Format;
use zellige_layout::{Dtype, StickLayout};
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{Charge, Charges};
use zellige_math::Whole;

/// A function over slices of equal length: the operands, then the result.
pub(crate) type Function<T> = Arc<dyn Fn(&[&[T]], &mut [T]) + Send + Sync>;

/// Which dtype a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yields {
    /// That of the operands together.
    Promoted,
    /// The same, but integers become float32.
    Float,
    /// True or false; the function gives 0 and 1.
    Bool,
    /// This one.
    Fixed(Dtype),
}

/// A pointwise operation.
#[derive(Clone)]
pub(crate) struct Pointwise {
    name: &'static str,
    arity: usize,
    float: Option<Function<f32>>,
    int: Option<Function<i32>>,
    long: Option<Function<i64>>,
    yields: Yields,
    transcendental: bool,
    condition: Option<usize>,
    /// Whether the bits of a truth value are its own, so that the lowest one is the result.
    flips: bool,
    /// Whether floats that do not promote may meet.
    mixes: bool,
    /// Whether it asks for infinities, also of a format where numbers stand for them.
    infinities: bool,
}

impl fmt::Debug for Pointwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} operands, giving {:?}", self.arity, self.yields)
    }
}

/// Numbers computed at a time: what operands and result take of the first-level cache.
const CHUNK: usize = 1024;
/// Numbers that need no allocation: a stick of each of four tensors.
const ON_STACK: usize = 256;

impl Pointwise {
    /// An operation that so far computes nothing.
    pub(crate) fn new(name: &'static str, arity: usize) -> Pointwise {
        Pointwise {
            name,
            arity,
            float: None,
            int: None,
            long: None,
            yields: Yields::Promoted,
            transcendental: false,
            condition: None,
            flips: false,
            mixes: false,
            infinities: false,
        }
    }

    /// Its function of float32.
    pub(crate) fn float(
        self,
        f: impl Fn(&[&[f32]], &mut [f32]) + Send + Sync + 'static,
    ) -> Pointwise {
        Pointwise { float: Some(Arc::new(f)), ..self }
    }

    /// Its function of integers, of 32 and of 64 bits.
    pub(crate) fn int(
        self,
        f: impl Fn(&[&[i32]], &mut [i32]) + Send + Sync + 'static,
        long: impl Fn(&[&[i64]], &mut [i64]) + Send + Sync + 'static,
    ) -> Pointwise {
        Pointwise { int: Some(Arc::new(f)), long: Some(Arc::new(long)), ..self }
    }

    /// What it gives.
    pub(crate) fn yields(self, yields: Yields) -> Pointwise {
        Pointwise { yields, ..self }
    }

    /// The SFU takes its slow path.
    pub(crate) fn transcendental(self) -> Pointwise {
        Pointwise { transcendental: true, ..self }
    }

    /// That operand is a condition, which says nothing about the dtype.
    pub(crate) fn condition(self, operand: usize) -> Pointwise {
        Pointwise { condition: Some(operand), ..self }
    }

    /// A truth value is one bit: of a bool result, the lowest bit is kept.
    pub(crate) fn flipping(self) -> Pointwise {
        Pointwise { flips: true, ..self }
    }

    /// Floats of any format meet, as the dtype of the result is given.
    pub(crate) fn mixing(self) -> Pointwise {
        Pointwise { mixes: true, ..self }
    }

    /// It tells infinities from numbers.
    pub(crate) fn infinities(self) -> Pointwise {
        Pointwise { infinities: true, ..self }
    }

    fn refuse(&self, operand: Option<usize>, reason: String) -> DeviceError {
        DeviceError::BadOperand { op: self.name.into(), operand, reason }
    }

    /// What makes integers those of the result.
    fn finish<T: Whole>(&self, out: &Sticks) -> Option<fn(&mut [T])> {
        match self.yields {
            Yields::Bool => None,
            _ if out.truth && self.flips => Some(lowest),
            _ if out.truth => Some(truths),
            _ if out.format == Format::U32 => Some(bytes),
            _ => None,
        }
    }

    /// Whether an operand has a say in the dtype.
    fn counts(&self, operand: usize) -> bool {
        self.condition != Some(operand)
    }
}

impl Kernel for Pointwise {
    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        if inputs.len() != self.arity {
            let reason = format!("it takes {} operands, not {}", self.arity, inputs.len());
            return Err(self.refuse(None, reason));
        }
        let size = crate::lay::broadcast(inputs).map_err(|r| self.refuse(None, r))?;
        if let Some(c) = self.condition
            && !matches!(inputs[c].dtype, Dtype::Bool | Dtype::Uint8)
        {
            let reason =
                format!("operand {c} is a condition: bool or uint8, not {}", inputs[c].dtype);
            return Err(self.refuse(Some(c), reason));
        }
        let counted = inputs.iter().enumerate().filter(|(i, _)| self.counts(*i));
        let counted: Vec<Meta> = counted.map(|(_, m)| m.clone()).collect();
        let computes = match inputs {
            [x, ..] if self.mixes && is_float(x.dtype) => x.dtype,
            _ => promote(&counted, Promotion::Usual).map_err(|r| self.refuse(None, r))?,
        };
        let float = is_float(computes);
        if float && self.float.is_none() {
            return Err(self.refuse(None, format!("it is for integers and bool, not {computes}")));
        }
        if !float && self.int.is_none() && self.yields == Yields::Promoted {
            let reason = format!("it is for floating-point numbers here, not {computes}");
            return Err(self.refuse(None, reason));
        }
        let dtype = match self.yields {
            Yields::Bool => Dtype::Bool,
            Yields::Fixed(dtype) => dtype,
            Yields::Promoted => computes,
            Yields::Float if float => computes,
            Yields::Float => Dtype::Float32,
        };
        Ok(vec![Meta { size, dtype }])
    }

    fn lay(&self, inputs: &[Laid], outputs: &[Meta]) -> Result<Lay> {
        lay_around(inputs, like(inputs, &outputs[0])?)
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(inputs, &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<Charges> {
        Some(by_element(&outputs[0], self.transcendental))
    }

    fn suit(&self, inputs: &[Laid], outputs: &[Sticks]) -> Option<Vec<Want>> {
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
        match (&self.int, &self.long, &self.float) {
            (_, Some(f), _) if ints && long => {
                let finish = self.finish(out);
                Ok(Box::new(Work::new(f.clone(), finish, &formats, out.format, cut)))
            }
            (Some(f), ..) if ints => {
                let finish = self.finish(out);
                Ok(Box::new(Work::new(f.clone(), finish, &formats, out.format, cut)))
            }
            (.., Some(f)) => {
                let work = Work::new(f.clone(), None, &formats, out.format, cut);
                // A result with infinities of its own has those of its operands.
                let exact = self.infinities || out.format == Format::F32;
                Ok(Box::new(if exact { work.exact(&formats) } else { work }))
            }
            _ => Err(self.refuse(None, "it is for integers and bool only".into())),
        }
    }
}

/// Truth values are 0 and 1.
pub(crate) fn truths<T: Whole>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = <T as From<bool>>::from(*x != T::ZERO));
}

/// The lowest bit.
fn lowest<T: Whole>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & T::ONE);
}

/// A uint8 has 8 bits.
pub(crate) fn bytes<T: Whole>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = *x & <T as From<u8>>::from(0xff));
}

/// A result in this layout, and operands that lie with it.
pub(crate) fn lay_around(inputs: &[Laid], layout: StickLayout) -> Result<Lay> {
    let inputs = wants(inputs, &crate::lay::form(&layout)?);
    Ok(Lay { inputs, outputs: vec![layout] })
}

/// How operands must lie for a result that lies so.
pub(crate) fn wants(inputs: &[Laid], out: &Sticks) -> Vec<Want> {
    let want = |t: &Laid| {
        let lead = out.rank() - t.size().len();
        match out.stick {
            Some(s) if s >= lead && t.size()[s - lead] != 1 => Want::Along(s - lead),
            // Nothing of it runs along the lanes: each element has a stick, or it is one.
            _ if t.numel() == 1 => Want::AsIs,
            _ => Want::Sparse,
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
pub(crate) fn by_element(out: &Sticks, transcendental: bool) -> Charges {
    let unit = |d: usize| if out.stick == Some(d) { out.eps } else { 1 };
    // A stick with a single element has all lanes too.
    let lanes = if out.stick.is_some() { 1 } else { out.eps as u64 };
    let charge = Charge {
        loops: (0..out.rank()).map(|d| (d, unit(d))).collect(),
        macs: 0,
        sfu: if transcendental { 0 } else { lanes },
        transcendental: if transcendental { lanes } else { 0 },
        finishing: false,
    };
    Charges::one(WorkKind::Pointwise, charge)
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
) -> Result<Vec<(Walk, CoreWork)>> {
    let refuse = |operand: usize, reason: String| DeviceError::BadOperand {
        op: name.into(),
        operand: Some(operand),
        reason,
    };
    let mut wide = Vec::with_capacity(inputs.len() + counters.len());
    for (operand, i) in inputs.iter().enumerate() {
        wide.push(i.expand(&out.size).ok_or_else(|| {
            let reason = format!("size {:?} does not broadcast to {:?}", i.size, out.size);
            refuse(operand, reason)
        })?);
    }
    wide.extend_from_slice(counters);
    let space = spans(inputs, out);
    let mut slices = Vec::with_capacity(division.cores());
    for core in 0..division.cores() {
        let ranges = division.slice(core, &space);
        let cut = |t: &Sticks| {
            let dims = ranges.iter().enumerate();
            dims.fold(t.clone(), |t, (d, range)| t.slice(d, range.clone()))
        };
        let (ins, to): (Vec<Sticks>, _) = (wide.iter().map(cut).collect(), cut(out));
        let walk = Walk::new(&to, &ins).map_err(|m| {
            refuse(m.operand, "its lanes run along another dimension than the result's".into())
        })?;
        let shares: SmallVec<[Share; 4]> = wide[..inputs.len()]
            .iter()
            .map(|t| Share::of(division, core, |l| !moves_along(t, l)))
            .collect();
        let mut work = streamed_with(&ins[..inputs.len()], &shares, &[to]);
        let lanes = work.writes.bytes() / out.format.size() as u64;
        if transcendental {
            work.sfu_transcendental = lanes;
        } else {
            work.sfu = lanes;
        }
        slices.push((walk, work));
    }
    Ok(slices)
}

/// A pointwise function on core slices.
pub(crate) struct Work<T> {
    f: Function<T>,
    finish: Option<fn(&mut [T])>,
    loads: Vec<Load<T>>,
    store: Store<T>,
    slices: Vec<(Walk, CoreWork)>,
}

impl<T: Number> Work<T> {
    /// `finish` is applied to results before they are stored.
    pub(crate) fn new(
        f: Function<T>,
        finish: Option<fn(&mut [T])>,
        formats: &[Format],
        out: Format,
        slices: Vec<(Walk, CoreWork)>,
    ) -> Work<T> {
        let loads = formats.iter().map(|f| Load::new(*f)).collect();
        Work { f, finish, loads, store: Store::new(out), slices }
    }

    /// The same on elements as the host reads them, with infinities.
    pub(crate) fn exact(self, formats: &[Format]) -> Work<T> {
        Work { loads: formats.iter().map(|f| Load::exact(*f)).collect(), ..self }
    }
}

impl<T: Number> Task for Work<T> {
    fn kind(&self) -> WorkKind {
        WorkKind::Pointwise
    }

    fn work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let walk = &self.slices[core].0;
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
