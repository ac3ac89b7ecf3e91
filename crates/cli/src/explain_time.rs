//! `zellige explain-time`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use crate::near_misses::parse_dtype;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

#[derive(clap::Args)]
#[command(after_help = "\
WHAT is an operation of `zellige ops`, followed by the shapes of its operands, which are called x0, x1, ..; its result
is called y. Or it is a file with a graph. Times are those of a run whose steps come one after the other; a term that is
hidden behind a longer one counts nothing.

Examples:
  zellige explain-time matmul 512x4096 4096x12800
  zellige explain-time matmul 512x4096 4096x12800 --division M=4,N=8 --policy baseline
  zellige explain-time bmm 8x512x1024 8x1024x512 --layout x0='order 1,0,2' --layout x1='order 1,0,2'
  zellige explain-time softmax 4096x1024 --attribute dim=-1 --stack ktir
  zellige explain-time examples/swiglu.graph --cores 16 --steps")]
pub(crate) struct ExplainTimeArgs {
    /// An operation, or a file with a graph
    #[arg(value_name = "WHAT")]
    what: String,
    /// The shapes of the operands
    #[arg(value_name = "SHAPE")]
    shapes: Vec<String>,
    /// The dtype of all operands, or one for each
    #[arg(long, value_name = "DTYPE,DTYPE", value_delimiter = ',')]
    dtype: Vec<String>,
    /// An attribute of the operation
    #[arg(long, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    attribute: Vec<String>,
    /// Slices of the dimensions: those of a product are B, M, N and K
    #[arg(long, value_name = "DIM=SLICES,..", value_delimiter = ',')]
    division: Vec<String>,
    /// The layout of an operand or of the result: `stick 1`, `order 1,0,2` or `sparse`
    #[arg(long, value_name = "NAME=LAYOUT")]
    layout: Vec<String>,
    /// Cores that may be used
    #[arg(long)]
    cores: Option<u32>,
    /// The part of every scratchpad that plans leave free, from 0 to 1
    #[arg(long, value_name = "PART")]
    lx_fraction: Option<f64>,
    /// Keep nothing in scratchpads
    #[arg(long)]
    no_lx: bool,
    /// The hardware preset
    #[arg(long, value_name = "PRESET")]
    stack: Option<String>,
    /// Who chooses what is not given: `best`, or `baseline` for what torch-spyre's compiler does
    #[arg(long)]
    policy: Option<String>,
    /// What the card runs itself: `full` or `card`
    #[arg(long)]
    profile: Option<String>,
    /// Print the terms of every step
    #[arg(long)]
    steps: bool,
    /// Write JSON instead of text: the answer of the request `predict`
    #[arg(long)]
    json: bool,
}

