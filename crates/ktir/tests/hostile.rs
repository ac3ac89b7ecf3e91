//! Texts that require more than a machine has: each is refused at once, or ends within its budget.

mod common;

use common::{halves, module};
use peak_alloc::PeakAlloc;
use std::time::{Duration, Instant};
use zellige_ktir::{KtirFault, KtirRun, KtirRunError, KtirScalar, text};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Far more time than a refusal takes, even in a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn soon<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let out = f();
    assert!(begun.elapsed() < SOON, "{what} took {:?}", begun.elapsed());
    out
}

fn refused(text: &str, why: &str) {
    let d = soon(why, || text::parse(text)).expect_err(why);
    assert!(d.message.contains(why), "{}", d.message);
    assert!(d.span.end <= text.len());
}

const STEPS: u64 = 1_000_000;
const BYTES: u64 = 64 << 20;

/// Runs `@f(%x: index, %n: index)` with a body under a small budget.
fn run(head: &str, body: &str, n: i64) -> Result<(), KtirRunError> {
    let text = format!("{head}func.func @f(%x: index, %n: index) {body}");
    let module = module(&text);
    soon(&text, || {
        KtirRun::new(&module, "f")
            .with_array("x", halves(&[4, 8], &[1.0; 32]))
            .with_scalar("n", KtirScalar::Int(n))
            .with_max_steps(STEPS)
            .with_max_bytes(BYTES)
            .execute_kernel()
            .map(|_| ())
    })
}

fn too_long(head: &str, body: &str, n: i64) -> KtirRunError {
    let error = run(head, body, n).expect_err("it takes too many steps");
    assert_eq!(error.fault, KtirFault::TooLong(STEPS), "{error}");
    assert!(error.op.is_some() && error.core.is_some(), "{error}");
    error
}

fn too_much(head: &str, body: &str) -> KtirRunError {
    let error = run(head, body, 0).expect_err("it takes too many bytes");
    assert!(matches!(error.fault, KtirFault::OutOfMemory { limit: BYTES, .. }), "{error}");
    error
}

#[test]
fn loops_end_with_their_budget() {
    let error = too_long(
        "",
        "{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %n step %c1 {
    }
  }
}",
        1_000_000_000_000_000_000,
    );
    assert!(error.to_string().contains("core 0, `scf."), "{error}");
    too_long(
        "",
        "{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.parallel (%i, %j) = (%c0, %c0) to (%n, %n) step (%c1, %c1) {
  }
}",
        i64::MAX,
    );
    // Two calls in each of thirty functions.
    let calls: String = (0..30)
        .map(|i| {
            format!(
                "func.func @g{i}() {{\n  call @g{0}() : () -> ()\n  call @g{0}() : () -> ()\n}}\n",
                i + 1
            )
        })
        .collect();
    let calls = calls.replace("  call", "  func.call");
    too_long(&(calls + "func.func @g30() {\n}\n"), "{\n  func.call @g0() : () -> ()\n}", 0);
}

#[test]
fn loops_of_operations_end_with_their_budget() {
    // Three operands with a loop each: 2^54 rounds.
    let three = "{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<262144xf16>
  %o = tensor.splat %s : tensor<1xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(p, i, j, k) -> (i)>,
      affine_map<(p, i, j, k) -> (j)>, affine_map<(p, i, j, k) -> (k)>, affine_map<(p, i, j, k) -> (p)>],
      iterator_types = [\"parallel\", \"reduction\", \"reduction\", \"reduction\"]}
      ins(%a, %a, %a : tensor<262144xf16>, tensor<262144xf16>, tensor<262144xf16>)
      outs(%o : tensor<1xf16>) {
    ^bb0(%x0: f16, %x1: f16, %x2: f16, %y: f16):
      linalg.yield %y : f16
  } -> tensor<1xf16>
}";
    too_long("", three, 0);
    // A product of matrices has no more multiplications than steps times 64 allow.
    let product = "{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<500x500xf16>
  %o = tensor.splat %s : tensor<500x500xf16>
  %r = linalg.matmul ins(%a, %a : tensor<500x500xf16>, tensor<500x500xf16>) outs(%o : tensor<500x500xf16>) -> tensor<500x500xf16>
}";
    too_long("", product, 0);
}

