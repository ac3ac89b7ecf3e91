//! Rules for recurrent layers, unrolled step by step along the sequence.

use super::RuleTable;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral};
use crate::node::NodeLowering;
use crate::proto::AttributeValue;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("RNN", |n| lower_recurrent(n, RecurrentCell::Plain)),
    ("GRU", |n| lower_recurrent(n, RecurrentCell::Gru)),
    ("LSTM", |n| lower_recurrent(n, RecurrentCell::Lstm)),
];

/// The largest number of steps of a sequence, each of which is unrolled.
const MOST_STEPS: i64 = 1 << 14;

#[derive(Clone, Copy, PartialEq)]
enum RecurrentCell {
    Plain,
    Gru,
    Lstm,
}

impl RecurrentCell {
    fn gate_count(self) -> i64 {
        match self {
            RecurrentCell::Plain => 1,
            RecurrentCell::Gru => 3,
            RecurrentCell::Lstm => 4,
        }
    }

    fn default_activations(self) -> &'static [&'static str] {
        match self {
            RecurrentCell::Plain => &["Tanh"],
            RecurrentCell::Gru => &["Sigmoid", "Tanh"],
            RecurrentCell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// An activation function of a gate, with its parameters.
#[derive(Clone)]
struct GateActivation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

/// One direction of a layer.
struct LayerDirection {
    /// `[steps, batch, gates * hidden]`: the input times its weights, plus the input bias.
    inner: TensorId,
    /// `[hidden, gates * hidden]`.
    recurrent: TensorId,
    /// The bias of the recurrent part `[gates * hidden]`, which is added separately.
    bias: Option<TensorId>,
    /// Peepholes of LSTM: `[hidden]` for input, output and forget gate.
    peepholes: Option<[TensorId; 3]>,
    activations: Vec<GateActivation>,
    backward: bool,
}

struct LayerShape {
    steps: i64,
    batch: i64,
    hidden: i64,
    dtype: Dtype,
    clip: Option<f64>,
    input_forget: bool,
    reset_after: bool,
}

fn lower_recurrent(n: &mut NodeLowering<'_, '_>, cell: RecurrentCell) -> Result<Vec<ModelValue>> {
    n.check_arity(3, if cell == RecurrentCell::Lstm { 8 } else { 6 })?;
    let batch_first = n.flag_attribute("layout", false)?;
    let mut x = n.operand_tensor(0)?;
    if batch_first {
        x = n.emit_step(OpCall::transpose(0, 1), &[x])?;
    }
    let size = n.tensor_size(x);
    let weight = n.operand_size(1)?;
    let ([steps, batch, _], [directions, rows, _]) = (&size[..], &weight[..]) else {
        let message = format!("{size:?} and weights {weight:?}; accepted: three dimensions each");
        return Err(n.refuse_node("bad_operand", message));
    };
    let hidden = n.int_attribute("hidden_size", rows / cell.gate_count())?;
    let direction = n.word_attribute("direction", "forward")?;
    let backward: &[bool] = match (direction.as_str(), directions) {
        ("forward", 1) => &[false],
        ("reverse", 1) => &[true],
        ("bidirectional", 2) => &[false, true],
        _ => {
            let message = format!(
                "attribute `direction` is `{direction}`, and the weights have {directions}"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    if hidden <= 0 || *rows != hidden * cell.gate_count() || *steps > MOST_STEPS {
        let message = format!(
            "{steps} steps, {rows} rows of weights for {hidden} hidden units; accepted: {} of each unit, at \
             most {MOST_STEPS} steps",
            cell.gate_count()
        );
        return Err(n.refuse_node("bad_operand", message));
    }
    // Without the attribute nothing is clipped; 0 would clip everything.
    let clip = Some(n.float_attribute("clip", 0.0)?).filter(|_| n.has_attribute("clip"));
    let input_forget = cell == RecurrentCell::Lstm && n.flag_attribute("input_forget", false)?;
    let reset_after =
        cell == RecurrentCell::Gru && n.flag_attribute("linear_before_reset", false)?;
    let shape = LayerShape {
        steps: *steps,
        batch: *batch,
        hidden,
        dtype: n.operand_dtype(0)?,
        clip,
        input_forget,
        reset_after,
    };
    let activations = read_activations(n, cell, backward.len())?;
    let lengths = if n.has_operand(4) { Some(n.operand_tensor(4)?) } else { None };
    let masks = step_masks(n, lengths, &shape)?;
    let (mut all, mut last, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (d, backward) in backward.iter().enumerate() {
        let number = i64::try_from(d).unwrap_or(i64::MAX);
        let direction =
            read_direction(n, cell, &shape, x, number, *backward, activations[d].clone())?;
        let h = initial_state(n, 5, number, &shape, batch_first)?;
        let c = if cell == RecurrentCell::Lstm {
            Some(initial_state(n, 6, number, &shape, batch_first)?)
        } else {
            None
        };
        let (rows, h, c) = run_direction(n, cell, &shape, &direction, &masks, h, c)?;
        all.push(rows);
        last.push(h);
        cells.extend(c);
    }
    layer_results(n, &shape, batch_first, &all, &last, &cells)
}

/// Reads the activations of every direction.
fn read_activations(
    n: &mut NodeLowering<'_, '_>,
    cell: RecurrentCell,
    directions: usize,
) -> Result<Vec<Vec<GateActivation>>> {
    let usual = cell.default_activations();
    let names: Vec<String> = match n.any_attribute("activations") {
        None => (0..directions).flat_map(|_| usual.iter().map(|s| (*s).to_string())).collect(),
        Some(AttributeValue::Texts(list)) => {
            list.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect()
        }
        Some(_) => return Err(n.wrong_attribute("activations", "a list of texts")),
    };
    if names.len() != usual.len() * directions {
        let message =
            format!("{} activations; accepted: {}", names.len(), usual.len() * directions);
        return Err(n.refuse_node("bad_attribute", message));
    }
    let mut lists = Vec::new();
    for name in ["activation_alpha", "activation_beta"] {
        lists.push(match n.any_attribute(name) {
            None => Vec::new(),
            Some(AttributeValue::Floats(list)) => list.iter().map(|f| f64::from(*f)).collect(),
            Some(_) => return Err(n.wrong_attribute(name, "a list of floats")),
        });
    }
    let all: Vec<GateActivation> = names
        .into_iter()
        .enumerate()
        .map(|(k, name)| {
            let (alpha, beta) = (lists[0].get(k).copied(), lists[1].get(k).copied());
            GateActivation { name, alpha, beta }
        })
        .collect();
    Ok(all.chunks(usual.len()).map(<[GateActivation]>::to_vec).collect())
}

/// For every step, a mask `[batch, 1]` of the sequences that reach it; `None` if all do.
fn step_masks(
    n: &mut NodeLowering<'_, '_>,
    lengths: Option<TensorId>,
    shape: &LayerShape,
) -> Result<Vec<Option<TensorId>>> {
    let Some(lengths) = lengths else {
        return Ok(vec![None; usize::try_from(shape.steps).unwrap_or(0)]);
    };
    let column = n.emit_step(OpCall::reshape([shape.batch, 1]), &[lengths])?;
    (0..shape.steps)
        .map(|t| {
            let operands = [GraphOperand::Tensor(column), GraphOperand::Whole(t)];
            n.emit_part("reached", "gt", &operands).map(Some)
        })
        .collect()
}

/// Reads the weights and biases of a direction, and multiplies the input of all steps.
fn read_direction(
    n: &mut NodeLowering<'_, '_>,
    cell: RecurrentCell,
    shape: &LayerShape,
    x: TensorId,
    d: i64,
    backward: bool,
    activations: Vec<GateActivation>,
) -> Result<LayerDirection> {
    let pick = |n: &mut NodeLowering<'_, '_>, k: usize| -> Result<TensorId> {
        let all = n.operand_tensor(k)?;
        n.emit_step(OpCall::select(0, d), &[all])
    };
    let w = pick(n, 1)?;
    let w = n.emit_step(OpCall::transpose(0, 1), &[w])?;
    let r = pick(n, 2)?;
    let recurrent = n.emit_step(OpCall::transpose(0, 1), &[r])?;
    // The input's part of all steps is one product; only the recurrent part depends on the step
    // before.
    let mut inner = n.emit_step("matmul", &[x, w])?;
    let mut bias = None;
    if n.has_operand(3) {
        let both = pick(n, 3)?;
        let width = cell.gate_count() * shape.hidden;
        let cut = |n: &mut NodeLowering<'_, '_>, start: i64| {
            n.emit_step(OpCall::slice(0, start, start + width), &[both])
        };
        // B is the concatenation [Wb, Rb]. They stay apart, because GRU with `linear_before_reset`
        // multiplies Rb by the reset gate.
        let (outer, own) = (cut(n, 0)?, cut(n, width)?);
        inner = n.emit_step("add", &[inner, outer])?;
        bias = Some(own);
    }
    let mut peepholes = None;
    if cell == RecurrentCell::Lstm && n.has_operand(7) {
        let all = pick(n, 7)?;
        let mut cut = |k: i64| {
            let (start, end) = (k * shape.hidden, (k + 1) * shape.hidden);
            n.emit_step(OpCall::slice(0, start, end), &[all])
        };
        peepholes = Some([cut(0)?, cut(1)?, cut(2)?]);
    }
    Ok(LayerDirection { inner, recurrent, bias, peepholes, activations, backward })
}

/// The state before the first step `[batch, hidden]`: an operand, or zeros.
fn initial_state(
    n: &mut NodeLowering<'_, '_>,
    k: usize,
    d: i64,
    shape: &LayerShape,
    batch_first: bool,
) -> Result<TensorId> {
    if n.has_operand(k) {
        let all = n.operand_tensor(k)?;
        return n.emit_step(OpCall::select(usize::from(batch_first), d), &[all]);
    }
    let count = usize::try_from(shape.batch * shape.hidden).unwrap_or(0);
    let data = LiteralNumbers::Float(vec![0.0; count]);
    let zeros = TensorLiteral { dtype: shape.dtype, shape: vec![shape.batch, shape.hidden], data };
    n.emit_constant(&zeros, "start")
}

/// Runs all steps of a direction; returns the state after each step, the last state and the last
/// cell.
fn run_direction(
    n: &mut NodeLowering<'_, '_>,
    cell: RecurrentCell,
    shape: &LayerShape,
    direction: &LayerDirection,
    masks: &[Option<TensorId>],
    mut h: TensorId,
    mut c: Option<TensorId>,
) -> Result<(Vec<TensorId>, TensorId, Option<TensorId>)> {
    let mut rows = Vec::new();
    for step in 0..shape.steps {
        let t = if direction.backward { shape.steps - 1 - step } else { step };
        let x = n.emit_step(OpCall::select(0, t), &[direction.inner])?;
        let (mut next, mut cell_next) = match (cell, c) {
            (RecurrentCell::Lstm, Some(c)) => {
                let (h, c) = lstm_step(n, shape, direction, x, h, c)?;
                (h, Some(c))
            }
            (RecurrentCell::Gru, _) => (gru_step(n, shape, direction, x, h)?, None),
            _ => {
                let sum = sum_gates(n, direction, x, h)?;
                (apply_activation(n, shape, &direction.activations[0], sum)?, None)
            }
        };
        let mut row = next;
        if let Some(mask) = masks.get(usize::try_from(t).unwrap_or(0)).copied().flatten() {
            // After its end a sequence keeps its state, and its results are zero.
            row = n.emit_part(
                "row",
                "where",
                &[
                    GraphOperand::Tensor(mask),
                    GraphOperand::Tensor(next),
                    GraphOperand::Number(0.0),
                ],
            )?;
            next = n.emit_step("where", &[mask, next, h])?;
            if let (Some(new), Some(old)) = (cell_next, c) {
                cell_next = Some(n.emit_step("where", &[mask, new, old])?);
            }
        }
        rows.push(row);
        h = next;
        c = cell_next;
    }
    if direction.backward {
        // The results of the backward direction stand at the steps that they belong to, not in the
        // order of computing.
        rows.reverse();
    }
    Ok((rows, h, c))
}

/// The weighted sums of all gates.
fn sum_gates(
    n: &mut NodeLowering<'_, '_>,
    direction: &LayerDirection,
    x: TensorId,
    h: TensorId,
) -> Result<TensorId> {
    let own = n.emit_step("matmul", &[h, direction.recurrent])?;
    let sum = n.emit_step("add", &[x, own])?;
    match direction.bias {
        Some(bias) => n.emit_step("add", &[sum, bias]),
        None => Ok(sum),
    }
}

/// Slices gate `k` out of a row of gates.
fn slice_gate(
    n: &mut NodeLowering<'_, '_>,
    shape: &LayerShape,
    all: TensorId,
    k: i64,
    dim: i64,
) -> Result<TensorId> {
    let (start, end) = (k * shape.hidden, (k + 1) * shape.hidden);
    n.emit_step(OpCall::slice(dim, start, end), &[all])
}

fn lstm_step(
    n: &mut NodeLowering<'_, '_>,
    shape: &LayerShape,
    direction: &LayerDirection,
    x: TensorId,
    h: TensorId,
    c: TensorId,
) -> Result<(TensorId, TensorId)> {
    let all = sum_gates(n, direction, x, h)?;
    // In the order of ONNX: input, output, forget, cell.
    let mut sums = Vec::new();
    for k in 0..4 {
        sums.push(slice_gate(n, shape, all, k, 1)?);
    }
    let peep = |n: &mut NodeLowering<'_, '_>, sum: TensorId, k: usize, c: TensorId| match &direction
        .peepholes
    {
        None => Ok(sum),
        Some(p) => {
            let seen = n.emit_step("mul", &[c, p[k]])?;
            n.emit_step("add", &[sum, seen])
        }
    };
    let [f, g, last] = &direction.activations[..] else {
        return Err(n.refuse_node("bad_attribute", "three activations for each direction"));
    };
    let sum = peep(n, sums[0], 0, c)?;
    let input = apply_activation(n, shape, f, sum)?;
    // `input_forget` couples the gates: forget = 1 - input.
    let forget = if shape.input_forget {
        let one = n.emit_with_number("mul", input, -1.0)?;
        n.emit_with_number("add", one, 1.0)?
    } else {
        let sum = peep(n, sums[2], 2, c)?;
        apply_activation(n, shape, f, sum)?
    };
    let new = apply_activation(n, shape, g, sums[3])?;
    let kept = n.emit_step("mul", &[forget, c])?;
    let added = n.emit_step("mul", &[input, new])?;
    let cell = n.emit_step("add", &[kept, added])?;
    // The output gate looks at the new cell state, the other two at the old one.
    let sum = peep(n, sums[1], 1, cell)?;
    let output = apply_activation(n, shape, f, sum)?;
    let told = apply_activation(n, shape, last, cell)?;
    Ok((n.emit_step("mul", &[output, told])?, cell))
}

fn gru_step(
    n: &mut NodeLowering<'_, '_>,
    shape: &LayerShape,
    direction: &LayerDirection,
    x: TensorId,
    h: TensorId,
) -> Result<TensorId> {
    let [f, g] = &direction.activations[..] else {
        return Err(n.refuse_node("bad_attribute", "two activations for each direction"));
    };
    // In the order of ONNX: update, reset, hidden.
    let own = n.emit_step("matmul", &[h, direction.recurrent])?;
    let own = match direction.bias {
        Some(bias) => n.emit_step("add", &[own, bias])?,
        None => own,
    };
    let sum = n.emit_step("add", &[x, own])?;
    let update = slice_gate(n, shape, sum, 0, 1)?;
    let update = apply_activation(n, shape, f, update)?;
    let reset = slice_gate(n, shape, sum, 1, 1)?;
    let reset = apply_activation(n, shape, f, reset)?;
    let outer = slice_gate(n, shape, x, 2, 1)?;
    let inner = if shape.reset_after {
        let own = slice_gate(n, shape, own, 2, 1)?;
        n.emit_step("mul", &[reset, own])?
    } else {
        let weights = slice_gate(n, shape, direction.recurrent, 2, 1)?;
        let part = n.emit_step("mul", &[reset, h])?;
        let part = n.emit_step("matmul", &[part, weights])?;
        match direction.bias {
            Some(bias) => {
                let bias = slice_gate(n, shape, bias, 2, 0)?;
                n.emit_step("add", &[part, bias])?
            }
            None => part,
        }
    };
    let sum = n.emit_step("add", &[outer, inner])?;
    let new = apply_activation(n, shape, g, sum)?;
    // (1 - update) * new + update * h
    let difference = n.emit_step("sub", &[h, new])?;
    let moved = n.emit_step("mul", &[update, difference])?;
    n.emit_step("add", &[new, moved])
}

/// Applies an activation to sums, which are clipped first if the layer has a bound.
fn apply_activation(
    n: &mut NodeLowering<'_, '_>,
    shape: &LayerShape,
    f: &GateActivation,
    x: TensorId,
) -> Result<TensorId> {
    let x = match shape.clip {
        Some(c) => n.emit_step(OpCall::new("clamp").with("min", -c).with("max", c), &[x])?,
        None => x,
    };
    let (alpha, beta) = (f.alpha, f.beta);
    match f.name.to_ascii_lowercase().as_str() {
        "sigmoid" => n.emit_step("sigmoid", &[x]),
        "tanh" => n.emit_step("tanh", &[x]),
        "relu" => n.emit_step("relu", &[x]),
        "softsign" => {
            let size = n.emit_step("abs", &[x])?;
            let below = n.emit_with_number("add", size, 1.0)?;
            n.emit_step("div", &[x, below])
        }
        "softplus" => n.emit_step("softplus", &[x]),
        "leakyrelu" => n.emit_step(
            OpCall::new("leaky_relu").with("negative_slope", alpha.unwrap_or(0.01)),
            &[x],
        ),
        "elu" => n.emit_step(OpCall::new("elu").with("alpha", alpha.unwrap_or(1.0)), &[x]),
        "affine" => {
            let x = n.emit_with_number("mul", x, alpha.unwrap_or(1.0))?;
            n.emit_with_number("add", x, beta.unwrap_or(0.0))
        }
        "hardsigmoid" => {
            let x = n.emit_with_number("mul", x, alpha.unwrap_or(0.2))?;
            let x = n.emit_with_number("add", x, beta.unwrap_or(0.5))?;
            n.emit_step(OpCall::new("clamp").with("min", 0.0).with("max", 1.0), &[x])
        }
        "scaledtanh" => {
            let x = n.emit_with_number("mul", x, beta.unwrap_or(1.0))?;
            let x = n.emit_step("tanh", &[x])?;
            n.emit_with_number("mul", x, alpha.unwrap_or(1.0))
        }
        "thresholdedrelu" => n.emit_step(
            OpCall::new("threshold").with("threshold", alpha.unwrap_or(1.0)).with("value", 0.0),
            &[x],
        ),
        _ => {
            let message = format!(
                "activation `{}`; accepted: Sigmoid, Tanh, Relu, Softsign, Softplus, LeakyRelu, Elu, Affine, \
                 HardSigmoid, ScaledTanh, ThresholdedRelu",
                crate::error::quote_start(&f.name)
            );
            Err(n.refuse_node("bad_attribute", message))
        }
    }
}

/// Y `[steps, directions, batch, hidden]`, and the last states `[directions, batch, hidden]`.
fn layer_results(
    n: &mut NodeLowering<'_, '_>,
    shape: &LayerShape,
    batch_first: bool,
    all: &[Vec<TensorId>],
    last: &[TensorId],
    cells: &[TensorId],
) -> Result<Vec<ModelValue>> {
    let mut steps = Vec::new();
    for t in 0..usize::try_from(shape.steps).unwrap_or(0) {
        let rows: Vec<TensorId> = all.iter().map(|rows| rows[t]).collect();
        steps.push(stack_rows(n, &rows)?);
    }
    if steps.is_empty() {
        return Err(n.refuse_operand(0, "a sequence of no steps"));
    }
    let mut y = stack_rows(n, &steps)?;
    let mut ends = vec![stack_rows(n, last)?];
    if !cells.is_empty() {
        ends.push(stack_rows(n, cells)?);
    }
    if batch_first {
        y = n.emit_step(OpCall::permute([2, 0, 1, 3]), &[y])?;
        for end in &mut ends {
            *end = n.emit_step(OpCall::transpose(0, 1), &[*end])?;
        }
    }
    Ok([y].into_iter().chain(ends).map(ModelValue::Tensor).collect())
}

/// Stacks tensors of one shape along a new first dimension.
fn stack_rows(n: &mut NodeLowering<'_, '_>, rows: &[TensorId]) -> Result<TensorId> {
    match rows {
        [one] => n.emit_step(OpCall::unsqueeze(0), &[*one]),
        many => n.emit_step(OpCall::stack(0), many),
    }
}
