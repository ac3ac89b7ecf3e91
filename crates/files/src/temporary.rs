//! A file that has a temporary name until it is complete.

use crate::disk;
use crate::error::{FileError, Result};
use crate::stale;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zellige_host::effective_user;

/// The temporary files of this process. While the list is locked, none is created, completed or
/// removed.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn lock_unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A thread that panics cannot leave the list half-changed, so poisoning is ignored.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every unfinished file of this process, for a program that is about to end without
/// running destructors, as after a signal.
///
/// From here on no file can be begun or completed: threads that try block until the process ends.
/// Call this from a thread that then ends the process, not from a signal handler, which must not
/// lock.
pub fn remove_unfinished() {
    let list = lock_unfinished();
    for path in list.iter() {
        // An error cannot be reported any more, and the name of the file tells what it is.
        let _ = disk::remove_file(path);
    }
    std::mem::forget(list);
}

/// The permissions of a completed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// The permissions of the file that it replaces, or those of a new file in its folder.
    AsUsual,
    /// Its owner alone.
    Private,
}

/// A file beside its final name, in the same folder so that renaming it is atomic.
///
/// Until then only its owner may open it, and this process holds its lock. It is removed when it is
/// dropped, and by [`remove_unfinished`]. A killed process leaves `.NAME.zellige-BOOT-PID-N` behind
/// and nothing under the final name; because its lock is free then, the next process that writes in
/// the folder removes it ([`stale`]).
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    pub(crate) file: File,
    path: PathBuf,
    target: PathBuf,
    mode: u32,
    /// Whether the file stays when this value is dropped.
    kept: bool,
}

impl TemporaryFile {
    /// Opens or creates `NAME.partial`, which an earlier process may have begun; a new file is
    /// empty. Neither a drop nor [`remove_unfinished`] removes it.
    pub(crate) fn resume_partial(path: &Path) -> Result<TemporaryFile> {
        let (target, known) = resolve_target(path)?;
        let folder = disk::parent_folder(&target);
        let Some(name) = target.file_name() else {
            return Err(FileError::refused_request(
                path,
                "the path names no file",
                "a path that ends in one",
            ));
        };
        let failed = |e| FileError::from_write(path, "create it", e);
        let name = name.to_string_lossy().into_owned();
        let mode = known.map_or_else(|| usual_file_mode(folder, &name), Ok).map_err(failed)?;
        let partial = folder.join(format!("{name}.partial"));
        // Creating first and looking only when that fails: two processes cannot both believe that
        // the file is new.
        let file = match disk::create_file(&partial, 0o600) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let known = disk::stat_no_link(&partial).map_err(failed)?;
                // In a folder that others can write to, somebody could put a link to another file
                // of this user under the name, which would then be overwritten.
                if !known.is_file() || known.uid() != effective_user() || known.nlink() > 1 {
                    let what = "it is not a file that this user began";
                    return Err(FileError::refused_request(
                        &partial,
                        what,
                        "nothing under this name",
                    ));
                }
                disk::open_own_file(&partial).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        // On a file system without locks the error is ignored, because no process can lock there.
        if matches!(disk::try_lock(&file), Ok(false)) {
            let what = "another process is writing it";
            return Err(FileError::refused_request(&partial, what, "one process for a file"));
        }
        Ok(TemporaryFile { file, path: partial, target, mode, kept: true })
    }

