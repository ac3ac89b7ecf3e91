/// The types of a report, generated from crates/report: ZELLIGE_BLESS=1 cargo test -p zellige-report writes this file again.

/// What `zellige compile --json` writes: what the compiler decided, why, and what it costs. Times are
/// simulated microseconds (`us`) from the beginning of a run; bytes are bytes of device memory, padding
/// included.
export interface Report {
  /// The version of this format.
  version: 5;
  /// The name of the graph.
  graph: string;
  /// The hardware, with the figures that a roofline needs.
  machine: MachineFigures;
  /// The options of the compilation.
  options: CompileSettings;
  /// Totals of a run.
  summary: RunTotals;
  /// What is proved about the choice of layouts.
  certificate: LayoutCertificate;
  /// The time of a run by bottleneck, the longest first.
  units: BottleneckTime[];
  /// Every buffer.
  tensors: ReportedBuffer[];
  /// Every move that the compiler inserted.
  moves: ReportedMove[];
  /// Every step, moves included, in an order in which they can run.
  steps: ReportedStep[];
  /// What the host launches, in order: all steps, each in one bundle.
  bundles: ReportedBundle[];
  /// Bytes in use of one core's scratchpad.
  lx: MemoryOccupancy;
  /// Bytes in use of the program's pool of device memory.
  pool: MemoryOccupancy;
  /// Operations that the host computes.
  fallbacks: HostFallback[];
  /// Tensors whose elements are narrower on the card than in the graph.
  casts: NarrowedTensor[];
  /// What else deserves attention.
  notes: ReportNote[];
  /// The same graph under another policy, where the comparison was requested.
  comparison: PolicyComparison | null;
}

/// The figures of the hardware that a reader of a report needs.
export interface MachineFigures {
  /// The name of the hardware preset.
  name: string;
  /// Number of cores.
  cores: number;
  /// Peak of all cores, in TFLOP/s.
  peak_tflops: number;
  /// What a matrix product sustains on all cores, in TFLOP/s.
  matmul_tflops: number;
  /// Peak bandwidth of device memory, in GB/s.
  memory_gb_s: number;
  /// What reading or writing alone sustains, in GB/s.
  sustained_gb_s: number;
  /// Bandwidth of the link to the host, in GB/s.
  host_gb_s: number;
  /// What the host takes for one launch, in microseconds; 0 where the preset has no such figure.
  launch_us: number;
  /// What it launches at once.
  launch_unit: LaunchUnitName;
  /// Bytes of a core's scratchpad.
  lx_bytes: number;
  /// Clock of the cores, in GHz.
  clock_ghz: number;
}

/// What the host launches at once.
/// "wave": A step, or several that run side by side.
/// "bundle": All steps of the card between two of the host.
export type LaunchUnitName = "wave" | "bundle";

/// The options of a compilation.
export interface CompileSettings {
  /// How the compiler decides.
  policy: PolicyName;
  /// Which operations the card runs itself.
  coverage: CoverageName;
  /// Number of cores that operations are divided over.
  cores: number;
  /// Which layouts weights may have.
  weights: WeightLayouts;
  /// Which layouts the outputs have.
  outputs: OutputLayouts;
  /// Whether a layout that torch-spyre refuses is an error, instead of repaired by a move.
  strict: boolean;
  /// How scratchpads are planned; null where everything stays in device memory.
  scratchpads: string | null;
  /// Whether operations may run at the same time: in a bundle they follow each other.
  concurrent: boolean;
  /// How 16-bit floats are stored.
  mode: string;
  /// Whether float32 keeps its 32 bits on the card.
  keep_fp32: boolean;
  /// Whether int64 keeps its 64 bits on the card.
  keep_int64: boolean;
}

/// How the compiler decides.
/// "best": The least cost of the whole graph.
/// "baseline": As torch-spyre (summer 2026) decides.
export type PolicyName = "best" | "baseline";

/// Which operations the card runs itself.
/// "full": All of them.
/// "card": Those that torch-spyre has; the host computes the others.
export type CoverageName = "full" | "card";

/// Which layouts weights may have.
/// "free": The compiler chooses their layouts.
/// "given": They keep the layout in which they come.
export type WeightLayouts = "free" | "given";

/// Which layouts the outputs of the graph have.
/// "default": The default layout of their shape.
/// "as_computed": The layout in which they were computed.
export type OutputLayouts = "default" | "as_computed";

