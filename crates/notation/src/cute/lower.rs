//! From a CuTe text to a layout of the algebra.

use super::dsl::DslPointer;
use super::modes::{Look, Mode, Modes};
use super::text::{CuteText, Engine, Int, LayoutText, SwizzleOf, SwizzleText, Value};
use crate::{Diagnostic, WrittenLayout};
use zellige_layout::{Axis, Error, Layout, Swizzle, TileLayout};

type Result<T> = std::result::Result<T, Diagnostic>;

impl WrittenLayout for CuteText {
    fn text(&self) -> String {
        CuteText::text(self)
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        self.as_layout()?.lower(shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.as_layout().ok()?.numbers(None).ok()?.mode_sizes().ok()
    }

    fn note(&self) -> Option<String> {
        match self {
            CuteText::Layout(layout) => layout.note(),
            _ => None,
        }
    }

    fn element_bits(&self) -> Option<i64> {
        let layout = self.as_layout().ok()?;
        let swizzled = layout.swizzle.as_ref().and_then(|(_, of)| match of {
            SwizzleOf::UnsetPointer(engine) | SwizzleOf::Pointer(engine) => Some(engine),
            SwizzleOf::Elements(_) => None,
        });
        match layout.engine.as_ref().or(swizzled)? {
            Engine::Pointer { bits, .. } => Some(*bits),
            Engine::Dsl(pointer) => Some(pointer.bits),
            _ => None,
        }
    }
}

impl CuteText {
    /// The layout that it is, or what it is instead.
    pub fn as_layout(&self) -> Result<&LayoutText> {
        let (message, help) = match self {
            CuteText::Layout(layout) => return Ok(layout),
            CuteText::Swizzle(_) => (
                "a swizzle alone is no layout".into(),
                format!("write what it acts on: {} o 0 o (8,64):(64,1)", self.text()),
            ),
            CuteText::Atom(atom) => {
                let names: Vec<&str> = atom.layouts().map(|(name, _)| name).collect();
                let help = format!("take one of them: {}", names.join(", "));
                ("an atom holds several layouts".into(), help)
            }
            CuteText::Value(value) => {
                let tiler = value.leaves().iter().any(|v| matches!(v, Value::Modes(_)));
                if tiler {
                    let message = "a tiler is a list of layouts, one for each mode";
                    (message.into(), "take one of them".into())
                } else if matches!(value, super::Nest::Leaf(Value::Wildcard)) {
                    let message =
                        "`_` takes the whole of a mode when a tensor is sliced; it is no layout";
                    (message.into(), "write a layout such as (_8,_4):(_4,_1)".into())
                } else {
                    let help = "a layout has strides: (8,4):(1,8), first mode fastest".into();
                    (format!("{} has no strides", self.text()), help)
                }
            }
        };
        Err(Diagnostic::syntax(0..0, message, "no layout").help(help))
    }
}

impl LayoutText {
    /// The modes as numbers. An extent that the text leaves open is that of the shape, where a shape
    /// is given and the extent is a whole mode.
    pub fn numbers(&self, shape: Option<&[i64]>) -> Result<Modes> {
        let mut modes = self.modes.clone();
        if let Some(shape) = shape {
            let tops: &mut [_] = match &mut modes {
                super::Nest::Tuple(tops) => tops,
                leaf => std::slice::from_mut(leaf),
            };
            for (top, size) in tops.iter_mut().zip(shape) {
                if let super::Nest::Leaf(m) = top
                    && let Int::Unknown { div, .. } = m.extent
                {
                    if div.is_some_and(|d| size % d != 0) {
                        let error = Error::BadParameter {
                            what: "a size of the shape",
                            value: *size,
                            accepted: format!("the layout says {}", m.extent.text()),
                        };
                        return Err(error.into());
                    }
                    m.extent = Int::Bare(*size);
                }
            }
        }
        let known = |int: &Int, what: &str| {
            int.value().ok_or_else(|| {
                let message =
                    format!("{what} `{}` is known only when the program runs", int.text());
                Diagnostic::syntax(0..0, message, "not known")
                    .help("write a number; an extent of a whole mode may come from `shape`")
            })
        };
        let numbers = modes.try_map(&mut |m| {
            Ok::<_, Diagnostic>(Mode {
                extent: known(&m.extent, "the extent")?,
                stride: known(&m.stride.scale, "the stride")?,
                basis: m.stride.basis.clone(),
            })
        })?;
        Ok(numbers)
    }

