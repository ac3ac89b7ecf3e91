//! `.npz`: a zip archive whose entries are `.npy` files.

use crate::error::{Error, Result, quote};
use crate::info::{Contents, FileExtent};
use crate::input::{Input, Spot};
use crate::{npy, zip};
use flate2::read::DeflateDecoder;

/// Every array of an archive, and what else is in it with the reason why it is no tensor.
pub(crate) fn read(input: &Input) -> Result<Contents> {
    let mut contents = Contents::default();
    for entry in zip::read(input)? {
        let Some(name) = entry.name.strip_suffix(".npy") else {
            let what = format!("entry `{}`", quote(&entry.name));
            let error = input.spot().malformed(entry.listed, what, "names that end in .npy");
            contents.refused.push((entry.name, error));
            continue;
        };
        let window = input.window(entry.start, entry.packed);
        let spot = Spot { base: entry.start, ..input.spot() };
        let header = if entry.deflated {
            let spot = Spot { entry: Some(&entry.name), ..spot };
            npy::read(&mut DeflateDecoder::new(window), entry.size, spot)
        } else {
            npy::read(&mut { window }, entry.size, spot)
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
            Err(error @ Error::Dtype { .. }) => contents.refused.push((name.to_string(), error)),
            Err(error) => return Err(error),
        }
    }
    Ok(contents)
}