#[test]
fn memory_ends_with_its_budget() {
    // 4096 cores, each with a tile of 2 MiB of bytes, which the host holds as 64 bits.
    let tiles = "attributes {grid = [4096]} {
  %s = arith.constant 1 : i8
  %a = tensor.splat %s : tensor<2097152xi8>
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i >= 0)>
      : tensor<2097152xi8> -> !ktdp.tile_future<tensor<2097152xi8>, groups = affine_set<(g) : (g == 0)>> {
    ^bb0(%g: index):
      ktdp.yield_partial %a : tensor<2097152xi8>
  }
}";
    let error = too_much("", tiles);
    assert!(error.op.is_some(), "{error}");
    // Values of a function on every core.
    let many: String =
        (0..4000).map(|i| format!("  %v{i} = arith.constant {i} : index\n")).collect();
    // Cores that see nothing of each other run one after the other, so their values are not there together.
    too_long("", &format!("attributes {{grid = [4096]}} {{\n{many}}}"), 0);
    // Lanes of a long body.
    let body: String =
        (0..500).map(|i| format!("      %v{} = arith.addf %v{i}, %v{i} : f16\n", i + 1)).collect();
    let lanes = format!(
        "{{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<100000xf16>
  %r = linalg.map ins(%a : tensor<100000xf16>) outs(%a : tensor<100000xf16>)
    (%v0: f16) {{\n{body}      linalg.yield %v500 : f16\n    }}
}}"
    );
    too_much("", &lanes);
    // Memory that is asked for by its address.
    let text = "func.func @f(%x: index, %n: index) {\n}";
    let module = module(text);
    let error = KtirRun::new(&module, "f")
        .with_memory_bytes(usize::MAX / 2)
        .execute_kernel()
        .expect_err("far too much");
    assert!(matches!(error.fault, KtirFault::OutOfMemory { .. }), "{error}");
}

#[test]
fn what_cores_wait_for_ends_with_the_budget() {
    // Cores of a scratchpad that nobody reads from: a result of 10^12 elements for those left out.
    let nothing = "attributes {grid = [2]} {
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<8xf16>
  %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i == 0)>
      : tensor<8xf16> -> !ktdp.tile_future<tensor<8xf16>, groups = affine_set<(g) : (g == 0)>> {
    ^bb0(%g: index):
      ktdp.yield_partial %a : tensor<8xf16>
  }
  %r = ktdp.inter_tile_gather(%f) consumer_tiles_per_group = affine_set<(i)[g] : (i - 1 == 0)>, gather_dimensions = [0]
      : !ktdp.tile_future<tensor<8xf16>, groups = affine_set<(g) : (g == 0)>> -> tensor<1000000000000xf16>
}";
    let error = run("", nothing, 0).expect_err("no scratchpad holds it");
    assert!(matches!(error.fault, KtirFault::LxOverflow { .. } | KtirFault::TooLong(_)), "{error}");
    // Partials that are never received, again and again.
    let posted = "{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<100000xf16>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %f = ktdp.inter_tile_produce producer_tiles_per_group = affine_set<(i)[g] : (i == 0)>
        : tensor<100000xf16> -> !ktdp.tile_future<tensor<100000xf16>, groups = affine_set<(g) : (g == 0)>> {
      ^bb0(%g: index):
        %b = arith.addf %a, %a : tensor<100000xf16>
        ktdp.yield_partial %b : tensor<100000xf16>
    }
  }
}";
    let error = run("", posted, 1_000_000).expect_err("they stay");
    assert!(matches!(error.fault, KtirFault::OutOfMemory { .. }), "{error}");
}

#[test]
fn empty_tiles_with_huge_sizes_cost_nothing() {
    let text = |n: &str| {
        format!(
            "{{
  %s = arith.constant 1.0 : f16
  %a = tensor.splat %s : tensor<{n}x0xf16>
  %b = tensor.splat %s : tensor<0x{n}xf16>
  %t = linalg.transpose ins(%a : tensor<{n}x0xf16>) outs(%b : tensor<0x{n}xf16>) permutation = [1, 0]
  %o = tensor.splat %s : tensor<0xf16>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = [\"reduction\", \"parallel\"]}}
      ins(%a : tensor<{n}x0xf16>) outs(%o : tensor<0xf16>) {{
    ^bb0(%x0: f16, %y: f16):
      linalg.yield %y : f16
  }} -> tensor<0xf16>
}}"
        )
    };
    assert_eq!(run("", &text("3"), 0), Ok(()));
    let error = run("", &text("1000000000000"), 0).map_err(|e| e.fault);
    assert_eq!(error, Ok(()));
    refused(
        "func.func @f(%x: index) {\n  %a = tensor.empty() : tensor<0x9000000000x9000000000xf16>\n}",
        "does not fit in 64 bits",
    );
}

#[test]
fn grids_do_not_wrap() {
    for grid in ["4294967296, 4294967296, 4294967296", "9223372036854775807, 2", "4097"] {
        refused(&format!("func.func @f() attributes {{grid = [{grid}]}} {{\n}}"), "grid");
    }
}

