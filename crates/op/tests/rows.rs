//! Every row is complete in every column, and every name leads back to one row.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use zellige_op::{OpDecomposition, OpForm, OpRow, TensorOp, TileProgram, TorchRole, UpstreamLayer};

/// The form of a row with the attributes that it needs, found by what its errors ask for.
fn form(row: &OpRow) -> TensorOp {
    let plain = || {
        let values =
            ["1", "0", "[1]", "[4, 4]", "true", "\"float32\"", "\"none\"", "0.5", "[1, 1]"];
        values.map(|v| serde_json::from_str::<Value>(v).expect("JSON"))
    };
    let mut tries = vec![Map::new()];
    for _ in 0..5000 {
        let Some(attributes) = tries.pop() else { break };
        match TensorOp::new(row.name, &Value::Object(attributes.clone())) {
            Ok(op) => return op,
            Err(zellige_op::OpError::BadAttribute { name, .. })
                if !attributes.contains_key(&name) =>
            {
                for value in plain() {
                    let mut more = attributes.clone();
                    more.insert(name.clone(), value);
                    tries.push(more);
                }
            }
            Err(_) => {}
        }
    }
    panic!("{}: no attributes suit it", row.name);
}

#[test]
fn names_are_unique_in_every_notation() {
    let mut names: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut add = |kind: &'static str, name: &'static str, row: &'static OpRow| {
        if let Some(other) = names.insert((kind, name), row.name) {
            panic!("{kind} `{name}` is {other} and {}", row.name);
        }
    };
    for row in TensorOp::all_rows() {
        add("operation", row.name, row);
        row.onnx.into_iter().for_each(|name| add("ONNX", name, row));
        for operator in row.torch {
            operator.overloads.iter().for_each(|name| add("ATen", name, row));
        }
    }
}

#[test]
fn columns_fit_the_form() {
    for row in TensorOp::all_rows() {
        let op = form(row);
        let name = row.name;
        // An operation that upstream makes of others says whether the compiler does.
        assert_eq!(
            row.layer == UpstreamLayer::Decomposed,
            row.decomposition != OpDecomposition::None,
            "{name}: layer and decomposition"
        );
        if let OpDecomposition::Whole(reason) = row.decomposition {
            assert!(reason.len() > 10, "{name}: {reason}");
        }
        // Whatever works along dimensions says what its padding holds, or reads none of it.
        let along = op.working_dims(&[4, 4, 4, 4]).is_some();
        let sorts = matches!(op.form(), OpForm::Pick(_) | OpForm::Quantile(_) | OpForm::Norm(_));
        if along && !sorts {
            assert!(row.neutral.is_some(), "{name}: what does its padding hold?");
        }
        if row.neutral.is_some() {
            assert!(
                along || matches!(op.form(), OpForm::Product(_)),
                "{name}: no dimension is padded"
            );
        }
        // Functions and programs of pointwise operations name attributes that exist.
        if let Some(function) = row.superdsc {
            assert!(!function.function.is_empty(), "{name}");
            for (_, attribute) in function.constants {
                assert!(row.attributes.iter().any(|(n, _)| n == attribute), "{name}: {attribute}");
            }
            if let Some((attribute, ..)) = function.only {
                assert!(row.attributes.iter().any(|(n, _)| *n == attribute), "{name}: {attribute}");
            }
        }
        if row.ktir != TileProgram::None {
            assert!(op.is_pointwise(), "{name}: a tile program is of elements");
            row.tile_expression(&Map::new()).unwrap().unwrap();
        }
        if let Some(onnx) = row.onnx {
            assert!(op.is_pointwise() && row.operands.len() <= 2, "{name}: {onnx} is not plain");
        }
        // The arguments of an operator of ATen are the operands and attributes of the row.
        for operator in row.torch {
            let operands = operator.arguments.iter().filter(|a| a.role == TorchRole::Operand);
            row.check_count(operands.count()).unwrap_or_else(|e| panic!("{operator:?}: {e}"));
            let attributes = operator.arguments.iter().filter_map(|a| match a.role {
                TorchRole::Attribute(attribute) => Some(attribute),
                _ => None,
            });
            for attribute in attributes.chain(operator.constant.map(|(attribute, _)| attribute)) {
                let known = row.attributes.iter().any(|(n, _)| *n == attribute);
                assert!(known, "{operator:?}: {name} has no attribute `{attribute}`");
            }
        }
    }
}

/// What a reader of ARCHITECTURE.md is promised: a pointwise operation that the card runs is usable from PyTorch.
#[test]
fn pointwise_operations_have_their_names() {
    let own = ["clip", "cast", "to", "clone", "identity", "quantize_fp8", "dequantize_fp8"];
    // Operators whose arguments are not those of the operation have kernels in Python.
    let python = ["elu", "selu", "celu", "clamp_tensor", "log_sigmoid"];
    for row in TensorOp::all_rows() {
        let op = form(row);
        if op.is_pointwise() && !own.contains(&row.name) && !python.contains(&row.name) {
            assert!(!row.torch.is_empty(), "{} has no operator of ATen", row.name);
        }
    }
}
