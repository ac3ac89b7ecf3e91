//! Layouts as text: refused with a place inside of the text, or printed and read back unchanged.

use crate::budget::run_bounded;
use serde_json::Value;
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Layout};
use zellige_notation::convert::{ConversionRefusal, convert_layout};
use zellige_notation::{Diagnostic, Notation, ParsedText, json, parse, parse_as, tirx};

pub(crate) fn fuzz_layout_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let axes = AxisTable::new();
    // A constant for tables and a multiple of the text: a short text must not ask for much memory.
    let bytes = (1 << 22) + 2000 * text.len();
    let reads = Notation::all_notations()
        .map(|n| run_bounded("reading a layout", bytes, || parse_as(text, n, &axes)));
    let guessed = run_bounded("reading a layout", bytes, || parse(text, &axes));
    for read in reads.chain([guessed]) {
        match read {
            Err(d) => check_refusal(text, &d),
            Ok(parsed) => {
                let again = parse_as(&parsed.notation_text(), parsed.notation(), &axes);
                let again = again.expect("its own text");
                assert_eq!(again, parsed);
                // Equality of device layouts ignores the host layout that they are bound to, so it
                // is compared too.
                let bound = |p: &ParsedText| p.stick_layout().and_then(|s| s.host().cloned());
                assert_eq!(bound(&again), bound(&parsed));
                if let Some(layout) = parsed.algebra_layout() {
                    check_json_round_trip(layout, &axes);
                }
            }
        }
    }
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && let Ok(layout) =
            run_bounded("reading a layout", bytes, || json::layout_from_json(&value, &axes))
    {
        check_json_round_trip(&layout, &axes);
        assert_eq!(tirx::parse(&tirx::print_tirx(&layout), &axes).as_ref(), Ok(&layout));
    }
}

/// The largest layout whose conversion is compared, in elements.
const MAX_COMPARED_ELEMENTS: i64 = 1 << 10;

/// Shapes for texts that do not have a shape of their own.
const SHAPES: &[&[i64]] =
    &[&[8], &[16, 16], &[4, 6], &[2, 3, 8], &[64, 32], &[3, 5, 7, 2], &[1, 2, 4, 2, 3]];

/// Converts a layout to another notation: the first byte selects the notation, the second one the
/// shape if the text has none.
///
/// The printed text has to be read as the same function, element by element; a refusal has a
/// reason, and its witness is an element.
pub(crate) fn fuzz_conversion(data: &[u8]) {
    let [to, which, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let axes = AxisTable::new();
    let Ok(parsed) = parse(text, &axes) else { return };
    let all: Vec<Notation> = Notation::all_notations().collect();
    let to = all[usize::from(*to) % all.len()];
    let shape = match parsed.default_shape() {
        Some(own) => own,
        None => SHAPES[usize::from(*which) % SHAPES.len()].to_vec(),
    };
    let bytes = (1 << 26) + 2000 * text.len();
    let lowered =
        run_bounded("lowering a layout", bytes, || parsed.layout_over_shape(Some(&shape)));
    let layout = match lowered {
        Ok(layout)
            if layout.size() <= MAX_COMPARED_ELEMENTS && layout.tile().replica_count() <= 64 =>
        {
            layout
        }
        Ok(_) => return,
        Err(d) => return check_refusal(text, &d),
    };
    // A stick has 64 elements of float16, which is the usual case for device layouts.
    let dtype = to.needs_dtype().then_some(Dtype::Float16);
    let written = run_bounded("a conversion", bytes, || convert_layout(&layout, &shape, dtype, to));
    match written {
        Ok(written) => {
            let again = parse_as(&written, to, &axes).unwrap_or_else(|d| panic!("{written}: {d}"));
            assert_eq!(again.notation_text(), written, "{text} as {written}");
            let found =
                again.layout_over_shape(Some(&shape)).unwrap_or_else(|d| panic!("{written}: {d}"));
            assert_eq!(found.size(), layout.size(), "{text} as {written}");
            for i in 0..layout.size() {
                let places = |l: &Layout| {
                    let mut all: Vec<_> = l
                        .physical_coordinates(i)
                        .expect("inside")
                        .sorted_coordinates()
                        .iter()
                        .map(|p| p.without_zero_entries())
                        .collect();
                    all.sort();
                    all.dedup();
                    all
                };
                assert_eq!(places(&found), places(&layout), "{text} as {written} at {i}");
            }
        }
        Err(ConversionRefusal::NotExpressible(why)) => {
            assert!(!why.reason.is_empty(), "{text} in {to:?}");
            let inside = why.witness.is_none_or(|i| (0..layout.size().max(1)).contains(&i));
            assert!(inside, "{text} in {to:?}: {why:?}");
        }
        Err(ConversionRefusal::Error(e)) => assert!(!e.to_string().is_empty()),
    }
}

fn check_json_round_trip(layout: &Layout, axes: &AxisTable) {
    assert_eq!(json::layout_from_json(&json::layout_to_json(layout), axes).as_ref(), Ok(layout));
}

/// Checks that a refusal underlines a part of the text and can be rendered.
pub(crate) fn check_refusal(text: &str, d: &Diagnostic) {
    assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?}");
    assert!(!d.render(text, false).is_empty());
}
