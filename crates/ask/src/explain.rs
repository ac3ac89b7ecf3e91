//! A layout in words.

use crate::RequestFault;
use crate::free::FreePlaces;
use crate::words::describe_in_sentences;
use std::fmt::Write;
use zellige_float::Dtype;
use zellige_layout::{Axis, LaneAccessPattern, Layout, LayoutLint, LintSeverity, StridedLayout};
use zellige_notation::{Notation, ParsedText, tirx};

/// A layout in words, with its cost and what looks wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Several lines.
    pub text: String,
    /// What the layout does, a sentence for each thing.
    pub words: Vec<String>,
    /// Bytes that hold no element, where the element width is known.
    pub padding_bytes: Option<i64>,
    /// What looks wrong, most serious first.
    pub lints: Vec<LayoutLint>,
}

/// Explains a layout over a shape.
pub fn explain_layout(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
) -> Result<Explanation, RequestFault> {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<12} {value}");
    };
    let tile = layout.tile();
    let element = parsed.element_size(dtype.map(Dtype::bits));
    // Without a known size, bytes are analysed for memory alone, and the answer says that the size is assumed.
    let bits = element.known_bits().or((tile.axes() == [Axis::M]).then_some(element.bits));
    // Device memory has sticks, not banks.
    let on_device = parsed.stick_layout().is_some();
    let words = describe_in_sentences(layout, shape);
    for (k, sentence) in words.iter().enumerate() {
        line(if k == 0 { "in words" } else { "" }, sentence.clone());
    }
    if let Some(note) = parsed.reading_note() {
        line("read as", note);
    }
    line("layout", tirx::print_tirx(layout));
    line(
        "shape",
        format!(
            "{shape:?}, {} elements{}",
            layout.size(),
            dtype.map(|d| format!(" of {}", d.name())).unwrap_or_default()
        ),
    );
    line("element", element.to_string());
    if let Some(stick) = parsed.stick_layout() {
        line("device", zellige_notation::spyre::print_with_given_host(stick));
        line(
            "sticks",
            format!(
                "{} sticks of {} elements, {} bytes",
                stick.count_sticks(),
                stick.elems_per_stick(),
                stick.device_bytes()?
            ),
        );
    }
    for axis in tile.axes() {
        let b = layout.axis_bounds(*axis)?;
        line(
            &format!("axis {axis}"),
            format!("{}, coordinates {} to {}", axis.kind().name(), b.min, b.max),
        );
    }
    if let Ok(Some((of, within))) = tile.thread_scopes() {
        line("scope", format!("{of}s of a {within}"));
    }
    if let Some(sw) = layout.swizzle() {
        line(
            "swizzle",
            format!(
                "{sw:?}: bits {}..{} ^= bits {}..{}",
                swizzle_field_start(sw.per_element(), sw.atom_len(), !sw.is_inner()),
                swizzle_field_start(sw.per_element(), sw.atom_len(), !sw.is_inner())
                    + sw.swizzle_len(),
                swizzle_field_start(sw.per_element(), sw.atom_len(), sw.is_inner()),
                swizzle_field_start(sw.per_element(), sw.atom_len(), sw.is_inner())
                    + sw.swizzle_len()
            ),
        );
    }
    let image = layout.analyze_image();
    let mut padding_bytes = None;
    // Whether elements share places may take too long to decide; everything else is still explained.
    match &image {
        Err(e) => line("places", format!("not decided: {e}")),
        Ok(image) => {
            let mut facts = vec![if image.is_injective() {
                "no two elements share a place"
            } else {
                "elements share places"
            }];
            if image.is_surjective() && layout.size() > 0 {
                facts.push("every place is used");
            }
            if image.copies > 1 {
                facts.push("each element is replicated");
            }
            line("places", facts.join(", "));
            if image.copies > 1 {
                line("replicas", format!("{} places for each element", image.copies));
            }
            let FreePlaces { positions, places: padding, gaps } =
                FreePlaces::count_free_places(parsed, layout, shape)?;
            padding_bytes = element.known_bits().map(|b| {
                // 128 bits, because the padding of a layout may have more bits than 64 bits can count.
                i64::try_from(i128::from(padding) * i128::from(b) / 8).unwrap_or(i64::MAX)
            });
            if padding > 0 {
                let share = 100.0 * padding as f64 / positions as f64;
                let bytes = padding_bytes.map(|b| format!(", {b} bytes")).unwrap_or_default();
                let mut text = format!("{padding} of {positions} positions ({share:.1}%){bytes}");
                if gaps > 0 {
                    let _ = write!(text, ", {gaps} of them gaps that nothing maps to");
                }
                line("padding", text);
            }
        }
    }
    if let Some(bits) = bits.filter(|_| layout.size() > 0) {
        let v = layout.vector_width(shape, bits)?;
        line(
            "vector",
            format!(
                "{} elements, {} bytes, adjacent and aligned everywhere",
                v.elements,
                v.bits as f64 / 8.0
            ),
        );
        // Lanes that read one row or one column are the two accesses that every kernel with a matrix has. A vector
        // has no column, and threads hold registers, which have no banks.
        if tile.axes() == [Axis::M] && shape.len() >= 2 && !on_device {
            let accesses = [
                ("row", LaneAccessPattern::Row { index: 0 }),
                ("column", LaneAccessPattern::Column { index: 0 }),
            ];
            for (name, access) in accesses {
                if let (Ok(c), Ok(s)) = (
                    layout.find_bank_conflicts(shape, bits, &access, 1),
                    layout.count_sectors(shape, bits, &access, 1),
                ) {
                    let ways = if c.is_conflict_free() {
                        "no bank conflict".into()
                    } else {
                        format!("bank conflict, {} ways,", c.ways)
                    };
                    line(name, format!("{ways} in shared memory, {}", describe_sectors(&s)));
                }
            }
        }
    }
    // Lints of banks and sectors are about a GPU's memory, so a device layout is looked at without the width that
    // they need.
    let mut lints = layout.find_lints(shape, bits.filter(|_| !on_device))?;
    lints.extend(parsed.host_layout().and_then(ambiguous_strides));
    // A wave of AMD has 64 lanes, and a text of Triton knows which warp it is for.
    let triton = parsed.notation() == Notation::TRITON && tile.axes().contains(&Axis::LANEID);
    if triton && layout.axis_span(Axis::LANEID)? == 64 {
        lints.retain(|l| l.id != "out-of-hardware" || !l.message.starts_with("`laneid`"));
    }
    for l in &lints {
        line(l.severity.name(), format!("{} [{}]", l.message, l.id));
    }
    Ok(Explanation { text, words, padding_bytes, lints })
}

