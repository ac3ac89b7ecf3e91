//! Offset tables of 16 million elements, and what memory itself allows.

use super::layout;
use crate::harness::{Bench, Goal};
use anyhow::Result;
use std::time::Duration;
use zellige_layout::Axis;

const GOAL: Goal = Goal::Within(Duration::from_millis(60));
const SIZE: usize = 1 << 24;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
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
        let layout = layout(text)?;
        bench.long(case, GOAL, || layout.offset_table(Axis::M));
    }
    let again = "table 16M, swizzled 4096x4096, memory used again";
    if bench.wants(again) {
        let layout = layout("Swizzle(3,3,3) o S[(4096,64,64):(64,262144,1)]")?;
        let mut table = Vec::new();
        bench.long(again, GOAL, || layout.write_offset_table(Axis::M, &mut table));
        let layout = self::layout("S[(4096,66,64):(64,262144,1)] valid[4000/4096,4195/4224]")?;
        let again = "table 16M, padded in sticks, memory used again";
        bench.long(again, GOAL, || layout.write_offset_table(Axis::M, &mut table));
    }
    ceilings(bench);
    Ok(())
}

/// The same 128 MiB of `i64`, without the work: what no table can beat.
fn ceilings(bench: &mut Bench) {
    let fresh = "ceiling: 16M x 8 B written to fresh memory";
    let filled = "ceiling: 16M x 8 B filled in memory already mapped";
    let copied = "ceiling: 16M x 8 B copied, both mapped";
    bench.long(fresh, Goal::None, || {
        let mut table: Vec<i64> = Vec::with_capacity(SIZE);
        table.extend(0..1i64 << 24);
        table
    });
    if !bench.wants(filled) && !bench.wants(copied) {
        return;
    }
    let mut target = vec![1i64; SIZE];
    bench.long(filled, Goal::None, || {
        target.fill(7);
        target[SIZE - 1]
    });
    let source: Vec<i64> = (0..1i64 << 24).collect();
    bench.long(copied, Goal::None, || {
        target.copy_from_slice(&source);
        target[SIZE - 1]
    });
}
