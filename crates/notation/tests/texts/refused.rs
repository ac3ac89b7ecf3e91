//! Refused texts: the message, and the part of the text that it underlines.

use zellige_layout::AxisTable;
use zellige_notation::{Notation, parse, parse_as};

/// Texts that say something, and of no element where it is: notation, text, and why it has no layout.
const NOWHERE: &[(&str, &str, &str)] = &[
    ("hlo", "{manual}", "a manual sharding does not determine where elements are"),
    ("hlo", "{unknown}", "not decided yet"),
    ("hlo", "{unreduced}", "sums that are still to be added"),
    ("hlo", "{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", "`manual` devices"),
    ("xla", "f32[3,5]{1,0:T(2,2)SC(0:1,2)(1:4)}", "SC(..) splits dimension 0 between memories"),
    ("jax", "PartitionSpec(('x', 'y'), None)", "a PartitionSpec names axes of a mesh"),
    ("dtensor", "(Shard(dim=0), Replicate())", "placements are on a mesh"),
    (
        "shardy",
        r#"#sdy.sharding<@mesh, [{"x"}, {}]>"#,
        "the sharding is on @mesh, which is not given",
    ),
    (
        "shardy",
        r#"#sdy.sharding<@"my mesh", [{"x":(1)2, "x":(4)2}p0, {"y", ?}p1], replicated={"z"}>"#,
        "the sharding is on @my mesh",
    ),
];

#[test]
fn texts_without_places_are_read_and_printed() {
    for (name, text, why) in NOWHERE {
        let notation = Notation::from_name(name).expect(name);
        let parsed = parse_as(text, notation, &AxisTable::new()).expect(text);
        assert_eq!(parsed.notation_text(), *text);
        let refused = parsed.layout_over_shape(Some(&[3, 5])).expect_err(text);
        assert!(refused.message.contains(why), "{text}: {}", refused.message);
    }
}

