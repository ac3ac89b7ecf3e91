//! Emitted tile programs, interpreted, against the simulated card.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::noise;
use zellige_compile::emit::CardFloat;
use zellige_compile::emit::ktir::build_kernels;
use zellige_compile::{CompiledProgram, CompilerOptions, StepAction, compile_graph};
use zellige_device::RunOp;
use zellige_device::{Card, Tensor, WorkDivision};
use zellige_float::Dtype;
use zellige_ktir::{KtirArray, KtirElem, KtirOpKind, KtirRun};
use zellige_layout::StridedLayout;
use zellige_machine::Hardware;

fn elem(t: &Tensor) -> KtirElem {
    let known = [KtirElem::F16, KtirElem::F32, KtirElem::DF16];
    known.into_iter().find(|e| e.format() == t.format().arithmetic_format()).unwrap()
}

fn array(t: &Tensor) -> KtirArray {
    let bytes = t.block().lock_for_read().to_vec();
    let elem = elem(t);
    KtirArray { elem, shape: vec![i64::try_from(bytes.len() / elem.byte_size()).unwrap()], bytes }
}

fn numbers(t: &Tensor) -> Vec<f32> {
    let bytes = t.download(Dtype::Float32).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// What the reference interpreter can read and run: it knows no `df16`, gives a loaded tile the shape of its
/// access tile and wants stored ones in it, and has these operations.
const REFERENCE_OPERATIONS: &str = "arith.addf arith.addi arith.andi arith.cmpf arith.cmpi arith.constant \
    arith.divf arith.divsi arith.extf arith.maximumf arith.maxsi arith.minimumf arith.minsi arith.mulf \
    arith.muli arith.negf arith.remsi arith.select arith.subf arith.truncf func.return \
    ktdp.construct_access_tile ktdp.construct_memory_view ktdp.get_compute_tile_id \
    ktdp.inter_tile_produce ktdp.inter_tile_reduce ktdp.load ktdp.store ktdp.yield_partial \
    ktdp.yield_reduced linalg.broadcast linalg.matmul linalg.reduce linalg.transpose math.absf math.ceil \
    math.cos math.erf math.exp math.floor math.log math.log1p math.log2 math.powf math.rsqrt math.sin \
    math.sqrt math.tanh scf.for scf.if scf.yield tensor.collapse_shape tensor.empty tensor.expand_shape \
    tensor.extract tensor.extract_slice tensor.insert_slice tensor.splat";

fn check_reference_subset(text: &str, program: &CompiledProgram) {
    let known: Vec<&str> = REFERENCE_OPERATIONS.split_whitespace().collect();
    for kernel in build_kernels(program, CardFloat::F16).kernels {
        let f = &kernel.module.functions[0];
        f.body().visit_ops(&mut |op| {
            let name = op.kind().name();
            assert!(known.contains(&name) || name == "return", "{text}: {name}");
            let values = op.operands().iter().chain(op.results());
            assert!(
                values.clone().all(|v| f.value_type(*v).elem() != Some(KtirElem::DF16)),
                "{text}: {name}"
            );
            if matches!(op.kind(), KtirOpKind::Load | KtirOpKind::Store) {
                let mut shapes = values.map(|v| f.value_type(*v).shape());
                let first = shapes.next().unwrap();
                assert!(shapes.all(|s| s == first), "{text}: {name} reshapes");
            }
        });
    }
}

/// Runs every step on the card and in KTIR, on the same operands; how far results may differ, relative
/// to the largest of them. Every step is a kernel.
fn compare(text: &str, tolerance: f32, options: &CompilerOptions) {
    let program = compile_graph(&zellige_graph::text::parse(text).unwrap(), options).unwrap();
    compare_program(text, tolerance, &program);
}

fn compare_program(text: &str, tolerance: f32, program: &CompiledProgram) {
    let card = Card::new(0, Hardware::card_preset()).unwrap();
    let tensors: Vec<Tensor> = program
        .buffers
        .iter()
        .map(|b| Tensor::zeros(&card, b.laid.dtype(), b.laid.stick_layout()).unwrap())
        .collect();
    for (i, b) in program.buffers.iter().enumerate() {
        match b.origin {
            zellige_compile::ElementOrigin::Input(_) => {
                let host = StridedLayout::new_contiguous(b.laid.size()).unwrap();
                let n = usize::try_from(b.laid.numel()).unwrap();
                let bytes: Vec<u8> =
                    noise(n, i as u64 + 1).iter().flat_map(|x| x.to_le_bytes()).collect();
                tensors[i].write_from(&bytes, &host, Dtype::Float32).unwrap();
            }
            zellige_compile::ElementOrigin::Constant(value) => {
                tensors[i].fill(value).unwrap();
            }
            _ => {}
        }
    }
    let emitted = build_kernels(program, CardFloat::Df16);
    check_reference_subset(text, program);
    for (s, step) in program.steps.iter().enumerate() {
        let ins: Vec<Tensor> = step
            .reads
            .iter()
            .map(|r| tensors[r.buffer.0].view_with(|_| Ok(r.laid.view().clone())).unwrap())
            .collect();
        let out = &tensors[step.writes[0].0];
        match &step.action {
            StepAction::Op(_, op) => {
                let division = step.space.as_ref().map(|_| &step.division);
                op.launch_op(
                    &card,
                    &ins,
                    std::slice::from_ref(out),
                    division,
                    program.options.cores,
                )
                .unwrap();
            }
            _ => {
                out.copy_from(&ins[0]).unwrap();
            }
        }
        let Some(kernel) = emitted.kernels.iter().find(|k| k.step.0 == s) else { continue };
        let name = kernel.module.functions[0].name().to_string();
        let mut run = KtirRun::new(&kernel.module, &name);
        for (k, t) in ins.iter().enumerate() {
            run = run.with_array(&format!("t{k}"), array(t));
        }
        let blank = Tensor::zeros(&card, out.dtype(), out.stick_layout()).unwrap();
        let outcome = run
            .with_array("out", array(&blank))
            .execute_kernel()
            .unwrap_or_else(|e| panic!("step {s} of {text}: {e}"));
        blank.block().lock_for_write().copy_from_slice(&outcome.arrays["out"].bytes);
        let (found, want) = (numbers(&blank), numbers(out));
        let finite = want.iter().filter(|x| x.is_finite());
        let most = finite.fold(0.0_f32, |m, x| m.max(x.abs())).max(1e-3);
        // A tile kernel is the hardware's: what is past its 16 bits is the merged code there, and saturates
        // in tensors of the card.
        let near = |(a, b): (&f32, &f32)| {
            let past = a.is_nan() && b.is_infinite();
            (a - b).abs() <= tolerance * most || a.to_bits() == b.to_bits() || past
        };
        let bad = found.iter().zip(&want).position(|p| !near(p));
        if let Some(i) = bad {
            panic!("step {s} of {text}: element {i} is {}, not {}", found[i], want[i]);
        }
    }
    assert!(emitted.refused.is_empty(), "{text}: {:?}", emitted.refused);
}

fn all(text: &str, tolerance: f32) {
    for options in
        [CompilerOptions::baseline(), CompilerOptions { cores: 5, ..CompilerOptions::baseline() }]
    {
        compare(text, tolerance, &options);
    }
}

#[test]
fn arithmetic_is_the_card_s_bit_by_bit() {
    for op in ["add", "sub", "mul", "div", "maximum", "minimum"] {
        all(
            &format!(
                "graph g(x: float16[40, 150], y: float16[40, 150]) {{ z = {op}(x, y) return z }}"
            ),
            0.0,
        );
        all(
            &format!("graph g(x: float16[7, 3, 70], y: float16[70]) {{ z = {op}(x, y) return z }}"),
            0.0,
        );
    }
    for op in ["abs", "neg", "relu", "square", "floor", "ceil", "identity", "reciprocal"] {
        all(&format!("graph g(x: float16[33, 200]) {{ z = {op}(x) return z }}"), 0.0);
    }
    for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
        all(
            &format!(
                "graph g(x: float16[33, 64], y: float16[33, 64]) {{ z = {op}(x, y) return z }}"
            ),
            0.0,
        );
    }
    all(
        "graph g(x: float16[9, 64], y: float16[9, 64]) { c = lt(x, y) z = where(c, x, y) return z }",
        0.0,
    );
    all("graph g(x: float16[9, 64]) { z = clamp(x, min=-1, max=0.5) return z }", 0.0);
    all("graph g(x: float16[9, 64]) { z = add(x, 3.5) return z }", 0.0);
}

