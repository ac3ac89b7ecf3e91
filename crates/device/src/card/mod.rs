//! The card: hardware, memory, scratchpads, streams, and what happened on it.

mod describe;
pub(crate) mod lx;
pub(crate) mod mode;

use crate::card::lx::LxScratchpads;
use crate::card::mode::FloatMode;
use crate::error::{DeviceError, Result};
use crate::memory::{DeviceMemory, MemoryStats};
use crate::run::recall::RecalledOps;
use crate::stream::{CardEvent, CardSchedule, CardStreams, StreamId, TimeSpan};
use crate::tensor::kept::KeptDtypes;
use crate::tensor::tensor_layout::StoragePolicy;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zellige_machine::account::{OperationCost, OperationWork, WorkTotals};
use zellige_machine::hardware::Hardware;
use zellige_machine::timeline::{self, Timeline, TimelineTrack};
use zellige_machine::units::DecimalBytes;
use zellige_machine::{LinkCost, SimulatedTime};
use zellige_op::CoverageProfile;

/// A simulated card. Clones are the same card; it ends, with its work done, when the last one is dropped.
///
/// ```
/// use zellige_device::{Card, StreamId};
/// use zellige_machine::{CoreWork, Hardware, OperationWork, WorkKind};
/// let card = Card::new(0, Hardware::ktir_preset())?;
/// let each = CoreWork { sfu: 128, ..CoreWork::default() };
/// let add = OperationWork::uniform_cores("add", WorkKind::Pointwise, 32, each);
/// let three = card.run_work(StreamId::DEFAULT, &add, || Ok(1 + 2))?;
/// assert_eq!((three, card.stream_time(StreamId::DEFAULT).nanoseconds()), (3, 2.0));
/// # Ok::<(), zellige_device::DeviceError>(())
/// ```
#[derive(Clone)]
pub struct Card(Arc<CardInner>);

struct CardInner {
    index: usize,
    cores: usize,
    mode: FloatMode,
    profile: CoverageProfile,
    keep: KeptDtypes,
    threads: usize,
    hardware: Hardware,
    memory: DeviceMemory,
    lx: LxScratchpads,
    streams: CardStreams,
    /// Held while work is placed in time *and* queued, so that both orders are one.
    log: Mutex<CardLog>,
    recalled: RecalledOps,
}

struct CardLog {
    schedule: CardSchedule,
    timeline: Timeline,
    recordings: Vec<TimelineRecording>,
    operations: u64,
    totals: WorkTotals,
    busy: SimulatedTime,
}

/// What a recording holds of an operation besides its cost, by name.
pub type RecordingStamp = Vec<(&'static str, serde_json::Value)>;

/// A timeline that begins and ends while the card works.
struct TimelineRecording {
    key: u64,
    timeline: Timeline,
    stamp: fn() -> RecordingStamp,
}

/// What was submitted: when it runs in simulated time, and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkReceipt {
    /// When it starts and ends.
    pub span: TimeSpan,
    /// What it costs.
    pub cost: OperationCost,
}

/// Works that run side by side with their costs, to be entered into the accounts once for every run of a program.
#[derive(Debug)]
pub struct PreparedWave {
    works: Vec<(OperationWork, OperationCost)>,
}

/// A card at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct CardStats {
    /// Operations submitted.
    pub operations: u64,
    /// What they did together; `cores` is the most that one used.
    pub totals: WorkTotals,
    /// Their latencies added up.
    pub busy: SimulatedTime,
    /// When the last one ends, in simulated time.
    pub end: SimulatedTime,
    /// Device memory.
    pub memory: MemoryStats,
    /// Scratchpads; its segments are the cores.
    pub lx: MemoryStats,
}

impl Card {
    /// Card number `index` of this hardware, with device formats as on the card.
    pub fn new(index: usize, hardware: Hardware) -> Result<Card> {
        Card::builder().index(index).hardware(hardware).build()
    }

