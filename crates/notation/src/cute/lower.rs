//! From a CuTe text to a layout of the algebra.

use super::dsl::DslPointer;
use super::modes::{CuteMode, CuteModes, IntegerStyle};
use super::text::{
    CuteInt, CuteText, CuteValue, LayoutText, SwizzleTarget, SwizzleText, TensorEngine,
};
use crate::{Diagnostic, WrittenLayout};
use zellige_layout::{Axis, Layout, LayoutError, Swizzle, TileLayout};

type Result<T> = std::result::Result<T, Diagnostic>;

impl WrittenLayout for CuteText {
    fn notation_text(&self) -> String {
        CuteText::print_cute_text(self)
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        self.as_layout_text()?.lower_to_layout(shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.as_layout_text().ok()?.modes_with_numbers(None).ok()?.mode_sizes().ok()
    }

    fn reading_note(&self) -> Option<String> {
        match self {
            CuteText::Layout(layout) => layout.reading_note_of_layout(),
            _ => None,
        }
    }

    fn element_bits(&self) -> Option<i64> {
        let layout = self.as_layout_text().ok()?;
        let swizzled = layout.swizzle.as_ref().and_then(|(_, of)| match of {
            SwizzleTarget::UnsetPointer(engine) | SwizzleTarget::Pointer(engine) => Some(engine),
            SwizzleTarget::Elements(_) => None,
        });
        match layout.engine.as_ref().or(swizzled)? {
            TensorEngine::Pointer { bits, .. } => Some(*bits),
            TensorEngine::Dsl(pointer) => Some(pointer.bits),
            _ => None,
        }
    }
}

impl CuteText {
    /// The layout, or an error that says what the text is instead.
    pub fn as_layout_text(&self) -> Result<&LayoutText> {
        let (message, help) = match self {
            CuteText::Layout(layout) => return Ok(layout),
            CuteText::Swizzle(_) => (
                "a swizzle alone is not a layout".into(),
                format!("write what it acts on: {} o 0 o (8,64):(64,1)", self.print_cute_text()),
            ),
            CuteText::Atom(atom) => {
                let names: Vec<&str> = atom.layouts_by_name().map(|(name, _)| name).collect();
                let help = format!("take one of them: {}", names.join(", "));
                ("an atom holds several layouts".into(), help)
            }
            CuteText::Value(value) => {
                let tiler = value.leaves().iter().any(|v| matches!(v, CuteValue::Modes(_)));
                if tiler {
                    let message = "a tiler is a list of layouts, one for each mode";
                    (message.into(), "take one of them".into())
                } else if matches!(value, super::NestedTuple::Leaf(CuteValue::Wildcard)) {
                    let message =
                        "`_` takes the whole of a mode when a tensor is sliced; it is not a layout";
                    (message.into(), "write a layout such as (_8,_4):(_4,_1)".into())
                } else {
                    let help = "a layout has strides: (8,4):(1,8), first mode fastest".into();
                    (format!("{} has no strides", self.print_cute_text()), help)
                }
            }
        };
        Err(Diagnostic::syntax_error(0..0, message, "no layout").with_help(help))
    }
}

impl LayoutText {
    /// The modes as numbers. An extent that the text leaves open is that of the shape, where a shape
    /// is given and the extent is a whole mode.
    pub fn modes_with_numbers(&self, shape: Option<&[i64]>) -> Result<CuteModes> {
        let mut modes = self.modes.clone();
        if let Some(shape) = shape {
            let tops: &mut [_] = match &mut modes {
                super::NestedTuple::Tuple(tops) => tops,
                leaf => std::slice::from_mut(leaf),
            };
            for (top, size) in tops.iter_mut().zip(shape) {
                // Only an extent that is a whole mode can be taken from the shape: inside a nested
                // mode the shape fixes a product alone.
                if let super::NestedTuple::Leaf(m) = top
                    && let CuteInt::Unknown { div, .. } = m.extent
                {
                    if div.is_some_and(|d| size % d != 0) {
                        let error = LayoutError::BadParameter {
                            what: "a size of the shape",
                            value: *size,
                            accepted: format!("the layout says {}", m.extent.print_cute_text()),
                        };
                        return Err(error.into());
                    }
                    m.extent = CuteInt::Bare(*size);
                }
            }
        }
        let known = |int: &CuteInt, what: &str| {
            int.known_value().ok_or_else(|| {
                let message = format!(
                    "{what} `{}` is known only when the program runs",
                    int.print_cute_text()
                );
                Diagnostic::syntax_error(0..0, message, "not known")
                    .with_help("write a number; an extent of a whole mode may come from `shape`")
            })
        };
        let numbers = modes.try_map_leaves(&mut |m| {
            Ok::<_, Diagnostic>(CuteMode {
                extent: known(&m.extent, "the extent")?,
                stride: known(&m.stride.scale, "the stride")?,
                basis: m.stride.basis.clone(),
            })
        })?;
        Ok(numbers)
    }

