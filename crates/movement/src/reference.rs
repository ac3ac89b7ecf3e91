//! A mover straight from the definition, element by element, and an executor of plans, loop by loop.
//!
//! Neither is fast, and neither shares arithmetic with the planner or the engine. Every other mover is compared
//! with [`move_elements`].

use crate::address_function::find_memory_axis;
use crate::plan::MovePlan;
use std::collections::HashSet;
use zellige_layout::{Axis, Layout, LayoutError, Result};

/// Moves element by element, straight from the definition of a layout.
pub fn move_elements<T: Copy>(
    src: &Layout,
    dst: &Layout,
    from: &[T],
    to: &mut [T],
    fill: Option<T>,
) -> Result<()> {
    let (src_axis, dst_axis) = (find_memory_axis(src)?, find_memory_axis(dst)?);
    let place = |l: &Layout, axis: Option<Axis>, i: i64| -> Result<Vec<usize>> {
        let points = l.physical_coordinates(i)?.sorted_coordinates();
        let at = |p: &zellige_layout::PhysicalCoordinate| axis.map_or(0, |a| p.get(a));
        points.iter().map(|p| address_to_index(at(p))).collect()
    };
    // Padding is filled first and everywhere, so that elements that share its addresses win.
    if let Some(value) = fill {
        let whole = dst.padded_domain();
        for i in 0..whole.size() {
            for p in place(&whole, dst_axis, i)? {
                to[p] = value;
            }
        }
    }
    for i in 0..src.size() {
        // Replicas of a source hold the same element, so any of them will do.
        let read = place(src, src_axis, i)?[0];
        for p in place(dst, dst_axis, i)? {
            to[p] = from[read];
        }
    }
    Ok(())
}

fn address_to_index(address: i64) -> Result<usize> {
    usize::try_from(address).map_err(|_| LayoutError::BadParameter {
        what: "an address",
        value: address,
        accepted: "buffers begin at address 0".into(),
    })
}

/// Runs a plan loop by loop. Panics where the plan leaves the slices, or writes an address twice.
pub fn run_plan<T: Copy>(plan: &MovePlan, from: &[T], to: &mut [T], fill: Option<T>) {
    let mut written = HashSet::new();
    let mut at = |address: i64| {
        assert!(written.insert(address), "the plan writes {address} twice");
        usize::try_from(address).expect("addresses are 0 or more")
    };
    for nest in plan.nests() {
        for (a, b) in &nest.starts {
            let mut points = vec![(*a, *b)];
            for l in &nest.loops {
                points = points
                    .iter()
                    .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
                    .collect();
            }
            for (a, b) in points {
                to[at(b)] = from[usize::try_from(a).expect("addresses are 0 or more")];
            }
        }
    }
    for f in plan.fills() {
        let mut points = f.starts.clone();
        for (range, stride) in &f.loops {
            points = points.iter().flat_map(|p| (0..*range).map(move |i| p + i * stride)).collect();
        }
        for p in points {
            let p = at(p);
            if let Some(value) = fill {
                to[p] = value;
            }
        }
    }
}