/// Totals of a run.
export interface RunTotals {
  /// How long a run takes.
  latency_us: number;
  /// How much of that the host takes for launches.
  launch_us: number;
  /// How often it launches something: a bundle of steps, or a wave of steps that run side by side.
  launches: number;
  /// How long the moves and operations take that are done once, when weights are loaded.
  load_us: number;
  /// Operations of the graph in every run.
  ops: number;
  /// Moves in every run.
  moves: number;
  /// Moves that are done once, when weights are loaded.
  load_moves: number;
  /// Bytes of device memory read and written.
  bytes: number;
  /// Useful floating-point operations.
  flops: number;
  /// Bytes of that traffic that are padding.
  padding_bytes: number;
  /// Padding as a share of that traffic, from 0 to 1.
  padding: number;
  /// Bytes that the moves of every run read and write.
  move_bytes: number;
  /// How long the moves of every run take.
  move_us: number;
  /// How long the operations of the host take, transfers included.
  host_us: number;
  /// The most cores that work at the same time.
  cores: number;
  /// Mean work of the cores in use divided by that of the slowest, weighted by time.
  balance: number;
  /// Busy time of all cores as a share of the run's time on all cores.
  utilisation: number;
  /// Buffers that live in scratchpads.
  lx_buffers: number;
  /// Operands that are read from a scratchpad.
  lx_hits: number;
  /// Bytes of device memory traffic that scratchpads save.
  lx_saved_bytes: number;
  /// The most bytes of the pool in use.
  pool_peak: number;
  /// Bytes of weights and constants on the card.
  weight_bytes: number;
  /// Bytes of inputs and states on the card.
  input_bytes: number;
}

/// What is proved about the choice of layouts, and what was tried to find the program that they lead to. The
/// sum of costs is proved; the time of the program is that of the fastest one that was tried.
export interface LayoutCertificate {
  /// The cost of the layouts, in `unit`: every operation in its default division, and all moves.
  cost: number;
  /// A lower bound of the cost of all choices; 0 where nothing is proved.
  bound: number;
  /// What `cost` and `bound` count.
  unit: string;
  /// Whether the two are equal, so that no choice of layouts has a smaller sum of costs. Another choice may
  /// have the faster program.
  least_sum: boolean;
  /// How far the cost may be above the least, as a share of the bound; null where nothing is proved.
  gap: number | null;
  /// Number of combinations of layouts, as a power of two.
  choices_log2: number;
  /// The most variables in one table of the search.
  width: number;
  /// Whether none of the work divisions and scratchpad plans that were considered takes less time.
  divisions_optimal: boolean;
  /// Cycles of the steps of a run one after the other, each with its launch where steps have one, divided and
  /// with what the scratchpads keep; what is done when weights are loaded counts a thousandth.
  steps: number;
  /// No program with the layouts that were considered has a smaller such sum, however it is divided and
  /// whatever its scratchpads keep; 0 where nothing is proved.
  steps_bound: number;
  /// Different programs that were planned to their end, of which this one is the fastest. Those whose
  /// launches and moves alone take longer are not planned.
  programs: number;
  /// Whether every other layout of every single tensor was tried, with everything else chosen anew.
  complete: boolean;
  /// Pins of a single intermediate result with which the graph was compiled too; those that mean the same
  /// layout count once.
  pins: number;
  /// Whether these are all pins of a stick, of an order and of one element a stick.
  pins_complete: boolean;
  /// The pin with which the graph is faster, and its time; null where none of those that were tried is.
  faster_pin: string | null;
  /// What is proved, in sentences that name the scope.
  text: string;
}

/// The time of the steps that one bottleneck bounds.
export interface BottleneckTime {
  /// The bottleneck: memory, pt, sfu, lx, ring or host; or the launches by the host.
  name: string;
  /// Number of steps in every run that it bounds.
  steps: number;
  /// How long they take together.
  us: number;
}

/// A buffer of the program.
export interface ReportedBuffer {
  /// Its name.
  name: string;
  /// The tensor of the graph that it holds.
  tensor: string;
  /// Where its elements come from.
  origin: BufferOrigin;
  /// The dtype of its elements in the graph.
  dtype: string;
  /// Its layout.
  layout: LayoutSummary;
  /// Bytes, padding included.
  bytes: number;
  /// The share of these bytes that is padding, from 0 to 1.
  padding: number;
  /// Where it lives.
  place: BufferPlace;
  /// Its first byte in the pool or in the scratchpads.
  address: number | null;
  /// The buffer in whose place it lives.
  over: string | null;
  /// Whether it is on the card before a run begins.
  loaded: boolean;
  /// The step that writes it, as a place in `steps`.
  written_by: number | null;
  /// The steps that read it, as places in `steps`.
  read_by: number[];
  /// Whether it is an output of the graph.
  output: boolean;
}