    /// Static where every integer is written so.
    pub fn integer_style(&self) -> IntegerStyle {
        let leaves = self.modes.leaves();
        let fixed = |int: &CuteInt| matches!(int, CuteInt::Static(_));
        // One run-time integer makes a layout dynamic in CuTe, so static style is kept only for
        // fully static ones.
        let all = leaves.iter().all(|m| fixed(&m.extent) && fixed(&m.stride.scale));
        if all && !leaves.is_empty() { IntegerStyle::Static } else { IntegerStyle::Bare }
    }

    /// The swizzle of element offsets and the offset before it.
    pub fn element_swizzle(&self) -> Result<Option<(Swizzle, i64)>> {
        match &self.swizzle {
            None => match &self.engine {
                Some(TensorEngine::Dsl(DslPointer { swizzle: Some(sw), bits, .. })) => {
                    Ok(Some((sw.swizzle_of_elements(log2_bytes_of_bits(*bits)?)?, 0)))
                }
                _ => Ok(None),
            },
            Some((sw, SwizzleTarget::Elements(offset))) => {
                let offset =
                    offset.as_ref().map_or(Some(0), CuteInt::known_value).ok_or_else(|| {
                        let message = "the offset is known only when the program runs";
                        Diagnostic::syntax_error(0..0, message, "not known")
                    })?;
                Ok(Some((sw.swizzle_of_elements(0)?, offset)))
            }
            Some((sw, SwizzleTarget::UnsetPointer(engine))) => {
                Ok(Some((sw.swizzle_of_elements(log2_bytes_of_engine(engine)?)?, 0)))
            }
            Some((sw, SwizzleTarget::Pointer(engine))) => {
                let swizzle = sw.swizzle_of_elements(log2_bytes_of_engine(engine)?)?;
                Ok(Some((swizzle, first_element_of_pointer(engine, swizzle)?)))
            }
        }
    }

    fn lower_to_layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let modes = self.modes_with_numbers(shape)?;
        let iters = match shape {
            Some(shape) if modes.mode_sizes()? != shape => modes.iters_by_shape(shape)?,
            _ => modes.iters_by_coordinate()?,
        };
        let layout = match self.element_swizzle()? {
            None => TileLayout::new(iters, Vec::new(), self.first_mode_coordinate()?)?.into(),
            Some((swizzle, offset)) => {
                let offset = (offset != 0).then_some((Axis::M, offset));
                let tile = TileLayout::new(iters, Vec::new(), offset)?;
                // The identity is dropped, because a swizzle would require addresses of 0 or more.
                if swizzle.is_identity() {
                    tile.into()
                } else {
                    Layout::from_swizzled_tile(swizzle, tile)?
                }
            }
        };
        if let Some(shape) = shape {
            layout.check_shape_size(shape)?;
        }
        Ok(layout)
    }

    /// The coordinate that a coordinate tensor begins at, on the axes of its modes.
    fn first_mode_coordinate(&self) -> Result<Vec<(Axis, i64)>> {
        let Some(TensorEngine::Coordinates(at) | TensorEngine::DslCoordinates(at)) = &self.engine
        else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let mut stack = vec![(Vec::new(), at)];
        while let Some((basis, at)) = stack.pop() {
            match at {
                super::NestedTuple::Tuple(parts) => {
                    stack.extend(parts.iter().enumerate().map(|(k, part)| {
                        (basis.iter().copied().chain([k]).collect::<Vec<usize>>(), part)
                    }));
                }
                super::NestedTuple::Leaf(CuteValue::Int(int)) => match int.known_value() {
                    Some(0) => {}
                    Some(v) if basis.is_empty() => found.push((Axis::M, v)),
                    Some(v) => found.push((super::axis_of_mode_basis(&basis)?, v)),
                    None => {
                        let message = "the first coordinate is known only when the program runs";
                        return Err(Diagnostic::syntax_error(0..0, message, "not known"));
                    }
                },
                super::NestedTuple::Leaf(_) => {
                    let message = "a coordinate is made of integers";
                    return Err(Diagnostic::syntax_error(0..0, message, "no coordinate"));
                }
            }
        }
        Ok(found)
    }