/// Strides of dimensions of size 1, which no element shows, and which libraries treat differently.
fn ambiguous_strides(host: &StridedLayout) -> Option<LayoutLint> {
    let row_major = StridedLayout::new_contiguous(host.size()).ok()?;
    let other =
        |(k, (n, s)): (usize, (i64, i64))| (n == 1 && s != row_major.stride()[k]).then_some(k);
    let dims: Vec<String> =
        host.sizes_and_strides().enumerate().filter_map(other).map(|k| k.to_string()).collect();
    // Strides that a contiguous tensor would have are no reason for a note.
    if dims.is_empty() {
        return None;
    }
    let message = format!(
        "of dimension {} there is one, so its stride is never taken; libraries disagree on whether the tensor is contiguous",
        dims.join(", ")
    );
    Some(LayoutLint { id: "size-1-stride", severity: LintSeverity::Note, message })
}

/// The sectors that the warps of an access touch: the most of one warp, and all of them.
fn describe_sectors(warps: &[usize]) -> String {
    let most = warps.iter().max().copied().unwrap_or(0);
    let all = match warps {
        [_, _, ..] => format!(", {} in {} warps", warps.iter().sum::<usize>(), warps.len()),
        _ => String::new(),
    };
    format!("{most} sector{} of 32 bytes per warp{all}", if most == 1 { "" } else { "s" })
}

/// The first bit of the low or the high field of a swizzle.
fn swizzle_field_start(per_element: u32, atom_len: u32, high: bool) -> u32 {
    if high { per_element + atom_len } else { per_element }
}
