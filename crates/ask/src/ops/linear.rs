//! Linear layouts over GF(2).

use super::Answer;
use crate::Fault;
use crate::request::{Request, int, refused};
use serde_json::{Map, Value, json};
use zellige_layout::{LinearLayout, count_bank_conflicts, find_optimal_swizzle};
use zellige_notation::linear::{
    LinearFromTextError, linear_from_json, linear_of_text, linear_to_json, parse,
};

type Result<T> = std::result::Result<T, Fault>;

/// The calls, for a message.
const CALLS: &str = "facts, apply, mul, compose, invert, pseudoinvert, invertAndCompose, lstsq, divideLeft, divideRight, \
     transposeIns, transposeOuts, reshapeIns, reshapeOuts, flattenIns, flattenOuts, sublayout, concatIns, concatOuts, \
     removeZeroBasesAlongDim, resizeInDim, resizeOutDim, quotient, ensureLayoutNotLargerThan, \
     ensureLayoutNotSmallerThan, identity1D, strided1D, zeros1D, bankConflicts, optimalSwizzling, of";

pub(super) fn linear(r: &Request) -> Answer {
    let call = r.str("call")?;
    let a = || layout(r, "a");
    let b = || layout(r, "b");
    let found = match call {
        "of" => return of(r),
        "facts" => return Ok(facts(&a()?)),
        "apply" => return apply(r, &a()?),
        "bankConflicts" => {
            let conflicts = count_bank_conflicts(&a()?, &b()?, r.int("bitwidth")?)?;
            return Ok(json!({"conflicts": conflicts}));
        }
        "optimalSwizzling" => {
            let s = find_optimal_swizzle(&a()?, &b()?, r.int("bitwidth")?)?;
            let conflicts = [s.store_conflicts, s.load_conflicts];
            return Ok(json!({"linear": linear_to_json(&s.layout), "conflicts": conflicts}));
        }
        "mul" => Some(a()?.direct_sum(&b()?)?),
        "compose" => Some(a()?.compose(&b()?)?),
        "invert" => Some(a()?.invert()?),
        "pseudoinvert" => Some(a()?.pseudoinvert()?),
        "invertAndCompose" => Some(a()?.invert_and_compose(&b()?)?),
        "lstsq" => a()?.lstsq(&b()?)?,
        "divideLeft" => a()?.divide_left(&b()?),
        "divideRight" => a()?.divide_right(&b()?),
        "transposeIns" => Some(a()?.transpose_ins(&names(r, "order")?)?),
        "transposeOuts" => Some(a()?.transpose_outs(&names(r, "order")?)?),
        "reshapeIns" => Some(a()?.reshape_ins(&sizes(r, "dims", &[])?)?),
        "reshapeOuts" => Some(a()?.reshape_outs(&sizes(r, "dims", &[])?)?),
        "flattenIns" => Some(a()?.flatten_ins()),
        "flattenOuts" => Some(a()?.flatten_outs()),
        "sublayout" => Some(a()?.sublayout(&names(r, "in_dims")?, &names(r, "out_dims")?)?),
        "concatIns" => Some(a()?.concat_ins(&b()?)?),
        "concatOuts" => Some(a()?.concat_outs(&b()?)?),
        "removeZeroBasesAlongDim" => Some(a()?.remove_zero_bases_along_dim(r.str("dim")?)?),
        "resizeInDim" => Some(a()?.resize_in_dim(r.str("dim")?, r.int("size")?)?),
        "resizeOutDim" => Some(a()?.resize_out_dim(r.str("dim")?, r.int("size")?)?),
        "quotient" => a()?.quotient_without_dims(&names(r, "dims")?)?,
        "ensureLayoutNotLargerThan" => {
            let a = a()?;
            let shape = sizes(r, "shape", &a.out_dims().collect::<Vec<_>>())?;
            Some(a.ensure_not_larger_than(&shape, None)?)
        }
        "ensureLayoutNotSmallerThan" => {
            let a = a()?;
            let shape = sizes(r, "shape", &a.out_dims().collect::<Vec<_>>())?;
            Some(a.ensure_not_smaller_than(&shape)?)
        }
        "identity1D" | "strided1D" | "zeros1D" => {
            let (size, from, to) = (r.int("size")?, r.str("in_dim")?, r.str("out_dim")?);
            Some(match call {
                "identity1D" => LinearLayout::identity_1d(size, from, to)?,
                "strided1D" => LinearLayout::strided_1d(size, r.int("stride")?, from, to)?,
                _ => LinearLayout::zeros_1d(size, from, to, r.opt_int("out_size")?.unwrap_or(1))?,
            })
        }
        other => {
            let shown: String = other.chars().take(60).collect();
            return Err(Fault {
                kind: "bad_request",
                message: format!("unknown call `{shown}`; known: {CALLS}"),
                witness: json!({"field": "call"}),
            });
        }
    };
    Ok(json!({"linear": found.as_ref().map(linear_to_json)}))
}

