//! What it costs to let the host do an operation.

use crate::card::Card;
use crate::error::Result;
use crate::run::compute::tensor_layouts;
use crate::run::run_op::RunOp;
use crate::tensor::Tensor;
use crate::tensor::format::host_format;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_machine::account::{CoreWork, MemoryTraffic, OperationWork, WorkKind};
use zellige_op::TensorOp;

/// What is charged: the work of the cores, or the round trip to the host.
pub(super) fn charge_op(
    op: &TensorOp,
    card: &Card,
    work: OperationWork,
    operands: &[Tensor],
    results: &[Tensor],
) -> Result<OperationWork> {
    if op.runs_on_host(card) {
        plan_round_trip(op, &tensor_layouts(operands), &tensor_layouts(results))
    } else {
        Ok(work)
    }
}

/// What it takes to let the host do it: operands are downloaded, the host computes, results are
/// uploaded.
///
/// The bytes cross the link one after the other, as there is nothing to send back before the last
/// operand has arrived. What the host takes to compute is not charged: no figure describes it.
///
/// # Errors
/// Dtypes without a host format.
pub(super) fn plan_round_trip(
    op: &TensorOp,
    operands: &[TensorLayout],
    results: &[TensorLayout],
) -> Result<OperationWork> {
    let mut engine = CoreWork::default();
    for t in operands {
        engine.reads.merge_traffic(&stick_traffic(t, &mut engine.padding_bytes)?);
        engine.host_out += host_bytes(t)?;
    }
    for t in results {
        engine.writes.merge_traffic(&stick_traffic(t, &mut engine.padding_bytes)?);
        engine.host_in += host_bytes(t)?;
    }
    Ok(OperationWork::new(format!("{} on the host", op.name()), WorkKind::Fallback, vec![engine]))
}

fn host_bytes(t: &TensorLayout) -> Result<u64> {
    Ok(t.numel().unsigned_abs() * host_format(t.dtype())?.byte_size() as u64)
}

/// The sticks of a tensor; of one that kernels cannot read in its layout, those of its base.
fn stick_traffic(t: &TensorLayout, padding: &mut u64) -> Result<MemoryTraffic> {
    let (traffic, unused) = match t.stick_form() {
        Ok(form) => form.stick_traffic(),
        Err(_) => {
            let bytes = t.stick_layout().device_bytes()?.unsigned_abs();
            (MemoryTraffic::from_bursts(bytes, 1), bytes.saturating_sub(t.valid_bytes()))
        }
    };
    *padding += unused;
    Ok(traffic)
}
