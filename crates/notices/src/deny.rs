//! Checks the lock file against the lists of `deny.toml`.

use crate::graph::CrateGraph;
use crate::license::is_accepted;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// Lists everything that `deny.toml` does not accept, one line each.
///
/// # Errors
/// A file that does not have the lists.
pub fn find_complaints(deny: &str, packages: &CrateGraph) -> Result<Vec<String>, String> {
    let table = DeTable::parse(deny).map_err(|e| format!("deny.toml: {e}"))?;
    let list = |keys: [&str; 2]| -> Result<Vec<&DeValue<'_>>, String> {
        let section = table.get_ref().get(keys[0]).and_then(|v| v.get_ref().as_table());
        let found = section.and_then(|t| t.get(keys[1])).and_then(|v| v.get_ref().as_array());
        let found =
            found.ok_or_else(|| format!("deny.toml has no list {}.{}", keys[0], keys[1]))?;
        Ok(found.iter().map(|v| v.get_ref()).collect())
    };
    let words = |keys| -> Result<Vec<&str>, String> {
        Ok(list(keys)?.into_iter().filter_map(DeValue::as_str).collect())
    };
    let licenses = words(["licenses", "allow"])?;
    let registries = words(["sources", "allow-registry"])?;
    let repositories = words(["sources", "allow-git"])?;
    // `name@version` of crates that may exist besides another version.
    let skipped: Vec<&str> = list(["bans", "skip"])?
        .into_iter()
        .filter_map(|v| v.as_table()?.get("crate")?.get_ref().as_str())
        .collect();

    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // An exception that nothing needs any more would hide the next second version of that crate.
    let mut unused: Vec<&str> = skipped.clone();
    for p in packages.all_crates() {
        let named = format!("{}@{}", p.name, p.version);
        match &p.license {
            None => found.push(format!("{named} names no licence")),
            Some(expression) => match is_accepted(expression, &|name| licenses.contains(&name)) {
                Ok(true) => {}
                Ok(false) => found.push(format!("{named}: {expression} is not accepted")),
                Err(e) => found.push(format!("{named}: {e}")),
            },
        }
        // Crates of this workspace have no source.
        if let Some(source) = &p.source {
            let address = source.split_once('+').map_or(source.as_str(), |(_, a)| a);
            if !registries.contains(&address) && !repositories.contains(&address) {
                found.push(format!("{named} comes from {source}"));
            }
        }
        unused.retain(|s| *s != named);
        if !skipped.contains(&named.as_str()) {
            versions.entry(&p.name).or_default().push(&p.version);
        }
    }
    for (name, list) in versions.iter().filter(|(_, list)| list.len() > 1) {
        found.push(format!("{name} is there as {}", list.join(" and ")));
    }
    found.extend(unused.iter().map(|s| format!("{s} is skipped, and is not there")));
    Ok(found)
}
