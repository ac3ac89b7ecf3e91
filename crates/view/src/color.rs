//! What gives a cell its colour, and the colours themselves.

use crate::cell_label;
use crate::options::{BANK_BITS, DrawOptions, LINE_BITS};
use crate::scene::ColorSwatch;
use crate::ticks::AxisTicks;
use std::collections::BTreeSet;
use zellige_layout::{Axis, AxisKind, ExecutionScope, Layout, LayoutError, Result};

/// A map from places to owners.
#[derive(Debug, Clone)]
pub(crate) struct ColorBy {
    /// Which coordinate of a place, if the layout has that axis at all.
    slot: Option<usize>,
    bits: i64,
    rule: ColorRule,
}

#[derive(Debug, Clone)]
enum ColorRule {
    Axis { name: String, code: String },
    Line,
    Stick,
    Bank,
}

impl ColorBy {
    /// The rule that the options ask for, or the most telling one.
    pub(crate) fn choose_rule(layout: &Layout, options: &DrawOptions) -> Result<ColorBy> {
        let axes = layout.tile().axes();
        let on = |axis: Axis, rule| ColorBy {
            slot: axes.iter().position(|a| *a == axis),
            bits: options.dtype_bits,
            rule,
        };
        let axis = |axis: Axis| {
            let (name, code) = (axis.name().to_string(), cell_label::axis_code(axis, axes));
            on(axis, ColorRule::Axis { name, code })
        };
        if let Some(name) = &options.color_by {
            if let Some(found) = axes.iter().find(|a| a.name() == name) {
                return Ok(axis(*found));
            }
            if axes.is_empty() || axes.contains(&Axis::M) {
                match name.as_str() {
                    "line" => return Ok(on(Axis::M, ColorRule::Line)),
                    "stick" => return Ok(on(Axis::M, ColorRule::Stick)),
                    "bank" => return Ok(on(Axis::M, ColorRule::Bank)),
                    _ => {}
                }
            }
            let known = ColorBy::rule_choices(layout);
            let name = name.chars().take(64).collect();
            return Err(LayoutError::UnknownAxis { name, known: known.join(", ") });
        }
        // The owner that is counted in the finest grain; then devices; then what memory offers.
        let rank = |a: &Axis| match a.kind() {
            AxisKind::Thread { of, .. } => (0, std::cmp::Reverse(Some(of))),
            AxisKind::Device => (1, std::cmp::Reverse(None::<ExecutionScope>)),
            AxisKind::Memory if a.name() == "TLane" || a.name() == "P" => {
                (2, std::cmp::Reverse(None))
            }
            AxisKind::Memory => (3, std::cmp::Reverse(None)),
        };
        let owner = axes.iter().filter(|a| **a != Axis::M).min_by_key(|a| rank(a));
        if let Some(owner) = owner {
            return Ok(axis(*owner));
        }
        if options.sticks {
            return Ok(on(Axis::M, ColorRule::Stick));
        }
        let bounds = layout.tile().axis_bounds(Axis::M);
        let by_line = on(Axis::M, ColorRule::Line);
        let one = by_line.address_owner(bounds.min) == by_line.address_owner(bounds.max);
        let moved = layout.swizzle().is_some_and(|s| !s.is_identity());
        // One line alone would be one colour, and a swizzle moves elements between banks.
        Ok(if one || moved { on(Axis::M, ColorRule::Bank) } else { by_line })
    }

    /// The owner of a place.
    pub(crate) fn owner_key(&self, place: &[i64]) -> i64 {
        self.address_owner(self.slot.and_then(|s| place.get(s)).copied().unwrap_or(0))
    }

    fn address_owner(&self, value: i64) -> i64 {
        let bit = i128::from(value) * i128::from(self.bits);
        let (line, bank) = (i128::from(LINE_BITS), i128::from(BANK_BITS));
        let key = match self.rule {
            ColorRule::Axis { .. } => return value,
            ColorRule::Line | ColorRule::Stick => bit.div_euclid(line),
            ColorRule::Bank => bit.rem_euclid(line) / bank,
        };
        // A line has at least one bit of an element, so its number is no larger than an address.
        i64::try_from(key).unwrap_or(value)
    }

