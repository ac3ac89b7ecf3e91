//! A cache of results, keyed by the content of everything they depend on.
//!
//! An entry is a file whose name is a cryptographic hash of that content, so that different
//! contents have different names. Its first line repeats the hash and has a hash of the body, which
//! detects damage but proves no origin: anybody who can write an entry can write both. An entry is
//! therefore trusted because of its owner: the folder and the entry belong to this user and are
//! writable by nobody else, and the entry is a plain file. Everything else is left untouched and
//! answered by [`CacheLookup::Refused`].
//!
//! A cache that cannot be written is not an error: the next run only takes as long as this one.

use crate::disk;
use crate::error::{Result, show_path};
use crate::input::InputFile;
use crate::temporary::FileAccess;
use crate::whole_file::write_with_access;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zellige_host::effective_user;

/// The largest entry, in bytes.
// Compiled programs take up to some megabytes. The bound keeps a wrong file from being read into
// memory whole.
const MOST_BYTES: u64 = 1 << 28;

/// A folder of entries of one kind, or none.
#[derive(Debug, Clone)]
pub struct ContentCache {
    folder: Option<PathBuf>,
    kind: &'static str,
    most: usize,
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheLookup {
    /// The body of a valid entry.
    Entry(Vec<u8>),
    /// There is no entry.
    Missing,
    /// The entry was damaged and has been removed.
    Broken,
    /// Another user may have written the entry: why it is not trusted, and what to do.
    Refused(String),
}

impl ContentCache {
    /// The folder of `ZELLIGE_CACHE` (`off` for none), or the user's cache folder. Entries are
    /// files `*.KIND`; if there are more than `most`, the oldest are removed.
    pub fn new(kind: &'static str, most: usize) -> ContentCache {
        let folder = match std::env::var_os("ZELLIGE_CACHE") {
            Some(name) if name == "off" || name.is_empty() => None,
            Some(name) => Some(PathBuf::from(name)),
            None => {
                let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache"));
                let base = std::env::var_os("XDG_CACHE_HOME").filter(|x| !x.is_empty());
                base.map(PathBuf::from).or_else(home).map(|b| b.join("zellige"))
            }
        };
        ContentCache { folder, kind, most }
    }

    /// A cache in a given folder.
    pub fn in_folder(folder: impl Into<PathBuf>, kind: &'static str, most: usize) -> ContentCache {
        ContentCache { folder: Some(folder.into()), kind, most }
    }

    /// A cache that keeps nothing.
    pub fn disabled(kind: &'static str) -> ContentCache {
        ContentCache { folder: None, kind, most: 0 }
    }

    /// Looks up the entry of a [`content_hash`].
    pub fn look_up(&self, key: &str) -> CacheLookup {
        let Some(folder) = &self.folder else { return CacheLookup::Missing };
        let path = self.entry_path(folder, key);
        match read_trusted(folder, &path) {
            Ok(None) => CacheLookup::Missing,
            Ok(Some(bytes)) => match self.checked_body(&bytes, key) {
                Some(body) => CacheLookup::Entry(body.to_vec()),
                None => {
                    // A damaged entry would be found damaged every time; without it the next run
                    // writes a good one.
                    let _ = disk::remove_file(&path);
                    CacheLookup::Broken
                }
            },
            Err(why) => CacheLookup::Refused(why),
        }
    }

    /// Stores an entry, if there is a folder that can be written and is trusted.
    pub fn store_entry(&self, key: &str, body: &[u8]) {
        if let Some(folder) = &self.folder {
            // A failure only costs time later, so it is ignored.
            let _ = self.try_store_entry(folder, key, body);
        }
    }

    fn try_store_entry(&self, folder: &Path, key: &str, body: &[u8]) -> Result<()> {
        // Half of what is read at most, which leaves room for the first line.
        if body.len() as u64 > MOST_BYTES / 2 {
            return Ok(());
        }
        let failed = |e| crate::FileError::from_write(folder, "make it", e);
        // For the user alone: others must not be able to put entries there, and need not see which
        // models are compiled.
        disk::make_folders(folder, 0o700).map_err(failed)?;
        if check_trusted_folder(folder).is_err() {
            return Ok(());
        }
        let path = self.entry_path(folder, key);
        // Anything that is not a plain file is removed first: a link would redirect the write, and
        // a folder cannot be replaced by a rename.
        if disk::stat_no_link(&path).is_ok_and(|known| !known.is_file()) {
            disk::remove_file(&path)
                .map_err(|e| crate::FileError::from_write(&path, "replace it", e))?;
        }
        let mut all =
            format!("{} {key} {}\n", self.magic_line(), content_hash(&[body])).into_bytes();
        all.extend(body);
        write_with_access(&path, &all, FileAccess::Private)?;
        self.prune_oldest(folder)
            .map_err(|e| crate::FileError::from_write(folder, "remove old entries", e))
    }

