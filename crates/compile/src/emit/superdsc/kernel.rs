//! A step as the device sees it: labelled loops, and tensors that follow some of them.

use super::op_func::{OpFunc, SdscFamily};
use super::work::{KernelWork, LoopPiece, WorkMemory, WorkTensor};
use zellige_device::{StickForm, TensorLayout, core_order};
use zellige_stick::DataFormat;

/// Labels of loops, but the last one, which is `out`.
pub(super) const LOOP_LABELS: [&str; 7] = ["mb", "x", "y", "i", "j", "ki", "kj"];
/// Labels of the loops of a product, of which it has the last ones.
pub(super) const PRODUCT_LOOP_LABELS: [&str; 7] = ["ki", "kj", "y", "x", "mb", "out", "in"];

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
    pub(super) fn slice_iterations(&self) -> usize {
        self.padded / self.split
    }
}

/// How a tensor follows a loop.
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
    pub(super) fn scale_code(self) -> i64 {
        match self {
            SdscScale::Follows => 1,
            SdscScale::Still => -1,
            SdscScale::StillStick => -2,
        }
    }
}

/// A loop as a tensor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SdscTensorLoop {
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
    pub(super) memory: WorkMemory,
    /// Whether it is in the scratchpads, where every core has its own slice alone.
    pub(super) scratchpad: bool,
    pub(super) format: DataFormat,
    pub(super) eps: usize,
    /// The loops, from the one right above the stick outward.
    pub(super) order: Vec<SdscTensorLoop>,
    /// The loop along the lanes.
    pub(super) stick: usize,
    offset: usize,
}

impl SdscArg {
    /// The byte of its block where a core's slice begins.
    pub(super) fn slice_start_byte(&self, dims: &[SdscDim], slice: &[usize]) -> u64 {
        // In a scratchpad the core has its own slice alone, which begins at the buffer's address.
        if self.scratchpad {
            return 0;
        }
        let mut at = self.offset;
        for along in self.order.iter().filter(|a| a.scale == SdscScale::Follows) {
            let first = slice[along.dim] * dims[along.dim].slice_iterations();
            let steps = if along.dim == self.stick { first / self.eps } else { first };
            at += steps * along.stride;
        }
        at as u64 * 128 / self.eps as u64
    }

    /// How it follows a loop.
    pub(super) fn find_tensor_loop(&self, dim: usize) -> Option<&SdscTensorLoop> {
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
    /// The numbers of its cores, in the order of their slices.
    pub(super) ids: Vec<usize>,
    /// The loops whose padding is masked.
    pub(super) masked: Vec<usize>,
    /// The tensor that is looked up, if any.
    pub(super) indexed: Option<SdscIndex>,
}

/// A tensor of a kernel that is looked up by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SdscIndex {
    /// The tensor with the indices.
    pub(super) index: usize,
    /// The tensor that they look up.
    pub(super) value: usize,
    /// The loop over the indices.
    pub(super) dim: usize,
}

impl SdscKernel {
    /// The kernels of some work; why where there are none. Slices of one length are one kernel, so that loops whose
    /// slices differ make several, each on cores of its own.
    pub(super) fn from_work(work: &KernelWork) -> Result<Vec<SdscKernel>, String> {
        if work.tensors.iter().any(|t| t.form.numel() == 0) {
            return Err("it has no elements".into());
        }
        let all = |work: &KernelWork| -> Result<Vec<SdscKernel>, String> {
            // A descriptor gives one slice length for all its cores, so that uneven divisions become several kernels.
            let pieces = work.loops.equal_slice_pieces(work.func.family)?;
            pieces.iter().map(|p| SdscKernel::from_piece(work, p)).collect()
        };
        // A tensor of which one row is seen steps from stick to stick past the other rows.
        all(work).or_else(|reason| all(&work.with_unit_row()).map_err(|_| reason))
    }

