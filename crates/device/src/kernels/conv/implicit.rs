//! A convolution as products: rows are places of the result, the summed dimension is that of the kernel's
//! positions and channels, columns are output channels. Tiles are read from the images themselves.

use super::super::io::{ElementLoader, ElementStorer};
use super::super::matmul::axis::{MatrixAxis, MatrixLines};
use super::super::matmul::engine::{
    DepthTile, LeftOperand, PackedOperands, ProductBlock, RightOperand, TileScratch, multiply_block,
};
use super::super::matmul::finish::{ExtraOperand, FinishStep, ProductFinish};
use super::super::matmul::micro::{DEPTH, Isa};
use super::super::matmul::sides::{ResultSink, SticksRight};
use super::super::{KernelTask, TensorPointers};
use crate::tensor::sticks::StickForm;
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_op::KernelWindow;

/// The most rows and columns of a block.
const MAX_BLOCK_ROWS: usize = 240;
const MAX_BLOCK_COLUMNS: usize = 512;

/// Some channels at one position of the kernel.
#[derive(Debug, Clone, Copy)]
struct KernelPosition {
    i: usize,
    j: usize,
    channel: usize,
}

/// A convolution on its tensors, `[n, c, h, w]` each.
pub(super) struct ConvolutionTask {
    isa: Isa,
    x: StickForm,
    load: ElementLoader<f32>,
    w: StickForm,
    load_w: ElementLoader<f32>,
    out: StickForm,
    store: ElementStorer<f32>,
    finish: ProductFinish<f32>,
    windows: [KernelWindow; 2],
    groups: usize,
    width: usize,
    work: Vec<CoreWork>,
}

impl ConvolutionTask {
    pub(super) fn new(
        x: &StickForm,
        w: &StickForm,
        bias: Option<&StickForm>,
        out: &StickForm,
        windows: [KernelWindow; 2],
        groups: usize,
        work: Vec<CoreWork>,
    ) -> ConvolutionTask {
        let extra = |t: &StickForm| ExtraOperand {
            load: ElementLoader::new(t.format, out.format),
            start: t.offset,
            batch: MatrixLines::default(),
            rows: MatrixLines::from_dims(t, &[0, 2, 3]),
            columns: MatrixAxis::from_dim(t, 1),
            input: 2,
        };
        let steps = bias.map(|_| FinishStep::Plus { operand: 0, factor: 1.0 });
        ConvolutionTask {
            isa: Isa::process_isa(),
            x: x.clone(),
            load: ElementLoader::new(x.format, out.format),
            w: w.clone(),
            load_w: ElementLoader::new(w.format, out.format),
            out: out.clone(),
            store: ElementStorer::new(out.format),
            finish: ProductFinish {
                steps: steps.into_iter().collect(),
                extras: bias.map(extra).into_iter().collect(),
                format: out.format,
            },
            windows,
            groups,
            width: if w.stick == Some(0) { w.eps.max(32) } else { 32 },
            work,
        }
    }

    /// The tiles of the summed dimension: positions of the kernel row by row, the channels of each in
    /// order. A tile's `at` is its number.
    fn kernel_tiles(&self) -> impl Iterator<Item = DepthTile> {
        let count = self.windows[0].kernel * self.windows[1].kernel * self.tiles_per_position();
        let channels = self.w.size[1];
        (0..count).map(move |at| DepthTile {
            at,
            depth: DEPTH.min(channels - self.tile_position(at).channel),
        })
    }

    fn tiles_per_position(&self) -> usize {
        self.w.size[1].div_ceil(DEPTH)
    }

    /// Where a tile begins. It is computed rather than kept: a kernel may be as large as an image.
    fn tile_position(&self, tile: usize) -> KernelPosition {
        let (position, part) = (tile / self.tiles_per_position(), tile % self.tiles_per_position());
        let wide = self.windows[1].kernel;
        KernelPosition { i: position / wide, j: position % wide, channel: part * DEPTH }
    }
}

/// Windows of the images, place by place of the result.
struct ImageWindows<'a> {
    work: &'a ConvolutionTask,
    base: *const u8,
    /// The first channel of the group.
    first: usize,
}

