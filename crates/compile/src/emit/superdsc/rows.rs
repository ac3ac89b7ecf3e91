//! Rows that are looked up, or written, by an index tensor.

use super::copy::{KernelWorkspace, MemoryTensor};
use super::kernel::SdscKernel;
use super::op_func::OpFunc;
use super::plan::{PlannedKernels, build_sdsc_kernels, copy_function};
use super::staging::StagedOperands;
use super::work::{IndexedDim, KernelWork, SdscLoops, WorkCores, WorkTensor};
use zellige_device::{LoopSpan, TensorLayout, WorkDivision};
use zellige_op::{CombineRule, IndexPattern, IndexSource, OpForm, TensorOp, TensorType};

/// The most kernels of one operation, one for each list of indices.
// An index of several dimensions is a kernel for each list along the last one; without a limit a large index would be
// thousands of files.
const MAX_INDEX_LISTS: i64 = 64;

/// The kernels of such an operation; none for others.
pub(super) fn plan_rows_by_index(
    op: &TensorOp,
    staged: &StagedOperands,
    bench: &mut KernelWorkspace,
) -> Option<PlannedKernels> {
    let types: Vec<TensorType> = staged.reads.iter().map(|p| p.laid.tensor_type()).collect();
    let out = staged.writes.first()?;
    match op.form() {
        OpForm::IndexRead(read) => {
            // Negative positions count from the end there, and a kernel takes an index as it is.
            if matches!(read.pattern, IndexPattern::Gather(_) | IndexPattern::Advanced) {
                return Some(Err("its indices are not of whole rows".into()));
            }
            let rows =
                IndexedRows { pattern: &read.pattern, x: &staged.reads[0], plain: out, read: true };
            Some(rows.plan_row_kernels(op, &staged.reads[1], &types, bench))
        }
        OpForm::IndexWrite(write) => {
            let whole = matches!(write.pattern, IndexPattern::Select(_));
            if write.combine != CombineRule::Replace || !whole {
                return Some(Err(
                    "it combines elements, or its indices are not of whole rows".into()
                ));
            }
            let mut made = Vec::new();
            // Where the result is in the place of the operand, everything else is there already.
            if !write.over {
                match bench.plan_copy(&staged.reads[0], out).and_then(|c| build_sdsc_kernels(&c)) {
                    Ok(copy) => made.extend(copy),
                    Err(reason) => return Some(Err(reason)),
                }
            }
            let plain = &staged.reads[2];
            let rows = IndexedRows { pattern: &write.pattern, x: out, plain, read: false };
            let scattered = rows.plan_row_kernels(op, &staged.reads[1], &types, bench);
            Some(scattered.map(|s| [made, s].concat()))
        }
        _ => None,
    }
}

/// Rows of a tensor beside a plain one that has a row for every index.
struct IndexedRows<'a> {
    pattern: &'a IndexPattern,
    x: &'a MemoryTensor,
    plain: &'a MemoryTensor,
    /// Whether rows are read, not written.
    read: bool,
}

impl IndexedRows<'_> {
    fn plan_row_kernels(
        &self,
        op: &TensorOp,
        index: &MemoryTensor,
        types: &[TensorType],
        bench: &mut KernelWorkspace,
    ) -> PlannedKernels {
        let shape = self
            .pattern
            .resolve_shape(op.name(), &self.x.laid.tensor_type(), &types[1..2])
            .map_err(|e| e.to_string())?;
        let dims = &shape.dims[0];
        let size = |d: &usize| shape.size[*d];
        // The last dimension of the index is a loop; the others are lists of their own.
        let lists: i64 = dims.iter().rev().skip(1).map(size).product();
        if lists > MAX_INDEX_LISTS {
            return Err(format!(
                "its indices are {lists} lists, and at most {MAX_INDEX_LISTS} are kernels"
            ));
        }
        let mut made = Vec::new();
        for list in 0..lists.max(1) {
            let mut rest = list;
            let (mut own, mut plain) = (index.laid.clone(), self.plain.laid.clone());
            let lead: Vec<usize> = dims.iter().rev().skip(1).rev().copied().collect();
            let inner: Vec<i64> = lead
                .iter()
                .rev()
                .map(|d| {
                    let at = rest % shape.size[*d];
                    rest /= shape.size[*d];
                    at
                })
                .collect();
            for (removed, (d, at)) in (0i64..).zip(lead.iter().zip(inner.iter().rev())) {
                let d = i64::try_from(*d).unwrap_or(0) - removed;
                own = own.view_layout(|v| v.select(0, *at)).map_err(|e| e.to_string())?;
                plain = plain.view_layout(|v| v.select(d, *at)).map_err(|e| e.to_string())?;
            }
            let own = MemoryTensor { memory: index.memory, laid: own };
            let last = dims.last().copied();
            made.extend(self.plan_index_list(
                &shape.from,
                last,
                lead.len(),
                &own,
                &plain,
                bench,
            )?);
        }
        Ok(made)
    }

    /// The kernel of one list of indices.
    fn plan_index_list(
        &self,
        from: &[IndexSource],
        along: Option<usize>,
        removed: usize,
        index: &MemoryTensor,
        plain: &TensorLayout,
        bench: &KernelWorkspace,
    ) -> PlannedKernels {
        let along = along.ok_or("its index is one number")? - removed;
        let plain = WorkTensor::new(self.plain.memory, plain)?;
        let x = WorkTensor::new(self.x.memory, &self.x.laid)?;
        let by = from
            .iter()
            .position(|f| matches!(f, IndexSource::Index(_)))
            .ok_or("nothing is looked up")?;
        if x.form.stick == Some(by) || plain.form.stick == Some(along) {
            return Err("the lanes run along its looked-up dimension".into());
        }
        let rank = plain.form.rank();
        let unit = |d: usize| if plain.form.stick == Some(d) { plain.form.eps } else { 1 };
        let spans: Vec<LoopSpan> =
            (0..rank).map(|d| LoopSpan::for_output(plain.form.size[d], unit(d))).collect();
        // Cores share all loops but the one over the indices, whose sticks have another number of lanes.
        let shared: Vec<LoopSpan> = spans
            .iter()
            .enumerate()
            .map(|(d, s)| LoopSpan { unit: if d == along { s.size.max(1) } else { s.unit }, ..*s })
            .collect();
        // torch-spyre (mid 2026) splits only the dimension of the index entries; here the other loops are
        // split, because the sticks of an index hold 32 entries and a partial one cannot be split.
        let splits = WorkDivision::distribute_units(&shared, bench.cores, false).splits().to_vec();
        let follows_x: Vec<Option<usize>> = from
            .iter()
            .map(|f| match f {
                IndexSource::Dim(d) => Some(if *d > along { d - removed } else { *d }),
                IndexSource::Index(_) => None,
            })
            .collect();
        let index = WorkTensor::new(index.memory, &index.laid)?;
        let all = (0..rank).map(Some).collect();
        let (tensors, follows, value) = if self.read {
            (vec![x, index, plain], vec![follows_x, vec![Some(along)], all], 0)
        } else {
            (vec![plain, index, x], vec![all, vec![Some(along)], follows_x], 2)
        };
        let loops =
            SdscLoops { spans, splits, follows, row: false, keep: Some(along), rounds: None };
        let cores = WorkCores::From(bench.first_core);
        let indexed = Some(IndexedDim { index: 1, value, dim: by, along });
        let func = OpFunc { operands: vec![0, 1], ..copy_function() };
        SdscKernel::from_work(&KernelWork { func, tensors, loops, cores, indexed })
    }
}
