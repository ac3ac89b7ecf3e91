//! Random graphs over all families of operations, with odd shapes.

use serde_json::{Map, Value, json};
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphBuilder, GraphOperand, InputRole, TensorId};
use zellige_stick::LayoutRequest;

/// A small generator with a seed, the same everywhere.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % n.max(1)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

/// A tensor that later operations may use.
#[derive(Clone)]
struct Known {
    id: TensorId,
    size: Vec<i64>,
    dtype: Dtype,
    given: bool,
}

/// A graph that grows.
pub(crate) struct Gen {
    rng: Rng,
    builder: GraphBuilder,
    pool: Vec<Known>,
    count: usize,
    /// The most elements of an input.
    most: i64,
}

/// A random graph of up to `ops` operations.
pub(crate) fn graph(seed: u64, ops: usize) -> Graph {
    let mut g = Gen {
        rng: Rng::new(seed),
        builder: GraphBuilder::new(format!("random{seed}")),
        pool: Vec::new(),
        count: 0,
        most: 6000,
    };
    for _ in 0..ops {
        g.step();
    }
    let made: Vec<Known> = g.pool.iter().filter(|k| !k.given).cloned().collect();
    if made.is_empty() {
        let x = g.float();
        g.op("neg", &[x.id], Value::Null);
    }
    let made: Vec<Known> = g.pool.iter().filter(|k| !k.given).cloned().collect();
    let mut outputs = vec![made.last().unwrap().id];
    for _ in 0..g.rng.below(3) {
        let more = g.rng.of(&made).id;
        if !outputs.contains(&more) {
            outputs.push(more);
        }
    }
    g.builder.finish_graph(&outputs).unwrap()
}

const EXTENTS: &[i64] = &[1, 1, 2, 3, 5, 7, 8, 13, 31, 61, 64, 65, 67, 97, 127, 128, 130, 192];
const UNARY: &[&str] = &[
    "abs",
    "neg",
    "square",
    "sign",
    "exp",
    "exp2",
    "expm1",
    "log1p",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "erf",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "sigmoid",
    "log_sigmoid",
    "relu",
    "gelu",
    "silu",
    "softplus",
    "mish",
    "elu",
    "selu",
    "celu",
    "leaky_relu",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "clone",
    "identity",
    "isnan",
    "isfinite",
    "isinf",
    "logical_not",
    "log2",
    "sqrt",
    "atan",
    "sinh",
];
const BINARY: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "atan2",
    "hypot",
    "logaddexp",
    "copysign",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "fmod",
    "remainder",
    "floor_divide",
    "pow",
];
const FOLDS: &[&str] = &[
    "sum",
    "mean",
    "amax",
    "amin",
    "prod",
    "any",
    "all",
    "count_nonzero",
    "nansum",
    "nanmean",
    "var",
    "std",
    "logsumexp",
    "norm",
    "exx2",
];

impl Gen {
    fn size(&mut self) -> Vec<i64> {
        let rank = match self.rng.below(20) {
            0 => 0,
            1..=3 => 1,
            4..=9 => 2,
            10..=14 => 3,
            15..=17 => 4,
            18 => 5 + self.rng.below(2),
            _ => 7 + self.rng.below(2),
        };
        let mut size: Vec<i64> = Vec::new();
        for _ in 0..rank {
            let left = self.most / size.iter().product::<i64>().max(1);
            let extents = if rank > 4 { &EXTENTS[..5] } else { EXTENTS };
            size.push(self.rng.of(extents).min(left.max(1)));
        }
        if rank > 0 && self.rng.chance(40) {
            let d = self.rng.below(rank);
            size[d] = 0;
        }
        size
    }

    fn fresh(&mut self, size: &[i64], dtype: Dtype) -> Known {
        self.count += 1;
        let role = if self.rng.chance(4) { InputRole::Weight } else { InputRole::Input };
        let name = format!("in{}", self.count);
        let id = self.builder.add_input(&name, size, dtype, role).unwrap();
        let known = Known { id, size: size.to_vec(), dtype, given: true };
        self.pool.push(known.clone());
        known
    }

    /// A float tensor, mostly one that is there.
    fn float(&mut self) -> Known {
        let floats = |k: &&Known| matches!(k.dtype, Dtype::Float16 | Dtype::Float32);
        let list: Vec<Known> = self.pool.iter().filter(floats).cloned().collect();
        if list.is_empty() || self.rng.chance(4) {
            let size = self.size();
            let dtype = if self.rng.chance(5) { Dtype::Float32 } else { Dtype::Float16 };
            return self.fresh(&size, dtype);
        }
        // Late ones are taken more often, so that chains grow.
        let late = list.len() - 1 - self.rng.below(list.len()).min(self.rng.below(list.len()));
        list[late].clone()
    }

