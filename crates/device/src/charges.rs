//! What an operation asks of the units, as a function of the slices of its loops.

use crate::account::Kind;
use crate::error::Result;
use crate::laid::Laid;
use crate::ops::Op;
use crate::sticks::Sticks;

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

/// Partial results of a split reduction: one for every point of some loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
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
    pub kind: Kind,
    /// All of them.
    pub each: Vec<Charge>,
    /// What travels where a reduction is split.
    pub partial: Partial,
    /// The two operands of a product, A and B.
    pub product: Option<[usize; 2]>,
    /// Operands that are never read, such as what is added zero times.
    pub unread: Vec<usize>,
}

impl Charges {
    /// One charge for an operation without a reduction.
    pub(crate) fn one(kind: Kind, charge: Charge) -> Charges {
        let partial = Partial { loops: Vec::new(), bytes: 0 };
        Charges { kind, each: vec![charge], partial, product: None, unread: Vec::new() }
    }
}

impl Op {
    /// What the operation asks of the units on tensors that lie so; none for one that does not say, as its
    /// work is no plain function of its slices.
    ///
    /// # Errors
    /// As [`Op::loops`].
    pub fn charges(&self, inputs: &[Laid], outputs: &[Laid]) -> Result<Option<Charges>> {
        self.check_tensors(inputs, outputs)?;
        let forms = |list: &[Laid]| list.iter().map(Laid::sticks).collect::<Result<Vec<Sticks>>>();
        Ok(self.kernel().charges(&forms(inputs)?, &forms(outputs)?))
    }
}
