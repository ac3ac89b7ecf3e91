//! Frames: loops, branches and calls.

use super::core::Core;
use super::error::Fault;
use super::exchange::{Exchange, Handle};
use super::value::{Data, Val};
use crate::ir::{Block, Op};
use crate::op::Kind;
use std::collections::VecDeque;
use std::rc::Rc;

/// A block that is being run.
#[derive(Debug)]
pub(super) struct Frame<'m> {
    pub(super) block: &'m Block,
    pub(super) pc: usize,
    pub(super) what: What<'m>,
}

/// Why it is run.
#[derive(Debug)]
pub(super) enum What<'m> {
    Body,
    For { op: &'m Op, at: i64, end: i64, step: i64 },
    If { op: &'m Op },
    While { op: &'m Op },
    Do { op: &'m Op },
    Parallel { op: &'m Op, at: Vec<i64> },
    Produce { op: &'m Op, handle: Rc<Handle>, group: i64 },
    Combine { op: &'m Op, rest: VecDeque<Vec<Rc<Data>>>, share: (usize, usize) },
}

impl<'m> Core<'m> {
    pub(super) fn push(&mut self, block: &'m Block, args: Vec<Val>, what: What<'m>) {
        for (v, value) in block.args.iter().zip(args) {
            self.set(*v, value);
        }
        self.call().frames.push(Frame { block, pc: 0, what });
    }

    /// Results of an operation that had regions, and on to the next one.
    pub(super) fn leave(&mut self, op: &'m Op, values: Vec<Val>) {
        for (v, value) in op.results.iter().zip(values) {
            self.set(*v, value);
        }
        self.advance();
    }

    pub(super) fn control(&mut self, op: &'m Op) -> Result<(), Fault> {
        let o = &op.operands;
        match op.kind {
            Kind::For => {
                let bounds = self.ints(&o[..3])?;
                let (at, end, step) = (bounds[0], bounds[1], bounds[2]);
                if step < 1 {
                    return Err(Fault::Step(step));
                }
                let carried: Vec<Val> =
                    o[3..].iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
                if at >= end {
                    self.leave(op, carried);
                    return Ok(());
                }
                let args = [vec![Val::I(at)], carried].concat();
                self.push(&op.regions[0], args, What::For { op, at, end, step });
            }
            Kind::If => {
                let yes = self.get(o[0])?.int() != 0;
                match op.regions.get(usize::from(!yes)) {
                    Some(region) => self.push(region, vec![], What::If { op }),
                    None => self.leave(op, vec![]),
                }
            }
            Kind::While => {
                let carried: Vec<Val> = o.iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
                self.push(&op.regions[0], carried, What::While { op });
            }
            Kind::Parallel => {
                let n = o.len() / 3;
                let bounds = self.ints(o)?;
                if let Some(step) = bounds[2 * n..].iter().find(|s| **s < 1) {
                    return Err(Fault::Step(*step));
                }
                if (0..n).any(|d| bounds[d] >= bounds[n + d]) {
                    self.leave(op, vec![]);
                    return Ok(());
                }
                let at = bounds[..n].to_vec();
                let args = at.iter().map(|i| Val::I(*i)).collect();
                self.push(&op.regions[0], args, What::Parallel { op, at });
            }
            _ => {
                let callee = op.word("callee").unwrap_or_default();
                let Some(f) = self.function(callee) else {
                    return Err(Fault::Invalid(format!("there is no function `@{callee}`")));
                };
                let args: Vec<Val> = o.iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
                self.enter(f, args, Some(op))?;
            }
        }
        Ok(())
    }

    /// The end of a block.
    pub(super) fn end(&mut self, op: &'m Op, exchange: &mut Exchange) -> Result<(), Fault> {
        let values: Vec<Val> =
            op.operands.iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
        self.advance();
        let Some(frame) = self.call().frames.pop() else { return Ok(()) };
        match frame.what {
            What::Body => {
                let done = self.calls.pop();
                if let Some(from) = done.and_then(|c| c.from) {
                    self.leave(from, values);
                }
            }
            What::If { op } => self.leave(op, values),
            What::Produce { op, handle, group } => {
                self.post(exchange, &handle, group, &values)?;
                self.leave(op, vec![Val::Future(handle)]);
            }
            What::Combine { op, rest, share } => {
                let so_far: Vec<Rc<Data>> = values.iter().map(Val::data).collect();
                drop(values);
                self.combine(op, &so_far, rest, share)?;
            }
            What::For { op, at, end, step } => match at.checked_add(step).filter(|at| *at < end) {
                Some(at) => {
                    let args = [vec![Val::I(at)], values].concat();
                    self.push(frame.block, args, What::For { op, at, end, step });
                }
                None => self.leave(op, values),
            },
            What::While { op } => {
                let go_on = values.first().is_some_and(|v| v.int() != 0);
                let passed = values.into_iter().skip(1).collect();
                if go_on {
                    self.push(&op.regions[1], passed, What::Do { op });
                } else {
                    self.leave(op, passed);
                }
            }
            What::Do { op } => self.push(&op.regions[0], values, What::While { op }),
            What::Parallel { op, mut at } => {
                let n = at.len();
                let bounds = self.ints(&op.operands)?;
                for d in (0..n).rev() {
                    at[d] = at[d].saturating_add(bounds[2 * n + d]);
                    if at[d] < bounds[n + d] {
                        let args = at.iter().map(|i| Val::I(*i)).collect();
                        self.push(frame.block, args, What::Parallel { op, at });
                        return Ok(());
                    }
                    at[d] = bounds[d];
                }
                self.leave(op, vec![]);
            }
        }
        Ok(())
    }
}
