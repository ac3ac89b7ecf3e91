//! A step as the device sees it: labelled loops, and tensors that follow some of them.

use super::op_func::{Family, OpFunc, op_func};
use crate::program::{BufferId, Program, Step};
use zellige_device::PlanOp;
use zellige_device::{Division, Span, Sticks, TensorLayout, core_order};
use zellige_stick::DataFormat;

/// Labels of loops, but the last one, which is `out`.
const LABELS: [&str; 7] = ["mb", "x", "y", "i", "j", "ki", "kj"];
/// Labels of the loops of a product, of which it has the last ones.
const PRODUCT: [&str; 7] = ["ki", "kj", "y", "x", "mb", "out", "in"];

/// A loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SdscDim {
    pub(super) label: &'static str,
    /// Valid iterations.
    pub(super) size: usize,
    /// All of them, in whole sticks.
    pub(super) padded: usize,
    /// Slices.
    pub(super) split: usize,
    /// Whether it is summed over.
    pub(super) reduced: bool,
}

impl SdscDim {
    /// Iterations of a core.
    pub(super) fn slice(&self) -> usize {
        self.padded / self.split
    }
}

/// How a tensor goes along a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SdscScale {
    /// An element for every iteration.
    Follows,
    /// One element for all.
    Still,
    /// One element for all, in the first lane of a stick.
    StillStick,
}

impl SdscScale {
    pub(super) fn number(self) -> i64 {
        match self {
            SdscScale::Follows => 1,
            SdscScale::Still => -1,
            SdscScale::StillStick => -2,
        }
    }
}

/// A loop as a tensor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Along {
    /// The number of the loop.
    pub(super) dim: usize,
    pub(super) scale: SdscScale,
    /// Elements of the block from one iteration to the next, for the stick from one stick to the next.
    stride: usize,
    /// How much longer the device's dimension is than the loop.
    pub(super) gap: i64,
}

/// A tensor of a kernel.
#[derive(Debug, Clone)]
pub(super) struct SdscArg {
    pub(super) buffer: BufferId,
    pub(super) format: DataFormat,
    pub(super) eps: usize,
    /// The loops, from the one right above the stick outward.
    pub(super) order: Vec<Along>,
    /// The loop along the lanes.
    pub(super) stick: usize,
    offset: usize,
}

impl SdscArg {
    /// The byte of its block where a core's slice begins.
    pub(super) fn start(&self, dims: &[SdscDim], slice: &[usize]) -> u64 {
        let mut at = self.offset;
        for along in self.order.iter().filter(|a| a.scale == SdscScale::Follows) {
            let first = slice[along.dim] * dims[along.dim].slice();
            let steps = if along.dim == self.stick { first / self.eps } else { first };
            at += steps * along.stride;
        }
        at as u64 * 128 / self.eps as u64
    }

    /// Whether it begins behind the first element of its block.
    pub(super) fn is_inside(&self) -> bool {
        self.offset > 0
    }

    /// How it goes along a loop.
    pub(super) fn along(&self, dim: usize) -> Option<&Along> {
        self.order.iter().find(|a| a.dim == dim)
    }
}

/// A kernel.
#[derive(Debug, Clone)]
pub(super) struct SdscKernel {
    pub(super) func: OpFunc,
    /// The name of its function, with what the layouts add to it.
    pub(super) name: String,
    pub(super) dims: Vec<SdscDim>,
    /// Operands in order, the result last.
    pub(super) args: Vec<SdscArg>,
    pub(super) first_core: usize,
    /// The loops whose padding is masked.
    pub(super) masked: Vec<usize>,
}

