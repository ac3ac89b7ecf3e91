//! Attributes against the formulas of their definitions and of the vendors' manuals.

use crate::common::{bases, element};
use zellige_layout::AxisTable;
use zellige_notation::linear::linear_of_text;
use zellige_notation::parse;
use zellige_notation::triton::parse_attribute;

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

/// The element of each register and lane by the formulas of the PTX ISA (fragments of `mma.m16n8k16`) and of AMD's
/// matrix instructions.
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
