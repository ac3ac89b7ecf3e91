//! Writing the text of a graph.

use crate::graph::{Graph, GraphTensor, InputRole, RequestedMemory, TensorOrigin};
use crate::source::{GraphSource, SourceInput, SourceOp, SourceOutput, SymbolicSize};
use serde_json::{Map, Value};
use std::fmt::Write;
use zellige_op::HostScalar;
use zellige_stick::LayoutRequest;

/// The text of a graph.
pub fn print_graph(graph: &Graph) -> String {
    print_source(&graph.to_source())
}

impl Graph {
    /// The graph as it would be written.
    pub fn to_source(&self) -> GraphSource {
        let input = |t: &GraphTensor, role: InputRole| SourceInput {
            name: t.name.clone(),
            dtype: t.dtype,
            size: t.size.iter().map(|n| SymbolicSize::Fixed(*n)).collect(),
            role,
            pin: t.pin.clone(),
            place: t.place,
            span: 0..0,
        };
        let mut source = GraphSource { name: self.name.clone(), ..GraphSource::default() };
        let mut written = vec![false; self.nodes.len()];
        for (_, t) in self.tensors() {
            match &t.def {
                TensorOrigin::Input(role) => source.inputs.push(input(t, *role)),
                TensorOrigin::Constant(_) => {}
                // An operation with several results is written once, at its first result.
                TensorOrigin::Result(node, _) if written[node.0] => {}
                TensorOrigin::Result(node, _) => {
                    written[node.0] = true;
                    let n = self.node(*node);
                    let operand = |id: &crate::TensorId| match &self.get(*id).def {
                        TensorOrigin::Constant(HostScalar::Int(n)) => Value::from(*n),
                        TensorOrigin::Constant(HostScalar::Float(x)) => json_number(*x),
                        _ => Value::from(self.get(*id).name.as_str()),
                    };
                    source.ops.push(SourceOp {
                        op: n.op.name().into(),
                        inputs: n.inputs.iter().map(operand).collect(),
                        outputs: n.outputs.iter().map(|o| self.get(*o).name.clone()).collect(),
                        attributes: n.attributes.clone(),
                        pin: n.outputs.first().and_then(|o| self.get(*o).pin.clone()),
                        place: n.outputs.first().and_then(|o| self.get(*o).place),
                        hint: n.hint.clone(),
                        at: n.at.clone(),
                        span: 0..0,
                    });
                }
                TensorOrigin::View { made: (op, of, attributes), .. } => {
                    source.ops.push(SourceOp {
                        op: op.clone(),
                        inputs: vec![Value::from(self.get(*of).name.as_str())],
                        outputs: vec![t.name.clone()],
                        attributes: attributes.clone(),
                        pin: None,
                        place: None,
                        hint: Vec::new(),
                        at: None,
                        span: 0..0,
                    });
                }
            }
        }
        let name = |id: &crate::TensorId| self.get(*id).name.clone();
        source.outputs =
            self.outputs.iter().map(|o| SourceOutput { name: name(o), span: 0..0 }).collect();
        source
    }
}

fn json_number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "whole and small, as just checked")]
    // A whole number is written without a point, as a programmer would, where reading it back gives the same
    // constant. Minus zero is no integer, and past 2^53 a float64 has no digit after which it could be cut.
    if value.fract() == 0.0 && value.abs() < 1e15 && value.is_sign_positive() {
        return Value::from(value as i64);
    }
    if value.is_infinite() {
        return Value::from(if value > 0.0 { "+inf" } else { "-inf" });
    }
    Value::from(value)
}

/// The text of a graph with its symbols.
pub fn print_source(source: &GraphSource) -> String {
    let mut out = format!("graph {}", source.name);
    if !source.symbols.is_empty() {
        let symbols = source.symbols.iter().map(|s| {
            let step = if s.step == 1 { String::new() } else { format!(" step {}", s.step) };
            format!("{} in {}..{}{step}", s.name, s.min, s.max)
        });
        let _ = write!(out, "[{}]", symbols.collect::<Vec<_>>().join(", "));
    }
    out.push('(');
    for i in &source.inputs {
        let size = i.size.iter().map(|n| match n {
            SymbolicSize::Fixed(n) => n.to_string(),
            SymbolicSize::Symbol(s) => s.clone(),
        });
        let size = size.collect::<Vec<_>>().join(", ");
        let _ = write!(out, "\n    {}: {}[{size}]", i.name, i.dtype);
        if i.role != InputRole::Input {
            let _ = write!(out, " @{}", i.role.name());
        }
        let _ = write!(out, "{}{},", pin_suffix(i.pin.as_ref()), place_suffix(i.place));
    }
    out += if source.inputs.is_empty() { ") {\n" } else { "\n) {\n" };
    for op in &source.ops {
        let mut args: Vec<String> = op
            .inputs
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string))
            .collect();
        args.extend(print_attributes(&op.attributes));
        let _ = write!(out, "    {} = {}({})", op.outputs.join(", "), op.op, args.join(", "));
        out += &pin_suffix(op.pin.as_ref());
        out += &place_suffix(op.place);
        if !op.hint.is_empty() {
            let splits = op.hint.iter().map(|(d, n)| format!("{d}: {n}"));
            let _ = write!(out, " split {{{}}}", splits.collect::<Vec<_>>().join(", "));
        }
        if let Some(at) = &op.at {
            let _ = write!(out, " at {}", Value::from(at.as_str()));
        }
        out.push('\n');
    }
    let outputs: Vec<&str> = source.outputs.iter().map(|o| o.name.as_str()).collect();
    let _ = writeln!(out, "    return {}\n}}", outputs.join(", "));
    out
}

fn print_attributes(map: &Map<String, Value>) -> impl Iterator<Item = String> {
    map.iter().map(|(k, v)| format!("{k}={v}"))
}

fn pin_suffix(pin: Option<&LayoutRequest>) -> String {
    pin.map_or_else(String::new, |pin| format!(" {}", print_pin(pin)))
}

fn place_suffix(place: Option<RequestedMemory>) -> String {
    place.map_or_else(String::new, |place| format!(" place {}", place.name()))
}

/// A pin as the text of a graph has it.
pub fn print_pin(pin: &LayoutRequest) -> String {
    match pin {
        LayoutRequest::Stick(d) => format!("pin stick {d}"),
        LayoutRequest::Sparse => "pin sparse".into(),
        LayoutRequest::Order(order) => format!("pin order {order:?}"),
        LayoutRequest::Exactly(l) => {
            format!("pin {}", zellige_notation::spyre::print_with_given_host(l))
        }
    }
}
