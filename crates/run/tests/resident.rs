//! Runs on tensors of the card give what runs on tensors of the host do.

use zellige_compile::{CompilerOptions, compile_graph};
use zellige_device::{Card, StreamId, Tensor};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_run::{HostArray, LoadedModel};

const GRAPH: &str =
    "graph mlp(x: float32[5, 70], w: float32[9, 70] @weight, b: float32[9] @weight) {
    h = linear(x, w, b)
    y = gelu(h)
    z = transpose(y, dim0=0, dim1=1)
    s = sum(y, dim=[1])
    return y, z, s, x
}";

fn numbers(n: i64) -> Vec<f32> {
    (0..n).map(|i| ((i * 37) % 19) as f32 / 8.0 - 1.0).collect()
}

fn host(size: &[i64]) -> HostArray {
    HostArray::from_f32(size, &numbers(size.iter().product()))
}

fn on_card(card: &Card, size: &[i64]) -> Tensor {
    let bytes: Vec<u8> =
        numbers(size.iter().product()).iter().flat_map(|x| x.to_le_bytes()).collect();
    let strided = StridedLayout::new_contiguous(size).expect("a small size");
    Tensor::upload(card, &bytes, &strided, Dtype::Float32, None).expect("it fits").0
}

fn size(name: &str) -> &'static [i64] {
    match name {
        "x" => &[5, 70],
        "w" => &[9, 70],
        _ => &[9],
    }
}

#[test]
fn outputs_are_those_of_the_host_run() {
    let program =
        compile_graph(&zellige_graph::text::parse(GRAPH).unwrap(), &CompilerOptions::default())
            .unwrap();
    let card = Card::builder().build().unwrap();
    let mut there =
        LoadedModel::load_program(program.clone(), &card, |name| Ok(host(size(name)))).unwrap();
    let want = there.run_program(|name| Ok(host(size(name)))).unwrap().outputs;
    let mut here =
        LoadedModel::load_resident(program, &card, |name, _| Ok(on_card(&card, size(name))))
            .unwrap();
    let x = on_card(&card, size("x"));
    let before = x.download(Dtype::Float32).unwrap();
    let busy = card.stats().busy;
    for round in 0..2 {
        let before = card.stream_time(StreamId::DEFAULT);
        let got = here.run_resident(StreamId::DEFAULT, &[], |_| Ok(x.clone()), || true).unwrap();
        // The clock of a stream has what the card does, and no launches.
        let (latency, launches) = (here.program().latency(), here.program().launch_time());
        let took = card.stream_time(StreamId::DEFAULT) - before;
        assert!(took >= latency - launches, "waves are in the accounts");
        assert_eq!(got.len(), want.len());
        for (i, (g, w)) in got.iter().zip(&want).enumerate() {
            assert!(g.is_base() && g.block() != x.block(), "output {i} is a tensor of its own");
            let differs =
                g.download(Dtype::Float32).unwrap().iter().zip(w.bytes()).position(|(a, b)| a != b);
            assert_eq!(differs, None, "output {i} in round {round}: the first byte that differs");
        }
    }
    assert_eq!(x.download(Dtype::Float32).unwrap(), before, "inputs stay as they are");
    assert!(card.stats().busy > busy, "the run is in the accounts");
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let program =
        compile_graph(&zellige_graph::text::parse(GRAPH).unwrap(), &CompilerOptions::default())
            .unwrap();
    let card = Card::builder().build().unwrap();
    let other = Card::builder().index(1).build().unwrap();
    let mut model =
        LoadedModel::load_resident(program, &card, |name, _| Ok(on_card(&card, size(name))))
            .unwrap();
    for wrong in [on_card(&card, &[5, 71]), on_card(&other, &[5, 70])] {
        let error =
            model.run_resident(StreamId::DEFAULT, &[], |_| Ok(wrong.clone()), || true).unwrap_err();
        assert!(error.to_string().contains("input `x`"), "{error}");
    }
}

#[test]
fn states_change_where_they_are() {
    let text = "graph step(cache: float32[8, 70] @state, x: float32[2, 70]) {
        next = slice_scatter(cache, x, dim=0, start=3, end=5, step=1)
        s = sum(next, dim=[1])
        return next, s
    }";
    let program =
        compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::default())
            .unwrap();
    let card = Card::builder().build().unwrap();
    let mut model =
        LoadedModel::load_resident(program.clone(), &card, |_, _| panic!("there are no weights"))
            .unwrap();
    let (cache, x) = (on_card(&card, &[8, 70]), on_card(&card, &[2, 70]));
    let used = card.memory().stats().allocated;
    let given = |name: &str| Ok(if name == "x" { x.clone() } else { cache.clone() });
    let states = [("cache".to_string(), 0)];
    let got = model.run_resident(StreamId::DEFAULT, &states, given, || true).unwrap();
    assert_eq!(got.len(), 1, "a state is no output");
    let row = |t: &Tensor, i: usize| {
        let bytes = t.download(Dtype::Float32).unwrap();
        bytes[i * 280..(i + 1) * 280].to_vec()
    };
    assert_eq!(row(&cache, 3), row(&x, 0));
    assert_eq!(row(&cache, 4), row(&x, 1));
    assert_eq!(row(&cache, 5), row(&on_card(&card, &[8, 70]), 5), "the rest is as it was");
    drop(got);
    assert_eq!(card.memory().stats().allocated, used, "a model keeps no states of others");
    // A view of a larger tensor has another layout: its next value is copied there.
    let larger = on_card(&card, &[9, 70]);
    let part = larger.view_with(|v| v.slice_dim(0, Some(1), Some(9), 1)).unwrap();
    let given = |name: &str| Ok(if name == "x" { x.clone() } else { part.clone() });
    model.run_resident(StreamId::DEFAULT, &states, given, || true).unwrap();
    assert_eq!(row(&larger, 4), row(&x, 0));
    assert_eq!(row(&larger, 6), row(&on_card(&card, &[9, 70]), 6));
    let wrong = [("cache".to_string(), 7)];
    let error = model.run_resident(StreamId::DEFAULT, &wrong, given, || true).unwrap_err();
    assert!(error.to_string().contains("output 7"), "{error}");
}

#[test]
fn a_run_can_be_ended_and_leaves_nothing() {
    let program =
        compile_graph(&zellige_graph::text::parse(GRAPH).unwrap(), &CompilerOptions::default())
            .unwrap();
    let card = Card::builder().build().unwrap();
    let mut model =
        LoadedModel::load_resident(program, &card, |name, _| Ok(on_card(&card, size(name))))
            .unwrap();
    let x = on_card(&card, size("x"));
    let used = card.memory().stats().allocated;
    for steps in 0..2 {
        let mut left = steps;
        let go_on = || {
            left -= 1;
            left >= 0
        };
        let ended = model.run_resident(StreamId::DEFAULT, &[], |_| Ok(x.clone()), go_on);
        assert!(ended.unwrap_err().to_string().contains("ended before step"), "{steps} steps");
        assert_eq!(card.memory().stats().allocated, used, "after {steps} steps");
    }
    assert!(model.run_resident(StreamId::DEFAULT, &[], |_| Ok(x.clone()), || true).is_ok());
}
