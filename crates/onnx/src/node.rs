//! A node as the rules of operations see it: operands, attributes, results.

use crate::carried::{self, carrier};
use crate::error::{Needs, OnnxError, Result, quote};
use crate::literal::{self, Literal};
use crate::proto::{self, Given};
use crate::walk::{Import, Value};
use serde_json::{Map, Value as Json};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphError, Operand, TensorId};

/// Operations that give elements of their first operand and nothing else.
const MOVES: &[&str] = &[
    "reshape",
    "permute",
    "transpose",
    "slice",
    "select",
    "squeeze",
    "unsqueeze",
    "expand",
    "flip",
    "repeat",
    "cat",
    "stack",
    "index_select",
    "embedding",
    "gather",
    "index",
    "identity",
    "tril",
    "triu",
];

/// A node on its way into the graph.
pub(crate) struct Node<'i, 'a> {
    pub(crate) import: &'i mut Import<'a>,
    proto: &'a proto::Node<'a>,
    index: usize,
    /// Attributes that were asked for.
    taken: Vec<&'static str>,
    /// Whether all were.
    all_taken: bool,
    /// Results that were made.
    named: usize,
}

impl<'i, 'a> Node<'i, 'a> {
    pub(crate) fn new(
        import: &'i mut Import<'a>,
        proto: &'a proto::Node<'a>,
        index: usize,
    ) -> Node<'i, 'a> {
        Node { import, proto, index, taken: Vec::new(), all_taken: false, named: 0 }
    }

