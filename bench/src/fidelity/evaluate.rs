//! Predicts the figures of measured rows. Every graph of a row is compiled as torch-spyre's compiler would compile it,
//! and the times of its kernels are added up.

use super::case::{ExcludedRow, Exclusion, MeasuredCase, MeasuredQuantity, MeasuredStack};
use super::copies::{copy_case, express_copy, time_copy};
use super::express::{express_row, find_stack, refuse_doubtful, refuse_other_quantities};
use super::row::{MeasuredRow, ProductSplit};
use std::collections::HashMap;
use zellige_compile::report::{RunTime, StepTime, sum_run_time};
use zellige_compile::solve::memory::PlacementPolicy;
use zellige_compile::{
    CompiledProgram, CompilerOptions, OutputLayoutRule, ProgramStep, compile_graph,
};
use zellige_graph::text;
use zellige_machine::account::{CoreWork, ExchangeWork, WorkKind, WorkTotals};
use zellige_machine::{Hardware, SimulatedTime, TimeTerm};
use zellige_op::CoverageProfile;

/// A measured row and its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedRow {
    /// The number of the row.
    pub id: i64,
    /// Its operation and sizes.
    pub what: String,
    /// Where it was published.
    pub source: String,
    /// The software that it was measured on.
    pub stack: MeasuredStack,
    /// The graphs and settings that the prediction was computed from.
    pub case: MeasuredCase,
    /// The measured time in microseconds, or the rate in GB/s.
    pub measured: f64,
    /// The predicted time or rate, in the same unit.
    pub predicted: f64,
    /// The name of the largest term of the predicted time.
    pub bound: &'static str,
    /// The terms of the predicted time; each is the sum of that term over all graphs of the row.
    pub terms: Vec<TimeTerm>,
    /// The kernels of all graphs of the row, in the order in which they run.
    pub kernels: Vec<PredictedKernel>,
}

/// A kernel of a prediction: what the account computed its time from.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedKernel {
    /// The operation; `move` for a move.
    pub op: String,
    /// How often it runs, in all trips of its loop together.
    pub runs: u64,
    /// Its loops with their splits, as text.
    pub division: String,
    /// Its time in a single run.
    pub time: SimulatedTime,
    /// The kind that the account takes it for.
    pub kind: WorkKind,
    /// The work of all cores.
    pub totals: WorkTotals,
    /// The work of the core that finishes last.
    pub slowest: CoreWork,
}

impl PredictedRow {
    /// The logarithm of predicted over measured time. It is positive if the predicted time is too long or the predicted
    /// rate is too low.
    pub fn log_error(&self) -> f64 {
        let ratio = self.predicted / self.measured;
        match self.case.quantity {
            MeasuredQuantity::Time => ratio.ln(),
            MeasuredQuantity::RateOfBytes(_) => -ratio.ln(),
        }
    }

    /// Predicted over measured time.
    pub fn time_ratio(&self) -> f64 {
        self.log_error().exp()
    }

    /// The unit of the measured and of the predicted figure.
    pub fn unit(&self) -> &'static str {
        match self.case.quantity {
            MeasuredQuantity::Time => "us",
            MeasuredQuantity::RateOfBytes(_) => "GB/s",
        }
    }

    /// The work division, if the row forced one.
    pub fn split(&self) -> Option<ProductSplit> {
        self.case.split
    }
}

/// The predicted time of a graph: the sum over its kernels, and the terms that it consists of.
#[derive(Debug, Clone)]
struct GraphTime {
    kernels: SimulatedTime,
    terms: Vec<TimeTerm>,
    list: Vec<PredictedKernel>,
}

/// Predicts rows on one hardware. A graph that several rows have is compiled only once.
#[derive(Debug)]
pub struct RowPredictor {
    hardware: Hardware,
    known: HashMap<GraphKey, Result<GraphTime, String>>,
}

/// Everything that the predicted time of a graph on one hardware depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GraphKey {
    graph: String,
    cores: usize,
    lx: bool,
    /// The part of every scratchpad that plans leave to the backend. These are the bits of an `f64`, because `f64`
    /// implements neither `Eq` nor `Hash`.
    lx_reserved: u64,
    copies: bool,
}

impl RowPredictor {
    /// A predictor for a hardware.
    pub fn new(hardware: Hardware) -> RowPredictor {
        RowPredictor { hardware, known: HashMap::new() }
    }

    /// The hardware that predictions are made for.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The prediction of a row.
    ///
    /// # Errors
    /// The row is left out, with the reason.
    pub fn predict_row(&mut self, row: &MeasuredRow) -> Result<PredictedRow, ExcludedRow> {
        if let Some(copy) = express_copy(row) {
            return self.predict_copy(row, copy);
        }
        let case = express_row(row)?;
        let mut total = SimulatedTime::ZERO;
        let mut terms: Vec<TimeTerm> = Vec::new();
        let mut kernels: Vec<PredictedKernel> = Vec::new();
        for part in &case.parts {
            let time = self.predict_graph(&case, &part.graph)?;
            for _ in 0..part.times {
                total += time.kernels;
            }
            let repeated = |k: &PredictedKernel| PredictedKernel { runs: part.times, ..k.clone() };
            kernels.extend(time.list.iter().map(repeated));
            for term in &time.terms {
                let scale = |t: SimulatedTime| {
                    SimulatedTime::from_picoseconds(t.picoseconds().saturating_mul(part.times))
                };
                let (alone, counted) = (scale(term.alone), scale(term.counted));
                match terms.iter_mut().find(|t| t.name == term.name) {
                    Some(sum) => {
                        sum.alone += alone;
                        sum.counted += counted;
                    }
                    None => terms.push(TimeTerm { alone, counted, ..*term }),
                }
            }
        }
        if total == SimulatedTime::ZERO {
            let reason = "its graph compiles to no kernel: it computes nothing, or only prepares weights at loading";
            return Err(ExcludedRow::new(Exclusion::NotExpressible, reason));
        }
        Ok(compare_row(row, case, total, terms, kernels))
    }

