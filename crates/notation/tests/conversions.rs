//! Conversions between all notations, compared by enumeration: an equal text gives every element the same
//! physical coordinates, and a refined one does so in row-major order.

use proptest::prelude::*;
use std::collections::BTreeMap;
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Layout, PhysicalCoordinate};
use zellige_notation::convert::{
    ConversionRefusal, NotationConversion, convert_layout, convert_or_refine,
};
use zellige_notation::sharding::on_numbered_devices;
use zellige_notation::{Notation, ParsedText, parse, parse_as};

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(200);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The places of every element in row-major order, one by one.
fn places(layout: &Layout) -> Vec<Vec<PhysicalCoordinate>> {
    let normal = |index: i64| {
        let mut all: Vec<PhysicalCoordinate> = layout
            .physical_coordinates(index)
            .expect("an element")
            .sorted_coordinates()
            .iter()
            .map(PhysicalCoordinate::without_zero_entries)
            .collect();
        all.sort();
        all.dedup();
        all
    };
    (0..layout.size()).map(normal).collect()
}

/// The axes that a text of a layout may name.
fn declared(layout: &Layout) -> AxisTable {
    let mut axes = AxisTable::new();
    for axis in layout.tile().axes() {
        axes.declare_axis(axis.name(), axis.kind()).expect("axes of one layout");
    }
    axes
}

/// Converts a layout into every notation; how many conversions were equal, by notation.
fn check(parsed: &ParsedText, shape: &[i64], counts: &mut BTreeMap<&'static str, [usize; 3]>) {
    let text = parsed.notation_text();
    let layout = parsed
        .layout_over_shape(Some(shape))
        .unwrap_or_else(|e| panic!("{text} over {shape:?}: {e:?}"));
    let expected = places(&layout);
    for to in Notation::all_notations() {
        let format = to.needs_dtype().then_some(Dtype::Float16);
        let found = convert_or_refine(parsed, &layout, shape, format, to);
        let read = |written: &str, over: &[i64]| {
            let axes = declared(&layout);
            let again = parse_as(written, to, &axes)
                .unwrap_or_else(|e| panic!("{text} as {}: {written}: {e:?}", to.name()));
            // Who reads it without naming the notation finds the same one, or is asked which is meant.
            match parse(written, &axes) {
                Ok(found) => assert_eq!(found.notation(), to, "{text} as {written}"),
                Err(asked) => assert_eq!(asked.id, "Z007", "{text} as {written}: {asked:?}"),
            }
            let layout = again.layout_over_shape(Some(over));
            (again, layout.unwrap_or_else(|e| panic!("{text} as {written} over {over:?}: {e:?}")))
        };
        let count = counts.entry(to.name()).or_default();
        match found {
            Ok(NotationConversion::Equal(written)) => {
                count[0] += 1;
                let (again, converted) = read(&written, shape);
                match on_numbered_devices(parsed, &again, shape) {
                    Some((a, b)) => assert_eq!(places(&a), places(&b), "{text} as {written}"),
                    None => assert_eq!(places(&converted), expected, "{text} as {written}"),
                }
            }
            Ok(NotationConversion::Refined { text: written, shape: finer, .. }) => {
                count[1] += 1;
                let (_, converted) = read(&written, &finer);
                assert_eq!(places(&converted), expected, "{text} as {written} over {finer:?}");
            }
            Err(ConversionRefusal::NotExpressible(why)) => {
                count[2] += 1;
                assert!(!why.reason.is_empty(), "{text} as {}", to.name());
                let inside = why.witness.is_none_or(|i| (0..layout.size()).contains(&i));
                assert!(inside, "{text} as {}: {why:?}", to.name());
            }
            // A format of the card holds no gaps, repeats or negative strides: the request itself is wrong.
            Err(ConversionRefusal::Error(_)) => count[2] += 1,
        }
    }
}

