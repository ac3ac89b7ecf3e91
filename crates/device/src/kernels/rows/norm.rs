//! Norms: a line less its mean, over its deviation, times a weight, plus a bias.

use super::{AlignedForms, LineCost, LineFunction, LineOpKernel};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::kernels::reduce::LaneDemand;
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;
use std::sync::Arc;
use zellige_math as math;
use zellige_op::LineOperation;
use zellige_op::{NormKind, NormOp};

impl LineOpKernel for NormOp {
    fn first_lane_demand(&self, size: &[usize]) -> Result<LaneDemand> {
        Ok(match &self.over {
            NormKind::Layer(_) | NormKind::Rms(_) => LaneDemand::Along(size.len() - 1),
            // Not along the channels, as groups begin anywhere.
            NormKind::Groups(_) => {
                let mut other = (0..size.len()).rev().filter(|d| *d != 1 && size[*d] > 1);
                other.next().map_or(LaneDemand::Sparse, LaneDemand::Along)
            }
            NormKind::Batch => LaneDemand::Any,
        })
    }

    fn other_lane_demand(&self, lanes: Option<usize>) -> LaneDemand {
        match self.over {
            NormKind::Layer(_) | NormKind::Rms(_) => LaneDemand::Any,
            NormKind::Batch if lanes == Some(1) => LaneDemand::Along(0),
            NormKind::Groups(_) | NormKind::Batch => LaneDemand::Sparse,
        }
    }

    fn align_forms(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Result<AlignedForms> {
        let x = &inputs[0];
        let along = self.line_dims(&x.size)?;
        // Vectors along the channels, with all dimensions of the operand.
        let channels = |t: &StickForm, repeat: bool| {
            let mut full = StickForm {
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
            NormKind::Layer(_) | NormKind::Rms(_) => {
                let fit = |t: &StickForm| t.expand_to(&x.size).unwrap_or_else(|| t.clone());
                let inputs = inputs.iter().map(fit).collect();
                Ok(AlignedForms { inputs, outputs: outputs.to_vec(), along })
            }
            NormKind::Batch => {
                let rest = inputs[1..].iter().map(|t| channels(t, false));
                let inputs = [x.clone()].into_iter().chain(rest).collect();
                Ok(AlignedForms { inputs, outputs: outputs.to_vec(), along })
            }
            NormKind::Groups(groups) => {
                let split = |t: &StickForm| {
                    split_groups(t, groups).ok_or_else(|| {
                        let reason = "its channels run along the lanes, and groups cannot";
                        refuse_operand(self.name, None, reason)
                    })
                };
                let rest = inputs[1..].iter().map(|t| channels(t, true));
                let all = [x.clone()].into_iter().chain(rest);
                let inputs = all.map(|t| split(&t)).collect::<Result<_>>()?;
                let outputs = outputs.iter().map(split).collect::<Result<_>>()?;
                Ok(AlignedForms { inputs, outputs, along: (2..=x.rank()).collect() })
            }
        }
    }

    fn aligned_dim(&self, first: &StickForm, other: &StickForm, dim: usize) -> Option<usize> {
        match self.over {
            NormKind::Layer(_) | NormKind::Rms(_) => (first.rank() + dim).checked_sub(other.rank()),
            // The vectors run along the channels.
            NormKind::Batch if other.rank() < first.rank() => Some(1),
            NormKind::Batch => Some(dim),
            // A slice has whole groups, which are parts of a dimension.
            NormKind::Groups(_) => None,
        }
    }

    fn line_cost(&self, n: usize) -> LineCost {
        LineCost { plain: 6 * n as u64, transcendental: 1 }
    }

    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>> {
        Some(Arc::new(NormRow { over: self.over.clone(), eps: self.eps }))
    }
}

/// Dimension 1 as groups and channels of a group; none where it runs along the lanes.
fn split_groups(t: &StickForm, groups: usize) -> Option<StickForm> {
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

struct NormRow {
    over: NormKind,
    eps: f32,
}

impl LineFunction<f32> for NormRow {
    fn run_line(&self, x: &mut [f32], others: &[&[f32]], values: &mut [f32], _: &mut [i32]) {
        let n = x.len() as f32;
        // The quotient is taken once per line; its rounding is part of the result.
        let rstd = |var: f32| 1.0 / (var + self.eps).sqrt();
        if self.over == NormKind::Batch {
            let (mean, var) = (others[0][0], others[1][0]);
            let (weight, bias) = (others.get(2).map(|o| o[0]), others.get(3).map(|o| o[0]));
            let rstd = rstd(var);
            for (v, x) in values.iter_mut().zip(x) {
                let y = (*x - mean) * rstd;
                let y = weight.map_or(y, |w| y * w);
                *v = math::canonicalize_nan(bias.map_or(y, |b| y + b));
            }
            return;
        }
        // In two passes: the sum of squares less the square of the mean would cancel where the mean is large.
        let (mean, squares) = if let NormKind::Rms(_) = self.over {
            (0.0, math::sum_of_squares(x))
        } else {
            let mean = math::sum(x) / n;
            (mean, math::sum_of_squares_about(x, mean))
        };
        let (weight, bias) = (others.first().copied(), others.get(1).copied());
        math::normalize_affine(x, mean, rstd(squares / n), weight, bias, values);
    }
}
