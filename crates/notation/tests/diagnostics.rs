//! Refused texts, rendered: what a person sees. `ZELLIGE_BLESS=1 cargo test` writes the file anew.

use std::fmt::Write;
use zellige_layout::AxisTable;
use zellige_notation::parse;

const TEXTS: &[&str] = &[
    "",
    "S",
    "S[",
    "S[]x",
    "S[4",
    "S[4:]",
    "S[(4,4:(4,1)]",
    "S[(8,4,2):(4,1)]",
    "S[8:1]+S[4:2]",
    "S[8:1]+R[4:8]+R[2:32]",
    "S[8:1@lane]",
    "S[8:1@]",
    "S[4,2:1]",
    "S[(4,-2):(2,1)]",
    "S[4:99999999999999999999]",
    "S[(4294967296,4294967296):(1,1)]",
    "S[4:1] + 3@warpid + nonsense",
    "S[4:1] - R[2:4]",
    "R[2:1]",
    "Swizzle(3,3) o S[8:1]",
    "Swizzle(3,3,2) o S[8:1]",
    "Swizzle(3,3,3,sideways) o S[8:1]",
    "Swizzle(3,3,3) S[8:1]",
    "Swizzle(3,3,3) o S[8:1@laneid]",
    "Swizzle(3,3,3) o S[8:-1]",
    "S[8:1] valid[9/8]",
    "S[8:1] valid[4/6]",
    "S[8:1] valid[2..9/8]",
    "size=[4, 6] stride=[6]",
    "size=[4, 6] shape=[6]",
    "size=[4, -6]",
    "stride=[1]",
    "SpyreTensorLayout(device_size=[4, 40, 64])",
    "SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240], device_dtype=DataFormats.SEN169_FP16)",
    "SpyreTensorLayout(device_size=[4, 40, 60], stride_map =[64, 240, 1], device_dtype=DataFormats.SEN169_FP16)",
    "SpyreTensorLayout(device_size=[-1, 4, 64], stride_map =[64, 32, 1], device_dtype=DataFormats.SEN169_FP16)",
    "SpyreTensorLayout(device_size=[1, 64], stride_map =[64, 1], device_dtype=DataFormats.FLOAT99)",
    "SpyreTensorLayout(device_size=[1, 64], stride_map =[64, 1], device_dtype=DataFormats.SEN169_FP16, host_stride=[1])",
    "SpyreTensorLayout(device_size=[1, 4, 64], stride_map =[64, 9, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[4, 9], host_stride=[-9, 1])",
    "(8,64):(64,1",
    "(8,64):(64)",
    "S[4:1\u{e9}]",
    "日本",
];

#[test]
fn rendered_errors_are_the_recorded_ones() {
    let mut got = String::new();
    for text in TEXTS {
        let error = parse(text, &AxisTable::new()).expect_err(text);
        let _ = writeln!(got, "=== {text:?}\n{}\n", error.render(text, false));
        assert!(
            error.span.start <= error.span.end && error.span.end <= text.len(),
            "{text}: {error:?}"
        );
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagnostics.txt");
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        std::fs::write(path, &got).expect("writable");
    }
    let want = std::fs::read_to_string(path).expect("recorded");
    assert!(
        got == want,
        "rendered errors changed; look at them with ZELLIGE_BLESS=1 and git diff:\n{got}"
    );
}

#[test]
fn long_texts_are_shown_around_the_place() {
    let text = format!("S[({}):(1)]", "1,".repeat(500_000));
    let error = parse(&text, &AxisTable::new()).expect_err("too few strides");
    let shown = error.render(&text, false);
    assert!(shown.len() < 2000, "{} bytes", shown.len());
    assert!(shown.contains('…'), "{shown}");
}