/// A shape and a text over it.
fn text() -> impl Strategy<Value = (Notation, String, Vec<i64>)> {
    let dims = || prop::collection::vec(1i64..=9, 1..=3);
    let powers = || prop::collection::vec((0u32..=4).prop_map(|k| 1i64 << k), 2..=3);
    let order = |rank: usize, seed: u64| {
        let mut order: Vec<usize> = (0..rank).collect();
        let mut state = seed;
        for i in (1..rank).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        order
    };
    let list = |v: &[i64]| v.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    // Strides in some order, with gaps.
    let strides = (prop_oneof![dims(), powers()], any::<u64>(), 1i64..=3, 0i64..=5).prop_map(
        move |(shape, seed, gap, offset)| {
            let mut strides = vec![0; shape.len()];
            let mut next = 1;
            for d in order(shape.len(), seed) {
                strides[d] = next;
                next *= shape[d];
                if seed % 3 == 0 {
                    next *= gap;
                }
            }
            let text =
                format!("size=[{}] stride=[{}] offset={offset}", list(&shape), list(&strides));
            let text = if offset == 0 { text.replace(" offset=0", "") } else { text };
            (Notation::TORCH, text, shape)
        },
    );
    // Tiles of XLA, with padding.
    let tiles = (dims(), any::<u64>(), prop::collection::vec(1i64..=5, 1..=3)).prop_map(
        move |(shape, seed, tile)| {
            let order: Vec<i64> = order(shape.len(), seed).into_iter().map(|d| d as i64).collect();
            let tile = &tile[..tile.len().min(shape.len())];
            (Notation::XLA, format!("{{{}:T({})}}", list(&order), list(tile)), shape)
        },
    );
    // Swizzled shared memory.
    let swizzled = (powers(), 0u32..=3, 0u32..=2, 0u32..=3).prop_map(|(shape, vec, per, max)| {
        let order: Vec<i64> = (0..shape.len() as i64).rev().collect();
        let text = format!(
            "#ttg.swizzled_shared<{{vec = {}, perPhase = {}, maxPhase = {}, order = {order:?}}}>",
            1 << vec,
            1 << per,
            1 << max
        );
        (Notation::TRITON, text, shape)
    });
    // Threads.
    let blocked = (0u32..=2, 0u32..=2, 0u32..=5, 0u32..=2, 0u32..=2, any::<bool>(), 3u32..=6, 3u32..=5)
        .prop_map(|(r0, r1, lanes, w0, w1, row, a, b)| {
            let order = if row { "[1, 0]" } else { "[0, 1]" };
            let text = format!(
                "#ttg.blocked<{{sizePerThread = [{}, {}], threadsPerWarp = [{}, {}], warpsPerCTA = [{}, {}], order = {order}}}>",
                1 << r0, 1 << r1, 1 << lanes, 32 >> lanes, 1 << w0, 1 << w1
            );
            (Notation::TRITON, text, vec![1 << a, 1 << b])
        });
    // Devices.
    let sharded =
        (1i64..=3, 1i64..=4, 1i64..=9, 1i64..=9, 0usize..5).prop_map(|(x, y, a, b, k)| {
            let spec = ["'x', 'y'", "'y', None", "None, ('x', 'y')", "('y', 'x')", ""][k];
            (Notation::JAX, format!("Mesh('x': {x}, 'y': {y}) PartitionSpec({spec})"), vec![a, b])
        });
    let cute = (powers(), any::<u64>()).prop_map(move |(shape, seed)| {
        let mut strides = vec![0; shape.len()];
        let mut next = 1;
        for d in order(shape.len(), seed) {
            strides[d] = next;
            next *= shape[d];
        }
        (Notation::CUTE, format!("({}):({})", list(&shape), list(&strides)), shape)
    });
    prop_oneof![strides, tiles, swizzled, blocked, sharded, cute]
}

/// A random number below `n`, and the next state.
fn below(state: &mut u64, n: u64) -> i64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % n) as i64
}

