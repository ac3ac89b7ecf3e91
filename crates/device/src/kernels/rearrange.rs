//! The same elements in other places: flipped, rolled, repeated.

use super::moves::{ElementMove, MoveKernel, TensorPiece, slice_piece};
use crate::error::Result;
use zellige_layout::StridedLayout;
use zellige_op::{DiagOp, FlipOp, InterleaveOp, RepeatOp, RollOp, resolve_axis};

impl MoveKernel for FlipOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let from = inputs[0].view_piece(|v| v.flip(&self.dims))?;
        Ok(vec![ElementMove::Copy { from, to: output.clone() }])
    }
}

impl MoveKernel for RollOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let x = &inputs[0];
        let mut moves = Vec::new();
        let Some(dims) = &self.dims else {
            // Without dimensions PyTorch rolls the flattened tensor.
            let line = [x.numel()];
            let flat = match x.view_piece(|v| v.view(&line)) {
                Ok(flat) => flat,
                Err(_) => {
                    // A view whose elements do not follow each other cannot be flattened: they are copied first.
                    let plain = TensorPiece::scratch_like(0, x)?;
                    moves.push(ElementMove::Copy { from: x.clone(), to: plain.clone() });
                    plain.view_piece(|v| v.view(&line))?
                }
            };
            push_roll_moves(
                &flat,
                &output.view_piece(|v| v.view(&line))?,
                &[(0, self.shifts[0])],
                &mut moves,
            )?;
            return Ok(moves);
        };
        let rank = x.size().len();
        let steps = dims.iter().zip(&self.shifts);
        let steps: Vec<(usize, i64)> =
            steps.filter_map(|(d, s)| resolve_axis(*d, rank).ok().map(|d| (d, *s))).collect();
        push_roll_moves(x, output, &steps, &mut moves)?;
        Ok(moves)
    }
}

/// Adds the copies of a rotation: two pieces per dimension, one that moves up and one that moves to the front.
fn push_roll_moves(
    from: &TensorPiece,
    to: &TensorPiece,
    steps: &[(usize, i64)],
    moves: &mut Vec<ElementMove>,
) -> Result<()> {
    let Some(((d, shift), rest)) = steps.split_first() else {
        moves.push(ElementMove::Copy { from: from.clone(), to: to.clone() });
        return Ok(());
    };
    let n = from.size()[*d];
    let shift = shift.rem_euclid(n);
    // A rotation is two pieces, each of which is a plain copy; k dimensions give at most 2^k of them.
    for (at, into, len) in [(0, shift, n - shift), (n - shift, 0, shift)] {
        if len > 0 {
            push_roll_moves(
                &slice_piece(from, *d, at, len)?,
                &slice_piece(to, *d, into, len)?,
                rest,
                moves,
            )?;
        }
    }
    Ok(())
}

impl MoveKernel for RepeatOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let x = &inputs[0];
        let lead = self.repeats.len() - x.size().len();
        let (mut split, mut stride) = (Vec::new(), Vec::new());
        for (d, r) in self.repeats.iter().enumerate() {
            let (n, s) =
                d.checked_sub(lead).map_or((1, 0), |k| (x.size()[k], x.view().stride()[k]));
            split.extend([*r, n]);
            // A stride of zero reads the same element for every repetition, so that no repeated copy is ever
            // stored.
            stride.extend([0, s]);
        }
        let from = x.view_piece(|v| StridedLayout::new(&split, &stride, v.offset()))?;
        let to = output.view_piece(|v| v.view(&split))?;
        Ok(vec![ElementMove::Copy { from, to }])
    }
}

impl MoveKernel for InterleaveOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let x = &inputs[0];
        let d = self
            .dim
            .map_or(Ok(x.size().len()), |dim| resolve_axis(dim, x.size().len()).map(|d| d + 1));
        let at = d.unwrap_or(0);
        let (mut split, mut stride) = (x.size().to_vec(), x.view().stride().to_vec());
        split.insert(at, self.times);
        // As above, right after the dimension whose elements are repeated.
        stride.insert(at, 0);
        let from = x.view_piece(|v| StridedLayout::new(&split, &stride, v.offset()))?;
        let to = output.view_piece(|v| v.view(&split))?;
        Ok(vec![ElementMove::Copy { from, to }])
    }
}

impl MoveKernel for DiagOp {
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>> {
        let x = &inputs[0];
        if x.size().len() == 2 {
            return Ok(vec![ElementMove::Copy {
                from: view_diagonal(self, x)?,
                to: output.clone(),
            }]);
        }
        // Zeros first, then the diagonal: the other order would overwrite it.
        let mut moves = vec![ElementMove::Fill { to: output.clone(), value: 0.0.into() }];
        if x.numel() > 0 {
            moves.push(ElementMove::Copy { from: x.clone(), to: view_diagonal(self, output)? });
        }
        Ok(moves)
    }
}

/// The diagonal of a matrix.
fn view_diagonal(op: &DiagOp, matrix: &TensorPiece) -> Result<TensorPiece> {
    let (size, v) = (matrix.size(), matrix.view());
    // The negation saturates because the smallest int64 has no positive counterpart, and the extent is 0 either
    // way.
    let (right, down) = (op.diagonal.max(0), op.diagonal.saturating_neg().max(0));
    let n = (size[0] - down).min(size[1] - right).max(0);
    let offset = v.offset() + down * v.stride()[0] + right * v.stride()[1];
    let offset = if n == 0 { v.offset() } else { offset };
    matrix.view_piece(|v| StridedLayout::new(&[n], &[v.stride()[0] + v.stride()[1]], offset))
}
