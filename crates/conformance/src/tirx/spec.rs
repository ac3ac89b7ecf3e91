//! A layout of TIRx as it is recorded, and what it means: shared with nothing of the engine.

use crate::case::{CaseMismatch, NamedPlace, apply_layout, mismatch_between};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `[extent, stride, axis]` lists.
type RecordedIters = Vec<(i64, i64, String)>;

/// The parts of a recorded layout.
#[derive(Debug, Clone)]
pub(super) struct RecordedSpec {
    pub(super) shard: RecordedIters,
    pub(super) replica: RecordedIters,
    pub(super) offset: Vec<(String, i64)>,
    /// Bits below the swizzle, its length, its distance, and whether the low bits take the XOR.
    swizzle: Option<(i64, i64, i64, bool)>,
}

fn parse_iters(v: &Value) -> Option<RecordedIters> {
    let one = |it: &Value| Some((it[0].as_i64()?, it[1].as_i64()?, it[2].as_str()?.to_string()));
    v.as_array()?.iter().map(one).collect()
}

impl RecordedSpec {
    pub(super) fn new(v: &Value) -> Result<RecordedSpec, CaseMismatch> {
        RecordedSpec::parse_spec(v).ok_or_else(|| mismatch_between("a layout of TIRx as JSON", v))
    }

    fn parse_spec(v: &Value) -> Option<RecordedSpec> {
        if v["kind"] == "compose" {
            let n = |name: &str| v[name].as_i64();
            let inner = v["swizzle_inner"].as_bool()?;
            let swizzle = Some((n("per_element")?, n("swizzle_len")?, n("atom_len")?, inner));
            return Some(RecordedSpec { swizzle, ..RecordedSpec::parse_spec(&v["tile"])? });
        }
        let offset = v["offset"].as_object()?.iter();
        let offset = offset.map(|(axis, n)| Some((axis.clone(), n.as_i64()?)));
        Some(RecordedSpec {
            shard: parse_iters(&v["shard"])?,
            replica: parse_iters(&v["replica"])?,
            offset: offset.collect::<Option<_>>()?,
            swizzle: None,
        })
    }

    pub(super) fn size(&self) -> i64 {
        self.shard.iter().map(|it| it.0).product()
    }

    /// The same before its swizzle.
    pub(super) fn without_swizzle(&self) -> RecordedSpec {
        RecordedSpec { swizzle: None, ..self.clone() }
    }

    pub(super) fn is_swizzled(&self) -> bool {
        self.swizzle.is_some()
    }

    pub(super) fn has_negative_strides(&self) -> bool {
        self.shard.iter().any(|it| it.1 < 0)
    }

    pub(super) fn is_plain(&self) -> bool {
        self.replica.is_empty() && self.offset.is_empty()
    }

    /// The places of an element, sorted; axes at 0 are left out.
    pub(super) fn element_places(&self, flat: i64) -> Vec<NamedPlace> {
        let mut point = NamedPlace::new();
        let mut rest = flat;
        for (extent, stride, axis) in self.shard.iter().rev() {
            *point.entry(axis.clone()).or_default() += rest % extent.max(&1) * stride;
            rest /= extent.max(&1);
        }
        for (axis, v) in &self.offset {
            *point.entry(axis.clone()).or_default() += v;
        }
        let mut points = vec![point];
        for (extent, stride, axis) in &self.replica {
            let copy = |p: &NamedPlace, k: i64| {
                let mut p = p.clone();
                *p.entry(axis.clone()).or_default() += k * stride;
                p
            };
            points = points.iter().flat_map(|p| (0..*extent).map(move |k| copy(p, k))).collect();
        }
        for p in &mut points {
            if let Some((low, len, distance, inner)) = self.swizzle {
                let a = p.get("m").copied().unwrap_or(0);
                let (mut x, mask) = (a >> low, (1 << len) - 1);
                x ^= if inner {
                    (x & (mask << distance)) >> distance
                } else {
                    (x & mask) << distance
                };
                p.insert("m".into(), (x << low) + a % (1 << low));
            }
        }
        sort_places(points)
    }

    /// One more than the largest coordinate on an axis, by enumerating all of them.
    pub(super) fn axis_span(&self, axis: &str) -> i64 {
        let all = (0..self.size()).flat_map(|i| self.element_places(i));
        all.map(|p| p.get(axis).copied().unwrap_or(0)).max().map_or(1, |most| most + 1)
    }
}

pub(super) fn sort_places(points: Vec<NamedPlace>) -> Vec<NamedPlace> {
    let all: BTreeSet<NamedPlace> = points
        .into_iter()
        .map(|mut p| {
            // As in the records, where axes at 0 are missing.
            p.retain(|_, v| *v != 0);
            p
        })
        .collect();
    all.into_iter().collect()
}

/// Flat indices that a check compares: all of a small layout, some of a large one.
pub(super) fn sample_indices(size: i64, most: i64) -> Vec<i64> {
    let step = usize::try_from((size / most).max(1)).unwrap_or(1);
    (0..size).step_by(step).collect()
}

/// Where a layout that was answered puts elements, by the request `apply`.
pub(super) fn answered_places(
    layout: &Value,
    size: i64,
    at: &[i64],
) -> Result<Vec<Vec<NamedPlace>>, CaseMismatch> {
    let coords: Vec<Value> = at.iter().map(|i| json!([i])).collect();
    apply_layout(layout, &[size], &coords)
}