/// Any layout of the algebra: iters on every kind of axis in any order, with strides that repeat, overlap
/// and run backwards, copies, an offset, a swizzle and padding; over its own extents or over one dimension.
fn algebra(seed: u64) -> (String, Vec<i64>) {
    let mut state = seed;
    let mut draw = |n: u64| below(&mut state, n);
    let axes: &[&str] = match draw(4) {
        0 => &[""],
        1 => &["@pid"],
        2 => &["", "@pid"],
        _ => &["", "@laneid", "@warpid", "@x", "@TCol"],
    };
    let mut iters = |count: i64| {
        let (mut extents, mut strides) = (Vec::new(), Vec::new());
        let mut next = 1i64;
        for _ in 0..count {
            let extent = 1 + draw(4);
            let stride = match draw(6) {
                0 => draw(8) - 2,
                1 => 1,
                _ => next,
            };
            next *= extent;
            extents.push(extent);
            let axis = usize::try_from(draw(axes.len() as u64)).expect("small");
            strides.push(format!("{stride}{}", axes[axis]));
        }
        let written: Vec<String> = extents.iter().map(ToString::to_string).collect();
        (format!("[({}):({})]", written.join(","), strides.join(",")), extents)
    };
    let (shard, mut shape) = iters(1 + (seed % 4) as i64);
    let (replica, _) = iters(1);
    let mut text = format!("S{shard}");
    if draw(4) == 0 {
        text = format!("{text} + R{replica}");
    }
    if draw(4) == 0 {
        text = format!("{text} + {}{}", draw(5), axes[0]);
    }
    if draw(6) == 0 && axes == [""] {
        text = format!("Swizzle({},1,{}) o {text}", draw(2), 1 + draw(2));
    }
    match draw(5) {
        0 => {
            let mut valid = Vec::new();
            for extent in &mut shape {
                let padded = *extent;
                *extent = 1 + draw(padded as u64);
                valid.push(format!("{extent}/{padded}"));
            }
            text = format!("{text} valid[{}]", valid.join(","));
        }
        1 => shape = vec![shape.iter().product()],
        _ => {}
    }
    (text, shape)
}

/// What [`check`] finds of one random layout.
fn check_random(seed: u64, counts: &mut BTreeMap<&'static str, [usize; 3]>) {
    let (text, shape) = algebra(seed);
    let mut axes = AxisTable::new();
    axes.declare_axis("x", zellige_layout::AxisKind::Device).expect("a device axis");
    // Some of them are no layouts: a negative device, an overlap of an axis with itself.
    if let Ok(parsed) = parse_as(&text, Notation::TIRX, &axes) {
        check(&parsed, &shape, counts);
    }
}

/// More of the same: `cargo test --release -p zellige-notation --test conversions -- --ignored`.
#[test]
#[ignore = "./test --long runs it: seconds; fewer cases are part of every run"]
fn long_many_random_layouts_are_written_as_what_they_are() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let first = number("PROPTEST_SEED").unwrap_or(0);
    let mut counts = BTreeMap::new();
    for seed in first..first + number("PROPTEST_CASES").unwrap_or(20_000) {
        check_random(seed, &mut counts);
    }
    for (notation, [equal, refined, refused]) in counts {
        eprintln!("{notation:<9} {equal:>7} equal {refined:>7} refined {refused:>7} refused");
        assert!(equal > 0, "no layout has a text in {notation}");
    }
}

/// A device that would be listed twice holds two parts of the tensor: such a list is none, and is not read.
#[test]
fn lists_of_devices_name_each_device_once() {
    let axes = AxisTable::new();
    for text in
        ["S[(2,2):(1@pid,1@pid)]", "S[(2,3):(2@pid,1@pid)]", "S[(4,2):(1@pid,2@pid)] + 1@pid"]
    {
        let layout =
            parse_as(text, Notation::TIRX, &axes).expect(text).layout_over_shape(None).expect(text);
        let refused = convert_layout(&layout, &layout.default_shape(), None, Notation::HLO);
        let Err(ConversionRefusal::NotExpressible(why)) = refused else {
            panic!("{text}: {refused:?}")
        };
        assert!(why.reason.contains("each device once"), "{text}: {}", why.reason);
    }
}

