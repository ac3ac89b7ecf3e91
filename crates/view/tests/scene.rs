//! What scenes say is what layouts say.

mod common;

use common::{mma, smem, sticks, zoo};
use std::collections::BTreeSet;
use zellige_layout::Layout;
use zellige_view::{CellKind, DrawOptions, Scene, SceneCell, ScenePanel};

fn scene(layout: &Layout, shape: &[i64], options: &DrawOptions) -> Scene {
    Scene::new(layout, shape, options).expect("drawable")
}

fn count(panels: &[ScenePanel], kind: CellKind) -> usize {
    panels.iter().flat_map(|p| &p.cells).filter(|c| c.kind == kind).count()
}

fn cells(panels: &[ScenePanel]) -> impl Iterator<Item = &SceneCell> {
    panels.iter().flat_map(|p| &p.cells)
}

/// The places of an element as a set of rows, or `None` for more copies than are worth listing.
fn places(layout: &Layout, shape: &[i64], element: &[i64]) -> Option<BTreeSet<Vec<i64>>> {
    if layout.tile().replica_count() > 1000 {
        return None;
    }
    let places = layout.apply_to_coordinate(shape, element).expect("an element");
    let mut rows: BTreeSet<Vec<i64>> = places.coordinate_rows().map(<[i64]>::to_vec).collect();
    if layout.tile().axes().is_empty() {
        rows.insert(Vec::new());
    }
    Some(rows)
}

#[test]
fn every_cell_agrees_with_the_layout() {
    for (name, layout, shape) in zoo() {
        for bits in [4, 16, 64, 24] {
            let options =
                DrawOptions { dtype_bits: bits, max_cells: 600, ..DrawOptions::default() };
            let scene = scene(&layout, &shape, &options);
            for cell in cells(&scene.logical) {
                assert_eq!((cell.kind, cell.elements.len()), (CellKind::Element, 1), "{name}");
                if let Some(expected) = places(&layout, &shape, &cell.elements[0]) {
                    let drawn: BTreeSet<_> = cell.places.iter().cloned().collect();
                    assert_eq!(drawn, expected, "{name} {:?}", cell.elements);
                }
            }
            for cell in cells(&scene.physical) {
                assert_eq!(cell.places.len(), 1, "{name}");
                assert_eq!(cell.elements.is_empty(), cell.kind != CellKind::Element, "{name}");
                for element in &cell.elements {
                    let expected = places(&layout, &shape, element);
                    assert!(expected.is_none_or(|e| e.contains(&cell.places[0])), "{name}");
                }
            }
            for panel in scene.logical.iter().chain(&scene.physical) {
                let mut taken = BTreeSet::new();
                for c in &panel.cells {
                    assert!(c.row < panel.row_count() && c.span > 0, "{name}");
                    for col in c.col..c.col + c.span {
                        assert!(col < panel.col_count() && taken.insert((c.row, col)), "{name}");
                    }
                }
            }
            assert!(cells(&scene.logical).count() <= 600, "{name}");
            let colors =
                cells(&scene.logical).chain(cells(&scene.physical)).flat_map(|c| &c.colors);
            assert!(colors.into_iter().all(|c| *c < scene.palette.len()), "{name}");
        }
    }
}

#[test]
fn unclipped_physical_views_hold_every_copy_once() {
    for (name, layout, shape) in zoo() {
        let scene = scene(&layout, &shape, &DrawOptions::default());
        let clipped = scene
            .logical
            .iter()
            .chain(&scene.physical)
            .any(|p| p.clip.as_deref().is_some_and(|c| c.contains(" shown")));
        if clipped || !scene.notes.is_empty() {
            continue;
        }
        let size = usize::try_from(layout.size()).expect("small");
        assert_eq!(cells(&scene.logical).count(), size, "{name}");
        let drawn: BTreeSet<(Vec<i64>, Vec<i64>)> = cells(&scene.physical)
            .flat_map(|c| c.elements.iter().map(|e| (e.clone(), c.places[0].clone())))
            .collect();
        let expected: BTreeSet<_> = cells(&scene.logical)
            .flat_map(|c| c.places.iter().map(|p| (c.elements[0].clone(), p.clone())))
            .collect();
        assert_eq!(drawn, expected, "{name}");
    }
}

#[test]
fn cells_are_counted() {
    let options = DrawOptions::default();
    let s = scene(&mma(), &[16, 8], &options);
    assert_eq!((s.logical.len(), s.logical[0].cells.len()), (1, 128));
    assert_eq!((s.physical[0].row_count(), s.physical[0].col_count()), (32, 4));
    assert_eq!(s.palette.len(), 32);
    let s = scene(&smem(false), &[8, 64], &options);
    assert_eq!(
        (s.physical[0].row_count(), s.physical[0].col_count(), s.physical[0].col_group),
        (8, 64, 2)
    );
    assert_eq!(s.color_by, "128-byte line");
    assert_eq!(scene(&smem(true), &[8, 64], &options).color_by, "bank of 4 bytes");
    let options = DrawOptions { sticks: true, ..DrawOptions::default() };
    let s = scene(&sticks(), &[5, 100], &options);
    let [host, device] = &s.physical[..] else { panic!("host and device") };
    assert_eq!((host.cells.len(), device.cells.len()), (500, 640));
    assert_eq!(count(&s.physical, CellKind::Padding), 140);
    assert_eq!((device.row_count(), device.col_count(), s.palette.len()), (10, 64, 10));
    assert_eq!(count(&s.logical, CellKind::Element), 500);
}

