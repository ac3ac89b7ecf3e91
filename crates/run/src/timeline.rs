//! A program's schedule as a timeline of the card.

use zellige_compile::CompiledProgram;
use zellige_machine::timeline::{Timeline, TimelineEvent, TimelineTrack};
use zellige_machine::{Hardware, SimulatedTime};

/// The steps of one run in simulated time: a track for the program, with the launches of its bundles, and one
/// for every core.
pub fn program_timeline(program: &CompiledProgram) -> Timeline {
    let hardware: &Hardware = &program.options.hardware;
    let steps = program.run_steps().count();
    let mut out = Timeline::new(0, steps * (hardware.core_count() + 3) + 16);
    let mut bundles = program.run_bundles().peekable();
    for (id, step) in program.run_steps() {
        // A bundle has one launch, drawn before its first step; hardware without a launch time has none to draw.
        if let Some((number, bundle)) = bundles.next_if(|(_, b)| b.steps.start == id.0)
            && bundle.launch_time() > SimulatedTime::ZERO
        {
            out.push(TimelineEvent {
                track: TimelineTrack::Stream(0),
                name: "launch".into(),
                start: bundle.start,
                duration: bundle.launch_time(),
                args: vec![
                    ("bundle".to_string(), (number.0 as u64).into()),
                    ("steps".to_string(), (bundle.steps.len() as u64).into()),
                ],
            });
        }
        let totals = step.work.sum_over_cores();
        let args = vec![
            ("cycles".to_string(), step.latency.cycles.into()),
            ("bound".to_string(), step.latency.bottleneck.to_string().into()),
            ("bytes in".to_string(), totals.bytes_in.into()),
            ("bytes out".to_string(), totals.bytes_out.into()),
            ("flops".to_string(), totals.flops.into()),
        ];
        let name: std::sync::Arc<str> = step.name.as_str().into();
        let (start, duration) = (step.start, step.duration);
        out.push(TimelineEvent {
            track: TimelineTrack::Stream(0),
            name: name.clone(),
            start,
            duration,
            args,
        });
        if step.work.kind.is_transfer() {
            out.push(TimelineEvent {
                track: TimelineTrack::Transfer,
                name,
                start,
                duration,
                args: Vec::new(),
            });
            continue;
        }
        for (core, cycles) in step.latency.cores.iter().enumerate().filter(|(_, c)| c.total > 0) {
            let track = TimelineTrack::Core(step.first_core + core);
            // A core works for its own cycles, which rounding to time must not make longer than the step.
            let duration = hardware.cycles_to_time(cycles.total).min(duration);
            out.push(TimelineEvent {
                track,
                name: name.clone(),
                start,
                duration,
                args: Vec::new(),
            });
        }
    }
    out
}