    /// Static where every integer is written so.
    pub fn look(&self) -> Look {
        let leaves = self.modes.leaves();
        let fixed = |int: &Int| matches!(int, Int::Static(_));
        let all = leaves.iter().all(|m| fixed(&m.extent) && fixed(&m.stride.scale));
        if all && !leaves.is_empty() { Look::Static } else { Look::Bare }
    }

    /// The swizzle of element offsets and the offset before it.
    pub fn element_swizzle(&self) -> Result<Option<(Swizzle, i64)>> {
        match &self.swizzle {
            None => match &self.engine {
                Some(Engine::Dsl(DslPointer { swizzle: Some(sw), bits, .. })) => {
                    Ok(Some((sw.on_elements(log2_bytes(*bits)?)?, 0)))
                }
                _ => Ok(None),
            },
            Some((sw, SwizzleOf::Elements(offset))) => {
                let offset = offset.as_ref().map_or(Some(0), Int::value).ok_or_else(|| {
                    let message = "the offset is known only when the program runs";
                    Diagnostic::syntax(0..0, message, "not known")
                })?;
                Ok(Some((sw.on_elements(0)?, offset)))
            }
            Some((sw, SwizzleOf::UnsetPointer(engine))) => {
                Ok(Some((sw.on_elements(bytes_log2(engine)?)?, 0)))
            }
            Some((sw, SwizzleOf::Pointer(engine))) => {
                let swizzle = sw.on_elements(bytes_log2(engine)?)?;
                Ok(Some((swizzle, first_element(engine, swizzle)?)))
            }
        }
    }

    fn lower(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let modes = self.numbers(shape)?;
        let iters = match shape {
            Some(shape) if modes.mode_sizes()? != shape => modes.by_shape(shape)?,
            _ => modes.by_coordinate()?,
        };
        let layout = match self.element_swizzle()? {
            None => TileLayout::new(iters, Vec::new(), self.first_coordinate()?)?.into(),
            Some((swizzle, offset)) => {
                let offset = (offset != 0).then_some((Axis::M, offset));
                let tile = TileLayout::new(iters, Vec::new(), offset)?;
                // What moves nothing also moves nothing below 0.
                if swizzle.is_identity() { tile.into() } else { Layout::swizzled(swizzle, tile)? }
            }
        };
        if let Some(shape) = shape {
            layout.admit(shape)?;
        }
        Ok(layout)
    }

    /// The coordinate that a coordinate tensor begins at, on the axes of its modes.
    fn first_coordinate(&self) -> Result<Vec<(Axis, i64)>> {
        let Some(Engine::Coordinates(at) | Engine::DslCoordinates(at)) = &self.engine else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let mut stack = vec![(Vec::new(), at)];
        while let Some((basis, at)) = stack.pop() {
            match at {
                super::Nest::Tuple(parts) => {
                    stack.extend(parts.iter().enumerate().map(|(k, part)| {
                        (basis.iter().copied().chain([k]).collect::<Vec<usize>>(), part)
                    }));
                }
                super::Nest::Leaf(Value::Int(int)) => match int.value() {
                    Some(0) => {}
                    Some(v) if basis.is_empty() => found.push((Axis::M, v)),
                    Some(v) => found.push((super::basis_axis(&basis)?, v)),
                    None => {
                        let message = "the first coordinate is known only when the program runs";
                        return Err(Diagnostic::syntax(0..0, message, "not known"));
                    }
                },
                super::Nest::Leaf(_) => {
                    let message = "a coordinate is made of integers";
                    return Err(Diagnostic::syntax(0..0, message, "no coordinate"));
                }
            }
        }
        Ok(found)
    }

