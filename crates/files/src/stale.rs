//! Removes temporary files that a killed process left behind.
//!
//! A temporary file is locked by the process that fills it, and the system releases the lock when
//! that process ends, however it ends. A file whose lock is free is therefore not being filled by
//! any process. The process number in its name would not tell this, because numbers are reused and
//! differ between containers. Locks are only trusted between processes of one running system,
//! because a network file system may keep them local to each host: the name contains the identity
//! of the boot, and files of another boot or another machine are left untouched.

use crate::disk;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use zellige_host::effective_user;

/// The mark between the name of a file and the numbers.
// A mark that no other program uses, since files with it are removed.
const NAME_MARK: &str = ".zellige-";

/// The number of characters of a name that its temporary name keeps; file systems allow 255 bytes
/// in all.
const KEPT_NAME_CHARS: usize = 48;

/// The identity of the running boot, the same in all containers; `None` if the system does not give
/// one.
static BOOT: LazyLock<Option<String>> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Half of the identity, with 60 random bits, tells boots apart and keeps names short.
    let id: String = text.trim().chars().filter(char::is_ascii_hexdigit).take(16).collect();
    (id.len() == 16).then_some(id)
});

/// The identity of the running system.
pub(crate) fn boot_identity() -> Option<&'static str> {
    BOOT.as_deref()
}

/// A temporary name that this process has not used before.
pub(crate) fn next_temporary_name(folder: &Path, name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Only uniqueness matters, and it needs no order with other memory.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name: String = name.chars().take(KEPT_NAME_CHARS).collect();
    let boot = BOOT.as_deref().unwrap_or("unknown");
    folder.join(format!(".{name}{NAME_MARK}{boot}-{}-{number}", std::process::id()))
}

/// Locks a file that was just created; false if another process has removed it as stale meanwhile.
///
/// On a file system without locks no process can lock, so nothing is ever removed there.
pub(crate) fn try_hold_lock(file: &File) -> bool {
    match disk::try_lock(file) {
        Ok(false) => false,
        // Without a name the file was removed between its creation and the lock.
        Ok(true) => disk::stat_file(file).map_or(true, |now| now.nlink() > 0),
        Err(_) => true,
    }
}

/// Removes stale files of a folder, the first time that this process writes there.
pub(crate) fn remove_stale_once(folder: &Path) {
    static DONE: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    if DONE.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_path_buf()) {
        remove_stale_files(folder);
    }
}

/// Removes the files that killed processes of this user and this boot left in a folder.
///
/// Files that cannot be examined stay: cleaning up is optional, so errors are ignored.
fn remove_stale_files(folder: &Path) {
    let Some(boot) = BOOT.as_deref() else { return };
    for path in disk::list_folder(folder).unwrap_or_default() {
        if path
            .file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|name| is_temporary_name(name, boot))
        {
            let _ = remove_if_free(&path);
        }
    }
}

fn remove_if_free(path: &Path) -> std::io::Result<()> {
    let known = disk::stat_no_link(path)?;
    if !known.is_file() || known.uid() != effective_user() {
        return Ok(());
    }
    let file = disk::open_own_file(path)?;
    // The lock is held until the name is removed, so that the creator of the file sees either the
    // lock or the missing name.
    if disk::try_lock(&file)?
        && disk::is_same_file(&disk::stat_no_link(path)?, &disk::stat_file(&file)?)
    {
        disk::remove_file(path)?;
    }
    Ok(())
}

/// Whether a name is one of [`next_temporary_name`] in this boot.
fn is_temporary_name(name: &str, boot: &str) -> bool {
    let Some((front, numbers)) = name.rsplit_once(NAME_MARK) else { return false };
    let mut parts = numbers.split('-');
    let number = |part: Option<&str>| {
        part.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
    };
    front.starts_with('.')
        && parts.next() == Some(boot)
        && number(parts.next())
        && number(parts.next())
        && parts.next().is_none()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_boot_are_ours() {
        let boot = BOOT.as_deref().unwrap();
        let made = next_temporary_name(Path::new("f"), "x.npy");
        let name = made.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(".x.npy.zellige-") && is_temporary_name(name, boot), "{name}");
        assert!(!is_temporary_name(name, "0123456789abcdef"));
        for other in [
            "x.npy".to_string(),
            format!("x.npy.zellige-{boot}-1-2"),
            format!(".x.zellige-{boot}-1"),
            format!(".x.zellige-{boot}-1-2-3"),
            format!(".x.zellige-{boot}-1-"),
            format!(".x.zellige-{boot}-1-2.npy"),
            format!(".x.zellige-{boot}-a-2"),
            ".x.zellige-12-3".to_string(),
        ] {
            assert!(!is_temporary_name(&other, boot), "{other}");
        }
    }

    #[test]
    fn a_free_file_goes_and_a_held_one_stays() {
        let folder = std::env::temp_dir().join(format!("zellige-stale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names: Vec<PathBuf> = (0..4).map(|_| next_temporary_name(&folder, "x")).collect();
        let held = disk::create_file(&names[0], 0o600).unwrap();
        assert!(try_hold_lock(&held));
        drop(disk::create_file(&names[1], 0o600).unwrap());
        let other = folder.join(".x.zellige-0123456789abcdef-1-1");
        drop(disk::create_file(&other, 0o600).unwrap());
        std::os::unix::fs::symlink(&names[0], &names[2]).unwrap();
        std::fs::create_dir(&names[3]).unwrap();
        remove_stale_files(&folder);
        let left: Vec<bool> = names.iter().map(|n| n.symlink_metadata().is_ok()).collect();
        assert_eq!((left, other.exists()), (vec![true, false, true, true], true));
        // Its owner ends: the lock goes with it.
        drop(held);
        remove_stale_files(&folder);
        assert!(!names[0].exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_is_robbed_between_making_and_locking_notices() {
        let path = next_temporary_name(&std::env::temp_dir(), "robbed");
        let file = disk::create_file(&path, 0o600).unwrap();
        remove_if_free(&path).unwrap();
        assert!(!path.exists() && !try_hold_lock(&file));
    }
}
