//! A file that has a temporary name until it is complete.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files of this process. While it is locked none is made, completed or removed.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of names is whole between any two statements.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every file of this process that is not complete, for a program that ends next: an
/// interrupted one, whose destructors do not run.
///
/// From here on no file is begun or completed: who tries waits for the end. So call this from a
/// thread that then ends the process, not from a signal handler itself, which may not lock.
pub fn abandon() {
    let list = unfinished();
    for path in list.iter() {
        // There is nobody to tell, and the name says what the file is.
        let _ = fs::remove_file(path);
    }
    std::mem::forget(list);
}

/// A file beside its final name, in the same folder so that renaming it is atomic.
///
/// Dropped, it is removed, and so it is by [`abandon`]. A killed process leaves `.NAME.zellige-PID-N` behind, and nothing under
/// the final name.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) file: File,
    path: PathBuf,
    target: PathBuf,
    permissions: Option<Permissions>,
    kept: bool,
}

impl Temporary {
    pub(crate) fn create(path: &Path) -> Result<Temporary> {
        let (target, permissions) = target(path)?;
        let folder = folder(&target);
        let Some(name) = target.file_name() else {
            return Err(Error::request(path, "the path names no file", "a path that ends in one"));
        };
        // File systems allow 255 bytes; what is added must fit as well.
        let name: String = name.to_string_lossy().chars().take(48).collect();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..1000 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = folder.join(format!(".{name}.zellige-{}-{number}", std::process::id()));
            let mut list = unfinished();
            match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    list.push(temporary.clone());
                    return Ok(Temporary {
                        file,
                        path: temporary,
                        target,
                        permissions,
                        kept: false,
                    });
                }
                // Left behind by a killed process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::write(path, "create it", error)),
            }
        }
        let what = format!("1000 unfinished files `.{name}.zellige-*` are in the way");
        Err(Error::request(path, what, "a folder without them: remove those"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The final name.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Puts every byte on the disk, then gives the file its final name.
    pub(crate) fn keep(mut self) -> Result<()> {
        let failed = |action: &str, error| Error::write(&self.target, action.to_string(), error);
        if let Some(permissions) = self.permissions.take() {
            self.file
                .set_permissions(permissions)
                .map_err(|e| failed("keep its permissions", e))?;
        }
        self.file.sync_all().map_err(|e| failed("put its bytes on the disk", e))?;
        let mut list = unfinished();
        fs::rename(&self.path, &self.target).map_err(|e| failed("put it under its name", e))?;
        list.retain(|path| *path != self.path);
        drop(list);
        self.kept = true;
        // The name too shall survive a power failure. Some file systems cannot promise that for
        // folders; the file is complete under its name either way.
        let _ = File::open(folder(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            let mut list = unfinished();
            list.retain(|path| *path != self.path);
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file to replace: behind a symbolic link the one it points to, so that the link stays.
fn target(path: &Path) -> Result<(PathBuf, Option<Permissions>)> {
    match fs::metadata(path) {
        Ok(known) if known.is_file() => {
            let link = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
            let target = match link {
                true => {
                    fs::canonicalize(path).map_err(|e| Error::io(path, "follow the link", e))?
                }
                false => path.to_path_buf(),
            };
            Ok((target, Some(known.permissions())))
        }
        Ok(_) => Err(Error::NotAFile { path: path.to_path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((path.to_path_buf(), None)),
        Err(error) => Err(Error::io(path, "look at it", error)),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
