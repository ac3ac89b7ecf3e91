//! A layout in sentences, for a reader who knows tensors and no notation.
//!
//! The iters of every dimension are found by grouping the layout over its shape; each sentence is about one thing:
//! order in memory, tiles, threads and devices, copies, the swizzle, padding. Where the iters do not meet the
//! dimensions, the sentences are about the layout's own dimensions, and say so.

use zellige_layout::{Axis, AxisKind, ExecutionScope, Iter, Layout};

/// An iter of a dimension, with the step that it makes in the dimension.
#[derive(Debug, Clone, Copy)]
struct DimPart {
    dim: usize,
    /// Steps of the dimension between two values.
    step: i64,
    iter: Iter,
}

/// The sentences, one thing each.
pub(crate) fn describe_in_sentences(layout: &Layout, shape: &[i64]) -> Vec<String> {
    if layout.size() == 0 {
        return vec!["The tensor has no elements.".into()];
    }
    let padded: Vec<i64> = layout.window().map_or(shape.to_vec(), |w| w.padded_shape());
    let tile = layout.tile();
    // Neighbouring iters that step as one are one.
    let (parts, own) = match tile.canonical_form().group(&padded) {
        Ok((grouped, seps)) => (split_dim_parts(grouped.shard(), &seps), false),
        Err(_) => {
            let seps: Vec<usize> = (0..=tile.shard().len()).collect();
            (split_dim_parts(tile.shard(), &seps), true)
        }
    };
    let mut list = Vec::new();
    if own {
        list.push("Its parts do not meet the dimensions of the shape; dimensions here are those of its own.".into());
    }
    let mut axes: Vec<Axis> = tile.axes().to_vec();
    // Who holds an element comes before where in that memory it is: a reader needs the first to understand the
    // second.
    axes.sort_by_key(|a| (matches!(a.kind(), AxisKind::Memory), *a != Axis::M));
    let holder = memory_holder(&axes);
    for axis in axes {
        let on: Vec<DimPart> =
            parts.iter().copied().filter(|p| p.iter.axis == axis && p.iter.extent > 1).collect();
        if on.is_empty() {
            continue;
        }
        match axis.kind() {
            AxisKind::Memory => list.extend(describe_memory(axis, holder, &on)),
            _ => list.push(describe_spread(axis, &on)),
        }
    }
    for it in tile.replica().iter().filter(|it| it.extent > 1) {
        let (on, apart) = (axis_owners(it.axis), describe_stride(it.stride));
        list.push(format!("Every element has {} copies on {on}{apart}.", it.extent));
    }
    for (axis, at) in tile.offset().iter().filter(|(_, at)| *at != 0) {
        list.push(format!("All of it begins at {at} on {axis}."));
    }
    if let Some(sw) = layout.swizzle() {
        let (keep, rows) = (1i64 << sw.per_element(), 1i64 << sw.swizzle_len());
        list.push(format!(
            "A swizzle moves runs of {keep} elements: among {rows} runs, the place is XORed with the number of the row."
        ));
    }
    if let Some(w) = layout.window().filter(|w| !w.is_full()) {
        list.push(format!("The shape {:?} is padded to {:?}.", w.shape(), w.padded_shape()));
    }
    if list.is_empty() {
        list.push("One element.".into());
    }
    list
}

fn split_dim_parts(shard: &[Iter], seps: &[usize]) -> Vec<DimPart> {
    let mut list = Vec::new();
    for (dim, ends) in seps.windows(2).enumerate() {
        let mut step = 1;
        let mut mine: Vec<DimPart> = Vec::new();
        for iter in shard[ends[0]..ends[1]].iter().rev() {
            mine.push(DimPart { dim, step, iter: *iter });
            // The iters of a dimension are its digits, the last the fastest, so each step is the product of the
            // extents behind it.
            step *= iter.extent;
        }
        list.extend(mine.into_iter().rev());
    }
    list
}

/// Whose memory an element is in, where threads or devices divide the tensor.
fn memory_holder(axes: &[Axis]) -> Option<&'static str> {
    let narrowest = axes.iter().filter_map(|a| match a.kind() {
        AxisKind::Thread { of, .. } => Some(of),
        _ => None,
    });
    // A tensor over warps and lanes is held by lanes: the narrowest scope owns the registers.
    match narrowest.max_by_key(|scope| ExecutionScope::ALL.iter().position(|s| s == scope)) {
        Some(scope) => Some(scope.name()),
        None => axes.iter().any(|a| a.kind() == AxisKind::Device).then_some("device"),
    }
}

/// What the numbers on an axis count.
fn axis_owners(axis: Axis) -> String {
    match axis.kind() {
        AxisKind::Thread { .. } if axis == Axis::LANEID => "the lanes of a warp".into(),
        AxisKind::Thread { of, within } => {
            format!("the {}s of a {} ({axis})", of.name(), within.name())
        }
        AxisKind::Device => format!("the devices ({axis})"),
        AxisKind::Memory => axis.to_string(),
    }
}

fn describe_stride(stride: i64) -> String {
    if stride == 1 { String::new() } else { format!(", {stride} apart") }
}

/// Dimensions over threads or devices.
fn describe_spread(axis: Axis, on: &[DimPart]) -> String {
    let mut order = on.to_vec();
    order.sort_by_key(|p| std::cmp::Reverse(p.iter.stride.unsigned_abs()));
    let each: Vec<String> = order
        .iter()
        .map(|p| {
            let runs = if p.step == 1 { String::new() } else { format!(" in runs of {}", p.step) };
            let (dim, extent, apart) = (p.dim, p.iter.extent, describe_stride(p.iter.stride));
            format!("dimension {dim}{runs} over {extent} of them{apart}")
        })
        .collect();
    format!("Divided among {}: {}.", axis_owners(axis), each.join("; "))
}

