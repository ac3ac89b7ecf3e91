//! A tensor from one sharding over ranks to another.

use super::Answer;
use crate::Fault;
use crate::request::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use zellige_reshard::{Error, Loads, Mesh, Placed, Reshard, Sharded, Topology, chain};

/// Ranks that one answer lists at most.
const RANKS: i64 = 64;

/// Rows and columns of the drawing of a tensor at most.
const CELLS: i64 = 32;

/// Bytes a second of the link of a rank, where none is given.
const BANDWIDTH: f64 = 25e9;

pub(super) fn reshard(r: &Request) -> Answer {
    let (shape, dtype) = (r.ints("shape")?, r.dtype()?);
    let mesh = mesh(r, "mesh")?;
    let to_mesh = match r.opt_str("to_mesh")? {
        Some(_) => self::mesh(r, "to_mesh")?,
        None => mesh.clone(),
    };
    let (from, to) = (side(r, "from", &mesh, &shape)?, side(r, "to", &to_mesh, &shape)?);
    let bandwidth = match r.get("bandwidth") {
        None => BANDWIDTH,
        Some(v) => v.as_f64().ok_or_else(|| Fault::expected("`bandwidth`", "bytes a second", v))?,
    };
    let width = (dtype.bits() + 7) / 8;
    let plan = Reshard::between(&from, &to, &shape).map_err(refused)?;
    let topology = Topology::flat(bandwidth).map_err(refused)?;
    let mut pairs: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let mut loads = Loads::new(&topology);
    for rank in 0..plan.ranks() {
        let received = plan.received_by(rank).map_err(refused)?;
        for part in received.iter().chain(&plan.kept_by(rank)) {
            let bytes = part.elements().saturating_mul(width);
            *pairs.entry((part.from, part.to)).or_insert(0) += bytes;
            loads.add(part.from, part.to, bytes);
        }
    }
    let sum = |own: bool| -> i64 {
        pairs.iter().filter(|((a, b), _)| (a == b) == own).map(|(_, n)| n).sum()
    };
    let chain = match chain(&from, &to, &shape) {
        Ok(chain) => {
            let axes = mesh.axes();
            let step = |(c, axis): &(_, usize)| json!([format!("{c}"), axes[*axis].0.name()]);
            let ranks = plan.ranks();
            json!({
                "steps": chain.steps.iter().map(step).collect::<Vec<_>>(),
                "received": chain.received.saturating_mul(width).saturating_mul(ranks),
                "peak": chain.peak.saturating_mul(width),
            })
        }
        Err(e) => json!({"reason": e.to_string()}),
    };
    let listed: Vec<Value> = pairs.iter().map(|((a, b), n)| json!([a, b, n])).collect();
    Ok(json!({
        "ranks": plan.ranks(),
        "from": drawn(&from, &shape, width)?,
        "to": drawn(&to, &shape, width)?,
        "pairs": listed,
        "sent": sum(false),
        "kept": sum(true),
        "messages": pairs.keys().filter(|(a, b)| a != b).count(),
        "busiest": busiest(&pairs),
        "seconds": loads.busiest().map_or(0.0, |b| b.1),
        "bandwidth": bandwidth,
        "chain": chain,
    }))
}

fn mesh(r: &Request, field: &'static str) -> Result<Mesh, Fault> {
    let fail = |message: String| Fault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    };
    let mesh = Mesh::parse(r.str(field)?).map_err(|e| fail(e.to_string()))?;
    match mesh.ranks() <= RANKS {
        true => Ok(mesh),
        false => Err(fail(format!("{} ranks; at most {RANKS} are listed", mesh.ranks()))),
    }
}

fn side(r: &Request, field: &'static str, mesh: &Mesh, shape: &[i64]) -> Result<Sharded, Fault> {
    let fail = |message: String| Fault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    };
    let placed = Placed::parse(r.str(field)?).map_err(fail)?;
    let sharded = placed.sharded(mesh, shape, &[]).map_err(fail)?;
    sharded.admit(shape).map_err(refused)?;
    Ok(sharded)
}

fn refused(e: Error) -> Fault {
    match e {
        Error::Layout(e) => e.into(),
        other => Fault::new("bad_request", other.to_string()),
    }
}

/// The most bytes that a rank sends.
fn busiest(pairs: &BTreeMap<(i64, i64), i64>) -> Value {
    let mut sent: BTreeMap<i64, i64> = BTreeMap::new();
    for ((from, to), bytes) in pairs {
        *sent.entry(*from).or_insert(0) += if from == to { 0 } else { *bytes };
    }
    let most = sent.into_iter().max_by_key(|(rank, bytes)| (*bytes, -*rank));
    most.map_or(Value::Null, |(rank, bytes)| json!({"rank": rank, "bytes": bytes}))
}

/// Who holds what: a grid of cells, the last dimension across, each with the ranks of its first element.
fn drawn(sharded: &Sharded, shape: &[i64], width: i64) -> Answer {
    let elements: i64 = shape.iter().product();
    let across = shape.last().copied().unwrap_or(1);
    let down = if across == 0 { 0 } else { elements / across };
    let (rows, cols) = (down.min(CELLS), across.min(CELLS));
    let mut sets: Vec<Vec<i64>> = Vec::new();
    let mut cells = Vec::new();
    for row in 0..rows {
        for col in 0..cols {
            let first = |k: i64, of: i64, n: i64| {
                i64::try_from(i128::from(k) * i128::from(of) / i128::from(n)).unwrap_or(0)
            };
            let element = first(row, down, rows) * across + first(col, across, cols);
            let ranks = sharded.ranks_of(element).map_err(refused)?;
            let at = sets.iter().position(|s| *s == ranks).unwrap_or_else(|| {
                sets.push(ranks);
                sets.len() - 1
            });
            cells.push(at);
        }
    }
    let axes: Vec<Value> =
        sharded.mesh().axes().iter().map(|(a, n)| json!([a.name(), n])).collect();
    let ranks = (0..sharded.mesh().ranks()).filter(|r| sharded.holds(*r)).count();
    Ok(json!({
        "mesh": axes,
        "ranks": sharded.mesh().ranks(),
        "holding": ranks,
        "copies": sharded.copies(),
        "shard_bytes": sharded.shard_len().saturating_mul(width),
        "rows": rows,
        "cols": cols,
        "down": down,
        "across": across,
        "owners": sets,
        "cells": cells,
    }))
}
