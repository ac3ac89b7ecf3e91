//! Texts to layouts of the algebra and back, and what is refused on the way.

use crate::common::{at, config, is_layout, small};
use proptest::prelude::*;
use zellige_layout::{Axis, AxisTable, Iter, Layout, Swizzle, TileLayout, unflatten_index};
use zellige_notation::convert::{ConversionRefusal, convert_layout};
use zellige_notation::cute::IntegerStyle;
use zellige_notation::{Notation, cute, parse, parse_as};

proptest! {
    #![proptest_config(config())]

    /// The layout of the algebra has CuTe's coordinates: one per mode, the first sub-mode fastest.
    #[test]
    fn coordinates_are_those_of_cute(a in small(), sw in prop::option::of((0i64..4, 0i64..4, 0i64..4, 0i64..70))) {
        let text = match sw {
            None => a.print_cute_text(IntegerStyle::Static),
            Some((b, m, s, offset)) => format!("Sw<{b},{m},{}> o {offset} o {}", b + s, a.print_cute_text(IntegerStyle::Bare)),
        };
        let parsed = parse(&text, &AxisTable::new()).unwrap();
        prop_assert_eq!(parsed.notation_text(), text.clone());
        let layout = parsed.layout_over_shape(None).unwrap();
        let shape = parsed.default_shape().unwrap();
        for flat in 0..layout.size() {
            let coordinate = unflatten_index(&shape, flat);
            let mut want: i64 = a.top_modes().iter().zip(&coordinate).map(|(m, c)| at(m, *c)).sum();
            if let Some((b, m, s, offset)) = sw {
                want += offset;
                want ^= ((want >> (m + b + s)) & ((1 << b) - 1)) << m;
            }
            let found = layout.apply_to_coordinate(&shape, &coordinate).unwrap().sorted_coordinates();
            prop_assert_eq!(found[0].get(Axis::M), want, "{} at {:?}", text, coordinate);
        }
        // Any layout of CuTe is written in CuTe.
        let again = convert_layout(&layout, &shape, None, Notation::CUTE).unwrap();
        let again = parse_as(&again, Notation::CUTE, &AxisTable::new()).unwrap();
        prop_assert_eq!(again.layout_over_shape(Some(&shape)).unwrap().find_difference(&layout), Ok(None));
        prop_assert_eq!(again.default_shape().unwrap(), shape);
    }

    /// A layout on memory over any grouping of its iters is written, or truly has no modes of that size.
    #[test]
    fn memory_layouts_are_expressed_or_refused(
        iters in prop::collection::vec((1i64..5, -3i64..20), 1..5),
        split in 0usize..5,
        offset in prop::option::of(0i64..9),
        sw in prop::option::of((0i64..3, 0i64..3, 0i64..3, any::<bool>())),
    ) {
        let shard: Vec<Iter> = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        let tile = TileLayout::new(shard, vec![], offset.map(|o| (Axis::M, o))).unwrap();
        let layout = match sw.map(|(m, b, s, inner)| Layout::from_swizzled_tile(Swizzle::new(m, b, b + s, inner).unwrap(), tile.clone())) {
            Some(Ok(layout)) => layout,
            _ => Layout::from(tile),
        };
        let at = split.min(iters.len());
        let size = |part: &[(i64, i64)]| part.iter().map(|(e, _)| e).product::<i64>();
        // Two dimensions of the iters, and two that cut wherever they do.
        let (rows, all) = (size(&iters[..at]), layout.size());
        let cut = (1..=all).rev().find(|r| all % r == 0 && *r * *r <= all).unwrap();
        for shape in [vec![rows, all / rows], vec![cut, all / cut], vec![all]] {
            match convert_layout(&layout, &shape, None, Notation::CUTE) {
                Ok(text) => {
                    let again = parse(&text, &AxisTable::new()).unwrap();
                    prop_assert_eq!(again.default_shape().unwrap(), shape.clone());
                    prop_assert_eq!(again.layout_over_shape(None).unwrap().find_difference(&layout), Ok(None), "{}", text);
                }
                Err(ConversionRefusal::NotExpressible(e)) => {
                    prop_assert!(layout.swizzle().is_some() || shape[0] == cut || shape.len() == 1, "{e:?}");
                    if layout.swizzle().is_none() {
                        // By columns, as CuTe counts: every dimension is a layout of its own, or this is none.
                        let offsets = layout.offset_table(Axis::M).unwrap();
                        let columns = *shape.last().unwrap();
                        let rows = all / columns;
                        let by_row: Vec<i64> = (0..rows).map(|r| offsets[usize::try_from(r * columns).unwrap()]).collect();
                        let by_column: Vec<i64> = offsets[..usize::try_from(columns).unwrap()].to_vec();
                        let sum = |i: usize| {
                            let columns = by_column.len();
                            by_row[i / columns] + by_column[i % columns] - offsets[0]
                        };
                        let is = is_layout(&by_row) && is_layout(&by_column)
                            && (0..offsets.len()).all(|i| offsets[i] == sum(i));
                        prop_assert!(!is, "{:?} over {:?}: {:?}", layout, shape, e);
                    }
                }
                Err(e) => prop_assert!(false, "{e:?}"),
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-(),:_0-9oSw<>?@/{}a-z \\[\\]]{0,40}") {
        if let Ok(read) = cute::parse(&text) {
            let printed = read.print_cute_text();
            prop_assert_eq!(cute::parse(&printed).map(|t| t.print_cute_text()), Ok(printed));
        }
        if let Err(e) = parse_as(&text, Notation::CUTE, &AxisTable::new()).and_then(|p| p.layout_over_shape(None)) {
            prop_assert!(e.span.end <= text.len());
        }
    }
}

/// What the Python DSL prints of tensors, and where their elements are.
#[test]
fn tensors_of_the_python_dsl_are_read() {
    let axes = AxisTable::new();
    let lowered = |text: &str| {
        let parsed = parse(text, &axes).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((parsed.notation(), parsed.notation_text().as_str()), (Notation::CUTE, text));
        parsed.layout_over_shape(None).unwrap_or_else(|e| panic!("{text}: {e}"))
    };
    let same =
        |a: &str, b: &str| assert_eq!(lowered(a).find_difference(&lowered(b)), Ok(None), "{a}");
    same("tensor<ptr<f16, gmem, align<16>> o (8,4):(4,1)>", "(8,4):(4,1)");
    same("tensor<ptr<f4E2M1FN, generic> o ((4,2),1):((1,4),0)>", "((4,2),1):((1,4),0)");
    // A swizzle of the pointer is one of bytes; one of the layout, of elements.
    same(
        "tensor<ptr<f16, smem, align<1024>, S<3,4,3>> o (8,64):(64,1)>",
        "Sw<3,3,3> o 0 o (8,64):(64,1)",
    );
    same(
        "tensor<ptr<f16, smem, align<1024>> o S<3,3,3> o 0 o (8,64):(64,1)>",
        "Sw<3,3,3> o 0 o (8,64):(64,1)",
    );
    same("tensor<(0,0) o (8,4):(1@0,1@1)>", "(8,4):(1@0,1@1)");
    // A coordinate tensor begins at its stated coordinate.
    let tile = lowered("tensor<((4,0),2) o (4,2):(1@0@0,1@1)>");
    let printed = zellige_notation::tirx::print_tirx(&tile);
    let declared = "axes[crd0_0=memory, crd1=memory]";
    assert_eq!(printed, format!("S[(4,2):(1@crd0_0,1@crd1)] + 4@crd0_0 + 2@crd1 {declared}"));
    let open = "tensor<ptr<f16, gmem, align<16>> o (?,?{div=8}):(?{i64 div=8},1)>";
    assert_eq!(parse(open, &axes).expect(open).notation_text(), open);
    for text in ["C<8>{}:C<1>{}", "_8:_1{}", "_1@1@0", "_", "_-3"] {
        assert_eq!(parse(text, &axes).expect(text).notation(), Notation::CUTE, "{text}");
    }
}

/// Refused texts: the message, and the part of the text that it underlines.
#[test]
fn refused_texts_name_the_place() {
    for (text, place, message) in [
        ("(8,4):(4)", "(4)", "2 extents but 1 strides"),
        ("(8,4):4", "4", "the extent is a tuple, but its stride is one number"),
        ("8:(1)", "(1)", "the extent is one number, but its stride is a tuple"),
        ("((2,2),8):((1,16,3),2)", "(1,16,3)", "2 extents but 3 strides"),
        ("(8,-4):(4,1)", "-4", "the extent -4 is below 0"),
        ("(8,_-4):(4,1)", "_-4", "the extent -4 is below 0"),
        ("(8,_):(4,1)", "_", "an extent is an integer"),
        ("(8,4):(4,_)", "_", "a stride is an integer, or one on a basis such as 1@0"),
        ("(8,1@0):(4,1)", "1@0", "an extent is an integer"),
        ("tensor<ptr<half, gmem> o 8:1>", "half", "unknown type of elements `half`"),
        ("tensor<ptr<f16, cloud> o 8:1>", "cloud", "unknown memory `cloud`"),
        ("tensor<ptr<f16, smem, align<0>> o 8:1>", "0", "an alignment of 0 bytes"),
        (
            "tensor<ptr<f16, smem, S<3,4,3>, align<16>> o 8:1>",
            "align",
            "expected `align<16>`, a swizzle or `>`, found `align`",
        ),
        (
            "tensor<ptr<f16, smem, S<3,4,3>> o S<3,3,3> o 0 o 8:1>",
            "S<3,3,3> o 0 o",
            "a swizzle of the pointer, and one of the layout",
        ),
        ("tensor<8:1 o 8:1>", "8:1", "a tensor begins with a pointer or a coordinate"),
        ("tensor<(0,0) o (8,4)>", "(8,4)", "this has no strides"),
        ("(8,4", "", "expected `,` or `)`, found the end"),
        ("(8 4):(4,1)", "4", "expected `,` or `)`, found `4`"),
        ("(8,4):(4,1) 3", "3", "unexpected `3` after the layout"),
        ("(8,,4):(4,1)", ",", "expected an integer such as 8 or _8, or a tuple, found `,`"),
        (
            "(8,4):(4,99999999999999999999)",
            "99999999999999999999",
            "an integer does not fit in 64 bits",
        ),
        (
            "Sw<3,3,2> o 0 o 8:1",
            "Sw<3,3,2>",
            "Swizzle(3,3,2) is not well-formed: S must be at least B, or the two bit fields overlap",
        ),
        ("Sw<3,3> o 8:1", ">", "expected `,` after M, found `>`"),
        ("Sw<3,3,3> o -1 o 8:1", "-1", "the offset before a swizzle is below 0"),
        ("Sw<3,3,3> o (1,2) o 8:1", "(1,2)", "a swizzle acts on `offset o layout`"),
        ("Sw<3,3,3> 8:1", "8", "expected `o` and what is swizzled, found `8`"),
        (
            "Sw<3,4,3> o smem_ptr[16b](0x10) o 8:1",
            "smem_ptr[16b](0x10)",
            "a pointer between swizzle and layout is unset",
        ),
        ("smem_ptr[16b](here) o 8:1", "here", "this is not an address"),
        ("smem_ptr[0b](unset) o 8:1", "0", "an element of 0 bits"),
        ("smem_ptr[16](unset) o 8:1", "]", "expected `b`, for bits, found `]`"),
        ("gmem_ptr[16b](0x10) o 8", "8", "this has no strides"),
        ("(8,?{div=0}):(1,8)", "0", "not a divisor"),
        ("(8,?{align=8}):(1,8)", "align", "unknown property of a run-time integer"),
        ("_1/_0", "_0", "a ratio divides by a static integer other than 0"),
        ("(8,4):(1@-1,1@1)", "-1", "mode -1 of a coordinate"),
        (
            "MMA_Atom ThrID: _32:_1 LayoutA_TV: 8:1",
            "LayoutA_TV",
            "expected `Shape_MNK:`, the next line of `MMA_Atom`, found `LayoutA_TV`",
        ),
    ] {
        let error = cute::parse(text).expect_err(text);
        assert_eq!((error.message.as_str(), &text[error.span.clone()]), (message, place), "{text}");
        assert!(!error.render(text, false).is_empty());
    }
    let deep = format!("{}8{}:1", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(cute::parse(&deep).unwrap_err().message, "tuples are nested more than 64 deep");
}

/// Texts that are read but are no layout, and why.
#[test]
fn what_is_no_layout_says_what_it_is() {
    for (text, message) in [
        ("8", "8 has no strides"),
        ("(8,4)", "(8,4) has no strides"),
        ("Sw<3,3,3>", "a swizzle alone is not a layout"),
        ("(_4:_1,_8:_2)", "a tiler is a list of layouts, one for each mode"),
        ("(?,4):(1,?)", "the extent `?` is known only when the program runs"),
        ("(8,4):(1,?{i64 div=8})", "the stride `?{i64 div=8}` is known only when the program runs"),
        (
            "Sw<3,4,3> o smem_ptr[6b](unset) o 8:1",
            "a swizzle of bytes does not move whole elements of 6 bits",
        ),
        (
            "Sw<3,0,3> o smem_ptr[16b](unset) o 8:1",
            "Sw<3,0,3> moves bits inside an element of 2 bytes",
        ),
        (
            "(8,4):(1@0,3)",
            "a stride without a basis, beside strides with one, is 3; write it on a mode of the coordinate: 3@0",
        ),
        (
            "Sw<3,3,3> o 0 o (8,4):(1@0,1@1)",
            "a swizzle needs addresses on `m` that are 0 or more: the layout uses only `crd0`, `crd1`",
        ),
        ("(4294967296,4294967296):(1,1)", "the number of elements does not fit in 64 bits"),
        ("4:9223372036854775807", "the range of coordinates on `m` does not fit in 64 bits"),
    ] {
        let parsed = parse_as(text, Notation::CUTE, &AxisTable::new())
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed.notation_text(), text);
        assert_eq!(parsed.layout_over_shape(None).unwrap_err().message, message, "{text}");
    }
    // An extent that is left open comes from the shape.
    let open = parse("(?{div=4},64):(64,1)", &AxisTable::new()).unwrap();
    assert_eq!(open.layout_over_shape(Some(&[8, 64])).unwrap().size(), 512);
    assert!(open.layout_over_shape(Some(&[6, 64])).is_err());
    // A shape of one dimension is CuTe's own index, the first mode fastest.
    let index =
        parse("(4,2):(2,1)", &AxisTable::new()).unwrap().layout_over_shape(Some(&[8])).unwrap();
    assert_eq!(index.offset_table(Axis::M).unwrap(), [0, 2, 4, 6, 1, 3, 5, 7]);
    let split = parse("(4,2):(2,1)", &AxisTable::new()).unwrap();
    let shaped = |shape: &[i64], at: &[i64]| {
        let layout = split.layout_over_shape(Some(shape)).unwrap();
        layout.apply_to_coordinate(shape, at).unwrap().sorted_coordinates()[0].get(Axis::M)
    };
    assert_eq!(
        (shaped(&[2, 4], &[1, 0]), shaped(&[2, 4], &[0, 1]), shaped(&[2, 2, 2], &[0, 0, 1])),
        (2, 4, 1)
    );
    assert!(
        parse("(4,3):(2,1)", &AxisTable::new()).unwrap().layout_over_shape(Some(&[6, 2])).is_err()
    );
    let noted = parse("S<3,4,3> o 0 o (8,64):(64,1)", &AxisTable::new()).unwrap();
    assert!(noted.reading_note().unwrap().contains("element offsets"), "{noted:?}");
    assert_eq!(noted.notation_text(), "S<3,4,3> o 0 o (8,64):(64,1)");
}

/// Swizzles behind pointers act on bytes; the others on elements.
#[test]
fn byte_swizzles_are_those_of_elements() {
    let axes = AxisTable::new();
    let layout = |t: &str| parse(t, &axes).unwrap().layout_over_shape(None).unwrap();
    for (bytes, elements) in [
        ("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("Sw<3,4,3>_smem_ptr[16b](0x400) o (8,64):(64,1)", "Swizzle<3,3,3> o 0 o (8,64):(64,1)"),
        (
            "Sw<3,4,3> o smem_ptr[1b](unset) o (8,1024):(1024,1)",
            "Sw<3,7,3> o 0 o (8,1024):(1024,1)",
        ),
        ("smem_ptr[16b](0x7f00) o Sw<3,3,3> o _8 o (8,64):(64,1)", "S<3,3,3> o 8 o (8,64):(64,1)"),
        ("Sw<2,0,-3> o 0 o 64:1", "Sw<2,0,-3> ∘ _0 ∘ Int<64>{}:_1"),
        ("Sw<3,4,3>_smem_ptr[16b](0x410) o (8,64):(64,1)", "Sw<3,3,3> o 8 o (8,64):(64,1)"),
    ] {
        assert_eq!(layout(bytes).find_difference(&layout(elements)), Ok(None), "{bytes}");
    }
    assert!(
        parse("Sw<3,4,3>_smem_ptr[16b](0x401) o 8:1", &axes)
            .unwrap()
            .layout_over_shape(None)
            .is_err()
    );
}

/// What has no CuTe text, and why.
#[test]
fn what_cute_cannot_say_is_refused() {
    let axes = AxisTable::new();
    for (text, shape, reason, witness) in [
        (
            "S[8:1@laneid]",
            vec![8],
            "a CuTe layout gives one offset or coordinate; this one also uses `laneid`",
            None,
        ),
        (
            "S[8:1] + R[2:8]",
            vec![8],
            "an element has several places, and a CuTe layout gives one",
            Some(0),
        ),
        (
            "S[(2,4):(8,1)] valid[6/8]",
            vec![6],
            "CuTe has no padding, and no strides leave it out: no iters reach element 4: its place contradicts the strides that the elements before it determine",
            Some(4),
        ),
        ("S[8:1] - 3", vec![8], "the offset -3 is below 0", Some(0)),
    ] {
        let layout = parse(text, &axes).unwrap().layout_over_shape(None).unwrap();
        match convert_layout(&layout, &shape, None, Notation::CUTE) {
            Err(ConversionRefusal::NotExpressible(e)) => {
                assert_eq!((e.reason.as_str(), e.witness), (reason, witness));
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for (text, shape, want) in [
        ("S[(64,256)]", vec![64, 256], "(64,256):(256,1)"),
        ("S[(64,256)]", vec![64, 4, 64], "(64,4,64):(256,64,1)"),
        ("S[(64,4,64):(64,4096,1)]", vec![64, 256], "(64,(64,4)):(64,(1,4096))"),
        (
            "Swizzle(3,3,3) o S[(64,4,64):(64,4096,1)]",
            vec![64, 256],
            "Sw<3,3,3> o 0 o (64,(64,4)):(64,(1,4096))",
        ),
        ("S[8:1] + 5", vec![8], "Sw<0,4,3> o 5 o 8:1"),
        ("S[8:1] + R[2:0]", vec![8], "8:1"),
        ("S[(0,4)]", vec![0, 4], "(0,4):(0,0)"),
        ("S[1:7]", vec![1, 1], "(1,1):(0,0)"),
        ("S[]", vec![], "():()"),
        // Padding that strides step over.
        ("S[8:1] valid[6/8]", vec![6], "6:1"),
        ("S[(16,8):(8,1)] valid[3..7/16,2..5/8]", vec![4, 3], "Sw<0,4,3> o 26 o (4,3):(8,1)"),
        ("S[(2,4,8):(32,8,1)] valid[8,5/8]", vec![8, 5], "(8,5):(8,1)"),
        ("size=[4, 6] stride=[1, 4]", vec![4, 6], "(4,6):(1,4)"),
    ] {
        let layout = parse(text, &axes).unwrap().layout_over_shape(None).unwrap();
        assert_eq!(
            convert_layout(&layout, &shape, None, Notation::CUTE).as_deref(),
            Ok(want),
            "{text}"
        );
    }
}
