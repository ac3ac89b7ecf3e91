//! Refused attributes, shapes and layouts; damaged and very long texts.

use crate::common::{data, ints, list, text};
use zellige_layout::AxisTable;
use zellige_notation::triton::parse_attribute;
use zellige_notation::{Notation, parse, parse_as};

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

/// Every error underlines the wrong part and says what is wrong.
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
            "basis 0 of `a` is not valid: 4 is outside of `b`, which has size 4",
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
            "basis 1 of `register` is not valid: it has 1 entries, and there are 2 out dimensions",
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
