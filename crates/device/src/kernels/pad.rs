//! Borders around a tensor.

use super::moves::{Move, Moves, Piece, part};
use crate::error::Result;
use zellige_op::{Border, Pad};

impl Moves for Pad {
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        let rank = x.size().len();
        // Where the inside begins and ends in the result, after cropping.
        let mut inside = Vec::with_capacity(rank);
        let (mut from, mut to) = (x.clone(), output.clone());
        for d in 0..rank {
            let (before, after) = self.around(d, rank);
            let (n, crop) = (x.size()[d], before.saturating_neg().max(0));
            let len = n.saturating_add(before.min(0)).saturating_add(after.min(0)).max(0);
            inside.push((before.max(0), len));
            from = part(&from, d, crop.min(n), len)?;
            to = part(&to, d, before.max(0).min(output.size()[d]), len)?;
        }
        let mut moves = Vec::new();
        if from.numel() > 0 {
            moves.push(Move::Copy { from, to });
        }
        for d in 0..rank {
            // Dimensions before this one have their borders, those after it get them later.
            let (begin, len) = inside[d];
            let mut region = output.clone();
            let constant = matches!(self.border, Border::Constant(_));
            let others = if constant { 0..d } else { d + 1..rank };
            for k in others {
                region = part(&region, k, inside[k].0, inside[k].1)?;
            }
            let end = begin + len;
            for (first, width) in [(0, begin), (end, output.size()[d] - end)] {
                if width <= 0 {
                    continue;
                }
                let to = part(&region, d, first, width)?;
                if to.numel() > 0 {
                    moves.push(border_of(self, &region, &to, d, first, (begin, len))?);
                }
            }
        }
        Ok(moves)
    }
}

/// The move that makes one border.
fn border_of(
    pad: &Pad,
    region: &Piece,
    to: &Piece,
    d: usize,
    first: i64,
    (begin, len): (i64, i64),
) -> Result<Move> {
    let (dim, width, end) = (i64::try_from(d).unwrap_or(0), to.size()[d], begin + len);
    let before = first < begin;
    let from = match pad.border {
        Border::Constant(value) => {
            return Ok(Move::Fill { to: to.clone(), value });
        }
        Border::Reflect => {
            let at = if before { begin + 1 } else { end - 1 - width };
            part(region, d, at, width)?.viewed(|v| v.flip(&[dim]))?
        }
        Border::Replicate => {
            let at = if before { begin } else { end - 1 };
            part(region, d, at, 1)?.viewed(|v| v.expand(to.size()))?
        }
        Border::Circular => part(region, d, if before { end - width } else { begin }, width)?,
    };
    Ok(Move::Copy { from, to: to.clone() })
}
