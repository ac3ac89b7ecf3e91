//! Tensors in host memory.

use crate::error::{ProgramRunError, Result};
use zellige_device::host_format;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;

/// A tensor in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostArray {
    bytes: Vec<u8>,
    view: StridedLayout,
    dtype: Dtype,
}

impl HostArray {
    /// Bytes seen through strides.
    pub fn new(bytes: Vec<u8>, view: StridedLayout, dtype: Dtype) -> HostArray {
        HostArray { bytes, view, dtype }
    }

    /// Row-major bytes.
    ///
    /// # Errors
    /// Sizes past 64 bits, another number of bytes than elements take.
    pub fn from_contiguous(bytes: Vec<u8>, size: &[i64], dtype: Dtype) -> Result<HostArray> {
        let view =
            StridedLayout::new_contiguous(size).map_err(zellige_device::DeviceError::from)?;
        let needed = view.numel().unsigned_abs() * host_format(dtype)?.byte_size() as u64;
        // Checked in 64 bits: on a 32-bit host the size may not fit into the address space, and the error then says
        // so.
        if bytes.len() as u64 != needed {
            return Err(zellige_device::DeviceError::HostBytes {
                what: "source",
                needed: usize::try_from(needed).unwrap_or(usize::MAX),
                found: bytes.len(),
            }
            .into());
        }
        Ok(HostArray { bytes, view, dtype })
    }

    /// Numbers in row-major order.
    ///
    /// # Panics
    /// Sizes that do not have as many elements: for tests and examples.
    pub fn from_f32(size: &[i64], values: &[f32]) -> HostArray {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        HostArray::from_contiguous(bytes, size, Dtype::Float32).expect("as many values as elements")
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Size, strides and offset.
    pub fn view(&self) -> &StridedLayout {
        &self.view
    }

    /// Extents.
    pub fn size(&self) -> &[i64] {
        self.view.size()
    }

    /// Its dtype.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The elements of a contiguous float32 tensor.
    ///
    /// # Errors
    /// Other dtypes.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        if self.dtype != Dtype::Float32 {
            return Err(ProgramRunError::Dtype { dtype: self.dtype });
        }
        let four = |c: &[u8]| f32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        Ok(self.bytes.chunks_exact(4).map(four).collect())
    }
}
