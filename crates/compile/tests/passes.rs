//! The list of passes: what it names can be printed, and the documents follow it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_compile::{CompilerOptions, PASSES, compile_graph, print_pass};

fn graph() -> zellige_graph::Graph {
    let text = "graph g(x: float16[128, 256], w: float16[256, 256] @weight) {
        y = matmul(x, w)
        z = relu(y)
        s = sum(z, dim=[0])
        return z, s
    }";
    zellige_graph::text::parse(text).unwrap()
}

#[test]
fn the_document_has_a_section_for_every_pass_in_order() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compiler.md");
    let document = std::fs::read_to_string(path).unwrap();
    let sections: Vec<&str> = document.lines().filter_map(|l| l.strip_prefix("## ")).collect();
    let names = PASSES.map(|p| p.name);
    assert_eq!(sections[..names.len()], names);
    assert!(!sections[names.len()..].iter().any(|s| names.contains(s)), "{sections:?}");
}

#[test]
fn every_pass_prints_what_it_made() {
    for options in [CompilerOptions::default(), CompilerOptions::baseline()] {
        let mut seen: Vec<String> = Vec::new();
        for pass in PASSES {
            let text = print_pass(&graph(), &options, pass.name).unwrap();
            assert!(!text.is_empty(), "{}", pass.name);
            seen.push(text);
        }
        // The passes on graphs leave this one alone; every other pass has a value of its own.
        assert_eq!(seen[0], seen[3]);
        for (i, text) in seen.iter().enumerate().skip(4) {
            assert!(!seen[..i].contains(text), "{}", PASSES[i].name);
        }
    }
    let e = print_pass(&graph(), &CompilerOptions::default(), "pad").unwrap_err();
    assert!(e.to_string().contains("no pass `pad`"), "{e}");
}

#[test]
fn the_last_value_says_what_the_program_is() {
    let program = compile_graph(&graph(), &CompilerOptions::default()).unwrap();
    let text = print_pass(&graph(), &CompilerOptions::default(), "schedule").unwrap();
    let (bundles, lines): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("bundle "));
    assert_eq!((bundles.len(), lines.len()), (program.bundles.len(), program.steps.len()));
    let names = program.steps.iter().zip(lines);
    for (step, line) in names {
        assert!(line.contains(&format!(": {} = ", step.name)), "{line}");
    }
    let places = print_pass(&graph(), &CompilerOptions::default(), "pool").unwrap();
    assert_eq!(places.lines().count(), program.buffers.len() + 1);
}

/// A pass that is refused does not keep the values before it from being printed.
#[test]
fn passes_before_a_refusal_can_be_printed() {
    let text = "graph g(x: float16[134217729, 64]) { y = relu(x) return y }";
    let graph = zellige_graph::text::parse(text).unwrap();
    assert!(compile_graph(&graph, &CompilerOptions::default()).is_err());
    assert!(print_pass(&graph, &CompilerOptions::default(), "propagate").is_ok());
}
