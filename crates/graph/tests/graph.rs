//! Graphs: text, JSON, views, symbols, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use std::collections::BTreeMap;
use zellige_float::Dtype;
use zellige_graph::{
    Graph, GraphBuilder, GraphOperand, InputRole, RequestedMemory, TensorOrigin, json, text,
};
use zellige_layout::StridedLayout;
use zellige_stick::LayoutRequest;

const SAMPLE: &str = r#"
# A table, a view of it, and a sum.
graph sample[s in 64..4096 step 64](
    x: float16[s, 128] pin stick 1,
    table.weight: float16[1000, 128] @weight pin order [1, 0],
    rows: int64[s],
    cache: float16[s, 128] @state,
) {
    e = embedding(table.weight, rows) at "model.py:3"
    sum = add(x, e) pin sparse split {c0: 32, c1: 1}
    half = slice(sum, dim=1, start=0, end=64)   # a view
    turned = transpose(half, dim0=0, dim1=1)
    flat = reshape(turned, size=[-1])
    more = add(flat, 2)
    both = add(more, -0.5)
    return both, sum
}
"#;

#[test]
fn a_text_is_a_graph() {
    let g = text::parse(SAMPLE).unwrap();
    assert_eq!(g.name(), "sample");
    assert_eq!(g.tensor("sum").unwrap().size, [4096, 128]);
    assert_eq!(g.tensor("turned").unwrap().size, [64, 4096]);
    assert_eq!(g.tensor("both").unwrap().size, [64 * 4096]);
    assert_eq!(g.tensor("sum").unwrap().pin, Some(LayoutRequest::Sparse));
    assert_eq!(g.tensor("cache").unwrap().def, TensorOrigin::Input(InputRole::State));
    // A view knows its base; what strides cannot say is copied first.
    let (base, map) = g.base_and_view(g.tensor_id("turned").unwrap());
    assert_eq!((g.get(base).name.as_str(), map.unwrap().stride()), ("sum", &[1, 128][..]));
    let (base, _) = g.base_and_view(g.tensor_id("flat").unwrap());
    assert_eq!(g.get(base).name, "flat.copy");
    let names: Vec<&str> = g.nodes().map(|(_, n)| n.op.name()).collect();
    assert_eq!(names, ["embedding", "add", "clone", "add", "add"]);
    let sum = g.tensor_id("sum").unwrap();
    assert_eq!(g.uses_of_tensor(sum).count(), 1, "the copy reads it through the view");
    assert_eq!(g.nodes().nth(1).unwrap().1.hint, [("c0".to_string(), 32), ("c1".to_string(), 1)]);
}

#[test]
fn texts_and_json_come_back() {
    let source = text::parse_source(SAMPLE).unwrap();
    let strip = |s: &zellige_graph::GraphSource| {
        let mut s = s.clone();
        s.inputs.iter_mut().for_each(|i| i.span = 0..0);
        s.ops.iter_mut().for_each(|o| o.span = 0..0);
        s.outputs.iter_mut().for_each(|o| o.span = 0..0);
        s
    };
    assert_eq!(strip(&text::parse_source(&text::print_source(&source)).unwrap()), strip(&source));
    assert_eq!(strip(&json::parse_source(&json::print_source(&source)).unwrap()), strip(&source));
    for s in [64, 640] {
        let values = BTreeMap::from([("s".to_string(), s)]);
        let g = source.bind_symbols(&values).unwrap();
        assert_eq!(g.tensor("x").unwrap().size, [s, 128]);
        assert_eq!(text::parse(&text::print_graph(&g)).unwrap(), g);
        assert_eq!(json::parse(&json::print_graph(&g)).unwrap(), g);
    }
}

#[test]
fn operations_may_come_in_any_order_and_circles_are_named() {
    let swapped = SAMPLE.replace("e = embedding(table.weight, rows) at \"model.py:3\"\n", "");
    let swapped = swapped.replace("return both", "e = embedding(table.weight, rows)\n return both");
    let g = text::parse(&swapped).unwrap();
    assert_eq!(g.nodes().next().unwrap().1.op.name(), "embedding");
    let circle = SAMPLE
        .replace("add(x, e)", "add(x, both)")
        .replace("more = add(flat, 2)", "more = add(flat, sum)");
    let e = text::parse(&circle).unwrap_err();
    assert!(e.message.contains("depends on itself"), "{e}");
}