    fn magic_line(&self) -> String {
        format!("zellige-{} 2", self.kind)
    }

    fn entry_path(&self, folder: &Path, key: &str) -> PathBuf {
        folder.join(format!("{key}.{}", self.kind))
    }

    fn checked_body<'a>(&self, bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let body = &bytes[end + 1..];
        let words: Vec<&str> = head.strip_prefix(&self.magic_line())?.split_whitespace().collect();
        (words == [key, content_hash(&[body]).as_str()]).then_some(body)
    }

    /// Removes the oldest entries past the limit.
    fn prune_oldest(&self, folder: &Path) -> std::io::Result<()> {
        let mut entries = Vec::new();
        for path in disk::list_folder(folder)? {
            if path.extension().is_some_and(|e| e == self.kind)
                && let Ok(known) = disk::stat_no_link(&path)
                && known.is_file()
            {
                entries.push(((known.mtime(), known.mtime_nsec()), path));
            }
        }
        // By the time of writing. Looking an entry up does not touch it, so the oldest go and not
        // the least used.
        entries.sort();
        let extra = entries.len().saturating_sub(self.most);
        // Another process may have removed an entry meanwhile.
        entries.into_iter().take(extra).for_each(|(_, path)| drop(disk::remove_file(&path)));
        Ok(())
    }
}

/// Reads the bytes of an entry, or the reason why it is not trusted.
fn read_trusted(folder: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    let known = match disk::stat_no_link(path) {
        Err(e) if missing(&e) => return Ok(None),
        Err(e) => return Err(refusal_message(path, &format!("cannot be examined: {e}"))),
        Ok(known) => known,
    };
    check_trusted_folder(folder)?;
    // The kind is checked by name first, because opening a device can have effects.
    check_trusted(path, &known, "a plain file", Metadata::is_file)?;
    let file = match disk::open_file_no_link(path) {
        Err(e) if missing(&e) => return Ok(None),
        Err(e) => return Err(refusal_message(path, &format!("cannot be opened: {e}"))),
        Ok(file) => file,
    };
    let known = disk::stat_file(&file)
        .map_err(|e| refusal_message(path, &format!("cannot be examined: {e}")))?;
    check_trusted(path, &known, "a plain file", Metadata::is_file)?;
    let input = InputFile::from_open_file(file, path).map_err(|e| e.to_string())?;
    input.check_max_len(MOST_BYTES).map_err(|e| e.to_string())?;
    Ok(Some(input.read_bytes(0, input.len, "the entry").map_err(|e| e.to_string())?))
}

fn check_trusted_folder(folder: &Path) -> Result<(), String> {
    let known = disk::stat_path(folder)
        .map_err(|e| refusal_message(folder, &format!("cannot be examined: {e}")))?;
    check_trusted(folder, &known, "a folder", Metadata::is_dir)
}

/// Checks that only this user can have written a file or folder.
fn check_trusted(
    path: &Path,
    known: &Metadata,
    what: &str,
    is: impl FnOnce(&Metadata) -> bool,
) -> Result<(), String> {
    let (owner, user) = (known.uid(), effective_user());
    if !is(known) {
        return Err(refusal_message(path, &format!("is not {what}")));
    }
    if owner != user {
        return Err(refusal_message(path, &format!("belongs to user {owner} and not to {user}")));
    }
    // Bits 0o020 and 0o002 let the group and everybody write.
    if known.mode() & 0o022 != 0 {
        let mode = known.mode() & 0o777;
        return Err(refusal_message(path, &format!("can be written by others (mode {mode:03o})")));
    }
    Ok(())
}

