//! What operations cost on tensors in known layouts, computed once each.
//!
//! A graph with another pin combines other lists of layouts of an operation, but many of the same combinations.

use std::collections::HashMap;
use zellige_device::TensorLayout;

/// Costs of operations, by name and attributes.
#[derive(Default)]
pub(super) struct OpCosts {
    known: HashMap<String, KnownCosts>,
}

impl OpCosts {
    /// Those of one operation.
    pub(super) fn of(&mut self, op: String) -> &mut KnownCosts {
        self.known.entry(op).or_default()
    }
}

/// Costs of one operation, by the layouts of its operands and results.
#[derive(Default)]
pub(super) struct KnownCosts {
    pub(super) default: HashMap<Vec<TensorLayout>, DefaultCost>,
    /// The least cycles, also by which operands and results go through memory and count there.
    pub(super) least: HashMap<(Vec<TensorLayout>, Vec<bool>), u64>,
}

/// What an operation takes in its default division.
#[derive(Clone, Copy)]
pub(super) struct DefaultCost {
    pub(super) cycles: u64,
    /// Whether the account calls its batches slow.
    pub(super) slow_batches: bool,
}