impl SdscKernel {
    /// The kernel of a step; why where there is none.
    pub(super) fn new(program: &Program, step: &Step) -> Result<SdscKernel, String> {
        let func = op_func(program, step)?;
        let [result] = step.writes.as_slice() else {
            return Err(format!("it has {} results, and a kernel has one", step.writes.len()));
        };
        let reads = func.operands.iter().map(|i| (step.reads[*i].buffer, &step.reads[*i].laid));
        let tensors: Vec<(BufferId, &TensorLayout)> =
            reads.chain([(*result, &program.buffer(*result).laid)]).collect();
        let forms: Vec<Sticks> = tensors
            .iter()
            .map(|(_, t)| t.sticks())
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        if forms.iter().any(|f| f.numel() == 0) {
            return Err("it has no elements".into());
        }
        let loops = SdscLoops::of(program, step, &func, &forms)?;
        let kept = loops.kept(func.family);
        let mut dims = loops.dims(&kept, func.family, program.options.cores)?;
        let mut args = Vec::with_capacity(tensors.len());
        let lead =
            if matches!(func.family, Family::Reduction { .. }) { 0 } else { forms.len() - 1 };
        let along = |t: usize| {
            let loop_of = forms[t].stick.and_then(|d| loops.follows[t][d]);
            loop_of.and_then(|l| kept.iter().position(|k| *k == l))
        };
        let stick = along(lead).or_else(|| (0..forms.len()).find_map(along));
        let extra = (func.family != Family::Product && stick.is_none()).then_some(dims.len());
        if extra.is_some() {
            let eps = forms[lead].eps;
            let label = LABELS.get(dims.len()).ok_or("it has more than 7 dimensions")?;
            dims.push(SdscDim { label, size: eps, padded: eps, split: 1, reduced: false });
        }
        for (t, ((buffer, laid), form)) in tensors.iter().zip(&forms).enumerate() {
            let place = Placing { dims: &dims, family: func.family, operand: t, stick, extra };
            let arg = place.arg(*buffer, laid, form, &loops.follows[t], &kept)?;
            args.push(arg);
        }
        let virtual_row = func.family == Family::Convert && dims.len() == 1;
        if virtual_row {
            prepend_row(&mut dims, &mut args);
        }
        let out = &args[args.len() - 1];
        let still_stick = out.order.iter().any(|a| a.scale == SdscScale::StillStick);
        let reduces = matches!(func.family, Family::Reduction { .. });
        let name = match (reduces, still_stick) {
            (true, false) => format!("{}nonstick", func.name),
            _ => func.name.to_string(),
        };
        let padded =
            |a: &&Along| a.scale == SdscScale::StillStick && dims[a.dim].padded > dims[a.dim].size;
        let masked = if reduces {
            out.order.iter().filter(padded).map(|a| a.dim).collect()
        } else {
            Vec::new()
        };
        Ok(SdscKernel { func, name, dims, args, first_core: step.first_core, masked })
    }

    /// How many cores it runs on.
    pub(super) fn cores(&self) -> usize {
        self.dims.iter().map(|d| d.split).product()
    }

    /// The slice of a core in every loop: mixed radix, in the order in which cores are counted.
    pub(super) fn slice(&self, core: usize) -> Vec<usize> {
        let mut rest = core;
        let mut digits = vec![0; self.dims.len()];
        for d in core_order(self.dims.iter().map(|d| d.reduced)) {
            digits[d] = rest % self.dims[d].split;
            rest /= self.dims[d].split;
        }
        digits
    }
}

/// A tensor that only has a stick gets a row around it.
fn prepend_row(dims: &mut Vec<SdscDim>, args: &mut [SdscArg]) {
    dims.insert(0, SdscDim { label: LABELS[0], size: 1, padded: 1, split: 1, reduced: false });
    for arg in args {
        arg.order.iter_mut().for_each(|a| a.dim += 1);
        arg.stick += 1;
        arg.order.insert(0, Along { dim: 0, scale: SdscScale::Follows, stride: 0, gap: 0 });
    }
}

/// The loops of a step before they have labels.
struct SdscLoops {
    spans: Vec<Span>,
    splits: Vec<usize>,
    follows: Vec<Vec<Option<usize>>>,
}

impl SdscLoops {
    fn of(
        program: &Program,
        step: &Step,
        func: &OpFunc,
        forms: &[Sticks],
    ) -> Result<SdscLoops, String> {
        let Some(op) = step.op() else {
            return Ok(SdscLoops::of_move(program, step, forms));
        };
        let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
        let outs: Vec<TensorLayout> =
            step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
        let found = op.loops(&ins, &outs).map_err(|e| e.to_string())?;
        let found = found.ok_or("its slices are no boxes of its tensors")?;
        let last = found.tensors() - 1;
        let tensors = func.operands.iter().copied().chain([last]);
        Ok(SdscLoops {
            spans: found.spans().to_vec(),
            splits: step.division.splits().to_vec(),
            follows: tensors.map(|t| found.follows(t).to_vec()).collect(),
        })
    }

