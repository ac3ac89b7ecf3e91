//! Which address every buffer has.
//!
//! Device memory is seen as segments of 16 GiB. The first holds the program's pool, where it has one;
//! buffers with memory of their own are the arguments of its kernels: number `k` begins segment `k`, or
//! `k + 1` beside a pool. Programs with more arguments than segments put several into one, in order. Where kernels
//! need a workspace, it is the argument behind all others.

use super::superdsc::{KernelPlan, WorkMemory};
use crate::program::{BufferId, BufferLocation, CompiledProgram};

/// Bytes from one segment to the next.
pub const SEGMENT_BYTES: u64 = 0x4_0000_0000;
/// Segments that programs may use.
// The device has eight segments, and one of them holds the programs.
const MAX_SEGMENTS: u64 = 7;
/// Where buffers begin.
const BUFFER_ALIGNMENT_BYTES: u64 = 128;

/// Where a buffer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferAddress {
    /// In memory of its own: the number of the argument, and the address in a planned memory; none
    /// where the segments are full.
    Argument(usize, Option<u64>),
    /// At this byte of the pool, which begins at address 0.
    Pool(u64),
    /// At this byte of every core's scratchpad.
    Lx(u64),
}

impl BufferAddress {
    /// The address in device memory, or in a scratchpad.
    pub fn planned_address(self) -> Option<u64> {
        match self {
            BufferAddress::Argument(_, at) => at,
            BufferAddress::Pool(at) | BufferAddress::Lx(at) => Some(at),
        }
    }
}

/// The addresses of a program's buffers, and of what its kernels need beside them.
#[derive(Debug, Clone)]
pub struct MemoryMap {
    of: Vec<BufferAddress>,
    arguments: Vec<BufferId>,
    /// The kernels, which say how large the workspace is.
    plan: KernelPlan,
    workspace: BufferAddress,
}

impl MemoryMap {
    /// Inputs are the first arguments, in order; then come all others.
    pub fn new(program: &CompiledProgram) -> MemoryMap {
        let count = program.buffers.len();
        let own = |b: &BufferId| program.buffer(*b).place == BufferLocation::Own;
        // Inputs come first, because the caller binds the first arguments in the order of the graph.
        let rest = (0..count).map(BufferId).filter(|b| !program.inputs.contains(b));
        let arguments: Vec<BufferId> =
            program.inputs.iter().copied().chain(rest).filter(own).collect();
        let pool = program.buffers.iter().any(|b| matches!(b.place, BufferLocation::Pool(_)));
        let plan = KernelPlan::new(program);
        let mut bytes: Vec<u64> = arguments.iter().map(|b| program.buffer(*b).bytes()).collect();
        if plan.workspace_bytes() > 0 {
            bytes.push(plan.workspace_bytes());
        }
        let places = place_segments(&bytes, u64::from(pool));
        let last = arguments.len();
        let workspace = BufferAddress::Argument(last, places.get(last).copied().flatten());
        let place = |id: BufferId| {
            let holder = find_memory_holder(program, id);
            match program.buffer(holder).place {
                BufferLocation::Pool(at) => BufferAddress::Pool(at),
                BufferLocation::Lx(at) => BufferAddress::Lx(at),
                BufferLocation::Own | BufferLocation::Over(_) => {
                    let k = arguments.iter().position(|b| *b == holder).unwrap_or(0);
                    BufferAddress::Argument(k, places.get(k).copied().flatten())
                }
            }
        };
        let of = (0..count).map(|i| place(BufferId(i))).collect();
        MemoryMap { of, arguments, plan, workspace }
    }

    /// The kernels of the program.
    pub(crate) fn kernel_plan(&self) -> &KernelPlan {
        &self.plan
    }

    /// The workspace of the kernels.
    pub fn workspace_address(&self) -> BufferAddress {
        self.workspace
    }

    /// Where memory of a kernel begins: in which block, and at which byte of it.
    pub(crate) fn work_address(&self, memory: WorkMemory) -> (BufferAddress, u64) {
        match memory {
            WorkMemory::Buffer(id) => (self.buffer_address(id), 0),
            WorkMemory::Scratch(at) => (self.workspace, at),
            WorkMemory::Table(k) => (self.workspace, self.plan.table_offset(k)),
            WorkMemory::Operand(_) | WorkMemory::Result(_) => {
                unreachable!("kernels of a plan have memory")
            }
        }
    }

    /// Where a buffer begins.
    pub fn buffer_address(&self, id: BufferId) -> BufferAddress {
        self.of[id.0]
    }

    /// The buffers with memory of their own.
    pub fn argument_buffers(&self) -> &[BufferId] {
        &self.arguments
    }
}

/// The buffer whose memory a buffer is in.
pub(super) fn find_memory_holder(program: &CompiledProgram, id: BufferId) -> BufferId {
    let mut at = id;
    // A chain has every buffer once.
    for _ in 0..program.buffers.len() {
        match program.buffer(at).place {
            BufferLocation::Over(under) => at = under,
            _ => break,
        }
    }
    at
}

/// Where arguments of these sizes begin: a segment for each, or one after the other where there are too
/// many; none for what the segments do not hold.
fn place_segments(bytes: &[u64], first: u64) -> Vec<Option<u64>> {
    let count = bytes.len() as u64;
    // A segment for each argument keeps the addresses of small programs independent of the sizes of the others, as
    // torch-spyre's are.
    if first + count <= MAX_SEGMENTS && bytes.iter().all(|b| *b <= SEGMENT_BYTES) {
        return (first..first + count).map(|k| Some(k * SEGMENT_BYTES)).collect();
    }
    let mut next = first * SEGMENT_BYTES;
    let mut place = |bytes: u64| {
        let end = (next / SEGMENT_BYTES + 1) * SEGMENT_BYTES;
        let at = if next + bytes > end { end } else { next };
        // No argument crosses the end of a segment, because the address unit adds offsets within one.
        let fits = bytes <= SEGMENT_BYTES && at + bytes <= MAX_SEGMENTS * SEGMENT_BYTES;
        fits.then(|| {
            next = (at + bytes).next_multiple_of(BUFFER_ALIGNMENT_BYTES);
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
        assert_eq!(place_segments(&[128, 4096], 1), [Some(SEGMENT_BYTES), Some(2 * SEGMENT_BYTES)]);
        let seven = place_segments(&[128; 7], 1);
        assert_eq!(seven[6], Some(SEGMENT_BYTES + 6 * 128));
        let big = place_segments(&[SEGMENT_BYTES - 128, 256, 2 * SEGMENT_BYTES, 100, 1], 0);
        assert_eq!(big[..2], [Some(0), Some(SEGMENT_BYTES)]);
        assert_eq!(big[2..], [None, Some(SEGMENT_BYTES + 256), Some(SEGMENT_BYTES + 384)]);
    }
}
