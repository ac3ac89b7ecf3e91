//! Layouts as text: refused with a place inside of the text, or printed and read back the same.

use crate::budget::bounded;
use serde_json::Value;
use zellige_layout::{AxisTable, Layout};
use zellige_notation::{Diagnostic, Notation, Parsed, json, parse, parse_as, tirx};

pub(crate) fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let axes = AxisTable::new();
    let bytes = (1 << 22) + 2000 * text.len();
    let reads = Notation::supported()
        .map(|n| bounded("reading a layout", bytes, || parse_as(text, n, &axes)));
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

fn by_json(layout: &Layout, axes: &AxisTable) {
    assert_eq!(json::parse(&json::print(layout), axes).as_ref(), Ok(layout));
}

/// A refusal underlines a part of the text and can be drawn.
pub(crate) fn refused(text: &str, d: &Diagnostic) {
    assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?}");
    assert!(!d.render(text, false).is_empty());
}
