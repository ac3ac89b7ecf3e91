//! A checkpoint that is read: its files, and the tensors that their shards are.

use super::error::{Error, Result};
use super::rules::{Files, Rules};
use crate::boxes::ShardBox;
use crate::placed::Placed;
use crate::reshard::Reshard;
use crate::sharded::Sharded;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use zellige_files::{Container, TensorInfo};
use zellige_float::Dtype;

/// The longest index that is read.
const MAX_INDEX: u64 = 1 << 28;

/// Where shapes of flat shards are written down, in the metadata of the files.
pub(crate) const SHAPES: &str = "zellige.shapes";

/// Opened files of one side.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) containers: Vec<Container>,
    /// The container of every rank; with an index that of every tensor.
    by_file: BTreeMap<String, usize>,
    by_tensor: Option<BTreeMap<String, usize>>,
}

impl Opened {
    /// Opens every file of a side.
    ///
    /// # Errors
    /// A file that is not there, or not whole.
    pub(crate) fn open(folder: &Path, files: &Files) -> Result<Opened> {
        let mut opened =
            Opened { containers: Vec::new(), by_file: BTreeMap::new(), by_tensor: None };
        if !files.by_index() {
            for rank in 0..files.mesh().ranks() {
                opened.add(folder, &files.of_rank(rank))?;
            }
            return Ok(opened);
        }
        let path = folder.join("model.safetensors.index.json");
        let text = zellige_files::read_text(&path, MAX_INDEX)?;
        let bad = |reason: String| Error::Output { folder: path.display().to_string(), reason };
        let index: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let map = index.get("weight_map").and_then(|m| m.as_object());
        let map = map.ok_or_else(|| bad("no object \"weight_map\" of names and files".into()))?;
        let mut by_tensor = BTreeMap::new();
        for (name, file) in map {
            let file = file.as_str().filter(|f| !f.contains('/') && !f.starts_with('.'));
            let file = file.ok_or_else(|| bad(format!("`{name}` has no plain file name")))?;
            let at = opened.add(folder, file)?;
            opened.containers[at].tensor(name)?;
            by_tensor.insert(name.clone(), at);
        }
        for container in &opened.containers {
            let unnamed = container.tensors().iter().find(|t| !by_tensor.contains_key(t.name()));
            if let Some(tensor) = unnamed {
                let place = container.path().display();
                return Err(bad(format!("`{}` is in {place} and not in the index", tensor.name())));
            }
        }
        opened.by_tensor = Some(by_tensor);
        Ok(opened)
    }

    fn add(&mut self, folder: &Path, file: &str) -> Result<usize> {
        if let Some(at) = self.by_file.get(file) {
            return Ok(*at);
        }
        let container = Container::open(folder.join(file))?;
        if let Some((name, reason)) = container.refused().first() {
            return Err(Error::Tensor { name: name.clone(), reason: reason.to_string() });
        }
        self.containers.push(container);
        self.by_file.insert(file.to_string(), self.containers.len() - 1);
        Ok(self.containers.len() - 1)
    }

    /// The shard of a rank.
    pub(crate) fn shard(
        &self,
        files: &Files,
        name: &str,
        rank: i64,
    ) -> Result<(&Container, &TensorInfo)> {
        let at = match &self.by_tensor {
            Some(map) => map.get(name),
            None => self.by_file.get(&files.of_rank(rank)),
        };
        let container = at.and_then(|at| self.containers.get(*at)).ok_or_else(|| {
            let reason = format!("no file of rank {rank}");
            Error::Tensor { name: name.to_string(), reason }
        })?;
        Ok((container, container.tensor(name)?))
    }
}

/// One side of a tensor: its sharding, and what files hold of it.
#[derive(Debug)]
pub(crate) struct Division {
    pub(crate) sharded: Sharded,
    /// The shape whose boxes shards are: that of the tensor, or its elements in a row.
    pub(crate) boxes: Vec<i64>,
    pub(crate) padded: bool,
    /// Dimensions of `boxes` that have no extent. The sharding is that of a tensor that has some, and nothing is moved.
    pub(crate) empty: Vec<bool>,
}

impl Division {
    /// The box of a rank; `None` where its shard is kept as the layout has it.
    pub(crate) fn shard_box(&self, rank: i64) -> Option<ShardBox> {
        ShardBox::of(&self.sharded, &self.boxes, rank).filter(|_| !self.padded)
    }

    /// The shape of the tensor in the file of a rank.
    pub(crate) fn file_shape(&self, rank: i64) -> Vec<i64> {
        let mut shape = match ShardBox::of(&self.sharded, &self.boxes, rank) {
            Some(b) if self.padded => b.padded,
            Some(b) => b.actual,
            None => vec![self.sharded.shard_len()],
        };
        if shape.len() == self.empty.len() {
            shape.iter_mut().zip(&self.empty).filter(|(_, e)| **e).for_each(|(n, _)| *n = 0);
        } else if self.empty.contains(&true) {
            shape.fill(0);
        }
        shape
    }
}

/// A tensor on its way.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    /// Bytes of an element.
    pub(crate) width: usize,
    pub(crate) shape: Vec<i64>,
    pub(crate) from: Division,
    pub(crate) to: Division,
    pub(crate) flat: bool,
    pub(crate) plan: Reshard,
}

impl Tensor {
    pub(crate) fn bytes(&self) -> u64 {
        let elements: i64 = self.shape.iter().product();
        elements.cast_unsigned() * self.width as u64
    }
}

