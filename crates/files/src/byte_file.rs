//! Files of other formats, read by position.

use crate::disk;
use crate::error::{FileError, Result, show_path};
use crate::input::InputFile;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A regular file that is open for reading at any position.
#[derive(Debug)]
pub struct ByteFile(InputFile);

impl ByteFile {
    /// Opens a file.
    ///
    /// # Errors
    /// What cannot be opened, and what is no regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<ByteFile> {
        InputFile::open(path.as_ref()).map(ByteFile)
    }

    /// Opens a file whose name comes from an untrusted text, if it is below `folder`: neither `..`
    /// nor a symbolic link may lead out. A hard link counts as the file itself.
    ///
    /// # Errors
    /// Besides those of [`ByteFile::open`]: a file outside of the folder, with its real path.
    pub fn open_below(folder: impl AsRef<Path>, name: &str) -> Result<ByteFile> {
        // The parent of a bare file name is the empty path, which no call of the system accepts.
        let folder = match folder.as_ref() {
            here if here.as_os_str().is_empty() => Path::new("."),
            other => other,
        };
        let path = folder.join(name);
        let failed = |e| FileError::from_io(&path, "open it", e);
        // Comparing texts is not enough: `a/../../b` and a link inside of the folder both look as
        // if they were below it.
        let root = disk::canonicalize_path(folder).map_err(failed)?;
        let place = disk::canonicalize_path(&path).map_err(failed)?;
        check_below(&path, &root, &place)?;
        // Opening a device or a pipe can block or have effects, so its kind is checked by name
        // first.
        let kind = disk::stat_no_link(&place).map_err(failed)?;
        if !kind.is_file() {
            return Err(FileError::NotAFile { path, writing: false });
        }
        // A part of the path may have become a link since the check, so the path of the opened file
        // is checked again.
        let file = disk::open_file_no_link(&place).map_err(failed)?;
        check_below(&path, &root, &path_of_open_file(&file).map_err(failed)?)?;
        InputFile::from_open_file(file, &path).map(ByteFile)
    }

    /// Its length in bytes when it was opened.
    pub fn byte_len(&self) -> u64 {
        self.0.len
    }

    /// Fills `buffer` with the bytes from `at` on.
    ///
    /// # Errors
    /// A file that ends before, or that cannot be read.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.0.start_spot().check_fits(at, buffer.len() as u64, self.0.len, "what is read")?;
        self.0.read_exact_at(buffer, at)
    }

    /// Reads `length` bytes from `at` on.
    ///
    /// # Errors
    /// As for [`ByteFile::read_at`], and lengths that do not fit in memory.
    pub fn read_range(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        self.0.read_bytes(at, length, "what is read")
    }

    /// Allocates zeroed memory as long as the file. Pages that are never written to take no memory.
    ///
    /// # Errors
    /// A length that the system has no memory for.
    pub fn zeroed_memory(&self) -> Result<Vec<u8>> {
        disk::zeroed_memory(self.0.len)
            .map_err(|e| FileError::from_io(&self.0.path, "hold it in memory", e))
    }

    /// Checks that the file has not changed since it was opened.
    ///
    /// # Errors
    /// [`FileError::Changed`].
    pub fn check_unchanged(&self) -> Result<()> {
        self.0.check_unchanged()
    }
}

/// Checks that a path without links is below a folder without links.
fn check_below(path: &Path, root: &Path, place: &Path) -> Result<()> {
    if place.starts_with(root) {
        return Ok(());
    }
    let what = format!("it is in {}, outside of the folder that names it", show_path(place));
    let accepted = format!("a file below {}, itself and no link that leads out", show_path(root));
    Err(FileError::refused_request(path, what, accepted))
}

/// The current path of an open file.
fn path_of_open_file(file: &File) -> std::io::Result<PathBuf> {
    // Linux keeps the current path of every open file there, after all links and renames.
    disk::read_link(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let base = std::env::temp_dir().join(format!("zellige-below-{}", std::process::id()));
        let root = base.join("model");
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::create_dir_all(base.join("model-2")).unwrap();
        let secret = base.join("secret");
        std::fs::write(&secret, b"secret").unwrap();
        std::fs::write(base.join("model-2/w"), b"beside").unwrap();
        std::fs::write(root.join("data/w"), b"weight").unwrap();
        symlink("data/w", root.join("inside")).unwrap();
        symlink(root.join("data"), root.join("folder")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink(&secret, root.join("far")).unwrap();
        symlink("out", root.join("twice")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("nowhere", root.join("none")).unwrap();
        // The model's folder may be reached through a link; its real path counts.
        symlink(&root, base.join("other")).unwrap();
        for folder in [root.clone(), base.join("other"), base.join("model-2/../model")] {
            for name in ["data/w", "inside", "folder/w", "./data/../data/w", "up/model/data/w"] {
                let file = ByteFile::open_below(&folder, name).unwrap();
                assert_eq!(file.read_range(0, 6).unwrap(), b"weight", "{name}");
                assert_eq!(file.read_range(1, 6).unwrap_err().kind(), "truncated");
            }
            let absolute = root.join("data/w");
            ByteFile::open_below(&folder, absolute.to_str().unwrap()).unwrap();
            for name in ["out", "far", "twice", "up/secret", "../secret", "../model-2/w"] {
                let error = ByteFile::open_below(&folder, name).unwrap_err().to_string();
                assert!(error.contains("outside of the folder that names it"), "{name}: {error}");
            }
            for name in ["loop", "none", "absent", "data/w/x"] {
                assert_eq!(ByteFile::open_below(&folder, name).unwrap_err().kind(), "io", "{name}");
            }
            for name in ["data", "folder", ".", ""] {
                let kind = ByteFile::open_below(&folder, name).unwrap_err().kind();
                assert_eq!(kind, "not_a_file", "{name}");
            }
        }
        std::fs::remove_dir_all(&base).unwrap();
    }

    /// A link changes its target all the time; every file that is opened is inside of the folder.
    #[test]
    fn a_link_that_changes_never_leads_out() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let base = std::env::temp_dir().join(format!("zellige-race-{}", std::process::id()));
        let root = base.join("model");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(base.join("b")).unwrap();
        std::fs::write(root.join("a/w"), b"inside").unwrap();
        std::fs::write(base.join("b/w"), b"secret").unwrap();
        let (stop, mut opened) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let new = root.join("new");
                while !stop.load(Ordering::Relaxed) {
                    for to in ["a", "../b"] {
                        symlink(to, &new).unwrap();
                        std::fs::rename(&new, root.join("link")).unwrap();
                    }
                }
            });
            for _ in 0..20_000 {
                if let Ok(file) = ByteFile::open_below(&root, "link/w") {
                    assert_eq!(file.read_range(0, 6).unwrap(), b"inside");
                    opened += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(opened > 0);
        std::fs::remove_dir_all(&base).unwrap();
    }
}
