//! Compares single operations with the expected arrays.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod common;

use common::{floats, module, read};
use zellige_ktir::{KtirRun, KtirRunError};

/// Runs a body on `%a`, sixteen floats from 1 on as 4x4, that gives `%r` of a type.
fn body(ty: &str, n: usize, body: &str) -> Result<Vec<f32>, KtirRunError> {
    let shape = ty.trim_start_matches("tensor<").trim_end_matches("xf32>");
    let set: Vec<String> = shape
        .split('x')
        .enumerate()
        .map(|(i, n)| format!("d{i} >= 0, d{i} < {n}").replace(" < ", " <= -1 + "))
        .collect();
    let dims: Vec<String> = (0..set.len()).map(|i| format!("d{i}")).collect();
    let zeros = vec!["%c0"; set.len()].join(", ");
    let sizes = shape.replace('x', ", ");
    let extents: Vec<i64> = shape.split('x').map(|n| n.parse().unwrap()).collect();
    let strides: Vec<i64> = (0..extents.len()).map(|d| extents[d + 1..].iter().product()).collect();
    let text = format!(
        "func.func @f(%x: index, %y: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %ten = arith.constant 10.0 : f32
  %xs = ktdp.construct_memory_view %x, sizes: [4, 4], strides: [4, 1] : memref<4x4xf32>
  %xt = ktdp.construct_access_tile %xs[%c0, %c0] : memref<4x4xf32> -> !ktdp.access_tile<4x4xindex>
  %a = ktdp.load %xt : <4x4xindex> -> tensor<4x4xf32>
  {body}
  %ys = ktdp.construct_memory_view %y, sizes: [{sizes}], strides: {strides:?} : memref<{shape}xf32>
  %yt = ktdp.construct_access_tile %ys[{zeros}] {{access_tile_set = affine_set<({}) : ({})>}}
    : memref<{shape}xf32> -> !ktdp.access_tile<{shape}xindex>
  ktdp.store %r, %yt : {ty}, !ktdp.access_tile<{shape}xindex>
}}",
        dims.join(", "),
        set.join(", ")
    );
    let module = module(&text);
    let a: Vec<f32> = (1..=16).map(|i| i as f32).collect();
    let size = i64::try_from(n).unwrap();
    let outcome = KtirRun::new(&module, "f")
        .with_array("x", floats(&[4, 4], &a))
        .with_array("y", floats(&[size], &vec![0.0; n]))
        .execute_kernel()?;
    Ok(read(&outcome, "y"))
}

fn gives(ty: &str, text: &str, want: &[f32]) {
    match body(ty, want.len(), text) {
        Ok(have) => assert_eq!(have, want, "{text}"),
        Err(e) => panic!("{text}: {e}"),
    }
}

#[test]
fn tiles_are_cut_and_joined() {
    gives(
        "tensor<2x2xf32>",
        "%r = tensor.extract_slice %a[1, 0] [2, 2] [1, 2] : tensor<4x4xf32> to tensor<2x2xf32>",
        &[5.0, 7.0, 9.0, 11.0],
    );
    gives(
        "tensor<2x2xf32>",
        "%r = tensor.extract_slice %a[%c2, %c1] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>",
        &[10.0, 11.0, 14.0, 15.0],
    );
    gives(
        "tensor<2x4xf32>",
        "%s = tensor.extract_slice %a[0, 0] [2, 4] [1, 1] : tensor<4x4xf32> to tensor<2x4xf32>
         %p = tensor.splat %ten : tensor<1x2xf32>
         %r = tensor.insert_slice %p into %s[1, 1] [1, 2] [1, 1] : tensor<1x2xf32> into tensor<2x4xf32>",
        &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 10.0, 8.0],
    );
    gives(
        "tensor<1x8xf32>",
        "%s = tensor.extract_slice %a[0, 0] [1, 4] [1, 1] : tensor<4x4xf32> to tensor<1x4xf32>
         %t = tensor.extract_slice %a[3, 0] [1, 4] [1, 1] : tensor<4x4xf32> to tensor<1x4xf32>
         %r = tensor.concat dim(1) %s, %t : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>",
        &[1.0, 2.0, 3.0, 4.0, 13.0, 14.0, 15.0, 16.0],
    );
    gives(
        "tensor<3x3xf32>",
        "%s = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : tensor<4x4xf32> to tensor<2x2xf32>
         %r = tensor.pad %s low[1, 0] high[0, 1] {
           ^bb0(%i: index, %j: index):
             tensor.yield %ten : f32
         } : tensor<2x2xf32> to tensor<3x3xf32>",
        &[10.0, 10.0, 10.0, 1.0, 2.0, 10.0, 5.0, 6.0, 10.0],
    );
    gives(
        "tensor<2x3xf32>",
        "%r = tensor.generate {
           ^bb0(%i: index, %j: index):
             %k = affine.apply affine_map<(i, j) -> (i * 10 + j mod 2)>(%i, %j)
             %k32 = arith.index_cast %k : index to i32
             %f = arith.sitofp %k32 : i32 to f32
             tensor.yield %f : f32
         } : tensor<2x3xf32>",
        &[0.0, 1.0, 0.0, 10.0, 11.0, 10.0],
    );
    gives(
        "tensor<2xf32>",
        "%e = tensor.extract %a[%c2, %c1] : tensor<4x4xf32>
         %d = tensor.dim %a, %c1 : tensor<4x4xf32>
         %d32 = arith.index_cast %d : index to i32
         %df = arith.uitofp %d32 : i32 to f32
         %r = tensor.from_elements %e, %df : tensor<2xf32>",
        &[10.0, 4.0],
    );
}

