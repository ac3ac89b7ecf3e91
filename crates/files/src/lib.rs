//! Tensors in files: `.npy`, `.npz` and `.safetensors`.
//!
//! Reading is strict: [`Container::open`] reads the headers and accepts a file only if every tensor
//! is inside of it, with as many bytes as its dtype and shape take. Writing is atomic: a
//! [`ContainerWriter`] fills a temporary file beside the final name and renames it at the end, so
//! that an interruption never leaves half a file under the final name. A program that has to stop
//! calls [`remove_unfinished`], which removes the temporary files too.
//!
//! Tensors larger than memory are read and written in parts at positions
//! ([`TensorSource::read_at`], [`ContainerWriter::write_at`]). No file is mapped into memory: a
//! file that is shortened while it is read causes an error ([`FileError::Changed`]) and not a
//! signal that ends the process.
//!
//! ```
//! use zellige_files::{Container, ContainerKind, ContainerWriter, NewTensor};
//! use zellige_float::Dtype;
//! # let folder = std::env::temp_dir().join(format!("zellige-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! let path = folder.join("x.npy");
//! let x = NewTensor::new("x", Dtype::Int16, [2, 3]);
//! let writer = ContainerWriter::create(&path, &[x], ContainerKind::Npy)?;
//! writer.write_at(0, 0, &[1, 0, 2, 0, 3, 0])?;
//! writer.write_at(0, 6, &[4, 0, 5, 0, 6, 0])?;
//! assert!(!path.exists());
//! writer.finish_and_settle()?;
//!
//! let file = Container::open(&path)?;
//! let x = file.find_tensor("x")?;
//! assert_eq!((x.dtype(), x.shape()), (Dtype::Int16, &[2, 3][..]));
//! let mut last = [0; 2];
//! file.tensor_source(x)?.read_at(&mut last, x.byte_len() - 2)?;
//! assert_eq!(last, [6, 0]);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), zellige_files::FileError>(())
//! ```
//!
//! # What it may not do
//! Choose a layout or a format: the caller that moves a tensor gives both. There is no `unsafe`
//! here: allocations that may fail come from `zellige-host`.

#![forbid(unsafe_code)]

mod byte_file;
mod cache;
mod container;
mod disk;
mod dtype;
mod error;
pub mod faults;
mod feed;
mod folder;
mod host;
mod info;
mod input;
mod literal;
mod npy;
mod npz;
mod partial;
mod relayout;
mod runs;
mod safetensors;
mod source;
mod stale;
mod temporary;
mod touched;
mod verify;
mod whole_file;
mod writer;
mod zip;
mod zip_writer;

pub use byte_file::ByteFile;
pub use cache::{CacheLookup, ContentCache, content_hash};
pub use container::Container;
pub use dtype::MAX_RANK;
pub use error::{FileError, Result};
pub use feed::TensorFeed;
pub use folder::{create_numbered_folder, write_folder};
pub use host::HostTensor;
pub use info::{ByteOrder, ContainerKind, DimensionOrder, FileMetadata, NewTensor, TensorInfo};
pub use relayout::{Relayout, RelayoutError};

pub use source::{TensorReader, TensorSource};
pub use temporary::{NamedFile, remove_unfinished};
pub use verify::{StoredTensor, VerifiedTensor};
pub use whole_file::{
    make_folder, read_bytes, read_tensor_file, read_text, write_bytes, write_tensor_file,
};
pub use writer::ContainerWriter;
