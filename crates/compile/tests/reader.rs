//! Bundles, run by a reader that knows nothing but the form.
//!
//! Every kernel is computed from its file alone: loops, slices, start addresses, gaps, scales and masks decide which
//! bytes of memory are combined. Memory that was never written holds garbage, so that a kernel that reads a wrong
//! place, or padding that is not what it has to be, shows in the result. The numbers are compared with those of the
//! simulated card, which runs the program and not the bundle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of small graphs")]

mod common;

use common::noise;
use serde_json::Value;
use std::collections::HashMap;
use zellige_compile::emit::{self, BufferAddress, KernelAddressing, MemoryMap};
use zellige_compile::{
    BufferLocation, CompiledProgram, CompilerOptions, ElementOrigin, StepAction, compile_graph,
};
use zellige_device::{Card, RunOp, Tensor, TensorLayout, WorkDivision};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_machine::Hardware;

/// What memory holds that was never written.
const GARBAGE: f64 = 777.25;

/// A memory of its own: device memory, or the scratchpad of a core.
type Place3 = (Option<usize>, u64);

#[derive(Default)]
struct Machine {
    memory: HashMap<Place3, f64>,
}

/// A tensor of a kernel, as the file describes it.
struct Arg<'a> {
    lx: bool,
    starts: &'a Value,
    /// Per dimension of the kernel: elements from one iteration to the next (of the stick: from one stick to the
    /// next), and the places that there are.
    steps: Vec<(usize, usize)>,
    stick: usize,
    eps: usize,
    width: u64,
}

struct Kernel<'a> {
    dsc: &'a Value,
    top: &'a Value,
    dims: Vec<String>,
    all: Vec<usize>,
    own: Vec<usize>,
    args: Vec<Arg<'a>>,
    name: &'a str,
}

fn count(v: &Value) -> usize {
    usize::try_from(v.as_i64().unwrap()).unwrap()
}

