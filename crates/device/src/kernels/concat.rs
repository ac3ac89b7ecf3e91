//! Concatenation, and tensors written into a slice of another one.

use super::moves::{ElementMove, MoveKernel, TensorPiece, slice_piece};
use crate::error::Result;
use zellige_op::{ConcatOp, SliceScatterOp};

impl MoveKernel for ConcatOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let at = self.concat_dim(inputs[0].size().len()).map_or(0, |at| at);
        let mut begin = 0;
        let mut moves = Vec::with_capacity(inputs.len());
        for from in inputs {
            let to = if self.new {
                let dim = i64::try_from(at).unwrap_or(0);
                output.view_piece(|v| v.select(dim, begin))?
            } else {
                slice_piece(output, at, begin, from.size()[at])?
            };
            begin += if self.new { 1 } else { from.size()[at] };
            // An empty tensor has no elements, and a view of none is not planned.
            if from.numel() > 0 {
                moves.push(ElementMove::Copy { from: from.clone(), to });
            }
        }
        Ok(moves)
    }
}

impl MoveKernel for SliceScatterOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let to = output.view_piece(|v| v.slice_dim(self.dim, self.start, self.end, self.step))?;
        let mut moves = Vec::new();
        // Where the result takes the place of the target, the rest of it is there already.
        if !self.over {
            moves.push(ElementMove::Copy { from: inputs[0].clone(), to: output.clone() });
        }
        if to.numel() > 0 {
            moves.push(ElementMove::Copy { from: inputs[1].clone(), to });
        }
        Ok(moves)
    }
}
