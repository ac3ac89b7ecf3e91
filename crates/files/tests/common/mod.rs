//! A temporary folder for each test, and the folder of the samples.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own for one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zellige-files-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A file of these bytes.
    #[allow(dead_code, reason = "not every test file uses every helper")]
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder of files that NumPy and safetensors wrote.
#[allow(dead_code, reason = "not every test file uses every helper")]
pub(crate) fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/files")
}

/// An archive of one stored entry, written by us, as one whose entry is deflated.
#[allow(dead_code, reason = "not every test file uses every helper")]
pub(crate) fn deflated(archive: &[u8], name: &str) -> Vec<u8> {
    use flate2::{Compression, write::DeflateEncoder};
    use std::io::Write;
    let end = archive.len() - 22;
    assert_eq!(archive[end..end + 4], *b"PK\x05\x06");
    let number = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap()) as usize;
    let directory = number(end + 16);
    let (crc, size) = (number(directory + 16), number(directory + 24));
    let local_extra = usize::from(u16::from_le_bytes([archive[28], archive[29]]));
    let start = 30 + name.len() + local_extra;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&archive[start..start + size]).unwrap();
    let packed = encoder.finish().unwrap();
    let words = |numbers: &[usize]| -> Vec<u8> {
        numbers.iter().flat_map(|n| u32::try_from(*n).unwrap().to_le_bytes()).collect()
    };
    let halves = |numbers: &[usize]| -> Vec<u8> {
        numbers.iter().flat_map(|n| u16::try_from(*n).unwrap().to_le_bytes()).collect()
    };
    let common =
        [halves(&[20, 0, 8, 0, 0x21]), words(&[crc, packed.len(), size]), halves(&[name.len(), 0])]
            .concat();
    let local = [b"PK\x03\x04".to_vec(), common.clone(), name.as_bytes().to_vec(), packed].concat();
    let central = [
        b"PK\x01\x02".to_vec(),
        halves(&[20]),
        common,
        halves(&[0, 0, 0]),
        words(&[0, 0]),
        name.as_bytes().to_vec(),
    ]
    .concat();
    let last = [
        b"PK\x05\x06".to_vec(),
        halves(&[0, 0, 1, 1]),
        words(&[central.len(), local.len()]),
        halves(&[0]),
    ]
    .concat();
    [local, central, last].concat()
}
