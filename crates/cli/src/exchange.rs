//! `zellige exchange`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::path::PathBuf;
use zellige_view::svg::core_traffic::render_core_traffic_svg;
use zellige_view::{CoreTraffic, render_core_traffic_text};

#[derive(clap::Args)]
#[command(after_help = "\
FILE is a JSON object with the fields of the request `exchange` of `zellige ask`: shape, dtype, source,
destination, cores, stack, carrier. Each division is a table core -> ranges, its rule, or the text of a layout on the
axis `core`.

  {\"shape\": {\"mb\": 512, \"out\": 4096}, \"dtype\": \"float16\",
   \"source\": {\"cores\": [0, 32, 2], \"slices\": {\"mb\": [2, 16]}},
   \"destination\": {\"cores\": [0, 32, 1], \"slices\": {\"mb\": [4, 8], \"out\": [1, 4]}}}

On core c the slice of a dimension with [a, n] is number (c / a) % n of n.

Examples:
  zellige exchange examples/exchange.json
  zellige exchange examples/exchange.json --sends
  zellige exchange examples/exchange.json --svg exchange.svg")]
pub(crate) struct ExchangeArgs {
    /// The tensor and its two divisions; - reads them from standard input
    file: PathBuf,
    /// List every send: who gives which box to whom
    #[arg(long)]
    sends: bool,
    /// Draw who sends how much to whom into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the answer of `zellige ask` as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_exchange(args: &ExchangeArgs) -> Result<ExitCode> {
    let text = if args.file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
        text
    } else {
        std::fs::read_to_string(&args.file).with_context(|| args.file.display().to_string())?
    };
    let mut request: Map<String, Value> = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a JSON object", args.file.display()))?;
    match request.insert("op".into(), json!("exchange")) {
        None => {}
        Some(Value::String(op)) if op == "exchange" => {}
        Some(other) => bail!("the file is a request {other}, and `exchange` is expected"),
    }
    let shape = request.get("shape").cloned().unwrap_or(Value::Null);
    let dtype = request.get("dtype").and_then(Value::as_str).unwrap_or("").to_string();
    let answer: Value =
        serde_json::from_str(&zellige_ask::answer_line(&json!(request).to_string()))?;
    if let Some(fault) = answer.get("error") {
        return Err(anyhow!("{}", fault["message"].as_str().unwrap_or("")));
    }
    let plan = &answer["ok"];
    let traffic = collect_traffic(plan, &describe_shape(&shape, &dtype))?;
    if let Some(path) = &args.svg {
        std::fs::write(path, render_core_traffic_svg(&traffic))
            .with_context(|| path.display().to_string())?;
    }
    if args.json {
        print_json(&plan.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(&describe_plan(plan, &traffic, args.sends)?)?;
    Ok(ExitCode::SUCCESS)
}

fn describe_shape(shape: &Value, dtype: &str) -> String {
    let dims: Vec<String> = match shape {
        Value::Object(named) => named.iter().map(|(name, n)| format!("{name} {n}")).collect(),
        Value::Array(list) => list.iter().map(Value::to_string).collect(),
        _ => Vec::new(),
    };
    format!("{} of {dtype}", dims.join(" x "))
}

/// The sends of an answer, added up by pair of cores.
fn collect_traffic(plan: &Value, tensor: &str) -> Result<CoreTraffic> {
    let sends = plan["sends"].as_array().context("the answer lists no sends")?;
    let mut pairs: Vec<(u32, u32, i64)> = Vec::new();
    for send in sends {
        let source = read_core(&send[0])?;
        let bytes = send[3].as_i64().context("a send without bytes")?;
        for to in send[1].as_array().into_iter().flatten() {
            pairs.push((source, read_core(to)?, bytes));
        }
    }
    for addition in plan["additions"].as_array().into_iter().flatten() {
        let bytes = addition[4].as_i64().context("unfinished sums without bytes")?;
        pairs.push((read_core(&addition[1])?, read_core(&addition[2])?, bytes));
    }
    let named: BTreeSet<u32> = pairs.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    let cores: Vec<u32> = named.into_iter().collect();
    let place = |core: u32| cores.binary_search(&core).unwrap_or(0);
    let mut bytes = vec![vec![0; cores.len()]; cores.len()];
    for (from, to, n) in pairs {
        bytes[place(from)][place(to)] += n;
    }
    let title = format!("{}: {tensor}", plan["movement"].as_str().unwrap_or(""));
    let caption = format!(
        "{} bytes go to other cores, {} stay; rows send, columns receive",
        plan["remote_bytes"], plan["local_bytes"]
    );
    Ok(CoreTraffic { title, caption, cores, bytes })
}

fn read_core(core: &Value) -> Result<u32> {
    core.as_u64().and_then(|c| u32::try_from(c).ok()).context("a send without a core")
}

/// The time with its terms, and the side of the copy that decides it.
fn describe_time(plan: &Value) -> String {
    let terms = plan["terms"].as_object().into_iter().flatten();
    let terms: Vec<String> =
        terms.map(|(name, us)| format!("{name} {:.2}", us.as_f64().unwrap_or(0.0))).collect();
    let mut text = format!("time       {:.2} us", plan["time_us"].as_f64().unwrap_or(0.0));
    if !terms.is_empty() {
        text += &format!(": {}", terms.join(" + "));
    }
    let by = &plan["governed_by"];
    if let Some(side) = by["side"].as_str() {
        text += &format!(", by runs of {} bytes of the {side}", by["run_bytes"]);
        text += &format!(" in {} slices", by["split"]);
    }
    text
}

fn describe_plan(plan: &Value, traffic: &CoreTraffic, with_sends: bool) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{}", traffic.title)?;
    writeln!(
        out,
        "remote     {} bytes, the least that any plan moves; {} cores send, {} receive",
        plan["remote_bytes"], plan["sending_cores"], plan["receiving_cores"]
    )?;
    writeln!(out, "local      {} bytes stay on their core", plan["local_bytes"])?;
    for (name, field, verb) in
        [("sender", "busiest_sender", "sends"), ("receiver", "busiest_receiver", "receives")]
    {
        if let Some(core) = plan[field]["core"].as_u64() {
            let label = format!("busiest {name}");
            writeln!(out, "{label:<16} core {core} {verb} {} bytes", plan[field]["bytes"])?;
        }
    }
    if let Some(bytes) = plan["busiest_link_bytes"].as_i64() {
        writeln!(out, "busiest link     {bytes} bytes, of the ring")?;
    }
    writeln!(out, "{}", describe_time(plan))?;
    writeln!(out, "\nrows send, columns receive; o stays, 9 is the most between two cores")?;
    out.push_str(&render_core_traffic_text(traffic));
    if with_sends {
        let list_ranges = |list: &Value| {
            let list = list.as_array().into_iter().flatten();
            let ranges: Vec<String> = list
                .map(|r| format!("{} [{}, {})", r[0].as_str().unwrap_or(""), r[1], r[2]))
                .collect();
            if ranges.is_empty() { "all".to_string() } else { ranges.join(" ") }
        };
        if let Some(additions) = plan["additions"].as_array() {
            writeln!(out, "\nlayer  source  adding core  ranges  bytes")?;
            for a in additions {
                let ranges = list_ranges(&a[3]);
                writeln!(out, "{}  {}  {}  {ranges}  {}", a[0], a[1], a[2], a[4])?;
            }
        }
        writeln!(out, "\nsource  destinations  ranges  bytes")?;
        for send in plan["sends"].as_array().into_iter().flatten() {
            let list = |v: &Value| {
                let items = v.as_array().into_iter().flatten();
                items.map(Value::to_string).collect::<Vec<_>>().join(",")
            };
            let ranges = list_ranges(&send[2]);
            writeln!(out, "{}  {}  {ranges}  {}", send[0], list(&send[1]), send[3])?;
        }
    }
    Ok(out)
}
