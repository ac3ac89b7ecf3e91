//! Texts and atoms as CuTe prints them.

use crate::common::offsets;
use serde_json::Value;
use zellige_layout::AxisTable;
use zellige_notation::cute::atoms::AtomLayouts;
use zellige_notation::cute::{CuteText, SwizzleTarget, atoms};
use zellige_notation::{Notation, cute, parse, parse_as};

fn data(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let data: Value = serde_json::from_str(&text).expect("JSON");
    let list = data.as_array().or_else(|| data["cases"].as_array()).expect("a list");
    assert!(!list.is_empty());
    list.clone()
}

#[test]
fn every_print_form_is_read_and_printed_back() {
    let (mut layouts, mut others) = (0, 0);
    let axes = AxisTable::new();
    for case in data("cute_texts.json") {
        let text = case["text"].as_str().unwrap();
        let read = cute::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(read.print_cute_text(), text);
        let bare = |s: String| s.replace('_', "");
        if let Some(shape) = case["shape"].as_str() {
            let CuteText::Layout(layout) = &read else { panic!("{text} is a layout") };
            let (s, d) = cute::print_modes(&layout.modes)
                .split_once(':')
                .map(|(s, d)| (s.to_string(), d.to_string()))
                .unwrap();
            assert_eq!(bare(s), shape, "{text}");
            assert_eq!(bare(d), case["stride"].as_str().unwrap(), "{text}");
            let parsed = parse(text, &axes).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(parsed.notation(), Notation::CUTE);
            let lowered = parsed.layout_over_shape(None).unwrap_or_else(|e| panic!("{text}: {e}"));
            lowered.check_shape_size(&parsed.default_shape().unwrap()).unwrap();
            let swizzle = layout.swizzle.as_ref();
            let found = swizzle.map(|(sw, _)| serde_json::json!([sw.bits, sw.base, sw.shift]));
            assert_eq!(found.unwrap_or(Value::Null), case["swizzle"], "{text}");
            // The note of the data says what a swizzle of bytes is on elements.
            let note = case["note"].as_str().unwrap();
            if let Some((_, form)) = note.split_once("element form ") {
                let sw = layout.element_swizzle().unwrap().unwrap().0;
                let form: Vec<i64> = serde_json::from_str(form).unwrap();
                assert_eq!(
                    form,
                    [sw.swizzle_len(), sw.per_element(), sw.atom_len()].map(i64::from)
                );
                assert!(!matches!(swizzle, Some((_, SwizzleTarget::Elements(_)))));
            }
            layouts += 1;
        } else {
            assert!(
                parse_as(text, Notation::CUTE, &axes).unwrap().layout_over_shape(None).is_err(),
                "{text}"
            );
            others += 1;
        }
    }
    assert!(layouts >= 30 && others >= 10, "{layouts} {others}");
}

/// Every element of an operand is held as often as any other, and none is left out.
#[test]
fn every_listed_atom_covers_its_operands() {
    let names = atoms::list_atom_names();
    assert!(names.len() >= 300, "{}", names.len());
    for name in &names {
        let atom = atoms::find_atom(name).unwrap_or_else(|| panic!("{name} is not known"));
        let AtomLayouts::Mma { shape: [m, n, k], a, b, c } = &atom.layouts else { continue };
        for (modes, size) in [(a, m * k), (b, n * k), (c, m * n)] {
            if modes.size().unwrap() > 1 << 16 {
                continue;
            }
            let mut held = vec![0; usize::try_from(size).unwrap()];
            offsets(modes).iter().for_each(|o| held[usize::try_from(*o).unwrap()] += 1);
            assert!(held[0] > 0 && held.iter().all(|h| *h == held[0]), "{name}");
        }
    }
    for name in [
        "SM80_16x8x16_F32F16F16F32",
        "SM80_16x8x64_F32F16F16F32_TN",
        "SM90_64x260x16_F32F16F16_SS",
        "SM90_64x12x16_F32F16F16_SS",
        "SM75_U32x3_LDSM_N",
        "SM75_U32x99999999999999999999_LDSM_N",
        "SM100_TMEM_LOAD_16dp256b3x",
        "SM100_MMA_F16BF16_SS<half_t,half_t,float,96,64>",
        "SM80_",
        "",
        "x<",
        "SM90_64x8x16_F16F16F16_SS<",
    ] {
        assert_eq!(atoms::find_atom(name), None, "{name}");
    }
}

/// Print forms that follow from the rules of those in the data.
#[test]
fn other_print_forms_are_read_and_printed_back() {
    let mma = "MMA_Atom\n  ThrID:      _32:_1\n  Shape_MNK:  (_16,_8,_8)\n  LayoutA_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))\n  LayoutB_TV: ((_4,_8),_2):((_16,_1),_8)\n  LayoutC_TV: ((_4,_8),(_2,_2)):((_32,_1),(_16,_8))";
    let tiled = format!(
        "TiledMMA\n  ThrLayoutVMNK:  (_32,_2,_2,_1):(_1,_32,_64,_0)\n  PermutationMNK: (_,_16:_1,_8)\n{mma}"
    );
    let atom = atoms::find_atom("SM75_U32x4_LDSM_N").unwrap().print_block().print_cute_text();
    let texts = [
        "ArithTuple(0,_0) o (_8,_4):(_1@0,_1@1)",
        "Sw<3,4,3>_smem_ptr[16b](0x7f0000000400) o (_8,_64):(_64,_1)",
        "gmem_subptr[4b](0x7ffd0010.1) o (_8,_64):(_64,_1)",
        "ptr[32b]((nil)) o _8:_1",
        "():()",
        "((_2),_3):((_1),_2)",
        "(?,?{div=8}):(1,?{i64})",
        tiled.as_str(),
        &format!("ThrMMA\n  Thr VMNK: (3,0,0,_0)\n{tiled}"),
        &format!(
            "TiledCopy\n  Tiler_MN:       (_16,_8)\n  TiledLayout_TV: (_32,_4):(_4,_1)\n{atom}"
        ),
        &format!(
            "ThrCopy\n  ThrIdx: 7\nTiledCopy\n  Tiler_MN:       (_16,_8)\n  TiledLayout_TV: (_32,_4):(_4,_1)\n{atom}"
        ),
    ];
    for text in texts {
        let read = parse(text, &AxisTable::new()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((read.notation(), read.notation_text()), (Notation::CUTE, text.to_string()));
    }
    for (text, printed) in [
        ("Layout", ""),
        ("( Int<8>{} , 4 ) : (4,1)", "(_8,4):(4,1)"),
        ("Swizzle<3,3,3>{} ∘ _0 ∘ (8,64):(64,1)", "Sw<3,3,3> o _0 o (8,64):(64,1)"),
        ("(8,):(1,)", "(8):(1)"),
        ("_8{}:_1{}", "_8:_1"),
    ] {
        match cute::parse(text) {
            Ok(read) => assert_eq!(read.print_cute_text(), printed),
            Err(e) => assert!(printed.is_empty(), "{text}: {e}"),
        }
    }
}
