//! Kernels that fail while they run: the error names the core, the operation and the element.

mod common;

use common::{halves, module};
use zellige_ktir::{KtirFault, KtirRun, KtirRunError, KtirScalar, WaitingCore, text};

/// Each core stores a row of 8 to `%x[AT]`.
fn rows(grid: &str, at: &str) -> String {
    format!(
        "func.func @f(%x: index, %n: index) attributes {{grid = [{grid}]}} {{
  %id = ktdp.get_compute_tile_id : index
  %c0 = arith.constant 0 : index
  %v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8, 1] : memref<4x8xf16>
  %t = ktdp.construct_access_tile %v[{at}]
    {{access_tile_set = affine_set<(i, j) : (i == 0, j >= 0, j <= 7)>}}
    : memref<4x8xf16> -> !ktdp.access_tile<1x8xindex>
  %d = ktdp.load %t : <1x8xindex> -> tensor<1x8xf16>
  ktdp.store %d, %t : tensor<1x8xf16>, <1x8xindex>
}}"
    )
}

fn run(text: &str, n: i64) -> Result<u64, KtirRunError> {
    let module = module(text);
    KtirRun::new(&module, "f")
        .with_array("x", halves(&[4, 8], &[1.0; 32]))
        .with_scalar("n", KtirScalar::Int(n))
        .with_max_steps(100_000)
        .execute_kernel()
        .map(|o| o.cycles())
}

#[test]
fn out_of_bounds_names_core_operation_and_index() {
    assert!(run(&rows("4", "%id, %c0"), 0).is_ok());
    let text = rows("4", "%id + %n, %c0");
    let error = run(&text, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 2, `ktdp.load`: index [4, 0] is outside the view of shape [4, 8]"
    );
    assert_eq!(text::find_line_and_column(&text, &error.span).0, 8);
    let error = run(&rows("4", "%id, %n"), 1).unwrap_err();
    assert_eq!(error.fault, KtirFault::OutOfBounds { index: vec![0, 8], shape: vec![4, 8] });
    let error = run(&rows("4", "%id, %n"), -1).unwrap_err();
    assert_eq!(error.fault, KtirFault::OutOfBounds { index: vec![0, -1], shape: vec![4, 8] });
}

#[test]
fn addresses_outside_arrays_are_refused() {
    let text = rows("1", "%id, %c0").replace("_view %x,", "_view %n,");
    let error = run(&text, 3).unwrap_err();
    assert_eq!(error.fault, KtirFault::Address { start: 6, end: 22, near: String::new() });
    // The array has 64 bytes from 0x10000 on.
    let error = run(&text, 0x8000 + 30).unwrap_err();
    let near = "; `x` has bytes 65536..65600".to_string();
    assert_eq!(error.fault, KtirFault::Address { start: 65596, end: 65612, near });
}

#[test]
fn two_cores_writing_one_element_is_a_race() {
    let error = run(&rows("2, 2", "%n, %c0"), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 1, `ktdp.store`: race: core 0 has already written element 8 of `x`"
    );
}

#[test]
fn scratchpads_overflow_by_name() {
    // Tiles of 1 MiB: two fit, and what is dead makes room.
    let text = |last: &str| {
        format!(
            "func.func @f(%x: index, %n: index) attributes {{grid = [2]}} {{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<1024x512xf16>
  %b = tensor.splat %s : tensor<1024x512xf16>
  {last}
}}"
        )
    };
    assert!(run(&text(""), 0).is_ok());
    let error = run(&text("%c = arith.addf %a, %b : tensor<1024x512xf16>"), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 0, `arith.addf`: LX overflow: tensor<1024x512xf16> takes 1048576 bytes, \
         2097152 of 2097152 bytes are in use"
    );
    let text = "func.func @f(%x: index, %n: index) {
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<1024x512xf16>
  %b = math.exp %a : tensor<1024x512xf16>
  %c = math.exp %b : tensor<1024x512xf16>
  %d = math.exp %c : tensor<1024x512xf16>
}";
    assert!(run(text, 0).is_ok());
}

