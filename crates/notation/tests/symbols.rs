//! Symbols with values in TIRx texts, swizzles alone, and the second names of axes.

use zellige_layout::{Axis, AxisTable};
use zellige_notation::{Diagnostic, ParsedText, parse, tirx};

fn read(text: &str) -> Result<ParsedText, Diagnostic> {
    parse(text, &AxisTable::new())
}

fn layout(text: &str) -> zellige_layout::Layout {
    read(text).and_then(|p| p.layout_over_shape(None)).unwrap_or_else(|d| panic!("{text}: {d}"))
}

#[test]
fn symbols_are_their_values() {
    for (k, n) in [(1, 2), (4, 1), (16, 128), (333, 4)] {
        for (symbols, numbers) in [
            ("S[(32,sf_per_mma):(1@TLane,1@TCol)]", format!("S[(32,{k}):(1@TLane,1@TCol)]")),
            (
                "S[(32, sf_per_mma) : (sf_per_mma, 1)] + sf_per_mma",
                format!("S[(32,{k}):({k},1)] + {k}"),
            ),
            ("S[sf_per_mma:1@pid] + R[n:1000@pid]", format!("S[{k}:1@pid] + R[{n}:1000@pid]")),
        ] {
            let both =
                if symbols.contains("n:1000") { format!(", n = {n}") } else { String::new() };
            let text = format!("{symbols} where sf_per_mma={k}{both}");
            assert_eq!(layout(&text), layout(&numbers), "{text}");
        }
    }
    // Axes are no symbols, whatever their names.
    assert_eq!(layout("S[m:2@m] where m=3"), layout("S[3:2]"));
    let declared = "S[(2,4):(1@where,1)] axes[where=memory]";
    assert_eq!(tirx::print_tirx(&layout(declared)), declared);
}

#[test]
fn symbols_without_a_value_are_refused_at_their_place() {
    let refused = |text: &str| read(text).expect_err(text);
    let open = refused("S[(32,sf_per_mma):(1@TLane,1@TCol)]");
    assert_eq!(open.span.start, 6);
    assert!(open.help.expect("a help").contains("where sf_per_mma=4"));
    for (text, place) in [
        ("S[(32,k):(1@TLane,1@TCol)] where j=4", "j"),
        ("S[(32,k):(1@TLane,1@TCol)] where k=4, k=5", "k=5"),
        ("S[(32,k):(1@TLane,1@nope)] where k=4", "nope"),
        ("S[(longer_name,k,j):(1,2)] where k=4, longer_name=8, j=2", "(1,2)"),
        ("S[8] where S=4", "S=4"),
        ("S[k] where k=x", "x"),
        ("S[k] where k=4 5", "5"),
        ("S[k] where k=99999999999999999999", "99999999999999999999"),
        ("S[k] where", ""),
    ] {
        let at = if place.is_empty() { text.len() } else { text.rfind(place).expect("there") };
        let error = refused(text);
        let near = error.span.start.abs_diff(at);
        assert!(near <= 1, "{text}: {error} at {:?}, not {at}", error.span);
    }
}

/// Upstream's swizzle has the size of one period: 2^(M+B+S) addresses.
#[test]
fn a_swizzle_alone_is_a_layout_of_memory() {
    for (m, b, s) in [(3, 3, 3), (0, 1, 1), (4, 2, 3), (2, 0, 2)] {
        for text in [
            format!("Swizzle({m},{b},{s})"),
            format!("T.SwizzleLayout(per_element={m}, swizzle_len={b}, atom_len={s})"),
        ] {
            let found = layout(&text);
            assert_eq!(found.size(), 1 << (m + b + s), "{text}");
            let swizzle = found.swizzle().expect("kept");
            for (i, at) in (0..).zip(found.offset_table(Axis::M).expect("small")) {
                assert_eq!(at, swizzle.apply_to_address(i), "{text}");
            }
            assert_eq!(layout(&tirx::print_tirx(&found)), found);
        }
    }
    assert!(read("Swizzle(3,3,3) o").is_err());
    assert!(read("Swizzle(30,20,30)").is_err());
}

#[test]
fn axes_are_printed_as_they_were_written() {
    for text in ["S[128:1@tid]", "S[128:1@tx]", "S[(4,2):(1@tid,1)] + 3@tid"] {
        assert_eq!(tirx::print_tirx(&layout(text)), text);
    }
    assert_eq!(layout("S[128:1@tid]"), layout("S[128:1@tx]"));
    let mixed = layout("S[(4,2):(2@tid,1@tx)]");
    assert_eq!(mixed.find_difference(&layout("S[8:1@tx]")), Ok(None));
}
