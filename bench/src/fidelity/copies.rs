//! Measured copies between scratchpads. They have no graph: what was measured is one copy of a tensor between two divisions,
//! whose time the account computes from the geometry of the copy.

use super::case::{Category, ExcludedRow, Exclusion, MeasuredCase, MeasuredQuantity};
use super::row::MeasuredRow;
use zellige_machine::account::{
    CoreWork, ExchangeCarrier, ExchangeSide, ExchangeWork, OperationWork, WorkKind,
};
use zellige_machine::{Hardware, SimulatedTime, TimeTerm};

/// Cores of the ring, where a row does not say how many: those of the card.
const CARD_CORES: i64 = 32;

/// What the rows of one pull request measured (torch-spyre PR 3844, August 2026), by the words of their operation: the bytes
/// of a run of the governing side and its split, on 8 cores. The fastest and the slowest of one size are given with their
/// times alone; the slowest geometry is that of the shortest run, a stick, and the largest split that was measured.
const SHUFFLE_GEOMETRIES: [(&str, u64, u64); 3] =
    [("slowest", 128, 8), ("fastest", 512, 2), ("copy", 256, 4)];

/// Cores of those rows.
const SHUFFLE_CORES: u64 = 8;

/// The copy that a row measured; none of a row that is no copy between scratchpads.
///
/// # Errors
/// The reason why a row of this family is left out.
pub(super) fn express_copy(row: &MeasuredRow) -> Option<Result<ExchangeWork, ExcludedRow>> {
    let op = row.op.as_str();
    let family =
        ["LX to LX ring move", "LX relayout (shuffle)", "neighbour shift", "all-to-all scatter"];
    if !family.iter().any(|name| op.contains(name)) {
        return None;
    }
    let leave_out = |exclusion, reason: &str| Some(Err(ExcludedRow::new(exclusion, reason)));
    if op.contains("fixed cost per execute") {
        // Extrapolated from two large copies. A copy of a twelfth of the bytes takes eleven times as long.
        return leave_out(
            Exclusion::NotATime,
            "where a line through two measured times meets no bytes: no copy was that fast",
        );
    }
    let bytes = match (op.contains("fixed cost per move"), parse_bytes(&row.shapes)) {
        (true, _) => 0,
        (false, Some(bytes)) => bytes,
        (false, None) => return leave_out(Exclusion::Unstated, "its bytes are not stated"),
    };
    let cores = u64::try_from(row.cores.unwrap_or(CARD_CORES)).unwrap_or(0).max(1);
    if op.contains("shuffle") {
        let known = SHUFFLE_GEOMETRIES.iter().find(|(word, ..)| op.contains(word));
        let Some((_, run_bytes, split)) = known else {
            return leave_out(Exclusion::Unstated, "how its cores cut the tensor is not stated");
        };
        let cores = row.cores.map_or(SHUFFLE_CORES, |_| cores);
        let source = ExchangeSide { cores, run_bytes: *run_bytes, split: *split };
        let destination = ExchangeSide { cores, run_bytes: bytes / cores, split: 1 };
        let carrier = ExchangeCarrier::Shuffle;
        return Some(Ok(ExchangeWork { carrier, bytes, source, destination, link_bytes: 0 }));
    }
    // To the next core, or from every core to every other one the shorter way round.
    let link_bytes = match op.contains("shift") {
        true => bytes / cores,
        false => (1..=cores / 2).sum::<u64>().saturating_mul(bytes / cores / cores),
    };
    let whole = ExchangeSide { cores, run_bytes: bytes / cores, split: cores };
    let carrier = ExchangeCarrier::Move;
    Some(Ok(ExchangeWork { carrier, bytes, source: whole, destination: whole, link_bytes }))
}

/// Bytes of a shape like `6553600 bytes`, `2.1 MB` or `12.6x fewer bytes, 6.758 MB`.
fn parse_bytes(shapes: &str) -> Option<u64> {
    let words: Vec<&str> = shapes.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    let mut bytes: Option<f64> = None;
    let mut fewer = 1.0;
    for pair in words.windows(2) {
        let (number, unit) = (pair[0], pair[1]);
        if let (Some(times), "fewer") = (number.strip_suffix('x'), unit) {
            fewer = times.parse().ok()?;
        }
        let Ok(number) = number.parse::<f64>() else { continue };
        match unit {
            "bytes" | "B" => bytes = Some(number),
            // As the published copies are named: 2.1 MB are 2 MiB.
            "MB" if (number - 2.1).abs() < 0.01 => bytes = Some(2.0 * f64::from(1 << 20)),
            "MB" => bytes = Some(number * 1e6),
            "MiB" => bytes = Some(number * f64::from(1 << 20)),
            _ => {}
        }
    }
    let bytes = bytes? / fewer;
    if !(1.0..1e12).contains(&bytes) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between one and a trillion"
    )]
    let whole = bytes as u64;
    Some(whole)
}

/// What the account says of a copy.
pub(super) fn time_copy(hardware: &Hardware, work: ExchangeWork) -> (SimulatedTime, Vec<TimeTerm>) {
    let each = CoreWork { ring_in: work.bytes.max(1), ..CoreWork::default() };
    let cores = work.source.cores.max(work.destination.cores);
    let cores = usize::try_from(cores).unwrap_or(1).min(hardware.core_count());
    let kind = WorkKind::Exchange(work);
    let latency =
        hardware.operation_latency(&OperationWork::uniform_cores("copy", kind, cores, each));
    let terms = hardware.list_time_terms(&latency);
    (latency.time, terms)
}

/// The case of a copy: it has no graph.
pub(super) fn copy_case(row: &MeasuredRow, work: &ExchangeWork) -> MeasuredCase {
    MeasuredCase {
        category: Category::OnChipCopy,
        parts: Vec::new(),
        cores: usize::try_from(work.source.cores).unwrap_or(1),
        lx: true,
        lx_reserved: 0.0,
        copies: true,
        quantity: match row.unit.as_str() {
            "GB/s" => MeasuredQuantity::RateOfBytes(work.bytes),
            _ => MeasuredQuantity::Time,
        },
        shape: String::new(),
        split: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_sources_write_them() {
        let read = |text| parse_bytes(text);
        assert_eq!(read("6553600 bytes"), Some(6_553_600));
        assert_eq!(read("2.1 MB"), Some(2 << 20));
        assert_eq!(read("about 800-stick bursts, same bytes, 6.758 MB"), Some(6_758_000));
        assert_eq!(read("12.6x fewer bytes, 6.758 MB"), Some(536_349));
        assert_eq!(read("two-size fit"), None);
        assert_eq!(read("inf bytes"), None);
    }
}
