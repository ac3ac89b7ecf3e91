//! What an operation gave and what every step of it took.

use serde_json::{Value, json};
use std::fmt::Write;
use zellige_device::{Card, StreamId, Tensor, WorkDivision, WorkReceipt};
use zellige_machine::SimulatedTime;
use zellige_op::{OpRow, TensorOp};

/// The steps in the order they ran.
#[derive(Default)]
pub(super) struct EagerReport {
    pub(super) steps: Vec<WorkReceipt>,
}

impl EagerReport {
    fn total_time(&self, transfers: bool) -> SimulatedTime {
        // The link and the cores are different bottlenecks, and an operation that is bound by one is not helped by
        // the other.
        let of = |r: &&WorkReceipt| r.cost.kind.is_transfer() == transfers;
        self.steps.iter().filter(of).map(|r| r.cost.latency.time).sum()
    }

    /// One line: how long it took, and how much of that crossed the link.
    pub(super) fn total_line(&self, card: &Card) -> String {
        let (all, link, cores) =
            (card.stream_time(StreamId::DEFAULT), self.total_time(true), self.total_time(false));
        format!("{all} simulated: {link} over the link to the host, {cores} on the cores")
    }

    pub(super) fn render_report(
        &self,
        card: &Card,
        division: &WorkDivision,
        names: &[String],
        results: &[Tensor],
        as_json: bool,
    ) -> String {
        if as_json {
            return self.report_json(card, division, names, results).to_string();
        }
        // The reason of a move stands behind a colon, on a line of its own.
        let short = |r: &WorkReceipt| r.cost.name.split(": ").next().unwrap_or_default().to_owned();
        let width = self.steps.iter().map(|r| short(r).len()).max().unwrap_or(0);
        let mut text = String::new();
        for step in &self.steps {
            let _ = writeln!(text, "{:width$}  {}", short(step), step.cost);
            if let Some((_, why)) = step.cost.name.split_once(": ") {
                let _ = writeln!(text, "{:width$}  because {why}", "");
            }
        }
        for (name, t) in names.iter().zip(results) {
            let arrow = if name.is_empty() { String::new() } else { format!(" -> {name}") };
            let _ = writeln!(
                text,
                "result {} {:?} in {}{arrow}",
                t.dtype(),
                t.size(),
                t.stick_layout()
            );
        }
        let _ = write!(text, "total {}", self.total_line(card));
        text
    }

    fn report_json(
        &self,
        card: &Card,
        division: &WorkDivision,
        names: &[String],
        results: &[Tensor],
    ) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|r| {
                let (name, why) = match r.cost.name.split_once(": ") {
                    Some((name, why)) => (name, Some(why)),
                    None => (r.cost.name.as_str(), None),
                };
                json!({
                    "name": name, "why": why, "start_ps": r.span.start.picoseconds(),
                    "end_ps": r.span.end.picoseconds(), "text": r.cost.to_string(), "cost": r.cost,
                })
            })
            .collect();
        let results: Vec<Value> = names
            .iter()
            .zip(results)
            .map(|(name, t)| {
                json!({
                    "file": if name.is_empty() { Value::Null } else { name.as_str().into() },
                    "dtype": t.dtype().name(), "size": t.size(), "layout": t.stick_layout().to_string(),
                })
            })
            .collect();
        json!({
            "hardware": card.hardware().name(), "profile": card.profile(), "cores": card.core_count(),
            "splits": division.splits(), "steps": steps, "results": results,
            "total_ps": card.stream_time(StreamId::DEFAULT).picoseconds(),
            "link_ps": self.total_time(true).picoseconds(), "cores_ps": self.total_time(false).picoseconds(),
        })
    }
}

/// Every operation with operands, attributes and layer.
pub(super) fn list_operations(as_json: bool) -> String {
    let signature = |e: &OpRow| format!("{}({})", e.name, e.operands.join(", "));
    if as_json {
        let all: Vec<Value> = TensorOp::all_rows()
            .map(|e| {
                let attributes: Vec<Value> =
                    e.attributes.iter().map(|(n, v)| json!({"name": n, "accepts": v})).collect();
                json!({"name": e.name, "operands": e.operands, "attributes": attributes, "layer": e.layer.name()})
            })
            .collect();
        return json!({"operations": all}).to_string();
    }
    let width = TensorOp::all_rows().map(|e| signature(e).len()).max().unwrap_or(0);
    let mut text = String::new();
    for e in TensorOp::all_rows() {
        let _ = writeln!(text, "{:width$}  {}", signature(e), e.layer.name());
        for (name, accepts) in e.attributes {
            let _ = writeln!(text, "    {name}: {accepts}");
        }
    }
    text
}
