//! A layout of TIRx as it is recorded, and what it means: shared with nothing of the engine.

use crate::case::{Mismatch, Place, applied, mismatch};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `[extent, stride, axis]` lists.
type Iters = Vec<(i64, i64, String)>;

/// The parts of a recorded layout.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) shard: Iters,
    pub(super) replica: Iters,
    pub(super) offset: Vec<(String, i64)>,
    /// Bits below the swizzle, its length, its distance, and whether the low bits take the XOR.
    swizzle: Option<(i64, i64, i64, bool)>,
}

fn iters(v: &Value) -> Option<Iters> {
    let one = |it: &Value| Some((it[0].as_i64()?, it[1].as_i64()?, it[2].as_str()?.to_string()));
    v.as_array()?.iter().map(one).collect()
}

impl Spec {
    pub(super) fn new(v: &Value) -> Result<Spec, Mismatch> {
        Spec::read(v).ok_or_else(|| mismatch("a layout of TIRx as JSON", v))
    }

    fn read(v: &Value) -> Option<Spec> {
        if v["kind"] == "compose" {
            let n = |name: &str| v[name].as_i64();
            let inner = v["swizzle_inner"].as_bool()?;
            let swizzle = Some((n("per_element")?, n("swizzle_len")?, n("atom_len")?, inner));
            return Some(Spec { swizzle, ..Spec::read(&v["tile"])? });
        }
        let offset = v["offset"].as_object()?.iter();
        let offset = offset.map(|(axis, n)| Some((axis.clone(), n.as_i64()?)));
        Some(Spec {
            shard: iters(&v["shard"])?,
            replica: iters(&v["replica"])?,
            offset: offset.collect::<Option<_>>()?,
            swizzle: None,
        })
    }

    pub(super) fn size(&self) -> i64 {
        self.shard.iter().map(|it| it.0).product()
    }

    /// The same before its swizzle.
    pub(super) fn unswizzled(&self) -> Spec {
        Spec { swizzle: None, ..self.clone() }
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
    pub(super) fn places(&self, flat: i64) -> Vec<Place> {
        let mut point = Place::new();
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
            let copy = |p: &Place, k: i64| {
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
        sorted(points)
    }

    /// One more than the largest coordinate on an axis, by going through all of them.
    pub(super) fn span(&self, axis: &str) -> i64 {
        let all = (0..self.size()).flat_map(|i| self.places(i));
        all.map(|p| p.get(axis).copied().unwrap_or(0)).max().map_or(1, |most| most + 1)
    }
}

pub(super) fn sorted(points: Vec<Place>) -> Vec<Place> {
    let all: BTreeSet<Place> = points
        .into_iter()
        .map(|mut p| {
            p.retain(|_, v| *v != 0);
            p
        })
        .collect();
    all.into_iter().collect()
}

/// Flat indices that a check goes through: all of a small layout, some of a large one.
pub(super) fn samples(size: i64, most: i64) -> Vec<i64> {
    let step = usize::try_from((size / most).max(1)).unwrap_or(1);
    (0..size).step_by(step).collect()
}

/// Where a layout that was answered puts elements, by the request `apply`.
pub(super) fn answered(layout: &Value, size: i64, at: &[i64]) -> Result<Vec<Vec<Place>>, Mismatch> {
    let coords: Vec<Value> = at.iter().map(|i| json!([i])).collect();
    applied(layout, &[size], &coords)
}