/// Notation, text, message, and what is underlined.
const TABLE: &[(&str, &str, &str, &str)] = &[
    ("xla", "f32[3,5]{1,1}", "dimension 1 is listed twice", "1"),
    ("xla", "f32[3,5]{1}", "the layout lists 1 dimensions, and the shape has 2", "1"),
    ("xla", "f32[3,5]{2,0}", "dimension 2 of a shape with 2 dimensions", "2"),
    ("xla", "{2,0}", "dimension 2 is listed, and 2 dimensions are in all", "2,0"),
    ("xla", "f32[3,?]{1,0}", "an unbounded dimension has no layout", "?"),
    ("xla", "f32[3,-5]{1,0}", "extent -5 is negative", "-5"),
    ("xla", "f33[3,5]{1,0}", "unknown element type `f33`", "f33"),
    ("xla", "token[]", "`token` is not an array: it has no layout", "token"),
    ("xla", "f32[3,5]{1,0:T(0,2)}", "a tile of 0", "0"),
    (
        "xla",
        "f32[3,5]{1,0:T(2,*)}",
        "`*` merges a dimension into the next faster one, and there is none",
        "*",
    ),
    ("xla", "f32[3,5]{1,0:T(*,*,2)}", "a tile with `*` over 3 dimensions, of 2", "(*,*,2)"),
    ("xla", "f32[3,5]{1,0:T}", "expected `(` and a tile, such as T(8,128), found `}`", "}"),
    ("xla", "f32[3,5]{1,0:S(1)T(2,2)}", "`T` is out of order or given twice", "T"),
    ("xla", "f32[3,5]{1,0:D(D,C)}", "a sparse dimension has no place for every element", "C"),
    (
        "xla",
        "f32[3,5]{1,0:P(f32[1])}",
        "the physical shape of a sparse array has no place for every element",
        "P",
    ),
    ("xla", "f32[3,5]{1,0:M(8)T(2)}", "`T` is out of order or given twice", "T"),
    ("xla", "f32[3,5]{1,0:#(f32)}", "`f32` is not a type of indices", "f32"),
    ("xla", "f32[3,5]{1,0:SC()}", "expected a dimension, found `)`", ")"),
    ("xla", "f32[]{}", "XLA writes no layout after a scalar", "{}"),
    ("xla", "f32[3,5]{1,0:Q(1)}", "unknown field `Q` of a layout", "Q"),
    ("xla", "f32[3,5]{1,0", "expected `,` between dimensions, found the end", ""),
    (
        "xla",
        "f32[99999999999,99999999999]",
        "the number of elements does not fit in 64 bits",
        "f32[99999999999,99999999999]",
    ),
    ("onednn", "aBcd", "`B` is a capital, and has no block", "B"),
    (
        "onednn",
        "f32::blocked:abcd:24x8x2x1:f0",
        "strides of its own: the tag does not say where elements are",
        "24x8x2x1",
    ),
    ("onednn", "abcd16b", "a block of `b`, which is not split", "16b"),
    ("onednn", "aBcd16", "a block of 16, of which dimension?", "16"),
    ("onednn", "aBcd1b", "a block of 1", "1"),
    ("onednn", "aacd", "dimension `a` stands twice", "a"),
    ("onednn", "acd", "dimension `b` is missing", "acd"),
    ("onednn", "ncho", "`ncho` is not a format tag", "o"),
    ("onednn", "nChw16n", "a block of `n`, which is not split", "16n"),
    ("onednn", "dims=[2,3] tag=abc", "the tag `abc` is of 3 dimensions, not 2", "[2,3]"),
    ("onednn", "dims=[2,3]", "expected `tag=..`, such as tag=nChw16c, found the end", ""),
    ("pack", "inner_dims_pos = [0] inner_tiles = [8, 8]", "1 positions and 2 tiles", "[8, 8]"),
    ("pack", "inner_dims_pos = [0] inner_tiles = [0]", "a tile of 0", "[0]"),
    (
        "pack",
        "inner_dims_pos = [0, 0] inner_tiles = [2, 2]",
        "dimension 0 is listed twice",
        "[0, 0]",
    ),
    (
        "pack",
        "inner_dims_pos = [2] inner_tiles = [2] outer_dims_perm = [0, 1]",
        "dimension 2 of 2 dimensions",
        "[2]",
    ),
    ("pack", "inner_tiles = [2]", "`inner_dims_pos` is missing", ""),
    (
        "pack",
        "linalg.pack %a inner_dims_pos = [1] inner_tiles = [8] into %e : tensor<6x2xi32> -> tensor<6x1x8xi32>",
        "dimension 1 of 2 elements is not a multiple of its tile, 8, and there is no padding_value",
        "tensor<6x2xi32>",
    ),
    (
        "pack",
        "linalg.pack %a inner_dims_pos = [1] inner_tiles = [2] into %e : tensor<6x2xi32> -> tensor<6x2x2xi32>",
        "the packed tensor has the shape [6, 2, 2], not [6, 1, 2]",
        "tensor<6x2x2xi32>",
    ),
    ("memref", "memref<?x6xf32>", "a dynamic extent has no layout", "?"),
    ("memref", "memref<*xf32>", "an unranked type has no layout", "*"),
    ("memref", "strided<[?, 1]>", "a stride that is known at run time only has no layout", "?"),
    (
        "memref",
        "strided<[6, 1], offset: ?>",
        "an offset that is known at run time only has no layout",
        "?",
    ),
    (
        "memref",
        "memref<4x6xf32, strided<[6]>>",
        "the layout is of 1 dimensions, and the shape [4, 6] has 2",
        "strided<[6]>",
    ),
    (
        "memref",
        "affine_map<(d0, d1) -> (d0 * d1)>",
        "a product of two dimensions is not affine",
        "d0 * d1",
    ),
    (
        "memref",
        "affine_map<(d0) -> (d0 mod 0)>",
        "the right side of mod is not a positive constant",
        "0",
    ),
    ("memref", "affine_map<(d0)[s0] -> (d0 + s0)>", "symbols have no value here", "["),
    ("memref", "affine_map<(d0) -> (d1)>", "`d1` is not a dimension of the map", "d1"),
    (
        "memref",
        "memref<4xf32, affine_map<(d0) -> (d0 - 1, d0)>>",
        "the coordinate d0 - 1 of memory reaches -1, below 0",
        "affine_map<(d0) -> (d0 - 1, d0)>",
    ),
    ("jax", "P('x', 'x')", "axis `x` divides two dimensions", "'x'"),
    ("jax", "Mesh('x': 2) P('y')", "the mesh has no axis `y`", "'y'"),
    ("jax", "Mesh('x': 2) P('x', 'x')", "axis `x` divides two dimensions", "'x'"),
    (
        "jax",
        "Mesh('x': 2, 'x': 4) P('x')",
        "the mesh has two axes named `x`",
        "Mesh('x': 2, 'x': 4)",
    ),
    ("jax", "Mesh('x': 0) P('x')", "mesh axis `x` has 0 devices", "Mesh('x': 0)"),
    (
        "jax",
        "Mesh('x': 2) P('x', unreduced={'y'})",
        "`unreduced` axes hold sums that are still to be added, not elements",
        "unreduced",
    ),
    (
        "jax",
        "Mesh('x': 2) P(P.UNCONSTRAINED)",
        "an unconstrained dimension has no place yet",
        "P.UNCONSTRAINED",
    ),
    (
        "jax",
        "Mesh('x': 2) P('x', None) shape=[4]",
        "the spec has 2 entries, and the shape [4] has 1 dimensions",
        "shape=[4]",
    ),
    ("hlo", "{replicated x}", "expected `}` at the end of the sharding, found `x`", "x"),
    (
        "hlo",
        "{devices=[2,4]<=[4,2]}",
        "expected `T(..)`, the order of the dimensions of devices, found `}`",
        "}",
    ),
    ("hlo", "{devices=[2,2]<=[4]T(0)}", "`T` of a sharding is not supported", "T"),
    ("hlo", "{devices=[1]0}", "one part on one device is not divided", "0"),
    ("hlo", "{replicated metadata={op_name=\"}}\"", "metadata without an end", "{op_name=\"}}\""),
    (
        "hlo",
        "{{replicated}, {replicated}}",
        "a tuple of shardings is one for every element of a tuple",
        "{",
    ),
    ("hlo", "{devices=[2,2]<=[8]}", "4 parts on the devices of [8]", "[8]"),
    ("hlo", "{devices=[2,2]<=[2,2]T(0,0)}", "T[0, 0] is not an order of 2 dimensions", "(0,0)"),
    ("hlo", "{devices=[2,2]0,1,2}", "4 parts on 3 devices", "0,1,2"),
    ("hlo", "{devices=[2,2]0,1,2,2}", "device 2 is listed twice, or negative", "0,1,2,2"),
    (
        "hlo",
        "{devices=[2,2]<=[4] last_tile_dims={maximal}}",
        "`maximal` is not a kind of devices",
        "maximal",
    ),
    (
        "hlo",
        "{devices=[2,2]<=[4]} shape=[8]",
        "the sharding is of 2 dimensions, and the shape [8] has 1",
        "shape=[8]",
    ),
    (
        "shardy",
        r#"#sdy.sharding<@mesh, [{"x"}], replicated={}>"#,
        "`replicated` lists axes that hold copies",
        "replicated",
    ),
    (
        "shardy",
        r#"#sdy.mesh<["x"=2]> #sdy.sharding<@mesh, [{"y"}]>"#,
        "the mesh has no axis `y`",
        "\"y\"",
    ),
    (
        "shardy",
        r#"#sdy.mesh<["x"=8]> #sdy.sharding<@mesh, [{"x":(1)4}, {"x":(2)2}]>"#,
        "axis `x` is used twice",
        r#""x":(2)2"#,
    ),
    (
        "shardy",
        r#"#sdy.mesh<["x"=8]> #sdy.sharding<@mesh, [{"x":(3)2}]>"#,
        "(3)2 is not a part of 8 devices",
        r#""x":(3)2"#,
    ),
    (
        "shardy",
        r#"#sdy.mesh<["x"=8]> #sdy.sharding<@mesh, [{}], unreduced={"x"}>"#,
        "`unreduced` axes hold sums that are still to be added, not elements",
        "unreduced",
    ),
    (
        "dtensor",
        "[Shard(0), Partial()] mesh=[2, 4]",
        "`Partial` holds sums that are still to be added, not elements",
        "Partial",
    ),
    ("dtensor", "[Shard(0)] mesh=[2, 4]", "1 placements on a mesh of 2 dimensions", "[Shard(0)]"),
    (
        "dtensor",
        "[Shard(2)] mesh=[2] shape=[4, 4]",
        "Shard(dim=2) of the shape [4, 4], which has 2 dimensions",
        "shape=[4, 4]",
    ),
    (
        "numpy",
        "{'shape': (4, 6), 'strides': (50, 8), 'typestr': '<f8', 'version': 3}",
        "a stride of 50 bytes is not a multiple of the item size, 8 bytes",
        "(50, 8)",
    ),
    (
        "numpy",
        "{'shape': (4, 6), 'typestr': '<q8', 'version': 3}",
        "`<q8` is not a type string",
        "'<q8'",
    ),
    (
        "numpy",
        "{'shape': (4, 6), 'typestr': '<f8', 'version': 2}",
        "version 2 of the array interface",
        "2",
    ),
    (
        "numpy",
        "{'shape': (4, 6), 'typestr': '<f8'}",
        "`version` is missing",
        "{'shape': (4, 6), 'typestr': '<f8'}",
    ),
    ("numpy", "shape=(4, 6) order='K'", "order='K' depends on another array", "'K'"),
];

#[test]
fn bad_texts_are_refused_where_they_are_bad() {
    let axes = AxisTable::new();
    let mut wrong = Vec::new();
    for (name, text, message, place) in TABLE {
        let notation = Notation::from_name(name).expect(name);
        let refused = parse_as(text, notation, &axes).expect_err(text);
        assert!(!refused.label.is_empty(), "{text}");
        // It is refused for the same reason without saying which notation is meant.
        let guessed = parse(text, &axes).expect_err(text);
        if (refused.message.as_str(), &text[refused.span.clone()]) != (*message, *place)
            || guessed != refused
        {
            wrong.push(format!("{}\n{}", refused.render(text, false), guessed.message));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A refusal of the text as a whole underlines the text.
#[test]
fn refusals_of_a_whole_text_underline_it() {
    let text = "{1,0:T(8,128)}";
    let parsed = parse(text, &AxisTable::new()).expect(text);
    let refused = parsed.layout_over_shape(None).expect_err("no shape");
    assert_eq!(refused.span, 0..0);
    let rendered = refused.render(text, false);
    assert!(
        rendered.contains("1 | {1,0:T(8,128)}\n  | ^^^^^^^^^^^^^^ of which shape?"),
        "{rendered}"
    );
}
