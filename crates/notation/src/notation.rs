//! The list of notations, and telling them apart.

use crate::cursor::Cursor;
use crate::{Diagnostic, spyre, tirx, torch};
use zellige_layout::{AxisTable, Layout, StickLayout, Strided};

/// The notations of the field, by the names that requests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// Shard, replica and offset on named axes.
    Tirx,
    /// A Spyre device layout.
    Spyre,
    /// PyTorch size and stride.
    Torch,
    /// CuTe shape and stride.
    Cute,
    /// Triton linear layouts.
    Linear,
    /// XLA minor-to-major with tiles.
    Xla,
    /// oneDNN format tags.
    Onednn,
    /// MLIR `linalg.pack`.
    Pack,
    /// JAX `PartitionSpec`.
    Jax,
    /// HLO sharding.
    Hlo,
    /// PyTorch `DTensor` placements.
    Dtensor,
}

impl Notation {
    /// Every notation, in the order of the documentation.
    pub const ALL: [Notation; 11] = [
        Notation::Tirx,
        Notation::Spyre,
        Notation::Torch,
        Notation::Cute,
        Notation::Linear,
        Notation::Xla,
        Notation::Onednn,
        Notation::Pack,
        Notation::Jax,
        Notation::Hlo,
        Notation::Dtensor,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Notation::Tirx => "tirx",
            Notation::Spyre => "spyre",
            Notation::Torch => "torch",
            Notation::Cute => "cute",
            Notation::Linear => "linear",
            Notation::Xla => "xla",
            Notation::Onednn => "onednn",
            Notation::Pack => "pack",
            Notation::Jax => "jax",
            Notation::Hlo => "hlo",
            Notation::Dtensor => "dtensor",
        }
    }

    /// The notation of that name.
    pub fn from_name(name: &str) -> Option<Notation> {
        Notation::ALL.into_iter().find(|n| n.name() == name)
    }

    /// Whether it is read and written yet.
    pub fn is_supported(self) -> bool {
        matches!(self, Notation::Tirx | Notation::Spyre | Notation::Torch)
    }
}

/// A text that was read, in the form of its notation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "parsed once and read; a box would cost more")]
pub enum Parsed {
    /// A layout of the algebra.
    Tirx(Layout),
    /// A Spyre device layout, possibly without its host tensor.
    Spyre(StickLayout),
    /// A host layout.
    Torch(Strided),
}

impl Parsed {
    /// The notation it was written in.
    pub fn notation(&self) -> Notation {
        match self {
            Parsed::Tirx(_) => Notation::Tirx,
            Parsed::Spyre(_) => Notation::Spyre,
            Parsed::Torch(_) => Notation::Torch,
        }
    }

    /// The layout in the algebra. A Spyre text without `host_size` needs the shape of the host
    /// tensor: the text alone does not say which positions are padding.
    pub fn layout(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match self {
            Parsed::Tirx(layout) => Ok(layout.clone()),
            Parsed::Torch(host) => Ok(host.to_layout()?),
            Parsed::Spyre(stick) => match (stick.host(), shape) {
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
        match self {
            Parsed::Tirx(layout) => Some(layout.default_shape()),
            Parsed::Torch(host) => Some(host.size().to_vec()),
            Parsed::Spyre(stick) => stick.host().map(|h| h.size().to_vec()),
        }
    }
}

/// Reads a text of any supported notation; which one is told by its first word.
pub fn parse(text: &str, axes: &AxisTable) -> Result<Parsed, Diagnostic> {
    let mut c = Cursor::new(text);
    let notation = match c.word().map(|w| w.value) {
        Some("SpyreTensorLayout") => Notation::Spyre,
        Some("size" | "stride" | "offset") => Notation::Torch,
        _ => Notation::Tirx,
    };
    parse_as(text, notation, axes)
}

/// Reads a text of a given notation.
pub fn parse_as(text: &str, notation: Notation, axes: &AxisTable) -> Result<Parsed, Diagnostic> {
    match notation {
        Notation::Tirx => tirx::parse(text, axes).map(Parsed::Tirx),
        Notation::Spyre => spyre::parse(text).map(Parsed::Spyre),
        Notation::Torch => torch::parse(text).map(Parsed::Torch),
        other => Err(Diagnostic::syntax(
            0..0,
            format!("the notation `{}` is not supported yet", other.name()),
            "not supported",
        )
        .id("Z006")
        .help("supported: tirx, spyre, torch")),
    }
}
