//! The text that says how the tensors of a checkpoint are divided, before and after.
//!
//! ```toml
//! about = "Llama: one model to tensor-parallel ranks"
//!
//! [from]
//! files = "index"                       # what model.safetensors.index.json names
//!
//! [to]
//! mesh = "pp=2, tp=4"
//! files = "pp-{pp}-tp-{tp}.safetensors"
//!
//! [[tensor]]
//! name = "model.layers.{i}.self_attn.q_proj.weight"
//! to = "P('tp', None) at pp={i}/16"
//!
//! [[tensor]]
//! name = "*"
//! ```
//!
//! The first rule whose name matches counts: `*` stands for any characters, `{i}` for a number. A layout is `whole` (on every rank, and
//! what is left out means that), `flat` or `flat tp` (the elements in a row, cut evenly, as FSDP does), a `PartitionSpec` or DTensor placements
//! on the mesh of the side, or any other notation that uses the names of the mesh. `at pp=0` or `at pp={i}/16` says that it is on those
//! ranks alone: where the number, divided and rounded down, is their coordinate. `padded` at the end: shards are as long as the
//! longest one. `to = "drop"` leaves a tensor out, `shape = [..]` names the shape where shards do not tell it.

use super::error::{Error, Result};
use super::patterns::Patterns;
use crate::mesh::Mesh;
use crate::placed::{Coordinate, Placed};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One side of a checkpoint: its mesh, and the file of every rank.
#[derive(Debug, Clone)]
pub struct Files {
    mesh: Mesh,
    names: String,
}

/// Which tensors, and how they are divided on both sides.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(crate) name: String,
    pub(crate) from: Placed,
    pub(crate) to: Placed,
    pub(crate) shape: Option<Vec<i64>>,
    pub(crate) line: usize,
}

/// A whole text.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The input.
    pub from: Files,
    /// The output.
    pub to: Files,
    pub(crate) rules: Vec<Rule>,
    patterns: Patterns,
}

impl Files {
    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Whether files are those that an index names.
    pub(crate) fn by_index(&self) -> bool {
        self.names == "index"
    }

    /// The file of a rank.
    pub fn of_rank(&self, rank: i64) -> String {
        let mut name = self.names.replace("{rank}", &rank.to_string());
        for ((axis, _), at) in self.mesh.axes().iter().zip(self.mesh.coordinates(rank)) {
            name = name.replace(&format!("{{{axis}}}"), &at.to_string());
        }
        name
    }
}

impl Rules {
    /// Reads a text.
    ///
    /// # Errors
    /// What it does not understand, with its line.
    pub fn parse(text: &str) -> Result<Rules> {
        let reader = Reader::new(text);
        let table = DeTable::parse(text).map_err(|e| {
            reader.error(e.span().map_or(0, |s| s.start), "TOML", e.message().to_string())
        })?;
        let (mut from, mut to, mut rules) = (None, None, Vec::new());
        for (key, item) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("about", DeValue::String(_)) => {}
                ("from", DeValue::Table(side)) => from = Some(reader.files(at, side)?),
                ("to", DeValue::Table(side)) => to = Some(reader.files(at, side)?),
                ("tensor", DeValue::Array(all)) => {
                    for rule in all {
                        rules.push(reader.rule(rule)?);
                    }
                }
                (other, _) => {
                    let accepted = "accepted are about, [from], [to] and [[tensor]]";
                    return Err(reader.error(at, other, accepted.into()));
                }
            }
        }
        let missing = |key: &str| reader.error(text.len(), key, "missing".into());
        let (from, to) =
            (from.ok_or_else(|| missing("[from]"))?, to.ok_or_else(|| missing("[to]"))?);
        if rules.is_empty() {
            return Err(missing("[[tensor]]"));
        }
        if from.by_index() && from.mesh.ranks() > 1 {
            let reason =
                "an index names the files of one rank; a mesh of several needs {rank} or its axes";
            return Err(reader.error(0, "files", reason.into()));
        }
        if to.by_index() {
            let reason =
                "the output is named by {rank} or the axes of its mesh, as rank-{rank}.safetensors";
            return Err(reader.error(0, "files", reason.into()));
        }
        let patterns = Patterns::new(rules.iter().map(|rule| rule.name.as_str()));
        let rules = Rules { from, to, rules, patterns };
        for rule in &rules.rules {
            for (placed, files) in [(&rule.from, &rules.from), (&rule.to, &rules.to)] {
                for (axis, coordinate) in &placed.at {
                    let fail = |reason| Error::Rules { line: rule.line, key: axis.clone(), reason };
                    if !files.mesh.axes().iter().any(|(a, _)| a.name() == axis) {
                        return Err(fail(format!("no axis of {}", files.mesh)));
                    }
                    if let Coordinate::Captured(word, _) = coordinate
                        && !rule.name.contains(&format!("{{{word}}}"))
                    {
                        return Err(fail(format!("the name has no {{{word}}}")));
                    }
                }
            }
        }
        Ok(rules)
    }

    /// The first rule for a name, with the numbers in it.
    pub(crate) fn find(&self, name: &str) -> Option<(&Rule, Vec<(String, i64)>)> {
        let (index, numbers) = self.patterns.find(name)?;
        Some((&self.rules[index], numbers))
    }
}

