//! The description of a tensor in a file, and the request for a tensor of a new file.

use crate::error::{FileError, Result};
use std::collections::BTreeMap;
use std::path::Path;
use zellige_float::Dtype;

/// The three containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// One array of NumPy.
    Npy,
    /// A zip archive of `.npy` entries.
    Npz,
    /// Tensors behind one JSON header.
    Safetensors,
}

impl ContainerKind {
    /// Every container.
    pub const ALL: [ContainerKind; 3] =
        [ContainerKind::Npy, ContainerKind::Npz, ContainerKind::Safetensors];

    /// The extension of its files, without the dot.
    pub fn file_extension(self) -> &'static str {
        match self {
            ContainerKind::Npy => "npy",
            ContainerKind::Npz => "npz",
            ContainerKind::Safetensors => "safetensors",
        }
    }

    /// The container that a name announces, for files that do not exist yet.
    pub fn from_path(path: &Path) -> Result<ContainerKind> {
        ContainerKind::announced_by_name(path).ok_or_else(|| {
            FileError::refused_request(
                path,
                "the name does not say which container to write",
                "names that end in .npy, .npz or .safetensors",
            )
        })
    }

    pub(crate) fn announced_by_name(path: &Path) -> Option<ContainerKind> {
        let extension = path.extension()?.to_str()?;
        ContainerKind::ALL.into_iter().find(|k| k.file_extension().eq_ignore_ascii_case(extension))
    }
}

/// Which dimension varies fastest among the stored elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DimensionOrder {
    /// The last one, as in C.
    RowMajor,
    /// The first one, as in Fortran.
    ColumnMajor,
}

/// Which byte of a stored number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The lowest.
    Little,
    /// The highest.
    Big,
}

impl ByteOrder {
    /// That of the machine this runs on.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
}

/// A tensor in a file: everything needed to find and read its elements.
///
/// Only [`Container`](crate::Container) and [`ContainerWriter`](crate::ContainerWriter) make one,
/// after checking that its bytes are inside of the file and that their number matches dtype and
/// shape. Extents are 0 or more, there are at most [`MAX_RANK`](crate::MAX_RANK) of them, and the
/// product of those that are not 0, in bytes, fits in an `i64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<i64>,
    pub(crate) order: DimensionOrder,
    pub(crate) endian: ByteOrder,
    pub(crate) bytes: u64,
    pub(crate) extent: FileExtent,
}

/// The part of a file that holds a tensor, possibly compressed and possibly after a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileExtent {
    /// The first byte of the part.
    pub(crate) start: u64,
    /// The number of bytes of the part in the file.
    pub(crate) length: u64,
    /// The number of bytes before the first element, when decompressed.
    pub(crate) head: u64,
    /// Whether the part is a deflate stream.
    pub(crate) deflated: bool,
    /// The checksum of head and elements, if the container has one.
    pub(crate) crc: Option<u32>,
}

impl FileExtent {
    /// The extent of a tensor that is not compressed.
    pub(crate) fn uncompressed(start: u64, length: u64) -> FileExtent {
        FileExtent { start, length, head: 0, deflated: false, crc: None }
    }
}

impl TensorInfo {
    /// Its name: that of the entry without `.npy`; for a `.npy` file that of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its extents, as the file lists them whatever the order.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Which dimension is the fastest.
    pub fn dimension_order(&self) -> DimensionOrder {
        self.order
    }

    /// The byte order of its elements; little for elements of one byte.
    pub fn byte_order(&self) -> ByteOrder {
        self.endian
    }

    /// The number of bytes of all elements.
    pub fn byte_len(&self) -> u64 {
        self.bytes
    }

    /// The position of the first element in the file; `None` if the tensor is compressed.
    pub fn data_offset(&self) -> Option<u64> {
        (!self.extent.deflated).then_some(self.extent.start + self.extent.head)
    }

    /// The number of bytes that are reversed together if the byte order is not that of this
    /// machine: an element, or one half of a complex element. `None` if nothing has to be reversed.
    pub fn swap_unit(&self) -> Option<usize> {
        let unit = match self.dtype {
            Dtype::Complex32 => 2,
            Dtype::Complex64 => 4,
            Dtype::Complex128 => 8,
            other => usize::try_from(other.bits() / 8).unwrap_or(0),
        };
        (self.endian != ByteOrder::NATIVE && unit > 1).then_some(unit)
    }

    /// Converts whole elements between the byte order of the file and that of this machine.
    pub fn swap_bytes(&self, elements: &mut [u8]) {
        if let Some(unit) = self.swap_unit() {
            elements.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
    }
}

/// Metadata of a whole file.
pub type FileMetadata = BTreeMap<String, String>;

/// The contents of the headers of a file.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    pub(crate) tensors: Vec<TensorInfo>,
    /// Entries that are not tensors of Zellige, with the reasons.
    pub(crate) refused: Vec<(String, FileError)>,
    pub(crate) metadata: FileMetadata,
}

/// A tensor to be written: row-major, little-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTensor {
    /// Its name; not written into a `.npy` file, which has no place for it.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its extents.
    pub shape: Vec<i64>,
}

impl NewTensor {
    /// A request; [`ContainerWriter::create`](crate::ContainerWriter::create) checks it.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: impl Into<Vec<i64>>) -> NewTensor {
        NewTensor { name: name.into(), dtype, shape: shape.into() }
    }
}
