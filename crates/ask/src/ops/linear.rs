//! Linear layouts over GF(2).

use super::OpAnswer;
use crate::RequestFault;
use crate::request::{Request, parse_int, refuse_conversion};
use serde_json::{Map, Value, json};
use zellige_layout::{LinearLayout, count_bank_conflicts, find_optimal_swizzle};
use zellige_notation::linear::{
    LinearFromTextError, linear_from_json, linear_of_text, linear_to_json, parse,
};

type Result<T> = std::result::Result<T, RequestFault>;

/// The calls, for a message.
const CALL_NAMES: &str = "facts, apply, mul, compose, invert, pseudoinvert, invertAndCompose, lstsq, divideLeft, divideRight, \
     transposeIns, transposeOuts, reshapeIns, reshapeOuts, flattenIns, flattenOuts, sublayout, concatIns, concatOuts, \
     removeZeroBasesAlongDim, resizeInDim, resizeOutDim, quotient, ensureLayoutNotLargerThan, \
     ensureLayoutNotSmallerThan, identity1D, strided1D, zeros1D, bankConflicts, optimalSwizzling, of";

pub(super) fn answer_linear(r: &Request) -> OpAnswer {
    let call = r.require_str("call")?;
    let a = || read_linear_layout(r, "a");
    let b = || read_linear_layout(r, "b");
    let found = match call {
        "of" => return convert_to_linear(r),
        "facts" => return Ok(linear_facts_json(&a()?)),
        "apply" => return apply_to_points(r, &a()?),
        "bankConflicts" => {
            let conflicts = count_bank_conflicts(&a()?, &b()?, r.require_int("bitwidth")?)?;
            return Ok(json!({"conflicts": conflicts}));
        }
        "optimalSwizzling" => {
            let s = find_optimal_swizzle(&a()?, &b()?, r.require_int("bitwidth")?)?;
            let conflicts = [s.store_conflicts, s.load_conflicts];
            return Ok(json!({"linear": linear_to_json(&s.layout), "conflicts": conflicts}));
        }
        "mul" => Some(a()?.direct_sum(&b()?)?),
        "compose" => Some(a()?.compose(&b()?)?),
        "invert" => Some(a()?.invert()?),
        "pseudoinvert" => Some(a()?.pseudoinvert()?),
        "invertAndCompose" => Some(a()?.invert_and_compose(&b()?)?),
        // These may have no answer, which is null and no error: Triton's functions return nothing then.
        "lstsq" => a()?.lstsq(&b()?)?,
        "divideLeft" => a()?.divide_left(&b()?),
        "divideRight" => a()?.divide_right(&b()?),
        "transposeIns" => Some(a()?.transpose_ins(&read_names(r, "order")?)?),
        "transposeOuts" => Some(a()?.transpose_outs(&read_names(r, "order")?)?),
        "reshapeIns" => Some(a()?.reshape_ins(&read_dim_sizes(r, "dims", &[])?)?),
        "reshapeOuts" => Some(a()?.reshape_outs(&read_dim_sizes(r, "dims", &[])?)?),
        "flattenIns" => Some(a()?.flatten_ins()),
        "flattenOuts" => Some(a()?.flatten_outs()),
        "sublayout" => {
            Some(a()?.sublayout(&read_names(r, "in_dims")?, &read_names(r, "out_dims")?)?)
        }
        "concatIns" => Some(a()?.concat_ins(&b()?)?),
        "concatOuts" => Some(a()?.concat_outs(&b()?)?),
        "removeZeroBasesAlongDim" => Some(a()?.remove_zero_bases_along_dim(r.require_str("dim")?)?),
        "resizeInDim" => Some(a()?.resize_in_dim(r.require_str("dim")?, r.require_int("size")?)?),
        "resizeOutDim" => Some(a()?.resize_out_dim(r.require_str("dim")?, r.require_int("size")?)?),
        "quotient" => a()?.quotient_without_dims(&read_names(r, "dims")?)?,
        "ensureLayoutNotLargerThan" => {
            let a = a()?;
            let shape = read_dim_sizes(r, "shape", &a.out_dims().collect::<Vec<_>>())?;
            Some(a.ensure_not_larger_than(&shape, None)?)
        }
        "ensureLayoutNotSmallerThan" => {
            let a = a()?;
            let shape = read_dim_sizes(r, "shape", &a.out_dims().collect::<Vec<_>>())?;
            Some(a.ensure_not_smaller_than(&shape)?)
        }
        "identity1D" | "strided1D" | "zeros1D" => {
            let (size, from, to) =
                (r.require_int("size")?, r.require_str("in_dim")?, r.require_str("out_dim")?);
            Some(match call {
                "identity1D" => LinearLayout::identity_1d(size, from, to)?,
                "strided1D" => LinearLayout::strided_1d(size, r.require_int("stride")?, from, to)?,
                _ => LinearLayout::zeros_1d(
                    size,
                    from,
                    to,
                    r.optional_int("out_size")?.unwrap_or(1),
                )?,
            })
        }
        other => {
            let shown: String = other.chars().take(60).collect();
            return Err(RequestFault {
                kind: "bad_request",
                message: format!("unknown call `{shown}`; known: {CALL_NAMES}"),
                witness: json!({"field": "call"}),
            });
        }
    };
    Ok(json!({"linear": found.as_ref().map(linear_to_json)}))
}

