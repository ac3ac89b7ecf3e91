//! Layouts as text: refused with a place inside of the text, or printed and read back the same.

use crate::budget::bounded;
use serde_json::Value;
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Layout};
use zellige_notation::convert::{Refusal, convert};
use zellige_notation::{Diagnostic, Notation, Parsed, json, parse, parse_as, tirx};

pub(crate) fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let axes = AxisTable::new();
    let bytes = (1 << 22) + 2000 * text.len();
    let reads =
        Notation::all().map(|n| bounded("reading a layout", bytes, || parse_as(text, n, &axes)));
    let guessed = bounded("reading a layout", bytes, || parse(text, &axes));
    for read in reads.chain([guessed]) {
        match read {
            Err(d) => refused(text, &d),
            Ok(parsed) => {
                let again = parse_as(&parsed.text(), parsed.notation(), &axes);
                let again = again.expect("its own text");
                assert_eq!(again, parsed);
                // Device layouts are equal whatever they are bound to.
                let bound = |p: &Parsed| p.stick().and_then(|s| s.host().cloned());
                assert_eq!(bound(&again), bound(&parsed));
                if let Some(layout) = parsed.algebra() {
                    by_json(layout, &axes);
                }
            }
        }
    }
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && let Ok(layout) = bounded("reading a layout", bytes, || json::parse(&value, &axes))
    {
        by_json(&layout, &axes);
        assert_eq!(tirx::parse(&tirx::print(&layout), &axes).as_ref(), Ok(&layout));
    }
}

/// Elements of a layout that a conversion is compared for.
const COMPARED: i64 = 1 << 10;

/// Shapes for texts that are layouts of any shape.
const SHAPES: &[&[i64]] =
    &[&[8], &[16, 16], &[4, 6], &[2, 3, 8], &[64, 32], &[3, 5, 7, 2], &[1, 2, 4, 2, 3]];

/// A layout of one notation in another: the first byte says which, the second one the shape where the text has none.
///
/// A text that comes out is read as the same function, place by place; a refusal has a reason, and its witness is an
/// element.
pub(crate) fn conversion(data: &[u8]) {
    let [to, which, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let axes = AxisTable::new();
    let Ok(parsed) = parse(text, &axes) else { return };
    let all: Vec<Notation> = Notation::all().collect();
    let to = all[usize::from(*to) % all.len()];
    let shape = match parsed.default_shape() {
        Some(own) => own,
        None => SHAPES[usize::from(*which) % SHAPES.len()].to_vec(),
    };
    let bytes = (1 << 26) + 2000 * text.len();
    let lowered = bounded("lowering a layout", bytes, || parsed.layout(Some(&shape)));
    let layout = match lowered {
        Ok(layout) if layout.size() <= COMPARED && layout.tile().copies() <= 64 => layout,
        Ok(_) => return,
        Err(d) => return refused(text, &d),
    };
    let dtype = to.needs_dtype().then_some(Dtype::Float16);
    let written = bounded("a conversion", bytes, || convert(&layout, &shape, dtype, to));
    match written {
        Ok(written) => {
            let again = parse_as(&written, to, &axes).unwrap_or_else(|d| panic!("{written}: {d}"));
            assert_eq!(again.text(), written, "{text} as {written}");
            let found = again.layout(Some(&shape)).unwrap_or_else(|d| panic!("{written}: {d}"));
            assert_eq!(found.size(), layout.size(), "{text} as {written}");
            for i in 0..layout.size() {
                let places = |l: &Layout| {
                    let mut all: Vec<_> =
                        l.places(i).expect("inside").points().iter().map(|p| p.normal()).collect();
                    all.sort();
                    all.dedup();
                    all
                };
                assert_eq!(places(&found), places(&layout), "{text} as {written} at {i}");
            }
        }
        Err(Refusal::NotExpressible(why)) => {
            assert!(!why.reason.is_empty(), "{text} in {to:?}");
            let inside = why.witness.is_none_or(|i| (0..layout.size().max(1)).contains(&i));
            assert!(inside, "{text} in {to:?}: {why:?}");
        }
        Err(Refusal::Error(e)) => assert!(!e.to_string().is_empty()),
    }
}

fn by_json(layout: &Layout, axes: &AxisTable) {
    assert_eq!(json::parse(&json::print(layout), axes).as_ref(), Ok(layout));
}

/// A refusal underlines a part of the text and can be drawn.
pub(crate) fn refused(text: &str, d: &Diagnostic) {
    assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?}");
    assert!(!d.render(text, false).is_empty());
}
