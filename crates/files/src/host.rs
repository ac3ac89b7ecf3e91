//! Tensors of files as host memory, without a copy where the file holds them as they are.

use crate::container::Container;
use crate::error::{Error, Result};
use crate::info::{Kind, Order, TensorInfo};
use crate::whole::read_all;
use std::path::Path;
use zellige_layout::Strided;
use zellige_movement::Mapped;

/// A tensor of a file and its bytes in the byte order of this machine.
///
/// The bytes are mapped, so that a tensor larger than memory can still be moved; a compressed one,
/// or one of the other byte order, is read.
#[derive(Debug)]
pub struct HostTensor {
    info: TensorInfo,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Mapped(Mapped),
    Read(Vec<u8>),
}

impl HostTensor {
    /// The tensor of that name; without a name, the only one of the file.
    pub fn open(path: impl AsRef<Path>, name: Option<&str>) -> Result<HostTensor> {
        let path = path.as_ref();
        let container = Container::open(path)?;
        let info = match name {
            Some(name) => container.tensor(name)?,
            None => container.only()?,
        };
        if let (Some(offset), None) = (info.data_offset(), info.swap_unit()) {
            let failed = |e| Error::io(path, format!("map {} bytes", info.bytes()), e);
            let length =
                usize::try_from(info.bytes()).map_err(|e| failed(std::io::Error::other(e)))?;
            let map = Mapped::new(container.file(), offset, length).map_err(failed)?;
            return Ok(HostTensor { info: info.clone(), data: Data::Mapped(map) });
        }
        let (info, mut bytes) = read_all(path, name)?;
        info.swap(&mut bytes);
        Ok(HostTensor { info, data: Data::Read(bytes) })
    }

    /// The same for `FILE` or `FILE:NAME`, where the file is one of several tensors. A file whose
    /// own name holds a colon is found first.
    pub fn parse(text: &str) -> Result<HostTensor> {
        let named = text.rsplit_once(':').filter(|(file, _)| {
            !Path::new(text).exists() && Kind::announced(Path::new(file)).is_some()
        });
        match named {
            Some((file, name)) => HostTensor::open(file, Some(name)),
            None => HostTensor::open(text, None),
        }
    }

    /// What the file says of it.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Its elements, as they lie in the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(map) => map,
            Data::Read(bytes) => bytes,
        }
    }

    /// Its size and strides, in elements.
    ///
    /// # Errors
    /// None for a shape that a file holds; the algebra checks it anew.
    pub fn strided(&self) -> Result<Strided, zellige_layout::Error> {
        self.info.strided()
    }
}

impl TensorInfo {
    /// Its size and strides, in elements, as it lies in the file.
    ///
    /// # Errors
    /// None for a shape that a file holds; the algebra checks it anew.
    pub fn strided(&self) -> Result<Strided, zellige_layout::Error> {
        match self.order {
            Order::RowMajor => Strided::contiguous(&self.shape),
            Order::ColumnMajor => {
                let mut reversed = self.shape.clone();
                reversed.reverse();
                let mut stride = Strided::contiguous(&reversed)?.stride().to_vec();
                stride.reverse();
                Strided::new(&self.shape, &stride, 0)
            }
        }
    }
}