/// A linear layout in a field: an object, or a text of it.
fn read_linear_layout(r: &Request, field: &'static str) -> Result<LinearLayout> {
    match r.require_field(field)? {
        Value::String(text) => {
            parse(text).map_err(|d| RequestFault::unreadable_text(field, text, &d))
        }
        value => {
            linear_from_json(value).map_err(|e| RequestFault::unreadable_layout_json(field, &e))
        }
    }
}

fn linear_facts_json(a: &LinearLayout) -> Value {
    let masks: Map<String, Value> =
        a.free_variable_masks().into_iter().map(|(d, m)| (d.to_string(), json!(m))).collect();
    json!({
        "surjective": a.is_surjective(),
        "injective": a.is_injective(),
        "invertible": a.is_invertible(),
        "free_variable_masks": masks,
        "num_consecutive_in_out": a.num_consecutive_in_out(),
    })
}

/// The out coordinates of inputs: objects `{"register": 1, "lane": 3}`, or lists in the order of the in dimensions.
fn apply_to_points(r: &Request, a: &LinearLayout) -> OpAnswer {
    let mut points = Vec::new();
    for point in r.require_list("points")? {
        zellige_guard::count_step();
        let input: Vec<(&str, i64)> = match point {
            Value::Object(o) => o
                .iter()
                .map(|(d, v)| Ok((d.as_str(), parse_int("points", v)?)))
                .collect::<Result<_>>()?,
            Value::Array(list) if list.len() == a.in_dims().len() => a
                .in_dims()
                .zip(list)
                .map(|(d, v)| Ok((d, parse_int("points", v)?)))
                .collect::<Result<_>>()?,
            other => {
                let accepted =
                    "a list of inputs: {\"register\": 1, ..}, or one number for each in dimension";
                return Err(RequestFault::wrong_type("`points`", accepted, other));
            }
        };
        points.push(a.apply_to_input(&input)?);
    }
    Ok(json!({"points": points}))
}

/// A list of names.
fn read_names<'a>(r: &'a Request, field: &'static str) -> Result<Vec<&'a str>> {
    let name = |v: &'a Value| {
        let accepted = "a list of names of dimensions";
        v.as_str().ok_or_else(|| RequestFault::wrong_type(&format!("`{field}`"), accepted, v))
    };
    r.require_list(field)?.iter().map(name).collect()
}

/// Dimensions with sizes: `[["dim0", 4], ..]` or `{"dim0": 4, ..}`; where the names are known, sizes alone.
fn read_dim_sizes(r: &Request, field: &'static str, known: &[&str]) -> Result<Vec<(String, i64)>> {
    let accepted = "dimensions with their sizes, [[\"dim0\", 4], ..] or {\"dim0\": 4, ..}";
    let wrong = |v: &Value| RequestFault::wrong_type(&format!("`{field}`"), accepted, v);
    match r.require_field(field)? {
        Value::Object(o) => o.iter().map(|(d, v)| Ok((d.clone(), parse_int(field, v)?))).collect(),
        Value::Array(list) if list.iter().all(Value::is_i64) && list.len() == known.len() => known
            .iter()
            .zip(list)
            .map(|(d, v)| Ok(((*d).to_string(), parse_int(field, v)?)))
            .collect(),
        Value::Array(list) => list
            .iter()
            .map(|v| match v.as_array().map(Vec::as_slice) {
                Some([Value::String(d), size]) => Ok((d.clone(), parse_int(field, size)?)),
                _ => Err(wrong(v)),
            })
            .collect(),
        other => Err(wrong(other)),
    }
}

/// The linear layout of a text of any notation.
fn convert_to_linear(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let shape = r.optional_ints("shape")?;
    let found = linear_of_text(&parsed, shape.as_deref()).map_err(|e| match e {
        LinearFromTextError::Refused(refusal) => refuse_conversion(refusal),
        LinearFromTextError::Text(d) => r.refused_text("layout", &d),
    })?;
    let mut answer = json!({"linear": linear_to_json(&found.linear)});
    if let Some(padding) = found.padding {
        answer["padding"] = padding.iter().map(|(interval, pad)| json!([interval, pad])).collect();
    }
    Ok(answer)
}
