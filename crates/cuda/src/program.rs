//! A plan as a program for a GPU.

use crate::choose::{self, KernelChoice};
use crate::description::{BlockProgram, MoveElement};
use crate::digits::{self, ByteNest};
use crate::error::CudaError;
use crate::gpu::{Gpu, LaunchAlignment};
use crate::padded::{self, PaddedNest};
use crate::print;
use crate::rows;
use std::ops::Range;
use zellige_movement::{MoveDtypes, MoveError, MovePlan};

/// A plan as CUDA C++ with constants, and the launches that run it.
///
/// **Law**: the launches, in their order on one stream, do to the destination what [`zellige_movement::Mover::run_on_slices`]
/// does with the same plan, dtypes and fill, and touch no other byte; the source is only read, and never outside
/// of the bytes from the first to the last that the plan reads.
#[derive(Debug, Clone, PartialEq)]
pub struct CudaProgram {
    source: String,
    launches: Vec<KernelLaunch>,
    parts: Vec<ProgramPiece>,
    kernels: Vec<(String, Vec<usize>)>,
    readable: Range<i64>,
    bytes: (u64, u64),
}

/// One part of a program, and its estimated time.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramPiece {
    /// The description.
    pub part: BlockProgram,
    /// The kind of kernel: `rows`, `squares`, `tile` or `fill`.
    pub kind: &'static str,
    /// The time that the cost model expects, in seconds, without the launch.
    pub seconds: f64,
}

/// One launch of a kernel of [`CudaProgram::source_text`]. Every kernel takes
/// `(const unsigned char* src, unsigned char* dst)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The name of the `extern "C"` function.
    pub name: String,
    /// Blocks, all in x.
    pub grid: u64,
    /// Threads of a block, all in x.
    pub block: u32,
    /// Bytes of dynamic shared memory; what the kernels declare themselves is not counted.
    pub shared: u32,
}

/// Parts of one kernel, at most. A kernel has the registers of its largest part, so that many parts in one may slow one
/// another; a launch for each would cost 3 microseconds.
const MOST_PARTS: usize = 8;
/// Blocks of one launch, at most: the limit of `gridDim.x` (CUDA C++ Programming Guide, "Compute Capabilities").
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// Entries of a table in the text, at most.
const MOST_ENTRIES: usize = 1 << 16;

impl CudaProgram {
    /// The program of a plan for elements of these types. `fill` is the element that is written to the plan's
    /// fills, `None` leaves them as they are. `align` is the alignment of the two addresses.
    ///
    /// # Errors
    /// [`CudaError::Move`] with the message of the engine for the CPU for widths that are not moved, a fill of another
    /// width than an element, and sizes beyond memory. [`CudaError::Scattered`] for plans whose table of starts is too long
    /// for the text of a kernel.
    pub fn new(
        plan: &MovePlan,
        dtypes: MoveDtypes,
        fill: Option<&[u8]>,
        align: LaunchAlignment,
        gpu: &Gpu,
    ) -> Result<CudaProgram, CudaError> {
        CudaProgram::with_chooser(plan, dtypes, fill, align, &mut |nest, readable| {
            choose::choose_kernel(nest, readable, gpu)
        })
    }

    /// As [`CudaProgram::new`] with the kernel of each nest picked by its number among the candidates: for tests and
    /// measurements. A number past the last counts from the first again.
    ///
    /// # Errors
    /// As [`CudaProgram::new`].
    #[doc(hidden)]
    pub fn with_candidate(
        plan: &MovePlan,
        dtypes: MoveDtypes,
        fill: Option<&[u8]>,
        align: LaunchAlignment,
        gpu: &Gpu,
        pick: usize,
    ) -> Result<CudaProgram, CudaError> {
        CudaProgram::with_chooser(plan, dtypes, fill, align, &mut |nest, readable| {
            choose::pick_candidate(nest, readable, gpu, pick)
        })
    }

