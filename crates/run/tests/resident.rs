//! Runs on tensors of the card give what runs on tensors of the host do.

use zellige_compile::{Options, compile};
use zellige_device::{Card, StreamId, Tensor};
use zellige_layout::{Dtype, Strided};
use zellige_run::{Host, Model};

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

fn host(size: &[i64]) -> Host {
    Host::float32(size, &numbers(size.iter().product()))
}

fn on_card(card: &Card, size: &[i64]) -> Tensor {
    let bytes: Vec<u8> =
        numbers(size.iter().product()).iter().flat_map(|x| x.to_le_bytes()).collect();
    let strided = Strided::contiguous(size).expect("a small size");
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
        compile(&zellige_graph::text::parse(GRAPH).unwrap(), &Options::default()).unwrap();
    let card = Card::builder().build().unwrap();
    let mut there = Model::load(program.clone(), &card, |name| Ok(host(size(name)))).unwrap();
    let want = there.run(|name| Ok(host(size(name)))).unwrap().outputs;
    let mut here =
        Model::load_resident(program, &card, |name, _| Ok(on_card(&card, size(name)))).unwrap();
    let x = on_card(&card, size("x"));
    let before = x.download(Dtype::Float32).unwrap();
    let busy = card.stats().busy;
    for round in 0..2 {
        let got = here.run_resident(StreamId::DEFAULT, |_| Ok(x.clone())).unwrap();
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
        compile(&zellige_graph::text::parse(GRAPH).unwrap(), &Options::default()).unwrap();
    let card = Card::builder().build().unwrap();
    let other = Card::builder().index(1).build().unwrap();
    let mut model =
        Model::load_resident(program, &card, |name, _| Ok(on_card(&card, size(name)))).unwrap();
    for wrong in [on_card(&card, &[5, 71]), on_card(&other, &[5, 70])] {
        let error = model.run_resident(StreamId::DEFAULT, |_| Ok(wrong.clone())).unwrap_err();
        assert!(error.to_string().contains("input `x`"), "{error}");
    }
}
