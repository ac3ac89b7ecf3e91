//! CuTe's operators on nested modes, each with its law and the nesting that CuTe promises.
//!
//! The algebra decides composition, complement and inverses without enumeration; this module gives the
//! results their nesting. Answers are exact: if no layout of the promised nesting is the function that the
//! law describes, the refusal names an index that shows it.
//!
//! An index past the end of a layout continues along its last mode, as in CuTe, where a tile may be larger
//! than the rest of a mode: `7:1` divided by `3:1` is `(3,3):(1,3)`.

mod compose;
mod divide;
mod inverse;
mod product;

pub use compose::{coalesce, composition};
pub use divide::{TileArrangement, divide_by_tiler};
pub use inverse::{complement, left_inverse, right_inverse};
pub use product::{blocked_product, product_with_tiler, raked_product};

use super::modes::{CuteMode, CuteModes, mode_basis_of_axis};
use super::nest::NestedTuple;
use super::text::{CuteInt, CuteText, CuteValue, LayoutText, SwizzleTarget};
use crate::Diagnostic;
use zellige_layout::{Iter, LayoutError, Result};

/// The second operand of a divide, a product or a composition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tiler {
    /// One layout for the whole.
    Layout(CuteModes),
    /// One for each of the first modes.
    ByMode(Vec<Tiler>),
    /// `_`: the mode stays as it is.
    Keep,
}

impl Tiler {
    /// The tiler of a text: a layout, a list of layouts, or sizes.
    pub fn from_cute_text(text: &CuteText) -> Result<Tiler, Diagnostic> {
        match text {
            CuteText::Value(value) => Tiler::from_nested_value(value),
            other => {
                let layout = other.as_layout_text()?;
                require_plain_layout(layout)?;
                Ok(Tiler::Layout(layout.modes_with_numbers(None)?))
            }
        }
    }

    fn from_nested_value(value: &NestedTuple<CuteValue>) -> Result<Tiler, Diagnostic> {
        let refuse = |what: String| {
            Err(Diagnostic::syntax_error(0..0, format!("{what} is not a tiler"), "no tiler")
                .with_help("a tiler is a layout, a size, or a list of these: (4:1,8:2)"))
        };
        match value {
            NestedTuple::Tuple(entries) => Ok(Tiler::ByMode(
                entries.iter().map(Tiler::from_nested_value).collect::<Result<_, _>>()?,
            )),
            // In CuTe an integer as a tiler means the layout `n:1`.
            NestedTuple::Leaf(CuteValue::Int(CuteInt::Bare(n) | CuteInt::Static(n))) if *n > 0 => {
                Ok(Tiler::Layout(NestedTuple::Leaf(CuteMode::new(*n, 1))))
            }
            NestedTuple::Leaf(CuteValue::Modes(modes)) => {
                let layout = LayoutText { engine: None, swizzle: None, modes: modes.clone() };
                Ok(Tiler::Layout(layout.modes_with_numbers(None)?))
            }
            NestedTuple::Leaf(CuteValue::Wildcard) => Ok(Tiler::Keep),
            NestedTuple::Leaf(other) => refuse(other.print_cute_text()),
        }
    }
}

/// Refuses a swizzle or pointer before the modes, for operators that are not defined on these.
pub fn require_plain_layout(layout: &LayoutText) -> Result<(), Diagnostic> {
    match (&layout.swizzle, &layout.engine) {
        (None, None) => Ok(()),
        (Some((sw, SwizzleTarget::Elements(_))), _) if sw.bits == 0 && layout.engine.is_none() => {
            Ok(())
        }
        (Some((sw, _)), _) => {
            let message = format!(
                "the operator is not defined here behind the swizzle {}",
                sw.print_cute_text()
            );
            Err(Diagnostic::syntax_error(0..0, message, "swizzled")
                .with_help("take the layout inside it"))
        }
        (None, Some(engine)) => {
            let message =
                format!("{} is a tensor; the operator takes its layout", engine.print_cute_text());
            Err(Diagnostic::syntax_error(0..0, message, "a tensor")
                .with_help("leave out the pointer"))
        }
    }
}

/// The mode of an iter.
fn mode_of_iter(it: &Iter) -> Result<CuteMode> {
    // A stride of 0 steps along no axis, so it is written without a basis whatever its axis is.
    if it.stride == 0 {
        return Ok(CuteMode::new(it.extent, 0));
    }
    let basis = mode_basis_of_axis(it.axis).ok_or_else(|| LayoutError::NotOneAxis {
        op: "cute",
        axis: "m".into(),
        found: format!("`{}`", it.axis.name()),
    })?;
    Ok(CuteMode { extent: it.extent, stride: it.stride, basis })
}

/// The modes that a tiler of several parts acts on, and those that are left.
fn split_modes_by_tiler<'a>(
    a: &'a CuteModes,
    parts: &[Tiler],
) -> Result<(&'a [CuteModes], &'a [CuteModes])> {
    let modes = a.top_modes();
    if parts.len() > modes.len() {
        return Err(LayoutError::LengthMismatch {
            what: "the tiler",
            expected: modes.len(),
            found: parts.len(),
        });
    }
    Ok(modes.split_at(parts.len()))
}

/// A refusal inside one mode, with the number of the mode.
fn refuse_in_mode(i: usize) -> impl Fn(LayoutError) -> LayoutError {
    move |e| match e {
        LayoutError::NotExpressible { reason, index } => {
            LayoutError::NotExpressible { reason: format!("in mode {i}, {reason}"), index }
        }
        other => other,
    }
}
