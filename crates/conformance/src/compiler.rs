//! The decisions of torch-spyre's compiler: layouts and moves of graphs, divisions of work, plans of scratchpads.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, ask_engine, check_same, expect_answer, int_field,
    list_field, mismatch_between, optional_field, parse_integers, refusal_text, text_field,
};
use crate::{CaseTally, list_cases, spyre};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The names that records have for dtypes.
fn record_dtype(case: &Value) -> &'static str {
    match case["dtype"].as_str() {
        Some("fp32" | "float32") => "float32",
        _ => "float16",
    }
}

/// The expressions of the records as the text of a graph: `+`, `@`, `.t()`, `.transpose(a,b)`, `.fill_(n)`, parentheses,
/// `ones_like(x)` and its kin, and assignments with `;`.
struct RecordedExpression<'a> {
    text: &'a [u8],
    at: usize,
    sizes: &'a Value,
    /// Names of the expression, and the tensors of the graph that they denote.
    known: BTreeMap<String, ExpressionTensor>,
    inputs: Vec<String>,
    lines: Vec<String>,
}

#[derive(Clone)]
struct ExpressionTensor {
    name: String,
    size: Vec<i64>,
}

impl RecordedExpression<'_> {
    /// The graph of an expression, or nothing if it has something else in it.
    fn translate_graph(written: &str, sizes: &Value) -> Option<String> {
        // Spaces carry no meaning in the recorded expressions, and without them the parser has no case for them.
        let compact: String = written.chars().filter(|c| !c.is_whitespace()).collect();
        let mut e = RecordedExpression {
            text: compact.as_bytes(),
            at: 0,
            sizes,
            known: BTreeMap::new(),
            inputs: Vec::new(),
            lines: Vec::new(),
        };
        loop {
            let start = e.at;
            let name = e.parse_name();
            let value = if !name.is_empty() && e.eat_byte(b'=') {
                let value = e.parse_sum()?;
                e.known.insert(name, value.clone());
                value
            } else {
                // What looked like the name of an assignment was the beginning of an expression.
                e.at = start;
                e.parse_sum()?
            };
            if e.at == e.text.len() {
                let (inputs, body) = (e.inputs.join(", "), e.lines.join(" "));
                return Some(format!("graph g({inputs}) {{ {body} return {} }}", value.name));
            }
            e.eat_byte(b';').then_some(())?;
        }
    }

    fn eat_byte(&mut self, c: u8) -> bool {
        let found = self.text.get(self.at) == Some(&c);
        self.at += usize::from(found);
        found
    }

    fn parse_name(&mut self) -> String {
        let rest = &self.text[self.at..];
        let is_name = |c: &&u8| c.is_ascii_alphanumeric() || **c == b'_';
        let count = rest.iter().take_while(is_name).count();
        self.at += count;
        String::from_utf8_lossy(&rest[..count]).into_owned()
    }

    fn parse_int(&mut self) -> Option<i64> {
        let sign = if self.eat_byte(b'-') { -1 } else { 1 };
        self.parse_name().parse::<i64>().ok().map(|n| sign * n)
    }

    fn add_operation(&mut self, call: &str, size: Vec<i64>) -> ExpressionTensor {
        let name = format!("t{}", self.lines.len());
        self.lines.push(format!("{name} = {call}"));
        ExpressionTensor { name, size }
    }

    fn parse_sum(&mut self) -> Option<ExpressionTensor> {
        let mut left = self.parse_product()?;
        while self.eat_byte(b'+') {
            let right = self.parse_product()?;
            // The records broadcast only operands of fewer dimensions.
            let larger = if right.size.len() > left.size.len() { &right } else { &left };
            left = self
                .add_operation(&format!("add({}, {})", left.name, right.name), larger.size.clone());
        }
        Some(left)
    }

    fn parse_product(&mut self) -> Option<ExpressionTensor> {
        let mut left = self.parse_postfix()?;
        while self.eat_byte(b'@') {
            let right = self.parse_postfix()?;
            let mut size = left.size.clone();
            *size.last_mut()? = *right.size.last()?;
            left = self.add_operation(&format!("matmul({}, {})", left.name, right.name), size);
        }
        Some(left)
    }

    fn parse_postfix(&mut self) -> Option<ExpressionTensor> {
        let mut value = self.parse_primary()?;
        while self.eat_byte(b'.') {
            let method = self.parse_name();
            self.eat_byte(b'(').then_some(())?;
            let rank = i64::try_from(value.size.len()).ok()?;
            let at = |d: i64| usize::try_from(if d < 0 { d + rank } else { d }).ok();
            value = match method.as_str() {
                "t" => {
                    let size = value.size.iter().rev().copied().collect();
                    self.add_operation(&format!("t({})", value.name), size)
                }
                "transpose" => {
                    let a = self.parse_int()?;
                    self.eat_byte(b',').then_some(())?;
                    let b = self.parse_int()?;
                    let mut size = value.size.clone();
                    let (x, y) = (at(a)?, at(b)?);
                    (x.max(y) < size.len()).then_some(())?;
                    size.swap(x, y);
                    self.add_operation(
                        &format!("transpose({}, dim0={a}, dim1={b})", value.name),
                        size,
                    )
                }
                "fill_" => {
                    let number = self.parse_int()?;
                    let size = value.size.clone();
                    let call = format!("full(size={size:?}, value={number}, dtype=float16)");
                    self.add_operation(&call, size)
                }
                _ => return None,
            };
            self.eat_byte(b')').then_some(())?;
        }
        Some(value)
    }

    fn parse_primary(&mut self) -> Option<ExpressionTensor> {
        if self.eat_byte(b'(') {
            let value = self.parse_sum()?;
            return self.eat_byte(b')').then_some(value);
        }
        let name = self.parse_name();
        if self.eat_byte(b'(') {
            let like = self.parse_sum()?;
            self.eat_byte(b')').then_some(())?;
            let op = match name.as_str() {
                "ones_like" => "ones",
                "zeros_like" | "empty_like" => "zeros",
                _ => return None,
            };
            let call = format!("{op}(size={:?}, dtype=float16)", like.size);
            return Some(self.add_operation(&call, like.size));
        }
        // A name that was assigned, or an input that was met before, is one tensor of the graph.
        if let Some(known) = self.known.get(&name) {
            return Some(known.clone());
        }
        // A field of the record may name several inputs of one size, or all of them.
        let sizes = self.sizes.as_object()?;
        let named = sizes.iter().find(|(k, _)| k.split(',').any(|k| k == name || k == "all"))?.1;
        let size = parse_integers(named, "inputs").ok()?;
        self.inputs.push(format!("{name}: float16{size:?}"));
        let input = ExpressionTensor { name: name.clone(), size };
        self.known.insert(name, input.clone());
        Some(input)
    }
}

