//! The rules of a checkpoint job: how its tensors are divided in the input and in the output.
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
//! The first rule whose name matches applies: `*` matches any characters, `{i}` a number. A layout
//! is `whole` (the default: the tensor is on every rank), `flat` or `flat tp` (the elements in
//! row-major order, cut evenly, as FSDP does), a `PartitionSpec` or DTensor placements on the mesh
//! of the side, or any other notation that uses the names of the mesh. `at pp=0` or `at pp={i}/16`
//! restricts it to the ranks with this coordinate, where the number is divided and rounded down.
//! `padded` at the end means that all shards are as long as the longest one. `to = "drop"` leaves a
//! tensor out, and `shape = [..]` gives the shape if it does not follow from the shards.

use super::error::{CheckpointError, Result};
use super::patterns::NamePatterns;
use crate::mesh::DeviceMesh;
use crate::placed::{AxisCoordinate, PlacementText};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One side of a checkpoint: its mesh, and the file of every rank.
#[derive(Debug, Clone)]
pub struct ShardFiles {
    mesh: DeviceMesh,
    names: String,
}

/// A rule: which tensors it matches, and how they are divided on both sides.
#[derive(Debug, Clone)]
pub struct DivisionRule {
    pub(crate) name: String,
    pub(crate) from: PlacementText,
    pub(crate) to: PlacementText,
    pub(crate) shape: Option<Vec<i64>>,
    pub(crate) line: usize,
}

/// The rules of a job.
#[derive(Debug, Clone)]
pub struct DivisionRules {
    /// The input.
    pub from: ShardFiles,
    /// The output.
    pub to: ShardFiles,
    pub(crate) rules: Vec<DivisionRule>,
    patterns: NamePatterns,
}

impl ShardFiles {
    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// Whether the files are those that an index names.
    pub(crate) fn named_by_index(&self) -> bool {
        self.names == "index"
    }

    /// The file of a rank.
    pub fn file_of_rank(&self, rank: i64) -> String {
        let mut name = self.names.replace("{rank}", &rank.to_string());
        for ((axis, _), at) in self.mesh.axes().iter().zip(self.mesh.coordinates_of(rank)) {
            name = name.replace(&format!("{{{axis}}}"), &at.to_string());
        }
        name
    }
}

impl DivisionRules {
    /// Reads the text of rules.
    ///
    /// # Errors
    /// What is invalid, with its line.
    pub fn parse(text: &str) -> Result<DivisionRules> {
        let reader = RulesReader::new(text);
        let table = DeTable::parse(text).map_err(|e| {
            reader.error_at(e.span().map_or(0, |s| s.start), "TOML", e.message().to_string())
        })?;
        let (mut from, mut to, mut rules) = (None, None, Vec::new());
        for (key, item) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("about", DeValue::String(_)) => {}
                ("from", DeValue::Table(side)) => from = Some(reader.read_files(at, side)?),
                ("to", DeValue::Table(side)) => to = Some(reader.read_files(at, side)?),
                ("tensor", DeValue::Array(all)) => {
                    for rule in all {
                        rules.push(reader.read_rule(rule)?);
                    }
                }
                (other, _) => {
                    let accepted = "accepted are about, [from], [to] and [[tensor]]";
                    return Err(reader.error_at(at, other, accepted.into()));
                }
            }
        }
        let missing = |key: &str| reader.error_at(text.len(), key, "missing".into());
        let (from, to) =
            (from.ok_or_else(|| missing("[from]"))?, to.ok_or_else(|| missing("[to]"))?);
        if rules.is_empty() {
            return Err(missing("[[tensor]]"));
        }
        // An index names one file for each tensor and says nothing about ranks.
        if from.named_by_index() && from.mesh.rank_count() > 1 {
            let reason =
                "an index names the files of one rank; a mesh of several needs {rank} or its axes";
            return Err(reader.error_at(0, "files", reason.into()));
        }
        if to.named_by_index() {
            let reason =
                "the output is named by {rank} or the axes of its mesh, as rank-{rank}.safetensors";
            return Err(reader.error_at(0, "files", reason.into()));
        }
        let patterns = NamePatterns::new(rules.iter().map(|rule| rule.name.as_str()));
        let rules = DivisionRules { from, to, rules, patterns };
        for rule in &rules.rules {
            for (placed, files) in [(&rule.from, &rules.from), (&rule.to, &rules.to)] {
                for (axis, coordinate) in &placed.at {
                    let fail = |reason| CheckpointError::Rules {
                        line: rule.line,
                        key: axis.clone(),
                        reason,
                    };
                    if !files.mesh.axes().iter().any(|(a, _)| a.name() == axis) {
                        return Err(fail(format!("no axis of {}", files.mesh)));
                    }
                    if let AxisCoordinate::Captured(word, _) = coordinate
                        && !rule.name.contains(&format!("{{{word}}}"))
                    {
                        return Err(fail(format!("the name has no {{{word}}}")));
                    }
                }
            }
        }
        Ok(rules)
    }

    /// The first rule that matches a name, with the captured numbers.
    pub(crate) fn find_rule(&self, name: &str) -> Option<(&DivisionRule, Vec<(String, i64)>)> {
        let (index, numbers) = self.patterns.find_pattern(name)?;
        Some((&self.rules[index], numbers))
    }
}

