//! `.npz`: a zip archive whose entries are `.npy` files.

use crate::error::{FileError, Result, quote_start};
use crate::info::{FileContents, FileExtent};
use crate::input::{FileSpot, InputFile};
use crate::{npy, zip};
use flate2::read::DeflateDecoder;

/// Reads every array of an archive, and lists its other entries with the reasons why they are not
/// tensors.
pub(crate) fn read_archive(input: &InputFile) -> Result<FileContents> {
    let mut contents = FileContents::default();
    for entry in zip::read_entries(input)? {
        let Some(name) = entry.name.strip_suffix(".npy") else {
            let what = format!("entry `{}`", quote_start(&entry.name));
            let error =
                input.start_spot().malformed_error(entry.listed, what, "names that end in .npy");
            // np.savez writes only `.npy` entries. Something else is no reason to refuse the arrays
            // beside it, and asking for it by name gives the reason.
            contents.refused.push((entry.name, error));
            continue;
        };
        let window = input.range_stream(entry.start, entry.packed);
        let spot = FileSpot { base: entry.start, ..input.start_spot() };
        let header = if entry.deflated {
            let spot = FileSpot { entry: Some(&entry.name), ..spot };
            npy::read_header(&mut DeflateDecoder::new(window), entry.size, spot)
        } else {
            npy::read_header(&mut { window }, entry.size, spot)
        };
        match header {
            Ok(header) => contents.tensors.push(header.into_tensor(
                name,
                FileExtent {
                    start: entry.start,
                    length: entry.packed,
                    head: 0,
                    deflated: entry.deflated,
                    crc: Some(entry.crc),
                },
            )),
            Err(error @ FileError::Dtype { .. }) => {
                contents.refused.push((name.to_string(), error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}
