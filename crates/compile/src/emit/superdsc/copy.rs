//! Elements from one place to another, by the two functions that do that: a copy of whole sticks, and a restickify.
//!
//! Where neither does it at once, elements go through the workspace:
//!
//! - **A view that begins inside a stick**, or steps over lanes: its tensor is restickified along another dimension
//!   first. There the dimension is an ordinary one, of which any part is a view by whole sticks.
//! - **Dimensions that a view has merged** are split again where that makes both sides regular.
//! - **One element in each stick to full sticks**: all lanes are moved along as a dimension of their own, of which the
//!   first place (or that of the lane) is copied. The other way the dimension has one place.

use super::op_func::{OpFunc, SdscFamily};
use super::work::{KernelWork, SdscLoops, WorkCores, WorkMemory, WorkTensor};
use zellige_device::TensorLayout;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

/// A tensor in memory, whether or not kernels can read it in its layout.
#[derive(Debug, Clone)]
pub(super) struct MemoryTensor {
    pub(super) memory: WorkMemory,
    pub(super) laid: TensorLayout,
}

/// The workspace of a step while its kernels are planned, and the cores that they run on.
#[derive(Debug, Clone)]
pub(super) struct KernelWorkspace {
    /// Bytes that are taken.
    pub(super) used: u64,
    pub(super) first_core: usize,
    pub(super) cores: usize,
    /// Bytes of a tensor that a core addresses at most.
    pub(super) span: u64,
}

/// How often elements may go through the workspace on their way.
// The search tries every other layout at each hop, so that it is exponential in this number.
const MAX_WORKSPACE_HOPS: usize = 3;