#[test]
fn functions_agree_within_the_format() {
    let ulp = 1.0 / 256.0;
    for op in ["exp", "tanh", "sigmoid", "silu", "gelu", "sin", "cos", "exp2", "expm1"] {
        all(&format!("graph g(x: float16[33, 96]) {{ z = {op}(x) return z }}"), ulp);
    }
    all("graph g(x: float16[33, 96]) { z = gelu(x, approximate=\"tanh\") return z }", ulp);
    all("graph g(x: float16[33, 96]) { y = exp(x) z = log10(y) return z }", ulp);
    // A relative error shows where results are small.
    all("graph g(x: float16[33, 96]) { y = mul(x, 0.001) z = expm1(y) return z }", ulp);
}

#[test]
fn reductions_and_rows_agree_within_the_format() {
    let ulp = 1.0 / 256.0;
    for op in ["sum", "mean", "amax", "amin"] {
        for dim in ["0", "1", "2", "[0, 2]"] {
            let text =
                format!("graph g(x: float16[6, 20, 150]) {{ z = {op}(x, dim={dim}) return z }}");
            all(&text, ulp);
        }
    }
    all("graph g(x: float16[12, 150]) { z = softmax(x, dim=1) return z }", ulp);
    all("graph g(x: float16[12, 150]) { z = log_softmax(x, dim=1) return z }", ulp);
    let norm = "graph g(x: float16[4, 12, 150], w: float16[150], b: float16[150]) {
        z = layer_norm(x, w, b, normalized_shape=[150]) return z }";
    all(norm, ulp);
    let norm = "graph g(x: float16[12, 128], w: float16[128]) {
        z = rms_norm(x, w, normalized_shape=[128]) return z }";
    all(norm, ulp);
}

