//! Writes folders of files that belong together.

use crate::disk;
use crate::error::{FileError, Result};
use crate::whole_file::{make_folder, write_bytes};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest number of numbered folders in one folder.
const MAX_NUMBERED_FOLDERS: usize = 1_000_000;

/// Writes files below a folder, each completely or not at all. Paths use `/` between folders, which
/// are created if they do not exist yet; existing files are replaced.
///
/// # Errors
/// What the system refuses, with the path.
pub fn write_folder<'a>(
    folder: impl AsRef<Path>,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<()> {
    let folder = folder.as_ref();
    make_folder(folder)?;
    for (path, bytes) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            make_folder(parent)?;
        }
        write_bytes(&path, bytes)?;
    }
    Ok(())
}

/// Makes a folder of its own below another one: `0000-stem`, or with the first number for which no folder of that number
/// and stem is there. Several processes never get the same one.
///
/// # Errors
/// What the system refuses, with the path.
pub fn create_numbered_folder(below: impl AsRef<Path>, stem: &str) -> Result<PathBuf> {
    let below = below.as_ref();
    make_folder(below)?;
    for number in 0..MAX_NUMBERED_FOLDERS {
        let path = below.join(format!("{number:04}-{stem}"));
        match disk::make_new_folder(&path) {
            Ok(()) => return Ok(path),
            // Making the folder is the test for whether the number is free: looking first would let
            // two processes choose the same one.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(FileError::from_write(&path, "make the folder", e)),
        }
    }
    Err(FileError::refused_request(
        below,
        "one more numbered folder",
        format!("at most {MAX_NUMBERED_FOLDERS}"),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn folders_are_numbered_and_files_find_their_places() {
        let base = std::env::temp_dir().join(format!("zellige-folder-{}", std::process::id()));
        let first = create_numbered_folder(&base, "g").unwrap();
        let second = create_numbered_folder(&base, "g").unwrap();
        assert!(first.ends_with("0000-g") && second.ends_with("0001-g"));
        write_folder(&second, [("a/b.txt", b"1".as_slice()), ("c.txt", b"2")]).unwrap();
        assert_eq!(std::fs::read(second.join("a/b.txt")).unwrap(), b"1");
        // A file in the place of a folder is an error with its path.
        let error = create_numbered_folder(second.join("c.txt"), "g").unwrap_err();
        assert!(error.to_string().contains("c.txt"), "{error}");
        std::fs::remove_dir_all(base).unwrap();
    }
}
