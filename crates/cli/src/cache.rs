//! Reports of graphs that were compiled before, by the content of everything they depend on.
//!
//! An entry is a file whose name is the hash of the graph's text, the options with the hardware, and the
//! program itself. Its first line has the hash again, lengths and a checksum; an entry that does not
//! hold what it says is removed and made anew. A cache that cannot be written is no error.

use anyhow::Result;
use std::path::{Path, PathBuf};
use zellige_files::write_bytes;

/// Entries that are kept; the oldest go.
const MOST: usize = 64;
const MAGIC: &str = "zellige-report 1";

/// Where reports are kept, or nowhere.
pub(crate) struct Cache(Option<PathBuf>);

/// A report as it was printed, and its JSON.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) json: String,
}

/// What an entry was found to be.
pub(crate) enum Found {
    Entry(Entry),
    Missing,
    Broken,
}

impl Cache {
    /// The folder of ZELLIGE_CACHE (`off` for none), or the user's cache folder.
    pub(crate) fn new(on: bool) -> Cache {
        let named = std::env::var_os("ZELLIGE_CACHE");
        let folder = match named {
            _ if !on => None,
            Some(name) if name == "off" || name.is_empty() => None,
            Some(name) => Some(PathBuf::from(name)),
            None => {
                let home = || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache"));
                let base = std::env::var_os("XDG_CACHE_HOME").filter(|x| !x.is_empty());
                base.map(PathBuf::from).or_else(home).map(|b| b.join("zellige"))
            }
        };
        Cache(folder)
    }

    pub(crate) fn get(&self, key: &str) -> Found {
        let Some(path) = self.path(key) else { return Found::Missing };
        let Ok(bytes) = std::fs::read(&path) else { return Found::Missing };
        match read(&bytes, key) {
            Some(entry) => Found::Entry(entry),
            None => {
                let _ = std::fs::remove_file(path);
                Found::Broken
            }
        }
    }

    pub(crate) fn put(&self, key: &str, entry: &Entry) {
        let (Some(folder), Some(path)) = (&self.0, self.path(key)) else { return };
        let body = format!("{}{}", entry.text, entry.json);
        let (length, sum) = (entry.text.len(), hash(&[body.as_bytes()]));
        let all = format!("{MAGIC} {key} {length} {sum}\n{body}");
        let written: Result<()> = (|| {
            std::fs::create_dir_all(folder)?;
            write_bytes(&path, all.as_bytes())?;
            prune(folder)
        })();
        // Without a cache the next compilation is as long as this one, and nothing else.
        let _ = written;
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{key}.report")))
    }
}

/// The hash of parts, each with its length: 128 bits of FNV-1a, in hexadecimal.
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut h: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        for b in part.len().to_le_bytes().iter().chain(*part) {
            h = (h ^ u128::from(*b)).wrapping_mul(PRIME);
        }
    }
    format!("{h:032x}")
}

/// What this program is: another build may decide otherwise.
pub(crate) fn build() -> String {
    let exe = std::env::current_exe().and_then(std::fs::metadata);
    let stamp = exe.and_then(|m| Ok(format!("{} {:?}", m.len(), m.modified()?)));
    format!("{} {}", env!("CARGO_PKG_VERSION"), stamp.unwrap_or_default())
}

fn read(bytes: &[u8], key: &str) -> Option<Entry> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once('\n')?;
    let words: Vec<&str> = head.strip_prefix(MAGIC)?.split_whitespace().collect();
    let [named, length, sum] = words.as_slice() else { return None };
    let length: usize = length.parse().ok()?;
    if *named != key || *sum != hash(&[body.as_bytes()]) {
        return None;
    }
    let (text, json) = body.split_at_checked(length)?;
    Some(Entry { text: text.into(), json: json.into() })
}

/// Removes the oldest entries past the limit.
fn prune(folder: &Path) -> Result<()> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "report") {
            entries.push((path.metadata()?.modified()?, path));
        }
    }
    entries.sort();
    let extra = entries.len().saturating_sub(MOST);
    for (_, path) in entries.into_iter().take(extra) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_and_broken_ones_do_not() {
        let folder = std::env::temp_dir().join(format!("zellige-cache-{}", std::process::id()));
        let cache = Cache(Some(folder.clone()));
        let key = hash(&[b"graph", b"options"]);
        assert_ne!(key, hash(&[b"grapho", b"ptions"]));
        assert!(matches!(cache.get(&key), Found::Missing));
        cache.put(&key, &Entry { text: "é text\n".into(), json: "{}".into() });
        let Found::Entry(found) = cache.get(&key) else { panic!("it is there") };
        assert_eq!((found.text.as_str(), found.json.as_str()), ("é text\n", "{}"));
        let path = folder.join(format!("{key}.report"));
        let whole = std::fs::read(&path).expect("an entry");
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            assert!(matches!(cache.get(&key), Found::Broken), "cut at {cut}");
        }
        assert!(matches!(cache.get(&key), Found::Missing), "a broken entry is removed");
        assert!(matches!(Cache(None).get(&key), Found::Missing));
        let _ = std::fs::remove_dir_all(folder);
    }
}