struct Reader {
    /// Where each line break is: every rule asks for its line.
    breaks: Vec<usize>,
}

impl Reader {
    fn new(text: &str) -> Reader {
        Reader { breaks: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.breaks.partition_point(|end| *end < at)
    }

    fn error(&self, at: usize, key: &str, reason: String) -> Error {
        Error::Rules { line: self.line(at), key: key.to_string(), reason }
    }

    fn files(&self, at: usize, table: &DeTable<'_>) -> Result<Files> {
        let (mut mesh, mut names) = (None, None);
        for (key, item) in table {
            let at = key.span().start;
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("mesh", DeValue::String(text)) => {
                    mesh = Some(self.mesh(at, text)?);
                }
                ("files", DeValue::String(text)) => names = Some((at, text.to_string())),
                (other, _) => {
                    let accepted =
                        "accepted are mesh = \"tp=4\" and files = \"rank-{rank}.safetensors\"";
                    return Err(self.error(at, other, accepted.into()));
                }
            }
        }
        let one = || Mesh::new(Vec::new()).map_err(|e| self.error(at, "mesh", e.to_string()));
        let mesh = mesh.map_or_else(one, Ok)?;
        let (at, names) = names.ok_or_else(|| self.error(at, "files", "missing".into()))?;
        let plain = names != "index"
            && (!names.ends_with(".safetensors")
                || names.split('/').any(|part| part.is_empty() || part.starts_with('.')));
        if plain {
            let accepted =
                "a name below the folder that ends in .safetensors, or index for the input";
            return Err(self.error(at, "files", format!("`{names}`: {accepted}")));
        }
        let mut left = names.clone();
        for axis in mesh.axes().iter().map(|(a, _)| a.name()).chain(["rank"]) {
            left = left.replace(&format!("{{{axis}}}"), "");
        }
        if left.contains(['{', '}']) {
            let reason = format!("`{names}`: {{rank}} and the axes of {mesh} are known");
            return Err(self.error(at, "files", reason));
        }
        Ok(Files { mesh, names })
    }

    fn mesh(&self, at: usize, text: &str) -> Result<Mesh> {
        Mesh::parse(text).map_err(|e| self.error(at, "mesh", e.to_string()))
    }

    fn rule(&self, item: &Spanned<DeValue<'_>>) -> Result<Rule> {
        let start = item.span().start;
        let Some(table) = item.get_ref().as_table() else {
            return Err(self.error(start, "tensor", "a table [[tensor]]".into()));
        };
        let whole = Placed { text: "whole".into(), at: Vec::new(), padded: false };
        let (mut name, mut from, mut to, mut shape) = (None, whole.clone(), whole, None);
        for (key, item) in table {
            let at = key.span().start;
            let placed = |text: &str| {
                Placed::parse(text).map_err(|reason| self.error(at, key.get_ref(), reason))
            };
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("name", DeValue::String(text)) => name = Some((at, text.to_string())),
                ("from", DeValue::String(text)) => from = placed(text)?,
                ("to", DeValue::String(text)) => to = placed(text)?,
                ("shape", DeValue::Array(all)) => {
                    let extents = all.iter().map(|n| match n.get_ref() {
                        DeValue::Integer(n) => n.as_str().parse().ok().filter(|n| *n >= 0),
                        _ => None,
                    });
                    let extents: Option<Vec<i64>> = extents.collect();
                    let bad = || self.error(at, "shape", "a list of extents".into());
                    shape = Some(extents.ok_or_else(bad)?);
                }
                (other, _) => {
                    let accepted = "accepted are name, from, to and shape";
                    return Err(self.error(at, other, accepted.into()));
                }
            }
        }
        let (at, name) = name.ok_or_else(|| self.error(start, "name", "missing".into()))?;
        Ok(Rule { name, from, to, shape, line: self.line(at) })
    }
}
