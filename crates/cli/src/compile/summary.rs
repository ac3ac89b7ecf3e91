//! A report for a terminal: what was decided, what it costs, and where to look next.

use std::fmt::Write;
use zellige_compile::{BundleId, CompiledProgram, ProgramStep, StepId};
use zellige_report::{BundleWorker, LaunchUnitName, Report};

/// Operations and moves that are named.
const MAX_NAMED_OPERATIONS: usize = 8;

pub(crate) fn format_summary(r: &Report) -> String {
    let (s, m) = (&r.summary, &r.machine);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} on {}: {} cores, policy {}, coverage {}",
        r.graph, m.name, r.options.cores, r.options.policy, r.options.coverage
    );
    let mut row = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:12} {text}");
    };
    let load = if s.load_us > 0.0 {
        format!("; {} once, when weights are loaded", format_time(s.load_us))
    } else {
        String::new()
    };
    let launches = if s.launch_us > 0.0 {
        format!(
            ", {} of it {}",
            format_time(s.launch_us),
            count_things_as(s.launches, "launch", "launches")
        )
    } else {
        String::new()
    };
    row("latency", format!("{} a run{launches}{load}", format_time(s.latency_us)));
    if m.launch_unit == LaunchUnitName::Bundle {
        row("bundles", describe_bundles(r));
    }
    if let Some(c) = &r.comparison {
        row(
            c.policy.name(),
            format!(
                "{} a run, so this is {:.2} times as fast; its {} moves take {}",
                format_time(c.latency_us),
                c.speedup,
                c.moves,
                format_time(c.move_us)
            ),
        );
    }
    // A program of constants takes no time, and its rate would be no number.
    let rate = if s.latency_us > 0.0 { s.flops as f64 / s.latency_us / 1e6 } else { 0.0 };
    row(
        "work",
        format!(
            "{}, {} at {rate:.2} TFLOP/s ({:.1}% of the peak)",
            count_things(s.ops, "operation"),
            format_flops(s.flops),
            // A hardware preset may leave the peak out, which then is zero.
            100.0 * rate / m.peak_tflops.max(1e-9)
        ),
    );
    row(
        "memory",
        format!(
            "{} read and written, {:.1}% padding; a pool of {} beside {} of weights",
            format_bytes(s.bytes),
            100.0 * s.padding,
            format_bytes(s.pool_peak),
            format_bytes(s.weight_bytes)
        ),
    );
    row(
        "cores",
        format!(
            "{} of {} at once, {:.0}% busy, balance {:.0}%",
            s.cores,
            m.cores,
            100.0 * s.utilisation,
            100.0 * s.balance
        ),
    );
    row(
        "scratchpads",
        format!(
            "{} results stay there, {} operands are read there, {} of traffic saved",
            s.lx_buffers,
            s.lx_hits,
            format_bytes(s.lx_saved_bytes)
        ),
    );
    // Kept apart from the moves of a run, because they are paid once and not in every run.
    let load_moves = if s.load_moves > 0 {
        format!("; {} more once, when weights are loaded", s.load_moves)
    } else {
        String::new()
    };
    row("moves", format!("{} in a run, {}{load_moves}", s.moves, format_time(s.move_us)));
    row("layouts", r.certificate.text.clone());
    if s.host_us > 0.0 {
        let count = r.fallbacks.iter().filter(|f| !r.steps[f.step].load).count();
        row(
            "host",
            format!(
                "{}, {} of round trips",
                count_things(count, "operation"),
                format_time(s.host_us)
            ),
        );
    }
    write_hot_operations(&mut out, r);
    write_moves(&mut out, r);
    write_notes(&mut out, r);
    let _ = writeln!(
        out,
        "\nsee more: --report PAGE.html draws all of this, --explain TENSOR explains the layout of a\n\
         tensor, --pass NAME prints what a pass made, --compare shows the baseline, --json has every number"
    );
    out
}

