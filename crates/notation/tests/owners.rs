//! Owner maps of the atoms of CuTe, held against their thread-value layouts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_layout::{Axis, AxisTable, Layout, flatten_coordinate};
use zellige_notation::cute::{CuteModes, atoms};
use zellige_notation::preset;

fn layout(text: &str, shape: &[i64]) -> Layout {
    zellige_notation::parse(text, &AxisTable::new())
        .expect(text)
        .layout_over_shape(Some(shape))
        .expect(text)
}

/// The owner of every element of every atom is that of CuTe's own layout: thread and value, one by one.
#[test]
fn every_value_of_every_thread_is_found_again() {
    let mut checked = 0;
    for name in atoms::list_atom_names() {
        let atom = atoms::find_atom(&name).expect("a name of the list");
        let fields = atom.layout_fields();
        for (k, part) in preset::presets_of_atom(&atom).into_iter().enumerate() {
            let Some(owned) = part.owners else { continue };
            checked += 1;
            let found = layout(&owned.text, &owned.shape);
            let tv = fields[k].1;
            let ints =
                |m: &CuteModes| m.leaves().iter().map(|l| (l.extent, l.stride)).collect::<Vec<_>>();
            let at = |leaves: &[(i64, i64)], mut i: i64| {
                let mut sum = 0;
                for (extent, stride) in leaves {
                    sum += i % extent * stride;
                    i /= extent;
                }
                sum
            };
            let (thread, value) = (ints(&tv.top_modes()[0]), ints(&tv.top_modes()[1]));
            let size = |l: &[(i64, i64)]| l.iter().map(|(e, _)| e).product::<i64>();
            // The first size of the tile, along which its elements are numbered.
            let rows =
                if k == 1 && owned.shape.len() == 2 { owned.shape[1] } else { owned.shape[0] };
            for t in 0..size(&thread) {
                for v in 0..size(&value) {
                    let element = at(&thread, t) + at(&value, v);
                    let coordinate = match (owned.shape.len(), k) {
                        (1, _) => vec![element],
                        (_, 1) => vec![element / rows, element % rows],
                        _ => vec![element % rows, element / rows],
                    };
                    let index = flatten_coordinate(&owned.shape, &coordinate).expect("inside");
                    let lane = at(&ints(&atom.threads), t);
                    let held = found
                        .physical_coordinates(index)
                        .expect("an element")
                        .sorted_coordinates()
                        .iter()
                        .any(|p| {
                            let warp =
                                p.axis_entries().iter().find(|(a, _)| a.name() == "wid_in_wg");
                            let warp = warp.map_or(0, |(_, w)| *w);
                            p.get(Axis::LANEID) + 32 * warp == lane && p.get(Axis::M) == v
                        });
                    assert!(held, "{name} {k}: element {element} of thread {t}, value {v}");
                }
            }
        }
    }
    assert!(checked > 200, "{checked} operands");
}

/// The fragments that have a name of their own here are those of CuTe.
#[test]
fn operands_are_the_presets_of_the_same_instruction() {
    for (atom, own) in [
        ("cute-sm80-a", "mma-m16n8k16-a"),
        ("cute-sm80-b", "mma-m16n8k16-b"),
        ("cute-sm80-c", "mma-m16n8-cd"),
        ("SM80_16x8x8_F32F16F16F32_TN.A", "mma-m16n8k8-a"),
        ("SM80_16x8x8_F32F16F16F32_TN.B", "mma-m16n8k8-b"),
        ("cute-sm90-c", "wgmma-64x64"),
    ] {
        let owned = preset::find_preset(atom).and_then(|p| p.owners).expect(atom);
        let own = preset::find_preset(own).expect(own);
        assert_eq!(owned.shape, own.shape, "{atom}");
        assert_eq!(owned.dtype, Some(own.dtype), "{atom}");
        let (a, b) = (layout(&owned.text, &owned.shape), layout(&own.text, &own.shape));
        assert_eq!(a.find_difference(&b), Ok(None), "{atom} and {}", own.name);
    }
    for none in ["SM90_64x64x16_F32F16F16_SS.A", "cute-sm100-c", "UniversalFMA.C"] {
        assert_eq!(preset::find_preset(none).expect(none).owners, None, "{none}");
    }
}
