//! A parsed text: the layout that it describes, and its notation.

use crate::{Diagnostic, Notation};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use zellige_layout::int::checked_product;
use zellige_layout::{
    Layout, LayoutError, StridedLayout, check_nonnegative_sizes, unflatten_index,
};
use zellige_stick::StickLayout;

/// A text that was read.
///
/// [`ParsedText::layout_over_shape`] is defined for every notation. Properties of some of them (the strides
/// of a host tensor, the sticks of a device) are an `Option` here, so that callers do not have to
/// distinguish notations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedText {
    notation: Notation,
    form: LayoutForm,
}

/// The kind of layout that a text describes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "parsed once and read; a box would cost more")]
enum LayoutForm {
    /// A layout of the algebra.
    Algebra(Layout),
    /// A host tensor: one stride for every dimension.
    Host(StridedLayout),
    /// A device layout, possibly without its host tensor.
    Device(StickLayout),
    /// A layout in the terms of one notation.
    Written(Arc<dyn WrittenLayout>),
}

/// A layout in the terms of one notation, if the algebra alone would lose information: the nesting of
/// CuTe's modes, the parameters of a Triton attribute, the tiles of XLA.
///
/// **Law**: two layouts of one notation are equal if their texts are, so the text determines the layout.
pub trait WrittenLayout: fmt::Debug + Any + Send + Sync {
    /// Its text. Parsing that gives the same layout again.
    fn notation_text(&self) -> String;

    /// The layout in the algebra; `shape` is the logical shape where the text does not say it.
    ///
    /// # Errors
    /// A shape that is missing or does not fit, and a layout that the algebra cannot express.
    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic>;

    /// The shape that its coordinates have where none is named.
    fn default_shape(&self) -> Option<Vec<i64>>;

    /// Which reading was taken, where the text alone does not decide.
    fn reading_note(&self) -> Option<String> {
        None
    }

    /// The position of every element in one memory, by the notation's own definition, and the number of
    /// positions of that memory. `None` for a notation that leaves both to the layout in the algebra.
    fn stored_elements(&self, shape: Option<&[i64]>) -> Option<Result<StoredElements, Diagnostic>> {
        let _ = shape;
        None
    }

    /// The number of positions of its memory with padding, if the notation itself defines it, including
    /// those after the last position that an index reaches.
    fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64, Diagnostic>> {
        let _ = shape;
        None
    }

    /// The bits of an element, if the text states them.
    fn element_bits(&self) -> Option<i64> {
        None
    }
}

/// The memory of a tensor: the position of every element in row-major order, and the number of positions,
/// padding counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredElements {
    /// The position of every element, in row-major order of their coordinates.
    pub order: Vec<i64>,
    /// The number of positions.
    pub positions: i64,
}

impl StoredElements {
    /// Checks that a shape has as many elements.
    pub fn check_shape_size(&self, shape: &[i64]) -> Result<(), LayoutError> {
        check_nonnegative_sizes(shape)?;
        let found = checked_product(shape.iter().copied(), "the number of elements of the shape")?;
        let expected = i64::try_from(self.order.len()).unwrap_or(i64::MAX);
        if found == expected {
            return Ok(());
        }
        let what = format!("shape {shape:?}");
        Err(LayoutError::SizeMismatch { what, expected, found: found.into() })
    }
}

/// The assumed bits of an element if neither the text nor a dtype states them.
const ASSUMED_BITS: i64 = 16;

/// The width of an element, and the source of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementSize {
    /// Bits of an element.
    pub bits: i64,
    /// The source of the number.
    pub source: ElementSource,
}

/// The source of the width of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementSource {
    /// The text of the layout.
    Text,
    /// The dtype beside it.
    Dtype,
    /// Nothing.
    Assumed,
}

impl ElementSize {
    /// The bits, unless they are assumed.
    pub fn known_bits(self) -> Option<i64> {
        (self.source != ElementSource::Assumed).then_some(self.bits)
    }
}

impl fmt::Display for ElementSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.source {
            ElementSource::Text => "as the text of the layout says",
            ElementSource::Dtype => "as the dtype says",
            ElementSource::Assumed => "assumed, as neither the text nor a dtype says it",
        };
        write!(f, "{} bits, {reason}", self.bits)
    }
}