#[test]
fn products_agree_within_the_format() {
    let ulp = 1.0 / 256.0;
    all("graph g(x: float16[40, 150], y: float16[150, 130]) { z = mm(x, y) return z }", ulp);
    all("graph g(x: float16[3, 20, 64], y: float16[3, 64, 70]) { z = bmm(x, y) return z }", ulp);
    let linear = "graph g(x: float16[20, 128], w: float16[192, 128], b: float16[192]) {
        z = linear(x, w, b) return z }";
    all(linear, ulp);
}

#[test]
fn cores_share_sums() {
    let text = "graph g(x: float16[40, 330], y: float16[330, 130]) { z = mm(x, y) return z }";
    let mut p =
        compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    for splits in [[2, 1, 3], [4, 3, 2], [1, 1, 6], [3, 2, 4]] {
        let product = p.steps.iter_mut().find(|s| s.space.is_some()).unwrap();
        let space = product.space.clone().unwrap();
        product.division = WorkDivision::new(&splits, &space, 32).unwrap();
        compare_program(text, 1.0 / 256.0, &p);
    }
    let text = "graph g(x: float16[6, 20, 150]) { z = sum(x, dim=1) return z }";
    let mut p =
        compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    for splits in [[2, 1, 4], [6, 3, 1], [5, 2, 3]] {
        let product = p.steps.iter_mut().find(|s| s.space.is_some()).unwrap();
        let space = product.space.clone().unwrap();
        product.division = WorkDivision::new(&splits, &space, 32).unwrap();
        compare_program(text, 1.0 / 256.0, &p);
    }
}

#[test]
fn moves_are_exact() {
    for size in ["250, 96", "128, 256", "3, 70, 65", "5, 64, 3, 130"] {
        for dim in 0..2 {
            let text =
                format!("graph g(x: float16[{size}]) {{ z = neg(x) pin stick {dim} return z }}");
            all(&text, 0.0);
        }
    }
}