impl KernelWorkspace {
    /// Memory for a tensor of the workspace.
    pub(super) fn allocate_tensor(&mut self, laid: &TensorLayout) -> MemoryTensor {
        let memory = WorkMemory::Scratch(self.used);
        let bytes = laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs);
        self.used = (self.used + bytes).next_multiple_of(128);
        MemoryTensor { memory, laid: laid.clone() }
    }

    /// The kernels that copy all elements; why where there are none.
    pub(super) fn plan_copy(
        &mut self,
        from: &MemoryTensor,
        to: &MemoryTensor,
    ) -> Result<Vec<KernelWork>, String> {
        self.plan_copy_at_depth(from, to, MAX_WORKSPACE_HOPS)
    }

    fn plan_copy_at_depth(
        &mut self,
        from: &MemoryTensor,
        to: &MemoryTensor,
        depth: usize,
    ) -> Result<Vec<KernelWork>, String> {
        if from.laid.stick_layout().device_dtype() != to.laid.stick_layout().device_dtype() {
            // Changing the format rounds, and is an operation of the graph with a function of its own.
            return Err("a copy does not change the format of elements".into());
        }
        match (WorkTensor::new(from.memory, &from.laid), WorkTensor::new(to.memory, &to.laid)) {
            (Ok(a), Ok(b)) => {
                let reason = match self.copy_regular(from, a, to, b, depth) {
                    Ok(made) => return Ok(made),
                    Err(reason) => reason,
                };
                self.copy_through_restickify(from, to, depth).map_err(|_| reason)
            }
            (Err(reason), Ok(_)) => match self.copy_split(from, to, depth) {
                Some(made) => Ok(made),
                None => self.copy_through_restickify(from, to, depth).map_err(|_| reason),
            },
            (_, Err(reason)) => self.copy_split(from, to, depth).ok_or(reason),
        }
    }

    /// A copy between two regular tensors.
    fn copy_regular(
        &mut self,
        from: &MemoryTensor,
        a: WorkTensor,
        to: &MemoryTensor,
        b: WorkTensor,
        depth: usize,
    ) -> Result<Vec<KernelWork>, String> {
        let work = match (a.form.stick, b.form.stick) {
            (None, Some(d)) if a.form.size[d] > 1 && depth > 0 => {
                return self.condense_sticks(from, a, to, d, depth);
            }
            // A stick of one element is its first lane, as that of a sparse tensor is.
            (None, None | Some(_)) | (Some(_), Some(_)) => self.copy_work(a, b),
            (Some(d), None) if a.form.size[d] == 1 => self.copy_work(a, b),
            (Some(_), None) => self.copy_work(with_lane_dim(a, None)?, with_lane_dim(b, Some(1))?),
        };
        super::kernel::SdscKernel::from_work(&work)?;
        Ok(vec![work])
    }

    fn copy_work(&self, a: WorkTensor, b: WorkTensor) -> KernelWork {
        let moved = matches!((a.form.stick, b.form.stick), (Some(x), Some(y)) if x != y);
        let mut loops = SdscLoops::for_copy(&[&a.form, &b.form], None, self.cores, moved);
        loops.rounds = self.find_copy_rounds(&loops, [&a, &b]);
        let (name, family) = if moved {
            ("ReStickifyOpHBM", SdscFamily::Restickify)
        } else {
            ("identity", SdscFamily::Pointwise)
        };
        let func = OpFunc { name, family, constants: Vec::new(), operands: vec![0] };
        let cores = WorkCores::From(self.first_core);
        KernelWork { func, tensors: vec![a, b], loops, cores, indexed: None }
    }

    /// The rounds in which a copy runs over its outermost loop, where a core would address too much of a tensor.
    fn find_copy_rounds(
        &self,
        loops: &SdscLoops,
        tensors: [&WorkTensor; 2],
    ) -> Option<(usize, usize)> {
        let over = tensors
            .into_iter()
            .max_by_key(|t| t.laid.stick_layout().device_bytes().unwrap_or(0))?;
        let bytes = over.laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs);
        // The outermost loop moves the window farthest, so that cutting it shrinks the window most.
        let outer = (0..loops.spans.len())
            .filter(|d| loops.spans[*d].size.is_multiple_of(loops.spans[*d].unit))
            .max_by_key(|d| over.form.stride[*d])?;
        let each = bytes / loops.splits[outer] as u64;
        let rounds = usize::try_from(each.div_ceil(self.span.max(1))).ok()?;
        let most = loops.spans[outer].unit_count() / loops.splits[outer];
        (rounds > 1).then_some((outer, rounds.min(most)))
    }

    /// One element in each stick into sticks along dimension `d`.
    fn condense_sticks(
        &mut self,
        from: &MemoryTensor,
        mut a: WorkTensor,
        to: &MemoryTensor,
        d: usize,
        depth: usize,
    ) -> Result<Vec<KernelWork>, String> {
        let (eps, lane) = (a.form.eps, a.form.offset % a.form.eps);
        // The stick is moved whole, and the lane is selected afterwards, because no kernel of the device reads single
        // lanes.
        a.form.offset -= lane;
        let wide = with_lane_dim(a, Some(eps))?;
        let lanes = i64::try_from(eps).unwrap_or(i64::MAX);
        let size = [from.laid.size(), &[lanes]].concat();
        let rank = size.len();
        // Dimension `d` in sticks, the lanes as the slowest dimension but for that.
        let others = (0..rank - 1).filter(|k| *k != d);
        let mut order: Vec<usize> = others.collect();
        order.insert(order.len().min(1), rank - 1);
        order.push(d);
        let laid = row_major_layout(&from.laid, &size, &order)?;
        let all = self.allocate_tensor(&laid);
        let moved = self.copy_work(wide, WorkTensor::new(all.memory, &all.laid)?);
        super::kernel::SdscKernel::from_work(&moved)?;
        let (last, lane) = (i64::try_from(rank - 1).unwrap_or(0), i64::try_from(lane).unwrap_or(0));
        let first = all.laid.view_layout(|v| v.select(last, lane)).map_err(|e| e.to_string())?;
        let rest = self.plan_copy_at_depth(
            &MemoryTensor { memory: all.memory, laid: first },
            to,
            depth - 1,
        )?;
        Ok([vec![moved], rest].concat())
    }

    /// Both sides with dimensions split, where both are regular then: at the dimensions of the two tensors, or one
    /// dimension by any of its divisors.
    fn copy_split(
        &mut self,
        from: &MemoryTensor,
        to: &MemoryTensor,
        depth: usize,
    ) -> Option<Vec<KernelWork>> {
        let size = from.laid.size().to_vec();
        // The boundaries of the tensors' own dimensions are the natural cuts; the divisors are tried after them,
        // because they can be many.
        let own = |d: usize| find_boundaries(&[&from.laid, &to.laid], d);
        let merged = (0..size.len()).flat_map(|d| own(d).into_iter().map(move |n| (d, n)));
        let all: Vec<(usize, i64)> = merged.collect();
        let one = size.iter().enumerate().flat_map(|(d, n)| {
            let n = *n;
            (2..n).filter(move |k| n % k == 0).map(move |k| vec![(d, k)])
        });
        for cuts in [all].into_iter().filter(|c| !c.is_empty()).chain(one) {
            let cut = |p: &MemoryTensor| -> Option<MemoryTensor> {
                let laid = p.laid.view_layout(|v| split_view_dims(v, &cuts)).ok()?;
                laid.stick_form().ok()?;
                Some(MemoryTensor { memory: p.memory, laid })
            };
            if let (Some(a), Some(b)) = (cut(from), cut(to)) {
                let mut tried = self.clone();
                if let Ok(made) = tried.plan_copy_at_depth(&a, &b, depth) {
                    *self = tried;
                    return Some(made);
                }
            }
        }
        None
    }

    /// A copy through a restickified copy of the whole source, of which the view is regular: the smallest with which
    /// the rest can be copied.
    fn copy_through_restickify(
        &mut self,
        from: &MemoryTensor,
        to: &MemoryTensor,
        depth: usize,
    ) -> Result<Vec<KernelWork>, String> {
        let depth = depth.checked_sub(1).ok_or("it takes too many steps")?;
        let whole = MemoryTensor { memory: from.memory, laid: from.laid.base_layout() };
        let host = whole.laid.view().clone();
        let own = whole.laid.stick_form().map_err(|e| e.to_string())?;
        let mut best: Option<(KernelWorkspace, Vec<KernelWork>)> = None;
        for laid in list_other_layouts(&whole.laid, &host, own.stick) {
            let mut tried = self.clone();
            let staged = tried.allocate_tensor(&laid);
            if best.as_ref().is_some_and(|(b, _)| b.used <= tried.used) {
                continue;
            }
            let Ok(view) = staged.laid.view_layout(|_| Ok(from.laid.view().clone())) else {
                continue;
            };
            if view.stick_form().is_err() {
                continue;
            }
            let Ok(first) = tried.plan_copy_at_depth(&whole, &staged, 0) else { continue };
            let staged = MemoryTensor { memory: staged.memory, laid: view };
            let Ok(rest) = tried.plan_copy_at_depth(&staged, to, depth) else { continue };
            if best.as_ref().is_none_or(|(b, _)| tried.used < b.used) {
                best = Some((tried, [first, rest].concat()));
            }
        }
        // Or a copy of the view itself, whose dimensions are those of the target.
        let plain = StridedLayout::new_contiguous(from.laid.size()).map_err(|e| e.to_string())?;
        for laid in
            list_other_layouts(&from.laid, &plain, to.laid.stick_form().ok().and_then(|s| s.stick))
        {
            let mut tried = self.clone();
            let staged = tried.allocate_tensor(&laid);
            if best.as_ref().is_some_and(|(b, _)| b.used <= tried.used) {
                continue;
            }
            let Ok(first) = tried.plan_copy_at_depth(from, &staged, 0) else { continue };
            let Ok(rest) = tried.plan_copy_at_depth(&staged, to, depth) else { continue };
            if best.as_ref().is_none_or(|(b, _)| tried.used < b.used) {
                best = Some((tried, [first, rest].concat()));
            }
        }
        let (bench, made) = best.ok_or("no layout leads from one to the other")?;
        *self = bench;
        Ok(made)
    }
}

