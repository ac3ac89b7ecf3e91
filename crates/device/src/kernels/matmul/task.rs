//! A product bound to its tensors: blocks of the result, each with all of its sum.

use super::super::io::{Load, Store};
use super::super::{Pointers, Task};
use super::account::Slices;
use super::axis::{Axis, Lines};
use super::engine::{Block, Packed, Scratch, product, tiles};
use super::finish::{Extra, Finish};
use super::matrices::Matrices;
use super::micro::{Cell, Isa};
use super::sides::{Sink, SticksLeft, SticksRight};
use crate::run::division::Division;
use crate::tensor::sticks::Sticks;
use std::ops::Range;
use zellige_machine::SumGroup;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_op::Product;

/// The most rows of a block: enough uses of every panel that is unpacked.
const ROWS: usize = 240;
/// The most columns of a block of many rows: enough uses of every tile.
const COLUMNS: usize = 512;
/// Blocks of at most so many rows take one panel at a time: it is read in the order it lies.
const FEW: usize = 16;
/// Panels of a block of one row, which is unpacked once for all of them; fewer where cores would go without.
const PANELS: usize = 4;

/// An operand as a product reads it.
struct Side<T> {
    load: Load<T>,
    start: usize,
    batch: Lines,
    rows: Lines,
    depth: Axis,
    columns: Axis,
    input: usize,
}

/// A product on its tensors.
pub(super) struct Work<T> {
    isa: Isa,
    a: Side<T>,
    b: Side<T>,
    store: Store<T>,
    start: usize,
    batch: Lines,
    rows: Lines,
    columns: Axis,
    finish: Finish<T>,
    /// The ranges of the summed dimension, in the order in which their sums are added.
    ranges: Vec<Range<usize>>,
    /// Columns of a panel.
    width: usize,
    cores: usize,
    kind: WorkKind,
    work: Vec<CoreWork>,
}

impl<T: Cell> Work<T> {
    pub(super) fn new(product: &Product, matrices: &Matrices, division: &Division) -> Work<T> {
        let Matrices { a, b, c, extras, steps, .. } = matrices;
        let outer = c.rank() - 2;
        let (m, n) = (outer, outer + 1);
        // Batches that B does not know are more rows of A: B is read once for all of them.
        let moves = |d: &usize| b.stride[*d] != 0 || b.size[*d] == 1;
        let (batch, mut rows): (Vec<usize>, Vec<usize>) = (0..outer).partition(moves);
        rows.push(m);
        let side = |t: &Sticks, input: usize, rows: &[usize]| Side {
            load: Load::new(t.format, c.format),
            start: t.offset,
            batch: Lines::of(t, &batch),
            rows: Lines::of(t, rows),
            depth: Axis::of(t, if rows.is_empty() { m } else { n }),
            columns: Axis::of(t, n),
            input,
        };
        let extra = |(input, t): &(usize, Sticks)| Extra {
            load: Load::new(t.format, c.format),
            start: t.offset,
            batch: Lines::of(t, &batch),
            rows: Lines::of(t, &rows),
            columns: Axis::of(t, n),
            input: *input,
        };
        let space = matrices.space();
        let depth = space.len() - 1;
        let splits = division.splits()[depth];
        let ranges = (0..splits).map(|i| division.slice(i, &space)[depth].clone()).collect();
        let charges = matrices.charges([product.roles.a, product.roles.b], 0);
        let work = (0..division.cores()).map(|core| {
            let place = division.digits(core)[depth] as u64;
            let part = matrices.part(core, division);
            let further: Vec<Sticks> = part.extras.iter().map(|e| e.1.clone()).collect();
            let slices = Slices {
                a: &part.a,
                b: &part.b,
                c: &part.c,
                extras: &further,
                shares: &matrices.shares(core, division),
                group: SumGroup { size: splits as u64, place },
                charges: &charges,
                ranges: &division.slice(core, &space),
            };
            slices.work()
        });
        let work = work.collect();
        let sides = (side(a, product.roles.a, &rows), side(b, product.roles.b, &[]));
        Work {
            isa: Isa::process_isa(),
            a: sides.0,
            b: sides.1,
            store: Store::new(c.format),
            start: c.offset,
            batch: Lines::of(c, &batch),
            rows: Lines::of(c, &rows),
            columns: Axis::of(c, n),
            finish: Finish {
                steps: steps.clone(),
                extras: extras.iter().map(extra).collect(),
                format: c.format,
            },
            ranges,
            width: if b.stick == Some(n) { b.eps.max(32) } else { 32 },
            cores: division.cores(),
            kind: kind(a, b, c),
            work,
        }
    }

