//! The rendered diagnostics of refused modules. `ZELLIGE_BLESS=1 cargo test` rewrites the recorded
//! file.

use std::fmt::Write;
use zellige_ktir::text;

/// What is wrong, and a body of `@f(%x: index, %a: tensor<4x8xf16>, %s: f16, %n: index)` or a module.
const BAD: &[(&str, &str)] = &[
    ("nothing", "module {}"),
    ("no function", "hello"),
    ("unknown operation", "%b = arith.adf %a, %a : tensor<4x8xf16>"),
    ("unknown dialect", "%b = tosa.add %a, %a : tensor<4x8xf16>"),
    ("undefined value", "%b = arith.addf %a, %aa : tensor<4x8xf16>"),
    ("second definition", "%b = math.exp %a : tensor<4x8xf16>\n%b = math.exp %a : tensor<4x8xf16>"),
    ("another type", "%b = arith.addf %a, %a : tensor<8x4xf16>"),
    ("unknown type", "%b = arith.addf %a, %a : tensor<8x4xf15>"),
    ("floats as integers", "%b = arith.addi %a, %a : tensor<4x8xf16>"),
    ("results", "%b, %c = math.exp %a : tensor<4x8xf16>"),
    ("comparison", "%b = arith.cmpf lt, %a, %a : tensor<4x8xf16>"),
    ("cast", "%b = arith.extf %a : tensor<4x8xf16> to tensor<4x8xbf16>"),
    ("constant", "%b = arith.constant 1.5 : i32"),
    ("bits", "%b = arith.constant 0x1FC00 : f16"),
    ("dense", "%b = arith.constant dense<[1.0, 2.0]> : tensor<4xf16>"),
    (
        "matmul",
        "%b = linalg.matmul ins(%a, %a : tensor<4x8xf16>, tensor<4x8xf16>) outs(%a : tensor<4x8xf16>) -> tensor<4x8xf16>",
    ),
    (
        "reduce",
        "%i = tensor.splat %s : tensor<8xf16>\n%b = linalg.reduce { arith.addf } ins(%a : tensor<4x8xf16>) outs(%i : tensor<8xf16>) dimensions = [1]",
    ),
    (
        "combiner",
        "%i = tensor.splat %s : tensor<4xf16>\n%b = linalg.reduce { arith.cmpf } ins(%a : tensor<4x8xf16>) outs(%i : tensor<4xf16>) dimensions = [1]",
    ),
    (
        "transpose",
        "%b = linalg.transpose ins(%a : tensor<4x8xf16>) outs(%a : tensor<4x8xf16>) permutation = [1, 0]",
    ),
    (
        "generic",
        "%b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\"]} ins(%a : tensor<4x8xf16>) outs(%a : tensor<4x8xf16>) {\n^bb0(%x1: f16, %x2: f16):\nlinalg.yield %x1 : f16\n} -> tensor<4x8xf16>",
    ),
    (
        "slice",
        "%b = tensor.extract_slice %a[2, 0] [3, 8] [1, 1] : tensor<4x8xf16> to tensor<3x8xf16>",
    ),
    ("collapse", "%b = tensor.collapse_shape %a [[0], [1]] : tensor<4x8xf16> into tensor<32xf16>"),
    (
        "view sizes",
        "%v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8] : memref<4x8xf16>",
    ),
    (
        "memory space",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {memory_space = #ktdp.memory_space<lx>} : memref<4xf16>",
    ),
    (
        "alias",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {coordinate_set = #none} : memref<4xf16>",
    ),
    (
        "arity of a set",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {coordinate_set = affine_set<(i, j) : (i >= 0)>} : memref<4xf16>",
    ),
    (
        "unknown dimension",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {coordinate_set = affine_set<(i) : (j >= 0)>} : memref<4xf16>",
    ),
    (
        "not affine",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {coordinate_set = affine_set<(i) : (i * i >= 0)>} : memref<4xf16>",
    ),
    (
        "division",
        "%v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] {coordinate_set = affine_set<(i) : (i floordiv 0 >= 0)>} : memref<4xf16>",
    ),
    (
        "access tile",
        "%v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8, 1] : memref<4x8xf16>\n%t = ktdp.construct_access_tile %v[%n] {access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, j <= 7)>} : memref<4x8xf16> -> !ktdp.access_tile<1x8xindex>",
    ),
    (
        "extent of a tile",
        "%v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8, 1] : memref<4x8xf16>\n%t = ktdp.construct_access_tile %v[%n, %n] {access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, j <= 7)>} : memref<4x8xf16> -> !ktdp.access_tile<2x8xindex>",
    ),
    (
        "elements of a view",
        "%v = ktdp.construct_memory_view %x, sizes: [8], strides: [1] : memref<8xf32>\n%t = ktdp.construct_access_tile %v[%n] : memref<8xf32> -> !ktdp.access_tile<8xindex>\n%b = ktdp.load %t : <8xindex> -> tensor<8xf16>",
    ),
    (
        "loop",
        "%b = scf.for %i = %n to %n step %n iter_args(%c = %a) -> (tensor<4x8xf16>) {\nscf.yield\n}",
    ),
    (
        "branch",
        "%c = arith.cmpi eq, %n, %n : index\n%b = scf.if %c -> (f16) {\nscf.yield %s : f16\n}",
    ),
    ("call", "%b = func.call @g(%s) : (f16) -> (f16)"),
    ("recursion", "func.call @f(%x, %a, %s, %n) : (index, tensor<4x8xf16>, f16, index) -> ()"),
    (
        "produce",
        "%f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i - g >= 0)> : tensor<4x8xf16> -> !ktdp.tile_future<tensor<4x8xf16>> {\n^bb0(%g: index):\nktdp.yield_partial %a : tensor<4x8xf16>\n}",
    ),
    ("return", "return %a : tensor<4x8xf16>"),
    ("after the end", "return\n%b = math.exp %a : tensor<4x8xf16>"),
    ("open block", "scf.if %c {"),
    ("grid", "module { func.func @f() attributes {grid = [4, 0]} { return } }"),
];

#[test]
fn rendered_errors_are_the_recorded_ones() {
    let mut got = String::new();
    for (what, bad) in BAD {
        let module = if bad.starts_with("module") || *bad == "hello" {
            (*bad).to_string()
        } else {
            format!(
                "func.func @f(%x: index, %a: tensor<4x8xf16>, %s: f16, %n: index) {{\n{bad}\n}}"
            )
        };
        let Err(error) = text::parse(&module) else { panic!("{what} is accepted") };
        assert!(
            error.span.start <= error.span.end && error.span.end <= module.len(),
            "{what}: {error:?}"
        );
        let (line, column) = text::find_line_and_column(&module, &error.span);
        let _ = writeln!(got, "=== {what} ({line}:{column})\n{}\n", error.render(&module, false));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/diagnostics.txt");
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        std::fs::write(path, &got).expect("written");
    }
    let want = std::fs::read_to_string(path).expect("the recorded errors");
    let line = got.lines().zip(want.lines()).position(|(a, b)| a != b);
    if let Some(line) = line {
        let at = |s: &str| s.lines().nth(line).unwrap_or_default().to_string();
        panic!("line {} is\n{}\nnot\n{}", line + 1, at(&got), at(&want));
    }
    assert_eq!(got.lines().count(), want.lines().count(), "ZELLIGE_BLESS=1 writes the file anew");
}
