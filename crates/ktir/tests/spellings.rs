//! Other spellings of texts: those of older versions, and short ones, mean the same as the standard form.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod common;

use common::{halves, module, read, same};
use zellige_ktir::{KtirModule, KtirRun, KtirScalar, text};

/// A kernel on four numbers: `body` makes `%r` of the tile `%a`.
fn on_four(access: &str, memref: &str, body: &str) -> String {
    format!(
        "func.func @f(%x: index) {{
           %c0 = arith.constant 0 : index
           %v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] : {memref}
           %t = ktdp.construct_access_tile %v[%c0] {{
             access_tile_set = affine_set<(i) : (i >= 0, -i + 3 >= 0)> }} {access}
           %a = ktdp.load %t : !ktdp.access_tile<4xindex> -> tensor<4xf16>
           {body}
           ktdp.store %r, %t : tensor<4xf16>, !ktdp.access_tile<4xindex>
           return
         }}"
    )
}

const ACCESS: &str = ": memref<4xf16> -> !ktdp.access_tile<4xindex>";
const NEGATE: &str = "%r = arith.negf %a : tensor<4xf16>";

fn check_round_trip(m: &KtirModule) {
    assert_eq!(&text::parse(&text::print_module(m)).unwrap(), m);
}

fn run_four(source: &str) -> Vec<f32> {
    let m = module(source);
    check_round_trip(&m);
    let x = halves(&[4], &[1.0, -2.0, 0.5, -0.25]);
    read(&KtirRun::new(&m, "f").with_array("x", x).execute_kernel().unwrap(), "x")
}

#[test]
fn access_tiles_may_leave_out_what_is_known() {
    let want = module(&on_four(ACCESS, "memref<4xf16>", NEGATE));
    for access in [
        "-> !ktdp.access_tile<4xindex>",
        ": -> !ktdp.access_tile<4xindex>",
        ": memref<4xf16> -> !ktdp.access_tile<?xindex>",
        ": memref<4xf16> -> !ktdp.access_tile",
        "-> !ktdp.access_tile",
    ] {
        assert_eq!(module(&on_four(access, "memref<4xf16>", NEGATE)), want, "{access}");
    }
    let wrong = on_four(": memref<4xf16> -> !ktdp.access_tile<?x4xindex>", "memref<4xf16>", NEGATE);
    assert!(text::parse(&wrong).is_err());
}

#[test]
fn a_view_may_say_its_space_in_its_type() {
    let with = |memref| module(&on_four("-> !ktdp.access_tile<4xindex>", memref, NEGATE));
    let want = with("memref<4xf16, \"HBM\">");
    assert_eq!(with("memref<4xf16, #ktdp.spyre_memory_space<HBM>>"), want);
    assert_eq!(with("memref<4xf16, #ktdp.memory_space<global>>"), want);
    assert_ne!(with("memref<4xf16, \"LX\">"), want);
    check_round_trip(&want);
    assert!(text::parse(&on_four(ACCESS, "memref<4xf16, 7>", NEGATE)).is_err());
}

#[test]
fn older_names_of_operations() {
    let of = |body: &str| run_four(&on_four(ACCESS, "memref<4xf16>", body));
    same(&of("%r = arith.absf %a : tensor<4xf16>"), &[1.0, 2.0, 0.5, 0.25]);
    let zero = "%z = arith.constant dense<0.0> : tensor<4xf16>\n";
    same(&of(&format!("{zero}%r = arith.maxf %a, %z : tensor<4xf16>")), &[1.0, 0.0, 0.5, 0.0]);
    same(&of(&format!("{zero}%r = arith.minf %a, %z : tensor<4xf16>")), &[0.0, -2.0, 0.0, -0.25]);
    let converted = "%b = arith.convertf %a : tensor<4xf16> to tensor<4xbf16>
        %n = arith.negf %b : tensor<4xbf16>
        %r = arith.convertf %n : tensor<4xbf16> to tensor<4xf16>";
    same(&of(converted), &[-1.0, 2.0, -0.5, 0.25]);
}

#[test]
fn constants_in_braces() {
    let of = |constant: &str| {
        module(&format!("func.func @f() {{\n  %c = arith.constant {constant}\n  return\n}}"))
    };
    let want = of("128 : index");
    for spelling in ["{128 : index}", "{value = 128 : index}", "{value = 128 : index} : index"] {
        assert_eq!(of(spelling), want, "{spelling}");
    }
    assert_eq!(of("{value = dense<2.0> : tensor<2xf16>}"), of("dense<2.0> : tensor<2xf16>"));
    let other = "func.func @f() {\n  %c = arith.constant {value = 1 : index} : i32\n  return\n}";
    assert!(text::parse(other).is_err());
}