    /// The interpretation that was chosen, if the text alone does not determine one.
    fn reading_note_of_layout(&self) -> Option<String> {
        if let Some(TensorEngine::Dsl(DslPointer { swizzle: Some(sw), .. })) = &self.engine {
            let (found, _) = self.element_swizzle().ok()??;
            return Some(describe_byte_swizzle(sw, found));
        }
        let (sw, of) = self.swizzle.as_ref()?;
        let text = sw.print_cute_text();
        Some(match of {
            SwizzleTarget::Elements(_) if sw.dsl => format!(
                "{text} is read as a swizzle of element offsets, as it is written; the C++ atom of that \
                 name swizzles byte addresses"
            ),
            // CuTe's <B,M,S> and TIRx's (M,B,S) are the same numbers if B equals M, so there is nothing to confuse.
            SwizzleTarget::Elements(_) if sw.bits == sw.base || sw.bits == 0 => return None,
            SwizzleTarget::Elements(_) => format!(
                "{text} is <bits, base, shift>: TIRx writes the base first, Swizzle({},{},{}{})",
                sw.base,
                sw.bits,
                sw.shift.abs(),
                if sw.shift < 0 { ",outer" } else { "" }
            ),
            SwizzleTarget::UnsetPointer(_) | SwizzleTarget::Pointer(_) => {
                let (found, _) = self.element_swizzle().ok()??;
                describe_byte_swizzle(sw, found)
            }
        })
    }
}

/// A note on the swizzle of element offsets that equals a swizzle of byte addresses.
fn describe_byte_swizzle(sw: &SwizzleText, found: Swizzle) -> String {
    format!(
        "{} swizzles byte addresses; on element offsets it is Sw<{},{},{}>",
        sw.print_cute_text(),
        sw.bits,
        found.per_element(),
        sw.shift
    )
}

impl SwizzleText {
    /// The swizzle of offsets of elements of `2^log2` bytes.
    fn swizzle_of_elements(&self, log2: i64) -> Result<Swizzle> {
        // A byte address is an element offset shifted left by `log2` bits, so the fields are that
        // much lower in the offset.
        let base = self.base - log2;
        if base < 0 && self.bits > 0 {
            let message = format!(
                "{} moves bits inside an element of {} bytes",
                self.print_cute_text(),
                1i64.checked_shl(u32::try_from(log2).unwrap_or(63)).unwrap_or(i64::MAX)
            );
            return Err(Diagnostic::syntax_error(0..0, message, "no layout of elements")
                .with_help(format!("M must be at least {log2}")));
        }
        Ok(Swizzle::new(base.max(0), self.bits, self.shift.abs(), self.shift >= 0)?)
    }
}

/// The binary logarithm of the bytes of an element; below 0 for elements of less than a byte.
fn log2_bytes_of_engine(engine: &TensorEngine) -> Result<i64> {
    match engine {
        TensorEngine::Pointer { bits, .. } => log2_bytes_of_bits(*bits),
        _ => Ok(0),
    }
}

fn log2_bytes_of_bits(bits: i64) -> Result<i64> {
    if bits.count_ones() != 1 {
        let message = format!("a swizzle of bytes does not move whole elements of {bits} bits");
        return Err(Diagnostic::syntax_error(0..0, message, "no layout of elements")
            .with_help("elements of 1, 2, 4, 8, 16, .. bits are moved whole"));
    }
    Ok(i64::from(bits.trailing_zeros()) - 3)
}

/// The offset of the first element behind a pointer, counted in elements from the next lower address that
/// is a multiple of the swizzle's period. The swizzle commutes with multiples of its period, so only this
/// rest of the address matters.
fn first_element_of_pointer(engine: &TensorEngine, swizzle: Swizzle) -> Result<i64> {
    let TensorEngine::Pointer { bits, address, .. } = engine else { return Ok(0) };
    let Some(digits) = address.strip_prefix("0x") else { return Ok(0) };
    let digits = digits.split(['.', '+']).next().unwrap_or(digits);
    let address = i128::from(u64::from_str_radix(digits, 16).unwrap_or(0)) * 8;
    let low = address % (i128::from(*bits) << swizzle.affected_low_bits());
    if low % i128::from(*bits) != 0 {
        let message = format!("the address is not a multiple of the {bits} bits of an element");
        return Err(Diagnostic::syntax_error(0..0, message, "not aligned"));
    }
    Ok(i64::try_from(low / i128::from(*bits))
        .map_err(|_| LayoutError::overflow_of("the address"))?)
}