/// A mesh without dimensions has no placements, and its text is recognised.
#[test]
fn placements_on_no_mesh_are_read_back() {
    let axes = AxisTable::new();
    let layout =
        parse("S[(4,6):(6,1)]", &axes).expect("a layout").layout_over_shape(None).expect("whole");
    let text = convert_layout(&layout, &[4, 6], None, Notation::DTENSOR).expect("a text");
    assert_eq!(text, "() mesh=[]");
    let again = parse(&text, &axes).expect("recognised");
    assert_eq!(again.notation(), Notation::DTENSOR);
    assert_eq!(
        again.layout_over_shape(Some(&[4, 6])).expect("over a shape").find_difference(&layout),
        Ok(None)
    );
}

/// Strides of NumPy are in bytes of the requested type.
#[test]
fn numpy_strides_are_bytes_of_the_dtype() {
    let axes = AxisTable::new();
    let layout = parse("S[(4,6):(12,2)] + 3", &axes)
        .expect("a layout")
        .layout_over_shape(None)
        .expect("whole");
    let write = |dtype| convert_layout(&layout, &[4, 6], dtype, Notation::NUMPY);
    for (dtype, bytes, typestr) in [
        (None, 1, "|V1"),
        (Some(Dtype::Float16), 2, "<f2"),
        (Some(Dtype::Float64), 8, "<f8"),
        (Some(Dtype::Int8), 1, "|i1"),
        (Some(Dtype::Bool), 1, "|b1"),
        (Some(Dtype::Bfloat16), 2, "|V2"),
        (Some(Dtype::Complex128), 16, "<c16"),
    ] {
        let strides = format!("({}, {})", 12 * bytes, 2 * bytes);
        let expected = format!(
            "{{'shape': (4, 6), 'strides': {strides}, 'typestr': '{typestr}', 'offset': {}, 'version': 3}}",
            3 * bytes
        );
        assert_eq!(write(dtype).expect("a text"), expected);
    }
    assert!(matches!(write(Some(Dtype::Int4)), Err(ConversionRefusal::NotExpressible(_))));
    // A stride that does not fit in bytes.
    let far = parse("S[(2,2):(4611686018427387904,3)]", &axes).expect("a layout");
    let far = far.layout_over_shape(None).expect("whole");
    assert!(convert_layout(&far, &[2, 2], Some(Dtype::Float64), Notation::NUMPY).is_err());
}

