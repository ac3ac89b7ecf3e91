//! Reports of graphs that were compiled before.

use zellige_files::{CacheLookup, ContentCache};

/// Reports that are kept.
// Bounded, because the report of a large model is large and nobody asks again for most of them.
const MAX_KEPT_REPORTS: usize = 64;

/// Where reports are kept.
pub(crate) struct ReportCache(ContentCache);

/// A report as it was printed, and its JSON.
pub(crate) struct CachedReport {
    pub(crate) text: String,
    pub(crate) json: String,
}

impl ReportCache {
    pub(crate) fn new(on: bool) -> ReportCache {
        ReportCache(if on {
            ContentCache::new("report", MAX_KEPT_REPORTS)
        } else {
            ContentCache::disabled("report")
        })
    }

    /// The report, if there is one; what to tell where there is one that is not used.
    pub(crate) fn get(&self, key: &str) -> (Option<CachedReport>, Option<String>) {
        let broken = || Some("the entry of the cache was broken: it is made anew".to_string());
        match self.0.look_up(key) {
            CacheLookup::Entry(body) => match decode_report(&body) {
                // The cache has checked the bytes against their hash; a body that is no report was written by a
                // program with another form of entries.
                Some(entry) => (Some(entry), None),
                None => (None, broken()),
            },
            CacheLookup::Missing => (None, None),
            CacheLookup::Broken => (None, broken()),
            CacheLookup::Refused(why) => (None, Some(format!("the cache is not used: {why}"))),
        }
    }

    pub(crate) fn put_report(&self, key: &str, entry: &CachedReport) {
        // The length of the text comes first, because both parts may hold any character and no separator would be
        // safe.
        let body = format!("{}\n{}{}", entry.text.len(), entry.text, entry.json);
        self.0.store_entry(key, body.as_bytes());
    }
}

fn decode_report(body: &[u8]) -> Option<CachedReport> {
    let (length, rest) = std::str::from_utf8(body).ok()?.split_once('\n')?;
    // Checked, as the length may point into the middle of a character of a broken entry.
    let (text, json) = rest.split_at_checked(length.parse().ok()?)?;
    Some(CachedReport { text: text.into(), json: json.into() })
}
