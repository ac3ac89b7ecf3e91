//! Random layouts, and a plan beside the programs made of it.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses a part")]

pub mod gpp;
#[path = "../../../movement/tests/common/layouts.rs"]
mod layouts;

pub use layouts::*;

use zellige_cuda::interpret::{self, InterpretedMemory};
use zellige_cuda::{CudaProgram, LaunchAlignment};
use zellige_movement::{MoveDtypes, MovePlan, Mover};

/// A generator of numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % n
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// The result of the engine for the CPU.
pub fn expected(
    plan: &MovePlan,
    dtypes: MoveDtypes,
    from: &[u8],
    before: &[u8],
    fill: Option<&[u8]>,
) -> Vec<u8> {
    let mover = Mover::with_dtypes(plan, dtypes).expect("a plan that is moved");
    let mut to = before.to_vec();
    mover.run_on_slices(from, &mut to, fill, 1).expect("long enough");
    to
}

/// Runs every part of a program through the interpreter.
pub fn interpreted(
    program: &CudaProgram,
    from: &[u8],
    before: &[u8],
    low: (i64, i64),
) -> Result<Vec<u8>, String> {
    let mut to = before.to_vec();
    let mut written = vec![0; to.len()];
    for piece in program.pieces() {
        let mut memory = InterpretedMemory {
            src: from,
            dst: &mut to,
            written: &mut written,
            readable: program.readable_range(),
            low,
            dry: false,
        };
        interpret::interpret_program(&piece.part, &mut memory)?;
    }
    Ok(to)
}

/// An alignment and addresses that have it.
pub fn alignment(random: &mut Random) -> (LaunchAlignment, (i64, i64)) {
    let mut one = || {
        let known = [16u64, 16, 16, 16, 8, 4, 2, 1][random.below(8)];
        let low = random.next() % 32 / known * known;
        (known, low.cast_signed())
    };
    let ((a, x), (b, y)) = (one(), one());
    (LaunchAlignment::new(a, b).expect("powers of two"), (x, y))
}
