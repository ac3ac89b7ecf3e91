//! Checksums of logical tensors: those of the input beside those of every copy of the output.

use super::error::{Error, Result};
use super::input::{Division, Opened, Tensor};
use super::job::{Gather, Job, Limits};
use super::rules::Files;
use crate::mesh::Mesh;
use crate::reshard::Reshard;
use crate::sharded::Sharded;
use std::path::Path;
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
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<(String, String)>> {
        let written = Opened::open(output.as_ref(), &self.rules.to)?;
        let mut sums = Vec::new();
        let mut reached = 0;
        for tensor in &self.tensors {
            let expected =
                checksum(&self.opened, &self.rules.from, tensor, &tensor.from, 0, limits)?;
            for copy in 0..tensor.to.sharded.copies() {
                let found = checksum(&written, &self.rules.to, tensor, &tensor.to, copy, limits)?;
                if found != expected {
                    let (name, place) = (tensor.name.clone(), format!("copy {copy}"));
                    return Err(Error::Differs { name, place, found, expected });
                }
            }
            reached += tensor.bytes();
            progress(reached);
            sums.push((tensor.name.clone(), expected));
        }
        Ok(sums)
    }
}

fn checksum(
    opened: &Opened,
    files: &Files,
    tensor: &Tensor,
    division: &Division,
    copy: i64,
    limits: Limits,
) -> Result<String> {
    let whole = TileLayout::row_major(&tensor.shape).map_err(crate::Error::Layout)?;
    let one = Sharded::new(Layout::from(whole), Mesh::new(Vec::new())?)?;
    let plan = Reshard::between(&division.sharded, &one, &tensor.shape)?;
    let gather = Gather {
        opened,
        files,
        tensor: &tensor.name,
        width: tensor.width,
        from: division,
        to: None,
        plan: &plan,
    };
    let mut hash = blake3::Hasher::new();
    gather.run(0, copy, tensor.bytes(), limits, |_, slab| {
        hash.update(slab);
        Ok(())
    })?;
    Ok(hash.finalize().to_hex().to_string())
}
