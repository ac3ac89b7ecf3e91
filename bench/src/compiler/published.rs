//! Every published figure of the card beside what the model predicts: the table of `docs/compiler-results.md`.
//!
//! Most figures were put into the preset, so that their prediction only shows that the account reproduces
//! them; a column marks these. The model is judged by the figures that were not put in.

use super::compile_baseline;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;
use zellige_machine::account::{CoreWork, MemoryTraffic, OperationWork, WorkKind};
use zellige_machine::{Hardware, Key};
use zellige_report::Report;

/// A published figure and its prediction.
#[derive(Debug, Clone)]
pub struct PublishedFigure {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// As published.
    pub published: f64,
    /// As predicted.
    pub predicted: f64,
    /// The figures of the preset that come from it, or from which it follows; none where it was not put in.
    pub put_in: Option<&'static str>,
}

impl PublishedFigure {
    /// How far the prediction is off, as a share of the figure.
    pub fn relative_error(&self) -> f64 {
        self.predicted / self.published - 1.0
    }
}

/// The stack whose times of a model are published: that of May 2026.
pub const PUBLISHED_STACK: &str = "card-2026-05";

/// All of them, for the preset of that stack; `examples` is the folder with the graphs of Granite.
///
/// # Errors
/// Graphs that cannot be read or compiled.
pub fn published_figures(examples: &Path) -> Result<Vec<PublishedFigure>> {
    let card = Hardware::built_in_preset(PUBLISHED_STACK)?;
    let mut list = kernel_rates(&card);
    let number = |key| card.figure_number(key).to_f64();
    let prefill = compile_baseline(&examples.join("granite-8b-prefill.graph"), PUBLISHED_STACK)
        .context("prefill")?;
    let decode = compile_baseline(&examples.join("granite-8b-decode.graph"), PUBLISHED_STACK)
        .context("decode")?;
    let ms = |r: &Report| r.summary.latency_us / 1e3;
    let (first, next) = (number(Key::FirstToken), number(Key::NextToken));
    let fitted = Some("host.launch, fitted to both tokens");
    let mut add = |what: &str, published, predicted, put_in| {
        list.push(PublishedFigure { what: what.into(), unit: "ms", published, predicted, put_in });
    };
    add("Granite-3.3-8B, first token after a prompt of 128", first, ms(&prefill), fitted);
    add("Granite-3.3-8B, each further token", next, ms(&decode), fitted);
    add("the first token less a further one", first - next, ms(&prefill) - ms(&decode), None);
    let floor = decode.summary.weight_bytes as f64 / number(Key::MemoryPeak) / 1e6;
    add("a token at the peak of the memory", number(Key::TokenFloor), floor, None);
    Ok(list)
}

/// Bursts of a core: so many that rounding to cycles does not show.
const BURSTS: u64 = 1 << 14;

/// Rates that single kernels reach.
fn kernel_rates(card: &Hardware) -> Vec<PublishedFigure> {
    let cores = card.core_count();
    let traffic = |reads: u64, writes: u64| CoreWork {
        reads: MemoryTraffic::from_bursts(4096, reads),
        writes: MemoryTraffic::from_bursts(4096, writes),
        ..CoreWork::default()
    };
    let gb_s = |kind, cores, each: &CoreWork| {
        let work = OperationWork::uniform_cores("x", kind, cores, each.clone());
        let totals = work.sum_over_cores();
        (totals.bytes_in + totals.bytes_out) as f64
            / card.operation_latency(&work).time.nanoseconds()
    };
    let macs = |kind| {
        let each = CoreWork { macs: 1 << 30, ..CoreWork::default() };
        let work = OperationWork::uniform_cores("x", kind, cores, each);
        f64::from(1 << 30) / card.operation_latency(&work).time.nanoseconds()
    };
    let one_way = traffic(BURSTS, 0);
    let both = traffic(BURSTS, BURSTS);
    let (plain, batch) = (macs(WorkKind::Matmul), macs(WorkKind::BatchMatmulDefault { batch: 8 }));
    let rows = |cores| gb_s(WorkKind::RowReduction, cores, &one_way);
    let mut list = Vec::new();
    let mut add = |what: &str, unit, published, predicted, put_in| {
        list.push(PublishedFigure { what: what.into(), unit, published, predicted, put_in });
    };
    add("peak of all cores", "TFLOP/s", 98.304, card.peak_tflops(), Some("cores.clock, pt.flops"));
    add(
        "reading alone",
        "GB/s",
        150.0,
        gb_s(WorkKind::Other, cores, &one_way),
        Some("memory.one_way"),
    );
    let balanced = gb_s(WorkKind::Pointwise, cores, &both);
    add("reading as much as writing", "GB/s", 105.0, balanced, Some("memory.balanced"));
    let restickify = gb_s(WorkKind::Restickify, cores, &both);
    add("restickify", "GB/s", 116.0, restickify, Some("memory.restickify"));
    let across = gb_s(WorkKind::CrossRowReduction, cores, &one_way);
    add("reduction across rows", "GB/s", 113.0, across, Some("memory.cross_row"));
    for (n, share) in [(1, 0.11), (2, 0.22), (4, 0.43), (8, 0.54), (16, 0.54)] {
        let what = format!("reduction within rows, {n} of 32 cores");
        let put_in = Some("reduction.derate");
        add(&what, "of all cores", share, rows(n) / rows(cores), put_in);
    }
    add("product", "MAC/ns/core", 1140.0, plain, Some("pt.matmul"));
    add("batch of products, default layout", "MAC/ns/core", 160.0, batch, Some("pt.batch_matmul"));
    add("the same, slower than batches outermost", "times", 8.3, plain / batch, None);
    list
}

/// The figures as Markdown.
pub fn published_table(list: &[PublishedFigure]) -> String {
    let mut out = String::from(
        "| figure | published | predicted | off | put into the preset |\n|---|---:|---:|---:|---|\n",
    );
    for f in list {
        let digits = |x: f64| match x {
            x if x >= 200.0 => format!("{x:.0}"),
            x if x >= 5.0 => format!("{x:.1}"),
            x => format!("{x:.2}"),
        };
        let off = |percent: f64| match percent {
            p if p.abs() < 0.05 => "0".into(),
            p => format!("{p:+.1}%"),
        };
        let _ = writeln!(
            out,
            "| {} | {} {} | {} {} | {} | {} |",
            f.what,
            digits(f.published),
            f.unit,
            digits(f.predicted),
            f.unit,
            off(100.0 * f.relative_error()),
            f.put_in.unwrap_or("no"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_within_15_percent_and_as_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let list = published_figures(&root.join("examples")).expect("the graphs compile");
        for f in &list {
            let most =
                if f.put_in.is_some_and(|p| !p.starts_with("host.launch")) { 0.01 } else { 0.15 };
            assert!(f.relative_error().abs() < most, "{f:?}");
        }
        let table = published_table(&list);
        let docs = std::fs::read_to_string(root.join("docs/compiler-results.md")).expect("docs");
        for row in table.lines() {
            assert!(docs.contains(row), "docs/compiler-results.md has not:\n{table}");
        }
    }
}
