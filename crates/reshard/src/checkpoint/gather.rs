//! What a rank needs of a tensor, read from the files of another sharding.

use super::error::{Error, Result};
use super::input::{Division, Opened};
use super::rules::Files;
use crate::boxes::in_boxes;
use crate::part::Part;
use crate::reshard::Reshard;
use zellige_files::{Container, Feed, TensorInfo};
use zellige_host::AlignedBuffer;
use zellige_movement::{Dtypes, Nest, Plan};

/// The shard of one rank: where its elements are.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    width: usize,
    sources: Vec<(&'a Container, &'a TensorInfo, Plan)>,
}

/// Memory of one thread.
pub(crate) struct Buffers {
    /// A part of the shard.
    slab: AlignedBuffer,
    /// A part of a source.
    window: AlignedBuffer,
}

impl Buffers {
    /// A slab and a window of so many bytes each.
    pub(crate) fn new(bytes: usize) -> Result<Buffers> {
        let refused = || Error::Memory { bytes: bytes as u64 };
        let slab = AlignedBuffer::try_new_zeroed(bytes).ok_or_else(refused)?;
        Ok(Buffers { slab, window: AlignedBuffer::try_new_zeroed(bytes).ok_or_else(refused)? })
    }
}

impl<'a> Gather<'a> {
    /// Copy `copy` of the input, for the shard of `rank`; `to` is the division whose file is written, none where the shard is kept as the
    /// layout has it.
    pub(crate) fn new(
        opened: &'a Opened,
        files: &Files,
        tensor: (&str, usize),
        from: &Division,
        to: Option<&Division>,
        plan: &Reshard,
        (rank, copy): (i64, i64),
    ) -> Result<Gather<'a>> {
        let (name, width) = tensor;
        let to = to.and_then(|division| division.shard_box(rank));
        let parts = plan.gathered_by(rank, copy);
        let mut sources = Vec::new();
        for same in parts.chunk_by(|a, b| a.from == b.from) {
            let holder = same[0].from;
            let nests: Vec<Nest> = same.iter().flat_map(Part::nests).collect();
            let nests = in_boxes(nests, from.shard_box(holder).as_ref(), to.as_ref());
            let plan = Plan::of_nests(nests).map_err(crate::Error::Plan)?;
            let (container, info) = opened.shard(files, name, holder)?;
            sources.push((container, info, plan));
        }
        Ok(Gather { width, sources })
    }

    /// Bytes `at..at + len` of the shard; what holds no element is zero.
    pub(crate) fn read<'b>(
        &self,
        (at, len): (u64, u64),
        buffers: &'b mut Buffers,
    ) -> Result<&'b [u8]> {
        let clips = self.clips(at, len);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(buffers.slab.len());
        let target = &mut buffers.slab[..len];
        let written: i64 = clips.iter().map(|(_, part)| part.elements()).sum();
        if usize::try_from(written).unwrap_or(0).saturating_mul(self.width) != len {
            target.fill(0);
        }
        for (k, part) in &clips {
            let (container, info, _) = &self.sources[*k];
            let window = std::mem::replace(&mut buffers.window, AlignedBuffer::new_zeroed(0));
            let mut feed = Feed::with_window(container, info, self.width, window)?;
            let run = feed.run(part, Dtypes::Bytes(self.width), target, None, 1);
            buffers.window = feed.into_window();
            run?;
        }
        Ok(target)
    }

    /// What of every source is in bytes of the shard.
    fn clips(&self, at: u64, len: u64) -> Vec<(usize, Plan)> {
        let element = |b: u64| i64::try_from(b / self.width as u64).unwrap_or(i64::MAX);
        let (low, high) = (element(at), element(at + len));
        let clip = |(k, source): (usize, &(_, _, Plan))| {
            let part = source.2.clip(low, high);
            (part.elements() > 0).then_some((k, part))
        };
        self.sources.iter().enumerate().filter_map(clip).collect()
    }
}