#[test]
fn runtime_arguments_are_taken_apart() {
    let of = |ty: &str, field: &str, result: &str| {
        text::parse(&format!(
            "func.func @f(%n: !ktdp.runtime_arg<{ty}>, %x: index) {{
               %c0 = arith.constant 0 : index
               %i = ktdp.runtime_arg_extract {field} from %n : <{ty}> -> {result}
               %v = ktdp.construct_memory_view %x, sizes: [1], strides: [1] : memref<1x{result}>
               memref.store %i, %v[%c0] : memref<1x{result}>
               return
             }}"
        ))
    };
    let ty = "index, granularity=32, upperbound=300";
    for (field, want) in [("value", 64), ("granularity", 32), ("upperbound", 300)] {
        let m = of(ty, field, "index").unwrap();
        check_round_trip(&m);
        let x = zellige_ktir::KtirArray {
            elem: zellige_ktir::KtirElem::I64,
            shape: vec![1],
            bytes: vec![0; 8],
        };
        let run = KtirRun::new(&m, "f").with_scalar("n", KtirScalar::Int(64)).with_array("x", x);
        let outcome = run.execute_kernel().unwrap();
        assert_eq!(outcome.arrays["x"].bytes, i64::to_le_bytes(want), "{field}");
    }
    let message = |ty, field, result| of(ty, field, result).unwrap_err().message;
    assert!(message("index", "granularity", "index").contains("has no granularity"));
    assert!(message("i32, granularity=4", "value", "index").contains("value is i32"));
    for bad in ["index, granularity=0", "index, upperbound=-1", "index, granularity=x"] {
        let d = of(bad, "value", "index").unwrap_err();
        let shown = format!("{} {}", d.message, d.help.unwrap_or_default());
        assert!(shown.contains("whole number above 0"), "{bad}: {shown}");
    }
    assert!(of(ty, "size", "index").is_err());
}

#[test]
fn cores_have_numbers() {
    let text = "func.func @f(%x: index) attributes {grid = [2, 3]} {
        %a, %b = ktdp.get_compute_tile_id : index, index
        %id = ktdp.coreid %a, %b : index
        %v = ktdp.construct_memory_view %x, sizes: [6], strides: [1] : memref<6xindex>
        memref.store %id, %v[%id] : memref<6xindex>
        return
      }";
    let m = module(text);
    check_round_trip(&m);
    let x = zellige_ktir::KtirArray {
        elem: zellige_ktir::KtirElem::I64,
        shape: vec![6],
        bytes: vec![0; 48],
    };
    let outcome = KtirRun::new(&m, "f").with_array("x", x).execute_kernel().unwrap();
    let want: Vec<u8> = (0..6_i64).flat_map(i64::to_le_bytes).collect();
    assert_eq!(outcome.arrays["x"].bytes, want);
}

#[test]
fn a_lenient_run_lets_pass_what_upstream_lets_pass() {
    // Two cores write the same value to element 0; the tile of core 1 reaches beyond the view.
    let text = "func.func @f(%x: index) attributes {grid = [2]} {
        %pid = ktdp.get_compute_tile_id : index
        %c0 = arith.constant 0 : index
        %v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] : memref<4xf16>
        %c3 = arith.constant 3 : index
        %at = arith.muli %pid, %c3 : index
        %t = ktdp.construct_access_tile %v[%at] : memref<4xf16> -> !ktdp.access_tile<2xindex>
        %a = ktdp.load %t : !ktdp.access_tile<2xindex> -> tensor<2xf16>
        %one = arith.constant dense<1.0> : tensor<2xf16>
        %b = arith.addf %a, %one : tensor<2xf16>
        ktdp.store %b, %t : tensor<2xf16>, !ktdp.access_tile<2xindex>
        %u = ktdp.construct_access_tile %v[%c0] : memref<4xf16> -> !ktdp.access_tile<1xindex>
        %z = arith.constant dense<7.0> : tensor<1xf16>
        ktdp.store %z, %u : tensor<1xf16>, !ktdp.access_tile<1xindex>
        return
      }";
    let m = module(text);
    let run = || KtirRun::new(&m, "f").with_array("x", halves(&[4], &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(run().execute_kernel().unwrap_err().fault.kind(), "out_of_bounds");
    let lenient = run().with_scalar("unknown", KtirScalar::Int(1)).with_compatibility(true);
    let outcome = lenient.execute_kernel().unwrap();
    same(&read(&outcome, "x"), &[7.0, 3.0, 3.0, 5.0]);
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert!(outcome.warnings[0].contains("element 0 of `x`"), "{:?}", outcome.warnings);
}