    fn with_chooser(
        plan: &MovePlan,
        dtypes: MoveDtypes,
        fill: Option<&[u8]>,
        align: LaunchAlignment,
        choose: &mut dyn FnMut(&ByteNest, &Range<i64>) -> KernelChoice,
    ) -> Result<CudaProgram, CudaError> {
        let unit = move_element(dtypes)?;
        let (ws, wd) = (i64::from(unit.src), i64::from(unit.dst));
        let src_bytes = elements_to_bytes(plan.src_len(), ws)?;
        let dst_bytes = elements_to_bytes(plan.dst_len(), wd)?;
        if let Some(value) = fill
            && value.len() != dtypes.dst_bytes()
        {
            let (needed, found) = (dtypes.dst_bytes(), value.len());
            return Err(MoveError::FillWidth { needed, found }.into());
        }
        let readable = first_read_byte(plan, ws)..src_bytes;
        let mut parts = Vec::new();
        let (mut read, mut written) = (0u64, 0u64);
        // Elements at unaligned addresses are moved as bytes, and a fill as bytes may begin anywhere in its pattern; so the
        // padding is then written by fills, which keep whole elements.
        let whole = align.src_alignment() >= unit.src && align.dst_alignment() >= unit.dst;
        let (nests, fills) = match fill {
            Some(_) if whole => padded::fold_padding(plan),
            Some(_) => (plan.nests().iter().map(PaddedNest::from).collect(), plan.fills().to_vec()),
            None => (plan.nests().iter().map(PaddedNest::from).collect(), Vec::new()),
        };
        let value = digits::repeat_fill(fill.unwrap_or(&[0]));
        for nest in nests.iter().filter(|n| n.nest.element_count() > 0) {
            let digits = ByteNest::from_padded_nest(nest, unit, align, value);
            check_table_len(&digits)?;
            read = read
                .saturating_add(nest.elements.cast_unsigned().saturating_mul(u64::from(unit.src)));
            let amount = nest.nest.element_count().cast_unsigned();
            written = written.saturating_add(amount.saturating_mul(u64::from(unit.dst)));
            let choice = choose(&digits, &readable);
            parts.push(ProgramPiece {
                part: choice.part,
                kind: choice.kind,
                seconds: choice.seconds,
            });
        }
        let whole = MoveElement { src: unit.dst, dst: unit.dst, convert: None };
        for nest in fills.iter().filter(|f| f.element_count() > 0) {
            let digits = ByteNest::from_fill_nest(nest, whole, align);
            check_table_len(&digits)?;
            let amount = nest.element_count().cast_unsigned().saturating_mul(u64::from(unit.dst));
            written = written.saturating_add(amount);
            // Four units for each thread: a fill reads nothing that it would have to wait for.
            let part = rows::describe_unit_copies(&digits.widen_fill_units(), 4, fill);
            parts.push(ProgramPiece { part, kind: "fill", seconds: 0.0 });
        }
        let kernels = group_into_kernels(&parts)?;
        let launches: Vec<KernelLaunch> = kernels
            .iter()
            .map(|(name, members)| KernelLaunch {
                name: name.clone(),
                grid: members.iter().map(|k| parts[*k].part.blocks).sum(),
                block: members.iter().map(|k| parts[*k].part.threads).max().unwrap_or(32),
                shared: print::requested_shared_bytes(members.iter().map(|k| &parts[*k].part)),
            })
            .collect();
        let all: Vec<BlockProgram> = parts.iter().map(|p| p.part.clone()).collect();
        let mut head = describe_plan(plan, dtypes);
        head.push_str(&format!(
            "reads {read} bytes of {src_bytes}, writes {written} of {dst_bytes}\n"
        ));
        for l in &launches {
            let shared = if l.shared > 0 { format!(", {}", l.shared) } else { String::new() };
            let (name, grid, block) = (&l.name, l.grid, l.block);
            head.push_str(&format!("launch {name}<<<{grid}, {block}{shared}>>>(src, dst)\n"));
        }
        let source = print::print_program(&all, &kernels, &head);
        Ok(CudaProgram { source, launches, parts, kernels, readable, bytes: (read, written) })
    }

