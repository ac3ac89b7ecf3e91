//! Tensors side by side, and tensors written into others.

use super::moves::{Move, Moves, Piece, part};
use crate::error::Result;
use zellige_op::{Concat, SliceScatter};

impl Moves for Concat {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let at = self.at(inputs[0].size().len()).map_or(0, |at| at);
        let mut begin = 0;
        let mut moves = Vec::with_capacity(inputs.len());
        for from in inputs {
            let to = if self.new {
                let dim = i64::try_from(at).unwrap_or(0);
                output.viewed(|v| v.select(dim, begin))?
            } else {
                part(output, at, begin, from.size()[at])?
            };
            begin += if self.new { 1 } else { from.size()[at] };
            if from.numel() > 0 {
                moves.push(Move::Copy { from: from.clone(), to });
            }
        }
        Ok(moves)
    }
}

impl Moves for SliceScatter {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let to = output.viewed(|v| v.slice_dim(self.dim, self.start, self.end, self.step))?;
        let mut moves = Vec::new();
        if !self.over {
            moves.push(Move::Copy { from: inputs[0].clone(), to: output.clone() });
        }
        if to.numel() > 0 {
            moves.push(Move::Copy { from: inputs[1].clone(), to });
        }
        Ok(moves)
    }
}
