//! The table of operations: their names, textual forms and costs.

/// How an operation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KtirOpForm {
    /// `%a : T`, or more operands of one type: `%a, %b : T`.
    Same(usize),
    /// `PREDICATE, %a, %b : T`
    Compare,
    /// `%c, %a, %b : T` or `%c, %a, %b : C, T`
    Select,
    /// `%a : T to U`
    Cast,
    /// `VALUE : T`
    Constant,
    /// `ins(..) outs(..) -> T`, with so many inputs
    Structured(usize),
    /// `%a, %b : T, U`, and nothing after
    Yield,
    /// A form of its own.
    Own,
}

/// What one element of the result costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KtirCostClass {
    /// Free: names and rearrangements that use no arithmetic unit.
    Free,
    /// A float operation.
    Float,
    /// An integer operation; one on scalars is settled by the compiler and free.
    Int,
    /// exp, log and the like.
    Transcendental,
    /// Charged by the code that runs it.
    Own,
}

macro_rules! ops {
    ($($kind:ident $name:literal $form:expr, $class:ident;)*) => {
        /// An operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum KtirOpKind { $(#[doc = concat!("`", $name, "`")] $kind,)* }

        impl KtirOpKind {
            /// Every operation.
            pub const ALL: &[KtirOpKind] = &[$(KtirOpKind::$kind,)*];

            /// Its name with its dialect.
            pub fn name(self) -> &'static str {
                match self { $(KtirOpKind::$kind => $name,)* }
            }

            pub(crate) fn form(self) -> KtirOpForm {
                match self { $(KtirOpKind::$kind => $form,)* }
            }

            pub(crate) fn class(self) -> KtirCostClass {
                match self { $(KtirOpKind::$kind => KtirCostClass::$class,)* }
            }
        }
    };
}

use KtirOpForm::{Cast, Compare, Constant, Own, Same, Select, Structured, Yield};