impl<'a> Kernel<'a> {
    fn new(json: &'a Value) -> Kernel<'a> {
        let (_, top) = json.as_object().unwrap().iter().next().unwrap();
        let (name, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
        let sizes = |v: &Value| -> Vec<(String, usize)> {
            let fields = v.as_object().unwrap().iter().filter(|(k, _)| *k != "name_");
            fields.map(|(k, v)| (k.trim_end_matches('_').to_string(), count(v))).collect()
        };
        let (dims, all): (Vec<String>, Vec<usize>) = sizes(&dsc["N_"]).into_iter().unzip();
        let own: Vec<usize> =
            sizes(&dsc["dataStageParam_"]["0"]["ss_"]).into_iter().map(|s| s.1).collect();
        let mut kernel = Kernel { dsc, top, dims, all, own, args: Vec::new(), name };
        for i in 0..dsc["scheduleTree_"].as_array().unwrap().len() {
            let arg = kernel.arg(i);
            kernel.args.push(arg);
        }
        kernel
    }

    fn dim(&self, label: &Value) -> usize {
        self.dims.iter().position(|d| label == d).unwrap()
    }

    fn arg(&self, i: usize) -> Arg<'a> {
        let (node, lds) = (&self.dsc["scheduleTree_"][i], &self.dsc["labeledDs_"][i]);
        let info = &self.dsc["primaryDsInfo_"][lds["dsType_"].as_str().unwrap()];
        let order: Vec<usize> =
            info["layoutDimOrder_"].as_array().unwrap().iter().map(|d| self.dim(d)).collect();
        let scale: HashMap<usize, i64> = order
            .iter()
            .zip(lds["scale_"].as_array().unwrap())
            .map(|(d, s)| (*d, s.as_i64().unwrap()))
            .collect();
        let (stick, eps) = (self.dim(&info["stickDimOrder_"][0]), count(&info["stickSize_"][0]));
        let lx = node["component_"] == "lx";
        let core = count(&self.dsc["coreIdsUsed_"][0]).to_string();
        let mut steps = vec![(0, usize::MAX); self.dims.len()];
        let mut run = eps;
        for d in node["layoutDimOrder_"].as_array().unwrap() {
            let dim = self.dim(d);
            if scale[&dim] != 1 {
                continue;
            }
            let gaps = &node["backGapCore_"][self.dims[dim].as_str()];
            let gap = &gaps[if lx { core.as_str() } else { "-1" }];
            let gap: i64 = gap.as_str().map_or(0, |g| g.parse().unwrap());
            let loops = if lx { self.own[dim] } else { self.all[dim] };
            let there = usize::try_from(i64::try_from(loops).unwrap() + gap).unwrap();
            steps[dim] = (run, there);
            run *= if dim == stick { there.div_ceil(eps) } else { there };
        }
        if scale.get(&stick).is_none_or(|s| *s != 1) {
            steps[stick] = (0, usize::MAX);
        }
        let starts = &node["startAddressCoreCorelet_"]["data_"];
        Arg { lx, starts, steps, stick, eps, width: count(&lds["wordLength"]) as u64 }
    }

    /// Where an argument has the element of an iteration of a core; none past the end of a dimension.
    fn place(&self, arg: &Arg<'_>, core: usize, first: &[usize], at: &[usize]) -> Option<Place3> {
        let start: u64 = arg.starts[format!("[{core}, 0, 0]")].as_str().unwrap().parse().unwrap();
        let mut element = 0;
        for (d, (step, there)) in arg.steps.iter().enumerate() {
            let whole = if arg.lx { at[d] } else { first[d] + at[d] };
            if *step == 0 {
                continue;
            }
            if whole >= *there {
                return None;
            }
            element += if d == arg.stick {
                at[d] / arg.eps * step + at[d] % arg.eps
            } else {
                at[d] * step
            };
        }
        Some((arg.lx.then_some(core), start + element as u64 * arg.width))
    }
}

/// Calls with every coordinate below the sizes.
fn each(size: &[usize], mut f: impl FnMut(&[usize])) {
    let mut at = vec![0; size.len()];
    loop {
        f(&at);
        let Some(d) = (0..size.len()).rev().find(|d| at[*d] + 1 < size[*d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

impl Machine {
    fn read(&self, place: Option<Place3>) -> f64 {
        place.and_then(|p| self.memory.get(&p)).copied().unwrap_or(GARBAGE)
    }

    fn run(&mut self, json: &Value) {
        let k = Kernel::new(json);
        let mut written: HashMap<Place3, f64> = HashMap::new();
        let function = k.name.trim_end_matches("nonstick");
        let reduces = ["sum", "mean", "max", "min"].contains(&function);
        let product = function == "batchmatmul";
        let masks = &k.dsc["coordinateMasking_"];
        let valid: Vec<usize> = (0..k.dims.len())
            .map(|d| match &masks[k.dims[d].as_str()] {
                Value::Null => k.all[d],
                list => count(&list[0][0]),
            })
            .collect();
        let out = k.args.len() - 1;
        let op = &k.dsc["computeOp_"][0];
        let named = |v: &Value| -> usize {
            v.as_str().unwrap().split("idx").last().unwrap().parse().unwrap()
        };
        let index = op["indirectAccessIndexLabeledDs"].as_array().map(|l| named(&l[0]));
        let value = index.map(|_| {
            let nodes = k.dsc["scheduleTree_"].as_array().unwrap();
            nodes.iter().position(|n| n["indirectAllocType_"] == "value_tensor").unwrap()
        });
        let constants = &k.dsc["constantInfo_"];
        assert!(constants == "{}" || !masks.as_object().unwrap().is_empty(), "{}", k.name);
        let inputs: Vec<usize> = (0..out).filter(|i| Some(*i) != index).collect();
        for core in k.dsc["coreIdsUsed_"].as_array().unwrap() {
            let core = count(core);
            let slice = &k.top["coreIdToWkSlice_"][core.to_string()];
            let first: Vec<usize> =
                (0..k.dims.len()).map(|d| count(&slice[k.dims[d].as_str()]) * k.own[d]).collect();
            each(&k.own, |at| {
                let masked = (0..at.len()).any(|d| first[d] + at[d] >= valid[d]);
                if reduces && masked {
                    return;
                }
                // What is looked up has the index in the place of the loop's number.
                let looked_up = value.map(|v| {
                    let arg = &k.args[index.unwrap()];
                    let found = self.read(k.place(arg, core, &first, at));
                    let node = &k.dsc["scheduleTree_"][v];
                    let by = node["maxDimSizes_"].as_array().unwrap();
                    let by = by.iter().position(|n| *n == 1).unwrap();
                    let d = k.dim(&node["layoutDimOrder_"][by]);
                    let mut at = at.to_vec();
                    at[d] = found as usize;
                    (v, at)
                });
                let place = |t: usize| match &looked_up {
                    Some((v, own)) if *v == t => k.place(&k.args[t], core, &first, own),
                    _ => k.place(&k.args[t], core, &first, at),
                };
                let Some(to) = place(out) else { return };
                let x: Vec<f64> = inputs.iter().map(|t| self.read(place(*t))).collect();
                if product {
                    *written.entry(to).or_insert(0.0) += x[0] * x[1];
                } else if reduces {
                    let so_far = written.entry(to).or_insert(match function {
                        "max" => f64::NEG_INFINITY,
                        "min" => f64::INFINITY,
                        _ => 0.0,
                    });
                    *so_far = match function {
                        "max" => so_far.max(x[0]),
                        "min" => so_far.min(x[0]),
                        _ => *so_far + x[0],
                    };
                } else {
                    written.insert(to, computed(function, &x));
                }
            });
        }
        if function == "mean" {
            let steps = &k.args[out].steps;
            let reduced = (0..k.dims.len()).filter(|d| steps[*d].0 == 0);
            let n: usize = reduced.map(|d| valid[d]).product();
            written.values_mut().for_each(|x| *x /= n as f64);
        }
        self.memory.extend(written);
    }
}

fn computed(function: &str, x: &[f64]) -> f64 {
    let truth = |b: bool| if b { 1.0 } else { 0.0 };
    match function {
        "identity" | "ReStickifyOpHBM" => x[0],
        "add" => x[0] + x[1],
        "sub" => x[0] - x[1],
        "mul" => x[0] * x[1],
        "realdiv" => x[0] / x[1],
        "maximum" => x[0].max(x[1]),
        "exp" => x[0].exp(),
        "log" => x[0].ln(),
        "neg" => -x[0],
        "rsqrt" => 1.0 / x[0].sqrt(),
        "relufwd" => x[0].max(0.0),
        "silu" => x[0] / (1.0 + (-x[0]).exp()),
        "where3" => {
            if x[0] != 0.0 {
                x[1]
            } else {
                x[2]
            }
        }
        "greaterequal" => truth(x[0] >= x[1]),
        other => panic!("the reader has no function {other}"),
    }
}

/// The places of a tensor's elements in its block, in row-major order.
fn places(laid: &TensorLayout) -> Vec<u64> {
    let size: Vec<usize> = laid.size().iter().map(|n| usize::try_from(*n).unwrap()).collect();
    let layout = laid.element_layout().unwrap();
    let width = laid.format().byte_size() as u64;
    let mut list = Vec::new();
    each(&size, |at| {
        let at: Vec<i64> = at.iter().map(|n| i64::try_from(*n).unwrap()).collect();
        let place = layout.apply_to_coordinate(laid.size(), &at).unwrap();
        let element = place.sorted_coordinates()[0].get(zellige_layout::Axis::M);
        list.push(u64::try_from(element).unwrap() * width);
    });
    list
}

/// The inputs of a program: indices count down from the largest requested one.
fn given(program: &CompiledProgram, largest: i64) -> Vec<Vec<f32>> {
    let of = |(k, id): (usize, &zellige_compile::BufferId)| {
        let laid = &program.buffer(*id).laid;
        let n = usize::try_from(laid.numel()).unwrap();
        match laid.dtype() {
            Dtype::Int64 => (0..n).map(|i| (largest - 2 * i as i64).max(0) as f32).collect(),
            _ => noise(n, k as u64 + 1),
        }
    };
    program.inputs.iter().enumerate().map(of).collect()
}

/// Every step on the simulated card; the outputs.
fn on_card(program: &CompiledProgram, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let card = Card::new(0, Hardware::card_preset()).unwrap();
    let mut tensors: Vec<Tensor> = Vec::new();
    for b in &program.buffers {
        tensors.push(match b.place {
            BufferLocation::Over(under) if under.0 < tensors.len() => tensors[under.0].clone(),
            _ => Tensor::zeros(&card, b.laid.dtype(), b.laid.stick_layout()).unwrap(),
        });
    }
    for (i, b) in program.buffers.iter().enumerate() {
        if let ElementOrigin::Constant(value) = b.origin {
            tensors[i].fill(value).unwrap();
        }
    }
    for (id, values) in program.inputs.iter().zip(inputs) {
        let laid = &program.buffer(*id).laid;
        let host = StridedLayout::new_contiguous(laid.size()).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors[id.0].write_from(&bytes, &host, Dtype::Float32).unwrap();
    }
    for step in &program.steps {
        let ins: Vec<Tensor> = step
            .reads
            .iter()
            .map(|r| tensors[r.buffer.0].view_with(|_| Ok(r.laid.view().clone())).unwrap())
            .collect();
        let outs: Vec<Tensor> = step.writes.iter().map(|b| tensors[b.0].clone()).collect();
        match &step.action {
            StepAction::Op(_, op) => {
                let division: Option<&WorkDivision> = step.space.as_ref().map(|_| &step.division);
                op.launch_op(&card, &ins, &outs, division, program.options.cores).unwrap();
            }
            StepAction::Move { .. } => {
                outs[0].copy_and_pad(&ins[0], 0.0).unwrap();
            }
            StepAction::Host(..) => panic!("the host has no part in this"),
        }
    }
    let numbers = |read: &zellige_compile::BufferRead| -> Vec<f32> {
        let seen = tensors[read.buffer.0].view_with(|_| Ok(read.laid.view().clone())).unwrap();
        let bytes = seen.download(Dtype::Float32).unwrap();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    program.outputs.iter().map(numbers).collect()
}

/// Every kernel of the bundles by the reader; the outputs.
fn by_reader(name: &str, program: &CompiledProgram, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let map = MemoryMap::new(program);
    let mut machine = Machine::default();
    let base = |address: BufferAddress| address.planned_address().unwrap();
    let mut put = |at: u64, laid: &TensorLayout, values: &[f32]| {
        // What is transferred has zeros in its padding.
        let width = laid.format().byte_size() as u64;
        for byte in (0..u64::try_from(laid.stick_layout().device_bytes().unwrap()).unwrap())
            .step_by(width as usize)
        {
            machine.memory.insert((None, at + byte), 0.0);
        }
        for (place, value) in places(laid).iter().zip(values.iter().cycle()) {
            machine.memory.insert((None, at + place), f64::from(*value));
        }
    };
    for (id, values) in program.inputs.iter().zip(inputs) {
        put(base(map.buffer_address(*id)), &program.buffer(*id).laid, values);
    }
    for (i, b) in program.buffers.iter().enumerate() {
        if let ElementOrigin::Constant(value) = b.origin {
            put(
                base(map.buffer_address(zellige_compile::BufferId(i))),
                &b.laid,
                &[value.to_f64() as f32],
            );
        }
    }
    let emitted = emit::emit_program(program, &emit::EmitOptions::default()).unwrap();
    let host: Value = serde_json::from_str(emitted.file_text("host.json").unwrap()).unwrap();
    for table in host["workspace"]["tables"].as_array().into_iter().flatten() {
        let at: u64 = table["offset"].as_str().unwrap().parse().unwrap();
        let at = at + base(map.workspace_address());
        let ints = |v: &Value| -> Vec<i64> {
            v.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect()
        };
        let format =
            zellige_stick::DataFormat::from_name(table["device_dtype"].as_str().unwrap()).unwrap();
        let size = ints(&table["size"]);
        let layout = zellige_stick::StickLayout::from_size_and_stride_map(
            &ints(&table["device_size"]),
            &ints(&table["stride_map"]),
            format,
        );
        let layout = layout.unwrap().with_host(&size, None).unwrap();
        let dtype = Dtype::from_name(table["dtype"].as_str().unwrap()).unwrap();
        let laid = TensorLayout::new(program.options.storage, dtype, &layout).unwrap();
        put(at, &laid, &held(&table["holds"], &size));
    }
    for bundle in emit::superdsc::build_bundles(program, &map, KernelAddressing::Concrete) {
        assert!(bundle.refused.is_empty(), "{name}: {:?}", bundle.refused);
        for kernel in &bundle.kernels {
            machine.run(&kernel.json);
        }
    }
    let numbers = |read: &zellige_compile::BufferRead| -> Vec<f32> {
        let at = base(map.buffer_address(read.buffer));
        places(&read.laid).iter().map(|p| machine.read(Some((None, at + p))) as f32).collect()
    };
    program.outputs.iter().map(numbers).collect()
}

/// What a table holds: a number, or the lower triangle of ones.
fn held(holds: &Value, size: &[i64]) -> Vec<f32> {
    let n = usize::try_from(size.iter().product::<i64>()).unwrap();
    if let Some(number) = holds["number"].as_f64() {
        return vec![number as f32; n];
    }
    match holds["op"].as_str().unwrap() {
        "ones" => vec![1.0; n],
        "tril" => {
            let of = held(&holds["of"][0], size);
            let columns = usize::try_from(size[size.len() - 1]).unwrap();
            let rows = usize::try_from(size[size.len() - 2]).unwrap();
            let below = |i: usize| i % columns <= i / columns % rows;
            of.iter().enumerate().map(|(i, x)| if below(i) { *x } else { 0.0 }).collect()
        }
        other => panic!("a table of {other}"),
    }
}

fn check_program(name: &str, program: &CompiledProgram, largest: i64) {
    let inputs = given(program, largest);
    let (want, found) = (on_card(program, &inputs), by_reader(name, program, &inputs));
    for (want, found) in want.iter().zip(&found) {
        let most = want.iter().fold(0.1f32, |m, x| m.max(x.abs()));
        for (i, (a, b)) in want.iter().zip(found).enumerate() {
            assert!(
                (a - b).abs() <= 0.03 * most,
                "{name}: element {i} is {a} on the card, and {b} by the bundle"
            );
        }
    }
}

fn check(text: &str, largest: i64) {
    let graph = zellige_graph::text::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    for options in [CompilerOptions::baseline(), CompilerOptions::default()] {
        let program = compile_graph(&graph, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
        check_program(text, &program, largest);
    }
}

#[test]
fn one_function() {
    check("graph g(x: float16[9, 130], y: float16[130]) { z = add(x, y) return z }", 0);
    check("graph g(x: float16[9, 130]) { z = sum(x, dim=1) return z }", 0);
    check("graph g(x: float16[9, 130]) { z = amax(x, dim=0) return z }", 0);
    check("graph g(x: float16[2, 9, 130]) { z = mean(x, dim=[0, 2]) return z }", 0);
    check("graph g(x: float16[9, 128], y: float16[128, 130]) { z = mm(x, y) return z }", 0);
    check("graph g(x: float16[70, 130]) { z = add(x, 1) pin stick 0 return z }", 0);
}

#[test]
fn operations_that_are_several_functions() {
    check("graph g(x: float16[5, 67]) { z = softmax(x, dim=1) return z }", 0);
    check("graph g(x: float16[5, 67]) { z = softmax(x, dim=0) return z }", 0);
    check(
        "graph g(x: float16[4, 130], w: float16[130]) { z = rms_norm(x, w, normalized_shape=[130]) return z }",
        0,
    );
    check(
        "graph g(x: float16[4, 130], w: float16[130], b: float16[130]) {
            z = layer_norm(x, w, b, normalized_shape=[130], eps=0.001) return z }",
        0,
    );
    check("graph g(x: float16[4, 70], y: float16[4, 70]) { z = add(x, y, alpha=0.5) return z }", 0);
    check(
        "graph g(x: float16[5, 64], w: float16[70, 64], b: float16[70]) { z = linear(x, w, b) return z }",
        0,
    );
}

#[test]
fn parts_of_tensors() {
    check("graph g(x: float16[5, 64], y: float16[5, 64]) { z = cat(x, y, dim=1) return z }", 0);
    check("graph g(x: float16[5, 32], y: float16[5, 32]) { z = cat(x, y, dim=1) return z }", 0);
    check("graph g(x: float16[5, 32], y: float16[3, 32]) { z = cat(x, y, dim=0) return z }", 0);
    check(
        "graph g(x: float16[3, 2, 64]) {
            a = slice(x, dim=2, start=0, end=32) b = slice(x, dim=2, start=32, end=64)
            n = neg(b) z = cat(n, a, dim=2) return z }",
        0,
    );
    check("graph g(x: float16[5, 20]) { z = pad(x, pad=[3, 2, 1, 1], value=0.5) return z }", 0);
    check("graph g(x: float16[130]) { z = add(x, 1) pin sparse y = exp(z) return y }", 0);
    check(
        "graph g(x: float16[70, 66], y: float16[70]) { s = sum(x, dim=1) z = add(s, y) return z }",
        0,
    );
    check(
        "graph g(x: float16[6, 2, 130]) { t = transpose(x, dim0=0, dim1=1) r = reshape(t, size=[2, 780]) z = neg(r) return z }",
        0,
    );
}

#[test]
fn images() {
    check(
        "graph g(x: float16[2, 3, 5, 6], w: float16[4, 3, 3, 3]) {
            z = conv2d(x, w, stride=[2, 1], padding=[1, 1]) return z }",
        0,
    );
    check(
        "graph g(x: float16[2, 3, 4, 6]) { z = adaptive_avg_pool2d(x, output_size=[1, 1]) return z }",
        0,
    );
    check("graph g(x: float16[2, 3, 4, 6]) { z = max_pool2d(x, kernel_size=[2, 2]) return z }", 0);
}

#[test]
fn rows_by_index() {
    check("graph g(t: float16[9, 70], i: int64[4]) { z = embedding(t, i) return z }", 8);
    check("graph g(t: float16[9, 70], i: int64[2, 3]) { z = embedding(t, i) return z }", 8);
    check(
        "graph g(x: float16[2, 9, 64], i: int64[1], v: float16[2, 1, 64]) { z = index_copy(x, i, v, dim=1) return z }",
        5,
    );
}

#[test]
fn attention() {
    check(
        "graph g(q: float16[1, 4, 6, 64], k: float16[1, 2, 6, 64], v: float16[1, 2, 6, 64]) {
            z = scaled_dot_product_attention(q, k, v, is_causal=true, enable_gqa=true) return z }",
        0,
    );
}

#[test]
fn sums_over_dimensions_that_are_not_whole_sticks() {
    check("graph g(x: float16[5, 67], y: float16[67, 70]) { z = mm(x, y) return z }", 0);
    check("graph g(x: float16[5, 67], y: float16[67, 70]) { w = exp(y) z = mm(x, w) return z }", 0);
    check(
        "graph g(x: float16[2, 5, 67], y: float16[2, 67, 70]) { w = neg(y) z = bmm(x, w) return z }",
        0,
    );
    check(
        "graph g(x: float16[5, 67], w: float16[70, 67] @weight) { z = linear(x, w) return z }",
        0,
    );
}

#[test]
fn slices_of_different_lengths() {
    let graph = "graph g(x: float16[10, 256], y: float16[10, 256]) { z = mul(x, y) return z }";
    let mut p =
        compile_graph(&zellige_graph::text::parse(graph).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    let space = p.steps[0].space.clone().unwrap();
    p.steps[0].division = WorkDivision::new(&[4, 3], &space, 32).unwrap();
    check_program("uneven", &p, 0);
    let map = MemoryMap::new(&p);
    let bundles = emit::superdsc::build_bundles(&p, &map, KernelAddressing::Concrete);
    // 3 + 3 and 2 + 2 rows, by 2 and 1 + 1 sticks.
    assert_eq!(bundles.iter().map(|b| b.kernels.len()).collect::<Vec<_>>(), [4]);
}

/// An operand in the scratchpads of a step that is several kernels is copied to memory first, by the cores that have
/// it: cores of two split loops count the first one fastest.
#[test]
fn operands_in_scratchpads_are_copied_by_the_cores_that_have_them() {
    check(
        "graph g(x: float16[8, 256], y: float16[8, 256]) {
            h = neg(x) place lx split {c0: 2, c1: 4}
            z = add(h, y, alpha=0.5) split {c0: 2, c1: 4}
            return z }",
        0,
    );
    check(
        "graph g(x: float16[8, 256], y: float16[8, 256]) {
            h = add(x, y, alpha=0.5) place lx split {c0: 2, c1: 4}
            z = neg(h) split {c0: 2, c1: 4}
            return z }",
        0,
    );
}

/// Slices of two lengths are two kernels, and each slice stays on the core that the device gives it: the reader of a
/// result in the scratchpads, which counts its loops in another order, finds it there.
#[test]
fn slices_of_different_lengths_stay_on_their_cores() {
    let text = "graph g(x: float16[8, 256]) {
        h = neg(x) place lx split {c0: 2, c1: 4}
        z = sum(h, dim=0) split {c0: 4, c1: 2}
        return z }";
    let graph = zellige_graph::text::parse(text).unwrap();
    for options in [CompilerOptions::baseline(), CompilerOptions::default()] {
        let mut program = compile_graph(&graph, &options).unwrap();
        check_program("even", &program, 0);
        let h = program.buffers.iter().find(|b| b.name == "h").unwrap();
        assert!(matches!(h.place, BufferLocation::Lx(_)));
        // The rows by 2, and the 4 sticks by 3: one core has two of them. The sum counts columns first, then rows. Then
        // the 8 rows by 3, which a sum cannot add up in one kernel.
        for [first, second] in [[[2, 3], [3, 2]], [[3, 2], [2, 3]]] {
            for (step, splits) in [(0, first), (1, second)] {
                let space = program.steps[step].space.clone().unwrap();
                program.steps[step].division = WorkDivision::new(&splits, &space, 32).unwrap();
            }
            check_program("uneven", &program, 0);
        }
    }
}
