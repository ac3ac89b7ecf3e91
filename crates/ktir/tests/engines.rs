//! The planned engine and the plain interpreter give the same arrays, costs and faults.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod common;

use common::{floats, halves, ints, kernel, module, noise};
use proptest::prelude::*;
use zellige_ktir::{KtirArray, KtirModule, KtirRun, KtirScalar};

/// Runs a kernel on both engines and on several threads.
fn agree(module: &KtirModule, name: &str, arrays: &[(&str, KtirArray)], scalars: &[(&str, i64)]) {
    let run = || {
        let mut run = KtirRun::new(module, name);
        for (name, array) in arrays {
            run = run.with_array(name, array.clone());
        }
        for (name, n) in scalars {
            run = run.with_scalar(name, KtirScalar::Int(*n));
        }
        run
    };
    let plain = run().with_plain_interpreter().execute_kernel();
    for threads in [1, 3] {
        let planned =
            zellige_host::crew::insist_on_helpers(|| run().with_threads(threads).execute_kernel());
        match (&planned, &plain) {
            (Ok(a), Ok(b)) => {
                assert!(a.arrays == b.arrays, "{name}: the arrays, {threads} threads");
                assert_eq!(a.exact, b.exact, "{name}: the cycles, {threads} threads");
                assert_eq!(a, b, "{name}: the outcome, {threads} threads");
            }
            (a, b) => assert_eq!(a, b, "{name}: {threads} threads"),
        }
    }
}

#[test]
fn the_kernels_of_the_folder() {
    let (_, m) = kernel("vector_add");
    let x = halves(&[4096], &noise(4096, 1));
    agree(
        &m,
        "vector_add",
        &[("x", x.clone()), ("y", halves(&[4096], &noise(4096, 2))), ("z", x)],
        &[],
    );
    for name in ["softmax", "layernorm", "matmul", "gather", "all_reduce"] {
        let (_, m) = kernel(name);
        let f = &m.functions[0];
        // Arrays of the right sizes are those of the other tests; missing ones give the same fault on both engines.
        agree(&m, f.name(), &[], &[]);
    }
}

/// A kernel of one function on a grid of four cores: row `pid` of `x` and `y` to row `pid` of `z`.
fn rows_kernel(body: &str, elem: &str, columns: i64) -> KtirModule {
    let view = |name: &str| {
        format!(
            "%{name}v = ktdp.construct_memory_view %{name}, sizes: [4, {columns}], strides: [{columns}, 1] {{
               memory_space = #ktdp.memory_space<global> }} : memref<4x{columns}x{elem}>
             %{name}t = ktdp.construct_access_tile %{name}v[%pid, %c0] {{
               access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, -j + {last} >= 0)>
             }} : memref<4x{columns}x{elem}> -> !ktdp.access_tile<1x{columns}xindex>\n",
            last = columns - 1
        )
    };
    let tile = format!("tensor<1x{columns}x{elem}>");
    module(&format!(
        "func.func @f(%x: index, %y: index, %z: index) attributes {{grid = [4]}} {{
           %pid = ktdp.get_compute_tile_id : index
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %c3 = arith.constant 3 : index
           {}{}{}
           %a = ktdp.load %xt : !ktdp.access_tile<1x{columns}xindex> -> {tile}
           %b = ktdp.load %yt : !ktdp.access_tile<1x{columns}xindex> -> {tile}
           {}
           ktdp.store %r, %zt : {tile}, !ktdp.access_tile<1x{columns}xindex>
           return
         }}",
        view("x"),
        view("y"),
        view("z"),
        body.replace("TILE", &tile)
    ))
}

