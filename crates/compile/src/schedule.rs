//! When every step runs.

use crate::program::Program;
use zellige_device::Time;

/// One step after the other; loading has a clock of its own.
pub(crate) fn one_by_one(program: &mut Program) {
    let (mut run, mut load) = (Time::ZERO, Time::ZERO);
    for step in &mut program.steps {
        let clock = if step.load { &mut load } else { &mut run };
        step.start = *clock;
        *clock += step.duration;
    }
}
