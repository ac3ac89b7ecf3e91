//! Which address every buffer has.
//!
//! Device memory is seen as segments of 16 GiB. The first holds the program's pool, where it has one;
//! buffers with memory of their own are the arguments of its kernels: number `k` begins segment `k`, or
//! `k + 1` beside a pool. Programs with more arguments than segments put several into one, in order. Where kernels
//! need a workspace, it is the argument behind all others.

use super::superdsc::{KernelPlan, WorkMemory};
use crate::program::{BufferId, Place, Program};

/// Bytes from one segment to the next.
pub const SEGMENT: u64 = 0x4_0000_0000;
/// Segments that programs may use.
const SEGMENTS: u64 = 7;
/// Where buffers begin.
const ALIGNMENT: u64 = 128;

/// Where a buffer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// In memory of its own: the number of the argument, and the address in a planned memory; none
    /// where the segments are full.
    Argument(usize, Option<u64>),
    /// At this byte of the pool, which begins at address 0.
    Pool(u64),
    /// At this byte of every core's scratchpad.
    Lx(u64),
}

impl Address {
    /// The address in device memory, or in a scratchpad.
    pub fn planned(self) -> Option<u64> {
        match self {
            Address::Argument(_, at) => at,
            Address::Pool(at) | Address::Lx(at) => Some(at),
        }
    }
}

/// The addresses of a program's buffers, and of what its kernels need beside them.
#[derive(Debug, Clone)]
pub struct MemoryMap {
    of: Vec<Address>,
    arguments: Vec<BufferId>,
    /// The kernels, which say how large the workspace is.
    plan: KernelPlan,
    workspace: Address,
}

impl MemoryMap {
    /// Inputs are the first arguments, in order; then come all others.
    pub fn new(program: &Program) -> MemoryMap {
        let count = program.buffers.len();
        let own = |b: &BufferId| program.buffer(*b).place == Place::Own;
        let rest = (0..count).map(BufferId).filter(|b| !program.inputs.contains(b));
        let arguments: Vec<BufferId> =
            program.inputs.iter().copied().chain(rest).filter(own).collect();
        let pool = program.buffers.iter().any(|b| matches!(b.place, Place::Pool(_)));
        let plan = KernelPlan::new(program);
        let mut bytes: Vec<u64> = arguments.iter().map(|b| program.buffer(*b).bytes()).collect();
        if plan.bytes() > 0 {
            bytes.push(plan.bytes());
        }
        let places = segments(&bytes, u64::from(pool));
        let last = arguments.len();
        let workspace = Address::Argument(last, places.get(last).copied().flatten());
        let place = |id: BufferId| {
            let holder = holder(program, id);
            match program.buffer(holder).place {
                Place::Pool(at) => Address::Pool(at),
                Place::Lx(at) => Address::Lx(at),
                Place::Own | Place::Over(_) => {
                    let k = arguments.iter().position(|b| *b == holder).unwrap_or(0);
                    Address::Argument(k, places.get(k).copied().flatten())
                }
            }
        };
        let of = (0..count).map(|i| place(BufferId(i))).collect();
        MemoryMap { of, arguments, plan, workspace }
    }

    /// The kernels of the program.
    pub(crate) fn plan(&self) -> &KernelPlan {
        &self.plan
    }

    /// The workspace of the kernels.
    pub fn workspace(&self) -> Address {
        self.workspace
    }

    /// Where memory of a kernel begins: in which block, and at which byte of it.
    pub(crate) fn of_work(&self, memory: WorkMemory) -> (Address, u64) {
        match memory {
            WorkMemory::Buffer(id) => (self.of(id), 0),
            WorkMemory::Scratch(at) => (self.workspace, at),
            WorkMemory::Table(k) => (self.workspace, self.plan.table_at(k)),
            WorkMemory::Operand(_) | WorkMemory::Result(_) => {
                unreachable!("kernels of a plan have memory")
            }
        }
    }

    /// Where a buffer begins.
    pub fn of(&self, id: BufferId) -> Address {
        self.of[id.0]
    }

    /// The buffers with memory of their own.
    pub fn arguments(&self) -> &[BufferId] {
        &self.arguments
    }
}

/// The buffer whose memory a buffer is in.
pub(super) fn holder(program: &Program, id: BufferId) -> BufferId {
    let mut at = id;
    // A chain has every buffer once.
    for _ in 0..program.buffers.len() {
        match program.buffer(at).place {
            Place::Over(under) => at = under,
            _ => break,
        }
    }
    at
}

/// Where arguments of these sizes begin: a segment for each, or one after the other where there are too
/// many; none for what the segments do not hold.
fn segments(bytes: &[u64], first: u64) -> Vec<Option<u64>> {
    let count = bytes.len() as u64;
    if first + count <= SEGMENTS && bytes.iter().all(|b| *b <= SEGMENT) {
        return (first..first + count).map(|k| Some(k * SEGMENT)).collect();
    }
    let mut next = first * SEGMENT;
    let mut place = |bytes: u64| {
        let end = (next / SEGMENT + 1) * SEGMENT;
        let at = if next + bytes > end { end } else { next };
        let fits = bytes <= SEGMENT && at + bytes <= SEGMENTS * SEGMENT;
        fits.then(|| {
            next = (at + bytes).next_multiple_of(ALIGNMENT);
            at
        })
    };
    bytes.iter().map(|b| place(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_begin_segments_until_there_are_too_many() {
        assert_eq!(segments(&[128, 4096], 1), [Some(SEGMENT), Some(2 * SEGMENT)]);
        let seven = segments(&[128; 7], 1);
        assert_eq!(seven[6], Some(SEGMENT + 6 * 128));
        let big = segments(&[SEGMENT - 128, 256, 2 * SEGMENT, 100, 1], 0);
        assert_eq!(big[..2], [Some(0), Some(SEGMENT)]);
        assert_eq!(big[2..], [None, Some(SEGMENT + 256), Some(SEGMENT + 384)]);
    }
}