/// Layouts of a whole tensor with its sticks along other dimensions than `own`, smaller ones first.
pub(super) fn list_other_layouts(
    like: &TensorLayout,
    host: &StridedLayout,
    own: Option<usize>,
) -> Vec<TensorLayout> {
    let rank = host.rank();
    let mut all = Vec::new();
    for stick in (0..rank).filter(|d| Some(*d) != own).map(Some).chain([None]) {
        for first in (0..rank).filter(|d| Some(*d) != stick) {
            let rest = (0..rank).filter(|d| Some(*d) != stick && *d != first);
            let order: Vec<i64> = [first]
                .into_iter()
                .chain(rest)
                .chain(stick)
                .map(|d| i64::try_from(d).unwrap_or(0))
                .chain(stick.is_none().then_some(-1))
                .collect();
            let format = like.stick_layout().device_dtype();
            let (size, stride) = (host.size(), Some(host.stride()));
            let made = StickLayout::with_dim_order_in_format(size, stride, format, &order);
            all.extend(
                made.ok()
                    .and_then(|l| TensorLayout::new(like.storage_policy(), like.dtype(), &l).ok()),
            );
        }
    }
    // The first that works is taken, so that the order prefers the least workspace.
    all.sort_by_key(|l| l.stick_layout().device_bytes().unwrap_or(i64::MAX));
    all
}

