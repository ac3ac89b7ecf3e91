//! Products as kernels: sizes, layouts, iteration space.

use super::super::{Follows, Kernel, Lay, Meta, Task, Want, dims};
use super::finish::Step;
use super::form::{Form, Meeting, refuse};
use super::matrices::Matrices;
use super::task;
use crate::division::{Division, Span};
use crate::error::Result;
use crate::laid::Laid;
use crate::lay::{arranged, is_float, result_format, with_order};
use crate::sticks::Sticks;
use smallvec::SmallVec;
use zellige_float::Format;
use zellige_layout::{Dtype, Strided};
use zellige_machine::Charges;

/// Which operand is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) a: usize,
    pub(crate) b: usize,
    /// Operands that multiply the sum, element by element.
    pub(crate) scales: &'static [usize],
    /// The operand that is added.
    pub(crate) addend: Option<usize>,
    /// Operands at least; the addend may be left out where it is the last.
    pub(crate) least: usize,
    pub(crate) most: usize,
}

/// `alpha * (A B) + beta * addend`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Factors {
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

/// A matrix product with its attributes.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) roles: Roles,
    pub(crate) factors: Factors,
    /// The dtype of the result where it is not that of the operands, which are 8-bit floats then.
    pub(crate) yields: Option<Dtype>,
}

impl Product {
    pub(super) fn meeting(&self, inputs: &[&[i64]]) -> Result<Meeting> {
        let (a, b) = (inputs[self.roles.a], inputs[self.roles.b]);
        self.form.meet(a, b).map_err(|r| refuse(self.name, None, r))
    }

    /// The further operands in the order of the steps, and the steps.
    pub(super) fn steps(&self, given: usize) -> (Vec<usize>, Vec<Step>) {
        let mut extras: Vec<usize> = self.roles.scales.to_vec();
        let mut steps: Vec<Step> = (0..extras.len()).map(Step::Times).collect();
        let Factors { alpha, beta } = self.factors;
        if alpha != 1.0 {
            steps.push(Step::Scale(alpha));
        }
        // A factor of zero leaves the addend out, whatever it holds.
        if let Some(addend) = self.roles.addend.filter(|i| *i < given && beta != 0.0) {
            steps.push(Step::Plus { operand: extras.len(), factor: beta });
            extras.push(addend);
        }
        (extras, steps)
    }

    fn check_dtypes(&self, inputs: &[Meta]) -> Result<Dtype> {
        let (a, b) = (inputs[self.roles.a].dtype, inputs[self.roles.b].dtype);
        let small = |d: Dtype| is_float(d) && d.bits() == 8;
        if let Some(dtype) = self.yields {
            if let Some(operand) = [a, b].iter().position(|d| !small(*d)) {
                let reason = format!("its dtype is {}; 8-bit floats are accepted", [a, b][operand]);
                return Err(refuse(self.name, Some(operand), reason));
            }
            if let Some(i) = (2..inputs.len()).find(|i| !is_float(inputs[*i].dtype)) {
                let reason = format!("its dtype is {}; a float is accepted", inputs[i].dtype);
                return Err(refuse(self.name, Some(i), reason));
            }
            return Ok(dtype);
        }
        if small(a) {
            let reason = format!("it takes no {a}; `scaled_mm` multiplies 8-bit floats");
            return Err(refuse(self.name, Some(self.roles.a), reason));
        }
        if a == Dtype::Bool {
            let reason = "it takes no bool; convert it to a number";
            return Err(refuse(self.name, Some(self.roles.a), reason));
        }
        if let Some(i) = (0..inputs.len()).find(|i| inputs[*i].dtype != a) {
            let reason = format!(
                "its dtype is {}, and operand {} has {a}: all have one dtype",
                inputs[i].dtype, self.roles.a
            );
            return Err(refuse(self.name, Some(i), reason));
        }
        let whole = |f: f64| f.fract() == 0.0 && f.abs() <= f64::from(i32::MAX);
        let fractions = [self.factors.alpha, self.factors.beta].iter().any(|f| !whole(*f));
        if fractions && !is_float(a) {
            let reason = format!("alpha and beta are integers of 32 bits for operands of {a}");
            return Err(refuse(self.name, None, reason));
        }
        Ok(a)
    }
}

