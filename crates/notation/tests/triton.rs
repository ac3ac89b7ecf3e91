//! Triton's attributes and linear layouts: the laws. `crates/conformance` has the recorded answers of Triton 3.9.0.

use proptest::prelude::*;
use serde_json::Value;
use zellige_layout::{AxisTable, LinearLayout};
use zellige_notation::linear::{self, linear_of_text, linear_to_json};
use zellige_notation::triton::{TritonAttribute, parse_attribute, ttgir};
use zellige_notation::{Notation, parse, parse_as};

fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

fn list(v: &Value) -> &[Value] {
    v.as_array().expect("a list")
}

fn ints(v: &Value) -> Vec<i64> {
    list(v).iter().map(|x| x.as_i64().expect("an integer")).collect()
}

fn text(v: &Value) -> &str {
    v.as_str().expect("a text")
}

/// The bases of an attribute over a shape, as JSON.
fn bases(text: &str, shape: &[i64]) -> String {
    let linear = parse_attribute(text).expect(text).to_linear_layout(shape).expect(text);
    linear_to_json(&linear)["in"].to_string()
}

/// A layout of the algebra is written as the attribute that people know it by.
#[test]
fn layouts_are_written_as_the_attribute_that_people_know() {
    let axes = AxisTable::new();
    for (text, shape) in [
        (
            "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>",
            &[64, 64][..],
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 2], CGALayout = [[1, 0]], instrShape = [16, 64, 16]}>",
            &[256, 256],
        ),
        (
            "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 4}>",
            &[64, 64],
        ),
        (
            "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>",
            &[128, 128],
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>",
            &[128, 128],
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 8, CGALayout = [[0, 1]]}>",
            &[64, 256],
        ),
        (
            "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], CGALayout = [[1, 0]]}>",
            &[64, 64],
        ),
        ("#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>", &[64, 64]),
        (
            "#ttg.padded_shared<[4:+2, 64:+8] {offset = [[0, 1], [0, 2], [2, 0], [1, 0], [0, 4], [0, 8], [4, 0]], block = []}>",
            &[8, 16],
        ),
        // Smaller than what the threads could hold.
        (
            "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>",
            &[16, 16],
        ),
        ("#ttng.tensor_memory_scales_encoding<>", &[128, 8]),
    ] {
        let layout = parse(text, &axes).expect(text).layout_over_shape(Some(shape)).expect(text);
        let found =
            zellige_notation::convert::convert_layout(&layout, shape, None, Notation::TRITON);
        assert_eq!(found.as_deref(), Ok(text));
    }
}

