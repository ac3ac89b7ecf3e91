//! What a page is drawn from: the published JSON of a report, as far as it is drawn.

use serde::Deserialize;

/// A report. Fields that a page has no use for are passed over.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Model {
    /// The name of the graph.
    pub graph: String,
    /// The hardware.
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
    /// Every step.
    pub steps: Vec<Step>,
    /// Bytes in use of one core's scratchpad.
    pub lx: Occupancy,
    /// Bytes in use of the pool.
    pub pool: Occupancy,
    /// Operations that the host does.
    pub fallbacks: Vec<Remark>,
    /// Narrowed tensors.
    pub casts: Vec<Remark>,
    /// What else is worth knowing.
    pub notes: Vec<Note>,
    /// The same graph under another policy.
    pub comparison: Option<Comparison>,
}

macro_rules! data {
    ($(#[doc = $doc:literal] $name:ident { $($(#[doc = $fd:literal])+ $field:ident: $ty:ty,)* })*) => {
        $(
            #[doc = $doc]
            #[derive(Debug, Clone, PartialEq, Default, Deserialize)]
            #[serde(default)]
            pub struct $name {
                $($(#[doc = $fd])+ pub $field: $ty,)*
            }
        )*
    };
}

data! {
    /// Hardware.
    Machine {
        /// The preset.
        name: String,
        /// Cores there are.
        cores: usize,
        /// Peak of all cores.
        peak_tflops: f64,
        /// What a matrix product sustains.
        matmul_tflops: f64,
        /// Peak of the memory.
        memory_gb_s: f64,
        /// What reading or writing alone sustains.
        sustained_gb_s: f64,
        /// Bytes of a core's scratchpad.
        lx_bytes: u64,
    }
    /// What was asked.
    Options {
        /// Who decides.
        policy: String,
        /// What the card runs itself.
        coverage: String,
        /// Cores that operations are divided over.
        cores: usize,
        /// Layouts of weights: `free` or `given`.
        weights: String,
    }
    /// Totals of a run.
    Summary {
        /// How long a run takes.
        latency_us: f64,
        /// How long loading takes.
        load_us: f64,
        /// Operations.
        ops: usize,
        /// Moves in every run.
        moves: usize,
        /// Moves at loading.
        load_moves: usize,
        /// Bytes of memory traffic.
        bytes: u64,
        /// Useful operations.
        flops: u64,
        /// Share of the traffic that is padding.
        padding: f64,
        /// Bytes of moves.
        move_bytes: u64,
        /// Time of moves.
        move_us: f64,
        /// Time of the host's operations.
        host_us: f64,
        /// The most cores at once.
        cores: usize,
        /// Mean of the cores beside the slowest.
        balance: f64,
        /// Busy time of all cores.
        utilisation: f64,
        /// Buffers in scratchpads.
        lx_buffers: usize,
        /// Reads from scratchpads.
        lx_hits: usize,
        /// Traffic that they save.
        lx_saved_bytes: u64,
        /// The most bytes of the pool.
        pool_peak: u64,
        /// Bytes of weights.
        weight_bytes: u64,
        /// Bytes of inputs.
        input_bytes: u64,
    }
    /// What is proved of the layouts.
    Certificate {
        /// Whether nothing is better.
        optimal: bool,
        /// How far from the least it may be.
        gap: Option<f64>,
        /// In a sentence.
        text: String,
    }
    /// Time by what bounds it.
    Unit {
        /// The bottleneck.
        name: String,
        /// Steps.
        steps: usize,
        /// Their time.
        us: f64,
    }
    /// How a tensor lies.
    Shape {
        /// Extents.
        size: Vec<i64>,
        /// The dimension along the lanes.
        stick: Option<usize>,
        /// Device dimensions from the slowest.
        order: String,
        /// Extents on the device.
        device_size: Vec<i64>,
        /// Host strides of the device dimensions.
        stride_map: Vec<i64>,
        /// The format of elements.
        format: String,
    }
    /// A buffer.
    Tensor {
        /// Its name.
        name: String,
        /// Where its elements come from.
        origin: String,
        /// Dtype.
        dtype: String,
        /// How it lies.
        layout: Shape,
        /// Bytes with padding.
        bytes: u64,
        /// Share of padding.
        padding: f64,
        /// Where it lives.
        place: String,
        /// At which byte.
        address: Option<u64>,
        /// In whose place.
        over: Option<String>,
        /// Whether it is there before a run.
        loaded: bool,
        /// The step that writes it.
        written_by: Option<usize>,
        /// The steps that read it.
        read_by: Vec<usize>,
        /// Whether the caller gets it.
        output: bool,
    }
    /// One side of a move.
    Side {
        /// The buffer.
        buffer: String,
        /// How it lies.
        layout: Shape,
    }
    /// An inserted move.
    Move {
        /// The step that does it.
        step: usize,
        /// The tensor.
        tensor: String,
        /// From.
        from: Side,
        /// To.
        to: Side,
        /// Why.
        reason: String,
        /// Who asked first.
        reader: Option<String>,
        /// How many share it.
        readers: usize,
        /// Bytes read and written.
        bytes: u64,
        /// How long it takes.
        us: f64,
        /// Whether it is done once.
        load: bool,
    }
    /// A dimension of a step's loops.
    Dim {
        /// Its name.
        name: String,
        /// Iterations.
        size: usize,
        /// Iterations that stay together.
        unit: usize,
        /// Whether it is summed over.
        reduced: bool,
        /// Slices.
        split: usize,
    }
    /// An operand or a result.
    Operand {
        /// The buffer, by number.
        buffer: usize,
        /// Its name.
        name: String,
        /// The size that the step sees.
        size: Vec<i64>,
        /// Whether it is in scratchpads.
        lx: bool,
    }
    /// Neighbouring cores that are busy equally long.
    Cores {
        /// How many.
        cores: usize,
        /// How long.
        us: f64,
    }
    /// A step.
    Step {
        /// Its name.
        name: String,
        /// The operation.
        op: String,
        /// `op`, `host` or `move`.
        kind: String,
        /// Its family, which gives it its colour.
        family: String,
        /// Attributes as written.
        attributes: String,
        /// Where the source says it.
        at: Option<String>,
        /// Operands.
        reads: Vec<Operand>,
        /// Results.
        writes: Vec<Operand>,
        /// Whether it runs once, at loading.
        load: bool,
        /// The loops.
        dims: Vec<Dim>,
        /// Who decided the splits.
        decided_by: String,
        /// Why.
        reason: String,
        /// Cores that work.
        cores: usize,
        /// The first of them.
        first_core: usize,
        /// How long cores are busy.
        busy: Vec<Cores>,
        /// When it starts.
        start_us: f64,
        /// How long it takes.
        us: f64,
        /// What bounds it.
        bottleneck: String,
        /// Bytes read.
        bytes_in: u64,
        /// Bytes written.
        bytes_out: u64,
        /// Bytes that scratchpads save.
        lx_saved_bytes: u64,
        /// Useful operations.
        flops: u64,
        /// Operations per byte.
        intensity: Option<f64>,
        /// What it reaches.
        tflops: f64,
    }
    /// Bytes over time.
    Occupancy {
        /// Bytes there are.
        limit: u64,
        /// The most in use.
        peak: u64,
        /// From when on, how many.
        points: Vec<(f64, u64)>,
    }
    /// A fallback or a narrowed tensor.
    Remark {
        /// The result of a fallback.
        name: String,
        /// The tensor that is narrowed.
        tensor: String,
        /// The operation.
        op: String,
        /// Where the source says it.
        at: Option<String>,
        /// How long the round trip takes.
        us: f64,
        /// Bytes of it.
        bytes: u64,
        /// What is lost.
        loss: String,
        /// What would help.
        remedy: String,
    }
    /// Something worth knowing.
    Note {
        /// A stable word.
        kind: String,
        /// The operation.
        op: Option<String>,
        /// Its result.
        name: Option<String>,
        /// Where the source says it.
        at: Option<String>,
        /// What is so.
        text: String,
        /// What to do.
        remedy: Option<String>,
    }
    /// Another policy.
    Comparison {
        /// Its name.
        policy: String,
        /// Its latency.
        latency_us: f64,
        /// Its moves.
        moves: usize,
        /// Their time.
        move_us: f64,
        /// Their bytes.
        move_bytes: u64,
        /// All traffic.
        bytes: u64,
        /// The other latency over this one.
        speedup: f64,
    }
}
