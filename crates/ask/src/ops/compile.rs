//! The passes of the compiler.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::request::{Request, parse_int, parse_ints};
use serde_json::{Map, Value, json};
use zellige_compile::solve::division::{self as divide, OpSizes, SplitHint};
use zellige_compile::solve::memory::{self, LiveBuffer};
use zellige_compile::{CompileError, CompilePolicy, RefusalWitness};
use zellige_machine::Hardware;

/// Buffers of one request: beyond, planning them takes too long to wait for.
const MOST_BUFFERS: usize = 2000;

impl From<CompileError> for RequestFault {
    fn from(e: CompileError) -> RequestFault {
        let e = match e {
            CompileError::Layout(e) => return e.into(),
            other => other,
        };
        let witness = match e.witness() {
            None => Value::Null,
            Some(RefusalWitness::Dim(d)) => json!({"dim": clip_text(&d, 60)}),
            Some(RefusalWitness::Tensor(t)) => json!({"tensor": clip_text(&t, 60)}),
            Some(RefusalWitness::Buffer(b)) => json!({"buffer": clip_text(&b, 60)}),
            Some(RefusalWitness::Core(c)) => json!({"core": c}),
        };
        RequestFault { kind: e.kind(), message: e.to_string(), witness }
    }
}

pub(super) fn answer_work_division(r: &Request) -> OpAnswer {
    let form = read_op_sizes(r)?;
    let space = divide::build_iteration_space(&form, r.require_dtype()?)?;
    let cores = r.optional_int("cores")?.unwrap_or(32);
    let policy = read_policy(r, "best", "\"baseline\" or \"best\"", CompilePolicy::from_name)?;
    let hints = read_split_hints(r, &space)?;
    let plan = divide::divide_iterations(&space, &Hardware::card_preset(), cores, policy, &hints)?;
    let splits = space.dims().iter().zip(&plan.splits).map(|(d, s)| (d.name.clone(), json!(s)));
    let spans = space.tensors().iter().zip(&plan.span_bytes);
    let spans = spans.map(|(t, bytes)| (t.name().to_string(), json!(bytes)));
    Ok(json!({
        "splits": splits.collect::<Map<_, _>>(),
        "cores_used": plan.cores_used,
        "span_bytes": spans.collect::<Map<_, _>>(),
        "cost_us": plan.cost_us,
        "latency_us": plan.latency_us,
        "decided_by": plan.decided_by,
        "reason": plan.reason,
    }))
}

/// The policy of the request, or the usual one.
fn read_policy<P>(
    r: &Request,
    usual: &str,
    accepted: &str,
    from_name: impl Fn(&str) -> Option<P>,
) -> Result<P, RequestFault> {
    let name = r.optional_str("policy")?.unwrap_or(usual);
    from_name(name).ok_or_else(|| RequestFault::wrong_type("`policy`", accepted, &json!(name)))
}

fn read_op_sizes(r: &Request) -> Result<OpSizes, RequestFault> {
    let sizes = r.require_field("sizes")?;
    match r.require_str("kind")? {
        "pointwise" => Ok(OpSizes::Pointwise { sizes: parse_ints("sizes", sizes)? }),
        "reduction" => {
            let sizes = parse_ints("sizes", sizes)?;
            // The last dimension, unless the request names others.
            // As most reductions of models do: softmax and norms are over the last dimension.
            let usual = || sizes.len().checked_sub(1).into_iter().collect();
            let reduced = match r.get("reduced") {
                Some(_) => r.require_indices("reduced")?,
                None => usual(),
            };
            Ok(OpSizes::Reduction { sizes, reduced })
        }
        kind @ ("matmul" | "bmm") => {
            let known: &[&str] =
                if kind == "bmm" { &["B", "M", "N", "K"] } else { &["M", "N", "K"] };
            let accepted = format!("an object with {}", known.join(", "));
            let bad = || RequestFault::wrong_type("`sizes`", &accepted, sizes);
            let object = sizes.as_object().ok_or_else(bad)?;
            // A misspelt letter would otherwise leave a size at nothing.
            if object.len() != known.len() {
                return Err(bad());
            }
            let size = |name: &str| parse_int("sizes", object.get(name).ok_or_else(bad)?);
            let batch = if kind == "bmm" { Some(size("B")?) } else { None };
            Ok(OpSizes::Matmul {
                batch,
                shared: false,
                m: size("M")?,
                n: size("N")?,
                k: size("K")?,
            })
        }
        _ => Err(RequestFault::wrong_type(
            "`kind`",
            "\"pointwise\", \"reduction\", \"matmul\" or \"bmm\"",
            r.require_field("kind")?,
        )),
    }
}

