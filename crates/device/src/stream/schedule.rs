//! Simulated time: when each piece of work starts and ends.

use super::{STREAM_COUNT, StreamId};
use zellige_machine::SimulatedTime;
use zellige_machine::account::{OperationLatency, OperationWork};
use zellige_machine::hardware::Hardware;

/// The clocks of a card: one per stream, one per core, one of the transfer engine, one of the link to other cards.
///
/// Work starts when its stream has come that far, the events its stream waited for have happened, and every core
/// it uses is free; a core is free again when its own part is done. All of that follows from the
/// order of submissions alone. Kernels on different cores, and transfers beside them, do not slow each
/// other down.
#[derive(Debug, Clone)]
pub struct CardSchedule {
    streams: [SimulatedTime; STREAM_COUNT],
    cores: Vec<SimulatedTime>,
    transfer: SimulatedTime,
    link: SimulatedTime,
}

/// When a piece of work begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    /// When it starts.
    pub start: SimulatedTime,
    /// When its slowest core is done.
    pub end: SimulatedTime,
}

impl CardSchedule {
    /// All clocks at zero.
    pub fn new(cores: usize) -> CardSchedule {
        CardSchedule {
            streams: [SimulatedTime::ZERO; STREAM_COUNT],
            cores: vec![SimulatedTime::ZERO; cores],
            transfer: SimulatedTime::ZERO,
            link: SimulatedTime::ZERO,
        }
    }

    /// Puts work behind what is already there. The work has no more entries than there are cores.
    pub fn place_work(
        &mut self,
        stream: StreamId,
        work: &OperationWork,
        latency: &OperationLatency,
        hardware: &Hardware,
    ) -> TimeSpan {
        let clock = self.streams[stream.index()];
        let start = if work.kind.is_transfer() {
            // One transfer engine serves all streams and needs no core, so that transfers run beside operations.
            let start = clock.max(self.transfer);
            self.transfer = start + latency.time;
            start
        } else {
            // A core without work is not waited for.
            let used = || latency.cores.iter().zip(0..).filter(|(c, _)| c.total > 0);
            let start =
                used().map(|(_, i): (_, usize)| self.cores[i]).fold(clock, SimulatedTime::max);
            for (cycles, i) in used() {
                // A core is free when its own slice is done, while the stream continues after the slowest one.
                self.cores[i] = start + hardware.cycles_to_time(cycles.total);
            }
            start
        };
        let end = start + latency.time;
        self.streams[stream.index()] = end;
        TimeSpan { start, end }
    }

    /// Puts an exchange with other cards behind what is already there. It starts when the link is free, and not before
    /// `ready`, when the last of the other cards has come that far.
    pub fn place_exchange(
        &mut self,
        stream: StreamId,
        ready: SimulatedTime,
        duration: SimulatedTime,
    ) -> TimeSpan {
        let start = self.streams[stream.index()].max(self.link).max(ready);
        let end = start + duration;
        self.link = end;
        self.streams[stream.index()] = end;
        TimeSpan { start, end }
    }

    /// The stream's next work starts at `time`, or when its cores are free: it runs beside what the stream
    /// did last.
    pub(crate) fn begin_at(&mut self, stream: StreamId, time: SimulatedTime) {
        self.streams[stream.index()] = time;
    }

    /// The stream's later work does not start before `time`.
    pub fn wait_until(&mut self, stream: StreamId, time: SimulatedTime) {
        let clock = &mut self.streams[stream.index()];
        *clock = time.max(*clock);
    }

    /// When the work of a stream is done.
    pub fn stream_clock(&self, stream: StreamId) -> SimulatedTime {
        self.streams[stream.index()]
    }

    /// When all work is done.
    pub fn end_time(&self) -> SimulatedTime {
        self.streams.iter().copied().max().unwrap_or(SimulatedTime::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_machine::account::{CoreWork, MemoryTraffic, WorkKind};

    fn work(kind: WorkKind, cores: std::ops::Range<usize>, elements: u64) -> OperationWork {
        let each = CoreWork { sfu: elements, ..CoreWork::default() };
        let of = |i| if cores.contains(&i) { each.clone() } else { CoreWork::default() };
        OperationWork::new("x", kind, (0..cores.end).map(of).collect())
    }

    #[test]
    fn streams_run_side_by_side_on_different_cores_only() {
        let ktir = Hardware::ktir_preset();
        let mut schedule = CardSchedule::new(32);
        let mut place = |stream, work: &OperationWork| {
            let stream = StreamId::new(stream).unwrap();
            let span = schedule.place_work(stream, work, &ktir.operation_latency(work), &ktir);
            (span.start.nanoseconds(), span.end.nanoseconds())
        };
        let (low, high) = (work(WorkKind::Other, 0..16, 6400), work(WorkKind::Other, 16..32, 640));
        assert_eq!(place(1, &low), (0.0, 100.0));
        assert_eq!(place(2, &high), (0.0, 10.0));
        assert_eq!(place(2, &high), (10.0, 20.0), "one after the other in a stream");
        assert_eq!(place(3, &low), (100.0, 200.0), "the cores are taken");
        let both = work(WorkKind::Other, 0..32, 64);
        assert_eq!(place(2, &both), (200.0, 201.0));
        let upload = CoreWork { host_in: 63_000, ..CoreWork::default() };
        let upload = OperationWork::new("up", WorkKind::Upload, vec![upload]);
        assert_eq!(place(4, &upload), (0.0, 1000.0), "transfers need no core");
        assert_eq!(place(5, &upload), (1000.0, 2000.0), "there is one engine");
        schedule.wait_until(StreamId::new(1).unwrap(), SimulatedTime::from_nanoseconds(5000));
        let ns = SimulatedTime::from_nanoseconds;
        let [six, seven] = [6, 7].map(|n| StreamId::new(n).unwrap());
        let span = schedule.place_exchange(six, ns(300), ns(50));
        assert_eq!((span.start, span.end), (ns(300), ns(350)), "other cards come later");
        let span = schedule.place_exchange(seven, ns(0), ns(50));
        assert_eq!((span.start, span.end), (ns(350), ns(400)), "there is one link");
        let span = schedule.place_work(
            StreamId::new(1).unwrap(),
            &low,
            &ktir.operation_latency(&low),
            &ktir,
        );
        assert_eq!(span.start, SimulatedTime::from_nanoseconds(5000));
        assert_eq!(schedule.end_time(), SimulatedTime::from_nanoseconds(5100));
    }

    #[test]
    fn a_core_that_is_done_early_is_free_early() {
        let ktir = Hardware::ktir_preset();
        let mut schedule = CardSchedule::new(2);
        let reads =
            |n| CoreWork { reads: MemoryTraffic::from_bursts(128, n), ..CoreWork::default() };
        let uneven = OperationWork::new("x", WorkKind::Other, vec![reads(10), reads(100)]);
        let one = OperationWork::new("x", WorkKind::Other, vec![reads(1)]);
        let mut place = |s, w: &OperationWork| {
            let s = StreamId::new(s).unwrap();
            schedule.place_work(s, w, &ktir.operation_latency(w), &ktir).start
        };
        assert_eq!(place(1, &uneven), SimulatedTime::ZERO);
        assert_eq!(place(2, &one), SimulatedTime::from_nanoseconds(20));
    }
}
