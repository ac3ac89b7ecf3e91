//! Any text: it is refused with a place inside it, or it is written and read back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_ktir::text;

fuzz_target!(|source: &str| match text::parse(source) {
    Err(d) => {
        assert!(d.span.start <= d.span.end && d.span.end <= source.len(), "{d:?}");
        let _ = d.render(source, false);
    }
    Ok(module) => {
        let printed = text::print(&module);
        assert!(text::parse(&printed).as_ref() == Ok(&module), "changed:\n{printed}");
    }
});
