//! Charts of time: what is drawn, and what is said about the rest.

use zellige_view::{ChartBar, ChartTrack, TimeChart, png, svg};

fn bar(name: &str, start: f64, length: f64) -> ChartBar {
    ChartBar { name: name.into(), start, length, note: "a <note>".into() }
}

fn chart(bars: Vec<ChartBar>) -> TimeChart {
    let track = ChartTrack { name: "core 0".into(), bars, labelled: true };
    TimeChart { title: "Time".into(), caption: String::new(), tracks: vec![track] }
}

#[test]
fn bars_lie_where_their_times_say() {
    let drawn = svg::chart::render_chart_svg(&chart(vec![
        bar("add", 0.0, 500.0),
        bar("mul", 500.0, 500.0),
    ]));
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"), "{drawn}");
    assert!(drawn.contains("<title>add, 0 us to 0.5 us: a &lt;note&gt;</title>"), "{drawn}");
    assert!(drawn.contains(">1 us<"), "the axis ends there: {drawn}");
    // Two bars of half the width each, and a swatch for each name.
    assert_eq!(drawn.matches(r#"width="450""#).count(), 2, "{drawn}");
    let bitmap = png::render_chart_png(&chart(vec![bar("add", 0.0, 5.0)]), 1.0).unwrap();
    assert_eq!(&bitmap[1..4], b"PNG");
    assert!(png::render_chart_png(&chart(Vec::new()), f32::NAN).is_err());
}

#[test]
fn anything_is_drawn_and_what_is_left_out_is_said() {
    for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
        let drawn =
            svg::chart::render_chart_svg(&chart(vec![bar("x", odd, odd), bar("y", 1.0, odd)]));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{odd}");
    }
    assert!(svg::chart::render_chart_svg(&TimeChart::default()).contains("</svg>"));
    let many = (0..20_007).map(|i| bar("x", f64::from(i), 1.0)).collect();
    assert!(svg::chart::render_chart_svg(&chart(many)).contains("7 more bars are not drawn"));
    let names = (0..40).map(|i| bar(&format!("op {i}"), f64::from(i), 1.0)).collect();
    assert!(svg::chart::render_chart_svg(&chart(names)).contains("and 8 more"));
}