    /// A tensor that broadcasts with a size.
    fn partner(&mut self, size: &[i64], dtype: Dtype) -> Known {
        let same = |k: &&Known| k.size == size && k.dtype == dtype;
        let list: Vec<Known> = self.pool.iter().filter(same).cloned().collect();
        if !list.is_empty() && !self.rng.chance(3) {
            return self.rng.of(&list);
        }
        let mut size = size.to_vec();
        for n in &mut size {
            if self.rng.chance(4) {
                *n = 1;
            }
        }
        let lead = if self.rng.chance(3) { self.rng.below(size.len() + 1) } else { 0 };
        self.fresh(&size[lead..], dtype)
    }

    /// Adds an operation; what the table refuses is left out.
    fn op(&mut self, op: &str, operands: &[TensorId], attributes: Value) -> Vec<TensorId> {
        let operands: Vec<GraphOperand> =
            operands.iter().map(|t| GraphOperand::Tensor(*t)).collect();
        self.with(op, &operands, attributes)
    }

    fn with(&mut self, op: &str, operands: &[GraphOperand], attributes: Value) -> Vec<TensorId> {
        let attributes = if let Value::Object(map) = attributes { map } else { Map::new() };
        self.count += 1;
        let one = format!("t{}", self.count);
        let two = format!("t{}.b", self.count);
        let results: &[&[&str]] = &[&[&one], &[&one, &two]];
        for names in results {
            let Ok(made) = self.builder.add_op(op, operands, &attributes, names) else { continue };
            for (k, id) in made.iter().enumerate() {
                let t = self.builder.tensor(*id);
                let known = Known { id: *id, size: t.size.clone(), dtype: t.dtype, given: false };
                if known.size.iter().product::<i64>() <= 4 * self.most {
                    self.pool.push(known.clone());
                }
                // A text has a pin for the first result only.
                if self.rng.chance(25) && k == 0 && !known.size.is_empty() {
                    let d = self.rng.below(known.size.len());
                    let pin = if self.rng.chance(3) {
                        LayoutRequest::Sparse
                    } else {
                        LayoutRequest::Stick(i64::try_from(d).unwrap())
                    };
                    let _ = self.builder.pin_layout(*id, pin);
                }
            }
            return made;
        }
        Vec::new()
    }

    fn dim(&mut self, k: &Known) -> i64 {
        let d = i64::try_from(self.rng.below(k.size.len())).unwrap();
        if self.rng.chance(3) { d - i64::try_from(k.size.len()).unwrap() } else { d }
    }

    fn step(&mut self) {
        match self.rng.below(24) {
            0..=3 => {
                let (x, op) = (self.float(), self.rng.of(UNARY));
                self.op(op, &[x.id], Value::Null);
            }
            4..=6 => {
                let (x, op) = (self.float(), self.rng.of(BINARY));
                let y = self.partner(&x.size, x.dtype);
                if self.rng.chance(4) {
                    let number = GraphOperand::Number(self.rng.of(&[0.5, 2.0, -3.0, 0.1, 0.0]));
                    self.with(op, &[GraphOperand::Tensor(x.id), number], Value::Null);
                } else if self.rng.chance(2) {
                    self.op(op, &[x.id, y.id], Value::Null);
                } else {
                    self.op(op, &[y.id, x.id], Value::Null);
                }
            }
            7 => self.choice(),
            8 => {
                let list =
                    [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Int64, Dtype::Bool];
                let (x, to) = (self.rng.below(1000), self.rng.of(&list));
                let x = if self.pool.is_empty() {
                    self.float()
                } else {
                    self.pool[x % self.pool.len()].clone()
                };
                self.op("cast", &[x.id], json!({"dtype": to.to_string()}));
            }
            9 | 10 => self.fold(),
            11 => self.line(),
            12..=14 => self.product(),
            15..=18 => self.view(),
            19 | 20 => self.moved(),
            21 => self.indexed(),
            22 => self.made(),
            _ => self.window(),
        }
    }

    fn choice(&mut self) {
        let x = self.float();
        let y = self.partner(&x.size, x.dtype);
        let mask = self.partner(&x.size, Dtype::Bool);
        match self.rng.below(4) {
            0 => self.op("where", &[mask.id, x.id, y.id], Value::Null),
            1 => self.op("masked_fill", &[x.id, mask.id], json!({"value": -2.5})),
            2 => self.op("lerp", &[x.id, y.id, y.id], Value::Null),
            _ => self.op("addcmul", &[x.id, y.id, x.id], json!({"value": 0.5})),
        };
    }