    /// The text: compiles by NVRTC without any header; `extern "C" __global__` functions.
    pub fn source_text(&self) -> &str {
        &self.source
    }

    /// The launches, in order, on one stream. None where there is nothing to move.
    pub fn launches(&self) -> &[KernelLaunch] {
        &self.launches
    }

    /// The parts of the kernels: each is a nest or a fill of the plan.
    pub fn pieces(&self) -> &[ProgramPiece] {
        &self.parts
    }

    /// The pieces of each launch.
    pub fn pieces_by_launch(&self) -> impl Iterator<Item = &[usize]> {
        self.kernels.iter().map(|(_, members)| members.as_slice())
    }

    /// The bytes of the source, from the first to behind the last, that may be read.
    pub fn readable_range(&self) -> Range<i64> {
        self.readable.clone()
    }

    /// Bytes of elements that are read and written.
    pub fn moved_bytes(&self) -> (u64, u64) {
        self.bytes
    }
}

fn move_element(dtypes: MoveDtypes) -> Result<MoveElement, CudaError> {
    let width = |w: usize| match w {
        1 | 2 | 4 | 8 | 16 => Ok(u32::try_from(w).unwrap_or(16)),
        _ => Err(MoveError::Width(w)),
    };
    let (src, dst) = (width(dtypes.src_bytes())?, width(dtypes.dst_bytes())?);
    let convert = match dtypes {
        MoveDtypes::Formats { from, to } if from != to => Some((from, to)),
        _ => None,
    };
    Ok(MoveElement { src, dst, convert })
}

/// Elements in bytes, where an address can name them all.
fn elements_to_bytes(elements: i64, width: i64) -> Result<i64, CudaError> {
    elements.checked_mul(width).ok_or(CudaError::Move(MoveError::TooLarge))
}

/// The first byte that is read.
fn first_read_byte(plan: &MovePlan, width: i64) -> i64 {
    // Loops may read backwards from their start, so that the lowest address is not a start.
    let starts = plan.nests().iter().flat_map(|n| {
        let back: i64 = n.loops.iter().map(|l| ((l.range - 1) * l.src).min(0)).sum();
        n.starts.iter().map(move |s| s.0 + back)
    });
    starts.min().unwrap_or(0) * width
}

fn check_table_len(digits: &ByteNest) -> Result<(), CudaError> {
    let entries = digits.table.len();
    if entries > MOST_ENTRIES {
        return Err(CudaError::Scattered { entries, limit: MOST_ENTRIES });
    }
    Ok(())
}

/// Groups parts into kernels, as far as a launch has blocks for them. A launch costs more than most of the smaller parts.
fn group_into_kernels(parts: &[ProgramPiece]) -> Result<Vec<(String, Vec<usize>)>, CudaError> {
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for (k, p) in parts.iter().enumerate() {
        let blocks = p.part.blocks;
        if blocks > MOST_BLOCKS {
            return Err(CudaError::TooManyBlocks(u128::from(blocks)));
        }
        match groups.last_mut() {
            Some((sum, members)) if members.len() < MOST_PARTS && *sum + blocks <= MOST_BLOCKS => {
                *sum += blocks;
                members.push(k);
            }
            _ => groups.push((blocks, vec![k])),
        }
    }
    Ok(groups.into_iter().enumerate().map(|(i, (_, m))| (format!("move{i}"), m)).collect())
}

fn describe_plan(plan: &MovePlan, dtypes: MoveDtypes) -> String {
    let what = match dtypes {
        MoveDtypes::Formats { from, to } if from != to => format!("{from} to {to}"),
        other => format!("elements of {} bytes", other.src_bytes()),
    };
    let mut head = format!("Moves {} elements ({what}) as this plan says:\n", plan.element_count());
    // The text is a cache key and is read by people: four nests say what the kernel does.
    for nest in plan.nests().iter().take(4) {
        head.push_str(&format!("  {nest}\n"));
    }
    if plan.nests().len() > 4 {
        head.push_str(&format!("  and {} nests more\n", plan.nests().len() - 4));
    }
    head
}
