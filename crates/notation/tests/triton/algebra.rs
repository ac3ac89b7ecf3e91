//! Attributes and layouts of the algebra: each is converted into the other and keeps its function.

use crate::common::{data, element, ints, list, text};
use proptest::prelude::*;
use zellige_layout::AxisTable;
use zellige_notation::linear::linear_of_text;
use zellige_notation::triton::{TritonAttribute, parse_attribute};
use zellige_notation::{Notation, linear, parse};

/// A layout of the algebra is written as the attribute that people know it by.
#[test]
fn layouts_are_written_as_the_attribute_that_people_know() {
    let axes = AxisTable::new();
    for (text, shape) in [
        (
            "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>",
            &[64, 64][..],
        ),
        (
            "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 2], CGALayout = [[1, 0]], instrShape = [16, 64, 16]}>",
            &[256, 256],
        ),
        (
            "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 4}>",
            &[64, 64],
        ),
        (
            "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>",
            &[128, 128],
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>",
            &[128, 128],
        ),
        (
            "#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 8, CGALayout = [[0, 1]]}>",
            &[64, 256],
        ),
        (
            "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], CGALayout = [[1, 0]]}>",
            &[64, 64],
        ),
        ("#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>", &[64, 64]),
        (
            "#ttg.padded_shared<[4:+2, 64:+8] {offset = [[0, 1], [0, 2], [2, 0], [1, 0], [0, 4], [0, 8], [4, 0]], block = []}>",
            &[8, 16],
        ),
        // Smaller than what the threads could hold.
        (
            "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>",
            &[16, 16],
        ),
        ("#ttng.tensor_memory_scales_encoding<>", &[128, 8]),
    ] {
        let layout = parse(text, &axes).expect(text).layout_over_shape(Some(shape)).expect(text);
        let found =
            zellige_notation::convert::convert_layout(&layout, shape, None, Notation::TRITON);
        assert_eq!(found.as_deref(), Ok(text));
    }
}

/// If an attribute has a layout in the algebra, every physical coordinate holds the element that the bases give.
#[test]
fn layouts_of_attributes_say_what_their_bases_say() {
    let recorded = data("triton_attrs.json");
    let axes = AxisTable::new();
    let (mut in_algebra, mut again) = (0, 0);
    for case in list(&recorded) {
        let (written, shape) = (text(&case["text"]), ints(&case["shape"]));
        let parsed = parse(written, &axes).expect(written);
        let Ok(layout) = parsed.layout_over_shape(Some(&shape)) else { continue };
        in_algebra += 1;
        let found = linear_of_text(&parsed, Some(&shape)).expect(written);
        layout.check_shape_size(&shape).expect(written);
        let places = linear::axes_of_in_dims(&found.linear).expect(written);
        let padded = |offset: i64| {
            let pads = found.padding.iter().flatten();
            pads.fold(offset, |at, (interval, pad)| at + offset / interval * pad)
        };
        let total: i64 = found.linear.in_sizes().map(|(_, s)| s).product();
        for k in 0..40 {
            let mut rest = (k * 2_654_435_761i64) % total;
            let mut input = Vec::new();
            for (dim, size) in found.linear.in_sizes() {
                input.push((dim, rest % size));
                rest /= size;
            }
            let element = found.linear.apply_to_input(&input).expect(written);
            let there =
                layout.apply_to_coordinate(&shape, &element).expect(written).sorted_coordinates();
            let here = |p: &zellige_layout::PhysicalCoordinate| {
                input.iter().zip(&places).all(|((dim, v), a)| {
                    p.get(a.axis) == if *dim == "offset" { padded(*v) } else { *v }
                })
            };
            assert!(there.iter().any(here), "{written} over {shape:?}: {input:?}");
        }
        if found.padding.is_none()
            && let Ok(text) =
                zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON)
        {
            again += 1;
            let read = parse(&text, &axes).expect(&text);
            let same = read.layout_over_shape(Some(&shape)).expect(&text).find_difference(&layout);
            assert_eq!(same, Ok(None), "{written} written as {text}");
        }
    }
    println!("{in_algebra} of {} in the algebra, {again} written again", list(&recorded).len());
    assert!(in_algebra > 400 && again > 400, "{in_algebra} {again}");
}

#[test]
fn axes_that_triton_does_not_have_keep_their_names() {
    let layout = parse("S[(64,2):(1@tx,1)]", &AxisTable::new())
        .expect("a text")
        .layout_over_shape(None)
        .expect("a layout");
    let bases = linear::linear_of_layout(&layout, &[64, 2]).expect("linear");
    assert_eq!(bases.in_dims().collect::<Vec<_>>(), ["register", "block", "tx"]);
    assert_eq!(
        linear::linear_to_layout(&bases).expect("a permutation").find_difference(&layout),
        Ok(None)
    );
    let refused =
        zellige_notation::convert::convert_layout(&layout, &[64, 2], None, Notation::TRITON);
    let Err(zellige_notation::convert::ConversionRefusal::NotExpressible(n)) = refused else {
        panic!("{refused:?}")
    };
    assert!(n.reason.contains("tx being laneid + 32 warpid"), "{}", n.reason);
}

fn power(most: u32) -> impl Strategy<Value = i64> {
    (0..=most).prop_map(|k| 1i64 << k)
}

