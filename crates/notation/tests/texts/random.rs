//! Any text at all: no panic, and what is accepted is true of itself.

use proptest::prelude::*;
use zellige_layout::AxisTable;
use zellige_notation::{Notation, parse, parse_as};

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
