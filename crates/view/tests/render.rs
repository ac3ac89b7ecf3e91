//! Drawings are well-formed, fit where they must, and never panic.

mod common;

use common::{mma, sticks, zoo};
use zellige_view::{DrawOptions, Scene, svg, terminal};

fn scenes() -> Vec<(String, Scene)> {
    let mut all = Vec::new();
    for (name, layout, shape) in zoo() {
        for (dtype_bits, max_cells) in [(16, 700), (1, 100), (8, 7), (1024, 300)] {
            let options =
                DrawOptions { dtype_bits, max_cells, title: name.into(), ..DrawOptions::default() };
            let scene = Scene::new(&layout, &shape, &options).expect("drawable");
            all.push((format!("{name}, {dtype_bits} bits"), scene));
        }
    }
    all
}

/// Columns of a line of plain labels: escape sequences take none, every other character one.
fn columns(line: &str) -> usize {
    let mut rest = line;
    let mut count = 0;
    while let Some(c) = rest.chars().next() {
        if let Some(tail) = rest.strip_prefix("\u{1b}[") {
            let end = tail.find('m').expect("only colour sequences");
            rest = &tail[end + 1..];
        } else {
            count += 1;
            rest = &rest[c.len_utf8()..];
        }
    }
    count
}

#[test]
fn terminal_lines_fit() {
    for (name, scene) in scenes() {
        for width in [0, 40, 80, 97, 160] {
            for color in [false, true] {
                let text = terminal::render_scene_text(&scene, width, color);
                let most = width.max(terminal::MIN_WIDTH);
                for line in text.lines() {
                    assert!(columns(line) <= most, "{name} at {width}: {line}");
                }
                assert_eq!(text.contains('\u{1b}'), color, "{name}");
            }
        }
    }
}

#[test]
fn terminal_text_holds_every_label() {
    let scene = Scene::new(&mma(), &[16, 8], &DrawOptions::default()).expect("drawable");
    for width in [40, 80, 160] {
        let text = terminal::render_scene_text(&scene, width, false);
        for panel in scene.logical.iter().chain(&scene.physical) {
            for cell in &panel.cells {
                assert!(text.contains(&cell.label), "{} at {width}", cell.label);
            }
        }
    }
    let options = DrawOptions { sticks: true, ..DrawOptions::default() };
    let scene = Scene::new(&sticks(), &[5, 100], &options).expect("drawable");
    assert!(terminal::render_scene_text(&scene, 80, false).contains("░ padding"));
}

#[test]
fn titles_cannot_command_a_terminal_or_break_xml() {
    let title = "a\u{1b}[2J <b> & \"c\" \u{0}\n]]>".to_string();
    let caption = Some("x".repeat(999));
    let scene =
        Scene::new(&mma(), &[128], &DrawOptions { title, caption, ..DrawOptions::default() });
    let scene = scene.expect("drawable");
    let text = terminal::render_scene_text(&scene, 80, false);
    assert!(!text.contains('\u{1b}') && text.lines().all(|l| columns(l) <= 80));
    check_xml(&svg::render_scene_svg(&scene)).expect("well-formed");
}

/// Tags nest, attributes are quoted, text is escaped. Enough of XML for what we write.
fn check_xml(text: &str) -> Result<usize, String> {
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at])?;
        let end = rest[at..].find('>').ok_or("an open tag")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        elements += 1;
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        while let Some((key, tail)) = attributes.split_once("=\"") {
            let (value, tail) = tail.split_once('"').ok_or("an open attribute")?;
            if key.trim().is_empty() || value.contains('<') {
                return Err(format!("attribute {key}={value}"));
            }
            check_text(value)?;
            attributes = tail;
        }
        if !attributes.trim().is_empty() {
            return Err(format!("stray `{attributes}` in <{name}>"));
        }
        if !closed {
            open.push(name);
        }
    }
    if !open.is_empty() || !rest.trim().is_empty() {
        return Err(format!("still open: {open:?}, then `{rest}`"));
    }
    Ok(elements)
}