    /// A card with choices.
    pub fn builder() -> CardBuilder {
        CardBuilder::default()
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Cores that operations are divided over.
    pub fn core_count(&self) -> usize {
        self.0.cores
    }

    /// How 16-bit floats are stored.
    pub fn float_mode(&self) -> FloatMode {
        self.0.mode
    }

    /// Which operations it runs itself.
    pub fn profile(&self) -> CoverageProfile {
        self.0.profile
    }

    /// How tensors are stored on it by default.
    pub fn storage_policy(&self) -> StoragePolicy {
        StoragePolicy { mode: self.0.mode, keep: self.0.keep }
    }

    /// Which dtypes are stored with all their bits by default, and not in half of them.
    pub fn kept_dtypes(&self) -> KeptDtypes {
        self.0.keep
    }

    /// Host threads that simulate it. Results and latencies do not depend on them.
    pub fn host_threads(&self) -> usize {
        self.0.threads
    }

    /// Refuses a number of cores that operations cannot be divided over.
    pub(crate) fn check_cores(&self, cores: usize) -> Result<()> {
        if cores == 0 || cores > self.0.cores {
            return Err(DeviceError::BadCoreCount { cores, most: self.0.cores });
        }
        Ok(())
    }

    /// Its figures.
    pub fn hardware(&self) -> &Hardware {
        &self.0.hardware
    }

    /// Its device memory.
    pub fn memory(&self) -> &DeviceMemory {
        &self.0.memory
    }

    /// The scratchpads of its cores.
    pub fn lx_scratchpads(&self) -> &LxScratchpads {
        &self.0.lx
    }

    /// Appends work to a stream; `job` does it later, in the background.
    pub fn submit_work(
        &self,
        stream: StreamId,
        work: &OperationWork,
        job: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<WorkReceipt> {
        self.check_work(work)?;
        let mut log = self.lock_log();
        self.0.streams.submit_job(stream, work.name.as_str(), job)?;
        Ok(self.place_work(&mut log, stream, work))
    }

    /// Does work now, in the calling thread, after what its stream has to do before. An error of
    /// that is raised instead, and cleared.
    pub fn run_work<T>(
        &self,
        stream: StreamId,
        work: &OperationWork,
        job: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.check_work(work)?;
        let mut log = self.lock_log();
        // The place in the stream is taken while the log is locked, so that simulated time has the order in which
        // work was submitted.
        let turn = self.0.streams.take_turn(stream)?;
        self.place_work(&mut log, stream, work);
        drop(log);
        turn.run_job(job)
    }

    /// Enters work that was just done into the accounts, at the end of its stream.
    ///
    /// # Errors
    /// More cores than the card has.
    pub fn account_work(&self, stream: StreamId, work: &OperationWork) -> Result<WorkReceipt> {
        self.check_work(work)?;
        Ok(self.place_work(&mut self.lock_log(), stream, work))
    }

    /// Works that run side by side, each with its first core: all of them share the bandwidth of the memory. As of
    /// single operations, what the host takes to launch them is not entered. Times are those of `hardware`, which a
    /// program may have been compiled for instead of the card's own.
    ///
    /// # Errors
    /// More cores than the card has.
    pub fn prepare_wave(
        &self,
        wave: &[(&OperationWork, usize)],
        hardware: &Hardware,
    ) -> Result<PreparedWave> {
        let all: usize = wave.iter().map(|(work, _)| work.cores.len()).sum();
        let mut works = Vec::with_capacity(wave.len());
        for (work, first) in wave {
            let mut cost = hardware.operation_cost(work);
            // The cores of the other works take their share of the bandwidth.
            cost.latency = hardware.latency_beside(work, all - work.cores.len());
            let mut shifted = (*work).clone();
            // Idle cores in front, so that the work is entered for the cores that run it.
            shifted.cores.splice(0..0, vec![Default::default(); *first]);
            cost.latency.cores.splice(0..0, vec![Default::default(); *first]);
            self.check_work(&shifted)?;
            works.push((shifted, cost));
        }
        Ok(PreparedWave { works })
    }

    /// Enters works that ran side by side just now into the accounts, at the end of their stream.
    pub fn enter_wave(&self, stream: StreamId, wave: &PreparedWave) {
        let mut log = self.lock_log();
        let begin = log.schedule.stream_clock(stream);
        let mut end = begin;
        for (work, cost) in &wave.works {
            // Every work of a wave begins at the same time, whereas work of a stream otherwise begins after the one
            // before it.
            log.schedule.begin_at(stream, begin);
            end = end.max(self.place_costed_work(&mut log, stream, work, cost).end);
        }
        log.schedule.begin_at(stream, end);
    }

    /// Enters an exchange with other cards that was just done, at the end of its stream. It starts when the last of the
    /// cards is `ready`, so that cards which exchange that time agree on when it ends. `args` is what
    /// traces record of it besides its cost.
    pub fn account_exchange(
        &self,
        stream: StreamId,
        name: &str,
        cost: LinkCost,
        ready: SimulatedTime,
        args: &RecordingStamp,
    ) -> TimeSpan {
        let mut log = self.lock_log();
        let waits = ready - log.schedule.stream_clock(stream);
        let span = log.schedule.place_exchange(stream, ready, cost.time);
        log.operations += 1;
        log.busy += cost.time;
        let name: Arc<str> = name.into();
        let recorded = [
            ("messages", cost.messages.into()),
            ("bytes", cost.bytes.into()),
            ("bound", "bound by the link to other cards".into()),
            ("waited us", waits.microseconds().into()),
            (
                "cost",
                format!("{}, {} over the busiest link", cost.time, DecimalBytes(cost.bytes)).into(),
            ),
        ];
        let draw = |timeline: &mut Timeline, stamp: RecordingStamp| {
            let all = recorded.iter().cloned().chain(args.iter().cloned()).chain(stamp);
            let all = all.map(|(name, value)| (name.to_owned(), value)).collect();
            for (track, args) in
                [(TimelineTrack::Stream(stream.number()), all), (TimelineTrack::Link, Vec::new())]
            {
                let (name, start, duration) = (name.clone(), span.start, cost.time);
                timeline.push(timeline::TimelineEvent { track, name, start, duration, args });
            }
        };
        if log.timeline.is_recording() {
            draw(&mut log.timeline, Vec::new());
        }
        for recording in &mut log.recordings {
            draw(&mut recording.timeline, (recording.stamp)());
        }
        span
    }

    /// The same of work whose cost on this card is known.
    pub(crate) fn enter_work(
        &self,
        stream: StreamId,
        work: &OperationWork,
        cost: &OperationCost,
    ) -> WorkReceipt {
        let span = self.place_costed_work(&mut self.lock_log(), stream, work, cost);
        WorkReceipt { span, cost: cost.clone() }
    }

    /// What was settled for operations that ran before.
    pub(crate) fn recalled_ops(&self) -> &RecalledOps {
        &self.0.recalled
    }

    /// The event that everything submitted to a stream so far is done.
    pub fn record_event(&self, stream: StreamId) -> CardEvent {
        let log = self.lock_log();
        self.0.streams.record_event(stream, log.schedule.stream_clock(stream))
    }

    /// Later work of a stream waits for an event of this card.
    pub fn wait_for_event(&self, stream: StreamId, event: &CardEvent) -> Result<()> {
        let mut log = self.lock_log();
        self.0.streams.wait_for_event(stream, event)?;
        log.schedule.wait_until(stream, event.simulated_time());
        Ok(())
    }

    /// Waits for a stream; raises and clears its error.
    pub fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.0.streams.synchronize_stream(stream)
    }

    /// Waits for all streams; raises and clears the error of the first that failed.
    pub fn synchronize_all(&self) -> Result<()> {
        self.0.streams.synchronize_all()
    }

    /// When the work of a stream is done, in simulated time.
    pub fn stream_time(&self, stream: StreamId) -> SimulatedTime {
        self.lock_log().schedule.stream_clock(stream)
    }

    /// The card at this moment.
    pub fn stats(&self) -> CardStats {
        let log = self.lock_log();
        CardStats {
            operations: log.operations,
            totals: log.totals,
            busy: log.busy,
            end: log.schedule.end_time(),
            memory: self.0.memory.stats(),
            lx: self.0.lx.stats(),
        }
    }

    /// A copy of what was recorded; empty unless the card was built with
    /// [`trace_events`](CardBuilder::trace_events).
    pub fn recorded_timeline(&self) -> Timeline {
        self.lock_log().timeline.clone()
    }

    /// Begins a recording of at most `events` events, beside the timeline and other recordings.
    /// Half of them are kept for streams: events of cores are recorded while there are fewer than that, and
    /// counted as dropped from then on. `stamp` is called at every operation for what else is recorded of
    /// it, such as the host's time. An earlier recording with the same key is forgotten.
    pub fn start_recording(&self, key: u64, events: usize, stamp: fn() -> RecordingStamp) {
        let timeline = Timeline::new(self.index(), events).with_cores_up_to(events.div_ceil(2));
        let mut log = self.lock_log();
        log.recordings.retain(|r| r.key != key);
        log.recordings.push(TimelineRecording { key, timeline, stamp });
    }

    /// Ends a recording and returns it; none where no recording has this key.
    pub fn stop_recording(&self, key: u64) -> Option<Timeline> {
        let mut log = self.lock_log();
        let at = log.recordings.iter().position(|r| r.key == key)?;
        Some(log.recordings.remove(at).timeline)
    }

    fn check_work(&self, work: &OperationWork) -> Result<()> {
        let (asked, most) = (work.cores.len(), self.0.cores);
        if asked > most {
            let op = work.name.clone();
            return Err(DeviceError::TooManyCores { op, asked, most });
        }
        Ok(())
    }

    fn place_work(&self, log: &mut CardLog, stream: StreamId, work: &OperationWork) -> WorkReceipt {
        let cost = self.0.hardware.operation_cost(work);
        let span = self.place_costed_work(log, stream, work, &cost);
        WorkReceipt { span, cost }
    }

    fn place_costed_work(
        &self,
        log: &mut CardLog,
        stream: StreamId,
        work: &OperationWork,
        cost: &OperationCost,
    ) -> TimeSpan {
        let hardware = &self.0.hardware;
        let span = log.schedule.place_work(stream, work, &cost.latency, hardware);
        log.operations += 1;
        log.totals.add_totals(&cost.totals);
        log.busy += cost.latency.time;
        if log.timeline.is_recording() || !log.recordings.is_empty() {
            // Only where somebody records: counting takes the lock of the memory.
            let allocated = self.0.memory.stats().allocated;
            let draw = |timeline: &mut Timeline, stamp| {
                timeline.record_counter("device memory", span.start, allocated);
                self.draw_work(timeline, stream, work, span, cost, stamp);
            };
            if log.timeline.is_recording() {
                draw(&mut log.timeline, Vec::new());
            }
            for recording in &mut log.recordings {
                draw(&mut recording.timeline, (recording.stamp)());
            }
        }
        span
    }

    fn draw_work(
        &self,
        out: &mut Timeline,
        stream: StreamId,
        work: &OperationWork,
        span: TimeSpan,
        cost: &OperationCost,
        stamp: RecordingStamp,
    ) {
        let name: Arc<str> = work.name.as_str().into();
        let mut push = |track, duration, args| {
            let (name, start) = (name.clone(), span.start);
            out.push(timeline::TimelineEvent { track, name, start, duration, args });
        };
        let totals = &cost.totals;
        let args = [
            ("cycles", cost.latency.cycles.into()),
            ("bound", cost.latency.bottleneck.to_string().into()),
            ("bytes in", totals.bytes_in.into()),
            ("bytes out", totals.bytes_out.into()),
            ("ring in", totals.ring_in.into()),
            ("flops", totals.flops.into()),
            ("cost", cost.to_string().into()),
        ];
        let args = args.into_iter().chain(stamp);
        let args = args.map(|(name, value)| (name.to_owned(), value)).collect();
        push(TimelineTrack::Stream(stream.number()), cost.latency.time, args);
        if work.kind.is_transfer() {
            // A transfer occupies no core.
            return push(TimelineTrack::Transfer, cost.latency.time, Vec::new());
        }
        for (core, cycles) in cost.latency.cores.iter().enumerate().filter(|(_, c)| c.total > 0) {
            let units = [
                ("PT", cycles.pt),
                ("SFU", cycles.sfu),
                ("memory", cycles.memory),
                ("LX", cycles.lx),
                ("ring", cycles.ring),
                ("ring in", cycles.ring_in),
            ];
            let args = units.into_iter().filter(|(_, n)| *n > 0);
            let args = args.map(|(unit, n)| (format!("{unit} cycles"), n.into())).collect();
            push(TimelineTrack::Core(core), self.0.hardware.cycles_to_time(cycles.total), args);
        }
    }

    // Nothing of a user runs while the log is locked, so a poisoned lock is still consistent.
    fn lock_log(&self) -> MutexGuard<'_, CardLog> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Card {
    /// Whether both are the same card; two cards of one process may have one number.
    fn eq(&self, other: &Card) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Card {}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Card({}, {}, {})", self.0.index, self.0.hardware.name(), self.0.mode)
    }
}