    fn fold(&mut self) {
        let (x, op) = (self.float(), self.rng.of(FOLDS));
        let mut dims: Vec<i64> = Vec::new();
        for d in 0..x.size.len() {
            if self.rng.chance(2) {
                dims.push(i64::try_from(d).unwrap());
            }
        }
        let mut attributes = json!({"keepdim": self.rng.chance(2)});
        if !dims.is_empty() {
            attributes["dim"] = json!(dims);
        }
        match self.rng.below(6) {
            0 if !x.size.is_empty() => {
                let dim = self.dim(&x);
                let op = self.rng.of(&["max", "min", "argmax", "argmin"]);
                self.op(op, &[x.id], json!({"dim": dim}))
            }
            _ => self.op(op, &[x.id], attributes),
        };
    }

    fn line(&mut self) {
        let x = self.float();
        if x.size.is_empty() {
            return;
        }
        let dim = self.dim(&x);
        let last = *x.size.last().unwrap();
        match self.rng.below(8) {
            0 | 1 => self.op("softmax", &[x.id], json!({"dim": dim})),
            2 => self.op("log_softmax", &[x.id], json!({"dim": dim})),
            3 => {
                let w = self.fresh(&[last], x.dtype);
                let b = self.fresh(&[last], x.dtype);
                self.op("layer_norm", &[x.id, w.id, b.id], json!({"normalized_shape": [last]}))
            }
            4 => {
                let w = self.fresh(&[last], x.dtype);
                self.op("rms_norm", &[x.id, w.id], json!({"normalized_shape": [last]}))
            }
            5 => {
                let op = self.rng.of(&["cumsum", "cumprod", "cummax", "cummin"]);
                self.op(op, &[x.id], json!({"dim": dim}))
            }
            6 => {
                let down = self.rng.chance(2);
                self.op("sort", &[x.id], json!({"dim": dim, "descending": down}))
            }
            _ => {
                let k = 1 + self.rng.below(3);
                self.op("topk", &[x.id], json!({"k": k, "dim": dim}))
            }
        };
    }

    fn product(&mut self) {
        let x = self.float();
        let n = self.rng.of(EXTENTS);
        let rank = x.size.len();
        if rank < 2 {
            if rank == 1 {
                let y = self.partner(&x.size, x.dtype);
                let op = self.rng.of(&["dot", "outer", "vecdot", "matmul"]);
                self.op(op, &[x.id, y.id], Value::Null);
            }
            return;
        }
        let (m, k) = (x.size[rank - 2], x.size[rank - 1]);
        let mut batch = x.size[..rank - 2].to_vec();
        match self.rng.below(8) {
            0 | 1 => {
                batch.extend([k, n]);
                let y = self.fresh(&batch, x.dtype);
                self.op("matmul", &[x.id, y.id], Value::Null);
            }
            2 => {
                batch.extend([n, k]);
                let y = self.fresh(&batch, x.dtype);
                let turned = self.op("transpose", &[y.id], json!({"dim0": -1, "dim1": -2}));
                if let [t] = turned[..] {
                    self.op("matmul", &[x.id, t], Value::Null);
                }
            }
            3 | 4 => {
                let (w, b) = (self.fresh(&[n, k], x.dtype), self.fresh(&[n], x.dtype));
                let all = [x.id, w.id, b.id];
                let count = 2 + self.rng.below(2);
                self.op("linear", &all[..count], Value::Null);
            }
            5 if rank == 2 => {
                let (c, y) = (self.fresh(&[m, n], x.dtype), self.fresh(&[k, n], x.dtype));
                self.op("addmm", &[c.id, x.id, y.id], json!({"alpha": 0.5, "beta": 2}));
            }
            5 if rank == 3 => {
                batch.extend([k, n]);
                let y = self.fresh(&batch, x.dtype);
                self.op("bmm", &[x.id, y.id], Value::Null);
            }
            _ => {
                let mut keys = batch.clone();
                keys.extend([n, k]);
                let (key, value) = (self.fresh(&keys, x.dtype), self.fresh(&keys, x.dtype));
                let causal = self.rng.chance(2);
                let mut all = vec![x.id, key.id, value.id];
                if !causal && self.rng.chance(2) {
                    all.push(self.fresh(&[m, n], Dtype::Bool).id);
                }
                let op = "scaled_dot_product_attention";
                self.op(op, &all, json!({ "is_causal": causal }));
            }
        }
    }

