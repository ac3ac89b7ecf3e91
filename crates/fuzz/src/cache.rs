//! The cache of results: a lookup returns what was stored or nothing, and cached decisions can make
//! a program slower but never wrong.

use crate::budget::run_bounded;
use crate::files::FOLDER;
use arbitrary::Unstructured;
use std::sync::LazyLock;
use zellige_compile::{
    CompileDecisions, CompilerOptions, check_program, compile_again, compile_graph,
};
use zellige_files::{CacheLookup, ContentCache, content_hash};
use zellige_graph::Graph;

const KIND: &str = "fuzz";

/// An entry, and the damage to its file.
#[derive(Debug)]
struct EntryDamage {
    /// Replaced bytes: position and new value.
    edits: Vec<(u16, u8)>,
    /// The length that the file is truncated to.
    cut: Option<u16>,
    /// Appended bytes.
    tail: Vec<u8>,
    body: Vec<u8>,
}

impl EntryDamage {
    fn draw_damage(u: &mut Unstructured<'_>) -> arbitrary::Result<EntryDamage> {
        let mut edits = Vec::new();
        for _ in 0..u.int_in_range(0..=3)? {
            edits.push(u.arbitrary()?);
        }
        let cut = if u.ratio(1, 4)? { Some(u.arbitrary()?) } else { None };
        let tail = u.int_in_range(0..=3)?;
        let tail = u.bytes(tail)?.to_vec();
        let body = u.bytes(u.len())?.to_vec();
        Ok(EntryDamage { edits, cut, tail, body })
    }
}

pub(crate) fn fuzz_cache_entry(data: &[u8]) {
    let Ok(damage) = EntryDamage::draw_damage(&mut Unstructured::new(data)) else { return };
    let folder = FOLDER.join("cache");
    let cache = ContentCache::in_folder(&folder, KIND, 4);
    let key = content_hash(&[b"fuzz", &damage.body]);
    cache.store_entry(&key, &damage.body);
    assert_eq!(
        cache.look_up(&key),
        CacheLookup::Entry(damage.body.clone()),
        "what was put comes back"
    );
    // The entry is the only file with this extension; its name is chosen by the cache.
    let mut files = std::fs::read_dir(&folder).expect("the folder of the cache");
    let path = files
        .find_map(|e| Some(e.ok()?.path()).filter(|p| p.extension().is_some_and(|x| x == KIND)));
    let path = path.expect("the entry is a file");
    let whole = std::fs::read(&path).expect("it can be read");
    let mut changed = whole.clone();
    for (at, byte) in &damage.edits {
        let at = usize::from(*at) % changed.len().max(1);
        changed[at] = *byte;
    }
    if let Some(cut) = damage.cut {
        changed.truncate(usize::from(cut));
    }
    changed.extend(&damage.tail);
    std::fs::write(&path, &changed).expect("it can be written");
    let bytes = (1 << 16) + 16 * changed.len();
    match run_bounded("an entry", bytes, || cache.look_up(&key)) {
        CacheLookup::Entry(found) => {
            // An edit may write the byte that was there, so an unchanged file has to be accepted
            // too.
            assert!(changed == whole, "a changed file was believed");
            assert_eq!(found, damage.body);
        }
        CacheLookup::Missing | CacheLookup::Broken | CacheLookup::Refused(_) => {
            assert!(changed != whole, "an entry was lost");
        }
    }
    let _ = std::fs::remove_file(path);
}

/// A graph whose operations are divided, placed and moved.
pub(crate) static GRAPH: LazyLock<Graph> = LazyLock::new(|| {
    let text = "graph g(x: float16[64, 128], w: float16[96, 128] @weight) {
        h = linear(x, w)
        t = transpose(h, dim0=0, dim1=1)
        y = softmax(t, dim=-1)
        return y
    }";
    zellige_graph::text::parse(text).expect("a graph")
});

/// Checks decisions in the form in which a cache stores them.
pub(crate) fn fuzz_decisions(data: &[u8]) {
    let Ok(decisions) = serde_json::from_slice::<CompileDecisions>(data) else { return };
    let printed = serde_json::to_vec(&decisions).expect("decisions are JSON");
    let again: CompileDecisions = serde_json::from_slice(&printed).expect("their own JSON");
    assert_eq!(again, decisions);
    let options = CompilerOptions { cores: 4, ..CompilerOptions::default() };
    let bytes = (1 << 26) + 1000 * data.len();
    let program = run_bounded("a program", bytes, || compile_again(&GRAPH, &options, &decisions));
    let program = program.expect("decisions never make a compilation fail");
    check_program(&program).expect("decisions never make a program wrong");
}

/// Decisions of a search, as JSON.
pub(crate) fn search_decisions(cores: usize) -> Vec<u8> {
    let options = CompilerOptions { cores, ..CompilerOptions::default() };
    let program = compile_graph(&GRAPH, &options).expect("a program");
    serde_json::to_vec(&program.decisions).expect("decisions are JSON")
}