#[test]
fn reductions_and_generics_agree_with_sums() {
    gives(
        "tensor<4xf32>",
        "%i = tensor.splat %ten : tensor<4xf32>
         %r = linalg.reduce { arith.addf } ins(%a : tensor<4x4xf32>) outs(%i : tensor<4xf32>) dimensions = [0]",
        &[38.0, 42.0, 46.0, 50.0],
    );
    // A reduction in the generic goes step by step; the output's own value comes first.
    gives(
        "tensor<4xf32>",
        "%i = tensor.splat %zero : tensor<4xf32>
         %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
             iterator_types = [\"parallel\", \"reduction\"]}
             ins(%a : tensor<4x4xf32>) outs(%i : tensor<4xf32>) {
           ^bb0(%x0: f32, %acc: f32):
             %d = linalg.index 1 : index
             %d32 = arith.index_cast %d : index to i32
             %w = arith.sitofp %d32 : i32 to f32
             %p = arith.mulf %x0, %w : f32
             %s = arith.addf %acc, %p : f32
             linalg.yield %s : f32
         } -> tensor<4xf32>",
        &[2.0 + 6.0 + 12.0, 6.0 + 14.0 + 24.0, 10.0 + 22.0 + 36.0, 14.0 + 30.0 + 48.0],
    );
    // Outputs in another order, inputs by an expression.
    gives(
        "tensor<2x2xf32>",
        "%i = tensor.empty() : tensor<2x2xf32>
         %l = tensor.splat %zero : tensor<2x2xf32>
         %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i + 1, j * 2)>,
             affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>],
             iterator_types = [\"parallel\", \"parallel\"]}
             ins(%a, %l : tensor<4x4xf32>, tensor<2x2xf32>) outs(%i : tensor<2x2xf32>) {
           ^bb0(%x0: f32, %x1: f32, %o: f32):
             linalg.yield %x0 : f32
         } -> tensor<2x2xf32>",
        &[5.0, 9.0, 7.0, 11.0],
    );
    gives(
        "tensor<4xf32>",
        "%i = tensor.splat %ten : tensor<4xf32>
         %o = tensor.splat %ten : tensor<4xf32>
         %r = linalg.matvec ins(%a, %o : tensor<4x4xf32>, tensor<4xf32>) outs(%i : tensor<4xf32>) -> tensor<4xf32>",
        &[110.0, 270.0, 430.0, 590.0],
    );
    gives(
        "tensor<4x4xf32>",
        "%o = tensor.empty() : tensor<4x4xf32>
         %r = linalg.map { arith.addf } ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%o : tensor<4x4xf32>)",
        &(1..=16).map(|i| 2.0 * i as f32).collect::<Vec<_>>(),
    );
}