struct RulesReader {
    /// The positions of the line breaks, because every rule looks up its line.
    breaks: Vec<usize>,
}

impl RulesReader {
    fn new(text: &str) -> RulesReader {
        RulesReader { breaks: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    fn line_number(&self, at: usize) -> usize {
        1 + self.breaks.partition_point(|end| *end < at)
    }

    fn error_at(&self, at: usize, key: &str, reason: String) -> CheckpointError {
        CheckpointError::Rules { line: self.line_number(at), key: key.to_string(), reason }
    }

    fn read_files(&self, at: usize, table: &DeTable<'_>) -> Result<ShardFiles> {
        let (mut mesh, mut names) = (None, None);
        for (key, item) in table {
            let at = key.span().start;
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("mesh", DeValue::String(text)) => {
                    mesh = Some(self.read_mesh(at, text)?);
                }
                ("files", DeValue::String(text)) => names = Some((at, text.to_string())),
                (other, _) => {
                    let accepted =
                        "accepted are mesh = \"tp=4\" and files = \"rank-{rank}.safetensors\"";
                    return Err(self.error_at(at, other, accepted.into()));
                }
            }
        }
        let one =
            || DeviceMesh::new(Vec::new()).map_err(|e| self.error_at(at, "mesh", e.to_string()));
        let mesh = mesh.map_or_else(one, Ok)?;
        let (at, names) = names.ok_or_else(|| self.error_at(at, "files", "missing".into()))?;
        let plain = names != "index"
            && (!names.ends_with(".safetensors")
                // No `..` and no absolute path: output stays below the folder that the user names.
                || names.split('/').any(|part| part.is_empty() || part.starts_with('.')));
        if plain {
            let accepted =
                "a name below the folder that ends in .safetensors, or index for the input";
            return Err(self.error_at(at, "files", format!("`{names}`: {accepted}")));
        }
        let mut left = names.clone();
        for axis in mesh.axes().iter().map(|(a, _)| a.name()).chain(["rank"]) {
            left = left.replace(&format!("{{{axis}}}"), "");
        }
        if left.contains(['{', '}']) {
            let reason = format!("`{names}`: {{rank}} and the axes of {mesh} are known");
            return Err(self.error_at(at, "files", reason));
        }
        Ok(ShardFiles { mesh, names })
    }

    fn read_mesh(&self, at: usize, text: &str) -> Result<DeviceMesh> {
        DeviceMesh::parse(text).map_err(|e| self.error_at(at, "mesh", e.to_string()))
    }

    fn read_rule(&self, item: &Spanned<DeValue<'_>>) -> Result<DivisionRule> {
        let start = item.span().start;
        let Some(table) = item.get_ref().as_table() else {
            return Err(self.error_at(start, "tensor", "a table [[tensor]]".into()));
        };
        let whole = PlacementText { text: "whole".into(), at: Vec::new(), padded: false };
        let (mut name, mut from, mut to, mut shape) = (None, whole.clone(), whole, None);
        for (key, item) in table {
            let at = key.span().start;
            let placed = |text: &str| {
                PlacementText::parse(text)
                    .map_err(|reason| self.error_at(at, key.get_ref(), reason))
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
                    let bad = || self.error_at(at, "shape", "a list of extents".into());
                    shape = Some(extents.ok_or_else(bad)?);
                }
                (other, _) => {
                    let accepted = "accepted are name, from, to and shape";
                    return Err(self.error_at(at, other, accepted.into()));
                }
            }
        }
        let (at, name) = name.ok_or_else(|| self.error_at(start, "name", "missing".into()))?;
        Ok(DivisionRule { name, from, to, shape, line: self.line_number(at) })
    }
}