/// Every tensor of the input, in the order of the files, planned and checked against them.
pub(crate) fn tensors(opened: &Opened, rules: &Rules) -> Result<Vec<Tensor>> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for container in &opened.containers {
        names.extend(container.tensors().iter().map(TensorInfo::name).filter(|n| seen.insert(*n)));
    }
    let mut shapes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for container in &opened.containers {
        if let Some(text) = container.metadata().get(SHAPES) {
            shapes.extend(
                serde_json::from_str::<BTreeMap<String, Vec<i64>>>(text).unwrap_or_default(),
            );
        }
    }
    let mut out = Vec::new();
    for name in names {
        let (rule, numbers) =
            rules.find(name).ok_or_else(|| Error::LeftOut { name: name.to_string() })?;
        if rule.to.text == "drop" {
            continue;
        }
        let fail = |reason: String| Error::Tensor {
            name: name.to_string(),
            reason: format!("{reason} (rule in line {})", rule.line),
        };
        let given = rule.shape.clone().or_else(|| shapes.get(name).cloned());
        let shape = match given {
            Some(shape) => shape,
            None => inferred(opened, rules, name, &rule.from, &numbers)?,
        };
        // A tensor without elements is divided as one that every rank has some of.
        let ranks = rules.from.mesh().ranks().saturating_mul(rules.to.mesh().ranks());
        let full: Vec<i64> = shape.iter().map(|n| if *n == 0 { ranks } else { *n }).collect();
        let divided = |placed: &Placed, files: &Files| -> Result<Division> {
            let sharded = placed.sharded(files.mesh(), &full, &numbers).map_err(&fail)?;
            let row = |shape: &[i64]| vec![shape.iter().product()];
            let flat = placed.is_flat();
            let (boxes, held) =
                if flat { (row(&full), row(&shape)) } else { (full.clone(), shape.clone()) };
            let empty = held.iter().map(|n| *n == 0).collect();
            Ok(Division { sharded, boxes, padded: placed.padded, empty })
        };
        let (mut from, to) = (divided(&rule.from, &rules.from)?, divided(&rule.to, &rules.to)?);
        let holders: Vec<i64> =
            (0..rules.from.mesh().ranks()).filter(|r| from.sharded.holds(*r)).collect();
        let mut shards = Vec::with_capacity(holders.len());
        for rank in &holders {
            shards.push(opened.shard(&rules.from, name, *rank)?);
        }
        let fits = |division: &Division| {
            let fit = |(rank, shard): (&i64, &(&Container, &TensorInfo))| {
                shard.1.shape() == division.file_shape(*rank)
            };
            holders.iter().zip(&shards).all(fit)
        };
        // Files may hold shards of one length, padding included, without a rule that says so.
        if !fits(&from) {
            from.padded = true;
            if !fits(&from) {
                from.padded = rule.from.padded;
            }
        }
        let mut dtype = None;
        for (rank, (container, info)) in holders.iter().zip(&shards) {
            let expected = from.file_shape(*rank);
            if info.shape() != expected {
                return Err(fail(format!(
                    "the shard of rank {rank} in {} is {:?}, and {expected:?} follows from {shape:?}",
                    container.path().display(),
                    info.shape()
                )));
            }
            if *dtype.get_or_insert(info.dtype()) != info.dtype() {
                return Err(fail(format!("rank {rank} has it as {}", info.dtype())));
            }
        }
        let dtype = dtype.ok_or_else(|| fail("no rank of the input holds it".into()))?;
        let width = usize::try_from(dtype.bits() / 8).unwrap_or(0);
        if width == 0 || dtype.bits() % 8 != 0 {
            return Err(fail(format!("elements of {dtype} are no whole bytes")));
        }
        let plan =
            Reshard::between(&from.sharded, &to.sharded, &full).map_err(|e| fail(e.to_string()))?;
        let (name, flat) = (name.to_string(), rule.to.is_flat());
        out.push(Tensor { name, dtype, width, shape, from, to, flat, plan });
    }
    Ok(out)
}

/// The shape that shards tell: along each dimension the sum of the parts.
fn inferred(
    opened: &Opened,
    rules: &Rules,
    name: &str,
    placed: &Placed,
    numbers: &[(String, i64)],
) -> Result<Vec<i64>> {
    let fail = |reason: String| Error::Tensor { name: name.to_string(), reason };
    let mesh = rules.from.mesh();
    // Which ranks hold it does not depend on the shape.
    let any = |rank: i64| opened.shard(&rules.from, name, rank).ok();
    let shards: Vec<(i64, Vec<i64>)> =
        (0..mesh.ranks()).filter_map(|r| Some((r, any(r)?.1.shape().to_vec()))).collect();
    let Some((_, first)) = shards.first() else { return Err(fail("no rank holds it".into())) };
    let mut longest = first.clone();
    for (rank, shape) in &shards {
        if shape.len() != longest.len() {
            return Err(fail(format!("rank {rank} has {shape:?}, another rank {first:?}")));
        }
        longest.iter_mut().zip(shape).for_each(|(a, b)| *a = (*a).max(*b));
    }
    // Extents that any number of ranks divides, to see into how many parts each is cut.
    let trial: Vec<i64> = longest.iter().map(|n| n.max(&1) * mesh.ranks()).collect();
    let sharded = placed.sharded(mesh, &trial, numbers).map_err(&fail)?;
    let boxes = if placed.is_flat() { vec![trial.iter().product()] } else { trial.clone() };
    let mut sums: Vec<BTreeMap<i64, i64>> = vec![BTreeMap::new(); longest.len()];
    for (rank, shape) in &shards {
        let Some(found) = ShardBox::of(&sharded, &boxes, *rank) else {
            if sharded.holds(*rank) {
                return Err(fail(
                    "its shards do not tell its shape: the rule needs shape = [..]".into(),
                ));
            }
            continue;
        };
        for (d, (k, _)) in found.part.iter().enumerate() {
            sums[d].insert(*k, shape[d]);
        }
    }
    Ok(sums.iter().map(|parts| parts.values().sum()).collect())
}