/// The programs that the host launches in a run, and what is between them.
fn describe_bundles(r: &Report) -> String {
    let of = |worker: BundleWorker| r.bundles.iter().filter(move |b| !b.load && b.worker == worker);
    let programs = of(BundleWorker::Device).count();
    let steps: usize = of(BundleWorker::Device).map(|b| b.steps).sum();
    let arguments = of(BundleWorker::Device).map(|b| b.arguments.len()).max().unwrap_or(0);
    let pool = of(BundleWorker::Device).map(|b| b.pool_bytes).max().unwrap_or(0);
    let mut text = match programs {
        0 => "no program of the card".into(),
        1 => format!("1 program of {}", count_things(steps, "step")),
        n => format!("{n} programs of {} in all", count_things(steps, "step")),
    };
    let host = of(BundleWorker::Host).count();
    if host > 0 {
        text += &format!(", cut by {} of the host", count_things(host, "step"));
    }
    if programs > 0 {
        text += &format!(
            "; at most {} and {} of pool that others do not use",
            count_things(arguments, "argument"),
            format_bytes(pool)
        );
    }
    text
}

/// The operations that take longest.
fn write_hot_operations(out: &mut String, r: &Report) {
    // Steps of one operation with different bottlenecks are separate rows, because each is improved in another way.
    // There are few kinds, so a list that is searched is enough.
    let mut list: Vec<(&str, usize, f64, &str)> = Vec::new();
    for s in r.steps.iter().filter(|s| !s.load) {
        match list.iter_mut().find(|l| l.0 == s.op && l.3 == s.bottleneck) {
            Some(l) => {
                l.1 += 1;
                l.2 += s.us;
            }
            None => list.push((&s.op, 1, s.us, &s.bottleneck)),
        }
    }
    if r.summary.launch_us > 0.0 {
        // Launches are no steps of their own, but the rows must add up to the latency.
        list.push(("launch", r.summary.launches, r.summary.launch_us, "by the host"));
    }
    list.sort_by(|a, b| b.2.total_cmp(&a.2));
    let total: f64 = list.iter().map(|l| l.2).sum();
    // Shares of nothing are not defined.
    if total <= 0.0 {
        return;
    }
    let _ = writeln!(out, "\nwhere the time goes");
    let width = list.iter().take(MAX_NAMED_OPERATIONS).map(|l| l.0.len()).max().unwrap_or(0);
    for (op, count, us, bound) in list.iter().take(MAX_NAMED_OPERATIONS) {
        let share = 100.0 * us / total;
        let _ = writeln!(
            out,
            "  {share:5.1}%  {op:width$}  {:>8}  {count:>4} {}, {bound}",
            format_time(*us),
            match (*op, *count) {
                // Its own word, as a bundle of many steps is launched once.
                ("launch", 1) => "time",
                ("launch", _) => "times",
                (_, 1) => "step",
                _ => "steps",
            }
        );
    }
    if list.len() > MAX_NAMED_OPERATIONS {
        let rest: f64 = list.iter().skip(MAX_NAMED_OPERATIONS).map(|l| l.2).sum();
        let _ = writeln!(
            out,
            "  {:5.1}%  {} more kinds",
            100.0 * rest / total,
            list.len() - MAX_NAMED_OPERATIONS
        );
    }
}

/// The inserted moves, alike ones together.
fn write_moves(out: &mut String, r: &Report) {
    // Layers repeat: moves that differ in their tensors alone are one line.
    let mut list: Vec<(String, String, usize, f64, usize)> = Vec::new();
    for m in r.moves.iter().filter(|m| !m.load) {
        let reader = m.reader.as_deref().unwrap_or("the caller");
        // A step is named `result = operation`, and the results of layers differ where the operations do not.
        let op = reader.rsplit(" = ").next().unwrap_or(reader);
        let text = format!(
            "{:?} from {} to {} for {op}: {}",
            m.to.layout.size, m.from.layout.order, m.to.layout.order, m.reason
        );
        match list.iter_mut().find(|l| l.1 == text) {
            Some(l) => {
                l.2 += 1;
                l.3 += m.us;
            }
            None => list.push((m.tensor.clone(), text, 1, m.us, m.readers)),
        }
    }
    if list.is_empty() {
        return;
    }
    list.sort_by(|a, b| b.3.total_cmp(&a.3));
    let _ = writeln!(out, "\nmoves in every run");
    for (tensor, text, count, us, readers) in list.iter().take(MAX_NAMED_OPERATIONS) {
        let times = if *count > 1 { format!(" and {} like it", count - 1) } else { String::new() };
        let shared =
            if *readers > 1 { format!(", shared by {readers} readers") } else { String::new() };
        let _ = writeln!(out, "  {:>8}  {tensor}{times} {text}{shared}", format_time(*us));
    }
    if list.len() > MAX_NAMED_OPERATIONS {
        let _ = writeln!(out, "            and {} more kinds", list.len() - MAX_NAMED_OPERATIONS);
    }
}

