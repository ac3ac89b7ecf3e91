//! Borders around a tensor.

use super::moves::{ElementMove, MoveKernel, TensorPiece, slice_piece};
use crate::error::Result;
use zellige_op::{BorderFill, PadOp};

impl MoveKernel for PadOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let x = &inputs[0];
        let rank = x.size().len();
        // Where the inside begins and ends in the result, after cropping.
        let mut inside = Vec::with_capacity(rank);
        let (mut from, mut to) = (x.clone(), output.clone());
        for d in 0..rank {
            let (before, after) = self.border_widths(d, rank);
            let (n, crop) = (x.size()[d], before.saturating_neg().max(0));
            // Widths come from the caller and may be any int64, also negative ones, which crop.
            let len = n.saturating_add(before.min(0)).saturating_add(after.min(0)).max(0);
            inside.push((before.max(0), len));
            from = slice_piece(&from, d, crop.min(n), len)?;
            to = slice_piece(&to, d, before.max(0).min(output.size()[d]), len)?;
        }
        let mut moves = Vec::new();
        if from.numel() > 0 {
            moves.push(ElementMove::Copy { from, to });
        }
        for d in 0..rank {
            // Dimensions before this one have their borders, those after it get them later.
            let (begin, len) = inside[d];
            let mut region = output.clone();
            let constant = matches!(self.border, BorderFill::Constant(_));
            // Every corner is written once. A constant needs no source, so that its borders are cut to the inside
            // of earlier dimensions; mirrored borders are read from the result, and so have to be made from inside
            // to outside.
            let others = if constant { 0..d } else { d + 1..rank };
            for k in others {
                region = slice_piece(&region, k, inside[k].0, inside[k].1)?;
            }
            let end = begin + len;
            for (first, width) in [(0, begin), (end, output.size()[d] - end)] {
                if width <= 0 {
                    continue;
                }
                let to = slice_piece(&region, d, first, width)?;
                if to.numel() > 0 {
                    moves.push(plan_border(self, &region, &to, d, first, (begin, len))?);
                }
            }
        }
        Ok(moves)
    }
}

/// The move that makes one border.
fn plan_border(
    pad: &PadOp,
    region: &TensorPiece,
    to: &TensorPiece,
    d: usize,
    first: i64,
    (begin, len): (i64, i64),
) -> Result<ElementMove> {
    let (dim, width, end) = (i64::try_from(d).unwrap_or(0), to.size()[d], begin + len);
    let before = first < begin;
    let from = match pad.border {
        BorderFill::Constant(value) => {
            return Ok(ElementMove::Fill { to: to.clone(), value });
        }
        BorderFill::Reflect => {
            // The element at the edge is not repeated, as in PyTorch's `reflect`.
            let at = if before { begin + 1 } else { end - 1 - width };
            slice_piece(region, d, at, width)?.view_piece(|v| v.flip(&[dim]))?
        }
        BorderFill::Replicate => {
            let at = if before { begin } else { end - 1 };
            slice_piece(region, d, at, 1)?.view_piece(|v| v.expand(to.size()))?
        }
        BorderFill::Circular => {
            slice_piece(region, d, if before { end - width } else { begin }, width)?
        }
    };
    Ok(ElementMove::Copy { from, to: to.clone() })
}
