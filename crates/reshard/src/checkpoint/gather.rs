//! Reads the shard of a rank from the files of another sharding.

use super::error::{CheckpointError, Result};
use super::input::{OpenedFiles, TensorDivision};
use super::rules::ShardFiles;
use crate::boxes::map_nests_to_boxes;
use crate::part::TransferPart;
use crate::reshard::Reshard;
use zellige_files::{Container, TensorFeed, TensorInfo};
use zellige_host::AlignedBuffer;
use zellige_movement::{CopyNest, MoveDtypes, MovePlan};

/// The sources of the shard of one rank.
#[derive(Debug)]
pub(crate) struct ShardGather<'a> {
    width: usize,
    sources: Vec<(&'a Container, &'a TensorInfo, MovePlan)>,
}

/// The buffers of one thread.
pub(crate) struct SlabBuffers {
    /// A part of the shard.
    slab: AlignedBuffer,
    /// A part of a source.
    window: AlignedBuffer,
}

impl SlabBuffers {
    /// Allocates a slab and a window of this many bytes each.
    pub(crate) fn new(bytes: usize) -> Result<SlabBuffers> {
        let refused = || CheckpointError::Memory { bytes: bytes as u64 };
        let slab = AlignedBuffer::try_new_zeroed(bytes).ok_or_else(refused)?;
        Ok(SlabBuffers { slab, window: AlignedBuffer::try_new_zeroed(bytes).ok_or_else(refused)? })
    }
}

impl<'a> ShardGather<'a> {
    /// Finds the sources in copy `copy` of the input for the shard of `rank`. `to` is the division
    /// whose file is written; `None` if the shard is stored padded as in the layout.
    pub(crate) fn new(
        opened: &'a OpenedFiles,
        files: &ShardFiles,
        tensor: (&str, usize),
        from: &TensorDivision,
        to: Option<&TensorDivision>,
        plan: &Reshard,
        (rank, copy): (i64, i64),
    ) -> Result<ShardGather<'a>> {
        let (name, width) = tensor;
        let to = to.and_then(|division| division.shard_box(rank));
        let parts = plan.parts_gathered_by(rank, copy);
        let mut sources = Vec::new();
        for same in parts.chunk_by(|a, b| a.from == b.from) {
            let holder = same[0].from;
            let nests: Vec<CopyNest> = same.iter().flat_map(TransferPart::copy_nests).collect();
            let nests = map_nests_to_boxes(nests, from.shard_box(holder).as_ref(), to.as_ref());
            let plan = MovePlan::from_disjoint_nests(nests).map_err(crate::ReshardError::Plan)?;
            let (container, info) = opened.find_shard(files, name, holder)?;
            sources.push((container, info, plan));
        }
        Ok(ShardGather { width, sources })
    }

    /// Reads bytes `at..at + len` of the shard; padding is zero.
    pub(crate) fn read_shard_range<'b>(
        &self,
        (at, len): (u64, u64),
        buffers: &'b mut SlabBuffers,
    ) -> Result<&'b [u8]> {
        let clips = self.clip_sources(at, len);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(buffers.slab.len());
        let target = &mut buffers.slab[..len];
        let written: i64 = clips.iter().map(|(_, part)| part.element_count()).sum();
        // Padding has no source; the buffer still holds the slab before, so it is cleared where
        // something stays unwritten.
        if usize::try_from(written).unwrap_or(0).saturating_mul(self.width) != len {
            target.fill(0);
        }
        for (k, part) in &clips {
            let (container, info, _) = &self.sources[*k];
            // The window moves into the feed and back, so that one allocation serves all slabs of a
            // thread.
            let window = std::mem::replace(&mut buffers.window, AlignedBuffer::new_zeroed(0));
            let mut feed = TensorFeed::with_window(container, info, self.width, window)?;
            let run = feed.run_plan(part, MoveDtypes::Bytes(self.width), target, None, 1);
            buffers.window = feed.into_window();
            run?;
        }
        Ok(target)
    }

    /// The part of every source that falls into these bytes of the shard.
    fn clip_sources(&self, at: u64, len: u64) -> Vec<(usize, MovePlan)> {
        let element = |b: u64| i64::try_from(b / self.width as u64).unwrap_or(i64::MAX);
        let (low, high) = (element(at), element(at + len));
        let clip = |(k, source): (usize, &(_, _, MovePlan))| {
            let part = source.2.clip_destination(low, high);
            (part.element_count() > 0).then_some((k, part))
        };
        self.sources.iter().enumerate().filter_map(clip).collect()
    }
}
