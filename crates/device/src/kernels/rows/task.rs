//! An operation on lines bound to its tensors.

use super::lines::TensorLines;
use super::{AlignedForms, LineFunction, line_work_kind, outer_dims, outer_spans};
use crate::kernels::charge_units;
use crate::kernels::io::{ElementLoader, ElementStorer, KernelNumber};
use crate::kernels::share::{CoreShare, moves_along};
use crate::kernels::{KernelTask, TensorPointers, charge_shared_streams};
use crate::run::division::WorkDivision;
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{OperationCharges, SumGroup};
use zellige_op::{LineResults, PerDimension};

/// Numbers of a block of lines along the lanes: what operand and result take of a first-level cache.
const BLOCK_NUMBERS: usize = 4 * 1024;

/// Numbers between lines that run across the lanes: without them the elements of one stick would be written to
/// addresses of one cache set.
const LINE_GAP_NUMBERS: usize = 16;

/// Numbers of a block of lines across the lanes, of which a whole stick is read together.
const WIDE_BLOCK: usize = 4 << 20;

/// A line function on core slices.
pub(super) struct LineTask<T> {
    line: Arc<dyn LineFunction<T>>,
    loads: Vec<ElementLoader<T>>,
    values: Option<ElementStorer<T>>,
    indices: Option<ElementStorer<i32>>,
    slices: Vec<LineSlice>,
    kind: WorkKind,
}

struct LineSlice {
    inputs: Vec<TensorLines>,
    outputs: Vec<TensorLines>,
    /// Extents of the outer dimensions but that of blocks.
    outer: PerDimension<usize>,
    /// Lines of the block dimension, and how many are computed at a time.
    lines: usize,
    block: usize,
    /// Numbers after each line in a block.
    apart: usize,
    work: CoreWork,
}

impl<T: KernelNumber> LineTask<T> {
    pub(super) fn new(
        line: Arc<dyn LineFunction<T>>,
        gives: LineResults,
        charges: &OperationCharges,
        wide: &AlignedForms,
        division: &WorkDivision,
        infinities: bool,
    ) -> LineTask<T> {
        let x = &wide.inputs[0];
        let (space, dims) = (outer_spans(wide), outer_dims(wide));
        // Along its lanes where lines run across them, otherwise along the dimension with the shortest stride.
        let block = x.stick.filter(|s| dims.contains(s)).or_else(|| {
            let several = dims.iter().copied().filter(|d| x.size[*d] > 1);
            several.min_by_key(|d| x.stride[*d])
        });
        let slices = (0..division.core_count()).map(|core| {
            let ranges = division.core_slice(core, &space);
            let cut = |t: &StickForm| {
                let ranges = dims.iter().zip(&ranges);
                ranges.fold(t.clone(), |t, (d, r)| {
                    // An operand that is the same everywhere along the dimension is not cut.
                    if t.size[*d] == x.size[*d] { t.slice_dim(*d, r.clone()) } else { t }
                })
            };
            let ins: Vec<StickForm> = wide.inputs.iter().map(cut).collect();
            let outs: Vec<StickForm> = wide.outputs.iter().map(cut).collect();
            let shares: SmallVec<[CoreShare; 4]> = (wide.inputs.iter())
                .map(|t| CoreShare::from_division(division, core, |l| !moves_along(t, dims[l])))
                .collect();
            let mut work = charge_shared_streams(&ins, &shares, &outs);
            let n: usize = wide.along.iter().map(|d| x.size[*d]).product();
            charge_units(&mut work, charges, &ranges, SumGroup::ALONE);
            let lines = block.map_or(1, |b| ins[0].size[b]);
            let across = block.is_some() && x.stick == block;
            // Lines across the lanes come by the stick: reading one of them would read all of its neighbours too,
            // so that a whole stick of lines is worth a larger block.
            let most = if across { WIDE_BLOCK } else { BLOCK_NUMBERS } / n.max(1);
            let most = most.clamp(1, if across { x.eps } else { 64 });
            // Scratch memory is taken for a whole block: a core with a single line needs no more than that line.
            let block_lines = most.min(lines.max(1));
            let kept = (n * x.format.byte_size() * if across { x.eps } else { 1 }) as u64;
            work.lx_peak = work.lx_peak.max(2 * kept);
            let form = |t: &StickForm| TensorLines::new(t, &wide.along, block);
            LineSlice {
                inputs: ins.iter().map(form).collect(),
                outputs: outs.iter().map(form).collect(),
                outer: dims
                    .iter()
                    .filter(|d| Some(**d) != block)
                    .map(|d| ins[0].size[*d])
                    .collect(),
                lines,
                block: block_lines,
                apart: if across { LINE_GAP_NUMBERS } else { 0 },
                work,
            }
        });
        let formats: SmallVec<[_; 2]> = wide.outputs.iter().map(|o| o.format).collect();
        let load = |f| {
            if infinities {
                ElementLoader::with_infinities(f)
            } else {
                ElementLoader::new(f, formats[0])
            }
        };
        LineTask {
            slices: slices.collect(),
            line,
            loads: wide.inputs.iter().map(|t| load(t.format)).collect(),
            values: (gives != LineResults::Indices).then(|| ElementStorer::new(formats[0])),
            indices: match gives {
                LineResults::Values => None,
                LineResults::Indices => Some(ElementStorer::new(formats[0])),
                LineResults::Both => Some(ElementStorer::new(formats[1])),
            },
            kind: line_work_kind(wide),
        }
    }
}