/// The choices of a card.
#[derive(Debug, Clone, Default)]
pub struct CardBuilder {
    index: usize,
    hardware: Option<Hardware>,
    cores: Option<usize>,
    mode: FloatMode,
    profile: CoverageProfile,
    keep: Option<KeptDtypes>,
    threads: Option<usize>,
    trace: usize,
}

impl CardBuilder {
    /// Its number; 0 by default.
    pub fn index(mut self, index: usize) -> CardBuilder {
        self.index = index;
        self
    }

    /// Its figures; the preset `card` by default.
    pub fn hardware(mut self, hardware: Hardware) -> CardBuilder {
        self.hardware = Some(hardware);
        self
    }

    /// Cores that operations are divided over; all by default.
    pub fn core_count(mut self, cores: usize) -> CardBuilder {
        self.cores = Some(cores);
        self
    }

    /// How 16-bit floats are stored; as on the card by default.
    pub fn float_mode(mut self, mode: FloatMode) -> CardBuilder {
        self.mode = mode;
        self
    }

    /// Which operations it runs itself; all by default.
    pub fn profile(mut self, profile: CoverageProfile) -> CardBuilder {
        self.profile = profile;
        self
    }

    /// Which dtypes are stored with all their bits by default; as the profile says ([`KeptDtypes::under_profile`]) without it.
    pub fn keep_dtypes(mut self, keep: KeptDtypes) -> CardBuilder {
        self.keep = Some(keep);
        self
    }

