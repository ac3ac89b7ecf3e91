//! Texts read and printed.

use super::{REPLICA, SWIZZLED, WGMMA, parse_layout};
use crate::harness::{BenchHarness, SpeedGoal};
use anyhow::Result;
use zellige_layout::AxisTable;
use zellige_notation::{parse, tirx};

pub(crate) fn run_text_cases(bench: &mut BenchHarness) -> Result<()> {
    let axes = AxisTable::new();
    for (name, text) in
        [("4 iters, replica, offset", REPLICA), ("swizzled", SWIZZLED), ("6 iters (wgmma)", WGMMA)]
    {
        bench.bench_short(&format!("parse TIRx, {name}"), SpeedGoal::None, |_| parse(text, &axes));
        let value = parse_layout(text)?;
        bench.bench_short(&format!("print TIRx, {name}"), SpeedGoal::None, |_| {
            tirx::print_tirx(&value)
        });
    }
    let spyre =
        zellige_notation::preset::find_preset("spyre-3d").map(|p| p.text).unwrap_or_default();
    bench
        .bench_short("parse Spyre, 4 device dimensions", SpeedGoal::None, |_| parse(&spyre, &axes));
    Ok(())
}