fn write_notes(out: &mut String, r: &Report) {
    let mut lines: Vec<String> = Vec::new();
    let mut fallbacks: Vec<(&str, usize, f64, Option<&str>)> = Vec::new();
    for f in &r.fallbacks {
        match fallbacks.iter_mut().find(|l| l.0 == f.op) {
            Some(l) => {
                l.1 += 1;
                l.2 += f.us;
            }
            None => fallbacks.push((&f.op, 1, f.us, f.at.as_deref())),
        }
    }
    for (op, count, us, at) in fallbacks {
        let at = at.map(|a| format!(", first at {a}")).unwrap_or_default();
        lines.push(format!(
            "{count} {op} done by the host, {} of round trips{at}; {}",
            format_time(us),
            r.fallbacks[0].remedy
        ));
    }
    if let Some(first) = r.casts.first() {
        lines.push(format!(
            "{} tensors are narrower on the card, such as {}: {}; {}",
            r.casts.len(),
            first.tensor,
            first.loss,
            first.remedy
        ));
    }
    for n in r.notes.iter().filter(|n| n.kind != "graph_break") {
        // What was lost names its tensor itself.
        let named = ["numbers_past", "nan_made"].contains(&n.kind.as_str());
        match n.name.as_deref().filter(|_| !named) {
            Some(tensor) => lines.push(format!("{tensor}: {}", n.text)),
            None => lines.push(n.text.clone()),
        }
    }
    let breaks = r.notes.iter().filter(|n| n.kind == "graph_break").count();
    if breaks > 0 {
        lines.push(format!(
            "{breaks} graph breaks: the device program ends and begins anew after the host"
        ));
    }
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nnotes");
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

/// The bundle in which a tensor is made, as a line; nothing of what no step makes.
pub(crate) fn describe_maker(program: &CompiledProgram, tensor: &str) -> String {
    let writes = |s: &ProgramStep| s.writes.iter().any(|b| program.buffer(*b).name == tensor);
    let Some(step) = program.steps.iter().position(writes) else { return String::new() };
    let BundleId(number) = program.bundle_of(StepId(step));
    let bundle = &program.bundles[number];
    let (place, of) = (step - bundle.steps.start + 1, bundle.steps.len());
    let launched = match bundle.launch {
        Some(_) => "which the host launches at once",
        None => "which the host does itself",
    };
    format!("made by step {place} of {of} of bundle {number}, {launched}\n")
}

/// A number of things, which have a plural in `s`.
pub(crate) fn count_things(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// The same of things that have another plural.
fn count_things_as(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A time with three digits.
pub(crate) fn format_time(us: f64) -> String {
    format_scaled(us, &[("s", 1e6), ("ms", 1e3), ("us", 1.0), ("ns", 1e-3)])
}

/// Bytes with three digits.
pub(crate) fn format_bytes(n: u64) -> String {
    format_scaled(n as f64, &[("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)])
}

fn format_flops(n: u64) -> String {
    format_scaled(
        n as f64,
        &[("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3), ("FLOP", 1.0)],
    )
}

fn format_scaled(x: f64, units: &[(&str, f64)]) -> String {
    let found = units.iter().find(|(_, size)| x >= *size);
    let whole = || units.iter().rfind(|(_, size)| *size >= 1.0);
    let Some((unit, size)) = found else { return format!("0 {}", whole().map_or("", |u| u.0)) };
    let y = x / size;
    match y {
        // The limits are those at which rounding would give a fourth digit: 9.995 is printed as 10.0, not as 10.00.
        y if y < 9.995 => format!("{y:.2} {unit}"),
        y if y < 99.95 => format!("{y:.1} {unit}"),
        y => format!("{y:.0} {unit}"),
    }
}
