//! Copies between the scratchpads of two divisions of a tensor.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::request::{Request, parse_int, parse_ints};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use zellige_exchange::{
    CoreExchange, CoreNumber, CoreSend, DivisionRuns, ExchangeError, MAX_CORES, SumExchange,
    TensorBox, TensorDivision,
};
use zellige_layout::{AxisKind, LayoutError};
use zellige_machine::account::{
    CoreWork, ExchangeCarrier, ExchangeSide, ExchangeWork, OperationLatency, OperationWork,
    WorkKind,
};
use zellige_machine::{Hardware, TimeTerm};

/// The most sends that an answer lists.
const MAX_LISTED_SENDS: usize = 1 << 16;

/// Cores of the ring, where the request does not say how many: those of the card.
const DEFAULT_RING_CORES: i64 = 32;

/// The preset whose figures price a copy, where the request names none: the one that has them.
const DEFAULT_STACK: &str = "card-2026-09";

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
    let source = read_source(r, &shape)?;
    let destination = read_division(r, "destination", &shape)?;
    let cores = r.optional_int("cores")?.unwrap_or(DEFAULT_RING_CORES);
    let ring = CoreNumber::try_from(cores).ok().filter(|n| (1..=MAX_CORES).contains(n));
    let ring = ring.ok_or_else(|| {
        bad_field("cores", format!("a ring of {cores} cores; 1 to {MAX_CORES} are accepted"))
    })?;
    let pricing = CopyPricing { hardware: read_stack(r)?, carrier: read_carrier(r)?, ring };
    let bytes = |elements: i64| byte_count(elements, dtype.bits());
    match source {
        ExchangeSource::Complete(source) => {
            let plan =
                CoreExchange::between(&source, &destination).map_err(|e| refuse_exchange(&e))?;
            check_listed(plan.sends().len())?;
            let work = pricing.copy_work(&plan, &source, &destination, bytes);
            let latency = pricing.latency(work);
            let (sent, received) = (plan.sent_by_core(), plan.received_by_core());
            Ok(json!({
                "movement": plan.class().to_string(),
                "remote_bytes": bytes(plan.remote_elements()),
                "local_bytes": bytes(plan.local_elements()),
                "sending_cores": sent.len(),
                "receiving_cores": received.len(),
                "busiest_sender": find_busiest(sent, bytes),
                "busiest_receiver": find_busiest(received, bytes),
                "busiest_link_bytes": bytes(plan.ring_loads(ring).busiest()),
                "time_us": latency.time.microseconds(),
                "terms": list_terms(&pricing.hardware, &latency),
                "governed_by": describe_side(&work),
                "sends": list_sends(&plan, &shape, bytes),
            }))
        }
        ExchangeSource::Partial(layers) => {
            let plan =
                SumExchange::between(&layers, &destination).map_err(|e| refuse_exchange(&e))?;
            check_listed(plan.additions().len().saturating_add(plan.spread().sends().len()))?;
            let (mut sent, mut received) =
                (plan.spread().sent_by_core(), plan.spread().received_by_core());
            for a in plan.additions().iter().filter(|a| a.source != a.owner) {
                *sent.entry(a.source).or_insert(0) += a.elements.element_count();
                *received.entry(a.owner).or_insert(0) += a.elements.element_count();
            }
            // Two copies, one after the other: sums are complete before they are handed on.
            let gather = pricing.latency(pricing.sum_work(&plan, &layers, bytes));
            let spread = pricing.copy_work(plan.spread(), plan.owners(), &destination, bytes);
            let spread = pricing.latency(spread);
            let mut terms = list_terms(&pricing.hardware, &gather);
            for (name, us) in list_terms(&pricing.hardware, &spread) {
                let sum = terms.get(&name).and_then(Value::as_f64).unwrap_or(0.0);
                let us = us.as_f64().unwrap_or(0.0);
                terms.insert(name, json!(sum + us));
            }
            let addition_json = |a: &zellige_exchange::PartialSend| {
                let ranges = list_ranges(&a.elements, &shape);
                json!([a.layer, a.source, a.owner, ranges, bytes(a.elements.element_count())])
            };
            Ok(json!({
                "movement": plan.class().to_string(),
                "remote_bytes": bytes(plan.remote_elements()),
                "local_bytes": bytes(plan.spread().local_elements()),
                "sending_cores": sent.len(),
                "receiving_cores": received.len(),
                "busiest_sender": find_busiest(sent, bytes),
                "busiest_receiver": find_busiest(received, bytes),
                "time_us": (gather.time + spread.time).microseconds(),
                "terms": terms,
                "additions": plan.additions().iter().map(addition_json).collect::<Vec<_>>(),
                "sends": list_sends(plan.spread(), &shape, bytes),
            }))
        }
    }
}

