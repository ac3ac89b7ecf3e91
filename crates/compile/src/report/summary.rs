//! Totals of all steps, the hardware they ran on, and what is proved of the choice of layouts.

use super::{occupancy, steps, to_microseconds};
use crate::choose::{LOAD_COST_DIVISOR, SearchRecord};
use crate::options::{self, CompilePolicy};
use crate::program::{CompiledProgram, ElementOrigin, ProgramStep, StepAction};
use crate::single_pins::TriedPins;
use zellige_graph::InputRole;
use zellige_machine::{Key, LaunchUnit, SimulatedTime};
use zellige_op::CoverageProfile;
use zellige_report::{
    BottleneckTime, CompileSettings, CoverageName, LaunchUnitName, LayoutCertificate,
    MachineFigures, OutputLayouts, PolicyComparison, PolicyName, RunTotals, WeightLayouts,
};

pub(super) fn report_machine(program: &CompiledProgram) -> MachineFigures {
    let hw = &program.options.hardware;
    let number = |key| hw.find_figure(key).map(|_| hw.figure_number(key).to_f64());
    let (peak, memory) = (hw.peak_tflops(), hw.figure_number(Key::MemoryPeak).to_f64());
    let cores = hw.core_count();
    MachineFigures {
        name: hw.name().into(),
        cores,
        peak_tflops: peak,
        // A multiply-add is two operations; hardware without a measured rate is drawn with its peak.
        matmul_tflops: number(Key::Matmul).map_or(peak, |macs| macs * 2.0 * cores as f64 / 1e3),
        memory_gb_s: memory,
        sustained_gb_s: number(Key::MemoryOneWay).unwrap_or(memory),
        host_gb_s: hw.figure_number(Key::HostLink).to_f64(),
        launch_us: to_microseconds(hw.launch_time()),
        launch_unit: match hw.launch_unit() {
            LaunchUnit::Wave => LaunchUnitName::Wave,
            LaunchUnit::Bundle => LaunchUnitName::Bundle,
        },
        lx_bytes: hw.figure_count(Key::LxSize),
        clock_ghz: hw.figure_number(Key::Clock).to_f64(),
    }
}

fn policy_name(policy: CompilePolicy) -> PolicyName {
    match policy {
        CompilePolicy::Baseline => PolicyName::Baseline,
        CompilePolicy::Best => PolicyName::Best,
    }
}

pub(super) fn report_settings(program: &CompiledProgram) -> CompileSettings {
    let o = &program.options;
    CompileSettings {
        policy: policy_name(o.policy),
        coverage: match o.coverage {
            CoverageProfile::Full => CoverageName::Full,
            CoverageProfile::Card => CoverageName::Card,
        },
        cores: o.cores,
        weights: match o.weights {
            options::WeightLayoutRule::Free => WeightLayouts::Free,
            options::WeightLayoutRule::Given => WeightLayouts::Given,
        },
        outputs: match o.outputs {
            options::OutputLayoutRule::Default => OutputLayouts::Default,
            options::OutputLayoutRule::AsComputed => OutputLayouts::AsComputed,
        },
        strict: o.strict,
        scratchpads: o.scratchpads.map(|p| p.name().into()),
        concurrent: o.runs_side_by_side(),
        mode: o.storage.mode.to_string(),
        keep_fp32: o.storage.keep.float32,
        keep_int64: o.storage.keep.int64,
    }
}

