//! The page of a report: well-formed whatever the names are, and small for many layers.

use zellige_report::{
    BusyCores, LaunchUnitName, LayoutSummary, LoopDimension, Report, ReportedBuffer,
    ReportedBundle, ReportedStep, StepFamily, StepKind, StepOperand,
};
use zellige_view::page::{ReportedCollective, render_page, render_run_page};

/// Layers of three steps each, in a chain.
fn report(layers: usize, name: &str) -> Report {
    let shape = LayoutSummary {
        size: vec![64, 64],
        order: "d1/64 d0 d1%64".into(),
        ..LayoutSummary::default()
    };
    let mut m = Report { graph: name.into(), ..Report::default() };
    (m.machine.peak_tflops, m.machine.memory_gb_s, m.options.cores) = (98.3, 204.8, 32);
    m.summary.latency_us = 3.0 * layers as f64;
    m.tensors.push(ReportedBuffer {
        name: name.into(),
        layout: shape.clone(),
        ..ReportedBuffer::default()
    });
    for i in 0..3 * layers {
        let operand = |buffer| StepOperand { buffer, size: vec![64, 64], ..StepOperand::default() };
        m.steps.push(ReportedStep {
            name: format!("layer{}.{name}{}", i / 3, i % 3),
            op: ["matmul", "add", "<script>"][i % 3].into(),
            kind: StepKind::Op,
            family: StepFamily::Matmul,
            reads: vec![operand(i)],
            writes: vec![operand(i + 1)],
            dims: vec![LoopDimension {
                name: "c0".into(),
                size: 64,
                unit: 1,
                reduced: false,
                split: 32,
            }],
            busy: vec![BusyCores { cores: 32, us: 1.0 }],
            cores: 32,
            start_us: i as f64,
            us: 1.0,
            flops: 1000,
            intensity: Some(1.0),
            tflops: 0.1,
            ..ReportedStep::default()
        });
        let (layout, written_by) = (shape.clone(), Some(i));
        m.tensors.push(ReportedBuffer {
            name: format!("t{i}"),
            layout,
            written_by,
            ..ReportedBuffer::default()
        });
    }
    m
}

/// The names of open elements, checked against those that are closed.
fn well_formed(page: &str) {
    const VOID: [&str; 3] = ["meta", "input", "!doctype"];
    let body = &page[..page.find("<script>").expect("a script")];
    let style = (body.find("<style>").expect("a style"), body.find("</style>").expect("its end"));
    let text = format!("{}{}", &body[..style.0], &body[style.1 + 8..]);
    let mut open: Vec<String> = Vec::new();
    for tag in text.split('<').skip(1) {
        let inside = tag.split('>').next().expect("a tag");
        let name = inside.split([' ', '/']).find(|w| !w.is_empty()).expect("a name").to_lowercase();
        if inside.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "closed by <{inside}>");
        } else if !inside.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert_eq!(open, ["html", "body"]);
}

#[test]
fn names_stay_text() {
    for name in ["plain", "a<b>&\"c\"</svg></script>", "é\u{1}…"] {
        let page = render_page(&report(2, name));
        well_formed(&page);
        assert!(!page.contains("<b>&\"") && !page.contains("</svg></script>&"));
        assert_eq!(page.matches("<script>").count(), 1);
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = render_page(&report(3, "m"));
    for word in ["http:", "https:", "src=", "@import", "url(h"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn equal_layers_are_one() {
    // What grows is the timeline alone, and only as far as its pixels.
    let (many, more) = (render_page(&report(400, "m")), render_page(&report(4000, "m")));
    assert!(many.contains("these 3 steps ×400") && more.contains("these 3 steps ×4000"));
    assert!(many.len() < 400_000 && more.len() < 500_000, "{} and {}", many.len(), more.len());
}

#[test]
fn an_empty_report_is_a_page() {
    well_formed(&render_page(&Report::default()));
}

/// What a run exchanged is listed with its bytes and times; equal exchanges are one row, and a page without any has no such section.
#[test]
fn bundles_are_listed_where_there_are_some() {
    let mut m = report(2, "m");
    let bundle = ReportedBundle { steps: m.steps.len(), launched: true, ..Default::default() };
    m.bundles = vec![bundle];
    assert!(!render_page(&m).contains("<h2>Bundles</h2>"), "waves are steps");
    m.machine.launch_unit = LaunchUnitName::Bundle;
    let page = render_page(&m);
    well_formed(&page);
    assert!(page.contains("<h2>Bundles</h2>") && page.contains("the card"));
}

#[test]
fn collectives_are_listed() {
    let report = report(2, "name");
    assert!(!render_page(&report).contains("Collectives"));
    let reduced = ReportedCollective {
        op: "all_reduce".into(),
        dtype: "float16".into(),
        size: vec![4, 64],
        ranks: 2,
        messages: 2,
        bytes: 512,
        us: 1.5,
        waited_us: 0.25,
    };
    let gathered =
        ReportedCollective { op: "<b>".into(), bytes: 4_000, us: 10.0, ..reduced.clone() };
    let page = render_run_page(&report, &[reduced.clone(), gathered, reduced]);
    well_formed(&page);
    assert!(page.contains("3 collectives in a run") && page.contains("5.02 kB"), "{page}");
    assert!(page.contains("13.0 us") && page.contains("750 ns"));
    let section =
        page.split("id=\"collectives\"").nth(1).and_then(|s| s.split("</section>").next());
    let section = section.expect("the section");
    assert_eq!(section.matches("<tr>").count(), 3, "a head and two rows: {section}");
    for cell in ["all_reduce", "float16", "4×64", "1.02 kB", "3.00 us", "500 ns", "&lt;b&gt;"] {
        assert!(section.contains(cell), "{cell} in {section}");
    }
}
