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

/// The temporary files of this process. While it is locked none is made, completed or removed.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn lock_unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of names is whole between any two statements.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every file of this process that is not complete, for a program that ends next: an
/// interrupted one, whose destructors do not run.
///
/// From here on no file is begun or completed: who tries waits for the end. So call this from a
/// thread that then ends the process, not from a signal handler itself, which may not lock.
pub fn remove_unfinished() {
    let list = lock_unfinished();
    for path in list.iter() {
        // There is nobody to tell, and the name says what the file is.
        let _ = disk::remove_file(path);
    }
    std::mem::forget(list);
}

/// Who may use a file that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// As with the file that it replaces; a new one as any file that is made in its folder.
    AsUsual,
    /// Its owner alone.
    Private,
}

/// A file beside its final name, in the same folder so that renaming it is atomic.
///
/// Until then only its owner may open it, and this process holds its lock. Dropped, it is removed, and so
/// it is by [`remove_unfinished`]. A killed process leaves `.NAME.zellige-BOOT-PID-N` behind and nothing under the
/// final name; as its lock is free, the next process that writes there removes it ([`stale`]).
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    pub(crate) file: File,
    path: PathBuf,
    target: PathBuf,
    mode: u32,
    /// Stays when it is dropped.
    kept: bool,
}

impl TemporaryFile {
    /// The file that a process before this one may have begun, under a name that stays: `NAME.partial`. It has no bytes where
    /// nobody has. Neither a drop nor [`remove_unfinished`] removes it.
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
                    let what = "it is no file that this user began";
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
        // Where the file system has no locks nobody can take one.
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
                // Left behind by a killed process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FileError::from_write(path, "create it", error)),
            };
            list.push(temporary.clone());
            drop(list);
            let made =
                TemporaryFile { file, path: temporary, target: target.clone(), mode, kept: false };
            // Between the two somebody may have taken it for one that was left behind.
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

    /// Puts every byte on the disk, then gives the file its final name.
    pub(crate) fn rename_into_place(self) -> Result<()> {
        NamedFile::settle_names([self.rename_unsettled(None)?])
    }

    /// Puts every byte on the disk and gives the first bytes of the file, or all, its final name. What lies behind them is cut off at the
    /// last moment: who is killed while bytes go to the disk leaves it.
    pub(crate) fn rename_unsettled(mut self, length: Option<u64>) -> Result<NamedFile> {
        let failed =
            |action: &str, error| FileError::from_write(&self.target, action.to_string(), error);
        let now = disk::stat_file(&self.file).map_err(|e| failed("look at it", e))?;
        // File systems without modes refuse to set one.
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
        disk::rename_file(&self.path, &self.target)
            .map_err(|e| failed("put it under its name", e))?;
        list.retain(|path| *path != self.path);
        drop(list);
        self.kept = true;
        Ok(NamedFile { path: self.target.clone(), cut })
    }
}

/// A file that is complete under its name, which a power failure may undo until it is settled.
#[derive(Debug)]
#[must_use = "a name is on the disk once it is settled"]
pub struct NamedFile {
    path: PathBuf,
    /// The file, where it was cut to its length.
    cut: Option<File>,
}

impl NamedFile {
    /// Puts names and lengths on the disk. Each is a wait for it, of which a journal makes one for all that are told at once.
    ///
    /// # Errors
    /// What the disk refuses.
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
        // Some file systems cannot promise that for folders; files are complete under their names either way.
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

/// The mode that a new file of a folder gets: by the umask, or by what the folder says of its files.
fn usual_file_mode(folder: &Path, name: &str) -> io::Result<u32> {
    // Asking for the umask would change it for a moment, for all threads; and access lists of a
    // folder can say something else. Making a file and looking at it gives the answer of the system
    // itself.
    let file = disk::create_unnamed(folder, 0o666, &stale::next_temporary_name(folder, name))?;
    Ok(disk::stat_file(&file)?.permissions().mode() & 0o777)
}

/// The file to replace with its mode: behind symbolic links the one they lead to, so that links stay; where
/// there is none yet, the name under which it is to be made.
fn resolve_target(path: &Path) -> Result<(PathBuf, Option<u32>)> {
    let mut target = path.to_path_buf();
    // As many links as the system itself follows.
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
            Err(error) => return Err(FileError::from_write(path, "look at it", error)),
        }
    }
    Err(FileError::from_write(path, "follow its links", io::Error::from_raw_os_error(libc::ELOOP)))
}
