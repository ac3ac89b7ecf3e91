//! The input of a checkpoint job: its files, and the tensors whose shards they contain.

use super::error::{CheckpointError, Result};
use super::rules::{DivisionRules, ShardFiles};
use crate::boxes::ShardBox;
use crate::placed::PlacementText;
use crate::reshard::Reshard;
use crate::sharded::ShardedLayout;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use zellige_files::{Container, TensorInfo};
use zellige_float::Dtype;

/// The longest index that is read, in bytes.
// An entry of an index takes about a hundred bytes, so 256 MB are millions of tensors.
const MAX_INDEX: u64 = 1 << 28;

/// The metadata key under which files store the shapes of flat shards.
pub(crate) const SHAPES_KEY: &str = "zellige.shapes";

/// The open files of one side.
#[derive(Debug)]
pub(crate) struct OpenedFiles {
    pub(crate) containers: Vec<Container>,
    /// The container of every file name, and with an index that of every tensor.
    by_file: BTreeMap<String, usize>,
    by_tensor: Option<BTreeMap<String, usize>>,
}

impl OpenedFiles {
    /// Opens every file of a side.
    ///
    /// # Errors
    /// A missing or truncated file.
    pub(crate) fn open_files(folder: &Path, files: &ShardFiles) -> Result<OpenedFiles> {
        let mut opened =
            OpenedFiles { containers: Vec::new(), by_file: BTreeMap::new(), by_tensor: None };
        if !files.named_by_index() {
            for rank in 0..files.mesh().rank_count() {
                opened.open_file(folder, &files.file_of_rank(rank))?;
            }
            return Ok(opened);
        }
        let path = folder.join("model.safetensors.index.json");
        let text = zellige_files::read_text(&path, MAX_INDEX)?;
        let bad =
            |reason: String| CheckpointError::Output { folder: path.display().to_string(), reason };
        let index: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let map = index.get("weight_map").and_then(|m| m.as_object());
        let map = map.ok_or_else(|| bad("no object \"weight_map\" of names and files".into()))?;
        let mut by_tensor = BTreeMap::new();
        for (name, file) in map {
            // The index comes from elsewhere: a path in it could lead out of the checkpoint's
            // folder.
            let file = file.as_str().filter(|f| !f.contains('/') && !f.starts_with('.'));
            let file =
                file.ok_or_else(|| bad(format!("`{name}` is not mapped to a plain file name")))?;
            let at = opened.open_file(folder, file)?;
            opened.containers[at].find_tensor(name)?;
            by_tensor.insert(name.clone(), at);
        }
        for container in &opened.containers {
            let unnamed = container.tensors().iter().find(|t| !by_tensor.contains_key(t.name()));
            if let Some(tensor) = unnamed {
                let place = container.path().display();
                // Leaving it out silently would lose a tensor of the model.
                return Err(bad(format!("`{}` is in {place} and not in the index", tensor.name())));
            }
        }
        opened.by_tensor = Some(by_tensor);
        Ok(opened)
    }

    fn open_file(&mut self, folder: &Path, file: &str) -> Result<usize> {
        if let Some(at) = self.by_file.get(file) {
            return Ok(*at);
        }
        let container = Container::open(folder.join(file))?;
        if let Some((name, reason)) = container.refused_entries().first() {
            return Err(CheckpointError::Tensor { name: name.clone(), reason: reason.to_string() });
        }
        self.containers.push(container);
        self.by_file.insert(file.to_string(), self.containers.len() - 1);
        Ok(self.containers.len() - 1)
    }

    /// Finds the shard of a rank.
    pub(crate) fn find_shard(
        &self,
        files: &ShardFiles,
        name: &str,
        rank: i64,
    ) -> Result<(&Container, &TensorInfo)> {
        let at = match &self.by_tensor {
            Some(map) => map.get(name),
            None => self.by_file.get(&files.file_of_rank(rank)),
        };
        let container = at.and_then(|at| self.containers.get(*at)).ok_or_else(|| {
            let reason = format!("no file of rank {rank}");
            CheckpointError::Tensor { name: name.to_string(), reason }
        })?;
        Ok((container, container.find_tensor(name)?))
    }
}

/// One side of a tensor: its sharding, and the form of its shards in files.
#[derive(Debug)]
pub(crate) struct TensorDivision {
    pub(crate) sharded: ShardedLayout,
    /// The shape that the shards are boxes of: that of the tensor, or its number of elements for
    /// flat shards.
    pub(crate) boxes: Vec<i64>,
    pub(crate) padded: bool,
    /// The dimensions of `boxes` with extent 0. The sharding is then that of a nonempty tensor, and
    /// nothing is moved.
    pub(crate) empty: Vec<bool>,
}

impl TensorDivision {
    /// The box of a rank; `None` if its shard is stored padded as in the layout.
    pub(crate) fn shard_box(&self, rank: i64) -> Option<ShardBox> {
        ShardBox::of_rank(&self.sharded, &self.boxes, rank).filter(|_| !self.padded)
    }

