//! The types of a report.

use serde::Serialize;

/// Everything that is to be said about a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of this format.
    pub version: u32,
    /// The name of the graph.
    pub graph: String,
    /// The hardware, with what a roofline needs.
    pub machine: Machine,
    /// What was asked.
    pub options: Options,
    /// Totals.
    pub summary: Summary,
    /// What is proved of the layouts.
    pub certificate: Certificate,
    /// Time by what bounds it.
    pub units: Vec<Unit>,
    /// Every buffer.
    pub tensors: Vec<Tensor>,
    /// Every inserted move.
    pub moves: Vec<Move>,
    /// Every step, moves included, in the order they can run.
    pub steps: Vec<Step>,
    /// Bytes in use of one core's scratchpad.
    pub lx: Occupancy,
    /// Bytes in use of the program's pool.
    pub pool: Occupancy,
    /// Operations that the host does.
    pub fallbacks: Vec<Fallback>,
    /// Tensors whose elements are narrower on the card.
    pub casts: Vec<Cast>,
    /// What else is worth knowing.
    pub notes: Vec<Note>,
    /// The same graph under another policy.
    pub comparison: Option<Comparison>,
}

/// Hardware in the figures that a reader needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The preset.
    pub name: String,
    /// Cores there are.
    pub cores: usize,
    /// Peak of all cores, in TFLOP/s.
    pub peak_tflops: f64,
    /// What a matrix product sustains, in TFLOP/s.
    pub matmul_tflops: f64,
    /// Peak of the memory, in GB/s.
    pub memory_gb_s: f64,
    /// What reading or writing alone sustains, in GB/s.
    pub sustained_gb_s: f64,
    /// The link to the host, in GB/s.
    pub host_gb_s: f64,
    /// Bytes of a core's scratchpad.
    pub lx_bytes: u64,
    /// Clock of the cores, in GHz.
    pub clock_ghz: f64,
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// `best` or `baseline`.
    pub policy: &'static str,
    /// `full` or `card`.
    pub coverage: String,
    /// Cores that operations are divided over.
    pub cores: usize,
    /// Whether weights lie as the compiler wants (`free`) or as they come (`given`).
    pub weights: &'static str,
    /// Whether outputs lie by `default` or `as_computed`.
    pub outputs: &'static str,
    /// Whether infeasible layouts are errors.
    pub strict: bool,
    /// How scratchpads are planned; none leaves everything in device memory.
    pub scratchpads: Option<&'static str>,
    /// Whether operations may run at the same time.
    pub concurrent: bool,
    /// How 16-bit floats are stored.
    pub mode: String,
    /// Whether float32 is stored as it is.
    pub keep_fp32: bool,
    /// Whether int64 is stored as it is.
    pub keep_int64: bool,
}

/// Totals of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// How long a run takes.
    pub latency_us: f64,
    /// How long moves and operations at loading take, once.
    pub load_us: f64,
    /// Operations of the graph that run.
    pub ops: usize,
    /// Moves in every run.
    pub moves: usize,
    /// Moves at loading.
    pub load_moves: usize,
    /// Bytes read from and written to device memory.
    pub bytes: u64,
    /// Useful floating-point operations.
    pub flops: u64,
    /// Bytes of that traffic that hold no element.
    pub padding_bytes: u64,
    /// The same as a share.
    pub padding: f64,
    /// Bytes that moves read and write in every run.
    pub move_bytes: u64,
    /// How long the moves of every run take.
    pub move_us: f64,
    /// How long the host's operations take, round trips included.
    pub host_us: f64,
    /// The most cores that work at once.
    pub cores: usize,
    /// Mean work of the cores in use beside that of the slowest, weighed by time.
    pub balance: f64,
    /// Time that cores are busy, of all the time of all cores.
    pub utilisation: f64,
    /// Buffers that live in scratchpads.
    pub lx_buffers: usize,
    /// Operands that are read from a scratchpad.
    pub lx_hits: usize,
    /// Bytes of device memory traffic that scratchpads save.
    pub lx_saved_bytes: u64,
    /// The most bytes of the pool in use.
    pub pool_peak: u64,
    /// Bytes of weights and constants on the card.
    pub weight_bytes: u64,
    /// Bytes of inputs and states.
    pub input_bytes: u64,
}

/// What is proved of the choice of layouts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The cost as the policy counts.
    pub cost: u64,
    /// No assignment costs less; 0 where nothing is proved.
    pub bound: u64,
    /// What both count.
    pub unit: &'static str,
    /// Whether the two are equal.
    pub optimal: bool,
    /// How far the cost may be above the least, as a share of the bound; none where nothing is proved.
    pub gap: Option<f64>,
    /// Combinations there are, as a power of two.
    pub choices_log2: f64,
    /// The most variables that met in one table.
    pub width: usize,
    /// Whether no other divisions and residents of scratchpads that were considered take less time.
    pub divisions_optimal: bool,
    /// What is proved of layouts, in a sentence.
    pub text: String,
}

/// Time by what bounds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unit {
    /// The bottleneck: memory, pt, sfu, lx, ring, host.
    pub name: String,
    /// Steps of every run that it bounds.
    pub steps: usize,
    /// How long they take together.
    pub us: f64,
}

/// How a tensor lies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shape {
    /// Extents.
    pub size: Vec<i64>,
    /// The dimension along the lanes; none where each stick holds one element, or where kernels cannot
    /// read it.
    pub stick: Option<usize>,
    /// Device dimensions from the slowest, such as `d1/64 d0 d1%64`.
    pub order: String,
    /// Extents on the device.
    pub device_size: Vec<i64>,
    /// Host strides of the device dimensions.
    pub stride_map: Vec<i64>,
    /// The format of elements.
    pub format: String,
}

