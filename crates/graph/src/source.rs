//! A graph as it is written: sizes may be symbols, which are bound when it is built.

use crate::build::{GraphBuilder, GraphOperand};
use crate::error::{GraphError, Result};
use crate::graph::{Graph, InputRole, RequestedMemory, SliceHints};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use zellige_float::Dtype;
use zellige_notation::{make_visible, quote_beginning};
use zellige_op::HostScalar;
use zellige_stick::LayoutRequest;

/// A size that is bound later, with the values it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeSymbol {
    /// Its name.
    pub name: String,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// Every value is a multiple of this.
    pub step: i64,
}

/// An extent: a number or a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SymbolicSize {
    /// A number.
    Fixed(i64),
    /// A symbol.
    Symbol(String),
}

/// An input as written.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInput {
    /// Its name.
    pub name: String,
    /// Dtype.
    pub dtype: Dtype,
    /// Extents.
    pub size: Vec<SymbolicSize>,
    /// What it is to the program.
    pub role: InputRole,
    /// Its pinned layout.
    pub pin: Option<LayoutRequest>,
    /// The memory that it must be in.
    pub place: Option<RequestedMemory>,
    /// Its place in the text.
    pub span: Range<usize>,
}

/// An operation as written. Text in attributes that names a symbol is replaced by its value.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceOp {
    /// The operation.
    pub op: String,
    /// Operands: names, or numbers.
    pub inputs: Vec<Value>,
    /// Names of the results.
    pub outputs: Vec<String>,
    /// Attributes.
    pub attributes: Map<String, Value>,
    /// The pinned layout of the first result.
    pub pin: Option<LayoutRequest>,
    /// The memory that the first result must be in.
    pub place: Option<RequestedMemory>,
    /// Slices that the programmer wants.
    pub hint: SliceHints,
    /// Where the model's source says it.
    pub at: Option<String>,
    /// Its place in the text.
    pub span: Range<usize>,
}

/// An output as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOutput {
    /// The tensor.
    pub name: String,
    /// Its place in the text.
    pub span: Range<usize>,
}

/// A graph as written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GraphSource {
    /// Its name.
    pub name: String,
    /// Symbols.
    pub symbols: Vec<SizeSymbol>,
    /// Inputs.
    pub inputs: Vec<SourceInput>,
    /// Operations in any order.
    pub ops: Vec<SourceOp>,
    /// Outputs.
    pub outputs: Vec<SourceOutput>,
}

impl GraphSource {
    /// The graph with symbols bound: those not named take their largest value.
    ///
    /// # Errors
    /// Values outside a symbol's range, unknown symbols, and everything that [`GraphBuilder`] refuses.
    pub fn bind_symbols(&self, values: &BTreeMap<String, i64>) -> Result<Graph> {
        let mut bound: BTreeMap<&str, i64> = BTreeMap::new();
        for s in &self.symbols {
            // The largest value is the default, because a program for it has room for all smaller ones.
            let value = values.get(&s.name).copied().unwrap_or(s.max);
            if value < s.min || value > s.max || value % s.step.max(1) != 0 {
                let message = format!(
                    "{} = {value} is out of range; accepted are {} to {} in steps of {}",
                    s.name, s.min, s.max, s.step
                );
                return Err(GraphError::new("bad_binding", message));
            }
            bound.insert(&s.name, value);
        }
        // A misspelled symbol would otherwise leave the right one at its default without a word.
        if let Some(name) = values.keys().find(|n| !bound.contains_key(n.as_str())) {
            let known: Vec<&str> = bound.keys().copied().collect();
            let message = format!("there is no symbol `{name}`; known: {}", known.join(", "));
            return Err(GraphError::new("bad_binding", message));
        }
        // Before anything is built, because the errors of the builder quote these names.
        self.check_names()?;
        let mut builder = GraphBuilder::new(&self.name);
        for i in &self.inputs {
            let size: Vec<i64> = i
                .size
                .iter()
                .map(|n| match n {
                    SymbolicSize::Fixed(n) => Ok(*n),
                    SymbolicSize::Symbol(s) => bound.get(s.as_str()).copied().ok_or_else(|| {
                        GraphError::new("unknown_symbol", format!("there is no symbol `{s}`"))
                    }),
                })
                .collect::<Result<_>>()
                .map_err(|e| e.with_span(&i.span))?;
            let id = builder
                .add_input(&i.name, &size, i.dtype, i.role)
                .map_err(|e| e.with_span(&i.span))?;
            if let Some(pin) = &i.pin {
                builder.pin_layout(id, pin.clone()).map_err(|e| e.with_span(&i.span))?;
            }
            if let Some(place) = i.place {
                builder.place_tensor(id, place).map_err(|e| e.with_span(&i.span))?;
            }
        }
        for op in self.order_ops()? {
            add_source_op(&mut builder, op, &bound).map_err(|e| e.with_span(&op.span))?;
        }
        let mut outputs = Vec::new();
        for o in &self.outputs {
            let found = builder
                .tensor_id(&o.name)
                .ok_or_else(|| unknown_name(&o.name).with_span(&o.span))?;
            outputs.push(found);
        }
        builder.finish_graph(&outputs)
    }