    /// The shape of the tensor in the file of a rank.
    pub(crate) fn shape_in_file(&self, rank: i64) -> Vec<i64> {
        let mut shape = match ShardBox::of_rank(&self.sharded, &self.boxes, rank) {
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

/// A tensor to be resharded.
#[derive(Debug)]
pub(crate) struct CheckpointTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    /// The number of bytes of an element.
    pub(crate) width: usize,
    pub(crate) shape: Vec<i64>,
    pub(crate) from: TensorDivision,
    pub(crate) to: TensorDivision,
    pub(crate) flat: bool,
    pub(crate) plan: Reshard,
}

impl CheckpointTensor {
    pub(crate) fn byte_len(&self) -> u64 {
        let elements: i64 = self.shape.iter().product();
        elements.cast_unsigned() * self.width as u64
    }
}

/// Plans every tensor of the input, in the order of the files, and checks the files against the
/// rules.
pub(crate) fn plan_tensors(
    opened: &OpenedFiles,
    rules: &DivisionRules,
) -> Result<Vec<CheckpointTensor>> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for container in &opened.containers {
        names.extend(container.tensors().iter().map(TensorInfo::name).filter(|n| seen.insert(*n)));
    }
    let mut shapes: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for container in &opened.containers {
        if let Some(text) = container.metadata().get(SHAPES_KEY) {
            shapes.extend(
                serde_json::from_str::<BTreeMap<String, Vec<i64>>>(text).unwrap_or_default(),
            );
        }
    }
    let mut out = Vec::new();
    for name in names {
        let (rule, numbers) = rules
            .find_rule(name)
            .ok_or_else(|| CheckpointError::LeftOut { name: name.to_string() })?;
        if rule.to.text == "drop" {
            continue;
        }
        let fail = |reason: String| CheckpointError::Tensor {
            name: name.to_string(),
            reason: format!("{reason} (rule in line {})", rule.line),
        };
        let given = rule.shape.clone().or_else(|| shapes.get(name).cloned());
        let shape = match given {
            Some(shape) => shape,
            None => infer_shape(opened, rules, name, &rule.from, &numbers)?,
        };
        // A tensor without elements is divided like one of which every rank has elements. A
        // multiple of both meshes, so that the stand-in dimension divides evenly on either side.
        let ranks = rules.from.mesh().rank_count().saturating_mul(rules.to.mesh().rank_count());
        let full: Vec<i64> = shape.iter().map(|n| if *n == 0 { ranks } else { *n }).collect();
        let divided = |placed: &PlacementText, files: &ShardFiles| -> Result<TensorDivision> {
            let sharded = placed.shard_over_mesh(files.mesh(), &full, &numbers).map_err(&fail)?;
            let row = |shape: &[i64]| vec![shape.iter().product()];
            let flat = placed.is_flat();
            let (boxes, held) =
                if flat { (row(&full), row(&shape)) } else { (full.clone(), shape.clone()) };
            let empty = held.iter().map(|n| *n == 0).collect();
            Ok(TensorDivision { sharded, boxes, padded: placed.padded, empty })
        };
        let (mut from, to) = (divided(&rule.from, &rules.from)?, divided(&rule.to, &rules.to)?);
        let holders: Vec<i64> = (0..rules.from.mesh().rank_count())
            .filter(|r| from.sharded.holds_elements(*r))
            .collect();
        let mut shards = Vec::with_capacity(holders.len());
        for rank in &holders {
            shards.push(opened.find_shard(&rules.from, name, *rank)?);
        }
        let fits = |division: &TensorDivision| {
            let fit = |(rank, shard): (&i64, &(&Container, &TensorInfo))| {
                shard.1.shape() == division.shape_in_file(*rank)
            };
            holders.iter().zip(&shards).all(fit)
        };
        // Files may contain padded shards of equal length without a rule that says so.
        if !fits(&from) {
            from.padded = true;
            if !fits(&from) {
                from.padded = rule.from.padded;
            }
        }
        let mut dtype = None;
        for (rank, (container, info)) in holders.iter().zip(&shards) {
            let expected = from.shape_in_file(*rank);
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
            return Err(fail(format!("elements of {dtype} are not a whole number of bytes")));
        }
        let plan =
            Reshard::between(&from.sharded, &to.sharded, &full).map_err(|e| fail(e.to_string()))?;
        let (name, flat) = (name.to_string(), rule.to.is_flat());
        out.push(CheckpointTensor { name, dtype, width, shape, from, to, flat, plan });
    }
    Ok(out)
}

/// Infers the shape from the shards: along each dimension the sum of the parts.
fn infer_shape(
    opened: &OpenedFiles,
    rules: &DivisionRules,
    name: &str,
    placed: &PlacementText,
    numbers: &[(String, i64)],
) -> Result<Vec<i64>> {
    let fail = |reason: String| CheckpointError::Tensor { name: name.to_string(), reason };
    let mesh = rules.from.mesh();
    // The set of ranks that hold it does not depend on the shape.
    let any = |rank: i64| opened.find_shard(&rules.from, name, rank).ok();
    let shards: Vec<(i64, Vec<i64>)> =
        (0..mesh.rank_count()).filter_map(|r| Some((r, any(r)?.1.shape().to_vec()))).collect();
    let Some((_, first)) = shards.first() else { return Err(fail("no rank holds it".into())) };
    let mut longest = first.clone();
    for (rank, shape) in &shards {
        if shape.len() != longest.len() {
            return Err(fail(format!("rank {rank} has {shape:?}, another rank {first:?}")));
        }
        longest.iter_mut().zip(shape).for_each(|(a, b)| *a = (*a).max(*b));
    }
    // Trial extents that every number of ranks divides, which show into how many parts each
    // dimension is cut. The shape is not known yet, but the number of parts of each dimension does
    // not depend on it.
    let trial: Vec<i64> = longest.iter().map(|n| n.max(&1) * mesh.rank_count()).collect();
    let sharded = placed.shard_over_mesh(mesh, &trial, numbers).map_err(&fail)?;
    let boxes = if placed.is_flat() { vec![trial.iter().product()] } else { trial.clone() };
    let mut sums: Vec<BTreeMap<i64, i64>> = vec![BTreeMap::new(); longest.len()];
    for (rank, shape) in &shards {
        let Some(found) = ShardBox::of_rank(&sharded, &boxes, *rank) else {
            if sharded.holds_elements(*rank) {
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