    /// Its operation.
    pub(crate) fn op(&self) -> &'a str {
        self.proto.op
    }

    pub(crate) fn domain(&self) -> &'a str {
        self.proto.domain
    }

    pub(crate) fn overload(&self) -> &'a str {
        self.proto.overload
    }

    /// Every attribute, as the call of a function passes them on.
    pub(crate) fn all_attributes(&mut self) -> Vec<(&'a str, &'a Given<'a>)> {
        self.all_taken = true;
        let all = self.proto.attributes.iter();
        all.filter_map(|a| Some((a.name, self.resolved(&a.value)?))).collect()
    }

    pub(crate) fn opset(&self) -> i64 {
        self.import.opset()
    }

    fn label(&self) -> String {
        let name = quote(self.proto.name);
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        format!("node {}{name} ({})", self.index, quote(self.proto.op))
    }

    /// A refusal of the node.
    pub(crate) fn bad(&self, kind: &'static str, message: impl Into<String>) -> OnnxError {
        OnnxError { node: Some(self.label()), ..OnnxError::new(kind, message) }
    }

    /// A refusal of an operand.
    pub(crate) fn bad_operand(&self, k: usize, message: impl Into<String>) -> OnnxError {
        let name = self.proto.inputs.get(k).map_or(String::new(), |n| quote(n));
        OnnxError { operand: Some((k, name)), ..self.bad("bad_operand", message) }
    }

    /// An error of the node, or of one inside of it.
    pub(crate) fn placed(&self, e: OnnxError) -> OnnxError {
        let node = match &e.node {
            Some(inner) => format!("{inner} in {}", self.label()),
            None => self.label(),
        };
        OnnxError { node: Some(node), ..e }
    }

    fn refused(&self, op: &str, e: &GraphError) -> OnnxError {
        let operand = e.operand.map_or(String::new(), |k| format!(", its operand {k}"));
        self.bad(e.kind, format!("as `{op}`{operand}: {}", e.message))
    }

    // Operands

    /// Operands, with those left out at the end not counted.
    pub(crate) fn inputs(&self) -> usize {
        self.proto.inputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    /// That it has this many operands.
    pub(crate) fn arity(&self, least: usize, most: usize) -> Result<()> {
        let have = self.inputs();
        if (least..=most).contains(&have) {
            return Ok(());
        }
        let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.bad(
            "bad_operand",
            format!("it has {have} operand{}; accepted: {range}", if have == 1 { "" } else { "s" }),
        ))
    }

    /// Whether an operand is given.
    pub(crate) fn has(&self, k: usize) -> bool {
        self.proto.inputs.get(k).is_some_and(|n| !n.is_empty())
    }

    /// Results that are named.
    pub(crate) fn outputs(&self) -> usize {
        self.proto.outputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    fn name(&self, k: usize) -> Result<&'a str> {
        match self.proto.inputs.get(k) {
            Some(name) if !name.is_empty() => Ok(name),
            _ => Err(self.bad("bad_operand", format!("operand {k} is missing"))),
        }
    }

    fn unknown(&self, k: usize) -> OnnxError {
        self.bad_operand(
            k,
            "nothing before this node has that name; nodes come in an order in which they can run",
        )
    }

    /// What an operand stands for.
    pub(crate) fn value(&self, k: usize) -> Result<Value> {
        let name = self.name(k)?;
        self.import.value(name).cloned().ok_or_else(|| self.unknown(k))
    }

    /// The tensor of a value.
    pub(crate) fn tensor_of(&mut self, value: &Value, part: &str) -> Result<TensorId> {
        match value {
            Value::Tensor(id) => Ok(*id),
            Value::Known(literal) => {
                let name = self.free_name(part);
                self.import.materialize(literal, name).map_err(|e| self.placed(e))
            }
            Value::Initializer(k) => {
                let name = self.import.initializers[*k].name;
                let id = self.import.tensor(name).map_err(|e| self.placed(e))?;
                id.ok_or_else(|| self.bad("bad_operand", "an initializer of another graph"))
            }
        }
    }

    /// Slice `at` of a dimension of an operand.
    pub(crate) fn slice_at(&mut self, k: usize, dim: usize, at: i64) -> Result<Value> {
        if let Some(x) = self.literal(k)?
            && let Some(made) = crate::ops::taken(&x, dim, &[at], &[])
        {
            return Ok(Value::Known(Rc::new(made)));
        }
        let x = Operand::Tensor(self.tensor(k)?);
        let attributes = serde_json::json!({"dim": dim, "index": at});
        Ok(Value::Tensor(self.part("turn", "select", &[x], attributes)?))
    }

    /// Values of one shape as slices of a new dimension.
    pub(crate) fn stacked(&mut self, rows: &[Value], axis: i64) -> Result<Value> {
        let Some(first) = rows.first() else {
            return Err(self.bad("bad_operand", "no turns, and results stacked of them: no shape"));
        };
        let (size, dtype) = self.import.meta_of(first).map_err(|e| self.placed(e))?;
        let dim = self.dim(axis, size.len() + 1)?;
        let known: Option<Vec<Rc<Literal>>> = rows
            .iter()
            .map(|r| match r {
                Value::Known(l) if l.shape == size && l.dtype == dtype => Some(l.clone()),
                _ => None,
            })
            .collect();
        if let Some(all) = known
            && dim == 0
            && let Some(made) = literal::stack(&all)
        {
            self.named += 1;
            return Ok(Value::Known(Rc::new(made)));
        }
        let mut operands = Vec::new();
        for row in rows {
            operands.push(Operand::Tensor(self.tensor_of(row, "row")?));
        }
        if operands.len() == 1 {
            return self.emit("unsqueeze", &operands, serde_json::json!({"dim": dim}));
        }
        self.emit("stack", &operands, serde_json::json!({"dim": dim}))
    }

    /// The tensor of an operand.
    pub(crate) fn tensor(&mut self, k: usize) -> Result<TensorId> {
        let name = self.name(k)?;
        let id = self.import.tensor(name).map_err(|e| self.placed(e))?;
        id.ok_or_else(|| self.unknown(k))
    }

    /// Size and dtype of an operand.
    pub(crate) fn meta(&self, k: usize) -> Result<(Vec<i64>, Dtype)> {
        let name = self.name(k)?;
        let meta = self.import.meta(name).map_err(|e| self.placed(e))?;
        meta.ok_or_else(|| self.unknown(k))
    }

    /// The size of an operand.
    pub(crate) fn size(&self, k: usize) -> Result<Vec<i64>> {
        Ok(self.meta(k)?.0)
    }

    /// The dtype of an operand.
    pub(crate) fn dtype(&self, k: usize) -> Result<Dtype> {
        Ok(self.meta(k)?.1)
    }

    /// The elements of an operand, where they are known.
    pub(crate) fn literal(&mut self, k: usize) -> Result<Option<Rc<Literal>>> {
        let name = self.name(k)?;
        if self.import.value(name).is_none() {
            return Err(self.unknown(k));
        }
        self.import.literal(name).map_err(|e| self.placed(e))
    }

    /// The elements of an operand, which have to be known.
    pub(crate) fn known(&mut self, k: usize, what: &str) -> Result<Rc<Literal>> {
        if let Some(literal) = self.literal(k)? {
            return Ok(literal);
        }
        let value = self.value(k)?;
        Err(self.needed(what, &value, Some(k)))
    }

    /// A refusal because something has to be known and is not.
    pub(crate) fn needed(&self, what: &str, value: &Value, operand: Option<usize>) -> OnnxError {
        let roots = self.import.roots(value);
        let from = match &roots[..] {
            [] => "computed from data".into(),
            [one] => format!("computed from the input `{}`", quote(one)),
            more => format!("computed from the inputs {}", quote(&more.join(", "))),
        };
        let message = format!(
            "{what}: {from}; accepted: a constant, what follows from shapes, or inputs whose elements \
             are at hand when it is compiled (zellige run --input NAME=FILE)"
        );
        let needs = (!roots.is_empty()).then(|| Box::new(Needs(roots)));
        let refused = match operand {
            Some(k) => self.bad_operand(k, message),
            None => self.bad("bad_operand", message),
        };
        OnnxError { needs, ..refused }
    }

    /// Whole numbers that have to be known.
    pub(crate) fn ints(&mut self, k: usize, what: &str) -> Result<Vec<i64>> {
        let literal = self.known(k, what)?;
        let whole = literal.whole().filter(|_| literal.shape.len() <= 1).map(<[i64]>::to_vec);
        whole.ok_or_else(|| self.bad_operand(k, format!("{what}: accepted is a list of integers")))
    }

    /// A single number that has to be known.
    pub(crate) fn number(&mut self, k: usize, what: &str) -> Result<f64> {
        let literal = self.known(k, what)?;
        if literal.len() == 1 {
            return Ok(literal.number(0));
        }
        Err(self.bad_operand(k, format!("{what}: accepted is one number, not {:?}", literal.shape)))
    }

    /// A number, where the operand is one that needs no tensor of its own beside another of `rank`
    /// dimensions; else its tensor.
    pub(crate) fn operand(&mut self, k: usize, rank: usize) -> Result<Operand> {
        if let Some(literal) = self.literal(k)?
            && literal.len() == 1
            && literal.shape.len() <= rank
            && !literal.number(0).is_nan()
        {
            return Ok(Operand::Number(literal.number(0)));
        }
        Ok(Operand::Tensor(self.tensor(k)?))
    }

    /// A dimension of a tensor, negative ones from the end.
    pub(crate) fn dim(&self, axis: i64, rank: usize) -> Result<usize> {
        let n = i64::try_from(rank).unwrap_or(i64::MAX);
        let wrapped = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
        let found = wrapped.filter(|d| *d < n).and_then(|d| usize::try_from(d).ok());
        found.ok_or_else(|| {
            let accepted = if rank == 0 { "none".into() } else { format!("{} to {}", -n, n - 1) };
            self.bad(
                "bad_attribute",
                format!("axis {axis} of {rank} dimensions; accepted: {accepted}"),
            )
        })
    }

    // Attributes

    fn given(&mut self, name: &'static str) -> Option<&'a Given<'a>> {
        self.taken.push(name);
        let given = &self.proto.attributes.iter().find(|a| a.name == name)?.value;
        self.resolved(given)
    }

    /// An attribute; one that refers to the call of a function is what the call says, if it does.
    fn resolved(&self, given: &'a Given<'a>) -> Option<&'a Given<'a>> {
        match given {
            Given::Reference(name) => self.import.attribute(name),
            given => Some(given),
        }
    }

    pub(crate) fn wrong(&self, name: &str, accepted: &str) -> OnnxError {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        let is = given.map_or("nothing", |a| a.value.kind());
        self.bad("bad_attribute", format!("attribute `{name}` is {is}; accepted: {accepted}"))
    }

    /// Whether an attribute is given.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        given.is_some_and(|a| self.resolved(&a.value).is_some())
    }

    /// An integer.
    pub(crate) fn int(&mut self, name: &'static str, default: i64) -> Result<i64> {
        match self.given(name) {
            None => Ok(default),
            Some(Given::Int(i)) => Ok(*i),
            Some(_) => Err(self.wrong(name, "an integer")),
        }
    }

    /// A truth value, 0 or 1.
    pub(crate) fn flag(&mut self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// A number.
    pub(crate) fn float(&mut self, name: &'static str, default: f32) -> Result<f64> {
        match self.given(name) {
            None => Ok(shortest(default)),
            Some(Given::Float(f)) => Ok(shortest(*f)),
            Some(_) => Err(self.wrong(name, "a float")),
        }
    }

    /// Integers.
    pub(crate) fn list(&mut self, name: &'static str) -> Result<Option<Vec<i64>>> {
        match self.given(name) {
            None => Ok(None),
            Some(Given::Ints(list)) => Ok(Some(list.clone())),
            Some(_) => Err(self.wrong(name, "a list of integers")),
        }
    }

    /// A word.
    pub(crate) fn word(&mut self, name: &'static str, default: &str) -> Result<String> {
        match self.given(name) {
            None => Ok(default.into()),
            Some(Given::Text(t)) => Ok(String::from_utf8_lossy(t).into_owned()),
            Some(_) => Err(self.wrong(name, "a text")),
        }
    }

    /// Whatever an attribute is.
    pub(crate) fn any(&mut self, name: &'static str) -> Option<&'a Given<'a>> {
        self.given(name)
    }

    /// An attribute that only matters where it has another value.
    pub(crate) fn only(&mut self, name: &'static str, accepted: i64) -> Result<()> {
        let value = self.int(name, accepted)?;
        if value == accepted {
            return Ok(());
        }
        Err(self
            .bad("bad_attribute", format!("attribute `{name}` is {value}; accepted: {accepted}")))
    }

    // Results

    /// The name of result `k` in the graph.
    fn result(&mut self, k: usize) -> String {
        match self.proto.outputs.get(k) {
            Some(name) if !name.is_empty() => self.import.name_of(name),
            _ => {
                let like = format!("{}.unused", self.base());
                self.import.names.free(&like)
            }
        }
    }

    /// The name of the first result in the graph.
    pub(crate) fn result_name(&mut self) -> String {
        self.result(0)
    }

    fn base(&mut self) -> String {
        match self.proto.outputs.iter().find(|n| !n.is_empty()) {
            Some(name) => self.import.name_of(name),
            None => format!("_{}_{}", self.proto.op, self.index),
        }
    }

    /// A name like that of the first result, with a part added.
    pub(crate) fn free_name(&mut self, part: &str) -> String {
        let like = format!("{}.{part}", self.base());
        self.import.names.free(&like)
    }

    /// An operation on the way to the results; `part` is added to the name of the first.
    pub(crate) fn part(
        &mut self,
        part: &str,
        op: &str,
        operands: &[Operand],
        attributes: Json,
    ) -> Result<TensorId> {
        let name = self.free_name(part);
        self.add(op, operands, attributes, &[&name]).map(|ids| ids[0])
    }

    /// An operation on tensors on the way to the results.
    pub(crate) fn step(&mut self, op: &str, of: &[TensorId], attributes: Json) -> Result<TensorId> {
        let operands: Vec<Operand> = of.iter().map(|id| Operand::Tensor(*id)).collect();
        self.part(op, op, &operands, attributes)
    }

    /// An operation on a tensor and a number on the way to the results.
    pub(crate) fn with(&mut self, op: &str, x: TensorId, number: f64) -> Result<TensorId> {
        self.part(op, op, &[Operand::Tensor(x), Operand::Number(number)], Json::Null)
    }

    /// A tensor in this dtype on the way to the results.
    pub(crate) fn cast(&mut self, x: TensorId, dtype: Dtype) -> Result<TensorId> {
        if self.import.builder.tensor(x).dtype == dtype {
            return Ok(x);
        }
        self.step("cast", &[x], serde_json::json!({"dtype": dtype.name()}))
    }

    /// A tensor with elements that are known.
    pub(crate) fn constant(&mut self, literal: &Literal, part: &str) -> Result<TensorId> {
        let name = self.free_name(part);
        self.import.materialize(literal, name).map_err(|e| self.placed(e))
    }

    /// A tensor of numbers that are known, in this dtype.
    pub(crate) fn numbers(
        &mut self,
        shape: &[i64],
        list: Vec<f64>,
        dtype: Dtype,
        part: &str,
    ) -> Result<TensorId> {
        let data = literal::Numbers::Float(list);
        let float = Literal { dtype: Dtype::Float64, shape: shape.to_vec(), data };
        let made = float.cast(dtype);
        let made = made.ok_or_else(|| self.bad("bad_operand", format!("no numbers of {dtype}")))?;
        self.constant(&made, part)
    }

    /// The operation that makes the next result.
    pub(crate) fn emit(
        &mut self,
        op: &str,
        operands: &[Operand],
        attributes: Json,
    ) -> Result<Value> {
        let name = self.result(self.named);
        self.named += 1;
        Ok(Value::Tensor(self.add(op, operands, attributes, &[&name])?[0]))
    }

    /// The operation that makes all results.
    pub(crate) fn emit_all(
        &mut self,
        op: &str,
        operands: &[Operand],
        attributes: Json,
        count: usize,
    ) -> Result<Vec<Value>> {
        let names: Vec<String> = (0..count).map(|k| self.result(k)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(self.add(op, operands, attributes, &names)?.into_iter().map(Value::Tensor).collect())
    }

    /// The operation that makes the next result, which has this dtype.
    pub(crate) fn emit_as(
        &mut self,
        dtype: Dtype,
        op: &str,
        operands: &[Operand],
        attributes: Json,
    ) -> Result<Value> {
        // Floats keep their dtype in every operation; whole numbers may widen, as in PyTorch.
        if literal::is_float(dtype) {
            return self.emit(op, operands, attributes);
        }
        let id = self.part(op, op, operands, attributes)?;
        self.converted(id, dtype)
    }

    /// A tensor as the next result, in this dtype.
    pub(crate) fn converted(&mut self, id: TensorId, dtype: Dtype) -> Result<Value> {
        if self.import.dtype_of(id) == dtype {
            self.named += 1;
            return Ok(Value::Tensor(id));
        }
        if let Some((bits, signed)) = carried::bits(dtype) {
            let made = self.fitted(id, dtype, bits, signed)?;
            self.named += 1;
            return Ok(Value::Tensor(made));
        }
        self.emit("cast", &[Operand::Tensor(id)], serde_json::json!({"dtype": dtype.name()}))
    }

    /// Whole numbers cut to the bits of a dtype that is carried.
    fn fitted(&mut self, id: TensorId, dtype: Dtype, bits: u32, signed: bool) -> Result<TensorId> {
        let wide = if bits > 16 { Dtype::Int64 } else { Dtype::Int32 };
        let x = self.cast(id, wide)?;
        let span = 1i64 << bits;
        let low = [Operand::Tensor(x), Operand::Whole(span - 1)];
        let mut x = self.part("low", "bitwise_and", &low, Json::Null)?;
        if signed {
            // The upper half stands for negative numbers.
            let half = (span / 2) as f64;
            x = self.with("add", x, half)?;
            let low = [Operand::Tensor(x), Operand::Whole(span - 1)];
            x = self.part("turned", "bitwise_and", &low, Json::Null)?;
            x = self.with("sub", x, half)?;
        }
        let made = self.cast(x, carrier(dtype))?;
        self.import.carry(made, dtype);
        Ok(made)
    }

    fn add(
        &mut self,
        op: &str,
        operands: &[Operand],
        attributes: Json,
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        let attributes = match attributes {
            Json::Object(map) => map,
            _ => Map::new(),
        };
        let made = self.import.builder.op(op, operands, &attributes, results);
        let made = made.map_err(|e| self.refused(op, &e))?;
        if matches!(op, "mul" | "add" | "div" | "erf") {
            self.import.made.insert(made[0], (op.to_string(), operands.to_vec()));
        }
        // What only moves elements carries what its first tensor does.
        if let Some(Operand::Tensor(first)) = operands.first()
            && MOVES.contains(&op)
        {
            let dtype = self.import.dtype_of(*first);
            made.iter().for_each(|id| self.import.carry(*id, dtype));
        }
        if !self.proto.name.is_empty() {
            self.import.builder.at(made[0], self.proto.name);
        }
        Ok(made)
    }

    /// The size of a tensor of the graph.
    pub(crate) fn size_of(&self, id: TensorId) -> Vec<i64> {
        self.import.builder.tensor(id).size.clone()
    }

    /// Names the results, after every attribute was looked at.
    pub(crate) fn finish(self, made: &[Value]) -> Result<()> {
        let known = |name: &str| self.all_taken || self.taken.contains(&name);
        if let Some(a) = self.proto.attributes.iter().find(|a| !known(a.name)) {
            let accepted =
                if self.taken.is_empty() { "none".into() } else { self.taken.join(", ") };
            let message =
                format!("attribute `{}` has no equivalent; accepted: {accepted}", quote(a.name));
            return Err(self.bad("bad_attribute", message));
        }
        for (k, name) in self.proto.outputs.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let Some(value) = made.get(k) else {
                let message = format!(
                    "result {k} `{}` has no equivalent; accepted: the first {}",
                    quote(name),
                    made.len()
                );
                return Err(self.bad("bad_results", message));
            };
            let defined = self.import.define(name, value.clone());
            defined.map_err(|e| self.placed(e))?;
        }
        Ok(())
    }
}

/// The shortest decimal of a float32, as a number: 0.01 and not 0.009999999776.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}
