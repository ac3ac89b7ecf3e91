//! A copy between the scratchpads of cores, executed by its plan.
//!
//! The card keeps what lives in scratchpads in device memory, each stick once. So that a wrong plan gives wrong bits all
//! the same, a copy is executed as the cores would do it: a core can only send sticks that it holds, and a stick that some
//! core needs and does not get is not there afterwards.

use crate::error::Result;
use crate::tensor::Tensor;
use std::ops::Range;

/// The part of a tensor that a core has: boxes, a range of every dimension each.
pub type CoreBoxes = Vec<Vec<Range<usize>>>;

/// A box that one core sends to others, or keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreBoxSend {
    /// The core that sends it.
    pub source: usize,
    /// The cores that get it.
    pub destinations: Vec<usize>,
    /// A range of every dimension.
    pub ranges: Vec<Range<usize>>,
}

/// What a scratchpad holds where nothing arrived: a NaN in every float format, and no number that a test expects.
const NOTHING: u8 = 0xff;

const STICK_BYTES: usize = 128;

impl Tensor {
    /// Copies a tensor of the same layout from the scratchpads of cores that hold the boxes of `held` into those of cores
    /// that need the boxes of `needed`, by these sends alone.
    ///
    /// A stick that its sender does not hold, or that does not reach every core that needs it, is filled with ones.
    ///
    /// # Errors
    /// Layouts that are not made of sticks along one dimension.
    pub fn copy_between_cores(
        &self,
        from: &Tensor,
        held: &[CoreBoxes],
        needed: &[CoreBoxes],
        sends: &[CoreBoxSend],
    ) -> Result<()> {
        let form = from.tensor_layout().stick_form()?;
        self.tensor_layout().stick_form()?;
        let width = form.format.byte_size();
        // The sticks of a box, each once; along the sticks of the tensor only their beginnings are visited.
        let sticks_of = |ranges: &[Range<usize>]| -> Vec<usize> {
            let mut places = vec![vec![]];
            for (d, range) in ranges.iter().enumerate() {
                let step = if form.stick == Some(d) { form.eps.max(1) } else { 1 };
                let indices: Vec<usize> = range.clone().step_by(step).collect();
                places = places
                    .iter()
                    .flat_map(|head: &Vec<usize>| {
                        indices.iter().map(move |i| [head.as_slice(), &[*i]].concat())
                    })
                    .collect();
            }
            let stick = |at: &Vec<usize>| form.element_offset(at) * width / STICK_BYTES;
            places.iter().map(stick).collect()
        };
        let source = from.block().lock_for_read();
        let mut target = self.block().lock_for_write();
        let count = source.len().min(target.len()) / STICK_BYTES;
        let cores = held.len().max(needed.len());
        // What no core needs, such as padding, is no part of the copy and is as it was.
        target[..count * STICK_BYTES].copy_from_slice(&source[..count * STICK_BYTES]);
        let mut holds = vec![vec![false; count]; cores];
        for (core, boxes) in held.iter().enumerate() {
            for stick in boxes.iter().flat_map(|b| sticks_of(b)).filter(|s| *s < count) {
                holds[core][stick] = true;
            }
        }
        let mut needs: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (core, boxes) in needed.iter().enumerate() {
            for stick in boxes.iter().flat_map(|b| sticks_of(b)).filter(|s| *s < count) {
                needs[stick].push(core);
                target[stick * STICK_BYTES..][..STICK_BYTES].fill(NOTHING);
            }
        }
        let mut arrived = vec![vec![false; count]; cores];
        let mut spoiled = vec![false; count];
        for send in sends {
            let able = holds.get(send.source);
            for stick in sticks_of(&send.ranges).into_iter().filter(|s| *s < count) {
                let has = able.is_some_and(|own| own[stick]);
                spoiled[stick] |= !has;
                for to in &send.destinations {
                    if let Some(own) = arrived.get_mut(*to) {
                        own[stick] = true;
                    }
                }
            }
        }
        for (stick, needers) in needs.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            if !spoiled[stick] && needers.iter().all(|core| arrived[*core][stick]) {
                let at = stick * STICK_BYTES;
                target[at..at + STICK_BYTES].copy_from_slice(&source[at..at + STICK_BYTES]);
            }
        }
        Ok(())
    }
}