#[test]
fn clusters_share_tensor_memory() {
    let base = "#ttng.tensor_memory_encoding<blockM = 64, blockN = 64, colStride = 1";
    let rows = "[1,0],[2,0],[4,0],[8,0]";
    // A pair of CTAs has half of the columns in the rows from 64 on.
    assert_eq!(
        bases(&format!("{base}, CGALayout = [[1, 0]], twoCTAs = true>"), &[128, 64]),
        format!(
            r#"[["row",[{rows},[16,0],[32,0],[0,32]]],["col",[[0,1],[0,2],[0,4],[0,8],[0,16]]],["block",[[64,0]]]]"#
        )
    );
    assert_eq!(
        bases(&format!("{base}, CGALayout = [[1, 0]]>"), &[256, 64]),
        format!(
            r#"[["row",[{rows},[64,0],[16,0],[32,0]]],["col",[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32]]],["block",[[128,0]]]]"#
        )
    );
    let padded =
        "#ttng.tensor_memory_encoding<blockM = 128, blockN = 4, colStride = 1, fp4Padded = true>";
    assert!(bases(padded, &[128, 4]).ends_with(r#"["col",[[0,0],[0,1],[0,2]]]]"#));
    let scales = "#ttng.tensor_memory_scales_encoding<CGALayout = [[1, 0]]>";
    assert_eq!(
        bases(scales, &[128, 4]),
        format!(
            r#"[["row",[{rows},[16,0],[0,0],[0,0]]],["col",[[0,1],[0,2],[32,0]]],["block",[[64,0]]]]"#
        )
    );
    // Every CTA holds whole blocks.
    let narrow = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1, CGALayout = [[0, 1]]>";
    assert!(parse_attribute(narrow).expect("fine").to_linear_layout(&[256, 64]).is_err());
}

#[test]
fn pieces_are_dealt_out_to_partitions() {
    let piece = "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 4, order = [1, 0]}>";
    let text = format!(
        "#ttg.partitioned_shared<{{numPartitions = 2, numGroups = 2, partitionDim = 0, partitionLayout = {piece}}}>"
    );
    assert_eq!(
        bases(&text, &[16, 8]),
        r#"[["offset",[[0,1],[0,2],[0,4],[1,4],[2,0],[8,0]]],["partition",[[4,0]]],["block",[]]]"#
    );
    assert!(parse_attribute(&text).expect("fine").to_linear_layout(&[2, 8]).is_err());
}

#[test]
fn warps_of_generic_bases_go_along_several_dimensions() {
    let text = "#ttg.generic_linear<{register = [[0, 1]], lane = [[0, 2], [1, 0]], warp = [[2, 1]], block = []}>";
    let expected = r#"[["register",[[0,1]]],["lane",[[0,2],[1,0]]],["warp",[[2,1]]],["block",[]]]"#;
    assert_eq!(bases(text, &[4, 4]), expected);
}

#[test]
fn attributes_that_triton_reads_and_has_no_layout_for_are_refused_with_the_reason() {
    for (text, shape, expected) in [
        ("#ttg.nvidia_mma<{versionMajor = 2, instrShape = [16, 8]}>", &[][..], "a matrix has 2"),
        (
            "#ttg.nvidia_mma<{versionMajor = 2, warpsPerCTA = [3, 1], instrShape = [16, 8]}>",
            &[16, 8][..],
            "warpsPerCTA has 3",
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 1], instrShape = [16, 7, 16]}>",
            &[64, 8][..],
            "[16, N, K]",
        ),
        (
            "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [64, 4, 4], isTransposed = false}>",
            &[64, 64][..],
            "64 by 4",
        ),
        (
            "#ttg.amd_rotating_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 0]}>",
            &[4, 4][..],
            "every dimension once",
        ),
        (
            "#ttg.slice<{dim = 0, parent = #ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], tilesPerWarp = [2]}>, kWidth = 4}>}>",
            &[64][..],
            "tilesPerWarp has 1",
        ),
    ] {
        let refused = parse_attribute(text).expect(text).to_linear_layout(shape).expect_err(text);
        assert!(refused.message.contains(expected), "{text}: {}", refused.message);
    }
}

/// Where an attribute has a layout in the algebra, each of its places holds the element that the bases say.
#[test]
fn layouts_of_attributes_say_what_their_bases_say() {
    let recorded = data("triton_attrs.json");
    let axes = AxisTable::new();
    let (mut in_algebra, mut again) = (0, 0);
    for case in list(&recorded) {
        let (written, shape) = (text(&case["text"]), ints(&case["shape"]));
        let parsed = parse(written, &axes).expect(written);
        let Ok(layout) = parsed.layout_over_shape(Some(&shape)) else { continue };
        in_algebra += 1;
        let found = linear_of_text(&parsed, Some(&shape)).expect(written);
        layout.check_shape_size(&shape).expect(written);
        let places = linear::axes_of_in_dims(&found.linear).expect(written);
        let padded = |offset: i64| {
            let pads = found.padding.iter().flatten();
            pads.fold(offset, |at, (interval, pad)| at + offset / interval * pad)
        };
        let total: i64 = found.linear.in_sizes().map(|(_, s)| s).product();
        for k in 0..40 {
            let mut rest = (k * 2_654_435_761i64) % total;
            let mut input = Vec::new();
            for (dim, size) in found.linear.in_sizes() {
                input.push((dim, rest % size));
                rest /= size;
            }
            let element = found.linear.apply_to_input(&input).expect(written);
            let there =
                layout.apply_to_coordinate(&shape, &element).expect(written).sorted_coordinates();
            let here = |p: &zellige_layout::PhysicalCoordinate| {
                input.iter().zip(&places).all(|((dim, v), a)| {
                    p.get(a.axis) == if *dim == "offset" { padded(*v) } else { *v }
                })
            };
            assert!(there.iter().any(here), "{written} over {shape:?}: {input:?}");
        }
        if found.padding.is_none()
            && let Ok(text) =
                zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON)
        {
            again += 1;
            let read = parse(&text, &axes).expect(&text);
            let same = read.layout_over_shape(Some(&shape)).expect(&text).find_difference(&layout);
            assert_eq!(same, Ok(None), "{written} written as {text}");
        }
    }
    println!("{in_algebra} of {} in the algebra, {again} written again", list(&recorded).len());
    assert!(in_algebra > 400 && again > 400, "{in_algebra} {again}");
}

