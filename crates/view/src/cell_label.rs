//! The short texts inside cells.

use zellige_layout::{Axis, Iter, Layout};

/// The letters that stand for an axis in labels: `T` for a thread, `r` for its register, `D` for
/// a device. Other axes keep their name; two axes never share letters.
pub(crate) fn axis_code(axis: Axis, axes: &[Axis]) -> String {
    // A cell has room for some ten characters, and a label names an owner and a register.
    let short = |a: Axis| match a.name() {
        "laneid" | "tx" | "tid" | "tid_in_wg" => "T",
        "warpid" | "wid_in_wg" => "W",
        "wgid" => "G",
        "pid" => "D",
        "TLane" => "L",
        "TCol" => "C",
        "Bank" => "B",
        "m" if axes.iter().any(Axis::is_thread) => "r",
        _ => "",
    };
    let own = short(axis);
    let clash = |a: &Axis| *a != axis && (short(*a) == own || a.name() == own);
    // Two axes with one letter would give two places the same label.
    if own.is_empty() || axes.iter().any(clash) {
        // A name that ends in a digit would run into the number.
        let digit = axis.name().ends_with(|c: char| c.is_ascii_digit());
        return format!("{}{}", axis.name(), if digit { "=" } else { "" });
    }
    own.to_string()
}

/// `T = laneid, r = m`; empty where labels need no explanation.
pub(crate) fn code_key(axes: &[Axis]) -> String {
    let pairs: Vec<_> = axes
        .iter()
        .map(|a| (axis_code(*a, axes), a.name()))
        .filter(|(code, name)| code != name)
        .map(|(code, name)| format!("{code} = {name}"))
        .collect();
    pairs.join(", ")
}

/// The places of one element: `T3 r1`, `T3 W0,1` for two copies, the address alone for memory.
pub(crate) fn label_places(places: &[Vec<i64>], axes: &[Axis]) -> String {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|i| axis_rank(axes[*i]));
    let words: Vec<_> = order
        .into_iter()
        .map(|i| {
            let mut values: Vec<i64> = places.iter().map(|p| p[i]).collect();
            values.sort_unstable();
            values.dedup();
            let text = match values[..] {
                // Three values fit in a cell; more are given as a range, with commas around the dots where it has
                // holes.
                [first, .., last] if values.len() > 3 => {
                    let wide = i128::from(last) - i128::from(first);
                    let dots = if wide + 1 == values.len() as i128 { ".." } else { ",..," };
                    format!("{first}{dots}{last}")
                }
                _ => values.iter().map(i64::to_string).collect::<Vec<_>>().join(","),
            };
            if axes == [Axis::M] { text } else { format!("{}{text}", axis_code(axes[i], axes)) }
        })
        .collect();
    if words.is_empty() { "0".into() } else { words.join(" ") }
}

/// Owners come before what they own: devices, threads wide to narrow, memory, `m` last.
pub(crate) fn axis_rank(axis: Axis) -> (u8, i64, u8) {
    use zellige_layout::AxisKind as Kind;
    match axis.kind() {
        Kind::Device => (0, 0, 0),
        Kind::Thread { of, within } => (1, of as i64, within as u8),
        Kind::Memory => match axis.name() {
            "Bank" => (2, 0, 0),
            "P" | "TLane" => (2, 2, 0),
            "F" | "TCol" => (2, 3, 0),
            "m" => (2, 4, 0),
            _ => (2, 1, 0),
        },
    }
}

/// A coordinate without brackets, `3,5`; `()` for a scalar.
pub(crate) fn label_coordinate(values: &[i64]) -> String {
    if values.is_empty() {
        return "()".into();
    }
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// The elements of one place: the first, and how many more share it.
pub(crate) fn label_elements(coordinates: &[Vec<i64>]) -> String {
    match coordinates {
        [] => String::new(),
        [one] => label_coordinate(one),
        [first, rest @ ..] => format!("{} +{}", label_coordinate(first), rest.len()),
    }
}

/// The layout in one line, for a caption: `S[(2,4):(4@laneid,1)] + R[2:1@warpid], valid 3/4`.
pub(crate) fn caption_layout(layout: &Layout) -> String {
    let on = |value: i64, axis: Axis| {
        if axis == Axis::M { value.to_string() } else { format!("{value}@{axis}") }
    };
    let list = |items: Vec<String>| match &items[..] {
        [one] => one.clone(),
        _ => format!("({})", items.join(",")),
    };
    let iters = |iters: &[Iter]| {
        if iters.is_empty() {
            return "[]".to_string();
        }
        let extents = iters.iter().map(|it| it.extent.to_string()).collect();
        let strides = iters.iter().map(|it| on(it.stride, it.axis)).collect();
        format!("[{}:{}]", list(extents), list(strides))
    };
    let tile = layout.tile();
    let mut text = layout.swizzle().map_or(String::new(), |s| format!("{s:?} ∘ "));
    text.push_str(&format!("S{}", iters(tile.shard())));
    if !tile.replica().is_empty() {
        text.push_str(&format!(" + R{}", iters(tile.replica())));
    }
    for (axis, value) in tile.offset().iter().filter(|(_, v)| *v != 0) {
        text.push_str(&format!(" + {}", on(*value, *axis)));
    }
    if let Some(window) = layout.window() {
        let dims = window.dims().iter().map(|d| match d.begin {
            0 => format!("{}/{}", d.valid, d.padded),
            begin => format!("{begin}+{}/{}", d.valid, d.padded),
        });
        text.push_str(&format!(", valid {}", list(dims.collect())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_layout::{AxisKind, AxisTable};

    #[test]
    fn codes_are_short_and_never_clash() {
        let mut table = AxisTable::new();
        let lx = table.declare_axis("lx2", AxisKind::Memory).expect("fine");
        let d = table.declare_axis("D", AxisKind::Memory).expect("fine");
        let get = |n: &str| table.get(n).expect("built in");
        let axes = [d, get("laneid"), lx, Axis::M, Axis::PID, Axis::TX];
        let codes: Vec<_> = axes.iter().map(|a| axis_code(*a, &axes)).collect();
        assert_eq!(codes, ["D", "laneid", "lx2=", "r", "pid", "tx"]);
        let pair = [get("laneid"), get("warpid")];
        assert_eq!(code_key(&pair), "T = laneid, W = warpid");
        assert_eq!(label_places(&[vec![3, 0], vec![3, 1]], &pair), "W0,1 T3");
        let many: Vec<_> = (0..9).map(|i| vec![3, i]).collect();
        assert_eq!(label_places(&many, &pair), "W0..8 T3");
        assert_eq!(label_places(&[vec![]], &[]), "0");
        assert_eq!(label_places(&[vec![-7]], &[Axis::M]), "-7");
    }

    #[test]
    fn elements_say_how_many_share() {
        assert_eq!(label_elements(&[vec![]]), "()");
        assert_eq!(label_elements(&[vec![1, 2], vec![3, 4], vec![5, 6]]), "1,2 +2");
    }
}