/// A linear layout in a field: an object, or a text of it.
fn layout(r: &Request, field: &'static str) -> Result<LinearLayout> {
    match r.need(field)? {
        Value::String(text) => parse(text).map_err(|d| Fault::text(field, text, &d)),
        value => linear_from_json(value).map_err(|e| Fault::layout_json(field, &e)),
    }
}

fn facts(a: &LinearLayout) -> Value {
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
fn apply(r: &Request, a: &LinearLayout) -> Answer {
    let mut points = Vec::new();
    for point in r.list("points")? {
        zellige_guard::count_step();
        let input: Vec<(&str, i64)> = match point {
            Value::Object(o) => {
                o.iter().map(|(d, v)| Ok((d.as_str(), int("points", v)?))).collect::<Result<_>>()?
            }
            Value::Array(list) if list.len() == a.in_dims().len() => a
                .in_dims()
                .zip(list)
                .map(|(d, v)| Ok((d, int("points", v)?)))
                .collect::<Result<_>>()?,
            other => {
                let accepted =
                    "a list of inputs: {\"register\": 1, ..}, or one number for each in dimension";
                return Err(Fault::expected("`points`", accepted, other));
            }
        };
        points.push(a.apply_to_input(&input)?);
    }
    Ok(json!({"points": points}))
}

/// A list of names.
fn names<'a>(r: &'a Request, field: &'static str) -> Result<Vec<&'a str>> {
    let name = |v: &'a Value| {
        let accepted = "a list of names of dimensions";
        v.as_str().ok_or_else(|| Fault::expected(&format!("`{field}`"), accepted, v))
    };
    r.list(field)?.iter().map(name).collect()
}

/// Dimensions with sizes: `[["dim0", 4], ..]` or `{"dim0": 4, ..}`; where the names are known, sizes alone.
fn sizes(r: &Request, field: &'static str, known: &[&str]) -> Result<Vec<(String, i64)>> {
    let accepted = "dimensions with their sizes, [[\"dim0\", 4], ..] or {\"dim0\": 4, ..}";
    let wrong = |v: &Value| Fault::expected(&format!("`{field}`"), accepted, v);
    match r.need(field)? {
        Value::Object(o) => o.iter().map(|(d, v)| Ok((d.clone(), int(field, v)?))).collect(),
        Value::Array(list) if list.iter().all(Value::is_i64) && list.len() == known.len() => {
            known.iter().zip(list).map(|(d, v)| Ok(((*d).to_string(), int(field, v)?))).collect()
        }
        Value::Array(list) => list
            .iter()
            .map(|v| match v.as_array().map(Vec::as_slice) {
                Some([Value::String(d), size]) => Ok((d.clone(), int(field, size)?)),
                _ => Err(wrong(v)),
            })
            .collect(),
        other => Err(wrong(other)),
    }
}

/// The linear layout of a text of any notation.
fn of(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let shape = r.opt_ints("shape")?;
    let found = linear_of_text(&parsed, shape.as_deref()).map_err(|e| match e {
        LinearFromTextError::Refused(refusal) => refused(refusal),
        LinearFromTextError::Text(d) => r.refused_text("layout", &d),
    })?;
    let mut answer = json!({"linear": linear_to_json(&found.linear)});
    if let Some(padding) = found.padding {
        answer["padding"] = padding.iter().map(|(interval, pad)| json!([interval, pad])).collect();
    }
    Ok(answer)
}