fn refusal_message(path: &Path, why: &str) -> String {
    format!(
        "{} {why}; accepted: plain files in a folder, both of this user and writable by nobody else. \
         Remove it, or name another folder by ZELLIGE_CACHE",
        show_path(path)
    )
}

/// The hash of parts, each with its length: BLAKE3, 256 bits in hexadecimal.
pub fn content_hash(parts: &[&[u8]]) -> String {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        // Without the lengths ("ab", "c") and ("a", "bc") would have one hash.
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().to_hex().to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn cache_for_test(name: &str, most: usize) -> (PathBuf, ContentCache) {
        let folder = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        (folder.clone(), ContentCache::in_folder(folder, "test", most))
    }

    fn file_mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn entries_come_back_and_broken_ones_do_not() {
        let (folder, cache) = cache_for_test("cache", 4);
        let key = content_hash(&[b"graph", b"options"]);
        assert_ne!(key, content_hash(&[b"grapho", b"ptions"]));
        assert_eq!(key.len(), 64);
        assert_eq!(cache.look_up(&key), CacheLookup::Missing);
        cache.store_entry(&key, "é text\n{}".as_bytes());
        assert_eq!(cache.look_up(&key), CacheLookup::Entry("é text\n{}".into()));
        let path = folder.join(format!("{key}.test"));
        assert_eq!((file_mode(&folder), file_mode(&path)), (0o700, 0o600));
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            cache.store_entry(&key, b"");
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.look_up(&key), CacheLookup::Broken, "cut at {cut}");
            assert_eq!(cache.look_up(&key), CacheLookup::Missing, "a broken entry is removed");
        }
        // An entry under another name is not taken for it.
        let other = content_hash(&[b"x"]);
        cache.store_entry(&other, b"");
        std::fs::write(folder.join(format!("{other}.test")), &whole).unwrap();
        assert_eq!(cache.look_up(&other), CacheLookup::Broken);
        assert_eq!(ContentCache::disabled("test").look_up(&key), CacheLookup::Missing);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Files that other users could have put there are refused, without blocking on them.
    #[test]
    fn files_that_others_may_have_written_are_refused() {
        let (folder, cache) = cache_for_test("cache-others", 4);
        let key = content_hash(&[b"k"]);
        let path = folder.join(format!("{key}.test"));
        let refused = |why: &str| {
            let begun = Instant::now();
            let CacheLookup::Refused(told) = cache.look_up(&key) else {
                panic!("{:?}", cache.look_up(&key))
            };
            assert!(told.contains(why) && told.contains("accepted:"), "{told}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{why}");
        };
        cache.store_entry(&key, b"body");
        let good = std::fs::read(&path).unwrap();

        // A whole entry of ours behind a link, as the link may be of others.
        std::fs::rename(&path, folder.join("elsewhere")).unwrap();
        symlink("elsewhere", &path).unwrap();
        refused("is not a plain file");
        std::fs::remove_file(&path).unwrap();
        // A pipe that nobody ever writes to, a folder, a socket.
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused("is not a plain file");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refused("is not a plain file");
        std::fs::remove_dir(&path).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        refused("is not a plain file");
        drop(socket);
        // Putting an entry there replaces what was in its way.
        cache.store_entry(&key, b"body");
        assert_eq!(cache.look_up(&key), CacheLookup::Entry(b"body".into()));
        for bits in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
            refused("can be written by others");
        }
        cache.store_entry(&key, b"body");
        for bits in [0o770, 0o707, 0o777, 0o1777] {
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(bits)).unwrap();
            refused("can be written by others");
            cache.store_entry(&key, b"other");
        }
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), good, "nothing was put into an open folder");
        // Longer than any entry: it is not read.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        refused("at most");
        if effective_user() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            refused("belongs to user 65534");
            std::fs::remove_file(&path).unwrap();
            cache.store_entry(&key, b"body");
            std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
            refused("belongs to user 65534");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_oldest_go() {
        let (folder, cache) = cache_for_test("cache-old", 3);
        for i in 0..6u8 {
            cache.store_entry(&content_hash(&[&[i]]), &[i]);
            std::thread::sleep(Duration::from_millis(15));
        }
        let left: Vec<bool> = (0..6u8)
            .map(|i| cache.look_up(&content_hash(&[&[i]])) == CacheLookup::Entry(vec![i]))
            .collect();
        assert_eq!(left, [false, false, false, true, true, true]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
