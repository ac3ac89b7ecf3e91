//! What an operation asks of the units, as a function of the slices of its loops.

use crate::account::WorkKind;

/// So much for every point of some loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The loops, each with the unit that its length counts in.
    pub loops: Vec<(usize, usize)>,
    /// Multiply-adds.
    pub macs: u64,
    /// Plain element operations.
    pub sfu: u64,
    /// Transcendental element operations.
    pub transcendental: u64,
    /// Whether only the core that finishes a split sum does it.
    pub finishing: bool,
}

/// PartialSums results of a split reduction: one for every point of some loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSums {
    /// The loops, each with the unit that its length counts in.
    pub loops: Vec<(usize, usize)>,
    /// Bytes of one.
    pub bytes: u64,
}

/// What an operation asks of the units.
///
/// **Law**: a core is charged the sum of all [`Charge`]s over its slices of the loops, and streams every
/// operand once; of two operands of a product one passes the other as often as the scratchpad makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charges {
    /// What the operation is.
    pub kind: WorkKind,
    /// All of them.
    pub each: Vec<Charge>,
    /// What travels where a reduction is split.
    pub partial: PartialSums,
    /// The two operands of a product, A and B.
    pub product: Option<[usize; 2]>,
    /// Operands that are never read, such as what is added zero times.
    pub unread: Vec<usize>,
}

impl Charges {
    /// One charge for an operation without a reduction.
    pub fn one(kind: WorkKind, charge: Charge) -> Charges {
        let partial = PartialSums { loops: Vec::new(), bytes: 0 };
        Charges { kind, each: vec![charge], partial, product: None, unread: Vec::new() }
    }
}
