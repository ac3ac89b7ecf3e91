//! Reading by index: `embedding`, `index_select`, `gather`, `index`.

use super::{IndexTensors, advance_coordinate, resolve_iterations};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::kernels::pointwise::result_spans;
use crate::kernels::{
    FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers, charge_streams,
};
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{layout_in_order, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use zellige_layout::StridedLayout;
use zellige_machine::account::{CoreWork, MemoryTraffic, WorkKind};
use zellige_op::{IndexRead, IndexSource, TensorType};

impl OpKernel for IndexRead {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let metas: Vec<TensorType> = inputs.iter().map(TensorLayout::tensor_type).collect();
        let shape = self.pattern.resolve_shape(self.name, &metas[0], &metas[1..])?;
        let host = StridedLayout::new_contiguous(&outputs[0].size)?;
        // The lanes of the indexed tensor stay lanes where its stick dimension is not looked up.
        let stick =
            inputs[0].stick_form().ok().and_then(|s| s.stick).and_then(|s| match shape.from[s] {
                IndexSource::Dim(d) => Some(d),
                IndexSource::Index(_) => None,
            });
        // Where the lanes are looked up, elements come from anywhere, and the last dimension is as good as any.
        let stick = stick.or_else(|| host.rank().checked_sub(1));
        let order: Vec<usize> = (0..host.rank()).collect();
        let format = result_format(&inputs[..1], outputs[0].dtype)?;
        let out = layout_in_order(&host, &order, stick, format)?;
        Ok(KernelLayouts { inputs: vec![LayoutNeed::AsIs; inputs.len()], outputs: vec![out] })
    }

    fn iteration_space(&self, _: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        result_spans(&[], &outputs[0])
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let (x, out) = (&inputs[0], &outputs[0]);
        let shape = resolve_iterations(&self.pattern, self.name, x, &inputs[1..]).ok()?;
        let same = |t: &StickForm, d: usize, at: usize| (t.size[d] == out.size[at]).then_some(at);
        let indexed = |d: usize| match shape.from[d] {
            IndexSource::Dim(at) => same(x, d, at),
            IndexSource::Index(_) => None,
        };
        let index = |(k, t): (usize, &StickForm)| -> FollowedLoops {
            (0..t.rank()).map(|d| same(t, d, shape.dims[k][d])).collect()
        };
        let mut all: Vec<FollowedLoops> = vec![(0..x.rank()).map(indexed).collect()];
        all.extend(inputs[1..].iter().enumerate().map(index));
        all.push((0..out.rank()).map(Some).collect());
        Some(all)
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let shape = resolve_iterations(&self.pattern, self.name, &inputs[0], &inputs[1..])?;
        let (x, out) = (inputs[0].clone(), outputs[0].clone());
        // Elements are copied as bytes, so that not even a NaN changes its payload.
        if x.format != out.format {
            let reason = format!("the result is stored as {}, not {}", x.format, out.format);
            return Err(refuse_operand(self.name, None, reason));
        }
        let indices = IndexTensors::new(&shape, &x, &inputs[1..]);
        let space = self.iteration_space(inputs, outputs);
        let slices: Vec<StickForm> = (0..division.core_count())
            .map(|core| {
                let ranges = division.core_slice(core, &space);
                ranges.iter().enumerate().fold(out.clone(), |t, (d, r)| t.slice_dim(d, r.clone()))
            })
            .collect();
        let starts = (0..division.core_count())
            .map(|core| division.core_slice(core, &space).iter().map(|r| r.start).collect())
            .collect();
        // Lanes are copied together where both tensors have them side by side.
        let along = out.stick.filter(|s| {
            x.stick.is_some_and(|xs| shape.from[xs] == IndexSource::Dim(*s))
                && !indices.varies_along(*s)
        });
        Ok(Box::new(GatherTask {
            name: self.name,
            from: shape.from,
            x,
            indices,
            slices,
            starts,
            along,
        }))
    }
}

/// A read on core slices.
struct GatherTask {
    name: &'static str,
    from: Vec<IndexSource>,
    x: StickForm,
    indices: IndexTensors,
    slices: Vec<StickForm>,
    starts: Vec<SmallVec<[usize; 6]>>,
    along: Option<usize>,
}

impl KernelTask for GatherTask {
    fn work_kind(&self) -> WorkKind {
        WorkKind::Copy
    }

    fn core_work(&self, core: usize) -> CoreWork {
        let out = &self.slices[core];
        let mut work = charge_streams(self.indices.index_forms(), std::slice::from_ref(out));
        // Every row of the result reads its own stick.
        // The card transfers whole sticks, so that one element costs as much as a stick of them.
        let sticks = match self.along {
            Some(s) => out.numel() / out.size[s].max(1) * out.stick_count(),
            None => out.numel(),
        } as u64;
        work.reads.merge_traffic(&MemoryTraffic::from_bursts(128, sticks));
        work.lx_bytes += 128 * sticks;
        work.sfu = out.numel() as u64;
        work
    }

    unsafe fn check_operands(&self, memory: &TensorPointers) -> Result<()> {
        // SAFETY: by the contract of `KernelTask::check_operands`.
        unsafe { self.indices.check_positions(self.name, memory) }
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let (out, start) = (&self.slices[core], &self.starts[core]);
        let width = out.format.byte_size();
        let mut box_size = out.size.clone();
        if let Some(s) = self.along {
            box_size[s] = out.size[s].div_ceil(out.eps);
        }
        let mut c: SmallVec<[usize; 6]> = SmallVec::from_elem(0, out.rank());
        for _ in 0..box_size.iter().product::<usize>() {
            let mut local = c.clone();
            if let Some(s) = self.along {
                local[s] *= out.eps;
            }
            let at: SmallVec<[usize; 6]> = local.iter().zip(start).map(|(c, s)| c + s).collect();
            let source = self.from.iter().map(|f| match f {
                IndexSource::Dim(d) => at[*d],
                // SAFETY: by the contract of `KernelTask::run_slice`; positions were checked.
                IndexSource::Index(k) => unsafe { self.indices.position_at(*k, &at, memory) },
            });
            let source: SmallVec<[usize; 6]> = source.collect();
            // Lanes of a stick that is not full are left out, as behind them may be another element of a view.
            let count = self.along.map_or(1, |s| out.eps.min(out.size[s] - local[s]));
            // SAFETY: both places are inside their tensors, and `count` lanes of a stick follow them.
            unsafe {
                let from = memory.inputs[0].add(self.x.element_offset(&source) * width);
                let to = memory.outputs[0].add(out.element_offset(&local) * width);
                std::ptr::copy_nonoverlapping(from, to, count * width);
            }
            advance_coordinate(&mut c, &box_size);
        }
    }
}