/// Moves of a program and the elements that they move, padding not counted.
fn count_moves(graph: &str, policy: &str) -> Result<(i64, i64), CaseMismatch> {
    // The tests of torch-spyre count moves of inputs and intermediates: results keep the layouts in which they are computed.
    let options = json!({"policy": policy, "outputs": "computed", "check": true});
    let report = expect_answer(&json!({"op": "compile", "graph": graph, "options": options}))?;
    let (mut count, mut elements) = (0, 0);
    for moved in list_field(&report, "moves")? {
        count += 1;
        let size = parse_integers(&moved["from"]["layout"]["size"], "size")?;
        elements += size.iter().product::<i64>();
    }
    Ok((count, elements))
}

/// The baseline moves what torch-spyre moves, and the best program never more.
fn check_moves(case: &Value) -> CheckedCase {
    let written = text_field(case, "expr")?;
    let Some(graph) = RecordedExpression::translate_graph(written, &case["inputs"]) else {
        return Err(mismatch_between("an expression of sums, products and transposes", written));
    };
    let expected =
        (int_field(case, "expected_restickify_count")?, int_field(case, "expected_total_elems")?);
    let baseline = count_moves(&graph, "baseline")?;
    check_same("moves and elements of", &json!(expected), &json!(baseline))?;
    // The records are of a heuristic, so the search may do better; doing worse would be a defect.
    let best = count_moves(&graph, "best")?;
    // Compared by count and by elements, because a program could trade one for the other.
    if best.0 > expected.0 || best.1 > expected.1 {
        return Err(mismatch_between(format!("at most {expected:?}"), format!("{best:?}")));
    }
    Ok(CaseAgreement::Same)
}

