//! Links between ranks, read from a text.
//!
//! ```toml
//! name = "nodes of 8"
//!
//! [[level]]
//! name = "rank"
//! ranks = 1
//! bandwidth = { value = 450, unit = "GB/s", source = "published: NVLink, one direction" }
//!
//! [[level]]
//! name = "node"
//! ranks = 8
//! bandwidth = { value = 50, unit = "GB/s", source = "assumption: one 400 Gbit/s adapter" }
//! ```

use crate::error::{ReshardError, Result};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A level of groups of ranks, each with an outgoing and an incoming link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkLevel {
    /// The name of the groups.
    pub name: String,
    /// The number of ranks of a group; groups begin at its multiples.
    pub ranks: i64,
    /// The bandwidth of each link in bytes per second.
    pub bandwidth: f64,
    /// The source of the figure.
    pub source: String,
}

/// A tree of links. A message passes, at every level where sender and receiver are in different
/// groups, the outgoing link of the one group and the incoming link of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    name: String,
    levels: Vec<LinkLevel>,
}

const BANDWIDTH_UNITS: [(&str, f64); 6] = [
    ("GB/s", 1e9),
    ("MB/s", 1e6),
    ("TB/s", 1e12),
    // Adapters are sold in bits per second; a gigabit is 1.25e8 bytes.
    ("Gbit/s", 1.25e8),
    ("Mbit/s", 1.25e5),
    ("B/s", 1.0),
];

impl Topology {
    /// One outgoing and one incoming link for every rank, of this many bytes per second.
    pub fn with_flat_links(bandwidth: f64) -> Result<Topology> {
        let source = "given".to_string();
        let rank = LinkLevel { name: "rank".into(), ranks: 1, bandwidth, source };
        Topology::new("flat".into(), vec![rank])
    }

    /// Checks that levels nest, the smallest first, and that bandwidths are positive.
    pub fn new(name: String, levels: Vec<LinkLevel>) -> Result<Topology> {
        let refuse = |key: &str, reason: String| {
            Err(ReshardError::Topology { line: 1, key: key.to_string(), reason })
        };
        let mut below = 0;
        for level in &levels {
            if !(level.bandwidth.is_finite() && level.bandwidth > 0.0) {
                let reason = format!("{} bytes per second; a positive number", level.bandwidth);
                return refuse(&level.name, reason);
            }
            // Groups of a level have to consist of whole groups of the level below, or a rank would
            // be in half a group.
            let nests = level.ranks > below && (below == 0 || level.ranks % below == 0);
            if !nests {
                let reason =
                    format!("{} ranks after {below}; levels nest, the smallest first", level.ranks);
                return refuse(&level.name, reason);
            }
            below = level.ranks;
        }
        if levels.is_empty() {
            return refuse("level", "missing; at least one [[level]]".into());
        }
        Ok(Topology { name, levels })
    }

    /// Reads a text in TOML.
    pub fn parse(text: &str) -> Result<Topology> {
        let line = |at: usize| {
            let before = &text.as_bytes()[..at.min(text.len())];
            1 + before.iter().filter(|b| **b == b'\n').count()
        };
        let fail = |at: usize, key: &str, reason: String| ReshardError::Topology {
            line: line(at),
            key: key.to_string(),
            reason,
        };
        let table = DeTable::parse(text)
            .map_err(|e| fail(e.span().map_or(0, |s| s.start), "TOML", e.message().to_string()))?;
        let (mut name, mut levels) = (String::new(), Vec::new());
        for (key, item) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), item.get_ref()) {
                ("name", DeValue::String(text)) => name = text.to_string(),
                ("about", DeValue::String(_)) => {}
                ("level", DeValue::Array(all)) => {
                    for level in all {
                        levels.push(self::parse_level(level, &fail)?);
                    }
                }
                (other, _) => {
                    let reason = "accepted are name and about in quotes, and [[level]]".to_string();
                    return Err(fail(at, other, reason));
                }
            }
        }
        Topology::new(name, levels)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The levels, the smallest groups first.
    pub fn levels(&self) -> &[LinkLevel] {
        &self.levels
    }
}

type TopologyItem<'a> = Spanned<DeValue<'a>>;

fn parse_level(
    item: &TopologyItem<'_>,
    fail: &impl Fn(usize, &str, String) -> ReshardError,
) -> Result<LinkLevel> {
    let at = item.span().start;
    let Some(table) = item.get_ref().as_table() else {
        return Err(fail(at, "level", "a table [[level]]".into()));
    };
    let (mut name, mut ranks, mut bandwidth) = (None, None, None);
    for (key, item) in table {
        let at = key.span().start;
        match (key.get_ref().as_ref(), item.get_ref()) {
            ("name", DeValue::String(text)) => name = Some(text.to_string()),
            ("ranks", DeValue::Integer(n)) => {
                let n: Option<i64> = n.as_str().parse().ok();
                ranks = n.filter(|n| *n > 0);
                if ranks.is_none() {
                    return Err(fail(at, "ranks", "a number from 1 up".into()));
                }
            }
            ("bandwidth", DeValue::Table(figure)) => {
                bandwidth = Some(self::parse_figure(at, figure, fail)?);
            }
            (other, _) => {
                let reason = "accepted are name = \"..\", ranks = 8 and bandwidth = { value = 50, unit = \"GB/s\", source = \"..\" }";
                return Err(fail(at, other, reason.into()));
            }
        }
    }
    let missing = |key: &str| fail(at, key, "missing in [[level]]".into());
    let (bandwidth, source) = bandwidth.ok_or_else(|| missing("bandwidth"))?;
    let name = name.ok_or_else(|| missing("name"))?;
    Ok(LinkLevel { name, ranks: ranks.ok_or_else(|| missing("ranks"))?, bandwidth, source })
}

fn parse_figure(
    at: usize,
    table: &DeTable<'_>,
    fail: &impl Fn(usize, &str, String) -> ReshardError,
) -> Result<(f64, String)> {
    let (mut value, mut unit, mut source) = (None, None, None);
    for (key, item) in table {
        let at = key.span().start;
        match (key.get_ref().as_ref(), item.get_ref()) {
            ("value", DeValue::Integer(n)) => value = n.as_str().parse::<f64>().ok(),
            ("value", DeValue::Float(x)) => value = x.as_str().parse::<f64>().ok(),
            ("unit", DeValue::String(text)) => {
                unit = BANDWIDTH_UNITS
                    .iter()
                    .find(|(name, _)| *name == text.as_ref())
                    .map(|(_, x)| *x);
                if unit.is_none() {
                    let known: Vec<&str> = BANDWIDTH_UNITS.iter().map(|(name, _)| *name).collect();
                    return Err(fail(at, "unit", format!("accepted are {}", known.join(", "))));
                }
            }
            ("source", DeValue::String(text)) => source = Some(text.to_string()),
            (other, _) => {
                return Err(fail(at, other, "accepted are value, unit and source".into()));
            }
        }
    }
    match (value, unit, source) {
        (Some(value), Some(unit), Some(source)) => Ok((value * unit, source)),
        _ => Err(fail(at, "bandwidth", "{ value = 50, unit = \"GB/s\", source = \"..\" }".into())),
    }
}
