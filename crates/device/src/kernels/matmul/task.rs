//! A product bound to its tensors: blocks of the result, each with all of its sum.

use super::super::io::{ElementLoader, ElementStorer};
use super::super::share::moves_along;
use super::super::{KernelTask, TensorPointers};
use super::account::ProductSlices;
use super::axis::{MatrixAxis, MatrixLines};
use super::engine::{PackedOperands, ProductBlock, TileScratch, cut_tiles, multiply_block};
use super::finish::{ExtraOperand, ProductFinish};
use super::matrices::ProductMatrices;
use super::micro::{Isa, ProductNumber};
use super::sides::{ResultSink, SticksLeft, SticksRight};
use crate::run::division::WorkDivision;
use crate::tensor::sticks::StickForm;
use std::ops::Range;
use zellige_machine::SumGroup;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_op::ProductOp;

/// The most rows of a block: enough uses of every panel that is unpacked.
const MAX_BLOCK_ROWS: usize = 240;
/// The most columns of a block of many rows: enough uses of every tile.
const MAX_BLOCK_COLUMNS: usize = 512;
/// Blocks of at most so many rows take one panel at a time, so that it is read in the order of its addresses.
const MAX_SINGLE_PANEL_ROWS: usize = 16;
/// Panels of a block of one row, which is unpacked once for all of them; fewer where cores would go without.
const MAX_ROW_PANELS: usize = 4;

/// An operand as a product reads it.
struct MatrixOperand<T> {
    load: ElementLoader<T>,
    start: usize,
    batch: MatrixLines,
    rows: MatrixLines,
    depth: MatrixAxis,
    columns: MatrixAxis,
    input: usize,
}

/// A product on its tensors.
pub(super) struct ProductTask<T> {
    isa: Isa,
    a: MatrixOperand<T>,
    b: MatrixOperand<T>,
    store: ElementStorer<T>,
    start: usize,
    batch: MatrixLines,
    rows: MatrixLines,
    columns: MatrixAxis,
    finish: ProductFinish<T>,
    /// The ranges of the summed dimension, in the order in which their sums are added.
    ranges: Vec<Range<usize>>,
    /// Columns of a panel.
    width: usize,
    cores: usize,
    kind: WorkKind,
    work: Vec<CoreWork>,
}

impl<T: ProductNumber> ProductTask<T> {
    pub(super) fn new(
        product: &ProductOp,
        matrices: &ProductMatrices,
        division: &WorkDivision,
    ) -> ProductTask<T> {
        let ProductMatrices { a, b, c, extras, steps, .. } = matrices;
        let outer = c.rank() - 2;
        let (m, n) = (outer, outer + 1);
        // Batch dimensions that B lacks are more rows of A: B is read once for all of them.
        let moves = |d: &usize| b.stride[*d] != 0 || b.size[*d] == 1;
        let (batch, mut rows): (Vec<usize>, Vec<usize>) = (0..outer).partition(moves);
        rows.push(m);
        let side = |t: &StickForm, input: usize, rows: &[usize]| MatrixOperand {
            load: ElementLoader::new(t.format, c.format),
            start: t.offset,
            batch: MatrixLines::from_dims(t, &batch),
            rows: MatrixLines::from_dims(t, rows),
            depth: MatrixAxis::from_dim(t, if rows.is_empty() { m } else { n }),
            columns: MatrixAxis::from_dim(t, n),
            input,
        };
        let extra = |(input, t): &(usize, StickForm)| ExtraOperand {
            load: ElementLoader::new(t.format, c.format),
            start: t.offset,
            batch: MatrixLines::from_dims(t, &batch),
            rows: MatrixLines::from_dims(t, &rows),
            columns: MatrixAxis::from_dim(t, n),
            input: *input,
        };
        let space = matrices.iteration_space();
        let depth = space.len() - 1;
        let splits = division.splits()[depth];
        let ranges = (0..splits).map(|i| division.core_slice(i, &space)[depth].clone()).collect();
        let charges = matrices.unit_charges([product.roles.a, product.roles.b], 0);
        let work = (0..division.core_count()).map(|core| {
            let place = division.core_digits(core)[depth] as u64;
            let part = matrices.core_part(core, division);
            let further: Vec<StickForm> = part.extras.iter().map(|e| e.1.clone()).collect();
            let slices = ProductSlices {
                a: &part.a,
                b: &part.b,
                c: &part.c,
                extras: &further,
                shares: &matrices.operand_shares(core, division),
                group: SumGroup { size: splits as u64, place },
                charges: &charges,
                ranges: &division.core_slice(core, &space),
                all_batches: c.size[..outer].iter().map(|n| *n as u64).product(),
                shared_weight: (0..outer).any(|d| c.size[d] > 1 && !moves_along(b, d)),
                interleaved: [a, b].map(|t| has_batches_next_to_stick(t, outer)),
            };
            slices.charge_product()
        });
        let work = work.collect();
        let sides = (side(a, product.roles.a, &rows), side(b, product.roles.b, &[]));
        ProductTask {
            isa: Isa::process_isa(),
            a: sides.0,
            b: sides.1,
            store: ElementStorer::new(c.format),
            start: c.offset,
            batch: MatrixLines::from_dims(c, &batch),
            rows: MatrixLines::from_dims(c, &rows),
            columns: MatrixAxis::from_dim(c, n),
            finish: ProductFinish {
                steps: steps.clone(),
                extras: extras.iter().map(extra).collect(),
                format: c.format,
            },
            ranges,
            // A panel is a stick of B, so that a depth of it is read with one copy. Without sticks along the
            // columns any width will do, and 32 is the narrowest that kernels take.
            width: if b.stick == Some(n) { b.eps.max(32) } else { 32 },
            cores: division.core_count(),
            kind: product_work_kind(a, b, c),
            work,
        }
    }