    /// The names that [`ColorBy::choose_rule`] takes for a layout.
    pub(crate) fn rule_choices(layout: &Layout) -> Vec<String> {
        let axes = layout.tile().axes();
        let mut known: Vec<_> = axes.iter().map(|a| a.name().to_string()).collect();
        if axes.is_empty() || axes.contains(&Axis::M) {
            known.extend(["line", "bank", "stick"].map(String::from));
        }
        known
    }

    /// Every owner of a layout that has elements.
    pub(crate) fn all_owners(&self, layout: &Layout) -> Result<AxisTicks> {
        let axis = self.slot.and_then(|s| layout.tile().axes().get(s)).copied();
        let Some(axis) = axis else { return Ok(AxisTicks::Range { min: 0, max: 0 }) };
        match self.rule {
            ColorRule::Axis { .. } => AxisTicks::for_axis(layout, axis),
            ColorRule::Line | ColorRule::Stick => {
                AxisTicks::for_mapped_axis(layout, axis, |v| self.address_owner(v))
            }
            ColorRule::Bank => Ok(AxisTicks::Range { min: 0, max: LINE_BITS / BANK_BITS - 1 }),
        }
    }

    /// The name of an owner.
    pub(crate) fn owner_name(&self, key: i64) -> String {
        match &self.rule {
            ColorRule::Axis { code, .. } => format!("{code}{key}"),
            ColorRule::Line => format!("line {key}"),
            ColorRule::Stick => format!("stick {key}"),
            ColorRule::Bank => format!("bank {key}"),
        }
    }

    /// What a colour stands for.
    pub(crate) fn describe_rule(&self) -> String {
        match &self.rule {
            ColorRule::Axis { name, .. } => name.clone(),
            ColorRule::Line => "128-byte line".into(),
            ColorRule::Stick => "128-byte stick".into(),
            ColorRule::Bank => "bank of 4 bytes".into(),
        }
    }

    /// The colours of a set of owners, in order.
    pub(crate) fn owner_palette(&self, keys: &BTreeSet<i64>) -> Vec<ColorSwatch> {
        let swatch = |(rank, key): (usize, &i64)| {
            let (fill, ink) = light_colors(rank, keys.len());
            ColorSwatch {
                key: *key,
                label: self.owner_name(*key),
                fill: format_hex(fill),
                ink: format_hex(ink),
            }
        };
        keys.iter().enumerate().map(swatch).collect()
    }
}

/// Fills for some names, all different.
pub(crate) fn distinct_fills(count: usize) -> Vec<String> {
    (0..count).map(|rank| format_hex(light_colors(rank, count).0)).collect()
}

/// The page that colours are meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageTheme {
    Light,
    Dark,
}

/// The fill and the text colour of the `rank`-th of `count` owners, as `#rrggbb`.
pub(crate) fn owner_tone(rank: usize, count: usize, theme: PageTheme) -> (String, String) {
    let (fill, ink) = match theme {
        PageTheme::Light => light_colors(rank, count),
        PageTheme::Dark => dark_colors(rank, count),
    };
    (format_hex(fill), format_hex(ink))
}

/// The same hues for a dark page: deep fills, light text.
fn dark_colors(rank: usize, count: usize) -> ([u8; 3], [u8; 3]) {
    // Four levels of lightness in turn: among many hues neighbours are too similar to be told apart by hue alone.
    let levels = [0.48, 0.41, 0.52, 0.445];
    let level = if count <= 6 { 0.48 } else { levels[rank % levels.len()] };
    let hue = owner_hue(rank, count);
    (oklch_to_srgb(level, 0.1, hue), oklch_to_srgb(0.97, 0.02, hue))
}

fn owner_hue(rank: usize, count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a hue needs no more than 52 bits")]
    let turn = rank as f64 / count.max(1) as f64;
    // The first owner is blue, which is legible for readers with the common kinds of colour blindness.
    250.0 + 360.0 * turn
}

