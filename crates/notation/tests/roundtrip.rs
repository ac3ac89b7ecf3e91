//! **Law**: `parse(print(x)) == x`, for every notation and any value it can print.

use proptest::prelude::*;
use zellige_float::Dtype;
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, PaddedExtent, StridedLayout, Swizzle, TileLayout, ValidWindow,
};
use zellige_notation::{ParsedText, json, parse, spyre, tirx, torch};
use zellige_stick::StickLayout;

/// A thousand cases of each law; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(1000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn axis() -> impl Strategy<Value = Axis> {
    let axes: Vec<Axis> = AxisTable::new().iter().collect();
    prop_oneof![Just(Axis::M), prop::sample::select(axes)]
}

/// Small numbers mostly, and some from the ends of the range.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => -9i64..40,
        1 => any::<i32>().prop_map(i64::from),
        1 => any::<i64>(),
        1 => prop::sample::select(vec![i64::MAX, i64::MIN, i64::MIN + 1, 1 << 62]),
    ]
}

fn iters(low: i64) -> impl Strategy<Value = Vec<Iter>> {
    let extent = prop_oneof![8 => low..9, 1 => Just(1), 1 => Just(1i64 << 40)];
    prop::collection::vec((extent, number(), axis()).prop_map(|(e, s, a)| Iter::new(e, s, a)), 0..5)
}

fn tile() -> impl Strategy<Value = TileLayout> {
    let offset = prop::collection::vec((axis(), number()), 0..4);
    (iters(0), iters(1), offset)
        .prop_filter_map("too large for 64 bits", |(s, r, o)| TileLayout::new(s, r, o).ok())
}

