//! An opened file of tensors.

use crate::error::{FileError, Result, list_names};
use crate::info::{ContainerKind, FileContents, FileExtent, FileMetadata, TensorInfo};
use crate::input::InputFile;
use crate::source::{TensorReader, TensorSource};
use crate::{npy, npz, safetensors};
use std::collections::HashMap;
use std::path::Path;

/// A file of tensors whose headers have been read and checked.
///
/// Opening reads headers only, whatever the size of the tensors. What [`Container::tensors`]
/// lists lies inside the file as it was then.
#[derive(Debug)]
pub struct Container {
    input: InputFile,
    kind: ContainerKind,
    contents: FileContents,
    /// The index of each tensor: a checkpoint asks for every one of tens of thousands.
    by_name: HashMap<String, usize>,
}

impl Container {
    /// Opens a file, telling by its first bytes what it is; the name only matters for the error
    /// when they tell nothing.
    ///
    /// # Errors
    /// Whatever is not exactly as the format says: a wrong header, bytes that are missing, that
    /// belong to two tensors or to none.
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

    /// What the file is.
    pub fn kind(&self) -> ContainerKind {
        self.kind
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.input.path
    }

    /// That nobody has written to the file since it was opened, so that what was read of it belongs
    /// together.
    ///
    /// # Errors
    /// [`FileError::Changed`] where its length or the time of its last change is another one.
    pub fn check_unchanged(&self) -> Result<()> {
        self.input.check_unchanged()
    }

    /// Every tensor, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.contents.tensors
    }

    /// What else the file holds and why it is not listed: dtypes that Zellige does not know,
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
    /// There is none, or it is a refused one: then the error is the reason.
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
    /// There are several or none; a refused one counts, as it could be the one that is meant.
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

    /// The tensor of a name, or without one the only tensor.
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
    // The reader of the announced container says best what is wrong.
    ContainerKind::announced_by_name(&input.path).ok_or_else(|| FileError::UnknownKind {
        path: input.path.clone(),
        found: match start.is_empty() {
            true => "the file is empty".to_string(),
            false => format!("begins with \"{}\"", start.escape_ascii()),
        },
    })
}
