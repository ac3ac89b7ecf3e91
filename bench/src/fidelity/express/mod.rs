//! From a measured row to a graph: which graph every operation of the file stands for.
//!
//! A row that says too little, or that names something this compiler has no option for, becomes an [`ExcludedRow`] with
//! the reason: a guess would be counted as a prediction.

mod loops;
mod networks;
mod products;
mod streams;

use super::case::{
    CasePart, Category, ExcludedRow, Exclusion, MeasuredCase, MeasuredQuantity, MeasuredStack,
};
use super::row::MeasuredRow;
use loops::express_loops;
use networks::express_networks;
use products::express_products;
use streams::{express_pointwise, express_rates, express_rows_and_copies};

type Expressed = Result<MeasuredCase, ExcludedRow>;

/// Where torch-spyre's `DXP_LX_FRAC_AVAIL` is when nothing is set (upstream's configuration of September 2026).
const DEFAULT_LX_RESERVED: f64 = 0.2;

/// The software that a row was measured on.
pub fn find_stack(row: &MeasuredRow) -> MeasuredStack {
    let texts = [&row.conditions, &row.op, &row.kind];
    let names = ["sendnn", "older stack", "older whole-phase stack"];
    let sendnn = texts.iter().any(|t| names.iter().any(|n| t.contains(n)));
    if sendnn { MeasuredStack::Sendnn } else { MeasuredStack::TorchSpyre }
}

/// What a row becomes.
///
/// # Errors
/// The reason why it is left out.
pub fn express_row(row: &MeasuredRow) -> Expressed {
    refuse_other_quantities(row)?;
    let case = express_operation(row)?;
    // After the operation, so that only rows which could be predicted count as doubtful.
    refuse_doubtful(row)?;
    Ok(apply_conditions(row, case))
}

fn refuse(exclusion: Exclusion, reason: impl Into<String>) -> ExcludedRow {
    ExcludedRow::new(exclusion, reason)
}

fn unstated(reason: impl Into<String>) -> ExcludedRow {
    refuse(Exclusion::Unstated, reason)
}

pub(super) fn refuse_other_quantities(row: &MeasuredRow) -> Result<(), ExcludedRow> {
    let time = matches!(row.unit.as_str(), "us" | "ms" | "s");
    if !time && row.unit != "GB/s" {
        return Err(refuse(Exclusion::NotATime, format!("its unit is {}", row.unit)));
    }
    let kind = row.kind.as_str();
    if kind.starts_with("host compile") {
        return Err(refuse(Exclusion::NotATime, "a time of the compiler, which runs on the host"));
    }
    if kind.starts_with("model prediction") || kind.starts_with("fit input") {
        return Err(refuse(Exclusion::NotATime, "the figure of a model, not of a card"));
    }
    if kind.contains("replicated reads") {
        return Err(refuse(Exclusion::NotATime, "a rate of one core, derived from other figures"));
    }
    if row.value <= 0.0 {
        return Err(refuse(Exclusion::Doubtful, "its value is 0"));
    }
    let others = [
        ("wall", "a time by the clock of the host"),
        ("per call", "a time of a call, host included or not is not stated"),
        ("not stated", "whether it is a time of kernels is not stated"),
        ("host", "a time of the host"),
        ("cpu", "a time of the host"),
        ("Self CPU", "a time of the host"),
        ("memory transfer", "a transfer to or from the host"),
        ("device activity", "what the card does beside kernels"),
        ("device total", "kernels and transfers together"),
        ("first-to-last", "a span that includes idle times"),
        ("outside kernels", "what the card does beside kernels"),
        ("difference of", "a difference of times of loops that are not stated"),
    ];
    if let Some((_, reason)) = others.iter().find(|(word, _)| kind.contains(word)) {
        return Err(refuse(Exclusion::NotOfKernels, *reason));
    }
    Ok(())
}

pub(super) fn refuse_doubtful(row: &MeasuredRow) -> Result<(), ExcludedRow> {
    let stated = ["do not use", "do not fit", "not bit exact"].iter().any(|w| row.note.contains(w));
    if row.suspicious || stated {
        let reason = match row.note.is_empty() {
            true => "marked as suspicious by its collector".to_string(),
            false => row.note.clone(),
        };
        return Err(refuse(Exclusion::Doubtful, reason));
    }
    Ok(())
}

/// Cores, scratchpads and the part of them that is left to the backend.
fn apply_conditions(row: &MeasuredRow, mut case: MeasuredCase) -> MeasuredCase {
    let words = &row.conditions;
    // The division may use fewer cores than the compiler was given, never more.
    let forced = case.split.map(|s| s.b * s.m * s.n * s.k).unwrap_or(1);
    let cores = row.cores.unwrap_or(32).max(forced).min(32);
    case.cores = usize::try_from(cores).unwrap_or(32);
    let off = ["scratchpad planning off", "LX_PLANNING=0", "LX planning off", "LX off", "no LX"];
    case.lx = row.lx_planning.unwrap_or(!off.iter().any(|w| words.contains(w)));
    for word in ["LX_FRAC_AVAIL=", "LX_FRAC_AVAIL about ", "LX frac "] {
        if let Some((_, rest)) = words.split_once(word) {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let part = rest[..end].trim_end_matches('.').parse().ok();
            case.lx_reserved = part.filter(|p| (0.0..=1.0).contains(p)).unwrap_or(case.lx_reserved);
        }
    }
    case.copies = words.starts_with("LX relayout over the ring");
    if words.contains("one bundle, intermediates in memory") {
        case.lx = false;
    }
    case
}

fn build_case(category: Category, graph: String) -> MeasuredCase {
    build_sum(category, vec![CasePart { graph, times: 1 }])
}

fn build_sum(category: Category, parts: Vec<CasePart>) -> MeasuredCase {
    MeasuredCase {
        category,
        parts,
        cores: 32,
        lx: true,
        lx_reserved: DEFAULT_LX_RESERVED,
        copies: false,
        quantity: MeasuredQuantity::Time,
        shape: String::new(),
        split: None,
    }
}

fn express_operation(row: &MeasuredRow) -> Expressed {
    if let Some(found) = express_pointwise(row).or_else(|| express_rows_and_copies(row)) {
        return found;
    }
    if let Some(found) = express_products(row).or_else(|| express_loops(row)) {
        return found;
    }
    if let Some(found) = express_networks(row).or_else(|| express_rates(row)) {
        return found;
    }
    Err(match row.op.as_str() {
        op if op.contains("relayout") => {
            unstated("which of its tensors are copied between scratchpads is not stated")
        }
        op => unstated(format!("what `{op}` runs is not described in enough detail")),
    })
}