impl LeftOperand<f32> for ImageWindows<'_> {
    fn fill_tile(&self, tile: DepthTile, rows: Range<usize>, into: &mut [f32]) {
        let (work, x) = (self.work, &self.work.x);
        let spot = work.tile_position(tile.at);
        let [high, wide] = &work.windows;
        let channels = MatrixAxis::from_dim(x, 1);
        let first = self.first + spot.channel;
        let (h, w) = (work.out.size[2], work.out.size[3]);
        for (row, into) in rows.zip(into.chunks_exact_mut(DEPTH)) {
            let (n, oh, ow) = (row / (h * w), row / w % h, row % w);
            // A window may reach over the edge of the image, and with a dilation skip some of its places.
            let inside = high
                .kernel_place(oh, spot.i, x.size[2])
                .zip(wide.kernel_place(ow, spot.j, x.size[3]));
            // Outside of the image: zeros take part in the product instead of being skipped, so that all rows of a
            // tile are as deep.
            let Some((i, j)) = inside else {
                into[..tile.depth].fill(0.0);
                continue;
            };
            let start = x.offset + n * x.stride[0] + i * x.stride[2] + j * x.stride[3];
            channels.for_each_piece(first..first + tile.depth, |c, at, count| {
                // SAFETY: elements of the images, whose block this is.
                unsafe {
                    work.load.load_adjacent(self.base, start + at, &mut into[c - first..][..count]);
                };
            });
        }
    }
}

/// Weights of a group, position by position of the kernel.
struct KernelWeights<'a> {
    work: &'a ConvolutionTask,
    base: *const u8,
    columns: MatrixAxis,
}

impl RightOperand<f32> for KernelWeights<'_> {
    fn fill_tile(&self, tile: DepthTile, panel: usize, into: &mut [f32]) {
        let w = &self.work.w;
        let spot = self.work.tile_position(tile.at);
        let right = SticksRight {
            load: &self.work.load_w,
            base: self.base,
            // At one position of the kernel the weights are a plain matrix of channels and output channels.
            start: w.offset + spot.i * w.stride[2] + spot.j * w.stride[3],
            depth: MatrixAxis::from_dim(w, 1),
            columns: self.columns,
            width: self.work.width,
        };
        right.fill_tile(DepthTile { at: spot.channel, depth: tile.depth }, panel, into);
    }
}

impl KernelTask for ConvolutionTask {
    fn work_kind(&self) -> WorkKind {
        WorkKind::Matmul
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.work[core].clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let places = MatrixLines::from_dims(&self.out, &[0, 2, 3]);
        let count = places.line_count();
        let columns = self.out.size[1] / self.groups;
        let all_panels = columns.div_ceil(self.width);
        // Blocks of equal size rather than full ones and a remainder, so that no core waits for another.
        let rows = count.div_ceil(count.div_ceil(MAX_BLOCK_ROWS).max(1)).max(1);
        let panels = (MAX_BLOCK_COLUMNS / self.width).clamp(1, all_panels.max(1));
        let (row_blocks, panel_blocks) = (count.div_ceil(rows), all_panels.div_ceil(panels));
        let blocks = self.groups * row_blocks * panel_blocks;
        if core >= blocks {
            return;
        }
        let mut packed = PackedOperands::new(rows, self.width);
        let mut sums = TileScratch::<f32>::new(rows * panels * self.width);
        for id in (core..blocks).step_by(self.work.len()) {
            let (group, id) = (id / (row_blocks * panel_blocks), id % (row_blocks * panel_blocks));
            let (row, panel) = (id % row_blocks * rows, id / row_blocks * panels);
            let block = ProductBlock {
                rows: row..(row + rows).min(count),
                panels: panel..(panel + panels).min(all_panels),
                width: self.width,
            };
            let own = group * columns..(group + 1) * columns;
            let left =
                ImageWindows { work: self, base: memory.inputs[0], first: group * self.w.size[1] };
            let right = KernelWeights {
                work: self,
                base: memory.inputs[1],
                columns: MatrixAxis::from_dim(&self.w, 0).slice_range(own.clone()),
            };
            let sums = &mut sums.as_mut_slice()[..block.len()];
            multiply_block(self.isa, &left, &right, self.kernel_tiles(), &block, &mut packed, sums);
            let mut finish = self.finish.clone();
            for extra in &mut finish.extras {
                // The bias has all output channels, a group its own part of them.
                extra.columns = extra.columns.slice_range(own.clone());
            }
            // SAFETY: by the contract of `KernelTask::run_slice`.
            unsafe { finish.finish_block(&block, 0, &memory.inputs, sums) };
            let sink = ResultSink {
                store: &self.store,
                base: memory.outputs[0],
                start: self.out.offset,
                rows: &places,
                columns: MatrixAxis::from_dim(&self.out, 1).slice_range(own),
            };
            sink.write_block(&block, sums);
        }
    }
}