/// A buffer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// The tensor of the graph that it holds.
    pub tensor: String,
    /// `input`, `weight`, `state`, `constant`, `result` or `copy`.
    pub origin: &'static str,
    /// The dtype of its elements.
    pub dtype: &'static str,
    /// How it lies.
    pub layout: Shape,
    /// Bytes with padding.
    pub bytes: u64,
    /// The share of them that is padding.
    pub padding: f64,
    /// `own`, `pool`, `lx` or `over`.
    pub place: &'static str,
    /// The byte in the pool or in the scratchpads.
    pub address: Option<u64>,
    /// The buffer in whose place it lives.
    pub over: Option<String>,
    /// Whether it is there before a run begins.
    pub loaded: bool,
    /// The step that writes it.
    pub written_by: Option<usize>,
    /// The steps that read it.
    pub read_by: Vec<usize>,
    /// Whether the caller gets it.
    pub output: bool,
}

/// One side of a move.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The buffer.
    pub buffer: String,
    /// How it lies.
    pub layout: Shape,
}

/// An inserted move.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Move {
    /// The step that does it.
    pub step: usize,
    /// The tensor of the graph.
    pub tensor: String,
    /// From.
    pub from: Side,
    /// To.
    pub to: Side,
    /// Why.
    pub reason: String,
    /// The operation that asked first; none is the caller.
    pub reader: Option<String>,
    /// How many readers share the copy.
    pub readers: usize,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long it takes.
    pub us: f64,
    /// Whether it is done once, when weights are loaded.
    pub load: bool,
}

/// A dimension of a step's loops.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dim {
    /// Its name in hints.
    pub name: String,
    /// Iterations.
    pub size: usize,
    /// Iterations that stay together.
    pub unit: usize,
    /// Whether results of its slices are combined.
    pub reduced: bool,
    /// Slices.
    pub split: usize,
}

/// An operand or a result of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Operand {
    /// The buffer.
    pub buffer: usize,
    /// Its name.
    pub name: String,
    /// The size that the step sees.
    pub size: Vec<i64>,
    /// Whether it is read from or written to scratchpads.
    pub lx: bool,
}

/// Neighbouring cores that are busy equally long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cores {
    /// How many.
    pub cores: usize,
    /// How long each is busy.
    pub us: f64,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The operation; `move` of a move.
    pub op: String,
    /// `op`, `host` or `move`.
    pub kind: &'static str,
    /// What it is to the figures of the hardware.
    pub family: &'static str,
    /// Attributes as written.
    pub attributes: String,
    /// Where the model's source says it.
    pub at: Option<String>,
    /// Operands.
    pub reads: Vec<Operand>,
    /// Results.
    pub writes: Vec<Operand>,
    /// Whether it runs when weights are loaded, and not in every run.
    pub load: bool,
    /// The loops with their splits.
    pub dims: Vec<Dim>,
    /// Who decided the splits.
    pub decided_by: String,
    /// Why.
    pub reason: String,
    /// Cores that work.
    pub cores: usize,
    /// The first of them.
    pub first_core: usize,
    /// How long the cores are busy.
    pub busy: Vec<Cores>,
    /// When it starts.
    pub start_us: f64,
    /// How long it takes.
    pub us: f64,
    /// What bounds it.
    pub bottleneck: String,
    /// Bytes of device memory read.
    pub bytes_in: u64,
    /// Bytes of device memory written.
    pub bytes_out: u64,
    /// Bytes that scratchpads save it.
    pub lx_saved_bytes: u64,
    /// Useful floating-point operations.
    pub flops: u64,
    /// FLOP per byte of device memory; none without traffic.
    pub intensity: Option<f64>,
    /// TFLOP/s that it reaches.
    pub tflops: f64,
}

/// Bytes in use over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Occupancy {
    /// Bytes there are; 0 where nothing limits them.
    pub limit: u64,
    /// The most in use.
    pub peak: u64,
    /// From this microsecond on, this many bytes.
    pub points: Vec<(f64, u64)>,
}

/// An operation that the host does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fallback {
    /// The step.
    pub step: usize,
    /// Its result.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Where the model's source says it.
    pub at: Option<String>,
    /// The layer of the table.
    pub layer: &'static str,
    /// Bytes to the host and back.
    pub bytes: u64,
    /// How long the round trip takes.
    pub us: f64,
    /// What would keep it on the card.
    pub remedy: String,
}

/// A tensor whose elements are narrower on the card than in PyTorch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cast {
    /// The tensor.
    pub tensor: String,
    /// Its dtype.
    pub dtype: &'static str,
    /// The format on the card.
    pub stored: String,
    /// What that means.
    pub loss: String,
    /// What would keep it.
    pub remedy: String,
}

/// Something worth knowing, or the reason that there is no program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// A stable word.
    pub kind: String,
    /// The operation.
    pub op: Option<String>,
    /// Its result.
    pub name: Option<String>,
    /// Where the model's source says it.
    pub at: Option<String>,
    /// What is so.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// The same graph under another policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The other policy.
    pub policy: &'static str,
    /// Its latency.
    pub latency_us: f64,
    /// Its moves in every run.
    pub moves: usize,
    /// How long they take.
    pub move_us: f64,
    /// Bytes of them.
    pub move_bytes: u64,
    /// Bytes of device memory read and written.
    pub bytes: u64,
    /// The other latency over this one.
    pub speedup: f64,
}