fn check_constructed(case: &Value) -> CheckedCase {
    let request = json!({"op": "spyre_layout", "size": case["host_size"], "dtype": record_dtype(case), "dim_order": case["dim_order"]});
    let found = expect_answer(&request)?;
    check_same("device_size", &case["device_size"], &found["device_size"])?;
    check_same("stride_map", &case["stride_map"], &found["stride_map"])?;
    Ok(CaseAgreement::Same)
}

/// A tensor is uploaded and downloaded again.
fn check_round_trip(case: &Value) -> CheckedCase {
    let mut case = case.clone();
    if case["test"].as_str().is_some_and(|t| t.ends_with("sliced_batch")) {
        // That test moves the second half of its tensor.
        let half = parse_integers(&case["host_size"], "host_size")?.first().map_or(0, |n| n / 2);
        case["host_size"][0] = json!(half);
        case["offset"] = json!(half);
    }
    spyre::check_transfers(&case, "host_size", "host_stride")?;
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_propagation(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for case in list_cases(data)? {
        let checked = match case["kind"].as_str().unwrap_or("") {
            "restickify_plan" => check_moves(case),
            "layout_ctor" => check_constructed(case),
            "roundtrip_explicit_layout" => check_round_trip(case),
            // The tests of crates/compile and crates/stick have these, by functions that no request calls.
            "host_coordinates" | "device_coordinates" => {
                Ok(CaseAgreement::LeftOut("coordinates of accesses"))
            }
            "infeasible" => Ok(CaseAgreement::LeftOut("refusals in words")),
            "bmm_padding" => Ok(CaseAgreement::LeftOut("padding of products")),
            "op_layout" => Ok(CaseAgreement::LeftOut("layouts of results")),
            _ => Ok(CaseAgreement::LeftOut("other kinds")),
        };
        tally.count_case(format!("{} {}", case["id"], case["kind"]), checked);
    }
    Ok(())
}

/// Whether every split is the recorded one; those that a record does not name are 1.
fn check_splits(case: &Value, found: &Value) -> Result<(), CaseMismatch> {
    let own = found["splits"].as_object();
    for (name, n) in own.ok_or_else(|| mismatch_between("splits", found))? {
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
        check_same(&format!("the split of {name}"), &want.unwrap_or(json!(1)), n)?;
    }
    Ok(())
}

fn check_divided_case(case: &Value) -> CheckedCase {
    let kind = text_field(case, "kind")?;
    let mut request = json!({"op": "work_division", "policy": "baseline", "dtype": record_dtype(case), "cores": case["cores"]});
    if matches!(kind, "matmul" | "bmm") {
        if case["op"].as_str().is_some_and(|op| op.contains("shared")) {
            return Ok(CaseAgreement::LeftOut("products with a shared operand"));
        }
        let mut sizes = json!({"M": case["M"], "N": case["N"], "K": case["K"]});
        if let Some(batch) = optional_field(case, "B") {
            sizes["B"] = batch.clone();
        }
        request["kind"] = json!(kind);
        request["sizes"] = sizes;
    } else {
        request["kind"] = json!("pointwise");
        request["sizes"] = case["sizes"].clone();
    }
    if let Some(hint) = optional_field(case, "hint") {
        request["hint"] = hint.clone();
    }
    if let Some(message) = optional_field(case, "error").and_then(Value::as_str) {
        return match ask_engine(&request) {
            Err(e) if refusal_text(&e).contains(message) => Ok(CaseAgreement::Same),
            Err(e) => Err(mismatch_between(message, refusal_text(&e))),
            Ok(found) => Err(mismatch_between(message, found)),
        };
    }
    let found = expect_answer(&request)?;
    check_splits(case, &found)?;
    if let Some(by) = optional_field(case, "decided_by") {
        check_same("decided by", by, &found["decided_by"])?;
    }
    if let Some(cost) = optional_field(case, "cost_us").and_then(Value::as_f64) {
        let own = found["cost_us"].as_f64().unwrap_or(f64::NAN);
        // The records give costs with three digits.
        if (own - cost).abs() >= 1e-3 || own.is_nan() {
            return Err(mismatch_between(format!("{cost} us"), &found["cost_us"]));
        }
    }
    // The search never divides worse than the baseline.
    request["policy"] = json!("best");
    let best = expect_answer(&request)?;
    let latency = |v: &Value| v["latency_us"].as_f64().unwrap_or(f64::NAN);
    if latency(&best) > latency(&found) {
        return Err(mismatch_between(format!("at most {} us", latency(&found)), latency(&best)));
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_division(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for case in list_cases(data)? {
        let checked = match case["kind"].as_str().unwrap_or("") {
            "pointwise" | "matmul" | "bmm" | "hint" | "hint_error" => check_divided_case(case),
            "error" if optional_field(case, "sizes").is_some() => check_divided_case(case),
            // The tests of crates/compile have some of these, by functions that no request calls.
            "distribute" | "candidates" | "domain" | "blocked" | "legality" => {
                Ok(CaseAgreement::LeftOut("steps of the division"))
            }
            "span" | "cost_bytes" | "chunking" | "per_core_view" => {
                Ok(CaseAgreement::LeftOut("sizes on the way"))
            }
            "core_map" | "split_encoding" => Ok(CaseAgreement::LeftOut("numbers of cores")),
            _ => Ok(CaseAgreement::LeftOut("other kinds")),
        };
        tally.count_case(format!("{} {}", case["id"], case["kind"]), checked);
    }
    Ok(())
}

/// Every policy has the recorded addresses, and none spills less than the exact one.
fn check_placed_case(case: &Value) -> CheckedCase {
    let plan = |policy: &str| json!({"op": "lx_plan", "limit": case["limit"], "alignment": case["alignment"], "buffers": case["buffers"], "policy": policy});
    let (exact, expected) = (ask_engine(&plan("exact")), &case["expected_addresses"]);
    for solver in list_field(case, "solvers")? {
        let solver = solver.as_str().unwrap_or("?");
        if let Some(message) = expected.as_str() {
            let message = message.trim_start_matches("error: ");
            match ask_engine(&plan(solver)) {
                Err(e) if refusal_text(&e).contains(message) => continue,
                Err(e) => return Err(mismatch_between(message, refusal_text(&e))),
                Ok(found) => return Err(mismatch_between(message, found)),
            }
        }
        let found = expect_answer(&plan(solver))?;
        let addresses = list_field(&found, "addresses")?;
        for (i, buffer) in list_field(case, "buffers")?.iter().enumerate() {
            let want = match expected {
                Value::Array(all) => all.get(i),
                some => some.get(buffer["name"].as_str().unwrap_or("")),
            };
            if let Some(want) = want {
                let own = addresses.get(i).unwrap_or(&Value::Null);
                check_same(&format!("{solver}: the address of {}", buffer["name"]), want, own)?;
            }
        }
        let exact =
            exact.as_ref().map_err(|e| mismatch_between("an exact plan", refusal_text(e)))?;
        check_same("the exact plan is optimal:", &json!(true), &exact["optimal"])?;
        if int_field(exact, "spilled_bytes")? > int_field(&found, "spilled_bytes")? {
            return Err(mismatch_between(format!("{solver} spills no less"), exact));
        }
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_scratchpads(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for case in list_cases(data)? {
        tally.count_case(&case["id"], check_placed_case(case));
    }
    Ok(())
}
