//! What is done to a sum of products before it is rounded and stored.

use super::super::io::ElementLoader;
use super::axis::{MatrixAxis, MatrixLines};
use super::engine::ProductBlock;
use super::micro::ProductNumber;
use zellige_float::Format;

/// One step; they are done in order, each rounded in float32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FinishStep {
    /// Times a number.
    Scale(f64),
    /// Times an operand, by its number among the further operands.
    Times(usize),
    /// Plus `factor` times an operand.
    Plus {
        /// Its number among the further operands.
        operand: usize,
        /// The factor.
        factor: f64,
    },
}

/// A further operand, expanded to the size of the result.
#[derive(Debug, Clone)]
pub(crate) struct ExtraOperand<T> {
    pub(crate) load: ElementLoader<T>,
    pub(crate) start: usize,
    pub(crate) batch: MatrixLines,
    pub(crate) rows: MatrixLines,
    pub(crate) columns: MatrixAxis,
    /// Which tensor of the operation it is.
    pub(crate) input: usize,
}

/// The steps with their operands.
#[derive(Debug, Clone)]
pub(crate) struct ProductFinish<T> {
    pub(crate) steps: Vec<FinishStep>,
    pub(crate) extras: Vec<ExtraOperand<T>>,
    /// The format of the result.
    pub(crate) format: Format,
}

impl<T: ProductNumber> ProductFinish<T> {
    /// Finishes a block. Every NaN becomes the positive quiet one, and what is stored as an unsigned byte wraps to it.
    ///
    /// # Safety
    /// `inputs` are the blocks of the operation's tensors.
    pub(crate) unsafe fn finish_block(
        &self,
        block: &ProductBlock,
        batch: usize,
        inputs: &[*const u8],
        c: &mut [T],
    ) {
        let c = &mut c[..block.len()];
        for step in &self.steps {
            match step {
                FinishStep::Scale(factor) => {
                    let factor = T::from_f64(*factor);
                    c.iter_mut().for_each(|x| *x = x.multiply_rounded(factor));
                }
                // SAFETY: by the contract of this function.
                FinishStep::Times(operand) => unsafe {
                    self.extras[*operand]
                        .combine_elements(block, batch, inputs, c, |x, y| x.multiply_rounded(y));
                },
                // SAFETY: as above.
                FinishStep::Plus { operand, factor } => unsafe {
                    let factor = T::from_f64(*factor);
                    let plus = |x: T, y: T| x.add_rounded(y.multiply_rounded(factor));
                    self.extras[*operand].combine_elements(block, batch, inputs, c, plus);
                },
            }
        }
        // Only after all steps, because every step rounds in the numbers of the sum and not in the stored format.
        c.iter_mut().for_each(|x| *x = x.stored_value(self.format));
    }
}

impl<T: ProductNumber> ExtraOperand<T> {
    /// `c = f(c, operand)` at every valid element of a block.
    ///
    /// # Safety
    /// `inputs` are the blocks of the operation's tensors.
    pub(crate) unsafe fn combine_elements(
        &self,
        block: &ProductBlock,
        batch: usize,
        inputs: &[*const u8],
        c: &mut [T],
        f: impl Fn(T, T) -> T,
    ) {
        let start = self.start + self.batch.line_offset(batch);
        let places = self.rows.line_offsets(start, block.rows.clone());
        let (base, width) = (inputs[self.input], block.width);
        let mut line = vec![T::ZERO; width];
        for (panel, c) in block.panels.clone().zip(c.chunks_exact_mut(places.len() * width)) {
            let first = panel * width;
            let end = (first + width).min(self.columns.size);
            let mut held = None;
            for (place, c) in places.iter().zip(c.chunks_exact_mut(width)) {
                // A bias has the same place for every row, so that its line is read once per panel.
                if held != Some(*place) {
                    held = Some(*place);
                    if self.columns.is_broadcast() {
                        // SAFETY: an element of the operand.
                        line.fill(unsafe { self.load.load_element(base, *place) });
                    } else {
                        self.columns.for_each_piece(first..end, |x, at, count| {
                            let line = &mut line[x - first..][..count];
                            // SAFETY: elements of the operand.
                            unsafe { self.load.load_adjacent(base, place + at, line) };
                        });
                    }
                }
                c.iter_mut().zip(&line).for_each(|(x, y)| *x = f(*x, *y));
            }
        }
    }
}
