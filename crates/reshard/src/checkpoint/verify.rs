//! Checksums of logical tensors: those of the input beside those of every copy of the output.

use super::error::{Error, Result};
use super::gather::{Buffers, Gather};
use super::input::{Division, Opened, Tensor};
use super::job::{Job, Limits};
use super::rules::Files;
use super::write::{SLAB, locked};
use crate::mesh::Mesh;
use crate::reshard::Reshard;
use crate::sharded::Sharded;
use std::path::Path;
use std::sync::Mutex;
use zellige_layout::{Layout, TileLayout};

impl Job {
    /// Reads input and output and compares the checksum of every tensor, its elements row-major whatever the shards: BLAKE3 of each
    /// copy of the output beside that of the input. Answers the checksums by name; `progress` hears the bytes of tensors that are
    /// compared.
    ///
    /// # Errors
    /// [`Error::Differs`] with the tensor and the copy, and files that cannot be read.
    pub fn verify(
        &self,
        output: impl AsRef<Path>,
        limits: Limits,
        progress: impl FnMut(u64) + Send,
    ) -> Result<Vec<(String, String)>> {
        let written = Opened::open(output.as_ref(), &self.rules.to)?;
        let threads = limits.threads.clamp(1, 64);
        let slab = (limits.memory / 2 / threads).clamp(1 << 16, SLAB);
        // The next tensor, what was found of those before it, and the bytes that are compared.
        let state = Mutex::new((0usize, vec![String::new(); self.tensors.len()], 0u64, progress));
        let work = || -> Result<()> {
            let mut buffers = Buffers::new(slab)?;
            loop {
                let mut next = locked(&state);
                let at = next.0;
                let Some(tensor) = self.tensors.get(at) else { return Ok(()) };
                next.0 += 1;
                drop(next);
                let sum =
                    self.compared(&written, tensor, slab, &mut buffers).inspect_err(|_| {
                        locked(&state).0 = self.tensors.len();
                    })?;
                let mut done = locked(&state);
                done.1[at] = sum;
                done.2 += tensor.bytes();
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

    /// The checksum of a tensor, the same in every copy.
    fn compared(
        &self,
        written: &Opened,
        tensor: &Tensor,
        slab: usize,
        buffers: &mut Buffers,
    ) -> Result<String> {
        let (from, to) = (&self.rules.from, &self.rules.to);
        let expected = checksum(&self.opened, from, tensor, (&tensor.from, 0), slab, buffers)?;
        for copy in 0..tensor.to.sharded.copies() {
            let found = checksum(written, to, tensor, (&tensor.to, copy), slab, buffers)?;
            if found != expected {
                let (name, place) = (tensor.name.clone(), format!("copy {copy}"));
                return Err(Error::Differs { name, place, found, expected });
            }
        }
        Ok(expected)
    }
}

fn checksum(
    opened: &Opened,
    files: &Files,
    tensor: &Tensor,
    (division, copy): (&Division, i64),
    slab: usize,
    buffers: &mut Buffers,
) -> Result<String> {
    if tensor.bytes() == 0 {
        return Ok(blake3::hash(&[]).to_hex().to_string());
    }
    let whole = TileLayout::row_major(&tensor.shape).map_err(crate::Error::Layout)?;
    let one = Sharded::new(Layout::from(whole), Mesh::new(Vec::new())?)?;
    let plan = Reshard::between(&division.sharded, &one, &tensor.shape)?;
    let named = (tensor.name.as_str(), tensor.width);
    let gather = Gather::new(opened, files, named, division, None, &plan, (0, copy))?;
    let mut hash = blake3::Hasher::new();
    let (total, width) = (tensor.bytes(), tensor.width as u64);
    let slab = (slab as u64 / width * width).max(width);
    let mut at = 0;
    while at < total {
        let len = slab.min(total - at);
        hash.update(gather.read((at, len), buffers)?);
        at += len;
    }
    Ok(hash.finalize().to_hex().to_string())
}
