//! Tiled and blocked formats against their own definitions. `crates/conformance` has the recorded answers
//! of XLA, oneDNN and MLIR.

use proptest::prelude::*;
use serde_json::Value;
use zellige_layout::{Axis, AxisTable, Layout};
use zellige_notation::{Notation, onednn, parse, parse_as};

fn data(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("valid JSON")
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().expect("a list").iter().map(|x| x.as_i64().expect("an integer")).collect()
}

/// The position of every element.
fn order(layout: &Layout) -> Vec<i64> {
    layout.offset_table(Axis::M).expect("small")
}

/// Properties that no request answers: the shapes and descriptors behind positions.
#[test]
fn shapes_and_descriptors_are_the_recorded_ones() {
    let cases = |name: &str| data(name)["cases"].as_array().expect("cases").clone();
    for case in cases("xla.json") {
        let xla = zellige_notation::xla::parse(case["text"].as_str().expect("a text"));
        let found = xla.expect("a layout").tiled_shape(&ints(&case["shape"]));
        assert_eq!(found, Ok(ints(&case["tiled_shape"])), "{}", case["text"]);
    }
    for case in cases("mlir_pack.json") {
        let pack = zellige_notation::pack::parse(case["op"].as_str().expect("a text"));
        let found = pack.expect("a pack").packed_shape(&ints(&case["shape"]));
        assert_eq!(found, Ok(ints(&case["packed_shape"])), "{}", case["op"]);
    }
    for case in cases("onednn.json") {
        let tag = onednn::FormatTag::new(case["tag"].as_str().expect("a tag")).expect("a tag");
        let md = tag.memory_descriptor(&ints(&case["dims"])).expect("a descriptor");
        assert_eq!(md.padded_dims, ints(&case["padded_dims"]), "{case}");
        assert_eq!(md.strides, ints(&case["strides"]), "{case}");
        assert_eq!(md.inner_blks, ints(&case["inner_blks"]), "{case}");
        let dims: Vec<usize> = serde_json::from_value(case["inner_idxs"].clone()).expect("0..");
        assert_eq!(md.inner_idxs, dims, "{case}");
    }
}

/// A random XLA text: its shape, the order of its dimensions, and tiles that may divide or not.
fn xla_text() -> impl Strategy<Value = String> {
    let dims = prop::collection::vec(prop_oneof![9 => 1i64..9, 1 => Just(0i64)], 1..4);
    let tile =
        prop::collection::vec(prop_oneof![8 => (1i64..6).prop_map(Some), 1 => Just(None)], 0..4);
    (dims, prop::collection::vec(tile, 0..4), any::<u64>()).prop_map(|(dims, tiles, seed)| {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        let (n, k) = (order.len(), usize::try_from(seed % 7).expect("small"));
        order.rotate_left(k % n);
        if k > 3 {
            order.reverse();
        }
        let list = |v: Vec<String>| v.join(",");
        let dims_text = list(dims.iter().map(ToString::to_string).collect());
        let order_text = list(order.iter().map(ToString::to_string).collect());
        let mut text = format!("f32[{dims_text}]{{{order_text}");
        let mut rank = dims.len();
        for (k, tile) in tiles.iter().enumerate() {
            let mut tile = tile.clone();
            if let Some(last) = tile.last_mut() {
                last.get_or_insert(2);
            }
            if tile.len() > rank {
                tile.iter_mut().for_each(|t| {
                    t.get_or_insert(1);
                });
            }
            let merged = tile.iter().filter(|t| t.is_none()).count();
            rank = rank.max(tile.len()) - merged + tile.len() - merged;
            let sizes = tile.iter().map(|t| t.map_or("*".into(), |t: i64| t.to_string())).collect();
            text += &format!("{}({})", if k == 0 { ":T" } else { "" }, list(sizes));
        }
        text + "}"
    })
}

/// A permutation of `0..n` from a seed.
fn shuffled(n: usize, mut seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for k in (1..n).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(k, usize::try_from(seed >> 33).expect("31 bits") % (k + 1));
    }
    order
}

/// A random format tag and dimensions of it.
fn onednn_text() -> impl Strategy<Value = (String, Vec<i64>)> {
    let dims = prop::collection::vec(prop_oneof![9 => 1i64..8, 1 => Just(0i64)], 1..5);
    let blocks = prop::collection::vec((any::<prop::sample::Index>(), 2i64..5), 0..4);
    (dims, blocks, any::<u64>()).prop_map(|(dims, blocks, seed)| {
        let letter = |d: usize| char::from(b"abcdefgh"[d]);
        let blocks: Vec<(usize, i64)> =
            blocks.into_iter().map(|(d, size)| (d.index(dims.len()), size)).collect();
        let mut text = String::new();
        for d in shuffled(dims.len(), seed) {
            let split = blocks.iter().any(|(b, _)| *b == d);
            text.push(if split { letter(d).to_ascii_uppercase() } else { letter(d) });
        }
        for (d, size) in blocks {
            text += &format!("{size}{}", letter(d));
        }
        (text, dims)
    })
}