/// The lines of the operands beside the first.
struct OtherLines<T> {
    lines: Vec<Vec<T>>,
    /// Where the lines that are held begin, if all lines of a block share them.
    held: Vec<Option<usize>>,
}

impl<T: KernelNumber> OtherLines<T> {
    fn new(slice: &LineSlice) -> OtherLines<T> {
        let room = |l: &TensorLines| {
            vec![T::default(); (l.n + slice.apart) * if l.is_shared() { 1 } else { slice.block }]
        };
        let lines: Vec<Vec<T>> = slice.inputs[1..].iter().map(room).collect();
        OtherLines { held: vec![None; lines.len()], lines }
    }

    /// Line `k` of the block, of every operand.
    fn lines_at(&self, slice: &LineSlice, k: usize) -> SmallVec<[&[T]; 4]> {
        let forms = slice.inputs[1..].iter();
        forms
            .zip(&self.lines)
            .map(|(form, lines)| {
                let k = if form.is_shared() { 0 } else { k };
                &lines[k * (form.n + slice.apart)..][..form.n]
            })
            .collect()
    }
}

impl<T: KernelNumber> KernelTask for LineTask<T> {
    fn work_kind(&self) -> WorkKind {
        self.kind
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.slices[core].work.clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let slice = &self.slices[core];
        let (n, block) = (slice.inputs[0].n, slice.block);
        let give = slice.outputs[0].n;
        let (pitch, pitch_out) = (n + slice.apart, give + slice.apart);
        // Some functions leave their values where the operand was, which saves a second buffer in the first-level
        // cache.
        let in_place = self.line.in_place();
        let room = |wanted: bool| if wanted { pitch_out * block } else { 0 };
        let mut x = vec![T::default(); pitch * block];
        let mut values = vec![T::default(); room(self.values.is_some() && !in_place)];
        let mut indices = vec![0i32; room(self.indices.is_some())];
        let mut others = OtherLines::new(slice);
        for_each_coordinate(&slice.outer, |at| {
            for first in (0..slice.lines).step_by(block) {
                let count = block.min(slice.lines - first);
                let which = (first, count);
                let form = &slice.inputs[0];
                // SAFETY: by the contract of this function; lines stay inside their tensors.
                unsafe {
                    let (base, into) = (memory.inputs[0], (x.as_mut_slice(), pitch));
                    form.load_lines(&self.loads[0], base, form.outer_offset(at), which, into);
                }
                for (i, form) in slice.inputs.iter().enumerate().skip(1) {
                    let start = form.outer_offset(at);
                    let shared = form.is_shared();
                    // A weight or a bias is the same for all lines, and is converted once.
                    if shared && others.held[i - 1] == Some(start) {
                        continue;
                    }
                    others.held[i - 1] = Some(start);
                    let which = if shared { (0, 1) } else { which };
                    let into = (others.lines[i - 1].as_mut_slice(), form.n + slice.apart);
                    // SAFETY: as above.
                    unsafe {
                        form.load_lines(&self.loads[i], memory.inputs[i], start, which, into);
                    };
                }
                // Slices of the other operands are gathered once per block where they are the same for all of its
                // lines.
                let fixed = slice.inputs[1..].iter().all(TensorLines::is_shared);
                let fixed = fixed.then(|| others.lines_at(slice, 0));
                for k in 0..count {
                    let own =
                        if fixed.is_none() { others.lines_at(slice, k) } else { SmallVec::new() };
                    let part = |len: usize| {
                        if len == 0 { 0..0 } else { k * pitch_out..k * pitch_out + give }
                    };
                    let (v, i) = (part(values.len()), part(indices.len()));
                    self.line.run_line(
                        &mut x[k * pitch..k * pitch + n],
                        fixed.as_ref().unwrap_or(&own),
                        &mut values[v],
                        &mut indices[i],
                    );
                }
                // SAFETY: as above; slices of other cores are disjoint.
                unsafe {
                    let mut out = 0;
                    if let Some(store) = &self.values {
                        let from = if in_place { (&*x, pitch) } else { (&*values, pitch_out) };
                        let (form, base) = (&slice.outputs[0], memory.outputs[0]);
                        form.store_lines(store, base, form.outer_offset(at), which, from);
                        out = 1;
                    }
                    if let Some(store) = &self.indices {
                        let (form, base) = (&slice.outputs[out], memory.outputs[out]);
                        form.store_lines(
                            store,
                            base,
                            form.outer_offset(at),
                            which,
                            (&indices, pitch_out),
                        );
                    }
                }
            }
        });
    }
}

/// Every place of some extents, the last dimension fastest.
fn for_each_coordinate(size: &[usize], mut f: impl FnMut(&[usize])) {
    if size.contains(&0) {
        return;
    }
    let mut at: PerDimension<usize> = SmallVec::from_elem(0, size.len());
    loop {
        f(&at);
        let next = at.iter_mut().zip(size).rev().find_map(|(c, n)| {
            *c = (*c + 1) % n;
            (*c > 0).then_some(())
        });
        if next.is_none() {
            return;
        }
    }
}