/// Where the elements of a buffer come from.
/// "input": An input of the graph.
/// "weight": A weight.
/// "state": A state that lives from run to run.
/// "constant": A constant of the graph.
/// "result": The result of an operation.
/// "copy": A copy that a move makes in another layout.
export type BufferOrigin = "input" | "weight" | "state" | "constant" | "result" | "copy";

/// The layout of a tensor on the card.
export interface LayoutSummary {
  /// Extents of the tensor.
  size: number[];
  /// The dimension along the lanes of a stick; null where each stick holds one element, or where kernels
  /// cannot read the layout.
  stick: number | null;
  /// Device dimensions from the slowest, such as `d1/64 d0 d1%64`.
  order: string;
  /// Extents on the device.
  device_size: number[];
  /// Host strides of the device dimensions.
  stride_map: number[];
  /// The number format of the elements.
  format: string;
}

/// Where a buffer lives.
/// "own": In a block of device memory of its own.
/// "pool": In the program's pool of device memory.
/// "lx": In the scratchpads of the cores.
/// "over": In the place of another buffer, which it overwrites.
export type BufferPlace = "own" | "pool" | "lx" | "over";

/// A move that the compiler inserted.
export interface ReportedMove {
  /// The step that does it, as a place in `steps`.
  step: number;
  /// The tensor of the graph.
  tensor: string;
  /// The source.
  from: MoveEnd;
  /// The destination.
  to: MoveEnd;
  /// Why it is needed.
  reason: string;
  /// The operation that needed it first; null where that was the caller.
  reader: string | null;
  /// Number of readers that share the copy.
  readers: number;
  /// Bytes read and written.
  bytes: number;
  /// How long it takes.
  us: number;
  /// Whether it is done once, when weights are loaded, and not in every run.
  load: boolean;
}

/// The source or the destination of a move.
export interface MoveEnd {
  /// The name of the buffer.
  buffer: string;
  /// Its layout.
  layout: LayoutSummary;
}

/// A step of the program.
export interface ReportedStep {
  /// Its name: that of its first result.
  name: string;
  /// The operation; `move` for a move.
  op: string;
  /// Who does it.
  kind: StepKind;
  /// What limits it on the hardware.
  family: StepFamily;
  /// The attributes of the operation, as written.
  attributes: string;
  /// File and line of the model's source.
  at: string | null;
  /// Operands.
  reads: StepOperand[];
  /// Results.
  writes: StepOperand[];
  /// Whether it runs once, when weights are loaded, and not in every run.
  load: boolean;
  /// Its loops and how they are split over the cores.
  dims: LoopDimension[];
  /// Who decided the splits.
  decided_by: string;
  /// Why the splits are these; for a move, why it is needed.
  reason: string;
  /// Number of cores that work.
  cores: number;
  /// The first of these cores.
  first_core: number;
  /// How long the cores are busy, in the order of the cores.
  busy: BusyCores[];
  /// When it starts.
  start_us: number;
  /// How long it takes.
  us: number;
  /// The unit of the hardware that bounds its time.
  bottleneck: string;
  /// The terms of its time on the core that finishes last.
  terms: StepTimeTerm[];
  /// Bytes of device memory read.
  bytes_in: number;
  /// Bytes of device memory written.
  bytes_out: number;
  /// Bytes of device memory traffic that scratchpads save.
  lx_saved_bytes: number;
  /// Useful floating-point operations.
  flops: number;
  /// FLOP per byte of device memory; null without traffic.
  intensity: number | null;
  /// TFLOP/s that it reaches.
  tflops: number;
}

/// Who does a step.
/// "op": An operation that the cores compute.
/// "host": An operation that the host computes.
/// "move": A move between two layouts.
export type StepKind = "op" | "host" | "move";

/// Groups of steps by what limits them on the hardware.
/// "matmul": Matrix products.
/// "pointwise": Operations on each element.
/// "reduction": Reductions over a dimension.
/// "move": Moves.
/// "host": Operations of the host.
/// "other": Everything else.
export type StepFamily = "matmul" | "pointwise" | "reduction" | "move" | "host" | "other";

