//! Tensors side by side, and tensors written into others.

use super::Meta;
use super::moves::{Move, Moves, Piece, Refusal, axis, part};
use crate::error::Result;
use crate::lay::{Promotion, promote};

/// Operands one after the other along a dimension; with `new`, along a dimension of their own.
#[derive(Debug)]
pub(crate) struct Concat {
    pub(crate) dim: i64,
    pub(crate) new: bool,
}

impl Concat {
    /// The dimension in the result; operands have been checked.
    fn at(&self, rank: usize) -> Result<usize, Refusal> {
        axis(self.dim, rank + usize::from(self.new))
    }
}

impl Moves for Concat {
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let Some(first) = inputs.first() else {
            return Err((None, "it takes at least 1 operand".into()));
        };
        let dtype = promote(inputs, Promotion::Usual).map_err(|r| (None, r))?;
        let at = self.at(first.size.len())?;
        let mut size = first.size.clone();
        if self.new {
            size.insert(at, i64::try_from(inputs.len()).unwrap_or(i64::MAX));
        } else {
            size[at] = 0;
        }
        for (operand, m) in inputs.iter().enumerate() {
            let differ = |d: &usize| (self.new || *d != at) && m.size[*d] != first.size[*d];
            let same = m.size.len() == first.size.len() && !(0..m.size.len()).any(|d| differ(&d));
            if !same {
                let but = if self.new { String::new() } else { format!(" but for dimension {at}") };
                let reason = format!(
                    "operand {operand} has size {:?}, and operand 0 has {:?}; sizes agree{but}",
                    m.size, first.size
                );
                return Err((Some(operand), reason));
            }
            if !self.new {
                size[at] += m.size[at];
            }
        }
        Ok(Meta { size, dtype })
    }

    fn place(&self, dim: usize, rank: usize) -> usize {
        match self.at(rank) {
            Ok(at) if self.new && dim >= at => dim + 1,
            _ => dim,
        }
    }

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

/// Operand 0 with operand 1 in a slice of it.
#[derive(Debug, Clone)]
pub(crate) struct SliceScatter {
    pub(crate) dim: i64,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) step: i64,
    /// Whether the result is operand 0 itself.
    pub(crate) over: bool,
}

impl Moves for SliceScatter {
    fn over(&self) -> Option<SliceScatter> {
        Some(SliceScatter { over: true, ..self.clone() })
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal> {
        let [x, src] = inputs else {
            return Err((None, format!("it takes 2 operands, not {}", inputs.len())));
        };
        let refuse = |e: zellige_layout::Error| (None, e.to_string());
        let whole = zellige_layout::Strided::contiguous(&x.size).map_err(refuse)?;
        let slice = whole.slice(self.dim, self.start, self.end, self.step).map_err(refuse)?;
        if slice.size() != src.size {
            let reason =
                format!("operand 1 has size {:?}, and the slice {:?}", src.size, slice.size());
            return Err((Some(1), reason));
        }
        if x.dtype != src.dtype {
            return Err((
                Some(1),
                format!("operand 1 is {}, and operand 0 {}", src.dtype, x.dtype),
            ));
        }
        Ok(x.clone())
    }

    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>> {
        let to = output.viewed(|v| v.slice(self.dim, self.start, self.end, self.step))?;
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
