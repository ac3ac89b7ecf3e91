//! A text that was read: what it describes, and the notation it was written in.

use crate::{Diagnostic, Notation};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use zellige_layout::int::product;
use zellige_layout::{Error, Layout, Strided, check_sizes, unflatten};
use zellige_stick::StickLayout;

/// A text that was read.
///
/// [`Parsed::layout`] is the one answer that every notation has. What only some of them say (the
/// strides of a host tensor, the sticks of a device) is an `Option` here, so that nobody has to
/// know which notations there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    notation: Notation,
    form: LayoutForm,
}

/// What a text describes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "parsed once and read; a box would cost more")]
enum LayoutForm {
    /// A layout of the algebra.
    Algebra(Layout),
    /// A host tensor: one stride for every dimension.
    Host(Strided),
    /// A device layout, possibly without its host tensor.
    Device(StickLayout),
    /// What only one notation knows.
    Written(Arc<dyn WrittenLayout>),
}

/// A layout in the terms of one notation, where the algebra alone would lose some of it: the nesting of CuTe's modes,
/// the parameters of a Triton attribute, the tiles of XLA.
///
/// **Law**: two of one notation are equal where their texts are, so `text` says everything.
pub trait WrittenLayout: fmt::Debug + Any + Send + Sync {
    /// Its text. Reading that gives the same again.
    fn text(&self) -> String;

    /// The layout in the algebra; `shape` is the logical shape where the text does not say it.
    ///
    /// # Errors
    /// A shape that is missing or does not fit, and what the algebra cannot express.
    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic>;

    /// The shape that its coordinates have where none is named.
    fn default_shape(&self) -> Option<Vec<i64>>;

    /// Which reading was taken, where the text alone does not decide.
    fn note(&self) -> Option<String> {
        None
    }

    /// Where every element lies in one memory, by the notation's own definition, and how many positions that memory has.
    /// `None` for a notation that leaves both to the layout in the algebra.
    fn stored(&self, shape: Option<&[i64]>) -> Option<Result<Stored, Diagnostic>> {
        let _ = shape;
        None
    }

    /// How many positions its memory has, padding counted, where the notation itself says so: also those behind the last
    /// that an index reaches.
    fn positions(&self, shape: Option<&[i64]>) -> Option<Result<i64, Diagnostic>> {
        let _ = shape;
        None
    }

    /// The bits of an element, where the text says them.
    fn element_bits(&self) -> Option<i64> {
        None
    }
}

/// The memory of a tensor: the position of every element in row-major order, and the number of positions, padding counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The position of every element, in row-major order of their coordinates.
    pub order: Vec<i64>,
    /// The number of positions.
    pub positions: i64,
}

impl Stored {
    /// Checks that a shape has as many elements.
    pub fn admit(&self, shape: &[i64]) -> Result<(), Error> {
        check_sizes(shape)?;
        let found = product(shape.iter().copied(), "the number of elements of the shape")?;
        let expected = i64::try_from(self.order.len()).unwrap_or(i64::MAX);
        if found == expected {
            return Ok(());
        }
        let what = format!("shape {shape:?}");
        Err(Error::SizeMismatch { what, expected, found: found.into() })
    }
}

/// Bits of an element where nothing says them.
const ASSUMED_BITS: i64 = 16;

/// How wide an element is, and where that is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementSize {
    /// Bits of an element.
    pub bits: i64,
    /// What says so.
    pub source: ElementSource,
}