pub(super) fn report_totals(program: &CompiledProgram) -> RunTotals {
    let mut s = RunTotals {
        latency_us: to_microseconds(program.latency()),
        launch_us: to_microseconds(program.launch_time()),
        launches: program.launch_count(),
        load_us: to_microseconds(program.load_latency()),
        ops: 0,
        moves: 0,
        load_moves: program.load_steps().filter(|(_, s)| s.is_move()).count(),
        bytes: 0,
        flops: 0,
        padding_bytes: 0,
        padding: 0.0,
        move_bytes: 0,
        move_us: 0.0,
        host_us: 0.0,
        cores: max_active_cores(program),
        balance: core_balance(program),
        utilisation: core_utilisation(program),
        lx_buffers: program.buffers.iter().filter(|b| is_lx(b)).count(),
        lx_hits: 0,
        lx_saved_bytes: 0,
        pool_peak: occupancy::pool_levels(program).peak,
        weight_bytes: 0,
        input_bytes: 0,
    };
    let mut padding = 0.0;
    for (_, step) in program.run_steps() {
        let (totals, full) = (
            super::sum_work_totals(program, &step.work),
            super::sum_work_totals(program, &step.full),
        );
        let bytes = totals.bytes_in.saturating_add(totals.bytes_out);
        s.bytes = s.bytes.saturating_add(bytes);
        s.flops = s.flops.saturating_add(totals.flops);
        padding += step.work.sum_over_cores().padding_share() * bytes as f64;
        let all = full.bytes_in.saturating_add(full.bytes_out);
        s.lx_saved_bytes = s.lx_saved_bytes.saturating_add(all.saturating_sub(bytes));
        s.lx_hits += step.reads.iter().filter(|r| steps::is_held_in_lx(program, r.buffer)).count();
        match &step.action {
            StepAction::Move { .. } => {
                s.moves += 1;
                s.move_bytes = s.move_bytes.saturating_add(bytes);
                s.move_us += to_microseconds(step.duration);
            }
            StepAction::Host(..) => {
                s.ops += 1;
                s.host_us += to_microseconds(step.duration);
            }
            StepAction::Op(..) => s.ops += 1,
        }
    }
    s.padding = if s.bytes == 0 { 0.0 } else { padding / s.bytes as f64 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of bytes")]
    let padding_bytes = padding as u64;
    s.padding_bytes = padding_bytes;
    for buffer in &program.buffers {
        match &buffer.origin {
            ElementOrigin::Input(InputRole::Weight) | ElementOrigin::Constant(_) => {
                s.weight_bytes += buffer.bytes();
            }
            ElementOrigin::Input(_) => s.input_bytes += buffer.bytes(),
            ElementOrigin::Result | ElementOrigin::Copy(_) => {}
        }
    }
    s
}

fn is_lx(buffer: &crate::program::ProgramBuffer) -> bool {
    matches!(buffer.place, crate::program::BufferLocation::Lx(_))
}

/// Steps of every run that cores do.
fn core_steps(program: &CompiledProgram) -> impl Iterator<Item = &ProgramStep> {
    program.run_steps().map(|(_, s)| s).filter(|s| !matches!(s.action, StepAction::Host(..)))
}

/// The most cores that work at the same time.
fn max_active_cores(program: &CompiledProgram) -> usize {
    let mut changes: Vec<(SimulatedTime, bool, usize)> = Vec::new();
    for step in core_steps(program).filter(|s| s.duration > SimulatedTime::ZERO) {
        let cores = step.work.sum_over_cores().cores;
        changes.push((step.start, true, cores));
        changes.push((step.end_time(), false, cores));
    }
    // Sorted by time, ends before beginnings: a step that starts when another ends does not run beside it.
    changes.sort_unstable();
    let (mut now, mut most) = (0usize, 0);
    for (_, begins, cores) in changes {
        now = if begins { now + cores } else { now.saturating_sub(cores) };
        most = most.max(now);
    }
    most
}

/// Mean cycles of the cores in use beside those of the slowest, weighed by time.
fn core_balance(program: &CompiledProgram) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for step in core_steps(program) {
        let busy: Vec<u64> =
            step.latency.cores.iter().map(|c| c.total).filter(|t| *t > 0).collect();
        let most = busy.iter().copied().max().unwrap_or(0);
        if most > 0 {
            let mean = busy.iter().sum::<u64>() as f64 / busy.len() as f64;
            let time = to_microseconds(step.duration);
            sum += mean / most as f64 * time;
            weight += time;
        }
    }
    if weight > 0.0 { sum / weight } else { 1.0 }
}

/// Busy time of cores, of the time of all cores that may be used.
fn core_utilisation(program: &CompiledProgram) -> f64 {
    let cycles: u64 = core_steps(program)
        .flat_map(|s| &s.latency.cores)
        .map(|c| c.total)
        .fold(0, u64::saturating_add);
    let busy = to_microseconds(program.options.hardware.cycles_to_time(cycles));
    let all = to_microseconds(program.latency()) * program.options.cores as f64;
    // Cycles are whole numbers, so that the sum of rounded ones may pass the whole by a little.
    if all > 0.0 { (busy / all).min(1.0) } else { 0.0 }
}

pub(super) fn bottleneck_times(program: &CompiledProgram) -> Vec<BottleneckTime> {
    let mut list: Vec<BottleneckTime> = Vec::new();
    for (_, step) in program.run_steps() {
        let name = step.latency.bottleneck.to_string();
        let unit = match list.iter_mut().position(|u| u.name == name) {
            Some(at) => &mut list[at],
            None => {
                list.push(BottleneckTime { name, steps: 0, us: 0.0 });
                list.last_mut().expect("just pushed")
            }
        };
        unit.steps += 1;
        unit.us += to_microseconds(step.duration);
    }
    let us = to_microseconds(program.launch_time());
    if us > 0.0 {
        list.push(BottleneckTime { name: "launches".into(), steps: program.launch_count(), us });
    }
    list.sort_by(|a, b| b.us.total_cmp(&a.us));
    list
}