/// A row-major tensor of the workspace in the layout of an order of dimensions, of which the last one is in sticks.
fn row_major_layout(
    like: &TensorLayout,
    size: &[i64],
    order: &[usize],
) -> Result<TensorLayout, String> {
    let order: Vec<i64> = order.iter().map(|d| i64::try_from(*d).unwrap_or(0)).collect();
    let format = like.stick_layout().device_dtype();
    let layout = StickLayout::with_dim_order_in_format(size, None, format, &order);
    let layout = layout.map_err(|e| e.to_string())?;
    TensorLayout::new(like.storage_policy(), like.dtype(), &layout).map_err(|e| e.to_string())
}

/// A tensor with one more dimension: its lanes, where it has one element in each stick; else one place.
fn with_lane_dim(mut t: WorkTensor, lanes: Option<usize>) -> Result<WorkTensor, String> {
    if lanes.is_some() && !t.form.offset.is_multiple_of(t.form.eps) {
        return Err("its elements are in other lanes than the first".into());
    }
    let rank = t.form.rank();
    t.form.size.push(lanes.unwrap_or(1));
    t.form.stride.push(0);
    if lanes.is_some() {
        t.form.stick = Some(rank);
    }
    Ok(t)
}

/// Where a dimension of two views runs over the end of a dimension of either tensor: places of a part, the smallest
/// first, each a multiple of the one before.
fn find_boundaries(list: &[&TensorLayout], d: usize) -> Vec<i64> {
    let mut ends: Vec<i64> = Vec::new();
    let n = list[0].size()[d];
    for laid in list {
        let step = laid.view().stride()[d];
        let Some(host) = laid.stick_layout().host().filter(|_| step > 0) else { continue };
        let outer = host
            .sizes_and_strides()
            .filter(|(m, s)| *m > 1 && s % step == 0)
            .map(|(_, s)| s / step);
        ends.extend(outer.filter(|k| *k > 1 && *k < n && n % k == 0));
    }
    ends.sort_unstable();
    ends.dedup();
    let mut kept: Vec<i64> = Vec::new();
    for end in ends {
        if kept.last().is_none_or(|k| end % k == 0) {
            kept.push(end);
        }
    }
    kept
}

/// A view with dimensions as several: each cut is a dimension, and the places of its inner part.
fn split_view_dims(
    v: &StridedLayout,
    cuts: &[(usize, i64)],
) -> zellige_layout::Result<StridedLayout> {
    let (mut size, mut stride) = (Vec::new(), Vec::new());
    for (d, (n, s)) in v.sizes_and_strides().enumerate() {
        let mut rest = n;
        for (_, inner) in cuts.iter().filter(|c| c.0 == d).rev() {
            size.push(rest / inner);
            stride.push(s * inner);
            rest = *inner;
        }
        size.push(rest);
        stride.push(s);
    }
    StridedLayout::new(&size, &stride, v.offset())
}
