//! Tensors that fit in memory, in one call.

use crate::container::Container;
use crate::error::{Error, Result};
use crate::info::{Kind, NewTensor, TensorInfo};
use crate::temporary::Temporary;
use crate::writer::Writer;
use std::io::{self, Write};
use std::path::Path;

/// A tensor and its bytes as they lie in the file; without a name, the only tensor of the file.
///
/// Compressed tensors are read too, and the checksums of archives are checked.
pub fn read_all(path: impl AsRef<Path>, name: Option<&str>) -> Result<(TensorInfo, Vec<u8>)> {
    let container = Container::open(path)?;
    let info = match name {
        Some(name) => container.tensor(name)?,
        None => container.only()?,
    };
    let full = |_| {
        let action = format!("hold {} bytes in memory", info.bytes());
        Error::io(container.path(), action, io::ErrorKind::OutOfMemory.into())
    };
    let mut bytes = Vec::new();
    // A compressed tensor may claim what it does not have, so memory is asked for as it comes.
    match info.data_offset() {
        Some(_) => {
            let size = usize::try_from(info.bytes()).map_err(|_| full(()))?;
            bytes.try_reserve_exact(size).map_err(|_| full(()))?;
            bytes.resize(size, 0);
            container.reader(info)?.fill(&mut bytes)?;
        }
        None => {
            let mut reader = container.reader(info)?;
            let mut part = vec![0; 1 << 16];
            while reader.left() > 0 {
                let most = usize::try_from(reader.left()).unwrap_or(part.len()).min(part.len());
                reader.fill(&mut part[..most])?;
                bytes.try_reserve(most).map_err(|_| full(()))?;
                bytes.extend_from_slice(&part[..most]);
            }
        }
    }
    Ok((info.clone(), bytes))
}

/// A file with these tensors, whose bytes are row-major and little-endian.
///
/// # Errors
/// Besides those of [`Writer`]: bytes that are not as many as dtype and shape ask for.
pub fn write_all(path: impl AsRef<Path>, tensors: &[(NewTensor, &[u8])], kind: Kind) -> Result<()> {
    let path = path.as_ref();
    let requests: Vec<NewTensor> = tensors.iter().map(|(tensor, _)| tensor.clone()).collect();
    let writer = Writer::create(path, &requests, kind)?;
    for (index, (_, bytes)) in tensors.iter().enumerate() {
        let info = &writer.tensors()[index];
        if bytes.len() as u64 != info.bytes() {
            let what = format!("{} bytes for `{}`", bytes.len(), info.name());
            return Err(Error::request(path, what, format!("{} bytes", info.bytes())));
        }
        writer.write_at(index, 0, bytes)?;
    }
    writer.finish()
}

/// A file with these bytes, complete under its name or not there at all.
pub fn write_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    let mut temporary = Temporary::create(path.as_ref())?;
    let written = temporary.file.write_all(bytes);
    written.map_err(|e| Error::write(temporary.target(), "write to it", e))?;
    temporary.keep()
}
