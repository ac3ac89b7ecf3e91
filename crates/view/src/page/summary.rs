//! The summary, and the shares of the time.

use super::units::{format_bytes, format_digits, format_flops, format_percent, format_time};
use crate::svg::escape_xml;
use std::fmt::Write;
use zellige_report::{Report, ReportedStep, StepKind};

pub(super) fn render_summary(report: &Report) -> String {
    let s = &report.summary;
    let mut out = String::from("<div class=\"cards\">");
    let mut card = |title: &str, value: &str, note: &str, class: &str| {
        let (title, value, note) = (escape_xml(title), escape_xml(value), escape_xml(note));
        let _ = write!(
            out,
            "<div class=\"card {class}\"><h3>{title}</h3><b>{value}</b><p>{note}</p></div>"
        );
    };
    let load = if s.load_us > 0.0 {
        format!("{} once, when weights are loaded", format_time(s.load_us))
    } else {
        "nothing to do when weights are loaded".into()
    };
    let load = if s.launch_us > 0.0 {
        format!(
            "{} of it for {} launches by the host; {load}",
            format_time(s.launch_us),
            s.launches
        )
    } else {
        load
    };
    card("Latency of a run", &format_time(s.latency_us), &load, "main");
    if let Some(c) = &report.comparison {
        let value = format!("{}×", format_digits(c.speedup));
        let note = format!("{} under the {} policy", format_time(c.latency_us), c.policy);
        // A program that is slower than the baseline is a mistake of the compiler, so it is marked.
        card("Speedup", &value, &note, if c.speedup >= 1.0 { "good" } else { "bad" });
    }
    let share = if s.latency_us > 0.0 { s.move_us / s.latency_us } else { 0.0 };
    let mut moved = format!("{}, {} of the run", format_time(s.move_us), format_percent(share));
    if let Some(c) = &report.comparison {
        let _ = write!(moved, "; {}: {} in {} moves", c.policy, format_time(c.move_us), c.moves);
    }
    if s.load_moves > 0 {
        let _ = write!(moved, "; {} more at loading", s.load_moves);
    }
    card("Inserted moves", &s.moves.to_string(), &moved, if s.moves == 0 { "good" } else { "" });
    let certificate = if report.certificate.least_sum {
        "least sum of costs".into()
    } else {
        report
            .certificate
            .gap
            .map_or("no proof".into(), |g| format!("≤ {} above", format_percent(g)))
    };
    let class = if report.certificate.least_sum { "good" } else { "" };
    card("Layouts", &certificate, &report.certificate.text, class);
    let padding = format!(
        "{} of it padding; {} of moves",
        format_percent(s.padding),
        format_bytes(s.move_bytes)
    );
    card("Memory traffic", &format_bytes(s.bytes), &padding, "");
    let rate = if s.latency_us > 0.0 { s.flops as f64 / s.latency_us / 1e6 } else { 0.0 };
    let peak =
        if report.machine.peak_tflops > 0.0 { rate / report.machine.peak_tflops } else { 0.0 };
    let reached = format!("{} TFLOP/s, {} of the peak", format_digits(rate), format_percent(peak));
    card("Arithmetic", &format_flops(s.flops), &reached, "");
    let cores = format!(
        "{} busy on average, balance {}",
        format_percent(s.utilisation),
        format_percent(s.balance)
    );
    card("Cores", &format!("{} of {}", s.cores, report.machine.cores), &cores, "");
    let lx = format!("{} buffers, {} operands read there", s.lx_buffers, s.lx_hits);
    card("Kept in scratchpads", &format_bytes(s.lx_saved_bytes), &lx, "");
    let memory = format!(
        "beside {} of weights and {} of inputs",
        format_bytes(s.weight_bytes),
        format_bytes(s.input_bytes)
    );
    card("Memory pool", &format_bytes(s.pool_peak), &memory, "");
    if s.host_us > 0.0 {
        let share = format!("{} of the run", format_percent(s.host_us / s.latency_us));
        card("Host round trips", &format_time(s.host_us), &share, "bad");
    }
    out.push_str("</div>");
    out.push_str(&stacked_bar("Time by operation", &time_by_operation(report)));
    let units = report.units.iter().map(|u| (u.name.clone(), "unit", u.us, u.steps));
    out.push_str(&stacked_bar("Time by what bounds it", &units.collect::<Vec<_>>()));
    out
}

/// Name, class in the style sheet, time and number of steps of a part of a bar.
type TimeShare = (String, &'static str, f64, usize);

/// The time of every operation, the longest first.
fn time_by_operation(report: &Report) -> Vec<TimeShare> {
    let mut list: Vec<TimeShare> = Vec::new();
    for s in report.steps.iter().filter(|s| !s.load) {
        let name = operation_name(s);
        match list.iter_mut().find(|l| l.0 == name) {
            Some(l) => {
                l.2 += s.us;
                l.3 += 1;
            }
            None => list.push((name, s.family.name(), s.us, 1)),
        }
    }
    list.sort_by(|a, b| b.2.total_cmp(&a.2));
    list
}

fn operation_name(s: &ReportedStep) -> String {
    if s.kind == StepKind::Move { "inserted moves".into() } else { s.op.clone() }
}

/// One bar cut into shares, and the shares in words.
fn stacked_bar(title: &str, list: &[TimeShare]) -> String {
    const MAX_NAMED_SHARES: usize = 12;
    let total: f64 = list.iter().map(|l| l.2).sum();
    if total <= 0.0 {
        return String::new();
    }
    let mut out = format!("<h3>{title}</h3><div class=\"bar\">");
    for (i, (name, family, us, steps)) in list.iter().enumerate() {
        let share = us / total;
        // Below some seven percent of the width a word does not fit; the legend has it.
        let text = if share > 0.07 { escape_xml(name) } else { String::new() };
        let _ = write!(
            out,
            "<span class=\"{} t{}\" style=\"flex-grow:{share:.5}\" title=\"{}: {}, {}, {steps} steps\">{text}</span>",
            family,
            i % 4,
            escape_xml(name),
            format_time(*us),
            format_percent(share)
        );
    }
    out.push_str("</div><p class=\"legend\">");
    for (name, family, us, steps) in list.iter().take(MAX_NAMED_SHARES) {
        let _ = write!(
            out,
            "<span><i class=\"key {}\"></i>{} {} <em>{}, {steps} step{}</em></span>",
            family,
            escape_xml(name),
            format_time(*us),
            format_percent(us / total),
            if *steps == 1 { "" } else { "s" }
        );
    }
    if list.len() > MAX_NAMED_SHARES {
        let rest: f64 = list.iter().skip(MAX_NAMED_SHARES).map(|l| l.2).sum();
        let _ = write!(
            out,
            "<span>and {} more, {}</span>",
            list.len() - MAX_NAMED_SHARES,
            format_time(rest)
        );
    }
    out.push_str("</p>");
    out
}
