//! Decisions of earlier compilations: on disk, and as artifacts of PyTorch's own compile cache.
//!
//! An entry holds [`Decisions`], which are data: `compile_again` checks all of them, so that an entry that is damaged
//! or belongs to another program costs time and never gives a wrong program. The key is a hash of everything that the
//! decisions depend on: graph, options, engine, and the program of other sizes whose decisions were reused. The places
//! in the model's source are no part of it: a program stays the same when lines above it are added.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use zellige_compile::{
    CompileDecisions, CompiledProgram, CompilerOptions, compile_again, compile_graph,
};
use zellige_files::{CacheLookup, ContentCache, content_hash};
use zellige_graph::Graph;

/// The most entries on disk, and of artifacts in memory.
const MAX_ENTRIES: usize = 1024;

/// Characters of a key.
const KEY_LENGTH: usize = 64;

/// Entries that came as artifacts: they are used where the cache on disk is off, too.
static LOADED: LazyLock<Mutex<HashMap<String, Vec<u8>>>> = LazyLock::new(Mutex::default);

fn open_cache() -> ContentCache {
    ContentCache::new("plan", MAX_ENTRIES)
}

/// The key of a graph as JSON. A text that is no JSON has a key too; reading the graph refuses it.
pub(super) fn graph_key(
    graph: &str,
    options: &CompilerOptions,
    like: Option<&CompileDecisions>,
) -> String {
    let mut value: Value = serde_json::from_str(graph).unwrap_or_default();
    for op in value.get_mut("ops").and_then(Value::as_array_mut).into_iter().flatten() {
        op.as_object_mut().map(|fields| fields.remove("at"));
    }
    let graph = if value.is_null() { graph.to_string() } else { value.to_string() };
    let like = like.and_then(|l| serde_json::to_vec(l).ok()).unwrap_or_default();
    let options = format!("{options:?}");
    let engine = zellige_stamp::ENGINE.as_bytes();
    content_hash(&[graph.as_bytes(), options.as_bytes(), engine, &like])
}

/// The decisions of an entry.
fn read_decisions(key: &str) -> Option<CompileDecisions> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
    let bytes = loaded.or_else(|| match open_cache().look_up(key) {
        CacheLookup::Entry(bytes) => Some(bytes),
        _ => None,
    })?;
    serde_json::from_slice(&bytes).ok()
}

/// A program for a graph, and where its decisions come from: the `cache`, a program of `other sizes`, or a `search`.
pub(super) fn compile_cached(
    graph: &Graph,
    options: &CompilerOptions,
    like: Option<&CompileDecisions>,
    key: &str,
) -> zellige_compile::Result<(CompiledProgram, &'static str)> {
    // Where decisions of the cache give no program, the search runs, and its error is the one to report.
    if let Some(decisions) = read_decisions(key)
        && let Ok(program) = compile_again(graph, options, &decisions)
    {
        return Ok((program, "cache"));
    }
    let (program, source) = match like {
        Some(like) => (compile_again(graph, options, like)?, "other sizes"),
        None => (compile_graph(graph, options)?, "search"),
    };
    if let Some(bytes) = encode_entry(&program) {
        open_cache().store_entry(key, &bytes);
    }
    Ok((program, source))
}

/// What an entry holds of a program.
pub(super) fn encode_entry(program: &CompiledProgram) -> Option<Vec<u8>> {
    serde_json::to_vec(&program.decisions).ok()
}

/// Adds an entry that another process made, under its key.
///
/// # Errors
/// Keys and entries that no compilation made: a key is 64 hexadecimal digits, an entry the decisions of a program.
#[pyfunction]
pub(super) fn add_plan(key: &str, entry: &[u8]) -> PyResult<()> {
    if key.len() != KEY_LENGTH || !key.bytes().all(|b| b.is_ascii_hexdigit()) {
        let message =
            format!("the key {key:?} is not accepted: {KEY_LENGTH} hexadecimal digits are");
        return Err(PyValueError::new_err(message));
    }
    serde_json::from_slice::<CompileDecisions>(entry).map_err(|e| {
        PyValueError::new_err(format!("the entry is not the decisions of a program: {e}"))
    })?;
    open_cache().store_entry(key, entry);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if loaded.len() < MAX_ENTRIES {
        loaded.insert(key.to_string(), entry.to_vec());
    }
    Ok(())
}