#[test]
fn linear_texts_are_read_in_three_forms() {
    let recorded = data("triton_linear.json");
    let axes = AxisTable::new();
    let mut count = 0;
    for case in list(&recorded["cases"]) {
        let Some(printed) = case.get("to_string") else { continue };
        count += 1;
        let expected = linear::linear_from_json(&case["a"]).expect("a layout");
        for form in [text(printed).to_string(), case["a"].to_string()] {
            let parsed = parse(&form, &axes).expect(&form);
            assert_eq!(parsed.notation(), Notation::LINEAR);
            assert_eq!(linear::parse(&form), Ok(expected.clone()));
            assert_eq!(linear::parse(&parsed.notation_text()), Ok(expected.clone()));
        }
    }
    assert!(count > 0);
    let short = parse("{register: [[0, 1]], lane: [[0, 2], [1, 0]]}", &axes).expect("a text");
    assert_eq!(
        short.notation_text(),
        r#"{"in":[["register",[[0,1]]],["lane",[[0,2],[1,0]]]],"out":[["dim0",2],["dim1",4]]}"#
    );
    let odd = r#"{"in":[["a \"b\\",[[1]]],["",[]]],"out":[["é",2]]}"#;
    let read = linear::parse(odd).expect(odd);
    assert_eq!((linear::print_linear(&read).as_str(), read.in_size("a \"b\\")), (odd, Some(2)));
    for empty in ["(empty layout)", "\n(empty layout with out-dims [dim0 (size 1)])"] {
        let read = linear::parse(empty).expect(empty);
        assert_eq!(read.to_string().trim_start(), empty.trim_start());
    }
}

#[test]
fn pasted_ttgir_names_its_layouts() {
    let module = r##"
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 0, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#smem = #ttg.shared_memory
#loc = loc("kernel.py":1:0)
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @kernel(%arg0: !tt.ptr<f16> {tt.divisibility = 16 : i32}) {
    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #row>
    %1 = tt.splat %arg0 : !tt.ptr<f16> -> tensor<128x64x!tt.ptr<f16>, #blocked>
    %2 = tt.load %1 : tensor<128x64x!tt.ptr<f16>, #blocked>
    %3 = ttg.local_alloc : () -> !ttg.memdesc<2x128x64xf16, #shared, #smem, mutable>
    %4 = arith.constant dense<0> : tensor<4xi32>
  }
}
"##;
    let defined = ttgir::read_definitions(module).expect("definitions");
    let names: Vec<&str> = defined.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["blocked", "row", "shared"]);
    assert!(
        matches!(&defined[1].attribute, TritonAttribute::Slice { dim: 0, parent } if **parent == defined[0].attribute)
    );
    assert_eq!(&module[defined[1].span.clone()], defined[1].text);
    let types = ttgir::read_tensor_types(module).expect("types");
    let shapes: Vec<Vec<i64>> = types.iter().map(ttgir::TtgirTensorType::layout_shape).collect();
    assert_eq!(shapes, [vec![64], vec![128, 64], vec![128, 64]]);
    assert_eq!(types[1].element, "!tt.ptr<f16>");
    assert!(module[types[2].span.clone()].starts_with("!ttg.memdesc<2x"));
    let asked = parse(module, &AxisTable::new()).expect_err("three layouts");
    assert_eq!(asked.message, "the text has 3 layouts");
    let surveyed = ttgir::survey_layouts(module);
    assert_eq!((surveyed.definitions, surveyed.types), (defined, types));
    assert_eq!(surveyed.refused, []);
    let line = r"%5 = tt.load %4 : tensor<512xf32, #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>";
    assert_eq!(parse(line, &AxisTable::new()).expect("a line").default_shape(), Some(vec![512]));
    let one = "#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>\n%0 = foo : tensor<512xf32, #b>";
    let parsed = parse(one, &AxisTable::new()).expect("one layout");
    assert_eq!(parsed.default_shape(), Some(vec![512]));
    assert_eq!(parsed.layout_over_shape(None).expect("a layout").size(), 512);
    assert_eq!(parse_as(&parsed.notation_text(), Notation::TRITON, &AxisTable::new()), Ok(parsed));
}

