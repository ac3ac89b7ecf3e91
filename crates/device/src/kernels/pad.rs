//! Borders around a tensor.

use super::Meta;
use super::moves::{Move, Moves, Piece, Refusal, only, part};
use crate::error::Result;
use crate::scalar::Scalar;

/// What a border holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Border {
    /// A number.
    Constant(Scalar),
    /// The inside mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The nearest element of the inside.
    Replicate,
    /// The other end of the inside.
    Circular,
}

/// Borders before and after the last dimensions, the last dimension first, as PyTorch lists them.
/// Negative ones crop; that is for constant borders.
#[derive(Debug)]
pub(crate) struct Pad {
    pub(crate) widths: Vec<i64>,
    pub(crate) border: Border,
}

impl Pad {
    /// Before and after a dimension.
    fn around(&self, dim: usize, rank: usize) -> (i64, i64) {
        let k = 2 * (rank - 1 - dim);
        let at = |k: usize| self.widths.get(k).copied().unwrap_or(0);
        (at(k), at(k + 1))
    }

    /// What fits into a dimension of `n`.
    fn fits(&self, n: i64, width: i64) -> bool {
        match self.border {
            Border::Constant(_) => true,
            Border::Reflect => (0..n.max(1)).contains(&width),
            Border::Replicate => width >= 0 && (n > 0 || width == 0),
            Border::Circular => (0..=n).contains(&width),
        }
    }
}

impl Moves for Pad {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        let rank = x.size.len();
        if self.widths.len() > 2 * rank {
            let reason = format!("pad has {} numbers for {rank} dimensions", self.widths.len());
            return Err((Some(0), reason));
        }
        let mut size = x.size.clone();
        for (d, n) in size.iter_mut().enumerate() {
            let (before, after) = self.around(d, rank);
            let padded = n.checked_add(before).and_then(|n| n.checked_add(after));
            match padded {
                Some(p) if p >= 0 && self.fits(*n, before) && self.fits(*n, after) => *n = p,
                _ => {
                    let reason = format!(
                        "dimension {d} has {n} elements; borders of {before} and {after} do not \
                         fit it ({:?})",
                        self.border
                    );
                    return Err((Some(0), reason));
                }
            }
        }
        Ok(Meta { size, dtype: x.dtype })
    }

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
                    moves.push(self.border_of(&region, &to, d, first, (begin, len))?);
                }
            }
        }
        Ok(moves)
    }
}

impl Pad {
    /// The move that makes one border.
    fn border_of(
        &self,
        region: &Piece,
        to: &Piece,
        d: usize,
        first: i64,
        (begin, len): (i64, i64),
    ) -> Result<Move> {
        let (dim, width, end) = (i64::try_from(d).unwrap_or(0), to.size()[d], begin + len);
        let before = first < begin;
        let from = match self.border {
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
}