/// More elements than this are not listed.
// 8 bytes each: a list of 128 MiB.
const MAX_STORED: i64 = 1 << 24;

/// The position of every element of a shape, in row-major order.
pub(crate) fn positions_in_order(
    shape: &[i64],
    position: impl Fn(&[i64]) -> Result<i64, Diagnostic>,
) -> Result<Vec<i64>, Diagnostic> {
    let size = checked_product(shape.iter().copied(), "the number of elements of the shape")?;
    if size > MAX_STORED {
        let limit = MAX_STORED.cast_unsigned();
        return Err(LayoutError::TooLarge { what: "listing positions", limit }.into());
    }
    // The number of elements is known before the list is built, so the memory of the request is
    // checked first.
    let count = usize::try_from(size).unwrap_or(0);
    zellige_guard::reserve_memory(size_of::<i64>().saturating_mul(count));
    let mut order = Vec::with_capacity(count);
    for flat in 0..size {
        zellige_guard::count_step();
        order.push(position(&unflatten_index(shape, flat))?);
    }
    Ok(order)
}

impl PartialEq for dyn WrittenLayout {
    fn eq(&self, other: &dyn WrittenLayout) -> bool {
        self.notation_text() == other.notation_text()
    }
}

impl Eq for dyn WrittenLayout {}

impl ParsedText {
    /// A text of some notation that describes a layout of the algebra.
    pub fn from_layout(notation: Notation, layout: Layout) -> ParsedText {
        ParsedText { notation, form: LayoutForm::Algebra(layout) }
    }

    /// A text of a notation that keeps more information than the algebra.
    pub fn from_written(notation: Notation, written: impl WrittenLayout) -> ParsedText {
        ParsedText { notation, form: LayoutForm::Written(Arc::new(written)) }
    }