/// A blocked attribute and a shape that is whole tiles of it.
fn any_blocked() -> impl Strategy<Value = (TritonAttribute, Vec<i64>, Vec<i64>)> {
    (1usize..4).prop_flat_map(|rank| {
        let sizes = || prop::collection::vec(power(2), rank);
        let order = Just((0..rank).collect::<Vec<usize>>()).prop_shuffle();
        (sizes(), sizes(), sizes(), order, sizes()).prop_map(|(s, t, w, order, reps)| {
            let text = format!(
                "#ttg.blocked<{{sizePerThread = {s:?}, threadsPerWarp = {t:?}, warpsPerCTA = {w:?}, order = {order:?}}}>"
            );
            let shape = (0..s.len()).map(|d| s[d] * t[d] * w[d] * reps[d]).collect();
            (parse_attribute(&text).expect("legal"), shape, reps)
        })
    })
}

/// The digits of a number over sizes, the first of an order fastest.
fn digits(mut number: i64, sizes: &[i64], order: &[usize]) -> Vec<i64> {
    let mut digits = vec![0; sizes.len()];
    for d in order {
        digits[*d] = number % sizes[*d];
        number /= sizes[*d];
    }
    digits
}

/// Any bases of registers, lanes, warps and blocks that are a permutation of bits with broadcasts, as a text.
fn any_linear() -> impl Strategy<Value = (String, Vec<i64>)> {
    (prop::collection::vec(0u32..4, 1..4), any::<u64>()).prop_map(|(sizes, seed)| {
        let mut seed = seed;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).expect("31 bits") % n.max(1)
        };
        let rank = sizes.len();
        let mut units: Vec<Vec<i64>> = Vec::new();
        for (d, bits) in sizes.iter().enumerate() {
            units.extend(
                (0..*bits).map(|k| (0..rank).map(|e| if e == d { 1 << k } else { 0 }).collect()),
            );
        }
        units.extend((0..below(3)).map(|_| vec![0; rank]));
        if units.is_empty() {
            units.push(vec![0; rank]);
        }
        let mut groups: [Vec<Vec<i64>>; 4] = Default::default();
        while !units.is_empty() {
            let unit = units.swap_remove(below(units.len()));
            groups[below(4)].push(unit);
        }
        let [r, l, w, b] = groups;
        let text =
            format!("#ttg.linear<{{register = {r:?}, lane = {l:?}, warp = {w:?}, block = {b:?}}}>");
        (text, sizes.iter().map(|k| 1i64 << k).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocked_is_its_definition((attribute, shape, reps) in any_blocked()) {
        let TritonAttribute::Blocked(b) = &attribute else { panic!("blocked") };
        prop_assert_eq!(parse_attribute(&attribute.to_string()), Ok(attribute.clone()));
        let linear = attribute.to_linear_layout(&shape).expect("whole tiles");
        let size = |s: &[i64]| s.iter().product::<i64>();
        let (own, lanes, warps) = (size(&b.size_per_thread), size(&b.threads_per_warp), size(&b.warps_per_cta));
        for k in 0..64i64 {
            let n = k * 2_654_435_761 % (own * lanes * warps * size(&reps));
            let (r, l, w, rep) = (n % own, n / own % lanes, n / own / lanes % warps, n / own / lanes / warps);
            let (rd, ld) = (digits(r, &b.size_per_thread, &b.order), digits(l, &b.threads_per_warp, &b.order));
            let (wd, pd) = (digits(w, &b.warps_per_cta, &b.order), digits(rep, &reps, &b.order));
            let expected: Vec<i64> = (0..shape.len())
                .map(|d| rd[d] + b.size_per_thread[d] * (ld[d] + b.threads_per_warp[d] * (wd[d] + b.warps_per_cta[d] * pd[d])))
                .collect();
            prop_assert_eq!(element(&linear, r + own * rep, l, w), expected);
        }
        let layout = zellige_notation::WrittenLayout::layout_over_shape(&attribute, Some(&shape)).expect("a permutation");
        let text = zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON).expect("blocked");
        let again = parse(&text, &AxisTable::new()).expect(&text).layout_over_shape(Some(&shape)).expect(&text);
        prop_assert_eq!(again.find_difference(&layout), Ok(None));
    }

    #[test]
    fn linear_attributes_survive((text, shape) in any_linear()) {
        let attribute = parse_attribute(&text).expect(&text);
        prop_assert_eq!(attribute.to_string(), text.clone());
        if attribute.rank() != shape.len() {
            return Ok(());
        }
        let linear = attribute.to_linear_layout(&shape).expect(&text);
        prop_assert!(linear.is_surjective());
        prop_assert_eq!(linear::parse(&linear::print_linear(&linear)), Ok(linear.clone()));
        prop_assert_eq!(linear::parse(&linear.to_string()), Ok(linear.clone()));
        let layout = linear::linear_to_layout(&linear).expect("a permutation");
        let has_threads = linear.in_size("lane") > Some(1) || linear.in_size("warp") > Some(1);
        if has_threads {
            let again = linear::linear_of_layout(&layout, &shape).expect("linear");
            prop_assert_eq!(linear::linear_to_layout(&again).expect("a permutation").find_difference(&layout), Ok(None));
            let text = zellige_notation::convert::convert_layout(&layout, &shape, None, Notation::TRITON).expect(&text);
            let again = parse(&text, &AxisTable::new()).expect(&text).layout_over_shape(Some(&shape)).expect(&text);
            prop_assert_eq!(again.find_difference(&layout), Ok(None));
        }
    }
}