    /// Host threads that simulate it; as many as the machine has cores by default.
    pub fn host_threads(mut self, threads: usize) -> CardBuilder {
        self.threads = Some(threads.max(1));
        self
    }

    /// Keeps a timeline of at most this many events; none by default.
    pub fn trace_events(mut self, events: usize) -> CardBuilder {
        self.trace = events;
        self
    }

    /// The card, empty.
    pub fn build(self) -> Result<Card> {
        let hardware = self.hardware.unwrap_or_else(Hardware::card_preset);
        let most = hardware.core_count();
        let cores = self.cores.unwrap_or(most);
        if cores == 0 || cores > most {
            return Err(DeviceError::BadCoreCount { cores, most });
        }
        let log = CardLog {
            schedule: CardSchedule::new(most),
            timeline: Timeline::new(self.index, self.trace),
            recordings: Vec::new(),
            operations: 0,
            totals: WorkTotals::default(),
            busy: SimulatedTime::ZERO,
        };
        Ok(Card(Arc::new(CardInner {
            index: self.index,
            cores,
            mode: self.mode,
            profile: self.profile,
            keep: self.keep.unwrap_or(KeptDtypes::under_profile(self.profile)),
            threads: self.threads.unwrap_or_else(zellige_host::available_cores),
            memory: DeviceMemory::new(&hardware.address_segments())?,
            lx: LxScratchpads::new(most, hardware.figure_count(zellige_machine::Key::LxSize))?,
            streams: CardStreams::new(self.index),
            log: Mutex::new(log),
            recalled: RecalledOps::default(),
            hardware,
        })))
    }
}

/// The cards of a process, by number.
#[derive(Debug, Clone)]
pub struct CardSet(Vec<Card>);

impl CardSet {
    /// `count` cards with the same choices, numbered from 0.
    pub fn new(count: usize, choices: &CardBuilder) -> Result<CardSet> {
        (0..count).map(|i| choices.clone().index(i).build()).collect::<Result<_>>().map(CardSet)
    }

    /// How many there are.
    pub fn card_count(&self) -> usize {
        self.0.len()
    }

    /// Card number `index`.
    pub fn get(&self, index: usize) -> Result<&Card> {
        let count = self.0.len();
        self.0.get(index).ok_or(DeviceError::NoSuchCard { index, count })
    }
}
