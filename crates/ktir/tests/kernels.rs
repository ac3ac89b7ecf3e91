//! Compares kernels with plain loops bit by bit, and checks their costs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod common;

use common::{floats, half, halves, ints, kernel, module, noise, read, same};
use zellige_ktir::{KtirArray, KtirElem, KtirRun, KtirRunOutcome, KtirScalar};
use zellige_machine::Hardware;

fn cycles(outcome: &KtirRunOutcome) -> [u64; 3] {
    let core = outcome.cost.latency.critical_core.unwrap();
    KtirRunOutcome::split_cycles(&outcome.cost.latency.cores[core])
}

#[test]
fn vector_add_takes_194_cycles() {
    let (_, module) = kernel("vector_add");
    let (x, y) = (noise(4096, 1), noise(4096, 2));
    let outcome = KtirRun::new(&module, "vector_add")
        .with_array("x", halves(&[4096], &x))
        .with_array("y", halves(&[4096], &y))
        .with_array("z", halves(&[4096], &[0.0; 4096]))
        .execute_kernel()
        .unwrap();
    let want: Vec<f32> = x.iter().zip(&y).map(|(a, b)| half(a + b)).collect();
    same(&read(&outcome, "z"), &want);
    same(&read(&outcome, "x"), &x);
    assert_eq!((outcome.cycles(), cycles(&outcome)), (194, [2, 192, 0]));
    assert_eq!(outcome.cost.totals.flops, 4096);
}

#[test]
fn matmul_takes_634_880_cycles() {
    let (_, module) = kernel("matmul");
    let (m, k, n) = (64, 2048, 8192);
    let (a, b) = (noise(m * k, 3), noise(k * n, 4));
    let outcome = KtirRun::new(&module, "matmul")
        .with_array("a", halves(&[64, 2048], &a))
        .with_array("b", halves(&[2048, 8192], &b))
        .with_array("c", halves(&[64, 8192], &vec![0.0; m * n]))
        .with_scalar("depth", KtirScalar::Int(2048))
        .execute_kernel()
        .unwrap();
    assert_eq!((outcome.cycles(), cycles(&outcome)), (634_880, [65_536 + 4096, 565_248, 0]));
    let c = read(&outcome, "c");
    // Blocks of 128 add up in float32, are rounded, and are added in binary16.
    for (i, j) in [(0, 0), (1, 8191), (31, 511), (32, 512), (63, 4097), (17, 3000)] {
        let mut total = 0.0;
        for block in 0..k / 128 {
            let sum = (0..128).fold(0.0_f32, |s, l| {
                let l = block * 128 + l;
                s + a[i * k + l] * b[l * n + j]
            });
            total = half(total + half(sum));
        }
        assert_eq!(c[i * n + j].to_bits(), total.to_bits(), "element {i}, {j}");
    }
}

/// Combines halves, rounding at every level.
fn folded(row: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut x = row.to_vec();
    while x.len() > 1 {
        let h = x.len() / 2;
        let mut next: Vec<f32> = (0..h).map(|i| f(x[i], x[h + i])).collect();
        next.extend_from_slice(&x[2 * h..]);
        x = next;
    }
    x[0]
}

#[test]
fn softmax_takes_147_456_cycles() {
    let (_, module) = kernel("softmax");
    let x = noise(4096 * 1024, 5);
    let outcome = KtirRun::new(&module, "softmax")
        .with_array("x", halves(&[4096, 1024], &x))
        .with_array("y", halves(&[4096, 1024], &vec![0.0; 4096 * 1024]))
        .execute_kernel()
        .unwrap();
    assert_eq!((outcome.cycles(), cycles(&outcome)), (147_456, [16_384, 131_072, 0]));
    let y = read(&outcome, "y");
    for r in [0, 127, 128, 4095] {
        let row = &x[r * 1024..(r + 1) * 1024];
        let max = folded(row, f32::max);
        let e: Vec<f32> = row.iter().map(|v| half(half(v - max).exp())).collect();
        let sum = folded(&e, |a, b| half(a + b));
        for (j, e) in e.iter().enumerate() {
            let (have, want) = (y[r * 1024 + j], half(e / sum));
            // exp of the standard library is not the same on all machines: one unit in the last place.
            assert!((have - want).abs() <= want * 1.0e-3, "row {r}, {j}: {have}, not {want}");
        }
        let total: f32 = y[r * 1024..(r + 1) * 1024].iter().sum();
        assert!((total - 1.0).abs() < 1.0e-2, "row {r} sums to {total}");
    }
}

