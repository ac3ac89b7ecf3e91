//! Element by element: one function of the operands at every place.

use super::io::{Load, Number, Store};
use super::walk::Walk;
use super::{Kernel, Lay, Meta, Pointers, Task, Want, streamed};
use crate::account::{CoreWork, Kind};
use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::lay::{Promotion, like, promote};
use crate::sticks::Sticks;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use zellige_float::Format;
use zellige_layout::Dtype;

/// A function over slices of equal length: the operands, then the result.
pub(crate) type Slices<T> = fn(&[&[T]], &mut [T]);

/// Which dtype a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yields {
    /// That of the operands together.
    Promoted,
    /// The same, but integers become float32.
    Float,
    /// True or false.
    Bool,
}

/// A pointwise operation.
#[derive(Debug, Clone)]
pub(crate) struct Pointwise {
    pub(crate) name: &'static str,
    pub(crate) arity: usize,
    /// In float32.
    pub(crate) float: Option<Slices<f32>>,
    /// In 32-bit integers.
    pub(crate) int: Option<Slices<i32>>,
    pub(crate) yields: Yields,
    /// Whether the SFU takes its slow path.
    pub(crate) transcendental: bool,
    /// Numbers that the function takes after its operands, the same for all elements.
    pub(crate) extra: SmallVec<[f32; 2]>,
    /// Operands that say nothing about the dtype (the condition of `where`).
    pub(crate) silent: usize,
}

/// Numbers computed at a time: what operands and result take of the first-level cache.
const CHUNK: usize = 1024;

impl Pointwise {
    fn refuse(&self, operand: Option<usize>, reason: String) -> DeviceError {
        DeviceError::BadOperand { op: self.name.into(), operand, reason }
    }

    /// The dtype in which it computes.
    fn computes(&self, inputs: &[Meta]) -> Result<Dtype> {
        let counted = &inputs[self.silent.min(inputs.len())..];
        promote(counted, Promotion::Usual).map_err(|r| self.refuse(None, r))
    }
}

impl Kernel for Pointwise {
    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        if inputs.len() != self.arity {
            let reason = format!("it takes {} operands, not {}", self.arity, inputs.len());
            return Err(self.refuse(None, reason));
        }
        let size = crate::lay::broadcast(inputs).map_err(|r| self.refuse(None, r))?;
        let computes = self.computes(inputs)?;
        let float = computes.device_format().is_ok() && crate::lay::is_float(computes);
        if float && self.float.is_none() {
            return Err(self.refuse(None, format!("it is for integers and bool, not {computes}")));
        }
        let dtype = match self.yields {
            Yields::Bool => Dtype::Bool,
            Yields::Promoted => computes,
            Yields::Float if float => computes,
            Yields::Float => Dtype::Float32,
        };
        Ok(vec![Meta { size, dtype }])
    }

    fn lay(&self, inputs: &[Tensor], outputs: &[Meta]) -> Result<Lay> {
        let layout = like(inputs, &outputs[0])?;
        let out = crate::lay::form(&layout)?;
        let rank = out.rank();
        let inputs = inputs.iter().map(|t| {
            let lead = rank - t.size().len();
            match out.stick {
                Some(s) if s >= lead && t.size()[s - lead] != 1 => Want::Along(s - lead),
                // Nothing of it runs along the lanes: each element has a stick, or it is one.
                _ if t.numel() == 1 => Want::AsIs,
                _ => Want::Sparse,
            }
        });
        Ok(Lay { inputs: inputs.collect(), outputs: vec![layout] })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(inputs, &outputs[0])
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let mut wide = Vec::with_capacity(inputs.len());
        for (operand, i) in inputs.iter().enumerate() {
            let expanded = i.expand(&out.size).ok_or_else(|| {
                let reason = format!("size {:?} does not broadcast to {:?}", i.size, out.size);
                self.refuse(Some(operand), reason)
            })?;
            wide.push(expanded);
        }
        let space = spans(inputs, out);
        let mut slices = Vec::with_capacity(division.cores());
        for core in 0..division.cores() {
            let ranges = division.slice(core, &space);
            let cut = |t: &Sticks| {
                let dims = ranges.iter().enumerate();
                dims.fold(t.clone(), |t, (d, range)| t.slice(d, range.clone()))
            };
            let ins: Vec<Sticks> = wide.iter().map(cut).collect();
            let walk = Walk::new(&cut(out), &ins).map_err(|m| {
                let reason = "its lanes run along another dimension than the result's".into();
                self.refuse(Some(m.operand), reason)
            })?;
            let mut work = streamed(&ins, &[cut(out)]);
            let lanes = work.writes.bytes() / out.format.size() as u64;
            if self.transcendental {
                work.sfu_transcendental = lanes;
            } else {
                work.sfu = lanes;
            }
            slices.push((walk, work));
        }
        let formats: Vec<Format> = inputs.iter().map(|i| i.format).collect();
        let ints = formats[self.silent.min(formats.len())..].iter().all(|f| !f.is_float());
        match (self.int, self.float) {
            (Some(f), _) if ints => Ok(Box::new(Work::new(f, &[], &formats, out.format, slices))),
            (_, Some(f)) => Ok(Box::new(Work::new(f, &self.extra, &formats, out.format, slices))),
            _ => Err(self.refuse(None, "it is for integers and bool only".into())),
        }
    }
}

