//! Texts read and printed.

use super::{REPLICA, SWIZZLED, WGMMA, layout};
use crate::harness::{Bench, Goal};
use anyhow::Result;
use zellige_layout::AxisTable;
use zellige_notation::{parse, tirx};

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let axes = AxisTable::new();
    for (name, text) in
        [("4 iters, replica, offset", REPLICA), ("swizzled", SWIZZLED), ("6 iters (wgmma)", WGMMA)]
    {
        bench.short(&format!("parse TIRx, {name}"), Goal::None, |_| parse(text, &axes));
        let value = layout(text)?;
        bench.short(&format!("print TIRx, {name}"), Goal::None, |_| tirx::print_tirx(&value));
    }
    let spyre =
        zellige_notation::preset::find_preset("spyre-3d").map(|p| p.text).unwrap_or_default();
    bench.short("parse Spyre, 4 device dimensions", Goal::None, |_| parse(&spyre, &axes));
    Ok(())
}
