//! Reports of graphs that were compiled before.

use zellige_files::{CacheLookup, ContentCache};

/// Reports that are kept.
const MOST: usize = 64;

/// Where reports are kept.
pub(crate) struct Reports(ContentCache);

/// A report as it was printed, and its JSON.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) json: String,
}

impl Reports {
    pub(crate) fn new(on: bool) -> Reports {
        Reports(if on {
            ContentCache::new("report", MOST)
        } else {
            ContentCache::disabled("report")
        })
    }

    /// The report, if there is one; what to tell where there is one that is not used.
    pub(crate) fn get(&self, key: &str) -> (Option<Entry>, Option<String>) {
        let broken = || Some("the entry of the cache was broken: it is made anew".to_string());
        match self.0.look_up(key) {
            CacheLookup::Entry(body) => match read(&body) {
                Some(entry) => (Some(entry), None),
                None => (None, broken()),
            },
            CacheLookup::Missing => (None, None),
            CacheLookup::Broken => (None, broken()),
            CacheLookup::Refused(why) => (None, Some(format!("the cache is not used: {why}"))),
        }
    }

    pub(crate) fn put(&self, key: &str, entry: &Entry) {
        let body = format!("{}\n{}{}", entry.text.len(), entry.text, entry.json);
        self.0.store_entry(key, body.as_bytes());
    }
}

fn read(body: &[u8]) -> Option<Entry> {
    let (length, rest) = std::str::from_utf8(body).ok()?.split_once('\n')?;
    let (text, json) = rest.split_at_checked(length.parse().ok()?)?;
    Some(Entry { text: text.into(), json: json.into() })
}