#[test]
fn control_flow_carries_values() {
    gives(
        "tensor<1xf32>",
        "%c4 = arith.constant 4 : index
         %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %zero) -> (f32) {
           %e = tensor.extract %a[%i, %i] : tensor<4x4xf32>
           %even = arith.remsi %i, %c2 : index
           %is = arith.cmpi eq, %even, %c0 : index
           %t = scf.if %is -> (f32) {
             scf.yield %e : f32
           } else {
             %n = arith.negf %e : f32
             scf.yield %n : f32
           }
           %u = arith.addf %s, %t : f32
           scf.yield %u : f32
         }
         %r = tensor.splat %sum : tensor<1xf32>",
        &[1.0 - 6.0 + 11.0 - 16.0],
    );
    gives(
        "tensor<1xf32>",
        "%k, %v = scf.while (%i = %c0, %s = %ten) : (index, f32) -> (index, f32) {
           %go = arith.cmpi slt, %i, %c2 : index
           scf.condition(%go) %i, %s : index, f32
         } do {
           ^bb0(%i: index, %s: f32):
             %j = arith.addi %i, %c1 : index
             %d = arith.addf %s, %s : f32
             scf.yield %j, %d : index, f32
         }
         %r = tensor.splat %v : tensor<1xf32>",
        &[40.0],
    );
    gives(
        "tensor<1xf32>",
        "scf.parallel (%i, %j) = (%c0, %c0) to (%c2, %c2) step (%c1, %c1) {
           %e = memref.load %xs[%i, %j] : memref<4x4xf32>
           %d = arith.mulf %e, %ten : f32
           memref.store %d, %xs[%i, %j] : memref<4x4xf32>
         }
         %e = memref.load %xs[%c1, %c1] : memref<4x4xf32>
         %r = tensor.splat %e : tensor<1xf32>",
        &[60.0],
    );
}

#[test]
fn scratchpads_hold_what_is_stored() {
    // Column by column through the own scratchpad: a transpose.
    gives(
        "tensor<4x4xf32>",
        "%l = ktdp.construct_memory_view %c0, sizes: [4, 4], strides: [1, 4]
           {memory_space = #ktdp.memory_space<ct_local>} : memref<4x4xf32>
         %lt = ktdp.construct_access_tile %l[%c0, %c0] : memref<4x4xf32> -> !ktdp.access_tile<4x4xindex>
         ktdp.store %a, %lt : tensor<4x4xf32>, <4x4xindex>
         %m = ktdp.construct_memory_view %c0, sizes: [4, 4], strides: [4, 1]
           {memory_space = #ktdp.spyre_memory_space<LX, core = 0>} : memref<4x4xf32>
         %mt = ktdp.construct_access_tile %m[%c0, %c0] : memref<4x4xf32> -> !ktdp.access_tile<4x4xindex>
         %r = ktdp.load %mt : <4x4xindex> -> tensor<4x4xf32>",
        &[1.0, 5.0, 9.0, 13.0, 2.0, 6.0, 10.0, 14.0, 3.0, 7.0, 11.0, 15.0, 4.0, 8.0, 12.0, 16.0],
    );
    // The order of a tile is that of its enumeration: by columns here.
    gives(
        "tensor<4xf32>",
        "%t = ktdp.construct_access_tile %xs[%c1, %c1] {
           access_tile_set = affine_set<(i, j) : (i >= 0, i <= 1, j >= 0, j <= 1)>,
           access_tile_order = affine_map<(i, j) -> (j, i)>
         } : memref<4x4xf32> -> !ktdp.access_tile<2x2xindex>
         %r = ktdp.load %t : <2x2xindex> -> tensor<4xf32>",
        &[6.0, 10.0, 7.0, 11.0],
    );
    // A set that is no box: the lower triangle of 3 x 3.
    gives(
        "tensor<6xf32>",
        "%t = ktdp.construct_access_tile %xs[%c1, %c0] {
           access_tile_set = affine_set<(i, j) : (i >= 0, i <= 2, j >= 0, j <= 2, i - j >= 0)>
         } : memref<4x4xf32> -> !ktdp.access_tile<6xindex>
         %r = ktdp.load %t : <6xindex> -> tensor<6xf32>",
        &[5.0, 9.0, 10.0, 13.0, 14.0, 15.0],
    );
}

/// Two cores; each has a row of four, `10 * core + 1 ..`, and gives `%r`, four floats.
fn cores(delivery: &str) -> Vec<f32> {
    let text = format!(
        "#both = affine_set<(i)[g] : (i >= 0, i <= 1)>
#zero = affine_set<(i)[g] : (i == 0)>
#other = affine_set<(p)[c, g] : (p + c - 1 == 0)>
func.func @f(%y: index) attributes {{grid = [2]}} {{
  %id = ktdp.get_compute_tile_id : index
  %c0 = arith.constant 0 : index
  %mine = tensor.generate {{
    ^bb0(%i: index):
      %k = affine.apply affine_map<(c, i) -> (c * 10 + i + 1)>(%id, %i)
      %k32 = arith.index_cast %k : index to i32
      %f = arith.sitofp %k32 : i32 to f32
      tensor.yield %f : f32
  }} : tensor<4xf32>
  %nothing = arith.constant dense<0.0> : tensor<4xf32>
  {delivery}
  %ys = ktdp.construct_memory_view %y, sizes: [2, 4], strides: [4, 1] : memref<2x4xf32>
  %yt = ktdp.construct_access_tile %ys[%id, %c0]
    {{access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, j <= 3)>}}
    : memref<2x4xf32> -> !ktdp.access_tile<1x4xindex>
  ktdp.store %r, %yt : tensor<4xf32>, <1x4xindex>
}}"
    );
    let module = module(&text);
    let run =
        KtirRun::new(&module, "f").with_array("y", floats(&[2, 4], &[0.0; 8])).execute_kernel();
    read(&run.unwrap_or_else(|e| panic!("{delivery}: {e}")), "y")
}