/// Hints by the names of dimensions; those of a list also go by the letters of matrices: a row, rows and
/// columns, a batch of them; K is the one that is reduced.
fn read_split_hints(
    r: &Request,
    space: &divide::IterationSpace,
) -> Result<Vec<SplitHint>, RequestFault> {
    let Some(v) = r.get("hint") else { return Ok(Vec::new()) };
    let object = v.as_object().ok_or_else(|| {
        RequestFault::wrong_type("`hint`", "an object from dimensions to splits", v)
    })?;
    let dims = space.dims();
    // Letters as in the hints that were recorded of torch-spyre.
    let letters: &[&str] = match dims.len() {
        1 => &["M"],
        2 => &["M", "N"],
        3 => &["B", "M", "N"],
        _ => &[],
    };
    let place = |name: &str| {
        if dims.iter().any(|d| d.name == name) {
            return None;
        }
        let mut reduced = (0..dims.len()).filter(|d| dims[*d].reduced);
        let found = match (name, reduced.next(), reduced.next()) {
            ("K", Some(only), None) => Some(only),
            _ => letters.iter().position(|n| *n == name),
        };
        found.map(|d| dims[d].name.clone())
    };
    let hint = |(name, split): (&String, &Value)| {
        let dim = place(name).unwrap_or_else(|| name.clone());
        let Some(split) = split.as_i64() else {
            let message = format!(
                "hint: split value {} for dim {} must be an integer",
                clip_text(&split.to_string(), 60),
                clip_text(&dim, 60)
            );
            return Err(RequestFault {
                kind: "bad_hint",
                message,
                witness: json!({"dim": clip_text(&dim, 60)}),
            });
        };
        Ok(SplitHint { dim, split })
    };
    object.iter().map(hint).collect()
}

pub(super) fn answer_lx_plan(r: &Request) -> OpAnswer {
    let buffers = r.require_list("buffers")?;
    if buffers.len() > MOST_BUFFERS {
        let message = format!("{} buffers; at most {MOST_BUFFERS} are planned", buffers.len());
        return Err(RequestFault {
            kind: "too_large",
            message,
            witness: json!({"field": "buffers"}),
        });
    }
    let buffers = buffers.iter().map(read_live_buffer).collect::<Result<Vec<_>, _>>()?;
    let limit = match r.optional_int("limit")? {
        Some(n) => read_natural("limit", n)?,
        None => memory::lx_limit(&Hardware::card_preset(), memory::LX_RESERVED),
    };
    let alignment = read_natural("alignment", r.optional_int("alignment")?.unwrap_or(128))?;
    let accepted = "\"greedy\", \"first_fit\" (\"baseline\"), \"best_fit\" or \"exact\" (\"best\")";
    // The exact solver by default, because a request is about one plan, for which there is time.
    let policy = read_policy(r, "exact", accepted, memory::PlacementPolicy::from_name)?;
    let request = memory::MemoryRequest::new(limit, alignment, buffers)?;
    let plan = memory::plan_memory(&request, policy);
    let spilled: Vec<&str> = plan.spilled_buffers(&request).map(|b| b.name.as_str()).collect();
    Ok(json!({
        "addresses": plan.addresses,
        "spilled": spilled,
        "spilled_bytes": plan.spilled_bytes(&request),
        "peak_bytes": plan.peak_bytes(&request),
        "optimal": plan.is_optimal(&request),
        "bound_bytes": plan.bound,
    }))
}

fn read_natural(field: &'static str, n: i64) -> Result<u64, RequestFault> {
    u64::try_from(n).map_err(|_| {
        RequestFault::wrong_type(&format!("`{field}`"), "an integer, 0 or more", &json!(n))
    })
}

fn read_live_buffer(v: &Value) -> Result<LiveBuffer, RequestFault> {
    const FIELDS: [&str; 5] = ["name", "size", "uses", "in_place_parents", "first_use_is_read"];
    let what = "a buffer";
    let accepted = "an object {name, size, uses, in_place_parents?, first_use_is_read?}";
    let bad = || RequestFault::wrong_type(what, accepted, v);
    let object = v.as_object().ok_or_else(bad)?;
    if let Some(unknown) = object.keys().find(|k| !FIELDS.contains(&k.as_str())) {
        let message = format!(
            "unknown field `{}` of a buffer; known: {}",
            clip_text(unknown, 60),
            FIELDS.join(", ")
        );
        return Err(RequestFault {
            kind: "unknown_field",
            message,
            witness: json!({"field": "buffers"}),
        });
    }
    let name = object.get("name").and_then(Value::as_str).ok_or_else(bad)?;
    let given = |k: &str| object.get(k).filter(|v| !v.is_null());
    let uses = parse_ints("uses", given("uses").ok_or_else(bad)?)?;
    let parents = match given("in_place_parents") {
        None => Vec::new(),
        Some(Value::Array(list)) => {
            let name = |p: &Value| p.as_str().map(String::from).ok_or_else(bad);
            list.iter().map(name).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(bad()),
    };
    Ok(LiveBuffer {
        name: name.into(),
        size: read_natural("size", parse_int("size", given("size").ok_or_else(bad)?)?)?,
        uses: uses.into_iter().map(|n| read_natural("uses", n)).collect::<Result<_, _>>()?,
        in_place_parents: parents,
        first_use_is_read: match given("first_use_is_read") {
            None => false,
            Some(flag) => flag.as_bool().ok_or_else(bad)?,
        },
    })
}