impl Kernel for Product {
    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        let Roles { least, most, .. } = self.roles;
        if !(least..=most).contains(&inputs.len()) {
            let count =
                if least == most { format!("{most}") } else { format!("{least} to {most}") };
            let reason = format!("it takes {count} operands, not {}", inputs.len());
            return Err(refuse(self.name, None, reason));
        }
        let (a, b) = (&inputs[self.roles.a], &inputs[self.roles.b]);
        let size = self.form.infer(a, b).map_err(|r| refuse(self.name, None, r))?;
        let dtype = self.check_dtypes(inputs)?;
        let further =
            self.roles.scales.iter().chain(&self.roles.addend).filter(|i| **i < inputs.len());
        for i in further {
            let operand = &inputs[*i];
            let both = [operand.clone(), Meta { size: size.clone(), dtype }];
            if crate::lay::broadcast(&both).ok().as_ref() != Some(&size) {
                let reason = format!("size {:?} does not broadcast to {size:?}", operand.size);
                return Err(refuse(self.name, Some(*i), reason));
            }
        }
        Ok(vec![Meta { size, dtype }])
    }

    fn lay(&self, inputs: &[Laid], outputs: &[Meta]) -> Result<Lay> {
        let sizes: Vec<&[i64]> = inputs.iter().map(Laid::size).collect();
        let meeting = self.meeting(&sizes)?;
        let (a, b) = (&inputs[self.roles.a], &inputs[self.roles.b]);
        let (rank_a, rank_b) = (a.size().len(), b.size().len());
        let columns = meeting.b.size(b.size())[meeting.b.size(b.size()).len() - 1];
        let wants = inputs.iter().enumerate().map(|(i, t)| {
            let along = |dim: Option<usize>| dim.map_or(Want::Sparse, Want::Along);
            if i == self.roles.a {
                along(meeting.a.origin(rank_a, 1))
            } else if i == self.roles.b {
                // One column lies along k as A does.
                along(meeting.b.origin(rank_b, usize::from(columns != 1)))
            } else {
                match t.size().last() {
                    _ if t.numel() == 1 => Want::AsIs,
                    Some(n) if *n != 1 && meeting.keeps[1] => Want::Along(t.size().len() - 1),
                    _ => Want::Sparse,
                }
            }
        });
        let out = &outputs[0];
        let format = result_format(&[a.clone(), b.clone()], out.dtype)?;
        let layout = match a.sticks() {
            Ok(form) => arranged(&beside(&meeting, &form, &out.size, columns), format)?,
            Err(_) => {
                let order: Vec<usize> = (0..out.size.len()).collect();
                let stick = order.last().copied().filter(|_| meeting.keeps[1] && columns != 1);
                with_order(&Strided::contiguous(&out.size)?, &order, stick, format)?
            }
        };
        Ok(Lay { inputs: wants.collect(), outputs: vec![layout] })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let Ok(matrices) = Matrices::new(self, inputs, outputs) else {
            return Vec::new();
        };
        matrices.space()
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let sizes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|t| t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect())
            .collect();
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        let meeting = self.meeting(&sizes).ok()?;
        let out = &outputs[0];
        let [m, n] = meeting.keeps.map(usize::from);
        let outer = out.rank() - m - n;
        let (row, column, depth) = (outer, outer + m, outer + m + n);
        let follows = |i: usize, t: &Sticks| -> Follows {
            let (turn, roles) = match i {
                _ if i == self.roles.a => (meeting.a, [row, depth]),
                _ if i == self.roles.b => (meeting.b, [depth, column]),
                _ => return dims::follow(t, &out.size),
            };
            let own: [Option<usize>; 2] = [0, 1].map(|which| turn.origin(t.rank(), which));
            let batches = t.rank() - own.iter().flatten().count();
            let of = |d: usize| match own.iter().position(|o| *o == Some(d)) {
                Some(which) => Some(roles[which]),
                None => (outer + d).checked_sub(batches).filter(|b| t.size[d] == out.size[*b]),
            };
            (0..t.rank()).map(of).collect()
        };
        let operands = inputs.iter().enumerate().map(|(i, t)| follows(i, t));
        Some(operands.chain([(0..out.rank()).map(Some).collect()]).collect())
    }

    fn charges(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Charges> {
        let matrices = Matrices::new(self, inputs, outputs).ok()?;
        Some(matrices.charges([self.roles.a, self.roles.b], inputs.len()))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let matrices = Matrices::new(self, inputs, outputs)?;
        matrices.check(self.name)?;
        if outputs[0].format.is_float() {
            Ok(Box::new(task::Work::<f32>::new(self, &matrices, division)))
        } else if outputs[0].format == Format::I64 {
            Ok(Box::new(task::Work::<i64>::new(self, &matrices, division)))
        } else {
            Ok(Box::new(task::Work::<i32>::new(self, &matrices, division)))
        }
    }
}

/// A form of the result with the order of A's dimensions, n in the place of k.
fn beside(meeting: &Meeting, a: &Sticks, size: &[i64], columns: i64) -> Sticks {
    let a = meeting.a.sticks(a);
    let [m, n] = meeting.keeps;
    let rank = size.len();
    let mut stride: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
    let outer = rank - usize::from(m) - usize::from(n);
    // Batches of A are the last ones of the result.
    let own = a.rank() - 2;
    for d in 0..own.min(outer) {
        stride[outer - 1 - d] = a.stride[own - 1 - d];
    }
    if m {
        stride[outer] = a.stride[own];
    }
    let mut stick = None;
    if n {
        stride[rank - 1] = a.stride[own + 1];
        stick = (columns != 1).then_some(rank - 1);
    }
    let size = size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    Sticks { size, stride, stick, ..a }
}
