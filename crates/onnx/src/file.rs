//! Models in files, whose weights are read on demand.

use crate::error::{OnnxError, Result, quote_start};
use crate::import::{ImportedModel, ImportedWeight, InputConstant, OnnxModel};
use crate::skeleton;
use crate::tensor::WeightData;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zellige_files::ByteFile;

/// The file of a model, and the folder that holds its external data.
#[derive(Debug)]
pub struct ModelFile {
    file: ByteFile,
    /// The bytes of the file, with zeros for the elements of large weights.
    skeleton: Vec<u8>,
    folder: PathBuf,
}

impl ModelFile {
    /// Opens a file and reads everything in it except the elements of large weights.
    ///
    /// # Errors
    /// Files that cannot be read, and files that change meanwhile.
    pub fn open(path: &Path) -> Result<ModelFile> {
        let file = ByteFile::open(path)?;
        let skeleton = skeleton::read_skeleton(&file)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(ModelFile { file, skeleton, folder })
    }

    /// Imports the graph for these values of its symbols.
    ///
    /// # Errors
    /// As [`OnnxModel::read_model`] and [`OnnxModel::import_graph`].
    pub fn import_graph(&self, bind: &BTreeMap<String, i64>) -> Result<ImportedModel> {
        OnnxModel::read_model(&self.skeleton)?.import_graph(bind)
    }

    /// Imports the graph with the elements of some inputs.
    ///
    /// # Errors
    /// As [`OnnxModel::read_model`] and [`OnnxModel::import_graph_with`].
    pub fn import_graph_with(
        &self,
        bind: &BTreeMap<String, i64>,
        given: &BTreeMap<String, InputConstant>,
    ) -> Result<ImportedModel> {
        OnnxModel::read_model(&self.skeleton)?.import_graph_with(bind, given)
    }

    /// Reads the elements of a weight that was imported from this file.
    ///
    /// # Errors
    /// External data that is missing, outside of the model's folder, or shorter than the model
    /// says; a file that changed since it was opened.
    pub fn weight_bytes<'a>(&'a self, weight: &'a ImportedWeight) -> Result<Cow<'a, [u8]>> {
        weight.carried_elements(self.stored_bytes(weight)?)
    }

    /// Reads the elements of a weight in the dtype of the file.
    fn stored_bytes<'a>(&'a self, weight: &'a ImportedWeight) -> Result<Cow<'a, [u8]>> {
        match &weight.data {
            WeightData::Owned(bytes) => Ok(Cow::Borrowed(bytes)),
            WeightData::Inside(range) => {
                // The weight is a plain value of the caller, who may hold models of several files.
                if range.start > range.end || range.end as u64 > self.file.byte_len() {
                    let message = format!("`{}` is of another file", quote_start(&weight.name));
                    return Err(OnnxError::new("bad_file", message));
                }
                let bytes = self.file.read_range(range.start as u64, range.len() as u64)?;
                self.file.check_unchanged()?;
                Ok(Cow::Owned(bytes))
            }
            WeightData::External { location, offset, length } => {
                // `open_below` follows no symbolic link out of the folder, which the check of the
                // text alone cannot see.
                let read = ByteFile::open_below(&self.folder, location).and_then(|file| {
                    let bytes = file.read_range(*offset, *length)?;
                    file.check_unchanged()?;
                    Ok(bytes)
                });
                let told = |e| {
                    let message = format!(
                        "`{}` has its {length} bytes in `{}` from byte {offset} on: {e}; keep that file \
                         beside the model, or save the model with its data inside",
                        quote_start(&weight.name),
                        quote_start(location)
                    );
                    OnnxError::new("bad_file", message)
                };
                Ok(Cow::Owned(read.map_err(told)?))
            }
        }
    }
}
