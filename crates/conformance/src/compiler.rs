//! What the existing compiler decides: layouts and moves of graphs, divisions of work, plans of scratchpads.

use crate::case::{
    Agreement, Checked, Mismatch, ask, int, integers, list, maybe, mismatch, ok, refusal, same,
    text,
};
use crate::{Tally, cases, spyre};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The names that records have for dtypes.
fn dtype(case: &Value) -> &'static str {
    match case["dtype"].as_str() {
        Some("fp32" | "float32") => "float32",
        _ => "float16",
    }
}

/// The expressions of the records as the text of a graph: `+`, `@`, `.t()`, `.transpose(a,b)`, `.fill_(n)`, parentheses,
/// `ones_like(x)` and its kin, and assignments with `;`.
struct Expression<'a> {
    text: &'a [u8],
    at: usize,
    sizes: &'a Value,
    /// Names of the expression, and the tensors of the graph that they stand for.
    known: BTreeMap<String, Tensor>,
    inputs: Vec<String>,
    lines: Vec<String>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    size: Vec<i64>,
}

impl Expression<'_> {
    /// The graph of an expression, or nothing if it has something else in it.
    fn graph(written: &str, sizes: &Value) -> Option<String> {
        let compact: String = written.chars().filter(|c| !c.is_whitespace()).collect();
        let mut e = Expression {
            text: compact.as_bytes(),
            at: 0,
            sizes,
            known: BTreeMap::new(),
            inputs: Vec::new(),
            lines: Vec::new(),
        };
        loop {
            let start = e.at;
            let name = e.name();
            let value = if !name.is_empty() && e.eat(b'=') {
                let value = e.sum()?;
                e.known.insert(name, value.clone());
                value
            } else {
                e.at = start;
                e.sum()?
            };
            if e.at == e.text.len() {
                let (inputs, body) = (e.inputs.join(", "), e.lines.join(" "));
                return Some(format!("graph g({inputs}) {{ {body} return {} }}", value.name));
            }
            e.eat(b';').then_some(())?;
        }
    }

    fn eat(&mut self, c: u8) -> bool {
        let found = self.text.get(self.at) == Some(&c);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> String {
        let rest = &self.text[self.at..];
        let is_name = |c: &&u8| c.is_ascii_alphanumeric() || **c == b'_';
        let count = rest.iter().take_while(is_name).count();
        self.at += count;
        String::from_utf8_lossy(&rest[..count]).into_owned()
    }

    fn int(&mut self) -> Option<i64> {
        let sign = if self.eat(b'-') { -1 } else { 1 };
        self.name().parse::<i64>().ok().map(|n| sign * n)
    }

    fn op(&mut self, call: &str, size: Vec<i64>) -> Tensor {
        let name = format!("t{}", self.lines.len());
        self.lines.push(format!("{name} = {call}"));
        Tensor { name, size }
    }

    fn sum(&mut self) -> Option<Tensor> {
        let mut left = self.product()?;
        while self.eat(b'+') {
            let right = self.product()?;
            let larger = if right.size.len() > left.size.len() { &right } else { &left };
            left = self.op(&format!("add({}, {})", left.name, right.name), larger.size.clone());
        }
        Some(left)
    }

    fn product(&mut self) -> Option<Tensor> {
        let mut left = self.postfix()?;
        while self.eat(b'@') {
            let right = self.postfix()?;
            let mut size = left.size.clone();
            *size.last_mut()? = *right.size.last()?;
            left = self.op(&format!("matmul({}, {})", left.name, right.name), size);
        }
        Some(left)
    }

    fn postfix(&mut self) -> Option<Tensor> {
        let mut value = self.primary()?;
        while self.eat(b'.') {
            let method = self.name();
            self.eat(b'(').then_some(())?;
            let rank = i64::try_from(value.size.len()).ok()?;
            let at = |d: i64| usize::try_from(if d < 0 { d + rank } else { d }).ok();
            value = match method.as_str() {
                "t" => {
                    let size = value.size.iter().rev().copied().collect();
                    self.op(&format!("t({})", value.name), size)
                }
                "transpose" => {
                    let a = self.int()?;
                    self.eat(b',').then_some(())?;
                    let b = self.int()?;
                    let mut size = value.size.clone();
                    let (x, y) = (at(a)?, at(b)?);
                    (x.max(y) < size.len()).then_some(())?;
                    size.swap(x, y);
                    self.op(&format!("transpose({}, dim0={a}, dim1={b})", value.name), size)
                }
                "fill_" => {
                    let number = self.int()?;
                    let size = value.size.clone();
                    let call = format!("full(size={size:?}, value={number}, dtype=float16)");
                    self.op(&call, size)
                }
                _ => return None,
            };
            self.eat(b')').then_some(())?;
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<Tensor> {
        if self.eat(b'(') {
            let value = self.sum()?;
            return self.eat(b')').then_some(value);
        }
        let name = self.name();
        if self.eat(b'(') {
            let like = self.sum()?;
            self.eat(b')').then_some(())?;
            let op = match name.as_str() {
                "ones_like" => "ones",
                "zeros_like" | "empty_like" => "zeros",
                _ => return None,
            };
            let call = format!("{op}(size={:?}, dtype=float16)", like.size);
            return Some(self.op(&call, like.size));
        }
        if let Some(known) = self.known.get(&name) {
            return Some(known.clone());
        }
        // A field of the record may name several inputs of one size, or all of them.
        let sizes = self.sizes.as_object()?;
        let named = sizes.iter().find(|(k, _)| k.split(',').any(|k| k == name || k == "all"))?.1;
        let size = integers(named, "inputs").ok()?;
        self.inputs.push(format!("{name}: float16{size:?}"));
        let input = Tensor { name: name.clone(), size };
        self.known.insert(name, input.clone());
        Some(input)
    }
}

/// Moves of a program and the elements that they move, padding not counted.
fn moves(graph: &str, policy: &str) -> Result<(i64, i64), Mismatch> {
    // The existing tests count moves of inputs and intermediates: what is returned lies as it comes.
    let options = json!({"policy": policy, "outputs": "computed", "check": true});
    let report = ok(&json!({"op": "compile", "graph": graph, "options": options}))?;
    let (mut count, mut elements) = (0, 0);
    for moved in list(&report, "moves")? {
        count += 1;
        let size = integers(&moved["from"]["layout"]["size"], "size")?;
        elements += size.iter().product::<i64>();
    }
    Ok((count, elements))
}

/// The baseline moves what the existing compiler moves, and the best program never more.
fn moved(case: &Value) -> Checked {
    let written = text(case, "expr")?;
    let Some(graph) = Expression::graph(written, &case["inputs"]) else {
        return Err(mismatch("an expression of sums, products and transposes", written));
    };
    let expected = (int(case, "expected_restickify_count")?, int(case, "expected_total_elems")?);
    let baseline = moves(&graph, "baseline")?;
    same("moves and elements of", &json!(expected), &json!(baseline))?;
    let best = moves(&graph, "best")?;
    if best.0 > expected.0 || best.1 > expected.1 {
        return Err(mismatch(format!("at most {expected:?}"), format!("{best:?}")));
    }
    Ok(Agreement::Same)
}

fn constructed(case: &Value) -> Checked {
    let request = json!({"op": "spyre_layout", "size": case["host_size"], "dtype": dtype(case), "dim_order": case["dim_order"]});
    let found = ok(&request)?;
    same("device_size", &case["device_size"], &found["device_size"])?;
    same("stride_map", &case["stride_map"], &found["stride_map"])?;
    Ok(Agreement::Same)
}

/// A tensor goes to the device and comes back.
fn round_trip(case: &Value) -> Checked {
    let mut case = case.clone();
    if case["test"].as_str().is_some_and(|t| t.ends_with("sliced_batch")) {
        // That test moves the second half of its tensor.
        let half = integers(&case["host_size"], "host_size")?.first().map_or(0, |n| n / 2);
        case["host_size"][0] = json!(half);
        case["offset"] = json!(half);
    }
    spyre::transfers(&case, "host_size", "host_stride")?;
    Ok(Agreement::Same)
}

pub(crate) fn propagation(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for case in cases(data)? {
        let checked = match case["kind"].as_str().unwrap_or("") {
            "restickify_plan" => moved(case),
            "layout_ctor" => constructed(case),
            "roundtrip_explicit_layout" => round_trip(case),
            // The tests of crates/compile and crates/stick have these, by functions that no request calls.
            "host_coordinates" | "device_coordinates" => {
                Ok(Agreement::LeftOut("coordinates of accesses"))
            }
            "infeasible" => Ok(Agreement::LeftOut("refusals in words")),
            "bmm_padding" => Ok(Agreement::LeftOut("padding of products")),
            "op_layout" => Ok(Agreement::LeftOut("layouts of results")),
            _ => Ok(Agreement::LeftOut("other kinds")),
        };
        tally.case(format!("{} {}", case["id"], case["kind"]), checked);
    }
    Ok(())
}

/// Whether every split is the recorded one; those that a record does not name are 1.
fn splits(case: &Value, found: &Value) -> Result<(), Mismatch> {
    let own = found["splits"].as_object();
    for (name, n) in own.ok_or_else(|| mismatch("splits", found))? {
        // Records name dimensions c0 or d0, or with their sizes: c0(M=128).
        let other = name.replacen('c', "d", 1);
        let recorded = case["splits"].as_object().into_iter().flatten();
        let want = recorded
            .filter(|(k, _)| {
                let bare = k.split('(').next().unwrap_or(k);
                bare == name || bare == other
            })
            .map(|(_, n)| n.clone())
            .next();
        same(&format!("the split of {name}"), &want.unwrap_or(json!(1)), n)?;
    }
    Ok(())
}

fn divided(case: &Value) -> Checked {
    let kind = text(case, "kind")?;
    let mut request = json!({"op": "work_division", "policy": "baseline", "dtype": dtype(case), "cores": case["cores"]});
    if matches!(kind, "matmul" | "bmm") {
        if case["op"].as_str().is_some_and(|op| op.contains("shared")) {
            return Ok(Agreement::LeftOut("products with a shared operand"));
        }
        let mut sizes = json!({"M": case["M"], "N": case["N"], "K": case["K"]});
        if let Some(batch) = maybe(case, "B") {
            sizes["B"] = batch.clone();
        }
        request["kind"] = json!(kind);
        request["sizes"] = sizes;
    } else {
        request["kind"] = json!("pointwise");
        request["sizes"] = case["sizes"].clone();
    }
    if let Some(hint) = maybe(case, "hint") {
        request["hint"] = hint.clone();
    }
    if let Some(message) = maybe(case, "error").and_then(Value::as_str) {
        return match ask(&request) {
            Err(e) if refusal(&e).contains(message) => Ok(Agreement::Same),
            Err(e) => Err(mismatch(message, refusal(&e))),
            Ok(found) => Err(mismatch(message, found)),
        };
    }
    let found = ok(&request)?;
    splits(case, &found)?;
    if let Some(by) = maybe(case, "decided_by") {
        same("decided by", by, &found["decided_by"])?;
    }
    if let Some(cost) = maybe(case, "cost_us").and_then(Value::as_f64) {
        let own = found["cost_us"].as_f64().unwrap_or(f64::NAN);
        if (own - cost).abs() >= 1e-3 || own.is_nan() {
            return Err(mismatch(format!("{cost} us"), &found["cost_us"]));
        }
    }
    // The search never divides worse than the baseline.
    request["policy"] = json!("best");
    let best = ok(&request)?;
    let latency = |v: &Value| v["latency_us"].as_f64().unwrap_or(f64::NAN);
    if latency(&best) > latency(&found) {
        return Err(mismatch(format!("at most {} us", latency(&found)), latency(&best)));
    }
    Ok(Agreement::Same)
}

pub(crate) fn division(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for case in cases(data)? {
        let checked = match case["kind"].as_str().unwrap_or("") {
            "pointwise" | "matmul" | "bmm" | "hint" | "hint_error" => divided(case),
            "error" if maybe(case, "sizes").is_some() => divided(case),
            // The tests of crates/compile have some of these, by functions that no request calls.
            "distribute" | "candidates" | "domain" | "blocked" | "legality" => {
                Ok(Agreement::LeftOut("steps of the division"))
            }
            "span" | "cost_bytes" | "chunking" | "per_core_view" => {
                Ok(Agreement::LeftOut("sizes on the way"))
            }
            "core_map" | "split_encoding" => Ok(Agreement::LeftOut("numbers of cores")),
            _ => Ok(Agreement::LeftOut("other kinds")),
        };
        tally.case(format!("{} {}", case["id"], case["kind"]), checked);
    }
    Ok(())
}

/// Every policy has the recorded addresses, and none spills less than the exact one.
fn placed(case: &Value) -> Checked {
    let plan = |policy: &str| json!({"op": "lx_plan", "limit": case["limit"], "alignment": case["alignment"], "buffers": case["buffers"], "policy": policy});
    let (exact, expected) = (ask(&plan("exact")), &case["expected_addresses"]);
    for solver in list(case, "solvers")? {
        let solver = solver.as_str().unwrap_or("?");
        if let Some(message) = expected.as_str() {
            let message = message.trim_start_matches("error: ");
            match ask(&plan(solver)) {
                Err(e) if refusal(&e).contains(message) => continue,
                Err(e) => return Err(mismatch(message, refusal(&e))),
                Ok(found) => return Err(mismatch(message, found)),
            }
        }
        let found = ok(&plan(solver))?;
        let addresses = list(&found, "addresses")?;
        for (i, buffer) in list(case, "buffers")?.iter().enumerate() {
            let want = match expected {
                Value::Array(all) => all.get(i),
                some => some.get(buffer["name"].as_str().unwrap_or("")),
            };
            if let Some(want) = want {
                let own = addresses.get(i).unwrap_or(&Value::Null);
                same(&format!("{solver}: the address of {}", buffer["name"]), want, own)?;
            }
        }
        let exact = exact.as_ref().map_err(|e| mismatch("an exact plan", refusal(e)))?;
        same("the exact plan is optimal:", &json!(true), &exact["optimal"])?;
        if int(exact, "spilled_bytes")? > int(&found, "spilled_bytes")? {
            return Err(mismatch(format!("{solver} spills no less"), exact));
        }
    }
    Ok(Agreement::Same)
}

pub(crate) fn scratchpads(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for case in cases(data)? {
        tally.case(&case["id"], placed(case));
    }
    Ok(())
}