fn check_text(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;"].iter().any(|e| part.starts_with(e));
        if !known {
            return Err(format!("a bare & before `{part}`"));
        }
    }
    match text.chars().find(|c| c.is_control() && *c != '\n') {
        Some(c) => Err(format!("control character {c:?}")),
        None => Ok(()),
    }
}

#[test]
fn svg_is_well_formed_and_complete() {
    for (name, scene) in scenes() {
        let text = svg::render_scene_svg(&scene);
        let elements = check_xml(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let cells: usize = scene.logical.iter().chain(&scene.physical).map(|p| p.cells.len()).sum();
        assert!(elements > cells, "{name}");
        for panel in scene.logical.iter().chain(&scene.physical) {
            assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
            for word in panel.clip.iter().flat_map(|c| c.split(' ')) {
                assert!(text.contains(word), "{name}: {word}");
            }
        }
    }
}

#[test]
fn foreign_scenes_do_not_panic() {
    // A page may send back a scene that no layout gives.
    let scene = Scene::new(&mma(), &[16, 8], &DrawOptions::default()).expect("drawable");
    let mut odd = scene;
    odd.palette.truncate(3);
    odd.logical[0].row_labels.truncate(2);
    odd.logical[0].col_labels.truncate(1);
    odd.physical[0].col_group = 0;
    odd.physical[0].cells[3].span = 0;
    odd.physical[0].cells[4].span = 99;
    odd.physical[0].cells[5].places.clear();
    check_xml(&svg::render_scene_svg(&odd)).expect("well-formed");
    for color in [true, false] {
        terminal::render_scene_text(&odd, 60, color);
    }
}

#[cfg(feature = "png")]
mod bitmap {
    use super::*;
    use zellige_view::png;

    fn decode(bytes: &[u8]) -> resvg::tiny_skia::Pixmap {
        resvg::tiny_skia::Pixmap::decode_png(bytes).expect("a PNG")
    }

    /// Width and height as the SVG states them.
    fn size(svg: &str) -> [f32; 2] {
        ["width=\"", "height=\""].map(|key| {
            let tail = svg.split_once(key).expect("has a size").1;
            tail.split_once('"').expect("quoted").0.parse().expect("a number")
        })
    }

    #[test]
    fn bitmaps_have_the_size_of_the_svg() {
        for (name, layout, shape) in zoo() {
            let options = DrawOptions { max_cells: 50, ..DrawOptions::default() };
            let scene = Scene::new(&layout, &shape, &options).expect("drawable");
            let [w, h] = size(&svg::render_scene_svg(&scene));
            for scale in [0.25, 1.5] {
                let map = decode(&png::render_scene_png(&scene, scale).expect("small"));
                let close =
                    |pixels: u32, length: f32| (pixels as f32 - length * scale).abs() <= 1.5;
                assert!(close(map.width(), w) && close(map.height(), h), "{name}");
            }
        }
    }

    #[test]
    fn text_is_drawn_without_fonts() {
        let dark = |title: &str| {
            let layout = common::layout(&[(1, 1, "m")], &[], &[]);
            let options = DrawOptions { title: title.into(), ..DrawOptions::default() };
            let scene = Scene::new(&layout, &[1], &options).expect("drawable");
            let map = decode(&png::render_scene_png(&scene, 1.0).expect("small"));
            map.pixels().iter().filter(|p| p.red() < 100).count()
        };
        assert!(dark("WWWWWWWW") > dark("iiiiiiii") + 20);
        assert!(dark("i") > dark(""));
    }

    #[test]
    fn impossible_bitmaps_are_refused() {
        let scene = Scene::new(&mma(), &[16, 8], &DrawOptions::default()).expect("drawable");
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(matches!(
                png::render_scene_png(&scene, scale),
                Err(png::PngError::BadScale(_))
            ));
        }
        for scale in [1e4, f32::MAX] {
            assert!(matches!(
                png::render_scene_png(&scene, scale),
                Err(png::PngError::TooLarge { .. })
            ));
        }
        assert!(png::render_scene_png(&scene, 1e-9).is_ok());
    }
}
