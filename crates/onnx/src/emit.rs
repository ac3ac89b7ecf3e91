//! Adds the operations of a node to the graph: intermediate ones, and those that make its results.

use crate::carried::{self, carrier_dtype};
use crate::error::Result;
use crate::literal::{self, TensorLiteral};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

/// Operations whose results consist of elements of their first operand.
// The carried dtype has to be remembered for these only: every other operation ends by fitting its
// result.
const MOVE_OPERATIONS: &[&str] = &[
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

impl NodeLowering<'_, '_> {
    /// The tensor of a value.
    pub(crate) fn tensor_of(&mut self, value: &ModelValue, part: &str) -> Result<TensorId> {
        match value {
            ModelValue::Tensor(id) => Ok(*id),
            ModelValue::Known(literal) => {
                let name = self.free_name(part);
                self.import.materialize_literal(literal, name).map_err(|e| self.with_node_place(e))
            }
            ModelValue::Initializer(k) => {
                self.import.initializer_weight(*k).map_err(|e| self.with_node_place(e))
            }
        }
    }

    /// Takes slice `at` along a dimension of an operand.
    pub(crate) fn slice_at(&mut self, k: usize, dim: usize, at: i64) -> Result<ModelValue> {
        if let Some(x) = self.operand_literal(k)?
            // Folding keeps a loop over a constant list constant in every iteration, so that its
            // shapes stay known.
            && let Some(made) = crate::ops::take_along_dim(&x, dim, &[at], &[])
        {
            return Ok(ModelValue::Known(Rc::new(made)));
        }
        let x = GraphOperand::Tensor(self.operand_tensor(k)?);
        Ok(ModelValue::Tensor(self.emit_part("turn", OpCall::select(dim, at), &[x])?))
    }

    /// Stacks values of one shape along a new dimension.
    pub(crate) fn stack_values(&mut self, rows: &[ModelValue], axis: i64) -> Result<ModelValue> {
        let Some(first) = rows.first() else {
            return Err(self.refuse_node(
                "bad_operand",
                "without iterations the stacked results have no shape",
            ));
        };
        let (size, dtype) = self.import.value_meta(first).map_err(|e| self.with_node_place(e))?;
        let dim = self.normalize_dim(axis, size.len() + 1)?;
        let known: Option<Vec<Rc<TensorLiteral>>> = rows
            .iter()
            .map(|r| match r {
                ModelValue::Known(l) if l.shape == size && l.dtype == dtype => Some(l.clone()),
                _ => None,
            })
            .collect();
        if let Some(all) = known
            && dim == 0
            && let Some(made) = literal::stack_literals(&all)
        {
            self.named += 1;
            return Ok(ModelValue::Known(Rc::new(made)));
        }
        let mut operands = Vec::new();
        for row in rows {
            operands.push(GraphOperand::Tensor(self.tensor_of(row, "row")?));
        }
        // `stack` of one tensor would copy it; a dimension of size 1 is a view.
        if operands.len() == 1 {
            return self.emit_result(OpCall::unsqueeze(dim), &operands);
        }
        self.emit_result(OpCall::stack(dim), &operands)
    }

    /// The name of result `k` in the graph.
    fn name_result(&mut self, k: usize) -> String {
        match self.proto.outputs.get(k) {
            Some(name) if !name.is_empty() => self.import.graph_name(name),
            _ => {
                // A result without a name still needs one in the graph.
                let like = format!("{}.unused", self.base_name());
                self.import.names.unused_name(&like)
            }
        }
    }

    /// The name of the first result in the graph.
    pub(crate) fn first_result_name(&mut self) -> String {
        self.name_result(0)
    }

    fn base_name(&mut self) -> String {
        match self.proto.outputs.iter().find(|n| !n.is_empty()) {
            Some(name) => self.import.graph_name(name),
            None => format!("_{}", self.proto.op),
        }
    }

    /// A free name: that of the first result, with `part` appended.
    pub(crate) fn free_name(&mut self, part: &str) -> String {
        let like = format!("{}.{part}", self.base_name());
        self.import.names.unused_name(&like)
    }

    /// Adds an intermediate operation; `part` is appended to the name of the first result.
    pub(crate) fn emit_part(
        &mut self,
        part: &str,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<TensorId> {
        let name = self.free_name(part);
        self.add_operation(&call.into(), operands, &[&name]).map(|ids| ids[0])
    }

    /// Adds an intermediate operation on tensors.
    pub(crate) fn emit_step(
        &mut self,
        call: impl Into<OpCall>,
        of: &[TensorId],
    ) -> Result<TensorId> {
        let call = call.into();
        let operands: Vec<GraphOperand> = of.iter().map(|id| GraphOperand::Tensor(*id)).collect();
        let name = self.free_name(call.name());
        self.add_operation(&call, &operands, &[&name]).map(|ids| ids[0])
    }

    /// Adds an intermediate operation on a tensor and a number.
    pub(crate) fn emit_with_number(
        &mut self,
        op: &'static str,
        x: TensorId,
        number: f64,
    ) -> Result<TensorId> {
        self.emit_part(op, op, &[GraphOperand::Tensor(x), GraphOperand::Number(number)])
    }

    /// Converts an intermediate tensor to this dtype.
    pub(crate) fn cast_tensor(&mut self, x: TensorId, dtype: Dtype) -> Result<TensorId> {
        if self.import.builder.tensor(x).dtype == dtype {
            return Ok(x);
        }
        self.emit_step(OpCall::cast(dtype), &[x])
    }

    /// Adds a tensor with known elements.
    pub(crate) fn emit_constant(
        &mut self,
        literal: &TensorLiteral,
        part: &str,
    ) -> Result<TensorId> {
        let name = self.free_name(part);
        self.import.materialize_literal(literal, name).map_err(|e| self.with_node_place(e))
    }

    /// Adds a tensor of known numbers in this dtype.
    pub(crate) fn emit_numbers(
        &mut self,
        shape: &[i64],
        list: Vec<f64>,
        dtype: Dtype,
        part: &str,
    ) -> Result<TensorId> {
        let data = literal::LiteralNumbers::Float(list);
        let float = TensorLiteral { dtype: Dtype::Float64, shape: shape.to_vec(), data };
        let made = float.cast_to(dtype);
        let made =
            made.ok_or_else(|| self.refuse_node("bad_operand", format!("no numbers of {dtype}")))?;
        self.emit_constant(&made, part)
    }

    /// Adds the operation that makes the next result.
    pub(crate) fn emit_result(
        &mut self,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<ModelValue> {
        let name = self.name_result(self.named);
        self.named += 1;
        Ok(ModelValue::Tensor(self.add_operation(&call.into(), operands, &[&name])?[0]))
    }

    /// Adds the operation that makes all results.
    pub(crate) fn emit_results(
        &mut self,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
        count: usize,
    ) -> Result<Vec<ModelValue>> {
        let names: Vec<String> = (0..count).map(|k| self.name_result(k)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let made = self.add_operation(&call.into(), operands, &names)?;
        Ok(made.into_iter().map(ModelValue::Tensor).collect())
    }

    /// Adds the operation that makes the next result, which has this dtype.
    pub(crate) fn emit_result_as(
        &mut self,
        dtype: Dtype,
        call: impl Into<OpCall>,
        operands: &[GraphOperand],
    ) -> Result<ModelValue> {
        let call = call.into();
        // Floats keep their dtype in every operation, so the operation can be the result itself.
        // Integers may widen, as in PyTorch, and are converted back.
        if literal::is_float(dtype) {
            return self.emit_result(call, operands);
        }
        let part = call.name().to_string();
        let id = self.emit_part(&part, call, operands)?;
        self.convert_result(id, dtype)
    }

    /// Makes a tensor the next result, converted to this dtype.
    pub(crate) fn convert_result(&mut self, id: TensorId, dtype: Dtype) -> Result<ModelValue> {
        if self.import.tensor_dtype(id) == dtype {
            self.named += 1;
            return Ok(ModelValue::Tensor(id));
        }
        if let Some((bits, signed)) = carried::carried_bits(dtype) {
            let made = self.fit_bits(id, dtype, bits, signed)?;
            self.named += 1;
            return Ok(ModelValue::Tensor(made));
        }
        self.emit_result(OpCall::cast(dtype), &[GraphOperand::Tensor(id)])
    }

    /// Truncates integers to the bits of a carried dtype.
    fn fit_bits(
        &mut self,
        id: TensorId,
        dtype: Dtype,
        bits: u32,
        signed: bool,
    ) -> Result<TensorId> {
        let wide = if bits > 16 { Dtype::Int64 } else { Dtype::Int32 };
        let x = self.cast_tensor(id, wide)?;
        // Wrapping modulo 2^bits is what ONNX's integers do on overflow in every implementation
        // that exists; the card has no type of these bits that would do it by itself.
        let span = 1i64 << bits;
        let low = [GraphOperand::Tensor(x), GraphOperand::Whole(span - 1)];
        let mut x = self.emit_part("low", "bitwise_and", &low)?;
        if signed {
            // In two's complement the upper half of the values is negative.
            let half = (span / 2) as f64;
            x = self.emit_with_number("add", x, half)?;
            let low = [GraphOperand::Tensor(x), GraphOperand::Whole(span - 1)];
            x = self.emit_part("turned", "bitwise_and", &low)?;
            x = self.emit_with_number("sub", x, half)?;
        }
        let made = self.cast_tensor(x, carrier_dtype(dtype))?;
        self.import.set_carried_dtype(made, dtype);
        Ok(made)
    }

    fn add_operation(
        &mut self,
        call: &OpCall,
        operands: &[GraphOperand],
        results: &[&str],
    ) -> Result<Vec<TensorId>> {
        let op = call.name();
        let made = self.import.builder.add_call(call, operands, results);
        let made = made.map_err(|e| self.graph_refusal(op, &e))?;
        // The operations that a written-out GELU consists of; remembering every operation would
        // keep all operands.
        if matches!(op, "mul" | "add" | "div" | "erf") {
            self.import.made.insert(made[0], (op.to_string(), operands.to_vec()));
        }
        // An operation that only rearranges elements carries the same dtype as its first operand.
        if let Some(GraphOperand::Tensor(first)) = operands.first()
            && MOVE_OPERATIONS.contains(&op)
        {
            let dtype = self.import.tensor_dtype(*first);
            made.iter().for_each(|id| self.import.set_carried_dtype(*id, dtype));
        }
        if !self.proto.name.is_empty() {
            self.import.builder.set_source_location(made[0], self.proto.name);
        }
        Ok(made)
    }

    /// The size of a tensor of the graph.
    pub(crate) fn tensor_size(&self, id: TensorId) -> Vec<i64> {
        self.import.builder.tensor(id).size.clone()
    }
}