    fn from_piece(work: &KernelWork, piece: &LoopPiece) -> Result<SdscKernel, String> {
        let func = &work.func;
        let forms: Vec<StickForm> = (0..work.tensors.len())
            .map(|t| work.piece_sticks(t, piece))
            .collect::<Result<_, _>>()?;
        let loops = work.loops.restrict_to_piece(piece);
        let kept = loops.kept_loops(func.family);
        let mut dims = loops.labelled_dims(&kept, func.family)?;
        let mut args = Vec::with_capacity(forms.len());
        let lead =
            if matches!(func.family, SdscFamily::Reduction { .. }) { 0 } else { forms.len() - 1 };
        let along = |t: usize| {
            let loop_of = forms[t].stick.and_then(|d| loops.follows[t][d]);
            loop_of.and_then(|l| kept.iter().position(|k| *k == l))
        };
        // The lanes of an index are numbers of its own.
        let values = (0..forms.len()).filter(|t| work.indexed.is_none_or(|i| i.index != *t));
        let stick = along(lead).or_else(|| values.into_iter().find_map(along));
        let extra = (func.family != SdscFamily::Product && stick.is_none()).then_some(dims.len());
        if extra.is_some() {
            // The format has no kernel without a stick loop. Where no tensor has lanes, a loop over one whole stick
            // is added, of which only the first lane holds an element.
            let eps = forms[lead].eps;
            let label = LOOP_LABELS.get(dims.len()).ok_or("it has more than 7 dimensions")?;
            dims.push(SdscDim { label, size: eps, padded: eps, split: 1, reduced: false });
        }
        let looked_up = work.indexed.map(|i| (i, kept.iter().position(|k| *k == i.along)));
        for (t, (tensor, form)) in work.tensors.iter().zip(&forms).enumerate() {
            let by_index = match looked_up {
                Some((i, Some(dim))) if i.value == t => Some((i.dim, dim)),
                _ => None,
            };
            let place = SdscArgPlacement {
                dims: &dims,
                family: func.family,
                operand: t,
                stick,
                extra,
                by_index,
                compact: tensor.scratchpad,
            };
            args.push(place.place_arg(tensor, form, &loops.follows[t], &kept)?);
        }
        // The descriptor of a conversion has a row loop beside the stick loop, which a vector does not have by
        // itself.
        let virtual_row = func.family == SdscFamily::Convert && dims.len() == 1;
        if virtual_row {
            prepend_row(&mut dims, &mut args);
        }
        let out = &args[args.len() - 1];
        let still_stick = out.order.iter().any(|a| a.scale == SdscScale::StillStick);
        let reduces = matches!(func.family, SdscFamily::Reduction { .. });
        let name = match (reduces, still_stick) {
            // torch-spyre has two functions for a reduction: one along the stick, which leaves one element per stick,
            // and one along other dimensions.
            (true, false) => format!("{}nonstick", func.name),
            _ => func.name.to_string(),
        };
        let padded = |a: &&SdscTensorLoop| {
            a.scale == SdscScale::StillStick && dims[a.dim].padded > dims[a.dim].size
        };
        let masked = if reduces {
            out.order.iter().filter(padded).map(|a| a.dim).collect()
        } else {
            Vec::new()
        };
        let indexed = match looked_up {
            Some((i, Some(dim))) => Some(SdscIndex { index: i.index, value: i.value, dim }),
            Some((_, None)) => return Err("an index of one element is no loop".into()),
            None => None,
        };
        let ids = piece.cores.iter().map(|c| work.cores.core_of_slice(*c)).collect();
        Ok(SdscKernel { func: func.clone(), name, dims, args, ids, masked, indexed })
    }

    /// The same kernel on other memory, and on cores that many numbers later.
    pub(super) fn relocated_to(
        &self,
        place: impl Fn(WorkMemory) -> WorkMemory,
        cores: usize,
    ) -> SdscKernel {
        let mut kernel = self.clone();
        kernel.args.iter_mut().for_each(|a| a.memory = place(a.memory));
        kernel.ids.iter_mut().for_each(|id| *id += cores);
        kernel
    }

    /// How many cores it runs on.
    pub(super) fn core_count(&self) -> usize {
        self.dims.iter().map(|d| d.split).product()
    }

    /// The slice of a core in every loop: mixed radix, in the order in which cores are counted.
    pub(super) fn core_slice(&self, core: usize) -> Vec<usize> {
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
    dims.insert(0, SdscDim { label: LOOP_LABELS[0], size: 1, padded: 1, split: 1, reduced: false });
    for arg in args {
        arg.order.iter_mut().for_each(|a| a.dim += 1);
        arg.stick += 1;
        arg.order
            .insert(0, SdscTensorLoop { dim: 0, scale: SdscScale::Follows, stride: 0, gap: 0 });
    }
}

/// Where one tensor is put among the loops.
struct SdscArgPlacement<'a> {
    dims: &'a [SdscDim],
    family: SdscFamily,
    operand: usize,
    /// The loop along the lanes of the operation.
    stick: Option<usize>,
    /// The loop that the device has for lanes that no tensor uses.
    extra: Option<usize>,
    /// The dimension that an index looks up, and the loop over the indices.
    by_index: Option<(usize, usize)>,
    /// Whether every core has its own slice alone, without gaps.
    compact: bool,
}