#[test]
fn errors_name_the_operation_and_underline_it() {
    let cases = [
        ("graph", "expected the name of the graph"),
        ("graph g(x: float16[2]) { return y }", "there is no tensor `y`"),
        ("graph g(x: float16[2]) { }", "expected an operation, or `return`"),
        ("graph g(x: float17[2]) { return x }", "float17"),
        ("graph g(x: float16[-2]) { return x }", "a size is 0 or more"),
        ("graph g(x: complex64[2]) { return x }", "complex64"),
        ("graph g(x: float16[2], x: float16[3]) { return x }", "the name `x` is already taken"),
        (
            "graph g(x: float16[2]) { y = nothing(x) return y }",
            "y = nothing: there is no operation `nothing`",
        ),
        ("graph g(x: float16[2]) { y = add(x) return y }", "y = add: it takes 2 operands, not 1"),
        ("graph g(x: float16[2], z: float16[3]) { y = add(x, z) return y }", "does not broadcast"),
        (
            "graph g(x: float16[2]) { y = add(x, z) return y }",
            "y = add, operand 1: there is no tensor `z`",
        ),
        (
            "graph g(x: float16[2]) { y, z = add(x, 1) return y }",
            "it has 1 results, and 2 are named",
        ),
        ("graph g(x: float16[2]) { y = view(x, size=[3]) return y }", "y = view"),
        ("graph g(x: float16[2]) { y = transpose(x, dim0=0, dim1=5) return y }", "y = transpose"),
        (
            "graph g(x: float16[2]) { y = transpose(x, dim0=0, dim=5) return y }",
            "there is no attribute `dim`",
        ),
        (
            "graph g(x: float16[2]) { y = add(x, 1) pin stick 4 return y }",
            "there is no dimension 4",
        ),
        (
            "graph g(x: float16[2]) { y = unsqueeze(x, dim=0) pin stick 1 return y }",
            "a view has the layout of its base",
        ),
        ("graph g(x: float16[2]) { y = add(x, 1) split {c0: 0} return y }", "1 or more slices"),
        ("graph g(x: float16[2]) { y = add(dim=1, x) return y }", "an operand after an attribute"),
        ("graph g(x: float16[2]) { y = add(x, [1]) return y }", "an operand is a name or a number"),
        ("graph g[s in 5..2](x: float16[s]) { return x }", "0 <= MIN <= MAX"),
        ("graph g(x: float16[q]) { return x }", "there is no symbol `q`"),
        ("graph g(x: float16[2] @thing) { return x }", "unknown role"),
        ("graph g(x: float16[9000000000, 9000000000]) { return x }", "64 bits"),
        ("graph g(x: float16[2]) { return x } more", "unexpected `more` after the graph"),
    ];
    for (source, want) in cases {
        let e = text::parse(source).unwrap_err();
        assert!(e.to_string().contains(want), "{source}\n  says: {e}");
        let shown = e.render(source, false);
        assert!(shown.contains('^'), "{shown}");
    }
    let broken = SAMPLE.replace("add(x, e)", "add(x, rows, e)");
    let e = text::parse(&broken).unwrap_err();
    assert!(
        e.render(&broken, false).contains("10 |     sum = add(x, rows, e)"),
        "{}",
        e.render(&broken, false)
    );
    for bad in [
        "",
        "{",
        "[]",
        "{\"name\":\"g\"}",
        "{\"name\":\"g\",\"inputs\":[],\"ops\":[],\"outputs\":[],\"more\":1}",
    ] {
        assert_eq!(json::parse_source(bad).unwrap_err().kind, "bad_json", "{bad}");
    }
    let values = BTreeMap::from([("s".to_string(), 65)]);
    assert_eq!(
        text::parse_source(SAMPLE).unwrap().bind_symbols(&values).unwrap_err().kind,
        "bad_binding"
    );
}