    /// Which reading was taken, where the text alone does not decide.
    fn note(&self) -> Option<String> {
        if let Some(Engine::Dsl(DslPointer { swizzle: Some(sw), .. })) = &self.engine {
            let (found, _) = self.element_swizzle().ok()??;
            return Some(on_bytes(sw, found));
        }
        let (sw, of) = self.swizzle.as_ref()?;
        let text = sw.text();
        Some(match of {
            SwizzleOf::Elements(_) if sw.dsl => format!(
                "{text} is read as a swizzle of element offsets, as it is written; the C++ atom of that \
                 name swizzles byte addresses"
            ),
            // The numbers of both are the same where the first two are.
            SwizzleOf::Elements(_) if sw.bits == sw.base || sw.bits == 0 => return None,
            SwizzleOf::Elements(_) => format!(
                "{text} is <bits, base, shift>: TIRx writes the base first, Swizzle({},{},{}{})",
                sw.base,
                sw.bits,
                sw.shift.abs(),
                if sw.shift < 0 { ",outer" } else { "" }
            ),
            SwizzleOf::UnsetPointer(_) | SwizzleOf::Pointer(_) => {
                let (found, _) = self.element_swizzle().ok()??;
                on_bytes(sw, found)
            }
        })
    }
}

/// What a swizzle of byte addresses is on element offsets.
fn on_bytes(sw: &SwizzleText, found: Swizzle) -> String {
    format!(
        "{} swizzles byte addresses; on element offsets it is Sw<{},{},{}>",
        sw.text(),
        sw.bits,
        found.per_element(),
        sw.shift
    )
}

impl SwizzleText {
    /// The swizzle of offsets of elements of `2^log2` bytes.
    fn on_elements(&self, log2: i64) -> Result<Swizzle> {
        let base = self.base - log2;
        if base < 0 && self.bits > 0 {
            let message = format!(
                "{} moves bits inside an element of {} bytes",
                self.text(),
                1i64.checked_shl(u32::try_from(log2).unwrap_or(63)).unwrap_or(i64::MAX)
            );
            return Err(Diagnostic::syntax(0..0, message, "no layout of elements")
                .help(format!("M must be at least {log2}")));
        }
        Ok(Swizzle::new(base.max(0), self.bits, self.shift.abs(), self.shift >= 0)?)
    }
}

/// The binary logarithm of the bytes of an element; below 0 for elements of less than a byte.
fn bytes_log2(engine: &Engine) -> Result<i64> {
    match engine {
        Engine::Pointer { bits, .. } => log2_bytes(*bits),
        _ => Ok(0),
    }
}

fn log2_bytes(bits: i64) -> Result<i64> {
    if bits.count_ones() != 1 {
        let message = format!("a swizzle of bytes does not move whole elements of {bits} bits");
        return Err(Diagnostic::syntax(0..0, message, "no layout of elements")
            .help("elements of 1, 2, 4, 8, 16, .. bits are moved whole"));
    }
    Ok(i64::from(bits.trailing_zeros()) - 3)
}

/// The place of the first element behind a pointer, counted in elements from the address below it that
/// the swizzle leaves alone.
fn first_element(engine: &Engine, swizzle: Swizzle) -> Result<i64> {
    let Engine::Pointer { bits, address, .. } = engine else { return Ok(0) };
    let Some(digits) = address.strip_prefix("0x") else { return Ok(0) };
    let digits = digits.split(['.', '+']).next().unwrap_or(digits);
    let address = i128::from(u64::from_str_radix(digits, 16).unwrap_or(0)) * 8;
    let low = address % (i128::from(*bits) << swizzle.bits());
    if low % i128::from(*bits) != 0 {
        let message = format!("the address is no multiple of the {bits} bits of an element");
        return Err(Diagnostic::syntax(0..0, message, "not aligned"));
    }
    Ok(i64::try_from(low / i128::from(*bits)).map_err(|_| Error::overflow("the address"))?)
}