impl SdscArgPlacement<'_> {
    fn place_arg(
        &self,
        tensor: &WorkTensor,
        form: &StickForm,
        follows: &[Option<usize>],
        kept: &[usize],
    ) -> Result<SdscArg, String> {
        let laid = &tensor.laid;
        let refuse =
            |d: usize, why: &str| Err(format!("dimension {d} of operand {}: {why}", self.operand));
        let mut own: Option<usize> = None;
        let mut steps: Vec<(usize, usize)> = Vec::new();
        for (d, follows) in follows.iter().enumerate() {
            if let Some((_, dim)) = self.by_index.filter(|(by, _)| *by == d) {
                steps.push((dim, form.stride[d]));
                continue;
            }
            let dim = follows.and_then(|l| kept.iter().position(|k| *k == l));
            let Some(dim) = dim else {
                if form.size[d] > 1 {
                    return refuse(d, "it follows no loop");
                }
                continue;
            };
            // A dimension of size 1 along a longer loop is broadcast: it takes no step.
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
        if self.family == SdscFamily::Product {
            let wanted = if self.operand == 0 { "in" } else { "out" };
            // A stick of one element counts as the loop that is wanted there.
            let lanes = own.map_or("out", |d| self.dims[d].label);
            if lanes != wanted {
                let k = self.operand;
                return Err(format!("the lanes of operand {k} do not run along `{wanted}`"));
            }
        }
        let stick = own.or(self.stick).or(self.extra).ok_or("no tensor has lanes")?;
        if own.is_none() && steps.iter().any(|(dim, _)| *dim == stick) {
            return refuse(0, "others have lanes where it has one element in each stick");
        }
        let mut order = self.arrange_loops(laid, form, own, &steps)?;
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
            if self.family != SdscFamily::Product || batch {
                order.push(SdscTensorLoop { dim, scale, stride: 0, gap: 0 });
            }
        }
        let format = laid.stick_layout().device_dtype();
        let (memory, scratchpad) = (tensor.memory, tensor.scratchpad);
        Ok(SdscArg { memory, scratchpad, format, eps: form.eps, order, stick, offset: form.offset })
    }

    /// The loops that a tensor steps along, innermost first, with the gaps between them.
    fn arrange_loops(
        &self,
        laid: &TensorLayout,
        form: &StickForm,
        own: Option<usize>,
        steps: &[(usize, usize)],
    ) -> Result<Vec<SdscTensorLoop>, String> {
        let layout = laid.stick_layout();
        let size = |j: usize| usize::try_from(layout.device_size()[j]).unwrap_or(0);
        let outer: Vec<usize> = (0..layout.device_rank() - 1).collect();
        let strides = layout.device_strides().map_err(|e| e.to_string())?;
        let stride = |j: usize| usize::try_from(strides[j]).unwrap_or(0);
        let least = steps.iter().map(|s| s.1).filter(|n| *n > 0).min();
        // Sticks that follow each other with others between them belong to one long stick dimension.
        let mut apart = least.filter(|n| *n != form.eps);
        let row = (0..self.dims.len())
            .find(|d| self.dims[*d].padded == 1 && steps.iter().all(|(dim, _)| dim != d));
        let mut steps = steps.to_vec();
        let lone = steps.iter().all(|s| s.1 > 0);
        if let (Some(row), Some(_), true) = (row, apart, lone) {
            steps.push((row, form.eps));
            apart = None;
        }
        // A single stick is the device dimension of extent 1, the innermost such one.
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
                (1, self.loop_iterations(dim))
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
            let looked_up = self.by_index.is_some_and(|(_, by)| by == dim);
            let gap = if self.compact { 0 } else { gap };
            if gap < 0 && !looked_up && (own == Some(dim) || self.family != SdscFamily::Restickify)
            {
                return Err(format!(
                    "operand {}: loop `{}` goes to {it} with its padding, and the tensor to {device}",
                    self.operand, self.dims[dim].label
                ));
            }
            let stride = if moves == 1 { place } else { 0 };
            order.push(SdscTensorLoop { dim, scale: SdscScale::Follows, stride, gap });
        }
        Ok(order)
    }

    /// How far a loop goes in a tensor whose lanes are elsewhere: a move and the sum of a product go to
    /// the end of the padding.
    fn loop_iterations(&self, dim: usize) -> usize {
        let padded = match self.family {
            SdscFamily::Restickify => true,
            SdscFamily::Product => dim + 1 == self.dims.len(),
            _ => false,
        };
        if padded { self.dims[dim].padded } else { self.dims[dim].size }
    }
}
