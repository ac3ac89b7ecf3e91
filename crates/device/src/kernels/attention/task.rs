//! Attention bound to its tensors: some rows of Q at a time.

use super::super::io::{ElementLoader, ElementStorer};
use super::super::matmul::axis::{MatrixAxis, MatrixLines};
use super::super::matmul::engine::{
    DepthTile, LeftOperand, PackedOperands, ProductBlock, TileScratch, cut_tiles, multiply_block,
};
use super::super::matmul::finish::ExtraOperand;
use super::super::matmul::micro::{DEPTH, Isa};
use super::super::matmul::sides::{ResultSink, SticksLeft, SticksRight};
use super::super::{KernelTask, TensorPointers};
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_math as math;

/// The most scores of a block of rows, unless it would have fewer than [`MIN_BLOCK_ROWS`] rows then.
const MAX_BLOCK_SCORES: usize = 1 << 18;
const MIN_BLOCK_ROWS: usize = 6;
const MAX_BLOCK_ROWS: usize = 96;

/// One tensor as attention reads it.
pub(super) struct AttentionTensor {
    pub(super) load: ElementLoader<f32>,
    pub(super) start: usize,
    pub(super) batch: MatrixLines,
    pub(super) rows: MatrixLines,
    pub(super) row: MatrixAxis,
    pub(super) column: MatrixAxis,
}

/// Attention on its tensors.
pub(super) struct AttentionTask {
    pub(super) isa: Isa,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) keep: bool,
    pub(super) mask: Option<ExtraOperand<f32>>,
    pub(super) kind: WorkKind,
    pub(super) q: AttentionTensor,
    pub(super) k: AttentionTensor,
    pub(super) v: AttentionTensor,
    pub(super) out: AttentionTensor,
    pub(super) store: ElementStorer<f32>,
    /// Columns of a panel of V.
    pub(super) width: usize,
    pub(super) cores: usize,
    pub(super) parts: Vec<CoreWork>,
}

/// Panels of probabilities are tiles of the left operand as they are.
struct ProbabilityPanels<'a>(&'a [f32]);

impl LeftOperand<f32> for ProbabilityPanels<'_> {
    fn fill_tile(&self, tile: DepthTile, rows: Range<usize>, into: &mut [f32]) {
        let size = rows.len() * DEPTH;
        into.copy_from_slice(&self.0[tile.at / DEPTH * size..][..size]);
    }
}

impl KernelTask for AttentionTask {
    fn work_kind(&self) -> WorkKind {
        self.kind
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.parts[core].clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let (keys, queries) = (self.k.row.size, self.q.row.size);
        let rows = (MAX_BLOCK_SCORES / keys.max(1))
            .clamp(MIN_BLOCK_ROWS, MAX_BLOCK_ROWS)
            .min(queries.max(1));
        let row_blocks = queries.div_ceil(rows);
        let blocks = self.q.batch.line_count() * row_blocks;
        if core >= blocks {
            return;
        }
        let panels = keys.div_ceil(DEPTH);
        let columns = self.v.column.size.div_ceil(self.width);
        let mut packed = PackedOperands::new(rows, self.width.max(DEPTH));
        let mut scores = TileScratch::<f32>::new(rows * panels * DEPTH);
        let mut sums = TileScratch::<f32>::new(rows * columns * self.width);
        let mut line = vec![0f32; keys];
        for id in (core..blocks).step_by(self.cores) {
            let (batch, first) = (id / row_blocks, id % row_blocks * rows);
            let block = ProductBlock {
                rows: first..(first + rows).min(queries),
                panels: 0..panels,
                width: DEPTH,
            };
            let start = |side: &AttentionTensor| side.start + side.batch.line_offset(batch);
            let left = SticksLeft {
                load: &self.q.load,
                base: memory.inputs[0],
                start: start(&self.q),
                rows: &self.q.rows,
                depth: self.q.column,
            };
            let right = SticksRight {
                load: &self.k.load,
                base: memory.inputs[1],
                start: start(&self.k),
                depth: self.k.column,
                columns: self.k.row,
                width: DEPTH,
            };
            let scores = &mut scores.as_mut_slice()[..block.len()];
            let depth = cut_tiles(0..self.q.column.size);
            multiply_block(self.isa, &left, &right, depth, &block, &mut packed, scores);
            // The scale comes before the mask, because the mask is added to scaled scores.
            math::scale_row(scores, self.scale);
            if let Some(mask) = &self.mask {
                let lowest = f32::NEG_INFINITY;
                // SAFETY: by the contract of `KernelTask::run_slice`.
                unsafe {
                    if self.keep {
                        let keep = |x: f32, m: f32| if m == 0.0 { lowest } else { x };
                        mask.combine_elements(&block, batch, &memory.inputs, scores, keep);
                    } else {
                        mask.combine_elements(&block, batch, &memory.inputs, scores, |x, m| x + m);
                    }
                }
            }
            for (r, row) in block.rows.clone().enumerate() {
                self.softmax_row(scores, r, row, block.rows.len(), &mut line);
            }
            let right = SticksRight {
                load: &self.v.load,
                base: memory.inputs[2],
                start: start(&self.v),
                depth: self.v.row,
                columns: self.v.column,
                width: self.width,
            };
            // The second product has the same rows and other columns. Its left operand are the probabilities where
            // the softmax left them.
            let block = ProductBlock { panels: 0..columns, width: self.width, ..block };
            let sums = &mut sums.as_mut_slice()[..block.len()];
            let depth = cut_tiles(0..keys);
            multiply_block(
                self.isa,
                &ProbabilityPanels(scores),
                &right,
                depth,
                &block,
                &mut packed,
                sums,
            );
            sums.iter_mut().for_each(|x| *x = math::canonicalize_nan(*x));
            let sink = ResultSink {
                store: &self.store,
                base: memory.outputs[0],
                start: start(&self.out),
                rows: &self.out.rows,
                columns: self.out.column,
            };
            sink.write_block(&block, sums);
        }
    }
}

impl AttentionTask {
    /// Replaces the scores of one row by probabilities, in their panels.
    fn softmax_row(&self, scores: &mut [f32], r: usize, row: usize, rows: usize, line: &mut [f32]) {
        let keys = line.len();
        let mut pieces = scores.chunks_exact_mut(rows * DEPTH).zip(line.chunks_mut(DEPTH));
        pieces.by_ref().for_each(|(panel, line)| {
            line.copy_from_slice(&panel[r * DEPTH..][..line.len()]);
        });
        // After the mask, because minus infinity plus an infinite number of the mask would be NaN.
        if self.causal {
            line[(row + 1).min(keys)..].fill(f32::NEG_INFINITY);
        }
        let max = math::max(line);
        // No key is left. The difference of two infinities would be NaN, and PyTorch gives zeros here.
        if max == f32::NEG_INFINITY {
            line.fill(0.0);
        } else {
            let sum = math::exp_sub_sum(line, max);
            // One division for the line and a product per number: the arithmetic that the module defines.
            math::scale_row(line, 1.0 / sum);
        }
        for (panel, line) in scores.chunks_exact_mut(rows * DEPTH).zip(line.chunks(DEPTH)) {
            panel[r * DEPTH..][..line.len()].copy_from_slice(line);
        }
    }
}