    /// The blocks of a result: how many rows and panels each has.
    fn block_extents(&self) -> (usize, usize) {
        let rows = self.rows.line_count();
        // Blocks of nearly equal size rather than full ones and a remainder, so that no core waits for another; 12
        // rows are a multiple of what every kernel takes at once.
        let parts = rows.div_ceil(MAX_BLOCK_ROWS).max(1);
        let each = rows.div_ceil(parts).next_multiple_of(if parts > 1 { 12 } else { 1 });
        let all = self.columns.size.div_ceil(self.width);
        let panels = match rows {
            // With one row nothing is used twice but the row itself, so that blocks only have to go around the
            // cores.
            1 => (all / self.cores).min(MAX_ROW_PANELS),
            2..=MAX_SINGLE_PANEL_ROWS => 1,
            _ => MAX_BLOCK_COLUMNS / self.width,
        };
        (each.max(1), panels.max(1).min(all).max(1))
    }
}

/// Whether the first `outer` dimensions of a tensor, its batches, alternate stick by stick.
fn has_batches_next_to_stick(t: &StickForm, outer: usize) -> bool {
    (0..outer).any(|d| t.size[d] > 1 && t.stride[d] == t.eps)
}

/// The kind of work for the accounts: batches whose stride is inside of the matrices, next to the stick, are slow.
pub(crate) fn product_work_kind(a: &StickForm, b: &StickForm, c: &StickForm) -> WorkKind {
    let outer = c.rank() - 2;
    let batch: u64 = c.size[..outer].iter().map(|n| *n as u64).product();
    if batch > 1 && [a, b, c].iter().any(|t| has_batches_next_to_stick(t, outer)) {
        WorkKind::BatchMatmulDefault { batch }
    } else {
        WorkKind::Matmul
    }
}

impl<T: ProductNumber> KernelTask for ProductTask<T> {
    fn work_kind(&self) -> WorkKind {
        self.kind
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.work[core].clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let (rows, panels) = self.block_extents();
        let all_panels = self.columns.size.div_ceil(self.width);
        let row_blocks = self.rows.line_count().div_ceil(rows);
        let panel_blocks = all_panels.div_ceil(panels);
        let blocks = self.batch.line_count() * row_blocks * panel_blocks;
        // Blocks are handed out by number and not by the slices of the division: who computes an element does not
        // change it.
        if core >= blocks {
            return;
        }
        let mut packed = PackedOperands::new(rows, self.width);
        let mut sums = TileScratch::<T>::new(rows * panels * self.width);
        // A sum that is split over cores is added up range by range as on the card; otherwise the second buffer is
        // not needed.
        let split = self.ranges.len() > 1;
        let mut parts = TileScratch::<T>::new(if split { rows * panels * self.width } else { 0 });
        for id in (core..blocks).step_by(self.cores) {
            let (batch, id) = (id / (row_blocks * panel_blocks), id % (row_blocks * panel_blocks));
            let (row, panel) = (id % row_blocks * rows, id / row_blocks * panels);
            let block = ProductBlock {
                rows: row..(row + rows).min(self.rows.line_count()),
                panels: panel..(panel + panels).min(all_panels),
                width: self.width,
            };
            let left = SticksLeft {
                load: &self.a.load,
                base: memory.inputs[self.a.input],
                start: self.a.start + self.a.batch.line_offset(batch),
                rows: &self.a.rows,
                depth: self.a.depth,
            };
            let right = SticksRight {
                load: &self.b.load,
                base: memory.inputs[self.b.input],
                start: self.b.start + self.b.batch.line_offset(batch),
                depth: self.b.depth,
                columns: self.b.columns,
                width: self.width,
            };
            let sums = &mut sums.as_mut_slice()[..block.len()];
            for (i, range) in self.ranges.iter().enumerate() {
                let tiles = cut_tiles(range.clone());
                if i == 0 {
                    multiply_block(self.isa, &left, &right, tiles, &block, &mut packed, sums);
                    continue;
                }
                let part = &mut parts.as_mut_slice()[..block.len()];
                multiply_block(self.isa, &left, &right, tiles, &block, &mut packed, part);
                sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = sum.add_rounded(*part));
            }
            // SAFETY: by the contract of `KernelTask::run_slice`.
            unsafe { self.finish.finish_block(&block, batch, &memory.inputs, sums) };
            let sink = ResultSink {
                store: &self.store,
                base: memory.outputs[0],
                start: self.start + self.batch.line_offset(batch),
                rows: &self.rows,
                columns: self.columns,
            };
            sink.write_block(&block, sums);
        }
    }
}