    /// A move has a loop for every dimension of its tensors, in whole sticks of both. One that is padded
    /// is not divided. Cores that share bursts are given slices here.
    fn of_move(program: &Program, step: &Step, forms: &[Sticks]) -> SdscLoops {
        let rank = forms[0].rank();
        let unit = |d: usize| {
            let lanes = forms.iter().filter(|f| f.stick == Some(d)).map(|f| f.eps);
            lanes.max().unwrap_or(1)
        };
        let spans: Vec<Span> = (0..rank).map(|d| Span::output(forms[0].size[d], unit(d))).collect();
        let padded = |s: &Span| !s.size.is_multiple_of(s.unit);
        let given = step.division.splits();
        let splits = if given.len() == rank && step.division.cores() > 1 {
            let whole = spans.iter().zip(given).map(|(s, n)| if padded(s) { 1 } else { *n });
            whole.collect()
        } else {
            // A padded loop counts as one unit, which nothing divides.
            let units =
                spans.iter().map(|s| Span { unit: if padded(s) { s.size } else { s.unit }, ..*s });
            let units: Vec<Span> = units.collect();
            Division::distribute(&units, program.options.cores, false).splits().to_vec()
        };
        let follows = forms.iter().map(|_| (0..rank).map(Some).collect()).collect();
        SdscLoops { spans, splits, follows }
    }

    /// The loops that are more than one iteration; a product keeps its columns and its sum.
    fn kept(&self, family: Family) -> Vec<usize> {
        let count = self.spans.len();
        let least = if family == Family::Product { 2 } else { 1 };
        let first = |l: &usize| self.spans[*l].size > 1;
        let keep = |l: &usize| first(l) || (family == Family::Product && l + 2 >= count);
        let kept: Vec<usize> = (0..count).filter(keep).collect();
        if kept.len() >= least { kept } else { (count.saturating_sub(least)..count).collect() }
    }

    fn dims(&self, kept: &[usize], family: Family, cores: usize) -> Result<Vec<SdscDim>, String> {
        let rank = kept.len();
        if rank > 7 {
            return Err(format!("it has {rank} dimensions, and a kernel has 7 at most"));
        }
        let label = |i: usize| match family {
            Family::Product => PRODUCT[7 - rank + i],
            _ if i + 1 == rank => "out",
            _ => LABELS[i],
        };
        let mut dims = Vec::with_capacity(rank);
        for (i, l) in kept.iter().enumerate() {
            let (span, split) = (self.spans[*l], self.splits.get(*l).copied().unwrap_or(1));
            if !span.units().is_multiple_of(split) {
                return Err(format!(
                    "slices of `{}` are not equal: {} units over {split} of {cores} cores",
                    label(i),
                    span.units()
                ));
            }
            let padded = span.units() * span.unit.max(1);
            let reduced = span.reduced;
            dims.push(SdscDim { label: label(i), size: span.size, padded, split, reduced });
        }
        Ok(dims)
    }
}

/// Where one tensor is put among the loops.
struct Placing<'a> {
    dims: &'a [SdscDim],
    family: Family,
    operand: usize,
    /// The loop along the lanes of the operation.
    stick: Option<usize>,
    /// The loop that stands for lanes that no tensor uses.
    extra: Option<usize>,
}

