//! Operations that only move elements: a list of copies from operands into views of results.
//!
//! The device writes into a slice of the target (or reads from a slice of the source) with its moves;
//! there is nothing to compute. A copy plans its own bursts, so that what is charged is what it does.

use super::{Kernel, Lay, Meta, Task, Want};
use crate::account::{CoreWork, Kind, Work};
use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::laid::Laid;
use crate::sticks::Sticks;
use crate::tensor::Tensor;
use crate::transfer::Moved;
use std::fmt;

/// One step of such an operation.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    /// Copies elements between two views of one size.
    Copy {
        /// Read.
        from: Tensor,
        /// Written.
        to: Tensor,
    },
    /// Sets all elements of a view.
    Fill {
        /// Written.
        to: Tensor,
        /// What.
        value: f64,
    },
}

impl Move {
    fn run(&self) -> Result<Moved> {
        match self {
            Move::Copy { from, to } => to.copy_from(from),
            Move::Fill { to, value } => {
                let written = to.fill(*value)?;
                Ok(Moved { read: 0, read_runs: Vec::new(), ..written })
            }
        }
    }
}

/// Does the moves in their order, each shared by the cores.
///
/// # Errors
/// What a copy refuses; earlier ones are done then.
pub(crate) fn perform(name: &str, moves: &[Move], cores: usize) -> Result<Work> {
    let mut all = Work::uniform(name, Kind::Copy, cores, CoreWork::default());
    for step in moves {
        let work = step.run()?.work(name, Kind::Copy, cores);
        for (sum, core) in all.cores.iter_mut().zip(&work.cores) {
            sum.reads.merge(&core.reads);
            sum.writes.merge(&core.writes);
            sum.padding_bytes += core.padding_bytes;
            sum.lx_bytes += core.lx_bytes;
            sum.lx_peak = sum.lx_peak.max(core.lx_peak);
        }
    }
    Ok(all)
}

/// What is wrong with the operands, and which one.
pub(crate) type Refusal = (Option<usize>, String);

/// The dimension that a number counted from either end names.
pub(crate) fn axis(dim: i64, rank: usize) -> Result<usize, Refusal> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    match usize::try_from(if dim < 0 { dim + n } else { dim }) {
        Ok(d) if d < rank => Ok(d),
        _ => {
            Err((None, format!("there is no dimension {dim}; dimensions are {} to {}", -n, n - 1)))
        }
    }
}

/// The only operand.
pub(crate) fn only(inputs: &[Meta]) -> Result<&Meta, Refusal> {
    match inputs {
        [x] => Ok(x),
        _ => Err((None, format!("it takes 1 operand, not {}", inputs.len()))),
    }
}

/// Part of a dimension of a view.
pub(crate) fn part(t: &Tensor, dim: usize, start: i64, len: i64) -> Result<Tensor> {
    let d = i64::try_from(dim).unwrap_or(i64::MAX);
    t.viewed(|v| v.slice(d, Some(start), Some(start + len), 1))
}

/// The rule of an operation that only moves.
pub(crate) trait Moves: fmt::Debug + Send + Sync {
    /// Sizes and dtypes of the results; a reason where operands do not fit, with the operand.
    fn infer(&self, inputs: &[Meta]) -> Result<Meta, Refusal>;

    /// Which dimension of the result dimension `dim` of an operand of that rank becomes.
    fn place(&self, dim: usize, _rank: usize) -> usize {
        dim
    }

    /// The copies.
    fn moves(&self, inputs: &[Tensor], output: &Tensor) -> Result<Vec<Move>>;
}

/// Such an operation.
#[derive(Debug)]
pub(crate) struct Moving<M> {
    pub(crate) name: &'static str,
    pub(crate) rule: M,
}

impl<M: Moves> Kernel for Moving<M> {
    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let refuse =
            |(operand, reason)| DeviceError::BadOperand { op: self.name.into(), operand, reason };
        let meta = self.rule.infer(inputs).map_err(refuse)?;
        meta.dtype.device_format()?;
        Ok(vec![meta])
    }

    /// A result lies as its first regular operand does; dimensions that this has not come first.
    fn lay(&self, inputs: &[Laid], outputs: &[Meta]) -> Result<Lay> {
        let out = &outputs[0];
        let format = crate::lay::result_format(inputs, out.dtype)?;
        let size: Vec<usize> = out.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let form = inputs.iter().find_map(|t| t.sticks().ok().filter(|s| s.numel() > 0));
        let layout = match form {
            Some(form) => {
                let mut own = Sticks { size: size.as_slice().into(), ..form.clone() };
                own.stride = smallvec::SmallVec::from_elem(0, size.len());
                own.stick = form.stick.map(|s| self.rule.place(s, form.rank()));
                for d in 0..form.rank() {
                    own.stride[self.rule.place(d, form.rank())] = form.stride[d];
                }
                crate::lay::arranged(&own, format)?
            }
            None => zellige_layout::StickLayout::default_in(&out.size, None, format)?,
        };
        Ok(Lay { inputs: vec![Want::Any; inputs.len()], outputs: vec![layout] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        super::pointwise::spans(&[], &outputs[0])
    }

    fn moves(&self, inputs: &[Tensor], outputs: &[Tensor]) -> Result<Option<Vec<Move>>> {
        if outputs[0].numel() == 0 {
            return Ok(Some(Vec::new()));
        }
        self.rule.moves(inputs, &outputs[0]).map(Some)
    }

    fn task(&self, _: &[Sticks], _: &[Sticks], _: &Division) -> Result<Box<dyn Task>> {
        Err(DeviceError::BadOperand {
            op: self.name.into(),
            operand: None,
            reason: "it is made of moves and has no task".into(),
        })
    }
}