/// What says how wide an element is.
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
    /// The bits, where something says them.
    pub fn known(self) -> Option<i64> {
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
const MAX_STORED: i64 = 1 << 24;

/// The position of every element of a shape, in row-major order.
pub(crate) fn stored_order(
    shape: &[i64],
    position: impl Fn(&[i64]) -> Result<i64, Diagnostic>,
) -> Result<Vec<i64>, Diagnostic> {
    let size = product(shape.iter().copied(), "the number of elements of the shape")?;
    if size > MAX_STORED {
        let limit = MAX_STORED.cast_unsigned();
        return Err(Error::TooLarge { what: "listing positions", limit }.into());
    }
    let count = usize::try_from(size).unwrap_or(0);
    zellige_guard::reserve(size_of::<i64>().saturating_mul(count));
    let mut order = Vec::with_capacity(count);
    for flat in 0..size {
        zellige_guard::step();
        order.push(position(&unflatten(shape, flat))?);
    }
    Ok(order)
}

impl PartialEq for dyn WrittenLayout {
    fn eq(&self, other: &dyn WrittenLayout) -> bool {
        self.text() == other.text()
    }
}

impl Eq for dyn WrittenLayout {}

impl Parsed {
    /// A text of some notation that describes a layout of the algebra.
    pub fn of_layout(notation: Notation, layout: Layout) -> Parsed {
        Parsed { notation, form: LayoutForm::Algebra(layout) }
    }

    /// A text of some notation that knows more of it than the algebra.
    pub fn of_written(notation: Notation, written: impl WrittenLayout) -> Parsed {
        Parsed { notation, form: LayoutForm::Written(Arc::new(written)) }
    }

    /// The layout in the terms of its notation, where the text is of the notation that has them.
    pub fn written<T: WrittenLayout>(&self) -> Option<&T> {
        match &self.form {
            LayoutForm::Written(written) => (written.as_ref() as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// The text of a layout in the terms of its notation.
    pub(crate) fn written_text(&self) -> String {
        match &self.form {
            LayoutForm::Written(written) => written.text(),
            _ => String::new(),
        }
    }

    /// The notation it was written in.
    pub fn notation(&self) -> Notation {
        self.notation
    }

    /// The text of it in its own notation. Reading that gives the same again.
    pub fn text(&self) -> String {
        (self.notation.row().print)(self)
    }

    /// The layout in the algebra. A Spyre text without `host_size` needs the shape of the host
    /// tensor: the text alone does not say which positions are padding.
    pub fn layout(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match &self.form {
            LayoutForm::Algebra(layout) => Ok(layout.clone()),
            LayoutForm::Host(host) => Ok(host.to_layout()?),
            LayoutForm::Written(written) => written.layout(shape),
            LayoutForm::Device(stick) => match (stick.host(), shape) {
                (Some(_), _) => Ok(stick.lower()?),
                (None, Some(shape)) => Ok(stick.with_host(shape, None)?.lower()?),
                (None, None) => Err(Diagnostic::syntax(
                    0..0,
                    "the device layout does not say which positions are padding",
                    "which host tensor?",
                )
                .id("Z005")
                .help("give the shape of the host tensor, or write host_size=[..] in the layout")),
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
    pub fn note(&self) -> Option<String> {
        match &self.form {
            LayoutForm::Written(written) => written.note(),
            _ => None,
        }
    }

    /// Where every element lies in one memory, where the notation itself says so (see [`WrittenLayout::stored`]).
    pub fn stored(&self, shape: Option<&[i64]>) -> Option<Result<Stored, Diagnostic>> {
        match &self.form {
            LayoutForm::Written(written) => written.stored(shape),
            _ => None,
        }
    }

    /// How many positions the memory of the tensor has, padding counted, where the notation itself says so. A layout in the
    /// algebra ends at its last element or window: it does not say how much memory follows.
    pub fn positions(&self, shape: Option<&[i64]>) -> Option<Result<i64, Diagnostic>> {
        match &self.form {
            LayoutForm::Device(stick) => Some(Ok(stick.positions())),
            LayoutForm::Written(written) => written.positions(shape),
            LayoutForm::Algebra(_) | LayoutForm::Host(_) => None,
        }
    }

    /// The layout of the algebra, where the text is one of it.
    pub fn algebra(&self) -> Option<&Layout> {
        match &self.form {
            LayoutForm::Algebra(layout) => Some(layout),
            _ => None,
        }
    }

    /// The host tensor, where the text describes one.
    pub fn host(&self) -> Option<&Strided> {
        match &self.form {
            LayoutForm::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The device layout, where the text describes one.
    pub fn stick(&self) -> Option<&StickLayout> {
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
        let (bits, source) = match (self.element_bits(None), given) {
            (Some(bits), _) => (bits, ElementSource::Text),
            (None, Some(bits)) => (bits, ElementSource::Dtype),
            (None, None) => (ASSUMED_BITS, ElementSource::Assumed),
        };
        ElementSize { bits, source }
    }
}

/// The shape over which two layouts are compared, of the shapes that each has: that of the first, unless only the second is
/// CuTe's. Over another shape the elements of most notations are taken in row-major order, and those of CuTe with the
/// first mode fastest, so that which of the two is named first would matter.
///
/// **Law**: whether two layouts are equal over it does not depend on their order.
pub fn shared_shape<'a>(a: (&Parsed, &'a [i64]), b: (&Parsed, &'a [i64])) -> &'a [i64] {
    let cute = |p: &Parsed| p.notation() == Notation::CUTE;
    if cute(b.0) && !cute(a.0) { b.1 } else { a.1 }
}

/// The TIRx text of a layout.
impl From<Layout> for Parsed {
    fn from(layout: Layout) -> Parsed {
        Parsed::of_layout(Notation::TIRX, layout)
    }
}

/// The PyTorch text of a host tensor.
impl From<Strided> for Parsed {
    fn from(host: Strided) -> Parsed {
        Parsed { notation: Notation::TORCH, form: LayoutForm::Host(host) }
    }
}

/// The Spyre text of a device layout.
impl From<StickLayout> for Parsed {
    fn from(stick: StickLayout) -> Parsed {
        Parsed { notation: Notation::SPYRE, form: LayoutForm::Device(stick) }
    }
}
