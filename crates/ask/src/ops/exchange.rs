//! Copies between the scratchpads of two divisions of a tensor.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::request::{Request, parse_int, parse_ints};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use zellige_exchange::{
    CoreExchange, CoreNumber, CoreSend, ExchangeError, MAX_CORES, TensorBox, TensorDivision,
};
use zellige_layout::{AxisKind, LayoutError};

/// The most sends that an answer lists.
const MAX_LISTED_SENDS: usize = 1 << 16;

/// Cores of the ring, where the request does not say how many: those of the card.
const DEFAULT_RING_CORES: i64 = 32;

/// A tensor with names for its dimensions.
struct NamedShape {
    names: Vec<String>,
    extents: Vec<i64>,
}

impl NamedShape {
    fn dimension_named(&self, field: &str, name: &Value) -> Result<usize, RequestFault> {
        // A list of extents has numbers for names, which may be written as numbers too.
        let written = match name {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.names.iter().position(|n| *n == written).ok_or_else(|| {
            let (name, known) = (clip_text(&written, 40), self.names.join(", "));
            bad_field(field, format!("there is no dimension `{name}`; there are {known}"))
        })
    }
}

pub(super) fn answer_exchange(r: &Request) -> OpAnswer {
    let shape = read_shape(r)?;
    let dtype = r.require_dtype()?;
    let source = read_division(r, "source", &shape)?;
    let destination = read_division(r, "destination", &shape)?;
    let cores = r.optional_int("cores")?.unwrap_or(DEFAULT_RING_CORES);
    let ring = CoreNumber::try_from(cores).ok().filter(|n| (1..=MAX_CORES).contains(n));
    let ring = ring.ok_or_else(|| {
        bad_field("cores", format!("a ring of {cores} cores; 1 to {MAX_CORES} are accepted"))
    })?;
    let plan = CoreExchange::between(&source, &destination).map_err(|e| refuse_exchange(&e))?;
    if plan.sends().len() > MAX_LISTED_SENDS {
        let message = format!(
            "the plan has {} sends, and an answer lists at most {MAX_LISTED_SENDS}",
            plan.sends().len()
        );
        return Err(RequestFault::new("too_large", message));
    }
    let bytes = |elements: i64| byte_count(elements, dtype.bits());
    let send_json = |send: &CoreSend| {
        let ranges = send.elements.partial_ranges(&shape.extents);
        let ranges: Vec<Value> =
            ranges.map(|(dim, begin, end)| json!([shape.names[dim], begin, end])).collect();
        json!([send.source, send.destinations, ranges, bytes(send.elements.element_count())])
    };
    let busiest = |by_core: BTreeMap<CoreNumber, i64>| {
        let most = by_core.into_iter().max_by_key(|(core, n)| (*n, std::cmp::Reverse(*core)));
        most.map_or(Value::Null, |(core, n)| json!({"core": core, "bytes": bytes(n)}))
    };
    let (sent, received) = (plan.sent_by_core(), plan.received_by_core());
    Ok(json!({
        "movement": plan.class().to_string(),
        "remote_bytes": bytes(plan.remote_elements()),
        "local_bytes": bytes(plan.local_elements()),
        "sending_cores": sent.len(),
        "receiving_cores": received.len(),
        "busiest_sender": busiest(sent),
        "busiest_receiver": busiest(received),
        "busiest_link_bytes": bytes(plan.ring_loads(ring).busiest()),
        "sends": plan.sends().iter().map(send_json).collect::<Vec<_>>(),
    }))
}

/// Elements below eight bits share bytes; the last byte counts whole.
fn byte_count(elements: i64, bits: i64) -> i64 {
    let bits = i128::from(elements) * i128::from(bits);
    i64::try_from((bits + 7) / 8).unwrap_or(i64::MAX)
}

/// `{"mb": 512, "out": 4096}`, or a list of extents whose dimensions are called `0`, `1`, ...
fn read_shape(r: &Request) -> Result<NamedShape, RequestFault> {
    match r.require_field("shape")? {
        Value::Object(named) => {
            let extents = named.values().map(|n| parse_int("`shape`", n));
            let extents = extents.collect::<Result<Vec<_>, _>>()?;
            Ok(NamedShape { names: named.keys().cloned().collect(), extents })
        }
        list @ Value::Array(_) => {
            let extents = parse_ints("`shape`", list)?;
            Ok(NamedShape { names: (0..extents.len()).map(|d| d.to_string()).collect(), extents })
        }
        other => Err(RequestFault::wrong_type(
            "`shape`",
            "an object dimension -> extent, or a list of extents",
            other,
        )),
    }
}

/// A table core -> ranges, the rule of such a table (`cores` and `slices`), or the text of a layout.
fn read_division(
    r: &Request,
    field: &'static str,
    shape: &NamedShape,
) -> Result<TensorDivision, RequestFault> {
    match r.require_field(field)? {
        Value::String(text) => read_layout_division(r, field, text, shape),
        Value::Object(rule) if rule.contains_key("slices") => read_rule(field, rule, shape),
        Value::Object(table) => read_table(field, table, shape),
        other => Err(RequestFault::wrong_type(
            &format!("`{field}`"),
            "an object core -> ranges, an object with `cores` and `slices`, or the text of a layout on the axis `core`",
            other,
        )),
    }
}

fn read_layout_division(
    r: &Request,
    field: &'static str,
    text: &str,
    shape: &NamedShape,
) -> Result<TensorDivision, RequestFault> {
    let mut axes = r.axis_table()?;
    for name in ["core", "lx"] {
        if axes.get(name).is_err() {
            axes.declare_axis(name, AxisKind::Memory)?;
        }
    }
    let parsed = zellige_notation::parse(text, &axes)
        .map_err(|d| RequestFault::unreadable_text(field, text, &d))?;
    let layout = r.lower_layout(field, &parsed, Some(&shape.extents))?;
    let core = axes.get("core").map_err(|e: LayoutError| RequestFault::from(e))?;
    TensorDivision::from_layout(&layout, &shape.extents, core)
        .map_err(|e| name_field(field, refuse_exchange(&e)))
}

/// `{"cores": [begin, end, step], "slices": {"mb": [a, n]}}`: on core `c` the slice of `mb` is `(c / a) % n`.
fn read_rule(
    field: &'static str,
    rule: &Map<String, Value>,
    shape: &NamedShape,
) -> Result<TensorDivision, RequestFault> {
    if let Some(unknown) = rule.keys().find(|k| !["cores", "slices"].contains(&k.as_str())) {
        let unknown = clip_text(unknown, 40);
        return Err(bad_field(
            field,
            format!("unknown field `{unknown}` beside `slices`; known: cores, slices"),
        ));
    }
    let cores = match rule.get("cores") {
        Some(cores) => parse_ints(&format!("`{field}.cores`"), cores)?,
        None => return Err(bad_field(field, "`cores` is missing: [begin, end, step]")),
    };
    let [begin, end, step] = cores[..] else {
        return Err(bad_field(field, "`cores` is [begin, end, step]"));
    };
    if begin < 0 || end < begin || step < 1 || end > i64::from(MAX_CORES) {
        let range = format!("`cores` [{begin}, {end}, {step}] is no range of cores");
        return Err(bad_field(
            field,
            format!("{range}; 0 <= begin <= end <= {MAX_CORES}, step >= 1"),
        ));
    }
    let stride = usize::try_from(step).unwrap_or(usize::MAX);
    let cores: Vec<CoreNumber> =
        (begin..end).step_by(stride).filter_map(|c| CoreNumber::try_from(c).ok()).collect();
    let slices = match rule.get("slices") {
        Some(Value::Object(slices)) => slices,
        other => {
            let found = other.unwrap_or(&Value::Null);
            let expected = "an object dimension -> [a, n]";
            return Err(RequestFault::wrong_type(&format!("`{field}.slices`"), expected, found));
        }
    };
    let mut list = Vec::new();
    for (name, rule) in slices {
        let dim = shape.dimension_named(field, &Value::String(name.clone()))?;
        let [period, count] = parse_ints(&format!("`{field}.slices.{name}`"), rule)?[..] else {
            let name = clip_text(name, 40);
            return Err(bad_field(field, format!("the slices of `{name}` are [a, n]")));
        };
        list.push((dim, period, count));
    }
    TensorDivision::from_slices(&shape.extents, &cores, &list)
        .map_err(|e| name_field(field, refuse_exchange(&e)))
}

/// `{"0": [["mb", 0, 32]], "1": ...}`: the ranges of a core, or a list of such lists where it holds several boxes. A
/// dimension that is not listed is whole.
fn read_table(
    field: &'static str,
    table: &Map<String, Value>,
    shape: &NamedShape,
) -> Result<TensorDivision, RequestFault> {
    let mut parts = Vec::new();
    for (core, written) in table {
        let number: CoreNumber = core.parse().map_err(|_| {
            bad_field(field, format!("`{}` is no number of a core", clip_text(core, 40)))
        })?;
        let place = format!("`{field}.{number}`");
        let Value::Array(list) = written else {
            let expected = "a list of ranges [dimension, begin, end]";
            return Err(RequestFault::wrong_type(&place, expected, written));
        };
        // A range begins with the name of its dimension; a list of ranges begins with a range.
        let nested = list
            .iter()
            .all(|entry| entry.as_array().is_some_and(|e| e.first().is_none_or(Value::is_array)));
        if nested && !list.is_empty() {
            for one in list {
                parts.push((number, read_box(field, &place, one, shape)?));
            }
        } else {
            parts.push((number, read_box(field, &place, written, shape)?));
        }
    }
    TensorDivision::new(&shape.extents, parts).map_err(|e| name_field(field, refuse_exchange(&e)))
}

fn read_box(
    field: &'static str,
    place: &str,
    written: &Value,
    shape: &NamedShape,
) -> Result<TensorBox, RequestFault> {
    let mut ranges: Vec<Option<(i64, i64)>> = vec![None; shape.extents.len()];
    for range in written.as_array().into_iter().flatten() {
        let Some([name, begin, end]) = range.as_array().map(Vec::as_slice) else {
            return Err(RequestFault::wrong_type(place, "ranges [dimension, begin, end]", range));
        };
        let dim = shape.dimension_named(field, name)?;
        let bounds = (parse_int(place, begin)?, parse_int(place, end)?);
        if ranges[dim].replace(bounds).is_some() {
            let name = &shape.names[dim];
            return Err(bad_field(
                field,
                format!(
                    "{place} has two ranges of `{name}`; a core with several boxes has a list of boxes"
                ),
            ));
        }
    }
    let whole = ranges.into_iter().zip(&shape.extents).map(|(r, n)| r.unwrap_or((0, *n)));
    Ok(TensorBox::new(whole.collect()))
}

fn bad_field(field: &str, message: impl std::fmt::Display) -> RequestFault {
    RequestFault {
        kind: "bad_request",
        message: format!("`{field}`: {message}"),
        witness: json!({"field": field}),
    }
}

fn name_field(field: &str, fault: RequestFault) -> RequestFault {
    RequestFault {
        message: format!("`{field}`: {}", fault.message),
        witness: if fault.witness.is_null() { json!({"field": field}) } else { fault.witness },
        kind: fault.kind,
    }
}

fn refuse_exchange(e: &ExchangeError) -> RequestFault {
    let (kind, witness) = match e {
        ExchangeError::TooLarge { .. } => ("too_large", Value::Null),
        ExchangeError::NoHolder { core, element } => {
            ("no_holder", json!({"core": core, "element": element}))
        }
        ExchangeError::OutsideTensor { core, dim, .. } => {
            ("bad_request", json!({"core": core, "dim": dim}))
        }
        _ => ("bad_request", Value::Null),
    };
    RequestFault { kind, message: e.to_string(), witness }
}
