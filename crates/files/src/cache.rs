//! Results that were computed before, by the content of everything they depend on.
//!
//! An entry is a file whose name is that content's hash. Its first line has the hash again and a
//! checksum; an entry that does not hold what it says is removed. A cache that cannot be written is no
//! error: the next time takes as long as this one, and nothing else.

use crate::error::Result;
use crate::write_bytes;
use std::path::{Path, PathBuf};

/// A folder of entries of one kind, or none.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Option<PathBuf>,
    kind: &'static str,
    most: usize,
}

/// What an entry was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// What was put there.
    Entry(Vec<u8>),
    /// There is none.
    Missing,
    /// It did not hold what it said, and is gone.
    Broken,
}

impl Cache {
    /// The folder of `ZELLIGE_CACHE` (`off` for none), or the user's cache folder. Entries are files
    /// `*.KIND`; of more than `most`, the oldest go.
    pub fn new(kind: &'static str, most: usize) -> Cache {
        let folder = match std::env::var_os("ZELLIGE_CACHE") {
            Some(name) if name == "off" || name.is_empty() => None,
            Some(name) => Some(PathBuf::from(name)),
            None => {
                let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache"));
                let base = std::env::var_os("XDG_CACHE_HOME").filter(|x| !x.is_empty());
                base.map(PathBuf::from).or_else(home).map(|b| b.join("zellige"))
            }
        };
        Cache { folder, kind, most }
    }

    /// A cache that keeps nothing.
    pub fn off(kind: &'static str) -> Cache {
        Cache { folder: None, kind, most: 0 }
    }

    /// The entry of a [`content_hash`].
    pub fn get(&self, key: &str) -> Found {
        let Some(path) = self.path(key) else { return Found::Missing };
        let Ok(bytes) = std::fs::read(&path) else { return Found::Missing };
        match self.body(&bytes, key) {
            Some(body) => Found::Entry(body.to_vec()),
            None => {
                let _ = std::fs::remove_file(path);
                Found::Broken
            }
        }
    }

    /// Keeps an entry, where there is a folder that can be written.
    pub fn put(&self, key: &str, body: &[u8]) {
        let (Some(folder), Some(path)) = (&self.folder, self.path(key)) else { return };
        let mut all = format!("{} {key} {}\n", self.magic(), content_hash(&[body])).into_bytes();
        all.extend(body);
        let written: Result<()> = std::fs::create_dir_all(folder)
            .map_err(|e| crate::Error::write(folder, "make it", e))
            .and_then(|()| write_bytes(&path, &all));
        if written.is_ok() {
            let _ = self.prune(folder);
        }
    }

    fn magic(&self) -> String {
        format!("zellige-{} 1", self.kind)
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.{}", self.kind)))
    }

    fn body<'a>(&self, bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
        let end = bytes.iter().position(|b| *b == b'\n')?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let body = &bytes[end + 1..];
        let words: Vec<&str> = head.strip_prefix(&self.magic())?.split_whitespace().collect();
        (words == [key, content_hash(&[body]).as_str()]).then_some(body)
    }

    /// Removes the oldest entries past the limit.
    fn prune(&self, folder: &Path) -> std::io::Result<()> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == self.kind) {
                entries.push((path.metadata()?.modified()?, path));
            }
        }
        entries.sort();
        let extra = entries.len().saturating_sub(self.most);
        entries.into_iter().take(extra).try_for_each(|(_, path)| std::fs::remove_file(path))
    }
}

/// The hash of parts, each with its length: 128 bits of FNV-1a, in hexadecimal.
pub fn content_hash(parts: &[&[u8]]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut h: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        for b in part.len().to_le_bytes().iter().chain(*part) {
            h = (h ^ u128::from(*b)).wrapping_mul(PRIME);
        }
    }
    format!("{h:032x}")
}

/// What a file of a program is: another build may answer otherwise.
pub fn stamp(file: &Path) -> String {
    let seen = std::fs::metadata(file).and_then(|m| Ok(format!("{} {:?}", m.len(), m.modified()?)));
    seen.unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn cache(name: &str, most: usize) -> (PathBuf, Cache) {
        let folder = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        (folder.clone(), Cache { folder: Some(folder), kind: "test", most })
    }

    #[test]
    fn entries_come_back_and_broken_ones_do_not() {
        let (folder, cache) = cache("cache", 4);
        let key = content_hash(&[b"graph", b"options"]);
        assert_ne!(key, content_hash(&[b"grapho", b"ptions"]));
        assert_eq!(cache.get(&key), Found::Missing);
        cache.put(&key, "é text\n{}".as_bytes());
        assert_eq!(cache.get(&key), Found::Entry("é text\n{}".into()));
        let path = folder.join(format!("{key}.test"));
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.get(&key), Found::Broken, "cut at {cut}");
        }
        assert_eq!(cache.get(&key), Found::Missing, "a broken entry is removed");
        // An entry under another name is not taken for it.
        std::fs::write(folder.join(format!("{}.test", content_hash(&[b"x"]))), &whole).unwrap();
        assert_eq!(cache.get(&content_hash(&[b"x"])), Found::Broken);
        assert_eq!(Cache::off("test").get(&key), Found::Missing);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn the_oldest_go() {
        let (folder, cache) = cache("cache-old", 3);
        for i in 0..6u8 {
            cache.put(&content_hash(&[&[i]]), &[i]);
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
        let left: Vec<bool> =
            (0..6u8).map(|i| cache.get(&content_hash(&[&[i]])) == Found::Entry(vec![i])).collect();
        assert_eq!(left, [false, false, false, true, true, true]);
        let _ = std::fs::remove_dir_all(folder);
    }
}