/// The order in memory, and the tiles that it makes.
fn describe_memory(axis: Axis, holder: Option<&str>, on: &[DimPart]) -> Vec<String> {
    let mut list = Vec::new();
    let place = if axis == Axis::M { "in memory".to_string() } else { format!("on {axis}") };
    let subject = match holder {
        None => format!("It is laid out {place}"),
        Some(holder) => {
            let held: i64 = on.iter().map(|p| p.iter.extent).product();
            let place = if axis == Axis::M { String::new() } else { format!(" {place}") };
            format!("The {held} elements that a {holder} holds are laid out{place}")
        }
    };
    let repeated: Vec<&DimPart> = on.iter().filter(|p| p.iter.stride == 0).collect();
    let mut order: Vec<&DimPart> = on.iter().filter(|p| p.iter.stride != 0).collect();
    // By the size of the step alone: a dimension that runs backwards is as fast as one that runs forwards.
    order.sort_by_key(|p| p.iter.stride.unsigned_abs());
    let split: Vec<usize> = order
        .iter()
        .map(|p| p.dim)
        .filter(|d| order.iter().filter(|p| p.dim == *d).count() > 1)
        .collect();
    let dense = {
        let mut next = 1;
        order.iter().all(|p| {
            let fits = p.iter.stride == next;
            next *= p.iter.extent;
            fits
        })
    };
    let dims: Vec<String> = order.iter().map(|p| p.dim.to_string()).collect();
    if split.is_empty() {
        match order.as_slice() {
            [] => {}
            [one] => {
                let runs = if one.iter.stride == 1 {
                    "element after element".into()
                } else {
                    format!("{} apart", one.iter.stride)
                };
                list.push(match holder {
                    None => format!("Dimension {} is laid out {place}, {runs}.", one.dim),
                    Some(_) => format!("{subject} along dimension {}, {runs}.", one.dim),
                });
            }
            _ => {
                let descending = order.windows(2).all(|w| w[0].dim > w[1].dim);
                let ascending = order.windows(2).all(|w| w[0].dim < w[1].dim);
                let name = match (descending, ascending) {
                    (true, _) => "row-major, the last dimension fastest".to_string(),
                    (_, true) => "column-major, the first dimension fastest".to_string(),
                    _ => format!("dimensions from the fastest to the slowest: {}", dims.join(", ")),
                };
                let gaps =
                    if dense { "without gaps" } else { "with strides that leave gaps or overlap" };
                list.push(format!("{subject} {name}, {gaps}."));
            }
        }
    } else {
        // A tile is a block of elements that is contiguous before the next part of any divided dimension begins: it consists of
        // the fast parts of divided dimensions.
        let last_of_dim = |p: &DimPart| {
            !order.iter().any(|q| {
                q.dim == p.dim && q.iter.stride.unsigned_abs() > p.iter.stride.unsigned_abs()
            })
        };
        // Only a prefix counts: behind the first part that ends its dimension, elements of one tile are no longer
        // together.
        let inside = order.iter().take_while(|p| split.contains(&p.dim) && !last_of_dim(p)).count();
        let (inside, between) = order.split_at(inside);
        if inside.is_empty() {
            list.push(format!("{subject} {}.", describe_order(between)));
        } else {
            let mut sizes: Vec<(usize, i64)> = Vec::new();
            for p in inside {
                match sizes.iter_mut().find(|(d, _)| *d == p.dim) {
                    Some((_, n)) => *n *= p.iter.extent,
                    None => sizes.push((p.dim, p.iter.extent)),
                }
            }
            sizes.sort_unstable();
            let tile: Vec<String> = sizes.iter().map(|(_, n)| n.to_string()).collect();
            let along: Vec<String> = sizes.iter().map(|(d, _)| d.to_string()).collect();
            let along = match along.split_last() {
                Some((last, [])) => format!("dimension {last}"),
                Some((last, others)) => format!("dimensions {} and {last}", others.join(", ")),
                None => String::new(),
            };
            let tile = tile.join(" x ");
            list.push(match sizes.len() {
                1 => format!("{subject} in runs of {tile} along {along}."),
                _ => format!(
                    "{subject} in tiles of {tile} along {along}, each {}.",
                    describe_order(inside)
                ),
            });
            let what = if sizes.len() == 1 { "Runs" } else { "Tiles" };
            if !between.is_empty() {
                list.push(format!("{what} follow each other {}.", describe_order(between)));
            }
        }
    }
    for p in repeated {
        list.push(format!(
            "All of dimension {} is at the same place {place}: it is broadcast.",
            p.dim
        ));
    }
    list
}

/// The order of parts, fastest first. A dimension of which there are several parts is counted in runs.
fn describe_order(parts: &[&DimPart]) -> String {
    let several = |p: &DimPart| parts.iter().filter(|q| q.dim == p.dim).count() > 1;
    let one = |p: &&DimPart| match p.step {
        step if several(p) && step > 1 => {
            format!("dimension {} in steps of {step}, {} of them", p.dim, p.iter.extent)
        }
        _ if several(p) => format!("{} of dimension {}", p.iter.extent, p.dim),
        _ => format!("dimension {}", p.dim),
    };
    format!("along {}", parts.iter().map(one).collect::<Vec<_>>().join(", then "))
}
