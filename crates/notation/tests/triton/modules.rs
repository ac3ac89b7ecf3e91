//! Texts around attributes: linear layouts in their three forms, and modules of TTGIR.

use crate::common::{data, list, text};
use zellige_layout::AxisTable;
use zellige_notation::triton::{TritonAttribute, ttgir};
use zellige_notation::{Notation, linear, parse, parse_as};

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

/// Lines of TTGIR are recognised as Triton's even if the layout is only named; an undefined name is reported.
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