/// An operand or a result of a step.
export interface StepOperand {
  /// The buffer, as a place in `tensors`.
  buffer: number;
  /// The name of the buffer.
  name: string;
  /// The extents that the step sees.
  size: number[];
  /// Whether it is read from or written to scratchpads.
  lx: boolean;
}

/// A dimension of a step's loops.
export interface LoopDimension {
  /// Its name in hints.
  name: string;
  /// Number of iterations.
  size: number;
  /// Iterations that one core must do together.
  unit: number;
  /// Whether it is reduced over, so that the results of its slices are combined.
  reduced: boolean;
  /// Number of slices that the cores share.
  split: number;
}

/// Neighbouring cores that are busy equally long.
export interface BusyCores {
  /// Number of these cores.
  cores: number;
  /// How long each of them is busy.
  us: number;
}

/// A term of the time of a step; the counted parts of all its terms add up to the time.
export interface StepTimeTerm {
  /// Its name.
  name: string;
  /// What stands behind it.
  meaning: string;
  /// What it would take alone.
  alone_us: number;
  /// Its part of the time of the step; 0 where a longer term hides it.
  counted_us: number;
}

/// Steps that the host launches at once as one program of the card, or one step that the host does itself. A
/// bundle is prepared at its first launch; later launches give it the addresses of its arguments and nothing
/// else.
export interface ReportedBundle {
  /// The number of its first step.
  first_step: number;
  /// How many steps it has, which follow each other.
  steps: number;
  /// Who does them.
  worker: BundleWorker;
  /// Whether it runs once, when weights are loaded, and not in every run.
  load: boolean;
  /// Whether the host launches it.
  launched: boolean;
  /// What the host takes to launch it.
  launch_us: number;
  /// When its launch begins.
  start_us: number;
  /// How long it takes, its launch included.
  us: number;
  /// Buffers with memory of their own that it reads or writes, by number: what it is given the addresses of.
  arguments: number[];
  /// Bytes of the program's pool that results take at most at a time which no other bundle uses: a pool of
  /// its own would need so many.
  pool_bytes: number;
  /// Bytes of the results in the pool that it shares with other bundles or gives to the caller.
  shared_pool_bytes: number;
}

/// Who does the steps of a bundle.
/// "device": The card.
/// "host": The host.
export type BundleWorker = "device" | "host";

/// Bytes of a memory in use over time.
export interface MemoryOccupancy {
  /// Bytes of that memory; 0 where nothing limits them.
  limit: number;
  /// The most bytes in use.
  peak: number;
  /// Pairs of a time in microseconds and the bytes in use from then on.
  points: [number, number][];
}

/// An operation that the host computes.
export interface HostFallback {
  /// The step, as a place in `steps`.
  step: number;
  /// The name of its result.
  name: string;
  /// The operation.
  op: string;
  /// File and line of the model's source.
  at: string | null;
  /// The layer of the table of operations (`zellige ops`).
  layer: string;
  /// Bytes to the host and back.
  bytes: number;
  /// How long the transfers to the host and back take.
  us: number;
  /// What would keep it on the card.
  remedy: string;
}

/// A tensor whose elements are narrower on the card than in the graph.
export interface NarrowedTensor {
  /// The tensor.
  tensor: string;
  /// Its dtype in the graph.
  dtype: string;
  /// The number format on the card.
  stored: string;
  /// What is lost.
  loss: string;
  /// What would keep all bits.
  remedy: string;
}

/// Something to know about the program, or the reason why there is none.
export interface ReportNote {
  /// The kind of note, a word that does not change between versions.
  kind: string;
  /// The operation.
  op: string | null;
  /// The name of its result.
  name: string | null;
  /// File and line of the model's source.
  at: string | null;
  /// The note.
  text: string;
  /// What to do about it.
  remedy: string | null;
}

/// The same graph under another policy.
export interface PolicyComparison {
  /// The other policy.
  policy: PolicyName;
  /// Its latency.
  latency_us: number;
  /// Its moves in every run.
  moves: number;
  /// How long they take.
  move_us: number;
  /// Bytes that they read and write.
  move_bytes: number;
  /// Bytes of device memory that it reads and writes.
  bytes: number;
  /// Its latency divided by that of this report.
  speedup: number;
}
