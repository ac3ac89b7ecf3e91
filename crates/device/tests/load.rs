//! Random work from several threads beside a plain model: vectors of numbers on the host.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, bytes_of, read, rounded, wrapped};
use serde_json::Value;
use zellige_device::RunOp;
use zellige_device::{Card, StreamId, Tensor};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_machine::WorkKind;
use zellige_op::TensorOp;
use zellige_stick::LayoutRequest;

/// A tensor and what it must hold.
struct Held {
    tensor: Tensor,
    model: Vec<f64>,
}

/// What one element of a tensor becomes.
fn stored(tensor: &Tensor, value: f64) -> f64 {
    let format = tensor.format();
    if format.is_float() { rounded(value, format) } else { wrapped(value, format) }
}

/// The plain definition of an operation on two numbers.
type Plain = fn(f64, f64) -> f64;

/// Exact operations of the table with their plain definition.
const OPS: [(&str, Plain); 5] = [
    ("add", |a, b| a + b),
    ("sub", |a, b| a - b),
    ("mul", |a, b| a * b),
    ("maximum", f64::max),
    ("minimum", f64::min),
];

/// A thread's tensors and its own random choices.
struct Client {
    card: Card,
    rng: Rng,
    stream: StreamId,
    held: Vec<Held>,
    ops: Vec<(TensorOp, Plain)>,
}

impl Client {
    fn new(card: &Card, seed: u64) -> Client {
        let known = |name: &str| TensorOp::all_rows().any(|e| e.name == name);
        let ops = OPS.into_iter().filter(|(name, _)| known(name));
        let stream = StreamId::new(u32::try_from(seed % 65).unwrap()).unwrap();
        let ops = ops.map(|(name, f)| (TensorOp::new(name, &Value::Null).unwrap(), f)).collect();
        Client { card: card.clone(), rng: Rng::new(seed), stream, held: Vec::new(), ops }
    }

    fn integers(&mut self, n: i64) -> Vec<f64> {
        (0..n).map(|_| self.rng.below(33) as f64 - 16.0).collect()
    }

    fn pick(&mut self) -> Option<usize> {
        (!self.held.is_empty()).then(|| self.rng.below(self.held.len()))
    }

    fn upload(&mut self, size: &[i64]) {
        let dtype = [Dtype::Float16, Dtype::Int32, Dtype::Bfloat16][self.rng.below(3)];
        let numbers = self.integers(size.iter().product());
        let rank = i64::try_from(size.len()).unwrap();
        let mut order: Vec<i64> = (0..rank).collect();
        self.rng.shuffle(&mut order);
        if self.rng.chance(5) {
            order.push(-1);
        }
        let request = match rank {
            0 => None,
            _ if self.rng.chance(2) => None,
            _ => Some(LayoutRequest::Order(order)),
        };
        let host = StridedLayout::new_contiguous(size).unwrap();
        let bytes = bytes_of(&numbers, dtype);
        let (tensor, moved) =
            Tensor::upload_as(&self.card, &bytes, (&host, dtype), dtype, request.as_ref()).unwrap();
        self.card
            .account_work(self.stream, &moved.device_work("upload", WorkKind::Upload, 1))
            .unwrap();
        let model = numbers.iter().map(|v| stored(&tensor, *v)).collect();
        self.held.push(Held { tensor, model });
    }