/// The dimensions of the output; its sticks stay whole in every operand.
pub(crate) fn spans(inputs: &[Sticks], out: &Sticks) -> Vec<Span> {
    let widest = inputs.iter().chain([out]).map(|t| t.eps).max().unwrap_or(1);
    let unit = |d: usize| if out.stick == Some(d) { widest } else { 1 };
    (0..out.rank()).map(|d| Span::output(out.size[d], unit(d))).collect()
}

/// A pointwise function on core slices.
struct Work<T> {
    f: Slices<T>,
    extra: SmallVec<[T; 2]>,
    loads: Vec<Load<T>>,
    store: Store<T>,
    slices: Vec<(Walk, CoreWork)>,
}

impl<T: Number> Work<T> {
    fn new(
        f: Slices<T>,
        extra: &[T],
        formats: &[Format],
        out: Format,
        slices: Vec<(Walk, CoreWork)>,
    ) -> Work<T> {
        let loads = formats.iter().map(|f| Load::new(*f)).collect();
        Work { f, extra: extra.iter().copied().collect(), loads, store: Store::new(out), slices }
    }
}

impl<T: Number> Task for Work<T> {
    fn kind(&self) -> Kind {
        Kind::Pointwise
    }

    fn work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let walk = &self.slices[core].0;
        let rows = (CHUNK / walk.lanes).max(1);
        let wide = rows * walk.lanes;
        let count = self.loads.len();
        let mut scratch = vec![T::default(); wide * (count + 1 + self.extra.len())];
        let (result, operands) = scratch.split_at_mut(wide);
        for (value, extra) in self.extra.iter().zip(operands[count * wide..].chunks_mut(wide)) {
            extra.fill(*value);
        }
        walk.run(rows, |rows| {
            let n = rows.count * rows.lanes;
            for (i, into) in operands.chunks_mut(wide).take(count).enumerate() {
                // SAFETY: by the contract of `Task::run`; the walk was made for these tensors.
                unsafe { rows.load(&self.loads[i], memory.inputs[i], i, walk.kind(i + 1), into) };
            }
            let views: SmallVec<[&[T]; 4]> = operands.chunks(wide).map(|o| &o[..n]).collect();
            (self.f)(&views, &mut result[..n]);
            // SAFETY: as above; slices of other cores are disjoint.
            unsafe { rows.store(&self.store, memory.outputs[0], walk.kind(0), &result[..n]) };
        });
    }
}
