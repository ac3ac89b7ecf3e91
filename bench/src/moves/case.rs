//! A case of the move benchmark: layouts, a shape, and the width or the conversion of the elements.

use serde::Serialize;
use serde_json::{Value, json};
use zellige_ask::MoveRequest;
use zellige_float::Format;
use zellige_layout::{Layout, TileLayout};
use zellige_movement::{CopyNest, MoveDtypes, MoveError, MovePlan, Mover, PaddingFill};
use zellige_notation::tirx;
use zellige_stick::StickError;

/// The elements of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedElements {
    /// Elements of this many bytes, which are copied unchanged.
    Plain(usize),
    /// Elements of the first format, which are converted to the second.
    Convert(Format, Format),
}

impl MovedElements {
    /// The bytes of a source element and of a destination element.
    pub fn element_widths(self) -> (usize, usize) {
        match self {
            MovedElements::Plain(width) => (width, width),
            MovedElements::Convert(from, to) => (from.byte_size(), to.byte_size()),
        }
    }
}

/// One move to be measured.
#[derive(Debug, Clone)]
pub struct MoveCase {
    /// The name in the table.
    pub name: String,
    /// The speed that the move should reach, as a fraction of the speed of a plain copy of as many bytes.
    pub goal: Option<f64>,
    /// The width or the conversion of the elements.
    pub elements: MovedElements,
    /// The logical shape.
    pub shape: Vec<i64>,
    /// The layout of the source.
    pub src: Layout,
    /// The layout of the destination.
    pub dst: Layout,
    /// Whether padding of the destination is filled.
    pub fill: PaddingFill,
}

/// The reason why a case cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The layouts are not layouts of the same tensor, or not valid.
    #[error(transparent)]
    Layout(#[from] StickError),
    /// The engine refuses the move.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// Elements that are not a whole number of bytes.
    #[error(
        "`dtype`: an element of {0} bits is not a whole number of bytes and cannot be moved; accepted \
         are elements of 8, 16, 32, 64 or 128 bits"
    )]
    Bits(i64),
    /// The move has no elements.
    #[error("`shape`: the move has no elements, so there is nothing to time")]
    Empty,
    /// The move accesses more than `MOST_BYTES` bytes.
    #[error("the move accesses {0} bytes; a case may access at most {MOST_BYTES}")]
    TooLarge(usize),
}

/// The most bytes that source and destination of a case may have together, and that its move may read and write. Larger
/// cases might not fit in memory, and would measure paging.
const MOST_BYTES: usize = 8 << 30;

impl From<zellige_layout::LayoutError> for CaseError {
    fn from(e: zellige_layout::LayoutError) -> CaseError {
        CaseError::Layout(e.into())
    }
}

impl MoveCase {
    /// The case that measures a request `move`.
    pub fn from_request(request: MoveRequest) -> Result<MoveCase, CaseError> {
        let MoveRequest { src, dst, shape, dtype, to_dtype, padding } = request;
        let fill = padding.fill_mode();
        let bits = dtype.bits();
        let width = usize::try_from(bits / 8).ok().filter(|_| bits % 8 == 0);
        let plain = MovedElements::Plain(width.ok_or(CaseError::Bits(bits))?);
        let elements = match to_dtype.map(|to| MoveDtypes::between(dtype, to)).transpose()? {
            Some(MoveDtypes::Formats { from, to }) => MovedElements::Convert(from, to),
            _ => plain,
        };
        let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
        let to = to_dtype.map(|to| format!(" -> {to}")).unwrap_or_default();
        let name = format!("{} {dtype}{to}", extents.join("x"));
        Ok(MoveCase { name, goal: None, elements, shape, src, dst, fill })
    }

    /// Plans the move, and prepares the engine for the plan.
    pub fn plan_mover(&self) -> Result<(MovePlan, Mover), CaseError> {
        let plan = MovePlan::between(&self.src, &self.dst, &self.shape, self.fill)?;
        let mover = match self.elements {
            MovedElements::Plain(width) => Mover::new(&plan, width)?,
            MovedElements::Convert(from, to) => Mover::with_conversion(&plan, from, to)?,
        };
        if plan.element_count() == 0 {
            return Err(CaseError::Empty);
        }
        let bytes = mover.src_bytes().saturating_add(mover.dst_bytes());
        let copied = self.copied_bytes(&plan).saturating_mul(2);
        if bytes.max(copied) > MOST_BYTES {
            return Err(CaseError::TooLarge(bytes.max(copied)));
        }
        Ok((plan, mover))
    }

    /// The bytes that a plain copy with the same traffic copies: half the sum of the bytes read and written, without fills.
    pub fn copied_bytes(&self, plan: &MovePlan) -> usize {
        let (from, to) = self.elements.element_widths();
        usize::try_from(plan.element_count())
            .map_or(usize::MAX, |n| n.saturating_mul(from + to) / 2)
    }

    /// The request `move` for this case; none for a conversion, or a width without a dtype.
    pub fn to_request(&self) -> Option<Value> {
        let MovedElements::Plain(width) = self.elements else { return None };
        let names = [(1, "int8"), (2, "int16"), (4, "int32"), (8, "int64"), (16, "complex128")];
        let (_, dtype) = names.iter().find(|(w, _)| *w == width)?;
        let fill = if self.fill == PaddingFill::Padding { "zero" } else { "leave" };
        let (src, dst) = (tirx::print_tirx(&self.src), tirx::print_tirx(&self.dst));
        Some(json!({"src": src, "dst": dst, "shape": self.shape, "dtype": dtype, "fill": fill}))
    }

    /// The padded shape and the loops over it, if the move is a pad of a row-major array, followed by a reshape and a
    /// transpose. Libraries without strided views are measured on these operations of whole arrays.
    pub(super) fn padded_loops(&self) -> Option<PaddedArrayMove> {
        let window = self.dst.window()?;
        let row_major: Layout = TileLayout::row_major(&self.shape).ok()?.into();
        let begins_at_zero = window.dims().iter().all(|d| d.begin == 0);
        if row_major != self.src || window.shape() != self.shape || !begins_at_zero {
            return None;
        }
        let shape = window.padded_shape();
        let whole = TileLayout::row_major(&shape).ok()?.into();
        let plan = MovePlan::between(&whole, &self.dst.padded_domain(), &shape, PaddingFill::Leave)
            .ok()?;
        Some(PaddedArrayMove { shape, nests: plan.nests().to_vec() })
    }
}

/// A move written as a pad of the whole source array, and loop nests over the padded array.
#[derive(Debug, Serialize)]
pub(super) struct PaddedArrayMove {
    shape: Vec<i64>,
    nests: Vec<CopyNest>,
}