/// What cannot be read of a module keeps nobody from the rest of it.
#[test]
fn a_survey_goes_on_after_what_it_refuses() {
    let module = r"
#a = #ttg.blocked<{sizePerThread = [3], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
%0 = foo : tensor<512xf32, #a> -> tensor<1024xf32, #b>
%1 = foo : tensor<256xf32, #a> -> tensor<4x4xf32, #b>
";
    let found = ttgir::survey_layouts(module);
    let names: Vec<&str> = found.definitions.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(found.types.len(), 1);
    assert_eq!(found.types[0].shape, [1024]);
    let messages: Vec<&str> = found.refused.iter().map(|d| d.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`sizePerThread` has 3, which is not a power of two",
            "no attribute is defined as `#a`",
            "the type has 2 dimensions, and its layout has 1",
        ]
    );
    assert_eq!(&module[found.refused[0].span.clone()], "[3]");
    assert_eq!(ttgir::survey_layouts("hello"), ttgir::TtgirSurvey::default());
}

/// Every refusal names the place and what is wrong there.
#[test]
fn bad_texts_are_refused_at_their_place() {
    let table = [
        (
            "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 1]}>",
            "[1, 1]",
            "`order` is not a permutation of 0 to 1",
        ),
        (
            "#ttg.blocked<{sizePerThread = [1, 3], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>",
            "[1, 3]",
            "`sizePerThread` has 3, which is not a power of two",
        ),
        (
            "#ttg.blocked<{sizePerThread = [1, -1], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>",
            "-1",
            "`sizePerThread` must be a number from 0 to 2^31 - 1",
        ),
        ("#ttg.blocked<{order = [0], order = [0]}>", "order", "`order` is given twice"),
        ("#ttg.blocked<{order = [0]", "", "expected `,` between fields, or `}`, found the end"),
        ("#ttg.blocked", "", "expected `<` after the name of the attribute, found the end"),
        ("#blocked", "#blocked", "no attribute is defined as `#blocked`"),
        ("#triton_gpu.blocked<{}>", "#triton_gpu.blocked", "unknown dialect `triton_gpu`"),
        (
            "#ttg.dot_op<{opIdx = 0, parent = #ttg.swizzled_shared<{vec = 1}>, kWidth = 2}>",
            "#ttg.swizzled_shared<{vec = 1}>",
            "the parent of an operand is blocked, nvidia_mma, amd_mfma or amd_wmma",
        ),
        (
            "#ttg.slice<{dim = 2, parent = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>}>",
            "2",
            "the parent has no dimension 2",
        ),
        (
            "#ttg.linear<{register = [[1]], lane = [[4]], warp = [], block = []}>",
            "[[1]], lane = [[4]], warp = [], block = []",
            "no basis of linear is 2 along dimension 0, though a larger one is",
        ),
        (
            "#ttg.padded_shared<[32:+4, 32:+8] {order = [0], shape = [64]}>",
            "32:+8",
            "the interval 32 is given twice",
        ),
        (
            "#ttg.shared_linear<{offset = [[2]]}, alignment = 16>",
            "[[2]]",
            "the bases of shared_linear never reach the element [1]",
        ),
        (
            "#ttng.tensor_memory_encoding<blockM = 96, blockN = 64, colStride = 1>",
            "96",
            "a block of tensor memory has 64 or 128 rows, not 96",
        ),
        (
            "tensor<128x64xf16, #ttg.swizzled_shared<{vec = 1, order = [0]}>>",
            "tensor<128x64xf16, #ttg.swizzled_shared<{vec = 1, order = [0]}>>",
            "the type has 2 dimensions, and its layout has 1",
        ),
        ("tensor<128xf16>", "tensor<128xf16>", "no layout in this text"),
        (
            r#"{"in":[["a",[[4]]]],"out":[["b",4]]}"#,
            "[4]",
            "basis 0 of `a` is not one: 4 is outside of `b`, which has size 4",
        ),
        (
            r#"{"in":[["a",[[1]]]],"out":[["b",6]]}"#,
            "6",
            "b has size 6, which is not a power of two",
        ),
        (r#"{"in":[["a",[[1]]]]}"#, r#"{"in":[["a",[[1]]]]}"#, "`out` is missing"),
        (
            "{register: [[0, 1], [1]]}",
            "[1]",
            "basis 1 of `register` is not one: it has 1 entries, and there are 2 out dimensions",
        ),
        (
            " - register=1 -> (0, 1)\n   register=4 -> (1, 0)\nwhere out dims are: [dim0 (size 2), dim1 (size 2)]",
            "4",
            "the bases of `register` go 1, 2, 4, ..",
        ),
    ];
    for (written, place, message) in table {
        let d = parse(written, &AxisTable::new()).expect_err(written);
        assert_eq!(d.message, message, "{written}");
        assert_eq!(&written[d.span.clone()], place, "{}", d.render(written, false));
    }
    // No shape, and shapes that do not fit.
    let attribute = parse_attribute(
        "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>",
    )
    .expect("an attribute");
    for (shape, message) in [
        (&[64][..], "the shape has 1 dimension, and the attribute 2 dimensions"),
        (&[64, 48], "dimension 1 of the shape is 48, which is not a power of two"),
        (
            &[4, 64],
            "the number of rows in shared memory is 4; a swizzle of 128 bytes needs 8 or more",
        ),
        (
            &[8, 32],
            "the width of a row in shared memory is 32; a swizzle of 128 bytes needs 64 or more",
        ),
    ] {
        assert_eq!(attribute.to_linear_layout(shape).expect_err("refused").message, message);
    }
}

#[test]
fn layouts_that_triton_cannot_write_are_refused() {
    let axes = AxisTable::new();
    let refuse = |layout: &str, shape: &[i64], to: Notation| {
        let layout =
            parse(layout, &axes).expect(layout).layout_over_shape(Some(shape)).expect(layout);
        match zellige_notation::convert::convert_layout(&layout, shape, None, to) {
            Err(zellige_notation::convert::ConversionRefusal::NotExpressible(n)) => {
                (n.reason, n.witness)
            }
            other => panic!("{other:?}"),
        }
    };
    let (reason, _) = refuse("S[(6,4):(4,1)]", &[6, 4], Notation::LINEAR);
    assert!(reason.contains("not a power of two"), "{reason}");
    let (reason, _) = refuse("S[(4,4):(8,1)]", &[4, 4], Notation::LINEAR);
    assert!(reason.contains("no element is at the place"), "{reason}");
    let (reason, _) = refuse("S[(4,4):(0,1)]", &[4, 4], Notation::TRITON);
    assert!(reason.contains("two elements share a place"), "{reason}");
    let (reason, witness) = refuse("S[(4,4):(4,1)] + 4", &[4, 4], Notation::LINEAR);
    assert!(reason.contains("keeps 0") && witness == Some(0), "{reason}");
    let written = zellige_notation::convert::convert_layout(
        &parse("Swizzle(3,3,3) o S[(8,64):(64,1)]", &axes)
            .expect("a text")
            .layout_over_shape(None)
            .expect("a layout"),
        &[8, 64],
        None,
        Notation::TRITON,
    );
    assert_eq!(
        written.expect("a swizzle"),
        "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
    );
}

#[test]
fn parsing_never_panics_on_damaged_texts() {
    let recorded = data("triton_attrs.json");
    let axes = AxisTable::new();
    for (i, case) in list(&recorded).iter().enumerate() {
        let written = text(&case["text"]);
        let bytes: Vec<char> = written.chars().collect();
        for k in 0..8 {
            let at = (i * 7919 + k * 104_729) % bytes.len();
            let cut: String = bytes[..at].iter().collect();
            let without: String =
                bytes.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, c)| *c).collect();
            let mut swapped = bytes.clone();
            swapped[at] = ['9', ',', '[', '}', '-', '#', 'é', '0'][k];
            let swapped: String = swapped.into_iter().collect();
            for damaged in [cut, without, swapped] {
                match parse_as(&damaged, Notation::TRITON, &axes) {
                    Ok(parsed) => {
                        let _ = parsed.layout_over_shape(Some(&ints(&case["shape"])));
                    }
                    Err(d) => assert!(damaged.get(d.span.clone()).is_some(), "{damaged}: {d:?}"),
                }
            }
        }
    }
}

