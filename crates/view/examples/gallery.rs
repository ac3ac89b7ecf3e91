//! Draws a gallery of layouts into a folder: `cargo run -p zellige-view --example gallery -- OUT`.

#![allow(clippy::result_large_err)]

use std::error::Error;
use zellige_layout::{
    Axis, AxisTable, Iter, Layout, PaddedExtent, Swizzle, TileLayout, ValidWindow,
};
use zellige_view::{DrawOptions, Scene, png, svg, terminal};

type IterList<'a> = &'a [(i64, i64, &'a str)];

fn parse_iters(list: IterList<'_>) -> Result<Vec<Iter>, zellige_layout::LayoutError> {
    let table = AxisTable::new();
    list.iter().map(|(e, s, a)| Ok(Iter::new(*e, *s, table.get(a)?))).collect()
}

fn tile_layout(
    shard: IterList<'_>,
    replica: IterList<'_>,
) -> Result<TileLayout, zellige_layout::LayoutError> {
    TileLayout::new(parse_iters(shard)?, parse_iters(replica)?, [])
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = std::env::args().nth(1).ok_or("usage: gallery OUT-FOLDER")?;
    let plain = |shard, replica| tile_layout(shard, replica).map(Layout::from);
    let smem = TileLayout::row_major(&[8, 64])?;
    let mma: IterList<'_> = &[(2, 2, "m"), (8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")];
    let mesh: IterList<'_> = &[(2, 1, "pid"), (2, 2, "m"), (2, 2, "pid"), (2, 1, "m")];
    let tmem: IterList<'_> = &[(2, 4, "TCol"), (4, 1, "TLane"), (4, 1, "TCol")];
    let lanes: IterList<'_> = &[(4, 8, "laneid"), (8, 1, "laneid")];
    let psum: IterList<'_> = &[(16, 1, "P"), (2, 1, "Bank"), (8, 1, "F")];
    let wgmma: IterList<'_> = &[
        (4, 1, "wid_in_wg"),
        (2, 2, "m"),
        (8, 4, "laneid"),
        (2, 4, "m"),
        (4, 1, "laneid"),
        (2, 1, "m"),
    ];
    let window = ValidWindow::new(vec![
        PaddedExtent::without_padding(5),
        PaddedExtent::padded_to(100, 128),
    ])?;
    let sticks = plain(&[(5, 64, "m"), (2, 320, "m"), (64, 1, "m")], &[])?.with_window(window)?;
    let column_major = TileLayout::from_strides(&[16, 3], &[1, 20], 0)?;
    let base = DrawOptions::default();
    let bank = DrawOptions { color_by: Some("bank".into()), ..base.clone() };
    let warp = DrawOptions { color_by: Some("warpid".into()), ..base.clone() };
    let stick = DrawOptions { sticks: true, ..base.clone() };
    let bits = |dtype_bits| DrawOptions { dtype_bits, ..base.clone() };
    let all: Vec<(&str, Layout, &[i64], DrawOptions)> = vec![
        ("mma C/D, m16n8", plain(mma, &[])?, &[16, 8], base.clone()),
        ("shared memory, no swizzle", smem.clone().into(), &[8, 64], bank),
        (
            "shared memory, 128B swizzle",
            Layout::from_swizzled_tile(Swizzle::new(3, 3, 3, true)?, smem)?,
            &[8, 64],
            base.clone(),
        ),
        ("device mesh", plain(mesh, &[])?, &[4, 4], base.clone()),
        (
            "mesh with replica",
            plain(&[(2, 1, "pid"), (2, 4, "m"), (4, 1, "m")], &[(2, 2, "pid")])?,
            &[4, 4],
            base.clone(),
        ),
        ("tensor memory", plain(tmem, &[])?, &[4, 8], base.clone()),
        ("sticks", sticks, &[5, 100], stick),
        ("replica", plain(lanes, &[(2, 1, "warpid")])?, &[4, 8], base.clone()),
        ("replica by warp", plain(lanes, &[(2, 1, "warpid")])?, &[4, 8], warp),
        ("wgmma 64x16", plain(wgmma, &[])?, &[64, 16], base.clone()),
        ("psum", plain(psum, &[])?, &[16, 16], base.clone()),
        ("three dimensions", TileLayout::row_major(&[3, 4, 5])?.into(), &[3, 4, 5], bits(32)),
        ("column-major f64 with gaps", column_major.clone().into(), &[16, 3], bits(64)),
        ("24-bit", column_major.into(), &[16, 3], bits(24)),
        ("scalar", TileLayout::from_shard(vec![])?.into(), &[], base.clone()),
        ("empty", TileLayout::row_major(&[0, 4])?.into(), &[0, 4], base.clone()),
        ("broadcast", TileLayout::from_strides(&[4, 8], &[0, 1], 0)?.into(), &[4, 8], base.clone()),
        ("one dimension", TileLayout::row_major(&[100])?.into(), &[100], base.clone()),
        ("big", TileLayout::row_major(&[4096, 4096])?.into(), &[4096, 4096], base.clone()),
        (
            "sparse lanes",
            Layout::from(TileLayout::from_shard(vec![Iter::new(8, 4, Axis::LANEID)])?),
            &[8],
            base,
        ),
    ];
    std::fs::create_dir_all(&out)?;
    for (title, layout, shape, options) in all {
        let options = DrawOptions { title: title.into(), ..options };
        let scene = Scene::new(&layout, shape, &options)?;
        let name: String =
            title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(format!("{out}/{name}.svg"), svg::render_scene_svg(&scene))?;
        std::fs::write(format!("{out}/{name}.png"), png::render_scene_png(&scene, 1.0)?)?;
        for width in [80, 160] {
            let text = terminal::render_scene_text(&scene, width, false);
            std::fs::write(format!("{out}/{name}.{width}.txt"), text)?;
        }
        std::fs::write(
            format!("{out}/{name}.ansi"),
            terminal::render_scene_text(&scene, 160, true),
        )?;
    }
    Ok(())
}
