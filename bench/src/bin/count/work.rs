//! The cases whose instructions `count` counts, and how one of them runs.

use anyhow::{Result, bail};
use std::hint::black_box;
use zellige_bench::moves::layouts::{permuted_layout, row_major, stick_layout, sticks_in_order};
use zellige_bench::moves::{MoveCase, MovedElements};
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_host::AlignedBuffer;
use zellige_layout::{Layout, Swizzle, TileLayout};
use zellige_movement::{MovePlan, Mover, PaddingFill};

/// The names of all cases, in the order of `bench/instructions.txt`.
pub(crate) const CASE_NAMES: &[&str] = &[
    "to sticks 1024x1024 f16",
    "to sticks, streamed 2048x2048 f16",
    "to sticks, padded 1023x1025 f16",
    "to sticks 1024x1024 f32 -> f16",
    "from sticks 1024x1024 f16",
    "restickify 1024x1024 f16",
    "transpose 1024x1024 int8",
    "transpose 1024x1024 f16",
    "transpose 1024x1024 f32",
    "transpose 512x512 f64",
    "permute (4,2,0,1,3) 8x12x16x20x24 f32",
    "128-byte swizzle 1024x1024 f16",
    "planning, 6-D to sticks, padded, 100 times",
    "planned call of an 8x4 transpose, 1000 times",
];

/// Runs the counted part of a case.
///
/// Callgrind counts only inside functions whose name matches `--toggle-collect=*counted*`, so this one must not
/// be inlined.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

pub(crate) fn run_case(name: &str) -> Result<()> {
    match name {
        "planning, 6-D to sticks, padded, 100 times" => run_planning(),
        "planned call of an 8x4 transpose, 1000 times" => run_planned_calls()?,
        _ => {
            let Some(case) = build_case(name) else {
                bail!("no case `{name}`; the cases are\n  {}", CASE_NAMES.join("\n  "));
            };
            let (_, mover) = case.plan_mover()?;
            let from = AlignedBuffer::new_zeroed(mover.src_bytes());
            let mut to = AlignedBuffer::new_zeroed(mover.dst_bytes());
            let fill = vec![0; case.elements.element_widths().1];
            let mut outcome = Ok(());
            counted(&mut || outcome = mover.run_on_slices(&from, &mut to, Some(&fill), 1));
            outcome?;
        }
    }
    Ok(())
}

fn build_case(name: &str) -> Option<MoveCase> {
    let half = MovedElements::Plain(2);
    let f16 = |size: &[i64]| stick_layout(size, Dtype::Float16);
    let size = [1024, 1024];
    let (elements, shape, src, dst): (MovedElements, Vec<i64>, Layout, Layout) = match name {
        "to sticks 1024x1024 f16" => (half, size.into(), row_major(&size), f16(&size)),
        // It reads and writes 16 MiB, which is more than `MIN_STREAMED_MOVE_BYTES` of the engine: the stores are
        // non-temporal, unless the processor has a larger last level cache.
        "to sticks, streamed 2048x2048 f16" => {
            let size = [2048, 2048];
            (half, size.into(), row_major(&size), f16(&size))
        }
        "to sticks, padded 1023x1025 f16" => {
            let size = [1023, 1025];
            (half, size.into(), row_major(&size), f16(&size))
        }
        "to sticks 1024x1024 f32 -> f16" => {
            let narrowed = MovedElements::Convert(Format::F32, Format::F16);
            (narrowed, size.into(), row_major(&size), f16(&size))
        }
        "from sticks 1024x1024 f16" => (half, size.into(), f16(&size), row_major(&size)),
        "restickify 1024x1024 f16" => {
            let on_dim_0 = sticks_in_order(&size, Dtype::Float16, &[1, 0]);
            (half, size.into(), f16(&size), on_dim_0)
        }
        "transpose 1024x1024 int8" => transpose_case(1, &size),
        "transpose 1024x1024 f16" => transpose_case(2, &size),
        "transpose 1024x1024 f32" => transpose_case(4, &size),
        "transpose 512x512 f64" => transpose_case(8, &[512, 512]),
        "permute (4,2,0,1,3) 8x12x16x20x24 f32" => {
            let size = [8, 12, 16, 20, 24];
            let dst = permuted_layout(&size, &[4, 2, 0, 1, 3]);
            (MovedElements::Plain(4), size.into(), row_major(&size), dst)
        }
        "128-byte swizzle 1024x1024 f16" => {
            let mode = Swizzle::shared_memory_mode(128, 16).ok()?;
            let swizzled =
                Layout::from_swizzled_tile(mode, TileLayout::row_major(&size).ok()?).ok()?;
            (half, size.into(), row_major(&size), swizzled)
        }
        _ => return None,
    };
    Some(MoveCase {
        name: name.into(),
        goal: None,
        elements,
        shape,
        src,
        dst,
        fill: PaddingFill::Padding,
    })
}

fn transpose_case(width: usize, size: &[i64]) -> (MovedElements, Vec<i64>, Layout, Layout) {
    (MovedElements::Plain(width), size.into(), row_major(size), permuted_layout(size, &[1, 0]))
}

fn run_planning() {
    let size = [2, 3, 4, 5, 6, 100];
    let (src, dst) = (row_major(&size), stick_layout(&size, Dtype::Float16));
    counted(&mut || {
        for _ in 0..100 {
            let plan = MovePlan::between(black_box(&src), &dst, &size, PaddingFill::Padding);
            drop(black_box(plan));
        }
    });
}

fn run_planned_calls() -> Result<()> {
    let (src, dst) = (row_major(&[8, 4]), permuted_layout(&[8, 4], &[1, 0]));
    let mover = Mover::new(&MovePlan::between(&src, &dst, &[8, 4], PaddingFill::Leave)?, 2)?;
    let (from, mut to) = (AlignedBuffer::new_zeroed(64), AlignedBuffer::new_zeroed(64));
    let mut outcome = Ok(());
    counted(&mut || {
        for _ in 0..1000 {
            outcome = mover.run_on_slices(black_box(&from), &mut to, None, 1);
        }
    });
    Ok(outcome?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_runs() {
        for name in CASE_NAMES {
            run_case(name).expect(name);
        }
        assert!(run_case("nothing").is_err());
    }
}
