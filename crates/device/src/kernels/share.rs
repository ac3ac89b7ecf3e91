//! Which cores have the same part of a tensor.

use crate::run::division::WorkDivision;
use crate::tensor::sticks::StickForm;
use zellige_machine::account::{CoreWork, MemoryTraffic};

/// The cores that have the same part of a tensor, and which of them one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoreShare {
    pub(crate) cores: u64,
    pub(crate) place: u64,
}

impl CoreShare {
    /// One core that shares with no other.
    pub(crate) const ALONE: CoreShare = CoreShare { cores: 1, place: 0 };

    /// Those of a division, for a tensor that follows some of the loops: cores that differ in other
    /// loops only have the same part of it. Loops that are left out of `shared` count for nothing.
    pub(crate) fn from_division(
        division: &WorkDivision,
        core: usize,
        shared: impl Fn(usize) -> bool,
    ) -> CoreShare {
        let digits = division.core_digits(core);
        let loops = division.splits().iter().zip(&digits).enumerate();
        loops.filter(|(l, _)| shared(*l)).fold(CoreShare::ALONE, |s, (_, (split, digit))| {
            CoreShare {
                cores: s.cores * *split as u64,
                place: s.place * *split as u64 + *digit as u64,
            }
        })
    }

    /// The same with only `cores` of this loop's slices together, the first ones first.
    pub(crate) fn with_loop(self, cores: u64, digit: u64) -> CoreShare {
        let cores = cores.max(1);
        // Numbers stay distinct within a share, because the digit of the loop that was added is the fastest one.
        CoreShare { cores: self.cores * cores, place: self.place * cores + digit % cores }
    }

    /// Reads bursts `times` over, with those that share them.
    pub(crate) fn charge_reads(self, work: &mut CoreWork, bursts: &MemoryTraffic, times: u64) {
        work.add_shared_read(bursts, times, self.cores, self.place);
    }
}

/// Whether different places along a dimension are different elements.
pub(crate) fn moves_along(t: &StickForm, dim: usize) -> bool {
    t.stride[dim] != 0 || t.stick == Some(dim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::division::LoopSpan;

    #[test]
    fn sharers_are_numbered_once() {
        let space =
            [LoopSpan::for_output(8, 1), LoopSpan::for_output(8, 1), LoopSpan::for_reduction(8, 1)];
        let division = WorkDivision::new(&[2, 3, 4], &space, 32).unwrap();
        // Of a tensor along loop 1 alone: eight cores for each of its three slices.
        let mut seen = std::collections::BTreeSet::new();
        for core in 0..24 {
            let share = CoreShare::from_division(&division, core, |l| l != 1);
            assert_eq!(share.cores, 8);
            assert!(seen.insert((division.core_digits(core)[1], share.place)));
        }
        assert!(seen.iter().all(|(_, place)| *place < 8));
        assert_eq!(CoreShare::from_division(&division, 5, |_| false), CoreShare::ALONE);
    }
}