/// Random attributes of a pack and a shape for them.
fn pack_text() -> impl Strategy<Value = (String, Vec<i64>)> {
    let dims = prop::collection::vec(prop_oneof![9 => 1i64..8, 1 => Just(0i64)], 1..5);
    (dims, prop::collection::vec(1i64..5, 0..5), any::<u64>(), any::<u64>()).prop_map(
        |(dims, mut tiles, seed, other)| {
            tiles.truncate(dims.len());
            let mut pos = shuffled(dims.len(), seed);
            pos.truncate(tiles.len());
            let perm = shuffled(dims.len(), other);
            let perm =
                if other % 3 == 0 { String::new() } else { format!("outer_dims_perm = {perm:?}") };
            (format!("{perm} inner_dims_pos = {pos:?} inner_tiles = {tiles:?}"), dims)
        },
    )
}

/// Cases of each law; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(500);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// **Laws** of a text that stores its elements in one memory: it is printed as it is read; its layout puts
/// every element where the notation's own definition does; and that layout is written again as a text with
/// the same layout.
fn check_stored(text: &str, notation: Notation, shape: &[i64]) -> bool {
    let axes = AxisTable::new();
    let parsed = parse_as(text, notation, &axes).expect(text);
    assert_eq!(parse_as(&parsed.notation_text(), notation, &axes), Ok(parsed.clone()), "{text}");
    let stored = parsed.stored_elements(Some(shape)).expect("it stores elements").expect(text);
    let mut used = stored.order.clone();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), stored.order.len(), "{text}: two elements in one place");
    assert!(used.last().is_none_or(|last| *last < stored.positions), "{text}");
    let Ok(layout) = parsed.layout_over_shape(Some(shape)) else { return false };
    assert_eq!(order(&layout), stored.order, "{text}");
    let written = zellige_notation::convert::convert_layout(&layout, shape, None, notation);
    // A tile that cuts an earlier tile unevenly gives the window a dimension of its own, which no search
    // for tiles undoes. Nor does it look for dimensions that are merged and padded together.
    let uneven = layout.window().is_some_and(|w| w.shape() != shape) || text.contains('*');
    let written = match written {
        Err(_) if uneven => return false,
        other => other.unwrap_or_else(|e| panic!("{text}: {e:?}")),
    };
    let again = parse_as(&written, notation, &axes).expect(&written);
    let again = again.layout_over_shape(Some(shape)).expect(&written);
    assert_eq!(order(&again), stored.order, "{text} as {written}");
    true
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn xla_layouts_are_their_definition(text in xla_text()) {
        let shape = parse(&text, &AxisTable::new()).expect(&text).default_shape().expect("a shape");
        check_stored(&text, Notation::XLA, &shape);
    }

    #[test]
    fn onednn_layouts_are_their_definition((text, dims) in onednn_text()) {
        prop_assert!(check_stored(&text, Notation::ONEDNN, &dims));
    }

    #[test]
    fn pack_layouts_are_their_definition((text, shape) in pack_text()) {
        prop_assert!(check_stored(&text, Notation::PACK, &shape));
    }
}

