//! A layout as the numbers and the words of a report.

use zellige_device::TensorLayout;
use zellige_report::LayoutSummary;
use zellige_stick::StickLayout;

/// The layout of a tensor, as numbers and in short.
pub(super) fn summarize_layout(laid: &TensorLayout) -> LayoutSummary {
    let layout = laid.stick_layout();
    LayoutSummary {
        size: laid.size().to_vec(),
        stick: laid.stick_form().ok().and_then(|s| s.stick),
        order: if laid.is_base() { describe_order(layout) } else { describe_view_order(laid) },
        device_size: layout.device_size().to_vec(),
        stride_map: layout.stride_map().to_vec(),
        format: layout.device_dtype().name().into(),
    }
}

/// A layout in a sentence that needs no knowledge of stride maps.
pub fn describe_layout(laid: &TensorLayout) -> String {
    let stick = match laid.stick_form() {
        Ok(form) => match form.stick {
            Some(d) => format!("sticks of {} along dimension {d}", form.eps),
            None if laid.numel() <= 1 => "a single element".into(),
            None => "one element in each stick".into(),
        },
        Err(_) => "no plain sticks".into(),
    };
    format!("{stick}; {}", describe_order(laid.stick_layout()))
}

/// The device dimensions from the slowest to the fastest: `d1/64 d0 d1%64` are the sticks of dimension
/// 1, in each of them all of dimension 0, and then the lanes. Where host dimensions are fused, the
/// extents and their strides.
fn describe_order(layout: &StickLayout) -> String {
    let eps = layout.elems_per_stick();
    let last = layout.device_rank() - 1;
    let sizes = layout.device_size();
    let gaps = if layout.has_gaps() { ", with gaps" } else { "" };
    // A fused dimension has no one logical dimension to name.
    let Some(map) = layout.recover_dim_map().ok().filter(|_| layout.stick_dims() == 1) else {
        let pairs = sizes.iter().zip(layout.stride_map()).map(|(n, s)| format!("{n}:{s}"));
        return pairs.collect::<Vec<_>>().join(" ") + gaps;
    };
    let lanes = (!layout.is_sparse()).then(|| map[last]).filter(|d| *d >= 0);
    let mut words = Vec::new();
    for (j, dim) in map.iter().enumerate() {
        words.push(match (*dim, lanes) {
            (d, Some(lane)) if j == last && lane == d => format!("d{d}%{eps}"),
            _ if j == last => format!("1 of {eps}"),
            // A dimension of extent 1 has one coordinate: its position in the order means nothing.
            (d, _) if d < 0 || sizes[j] == 1 => continue,
            (d, Some(lane)) if lane == d => format!("d{d}/{eps}"),
            (d, _) => format!("d{d}"),
        });
    }
    words.join(" ") + gaps
}

/// The same of a view, in its own dimensions.
fn describe_view_order(laid: &TensorLayout) -> String {
    let Ok(form) = laid.stick_form() else {
        return format!("{} through a view", describe_order(laid.stick_layout()));
    };
    let mut dims: Vec<usize> = (0..form.size.len()).filter(|d| form.size[*d] > 1).collect();
    dims.sort_by_key(|d| std::cmp::Reverse(form.stride[*d]));
    let mut words: Vec<String> = Vec::new();
    for d in dims {
        match form.stick {
            Some(s) if s == d && form.size[d] <= form.eps => {}
            Some(s) if s == d => words.push(format!("d{d}/{}", form.eps)),
            _ => words.push(format!("d{d}")),
        }
    }
    words.push(form.stick.map_or(format!("1 of {}", form.eps), |s| format!("d{s}%{}", form.eps)));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_device::StoragePolicy;
    use zellige_float::Dtype;

    #[test]
    fn the_order_is_read_from_the_layout() {
        let laid = |size: &[i64], order: Option<&[i64]>| {
            let layout = match order {
                None => StickLayout::default_for_dtype(size, Dtype::Float16),
                Some(o) => StickLayout::with_dim_order(size, None, Dtype::Float16, o),
            };
            TensorLayout::new(StoragePolicy::default(), Dtype::Float16, &layout.expect("fits"))
                .expect("fits")
        };
        assert_eq!(summarize_layout(&laid(&[300, 200], None)).order, "d1/64 d0 d1%64");
        assert_eq!(summarize_layout(&laid(&[300, 200], Some(&[1, 0]))).order, "d0/64 d1 d0%64");
        let turned = laid(&[300, 200], None).view_layout(|v| v.transpose(0, 1)).expect("a view");
        assert_eq!(summarize_layout(&turned).order, "d0/64 d1 d0%64");
        let words = describe_layout(&laid(&[300, 200], Some(&[1, 0])));
        assert_eq!(words, "sticks of 64 along dimension 0; d0/64 d1 d0%64");
    }
}