ops! {
    ArithConstant "arith.constant" Constant, Free;
    AddF "arith.addf" Same(2), Float;
    SubF "arith.subf" Same(2), Float;
    MulF "arith.mulf" Same(2), Float;
    // As much as an addition: upstream's latency model charges n/64 cycles for every float operation.
    DivF "arith.divf" Same(2), Float;
    RemF "arith.remf" Same(2), Float;
    NegF "arith.negf" Same(1), Float;
    MaximumF "arith.maximumf" Same(2), Float;
    MinimumF "arith.minimumf" Same(2), Float;
    MaxNumF "arith.maxnumf" Same(2), Float;
    MinNumF "arith.minnumf" Same(2), Float;
    CmpF "arith.cmpf" Compare, Float;
    AddI "arith.addi" Same(2), Int;
    SubI "arith.subi" Same(2), Int;
    MulI "arith.muli" Same(2), Int;
    DivSI "arith.divsi" Same(2), Int;
    DivUI "arith.divui" Same(2), Int;
    CeilDivSI "arith.ceildivsi" Same(2), Int;
    CeilDivUI "arith.ceildivui" Same(2), Int;
    FloorDivSI "arith.floordivsi" Same(2), Int;
    RemSI "arith.remsi" Same(2), Int;
    RemUI "arith.remui" Same(2), Int;
    AndI "arith.andi" Same(2), Int;
    OrI "arith.ori" Same(2), Int;
    XOrI "arith.xori" Same(2), Int;
    ShLI "arith.shli" Same(2), Int;
    ShRSI "arith.shrsi" Same(2), Int;
    ShRUI "arith.shrui" Same(2), Int;
    MaxSI "arith.maxsi" Same(2), Int;
    MinSI "arith.minsi" Same(2), Int;
    MaxUI "arith.maxui" Same(2), Int;
    MinUI "arith.minui" Same(2), Int;
    CmpI "arith.cmpi" Compare, Int;
    // A choice between scalars steers the kernel and is settled before it runs on the unit, so it
    // is counted like integer arithmetic: only on tiles.
    ArithSelect "arith.select" Select, Int;
    ExtF "arith.extf" Cast, Float;
    TruncF "arith.truncf" Cast, Float;
    // Between floats of any two formats, of one width too.
    ConvertF "arith.convertf" Cast, Float;
    SIToFP "arith.sitofp" Cast, Int;
    UIToFP "arith.uitofp" Cast, Int;
    FPToSI "arith.fptosi" Cast, Float;
    FPToUI "arith.fptoui" Cast, Float;
    IndexCast "arith.index_cast" Cast, Int;
    IndexCastUI "arith.index_castui" Cast, Int;
    ExtSI "arith.extsi" Cast, Int;
    ExtUI "arith.extui" Cast, Int;
    TruncI "arith.trunci" Cast, Int;
    // Free because no bit changes: the same register is read as another type.
    Bitcast "arith.bitcast" Cast, Free;

    // Transcendental operations take four times as long per element in upstream's latency model:
    // 4n/64 cycles.
    Exp "math.exp" Same(1), Transcendental;
    Exp2 "math.exp2" Same(1), Transcendental;
    ExpM1 "math.expm1" Same(1), Transcendental;
    Log "math.log" Same(1), Transcendental;
    Log2 "math.log2" Same(1), Transcendental;
    Log10 "math.log10" Same(1), Transcendental;
    Log1P "math.log1p" Same(1), Transcendental;
    Sqrt "math.sqrt" Same(1), Transcendental;
    RSqrt "math.rsqrt" Same(1), Transcendental;
    Tanh "math.tanh" Same(1), Transcendental;
    Erf "math.erf" Same(1), Transcendental;
    Sin "math.sin" Same(1), Transcendental;
    Cos "math.cos" Same(1), Transcendental;
    PowF "math.powf" Same(2), Transcendental;
    Fma "math.fma" Same(3), Float;
    AbsF "math.absf" Same(1), Float;
    AbsI "math.absi" Same(1), Int;
    Ceil "math.ceil" Same(1), Float;
    Floor "math.floor" Same(1), Float;

    SpyreExp "spyreop.exp" Same(1), Transcendental;
    SpyreGelu "spyreop.gelu" Same(1), Transcendental;
    SpyreSigmoid "spyreop.sigmoid" Same(1), Transcendental;
    SpyreSilu "spyreop.silu" Same(1), Transcendental;
    SpyreSqrt "spyreop.sqrt" Same(1), Transcendental;
    SpyreReciprocal "spyreop.reciprocal" Same(1), Float;
    SpyreRealDiv "spyreop.realdiv" Same(2), Float;

    LinalgAdd "linalg.add" Structured(2), Float;
    LinalgSub "linalg.sub" Structured(2), Float;
    LinalgMul "linalg.mul" Structured(2), Float;
    LinalgDiv "linalg.div" Structured(2), Float;
    LinalgMax "linalg.max" Structured(2), Float;
    LinalgMin "linalg.min" Structured(2), Float;
    LinalgExp "linalg.exp" Structured(1), Transcendental;
    LinalgLog "linalg.log" Structured(1), Transcendental;
    LinalgSqrt "linalg.sqrt" Structured(1), Transcendental;
    LinalgTanh "linalg.tanh" Structured(1), Transcendental;
    LinalgAbs "linalg.abs" Structured(1), Float;
    LinalgNegF "linalg.negf" Structured(1), Float;
    // Products are charged by their multiply-adds where they run, not by the elements of their
    // results.
    Matmul "linalg.matmul" Structured(2), Own;
    MatmulTransposeB "linalg.matmul_transpose_b" Structured(2), Own;
    BatchMatmul "linalg.batch_matmul" Structured(2), Own;
    Matvec "linalg.matvec" Structured(2), Own;
    // Filling, broadcasting and transposing are charged for the scratchpad's port only, because no
    // arithmetic unit takes part in them.
    Fill "linalg.fill" Structured(1), Free;
    // A body is charged operation by operation; a class for the whole of it would count them twice.
    Generic "linalg.generic" Own, Own;
    Reduce "linalg.reduce" Own, Own;
    Broadcast "linalg.broadcast" Own, Free;
    Transpose "linalg.transpose" Own, Free;
    LinalgMap "linalg.map" Own, Own;
    LinalgIndex "linalg.index" Own, Free;
    LinalgYield "linalg.yield" Yield, Free;

    TensorEmpty "tensor.empty" Own, Free;
    Splat "tensor.splat" Own, Free;
    Extract "tensor.extract" Own, Free;
    ExtractSlice "tensor.extract_slice" Own, Free;
    InsertSlice "tensor.insert_slice" Own, Free;
    ExpandShape "tensor.expand_shape" Own, Free;
    CollapseShape "tensor.collapse_shape" Own, Free;
    Reshape "tensor.reshape" Own, Free;
    FromElements "tensor.from_elements" Own, Free;
    Generate "tensor.generate" Own, Free;
    Pad "tensor.pad" Own, Free;
    Concat "tensor.concat" Own, Free;
    TensorCast "tensor.cast" Cast, Free;
    TensorDim "tensor.dim" Own, Free;
    TensorYield "tensor.yield" Yield, Free;

    For "scf.for" Own, Free;
    If "scf.if" Own, Free;
    While "scf.while" Own, Free;
    Condition "scf.condition" Own, Free;
    Parallel "scf.parallel" Own, Free;
    ScfYield "scf.yield" Yield, Free;

    AffineApply "affine.apply" Own, Free;
    Call "func.call" Own, Free;
    // MLIR prints `func.return` without its dialect inside a function, and so do the texts of
    // upstream.
    Return "return" Yield, Free;

    MemRefLoad "memref.load" Own, Own;
    MemRefStore "memref.store" Own, Own;
    MemRefDim "memref.dim" Own, Free;

    TileId "ktdp.get_compute_tile_id" Own, Free;
    CoreId "ktdp.coreid" Own, Free;
    RuntimeArgExtract "ktdp.runtime_arg_extract" Own, Free;
    MemoryView "ktdp.construct_memory_view" Own, Free;
    DistributedView "ktdp.construct_distributed_memory_view" Own, Free;
    AccessTile "ktdp.construct_access_tile" Own, Free;
    IndirectTile "ktdp.construct_indirect_access_tile" Own, Free;
    Load "ktdp.load" Own, Own;
    Store "ktdp.store" Own, Own;
    // Producing is free and receiving is charged: a partial that no core receives never travels
    // over the ring.
    Produce "ktdp.inter_tile_produce" Own, Free;
    Consume "ktdp.inter_tile_consume" Own, Own;
    InterReduce "ktdp.inter_tile_reduce" Own, Own;
    ReduceScatter "ktdp.inter_tile_reduce_scatter" Own, Own;
    Gather "ktdp.inter_tile_gather" Own, Own;
    AllToAll "ktdp.inter_tile_all_to_all" Own, Own;
    Scatter "ktdp.inter_tile_scatter" Own, Own;
    YieldPartial "ktdp.yield_partial" Yield, Free;
    YieldReduced "ktdp.yield_reduced" Yield, Free;
}

