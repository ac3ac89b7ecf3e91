//! Reads a written file back and compares it with its source.

use crate::feed::TensorFeed;
use crate::relayout::{Relayout, RelayoutError};
use crate::{Container, TensorInfo, disk};
use zellige_float::{Converter, Isa, count_changed};
use zellige_layout::{Layout, StridedLayout, unflatten_index};
use zellige_movement::{MoveDtypes, MovePlan, Mover, PaddingFill};

/// One side of a comparison: a tensor of a file, and the layout of its elements.
#[derive(Debug, Clone, Copy)]
pub struct StoredTensor<'a> {
    /// The file.
    pub file: &'a Container,
    /// The tensor.
    pub info: &'a TensorInfo,
    /// The layout of its elements.
    pub layout: &'a Layout,
}

/// The result of a comparison without differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedTensor {
    /// The number of compared elements.
    pub elements: u64,
    /// The number of elements whose value the conversion changed by rounding.
    pub changed: u64,
}

impl Relayout<'_> {
    /// Compares every element of `written` with the converted element of `source`, and everything
    /// else in it with the fill.
    ///
    /// Both files are gathered into row-major parts. Elements that change their format are
    /// converted by the portable kernels, not by those that wrote them.
    pub fn verify_written(
        &self,
        source: StoredTensor<'_>,
        written: StoredTensor<'_>,
        shape: &[i64],
    ) -> Result<VerifiedTensor, RelayoutError> {
        zellige_calls::record_call!();
        let dtypes = MoveDtypes::between(source.info.dtype(), self.dtype)?;
        let flat =
            StridedLayout::new_contiguous(shape).and_then(|s| s.to_layout()).map_err(plan_error)?;
        let plan = |from: &Layout| {
            MovePlan::between(from, &flat, shape, PaddingFill::Leave).map_err(plan_error)
        };
        let (read, copied) = (plan(source.layout)?, plan(written.layout)?);
        let (from, to) = (dtypes.src_bytes(), dtypes.dst_bytes());
        // Eighths: two windows, the two sides in row-major order, and the converted side with room
        // to spare.
        let part = i64::try_from((self.memory / 8 / from.max(to)).max(1)).unwrap_or(i64::MAX);
        let size = flat.size();
        let folder = disk::parent_folder(written.file.path());
        let memory = self.memory / 8;
        let mut from_source = TensorFeed::new(source.file, source.info, from, memory, folder)?;
        let mut from_written = TensorFeed::new(written.file, written.info, to, memory, folder)?;
        let mut all = VerifiedTensor { elements: 0, changed: 0 };
        let mut at = 0;
        while at < size {
            let end = (at + part).min(size);
            let before =
                self.gather_row_major(&read.clip_destination(at, end), &mut from_source, from)?;
            let got =
                self.gather_row_major(&copied.clip_destination(at, end), &mut from_written, to)?;
            let count = before.len() / from;
            let want = match dtypes {
                MoveDtypes::Bytes(_) => before,
                MoveDtypes::Formats { from, to } => {
                    let mut want = vec![0u8; got.len()];
                    // The baseline kernels, because a mistake of the vector kernels that wrote the
                    // file would otherwise repeat itself here and go unnoticed.
                    let converter = Converter::with_isa(from, to, Isa::BASELINE);
                    converter.convert(&before, &mut want, count).map_err(length_error)?;
                    all.changed +=
                        count_changed((from, &before), (to, &want), count).map_err(length_error)?;
                    want
                }
            };
            if let Some(i) = (0..want.len()).find(|i| want[*i] != got[*i]) {
                let index = at + i64::try_from(i / to).unwrap_or(0);
                return Err(self.difference_error(
                    written,
                    format!("element {:?}", unflatten_index(shape, index)),
                ));
            }
            all.elements += count as u64;
            at = end;
        }
        self.check_padding(written, &mut from_written, shape, to)?;
        source.file.check_unchanged()?;
        written.file.check_unchanged()?;
        Ok(all)
    }

    fn difference_error(&self, written: StoredTensor<'_>, what: String) -> RelayoutError {
        let path = written.file.path().to_path_buf();
        RelayoutError::Differs { path, what }
    }

    /// Gathers elements of a tensor by a plan, in the byte order of the machine.
    fn gather_row_major(
        &self,
        plan: &MovePlan,
        side: &mut TensorFeed<'_>,
        width: usize,
    ) -> Result<Vec<u8>, RelayoutError> {
        let mut out = vec![0u8; usize::try_from(plan.dst_len()).unwrap_or(0) * width];
        side.run_plan(plan, MoveDtypes::Bytes(width), &mut out, None, self.threads)?;
        Ok(out)
    }

    /// Checks that everything that is not an element holds the fill.
    ///
    /// A mark is moved to the position of every element, part by part; positions without a mark are
    /// compared with the fill.
    fn check_padding(
        &self,
        side: StoredTensor<'_>,
        feed: &mut TensorFeed<'_>,
        shape: &[i64],
        width: usize,
    ) -> Result<(), RelayoutError> {
        let mark = StridedLayout::new(shape, &vec![0; shape.len()], 0).and_then(|s| s.to_layout());
        let mark = mark.map_err(plan_error)?;
        let plan =
            MovePlan::between(&mark, side.layout, shape, PaddingFill::Leave).map_err(plan_error)?;
        let zero = vec![0; width];
        let fill = self.fill.unwrap_or(&zero);
        let held = i64::try_from(side.info.byte_len() / width as u64).unwrap_or(i64::MAX);
        let part = i64::try_from((self.memory / 8 / width).max(1)).unwrap_or(i64::MAX);
        let mut low = 0;
        while low < held {
            let high = low.saturating_add(part).min(held);
            let bytes = feed.read_window(low, high)?;
            let mut marked = vec![0u8; bytes.len() / width];
            let mover = Mover::new(&plan.clip_destination(low, high), 1)?;
            mover.run_on_slices(&[1], &mut marked, None, self.threads)?;
            let elements = bytes.chunks_exact(width).zip(&marked);
            if let Some(at) = elements.into_iter().position(|(e, m)| *m == 0 && e != fill) {
                let place = low + i64::try_from(at).unwrap_or(0);
                return Err(self.difference_error(side, format!("padding at {place}")));
            }
            low = high;
        }
        Ok(())
    }
}

fn plan_error(error: zellige_layout::LayoutError) -> RelayoutError {
    RelayoutError::Move(error.into())
}

/// Buffers have the length of what is converted, so this error does not occur.
fn length_error(error: zellige_float::ConvertError) -> RelayoutError {
    RelayoutError::Length(error)
}