    /// The layout in the terms of its notation, where the text is of the notation that has them.
    pub fn written_layout<T: WrittenLayout>(&self) -> Option<&T> {
        match &self.form {
            LayoutForm::Written(written) => (written.as_ref() as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// The text of a layout in the terms of its notation.
    pub(crate) fn written_notation_text(&self) -> String {
        match &self.form {
            LayoutForm::Written(written) => written.notation_text(),
            _ => String::new(),
        }
    }

    /// The notation it was written in.
    pub fn notation(&self) -> Notation {
        self.notation
    }

    /// The text of it in its own notation. Reading that gives the same again.
    pub fn notation_text(&self) -> String {
        (self.notation.table_row().print)(self)
    }

    /// The layout in the algebra. A Spyre text without `host_size` needs the shape of the host
    /// tensor: the text alone does not say which positions are padding.
    pub fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match &self.form {
            LayoutForm::Algebra(layout) => Ok(layout.clone()),
            LayoutForm::Host(host) => Ok(host.to_layout()?),
            LayoutForm::Written(written) => written.layout_over_shape(shape),
            LayoutForm::Device(stick) => match (stick.host(), shape) {
                (Some(_), _) => Ok(stick.lower_to_layout()?),
                (None, Some(shape)) => Ok(stick.with_host(shape, None)?.lower_to_layout()?),
                (None, None) => Err(Diagnostic::syntax_error(
                    0..0,
                    "the device layout does not say which positions are padding",
                    "which host tensor?",
                )
                .with_id("Z005")
                .with_help(
                    "give the shape of the host tensor, or write host_size=[..] in the layout",
                )),
            },
        }
    }

    /// The shape that its coordinates have where none is named.
    pub fn default_shape(&self) -> Option<Vec<i64>> {
        match &self.form {
            LayoutForm::Algebra(layout) => Some(layout.default_shape()),
            LayoutForm::Host(host) => Some(host.size().to_vec()),
            LayoutForm::Written(written) => written.default_shape(),
            LayoutForm::Device(stick) => stick.host().map(|h| h.size().to_vec()),
        }
    }

    /// Which reading was taken, where the text alone does not decide.
    pub fn reading_note(&self) -> Option<String> {
        match &self.form {
            LayoutForm::Written(written) => written.reading_note(),
            _ => None,
        }
    }

    /// The position of every element in one memory, if the notation itself defines it (see
    /// [`WrittenLayout::stored_elements`]).
    pub fn stored_elements(
        &self,
        shape: Option<&[i64]>,
    ) -> Option<Result<StoredElements, Diagnostic>> {
        match &self.form {
            LayoutForm::Written(written) => written.stored_elements(shape),
            _ => None,
        }
    }

    /// The number of positions of the tensor's memory with padding, if the notation itself defines it. A
    /// layout in the algebra ends at its last element or window, and does not determine how much memory
    /// follows.
    pub fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64, Diagnostic>> {
        match &self.form {
            LayoutForm::Device(stick) => Some(Ok(stick.count_positions())),
            LayoutForm::Written(written) => written.count_memory_positions(shape),
            LayoutForm::Algebra(_) | LayoutForm::Host(_) => None,
        }
    }

    /// The layout of the algebra, where the text is one of it.
    pub fn algebra_layout(&self) -> Option<&Layout> {
        match &self.form {
            LayoutForm::Algebra(layout) => Some(layout),
            _ => None,
        }
    }

    /// The host tensor, where the text describes one.
    pub fn host_layout(&self) -> Option<&StridedLayout> {
        match &self.form {
            LayoutForm::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The device layout, where the text describes one.
    pub fn stick_layout(&self) -> Option<&StickLayout> {
        match &self.form {
            LayoutForm::Device(stick) => Some(stick),
            _ => None,
        }
    }

    /// Bits of an element: those of the format or type that the text names, else `given`.
    pub fn element_bits(&self, given: Option<i64>) -> Option<i64> {
        let own = match &self.form {
            LayoutForm::Device(stick) => stick.device_dtype().bits(),
            LayoutForm::Written(written) => written.element_bits(),
            LayoutForm::Algebra(_) | LayoutForm::Host(_) => None,
        };
        own.or(given)
    }

    /// How wide an element is: the text's own format or type decides, then `given`, then 16 bits are assumed.
    pub fn element_size(&self, given: Option<i64>) -> ElementSize {
        // The text decides over the given dtype, because a format such as IEEE_FP32 is part of what
        // it describes.
        let (bits, source) = match (self.element_bits(None), given) {
            (Some(bits), _) => (bits, ElementSource::Text),
            (None, Some(bits)) => (bits, ElementSource::Dtype),
            (None, None) => (ASSUMED_BITS, ElementSource::Assumed),
        };
        ElementSize { bits, source }
    }
}

/// The shape over which two layouts are compared, of the shapes that each has: that of the first, unless
/// only the second is CuTe's. Over another shape the elements of most notations are taken in row-major
/// order, and those of CuTe with the first mode fastest, so that which of the two is named first would
/// matter.
///
/// **Law**: whether two layouts are equal over it does not depend on their order.
pub fn choose_shared_shape<'a>(
    a: (&ParsedText, &'a [i64]),
    b: (&ParsedText, &'a [i64]),
) -> &'a [i64] {
    let cute = |p: &ParsedText| p.notation() == Notation::CUTE;
    // CuTe counts the first mode fastest, so over a foreign shape its elements are enumerated in
    // another order than those of every other notation; over its own shape both agree on
    // coordinates.
    if cute(b.0) && !cute(a.0) { b.1 } else { a.1 }
}

/// The TIRx text of a layout.
impl From<Layout> for ParsedText {
    fn from(layout: Layout) -> ParsedText {
        ParsedText::from_layout(Notation::TIRX, layout)
    }
}

/// The PyTorch text of a host tensor.
impl From<StridedLayout> for ParsedText {
    fn from(host: StridedLayout) -> ParsedText {
        ParsedText { notation: Notation::TORCH, form: LayoutForm::Host(host) }
    }
}

/// The Spyre text of a device layout.
impl From<StickLayout> for ParsedText {
    fn from(stick: StickLayout) -> ParsedText {
        ParsedText { notation: Notation::SPYRE, form: LayoutForm::Device(stick) }
    }
}
