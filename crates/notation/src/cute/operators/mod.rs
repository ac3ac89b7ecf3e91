//! CuTe's operators on nested modes, each with its law and the nesting that CuTe promises.
//!
//! What every operator asks of composition, complement and inverses is decided by the algebra without
//! enumeration; here is how the answer is nested. Answers are exact: where no layout of the promised
//! nesting is the function that the law describes, the refusal names an index that shows it.
//!
//! An index past the end of a layout goes on along its last mode, as in CuTe, where a tile may be
//! larger than what is left: `7:1` divided by `3:1` is `(3,3):(1,3)`.

mod compose;
mod divide;
mod inverse;
mod product;

pub use compose::{coalesce, composition};
pub use divide::{Arrange, divide};
pub use inverse::{complement, left_inverse, right_inverse};
pub use product::{blocked_product, product, raked_product};

use super::modes::{Mode, Modes, axis_basis};
use super::nest::Nest;
use super::text::{CuteText, Int, LayoutText, SwizzleOf, Value};
use crate::Diagnostic;
use zellige_layout::{Error, Iter, Result};

/// What a layout is divided, multiplied or composed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tiler {
    /// One layout for the whole.
    Layout(Modes),
    /// One for each of the first modes.
    ByMode(Vec<Tiler>),
    /// `_`: the mode stays as it is.
    Keep,
}

impl Tiler {
    /// The tiler that a text says: a layout, a list of layouts, or sizes.
    pub fn of_text(text: &CuteText) -> Result<Tiler, Diagnostic> {
        match text {
            CuteText::Value(value) => Tiler::of_value(value),
            other => {
                let layout = other.as_layout()?;
                plain(layout)?;
                Ok(Tiler::Layout(layout.numbers(None)?))
            }
        }
    }

    fn of_value(value: &Nest<Value>) -> Result<Tiler, Diagnostic> {
        let refuse = |what: String| {
            Err(Diagnostic::syntax(0..0, format!("{what} is no tiler"), "no tiler")
                .help("a tiler is a layout, a size, or a list of these: (4:1,8:2)"))
        };
        match value {
            Nest::Tuple(entries) => {
                Ok(Tiler::ByMode(entries.iter().map(Tiler::of_value).collect::<Result<_, _>>()?))
            }
            Nest::Leaf(Value::Int(Int::Bare(n) | Int::Static(n))) if *n > 0 => {
                Ok(Tiler::Layout(Nest::Leaf(Mode::new(*n, 1))))
            }
            Nest::Leaf(Value::Modes(modes)) => {
                let layout = LayoutText { engine: None, swizzle: None, modes: modes.clone() };
                Ok(Tiler::Layout(layout.numbers(None)?))
            }
            Nest::Leaf(Value::Wildcard) => Ok(Tiler::Keep),
            Nest::Leaf(other) => refuse(other.text()),
        }
    }
}

/// Refuses what stands before the modes, for operators that are not defined on it.
pub fn plain(layout: &LayoutText) -> Result<(), Diagnostic> {
    match (&layout.swizzle, &layout.engine) {
        (None, None) => Ok(()),
        (Some((sw, SwizzleOf::Elements(_))), _) if sw.bits == 0 && layout.engine.is_none() => {
            Ok(())
        }
        (Some((sw, _)), _) => {
            let message =
                format!("the operator is not defined here behind the swizzle {}", sw.text());
            Err(Diagnostic::syntax(0..0, message, "swizzled").help("take the layout inside it"))
        }
        (None, Some(engine)) => {
            let message = format!("{} is a tensor; the operator takes its layout", engine.text());
            Err(Diagnostic::syntax(0..0, message, "a tensor").help("leave the pointer away"))
        }
    }
}

/// The mode of an iter.
fn mode_of(it: &Iter) -> Result<Mode> {
    if it.stride == 0 {
        return Ok(Mode::new(it.extent, 0));
    }
    let basis = axis_basis(it.axis).ok_or_else(|| Error::NotOneAxis {
        op: "cute",
        axis: "m".into(),
        found: format!("`{}`", it.axis.name()),
    })?;
    Ok(Mode { extent: it.extent, stride: it.stride, basis })
}

/// The modes that a tiler of several parts acts on, and those that are left.
fn by_mode<'a>(a: &'a Modes, parts: &[Tiler]) -> Result<(&'a [Modes], &'a [Modes])> {
    let modes = a.modes();
    if parts.len() > modes.len() {
        return Err(Error::LengthMismatch {
            what: "the tiler",
            expected: modes.len(),
            found: parts.len(),
        });
    }
    Ok(modes.split_at(parts.len()))
}

/// A refusal inside one mode, with the number of the mode.
fn in_mode(i: usize) -> impl Fn(Error) -> Error {
    move |e| match e {
        Error::NotExpressible { reason, index } => {
            Error::NotExpressible { reason: format!("in mode {i}, {reason}"), index }
        }
        other => other,
    }
}