const FLOAT_OPS: [&str; 16] = [
    "arith.addf %A, %B",
    "arith.subf %A, %B",
    "arith.mulf %A, %B",
    "arith.divf %A, %B",
    "arith.maximumf %A, %B",
    "arith.minimumf %A, %B",
    "arith.maxnumf %A, %B",
    "arith.minnumf %A, %B",
    "arith.negf %A",
    "math.exp %A",
    "math.sqrt %A",
    "math.rsqrt %A",
    "math.tanh %A",
    "math.absf %A",
    "math.fma %A, %B, %A",
    "arith.remf %A, %B",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Chains of operations on tiles, with a loop around them, in several element types.
    #[test]
    fn random_chains(
        ops in proptest::collection::vec((0..FLOAT_OPS.len(), 0..8_usize, 0..8_usize), 1..9),
        elem in 0..3_usize,
        columns in prop_oneof![Just(1_i64), Just(7), Just(64), Just(130)],
        rounds in 0..4_i64,
        special in any::<bool>(),
    ) {
        let elem = ["f16", "f32", "bf16"][elem];
        let mut names = vec!["a".to_string(), "b".to_string(), "carried".to_string()];
        let mut body = String::new();
        for (i, (op, a, b)) in ops.iter().enumerate() {
            let (a, b) = (&names[a % names.len()], &names[b % names.len()]);
            let op = FLOAT_OPS[*op].replace("%A", &format!("%{a}")).replace("%B", &format!("%{b}"));
            body += &format!("%v{i} = {op} : TILE\n");
            names.push(format!("v{i}"));
        }
        let last = names.last().unwrap();
        let body = format!(
            "%n = arith.constant {rounds} : index
             %r = scf.for %k = %c0 to %n step %c1 iter_args(%carried = %a) -> (TILE) {{
               {body}
               %back = arith.mulf %{last}, %b : TILE
               scf.yield %back : TILE
             }}"
        );
        let m = rows_kernel(&body, elem, columns);
        let n = usize::try_from(4 * columns).unwrap();
        let mut values = noise(n, u64::try_from(columns).unwrap());
        if special {
            for (x, s) in values.iter_mut().zip([f32::NAN, f32::INFINITY, -0.0, 65504.0, -f32::INFINITY, 6e-8]) {
                *x = s;
            }
        }
        let shape = [4, columns];
        let make = |v: &[f32]| match elem {
            "f16" => halves(&shape, v),
            "f32" => floats(&shape, v),
            _ => KtirArray {
                elem: zellige_ktir::KtirElem::BF16,
                shape: shape.to_vec(),
                bytes: v.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
            },
        };
        let y = make(&noise(n, 9));
        agree(&m, "f", &[("x", make(&values)), ("y", y.clone()), ("z", y)], &[]);
    }

    /// Reductions over several dimensions, and slices and transposes of what they reduce.
    #[test]
    fn random_reductions(
        shape in (1..6_i64, 1..6_i64, 1..6_i64),
        dims in 1..7_u8,
        combiner in 0..4_usize,
    ) {
        let (a, b, c) = shape;
        let kept: Vec<i64> = [a, b, c].into_iter().enumerate()
            .filter(|(d, _)| dims >> d & 1 == 0).map(|(_, n)| n).collect();
        let gone: Vec<String> = (0..3).filter(|d| dims >> d & 1 == 1).map(|d: i32| d.to_string()).collect();
        let name = ["arith.addf", "arith.maximumf", "arith.mulf", "arith.minnumf"][combiner];
        let out: String = kept.iter().map(|n| format!("{n}x")).collect();
        let count: i64 = kept.iter().product();
        let text = format!(
            "func.func @f(%x: index, %z: index) {{
               %c0 = arith.constant 0 : index
               %v = ktdp.construct_memory_view %x, sizes: [{a}, {b}, {c}], strides: [{sa}, {c}, 1] : memref<{a}x{b}x{c}xf16>
               %t = ktdp.construct_access_tile %v[%c0, %c0, %c0] : memref<{a}x{b}x{c}xf16> -> !ktdp.access_tile<{a}x{b}x{c}xindex>
               %w = ktdp.load %t : !ktdp.access_tile<{a}x{b}x{c}xindex> -> tensor<{a}x{b}x{c}xf16>
               %zero = arith.constant 0.5 : f16
               %init = tensor.splat %zero : tensor<{out}f16>
               %s = linalg.reduce {{ {name} }} ins(%w : tensor<{a}x{b}x{c}xf16>) outs(%init : tensor<{out}f16>) dimensions = [{gone}]
               %zv = ktdp.construct_memory_view %z, sizes: [{count}], strides: [1] : memref<{count}xf16>
               %zt = ktdp.construct_access_tile %zv[%c0] : memref<{count}xf16> -> !ktdp.access_tile<{count}xindex>
               ktdp.store %s, %zt : tensor<{out}f16>, !ktdp.access_tile<{count}xindex>
               return
             }}",
            sa = b * c,
            gone = gone.join(", ")
        );
        // A reduction to rank 0 gives a scalar tile, which both engines store as one element.
        let m = module(&text);
        let n = usize::try_from(a * b * c).unwrap();
        let z = halves(&[count], &vec![0.0; usize::try_from(count).unwrap()]);
        agree(&m, "f", &[("x", halves(&[a, b, c], &noise(n, 3))), ("z", z)], &[]);
    }

    /// Boxes of a distributed view of two partitions, whichever part of each they meet, and boxes that leave it.
    #[test]
    fn random_boxes_of_distributed_views(
        cut in 1..8_i64,
        at in (-1..9_i64, -1..9_i64),
        size in (1..5_i64, 1..5_i64),
        overlap in 0..2_i64,
        swapped in any::<bool>(),
    ) {
        let ((r, c), (h, w)) = (at, size);
        let order = if swapped { "(j, i)" } else { "(i, j)" };
        let (th, tw) = if swapped { (w, h) } else { (h, w) };
        let text = format!(
            "func.func @f(%x: index, %z: index) {{
               %c0 = arith.constant 0 : index
               %r = arith.constant {r} : index
               %c = arith.constant {c} : index
               %off = arith.constant {right} : index
               %base = arith.addi %x, %off : index
               %p0 = ktdp.construct_memory_view %x, sizes: [8, {cut}], strides: [8, 1] {{
                 coordinate_set = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j >= 0, -j + {left} >= 0)> }} : memref<8x{cut}xf16>
               %p1 = ktdp.construct_memory_view %base, sizes: [8, {rest}], strides: [8, 1] {{
                 coordinate_set = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j - {right} >= 0, -j + 7 >= 0)> }} : memref<8x{rest}xf16>
               %v = ktdp.construct_distributed_memory_view (%p0, %p1 : memref<8x{cut}xf16>, memref<8x{rest}xf16>) : memref<8x8xf16>
               %t = ktdp.construct_access_tile %v[%r, %c] {{
                 access_tile_set = affine_set<(i, j) : (i >= 0, -i + {lh} >= 0, j >= 0, -j + {lw} >= 0)>,
                 access_tile_order = affine_map<(i, j) -> {order}>
               }} : memref<8x8xf16> -> !ktdp.access_tile<{h}x{w}xindex>
               %a = ktdp.load %t : !ktdp.access_tile<{h}x{w}xindex> -> tensor<{h}x{w}xf16>
               %n = arith.negf %a : tensor<{h}x{w}xf16>
               ktdp.store %n, %t : tensor<{h}x{w}xf16>, !ktdp.access_tile<{h}x{w}xindex>
               %zv = ktdp.construct_memory_view %z, sizes: [{th}, {tw}], strides: [{tw}, 1] : memref<{th}x{tw}xf16>
               %zt = ktdp.construct_access_tile %zv[%c0, %c0] : memref<{th}x{tw}xf16> -> !ktdp.access_tile<{th}x{tw}xindex>
               %s = tensor.reshape %a : tensor<{h}x{w}xf16> -> tensor<{th}x{tw}xf16>
               return
             }}",
            right = cut - overlap.min(cut - 1),
            rest = 8 - (cut - overlap.min(cut - 1)),
            left = cut - 1,
            lh = h - 1,
            lw = w - 1,
        );
        let text: String = text.lines().filter(|l| !l.contains("tensor.reshape")).map(|l| format!("{l}\n")).collect();
        let m = module(&text);
        let x = halves(&[8, 8], &noise(64, 5));
        let z = halves(&[th, tw], &vec![0.0; usize::try_from(h * w).unwrap()]);
        agree(&m, "f", &[("x", x), ("z", z)], &[]);
    }

    /// Gathers and scatters through index views, with indices that repeat, leave the view or are negative.
    #[test]
    fn random_gathers(
        index in proptest::collection::vec(-1..9_i32, 4),
        start in 0..6_i64,
        store in any::<bool>(),
    ) {
        let body = if store {
            "%a = arith.constant dense<2.0> : tensor<4x4xf16>
             ktdp.store %a, %t : tensor<4x4xf16>, !ktdp.access_tile<4x4xindex>"
        } else {
            "%a = ktdp.load %t : !ktdp.access_tile<4x4xindex> -> tensor<4x4xf16>
             ktdp.store %a, %zt : tensor<4x4xf16>, !ktdp.access_tile<4x4xindex>"
        };
        let text = format!(
            "func.func @f(%x: index, %i: index, %z: index, %s: index) {{
               %c0 = arith.constant 0 : index
               %xv = ktdp.construct_memory_view %x, sizes: [8, 8], strides: [8, 1] : memref<8x8xf16>
               %iv = ktdp.construct_memory_view %i, sizes: [4], strides: [1] : memref<4xi32>
               %t = ktdp.construct_indirect_access_tile intermediate_variables(%m, %k)
                 %xv[ind(%iv[%m]), (%s + %k)] {{
                 variables_space_set = affine_set<(m, k) : (m >= 0, -m + 3 >= 0, k >= 0, -k + 3 >= 0)>
               }} : memref<8x8xf16>, memref<4xi32> -> !ktdp.access_tile<4x4xindex>
               %zv = ktdp.construct_memory_view %z, sizes: [4, 4], strides: [4, 1] : memref<4x4xf16>
               %zt = ktdp.construct_access_tile %zv[%c0, %c0] : memref<4x4xf16> -> !ktdp.access_tile<4x4xindex>
               {body}
               return
             }}"
        );
        let m = module(&text);
        let x = halves(&[8, 8], &noise(64, 5));
        let z = halves(&[4, 4], &[0.0; 16]);
        agree(&m, "f", &[("x", x), ("i", ints(&[4], &index)), ("z", z)], &[("s", start)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Products of every kind and element type, with a tile that is transposed, cut, put back and masked by a generic.
    #[test]
    fn random_products_and_bodies(
        sizes in (1..10_i64, 1..40_i64, 1..70_i64),
        elem in 0..3_usize,
        kind in 0..3_usize,
        cut in 0..4_i64,
        compare in 0..3_usize,
    ) {
        let (m, k, n) = sizes;
        let elem = ["f16", "f32", "bf16"][elem];
        let (name, batch, right) = [
            ("linalg.matmul", "", format!("{k}x{n}")),
            ("linalg.matmul_transpose_b", "", format!("{n}x{k}")),
            ("linalg.batch_matmul", "1x", format!("1x{k}x{n}")),
        ][kind].clone();
        let (a, b, c) = (format!("{batch}{m}x{k}x{elem}"), format!("{right}x{elem}"), format!("{batch}{m}x{n}x{elem}"));
        let cut = cut.min(n - 1);
        let rest = n - cut;
        let predicate = ["slt", "uge", "eq"][compare];
        let flat = if batch.is_empty() {
            "%p = arith.addf %q, %q : tensor<CxE>".to_string()
        } else {
            "%s = arith.addf %q, %q : tensor<1xCxE>
             %p = tensor.collapse_shape %s [[0, 1], [2]] : tensor<1xCxE> into tensor<CxE>".to_string()
        };
        let flat = flat.replace("CxE", &format!("{m}x{n}x{elem}"));
        let text = format!(
            "func.func @f(%x: index, %y: index, %z: index) {{
               %c0 = arith.constant 0 : index
               %c2 = arith.constant 2 : index
               %xv = ktdp.construct_memory_view %x, sizes: [{xs}], strides: [1] : memref<{xs}x{elem}>
               %yv = ktdp.construct_memory_view %y, sizes: [{ys}], strides: [1] : memref<{ys}x{elem}>
               %zv = ktdp.construct_memory_view %z, sizes: [{zs}], strides: [1] : memref<{zs}x{elem}>
               %xt = ktdp.construct_access_tile %xv[%c0] : memref<{xs}x{elem}> -> !ktdp.access_tile<{xs}xindex>
               %yt = ktdp.construct_access_tile %yv[%c0] : memref<{ys}x{elem}> -> !ktdp.access_tile<{ys}xindex>
               %zt = ktdp.construct_access_tile %zv[%c0] : memref<{zs}x{elem}> -> !ktdp.access_tile<{zs}xindex>
               %a = ktdp.load %xt : !ktdp.access_tile<{xs}xindex> -> tensor<{a}>
               %b = ktdp.load %yt : !ktdp.access_tile<{ys}xindex> -> tensor<{b}>
               %i = arith.constant 0.5 : {elem}
               %o = tensor.splat %i : tensor<{c}>
               %q = {name} ins(%a, %b : tensor<{a}>, tensor<{b}>) outs(%o : tensor<{c}>) -> tensor<{c}>
               {flat}
               %te = tensor.empty() : tensor<{n}x{m}x{elem}>
               %t = linalg.transpose ins(%p : tensor<{m}x{n}x{elem}>) outs(%te : tensor<{n}x{m}x{elem}>) permutation = [1, 0]
               %ce = tensor.empty() : tensor<{m}x{elem}>
               %row = tensor.extract_slice %p[0, {cut}] [{m}, {rest}] [1, 1] : tensor<{m}x{n}x{elem}> to tensor<{m}x{rest}x{elem}>
               %max = linalg.reduce {{ arith.maximumf }} ins(%row : tensor<{m}x{rest}x{elem}>) outs(%ce : tensor<{m}x{elem}>) dimensions = [1]
               %back = tensor.insert_slice %row into %p[0, 0] [{m}, {rest}] [1, 1] : tensor<{m}x{rest}x{elem}> into tensor<{m}x{n}x{elem}>
               %g = linalg.generic {{
                 indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                 iterator_types = [\"parallel\", \"parallel\"]}}
                 ins(%back, %t, %max : tensor<{m}x{n}x{elem}>, tensor<{n}x{m}x{elem}>, tensor<{m}x{elem}>)
                 outs(%p : tensor<{m}x{n}x{elem}>) {{
                 ^bb0(%u: {elem}, %v: {elem}, %w: {elem}, %out: {elem}):
                   %r = linalg.index 0 : index
                   %s2 = linalg.index 1 : index
                   %d = arith.divui %s2, %c2 : index
                   %yes = arith.cmpi {predicate}, %r, %d : index
                   %e = arith.subf %u, %w : {elem}
                   %h = math.exp %e : {elem}
                   %l = arith.select %yes, %h, %v : {elem}
                   linalg.yield %l : {elem}
               }} -> tensor<{m}x{n}x{elem}>
               ktdp.store %g, %zt : tensor<{m}x{n}x{elem}>, !ktdp.access_tile<{zs}xindex>
               return
             }}",
            xs = m * k, ys = k * n, zs = m * n,
        );
        let module = module(&text);
        let make = |n: i64, seed: u64| {
            let v = noise(usize::try_from(n).unwrap(), seed);
            match elem {
                "f16" => halves(&[n], &v),
                "f32" => floats(&[n], &v),
                _ => KtirArray {
                    elem: zellige_ktir::KtirElem::BF16,
                    shape: vec![n],
                    bytes: v.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect(),
                },
            }
        };
        agree(&module, "f", &[("x", make(m * k, 1)), ("y", make(k * n, 2)), ("z", make(m * n, 3))], &[]);
    }
}

#[test]
fn cores_that_write_one_element_are_a_race_on_both_engines() {
    let text = "func.func @f(%x: index) attributes {grid = [2]} {
        %c0 = arith.constant 0 : index
        %v = ktdp.construct_memory_view %x, sizes: [64], strides: [1] : memref<64xf16>
        %pid = ktdp.get_compute_tile_id : index
        %c7 = arith.constant 7 : index
        %at = arith.muli %pid, %c7 : index
        %t = ktdp.construct_access_tile %v[%at] : memref<64xf16> -> !ktdp.access_tile<8xindex>
        %a = arith.constant dense<1.0> : tensor<8xf16>
        ktdp.store %a, %t : tensor<8xf16>, !ktdp.access_tile<8xindex>
        return
      }";
    let m = module(text);
    agree(&m, "f", &[("x", halves(&[64], &[0.0; 64]))], &[]);
}

#[test]
fn reductions_between_cores_go_around_the_ring() {
    let text = "#all = affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>
      func.func @f(%x: index, %z: index) attributes {grid = [4]} {
        %c0 = arith.constant 0 : index
        %pid = ktdp.get_compute_tile_id : index
        %v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] : memref<4xf16>
        %t = ktdp.construct_access_tile %v[%pid] : memref<4xf16> -> !ktdp.access_tile<1xindex>
        %a = ktdp.load %t : !ktdp.access_tile<1xindex> -> tensor<1xf16>
        %f = ktdp.inter_tile_produce producer_tiles_per_group = #all
          -> !ktdp.tile_future<tensor<1xf16>, groups = affine_set<(g) : (g == 0)>> {
          ^bb0(%g: index):
            ktdp.yield_partial %a : tensor<1xf16>
        }
        %zero = arith.constant dense<0.0> : tensor<1xf16>
        %s = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #all, identity(%zero : tensor<1xf16>)
          : !ktdp.tile_future<tensor<1xf16>, groups = affine_set<(g) : (g == 0)>> -> tensor<1xf16> {
          ^bb0(%p: tensor<1xf16>, %q: tensor<1xf16>):
            %r = arith.addf %p, %q : tensor<1xf16>
            ktdp.yield_reduced %r : tensor<1xf16>
        }
        %w = ktdp.construct_memory_view %z, sizes: [4], strides: [1] : memref<4xf16>
        %u = ktdp.construct_access_tile %w[%pid] : memref<4xf16> -> !ktdp.access_tile<1xindex>
        ktdp.store %s, %u : tensor<1xf16>, !ktdp.access_tile<1xindex>
        return
      }";
    let m = module(text);
    let values = [2048.0_f32, 1.0, 1.0, -3.0];
    let x = halves(&[4], &values);
    agree(&m, "f", &[("x", x.clone()), ("z", halves(&[4], &[0.0; 4]))], &[]);
    let run = KtirRun::new(&m, "f").with_array("x", x).with_array("z", halves(&[4], &[0.0; 4]));
    let outcome = run.execute_kernel().unwrap();
    // Core c folds c, c - 1, ... around the ring, each sum rounded to binary16.
    let want: Vec<f32> = (0..4)
        .map(|c| (1..4).fold(values[c], |sum, k| common::half(sum + values[(c + 4 - k) % 4])))
        .collect();
    common::same(&common::read(&outcome, "z"), &want);
    assert!(want.iter().any(|x| *x != want[0]), "the order matters here");
}