#[test]
fn memrefs_are_their_definition() {
    let axes = AxisTable::new();
    let texts = [
        ("memref<4x6xf32>", "S[(4,6):(6,1)]"),
        ("memref<4x6xf32, strided<[6, 1], offset: 2>>", "S[(4,6):(6,1)] + 2"),
        ("memref<4x6xf32, strided<[1, 4]>, 3>", "S[(4,6):(1,4)]"),
        ("memref<f32>", "S[]"),
        ("memref<4x6xi8, #gpu.address_space<workgroup>>", "S[(4,6):(6,1)]"),
        (
            "memref<4x40xf32, affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)>>",
            "S[(4,3,16):(16,64,1)] valid[4,40/48]",
        ),
        ("memref<4x6xf32, affine_map<(d0, d1) -> (d0 * 12 + d1 + 3)>>", "S[(4,6):(12,1)] + 3"),
        ("memref<2x3xf32, affine_map<(d0, d1) -> (-d0 + 1, d1)>>", "S[(2,3):(-3,1)] + 3"),
        (
            "memref<2x3xf32, affine_map<(i, j) -> ((i * 3 + j) floordiv 6, (i * 3 + j) mod 6)>>",
            "S[(2,3):(3,1)]",
        ),
    ];
    for (text, layout) in texts {
        let parsed = parse(text, &axes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed.notation(), Notation::MEMREF);
        assert_eq!(
            parsed.notation_text(),
            text.replace("(i, j)", "(d0, d1)").replace("i * 3 + j", "d0 * 3 + d1")
        );
        let want = zellige_notation::tirx::parse(layout, &axes).expect(layout);
        let found = parsed.layout_over_shape(None).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found.find_difference(&want), Ok(None), "{text}: {found:?}");
        let shape = parsed.default_shape().expect("a shape");
        let written =
            zellige_notation::convert::convert_layout(&found, &shape, None, Notation::MEMREF)
                .expect(text);
        let again = parse(&written, &axes)
            .expect(&written)
            .layout_over_shape(Some(&shape))
            .expect(&written);
        assert_eq!(again.find_difference(&want), Ok(None), "{text} as {written}");
    }
    // A map across dimensions that carries from one to the other.
    let carrying =
        "memref<2x4xf32, affine_map<(d0, d1) -> ((d0 * 4 + d1) mod 3, (d0 * 4 + d1) floordiv 3)>>";
    let parsed = parse(carrying, &axes).expect(carrying);
    assert_eq!(parsed.layout_over_shape(None).map_err(|e| e.id), Err("Z008"));
    assert_eq!(
        parsed.stored_elements(None).expect("positions").expect("small").order,
        [0, 3, 6, 1, 4, 7, 2, 5]
    );
}

proptest! {
    #![proptest_config(config())]

    /// What is blocked is an affine map too, and strides are strides.
    #[test]
    fn memrefs_write_what_tags_describe((tag, dims) in onednn_text(), offset in 0i64..3, sign in any::<bool>()) {
        let axes = AxisTable::new();
        let layout = parse(&tag, &axes).expect(&tag).layout_over_shape(Some(&dims)).expect(&tag);
        let shard: Vec<_> = layout.tile().shard().iter()
            .map(|it| zellige_layout::Iter::in_memory(it.extent, if sign { 2 * it.stride } else { it.stride })).collect();
        let tile = zellige_layout::TileLayout::new(shard, Vec::new(), [(Axis::M, offset)]).expect("small");
        let layout = match layout.window() {
            Some(w) => Layout::from(tile).with_window(w.clone()).expect("the same size"),
            None => tile.into(),
        };
        let text = zellige_notation::convert::convert_layout(&layout, &dims, None, Notation::MEMREF).expect(&tag);
        let parsed = parse(&text, &axes).expect(&text);
        prop_assert_eq!(parsed.notation_text(), text.as_str());
        let again = parsed.layout_over_shape(Some(&dims)).expect(&text);
        prop_assert_eq!(again.find_difference(&layout), Ok(None), "{} as {}", tag, text);
        if let Some(stored) = parsed.stored_elements(Some(&dims)) {
            prop_assert_eq!(stored.expect(&text).order, order(&layout));
        }
    }
}

#[test]
fn numpy_arrays_are_strided() {
    let axes = AxisTable::new();
    let texts = [
        (
            "{'shape': (4, 6), 'strides': (48, 8), 'typestr': '<f8', 'data': (94203, False), 'version': 3}",
            "S[(4,6):(6,1)]",
        ),
        (
            "{'shape': (4, 6), 'strides': (-4, 16), 'typestr': '<f4', 'version': 3}",
            "S[(4,6):(-1,4)]",
        ),
        ("{'shape': (), 'typestr': '|u1', 'version': 3}", "S[]"),
        (
            "{'shape': (3,), 'typestr': '<U2', 'strides': (16,), 'offset': 8, 'version': 3,}",
            "S[3:2] + 1",
        ),
        ("shape=(4, 6) order='F'", "S[(4,6):(1,4)]"),
        ("shape=(4, 6)", "S[(4,6):(6,1)]"),
    ];
    for (text, layout) in texts {
        let parsed = parse(text, &axes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed.notation(), Notation::NUMPY);
        assert_eq!(parse(&parsed.notation_text(), &axes), Ok(parsed.clone()), "{text}");
        let want = zellige_notation::tirx::parse(layout, &axes).expect(layout);
        let found = parsed.layout_over_shape(None).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found.find_difference(&want), Ok(None), "{text}: {found:?}");
        let shape = parsed.default_shape().expect("a shape");
        let written =
            zellige_notation::convert::convert_layout(&found, &shape, None, Notation::NUMPY)
                .expect(text);
        let again =
            parse(&written, &axes).expect(&written).layout_over_shape(None).expect(&written);
        assert_eq!(again.find_difference(&want), Ok(None), "{text} as {written}");
    }
}
