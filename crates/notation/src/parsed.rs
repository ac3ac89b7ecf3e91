//! A text that was read: what it describes, and the notation it was written in.

use crate::{Diagnostic, Notation};
use zellige_layout::{Layout, Strided};
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
}

impl Parsed {
    /// A text of some notation that describes a layout of the algebra.
    pub fn of_layout(notation: Notation, layout: Layout) -> Parsed {
        Parsed { notation, form: LayoutForm::Algebra(layout) }
    }

    /// The notation it was written in.
    pub fn notation(&self) -> Notation {
        self.notation
    }

    /// The text of it in its own notation. Reading that gives the same again.
    pub fn text(&self) -> String {
        self.notation.functions().map_or_else(String::new, |f| (f.print)(self))
    }

    /// The layout in the algebra. A Spyre text without `host_size` needs the shape of the host
    /// tensor: the text alone does not say which positions are padding.
    pub fn layout(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match &self.form {
            LayoutForm::Algebra(layout) => Ok(layout.clone()),
            LayoutForm::Host(host) => Ok(host.to_layout()?),
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
            LayoutForm::Device(stick) => stick.host().map(|h| h.size().to_vec()),
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

    /// Bits of an element: those of the device's format where the text names one, else `given`.
    pub fn element_bits(&self, given: Option<i64>) -> Option<i64> {
        match self.stick() {
            Some(stick) => stick.device_dtype().bits(),
            None => given,
        }
    }
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
