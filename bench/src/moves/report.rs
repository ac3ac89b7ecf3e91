//! The Markdown tables.

use super::{
    BusyRow, CaseError, MAX_BUSY_RATIO, MAX_PEER_RATIO, MeasureOptions, MoveCase, MoveOverhead,
    MoveRow, PEERS, PeerAnswer, PeerAnswers, PeerOutcome,
};
use serde_json::Value;
use std::fmt::Write;

/// The warning of a debug build, printed before any figure.
pub const DEBUG_WARNING: &str =
    "A debug build: its figures mean nothing. Measure with `cargo run --release`.";

/// The head of the table of cases.
pub fn case_header(options: MeasureOptions, peers: bool) -> String {
    let names = ["case", "goal", "set", "one thread", "GB/s"];
    let mut columns: Vec<String> = names.map(String::from).to_vec();
    match options.threads {
        0 | 1 => columns.push("best copy GB/s".into()),
        n => {
            let threads = if n == 2 { "two threads".into() } else { format!("{n} threads") };
            columns.push(threads.clone());
            columns.push(format!("best copy GB/s, one / {threads}"));
        }
    }
    if peers {
        columns.push("our time / best peer's".into());
        columns.extend(PEERS.iter().map(ToString::to_string));
    }
    let rule = "---:|".repeat(columns.len() - 1);
    format!("| {} |\n|---|{rule}", columns.join(" | "))
}

/// One line of the table of cases.
pub fn case_line(row: &MoveRow) -> String {
    let f = &row.figures;
    let mut cells = vec![
        row.name.clone(),
        row.goal.map_or(String::new(), |goal| format!("{goal:.2}")),
        row.isa.name().into(),
        format!("{:.2}", f.ratio_to_copy()),
        format!("{:.1}", f.gigabytes_per_second(f.one)),
    ];
    match f.many {
        None => cells.push(format!("{:.1}", f.gigabytes_per_second(f.copy_one))),
        Some((seconds, copy)) => {
            cells.push(format!("{:.2}", copy / seconds));
            cells.push(format!(
                "{:.1} / {:.1}",
                f.gigabytes_per_second(f.copy_one),
                f.gigabytes_per_second(copy)
            ));
        }
    }
    if let Some(answers) = &row.answers {
        let beside = [row.beside_best(), row.beside_best_of_many()];
        let beside: Vec<String> = beside.iter().flatten().map(|x| format!("{x:.2}")).collect();
        cells.push(if beside.is_empty() { "-".into() } else { beside.join(" / ") });
        cells.extend((0..PEERS.len()).map(|i| peer_cell(answers, i)));
    }
    format!("| {} |", cells.join(" | "))
}

/// What one peer did, as a part of the plain copy on as many threads: one thread / several, or why not.
fn peer_cell(answers: &PeerAnswers, peer: usize) -> String {
    let part = |answer: &PeerAnswer| match (&answer.peers[peer], answer.copy) {
        (PeerOutcome::Seconds(seconds), Some(copy)) => format!("{:.2}", copy / seconds),
        (PeerOutcome::Seconds(_), None) => "no copy".into(),
        (PeerOutcome::Not(why), _) => why.replace('|', "/"),
    };
    let (one, many) = (part(&answers.one), answers.many.as_ref().map(part));
    match many {
        Some(many) if many != one => format!("{one} / {many}"),
        _ => one,
    }
}

/// What stands below a table with peers: what was measured, and what was not.
pub fn peer_notes(versions: &Value) -> String {
    let versions = versions.as_object().into_iter().flatten();
    let installed: Vec<String> = versions
        .map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("unknown")))
        .collect();
    format!(
        "\nPeers: {}. A process each for one thread and for several; numpy always has one. A peer's \
         part is of the best plain copy in its own process, one thread / several.\n\
         `-`: the peer has no such move (torch: negative strides; torch.compile and JAX: moves that \
         are no pad, reshape and transpose; oneDNN, through torch: other than swaps of two \
         dimensions).\n\
         HPTT is not measured: PyPI has no usable package of it. ndarray is not measured.\n",
        installed.join(", ")
    )
}

/// The table of what a move costs before its first byte.
pub fn overhead_table(lines: &[MoveOverhead]) -> String {
    let mut out = String::from("\n| overhead | goal | median |\n|---|---:|---:|\n");
    for line in lines {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            line.name,
            format_time(line.goal),
            format_time(line.median)
        );
    }
    out
}

