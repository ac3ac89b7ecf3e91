//! Compares the checksums of logical tensors of the input with those of every copy in the output.

use super::error::{CheckpointError, Result};
use super::gather::{ShardGather, SlabBuffers};
use super::input::{CheckpointTensor, OpenedFiles, TensorDivision};
use super::job::{CheckpointJob, JobLimits};
use super::rules::ShardFiles;
use super::write::{SLAB_BYTES, lock_shared};
use crate::mesh::DeviceMesh;
use crate::reshard::Reshard;
use crate::sharded::ShardedLayout;
use std::path::Path;
use std::sync::Mutex;
use zellige_layout::{Layout, TileLayout};

impl CheckpointJob {
    /// Reads input and output and compares the BLAKE3 checksum of every tensor, over its elements
    /// in row-major order whatever the shards. Returns the checksums by name; `progress` is called
    /// with the bytes compared so far.
    ///
    /// # Errors
    /// [`CheckpointError::Differs`] with the tensor and the copy, and files that cannot be read.
    pub fn verify_output(
        &self,
        output: impl AsRef<Path>,
        limits: JobLimits,
        progress: impl FnMut(u64) + Send,
    ) -> Result<Vec<(String, String)>> {
        let written = OpenedFiles::open_files(output.as_ref(), &self.rules.to)?;
        let threads = limits.threads.clamp(1, 64);
        let slab = (limits.memory / 2 / threads).clamp(1 << 16, SLAB_BYTES);
        // The next tensor, the checksums found so far, the bytes compared so far, and the callback.
        let state = Mutex::new((0usize, vec![String::new(); self.tensors.len()], 0u64, progress));
        let work = || -> Result<()> {
            let mut buffers = SlabBuffers::new(slab)?;
            loop {
                let mut next = lock_shared(&state);
                let at = next.0;
                let Some(tensor) = self.tensors.get(at) else { return Ok(()) };
                next.0 += 1;
                drop(next);
                let sum = self
                    .compare_checksums(&written, tensor, slab, &mut buffers)
                    .inspect_err(|_| {
                        lock_shared(&state).0 = self.tensors.len();
                    })?;
                let mut done = lock_shared(&state);
                done.1[at] = sum;
                done.2 += tensor.byte_len();
                let reached = done.2;
                (done.3)(reached);
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for other in others {
                let found = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(found);
            }
            result
        })?;
        let sums = state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1;
        Ok(self.tensors.iter().map(|t| t.name.clone()).zip(sums).collect())
    }

    /// Computes the checksum of a tensor and compares it with that of every copy.
    fn compare_checksums(
        &self,
        written: &OpenedFiles,
        tensor: &CheckpointTensor,
        slab: usize,
        buffers: &mut SlabBuffers,
    ) -> Result<String> {
        let (from, to) = (&self.rules.from, &self.rules.to);
        let expected =
            tensor_checksum(&self.opened, from, tensor, (&tensor.from, 0), slab, buffers)?;
        for copy in 0..tensor.to.sharded.copy_count() {
            let found = tensor_checksum(written, to, tensor, (&tensor.to, copy), slab, buffers)?;
            if found != expected {
                let (name, place) = (tensor.name.clone(), format!("copy {copy}"));
                return Err(CheckpointError::Differs { name, place, found, expected });
            }
        }
        Ok(expected)
    }
}

fn tensor_checksum(
    opened: &OpenedFiles,
    files: &ShardFiles,
    tensor: &CheckpointTensor,
    (division, copy): (&TensorDivision, i64),
    slab: usize,
    buffers: &mut SlabBuffers,
) -> Result<String> {
    if tensor.byte_len() == 0 {
        return Ok(blake3::hash(&[]).to_hex().to_string());
    }
    let whole = TileLayout::row_major(&tensor.shape).map_err(crate::ReshardError::Layout)?;
    let one = ShardedLayout::new(Layout::from(whole), DeviceMesh::new(Vec::new())?)?;
    let plan = Reshard::between(&division.sharded, &one, &tensor.shape)?;
    let named = (tensor.name.as_str(), tensor.width);
    let gather = ShardGather::new(opened, files, named, division, None, &plan, (0, copy))?;
    let mut hash = blake3::Hasher::new();
    let (total, width) = (tensor.byte_len(), tensor.width as u64);
    let slab = (slab as u64 / width * width).max(width);
    let mut at = 0;
    while at < total {
        let len = slab.min(total - at);
        hash.update(gather.read_shard_range((at, len), buffers)?);
        at += len;
    }
    Ok(hash.finalize().to_hex().to_string())
}
