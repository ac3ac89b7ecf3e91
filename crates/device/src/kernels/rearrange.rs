//! The same elements in other places: flipped, rolled, repeated.

use super::Meta;
use super::moves::{Move, Moves, Piece, Refusal, axis, only, part};
use crate::error::Result;
use zellige_layout::Strided;

/// Dimensions in reverse order.
#[derive(Debug)]
pub(crate) struct Flip {
    pub(crate) dims: Vec<i64>,
}

impl Moves for Flip {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        distinct(&self.dims, x.size.len())?;
        Ok(x.clone())
    }

    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let from = inputs[0].viewed(|v| v.flip(&self.dims))?;
        Ok(vec![Move::Copy { from, to: output.clone() }])
    }
}

fn distinct(dims: &[i64], rank: usize) -> Result<Vec<usize>, Refusal> {
    let mut seen = Vec::new();
    for dim in dims {
        let d = axis(*dim, rank)?;
        if seen.contains(&d) {
            return Err((None, format!("dimension {dim} is named twice")));
        }
        seen.push(d);
    }
    Ok(seen)
}

/// Elements pushed on by `shifts`, those that fall off at the end coming in at the beginning; without
/// dimensions, of the elements in row-major order.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) shifts: Vec<i64>,
    pub(crate) dims: Option<Vec<i64>>,
}

impl Moves for Roll {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        let dims = self.dims.as_ref().map_or(Ok(vec![0]), |d| distinct(d, x.size.len()))?;
        if dims.len() != self.shifts.len() {
            let reason = format!("{} shifts for {} dimensions", self.shifts.len(), dims.len());
            return Err((None, reason));
        }
        Ok(x.clone())
    }

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

/// The tensor again and again along every dimension; new leading dimensions are of extent 1 first.
#[derive(Debug)]
pub(crate) struct Repeat {
    pub(crate) repeats: Vec<i64>,
}

impl Moves for Repeat {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        let Some(lead) = self.repeats.len().checked_sub(x.size.len()) else {
            let reason = format!("{} repeats for {} dimensions", self.repeats.len(), x.size.len());
            return Err((Some(0), reason));
        };
        let times = |(d, r): (usize, &i64)| {
            let n = d.checked_sub(lead).map_or(1, |k| x.size[k]);
            n.checked_mul(*r).ok_or_else(|| (None, format!("{r} times {n} is too large")))
        };
        let size = self.repeats.iter().enumerate().map(times).collect::<Result<_, _>>()?;
        Ok(Meta { size, dtype: x.dtype })
    }

    fn place(&self, dim: usize, rank: usize) -> usize {
        self.repeats.len() - rank + dim
    }

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
        let from = x.viewed(|v| Strided::new(&split, &stride, v.offset()))?;
        let to = output.viewed(|v| v.view(&split))?;
        Ok(vec![Move::Copy { from, to }])
    }
}

/// Every element `times` along a dimension; without one, of the elements in row-major order.
#[derive(Debug)]
pub(crate) struct Interleave {
    pub(crate) times: i64,
    pub(crate) dim: Option<i64>,
}

impl Moves for Interleave {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        let times = |n: i64| {
            n.checked_mul(self.times).ok_or_else(|| (None, format!("{} is too large", self.times)))
        };
        let mut size = x.size.clone();
        match self.dim {
            Some(dim) => {
                let d = axis(dim, size.len())?;
                size[d] = times(size[d])?;
            }
            None => size = vec![times(x.size.iter().product())?],
        }
        Ok(Meta { size, dtype: x.dtype })
    }

    fn place(&self, dim: usize, _: usize) -> usize {
        if self.dim.is_none() { 0 } else { dim }
    }

    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        let d = self.dim.map_or(Ok(x.size().len()), |dim| axis(dim, x.size().len()).map(|d| d + 1));
        let at = d.unwrap_or(0);
        let (mut split, mut stride) = (x.size().to_vec(), x.view().stride().to_vec());
        split.insert(at, self.times);
        stride.insert(at, 0);
        let from = x.viewed(|v| Strided::new(&split, &stride, v.offset()))?;
        let to = output.viewed(|v| v.view(&split))?;
        Ok(vec![Move::Copy { from, to }])
    }
}

/// A diagonal of a matrix, or a matrix with a vector on that diagonal and zeros elsewhere.
#[derive(Debug)]
pub(crate) struct Diag {
    pub(crate) diagonal: i64,
}

impl Diag {
    /// The diagonal of a matrix.
    fn of(&self, matrix: &Piece) -> Result<Piece> {
        let (size, v) = (matrix.size(), matrix.view());
        let (right, down) = (self.diagonal.max(0), self.diagonal.saturating_neg().max(0));
        let n = (size[0] - down).min(size[1] - right).max(0);
        let offset = v.offset() + down * v.stride()[0] + right * v.stride()[1];
        let offset = if n == 0 { v.offset() } else { offset };
        matrix.viewed(|v| Strided::new(&[n], &[v.stride()[0] + v.stride()[1]], offset))
    }
}

impl Moves for Diag {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let x = only(inputs)?;
        let reach = i64::try_from(self.diagonal.unsigned_abs()).unwrap_or(i64::MAX);
        let size = match x.size.as_slice() {
            [n] => match n.checked_add(reach) {
                Some(n) => vec![n, n],
                None => return Err((None, format!("diagonal {} is too far", self.diagonal))),
            },
            [r, c] => {
                let (right, down) = if self.diagonal < 0 { (0, reach) } else { (reach, 0) };
                vec![r.saturating_sub(down).min(c.saturating_sub(right)).max(0)]
            }
            _ => {
                let reason = format!("it is for 1 or 2 dimensions, not {}", x.size.len());
                return Err((Some(0), reason));
            }
        };
        Ok(Meta { size, dtype: x.dtype })
    }

    fn place(&self, _: usize, rank: usize) -> usize {
        // A vector lies along the columns of its matrix; a diagonal has one dimension.
        if rank == 1 { 1 } else { 0 }
    }

    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let x = &inputs[0];
        if x.size().len() == 2 {
            return Ok(vec![Move::Copy { from: self.of(x)?, to: output.clone() }]);
        }
        let mut moves = vec![Move::Fill { to: output.clone(), value: 0.0.into() }];
        if x.numel() > 0 {
            moves.push(Move::Copy { from: x.clone(), to: self.of(output)? });
        }
        Ok(moves)
    }
}