/// Texts that are long for what they say are answered soon.
#[test]
fn long_texts_are_answered_soon() {
    let axes = AxisTable::new();
    let many = 200_000;
    for text in [
        "tensor<".repeat(many),
        format!("{}{}", "tensor<".repeat(many), ">".repeat(many)),
        format!("tensor<4x{}, #ttg.blocked<{{}}>>", "f".repeat(many)),
        format!("#ttg.blocked<{{order = [{}]}}>", vec!["1"; many].join(", ")),
        format!(
            "#ttg.linear<{{register = [[{}]], lane = [], warp = [], block = []}}>",
            vec!["0"; many].join(", ")
        ),
        format!(
            "#ttg.linear<{{register = [{}], lane = [], warp = [], block = []}}>",
            vec!["[0]"; many].join(", ")
        ),
        format!("#ttg.slice<{}", "{parent = #ttg.slice<".repeat(many)),
        "#a = #ttg.swizzled_shared<{vec = 1}>\n".repeat(many / 10),
        format!("{{{}}}", (0..many).map(|i| format!("d{i}: []")).collect::<Vec<_>>().join(", ")),
        format!(
            "{{\"in\":[{}],\"out\":[]}}",
            (0..many).map(|i| format!("[\"d{i}\",[]]")).collect::<Vec<_>>().join(", ")
        ),
    ] {
        let began = std::time::Instant::now();
        if let Ok(parsed) = parse(&text, &axes) {
            let _ = parsed.layout_over_shape(Some(&[4]));
        }
        let took = began.elapsed().as_secs_f64();
        assert!(took < 10.0, "{took} s for {}", text.chars().take(60).collect::<String>());
    }
}