    /// The blocks of a result: how many rows and panels each has.
    fn cut(&self) -> (usize, usize) {
        let rows = self.rows.count();
        let parts = rows.div_ceil(ROWS).max(1);
        let each = rows.div_ceil(parts).next_multiple_of(if parts > 1 { 12 } else { 1 });
        let all = self.columns.size.div_ceil(self.width);
        let panels = match rows {
            1 => (all / self.cores).min(PANELS),
            2..=FEW => 1,
            _ => COLUMNS / self.width,
        };
        (each.max(1), panels.max(1).min(all).max(1))
    }
}

/// What the accounts call it: batches that lie inside of the matrices, next to the stick, are slow.
pub(crate) fn kind(a: &Sticks, b: &Sticks, c: &Sticks) -> WorkKind {
    let outer = c.rank() - 2;
    let batch: u64 = c.size[..outer].iter().map(|n| *n as u64).product();
    let inside = |t: &Sticks| (0..outer).any(|d| t.size[d] > 1 && t.stride[d] == t.eps);
    if batch > 1 && [a, b, c].iter().any(|t| inside(t)) {
        WorkKind::BatchMatmulDefault { batch }
    } else {
        WorkKind::Matmul
    }
}

impl<T: Cell> Task for Work<T> {
    fn kind(&self) -> WorkKind {
        self.kind
    }

    fn work(&self, core: usize) -> CoreWork {
        self.work[core].clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let (rows, panels) = self.cut();
        let all_panels = self.columns.size.div_ceil(self.width);
        let row_blocks = self.rows.count().div_ceil(rows);
        let panel_blocks = all_panels.div_ceil(panels);
        let blocks = self.batch.count() * row_blocks * panel_blocks;
        if core >= blocks {
            return;
        }
        let mut packed = Packed::new(rows, self.width);
        let mut sums = Scratch::<T>::new(rows * panels * self.width);
        let split = self.ranges.len() > 1;
        let mut parts = Scratch::<T>::new(if split { rows * panels * self.width } else { 0 });
        for id in (core..blocks).step_by(self.cores) {
            let (batch, id) = (id / (row_blocks * panel_blocks), id % (row_blocks * panel_blocks));
            let (row, panel) = (id % row_blocks * rows, id / row_blocks * panels);
            let block = Block {
                rows: row..(row + rows).min(self.rows.count()),
                panels: panel..(panel + panels).min(all_panels),
                width: self.width,
            };
            let left = SticksLeft {
                load: &self.a.load,
                base: memory.inputs[self.a.input],
                start: self.a.start + self.a.batch.place(batch),
                rows: &self.a.rows,
                depth: self.a.depth,
            };
            let right = SticksRight {
                load: &self.b.load,
                base: memory.inputs[self.b.input],
                start: self.b.start + self.b.batch.place(batch),
                depth: self.b.depth,
                columns: self.b.columns,
                width: self.width,
            };
            let sums = &mut sums.slice()[..block.len()];
            for (i, range) in self.ranges.iter().enumerate() {
                let tiles = tiles(range.clone());
                if i == 0 {
                    product(self.isa, &left, &right, tiles, &block, &mut packed, sums);
                    continue;
                }
                let part = &mut parts.slice()[..block.len()];
                product(self.isa, &left, &right, tiles, &block, &mut packed, part);
                sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = sum.plus(*part));
            }
            // SAFETY: by the contract of `Task::run`.
            unsafe { self.finish.run(&block, batch, &memory.inputs, sums) };
            let sink = Sink {
                store: &self.store,
                base: memory.outputs[0],
                start: self.start + self.batch.place(batch),
                rows: &self.rows,
                columns: self.columns,
            };
            sink.write(&block, sums);
        }
    }
}
