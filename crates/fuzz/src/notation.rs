//! Layouts as text: refused with a place inside of the text, or printed and read back the same.

use crate::budget::bounded;
use serde_json::Value;
use zellige_layout::{AxisTable, Layout};
use zellige_notation::{Diagnostic, Notation, Parsed, json, parse, parse_as, spyre, tirx, torch};

pub(crate) fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let axes = AxisTable::new();
    let bytes = (1 << 22) + 2000 * text.len();
    let reads = [Notation::Tirx, Notation::Spyre, Notation::Torch]
        .map(|n| bounded("reading a layout", bytes, || parse_as(text, n, &axes)));
    let guessed = bounded("reading a layout", bytes, || parse(text, &axes));
    for read in reads.into_iter().chain([guessed]) {
        match read {
            Err(d) => refused(text, &d),
            Ok(Parsed::Tirx(l)) => {
                assert_eq!(tirx::parse(&tirx::print(&l), &axes).as_ref(), Ok(&l));
                by_json(&l, &axes);
            }
            Ok(Parsed::Torch(h)) => assert_eq!(torch::parse(&torch::print(&h)).as_ref(), Ok(&h)),
            Ok(Parsed::Spyre(s)) => {
                let again = spyre::parse(&spyre::print_bound(&s)).expect("its own text");
                assert_eq!((&again, again.host()), (&s, s.host()));
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

fn by_json(layout: &Layout, axes: &AxisTable) {
    assert_eq!(json::parse(&json::print(layout), axes).as_ref(), Ok(layout));
}

/// A refusal underlines a part of the text and can be drawn.
pub(crate) fn refused(text: &str, d: &Diagnostic) {
    assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?}");
    assert!(!d.render(text, false).is_empty());
}
