//! Constants, sequences, and shapes as numbers.

use super::Table;
use crate::error::Result;
use crate::literal::{self, Literal, Numbers, number, numel};
use crate::node::Node;
use crate::proto::Given;
use crate::tensor::Data;
use crate::walk::Value;
use serde_json::json;
use std::rc::Rc;
use zellige_float::Dtype;

pub(super) const TABLE: Table = &[
    ("Constant", constant),
    ("ConstantOfShape", of_shape),
    ("Shape", shape),
    ("Size", |n| {
        let count = numel(&n.size(0)?).unwrap_or(0);
        Ok(vec![known(Literal::ints(vec![count]).reshaped(vec![]))])
    }),
    ("Range", range),
];

fn known(literal: Literal) -> Value {
    Value::Known(Rc::new(literal))
}

fn floats(list: &[f32], shape: Vec<i64>) -> Literal {
    let data = Numbers::Float(list.iter().map(|f| f64::from(*f)).collect());
    Literal { dtype: Dtype::Float32, shape, data }
}

fn constant(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(0, 0)?;
    for name in ["value", "value_float", "value_floats", "value_int", "value_ints"] {
        let literal = match n.any(name) {
            None => continue,
            Some(Given::Tensor(t)) => {
                let file = n.import.file;
                let small = t.literal(file).map_err(|e| n.bad(e.kind, e.message))?;
                match small {
                    Some(literal) => literal,
                    None => return Ok(vec![n.weight(t)?]),
                }
            }
            Some(Given::Float(f)) => floats(&[*f], vec![]),
            Some(Given::Floats(list)) => {
                floats(list, vec![i64::try_from(list.len()).unwrap_or(i64::MAX)])
            }
            Some(Given::Int(i)) => Literal::ints(vec![*i]).reshaped(vec![]),
            Some(Given::Ints(list)) => Literal::ints(list.clone()),
            Some(_) => {
                return Err(n.bad("bad_attribute", format!("attribute `{name}` is no number")));
            }
        };
        return Ok(vec![known(literal)]);
    }
    Err(n.bad(
        "bad_attribute",
        "it has no value; accepted: value, value_float, value_floats, value_int, value_ints",
    ))
}

fn of_shape(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let size = n.ints(0, "the shape")?;
    let value = match n.any("value") {
        None => floats(&[0.0], vec![1]),
        Some(Given::Tensor(t)) => {
            let file = n.import.file;
            let value = t.literal(file).map_err(|e| n.bad(e.kind, e.message))?;
            value.filter(|l| l.len() == 1).ok_or_else(|| {
                n.bad("bad_attribute", "attribute `value` is a tensor of one element")
            })?
        }
        Some(_) => return Err(n.bad("bad_attribute", "attribute `value` is a tensor")),
    };
    match numel(&size).and_then(|c| usize::try_from(c).ok()) {
        None => Err(n.bad_operand(0, format!("{size:?} is no shape"))),
        Some(count) if count <= literal::MOST => {
            Ok(vec![known(value.pick(size, std::iter::repeat_n(0, count)))])
        }
        Some(_) => {
            let attributes = json!({
                "size": size, "value": number(value.number(0)), "dtype": value.dtype.name(),
            });
            Ok(vec![n.emit("full", &[], attributes)?])
        }
    }
}

/// The shape of an operand, or a part of it; every size is known.
fn shape(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(1, 1)?;
    let size = n.size(0)?;
    let rank = i64::try_from(size.len()).unwrap_or(i64::MAX);
    let (start, end) = (n.int("start", 0)?, n.int("end", rank)?);
    let wrap = |v: i64| {
        let v = if v < 0 { v.saturating_add(rank) } else { v };
        usize::try_from(v.clamp(0, rank)).unwrap_or(0)
    };
    let (start, end) = (wrap(start), wrap(end));
    Ok(vec![known(Literal::ints(size[start..end.max(start)].to_vec()))])
}

fn range(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 3)?;
    let dtype = n.dtype(0)?;
    let (start, end) = (n.number(0, "the start")?, n.number(1, "the limit")?);
    let step = n.number(2, "the step")?;
    let count = ((end - start) / step).ceil().max(0.0);
    if step == 0.0 || !(0.0..9e15).contains(&count) {
        let message = format!("{step} does not lead from {start} to {end}");
        return Err(n.bad_operand(2, message));
    }
    #[allow(clippy::cast_possible_truncation, reason = "checked above")]
    let count = count as i64;
    if count <= literal::MOST as i64 {
        let floats: Vec<f64> = (0..count).map(|i| start + i as f64 * step).collect();
        let float =
            Literal { dtype: Dtype::Float64, shape: vec![count], data: Numbers::Float(floats) };
        if let Some(made) = float.cast(dtype) {
            return Ok(vec![known(made)]);
        }
    }
    let attributes = json!({"start": start, "end": end, "step": step, "dtype": dtype.name()});
    Ok(vec![n.emit("arange", &[], attributes)?])
}

impl Node<'_, '_> {
    /// A tensor of an attribute as a weight.
    fn weight(&mut self, t: &crate::proto::Tensor<'_>) -> Result<Value> {
        let made: Result<(Vec<i64>, Dtype, Dtype, Data)> =
            t.numel().and_then(|_| Ok((t.dims.clone(), t.element()?, t.stored()?, t.data()?)));
        let (size, dtype, stored, data) = made.map_err(|e| self.bad(e.kind, e.message))?;
        let name = self.result_name();
        let id = self.import.weight(name, size, dtype, stored, data);
        id.map(Value::Tensor).map_err(|e| self.bad(e.kind, e.message))
    }
}