#[test]
fn layernorm_normalises_every_row() {
    let (_, module) = kernel("layernorm");
    let (x, w, b) = (noise(30 * 256, 6), noise(256, 7), noise(256, 8));
    let outcome = KtirRun::new(&module, "layernorm")
        .with_array("x", halves(&[30, 256], &x))
        .with_array("w", halves(&[256], &w))
        .with_array("b", halves(&[256], &b))
        .with_array("y", halves(&[30, 256], &[0.0; 30 * 256]))
        .with_scalar("eps", KtirScalar::Float(1.0e-5))
        .execute_kernel()
        .unwrap();
    let y = read(&outcome, "y");
    for r in 0..30 {
        let row = &x[r * 256..(r + 1) * 256];
        let mean = folded(row, |a, b| a + b) / 256.0;
        let centred: Vec<f32> = row.iter().map(|v| v - mean).collect();
        let squares: Vec<f32> = centred.iter().map(|v| v * v).collect();
        let rstd = 1.0 / (folded(&squares, |a, b| a + b) / 256.0 + 1.0e-5_f32).sqrt();
        let want: Vec<f32> = (0..256).map(|j| half(centred[j] * rstd * w[j] + b[j])).collect();
        same(&y[r * 256..(r + 1) * 256], &want);
    }
}

#[test]
fn gather_takes_rows_by_index() {
    let (_, module) = kernel("gather");
    let table = noise(100 * 64, 9);
    let index: Vec<i32> = (0..16).map(|i| i * 37 % 100).collect();
    let run = |index: &[i32]| {
        KtirRun::new(&module, "gather")
            .with_array("table", halves(&[100, 64], &table))
            .with_array("index", ints(&[16], index))
            .with_array("out", halves(&[16, 64], &[0.0; 1024]))
            .execute_kernel()
    };
    let outcome = run(&index).unwrap();
    let want: Vec<f32> = index
        .iter()
        .flat_map(|r| table[*r as usize * 64..(*r as usize + 1) * 64].to_vec())
        .collect();
    same(&read(&outcome, "out"), &want);
    let mut bad = index.clone();
    bad[11] = -2;
    let error = run(&bad).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 1, `ktdp.load`: the index view holds -2 at [11]; an index is 0 or more"
    );
    bad[11] = 100;
    let error = run(&bad).unwrap_err().to_string();
    assert_eq!(error, "core 1, `ktdp.load`: index [100, 0] is outside the view of shape [100, 64]");
}

#[test]
fn all_reduce_adds_up_each_group() {
    let (_, module) = kernel("all_reduce");
    let x = noise(8 * 128, 10);
    let run = |hardware| {
        KtirRun::new(&module, "all_reduce")
            .with_array("x", halves(&[8, 128], &x))
            .with_array("y", halves(&[8, 128], &[0.0; 1024]))
            .with_hardware(hardware)
            .execute_kernel()
            .unwrap()
    };
    let outcome = run(Hardware::ktir_preset());
    let y = read(&outcome, "y");
    for core in 0..8 {
        let first = core / 4 * 4;
        // Around the ring of all cores: its own part, then that of the core before it, and so on.
        let others = (1..8).map(|k| (core + 8 - k) % 8).filter(|c| c / 4 * 4 == first);
        let fold = |j| others.clone().fold(x[core * 128 + j], |s, c| half(s + x[c * 128 + j]));
        let want: Vec<f32> = (0..128).map(fold).collect();
        same(&y[core * 128..(core + 1) * 128], &want);
    }
    // Three additions of 128 elements; a load and a store of two sticks each by one of 8 cores; 256 bytes
    // around a ring of 8, or on the card around a group of 4.
    assert_eq!(cycles(&outcome), [6, 4 * 128 / (128 / 8), 7 * 256 / 64]);
    let card = run(Hardware::card_preset());
    assert_eq!(card.cost.totals.ring_bytes, 8 * 3 * 256);
    same(&read(&card, "y"), &y);
}

