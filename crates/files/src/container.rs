//! An open file of tensors.

use crate::error::{FileError, Result, list_names};
use crate::info::{ContainerKind, FileContents, FileExtent, FileMetadata, TensorInfo};
use crate::input::InputFile;
use crate::source::{TensorReader, TensorSource};
use crate::{npy, npz, safetensors};
use std::collections::HashMap;
use std::path::Path;

/// A file of tensors whose headers have been read and checked.
///
/// Opening reads only headers, whatever the size of the tensors. Every tensor that
/// [`Container::tensors`] lists was inside of the file then.
#[derive(Debug)]
pub struct Container {
    input: InputFile,
    kind: ContainerKind,
    contents: FileContents,
    /// The index of each tensor by name, because a checkpoint looks up tens of thousands of them.
    by_name: HashMap<String, usize>,
}

impl Container {
    /// Opens a file and recognizes its format by its first bytes; the name only matters for the
    /// error if they are unknown.
    ///
    /// # Errors
    /// Every deviation from the format: a wrong header, missing bytes, bytes that belong to two
    /// tensors or to none.
    pub fn open(path: impl AsRef<Path>) -> Result<Container> {
        let input = InputFile::open(path.as_ref())?;
        let kind = detect_kind(&input)?;
        let contents = match kind {
            ContainerKind::Npy => {
                FileContents { tensors: vec![read_single_npy(&input)?], ..FileContents::default() }
            }
            ContainerKind::Npz => npz::read_archive(&input)?,
            ContainerKind::Safetensors => safetensors::read_header(&input)?,
        };
        let mut by_name = HashMap::with_capacity(contents.tensors.len());
        for (index, tensor) in contents.tensors.iter().enumerate() {
            by_name.entry(tensor.name.clone()).or_insert(index);
        }
        Ok(Container { input, kind, contents, by_name })
    }

    /// The format of the file.
    pub fn kind(&self) -> ContainerKind {
        self.kind
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.input.path
    }

    /// Checks that the file has not changed since it was opened, so that everything read from it is
    /// consistent.
    ///
    /// # Errors
    /// [`FileError::Changed`] if its length or the time of its last change differs.
    pub fn check_unchanged(&self) -> Result<()> {
        self.input.check_unchanged()
    }

    /// Every tensor, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.contents.tensors
    }

    /// The other contents of the file, with the reasons why they are not listed: unknown dtypes,
    /// entries of an archive that are not arrays.
    pub fn refused_entries(&self) -> &[(String, FileError)] {
        &self.contents.refused
    }

    /// The `__metadata__` of a `.safetensors` file.
    pub fn metadata(&self) -> &FileMetadata {
        &self.contents.metadata
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// There is none, or it was refused: then the error is the reason.
    pub fn find_tensor(&self, name: &str) -> Result<&TensorInfo> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(&self.contents.tensors[*index]);
        }
        let refused = self.contents.refused.iter().find(|(refused, _)| refused == name);
        Err(refused.map(|(_, reason)| reason.clone()).unwrap_or_else(|| FileError::NoSuchTensor {
            path: self.input.path.clone(),
            name: crate::error::quote_start(name),
            known: self.listed_names(),
        }))
    }

    /// The only tensor.
    ///
    /// # Errors
    /// There are several or none; a refused one counts, because it could be the intended one.
    pub fn only_tensor(&self) -> Result<&TensorInfo> {
        match (&self.contents.tensors[..], &self.contents.refused[..]) {
            ([tensor], []) => Ok(tensor),
            // The only entry was refused: its reason helps more than "there is none".
            ([], [(_, reason)]) => Err(reason.clone()),
            (tensors, refused) => Err(FileError::NotOne {
                path: self.input.path.clone(),
                count: tensors.len() + refused.len(),
                known: self.listed_names(),
            }),
        }
    }

    /// The tensor of a name, or without a name the only tensor.
    ///
    /// # Errors
    /// As [`Container::find_tensor`] and [`Container::only_tensor`].
    pub fn tensor_or_only(&self, name: Option<&str>) -> Result<&TensorInfo> {
        name.map_or_else(|| self.only_tensor(), |name| self.find_tensor(name))
    }

    /// The bytes of a tensor of this file, at any position.
    ///
    /// # Errors
    /// It is compressed: [`Container::tensor_reader`] reads it.
    pub fn tensor_source<'a>(&'a self, info: &'a TensorInfo) -> Result<TensorSource<'a>> {
        TensorSource::new(&self.input, info)
    }

    /// The bytes of a tensor of this file, from start to end.
    pub fn tensor_reader<'a>(&'a self, info: &'a TensorInfo) -> Result<TensorReader<'a>> {
        TensorReader::new(&self.input, info)
    }

    fn listed_names(&self) -> String {
        list_names(self.contents.tensors.iter().map(TensorInfo::name))
    }
}

/// The one array of a `.npy` file, under the name of the file.
fn read_single_npy(input: &InputFile) -> Result<TensorInfo> {
    let header =
        npy::read_header(&mut input.range_stream(0, input.len), input.len, input.start_spot())?;
    let name = input.path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(header.into_tensor(&name, FileExtent::uncompressed(0, input.len)))
}

fn detect_kind(input: &InputFile) -> Result<ContainerKind> {
    // Contents before names: a file may be renamed, and a wrong extension should not decide how
    // bytes are read.
    let start = input.read_bytes(0, input.len.min(9), "the first bytes")?;
    if start.starts_with(npy::MAGIC) {
        return Ok(ContainerKind::Npy);
    }
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return Ok(ContainerKind::Npz);
    }
    // safetensors has no mark; its header begins with a brace behind the 8 bytes of its length.
    if start.get(8) == Some(&b'{') {
        return Ok(ContainerKind::Safetensors);
    }
    // The reader of the format that the name announces gives the best error.
    ContainerKind::announced_by_name(&input.path).ok_or_else(|| FileError::UnknownKind {
        path: input.path.clone(),
        found: match start.is_empty() {
            true => "the file is empty".to_string(),
            false => format!("begins with \"{}\"", start.escape_ascii()),
        },
    })
}
