//! The lowered operations of each family.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod common;

use common::*;

/// A node on `x` of a size, with constants, gives these operations.
#[track_caller]
fn becomes(size: &[i64], op: &str, attributes: &[A], constants: &[Vec<u8>], told: &str) {
    let mut net = Net::new(18).x(size);
    let mut inputs = vec!["x".to_string()];
    for (k, c) in constants.iter().enumerate() {
        let name = format!("c{k}");
        net = net.weight(&[bytes(8, name.as_bytes()), c.clone()].concat());
        inputs.push(name);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    assert_eq!(net.node(op, &inputs, &["y"], attributes).output("y").text(), told, "{op}");
}

/// A tensor without a name.
fn list(values: &[i64]) -> Vec<u8> {
    let all: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [int(1, values.len() as i64), int(2, I64), bytes(9, &all)].concat()
}

fn number(v: f32) -> Vec<u8> {
    [int(2, F32), bytes(9, &v.to_le_bytes())].concat()
}

fn tensor(dims: &[i64]) -> Vec<u8> {
    let count: i64 = dims.iter().product();
    let all: Vec<u8> = (0..count).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
    [dims.iter().flat_map(|d| int(1, *d)).collect(), int(2, F32), bytes(9, &all)].concat()
}

#[test]
fn elements() {
    becomes(&[2, 3], "Relu", &[], &[], "y = relu(x)");
    becomes(&[2, 3], "Add", &[], &[number(0.5)], "y = add(x, 0.5)");
    becomes(&[2, 3], "Pow", &[], &[number(2.0)], "y = pow(x, 2)");
    becomes(&[2, 3], "Sub", &[], &[tensor(&[3])], "y = sub(x, c0)");
    becomes(&[2, 3], "Less", &[], &[number(1.0)], "y.lt = lt(x, 1)\ny = identity(y.lt)");
    becomes(&[4], "Clip", &[], &[number(0.0), number(6.0)], r#"y = clamp(x, min=0.0, max=6.0)"#);
    becomes(&[4], "LeakyRelu", &[A::F("alpha", 0.1)], &[], "y = leaky_relu(x, negative_slope=0.1)");
    becomes(&[4], "Cast", &[A::I("to", F16)], &[], "y = cast(x, dtype=\"float16\")");
    // float8_e4m3fn saturates by itself, float8_e5m2 only where it is asked to.
    let e4m3 = "y = cast(x, dtype=\"float8_e4m3fn\")";
    becomes(&[4], "Cast", &[A::I("to", 17)], &[], e4m3);
    let e5m2 = "cast(y.within, dtype=\"float8_e5m2\")";
    let within = format!("y.within = clamp(x, min=-57344.0, max=57344.0)\ny = {e5m2}");
    becomes(&[4], "Cast", &[A::I("to", 19)], &[], &within);
    let e5m2 = "y = cast(x, dtype=\"float8_e5m2\")";
    becomes(&[4], "Cast", &[A::I("to", 19), A::I("saturate", 0)], &[], e5m2);
    becomes(
        &[4],
        "HardSigmoid",
        &[],
        &[],
        "y.scaled = mul(x, 0.2)\ny.line = add(y.scaled, 0.5)\ny = clamp(y.line, min=0.0, max=1.0)",
    );
    let three = Net::new(13).x(&[2]).input("z", F32, &[2]).input("w", F32, &[2]);
    let three = three.node("Max", &["x", "z", "w"], &["y"], &[]).output("y");
    assert_eq!(three.text(), "y.maximum = maximum(x, z)\ny = maximum(y.maximum, w)");
}

#[test]
fn masks_take_the_largest_number_for_infinity() {
    let net = Net::new(13).x(&[2, 2]).input("m", BOOL, &[2, 2]);
    let net = net.weight(&scalar("inf", f32::NEG_INFINITY));
    let net = net.node("Where", &["m", "inf", "x"], &["y"], &[]).output("y");
    assert_eq!(net.text(), "y = where(m, -inf, x)");
}

#[test]
fn whole_numbers_keep_their_type() {
    let net = Net::new(13).input("x", I32, &[4]).input("z", I32, &[4]);
    let net = net.node("Div", &["x", "z"], &["y"], &[]).output("y");
    let graph = net.import().unwrap().graph;
    assert_eq!(graph.get(graph.outputs()[0]).dtype.name(), "int32");
    assert!(net.text().contains("rounding_mode=\"trunc\""), "{}", net.text());
    let sum = Net::new(13).input("x", I32, &[4]).node("ReduceSum", &["x"], &["y"], &[]).output("y");
    let graph = sum.import().unwrap().graph;
    assert_eq!(graph.get(graph.outputs()[0]).dtype.name(), "int32");
}

#[test]
fn products() {
    becomes(&[2, 3], "MatMul", &[], &[tensor(&[3, 100])], "y = matmul(x, c0)");
    let turned = A::I("transB", 1);
    let (w, b) = (tensor(&[5, 3]), tensor(&[5]));
    becomes(
        &[2, 3],
        "Gemm",
        std::slice::from_ref(&turned),
        &[w.clone(), b.clone()],
        "y = linear(x, c0, c1)",
    );
    becomes(
        &[2, 3],
        "Gemm",
        &[turned, A::F("alpha", 0.5), A::F("beta", 2.0)],
        &[w, b],
        "y.right = transpose(c0, dim0=0, dim1=1)\ny = addmm(c1, x, y.right, alpha=0.5, beta=2.0)",
    );
    becomes(
        &[3, 2],
        "Gemm",
        &[A::I("transA", 1), A::F("alpha", 2.0)],
        &[tensor(&[3, 5])],
        "y.left = transpose(x, dim0=0, dim1=1)\ny.product = mm(y.left, c0)\ny = mul(y.product, 2)",
    );
}

#[test]
fn reductions_take_axes_from_attributes_and_operands() {
    becomes(&[2, 3, 4], "ReduceSum", &[], &[list(&[-1])], "y = sum(x, dim=[2], keepdim=true)");
    becomes(
        &[2, 3, 4],
        "ReduceMean",
        &[A::L("axes", vec![0, 2]), A::I("keepdims", 0)],
        &[],
        "y = mean(x, dim=[0,2], keepdim=false)",
    );
    becomes(&[2, 3], "ReduceMax", &[], &[], "y = amax(x, dim=[0,1], keepdim=true)");
    becomes(&[2, 3], "ReduceL2", &[], &[list(&[1])], "y = norm(x, p=2, dim=[1], keepdim=true)");
    becomes(&[2, 3], "Softmax", &[A::I("axis", 0)], &[], "y = softmax(x, dim=0)");
    becomes(&[2, 3], "CumSum", &[], &[list(&[1])], "y = cumsum(x, dim=1)");
    let noop = [A::I("noop_with_empty_axes", 1)];
    becomes(&[2, 3], "ReduceSum", &noop, &[], "y = identity(x)");
}

#[test]
fn normalisations() {
    becomes(
        &[2, 3, 100],
        "LayerNormalization",
        &[A::F("epsilon", 1e-6)],
        &[tensor(&[100]), tensor(&[100])],
        "y = layer_norm(x, c0, c1, normalized_shape=[100], eps=1e-6)",
    );
    becomes(
        &[2, 3],
        "RMSNormalization",
        &[A::I("axis", -1)],
        &[tensor(&[3])],
        "y = rms_norm(x, c0, normalized_shape=[3], eps=0.00001)",
    );
    let four: Vec<Vec<u8>> = (0..4).map(|_| tensor(&[3])).collect();
    let told = "y = batch_norm(x, c2, c3, c0, c1, eps=0.00001)";
    becomes(&[2, 3, 4, 4], "BatchNormalization", &[], &four, told);
    becomes(
        &[2, 4, 4, 4],
        "GroupNormalization",
        &[A::I("num_groups", 2)],
        &[tensor(&[2]), tensor(&[2])],
        "y.scale = repeat_interleave(c0, repeats=2, dim=0)\n\
         y.bias = repeat_interleave(c1, repeats=2, dim=0)\n\
         y = group_norm(x, y.scale, y.bias, num_groups=2, eps=0.00001)",
    );
}

#[test]
fn windows() {
    becomes(
        &[1, 4, 8, 8],
        "Conv",
        &[A::L("pads", vec![1, 1, 1, 1]), A::L("strides", vec![2, 2]), A::I("group", 2)],
        &[tensor(&[6, 2, 3, 3])],
        "y = conv2d(x, c0, stride=[2,2], padding=[1,1], dilation=[1,1], groups=2)",
    );
    becomes(
        &[1, 2, 9],
        "Conv",
        &[A::S("auto_pad", "SAME_UPPER"), A::L("strides", vec![2])],
        &[tensor(&[6, 2, 4])],
        "y.padded = pad(x, pad=[1,2], value=0.0)\n\
         y = conv1d(y.padded, c0, stride=[2], padding=[0], dilation=[1], groups=1)",
    );
    becomes(
        &[1, 2, 8],
        "MaxPool",
        &[A::L("kernel_shape", vec![2])],
        &[],
        "y.plane = unsqueeze(x, dim=2)\n\
         y.pooled = max_pool2d(y.plane, kernel_size=[1,2], stride=[1,1], padding=[0,0], dilation=[1,1], ceil_mode=false)\n\
         y = squeeze(y.pooled, dim=2)",
    );
    becomes(&[1, 2, 8, 8], "GlobalAveragePool", &[], &[], "y = mean(x, dim=[2,3], keepdim=true)");
}

#[test]
fn shapes_are_views() {
    becomes(&[2, 3, 4], "Reshape", &[], &[list(&[0, -1])], "y = reshape(x, size=[2,12])");
    becomes(&[2, 3, 4], "Flatten", &[A::I("axis", 2)], &[], "y = reshape(x, size=[6,4])");
    becomes(&[2, 1, 4], "Squeeze", &[], &[], "y = reshape(x, size=[2,4])");
    becomes(&[2, 4], "Unsqueeze", &[], &[list(&[0, -1])], "y = reshape(x, size=[1,2,4,1])");
    becomes(&[2, 3, 4], "Transpose", &[], &[], "y = permute(x, dims=[2,1,0])");
    becomes(&[3, 1], "Expand", &[], &[list(&[2, 1, 4])], "y = expand(x, size=[2,3,4])");
    let all = i64::MAX;
    let cut = [list(&[1, 0]), list(&[all, -1]), list(&[0, 1]), list(&[1, 2])];
    becomes(
        &[4, 7],
        "Slice",
        &[],
        &cut,
        "y.slice = slice(x, dim=0, start=1, end=4)\ny = slice(y.slice, dim=1, start=0, end=5, step=2)",
    );
    let back = [list(&[-1]), list(&[i64::MIN]), list(&[0]), list(&[-2])];
    becomes(
        &[5],
        "Slice",
        &[],
        &back,
        "y.flip = flip(x, dims=[0])\ny = slice(y.flip, dim=0, start=0, end=5, step=2)",
    );
    let two = Net::new(18).x(&[5, 2]).node("Split", &["x"], &["a", "b"], &[A::I("num_outputs", 2)]);
    assert_eq!(
        two.output("a").output("b").text(),
        "a = slice(x, dim=0, start=0, end=3)\nb = slice(x, dim=0, start=3, end=5)"
    );
}

#[test]
fn indices() {
    let ids = Net::new(13).input("i", I64, &[2, 3]);
    let table = floats("t", &[70, 4], &[0.5; 280]);
    let net = ids.weight(&table).node("Gather", &["t", "i"], &["y"], &[]).output("y");
    assert_eq!(net.text(), "y = embedding(t, i)");
    becomes(
        &[2, 5],
        "Gather",
        &[A::I("axis", 1)],
        &[list(&[0, -1])],
        "y = index_select(x, y.index, dim=1)",
    );
    let one = [int(2, I64), bytes(9, &(-1i64).to_le_bytes())].concat();
    becomes(&[2, 5], "Gather", &[A::I("axis", 1)], &[one], "y = select(x, dim=1, index=4)");
    becomes(&[2, 5], "Trilu", &[A::I("upper", 0)], &[], "y = tril(x)");
    becomes(&[2], "Concat", &[], &[tensor(&[3])], "y = cat(x, c0, dim=0)");
    becomes(&[2, 2], "Pad", &[], &[list(&[0, 1, 0, 2])], "y = pad(x, pad=[1,2])");
}

#[test]
fn attention_with_its_heads_apart() {
    let net = Net::new(23).input("q", F32, &[1, 6, 32]).input("k", F32, &[1, 6, 16]);
    let net = net.input("v", F32, &[1, 6, 16]);
    let heads = [A::I("q_num_heads", 4), A::I("kv_num_heads", 2), A::I("is_causal", 1)];
    let text = net.node("Attention", &["q", "k", "v"], &["y"], &heads).output("y").text();
    assert!(text.contains("y.query.heads = reshape(q, size=[1,6,4,8])"), "{text}");
    let told =
        "scaled_dot_product_attention(y.query, y.key, y.value, is_causal=true, enable_gqa=true)";
    assert!(text.contains(told), "{text}");
    assert!(text.ends_with("y = reshape(y.copy, size=[1,6,32])"), "{text}");
}

#[test]
fn arithmetic_on_shapes_leaves_no_operation() {
    // Batch, then what is left: as exporters write `x.view(x.shape[0], -1, x.shape[2] // 2)`.
    let net = Net::new(17)
        .x(&[2, 3, 8])
        .weight(&raw("zero", I64, &[], &0i64.to_le_bytes()))
        .weight(&raw("last", I64, &[], &(-1i64).to_le_bytes()))
        .weight(&raw("two", I64, &[], &2i64.to_le_bytes()))
        .weight(&ints("axis", &[0]))
        .weight(&ints("rest", &[-1]))
        .node("Shape", &["x"], &["s"], &[])
        .node("Gather", &["s", "zero"], &["batch"], &[])
        .node("Gather", &["s", "last"], &["width"], &[])
        .node("Div", &["width", "two"], &["half"], &[])
        .node("Unsqueeze", &["batch", "axis"], &["b"], &[])
        .node("Unsqueeze", &["half", "axis"], &["h"], &[])
        .node("Concat", &["b", "rest", "h"], &["shape"], &[A::I("axis", 0)])
        .node("Reshape", &["x", "shape"], &["y"], &[])
        .output("y");
    assert_eq!(net.text(), "y = reshape(x, size=[2,6,4])");
}

#[test]
fn constants_of_every_spelling() {
    let net = |a: A| {
        let net = Net::new(17).x(&[2]).node("Constant", &[], &["c"], &[a]);
        net.node("Mul", &["x", "c"], &["y"], &[]).output("y").text()
    };
    assert_eq!(net(A::F("value_float", 0.25)), "y = mul(x, 0.25)");
    assert_eq!(net(A::T("value", scalar("", 3.0))), "y = mul(x, 3)");
    assert_eq!(net(A::T("value", floats("", &[2], &[1.0, 2.0]))), "y = mul(x, c)");
    let full = Net::new(17).weight(&ints("s", &[100, 100])).x(&[100, 100]);
    let full =
        full.node("ConstantOfShape", &["s"], &["c"], &[A::T("value", floats("", &[1], &[1.0]))]);
    let full = full.node("Trilu", &["c"], &["m"], &[]).node("Add", &["x", "m"], &["y"], &[]);
    assert_eq!(
        full.output("y").text(),
        "c = full(size=[100,100], value=1.0, dtype=\"float32\")\nm = triu(c)\ny = add(x, m)"
    );
    // NaN and the infinities have no number in JSON.
    for (value, printed) in [(f32::NAN, "\"nan\""), (f32::NEG_INFINITY, "\"-inf\"")] {
        let full = Net::new(17).weight(&ints("s", &[100, 100])).x(&[100, 100]);
        let value = A::T("value", floats("", &[1], &[value]));
        let full = full.node("ConstantOfShape", &["s"], &["c"], &[value]);
        let full = full.node("Trilu", &["c"], &["m"], &[]).node("Add", &["x", "m"], &["y"], &[]);
        let first = format!("c = full(size=[100,100], value={printed}, dtype=\"float32\")\n");
        assert!(full.output("y").text().starts_with(&first), "{first}");
    }
}

#[test]
fn every_operation_that_is_listed_has_a_rule() {
    for op in zellige_onnx::supported_operations() {
        let net = Net::new(18).x(&[2, 2]).node(op, &["x"], &["y"], &[]).output("y");
        if let Err(e) = net.import() {
            assert_ne!(e.kind, "no_such_op", "{op}: {e}");
        }
    }
    assert!(zellige_onnx::supported_operations().len() > 110);
}

#[test]
fn the_page_about_the_compiler_lists_every_operation() {
    let path = format!("{}/../../docs/compiler.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).expect("the page");
    for op in zellige_onnx::supported_operations() {
        assert!(page.contains(&format!("`{op}`")), "{op}");
    }
}

#[test]
fn a_gelu_that_is_written_out_is_one_operation() {
    // The three orders that exporters multiply in, and one that only looks like it.
    let net = |last: &[[&str; 3]], root: f32| {
        let mut net = Net::new(17).x(&[2, 3]).weight(&scalar("root", root));
        net = net.weight(&scalar("one", 1.0)).weight(&scalar("half", 0.5));
        net = net.node("Div", &["x", "root"], &["d"], &[]).node("Erf", &["d"], &["e"], &[]);
        net = net.node("Add", &["e", "one"], &["g"], &[]);
        for [a, b, y] in last {
            net = net.node("Mul", &[a, b], &[y], &[]);
        }
        net.output("y").text()
    };
    let root = std::f32::consts::SQRT_2;
    for last in [
        [["x", "g", "m"], ["m", "half", "y"]],
        [["x", "half", "m"], ["m", "g", "y"]],
        [["half", "g", "m"], ["x", "m", "y"]],
    ] {
        assert_eq!(net(&last, root), "y = gelu(x)");
        assert!(net(&last, 1.5).contains("erf"), "another function");
    }
    let text = net(&[["x", "g", "m"], ["m", "g", "y"]], root);
    assert!(text.ends_with("y = mul(m, g)"), "{text}");
}
