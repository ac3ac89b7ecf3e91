//! Times offset tables of 16 million elements, and the time that memory alone takes for the same bytes.

use super::parse_layout;
use crate::harness::{BenchHarness, SpeedGoal};
use anyhow::Result;
use std::time::Duration;
use zellige_layout::Axis;

/// The goal for one table. Writing 128 MiB of fresh memory in pages of 4 KiB takes about as long (`bench/README.md`).
const GOAL: SpeedGoal = SpeedGoal::Within(Duration::from_millis(60));
/// Elements of one table.
const SIZE: usize = 1 << 24;

pub(crate) fn run_table_cases(bench: &mut BenchHarness) -> Result<()> {
    let cases = [
        ("table 16M, 3 iters, nearly row-major", "S[(256,256,256):(65792,257,1)]"),
        ("table 16M, transposed 4096x4096", "S[(4096,4096):(1,4096)]"),
        ("table 16M, permuted, 6 iters", "S[(16,16,16,16,16,16):(1,4096,16,1048576,256,65536)]"),
        ("table 16M, prime extents", "S[(257,251,257):(1,64507,257)]"),
        ("table 16M, swizzled 4096x4096", "Swizzle(3,3,3) o S[(4096,64,64):(64,262144,1)]"),
        (
            "table 16M, padded 4000x4195 of 4096x4224 in sticks",
            "S[(4096,66,64):(64,262144,1)] valid[4000/4096,4195/4224]",
        ),
        (
            "table 16M, padded and swizzled",
            "Swizzle(3,3,3) o S[(4096,66,64):(64,262144,1)] valid[4000/4096,4195/4224]",
        ),
        ("table 16M, padded, narrow rows (5 of 8)", "S[(3355648,8):(8,1)] valid[3355648,1..6/8]"),
    ];
    for (case, text) in cases {
        let layout = parse_layout(text)?;
        bench.bench_long(case, GOAL, || layout.offset_table(Axis::M));
    }
    // Page faults of fresh memory can be most of the time of a table. With memory that is used again, the time is that
    // of the work itself.
    let again = "table 16M, swizzled 4096x4096, memory used again";
    if bench.wants_case(again) {
        let layout = parse_layout("Swizzle(3,3,3) o S[(4096,64,64):(64,262144,1)]")?;
        let mut table = Vec::new();
        bench.bench_long(again, GOAL, || layout.write_offset_table(Axis::M, &mut table));
        let layout =
            self::parse_layout("S[(4096,66,64):(64,262144,1)] valid[4000/4096,4195/4224]")?;
        let again = "table 16M, padded in sticks, memory used again";
        bench.bench_long(again, GOAL, || layout.write_offset_table(Axis::M, &mut table));
    }
    bench_memory_ceilings(bench);
    Ok(())
}

/// Times writes of the same 128 MiB of `i64` without the computation of offsets. No table can be faster.
fn bench_memory_ceilings(bench: &mut BenchHarness) {
    let fresh = "ceiling: 16M x 8 B written to fresh memory";
    let filled = "ceiling: 16M x 8 B filled in memory already mapped";
    let copied = "ceiling: 16M x 8 B copied, both mapped";
    bench.bench_long(fresh, SpeedGoal::None, || {
        let mut table: Vec<i64> = Vec::with_capacity(SIZE);
        table.extend(0..1i64 << 24);
        table
    });
    // Memory is allocated only for cases that were chosen: 256 MiB would slow down the cases after this one.
    if !bench.wants_case(filled) && !bench.wants_case(copied) {
        return;
    }
    let mut target = vec![1i64; SIZE];
    bench.bench_long(filled, SpeedGoal::None, || {
        target.fill(7);
        target[SIZE - 1]
    });
    let source: Vec<i64> = (0..1i64 << 24).collect();
    bench.bench_long(copied, SpeedGoal::None, || {
        target.copy_from_slice(&source);
        target[SIZE - 1]
    });
}