proptest! {
    /// Whatever the text, reading answers.
    #[test]
    fn nothing_panics(cut in 0usize..700, insert in "[ -~]{0,6}", len in 0usize..20) {
        let mut t = SAMPLE.to_string();
        let at = cut.min(t.len());
        let end = (at + len).min(t.len());
        t.replace_range(at..end, &insert);
        if let Ok(g) = text::parse(&t) {
            prop_assert_eq!(text::parse(&text::print_graph(&g)).unwrap(), g);
        }
    }

    /// A chain of views is the composition of its maps.
    #[test]
    fn views_compose(steps in prop::collection::vec((0u8..4, 0i64..3, 0i64..3), 0..6)) {
        let mut b = GraphBuilder::new("g");
        let x = b.add_input("x", &[4, 6, 10], Dtype::Float16, InputRole::Input).unwrap();
        let mut at = x;
        let mut expected = zellige_layout::StridedLayout::new_contiguous(&[4, 6, 10]).unwrap();
        for (k, (kind, i, j)) in steps.into_iter().enumerate() {
            let (op, attributes) = match kind {
                0 => ("transpose", serde_json::json!({"dim0": i, "dim1": j})),
                1 => ("slice", serde_json::json!({"dim": i, "start": 1})),
                2 => ("permute", serde_json::json!({"dims": [1, 2, 0]})),
                _ => ("slice", serde_json::json!({"dim": j, "step": 2})),
            };
            let name = format!("v{k}");
            let made = b.add_op(op, &[GraphOperand::Tensor(at)], attributes.as_object().unwrap(), &[&name]);
            expected = match op {
                "transpose" => expected.transpose(i, j).unwrap(),
                "permute" => expected.permute(&[1, 2, 0]).unwrap(),
                _ if kind == 1 => expected.slice_dim(i, Some(1), None, 1).unwrap(),
                _ => expected.slice_dim(j, None, None, 2).unwrap(),
            };
            at = made.unwrap()[0];
        }
        let g = b.finish_graph(&[at]).unwrap();
        if let (base, Some(map)) = g.base_and_view(at) {
            prop_assert_eq!(base, x);
            prop_assert_eq!(map, &expected);
        }
    }
}