#[test]
fn cores_deliver_to_each_other() {
    let produce = |by: &str| {
        format!(
            "%p = ktdp.inter_tile_produce producer_tiles_per_group = {by}
        -> !ktdp.tile_future<(tensor<4xf32>), groups = affine_set<(g) : (g == 0)>> {{
      ^bb0(%g: index):
        ktdp.yield_partial %mine : tensor<4xf32>
    }}\n"
        )
    };
    let future = ": <(tensor<4xf32>), groups = affine_set<(g) : (g == 0)>>";
    let broadcast = format!(
        "{}%r = ktdp.inter_tile_consume(%p) consumer_tiles_per_group = #both {future} -> tensor<4xf32>",
        produce("#zero")
    );
    assert_eq!(cores(&broadcast), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    let swapped = format!(
        "{}%r = ktdp.inter_tile_consume(%p) consumer_tiles_per_group = #both,
           producer_dependency_per_consumer = #other {future} -> tensor<4xf32>",
        produce("#both")
    );
    assert_eq!(cores(&swapped), [11.0, 12.0, 13.0, 14.0, 1.0, 2.0, 3.0, 4.0]);
    let twice =
        "%r = tensor.concat dim(0) %h, %h : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>";
    let scatter = format!(
        "{}%h = ktdp.inter_tile_scatter(%p) consumer_tiles_per_group = #both, scatter_dimensions = [0]
           {future} -> tensor<2xf32>\n{twice}",
        produce("#zero")
    );
    assert_eq!(cores(&scatter), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    let gather = format!(
        "{}%w = ktdp.inter_tile_gather(%p) consumer_tiles_per_group = #both, gather_dimensions = [0]
           {future} -> tensor<8xf32>
         %r = tensor.extract_slice %w[2] [4] [1] : tensor<8xf32> to tensor<4xf32>",
        produce("#both")
    );
    assert_eq!(cores(&gather), [3.0, 4.0, 11.0, 12.0, 3.0, 4.0, 11.0, 12.0]);
    let exchange = format!(
        "{}%r = ktdp.inter_tile_all_to_all(%p) consumer_tiles_per_group = #both,
           split_dimensions = [0], concat_dimensions = [0] {future} -> tensor<4xf32>",
        produce("#both")
    );
    assert_eq!(cores(&exchange), [1.0, 2.0, 11.0, 12.0, 3.0, 4.0, 13.0, 14.0]);
    let shares = format!(
        "{}%h = ktdp.inter_tile_reduce_scatter(%p) consumer_tiles_per_group = #both,
           scatter_dimensions = [0], identity(%nothing : tensor<4xf32>) {future} -> tensor<2xf32> {{
           ^bb0(%l: tensor<4xf32>, %m: tensor<4xf32>):
             %s = arith.addf %l, %m : tensor<4xf32>
             ktdp.yield_reduced %s : tensor<4xf32>
         }}\n{twice}",
        produce("#both")
    );
    assert_eq!(cores(&shares), [12.0, 14.0, 12.0, 14.0, 16.0, 18.0, 16.0, 18.0]);
    let one = format!(
        "{}%r = ktdp.inter_tile_reduce(%p) consumer_tiles_per_group = #zero,
           identity(%nothing : tensor<4xf32>) {future} -> tensor<4xf32> {{
           ^bb0(%l: tensor<4xf32>, %m: tensor<4xf32>):
             %s = arith.maximumf %l, %m : tensor<4xf32>
             ktdp.yield_reduced %s : tensor<4xf32>
         }}",
        produce("#both")
    );
    assert_eq!(cores(&one), [11.0, 12.0, 13.0, 14.0, 0.0, 0.0, 0.0, 0.0]);
}
