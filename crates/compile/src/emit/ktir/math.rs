//! Functions of elements, in float32: the tile programs that the table of operations holds.

use super::frame::KtirKernelFrame;
use zellige_ktir::{KtirElem, KtirOpKind, KtirValue};
use zellige_op::{OpRow, TileExpression};

/// The operation of the table on tiles of one shape; why where its attributes mean another one.
pub(super) fn apply_table_op(
    f: &mut KtirKernelFrame,
    row: &OpRow,
    x: &[KtirValue],
    shape: &[i64],
) -> Result<KtirValue, String> {
    let none = || Err(format!("there is no tile program of {}", row.name));
    let expression = row.tile_expression(&f.attributes).unwrap_or_else(none)?;
    evaluate_expression(f, &expression, x, shape, &mut Vec::new())
}

/// The value of an expression; `numbers` holds the tiles of constants that are made already.
fn evaluate_expression(
    f: &mut KtirKernelFrame,
    expression: &TileExpression,
    x: &[KtirValue],
    shape: &[i64],
    numbers: &mut Vec<(f64, KtirValue)>,
) -> Result<KtirValue, String> {
    let (name, operands) = match expression {
        TileExpression::Operand(k) => return Ok(x[*k]),
        TileExpression::Number(number) => {
            // A polynomial names a constant several times; one tile serves all of them.
            if let Some((_, tile)) = numbers.iter().find(|(n, _)| n == number) {
                return Ok(*tile);
            }
            let tile = f.b.float_tile(*number, shape, KtirElem::F32);
            numbers.push((*number, tile));
            return Ok(tile);
        }
        TileExpression::Call(name, operands) => (*name, operands),
    };
    let mut made = Vec::with_capacity(operands.len());
    for operand in operands {
        made.push(evaluate_expression(f, operand, x, shape, numbers)?);
    }
    Ok(match (name, &made[..]) {
        ("select", [condition, yes, no]) => f.b.select_values(*condition, *yes, *no),
        // The predicate of a comparison is an attribute in KTIR and not an operation of its own, so that the table
        // writes it as a part of the name.
        (name, [a, b]) if name.starts_with("cmpf_") => {
            f.b.compare_values(KtirOpKind::CmpF, &name["cmpf_".len()..], *a, *b)
        }
        (name, [a]) => f.b.unary_op(find_operation_kind(name)?, *a),
        (name, [a, b]) => f.b.binary_op(find_operation_kind(name)?, *a, *b),
        _ => return Err(format!("`{name}` has no {} operands", made.len())),
    })
}

/// The operation of KTIR with this name in some dialect.
fn find_operation_kind(name: &str) -> Result<KtirOpKind, String> {
    let short = |kind: &KtirOpKind| kind.name().split_once('.').is_some_and(|(_, own)| own == name);
    let found = KtirOpKind::ALL.iter().copied().find(short);
    found.ok_or_else(|| format!("`{name}` is no operation of KTIR"))
}

#[cfg(test)]
mod tests {
    use super::find_operation_kind;
    use serde_json::Map;
    use zellige_op::{TensorOp, TileExpression};

    fn calls(e: &TileExpression, all: &mut Vec<&'static str>) {
        if let TileExpression::Call(name, operands) = e {
            all.push(name);
            operands.iter().for_each(|o| calls(o, all));
        }
    }

    #[test]
    fn every_call_of_a_tile_program_is_an_operation() {
        let mut names = Vec::new();
        for row in TensorOp::all_rows() {
            if let Some(Ok(e)) = row.tile_expression(&Map::new()) {
                calls(&e, &mut names);
            }
        }
        names.retain(|n| *n != "select" && !n.starts_with("cmpf_"));
        assert!(names.len() > 20);
        for name in names {
            assert!(find_operation_kind(name).is_ok(), "{name}");
        }
    }
}