pub(super) fn report_certificate(program: &CompiledProgram) -> LayoutCertificate {
    let a = &program.assignment;
    let least_sum = a.is_least_sum();
    let share = |cost: u64, bound: u64| {
        (bound > 0).then(|| (cost.saturating_sub(bound)) as f64 / bound as f64)
    };
    let gap = share(a.cost, a.bound);
    let hardware = &program.options.hardware;
    // The bound counts every step with a launch where the host launches step by step, so that the steps it is compared
    // with are counted so too.
    let launch = hardware.step_launch_cycles();
    let cycles =
        |(_, step): (_, &ProgramStep)| hardware.operation_latency(&step.work).cycles + launch;
    let loading =
        program.load_steps().map(|step| cycles(step).div_ceil(LOAD_COST_DIVISOR)).sum::<u64>();
    let steps = program.run_steps().map(cycles).sum::<u64>() + loading;
    let steps_gap = share(steps, a.least);
    let choices = match a.choices_log2 {
        // Below 16 combinations the number itself says nothing to a reader.
        n if n < 4.0 => "the few combinations of candidate layouts".into(),
        n => format!("2^{n:.0} combinations of candidate layouts"),
    };
    let cost = match a.unit {
        "cycles" => {
            let time = hardware.cycles_to_time(a.cost);
            format!("{} cycles ({time}, every operation in its default division)", a.cost)
        }
        unit => format!("{} {unit}", a.cost),
    };
    let mut text = match gap {
        _ if least_sum => {
            format!("least sum of costs: none of {choices} costs less than {cost}")
        }
        Some(gap) => {
            format!("{cost}, at most {:.2}% above the least sum of {choices}", gap * 100.0)
        }
        None => format!("{cost}; this policy proves no lower bound"),
    };
    text += &tried(&a.search);
    if let Some(gap) = steps_gap {
        let (time, least) = (hardware.cycles_to_time(steps), hardware.cycles_to_time(a.least));
        text += &match steps <= a.least {
            true => format!(
                ". Divided, its steps take {time} one after the other, and no division or scratchpad plan of these \
                 candidates takes less"
            ),
            false => format!(
                ". Divided, its steps take {time} one after the other; no division or scratchpad plan of these \
                 candidates takes less than {least} ({:.1}% below)",
                gap / (1.0 + gap) * 100.0
            ),
        };
    }
    LayoutCertificate {
        cost: a.cost,
        bound: a.bound,
        unit: a.unit.into(),
        least_sum,
        gap,
        choices_log2: a.choices_log2,
        width: a.width,
        divisions_optimal: program.divided_optimally,
        steps,
        steps_bound: a.least,
        programs: a.search.programs,
        complete: a.search.complete,
        pins: a.search.pins.tried,
        pins_complete: a.search.pins.complete,
        faster_pin: a.search.pins.faster.clone(),
        text,
    }
}

/// What was tried to find the program, in sentences; nothing where it was not searched for.
fn tried(search: &SearchRecord) -> String {
    let SearchRecord { programs, complete, pins } = search;
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    if *programs == 0 {
        return String::new();
    }
    let mut text = match (*programs, complete) {
        (1, true) => ". No other program was to be tried".into(),
        (n, true) => format!(
            ". Fastest of {n} programs that were tried, with every other layout of a single tensor among them"
        ),
        (n, false) => {
            format!(". Fastest of {} that were tried; the graph has more", count(n, "program"))
        }
    };
    let tried = count(pins.tried, "pin");
    text += &match pins {
        TriedPins { faster: Some(pin), .. } => {
            format!(". Faster with a pin, and no such program was found without it: {pin}")
        }
        TriedPins { complete: true, tried: 0, .. } => {
            ". There is no intermediate result to pin".into()
        }
        TriedPins { complete: true, .. } => {
            format!(
                ". Not faster with a pin: {tried} of single intermediate results were tried, which are all"
            )
        }
        TriedPins { tried: 0, .. } => ". It was not tried with pins".into(),
        _ => format!(
            ". Not faster with the {tried} of single intermediate results that were tried; there are more"
        ),
    };
    text
}

pub(super) fn compare_policies(
    program: &CompiledProgram,
    other: &CompiledProgram,
) -> PolicyComparison {
    let (mine, theirs) = (report_totals(program), report_totals(other));
    PolicyComparison {
        policy: policy_name(other.options.policy),
        latency_us: theirs.latency_us,
        moves: theirs.moves,
        move_us: theirs.move_us,
        move_bytes: theirs.move_bytes,
        bytes: theirs.bytes,
        speedup: if mine.latency_us > 0.0 { theirs.latency_us / mine.latency_us } else { 1.0 },
    }
}