#[test]
fn verifying_ends() {
    // Thirty functions that call the next one twice have 2^30 paths.
    let calls: String = (0..30)
        .map(|i| {
            let call = format!("  func.call @g{}() : () -> ()\n", i + 1);
            format!("func.func @g{i}() {{\n{call}{call}}}\n")
        })
        .collect();
    let text = calls + "func.func @g30() {\n}\n";
    assert!(soon("calls", || text::parse(&text)).is_ok());
    let deep: String = (0..40)
        .map(|i| format!("func.func @g{i}() {{\n  func.call @g{}() : () -> ()\n}}\n", i + 1))
        .collect();
    refused(&(deep + "func.func @g40() {\n}\n"), "more than 32 calls deep");
    let round = "func.func @a() {\n  func.call @b() : () -> ()\n}\nfunc.func @b() {\n  func.call @a() : () -> ()\n}\n";
    refused(round, "would call itself");
    // Sets of a million points each, a thousand times.
    let tile = |i: usize| {
        format!(
            "  %t{i} = ktdp.construct_access_tile %v[%x, %x] {{access_tile_set = #s}} : memref<4x8xf16> -> !ktdp.access_tile<1x8xindex>\n"
        )
    };
    let tiles: String = (0..1000).map(tile).collect();
    let text = format!(
        "#s = affine_set<(i, j) : (i >= 0, i <= 1000, j >= 0, j <= 1000, i - j * 125 + j == 0)>
func.func @f(%x: index) {{
  %v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8, 1] : memref<4x8xf16>
{tiles}}}"
    );
    refused(&text.replace("1x8xindex", "9xindex"), "");
    let d = soon("sets", || text::parse(&text)).expect_err("too many points");
    assert!(d.message.contains("steps to verify") || d.message.contains("points"), "{}", d.message);
}

#[test]
fn large_texts_take_time_in_proportion() {
    // Loads: each looks for the operation that made its tile.
    let n = 10_000;
    let loads: String = (0..n)
        .map(|i| format!("  %d{i} = ktdp.load %t : <1x8xindex> -> tensor<1x8xf16>\n"))
        .collect();
    let text = format!(
        "func.func @f(%x: index) {{
  %v = ktdp.construct_memory_view %x, sizes: [4, 8], strides: [8, 1] : memref<4x8xf16>
  %t = ktdp.construct_access_tile %v[%x, %x] : memref<4x8xf16> -> !ktdp.access_tile<1x8xindex>
{loads}}}"
    );
    assert!(soon("loads", || text::parse(&text)).is_ok());
    // An alias of many conditions, used often: memory follows the text, not its square.
    let conditions = vec!["d >= 0"; 20_000].join(", ");
    let views: String = (0..5000)
        .map(|i| format!("  %v{i} = ktdp.construct_memory_view %x, sizes: [8], strides: [1] {{coordinate_set = #s}} : memref<8xf16>\n"))
        .collect();
    let text =
        format!("#s = affine_set<(d) : ({conditions})>\nfunc.func @f(%x: index) {{\n{views}}}");
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    assert!(soon("aliases", || text::parse(&text)).is_ok());
    let grown = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes for a text of {} bytes", text.len());
    // Names: a suggestion is not worth the product of two lengths.
    let long = "a".repeat(300_000);
    refused(
        &format!(
            "func.func @f(%{long}: index) {{\n  %c = arith.addi %{long}b, %{long}b : index\n}}"
        ),
        "not defined here",
    );
    refused(&format!("func.func @f() {{\n  arith.{long}\n}}"), "unknown operation");
}

#[test]
fn expressions_have_an_end() {
    // Sums in sums: parentheses alone have a limit of a hundred, terms of one sum of a thousand.
    let mut e = "d".to_string();
    for _ in 0..90 {
        e = format!("({e}{})", " + d".repeat(900));
    }
    refused(
        &format!("#m = affine_map<(d) -> ({e})>\nfunc.func @f() {{\n}}"),
        "an expression of more than",
    );
    let dims: Vec<String> = (0..100_000).map(|i| format!("d{i}")).collect();
    let dims = dims.join(", ");
    refused(
        &format!("#m = affine_map<({dims}) -> (d0)>\nfunc.func @f() {{\n}}"),
        "more than 256 dimensions",
    );
    let shape = "1x".repeat(100_000);
    refused(
        &format!("func.func @f() {{\n  %a = tensor.empty() : tensor<{shape}f16>\n}}"),
        "dimensions",
    );
}