#[test]
fn waiting_for_nobody_is_a_deadlock() {
    // Every core consumes from all; only core 0 produces in the branch.
    let text = "#all = affine_set<(i)[g] : (i - g >= 0, -i + g + 1 >= 0)>
func.func @f(%x: index, %n: index) attributes {grid = [2]} {
  %id = ktdp.get_compute_tile_id : index
  %c0 = arith.constant 0 : index
  %is = arith.cmpi eq, %id, %c0 : index
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<8xf16>
  scf.if %is {
    %f = ktdp.inter_tile_produce producer_tiles_per_group = #all
        : tensor<8xf16> -> !ktdp.tile_future<tensor<8xf16>, groups = affine_set<(g) : (g == 0)>> {
      ^bb0(%g: index):
        ktdp.yield_partial %a : tensor<8xf16>
    }
    %r = ktdp.inter_tile_gather(%f) consumer_tiles_per_group = #all, gather_dimensions = [0]
        : !ktdp.tile_future<tensor<8xf16>, groups = affine_set<(g) : (g == 0)>> -> tensor<16xf16>
  }
}";
    let error = run(text, 0).unwrap_err();
    let waits = vec![WaitingCore { core: 0, for_cores: vec![1], ended: vec![1] }];
    assert_eq!(error.fault, KtirFault::Deadlock(waits));
    assert_eq!(
        error.to_string(),
        "core 0, `ktdp.inter_tile_gather`: deadlock: core 0 waits for 1 (ended: 1)"
    );
}

#[test]
fn other_faults_are_told() {
    let of = |body: &str, n: i64| {
        run(&format!("func.func @f(%x: index, %n: index) {{\n{body}\n}}"), n).map_err(|e| e.fault)
    };
    assert_eq!(of("%a = arith.divsi %n, %n : index", 0), Err(KtirFault::DivisionByZero));
    assert_eq!(of("scf.for %i = %n to %n step %n {\n}", 0), Err(KtirFault::Step(0)));
    let forever = "scf.while () : () -> () {
  %c = arith.cmpi eq, %n, %n : index
  scf.condition(%c)
} do {
}";
    assert_eq!(of(forever, 0), Err(KtirFault::TooLong(100_000)));
    assert!(matches!(
        of("%a = affine.apply affine_map<(i) -> (i * 4)>(%n)", i64::MAX),
        Err(KtirFault::Overflow(_))
    ));
    let module = module("func.func @f(%x: index, %n: i32) {\n}");
    let bad = |run: KtirRun<'_>| run.execute_kernel().unwrap_err().to_string();
    assert_eq!(
        bad(KtirRun::new(&module, "f").with_scalar("m", KtirScalar::Int(1))),
        "argument `m` is not an argument of `@f`, which takes x, n"
    );
    let x = || KtirRun::new(&module, "f").with_array("x", halves(&[1], &[0.0]));
    assert_eq!(bad(x()), "argument `n` is missing; it is i32");
    assert_eq!(
        bad(x().with_scalar("n", KtirScalar::Float(0.5))),
        "argument `n` is i32, so 0.5 does not fit"
    );
    let mut short = halves(&[1], &[0.0]);
    short.shape = vec![2];
    assert_eq!(
        bad(KtirRun::new(&module, "f").with_array("x", short)),
        "argument `x` has 2 bytes, which are not those of f16 with shape [2]"
    );
}

/// The type of an access tile has no element type, so only a run sees that the tensor has another one.
#[test]
fn a_tile_from_outside_is_accessed_with_its_own_elements() {
    let text = |operation: &str| {
        format!(
            "module {{
  func.func @access(%t: !ktdp.access_tile<8xindex>) {{
    {operation}
    return
  }}
  func.func @f(%x: index, %n: index) {{
    %c0 = arith.constant 0 : index
    %v = ktdp.construct_memory_view %x, sizes: [8], strides: [1] : memref<8xf16>
    %t = ktdp.construct_access_tile %v[%c0] : memref<8xf16> -> !ktdp.access_tile<8xindex>
    func.call @access(%t) : (!ktdp.access_tile<8xindex>) -> ()
    return
  }}
}}"
        )
    };
    let load = "%a = ktdp.load %t : !ktdp.access_tile<8xindex> -> tensor<8xi32>
    %b = arith.addi %a, %a : tensor<8xi32>";
    let store = "%s = arith.constant dense<1> : tensor<8xi32>
    ktdp.store %s, %t : tensor<8xi32>, !ktdp.access_tile<8xindex>";
    for operation in [load, store] {
        let fault = run(&text(operation), 0).unwrap_err().fault;
        let expected = "the view has elements f16, not those of tensor<8xi32>";
        assert_eq!(fault, KtirFault::Invalid(expected.into()));
    }
    let same = "%a = ktdp.load %t : !ktdp.access_tile<8xindex> -> tensor<8xf16>";
    assert!(run(&text(same), 0).is_ok());
}
