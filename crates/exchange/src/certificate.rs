//! The proof of a plan, element by element, with none of the planner's code.

use crate::division::{CoreNumber, TensorDivision};
use crate::error::{ExchangeError, Result};
use crate::plan::CoreExchange;
use std::collections::HashMap;

/// The most elements, over all cores, that are looked at.
const MAX_ELEMENTS: i64 = 1 << 26;

/// What was shown of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeCertificate {
    /// Elements that the destination cores need, each core counted.
    pub needed: i64,
    /// Those of them that a core did not hold: what any plan has to move.
    pub remote: i64,
}

impl CoreExchange {
    /// Checks by listing elements that every core gets each element that it needs once, from a core that holds it, that
    /// nothing else is sent, and that what travels is what cores need and do not hold.
    ///
    /// # Errors
    /// The first element for which that is not so, and tensors with too many elements to list.
    pub fn certify(
        &self,
        source: &TensorDivision,
        destination: &TensorDivision,
    ) -> Result<ExchangeCertificate> {
        let total = destination.parts().flat_map(|(_, boxes)| boxes);
        let total = total.map(|b| b.element_count()).fold(0_i64, i64::saturating_add);
        if total > MAX_ELEMENTS {
            let (count, limit) = (total.unsigned_abs().into(), MAX_ELEMENTS.unsigned_abs().into());
            return Err(ExchangeError::TooLarge {
                what: "elements of a certificate",
                count,
                limit,
            });
        }
        let holds = |division: &TensorDivision, core: CoreNumber, element: &[i64]| {
            division.boxes_of(core).iter().any(|b| b.contains(element))
        };
        let wrong = |text: String| Err(ExchangeError::Certificate(text));
        let mut arrived: HashMap<(CoreNumber, Vec<i64>), CoreNumber> = HashMap::new();
        let mut remote = 0;
        for send in self.sends() {
            let mut element: Vec<i64> = send.elements.ranges().iter().map(|r| r.0).collect();
            loop {
                let from = send.source;
                if !holds(source, from, &element) {
                    return wrong(format!("core {from} sends {element:?} and does not hold it"));
                }
                for to in &send.destinations {
                    if !holds(destination, *to, &element) {
                        return wrong(format!("core {to} gets {element:?} and does not need it"));
                    }
                    if from != *to {
                        if holds(source, *to, &element) {
                            return wrong(format!("core {to} gets {element:?}, which it holds"));
                        }
                        remote += 1;
                    }
                    if let Some(other) = arrived.insert((*to, element.clone()), from) {
                        return wrong(format!(
                            "core {to} gets {element:?} from {other} and {from}"
                        ));
                    }
                }
                let ranges = send.elements.ranges();
                let Some(dim) = (0..ranges.len()).rev().find(|d| element[*d] + 1 < ranges[*d].1)
                else {
                    break;
                };
                element[dim] += 1;
                for (later, range) in element.iter_mut().zip(ranges).skip(dim + 1) {
                    *later = range.0;
                }
            }
        }
        // Nothing arrives twice and nothing arrives that is not needed, so that equal counts mean that all has arrived.
        let needed = total;
        match i64::try_from(arrived.len()) {
            Ok(count) if count == needed => Ok(ExchangeCertificate { needed, remote }),
            _ => wrong(format!("{} of {needed} elements arrive", arrived.len())),
        }
    }
}