impl Placing<'_> {
    fn arg(
        &self,
        buffer: BufferId,
        laid: &TensorLayout,
        form: &Sticks,
        follows: &[Option<usize>],
        kept: &[usize],
    ) -> Result<SdscArg, String> {
        let refuse =
            |d: usize, why: &str| Err(format!("dimension {d} of operand {}: {why}", self.operand));
        let mut own: Option<usize> = None;
        let mut steps: Vec<(usize, usize)> = Vec::new();
        for (d, follows) in follows.iter().enumerate() {
            let dim = follows.and_then(|l| kept.iter().position(|k| *k == l));
            let Some(dim) = dim else {
                if form.size[d] > 1 {
                    return refuse(d, "it follows no loop");
                }
                continue;
            };
            if form.size[d] != self.dims[dim].size {
                continue;
            }
            if form.stick == Some(d) {
                own = Some(dim);
            }
            if form.stick == Some(d) || form.stride[d] > 0 {
                steps.push((dim, form.stride[d]));
            }
        }
        if self.family == Family::Product {
            let wanted = if self.operand == 0 { "in" } else { "out" };
            if own.is_none_or(|d| self.dims[d].label != wanted) {
                let k = self.operand;
                return Err(format!("the lanes of operand {k} do not run along `{wanted}`"));
            }
        }
        let stick = own.or(self.stick).or(self.extra).ok_or("no tensor has lanes")?;
        if own.is_none() && steps.iter().any(|(dim, _)| *dim == stick) {
            return refuse(0, "others have lanes where it has one element in each stick");
        }
        let mut order = self.walk(laid, form, own, &steps)?;
        let missing = (0..self.dims.len()).filter(|d| order.iter().all(|a| a.dim != *d));
        for dim in missing.collect::<Vec<_>>() {
            let scale = match (own, dim) {
                _ if Some(dim) == self.extra => SdscScale::Follows,
                (None, d) if d == stick => SdscScale::StillStick,
                _ => SdscScale::Still,
            };
            // The right matrix and the result of a product have their own loops alone; the left one is
            // repeated along batches.
            let rank = self.dims.len();
            let batch = self.operand == 0 && dim + 3 < rank;
            if self.family != Family::Product || batch {
                order.push(Along { dim, scale, stride: 0, gap: 0 });
            }
        }
        let format = laid.layout().device_dtype();
        Ok(SdscArg { buffer, format, eps: form.eps, order, stick, offset: form.offset })
    }

    /// The loops that a tensor steps along, innermost first, with the gaps between them.
    fn walk(
        &self,
        laid: &TensorLayout,
        form: &Sticks,
        own: Option<usize>,
        steps: &[(usize, usize)],
    ) -> Result<Vec<Along>, String> {
        let layout = laid.layout();
        let size = |j: usize| usize::try_from(layout.device_size()[j]).unwrap_or(0);
        let outer: Vec<usize> = (0..layout.device_rank() - 1).collect();
        let strides = layout.device_strides().map_err(|e| e.to_string())?;
        let stride = |j: usize| usize::try_from(strides[j]).unwrap_or(0);
        let least = steps.iter().map(|s| s.1).filter(|n| *n > 0).min();
        // Sticks that follow each other with others between them belong to one long stick dimension.
        let apart = least.filter(|n| *n != form.eps);
        // A single stick stands where the device has a dimension of one, innermost first.
        let single = match apart {
            Some(_) => Some(0),
            None => outer.iter().rev().find(|j| size(**j) == 1).map(|j| stride(*j)),
        };
        let mut sorted: Vec<(usize, u8, usize)> = steps
            .iter()
            .map(|(dim, n)| match n {
                0 => (single.unwrap_or(usize::MAX), 0, *dim),
                n => (*n, 1, *dim),
            })
            .collect();
        sorted.sort_unstable();
        let moving: Vec<(usize, usize)> =
            sorted.iter().filter(|s| s.1 == 1).map(|s| (s.0, s.2)).collect();
        if apart.is_some() && sorted[0].1 == 1 {
            return Err(format!(
                "operand {}: no loop steps from a stick to the next one",
                self.operand
            ));
        }
        let mut order = Vec::with_capacity(sorted.len());
        for (place, moves, dim) in sorted {
            let (lanes, it) = if own == Some(dim) {
                (form.eps, self.dims[dim].padded)
            } else {
                (1, self.iterations(dim))
            };
            let at = moving.iter().position(|m| m.1 == dim);
            let device = match at {
                None => apart.unwrap_or(lanes),
                Some(i) => match moving.get(i + 1) {
                    Some((next, _)) if next % place == 0 => next / place * lanes,
                    Some(_) => {
                        return Err(format!(
                            "operand {}: loop `{}` overlaps the next one",
                            self.operand, self.dims[dim].label
                        ));
                    }
                    None => {
                        let same = outer.iter().filter(|j| stride(**j) == place);
                        same.map(|j| size(*j)).max().unwrap_or(it / lanes) * lanes
                    }
                },
            };
            let gap =
                i64::try_from(device).unwrap_or(i64::MAX) - i64::try_from(it).unwrap_or(i64::MAX);
            if gap < 0 && (own == Some(dim) || self.family != Family::Restickify) {
                return Err(format!(
                    "operand {}: loop `{}` goes to {it} with its padding, and the tensor to {device}",
                    self.operand, self.dims[dim].label
                ));
            }
            let stride = if moves == 1 { place } else { 0 };
            order.push(Along { dim, scale: SdscScale::Follows, stride, gap });
        }
        Ok(order)
    }

    /// How far a loop goes in a tensor whose lanes are elsewhere: a move and the sum of a product go to
    /// the end of the padding.
    fn iterations(&self, dim: usize) -> usize {
        let padded = match self.family {
            Family::Restickify => true,
            Family::Product => dim + 1 == self.dims.len(),
            _ => false,
        };
        if padded { self.dims[dim].padded } else { self.dims[dim].size }
    }
}