/// An order of memory that takes a tile for every digit is refused, as every tile doubles what follows it.
#[test]
fn tiles_of_xla_end_somewhere() {
    for digits in [12usize, 24, 40, 62] {
        let extents = vec!["2"; digits].join(",");
        let strides: Vec<String> = (0..digits).map(|k| (1i64 << k).to_string()).collect();
        let text = format!("S[({extents}):({})]", strides.join(","));
        let layout = parse(&text, &AxisTable::new())
            .expect("a layout")
            .layout_over_shape(None)
            .expect("whole");
        let refused = convert_layout(&layout, &[1 << digits], None, Notation::XLA);
        let Err(ConversionRefusal::NotExpressible(why)) = refused else {
            panic!("{digits}: {refused:?}")
        };
        assert!(why.reason.contains("dimensions in memory"), "{digits}: {}", why.reason);
        // Each of its own dimensions has a place.
        let own =
            convert_layout(&layout, &layout.default_shape(), None, Notation::XLA).expect("a text");
        assert!(own.len() < 400, "{own}");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_layout_is_written_as_what_it_is(seed in any::<u64>()) {
        check_random(seed, &mut BTreeMap::new());
    }

    #[test]
    fn what_is_equal_is_equal_element_by_element((notation, text, shape) in text()) {
        let axes = AxisTable::new();
        let parsed = parse_as(&text, notation, &axes).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        // A text that the algebra has no layout for is refused as such, elsewhere.
        if parsed.layout_over_shape(Some(&shape)).is_ok() {
            check(&parsed, &shape, &mut BTreeMap::new());
        }
    }
}

/// Known layouts have a text in as many notations as they should: a refusal that is too quick would go unseen above.
#[test]
fn plain_layouts_are_written_in_every_notation_that_has_them() {
    let axes = AxisTable::new();
    let table: [(&str, &[i64], &[&str]); 6] = [
        (
            "size=[4, 6] stride=[6, 1]",
            &[4, 6],
            &[
                "tirx", "cute", "xla", "onednn", "pack", "memref", "jax", "hlo", "shardy",
                "dtensor", "numpy",
            ],
        ),
        (
            "size=[4, 8] stride=[1, 4]",
            &[4, 8],
            &["tirx", "cute", "linear", "triton", "xla", "onednn", "pack", "memref", "numpy"],
        ),
        ("nChw16c", &[2, 32, 4, 4], &["tirx", "cute", "linear", "triton", "xla", "pack", "memref"]),
        ("f32[10,256]{1,0:T(8,128)}", &[10, 256], &["tirx", "onednn", "pack", "memref"]),
        ("{devices=[2,4]<=[8]}", &[8, 16], &["tirx", "jax", "shardy", "dtensor"]),
        ("Sw<3,3,3> o 0 o (8,64):(64,1)", &[8, 64], &["tirx", "linear", "triton"]),
    ];
    for (text, shape, wanted) in table {
        let parsed = zellige_notation::parse(text, &axes).expect(text);
        let layout = parsed.layout_over_shape(Some(shape)).expect(text);
        for name in wanted {
            let to = Notation::from_name(name).expect("a notation");
            let format = to.needs_dtype().then_some(Dtype::Float16);
            let found = convert_or_refine(&parsed, &layout, shape, format, to);
            assert!(
                matches!(found, Ok(NotationConversion::Equal(_))),
                "{text} as {name}: {found:?}"
            );
        }
    }
}

/// Padding that can be left out is no obstacle: strides and bases of the elements alone are found.
#[test]
fn padding_around_the_elements_is_left_out() {
    let read = |text: &str| parse_as(text, Notation::TIRX, &AxisTable::new()).expect(text);
    let mut counts = BTreeMap::new();
    for (text, shape) in [
        ("S[(8,64):(64,1)] valid[4/8,64]", [4, 64]),
        ("S[(8,64):(1,8)] valid[8,32/64]", [8, 32]),
        ("S[(8,64):(64,1)] valid[8,64]", [8, 64]),
    ] {
        let parsed = read(text);
        check(&parsed, &shape, &mut counts);
        let layout = parsed.layout_over_shape(None).expect(text);
        for to in [Notation::TORCH, Notation::CUTE, Notation::LINEAR, Notation::TRITON] {
            let found = convert_or_refine(&parsed, &layout, &shape, None, to);
            assert!(
                matches!(found, Ok(NotationConversion::Equal(_))),
                "{text} as {to:?}: {found:?}"
            );
        }
    }
    // Rows that are 4 longer than their elements are padded shared memory.
    let rows = read("S[(16,36):(36,1)] valid[16,32/36]");
    check(&rows, &[16, 32], &mut counts);
    let layout = rows.layout_over_shape(None).expect("a layout");
    let found = convert_or_refine(&rows, &layout, &[16, 32], None, Notation::TRITON);
    let padded = "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [16, 32]}>";
    assert_eq!(found, Ok(NotationConversion::Equal(padded.into())));
    // Here it cannot: the third element of a row is in another tile.
    let tiles = read("S[(2,2,4,2):(8,2,4,1)] valid[4,3/8]");
    check(&tiles, &[4, 3], &mut counts);
}
