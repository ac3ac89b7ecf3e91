//! An atlas says what the layout says, whichever window is looked at.

use std::collections::BTreeMap;
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, PaddedExtent, PlaceContent, Swizzle, TileLayout, ValidWindow,
    flatten_coordinate,
};
use zellige_view::atlas::{
    Atlas, CellSpot, CellWindow, NOTHING, PADDING, SheetSide, SpotContent, UNUSED,
};
use zellige_view::{CellKind, DrawOptions};

fn tile(shard: &[(i64, i64, &str)], replica: &[(i64, i64, &str)]) -> TileLayout {
    let axes = AxisTable::new();
    let iters = |list: &[(i64, i64, &str)]| {
        list.iter().map(|(e, s, a)| Iter::new(*e, *s, axes.get(a).expect("built in"))).collect()
    };
    TileLayout::new(iters(shard), iters(replica), []).expect("well-formed")
}

/// Layouts of every kind of picture, with shapes and element widths.
fn layouts() -> Vec<(Layout, Vec<i64>, DrawOptions)> {
    let bits = |dtype_bits| DrawOptions { dtype_bits, ..DrawOptions::default() };
    let swizzle = Swizzle::shared_memory_mode(128, 16).expect("fine");
    let rows = tile(&[(16, 64, "m"), (64, 1, "m")], &[]);
    let sticks = tile(&[(5, 64, "m"), (2, 320, "m"), (64, 1, "m")], &[]);
    let window =
        ValidWindow::new(vec![PaddedExtent::without_padding(5), PaddedExtent::padded_to(100, 128)])
            .expect("fits");
    vec![
        (Layout::from_swizzled_tile(swizzle, rows.clone()).expect("fine"), vec![16, 64], bits(16)),
        (rows.clone().into(), vec![1024], bits(64)),
        (rows.into(), vec![4, 4, 64], bits(12)),
        (
            Layout::from(sticks).with_window(window).expect("fits"),
            vec![5, 100],
            DrawOptions { sticks: true, ..bits(16) },
        ),
        (
            tile(
                &[(2, 2, "m"), (8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")],
                &[(2, 1, "warpid")],
            )
            .into(),
            vec![16, 8],
            bits(32),
        ),
        (
            tile(&[(2, 1, "pid"), (2, 2, "m"), (2, 2, "pid"), (2, 1, "m")], &[]).into(),
            vec![4, 4],
            bits(32),
        ),
        (
            tile(&[(2, 1, "pid"), (2, 2, "m"), (4, 1, "m")], &[(2, 2, "pid")]).into(),
            vec![4, 4],
            bits(32),
        ),
        (
            tile(&[(64, 1, "TLane"), (2, 64, "TLane"), (3, 1, "TCol")], &[]).into(),
            vec![64, 6],
            bits(32),
        ),
        (tile(&[(40, 4, "laneid")], &[]).into(), vec![40], bits(32)),
        (tile(&[(3, 0, "m"), (5, 1 << 30, "m")], &[]).into(), vec![3, 5], bits(8)),
        (tile(&[], &[]).into(), vec![], bits(8)),
    ]
}

fn whole(atlas: &Atlas, side: SheetSide, index: i64) -> CellWindow {
    let sheet = atlas.sheets().into_iter().find(|s| s.side == side).expect("has one");
    CellWindow { index, rows: 0..sheet.rows, cols: 0..sheet.cols }
}

#[test]
fn cells_paint_and_spots_agree_with_the_layout() {
    for (layout, shape, options) in layouts() {
        let atlas = Atlas::new(&layout, &shape, &options).expect("draws");
        // Which spots name which element.
        let mut named: BTreeMap<(SheetSide, i64), Vec<CellSpot>> = BTreeMap::new();
        for sheet in atlas.sheets() {
            for index in 0..sheet.boxes {
                let window = whole(&atlas, sheet.side, index);
                let found = atlas.window_cells(sheet.side, &window).expect("small");
                assert_eq!(found.note, None);
                let bytes = atlas.paint_window(sheet.side, &window).expect("small");
                let mut painted = vec![NOTHING; bytes.len()];
                for cell in &found.cells {
                    let kind = match cell.kind {
                        CellKind::Element => u8::try_from(cell.colors[0]).expect("few"),
                        CellKind::Padding => PADDING,
                        CellKind::Gap => UNUSED,
                    };
                    let at = cell.row * usize::try_from(sheet.cols).expect("small") + cell.col;
                    painted[at..at + cell.span].fill(kind);
                    let spot = CellSpot {
                        index,
                        row: cell.row as i64,
                        col: cell.col as i64,
                        span: cell.span as i64,
                    };
                    for element in &cell.elements {
                        let flat = flatten_coordinate(&shape, element).expect("inside");
                        named.entry((sheet.side, flat)).or_default().push(spot);
                    }
                    let here =
                        atlas.content_at(sheet.side, index, spot.row, spot.col).expect("inside");
                    match here {
                        SpotContent::Element(flat) => {
                            assert_eq!(flatten_coordinate(&shape, &cell.elements[0]), Ok(flat));
                        }
                        SpotContent::Place(place) => {
                            assert_eq!(cell.places, std::slice::from_ref(&place));
                            let axes = layout.tile().axes().iter().copied();
                            let held: Vec<(Axis, i64)> = axes.zip(place).collect();
                            let mut flats: Vec<i64> = cell
                                .elements
                                .iter()
                                .map(|e| flatten_coordinate(&shape, e).expect("inside"))
                                .collect();
                            flats.sort_unstable();
                            match layout.look_up_place(&held).expect("small") {
                                PlaceContent::Elements(list) => assert_eq!(list, flats),
                                _ => assert!(flats.is_empty()),
                            }
                        }
                        SpotContent::Nothing => panic!("a cell at {spot:?} of {layout:?}"),
                    }
                }
                assert!(painted == bytes, "paint and cells differ: {layout:?} {:?}", sheet.side);
            }
        }
        for sheet in atlas.sheets() {
            for flat in 0..layout.size() {
                let mut expected = named.remove(&(sheet.side, flat)).unwrap_or_default();
                expected.sort_unstable();
                expected.dedup();
                let spots = atlas.element_spots(sheet.side, flat).expect("small");
                assert_eq!(spots, expected, "{layout:?} {:?} {flat}", sheet.side);
                assert!(!spots.is_empty());
            }
        }
    }
}

#[test]
fn an_element_has_one_colour_in_the_drawings_of_two_layouts() {
    let bits = DrawOptions { dtype_bits: 16, ..DrawOptions::default() };
    let rows: Layout = tile(&[(16, 64, "m"), (64, 1, "m")], &[]).into();
    let columns: Layout = tile(&[(16, 1, "m"), (64, 16, "m")], &[]).into();
    let shape = [16, 64];
    let source = Atlas::new(&rows, &shape, &bits).expect("draws");
    let plain = Atlas::new(&columns, &shape, &bits).expect("draws");
    let moved = Atlas::new(&columns, &shape, &bits)
        .expect("draws")
        .color_as_in(&rows, &bits)
        .expect("same shape");
    let colors = |atlas: &Atlas| -> BTreeMap<Vec<i64>, Vec<usize>> {
        let side = SheetSide::Physical;
        let found = atlas.window_cells(side, &whole(atlas, side, 0)).expect("small");
        let bytes = atlas.paint_window(side, &whole(atlas, side, 0)).expect("small");
        let sheet = atlas.sheets().into_iter().find(|s| s.side == side).expect("memory");
        for cell in &found.cells {
            let at = cell.row * usize::try_from(sheet.cols).expect("small") + cell.col;
            assert_eq!(usize::from(bytes[at]), cell.colors[0], "paint and cells");
        }
        found.cells.into_iter().map(|c| (c.elements[0].clone(), c.colors)).collect()
    };
    assert_eq!(colors(&source).len(), 1024);
    assert_eq!(colors(&moved), colors(&source));
    assert_ne!(colors(&plain), colors(&source), "the two layouts colour elements differently");
    assert_eq!(moved.tones(), source.tones());
    let other_shape: Layout = tile(&[(8, 1, "m")], &[]).into();
    assert!(
        Atlas::new(&columns, &shape, &bits)
            .expect("draws")
            .color_as_in(&other_shape, &bits)
            .is_err()
    );
}

#[test]
fn a_window_is_a_part_of_the_whole() {
    for (layout, shape, options) in layouts() {
        let atlas = Atlas::new(&layout, &shape, &options).expect("draws");
        for sheet in atlas.sheets() {
            let index = sheet.boxes - 1;
            let all =
                atlas.window_cells(sheet.side, &whole(&atlas, sheet.side, index)).expect("small");
            let window = CellWindow {
                index,
                rows: sheet.rows / 3..sheet.rows / 2 + 1,
                cols: sheet.cols / 3..sheet.cols / 2 + 1,
            };
            let part = atlas.window_cells(sheet.side, &window).expect("small");
            let expected: Vec<_> = all
                .cells
                .into_iter()
                .filter(|c| {
                    let (row, col, span) = (c.row as i64, c.col as i64, c.span as i64);
                    window.rows.contains(&row)
                        && col < window.cols.end
                        && col + span > window.cols.start
                })
                .collect();
            let mut cells = part.cells;
            cells.sort_by_key(|c| (c.row, c.col));
            let mut expected = expected;
            expected.sort_by_key(|c| (c.row, c.col));
            assert!(cells == expected, "{layout:?} {:?}", sheet.side);
        }
    }
}

#[test]
fn windows_cost_what_they_hold() {
    let layout = Layout::from(TileLayout::row_major(&[1 << 20, 1 << 20]).expect("fits"));
    let shape = [1 << 20, 1 << 20];
    let atlas = Atlas::new(&layout, &shape, &DrawOptions::default()).expect("draws");
    let window = CellWindow { index: 0, rows: 1 << 19..(1 << 19) + 8, cols: 5..9 };
    let cells = atlas.window_cells(SheetSide::Logical, &window).expect("small").cells;
    assert_eq!(cells.len(), 32);
    assert_eq!(cells[0].places, [[(1 << 39) + 5]]);
    let far = CellWindow { index: 0, rows: 1 << 30..(1 << 30) + 2, cols: 0..64 };
    let cells = atlas.window_cells(SheetSide::Physical, &far).expect("small").cells;
    assert_eq!((cells.len(), &cells[0].elements[0]), (128, &vec![1 << 16, 0]));
    let wide = CellWindow { index: 0, rows: 0..1 << 10, cols: 0..1 << 10 };
    assert_eq!(atlas.window_cells(SheetSide::Logical, &wide).unwrap_err().kind(), "too_large");
    assert_eq!(atlas.paint_window(SheetSide::Logical, &wide).unwrap_err().kind(), "too_large");
    let tall = CellWindow { index: 0, rows: 0..i64::MAX, cols: 1 << 20..1 << 21 };
    assert!(atlas.window_cells(SheetSide::Logical, &tall).expect("empty").cells.is_empty());
    assert!(atlas.window_cells(SheetSide::Host, &window).is_err());
    let none = CellWindow { index: 7, ..window };
    assert!(atlas.paint_window(SheetSide::Logical, &none).is_err());
}
