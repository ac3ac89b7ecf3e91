//! Texts as the libraries themselves print them.

use zellige_layout::AxisTable;
use zellige_notation::{Notation, parse, parse_as};

/// The short forms are those that `str` of a placement prints.
#[test]
fn placements_are_read_in_their_short_forms() {
    for (short, long) in [
        ("(S(0), R) mesh=[2, 4]", "(Shard(dim=0), Replicate()) mesh=[2, 4]"),
        ("[R, S(1)] mesh=[2, 4]", "[Replicate(), Shard(1)] mesh=[2, 4]"),
        (
            "(_S(0, 2), S(0)) mesh=[2, 2]",
            "(_StridedShard(0, split_factor=2), Shard(0)) mesh=[2, 2]",
        ),
        ("(R,) mesh=[4]", "(Replicate(),) mesh=[4]"),
    ] {
        let axes = AxisTable::new();
        let (a, b) = (parse(short, &axes), parse(long, &axes));
        let (a, b) = (a.expect(short), b.expect(long));
        assert_eq!(a.notation(), Notation::DTENSOR, "{short}");
        assert_eq!(a.notation_text(), b.notation_text(), "{short}");
    }
    let pending =
        parse("(P(sum), R) mesh=[2, 4]", &AxisTable::new()).expect_err("a pending sum").message;
    assert!(pending.contains("still to be added"), "{pending}");
}

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
