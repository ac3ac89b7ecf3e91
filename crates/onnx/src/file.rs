//! Models in files: mapped, so that weights are read when they are asked for and never before.

use crate::error::{OnnxError, Result};
use crate::import::{Imported, Model, Weight};
use crate::tensor::Data;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use zellige_movement::Mapped;

/// The file of a model, and the folder beside which its external data lies.
#[derive(Debug)]
pub struct ModelFile {
    map: Mapped,
    folder: PathBuf,
}

fn unreadable(path: &Path, e: &std::io::Error) -> OnnxError {
    OnnxError::new("bad_file", format!("{}: {e}", path.display()))
}

impl ModelFile {
    /// Maps a file.
    ///
    /// # Errors
    /// Files that cannot be opened.
    pub fn open(path: &Path) -> Result<ModelFile> {
        let file = File::open(path).map_err(|e| unreadable(path, &e))?;
        let meta = file.metadata().map_err(|e| unreadable(path, &e))?;
        let len = usize::try_from(meta.len()).unwrap_or(usize::MAX);
        let map = Mapped::new(&file, 0, len).map_err(|e| unreadable(path, &e))?;
        Ok(ModelFile { map, folder: path.parent().unwrap_or(Path::new("")).to_path_buf() })
    }

    /// The graph for these values of its symbols.
    ///
    /// # Errors
    /// As [`Model::read`] and [`Model::import`].
    pub fn import(&self, bind: &BTreeMap<String, i64>) -> Result<Imported> {
        Model::read(&self.map)?.import(bind)
    }

    /// The elements of a weight that was imported from this file.
    ///
    /// # Errors
    /// External data that is not there, or shorter than the model says.
    pub fn bytes<'a>(&'a self, weight: &'a Weight) -> Result<Cow<'a, [u8]>> {
        match &weight.data {
            Data::Owned(bytes) => Ok(Cow::Borrowed(bytes)),
            Data::Inside(range) => {
                let bytes = self.map.get(range.clone()).ok_or_else(|| {
                    OnnxError::new("bad_file", format!("`{}` is of another file", weight.name))
                })?;
                Ok(Cow::Borrowed(bytes))
            }
            Data::External { location, offset, length } => {
                let path = self.folder.join(location);
                let told = |e: std::io::Error| {
                    let message = format!(
                        "`{}` has its {length} bytes in {} from byte {offset} on: {e}; keep that file \
                         beside the model, or save the model with its data inside",
                        weight.name,
                        path.display()
                    );
                    OnnxError::new("bad_file", message)
                };
                let file = File::open(&path).map_err(told)?;
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                let map = Mapped::new(&file, *offset, length).map_err(told)?;
                Ok(Cow::Owned(map.to_vec()))
            }
        }
    }
}