/// What a source holds.
enum ExchangeSource {
    /// The elements of the tensor.
    Complete(TensorDivision),
    /// Unfinished sums of them, by slice of the loop that is summed over.
    Partial(Vec<TensorDivision>),
}

/// What the price of a copy depends on beside its plan.
struct CopyPricing {
    hardware: Hardware,
    carrier: ExchangeCarrier,
    ring: CoreNumber,
}

impl CopyPricing {
    fn copy_work(
        &self,
        plan: &CoreExchange,
        source: &TensorDivision,
        destination: &TensorDivision,
        bytes: impl Fn(i64) -> i64,
    ) -> ExchangeWork {
        // What stays on its core everywhere takes no time.
        let moved = if plan.class().moves { plan.distinct_elements() } else { 0 };
        ExchangeWork {
            carrier: self.carrier,
            bytes: bytes(moved).unsigned_abs(),
            source: exchange_side(source.count_runs(), &bytes),
            destination: exchange_side(destination.count_runs(), &bytes),
            link_bytes: bytes(plan.ring_loads(self.ring).busiest()).unsigned_abs(),
        }
    }

    /// The copy of unfinished sums to the cores that add them up. Every layer is a tensor of its own.
    fn sum_work(
        &self,
        plan: &SumExchange,
        layers: &[TensorDivision],
        bytes: impl Fn(i64) -> i64,
    ) -> ExchangeWork {
        let runs = layers.iter().map(TensorDivision::count_runs);
        let shortest = runs.min_by_key(|r| (r.run, std::cmp::Reverse(r.split)));
        let holders: std::collections::BTreeSet<CoreNumber> =
            layers.iter().flat_map(|l| l.parts().map(|(core, _)| core)).collect();
        let shortest = shortest
            .map(|r| DivisionRuns { cores: i64::try_from(holders.len()).unwrap_or(i64::MAX), ..r });
        let owners = plan.owners().count_runs();
        let remote = plan.remote_elements() - plan.spread().remote_elements();
        ExchangeWork {
            carrier: self.carrier,
            bytes: bytes(remote).unsigned_abs(),
            source: exchange_side(shortest.unwrap_or(owners), &bytes),
            destination: exchange_side(owners, &bytes),
            link_bytes: bytes(plan.addition_loads(self.ring).busiest()).unsigned_abs(),
        }
    }

    /// The latency on the cores of the side with more of them.
    fn latency(&self, work: ExchangeWork) -> OperationLatency {
        let cores = work.source.cores.max(work.destination.cores);
        let each = CoreWork { ring_in: work.bytes.max(work.link_bytes), ..CoreWork::default() };
        let cores = usize::try_from(cores).unwrap_or(1);
        let work = OperationWork::uniform_cores("copy", WorkKind::Exchange(work), cores, each);
        self.hardware.operation_latency(&work)
    }
}

fn exchange_side(runs: DivisionRuns, bytes: impl Fn(i64) -> i64) -> ExchangeSide {
    ExchangeSide {
        cores: runs.cores.unsigned_abs(),
        run_bytes: bytes(runs.run).unsigned_abs(),
        split: runs.split.unsigned_abs(),
    }
}

fn list_terms(hardware: &Hardware, latency: &OperationLatency) -> Map<String, Value> {
    let term = |t: TimeTerm| (t.name.to_string(), json!(t.counted.microseconds()));
    hardware.list_time_terms(latency).into_iter().map(term).collect()
}

/// The side whose runs decide the time of a shuffle; null for what carries bytes alone.
fn describe_side(work: &ExchangeWork) -> Value {
    match work.carrier {
        ExchangeCarrier::Shuffle if work.bytes > 0 => {
            let side = work.governing_side();
            let name = if *side == work.source { "source" } else { "destination" };
            json!({"side": name, "run_bytes": side.run_bytes, "split": side.split})
        }
        _ => Value::Null,
    }
}