    /// Runs an operation on a tensor and itself or a part of it that broadcasts.
    fn operate(&mut self, at: usize) {
        let (op, f) = self.ops[self.rng.below(self.ops.len())].clone();
        let a = &self.held[at];
        let other = match a.tensor.size() {
            [n, ..] if *n > 1 && self.rng.chance(2) => {
                a.tensor.view_with(|v| v.slice_dim(0, Some(0), Some(1), 1))
            }
            _ => Ok(a.tensor.clone()),
        };
        let other = other.unwrap();
        let cores = 1 + self.rng.below(32);
        let inputs = [a.tensor.clone(), other];
        let ran = op.run_in_stream(&self.card, self.stream, &inputs, cores).unwrap();
        let out = ran.outputs[0].clone();
        let (size, small) = (out.size().to_vec(), inputs[1].size().to_vec());
        let model = (0..a.model.len())
            .map(|i| stored(&out, f(a.model[i], a.model[broadcast_index(i, &size, &small)])));
        let model: Vec<f64> = model.collect();
        // Products grow without end; those that left the exact range start anew.
        if model.iter().all(|v| v.abs() < 4096.0) {
            self.held.push(Held { tensor: out, model });
        } else {
            common::holds(&out, &model);
        }
    }

    fn step(&mut self) {
        let choice = self.rng.below(20);
        match (choice, self.pick()) {
            (0..=4, _) | (_, None) => {
                let rank = self.rng.below(4);
                let size: Vec<i64> = self.rng.size(rank);
                let elements: i64 = size.iter().product();
                let size = if elements < 8000 { size } else { vec![elements % 8000] };
                self.upload(&size);
            }
            (5..=6, Some(at)) => {
                // Another layout of the same elements.
                let t = &self.held[at].tensor;
                let copy = Tensor::empty(&self.card, t.size(), t.dtype()).unwrap();
                let moved = copy.copy_from(t).unwrap();
                self.card
                    .account_work(self.stream, &moved.device_work("copy", WorkKind::Copy, 8))
                    .unwrap();
                let model = self.held[at].model.clone();
                self.held.push(Held { tensor: copy, model });
            }
            (7, Some(at)) => {
                let value = self.rng.below(100) as f64 - 50.0;
                let held = &mut self.held[at];
                // An operand of an older result may share nothing with it.
                held.tensor.fill(value).unwrap();
                held.model.fill(stored(&held.tensor, value));
            }
            (8, Some(at)) => common::holds(&self.held[at].tensor, &self.held[at].model),
            (9, Some(at)) => {
                // A job of the stream holds the tensor after everybody else let go of it.
                let Held { tensor, model } = self.held.swap_remove(at);
                let work =
                    zellige_machine::OperationWork::new("check", WorkKind::Other, Vec::new());
                let job = move || {
                    assert_eq!(read(&tensor), model);
                    Ok(())
                };
                self.card.submit_work(self.stream, &work, job).unwrap();
            }
            (10..=12, Some(at)) => drop(self.held.swap_remove(at)),
            (_, Some(at)) => self.operate(at),
        }
        while self.held.len() > 24 {
            let at = self.rng.below(self.held.len());
            let last = self.held.swap_remove(at);
            common::holds(&last.tensor, &last.model);
        }
    }
}

/// Runs `steps` steps in all on `threads` threads and checks that nothing is left.
fn load(threads: usize, steps: usize, seed: u64) {
    let card = Card::builder().host_threads(1).build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let card = &card;
            scope.spawn(move || {
                let mut client = Client::new(card, seed + thread as u64);
                for _ in 0..steps / threads {
                    client.step();
                }
                for held in &client.held {
                    common::holds(&held.tensor, &held.model);
                }
                card.synchronize_stream(client.stream).unwrap();
            });
        }
    });
    card.synchronize_all().unwrap();
    let stats = card.stats();
    assert!(stats.operations > steps as u64 / 2, "{} of {steps} steps", stats.operations);
    assert_eq!((stats.memory.allocated, stats.memory.reserved, stats.memory.blocks), (0, 0, 0));
    assert_eq!(stats.memory.fragmentation(), 0.0, "free memory is in one piece again");
    assert_eq!(stats.memory.free, stats.memory.capacity);
}

#[test]
fn ten_thousand_steps_on_four_threads_agree_with_a_model() {
    load(4, 10_000, 11);
}

#[test]
#[ignore = "./test --long runs it: minutes"]
fn long_a_million_steps_agree_with_a_model() {
    for seed in 0..10 {
        load(8, 100_000, 1000 * seed);
    }
}