    fn view(&mut self) {
        let x = self.float();
        let rank = x.size.len();
        if rank == 0 {
            return;
        }
        let (a, b) = (self.dim(&x), self.dim(&x));
        let at = usize::try_from(if a < 0 { a + i64::try_from(rank).unwrap() } else { a }).unwrap();
        let n = x.size[at];
        match self.rng.below(9) {
            0..=2 => self.op("transpose", &[x.id], json!({"dim0": a, "dim1": b})),
            3 => {
                let start = i64::try_from(self.rng.below(usize::try_from(n).unwrap())).unwrap();
                let step = self.rng.of(&[1, 1, 1, 2, 3]);
                let end = if self.rng.chance(2) { n } else { start + (n - start + 1) / 2 };
                self.op(
                    "slice",
                    &[x.id],
                    json!({"dim": a, "start": start, "end": end, "step": step}),
                )
            }
            4 => self.op("reshape", &[x.id], json!({"size": [-1]})),
            5 => {
                let mut size = x.size.clone();
                size.swap(0, rank - 1);
                self.op("reshape", &[x.id], json!({ "size": size }))
            }
            6 => self.op("unsqueeze", &[x.id], json!({"dim": a})),
            7 => self.op("select", &[x.id], json!({"dim": a, "index": n - 1})),
            _ => {
                let size = [&[2], &x.size[..]].concat();
                self.op("expand", &[x.id], json!({ "size": size }))
            }
        };
    }

    fn moved(&mut self) {
        let x = self.float();
        if x.size.is_empty() {
            return;
        }
        let dim = self.dim(&x);
        match self.rng.below(8) {
            0 | 1 => {
                let y = self.float();
                let other = if y.size.len() == x.size.len() { y.id } else { x.id };
                self.op("cat", &[x.id, other], json!({ "dim": dim }))
            }
            2 => self.op("stack", &[x.id, x.id], json!({ "dim": dim })),
            3 => {
                let mode = ["constant", "constant", "replicate", "circular"][self.rng.below(4)];
                self.op("pad", &[x.id], json!({"pad": [1, 1], "mode": mode, "value": 0.5}))
            }
            4 => self.op("flip", &[x.id], json!({"dims": [dim]})),
            5 => self.op("roll", &[x.id], json!({"shifts": [3], "dims": [dim]})),
            6 => {
                let repeats: Vec<usize> = x.size.iter().map(|_| 1 + self.rng.below(2)).collect();
                self.op("repeat", &[x.id], json!({ "repeats": repeats }))
            }
            _ => self.op("repeat_interleave", &[x.id], json!({"repeats": 2, "dim": dim})),
        };
    }

    /// Indices are 0 to 3, so tables have 4 rows or more.
    fn indexed(&mut self) {
        let columns = self.rng.of(EXTENTS);
        let length = 4 + i64::try_from(self.rng.below(70)).unwrap();
        let table = self.fresh(&[length, columns], Dtype::Float16);
        let rows = self.rng.of(EXTENTS);
        match self.rng.below(4) {
            0 | 1 => {
                let index = self.fresh(&[rows], Dtype::Int64);
                self.op("embedding", &[table.id, index.id], Value::Null)
            }
            2 => {
                let index = self.fresh(&[rows], Dtype::Int64);
                self.op("index_select", &[table.id, index.id], json!({"dim": 0}))
            }
            _ => {
                let index = self.fresh(&[rows, columns], Dtype::Int64);
                self.op("gather", &[table.id, index.id], json!({"dim": 0}))
            }
        };
    }

    fn made(&mut self) {
        let size = self.size();
        match self.rng.below(5) {
            0 => self.op("full", &[], json!({"size": size, "value": 1.5, "dtype": "float16"})),
            1 => self.op("zeros", &[], json!({"size": size, "dtype": "float16"})),
            2 => self.op("uniform", &[], json!({"size": size, "seed": 7, "dtype": "float16"})),
            3 => self.op("normal", &[], json!({"size": size, "seed": 7, "dtype": "float16"})),
            _ => {
                let end = self.rng.below(200);
                self.op("arange", &[], json!({"end": end, "dtype": "float16"}))
            }
        };
    }

    fn window(&mut self) {
        let channels = self.rng.of(&[1, 2, 5, 64, 67]);
        let out = self.rng.of(&[1, 3, 64]);
        let x = self.fresh(&[2, channels, 7, 6], Dtype::Float16);
        match self.rng.below(3) {
            0 => {
                let w = self.fresh(&[out, channels, 3, 2], Dtype::Float16);
                self.op("conv2d", &[x.id, w.id], json!({"padding": 1, "stride": [1, 2]}))
            }
            1 => self.op("max_pool2d", &[x.id], json!({"kernel_size": 2})),
            _ => self.op("avg_pool2d", &[x.id], json!({"kernel_size": [2, 3], "stride": 1})),
        };
    }
}
