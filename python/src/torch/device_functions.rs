//! The functions of the device by their names in SuperDSC, for the kernels of torch-spyre's compiler.

use pyo3::prelude::*;
use serde_json::Value;
use zellige_op::{OpForm, TensorOp};

/// A function's name in SuperDSC, the name of the operation that it computes, the operation's kind, and its constants as pairs
/// of the name in SuperDSC and the attribute of the operation.
type DeviceFunction = (&'static str, &'static str, &'static str, Vec<(&'static str, &'static str)>);

/// The functions that compute one operation from all its operands in order. If several operations have the same function, the
/// first one of the table is listed.
///
/// Left out are operations with a required attribute, and those that are no product, no reduction and not pointwise.
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
