//! The same elements in other places: flipped, rolled, repeated.

use super::moves::{Move, Moves, Piece, part};
use crate::error::Result;
use zellige_layout::StridedLayout;
use zellige_op::{Diag, Flip, Interleave, Repeat, Roll, axis};

impl Moves for Flip {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let from = inputs[0].viewed(|v| v.flip(&self.dims))?;
        Ok(vec![Move::Copy { from, to: output.clone() }])
    }
}

impl Moves for Roll {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        let mut moves = Vec::new();
        let Some(dims) = &self.dims else {
            let line = [x.numel()];
            let flat = match x.viewed(|v| v.view(&line)) {
                Ok(flat) => flat,
                Err(_) => {
                    // A view whose elements do not follow each other: lay them out first.
                    let plain = Piece::scratch(0, x)?;
                    moves.push(Move::Copy { from: x.clone(), to: plain.clone() });
                    plain.viewed(|v| v.view(&line))?
                }
            };
            pieces(&flat, &output.viewed(|v| v.view(&line))?, &[(0, self.shifts[0])], &mut moves)?;
            return Ok(moves);
        };
        let rank = x.size().len();
        let steps = dims.iter().zip(&self.shifts);
        let steps: Vec<(usize, i64)> =
            steps.filter_map(|(d, s)| axis(*d, rank).ok().map(|d| (d, *s))).collect();
        pieces(x, output, &steps, &mut moves)?;
        Ok(moves)
    }
}

/// Two pieces of every dimension: what is pushed on, and what comes in.
fn pieces(from: &Piece, to: &Piece, steps: &[(usize, i64)], moves: &mut Vec<Move>) -> Result<()> {
    let Some(((d, shift), rest)) = steps.split_first() else {
        moves.push(Move::Copy { from: from.clone(), to: to.clone() });
        return Ok(());
    };
    let n = from.size()[*d];
    let shift = shift.rem_euclid(n);
    for (at, into, len) in [(0, shift, n - shift), (n - shift, 0, shift)] {
        if len > 0 {
            pieces(&part(from, *d, at, len)?, &part(to, *d, into, len)?, rest, moves)?;
        }
    }
    Ok(())
}

impl Moves for Repeat {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        let lead = self.repeats.len() - x.size().len();
        let (mut split, mut stride) = (Vec::new(), Vec::new());
        for (d, r) in self.repeats.iter().enumerate() {
            let (n, s) =
                d.checked_sub(lead).map_or((1, 0), |k| (x.size()[k], x.view().stride()[k]));
            split.extend([*r, n]);
            stride.extend([0, s]);
        }
        let from = x.viewed(|v| StridedLayout::new(&split, &stride, v.offset()))?;
        let to = output.viewed(|v| v.view(&split))?;
        Ok(vec![Move::Copy { from, to }])
    }
}

impl Moves for Interleave {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        let d = self.dim.map_or(Ok(x.size().len()), |dim| axis(dim, x.size().len()).map(|d| d + 1));
        let at = d.unwrap_or(0);
        let (mut split, mut stride) = (x.size().to_vec(), x.view().stride().to_vec());
        split.insert(at, self.times);
        stride.insert(at, 0);
        let from = x.viewed(|v| StridedLayout::new(&split, &stride, v.offset()))?;
        let to = output.viewed(|v| v.view(&split))?;
        Ok(vec![Move::Copy { from, to }])
    }
}

impl Moves for Diag {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        if x.size().len() == 2 {
            return Ok(vec![Move::Copy { from: diagonal_of(self, x)?, to: output.clone() }]);
        }
        let mut moves = vec![Move::Fill { to: output.clone(), value: 0.0.into() }];
        if x.numel() > 0 {
            moves.push(Move::Copy { from: x.clone(), to: diagonal_of(self, output)? });
        }
        Ok(moves)
    }
}

/// The diagonal of a matrix.
fn diagonal_of(op: &Diag, matrix: &Piece) -> Result<Piece> {
    let (size, v) = (matrix.size(), matrix.view());
    let (right, down) = (op.diagonal.max(0), op.diagonal.saturating_neg().max(0));
    let n = (size[0] - down).min(size[1] - right).max(0);
    let offset = v.offset() + down * v.stride()[0] + right * v.stride()[1];
    let offset = if n == 0 { v.offset() } else { offset };
    matrix.viewed(|v| StridedLayout::new(&[n], &[v.stride()[0] + v.stride()[1]], offset))
}