    pub(crate) fn create_beside(path: &Path, access: FileAccess) -> Result<TemporaryFile> {
        let (target, known) = resolve_target(path)?;
        let folder = disk::parent_folder(&target);
        let Some(name) = target.file_name() else {
            return Err(FileError::refused_request(
                path,
                "the path names no file",
                "a path that ends in one",
            ));
        };
        let name = name.to_string_lossy().into_owned();
        stale::remove_stale_once(folder);
        let mode = match (access, known) {
            (FileAccess::Private, _) => 0o600,
            (_, Some(mode)) => mode,
            (_, None) => usual_file_mode(folder, &name)
                .map_err(|e| FileError::from_write(path, "create it", e))?,
        };
        // Names hold the number of the process, which is used again after a while; a thousand
        // leftovers of one name point to something else that is wrong.
        for _ in 0..1000 {
            let temporary = stale::next_temporary_name(folder, &name);
            let mut list = lock_unfinished();
            let file = match disk::create_file(&temporary, 0o600) {
                Ok(file) => file,
                // A killed process with the same process number may have left a file of this name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FileError::from_write(path, "create it", error)),
            };
            list.push(temporary.clone());
            drop(list);
            let made =
                TemporaryFile { file, path: temporary, target: target.clone(), mode, kept: false };
            // Before the lock was taken, another process may have removed the file as stale.
            if stale::try_hold_lock(&made.file) {
                return Ok(made);
            }
        }
        let what = format!(
            "1000 unfinished files `.{}.zellige-*` are in the way",
            crate::error::quote_start(&name)
        );
        Err(FileError::refused_request(path, what, "a folder without them: remove those"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The final name.
    pub(crate) fn target_path(&self) -> &Path {
        &self.target
    }

    /// Flushes every byte to the disk, then gives the file its final name.
    pub(crate) fn rename_into_place(self) -> Result<()> {
        NamedFile::settle_names([self.rename_unsettled(None)?])
    }

    /// Flushes every byte to the disk and gives the file its final name, truncated to `length` if
    /// given. The truncation happens last, so that a process that is killed during the flush leaves
    /// the note at the end of the file.
    pub(crate) fn rename_unsettled(mut self, length: Option<u64>) -> Result<NamedFile> {
        let failed =
            |action: &str, error| FileError::from_write(&self.target, action.to_string(), error);
        let now = disk::stat_file(&self.file).map_err(|e| failed("examine it", e))?;
        // File systems without permissions refuse to set them, so it is only done if needed.
        if now.mode() & 0o777 != self.mode {
            disk::set_mode(&self.file, self.mode).map_err(|e| failed("set its permissions", e))?;
        }
        // Before the rename: otherwise a power failure could leave the final name with missing
        // bytes.
        disk::sync_to_disk(&self.file).map_err(|e| failed("put its bytes on the disk", e))?;
        let mut list = lock_unfinished();
        let mut cut = None;
        if let Some(length) = length {
            cut = Some(disk::clone_handle(&self.file).map_err(|e| failed("keep it open", e))?);
            disk::set_len(&self.file, length).map_err(|e| failed("give it its length", e))?;
        }
        disk::rename_file(&self.path, &self.target).map_err(|e| failed("rename it", e))?;
        list.retain(|path| *path != self.path);
        drop(list);
        self.kept = true;
        Ok(NamedFile { path: self.target.clone(), cut })
    }
}

/// A complete file under its final name. Until it is settled, a power failure may undo the rename.
#[derive(Debug)]
#[must_use = "a name is on the disk once it is settled"]
pub struct NamedFile {
    path: PathBuf,
    /// The open file, if it was truncated.
    cut: Option<File>,
}

impl NamedFile {
    /// Flushes names and lengths to the disk. Settling many files at once is faster, because the
    /// file system's journal can commit them together.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn settle_names(all: impl IntoIterator<Item = NamedFile>) -> Result<()> {
        let mut folders = BTreeSet::new();
        for named in all {
            if let Some(file) = &named.cut {
                let failed =
                    |e| FileError::from_write(&named.path, "put its length on the disk", e);
                disk::sync_to_disk(file).map_err(failed)?;
            }
            // A rename changes the folder, so the folder has to reach the disk, once for all files
            // in it.
            folders.insert(disk::parent_folder(&named.path).to_path_buf());
        }
        // Some file systems cannot flush folders; files are complete under their names either way.
        for folder in folders {
            let _ = disk::open_file(&folder).and_then(|folder| disk::sync_to_disk(&folder));
        }
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.kept {
            let mut list = lock_unfinished();
            list.retain(|path| *path != self.path);
            let _ = disk::remove_file(&self.path);
        }
    }
}

/// The permissions that a new file in a folder gets, from the umask or from the folder's access
/// lists.
fn usual_file_mode(folder: &Path, name: &str) -> io::Result<u32> {
    // Asking for the umask would change it for a moment, for all threads; and access lists of a
    // folder can say something else. Making a file and looking at it gives the answer of the system
    // itself.
    let file = disk::create_unnamed(folder, 0o666, &stale::next_temporary_name(folder, name))?;
    Ok(disk::stat_file(&file)?.permissions().mode() & 0o777)
}

/// The file to replace, with its permissions. Symbolic links are followed, so that they stay; if
/// there is no file yet, the path where it will be created.
fn resolve_target(path: &Path) -> Result<(PathBuf, Option<u32>)> {
    let mut target = path.to_path_buf();
    // Linux follows at most 40 links as well.
    for _ in 0..40 {
        match disk::stat_no_link(&target) {
            Ok(known) if known.is_symlink() => {
                let to = disk::read_link(&target)
                    .map_err(|e| FileError::from_write(path, "follow the link", e))?;
                target = disk::parent_folder(&target).join(to);
            }
            Ok(known) if known.is_file() => {
                return Ok((target, Some(known.permissions().mode() & 0o777)));
            }
            Ok(_) => return Err(FileError::NotAFile { path: path.to_path_buf(), writing: true }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((target, None)),
            Err(error) => return Err(FileError::from_write(path, "examine it", error)),
        }
    }
    Err(FileError::from_write(path, "follow its links", io::Error::from_raw_os_error(libc::ELOOP)))
}
