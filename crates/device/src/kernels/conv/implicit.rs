//! A convolution as products: rows are places of the result, the summed dimension is that of the kernel's
//! positions and channels, columns are output channels. Tiles are read where they lie in the images.

use super::super::io::{Load, Store};
use super::super::matmul::axis::{Axis, Lines};
use super::super::matmul::engine::{Block, Left, Packed, Right, Scratch, Tile, product};
use super::super::matmul::finish::{Extra, Finish, Step};
use super::super::matmul::micro::{DEPTH, Isa};
use super::super::matmul::sides::{Sink, SticksRight};
use super::super::{Pointers, Task};
use crate::tensor::sticks::Sticks;
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_op::Window;

/// The most rows and columns of a block.
const ROWS: usize = 240;
const COLUMNS: usize = 512;

/// Some channels at one position of the kernel.
#[derive(Debug, Clone, Copy)]
struct Spot {
    i: usize,
    j: usize,
    channel: usize,
}

/// A convolution on its tensors, `[n, c, h, w]` each.
pub(super) struct Work {
    isa: Isa,
    x: Sticks,
    load: Load<f32>,
    w: Sticks,
    load_w: Load<f32>,
    out: Sticks,
    store: Store<f32>,
    finish: Finish<f32>,
    windows: [Window; 2],
    groups: usize,
    width: usize,
    work: Vec<CoreWork>,
}

impl Work {
    pub(super) fn new(
        x: &Sticks,
        w: &Sticks,
        bias: Option<&Sticks>,
        out: &Sticks,
        windows: [Window; 2],
        groups: usize,
        work: Vec<CoreWork>,
    ) -> Work {
        let extra = |t: &Sticks| Extra {
            load: Load::new(t.format, out.format),
            start: t.offset,
            batch: Lines::default(),
            rows: Lines::of(t, &[0, 2, 3]),
            columns: Axis::of(t, 1),
            input: 2,
        };
        let steps = bias.map(|_| Step::Plus { operand: 0, factor: 1.0 });
        Work {
            isa: Isa::process_isa(),
            x: x.clone(),
            load: Load::new(x.format, out.format),
            w: w.clone(),
            load_w: Load::new(w.format, out.format),
            out: out.clone(),
            store: Store::new(out.format),
            finish: Finish {
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
    fn tiles(&self) -> impl Iterator<Item = Tile> {
        let count = self.windows[0].kernel * self.windows[1].kernel * self.tiles_per_position();
        let channels = self.w.size[1];
        (0..count).map(move |at| Tile { at, depth: DEPTH.min(channels - self.spot(at).channel) })
    }

    fn tiles_per_position(&self) -> usize {
        self.w.size[1].div_ceil(DEPTH)
    }

    /// Where a tile begins. It is computed rather than kept: a kernel may be as large as an image.
    fn spot(&self, tile: usize) -> Spot {
        let (position, part) = (tile / self.tiles_per_position(), tile % self.tiles_per_position());
        let wide = self.windows[1].kernel;
        Spot { i: position / wide, j: position % wide, channel: part * DEPTH }
    }
}

/// Windows of the images, place by place of the result.
struct Images<'a> {
    work: &'a Work,
    base: *const u8,
    /// The first channel of the group.
    first: usize,
}

impl Left<f32> for Images<'_> {
    fn fill(&self, tile: Tile, rows: Range<usize>, into: &mut [f32]) {
        let (work, x) = (self.work, &self.work.x);
        let spot = work.spot(tile.at);
        let [high, wide] = &work.windows;
        let channels = Axis::of(x, 1);
        let first = self.first + spot.channel;
        let (h, w) = (work.out.size[2], work.out.size[3]);
        for (row, into) in rows.zip(into.chunks_exact_mut(DEPTH)) {
            let (n, oh, ow) = (row / (h * w), row / w % h, row % w);
            let inside = high.place(oh, spot.i, x.size[2]).zip(wide.place(ow, spot.j, x.size[3]));
            let Some((i, j)) = inside else {
                into[..tile.depth].fill(0.0);
                continue;
            };
            let start = x.offset + n * x.stride[0] + i * x.stride[2] + j * x.stride[3];
            channels.pieces(first..first + tile.depth, |c, at, count| {
                // SAFETY: elements of the images, whose block this is.
                unsafe { work.load.run(self.base, start + at, &mut into[c - first..][..count]) };
            });
        }
    }
}

/// Weights of a group, position by position of the kernel.
struct Weights<'a> {
    work: &'a Work,
    base: *const u8,
    columns: Axis,
}

impl Right<f32> for Weights<'_> {
    fn fill(&self, tile: Tile, panel: usize, into: &mut [f32]) {
        let w = &self.work.w;
        let spot = self.work.spot(tile.at);
        let right = SticksRight {
            load: &self.work.load_w,
            base: self.base,
            start: w.offset + spot.i * w.stride[2] + spot.j * w.stride[3],
            depth: Axis::of(w, 1),
            columns: self.columns,
            width: self.work.width,
        };
        right.fill(Tile { at: spot.channel, depth: tile.depth }, panel, into);
    }
}

impl Task for Work {
    fn kind(&self) -> WorkKind {
        WorkKind::Matmul
    }

    fn work(&self, core: usize) -> CoreWork {
        self.work[core].clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let places = Lines::of(&self.out, &[0, 2, 3]);
        let count = places.count();
        let columns = self.out.size[1] / self.groups;
        let all_panels = columns.div_ceil(self.width);
        let rows = count.div_ceil(count.div_ceil(ROWS).max(1)).max(1);
        let panels = (COLUMNS / self.width).clamp(1, all_panels.max(1));
        let (row_blocks, panel_blocks) = (count.div_ceil(rows), all_panels.div_ceil(panels));
        let blocks = self.groups * row_blocks * panel_blocks;
        if core >= blocks {
            return;
        }
        let mut packed = Packed::new(rows, self.width);
        let mut sums = Scratch::<f32>::new(rows * panels * self.width);
        for id in (core..blocks).step_by(self.work.len()) {
            let (group, id) = (id / (row_blocks * panel_blocks), id % (row_blocks * panel_blocks));
            let (row, panel) = (id % row_blocks * rows, id / row_blocks * panels);
            let block = Block {
                rows: row..(row + rows).min(count),
                panels: panel..(panel + panels).min(all_panels),
                width: self.width,
            };
            let own = group * columns..(group + 1) * columns;
            let left = Images { work: self, base: memory.inputs[0], first: group * self.w.size[1] };
            let right = Weights {
                work: self,
                base: memory.inputs[1],
                columns: Axis::of(&self.w, 0).part(own.clone()),
            };
            let sums = &mut sums.slice()[..block.len()];
            product(self.isa, &left, &right, self.tiles(), &block, &mut packed, sums);
            let mut finish = self.finish.clone();
            for extra in &mut finish.extras {
                extra.columns = extra.columns.part(own.clone());
            }
            // SAFETY: by the contract of `Task::run`.
            unsafe { finish.run(&block, 0, &memory.inputs, sums) };
            let sink = Sink {
                store: &self.store,
                base: memory.outputs[0],
                start: self.out.offset,
                rows: &places,
                columns: Axis::of(&self.out, 1).part(own),
            };
            sink.write(&block, sums);
        }
    }
}
