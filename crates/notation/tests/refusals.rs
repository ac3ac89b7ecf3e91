//! Bad texts of the tiled, blocked and sharded notations: what is said, and where. And any text at all: no panic, no nonsense.

use proptest::prelude::*;
use zellige_layout::AxisTable;
use zellige_notation::{Notation, parse, parse_as};

/// Texts that say something, and of no element where it is: notation, text, and why it has no layout.
const NOWHERE: &[(&str, &str, &str)] = &[
    ("hlo", "{manual}", "a manual sharding says nothing of where elements are"),
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

/// Meshes as PyTorch and Shardy print them.
#[test]
fn meshes_are_read_as_they_are_printed() {
    let read = |name: &str, text: &str| {
        let notation = Notation::from_name(name).expect(name);
        parse_as(text, notation, &AxisTable::new()).map_err(|d| d.message)
    };
    let placed = "(Shard(dim=0), Shard(dim=1)) mesh=[2, 2] mesh_dim_names=('dp', 'tp')";
    for mesh in [
        "DeviceMesh((dp=2, tp=2), 'cuda', stride=(2, 1))",
        "DeviceMesh((dp=2, tp=2), device: 'cpu', stride: (2, 1))",
        "DeviceMesh('cuda', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))",
        "device_mesh=DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))",
    ] {
        let text = format!("{mesh}, placements=(Shard(dim=0), Shard(dim=1))");
        assert_eq!(read("dtensor", &text).expect(&text).notation_text(), placed);
    }
    let other = "DeviceMesh((2, 2), 'cuda', stride=(1, 2)) [Shard(0), Shard(1)]";
    assert!(read("dtensor", other).expect_err(other).contains("not numbered in order"));
    let one = r#"#sdy.sharding<mesh<[], device_ids=[3]>, [{}]>"#;
    let layout = read("shardy", one).expect(one).layout_over_shape(Some(&[4])).expect(one);
    assert_eq!(zellige_notation::tirx::print_tirx(&layout), "S[4:1] + 3@pid");
    let turned = r#"#sdy.sharding<mesh<["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>, [{"x"}, {"y"}]>"#;
    assert_eq!(read("shardy", turned).expect(turned).notation_text(), turned);
    let in_order = r#"#sdy.sharding<mesh<["x"=2], device_ids=[0, 1]>, [{"x"}]>"#;
    let printed = r#"#sdy.sharding<mesh<["x"=2]>, [{"x"}]>"#;
    assert_eq!(read("shardy", in_order).expect(in_order).notation_text(), printed);
    let wrong = r#"#sdy.sharding<mesh<["x"=2], device_ids=[0, 2]>, [{"x"}]>"#;
    assert!(read("shardy", wrong).expect_err(wrong).contains("are not the 2 devices"));
}

/// The tags of verbose lines.
#[test]
fn verbose_lines_name_their_tag() {
    for text in
        ["src_f32::blocked:aBcd16b::f0", "f32:p:blocked:acdb::f0", "wei_s8::blocked:ABcd4a:f0"]
    {
        let parsed = parse(text, &AxisTable::new());
        match text.ends_with("4a:f0") {
            // A capital without a block.
            true => assert_eq!(parsed.expect_err(text).span, 17..18),
            false => {
                let parsed = parsed.expect(text);
                assert_eq!(
                    (parsed.notation(), parsed.notation_text().as_str()),
                    (Notation::ONEDNN, text)
                );
                let tag = text.split(':').nth(3).expect("a tag");
                let tag = parse_as(tag, Notation::ONEDNN, &AxisTable::new()).expect(tag);
                let shape = [2, 17, 3, 4];
                let (a, b) =
                    (parsed.layout_over_shape(Some(&shape)), tag.layout_over_shape(Some(&shape)));
                assert_eq!(a.expect(text).find_difference(&b.expect(text)), Ok(None));
            }
        }
    }
}

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

/// What XLA prints of what it reads.
#[test]
fn texts_of_xla_are_printed_as_xla_prints_them() {
    for (name, text, printed) in [
        ("hlo", "{devices=[2,4]<=[4,2]T(0,1)}", "{devices=[2,4]<=[8]}"),
        ("hlo", "{devices=[2,2]<=[2,1,2]T(2,1,0)}", "{devices=[2,2]<=[2,2]T(1,0)}"),
        ("hlo", "{devices=[2,4]<=[2,2,2]T(1,0,2)}", "{devices=[2,4]<=[2,2,2]T(1,0,2)}"),
        ("hlo", "{devices=[2,4]<=[2,2,2]T(2,0,1)}", "{devices=[2,4]<=[4,2]T(1,0)}"),
        ("hlo", "{devices=[2,2,1]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}"),
        (
            "hlo",
            "{devices=[2,2,2,2]<=[16] last_tile_dims={replicated,replicated}}",
            "{devices=[2,2,4]<=[16] last_tile_dim_replicate}",
        ),
        ("hlo", "{devices=[2,1]0,1 metadata={op_name=\"a}\"}}", "{devices=[2,1]0,1}"),
        ("hlo", "{devices=[2,1]<=[2] shard_like 3}", "{devices=[2,1]<=[2] shard_like 3}"),
        ("xla", "f32[3,5]{1,0:D(D,D)T(2,2)M(0)}", "f32[3,5]{1,0:T(2,2)}"),
        (
            "xla",
            "f32[3,5]{1,0:L(2)#(u32)*(u16)E(4)S(1)M(4)}",
            "f32[3,5]{1,0:L(2)#(u32)*(u16)E(4)S(1)M(4)}",
        ),
    ] {
        let notation = Notation::from_name(name).expect(name);
        let parsed = parse_as(text, notation, &AxisTable::new()).expect(text);
        assert_eq!(parsed.notation_text(), printed);
        assert_eq!(parse_as(printed, notation, &AxisTable::new()), Ok(parsed));
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
    ("xla", "f32[3,5]{1,0:#(f32)}", "`f32` is no type of indices", "f32"),
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
    ("onednn", "ncho", "`ncho` is no format tag", "o"),
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
        "dimension 1 of 2 elements is no multiple of its tile, 8, and there is no padding_value",
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
        "the right side of mod is no positive constant",
        "0",
    ),
    ("memref", "affine_map<(d0)[s0] -> (d0 + s0)>", "symbols have no value here", "["),
    ("memref", "affine_map<(d0) -> (d1)>", "`d1` is no dimension of the map", "d1"),
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
    ("hlo", "{devices=[2,2]<=[2,2]T(0,0)}", "T[0, 0] is no order of 2 dimensions", "(0,0)"),
    ("hlo", "{devices=[2,2]0,1,2}", "4 parts on 3 devices", "0,1,2"),
    ("hlo", "{devices=[2,2]0,1,2,2}", "device 2 is listed twice, or negative", "0,1,2,2"),
    (
        "hlo",
        "{devices=[2,2]<=[4] last_tile_dims={maximal}}",
        "`maximal` is no kind of devices",
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
        "(3)2 is no part of 8 devices",
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
        "a stride of 50 bytes is no multiple of the item size, 8 bytes",
        "(50, 8)",
    ),
    (
        "numpy",
        "{'shape': (4, 6), 'typestr': '<q8', 'version': 3}",
        "`<q8` is no type string",
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

/// Texts that are read, to be changed at random.
const GOOD: &[&str] = &[
    "f32[3,5]{1,0:T(2,2)}",
    "bf16[<=16,256]{1,0:T(8,128)(2,1)L(1024)E(16)S(1)}",
    "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
    "f32[]{:T(128)}",
    "{1,0:T(8,128)}",
    "nChw16c",
    "dims=[2, 3, 4, 5] tag=ABcd4b16a2b",
    "linalg.pack %a padding_value(%z : i32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [3, 8] into %e : tensor<7x6xi32> -> tensor<1x3x3x8xi32>",
    "shape = [4, 100] outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [64]",
    "memref<4x6xf32, strided<[6, 1], offset: 2>, 1>",
    "memref<4x40xf32, affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)>>",
    "affine_map<(d0, d1) -> (-d0 * 3 + (d1 - 4) ceildiv 2 + 7)>",
    "NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=PartitionSpec(('x', 'y'), None), memory_kind=device)",
    "Mesh(device_ids=[[0, 1], [2, 3]], axis_names=('x', 'y')) P('y') shape=[9, 9]",
    "{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,2]3,1,2,0} shape=[5, 5]",
    "{maximal device=3}",
    r#"#sdy.mesh<["x"=2, "y"=4]> #sdy.sharding<@mesh, [{"x", ?}p1, {"y":(2)2}], replicated={"y":(1)2}>"#,
    "(_StridedShard(dim=0, split_factor=2), Shard(dim=0)) mesh=[2, 2] mesh_dim_names=('dp', 'tp') shape=[8]",
    "{'shape': (4, 6), 'strides': (48, 8), 'typestr': '<f8', 'data': (94203, False), 'version': 3}",
    "shape=(4, 6) order='F'",
    "ComposeLayout(Swizzle(M=3, B=3, S=3), S[(8,64):(64,1)])",
];

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(2000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A good text with some pieces changed.
fn nearly_good() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "",
        "0",
        "1",
        "-1",
        "9223372036854775807",
        "99999999999999999999",
        "4611686018427387904",
        "?",
        "*",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        ":",
        "=",
        "'",
        "\"",
        "x",
        "d0",
        "None",
        "16b",
        "é",
        " ",
        "\n",
        "T(2)",
        "mod 3",
        "Shard(0)",
    ]);
    let edit = (any::<prop::sample::Index>(), 0usize..6, pieces);
    (prop::sample::select(GOOD.to_vec()), prop::collection::vec(edit, 0..4)).prop_map(
        |(text, edits)| {
            let mut text = text.to_string();
            for (at, cut, piece) in edits {
                let chars: Vec<char> = text.chars().collect();
                let at = at.index(chars.len() + 1);
                let end = (at + cut).min(chars.len());
                text = chars[..at]
                    .iter()
                    .chain(piece.chars().collect::<Vec<_>>().iter())
                    .chain(&chars[end..])
                    .collect();
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(config())]

    /// Whatever the text: an answer, and one that is true of itself.
    #[test]
    fn any_text_is_read_or_refused(text in nearly_good()) {
        let axes = AxisTable::new();
        for notation in Notation::all_notations() {
            match parse_as(&text, notation, &axes) {
                Err(refused) => {
                    let span = refused.span.clone();
                    prop_assert!(span.start <= span.end && span.end <= text.len(), "{:?}", refused);
                    let _ = refused.render(&text, false);
                }
                Ok(parsed) => {
                    let printed = parsed.notation_text();
                    prop_assert_eq!(parse_as(&printed, notation, &axes).map(|p| p.notation_text()), Ok(printed.clone()), "{} {:?}", text, notation);
                    for shape in [None, Some(&[4, 6][..]), Some(&[8][..]), Some(&[2, 3, 4, 5][..]), Some(&[][..])] {
                        let Ok(layout) = parsed.layout_over_shape(shape) else { continue };
                        if layout.size() > 1 << 12 {
                            continue;
                        }
                        if let (Some(Ok(stored)), Ok(order)) = (parsed.stored_elements(shape), layout.offset_table(zellige_layout::Axis::M)) {
                            prop_assert_eq!(stored.order, order, "{}", text);
                        }
                    }
                }
            }
        }
        let _ = parse(&text, &axes);
    }
}

/// A name that MLIR defines elsewhere may be the layout: it is never taken for a memory space.
#[test]
fn names_of_mlir_layouts_are_defined_or_refused() {
    let read = |text: &str| parse(text, &AxisTable::new());
    let refused = read("memref<4x6xf32, #map>").expect_err("no definition");
    assert_eq!(refused.message, "`#map` is defined elsewhere, and may be the layout");
    assert_eq!(refused.span, 16..20);
    let map = "affine_map<(d0, d1) -> (d1, d0)>";
    for text in [
        format!("#map = {map}\nmemref<4x6xf32, #map>"),
        format!("#other = strided<[6, 1]>\n#map = {map}\nmemref<4x6xf32, #map>"),
    ] {
        let parsed = read(&text).expect(&text);
        assert_eq!(parsed.notation_text(), format!("memref<4x6xf32, {map}>"));
    }
    for (text, printed) in [
        (format!("#map = {map} #map"), map),
        (
            "memref<4x6xf32, strided<[6, 1]>, #shared>".to_string(),
            "memref<4x6xf32, strided<[6, 1]>, #shared>",
        ),
        (
            "memref<4x6xf32, #gpu.address_space<workgroup>>".to_string(),
            "memref<4x6xf32, #gpu.address_space<workgroup>>",
        ),
    ] {
        assert_eq!(read(&text).expect(&text).notation_text(), printed);
    }
    let twice = "#a = strided<[1]> #a = strided<[2]> memref<4xf32, #a>";
    assert_eq!(read(twice).expect_err(twice).message, "`#a` is defined twice");
}

/// Elements that are vectors or complex numbers, with their bits.
#[test]
fn memrefs_hold_vectors_and_complex_numbers() {
    for (text, bits) in [
        ("memref<4x6xvector<4xf32>>", 128),
        ("memref<4x6xvector<2x4xbf16>, strided<[8, 1]>>", 128),
        ("memref<4x6xcomplex<f32>>", 64),
    ] {
        let parsed = parse(text, &AxisTable::new()).expect(text);
        assert_eq!(
            (parsed.notation_text().as_str(), parsed.element_bits(None)),
            (text, Some(bits))
        );
        assert_eq!(parsed.default_shape(), Some(vec![4, 6]));
    }
    let nested = "memref<4xvector<4xvector<4xf32>>>";
    let refused = parse(nested, &AxisTable::new()).expect_err(nested);
    assert_eq!(refused.message, "expected `>` at the end of the element type, found `<`");
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

/// An array interface as NumPy prints it, with `descr`, of plain items and of records.
#[test]
fn array_interfaces_are_read_as_numpy_prints_them() {
    let read = |text: &str| parse(text, &AxisTable::new());
    let plain = "{'data': (94, False), 'strides': None, 'descr': [('', '<f8')], 'typestr': '<f8', 'shape': (4, 6), 'version': 3}";
    let parsed = read(plain).expect(plain);
    assert_eq!(parsed.notation(), Notation::NUMPY);
    let layout = parsed.layout_over_shape(None).expect(plain);
    assert_eq!(zellige_notation::tirx::print_tirx(&layout), "S[(4,6):(6,1)]");
    let records = "{'data': (94, False), 'strides': (32,), 'descr': [('a', '<f4'), ('[b', '<f4', (3,))], 'typestr': '|V16', 'shape': (4,), 'version': 3}";
    let layout = read(records).expect(records).layout_over_shape(None).expect(records);
    assert_eq!(zellige_notation::tirx::print_tirx(&layout), "S[4:2]");
    let other = plain.replace("[('', '<f8')]", "[('', '<f4')]");
    let refused = read(&other).expect_err(&other);
    assert_eq!(refused.message, "items of `<f4`, and typestr says `<f8`");
    assert_eq!(&other[refused.span], "[('', '<f4')]");
    let open = "{'typestr': '<f8', 'shape': (4,), 'version': 3, 'descr': [('', ";
    assert_eq!(read(open).expect_err(open).message, "a list of fields without an end");
}

/// TIRx layouts as upstream prints them.
#[test]
fn tirx_is_read_as_upstream_prints_it() {
    let read = |text: &str| parse(text, &AxisTable::new());
    for (text, printed) in [
        (
            "T.TileLayout(T.S[(8, 4):(4 @ Axis.laneid, 1)] + T.R[2:1 @ Axis.warpid] + 5 @ Axis.warpid)",
            "S[(8,4):(4@laneid,1)] + R[2:1@warpid] + 5@warpid",
        ),
        (
            "T.ComposeLayout(3, 3, 3, T.TileLayout(T.S[(8, 64):(64, 1)]))",
            "Swizzle(3,3,3) o S[(8,64):(64,1)]",
        ),
        (
            "T.ComposeLayout(3, 3, 3, T.TileLayout(T.S[64:1]), swizzle_inner=False)",
            "Swizzle(3,3,3,outer) o S[64:1]",
        ),
        ("T.S[(4, 4):(32, 1)]", "S[(4,4):(32,1)]"),
    ] {
        assert_eq!(read(text).expect(text).notation_text(), printed);
    }
    let narrow = "T.ComposeLayout(3, 3, 2, T.S[64:1])";
    let refused = read(narrow).expect_err(narrow);
    assert_eq!(&narrow[refused.span], "3, 3, 2");
    let unknown = "T.S[8:1 @ Axis.nowhere]";
    assert_eq!(read(unknown).expect_err(unknown).message, "unknown axis `nowhere`");
}
