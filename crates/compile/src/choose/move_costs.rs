//! What moves cost: their launch where they have one of their own, and the latency of the plan that the device would move by.

use crate::error::Result;
use crate::options::CompilerOptions;
use crate::propagate::{OperandLayout, bind_operand_layout};
use crate::solve::elimination::FORBIDDEN;
use std::collections::HashMap;
use zellige_device::TensorLayout;
use zellige_float::Dtype;
use zellige_machine::WorkKind;
use zellige_stick::StickLayout;

/// Cycles of moves that were computed: by dtype, layout and size of the tensor, and the copy.
pub(crate) type KnownMoves = HashMap<(Dtype, StickLayout, Vec<i64>, OperandLayout), u64>;

/// Costs of moves, computed once each.
pub(crate) struct MoveCosts<'a> {
    options: &'a CompilerOptions,
    known: &'a mut KnownMoves,
}

impl<'a> MoveCosts<'a> {
    /// With what is known under the same options.
    pub(crate) fn new(options: &'a CompilerOptions, known: &'a mut KnownMoves) -> MoveCosts<'a> {
        MoveCosts { options, known }
    }

    /// Cycles of the move from one layout of a tensor to a copy in another.
    pub(crate) fn move_cycles(
        &mut self,
        dtype: Dtype,
        size: &[i64],
        from: &StickLayout,
        to: &OperandLayout,
    ) -> u64 {
        let key = (dtype, from.clone(), size.to_vec(), to.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        // A move without a plan is forbidden and not free: the solver then has to choose layouts that do without it.
        let cycles = self.plan_move_cycles(dtype, from, to).unwrap_or(FORBIDDEN);
        self.known.insert(key, cycles);
        cycles
    }

    fn plan_move_cycles(
        &self,
        dtype: Dtype,
        from: &StickLayout,
        to: &OperandLayout,
    ) -> Result<u64> {
        let (source, copy) = move_ends(self.options, dtype, from, to)?;
        let moved = source.plan_copy_to(&copy)?;
        // The cost is that of the plan that lowering makes, with all cores: a move is bound by memory, and no
        // division makes it faster.
        let work = moved.device_work("move", WorkKind::Restickify, self.options.cores);
        let hardware = &self.options.hardware;
        // A move is a wave of its own. Where the host launches waves, its launch is a part of its price: two small
        // moves cost more than one large one. In a bundle it is launched with the steps around it.
        Ok(hardware.operation_latency(&work).cycles.saturating_add(hardware.step_launch_cycles()))
    }
}

/// The source and the copy of a move.
pub(crate) fn move_ends(
    options: &CompilerOptions,
    dtype: Dtype,
    from: &StickLayout,
    to: &OperandLayout,
) -> Result<(TensorLayout, TensorLayout)> {
    let own = OperandLayout { view: None, layout: from.clone() };
    let source = bind_operand_layout(options, dtype, &own, to.view.as_ref())?;
    let copy = bind_operand_layout(
        options,
        dtype,
        &OperandLayout { view: to.view.clone(), layout: to.layout.clone() },
        None,
    )?;
    Ok((source, copy))
}