#[test]
fn replicas_show_each_owner_and_meshes_stand_in_place() {
    let zoo = zoo();
    let get = |name: &str| zoo.iter().find(|(n, ..)| *n == name).expect("in the zoo");
    let (_, layout, shape) = get("replica");
    let by_warp = DrawOptions { color_by: Some("warpid".into()), ..DrawOptions::default() };
    let s = scene(layout, shape, &by_warp);
    assert_eq!(s.physical.len(), 2);
    assert!(cells(&s.logical).all(|c| c.colors == [0, 1] && c.places.len() == 2));
    let (_, layout, shape) = get("mesh");
    let s = scene(layout, shape, &DrawOptions::default());
    let at: Vec<_> = s.physical.iter().map(|p| (p.caption.as_str(), p.at)).collect();
    assert_eq!(
        at,
        [
            ("pid 0", Some((0, 0))),
            ("pid 1", Some((1, 0))),
            ("pid 2", Some((0, 1))),
            ("pid 3", Some((1, 1)))
        ]
    );
    let (_, layout, shape) = get("3-D");
    let s = scene(layout, shape, &DrawOptions::default());
    assert_eq!(
        s.logical.iter().map(|p| p.caption.as_str()).collect::<Vec<_>>(),
        ["[0, :, :]", "[1, :, :]", "[2, :, :]"]
    );
}

#[test]
fn clipping_is_said() {
    let zoo = zoo();
    let get = |name: &str| zoo.iter().find(|(n, ..)| *n == name).expect("in the zoo");
    let (_, layout, shape) = get("big");
    let s = scene(layout, shape, &DrawOptions::default());
    let clip = s.logical[0].clip.as_deref();
    assert_eq!(clip, Some("rows 0..64 of 4096, columns 0..64 of 4096 shown"));
    assert_eq!(s.physical[0].clip.as_deref(), Some("lines 0..64 of 262144 shown"));
    let (_, layout, shape) = get("huge");
    let s = scene(layout, shape, &DrawOptions::default());
    assert!(s.logical[0].clip.as_deref().is_some_and(|c| c.contains("slabs 0..1 of 1048576")));
    assert!(s.notes.iter().any(|n| n.contains("of 1048576 boxes")), "{:?}", s.notes);
    let (_, layout, shape) = get("many copies");
    let s = scene(layout, shape, &DrawOptions::default());
    assert!(s.notes.iter().any(|n| n.contains("64 of 1099511627776 replica")), "{:?}", s.notes);
    let (_, layout, shape) = get("empty");
    let s = scene(layout, shape, &DrawOptions::default());
    assert!(s.physical.is_empty() && s.notes[0].contains("empty"));
}

#[test]
fn bad_requests_are_refused() {
    let refuse = |layout: &Layout, shape: &[i64], options: DrawOptions| {
        Scene::new(layout, shape, &options).expect_err("refused").kind()
    };
    let base = DrawOptions::default;
    assert_eq!(refuse(&mma(), &[16, 9], base()), "size_mismatch");
    let color_by = Some("warp".to_string());
    assert_eq!(refuse(&mma(), &[128], DrawOptions { color_by, ..base() }), "unknown_axis");
    for dtype_bits in [0, -8, 1025, i64::MIN] {
        assert_eq!(refuse(&mma(), &[128], DrawOptions { dtype_bits, ..base() }), "bad_parameter");
    }
    for max_cells in [0, usize::MAX] {
        assert_eq!(refuse(&mma(), &[128], DrawOptions { max_cells, ..base() }), "bad_parameter");
    }
    assert_eq!(refuse(&mma(), &[128], DrawOptions { sticks: true, ..base() }), "not_one_axis");
    let options = DrawOptions { sticks: true, dtype_bits: 24, ..base() };
    assert_eq!(refuse(&sticks(), &[500], options), "bad_parameter");
}

#[test]
fn scenes_survive_json() {
    for (name, layout, shape) in zoo() {
        let scene =
            scene(&layout, &shape, &DrawOptions { max_cells: 64, ..DrawOptions::default() });
        let text = serde_json::to_string(&scene).expect("plain data");
        assert_eq!(serde_json::from_str::<Scene>(&text).expect("reads back"), scene, "{name}");
    }
    let options: DrawOptions =
        serde_json::from_str(r#"{"dtype_bits": 8}"#).expect("the rest by default");
    assert_eq!(options, DrawOptions { dtype_bits: 8, ..DrawOptions::default() });
}
