//! Every call that this crate makes to the operating system.
//!
//! Each is a fault point: with the feature `faults` a test lets any one of them fail, see
//! [`crate::faults`]. Without it the fault points do nothing.
//!
//! Files are read by position and never mapped. If another process shortens a file, the read ends
//! early, where access to a mapping would end the program by a signal; if another process changes
//! bytes, the copy does not change under the reader.

use crate::faults::{CallOutcome, SystemCall, fault_point};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zellige_host::{AlignedBuffer, try_zeroed_vec};

/// Opens a file for reading, without waiting for the other end of a pipe.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    fault_point(SystemCall::Open)?;
    // Without O_NONBLOCK opening a pipe waits for a writer, perhaps forever.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Opens a file for reading, unless it is a symbolic link.
pub(crate) fn open_file_no_link(path: &Path) -> io::Result<File> {
    fault_point(SystemCall::Open)?;
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a file for reading and writing, unless it is a symbolic link. Locks on network file
/// systems need write access.
pub(crate) fn open_own_file(path: &Path) -> io::Result<File> {
    fault_point(SystemCall::Open)?;
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// The metadata of a path, following symbolic links.
pub(crate) fn stat_path(path: &Path) -> io::Result<Metadata> {
    fault_point(SystemCall::Look)?;
    fs::metadata(path)
}

/// The metadata of a path, without following a symbolic link.
pub(crate) fn stat_no_link(path: &Path) -> io::Result<Metadata> {
    fault_point(SystemCall::Look)?;
    fs::symlink_metadata(path)
}

/// The metadata of an open file.
pub(crate) fn stat_file(file: &File) -> io::Result<Metadata> {
    fault_point(SystemCall::Look)?;
    file.metadata()
}

/// The target of a symbolic link.
pub(crate) fn read_link(path: &Path) -> io::Result<PathBuf> {
    fault_point(SystemCall::Look)?;
    fs::read_link(path)
}

/// The path without links, `.` and `..`.
pub(crate) fn canonicalize_path(path: &Path) -> io::Result<PathBuf> {
    fault_point(SystemCall::Look)?;
    fs::canonicalize(path)
}

/// Reads at a position; 0 at the end of the file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    match fault_point(SystemCall::Read)? {
        CallOutcome::On => file.read_at(bytes, at),
        CallOutcome::Short => Ok(0),
    }
}

/// Fills `bytes` from a position; an error if the file ends before.
pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match read_at(file, bytes, at) {
            // A read of 0 bytes is the end of the file; trying again would loop forever on a file
            // that was shortened.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                bytes = &mut bytes[got..];
                at += got as u64;
            }
            // A signal arrived before any byte was read; the call is repeated, as the standard
            // library does.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at a position.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    match fault_point(SystemCall::Write)? {
        CallOutcome::On => file.write_all_at(bytes, at),
        CallOutcome::Short => {
            file.write_all_at(&bytes[..bytes.len() / 2], at)?;
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        }
    }
}

/// Sets the length of a file.
pub(crate) fn set_len(file: &File, len: u64) -> io::Result<()> {
    fault_point(SystemCall::SetLen)?;
    file.set_len(len)
}

/// Reserves disk space for the first bytes of a file, so that a full disk is reported before
/// anything is written. On file systems without reservation the error comes from the writes.
pub(crate) fn reserve_space(file: &File, len: u64) -> io::Result<()> {
    fault_point(SystemCall::Reserve)?;
    match zellige_host::reserve_file_space(file, len) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)) => {
            Err(e)
        }
        _ => Ok(()),
    }
}

/// Sets the permissions of an open file.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    fault_point(SystemCall::SetMode)?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Flushes a file to the disk.
pub(crate) fn sync_to_disk(file: &File) -> io::Result<()> {
    fault_point(SystemCall::Sync)?;
    file.sync_all()
}

/// Another handle of an open file.
pub(crate) fn clone_handle(file: &File) -> io::Result<File> {
    fault_point(SystemCall::Open)?;
    file.try_clone()
}

/// Tries to lock a file; false if another process holds the lock.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    fault_point(SystemCall::Lock)?;
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Creates a file that does not exist yet.
pub(crate) fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    fault_point(SystemCall::Create)?;
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)
}

/// Creates a file without a name in a folder, which disappears when it is closed. On file systems
/// without such files it has the name `fallback` for a moment.
pub(crate) fn create_unnamed(folder: &Path, mode: u32, fallback: &Path) -> io::Result<File> {
    fault_point(SystemCall::Create)?;
    let mut options = OpenOptions::new();
    // O_TMPFILE makes a file that never has a name, so that nothing is left behind even after `kill
    // -9`.
    let unnamed = options.read(true).write(true).mode(mode).custom_flags(libc::O_TMPFILE);
    if let Ok(file) = unnamed.open(folder) {
        return Ok(file);
    }
    let file = create_file(fallback, mode)?;
    remove_file(fallback)?;
    Ok(file)
}

/// Renames a file, replacing what has the new name.
pub(crate) fn rename_file(from: &Path, to: &Path) -> io::Result<()> {
    fault_point(SystemCall::Rename)?;
    fs::rename(from, to)
}

/// Removes a file.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    fault_point(SystemCall::Remove)?;
    fs::remove_file(path)
}

/// Creates a folder and its parents.
pub(crate) fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    fault_point(SystemCall::MakeFolder)?;
    fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Creates a folder that does not exist yet.
pub(crate) fn make_new_folder(path: &Path) -> io::Result<()> {
    fault_point(SystemCall::MakeFolder)?;
    fs::create_dir(path)
}

/// Lists the paths in a folder. Entries that disappear meanwhile are left out.
pub(crate) fn list_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fault_point(SystemCall::List)?;
    Ok(fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

/// Allocates zeroed memory of a length that comes from a file or a user.
pub(crate) fn zeroed_memory(len: u64) -> io::Result<Vec<u8>> {
    fault_point(SystemCall::Allocate)?;
    usize::try_from(len).ok().and_then(try_zeroed_vec).ok_or_else(|| out_of_memory(len))
}

/// Allocates zeroed memory that is aligned for moves.
pub(crate) fn aligned_buffer(len: u64) -> io::Result<AlignedBuffer> {
    fault_point(SystemCall::Allocate)?;
    usize::try_from(len)
        .ok()
        .and_then(AlignedBuffer::try_new_zeroed)
        .ok_or_else(|| out_of_memory(len))
}

/// Appends bytes to a vector.
pub(crate) fn append_bytes(to: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    fault_point(SystemCall::Allocate)?;
    // Growing a vector ends the process when memory runs out; asking first makes it an error.
    to.try_reserve(bytes.len()).map_err(|_| out_of_memory((to.len() + bytes.len()) as u64))?;
    to.extend_from_slice(bytes);
    Ok(())
}

fn out_of_memory(len: u64) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("{len} bytes of memory cannot be allocated"))
}

/// The folder of a file.
pub(crate) fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether both are the same file.
pub(crate) fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}
