//! Reports of graphs that were compiled before.

use zellige_files::{Cache, Found};

/// Reports that are kept.
const MOST: usize = 64;

/// Where reports are kept.
pub(crate) struct Reports(Cache);

/// A report as it was printed, and its JSON.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) json: String,
}

impl Reports {
    pub(crate) fn new(on: bool) -> Reports {
        Reports(if on { Cache::new("report", MOST) } else { Cache::off("report") })
    }

    /// The report, if there is one; whether there was one that is broken.
    pub(crate) fn get(&self, key: &str) -> (Option<Entry>, bool) {
        match self.0.get(key) {
            Found::Entry(body) => {
                let entry = read(&body);
                let broken = entry.is_none();
                (entry, broken)
            }
            Found::Missing => (None, false),
            Found::Broken => (None, true),
        }
    }

    pub(crate) fn put(&self, key: &str, entry: &Entry) {
        let body = format!("{}\n{}{}", entry.text.len(), entry.text, entry.json);
        self.0.put(key, body.as_bytes());
    }
}

fn read(body: &[u8]) -> Option<Entry> {
    let (length, rest) = std::str::from_utf8(body).ok()?.split_once('\n')?;
    let (text, json) = rest.split_at_checked(length.parse().ok()?)?;
    Some(Entry { text: text.into(), json: json.into() })
}

/// What this program is: another build may decide otherwise.
pub(crate) fn build() -> String {
    let stamp = std::env::current_exe().map(|path| zellige_files::stamp(&path));
    format!("{} {}", env!("CARGO_PKG_VERSION"), stamp.unwrap_or_default())
}
