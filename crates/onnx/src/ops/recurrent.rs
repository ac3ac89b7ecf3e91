//! Recurrent layers, written out step by step along the sequence.

use super::Table;
use crate::error::Result;
use crate::literal::{Literal, Numbers};
use crate::node::Node;
use crate::proto::Given;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[
    ("RNN", |n| layer(n, Cell::Plain)),
    ("GRU", |n| layer(n, Cell::Gru)),
    ("LSTM", |n| layer(n, Cell::Lstm)),
];

/// Steps of a sequence at most: each is written out.
const MOST_STEPS: i64 = 1 << 14;

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Plain,
    Gru,
    Lstm,
}

impl Cell {
    fn gates(self) -> i64 {
        match self {
            Cell::Plain => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    fn activations(self) -> &'static [&'static str] {
        match self {
            Cell::Plain => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// A function between gates, with its parameters.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

/// One direction of a layer.
struct Direction {
    /// `[steps, batch, gates * hidden]`: operands times their weights, with the bias.
    inner: TensorId,
    /// `[hidden, gates * hidden]`.
    recurrent: TensorId,
    /// The bias of the recurrent part `[gates * hidden]`, where it is added apart.
    bias: Option<TensorId>,
    /// Peepholes of LSTM: `[hidden]` for input, output and forget gate.
    peepholes: Option<[TensorId; 3]>,
    activations: Vec<Activation>,
    backward: bool,
}

struct Shape {
    steps: i64,
    batch: i64,
    hidden: i64,
    dtype: Dtype,
    clip: Option<f64>,
    input_forget: bool,
    reset_after: bool,
}

fn layer(n: &mut Node<'_, '_>, cell: Cell) -> Result<Vec<Value>> {
    n.arity(3, if cell == Cell::Lstm { 8 } else { 6 })?;
    let batch_first = n.flag("layout", false)?;
    let mut x = n.tensor(0)?;
    if batch_first {
        x = n.step("transpose", &[x], json!({"dim0": 0, "dim1": 1}))?;
    }
    let size = n.size_of(x);
    let weight = n.size(1)?;
    let ([steps, batch, _], [directions, rows, _]) = (&size[..], &weight[..]) else {
        let message = format!("{size:?} and weights {weight:?}; accepted: three dimensions each");
        return Err(n.bad("bad_operand", message));
    };
    let hidden = n.int("hidden_size", rows / cell.gates())?;
    let direction = n.word("direction", "forward")?;
    let backward: &[bool] = match (direction.as_str(), directions) {
        ("forward", 1) => &[false],
        ("reverse", 1) => &[true],
        ("bidirectional", 2) => &[false, true],
        _ => {
            let message = format!(
                "attribute `direction` is `{direction}`, and the weights have {directions}"
            );
            return Err(n.bad("bad_attribute", message));
        }
    };
    if hidden <= 0 || *rows != hidden * cell.gates() || *steps > MOST_STEPS {
        let message = format!(
            "{steps} steps, {rows} rows of weights for {hidden} hidden units; accepted: {} of each unit, at \
             most {MOST_STEPS} steps",
            cell.gates()
        );
        return Err(n.bad("bad_operand", message));
    }
    let clip = Some(n.float("clip", 0.0)?).filter(|_| n.is_given("clip"));
    let input_forget = cell == Cell::Lstm && n.flag("input_forget", false)?;
    let reset_after = cell == Cell::Gru && n.flag("linear_before_reset", false)?;
    let shape = Shape {
        steps: *steps,
        batch: *batch,
        hidden,
        dtype: n.dtype(0)?,
        clip,
        input_forget,
        reset_after,
    };
    let activations = activations(n, cell, backward.len())?;
    let lengths = if n.has(4) { Some(n.tensor(4)?) } else { None };
    let masks = masks(n, lengths, &shape)?;
    let (mut all, mut last, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (d, backward) in backward.iter().enumerate() {
        let direction = read(n, cell, &shape, x, d, *backward, activations[d].clone())?;
        let h = start(n, 5, d, &shape, batch_first)?;
        let c = if cell == Cell::Lstm { Some(start(n, 6, d, &shape, batch_first)?) } else { None };
        let (rows, h, c) = walk(n, cell, &shape, &direction, &masks, h, c)?;
        all.push(rows);
        last.push(h);
        cells.extend(c);
    }
    results(n, &shape, batch_first, &all, &last, &cells)
}

/// The activations of every direction.
fn activations(
    n: &mut Node<'_, '_>,
    cell: Cell,
    directions: usize,
) -> Result<Vec<Vec<Activation>>> {
    let usual = cell.activations();
    let names: Vec<String> = match n.any("activations") {
        None => (0..directions).flat_map(|_| usual.iter().map(|s| (*s).to_string())).collect(),
        Some(Given::Texts(list)) => {
            list.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect()
        }
        Some(_) => return Err(n.wrong("activations", "a list of texts")),
    };
    if names.len() != usual.len() * directions {
        let message =
            format!("{} activations; accepted: {}", names.len(), usual.len() * directions);
        return Err(n.bad("bad_attribute", message));
    }
    let mut lists = Vec::new();
    for name in ["activation_alpha", "activation_beta"] {
        lists.push(match n.any(name) {
            None => Vec::new(),
            Some(Given::Floats(list)) => list.iter().map(|f| f64::from(*f)).collect(),
            Some(_) => return Err(n.wrong(name, "a list of floats")),
        });
    }
    let all: Vec<Activation> = names
        .into_iter()
        .enumerate()
        .map(|(k, name)| {
            let (alpha, beta) = (lists[0].get(k).copied(), lists[1].get(k).copied());
            Activation { name, alpha, beta }
        })
        .collect();
    Ok(all.chunks(usual.len()).map(<[Activation]>::to_vec).collect())
}

/// For every step, which sequences reach it `[batch, 1]`; none where all do.
fn masks(
    n: &mut Node<'_, '_>,
    lengths: Option<TensorId>,
    shape: &Shape,
) -> Result<Vec<Option<TensorId>>> {
    let Some(lengths) = lengths else {
        return Ok(vec![None; usize::try_from(shape.steps).unwrap_or(0)]);
    };
    let column = n.step("reshape", &[lengths], json!({"size": [shape.batch, 1]}))?;
    (0..shape.steps)
        .map(|t| {
            let operands = [GraphOperand::Tensor(column), GraphOperand::Whole(t)];
            n.part("reached", "gt", &operands, Json::Null).map(Some)
        })
        .collect()
}

/// Weights and biases of a direction, and the products of all steps.
fn read(
    n: &mut Node<'_, '_>,
    cell: Cell,
    shape: &Shape,
    x: TensorId,
    d: usize,
    backward: bool,
    activations: Vec<Activation>,
) -> Result<Direction> {
    let pick = |n: &mut Node<'_, '_>, k: usize| -> Result<TensorId> {
        let all = n.tensor(k)?;
        n.step("select", &[all], json!({"dim": 0, "index": d}))
    };
    let turn = json!({"dim0": 0, "dim1": 1});
    let w = pick(n, 1)?;
    let w = n.step("transpose", &[w], turn.clone())?;
    let r = pick(n, 2)?;
    let recurrent = n.step("transpose", &[r], turn)?;
    let mut inner = n.step("matmul", &[x, w], Json::Null)?;
    let mut bias = None;
    if n.has(3) {
        let both = pick(n, 3)?;
        let width = cell.gates() * shape.hidden;
        let cut = |n: &mut Node<'_, '_>, start: i64| {
            n.step("slice", &[both], json!({"dim": 0, "start": start, "end": start + width}))
        };
        let (outer, own) = (cut(n, 0)?, cut(n, width)?);
        inner = n.step("add", &[inner, outer], Json::Null)?;
        bias = Some(own);
    }
    let mut peepholes = None;
    if cell == Cell::Lstm && n.has(7) {
        let all = pick(n, 7)?;
        let mut cut = |k: i64| {
            let (start, end) = (k * shape.hidden, (k + 1) * shape.hidden);
            n.step("slice", &[all], json!({"dim": 0, "start": start, "end": end}))
        };
        peepholes = Some([cut(0)?, cut(1)?, cut(2)?]);
    }
    Ok(Direction { inner, recurrent, bias, peepholes, activations, backward })
}

/// The state before the first step `[batch, hidden]`: of an operand, or zeros.
fn start(
    n: &mut Node<'_, '_>,
    k: usize,
    d: usize,
    shape: &Shape,
    batch_first: bool,
) -> Result<TensorId> {
    if n.has(k) {
        let all = n.tensor(k)?;
        return n.step("select", &[all], json!({"dim": usize::from(batch_first), "index": d}));
    }
    let count = usize::try_from(shape.batch * shape.hidden).unwrap_or(0);
    let data = Numbers::Float(vec![0.0; count]);
    let zeros = Literal { dtype: shape.dtype, shape: vec![shape.batch, shape.hidden], data };
    n.constant(&zeros, "start")
}

/// All steps of a direction: the state after each, the last state, the last cell.
fn walk(
    n: &mut Node<'_, '_>,
    cell: Cell,
    shape: &Shape,
    direction: &Direction,
    masks: &[Option<TensorId>],
    mut h: TensorId,
    mut c: Option<TensorId>,
) -> Result<(Vec<TensorId>, TensorId, Option<TensorId>)> {
    let mut rows = Vec::new();
    for step in 0..shape.steps {
        let t = if direction.backward { shape.steps - 1 - step } else { step };
        let x = n.step("select", &[direction.inner], json!({"dim": 0, "index": t}))?;
        let (mut next, mut cell_next) = match (cell, c) {
            (Cell::Lstm, Some(c)) => {
                let (h, c) = lstm(n, shape, direction, x, h, c)?;
                (h, Some(c))
            }
            (Cell::Gru, _) => (gru(n, shape, direction, x, h)?, None),
            _ => {
                let sum = gates(n, direction, x, h)?;
                (activated(n, shape, &direction.activations[0], sum)?, None)
            }
        };
        let mut row = next;
        if let Some(mask) = masks.get(usize::try_from(t).unwrap_or(0)).copied().flatten() {
            // Past its end a sequence keeps its state, and gives zeros.
            row = n.part(
                "row",
                "where",
                &[
                    GraphOperand::Tensor(mask),
                    GraphOperand::Tensor(next),
                    GraphOperand::Number(0.0),
                ],
                Json::Null,
            )?;
            next = n.step("where", &[mask, next, h], Json::Null)?;
            if let (Some(new), Some(old)) = (cell_next, c) {
                cell_next = Some(n.step("where", &[mask, new, old], Json::Null)?);
            }
        }
        rows.push(row);
        h = next;
        c = cell_next;
    }
    if direction.backward {
        rows.reverse();
    }
    Ok((rows, h, c))
}

/// The sums of all gates.
fn gates(
    n: &mut Node<'_, '_>,
    direction: &Direction,
    x: TensorId,
    h: TensorId,
) -> Result<TensorId> {
    let own = n.step("matmul", &[h, direction.recurrent], Json::Null)?;
    let sum = n.step("add", &[x, own], Json::Null)?;
    match direction.bias {
        Some(bias) => n.step("add", &[sum, bias], Json::Null),
        None => Ok(sum),
    }
}

/// Gate `k` of a row of gates.
fn gate(n: &mut Node<'_, '_>, shape: &Shape, all: TensorId, k: i64, dim: i64) -> Result<TensorId> {
    let (start, end) = (k * shape.hidden, (k + 1) * shape.hidden);
    n.step("slice", &[all], json!({"dim": dim, "start": start, "end": end}))
}

fn lstm(
    n: &mut Node<'_, '_>,
    shape: &Shape,
    direction: &Direction,
    x: TensorId,
    h: TensorId,
    c: TensorId,
) -> Result<(TensorId, TensorId)> {
    let all = gates(n, direction, x, h)?;
    // In the order of ONNX: input, output, forget, cell.
    let mut sums = Vec::new();
    for k in 0..4 {
        sums.push(gate(n, shape, all, k, 1)?);
    }
    let peep =
        |n: &mut Node<'_, '_>, sum: TensorId, k: usize, c: TensorId| match &direction.peepholes {
            None => Ok(sum),
            Some(p) => {
                let seen = n.step("mul", &[c, p[k]], Json::Null)?;
                n.step("add", &[sum, seen], Json::Null)
            }
        };
    let [f, g, last] = &direction.activations[..] else {
        return Err(n.bad("bad_attribute", "three activations for each direction"));
    };
    let sum = peep(n, sums[0], 0, c)?;
    let input = activated(n, shape, f, sum)?;
    let forget = if shape.input_forget {
        let one = n.with("mul", input, -1.0)?;
        n.with("add", one, 1.0)?
    } else {
        let sum = peep(n, sums[2], 2, c)?;
        activated(n, shape, f, sum)?
    };
    let new = activated(n, shape, g, sums[3])?;
    let kept = n.step("mul", &[forget, c], Json::Null)?;
    let added = n.step("mul", &[input, new], Json::Null)?;
    let cell = n.step("add", &[kept, added], Json::Null)?;
    let sum = peep(n, sums[1], 1, cell)?;
    let output = activated(n, shape, f, sum)?;
    let told = activated(n, shape, last, cell)?;
    Ok((n.step("mul", &[output, told], Json::Null)?, cell))
}

fn gru(
    n: &mut Node<'_, '_>,
    shape: &Shape,
    direction: &Direction,
    x: TensorId,
    h: TensorId,
) -> Result<TensorId> {
    let [f, g] = &direction.activations[..] else {
        return Err(n.bad("bad_attribute", "two activations for each direction"));
    };
    // In the order of ONNX: update, reset, hidden.
    let own = n.step("matmul", &[h, direction.recurrent], Json::Null)?;
    let own = match direction.bias {
        Some(bias) => n.step("add", &[own, bias], Json::Null)?,
        None => own,
    };
    let sum = n.step("add", &[x, own], Json::Null)?;
    let update = gate(n, shape, sum, 0, 1)?;
    let update = activated(n, shape, f, update)?;
    let reset = gate(n, shape, sum, 1, 1)?;
    let reset = activated(n, shape, f, reset)?;
    let outer = gate(n, shape, x, 2, 1)?;
    let inner = if shape.reset_after {
        let own = gate(n, shape, own, 2, 1)?;
        n.step("mul", &[reset, own], Json::Null)?
    } else {
        let weights = gate(n, shape, direction.recurrent, 2, 1)?;
        let part = n.step("mul", &[reset, h], Json::Null)?;
        let part = n.step("matmul", &[part, weights], Json::Null)?;
        match direction.bias {
            Some(bias) => {
                let bias = gate(n, shape, bias, 2, 0)?;
                n.step("add", &[part, bias], Json::Null)?
            }
            None => part,
        }
    };
    let sum = n.step("add", &[outer, inner], Json::Null)?;
    let new = activated(n, shape, g, sum)?;
    // (1 - update) * new + update * h
    let difference = n.step("sub", &[h, new], Json::Null)?;
    let moved = n.step("mul", &[update, difference], Json::Null)?;
    n.step("add", &[new, moved], Json::Null)
}

/// An activation of sums, which are clipped before it where the layer says so.
fn activated(n: &mut Node<'_, '_>, shape: &Shape, f: &Activation, x: TensorId) -> Result<TensorId> {
    let x = match shape.clip {
        Some(c) => n.step("clamp", &[x], json!({"min": -c, "max": c}))?,
        None => x,
    };
    let (alpha, beta) = (f.alpha, f.beta);
    match f.name.to_ascii_lowercase().as_str() {
        "sigmoid" => n.step("sigmoid", &[x], Json::Null),
        "tanh" => n.step("tanh", &[x], Json::Null),
        "relu" => n.step("relu", &[x], Json::Null),
        "softsign" => {
            let size = n.step("abs", &[x], Json::Null)?;
            let below = n.with("add", size, 1.0)?;
            n.step("div", &[x, below], Json::Null)
        }
        "softplus" => n.step("softplus", &[x], Json::Null),
        "leakyrelu" => n.step("leaky_relu", &[x], json!({"negative_slope": alpha.unwrap_or(0.01)})),
        "elu" => n.step("elu", &[x], json!({"alpha": alpha.unwrap_or(1.0)})),
        "affine" => {
            let x = n.with("mul", x, alpha.unwrap_or(1.0))?;
            n.with("add", x, beta.unwrap_or(0.0))
        }
        "hardsigmoid" => {
            let x = n.with("mul", x, alpha.unwrap_or(0.2))?;
            let x = n.with("add", x, beta.unwrap_or(0.5))?;
            n.step("clamp", &[x], json!({"min": 0.0, "max": 1.0}))
        }
        "scaledtanh" => {
            let x = n.with("mul", x, beta.unwrap_or(1.0))?;
            let x = n.step("tanh", &[x], Json::Null)?;
            n.with("mul", x, alpha.unwrap_or(1.0))
        }
        "thresholdedrelu" => {
            n.step("threshold", &[x], json!({"threshold": alpha.unwrap_or(1.0), "value": 0.0}))
        }
        _ => {
            let message = format!(
                "activation `{}`; accepted: Sigmoid, Tanh, Relu, Softsign, Softplus, LeakyRelu, Elu, Affine, \
                 HardSigmoid, ScaledTanh, ThresholdedRelu",
                crate::error::quote(&f.name)
            );
            Err(n.bad("bad_attribute", message))
        }
    }
}

/// Y `[steps, directions, batch, hidden]`, and the last states `[directions, batch, hidden]`.
fn results(
    n: &mut Node<'_, '_>,
    shape: &Shape,
    batch_first: bool,
    all: &[Vec<TensorId>],
    last: &[TensorId],
    cells: &[TensorId],
) -> Result<Vec<Value>> {
    let mut steps = Vec::new();
    for t in 0..usize::try_from(shape.steps).unwrap_or(0) {
        let rows: Vec<TensorId> = all.iter().map(|rows| rows[t]).collect();
        steps.push(joined(n, &rows)?);
    }
    if steps.is_empty() {
        return Err(n.bad_operand(0, "a sequence of no steps"));
    }
    let mut y = joined(n, &steps)?;
    let mut ends = vec![joined(n, last)?];
    if !cells.is_empty() {
        ends.push(joined(n, cells)?);
    }
    if batch_first {
        y = n.step("permute", &[y], json!({"dims": [2, 0, 1, 3]}))?;
        for end in &mut ends {
            *end = n.step("transpose", &[*end], json!({"dim0": 0, "dim1": 1}))?;
        }
    }
    Ok([y].into_iter().chain(ends).map(Value::Tensor).collect())
}

/// Tensors of one shape as slices of a new first dimension.
fn joined(n: &mut Node<'_, '_>, rows: &[TensorId]) -> Result<TensorId> {
    match rows {
        [one] => n.step("unsqueeze", &[*one], json!({"dim": 0})),
        many => n.step("stack", many, json!({"dim": 0})),
    }
}