/// The fill and the text colour of the `rank`-th of `count` owners.
///
/// Hues go once around the circle, so that neighbours in order look related and the order can be
/// read; lightness alternates, so that neighbours can still be told apart. All are light enough
/// for dark text.
fn light_colors(rank: usize, count: usize) -> ([u8; 3], [u8; 3]) {
    let levels = [0.86, 0.76, 0.92, 0.81];
    let level = if count <= 6 { 0.85 } else { levels[rank % levels.len()] };
    let hue = owner_hue(rank, count);
    let fill = oklch_to_srgb(level, if level > 0.9 { 0.06 } else { 0.105 }, hue);
    (fill, oklch_to_srgb(0.24, 0.03, hue))
}

/// OKLCH to sRGB; the chroma gives way where the colour is not in the gamut.
fn oklch_to_srgb(lightness: f64, chroma: f64, hue: f64) -> [u8; 3] {
    let (sin, cos) = hue.to_radians().sin_cos();
    let mut chroma = chroma;
    loop {
        let linear = oklab_to_linear(lightness, chroma * cos, chroma * sin);
        if chroma < 0.005 || linear.iter().all(|c| (-0.0005..=1.0005).contains(c)) {
            return linear.map(encode_gamma);
        }
        // Less chroma keeps hue and lightness, which carry the meaning; clipping the channels would change both.
        chroma *= 0.9;
    }
}

/// Björn Ottosson's matrices, OKLab to linear sRGB.
fn oklab_to_linear(lightness: f64, a: f64, b: f64) -> [f64; 3] {
    // From https://bottosson.github.io/posts/oklab/, where the constants are derived.
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ]
}

fn encode_gamma(linear: f64) -> u8 {
    let c = linear.clamp(0.0, 1.0);
    // The transfer function of sRGB, IEC 61966-2-1.
    let c = if c <= 0.003_130_8 { 12.92 * c } else { 1.055 * c.powf(1.0 / 2.4) - 0.055 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let byte = (c * 255.0).round() as u8;
    byte
}

fn format_hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The bytes of `#rrggbb`; black for anything else, since a scene may come from elsewhere.
pub(crate) fn parse_hex(text: &str) -> [u8; 3] {
    let byte = |i: usize| {
        text.get(1 + 2 * i..3 + 2 * i).and_then(|h| u8::from_str_radix(h, 16).ok()).unwrap_or(0)
    };
    [byte(0), byte(1), byte(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(color: [u8; 3]) -> f64 {
        let [r, g, b] = color.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    #[test]
    fn text_is_readable_on_every_fill() {
        for count in [1, 2, 6, 7, 32, 128] {
            for rank in 0..count {
                let (fill, ink) = light_colors(rank, count);
                let contrast = (luminance(fill) + 0.05) / (luminance(ink) + 0.05);
                assert!(contrast > 7.0, "{rank} of {count}: {contrast}");
                let (fill, ink) = dark_colors(rank, count);
                let contrast = (luminance(ink) + 0.05) / (luminance(fill) + 0.05);
                assert!(contrast > 4.5, "dark, {rank} of {count}: {contrast}");
            }
        }
    }

    #[test]
    fn neighbours_differ() {
        for count in 2..=64 {
            let all: Vec<_> = (0..count).map(|r| light_colors(r, count).0).collect();
            for (a, b) in all.iter().zip(all.iter().skip(1)) {
                let d: i32 =
                    a.iter().zip(b).map(|(x, y)| (i32::from(*x) - i32::from(*y)).abs()).sum();
                assert!(d > 20, "{count}: {a:?} {b:?}");
            }
        }
        assert_eq!(oklch_to_srgb(1.0, 0.0, 0.0), [255, 255, 255]);
        assert_eq!(parse_hex(&format_hex([1, 200, 31])), [1, 200, 31]);
        assert_eq!(parse_hex("é"), [0, 0, 0]);
    }
}
