//! A storage as one row-major tensor, so that every view of it is strides over a row-major index.

use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

impl Tensor {
    /// The whole storage as a row-major tensor: the element with index `i` is the one that a view reads at offset `i`.
    /// The same memory; none where the storage has no such form.
    pub fn row_major_storage(&self) -> Option<Tensor> {
        let laid = self.tensor_layout().row_major_storage()?;
        Some(Tensor { laid: Arc::new(laid), ..self.clone() })
    }
}

impl TensorLayout {
    /// As [`Tensor::row_major_storage`]. A host whose dimensions are in another order is taken in the order of its memory,
    /// and one with gaps between its rows is a corner of the box that has none.
    pub fn row_major_storage(&self) -> Option<TensorLayout> {
        let whole = self.base_layout();
        let size = row_major_size(whole.view())?;
        if size == whole.size() {
            return Some(whole);
        }
        let plain = StridedLayout::new_contiguous(&size).ok()?;
        let layout: StickLayout =
            self.stick_layout().with_own_strides(&size, plain.stride()).ok()?;
        TensorLayout::new(self.storage_policy(), self.dtype(), &layout).ok()
    }
}

/// The size of the row-major box that a host's strides step through; its own size where it is row-major. None where a
/// stride is no multiple of the next smaller one, or rows overlap.
fn row_major_size(host: &StridedLayout) -> Option<Vec<i64>> {
    if host.offset() != 0 || host.numel() == 0 {
        return None;
    }
    if StridedLayout::new_contiguous(host.size()).is_ok_and(|plain| plain.stride() == host.stride())
    {
        return Some(host.size().to_vec());
    }
    // Nothing steps along a dimension of size 1, and a broadcast dimension has no memory of its own.
    let mut dims: Vec<(i64, i64)> =
        host.sizes_and_strides().filter(|(n, s)| *n != 1 && *s != 0).collect();
    dims.sort_by_key(|(_, stride)| -stride);
    let mut size: Vec<i64> = Vec::with_capacity(dims.len() + 1);
    let mut outer: Option<i64> = None;
    for (n, stride) in &dims {
        let extent = match outer {
            None => *n,
            Some(outer) if *stride > 0 && outer % stride == 0 => outer / stride,
            Some(_) => return None,
        };
        if extent < *n {
            return None;
        }
        size.push(extent);
        outer = Some(*stride);
    }
    match outer {
        Some(last) if last < 1 => None,
        Some(last) if last > 1 => {
            size.push(last);
            Some(size)
        }
        _ => Some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::row_major_size;
    use zellige_layout::StridedLayout;

    #[test]
    fn sizes_follow_the_order_of_the_memory() {
        let size = |size: &[i64], stride: &[i64]| {
            row_major_size(&StridedLayout::new(size, stride, 0).expect("a host"))
        };
        assert_eq!(size(&[3, 5], &[5, 1]), Some(vec![3, 5]));
        assert_eq!(size(&[3, 5], &[1, 3]), Some(vec![5, 3]));
        assert_eq!(size(&[2, 3, 4], &[12, 1, 3]), Some(vec![2, 4, 3]));
        // A corner of a box, and every second element.
        assert_eq!(size(&[3, 5], &[8, 1]), Some(vec![3, 8]));
        assert_eq!(size(&[3, 5], &[10, 2]), Some(vec![3, 5, 2]));
        // Rows that overlap, or that no box has.
        assert_eq!(size(&[3, 5], &[2, 1]), None);
        assert_eq!(size(&[3, 3, 2], &[7, 2, 1]), None);
    }
}
