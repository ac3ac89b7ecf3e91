//! Tensors of files, described as host memory.

use crate::container::Container;
use crate::error::Result;
use crate::info::{ContainerKind, DimensionOrder, TensorInfo};
use std::path::Path;
use std::sync::Arc;
use zellige_layout::StridedLayout;

/// A tensor of an open file, whose bytes are read on demand.
#[derive(Debug, Clone)]
pub struct HostTensor {
    container: Arc<Container>,
    info: TensorInfo,
}

impl HostTensor {
    /// The tensor of that name; without a name, the only one of the file.
    pub fn open(path: impl AsRef<Path>, name: Option<&str>) -> Result<HostTensor> {
        HostTensor::from_container(&Arc::new(Container::open(path)?), name)
    }

    /// The tensor of that name from an open file, which all its tensors share.
    pub fn from_container(container: &Arc<Container>, name: Option<&str>) -> Result<HostTensor> {
        let info = container.tensor_or_only(name)?.clone();
        Ok(HostTensor { container: Arc::clone(container), info })
    }

    /// Parses `FILE`, or `FILE:NAME` for a file with several tensors. A file whose own name
    /// contains a colon takes precedence.
    pub fn parse(text: &str) -> Result<HostTensor> {
        let named = text.rsplit_once(':').filter(|(file, _)| {
            // A colon is a valid character of a file name, so an existing file of the whole name
            // goes first.
            !Path::new(text).exists() && ContainerKind::announced_by_name(Path::new(file)).is_some()
        });
        match named {
            Some((file, name)) => HostTensor::open(file, Some(name)),
            None => HostTensor::open(text, None),
        }
    }

    /// The description of the tensor in the file.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Reads its elements in the order of the file, in the byte order of this machine.
    ///
    /// # Errors
    /// As for [`Container::read_tensor`].
    pub fn read_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = self.container.read_tensor(&self.info)?;
        self.info.swap_bytes(&mut bytes);
        Ok(bytes)
    }

    /// Its size and strides, in elements.
    ///
    /// # Errors
    /// None for a shape that a file contains; the algebra checks it again.
    pub fn strided_layout(&self) -> Result<StridedLayout, zellige_layout::LayoutError> {
        self.info.strided_layout()
    }
}

impl TensorInfo {
    /// Its size and strides in the file, in elements.
    ///
    /// # Errors
    /// None for a shape that a file contains; the algebra checks it again.
    pub fn strided_layout(&self) -> Result<StridedLayout, zellige_layout::LayoutError> {
        match self.order {
            DimensionOrder::RowMajor => StridedLayout::new_contiguous(&self.shape),
            DimensionOrder::ColumnMajor => {
                let mut reversed = self.shape.clone();
                reversed.reverse();
                let mut stride = StridedLayout::new_contiguous(&reversed)?.stride().to_vec();
                stride.reverse();
                StridedLayout::new(&self.shape, &stride, 0)
            }
        }
    }
}