/// Both forms hold the same graphs, so JSON has no names that a text cannot have.
#[test]
fn names_are_the_same_in_both_forms() {
    let with = |name: &str| {
        let ops = serde_json::json!([
            {"op": "relu", "inputs": ["x"], "outputs": ["first"]},
            {"op": "relu", "inputs": ["first"], "outputs": [name]},
            {"op": "relu", "inputs": [name], "outputs": ["last"]},
        ]);
        let inputs = serde_json::json!([{"name": "x", "dtype": "float16", "size": [2, 64]}]);
        let all =
            serde_json::json!({"name": "g", "inputs": inputs, "ops": ops, "outputs": ["last"]});
        json::parse(&all.to_string())
    };
    for name in ["y", "a.b.c", "é2", "pin", "split", "at", "in", "step", "graph", "stick"] {
        let graph = with(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(text::parse(&text::print_graph(&graph)).unwrap(), graph, "{name}");
        assert_eq!(json::parse(&json::print_graph(&graph)).unwrap(), graph, "{name}");
    }
    for name in
        ["", "2x", "a b", "f(", "a.", ".a", "a\n", "\u{1b}[31m", "return", "true", "null", "x;"]
    {
        let e = with(name).expect_err(name);
        assert!(e.to_string().contains("is no name"), "{name:?}: {e}");
    }
}

#[test]
fn a_tensor_has_one_pin() {
    let mut builder = GraphBuilder::new("g");
    let x = builder.add_input("x", &[64, 128], Dtype::Float16, InputRole::Input).unwrap();
    builder.pin_layout(x, LayoutRequest::Stick(1)).unwrap();
    builder.pin_layout(x, LayoutRequest::Stick(1)).unwrap();
    let error = builder.pin_layout(x, LayoutRequest::Sparse).unwrap_err();
    assert_eq!(error.kind, "bad_pin");
    assert!(error.to_string().contains("pin stick 1, pin sparse"), "{error}");
    for twice in
        ["x: float16[4, 64] pin stick 1 pin sparse", "x: float16[4, 64] pin stick 1 pin stick 1"]
    {
        let error =
            text::parse(&format!("graph g({twice}) {{ y = relu(x) return y }}")).unwrap_err();
        assert!(error.to_string().contains("one pin"), "{error}");
    }
    let twice =
        "graph g(x: float16[4, 64]) { y = relu(x) pin stick 1 split {c0: 2} pin sparse return y }";
    assert!(text::parse(twice).unwrap_err().to_string().contains("one pin"));
    // The name of a result is no pin.
    text::parse("graph g(x: float16[4, 64]) { y = relu(x) pin stick 1 pin = neg(y) return pin }")
        .unwrap();
}

/// The strides that a pinned layout was given are part of the text.
#[test]
fn pinned_layouts_keep_their_strides() {
    let given = "SpyreTensorLayout(device_size=[2, 8, 64], stride_map =[64, 128, 1], \
                 device_dtype=DataFormats.SEN169_FP16, host_size=[6, 100], host_stride=[128, 1])";
    let g =
        text::parse(&format!("graph g(x: float16[6, 100] pin {given}) {{ y = relu(x) return y }}"));
    let g = g.unwrap();
    assert!(text::print_graph(&g).contains("host_stride=[128, 1]"), "{}", text::print_graph(&g));
    let again = [
        text::parse(&text::print_graph(&g)).unwrap(),
        json::parse(&json::print_graph(&g)).unwrap(),
    ];
    for g in again {
        let Some(LayoutRequest::Exactly(layout)) = &g.tensor("x").unwrap().pin else {
            panic!("no layout")
        };
        assert_eq!(layout.host().unwrap().stride(), [128, 1]);
    }
}

#[test]
fn as_strided_steps_over_the_row_major_index_of_its_base() {
    let text = "graph g(x: float16[6, 8]) {\n    t = transpose(x, dim0=0, dim1=1)\n    \
                v = as_strided(t, size=[5, 3], stride=[9, 2], storage_offset=4)\n    y = add(v, 1)\n    return y\n}";
    let g = text::parse(text).unwrap();
    let (base, view) = g.base_and_view(g.tensor_id("v").unwrap());
    assert_eq!(g.get(base).name, "x");
    assert_eq!(view, Some(&StridedLayout::new(&[5, 3], &[9, 2], 4).unwrap()));
    assert_eq!(text::parse(&text::print_graph(&g)).unwrap(), g);
    assert_eq!(json::parse(&json::print_graph(&g)).unwrap(), g);
    // The last element that it reads would be number 48 of 48.
    let e = text::parse(&text.replace("storage_offset=4", "storage_offset=8")).unwrap_err();
    assert!(e.message.contains("v = as_strided"), "{e}");
}

/// The memory of a tensor is part of the text, beside its pin and in either order with the hints.
#[test]
fn places_round_trip() {
    let given = "graph g(x: float16[4, 64] @weight pin stick 1 place memory) {
        y = relu(x) place lx split {c0: 2} at \"m.py:1\"
        place = neg(y) pin stick 1 place memory
        return place
    }";
    let g = text::parse(given).unwrap();
    let of = |g: &Graph, name: &str| g.tensor(name).unwrap().place;
    let again = [
        text::parse(&text::print_graph(&g)).unwrap(),
        json::parse(&json::print_graph(&g)).unwrap(),
    ];
    for g in [&g, &again[0], &again[1]] {
        assert_eq!(of(g, "x"), Some(RequestedMemory::Memory));
        assert_eq!(of(g, "y"), Some(RequestedMemory::Lx));
        assert_eq!(of(g, "place"), Some(RequestedMemory::Memory));
        assert!(g.tensor("place").unwrap().pin.is_some());
    }
    assert!(
        text::print_graph(&g).contains("relu(x) place lx split {c0: 2}"),
        "{}",
        text::print_graph(&g)
    );
}

#[test]
fn places_that_cannot_be() {
    for (line, why) in [
        ("y = relu(x) place dram", "expected lx or memory"),
        ("y = relu(x) place lx place lx", "placed already"),
        ("y = transpose(x, dim0=0, dim1=1) place lx", "a view is where its base is"),
    ] {
        let given = format!("graph g(x: float16[4, 64]) {{ {line} return y }}");
        let refusal = text::parse(&given).unwrap_err().render(&given, false);
        assert!(refusal.contains(why), "{line}: {refusal}");
    }
    let refusal = text::parse("graph g(x: float16[4, 64] place lx) { y = relu(x) return y }");
    assert!(refusal.unwrap_err().to_string().contains("an input is in device memory"));
    let json = json::print_graph(
        &text::parse("graph g(x: float16[4, 64]) { y = relu(x) place lx return y }").unwrap(),
    );
    let refusal = json::parse(&json.replace("\"lx\"", "\"dram\"")).unwrap_err().to_string();
    assert!(refusal.contains("none of lx, memory"), "{refusal}");
}
