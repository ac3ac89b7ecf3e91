//! An opened file of tensors.

use crate::error::{Error, Result, listing};
use crate::info::{Contents, FileExtent, Kind, Metadata, TensorInfo};
use crate::input::Input;
use crate::source::{Reader, Source};
use crate::{npy, npz, safetensors};
use std::collections::HashMap;
use std::path::Path;

/// A file of tensors whose headers have been read and checked.
///
/// Opening reads headers only, whatever the size of the tensors. What [`Container::tensors`]
/// lists lies inside the file as it was then.
#[derive(Debug)]
pub struct Container {
    input: Input,
    kind: Kind,
    contents: Contents,
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
        let input = Input::open(path.as_ref())?;
        let kind = detect(&input)?;
        let contents = match kind {
            Kind::Npy => Contents { tensors: vec![single(&input)?], ..Contents::default() },
            Kind::Npz => npz::read(&input)?,
            Kind::Safetensors => safetensors::read(&input)?,
        };
        let mut by_name = HashMap::with_capacity(contents.tensors.len());
        for (index, tensor) in contents.tensors.iter().enumerate() {
            by_name.entry(tensor.name.clone()).or_insert(index);
        }
        Ok(Container { input, kind, contents, by_name })
    }

    /// What the file is.
    pub fn kind(&self) -> Kind {
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
    /// [`Error::Changed`] where its length or the time of its last change is another one.
    pub fn check_unchanged(&self) -> Result<()> {
        self.input.check_unchanged()
    }

    /// Every tensor, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.contents.tensors
    }

    /// What else the file holds and why it is not listed: dtypes that Zellige does not know,
    /// entries of an archive that are not arrays.
    pub fn refused(&self) -> &[(String, Error)] {
        &self.contents.refused
    }

    /// The `__metadata__` of a `.safetensors` file.
    pub fn metadata(&self) -> &Metadata {
        &self.contents.metadata
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// There is none, or it is a refused one: then the error is the reason.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(&self.contents.tensors[*index]);
        }
        let refused = self.contents.refused.iter().find(|(refused, _)| refused == name);
        Err(refused.map(|(_, reason)| reason.clone()).unwrap_or_else(|| Error::NoSuchTensor {
            path: self.input.path.clone(),
            name: crate::error::quote(name),
            known: self.names(),
        }))
    }

    /// The only tensor.
    ///
    /// # Errors
    /// There are several or none; a refused one counts, as it could be the one that is meant.
    pub fn only(&self) -> Result<&TensorInfo> {
        match (&self.contents.tensors[..], &self.contents.refused[..]) {
            ([tensor], []) => Ok(tensor),
            ([], [(_, reason)]) => Err(reason.clone()),
            (tensors, refused) => Err(Error::NotOne {
                path: self.input.path.clone(),
                count: tensors.len() + refused.len(),
                known: self.names(),
            }),
        }
    }

    /// The tensor of a name, or without one the only tensor.
    ///
    /// # Errors
    /// As [`Container::tensor`] and [`Container::only`].
    pub fn named(&self, name: Option<&str>) -> Result<&TensorInfo> {
        name.map_or_else(|| self.only(), |name| self.tensor(name))
    }

    /// The bytes of a tensor of this file, at any position.
    ///
    /// # Errors
    /// It is compressed: [`Container::reader`] reads it.
    pub fn source<'a>(&'a self, info: &'a TensorInfo) -> Result<Source<'a>> {
        Source::new(&self.input, info)
    }

    /// The bytes of a tensor of this file, from start to end.
    pub fn reader<'a>(&'a self, info: &'a TensorInfo) -> Result<Reader<'a>> {
        Reader::new(&self.input, info)
    }

    fn names(&self) -> String {
        listing(self.contents.tensors.iter().map(TensorInfo::name))
    }
}

/// The one array of a `.npy` file, under the name of the file.
fn single(input: &Input) -> Result<TensorInfo> {
    let header = npy::read(&mut input.window(0, input.len), input.len, input.spot())?;
    let name = input.path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(header.into_tensor(&name, FileExtent::plain(0, input.len)))
}

fn detect(input: &Input) -> Result<Kind> {
    let start = input.bytes(0, input.len.min(9), "the first bytes")?;
    if start.starts_with(npy::MAGIC) {
        return Ok(Kind::Npy);
    }
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return Ok(Kind::Npz);
    }
    if start.get(8) == Some(&b'{') {
        return Ok(Kind::Safetensors);
    }
    // The reader of the announced container says best what is wrong.
    Kind::announced(&input.path).ok_or_else(|| Error::UnknownKind {
        path: input.path.clone(),
        found: match start.is_empty() {
            true => "the file is empty".to_string(),
            false => format!("begins with \"{}\"", start.escape_ascii()),
        },
    })
}
