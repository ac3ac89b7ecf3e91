//! Norms: a line less its mean, over its deviation, times a weight, plus a bias.

use super::{Charge, Line, LineOp, Wide, operands, refuse};
use crate::error::{DeviceError, Result};
use crate::kernels::Meta;
use crate::kernels::reduce::Lies;
use crate::lay::is_float;
use crate::sticks::{Dims, Sticks};
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_math as math;

/// Which norm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Over {
    /// `layer_norm` over trailing dimensions of these extents.
    Layer(Vec<i64>),
    /// `rms_norm` over trailing dimensions of these extents: the mean is taken as 0.
    Rms(Vec<i64>),
    /// `group_norm`: dimension 1 in so many groups, each with all dimensions after it.
    Groups(usize),
    /// `batch_norm` with given means and variances along dimension 1.
    Batch,
}

/// A norm. With sums in the order of `math::reduce` over the line (row-major) of n numbers:
/// mean = sum x / n, var = sum (x - mean)^2 / n, rstd = 1 / sqrt(var + eps), and the result is
/// (x - mean) * rstd * weight + bias, each step rounded to float32, from left to right.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    pub(crate) name: &'static str,
    pub(crate) over: Over,
    pub(crate) eps: f32,
}

impl Norm {
    fn needs(&self) -> usize {
        if self.over == Over::Batch { 3 } else { 1 }
    }

    fn trailing(&self) -> Option<&[i64]> {
        match &self.over {
            Over::Layer(shape) | Over::Rms(shape) => Some(shape),
            Over::Groups(_) | Over::Batch => None,
        }
    }

    fn bad(&self, name: &str, reason: String) -> DeviceError {
        DeviceError::BadAttribute { op: self.name.into(), name: name.into(), reason }
    }
}