fn layout() -> impl Strategy<Value = Layout> {
    let swizzle = (0i64..8, 0i64..5, 0i64..8, any::<bool>());
    (tile(), prop::option::of(swizzle), prop::option::of(any::<u64>())).prop_map(
        |(tile, sw, window)| {
            let extents: Vec<i64> = tile.shard().iter().map(|it| it.extent).collect();
            let sw =
                sw.map(|(m, b, s, inner)| Swizzle::new(m, b, b + s, inner).expect("well-formed"));
            let layout = match sw.map(|sw| Layout::from_swizzled_tile(sw, tile.clone())) {
                Some(Ok(l)) => l,
                _ => Layout::from(tile),
            };
            let Some(mut seed) = window else { return layout };
            let mut below = |n: i64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                i64::try_from(seed >> 33).expect("31 bits") % (n + 1)
            };
            let dims = extents.iter().map(|padded| {
                let begin = below(*padded);
                PaddedExtent { begin, valid: below(padded - begin), padded: *padded }
            });
            let window = ValidWindow::new(dims.collect()).expect("inside");
            layout.with_window(window).expect("the padded extents are those of the layout")
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn layouts_survive_text_and_json(l in layout()) {
        let axes = AxisTable::new();
        let text = tirx::print_tirx(&l);
        prop_assert_eq!(tirx::parse(&text, &axes), Ok(l.clone()), "{}", text);
        prop_assert_eq!(parse(&text, &axes), Ok(ParsedText::from(l.clone())), "{}", text);
        let value = json::layout_to_json(&l);
        prop_assert_eq!(json::layout_from_json(&value, &axes), Ok(l.clone()), "{}", value);
        let again = serde_json::from_str(&value.to_string()).expect("its own JSON");
        prop_assert_eq!(json::layout_from_json(&again, &axes), Ok(l.clone()), "{}", value);
    }

    #[test]
    fn hosts_survive(
        dims in prop::collection::vec((0i64..9, number()), 0..5),
        offset in number(),
    ) {
        let (size, stride): (Vec<i64>, Vec<i64>) = dims.into_iter().unzip();
        if let Ok(host) = StridedLayout::new(&size, &stride, offset) {
            let text = torch::print_torch_layout(&host);
            prop_assert_eq!(torch::parse(&text), Ok(host.clone()), "{}", text);
            prop_assert_eq!(parse(&text, &AxisTable::new()), Ok(ParsedText::from(host)), "{}", text);
        }
    }

    /// Gaps and sticks of several dimensions have a text.
    #[test]
    fn gaps_and_sticks_of_several_dimensions_survive(
        rows in 1i64..40, columns in 1i64..70, gap in 1i64..4, square in any::<bool>(),
    ) {
        let format = zellige_stick::DataFormat::SEN169_FP16;
        let made = match square {
            true => StickLayout::with_stick_dims(
                &[(rows + 7) / 8, (columns + 7) / 8, 8, 8], &[8 * columns, 8, columns, 1], format, 2,
            ),
            false => StickLayout::from_size_and_stride_map(&[(columns + 63) / 64, rows, 64], &[64, columns, 1], format),
        };
        let plain = made.expect("a layout");
        let mut strides = plain.device_strides().expect("small");
        strides[0] *= gap;
        let stick = plain.with_device_strides(&strides).expect("gaps");
        let text = spyre::print_spyre_layout(&stick);
        prop_assert_eq!(text.contains("device_stride"), gap > 1, "{}", &text);
        prop_assert_eq!(text.contains("stick_dims=2"), square, "{}", &text);
        prop_assert_eq!(spyre::parse(&text), Ok(stick));
    }

    /// Strides that were given stay, also those that leave gaps.
    #[test]
    fn strides_of_device_layouts_survive(
        size in prop::collection::vec(1i64..100, 1..5),
        gaps in prop::collection::vec(0i64..70, 5),
    ) {
        let mut strides = vec![1; size.len()];
        for d in (1..size.len()).rev() {
            strides[d - 1] = strides[d] * (size[d] + gaps[d]);
        }
        let order: Vec<i64> = (0..).take(size.len()).collect();
        let made = StickLayout::with_dim_order(&size, Some(&strides), Dtype::Float16, &order);
        let stick = made.expect("small");
        for text in [spyre::print_with_bound_host(&stick), spyre::print_with_given_host(&stick)] {
            let again = spyre::parse(&text).expect("its own text");
            prop_assert_eq!(&again, &stick, "{}", text);
            if text.contains("host_stride") {
                prop_assert_eq!(again.host(), stick.host(), "{}", text);
                prop_assert_eq!(again.lower_to_layout(), stick.lower_to_layout(), "{}", text);
            }
        }
    }

    #[test]
    fn device_layouts_survive(
        size in prop::collection::vec(0i64..200, 0..5),
        dtype in prop::sample::select(vec![Dtype::Float16, Dtype::Float32, Dtype::Int8]),
    ) {
        if let Ok(stick) = StickLayout::default_for_dtype(&size, dtype) {
            let text = spyre::print_with_bound_host(&stick);
            let again = spyre::parse(&text);
            prop_assert_eq!(&again, &Ok(stick.clone()), "{}", text);
            let again = again.expect("equal");
            prop_assert_eq!(again.host(), stick.host(), "{}", text);
            prop_assert_eq!(spyre::parse(&spyre::print_spyre_layout(&stick)), Ok(stick.clone()));
        }
    }
}

/// The spellings of documents and of upstream's classes are those of the notation.
#[test]
fn spellings_of_documents_are_read() {
    let axes = AxisTable::new();
    let swizzled = tirx::parse("Swizzle(3,3,3) o S[(8,64):(64,1)]", &axes).expect("as printed");
    for text in [
        "Swizzle(M=3, B=3, S=3) o S[(8,64):(64,1)]",
        "Swizzle(S=3, M=3, B=3) ∘ S[(8,64):(64,1)]",
        "Swizzle(3, B=3, S=3) o TileLayout(S[(8,64):(64,1)])",
        "SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3, swizzle_inner=True) o S[(8,64)]",
        "ComposeLayout(Swizzle(M=3, B=3, S=3), S[(8,64):(64,1)])",
        "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(8, 64) : (64@m, 1@m)]))",
    ] {
        let found = parse(text, &axes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found, ParsedText::from(swizzled.clone()), "{text}");
    }
    let outer = tirx::parse("Swizzle(3,3,3,outer) o S[(8,64):(64,1)]", &axes).expect("as printed");
    let text = "Swizzle(M=3, B=3, S=3, inner=False) o S[(8,64):(64,1)]";
    assert_eq!(tirx::parse(text, &axes), Ok(outer));
    assert_eq!(
        tirx::parse("TileLayout(S[8:1] + 3) valid[7/8]", &axes),
        tirx::parse("S[8:1] + 3 valid[7/8]", &axes)
    );

    // A legacy map is the strides that it means; the host is kept as it was given.
    let start = "SpyreTensorLayout(device_size=[256, 8, 128, 64], ";
    let end = "device_dtype=DataFormats.SEN169_FP16, host_size=[128, 256, 512]";
    for strides in ["", ", host_stride=[131072, 512, 1]", ", host_stride=[1, 65536, 128]"] {
        let text = format!("{start}dim_map=[1, 2, 0, 2], {end}{strides})");
        let stick = spyre::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(stick.recover_dim_map().expect(&text), [1, 2, 0, 2]);
        let printed = spyre::print_with_bound_host(&stick);
        assert!(strides.is_empty() || printed.contains(strides), "{printed}");
        assert_eq!(spyre::parse(&printed), Ok(stick));
    }
    let broadcast = "SpyreTensorLayout(device_size=[1, 4, 64], stride_map =[64, 0, 1], \
                     device_dtype=DataFormats.SEN169_FP16, host_size=[4, 64], host_stride=[0, 1])";
    let stick = spyre::parse(broadcast).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(spyre::print_with_bound_host(&stick), broadcast);
}
