//! A case: one move, with the elements it moves.

use serde::Serialize;
use serde_json::{Value, json};
use zellige_ask::MoveRequest;
use zellige_float::Format;
use zellige_layout::{Layout, TileLayout};
use zellige_movement::{CopyNest, MoveDtypes, MoveError, MovePlan, Mover, PaddingFill};
use zellige_notation::tirx;
use zellige_stick::StickError;

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedElements {
    /// Elements of so many bytes, copied.
    Plain(usize),
    /// Elements of the first format that become elements of the second.
    Convert(Format, Format),
}

impl MovedElements {
    /// Bytes of a source and of a destination element.
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
    /// What the table calls it.
    pub name: String,
    /// The fraction of a plain copy that is aimed at.
    pub goal: Option<f64>,
    /// What is moved.
    pub elements: MovedElements,
    /// The logical shape.
    pub shape: Vec<i64>,
    /// Where the elements are.
    pub src: Layout,
    /// Where they go.
    pub dst: Layout,
    /// What becomes of padding.
    pub fill: PaddingFill,
}

/// A case that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The layouts do not make a move.
    #[error(transparent)]
    Layout(#[from] StickError),
    /// The engine does not move it.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// Elements that share bytes.
    #[error(
        "`dtype`: elements of {0} bits share bytes and are not moved; an element has 8, 16, 32, 64 \
         or 128 bits"
    )]
    Bits(i64),
    /// There is nothing to time.
    #[error("`shape`: the move has no elements, so there is nothing to time")]
    Empty,
    /// It would not fit in memory beside itself.
    #[error("the move touches {0} bytes; a case may touch at most {MOST_BYTES}")]
    TooLarge(usize),
}

/// Source and destination of a case together; past that, a table would measure paging.
const MOST_BYTES: usize = 8 << 30;

impl From<zellige_layout::LayoutError> for CaseError {
    fn from(e: zellige_layout::LayoutError) -> CaseError {
        CaseError::Layout(e.into())
    }
}

impl MoveCase {
    /// The case of a request `move`.
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

    /// Its plan, and the engine made ready for it.
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

    /// Half the bytes read and written by elements: what a plain copy of as much work copies.
    pub fn copied_bytes(&self, plan: &MovePlan) -> usize {
        let (from, to) = self.elements.element_widths();
        usize::try_from(plan.element_count())
            .map_or(usize::MAX, |n| n.saturating_mul(from + to) / 2)
    }

    /// The request `move` that is this case; a conversion has none.
    pub fn to_request(&self) -> Option<Value> {
        let MovedElements::Plain(width) = self.elements else { return None };
        let names = [(1, "int8"), (2, "int16"), (4, "int32"), (8, "int64"), (16, "complex128")];
        let (_, dtype) = names.iter().find(|(w, _)| *w == width)?;
        let fill = if self.fill == PaddingFill::Padding { "zero" } else { "leave" };
        let (src, dst) = (tirx::print_tirx(&self.src), tirx::print_tirx(&self.dst));
        Some(json!({"src": src, "dst": dst, "shape": self.shape, "dtype": dtype, "fill": fill}))
    }

    /// The padded shape and the loops over it, where the move is one pad of a row-major array
    /// before a reshape and a transpose: libraries without strided views work on whole arrays.
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

/// A move of a padded array.
#[derive(Debug, Serialize)]
pub(super) struct PaddedArrayMove {
    shape: Vec<i64>,
    nests: Vec<CopyNest>,
}