/// A time in nanoseconds, for readers.
pub fn format_time(ns: f64) -> String {
    match ns {
        ns if ns < 999.5 => format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => format!("{:.1} us", ns / 1e3).replace(".0 ", " "),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

/// The head of the table of random pairs.
pub fn random_header() -> String {
    "| pair | of a copy | GB/s | ms | numpy ms | torch ms | times the best |\n\
     |---|---:|---:|---:|---:|---:|---:|"
        .into()
}

/// One line of the table of random pairs.
pub fn random_line(row: &MoveRow) -> String {
    let f = &row.figures;
    let peer = |i: usize| match row.answers.as_ref().map(|a| &a.one.peers[i]) {
        None => String::new(),
        Some(PeerOutcome::Seconds(s)) => format!("{:.3}", s * 1e3),
        Some(PeerOutcome::Not(why)) => why.replace('|', "/"),
    };
    format!(
        "| {} | {:.2} | {:.1} | {:.3} | {} | {} | {} |",
        row.name,
        f.ratio_to_copy(),
        f.gigabytes_per_second(f.one),
        f.one * 1e3,
        peer(0),
        peer(1),
        row.beside_best().map_or(String::new(), |x| format!("{x:.2}"))
    )
}

/// The line of a random pair that is not moved.
pub fn random_refused(case: &MoveCase, why: &CaseError) -> String {
    format!("| {} | not moved: {} | | | | | |", case.name, why.to_string().replace('|', "/"))
}

/// The head of the table of moves beside busy neighbours.
pub fn busy_header(neighbours: usize, threads: usize) -> String {
    beside_header(&format!("Busy processes beside it: {neighbours}"), threads)
}

/// The head of the table of moves beside something else that runs.
pub fn beside_header(what: &str, threads: usize) -> String {
    format!(
        "{what}. At most {threads} threads. Ratios of the time on several threads to that \
         on one: at most {MAX_BUSY_RATIO}.\n\n\
         | case | calls | one thread, median ms | 90 % ms | several, median ms | 90 % ms | ratio, median | 90 % | mean |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
}

/// One line of that table.
pub fn busy_line(row: &BusyRow) -> String {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let [median, most, mean] = row.thread_ratios().map(|x| format!("{x:.2}"));
    format!(
        "| {} | {} | {} | {} | {} | {} | {median} | {most} | {mean} |",
        row.name,
        row.calls,
        ms(row.one.median),
        ms(row.one.most),
        ms(row.many.median),
        ms(row.many.most),
    )
}

/// How many pairs are slower than the best peer allows, and the plans of the worst.
pub fn random_summary(rows: &[MoveRow], refused: usize) -> String {
    let mut beside: Vec<(f64, &MoveRow)> =
        rows.iter().filter_map(|row| row.beside_best().map(|x| (x, row))).collect();
    let refused = match refused {
        0 => String::new(),
        n => format!("\n{n} of {} pairs are not moved.\n", rows.len() + n),
    };
    if beside.is_empty() {
        return refused;
    }
    beside.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slower = beside.iter().filter(|(x, _)| *x > MAX_PEER_RATIO).count();
    let middle = beside[beside.len() / 2].0;
    let mut out = format!(
        "{refused}\n{slower} of {} pairs take more than {MAX_PEER_RATIO} times as long as the best of numpy and \
         torch; the middle pair takes {middle:.2}.\n",
        beside.len()
    );
    for (x, row) in beside.iter().filter(|(x, _)| *x > MAX_PEER_RATIO).take(10) {
        let _ = writeln!(out, "\n{x:.2} times: {}", row.name);
        if let Some(request) = &row.request {
            let _ = writeln!(out, "    --case '{request}'");
        }
        for line in row.plan.lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::MoveFigures;
    use super::*;

    fn example(one: f64, peers: Vec<PeerOutcome>) -> MoveRow {
        let figures = MoveFigures { bytes: 1_000_000, one, copy_one: 1e-4, many: None };
        let answers = Some(PeerAnswers { one: PeerAnswer { copy: Some(1e-4), peers }, many: None });
        let (name, plan, request) = ("a".into(), "for i".into(), None);
        let isa = zellige_float::Isa::BASELINE;
        MoveRow { name, isa, goal: Some(0.9), request, plan, figures, answers }
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_header_and_names_what_is_missing() {
        let mut peers = vec![PeerOutcome::Not("not installed".into()); PEERS.len()];
        peers[0] = PeerOutcome::Seconds(4e-4);
        let row = example(2e-4, peers);
        let options = MeasureOptions { rounds: 1, threads: 1, round_bytes: 1 };
        let cells = |line: &str| line.matches('|').count();
        let line = case_line(&row);
        assert_eq!(case_header(options, true).lines().map(cells).max(), Some(cells(&line)));
        assert!(
            line.starts_with("| a | 0.90 | baseline | 0.50 | 10.0 | 20.0 | 0.50 | 0.25 |"),
            "{line}"
        );
        assert!(line.contains("not installed"), "{line}");
    }

    #[test]
    fn pairs_slower_than_the_best_peer_are_counted_and_shown() {
        let rows = [2e-4, 4.1e-4, 8e-4].map(|one| {
            let mut peers = vec![PeerOutcome::Not("-".into()); PEERS.len()];
            peers[1] = PeerOutcome::Seconds(4e-4);
            example(one, peers)
        });
        let text = random_summary(&rows, 0);
        assert!(text.contains("1 of 3 pairs"), "{text}");
        assert!(text.contains("2.00 times: a\n    for i"), "{text}");
    }
}