impl LineOp for Norm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let most = self.needs() + if matches!(self.over, Over::Rms(_)) { 1 } else { 2 };
        operands(self.name, inputs, most, self.needs())?;
        let size = &inputs[0].size;
        for (operand, t) in inputs.iter().enumerate() {
            if !is_float(t.dtype) {
                let reason = format!("operand {operand} is {}, and it is for floats", t.dtype);
                return Err(refuse(self.name, Some(operand), reason));
            }
        }
        let expected = match (self.trailing(), &self.over) {
            (Some(shape), _) => {
                if shape.is_empty() || !size.ends_with(shape) {
                    let reason =
                        format!("{shape:?} are not the last extents of an operand of {size:?}");
                    return Err(self.bad("normalized_shape", reason));
                }
                shape.to_vec()
            }
            (None, over) => {
                let Some(channels) = size.get(1) else {
                    let reason = format!("its operand has channels in dimension 1, not {size:?}");
                    return Err(refuse(self.name, Some(0), reason));
                };
                if let Over::Groups(groups) = over {
                    let groups = i64::try_from(*groups).unwrap_or(i64::MAX);
                    if groups == 0 || channels % groups != 0 {
                        let reason = format!("{groups} groups do not divide {channels} channels");
                        return Err(self.bad("num_groups", reason));
                    }
                }
                vec![*channels]
            }
        };
        for (operand, t) in inputs.iter().enumerate().skip(1) {
            if t.size != expected {
                let reason = format!("operand {operand} has size {:?}, not {expected:?}", t.size);
                return Err(refuse(self.name, Some(operand), reason));
            }
        }
        Ok(vec![inputs[0].clone()])
    }

    fn along(&self, size: &[usize]) -> Result<Dims<usize>> {
        let rank = size.len();
        Ok(match &self.over {
            Over::Layer(shape) | Over::Rms(shape) => (rank - shape.len().min(rank)..rank).collect(),
            Over::Groups(_) => (1..rank).collect(),
            // Without other dimensions, a line is a batch of one channel.
            Over::Batch if rank == 2 => SmallVec::from_slice(&[0]),
            Over::Batch => (2..rank).collect(),
        })
    }

    fn lanes(&self, size: &[usize]) -> Result<Lies> {
        Ok(match &self.over {
            Over::Layer(_) | Over::Rms(_) => Lies::Along(size.len() - 1),
            // Not along the channels, as groups begin anywhere.
            Over::Groups(_) => {
                let mut other = (0..size.len()).rev().filter(|d| *d != 1 && size[*d] > 1);
                other.next().map_or(Lies::Sparse, Lies::Along)
            }
            Over::Batch => Lies::Any,
        })
    }

    fn others(&self, lanes: Option<usize>) -> Lies {
        match self.over {
            Over::Layer(_) | Over::Rms(_) => Lies::Any,
            Over::Batch if lanes == Some(1) => Lies::Along(0),
            Over::Groups(_) | Over::Batch => Lies::Sparse,
        }
    }

    fn wide(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Result<Wide> {
        let x = &inputs[0];
        let along = self.along(&x.size)?;
        // Vectors along the channels, with all dimensions of the operand.
        let channels = |t: &Sticks, repeat: bool| {
            let mut full = Sticks {
                size: if repeat { x.size.clone() } else { SmallVec::from_elem(1, x.rank()) },
                stride: SmallVec::from_elem(0, x.rank()),
                stick: t.stick.map(|_| 1),
                ..t.clone()
            };
            full.size[1] = t.size[0];
            full.stride[1] = t.stride[0];
            full
        };
        match self.over {
            Over::Layer(_) | Over::Rms(_) => {
                let fit = |t: &Sticks| t.expand(&x.size).unwrap_or_else(|| t.clone());
                let inputs = inputs.iter().map(fit).collect();
                Ok(Wide { inputs, outputs: outputs.to_vec(), along })
            }
            Over::Batch => {
                let rest = inputs[1..].iter().map(|t| channels(t, false));
                let inputs = [x.clone()].into_iter().chain(rest).collect();
                Ok(Wide { inputs, outputs: outputs.to_vec(), along })
            }
            Over::Groups(groups) => {
                let split = |t: &Sticks| {
                    split(t, groups).ok_or_else(|| {
                        let reason = "its channels run along the lanes, and groups cannot";
                        refuse(self.name, None, reason)
                    })
                };
                let rest = inputs[1..].iter().map(|t| channels(t, true));
                let all = [x.clone()].into_iter().chain(rest);
                let inputs = all.map(|t| split(&t)).collect::<Result<_>>()?;
                let outputs = outputs.iter().map(split).collect::<Result<_>>()?;
                Ok(Wide { inputs, outputs, along: (2..=x.rank()).collect() })
            }
        }
    }

    fn meets(&self, first: &Sticks, other: &Sticks, dim: usize) -> Option<usize> {
        match self.over {
            Over::Layer(_) | Over::Rms(_) => (first.rank() + dim).checked_sub(other.rank()),
            // The vectors run along the channels.
            Over::Batch if other.rank() < first.rank() => Some(1),
            Over::Batch => Some(dim),
            // A slice has whole groups, which are parts of a dimension.
            Over::Groups(_) => None,
        }
    }

    fn charge(&self, n: usize) -> Charge {
        Charge { plain: 6 * n as u64, transcendental: 1 }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(Row { over: self.over.clone(), eps: self.eps }))
    }
}

/// Dimension 1 as groups and channels of a group; none where it runs along the lanes.
fn split(t: &Sticks, groups: usize) -> Option<Sticks> {
    if t.stick == Some(1) {
        return None;
    }
    let mut parts = t.clone();
    let each = t.size[1] / groups;
    parts.size[1] = groups;
    parts.size.insert(2, each);
    parts.stride.insert(2, t.stride[1]);
    parts.stride[1] = t.stride[1] * each;
    parts.stick = t.stick.map(|s| if s > 1 { s + 1 } else { s });
    Some(parts)
}

struct Row {
    over: Over,
    eps: f32,
}

impl Line<f32> for Row {
    fn run(&self, x: &mut [f32], others: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        let n = x.len() as f32;
        let rstd = |var: f32| 1.0 / (var + self.eps).sqrt();
        if self.over == Over::Batch {
            let (mean, var) = (others[0][0], others[1][0]);
            let (weight, bias) = (others.get(2).map(|o| o[0]), others.get(3).map(|o| o[0]));
            let rstd = rstd(var);
            for (v, x) in values.iter_mut().zip(x) {
                let y = (*x - mean) * rstd;
                let y = weight.map_or(y, |w| y * w);
                *v = math::canonical(bias.map_or(y, |b| y + b));
            }
            return;
        }
        let (mean, squares) = if let Over::Rms(_) = self.over {
            (0.0, math::sum_of_squares(x))
        } else {
            let mean = math::sum(x) / n;
            (mean, math::sum_of_squares_about(x, mean))
        };
        let (weight, bias) = (others.first().copied(), others.get(1).copied());
        math::affine(x, mean, rstd(squares / n), weight, bias, values);
    }
}
