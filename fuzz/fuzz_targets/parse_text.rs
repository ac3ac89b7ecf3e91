//! Any text: it is refused with a place inside it, or it is printed and read back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zellige_layout::AxisTable;
use zellige_notation::{Parsed, json, parse, spyre, tirx, torch};

fuzz_target!(|text: &str| {
    let axes = AxisTable::new();
    match parse(text, &axes) {
        Err(d) => {
            assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{d:?}");
            let _ = d.render(text, false);
        }
        Ok(Parsed::Tirx(l)) => {
            assert_eq!(tirx::parse(&tirx::print(&l), &axes).as_ref(), Ok(&l));
            assert_eq!(json::parse(&json::print(&l), &axes).as_ref(), Ok(&l));
        }
        Ok(Parsed::Torch(h)) => assert_eq!(torch::parse(&torch::print(&h)).as_ref(), Ok(&h)),
        Ok(Parsed::Spyre(s)) => {
            let again = spyre::parse(&spyre::print_bound(&s)).expect("its own text");
            assert_eq!((&again, again.host()), (&s, s.host()));
        }
    }
});
