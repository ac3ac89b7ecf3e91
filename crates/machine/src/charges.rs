//! What an operation asks of the units, as a function of the slices of its loops.

use crate::account::{CoreWork, RingMove, WorkKind};

/// So much for every point of some loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopCharge {
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
/// **Law**: a core is charged the sum of all [`LoopCharge`]s over its slices of the loops, and streams every
/// operand once; of two operands of a product one passes the other as often as the scratchpad makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationCharges {
    /// What the operation is.
    pub kind: WorkKind,
    /// All of them.
    pub each: Vec<LoopCharge>,
    /// What travels where a reduction is split.
    pub partial: PartialSums,
    /// The two operands of a product, A and B.
    pub product: Option<[usize; 2]>,
    /// The loops of a product's rows and columns, where its result has them; all others of the result are batches.
    pub sides: [Option<usize>; 2],
    /// Operands that are never read, such as what is added zero times.
    pub unread: Vec<usize>,
}

impl OperationCharges {
    /// One charge for an operation without a reduction.
    pub fn single_charge(kind: WorkKind, charge: LoopCharge) -> OperationCharges {
        let partial = PartialSums { loops: Vec::new(), bytes: 0 };
        let sides = [None; 2];
        OperationCharges {
            kind,
            each: vec![charge],
            partial,
            product: None,
            sides,
            unread: Vec::new(),
        }
    }
}

/// A core among those that split a sum: they have one slice of the result together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumGroup {
    /// How many they are.
    pub size: u64,
    /// Which of them the core is, from 0; the last one finishes the sum.
    pub place: u64,
}

impl SumGroup {
    /// A core that sums alone.
    pub const ALONE: SumGroup = SumGroup { size: 1, place: 0 };

    /// Whether the core finishes the sum.
    pub fn is_last(self) -> bool {
        self.place + 1 == self.size
    }
}

/// What the units of one core do: the sum of all charges over slices of the loops with these lengths. Partial sums
/// travel along the group in the order of its cores, each of which adds its own; the last one is charged the hops, as
/// it waits for all of them.
pub fn sum_unit_work(
    charges: &[LoopCharge],
    partial: &PartialSums,
    length: impl Fn(usize) -> u64,
    group: SumGroup,
) -> CoreWork {
    let padded = |loops: &[(usize, usize)]| -> u64 {
        loops.iter().map(|(l, unit)| length(*l).next_multiple_of((*unit).max(1) as u64)).product()
    };
    let mut work = CoreWork::default();
    for charge in charges.iter().filter(|c| group.is_last() || !c.finishing) {
        let points = padded(&charge.loops);
        let valid: u64 = charge.loops.iter().map(|(l, _)| length(*l)).product();
        work.macs += points * charge.macs;
        work.macs_valid += valid * charge.macs;
        work.sfu += points * charge.sfu;
        work.sfu_transcendental += points * charge.transcendental;
    }
    if group.size > 1 {
        let sums = padded(&partial.loops);
        if group.place > 0 {
            work.sfu = work.sfu.saturating_add(sums);
        }
        if group.is_last() {
            let bytes = sums.saturating_mul(partial.bytes);
            work.ring.push(RingMove { bytes, hops: group.size - 1 });
        }
    }
    work
}

impl OperationCharges {
    /// What the units of one core do for slices of the loops with these lengths; see [`sum_unit_work`].
    pub fn core_unit_work(&self, length: impl Fn(usize) -> u64, group: SumGroup) -> CoreWork {
        sum_unit_work(&self.each, &self.partial, length, group)
    }
}