/// The element of a register, lane and warp.
fn element(l: &LinearLayout, register: i64, lane: i64, warp: i64) -> Vec<i64> {
    let input = [("register", register), ("lane", lane), ("warp", warp), ("block", 0)];
    l.apply_to_input(&input).expect("inside")
}

/// What the manuals of the instructions say of each element of a fragment, in their own terms.
/// Registers past a smaller shape are dropped by a blocked layout, and kept by its operands.
#[test]
fn operands_of_blocked_layouts_keep_their_registers() {
    let blocked = "#ttg.blocked<{sizePerThread = [2, 4], threadsPerWarp = [8, 2], warpsPerCTA = [2, 1], order = [1, 0]}>";
    let registers = |text: &str| {
        let parsed = parse(text, &AxisTable::new()).expect(text);
        let found = linear_of_text(&parsed, Some(&[1, 4])).expect(text).linear;
        found.bases_of_all_dims()[0].1.clone()
    };
    assert_eq!(registers(blocked), [[0, 1], [0, 2]]);
    let operand = format!("#ttg.dot_op<{{opIdx = 0, parent = {blocked}}}>");
    assert_eq!(registers(&operand), [[0, 1], [0, 2], [0, 0]]);
}

#[test]
fn fragments_are_those_of_the_manuals() {
    let of = |text: &str, shape: &[i64]| {
        parse_attribute(text).expect(text).to_linear_layout(shape).expect(text)
    };
    let mma = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>";
    let c = of(mma, &[16, 8]);
    let a = of(&format!("#ttg.dot_op<{{opIdx = 0, parent = {mma}, kWidth = 2}}>"), &[16, 16]);
    let b = of(&format!("#ttg.dot_op<{{opIdx = 1, parent = {mma}, kWidth = 2}}>"), &[16, 8]);
    for lane in 0..32 {
        let (group, thread) = (lane / 4, lane % 4);
        for i in 0..4 {
            assert_eq!(element(&c, i, lane, 0), [group + 8 * (i / 2), thread * 2 + i % 2]);
            assert_eq!(element(&b, i, lane, 0), [thread * 2 + i % 2 + 8 * (i / 2), group]);
        }
        for i in 0..8 {
            let row = group + 8 * (i / 2 % 2);
            assert_eq!(element(&a, i, lane, 0), [row, thread * 2 + i % 2 + 8 * (i / 4)]);
        }
    }
    let mfma = |t: bool| {
        format!(
            "#ttg.amd_mfma<{{version = 3, warpsPerCTA = [1, 1], instrShape = [32, 32, 8], isTransposed = {t}}}>"
        )
    };
    let (plain, turned) = (of(&mfma(false), &[32, 32]), of(&mfma(true), &[32, 32]));
    for lane in 0..64 {
        for i in 0..16 {
            let (row, col) = (8 * (i / 4) + 4 * (lane / 32) + i % 4, lane % 32);
            assert_eq!(element(&plain, i, lane, 0), [row, col]);
            assert_eq!(element(&turned, i, lane, 0), [col, row]);
        }
    }
}

fn power(most: u32) -> impl Strategy<Value = i64> {
    (0..=most).prop_map(|k| 1i64 << k)
}