    /// The prediction of a measured copy between scratchpads.
    fn predict_copy(
        &self,
        row: &MeasuredRow,
        copy: Result<ExchangeWork, ExcludedRow>,
    ) -> Result<PredictedRow, ExcludedRow> {
        refuse_other_quantities(row)?;
        let work = copy?;
        refuse_doubtful(row)?;
        let (total, terms) = time_copy(&self.hardware, work);
        // A copy is a part of another kernel, and has none of its own to list.
        Ok(compare_row(row, copy_case(row, &work), total, terms, Vec::new()))
    }

    fn predict_graph(
        &mut self,
        case: &MeasuredCase,
        graph: &str,
    ) -> Result<GraphTime, ExcludedRow> {
        let key = GraphKey {
            graph: graph.into(),
            cores: case.cores,
            lx: case.lx,
            lx_reserved: case.lx_reserved.to_bits(),
            copies: case.copies,
        };
        let hardware = &self.hardware;
        let known = self.known.entry(key).or_insert_with(|| time_graph(hardware, case, graph));
        known.clone().map_err(|reason| ExcludedRow::new(Exclusion::Refused, reason))
    }
}

/// A row beside the time that was computed for it.
fn compare_row(
    row: &MeasuredRow,
    case: MeasuredCase,
    total: SimulatedTime,
    terms: Vec<TimeTerm>,
    kernels: Vec<PredictedKernel>,
) -> PredictedRow {
    let (measured, predicted) = match case.quantity {
        MeasuredQuantity::Time => {
            let scale = match row.unit.as_str() {
                "s" => 1e6,
                "ms" => 1e3,
                _ => 1.0,
            };
            (row.value * scale, total.microseconds())
        }
        MeasuredQuantity::RateOfBytes(bytes) => (row.value, bytes as f64 / total.nanoseconds()),
    };
    let bound = terms.iter().max_by_key(|t| t.counted).map_or("nothing", |t| t.name);
    PredictedRow {
        id: row.id,
        what: describe_row(row),
        source: row.source.clone(),
        stack: find_stack(row),
        case,
        measured,
        predicted,
        bound,
        terms,
        kernels,
    }
}

/// Compiles a graph as torch-spyre's compiler does. It uses that compiler's layouts and work divisions where the row
/// forces none and decomposes composite operations. Weights stay in the layouts in which they are given, and results in
/// those in which they are computed.
fn time_graph(hardware: &Hardware, case: &MeasuredCase, graph: &str) -> Result<GraphTime, String> {
    let graph = text::parse(graph).map_err(|d| d.message.clone())?;
    let mut options = CompilerOptions::baseline().with_profile(CoverageProfile::Card);
    options.hardware = hardware.clone();
    options.cores = case.cores.min(hardware.core_count());
    options.scratchpads = case.lx.then_some(PlacementPolicy::FirstFit);
    options.lx_reserved = case.lx_reserved;
    options.copies = case.copies;
    options.outputs = OutputLayoutRule::AsComputed;
    let program = compile_graph(&graph, &options).map_err(|e| e.to_string())?;
    let time = sum_run_time(&program);
    // Measured figures are sums over kernels, so launches, which are between kernels, are not counted.
    let list = list_kernels(&program, &time);
    let terms = time.terms.into_iter().filter(|t| t.name != "launch").collect();
    Ok(GraphTime { kernels: time.kernels, terms, list })
}

/// The kernels of a program, each with the work of its slowest core as the account charges it: what several cores read
/// alike is divided among them.
fn list_kernels(program: &CompiledProgram, time: &RunTime) -> Vec<PredictedKernel> {
    let hardware = &program.options.hardware;
    let kernel = |(step, timed): (&ProgramStep, &StepTime)| {
        let work = hardware.share_ring_reads(&step.work);
        let slowest = step.latency.critical_core.and_then(|i| work.cores.get(i).cloned());
        let loops = timed.division.iter().map(|d| format!("{} {}/{}", d.name, d.size, d.split));
        PredictedKernel {
            op: timed.op.clone(),
            runs: 1,
            division: loops.collect::<Vec<_>>().join(", "),
            time: timed.time,
            kind: work.kind,
            totals: work.sum_over_cores(),
            slowest: slowest.unwrap_or_default(),
        }
    };
    program.run_steps().map(|(_, step)| step).zip(&time.steps).map(kernel).collect()
}

fn describe_row(row: &MeasuredRow) -> String {
    let mut text = format!("{} {}", row.op, row.shapes);
    for more in [&row.work_division, &row.layout] {
        let chosen = more.is_empty() || more.starts_with("compiler") || more.as_str() == "planner";
        if !chosen {
            text += ", ";
            text += more.trim();
        }
    }
    if let Some(cores) = row.cores.filter(|n| *n != 32) {
        text += &format!(", {cores} cores");
    }
    if row.dtype != "fp16" {
        text += &format!(", {}", row.dtype);
    }
    text
}