pub(crate) fn explain_time(args: &ExplainTimeArgs) -> Result<ExitCode> {
    let request = Value::Object(args.build_request()?).to_string();
    let answer =
        zellige_ask::predict_time(&request).map_err(|fault| anyhow!("{}", fault.message))?;
    if args.json {
        print_json(&answer.to_string())?;
    } else {
        print_text(&print_answer(&answer, args.steps))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ExplainTimeArgs {
    /// The request `predict` that these arguments are.
    fn build_request(&self) -> Result<Map<String, Value>> {
        let mut request = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            value.and_then(|v| request.insert(name.into(), v));
        };
        let path = Path::new(&self.what);
        let is_file = path.extension().is_some() || path.is_file();
        put(if is_file { "file" } else { "operation" }, Some(json!(self.what)));
        if !is_file || !self.shapes.is_empty() {
            let shapes = self.shapes.iter().map(|s| parse_shape(s)).collect::<Result<Vec<_>>>()?;
            put("shapes", Some(json!(shapes)));
        }
        // The request would refuse a name that is none as well, and could not say what was meant.
        self.dtype.iter().try_for_each(|name| parse_dtype(name).context("--dtype").map(|_| ()))?;
        put(
            "dtype",
            match &self.dtype[..] {
                [] => None,
                [one] => Some(json!(one)),
                list => Some(json!(list)),
            },
        );
        let object = |list: &[String], name: &str, read: fn(&str) -> Result<Value>| {
            let mut object = Map::new();
            for text in list {
                let Some((key, value)) = text.split_once('=') else {
                    bail!("--{name} {text}: NAME=VALUE is read");
                };
                let value = read(value.trim()).map_err(|e| anyhow!("--{name} {text}: {e}"))?;
                if object.insert(key.trim().into(), value).is_some() {
                    bail!("--{name} {text}: `{}` is given twice", key.trim());
                }
            }
            Ok((!object.is_empty()).then_some(Value::Object(object)))
        };
        put("attributes", object(&self.attribute, "attribute", parse_attribute)?);
        put("division", object(&self.division, "division", parse_slices)?);
        put("layouts", object(&self.layout, "layout", parse_layout)?);
        put("cores", self.cores.map(|n| json!(n)));
        put("lx_fraction", self.lx_fraction.map(|n| json!(n)));
        put("lx", self.no_lx.then_some(json!(false)));
        put("stack", self.stack.as_ref().map(|s| json!(s)));
        put("policy", self.policy.as_ref().map(|s| json!(s)));
        put("profile", self.profile.as_ref().map(|s| json!(s)));
        Ok(request)
    }
}

/// `512x4096`, or the same with commas.
fn parse_shape(text: &str) -> Result<Vec<i64>> {
    let sizes: Option<Vec<i64>> = text.split(['x', ',']).map(|n| n.trim().parse().ok()).collect();
    sizes.ok_or_else(|| anyhow!("{text}: a shape is extents joined by `x`, such as 512x4096"))
}

/// A JSON value; what is none is a text.
fn parse_attribute(text: &str) -> Result<Value> {
    Ok(serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

fn parse_slices(text: &str) -> Result<Value> {
    let slices = text.parse::<u64>().ok().filter(|n| *n > 0);
    slices.map(|n| json!(n)).ok_or_else(|| anyhow!("a number of slices, 1 or more, is read"))
}

fn parse_layout(text: &str) -> Result<Value> {
    let list = |text: &str| -> Option<Vec<i64>> {
        let inside = text.trim().trim_start_matches('[').trim_end_matches(']');
        inside.split(',').map(|n| n.trim().parse().ok()).collect()
    };
    let found = match text.split_once(' ') {
        None if text == "sparse" => Some(json!({"sparse": true})),
        Some(("stick", d)) => d.trim().parse::<u32>().ok().map(|d| json!({"stick": d})),
        Some(("order", order)) => list(order).map(|o| json!({"order": o})),
        _ if text.starts_with("SpyreTensorLayout") => Some(json!({"layout": text})),
        _ => None,
    };
    found.ok_or_else(|| {
        anyhow!("`stick 1`, `order 1,0,2`, `sparse` or a whole SpyreTensorLayout(..) is read")
    })
}

/// The answer as a text: the time and what limits it, then every term.
fn print_answer(answer: &Value, steps: bool) -> String {
    let mut out = String::new();
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    let word = |v: &Value| v.as_str().unwrap_or("").to_string();
    let total = number(&answer["time_us"]);
    let _ = write!(out, "{} on {}", format_time(total), word(&answer["hardware"]));
    match answer["bound"].as_str() {
        Some(bound) => {
            let _ = writeln!(out, ", bound by {bound}: {}", word(&answer["why"]));
        }
        None => out += ", nothing to do\n",
    }
    out += &print_terms(&answer["terms"], total, "");
    let list = answer["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !steps && list.len() > 1 {
        let _ = writeln!(out, "{} steps; --steps prints the terms of each", list.len());
    }
    for step in list.iter().filter(|_| steps || list.len() == 1) {
        let slices = step["division"].as_array().map(Vec::as_slice).unwrap_or_default();
        let slices: Vec<String> = slices
            .iter()
            .map(|d| format!("{}={} of {}", word(&d["name"]), d["slices"], d["size"]))
            .collect();
        let _ = writeln!(
            out,
            "\n{} = {}: {}, {}, {} cores, {} bytes in, {} out",
            word(&step["name"]),
            word(&step["op"]),
            format_time(number(&step["time_us"])),
            word(&step["bound"]),
            step["cores"],
            step["bytes_in"],
            step["bytes_out"],
        );
        if !slices.is_empty() {
            let _ = writeln!(out, "  slices {} ({})", slices.join(", "), word(&step["decided_by"]));
        }
        if list.len() > 1 {
            out += &print_terms(&step["terms"], number(&step["time_us"]), "  ");
        }
    }
    out
}

/// A line for every term: what it counts, its share, what it would take alone.
fn print_terms(terms: &Value, total: f64, indent: &str) -> String {
    let mut out = String::new();
    for term in terms.as_array().map(Vec::as_slice).unwrap_or_default() {
        let (alone, counted) =
            (term["alone"].as_f64().unwrap_or(0.0), term["counted"].as_f64().unwrap_or(0.0));
        let share = if total > 0.0 { 100.0 * counted / total } else { 0.0 };
        let _ = writeln!(
            out,
            "{indent}  {:<12} {:>10}  {share:>5.1} %  alone {:>10}  {}",
            term["name"].as_str().unwrap_or(""),
            format_time(counted),
            format_time(alone),
            term["meaning"].as_str().unwrap_or(""),
        );
    }
    out
}

fn format_time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e4 => format!("{:.2} ms", us / 1e3),
        us if us >= 100.0 => format!("{us:.1} us"),
        us => format!("{us:.3} us"),
    }
}
