//! A comparison as text for a terminal, as JSON, and as the page `docs/fidelity.md`.

use super::FidelityComparison;
use super::case::{Category, ExcludedRow, Exclusion, MeasuredStack};
use super::evaluate::{PredictedKernel, PredictedRow};
use super::statistics::{
    CategoryFigures, ErrorFigures, PREFERRED_SHARE, compute_errors, figures_by_category,
    preferred_divisions,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Whether a row belongs to a group.
type RowTest<'a> = &'a dyn Fn(&PredictedRow) -> bool;

const HEADER: [&str; 7] = ["", "rows", "RMS of log", "bias", "within 15 %", "rank", "preferred"];

/// The tables for a terminal: figures, the worst rows of every category, shapes whose preferred division is not the
/// best, and what is left out. With `all`, every row.
pub fn fidelity_text(comparison: &FidelityComparison, all: bool) -> String {
    let figures = figures_by_category(&comparison.rows);
    let mut out = format!("{}\n\n", summary_line(comparison));
    out += &aligned_table(&figure_lines(comparison, &figures));
    for group in &figures {
        let _ = writeln!(out, "\nworst of {}, {}", group.category.name(), group.stack.name());
        out += &aligned_table(&row_lines(comparison, &group.worst));
    }
    let missed = choice_lines(comparison, true);
    if missed.len() > 1 {
        out += "\nshapes whose preferred division takes more than 5 % longer than the best measured one\n";
        out += &aligned_table(&missed);
    }
    if all {
        out += "\nall rows\n";
        out +=
            &aligned_table(&row_lines(comparison, &(0..comparison.rows.len()).collect::<Vec<_>>()));
    }
    out += "\nleft out\n";
    out += &aligned_table(&exclusion_lines(comparison));
    out
}

/// One sentence on how many rows are predicted.
fn summary_line(comparison: &FidelityComparison) -> String {
    let (times, unexpressed) = comparison.count_unexpressed();
    let count = comparison.rows.len() + comparison.excluded.len();
    let doubtful =
        comparison.excluded.iter().filter(|(_, _, e)| e.exclusion == Exclusion::Doubtful).count();
    let mut text = format!(
        "{count} rows, of which {} are no time of the card. Of the other {times}, {} are predicted with the preset \
         {}, {doubtful} are doubtful, and {unexpressed} ({}) are not expressed.",
        count - times,
        comparison.rows.len(),
        comparison.hardware,
        format_percent(unexpressed as f64 / times.max(1) as f64)
    );
    if !comparison.unread_fields.is_empty() {
        let names: Vec<&str> = comparison.unread_fields.iter().map(String::as_str).collect();
        let _ = write!(text, " Fields that nothing reads: {}.", names.join(", "));
    }
    text
}

fn format_percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn format_figure(x: f64) -> String {
    match x.abs() {
        a if a >= 999.5 => format!("{x:.0}"),
        a if a >= 99.95 => format!("{x:.1}"),
        a if a >= 9.995 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

fn figure_cells(name: String, f: &ErrorFigures) -> Vec<String> {
    let rank = f.rank.map_or("-".into(), |(r, shapes)| format!("{r:.2} of {shapes}"));
    let preferred = match f.preferred {
        (_, 0) => "-".into(),
        (kept, all) => format!("{kept} of {all}"),
    };
    let bias = format!("{:+.1} %", 100.0 * f.bias);
    vec![
        name,
        f.count.to_string(),
        format!("{:.3}", f.rms_log),
        bias,
        format_percent(f.close),
        rank,
        preferred,
    ]
}

fn figure_lines(comparison: &FidelityComparison, figures: &[CategoryFigures]) -> Vec<Vec<String>> {
    let mut lines = vec![HEADER.iter().map(|h| (*h).to_string()).collect()];
    let stacks = [MeasuredStack::TorchSpyre, MeasuredStack::Sendnn];
    for stack in stacks {
        for group in figures.iter().filter(|g| g.stack == stack) {
            let name = format!("{}, {}", stack.name(), group.category.name());
            lines.push(figure_cells(name, &group.figures));
        }
        let product = |r: &PredictedRow| {
            matches!(r.case.category, Category::Matmul | Category::Bmm | Category::SharedWeight)
        };
        // The compiler of the card chose the other divisions, and no row says what it chose.
        let groups: [(&str, RowTest<'_>); 3] = [
            ("products, forced division", &|r| product(r) && r.split().is_some()),
            ("products, division not recorded", &|r| product(r) && r.split().is_none()),
            ("all", &|_| true),
        ];
        for (name, belongs) in groups {
            let of_group = |i: &usize| {
                let row = &comparison.rows[*i];
                row.stack == stack && belongs(row)
            };
            let places: Vec<usize> = (0..comparison.rows.len()).filter(of_group).collect();
            if !places.is_empty() {
                let name = format!("{}, {name}", stack.name());
                lines.push(figure_cells(name, &compute_errors(&comparison.rows, &places)));
            }
        }
    }
    lines
}

/// The figures of every category with each preset.
fn preset_lines(
    comparison: &FidelityComparison,
    others: &[FidelityComparison],
) -> Vec<Vec<String>> {
    let presets: Vec<&FidelityComparison> = std::iter::once(comparison).chain(others).collect();
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(presets.iter().map(|c| c.hardware.clone()));
    let figures: Vec<Vec<CategoryFigures>> =
        presets.iter().map(|c| figures_by_category(&c.rows)).collect();
    for group in &figures[0] {
        let mut line = vec![format!("{}, {}", group.stack.name(), group.category.name())];
        for of_preset in &figures {
            let same =
                |g: &&CategoryFigures| g.stack == group.stack && g.category == group.category;
            line.push(of_preset.iter().find(same).map_or("-".into(), |g| {
                format!("{:.3}, {}", g.figures.rms_log, format_percent(g.figures.close))
            }));
        }
        lines.push(line);
    }
    lines
}

fn row_lines(comparison: &FidelityComparison, places: &[usize]) -> Vec<Vec<String>> {
    let header = ["row", "measured", "predicted", "ratio", "bound", "what"];
    let mut lines = vec![header.iter().map(|h| (*h).to_string()).collect()];
    for row in places.iter().map(|i| &comparison.rows[*i]) {
        lines.push(vec![
            row.id.to_string(),
            format!("{} {}", format_figure(row.measured), row.unit()),
            format!("{} {}", format_figure(row.predicted), row.unit()),
            format!("{:.2}", row.time_ratio()),
            row.bound.to_string(),
            row.what.clone(),
        ]);
    }
    lines
}

/// The preferred division of every shape beside the best measured one; with `missed`, of shapes where it takes more than 5 %
/// longer.
fn choice_lines(comparison: &FidelityComparison, missed: bool) -> Vec<Vec<String>> {
    let header =
        ["preferred row", "measured", "best row", "measured", "longer", "divisions", "what"];
    let mut lines = vec![header.iter().map(|h| (*h).to_string()).collect()];
    for choice in preferred_divisions(&comparison.rows) {
        let (mine, best) = (&comparison.rows[choice.preferred], &comparison.rows[choice.best]);
        if missed && mine.measured <= best.measured * (1.0 + PREFERRED_SHARE) {
            continue;
        }
        lines.push(vec![
            format!("{}: {}", mine.id, split_text(mine)),
            format!("{} us", format_figure(mine.measured)),
            format!("{}: {}", best.id, split_text(best)),
            format!("{} us", format_figure(best.measured)),
            format!("{:.0} %", 100.0 * (mine.measured / best.measured - 1.0)),
            choice.divisions.to_string(),
            best.what.split(", ").next().unwrap_or_default().to_string(),
        ]);
    }
    lines
}

/// What the choices of the model cost in all.
fn choice_summary(comparison: &FidelityComparison) -> String {
    let rows = &comparison.rows;
    let ratios: Vec<f64> = preferred_divisions(rows)
        .iter()
        .map(|c| rows[c.preferred].measured / rows[c.best].measured)
        .collect();
    let count = ratios.len().max(1) as f64;
    let close = ratios.iter().filter(|r| **r <= 1.0 + PREFERRED_SHARE).count();
    format!(
        "Every shape that was measured in several divisions on one number of cores: the division with the least predicted \
         time, and the one with the least measured time. The first is within 5 % of the second for {close} of {} shapes, and \
         on the average takes {} longer.\n\n",
        ratios.len(),
        format_percent(ratios.iter().sum::<f64>() / count - 1.0)
    )
}

fn split_text(row: &PredictedRow) -> String {
    row.split().map_or(String::new(), |s| format!("b{} m{} n{} k{}", s.b, s.m, s.n, s.k))
}

/// Reasons with the numbers of their rows, by kind and then by how many there are.
fn grouped_exclusions(
    excluded: &[(i64, String, ExcludedRow)],
) -> Vec<(Exclusion, String, Vec<i64>)> {
    let mut groups: BTreeMap<(Exclusion, &str), Vec<i64>> = BTreeMap::new();
    for (id, _, why) in excluded {
        groups.entry((why.exclusion, why.reason.as_str())).or_default().push(*id);
    }
    let mut list: Vec<_> =
        groups.into_iter().map(|((e, reason), ids)| (e, reason.to_string(), ids)).collect();
    list.sort_by(|a, b| {
        (a.0, std::cmp::Reverse(a.2.len()), &a.1).cmp(&(b.0, std::cmp::Reverse(b.2.len()), &b.1))
    });
    list
}

fn exclusion_lines(comparison: &FidelityComparison) -> Vec<Vec<String>> {
    let header = ["kind", "rows", "reason", "which"];
    let mut lines = vec![header.iter().map(|h| (*h).to_string()).collect()];
    for (exclusion, reason, ids) in grouped_exclusions(&comparison.excluded) {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        lines.push(vec![exclusion.name().into(), ids.len().to_string(), reason, ids.join(" ")]);
    }
    lines
}

/// Columns side by side, the last one as it is.
fn aligned_table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            lines.iter().filter_map(|l| l.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(
                |(c, text)| {
                    if c + 1 == columns { text.clone() } else { format!("{text:<0$}", widths[c]) }
                },
            )
            .collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
    }
    out
}

fn markdown_table(lines: &[Vec<String>], numbers: std::ops::Range<usize>) -> String {
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().map(|t| t.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        if i == 0 {
            let rule = |c: usize| if numbers.contains(&c) { "---:" } else { "---" };
            let rules: Vec<&str> = (0..line.len()).map(rule).collect();
            let _ = writeln!(out, "|{}|", rules.join("|"));
        }
    }
    out
}

/// The page `docs/fidelity.md`; `others` are the same rows with other presets.
pub fn fidelity_markdown(comparison: &FidelityComparison, others: &[FidelityComparison]) -> String {
    let figures = figures_by_category(&comparison.rows);
    let mut out = format!(
        "# Predicted times beside measured ones\n\n\
         `zellige bench fidelity --write` wrote this page from `tests/data/spyre_measured.json`, figures of real cards that \
         their authors published, each with its source and date. `zellige bench fidelity FILE` compares another file of the \
         same format.\n\n{}\n\n\
         ![Predicted over measured kernel times, both axes logarithmic](pictures/fidelity.svg)\n\n",
        summary_line(comparison)
    );
    out += METHOD;
    out += "\n## Figures\n\n";
    out += &markdown_table(&figure_lines(comparison, &figures), 1..7);
    if !others.is_empty() {
        out += "\n## The same rows with other presets\n\nRMS of log, and rows within 15 %.\n\n";
        out += &markdown_table(&preset_lines(comparison, others), 1..2 + others.len());
    }
    out += "\n## Choices of the model beside the best measured division\n\n";
    out += &choice_summary(comparison);
    out += &markdown_table(&choice_lines(comparison, false), 4..6);
    out += "\n## The ten worst of every category\n\nA ratio is predicted over measured time.\n";
    for group in &figures {
        let _ = write!(out, "\n### {}, {}\n\n", group.category.name(), group.stack.name());
        out += &markdown_table(&row_lines(comparison, &group.worst), 1..4);
    }
    out += "\n## Rows that are left out\n\n";
    out += &markdown_table(&exclusion_lines(comparison), 1..2);
    out
}

const METHOD: &str = "## How a row is predicted\n\n\
A row becomes one graph, or several whose times add up. It is compiled with `policy: baseline`, which imitates torch-spyre's \
compiler, in the coverage `card`, with weights as they are given and results in the layouts in which they are computed; a \
division that the row forces is a hint of the graph, and layouts that it names are pins. Times are sums over kernels: launches \
are not part of them, as they are not part of the profiler's figure.\n\n\
- A loop of T tiles is T runs of its body. A loop over the summed dimension of a product adds each part to the result in \
device memory.\n\
- Chains whose parts were compiled separately are the sum of their parts.\n\
- A copy of a transposed tensor is one move, as on the card.\n\
- The result of a batch of products has the order that the kernel gives it, also where a row names another.\n\
- Rates of memory without a number of columns are taken at 4096 columns.\n\
- 8-bit products have scales of rows and columns; the activation is given in 8 bits, packed with a given scale, or packed \
with a scale from the largest of each row, as the row says.\n\
- A layer of Granite has its weights in the layout of products, sees 512 tokens or one beside a cache of 576; the model is 40 \
of them and the head.\n\
- A product whose division nobody recorded is divided as the planner of July and August 2026 does, by rules that its \
documentation states and that measured times confirm: plain products by all of them, batches by the penalties for small parts \
alone. Other operations are divided as `policy: baseline` does, which need not be what ran.\n\
- Softmax and the quantising of activations read a copy of their input in the scratchpads where the bytes that a row counts, or \
the sizes, say that the software of August read it once.\n\
- Rows that their collector or their source doubts are left out, and listed.\n\n\
RMS of log is the root of the mean square of the natural logarithm of predicted over measured time: 0.15 is about 15 %. The bias \
is the mean of the same logarithm, as a share. The rank is the mean of Spearman's correlation over shapes with three divisions or \
more. Preferred counts the shapes whose predicted best division takes at most 5 % longer than the best measured one. Figures of \
different software are never counted together. Constants of the account were found with many of these rows, so the figures do not say \
how well it predicts others: [the report of the fit](../bench/fidelity/report.md) has the same figures of rows whose shapes or sources were \
left out.\n";

/// The comparison as JSON.
pub fn fidelity_json(comparison: &FidelityComparison) -> Value {
    let figures = figures_by_category(&comparison.rows);
    let (times, unexpressed) = comparison.count_unexpressed();
    let ids = |places: &[usize]| places.iter().map(|i| comparison.rows[*i].id).collect::<Vec<_>>();
    let figure_json = |f: &ErrorFigures| {
        json!({
            "rows": f.count, "rms_log": f.rms_log, "bias": f.bias, "within_15_percent": f.close,
            "rank_correlation": f.rank.map(|r| r.0), "ranked_shapes": f.rank.map_or(0, |r| r.1),
            "preferred_close": f.preferred.0, "preferred_shapes": f.preferred.1,
        })
    };
    let categories = figures.iter().map(|group| {
        let mut value = figure_json(&group.figures);
        value["category"] = json!(group.category.name());
        value["stack"] = json!(group.stack.name());
        value["worst"] = json!(ids(&group.worst));
        value
    });
    let rows = comparison.rows.iter().map(|row| {
        let terms = row.terms.iter().map(|t| {
            json!({"name": t.name, "alone_us": t.alone.microseconds(), "counted_us": t.counted.microseconds()})
        });
        let kernels = row.kernels.iter().map(kernel_json);
        json!({
            "id": row.id, "source": row.source, "what": row.what, "category": row.case.category.name(), "stack": row.stack.name(),
            "unit": row.unit(), "measured": row.measured, "predicted": row.predicted,
            "ratio": row.time_ratio(), "bound": row.bound, "terms": terms.collect::<Vec<_>>(),
            "shape": row.case.shape, "forced": split_text(row), "kernels": kernels.collect::<Vec<_>>(),
        })
    });
    let choices = preferred_divisions(&comparison.rows).into_iter().map(|m| {
        let (mine, best) = (&comparison.rows[m.preferred], &comparison.rows[m.best]);
        json!({
            "preferred": mine.id, "preferred_us": mine.measured, "best": best.id, "best_us": best.measured,
            "divisions": m.divisions,
        })
    });
    let excluded = comparison.excluded.iter().map(|(id, what, why)| {
        json!({"id": id, "what": what, "kind": why.exclusion.name(), "reason": why.reason})
    });
    json!({
        "hardware": comparison.hardware, "times": times, "predicted": comparison.rows.len(), "not_expressed": unexpressed,
        "categories": categories.collect::<Vec<_>>(), "preferred_divisions": choices.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(), "excluded": excluded.collect::<Vec<_>>(),
        "unread_fields": comparison.unread_fields,
    })
}

/// A kernel with everything that the account derives its time from, which the scripts of `bench/fidelity` read.
fn kernel_json(kernel: &PredictedKernel) -> Value {
    let (t, core) = (&kernel.totals, &kernel.slowest);
    json!({
        "op": kernel.op, "runs": kernel.runs, "division": kernel.division, "us": kernel.time.microseconds(),
        "kind": kernel.kind, "cores": t.cores, "bytes_in": t.bytes_in, "bytes_out": t.bytes_out,
        "ring_in": t.ring_in, "core": core, "tile": core.tile,
    })
}
