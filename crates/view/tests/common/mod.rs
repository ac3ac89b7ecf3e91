//! Layouts that several test files draw.

#![allow(dead_code, reason = "each test file uses some of them")]

use zellige_layout::{
    AxisKind, AxisTable, Iter, Layout, PaddedExtent, Swizzle, TileLayout, ValidWindow,
};

pub(crate) type Iters<'a> = &'a [(i64, i64, &'a str)];

/// A layout from shard, replica and offset, on built-in axes and two declared ones.
pub(crate) fn layout(shard: Iters<'_>, replica: Iters<'_>, offset: &[(i64, &str)]) -> Layout {
    let mut table = AxisTable::new();
    table.declare_axis("lx", AxisKind::Memory).expect("a fine name");
    table.declare_axis("core", AxisKind::Device).expect("a fine name");
    let get = |name: &str| table.get(name).expect("known");
    let iters = |list: Iters<'_>| list.iter().map(|(e, s, a)| Iter::new(*e, *s, get(a))).collect();
    let offset = offset.iter().map(|(v, a)| (get(a), *v));
    TileLayout::new(iters(shard), iters(replica), offset).expect("well-formed").into()
}

pub(crate) fn mma() -> Layout {
    layout(&[(2, 2, "m"), (8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")], &[], &[])
}

pub(crate) fn smem(swizzled: bool) -> Layout {
    let tile = TileLayout::row_major(&[8, 64]).expect("fits");
    let swizzle = Swizzle::new(3, if swizzled { 3 } else { 0 }, 3, true).expect("fine");
    Layout::from_swizzled_tile(swizzle, tile).expect("fine")
}

pub(crate) fn sticks() -> Layout {
    let window =
        ValidWindow::new(vec![PaddedExtent::without_padding(5), PaddedExtent::padded_to(100, 128)])
            .expect("fine");
    layout(&[(5, 64, "m"), (2, 320, "m"), (64, 1, "m")], &[], &[])
        .with_window(window)
        .expect("fits")
}

/// Layouts of every kind, with a shape each: presets, odd ones and huge ones.
pub(crate) fn zoo() -> Vec<(&'static str, Layout, Vec<i64>)> {
    let l = layout;
    let big = 1i64 << 20;
    let shifted = ValidWindow::new(vec![
        PaddedExtent { begin: 1, valid: 2, padded: 4 },
        PaddedExtent::without_padding(3),
    ]);
    let window = l(&[(12, 1, "m")], &[], &[]).with_window(shifted.expect("fine"));
    vec![
        ("mma", mma(), vec![16, 8]),
        ("smem", smem(false), vec![8, 64]),
        ("swizzle", smem(true), vec![8, 64]),
        (
            "mesh",
            l(&[(2, 1, "pid"), (2, 2, "m"), (2, 2, "pid"), (2, 1, "m")], &[], &[]),
            vec![4, 4],
        ),
        (
            "mesh replica",
            l(&[(2, 1, "pid"), (2, 4, "m"), (4, 1, "m")], &[(2, 2, "pid")], &[]),
            vec![4, 4],
        ),
        ("tmem", l(&[(2, 4, "TCol"), (4, 1, "TLane"), (4, 1, "TCol")], &[], &[]), vec![4, 8]),
        ("sf", l(&[(32, 1, "TLane"), (4, 1, "TCol")], &[(4, 32, "TLane")], &[]), vec![32, 4]),
        ("psum", l(&[(8, 1, "P"), (4, 1, "Bank"), (16, 1, "F")], &[], &[]), vec![8, 64]),
        ("sticks", sticks(), vec![5, 100]),
        ("window", window.expect("fits"), vec![2, 3]),
        ("replica", l(&[(4, 8, "laneid"), (8, 1, "laneid")], &[(2, 1, "warpid")], &[]), vec![4, 8]),
        (
            "warps",
            l(
                &[(8, 4, "laneid"), (2, 1, "warpid"), (4, 1, "laneid"), (2, 1, "m")],
                &[(2, 4, "warpid")],
                &[(5, "warpid")],
            ),
            vec![8, 16],
        ),
        ("grid", l(&[(3, 1, "bx"), (2, 1, "by"), (4, 1, "tx")], &[], &[]), vec![6, 4]),
        ("scalar", l(&[], &[], &[]), vec![]),
        ("placed scalar", l(&[], &[], &[(3, "laneid"), (-2, "m")]), vec![]),
        ("empty", l(&[(0, 4, "m"), (4, 1, "m")], &[], &[]), vec![0, 4]),
        ("empty lanes", l(&[(4, 4, "laneid"), (0, 1, "laneid")], &[], &[]), vec![2, 0, 3]),
        ("1-D", l(&[(100, 1, "m")], &[], &[]), vec![100]),
        ("1-D short", l(&[(7, 4, "laneid")], &[], &[]), vec![7]),
        ("3-D", l(&[(3, 20, "m"), (4, 5, "m"), (5, 1, "m")], &[], &[]), vec![3, 4, 5]),
        ("5-D", l(&[(2 * 3 * 4 * 5 * 6, 1, "m")], &[], &[]), vec![2, 3, 4, 5, 6]),
        ("unit dims", l(&[(6, 1, "m")], &[], &[]), vec![1, 6, 1]),
        ("negative", l(&[(4, -8, "m"), (8, -1, "m")], &[], &[]), vec![4, 8]),
        ("negative lanes", l(&[(4, -3, "laneid"), (2, 1, "m")], &[], &[(-4, "m")]), vec![4, 2]),
        ("broadcast", l(&[(4, 0, "m"), (8, 1, "m")], &[], &[]), vec![4, 8]),
        ("aliasing copies", l(&[(4, 1, "m")], &[(3, 1, "m"), (2, 0, "m")], &[]), vec![4]),
        ("declared", l(&[(4, 1, "core"), (3, 1, "lx"), (2, 1, "m")], &[], &[]), vec![4, 6]),
        ("sparse", l(&[(5, 1 << 40, "m"), (3, 1, "m")], &[], &[]), vec![5, 3]),
        ("sparse devices", l(&[(5, 1 << 40, "pid"), (3, 1, "m")], &[], &[]), vec![15]),
        ("big", l(&[(4096, 4096, "m"), (4096, 1, "m")], &[], &[]), vec![4096, 4096]),
        (
            "huge",
            l(&[(big, 1, "laneid"), (big, 1, "m"), (big, 1, "pid")], &[], &[]),
            vec![big, big, big],
        ),
        (
            "huge broadcast",
            l(&[(big, 0, "m"), (big, 1, "m"), (big, 0, "laneid")], &[], &[]),
            vec![big, big * big],
        ),
        ("many copies", l(&[(4, 1, "m")], &[(big, 4, "m"), (big, 1, "laneid")], &[]), vec![2, 2]),
        ("far", l(&[(2, 1, "m")], &[], &[(i64::MAX - 4, "m"), (i64::MIN + 9, "pid")]), vec![2]),
        ("far memory", l(&[(2, 1, "m")], &[], &[(i64::MAX - 4, "m")]), vec![2]),
        ("far below", l(&[(2, -1, "m")], &[], &[(i64::MIN + 4, "m")]), vec![2]),
        ("wide", l(&[(2, i64::MAX / 2, "m"), (2, 1, "tx")], &[], &[]), vec![4]),
    ]
}