/// A blocked attribute and a shape that is whole tiles of it.
fn any_blocked() -> impl Strategy<Value = (TritonAttribute, Vec<i64>, Vec<i64>)> {
    (1usize..4).prop_flat_map(|rank| {
        let sizes = || prop::collection::vec(power(2), rank);
        let order = Just((0..rank).collect::<Vec<usize>>()).prop_shuffle();
        (sizes(), sizes(), sizes(), order, sizes()).prop_map(|(s, t, w, order, reps)| {
            let text = format!(
                "#ttg.blocked<{{sizePerThread = {s:?}, threadsPerWarp = {t:?}, warpsPerCTA = {w:?}, order = {order:?}}}>"
            );
            let shape = (0..s.len()).map(|d| s[d] * t[d] * w[d] * reps[d]).collect();
            (parse_attribute(&text).expect("legal"), shape, reps)
        })
    })
}

/// The digits of a number over sizes, the first of an order fastest.
fn digits(mut number: i64, sizes: &[i64], order: &[usize]) -> Vec<i64> {
    let mut digits = vec![0; sizes.len()];
    for d in order {
        digits[*d] = number % sizes[*d];
        number /= sizes[*d];
    }
    digits
}

/// Any bases of registers, lanes, warps and blocks that are a permutation of bits with broadcasts, as a text.
fn any_linear() -> impl Strategy<Value = (String, Vec<i64>)> {
    (prop::collection::vec(0u32..4, 1..4), any::<u64>()).prop_map(|(sizes, seed)| {
        let mut seed = seed;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).expect("31 bits") % n.max(1)
        };
        let rank = sizes.len();
        let mut units: Vec<Vec<i64>> = Vec::new();
        for (d, bits) in sizes.iter().enumerate() {
            units.extend(
                (0..*bits).map(|k| (0..rank).map(|e| if e == d { 1 << k } else { 0 }).collect()),
            );
        }
        units.extend((0..below(3)).map(|_| vec![0; rank]));
        if units.is_empty() {
            units.push(vec![0; rank]);
        }
        let mut groups: [Vec<Vec<i64>>; 4] = Default::default();
        while !units.is_empty() {
            let unit = units.swap_remove(below(units.len()));
            groups[below(4)].push(unit);
        }
        let [r, l, w, b] = groups;
        let text =
            format!("#ttg.linear<{{register = {r:?}, lane = {l:?}, warp = {w:?}, block = {b:?}}}>");
        (text, sizes.iter().map(|k| 1i64 << k).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocked_is_its_definition((attribute, shape, reps) in any_blocked()) {
        let TritonAttribute::Blocked(b) = &attribute else { panic!("blocked") };
        prop_assert_eq!(parse_attribute(&attribute.to_string()), Ok(attribute.clone()));
        let linear = attribute.to_linear_layout(&shape).expect("whole tiles");
        let size = |s: &[i64]| s.iter().product::<i64>();
        let (own, lanes, warps) = (size(&b.size_per_thread), size(&b.threads_per_warp), size(&b.warps_per_cta));
        for k in 0..64i64 {
            let n = k * 2_654_435_761 % (own * lanes * warps * size(&reps));
            let (r, l, w, rep) = (n % own, n / own % lanes, n / own / lanes % warps, n / own / lanes / warps);
            let (rd, ld) = (digits(r, &b.size_per_thread, &b.order), digits(l, &b.threads_per_warp, &b.order));
            let (wd, pd) = (digits(w, &b.warps_per_cta, &b.order), digits(rep, &reps, &b.order));
            let expected: Vec<i64> = (0..shape.len())
                .map(|d| rd[d] + b.size_per_thread[d] * (ld[d] + b.threads_per_warp[d] * (wd[d] + b.warps_per_cta[d] * pd[d])))
                .collect();
            prop_assert_eq!(element(&linear, r + own * rep, l, w), expected);
        }
        let layout = zellige_notation::WrittenLayout::layout_over_shape(&attribute, Some(&shape)).expect("a permutation");
        let text = zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON).expect("blocked");
        let again = parse(&text, &AxisTable::new()).expect(&text).layout_over_shape(Some(&shape)).expect(&text);
        prop_assert_eq!(again.find_difference(&layout), Ok(None));
    }

    #[test]
    fn linear_attributes_survive((text, shape) in any_linear()) {
        let attribute = parse_attribute(&text).expect(&text);
        prop_assert_eq!(attribute.to_string(), text.clone());
        if attribute.rank() != shape.len() {
            return Ok(());
        }
        let linear = attribute.to_linear_layout(&shape).expect(&text);
        prop_assert!(linear.is_surjective());
        prop_assert_eq!(linear::parse(&linear::print_linear(&linear)), Ok(linear.clone()));
        prop_assert_eq!(linear::parse(&linear.to_string()), Ok(linear.clone()));
        let layout = linear::linear_to_layout(&linear).expect("a permutation");
        let has_threads = linear.in_size("lane") > Some(1) || linear.in_size("warp") > Some(1);
        if has_threads {
            let again = linear::linear_of_layout(&layout, &shape).expect("linear");
            prop_assert_eq!(linear::linear_to_layout(&again).expect("a permutation").find_difference(&layout), Ok(None));
            let text = zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON).expect(&text);
            let again = parse(&text, &AxisTable::new()).expect(&text).layout_over_shape(Some(&shape)).expect(&text);
            prop_assert_eq!(again.find_difference(&layout), Ok(None));
        }
    }
}

