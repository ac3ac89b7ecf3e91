//! What torch-spyre (mid 2026) refuses of operations that write into parts of their result.

use super::probe::AlternativeProbe;
use crate::error::Result;
use zellige_device::TensorLayout;
use zellige_op::OpForm;
use zellige_stick::StickLayout;

impl AlternativeProbe<'_, '_> {
    /// The operand that would be written from the middle of a stick of the result on, with the reason. torch-spyre
    /// moves whole sticks, and has nothing that shifts lanes.
    pub(super) fn find_write_inside_stick(
        &self,
        operands: &[TensorLayout],
        results: &[StickLayout],
    ) -> Result<Option<(usize, String)>> {
        let ([first, ..], [result]) = (operands, results) else { return Ok(None) };
        let whole = TensorLayout::new(self.pass.options.storage, first.dtype(), result)?;
        let rank = whole.size().len();
        // Per operand that is copied, the dimension along which it has a place, and where that begins.
        let parts: Vec<(usize, usize, i64)> = match self.node.op.form() {
            // A stack makes a dimension of its own, along which every part begins at a whole stick or the dimension
            // is no stick.
            OpForm::Concat(concat) if !concat.rule.new => {
                let Ok(at) = concat.rule.concat_dim(rank) else { return Ok(None) };
                let mut begin = 0;
                let part = |(k, t): (usize, &TensorLayout)| {
                    let here = begin;
                    begin += t.size()[at];
                    (k, at, here)
                };
                operands.iter().enumerate().map(part).collect()
            }
            OpForm::SliceScatter(scatter) => {
                let Ok(at) = zellige_layout::wrap_negative_dim(scatter.rule.dim, rank) else {
                    return Ok(None);
                };
                let n = whole.size()[at];
                let start = scatter.rule.start.unwrap_or(0);
                let start = if start < 0 { start.saturating_add(n) } else { start };
                vec![(1, at, start.clamp(0, n))]
            }
            OpForm::Pad(pad) => {
                (0..rank).map(|d| (0, d, pad.rule.border_widths(d, rank).0.max(0))).collect()
            }
            _ => return Ok(None),
        };
        // A result without one stick dimension has no lanes that a part could begin in the middle of.
        let Ok(form) = whole.stick_form() else { return Ok(None) };
        for (k, at, begin) in parts {
            let lane = begin % i64::try_from(form.eps).unwrap_or(1);
            if form.stick == Some(at) && lane != 0 && operands[k].numel() > 0 {
                let reason = format!(
                    "its part of the result begins at index {begin} of dimension {at}, which is lane {lane} \
                     of a stick of {}; whole sticks are written",
                    form.eps
                );
                return Ok(Some((k, reason)));
            }
        }
        Ok(None)
    }
}
