//! The device's functions by their names in SuperDSC.

use pyo3::prelude::*;
use serde_json::Value;
use zellige_op::{OpForm, TensorOp};

/// A function, the operation that it computes, the kind of its iteration, and its constants by the attributes they are.
type DeviceFunction = (&'static str, &'static str, &'static str, Vec<(&'static str, &'static str)>);

/// The functions that one operation computes from its operands in their order: the first of the table where several do.
#[pyfunction]
pub(super) fn device_functions() -> Vec<DeviceFunction> {
    let mut found: Vec<DeviceFunction> = Vec::new();
    for row in TensorOp::all_rows() {
        let Some(function) = row.superdsc.filter(|f| f.operands.is_none()) else { continue };
        let Ok(op) = TensorOp::new(row.name, &Value::Null) else { continue };
        let kind = match op.form() {
            OpForm::Product(_) => "product",
            OpForm::Reduce(_) => "reduction",
            _ if op.is_pointwise() => "pointwise",
            _ => continue,
        };
        for name in [Some(function.function), function.int32].into_iter().flatten() {
            if found.iter().all(|f| f.0 != name) {
                found.push((name, row.name, kind, function.constants.to_vec()));
            }
        }
    }
    found
}
