//! Rules for constants, ranges, and shapes as numbers.

use super::RuleTable;
use crate::error::Result;
use crate::literal::{self, LiteralNumbers, TensorLiteral, element_count};
use crate::node::NodeLowering;
use crate::proto::AttributeValue;
use crate::tensor::WeightData;
use crate::walk::ModelValue;
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::OpCall;

pub(super) const TABLE: RuleTable = &[
    ("Constant", lower_constant),
    ("ConstantOfShape", lower_constant_of_shape),
    ("Shape", lower_shape),
    ("Size", |n| {
        let count = element_count(&n.operand_size(0)?).unwrap_or(0);
        Ok(vec![known_value(TensorLiteral::from_ints(vec![count]).with_shape(vec![]))])
    }),
    ("Range", lower_range),
];

fn known_value(literal: TensorLiteral) -> ModelValue {
    ModelValue::Known(Rc::new(literal))
}

fn float_literal(list: &[f32], shape: Vec<i64>) -> TensorLiteral {
    let data = LiteralNumbers::Float(list.iter().map(|f| f64::from(*f)).collect());
    TensorLiteral { dtype: Dtype::Float32, shape, data }
}

fn lower_constant(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(0, 0)?;
    // Exactly one of these is given since opset 12; before, only `value` exists. `sparse_value` and
    // the strings have no equivalent.
    for name in ["value", "value_float", "value_floats", "value_int", "value_ints"] {
        let literal = match n.any_attribute(name) {
            None => continue,
            Some(AttributeValue::Tensor(t)) => {
                let file = n.import.file;
                let small = t.read_literal(file).map_err(|e| n.refuse_node(e.kind, e.message))?;
                match small {
                    Some(literal) => literal,
                    None => return Ok(vec![n.add_attribute_weight(t)?]),
                }
            }
            Some(AttributeValue::Float(f)) => float_literal(&[*f], vec![]),
            Some(AttributeValue::Floats(list)) => {
                float_literal(list, vec![i64::try_from(list.len()).unwrap_or(i64::MAX)])
            }
            Some(AttributeValue::Int(i)) => TensorLiteral::from_ints(vec![*i]).with_shape(vec![]),
            Some(AttributeValue::Ints(list)) => TensorLiteral::from_ints(list.clone()),
            Some(_) => {
                return Err(
                    n.refuse_node("bad_attribute", format!("attribute `{name}` is not a number"))
                );
            }
        };
        return Ok(vec![known_value(literal)]);
    }
    Err(n.refuse_node(
        "bad_attribute",
        "it has no value; accepted: value, value_float, value_floats, value_int, value_ints",
    ))
}

fn lower_constant_of_shape(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let size = n.require_ints(0, "the shape")?;
    let value = match n.any_attribute("value") {
        // The default of the specification: a float32 zero.
        None => float_literal(&[0.0], vec![1]),
        Some(AttributeValue::Tensor(t)) => {
            let file = n.import.file;
            let value = t.read_literal(file).map_err(|e| n.refuse_node(e.kind, e.message))?;
            value.filter(|l| l.len() == 1).ok_or_else(|| {
                n.refuse_node("bad_attribute", "attribute `value` is a tensor of one element")
            })?
        }
        Some(_) => return Err(n.refuse_node("bad_attribute", "attribute `value` is a tensor")),
    };
    match element_count(&size).and_then(|c| usize::try_from(c).ok()) {
        None => Err(n.refuse_operand(0, format!("{size:?} is not a shape"))),
        Some(count) if count <= literal::MAX_LITERAL_ELEMENTS => {
            Ok(vec![known_value(value.pick_elements(size, std::iter::repeat_n(0, count)))])
        }
        Some(_) => {
            let full = OpCall::new("full")
                .with("size", size)
                .with_number("value", value.number_at(0))
                .with("dtype", value.dtype.name());
            Ok(vec![n.emit_result(full, &[])?])
        }
    }
}

/// The shape of an operand, or a part of it, as a constant: every size is known.
fn lower_shape(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(1, 1)?;
    let size = n.operand_size(0)?;
    let rank = i64::try_from(size.len()).unwrap_or(i64::MAX);
    let (start, end) = (n.int_attribute("start", 0)?, n.int_attribute("end", rank)?);
    let wrap = |v: i64| {
        let v = if v < 0 { v.saturating_add(rank) } else { v };
        // Since opset 15 `Shape` takes a part, whose ends are clamped as in a slice of Python.
        usize::try_from(v.clamp(0, rank)).unwrap_or(0)
    };
    let (start, end) = (wrap(start), wrap(end));
    Ok(vec![known_value(TensorLiteral::from_ints(size[start..end.max(start)].to_vec()))])
}

fn lower_range(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 3)?;
    let dtype = n.operand_dtype(0)?;
    let (start, end) = (n.require_number(0, "the start")?, n.require_number(1, "the limit")?);
    let step = n.require_number(2, "the step")?;
    // The formula of the specification: max(ceil((limit - start) / delta), 0).
    let count = ((end - start) / step).ceil().max(0.0);
    if step == 0.0 || !(0.0..9e15).contains(&count) {
        let message = format!("{step} does not lead from {start} to {end}");
        return Err(n.refuse_operand(2, message));
    }
    #[allow(clippy::cast_possible_truncation, reason = "checked above")]
    let count = count as i64;
    if count <= literal::MAX_LITERAL_ELEMENTS as i64 {
        let floats: Vec<f64> = (0..count).map(|i| start + i as f64 * step).collect();
        let float = TensorLiteral {
            dtype: Dtype::Float64,
            shape: vec![count],
            data: LiteralNumbers::Float(floats),
        };
        if let Some(made) = float.cast_to(dtype) {
            return Ok(vec![known_value(made)]);
        }
    }
    let arange = OpCall::new("arange")
        .with("start", start)
        .with("end", end)
        .with("step", step)
        .with("dtype", dtype.name());
    Ok(vec![n.emit_result(arange, &[])?])
}

impl NodeLowering<'_, '_> {
    /// Adds the tensor of an attribute as a weight.
    fn add_attribute_weight(&mut self, t: &crate::proto::TensorProto<'_>) -> Result<ModelValue> {
        let made: Result<(Vec<i64>, Dtype, Dtype, WeightData)> = t.element_count().and_then(|_| {
            Ok((t.dims.clone(), t.element_dtype()?, t.stored_dtype()?, t.locate_data()?))
        });
        let (size, dtype, stored, data) = made.map_err(|e| self.refuse_node(e.kind, e.message))?;
        let name = self.first_result_name();
        let id = self.import.add_weight(name, size, dtype, stored, data);
        id.map(ModelValue::Tensor).map_err(|e| self.refuse_node(e.kind, e.message))
    }
}