    /// The operations in an order in which each uses only what is there; a circle is refused by name.
    fn order_ops(&self) -> Result<Vec<&SourceOp>> {
        let mut maker: BTreeMap<&str, usize> = BTreeMap::new();
        for (k, op) in self.ops.iter().enumerate() {
            for name in &op.outputs {
                if maker.insert(name, k).is_some() {
                    let message = format!("the name `{name}` is already taken");
                    return Err(GraphError::new("duplicate_name", message).with_span(&op.span));
                }
            }
        }
        let mut order = Vec::with_capacity(self.ops.len());
        // 0: not seen, 1: being visited, 2: done. An explicit stack: graphs can be deep.
        let mut state = vec![0u8; self.ops.len()];
        for first in 0..self.ops.len() {
            let mut stack = vec![(first, 0usize)];
            while let Some((k, next)) = stack.pop() {
                if state[k] == 2 {
                    continue;
                }
                state[k] = 1;
                let op = &self.ops[k];
                let needed = op.inputs.iter().skip(next).filter_map(Value::as_str);
                let mut pending = None;
                for (step, name) in needed.enumerate() {
                    if let Some(m) = maker.get(name)
                        && state[*m] != 2
                    {
                        pending = Some((step, *m, name));
                        break;
                    }
                }
                match pending {
                    None => {
                        state[k] = 2;
                        order.push(op);
                    }
                    Some((_, m, name)) if state[m] == 1 => {
                        let message = format!("`{name}` depends on itself");
                        return Err(GraphError::new("cycle", message)
                            .with_op(op_label(op))
                            .with_span(&op.span));
                    }
                    Some((_, m, _)) => {
                        stack.push((k, 0));
                        stack.push((m, 0));
                    }
                }
            }
        }
        Ok(order)
    }
}

fn op_label(op: &SourceOp) -> String {
    format!("{} = {}", op.outputs.first().map_or("_", String::as_str), op.op)
}

fn unknown_name(name: &str) -> GraphError {
    let shown: String = name.chars().take(64).collect();
    GraphError::new("unknown_tensor", format!("there is no tensor `{shown}`"))
}

fn add_source_op(
    builder: &mut GraphBuilder,
    op: &SourceOp,
    bound: &BTreeMap<&str, i64>,
) -> Result<()> {
    let mut operands = Vec::with_capacity(op.inputs.len());
    for (k, operand) in op.inputs.iter().enumerate() {
        operands.push(match operand {
            Value::String(name) => match (builder.tensor_id(name), bound.get(name.as_str())) {
                (Some(id), _) => GraphOperand::Tensor(id),
                (None, Some(n)) => GraphOperand::Number(*n as f64),
                // Infinities have a sign in the text, because no name begins with one.
                (None, None) if name == "+inf" => GraphOperand::Number(f64::INFINITY),
                (None, None) if name == "-inf" => GraphOperand::Number(f64::NEG_INFINITY),
                (None, None) => {
                    return Err(unknown_name(name).with_op(op_label(op)).with_operand(k));
                }
            },
            Value::Number(n) => match n.as_i64().map(|n| HostScalar::Int(n).to_exact_float()) {
                Some(HostScalar::Int(n)) => GraphOperand::Whole(n),
                // Integers that a float64 holds exactly stay integers, so that an int64 operand keeps its last
                // digits.
                _ => GraphOperand::Number(n.as_f64().unwrap_or(f64::NAN)),
            },
            other => {
                let message = format!("an operand is a name or a number, not {other}");
                return Err(GraphError::new("bad_operand", message)
                    .with_op(op_label(op))
                    .with_operand(k));
            }
        });
    }
    let mut attributes = op.attributes.clone();
    for value in attributes.values_mut() {
        substitute_symbols(value, bound);
    }
    let names: Vec<&str> = op.outputs.iter().map(String::as_str).collect();
    let made = builder.add_op(&op.op, &operands, &attributes, &names)?;
    let Some(first) = made.first() else { return Ok(()) };
    if let Some(pin) = &op.pin {
        builder.pin_layout(*first, pin.clone()).map_err(|e| e.with_op(op_label(op)))?;
    }
    if let Some(place) = op.place {
        builder.place_tensor(*first, place).map_err(|e| e.with_op(op_label(op)))?;
    }
    if !op.hint.is_empty() {
        builder.hint_splits(*first, op.hint.clone()).map_err(|e| e.with_op(op_label(op)))?;
    }
    if let Some(at) = &op.at {
        builder.set_source_location(*first, at);
    }
    Ok(())
}

/// Puts values in the place of symbols.
fn substitute_symbols(value: &mut Value, bound: &BTreeMap<&str, i64>) {
    match value {
        Value::String(s) => {
            if let Some(n) = bound.get(s.as_str()) {
                *value = Value::from(*n);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| substitute_symbols(v, bound)),
        _ => {}
    }
}

impl GraphSource {
    /// That every name is visible: names are printed, and what is printed is obeyed by a terminal.
    fn check_names(&self) -> Result<()> {
        let symbols = self.symbols.iter().map(|s| (&s.name, 0..0));
        let inputs = self.inputs.iter().map(|i| (&i.name, i.span.clone()));
        let results = self
            .ops
            .iter()
            .flat_map(|o| o.outputs.iter().chain([&o.op]).map(|name| (name, o.span.clone())));
        let all = std::iter::once((&self.name, 0..0)).chain(symbols).chain(inputs).chain(results);
        for (name, span) in all {
            if make_visible(name) != name.as_str() {
                let shown = quote_beginning(name, 64);
                let message = format!(
                    "the name `{shown}` has characters that cannot be seen; accepted: letters, digits, \
                     signs and plain spaces"
                );
                return Err(GraphError::new("bad_name", message).with_span(&span));
            }
        }
        Ok(())
    }
}