impl KtirOpKind {
    /// The operation of a name; `func.return` and `call` are understood too.
    pub fn from_name(name: &str) -> Option<KtirOpKind> {
        let name = match name {
            // Both spellings occur in hand-written texts; one operation has to have one name in the
            // table.
            "func.return" => "return",
            "call" => "func.call",
            // Older names of the same operations.
            "arith.absf" => "math.absf",
            "arith.maxf" => "arith.maximumf",
            "arith.minf" => "arith.minimumf",
            other => other,
        };
        KtirOpKind::ALL.iter().copied().find(|k| k.name() == name)
    }

    /// The operation whose name is nearest to a word, if one is near.
    pub fn nearest_by_name(word: &str) -> Option<KtirOpKind> {
        if word.len() > LONGEST_NAME {
            return None;
        }
        let tail = |s: &str| s.rsplit_once('.').map_or(s.to_owned(), |(_, t)| t.to_owned());
        let own = tail(word);
        // The right name in a wrong dialect counts as one mistake.
        let distance = |k: &KtirOpKind| {
            edit_distance(word, k.name()).min(1 + edit_distance(&own, &tail(k.name())))
        };
        let best = KtirOpKind::ALL.iter().copied().min_by_key(distance)?;
        // Two slips, or one in five letters of a long name. Further away the suggestion would be a
        // guess that sends the reader to an unrelated operation.
        (distance(&best) <= 2.max(word.len() / 5)).then_some(best)
    }

    /// What one element costs in a model: the emulator's takes casts for free and a selection for arithmetic of floats.
    pub(crate) fn class_in(self, model: zellige_machine::CycleModel) -> KtirCostClass {
        match (model, self.form()) {
            (zellige_machine::CycleModel::Ktir, KtirOpForm::Cast) => KtirCostClass::Free,
            (zellige_machine::CycleModel::Ktir, KtirOpForm::Select) => KtirCostClass::Float,
            _ => self.class(),
        }
    }

    /// Whether it ends a block.
    pub fn is_terminator(self) -> bool {
        self.form() == KtirOpForm::Yield || self == KtirOpKind::Condition
    }

    /// Whether it receives what other cores produced.
    pub fn is_delivery(self) -> bool {
        matches!(
            self,
            KtirOpKind::Consume
                | KtirOpKind::InterReduce
                | KtirOpKind::ReduceScatter
                | KtirOpKind::Gather
                | KtirOpKind::AllToAll
                | KtirOpKind::Scatter
        )
    }

    /// Whether it works on the elements of tiles one by one, and so also in the body of a generic.
    pub(crate) fn is_pointwise(self) -> bool {
        matches!(
            self.form(),
            KtirOpForm::Same(_) | KtirOpForm::Compare | KtirOpForm::Select | KtirOpForm::Cast
        ) && self != KtirOpKind::TensorCast
    }
}

/// The longest name, in bytes, for which a suggestion is looked for: the time grows with the
/// product of two lengths.
// The longest name of the table, `ktdp.construct_distributed_memory_view`, has 38 bytes, so a word
// beyond this cannot be a misspelling of any of them.
pub(crate) const LONGEST_NAME: usize = 100;

/// Insertions, deletions and replacements between two words.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // One row of the Levenshtein table is enough, because each entry depends on its left, upper and
    // upper-left neighbours only.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let up = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y)).min(up + 1).min(row[j] + 1);
            diagonal = up;
        }
    }
    row[b.len()]
}
