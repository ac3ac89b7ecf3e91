//! A tensor from one sharding over ranks to another.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use zellige_reshard::{
    DeviceMesh, LinkLoads, PlacementText, Reshard, ReshardError, ShardedLayout, Topology,
    plan_collective_chain,
};

/// Ranks that one answer lists at most.
// The pairs of ranks grow with the square, and the page draws each.
const MAX_LISTED_RANKS: i64 = 64;

/// Rows and columns of the drawing of a tensor at most.
const MAX_DRAWN_CELLS: i64 = 32;

/// Bytes a second of the link of a rank, where none is given.
const DEFAULT_BANDWIDTH: f64 = 25e9;

pub(super) fn answer_reshard(r: &Request) -> OpAnswer {
    let (shape, dtype) = (r.require_ints("shape")?, r.require_dtype()?);
    let mesh = read_mesh(r, "mesh")?;
    let to_mesh = match r.optional_str("to_mesh")? {
        Some(_) => self::read_mesh(r, "to_mesh")?,
        None => mesh.clone(),
    };
    let (from, to) =
        (read_sharding(r, "from", &mesh, &shape)?, read_sharding(r, "to", &to_mesh, &shape)?);
    let bandwidth = match r.get("bandwidth") {
        None => DEFAULT_BANDWIDTH,
        Some(v) => v
            .as_f64()
            .ok_or_else(|| RequestFault::wrong_type("`bandwidth`", "bytes a second", v))?,
    };
    let width = (dtype.bits() + 7) / 8;
    let plan = Reshard::between(&from, &to, &shape).map_err(refuse_sharding)?;
    let topology = Topology::with_flat_links(bandwidth).map_err(refuse_sharding)?;
    let mut pairs: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    let mut loads = LinkLoads::new(&topology);
    for rank in 0..plan.rank_count() {
        let received = plan.parts_received_by(rank).map_err(refuse_sharding)?;
        for part in received.iter().chain(&plan.parts_kept_by(rank)) {
            let bytes = part.element_count().saturating_mul(width);
            *pairs.entry((part.from, part.to)).or_insert(0) += bytes;
            loads.add_elements(part.from, part.to, bytes);
        }
    }
    let sum = |own: bool| -> i64 {
        pairs.iter().filter(|((a, b), _)| (a == b) == own).map(|(_, n)| n).sum()
    };
    let chain = match plan_collective_chain(&from, &to, &shape) {
        Ok(chain) => {
            let axes = mesh.axes();
            let step = |(c, axis): &(_, usize)| json!([format!("{c}"), axes[*axis].0.name()]);
            let ranks = plan.rank_count();
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
        "ranks": plan.rank_count(),
        "from": draw_holders(&from, &shape, width)?,
        "to": draw_holders(&to, &shape, width)?,
        "pairs": listed,
        "sent": sum(false),
        "kept": sum(true),
        "messages": pairs.keys().filter(|(a, b)| a != b).count(),
        "busiest": busiest_rank_json(&pairs),
        "seconds": loads.busiest_link().map_or(0.0, |b| b.1),
        "bandwidth": bandwidth,
        "chain": chain,
    }))
}

fn read_mesh(r: &Request, field: &'static str) -> Result<DeviceMesh, RequestFault> {
    let fail = |message: String| RequestFault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    };
    let mesh = DeviceMesh::parse(r.require_str(field)?).map_err(|e| fail(e.to_string()))?;
    match mesh.rank_count() <= MAX_LISTED_RANKS {
        true => Ok(mesh),
        false => {
            Err(fail(format!("{} ranks; at most {MAX_LISTED_RANKS} are listed", mesh.rank_count())))
        }
    }
}

fn read_sharding(
    r: &Request,
    field: &'static str,
    mesh: &DeviceMesh,
    shape: &[i64],
) -> Result<ShardedLayout, RequestFault> {
    let fail = |message: String| RequestFault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    };
    let placed = PlacementText::parse(r.require_str(field)?).map_err(fail)?;
    let sharded = placed.shard_over_mesh(mesh, shape, &[]).map_err(fail)?;
    sharded.check_shape(shape).map_err(refuse_sharding)?;
    Ok(sharded)
}

fn refuse_sharding(e: ReshardError) -> RequestFault {
    match e {
        ReshardError::Layout(e) => e.into(),
        other => RequestFault::new("bad_request", other.to_string()),
    }
}

/// The most bytes that a rank sends.
fn busiest_rank_json(pairs: &BTreeMap<(i64, i64), i64>) -> Value {
    let mut sent: BTreeMap<i64, i64> = BTreeMap::new();
    for ((from, to), bytes) in pairs {
        *sent.entry(*from).or_insert(0) += if from == to { 0 } else { *bytes };
    }
    // Of several with the same load the lowest rank, so that the answer does not depend on the order of a map.
    let most = sent.into_iter().max_by_key(|(rank, bytes)| (*bytes, -*rank));
    most.map_or(Value::Null, |(rank, bytes)| json!({"rank": rank, "bytes": bytes}))
}

/// Who holds what: a grid of cells, the last dimension across, each with the ranks of its first element.
fn draw_holders(sharded: &ShardedLayout, shape: &[i64], width: i64) -> OpAnswer {
    let elements: i64 = shape.iter().product();
    let across = shape.last().copied().unwrap_or(1);
    let down = if across == 0 { 0 } else { elements / across };
    let (rows, cols) = (down.min(MAX_DRAWN_CELLS), across.min(MAX_DRAWN_CELLS));
    let mut sets: Vec<Vec<i64>> = Vec::new();
    let mut cells = Vec::new();
    for row in 0..rows {
        for col in 0..cols {
            // 128 bits, because an index times a drawn row may pass 64 bits for the largest shapes.
            let first = |k: i64, of: i64, n: i64| {
                i64::try_from(i128::from(k) * i128::from(of) / i128::from(n)).unwrap_or(0)
            };
            let element = first(row, down, rows) * across + first(col, across, cols);
            let ranks = sharded.ranks_of(element).map_err(refuse_sharding)?;
            let at = sets.iter().position(|s| *s == ranks).unwrap_or_else(|| {
                sets.push(ranks);
                sets.len() - 1
            });
            cells.push(at);
        }
    }
    let axes: Vec<Value> =
        sharded.mesh().axes().iter().map(|(a, n)| json!([a.name(), n])).collect();
    let ranks = (0..sharded.mesh().rank_count()).filter(|r| sharded.holds_elements(*r)).count();
    Ok(json!({
        "mesh": axes,
        "ranks": sharded.mesh().rank_count(),
        "holding": ranks,
        "copies": sharded.copy_count(),
        "shard_bytes": sharded.shard_len().saturating_mul(width),
        "rows": rows,
        "cols": cols,
        "down": down,
        "across": across,
        "owners": sets,
        "cells": cells,
    }))
}