#[test]
fn axes_that_triton_does_not_have_keep_their_names() {
    let layout = parse("S[(64,2):(1@tx,1)]", &AxisTable::new())
        .expect("a text")
        .layout_over_shape(None)
        .expect("a layout");
    let bases = linear::linear_of_layout(&layout, &[64, 2]).expect("linear");
    assert_eq!(bases.in_dims().collect::<Vec<_>>(), ["register", "block", "tx"]);
    assert_eq!(
        linear::linear_to_layout(&bases).expect("a permutation").find_difference(&layout),
        Ok(None)
    );
    let refused =
        zellige_notation::convert::convert_layout(&layout, &[64, 2], None, Notation::TRITON);
    let Err(zellige_notation::convert::ConversionRefusal::NotExpressible(n)) = refused else {
        panic!("{refused:?}")
    };
    assert!(n.reason.contains("tx being laneid + 32 warpid"), "{}", n.reason);
}

/// Lines of TTGIR are Triton's also where the layout is only named; a name that is not defined is asked for.
#[test]
fn lines_with_names_only_are_recognised() {
    let line = "%1 = tt.load %0 : tensor<64x32x!tt.ptr<f16>, #blocked>";
    let refused = zellige_notation::parse(line, &AxisTable::new()).expect_err(line);
    assert_eq!(refused.message, "no attribute is defined as `#blocked`");
    assert_eq!(&line[refused.span], "#blocked");
    let defined = "#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>";
    let both = format!("{defined}\n{line}");
    let parsed = zellige_notation::parse(&both, &AxisTable::new()).expect(&both);
    assert_eq!(parsed.default_shape(), Some(vec![64, 32]));
    // Names of memrefs are not Triton's.
    let map = "#map = affine_map<(d0) -> (d0)>\nmemref<4xf32, #map>";
    let parsed = zellige_notation::parse(map, &AxisTable::new()).expect(map);
    assert_eq!(parsed.notation(), zellige_notation::Notation::MEMREF);
}

/// A long type in the list of a module is cut where it can be seen.
#[test]
fn long_types_are_cut_visibly() {
    let text = "#b = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
        tensor<64xi32, #ttg.slice<{dim = 1, parent = #b}>> tensor<64x32xf16, #b>";
    let refused = zellige_notation::parse(text, &AxisTable::new()).expect_err("two layouts");
    let help = refused.help.expect("a list");
    assert!(
        help.starts_with("1: tensor<64xi32, #ttg.slice<{dim = 1, pare…, which is tensor<"),
        "{help}"
    );
    assert!(help.contains("\n2: tensor<64x32xf16, #b>, which is "), "{help}");
}

/// An alias that a pointer and a value share is the value's type; of types of several shapes no shape is taken.
#[test]
fn an_alias_of_pointers_and_values_is_picked_with_their_shape() {
    let module = |last: &str| {
        format!(
            "#b = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>\n\
             %1 = tt.load %0 : tensor<1024x!tt.ptr<f32>, #b>\n\
             %2 = arith.addf %1, %1 : tensor<{last}xf32, #b>\n"
        )
    };
    let picked = ttgir::pick_layout(&module("1024"), "#b").expect("one shape");
    assert_eq!(picked.shape, Some(vec![1024]));
    assert!(picked.text.starts_with("tensor<1024xf32, "), "{}", picked.text);
    let picked = ttgir::pick_layout(&module("512"), "#b").expect("a layout of any shape");
    assert_eq!(picked.shape, None);
}
