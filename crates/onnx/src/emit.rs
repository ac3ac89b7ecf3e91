//! What a node adds to the graph: operations on the way, and those that make its results.

use crate::carried::{self, carrier};
use crate::error::Result;
use crate::literal::{self, Literal};
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Map, Value as Json};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

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

impl Node<'_, '_> {
    /// The tensor of a value.
    pub(crate) fn tensor_of(&mut self, value: &Value, part: &str) -> Result<TensorId> {
        match value {
            Value::Tensor(id) => Ok(*id),
            Value::Known(literal) => {
                let name = self.free_name(part);
                self.import.materialize(literal, name).map_err(|e| self.placed(e))
            }
            Value::Initializer(k) => self.import.initializer(*k).map_err(|e| self.placed(e)),
        }
    }

    /// Slice `at` of a dimension of an operand.
    pub(crate) fn slice_at(&mut self, k: usize, dim: usize, at: i64) -> Result<Value> {
        if let Some(x) = self.literal(k)?
            && let Some(made) = crate::ops::taken(&x, dim, &[at], &[])
        {
            return Ok(Value::Known(Rc::new(made)));
        }
        let x = GraphOperand::Tensor(self.tensor(k)?);
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
            operands.push(GraphOperand::Tensor(self.tensor_of(row, "row")?));
        }
        if operands.len() == 1 {
            return self.emit("unsqueeze", &operands, serde_json::json!({"dim": dim}));
        }
        self.emit("stack", &operands, serde_json::json!({"dim": dim}))
    }

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
            None => format!("_{}", self.proto.op),
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
        operands: &[GraphOperand],
        attributes: Json,
    ) -> Result<TensorId> {
        let name = self.free_name(part);
        self.add(op, operands, attributes, &[&name]).map(|ids| ids[0])
    }

    /// An operation on tensors on the way to the results.
    pub(crate) fn step(&mut self, op: &str, of: &[TensorId], attributes: Json) -> Result<TensorId> {
        let operands: Vec<GraphOperand> = of.iter().map(|id| GraphOperand::Tensor(*id)).collect();
        self.part(op, op, &operands, attributes)
    }

    /// An operation on a tensor and a number on the way to the results.
    pub(crate) fn with(&mut self, op: &str, x: TensorId, number: f64) -> Result<TensorId> {
        self.part(op, op, &[GraphOperand::Tensor(x), GraphOperand::Number(number)], Json::Null)
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
        operands: &[GraphOperand],
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
        operands: &[GraphOperand],
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
        operands: &[GraphOperand],
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
        self.emit("cast", &[GraphOperand::Tensor(id)], serde_json::json!({"dtype": dtype.name()}))
    }

    /// Whole numbers cut to the bits of a dtype that is carried.
    fn fitted(&mut self, id: TensorId, dtype: Dtype, bits: u32, signed: bool) -> Result<TensorId> {
        let wide = if bits > 16 { Dtype::Int64 } else { Dtype::Int32 };
        let x = self.cast(id, wide)?;
        let span = 1i64 << bits;
        let low = [GraphOperand::Tensor(x), GraphOperand::Whole(span - 1)];
        let mut x = self.part("low", "bitwise_and", &low, Json::Null)?;
        if signed {
            // The upper half stands for negative numbers.
            let half = (span / 2) as f64;
            x = self.with("add", x, half)?;
            let low = [GraphOperand::Tensor(x), GraphOperand::Whole(span - 1)];
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
        operands: &[GraphOperand],
        attributes: Json,
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        let attributes = match attributes {
            Json::Object(map) => map,
            _ => Map::new(),
        };
        let made = self.import.builder.add_op(op, operands, &attributes, results);
        let made = made.map_err(|e| self.refused(op, &e))?;
        if matches!(op, "mul" | "add" | "div" | "erf") {
            self.import.made.insert(made[0], (op.to_string(), operands.to_vec()));
        }
        // What only moves elements carries what its first tensor does.
        if let Some(GraphOperand::Tensor(first)) = operands.first()
            && MOVES.contains(&op)
        {
            let dtype = self.import.dtype_of(*first);
            made.iter().for_each(|id| self.import.carry(*id, dtype));
        }
        if !self.proto.name.is_empty() {
            self.import.builder.set_source_location(made[0], self.proto.name);
        }
        Ok(made)
    }

    /// The size of a tensor of the graph.
    pub(crate) fn size_of(&self, id: TensorId) -> Vec<i64> {
        self.import.builder.tensor(id).size.clone()
    }
}