fn find_busiest(by_core: BTreeMap<CoreNumber, i64>, bytes: impl Fn(i64) -> i64) -> Value {
    let most = by_core.into_iter().max_by_key(|(core, n)| (*n, std::cmp::Reverse(*core)));
    most.map_or(Value::Null, |(core, n)| json!({"core": core, "bytes": bytes(n)}))
}

fn list_ranges(part: &TensorBox, shape: &NamedShape) -> Vec<Value> {
    let ranges = part.partial_ranges(&shape.extents);
    ranges.map(|(dim, begin, end)| json!([shape.names[dim], begin, end])).collect()
}

fn list_sends(plan: &CoreExchange, shape: &NamedShape, bytes: impl Fn(i64) -> i64) -> Vec<Value> {
    let send_json = |send: &CoreSend| {
        let ranges = list_ranges(&send.elements, shape);
        json!([send.source, send.destinations, ranges, bytes(send.elements.element_count())])
    };
    plan.sends().iter().map(send_json).collect()
}

fn check_listed(sends: usize) -> Result<(), RequestFault> {
    if sends <= MAX_LISTED_SENDS {
        return Ok(());
    }
    let message =
        format!("the plan has {sends} sends, and an answer lists at most {MAX_LISTED_SENDS}");
    Err(RequestFault::new("too_large", message))
}

fn read_stack(r: &Request) -> Result<Hardware, RequestFault> {
    // A preset by its name only: a request opens no file of hardware.
    let name = r.optional_str("stack")?.unwrap_or(DEFAULT_STACK);
    Hardware::built_in_preset(name).map_err(|e| bad_field("stack", clip_text(&e.to_string(), 400)))
}

fn read_carrier(r: &Request) -> Result<ExchangeCarrier, RequestFault> {
    match r.optional_str("carrier")?.unwrap_or("shuffle") {
        "shuffle" => Ok(ExchangeCarrier::Shuffle),
        "move" => Ok(ExchangeCarrier::Move),
        other => {
            let other = clip_text(other, 40);
            Err(bad_field("carrier", format!("`{other}`; `shuffle` or `move` is accepted")))
        }
    }
}

/// A division, or `{"sums": [division, ...], "finished": false}`: the unfinished sums over each slice of a loop. With
/// `finished` the cores have added them up along the layers, and those of the last layer hold the sums.
fn read_source(r: &Request, shape: &NamedShape) -> Result<ExchangeSource, RequestFault> {
    let Value::Object(written) = r.require_field("source")? else {
        return Ok(ExchangeSource::Complete(read_division(r, "source", shape)?));
    };
    let Some(sums) = written.get("sums") else {
        return Ok(ExchangeSource::Complete(read_division(r, "source", shape)?));
    };
    if let Some(unknown) = written.keys().find(|k| !["sums", "finished"].contains(&k.as_str())) {
        let unknown = clip_text(unknown, 40);
        let known = "known: sums, finished";
        return Err(bad_field(
            "source",
            format!("unknown field `{unknown}` beside `sums`; {known}"),
        ));
    }
    let list = sums.as_array().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| {
        RequestFault::wrong_type("`source.sums`", "a list of at least one division", sums)
    })?;
    let finished = match written.get("finished") {
        None => false,
        Some(Value::Bool(finished)) => *finished,
        Some(other) => {
            return Err(RequestFault::wrong_type("`source.finished`", "true or false", other));
        }
    };
    let mut layers = Vec::with_capacity(list.len());
    for layer in list {
        layers.push(parse_division(r, "source", layer, shape)?);
    }
    Ok(match (finished, layers.pop()) {
        (true, Some(last)) => ExchangeSource::Complete(last),
        (_, last) => ExchangeSource::Partial(layers.into_iter().chain(last).collect()),
    })
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
    parse_division(r, field, r.require_field(field)?, shape)
}

fn parse_division(
    r: &Request,
    field: &'static str,
    written: &Value,
    shape: &NamedShape,
) -> Result<TensorDivision, RequestFault> {
    match written {
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