#[test]
fn distributed_views_find_their_partition() {
    // Columns 0..16 row by row, columns 16..32 column by column.
    let text = "
#left = affine_set<(i, j) : (i >= 0, i <= 3, j >= 0, j <= 15)>
#right = affine_set<(i, j) : (i >= 0, i <= 3, j >= 16, j <= 31)>
#all = affine_set<(i, j) : (i >= 0, i <= 3, j >= 0, j <= 31)>
func.func @join(%a: index, %b: index, %c: index) {
  %c0 = arith.constant 0 : index
  %l = ktdp.construct_memory_view %a, sizes: [4, 16], strides: [16, 1]
    {coordinate_set = #left, memory_space = #ktdp.memory_space<global>} : memref<4x16xf32>
  %r = ktdp.construct_memory_view %b, sizes: [4, 16], strides: [1, 4]
    {coordinate_set = #right, memory_space = #ktdp.memory_space<global>} : memref<4x16xf32>
  %v = ktdp.construct_distributed_memory_view (%l, %r : memref<4x16xf32>, memref<4x16xf32>)
    : memref<4x32xf32>
  %o = ktdp.construct_memory_view %c, sizes: [4, 32], strides: [32, 1]
    {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<4x32xf32>
  %vt = ktdp.construct_access_tile %v[%c0, %c0] {access_tile_set = #all}
    : memref<4x32xf32> -> !ktdp.access_tile<4x32xindex>
  %ot = ktdp.construct_access_tile %o[%c0, %c0] {access_tile_set = #all}
    : memref<4x32xf32> -> !ktdp.access_tile<4x32xindex>
  %x = ktdp.load %vt : <4x32xindex> -> tensor<4x32xf32>
  ktdp.store %x, %ot : tensor<4x32xf32>, <4x32xindex>
}";
    let a: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..64).map(|i| (100 + i) as f32).collect();
    let module = module(text);
    let outcome = KtirRun::new(&module, "join")
        .with_array("a", floats(&[4, 16], &a))
        .with_array("b", floats(&[16, 4], &b))
        .with_array("c", floats(&[4, 32], &[0.0; 128]))
        .execute_kernel()
        .unwrap();
    let want: Vec<f32> = (0..128)
        .map(|f| (f / 32, f % 32))
        .map(|(i, j)| if j < 16 { a[i * 16 + j] } else { b[i + 4 * (j - 16)] })
        .collect();
    same(&read(&outcome, "c"), &want);
}

#[test]
fn sizes_that_are_values_bind_the_symbols_of_sets() {
    // Two halves of columns, each as wide as an argument says, into one array.
    let text = "
#left = affine_set<(i, j)[n] : (i >= 0, i <= 3, j >= 0, n - 1 - j >= 0)>
#right = affine_set<(i, j)[n] : (i >= 0, i <= 3, j - n >= 0, 2 * n - 1 - j >= 0)>
#block = affine_set<(i, j) : (i >= 0, i <= 3, j >= 0, j <= 7)>
func.func @join(%a: index, %b: index, %c: index, %width: i32) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %n = arith.index_cast %width : i32 to index
  %all = arith.muli %n, %c2 : index
  %l = ktdp.construct_memory_view %a, sizes: [4, %n], strides: [%n, 1]
    {coordinate_set = #left} : memref<4x?xf32>
  %r = ktdp.construct_memory_view %b, sizes: [4, %n], strides: [%n, 1]
    {coordinate_set = #right} : memref<4x?xf32>
  %v = ktdp.construct_distributed_memory_view (%l, %r : memref<4x?xf32>, memref<4x?xf32>)
    : memref<4x?xf32>
  %o = ktdp.construct_memory_view %c, sizes: [4, %all], strides: [%all, 1] : memref<4x?xf32>
  scf.for %j = %c0 to %all step %c8 {
    %vt = ktdp.construct_access_tile %v[%c0, %j] {access_tile_set = #block}
      : memref<4x?xf32> -> !ktdp.access_tile<4x8xindex>
    %ot = ktdp.construct_access_tile %o[%c0, %j] {access_tile_set = #block}
      : memref<4x?xf32> -> !ktdp.access_tile<4x8xindex>
    %x = ktdp.load %vt : <4x8xindex> -> tensor<4x8xf32>
    ktdp.store %x, %ot : tensor<4x8xf32>, <4x8xindex>
  }
}";
    let module = module(text);
    for n in [4_usize, 12, 16] {
        let size = i64::try_from(n).unwrap();
        let (a, b) = (noise(4 * n, 11), noise(4 * n, 12));
        let outcome = KtirRun::new(&module, "join")
            .with_array("a", floats(&[4, size], &a))
            .with_array("b", floats(&[4, size], &b))
            .with_array("c", floats(&[4, 2 * size], &vec![0.0; 8 * n]))
            .with_scalar("width", KtirScalar::Int(size))
            .execute_kernel()
            .unwrap();
        let want: Vec<f32> = (0..4)
            .flat_map(|i| [&a[i * n..(i + 1) * n], &b[i * n..(i + 1) * n]].concat())
            .collect();
        same(&read(&outcome, "c"), &want);
    }
}

/// A gather whose first variable is `%c3` from outside, or a variable of that name.
fn listed_gather(outer: &str, first: i64) -> String {
    format!(
        "func.func @gather(%x: index, %idx: index, %y: index) {{
  {outer}
  %c0 = arith.constant 0 : index
  %xs = ktdp.construct_memory_view %x, sizes: [4, 4], strides: [4, 1] : memref<4x4xf32>
  %is = ktdp.construct_memory_view %idx, sizes: [4, 4], strides: [4, 1] : memref<4x4xi32>
  %ys = ktdp.construct_memory_view %y, sizes: [4], strides: [1] : memref<4xf32>
  %t = ktdp.construct_indirect_access_tile intermediate_variables(%c3, %k) %xs[ind(%is[%c3, %k]), (%k)] {{
    variables_space_set = affine_set<(d0, d1) : (d0 >= 0, -d0 + {first} >= 0, d1 >= 0, -d1 + 3 >= 0)>
  }} : memref<4x4xf32>, memref<4x4xi32> -> !ktdp.access_tile<{}x4xindex>
  %v = ktdp.load %t : !ktdp.access_tile<{0}x4xindex> -> tensor<{0}x4xf32>
  %row = tensor.extract_slice %v[0, 0] [1, 4] [1, 1] : tensor<{0}x4xf32> to tensor<4xf32>
  %yt = ktdp.construct_access_tile %ys[%c0] : memref<4xf32> -> !ktdp.access_tile<4xindex>
  ktdp.store %row, %yt : tensor<4xf32>, !ktdp.access_tile<4xindex>
}}",
        first + 1
    )
}

#[test]
fn a_listed_value_from_outside_keeps_its_value() {
    let x: Vec<f32> = (0..16_u8).map(f32::from).collect();
    let idx: Vec<i32> = (0..16).map(|i| i / 4).collect();
    let run = |text: &str| {
        let module = module(text);
        assert_eq!(
            zellige_ktir::text::parse(&zellige_ktir::text::print_module(&module)).unwrap(),
            module
        );
        let outcome = KtirRun::new(&module, "gather")
            .with_array("x", floats(&[4, 4], &x))
            .with_array("idx", ints(&[4, 4], &idx))
            .with_array("y", floats(&[4], &[0.0; 4]))
            .execute_kernel()
            .unwrap();
        read(&outcome, "y")
    };
    for c in 0..4_u8 {
        let outer = format!("%c3 = arith.constant {c} : index");
        let want: Vec<f32> = (0..4).map(|k| f32::from(4 * c + k)).collect();
        assert_eq!(run(&listed_gather(&outer, 0)), want);
    }
    // Without a value of that name, or with one that is no number, it is a variable.
    assert_eq!(run(&listed_gather("", 3)), [0.0, 1.0, 2.0, 3.0]);
    let tile = "%c3 = tensor.empty() : tensor<4xf32>";
    assert_eq!(run(&listed_gather(tile, 3)), [0.0, 1.0, 2.0, 3.0]);
    let moving = listed_gather("%c3 = arith.constant 3 : index", 3);
    let error = zellige_ktir::text::parse(&moving).unwrap_err();
    assert!(error.message.contains("`%c3` is defined before this access"), "{}", error.message);
    assert_eq!(&moving[error.span], "%c3");
    assert!(error.help.unwrap().contains("`%c3 + %variable`"));
}

#[test]
fn arrays_have_the_elements_of_their_views() {
    // Through an offset, a loop that carries the pointer, a choice, and a call.
    let pointers = [
        "%p = arith.addi %x, %n : index",
        "%p = scf.for %i = %c0 to %n step %c1 iter_args(%at = %x) -> (index) {
           %next = arith.addi %at, %c1 : index
           scf.yield %next : index
         }",
        "%yes = arith.cmpi eq, %n, %c0 : index
         %p = arith.select %yes, %x, %x : index",
        "func.call @view(%n, %x) : (index, index) -> ()
         %p = arith.constant 0 : index",
    ];
    for pointer in pointers {
        let view = |p: &str| {
            format!(
                "%v = ktdp.construct_memory_view %{p}, sizes: [4], strides: [1] : memref<4xdf16>"
            )
        };
        let own = if pointer.contains("@view") { String::new() } else { view("p") };
        let text = format!(
            "module {{
  func.func @view(%n: index, %q: index) {{
    {}
    return
  }}
  func.func @f(%x: index, %n: index) {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    {pointer}
    {own}
    return
  }}
}}",
            view("q")
        );
        let module = module(&text);
        assert_eq!(module.view_elements("f", &["x"])["x"], [KtirElem::DF16], "{pointer}");
        // With two arrays in one sum, nothing is known.
        assert_eq!(
            module.view_elements("f", &["x", "n"]).len(),
            usize::from(pointer.contains("@view"))
        );
        let run = |elem| {
            let array = KtirArray { elem, shape: vec![64], bytes: vec![0; 64 * elem.byte_size()] };
            KtirRun::new(&module, "f")
                .with_array("x", array)
                .with_scalar("n", KtirScalar::Int(0))
                .execute_kernel()
        };
        assert!(run(KtirElem::DF16).is_ok());
        for elem in [KtirElem::F16, KtirElem::I16, KtirElem::F32] {
            let error = run(elem).unwrap_err().to_string();
            let want =
                format!("argument `x` has elements {elem}, and the kernel's views of it df16");
            assert!(error.contains(&want), "{error}");
        }
    }
}
