//! What a core does for attention.

use super::super::matmul::account::padded_extent;
use super::super::share::CoreShare;
use crate::tensor::sticks::StickForm;
use zellige_machine::account::{CoreWork, saturating_product};
use zellige_machine::{KERNEL_SCRATCHPAD, STREAMED_TENSOR_BYTES};

/// The cores that have the same parts of the operands as a core.
pub(super) struct AttentionShares {
    pub(super) q: CoreShare,
    pub(super) mask: CoreShare,
    pub(super) keys: CoreShare,
    pub(super) values: CoreShare,
}

/// What a core does with its rows of Q, of the result and of the mask, and the keys of one batch.
///
/// A block of rows is resident with its scores and sums; K and V are streamed past it, once for each
/// block of rows of each batch. A score takes four operations of the SFU (scale, maximum, sum,
/// division), one more with a mask, and an exponential.
pub(super) fn charge_attention(
    (q, out, mask): (&StickForm, &StickForm, Option<&StickForm>),
    (k, v): (&StickForm, &StickForm),
    shares: &AttentionShares,
) -> CoreWork {
    let mut work = CoreWork::default();
    let (row, column) = (q.rank() - 2, q.rank() - 1);
    let (key, value) = (k.rank() - 2, k.rank() - 1);
    let rows: u64 = q.size[..column].iter().map(|n| *n as u64).product();
    let keys = padded_extent(k, key);
    let (depth, width) = (padded_extent(q, column), padded_extent(v, value));
    let valid = [k.size[key] as u64, (q.size[column] + v.size[value]) as u64];
    work.macs = saturating_product([rows, keys, depth + width]);
    work.macs_valid = saturating_product([rows, valid[0], valid[1]]);
    work.sfu = saturating_product([rows, keys, if mask.is_some() { 5 } else { 4 }]);
    work.sfu_transcendental = saturating_product([rows, keys]);
    for (t, share) in [(Some(q), shares.q), (mask, shares.mask)] {
        let Some(t) = t else { continue };
        let (bursts, padding) = t.stick_traffic();
        share.charge_reads(&mut work, &bursts, 1);
        work.padding_bytes += padding;
    }
    let (bursts, padding) = out.stick_traffic();
    work.writes.merge_traffic(&bursts);
    work.padding_bytes += padding;
    // Rows per block: as many as fit beside the two streamed tensors, each with its depth of Q, its scores and its
    // sums in float32.
    let lines = q.size[row] as u64;
    let resident = depth * q.format.byte_size() as u64 + keys * 4 + width * 4;
    let block =
        ((KERNEL_SCRATCHPAD - 2 * STREAMED_TENSOR_BYTES) / resident.max(1)).clamp(1, lines.max(1));
    work.lx_peak = (block * resident + 2 * STREAMED_TENSOR_BYTES).min(KERNEL_SCRATCHPAD);
    let batches: u64 = q.size[..row].iter().map(|n| *n as u64).product();
    // K and V are larger than a block and are not kept between blocks.
    let times = batches * lines.div_ceil(block);
    for (t, share) in [(k, shares.keys), (v, shares.values)] {
        let (bursts, padding) = t.stick_traffic();
        share.charge_reads(&mut work, &bursts, times);
        work.padding_bytes =
            work.padding_bytes.saturating_add(saturating_product([padding, times]));
    }
    work.lx_bytes = work.reads.total_bytes().saturating_add(work.writes.total_bytes());
    if k.stick == Some(value) {
        // Tiles of K are transposed in the scratchpad: written and read once more.
        let turned = saturating_product([2, times, k.stick_traffic().0.total_bytes()]);
        work.lx_bytes = work.lx_bytes.saturating_add(turned);
    }
    work
}
