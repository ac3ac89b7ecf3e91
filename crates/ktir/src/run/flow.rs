//! Frames of open blocks: loops, branches and calls.

use super::core::KtirCore;
use super::error::KtirFault;
use super::exchange::{PartialExchange, ProduceHandle};
use super::value::{KtirElements, KtirRunValue};
use crate::ir::{KtirBlock, KtirOp};
use crate::op::KtirOpKind;
use std::collections::VecDeque;
use std::rc::Rc;

/// A block that is being executed.
#[derive(Debug)]
pub(super) struct KtirFrame<'m> {
    pub(super) block: &'m KtirBlock,
    pub(super) pc: usize,
    pub(super) what: KtirFrameKind<'m>,
}

/// The construct that the block belongs to.
#[derive(Debug)]
pub(super) enum KtirFrameKind<'m> {
    Body,
    For { op: &'m KtirOp, at: i64, end: i64, step: i64 },
    If { op: &'m KtirOp },
    While { op: &'m KtirOp },
    Do { op: &'m KtirOp },
    Parallel { op: &'m KtirOp, at: Vec<i64> },
    Produce { op: &'m KtirOp, handle: Rc<ProduceHandle>, group: i64 },
    Combine { op: &'m KtirOp, rest: VecDeque<Vec<Rc<KtirElements>>>, share: (usize, usize) },
}

impl<'m> KtirCore<'m> {
    pub(super) fn push_frame(
        &mut self,
        block: &'m KtirBlock,
        args: Vec<KtirRunValue>,
        what: KtirFrameKind<'m>,
    ) {
        for (v, value) in block.args.iter().zip(args) {
            self.write_value(*v, value);
        }
        self.current_call().frames.push(KtirFrame { block, pc: 0, what });
    }

    /// Stores the results of an operation with regions and advances to the next operation.
    pub(super) fn leave_regions(&mut self, op: &'m KtirOp, values: Vec<KtirRunValue>) {
        for (v, value) in op.results.iter().zip(values) {
            self.write_value(*v, value);
        }
        self.advance_to_next_op();
    }

    pub(super) fn run_control(&mut self, op: &'m KtirOp) -> Result<(), KtirFault> {
        let o = &op.operands;
        match op.kind {
            KtirOpKind::For => {
                let bounds = self.read_ints(&o[..3])?;
                let (at, end, step) = (bounds[0], bounds[1], bounds[2]);
                if step < 1 {
                    return Err(KtirFault::Step(step));
                }
                let carried: Vec<KtirRunValue> =
                    o[3..].iter().map(|v| self.read_value(*v)).collect::<Result<_, _>>()?;
                if at >= end {
                    self.leave_regions(op, carried);
                    return Ok(());
                }
                let args = [vec![KtirRunValue::I(at)], carried].concat();
                self.push_frame(&op.regions[0], args, KtirFrameKind::For { op, at, end, step });
            }
            KtirOpKind::If => {
                let yes = self.read_value(o[0])?.as_int() != 0;
                match op.regions.get(usize::from(!yes)) {
                    Some(region) => self.push_frame(region, vec![], KtirFrameKind::If { op }),
                    None => self.leave_regions(op, vec![]),
                }
            }
            KtirOpKind::While => {
                let carried: Vec<KtirRunValue> =
                    o.iter().map(|v| self.read_value(*v)).collect::<Result<_, _>>()?;
                self.push_frame(&op.regions[0], carried, KtirFrameKind::While { op });
            }
            KtirOpKind::Parallel => {
                let n = o.len() / 3;
                let bounds = self.read_ints(o)?;
                if let Some(step) = bounds[2 * n..].iter().find(|s| **s < 1) {
                    return Err(KtirFault::Step(*step));
                }
                if (0..n).any(|d| bounds[d] >= bounds[n + d]) {
                    self.leave_regions(op, vec![]);
                    return Ok(());
                }
                let at = bounds[..n].to_vec();
                let args = at.iter().map(|i| KtirRunValue::I(*i)).collect();
                self.push_frame(&op.regions[0], args, KtirFrameKind::Parallel { op, at });
            }
            _ => {
                let callee = op.word_attr("callee").unwrap_or_default();
                let Some(f) = self.find_function(callee) else {
                    return Err(KtirFault::Invalid(format!("there is no function `@{callee}`")));
                };
                let args: Vec<KtirRunValue> =
                    o.iter().map(|v| self.read_value(*v)).collect::<Result<_, _>>()?;
                self.enter_function(f, args, Some(op))?;
            }
        }
        Ok(())
    }

    /// Handles the terminator of a block.
    pub(super) fn end_block(
        &mut self,
        op: &'m KtirOp,
        exchange: &mut PartialExchange,
    ) -> Result<(), KtirFault> {
        let values: Vec<KtirRunValue> =
            op.operands.iter().map(|v| self.read_value(*v)).collect::<Result<_, _>>()?;
        self.advance_to_next_op();
        let Some(frame) = self.current_call().frames.pop() else { return Ok(()) };
        match frame.what {
            KtirFrameKind::Body => {
                let done = self.calls.pop();
                if let Some(from) = done.and_then(|c| c.from) {
                    self.leave_regions(from, values);
                }
            }
            KtirFrameKind::If { op } => self.leave_regions(op, values),
            KtirFrameKind::Produce { op, handle, group } => {
                self.post_partials(exchange, &handle, group, &values)?;
                self.leave_regions(op, vec![KtirRunValue::Future(handle)]);
            }
            KtirFrameKind::Combine { op, rest, share } => {
                let so_far: Vec<Rc<KtirElements>> =
                    values.iter().map(KtirRunValue::to_elements).collect();
                drop(values);
                self.combine_partials(op, &so_far, rest, share)?;
            }
            KtirFrameKind::For { op, at, end, step } => match at
                .checked_add(step)
                .filter(|at| *at < end)
            {
                Some(at) => {
                    let args = [vec![KtirRunValue::I(at)], values].concat();
                    self.push_frame(frame.block, args, KtirFrameKind::For { op, at, end, step });
                }
                None => self.leave_regions(op, values),
            },
            KtirFrameKind::While { op } => {
                let go_on = values.first().is_some_and(|v| v.as_int() != 0);
                let passed = values.into_iter().skip(1).collect();
                if go_on {
                    self.push_frame(&op.regions[1], passed, KtirFrameKind::Do { op });
                } else {
                    self.leave_regions(op, passed);
                }
            }
            KtirFrameKind::Do { op } => {
                self.push_frame(&op.regions[0], values, KtirFrameKind::While { op });
            }
            KtirFrameKind::Parallel { op, mut at } => {
                let n = at.len();
                let bounds = self.read_ints(&op.operands)?;
                for d in (0..n).rev() {
                    at[d] = at[d].saturating_add(bounds[2 * n + d]);
                    if at[d] < bounds[n + d] {
                        let args = at.iter().map(|i| KtirRunValue::I(*i)).collect();
                        self.push_frame(frame.block, args, KtirFrameKind::Parallel { op, at });
                        return Ok(());
                    }
                    at[d] = bounds[d];
                }
                self.leave_regions(op, vec![]);
            }
        }
        Ok(())
    }
}
