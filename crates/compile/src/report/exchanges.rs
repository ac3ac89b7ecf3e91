//! Every copy between scratchpads, with who sends what to whom.

use super::to_microseconds;
use crate::core_copies::count_stick_bytes;
use crate::program::CompiledProgram;
use zellige_report::{ReportedExchange, ReportedSend};

/// Sends of one copy that are listed: those of all pairs of 32 cores.
const MAX_LISTED_SENDS: usize = 1024;

pub(super) fn report_exchanges(program: &CompiledProgram) -> Vec<ReportedExchange> {
    let mut list = Vec::new();
    for (i, step) in program.steps.iter().enumerate() {
        let Some(copy) = step.scratchpad_copy() else { continue };
        let (Some(read), Some(to)) = (step.reads.first(), step.writes.first()) else { continue };
        let (from, made) = (program.buffer(read.buffer), program.buffer(*to));
        let form = made.laid.stick_form().ok();
        let sends = copy.exchange.sends().iter().take(MAX_LISTED_SENDS).map(|s| ReportedSend {
            source: s.source,
            destinations: s.destinations.clone(),
            ranges: s.elements.ranges().iter().map(|(begin, end)| [*begin, *end]).collect(),
            bytes: form.as_ref().map_or(0, |form| count_stick_bytes(form, &s.elements)),
        });
        let readers = program.steps.iter().filter(|s| s.reads.iter().any(|r| r.buffer == *to));
        list.push(ReportedExchange {
            step: i,
            tensor: program.graph.get(made.tensor).name.clone(),
            from: from.name.clone(),
            to: made.name.clone(),
            movement: copy.exchange.class().to_string(),
            source_cores: copy.source.parts().count(),
            destination_cores: copy.destination.parts().count(),
            readers: readers.count(),
            remote_bytes: copy.remote_bytes,
            local_bytes: copy.local_bytes,
            us: to_microseconds(step.duration),
            sends: sends.collect(),
            unlisted: copy.exchange.sends().len().saturating_sub(MAX_LISTED_SENDS),
        });
    }
    list
}
